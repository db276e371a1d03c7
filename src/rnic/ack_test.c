/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When acknowledgements leave: with the answer, or soon without one, and in any case before who owes one
 * ends. The sender never repeats here, so one that is lost is missed.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "rnic/test_verbs.h"

/* It takes a while where this thread and the RNIC's wait for a CPU in turn. */
#define TRIES_NS (60 * FL_NS_PER_S)

static uint64_t nr_acks(const struct tv_end *end)
{
    struct fl_qp *qp = fl_qp_of(end->qp);
    fl_rnic_lock(qp->rnic);
    uint64_t nr = qp->roce.stats.nr_acks;
    fl_rnic_unlock(qp->rnic);
    return nr;
}

static bool waits(const struct tv_end *end)
{
    struct fl_qp *qp = fl_qp_of(end->qp);
    fl_rnic_lock(qp->rnic);
    bool owes = qp->ack.waits && fl_roce_qp_owes_ack(&qp->roce);
    fl_rnic_unlock(qp->rnic);
    return owes;
}

/* From A to B, which takes it and has not polled since. */
static void message(struct tv *tv)
{
    struct ibv_wc wc;
    uint64_t end = fl_now_ns() + TV_WAIT_NS;
    assert_int_equal(tv_recv(&tv->b, 1, 0, 4096), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 64, 0), 0);
    while (!ibv_poll_cq(tv->b.rcq, 1, &wc))
        assert_true(fl_now_ns() < end);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static void answer(struct tv *tv)
{
    assert_int_equal(tv_recv(&tv->a, 2, 0, 4096), 0);
    assert_int_equal(tv_post(&tv->b, &tv->a, IBV_WR_SEND, 0, 0, 64, 0), 0);
}

static void take_answer(struct tv *tv)
{
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    tv_wait_ok(tv->a.rcq, IBV_WC_RECV);
    tv_wait_ok(tv->b.scq, IBV_WC_SEND);
}

/* B answers until the acknowledgement of a message that it has taken waits. The RNIC's thread may drive
 * between any two steps, and the machine be busy. */
static void owe(struct tv *tv)
{
    uint64_t end = fl_now_ns() + TRIES_NS;
    for (;;) {
        message(tv);
        if (waits(&tv->b))
            return;
        answer(tv);
        take_answer(tv);
        assert_true(fl_now_ns() < end);
    }
}

static void test_it_leaves_with_the_answer(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    bool with = false;
    uint64_t end = fl_now_ns() + TRIES_NS;
    while (!with) {
        owe(tv);
        uint64_t before = nr_acks(&tv->b);
        bool waited = waits(&tv->b);
        answer(tv);
        with = waited && nr_acks(&tv->b) == before + 1;
        take_answer(tv);
        assert_true(fl_now_ns() < end);
    }
    tv_free(tv);
}

/* ... and those after it do not wait. */
static void test_it_leaves_with_the_next_poll(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_wc wc;
    owe(tv);
    uint64_t end = fl_now_ns() + TV_WAIT_NS;
    do {
        assert_int_equal(ibv_poll_cq(tv->b.rcq, 1, &wc), 0);
        assert_true(fl_now_ns() < end);
    } while (waits(&tv->b)); /* once more only where the thread had the lock */
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    for (int i = 0; i < 3; i++) {
        message(tv);
        assert_false(waits(&tv->b));
        tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    }
    tv_free(tv);
}

/* A program that never answers is not waited for. */
static void test_no_answers(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    for (int i = 0; i < 50; i++) {
        message(tv);
        assert_false(waits(&tv->b));
        tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    }
    tv_free(tv);
}

static void expect_sent(struct tv *tv, uint64_t before)
{
    uint64_t end = fl_now_ns() + TV_WAIT_NS;
    while (nr_acks(&tv->b) == before) {
        assert_true(fl_now_ns() < end);
        usleep(100);
    }
}

/* The program sleeps or computes. */
static void test_the_thread_sends_it(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    owe(tv);
    uint64_t before = nr_acks(&tv->b) - !waits(&tv->b);
    expect_sent(tv, before);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    tv_free(tv);
}

static void test_it_leaves_before_the_queue_pair_ends(void **state)
{
    static const enum ibv_qp_state states[] = {IBV_QPS_ERR, IBV_QPS_RESET, IBV_QPS_SQD};
    for (size_t i = 0; i <= FL_ARRAY_LEN(states); i++) {
        struct tv *tv = tv_pair(IBV_QPT_RC);
        owe(tv);
        if (i < FL_ARRAY_LEN(states)) {
            struct ibv_qp_attr attr;
            assert_int_equal(tv_to(&tv->b, &attr, states[i], 0), 0);
            assert_false(waits(&tv->b));
        } else {
            assert_int_equal(fl_qp_destroy(tv->b.qp), 0);
            tv->b.qp = NULL;
        }
        tv_wait_ok(tv->a.scq, IBV_WC_SEND);
        if (!tv->b.qp) {
            fl_cq_destroy(tv->b.scq);
            fl_cq_destroy(tv->b.rcq);
            fl_mr_dereg(tv->b.mr);
            free(tv->b.buf);
        }
        tv_free(tv);
    }
}

static void test_it_leaves_before_a_fork(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    owe(tv);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid)
        _exit(0);
    assert_false(waits(&tv->b));
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    tv_free(tv);
}

/* Who arms the queue is about to sleep: nothing waits, also where it polls on. */
static void test_an_armed_queue(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    tv->channel = fl_channel_create(tv->context);
    tv_connect(tv);
    owe(tv);
    uint64_t before = nr_acks(&tv->b) - !waits(&tv->b);
    assert_int_equal(ibv_req_notify_cq(tv->b.rcq, 0), 0);
    expect_sent(tv, before);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    message(tv); /* solicits the event */
    assert_false(waits(&tv->b));
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    struct ibv_cq *cq;
    void *context;
    assert_int_equal(fl_cq_event_get(tv->channel, &cq, &context), 0);
    fl_cq_event_ack(cq, 1);
    tv_free(tv);
}

/* A peer that repeats soon is not kept waiting. */
static void test_a_short_time_out(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    tv->attr.timeout = 11; /* 8 ms */
    tv_connect(tv);
    for (int i = 0; i < 100; i++) {
        message(tv);
        assert_false(waits(&tv->b));
        answer(tv);
        take_answer(tv);
    }
    tv_free(tv);
}

/* Many requests in one call, and nobody polls: they leave at once, since nothing would wake the thread. */
static void test_a_list_while_nobody_drives(void **state)
{
    enum { NR = 8 };
    struct tv *tv = tv_new(IBV_QPT_RC);
    tv->channel = fl_channel_create(tv->context);
    tv_connect(tv);
    struct ibv_sge sge = {(uintptr_t)tv->a.buf, 64, tv->a.mr->lkey};
    struct ibv_send_wr wrs[NR], *bad;
    for (int i = 0; i < NR; i++) {
        assert_int_equal(tv_recv(&tv->b, 1, 0, 4096), 0);
        wrs[i] = (struct ibv_send_wr){.next = i + 1 < NR ? &wrs[i + 1] : NULL,
                                      .sg_list = &sge,
                                      .num_sge = 1,
                                      .opcode = IBV_WR_SEND,
                                      .send_flags = i + 1 < NR ? 0 : IBV_SEND_SIGNALED};
    }
    assert_int_equal(ibv_req_notify_cq(tv->a.scq, 0), 0);
    struct fl_rnic *rnic = fl_qp_of(tv->a.qp)->rnic;
    for (bool sleeps = false; !sleeps; usleep(1000)) {
        fl_rnic_lock(rnic);
        sleeps = fl_rnic_sleeps(rnic);
        fl_rnic_unlock(rnic);
    }
    assert_int_equal(ibv_post_send(tv->a.qp, wrs, &bad), 0);
    struct ibv_cq *cq;
    void *context;
    assert_int_equal(fl_cq_event_get(tv->channel, &cq, &context), 0);
    fl_cq_event_ack(cq, 1);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    tv_free(tv);
}

int main(void)
{
    alarm(170); /* who waits for an event would wait for ever */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_it_leaves_with_the_answer),
        cmocka_unit_test(test_it_leaves_with_the_next_poll),
        cmocka_unit_test(test_no_answers),
        cmocka_unit_test(test_the_thread_sends_it),
        cmocka_unit_test(test_it_leaves_before_the_queue_pair_ends),
        cmocka_unit_test(test_it_leaves_before_a_fork),
        cmocka_unit_test(test_an_armed_queue),
        cmocka_unit_test(test_a_short_time_out),
        cmocka_unit_test(test_a_list_while_nobody_drives),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
