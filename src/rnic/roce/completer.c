/* SPDX-License-Identifier: Apache-2.0 */
/* The sending side: what comes back, the clock, and the end of each work request (9.7.5, 9.9.2). */
#include <string.h>

#include "rnic/roce/parts.h"

static enum ibv_wc_opcode wc_opcode(enum ibv_wr_opcode opcode)
{
    switch (opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return IBV_WC_RDMA_WRITE;
    case IBV_WR_RDMA_READ:
        return IBV_WC_RDMA_READ;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        return IBV_WC_COMP_SWAP;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        return IBV_WC_FETCH_ADD;
    case IBV_WR_LOCAL_INV:
        return IBV_WC_LOCAL_INV;
    case IBV_WR_BIND_MW:
        return IBV_WC_BIND_MW;
    default:
        return IBV_WC_SEND;
    }
}

void fl_roce_send_done(struct fl_roce_qp *qp, enum ibv_wc_status status)
{
    struct fl_roce_requester *req = &qp->req;
    struct fl_roce_swqe *wqe = fl_roce_swqe_at(qp, req->head);
    struct ibv_wc wc = {
        .wr_id = wqe->wr.wr_id,
        .status = status,
        .opcode = wc_opcode(wqe->wr.opcode),
        .byte_len = wqe->len,
        .qp_num = qp->cap.qpn,
    };
    bool told = status != IBV_WC_SUCCESS || qp->cap.sq_sig_all || (wqe->wr.send_flags & IBV_SEND_SIGNALED);
    req->nr_rd -= wqe->nr_asked;
    wqe->nr_asked = 0;
    if (req->cur == req->head)
        req->cur++;
    req->head++;
    if (told)
        qp->ops->complete(qp, &wc, true, status != IBV_WC_SUCCESS);
}

/* 10.3.1: RC to ERR; UC and UD to SQE. */
void fl_roce_fail_head(struct fl_roce_qp *qp, enum ibv_wc_status status)
{
    struct fl_roce_requester *req = &qp->req;
    fl_roce_send_done(qp, status);
    if (qp->cap.type == IBV_QPT_RC) {
        fl_roce_qp_fail(qp);
        return;
    }
    qp->state = IBV_QPS_SQE;
    while (req->head != req->tail)
        fl_roce_send_done(qp, IBV_WC_WR_FLUSH_ERR);
}

void fl_roce_retire(struct fl_roce_qp *qp)
{
    struct fl_roce_requester *req = &qp->req;
    while (req->head != req->tail) {
        struct fl_roce_swqe *wqe = fl_roce_swqe_at(qp, req->head);
        if (wqe->status != IBV_WC_SUCCESS) {
            fl_roce_fail_head(qp, wqe->status);
            return;
        }
        if (!wqe->started || !fl_roce_is_local(wqe))
            return;
        fl_roce_send_done(qp, IBV_WC_SUCCESS);
    }
}

/* The counters begin anew (9.7.6.1), and the clock. */
void fl_roce_progress(struct fl_roce_qp *qp, uint32_t psn_una, uint64_t now)
{
    struct fl_roce_requester *req = &qp->req;
    fl_roce_window_moved(qp, (uint32_t)fl_psn_diff(psn_una, req->psn_una));
    req->psn_una = psn_una;
    req->retry_left = qp->attr.retry_cnt;
    req->rnr_left = qp->attr.rnr_retry;
    req->retrying = false;
    req->rnr_at = FL_ROCE_NEVER;
    req->timeout_at = psn_una == req->psn_max || !qp->timeout_ns || FAULT(4) ? FL_ROCE_NEVER
                                                                             : now + qp->timeout_ns;
    if (fl_psn_diff(req->psn_una, req->psn_next) > 0) /* answered before it was sent again */
        req->psn_next = req->psn_una;
}

/* After progress: where the cursor must not lie behind */
static void follow(struct fl_roce_qp *qp)
{
    struct fl_roce_requester *req = &qp->req;
    fl_roce_retire(qp);
    if ((int32_t)(req->cur - req->head) < 0 || req->psn_next == req->psn_una)
        req->cur = req->head;
}

/* Back to the oldest that is not acknowledged (9.7.5.1.1): all after it is sent again. */
static void rewind_to_una(struct fl_roce_qp *qp)
{
    struct fl_roce_requester *req = &qp->req;
    req->cur = req->head;
    req->psn_next = req->psn_una;
    req->nr_unasked = 0;
}

static void go_back(struct fl_roce_qp *qp, uint64_t now)
{
    struct fl_roce_requester *req = &qp->req;
    if (req->retrying) /* more packets of the flight that is lost already */
        return;
    if (!req->retry_left) {
        fl_roce_fail_head(qp, IBV_WC_RETRY_EXC_ERR);
        return;
    }
    req->retry_left--;
    req->retrying = true;
    qp->stats.nr_gone_back++;
    fl_roce_window_gone_back(qp);
    if (qp->timeout_ns && !FAULT(4))
        req->timeout_at = now + qp->timeout_ns;
    rewind_to_una(qp);
}

/*
 * Everything up to psn is acknowledged. False: a READ or atomic among it has no response yet, which so was
 * lost (9.7.5.1.1, implied NAK).
 */
static bool ack_through(struct fl_roce_qp *qp, uint32_t psn, uint64_t now)
{
    struct fl_roce_requester *req = &qp->req;
    bool whole = true;
    while (req->head != req->tail) {
        struct fl_roce_swqe *wqe = fl_roce_swqe_at(qp, req->head);
        if (!wqe->started || wqe->status != IBV_WC_SUCCESS)
            break;
        if (fl_roce_is_local(wqe)) {
            fl_roce_send_done(qp, IBV_WC_SUCCESS);
            continue;
        }
        if (fl_psn_diff(psn, wqe->first_psn) < 0)
            break;
        if (fl_roce_is_rd(wqe)) {
            whole = false;
            break;
        }
        uint32_t end = fl_psn_add(wqe->first_psn, wqe->nr_psn);
        if (fl_psn_diff(psn, end) >= (FAULT(1) ? -2 : -1)) {
            fl_roce_progress(qp, end, now);
            fl_roce_send_done(qp, IBV_WC_SUCCESS);
            continue;
        }
        if (fl_psn_diff(fl_psn_add(psn, 1), req->psn_una) > 0)
            fl_roce_progress(qp, fl_psn_add(psn, 1), now);
        break;
    }
    follow(qp);
    return whole;
}

enum fl_roce_nak fl_roce_nak(struct fl_roce_qp *qp, uint8_t syndrome, enum ibv_wc_status *status)
{
    static const uint8_t failures[] = {
        [FL_IB_NAK_REQUEST] = IBV_WC_REM_INV_REQ_ERR,
        [FL_IB_NAK_ACCESS] = IBV_WC_REM_ACCESS_ERR,
        [FL_IB_NAK_OPERATIONAL] = IBV_WC_REM_OP_ERR,
        [FL_IB_NAK_RD_REQUEST] = IBV_WC_REM_INV_RD_REQ_ERR,
    };
    uint8_t value = fl_aeth_value(syndrome);
    if (fl_aeth_kind(syndrome) == FL_AETH_RNR) {
        qp->stats.nr_rnr_rx++;
        *status = IBV_WC_RNR_RETRY_EXC_ERR;
        return FL_ROCE_NAK_LATER;
    }
    if (fl_aeth_kind(syndrome) != FL_AETH_NAK || value > FL_IB_NAK_RD_REQUEST) {
        qp->stats.nr_stale++;
        return FL_ROCE_NAK_NONE;
    }
    qp->stats.nr_nak_rx[value]++;
    if (value == FL_IB_NAK_SEQUENCE)
        return FL_ROCE_NAK_GAP;
    *status = failures[value];
    return FL_ROCE_NAK_FATAL;
}

bool fl_roce_wait_rnr(struct fl_roce_qp *qp, uint8_t code, uint64_t now)
{
    struct fl_roce_requester *req = &qp->req;
    if (qp->attr.rnr_retry != FL_ROCE_RNR_RETRY_FOREVER && !req->rnr_left--)
        return false;
    req->rnr_at = now + fl_ib_rnr_us(code) * 1000ull;
    req->timeout_at = FL_ROCE_NEVER;
    return true;
}

static void take_ack(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now)
{
    struct fl_roce_requester *req = &qp->req;
    uint8_t syndrome = fl_ib_aeth(packet)->syndrome;
    if (fl_aeth_kind(syndrome) == FL_AETH_ACK) {
        if (!ack_through(qp, packet->psn, now))
            go_back(qp, now);
        return;
    }
    enum ibv_wc_status status;
    enum fl_roce_nak nak = fl_roce_nak(qp, syndrome, &status);
    if (nak == FL_ROCE_NAK_NONE)
        return;
    /* A NAK acknowledges everything before its PSN. */
    if (!ack_through(qp, fl_psn_add(packet->psn, UINT32_MAX), now) && req->psn_una != packet->psn) {
        go_back(qp, now);
        return;
    }
    if (qp->state == IBV_QPS_ERR || req->psn_una != packet->psn)
        return;
    if (nak == FL_ROCE_NAK_GAP) {
        go_back(qp, now);
        return;
    }
    if (nak == FL_ROCE_NAK_LATER && req->rnr_at != FL_ROCE_NEVER) /* the same once more */
        return;
    if (nak == FL_ROCE_NAK_LATER && fl_roce_wait_rnr(qp, fl_aeth_value(syndrome), now))
        rewind_to_una(qp);
    else
        fl_roce_fail_head(qp, status);
}

/* The READ or atomic at head that this response is for, all before it being acknowledged; NULL: dealt with.
 */
static struct fl_roce_swqe *answered(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now)
{
    struct fl_roce_requester *req = &qp->req;
    if (!ack_through(qp, fl_psn_add(packet->psn, UINT32_MAX), now)) {
        struct fl_roce_swqe *head = fl_roce_swqe_at(qp, req->head);
        uint32_t expected = fl_psn_add(head->first_psn, head->nr_done);
        if (fl_psn_diff(packet->psn, head->first_psn) >= (int32_t)head->nr_psn ||
            (expected != packet->psn && !FAULT(7))) {
            if (fl_psn_diff(packet->psn, expected) > 0)
                go_back(qp, now);
            else
                qp->stats.nr_stale++;
            return NULL;
        }
        return head;
    }
    if (qp->state == IBV_QPS_ERR || req->head == req->tail)
        return NULL;
    struct fl_roce_swqe *head = fl_roce_swqe_at(qp, req->head);
    if (!head->started)
        return NULL;
    if (!fl_roce_is_rd(head) || head->first_psn != packet->psn) {
        fl_roce_fail_head(qp, IBV_WC_BAD_RESP_ERR); /* data for something that asked for none */
        return NULL;
    }
    return head;
}

static void finish(struct fl_roce_qp *qp, struct fl_roce_swqe *wqe, uint64_t now)
{
    fl_roce_progress(qp, fl_psn_add(wqe->first_psn, wqe->nr_psn), now);
    fl_roce_send_done(qp, IBV_WC_SUCCESS);
    follow(qp);
}

static void take_read(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now)
{
    struct fl_roce_swqe *wqe = answered(qp, packet, now);
    if (!wqe)
        return;
    bool last = wqe->nr_done + 1 == wqe->nr_psn;
    uint32_t offset = wqe->nr_done * qp->mtu, want = last ? wqe->len - offset : qp->mtu;
    bool ends = wqe->nr_done + 1 == fl_roce_piece_end(qp, wqe, wqe->nr_done);
    /* Whether it is called first or middle depends on the request that it answers, which may be an older one.
     */
    if (wqe->wr.opcode != IBV_WR_RDMA_READ || !(packet->op->attr & FL_IB_ENDS) != !ends ||
        packet->payload_len != want) {
        fl_roce_fail_head(qp, IBV_WC_BAD_RESP_ERR);
        return;
    }
    if (fl_roce_place(qp, wqe, offset, packet->payload, want)) {
        fl_roce_fail_head(qp, IBV_WC_LOC_PROT_ERR);
        return;
    }
    wqe->nr_done++;
    if (last) {
        finish(qp, wqe, now);
        return;
    }
    fl_roce_piece_done(qp, wqe, wqe->nr_done);
    fl_roce_progress(qp, fl_psn_add(wqe->first_psn, wqe->nr_done), now);
    follow(qp);
}

static void take_atomic(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now)
{
    struct fl_roce_swqe *wqe = answered(qp, packet, now);
    if (!wqe)
        return;
    if (!fl_roce_is_atomic(wqe)) {
        fl_roce_fail_head(qp, IBV_WC_BAD_RESP_ERR);
        return;
    }
    uint64_t original = be64_get(
        fl_ib_atomic_ack(packet)->original); /* the program's own byte order from here */
    if (fl_roce_scatter(qp, wqe->sge, wqe->nr_sge, 0, &original, sizeof(original))) {
        fl_roce_fail_head(qp, IBV_WC_LOC_PROT_ERR);
        return;
    }
    finish(qp, wqe, now);
}

void fl_roce_response(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now)
{
    struct fl_roce_requester *req = &qp->req;
    if (qp->state != IBV_QPS_RTS && qp->state != IBV_QPS_SQD) {
        qp->stats.nr_dropped++;
        return;
    }
    if (fl_roce_selective_on(qp)) {
        fl_roce_selective_response(qp, packet, now);
        return;
    }
    /* Only what has been sent and not been acknowledged can be answered. */
    if (fl_psn_diff(packet->psn, req->psn_una) < 0 || fl_psn_diff(packet->psn, req->psn_max) >= 0) {
        qp->stats.nr_stale++;
        return;
    }
    if (packet->op->attr & FL_IB_READ)
        take_read(qp, packet, now);
    else if (packet->op->attr & FL_IB_ATOMIC)
        take_atomic(qp, packet, now);
    else
        take_ack(qp, packet, now);
}

void fl_roce_requester_tick(struct fl_roce_qp *qp, uint64_t now)
{
    struct fl_roce_requester *req = &qp->req;
    if (now >= req->rnr_at) {
        req->rnr_at = FL_ROCE_NEVER;
        if (qp->timeout_ns && !FAULT(4))
            req->timeout_at = now + qp->timeout_ns;
    }
    if (fl_roce_selective_on(qp))
        fl_roce_selective_tick(qp, now);
    if (now < req->timeout_at)
        return;
    req->timeout_at = FL_ROCE_NEVER;
    if (req->psn_una == req->psn_max)
        return;
    qp->stats.nr_timeouts++;
    fl_roce_window_gone_back(qp);
    if (!req->retry_left) {
        fl_roce_fail_head(qp, IBV_WC_RETRY_EXC_ERR);
        return;
    }
    if (!FAULT(5))
        req->retry_left--;
    req->retrying = false;
    req->timeout_at = now + qp->timeout_ns;
    if (fl_roce_selective_on(qp))
        fl_roce_selective_go_back(qp, now);
    else
        rewind_to_una(qp);
}
