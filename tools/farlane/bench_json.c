/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"
#include "machine.h"
#include "save_file.h"

static json_t *number_or_null(double v)
{
    return v < 0 ? json_null() : json_real(v);
}

static json_t *rounds_json(const struct bench_result *r, const double *values)
{
    json_t *list = json_array();
    uint32_t i;

    for (i = 0; i < r->nr_rounds; i++)
        json_array_append_new(list, json_real(values[i]));
    return list;
}

static json_t *slo_json(const struct bench_spec *spec, const struct bench_result *r)
{
    json_t *steps = json_array();
    char name[16];
    uint32_t i;

    for (i = 0; i < r->nr_steps; i++) {
        const struct bench_step *s = &r->step[i];

        json_array_append_new(steps, json_pack("{s:f, s:f, s:f, s:b}", "rate", s->rate, "iops", s->iops, "us",
                                               s->us, "holds", s->good));
    }
    return json_pack("{s:s, s:f, s:f, s:o}", "of", bench_slo_name(&spec->slo, name), "limit_us",
                     spec->slo.limit_us, "us", bench_slo_us(r, &spec->slo), "steps", steps);
}

static json_t *stages_json(const struct bench_result *r)
{
    static const char *const keys[BENCH_NR_STAGES] = {"submit", "wire", "backend", "complete"};
    json_t *json = json_object();
    int i;

    for (i = 0; i < BENCH_NR_STAGES; i++) {
        const enum bench_stage stage = (enum bench_stage)i;

        json_object_set_new(json, keys[i],
                            bench_stage_is_known(r, stage)
                                ? json_pack("{s:f, s:f, s:f, s:f}", "mean_us", bench_stage_us(r, stage, 0),
                                            "p50_us", bench_stage_us(r, stage, 50), "p99_us",
                                            bench_stage_us(r, stage, 99), "p999_us",
                                            bench_stage_us(r, stage, 99.9))
                                : json_null());
    }
    return json;
}

static void add_open_loop(json_t *json, const struct bench_spec *spec, const struct bench_result *r)
{
    if (r->rate == 0)
        return;
    json_object_update_new(json, json_pack("{s:f, s:s, s:I, s:b}", "rate", r->rate, "arrivals",
                                           spec->poisson ? "poisson" : "even", "behind",
                                           (json_int_t)r->nr_behind, "fell_behind", bench_fell_behind(r)));
    if (spec->slo.limit_us > 0)
        json_object_set_new(json, "slo", slo_json(spec, r));
}

static json_t *result_json(const struct bench_spec *spec, const struct bench_result *r)
{
    const double iops = bench_iops(r);
    json_t *json = json_pack("{s:s, s:s, s:I, s:i, s:i, s:f, s:f, s:f, s:I, s:I}", "url", r->url, "rw",
                             spec->rw, "bs", (json_int_t)spec->block_len, "depth", (int)r->depth, "jobs",
                             (int)r->nr_jobs, "seconds", r->seconds, "iops", iops, "gb_per_s",
                             iops * (double)spec->block_len / 1e9, "reads", (json_int_t)r->nr_reads, "writes",
                             (json_int_t)r->nr_writes);

    json_object_set_new(json, "path", json_string(r->path));
    json_object_update_new(json, json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "mean_us", bench_mean_us(r),
                                           "min_us", (double)r->latency.min * r->ns_per_tick / 1e3, "p50_us",
                                           bench_percentile_us(r, 50), "p99_us", bench_percentile_us(r, 99),
                                           "p999_us", bench_percentile_us(r, 99.9), "p9999_us",
                                           bench_percentile_us(r, 99.99), "max_us",
                                           (double)r->latency.max * r->ns_per_tick / 1e3));
    json_object_update_new(
        json, json_pack("{s:f, s:f, s:f, s:o, s:o, s:f, s:b}", "host_cores", bench_host_cores(r), "host_busy",
                        r->busy, "waited", r->waited, "target_cores", number_or_null(bench_target_cores(r)),
                        "target_pid", r->target_pid ? json_integer(r->target_pid) : json_null(),
                        "cores_per_miops", bench_cores_per_miops(r), "verified", spec->verify));
    if (r->nr_rounds > 1)
        json_object_update_new(json, json_pack("{s:o, s:o, s:f}", "round_iops", rounds_json(r, r->round_iops),
                                               "round_mean_us", rounds_json(r, r->round_us), "spread",
                                               bench_spread(r)));
    if (r->stages)
        json_object_set_new(json, "stages", stages_json(r));
    add_open_loop(json, spec, r);
    return json;
}

json_t *bench_json(const struct bench_plan *plan)
{
    json_t *list = json_array();
    uint32_t i;

    for (i = 0; i < plan->nr_results; i++)
        json_array_append_new(list, result_json(&plan->spec, plan->results[i]));
    return list;
}

void bench_json_print(const struct bench_plan *plan)
{
    json_t *list = bench_json(plan);

    json_dumpf(list, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    putchar('\n');
    json_decref(list);
}

/* ---- saved ---- */

/* Pairs of the buckets that are not empty: their middle in us, and how many fell into it. */
static json_t *histogram_json(const struct bench_result *r)
{
    json_t *list = json_array();
    uint32_t i;

    for (i = 0; i < FL_HISTOGRAM_BUCKETS; i++) {
        const uint64_t n = r->latency.bucket[i];

        if (n)
            json_array_append_new(list, json_pack("[f, I]",
                                                  (double)fl_histogram_bucket_value(i) * r->ns_per_tick / 1e3,
                                                  (json_int_t)n));
    }
    return list;
}

static const struct save_kind saved_results = {"file of bench results", bench_is_saved};

int bench_json_save_check(const char *path, bool force, struct fl_error *err)
{
    return save_file_check(path, &saved_results, force, err);
}

int bench_json_save(const struct bench_plan *plan, const char *path, bool force, struct fl_error *err)
{
    struct save_file file;
    json_t *json, *list = bench_json(plan);
    uint32_t i;
    int rc;

    for (i = 0; i < plan->nr_results; i++)
        json_object_set_new(json_array_get(list, i), "histogram_us", histogram_json(plan->results[i]));
    json = json_pack("{s:s, s:o, s:o, s:o}", "farlane", FARLANE_VERSION, "date", date_json(), "machine",
                     machine_json(), "results", list);
    rc = save_file_begin(&file, path, &saved_results, force, err);
    if (rc == 0) {
        bool good = json_dumpf(json, file.f, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) == 0;

        rc = save_file_end(&file, good, err);
        if (rc == 0 && !good)
            rc = fl_error_set(err, -EIO, "cannot write the results to %s", path);
    }
    json_decref(json);
    return rc;
}
