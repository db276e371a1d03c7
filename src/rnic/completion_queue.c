/* SPDX-License-Identifier: Apache-2.0 */
/* Completion queues: making, filling, resizing. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rnic/objects.h"
#include "rnic/retired.h"
#include "rnic/verbs.h"

#define CQE_MAX (1 << 22)
#define POISON  0xa5
#define KNOWN_FLAGS                                                \
    (IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | \
     IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)

static uint32_t ring_size(int cqe)
{
    uint32_t size = 1;
    while (size < (uint32_t)cqe)
        size *= 2;
    return size;
}

/* A ring a power of two, so that its last entry may be used too: head and tail count freely. */
static struct fl_cqe *make_ring(int cqe, uint32_t *mask)
{
    uint32_t size = ring_size(cqe);
    *mask = size - 1;
    return calloc(size, sizeof(struct fl_cqe));
}

static int check_create(struct ibv_context *context, const struct ibv_cq_init_attr_ex *attr)
{
    if (fl_gone(context))
        return ENODEV;
    if (!attr->cqe || attr->cqe > CQE_MAX || attr->comp_vector >= (uint32_t)context->num_comp_vectors)
        return EINVAL;
    if (attr->channel && attr->channel->context != context)
        return EINVAL;
    if (attr->wc_flags & ~(uint64_t)KNOWN_FLAGS)
        return EOPNOTSUPP;
    if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD))
        return EOPNOTSUPP;
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) &&
        (!attr->parent_domain || attr->parent_domain->context != context))
        return EINVAL;
    if ((attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
        (attr->flags & ~(uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)))
        return EOPNOTSUPP;
    return 0;
}

static void count_channel(struct ibv_comp_channel *channel, int by)
{
    if (!channel)
        return;
    pthread_mutex_lock(&channel->context->mutex);
    channel->refcnt += by;
    pthread_mutex_unlock(&channel->context->mutex);
}

static struct ibv_cq_ex *make_cq(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    struct fl_cq *cq = NULL;
    int r = check_create(context, attr);
    if (r) {
        errno = r;
        return NULL;
    }
    if (posix_memalign((void **)&cq, FL_CACHE_LINE, sizeof(*cq))) {
        errno = ENOMEM;
        return NULL;
    }
    memset(cq, 0, sizeof(*cq));
    cq->ring = make_ring((int)attr->cqe, &cq->mask);
    if (!cq->ring) {
        free(cq);
        errno = ENOMEM;
        return NULL;
    }
    cq->rnic = fl_context_of(context)->rnic;
    cq->cq.context = context;
    cq->cq.channel = attr->channel;
    cq->cq.cq_context = attr->cq_context;
    cq->cq.cqe = (int)cq->mask + 1;
    cq->timestamps = attr->wc_flags &
                     (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK);
    cq->ignore_overrun = (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) &&
                         (attr->flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN);
    pthread_mutex_init(&cq->cq.mutex, NULL);
    pthread_cond_init(&cq->cq.cond, NULL);
    pthread_mutex_init(&cq->lock, NULL);
    fl_list_init(&cq->event_link);
    fl_cq_set_ex_ops(&cq->ex, attr->wc_flags);
    count_channel(attr->channel, 1);
    fl_count(&fl_context_of(context)->refs, 1);
    return &cq->ex;
}

struct ibv_cq_ex *fl_cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
    if (!fl_limit_take(context, FL_LIMITED_CQ))
        return NULL;
    return fl_limit_used(context, FL_LIMITED_CQ, make_cq(context, attr));
}

struct ibv_cq *fl_cq_create(struct ibv_context *context, int cqe, void *cq_context,
                            struct ibv_comp_channel *channel, int vector)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = cqe > 0 ? (uint32_t)cqe : 0,
        .cq_context = cq_context,
        .channel = channel,
        .comp_vector = (uint32_t)vector,
        .wc_flags = IBV_WC_STANDARD_FLAGS,
    };
    struct ibv_cq_ex *cq = fl_cq_create_ex(context, &attr);
    return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

int fl_cq_destroy(struct ibv_cq *ibv_cq)
{
    struct fl_cq *cq = fl_cq_of(ibv_cq);
    struct ibv_context *ibv_context = ibv_cq->context;
    struct fl_context *context = fl_context_of(ibv_context);
    struct fl_rnic *rnic = fl_context_lock(&ibv_cq->context);
    if (!rnic)
        return ENODEV;
    bool busy = cq->nr_users;
    if (!busy) {
        if (__atomic_exchange_n(&cq->armed, FL_CQ_UNARMED, __ATOMIC_SEQ_CST))
            __atomic_sub_fetch(&rnic->nr_armed, 1, __ATOMIC_SEQ_CST);
        cq->rnic = &fl_rnic_none;
        ibv_cq->context = fl_retired_context(ibv_context);
    }
    fl_rnic_unlock(rnic);
    if (busy)
        return EBUSY;
    if (ibv_cq->channel)
        fl_channel_forget(fl_channel_of(ibv_cq->channel), cq);
    fl_async_forget(context, &cq->nr_async, &ibv_cq->mutex, &ibv_cq->cond, &ibv_cq->async_events_completed);
    count_channel(ibv_cq->channel, -1);
    pthread_mutex_destroy(&ibv_cq->mutex);
    pthread_cond_destroy(&ibv_cq->cond);
    pthread_mutex_lock(&cq->lock); /* which stays: another thread may be polling */
    free(cq->ring);
    cq->ring = NULL;
    cq->head = cq->tail = 0;
    pthread_mutex_unlock(&cq->lock);
    fl_limit_give(ibv_context, FL_LIMITED_CQ);
    fl_retire(cq);
    fl_context_put(context);
    return 0;
}

/* 0 and all completions that wait are in the new ring, in order. */
int fl_cq_resize(struct ibv_cq *ibv_cq, int cqe)
{
    struct fl_cq *cq = fl_cq_of(ibv_cq);
    uint32_t mask;
    if (fl_gone(ibv_cq->context))
        return ENODEV;
    if (cqe <= 0 || cqe > CQE_MAX)
        return EINVAL;
    struct fl_cqe *ring = make_ring(cqe, &mask), *old = ring;
    if (!ring)
        return ENOMEM;
    struct fl_rnic *rnic = fl_context_lock(&ibv_cq->context); /* no producer */
    if (!rnic) {
        free(ring);
        return ENODEV;
    }
    pthread_mutex_lock(&cq->lock);
    uint32_t tail = cq->tail, nr = tail - cq->head;
    if (nr <= mask + 1) {
        for (uint32_t i = cq->head; i != tail; i++)
            ring[i & mask] = cq->ring[i & cq->mask];
        old = cq->ring;
        cq->ring = ring;
        cq->mask = mask;
        cq->cq.cqe = (int)mask + 1;
    }
    pthread_mutex_unlock(&cq->lock);
    fl_rnic_unlock(rnic);
    bool refused = old == ring;
    free(old);
    return refused ? EINVAL : 0;
}

int fl_cq_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
{
    return EOPNOTSUPP; /* no moderation, and none is announced */
}

static void overrun(struct fl_cq *cq)
{
    struct ibv_async_event event = {.element.cq = &cq->cq, .event_type = IBV_EVENT_CQ_ERR};
    if (cq->ignore_overrun || cq->failed)
        return;
    FL_WARN("%s: a completion queue of %d entries overran", cq->cq.context->device->name, cq->cq.cqe);
    __atomic_store_n(&cq->failed, true, __ATOMIC_RELEASE);
    fl_async_raise(fl_context_of(cq->cq.context), &event, &cq->nr_async);
}

/* 11.4.2.1: of a completion in error only these mean something. In test mode the rest is nonsense, so that
 * a program that looks at it breaks early. */
static void poison(struct ibv_wc *wc)
{
    struct ibv_wc kept = *wc;
    memset(wc, POISON, sizeof(*wc));
    wc->wr_id = kept.wr_id;
    wc->status = kept.status;
    wc->qp_num = kept.qp_num;
    wc->vendor_err = kept.vendor_err;
}

static void notify(struct fl_cq *cq, bool solicited)
{
    uint32_t armed = __atomic_load_n(&cq->armed, __ATOMIC_SEQ_CST);
    if (armed == FL_CQ_UNARMED || (armed == FL_CQ_ARMED_SOLICITED && !solicited))
        return;
    if (!__atomic_exchange_n(&cq->armed, FL_CQ_UNARMED, __ATOMIC_SEQ_CST))
        return;
    __atomic_sub_fetch(&cq->rnic->nr_armed, 1, __ATOMIC_SEQ_CST);
    fl_channel_tell(fl_channel_of(cq->cq.channel), cq);
}

/*
 * One by one, as they have just been stored: a load of several fields at once would wait until those stores
 * have left for the cache, behind the data of requests that was copied before.
 */
static void copy_fields(struct ibv_wc *to, const volatile struct ibv_wc *from)
{
    to->wr_id = from->wr_id;
    to->status = from->status;
    to->opcode = from->opcode;
    to->vendor_err = from->vendor_err;
    to->byte_len = from->byte_len;
    to->imm_data = from->imm_data; /* or invalidated_rkey */
    to->qp_num = from->qp_num;
    to->src_qp = from->src_qp;
    to->wc_flags = from->wc_flags;
    to->pkey_index = from->pkey_index;
    to->slid = from->slid;
    to->sl = from->sl;
    to->dlid_path_bits = from->dlid_path_bits;
}

void fl_cq_put(struct fl_cq *cq, const struct ibv_wc *wc)
{
    uint32_t tail = cq->tail;
    if (tail - __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE) > cq->mask || cq->failed) {
        overrun(cq);
        return;
    }
    struct fl_cqe *e = &cq->ring[tail & cq->mask];
    copy_fields(&e->wc, wc);
    if (cq->timestamps)
        e->at = fl_now_ns();
    if (fl_unlikely(wc->status != IBV_WC_SUCCESS && cq->rnic->poison))
        poison(&e->wc);
    __atomic_store_n(&cq->tail, tail + 1, __ATOMIC_RELEASE);
}

void fl_cq_tell(struct fl_cq *cq, bool solicited)
{
    if (!cq->cq.channel)
        return;
    /* The tail before looking whether it is armed; who arms looks for completions after it. */
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    notify(cq, solicited);
}

void fl_cq_drop(struct fl_cq *cq, uint32_t qpn)
{
    pthread_mutex_lock(&cq->lock);
    uint32_t to = cq->head, tail = cq->tail;
    for (uint32_t i = cq->head; i != tail; i++) {
        if (cq->ring[i & cq->mask].wc.qp_num != qpn)
            cq->ring[to++ & cq->mask] = cq->ring[i & cq->mask];
    }
    __atomic_store_n(&cq->tail, to, __ATOMIC_RELEASE);
    pthread_mutex_unlock(&cq->lock);
}
