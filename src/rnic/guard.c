/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/guard.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/log.h"
#include "base/util.h"
#include "rnic/range_count.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif
#define RETRY_MS    1
#define PENDING_MAX 64 /* ranges that wait for the lock; more become one */

struct range {
    uintptr_t from, to;
};

struct fl_guard {
    int fd, stop_fd;
    const struct fl_guard_ops *ops;
    void *arg;
    pthread_t thread;
    struct range pending[PENDING_MAX]; /* the thread's own */
    int nr_pending;
    pthread_mutex_t lock; /* what is watched */
    struct fl_range_count watched;
};

static void put_off(struct fl_guard *g, uintptr_t from, uintptr_t to)
{
    if (g->nr_pending == PENDING_MAX) {
        struct range *last = &g->pending[PENDING_MAX - 1]; /* closes too much rather than too little */
        last->from = FL_MIN(last->from, from);
        last->to = FL_MAX(last->to, to);
        return;
    }
    g->pending[g->nr_pending++] = (struct range){from, to};
}

/* Once the event is read, the thread that unmaps goes on: so the lock that those who use the memory need is
 * taken before, if it can be had. */
static void read_events(struct fl_guard *g)
{
    struct uffd_msg msg;
    while (read(g->fd, &msg, sizeof(msg)) == sizeof(msg)) {
        if (msg.event == UFFD_EVENT_UNMAP || msg.event == UFFD_EVENT_REMOVE)
            put_off(g, (uintptr_t)msg.arg.remove.start, (uintptr_t)msg.arg.remove.end);
        else if (msg.event == UFFD_EVENT_REMAP)
            put_off(g, (uintptr_t)msg.arg.remap.from, (uintptr_t)(msg.arg.remap.from + msg.arg.remap.len));
    }
}

static void *run(void *arg)
{
    struct fl_guard *g = arg;
    struct pollfd fds[] = {{.fd = g->fd, .events = POLLIN}, {.fd = g->stop_fd, .events = POLLIN}};
    pthread_setname_np(pthread_self(), "farlane-guard");
    for (;;) {
        if (poll(fds, 2, g->nr_pending ? RETRY_MS : -1) < 0 && errno != EINTR)
            return NULL;
        if (fds[1].revents)
            return NULL;
        bool begun = g->ops->begin(g->arg);
        read_events(g);
        if (!begun)
            continue;
        for (; g->nr_pending; g->nr_pending--) {
            const struct range *r = &g->pending[g->nr_pending - 1];
            g->ops->gone(g->arg, r->from, r->to);
        }
        g->ops->end(g->arg);
    }
}

static int open_uffd(void)
{
    struct uffdio_api api = {.api = UFFD_API,
                             .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP};
    int fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY);
    if (fd < 0)
        return -errno;
    if (ioctl(fd, UFFDIO_API, &api) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

static int start_thread(struct fl_guard *g)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = pthread_create(&g->thread, NULL, run, g);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -r;
}

int fl_guard_create(const struct fl_guard_ops *ops, void *arg, struct fl_guard **guard)
{
    struct fl_guard *g = calloc(1, sizeof(*g));
    if (!g)
        return -ENOMEM;
    int r = g->fd = open_uffd();
    if (r < 0)
        goto free_guard;
    g->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (g->stop_fd < 0) {
        r = -errno;
        goto close_fd;
    }
    g->ops = ops;
    g->arg = arg;
    pthread_mutex_init(&g->lock, NULL);
    r = start_thread(g);
    if (r)
        goto close_stop_fd;
    *guard = g;
    return 0;

close_stop_fd:
    close(g->stop_fd);
close_fd:
    close(g->fd);
free_guard:
    free(g);
    return r;
}

void fl_guard_destroy(struct fl_guard *g)
{
    uint64_t one = 1;
    if (!g)
        return;
    if (write(g->stop_fd, &one, sizeof(one)) == sizeof(one))
        pthread_join(g->thread, NULL);
    close(g->fd); /* nothing is watched any more */
    close(g->stop_fd);
    fl_range_count_fini(&g->watched);
    pthread_mutex_destroy(&g->lock);
    free(g);
}

void fl_guard_forget(struct fl_guard *g)
{
    if (!g)
        return;
    close(g->fd);
    close(g->stop_fd);
}

static void page_range(const void *addr, size_t len, uintptr_t *from, uintptr_t *to)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    *from = (uintptr_t)addr & ~(page - 1);
    *to = fl_round_up((uintptr_t)addr + len, page);
}

bool fl_guard_add(struct fl_guard *g, const void *addr, size_t len)
{
    uintptr_t from, to;
    if (!g)
        return false;
    page_range(addr, len, &from, &to);
    /* Write protection, of which no page is given any: the only kind that takes no fault of its own. */
    struct uffdio_register range = {.range = {from, to - from}, .mode = UFFDIO_REGISTER_MODE_WP};
    pthread_mutex_lock(&g->lock);
    bool watched = !fl_range_count_add(&g->watched, from, to);
    if (watched && ioctl(g->fd, UFFDIO_REGISTER, &range) < 0)
        FL_DEBUG("registered memory at %p is not watched: %m", addr); /* files on disk, huge pages in part */
    pthread_mutex_unlock(&g->lock);
    return watched;
}

static void unwatch(void *arg, uintptr_t from, uintptr_t to)
{
    struct fl_guard *g = arg;
    struct uffdio_range range = {from, to - from};
    ioctl(g->fd, UFFDIO_UNREGISTER, &range); /* what is unmapped already is not watched either */
}

void fl_guard_del(struct fl_guard *g, const void *addr, size_t len)
{
    uintptr_t from, to;
    page_range(addr, len, &from, &to);
    pthread_mutex_lock(&g->lock);
    fl_range_count_del(&g->watched, from, to, unwatch, g);
    pthread_mutex_unlock(&g->lock);
}
