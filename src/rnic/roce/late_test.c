/* SPDX-License-Identifier: Apache-2.0 */
/* What the network delivers once more, long after it was answered: it must not end a connection. */
#include "rnic/roce/test_pair.h"

static struct pair *pair_by(bool selective)
{
    struct pair *p = pair_new();
    if (selective) {
        assert_int_equal(fl_roce_pool_init(&p->pool, 8), 0);
        p->cap.pool = &p->pool;
        p->attr.selective = true;
    }
    pair_up(p);
    return p;
}

/* The owner closes memory once the READ of it is answered. A copy of the request that comes late says nothing
 * about a connection that has long moved on; nor does what is repeated of the answers. */
static void read_repeated_after_its_key(void **state)
{
    for (int selective = 0; selective < 2; selective++) {
        struct pair *p = pair_by(selective);
        post(&p->a, 1, IBV_WR_RDMA_READ, 0, 2500, 0);
        post(&p->a, 2, IBV_WR_RDMA_READ, 4000, 100, 4000);
        struct sent *first = take(p, &p->a), *second = take(p, &p->a);
        give(p, first);
        give(p, second);
        int from = p->nr_log;
        settle(p);
        int end = p->nr_log;
        assert_int_equal(p->a.nr_wcs, 2);
        p->b.closed = true;
        give(p, first);
        give(p, second);
        post_recv(&p->b, 3, 0, 100);
        post(&p->a, 3, IBV_WR_SEND, 0, 100, 0);
        struct sent *send = take(p, &p->a);
        give(p, send);
        struct sent *ack = take(p, &p->b); /* nothing of the READs goes before it */
        assert_non_null(ack);
        assert_int_equal(fl_ib_aeth(&ack->view)->syndrome, 0x1f);
        assert_int_equal(ack->view.psn, send->view.psn);
        give(p, first); /* alone, too */
        assert_null(take(p, &p->b));
        give(p, ack);
        for (int i = from; i < end; i++)
            give(p, &p->log[i]);
        give(p, send);
        settle(p);
        assert_int_equal(p->a.qp.state, IBV_QPS_RTS);
        assert_int_equal(p->b.qp.state, IBV_QPS_RTS);
        assert_int_equal(p->b.nr_events, 0);
        assert_int_equal(p->a.nr_wcs, 3);
        assert_int_equal(p->b.nr_wcs, 1);
        expect_wc(&p->a, 2, 3, IBV_WC_SUCCESS);
        assert_int_equal(p->b.qp.stats.nr_duplicates, 4);
        assert_int_equal(p->b.qp.stats.nr_nak_tx[FL_IB_NAK_ACCESS], 0);
        pair_free(p);
    }
}

/* Whoever lacks an answer that cannot be had any more is not left waiting: its retries end. */
static void lost_answer_of_closed_memory(void **state)
{
    for (int selective = 0; selective < 2; selective++) {
        struct pair *p = pair_by(selective);
        uint64_t began = p->now;
        post(&p->a, 1, IBV_WR_RDMA_READ, 0, 2500, 0);
        give(p, take(p, &p->a));
        assert_int_equal(lose(p, &p->b), 3);
        p->b.closed = true;
        for (uint64_t due; (due = fl_roce_qp_deadline(&p->a.qp)) != FL_ROCE_NEVER;) {
            wait_until(p, due);
            for (bool any = true; any;) { /* what is sent at once, and not only by the clock */
                any = false;
                for (struct sent *s; (s = take(p, &p->a)); any = true)
                    give(p, s);
                for (struct sent *s; (s = take(p, &p->b)); any = true) {
                    p->now += 10000;
                    give(p, s);
                }
            }
        }
        /* Not each round trip of 10 us */
        assert_true(p->a.qp.stats.nr_tx < 200);
        assert_int_equal(p->a.nr_wcs, 1);
        expect_wc(&p->a, 0, 1, IBV_WC_RETRY_EXC_ERR);
        assert_in_range(p->now - began, 4 * 4194304, 5 * 4194304);
        assert_int_equal(p->b.qp.state, IBV_QPS_RTS);
        pair_free(p);
    }
}

/* An atomic is answered from what was kept, without its memory; a WRITE and a SEND are acknowledged. */
static void others_repeated_after_their_key(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    post_recv(&p->b, 4, 0, 100);
    post(&p->a, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 800);
    post(&p->a, 2, IBV_WR_RDMA_WRITE, 0, 100, 0);
    post(&p->a, 3, IBV_WR_SEND_WITH_INV, 0, 10, 0);
    struct sent *request[3];
    for (int i = 0; i < 3; i++)
        give(p, request[i] = take(p, &p->a));
    settle(p);
    assert_int_equal(p->a.nr_wcs, 3);
    uint64_t value;
    memcpy(&value, p->b.mem + 800, 8);
    p->b.closed = true;
    for (int i = 0; i < 3; i++)
        give(p, request[i]);
    struct sent *answer = take(p, &p->b);
    assert_non_null(answer);
    assert_int_equal(answer->view.op->message, FL_IB_ATOMIC_ACK);
    give(p, answer);
    settle(p);
    assert_memory_equal(&value, p->b.mem + 800, 8);
    assert_int_equal(p->b.nr_invalidated, 1);
    assert_int_equal(p->b.nr_wcs, 1);
    assert_int_equal(p->a.nr_wcs, 3);
    assert_int_equal(p->a.qp.state, IBV_QPS_RTS);
    assert_int_equal(p->b.qp.state, IBV_QPS_RTS);
    pair_free(p);
}

/* What refused or put off a request that has been done since: each NAK there is, by either way, much later.
 */
static void refusals_of_old_requests(void **state)
{
    static const uint8_t syndromes[] = {0x20 | 13, 0x60, 0x61, 0x62, 0x63, 0x64};
    for (int selective = 0; selective < 2; selective++) {
        struct pair *p = pair_by(selective);
        post_recv(&p->b, 1, 0, 100);
        post(&p->a, 1, IBV_WR_SEND, 0, 100, 0);
        post(&p->a, 2, IBV_WR_RDMA_READ, 0, 100, 0);
        post(&p->a, 3, IBV_WR_RDMA_WRITE, 0, 100, 0);
        struct sent *nak = NULL;
        give(p, take(p, &p->a));
        give(p, nak = take(p, &p->b));
        settle(p);
        assert_int_equal(p->a.nr_wcs, 3);
        for (int busy = 0; busy < 2; busy++) {
            if (busy)
                post(&p->a, 4, IBV_WR_RDMA_WRITE, 0, 100, 0);
            struct sent *write = take(p, &p->a);
            for (size_t i = 0; i < FL_ARRAY_LEN(syndromes); i++)
                for (uint32_t psn = 100; psn < 103; psn++) {
                    struct fl_bth *bth = (struct fl_bth *)nak->bytes;
                    bth->psn = be24_of(psn);
                    ((struct fl_aeth *)(bth + 1))->syndrome = syndromes[i];
                    assert_int_equal(fl_ib_packet_view(&nak->view, nak->bytes, nak->len), 0);
                    give(p, nak);
                }
            if (write)
                give(p, write);
        }
        settle(p);
        assert_int_equal(p->a.nr_wcs, 4);
        expect_wc(&p->a, 3, 4, IBV_WC_SUCCESS);
        assert_int_equal(p->a.qp.state, IBV_QPS_RTS);
        assert_int_equal(p->a.qp.stats.nr_resent, 0);
        pair_free(p);
    }
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(read_repeated_after_its_key), cmocka_unit_test(lost_answer_of_closed_memory),
        cmocka_unit_test(others_repeated_after_their_key), cmocka_unit_test(refusals_of_old_requests));
}
