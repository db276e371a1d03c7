/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/url.h"
#include "bench_clock.h"
#include "bench_job.h"
#include "cmd.h"
#include "term.h"

#define CALIBRATION_NS (20 * FL_NS_PER_MS)

bool bench_clock_tsc;
double bench_clock_ns_per_tick = 1;

static void calibrate(void)
{
    const uint64_t ns = fl_now_ns(), ticks = bench_ticks();
    uint64_t now;

    while ((now = fl_now_ns()) - ns < CALIBRATION_NS)
        ;
    bench_clock_ns_per_tick = (double)(now - ns) / (double)(bench_ticks() - ticks);
}

void bench_clock_init(bool library)
{
#if defined(__x86_64__)
    char line[8192];
    FILE *f = fopen("/proc/cpuinfo", "re");

    while (!library && f && fgets(line, sizeof(line), f)) {
        if (strncmp(line, "flags", 5))
            continue;
        bench_clock_tsc = strstr(line, " constant_tsc") && strstr(line, " nonstop_tsc");
        break;
    }
    if (f)
        fclose(f);
#endif
    calibrate();
}

/* ---- all jobs of a run ---- */

static uint64_t process_cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * FL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* What both ends used and lacked between two readings. */
static void count_cpu(const struct bench_cpu from[2], struct bench_result *r)
{
    const struct bench_cpu host = bench_peer_cpu(getpid()), target = bench_peer_cpu(r->target_pid);
    int64_t waited = host.wait_ns - from[0].wait_ns;

    r->target_cpu_ns = -1;
    if (from[1].ns >= 0 && target.ns >= 0) {
        r->target_cpu_ns = target.ns - from[1].ns;
        waited = FL_MAX(waited, target.wait_ns - from[1].wait_ns);
    }
    r->waited = FL_MIN((double)FL_MAX(waited, 0) / 1e9 / r->seconds / r->nr_jobs, 1.0);
}

static void sleep_until(const struct bench *b, uint64_t deadline)
{
    while (!b->failed) {
        uint64_t now = fl_now_ns();

        if (now >= deadline)
            return;
        if (b->spec->tick)
            b->spec->tick(b->spec->tick_arg);
        usleep((useconds_t)(FL_MIN(deadline - now, 50 * FL_NS_PER_MS) / 1000 + 1));
    }
}

static void note_path(const struct bench *b, struct bench_result *r)
{
    struct fl_device_info info = {0};

    fl_device_info(b->dev, &info);
    memcpy(r->path, info.path, sizeof(r->path));
}

static void measure(struct bench *b, pid_t target, struct bench_result *r, uint32_t nr_jobs)
{
    uint64_t ticks, ns, cpu;
    struct bench_cpu ends[2];

    while (b->nr_ready < nr_jobs)
        usleep(1000);
    ns = fl_now_ns();
    b->phase = BENCH_RAMP;
    sleep_until(b, ns + (uint64_t)(b->spec->ramp * 1e9));
    ticks = bench_ticks();
    ns = fl_now_ns();
    cpu = process_cpu_ns();
    ends[0] = bench_peer_cpu(getpid());
    ends[1] = bench_peer_cpu(target);
    b->phase = BENCH_MEASURE;
    sleep_until(b, ns + (uint64_t)(b->spec->seconds * 1e9));
    note_path(b, r); /* while the queues are there */
    b->phase = BENCH_STOP;
    cpu = process_cpu_ns() - cpu;
    ns = fl_now_ns() - ns;
    r->ns_per_tick = (double)ns / (double)(bench_ticks() - ticks);
    r->host_cpu_ns = cpu;
    r->seconds = (double)ns / 1e9;
    count_cpu(ends, r);
}

static void gather(struct bench_job *jobs, uint32_t nr, struct bench_result *r)
{
    double time = 0, idle = 0;
    uint32_t i;

    fl_histogram_init(&r->latency);
    if (r->stages)
        bench_stages_init(r->stages);
    for (i = 0; i < nr; i++) {
        fl_histogram_merge(&r->latency, &jobs[i].latency);
        if (r->stages && jobs[i].stages)
            bench_stages_merge(r->stages, jobs[i].stages);
        r->nr_reads += jobs[i].nr_reads;
        r->nr_writes += jobs[i].nr_writes;
        r->nr_behind += jobs[i].nr_behind;
        time += (double)(jobs[i].end - jobs[i].start);
        idle += (double)jobs[i].idle;
    }
    r->busy = time > 0 ? FL_MAX(0.0, 1 - idle / time) : 0;
}

static int run_jobs(struct bench *b, struct bench_job *jobs, pid_t target, struct bench_result *r)
{
    uint32_t i, started = 0;
    int rc = 0;

    for (i = 0; i < r->nr_jobs && rc == 0; i++) {
        bench_job_init(&jobs[i], b, i);
        rc = pthread_create(&jobs[i].thread, NULL, bench_job_run, &jobs[i]);
        started += rc == 0;
    }
    if (rc)
        bench_fail(b, -rc, NULL, "cannot start a thread");
    measure(b, target, r, started);
    for (i = 0; i < started; i++)
        pthread_join(jobs[i].thread, NULL);
    gather(jobs, started, r);
    for (i = 0; i < started; i++)
        bench_job_fini(&jobs[i]);
    return b->failed;
}

/* The URL asks for a queue that is smaller than what is to be in flight: the rest waits in this host, which is
 * measured as it is, and said. */
static bool limited_by_url(const char *text, const struct bench *b, const struct fl_device_info *info)
{
    static const char *said_of;
    static uint32_t said_depth;
    struct fl_url url;

    if (fl_url_parse(text, &url, NULL) < 0 || !fl_url_is_remote(&url) || url.depth < 2 ||
        url.depth - 1 > info->max_depth)
        return false;
    if (said_of == text && said_depth == b->depth)
        return true; /* once, not for each round */
    said_of = text;
    said_depth = b->depth;
    cmd_complain("%s: depth=%u of the URL lets the target have %u commands at a time: of the %u of --depth %u "
                 "the others wait here",
                 text, url.depth, info->max_depth, b->queue_depth, b->depth);
    return true;
}

int bench_run(struct fl_device *dev, const struct fl_device_info *info, const struct bench_spec *spec,
              pid_t target, struct bench_result *result, struct fl_error *err)
{
    struct bench b = {.dev = dev,
                      .info = info,
                      .spec = spec,
                      .sector = info->block_len,
                      .depth = result->depth,
                      .nr_jobs = result->nr_jobs,
                      .err_lock = PTHREAD_MUTEX_INITIALIZER};
    const uint64_t len = spec->size ? FL_MIN(spec->size, info->len) : info->len;
    struct bench_job *jobs;
    int rc;

    if (spec->block_len % info->block_len)
        return fl_error_set(err, -EINVAL,
                            "--bs %" PRIu64 " is no multiple of the namespace's blocks of %u bytes",
                            spec->block_len, info->block_len);
    b.nr_blocks = len / spec->block_len;
    if (spec->rate > 0)
        b.gap = 1e9 / bench_clock_ns_per_tick * result->nr_jobs / spec->rate;
    b.queue_depth = b.depth;
    if (info->max_transfer_len)
        b.queue_depth *= (uint32_t)((spec->block_len + info->max_transfer_len - 1) / info->max_transfer_len);
    if (info->max_depth && b.queue_depth > info->max_depth && !limited_by_url(result->url, &b, info))
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
    if (rc == 0 && result->latency.count == 0)
        rc = b.lost ? b.lost : fl_error_set(err, -ETIMEDOUT, "no I/O ended within %.1f s", result->seconds);
    if (rc < 0)
        return fl_error_set(err, rc, "%s", b.err.text);
    bench_result_close(result, spec->rate);
    if (b.lost)
        fl_error_set(err, b.lost, "%s", b.err.text);
    return b.lost != 0;
}
