/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs whose rate congestion notifications have limited, with the RNIC's own turns and timers. */
#include <unistd.h>

#include "rnic/roce/congestion.h"
#include "rnic/test_verbs.h"

#define CUTS     12 /* to the lowest rate */
#define MESSAGES 20

/* As by CNPs */
static void limit(const struct tv_end *end)
{
    struct fl_qp *qp = fl_qp_of(end->qp);
    fl_rnic_lock(qp->rnic);
    for (int i = 0; i < CUTS; i++)
        fl_roce_congestion_cut(&qp->roce.cc, fl_now_ns());
    fl_rnic_unlock(qp->rnic);
}

/* Each message waits for its next packet's time again and again, and gets there. */
static void move(enum ibv_wr_opcode opcode, enum ibv_wc_opcode done)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    bool limited = true;
    alarm(60); /* what turns for ever is not seen by a limit of waiting */
    for (int i = 0; i < MESSAGES; i++) {
        tv_fill(&tv->a, 0, TV_BUF_LEN, (uint8_t)i);
        tv_fill(&tv->b, 0, TV_BUF_LEN, (uint8_t)(opcode == IBV_WR_RDMA_READ ? i + 100 : 0));
        limit(&tv->a);
        limit(&tv->b);
        uint64_t start = fl_now_ns();
        assert_int_equal(tv_post(&tv->a, &tv->b, opcode, 0, 0, TV_BUF_LEN, 0), 0);
        tv_wait_ok(tv->a.scq, done);
        assert_memory_equal(tv->a.buf, tv->b.buf, TV_BUF_LEN);
        limited = limited && fl_now_ns() - start > TV_BUF_LEN * FL_NS_PER_S / FL_ROCE_LINE_RATE;
    }
    assert_true(limited);
    alarm(0);
    tv_free(tv);
}

static void a_limited_sender_goes_on(void **state)
{
    move(IBV_WR_RDMA_WRITE, IBV_WC_RDMA_WRITE);
}

static void a_limited_responder_goes_on(void **state)
{
    move(IBV_WR_RDMA_READ, IBV_WC_RDMA_READ);
}

/* Who sleeps meanwhile is not needed: the RNIC's thread wakes when the time of the next packet comes. */
static void a_limited_sender_needs_nobody(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    const struct fl_qp *qp = fl_qp_of(tv->a.qp);
    alarm(60);
    tv_fill(&tv->a, 0, TV_BUF_LEN, 7);
    limit(&tv->a);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, TV_BUF_LEN, 0), 0);
    for (bool left = true; left;) {
        usleep(1000);
        fl_rnic_lock(qp->rnic);
        left = fl_roce_qp_deadline(&qp->roce) != FL_ROCE_NEVER;
        fl_rnic_unlock(qp->rnic);
    }
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    assert_memory_equal(tv->a.buf, tv->b.buf, TV_BUF_LEN);
    alarm(0);
    tv_free(tv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limited_sender_goes_on),
        cmocka_unit_test(a_limited_responder_goes_on),
        cmocka_unit_test(a_limited_sender_needs_nobody),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
