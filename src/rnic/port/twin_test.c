/* SPDX-License-Identifier: Apache-2.0 */
/* A flow that most packets go by gets a connected socket: the ICRC fits the identification that the kernel
 * gives each packet, and an error of that socket loses nothing. */
#include <errno.h>
#include <linux/filter.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/try.h"
#include "rnic/port/test_packet.h"
#include "rnic/port/tx.h"

#define PAYLOAD 64

struct bed {
    struct fl_udp_tx *tx;
    struct fl_port_flow flow;
    struct fl_port_stats stats;
    int epoll_fd, fd, raw_fd; /* raw_fd: -1 without the right to have one */
    uint32_t sent;
};

static void listen_on(struct bed *b, const char *address)
{
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(b->flow.dport)};
    socklen_t len = sizeof(name);
    bool ip4 = !strchr(address, ':');
    if (ip4) {
        struct sockaddr_in *in = (struct sockaddr_in *)&name;
        *in = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(b->flow.dport)};
        inet_pton(AF_INET, address, &in->sin_addr);
    } else {
        inet_pton(AF_INET6, address, &name.sin6_addr);
    }
    b->fd = socket(ip4 ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
    assert_true(b->fd >= 0);
    assert_int_equal(bind(b->fd, (struct sockaddr *)&name, sizeof(name)), 0);
    assert_int_equal(getsockname(b->fd, (struct sockaddr *)&name, &len), 0);
    b->flow.dport = ntohs(name.sin6_port);
}

/* Sees the headers of what goes to the flow's port, and nothing else. */
static int open_raw(uint16_t dport)
{
    struct sock_filter of_port[] = {
        {BPF_LD | BPF_H | BPF_ABS, 0, 0, 22},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, dport},
        {BPF_RET | BPF_K, 0, 0, UINT32_MAX},
        {BPF_RET | BPF_K, 0, 0, 0},
    };
    const struct sock_fprog program = {.len = FL_ARRAY_LEN(of_port), .filter = of_port};
    int fd = socket(AF_INET, SOCK_RAW, IPPROTO_UDP);
    if (fd >= 0)
        assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)), 0);
    return fd;
}

static struct bed *bed_open(const char *address)
{
    struct bed *b = calloc(1, sizeof(*b));
    assert_non_null(b);
    b->flow = flow_of(address, address);
    listen_on(b, address);
    b->raw_fd = strchr(address, ':') ? -1 : open_raw(b->flow.dport);
    b->epoll_fd = epoll_create1(0);
    b->tx = fl_udp_tx_create(4791, b->epoll_fd, 0);
    assert_non_null(b->tx);
    return b;
}

static void bed_close(struct bed *b)
{
    fl_udp_tx_destroy(b->tx);
    if (b->fd >= 0)
        close(b->fd);
    if (b->raw_fd >= 0)
        close(b->raw_fd);
    close(b->epoll_fd);
    free(b);
}

static void send_packets(struct bed *b, uint32_t nr)
{
    uint8_t payload[PAYLOAD] = {7};
    struct fl_roce_tx tx;
    for (uint32_t i = 0; i < nr; i++) {
        packet_of(&tx, FL_IB_RC, 17, b->sent++, payload, sizeof(payload));
        assert_true(fl_udp_tx_send(b->tx, &b->flow, &tx, &b->stats));
    }
    fl_udp_tx_flush(b->tx, &b->stats);
}

/* What the sender took the packet's identification for, by its ICRC; PSNs come in order. */
static uint16_t id_of_next(struct bed *b, uint32_t psn, uint16_t *sport)
{
    uint8_t bytes[512];
    struct sockaddr_in6 from = {0};
    socklen_t len = sizeof(from);
    struct pollfd pfd = {.fd = b->fd, .events = POLLIN};
    le32 icrc;
    uint16_t id = 0;
    assert_int_equal(poll(&pfd, 1, 5000), 1);
    ssize_t n = recvfrom(b->fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &len);
    assert_int_equal(n, sizeof(struct fl_bth) + PAYLOAD + FL_IB_ICRC_LEN);
    assert_int_equal(be24_get(((struct fl_bth *)bytes)->psn), psn & 0xffffff);
    *sport = ntohs(from.sin6_port);
    memcpy(&icrc, bytes + n - 4, 4);
    uint32_t difference = le32_get(icrc) ^ fl_udp_icrc(&b->flow.sgid, &b->flow.dgid, *sport, b->flow.dport, 0,
                                                       bytes, (uint32_t)n);
    if (difference)
        assert_true(fl_udp_is_ip4(&b->flow.dgid) && fl_icrc_find_id(difference, (uint32_t)n, &id));
    return id;
}

/* What the kernel gave it. */
static uint16_t true_id(struct bed *b)
{
    uint8_t bytes[65536];
    struct pollfd pfd = {.fd = b->raw_fd, .events = POLLIN};
    for (;;) {
        assert_int_equal(poll(&pfd, 1, 5000), 1);
        ssize_t n = recv(b->raw_fd, bytes, sizeof(bytes), 0);
        if (n >= 28 && (bytes[22] << 8 | bytes[23]) == b->flow.dport)
            return (uint16_t)(bytes[4] << 8 | bytes[5]);
    }
}

/* Sends one and gives the identification that its ICRC is made for. */
static uint16_t one(struct bed *b, uint16_t *sport)
{
    uint32_t psn = b->sent;
    send_packets(b, 1);
    uint16_t id = id_of_next(b, psn, sport);
    if (b->raw_fd >= 0)
        assert_int_equal(true_id(b), id);
    return id;
}

static uint32_t nr_twins(const struct bed *b)
{
    uint32_t nr = 0;
    for (int i = 0; i < TWINS; i++)
        nr += b->tx->twins[i].fd >= 0;
    return nr;
}

/* Until the flow has its twin; the identification of the last packet, and the port. */
static uint16_t get_twin(struct bed *b, uint16_t *sport)
{
    uint16_t id = 0, port;
    assert_int_equal(one(b, sport), 0);
    for (uint32_t i = 0; i < 2 * TWIN_VOTES && !nr_twins(b); i++) {
        id = one(b, &port);
        assert_int_equal(port, *sport);
    }
    assert_int_equal(nr_twins(b), 1);
    return id;
}

static void identification_is_known(void **state)
{
    struct bed *b = bed_open("127.0.0.1");
    uint16_t sport, port, id = get_twin(b, &sport);
    for (uint32_t i = 0; i < 70000; i++) { /* past its wrap */
        uint16_t next = one(b, &port);
        assert_int_equal(next, (uint16_t)(id + 1));
        assert_int_equal(port, sport);
        id = next;
    }
    assert_int_equal(nr_twins(b), 1);
    bed_close(b);
}

/* Its packets count on from where the burst stands. by_packet: as a kernel would have it that is not here, so
 * that only the ICRCs are looked at. */
static void send_bursts(bool by_packet)
{
    struct bed *b = bed_open("127.0.0.1");
    uint16_t sport, id = get_twin(b, &sport);
    if (by_packet) {
        close(b->raw_fd);
        b->raw_fd = -1;
        b->tx->last_twin->count.by_packet = true;
    }
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t psn = b->sent, nr = 2 + i % 10;
        send_packets(b, nr);
        for (uint32_t k = 0; k < nr; k++)
            assert_int_equal(id_of_next(b, psn + k, &sport), (uint16_t)(id + 1 + k));
        if (b->raw_fd >= 0)
            assert_int_equal(true_id(b), (uint16_t)(id + 1));
        uint16_t next = one(b, &sport);
        if (by_packet)
            assert_int_equal(next, (uint16_t)(id + 1 + nr));
        id = next;
    }
    bed_close(b);
}

static void bursts_are_counted(void **state)
{
    send_bursts(false);
    send_bursts(true);
}

static void no_identification_over_ip6(void **state)
{
    struct bed *b;
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    struct sockaddr_in6 addr = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0;
    uint16_t sport, port;
    if (fd >= 0)
        close(fd);
    if (!has)
        skip();
    b = bed_open("::1");
    get_twin(b, &sport);
    for (uint32_t i = 0; i < 100; i++) {
        one(b, &port); /* checked whole */
        assert_int_equal(port, sport);
    }
    bed_close(b);
}

/* The peer's port is closed for a while: what ICMP says ends the twin, and no packet is lost by that. */
static void errors_end_it(void **state)
{
    struct bed *b = bed_open("127.0.0.1");
    uint16_t sport;
    for (uint32_t i = 0; i < TWINS_LOST; i++) {
        get_twin(b, &sport);
        close(b->fd);
        send_packets(b, 1); /* to nobody; the answer is the error of the next call */
        listen_on(b, "127.0.0.1");
        if (b->raw_fd >= 0)
            true_id(b);
        assert_int_equal(one(b, &sport), 0);
        assert_int_equal(nr_twins(b), 0);
        assert_int_equal(b->stats.nr_tx_dropped, 0);
    }
    for (uint32_t i = 0; i < 3 * TWIN_VOTES; i++) /* it has happened often enough */
        assert_int_equal(one(b, &sport), 0);
    bed_close(b);
}

/* What is queued when the twin ends is made right for the socket beside it. */
static void what_waits_is_sealed_anew(void **state)
{
    struct bed *b = bed_open("127.0.0.1");
    uint8_t payload[PAYLOAD] = {7};
    struct fl_roce_tx tx;
    uint16_t sport;
    uint32_t psn;
    get_twin(b, &sport);
    psn = b->sent;
    for (int i = 0; i < 5; i++) {
        packet_of(&tx, FL_IB_RC, 17, b->sent++, payload, sizeof(payload));
        assert_true(fl_udp_tx_send(b->tx, &b->flow, &tx, &b->stats));
    }
    fl_udp_tx_end_twin(b->tx, b->tx->last_twin);
    fl_udp_tx_flush(b->tx, &b->stats);
    for (uint16_t i = 0; i < 5; i++)
        assert_int_equal(id_of_next(b, psn + i, &sport), i);
    bed_close(b);
}

/* A packet that is not sent after all, since its memory is gone, is not counted. */
static void what_is_taken_back_is_not_counted(void **state)
{
    struct bed *b = bed_open("127.0.0.1");
    void *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct fl_roce_tx tx;
    uint16_t sport, id = get_twin(b, &sport);
    assert_ptr_not_equal(gone, MAP_FAILED);
    fl_try_init();
    packet_of(&tx, FL_IB_RC, 17, 0, gone, PAYLOAD);
    assert_true(fl_udp_tx_send(b->tx, &b->flow, &tx, &b->stats));
    fl_udp_tx_flush(b->tx, &b->stats);
    assert_int_equal(b->stats.nr_tx_dropped, 1);
    assert_int_equal(one(b, &sport), (uint16_t)(id + 1));
    munmap(gone, 4096);
    bed_close(b);
}

/* Many flows in turn: none gets one. Then each for a while: all get one, and the oldest gives its up. */
static void few_flows_have_one(void **state)
{
    struct bed *b = bed_open("127.0.0.1");
    const uint16_t dport = b->flow.dport;
    uint16_t sport;
    for (uint32_t i = 0; i < 8 * TWIN_VOTES; i++) {
        b->flow.entropy = (uint16_t)i;
        assert_int_equal(one(b, &sport), 0);
    }
    assert_int_equal(nr_twins(b), 0);
    for (uint16_t i = 0; i < TWINS + 2; i++) {
        b->flow.sgid = b->flow.dgid = gid_of("127.0.0.1");
        b->flow.sgid.s6_addr[15] = (uint8_t)(10 + i); /* another source each */
        for (uint32_t k = 0; k < 3 * TWIN_VOTES; k++)
            one(b, &sport);
        assert_int_equal(nr_twins(b), FL_MIN(i + 1, TWINS));
    }
    assert_int_equal(b->flow.dport, dport);
    assert_int_equal(b->stats.nr_tx_dropped, 0);
    bed_close(b);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(identification_is_known), cmocka_unit_test(bursts_are_counted),
                       cmocka_unit_test(no_identification_over_ip6), cmocka_unit_test(errors_end_it),
                       cmocka_unit_test(what_waits_is_sealed_anew),
                       cmocka_unit_test(what_is_taken_back_is_not_counted),
                       cmocka_unit_test(few_flows_have_one));
}
