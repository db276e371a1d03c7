/* SPDX-License-Identifier: Apache-2.0 */
/* What the engine says, as events of ids. Under rnic->lock. */
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rnic/cma/parts.h"

static struct rdma_conn_param *fill_param(struct rdma_conn_param *param, const struct fl_cm_terms *peer)
{
    param->responder_resources = peer->responder_resources;
    param->initiator_depth = peer->initiator_depth;
    param->flow_control = peer->flow_control;
    param->retry_count = peer->retry_count;
    param->rnr_retry_count = peer->rnr_retry_count;
    param->srq = peer->srq;
    param->qp_num = peer->qpn;
    return param;
}

static void set_peer_ece(struct fl_cma_id *id)
{
    const struct fl_cm_terms *peer = fl_cm_peer(id->conn);
    id->remote_ece = (struct ibv_ece){.vendor_id = peer->ece_vendor, .options = peer->ece_options};
}

void fl_cma_connected(struct fl_cma_id *id)
{
    const struct fl_cm_route *route = fl_cm_route(id->conn);
    const struct fl_hub_bond bond = {.local = route->local,
                                     .remote = route->remote,
                                     .scope_id = route->scope_id,
                                     .local_id = fl_cm_local_id(id->conn),
                                     .remote_id = fl_cm_remote_id(id->conn),
                                     .remote_qpn = fl_cm_peer(id->conn)->qpn};
    fl_cma_watch(id, true);
    if (id->bond < 0)
        id->bond = fl_port_connected(id->cma->rnic->port, &bond);
}

void fl_cma_parted(struct fl_cma_id *id)
{
    fl_cma_unwatch(id);
    fl_port_parted(id->cma->rnic->port, id->bond);
    id->bond = -1;
}

/* A path MTU that our port cannot take is answered with the one that it can (12.6.7.2, reason 26). */
static bool mtu_fits(struct fl_cma *cma, struct fl_cm_conn *conn, const struct fl_device *device)
{
    uint8_t ours = (uint8_t)fl_device_mtu(device);
    if (fl_cm_service(conn) == FL_IB_UD || fl_cm_route(conn)->mtu <= ours)
        return true;
    fl_cm_reject(cma->cm, conn, FL_CM_REJ_PATH_MTU, &ours, 1, NULL, 0, cma->rnic->now);
    return false;
}

static struct fl_cma_id *new_request_id(const struct fl_cma_id *listener, struct fl_cm_conn *conn,
                                        struct fl_device *device)
{
    const struct fl_cm_route *route = fl_cm_route(conn);
    const struct fl_cm_terms *peer = fl_cm_peer(conn);
    struct fl_cma_id *id = fl_cma_id_new(listener->cma, listener->id.ps, listener->id.context);
    if (!id)
        return NULL;
    if (fl_cma_set_device(id, device)) {
        fl_cma_id_free(id);
        return NULL;
    }
    fl_list_add_tail(&id->cma->ids, &id->all_link);
    id->passive = true;
    id->state = FL_CMA_CONNECTING;
    id->channel = listener->channel;
    id->id.channel = listener->id.channel;
    id->conn = conn;
    id->route = *route;
    id->tos = route->traffic_class;
    id->responder_resources = peer->responder_resources;
    id->initiator_depth = peer->initiator_depth;
    id->rnr_retry_count = peer->rnr_retry_count;
    if (fl_cm_service(conn) != FL_IB_UD)
        id->id.qp_type = fl_cm_service(conn) == FL_IB_UC ? IBV_QPT_UC : IBV_QPT_RC;
    fl_cma_set_addr(&id->id.route.addr.src_storage, &route->local,
                    fl_cma_port_of(&listener->id.route.addr.src_addr), route->scope_id);
    fl_cma_set_addr(&id->id.route.addr.dst_storage, &route->remote, fl_cm_src_port(conn), route->scope_id);
    fl_cm_set_owner(conn, id);
    return id;
}

/* A request of the other kind, connection or datagrams, knocks at the wrong door. */
static bool is_served(const struct fl_cma_id *listener, const struct fl_cm_conn *conn)
{
    return fl_cma_is_datagram(listener) == (fl_cm_service(conn) == FL_IB_UD);
}

static void take_request(struct fl_cma *cma, const struct fl_cm_event *e)
{
    struct fl_cma_id *listener = e->owner, *id = NULL;
    struct fl_device *device = fl_cma_device_of(&fl_cm_route(e->conn)->local);
    uint16_t reason = !is_served(listener, e->conn) ? FL_CM_REJ_SERVICE_ID
                      : device                      ? FL_CM_REJ_NO_RESOURCES
                                                    : FL_CM_REJ_PRIMARY_GID;
    if (device && reason != FL_CM_REJ_SERVICE_ID) {
        if (!mtu_fits(cma, e->conn, device)) {
            fl_cm_conn_destroy(cma->cm, e->conn, cma->rnic->now);
            return;
        }
        id = new_request_id(listener, e->conn, device);
    }
    struct fl_cma_event *event = id ? fl_cma_event_new(id, RDMA_CM_EVENT_CONNECT_REQUEST, 0, e) : NULL;
    if (!event) {
        if (fl_cm_service(e->conn) != FL_IB_UD)
            fl_cm_reject(cma->cm, e->conn, reason, NULL, 0, NULL, 0, cma->rnic->now);
        else
            fl_cm_sidr_reply(cma->cm, e->conn, FL_CM_SIDR_UNSUPPORTED, 0, 0, NULL, 0, cma->rnic->now);
        fl_cm_conn_destroy(cma->cm, e->conn, cma->rnic->now);
        if (id)
            fl_cma_id_free(id);
        return;
    }
    if (!fl_cma_is_datagram(id)) {
        fill_param(&event->event.param.conn, fl_cm_peer(e->conn));
        set_peer_ece(id);
    }
    event->event.listen_id = &listener->id;
    event->counts_at = (struct fl_cma_id *)listener;
    event->device = device;
    fl_cma_push(listener->channel, event);
}

static void take_response(const struct fl_cm_event *e)
{
    struct fl_cma_id *id = e->owner;
    struct fl_cma_event *event = fl_cma_event_new(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, e);
    set_peer_ece(id);
    fl_cma_watch(id, false);
    if (!event)
        return;
    fill_param(&event->event.param.conn, fl_cm_peer(e->conn));
    fl_cma_push(id->channel, event);
}

static void take_sidr_response(const struct fl_cm_event *e)
{
    struct fl_cma_id *id = e->owner;
    bool ok = e->sidr_status == FL_CM_SIDR_OK;
    struct fl_cma_event *event = fl_cma_event_new(
        id, ok ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_UNREACHABLE, e->sidr_status, e);
    if (!event)
        return;
    if (ok) {
        struct rdma_ud_param *ud = &event->event.param.ud;
        ud->qp_num = e->qpn;
        ud->qkey = e->qkey;
        ud->ah_attr = (struct ibv_ah_attr){
            .is_global = 1,
            .port_num = 1,
            .grh = {.flow_label = id->route.flow_label,
                    .sgid_index = (uint8_t)FL_MAX(fl_device_find_gid(id->device, &id->route.local), 0),
                    .hop_limit = id->route.hop_limit,
                    .traffic_class = id->route.traffic_class}};
        memcpy(&ud->ah_attr.grh.dgid, &id->route.remote, sizeof(ud->ah_attr.grh.dgid));
    }
    fl_cma_push(id->channel, event);
}

void fl_cma_dispatch(struct fl_cma *cma, const struct fl_cm_event *e)
{
    struct fl_cma_id *id = e->owner;
    switch (e->kind) {
    case FL_CM_CONNECT_REQUEST:
    case FL_CM_SIDR_REQUEST:
        take_request(cma, e);
        break;
    case FL_CM_CONNECT_RESPONSE:
        take_response(e);
        break;
    case FL_CM_SIDR_RESPONSE:
        take_sidr_response(e);
        break;
    case FL_CM_ESTABLISHED:
        fl_cma_connected(id);
        fl_cma_tell(id, RDMA_CM_EVENT_ESTABLISHED, 0, e);
        break;
    case FL_CM_REJECTED:
        fl_cma_parted(id);
        FL_DEBUG("%s: the connection was rejected: reason %u",
                 id->id.verbs ? id->id.verbs->device->name : "?", e->reason);
        fl_cma_tell(id, RDMA_CM_EVENT_REJECTED, e->reason, e);
        break;
    case FL_CM_UNREACHABLE:
        fl_cma_parted(id);
        fl_cma_tell(id, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, NULL);
        break;
    case FL_CM_DISCONNECTED:
        fl_cma_parted(id);
        fl_cma_disconnected(id, e);
        break;
    case FL_CM_TIMEWAIT_EXIT:
        fl_cma_leaving_tell(id);
        fl_cma_tell(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, NULL);
        break;
    }
}
