/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are done while they are posted: READs and WRITEs in the peer's memory, SENDs as messages.
 * Only while the engine has nothing to do for the queue pair, whose order so is kept; what cannot be done at
 * once, and what is wrong, is the engine's, which does it by packets or says what is wrong.
 */
#include <string.h>

#include "base/copy.h"
#include "base/try.h"
#include "rnic/roce/parts.h"
#include "rnic/shm/shm.h"
#include "rnic/shm_path.h"

#define LONG_LEN \
    (64u << 10) /* after a longer copy, a peer that closes something need not wait for the next one */

#define AHEAD_MIN 1024 /* a shorter WRITE's copy is over before much could be fetched */

struct batch {
    struct fl_qp *qp;
    uint64_t now;
    bool begun; /* fl_shm_direct_begin() */
    struct fl_shm_open open;
    struct iovec ahead; /* the data of the WRITE that is next */
    bool wrote;         /* messages that have not left */
};

/* The next WRITE's data comes from memory while this request is done: otherwise one waits for the other. */
static void look_ahead(struct batch *b, const struct ibv_send_wr *next)
{
    b->ahead.iov_len = 0;
    if (next && next->opcode == IBV_WR_RDMA_WRITE && next->num_sge > 0 && next->sg_list)
        b->ahead = (struct iovec){(void *)(uintptr_t)next->sg_list[0].addr, next->sg_list[0].length};
}

/* Where the copy itself does not do it */
static void fetch_ahead(const struct batch *b)
{
    fl_fetch_ahead(b->ahead.iov_base, FL_MIN(b->ahead.iov_len, (size_t)FL_FETCH_LEN));
}

/* Where the data lies, checked as the engine checks it. The number of pieces; negative: the engine will say
 * why. */
static int pieces(struct fl_qp *qp, const struct ibv_send_wr *wr, int access, struct iovec *iov,
                  uint64_t *len)
{
    bool is_inline = wr->send_flags & IBV_SEND_INLINE;
    int nr = 0;
    *len = 0;
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->roce.cap.max_send_sge)
        return -1;
    for (int i = 0; i < wr->num_sge; i++) {
        const struct ibv_sge *sge = &wr->sg_list[i];
        uint64_t at = sge->addr;
        if (!sge->length)
            continue;
        if (!is_inline && fl_qp_check_own_key(qp, sge->lkey, sge->addr, sge->length, access, &at))
            return -1;
        iov[nr++] = (struct iovec){(void *)(uintptr_t)at, sge->length};
        *len += sge->length;
    }
    return is_inline && *len > qp->roce.cap.max_inline ? -1 : nr;
}

static void done(struct fl_qp *qp, const struct ibv_send_wr *wr, enum ibv_wc_opcode opcode, uint64_t len)
{
    const struct ibv_wc wc = {.wr_id = wr->wr_id,
                              .status = IBV_WC_SUCCESS,
                              .opcode = opcode,
                              .byte_len = (uint32_t)len,
                              .qp_num = qp->qp.qp_num};
    if ((wr->send_flags & IBV_SEND_SIGNALED) || qp->roce.cap.sq_sig_all)
        fl_qp_complete(qp, &wc, true, false);
}

static bool send_message(struct batch *b, const struct ibv_send_wr *wr)
{
    struct fl_qp *qp = b->qp;
    struct iovec iov[FL_ROCE_SGE_MAX];
    uint64_t len;
    int nr = pieces(qp, wr, 0, iov, &len);
    fetch_ahead(b);
    if (nr < 0 || len > FL_SHM_MESSAGE_MAX)
        return false;
    const uint64_t at = qp->link->out.at;
    struct fl_shm_message *m = fl_shm_message_begin(
        qp->link, &qp->messages, qp->qp.qp_num, qp->roce.attr.dest_qpn, qp->roce.attr.sq_psn, (uint32_t)len);
    if (!m)
        return false;
    uint8_t *to = (uint8_t *)(m + 1);
    m->flags = (wr->send_flags & IBV_SEND_SOLICITED ? FL_SHM_SOLICITED : 0) |
               (wr->opcode == IBV_WR_SEND_WITH_IMM ? FL_SHM_IMM : 0);
    m->imm = wr->imm_data;
    for (int i = 0; i < nr; i++) {
        if (!fl_try_copy(to, iov[i].iov_base, iov[i].iov_len)) {
            fl_shm_message_cancel(qp->link, &qp->messages, at);
            return false;
        }
        to += iov[i].iov_len;
    }
    qp->nr_messages_tx++;
    qp->message_len += len;
    b->wrote = true;
    done(qp, wr, IBV_WC_SEND, len);
    return true;
}

static bool one_sided(struct batch *b, const struct ibv_send_wr *wr, bool read)
{
    struct fl_qp *qp = b->qp;
    struct iovec iov[FL_ROCE_SGE_MAX];
    struct fl_shm_request r = {.op = read ? FL_SHM_READ : FL_SHM_WRITE,
                               .rkey = wr->wr.rdma.rkey,
                               .addr = wr->wr.rdma.remote_addr,
                               .iov = iov,
                               .open = &b->open};
    if (read && (!qp->roce.attr.max_rd_atomic || (wr->send_flags & IBV_SEND_INLINE)))
        return false;
    r.nr_iov = pieces(qp, wr, read ? IBV_ACCESS_LOCAL_WRITE : 0, iov, &r.len);
    if (r.nr_iov < 0 || r.len > FL_ROCE_MSG_MAX)
        return false;
    if (!read && r.len >= AHEAD_MIN)
        r.ahead = b->ahead;
    else
        fetch_ahead(b);
    b->begun = b->begun || fl_shm_direct_begin(qp->link, b->now);
    if (!b->begun || !fl_shm_path_do(qp, &r))
        return false;
    if (r.len > LONG_LEN) {
        fl_shm_direct_end(qp->link);
        b->begun = false;
        b->open.at = NULL;
    }
    done(qp, wr, read ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE, r.len);
    return true;
}

static bool post_one(struct batch *b, const struct ibv_send_wr *wr)
{
    switch (wr->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return send_message(b, wr);
    case IBV_WR_RDMA_WRITE:
        return one_sided(b, wr, false);
    case IBV_WR_RDMA_READ:
        return one_sided(b, wr, true);
    default:
        return false;
    }
}

struct ibv_send_wr *fl_shm_path_post(struct fl_qp *qp, struct ibv_send_wr *wr, uint64_t now)
{
    const struct fl_roce_qp *roce = &qp->roce;
    struct batch b = {.qp = qp, .now = now};
    if (!qp->link || !fl_shm_link_is_open(qp->link) || roce->cap.type != IBV_QPT_RC ||
        roce->state != IBV_QPS_RTS || roce->req.head != roce->req.tail)
        return wr;
    fl_rnic_gather(qp->rnic);
    for (; wr && !qp->doomed; wr = wr->next) {
        look_ahead(&b, wr->next);
        if (!post_one(&b, wr))
            break;
    }
    if (b.begun)
        fl_shm_direct_end(qp->link);
    if (b.wrote && fl_shm_commit(qp->link))
        fl_rnic_wake_by(qp->rnic, now);
    /* After what the peer waits for: it takes a fence, which waits for all of the data to leave. */
    fl_rnic_gathered(qp->rnic);
    if (fl_unlikely(qp->doomed)) /* completed into a queue that is full */
        fl_qp_settle(qp);
    return wr;
}

/* ---- receiving ---- */

/* What a receive promises a sender; false: nothing. */
static bool promise(struct fl_qp *qp, const struct ibv_sge *sge, int nr)
{
    struct fl_shm_grant *own = qp->messages.own;
    uint64_t len = 0;
    for (int i = 0; i < nr; i++) {
        uint64_t at;
        if (!sge[i].length)
            continue;
        if (fl_qp_check_own_key(qp, sge[i].lkey, sge[i].addr, sge[i].length, IBV_ACCESS_LOCAL_WRITE, &at))
            return false;
        len += sge[i].length;
        if (at < own->lo)
            own->lo = at;
        if (at + sge[i].length > own->hi)
            own->hi = at + sge[i].length;
    }
    if (len < own->max_len)
        own->max_len = (uint32_t)len;
    return true;
}

/* Receives that are there, and those that were used up: told when that has changed. */
void fl_shm_path_grant(struct fl_qp *qp)
{
    struct fl_shm_flow *flow = &qp->messages;
    uint32_t granted = flow->nr_taken + fl_roce_rq_left(qp->roce.rq);
    if (!flow->epoch || flow->closed || granted == flow->told)
        return;
    flow->told = granted;
    __atomic_store_n(&flow->own->granted, granted, __ATOMIC_RELEASE);
}

void fl_shm_path_posted(struct fl_qp *qp, const struct ibv_recv_wr *wr)
{
    struct fl_shm_flow *flow = &qp->messages;
    if (flow->epoch && !flow->closed && !promise(qp, wr->sg_list, wr->num_sge))
        flow->closed = true;
}

static bool uses(const struct fl_roce_rq *rq, uint32_t lkey)
{
    for (uint32_t i = rq->head; i != rq->tail; i++) {
        const struct fl_roce_rwqe *wqe = &rq->wqes[i & rq->mask];
        for (uint32_t k = 0; k < wqe->nr_sge; k++)
            if (wqe->sge[k].lkey == lkey)
                return true;
    }
    return false;
}

void fl_shm_path_revoke(struct fl_rnic *rnic, uint32_t lkey)
{
    for (size_t row = 0; row < FL_ARRAY_LEN(rnic->qps.at); row++) {
        for (uint32_t i = 0; rnic->qps.at[row] && i < 1 << 12; i++) {
            struct fl_qp *qp = rnic->qps.at[row][i];
            if (!qp || !qp->messages.epoch || qp->messages.closed || !uses(qp->roce.rq, lkey))
                continue;
            qp->messages.closed = qp->messages.revoked = true;
            fl_shm_path_show(qp); /* which senders look at for each message */
        }
    }
}

void fl_shm_path_begin_messages(struct fl_qp *qp, struct fl_shm_grant *own, uint32_t epoch)
{
    struct fl_shm_flow *flow = &qp->messages;
    const struct fl_roce_rq *rq = qp->roce.rq;
    *flow = (struct fl_shm_flow){.own = own, .link = UINT32_MAX};
    if (!own || rq->shared || qp->roce.cap.type != IBV_QPT_RC)
        return;
    *own = (struct fl_shm_grant){.max_len = FL_SHM_MESSAGE_MAX, .lo = UINT64_MAX};
    flow->epoch = epoch;
    for (uint32_t i = rq->head; i != rq->tail && !flow->closed; i++) {
        const struct fl_roce_rwqe *wqe = &rq->wqes[i & rq->mask];
        flow->closed = !promise(qp, wqe->sge, (int)wqe->nr_sge);
    }
    fl_shm_path_grant(qp);
}

/* Two processes that connect to each other at the same time have two links, and each sends by its own. */
static bool is_from_peer(struct fl_qp *qp, const struct fl_shm_link *link)
{
    if (fl_likely(link == qp->link || link->number == qp->messages.link))
        return qp->link != NULL;
    if (!qp->link || strcmp(link->address, qp->link->address) != 0)
        return false;
    qp->messages.link = link->number;
    return true;
}

void fl_shm_path_message(void *arg, struct fl_shm_link *link, const struct fl_shm_message *m,
                         const void *data, uint32_t len)
{
    struct fl_rnic *rnic = arg;
    struct fl_qp *qp = fl_qp_find(&rnic->qps, m->dest_qpn & FL_IB_QPN_MASK);
    struct fl_shm_flow *flow;
    if (!qp || !qp->messages.epoch || m->epoch != qp->messages.epoch ||
        m->src_qpn != qp->roce.attr.dest_qpn || !is_from_peer(qp, link)) {
        rnic->stats.nr_unknown_qpn++;
        return;
    }
    flow = &qp->messages;
    qp->nr_messages_rx++;
    qp->message_rx_len += len;
    bool ok = fl_roce_qp_message(&qp->roce, data, len, m->flags & FL_SHM_IMM ? &m->imm : NULL,
                                 m->flags & FL_SHM_SOLICITED);
    __atomic_store_n(&flow->own->taken, ++flow->nr_taken, __ATOMIC_RELEASE);
    if (fl_unlikely(!qp->established))
        fl_qp_first_packet(qp, rnic->now);
    if (fl_unlikely(!ok || qp->doomed)) {
        if (!fl_list_linked(&qp->ready_link))
            fl_list_add_tail(&rnic->ready, &qp->ready_link);
        fl_qp_settle(qp);
    }
}
