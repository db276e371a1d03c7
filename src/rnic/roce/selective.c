/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sending side of selective retransmission, between two farlane peers that agreed on it: only what is
 * missing is sent, or asked for, again.
 *
 * What was sent first on a path is lost once three more have arrived on the same path: others overtake nobody
 * there. What is sent again goes out in rounds, each on one path, closed by a probe on that path; the answer
 * to the probe judges the round. Where nothing comes back at all, a probe goes out after about two round
 * trips, and its answer judges everything.
 */
#include <assert.h>
#include <string.h>

#include "rnic/roce/track.h"

#define REORDER 3 /* packets of one path that may overtake another */
#define VAIN    4 /* rounds: in as many one packet is hardly ever lost by chance */

/* All requests before `upto` have been executed. */
static void hear(struct fl_roce_qp *qp, uint32_t upto, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    if (sel->timed && fl_psn_diff(upto, sel->timed_psn) > 0) {
        sel->timed = false;
        fl_roce_selective_rtt(sel, now - sel->timed_at);
    }
    while (fl_psn_diff(upto, sel->psn_heard) > 0) {
        struct fl_roce_swqe *wqe = fl_track_find(qp, sel->psn_heard);
        bool rd = fl_roce_is_rd(wqe);
        uint32_t i = fl_psn_add(sel->psn_heard, -wqe->first_psn);
        uint32_t end = fl_psn_add(wqe->first_psn, rd ? fl_roce_piece_end(qp, wqe, i) : wqe->nr_psn);
        if (fl_psn_diff(end, upto) > 0)
            end = upto;
        assert(fl_psn_diff(end, sel->psn_heard) > 0); /* whatever the peer says: upto was sent */
        if (rd)
            fl_track_heard(qp, fl_track_asked_at(qp, wqe, sel->psn_heard));
        else
            for (uint32_t psn = sel->psn_heard; psn != end; psn = fl_psn_add(psn, 1))
                fl_track_seen(qp, psn);
        sel->psn_heard = end;
    }
}

/* Behind it, on its path, three have arrived. */
static bool may_be_lost(struct fl_roce_qp *qp, uint32_t psn, bool of_read)
{
    struct fl_roce_selective *sel = qp->sel;
    if (fl_bit(sel->seen, psn) || fl_bit(sel->lost, psn) || fl_track_in_round(sel, psn))
        return false;
    struct fl_roce_swqe *wqe = fl_track_find(qp, psn);
    if (of_read)
        return wqe->wr.opcode == IBV_WR_RDMA_READ && fl_track_is_heard(qp, wqe, psn);
    return !fl_roce_is_rd(wqe) ||
           (psn == fl_track_asked_at(qp, wqe, psn) && !fl_track_is_heard(qp, wqe, psn));
}

/* The newest on its path that has arrived: psn, sent once. */
static void raise(struct fl_roce_qp *qp, uint32_t psn, bool of_read)
{
    struct fl_roce_selective *sel = qp->sel;
    uint32_t step = qp->attr.nr_paths, path = fl_roce_path_of(qp, psn);
    uint32_t *high = of_read ? &sel->high_read[path] : &sel->high[path];
    uint32_t una = qp->req.psn_una, first = fl_psn_add(una, (psn - una) & (step - 1));
    if (!fl_track_has(qp, *high)) /* from so long ago that PSNs may have come round since */
        *high = fl_psn_add(first, -step);
    if (fl_psn_diff(psn, *high) <= 0)
        return;
    uint32_t from = fl_psn_add(*high, step - REORDER * step), end = fl_psn_add(psn, -REORDER * step);
    *high = psn;
    if (fl_psn_diff(from, first) < 0)
        from = first;
    for (; fl_psn_diff(end, from) >= 0; from = fl_psn_add(from, step))
        if (may_be_lost(qp, from, of_read)) {
            fl_track_lost(qp, from);
            fl_roce_window_missed(qp);
        }
}

/* One bit of a SACK: the packet lies at the peer. */
static void take_bit(struct fl_roce_qp *qp, uint32_t psn, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    if (!fl_track_unheard(qp, psn))
        return;
    struct fl_roce_swqe *wqe = fl_track_find(qp, psn);
    bool once = !fl_track_in_round(sel, psn);
    if (!fl_roce_is_rd(wqe))
        fl_track_seen(qp, psn);
    else if (psn == fl_track_asked_at(qp, wqe, psn) && !fl_track_is_heard(qp, wqe, psn))
        fl_track_heard(qp, psn);
    else
        return;
    if (sel->timed && psn == sel->timed_psn) {
        sel->timed = false;
        fl_roce_selective_rtt(sel, now - sel->timed_at);
    }
    if (once)
        raise(qp, psn, false);
}

/* Not there when the probe came. A READ request is missing while it was not heard, and its answers when they
 * have been sent. */
static bool is_missing(struct fl_roce_qp *qp, uint32_t psn, uint32_t answered)
{
    struct fl_roce_swqe *wqe = fl_track_find(qp, psn);
    if (!fl_roce_is_rd(wqe))
        return true;
    if (!fl_track_is_heard(qp, wqe, psn))
        return psn == fl_track_asked_at(qp, wqe, psn);
    return fl_psn_diff(psn, answered) < 0;
}

/* The peer has answered the probe: what went before it and is not there is lost. */
static void judge_round(struct fl_roce_qp *qp, uint32_t upto, uint32_t answered, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    uint32_t una = qp->req.psn_una, nr = fl_track_nr(qp);
    /* An answer that the peer leaves out (its memory was closed) is missing each time that it is asked for:
     * the clock then asks, ever more rarely, and not each round trip. */
    const bool in_vain = sel->nr_vain >= VAIN && !sel->by_clock;
    bool any = false;
    sel->probing = false;
    fl_roce_selective_rtt(sel, now - sel->probe_at);
    for (uint32_t i = 0; sel->nr_closed && (i += fl_bits_next(sel->closed, una + i, nr - i)) < nr; i++) {
        uint32_t psn = fl_psn_add(una, i);
        fl_track_leave_rounds(sel, psn);
        if (fl_bit(sel->seen, psn) || !is_missing(qp, psn, answered))
            continue;
        any = true;
        if (in_vain)
            continue;
        fl_track_lost(qp, psn);
        fl_roce_window_missed(qp);
    }
    sel->nr_vain += any;
    /* It comes next, and the peer has told before that it lies there: it waits for a receive (RNR). */
    if (fl_track_unheard(qp, upto) && fl_bit(sel->seen, upto) && !fl_roce_is_rd(fl_track_find(qp, upto))) {
        fl_bit_clear(sel->seen, upto);
        sel->nr_out++;
        fl_track_lost(qp, upto);
    }
}

static void take_sack(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    struct fl_sack head;
    if (packet->payload_len < sizeof(head)) {
        qp->stats.nr_stale++;
        return;
    }
    memcpy(&head, packet->payload, sizeof(head));
    uint32_t upto = fl_psn_add(packet->psn, 1), nr = (packet->payload_len - sizeof(head)) / sizeof(be32);
    for (uint32_t i = 0; i < nr && i < FL_ROCE_SPAN / 32; i++) {
        be32 bits;
        memcpy(&bits, packet->payload + sizeof(head) + i * sizeof(bits), sizeof(bits));
        uint32_t psn = fl_psn_add(upto, 32 * i), word = be32_get(bits);
        if (fl_track_has(qp, psn))
            word &= ~fl_bits_32(sel->seen, psn);
        for (; word; word &= word - 1)
            take_bit(qp, fl_psn_add(psn, (uint32_t)__builtin_ctz(word)), now);
    }
    if (sel->probing && be32_get(head.echo) == sel->probe)
        judge_round(qp, upto, be24_get(head.answered), now);
}

/* Moves psn_una, and completes what lies behind it. */
static void advance(struct fl_roce_qp *qp, uint64_t now)
{
    struct fl_roce_requester *req = &qp->req;
    struct fl_roce_selective *sel = qp->sel;
    uint32_t was = req->psn_una;
    for (;;) {
        fl_roce_retire(qp);
        if (qp->state == IBV_QPS_ERR || req->head == req->tail || req->psn_una == req->psn_max)
            break;
        struct fl_roce_swqe *wqe = fl_roce_swqe_at(qp, req->head);
        bool rd = fl_roce_is_rd(wqe);
        uint32_t end = fl_psn_add(wqe->first_psn, wqe->nr_psn), psn = req->psn_una;
        while (psn != end && ((rd && !FAULT(14)) || FAULT(12) ? fl_bit(sel->seen, psn)
                                                              : fl_psn_diff(sel->psn_heard, psn) > 0)) {
            fl_bit_clear(sel->seen, psn);
            fl_bit_clear(sel->heard, psn);
            psn = fl_psn_add(psn, 1);
            if (rd && psn != end)
                fl_roce_piece_done(qp, wqe, fl_psn_add(psn, -wqe->first_psn));
        }
        req->psn_una = psn;
        if (psn != end)
            break;
        fl_roce_send_done(qp, IBV_WC_SUCCESS);
    }
    if (qp->state == IBV_QPS_ERR)
        return;
    if (sel->doomed && req->psn_una == sel->doom_psn && req->head != req->tail) {
        fl_roce_fail_head(qp, (enum ibv_wc_status)sel->doom_status);
        return;
    }
    if (req->psn_una == was)
        return;
    uint64_t rnr_at = req->rnr_at;
    fl_roce_window_moved(qp, (uint32_t)fl_psn_diff(req->psn_una, was));
    fl_roce_progress(qp, req->psn_una, now);
    if (rnr_at != FL_ROCE_NEVER && fl_psn_diff(sel->psn_heard, sel->rnr_psn) <= 0) {
        req->rnr_at = rnr_at; /* what moved were answers to earlier requests */
        req->timeout_at = FL_ROCE_NEVER;
    }
    sel->nr_ptos = sel->nr_vain = 0;
    fl_roce_selective_rearm(qp, now);
}

/* The peer refuses the request at this PSN, or wants it later. What came before it may still be on its way.
 */
static void take_nak(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    uint8_t syndrome = fl_ib_aeth(packet)->syndrome;
    enum ibv_wc_status status;
    enum fl_roce_nak nak = fl_roce_nak(qp, syndrome, &status);
    if (nak == FL_ROCE_NAK_NONE || nak == FL_ROCE_NAK_GAP || !fl_track_unheard(qp, packet->psn))
        return; /* or an old one: the request has been executed since */
    bool later = nak == FL_ROCE_NAK_LATER;
    if (later && (qp->req.rnr_at != FL_ROCE_NEVER || fl_roce_is_rd(fl_track_find(qp, packet->psn))))
        return;
    if (!later || !fl_roce_wait_rnr(qp, fl_aeth_value(syndrome), now)) {
        sel->doomed = true;
        sel->doom_psn = packet->psn;
        sel->doom_status = (uint8_t)status;
        return;
    }
    sel->rnr_psn = packet->psn;
    if (fl_bit(sel->seen, packet->psn)) {
        fl_bit_clear(sel->seen, packet->psn);
        sel->nr_out++;
    }
    fl_track_leave_rounds(sel, packet->psn);
    fl_track_lost(qp, packet->psn);
    sel->pto_at = FL_ROCE_NEVER;
}

static void take_read(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_selective *sel = qp->sel;
    uint32_t psn = packet->psn;
    struct fl_roce_swqe *wqe = fl_track_has(qp, psn) ? fl_track_find(qp, psn) : NULL;
    if (!wqe || fl_bit(sel->seen, psn)) {
        qp->stats.nr_stale++; /* the same once more, or too far ahead */
        return;
    }
    uint32_t i = fl_psn_add(psn, -wqe->first_psn), offset = (FAULT(13) && i ? i - 1 : i) * qp->mtu;
    uint32_t want = i + 1 == wqe->nr_psn ? wqe->len - offset : qp->mtu;
    if (wqe->wr.opcode != IBV_WR_RDMA_READ || packet->payload_len != want) {
        wqe->status = IBV_WC_BAD_RESP_ERR;
        return;
    }
    if (fl_roce_place(qp, wqe, offset, packet->payload, want)) {
        wqe->status = IBV_WC_LOC_PROT_ERR;
        return;
    }
    bool once = !fl_track_in_round(sel, psn);
    if (fl_psn_diff(psn, qp->req.psn_una) > 0)
        qp->stats.nr_out_of_order++;
    fl_track_seen(qp, psn);
    if (once)
        raise(qp, psn, true);
}

static void take_atomic(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_selective *sel = qp->sel;
    struct fl_roce_swqe *wqe = fl_track_has(qp, packet->psn) ? fl_track_find(qp, packet->psn) : NULL;
    if (!wqe || fl_bit(sel->seen, packet->psn)) {
        qp->stats.nr_stale++;
        return;
    }
    uint64_t original = be64_get(fl_ib_atomic_ack(packet)->original);
    if (!fl_roce_is_atomic(wqe))
        wqe->status = IBV_WC_BAD_RESP_ERR;
    else if (fl_roce_scatter(qp, wqe->sge, wqe->nr_sge, 0, &original, sizeof(original)))
        wqe->status = IBV_WC_LOC_PROT_ERR;
    else
        fl_track_seen(qp, packet->psn);
}

void fl_roce_selective_response(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now)
{
    struct fl_roce_requester *req = &qp->req;
    uint32_t psn = packet->psn, attr = packet->op->attr;
    bool data = attr & (FL_IB_READ | FL_IB_ATOMIC);
    /* What the peer says about the PSN before the oldest is an old ACK, with bits that may be news. */
    int32_t from = data ? 0 : -1, at = fl_psn_diff(psn, req->psn_una);
    if (req->head == req->tail || at < from || fl_psn_diff(psn, req->psn_max) >= 0) {
        qp->stats.nr_stale++;
        return;
    }
    enum fl_aeth_kind kind = data ? FL_AETH_ACK : fl_aeth_kind(fl_ib_aeth(packet)->syndrome);
    if (data) {
        struct fl_roce_swqe *wqe = fl_track_find(qp, psn); /* executed, and so all before it */
        uint32_t i = fl_psn_add(psn, -wqe->first_psn);
        if (fl_roce_is_rd(wqe))
            hear(qp, fl_psn_add(wqe->first_psn, fl_roce_piece_end(qp, wqe, i)), now);
    } else if (kind == FL_AETH_ACK) {
        hear(qp, fl_psn_add(psn, 1), now);
    } else if (at > 0) {
        hear(qp, psn, now);
    }
    if (attr & FL_IB_READ)
        take_read(qp, packet);
    else if (attr & FL_IB_ATOMIC)
        take_atomic(qp, packet);
    else if (packet->bth->opcode == FL_IB_OPCODE_SACK)
        take_sack(qp, packet, now);
    else if (kind != FL_AETH_ACK)
        take_nak(qp, packet, now);
    advance(qp, now);
}
