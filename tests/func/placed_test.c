/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is written to memory by UDP, where the target puts it in its place packet by packet, is what is read
 * afterwards: whatever lengths, pieces and other commands there are at the same time, and also where a queue
 * ends in the middle of it.
 */
#include <stdlib.h>
#include <unistd.h>

#include <farlane/host.h>

#include "base/clock.h"
#include "mem/shared.h"
#include "real_target.h"

#define BLOCK      512u
#define NR_JOBS    2u
#define DEPTH      8u
#define PART       (512u << 10) /* of the area: what one I/O at a time uses */
#define AREA_LEN   (DEPTH * PART)
#define NR_ROUNDS  30
#define NR_CUTS    5
#define WAIT_NS    (60 * FL_NS_PER_S)
#define MAX_PIECES 3

/* In a thread of its own cmocka does not tell what it was. */
#define MUST(c)                                            \
    do {                                                   \
        if (!(c))                                          \
            fail_msg("%s:%d: %s", __FILE__, __LINE__, #c); \
    } while (0)

struct slot {
    struct fl_io io;
    struct iovec iov[MAX_PIECES];
    uint8_t *buf;
    struct job *job;
    uint64_t at; /* in the area */
    int result;
};

struct job {
    pthread_t thread;
    struct real *target;
    char hostnqn[64];
    struct fl_device *dev;
    struct fl_queue *queue;
    uint64_t seed, first; /* first: of the area, in the namespace */
    bool shared;          /* its buffers are registered, and so each piece has its own descriptor */
    uint8_t *model;
    uint32_t nr_flying, nr_queues, version;
    struct slot slots[DEPTH];
};

static uint32_t rnd(struct job *j)
{
    j->seed = j->seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(j->seed >> 33);
}

/* No two blocks, and no two words of a block, are alike. */
static void stamp(struct job *j, uint8_t *buf, uint64_t len)
{
    uint64_t *word = (uint64_t *)(void *)buf;

    j->version++;
    for (uint64_t i = 0; i < len / sizeof(*word); i++)
        word[i] = (uint64_t)j->version << 40 | (j->first / AREA_LEN) << 32 | i;
}

static void done(struct fl_io *io, int result)
{
    struct slot *s = FL_CONTAINER_OF(io, struct slot, io);

    s->result = result;
    s->job->nr_flying--;
}

static void submit(struct slot *s, enum fl_io_op op, uint64_t at, uint64_t len)
{
    struct job *j = s->job;
    uint64_t from = 0;
    uint32_t nr = 1 + rnd(j) % MAX_PIECES;

    for (uint32_t i = 0; i < nr; i++) {
        uint64_t n = i + 1 == nr ? len - from : (len - from) / BLOCK / 2 * BLOCK;

        s->iov[i] = (struct iovec){s->buf + from, n};
        from += n;
    }
    s->at = at;
    s->result = 1;
    s->io = (struct fl_io){
        .op = op, .off = j->first + at, .len = len, .iov = s->iov, .nr_iov = nr, .done = done};
    if (op == FL_IO_WRITE_ZEROES)
        s->io.nr_iov = 0;
    j->nr_flying++;
    MUST(fl_submit(j->queue, &s->io) == 0);
}

static void wait_for_all(struct job *j)
{
    uint64_t until = fl_now_ns() + WAIT_NS;

    while (j->nr_flying && fl_now_ns() < until) {
        fl_queue_wait(j->queue, 10);
        fl_queue_poll(j->queue);
    }
    MUST(j->nr_flying == 0);
}

static void one_round(struct job *j)
{
    static const enum fl_io_op ops[] = {FL_IO_WRITE, FL_IO_WRITE,   FL_IO_WRITE,       FL_IO_WRITE,
                                        FL_IO_READ,  FL_IO_COMPARE, FL_IO_WRITE_ZEROES};

    for (uint32_t i = 0; i < DEPTH; i++) {
        struct slot *s = &j->slots[i];
        uint64_t most = rnd(j) % 4 ? PART : 32u << 10, len = (1 + rnd(j) % (most / BLOCK)) * BLOCK;
        uint64_t at = (uint64_t)i * PART + rnd(j) % ((PART - len) / BLOCK + 1) * BLOCK;
        enum fl_io_op op = ops[rnd(j) % FL_ARRAY_LEN(ops)];

        if (op == FL_IO_WRITE)
            stamp(j, s->buf, len);
        else if (op == FL_IO_COMPARE)
            memcpy(s->buf, j->model + at, len);
        submit(s, op, at, len);
    }
    wait_for_all(j);
    for (uint32_t i = 0; i < DEPTH; i++) {
        struct slot *s = &j->slots[i];

        MUST(s->result == 0);
        if (s->io.op == FL_IO_WRITE)
            memcpy(j->model + s->at, s->buf, s->io.len);
        else if (s->io.op == FL_IO_WRITE_ZEROES)
            memset(j->model + s->at, 0, s->io.len);
        else if (s->io.op == FL_IO_READ)
            MUST(!memcmp(s->buf, j->model + s->at, s->io.len));
    }
}

static void read_all(struct job *j, uint8_t *to)
{
    struct fl_error err = {0};

    for (uint32_t i = 0; i < DEPTH; i++)
        if (fl_read(j->queue, to + (uint64_t)i * PART, j->first + (uint64_t)i * PART, PART, &err) < 0)
            fail_msg("%s", err.text);
}

static void check_all(struct job *j)
{
    uint8_t *got = malloc(AREA_LEN);

    read_all(j, got);
    MUST(!memcmp(got, j->model, AREA_LEN));
    free(got);
}

static void visit_controller(void *arg, const struct fl_controller_info *info)
{
    struct job *j = arg;

    if (!strcmp(info->hostnqn, j->hostnqn))
        j->nr_queues += info->nr_io_queues;
}

static void count_queues(struct real *t, void *arg)
{
    const struct fl_target_visitor visitor = {.controller = visit_controller};

    fl_target_visit(t->target, &visitor, arg);
}

/* The target learns it a little later: until then what had come may still be written. */
static void end_queue(struct job *j)
{
    const uint64_t until = fl_now_ns() + WAIT_NS;

    fl_queue_destroy(j->queue);
    do {
        MUST(fl_now_ns() < until);
        j->nr_queues = 0;
        real_call(j->target, count_queues, j);
    } while (j->nr_queues);
}

/* A machine that gives nobody CPU ends connections: as a program would, it is tried again. */
static void new_queue(struct job *j)
{
    uint64_t until = fl_now_ns() + WAIT_NS;
    struct fl_error err = {0};

    while (fl_queue_create(j->dev, DEPTH, &j->queue, &err) < 0)
        if (fl_now_ns() > until)
            fail_msg("%s", err.text);
}

/* Each block is what it was, or what was to be. */
static void cut_off(struct job *j)
{
    uint8_t *got = malloc(AREA_LEN);
    uint64_t until;

    for (uint32_t i = 0; i < DEPTH; i++) {
        stamp(j, j->slots[i].buf, PART);
        submit(&j->slots[i], FL_IO_WRITE, (uint64_t)i * PART, PART);
    }
    until = fl_now_ns() + rnd(j) % 3000 * FL_NS_PER_US;
    do
        fl_queue_poll(j->queue);
    while (fl_now_ns() < until);
    end_queue(j);
    MUST(j->nr_flying == 0);
    new_queue(j);
    read_all(j, got);
    for (uint64_t at = 0; at < AREA_LEN; at += BLOCK) {
        const struct slot *s = &j->slots[at / PART];
        bool is_old = !memcmp(got + at, j->model + at, BLOCK);
        bool is_new = !memcmp(got + at, s->buf + at % PART, BLOCK);

        MUST(is_new || (is_old && s->result));
    }
    memcpy(j->model, got, AREA_LEN);
    free(got);
}

static void *run_job(void *arg)
{
    struct job *j = arg;

    j->model = calloc(1, AREA_LEN);
    for (uint32_t i = 0; i < DEPTH; i++) {
        j->slots[i].job = j;
        j->slots[i].buf = j->shared ? fl_shared_alloc(PART) : aligned_alloc(4096, PART);
        MUST(j->slots[i].buf);
    }
    new_queue(j);
    for (int i = 0; i < NR_CUTS; i++) {
        for (int k = 0; k < NR_ROUNDS / NR_CUTS; k++)
            one_round(j);
        check_all(j);
        cut_off(j);
    }
    check_all(j);
    fl_queue_destroy(j->queue);
    for (uint32_t i = 0; i < DEPTH; i++)
        if (j->shared)
            fl_shared_free(j->slots[i].buf, PART);
        else
            free(j->slots[i].buf);
    free(j->model);
    return NULL;
}

static void run_all(uint32_t nr_loops)
{
    /* Large enough for copies past the caches. */
    struct real_options ro = {.capsule_len = -1,
                              .nr_loops = nr_loops,
                              .spec = {"ram:32M,bs=512"},
                              .transport = "rdma",
                              .port = 4420};
    struct fl_device_options ho = {.connect_timeout_ms = 30000, .kato_ms = 60000, .io_timeout_ms = 60000};
    struct real *t = real_start(&ro);
    struct job *jobs = calloc(NR_JOBS, sizeof(*jobs));
    struct fl_error err = {0};

    for (uint32_t i = 0; i < NR_JOBS; i++) {
        jobs[i].seed = 7919 * (i + 1);
        jobs[i].shared = i == 0;
        jobs[i].target = t;
        snprintf(jobs[i].hostnqn, sizeof(jobs[i].hostnqn), "nqn.2026-01.org.example:host-%u", i);
        ho.hostnqn = jobs[i].hostnqn;
        jobs[i].first = (uint64_t)i * AREA_LEN + (uint64_t)i * 3 * BLOCK;
        if (fl_device_open(t->url, &ho, &jobs[i].dev, &err) < 0)
            fail_msg("%s", err.text);
    }
    for (uint32_t i = 0; i < NR_JOBS; i++)
        assert_int_equal(pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]), 0);
    for (uint32_t i = 0; i < NR_JOBS; i++)
        pthread_join(jobs[i].thread, NULL);
    for (uint32_t i = 0; i < NR_JOBS; i++)
        fl_device_close(jobs[i].dev);
    free(jobs);
    real_end(t);
}

static void on_one_loop(void **state)
{
    run_all(1);
}

static void on_two_loops(void **state)
{
    run_all(2);
}

int main(void)
{
    real_own_rnic(true);
    return FL_UNIT_RUN(cmocka_unit_test(on_one_loop), cmocka_unit_test(on_two_loops));
}
