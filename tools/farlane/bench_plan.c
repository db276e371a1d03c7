/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "bench.h"
#include "bench_clock.h"
#include "endpoint.h"
#include "term.h"
#include "wire/nvme.h"

#define VERIFY_SIZE   (UINT64_C(256) << 20)
#define TICK_INTERVAL (200 * FL_NS_PER_MS)

/* An opened URL. */
struct subject {
    const char *url;
    struct fl_device *dev;
    struct fl_device_info info;
    pid_t target;
    uint64_t size; /* 0: all */
};

/* The line that tells how far things are. */
struct status {
    const struct bench_spec *spec;
    const struct bench_result *now;
    uint32_t at, nr; /* of all runs */
    uint64_t start_ns, shown_ns;
};

/* ---- while it runs ---- */

static void show_status(void *arg)
{
    struct status *s = arg;
    const uint64_t now = fl_now_ns();
    const double each = s->spec->ramp + s->spec->seconds, gone = (double)(now - s->start_ns) / 1e9;
    char left[48] = "";

    if (now - s->shown_ns < TICK_INTERVAL)
        return;
    s->shown_ns = now;
    if (s->spec->slo.limit_us == 0) {
        const double rest = each * (s->nr - s->at) - gone;

        snprintf(left, sizeof(left), ", about %.0f s left", FL_MAX(rest, 0.0));
    }
    fprintf(stderr, "\r\033[K[%u/%u] %.60s, depth %u, %u job%s, %.0f s%s", s->at + 1, s->nr, s->now->url,
            s->now->depth, s->now->nr_jobs, s->now->nr_jobs == 1 ? "" : "s", gone, left);
}

static void clear_status(void)
{
    if (term_is_tty(stderr))
        fputs("\r\033[K", stderr);
}

/* ---- runs ---- */

/* Other targets know of no such thing: then the target's part is told as unknown. */
static void ask_for_service_times(struct fl_device *dev)
{
    struct fl_nvme_sqe sqe = {.opcode = FL_NVME_ADM_GET_FEATURES,
                              .cdw10 = le32_of(FL_NVME_FEAT_SERVICE_TIME)};
    uint64_t value = 0;

    if (fl_admin_command(dev, &sqe, NULL, 0, false, &value, NULL, NULL) < 0 ||
        (uint32_t)(value & ~(uint64_t)FL_NVME_SERVICE_TIME_ON) != FL_NVME_SERVICE_TIME_MAGIC)
        return;
    sqe.opcode = FL_NVME_ADM_SET_FEATURES;
    sqe.cdw11 = le32_of(FL_NVME_SERVICE_TIME_MAGIC | FL_NVME_SERVICE_TIME_ON);
    fl_admin_command(dev, &sqe, NULL, 0, false, NULL, NULL, NULL);
}

static int open_subject(struct bench_plan *plan, const char *url, struct subject *s, struct fl_error *err)
{
    int rc = fl_device_open(url, &plan->device, &s->dev, err);

    if (rc < 0)
        return rc;
    s->url = url;
    device_info_settled(s->dev, &s->info);
    s->target = s->info.target_pid ? s->info.target_pid : bench_peer_find(url);
    if (plan->spec.stages && !bench_is_local(url))
        ask_for_service_times(s->dev);
    s->size = plan->spec.size;
    if (plan->spec.verify) {
        uint64_t len = FL_MIN(s->info.len, plan->spec.size ? plan->spec.size : VERIFY_SIZE);

        s->size = len -= len % s->info.block_len;
        rc = bench_pattern_lay(s->dev, len, s->info.block_len, err);
    }
    return rc;
}

/* Adds a round to the result; the first one makes it. */
static int run_round(const struct subject *s, const struct bench_spec *spec, struct bench_result *to,
                     struct fl_error *err)
{
    struct bench_result *r = malloc(sizeof(*r));
    int rc;

    if (!r)
        return fl_error_set(err, -ENOMEM, "out of memory");
    *r = (struct bench_result){
        .url = to->url, .depth = to->depth, .nr_jobs = to->nr_jobs, .target_pid = s->target};
    if (spec->stages && !(r->stages = malloc(sizeof(*r->stages)))) {
        free(r);
        return fl_error_set(err, -ENOMEM, "out of memory");
    }
    if (spec->slo.limit_us > 0)
        rc = bench_slo_run(s->dev, &s->info, spec, s->target, r, err);
    else
        rc = bench_run(s->dev, &s->info, spec, s->target, r, err);
    if (rc >= 0 && to->nr_rounds) {
        bench_result_add(to, r);
    } else if (rc >= 0) {
        *to = *r;
        r->stages = NULL; /* the result's now */
    }
    free(r->stages);
    free(r);
    return rc;
}

static struct bench_result *result_at(struct bench_plan *plan, const struct subject *s, uint32_t url,
                                      uint32_t jobs, uint32_t depth)
{
    const uint32_t at = (url * plan->jobs.nr + jobs) * plan->depths.nr + depth;
    struct bench_result *r = plan->results[at];

    if (!r && (r = calloc(1, sizeof(*r)))) {
        r->url = s->url;
        r->depth = plan->depths.value[depth];
        r->nr_jobs = plan->jobs.value[jobs];
        plan->results[at] = r;
    }
    return r;
}

static int run_subject(struct bench_plan *plan, struct subject *s, uint32_t url, struct status *status,
                       struct fl_error *err)
{
    struct bench_spec spec = plan->spec;
    uint32_t i, j;
    int rc = 0;

    spec.size = s->size;
    spec.tick = term_is_tty(stderr) ? show_status : NULL;
    spec.tick_arg = status;
    for (i = 0; i < plan->jobs.nr && rc == 0; i++) {
        for (j = 0; j < plan->depths.nr && rc == 0; j++) {
            struct bench_result *r = result_at(plan, s, url, i, j);

            if (!r)
                return fl_error_set(err, -ENOMEM, "out of memory");
            status->now = r;
            status->start_ns = fl_now_ns();
            rc = run_round(s, &spec, r, err);
            status->at++;
        }
    }
    return rc;
}

static int say_which(const char *url, int rc, struct fl_error *err)
{
    if (rc < 0 && !strstr(err->text, url))
        fl_error_wrap(err, rc, "%s", url);
    return rc;
}

/* The first round makes results in their order. */
static void leave_out_unmeasured(struct bench_plan *plan)
{
    while (plan->nr_results && !plan->results[plan->nr_results - 1])
        plan->nr_results--;
}

int bench_plan_run(struct bench_plan *plan, struct fl_error *err)
{
    struct subject *subjects = calloc(plan->nr_urls, sizeof(*subjects));
    struct status status = {.spec = &plan->spec};
    uint32_t i, round;
    int rc = 0;

    plan->nr_results = plan->nr_urls * plan->jobs.nr * plan->depths.nr;
    status.nr = plan->nr_results * plan->spec.nr_rounds;
    plan->results = calloc(plan->nr_results, sizeof(*plan->results));
    if (!subjects || !plan->results)
        rc = fl_error_set(err, -ENOMEM, "out of memory");
    for (i = 0; i < plan->nr_urls && rc == 0; i++)
        rc = say_which(plan->urls[i], open_subject(plan, plan->urls[i], &subjects[i], err), err);
    for (round = 0; round < plan->spec.nr_rounds && rc == 0; round++)
        for (i = 0; i < plan->nr_urls && rc == 0; i++)
            rc = say_which(plan->urls[i], run_subject(plan, &subjects[i], i, &status, err), err);
    clear_status();
    if (rc > 0)
        leave_out_unmeasured(plan);
    for (i = 0; subjects && i < plan->nr_urls; i++)
        if (subjects[i].dev)
            fl_device_close(subjects[i].dev);
    free(subjects);
    return rc;
}

void bench_plan_fini(struct bench_plan *plan)
{
    uint32_t i;

    for (i = 0; plan->results && i < plan->nr_results; i++) {
        if (plan->results[i])
            free(plan->results[i]->stages);
        free(plan->results[i]);
    }
    free(plan->results);
}
