/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Peers that died without a word. Of those on this host the hub knows; on another host the next hub speaks
 * for them, and where there is none, vigil.h finds out.
 */
#include "base/log.h"
#include "rnic/cma/parts.h"

#define LOOK_NS    (500 * FL_NS_PER_MS) /* how often we look whether peers on this host are still there */
#define GONE_AFTER 2 /* looks: to a hub that is new, a process may be unknown for a moment */

static struct fl_cma_id *id_of(const struct fl_vigil_peer *peer)
{
    return FL_CONTAINER_OF(peer, struct fl_cma_id, vigil);
}

/* NULL: it is destroyed, or was never connected to this peer. */
static struct fl_qp *qp_of(const struct fl_cma_id *id)
{
    struct fl_qp *qp = fl_qp_find(&id->cma->rnic->qps, id->qpn);
    return qp && qp->roce.attr.dest_qpn == fl_cm_peer(id->conn)->qpn ? qp : NULL;
}

static uint64_t nr_came(const struct fl_vigil_peer *peer)
{
    const struct fl_qp *qp = qp_of(id_of(peer));
    return qp ? qp->roce.stats.nr_rx : 0;
}

static bool ask(struct fl_vigil_peer *peer)
{
    struct fl_qp *qp = qp_of(id_of(peer));
    struct fl_roce_tx tx;
    if (!qp || qp->link || !fl_roce_qp_knock(&qp->roce, &tx))
        return false;
    fl_port_knock(qp->rnic->port, &qp->flow, &tx);
    return true;
}

static void ask_place(struct fl_vigil_peer *peer)
{
    struct fl_cma_id *id = id_of(peer);
    fl_cm_knock(id->cma->cm, id->conn);
}

static void gone(struct fl_vigil_peer *peer)
{
    struct fl_cma_id *id = id_of(peer);
    fl_vigil_del(peer);
    FL_DEBUG("queue pair 0x%x: the peer is gone, and nobody of its host has the RoCE port", id->qpn);
    fl_cm_lost(id->cma->cm, id->conn, id->cma->rnic->now);
}

static const struct fl_vigil_ops vigil_ops = {
    .nr_came = nr_came, .ask = ask, .ask_place = ask_place, .gone = gone};

void fl_cma_absent_init(struct fl_cma *cma)
{
    fl_list_init(&cma->watched);
    fl_vigil_init(&cma->vigil, &vigil_ops);
}

static void watch_here(struct fl_cma_id *id)
{
    struct fl_cma *cma = id->cma;
    if (fl_list_linked(&id->watch_link))
        return;
    if (fl_list_empty(&cma->watched))
        cma->next_look = cma->rnic->now;
    fl_list_add_tail(&cma->watched, &id->watch_link);
}

void fl_cma_watch(struct fl_cma_id *id, bool established)
{
    const struct fl_cm_terms *peer = fl_cm_peer(id->conn);
    const struct in6_addr *remote = &fl_cm_route(id->conn)->remote;
    uint32_t mask;
    if (fl_cma_device_of(remote)) {
        watch_here(id);
        return;
    }
    if (!established || !(peer->features & fl_cma_terms(id).features & FL_CM_KNOCK))
        return;
    fl_port_comm_id_prefix(id->cma->rnic->port, &mask);
    if (fl_vigil_add(&id->cma->vigil, &id->vigil, remote, fl_cm_remote_id(id->conn) & mask,
                     id->cma->rnic->now))
        FL_DEBUG("no memory to watch whether the peer of queue pair 0x%x is there", id->qpn);
}

void fl_cma_unwatch(struct fl_cma_id *id)
{
    fl_list_del(&id->watch_link);
    fl_vigil_del(&id->vigil);
}

/*
 * A process that was killed says nothing any more. Where it was on this host, the hub knows; then a DREQ
 * finds that nobody knows the connection, which ends it in the ordinary way.
 */
static void look_here(struct fl_cma *cma, uint64_t now)
{
    struct fl_cma_id *id, *tmp;
    cma->next_look = now + LOOK_NS;
    fl_list_for_each_safe (id, tmp, &cma->watched, watch_link) {
        int r = fl_port_find_owner(cma->rnic->port, fl_cm_peer(id->conn)->qpn);
        if (r != -ENOENT) {
            id->nr_missing = 0;
        } else if (++id->nr_missing >= GONE_AFTER) {
            id->nr_missing = GONE_AFTER;
            if (!fl_cm_disconnect(cma->cm, id->conn, NULL, 0, now)) /* else the program is not ready yet */
                fl_list_del(&id->watch_link);
        }
    }
}

void fl_cma_look_for_absent(struct fl_cma *cma, uint64_t now)
{
    struct in6_addr host;
    if (!fl_list_empty(&cma->watched) && now >= cma->next_look)
        look_here(cma, now);
    while (fl_port_refused(cma->rnic->port, &host))
        fl_vigil_refused(&cma->vigil, &host, now);
    fl_vigil_tick(&cma->vigil, now);
}

uint64_t fl_cma_absent_deadline(const struct fl_cma *cma)
{
    uint64_t at = fl_vigil_deadline(&cma->vigil);
    return fl_list_empty(&cma->watched) ? at : FL_MIN(at, cma->next_look);
}
