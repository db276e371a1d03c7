/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/loop.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unit.h"
#include "loop/timer.h"

static int order[16], nr_order;

struct test_timer {
    struct fl_timer timer;
    int id;
};

static void note_timer(struct fl_timer *timer)
{
    order[nr_order++] = FL_CONTAINER_OF(timer, struct test_timer, timer)->id;
}

static void turn_until(struct fl_loop *loop, const int *what, int value)
{
    uint64_t end = fl_now_ns() +
                   5000000000; /* by the clock: a loop that polls turns thousands of times a millisecond */

    while (*what < value && fl_now_ns() < end)
        assert_true(fl_loop_turn(loop, 10000000) >= 0);
    assert_int_equal(*what, value);
}

static void timers_expire_in_order(void **state)
{
    struct fl_loop *loop;
    struct test_timer t[4] = {0};
    uint64_t now;

    nr_order = 0;
    assert_int_equal(fl_loop_create(NULL, &loop), 0);
    now = fl_now_ns();
    for (int i = 0; i < 4; i++) {
        t[i] = (struct test_timer){.timer.expired = note_timer, .id = i};
        assert_int_equal(fl_timer_set(loop, &t[i].timer, now + 1000000 + (uint64_t)((i * 3) % 4) * 1000000),
                         0);
    }
    fl_timer_cancel(&t[2].timer);
    fl_timer_cancel(&t[2].timer);
    turn_until(loop, &nr_order, 3);
    assert_int_equal(order[0], 0);
    assert_int_equal(order[1], 3);
    assert_int_equal(order[2], 1);
    fl_loop_destroy(loop);
}

static void timer_heap_sorts(void **state)
{
    struct fl_timer_heap heap = {0};
    struct fl_timer timers[500] = {0};
    uint64_t last = 0;
    uint32_t seed = 7, nr = 0;

    for (int round = 0; round < 2; round++) /* the second round moves those that are armed */
        for (int i = 0; i < 500; i++)
            assert_int_equal(fl_timer_heap_set(&heap, &timers[i], (seed = seed * 1664525 + 1013904223) >> 8),
                             0);
    for (int i = 0; i < 500; i += 5)
        fl_timer_heap_remove(&heap, &timers[i]);
    for (struct fl_timer *t; (t = fl_timer_heap_first(&heap)); nr++) {
        assert_true(t->deadline_ns >= last);
        last = t->deadline_ns;
        fl_timer_heap_remove(&heap, t);
    }
    assert_int_equal(nr, 400);
    fl_timer_heap_fini(&heap);
}

struct test_watch {
    struct fl_watch watch;
    struct test_watch *other;
    int nr;
};

static void delete_the_other(struct fl_watch *watch, uint32_t events)
{
    struct test_watch *w = FL_CONTAINER_OF(watch, struct test_watch, watch);

    w->nr++;
    fl_watch_del(&w->other->watch);
}

static void no_call_after_watch_del(void **state)
{
    struct fl_loop *loop;
    struct test_watch a = {.watch.ready = delete_the_other}, b = {.watch.ready = delete_the_other};
    int fds[2][2];

    a.other = &b;
    b.other = &a;
    assert_int_equal(fl_loop_create(NULL, &loop), 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pipe(fds[i]), 0);
        assert_int_equal(write(fds[i][1], "x", 1), 1);
    }
    a.watch.fd = fds[0][0];
    b.watch.fd = fds[1][0];
    assert_int_equal(fl_watch_add(loop, &a.watch, EPOLLIN), 0);
    assert_int_equal(fl_watch_add(loop, &b.watch, EPOLLIN), 0);
    assert_true(fl_loop_turn(loop, 0) > 0);
    assert_int_equal(a.nr + b.nr, 1);
    fl_watch_del(&a.watch);
    fl_watch_del(&b.watch);
    for (int i = 0; i < 2; i++) {
        close(fds[i][0]);
        close(fds[i][1]);
    }
    fl_loop_destroy(loop);
}

struct test_poller {
    struct fl_poller poller;
    struct test_poller *victim;
    int nr;
};

static int poll_and_delete(struct fl_poller *poller)
{
    struct test_poller *p = FL_CONTAINER_OF(poller, struct test_poller, poller);

    p->nr++;
    if (p->victim)
        fl_poller_del(&p->victim->poller);
    return 0;
}

static void pollers_may_go_during_the_walk(void **state)
{
    struct fl_loop *loop;
    struct test_poller p[3] = {
        {.poller.poll = poll_and_delete}, {.poller.poll = poll_and_delete}, {.poller.poll = poll_and_delete}};

    assert_int_equal(fl_loop_create(NULL, &loop), 0);
    for (int i = 0; i < 3; i++)
        fl_poller_add(loop, &p[i].poller);
    p[0].victim = &p[1];
    fl_loop_turn(loop, 0);
    assert_int_equal(p[0].nr, 1);
    assert_int_equal(p[1].nr, 0);
    assert_int_equal(p[2].nr, 1);
    p[2].victim = &p[2];
    fl_loop_turn(loop, 0);
    fl_loop_turn(loop, 0);
    assert_int_equal(p[2].nr, 2);
    fl_poller_del(&p[0].poller);
    fl_poller_del(&p[0].poller);
    fl_loop_destroy(loop);
}

#define NR_MSGS 2000
struct test_msg {
    struct fl_msg msg;
    struct fl_loop *loop;
    int value;
};
static int next_value;

static void check_order(struct fl_msg *msg)
{
    struct test_msg *m = FL_CONTAINER_OF(msg, struct test_msg, msg);

    assert_int_equal(m->value, next_value);
    if (++next_value == NR_MSGS)
        fl_loop_stop(m->loop);
}

static struct test_msg msgs[NR_MSGS];

static void *post_all(void *arg)
{
    for (int i = 0; i < NR_MSGS; i++) {
        msgs[i] = (struct test_msg){.msg.run = check_order, .loop = arg, .value = i};
        fl_loop_post(arg, &msgs[i].msg);
        if (i % 100 == 0) { /* let it fall asleep now and then */
            struct timespec ts = {.tv_nsec = 300000};

            nanosleep(&ts, NULL);
        }
    }
    return NULL;
}

static void messages_wake_and_keep_order(void **state)
{
    const enum fl_poll_mode modes[] = {FL_POLL_ADAPTIVE, FL_POLL_SLEEP, FL_POLL_BUSY};

    for (size_t i = 0; i < FL_ARRAY_LEN(modes); i++) {
        struct fl_loop_options options = {.poll = modes[i], .cpu = -1};
        struct fl_loop *loop;
        pthread_t thread;

        next_value = 0;
        assert_int_equal(fl_loop_create(&options, &loop), 0);
        assert_int_equal(pthread_create(&thread, NULL, post_all, loop), 0);
        assert_int_equal(fl_loop_run(loop), 0);
        pthread_join(thread, NULL);
        assert_int_equal(next_value, NR_MSGS);
        fl_loop_destroy(loop);
    }
}

struct kept_alive {
    struct fl_watch watch;
    struct fl_timer timer;
    int nr_bytes, nr_expired;
};

static void feed(struct fl_watch *watch, uint32_t events)
{
    struct kept_alive *k = FL_CONTAINER_OF(watch, struct kept_alive, watch);
    char byte;

    k->nr_bytes += (int)read(watch->fd, &byte, 1);
    fl_timer_cancel(&k->timer);
}

static void starve(struct fl_timer *timer)
{
    FL_CONTAINER_OF(timer, struct kept_alive, timer)->nr_expired++;
}

/* The thread did not run for a while: the deadline is over, and what would have kept it lies in the pipe. */
static void bytes_come_before_a_deadline(void **state)
{
    for (int before = 0; before < 40; before++) { /* epoll is looked at every so many turns only */
        struct kept_alive k = {.watch.ready = feed, .timer.expired = starve};
        struct test_poller p = {.poller.poll = poll_and_delete};
        struct fl_loop *loop;
        int fds[2];

        assert_int_equal(fl_loop_create(NULL, &loop), 0);
        fl_poller_add(loop, &p.poller);
        assert_int_equal(pipe(fds), 0);
        k.watch.fd = fds[0];
        assert_int_equal(fl_watch_add(loop, &k.watch, EPOLLIN), 0);
        for (int i = 0; i < before; i++)
            fl_loop_turn(loop, 0);
        assert_int_equal(fl_timer_set(loop, &k.timer, fl_now_ns()), 0);
        assert_int_equal(write(fds[1], "x", 1), 1);
        fl_loop_turn(loop, 0);
        assert_int_equal(k.nr_bytes, 1);
        assert_int_equal(k.nr_expired, 0);
        fl_watch_del(&k.watch);
        fl_poller_del(&p.poller);
        close(fds[0]);
        close(fds[1]);
        fl_loop_destroy(loop);
    }
}

/* Two loops that fall asleep between messages, one the other's only source of work. */
#define NR_ROUND_TRIPS 20000
struct ball {
    struct fl_msg msg;
    struct fl_loop *loop[2];
    int nr;
    uint64_t last, longest;
};

static void hit(struct fl_msg *msg)
{
    struct ball *b = FL_CONTAINER_OF(msg, struct ball, msg);
    uint64_t now = fl_now_ns();

    b->longest = FL_MAX(b->longest, now - b->last);
    b->last = now;
    if (++b->nr >= NR_ROUND_TRIPS) {
        fl_loop_stop(b->loop[0]);
        fl_loop_stop(b->loop[1]);
        return;
    }
    if (b->nr % 3 == 0) /* the other is at one place or another on its way to sleep */
        for (uint64_t until = now + (uint64_t)(b->nr % 64) * 100; fl_now_ns() < until;)
            ;
    fl_loop_post(b->loop[b->nr & 1], &b->msg);
}

static void keep_going(struct fl_timer *timer)
{
}

static void *run_loop(void *arg)
{
    fl_loop_run(arg);
    return NULL;
}

static void no_message_waits_for_another_wake_up(void **state)
{
    const enum fl_poll_mode modes[] = {FL_POLL_SLEEP, FL_POLL_ADAPTIVE};

    for (size_t i = 0; i < FL_ARRAY_LEN(modes); i++) {
        struct fl_loop_options options = {.poll = modes[i], .budget_us = 3, .cpu = -1};
        struct ball b = {.msg.run = hit};
        struct fl_timer guard[2] = {{.expired = keep_going}, {.expired = keep_going}};
        pthread_t thread[2];

        for (int k = 0; k < 2; k++) {
            assert_int_equal(fl_loop_create(&options, &b.loop[k]), 0);
            fl_timer_set(b.loop[k], &guard[k],
                         fl_now_ns() + 20 * FL_NS_PER_S); /* what was missed is found then */
        }
        b.last = fl_now_ns();
        fl_loop_post(b.loop[0], &b.msg);
        for (int k = 0; k < 2; k++)
            assert_int_equal(pthread_create(&thread[k], NULL, run_loop, b.loop[k]), 0);
        for (int k = 0; k < 2; k++) {
            pthread_join(thread[k], NULL);
            fl_timer_cancel(&guard[k]);
            fl_loop_destroy(b.loop[k]);
        }
        assert_int_equal(b.nr, NR_ROUND_TRIPS);
        assert_true(b.longest < 10 * FL_NS_PER_S);
    }
}

static void idle_loop_sleeps(void **state)
{
    struct fl_loop *loop;
    struct test_poller p = {.poller.poll = poll_and_delete};
    struct timespec ts;
    uint64_t cpu, end = fl_now_ns() + 100000000;

    assert_int_equal(fl_loop_create(NULL, &loop), 0);
    fl_poller_add(loop, &p.poller);
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    cpu = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
    while (fl_now_ns() < end)
        fl_loop_turn(loop, end - fl_now_ns());
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    cpu = (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec - cpu;
    assert_true(cpu < 20000000); /* 100 ms of polling would be 100 ms of CPU time */
    fl_poller_del(&p.poller);
    fl_loop_destroy(loop);
}

/* Turns that a loop without work makes until 1 ms before the time that it stays awake for: three, the third
 * of which sleeps, if it forgets; else thousands, unless this thread is kept from its CPU all the time. */
static uint32_t turns_while_awake(void)
{
    struct fl_loop *loop;
    uint32_t nr = 0;
    uint64_t due;

    assert_int_equal(fl_loop_create(NULL, &loop), 0);
    fl_loop_turn(loop, 0);
    due = fl_now_ns() + 5000000;
    fl_loop_stay_awake(loop, due);
    fl_loop_stay_awake(loop, due - 4000000); /* the latest counts */
    for (; fl_now_ns() < due - 1000000; nr++)
        assert_int_equal(fl_loop_turn(loop, 20000000), 0);
    fl_loop_destroy(loop);
    return nr;
}

static void stays_awake_for_what_is_due(void **state)
{
    uint32_t i, most = 0;

    for (i = 0; i < 20 && most <= 3; i++)
        most = FL_MAX(most, turns_while_awake());
    assert_true(most > 3);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(timers_expire_in_order), cmocka_unit_test(timer_heap_sorts),
        cmocka_unit_test(no_call_after_watch_del), cmocka_unit_test(pollers_may_go_during_the_walk),
        cmocka_unit_test(messages_wake_and_keep_order), cmocka_unit_test(bytes_come_before_a_deadline),
        cmocka_unit_test(no_message_waits_for_another_wake_up), cmocka_unit_test(idle_loop_sleeps),
        cmocka_unit_test(stays_awake_for_what_is_due));
}
