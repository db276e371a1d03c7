/* SPDX-License-Identifier: Apache-2.0 */
/* The sending side: from work requests to packets, in order, within the limits agreed (9.7.7 and 9.8.3.1). */
#include <assert.h>
#include <errno.h>
#include <string.h>

#include "rnic/roce/parts.h"

void fl_roce_requester_reset(struct fl_roce_qp *qp)
{
    struct fl_roce_requester *req = &qp->req;
    req->head = req->cur = req->tail = 0;
    req->psn_una = req->psn_next = req->psn_max = qp->attr.sq_psn;
    req->nr_rd = req->nr_unasked = 0;
    req->retry_left = qp->attr.retry_cnt;
    req->rnr_left = qp->attr.rnr_retry;
    req->retrying = false;
    req->timeout_at = req->rnr_at = FL_ROCE_NEVER;
    fl_roce_window_reset(qp);
    fl_roce_selective_reset(qp);
}

/* May this kind of queue pair post that? */
static bool opcode_ok(const struct fl_roce_qp *qp, enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return true;
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return qp->cap.type != IBV_QPT_UD;
    case IBV_WR_LOCAL_INV:
        return qp->cap.type != IBV_QPT_UD;
    case IBV_WR_BIND_MW:
        return qp->cap.type != IBV_QPT_UD && qp->ops->bind;
    case IBV_WR_RDMA_READ:
    case IBV_WR_ATOMIC_CMP_AND_SWP:
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
    case IBV_WR_SEND_WITH_INV:
        return qp->cap.type == IBV_QPT_RC;
    default:
        return false;
    }
}

static bool brings_data(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_SEND_WITH_INV ||
           opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static int check_post(const struct fl_roce_qp *qp, const struct ibv_send_wr *wr, uint64_t len)
{
    bool is_inline = wr->send_flags & IBV_SEND_INLINE;
    if (!opcode_ok(qp, wr->opcode) || len > FL_ROCE_MSG_MAX)
        return -EINVAL;
    if (is_inline && (!brings_data(wr->opcode) || len > qp->cap.max_inline))
        return -EINVAL;
    if (qp->cap.type == IBV_QPT_UD && len > qp->mtu)
        return -EINVAL;
    if (fl_roce_is_rd(&(struct fl_roce_swqe){.wr = *wr}) && !qp->attr.max_rd_atomic)
        return -EINVAL; /* its turn would never come */
    if ((wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) && len != 8)
        return -EINVAL;
    return 0;
}

static void copy_data(struct fl_roce_swqe *wqe, const struct ibv_send_wr *wr)
{
    uint8_t *at = wqe->inline_data;
    wqe->nr_sge = (uint32_t)wr->num_sge;
    if (!wqe->is_inline) {
        if (wr->num_sge)
            memcpy(wqe->sge, wr->sg_list, sizeof(wqe->sge[0]) * wqe->nr_sge);
        return;
    }
    for (int i = 0; i < wr->num_sge; i++) { /* the sum was checked, each piece is part of it */
        if (wr->sg_list[i].length)          /* an empty one may have no address */
            memcpy(at, (const void *)(uintptr_t)wr->sg_list[i].addr, wr->sg_list[i].length);
        at += wr->sg_list[i].length;
    }
}

int fl_roce_qp_post_send(struct fl_roce_qp *qp, const struct ibv_send_wr *wr)
{
    struct fl_roce_requester *req = &qp->req;
    if (qp->state == IBV_QPS_RESET || qp->state == IBV_QPS_INIT || qp->state == IBV_QPS_RTR)
        return -EINVAL;
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > qp->cap.max_send_sge)
        return -EINVAL;
    uint64_t len = fl_roce_is_local(&(struct fl_roce_swqe){.wr = *wr})
                       ? 0
                       : fl_roce_sge_len(wr->sg_list, (uint32_t)wr->num_sge);
    int r = check_post(qp, wr, len);
    if (r)
        return r;
    if (req->tail - req->head >= req->cap)
        return -ENOMEM;
    struct fl_roce_swqe *wqe = fl_roce_swqe_at(qp, req->tail++);
    wqe->wr = *wr;
    wqe->len = (uint32_t)len;
    wqe->nr_done = wqe->first_psn = wqe->nr_psn = 0;
    wqe->started = false;
    wqe->nr_asked = 0;
    wqe->is_inline = wr->send_flags & IBV_SEND_INLINE;
    wqe->status = IBV_WC_SUCCESS;
    copy_data(wqe, wr);
    if (qp->state == IBV_QPS_ERR || qp->state == IBV_QPS_SQE)
        fl_roce_send_done(qp, IBV_WC_WR_FLUSH_ERR);
    return 0;
}

void fl_roce_qp_take_back(struct fl_roce_qp *qp, uint32_t nr)
{
    assert(nr <= qp->req.tail - qp->req.cur);
    qp->req.tail -= nr;
}

static bool run_local(struct fl_roce_qp *qp, struct fl_roce_swqe *wqe)
{
    wqe->first_psn = qp->req.psn_next;
    int r = wqe->wr.opcode == IBV_WR_BIND_MW ? qp->ops->bind(qp, &wqe->wr)
                                             : qp->ops->invalidate(qp, wqe->wr.invalidate_rkey, false);
    if (r)
        wqe->status = IBV_WC_MW_BIND_ERR;
    wqe->started = true;
    return !r;
}

/*
 * The first time that a WQE's turn comes: its PSNs, and what must hold before its first packet. False: not
 * now, or it has failed (status).
 */
static bool start(struct fl_roce_qp *qp, struct fl_roce_swqe *wqe)
{
    struct fl_roce_requester *req = &qp->req;
    if ((wqe->wr.send_flags & IBV_SEND_FENCE) && req->nr_rd)
        return false; /* 10.8.3.3: earlier READs and atomics first */
    if (fl_roce_is_local(wqe))
        return run_local(qp, wqe);
    if (fl_roce_is_rd(wqe) && req->nr_rd >= qp->attr.max_rd_atomic)
        return false;
    uint32_t nr = fl_roce_is_atomic(wqe) ? 1 : fl_ib_nr_packets(wqe->len, qp->mtu);
    if ((uint32_t)fl_psn_diff(req->psn_next, req->psn_una) + nr >= 1u << 23)
        return false; /* 9.7.2: else old and new cannot be told apart */
    wqe->first_psn = req->psn_next;
    wqe->nr_psn = nr;
    wqe->started = true;
    return true;
}

static uint8_t send_op(const struct fl_roce_swqe *wqe, bool first, bool last)
{
    bool write = wqe->wr.opcode == IBV_WR_RDMA_WRITE || wqe->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    if (!last)
        return write   ? (first ? FL_IB_WRITE_FIRST : FL_IB_WRITE_MIDDLE)
               : first ? FL_IB_SEND_FIRST
                       : FL_IB_SEND_MIDDLE;
    switch (wqe->wr.opcode) {
    case IBV_WR_RDMA_WRITE:
        return first ? FL_IB_WRITE_ONLY : FL_IB_WRITE_LAST;
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return first ? FL_IB_WRITE_ONLY_IMM : FL_IB_WRITE_LAST_IMM;
    case IBV_WR_SEND_WITH_IMM:
        return first ? FL_IB_SEND_ONLY_IMM : FL_IB_SEND_LAST_IMM;
    case IBV_WR_SEND_WITH_INV:
        return first ? FL_IB_SEND_ONLY_INV : FL_IB_SEND_LAST_INV;
    default:
        return first ? FL_IB_SEND_ONLY : FL_IB_SEND_LAST;
    }
}

static void put_reth(struct fl_roce_tx *tx, uint8_t at, const struct fl_roce_swqe *wqe, uint32_t skip,
                     uint32_t len)
{
    struct fl_reth *reth = fl_roce_tx_hdr(tx, at);
    *reth = (struct fl_reth){be64_of(wqe->wr.wr.rdma.remote_addr + skip), be32_of(wqe->wr.wr.rdma.rkey),
                             be32_of(len)};
}

/* One packet of a SEND or WRITE. False: our own memory does not open. */
static bool put_data(struct fl_roce_qp *qp, struct fl_roce_swqe *wqe, uint32_t psn, uint8_t service,
                     struct fl_roce_tx *tx)
{
    uint32_t i = fl_psn_add(psn, -wqe->first_psn), offset = i * qp->mtu;
    bool first = !i, last = i + 1 == wqe->nr_psn;
    uint32_t len = last ? wqe->len - offset : qp->mtu;
    uint8_t opcode = FL_IB_OPCODE(service, send_op(wqe, first, last));
    const struct fl_ib_opcode *op = &fl_ib_opcodes[opcode];
    fl_roce_tx_begin(tx, opcode, qp, psn);
    if (op->reth)
        put_reth(tx, op->reth, wqe, 0, wqe->len);
    if (op->immdt)
        memcpy(fl_roce_tx_hdr(tx, op->immdt), &wqe->wr.imm_data, 4); /* in network byte order already */
    if (op->ieth)
        *(struct fl_ieth *)fl_roce_tx_hdr(tx, op->ieth) = (struct fl_ieth){be32_of(wqe->wr.invalidate_rkey)};
    if (last && (wqe->wr.send_flags & IBV_SEND_SOLICITED) && (op->attr & FL_IB_SEND))
        fl_roce_tx_bth(tx)->flags |= FL_BTH_SOLICITED;
    if (wqe->is_inline && len) {
        tx->iov[tx->nr_iov++] = (struct iovec){wqe->inline_data + offset, len};
    } else if (len) {
        int nr = fl_roce_gather(qp, wqe->sge, wqe->nr_sge, offset, len, tx->iov + tx->nr_iov);
        if (nr < 0)
            return false;
        tx->nr_iov += nr;
    }
    fl_roce_tx_end(qp, tx, len);
    return true;
}

/* A READ request for nr packets of it from psn on. */
static void put_read(struct fl_roce_qp *qp, struct fl_roce_swqe *wqe, uint32_t psn, uint32_t nr,
                     struct fl_roce_tx *tx)
{
    uint8_t opcode = FL_IB_OPCODE(FL_IB_RC, FL_IB_READ_REQUEST);
    uint32_t i = FAULT(9) ? 0 : fl_psn_add(psn, -wqe->first_psn), skip = i * qp->mtu;
    fl_roce_tx_begin(tx, opcode, qp, psn);
    put_reth(tx, fl_ib_opcodes[opcode].reth, wqe, skip,
             i + nr >= wqe->nr_psn ? wqe->len - skip : nr * qp->mtu);
    fl_roce_tx_end(qp, tx, 0);
}

static void put_atomic(struct fl_roce_qp *qp, struct fl_roce_swqe *wqe, struct fl_roce_tx *tx)
{
    bool swap = wqe->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
    uint8_t opcode = FL_IB_OPCODE(FL_IB_RC, swap ? FL_IB_COMPARE_SWAP : FL_IB_FETCH_ADD);
    fl_roce_tx_begin(tx, opcode, qp, wqe->first_psn);
    struct fl_atomic_eth *eth = fl_roce_tx_hdr(tx, fl_ib_opcodes[opcode].atomic);
    *eth = (struct fl_atomic_eth){
        be64_of(wqe->wr.wr.atomic.remote_addr),
        be32_of(wqe->wr.wr.atomic.rkey),
        be64_of(swap ? wqe->wr.wr.atomic.swap : wqe->wr.wr.atomic.compare_add),
        be64_of(swap ? wqe->wr.wr.atomic.compare_add : 0),
    };
    fl_roce_tx_end(qp, tx, 0);
}

static bool put_datagram(struct fl_roce_qp *qp, struct fl_roce_swqe *wqe, struct fl_roce_tx *tx)
{
    if (!put_data(qp, wqe, qp->req.psn_next, FL_IB_UD, tx))
        return false;
    /* 10.2.5: a Q_Key with its top bit set means that of the queue pair */
    uint32_t qkey = wqe->wr.wr.ud.remote_qkey & 0x80000000u ? qp->attr.qkey : wqe->wr.wr.ud.remote_qkey;
    struct fl_deth *deth = fl_roce_tx_hdr(tx, fl_ib_opcodes[fl_roce_tx_bth(tx)->opcode].deth);
    *deth = (struct fl_deth){.qkey = be32_of(qkey), .src_qpn = be24_of(qp->cap.qpn)};
    fl_roce_tx_bth(tx)->qpn = be24_of(wqe->wr.wr.ud.remote_qpn);
    tx->ah = wqe->wr.wr.ud.ah;
    return true;
}

bool fl_roce_put_request(struct fl_roce_qp *qp, struct fl_roce_swqe *wqe, uint32_t psn, uint32_t nr,
                         struct fl_roce_tx *tx)
{
    if (wqe->wr.opcode == IBV_WR_RDMA_READ)
        put_read(qp, wqe, psn, nr, tx);
    else if (fl_roce_is_atomic(wqe))
        put_atomic(qp, wqe, tx);
    else if (qp->cap.type == IBV_QPT_UD
                 ? !put_datagram(qp, wqe, tx)
                 : !put_data(qp, wqe, psn, qp->cap.type == IBV_QPT_UC ? FL_IB_UC : FL_IB_RC, tx)) {
        wqe->status = IBV_WC_LOC_PROT_ERR;
        fl_roce_retire(qp);
        return false;
    }
    return true;
}

/* READs, atomics and the end of each message ask for an acknowledgement, and a long one on its way, so that
 * the window opens. */
static bool ask(struct fl_roce_qp *qp, bool anyway, uint32_t in_flight, struct fl_roce_tx *tx)
{
    struct fl_roce_requester *req = &qp->req;
    if (!anyway && ++req->nr_unasked < qp->req.window / 4 && in_flight < qp->req.window)
        return false;
    fl_roce_tx_bth(tx)->ack |= FL_BTH_ACKREQ;
    req->nr_unasked = 0;
    return true;
}

/* The WQE whose turn it is, started; NULL: nothing may be sent now. */
static struct fl_roce_swqe *next_wqe(struct fl_roce_qp *qp)
{
    struct fl_roce_requester *req = &qp->req;
    while (req->cur != req->tail) {
        struct fl_roce_swqe *wqe = fl_roce_swqe_at(qp, req->cur);
        if (wqe->status != IBV_WC_SUCCESS)
            break; /* fails when all before it are done */
        if (!wqe->started) {
            enum fl_roce_direct direct = fl_roce_try_direct(qp, wqe);
            if (direct == FL_ROCE_DONE)
                continue;
            if (direct == FL_ROCE_WAIT || !start(qp, wqe))
                break;
        }
        if (!fl_roce_is_local(wqe))
            return wqe;
        req->cur++;
        fl_roce_retire(qp);
    }
    fl_roce_retire(qp);
    return NULL;
}

/* What was sent without waiting for an answer is complete now that the port has taken it. */
static void complete_unreliable(struct fl_roce_qp *qp)
{
    while (qp->cap.type != IBV_QPT_RC && qp->req.head != qp->req.cur && qp->state != IBV_QPS_ERR) {
        struct fl_roce_swqe *wqe = fl_roce_swqe_at(qp, qp->req.head);
        if (wqe->status != IBV_WC_SUCCESS)
            break;
        fl_roce_send_done(qp, IBV_WC_SUCCESS);
    }
    if (qp->cap.type != IBV_QPT_RC)
        qp->req.psn_una = qp->req.psn_next;
}

/* 10.3.1.5: the program waits for this before it changes something. */
static void tell_drained(struct fl_roce_qp *qp)
{
    struct fl_roce_requester *req = &qp->req;
    if (qp->state != IBV_QPS_SQD || req->drained || req->head != req->cur ||
        (req->cur != req->tail && fl_roce_swqe_at(qp, req->cur)->started))
        return;
    req->drained = true;
    if (qp->ops->event)
        qp->ops->event(qp, IBV_EVENT_SQ_DRAINED);
}

/* May what was never sent, or is sent again from psn_next on, go out? */
static bool window_open(const struct fl_roce_qp *qp)
{
    if (fl_roce_selective_on(qp))
        return fl_roce_selective_open(qp);
    return (uint32_t)fl_psn_diff(qp->req.psn_next, qp->req.psn_una) < qp->req.window;
}

bool fl_roce_has_data(const struct fl_roce_qp *qp)
{
    const struct fl_roce_requester *req = &qp->req;
    if (fl_roce_rd_pending(qp))
        return true;
    if (fl_roce_selective_on(qp) && qp->sel->nr_lost)
        return true;
    return req->cur != req->tail && req->rnr_at == FL_ROCE_NEVER && window_open(qp);
}

/* The next packet of the request whose turn it is. */
static bool send_next(struct fl_roce_qp *qp, uint64_t now, struct fl_roce_tx *tx)
{
    struct fl_roce_requester *req = &qp->req;
    if (!window_open(qp))
        return false;
    struct fl_roce_swqe *wqe = next_wqe(qp);
    if (!wqe)
        return false;
    uint32_t psn = req->psn_next, i = fl_psn_add(psn, -wqe->first_psn);
    uint32_t nr = wqe->wr.opcode == IBV_WR_RDMA_READ ? fl_roce_piece_end(qp, wqe, i) - i : 1;
    bool again = fl_psn_diff(req->psn_max, psn) > 0, last = i + nr == wqe->nr_psn;
    if (fl_roce_is_rd(wqe) && !again) {
        if (req->nr_rd >= qp->attr.max_rd_atomic)
            return false; /* for the next piece, too, an earlier one must have ended */
        req->nr_rd++;
        wqe->nr_asked++;
    }
    if (!fl_roce_put_request(qp, wqe, psn, nr, tx))
        return false;
    qp->stats.nr_resent += again;
    req->psn_next = fl_psn_add(psn, nr);
    req->cur += last;
    if (fl_psn_diff(req->psn_next, req->psn_max) > 0)
        req->psn_max = req->psn_next;
    if (qp->cap.type != IBV_QPT_RC)
        return true;
    uint32_t in_flight = (uint32_t)fl_psn_diff(req->psn_next, req->psn_una);
    if (fl_roce_selective_on(qp))
        in_flight = fl_roce_selective_sent(qp, psn, nr, tx);
    if (ask(qp, last || fl_roce_is_rd(wqe), in_flight, tx) && fl_roce_selective_on(qp))
        fl_roce_selective_timed(qp, psn, now);
    return true;
}

bool fl_roce_request_next(struct fl_roce_qp *qp, uint64_t now, struct fl_roce_tx *tx, bool open)
{
    struct fl_roce_requester *req = &qp->req;
    complete_unreliable(qp);
    tell_drained(qp);
    if (!open || req->rnr_at != FL_ROCE_NEVER)
        return false;
    if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD)
        return false;
    if (!fl_roce_selective_on(qp) || !fl_roce_selective_next(qp, now, tx)) {
        /* 10.3.1.5: in SQD the message that was begun goes on, and what was lost is sent again */
        if (qp->state == IBV_QPS_SQD && (req->cur == req->tail || !fl_roce_swqe_at(qp, req->cur)->started))
            return false;
        if (!send_next(qp, now, tx))
            return false;
    }
    if (fl_roce_selective_on(qp))
        fl_roce_selective_arm(qp, now);
    /* Under a low rate a message may take long to leave, which is no sign of loss. */
    if (qp->cap.type == IBV_QPT_RC && qp->timeout_ns &&
        (req->timeout_at == FL_ROCE_NEVER || qp->cc.limited) && !FAULT(4))
        req->timeout_at = now + qp->timeout_ns;
    return true;
}
