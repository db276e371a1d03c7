/* SPDX-License-Identifier: Apache-2.0 */
/* Which paths queue pairs took that are destroyed: sums, by path and reason. */
#include <string.h>

#include "base/util.h"
#include "rnic/stats.h"

#define MOST 64 /* beyond that, those of one path go together, whatever their reason */

static struct {
    struct fl_stats_gone sums[MOST + 1];
    int nr;
} gone; /* the RNIC's lock; where there is no RNIC, the process's */

static bool is_alike(const struct fl_stats_gone *sum, const struct fl_stats_qp *qp)
{
    return !strcmp(sum->qp.path, qp->path) && !strcmp(sum->qp.device, qp->device) &&
           !strcmp(sum->qp.how, qp->how) && !strcmp(sum->qp.reason, qp->reason);
}

static struct fl_stats_gone *sum_of(const struct fl_stats_qp *qp)
{
    for (int i = 0; i < gone.nr; i++) {
        if (is_alike(&gone.sums[i], qp))
            return &gone.sums[i];
    }
    if (gone.nr == FL_ARRAY_LEN(gone.sums))
        return &gone.sums[MOST];
    struct fl_stats_gone *sum = &gone.sums[gone.nr++];
    *sum = (struct fl_stats_gone){.qp = *qp};
    memset(sum->qp.counters, 0, sizeof(sum->qp.counters));
    if (gone.nr == FL_ARRAY_LEN(gone.sums)) {
        strcpy(sum->qp.path, "various");
        strcpy(sum->qp.device, "various devices");
        sum->qp.how[0] = 0;
        strcpy(sum->qp.reason, "more kinds of paths and reasons than are told apart");
    }
    return sum;
}

void fl_stats_gone_add(const struct fl_stats_qp *qp)
{
    if (!strcmp(qp->path, "none"))
        return;
    struct fl_stats_gone *sum = sum_of(qp);
    sum->nr_qps++;
    for (int i = 0; i < FL_NR_QP_COUNTERS; i++)
        sum->qp.counters[i] += qp->counters[i];
}

void fl_stats_gone_each(void (*see)(const struct fl_stats_gone *sum, void *arg), void *arg)
{
    for (int i = 0; i < gone.nr; i++)
        see(&gone.sums[i], arg);
}

void fl_stats_gone_forget(void)
{
    gone.nr = 0;
}
