/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: made when the engine says something, finished in the thread of the program that fetches them. That
 * is where an active side's queue pair becomes ready, as with librdmacm, and where a request finds its
 * device.
 */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rnic/cma/parts.h"
#include "rnic/retired.h"

static void take_private(struct fl_cma_event *event, const struct fl_cm_event *from, bool datagram)
{
    const size_t room = FL_MIN(sizeof(event->private_data), (size_t)UINT8_MAX);
    uint8_t len = (uint8_t)FL_MIN(from->private_len, room);
    if (!from->private_data || !len)
        return;
    memcpy(event->private_data, from->private_data, len);
    if (datagram) {
        event->event.param.ud.private_data = event->private_data;
        event->event.param.ud.private_data_len = len;
    } else {
        event->event.param.conn.private_data = event->private_data;
        event->event.param.conn.private_data_len = len;
    }
}

struct fl_cma_event *fl_cma_event_new(struct fl_cma_id *id, enum rdma_cm_event_type type, int status,
                                      const struct fl_cm_event *from)
{
    struct fl_cma_event *event = calloc(1, sizeof(*event));
    if (!event) {
        FL_ERR("no memory: the event %s of a connection is lost", fl_cma_event_str(type));
        return NULL;
    }
    fl_list_init(&event->link);
    event->event.id = &id->id;
    event->event.event = type;
    event->event.status = status;
    event->counts_at = id;
    if (from)
        take_private(event, from, fl_cma_is_datagram(id));
    return event;
}

void fl_cma_tell(struct fl_cma_id *id, enum rdma_cm_event_type type, int status,
                 const struct fl_cm_event *from)
{
    struct fl_cma_event *event = fl_cma_event_new(id, type, status, from);
    if (event)
        fl_cma_push(id->channel, event);
}

static void drop(struct fl_cma_event *event)
{
    fl_cma_count_ack(event->counts_at);
    event->counts_at = NULL;
    fl_retire(event);
}

/* False: there is no way to serve it, and it is gone. */
static bool finish_request(struct fl_cma_event *event)
{
    struct fl_cma_id *id = fl_cma_id_of(event->event.id);
    int r = fl_cma_attach(id, event->device);
    fl_cma_fill_path(id);
    if (!r && event->counts_at->sync)
        r = fl_cma_migrate_id(&id->id, NULL) ? -errno : 0;
    if (!r)
        return true;
    FL_WARN("a request for a connection is rejected: %s", strerror(-r));
    fl_cma_destroy_id(&id->id);
    return false;
}

/* The peer accepted. False: it took that back, and the event that says so follows. */
static bool finish_response(struct fl_cma_event *event)
{
    struct fl_cma_id *id = fl_cma_id_of(event->event.id);
    struct fl_cma *cma = id->cma;
    if (!id->id.qp)
        return true; /* the program's own queue pair: rdma_establish() */
    int status = fl_cma_qp_to_rts(id), r = fl_cma_lock(cma);
    if (!r && !id->conn) { /* went with its device */
        fl_cma_unlock(cma);
        return false;
    }
    if (!r && status)
        fl_cm_reject(cma->cm, id->conn, FL_CM_REJ_CONSUMER, NULL, 0, NULL, 0, cma->rnic->now);
    else if (!r)
        r = fl_cm_ready(cma->cm, id->conn, NULL, 0, cma->rnic->now);
    if (!r && !status)
        fl_cma_connected(id);
    if (r != -ENODEV)
        fl_cma_unlock(cma);
    if (r == -ENOTCONN)
        return false;
    status = status ? status : r;
    event->event.event = status ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
    event->event.status = status;
    if (status)
        fl_cma_qp_to_error(id);
    return true;
}

static bool finish(struct fl_cma_event *event)
{
    switch (event->event.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
        return finish_request(event);
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        return finish_response(event);
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
        fl_cma_qp_to_error(fl_cma_id_of(event->event.id));
        return true;
    default:
        return true;
    }
}

int fl_cma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **out)
{
    struct fl_cma_event *event;
    if (!out) {
        errno = EINVAL;
        return -1;
    }
    for (;;) {
        event = fl_cma_pop(fl_cma_channel_of(channel));
        if (!event)
            return -1;
        if (finish(event))
            break;
        drop(event);
    }
    *out = &event->event;
    return 0;
}

int fl_cma_ack_cm_event(struct rdma_cm_event *event)
{
    if (!event || !FL_CONTAINER_OF(event, struct fl_cma_event, event)->counts_at) { /* or once more */
        errno = EINVAL;
        return -1;
    }
    drop(FL_CONTAINER_OF(event, struct fl_cma_event, event));
    return 0;
}

int fl_cma_complete(struct fl_cma_id *id)
{
    if (!id->sync)
        return 0;
    if (id->id.event) {
        fl_cma_ack_cm_event(id->id.event);
        id->id.event = NULL;
    }
    if (fl_cma_get_cm_event(&id->channel->channel, &id->id.event))
        return -1;
    int status = id->id.event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ? -ENODEV : id->id.event->status;
    if (!status)
        return 0;
    errno = id->id.event->event == RDMA_CM_EVENT_REJECTED ? ECONNREFUSED : status < 0 ? -status : ETIMEDOUT;
    return -1;
}

const char *fl_cma_event_str(enum rdma_cm_event_type event)
{
    static const char *const names[] = {
#define NAME(event) [event] = #event
        NAME(RDMA_CM_EVENT_ADDR_RESOLVED),   NAME(RDMA_CM_EVENT_ADDR_ERROR),
        NAME(RDMA_CM_EVENT_ROUTE_RESOLVED),  NAME(RDMA_CM_EVENT_ROUTE_ERROR),
        NAME(RDMA_CM_EVENT_CONNECT_REQUEST), NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
        NAME(RDMA_CM_EVENT_CONNECT_ERROR),   NAME(RDMA_CM_EVENT_UNREACHABLE),
        NAME(RDMA_CM_EVENT_REJECTED),        NAME(RDMA_CM_EVENT_ESTABLISHED),
        NAME(RDMA_CM_EVENT_DISCONNECTED),    NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
        NAME(RDMA_CM_EVENT_MULTICAST_JOIN),  NAME(RDMA_CM_EVENT_MULTICAST_ERROR),
        NAME(RDMA_CM_EVENT_ADDR_CHANGE),     NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
#undef NAME
    };
    return (unsigned int)event < FL_ARRAY_LEN(names) ? names[event] : "UNKNOWN EVENT";
}
