/* SPDX-License-Identifier: Apache-2.0 */
/* What is known of each PSN on its way, under selective retransmission: five bits, and the counts that go
 * with them. */
#ifndef FL_RNIC_ROCE_TRACK_H
#define FL_RNIC_ROCE_TRACK_H

#include "rnic/roce/bits.h"
#include "rnic/roce/parts.h"

/* Of psn_una on, as far as there are bits for it */
static inline uint32_t fl_track_nr(const struct fl_roce_qp *qp)
{
    uint32_t nr = (uint32_t)fl_psn_diff(qp->req.psn_max, qp->req.psn_una);
    return nr < FL_ROCE_SPAN ? nr : FL_ROCE_SPAN;
}

static inline bool fl_track_has(const struct fl_roce_qp *qp, uint32_t psn)
{
    return fl_psn_add(psn, -qp->req.psn_una) < fl_track_nr(qp);
}

/* On its way, and not known to have been executed */
static inline bool fl_track_unheard(const struct fl_roce_qp *qp, uint32_t psn)
{
    return fl_track_has(qp, psn) && fl_psn_diff(psn, qp->sel->psn_heard) >= 0;
}

static inline bool fl_track_in_round(const struct fl_roce_selective *sel, uint32_t psn)
{
    return fl_bit(sel->fresh, psn) || fl_bit(sel->closed, psn);
}

/* The request that a PSN on its way belongs to. */
struct fl_roce_swqe *fl_track_find(struct fl_roce_qp *qp, uint32_t psn);
/* It has to be sent, or asked for, again; that was done, or it came after all. */
void fl_track_lost(struct fl_roce_qp *qp, uint32_t psn);
void fl_track_found(struct fl_roce_selective *sel, uint32_t psn);
/* It is neither in the open round nor in the one that is being judged. */
void fl_track_leave_rounds(struct fl_roce_selective *sel, uint32_t psn);
/* Arrived: this packet of ours, or this answer. */
void fl_track_seen(struct fl_roce_qp *qp, uint32_t psn);
/* Where the request lies that asked for this answer: of a READ, for its piece. */
uint32_t fl_track_asked_at(const struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe, uint32_t psn);
/* Is that request known to have arrived? It did; the data are on their way. */
bool fl_track_is_heard(const struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe, uint32_t psn);
void fl_track_heard(struct fl_roce_qp *qp, uint32_t at);

/* resend.c */
/* A round trip took that long. */
void fl_roce_selective_rtt(struct fl_roce_selective *sel, uint64_t ns);
/* The time after which a probe goes out begins anew. */
void fl_roce_selective_rearm(struct fl_roce_qp *qp, uint64_t now);

#endif
