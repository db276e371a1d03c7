/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How much may be on its way. Loss that comes by chance is no reason to send less; more loss than that says
 * that something between here and there overflows, a switch or the peer's socket, and that sending less
 * delivers more. Selective retransmission knows the share that is lost; go-back-N knows that something was.
 */
#include "rnic/roce/parts.h"

#define LEAST  8u  /* packets on their way, if the program allows as many */
#define PERIOD 64u /* packets: of fewer a share says nothing */

void fl_roce_window_reset(struct fl_roce_qp *qp)
{
    qp->req.window = qp->attr.window;
    qp->req.nr_moved = qp->req.nr_missed = 0;
}

static void shrink(struct fl_roce_qp *qp, uint32_t by)
{
    struct fl_roce_requester *req = &qp->req;
    uint32_t least = qp->attr.window < LEAST ? qp->attr.window : LEAST;
    req->window = req->window - by > least ? req->window - by : least;
    req->nr_moved = req->nr_missed = 0;
}

void fl_roce_window_gone_back(struct fl_roce_qp *qp)
{
    struct fl_roce_requester *req = &qp->req;
    shrink(qp, req->nr_since_back < req->window ? req->window / 2 : 0);
    req->nr_since_back = 0;
}

void fl_roce_window_missed(struct fl_roce_qp *qp)
{
    qp->req.nr_missed++;
}

void fl_roce_window_moved(struct fl_roce_qp *qp, uint32_t nr)
{
    struct fl_roce_requester *req = &qp->req;
    req->nr_moved += nr;
    req->nr_since_back += req->nr_since_back < WINDOW_MAX ? nr : 0;
    if (req->nr_moved < PERIOD || req->nr_moved < req->window)
        return;
    if (req->nr_missed > req->nr_moved / 4) {
        shrink(qp, req->window / 2);
        return;
    }
    if (req->nr_missed > req->nr_moved / 16) {
        shrink(qp, req->window / 4);
        return;
    }
    if (req->nr_missed <= req->nr_moved / 32)
        req->window += req->window / 16 + 1;
    if (req->window > qp->attr.window)
        req->window = qp->attr.window;
    req->nr_moved = req->nr_missed = 0;
}
