/* SPDX-License-Identifier: Apache-2.0 */
/* Posting work requests. */
#include <errno.h>

#include "base/try.h"
#include "rnic/objects.h"
#include "rnic/qp_ex.h"
#include "rnic/shm_path.h"
#include "rnic/verbs.h"

/* One request, under the lock. Negative errno. */
static int post_one(struct fl_qp *qp, const struct ibv_send_wr *wr)
{
    if (qp->qp.qp_type == IBV_QPT_UD && !wr->wr.ud.ah)
        return -EINVAL;
    if (fl_likely(wr->opcode != IBV_WR_BIND_MW))
        return qp->path->post_send(qp, wr);
    struct ibv_send_wr bind = *wr;
    int r = fl_mw_resolve(&bind);
    return r ? r : qp->path->post_send(qp, &bind);
}

int fl_qp_post_send(struct ibv_qp *ibv_qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct fl_qp *qp = fl_qp_of(ibv_qp);
    struct fl_rnic *rnic = fl_qp_lock(qp);
    int r = 0;
    if (fl_unlikely(!rnic)) {
        *bad = wr;
        return ENODEV;
    }
    if (qp->path->post_now)
        wr = qp->path->post_now(qp, wr);
    if (wr) {
        if (fl_try_has_missed()) /* just now: it is told as an error of the request */
            fl_mr_close_missed(rnic);
        for (; wr; wr = wr->next) {
            r = post_one(qp, wr);
            if (fl_unlikely(r)) {
                *bad = wr;
                break;
            }
        }
        qp->path->kick(qp); /* also what was posted before one that is wrong */
    }
    fl_rnic_unlock(rnic);
    return -r;
}

int fl_qp_post_all(struct fl_qp *qp, const struct ibv_send_wr *wrs, uint32_t nr)
{
    struct fl_rnic *rnic = fl_qp_lock(qp);
    int r = 0;
    if (fl_unlikely(!rnic))
        return ENODEV;
    for (uint32_t i = 0; i < nr && !r; i++) {
        r = post_one(qp, &wrs[i]);
        if (r && i)
            qp->path->take_back(qp, i);
    }
    if (!r)
        qp->path->kick(qp);
    fl_rnic_unlock(rnic);
    return -r;
}

int fl_qp_post_recv(struct ibv_qp *ibv_qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fl_qp *qp = fl_qp_of(ibv_qp);
    struct fl_rnic *rnic = fl_qp_lock(qp);
    int r = 0;
    if (fl_unlikely(!rnic)) {
        *bad = wr;
        return ENODEV;
    }
    for (; wr; wr = wr->next) {
        r = qp->path->post_recv(qp, wr);
        if (fl_unlikely(r)) {
            *bad = wr;
            break;
        }
    }
    fl_shm_path_grant(qp);
    if (fl_unlikely(qp->doomed)) /* flushed into a completion queue that is full */
        fl_qp_settle(qp);
    fl_rnic_unlock(rnic);
    return -r;
}
