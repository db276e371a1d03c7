/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "machine.h"
#include "tax.h"

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct tax_figure figure_of(double *values, uint32_t nr)
{
    if (!nr)
        return (struct tax_figure){.known = false};
    qsort(values, nr, sizeof(values[0]), compare);
    return (struct tax_figure){true, (values[(nr - 1) / 2] + values[nr / 2]) / 2, values[0], values[nr - 1]};
}

static double value(const struct tax_path *path, enum tax_column column, uint32_t round)
{
    const struct tax_sample *latency = &path->sample[TAX_LATENCY][round],
                            *iops = &path->sample[TAX_IOPS][round];

    switch (column) {
    case TAX_MEAN:
    case TAX_P50:
    case TAX_P99:
    case TAX_P999:
        return latency->us[column - TAX_MEAN];
    case TAX_RATE:
        return iops->iops;
    case TAX_GBPS:
        return path->sample[TAX_BANDWIDTH][round].gb_per_s > 0 ? path->sample[TAX_BANDWIDTH][round].gb_per_s
                                                               : -1;
    case TAX_HOST:
        return iops->host_cores < 0 ? -1 : iops->host_cores / iops->iops * 1e6;
    default:
        return iops->target_cores < 0 ? -1 : iops->target_cores / iops->iops * 1e6;
    }
}

struct tax_figure tax_figure(const struct tax_path *path, enum tax_column column)
{
    double values[TAX_MAX_ROUNDS];
    uint32_t i, nr = 0;

    for (i = 0; i < path->nr_rounds; i++) {
        values[nr] = value(path, column, i);
        nr += values[nr] >= 0;
    }
    return figure_of(values, nr);
}

const struct tax_path *tax_base(const struct tax *tax)
{
    uint32_t i;

    for (i = 0; i < tax->nr_paths; i++)
        if (tax->paths[i].local && tax->paths[i].tool == TAX_BENCH && tax->paths[i].nr_rounds)
            return &tax->paths[i];
    return NULL;
}

/* A round's own base: what disturbed the machine then disturbed both. */
struct tax_figure tax_added(const struct tax *tax, const struct tax_path *path, enum tax_column column)
{
    const struct tax_path *base = tax_base(tax);
    double values[TAX_MAX_ROUNDS];
    uint32_t i, nr = 0;

    for (i = 0; base && base != path && i < FL_MIN(path->nr_rounds, base->nr_rounds); i++) {
        const double ours = value(path, column, i), theirs = value(base, column, i);

        if (ours >= 0 && theirs >= 0)
            values[nr++] = ours - theirs;
    }
    return figure_of(values, nr);
}

static double most_waited(const struct tax_path *p)
{
    double most = 0;
    uint32_t job, round;

    for (job = 0; job < TAX_NR_JOBS; job++)
        for (round = 0; round < p->nr_rounds; round++)
            most = FL_MAX(most, p->sample[job][round].waited);
    return most;
}

static const struct tax_path *most_disturbed(const struct tax *tax)
{
    const struct tax_path *worst = &tax->paths[0];
    uint32_t i;

    for (i = 1; i < tax->nr_paths; i++)
        if (most_waited(&tax->paths[i]) > most_waited(worst))
            worst = &tax->paths[i];
    return worst;
}

double tax_disturbance(const struct tax *tax)
{
    return most_waited(most_disturbed(tax));
}

bool tax_tell_disturbance(const struct tax *tax, char *text, size_t len)
{
    const struct tax_path *worst = most_disturbed(tax);

    machine_tell_waiting(most_waited(worst), "measurement", worst->name, text, len);
    return most_waited(worst) > TAX_DISTURBED;
}
