/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V7, in virtual time: 1 % dropped, every ACK dropped, the last packet of each message dropped, packets
 * repeated and out of order; WRITEs, SENDs and READs of 1 B to 8 MiB; with go-back-N, with selective
 * retransmission, and with that over several paths. The data are right, what is on its way is bounded, and
 * total loss is a clean error.
 */
#include <string.h>

#include "base/unit.h"
#include "link.h"

#define WINDOW   256u
#define TIMEOUT  12 /* 16.8 ms */
#define RETRIES  7
#define GIVE_UP  ((RETRIES + 1) * (4096ull << TIMEOUT))
#define PATIENCE 300000000000ull

static const uint32_t lens[] = {1, 100, 4096, 4097, 65536, 1u << 20, 8u << 20};
static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ};

static struct link *connected(size_t mem_len, bool selective, uint8_t nr_paths)
{
    struct fl_roce_cap cap = {.type = IBV_QPT_RC,
                              .max_send_wr = 8,
                              .max_recv_wr = 8,
                              .max_send_sge = 1,
                              .max_recv_sge = 1,
                              .max_dest_rd_atomic = 4,
                              .sq_sig_all = true};
    struct fl_roce_attr attr = {.pkey = 0xffff,
                                .access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
                                .mtu = IBV_MTU_4096,
                                .timeout = TIMEOUT,
                                .retry_cnt = RETRIES,
                                .rnr_retry = 7,
                                .min_rnr_timer = 12,
                                .max_rd_atomic = 4,
                                .max_dest_rd_atomic = 4,
                                .window = WINDOW,
                                .selective = selective,
                                .nr_paths = nr_paths};
    struct link *l = link_new(&cap, &attr, mem_len);
    for (int i = 0; i < nr_paths; i++)
        l->path_delay[i] = (uint64_t)i * 2000;
    return l;
}

typedef void fate_fn(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                     struct link_fate *fate);

/* Three messages of a length, one after the other, in a link that treats packets so. */
static void carry(fate_fn *fate, unsigned loss, enum ibv_wr_opcode opcode, uint32_t len, bool selective,
                  uint8_t nr_paths)
{
    size_t mem_len = 2 * (size_t)len + 4096;
    struct link *l = connected(mem_len, selective, nr_paths);
    l->fate = fate;
    l->loss = loss;
    for (uint64_t i = 0; i < 3; i++) {
        struct link_end *from = opcode == IBV_WR_RDMA_READ ? &l->b : &l->a;
        uint64_t at = (mem_len - len) / 2 * i;
        memset(from->mem + at, (int)(0x11 + 0x22 * i), len / 2 + 1);
        memset(from->peer->mem + at, 0xff, len);
        if (opcode == IBV_WR_SEND)
            link_post_recv(&l->b, i, at, len);
        link_post(&l->a, i, opcode, at, len);
        link_run(l, l->now + PATIENCE);
        assert_int_equal(l->a.nr_sends, i + 1);
        assert_int_equal(l->a.status, IBV_WC_SUCCESS);
        if (opcode == IBV_WR_SEND)
            assert_int_equal(l->b.nr_recvs, i + 1);
        if (opcode == IBV_WR_SEND)
            assert_int_equal(l->b.last.byte_len, len);
        assert_memory_equal(l->a.mem + at, l->b.mem + at, len);
        assert_int_equal(fl_roce_qp_deadline(&l->a.qp), FL_ROCE_NEVER); /* no timer is left running */
    }
    /* What the requester may have on its way, and a READ's whole answer */
    uint64_t most = WINDOW + (opcode == IBV_WR_RDMA_READ ? len / 4096 + 1 : 0);
    assert_in_range(l->b.max_flying, 1, 2 * most + 16);
    assert_in_range(l->a.max_flying, 1, 2 * most + 16);
    link_free(l);
}

static void every_way(fate_fn *fate, unsigned loss)
{
    for (size_t i = 0; i < FL_ARRAY_LEN(lens); i++)
        for (size_t k = 0; k < FL_ARRAY_LEN(opcodes); k++) {
            carry(fate, loss, opcodes[k], lens[i], false, 1);
            carry(fate, loss, opcodes[k], lens[i], true, 1);
            carry(fate, loss, opcodes[k], lens[i], true, 4);
        }
}

static void v7_one_percent_dropped(void **state)
{
    every_way(link_lossy, 100);
}

static bool is_ack(const struct fl_ib_packet *packet)
{
    return packet->op->message == FL_IB_ACK && (packet->op->attr & FL_IB_RESPONSE);
}

static void drop_some_acks(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                           struct link_fate *fate)
{
    fate->drop = is_ack(packet) && link_draw(l) % 3;
}

static void v7_most_acks_dropped(void **state)
{
    every_way(drop_some_acks, 0);
}

static void drop_every_ack(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                           struct link_fate *fate)
{
    fate->drop = is_ack(packet);
}

/* The data arrive, the sender cannot know: its retries end in an error in bounded time. */
static void v7_every_ack_dropped(void **state)
{
    for (size_t i = 0; i < FL_ARRAY_LEN(lens); i++)
        for (int way = 0; way < 2; way++) {
            struct link *l = connected(8u << 20, way, 1);
            uint32_t first = lens[i] < WINDOW * 4096 ? lens[i] : WINDOW * 4096;
            l->fate = drop_every_ack;
            link_post(&l->a, 0, IBV_WR_RDMA_WRITE, 0, lens[i]);
            link_run(l, PATIENCE);
            assert_int_equal(l->a.nr_failed, 1);
            assert_int_equal(l->a.status, IBV_WC_RETRY_EXC_ERR);
            assert_in_range(l->now, GIVE_UP, GIVE_UP + 2000000);
            assert_memory_equal(l->a.mem, l->b.mem, first);
            link_free(l);
        }
}

static void drop_all(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                     struct link_fate *fate)
{
    fate->drop = true;
}

static void v7_total_loss(void **state)
{
    for (size_t k = 0; k < FL_ARRAY_LEN(opcodes); k++)
        for (int way = 0; way < 2; way++) {
            struct link *l = connected(8u << 20, way, 1);
            l->fate = drop_all;
            link_post(&l->a, 0, opcodes[k], 0, 1u << 20);
            link_post(&l->a, 1, opcodes[k], 0, 100);
            link_run(l, PATIENCE);
            assert_int_equal(l->a.nr_sends, 2);
            assert_int_equal(l->a.nr_failed, 2);
            assert_int_equal(l->a.status, IBV_WC_RETRY_EXC_ERR);
            assert_in_range(l->now, GIVE_UP, GIVE_UP + 2000000);
            assert_in_range(l->nr_packets, 1, (RETRIES + 1) * (WINDOW + 1) + 200);
            link_free(l);
        }
}

/* The first time that it is sent */
static uint32_t newest;
static uint64_t newest_of;

static void drop_last(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                      struct link_fate *fate)
{
    bool carries = packet->op->attr & FL_IB_HAS_PAYLOAD && !is_ack(packet);
    if (!carries || !(packet->op->attr & FL_IB_ENDS) || packet->bth->opcode == FL_IB_OPCODE_PROBE)
        return;
    if (newest_of == (uintptr_t)l && fl_psn_diff(packet->psn, newest) <= 0)
        return;
    newest_of = (uintptr_t)l;
    newest = packet->psn;
    fate->drop = true;
}

static void v7_last_packet_dropped(void **state)
{
    every_way(drop_last, 0);
}

/* ... and with selective retransmission that does not cost a time-out. */
static void v7_last_packet_dropped_is_found_soon(void **state)
{
    for (size_t k = 0; k < FL_ARRAY_LEN(opcodes); k++) {
        struct link *l = connected(65536, true, 1);
        link_post_recv(&l->b, 0, 0, 100);
        link_post(&l->a, 0, IBV_WR_SEND, 0, 100);
        link_run(l, PATIENCE);
        l->fate = drop_last;
        newest_of = 0;
        uint64_t from = l->now;
        if (opcodes[k] == IBV_WR_SEND)
            link_post_recv(&l->b, 1, 0, 65536);
        link_post(&l->a, 1, opcodes[k], 0, 65536);
        link_run(l, from + 1000000);
        assert_int_equal(l->a.nr_sends, 2);
        assert_int_equal(l->a.nr_failed, 0);
        assert_int_equal(l->a.qp.stats.nr_timeouts, 0);
        assert_int_equal(l->nr_lost, 1);
        link_free(l);
    }
}

static void repeat(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                   struct link_fate *fate)
{
    fate->twice = link_draw(l) % 10 == 0;
}

static void v7_repeated(void **state)
{
    every_way(repeat, 0);
}

static void reorder(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                    struct link_fate *fate)
{
    if (link_draw(l) % 50 == 0)
        fate->delay = link_draw(l) % 20000;
}

static void v7_out_of_order(void **state)
{
    every_way(reorder, 0);
}

static void everything(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                       struct link_fate *fate)
{
    link_lossy(l, from, packet, fate);
    repeat(l, from, packet, fate);
    reorder(l, from, packet, fate);
}

static void v7_all_at_once(void **state)
{
    every_way(everything, 100);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(v7_one_percent_dropped), cmocka_unit_test(v7_most_acks_dropped),
                       cmocka_unit_test(v7_every_ack_dropped), cmocka_unit_test(v7_total_loss),
                       cmocka_unit_test(v7_last_packet_dropped),
                       cmocka_unit_test(v7_last_packet_dropped_is_found_soon), cmocka_unit_test(v7_repeated),
                       cmocka_unit_test(v7_out_of_order), cmocka_unit_test(v7_all_at_once));
}
