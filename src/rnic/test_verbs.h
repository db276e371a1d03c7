/* SPDX-License-Identifier: Apache-2.0 */
/* Two queue pairs of one process, connected, for the tests of the objects. */
#ifndef FL_RNIC_TEST_VERBS_H
#define FL_RNIC_TEST_VERBS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "rnic/objects.h"
#include "rnic/test_port.h"
#include "rnic/verbs.h"

#define TV_BUF_LEN 65536
#define TV_WRS     64
#define TV_INLINE  128
#define TV_ALL_REMOTE \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)
#define TV_WAIT_NS (20 * FL_NS_PER_S)

struct tv_end {
    struct ibv_cq *scq, *rcq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buf;
};

struct tv {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_comp_channel *channel; /* of the receive completion queues when the test asks for it */
    struct ibv_srq *srq;
    union ibv_gid gid;
    int gid_index;
    struct tv_end a, b;
    struct ibv_qp_attr attr; /* for both, changed before tv_connect() */
    enum ibv_qp_type type;
    uint64_t send_ops;
    int cqe;
};

/* The loopback device: it is everywhere, and its address is its own. */
static inline struct ibv_context *tv_open_loopback(void)
{
    struct ibv_device **list = fl_device_list_get(NULL);
    struct ibv_context *context = NULL;
    assert_non_null(list);
    for (int i = 0; list[i] && !context; i++)
        if (FL_CONTAINER_OF(list[i], struct fl_device, device)->loopback)
            context = fl_context_open(list[i]);
    fl_device_list_free(list);
    assert_non_null(context);
    return context;
}

static inline void tv_make_end(struct tv *tv, struct tv_end *end)
{
    struct ibv_qp_init_attr_ex init = {
        .cap = {.max_send_wr = TV_WRS,
                .max_recv_wr = TV_WRS,
                .max_send_sge = 4,
                .max_recv_sge = 4,
                .max_inline_data = TV_INLINE},
        .srq = tv->srq,
        .qp_type = tv->type,
        .comp_mask = IBV_QP_INIT_ATTR_PD | (tv->send_ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
        .send_ops_flags = tv->send_ops,
        .pd = tv->pd,
    };
    int cqe = tv->cqe ? tv->cqe : 2 * TV_WRS;
    end->scq = fl_cq_create(tv->context, cqe, end, tv->channel, 0);
    end->rcq = fl_cq_create(tv->context, cqe, end, tv->channel, 0);
    assert_non_null(end->scq);
    assert_non_null(end->rcq);
    init.send_cq = end->scq;
    init.recv_cq = end->rcq;
    end->qp = fl_qp_create_ex(tv->context, &init);
    assert_non_null(end->qp);
    end->buf = calloc(1, TV_BUF_LEN);
    assert_non_null(end->buf);
    end->mr = fl_mr_reg(tv->pd, end->buf, TV_BUF_LEN, TV_ALL_REMOTE);
    assert_non_null(end->mr);
}

static inline struct tv *tv_new(enum ibv_qp_type type)
{
    struct tv *tv = calloc(1, sizeof(*tv));
    assert_non_null(tv);
    test_port = (struct test_port){0};
    tv->type = type;
    tv->context = tv_open_loopback();
    tv->pd = fl_pd_alloc(tv->context);
    assert_non_null(tv->pd);
    assert_int_equal(fl_context_query_gid(tv->context, 1, 0, &tv->gid), 0);
    tv->attr = (struct ibv_qp_attr){
        .qp_access_flags = TV_ALL_REMOTE,
        .port_num = 1,
        .qkey = 0x11111111,
        .path_mtu = IBV_MTU_1024,
        .rq_psn = 0xfffff0, /* soon around */
        .sq_psn = 0xfffff0,
        .max_rd_atomic = 4,
        .max_dest_rd_atomic = 4,
        .min_rnr_timer = 1,
        .timeout =
            0, /* nothing is lost here, and who waits for a CPU must not be given up: see tv_hasty_pair() */
        .retry_cnt = 3,
        .rnr_retry = 7,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
    };
    tv->attr.ah_attr.grh.dgid = tv->gid;
    return tv;
}

static inline int tv_to(struct tv_end *end, struct ibv_qp_attr *attr, enum ibv_qp_state state, int mask)
{
    attr->qp_state = state;
    return fl_qp_modify(end->qp, attr, IBV_QP_STATE | mask);
}

static inline int tv_to_init(struct tv *tv, struct tv_end *end)
{
    return tv_to(end, &tv->attr, IBV_QPS_INIT,
                 IBV_QP_PKEY_INDEX | IBV_QP_PORT |
                     (tv->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static inline int tv_to_rtr(struct tv *tv, struct tv_end *end, struct tv_end *peer)
{
    int mask = tv->type == IBV_QPT_UD ? 0 : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (tv->type == IBV_QPT_RC)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    tv->attr.dest_qp_num = peer->qp->qp_num;
    return tv_to(end, &tv->attr, IBV_QPS_RTR, mask);
}

static inline int tv_to_rts(struct tv *tv, struct tv_end *end)
{
    int mask = IBV_QP_SQ_PSN;
    if (tv->type == IBV_QPT_RC)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    return tv_to(end, &tv->attr, IBV_QPS_RTS, mask);
}

static inline void tv_connect(struct tv *tv)
{
    struct tv_end *ends[] = {&tv->a, &tv->b};
    if (!tv->a.qp) {
        tv_make_end(tv, &tv->a);
        tv_make_end(tv, &tv->b);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tv_to_init(tv, ends[i]), 0);
        assert_int_equal(tv_to_rtr(tv, ends[i], ends[!i]), 0);
        assert_int_equal(tv_to_rts(tv, ends[i]), 0);
    }
}

static inline struct tv *tv_pair(enum ibv_qp_type type)
{
    struct tv *tv = tv_new(type);
    tv_connect(tv);
    return tv;
}

/* Where packets do get lost: sent again after 17 ms, three times */
static inline struct tv *tv_hasty_pair(enum ibv_qp_type type)
{
    struct tv *tv = tv_new(type);
    tv->attr.timeout = 12;
    tv_connect(tv);
    return tv;
}

static inline void tv_free_end(struct tv_end *end)
{
    if (!end->qp)
        return;
    assert_int_equal(fl_qp_destroy(end->qp), 0);
    assert_int_equal(fl_cq_destroy(end->scq), 0);
    assert_int_equal(fl_cq_destroy(end->rcq), 0);
    if (end->mr)
        assert_int_equal(fl_mr_dereg(end->mr), 0);
    free(end->buf);
}

static inline void tv_free(struct tv *tv)
{
    tv_free_end(&tv->a);
    tv_free_end(&tv->b);
    if (tv->srq)
        assert_int_equal(fl_srq_destroy(tv->srq), 0);
    if (tv->channel)
        assert_int_equal(fl_channel_destroy(tv->channel), 0);
    assert_int_equal(fl_pd_dealloc(tv->pd), 0);
    if (tv->context)
        assert_int_equal(fl_context_close(tv->context), 0);
    free(tv);
}

/* The next completion, or a failed test. */
static inline struct ibv_wc tv_wait(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    uint64_t end = fl_now_ns() + TV_WAIT_NS;
    int n;
    while (!(n = ibv_poll_cq(cq, 1, &wc)))
        assert_true(fl_now_ns() < end);
    assert_int_equal(n, 1);
    return wc;
}

static inline void tv_wait_ok(struct ibv_cq *cq, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = tv_wait(cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, opcode);
}

static inline void tv_none(struct ibv_cq *cq)
{
    struct ibv_wc wc;
    assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
}

static inline int tv_recv(struct tv_end *end, uint64_t wr_id, uint32_t at, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)end->buf + at, len, end->mr->lkey};
    struct ibv_recv_wr *bad = NULL, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
    int r = ibv_post_recv(end->qp, &wr, &bad);
    assert_ptr_equal(bad, r ? &wr : NULL);
    return r;
}

/* at: in our buffer; to: in the peer's, for one-sided operations */
static inline int tv_post(struct tv_end *end, const struct tv_end *peer, enum ibv_wr_opcode opcode,
                          uint32_t at, uint32_t to, uint32_t len, unsigned int flags)
{
    struct ibv_sge sge = {(uintptr_t)end->buf + at, len, end->mr->lkey};
    struct ibv_send_wr *bad = NULL, wr = {.wr_id = 1,
                                          .sg_list = &sge,
                                          .num_sge = 1,
                                          .opcode = opcode,
                                          .send_flags = IBV_SEND_SIGNALED | flags,
                                          .imm_data = htobe32(0x1234)};
    wr.wr.rdma.remote_addr = (uintptr_t)peer->buf + to;
    wr.wr.rdma.rkey = peer->mr->rkey;
    int r = ibv_post_send(end->qp, &wr, &bad);
    assert_ptr_equal(bad, r ? &wr : NULL);
    return r;
}

static inline void tv_fill(struct tv_end *end, uint32_t at, uint32_t len, uint8_t seed)
{
    for (uint32_t i = 0; i < len; i++)
        end->buf[at + i] = (uint8_t)(seed + i * 7);
}

/* A writes to B's process; how it ends */
static inline enum ibv_wc_status tv_write_status(struct tv *tv, uint32_t rkey, uint64_t addr, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)tv->a.buf, len, tv->a.mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = addr;
    wr.wr.rdma.rkey = rkey;
    assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), 0);
    return tv_wait(tv->a.scq).status;
}

static inline void tv_reconnect(struct tv *tv)
{
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_RESET, 0), 0);
    assert_int_equal(tv_to(&tv->b, &tv->attr, IBV_QPS_RESET, 0), 0);
    tv_connect(tv);
}

/* The same, where it must not; the two are connected anew after it. */
static inline void tv_refused(struct tv *tv, uint32_t rkey, uint64_t addr, uint32_t len)
{
    assert_int_equal(tv_write_status(tv, rkey, addr, len), IBV_WC_REM_ACCESS_ERR);
    tv_reconnect(tv);
}

#endif
