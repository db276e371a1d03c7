/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/util.h"
#include "mem/shared.h"
#include "bench.h"
#include "bench_clock.h"
#include "endpoint.h"

#define MEASURED_SPIN 2000u /* adaptive: polls in vain before sleeping */

bool bench_clock_tsc;

enum phase { PREPARE, RAMP, MEASURE, STOP };

struct job;

struct op {
    struct job *job;
    uint64_t start; /* ticks */
    struct iovec iov;
    struct fl_io io;
};

/* What threads share is read-only but for phase and failure. */
struct bench {
    struct fl_device *dev;
    const struct fl_device_info *info;
    const struct bench_spec *spec;
    uint32_t sector, depth;
    uint32_t queue_depth; /* commands: an I/O that is split takes several */
    uint64_t nr_blocks;   /* I/Os of block_len that fit into the part that is used */
    _Atomic enum phase phase;
    _Atomic int failed;
    _Atomic uint32_t nr_ready;
    struct fl_error err; /* of the first that failed */
    pthread_mutex_t err_lock;
};

struct job {
    struct bench *b;
    pthread_t thread;
    uint32_t index;
    struct fl_queue *queue;
    struct op *ops;
    char *memory;
    size_t memory_len;
    uint64_t first_block, nr_blocks, next_block; /* its part of the blocks; sequential: where it is */
    uint64_t random, generation;
    uint64_t stamp;      /* time of the batch that is completing; 0: not read yet */
    uint64_t idle_since; /* first poll in vain of a row; 0: none */
    uint64_t idle;       /* ticks */
    uint32_t in_flight;
    bool measuring, stopping;
    uint64_t nr_reads, nr_writes;
    uint64_t start, end; /* ticks */
    struct fl_histogram latency;
} __attribute__((aligned(2 * FL_CACHE_LINE)));

void bench_clock_init(void)
{
#if defined(__x86_64__)
    char line[8192];
    FILE *f = fopen("/proc/cpuinfo", "re");

    while (f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "flags", 5))
            continue;
        bench_clock_tsc = strstr(line, " constant_tsc") && strstr(line, " nonstop_tsc");
        break;
    }
    if (f)
        fclose(f);
#endif
}

static void fail(struct bench *b, int code, const struct fl_error *err, const char *what)
{
    pthread_mutex_lock(&b->err_lock);
    if (!b->failed) {
        if (err && err->text[0])
            b->err = *err;
        else
            fl_error_set(&b->err, code, "%s: %s", what, strerror(-code));
        b->failed = code;
    }
    pthread_mutex_unlock(&b->err_lock);
}

static void io_failed(struct bench *b, const struct fl_io *io, int code)
{
    struct fl_error err = {0};

    code = device_io_error(b->dev, b->info, io->op == FL_IO_READ ? "cannot read" : "cannot write to", code,
                           io->nvme_status, &err);
    fail(b, code, &err, NULL);
}

/* ---- one I/O ---- */

static uint64_t next_random(struct job *j)
{
    uint64_t x = j->random += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t choose_block(struct job *j)
{
    if (j->b->spec->random)
        return j->first_block + (uint64_t)(((unsigned __int128)next_random(j) * j->nr_blocks) >> 64);
    if (j->next_block == j->nr_blocks)
        j->next_block = 0;
    return j->first_block + j->next_block++;
}

static bool choose_read(struct job *j)
{
    const uint32_t percent = j->b->spec->read_percent;

    if (percent == 100 || percent == 0)
        return percent == 100;
    return (uint32_t)(((next_random(j) >> 32) * 100) >> 32) < percent;
}

static void start(struct job *j, struct op *op, uint64_t now)
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
        io_failed(j->b, &op->io, rc);
    else
        j->in_flight++;
}

static void check(struct job *j, struct op *op)
{
    struct fl_error err = {0};
    uint64_t bad;

    if (bench_pattern_check(op->iov.iov_base, op->io.off, op->io.len, j->b->sector, &bad))
        return;
    fl_error_set(&err, -EILSEQ, "wrong data at offset %" PRIu64 ": not what any write put there", bad);
    fail(j->b, -EILSEQ, &err, NULL);
}

static void done(struct fl_io *io, int result)
{
    struct op *op = FL_CONTAINER_OF(io, struct op, io);
    struct job *j = op->job;

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
        if (!j->stopping)
            io_failed(j->b, io, result);
        return;
    }
    if (j->measuring) {
        fl_histogram_record(&j->latency, j->stamp - op->start);
        if (io->op == FL_IO_READ)
            j->nr_reads++;
        else
            j->nr_writes++;
    }
    if (j->b->spec->verify && io->op == FL_IO_READ)
        check(j, op);
    if (!j->stopping)
        start(j, op, j->b->spec->verify ? bench_ticks() : j->stamp);
}

/* ---- a job ---- */

static void follow_phase(struct job *j, enum phase phase)
{
    if (phase == MEASURE && !j->measuring) {
        fl_histogram_init(&j->latency);
        j->nr_reads = j->nr_writes = j->idle = 0;
        j->start = bench_ticks();
        if (j->idle_since)
            j->idle_since = j->start;
        j->measuring = true;
    } else if (phase == STOP) {
        j->end = bench_ticks();
        j->measuring = false;
        j->stopping = true;
    }
}

static void in_vain(struct job *j, uint32_t *spins)
{
    const enum bench_wait wait = j->b->spec->wait;

    if (!j->idle_since)
        j->idle_since = bench_ticks();
    if (wait == BENCH_BUSY || (wait == BENCH_ADAPTIVE && ++*spins < MEASURED_SPIN))
        return;
    *spins = 0;
    fl_queue_wait(j->queue, 20);
}

static void work(struct job *j)
{
    enum phase seen = RAMP, now;
    uint32_t i, spins = 0;

    while (j->b->phase == PREPARE)
        sched_yield();
    for (i = 0; i < j->b->depth && !j->b->failed; i++)
        start(j, &j->ops[i], bench_ticks());
    while (!j->stopping && !j->b->failed) {
        int n;

        now = j->b->phase;
        if (now != seen) {
            seen = now;
            follow_phase(j, now);
        }
        j->stamp = 0;
        n = fl_queue_poll(j->queue);
        if (n < 0)
            io_failed(j->b, &j->ops[0].io, n);
        else if (n == 0)
            in_vain(j, &spins);
        else
            spins = 0;
    }
    j->stopping = true;
    while (j->in_flight && fl_queue_poll(j->queue) >= 0 && !j->b->failed)
        ;
}

static int prepare(struct job *j)
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
    if (!j->memory || !j->ops) {
        fail(b, -ENOMEM, NULL, "no memory for buffers");
        return -ENOMEM;
    }
    /* Data that no layer can squeeze. */
    for (k = 0; k < j->memory_len / 8; k++)
        ((uint64_t *)j->memory)[k] = next_random(j);
    for (i = 0; i < b->depth; i++) {
        struct op *op = &j->ops[i];

        op->job = j;
        op->iov = (struct iovec){j->memory + i * fl_round_up(spec->block_len, 4096), spec->block_len};
        op->io = (struct fl_io){.len = spec->block_len, .iov = &op->iov, .nr_iov = 1, .done = done};
    }
    rc = fl_queue_create(b->dev, b->queue_depth, &j->queue, &err);
    if (rc < 0)
        fail(b, rc, &err, "no queue");
    return rc;
}

static void bind_to_cpu(const struct job *j)
{
    const struct fl_cpulist *cpus = j->b->spec->cpus;
    cpu_set_t set;

    if (!cpus)
        return;
    CPU_ZERO(&set);
    CPU_SET(cpus->cpu[j->index % cpus->nr], &set);
    if (sched_setaffinity(0, sizeof(set), &set) < 0)
        fail(j->b, -errno, NULL, "--cpus: cannot bind a thread");
}

static void *run_job(void *arg)
{
    struct job *j = arg;
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

/* ---- all jobs of a run ---- */

static uint64_t process_cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * FL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static void sleep_until(const struct bench *b, uint64_t deadline)
{
    while (!b->failed) {
        uint64_t now = fl_now_ns();

        if (now >= deadline)
            return;
        usleep((useconds_t)(FL_MIN(deadline - now, 50 * FL_NS_PER_MS) / 1000 + 1));
    }
}

static void measure(struct bench *b, pid_t target, struct bench_result *r, uint32_t nr_jobs)
{
    uint64_t ticks, ns, cpu;
    int64_t target_cpu;

    while (b->nr_ready < nr_jobs)
        usleep(1000);
    ns = fl_now_ns();
    b->phase = RAMP;
    sleep_until(b, ns + (uint64_t)(b->spec->ramp * 1e9));
    ticks = bench_ticks();
    ns = fl_now_ns();
    cpu = process_cpu_ns();
    target_cpu = bench_peer_cpu_ns(target);
    b->phase = MEASURE;
    sleep_until(b, ns + (uint64_t)(b->spec->seconds * 1e9));
    b->phase = STOP;
    cpu = process_cpu_ns() - cpu;
    r->target_cpu_ns = target_cpu < 0 ? -1 : bench_peer_cpu_ns(target) - target_cpu;
    ns = fl_now_ns() - ns;
    r->ns_per_tick = (double)ns / (double)(bench_ticks() - ticks);
    r->host_cpu_ns = cpu;
    r->seconds = (double)ns / 1e9;
}

static void gather(struct job *jobs, uint32_t nr, struct bench_result *r)
{
    double time = 0, idle = 0;
    uint32_t i;

    fl_histogram_init(&r->latency);
    for (i = 0; i < nr; i++) {
        fl_histogram_merge(&r->latency, &jobs[i].latency);
        r->nr_reads += jobs[i].nr_reads;
        r->nr_writes += jobs[i].nr_writes;
        time += (double)(jobs[i].end - jobs[i].start);
        idle += (double)jobs[i].idle;
    }
    r->busy = time > 0 ? FL_MAX(0.0, 1 - idle / time) : 0;
}

static void init_job(struct job *j, struct bench *b, uint32_t index, uint32_t nr_jobs)
{
    const uint64_t part = b->nr_blocks / nr_jobs;

    *j = (struct job){.b = b, .index = index, .random = UINT64_C(0x5eed) * (index + 1), .generation = 1};
    fl_histogram_init(&j->latency);
    /* Sequential jobs, and those that check data, keep to a part each. */
    if (b->spec->random && !b->spec->verify) {
        j->nr_blocks = b->nr_blocks;
    } else {
        j->first_block = index * part;
        j->nr_blocks = part;
    }
}

static int run_jobs(struct bench *b, struct job *jobs, pid_t target, struct bench_result *r)
{
    uint32_t i, started = 0;
    int rc = 0;

    for (i = 0; i < r->nr_jobs && rc == 0; i++) {
        init_job(&jobs[i], b, i, r->nr_jobs);
        rc = pthread_create(&jobs[i].thread, NULL, run_job, &jobs[i]);
        started += rc == 0;
    }
    if (rc)
        fail(b, -rc, NULL, "cannot start a thread");
    measure(b, target, r, started);
    for (i = 0; i < started; i++) {
        pthread_join(jobs[i].thread, NULL);
        fl_shared_free(jobs[i].memory, jobs[i].memory_len);
        free(jobs[i].ops);
    }
    gather(jobs, started, r);
    return b->failed;
}

int bench_run(struct fl_device *dev, const struct fl_device_info *info, const struct bench_spec *spec,
              pid_t target, struct bench_result *result, struct fl_error *err)
{
    struct bench b = {.dev = dev,
                      .info = info,
                      .spec = spec,
                      .sector = info->block_len,
                      .depth = result->depth,
                      .err_lock = PTHREAD_MUTEX_INITIALIZER};
    const uint64_t len = spec->size ? FL_MIN(spec->size, info->len) : info->len;
    struct job *jobs;
    int rc;

    if (spec->block_len % info->block_len)
        return fl_error_set(err, -EINVAL,
                            "--bs %" PRIu64 " is no multiple of the namespace's blocks of %u bytes",
                            spec->block_len, info->block_len);
    b.nr_blocks = len / spec->block_len;
    b.queue_depth = b.depth;
    if (info->max_transfer_len)
        b.queue_depth *= (uint32_t)((spec->block_len + info->max_transfer_len - 1) / info->max_transfer_len);
    if (info->max_depth && b.queue_depth > info->max_depth)
        return fl_error_set(err, -EINVAL, "--depth %u needs a queue of %u commands; %s grants %u at most",
                            b.depth, b.queue_depth, result->url, info->max_depth);
    if (b.nr_blocks < result->nr_jobs)
        return fl_error_set(err, -EINVAL, "%s has no room for %u jobs with blocks of %" PRIu64 " bytes",
                            result->url, result->nr_jobs, spec->block_len);
    jobs = aligned_alloc(2 * FL_CACHE_LINE, fl_round_up(result->nr_jobs * sizeof(*jobs), 2 * FL_CACHE_LINE));
    if (!jobs)
        return fl_error_set(err, -ENOMEM, "out of memory");
    rc = run_jobs(&b, jobs, target, result);
    free(jobs);
    if (rc < 0)
        fl_error_set(err, rc, "%s", b.err.text);
    else if (result->latency.count == 0)
        rc = fl_error_set(err, -ETIMEDOUT, "no I/O ended within %.1f s", result->seconds);
    return rc;
}
