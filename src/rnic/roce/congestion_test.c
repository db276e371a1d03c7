/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/roce/test_pair.h"

#define RATE 1000000000ull /* a byte a nanosecond */

static void falls_and_recovers(void **state)
{
    struct fl_roce_congestion cc = {.line_rate = RATE};
    uint64_t now = 5000;
    assert_true(fl_roce_congestion_open(&cc, now));
    fl_roce_congestion_sent(&cc, 4096, now);
    assert_true(fl_roce_congestion_open(&cc, now)); /* no limit, no account */
    fl_roce_congestion_cut(&cc, now);
    assert_in_range(cc.rate, RATE / 2 - RATE / 100, RATE / 2 + RATE / 100);
    uint64_t half = cc.rate;
    fl_roce_congestion_sent(&cc, 4096, now);
    assert_false(fl_roce_congestion_open(&cc, now + 8000));
    assert_true(fl_roce_congestion_open(&cc, now + 8300));
    fl_roce_congestion_cut(&cc, now + 10000);
    assert_true(cc.rate < half);
    uint64_t last = cc.rate;
    for (int i = 0; i < 1000 && cc.limited; i++) {
        now += 55000;
        fl_roce_congestion_open(&cc, now);
        assert_true(cc.rate >= last);
        last = cc.rate;
    }
    assert_false(cc.limited);
    assert_true(now < 50000000); /* within 50 ms */
}

static void never_stops(void **state)
{
    struct fl_roce_congestion cc = {.line_rate = RATE};
    for (uint64_t now = 1000; now < 1000000; now += 1000)
        fl_roce_congestion_cut(&cc, now);
    assert_true(cc.rate >= RATE / 128 && cc.rate < RATE / 60);
    /* a long sleep, and the limit is gone at once */
    assert_true(fl_roce_congestion_open(&cc, 1000000000000));
    assert_false(cc.limited);
}

/* A marked packet is answered by a CNP, which slows the sender down; acknowledgements are not held back. */
static void marks_slow_the_sender(void **state)
{
    struct pair *p = pair_new();
    p->attr.line_rate = RATE;
    pair_up(p);
    struct fl_roce_meta marked = {.ce = true};
    for (uint64_t i = 0; i < 4; i++)
        post(&p->a, i, IBV_WR_RDMA_WRITE, 0, 1024, 0);
    for (int i = 0; i < 3; i++) {
        struct sent *s = take(p, &p->a);
        fl_roce_qp_rx(&p->b.qp, &s->view, &marked, p->now);
    }
    struct sent *cnp = take(p, &p->b), *ack = take(p, &p->b);
    assert_null(take(p, &p->b)); /* one for all three */
    if (cnp->view.bth->opcode != FL_IB_OPCODE_CNP) {
        struct sent *t = cnp;
        cnp = ack;
        ack = t;
    }
    /* Annex A17.9.3: BECN set, 16 bytes that mean nothing */
    static const uint8_t want[28] = {0x81, 0, 0xff, 0xff, 0x40, 0, 0, 0x11};
    assert_int_equal(cnp->len, sizeof(want));
    assert_memory_equal(cnp->bytes, want, sizeof(want));
    assert_int_equal(ack->view.bth->opcode, FL_IB_ACK);
    give(p, cnp);
    assert_int_equal(p->a.qp.stats.nr_cnp_rx, 1);
    assert_int_equal(p->b.qp.stats.nr_cnp_tx, 1);
    post(&p->a, 9, IBV_WR_RDMA_WRITE, 0, 1024, 0);
    assert_non_null(take(p, &p->a));
    assert_null(take(p, &p->a));
    uint64_t at = fl_roce_qp_deadline(&p->a.qp);
    assert_in_range(at, p->now + 2048, p->now + 2300); /* BTH and RETH count, too */
    p->now = at;
    assert_non_null(take(p, &p->a));
    pair_free(p);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(falls_and_recovers), cmocka_unit_test(never_stops),
                       cmocka_unit_test(marks_slow_the_sender));
}
