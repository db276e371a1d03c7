/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <sched.h>
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
    OPT_RATE,
    OPT_ARRIVALS,
    OPT_SLO,
    OPT_ROUNDS,
    OPT_STAGES,
    OPT_SAVE,
    OPT_FORCE,
    OPT_COMPARE,
    OPT_SIZE,
    OPT_VERIFY,
    OPT_CPUS,
    OPT_WAIT,
    OPT_DESTROY,
    OPT_SCALING,
    OPT_JSON
};

#define SCALING_MARGIN 0.95

static const struct cmd_option options[] = {
    {OPT_RW, "rw", "KIND",
     "randread (default), randwrite, read, write, or a mix with its share of reads: randrw:70, rw:70"},
    {OPT_BS, "bs", "SIZE", "size of an I/O, default 4k"},
    {OPT_DEPTH, "depth", "LIST", "I/Os in flight of each job, one run for each, default 1,32"},
    {OPT_JOBS, "jobs", "LIST", "threads with a queue each, one run for each, default 1"},
    {OPT_SECONDS, "seconds", "N", "measured time of a run, default 5"},
    {OPT_RAMP, "ramp", "N", "seconds before it that do not count, default 0.5"},
    {OPT_RATE, "rate", "N",
     "open loop: start N I/Os a second (as 50k) whether or not those before have ended; latency counts from "
     "when "
     "each was due"},
    {OPT_ARRIVALS, "arrivals", "KIND", "of --rate and --slo: poisson (default: at random), even"},
    {OPT_SLO, "slo", "OF:US",
     "find the highest rate at which p50, p90, p99, p99.9, p99.99 or mean is at most US microseconds: "
     "p99:200"},
    {OPT_ROUNDS, "rounds", "N", "do all runs N times in turn (A B A B): medians, and how far they spread"},
    {OPT_STAGES, "stages", NULL,
     "also tell where the time goes: submit, wire, back end, complete (looks at the clock for each I/O)"},
    {OPT_SAVE, "save", "FILE", "keep the results, with the histograms and the machine, for --compare"},
    {OPT_FORCE, "force", NULL, "--save: replace a file that holds something else than results"},
    {OPT_COMPARE, "compare", NULL,
     "measure nothing: bench --compare OLD NEW shows two saved results side by side"},
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

struct bench_args {
    struct bench_plan plan;
    struct fl_cpulist cpus;
    const char *save;
    bool destroy, scaling, json, compare, force;
};

/* ---- options ---- */

static bool take_list(const struct cmd_args *args, uint32_t max, struct bench_list *list)
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
    cpu_set_t set;

    if (fl_cpulist_parse(args->arg, &a->cpus, &err) < 0) {
        cmd_usage(args->cmd, "--cpus: %s", err.text);
        return false;
    }
    if (sched_getaffinity(0, sizeof(set), &set) == 0) {
        for (uint32_t i = 0; i < a->cpus.nr; i++)
            if (a->cpus.cpu[i] >= CPU_SETSIZE || !CPU_ISSET(a->cpus.cpu[i], &set)) {
                cmd_usage(args->cmd, "--cpus: CPU %u is not there, or not allowed for this process",
                          a->cpus.cpu[i]);
                return false;
            }
    }
    a->plan.spec.cpus = &a->cpus;
    return true;
}

static bool take_rate(const struct cmd_args *args, struct bench_spec *spec)
{
    char *end;
    double v = strtod(args->arg, &end);

    if (*end == 'k' || *end == 'K')
        v *= 1e3, end++;
    else if (*end == 'M')
        v *= 1e6, end++;
    if (*args->arg && !*end && v >= 1 && v <= 1e9) {
        spec->rate = v;
        return true;
    }
    cmd_usage(args->cmd, "--rate %s: I/Os a second of all jobs together, from 1 to 1000M, as 2500 or 50k",
              args->arg);
    return false;
}

static bool take_arrivals(const struct cmd_args *args, struct bench_spec *spec)
{
    spec->poisson = !strcmp(args->arg, "poisson");
    if (spec->poisson || !strcmp(args->arg, "even"))
        return true;
    cmd_usage(args->cmd, "--arrivals %s: allowed are poisson, even", args->arg);
    return false;
}

static bool take_slo(const struct cmd_args *args, struct bench_slo *slo)
{
    static const struct {
        const char *name;
        double percent;
    } kinds[] = {{"mean", 0}, {"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"p99.99", 99.99}};
    const char *colon = strchr(args->arg, ':');
    const size_t len = colon ? (size_t)(colon - args->arg) : 0;
    char *end = NULL;
    size_t i;

    slo->limit_us = len ? strtod(colon + 1, &end) : 0;
    for (i = 0; i < FL_ARRAY_LEN(kinds); i++) {
        if (strlen(kinds[i].name) != len || strncmp(kinds[i].name, args->arg, len) || *end ||
            !(slo->limit_us > 0 && slo->limit_us <= 1e9))
            continue;
        slo->percent = kinds[i].percent;
        return true;
    }
    cmd_usage(args->cmd,
              "--slo %s: which part of the latency and its limit in us, as p99:200 or mean:50; allowed are "
              "mean, p50, p90, p99, p99.9, p99.99",
              args->arg);
    return false;
}

static bool take_rounds(const struct cmd_args *args, struct bench_spec *spec)
{
    uint64_t v;

    if (!cmd_args_number(args, 1, BENCH_MAX_ROUNDS, &v))
        return false;
    spec->nr_rounds = (uint32_t)v;
    return true;
}

static bool take_operand(const struct cmd_args *args, struct bench_plan *plan)
{
    if (plan->nr_urls == BENCH_MAX_URLS) {
        cmd_usage(args->cmd, "more than %d URLs", BENCH_MAX_URLS);
        return false;
    }
    plan->urls[plan->nr_urls++] = args->arg;
    return true;
}

static bool take_option(const struct cmd_args *args, int id, struct bench_args *a)
{
    bool bad = false;

    if (device_option(args, id, &a->plan.device, &bad))
        return !bad;
    switch (id) {
    case OPT_RW:
        return take_rw(args, &a->plan.spec);
    case OPT_BS:
        return take_bs(args, &a->plan.spec);
    case OPT_DEPTH:
        return take_list(args, 65535, &a->plan.depths);
    case OPT_JOBS:
        return take_list(args, 1024, &a->plan.jobs);
    case OPT_SECONDS:
        return take_seconds(args, 0.1, &a->plan.spec.seconds);
    case OPT_RAMP:
        return take_seconds(args, 0, &a->plan.spec.ramp);
    case OPT_SIZE:
        return cmd_args_size(args, &a->plan.spec.size);
    case OPT_VERIFY:
        a->plan.spec.verify = true;
        return true;
    case OPT_CPUS:
        return take_cpus(args, a);
    case OPT_WAIT:
        return take_wait(args, &a->plan.spec.wait);
    case OPT_DESTROY:
        a->destroy = true;
        return true;
    case OPT_SCALING:
        a->scaling = true;
        return true;
    case OPT_JSON:
        a->json = true;
        return true;
    case OPT_RATE:
        return take_rate(args, &a->plan.spec);
    case OPT_ARRIVALS:
        return take_arrivals(args, &a->plan.spec);
    case OPT_SLO:
        return take_slo(args, &a->plan.spec.slo);
    case OPT_ROUNDS:
        return take_rounds(args, &a->plan.spec);
    case OPT_STAGES:
        a->plan.spec.stages = true;
        return true;
    case OPT_SAVE:
        a->save = args->arg;
        return true;
    case OPT_FORCE:
        a->force = true;
        return true;
    case OPT_COMPARE:
        a->compare = true;
        return true;
    default:
        return take_operand(args, &a->plan);
    }
}

/* ---- what may be written to ---- */

static bool is_own_memory(const char *url)
{
    return !strncmp(url, "ram:", 4) || !strncmp(url, "null:", 5);
}

static int check_urls(const struct bench_args *a)
{
    uint32_t i;

    for (i = 0; i < a->plan.nr_urls; i++) {
        if (!fl_url_has_scheme(a->plan.urls[i]))
            return cmd_usage(&cmd_bench, "'%s' is no URL: for a file write file:%s", a->plan.urls[i],
                             a->plan.urls[i]);
        if (a->plan.spec.verify && !strncmp(a->plan.urls[i], "null:", 5))
            return cmd_usage(&cmd_bench, "%s keeps nothing that --verify could check", a->plan.urls[i]);
        if ((a->plan.spec.read_percent < 100 || a->plan.spec.verify) && !a->destroy &&
            !is_own_memory(a->plan.urls[i]))
            return cmd_usage(&cmd_bench,
                             "%s would be overwritten: say --destroy-data if nothing on it is needed",
                             a->plan.urls[i]);
    }
    return 0;
}

static int check_args(const struct bench_args *a)
{
    const struct bench_spec *spec = &a->plan.spec;

    if (spec->rate > 0 && spec->slo.limit_us > 0)
        return cmd_usage(&cmd_bench, "--slo looks for a rate itself: leave out --rate");
    if (spec->slo.limit_us > 0 && spec->nr_rounds > 1)
        return cmd_usage(&cmd_bench, "--slo tries rates until it knows: leave out --rounds");
    return check_urls(a);
}

/* ---- results ---- */

/* More jobs that do less work are no scaling: said always, and a failure if asked. */
static bool check_scaling(const struct bench_args *a)
{
    bool good = true;
    uint32_t i, j;

    for (i = 0; i < a->plan.nr_results; i++) {
        for (j = i + 1; j < a->plan.nr_results; j++) {
            const struct bench_result *few = a->plan.results[i], *many = a->plan.results[j];

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
    int rc, status;

    rc = a->save ? bench_json_save_check(a->save, a->force, &err) : 0; /* before the time is spent */
    if (rc < 0)
        return cmd_fail(&err, rc);
    bench_clock_init(a->plan.spec.stages);
    rc = bench_plan_run(&a->plan, &err);
    if (rc == 0 && a->save)
        rc = bench_json_save(&a->plan, a->save, a->force, &err);
    if (rc >= 0 && a->json)
        bench_json_print(&a->plan);
    else if (rc >= 0)
        bench_report_table(&a->plan);
    fflush(stdout);
    status = rc ? cmd_fail(&err, err.code) : EXIT_OK;
    if (rc == 0 && !check_scaling(a) && a->scaling)
        status = EXIT_FAILED;
    bench_plan_fini(&a->plan);
    return status;
}

static int compare(const struct bench_args *a)
{
    struct fl_error err = {0};
    int rc;

    if (a->plan.nr_urls != 2)
        return cmd_usage(&cmd_bench, "--compare takes two files that --save wrote");
    rc = bench_compare(a->plan.urls[0], a->plan.urls[1], &err);
    return rc < 0 ? cmd_fail(&err, rc) : EXIT_OK;
}

static int run(int argc, char **argv)
{
    struct bench_args *a = calloc(1, sizeof(*a));
    struct cmd_args args;
    int id, status;

    if (!a)
        return EXIT_FAILED;
    a->plan.spec = (struct bench_spec){.rw = "randread",
                                       .random = true,
                                       .read_percent = 100,
                                       .block_len = 4096,
                                       .seconds = 5,
                                       .ramp = 0.5,
                                       .poisson = true,
                                       .nr_rounds = 1};
    a->plan.depths = (struct bench_list){.nr = 2, .value = {1, 32}};
    a->plan.jobs = (struct bench_list){.nr = 1, .value = {1}};
    cmd_args_init(&args, &cmd_bench, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        if (id == CMD_BAD || id == CMD_HELP || !take_option(&args, id, a)) {
            free(a);
            return id == CMD_HELP ? EXIT_OK : EXIT_USAGE;
        }
    }
    if (a->compare)
        status = compare(a);
    else if (!a->plan.nr_urls)
        status = cmd_usage(&cmd_bench, "measure what? farlane %s", cmd_bench.usage);
    else if ((status = check_args(a)) == 0)
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
        "  farlane bench file:disk.img 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1' --depth 1,32\n"
        "  farlane bench 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:scratch?ns=1' --rw randrw:70 "
        "--destroy-data --json\n"
        "  farlane bench 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1' --depth 64 --rate 100k\n"
        "  farlane bench 'nvme+tcp://10.0.0.1/nqn.2026-01.org.example:disk?ns=1' --depth 64 --slo p99:300\n"
        "  farlane bench ram:1G --rounds 5 --save new.json; farlane bench --compare old.json new.json\n",
    .options = options,
    .run = run,
};
