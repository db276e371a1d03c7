/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving side: is this the request that comes next, and what becomes of it (9.7.4, 9.8.3, 9.9.3). */
#include <string.h>

#include "rnic/roce/parts.h"

void fl_roce_responder_reset(struct fl_roce_qp *qp)
{
    struct fl_roce_rd *rd = qp->resp.rd;
    fl_roce_hold_reset(qp);
    memset(&qp->resp, 0, sizeof(qp->resp));
    qp->resp.rd = rd;
    if (rd)
        memset(rd, 0, sizeof(*rd) * qp->cap.max_dest_rd_atomic);
    qp->resp.epsn = qp->attr.rq_psn;
    qp->resp.prev = -1;
}

/* A receive for the message that begins, unless it has one already (UC: that of a message that broke). */
bool fl_roce_take_recv(struct fl_roce_qp *qp)
{
    struct fl_roce_recv *recv = &qp->resp.recv;
    struct fl_roce_rq *rq = qp->rq;
    if (recv->taken)
        return true;
    if (rq->head == rq->tail)
        return false;
    const struct fl_roce_rwqe *wqe = &rq->wqes[rq->head & rq->mask];
    recv->taken = true;
    recv->wr_id = wqe->wr_id;
    recv->nr_sge = wqe->nr_sge;
    recv->room = fl_roce_sge_len(wqe->sge, wqe->nr_sge);
    memcpy(recv->sge, wqe->sge, sizeof(recv->sge[0]) * wqe->nr_sge);
    rq->head++;
    if (rq->limit && fl_roce_rq_left(rq) < rq->limit) {
        rq->limit = 0;
        if (qp->ops->event)
            qp->ops->event(qp, IBV_EVENT_SRQ_LIMIT_REACHED);
    }
    return true;
}

void fl_roce_recv_done(struct fl_roce_qp *qp, enum ibv_wc_status status, const struct fl_ib_packet *last)
{
    struct fl_roce_responder *resp = &qp->resp;
    struct ibv_wc wc = {
        .wr_id = resp->recv.wr_id,
        .status = status,
        .opcode = IBV_WC_RECV,
        .qp_num = qp->cap.qpn,
        .src_qp = qp->attr.dest_qpn,
    };
    bool solicited = status != IBV_WC_SUCCESS;
    if (last) {
        solicited = last->bth->flags & FL_BTH_SOLICITED;
        wc.byte_len = resp->offset;
        if (last->op->attr & FL_IB_WRITE)
            wc.opcode = IBV_WC_RECV_RDMA_WITH_IMM;
        if (fl_ib_immdt(last)) {
            wc.wc_flags |= IBV_WC_WITH_IMM;
            memcpy(&wc.imm_data, fl_ib_immdt(last), sizeof(wc.imm_data));
        }
        if (fl_ib_ieth(last)) {
            wc.wc_flags |= IBV_WC_WITH_INV;
            wc.invalidated_rkey = be32_get(fl_ib_ieth(last)->rkey);
        }
        if (fl_ib_deth(last)) {
            wc.wc_flags |= IBV_WC_GRH;
            wc.src_qp = be24_get(fl_ib_deth(last)->src_qpn);
            wc.sl = resp->l3_type;
        }
    }
    resp->recv.taken = false;
    qp->ops->complete(qp, &wc, false, solicited);
}

static void queue_nak(struct fl_roce_qp *qp, uint8_t syndrome)
{
    struct fl_roce_responder *resp = &qp->resp;
    resp->nak_pending = true;
    resp->nak_syndrome = syndrome;
    resp->nak_psn = resp->epsn;
}

void fl_roce_queue_ack(struct fl_roce_qp *qp)
{
    struct fl_roce_responder *resp = &qp->resp;
    qp->stats.nr_coalesced += resp->ack_pending;
    resp->ack_pending = true;
    resp->ack_psn = fl_psn_add(resp->epsn, UINT32_MAX);
}

/* 9.9.3: class C faults. The NAK goes out although the queue pair is in ERR then. */
void fl_roce_refuse(struct fl_roce_qp *qp, enum fl_ib_nak nak, enum ibv_wc_status recv_status)
{
    queue_nak(qp, fl_aeth_syndrome(FL_AETH_NAK, (uint8_t)nak));
    qp->resp.failed = true;
    if (qp->resp.recv.taken)
        fl_roce_recv_done(qp, recv_status, NULL);
    if (qp->ops->event)
        qp->ops->event(qp, nak == FL_IB_NAK_ACCESS ? IBV_EVENT_QP_ACCESS_ERR : IBV_EVENT_QP_REQ_ERR);
    fl_roce_qp_fail(qp);
}

static void judge(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, enum fl_roce_verdict v)
{
    struct fl_roce_responder *resp = &qp->resp;
    switch (v) {
    case FL_ROCE_OK:
        resp->prev = packet->bth->opcode;
        resp->gap_told = false;
        if ((packet->bth->ack & FL_BTH_ACKREQ) && !(packet->op->attr & (FL_IB_READ | FL_IB_ATOMIC)))
            fl_roce_queue_ack(qp);
        return;
    case FL_ROCE_NO_RECV:
        queue_nak(qp, fl_aeth_syndrome(FL_AETH_RNR, qp->attr.min_rnr_timer));
        resp->gap_told = true; /* what follows in this flight is no news to the peer */
        return;
    case FL_ROCE_BAD_REQUEST:
        fl_roce_refuse(qp, FL_IB_NAK_REQUEST, IBV_WC_WR_FLUSH_ERR);
        return;
    case FL_ROCE_BAD_LENGTH:
        fl_roce_refuse(qp, FL_IB_NAK_REQUEST, IBV_WC_LOC_LEN_ERR);
        return;
    case FL_ROCE_BAD_ACCESS:
        fl_roce_refuse(qp, FL_IB_NAK_ACCESS, IBV_WC_LOC_ACCESS_ERR);
        return;
    case FL_ROCE_BAD_LOCAL:
        fl_roce_refuse(qp, FL_IB_NAK_OPERATIONAL, IBV_WC_LOC_PROT_ERR);
        return;
    }
}

static void duplicate(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    qp->stats.nr_duplicates++;
    if (packet->op->attr & (FL_IB_READ | FL_IB_ATOMIC))
        fl_roce_rd_again(qp, packet);
    else
        fl_roce_queue_ack(qp); /* 9.7.5.1.5: with the newest PSN, so that the peer catches up at once */
}

/* UC (9.8.2): what does not fit is thrown away, up to the next message. */
static void unreliable(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_responder *resp = &qp->resp;
    bool starts = packet->op->attr & FL_IB_STARTS;
    if (packet->psn != resp->epsn) {
        qp->stats.nr_out_of_order++;
        resp->broken = true;
    }
    if (!fl_ib_may_follow(resp->prev, packet->bth->opcode))
        resp->broken = true;
    if (starts)
        resp->broken = false;
    resp->epsn = fl_psn_add(packet->psn, 1);
    if (resp->broken) {
        resp->prev = -1;
        qp->stats.nr_dropped++;
        return;
    }
    enum fl_roce_verdict v = fl_roce_inbound(qp, packet);
    resp->prev = packet->bth->opcode;
    if (v == FL_ROCE_OK)
        return;
    qp->stats.nr_dropped++;
    resp->broken = true;
    resp->prev = -1;
    if (v == FL_ROCE_BAD_LOCAL) {
        fl_roce_recv_done(qp, IBV_WC_LOC_PROT_ERR, NULL);
        fl_roce_qp_fail(qp);
    }
}

/* The request that comes next. True: done, and epsn has moved. */
static bool take_next(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    enum fl_roce_verdict v = FL_ROCE_BAD_REQUEST;
    if (fl_ib_may_follow(qp->resp.prev, packet->bth->opcode))
        v = packet->op->attr & (FL_IB_READ | FL_IB_ATOMIC) ? fl_roce_rd_new(qp, packet)
                                                           : fl_roce_inbound(qp, packet);
    judge(qp, packet, v);
    return v == FL_ROCE_OK;
}

/* And then what had come ahead of it. */
static void take_held(struct fl_roce_qp *qp, uint32_t done)
{
    struct fl_ib_packet packet;
    for (bool more = false;; more = true) {
        fl_roce_let_go(qp, done);
        done = qp->resp.epsn;
        if (more)
            fl_roce_queue_ack(qp);
        if (!fl_roce_held(qp, &packet) || !take_next(qp, &packet))
            return;
    }
}

void fl_roce_request(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_responder *resp = &qp->resp;
    if (qp->cap.type == IBV_QPT_UC) {
        unreliable(qp, packet);
        return;
    }
    int32_t ahead = FAULT(6) ? (int32_t)packet->psn - (int32_t)resp->epsn
                             : fl_psn_diff(packet->psn, resp->epsn);
    if (FAULT(10) && ahead > 0) {
        resp->epsn = packet->psn;
        ahead = 0;
    }
    if (FAULT(3) && ahead < 0 && packet->bth->opcode == FL_IB_SEND_ONLY && resp->prev >= 0 &&
        (fl_ib_opcodes[resp->prev].attr & FL_IB_ENDS)) {
        uint32_t epsn = resp->epsn;
        fl_roce_inbound(qp, packet);
        resp->epsn = epsn;
    }
    if (ahead > 0 && fl_roce_selective_on(qp)) {
        fl_roce_hold(qp, packet, (uint32_t)ahead);
        return;
    }
    if (ahead > 0) {
        qp->stats.nr_out_of_order++;
        if (!resp->gap_told)
            queue_nak(qp, fl_aeth_syndrome(FL_AETH_NAK, FL_IB_NAK_SEQUENCE));
        resp->gap_told = true;
        return;
    }
    if (ahead < 0) {
        duplicate(qp, packet);
        return;
    }
    uint32_t psn = packet->psn;
    if (take_next(qp, packet) && fl_roce_selective_on(qp) && qp->sel->nr_held)
        take_held(qp, psn);
}
