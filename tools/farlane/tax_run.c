/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "tax.h"
#include "term.h"

#define TRIES 3

static volatile sig_atomic_t stopped; /* by which signal */

static void on_signal(int signo)
{
    stopped = signo;
}

static void show(const struct tax *tax, const struct tax_path *path, enum tax_job job, uint32_t done,
                 uint32_t all, uint64_t start_ns)
{
    const double gone = (double)(fl_now_ns() - start_ns) / 1e9;
    char left[32] = "";

    if (!term_is_tty(stderr))
        return;
    if (done)
        snprintf(left, sizeof(left), ", about %.0f s left", gone / done * (all - done));
    fprintf(stderr, "\r\033[K[%u/%u] %s: %s%s", done + 1, all, path->name, tax_job_texts[job], left);
}

/* On a disturbed machine a short run may end without a single I/O: then a longer one decides. */
static int try_measure(struct tax *tax, struct tax_path *path, enum tax_job job, struct fl_error *err)
{
    const double seconds = tax->seconds;
    int i, rc = -1;

    for (i = 0; i < TRIES && rc < 0 && !stopped; i++) {
        fl_error_clear(err);
        tax->seconds = seconds * (1 << 2 * i);
        rc = tax_measure(tax, path, job, &path->sample[job][path->nr_rounds], err);
    }
    tax->seconds = seconds;
    return rc;
}

static uint32_t nr_jobs(const struct tax *tax)
{
    return tax->brief ? TAX_BANDWIDTH : TAX_NR_JOBS;
}

/* All jobs of a path once. */
static void measure_path(struct tax *tax, struct tax_path *path, uint32_t *done, uint32_t all,
                         uint64_t start_ns)
{
    struct fl_error err = {0};
    uint32_t job;

    for (job = 0; job < nr_jobs(tax) && !stopped; job++) {
        show(tax, path, (enum tax_job)job, (*done)++, all, start_ns);
        if (try_measure(tax, path, (enum tax_job)job, &err) < 0) {
            snprintf(path->why_not, sizeof(path->why_not), "%.250s", err.text);
            path->nr_rounds = 0; /* half of a comparison is none */
            return;
        }
    }
    path->nr_rounds += !stopped;
}

int tax_run(struct tax *tax, struct fl_error *err)
{
    struct sigaction now = {.sa_handler = on_signal}, interrupt, terminate;
    const uint64_t start_ns = fl_now_ns();
    uint32_t i, round, done = 0, nr = 0;

    sigaction(SIGINT, &now, &interrupt);
    sigaction(SIGTERM, &now, &terminate);
    for (i = 0; i < tax->nr_paths; i++)
        nr += !tax->paths[i].why_not[0];
    for (round = 0; round < tax->nr_rounds && !stopped; round++)
        for (i = 0; i < tax->nr_paths && !stopped; i++)
            if (!tax->paths[i].why_not[0])
                measure_path(tax, &tax->paths[i], &done, nr * tax->nr_rounds * nr_jobs(tax), start_ns);
    if (term_is_tty(stderr))
        fputs("\r\033[K", stderr);
    sigaction(SIGINT, &interrupt, NULL);
    sigaction(SIGTERM, &terminate, NULL);
    tax->took = (double)(fl_now_ns() - start_ns) / 1e9;
    tax->stopped_by = stopped;
    if (stopped)
        return fl_error_set(err, -EINTR, "stopped by signal %d", (int)stopped);
    for (i = 0; i < tax->nr_paths; i++)
        if (tax->paths[i].nr_rounds)
            return 0;
    return fl_error_set(err, -EIO, "nothing could be measured: %s",
                        tax->nr_paths ? tax->paths[0].why_not : "there is no path");
}
