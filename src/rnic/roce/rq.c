/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/roce/parts.h"

int fl_roce_rq_init(struct fl_roce_rq *rq, uint32_t cap, uint32_t max_sge, bool shared)
{
    memset(rq, 0, sizeof(*rq));
    if (max_sge > FL_ROCE_SGE_MAX || cap > 1u << 20)
        return -EINVAL;
    uint32_t size = 1;
    while (size < cap)
        size *= 2;
    uint32_t nr_sge = max_sge ? max_sge : 1;
    rq->wqes = calloc(size, sizeof(*rq->wqes) + nr_sge * sizeof(struct ibv_sge));
    if (!rq->wqes)
        return -ENOMEM;
    struct ibv_sge *sges = (struct ibv_sge *)(rq->wqes + size);
    for (uint32_t i = 0; i < size; i++)
        rq->wqes[i].sge = sges + (size_t)i * nr_sge;
    rq->mask = size - 1;
    rq->cap = cap;
    rq->max_sge = max_sge;
    rq->shared = shared;
    return 0;
}

void fl_roce_rq_fini(struct fl_roce_rq *rq)
{
    free(rq->wqes);
    memset(rq, 0, sizeof(*rq));
}

int fl_roce_rq_post(struct fl_roce_rq *rq, const struct ibv_recv_wr *wr)
{
    if (wr->num_sge < 0 || (uint32_t)wr->num_sge > rq->max_sge)
        return -EINVAL;
    if (fl_roce_rq_left(rq) >= rq->cap)
        return -ENOMEM;
    struct fl_roce_rwqe *wqe = &rq->wqes[rq->tail++ & rq->mask];
    wqe->wr_id = wr->wr_id;
    wqe->nr_sge = (uint32_t)wr->num_sge;
    if (wr->num_sge)
        memcpy(wqe->sge, wr->sg_list, sizeof(wqe->sge[0]) * wqe->nr_sge);
    return 0;
}

int fl_roce_rq_resize(struct fl_roce_rq *rq, uint32_t cap)
{
    struct fl_roce_rq to;
    if (fl_roce_rq_left(rq) > cap)
        return -EINVAL;
    int r = fl_roce_rq_init(&to, cap, rq->max_sge, rq->shared);
    if (r)
        return r;
    for (uint32_t i = rq->head; i != rq->tail; i++) {
        const struct fl_roce_rwqe *from = &rq->wqes[i & rq->mask];
        struct fl_roce_rwqe *wqe = &to.wqes[to.tail++ & to.mask];
        wqe->wr_id = from->wr_id;
        wqe->nr_sge = from->nr_sge;
        memcpy(wqe->sge, from->sge, sizeof(wqe->sge[0]) * wqe->nr_sge);
    }
    to.limit = rq->limit;
    free(rq->wqes);
    *rq = to;
    return 0;
}
