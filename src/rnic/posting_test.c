/* SPDX-License-Identifier: Apache-2.0 */
/* Ways of posting: lists, inline data, nothing at all, the extended calls, and shared receive queues. */
#include "rnic/test_verbs.h"

#define ALL_OPS                                                                                    \
    (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |        \
     IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

static struct tv *extended(struct ibv_qp_ex **ex)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    tv->send_ops = ALL_OPS;
    tv_connect(tv);
    *ex = fl_qp_to_ex(tv->a.qp);
    assert_non_null(*ex);
    (*ex)->wr_flags = IBV_SEND_SIGNALED;
    return tv;
}

static int inline_list(struct ibv_qp_ex *ex, size_t nr, const struct ibv_data_buf *bufs)
{
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_inline_data_list(ex, nr, bufs);
    return ibv_wr_complete(ex);
}

/* V1: it is the sum of the pieces that must fit. */
static void case_V1_inline_list(void **state)
{
    struct ibv_qp_ex *ex;
    struct tv *tv = extended(&ex);
    uint8_t data[TV_INLINE + 1];
    for (size_t i = 0; i < sizeof(data); i++)
        data[i] = (uint8_t)(i + 1);
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(tv_recv(&tv->b, i, 0, TV_INLINE), 0);
    const struct ibv_data_buf over[] = {{data, TV_INLINE - 10}, {data, 11}};
    assert_int_equal(inline_list(ex, 2, over), EINVAL);
    const struct ibv_data_buf exact[] = {{data, TV_INLINE - 10}, {data + TV_INLINE - 10, 10}};
    assert_int_equal(inline_list(ex, 2, exact), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    assert_int_equal(tv_wait(tv->b.rcq).byte_len, TV_INLINE);
    assert_memory_equal(tv->b.buf, data, TV_INLINE);
    const struct ibv_data_buf two[] = {{data + 1, 3}, {data + 7, 4}};
    assert_int_equal(inline_list(ex, 2, two), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    assert_int_equal(tv_wait(tv->b.rcq).byte_len, 7);
    assert_memory_equal(tv->b.buf, data + 1, 3);
    assert_memory_equal(tv->b.buf + 3, data + 7, 4);
    tv_none(tv->a.scq);
    tv_free(tv);
}

/* The same by ibv_post_send(). */
static void case_V1_inline_sges(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_sge sges[] = {{(uintptr_t)tv->a.buf, TV_INLINE - 10, 0}, {(uintptr_t)tv->a.buf + 1000, 11, 0}};
    struct ibv_send_wr *bad, wr = {.sg_list = sges,
                                   .num_sge = 2,
                                   .opcode = IBV_WR_SEND,
                                   .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
    assert_int_equal(tv_recv(&tv->b, 0, 0, 4096), 0);
    assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), EINVAL);
    sges[1].length = 10;
    tv_fill(&tv->a, 0, 2000, 3);
    uint8_t want[TV_INLINE];
    memcpy(want, tv->a.buf, TV_INLINE - 10);
    memcpy(want + TV_INLINE - 10, tv->a.buf + 1000, 10);
    assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), 0);
    memset(tv->a.buf, 0, 2000); /* the buffers are free at once; and no key was needed */
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    tv_wait_ok(tv->b.rcq, IBV_WC_RECV);
    assert_memory_equal(tv->b.buf, want, TV_INLINE);
    tv_free(tv);
}

/* V2: operations on nothing, with and without an SGE, inline too, take one PSN each; no key is looked at. */
static void case_V2_zero_length(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                             IBV_WR_RDMA_READ};
    uint32_t psn = fl_qp_of(tv->a.qp)->roce.req.psn_next;
    int nr = 0;
    for (size_t i = 0; i < FL_ARRAY_LEN(ops); i++) {
        for (int way = 0; way < 4; way++) {
            struct ibv_sge sge = {(uintptr_t)tv->a.buf, 0, 0xbad};
            bool takes_recv = ops[i] == IBV_WR_SEND || ops[i] == IBV_WR_RDMA_WRITE_WITH_IMM;
            struct ibv_send_wr *bad, wr = {.sg_list = &sge,
                                           .num_sge = way & 1,
                                           .opcode = ops[i],
                                           .send_flags = IBV_SEND_SIGNALED | (way & 2 ? IBV_SEND_INLINE : 0)};
            wr.wr.rdma.remote_addr = 0x1234;
            wr.wr.rdma.rkey = 0xbad;
            if (ops[i] == IBV_WR_RDMA_READ && (way & 2)) {
                assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), EINVAL); /* nothing to be sent inline */
                continue;
            }
            if (takes_recv)
                assert_int_equal(tv_recv(&tv->b, 5, 0, way & 1 ? 64 : 0), 0);
            assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), 0);
            assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_SUCCESS);
            if (takes_recv) {
                struct ibv_wc wc = tv_wait(tv->b.rcq);
                assert_int_equal(wc.status, IBV_WC_SUCCESS);
                assert_int_equal(wc.byte_len, 0);
            }
            nr++;
        }
    }
    assert_int_equal(fl_psn_diff(fl_qp_of(tv->a.qp)->roce.req.psn_next, psn), nr);
    tv_none(tv->b.rcq);
    tv_free(tv);
}

/* The request that is wrong is named; those before it are posted, those after it not. */
static void test_list_with_a_fault(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_send_wr *bad,
        wrs[3] = {
            {.wr_id = 1, .next = &wrs[1], .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED},
            {.wr_id = 2, .next = &wrs[2], .opcode = 77},
            {.wr_id = 3, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED},
        };
    assert_int_equal(ibv_post_send(tv->a.qp, wrs, &bad), EINVAL);
    assert_ptr_equal(bad, &wrs[1]);
    assert_int_equal(tv_wait(tv->a.scq).wr_id, 1);
    tv_none(tv->a.scq);
    tv_free(tv);
}

static void test_queue_full(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    test_port.drop_all = true;
    for (int i = 0; i < TV_WRS; i++) {
        assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 8, 0), 0);
        assert_int_equal(tv_recv(&tv->a, 1, 0, 8), 0);
    }
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 8, 0), ENOMEM);
    assert_int_equal(tv_recv(&tv->a, 1, 0, 8), ENOMEM);
    tv_free(tv);
}

static void test_extended_operations(void **state)
{
    struct ibv_qp_ex *ex;
    struct tv *tv = extended(&ex);
    uint64_t value = 5;
    tv_fill(&tv->a, 1000, 3000, 1);
    memcpy(tv->b.buf, &value, 8);
    ibv_wr_start(ex);
    ex->wr_id = 11;
    ibv_wr_rdma_write(ex, tv->b.mr->rkey, (uintptr_t)tv->b.buf + 1000);
    const struct ibv_sge two[] = {{(uintptr_t)tv->a.buf + 1000, 1000, tv->a.mr->lkey},
                                  {(uintptr_t)tv->a.buf + 2000, 2000, tv->a.mr->lkey}};
    ibv_wr_set_sge_list(ex, 2, two);
    ex->wr_id = 12;
    ibv_wr_atomic_fetch_add(ex, tv->b.mr->rkey, (uintptr_t)tv->b.buf, 3);
    ibv_wr_set_sge(ex, tv->a.mr->lkey, (uintptr_t)tv->a.buf, 8);
    ex->wr_id = 13;
    ibv_wr_atomic_cmp_swp(ex, tv->b.mr->rkey, (uintptr_t)tv->b.buf, 8, 100);
    ibv_wr_set_sge(ex, tv->a.mr->lkey, (uintptr_t)tv->a.buf + 8, 8);
    ex->wr_id = 14;
    ibv_wr_rdma_read(ex, tv->b.mr->rkey, (uintptr_t)tv->b.buf);
    ibv_wr_set_sge(ex, tv->a.mr->lkey, (uintptr_t)tv->a.buf + 16, 8);
    assert_int_equal(ibv_wr_complete(ex), 0);
    for (uint64_t id = 11; id <= 14; id++) {
        struct ibv_wc wc = tv_wait(tv->a.scq);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.wr_id, id);
    }
    assert_memory_equal(tv->a.buf + 1000, tv->b.buf + 1000, 3000);
    const uint64_t want[] = {5, 8, 100};
    assert_memory_equal(tv->a.buf, want, sizeof(want));
    tv_free(tv);
}

/* All or none: a fault anywhere, or no room for all of them, and nothing is posted. */
static void test_extended_all_or_none(void **state)
{
    struct ibv_qp_ex *ex;
    struct tv *tv = extended(&ex);
    struct ibv_sge many[5] = {{0}};
    ibv_wr_start(ex);
    ibv_wr_rdma_write(ex, tv->b.mr->rkey, (uintptr_t)tv->b.buf);
    ibv_wr_rdma_write(ex, tv->b.mr->rkey, (uintptr_t)tv->b.buf);
    ibv_wr_set_sge_list(ex, 5, many);
    assert_int_equal(ibv_wr_complete(ex), EINVAL);
    ibv_wr_start(ex);
    for (int i = 0; i < 3; i++) /* the second is wrong, which only the engine notices */
        ibv_wr_atomic_fetch_add(ex, tv->b.mr->rkey, (uintptr_t)tv->b.buf, 1),
            ibv_wr_set_sge(ex, tv->a.mr->lkey, (uintptr_t)tv->a.buf, i == 1 ? 4 : 8);
    assert_int_equal(ibv_wr_complete(ex), EINVAL);
    ibv_wr_start(ex);
    ibv_wr_rdma_write(ex, tv->b.mr->rkey, (uintptr_t)tv->b.buf);
    ibv_wr_abort(ex);
    ibv_wr_start(ex);
    for (int i = 0; i <= TV_WRS; i++)
        ibv_wr_rdma_write(ex, tv->b.mr->rkey, (uintptr_t)tv->b.buf);
    assert_int_equal(ibv_wr_complete(ex), ENOMEM);
    tv_none(tv->a.scq);
    assert_int_equal(fl_qp_of(tv->a.qp)->roce.req.tail, 0);
    ibv_wr_start(ex);
    for (int i = 0; i < TV_WRS; i++)
        ibv_wr_rdma_write(ex, tv->b.mr->rkey, (uintptr_t)tv->b.buf);
    assert_int_equal(ibv_wr_complete(ex), 0);
    for (int i = 0; i < TV_WRS; i++)
        tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    tv_free(tv);
}

static void test_extended_not_supported(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_qp_init_attr_ex init = {
        .send_cq = tv->a.scq,
        .recv_cq = tv->a.rcq,
        .qp_type = IBV_QPT_RC,
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = tv->pd,
        .send_ops_flags = IBV_QP_EX_WITH_TSO,
    };
    assert_null(fl_qp_create_ex(tv->context, &init));
    assert_int_equal(errno, EOPNOTSUPP);
    init.qp_type = IBV_QPT_UD;
    init.send_ops_flags = IBV_QP_EX_WITH_RDMA_READ;
    assert_null(fl_qp_create_ex(tv->context, &init));
    assert_int_equal(errno, EOPNOTSUPP);
    assert_null(fl_qp_to_ex(tv->a.qp)); /* it was not asked for */
    tv_free(tv);
}

static int srq_recv(struct tv *tv, uint64_t wr_id)
{
    struct ibv_sge sge = {(uintptr_t)tv->b.buf, 64, tv->b.mr->lkey};
    struct ibv_recv_wr *bad = NULL, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
    int r = ibv_post_srq_recv(tv->srq, &wr, &bad);
    assert_ptr_equal(bad, r ? &wr : NULL);
    return r;
}

static struct tv *with_srq(uint32_t max_wr)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    struct ibv_srq_init_attr init = {.attr = {.max_wr = max_wr, .max_sge = 2}};
    tv->srq = fl_srq_create(tv->pd, &init);
    assert_non_null(tv->srq);
    tv_connect(tv);
    return tv;
}

static void test_shared_receive_queue(void **state)
{
    struct tv *tv = with_srq(4);
    struct ibv_srq_attr attr = {.srq_limit = 3};
    struct ibv_async_event event;
    assert_int_equal(tv_recv(&tv->b, 1, 0, 64), EINVAL); /* receives go to the shared queue */
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(srq_recv(tv, i), 0);
    assert_int_equal(srq_recv(tv, 9), ENOMEM);
    assert_int_equal(fl_srq_destroy(tv->srq), EBUSY);
    assert_int_equal(fl_srq_modify(tv->srq, &attr, IBV_SRQ_LIMIT), 0);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 64, 0), 0);
        assert_int_equal(tv_wait(tv->b.rcq).wr_id, i);
        tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    }
    assert_int_equal(fl_async_get(tv->context, &event), 0); /* two are left, fewer than three */
    while (event.event_type == IBV_EVENT_COMM_EST) {
        fl_async_ack(&event);
        assert_int_equal(fl_async_get(tv->context, &event), 0);
    }
    assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(event.element.srq, tv->srq);
    fl_async_ack(&event);
    assert_int_equal(fl_srq_query(tv->srq, &attr), 0);
    assert_int_equal(attr.srq_limit, 0); /* once */
    assert_int_equal(attr.max_wr, 4);
    tv_free(tv);
}

static void test_shared_receive_queue_resize(void **state)
{
    struct tv *tv = with_srq(4);
    struct ibv_srq_attr attr = {.max_wr = 8};
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(srq_recv(tv, i), 0);
    assert_int_equal(fl_srq_modify(tv->srq, &attr, IBV_SRQ_MAX_WR), 0);
    for (uint64_t i = 4; i < 8; i++)
        assert_int_equal(srq_recv(tv, i), 0);
    attr.max_wr = 5;
    assert_int_equal(fl_srq_modify(tv->srq, &attr, IBV_SRQ_MAX_WR), EINVAL); /* eight wait */
    attr.srq_limit = 9;
    assert_int_equal(fl_srq_modify(tv->srq, &attr, IBV_SRQ_LIMIT), EINVAL);
    for (uint64_t i = 0; i < 8; i++) {
        assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 64, 0), 0);
        assert_int_equal(tv_wait(tv->b.rcq).wr_id, i);
        tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    }
    tv_free(tv);
}

/* No receives of a queue pair in ERR are taken any more, which the program is told. */
static void test_last_wqe_reached(void **state)
{
    struct tv *tv = with_srq(4);
    struct ibv_async_event event;
    assert_int_equal(srq_recv(tv, 1), 0);
    assert_int_equal(tv_to(&tv->b, &tv->attr, IBV_QPS_ERR, 0), 0);
    assert_int_equal(fl_async_get(tv->context, &event), 0);
    assert_int_equal(event.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
    assert_ptr_equal(event.element.qp, tv->b.qp);
    fl_async_ack(&event);
    tv_none(tv->b.rcq);
    tv_free(tv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_V1_inline_list),       cmocka_unit_test(case_V1_inline_sges),
        cmocka_unit_test(case_V2_zero_length),       cmocka_unit_test(test_list_with_a_fault),
        cmocka_unit_test(test_queue_full),           cmocka_unit_test(test_extended_operations),
        cmocka_unit_test(test_extended_all_or_none), cmocka_unit_test(test_extended_not_supported),
        cmocka_unit_test(test_shared_receive_queue), cmocka_unit_test(test_shared_receive_queue_resize),
        cmocka_unit_test(test_last_wqe_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
