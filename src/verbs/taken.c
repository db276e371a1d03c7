/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/taken.h"

#include <stdio.h>
#include <string.h>

#include "rnic/shm/link.h"
#include "rnic/shm_path.h"
#include "rnic/stats.h"

/* Under the RNIC's lock */
static void look_at(struct fl_qp *qp, struct fl_taken *t)
{
    bool shm = qp->link && qp->link->up;
    struct fl_port_peer peer;
    struct fl_stats_qp stats;

    fl_stats_qp(qp, &stats);
    t->path = shm ? FL_PATH_SHM : FL_PATH_UDP;
    t->settling = qp->link && !shm && !qp->link->dead;
    snprintf(t->how, sizeof(t->how), "%s", stats.how);
    snprintf(t->why, sizeof(t->why), "%s", stats.reason);
    t->peer_pid = 0;
    if (fl_shm_path_is_here(&qp->flow.dgid) && !fl_port_find_peer(qp->rnic->port, stats.peer_qpn, &peer))
        t->peer_pid = peer.pid;
}

void fl_taken_by(const struct fl_verbs *verbs, struct ibv_qp *ibv_qp, struct fl_taken *t)
{
    struct fl_qp *qp = fl_qp_of(ibv_qp);

    *t = (struct fl_taken){.path = FL_PATH_HARDWARE};
    snprintf(t->device, sizeof(t->device), "%s", verbs->get_device_name(ibv_qp->context->device));
    if (verbs != &fl_verbs_soft)
        return;
    t->qpn = ibv_qp->qp_num;
    fl_rnic_lock(qp->rnic);
    look_at(qp, t);
    fl_rnic_unlock(qp->rnic);
}

static void find(struct fl_rnic *rnic, void *arg)
{
    struct fl_taken *t = arg;
    struct fl_qp *qp = rnic ? fl_qp_find(&rnic->qps, t->qpn) : NULL;

    if (qp)
        look_at(qp, t);
}

void fl_taken_again(struct fl_taken *t)
{
    if (t->qpn)
        fl_rnic_look(find, t);
}
