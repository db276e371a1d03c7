/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"

#define DISTURBED 0.03 /* of the time */

static double run_iops(const struct bench_result *r)
{
    return (double)(r->nr_reads + r->nr_writes) / r->seconds;
}

void bench_result_close(struct bench_result *r, double rate)
{
    r->rate = rate;
    r->nr_rounds = 1;
    r->round_iops[0] = run_iops(r);
    r->round_us[0] = bench_mean_us(r);
}

void bench_result_add(struct bench_result *to, const struct bench_result *round)
{
    const double whole = to->seconds + round->seconds;

    to->busy = (to->busy * to->seconds + round->busy * round->seconds) / whole;
    to->waited = (to->waited * to->seconds + round->waited * round->seconds) / whole;
    to->ns_per_tick = (to->ns_per_tick * to->seconds + round->ns_per_tick * round->seconds) / whole;
    to->seconds = whole;
    to->nr_reads += round->nr_reads;
    to->nr_writes += round->nr_writes;
    to->nr_behind += round->nr_behind;
    to->host_cpu_ns += round->host_cpu_ns;
    if (to->target_cpu_ns >= 0)
        to->target_cpu_ns = round->target_cpu_ns < 0 ? -1 : to->target_cpu_ns + round->target_cpu_ns;
    fl_histogram_merge(&to->latency, &round->latency);
    if (to->stages && round->stages)
        bench_stages_merge(to->stages, round->stages);
    to->round_iops[to->nr_rounds] = round->round_iops[0];
    to->round_us[to->nr_rounds++] = round->round_us[0];
}

/* ---- stages ---- */

const char *const bench_stage_names[BENCH_NR_STAGES] = {[BENCH_SUBMIT] = "submit",
                                                        [BENCH_WIRE] = "wire",
                                                        [BENCH_BACKEND] = "back end",
                                                        [BENCH_COMPLETE] = "complete"};

void bench_stages_init(struct bench_stages *s)
{
    int i;

    for (i = 0; i < BENCH_NR_STAGES; i++)
        fl_histogram_init(&s->time[i]);
    s->nr_untold = 0;
}

void bench_stages_merge(struct bench_stages *to, const struct bench_stages *from)
{
    int i;

    for (i = 0; i < BENCH_NR_STAGES; i++)
        fl_histogram_merge(&to->time[i], &from->time[i]);
    to->nr_untold += from->nr_untold;
}

double bench_stage_us(const struct bench_result *r, enum bench_stage stage, double percent)
{
    const struct fl_histogram *h = &r->stages->time[stage];

    return (percent > 0 ? (double)fl_histogram_percentile(h, percent) : fl_histogram_mean(h)) *
           r->ns_per_tick / 1e3;
}

bool bench_stage_is_known(const struct bench_result *r, enum bench_stage stage)
{
    return stage != BENCH_BACKEND || r->stages->nr_untold * 100 < r->stages->time[stage].count;
}

/* ---- figures ---- */

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double bench_iops(const struct bench_result *r)
{
    double sorted[BENCH_MAX_ROUNDS];

    if (!r->nr_rounds)
        return run_iops(r);
    memcpy(sorted, r->round_iops, r->nr_rounds * sizeof(sorted[0]));
    qsort(sorted, r->nr_rounds, sizeof(sorted[0]), compare);
    return (sorted[(r->nr_rounds - 1) / 2] + sorted[r->nr_rounds / 2]) / 2;
}

double bench_spread(const struct bench_result *r)
{
    double least = r->round_iops[0], most = least;
    uint32_t i;

    for (i = 1; i < r->nr_rounds; i++) {
        least = FL_MIN(least, r->round_iops[i]);
        most = FL_MAX(most, r->round_iops[i]);
    }
    return (most - least) / 2 / bench_iops(r);
}

double bench_mean_us(const struct bench_result *r)
{
    return fl_histogram_mean(&r->latency) * r->ns_per_tick / 1e3;
}

double bench_percentile_us(const struct bench_result *r, double percent)
{
    return (double)fl_histogram_percentile(&r->latency, percent) * r->ns_per_tick / 1e3;
}

double bench_slo_us(const struct bench_result *r, const struct bench_slo *slo)
{
    return slo->percent > 0 ? bench_percentile_us(r, slo->percent) : bench_mean_us(r);
}

double bench_host_cores(const struct bench_result *r)
{
    return (double)r->host_cpu_ns / 1e9 / r->seconds;
}

bool bench_is_local(const char *url)
{
    return strncmp(url, "nvme+", 5) != 0;
}

/* A local namespace has none. */
double bench_target_cores(const struct bench_result *r)
{
    if (bench_is_local(r->url))
        return 0;
    return r->target_cpu_ns < 0 ? -1 : (double)r->target_cpu_ns / 1e9 / r->seconds;
}

double bench_cores_per_miops(const struct bench_result *r)
{
    return (bench_host_cores(r) + FL_MAX(bench_target_cores(r), 0.0)) / run_iops(r) * 1e6;
}

bool bench_was_disturbed(const struct bench_result *r)
{
    return r->waited > DISTURBED;
}

bool bench_fell_behind(const struct bench_result *r)
{
    return r->rate > 0 && bench_iops(r) < BENCH_RATE_MET * r->rate;
}

const char *bench_slo_name(const struct bench_slo *slo, char buf[16])
{
    if (slo->percent > 0)
        snprintf(buf, 16, "p%g", slo->percent);
    else
        snprintf(buf, 16, "mean");
    return buf;
}
