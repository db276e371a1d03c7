/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `farlane bench`: runs (bench_run.c), data that can be checked (bench_pattern.c), the target's
 * CPU time (bench_peer.c), results (bench_report.c). */
#ifndef FARLANE_BENCH_H
#define FARLANE_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <farlane/host.h>

#include "base/cpulist.h"
#include "base/histogram.h"

#define BENCH_MAX_LIST 16

enum bench_wait { BENCH_BUSY, BENCH_ADAPTIVE, BENCH_SLEEP };

struct bench_spec {
    const char *rw; /* as the user wrote it */
    bool random;
    uint32_t read_percent; /* 100: reads only */
    uint64_t block_len;    /* of an I/O */
    uint64_t size;         /* part of the namespace that is used; 0: all */
    double seconds, ramp;
    bool verify;
    enum bench_wait wait;
    const struct fl_cpulist *cpus; /* NULL: threads are not bound */
};

/* One URL at one depth with one number of jobs. */
struct bench_result {
    const char *url;
    uint32_t depth, nr_jobs;
    double seconds; /* measured */
    uint64_t nr_reads, nr_writes;
    uint64_t host_cpu_ns;  /* of this whole process, polling included */
    double busy;           /* share of the jobs' time that was not spent polling in vain; 0..1 */
    int64_t target_cpu_ns; /* -1: not known */
    pid_t target_pid;      /* 0: none here */
    double ns_per_tick;
    struct fl_histogram latency; /* in ticks */
};

/* The results of equal jobs are comparable: same seed, same ramp. errors: the first failed I/O ends the run.
 */
int bench_run(struct fl_device *dev, const struct fl_device_info *info, const struct bench_spec *spec,
              pid_t target, struct bench_result *result, struct fl_error *err);

/* ---- bench_pattern.c ---- */
/* Each sector carries where it belongs and by which write; the rest follows from both. */
void bench_pattern_fill(void *buf, uint64_t off, uint64_t len, uint32_t sector, uint64_t generation);
/* False: *bad is the offset of the first sector that is not what any write put there. */
bool bench_pattern_check(const void *buf, uint64_t off, uint64_t len, uint32_t sector, uint64_t *bad);
/* Writes the pattern over [0, len). */
int bench_pattern_lay(struct fl_device *dev, uint64_t len, uint32_t sector, struct fl_error *err);

/* ---- bench_peer.c ---- */
/* The process on this machine that listens where the URL points; 0: none, or not visible for this user. */
pid_t bench_peer_find(const char *url);
/* CPU time of all its threads so far; -1: not known. */
int64_t bench_peer_cpu_ns(pid_t pid);

/* ---- bench_report.c ---- */
void bench_report_table(const struct bench_spec *spec, struct bench_result *const *results, uint32_t nr);
void bench_report_json(const struct bench_spec *spec, struct bench_result *const *results, uint32_t nr);
double bench_iops(const struct bench_result *r);

#endif
