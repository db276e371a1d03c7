/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues and channels, and asynchronous events. */
#include <fcntl.h>
#include <poll.h>

#include "rnic/test_verbs.h"

static struct tv *pair_with_channel(void)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    tv->channel = fl_channel_create(tv->context);
    assert_non_null(tv->channel);
    tv_connect(tv);
    return tv;
}

static bool readable(int fd, int ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    return poll(&p, 1, ms) == 1;
}

static void send_one(struct tv *tv, unsigned int flags)
{
    assert_int_equal(tv_recv(&tv->b, 1, 0, 64), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 64, flags), 0);
}

static void test_event(void **state)
{
    struct tv *tv = pair_with_channel();
    struct ibv_cq *cq;
    void *context;
    assert_int_equal(ibv_req_notify_cq(tv->b.rcq, 0), 0);
    assert_false(readable(tv->channel->fd, 0));
    send_one(tv, 0);
    assert_true(readable(tv->channel->fd, 5000));
    assert_int_equal(fl_cq_event_get(tv->channel, &cq, &context), 0);
    assert_ptr_equal(cq, tv->b.rcq);
    assert_ptr_equal(context, &tv->b);
    assert_false(readable(tv->channel->fd, 0));
    fl_cq_event_ack(cq, 1);
    tv_wait_ok(tv->b.rcq, IBV_WC_RECV);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    send_one(tv, 0); /* not armed again: no event */
    tv_wait_ok(tv->b.rcq, IBV_WC_RECV);
    assert_false(readable(tv->channel->fd, 20));
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    tv_free(tv);
}

static void test_solicited(void **state)
{
    struct tv *tv = pair_with_channel();
    struct ibv_cq *cq;
    void *context;
    assert_int_equal(ibv_req_notify_cq(tv->b.rcq, 1), 0);
    send_one(tv, 0);
    tv_wait_ok(tv->b.rcq, IBV_WC_RECV);
    assert_false(readable(tv->channel->fd, 20));
    send_one(tv, IBV_SEND_SOLICITED);
    assert_true(readable(tv->channel->fd, 5000));
    assert_int_equal(fl_cq_event_get(tv->channel, &cq, &context), 0);
    fl_cq_event_ack(cq, 1);
    /* A completion in error counts as solicited. */
    assert_int_equal(tv_recv(&tv->b, 1, 0, 64), 0);
    assert_int_equal(ibv_req_notify_cq(tv->b.rcq, 1), 0);
    assert_int_equal(tv_to(&tv->b, &tv->attr, IBV_QPS_ERR, 0), 0);
    assert_int_equal(fl_cq_event_get(tv->channel, &cq, &context), 0);
    fl_cq_event_ack(cq, 1);
    tv_free(tv);
}

static void test_nonblocking_channel(void **state)
{
    struct tv *tv = pair_with_channel();
    struct ibv_cq *cq;
    void *context;
    fcntl(tv->channel->fd, F_SETFL, O_NONBLOCK);
    assert_int_equal(fl_cq_event_get(tv->channel, &cq, &context), -1);
    assert_int_equal(errno, EAGAIN);
    assert_int_equal(fl_channel_destroy(tv->channel), EBUSY);
    tv_free(tv);
}

/* Events of a completion queue that is destroyed are gone with it. */
static void test_event_of_a_destroyed_queue(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    struct ibv_comp_channel *channel = fl_channel_create(tv->context);
    struct ibv_cq *cq = fl_cq_create(tv->context, 4, NULL, channel, 0);
    const struct ibv_wc wc = {.wr_id = 1};
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    fl_rnic_lock(fl_cq_of(cq)->rnic);
    fl_cq_put(fl_cq_of(cq), &wc);
    fl_cq_tell(fl_cq_of(cq), false);
    fl_rnic_unlock(fl_cq_of(cq)->rnic);
    assert_true(readable(channel->fd, 0));
    assert_int_equal(fl_cq_destroy(cq), 0);
    assert_false(readable(channel->fd, 0));
    assert_int_equal(fl_channel_destroy(channel), 0);
    tv_free(tv);
}

static void test_resize(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    for (int i = 0; i < 10; i++)
        assert_int_equal(tv_recv(&tv->b, (uint64_t)i, 0, 64), 0);
    assert_int_equal(tv_to(&tv->b, &tv->attr, IBV_QPS_ERR, 0), 0);
    assert_int_equal(fl_cq_resize(tv->b.rcq, 8), EINVAL); /* ten wait */
    assert_int_equal(fl_cq_resize(tv->b.rcq, 16), 0);
    assert_int_equal(tv->b.rcq->cqe, 16);
    assert_int_equal(fl_cq_resize(tv->b.rcq, 4096), 0);
    assert_true(tv->b.rcq->cqe >= 4096);
    for (uint64_t i = 0; i < 10; i++)
        assert_int_equal(tv_wait(tv->b.rcq).wr_id, i);
    tv_none(tv->b.rcq);
    tv_free(tv);
}

static void test_overrun(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    struct ibv_async_event event;
    struct ibv_wc wc[8];
    tv->cqe = 4;
    tv_connect(tv);
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(tv_recv(&tv->b, i, 0, 64), 0);
    assert_int_equal(tv_to(&tv->b, &tv->attr, IBV_QPS_ERR, 0), 0); /* five are flushed into four */
    assert_int_equal(fl_async_get(tv->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    assert_ptr_equal(event.element.cq, tv->b.rcq);
    fl_async_ack(&event);
    assert_int_equal(ibv_poll_cq(tv->b.rcq, 8, wc), 4);
    assert_true(ibv_poll_cq(tv->b.rcq, 8, wc) < 0); /* an error, not silence */
    tv_free(tv);
}

/* Overrun by the peer's work: the queue pair ends, and says so. */
static void test_overrun_ends_the_queue_pair(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    struct ibv_async_event event;
    tv->cqe = 4;
    tv->attr.timeout = 12; /* the last one is not answered */
    tv_connect(tv);
    for (uint64_t i = 0; i < 6; i++)
        assert_int_equal(tv_recv(&tv->b, i, 0, 64), 0);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 8, 0), 0);
        if (i < 4)
            tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    }
    tv_wait(tv->a.scq);
    assert_int_equal(fl_async_get(tv->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_CQ_ERR);
    fl_async_ack(&event);
    assert_int_equal(fl_async_get(tv->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_FATAL);
    assert_ptr_equal(event.element.qp, tv->b.qp);
    fl_async_ack(&event);
    assert_int_equal(tv->b.qp->state, IBV_QPS_ERR);
    tv_free(tv);
}

static void test_one_by_one(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    struct ibv_cq_init_attr_ex attr = {
        .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    struct ibv_poll_cq_attr none = {0};
    struct ibv_cq_ex *cq = ibv_create_cq_ex(tv->context, &attr);
    assert_non_null(cq);
    assert_int_equal(ibv_start_poll(cq, &none), ENOENT);
    fl_rnic_lock(fl_context_of(tv->context)->rnic);
    for (uint32_t i = 0; i < 3; i++) {
        const struct ibv_wc wc = {.wr_id = i,
                                  .opcode = IBV_WC_RECV,
                                  .byte_len = 100 + i,
                                  .qp_num = 7,
                                  .src_qp = 9,
                                  .imm_data = htobe32(5),
                                  .wc_flags = IBV_WC_WITH_IMM};
        fl_cq_put(FL_CONTAINER_OF(cq, struct fl_cq, ex), &wc);
    }
    fl_rnic_unlock(fl_context_of(tv->context)->rnic);
    uint64_t last = 0;
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(i ? ibv_next_poll(cq) : ibv_start_poll(cq, &none), 0);
        assert_int_equal(cq->wr_id, i);
        assert_int_equal(cq->status, IBV_WC_SUCCESS);
        assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
        assert_int_equal(ibv_wc_read_byte_len(cq), 100 + i);
        assert_int_equal(ibv_wc_read_qp_num(cq), 7);
        assert_int_equal(ibv_wc_read_src_qp(cq), 9);
        assert_int_equal(ibv_wc_read_imm_data(cq), htobe32(5));
        assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
        assert_true(ibv_wc_read_completion_ts(cq) >= last);
        last = ibv_wc_read_completion_ts(cq);
    }
    assert_int_equal(ibv_next_poll(cq), ENOENT);
    ibv_end_poll(cq);
    assert_true(last <= fl_now_ns() && last > fl_now_ns() - 10 * FL_NS_PER_S);
    assert_int_equal(fl_cq_destroy(ibv_cq_ex_to_cq(cq)), 0);
    tv_free(tv);
}

static void test_bad_arguments(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    struct ibv_cq_init_attr_ex attr = {.cqe = 16, .wc_flags = 1ull << 40};
    assert_null(fl_cq_create(tv->context, 0, NULL, NULL, 0));
    assert_int_equal(errno, EINVAL);
    assert_null(fl_cq_create(tv->context, -1, NULL, NULL, 0));
    assert_null(fl_cq_create(tv->context, 16, NULL, NULL, 5));
    assert_int_equal(errno, EINVAL);
    assert_null(ibv_create_cq_ex(tv->context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    tv_free(tv);
}

/* V4: of a completion in error four fields are promised; in test mode the others are nonsense. */
static void case_V4_failed_completions(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    fl_context_of(tv->context)->rnic->poison = true;
    tv_connect(tv);
    test_port.drop_all = true;
    for (uint64_t i = 0; i < 3; i++) {
        static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ};
        assert_int_equal(tv_post(&tv->a, &tv->b, ops[i], 0, 0, 64, 0), 0);
        assert_int_equal(tv_recv(&tv->a, 10 + i, 0, 64), 0);
    }
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_ERR, 0), 0);
    for (uint64_t i = 0; i < 3; i++) {
        struct ibv_wc wc = tv_wait(tv->a.scq);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc.qp_num, tv->a.qp->qp_num);
        assert_int_equal(wc.wr_id, 1);
        assert_int_equal(wc.vendor_err, 0);
        assert_int_equal((int)wc.opcode, (int)0xa5a5a5a5);
        assert_int_equal(wc.byte_len, 0xa5a5a5a5);
        wc = tv_wait(tv->a.rcq);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc.wr_id, 10 + i);
        assert_int_equal(wc.src_qp, 0xa5a5a5a5);
    }
    tv_none(tv->a.scq);
    tv_none(tv->a.rcq);
    tv_free(tv);
}

static void test_async_events(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_async_event event;
    fcntl(tv->context->async_fd, F_SETFL, O_NONBLOCK);
    assert_int_equal(fl_async_get(tv->context, &event), -1);
    assert_int_equal(errno, EAGAIN);
    /* A request that the peer must not make */
    tv->b.mr->rkey ^= 0x100;
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 8, 0), 0);
    assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_REM_ACCESS_ERR);
    tv->b.mr->rkey ^= 0x100;
    assert_true(readable(tv->context->async_fd, 5000));
    assert_int_equal(fl_async_get(tv->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_ACCESS_ERR);
    assert_ptr_equal(event.element.qp, tv->b.qp);
    fl_async_ack(&event);
    assert_int_equal(fl_async_get(tv->context, &event), -1);
    tv_free(tv);
}

/* Events that nobody fetched go with their object. */
static void test_async_event_of_a_destroyed_object(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    tv->b.mr->rkey ^= 0x100;
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 8, 0), 0);
    assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_REM_ACCESS_ERR);
    assert_true(readable(tv->context->async_fd, 5000));
    tv_free_end(&tv->b);
    tv->b.qp = NULL;
    assert_false(readable(tv->context->async_fd, 0));
    tv_free(tv);
}

/* A program that never fetches them does not make the list grow for ever. */
static void test_async_events_nobody_fetches(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct fl_context *context = fl_context_of(tv->context);
    struct ibv_async_event event = {.element.port_num = 1, .event_type = IBV_EVENT_GID_CHANGE};
    for (int i = 0; i < 10000; i++)
        fl_async_raise(context, &event, NULL);
    assert_in_range(context->nr_events, 1, 4096);
    for (uint32_t n = context->nr_events; n; n--)
        assert_int_equal(fl_async_get(tv->context, &event), 0);
    assert_int_equal(context->nr_events, 0);
    assert_false(readable(tv->context->async_fd, 0));
    tv_free(tv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event),
        cmocka_unit_test(test_solicited),
        cmocka_unit_test(test_nonblocking_channel),
        cmocka_unit_test(test_event_of_a_destroyed_queue),
        cmocka_unit_test(test_resize),
        cmocka_unit_test(test_overrun),
        cmocka_unit_test(test_overrun_ends_the_queue_pair),
        cmocka_unit_test(test_one_by_one),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(case_V4_failed_completions),
        cmocka_unit_test(test_async_events),
        cmocka_unit_test(test_async_event_of_a_destroyed_object),
        cmocka_unit_test(test_async_events_nobody_fetches),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
