/* SPDX-License-Identifier: Apache-2.0 */
/* The sending side of selective retransmission: what is sent again, in rounds that a probe closes, and the
 * clock. */
#include <string.h>

#include "rnic/roce/track.h"

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
    sel->nr_ptos = sel->nr_vain = 0;
    sel->by_clock = false;
    sel->srtt = sel->rttvar = 0;
    sel->pto_at = FL_ROCE_NEVER;
}

bool fl_roce_selective_open(const struct fl_roce_qp *qp)
{
    return qp->sel->nr_out < qp->req.window && fl_psn_diff(qp->req.psn_next, qp->req.psn_una) < FL_ROCE_SPAN;
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

void fl_roce_selective_rearm(struct fl_roce_qp *qp, uint64_t now)
{
    bool waits = qp->req.psn_una != qp->req.psn_max && qp->req.rnr_at == FL_ROCE_NEVER;
    qp->sel->pto_at = waits ? now + pto(qp) : FL_ROCE_NEVER;
}

/* A round trip took that long (the smoothing is that of RFC 6298). */
void fl_roce_selective_rtt(struct fl_roce_selective *sel, uint64_t ns)
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
    if (sel->timed || (sel->srtt && fl_roce_is_rd(fl_track_find(qp, psn))))
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

static void put_probe(struct fl_roce_qp *qp, uint64_t now, struct fl_roce_tx *tx)
{
    struct fl_roce_selective *sel = qp->sel;
    for (int i = 0; i < FL_ROCE_SPAN_WORDS; i++)
        sel->closed[i] |= sel->fresh[i];
    memset(sel->fresh, 0, sizeof(sel->fresh));
    sel->nr_closed += sel->nr_fresh;
    sel->nr_fresh = 0;
    sel->by_clock = sel->probe_due;
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
    uint32_t span = fl_track_nr(qp), i = fl_bits_next(sel->lost, qp->req.psn_una, span), nr = 1, ask = 1;
    uint32_t psn = fl_psn_add(qp->req.psn_una, i);
    struct fl_roce_swqe *wqe = fl_track_find(qp, psn);
    if (wqe->wr.opcode == IBV_WR_RDMA_READ) {
        uint32_t at = fl_psn_add(psn, -wqe->first_psn), left = fl_roce_piece_end(qp, wqe, at) - at;
        bool heard = fl_track_is_heard(qp, wqe, psn);
        while (heard && nr < left && i + nr < span && fl_bit(sel->lost, psn + nr))
            nr++;
        ask = heard ? nr : left;
    }
    for (uint32_t k = 0; k < nr; k++) {
        fl_track_found(sel, psn + k);
        if (!fl_track_in_round(sel, psn + k)) {
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
        fl_roce_selective_rearm(qp, now);
}

/* All that is on its way and has not been seen goes into the round that the next probe closes. */
void fl_roce_selective_tick(struct fl_roce_qp *qp, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    if (now < sel->pto_at)
        return;
    sel->nr_ptos++;
    for (uint32_t i = 0, nr = fl_track_nr(qp); i < nr; i++) {
        uint32_t psn = fl_psn_add(qp->req.psn_una, i);
        if (fl_bit(sel->seen, psn) || fl_bit(sel->lost, psn) || fl_track_in_round(sel, psn))
            continue;
        fl_bit_set(sel->closed, psn);
        sel->nr_closed++;
    }
    sel->probe_due = true;
    fl_roce_selective_rearm(qp, now);
}

/* The time-out: whatever the peer has not executed, also what it said it had. */
void fl_roce_selective_go_back(struct fl_roce_qp *qp, uint64_t now)
{
    struct fl_roce_selective *sel = qp->sel;
    for (uint32_t i = 0, nr = fl_track_nr(qp); i < nr; i++) {
        uint32_t psn = fl_psn_add(qp->req.psn_una, i);
        const struct fl_roce_swqe *wqe = fl_track_find(qp, psn);
        bool rd = fl_roce_is_rd(wqe);
        fl_track_leave_rounds(sel, psn);
        if (rd && (fl_bit(sel->seen, psn) ||
                   (!fl_track_is_heard(qp, wqe, psn) && psn != fl_track_asked_at(qp, wqe, psn))))
            continue;
        if (fl_bit(sel->seen, psn)) {
            if (fl_psn_diff(sel->psn_heard, psn) > 0)
                continue; /* executed, behind answers that are missing */
            fl_bit_clear(sel->seen, psn);
            sel->nr_out++;
        }
        fl_track_lost(qp, psn);
    }
    sel->probing = sel->timed = false;
    sel->turn++;
    fl_roce_selective_rearm(qp, now);
}
