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
#include <string.h>

#include "rnic/roce/bits.h"
#include "rnic/roce/parts.h"

#define REORDER     3 /* packets of one path that may overtake another */
#define PTO_MIN     100000ull
#define PTO_DEFAULT 10000000ull /* no round trip was seen, and no time-out given */

void fl_roce_selective_reset(struct fl_roce_qp *qp)
{
    struct fl_roce_selective *sel = qp->sel;
    if (!sel)
        return;
    memset(sel->seen, 0, sizeof(sel->seen));
    memset(sel->lost, 0, sizeof(sel->lost));
    memset(sel->fresh, 0, sizeof(sel->fresh));
    memset(sel->closed, 0, sizeof(sel->closed));
    memset(sel->heard, 0, sizeof(sel->heard));
    sel->psn_heard = qp->attr.sq_psn;
    for (int i = 0; i < FL_ROCE_PATHS_MAX; i++)
        sel->high[i] = sel->high_read[i] = fl_psn_add(qp->attr.sq_psn, UINT32_MAX);
    sel->nr_out = sel->nr_lost = sel->nr_fresh = sel->nr_closed = 0;
    sel->probing = sel->probe_due = sel->timed = sel->doomed = false;
    sel->nr_ptos = 0;
    sel->srtt = sel->rttvar = 0;
    sel->pto_at = FL_ROCE_NEVER;
}

bool fl_roce_selective_open(const struct fl_roce_qp *qp)
{
    return qp->sel->nr_out < qp->req.window && fl_psn_diff(qp->req.psn_next, qp->req.psn_una) < FL_ROCE_SPAN;
}

/* Of psn_una on, as far as there are bits for it */
static uint32_t nr_tracked(const struct fl_roce_qp *qp)
{
    uint32_t nr = (uint32_t)fl_psn_diff(qp->req.psn_max, qp->req.psn_una);
    return nr < FL_ROCE_SPAN ? nr : FL_ROCE_SPAN;
}

static bool is_tracked(const struct fl_roce_qp *qp, uint32_t psn)
{
    return fl_psn_add(psn, -qp->req.psn_una) < nr_tracked(qp);
}

/* On its way, and not known to have been executed */
static bool is_unheard(const struct fl_roce_qp *qp, uint32_t psn)
{
    return is_tracked(qp, psn) && fl_psn_diff(psn, qp->sel->psn_heard) >= 0;
}

/* The request that a PSN on its way belongs to. Requests lie in the order of their PSNs; local operations
 * take none, and stand before the request that has theirs. */
static struct fl_roce_swqe *find(struct fl_roce_qp *qp, uint32_t psn)
{
    struct fl_roce_requester *req = &qp->req;
    uint32_t low = req->head, high = req->cur; /* at high: begun, or not yet */
    if (high == req->tail || !fl_roce_swqe_at(qp, high)->started)
        high--;
    /* Mostly it is the one that was found before, or that after it. */
    for (uint32_t i = qp->sel->found, n = 0; n < 2 && i - low <= high - low; i++, n++) {
        struct fl_roce_swqe *wqe = fl_roce_swqe_at(qp, i);
        if (fl_psn_add(psn, -wqe->first_psn) < wqe->nr_psn) {
            qp->sel->found = i;
            return wqe;
        }
    }
    while ((int32_t)(high - low) > 0) {
        uint32_t middle = low + (high - low + 1) / 2;
        if (fl_psn_diff(fl_roce_swqe_at(qp, middle)->first_psn, psn) <= 0)
            low = middle;
        else
            high = middle - 1;
    }
    qp->sel->found = low;
    return fl_roce_swqe_at(qp, low);
}

static uint64_t pto(const struct fl_roce_qp *qp)
{
    const struct fl_roce_selective *sel = qp->sel;
    uint64_t most = qp->timeout_ns ? qp->timeout_ns / 4 : PTO_DEFAULT;
    uint64_t ns = sel->srtt ? 2 * sel->srtt + 4 * sel->rttvar : most / 2;
    if (ns < PTO_MIN)
        ns = PTO_MIN;
    ns <<= sel->nr_ptos < 8 ? sel->nr_ptos : 8;
    return ns < most ? ns : most;
}

static void arm(struct fl_roce_qp *qp, uint64_t now)
{
    bool waits = qp->req.psn_una != qp->req.psn_max && qp->req.rnr_at == FL_ROCE_NEVER;
    qp->sel->pto_at = waits ? now + pto(qp) : FL_ROCE_NEVER;
}

/* A round trip took that long (the smoothing is that of RFC 6298). */
static void sample(struct fl_roce_selective *sel, uint64_t ns)
{
    if (!sel->srtt) {
        sel->srtt = ns ? ns : 1;
        sel->rttvar = ns / 2;
        return;
    }
    uint64_t off = ns > sel->srtt ? ns - sel->srtt : sel->srtt - ns;
    sel->rttvar += off / 4 - sel->rttvar / 4;
    sel->srtt += ns / 8 - sel->srtt / 8;
}

void fl_roce_selective_timed(struct fl_roce_qp *qp, uint32_t psn, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    if (sel->timed || (sel->srtt && fl_roce_is_rd(find(qp, psn))))
        return; /* the answers to a READ may wait behind others */
    sel->timed = true;
    sel->timed_psn = psn;
    sel->timed_at = now;
}

uint32_t fl_roce_selective_sent(struct fl_roce_qp *qp, uint32_t psn, uint32_t nr, struct fl_roce_tx *tx)
{
    tx->path = fl_roce_path_of(qp, psn);
    return qp->sel->nr_out += nr;
}

static void mark_lost(struct fl_roce_qp *qp, uint32_t psn)
{
    struct fl_roce_selective *sel = qp->sel;
    if (fl_bit(sel->lost, psn))
        return;
    fl_bit_set(sel->lost, psn);
    sel->nr_lost++;
    sel->nr_out--;
    qp->stats.nr_lost++;
    fl_roce_window_missed(qp);
}

static void unmark_lost(struct fl_roce_selective *sel, uint32_t psn)
{
    if (!fl_bit(sel->lost, psn))
        return;
    fl_bit_clear(sel->lost, psn);
    sel->nr_lost--;
    sel->nr_out++;
}

/* It is neither in the open round nor in the one that is being judged. */
static void leave_rounds(struct fl_roce_selective *sel, uint32_t psn)
{
    if (sel->nr_fresh && fl_bit(sel->fresh, psn)) {
        fl_bit_clear(sel->fresh, psn);
        sel->nr_fresh--;
    }
    if (sel->nr_closed && fl_bit(sel->closed, psn)) {
        fl_bit_clear(sel->closed, psn);
        sel->nr_closed--;
    }
}

static bool in_round(const struct fl_roce_selective *sel, uint32_t psn)
{
    return fl_bit(sel->fresh, psn) || fl_bit(sel->closed, psn);
}

/* Arrived: this packet of ours, or this answer. */
static void mark_seen(struct fl_roce_qp *qp, uint32_t psn)
{
    struct fl_roce_selective *sel = qp->sel;
    if (fl_bit(sel->seen, psn))
        return;
    if (sel->nr_lost)
        unmark_lost(sel, psn);
    fl_bit_set(sel->seen, psn);
    sel->nr_out--;
    leave_rounds(sel, psn);
}

/* Where the request lies that asked for this answer: of a READ, for its piece */
static uint32_t asked_at(const struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe, uint32_t psn)
{
    uint32_t i = fl_psn_add(psn, -wqe->first_psn);
    return fl_psn_add(wqe->first_psn, i - i % qp->read_piece);
}

/* Is that request known to have arrived? */
static bool is_heard(const struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe, uint32_t psn)
{
    uint32_t at = asked_at(qp, wqe, psn);
    return !is_unheard(qp, at) || fl_bit(qp->sel->heard, at);
}

/* It arrived; the data are on their way. */
static void mark_heard(struct fl_roce_qp *qp, uint32_t at)
{
    if (!is_tracked(qp, at) || fl_bit(qp->sel->heard, at))
        return;
    fl_bit_set(qp->sel->heard, at);
    unmark_lost(qp->sel, at);
    leave_rounds(qp->sel, at);
}

/* All requests before `upto` have been executed. */
static void hear(struct fl_roce_qp *qp, uint32_t upto, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    if (sel->timed && fl_psn_diff(upto, sel->timed_psn) > 0) {
        sel->timed = false;
        sample(sel, now - sel->timed_at);
    }
    while (fl_psn_diff(upto, sel->psn_heard) > 0) {
        struct fl_roce_swqe *wqe = find(qp, sel->psn_heard);
        bool rd = fl_roce_is_rd(wqe);
        uint32_t i = fl_psn_add(sel->psn_heard, -wqe->first_psn);
        uint32_t end = fl_psn_add(wqe->first_psn, rd ? fl_roce_piece_end(qp, wqe, i) : wqe->nr_psn);
        if (fl_psn_diff(end, upto) > 0)
            end = upto;
        if (rd)
            mark_heard(qp, asked_at(qp, wqe, sel->psn_heard));
        else
            for (uint32_t psn = sel->psn_heard; psn != end; psn = fl_psn_add(psn, 1))
                mark_seen(qp, psn);
        sel->psn_heard = end;
    }
}

/* Behind it, on its path, three have arrived. */
static bool may_be_lost(struct fl_roce_qp *qp, uint32_t psn, bool of_read)
{
    struct fl_roce_selective *sel = qp->sel;
    if (fl_bit(sel->seen, psn) || fl_bit(sel->lost, psn) || in_round(sel, psn))
        return false;
    struct fl_roce_swqe *wqe = find(qp, psn);
    if (of_read)
        return wqe->wr.opcode == IBV_WR_RDMA_READ && is_heard(qp, wqe, psn);
    return !fl_roce_is_rd(wqe) || (psn == asked_at(qp, wqe, psn) && !is_heard(qp, wqe, psn));
}

/* The newest on its path that has arrived: psn, sent once. */
static void raise(struct fl_roce_qp *qp, uint32_t psn, bool of_read)
{
    struct fl_roce_selective *sel = qp->sel;
    uint32_t step = qp->attr.nr_paths, path = fl_roce_path_of(qp, psn);
    uint32_t *high = of_read ? &sel->high_read[path] : &sel->high[path];
    uint32_t una = qp->req.psn_una, first = fl_psn_add(una, (psn - una) & (step - 1));
    if (!is_tracked(qp, *high)) /* from so long ago that PSNs may have come round since */
        *high = fl_psn_add(first, -step);
    if (fl_psn_diff(psn, *high) <= 0)
        return;
    uint32_t from = fl_psn_add(*high, step - REORDER * step), end = fl_psn_add(psn, -REORDER * step);
    *high = psn;
    if (fl_psn_diff(from, first) < 0)
        from = first;
    for (; fl_psn_diff(end, from) >= 0; from = fl_psn_add(from, step))
        if (may_be_lost(qp, from, of_read))
            mark_lost(qp, from);
}

/* One bit of a SACK: the packet lies at the peer. */
static void take_bit(struct fl_roce_qp *qp, uint32_t psn, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    if (!is_unheard(qp, psn))
        return;
    struct fl_roce_swqe *wqe = find(qp, psn);
    bool once = !in_round(sel, psn);
    if (!fl_roce_is_rd(wqe))
        mark_seen(qp, psn);
    else if (psn == asked_at(qp, wqe, psn) && !is_heard(qp, wqe, psn))
        mark_heard(qp, psn);
    else
        return;
    if (sel->timed && psn == sel->timed_psn) {
        sel->timed = false;
        sample(sel, now - sel->timed_at);
    }
    if (once)
        raise(qp, psn, false);
}

/* Not there when the probe came. A READ request is missing while it was not heard, and its answers when they
 * have been sent. */
static bool is_missing(struct fl_roce_qp *qp, uint32_t psn, uint32_t answered)
{
    struct fl_roce_swqe *wqe = find(qp, psn);
    if (!fl_roce_is_rd(wqe))
        return true;
    if (!is_heard(qp, wqe, psn))
        return psn == asked_at(qp, wqe, psn);
    return fl_psn_diff(psn, answered) < 0;
}

/* The peer has answered the probe: what went before it and is not there is lost. */
static void judge_round(struct fl_roce_qp *qp, uint32_t upto, uint32_t answered, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    uint32_t una = qp->req.psn_una, nr = nr_tracked(qp);
    sel->probing = false;
    sample(sel, now - sel->probe_at);
    for (uint32_t i = 0; sel->nr_closed && (i += fl_bits_next(sel->closed, una + i, nr - i)) < nr; i++) {
        uint32_t psn = fl_psn_add(una, i);
        leave_rounds(sel, psn);
        if (!fl_bit(sel->seen, psn) && is_missing(qp, psn, answered))
            mark_lost(qp, psn);
    }
    /* It comes next, and the peer has told before that it lies there: it waits for a receive (RNR). */
    if (is_unheard(qp, upto) && fl_bit(sel->seen, upto) && !fl_roce_is_rd(find(qp, upto))) {
        fl_bit_clear(sel->seen, upto);
        sel->nr_out++;
        mark_lost(qp, upto);
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
        if (is_tracked(qp, psn))
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
    sel->nr_ptos = 0;
    arm(qp, now);
}

/* The peer refuses the request at this PSN, or wants it later. What came before it may still be on its way.
 */
static void take_nak(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    uint8_t syndrome = fl_ib_aeth(packet)->syndrome;
    enum ibv_wc_status status;
    enum fl_roce_nak nak = fl_roce_nak(qp, syndrome, &status);
    if (nak == FL_ROCE_NAK_NONE || nak == FL_ROCE_NAK_GAP || !is_unheard(qp, packet->psn))
        return; /* or an old one: the request has been executed since */
    bool later = nak == FL_ROCE_NAK_LATER;
    if (later && (qp->req.rnr_at != FL_ROCE_NEVER || fl_roce_is_rd(find(qp, packet->psn))))
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
    leave_rounds(sel, packet->psn);
    mark_lost(qp, packet->psn);
    sel->pto_at = FL_ROCE_NEVER;
}

static void take_read(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_selective *sel = qp->sel;
    uint32_t psn = packet->psn;
    struct fl_roce_swqe *wqe = is_tracked(qp, psn) ? find(qp, psn) : NULL;
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
    if (fl_roce_scatter(qp, wqe->sge, wqe->nr_sge, offset, packet->payload, want)) {
        wqe->status = IBV_WC_LOC_PROT_ERR;
        return;
    }
    bool once = !in_round(sel, psn);
    if (fl_psn_diff(psn, qp->req.psn_una) > 0)
        qp->stats.nr_out_of_order++;
    mark_seen(qp, psn);
    if (once)
        raise(qp, psn, true);
}

static void take_atomic(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_selective *sel = qp->sel;
    struct fl_roce_swqe *wqe = is_tracked(qp, packet->psn) ? find(qp, packet->psn) : NULL;
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
        mark_seen(qp, packet->psn);
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
        struct fl_roce_swqe *wqe = find(qp, psn); /* executed, and so all before it */
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

static void put_probe(struct fl_roce_qp *qp, uint64_t now, struct fl_roce_tx *tx)
{
    struct fl_roce_selective *sel = qp->sel;
    for (int i = 0; i < FL_ROCE_SPAN_WORDS; i++)
        sel->closed[i] |= sel->fresh[i];
    memset(sel->fresh, 0, sizeof(sel->fresh));
    sel->nr_closed += sel->nr_fresh;
    sel->nr_fresh = 0;
    sel->probe_due = false;
    sel->probing = true;
    sel->probe_at = now;
    sel->probe_serial = be32_of(++sel->probe);
    fl_roce_tx_begin(tx, FL_IB_OPCODE_PROBE, qp, qp->req.psn_max);
    tx->iov[tx->nr_iov++] = (struct iovec){&sel->probe_serial, sizeof(sel->probe_serial)};
    tx->path = fl_roce_path_of(qp, sel->turn++); /* the next round takes another path */
    fl_roce_tx_end(qp, tx, sizeof(sel->probe_serial));
    qp->stats.nr_probes++;
}

static bool put_lost(struct fl_roce_qp *qp, struct fl_roce_tx *tx)
{
    struct fl_roce_selective *sel = qp->sel;
    uint32_t span = nr_tracked(qp), i = fl_bits_next(sel->lost, qp->req.psn_una, span), nr = 1, ask = 1;
    uint32_t psn = fl_psn_add(qp->req.psn_una, i);
    struct fl_roce_swqe *wqe = find(qp, psn);
    if (wqe->wr.opcode == IBV_WR_RDMA_READ) {
        uint32_t at = fl_psn_add(psn, -wqe->first_psn), left = fl_roce_piece_end(qp, wqe, at) - at;
        bool heard = is_heard(qp, wqe, psn);
        while (heard && nr < left && i + nr < span && fl_bit(sel->lost, psn + nr))
            nr++;
        ask = heard ? nr : left;
    }
    for (uint32_t k = 0; k < nr; k++) {
        unmark_lost(sel, psn + k);
        if (!in_round(sel, psn + k)) {
            fl_bit_set(sel->fresh, psn + k);
            sel->nr_fresh++;
        }
    }
    sel->timed = sel->timed && fl_psn_add(sel->timed_psn, -psn) >= nr;
    if (!fl_roce_put_request(qp, wqe, psn, ask, tx))
        return false;
    tx->path = fl_roce_path_of(qp, sel->turn);
    qp->stats.nr_resent++;
    return true;
}

bool fl_roce_selective_next(struct fl_roce_qp *qp, uint64_t now, struct fl_roce_tx *tx)
{
    struct fl_roce_selective *sel = qp->sel;
    if (qp->req.psn_una == qp->req.psn_max)
        return false;
    if (sel->nr_lost)
        return put_lost(qp, tx);
    if (sel->probe_due || (sel->nr_fresh && !sel->probing)) {
        put_probe(qp, now, tx);
        return true;
    }
    return false;
}

void fl_roce_selective_arm(struct fl_roce_qp *qp, uint64_t now)
{
    if (qp->sel->pto_at == FL_ROCE_NEVER)
        arm(qp, now);
}

/* All that is on its way and has not been seen goes into the round that the next probe closes. */
void fl_roce_selective_tick(struct fl_roce_qp *qp, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    if (now < sel->pto_at)
        return;
    sel->nr_ptos++;
    for (uint32_t i = 0, nr = nr_tracked(qp); i < nr; i++) {
        uint32_t psn = fl_psn_add(qp->req.psn_una, i);
        if (fl_bit(sel->seen, psn) || fl_bit(sel->lost, psn) || in_round(sel, psn))
            continue;
        fl_bit_set(sel->closed, psn);
        sel->nr_closed++;
    }
    sel->probe_due = true;
    arm(qp, now);
}

/* The time-out: whatever the peer has not executed, also what it said it had. */
void fl_roce_selective_go_back(struct fl_roce_qp *qp, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    for (uint32_t i = 0, nr = nr_tracked(qp); i < nr; i++) {
        uint32_t psn = fl_psn_add(qp->req.psn_una, i);
        const struct fl_roce_swqe *wqe = find(qp, psn);
        bool rd = fl_roce_is_rd(wqe);
        leave_rounds(sel, psn);
        if (rd && (fl_bit(sel->seen, psn) || (!is_heard(qp, wqe, psn) && psn != asked_at(qp, wqe, psn))))
            continue;
        if (fl_bit(sel->seen, psn)) {
            if (fl_psn_diff(sel->psn_heard, psn) > 0)
                continue; /* executed, behind answers that are missing */
            fl_bit_clear(sel->seen, psn);
            sel->nr_out++;
        }
        mark_lost(qp, psn);
    }
    sel->probing = sel->timed = false;
    sel->turn++;
    arm(qp, now);
}
