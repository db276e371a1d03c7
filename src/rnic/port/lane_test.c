/* SPDX-License-Identifier: Apache-2.0 */
/* The flow that most packets come by gets a socket of its own, and nobody loses by it. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "rnic/port/impl.h"
#include "rnic/port/test_packet.h"

#define MANY 700 /* packets: by then there is a lane, and it joins packets no more */

struct bed {
    struct fl_port *port;
    uint32_t qpn;
    int nr, nr_marked;
    uint32_t psn;
    uint8_t grh[FL_ROCE_GRH_LEN];
};

struct sender {
    int fd;
    uint16_t port;
    struct in6_addr gid;
};

static void take(void *arg, const struct fl_port_packet *packet)
{
    struct bed *b = arg;
    b->nr++;
    b->nr_marked += packet->meta.ce;
    b->psn = packet->packet.psn;
    if (packet->meta.grh)
        memcpy(b->grh, packet->meta.grh, sizeof(b->grh));
}

static void bed_open(struct bed *b)
{
    struct fl_error err = {0};
    char name[64];
    *b = (struct bed){0};
    snprintf(name, sizeof(name), "farlane-lane-test-%d", (int)getpid());
    for (int tries = 0; !b->port; tries++) {
        struct fl_port_options options = {
            .udp_port = (uint16_t)(20000 + (getpid() * 7 + tries) % 10000), .hub_path = name, .no_hub = true};
        assert_true(tries < 100);
        fl_port_open(&options, &b->port, &err);
    }
    assert_int_equal(fl_port_qpn_get(b->port, &b->qpn), 0);
}

static void sender_open(struct sender *s, const char *address)
{
    s->gid = gid_of(address);
    s->fd = fl_udp_source(&s->gid, 0, 0, &s->port);
    assert_true(s->fd >= 0);
}

static void send_one(struct bed *b, struct sender *s, uint8_t service, uint32_t qpn, uint32_t psn, int tos)
{
    uint8_t bytes[12 + 8 + 32 + 4] = {0};
    bool ip4 = fl_udp_is_ip4(&s->gid);
    struct sockaddr_in to4 = {.sin_family = AF_INET, .sin_port = htons(b->port->udp_port)};
    struct sockaddr_in6 to6 = {
        .sin6_family = AF_INET6, .sin6_port = htons(b->port->udp_port), .sin6_addr = s->gid};
    le32 icrc;
    fl_bth_set((struct fl_bth *)bytes, FL_IB_OPCODE(service, FL_IB_SEND_ONLY), FL_IB_PKEY_DEFAULT, qpn, psn,
               0);
    icrc = le32_of(fl_udp_icrc(&s->gid, &s->gid, s->port, b->port->udp_port, 0, bytes, sizeof(bytes)));
    memcpy(bytes + sizeof(bytes) - 4, &icrc, 4);
    memcpy(&to4.sin_addr, &s->gid.s6_addr[12], 4);
    setsockopt(s->fd, ip4 ? IPPROTO_IP : IPPROTO_IPV6, ip4 ? IP_TOS : IPV6_TCLASS, &tos, sizeof(tos));
    assert_int_equal(sendto(s->fd, bytes, sizeof(bytes), 0,
                            ip4 ? (struct sockaddr *)&to4 : (struct sockaddr *)&to6,
                            ip4 ? sizeof(to4) : sizeof(to6)),
                     sizeof(bytes));
}

/* Asleep where nothing has come, as the RNIC's thread is. */
static void poll_until(struct bed *b, int nr)
{
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    while (b->nr < nr && fl_now_ns() < end) {
        struct pollfd pfd = {.fd = fl_port_wait_fd(b->port), .events = POLLIN};
        if (!fl_port_poll(b->port, 16, take, b) && fl_port_deadline(b->port) > fl_now_ns())
            poll(&pfd, 1, 10);
    }
    assert_int_equal(b->nr, nr);
}

static void exchange(struct bed *b, struct sender *s, uint32_t nr)
{
    for (uint32_t i = 0; i < nr; i++) {
        send_one(b, s, FL_IB_RC, b->qpn, i, 2);
        poll_until(b, b->nr + 1);
        assert_int_equal(b->psn, i);
    }
}

static bool has_lane(const struct bed *b)
{
    return b->port->lane.fd >= 0;
}

static void open_with_lane(struct bed *b, struct sender *s)
{
    bed_open(b);
    sender_open(s, "127.0.0.1");
    exchange(b, s, MANY);
    assert_true(has_lane(b));
}

static void close_both(struct bed *b, struct sender *s)
{
    close(s->fd);
    fl_port_close(b->port);
}

static void busy_flow(const char *address)
{
    const struct fl_port_stats *stats;
    struct sender busy, other;
    struct bed b;
    bed_open(&b);
    stats = fl_port_stats(b.port);
    sender_open(&busy, address);
    sender_open(&other, address);
    exchange(&b, &busy, MANY);
    assert_true(has_lane(&b));
    assert_in_range(stats->nr_by_lane, MANY - 300, MANY);
    for (int i = 0; i < 100; i++) { /* both in turn, and what the other one sends is no stranger's */
        exchange(&b, &other, 1);
        exchange(&b, &busy, 1);
    }
    assert_true(has_lane(&b));
    assert_in_range(stats->nr_by_lane, MANY - 200, MANY + 100);
    assert_int_equal(stats->nr_bad_icrc + stats->nr_bad_packet + stats->nr_unknown_qpn, 0);
    close(other.fd);
    close_both(&b, &busy);
}

static void a_busy_flow_has_a_socket_of_its_own(void **state)
{
    busy_flow("127.0.0.1");
}

static void a_busy_flow_over_ip6_too(void **state)
{
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
    if (fd >= 0)
        close(fd);
    if (!has)
        skip();
    busy_flow("::1");
}

/* The lane goes to a flow that others are not mixed with, once the one that had it is silent. */
static void another_flow_takes_over(void **state)
{
    struct sender first, second;
    struct bed b;
    bed_open(&b);
    sender_open(&first, "127.0.0.1");
    sender_open(&second, "127.0.0.1");
    exchange(&b, &first, MANY);
    assert_int_equal(b.port->lane.flow.sport, first.port);
    exchange(&b, &second, MANY);
    assert_true(has_lane(&b));
    assert_int_equal(b.port->lane.flow.sport, second.port);
    exchange(&b, &first, 10);
    assert_int_equal(fl_port_stats(b.port)->nr_bad_icrc, 0);
    close(second.fd);
    close_both(&b, &first);
}

/* Not each packet is asked for its mark, but the fourth of those that have one at the latest, and then each.
 */
static void marks_are_seen(void **state)
{
    struct sender s;
    struct bed b;
    open_with_lane(&b, &s);
    for (uint32_t i = 0; i < 20; i++) {
        send_one(&b, &s, FL_IB_RC, b.qpn, i, 3);
        poll_until(&b, b.nr + 1);
    }
    assert_in_range(b.nr_marked, 17, 20);
    b.nr_marked = 0;
    exchange(&b, &s, 100);
    assert_int_equal(b.nr_marked, 0);
    close_both(&b, &s);
}

/* A datagram by such a flow has its header, with the time to live that the flow's packets had. */
static void a_datagram_by_a_lane_has_its_header(void **state)
{
    struct sender s;
    struct bed b;
    open_with_lane(&b, &s);
    send_one(&b, &s, FL_IB_UD, b.qpn, 1, 2);
    poll_until(&b, b.nr + 1);
    assert_int_equal(b.grh[20], 0x45);
    assert_int_equal(b.grh[28], FL_UDP_TTL);
    assert_memory_equal(b.grh + 32, "\x7f\0\0\1\x7f\0\0\1", 8);
    close_both(&b, &s);
}

/* Where a packet for somebody else came by the flow, the flow has no lane: the next hub must see its packets
 * too. */
static void a_stranger_ends_the_lane(void **state)
{
    struct sender s;
    struct bed b;
    open_with_lane(&b, &s);
    send_one(&b, &s, FL_IB_RC, b.qpn ^ 0x800000, 0, 2);
    for (uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S; has_lane(&b) && fl_now_ns() < end;)
        fl_port_poll(b.port, 16, take, &b);
    assert_false(has_lane(&b));
    assert_int_equal(fl_port_stats(b.port)->nr_unknown_qpn, 1);
    for (int i = 0; i < MANY / 100; i++) { /* and gets none while they come */
        exchange(&b, &s, 100);
        send_one(&b, &s, FL_IB_RC, b.qpn ^ 0x800000, 0, 2);
    }
    assert_false(has_lane(&b));
    exchange(&b, &s, MANY);
    assert_true(has_lane(&b));
    close_both(&b, &s);
}

/* So must those processes that have come since. */
static void another_process_ends_the_lane(void **state)
{
    const struct fl_hub_peer peer = {.pid = getpid(), .uid = getuid()};
    static const char address[FL_HUB_ADDRESS_LEN] = "nowhere";
    struct fl_hub_table *table;
    struct sender s;
    struct bed b;
    int slot;
    open_with_lane(&b, &s);
    table = fl_hub_server_table(b.port->server);
    slot = fl_hub_join(table, &peer, 0, address);
    assert_true(slot > 0);
    exchange(&b, &s, MANY);
    assert_false(has_lane(&b));
    fl_hub_leave(table, (uint32_t)slot);
    exchange(&b, &s, MANY);
    assert_true(has_lane(&b));
    close_both(&b, &s);
}

/* What comes between the steps by which a lane is made may be anybody's: it says whose it is. */
static void a_new_lane_tells_addresses(void **state)
{
    struct fl_udp_datagram flow = {.src = gid_of("127.0.0.1"), .dst = gid_of("127.0.0.2"), .sport = 40000}, d;
    struct fl_port_stats stats = {0};
    struct fl_udp_rx *rx = fl_udp_rx_create();
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000002)},
                       from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(from);
    int sender = socket(AF_INET, SOCK_DGRAM, 0), fd, error;
    assert_non_null(rx);
    assert_int_equal(bind(sender, (struct sockaddr *)&from, sizeof(from)), 0);
    assert_int_equal(getsockname(sender, (struct sockaddr *)&from, &len), 0);
    flow.sport = ntohs(from.sin_port);
    fd = fl_udp_listen_to(&flow, (uint16_t)(20000 + getpid() % 10000));
    assert_true(fd >= 0);
    len = sizeof(to);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&to, &len), 0);
    for (int known = 0; known < 2; known++) {
        assert_int_equal(sendto(sender, "abcd", 4, 0, (struct sockaddr *)&to, sizeof(to)), 4);
        assert_true(fl_udp_rx_next(rx, fd, &d, &error, &stats));
        assert_memory_equal(&d.src, &flow.src, 16);
        assert_memory_equal(&d.dst, &flow.dst, 16);
        assert_int_equal(d.sport, flow.sport);
        assert_int_equal(d.len, 4);
        assert_int_equal(d.ttl, known ? flow.ttl : 64);
        fl_udp_listens_to(fd, &flow);
        fl_udp_rx_know(rx, &flow);
    }
    close(sender);
    close(fd);
    fl_udp_rx_destroy(rx);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(a_busy_flow_has_a_socket_of_its_own), cmocka_unit_test(a_busy_flow_over_ip6_too),
        cmocka_unit_test(another_flow_takes_over), cmocka_unit_test(marks_are_seen),
        cmocka_unit_test(a_datagram_by_a_lane_has_its_header), cmocka_unit_test(a_stranger_ends_the_lane),
        cmocka_unit_test(another_process_ends_the_lane), cmocka_unit_test(a_new_lane_tells_addresses));
}
