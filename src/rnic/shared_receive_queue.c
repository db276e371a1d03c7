/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "rnic/objects.h"
#include "rnic/retired.h"
#include "rnic/verbs.h"

#define WR_MAX 16384

static int check_attr(const struct ibv_srq_attr *attr)
{
    return attr->max_wr && attr->max_wr <= WR_MAX && attr->max_sge <= FL_ROCE_SGE_MAX ? 0 : EINVAL;
}

static struct ibv_srq *make_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    static uint32_t last_number;
    struct fl_srq *srq = NULL;
    int r = fl_gone(pd->context) ? ENODEV : check_attr(&attr->attr);
    if (!r) {
        srq = calloc(1, sizeof(*srq));
        r = srq ? -fl_roce_rq_init(&srq->rq, attr->attr.max_wr, FL_MAX(attr->attr.max_sge, 1u), true)
                : ENOMEM;
    }
    if (r) {
        free(srq);
        errno = r;
        return NULL;
    }
    attr->attr.max_sge = srq->rq.max_sge;
    srq->number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
    srq->srq.context = pd->context;
    srq->srq.srq_context = attr->srq_context;
    srq->srq.pd = pd;
    srq->srq.handle = srq->number;
    pthread_mutex_init(&srq->srq.mutex, NULL);
    pthread_cond_init(&srq->srq.cond, NULL);
    fl_count(&fl_pd_of(pd)->nr_objects, 1);
    return &srq->srq;
}

struct ibv_srq *fl_srq_create(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    if (!fl_limit_take(pd->context, FL_LIMITED_SRQ))
        return NULL;
    return fl_limit_used(pd->context, FL_LIMITED_SRQ, make_srq(pd, attr));
}

struct ibv_srq *fl_srq_create_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
    const uint32_t known = IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_TYPE;
    if ((attr->comp_mask & ~known) ||
        ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) && attr->srq_type != IBV_SRQT_BASIC)) {
        errno = EOPNOTSUPP; /* neither XRC nor tag matching */
        return NULL;
    }
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
        errno = EINVAL;
        return NULL;
    }
    return fl_srq_create(attr->pd, (struct ibv_srq_init_attr *)attr); /* it is its beginning */
}

int fl_srq_modify(struct ibv_srq *ibv_srq, struct ibv_srq_attr *attr, int mask)
{
    struct fl_srq *srq = fl_srq_of(ibv_srq);
    struct fl_rnic *rnic;
    if (fl_gone(ibv_srq->context))
        return ENODEV;
    if (mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT))
        return EINVAL;
    if ((mask & IBV_SRQ_MAX_WR) && (!attr->max_wr || attr->max_wr > WR_MAX))
        return EINVAL;
    int r = 0;
    rnic = fl_context_lock(&ibv_srq->context);
    if (!rnic)
        return ENODEV;
    uint32_t cap = mask & IBV_SRQ_MAX_WR ? attr->max_wr : srq->rq.cap;
    if ((mask & IBV_SRQ_LIMIT) && attr->srq_limit > cap)
        r = EINVAL;
    if (!r && (mask & IBV_SRQ_MAX_WR))
        r = -fl_roce_rq_resize(&srq->rq, cap);
    if (!r && (mask & IBV_SRQ_LIMIT))
        srq->rq.limit = attr->srq_limit;
    fl_rnic_unlock(rnic);
    return r;
}

int fl_srq_query(struct ibv_srq *ibv_srq, struct ibv_srq_attr *attr)
{
    struct fl_srq *srq = fl_srq_of(ibv_srq);
    struct fl_rnic *rnic = fl_context_lock(&ibv_srq->context);
    if (!rnic)
        return ENODEV;
    *attr = (struct ibv_srq_attr){
        .max_wr = srq->rq.cap, .max_sge = srq->rq.max_sge, .srq_limit = srq->rq.limit};
    fl_rnic_unlock(rnic);
    return 0;
}

int fl_srq_number(struct ibv_srq *srq, uint32_t *number)
{
    *number = fl_srq_of(srq)->number;
    return 0;
}

int fl_srq_destroy(struct ibv_srq *ibv_srq)
{
    struct fl_srq *srq = fl_srq_of(ibv_srq);
    struct ibv_context *context = ibv_srq->context;
    struct fl_rnic *rnic = fl_context_lock(&ibv_srq->context);
    if (!rnic)
        return ENODEV;
    bool busy = srq->nr_users;
    if (!busy) {
        ibv_srq->context = fl_retired_context(context);
        fl_roce_rq_fini(&srq->rq);
    }
    fl_rnic_unlock(rnic);
    if (busy)
        return EBUSY;
    fl_async_forget(fl_context_of(context), &srq->nr_told, &ibv_srq->mutex, &ibv_srq->cond,
                    &ibv_srq->events_completed);
    fl_count(&fl_pd_of(ibv_srq->pd)->nr_objects, -1);
    fl_limit_give(context, FL_LIMITED_SRQ);
    pthread_mutex_destroy(&ibv_srq->mutex);
    pthread_cond_destroy(&ibv_srq->cond);
    fl_retire(srq);
    return 0;
}

int fl_srq_post_recv(struct ibv_srq *ibv_srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct fl_srq *srq = fl_srq_of(ibv_srq);
    struct fl_rnic *rnic = fl_context_lock(&ibv_srq->context);
    int r = 0;
    if (fl_unlikely(!rnic)) {
        *bad = wr;
        return ENODEV;
    }
    for (; wr; wr = wr->next) {
        r = fl_roce_rq_post(&srq->rq, wr);
        if (fl_unlikely(r)) {
            *bad = wr;
            break;
        }
    }
    fl_rnic_unlock(rnic);
    return -r;
}
