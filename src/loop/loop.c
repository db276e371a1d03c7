/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/loop.h"

#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "loop/timer.h"

#define NR_EVENTS         64
#define DEFAULT_BUDGET_US 50
/* How often a loop that does not sleep looks at epoll: every so many turns with work, and without. */
#define EPOLL_EVERY_BUSY 16
#define EPOLL_EVERY_IDLE 4
#define EPOLL_LEAST_NS   1000 /* and not sooner after the last look, where turns are short */
/* Learning: share of idle periods, in 1/1024, that ended within the budget; below it, polling is not worth
 * its power. */
#define HITS_ALL   1024
#define HITS_WORTH 128

struct fl_loop {
    struct fl_loop_options options;
    uint64_t budget_ns;
    int epoll_fd;
    uint64_t now;

    struct fl_list pollers;
    struct fl_poller *next_poller; /* of the walk in progress: survives the removal of any poller */
    struct fl_timer_heap timers;

    struct epoll_event events[NR_EVENTS];
    int nr_events, event; /* of the dispatch in progress: a watch that goes is struck out */

    uint64_t idle_since; /* 0: the last turn had work */
    uint64_t awake_until;
    uint64_t busy_ns;
    uint32_t turns_to_epoll;
    uint64_t epoll_at; /* the last look */
    uint32_t hits;     /* moving average, see HITS_ALL */
    bool no_pwait2;

    struct fl_mpsc msgs;
    struct fl_watch wake; /* eventfd */
    _Atomic(int) sleeping;
    _Atomic(bool) stop;
};

static _Thread_local struct fl_loop *current;

static void drain_wake(struct fl_watch *watch, uint32_t events)
{
    uint64_t count;

    while (read(watch->fd, &count, sizeof(count)) < 0 && errno == EINTR)
        ;
}

int fl_loop_create(const struct fl_loop_options *options, struct fl_loop **out)
{
    struct fl_loop *loop = calloc(1, sizeof(*loop));
    int r;

    if (!loop)
        return -ENOMEM;
    loop->options = options ? *options : (struct fl_loop_options){.cpu = -1};
    if (!loop->options.budget_us)
        loop->options.budget_us = DEFAULT_BUDGET_US;
    loop->budget_ns = loop->options.budget_us * 1000ull;
    loop->hits = HITS_ALL;
    loop->now = fl_now_ns();
    fl_list_init(&loop->pollers);
    fl_mpsc_init(&loop->msgs);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0) {
        r = -errno;
        goto free_loop;
    }
    loop->wake = (struct fl_watch){.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), .ready = drain_wake};
    if (loop->wake.fd < 0) {
        r = -errno;
        goto close_epoll;
    }
    r = fl_watch_add(loop, &loop->wake, EPOLLIN);
    if (r < 0)
        goto close_wake;
    *out = loop;
    return 0;

close_wake:
    close(loop->wake.fd);
close_epoll:
    close(loop->epoll_fd);
free_loop:
    free(loop);
    return r;
}

void fl_loop_destroy(struct fl_loop *loop)
{
    if (!loop)
        return;
    assert(fl_list_empty(&loop->pollers));
    close(loop->wake.fd);
    close(loop->epoll_fd);
    fl_timer_heap_fini(&loop->timers);
    if (current == loop)
        current = NULL;
    free(loop);
}

/* ---- descriptors ---- */

static int control_epoll(struct fl_loop *loop, int op, struct fl_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};

    return epoll_ctl(loop->epoll_fd, op, watch->fd, &event) < 0 ? -errno : 0;
}

int fl_watch_add(struct fl_loop *loop, struct fl_watch *watch, uint32_t events)
{
    int r = control_epoll(loop, EPOLL_CTL_ADD, watch, events);

    if (r < 0)
        return r;
    watch->loop = loop;
    watch->events = events;
    return 0;
}

int fl_watch_set(struct fl_watch *watch, uint32_t events)
{
    int r;

    if (watch->events == events)
        return 0;
    r = control_epoll(watch->loop, EPOLL_CTL_MOD, watch, events);
    if (r == 0)
        watch->events = events;
    return r;
}

void fl_watch_del(struct fl_watch *watch)
{
    struct fl_loop *loop = watch->loop;

    if (!loop)
        return;
    (void)control_epoll(loop, EPOLL_CTL_DEL, watch, 0);
    for (int i = loop->event; i < loop->nr_events; i++)
        if (loop->events[i].data.ptr == watch)
            loop->events[i].data.ptr = NULL;
    watch->loop = NULL;
}

static int dispatch_events(struct fl_loop *loop, int nr)
{
    loop->nr_events = nr;
    for (loop->event = 0; loop->event < loop->nr_events;) {
        struct epoll_event *event = &loop->events[loop->event++];
        struct fl_watch *watch = event->data.ptr;

        if (watch)
            watch->ready(watch, event->events);
    }
    loop->nr_events = 0;
    return nr;
}

/* ---- pollers ---- */

void fl_poller_add(struct fl_loop *loop, struct fl_poller *poller)
{
    poller->loop = loop;
    fl_list_add_tail(&loop->pollers, &poller->link);
}

void fl_poller_del(struct fl_poller *poller)
{
    struct fl_loop *loop = poller->loop;

    if (!loop)
        return;
    if (loop->next_poller == poller) {
        struct fl_list *next = poller->link.next;

        loop->next_poller = next == &loop->pollers ? NULL : FL_CONTAINER_OF(next, struct fl_poller, link);
    }
    fl_list_del(&poller->link);
    poller->loop = NULL;
}

static int run_pollers(struct fl_loop *loop)
{
    struct fl_list *first = loop->pollers.next;
    int work = 0;

    loop->next_poller = first == &loop->pollers ? NULL : FL_CONTAINER_OF(first, struct fl_poller, link);
    while (loop->next_poller) {
        struct fl_poller *poller = loop->next_poller;
        struct fl_list *next = poller->link.next;

        loop->next_poller = next == &loop->pollers ? NULL : FL_CONTAINER_OF(next, struct fl_poller, link);
        work += poller->poll(poller);
    }
    return work;
}

/* ---- timers ---- */

int fl_timer_set(struct fl_loop *loop, struct fl_timer *timer, uint64_t deadline_ns)
{
    assert(!timer->heap_index || timer->loop == loop);
    timer->loop = loop;
    return fl_timer_heap_set(&loop->timers, timer, deadline_ns);
}

void fl_timer_cancel(struct fl_timer *timer)
{
    if (timer->heap_index)
        fl_timer_heap_remove(&timer->loop->timers, timer);
}

static bool timer_is_due(struct fl_loop *loop)
{
    struct fl_timer *timer = fl_timer_heap_first(&loop->timers);

    return timer && timer->deadline_ns <= loop->now;
}

static int run_timers(struct fl_loop *loop)
{
    struct fl_timer *timer;
    int work = 0;

    /* A timer that is set again for now or earlier waits for the next turn, so that it cannot keep the loop
     * here. */
    for (uint32_t left = loop->timers.nr; left && (timer = fl_timer_heap_first(&loop->timers)); left--) {
        if (timer->deadline_ns > loop->now)
            break;
        fl_timer_heap_remove(&loop->timers, timer);
        timer->expired(timer);
        work++;
    }
    return work;
}

/* ---- messages ---- */

static void wake_up(struct fl_loop *loop)
{
    uint64_t one = 1;
    ssize_t n = write(loop->wake.fd, &one, sizeof(one));

    (void)n; /* EAGAIN: 2^64-2 wake-ups are pending, so it wakes up */
}

void fl_loop_post(struct fl_loop *loop, struct fl_msg *msg)
{
    fl_mpsc_push(&loop->msgs, &msg->node);
    /* Both sides modify 'sleeping', so one comes first: either this sees that the loop sleeps, or the loop,
     * whose exchange then acquires what was released here, sees the message. */
    if (atomic_fetch_or_explicit(&loop->sleeping, 0, memory_order_acq_rel))
        wake_up(loop);
}

static int run_messages(struct fl_loop *loop)
{
    struct fl_mpsc_node *node;
    int work = 0;

    while (work < 256 && (node = fl_mpsc_pop(&loop->msgs))) {
        struct fl_msg *msg = FL_CONTAINER_OF(node, struct fl_msg, node);

        msg->run(msg);
        work++;
    }
    return work;
}

/* ---- turning ---- */

static int wait_events(struct fl_loop *loop, uint64_t wait_ns)
{
    int n;

    if (wait_ns && !loop->no_pwait2) {
        struct timespec ts = {.tv_sec = (time_t)(wait_ns / 1000000000),
                              .tv_nsec = (long)(wait_ns % 1000000000)};

        n = epoll_pwait2(loop->epoll_fd, loop->events, NR_EVENTS, wait_ns == UINT64_MAX ? NULL : &ts, NULL);
        if (n >= 0 || errno != ENOSYS)
            return n < 0 && errno != EINTR ? -errno : n < 0 ? 0 : n;
        loop->no_pwait2 = true; /* before Linux 5.11 */
    }
    if (wait_ns != UINT64_MAX)
        wait_ns = (wait_ns + 999999) / 1000000;
    n = epoll_wait(loop->epoll_fd, loop->events, NR_EVENTS, wait_ns > 86400000 ? -1 : (int)wait_ns);
    return n < 0 && errno != EINTR ? -errno : n < 0 ? 0 : n;
}

static int look_at_epoll(struct fl_loop *loop)
{
    int n = wait_events(loop, 0);

    loop->epoll_at = loop->now;
    return n <= 0 ? n : dispatch_events(loop, n);
}

static int sleep_until_ready(struct fl_loop *loop, uint64_t max_wait_ns)
{
    struct fl_timer *timer = fl_timer_heap_first(&loop->timers);
    int n;

    if (timer) {
        uint64_t now = fl_now_ns(); /* the turn may have taken long */
        uint64_t left = timer->deadline_ns > now ? timer->deadline_ns - now : 0;

        max_wait_ns = FL_MIN(max_wait_ns, left);
    }
    atomic_exchange_explicit(&loop->sleeping, 1, memory_order_acq_rel); /* pairs with fl_loop_post */
    if (!fl_mpsc_empty(&loop->msgs) || atomic_load_explicit(&loop->stop, memory_order_relaxed))
        max_wait_ns = 0;
    n = wait_events(loop, max_wait_ns);
    atomic_exchange_explicit(&loop->sleeping, 0, memory_order_acq_rel);
    loop->now = fl_now_ns();
    return n <= 0 ? n : dispatch_events(loop, n);
}

/* Work came back after an idle time: was it short enough for polling to pay? */
static void learn(struct fl_loop *loop)
{
    uint64_t gap = loop->now - loop->idle_since;

    loop->hits -= loop->hits / 16;
    if (gap <= loop->budget_ns)
        loop->hits += HITS_ALL / 16;
    loop->idle_since = 0;
}

static bool may_sleep(const struct fl_loop *loop)
{
    switch (loop->options.poll) {
    case FL_POLL_BUSY:
        return false;
    case FL_POLL_SLEEP:
        return true;
    case FL_POLL_ADAPTIVE:
        break;
    }
    if (loop->now < loop->awake_until)
        return false;
    return loop->hits < HITS_WORTH || loop->now - loop->idle_since >= loop->budget_ns;
}

static bool epoll_is_due(struct fl_loop *loop)
{
    if (loop->turns_to_epoll) {
        loop->turns_to_epoll--;
        return false;
    }
    return loop->now - loop->epoll_at >= EPOLL_LEAST_NS;
}

int fl_loop_turn(struct fl_loop *loop, uint64_t max_wait_ns)
{
    uint64_t before = loop->now;
    int work = 0, r;

    current = loop;
    loop->now = fl_now_ns();
    if (!loop->idle_since)
        __atomic_store_n(&loop->busy_ns, loop->busy_ns + (loop->now - before), __ATOMIC_RELAXED);
    if (!fl_mpsc_empty(&loop->msgs))
        work += run_messages(loop);
    work += run_pollers(loop);
    /* What has come is read before a deadline is judged: a thread that did not get to run for a while must
     * not take for silence what lies in a socket. */
    if (epoll_is_due(loop) || fl_list_empty(&loop->pollers) || timer_is_due(loop)) {
        r = look_at_epoll(loop);
        if (r < 0)
            return r;
        work += r;
        loop->turns_to_epoll = work ? EPOLL_EVERY_BUSY : EPOLL_EVERY_IDLE;
    }
    if (loop->timers.nr)
        work += run_timers(loop);
    if (!work && !loop->idle_since) {
        loop->idle_since = loop->now;
        if (loop->turns_to_epoll > EPOLL_EVERY_IDLE)
            loop->turns_to_epoll = EPOLL_EVERY_IDLE;
    } else if (!work && max_wait_ns && may_sleep(loop)) {
        work = sleep_until_ready(loop, max_wait_ns);
        loop->turns_to_epoll = EPOLL_EVERY_IDLE;
    }
    if (work > 0 && loop->idle_since)
        learn(loop);
    return work;
}

static void bind_to_cpu(int cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        FL_WARN("cannot bind a loop to CPU %d (errno %d); it runs unbound", cpu, errno);
}

int fl_loop_run(struct fl_loop *loop)
{
    int r = 0;

    if (loop->options.cpu >= 0)
        bind_to_cpu(loop->options.cpu);
    while (r >= 0 && !atomic_load_explicit(&loop->stop, memory_order_relaxed))
        r = fl_loop_turn(loop, UINT64_MAX);
    atomic_store(&loop->stop, false);
    return r < 0 ? r : 0;
}

void fl_loop_stop(struct fl_loop *loop)
{
    atomic_store(&loop->stop, true);
    wake_up(loop);
}

uint64_t fl_loop_now(const struct fl_loop *loop)
{
    return loop->now;
}

void fl_loop_stay_awake(struct fl_loop *loop, uint64_t until_ns)
{
    loop->awake_until = FL_MAX(loop->awake_until, until_ns);
}

bool fl_loop_sleeps(const struct fl_loop *loop)
{
    return loop->options.poll != FL_POLL_BUSY;
}

uint64_t fl_loop_busy_ns(const struct fl_loop *loop)
{
    return __atomic_load_n(&loop->busy_ns, __ATOMIC_RELAXED);
}

struct fl_loop *fl_loop_current(void)
{
    return current;
}
