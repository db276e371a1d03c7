/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that are done in the peer's memory, without packets. They keep the order of the queue pair. */
#include "rnic/roce/parts.h"

#define LITTLE 4096 /* bytes that go by packets sooner than they would wait */

static bool is_one_sided(const struct fl_roce_swqe *wqe)
{
    return wqe->wr.opcode == IBV_WR_RDMA_WRITE || fl_roce_is_rd(wqe);
}

enum fl_roce_direct fl_roce_try_direct(struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe)
{
    const struct fl_roce_requester *req = &qp->req;
    if (!qp->direct || !is_one_sided(wqe))
        return FL_ROCE_BY_PACKETS;
    /* 10.8.3.3: in order at the responder. What is not acknowledged may not be there yet. */
    if (req->head != req->cur)
        return wqe->len > LITTLE ? FL_ROCE_WAIT : FL_ROCE_BY_PACKETS;
    if (!qp->ops->direct(qp, wqe))
        return FL_ROCE_BY_PACKETS;
    fl_roce_send_done(qp, IBV_WC_SUCCESS);
    return FL_ROCE_DONE;
}
