/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of another host (a network namespace behind a veth pair, with a hub of its own) that are killed
 * while they are connected: this side hears of it at once, and hears nothing of those that live.
 */
#include "rnic/test_interface.h"

#include "rnic/cma/test_child.h"

#define HERE  "10.97.0.1"
#define THERE "10.97.0.2"
#define MANY  300
#define SOON  FL_NS_PER_S

static int there; /* the other host's namespace */

static struct sockaddr_in address(const char *text, uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htobe16(port)};
    inet_pton(AF_INET, text, &addr.sin_addr);
    return addr;
}

/* A host joined to this one by a cable. False: it cannot be made here. */
static bool make_host(void)
{
    char command[128], path[64];
    int up[2], plugged[2];
    char c;
    if (pipe(up) || pipe(plugged))
        return false;
    pid_t pid = fork();
    if (!pid) { /* lives until the namespace was opened */
        close(up[0]);
        close(plugged[1]);
        if (unshare(CLONE_NEWNET) || write(up[1], "u", 1) != 1 || read(plugged[0], &c, 1) != 1)
            _exit(1);
        set_up(true);
        add_address("there", THERE);
        configure(SIOCSIFFLAGS, "there", &(struct ifreq){.ifr_flags = IFF_UP});
        _exit(write(up[1], "a", 1) != 1 || read(plugged[0], &c, 1) != 1);
    }
    close(up[1]);
    close(plugged[0]);
    if (read(up[0], &c, 1) != 1)
        return false;
    snprintf(command, sizeof(command), "ip link add here type veth peer name there netns %d 2>&1", (int)pid);
    if (system(command))
        return false;
    add_address("here", HERE);
    configure(SIOCSIFFLAGS, "here", &(struct ifreq){.ifr_flags = IFF_UP});
    snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)pid);
    if (write(plugged[1], "p", 1) != 1 || read(up[0], &c, 1) != 1)
        return false;
    there = open(path, O_RDONLY | O_CLOEXEC);
    if (there < 0 || write(plugged[1], "p", 1) != 1 || waitpid(pid, NULL, 0) != pid)
        return false;
    usleep(200000); /* the interfaces settle */
    return true;
}

/* As bed_init(), at an address of the wire */
static void init(struct bed *bed, const char *text)
{
    struct sockaddr_in addr = address(text, 0);
    bed->server = fl_cma_create_event_channel();
    bed->client = fl_cma_create_event_channel();
    assert_int_equal(fl_cma_create_id(bed->server, &bed->listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_bind_addr(bed->listener, (struct sockaddr *)&addr), 0);
    assert_int_equal(fl_cma_listen(bed->listener, 2 * MANY), 0);
    bed->port = be16toh(fl_cma_get_src_port(bed->listener));
}

static struct rdma_cm_id *begin(struct rdma_event_channel *channel, const char *text, uint16_t port)
{
    struct sockaddr_in addr = address(text, port);
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct rdma_cm_id *id;
    assert_int_equal(fl_cma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(fl_cma_resolve_route(id, 1000), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(fl_cma_create_qp(id, NULL, &attr), 0);
    assert_int_equal(fl_cma_connect(id, NULL), 0);
    return id;
}

/* Parts of the other host */
static void idle(int fd, uint16_t unused)
{
    struct rdma_cm_id *id;
    assert_int_equal(fl_cma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
    tell(fd, 1);
}

static void connect_some(int fd, uint16_t port, int nr)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    for (int i = 0; i < nr; i++) {
        begin(channel, HERE, port);
        expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    }
    tell(fd, 1);
}

static void connect_one(int fd, uint16_t port)
{
    connect_some(fd, port, 1);
}

static void connect_many(int fd, uint16_t port)
{
    connect_some(fd, port, MANY);
}

static void serve(int fd, uint16_t unused)
{
    struct bed bed;
    init(&bed, THERE);
    tell(fd, bed.port);
    struct rdma_cm_id *id = take_request(&bed);
    assert_int_equal(fl_cma_accept(id, NULL), 0);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    tell(fd, 1);
}

static struct rdma_cm_id *accept_one(struct bed *bed)
{
    struct rdma_cm_id *id = take_request(bed);
    assert_int_equal(fl_cma_accept(id, NULL), 0);
    expect_and_ack(bed->server, RDMA_CM_EVENT_ESTABLISHED);
    return id;
}

static void expect_end(struct rdma_event_channel *channel, uint64_t since)
{
    struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(event->status, 0);
    assert_int_equal(fl_cma_ack_cm_event(event), 0);
    if (fl_now_ns() - since > SOON)
        fail_msg("after %llu ms", (unsigned long long)((fl_now_ns() - since) / FL_NS_PER_MS));
}

/* A process that goes to the other host; the first one is its hub. */
static struct child start_there(void (*part)(int, uint16_t), uint16_t port)
{
    return start(there, part, port);
}

static struct child start_idle(void)
{
    struct child child = start_there(idle, 0);
    assert_int_equal(hear(&child), 1);
    return child;
}

static void test_member(void **state)
{
    struct bed bed;
    struct child hub = start_idle();
    init(&bed, HERE);
    struct child member = start_there(connect_one, bed.port);
    struct rdma_cm_id *id = accept_one(&bed);
    hear(&member);
    uint64_t since = fl_now_ns();
    end(&member);
    expect_end(bed.server, since);
    destroy(id);
    bed_fini(&bed);
    end(&hub);
}

static void test_server(void **state)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct child hub = start_idle(), member = start_there(serve, 0);
    struct rdma_cm_id *id = begin(channel, THERE, hear(&member));
    expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    hear(&member);
    uint64_t since = fl_now_ns();
    end(&member);
    expect_end(channel, since);
    destroy(id);
    fl_cma_destroy_event_channel(channel);
    end(&hub);
}

/* The next hub speaks for it. */
static void test_hub(void **state)
{
    struct bed bed;
    init(&bed, HERE);
    struct child hub = start_there(connect_one, bed.port);
    struct rdma_cm_id *id = accept_one(&bed);
    hear(&hub);
    struct child other = start_idle();
    uint64_t since = fl_now_ns();
    end(&hub);
    expect_end(bed.server, since);
    destroy(id);
    bed_fini(&bed);
    end(&other);
}

static void test_many_connections(void **state)
{
    static struct rdma_cm_id *ids[MANY];
    struct bed bed;
    struct child hub = start_idle();
    init(&bed, HERE);
    struct child member = start_there(connect_many, bed.port);
    for (int i = 0; i < MANY; i++)
        ids[i] = accept_one(&bed);
    hear(&member);
    uint64_t since = fl_now_ns();
    end(&member);
    for (int i = 0; i < MANY; i++)
        expect_end(bed.server, since);
    for (int i = 0; i < MANY; i++)
        destroy(ids[i]);
    bed_fini(&bed);
    end(&hub);
}

static void expect_nothing_for(struct rdma_event_channel *channel, int ms)
{
    struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, ms), 0);
}

/* Whose hub is killed lives on, and so do its connections. */
static void test_survivor(void **state)
{
    struct bed bed;
    struct child hub = start_idle();
    init(&bed, HERE);
    struct child member = start_there(connect_one, bed.port);
    struct rdma_cm_id *id = accept_one(&bed);
    hear(&member);
    struct child third = start_idle();
    end(&hub);
    expect_nothing_for(bed.server, 900);
    uint64_t since = fl_now_ns(); /* and the next hub knows of it */
    end(&member);
    expect_end(bed.server, since);
    destroy(id);
    bed_fini(&bed);
    end(&third);
}

/* A hub that is stopped, and replaced, has not died; when it goes on it is a member, whose hub speaks for it.
 */
static void test_stopped_hub(void **state)
{
    struct bed bed;
    init(&bed, HERE);
    struct child hub = start_there(connect_one, bed.port);
    struct rdma_cm_id *id = accept_one(&bed);
    hear(&hub);
    struct child other = start_idle();
    assert_int_equal(kill(hub.pid, SIGSTOP), 0);
    expect_nothing_for(bed.server, 2500);
    assert_int_equal(kill(hub.pid, SIGCONT), 0);
    expect_nothing_for(bed.server, 1500);
    uint64_t since = fl_now_ns();
    end(&hub);
    expect_end(bed.server, since);
    destroy(id);
    bed_fini(&bed);
    end(&other);
}

/* One that is killed while it is stopped and replaced */
static void test_stopped_hub_is_killed(void **state)
{
    struct bed bed;
    init(&bed, HERE);
    struct child hub = start_there(connect_one, bed.port);
    struct rdma_cm_id *id = accept_one(&bed);
    hear(&hub);
    struct child other = start_idle();
    assert_int_equal(kill(hub.pid, SIGSTOP), 0);
    expect_nothing_for(bed.server, 2500);
    uint64_t since = fl_now_ns();
    end(&hub);
    expect_end(bed.server, since);
    destroy(id);
    bed_fini(&bed);
    end(&other);
}

int main(void)
{
    if (!own_network())
        return 77;
    set_up(true);
    use_own_port();
    if (!make_host()) {
        fprintf(stderr, "no veth pair, or no program `ip` to make one\n");
        return 77;
    }
    return FL_UNIT_RUN(cmocka_unit_test(test_member), cmocka_unit_test(test_server),
                       cmocka_unit_test(test_hub), cmocka_unit_test(test_many_connections),
                       cmocka_unit_test(test_survivor), cmocka_unit_test(test_stopped_hub),
                       cmocka_unit_test(test_stopped_hub_is_killed));
}
