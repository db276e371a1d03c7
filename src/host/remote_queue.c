/* SPDX-License-Identifier: Apache-2.0 */
/* Life of an I/O queue: its connection, time, and sleeping. The I/Os themselves are in remote_io.c. */
#include "host/remote_queue.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define CLOCK_EVERY  64 /* polls between two looks at the clock */
#define DOWN_TICK_MS 50 /* while there is no connection, or something waits for its time */
#define SPIN_MAX_US  50

/* ---- time ---- */

static uint64_t scan_period_ns(const struct fl_remote_queue *q)
{
    return FL_MAX(q->remote->io_timeout_ms / FL_RQ_LOOKS, 1u) * FL_NS_PER_MS;
}

static uint32_t tick_ms(const struct fl_remote_queue *q)
{
    if (q->state != FL_RQ_LIVE || q->nr_later)
        return DOWN_TICK_MS;
    return (uint32_t)(scan_period_ns(q) / FL_NS_PER_MS);
}

/* What fl_queue_fd stands for, brought up to date. */
static void sync_fd(struct fl_remote_queue *q)
{
    uint32_t ms = q->state == FL_RQ_LOST ? 0 : tick_ms(q);

    fl_pollset_sync(&q->pollset, &q->link);
    if (ms != q->tick_ms) {
        struct timespec ts = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
        struct itimerspec its = {.it_interval = ts, .it_value = ts};

        timerfd_settime(q->timer_fd, 0, &its, NULL);
        q->tick_ms = ms;
    }
}

static void drain(int fd)
{
    uint64_t count;

    if (read(fd, &count, sizeof(count)) < 0)
        return; /* nothing in it */
}

/* ---- the connection ---- */

static void set_state(struct fl_remote_queue *q, enum fl_rq_state state)
{
    if (state < FL_RQ_LIVE && q->state == FL_RQ_LIVE)
        q->down_ns = fl_now_ns();
    q->state = state;
}

/* The connection is broken, or its association is over. */
static void go_down(struct fl_remote_queue *q, const char *why)
{
    fl_link_stop(&q->link);
    fl_rq_keep(q);
    q->nr_unsent = 0;
    set_state(q, FL_RQ_WAIT);
    q->failed_epoch = q->epoch;
    if (why && !q->creating)
        fl_remote_report_loss(q->remote, q->epoch, why);
    if (q->link.bad_memory)
        fl_rq_fail_bad(q); /* sent once more, they would break the next one, too */
}

static void go_live(struct fl_remote_queue *q)
{
    struct fl_remote *r = q->remote;
    struct fl_taken taken;

    for (uint32_t i = 0; i < q->nr_slots; i++)
        fl_link_bind(&q->link, &q->slots[i].req, i);
    fl_link_taken(&q->link, &taken);
    pthread_mutex_lock(&r->lock);
    q->taken = taken;
    q->was_live = true;
    fl_rq_limits(q, &r->facts);
    pthread_mutex_unlock(&r->lock);
    /* What this epoch's begin wrote is there by now, since it was written under the lock. Left in, it would
     * keep the caller awake for as long as the queue is healthy. poll_slow looks at the epoch after it. */
    drain(q->wake_fd);
    set_state(q, FL_RQ_LIVE);
    q->scan_ns = fl_now_ns() + scan_period_ns(q);
    fl_rq_resend(q);
}

static void start_connect(struct fl_remote_queue *q, uint32_t epoch, uint64_t now_ns)
{
    struct fl_remote *r = q->remote;
    struct fl_link_options o = {
        .addrs = r->addrs,
        .nr_addrs = r->nr_addrs,
        .rdma = r->rdma,
        .dev = r->dev,
        .hdgst = r->hdgst,
        .ddgst = r->ddgst,
        .qid = q->qid,
        .sqsize = (uint16_t)q->nr_slots,
        .nr_reqs = q->nr_slots,
        .timeout_ms = r->connect_timeout_ms,
        .hostid = r->who.id.b,
        .hostnqn = r->who.nqn,
        .subnqn = r->subnqn,
    };

    pthread_mutex_lock(&r->lock);
    o.cntlid = r->facts.cntlid;
    o.capsule_len = r->facts.capsule_len;
    o.max_pieces = r->facts.max_pieces;
    o.max_data_len = r->facts.max_xfer;
    pthread_mutex_unlock(&r->lock);
    q->epoch = epoch;
    set_state(q, FL_RQ_CONNECT);
    fl_link_start(&q->link, &o, &fl_rq_ops, now_ns); /* a failure shows in the step */
}

/* A queue of this identifier was closed a moment ago, and the target has not come to take note of it: Linux's
 * nvmet answers Connect with Command Sequence Error until then. */
static bool is_still_held(const struct fl_remote_queue *q, uint64_t now_ns)
{
    return q->creating && fl_nvme_status_code(q->link.nvme_status) == FL_NVME_SC_CMD_SEQ_ERROR &&
           now_ns < q->create_end_ns;
}

static void step_connect(struct fl_remote_queue *q, uint64_t now_ns)
{
    int n = q->link.err.code ? q->link.err.code : fl_link_step(&q->link, now_ns);

    if (n > 0) {
        go_live(q);
    } else if (n < 0 && is_still_held(q, now_ns)) {
        fl_link_stop(&q->link);
        set_state(q, FL_RQ_WAIT);
    } else if (n < 0) {
        char why[sizeof(q->link.err.text) + 32];

        fl_error_set(&q->err, n, "%s", q->link.err.text);
        snprintf(why, sizeof(why), "I/O queue %u: %s", q->qid, q->link.err.text);
        go_down(q, why);
    }
}

/* ---- polling ---- */

static void lose(struct fl_remote_queue *q)
{
    if (q->state != FL_RQ_LOST) {
        fl_link_stop(&q->link);
        fl_rq_keep(q);
        set_state(q, FL_RQ_LOST);
    }
    fl_rq_fail_all(q, -ENODEV);
}

static bool fails_fast(const struct fl_remote_queue *q, uint64_t now_ns)
{
    return q->remote->fast_fail_ms != UINT32_MAX && q->state < FL_RQ_LIVE && now_ns > q->down_ns &&
           now_ns - q->down_ns >= q->remote->fast_fail_ms * FL_NS_PER_MS;
}

/* Everything but a healthy queue. */
static int poll_slow(struct fl_remote_queue *q)
{
    struct fl_remote *r = q->remote;
    uint64_t now_ns = fl_now_ns();
    uint32_t epoch;

    drain(q->wake_fd); /* before the look at what it tells of */
    if (q->fd_used)
        drain(q->timer_fd);
    epoch = fl_remote_epoch(r);
    if (__atomic_load_n(&r->lost, __ATOMIC_ACQUIRE)) {
        lose(q);
        return -ENODEV;
    }
    if (q->state >= FL_RQ_CONNECT && epoch != q->epoch)
        go_down(q, NULL);
    if (q->state == FL_RQ_WAIT && (epoch & 1) && epoch != q->failed_epoch)
        start_connect(q, epoch, now_ns);
    if (q->state == FL_RQ_CONNECT)
        step_connect(q, now_ns);
    if (q->state == FL_RQ_LIVE && fl_remote_epoch(r) != q->epoch)
        go_down(q, NULL); /* go_live may have taken that wake-up, too */
    if (q->state == FL_RQ_LIVE) {
        if (fl_link_io(&q->link) < 0)
            go_down(q, q->link.err.text);
    } else if (fails_fast(q, now_ns) && !q->creating) {
        fl_rq_fail_all(q, -ENOLINK);
    }
    return 0;
}

static void check_time(struct fl_remote_queue *q)
{
    uint64_t now_ns = fl_now_ns();
    struct fl_slot *late;

    if (q->nr_later)
        fl_rq_send_later(q, now_ns);
    if (now_ns < q->scan_ns)
        return;
    if (q->fd_used)
        drain(q->timer_fd);
    q->scan_ns = now_ns + scan_period_ns(q);
    late = fl_rq_scan(q);
    if (late) {
        char what[FL_IO_TEXT_LEN], why[FL_IO_TEXT_LEN + 64];

        fl_io_text(late->io, q->base.dev->block_len, what);
        snprintf(why, sizeof(why), "%s: no answer within %u ms", what, q->remote->io_timeout_ms);
        go_down(q, why);
    }
}

static int rq_poll(struct fl_queue *queue)
{
    struct fl_remote_queue *q = fl_remote_queue_of(queue);
    int r = 0;

    if (fl_likely(q->state == FL_RQ_LIVE && q->epoch == fl_remote_epoch(q->remote))) {
        if (fl_unlikely(q->nr_unsent))
            fl_rq_note_sent(q);
        if (fl_unlikely(fl_link_io(&q->link) < 0))
            go_down(q, q->link.err.text);
        else if (fl_unlikely(++q->idle_polls >= CLOCK_EVERY || q->fd_used)) {
            q->idle_polls = 0;
            check_time(q);
        }
    } else {
        r = poll_slow(q);
    }
    if (fl_unlikely(q->fd_used)) {
        /* The caller sleeps when nothing completed: a command that goes out once more must not wait here. */
        if (q->state == FL_RQ_LIVE && fl_link_send(&q->link) < 0)
            go_down(q, "send to the target failed");
        while (q->state == FL_RQ_LIVE && fl_link_arm(&q->link)) /* it came before the descriptor would tell */
            if (fl_link_io(&q->link) < 0)
                go_down(q, q->link.err.text);
        sync_fd(q);
    }
    return r;
}

/* ---- sleeping ---- */

static int sleep_on(struct fl_remote_queue *q, int timeout_ms)
{
    struct pollfd p[FL_LINK_MAX_FDS + 1];
    int nr, tick = (int)tick_ms(q);

    if (timeout_ms && fl_link_arm(&q->link))
        return 1;
    nr = fl_link_pollfds(&q->link, p);
    p[nr] = (struct pollfd){.fd = q->wake_fd, .events = POLLIN};
    if (poll(p, (nfds_t)nr + 1, timeout_ms < 0 ? tick : FL_MIN(timeout_ms, tick)) != 0)
        return 1;
    q->idle_polls = CLOCK_EVERY; /* the next poll looks at the clock */
    return timeout_ms < 0 || timeout_ms > tick;
}

/* Polls for a while before sleeping: as long as that has lately paid. */
static bool spin(struct fl_remote_queue *q)
{
    uint64_t end_ns = fl_now_ns() + q->spin_us * FL_NS_PER_US;

    do {
        if (fl_link_peek(&q->link)) {
            q->spin_us = FL_MIN(q->spin_us * 2, (uint32_t)SPIN_MAX_US);
            return true;
        }
    } while (fl_now_ns() < end_ns);
    q->spin_us = FL_MAX(q->spin_us / 2, 1u);
    return false;
}

static int rq_wait(struct fl_queue *queue, int timeout_ms)
{
    struct fl_remote_queue *q = fl_remote_queue_of(queue);

    if (q->state == FL_RQ_LOST || q->epoch != fl_remote_epoch(q->remote))
        return q->state == FL_RQ_LOST ? q->base.nr_ios != 0 : sleep_on(q, timeout_ms);
    if (q->state == FL_RQ_LIVE) {
        if (fl_link_send(&q->link) < 0)
            return 1; /* a poll will see it */
        fl_rq_note_sent(q);
        if (timeout_ms && spin(q))
            return 1;
    }
    return sleep_on(q, timeout_ms);
}

static int rq_fd(struct fl_queue *queue)
{
    struct fl_remote_queue *q = fl_remote_queue_of(queue);
    struct epoll_event ev = {.events = EPOLLIN};
    int r;

    if (q->fd_used)
        return q->pollset.epfd;
    r = fl_pollset_init(&q->pollset);
    if (r < 0)
        return r;
    q->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (q->timer_fd < 0 || epoll_ctl(q->pollset.epfd, EPOLL_CTL_ADD, q->timer_fd, &ev) < 0 ||
        epoll_ctl(q->pollset.epfd, EPOLL_CTL_ADD, q->wake_fd, &ev) < 0) {
        r = -errno;
        if (q->timer_fd >= 0)
            close(q->timer_fd);
        fl_pollset_fini(&q->pollset);
        return r;
    }
    q->fd_used = true;
    sync_fd(q);
    return q->pollset.epfd;
}

/* ---- create and destroy ---- */

static void rq_destroy(struct fl_queue *queue)
{
    struct fl_remote_queue *q = fl_remote_queue_of(queue);
    struct fl_remote *r = q->remote;

    fl_link_stop(&q->link);
    fl_rq_keep(q);
    q->state = FL_RQ_LOST;
    q->base.depth = 0; /* completions submit in vain */
    if (q->slots)
        fl_rq_fail_all(q, -ECANCELED);
    pthread_mutex_lock(&r->lock);
    fl_list_del(&q->link_queues);
    r->qid_used[q->qid] = false;
    pthread_mutex_unlock(&r->lock);
    if (q->fd_used) {
        close(q->timer_fd);
        fl_pollset_fini(&q->pollset);
    }
    if (q->wake_fd >= 0)
        close(q->wake_fd);
    free(q->slots);
    free(q->unsent);
    free(q->free);
    free(q);
}

static const struct fl_queue_ops ops = {
    .destroy = rq_destroy,
    .submit = fl_rq_submit,
    .poll = rq_poll,
    .wait = rq_wait,
    .fd = rq_fd,
};

void fl_remote_queues_wake(struct fl_remote *r)
{
    struct fl_remote_queue *q;

    fl_list_for_each (q, &r->queues, link_queues) {
        uint64_t one = 1;

        if (write(q->wake_fd, &one, sizeof(one)) < 0)
            continue; /* full: it will wake anyway */
    }
}

void fl_remote_queues_taken(struct fl_remote *r, struct fl_taken *taken)
{
    struct fl_remote_queue *q;
    bool any = false;

    fl_list_for_each (q, &r->queues, link_queues) {
        if (!q->was_live)
            continue;
        fl_taken_again(&q->taken);
        if (!any || q->taken.path > taken->path)
            *taken = q->taken;
        any = true;
    }
}

/* A queue identifier, and how deep the queue may be. Puts q on the controller's list, so that it is woken. */
static int register_queue(struct fl_remote_queue *q, uint32_t depth, struct fl_error *err)
{
    struct fl_remote *r = q->remote;
    const struct fl_remote_facts *f = &r->facts;
    uint32_t qid, tried = 0, nr_slots = FL_MIN(depth, (uint32_t)FL_REQUESTS_MAX - 1);

    pthread_mutex_lock(&r->lock);
    qid = r->last_qid;
    do
        qid = qid < f->nr_queues ? qid + 1 : 1;
    while (++tried <= f->nr_queues && r->qid_used[qid]);
    if (tried > f->nr_queues) {
        pthread_mutex_unlock(&r->lock);
        return fl_error_set(err, -EMFILE, "the target granted %u I/O queues and all are in use",
                            f->nr_queues);
    }
    r->qid_used[qid] = true;
    r->last_qid = qid;
    fl_list_add_tail(&r->queues, &q->link_queues);
    q->qid = (uint16_t)qid;
    q->nsid = f->nsid;
    q->block_shift = (uint32_t)__builtin_ctz(f->block_len);
    nr_slots = FL_MIN(nr_slots, f->nr_entries - 1);
    if (f->max_cmds)
        nr_slots = FL_MIN(nr_slots, f->max_cmds);
    pthread_mutex_unlock(&r->lock);
    if (r->want_entries > 1)
        nr_slots = FL_MIN(nr_slots, r->want_entries - 1);
    q->nr_slots = nr_slots;
    return 0;
}

static int make_slots(struct fl_remote_queue *q)
{
    if (posix_memalign((void **)&q->slots, FL_CACHE_LINE, q->nr_slots * sizeof(q->slots[0]))) {
        q->slots = NULL;
        q->nr_slots = 0;
        return -ENOMEM;
    }
    memset(q->slots, 0, q->nr_slots * sizeof(q->slots[0]));
    q->free = calloc(q->nr_slots, sizeof(q->free[0]));
    q->unsent = calloc(q->nr_slots, sizeof(q->unsent[0]));
    if (!q->free || !q->unsent)
        return -ENOMEM;
    for (uint32_t i = 0; i < q->nr_slots; i++) {
        q->slots[i].req.pdu.sqe.nsid = le32_of(q->nsid);
        fl_list_init(&q->slots[i].req.link);
        q->free[q->nr_free++] = q->nr_slots - 1 - i;
    }
    return 0;
}

static int connect_first(struct fl_remote_queue *q, struct fl_error *err)
{
    struct fl_remote *r = q->remote;

    q->create_end_ns = fl_now_ns() + r->connect_timeout_ms * FL_NS_PER_MS;
    q->creating = true;
    while (q->state != FL_RQ_LIVE) {
        if (poll_slow(q) < 0) {
            pthread_mutex_lock(&r->lock);
            fl_error_set(err, -ENODEV, "%s was given up as lost: %s", r->name, r->reason);
            pthread_mutex_unlock(&r->lock);
            return -ENODEV;
        }
        if (q->err.code)
            return fl_error_set(err, q->err.code, "I/O queue %u of %s: %s", q->qid, r->name, q->err.text);
        if (q->state == FL_RQ_LIVE)
            break;
        if (q->state == FL_RQ_WAIT && fl_now_ns() >= q->create_end_ns)
            return fl_error_set(err, -ENOLINK, "%s cannot be reached now", r->name);
        sleep_on(q, DOWN_TICK_MS);
    }
    q->creating = false;
    return 0;
}

int fl_remote_queue_create(struct fl_device *dev, uint32_t depth, struct fl_queue **queue,
                           struct fl_error *err)
{
    struct fl_remote_queue *q = calloc(1, sizeof(*q));
    int r;

    if (!q)
        return fl_error_set(err, -ENOMEM, "out of memory");
    q->base.ops = &ops;
    q->base.dev = dev;
    q->remote = fl_remote_of(dev);
    q->link.fd = -1;
    q->spin_us = SPIN_MAX_US;
    q->down_ns = fl_now_ns();
    fl_list_init(&q->pending);
    fl_list_init(&q->link_queues);
    q->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    r = q->wake_fd < 0 ? fl_error_set(err, -errno, "eventfd: %s", strerror(errno))
                       : register_queue(q, depth, err);
    if (r == 0 && make_slots(q) < 0)
        r = fl_error_set(err, -ENOMEM, "out of memory");
    if (r == 0)
        r = connect_first(q, err);
    if (r < 0) {
        rq_destroy(&q->base);
        return r;
    }
    *queue = &q->base;
    return 0;
}
