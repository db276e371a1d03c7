/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When acknowledgements leave. A program that polls is about to see the message that came, and one that
 * answered the last messages at once is likely to answer this one: its acknowledgement leaves in the same
 * system call as that answer, or with the next look for packets. Alone and before, it would delay the answer
 * by a system call.
 *
 * One that waits is never forgotten: it leaves before its queue pair ends, before the process does or forks,
 * and with the RNIC's thread, which looks every few milliseconds whether the program polls on. Where the
 * answer did not come, the next acknowledgements leave at once.
 */
#include "rnic/objects.h"

#define ANSWERS  8                   /* in a row, until the next one is waited for */
#define SHORT_NS (16 * FL_NS_PER_MS) /* a peer that repeats sooner is not kept waiting */

void fl_ack_received(struct fl_qp *qp)
{
    qp->ack.recv_turn = qp->rnic->stats.nr_turns;
}

void fl_ack_answered(struct fl_qp *qp)
{
    if (qp->ack.recv_turn == qp->rnic->stats.nr_turns && qp->ack.nr_answers < ANSWERS)
        qp->ack.nr_answers++;
    qp->ack.waits = false;
}

/* The peer's time-out is not known, but most programs give both ends the same. */
static bool is_patient(const struct fl_qp *qp)
{
    return !qp->roce.timeout_ns || qp->roce.timeout_ns >= SHORT_NS;
}

bool fl_ack_may_wait(struct fl_qp *qp)
{
    const struct fl_rnic *rnic = qp->rnic;
    if (qp->ack.waits) { /* the program looks for more instead of answering */
        qp->ack.waits = false;
        qp->ack.nr_answers = 0;
        return false;
    }
    /* Else the thread sleeps until a packet comes, or the program is about to sleep. */
    const bool seen_to = rnic->polled_turn && !rnic->port_watched && !fl_cq_is_armed(qp->recv_cq);
    if (!seen_to || qp->ack.nr_answers < ANSWERS || qp->ack.recv_turn != rnic->stats.nr_turns || qp->link ||
        !is_patient(qp) || !fl_roce_qp_owes_ack(&qp->roce))
        return false;
    return qp->ack.waits = true;
}

void fl_ack_now(struct fl_qp *qp)
{
    struct fl_rnic *rnic = qp->rnic;
    if (!qp->link && fl_roce_qp_owes_ack(&qp->roce))
        fl_rnic_send_locked(rnic, qp);
    fl_port_flush(rnic->port);
}
