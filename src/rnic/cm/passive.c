/* SPDX-License-Identifier: Apache-2.0 */
/* The side that is asked: who listens, REQ, and REP until it is answered. */
#include "rnic/cm/parts.h"

#include <errno.h>
#include <stdlib.h>

#include "wire/ib.h"

int fl_cm_listen(struct fl_cm *cm, uint64_t service_id, const struct in6_addr *addr, uint32_t backlog,
                 void *owner, struct fl_cm_listener **out)
{
    struct fl_cm_listener *other;
    if (!backlog)
        return -EINVAL;
    fl_list_for_each (other, &cm->listeners, link) {
        if (other->service_id == service_id && other->any == !addr &&
            (!addr || !memcmp(addr, &other->addr, sizeof(*addr))))
            return -EADDRINUSE;
    }
    struct fl_cm_listener *listener = calloc(1, sizeof(*listener));
    if (!listener)
        return -ENOMEM;
    fl_list_init(&listener->waiting);
    listener->service_id = service_id;
    listener->any = !addr;
    if (addr)
        listener->addr = *addr;
    listener->backlog = FL_MIN(backlog, FL_CM_BACKLOG_MAX);
    listener->owner = owner;
    fl_list_add_tail(&cm->listeners, &listener->link);
    *out = listener;
    return 0;
}

void fl_cm_await(struct fl_cm *cm, uint64_t service_id, uint64_t now)
{
    cm->awaited[cm->nr_awaited++ % FL_CM_AWAITED_MAX] = (struct fl_cm_awaited){service_id, now};
}

void fl_cm_listener_destroy(struct fl_cm *cm, struct fl_cm_listener *listener, uint64_t now)
{
    struct fl_cm_conn *conn, *next;
    fl_list_for_each_safe (conn, next, &listener->waiting, waiting) {
        fl_cm_leave_backlog(conn);
        if (conn->pending & (1u << FL_CM_CONNECT_REQUEST | 1u << FL_CM_SIDR_REQUEST))
            fl_cm_conn_destroy(cm, conn, now); /* nobody ever heard of it */
    }
    fl_cm_await(cm, listener->service_id, now);
    fl_list_del(&listener->link);
    free(listener);
}

/* The same, or the port of that number in another space: parameters of datagrams are often exchanged by a
 * connection before. */
static bool is_sibling(uint64_t a, uint64_t b)
{
    uint8_t space;
    uint16_t port_a, port_b;
    return a == b || (fl_cm_service_id_parse(a, &space, &port_a) &&
                      fl_cm_service_id_parse(b, &space, &port_b) && port_a == port_b);
}

static bool is_awaited(const struct fl_cm *cm, uint64_t service_id, uint64_t now)
{
    for (uint32_t i = 0; i < FL_MIN(cm->nr_awaited, FL_CM_AWAITED_MAX); i++)
        if (is_sibling(cm->awaited[i].service_id, service_id) && now - cm->awaited[i].at < FL_CM_AWAITED_NS)
            return true;
    return false;
}

int fl_cm_new_request(struct fl_cm *cm, const struct fl_cm_meta *meta, uint64_t service_id, uint64_t now,
                      struct fl_cm_conn **out)
{
    struct fl_cm_listener *listener = fl_cm_find_listener(cm, service_id, &meta->local);
    if (!listener && is_awaited(cm, service_id, now)) {
        cm->stats.nr_closed++;
        return -EAGAIN;
    }
    if (!listener) {
        cm->stats.nr_no_service++;
        return -ENOENT;
    }
    if (listener->nr_waiting == listener->backlog) {
        cm->stats.nr_backlog++;
        return -EAGAIN;
    }
    int r = fl_cm_conn_new(cm, out);
    if (r) {
        cm->stats.nr_no_resources++;
        return r;
    }
    struct fl_cm_conn *conn = *out;
    conn->passive = true;
    conn->owner = listener->owner;
    conn->listener = listener;
    conn->service_timeout = cm->config.service_timeout;
    listener->nr_waiting++;
    fl_list_add_tail(&listener->waiting, &conn->waiting);
    return 0;
}

/* The same connect again, which may be answered again */
static void take_req_again(struct fl_cm *cm, const struct fl_cm_meta *meta, struct fl_cm_conn *conn,
                           const struct fl_cm_mad *mad)
{
    const struct fl_cm_req *req = &mad->req;
    cm->stats.nr_duplicates++;
    if (!conn->passive || be24_get(req->qpn) != conn->peer.qpn || be24_get(req->psn) != conn->peer.psn ||
        be64_get(req->service_id) != conn->service_id || be64_get(req->ca_guid) != conn->remote_guid) {
        fl_cm_reject_stranger(cm, meta, mad, FL_CM_ABOUT_REQ, FL_CM_REJ_DUPLICATE_ID, NULL, 0);
        return;
    }
    switch (conn->state) {
    case FL_CM_REQ_RCVD:
        if (conn->mra_sent)
            fl_cm_send(cm, conn, FL_CM_TX_MRA);
        break;
    case FL_CM_REP_SENT:
        fl_cm_send(cm, conn, FL_CM_TX_OUT);
        break;
    case FL_CM_REJ_SENT:
        fl_cm_send(cm, conn, FL_CM_TX_ANSWER);
        break;
    case FL_CM_DREQ_SENT:
        if (!conn->confirmed) /* accepted and disconnected, and the peer has not even heard of the first */
            fl_cm_reject_stranger(cm, meta, mad, FL_CM_ABOUT_REQ, FL_CM_REJ_CONSUMER, NULL, 0);
        break;
    case FL_CM_TIMEWAIT:
        fl_cm_reject_stranger(cm, meta, mad, FL_CM_ABOUT_REQ, FL_CM_REJ_STALE, NULL, 0);
        break;
    default: /* late, and the peer knows more by now */
        break;
    }
}

/* 0 or the reason to reject it. */
static uint16_t judge_req(const struct fl_cm_req *req, const struct fl_cm_meta *meta)
{
    if (fl_cm_req_service(req) != FL_IB_RC && fl_cm_req_service(req) != FL_IB_UC)
        return FL_CM_REJ_TRANSPORT;
    if (memcmp(req->primary.remote_gid, &meta->local, 16))
        return FL_CM_REJ_PRIMARY_GID;
    if (fl_cm_req_mtu(req) < 1 || fl_cm_req_mtu(req) > 5)
        return FL_CM_REJ_PATH_MTU;
    return 0;
}

/*
 * A new connect of a queue pair that has a connection: the peer has forgotten that one. What was not accepted
 * yet left nothing behind, and what ends is no connection any more: the new one takes its place.
 */
static bool is_stale(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_req *req,
                     uint64_t now)
{
    struct fl_cm_conn *old = fl_cm_find_qpn(cm, &meta->remote, be64_get(req->ca_guid), be24_get(req->qpn));
    if (!old)
        return false;
    bool blocks = fl_cm_blocks(old);
    fl_cm_end_stale(cm, old, now);
    return blocks;
}

/* It must not be taken for a new one later, when the queue pair has a connection that it would end. */
static void reject_unmade(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad,
                          uint16_t reason, uint64_t now)
{
    fl_cm_reject_stranger(cm, meta, mad, FL_CM_ABOUT_REQ, reason, NULL, 0);
    fl_cm_remember_rejected(cm, meta, &mad->req, reason, now);
}

static uint16_t reason_of(int error)
{
    return error == -ENOENT ? FL_CM_REJ_SERVICE_ID : FL_CM_REJ_NO_RESOURCES;
}

void fl_cm_rx_req(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad, uint64_t now)
{
    const struct fl_cm_req *req = &mad->req;
    uint64_t service_id = be64_get(req->service_id);
    uint16_t src_port;
    struct fl_cm_conn *conn;
    if (be24_get(req->qpn) <= FL_IB_QP1) {
        cm->stats.nr_malformed++;
        return;
    }
    enum fl_cm_ip ip = fl_cm_check_ip(service_id, req->private_data, sizeof(req->private_data), meta,
                                      &src_port);
    if (ip == FL_CM_IP_FORGED || memcmp(req->primary.local_gid, &meta->remote, 16)) {
        cm->stats.nr_forged++;
        return;
    }
    conn = fl_cm_find_peer(cm, &meta->remote, be32_get(req->local_id), false);
    if (conn) {
        take_req_again(cm, meta, conn, mad);
        return;
    }
    const struct fl_cm_past *past = fl_cm_find_past(cm, meta, req, now);
    if (past) {
        cm->stats.nr_duplicates++;
        if (past->reason)
            fl_cm_reject_stranger(cm, meta, mad, FL_CM_ABOUT_REQ, past->reason, NULL, 0);
        return;
    }
    uint16_t reason = ip == FL_CM_IP_NONE ? FL_CM_REJ_UNSUPPORTED : judge_req(req, meta);
    if (reason) {
        cm->stats.nr_malformed++;
        fl_cm_reject_stranger(cm, meta, mad, FL_CM_ABOUT_REQ, reason, NULL, 0);
        return;
    }
    if (is_stale(cm, meta, req, now)) {
        reject_unmade(cm, meta, mad, FL_CM_REJ_STALE, now);
        return;
    }
    int r = fl_cm_new_request(cm, meta, service_id, now, &conn);
    if (r) {
        if (r != -EAGAIN)
            reject_unmade(cm, meta, mad, reason_of(r), now);
        return;
    }
    fl_cm_take_req(conn, mad, meta);
    conn->src_port = src_port;
    conn->tid = be64_get(mad->hdr.tid);
    conn->state = FL_CM_REQ_RCVD;
    conn->grant_ns = fl_cm_peer_code_ns(fl_cm_req_remote_timeout(req), FL_CM_PEER_CODE_MAX);
    conn->wait_ns = fl_cm_peer_code_ns(fl_cm_req_local_timeout(req), FL_CM_PEER_CODE_MAX) +
                    fl_cm_peer_code_ns(conn->route.ack_timeout, FL_CM_PEER_CODE_MAX);
    conn->retries = fl_cm_req_max_cm_retries(req);
    fl_cm_link_peer(cm, conn);
    fl_cm_link_qpn(cm, conn);
    fl_cm_set_deadline(cm, conn, now + conn->grant_ns / 2);
    fl_cm_tell(cm, conn, FL_CM_CONNECT_REQUEST, mad);
}

int fl_cm_accept(struct fl_cm *cm, struct fl_cm_conn *conn, const struct fl_cm_terms *terms,
                 const void *private_data, size_t private_len, uint64_t now)
{
    if (!fl_cm_is_terms_valid(terms) || private_len > FL_CM_REP_PRIVATE_LEN || (private_len && !private_data))
        return -EINVAL;
    if (conn->state != FL_CM_REQ_RCVD)
        return -ENOTCONN;
    fl_cm_leave_backlog(conn);
    fl_cm_send_nothing(conn);
    conn->local = *terms;
    conn->local.features &= conn->peer.features;
    fl_cm_build_rep(cm, conn, private_data, private_len);
    conn->state = FL_CM_REP_SENT;
    fl_cm_send_out(cm, conn, conn->wait_ns, conn->retries, now);
    return 0;
}

static void become_established(struct fl_cm *cm, struct fl_cm_conn *conn, const struct fl_cm_mad *mad)
{
    fl_cm_send_nothing(conn);
    fl_cm_set_deadline(cm, conn, FL_CM_NEVER);
    conn->state = FL_CM_UP;
    conn->was_connected = conn->confirmed = true;
    fl_cm_tell(cm, conn, FL_CM_ESTABLISHED, mad);
}

int fl_cm_established(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now)
{
    if (conn->state != FL_CM_REP_SENT)
        return -ENOTCONN;
    become_established(cm, conn, NULL);
    return 0;
}

void fl_cm_rx_rtu(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad, uint64_t now)
{
    struct fl_cm_conn *conn = fl_cm_find_id(cm, be32_get(mad->rtu.remote_id));
    if (!conn || conn->sidr) { /* of one that is over; or the peer knocks */
        cm->stats.nr_unknown++;
        fl_cm_reject_stranger(cm, meta, mad, FL_CM_ABOUT_OTHER, FL_CM_REJ_COMM_ID, NULL, 0);
        return;
    }
    conn = fl_cm_named(cm, meta, mad->rtu.remote_id, false);
    if (!conn)
        return;
    if (be32_get(mad->rtu.local_id) != conn->remote_id) {
        cm->stats.nr_unknown++;
        return;
    }
    if (conn->state == FL_CM_REP_SENT) {
        become_established(cm, conn, mad);
        return;
    }
    cm->stats.nr_duplicates++;
    if (conn->state == FL_CM_REJ_SENT &&
        conn->passive) /* given up meanwhile; the peer believes it is connected */
        fl_cm_send(cm, conn, FL_CM_TX_ANSWER);
}
