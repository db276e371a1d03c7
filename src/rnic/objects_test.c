/* SPDX-License-Identifier: Apache-2.0 */
/* Every operation between two queue pairs of one process, through the verbs' own calls. */
#include "rnic/test_verbs.h"

static void test_send(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    tv_fill(&tv->a, 0, 5000, 3);
    assert_int_equal(tv_recv(&tv->b, 77, 0, 8192), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND_WITH_IMM, 0, 0, 5000, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    struct ibv_wc wc = tv_wait(tv->b.rcq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.wr_id, 77);
    assert_int_equal(wc.byte_len, 5000);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(wc.imm_data, htobe32(0x1234));
    assert_int_equal(wc.qp_num, tv->b.qp->qp_num);
    assert_int_equal(wc.src_qp, tv->a.qp->qp_num);
    assert_memory_equal(tv->a.buf, tv->b.buf, 5000);
    tv_free(tv);
}

static void test_write_and_read(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    tv_fill(&tv->a, 0, 20000, 9);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 100, 20000, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    assert_memory_equal(tv->a.buf, tv->b.buf + 100, 20000);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_READ, 30000, 100, 20000, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_READ);
    assert_memory_equal(tv->a.buf, tv->a.buf + 30000, 20000);
    assert_int_equal(tv_recv(&tv->b, 5, 0, 0), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 64, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    tv_wait_ok(tv->b.rcq, IBV_WC_RECV_RDMA_WITH_IMM);
    tv_free(tv);
}

static uint64_t atomic(struct tv *tv, enum ibv_wr_opcode opcode, uint64_t compare_add, uint64_t swap)
{
    uint64_t before;
    struct ibv_sge sge = {(uintptr_t)tv->a.buf, 8, tv->a.mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.atomic.remote_addr = (uintptr_t)tv->b.buf;
    wr.wr.atomic.rkey = tv->b.mr->rkey;
    wr.wr.atomic.compare_add = compare_add;
    wr.wr.atomic.swap = swap;
    assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), 0);
    tv_wait_ok(tv->a.scq, opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? IBV_WC_COMP_SWAP : IBV_WC_FETCH_ADD);
    memcpy(&before, tv->a.buf, sizeof(before));
    return before;
}

static void test_atomics(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    uint64_t value = 41;
    memcpy(tv->b.buf, &value, sizeof(value));
    assert_int_equal(atomic(tv, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0), 41);
    assert_int_equal(atomic(tv, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 7), 42);
    assert_int_equal(atomic(tv, IBV_WR_ATOMIC_CMP_AND_SWP, 42, 8), 7);
    memcpy(&value, tv->b.buf, sizeof(value));
    assert_int_equal(value, 7);
    tv_free(tv);
}

static void test_unreliable_connection(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_UC);
    tv_fill(&tv->a, 0, 3000, 1);
    assert_int_equal(tv_recv(&tv->b, 1, 0, 4096), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 3000, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    tv_wait_ok(tv->b.rcq, IBV_WC_RECV);
    assert_memory_equal(tv->a.buf, tv->b.buf, 3000);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_READ, 0, 0, 64, 0), EINVAL);
    tv_free(tv);
}

/* A datagram there, and one back by what its GRH says. */
static void test_datagram(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_UD);
    struct ibv_ah *ah = fl_ah_create(tv->pd, &tv->attr.ah_attr);
    struct ibv_sge sge = {(uintptr_t)tv->a.buf, 100, tv->a.mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    assert_non_null(ah);
    assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), EINVAL); /* no address handle */
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = tv->b.qp->qp_num;
    wr.wr.ud.remote_qkey = tv->attr.qkey;
    tv_fill(&tv->a, 0, 100, 2);
    assert_int_equal(tv_recv(&tv->b, 1, 0, 200), 0);
    assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    struct ibv_wc wc = tv_wait(tv->b.rcq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 140);
    assert_true(wc.wc_flags & IBV_WC_GRH);
    assert_int_equal(wc.src_qp, tv->a.qp->qp_num);
    assert_memory_equal(tv->a.buf, tv->b.buf + 40, 100);

    struct ibv_ah *back = fl_ah_create_from_wc(tv->pd, &wc, (struct ibv_grh *)tv->b.buf, 1);
    assert_non_null(back);
    assert_int_equal(tv_recv(&tv->a, 1, 1000, 200), 0);
    wr.wr.ud.ah = back;
    wr.wr.ud.remote_qpn = wc.src_qp;
    sge = (struct ibv_sge){(uintptr_t)tv->b.buf + 40, 100, tv->b.mr->lkey};
    assert_int_equal(ibv_post_send(tv->b.qp, &wr, &bad), 0);
    tv_wait_ok(tv->a.rcq, IBV_WC_RECV);
    assert_memory_equal(tv->a.buf, tv->a.buf + 1040, 100);
    tv_wait_ok(tv->b.scq, IBV_WC_SEND);
    assert_int_equal(fl_ah_destroy(back), 0);
    assert_int_equal(fl_ah_destroy(ah), 0);
    tv_free(tv);
}

/* One that waits for room in the port still names its address handle. */
static void test_address_handle_in_use(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_UD);
    struct ibv_ah *ah = fl_ah_create(tv->pd, &tv->attr.ah_attr);
    struct ibv_sge sge = {(uintptr_t)tv->a.buf, 100, tv->a.mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = tv->b.qp->qp_num;
    wr.wr.ud.remote_qkey = tv->attr.qkey;
    test_port.full = true;
    assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), 0); /* held by the RNIC */
    assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), 0); /* stays in its queue */
    assert_int_equal(fl_ah_destroy(ah), EBUSY);
    test_port.full = false;
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    assert_int_equal(fl_ah_destroy(ah), 0);
    tv_free(tv);
}

/* More than the port has room for: nothing is lost, and no time-out is needed. */
static void test_port_full(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    tv->attr.path_mtu = IBV_MTU_256;
    tv_connect(tv);
    tv_fill(&tv->a, 0, TV_BUF_LEN, 5);
    test_port.small = true;
    for (int i = 0; i < 4; i++)
        assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, TV_BUF_LEN, 0), 0);
    for (int i = 0; i < 4; i++)
        tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    assert_memory_equal(tv->a.buf, tv->b.buf, TV_BUF_LEN);
    assert_true(test_port.nr_refused > 0);
    tv_free(tv);
}

static void test_total_loss(void **state)
{
    struct tv *tv = tv_hasty_pair(IBV_QPT_RC);
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    test_port.drop_all = true;
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(fl_qp_query(tv->a.qp, &attr, IBV_QP_STATE, &init),
                     0); /* after what the RNIC's thread is at */
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    tv_free(tv);
}

/* A packet of a connection from another address than its peer's is not the peer's. */
static void test_forged_address(void **state)
{
    struct tv *tv = tv_hasty_pair(IBV_QPT_RC);
    struct fl_rnic *rnic = fl_context_of(tv->context)->rnic;
    test_port.forge = true;
    tv_fill(&tv->a, 0, 64, 1);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_RETRY_EXC_ERR);
    assert_true(rnic->stats.nr_foreign > 0);
    assert_int_equal(tv->b.buf[1], 0);
    tv_free(tv);
}

/* One-sided operations go on while no thread of the program is in a call. */
static void test_thread_drives(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    const struct timespec nap = {.tv_nsec = 20000000};
    tv_fill(&tv->a, 0, 60000, 4);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 60000, 0), 0);
    for (int i = 0; i < 500 && !__atomic_load_n(&fl_cq_of(tv->a.scq)->tail, __ATOMIC_ACQUIRE); i++)
        nanosleep(&nap, NULL); /* looks without driving */
    assert_memory_equal(tv->a.buf, tv->b.buf, 60000);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    tv_free(tv);
}

/* The same after the program has polled, and so has kept the thread from it. */
static void test_thread_takes_over(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    const struct timespec nap = {.tv_nsec = 20000000};
    for (int round = 0; round < 3; round++) {
        uint32_t tail = __atomic_load_n(&fl_cq_of(tv->a.scq)->tail, __ATOMIC_ACQUIRE);
        uint64_t end = fl_now_ns() + 10 * FL_NS_PER_MS;
        while (fl_now_ns() < end)
            tv_none(tv->a.scq);
        for (int i = 0; i < 8; i++)
            assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 5000, 0), 0);
        for (int i = 0; i < 500 && __atomic_load_n(&fl_cq_of(tv->a.scq)->tail, __ATOMIC_ACQUIRE) - tail < 8;
             i++)
            nanosleep(&nap, NULL);
        assert_int_equal(__atomic_load_n(&fl_cq_of(tv->a.scq)->tail, __ATOMIC_ACQUIRE) - tail, 8);
        for (int i = 0; i < 8; i++)
            tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    }
    tv_free(tv);
}

/* What is in use is not destroyed. */
static void test_busy(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    assert_int_equal(fl_pd_dealloc(tv->pd), EBUSY);
    assert_int_equal(fl_cq_destroy(tv->a.scq), EBUSY);
    tv_free(tv);
    assert_int_equal(test_port.nr_qpns_back, 2);
}

/* A program may close the device first, and end its objects after it, or never. */
static void test_closed_first(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_context *context = tv->context;
    assert_int_equal(fl_context_close(context), 0);
    assert_int_equal(tv_recv(&tv->b, 1, 0, 64), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 64, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    tv->context = NULL;
    tv_free(tv);
}

/* A parent domain is its protection domain by another name: keys of one serve queue pairs of the other. */
static void test_parent_domain(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    struct ibv_pd *base = tv->pd;
    struct ibv_td_init_attr none = {0};
    struct ibv_td *td = ibv_alloc_td(tv->context, &none);
    struct ibv_parent_domain_init_attr attr = {.pd = base, .td = td};
    assert_non_null(td);
    tv->pd = ibv_alloc_parent_domain(tv->context, &attr);
    assert_non_null(tv->pd);
    assert_int_equal(ibv_dealloc_td(td), EBUSY);
    assert_int_equal(fl_pd_dealloc(base), EBUSY);
    tv_connect(tv);
    assert_int_equal(fl_mr_dereg(tv->b.mr), 0);
    tv->b.mr = fl_mr_reg(base, tv->b.buf, TV_BUF_LEN, TV_ALL_REMOTE);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    assert_int_equal(fl_pd_dealloc(tv->pd), EBUSY);
    tv_free_end(&tv->a);
    tv_free_end(&tv->b);
    tv->a.qp = tv->b.qp = NULL;
    assert_int_equal(fl_pd_dealloc(tv->pd), 0);
    assert_int_equal(ibv_dealloc_td(td), 0);
    attr = (struct ibv_parent_domain_init_attr){.pd = base,
                                                .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS};
    assert_null(ibv_alloc_parent_domain(tv->context, &attr));
    assert_int_equal(errno, EOPNOTSUPP);
    tv->pd = base;
    tv_free(tv);
}

/* A device that has one left of everything: that one is given, the next is not, and it comes back. */
static void test_as_many_as_there_are(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct fl_device *device = fl_context_of(tv->context)->device;
    uint32_t before[FL_NR_LIMITED];
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_qp_init_attr qp_attr = {
        .send_cq = tv->a.scq, .recv_cq = tv->a.rcq, .qp_type = IBV_QPT_UD, .cap = {.max_send_wr = 1}};
    struct ibv_ah_attr ah_attr = tv->attr.ah_attr;
    memcpy(before, device->nr_objects, sizeof(before));
    ah_attr.is_global = 1;
    ah_attr.port_num = 1;
    ah_attr.grh.dgid = tv->gid;
    ah_attr.grh.sgid_index = (uint8_t)tv->gid_index;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < FL_NR_LIMITED; i++)
            device->nr_objects[i] += FL_OBJECTS_MAX - 1 - before[i];
        struct ibv_pd *pd = fl_pd_alloc(tv->context);
        struct ibv_cq *cq = fl_cq_create(tv->context, 4, NULL, NULL, 0);
        struct ibv_srq *srq = fl_srq_create(tv->pd, &srq_attr);
        struct ibv_qp *qp = fl_qp_create(tv->pd, &qp_attr);
        struct ibv_ah *ah = fl_ah_create(tv->pd, &ah_attr);
        assert_true(pd && cq && srq && qp && ah);
        errno = 0;
        assert_true(!fl_pd_alloc(tv->context) && errno == ENOMEM);
        errno = 0;
        assert_true(!fl_cq_create(tv->context, 4, NULL, NULL, 0) && errno == ENOMEM);
        errno = 0;
        assert_true(!fl_srq_create(tv->pd, &srq_attr) && errno == ENOMEM);
        errno = 0;
        assert_true(!fl_qp_create(tv->pd, &qp_attr) && errno == ENOMEM);
        errno = 0;
        assert_true(!fl_ah_create(tv->pd, &ah_attr) && errno == ENOMEM);
        assert_int_equal(fl_ah_destroy(ah), 0);
        assert_int_equal(fl_qp_destroy(qp), 0);
        assert_int_equal(fl_srq_destroy(srq), 0);
        assert_int_equal(fl_cq_destroy(cq), 0);
        assert_int_equal(fl_pd_dealloc(pd), 0);
        for (int i = 0; i < FL_NR_LIMITED; i++)
            device->nr_objects[i] -= FL_OBJECTS_MAX - 1 - before[i];
        assert_memory_equal(before, device->nr_objects, sizeof(before));
    }
    /* What is refused for another reason takes none. */
    qp_attr.cap.max_send_wr = UINT32_MAX;
    ah_attr.port_num = 9;
    srq_attr.attr.max_wr = UINT32_MAX;
    assert_null(fl_qp_create(tv->pd, &qp_attr));
    assert_null(fl_ah_create(tv->pd, &ah_attr));
    assert_null(fl_srq_create(tv->pd, &srq_attr));
    assert_null(fl_cq_create(tv->context, -1, NULL, NULL, 0));
    assert_memory_equal(before, device->nr_objects, sizeof(before));
    tv_free(tv);
    for (int i = 0; i < FL_NR_LIMITED; i++)
        assert_int_equal(device->nr_objects[i], 0);
}

static void test_reset_and_again(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    assert_int_equal(tv_recv(&tv->b, 1, 0, 64), 0);
    assert_int_equal(tv_to(&tv->b, &tv->attr, IBV_QPS_ERR, 0), 0);
    assert_int_equal(tv_to(&tv->b, &tv->attr, IBV_QPS_RESET, 0), 0);
    tv_none(tv->b.rcq); /* what was flushed is forgotten */
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_RESET, 0), 0);
    tv_connect(tv);
    assert_int_equal(tv_recv(&tv->b, 2, 0, 64), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 64, 0), 0);
    assert_int_equal(tv_wait(tv->b.rcq).wr_id, 2);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    tv_free(tv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_send),
        cmocka_unit_test(test_write_and_read),
        cmocka_unit_test(test_atomics),
        cmocka_unit_test(test_unreliable_connection),
        cmocka_unit_test(test_datagram),
        cmocka_unit_test(test_address_handle_in_use),
        cmocka_unit_test(test_port_full),
        cmocka_unit_test(test_total_loss),
        cmocka_unit_test(test_forged_address),
        cmocka_unit_test(test_thread_drives),
        cmocka_unit_test(test_thread_takes_over),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_closed_first),
        cmocka_unit_test(test_parent_domain),
        cmocka_unit_test(test_as_many_as_there_are),
        cmocka_unit_test(test_reset_and_again),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
