/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event channels: a list, and an eventfd that counts its members, so that the descriptor can be polled and
 * the program's own O_NONBLOCK counts.
 */
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "rnic/cma/parts.h"
#include "rnic/retired.h"

struct rdma_event_channel *fl_cma_create_event_channel(void)
{
    struct fl_cma_channel *channel = calloc(1, sizeof(*channel));
    if (!channel)
        return NULL;
    channel->channel.fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    if (channel->channel.fd < 0) {
        free(channel);
        return NULL;
    }
    pthread_mutex_init(&channel->lock, NULL);
    fl_list_init(&channel->events);
    return &channel->channel;
}

void fl_cma_destroy_event_channel(struct rdma_event_channel *channel)
{
    struct fl_cma_channel *c = fl_cma_channel_of(channel);
    if (channel->fd < 0) /* once more */
        return;
    close(channel->fd);
    channel->fd = -1;
    pthread_mutex_destroy(&c->lock);
    fl_retire(c);
}

void fl_cma_push(struct fl_cma_channel *channel, struct fl_cma_event *event)
{
    uint64_t one = 1;
    pthread_mutex_lock(&channel->lock);
    fl_list_add_tail(&channel->events, &event->link);
    pthread_mutex_unlock(&channel->lock);
    ssize_t n = write(channel->channel.fd, &one, sizeof(one));
    (void)n;
}

struct fl_cma_event *fl_cma_pop(struct fl_cma_channel *channel)
{
    struct fl_cma_event *event = NULL;
    uint64_t one;
    while (!event) { /* what was counted may be gone with its id */
        if (read(channel->channel.fd, &one, sizeof(one)) < 0)
            return NULL;
        pthread_mutex_lock(&channel->lock);
        event = FL_LIST_FIRST(&channel->events, struct fl_cma_event, link);
        if (event) {
            fl_list_del(&event->link);
            pthread_mutex_lock(&event->counts_at->mutex);
            event->counts_at->nr_told++;
            pthread_mutex_unlock(&event->counts_at->mutex);
        }
        pthread_mutex_unlock(&channel->lock);
    }
    return event;
}

/* One count less; where the kernel cannot read without waiting, a reader finds nothing and reads on. */
static void uncount(int fd)
{
    uint64_t one;
    struct iovec iov = {&one, sizeof(one)};
    ssize_t n = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
    (void)n;
}

void fl_cma_take_events(struct fl_cma_channel *channel, struct fl_cma_id *id, struct fl_list *to)
{
    struct fl_cma_event *event, *tmp;
    pthread_mutex_lock(&channel->lock);
    fl_list_for_each_safe (event, tmp, &channel->events, link) {
        if (event->counts_at != id && event->event.id != &id->id)
            continue;
        fl_list_del(&event->link);
        fl_list_add_tail(to, &event->link);
        uncount(channel->channel.fd);
    }
    pthread_mutex_unlock(&channel->lock);
}
