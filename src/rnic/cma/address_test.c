/* SPDX-License-Identifier: Apache-2.0 */
/* Which address, which device: in a network namespace with interfaces of our making. */
#include "rnic/cma/test_bed.h"

#include <net/if.h>
#include <sched.h>

static bool alone; /* in a namespace of our own, with fl0 of 10.9.8.7/24 and fd00:9::7/64 */

static bool run(const char *command)
{
    return !system(command);
}

static bool become_root_of_a_namespace(void)
{
    char map[32];
    if (!unshare(CLONE_NEWNET))
        return true;
    snprintf(map, sizeof(map), "0 %u 1", getuid());
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET))
        return false;
    int fd = open("/proc/self/uid_map", O_WRONLY | O_CLOEXEC);
    bool mapped = fd >= 0 && write(fd, map, strlen(map)) == (ssize_t)strlen(map);
    close(fd);
    return mapped;
}

static void enter_namespace(void)
{
    alone = become_root_of_a_namespace() &&
            run("ip link set lo up && ip link add fl0 type veth peer name fl1 && ip link set fl1 up && "
                "ip link set fl0 addrgenmode none && ip link set fl0 up && "
                "ip addr add 10.9.8.7/24 dev fl0 && ip addr add fd00:9::7/64 dev fl0 nodad && "
                "ip addr add fe80::7/64 dev fl0 nodad");
}

static void needs_namespace(void)
{
    if (!alone)
        skip();
}

static struct sockaddr_in ip4(const char *text, uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htobe16(port)};
    assert_int_equal(inet_pton(AF_INET, text, &addr.sin_addr), 1);
    return addr;
}

static struct sockaddr_in6 ip6(const char *text, uint16_t port)
{
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_port = htobe16(port)};
    assert_int_equal(inet_pton(AF_INET6, text, &addr.sin6_addr), 1);
    return addr;
}

/* Connects, and both ends know who the other one is. */
static void connect_over(const void *listen_addr, const void *dst, const char *source)
{
    struct rdma_event_channel *server = fl_cma_create_event_channel(),
                              *client = fl_cma_create_event_channel();
    struct rdma_cm_id *listener, *active, *passive;
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct sockaddr_storage to;
    char text[INET6_ADDRSTRLEN];
    assert_int_equal(fl_cma_create_id(server, &listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_bind_addr(listener, (struct sockaddr *)listen_addr), 0);
    assert_int_equal(fl_cma_listen(listener, 1), 0);
    memcpy(&to, dst,
           ((const struct sockaddr *)dst)->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                                : sizeof(struct sockaddr_in6));
    ((struct sockaddr_in *)&to)->sin_port = fl_cma_get_src_port(listener);
    assert_int_equal(fl_cma_create_id(client, &active, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_resolve_addr(active, NULL, (struct sockaddr *)&to, 1000), 0);
    expect_and_ack(client, RDMA_CM_EVENT_ADDR_RESOLVED);
    struct sockaddr *src = rdma_get_local_addr(active);
    assert_int_equal(src->sa_family, to.ss_family);
    if (src->sa_family == AF_INET)
        inet_ntop(AF_INET, &((struct sockaddr_in *)src)->sin_addr, text, sizeof(text));
    else
        inet_ntop(AF_INET6, &((struct sockaddr_in6 *)src)->sin6_addr, text, sizeof(text));
    assert_string_equal(text, source);
    assert_int_equal(fl_cma_resolve_route(active, 1000), 0);
    expect_and_ack(client, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(active->route.num_paths, 1);
    assert_memory_equal(&active->route.path_rec->sgid, &active->route.addr.addr.ibaddr.sgid, 16);
    assert_int_equal(fl_cma_create_qp(active, NULL, &attr), 0);
    assert_int_equal(fl_cma_connect(active, NULL), 0);
    struct rdma_cm_event *event = expect(server, RDMA_CM_EVENT_CONNECT_REQUEST);
    passive = event->id;
    fl_cma_ack_cm_event(event);
    assert_non_null(passive->verbs);
    assert_memory_equal(rdma_get_peer_addr(passive), src, sizeof(struct sockaddr_in));
    attr = qp_attr(IBV_QPT_RC);
    assert_int_equal(fl_cma_create_qp(passive, NULL, &attr), 0);
    assert_int_equal(fl_cma_accept(passive, NULL), 0);
    expect_and_ack(client, RDMA_CM_EVENT_ESTABLISHED);
    expect_and_ack(server, RDMA_CM_EVENT_ESTABLISHED);
    destroy(active);
    expect_and_ack(server, RDMA_CM_EVENT_DISCONNECTED);
    destroy(passive);
    fl_cma_destroy_id(listener);
    fl_cma_destroy_event_channel(server);
    fl_cma_destroy_event_channel(client);
}

static void loopback_of_both_kinds(void **state)
{
    struct sockaddr_in any4 = ip4("0.0.0.0", 0), lo4 = ip4("127.0.0.1", 0);
    connect_over(&lo4, &lo4, "127.0.0.1");
    connect_over(&any4, &lo4, "127.0.0.1");
    connect_over(&any4, &any4, "127.0.0.1"); /* nobody's address is our own */
    needs_namespace();
    struct sockaddr_in6 any6 = ip6("::", 0), lo6 = ip6("::1", 0);
    connect_over(&lo6, &lo6, "::1");
    connect_over(&any6, &lo6, "::1");
    connect_over(&any6, &lo4, "127.0.0.1"); /* as with TCP, :: hears both */
}

/* As with TCP: 0.0.0.0 and ::, if that is told to be of IPv6 alone, go side by side. */
static void both_kinds_on_one_port(void **state)
{
    needs_namespace();
    struct sockaddr_in any4 = ip4("0.0.0.0", 0);
    struct sockaddr_in6 any6, lo6;
    struct rdma_cm_id *four, *six, *one;
    int on = 1;
    assert_int_equal(fl_cma_create_id(NULL, &four, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_create_id(NULL, &six, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_bind_addr(four, (struct sockaddr *)&any4), 0);
    assert_int_equal(fl_cma_listen(four, 1), 0);
    any6 = ip6("::", be16toh(fl_cma_get_src_port(four)));
    lo6 = ip6("::1", be16toh(fl_cma_get_src_port(four)));
    assert_int_equal(fl_cma_bind_addr(six, (struct sockaddr *)&any6), -1);
    assert_int_equal(errno, EADDRINUSE);
    assert_int_equal(fl_cma_set_option(six, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on)), 0);
    assert_int_equal(fl_cma_bind_addr(six, (struct sockaddr *)&any6), 0);
    assert_int_equal(fl_cma_listen(six, 1), 0);
    assert_int_equal(fl_cma_create_id(NULL, &one, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_bind_addr(one, (struct sockaddr *)&lo6), -1);
    fl_cma_destroy_id(six);
    assert_int_equal(fl_cma_bind_addr(one, (struct sockaddr *)&lo6), 0);
    assert_int_equal(fl_cma_listen(one, 1), 0);
    fl_cma_destroy_id(one);
    fl_cma_destroy_id(four);
}

static void an_interface_of_its_own(void **state)
{
    needs_namespace();
    struct sockaddr_in a4 = ip4("10.9.8.7", 0), any4 = ip4("0.0.0.0", 0);
    struct sockaddr_in6 a6 = ip6("fd00:9::7", 0), any6 = ip6("::", 0);
    connect_over(&a4, &a4, "10.9.8.7");
    connect_over(&any4, &a4, "10.9.8.7");
    connect_over(&a6, &a6, "fd00:9::7");
    connect_over(&any6, &a6, "fd00:9::7");
}

static void link_local(void **state)
{
    needs_namespace();
    struct sockaddr_in6 addr = ip6("fe80::7", 0), any6 = ip6("::", 0);
    addr.sin6_scope_id = if_nametoindex("fl0");
    connect_over(&addr, &addr, "fe80::7");
    connect_over(&any6, &addr, "fe80::7");
}

static bool holds(struct ibv_context **list, const struct ibv_context *context)
{
    while (*list && *list != context)
        list++;
    return *list;
}

static void devices_are_those_of_the_addresses(void **state)
{
    needs_namespace();
    struct sockaddr_in lo = ip4("127.0.0.1", 0), own = ip4("10.9.8.7", 0);
    struct rdma_cm_id *a, *b;
    int nr;
    struct ibv_context **list = fl_cma_get_devices(&nr);
    /* fl1, the other end of fl0, has a link-local address, which may come last */
    for (uint64_t end = fl_now_ns() + 5 * FL_NS_PER_S; nr < 3 && fl_now_ns() < end; usleep(1000)) {
        fl_cma_free_devices(list);
        list = fl_cma_get_devices(&nr);
    }
    assert_int_equal(nr, 3);
    assert_int_equal(fl_cma_create_id(NULL, &a, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_create_id(NULL, &b, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_bind_addr(a, (struct sockaddr *)&lo), 0);
    assert_int_equal(fl_cma_bind_addr(b, (struct sockaddr *)&own), 0);
    assert_null(a->verbs);
    assert_int_equal(fl_cma_listen(a, 0), 0);
    assert_true(holds(list, a->verbs) && holds(list, b->verbs));
    assert_ptr_not_equal(a->verbs, b->verbs);
    const struct ibv_context *loopback = a->verbs;
    assert_null(list[3]);
    assert_ptr_not_equal(a->pd, b->pd);
    fl_cma_destroy_id(a);
    assert_int_equal(fl_cma_create_id(NULL, &a, NULL, RDMA_PS_TCP), 0);
    lo.sin_port = htobe16(4420);
    assert_int_equal(fl_cma_bind_addr(a, (struct sockaddr *)&lo), 0);
    assert_ptr_equal(a->verbs, loopback); /* with a port it is for listening */
    fl_cma_free_devices(list);
    fl_cma_destroy_id(a);
    fl_cma_destroy_id(b);
}

static void no_route(void **state)
{
    needs_namespace();
    struct sockaddr_in far = ip4("192.0.2.1", 1);
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *id;
    assert_int_equal(fl_cma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_resolve_addr(id, NULL, (struct sockaddr *)&far, 1000), 0);
    struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_ADDR_ERROR);
    assert_int_equal(event->status, -ENETUNREACH);
    fl_cma_ack_cm_event(event);
    far = ip4("10.9.8.7", 1); /* and it may try another one */
    assert_int_equal(fl_cma_resolve_addr(id, NULL, (struct sockaddr *)&far, 1000), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    fl_cma_destroy_id(id);
    fl_cma_destroy_event_channel(channel);
}

static void names(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE | RAI_NUMERICHOST}, *res;
    struct sockaddr_in lo = ip4("127.0.0.1", 5);
    assert_int_equal(fl_cma_getaddrinfo("127.0.0.1", "7471", &hints, &res), 0);
    assert_int_equal(res->ai_port_space, RDMA_PS_TCP);
    assert_int_equal(res->ai_qp_type, IBV_QPT_RC);
    assert_int_equal(res->ai_src_len, sizeof(lo));
    assert_int_equal(fl_cma_port_of(res->ai_src_addr), 7471);
    assert_null(res->ai_dst_addr);
    fl_cma_freeaddrinfo(res);
    hints = (struct rdma_addrinfo){.ai_flags = RAI_NUMERICHOST,
                                   .ai_port_space = RDMA_PS_UDP,
                                   .ai_src_addr = (struct sockaddr *)&lo,
                                   .ai_src_len = sizeof(lo)};
    assert_int_equal(fl_cma_getaddrinfo("::1", "7471", &hints, &res), 0);
    assert_int_equal(res->ai_family, AF_INET6);
    assert_int_equal(res->ai_qp_type, IBV_QPT_UD);
    assert_int_equal(fl_cma_port_of(res->ai_dst_addr), 7471);
    assert_memory_equal(res->ai_src_addr, &lo, sizeof(lo));
    fl_cma_freeaddrinfo(res);
    assert_int_not_equal(fl_cma_getaddrinfo("no.such.host.invalid", NULL, &hints, &res), 0);
    assert_null(res);
    assert_int_equal(fl_cma_getaddrinfo(NULL, NULL, NULL, &res), -1);
    assert_int_equal(errno, EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_of_both_kinds),
        cmocka_unit_test(both_kinds_on_one_port),
        cmocka_unit_test(an_interface_of_its_own),
        cmocka_unit_test(link_local),
        cmocka_unit_test(devices_are_those_of_the_addresses),
        cmocka_unit_test(no_route),
        cmocka_unit_test(names),
    };
    enter_namespace();
    use_own_port();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
