/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/taken.h"

#include <stdio.h>
#include <string.h>

#include "rnic/stats.h"

static void soft(struct ibv_qp *ibv_qp, struct fl_taken *t)
{
    const struct fl_qp *qp = FL_CONTAINER_OF(ibv_qp, struct fl_qp, qp);
    struct fl_stats_qp stats;

    fl_rnic_lock(qp->rnic);
    fl_stats_qp(qp, &stats);
    fl_rnic_unlock(qp->rnic);
    t->path = strcmp(stats.path, "shm") ? FL_PATH_UDP : FL_PATH_SHM;
    snprintf(t->how, sizeof(t->how), "%s", stats.how);
    snprintf(t->why, sizeof(t->why), "%s", stats.reason);
}

void fl_taken_by(const struct fl_verbs *verbs, struct ibv_qp *qp, struct fl_taken *t)
{
    *t = (struct fl_taken){.path = FL_PATH_HARDWARE};
    snprintf(t->device, sizeof(t->device), "%s", verbs->get_device_name(qp->context->device));
    if (verbs == &fl_verbs_soft)
        soft(qp, t);
}
