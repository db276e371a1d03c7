/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/url.h"
#include "base/util.h"
#include "bench.h"
#include "bench_clock.h"
#include "endpoint.h"
#include "term.h"

enum {
    OPT_RW = 256,
    OPT_BS,
    OPT_DEPTH,
    OPT_JOBS,
    OPT_SECONDS,
    OPT_RAMP,
    OPT_SIZE,
    OPT_VERIFY,
    OPT_CPUS,
    OPT_WAIT,
    OPT_DESTROY,
    OPT_SCALING,
    OPT_JSON
};

#define MAX_URLS       16
#define VERIFY_SIZE    (UINT64_C(256) << 20)
#define SCALING_MARGIN 0.95

static const struct cmd_option options[] = {
    {OPT_RW, "rw", "KIND",
     "randread (default), randwrite, read, write, or a mix with its share of reads: randrw:70, rw:70"},
    {OPT_BS, "bs", "SIZE", "size of an I/O, default 4k"},
    {OPT_DEPTH, "depth", "LIST", "I/Os in flight of each job, one run for each, default 1,32"},
    {OPT_JOBS, "jobs", "LIST", "threads with a queue each, one run for each, default 1"},
    {OPT_SECONDS, "seconds", "N", "measured time of a run, default 5"},
    {OPT_RAMP, "ramp", "N", "seconds before it that do not count, default 0.5"},
    {OPT_SIZE, "size", "SIZE", "use only the first SIZE of the namespace"},
    {OPT_VERIFY, "verify", NULL,
     "write data that can be checked first, and check each read (of 256 MiB unless --size is given)"},
    {OPT_CPUS, "cpus", "LIST", "bind the jobs to these CPUs in turn"},
    {OPT_WAIT, "wait", "MODE", "of the host: busy (default: polls without end), adaptive, sleep"},
    {OPT_DESTROY, "destroy-data", NULL, "allow writes to what is more than this process's own RAM"},
    {OPT_SCALING, "expect-scaling", NULL, "fail if more jobs do less work"},
    {OPT_JSON, "json", NULL, "as an array of objects, one a run"},
    DEVICE_OPTIONS,
    CMD_OPTION_END,
};

struct list {
    uint32_t nr, value[BENCH_MAX_LIST];
};

struct bench_args {
    const char *urls[MAX_URLS];
    uint32_t nr_urls;
    struct list depths, jobs;
    struct bench_spec spec;
    struct fl_cpulist cpus;
    bool destroy, scaling, json;
    struct fl_device_options device;
    struct bench_result *results[MAX_URLS * BENCH_MAX_LIST * BENCH_MAX_LIST];
    uint32_t nr_results;
};

/* ---- options ---- */

static bool take_list(const struct cmd_args *args, uint32_t max, struct list *list)
{
    const char *p = args->arg;
    char one[16];
    uint64_t v;

    list->nr = 0;
    while (*p) {
        size_t len = strcspn(p, ",");

        snprintf(one, sizeof(one), "%.*s", (int)FL_MIN(len, sizeof(one) - 1), p);
        if (list->nr == BENCH_MAX_LIST || fl_number_parse(one, 1, max, "", &v, NULL) < 0)
            break;
        list->value[list->nr++] = (uint32_t)v;
        p += len + (p[len] == ',');
    }
    if (!*p && list->nr)
        return true;
    cmd_usage(args->cmd, "--%s %s: up to %d numbers from 1 to %u with commas between, as 1,32", args->name,
              args->arg, BENCH_MAX_LIST, max);
    return false;
}

static bool take_rw(const struct cmd_args *args, struct bench_spec *spec)
{
    const char *text = args->arg, *colon = strchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    uint64_t percent = 50;

    spec->rw = text;
    spec->random = len > 4 && !strncmp(text, "rand", 4);
    if (spec->random)
        text += 4, len -= 4;
    if (len == 4 && !strncmp(text, "read", 4) && !colon) {
        spec->read_percent = 100;
        return true;
    }
    if (len == 5 && !strncmp(text, "write", 5) && !colon) {
        spec->read_percent = 0;
        return true;
    }
    if (len == 2 && !strncmp(text, "rw", 2) &&
        (!colon || fl_number_parse(colon + 1, 1, 99, "", &percent, NULL) == 0)) {
        spec->read_percent = (uint32_t)percent;
        return true;
    }
    cmd_usage(args->cmd,
              "--rw %s: allowed are randread, randwrite, read, write, randrw:1 to randrw:99, rw:1 to rw:99",
              args->arg);
    return false;
}

static bool take_seconds(const struct cmd_args *args, double min, double *seconds)
{
    char *end;
    double v = strtod(args->arg, &end);

    if (*args->arg && !*end && v >= min && v <= 86400) {
        *seconds = v;
        return true;
    }
    cmd_usage(args->cmd, "--%s %s: a number of seconds from %g to 86400", args->name, args->arg, min);
    return false;
}

static bool take_wait(const struct cmd_args *args, enum bench_wait *wait)
{
    static const char *const names[] = {"busy", "adaptive", "sleep"};
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(names); i++) {
        if (!strcmp(args->arg, names[i])) {
            *wait = (enum bench_wait)i;
            return true;
        }
    }
    cmd_usage(args->cmd, "--wait %s: allowed are busy, adaptive, sleep", args->arg);
    return false;
}

static bool take_bs(const struct cmd_args *args, struct bench_spec *spec)
{
    if (!cmd_args_size(args, &spec->block_len))
        return false;
    if (spec->block_len >= 512 && spec->block_len <= 64u << 20 && spec->block_len % 512 == 0)
        return true;
    cmd_usage(args->cmd, "--bs %s: a multiple of 512 bytes, up to 64M", args->arg);
    return false;
}

static bool take_cpus(const struct cmd_args *args, struct bench_args *a)
{
    struct fl_error err = {0};

    if (fl_cpulist_parse(args->arg, &a->cpus, &err) < 0) {
        cmd_usage(args->cmd, "--cpus: %s", err.text);
        return false;
    }
    a->spec.cpus = &a->cpus;
    return true;
}

static bool take_option(const struct cmd_args *args, int id, struct bench_args *a)
{
    bool bad = false;

    if (device_option(args, id, &a->device, &bad))
        return !bad;
    switch (id) {
    case OPT_RW:
        return take_rw(args, &a->spec);
    case OPT_BS:
        return take_bs(args, &a->spec);
    case OPT_DEPTH:
        return take_list(args, 65535, &a->depths);
    case OPT_JOBS:
        return take_list(args, 1024, &a->jobs);
    case OPT_SECONDS:
        return take_seconds(args, 0.1, &a->spec.seconds);
    case OPT_RAMP:
        return take_seconds(args, 0, &a->spec.ramp);
    case OPT_SIZE:
        return cmd_args_size(args, &a->spec.size);
    case OPT_VERIFY:
        a->spec.verify = true;
        return true;
    case OPT_CPUS:
        return take_cpus(args, a);
    case OPT_WAIT:
        return take_wait(args, &a->spec.wait);
    case OPT_DESTROY:
        a->destroy = true;
        return true;
    case OPT_SCALING:
        a->scaling = true;
        return true;
    case OPT_JSON:
        a->json = true;
        return true;
    default:
        break;
    }
    if (a->nr_urls == MAX_URLS) {
        cmd_usage(args->cmd, "more than %d URLs", MAX_URLS);
        return false;
    }
    a->urls[a->nr_urls++] = args->arg;
    return true;
}

/* ---- what may be written to ---- */

static bool is_own_memory(const char *url)
{
    return !strncmp(url, "ram:", 4) || !strncmp(url, "null:", 5);
}

static int check_urls(const struct bench_args *a)
{
    uint32_t i;

    for (i = 0; i < a->nr_urls; i++) {
        if (!fl_url_has_scheme(a->urls[i]))
            return cmd_usage(&cmd_bench, "'%s' is no URL: for a file write file:%s", a->urls[i], a->urls[i]);
        if (a->spec.verify && !strncmp(a->urls[i], "null:", 5))
            return cmd_usage(&cmd_bench, "%s keeps nothing that --verify could check", a->urls[i]);
        if ((a->spec.read_percent < 100 || a->spec.verify) && !a->destroy && !is_own_memory(a->urls[i]))
            return cmd_usage(&cmd_bench,
                             "%s would be overwritten: say --destroy-data if nothing on it is needed",
                             a->urls[i]);
    }
    return 0;
}

/* ---- runs ---- */

static int run_one(struct bench_args *a, struct fl_device *dev, const struct fl_device_info *info,
                   const char *url, uint32_t depth, uint32_t jobs, pid_t target, struct fl_error *err)
{
    struct bench_result *r = calloc(1, sizeof(*r));
    int rc;

    if (!r)
        return fl_error_set(err, -ENOMEM, "out of memory");
    *r = (struct bench_result){.url = url, .depth = depth, .nr_jobs = jobs, .target_pid = target};
    if (term_is_tty(stderr))
        fprintf(stderr, "\r\033[K%s, depth %u, %u job%s, %.3g s...", url, depth, jobs, jobs == 1 ? "" : "s",
                a->spec.ramp + a->spec.seconds);
    rc = bench_run(dev, info, &a->spec, target, r, err);
    if (term_is_tty(stderr))
        fputs("\r\033[K", stderr);
    if (rc < 0)
        free(r);
    else
        a->results[a->nr_results++] = r;
    return rc;
}

static int run_url(struct bench_args *a, const char *url, struct fl_error *err)
{
    struct fl_device_info info;
    struct fl_device *dev;
    pid_t target;
    uint32_t i, j;
    int rc = fl_device_open(url, &a->device, &dev, err);

    if (rc < 0)
        return rc;
    fl_device_info(dev, &info);
    target = bench_peer_find(url);
    if (a->spec.verify) {
        uint64_t len = FL_MIN(info.len, a->spec.size ? a->spec.size : VERIFY_SIZE);

        a->spec.size = len -= len % info.block_len;
        rc = bench_pattern_lay(dev, len, info.block_len, err);
    }
    for (i = 0; i < a->jobs.nr && rc == 0; i++)
        for (j = 0; j < a->depths.nr && rc == 0; j++)
            rc = run_one(a, dev, &info, url, a->depths.value[j], a->jobs.value[i], target, err);
    fl_device_close(dev);
    return rc;
}

/* More jobs that do less work are no scaling: said always, and a failure if asked. */
static bool check_scaling(const struct bench_args *a)
{
    bool good = true;
    uint32_t i, j;

    for (i = 0; i < a->nr_results; i++) {
        for (j = i + 1; j < a->nr_results; j++) {
            const struct bench_result *few = a->results[i], *many = a->results[j];

            if (few->url != many->url || few->depth != many->depth || few->nr_jobs >= many->nr_jobs)
                continue;
            if (bench_iops(many) >= SCALING_MARGIN * bench_iops(few))
                continue;
            cmd_complain("%s, depth %u: %u jobs do less than %u (%.0f against %.0f IOPS)", many->url,
                         many->depth, many->nr_jobs, few->nr_jobs, bench_iops(many), bench_iops(few));
            good = false;
        }
    }
    return good;
}

static int bench(struct bench_args *a)
{
    struct fl_error err = {0};
    uint32_t i;
    int rc = 0, status;

    bench_clock_init();
    for (i = 0; i < a->nr_urls && rc == 0; i++) {
        rc = run_url(a, a->urls[i], &err);
        if (rc < 0 && !strstr(err.text, a->urls[i]))
            fl_error_wrap(&err, rc, "%s", a->urls[i]);
    }
    status = rc < 0 ? cmd_fail(&err, rc) : EXIT_OK;
    if (rc == 0 && a->json)
        bench_report_json(&a->spec, a->results, a->nr_results);
    else if (rc == 0)
        bench_report_table(&a->spec, a->results, a->nr_results);
    if (rc == 0 && !check_scaling(a) && a->scaling)
        status = EXIT_FAILED;
    for (i = 0; i < a->nr_results; i++)
        free(a->results[i]);
    return status;
}

static int run(int argc, char **argv)
{
    struct bench_args *a = calloc(1, sizeof(*a));
    struct cmd_args args;
    int id, status;

    if (!a)
        return EXIT_FAILED;
    a->spec = (struct bench_spec){
        .rw = "randread", .random = true, .read_percent = 100, .block_len = 4096, .seconds = 5, .ramp = 0.5};
    a->depths = (struct list){.nr = 2, .value = {1, 32}};
    a->jobs = (struct list){.nr = 1, .value = {1}};
    cmd_args_init(&args, &cmd_bench, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        if (id == CMD_BAD || id == CMD_HELP || !take_option(&args, id, a)) {
            free(a);
            return id == CMD_HELP ? EXIT_OK : EXIT_USAGE;
        }
    }
    if (!a->nr_urls)
        status = cmd_usage(&cmd_bench, "measure what? farlane %s", cmd_bench.usage);
    else
        status = check_urls(a);
    if (status == 0)
        status = bench(a);
    free(a);
    return status;
}

const struct cmd cmd_bench = {
    .name = "bench",
    .summary = "measure namespaces, remote and local, by the same means",
    .usage = "bench URL... [--rw KIND] [--bs SIZE] [--depth LIST] [--jobs LIST] [--seconds N] [--json]",
    .details =
        "Latency is from submission to completion as an application sees it, by one clock reading for each "
        "batch of completions.\n"
        "Cores are CPU time over elapsed time of the whole process, polling included; the target's are known "
        "if it is a process\n"
        "of this machine that this user can look at. Given a local URL first, a last line tells what the "
        "fabric adds.\n"
        "\n"
        "Examples:\n"
        "  farlane bench ram:1G\n"
        "  farlane bench file:disk.img nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1 --depth 1,32\n"
        "  farlane bench nvme+tcp://10.0.0.1/nqn.2026-01.org.example:scratch?ns=1 --rw randrw:70 "
        "--destroy-data --json\n",
    .options = options,
    .run = run,
};
