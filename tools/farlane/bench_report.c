/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/url.h"
#include "base/util.h"
#include "bench.h"
#include "term.h"

double bench_iops(const struct bench_result *r)
{
    return (double)(r->nr_reads + r->nr_writes) / r->seconds;
}

static double mean_us(const struct bench_result *r)
{
    return fl_histogram_mean(&r->latency) * r->ns_per_tick / 1e3;
}

static double percentile_us(const struct bench_result *r, double percent)
{
    return (double)fl_histogram_percentile(&r->latency, percent) * r->ns_per_tick / 1e3;
}

static double host_cores(const struct bench_result *r)
{
    return (double)r->host_cpu_ns / 1e9 / r->seconds;
}

static bool is_local_url(const char *url)
{
    return strncmp(url, "nvme+", 5) != 0;
}

/* Cores of the other end; a local namespace has none. Negative: not known. */
static double target_cores(const struct bench_result *r)
{
    if (is_local_url(r->url))
        return 0;
    return r->target_cpu_ns < 0 ? -1 : (double)r->target_cpu_ns / 1e9 / r->seconds;
}

static double cores_per_miops(const struct bench_result *r)
{
    return (host_cores(r) + FL_MAX(target_cores(r), 0.0)) / bench_iops(r) * 1e6;
}

/* ---- JSON ---- */

static json_t *number_or_null(double v)
{
    return v < 0 ? json_null() : json_real(v);
}

static json_t *result_json(const struct bench_spec *spec, const struct bench_result *r)
{
    const double iops = bench_iops(r);
    json_t *json = json_pack("{s:s, s:s, s:I, s:i, s:i, s:f, s:f, s:f, s:I, s:I}", "url", r->url, "rw",
                             spec->rw, "bs", (json_int_t)spec->block_len, "depth", (int)r->depth, "jobs",
                             (int)r->nr_jobs, "seconds", r->seconds, "iops", iops, "gb_per_s",
                             iops * (double)spec->block_len / 1e9, "reads", (json_int_t)r->nr_reads, "writes",
                             (json_int_t)r->nr_writes);

    json_object_update_new(json, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "mean_us", mean_us(r),
                                           "min_us", (double)r->latency.min * r->ns_per_tick / 1e3, "p50_us",
                                           percentile_us(r, 50), "p99_us", percentile_us(r, 99), "p999_us",
                                           percentile_us(r, 99.9), "p9999_us", percentile_us(r, 99.99),
                                           "max_us", (double)r->latency.max * r->ns_per_tick / 1e3));
    json_object_update_new(json,
                           json_pack("{s:f, s:f, s:o, s:o, s:f, s:b}", "host_cores", host_cores(r),
                                     "host_busy", r->busy, "target_cores", number_or_null(target_cores(r)),
                                     "target_pid", r->target_pid ? json_integer(r->target_pid) : json_null(),
                                     "cores_per_miops", cores_per_miops(r), "verified", spec->verify));
    return json;
}

void bench_report_json(const struct bench_spec *spec, struct bench_result *const *results, uint32_t nr)
{
    json_t *list = json_array();
    uint32_t i;

    for (i = 0; i < nr; i++)
        json_array_append_new(list, result_json(spec, results[i]));
    json_dumpf(list, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(list);
}

/* ---- table ---- */

/* URLs are long: each gets a letter. */
static char letter_of(struct bench_result *const *results, uint32_t at)
{
    char letter = 'A';
    uint32_t i;

    for (i = 1; i <= at; i++)
        letter = (char)(letter + (results[i]->url != results[i - 1]->url));
    return letter;
}

static void cell_us(struct table *t, double us)
{
    table_cell(t, us < 100 ? "%.2f" : us < 10000 ? "%.1f" : "%.0f", us);
}

static void cell_difference(struct table *t, double us)
{
    const double size = us < 0 ? -us : us;

    table_cell(t, size < 100 ? "%+.2f" : size < 10000 ? "%+.1f" : "%+.0f", us);
}

static void add_row(struct table *t, const struct bench_spec *spec, const struct bench_result *r, char letter)
{
    static const double percents[] = {50, 99, 99.9, 99.99};
    const double iops = bench_iops(r), target = target_cores(r);
    size_t i;

    table_cell(t, "%c", letter);
    table_cell(t, "%u", r->depth);
    table_cell(t, "%u", r->nr_jobs);
    table_cell(t,
               iops < 10000 ? "%.0f"
               : iops < 1e6 ? "%.1fk"
                            : "%.3fM",
               iops < 10000 ? iops
               : iops < 1e6 ? iops / 1e3
                            : iops / 1e6);
    table_cell(t, "%.3f", iops * (double)spec->block_len / 1e9);
    cell_us(t, mean_us(r));
    for (i = 0; i < FL_ARRAY_LEN(percents); i++)
        cell_us(t, percentile_us(r, percents[i]));
    table_cell(t, "%.2f", host_cores(r));
    table_cell(t, "%.0f%%", r->busy * 100);
    if (target < 0)
        table_cell(t, "?");
    else
        table_cell(t, "%.2f", target);
    table_cell(t, "%.2f%s", cores_per_miops(r), target < 0 ? "+?" : "");
}

/* What the fabric adds: differences of percentiles of equal jobs, the first URL being local and another one
 * not. */
static void add_difference(struct table *t, const struct bench_result *local,
                           const struct bench_result *remote, char letter)
{
    static const double percents[] = {50, 99, 99.9, 99.99};
    size_t i;

    table_cell(t, "%c-A", letter);
    table_cell(t, "%u", remote->depth);
    table_cell(t, "%u", remote->nr_jobs);
    table_cell(t, "x%.2f", bench_iops(remote) / bench_iops(local));
    table_cell(t, "%s", "");
    cell_difference(t, mean_us(remote) - mean_us(local));
    for (i = 0; i < FL_ARRAY_LEN(percents); i++)
        cell_difference(t, percentile_us(remote, percents[i]) - percentile_us(local, percents[i]));
    for (i = 0; i < 4; i++)
        table_cell(t, "%s", "");
}

static void print_legend(struct bench_result *const *results, uint32_t nr)
{
    uint32_t i;

    for (i = 0; i < nr; i++)
        if (i == 0 || results[i]->url != results[i - 1]->url)
            printf("  %c = %s\n", letter_of(results, i), results[i]->url);
}

void bench_report_table(const struct bench_spec *spec, struct bench_result *const *results, uint32_t nr)
{
    char size[FL_SIZE_TEXT_LEN];
    bool unknown = false, differences = false;
    struct table t;
    uint32_t i, j;

    printf("%s of %s, %.3g s each after %.3g s of warming up%s\n", spec->rw,
           fl_size_format(spec->block_len, size), spec->seconds, spec->ramp,
           spec->verify ? ", each read checked" : "");
    print_legend(results, nr);
    putchar('\n');
    table_init(&t, "", ">DEPTH", ">JOBS", ">IOPS", ">GB/s", ">MEAN us", ">P50", ">P99", ">P99.9", ">P99.99",
               ">HOST", ">BUSY", ">TARGET", ">CORES/MIOPS", NULL);
    for (i = 0; i < nr; i++) {
        add_row(&t, spec, results[i], letter_of(results, i));
        unknown |= target_cores(results[i]) < 0;
    }
    for (i = 0; i < nr; i++) {
        if (!is_local_url(results[0]->url) || is_local_url(results[i]->url))
            continue;
        for (j = 0; j < nr && results[j]->url == results[0]->url; j++) {
            if (results[j]->depth != results[i]->depth || results[j]->nr_jobs != results[i]->nr_jobs)
                continue;
            add_difference(&t, results[j], results[i], letter_of(results, i));
            differences = true;
        }
    }
    table_print(&t, stdout, 2);
    printf("\n%sHOST and TARGET are cores by CPU time, polling included; BUSY is the host's share without "
           "polling in vain.%s\n",
           term_on(stdout, TERM_DIM), term_off(stdout));
    if (unknown)
        printf("%s?: the target is not a process of this machine that this user can see.%s\n",
               term_on(stdout, TERM_DIM), term_off(stdout));
    if (differences)
        printf("%s-A: what the fabric adds to the same job on A, as a difference of percentiles in us.%s\n",
               term_on(stdout, TERM_DIM), term_off(stdout));
}
