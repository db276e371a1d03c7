/* SPDX-License-Identifier: Apache-2.0 */
/* One process that is its own hub: sockets, ICRC, GSO and GRO. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "rnic/port/test_packet.h"
#include "rnic/port/udp.h"

struct bed {
    struct fl_port *port;
    uint16_t udp_port;
    uint32_t qpn;
    int nr;
    struct fl_port_packet last;
    uint8_t grh[FL_ROCE_GRH_LEN];
    uint8_t bytes[FL_UDP_PACKET_MAX];
    uint32_t next_psn;
    bool in_order;
};

static void take(void *arg, const struct fl_port_packet *packet)
{
    struct bed *b = arg;
    b->nr++;
    b->last = *packet;
    b->in_order = b->in_order && packet->packet.psn == b->next_psn;
    b->next_psn++;
    if (packet->meta.grh)
        memcpy(b->grh, packet->meta.grh, sizeof(b->grh));
    memcpy(b->bytes, packet->packet.payload, packet->packet.payload_len);
}

static struct bed *bed_open(void)
{
    struct bed *b = calloc(1, sizeof(*b));
    struct fl_error err = {0};
    char name[64];
    assert_non_null(b);
    snprintf(name, sizeof(name), "farlane-port-test-%d", (int)getpid());
    for (int tries = 0; !b->port; tries++) { /* some port that is free */
        struct fl_port_options options = {
            .udp_port = (uint16_t)(20000 + (getpid() * 7 + tries) % 10000), .hub_path = name, .no_hub = true};
        assert_true(tries < 100);
        b->udp_port = options.udp_port;
        fl_port_open(&options, &b->port, &err);
    }
    assert_int_equal(fl_port_qpn_get(b->port, &b->qpn), 0);
    b->in_order = true;
    return b;
}

static void bed_close(struct bed *b)
{
    fl_port_close(b->port);
    free(b);
}

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

static bool has_ip6(void)
{
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
    if (fd >= 0)
        close(fd);
    return has;
}

static void packets_arrive(const char *from, const char *to)
{
    struct bed *b = bed_open();
    struct fl_port_flow flow = flow_of(from, to);
    uint8_t payload[4096];
    struct fl_roce_tx tx;
    const uint32_t lens[] = {0, 4, 256, 1024, 4096};
    for (size_t i = 0; i < FL_ARRAY_LEN(lens); i++) {
        memset(payload, (int)i + 1, sizeof(payload));
        packet_of(&tx, FL_IB_RC, b->qpn, (uint32_t)i, payload, lens[i]);
        assert_true(fl_port_send(b->port, &flow, &tx));
        fl_port_flush(b->port);
        poll_until(b, (int)i + 1);
        assert_int_equal(b->last.packet.payload_len, lens[i]);
        assert_memory_equal(b->bytes, payload, lens[i]);
        assert_memory_equal(&b->last.sgid, &flow.sgid, 16);
        assert_memory_equal(&b->last.dgid, &flow.dgid, 16);
        assert_null(b->last.meta.grh);
        assert_false(b->last.meta.ce);
    }
    assert_int_equal(fl_port_stats(b->port)->nr_bad_icrc, 0);
    bed_close(b);
}

static void packets_arrive_over_ip4(void **state)
{
    packets_arrive("127.0.0.1", "127.0.0.1");
    packets_arrive("127.0.0.5", "127.0.0.6");
}

static void packets_arrive_over_ip6(void **state)
{
    if (!has_ip6())
        skip();
    packets_arrive("::1", "::1");
}

/* A burst goes in few system calls, and each segment's ICRC fits the identification that it gets. */
static void burst(const char *address, uint32_t len)
{
    struct bed *b = bed_open();
    struct fl_port_flow flow = flow_of(address, address);
    uint8_t payload[4096] = {1, 2, 3};
    struct fl_roce_tx tx;
    const struct fl_port_stats *stats = fl_port_stats(b->port);
    for (uint32_t i = 0; i < 40; i++) {
        packet_of(&tx, FL_IB_RC, b->qpn, i, payload, i == 39 ? 8 : len);
        assert_true(fl_port_send(b->port, &flow, &tx));
    }
    fl_port_flush(b->port);
    poll_until(b, 40);
    assert_true(b->in_order);
    assert_int_equal(stats->nr_bad_icrc, 0);
    assert_true(stats->nr_tx_calls <= 5);
    assert_true(stats->nr_rx_calls <= 10);
    bed_close(b);
}

static void bursts_go_in_few_calls(void **state)
{
    burst("127.0.0.1", 1024);
    burst("127.0.0.1", 4096);
    if (has_ip6())
        burst("::1", 4096);
}

static void datagrams_bring_their_header(void **state)
{
    static const uint8_t ip4[20] = {
        0x45, 0x40, 0, 20 + 8 + 12 + 8 + 8 + 4, 0, 0, 0x40, 0, 9, 17, 0, 0, 127, 0, 0, 1, 127, 0, 0, 1};
    struct bed *b = bed_open();
    struct fl_port_flow flow = flow_of("127.0.0.1", "127.0.0.1");
    struct fl_roce_tx tx;
    flow.hop_limit = 9;
    flow.tos = 0x40;
    packet_of(&tx, FL_IB_UD, b->qpn, 0, "abcdefg", 8);
    assert_true(fl_port_send(b->port, &flow, &tx));
    fl_port_flush(b->port);
    poll_until(b, 1);
    assert_non_null(b->last.meta.grh);
    b->grh[30] = b->grh[31] = 0; /* checksum: looked at by the kernel's rules, not here */
    assert_memory_equal(b->grh + 20, ip4, sizeof(ip4));
    bed_close(b);
}

/* A foreign RNIC's packet by a plain socket: TOS and the identification that its ICRC covers. */
static void send_foreign(struct bed *b, const char *address, int tos, uint16_t id, uint32_t spoil)
{
    struct in6_addr gid = gid_of(address);
    bool ip4 = fl_udp_is_ip4(&gid);
    struct sockaddr_in to4 = {.sin_family = AF_INET, .sin_port = htons(b->udp_port)};
    struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons(b->udp_port), .sin6_addr = gid};
    uint8_t bytes[12 + 32 + 4] = {0};
    uint16_t sport;
    int fd = fl_udp_source(ip4 ? &fl_udp_any_ip4 : &in6addr_any, 0, 0, &sport);
    le32 icrc;
    assert_true(fd >= 0);
    fl_bth_set((struct fl_bth *)bytes, FL_IB_OPCODE(FL_IB_RC, FL_IB_SEND_ONLY), FL_IB_PKEY_DEFAULT, b->qpn, 5,
               0);
    icrc = le32_of(fl_udp_icrc(&gid, &gid, sport, b->udp_port, id, bytes, sizeof(bytes)) ^ spoil);
    memcpy(bytes + 44, &icrc, 4);
    memcpy(&to4.sin_addr, &gid.s6_addr[12], 4);
    if (ip4) {
        setsockopt(fd, IPPROTO_IP, IP_TOS, &tos, sizeof(tos));
        assert_int_equal(sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&to4, sizeof(to4)),
                         sizeof(bytes));
    } else {
        setsockopt(fd, IPPROTO_IPV6, IPV6_TCLASS, &tos, sizeof(tos));
        assert_int_equal(sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&to6, sizeof(to6)),
                         sizeof(bytes));
    }
    close(fd);
}

static void poll_bad(struct bed *b, uint64_t nr)
{
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    int nr_good = b->nr;
    while (fl_port_stats(b->port)->nr_bad_icrc < nr && fl_now_ns() < end)
        fl_port_poll(b->port, 16, take, b);
    assert_int_equal(fl_port_stats(b->port)->nr_bad_icrc, nr);
    assert_int_equal(b->nr, nr_good);
}

static void checks_what_foreigners_send(void **state)
{
    struct bed *b = bed_open();
    send_foreign(b, "127.0.0.1", 0, 0, 0);
    poll_until(b, 1);
    assert_false(b->last.meta.ce);
    send_foreign(b, "127.0.0.1", 3, 0xbeef, 0); /* an identification that the socket does not tell */
    poll_until(b, 2);
    assert_true(b->last.meta.ce);
    send_foreign(b, "127.0.0.1", 0, 0, 0x00000001);
    poll_bad(b, 1);
    send_foreign(b, "127.0.0.1", 0, 0x1234, 0x80000000);
    poll_bad(b, 2);
    if (has_ip6()) {
        send_foreign(b, "::1", 3, 0, 0);
        poll_until(b, 3);
        assert_true(b->last.meta.ce);
        send_foreign(b, "::1", 0, 0, 1); /* no identification: everything counts */
        poll_bad(b, 3);
    }
    bed_close(b);
}

static void garbage_is_counted(void **state)
{
    struct bed *b = bed_open();
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(b->udp_port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    const struct fl_port_stats *stats = fl_port_stats(b->port);
    uint8_t bytes[9000];
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    memset(bytes, 0xa5, sizeof(bytes));
    fl_bth_set((struct fl_bth *)bytes, 0x04, 0xffff, b->qpn, 0, 0);
    for (size_t len = 0; len < 60; len++)
        sendto(fd, bytes, len, 0, (struct sockaddr *)&to, sizeof(to));
    sendto(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&to, sizeof(to));
    fl_bth_set((struct fl_bth *)bytes, 0x04, 0xffff, b->qpn ^ 0x800000, 0, 0); /* nobody's */
    sendto(fd, bytes, 100, 0, (struct sockaddr *)&to, sizeof(to));
    while (stats->nr_unknown_qpn + stats->nr_bad_icrc + stats->nr_bad_packet < 61 && fl_now_ns() < end)
        fl_port_poll(b->port, 16, take, b);
    assert_int_equal(stats->nr_unknown_qpn + stats->nr_bad_icrc + stats->nr_bad_packet,
                     61);                      /* empty ones end in the socket */
    assert_int_equal(stats->nr_bad_packet, 1); /* the long one */
    assert_int_equal(b->nr, 0);
    close(fd);
    bed_close(b);
}

/* What cannot be sent is lost as on a wire, and no error of the socket stays behind. */
static void no_route_is_loss(void **state)
{
    struct bed *b = bed_open();
    struct fl_port_flow good = flow_of("127.0.0.1", "127.0.0.1"),
                        bad = flow_of("127.0.0.1", "255.255.255.255");
    struct fl_port_flow nobody = flow_of("203.0.113.7", "127.0.0.1"), mixed = flow_of("::1", "127.0.0.1");
    struct fl_roce_tx tx;
    packet_of(&tx, FL_IB_RC, b->qpn, 0, "abc", 4);
    for (int i = 0; i < 10; i++) {
        assert_true(fl_port_send(b->port, &bad, &tx));
        assert_true(fl_port_send(b->port, &nobody, &tx));
        assert_true(fl_port_send(b->port, &mixed, &tx));
        assert_true(fl_port_send(b->port, &good, &tx));
    }
    fl_port_flush(b->port);
    poll_until(b, 10);
    assert_int_equal(fl_port_stats(b->port)->nr_tx_dropped, 30);
    bed_close(b);
}

static void numbers_rest_before_they_come_back(void **state)
{
    struct bed *b = bed_open();
    uint32_t first, qpn, nr = 0;
    uint32_t *many = calloc(3000, sizeof(*many));
    assert_int_equal(fl_port_qpn_get(b->port, &first), 0);
    fl_port_qpn_put(b->port, first);
    do {
        assert_int_equal(fl_port_qpn_get(b->port, &qpn), 0);
        fl_port_qpn_put(b->port, qpn);
        nr++;
    } while (qpn != first && nr < 5000);
    assert_in_range(nr, 1000, 5000);
    for (int i = 0; i < 3000; i++) {
        struct fl_port_peer peer;
        assert_int_equal(fl_port_qpn_get(b->port, &many[i]), 0);
        assert_int_equal(fl_port_find_peer(b->port, many[i], &peer), 0);
        assert_int_equal(peer.pid, getpid());
        assert_string_equal(peer.address, fl_port_address(b->port));
    }
    for (int i = 0; i < 3000; i++)
        fl_port_qpn_put(b->port, many[i]);
    free(many);
    bed_close(b);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(packets_arrive_over_ip4), cmocka_unit_test(packets_arrive_over_ip6),
        cmocka_unit_test(bursts_go_in_few_calls), cmocka_unit_test(datagrams_bring_their_header),
        cmocka_unit_test(checks_what_foreigners_send), cmocka_unit_test(garbage_is_counted),
        cmocka_unit_test(no_route_is_loss), cmocka_unit_test(numbers_rest_before_they_come_back));
}
