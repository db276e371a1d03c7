/* SPDX-License-Identifier: Apache-2.0 */
/* The side that is asked: listening, requests, accepting. */
#include <string.h>

#include "base/log.h"
#include "rnic/cma/parts.h"

static int listen_locked(struct fl_cma_id *id, int backlog)
{
    struct fl_cma *cma = id->cma;
    const struct sockaddr *addr = &id->id.route.addr.src_addr;
    struct in6_addr gid;
    if (id->state != FL_CMA_BOUND)
        return -EINVAL;
    int r = fl_cma_port_claim(id);
    if (r)
        return r;
    fl_cma_gid_of(addr, &gid);
    bool all = IN6_IS_ADDR_UNSPECIFIED(&gid) && !id->afonly; /* of IPv4, too */
    uint64_t service_id = fl_cm_service_id((enum fl_cm_port_space)(id->id.ps & 0xff), fl_cma_port_of(addr));
    r = fl_cm_listen(cma->cm, service_id, all ? NULL : &gid,
                     backlog > 0 ? (uint32_t)backlog : FL_CM_BACKLOG_MAX, id, &id->listener);
    if (!r) {
        id->state = FL_CMA_LISTENING;
        id->port->listened = true;
    }
    return r;
}

/* A loopback address without a port had no device yet. */
static int find_device(struct fl_cma_id *id)
{
    const struct sockaddr *addr = &id->id.route.addr.src_addr;
    struct in6_addr gid;
    if (fl_cma_state_of(id) != FL_CMA_BOUND || id->device || fl_cma_is_any(addr))
        return 0;
    fl_cma_gid_of(addr, &gid);
    struct fl_device *device = fl_cma_device_of(&gid);
    return device ? fl_cma_attach(id, device) : -EADDRNOTAVAIL;
}

int fl_cma_listen(struct rdma_cm_id *cm_id, int backlog)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    struct sockaddr_in any = {.sin_family = AF_INET};
    if (fl_cma_state_of(id) == FL_CMA_IDLE && fl_cma_bind_addr(cm_id, (struct sockaddr *)&any))
        return -1;
    struct fl_port_patience patience = {0};
    int r = find_device(id);
    if (r)
        return fl_cma_result(r);
    do {
        r = fl_cma_lock(id->cma);
        if (r)
            break;
        r = listen_locked(id, backlog);
        fl_cma_unlock(id->cma);
    } while (fl_cma_port_again(&r, &patience));
    if (!r)
        FL_DEBUG("listens on port %u by the connection manager", fl_cma_port_of(&id->id.route.addr.src_addr));
    return fl_cma_result(r);
}

static int accept_locked(struct fl_cma_id *id, const struct rdma_conn_param *param)
{
    struct fl_cma *cma = id->cma;
    const void *data = param ? param->private_data : NULL;
    size_t len = data ? param->private_data_len : 0;
    if (!id->conn)
        return -EINVAL;
    if (!fl_cma_is_datagram(id)) {
        struct fl_cm_terms terms = fl_cma_terms(id);
        return fl_cm_accept(cma->cm, id->conn, &terms, data, len, cma->rnic->now);
    }
    if (!id->qpn)
        return -EINVAL;
    return fl_cm_sidr_reply(cma->cm, id->conn, FL_CM_SIDR_OK, id->qpn, RDMA_UDP_QKEY, data, len,
                            cma->rnic->now);
}

int fl_cma_accept(struct rdma_cm_id *cm_id, struct rdma_conn_param *param)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    if (!id->passive) {
        errno = EINVAL;
        return -1;
    }
    int r = fl_cma_take_param(id, param);
    if (!r && cm_id->qp && !fl_cma_is_datagram(id))
        r = fl_cma_qp_to_rts(id);
    if (!r)
        r = fl_cma_lock(id->cma);
    if (r)
        return fl_cma_result(r);
    r = accept_locked(id, param);
    fl_cma_unlock(id->cma);
    if (r)
        return fl_cma_result(r == -ENOTCONN ? -EINVAL : r);
    return fl_cma_is_datagram(id) ? 0 : fl_cma_complete(id);
}

int fl_cma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **out)
{
    struct fl_cma_id *listener = fl_cma_id_of(listen);
    struct rdma_cm_event *event;
    if (!listener->sync) {
        errno = EINVAL;
        return -1;
    }
    if (listen->event) {
        fl_cma_ack_cm_event(listen->event);
        listen->event = NULL;
    }
    if (fl_cma_get_cm_event(listen->channel, &event))
        return -1;
    int r = event->status;
    if (!r && event->event != RDMA_CM_EVENT_CONNECT_REQUEST)
        r = event->event == RDMA_CM_EVENT_DEVICE_REMOVAL ? -ENODEV : -EINVAL;
    if (!r && listener->ep_attr) {
        struct ibv_qp_init_attr attr = *listener->ep_attr;
        r = fl_cma_create_qp(event->id, listen->pd, &attr) ? -errno : 0;
    }
    if (r) {
        listen->event = event; /* acknowledged at the next call */
        return fl_cma_result(r);
    }
    event->id->event = event;
    *out = event->id;
    return 0;
}
