/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RNIC's own thread: it drives while no thread of the program does, so that one-sided operations go on
 * while the program sleeps or computes. Either it watches the port and sleeps until a packet comes, or, while
 * a program polls, it sleeps by the clock alone and looks now and then whether that is still so.
 */
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"
#include "base/try.h"
#include "rnic/device.h"
#include "rnic/rnic.h"
#include "rnic/stats/server.h"

#define POLLING_NS (100 * FL_NS_PER_US) /* a program that polled within this time drives */
/* One that has polled so far may be off its CPU for a moment, perhaps since this thread has it. To drive in
 * its place then is of no use, and when this thread is off its CPU with the lock, the program waits for a
 * time slice. */
#define STEADY_NS  FL_NS_PER_MS
#define LOOK_MIN   (200 * FL_NS_PER_US) /* how long to leave it to that program: longer each time */
#define LOOK_MAX   FL_NS_PER_MS
#define LOOK_ARMED (400 * FL_NS_PER_US)
#define MANY_LOOKS 32 /* that have found it polling: it will */
/* A look then takes no interrupt of its own but comes with a tick of the CPU's clock, which comes anyway
 * where a program polls (every 4 ms at the longest, as kernels are built): in a virtual machine a timer and
 * the look cost some 45 us, and the program waits for as long. */
#define LOOK_STEADY (2 * FL_NS_PER_MS)
#define TICK_NS     (4 * FL_NS_PER_MS)
#define SPIN_NS                                                                                \
    (50 * FL_NS_PER_US) /* the thread looks for so long after the last packet before it sleeps \
                         */

static int open_netlink(void)
{
    struct sockaddr_nl addr = {.nl_family = AF_NETLINK,
                               .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);
    if (fd < 0)
        return -errno;
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) < 0) {
        int r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

static int watch_fd(struct fl_rnic *rnic, int fd)
{
    struct epoll_event ev = {.events = EPOLLIN, .data.fd = fd};
    return epoll_ctl(rnic->epoll_fd, EPOLL_CTL_ADD, fd, &ev) < 0 ? -errno : 0;
}

/* Under the lock. A client's descriptor is watched together with the port. */
static void watch_port(struct fl_rnic *rnic, bool on)
{
    struct fl_rnic_client *client;
    struct epoll_event ev = {.events = on ? EPOLLIN : 0, .data.fd = fl_port_wait_fd(rnic->port)};
    if (rnic->port_watched == on)
        return;
    __atomic_store_n(&rnic->port_watched, on, __ATOMIC_SEQ_CST);
    epoll_ctl(rnic->epoll_fd, EPOLL_CTL_MOD, ev.data.fd, &ev);
    fl_list_for_each (client, &rnic->clients, link) {
        ev.data.fd = client->wait_fd;
        if (client->wait_fd >= 0)
            epoll_ctl(rnic->epoll_fd, EPOLL_CTL_MOD, client->wait_fd, &ev);
    }
}

void fl_rnic_thread_add_fd(struct fl_rnic *rnic, int fd)
{
    struct epoll_event ev = {.events = rnic->port_watched ? EPOLLIN : 0, .data.fd = fd};
    if (fd >= 0)
        epoll_ctl(rnic->epoll_fd, EPOLL_CTL_ADD, fd, &ev);
}

void fl_rnic_thread_del_fd(struct fl_rnic *rnic, int fd)
{
    if (fd >= 0)
        epoll_ctl(rnic->epoll_fd, EPOLL_CTL_DEL, fd, NULL);
}

static void wake(struct fl_rnic *rnic)
{
    uint64_t one = 1;
    ssize_t n = write(rnic->wake_fd, &one, sizeof(one));
    (void)n; /* full: it is awake */
}

void fl_rnic_wake_by(struct fl_rnic *rnic, uint64_t deadline)
{
    uint64_t till = __atomic_load_n(&rnic->sleeps_till, __ATOMIC_RELAXED);
    if (till && deadline < till) {
        /* once; it says anew until when when it goes to sleep again */
        __atomic_store_n(&rnic->sleeps_till, deadline, __ATOMIC_RELAXED);
        wake(rnic);
    }
}

void fl_rnic_watch(struct fl_rnic *rnic)
{
    /* Who polls another queue says so again soon. */
    __atomic_store_n(&rnic->refused, false, __ATOMIC_RELAXED);
    __atomic_store_n(&rnic->polled_at, 0, __ATOMIC_SEQ_CST);
    fl_rnic_resume(rnic);
}

/* Peers write a WAKE once and then take us for awake until a ring's reader says that it sleeps, which only
 * the thread does. A program that has read rings since the thread went to sleep has also read what would have
 * woken it. */
void fl_rnic_resume(struct fl_rnic *rnic)
{
    wake(rnic);
}

static void read_netlink(struct fl_rnic *rnic)
{
    char buf[8192];
    bool any = false;
    for (;;) {
        ssize_t n = recv(rnic->netlink_fd, buf, sizeof(buf), 0);
        if (n < 0 && errno == ENOBUFS) /* some were lost: there were some */
            n = 1;
        if (n <= 0)
            break;
        any = true;
    }
    if (any)
        fl_devices_scan();
}

/* When to look again whether a program polls that did now */
struct look {
    uint64_t after;
    uint32_t nr; /* in a row that found it polling */
    bool lax;    /* timers of this thread may be late by TICK_NS */
};

static bool is_steady(const struct look *look)
{
    return look->nr >= MANY_LOOKS;
}

/* Each look takes the CPU from the program for a while. Where somebody waits for an event, a program that
 * stops polling is noticed sooner, unless it has polled for long. */
static uint64_t next_look(const struct fl_rnic *rnic, struct look *look)
{
    uint64_t after = look->after, max = LOOK_MAX;
    if (is_steady(look))
        return LOOK_STEADY;
    look->nr++;
    if (__atomic_load_n(&rnic->nr_armed, __ATOMIC_RELAXED))
        max = LOOK_ARMED;
    look->after = FL_MIN(after * 2, max);
    return after;
}

/* Others wake the thread for what is due before. */
static void say_till(struct fl_rnic *rnic, uint64_t till, const struct look *look)
{
    if (is_steady(look) && till != FL_ROCE_NEVER)
        till += TICK_NS;
    __atomic_store_n(&rnic->sleeps_till, till, __ATOMIC_RELAXED);
}

/* Does a thread of the program drive, or did it try while we did? Without the lock. */
static bool program_polls(struct fl_rnic *rnic, uint64_t now, uint64_t within)
{
    if (__atomic_load_n(&rnic->refused, __ATOMIC_RELAXED)) {
        __atomic_store_n(&rnic->refused, false, __ATOMIC_RELAXED);
        __atomic_store_n(&rnic->polled_at, now, __ATOMIC_RELAXED);
    }
    uint64_t polled = __atomic_load_n(&rnic->polled_at, __ATOMIC_SEQ_CST);
    return polled && (int64_t)(now - polled) < (int64_t)within;
}

/* A program drives, as it did: nothing to do but to look again later. The lock is left alone: who holds it
 * may be waiting for this very CPU. */
static bool leave_alone(struct fl_rnic *rnic, struct look *look, uint64_t *till)
{
    uint64_t now = fl_now_ns();
    if (__atomic_load_n(&rnic->port_watched, __ATOMIC_SEQ_CST) || !program_polls(rnic, now, STEADY_NS))
        return false;
    *till = now + next_look(rnic, look);
    say_till(rnic, *till, look);
    return true;
}

/* How long to sleep, and for what. look: how long to leave it to a program that polls. */
static uint64_t plan_sleep(struct fl_rnic *rnic, bool polled, struct look *look)
{
    uint64_t till;
    if (polled) {
        watch_port(rnic, false);
        till = rnic->now + next_look(rnic, look); /* deadlines, too, are the business of who polls */
    } else {
        till = fl_rnic_deadline_locked(rnic); /* asks peers to wake us, so only where that is wanted */
        watch_port(rnic, true);
        look->after = LOOK_MIN;
        look->nr = 0;
    }
    say_till(rnic, till, look);
    return till;
}

static void set_slack(struct look *look)
{
    if (look->lax == is_steady(look))
        return;
    look->lax = is_steady(look);
    prctl(PR_SET_TIMERSLACK, look->lax ? TICK_NS : 0, 0, 0, 0); /* 0: as it was */
}

static void sleep_till(struct fl_rnic *rnic, uint64_t till, struct look *look)
{
    struct epoll_event events[8];
    uint64_t now = fl_now_ns(), drop;
    struct timespec ts = {0}, *timeout = NULL;
    if (till != FL_ROCE_NEVER) {
        uint64_t left = till > now ? till - now : 0;
        ts = (struct timespec){.tv_sec = (time_t)(left / FL_NS_PER_S), .tv_nsec = (long)(left % FL_NS_PER_S)};
        timeout = &ts;
    }
    set_slack(look);
    int n = epoll_pwait2(rnic->epoll_fd, events, FL_ARRAY_LEN(events), timeout, NULL);
    if (n < 0 && errno == ENOSYS) /* Linux before 5.11: rounded up to milliseconds */
        n = epoll_wait(rnic->epoll_fd, events, FL_ARRAY_LEN(events),
                       timeout ? (int)FL_MIN(ts.tv_sec * 1000 + (ts.tv_nsec + 999999) / 1000000, 60000L)
                               : -1);
    __atomic_store_n(&rnic->sleeps_till, 0, __ATOMIC_RELAXED);
    for (int i = 0; i < n; i++) {
        if (events[i].data.fd == rnic->wake_fd)
            (void)!read(rnic->wake_fd, &drop, sizeof(drop));
        else if (events[i].data.fd == rnic->netlink_fd)
            read_netlink(rnic);
        else if (rnic->asked && events[i].data.fd == fl_stats_server_fd(rnic->asked))
            fl_stats_server_run(rnic->asked);
    }
}

static void *run(void *arg)
{
    struct fl_rnic *rnic = arg;
    struct look look = {.after = LOOK_MIN};
    uint64_t busy_till = 0, till;
    pthread_setname_np(pthread_self(), "farlane-rnic");
    while (!__atomic_load_n(&rnic->stop, __ATOMIC_ACQUIRE)) {
        if (leave_alone(rnic, &look, &till)) {
            sleep_till(rnic, till, &look);
            continue;
        }
        fl_rnic_lock(rnic);
        rnic->stats.nr_thread_turns++;
        if (fl_rnic_progress_locked(rnic, 0))
            busy_till = rnic->now + SPIN_NS;
        bool polled = program_polls(rnic, rnic->now, POLLING_NS), again = !polled && rnic->now < busy_till;
        till = again ? 0 : plan_sleep(rnic, polled, &look);
        fl_rnic_unlock(rnic);
        if (again)
            sched_yield(); /* the program may want to poll, and have no other CPU than this one */
        else
            sleep_till(rnic, till, &look);
    }
    return NULL;
}

/* Signals are for the program's own threads. */
static int start_thread(struct fl_rnic *rnic)
{
    sigset_t all, old;
    fl_signals_but_faults(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int r = pthread_create(&rnic->thread, NULL, run, rnic);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return -r;
}

static void close_fds(struct fl_rnic *rnic)
{
    int *fds[] = {&rnic->netlink_fd, &rnic->wake_fd, &rnic->epoll_fd};
    for (size_t i = 0; i < FL_ARRAY_LEN(fds); i++) {
        if (*fds[i] >= 0)
            close(*fds[i]);
        *fds[i] = -1;
    }
}

int fl_rnic_thread_start(struct fl_rnic *rnic)
{
    rnic->port_watched = true;
    rnic->wake_fd = rnic->netlink_fd = -1;
    rnic->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    int r = rnic->epoll_fd < 0 ? -errno : 0;
    if (!r) {
        rnic->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        r = rnic->wake_fd < 0 ? -errno : watch_fd(rnic, rnic->wake_fd);
    }
    if (!r)
        r = watch_fd(rnic, fl_port_wait_fd(rnic->port));
    if (!r && rnic->asked)
        r = watch_fd(rnic, fl_stats_server_fd(rnic->asked));
    if (!r) {
        /* Without it the devices stay as they were found. */
        rnic->netlink_fd = open_netlink();
        if (rnic->netlink_fd >= 0)
            r = watch_fd(rnic, rnic->netlink_fd);
    }
    if (!r)
        r = start_thread(rnic);
    if (r)
        close_fds(rnic);
    return r;
}

void fl_rnic_thread_stop(struct fl_rnic *rnic)
{
    __atomic_store_n(&rnic->stop, true, __ATOMIC_RELEASE);
    wake(rnic);
    pthread_join(rnic->thread, NULL);
    close_fds(rnic);
}

void fl_rnic_thread_forget(struct fl_rnic *rnic)
{
    close_fds(rnic);
}
