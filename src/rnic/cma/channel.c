/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Event channels: a list, and an eventfd that counts its members, so that the descriptor can be polled and
 * the program's own O_NONBLOCK counts.
 *
 * A channel may be destroyed while another thread fetches events from it; programs do so at their end
 * (rping). With the kernel such a thread sleeps in the file that it came to, whatever becomes of the
 * descriptor's number; so it does here, by a descriptor of its own while it sleeps. One that comes a moment
 * after the end is late by chance alone, and its process mostly about to end: it waits for that, for
 * FL_CMA_LATE_NS after the channel's end, before it gets EBADF. The thread that has destroyed the channel,
 * and one that never sleeps (O_NONBLOCK), get that at once.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <time.h>
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

static bool never_sleeps(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && (flags & O_NONBLOCK);
}

void fl_cma_destroy_event_channel(struct rdma_event_channel *channel)
{
    struct fl_cma_channel *c = fl_cma_channel_of(channel);
    pthread_mutex_lock(&c->lock); /* which stays: others may be about to come */
    bool again = channel->fd < 0;
    if (!again) {
        c->ended_by = pthread_self();
        c->late_till = never_sleeps(channel->fd) ? 0 : fl_now_ns() + FL_CMA_LATE_NS;
        close(channel->fd);
        channel->fd = -1;
    }
    pthread_mutex_unlock(&c->lock);
    if (!again)
        fl_retire(c);
}

void fl_cma_push(struct fl_cma_channel *channel, struct fl_cma_event *event)
{
    uint64_t one = 1;
    pthread_mutex_lock(&channel->lock);
    fl_list_add_tail(&channel->events, &event->link);
    ssize_t n = write(channel->channel.fd, &one, sizeof(one));
    (void)n;
    pthread_mutex_unlock(&channel->lock);
}

/* Where the kernel cannot read without waiting: EOPNOTSUPP */
static ssize_t read_now(int fd)
{
    uint64_t one;
    struct iovec iov = {&one, sizeof(one)};
    return preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
}

static void close_own(void *own)
{
    int kept = errno;
    if (*(int *)own >= 0)
        close(*(int *)own);
    errno = kept;
}

/* By a descriptor of its own, if there is one. The one place where a thread that waits for events may be
 * cancelled. */
static ssize_t read_or_sleep(int fd, int own, int cancel_state)
{
    uint64_t one;
    ssize_t n;
    pthread_cleanup_push(close_own, &own);
    pthread_setcancelstate(cancel_state, NULL);
    n = read(own >= 0 ? own : fd, &one, sizeof(one));
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(1);
    return n;
}

/* The channel is no more: -1 and errno, after a while. Lets go of its lock. */
static int come_late(struct fl_cma_channel *channel, int cancel_state)
{
    uint64_t till = pthread_equal(channel->ended_by, pthread_self()) ? 0 : channel->late_till;
    struct timespec at = {.tv_sec = (time_t)(till / FL_NS_PER_S), .tv_nsec = (long)(till % FL_NS_PER_S)};
    pthread_mutex_unlock(&channel->lock); /* it may be freed from here on */
    pthread_setcancelstate(cancel_state, NULL);
    int r = till ? clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) : 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    errno = r == EINTR ? EINTR : EBADF;
    return -1;
}

/* 0: one event less is counted. -1 and errno */
static int count_off(struct fl_cma_channel *channel, int cancel_state)
{
    pthread_mutex_lock(&channel->lock);
    int fd = channel->channel.fd, own = -1;
    if (fd < 0)
        return come_late(channel, cancel_state);
    ssize_t n = read_now(fd);
    bool sleeps = n < 0 && (errno == EAGAIN || errno == EOPNOTSUPP);
    if (sleeps && never_sleeps(fd)) {
        sleeps = false;
        n = read(fd, &(uint64_t){0}, sizeof(uint64_t));
    }
    if (sleeps)
        own = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    pthread_mutex_unlock(&channel->lock);
    if (sleeps)
        n = read_or_sleep(fd, own, cancel_state);
    return n < 0 ? -1 : 0;
}

struct fl_cma_event *fl_cma_pop(struct fl_cma_channel *channel)
{
    struct fl_cma_event *event = NULL;
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    while (!event && !count_off(channel, cancel_state)) { /* what was counted may be gone with its id */
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
    pthread_setcancelstate(cancel_state, NULL);
    return event;
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
        ssize_t n = read_now(channel->channel.fd); /* else a reader finds nothing, and reads on */
        (void)n;
    }
    pthread_mutex_unlock(&channel->lock);
}
