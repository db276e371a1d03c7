/* SPDX-License-Identifier: Apache-2.0 */
/* Identifiers: making, ending, moving from one channel to another. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rnic/cma/parts.h"
#include "rnic/retired.h"

struct fl_cma_id *fl_cma_id_new(struct fl_cma *cma, enum rdma_port_space ps, void *context)
{
    struct fl_cma_id *id = calloc(1, sizeof(*id));
    if (!id)
        return NULL;
    id->cma = cma;
    id->id.ps = ps;
    id->id.context = context;
    id->id.qp_type = ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    fl_list_init(&id->all_link);
    fl_list_init(&id->port_link);
    fl_list_init(&id->watch_link);
    fl_list_init(&id->leave.link);
    id->bond = -1;
    pthread_mutex_init(&id->mutex, NULL);
    pthread_cond_init(&id->cond, NULL);
    return id;
}

static struct fl_cma none = {.rnic = &fl_rnic_none};

void fl_cma_id_free(struct fl_cma_id *id)
{
    fl_list_del(&id->all_link);
    pthread_mutex_destroy(&id->mutex);
    pthread_cond_destroy(&id->cond);
    free(id->ep_attr);
    id->ep_attr = NULL;
    id->cma = &none;
    fl_retire(id);
}

int fl_cma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **out, void *context,
                     enum rdma_port_space ps)
{
    if (ps != RDMA_PS_TCP && ps != RDMA_PS_UDP && ps != RDMA_PS_IB) {
        FL_WARN("connection manager: port space 0x%x is not supported", (unsigned int)ps);
        errno = EPROTONOSUPPORT;
        return -1;
    }
    struct fl_cma *cma = fl_cma_get();
    if (!cma)
        return -1;
    struct fl_cma_id *id = fl_cma_id_new(cma, ps, context);
    if (!id)
        return -1;
    id->sync = !channel;
    if (!channel)
        channel = fl_cma_create_event_channel();
    if (!channel) {
        fl_cma_id_free(id);
        return -1;
    }
    id->id.channel = channel;
    id->channel = fl_cma_channel_of(channel);
    int r = fl_cma_lock(cma);
    if (!r) {
        id->psn = fl_cm_random_psn(cma->cm);
        fl_list_add_tail(&cma->ids, &id->all_link);
        fl_cma_unlock(cma);
    }
    *out = &id->id;
    return 0;
}

void fl_cma_count_ack(struct fl_cma_id *id)
{
    pthread_mutex_lock(&id->mutex);
    id->nr_acked++;
    pthread_cond_signal(&id->cond);
    pthread_mutex_unlock(&id->mutex);
}

/* The program may still use what it was given. */
static void wait_for_acks(struct fl_cma_id *id)
{
    pthread_mutex_lock(&id->mutex);
    while (id->nr_acked != id->nr_told)
        pthread_cond_wait(&id->cond, &id->mutex);
    pthread_mutex_unlock(&id->mutex);
}

void fl_cma_leave(struct fl_cma_id *id)
{
    struct fl_cma *cma = id->cma;
    struct fl_qp *qp = id->qpn ? fl_qp_find(&cma->rnic->qps, id->qpn) : NULL;
    if (qp && qp->cm_id == id)
        qp->cm_id = NULL;
    fl_list_del(&id->all_link);
    fl_cma_leaving_forget(id);
    fl_cma_parted(id);
    if (id->listener)
        fl_cm_listener_destroy(cma->cm, id->listener, cma->rnic->now);
    if (id->conn)
        fl_cm_conn_destroy(cma->cm, id->conn, cma->rnic->now);
    id->listener = NULL;
    id->conn = NULL;
    fl_cma_port_release(id);
}

/* Events that nobody fetched; requests among them are rejected. */
static void forget_events(struct fl_cma_id *id)
{
    struct fl_list events;
    struct fl_cma_event *event, *tmp;
    fl_list_init(&events);
    fl_cma_take_events(id->channel, id, &events);
    fl_list_for_each_safe (event, tmp, &events, link) {
        fl_list_del(&event->link);
        if (event->event.id != &id->id)
            fl_cma_destroy_id(event->event.id);
        free(event);
    }
}

int fl_cma_destroy_id(struct rdma_cm_id *cm_id)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    if (id->cma == &none) { /* once more */
        errno = EINVAL;
        return -1;
    }
    if (cm_id->event) {
        fl_cma_ack_cm_event(cm_id->event);
        cm_id->event = NULL;
    }
    int r = fl_cma_lock(id->cma);
    if (!r) {
        fl_cma_leave(id);
        fl_cma_unlock(id->cma);
    }
    forget_events(id);
    wait_for_acks(id);
    if (id->sync)
        fl_cma_destroy_event_channel(&id->channel->channel);
    fl_cma_id_free(id);
    return 0;
}

int fl_cma_migrate_id(struct rdma_cm_id *cm_id, struct rdma_event_channel *channel)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    struct fl_cma_channel *old = id->channel;
    struct fl_list events;
    struct fl_cma_event *event, *tmp;
    bool sync = !channel;
    if (id->sync && !channel) {
        errno = EINVAL;
        return -1;
    }
    if (!channel)
        channel = fl_cma_create_event_channel();
    if (!channel)
        return -1;
    int r = fl_cma_lock(id->cma);
    if (r) {
        if (sync)
            fl_cma_destroy_event_channel(channel);
        return fl_cma_result(r);
    }
    fl_list_init(&events);
    fl_cma_take_events(old, id, &events);
    fl_list_for_each_safe (event, tmp, &events, link) {
        fl_list_del(&event->link);
        fl_cma_push(fl_cma_channel_of(channel), event);
    }
    id->channel = fl_cma_channel_of(channel);
    id->id.channel = channel;
    fl_cma_unlock(id->cma);
    if (id->sync) {
        if (cm_id->event) {
            fl_cma_ack_cm_event(cm_id->event);
            cm_id->event = NULL;
        }
        fl_cma_destroy_event_channel(&old->channel);
    }
    id->sync = sync;
    wait_for_acks(id);
    return 0;
}
