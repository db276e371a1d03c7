/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop: the only code of farlane that waits. One loop is one thread; whatever lives on a loop is touched by that
 * thread alone. Other threads reach it by fl_loop_post.
 *
 * A turn of the loop runs messages, pollers, ready file descriptors and expired timers, in this order: what
 * has come is read before a deadline is judged. While there is work, and for
 * a short budget after the last of it, the loop turns without sleeping (see enum fl_poll_mode); then it sleeps in
 * epoll_wait until a descriptor is ready, a timer expires or a message arrives.
 */
#ifndef FL_LOOP_LOOP_H
#define FL_LOOP_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "base/mpsc.h"

enum fl_poll_mode {
    FL_POLL_ADAPTIVE, /* poll while there is work and for budget_us after the last of it */
    FL_POLL_BUSY,     /* never sleep */
    FL_POLL_SLEEP,    /* sleep as soon as there is no work */
};

struct fl_loop_options {
    enum fl_poll_mode poll;
    uint32_t budget_us; /* 0: the default, 50 */
    int cpu;            /* -1: not bound; fl_loop_run binds the calling thread */
};

struct fl_loop;

/* NULL options are the defaults. The loop belongs to no thread until fl_loop_run or fl_loop_turn is called. */
int fl_loop_create(const struct fl_loop_options *options, struct fl_loop **loop);
void fl_loop_destroy(struct fl_loop *loop); /* nothing may be armed on it any more */

/* Turns until fl_loop_stop. Returns 0 or the errno of what broke the loop. */
int fl_loop_run(struct fl_loop *loop);
/* Any thread, and async-signal-safe. */
void fl_loop_stop(struct fl_loop *loop);
/* One turn, sleeping at most max_wait_ns when there is nothing to do (0: not at all). Returns the amount of work done. */
int fl_loop_turn(struct fl_loop *loop, uint64_t max_wait_ns);

/* The time at the start of this turn, CLOCK_MONOTONIC in ns: cheap, up to one turn old. */
uint64_t fl_loop_now(const struct fl_loop *loop);
/* Something is due by then, such as an answer of a fast disk: a loop that polls before it sleeps (FL_POLL_ADAPTIVE) does not sleep
 * until then. For a few hundred microseconds at most: it costs a core. */
void fl_loop_stay_awake(struct fl_loop *loop, uint64_t until_ns);
/* Never: FL_POLL_BUSY */
bool fl_loop_sleeps(const struct fl_loop *loop);
/* CPU time of this loop's thread that was spent with work, in ns (the rest of the thread's time is polling). */
uint64_t fl_loop_busy_ns(const struct fl_loop *loop);
/* The loop that runs on this thread, or NULL. */
struct fl_loop *fl_loop_current(void);

/* ---- descriptors ---- */

struct fl_watch {
    int fd;
    void (*ready)(struct fl_watch *watch, uint32_t events); /* EPOLLIN | ... */
    uint32_t events;                                        /* private from here */
    struct fl_loop *loop;
};

/* Level-triggered. The watch is the caller's and must stay in place until fl_watch_del. */
int fl_watch_add(struct fl_loop *loop, struct fl_watch *watch, uint32_t events);
int fl_watch_set(struct fl_watch *watch, uint32_t events);
void fl_watch_del(struct fl_watch *watch); /* may be called from any callback of the same loop; no call comes after it */

/* ---- pollers ---- */

struct fl_poller {
    int (*poll)(struct fl_poller *poller); /* returns the amount of work done; 0: nothing */
    struct fl_list link;                   /* private from here */
    struct fl_loop *loop;
};

/* poll() is called once a turn until fl_poller_del. A loop with pollers still sleeps when they find nothing, so what
 * a poller looks at must also have a descriptor or a timer that wakes the loop. */
void fl_poller_add(struct fl_loop *loop, struct fl_poller *poller);
void fl_poller_del(struct fl_poller *poller); /* no-op when not added (zero-initialised) */

/* ---- timers ---- */

struct fl_timer {
    void (*expired)(struct fl_timer *timer);
    uint64_t deadline_ns; /* private from here */
    struct fl_loop *loop;
    uint32_t heap_index; /* 0: not armed */
};

int fl_timer_set(struct fl_loop *loop, struct fl_timer *timer, uint64_t deadline_ns); /* moves it when armed */
void fl_timer_cancel(struct fl_timer *timer);                                        /* no-op when not armed */

/* ---- messages ---- */

struct fl_msg {
    struct fl_mpsc_node node;
    void (*run)(struct fl_msg *msg); /* on the loop's thread; msg is the receiver's from then on */
};

/* Any thread. Messages of one sender arrive in order. */
void fl_loop_post(struct fl_loop *loop, struct fl_msg *msg);

#endif
