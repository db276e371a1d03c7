/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations by threads that wait in preadv and pwritev: for machines where io_uring is not to be had
 * (containers often forbid it). Slower, for each operation wakes a thread and the loop.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backend/file.h"

#define NR_THREADS 8

struct fl_file_pool {
    pthread_mutex_t lock; /* queue, stop */
    pthread_cond_t more;
    struct fl_list queue; /* bios */
    bool stop;
    unsigned nr;
    pthread_t threads[NR_THREADS];
};

struct threads {
    pthread_mutex_t lock;
    struct fl_list done; /* bios; under lock */
    bool any;            /* something is on `done`; written under lock, looked at without it */
    int event_fd;        /* counts up when `done` becomes non-empty */
};

static int carry_out(struct fl_bio *bio)
{
    struct fl_file_op *op = fl_file_op(bio);
    off_t at = (off_t)(bio->off + op->pos);
    ssize_t n = -1;

    switch (op->code) {
    case FL_FILE_READ:
        n = preadv(op->chan->fd, op->iov, (int)op->nr_iov, at);
        break;
    case FL_FILE_WRITE:
        n = pwritev2(op->chan->fd, op->iov, (int)op->nr_iov, at, op->dsync ? RWF_DSYNC : 0);
        break;
    case FL_FILE_SYNC:
        n = fdatasync(op->chan->fd);
        break;
    case FL_FILE_ALLOC:
        n = fallocate(op->chan->fd, op->mode, at, (off_t)op->len);
        break;
    }
    return n < 0 ? -errno : (int)n;
}

static void give_back(struct fl_bio *bio)
{
    struct threads *t = fl_file_op(bio)->chan->engine;
    uint64_t one = 1;

    pthread_mutex_lock(&t->lock);
    fl_list_add_tail(&t->done, &bio->link);
    if (!t->any) {
        __atomic_store_n(&t->any, true, __ATOMIC_RELEASE);
        if (write(t->event_fd, &one, sizeof(one)) < 0) /* cannot: the count is 0 or 1 */
            abort();
    }
    pthread_mutex_unlock(&t->lock);
}

static void *work(void *arg)
{
    struct fl_file_pool *pool = arg;

    pthread_mutex_lock(&pool->lock);
    for (;;) {
        struct fl_list *link;

        while (!(link = fl_list_pop(&pool->queue)) && !pool->stop)
            pthread_cond_wait(&pool->more, &pool->lock);
        if (!link)
            break;
        pthread_mutex_unlock(&pool->lock);
        fl_file_op(FL_LIST_ENTRY(link, struct fl_bio, link))->result = carry_out(
            FL_LIST_ENTRY(link, struct fl_bio, link));
        give_back(FL_LIST_ENTRY(link, struct fl_bio, link));
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

int fl_file_pool_create(struct fl_file_pool **out)
{
    struct fl_file_pool *pool = calloc(1, sizeof(*pool));
    sigset_t all, old;
    int rc = 0;

    if (!pool)
        return -ENOMEM;
    pthread_mutex_init(&pool->lock, NULL);
    pthread_cond_init(&pool->more, NULL);
    fl_list_init(&pool->queue);
    sigfillset(&all); /* signals are the program's; one meant for it must not end up here */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (pool->nr < NR_THREADS && !(rc = pthread_create(&pool->threads[pool->nr], NULL, work, pool)))
        pool->nr++;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (!pool->nr) {
        fl_file_pool_destroy(pool);
        return -rc;
    }
    *out = pool;
    return 0;
}

void fl_file_pool_destroy(struct fl_file_pool *pool)
{
    if (!pool)
        return;
    pthread_mutex_lock(&pool->lock);
    pool->stop = true;
    pthread_cond_broadcast(&pool->more);
    pthread_mutex_unlock(&pool->lock);
    for (unsigned i = 0; i < pool->nr; i++)
        pthread_join(pool->threads[i], NULL);
    pthread_cond_destroy(&pool->more);
    pthread_mutex_destroy(&pool->lock);
    free(pool);
}

static int reap(struct fl_file_chan *chan)
{
    struct threads *t = chan->engine;
    struct fl_list done, *link;
    uint64_t count;
    int n = 0;

    if (!__atomic_load_n(&t->any, __ATOMIC_ACQUIRE))
        return 0;
    fl_list_init(&done);
    pthread_mutex_lock(&t->lock);
    if (read(t->event_fd, &count, sizeof(count)) < 0) /* 0 only if it lies: `any` was set with it */
        count = 0;
    fl_list_splice(&done, &t->done);
    __atomic_store_n(&t->any, false, __ATOMIC_RELAXED);
    pthread_mutex_unlock(&t->lock);
    for (; (link = fl_list_pop(&done)); n++) {
        struct fl_bio *bio = FL_LIST_ENTRY(link, struct fl_bio, link);

        fl_file_complete(bio, fl_file_op(bio)->result);
    }
    return n;
}

static void event_ready(struct fl_watch *watch, uint32_t events)
{
    reap(FL_CONTAINER_OF(watch, struct fl_file_chan, watch));
}

static int open_threads(struct fl_file_chan *chan)
{
    struct threads *t = calloc(1, sizeof(*t));
    int rc;

    if (!t)
        return -ENOMEM;
    t->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (t->event_fd < 0) {
        rc = -errno;
        goto free_threads;
    }
    pthread_mutex_init(&t->lock, NULL);
    fl_list_init(&t->done);
    chan->engine = t;
    if (chan->base.loop) {
        chan->watch = (struct fl_watch){.fd = t->event_fd, .ready = event_ready};
        rc = fl_watch_add(chan->base.loop, &chan->watch, EPOLLIN);
        if (rc)
            goto close_event;
    }
    return 0;

close_event:
    pthread_mutex_destroy(&t->lock);
    close(t->event_fd);
free_threads:
    free(t);
    return rc;
}

static void close_threads(struct fl_file_chan *chan)
{
    struct threads *t = chan->engine;

    fl_watch_del(&chan->watch);
    close(t->event_fd);
    pthread_mutex_destroy(&t->lock);
    free(t);
}

static void start(struct fl_file_chan *chan, struct fl_bio *bio)
{
    struct fl_file_pool *pool = chan->file->pool;

    pthread_mutex_lock(&pool->lock);
    fl_list_add_tail(&pool->queue, &bio->link);
    pthread_cond_signal(&pool->more);
    pthread_mutex_unlock(&pool->lock);
}

static int hand_over(struct fl_file_chan *chan)
{
    return 0;
}

static int event_fd(struct fl_file_chan *chan)
{
    struct threads *t = chan->engine;

    return t->event_fd;
}

const struct fl_file_engine fl_file_threads = {
    .name = "threads",
    .open = open_threads,
    .close = close_threads,
    .start = start,
    .hand_over = hand_over,
    .reap = reap,
    .fd = event_fd,
};
