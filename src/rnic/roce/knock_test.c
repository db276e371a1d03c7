/* SPDX-License-Identifier: Apache-2.0 */
/* A request that only asks whether anybody is there. */
#include "rnic/roce/test_pair.h"

/* It changes nothing, whatever was sent before, and brings one answer. */
static void knocks(struct pair *p)
{
    struct fl_roce_tx tx;
    struct sent s = {.from = &p->a};
    const uint32_t epsn = p->b.qp.resp.epsn, msn = p->b.qp.resp.msn, next = p->a.qp.req.psn_next;
    const uint64_t nr_came = p->a.qp.stats.nr_rx, nr_repeats = p->b.qp.stats.nr_duplicates;
    const int nr_wcs = p->a.nr_wcs + p->b.nr_wcs;
    assert_true(fl_roce_qp_knock(&p->a.qp, &tx));
    assert_int_equal(tx.nr_iov, 1);
    memcpy(s.bytes, tx.iov[0].iov_base, tx.len);
    assert_int_equal(fl_ib_packet_view(&s.view, s.bytes, tx.len), 0);
    give(p, &s);
    settle(p);
    assert_int_equal(p->a.qp.stats.nr_rx, nr_came + 1);
    assert_int_equal(p->b.qp.stats.nr_duplicates, nr_repeats + 1);
    assert_int_equal(p->b.qp.resp.epsn, epsn);
    assert_int_equal(p->b.qp.resp.msn, msn);
    assert_int_equal(p->a.qp.req.psn_next, next);
    assert_int_equal(p->a.nr_wcs + p->b.nr_wcs, nr_wcs);
    assert_true(fl_roce_qp_deadline(&p->a.qp) == FL_ROCE_NEVER);
}

static void knock(void **state)
{
    for (int selective = 0; selective < 2; selective++) {
        struct pair *p = pair_new();
        struct fl_roce_tx tx;
        if (selective) {
            assert_int_equal(fl_roce_pool_init(&p->pool, 8), 0);
            p->cap.pool = &p->pool;
            p->attr.selective = true;
        }
        p->attr.sq_psn = p->attr.rq_psn = 0; /* the one before wraps */
        p->attr.access = 0;
        pair_up(p);
        knocks(p); /* nothing was ever sent */
        post_recv(&p->b, 1, 0, 64);
        post(&p->a, 1, IBV_WR_SEND, 0, 64, 0);
        assert_int_equal(lose(p, &p->a), 1);
        assert_false(fl_roce_qp_knock(&p->a.qp, &tx)); /* that asks already */
        wait_until(p, p->now + 200000000);
        settle(p);
        expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
        knocks(p);
        knocks(p);
        post_recv(&p->a, 2, 0, 64); /* the other way all goes on */
        post(&p->b, 3, IBV_WR_SEND, 0, 64, 0);
        settle(p);
        knocks(p);
        fl_roce_qp_modify(&p->a.qp, IBV_QPS_ERR, NULL);
        assert_false(fl_roce_qp_knock(&p->a.qp, &tx));
        pair_free(p);
    }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(knock));
}
