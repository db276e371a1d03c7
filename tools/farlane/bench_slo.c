/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "bench.h"

#define SHORTEST_STEP 0.25 /* s */
#define NEAR_ENOUGH   1.02 /* between a rate that holds and one that does not */
#define MAX_HALVINGS  12
#define MAX_PROOFS    6
#define STEP_DOWN     0.95
#define LOWEST        0.01 /* of the closed loop's rate: below it the rate is not what is in the way */

struct search {
    struct fl_device *dev;
    const struct fl_device_info *info;
    struct bench_spec spec; /* of a step */
    pid_t target;
    struct bench_result *result, *try;
};

/* One run at a rate (0: as fast as it goes). */
static int run_at(struct search *s, double rate, double seconds, struct fl_error *err)
{
    struct bench_result *r = s->try;
    int rc;

    *r = (struct bench_result){.url = s->result->url,
                               .depth = s->result->depth,
                               .nr_jobs = s->result->nr_jobs,
                               .target_pid = s->target,
                               .stages = s->result->stages};
    s->spec.rate = rate;
    s->spec.seconds = seconds;
    rc = bench_run(s->dev, s->info, &s->spec, s->target, r, err);
    return rc > 0 ? err->code : rc; /* a target that was lost proves nothing */
}

/* 1: it holds at this rate; 0: it does not. */
static int hold_at(struct search *s, double rate, double seconds, struct fl_error *err)
{
    struct bench_step *step = &s->result->step[s->result->nr_steps];
    int rc = run_at(s, rate, seconds, err);

    if (rc < 0)
        return rc;
    step->rate = rate;
    step->iops = bench_iops(s->try);
    step->us = bench_slo_us(s->try, &s->spec.slo);
    step->good = step->us <= s->spec.slo.limit_us && !bench_fell_behind(s->try);
    if (s->result->nr_steps < BENCH_MAX_STEPS - 1)
        s->result->nr_steps++;
    return step->good;
}

/* A rate that holds and one that does not, closer and closer; *good is 0 if none holds. */
static int halve(struct search *s, double most, double seconds, double *good, struct fl_error *err)
{
    double bad = most * 1.05, rate = most * 0.9;
    int i, rc;

    *good = 0;
    for (i = 0; i < MAX_HALVINGS && bad > *good * NEAR_ENOUGH && bad > LOWEST * most; i++) {
        rc = hold_at(s, rate, seconds, err);
        if (rc < 0)
            return rc;
        if (rc)
            *good = rate;
        else
            bad = rate;
        rate = (*good + bad) / 2;
    }
    return 0;
}

static int prove(struct search *s, double rate, double seconds, struct fl_error *err)
{
    int i, rc;

    for (i = 0; i < MAX_PROOFS; i++, rate *= STEP_DOWN) {
        rc = hold_at(s, rate, seconds, err);
        if (rc)
            return rc;
    }
    return 0;
}

static int search(struct search *s, double seconds, struct fl_error *err)
{
    char name[16];
    const double part = FL_MAX(SHORTEST_STEP, seconds / 4);
    double most, rate;
    int rc = run_at(s, 0, part, err);

    if (rc < 0)
        return rc;
    most = bench_iops(s->try);
    rc = halve(s, most, part, &rate, err);
    if (rc == 0 && rate > 0)
        rc = prove(s, rate, seconds, err);
    if (rc == 0)
        return fl_error_set(
            err, -EDOM, "%s at %g us or less: at no rate down to %.0f I/Os a second, where it is %.1f us",
            bench_slo_name(&s->spec.slo, name), s->spec.slo.limit_us,
            s->result->step[s->result->nr_steps - 1].rate, s->result->step[s->result->nr_steps - 1].us);
    return FL_MIN(rc, 0);
}

int bench_slo_run(struct fl_device *dev, const struct fl_device_info *info, const struct bench_spec *spec,
                  pid_t target, struct bench_result *result, struct fl_error *err)
{
    struct search s = {.dev = dev, .info = info, .spec = *spec, .target = target, .result = result};
    int rc;

    s.try = malloc(sizeof(*s.try));
    if (!s.try)
        return fl_error_set(err, -ENOMEM, "out of memory");
    rc = search(&s, spec->seconds, err);
    if (rc == 0) {
        s.try->nr_steps = result->nr_steps;
        memcpy(s.try->step, result->step, sizeof(result->step));
        *result = *s.try;
    }
    free(s.try);
    return rc;
}
