/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/roce/track.h"

/* The request that a PSN on its way belongs to. Requests lie in the order of their PSNs; local operations
 * take none, and stand before the request that has theirs. */
struct fl_roce_swqe *fl_track_find(struct fl_roce_qp *qp, uint32_t psn)
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

void fl_track_lost(struct fl_roce_qp *qp, uint32_t psn)
{
    struct fl_roce_selective *sel = qp->sel;
    if (fl_bit(sel->lost, psn))
        return;
    fl_bit_set(sel->lost, psn);
    sel->nr_lost++;
    sel->nr_out--;
    qp->stats.nr_lost++;
}

void fl_track_found(struct fl_roce_selective *sel, uint32_t psn)
{
    if (!fl_bit(sel->lost, psn))
        return;
    fl_bit_clear(sel->lost, psn);
    sel->nr_lost--;
    sel->nr_out++;
}

void fl_track_leave_rounds(struct fl_roce_selective *sel, uint32_t psn)
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

void fl_track_seen(struct fl_roce_qp *qp, uint32_t psn)
{
    struct fl_roce_selective *sel = qp->sel;
    if (fl_bit(sel->seen, psn))
        return;
    if (sel->nr_lost)
        fl_track_found(sel, psn);
    fl_bit_set(sel->seen, psn);
    sel->nr_out--;
    fl_track_leave_rounds(sel, psn);
}

uint32_t fl_track_asked_at(const struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe, uint32_t psn)
{
    uint32_t i = fl_psn_add(psn, -wqe->first_psn);
    return fl_psn_add(wqe->first_psn, i - i % qp->read_piece);
}

bool fl_track_is_heard(const struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe, uint32_t psn)
{
    uint32_t at = fl_track_asked_at(qp, wqe, psn);
    return !fl_track_unheard(qp, at) || fl_bit(qp->sel->heard, at);
}

void fl_track_heard(struct fl_roce_qp *qp, uint32_t at)
{
    if (!fl_track_has(qp, at) || fl_bit(qp->sel->heard, at))
        return;
    fl_bit_set(qp->sel->heard, at);
    fl_track_found(qp->sel, at);
    fl_track_leave_rounds(qp->sel, at);
}
