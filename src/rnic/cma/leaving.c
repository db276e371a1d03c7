/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The peer's word that it goes comes by another way than its last messages, and programs look for the two at
 * different moments: one that found no message, is kept from going on, and finds DISCONNECTED then may drop
 * the connection, and with it messages that the peer knows to have arrived (libfabric's rxm over verbs does).
 * A kernel takes so long to tell it that this is never seen. So DISCONNECTED waits until the program has
 * taken from the completion queue what was there when it came: until LATEST_NS, if messages of this queue
 * pair are there at all.
 */
#include <stdlib.h>

#include "rnic/cma/parts.h"
#include "rnic/shm_path.h"

#define LOOK_NS   FL_NS_PER_MS
#define LATEST_NS (250 * FL_NS_PER_MS)

void fl_cma_leaving_init(struct fl_cma *cma)
{
    fl_list_init(&cma->leaving);
    cma->leave_latest_ns = LATEST_NS;
}

/* NULL: it is of no use to wait for it. */
static const struct fl_cq *queue_of(const struct fl_cma_id *id)
{
    const struct fl_qp *qp = id->qpn ? fl_qp_find(&id->cma->rnic->qps, id->qpn) : NULL;
    return qp && qp->path->state(qp) != IBV_QPS_ERR ? qp->recv_cq : NULL;
}

/* Who polls does not disturb: an entry keeps what it says until its place is used again, which needs the
 * RNIC's lock. */
static bool has_messages(const struct fl_cq *cq, uint32_t qpn)
{
    for (uint32_t i = __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE); i != cq->tail; i++) {
        const struct ibv_wc *wc = &cq->ring[i & cq->mask].wc;
        if (wc->qp_num == qpn && wc->status == IBV_WC_SUCCESS && (wc->opcode & IBV_WC_RECV))
            return true;
    }
    return false;
}

void fl_cma_disconnected(struct fl_cma_id *id, const struct fl_cm_event *e)
{
    struct fl_cma *cma = id->cma;
    struct fl_cma_event *event = fl_cma_event_new(id, RDMA_CM_EVENT_DISCONNECTED,
                                                  e->timed_out ? -ETIMEDOUT : 0, e);
    struct fl_qp *qp = id->qpn ? fl_qp_find(&cma->rnic->qps, id->qpn) : NULL;
    if (!event)
        return;
    if (qp)
        fl_shm_path_take(qp); /* messages that are on the way through shared memory */
    const struct fl_cq *cq = queue_of(id);
    if (!cq || !has_messages(cq, id->qpn)) {
        fl_cma_push(id->channel, event);
        return;
    }
    id->leave.event = event;
    id->leave.cq_end = cq->tail;
    id->leave.till = cma->rnic->now + cma->leave_latest_ns;
    fl_list_add_tail(&cma->leaving, &id->leave.link);
    cma->next_leave_look = cma->rnic->now + LOOK_NS;
}

void fl_cma_leaving_tell(struct fl_cma_id *id)
{
    struct fl_cma_event *event = id->leave.event;
    if (!event)
        return;
    id->leave.event = NULL;
    fl_list_del(&id->leave.link);
    fl_cma_push(id->channel, event);
}

void fl_cma_leaving_forget(struct fl_cma_id *id)
{
    free(id->leave.event);
    id->leave.event = NULL;
    fl_list_del(&id->leave.link);
}

/* Completions of other queue pairs of its may have been taken out meanwhile, so that its end is nearer. */
static bool is_taken(const struct fl_cq *cq, uint32_t end)
{
    uint32_t head = __atomic_load_n(&cq->head, __ATOMIC_ACQUIRE);
    return head == cq->tail || (int32_t)(head - end) >= 0;
}

int fl_cma_look_at_leaving(struct fl_cma *cma, uint64_t now)
{
    struct fl_cma_id *id, *tmp;
    int told = 0;
    if (fl_likely(fl_list_empty(&cma->leaving)))
        return 0;
    fl_list_for_each_safe (id, tmp, &cma->leaving, leave.link) {
        const struct fl_cq *cq = queue_of(id);
        if (cq && now < id->leave.till && !is_taken(cq, id->leave.cq_end))
            continue;
        fl_cma_leaving_tell(id);
        told++;
    }
    cma->next_leave_look = now + LOOK_NS;
    return told;
}

uint64_t fl_cma_leaving_deadline(const struct fl_cma *cma)
{
    return fl_list_empty(&cma->leaving) ? FL_CM_NEVER : cma->next_leave_look;
}
