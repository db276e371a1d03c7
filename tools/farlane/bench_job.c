/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "bench_clock.h"
#include "bench_job.h"
#include "endpoint.h"
#include "mem/shared.h"

#define MEASURED_SPIN 2000u             /* adaptive: polls in vain before sleeping */
#define AWAY_NS       (5 * FL_NS_PER_S) /* a lost target is waited for at the end */
#define SHORTEST_NAP  60e3              /* ns: what is due sooner is waited for by polling */

struct bench_op {
    struct bench_job *job;
    uint64_t start; /* ticks; open loop: when it was due */
    struct iovec iov;
    struct fl_io io;
    struct fl_io_times times;
};

void bench_fail(struct bench *b, int code, const struct fl_error *err, const char *what)
{
    pthread_mutex_lock(&b->err_lock);
    if (!b->failed) {
        fl_error_clear(&b->err);
        if (err && err->text[0])
            b->err = *err;
        else
            fl_error_set(&b->err, code, "%s: %s", what, strerror(-code));
        b->failed = code;
    }
    pthread_mutex_unlock(&b->err_lock);
}

static void lost_behind(struct bench *b, const struct fl_error *err)
{
    pthread_mutex_lock(&b->err_lock);
    if (!b->failed && !b->lost) {
        fl_error_set(&b->err, err->code,
                     "the target was lost, maybe within the measured time, so that the last figures may be "
                     "too low: %s",
                     err->text);
        b->lost = err->code;
    }
    pthread_mutex_unlock(&b->err_lock);
}

static void io_failed(struct bench_job *j, const struct fl_io *io, int code)
{
    struct bench *b = j->b;
    struct fl_error err = {0};

    code = device_io_error(b->dev, b->info, io->op == FL_IO_READ ? "cannot read" : "cannot write to", code,
                           io->nvme_status, &err);
    if (j->stopping)
        lost_behind(b, &err);
    else
        bench_fail(b, code, &err, NULL);
}

/* ---- one I/O ---- */

static uint64_t mix(uint64_t *state)
{
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t choose_block(struct bench_job *j)
{
    if (j->b->spec->random)
        return j->first_block + (uint64_t)(((unsigned __int128)mix(&j->random) * j->nr_blocks) >> 64);
    if (j->next_block == j->nr_blocks)
        j->next_block = 0;
    return j->first_block + j->next_block++;
}

static bool choose_read(struct bench_job *j)
{
    const uint32_t percent = j->b->spec->read_percent;

    if (percent == 100 || percent == 0)
        return percent == 100;
    return (uint32_t)(((mix(&j->random) >> 32) * 100) >> 32) < percent;
}

static void start(struct bench_job *j, struct bench_op *op, uint64_t now)
{
    const struct bench_spec *spec = j->b->spec;
    int rc;

    op->io.off = choose_block(j) * spec->block_len;
    op->io.op = choose_read(j) ? FL_IO_READ : FL_IO_WRITE;
    if (spec->verify && op->io.op == FL_IO_WRITE)
        bench_pattern_fill(op->iov.iov_base, op->io.off, spec->block_len, j->b->sector, ++j->generation);
    op->start = now;
    rc = fl_submit(j->queue, &op->io);
    if (rc < 0)
        io_failed(j, &op->io, rc);
    else
        j->in_flight++;
}

static void check(struct bench_job *j, struct bench_op *op)
{
    struct fl_error err = {0};
    uint64_t bad;

    if (bench_pattern_check(op->iov.iov_base, op->io.off, op->io.len, j->b->sector, &bad))
        return;
    fl_error_set(&err, -EILSEQ, "wrong data at offset %" PRIu64 ": not what any write put there", bad);
    bench_fail(j->b, -EILSEQ, &err, NULL);
}

/* The clock is CLOCK_MONOTONIC here, as the library's. */
static void record_stages(struct bench_stages *s, const struct bench_op *op)
{
    const struct fl_io_times *t = &op->times;
    const uint64_t out = FL_MAX(t->sent_ns, op->start), back = FL_MAX(t->answered_ns, out),
                   now = bench_ticks();
    const uint64_t service = FL_MIN(t->service_ns, back - out);

    fl_histogram_record(&s->time[BENCH_SUBMIT], out - op->start);
    fl_histogram_record(&s->time[BENCH_WIRE], back - out - service);
    fl_histogram_record(&s->time[BENCH_BACKEND], service);
    fl_histogram_record(&s->time[BENCH_COMPLETE], FL_MAX(now, back) - back);
    s->nr_untold += t->service_ns == 0;
}

static void done(struct fl_io *io, int result)
{
    struct bench_op *op = FL_CONTAINER_OF(io, struct bench_op, io);
    struct bench_job *j = op->job;

    j->in_flight--;
    /* One clock read for all that complete in one poll. */
    if (!j->stamp) {
        j->stamp = bench_ticks();
        if (j->idle_since) {
            j->idle += j->stamp - j->idle_since;
            j->idle_since = 0;
        }
    }
    if (fl_unlikely(result < 0)) {
        if (!j->cut_off)
            io_failed(j, io, result);
        return;
    }
    if (fl_unlikely(j->stamp < op->start)) /* --verify: begun within this poll, and done already */
        j->stamp = bench_ticks();
    if (j->measuring) {
        fl_histogram_record(&j->latency, j->stamp - op->start);
        if (fl_unlikely(j->stages))
            record_stages(j->stages, op);
        if (io->op == FL_IO_READ)
            j->nr_reads++;
        else
            j->nr_writes++;
    }
    if (j->b->spec->verify && io->op == FL_IO_READ)
        check(j, op);
    if (j->b->gap != 0)
        j->spare[j->nr_spare++] = op;
    else if (!j->stopping)
        start(j, op, j->b->spec->verify ? bench_ticks() : j->stamp);
}

/* ---- open loop ---- */

/* Between two I/Os: the same each time, or as far apart as the arrivals of many independent users are
 * (exponential). */
static double next_gap(struct bench_job *j)
{
    if (!j->b->spec->poisson)
        return j->b->gap;
    return -log1p(-(double)(mix(&j->arrival) >> 11) * 0x1p-53) * j->b->gap;
}

/* Starts what is due. With all I/Os in flight it waits, and its latency counts from when it was due: a target
 * that falls behind cannot hide it by slowing its users down. */
static void start_due(struct bench_job *j)
{
    const double now = (double)bench_ticks();

    while (j->due <= now && j->nr_spare && !j->b->failed) {
        start(j, j->spare[--j->nr_spare], (uint64_t)j->due);
        j->due += next_gap(j);
    }
}

static uint64_t count_behind(const struct bench_job *j)
{
    const double late = (double)j->end - j->due;

    return late > 0 ? (uint64_t)(late / j->b->gap) + 1 : 0;
}

/* ---- a job ---- */

static void follow_phase(struct bench_job *j, enum bench_phase phase)
{
    if (phase == BENCH_MEASURE && !j->measuring) {
        fl_histogram_init(&j->latency);
        if (j->stages)
            bench_stages_init(j->stages);
        j->nr_reads = j->nr_writes = j->idle = 0;
        j->start = bench_ticks();
        if (j->idle_since)
            j->idle_since = j->start;
        j->measuring = true;
    } else if (phase == BENCH_STOP) {
        j->end = bench_ticks();
        j->nr_behind = j->b->gap != 0 ? count_behind(j) : 0;
        j->measuring = false;
        j->stopping = true;
    }
}

/* Open loop: until something completes or is due. */
static void nap(struct bench_job *j)
{
    struct pollfd fd = {.fd = fl_queue_fd(j->queue), .events = POLLIN};
    const double ns = (j->due - (double)bench_ticks()) * bench_clock_ns_per_tick;
    struct timespec limit = {0};

    if (ns < SHORTEST_NAP)
        return;
    limit.tv_nsec = (long)fmin(ns - SHORTEST_NAP / 2, 20e6);
    ppoll(&fd, fd.fd >= 0, &limit, NULL);
}

static void in_vain(struct bench_job *j, uint32_t *spins)
{
    const enum bench_wait wait = j->b->spec->wait;

    if (!j->idle_since)
        j->idle_since = bench_ticks();
    if (wait == BENCH_BUSY || (wait == BENCH_ADAPTIVE && ++*spins < MEASURED_SPIN))
        return;
    *spins = 0;
    if (j->b->gap != 0)
        nap(j);
    else
        fl_queue_wait(j->queue, 20);
}

static void begin(struct bench_job *j)
{
    struct bench *b = j->b;
    uint32_t i;

    while (b->phase == BENCH_PREPARE)
        sched_yield();
    if (b->gap == 0) {
        for (i = 0; i < b->depth && !b->failed; i++)
            start(j, &j->ops[i], bench_ticks());
        return;
    }
    for (i = 0; i < b->depth; i++)
        j->spare[j->nr_spare++] = &j->ops[i];
    j->due = (double)bench_ticks() + b->gap * j->index / b->nr_jobs; /* jobs take turns */
}

static bool is_away(const struct bench *b, struct fl_error *err)
{
    struct fl_device_info info;

    fl_device_info(b->dev, &info);
    if (!*info.reason)
        return false;
    fl_error_set(err, -ETIMEDOUT, "%s is lost, and not back within %d s: %s", b->info->url,
                 (int)(AWAY_NS / FL_NS_PER_S), info.reason);
    return true;
}

/* For what is in flight when the time is over: as long as it takes while the target is there. */
static void drain(struct bench_job *j)
{
    struct bench *b = j->b;
    struct fl_error err = {0};
    uint64_t since = fl_now_ns();

    while (j->in_flight && !b->failed && !b->lost) {
        int n = fl_queue_poll(j->queue);

        if (n < 0)
            io_failed(j, &j->ops[0].io, n);
        else if (n > 0)
            since = fl_now_ns();
        else if (fl_now_ns() - since > AWAY_NS && is_away(b, &err))
            lost_behind(b, &err);
    }
    j->cut_off = true;
}

static void work(struct bench_job *j)
{
    enum bench_phase seen = BENCH_RAMP, now;
    uint32_t spins = 0;

    begin(j);
    while (!j->stopping && !j->b->failed) {
        int n;

        now = j->b->phase;
        if (now != seen) {
            seen = now;
            follow_phase(j, now);
        }
        if (j->b->gap != 0 && !j->stopping)
            start_due(j);
        j->stamp = 0;
        n = fl_queue_poll(j->queue);
        if (n < 0)
            io_failed(j, &j->ops[0].io, n);
        else if (n == 0)
            in_vain(j, &spins);
        else
            spins = 0;
    }
    j->stopping = true;
    drain(j);
}

static int prepare(struct bench_job *j)
{
    struct bench *b = j->b;
    const struct bench_spec *spec = b->spec;
    struct fl_error err = {0};
    uint32_t i;
    size_t k;
    int rc;

    j->memory_len = b->depth * fl_round_up(spec->block_len, 4096);
    j->memory = fl_shared_alloc(j->memory_len);
    j->ops = calloc(b->depth, sizeof(*j->ops));
    j->spare = calloc(b->depth, sizeof(struct bench_op *));
    j->stages = spec->stages ? malloc(sizeof(*j->stages)) : NULL;
    if (!j->memory || !j->ops || !j->spare || !j->stages != !spec->stages) {
        bench_fail(b, -ENOMEM, NULL, "no memory for buffers");
        return -ENOMEM;
    }
    /* Data that no layer can squeeze. */
    for (k = 0; k < j->memory_len / 8; k++)
        ((uint64_t *)j->memory)[k] = mix(&j->random);
    for (i = 0; i < b->depth; i++) {
        struct bench_op *op = &j->ops[i];

        op->job = j;
        op->iov = (struct iovec){j->memory + i * fl_round_up(spec->block_len, 4096), spec->block_len};
        op->io = (struct fl_io){.len = spec->block_len, .iov = &op->iov, .nr_iov = 1, .done = done};
        op->io.times = spec->stages ? &op->times : NULL;
    }
    rc = fl_queue_create(b->dev, b->queue_depth, &j->queue, &err);
    if (rc < 0)
        bench_fail(b, device_lost_code(b->dev, rc), &err, "no queue");
    return rc;
}

static void bind_to_cpu(const struct bench_job *j)
{
    const struct fl_cpulist *cpus = j->b->spec->cpus;
    cpu_set_t set;

    if (!cpus)
        return;
    CPU_ZERO(&set);
    CPU_SET(cpus->cpu[j->index % cpus->nr], &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        bench_fail(j->b, -errno, NULL, "--cpus: cannot bind a thread");
}

void *bench_job_run(void *arg)
{
    struct bench_job *j = arg;
    int rc;

    bind_to_cpu(j);
    rc = prepare(j);
    j->b->nr_ready++;
    if (rc == 0)
        work(j);
    if (j->queue)
        fl_queue_destroy(j->queue);
    return NULL;
}

void bench_job_init(struct bench_job *j, struct bench *b, uint32_t index)
{
    const uint64_t part = b->nr_blocks / b->nr_jobs;

    *j = (struct bench_job){.b = b,
                            .index = index,
                            .random = UINT64_C(0x5eed) * (index + 1),
                            .arrival = UINT64_C(0xa771) * (index + 1),
                            .generation = 1};
    fl_histogram_init(&j->latency);
    /* Sequential jobs, and those that check data, keep to a part each. */
    if (b->spec->random && !b->spec->verify) {
        j->nr_blocks = b->nr_blocks;
    } else {
        j->first_block = index * part;
        j->nr_blocks = part;
    }
}

void bench_job_fini(struct bench_job *j)
{
    fl_shared_free(j->memory, j->memory_len);
    free(j->stages);
    free(j->spare);
    free(j->ops);
}
