/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection does when something goes wrong: loss, repeats, receivers not ready, requests that are not
 * allowed. */
#include "rnic/roce/test_pair.h"

static void nak_once_a_gap_and_back(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    for (uint64_t i = 0; i < 5; i++) {
        post_recv(&p->b, i, 1000 * i, 100);
        post(&p->a, i, IBV_WR_SEND, 100 * i, 50, 0);
    }
    for (int i = 0; i < 5; i++) {
        struct sent *s = take(p, &p->a);
        if (i != 1)
            give(p, s);
    }
    struct sent *nak = take(p, &p->b);
    assert_int_equal(fl_ib_aeth(&nak->view)->syndrome, 0x60);
    assert_int_equal(nak->view.psn, 101);
    assert_null(take(p, &p->b));
    give(p, nak);
    assert_int_equal(p->a.nr_wcs, 1); /* what was before it is acknowledged */
    give(p, nak);                     /* repeated by the network */
    assert_int_equal(p->a.qp.stats.nr_gone_back, 1);
    settle(p);
    assert_int_equal(p->a.nr_wcs, 5);
    assert_int_equal(p->b.nr_wcs, 5);
    assert_int_equal(p->a.qp.stats.nr_resent, 4);
    assert_int_equal(p->a.qp.stats.nr_timeouts, 0);
    pair_free(p);
}

/* V7: total loss is a clean error after retry_cnt repeats, each a time-out after the last. */
static void total_loss_ends(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    post(&p->a, 1, IBV_WR_SEND, 0, 50, 0);
    post(&p->a, 2, IBV_WR_RDMA_READ, 0, 50, 0);
    assert_int_equal(lose(p, &p->a), 2);
    for (int i = 0; i < 3; i++) {
        uint64_t due = fl_roce_qp_deadline(&p->a.qp);
        assert_int_equal(due, p->now + 4194304);
        wait_until(p, due - 1);
        assert_int_equal(lose(p, &p->a), 0);
        wait_until(p, due);
        assert_int_equal(lose(p, &p->a), 2);
    }
    wait_until(p, fl_roce_qp_deadline(&p->a.qp));
    assert_int_equal(p->a.nr_wcs, 2);
    expect_wc(&p->a, 0, 1, IBV_WC_RETRY_EXC_ERR);
    expect_wc(&p->a, 1, 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(p->a.qp.state, IBV_QPS_ERR);
    assert_int_equal(fl_roce_qp_deadline(&p->a.qp), FL_ROCE_NEVER);
    pair_free(p);
}

static void lost_acknowledgement(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    post_recv(&p->b, 9, 0, 3000);
    post(&p->a, 1, IBV_WR_SEND, 0, 3000, 0);
    struct sent *s;
    while ((s = take(p, &p->a)))
        give(p, s);
    assert_int_equal(lose(p, &p->b), 1);
    wait_until(p, fl_roce_qp_deadline(&p->a.qp));
    give(p, take(p, &p->a)); /* one repeat is enough: the answer has the newest PSN */
    give(p, take(p, &p->b));
    assert_int_equal(p->a.nr_wcs, 1);
    assert_int_equal(p->b.nr_wcs, 1);
    assert_null(take(p, &p->a));
    assert_int_equal(p->b.qp.stats.nr_duplicates, 1);
    pair_free(p);
}

static void lost_read_response(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    post(&p->a, 1, IBV_WR_RDMA_READ, 0, 5000, 20000);
    post(&p->a, 2, IBV_WR_RDMA_READ, 6000, 10, 30000);
    give(p, take(p, &p->a));
    give(p, take(p, &p->a));
    for (int i = 0; i < 6; i++) {
        struct sent *s = take(p, &p->b);
        if (i != 2)
            give(p, s);
    }
    assert_int_equal(p->a.qp.stats.nr_gone_back, 1); /* once, however many came after the gap */
    struct sent *again = take(p, &p->a);
    assert_int_equal(again->view.psn, 102);
    assert_int_equal(be64_get(fl_ib_reth(&again->view)->va), 22048);
    assert_int_equal(be32_get(fl_ib_reth(&again->view)->dma_len), 2952);
    give(p, again);
    settle(p);
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    expect_wc(&p->a, 1, 2, IBV_WC_SUCCESS);
    assert_memory_equal(p->a.mem, p->b.mem + 20000, 5000);
    pair_free(p);
}

static void atomic_asked_again_is_not_done_again(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    uint64_t zero = 0, value;
    memcpy(p->b.mem + 800, &zero, 8);
    post(&p->a, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 800);
    give(p, take(p, &p->a));
    assert_int_equal(lose(p, &p->b), 1);
    wait_until(p, fl_roce_qp_deadline(&p->a.qp));
    settle(p);
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    memcpy(&value, p->a.mem, 8);
    assert_int_equal(value, 0);
    memcpy(&value, p->b.mem + 800, 8);
    assert_int_equal(value, 5);
    pair_free(p);
}

/* R10: the table decides how long a sender waits. */
static void receiver_not_ready(void **state)
{
    static const struct {
        uint8_t code;
        uint64_t ns;
    } timers[] = {{0, 655360000}, {13, 960000}, {1, 10000}, {31, 491520000}};
    for (size_t i = 0; i < FL_ARRAY_LEN(timers); i++) {
        struct pair *p = pair_new();
        p->attr.min_rnr_timer = timers[i].code;
        pair_up(p);
        post(&p->a, 1, IBV_WR_SEND, 0, 3000, 0);
        settle(p);
        assert_int_equal(p->b.qp.stats.nr_rnr_tx, 1); /* three packets, one answer */
        assert_int_equal(p->a.qp.stats.nr_rnr_rx, 1);
        assert_int_equal(p->b.qp.stats.nr_nak_tx[FL_IB_NAK_SEQUENCE], 0);
        assert_int_equal(fl_roce_qp_deadline(&p->a.qp), p->now + timers[i].ns);
        post_recv(&p->b, 9, 10000, 3000);
        wait_until(p, p->now + timers[i].ns - 1);
        settle(p);
        assert_int_equal(p->a.nr_wcs, 0);
        wait_until(p, p->now + 1);
        settle(p);
        expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
        assert_memory_equal(p->b.mem + 10000, p->a.mem, 3000);
        pair_free(p);
    }
}

static void rnr_retries_end(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    post(&p->a, 1, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 30, 100);
    for (int i = 0; i < 3; i++) {
        settle(p);
        assert_int_equal(p->a.nr_wcs, i == 2);
        if (i < 2)
            wait_until(p, fl_roce_qp_deadline(&p->a.qp));
    }
    expect_wc(&p->a, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
    pair_free(p);

    p = pair_new();
    p->attr.rnr_retry = FL_ROCE_RNR_RETRY_FOREVER;
    pair_up(p);
    post(&p->a, 1, IBV_WR_SEND, 0, 30, 0);
    for (int i = 0; i < 100; i++) {
        settle(p);
        wait_until(p, fl_roce_qp_deadline(&p->a.qp));
    }
    assert_int_equal(p->a.nr_wcs, 0);
    assert_int_equal(p->b.qp.stats.nr_rnr_tx, 100);
    pair_free(p);
}

/* R3: the requester keeps to its number; a responder that gets one too many says invalid request. */
/* A message that came whole is acknowledged also where our own requests then end the connection. */
static void acknowledged_at_the_end(void **state)
{
    struct pair *p = pair_new();
    p->attr.rnr_retry = 0;
    pair_up(p);
    post_recv(&p->b, 70, 0, 100);
    assert_int_equal(post(&p->b, 1, IBV_WR_SEND, 0, 10, 0), 0);
    give(p, take(p, &p->b));
    struct sent *not_ready = take(p, &p->a);
    assert_int_equal(post(&p->a, 2, IBV_WR_SEND, 0, 10, 0), 0);
    give(p, take(p, &p->a));
    give(p, not_ready);
    expect_wc(&p->b, 0, 70, IBV_WC_SUCCESS);
    expect_wc(&p->b, 1, 1, IBV_WC_RNR_RETRY_EXC_ERR);
    assert_int_equal(p->b.qp.state, IBV_QPS_ERR);
    give(p, take(p, &p->b));
    expect_wc(&p->a, 0, 2, IBV_WC_SUCCESS);
    assert_null(take(p, &p->b));
    pair_free(p);
}

static void reads_on_their_way(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    for (uint64_t i = 0; i < 5; i++)
        post(&p->a, i, IBV_WR_RDMA_READ, 0, 100, 0);
    assert_non_null(take(p, &p->a));
    assert_non_null(take(p, &p->a));
    assert_null(take(p, &p->a));
    pair_free(p);

    p = pair_new();
    p->attr.max_rd_atomic = 0;
    pair_up(p);
    assert_int_equal(post(&p->a, 1, IBV_WR_RDMA_READ, 0, 100, 0), -EINVAL);
    pair_free(p);

    for (uint8_t room = 0; room < 3; room++) {
        p = pair_new();
        p->attr.max_rd_atomic = 3;
        p->attr.max_dest_rd_atomic = room;
        pair_up(p);
        for (uint64_t i = 0; i < 3; i++)
            post(&p->a, i, i == 1 ? IBV_WR_ATOMIC_FETCH_AND_ADD : IBV_WR_RDMA_READ, 0, 8, 0);
        for (int i = 0; i < 3; i++)
            give(p, take(p, &p->a));
        settle(p);
        for (uint64_t i = 0; i < room; i++)
            expect_wc(&p->a, (int)i, i, IBV_WC_SUCCESS);
        expect_wc(&p->a, room, room, IBV_WC_REM_INV_REQ_ERR);
        assert_int_equal(p->b.qp.state, IBV_QPS_ERR);
        assert_int_equal(p->b.event, IBV_EVENT_QP_REQ_ERR);
        pair_free(p);
    }
}

static void expect_refused(struct pair *p, enum ibv_wc_status status, enum fl_ib_nak nak)
{
    settle(p);
    assert_int_equal(p->a.nr_wcs, 1);
    expect_wc(&p->a, 0, 1, status);
    assert_int_equal(p->b.qp.stats.nr_nak_tx[nak], 1);
    assert_int_equal(p->b.qp.state, IBV_QPS_ERR);
    assert_int_equal(p->a.qp.state, IBV_QPS_ERR);
    pair_free(p);
}

static struct pair *pair_with(int access)
{
    struct pair *p = pair_new();
    p->attr.access = access;
    pair_up(p);
    return p;
}

static void requests_not_allowed(void **state)
{
    int all = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    struct pair *p = pair_with(all);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 3000, MEM_LEN - 2999);
    uint8_t before[2999];
    memcpy(before, p->b.mem + MEM_LEN - 2999, sizeof(before));
    settle(p);
    assert_memory_equal(before, p->b.mem + MEM_LEN - 2999,
                        sizeof(before)); /* not even the part that is there */
    expect_refused(p, IBV_WC_REM_ACCESS_ERR, FL_IB_NAK_ACCESS);
    p = pair_with(all);
    post(&p->a, 1, IBV_WR_RDMA_READ, 0, 3000, MEM_LEN - 2999);
    expect_refused(p, IBV_WC_REM_ACCESS_ERR, FL_IB_NAK_ACCESS);
    p = pair_with(all);
    post(&p->a, 1, IBV_WR_RDMA_READ, 0, 3000, UINT64_MAX - 100); /* wraps */
    expect_refused(p, IBV_WC_REM_ACCESS_ERR, FL_IB_NAK_ACCESS);
    p = pair_with(all);
    post(&p->a, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 4);
    expect_refused(p, IBV_WC_REM_INV_REQ_ERR, FL_IB_NAK_REQUEST);
    p = pair_with(all & ~IBV_ACCESS_REMOTE_WRITE);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 8, 0);
    expect_refused(p, IBV_WC_REM_INV_REQ_ERR, FL_IB_NAK_REQUEST);
    p = pair_with(all & ~IBV_ACCESS_REMOTE_READ);
    post(&p->a, 1, IBV_WR_RDMA_READ, 0, 8, 0);
    expect_refused(p, IBV_WC_REM_INV_REQ_ERR, FL_IB_NAK_REQUEST);
    p = pair_with(all & ~IBV_ACCESS_REMOTE_ATOMIC);
    post(&p->a, 1, IBV_WR_ATOMIC_CMP_AND_SWP, 0, 8, 0);
    expect_refused(p, IBV_WC_REM_INV_REQ_ERR, FL_IB_NAK_REQUEST);
}

/* The memory is deregistered while a READ is being answered, and while a WRITE comes in. */
static void key_that_goes_away(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    post(&p->a, 1, IBV_WR_RDMA_READ, 0, 4000, 0);
    give(p, take(p, &p->a));
    give(p, take(p, &p->b));
    give(p, take(p, &p->b));
    p->b.closed = true;
    struct sent *nak = take(p, &p->b);
    assert_int_equal(fl_ib_aeth(&nak->view)->syndrome, 0x62);
    assert_int_equal(nak->view.psn, 102);
    give(p, nak);
    expect_refused(p, IBV_WC_REM_ACCESS_ERR, FL_IB_NAK_ACCESS);

    p = pair_new();
    pair_up(p);
    post(&p->a, 1, IBV_WR_RDMA_WRITE, 0, 4000, 0);
    give(p, take(p, &p->a));
    p->b.closed = true;
    give(p, take(p, &p->a));
    expect_refused(p, IBV_WC_REM_ACCESS_ERR, FL_IB_NAK_ACCESS);
}

static void send_longer_than_the_receive(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    post_recv(&p->b, 8, 0, 2000);
    post_recv(&p->b, 9, 0, 2000);
    post(&p->a, 1, IBV_WR_SEND, 0, 2001, 0);
    settle(p);
    expect_wc(&p->b, 0, 8, IBV_WC_LOC_LEN_ERR);
    expect_wc(&p->b, 1, 9, IBV_WC_WR_FLUSH_ERR);
    expect_refused(p, IBV_WC_REM_INV_REQ_ERR, FL_IB_NAK_REQUEST);

    p = pair_new(); /* the receive's own memory does not open */
    pair_up(p);
    post_recv(&p->b, 8, MEM_LEN - 5, 2000);
    post(&p->a, 1, IBV_WR_SEND, 0, 2000, 0);
    settle(p);
    expect_wc(&p->b, 0, 8, IBV_WC_LOC_PROT_ERR);
    expect_refused(p, IBV_WC_REM_OP_ERR, FL_IB_NAK_OPERATIONAL);
}

/* A local fault does not overtake what was posted before. */
static void local_fault_waits_its_turn(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    post(&p->a, 1, IBV_WR_RDMA_READ, 0, 100, 0);
    post(&p->a, 2, IBV_WR_SEND, MEM_LEN - 10, 100, 0);
    post(&p->a, 3, IBV_WR_SEND, 0, 100, 0);
    settle(p);
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    expect_wc(&p->a, 1, 2, IBV_WC_LOC_PROT_ERR);
    expect_wc(&p->a, 2, 3, IBV_WC_WR_FLUSH_ERR);
    pair_free(p);
}

static void forge(struct pair *p, uint8_t opcode, uint32_t psn, uint32_t payload_len)
{
    static uint8_t bytes[64 + 4096];
    struct fl_ib_packet view;
    memset(bytes, 0, sizeof(bytes));
    fl_bth_set((struct fl_bth *)bytes, opcode, 0xffff, 0x22, psn, (uint8_t)(-payload_len & 3));
    if (fl_ib_opcodes[opcode].reth) {
        struct fl_reth *reth = (struct fl_reth *)(bytes + 12);
        *reth = (struct fl_reth){be64_of(0), be32_of(RKEY), be32_of(2048)};
    }
    uint32_t len = fl_ib_opcodes[opcode].hdr_len + payload_len + (-payload_len & 3);
    assert_int_equal(fl_ib_packet_view(&view, bytes, len), 0);
    fl_roce_qp_rx(&p->b.qp, &view, NULL, p->now);
}

/* 9.8.3.1 and 9.8.3.2: order of opcodes, lengths of packets */
static void malformed_messages(void **state)
{
    static const struct {
        uint8_t first;
        uint32_t first_len;
        uint8_t then;
        uint32_t then_len;
    } cases[] = {
        {FL_IB_SEND_MIDDLE, 1024, 255, 0},
        {FL_IB_WRITE_LAST, 10, 255, 0},
        {FL_IB_SEND_FIRST, 1023, 255, 0},
        {FL_IB_SEND_FIRST, 0, 255, 0},
        {FL_IB_SEND_ONLY, 1025, 255, 0},
        {FL_IB_SEND_FIRST, 1024, FL_IB_SEND_ONLY, 10},
        {FL_IB_SEND_FIRST, 1024, FL_IB_WRITE_LAST, 10},
        {FL_IB_SEND_FIRST, 1024, FL_IB_READ_REQUEST, 0},
        {FL_IB_SEND_FIRST, 1024, FL_IB_SEND_LAST, 0},
        {FL_IB_SEND_FIRST, 1024, FL_IB_SEND_MIDDLE, 1000},
        {FL_IB_WRITE_FIRST, 1024, FL_IB_WRITE_LAST, 1023}, /* RETH says 2048 */
        {FL_IB_WRITE_FIRST, 1024, FL_IB_WRITE_MIDDLE, 1024},
        {FL_IB_WRITE_ONLY, 1024, 255, 0},
    };
    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct pair *p = pair_new();
        pair_up(p);
        post_recv(&p->b, 1, 4000, 4000);
        forge(p, cases[i].first, 100, cases[i].first_len);
        if (cases[i].then != 255) {
            assert_int_equal(p->b.qp.state, IBV_QPS_RTS);
            forge(p, cases[i].then, 101, cases[i].then_len);
        }
        assert_int_equal(p->b.qp.state, IBV_QPS_ERR);
        struct sent *nak = take(p, &p->b);
        assert_non_null(nak);
        assert_int_equal(fl_ib_aeth(&nak->view)->syndrome, 0x61);
        assert_null(take(p, &p->b));
        forge(p, FL_IB_SEND_ONLY, 100, 10); /* deaf from now on */
        assert_null(take(p, &p->b));
        pair_free(p);
    }
}

static void packets_for_others(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    post_recv(&p->b, 1, 0, 100);
    forge(p, 0x20 | FL_IB_SEND_ONLY, 100, 10); /* UC */
    forge(p, 0x64, 100, 10);                   /* UD */
    p->b.qp.attr.pkey = 0x1234;
    forge(p, FL_IB_SEND_ONLY, 100, 10);
    p->b.qp.attr.pkey = 0x7fff; /* a limited member of the same partition */
    assert_int_equal(p->b.nr_wcs, 0);
    assert_int_equal(p->b.qp.stats.nr_dropped, 3);
    forge(p, FL_IB_SEND_ONLY, 100, 10);
    assert_int_equal(p->b.nr_wcs, 1);
    forge(p, FL_IB_ACK, 5, 0); /* answers to nothing */
    forge(p, FL_IB_READ_ONLY, 100, 0);
    assert_int_equal(p->b.qp.stats.nr_stale, 2);
    assert_int_equal(p->b.qp.state, IBV_QPS_RTS);
    pair_free(p);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(nak_once_a_gap_and_back), cmocka_unit_test(total_loss_ends),
                       cmocka_unit_test(lost_acknowledgement), cmocka_unit_test(lost_read_response),
                       cmocka_unit_test(atomic_asked_again_is_not_done_again),
                       cmocka_unit_test(receiver_not_ready), cmocka_unit_test(rnr_retries_end),
                       cmocka_unit_test(acknowledged_at_the_end), cmocka_unit_test(reads_on_their_way),
                       cmocka_unit_test(requests_not_allowed), cmocka_unit_test(key_that_goes_away),
                       cmocka_unit_test(send_longer_than_the_receive),
                       cmocka_unit_test(local_fault_waits_its_turn), cmocka_unit_test(malformed_messages),
                       cmocka_unit_test(packets_for_others));
}
