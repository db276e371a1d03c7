/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/util.h"
#include "tax.h"

#define RAMP         0.1 /* s */
#define MAX_ARGS     40
#define PATIENCE     30000 /* ms beyond the time that is measured */
#define ISCSI_SECTOR 512

const char *const tax_job_texts[TAX_NR_JOBS] = {
    [TAX_LATENCY] = "4 KiB random read, depth 1",
    [TAX_IOPS] = "4 KiB random read, depth 32",
    [TAX_BANDWIDTH] = "128 KiB sequential read, depth 8",
};

static const struct shape {
    const char *rw, *bs, *depth;
    uint32_t len, in_flight;
} shapes[TAX_NR_JOBS] = {
    [TAX_LATENCY] = {"randread", "4k", "1", 4096, 1},
    [TAX_IOPS] = {"randread", "4k", "32", 4096, 32},
    [TAX_BANDWIDTH] = {"read", "128k", "8", 131072, 8},
};

/* argv with room to build it. */
struct line {
    const char *arg[MAX_ARGS];
    char text[8][TAX_TEXT];
    uint32_t nr, nr_texts;
};

static void add(struct line *l, const char *arg)
{
    if (l->nr + 1 < MAX_ARGS)
        l->arg[l->nr++] = arg;
    l->arg[l->nr] = NULL;
}

static void FL_PRINTF(2, 3) addf(struct line *l, const char *fmt, ...)
{
    char *text = l->text[l->nr_texts++];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, TAX_TEXT, fmt, args);
    va_end(args);
    add(l, text);
}

static bool needs_quotes(const char *s)
{
    return s[strcspn(s, " ?&*$'\"\\;<>|")] != '\0';
}

/* As a person would type it. */
static void note_command(struct tax_path *path, const struct line *l)
{
    size_t at = 0;
    uint32_t i;

    path->command[0] = '\0';
    if (path->env)
        at += (size_t)snprintf(path->command, sizeof(path->command), "%s ", path->env);
    for (i = 0; i < l->nr && at < sizeof(path->command); i++) {
        const char *arg = i == 0 && path->tool == TAX_BENCH ? "farlane" : l->arg[i],
                   *q = needs_quotes(arg) ? "'" : "";

        at += (size_t)snprintf(path->command + at, sizeof(path->command) - at, "%s%s%s%s", i ? " " : "", q,
                               arg, q);
    }
}

static double number(const json_t *json, const char *key)
{
    const json_t *v = json_object_get(json, key);

    return json_is_number(v) ? json_number_value(v) : -1;
}

static char *run(struct tax_path *path, const struct line *l, double seconds, struct fl_error *err)
{
    const char *env[] = {path->env, NULL};

    note_command(path, l);
    return child_run(l->arg, path->env ? env : NULL, (int)(seconds * 1000) + PATIENCE, err);
}

static json_t *parse(const char *text, const char *tool, struct fl_error *err)
{
    json_error_t why;
    json_t *json = json_loads(text, 0, &why);

    if (!json)
        fl_error_set(err, -EBADMSG, "%s printed what is no JSON: %s", tool, why.text);
    return json;
}

/* ---- farlane bench ---- */

static void keep_histogram(struct tax_path *path, json_t *result)
{
    json_t *h = json_object_get(result, "histogram_us");

    if (!path->histogram)
        path->histogram = json_array();
    json_array_extend(path->histogram, h);
}

/* What was saved of a run with one more option (NULL: none); the caller's. NULL: text in err. */
static json_t *run_bench(struct tax *tax, struct tax_path *path, enum tax_job job, const char *option,
                         struct fl_error *err)
{
    const struct shape *shape = &shapes[job];
    struct line l = {0};
    char file[300], *text;
    json_error_t why;
    json_t *json;

    snprintf(file, sizeof(file), "%s/result", tax->work);
    add(&l, tax->exe);
    add(&l, "bench");
    add(&l, path->url);
    add(&l, "--rw");
    add(&l, shape->rw);
    add(&l, "--bs");
    add(&l, shape->bs);
    add(&l, "--depth");
    add(&l, shape->depth);
    add(&l, "--seconds");
    addf(&l, "%g", tax->seconds);
    add(&l, "--ramp");
    addf(&l, "%g", RAMP);
    add(&l, "--size");
    addf(&l, "%" PRIu64, tax->size);
    add(&l, "--json");
    if (option)
        add(&l, option);
    else
        note_command(path, &l);
    add(&l, "--save");
    add(&l, file);
    text = child_run(l.arg, path->env ? (const char *[]){path->env, NULL} : NULL,
                     (int)((tax->seconds + RAMP) * 1000) + PATIENCE, err);
    if (!text)
        return NULL;
    free(text);
    json = json_load_file(file, 0, &why);
    if (!json_array_get(json_object_get(json, "results"), 0)) {
        json_decref(json);
        fl_error_set(err, -EBADMSG, "farlane bench saved no result: %s", why.text);
        return NULL;
    }
    return json;
}

static int measure_bench(struct tax *tax, struct tax_path *path, enum tax_job job, struct tax_sample *s,
                         struct fl_error *err)
{
    json_t *json = run_bench(tax, path, job, NULL, err), *r;

    if (!json)
        return err->code;
    r = json_array_get(json_object_get(json, "results"), 0);
    *s = (struct tax_sample){
        .us = {number(r, "mean_us"), number(r, "p50_us"), number(r, "p99_us"), number(r, "p999_us")},
        .iops = number(r, "iops"),
        .gb_per_s = number(r, "gb_per_s"),
        .host_cores = number(r, "host_cores"),
        .target_cores = path->local ? 0 : number(r, "target_cores"),
        .busy = number(r, "host_busy"),
        .waited = number(r, "waited")};
    snprintf(path->way, sizeof(path->way), "%.15s", json_string_value(json_object_get(r, "path")));
    if (job == TAX_LATENCY)
        keep_histogram(path, r);
    json_decref(json);
    if (path->wants && strcmp(path->wants, path->way))
        return fl_error_set(err, -EPROTO, "its bytes went by \"%s\" instead", path->way);
    return 0;
}

double tax_service_us(struct tax *tax, struct tax_path *path)
{
    struct fl_error err = {0};
    json_t *json = run_bench(tax, path, TAX_LATENCY, "--stages", &err), *r;
    double us = -1;

    if (json) {
        r = json_array_get(json_object_get(json, "results"), 0);
        us = number(json_object_get(json_object_get(r, "stages"), "backend"), "p50_us");
    }
    json_decref(json);
    return us;
}

/* ---- fio ---- */

static void take_fio(const json_t *job, struct tax_sample *s)
{
    const json_t *read = json_object_get(job, "read"), *lat = json_object_get(read, "lat_ns"),
                 *clat = json_object_get(read, "clat_ns"), *p = json_object_get(clat, "percentile");
    /* Percentiles are of the completion latency: the time of submitting is added, in the mean. */
    const double submit = number(json_object_get(read, "slat_ns"), "mean");

    s->us[0] = number(lat, "mean") / 1e3;
    s->us[1] = (number(p, "50.000000") + submit) / 1e3;
    s->us[2] = (number(p, "99.000000") + submit) / 1e3;
    s->us[3] = (number(p, "99.900000") + submit) / 1e3;
    s->iops = number(read, "iops");
    s->gb_per_s = number(read, "bw_bytes") / 1e9;
    s->host_cores = (number(job, "usr_cpu") + number(job, "sys_cpu")) / 100;
    s->waited = s->busy = -1;
}

static int measure_fio(struct tax *tax, struct tax_path *path, enum tax_job job, struct tax_sample *s,
                       struct fl_error *err)
{
    const struct shape *shape = &shapes[job];
    struct line l = {0};
    json_t *json, *first;
    char *text;

    add(&l, "fio");
    add(&l, "--name=tax");
    if (path->local) {
        add(&l, "--ioengine=io_uring");
        addf(&l, "--filename=%s", path->url);
        add(&l, "--direct=1");
    } else {
        add(&l, "--ioengine=nbd");
        addf(&l, "--uri=%s", path->url);
    }
    addf(&l, "--rw=%s", shape->rw);
    addf(&l, "--bs=%s", shape->bs);
    addf(&l, "--iodepth=%s", shape->depth);
    addf(&l, "--size=%" PRIu64, tax->size);
    add(&l, "--readonly");
    add(&l, "--time_based");
    addf(&l, "--runtime=%.0fms", tax->seconds * 1000);
    addf(&l, "--ramp_time=%.0fms", RAMP * 1000);
    add(&l, "--thread");
    add(&l, "--output-format=json");
    text = run(path, &l, tax->seconds + RAMP, err);
    if (!text)
        return err->code;
    /* Notes may stand before it. */
    json = parse(strchr(text, '{') ? strchr(text, '{') : text, "fio", err);
    free(text);
    if (!json)
        return err->code;
    first = json_array_get(json_object_get(json, "jobs"), 0);
    take_fio(first, s);
    json_decref(json);
    return s->iops > 0 ? 0 : fl_error_set(err, -EIO, "fio did no I/O on %s", path->url);
}

/* ---- iscsi-perf ---- */

/* It takes whole seconds. */
static uint32_t iscsi_seconds(const struct tax *tax)
{
    return (uint32_t)FL_MAX(tax->seconds + 0.5, 1.0);
}

/* It prints the mean rate as it goes, and at the end once more: "iops average 12345 (48 MB/s)". */
static int measure_iscsi(struct tax *tax, struct tax_path *path, enum tax_job job, struct tax_sample *s,
                         struct fl_error *err)
{
    const struct shape *shape = &shapes[job];
    const uint32_t seconds = iscsi_seconds(tax);
    struct line l = {0};
    char *text, *p, *last = NULL;

    add(&l, "iscsi-perf");
    add(&l, "-b");
    addf(&l, "%u", shape->len / ISCSI_SECTOR);
    add(&l, "-m");
    addf(&l, "%u", shape->in_flight);
    add(&l, "-t");
    addf(&l, "%u", seconds);
    if (!strcmp(shape->rw, "randread"))
        add(&l, "-r");
    add(&l, path->url);
    text = run(path, &l, seconds, err);
    if (!text)
        return err->code;
    for (p = text; (p = strstr(p, "iops average ")); p++)
        last = p;
    s->iops = last ? strtod(last + strlen("iops average "), NULL) : 0;
    free(text);
    if (s->iops <= 0)
        return fl_error_set(err, -EBADMSG, "iscsi-perf told no rate");
    s->gb_per_s = s->iops * shape->len / 1e9;
    s->us[0] = 1e6 * shape->in_flight / s->iops; /* Little's law: so many are always in flight */
    s->us[1] = s->us[2] = s->us[3] = s->host_cores = s->waited = s->busy = -1;
    return 0;
}

/* ---- one measurement ---- */

/* Of a whole process, threads that have ended among them: in s, to a hundredth. Negative: not known. */
static double cpu_of(pid_t pid)
{
    unsigned long user, system;
    char name[64], text[1024], *p;
    size_t len;
    FILE *f;

    snprintf(name, sizeof(name), "/proc/%d/stat", (int)pid);
    f = pid ? fopen(name, "re") : NULL;
    if (!f)
        return -1;
    len = fread(text, 1, sizeof(text) - 1, f);
    fclose(f);
    text[len] = '\0';
    p = strrchr(text, ')'); /* the name before it may hold anything */
    if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", &user, &system) != 2)
        return -1;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static double cpu_of_children(void)
{
    struct rusage u;

    getrusage(RUSAGE_CHILDREN, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

/* Tools that do not know the other end: its CPU time from their start to their end, of which they measure all
 * but the ramp. */
static int measure_other(struct tax *tax, struct tax_path *path, enum tax_job job, struct tax_sample *s,
                         struct fl_error *err)
{
    const double target = cpu_of(path->target), own = cpu_of_children();
    const double busy = path->tool == TAX_FIO ? tax->seconds + RAMP : iscsi_seconds(tax);
    int rc;

    *s = (struct tax_sample){.target_cores = path->local ? 0 : -1};
    if (path->tool == TAX_FIO) {
        rc = measure_fio(tax, path, job, s, err);
    } else {
        rc = measure_iscsi(tax, path, job, s, err);
        s->host_cores = (cpu_of_children() - own) / busy;
    }
    if (rc == 0 && target >= 0)
        s->target_cores = (cpu_of(path->target) - target) / busy;
    return rc;
}

int tax_measure(struct tax *tax, struct tax_path *path, enum tax_job job, struct tax_sample *s,
                struct fl_error *err)
{
    return path->tool == TAX_BENCH ? measure_bench(tax, path, job, s, err)
                                   : measure_other(tax, path, job, s, err);
}
