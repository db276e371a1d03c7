/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/qp_ex.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/verbs.h"

#define SUPPORTED                                                                                  \
    (IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |        \
     IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_BIND_MW |     \
     IBV_QP_EX_WITH_SEND_WITH_INV)
#define SENDS_ONLY (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define NO_READS                                                                  \
    (SUPPORTED & ~(IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | \
                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_SEND_WITH_INV))

/* Room for as many requests as the send queue has: wrs, then their SGEs, then their inline data */
struct fl_qp_builder {
    pthread_mutex_t lock; /* from start to complete or abort */
    uint32_t nr, max, max_sge, max_inline;
    int error; /* the first fault since start: positive errno */
    struct ibv_send_wr *wrs;
    struct ibv_sge *sges;
    uint8_t *inline_data;
    struct ibv_send_wr nowhere; /* what follows a fault goes here */
};

static struct fl_qp_builder *builder_of(struct ibv_qp_ex *ex)
{
    return FL_CONTAINER_OF(ex, struct fl_qp, ex)->builder;
}

static void set_error(struct fl_qp_builder *b, int error)
{
    if (!b->error)
        b->error = error;
}

static struct ibv_send_wr *begin(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode)
{
    struct fl_qp_builder *b = builder_of(ex);
    struct ibv_send_wr *wr = &b->nowhere;
    if (b->nr == b->max)
        set_error(b, ENOMEM);
    if (!b->error)
        wr = &b->wrs[b->nr++];
    *wr = (struct ibv_send_wr){.wr_id = ex->wr_id, .opcode = opcode, .send_flags = ex->wr_flags};
    return wr;
}

/* The request that is being built: setters follow it. NULL: there is none, or a fault was found. */
static struct ibv_send_wr *current(struct fl_qp_builder *b)
{
    if (!b->nr)
        set_error(b, EINVAL);
    return b->error ? NULL : &b->wrs[b->nr - 1];
}

static void wr_rdma(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr, __be32 imm)
{
    struct ibv_send_wr *wr = begin(ex, opcode);
    wr->wr.rdma.rkey = rkey;
    wr->wr.rdma.remote_addr = addr;
    wr->imm_data = imm;
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
    wr_rdma(ex, IBV_WR_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
    wr_rdma(ex, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
    wr_rdma(ex, IBV_WR_RDMA_READ, rkey, addr, 0);
}

static void wr_atomic(struct ibv_qp_ex *ex, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t addr,
                      uint64_t compare_add, uint64_t swap)
{
    struct ibv_send_wr *wr = begin(ex, opcode);
    wr->wr.atomic.rkey = rkey;
    wr->wr.atomic.remote_addr = addr;
    wr->wr.atomic.compare_add = compare_add;
    wr->wr.atomic.swap = swap;
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare,
                              uint64_t swap)
{
    wr_atomic(ex, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr, compare, swap);
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
    wr_atomic(ex, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr, add, 0);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey,
                       const struct ibv_mw_bind_info *info)
{
    struct ibv_send_wr *wr = begin(ex, IBV_WR_BIND_MW);
    wr->bind_mw.mw = mw;
    wr->bind_mw.rkey = rkey;
    wr->bind_mw.bind_info = *info;
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    begin(ex, IBV_WR_LOCAL_INV)->invalidate_rkey = rkey;
}

static void wr_send(struct ibv_qp_ex *ex)
{
    begin(ex, IBV_WR_SEND);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
    begin(ex, IBV_WR_SEND_WITH_IMM)->imm_data = imm;
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
    begin(ex, IBV_WR_SEND_WITH_INV)->invalidate_rkey = rkey;
}

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
    struct ibv_send_wr *wr = current(builder_of(ex));
    if (!wr)
        return;
    wr->wr.ud.ah = ah;
    wr->wr.ud.remote_qpn = qpn;
    wr->wr.ud.remote_qkey = qkey;
}

static struct ibv_sge *sges_of(struct fl_qp_builder *b)
{
    return b->sges + (size_t)(b->nr - 1) * b->max_sge;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t nr, const struct ibv_sge *sges)
{
    struct fl_qp_builder *b = builder_of(ex);
    struct ibv_send_wr *wr = current(b);
    if (!wr)
        return;
    if (nr > b->max_sge) {
        set_error(b, EINVAL);
        return;
    }
    wr->sg_list = sges_of(b);
    wr->num_sge = (int)nr;
    if (nr)
        memcpy(wr->sg_list, sges, nr * sizeof(*sges));
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t len)
{
    struct ibv_sge sge = {.addr = addr, .length = len, .lkey = lkey};
    wr_set_sge_list(ex, 1, &sge);
}

/* Copied at once: the caller's buffers are free when this returns. */
static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t nr, const struct ibv_data_buf *bufs)
{
    struct fl_qp_builder *b = builder_of(ex);
    struct ibv_send_wr *wr = current(b);
    size_t len = 0;
    if (!wr)
        return;
    uint8_t *to = b->inline_data + (size_t)(b->nr - 1) * b->max_inline;
    for (size_t i = 0; i < nr; i++) {
        if (bufs[i].length > b->max_inline - len) { /* the sum counts, not each piece */
            set_error(b, EINVAL);
            return;
        }
        if (bufs[i].length)
            memcpy(to + len, bufs[i].addr, bufs[i].length);
        len += bufs[i].length;
    }
    wr->sg_list = sges_of(b);
    wr->sg_list[0] = (struct ibv_sge){.addr = (uintptr_t)to, .length = (uint32_t)len};
    wr->num_sge = len ? 1 : 0;
    wr->send_flags |= IBV_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t len)
{
    struct ibv_data_buf buf = {.addr = addr, .length = len};
    wr_set_inline_data_list(ex, 1, &buf);
}

static void wr_start(struct ibv_qp_ex *ex)
{
    struct fl_qp_builder *b = builder_of(ex);
    pthread_mutex_lock(&b->lock);
    b->nr = 0;
    b->error = 0;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
    struct fl_qp_builder *b = builder_of(ex);
    int r = b->error ? b->error : fl_qp_post_all(FL_CONTAINER_OF(ex, struct fl_qp, ex), b->wrs, b->nr);
    pthread_mutex_unlock(&b->lock);
    return r;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
    pthread_mutex_unlock(&builder_of(ex)->lock);
}

static void set_functions(struct ibv_qp_ex *ex)
{
    ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
    ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
    ex->wr_bind_mw = wr_bind_mw;
    ex->wr_local_inv = wr_local_inv;
    ex->wr_rdma_read = wr_rdma_read;
    ex->wr_rdma_write = wr_rdma_write;
    ex->wr_rdma_write_imm = wr_rdma_write_imm;
    ex->wr_send = wr_send;
    ex->wr_send_imm = wr_send_imm;
    ex->wr_send_inv = wr_send_inv;
    ex->wr_set_ud_addr = wr_set_ud_addr;
    ex->wr_set_inline_data = wr_set_inline_data;
    ex->wr_set_inline_data_list = wr_set_inline_data_list;
    ex->wr_set_sge = wr_set_sge;
    ex->wr_set_sge_list = wr_set_sge_list;
    ex->wr_start = wr_start;
    ex->wr_complete = wr_complete;
    ex->wr_abort = wr_abort;
}

int fl_qp_builder_create(struct fl_qp *qp, uint64_t flags)
{
    uint64_t may = qp->qp.qp_type == IBV_QPT_RC   ? SUPPORTED
                   : qp->qp.qp_type == IBV_QPT_UC ? NO_READS
                                                  : SENDS_ONLY;
    const struct ibv_qp_cap *cap = &qp->init.cap;
    uint32_t max = cap->max_send_wr, max_sge = cap->max_send_sge ? cap->max_send_sge : 1;
    if (flags & ~may)
        return -EOPNOTSUPP;
    struct fl_qp_builder *b = calloc(1, sizeof(*b) + (size_t)max * (sizeof(struct ibv_send_wr) +
                                                                    max_sge * sizeof(struct ibv_sge) +
                                                                    cap->max_inline_data));
    if (!b)
        return -ENOMEM;
    b->max = max;
    b->max_sge = max_sge;
    b->max_inline = cap->max_inline_data;
    b->wrs = (struct ibv_send_wr *)(b + 1);
    b->sges = (struct ibv_sge *)(b->wrs + max);
    b->inline_data = (uint8_t *)(b->sges + (size_t)max * max_sge);
    pthread_mutex_init(&b->lock, NULL);
    qp->builder = b;
    set_functions(&qp->ex);
    return 0;
}

void fl_qp_builder_destroy(struct fl_qp_builder *b)
{
    if (!b)
        return;
    pthread_mutex_destroy(&b->lock);
    free(b);
}

struct ibv_qp_ex *fl_qp_to_ex(struct ibv_qp *qp)
{
    return fl_qp_of(qp)->builder ? &fl_qp_of(qp)->ex : NULL;
}
