/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: the real target, listening on loopback, on threads of its own in this process. */
#ifndef FL_FUNC_REAL_TARGET_H
#define FL_FUNC_REAL_TARGET_H

#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/unit.h"
#include "target/target.h"

#define REAL_NQN       "nqn.2026-01.org.example:real"
#define REAL_MAX_LOOPS 2

struct real_options {
    const char *addr;    /* NULL: 127.0.0.1 */
    const char *transport; /* NULL: tcp */
    const char *spec[4]; /* namespaces; NULL: "ram:32M" */
    uint32_t nr_loops;   /* 0: 1 */
    uint16_t port;       /* 0: any */
    uint32_t mdts_len, max_depth;
    int64_t capsule_len;               /* -1: the default */
    bool no_success_flag, other_hosts; /* other_hosts: only nqn...:host-a may connect */
};

struct real {
    struct fl_loop *loops[REAL_MAX_LOOPS];
    pthread_t threads[REAL_MAX_LOOPS];
    uint32_t nr_loops;
    struct fl_target *target;
    struct fl_subsystem *ss;
    char url[640]; /* of namespace 1 */
    char discovery[512];
};

/* A UDP port and a hub for the software RNIC that no other test has; not a port that the kernel may give to a
 * socket of another. */
static inline void real_own_rnic(bool by_udp)
{
    char text[64];

    snprintf(text, sizeof(text), "%d", 20000 + (int)getpid() % 12000);
    setenv("FARLANE_ROCE_PORT", text, 1);
    snprintf(text, sizeof(text), "farlane-real-%d", (int)getpid());
    setenv("FARLANE_HUB", text, 1);
    if (by_udp)
        setenv("FARLANE_SHM", "0", 1);
}

static inline void *real_run(void *loop)
{
    fl_loop_run(loop);
    return NULL;
}

static inline void real_visit_listener(void *arg, const struct fl_listener_info *info)
{
    struct real *t = arg;

    snprintf(t->discovery, sizeof(t->discovery), "nvme+%s", info->url);
}

static inline void real_wait_for_namespaces(struct real *t);

static inline struct real *real_start(const struct real_options *o)
{
    struct fl_loop_options lo = {.poll = FL_POLL_SLEEP, .cpu = -1};
    struct fl_target_options to = {.mdts_len = o->mdts_len,
                                   .max_depth = o->max_depth,
                                   .capsule_len = o->capsule_len,
                                   .no_success_flag = o->no_success_flag};
    struct fl_subsystem_options so = {.nqn = REAL_NQN, .allow_any_host = !o->other_hosts};
    struct fl_target_visitor look = {.listener = real_visit_listener};
    struct real *t = calloc(1, sizeof(*t));
    struct fl_listener_spec ls;
    struct fl_error err = {0};
    char text[128];
    uint32_t id, nsid;

    t->nr_loops = o->nr_loops ? o->nr_loops : 1;
    for (uint32_t i = 0; i < t->nr_loops; i++)
        assert_int_equal(fl_loop_create(&lo, &t->loops[i]), 0);
    to.loops = t->loops;
    to.nr_loops = t->nr_loops;
    if (fl_target_create(&to, &t->target, &err) < 0 || fl_subsystem_add(t->target, &so, &t->ss, &err) < 0)
        fail_msg("%s", err.text);
    if (o->other_hosts)
        assert_int_equal(fl_subsystem_host_add(t->ss, "nqn.2026-01.org.example:host-a", &err), 0);
    for (int i = 0; i < 4; i++) {
        struct fl_namespace_options no = {.spec = o->spec[i] ? o->spec[i] : "ram:32M"};

        if ((i == 0 || o->spec[i]) && fl_namespace_add(t->ss, &no, &nsid, &err) < 0)
            fail_msg("%s", err.text);
    }
    snprintf(text, sizeof(text), "%s://%s:%u", o->transport ? o->transport : "tcp", o->addr ? o->addr : "127.0.0.1", o->port);
    if (fl_listener_spec_parse(text, &ls, &err) < 0 || fl_target_listen(t->target, &ls, &id, &err) < 0)
        fail_msg("%s", err.text);
    fl_target_visit(t->target, &look, t);
    snprintf(t->url, sizeof(t->url), "%s/" REAL_NQN "?ns=1", t->discovery);
    for (uint32_t i = 0; i < t->nr_loops; i++)
        pthread_create(&t->threads[i], NULL, real_run, t->loops[i]);
    real_wait_for_namespaces(t);
    return t;
}

/* Runs something on the control loop and waits for it. */
struct real_call {
    struct fl_msg msg;
    struct real *t;
    void (*fn)(struct real *t, void *arg);
    void *arg;
    sem_t done;
};

static inline void real_called(struct fl_msg *msg)
{
    struct real_call *c = FL_CONTAINER_OF(msg, struct real_call, msg);

    c->fn(c->t, c->arg);
    sem_post(&c->done);
}

static inline void real_call(struct real *t, void (*fn)(struct real *t, void *arg), void *arg)
{
    struct real_call c = {.msg.run = real_called, .t = t, .fn = fn, .arg = arg};

    sem_init(&c.done, 0, 0);
    fl_loop_post(t->loops[0], &c.msg);
    while (sem_wait(&c.done) < 0)
        ;
    sem_destroy(&c.done);
}

static inline void real_visit_ns(void *arg, const struct fl_namespace_info *info)
{
    if (strcmp(info->state, "active"))
        *(bool *)arg = true;
}

static inline void real_look_at_namespaces(struct real *t, void *arg)
{
    struct fl_target_visitor look = {.ns = real_visit_ns};

    fl_target_visit(t->target, &look, arg);
}

/* A namespace is there for hosts when every loop has it. */
static inline void real_wait_for_namespaces(struct real *t)
{
    struct timespec ts = {.tv_nsec = 1000000};
    bool opening = false;

    for (real_call(t, real_look_at_namespaces, &opening); opening; real_call(t, real_look_at_namespaces, &opening)) {
        opening = false;
        nanosleep(&ts, NULL);
    }
}

static inline void real_is_down(void *arg)
{
    struct real *t = arg;

    for (uint32_t i = 0; i < t->nr_loops; i++)
        fl_loop_stop(t->loops[i]);
}

static inline void real_shut(struct real *t, void *arg)
{
    fl_target_shutdown(t->target, real_is_down, t);
}

static inline void real_end(struct real *t)
{
    real_call(t, real_shut, NULL);
    for (uint32_t i = 0; i < t->nr_loops; i++)
        pthread_join(t->threads[i], NULL);
    fl_target_destroy(t->target);
    for (uint32_t i = 0; i < t->nr_loops; i++)
        fl_loop_destroy(t->loops[i]);
    free(t);
}

#endif
