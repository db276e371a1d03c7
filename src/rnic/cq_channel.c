/* SPDX-License-Identifier: Apache-2.0 */
/* Completion channels: which completion queues have an event, and an eventfd that counts the events. */
#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rnic/objects.h"
#include "rnic/retired.h"
#include "rnic/verbs.h"

struct ibv_comp_channel *fl_channel_create(struct ibv_context *context)
{
    if (fl_gone(context)) {
        errno = ENODEV;
        return NULL;
    }
    struct fl_channel *channel = calloc(1, sizeof(*channel));
    if (!channel)
        return NULL;
    channel->channel.context = context;
    channel->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (channel->channel.fd < 0) {
        free(channel);
        return NULL;
    }
    pthread_mutex_init(&channel->lock, NULL);
    fl_list_init(&channel->cqs);
    fl_count(&fl_context_of(context)->refs, 1);
    return &channel->channel;
}

int fl_channel_destroy(struct ibv_comp_channel *ibv_channel)
{
    struct fl_channel *channel = fl_channel_of(ibv_channel);
    struct ibv_context *context = ibv_channel->context;
    if (fl_gone(context))
        return ENODEV;
    pthread_mutex_lock(&context->mutex);
    bool gone = ibv_channel->context != context, busy = ibv_channel->refcnt;
    if (!gone && !busy)
        ibv_channel->context = fl_retired_context(context);
    pthread_mutex_unlock(&context->mutex);
    if (gone || busy)
        return gone ? ENODEV : EBUSY;
    close(ibv_channel->fd);
    pthread_mutex_destroy(&channel->lock);
    ibv_channel->fd = -1;
    fl_retire(channel);
    fl_context_put(fl_context_of(context));
    return 0;
}

void fl_channel_tell(struct fl_channel *channel, struct fl_cq *cq)
{
    uint64_t one = 1;
    pthread_mutex_lock(&channel->lock);
    cq->nr_events++;
    if (!fl_list_linked(&cq->event_link))
        fl_list_add_tail(&channel->cqs, &cq->event_link);
    pthread_mutex_unlock(&channel->lock);
    ssize_t n = write(channel->channel.fd, &one, sizeof(one));
    (void)n;
}

void fl_channel_forget(struct fl_channel *channel, struct fl_cq *cq)
{
    uint64_t one;
    struct iovec iov = {&one, sizeof(one)};
    pthread_mutex_lock(&channel->lock);
    for (; cq->nr_events; cq->nr_events--) { /* as many counts less; a reader that finds nothing reads on */
        ssize_t n = preadv2(channel->channel.fd, &iov, 1, -1, RWF_NOWAIT);
        (void)n;
    }
    fl_list_del(&cq->event_link);
    uint32_t told = cq->nr_told;
    pthread_mutex_unlock(&channel->lock);
    pthread_mutex_lock(&cq->cq.mutex);
    while (cq->cq.comp_events_completed !=
           told) /* as the manual page says: all events are acknowledged first */
        pthread_cond_wait(&cq->cq.cond, &cq->cq.mutex);
    pthread_mutex_unlock(&cq->cq.mutex);
}

int fl_cq_event_get(struct ibv_comp_channel *ibv_channel, struct ibv_cq **ibv_cq, void **cq_context)
{
    struct fl_channel *channel = fl_channel_of(ibv_channel);
    struct fl_cq *cq = NULL;
    uint64_t one;
    if (fl_gone(ibv_channel->context)) {
        errno = ENODEV;
        return -1;
    }
    while (!cq) {
        if (read(ibv_channel->fd, &one, sizeof(one)) < 0)
            return -1;
        pthread_mutex_lock(&channel->lock);
        cq = FL_LIST_FIRST(&channel->cqs, struct fl_cq, event_link);
        if (cq) {
            fl_list_del(&cq->event_link);
            cq->nr_told++;
            if (--cq->nr_events) /* others have their turn before its next one */
                fl_list_add_tail(&channel->cqs, &cq->event_link);
            *ibv_cq = &cq->cq;
            *cq_context = cq->cq.cq_context;
        }
        pthread_mutex_unlock(&channel->lock);
    }
    return 0;
}

void fl_cq_event_ack(struct ibv_cq *cq, unsigned int nr)
{
    if (!nr)
        return;
    pthread_mutex_lock(&cq->mutex);
    cq->comp_events_completed += nr;
    pthread_cond_signal(&cq->cond);
    pthread_mutex_unlock(&cq->mutex);
}

int fl_cq_req_notify(struct ibv_cq *ibv_cq, int solicited_only)
{
    struct fl_cq *cq = fl_cq_of(ibv_cq);
    uint32_t want = solicited_only ? FL_CQ_ARMED_SOLICITED : FL_CQ_ARMED, now;
    struct fl_rnic *rnic = __atomic_load_n(&cq->rnic, __ATOMIC_RELAXED);
    if (rnic->gone)
        return ENODEV;
    if (!ibv_cq->channel)
        return 0; /* nobody to be told */
    now = __atomic_load_n(&cq->armed, __ATOMIC_SEQ_CST);
    do {
        if (now >= want) /* armed for all stays so (11.4.2.2) */
            return 0;
    } while (!__atomic_compare_exchange_n(&cq->armed, &now, want, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
    if (now == FL_CQ_UNARMED) {
        __atomic_add_fetch(&rnic->nr_armed, 1, __ATOMIC_SEQ_CST);
        fl_rnic_watch(rnic);
    }
    return 0;
}
