/* SPDX-License-Identifier: Apache-2.0 */
/* Selective retransmission and spraying between two farlane peers. */
#include "rnic/roce/test_pair.h"

#define MTU 1024u

static struct pair *selective(uint32_t nr_held, uint8_t nr_paths)
{
    struct pair *p = pair_new();
    assert_int_equal(fl_roce_pool_init(&p->pool, nr_held), 0);
    p->cap.pool = &p->pool;
    p->attr.selective = true;
    p->attr.nr_paths = nr_paths;
    pair_up(p);
    return p;
}

static void expect_same(const struct pair *p, uint32_t at_a, uint32_t at_b, uint32_t len)
{
    assert_memory_equal(p->a.mem + at_a, p->b.mem + at_b, len);
}

/* Until nothing moves, by packets and by the clock, but not by the time-out: that one must not be needed. */
static void settle_soon(struct pair *p)
{
    for (int i = 0; i < 20; i++) {
        settle(p);
        uint64_t due = fl_roce_qp_deadline(&p->a.qp);
        if (due == FL_ROCE_NEVER || due >= p->a.qp.req.timeout_at)
            break;
        wait_until(p, due);
    }
    assert_int_equal(p->a.qp.stats.nr_timeouts, 0);
}

static void only_the_lost_packet_is_sent_again(void **state)
{
    struct pair *p = selective(64, 1);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 20 * MTU, 20000);
    uint8_t before = p->b.mem[20000 + 20 * MTU - 1];
    for (int i = 0; i < 20; i++) {
        struct sent *s = take(p, &p->a);
        assert_non_null(s);
        if (i != 3)
            give(p, s);
    }
    assert_int_equal(p->b.qp.stats.nr_held, 16);
    /* A program that looks at the last byte sees it last. */
    assert_int_equal(p->b.mem[20000 + 20 * MTU - 1], before);
    settle(p);
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    expect_same(p, 0, 20000, 20 * MTU);
    assert_int_equal(p->a.qp.stats.nr_resent, 1);
    assert_int_equal(p->a.qp.stats.nr_gone_back, 0);
    assert_int_equal(p->a.qp.req.retry_left, 3);
    assert_int_equal(p->pool.nr_free, 64);
    pair_free(p);
}

/* Messages behind a gap wait: keys, receives and completions come in the order of posting. */
static void messages_behind_a_gap_complete_in_order(void **state)
{
    struct pair *p = selective(64, 1);
    p->b.qp.attr.max_dest_rd_atomic = 2;
    for (uint64_t i = 0; i < 3; i++)
        post_recv(&p->b, 50 + i, 30000 + 1000 * i, 1000);
    post(&p->a, 1, IBV_WR_SEND, 0, 100, 0);
    post(&p->a, 2, IBV_WR_RDMA_WRITE, 200, 100, 20000);
    post(&p->a, 3, IBV_WR_ATOMIC_FETCH_AND_ADD, 1600, 8, 24000);
    post(&p->a, 4, IBV_WR_SEND, 300, 100, 0);
    post(&p->a, 5, IBV_WR_RDMA_READ, 2000, 100, 21000);
    post(&p->a, 6, IBV_WR_SEND_WITH_IMM, 400, 100, 0);
    struct sent *first = take(p, &p->a), *s;
    while ((s = take(p, &p->a)))
        give(p, s);
    assert_int_equal(p->b.nr_wcs, 0);
    assert_int_equal(p->b.qp.stats.nr_held, 5);
    give(p, first);
    assert_int_equal(p->b.nr_wcs, 3);
    settle(p);
    assert_int_equal(p->a.nr_wcs, 6);
    for (int i = 0; i < 6; i++)
        expect_wc(&p->a, i, (uint64_t)i + 1, IBV_WC_SUCCESS);
    for (int i = 0; i < 3; i++)
        expect_wc(&p->b, i, 50 + (uint64_t)i, IBV_WC_SUCCESS);
    expect_same(p, 2000, 21000, 100);
    pair_free(p);
}

static void lost_answers_to_a_read_are_asked_for_alone(void **state)
{
    struct pair *p = selective(8, 1);
    post(&p->a, 1, IBV_WR_RDMA_READ, 0, 20 * MTU + 5, 20000);
    give(p, take(p, &p->a));
    struct sent *s;
    for (int i = 0; (s = take(p, &p->b)); i++)
        if (i != 4 && i != 5 && i != 11)
            give(p, s);
    int before = p->nr_log;
    settle(p);
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    expect_same(p, 0, 20000, 20 * MTU + 5);
    int nr_answers = 0, nr_requests = 0;
    for (int i = before; i < p->nr_log; i++) {
        nr_answers += p->log[i].view.payload_len == MTU;
        const struct fl_reth *reth = fl_ib_reth(&p->log[i].view);
        nr_requests += reth != NULL;
        if (reth && nr_requests == 1)
            assert_int_equal(be32_get(reth->dma_len), 2 * MTU);
        if (reth && nr_requests == 1)
            assert_int_equal(be64_get(reth->va), 20000 + 4 * MTU);
    }
    assert_int_equal(nr_requests, 2);
    assert_int_equal(nr_answers, 3);
    pair_free(p);
}

/* The end of a message is lost, and nothing behind it tells: a probe does, long before the time-out. */
static void lost_tail_is_found_by_a_probe(void **state)
{
    static const int lost_from[] = {0, 3, 4};
    for (int k = 0; k < 3; k++) {
        struct pair *p = selective(8, 1);
        post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 100, 20000); /* for a round trip to be seen */
        struct sent *s = take(p, &p->a);
        p->now += 10000;
        give(p, s);
        settle(p);
        post(&p->a, 2, IBV_WR_RDMA_WRITE, 0, 5 * MTU, 20000);
        for (int i = 0; (s = take(p, &p->a)); i++)
            if (i < lost_from[k])
                give(p, s);
        settle(p);
        assert_int_equal(p->a.nr_wcs, 1);
        uint64_t from = p->now;
        wait_until(p, fl_roce_qp_deadline(&p->a.qp));
        assert_true(p->now - from <= 200000); /* the time-out: 4.2 ms */
        settle(p);
        expect_wc(&p->a, 1, 2, IBV_WC_SUCCESS);
        assert_int_equal(p->a.qp.stats.nr_resent, 5 - lost_from[k]);
        assert_int_equal(p->a.qp.stats.nr_timeouts, 0);
        expect_same(p, 0, 20000, 5 * MTU);
        pair_free(p);
    }
}

/* What is sent again may be lost again, and so may a probe and its answer. */
static void lost_again(void **state)
{
    struct pair *p = selective(64, 1);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 20 * MTU, 20000);
    struct sent *s;
    for (int i = 0; (s = take(p, &p->a)); i++)
        if (i != 3)
            give(p, s);
    while ((s = take(p, &p->b)))
        give(p, s);
    s = take(p, &p->a);
    assert_int_equal(s->view.psn, 103); /* and lost */
    s = take(p, &p->a);
    assert_int_equal(s->view.bth->opcode, FL_IB_OPCODE_PROBE);
    give(p, s);
    while ((s = take(p, &p->b)))
        give(p, s);
    s = take(p, &p->a);
    assert_int_equal(s->view.psn,
                     103); /* the answer to the probe told; lost once more, the next probe, too */
    lose(p, &p->a);
    settle_soon(p);
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    expect_same(p, 0, 20000, 20 * MTU);
    pair_free(p);
}

static void total_loss_ends_in_bounded_time(void **state)
{
    struct pair *p = selective(8, 4);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 5 * MTU, 0);
    post(&p->a, 2, IBV_WR_RDMA_READ, 0, 50, 0);
    uint64_t from = p->now;
    int nr = 0;
    while (p->a.nr_wcs < 2) {
        nr += lose(p, &p->a);
        wait_until(p, fl_roce_qp_deadline(&p->a.qp));
        assert_true(nr < 200);
    }
    expect_wc(&p->a, 0, 1, IBV_WC_RETRY_EXC_ERR);
    expect_wc(&p->a, 1, 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(p->now - from, 4 * 4194304); /* retry_cnt 3 */
    assert_int_equal(fl_roce_qp_deadline(&p->a.qp), FL_ROCE_NEVER);
    pair_free(p);
}

/* Each packet of a message on another path, and the paths arrive one after the other, the last one first. */
static void spraying_does_not_look_like_loss(void **state)
{
    enum { PATHS = 8, PACKETS = 32 };
    struct pair *p = selective(64, PATHS);
    struct sent *sent[PACKETS];
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, PACKETS * MTU, 30000);
    for (int i = 0; i < PACKETS; i++) {
        sent[i] = take(p, &p->a);
        assert_int_equal(sent[i]->path, sent[i]->view.psn % PATHS);
    }
    for (int path = PATHS - 1; path >= 0; path--)
        for (int i = 0; i < PACKETS; i++)
            if (sent[i]->path == path) {
                give(p, sent[i]);
                settle(p);
            }
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    expect_same(p, 0, 30000, PACKETS * MTU);
    post(&p->a, 2, IBV_WR_RDMA_READ, 0, PACKETS * MTU, 30000);
    memset(p->a.mem, 0, PACKETS * MTU);
    give(p, take(p, &p->a));
    for (int i = 0; i < PACKETS; i++)
        sent[i] = take(p, &p->b);
    for (int path = 0; path < PATHS; path++)
        for (int i = 0; i < PACKETS; i++)
            if (sent[i]->path == path)
                give(p, sent[i]);
    settle(p);
    expect_wc(&p->a, 1, 2, IBV_WC_SUCCESS);
    expect_same(p, 0, 30000, PACKETS * MTU);
    assert_int_equal(p->a.qp.stats.nr_resent + p->b.qp.stats.nr_resent, 0);
    pair_free(p);
}

/* The path on which a packet is always lost: sent again, it takes another. */
static void a_dead_path_is_got_around(void **state)
{
    struct pair *p = selective(64, 4);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 30 * MTU, 30000);
    for (int i = 0; i < 200 && !p->a.nr_wcs; i++) {
        struct sent *s;
        while ((s = take(p, &p->a)))
            if (s->path != 2)
                give(p, s);
        while ((s = take(p, &p->b)))
            if (s->path != 2)
                give(p, s);
        if (fl_roce_qp_deadline(&p->a.qp) < p->a.qp.req.timeout_at)
            wait_until(p, fl_roce_qp_deadline(&p->a.qp));
    }
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    assert_int_equal(p->a.qp.stats.nr_timeouts, 0);
    expect_same(p, 0, 30000, 30 * MTU);
    pair_free(p);
}

/* Where the pool is used up, what came ahead is missing like what was lost. */
static void pool_used_up(void **state)
{
    struct pair *p = selective(2, 1);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 12 * MTU, 20000);
    struct sent *s;
    for (int i = 0; (s = take(p, &p->a)); i++)
        if (i != 1)
            give(p, s);
    assert_int_equal(p->b.qp.stats.nr_held, 2);
    assert_int_equal(p->b.qp.stats.nr_no_room, 8);
    settle_soon(p);
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    expect_same(p, 0, 20000, 12 * MTU);
    assert_int_equal(p->pool.nr_free, 2);
    pair_free(p);
}

/* A held SEND whose turn comes and that finds no receive. */
static void held_send_without_a_receive(void **state)
{
    struct pair *p = selective(8, 1);
    post_recv(&p->b, 1, 30000, 100);
    post(&p->a, 1, IBV_WR_SEND, 0, 50, 0);
    post(&p->a, 2, IBV_WR_SEND, 100, 50, 0);
    post(&p->a, 3, IBV_WR_RDMA_WRITE, 200, 50, 40000);
    struct sent *first = take(p, &p->a), *s;
    while ((s = take(p, &p->a)))
        give(p, s);
    give(p, first);
    assert_int_equal(p->b.nr_wcs, 1);
    settle(p);
    assert_int_equal(p->a.nr_wcs, 1);
    assert_int_equal(p->b.qp.stats.nr_rnr_tx, 1);
    uint64_t due = fl_roce_qp_deadline(&p->a.qp);
    assert_int_equal(due, p->now + 960000); /* timer code 13 */
    wait_until(p, due - 1);
    assert_null(take(p, &p->a));
    post_recv(&p->b, 2, 31000, 100);
    wait_until(p, due);
    settle(p);
    assert_int_equal(p->a.nr_wcs, 3);
    assert_int_equal(p->b.nr_wcs, 2);
    expect_same(p, 100, 31000, 50);
    expect_same(p, 200, 40000, 50);
    pair_free(p);
}

/* A receiver that is slow to post receives is no sign of a network that overflows. */
static void rnr_leaves_the_window(void **state)
{
    struct pair *p = selective(8, 1);
    for (uint64_t i = 0; i < 600; i++) {
        post(&p->a, i, IBV_WR_SEND, 0, 50, 0);
        settle(p);
        post_recv(&p->b, i, 30000, 100);
        wait_until(p, fl_roce_qp_deadline(&p->a.qp));
        settle(p);
        assert_int_equal(p->a.nr_wcs, 1);
        p->a.nr_wcs = p->b.nr_wcs = p->nr_log = 0;
    }
    assert_int_equal(p->a.qp.stats.nr_rnr_rx, 600);
    assert_int_equal(p->a.qp.req.window, p->a.qp.attr.window);
    pair_free(p);
}

/* What comes before the refused request ends well, and in order, though its answer comes later. */
static void refusal_overtakes_an_answer(void **state)
{
    struct pair *p = selective(8, 2);
    post(&p->a, 1, IBV_WR_RDMA_READ, 0, 100, 20000);
    post(&p->a, 2, IBV_WR_RDMA_WRITE, 0, 100, MEM_LEN - 50);
    post(&p->a, 3, IBV_WR_RDMA_WRITE, 0, 100, 0);
    give(p, take(p, &p->a));
    struct sent *answer = take(p, &p->b);
    give(p, take(p, &p->a));
    struct sent *nak = take(p, &p->b);
    assert_int_equal(fl_ib_aeth(&nak->view)->syndrome, 0x62);
    give(p, nak);
    assert_int_equal(p->a.nr_wcs, 0);
    give(p, answer);
    assert_int_equal(p->a.nr_wcs, 3);
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    expect_wc(&p->a, 1, 2, IBV_WC_REM_ACCESS_ERR);
    expect_wc(&p->a, 2, 3, IBV_WC_WR_FLUSH_ERR);
    expect_same(p, 0, 20000, 100);
    pair_free(p);
}

static void others_never_see_it(void **state)
{
    struct pair *p = pair_new();
    assert_int_equal(fl_roce_pool_init(&p->pool, 8), 0);
    p->cap.pool = &p->pool; /* able to, but not agreed */
    pair_up(p);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 9 * MTU, 20000);
    struct sent *s;
    for (int i = 0; (s = take(p, &p->a)); i++)
        if (i != 1)
            give(p, s);
    settle(p);
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    for (int i = 0; i < p->nr_log; i++) {
        assert_true(p->log[i].view.bth->opcode < 0xc0);
        assert_int_equal(p->log[i].path, 0);
    }
    assert_int_equal(p->b.qp.stats.nr_held, 0);
    /* And what somebody sends all the same is dropped. */
    static const uint8_t own[] = {FL_IB_OPCODE_SACK, FL_IB_OPCODE_PROBE};
    for (int i = 0; i < 2; i++) {
        uint8_t bytes[64] = {0};
        struct fl_ib_packet view;
        fl_bth_set((struct fl_bth *)bytes, own[i], 0xffff, p->a.qp.cap.qpn, p->a.qp.req.psn_una, 0);
        assert_int_equal(fl_ib_packet_view(&view, bytes, sizeof(bytes)), 0);
        fl_roce_qp_rx(&p->a.qp, &view, NULL, p->now);
        assert_int_equal(p->a.qp.stats.nr_dropped, i + 1);
        assert_null(take(p, &p->a));
    }
    pair_free(p);
}

static void what_cannot_be_agreed(void **state)
{
    struct pair *p = pair_new();
    p->cap.qpn = 0x11;
    for (int with_pool = 0; with_pool < 2; with_pool++) {
        if (with_pool)
            assert_int_equal(fl_roce_pool_init(&p->pool, 8), 0);
        p->cap.pool = with_pool ? &p->pool : NULL;
        assert_int_equal(fl_roce_qp_init(&p->a.qp, &pair_ops, &p->cap, &p->a), 0);
        struct fl_roce_attr attr = p->attr;
        assert_int_equal(fl_roce_qp_modify(&p->a.qp, IBV_QPS_INIT, &attr), 0);
        attr.nr_paths = 2; /* without selective */
        assert_int_equal(fl_roce_qp_modify(&p->a.qp, IBV_QPS_RTR, &attr), -EINVAL);
        attr.selective = true;
        static const uint8_t not_allowed[] = {3, 17, 32, 255};
        for (size_t i = 0; i < sizeof(not_allowed); i++) {
            attr.nr_paths = not_allowed[i];
            assert_int_equal(fl_roce_qp_modify(&p->a.qp, IBV_QPS_RTR, &attr), -EINVAL);
        }
        attr.nr_paths = 16;
        assert_int_equal(fl_roce_qp_modify(&p->a.qp, IBV_QPS_RTR, &attr), with_pool ? 0 : -EINVAL);
        fl_roce_qp_fini(&p->a.qp);
    }
    assert_int_equal(fl_roce_pool_init(&(struct fl_roce_pool){0}, 0), -EINVAL);
    assert_int_equal(fl_roce_pool_init(&(struct fl_roce_pool){0}, FL_ROCE_POOL_MAX + 1), -EINVAL);
    memset(&p->b.qp, 0, sizeof(p->b.qp));
    pair_free(p);
}

/* A receiver's word on what lies there is not trusted beyond what was sent. */
static void sack_of_nonsense(void **state)
{
    struct pair *p = selective(8, 1);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 5 * MTU, 20000);
    lose(p, &p->a);
    uint8_t bytes[16 + 4 + 1024];
    struct fl_ib_packet view;
    for (int round = 0; round < 4; round++) {
        uint32_t len = round == 3 ? 0 : sizeof(bytes) - 16;
        uint32_t psn = round == 0 ? 99 : round == 1 ? 105 : 98;
        memset(bytes, 0xff, sizeof(bytes));
        fl_bth_set((struct fl_bth *)bytes, FL_IB_OPCODE_SACK, 0xffff, 0x11, psn, 0);
        bytes[12] = 0x1f; /* ACK */
        assert_int_equal(fl_ib_packet_view(&view, bytes, 16 + len), 0);
        fl_roce_qp_rx(&p->a.qp, &view, NULL, p->now);
        assert_int_equal(p->a.nr_wcs, 0);
        assert_true(p->a.qp.sel->nr_out + p->a.qp.sel->nr_lost <= 5);
    }
    while (p->a.qp.stats.nr_timeouts < 1) {
        lose(p, &p->a);
        wait_until(p, fl_roce_qp_deadline(&p->a.qp));
    }
    settle(p); /* what it said to have is sent all the same once the time-out has come */
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    expect_same(p, 0, 20000, 5 * MTU);
    pair_free(p);
}

/* Requests whose packets and probes are all lost until the time-out: each is still known by its PSN, sent
 * again once, and counted once. */
static void time_out_goes_back_by_psn(void **state)
{
    struct pair *p = selective(16, 1);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 3 * MTU, 20000);
    post(&p->a, 2, IBV_WR_RDMA_WRITE, 3 * MTU, 2 * MTU, 20000 + 3 * MTU);
    post(&p->a, 3, IBV_WR_RDMA_READ, 8 * MTU, 2 * MTU, 30000);
    for (uint32_t nr = 1; nr <= 2; nr++) {
        while (p->a.qp.stats.nr_timeouts < nr) {
            lose(p, &p->a);
            wait_until(p, fl_roce_qp_deadline(&p->a.qp));
        }
        assert_int_equal(p->a.qp.sel->nr_out + p->a.qp.sel->nr_lost, 7);
    }
    settle(p);
    for (int i = 0; i < 3; i++)
        expect_wc(&p->a, i, (uint64_t)i + 1, IBV_WC_SUCCESS);
    assert_int_equal(p->a.qp.sel->nr_out, 0);
    assert_int_equal(p->a.qp.req.nr_rd, 0);
    expect_same(p, 0, 20000, 5 * MTU);
    expect_same(p, 8 * MTU, 30000, 2 * MTU);
    pair_free(p);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(only_the_lost_packet_is_sent_again),
                       cmocka_unit_test(messages_behind_a_gap_complete_in_order),
                       cmocka_unit_test(lost_answers_to_a_read_are_asked_for_alone),
                       cmocka_unit_test(lost_tail_is_found_by_a_probe), cmocka_unit_test(lost_again),
                       cmocka_unit_test(total_loss_ends_in_bounded_time),
                       cmocka_unit_test(spraying_does_not_look_like_loss),
                       cmocka_unit_test(a_dead_path_is_got_around), cmocka_unit_test(pool_used_up),
                       cmocka_unit_test(held_send_without_a_receive), cmocka_unit_test(rnr_leaves_the_window),
                       cmocka_unit_test(refusal_overtakes_an_answer), cmocka_unit_test(others_never_see_it),
                       cmocka_unit_test(what_cannot_be_agreed), cmocka_unit_test(sack_of_nonsense),
                       cmocka_unit_test(time_out_goes_back_by_psn));
}
