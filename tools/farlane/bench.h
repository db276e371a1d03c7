/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `farlane bench`, in the order in which they use each other: a thread (bench_job.c), a run of
 * some (bench_run.c), the search for a rate (bench_slo.c), the order of all runs (bench_plan.c); data that
 * can be checked (bench_pattern.c), the target's CPU time (bench_peer.c); results: figures (bench_result.c),
 * table (bench_report.c), JSON (bench_json.c), two of them side by side (bench_compare.c). */
#ifndef FARLANE_BENCH_H
#define FARLANE_BENCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <jansson.h>

#include <farlane/host.h>

#include "base/cpulist.h"
#include "base/histogram.h"

#define BENCH_MAX_LIST   16
#define BENCH_MAX_URLS   16
#define BENCH_MAX_ROUNDS 64
#define BENCH_MAX_STEPS  32
#define BENCH_RATE_MET   0.99 /* of the asked rate: less means that the target cannot follow */

enum bench_wait { BENCH_BUSY, BENCH_ADAPTIVE, BENCH_SLEEP };

/* Where the time of an I/O goes. Together they are its latency. */
enum bench_stage {
    BENCH_SUBMIT, /* from its start (open loop: from when it was due) until it was handed to the transport */
    BENCH_WIRE, /* until its answer was read, without the next: both ends' transport, and what lies between */
    BENCH_BACKEND,  /* in the target, from having the command and its data to answering */
    BENCH_COMPLETE, /* from the answer until the application knows */
    BENCH_NR_STAGES
};
struct bench_stages {
    struct fl_histogram time[BENCH_NR_STAGES]; /* in ticks */
    uint64_t nr_untold; /* answers that did not tell the target's part: it is counted as wire */
};

/* What must hold of the latency: a percentile of it, or the mean. */
struct bench_slo {
    double percent;  /* 0: the mean */
    double limit_us; /* 0: nothing is asked for */
};

struct bench_spec {
    const char *rw; /* as the user wrote it */
    bool random;
    uint32_t read_percent; /* 100: reads only */
    uint64_t block_len;    /* of an I/O */
    uint64_t size;         /* part of the namespace that is used; 0: all */
    double seconds, ramp;
    double rate; /* open loop: I/Os a second of all jobs; 0: closed loop, each I/O that ends starts another */
    bool poisson; /* open loop: arrivals at random, instead of one every 1/rate */
    struct bench_slo slo;
    uint32_t nr_rounds;
    bool verify;
    bool stages; /* tell where the time goes: costs some looks at the clock for each I/O */
    enum bench_wait wait;
    const struct fl_cpulist *cpus; /* NULL: threads are not bound */
    void (*tick)(void *arg); /* some times a second while a run lasts, on the caller's thread; may be NULL */
    void *tick_arg;
};

/* A try of the search for a rate. */
struct bench_step {
    double rate, iops, us; /* asked for, seen, and what the SLO looks at */
    bool good;
};

/* One URL at one depth with one number of jobs; all rounds of it together. */
struct bench_result {
    const char *url;
    char path[16]; /* as fl_device_info has it */
    uint32_t depth, nr_jobs;
    double seconds; /* measured */
    uint64_t nr_reads, nr_writes;
    uint64_t host_cpu_ns;  /* of this whole process, polling included */
    double busy;           /* share of the jobs' time that was not spent polling in vain; 0..1 */
    int64_t target_cpu_ns; /* -1: not known */
    double waited; /* share of the time for which this process or the target was kept from a CPU by others */
    pid_t target_pid; /* 0: none here */
    double ns_per_tick;
    double rate;        /* that was asked for; 0: closed loop */
    uint64_t nr_behind; /* I/Os that were due and had not started at the end */
    uint32_t nr_rounds; /* each with its own: */
    double round_iops[BENCH_MAX_ROUNDS], round_us[BENCH_MAX_ROUNDS]; /* rate seen, mean latency */
    uint32_t nr_steps;
    struct bench_step step[BENCH_MAX_STEPS];
    struct fl_histogram latency; /* in ticks */
    struct bench_stages *stages; /* NULL: not asked for; the result's owner frees it */
};

/* What a command line asks for. */
struct bench_list {
    uint32_t nr, value[BENCH_MAX_LIST];
};

struct bench_plan {
    const char *urls[BENCH_MAX_URLS];
    uint32_t nr_urls;
    struct bench_list depths, jobs;
    struct bench_spec spec;
    struct fl_device_options device;
    struct bench_result **results; /* url by url, jobs by jobs, depth by depth */
    uint32_t nr_results;
};

/* Adds a round to the result. The results of equal jobs are comparable: same seed, same ramp. Errors: the
 * first failed I/O ends the run. 1: the result is there, but the target was lost behind the measured time, as
 * err tells. */
int bench_run(struct fl_device *dev, const struct fl_device_info *info, const struct bench_spec *spec,
              pid_t target, struct bench_result *result, struct fl_error *err);

/* The highest rate at which spec->slo holds: found by halving, proved by a run of its own, which is the
 * result. -ERANGE: at no rate that was tried. */
int bench_slo_run(struct fl_device *dev, const struct fl_device_info *info, const struct bench_spec *spec,
                  pid_t target, struct bench_result *result, struct fl_error *err);

/* Runs everything; rounds go over all runs in turn (A B A B), so that what disturbs the machine disturbs all.
 * 1: as bench_run(), and what was not run is left out. Results are the plan's until bench_plan_fini. */
int bench_plan_run(struct bench_plan *plan, struct fl_error *err);
void bench_plan_fini(struct bench_plan *plan);

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
/* Of all its threads so far; -1: not known. */
struct bench_cpu {
    int64_t ns, wait_ns; /* on a CPU; ready to run, but not on one */
};
struct bench_cpu bench_peer_cpu(pid_t pid);

/* ---- bench_result.c ---- */
/* After a first round has been counted: notes what it alone showed. */
void bench_result_close(struct bench_result *r, double rate);
/* Adds a round of the same run. */
void bench_result_add(struct bench_result *to, const struct bench_result *round);
double bench_iops(const struct bench_result *r); /* median of the rounds */
/* Half the distance between the fastest and the slowest round, as a share of the median. */
double bench_spread(const struct bench_result *r);
double bench_mean_us(const struct bench_result *r);
double bench_percentile_us(const struct bench_result *r, double percent);
double bench_slo_us(const struct bench_result *r, const struct bench_slo *slo);
double bench_host_cores(const struct bench_result *r);
double bench_target_cores(const struct bench_result *r); /* negative: not known */
/* True if others kept either end from its CPU so much that the figures tell about them. */
bool bench_was_disturbed(const struct bench_result *r);
double bench_cores_per_miops(const struct bench_result *r);
bool bench_is_local(const char *url);
/* True if an open loop ran and the target could not follow. */
bool bench_fell_behind(const struct bench_result *r);
/* "p99" or "mean", for people and files. */
void bench_stages_init(struct bench_stages *s);
void bench_stages_merge(struct bench_stages *to, const struct bench_stages *from);
double bench_stage_us(const struct bench_result *r, enum bench_stage stage, double percent); /* 0: the mean */
/* False: the target did not tell its part. */
bool bench_stage_is_known(const struct bench_result *r, enum bench_stage stage);
extern const char *const bench_stage_names[BENCH_NR_STAGES];
const char *bench_slo_name(const struct bench_slo *slo, char buf[16]);

/* ---- bench_report.c ---- */
void bench_report_table(const struct bench_plan *plan);

/* ---- bench_json.c ---- */
/* An array of objects, one a run. */
json_t *bench_json(const struct bench_plan *plan);
void bench_json_print(const struct bench_plan *plan);
/* The same with the machine, the date and each run's latency histogram, into a file that bench_compare reads.
 */
/* Replaces saved results, and with `force` any file. */
int bench_json_save(const struct bench_plan *plan, const char *path, bool force, struct fl_error *err);
/* Whether it would. */
int bench_json_save_check(const char *path, bool force, struct fl_error *err);

/* ---- bench_compare.c ---- */
/* Prints the runs that two saved results have in common. */
bool bench_is_saved(const char *path); /* whether the file is one that --compare takes */
int bench_compare(const char *old_path, const char *new_path, struct fl_error *err);

#endif
