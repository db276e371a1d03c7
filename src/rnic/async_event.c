/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events of a device: a list, and an eventfd that counts its members, so that the descriptor can
 * be polled and the program's own O_NONBLOCK counts.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/log.h"
#include "rnic/objects.h"
#include "rnic/verbs.h"

#define WAITING_MAX 4096 /* events that a program does not fetch: it will not miss more of them */

void fl_async_raise(struct fl_context *context, const struct ibv_async_event *event, uint32_t *nr_told)
{
    uint64_t one = 1;
    struct fl_async_event *e = calloc(1, sizeof(*e));
    if (!e) {
        FL_ERR("no memory: an asynchronous event (%d) is lost", event->event_type);
        return;
    }
    e->event = *event;
    e->nr_told = nr_told;
    pthread_mutex_lock(&context->events_lock);
    bool room = context->nr_events < WAITING_MAX;
    if (room) {
        fl_list_add_tail(&context->events, &e->link);
        context->nr_events++;
    }
    pthread_mutex_unlock(&context->events_lock);
    if (!room) {
        free(e);
        return;
    }
    ssize_t n = write(context->verbs.context.async_fd, &one, sizeof(one));
    (void)n;
}

int fl_async_get(struct ibv_context *ctx, struct ibv_async_event *event)
{
    struct fl_context *context = fl_context_of(ctx);
    struct fl_async_event *e = NULL;
    uint64_t one;
    if (fl_gone(ctx)) {
        errno = ENODEV;
        return -1;
    }
    while (!e) { /* what was counted may be gone with its object */
        if (read(ctx->async_fd, &one, sizeof(one)) < 0)
            return -1;
        pthread_mutex_lock(&context->events_lock);
        e = FL_LIST_FIRST(&context->events, struct fl_async_event, link);
        if (e) {
            fl_list_del(&e->link);
            context->nr_events--;
            if (e->nr_told)
                ++*e->nr_told;
        }
        pthread_mutex_unlock(&context->events_lock);
    }
    *event = e->event;
    free(e);
    return 0;
}

static void count(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *nr)
{
    pthread_mutex_lock(mutex);
    ++*nr;
    pthread_cond_signal(cond);
    pthread_mutex_unlock(mutex);
}

void fl_async_ack(struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        count(&event->element.cq->mutex, &event->element.cq->cond,
              &event->element.cq->async_events_completed);
        break;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
        count(&event->element.qp->mutex, &event->element.qp->cond, &event->element.qp->events_completed);
        break;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        count(&event->element.srq->mutex, &event->element.srq->cond, &event->element.srq->events_completed);
        break;
    default:
        break;
    }
}

/* One count less; where the kernel cannot read without waiting, a reader finds nothing and reads on. */
static void uncount(int fd)
{
    uint64_t one;
    struct iovec iov = {&one, sizeof(one)};
    ssize_t n = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
    (void)n;
}

void fl_async_forget(struct fl_context *context, const uint32_t *nr_told, pthread_mutex_t *mutex,
                     pthread_cond_t *cond, const uint32_t *nr_acked)
{
    struct fl_async_event *e, *tmp;
    uint32_t told = 0;
    pthread_mutex_lock(&context->events_lock);
    fl_list_for_each_safe (e, tmp, &context->events, link) {
        if (nr_told && e->nr_told != nr_told)
            continue;
        fl_list_del(&e->link);
        context->nr_events--;
        free(e);
        uncount(context->verbs.context.async_fd);
    }
    if (nr_told)
        told = *nr_told;
    pthread_mutex_unlock(&context->events_lock);
    if (!nr_told)
        return;
    pthread_mutex_lock(mutex);
    while (*nr_acked != told) /* the program may still use the pointer that it got */
        pthread_cond_wait(cond, mutex);
    pthread_mutex_unlock(mutex);
}
