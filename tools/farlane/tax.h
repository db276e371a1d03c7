/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of `farlane tax`: which ways to the device there are here (tax_paths.c), one measurement of one
 * of them (tax_measure.c), all of them in turn (tax_run.c), figures (tax_result.c), and how they are shown
 * (tax_report.c, tax_json.c, tax_html.c). Everything is measured by programs of their own (farlane bench,
 * fio, iscsi-perf), so that each path has two whole ends and its figures are those that anyone can repeat
 * with the command that is printed. */
#ifndef FARLANE_TAX_H
#define FARLANE_TAX_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include <farlane/host.h>

#include "child.h"
#include "verbs/devices.h"

#define TAX_MAX_PATHS  24
#define TAX_MAX_ROUNDS 21
#define TAX_TEXT       1280

/* tgtd's number of itself, since another may run: of the process that measures */
#define TAX_TGT_INSTANCE(pid) (100 + (int)((pid) % 30000))

enum tax_tool { TAX_BENCH, TAX_FIO, TAX_ISCSI_PERF };

/* What is measured of each path. */
enum tax_job { TAX_LATENCY, TAX_IOPS, TAX_BANDWIDTH, TAX_NR_JOBS };

struct tax_sample {
    double us[4]; /* mean, p50, p99, p99.9; negative: the tool does not tell */
    double iops, gb_per_s;
    double host_cores, target_cores; /* negative: not known */
    double busy; /* share of the host's time that was not polling in vain; negative: the tool does not tell */
    double waited; /* share of the time for which others kept it from a CPU; negative: not known */
};

struct tax_path {
    const char *key;    /* for files: "local", "rdma-shm" … */
    char name[64];      /* for people */
    char url[TAX_TEXT]; /* what the tool opens */
    const char *wants;  /* way by which they must go for the row to be what its name says; NULL: any */
    char way[16];       /* by which the bytes went, as farlane bench tells it: "shm", "udp", "tcp" …; "": not told */
    const char *env;    /* "NAME=VALUE" for both ends; NULL: none */
    enum tax_tool tool;
    pid_t target;           /* whose CPU time is the other end's; 0: there is none, or it is not known */
    bool local;             /* there is no other end */
    double copies;          /* by CPUs, for each byte read, the kernel's among them; negative: not known */
    char why_not[256];      /* "": it is measured; else why there are no figures */
    char command[TAX_TEXT]; /* that repeats the last measurement */
    uint32_t nr_rounds;
    struct tax_sample sample[TAX_NR_JOBS][TAX_MAX_ROUNDS];
    json_t *
        histogram; /* of the latency at depth 1, all rounds: [[us, count], …]; NULL: the tool does not tell */
};

struct tax {
    const char *urls[TAX_MAX_PATHS]; /* given by the user; none: a file that is made */
    uint32_t nr_urls;
    double seconds; /* of one measurement */
    uint32_t nr_rounds;
    uint64_t size; /* of the part that is read, and of the file that is made */
    const char *folder;
    bool ours_only; /* leave programs out that are not farlane's */
    bool brief; /* no bandwidth, no row with digests; beside URLs of a target, of this machine only the device itself */

    char work[256];      /* a temporary folder */
    pid_t guard;         /* that removes it; 0: none */
    int guard_fd;        /* it does so when this is closed */
    char exe[4096];      /* this program */
    char spec[TAX_TEXT]; /* the device, as a local URL; "" if only remote ones were given */
    char how[512];       /* a file is read: "direct, io_uring", or what it fell back to, and why */
    struct child servers[8];
    uint32_t nr_servers;
    struct tax_path paths[TAX_MAX_PATHS];
    uint32_t nr_paths;
    double took;    /* s */
    int stopped_by; /* a signal; 0: none */
};

#define TAX_MIN_SIZE (1u << 20)

/* ---- tax_paths.c ---- */
/* What is measured unless somebody says otherwise. */
void tax_init(struct tax *tax);
/* Makes the device if none is given, starts what serves it, and lists the paths. */
int tax_open(struct tax *tax, struct fl_error *err);
/* Stops the servers and removes what was made. May be called at any time, also twice. */
void tax_close(struct tax *tax);

/* ---- tax_nvmet.c ---- */
const char *tax_nvmet_configfs(void);
/* NULL, or why the kernel's target cannot be had here. */
const char *tax_nvmet_missing(const char *configfs);
/* It serves the file by NVMe/TCP at 127.0.0.1 as namespace 1 once the child has written "ready", until it is stopped. */
int tax_nvmet_start(struct child *c, const char *nqn, const char *file, int port, struct fl_error *err);
/* Waits, 2 s at most, without a connection, of which the kernel's target would complain in its log. */
bool tax_nvmet_listens(int port);

/* ---- tax_hardware.c ---- */
/* Where to listen, "rdma://ADDRESS:0?dev=NAME". 1; 0: this machine has no RDMA device; negative, with text: it has, but it
 * cannot be used. */
int tax_hardware(char *listen, size_t len, char device[FL_RDMA_NAME_LEN], struct fl_error *err);

/* ---- tax_guard.c ---- */
int tax_guard_start(struct tax *tax, struct fl_error *err);
void tax_guard_end(struct tax *tax); /* waits until all is removed */

/* ---- tax_measure.c ---- */
int tax_measure(struct tax *tax, struct tax_path *path, enum tax_job job, struct tax_sample *sample,
                struct fl_error *err);
extern const char *const tax_job_texts[TAX_NR_JOBS];
/* Median time that the target's back end takes for a read at depth 1, in us, as a target of farlane's tells it; negative:
 * it does not. */
double tax_service_us(struct tax *tax, struct tax_path *path);

/* ---- tax_run.c ---- */
/* Rounds over all paths in turn. A path that fails keeps the reason in why_not and is left out from then on.
 */
int tax_run(struct tax *tax, struct fl_error *err);

/* ---- tax_result.c ---- */
struct tax_figure {
    bool known;
    double median, least, most;
};
enum tax_column {
    TAX_MEAN,
    TAX_P50,
    TAX_P99,
    TAX_P999, /* us at depth 1 */
    TAX_RATE, /* I/Os a second at depth 32 */
    TAX_GBPS, /* GB/s of 128 KiB */
    TAX_HOST,
    TAX_TARGET, /* cores for a million I/Os a second, at depth 32 */
};
struct tax_figure tax_figure(const struct tax_path *path, enum tax_column column);
/* What the fabric adds to the local device, round by round; not known without one. */
struct tax_figure tax_added(const struct tax *tax, const struct tax_path *path, enum tax_column column);
/* The local path that the others are held against; NULL: none. */
const struct tax_path *tax_base(const struct tax *tax);
/* The largest share of the time for which others kept one of the programs from a CPU. */
double tax_disturbance(const struct tax *tax);
/* What to tell of it; false: it is not worth a word. */
bool tax_tell_disturbance(const struct tax *tax, char *text, size_t len);
#define TAX_DISTURBED 0.05

/* ---- how it is shown ---- */
void tax_report(const struct tax *tax);
json_t *tax_json(const struct tax *tax);
int tax_html(const struct tax *tax, const char *file, struct fl_error *err);

#endif
