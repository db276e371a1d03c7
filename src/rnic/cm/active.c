/* SPDX-License-Identifier: Apache-2.0 */
/* The side that asks: REQ until it is answered, then RTU. */
#include "rnic/cm/parts.h"

#include <errno.h>

#include "wire/ib.h"

static bool is_route_valid(const struct fl_cm_route *route)
{
    return route->flow_label < 1u << 20 && route->ack_timeout < 32 &&
           !IN6_IS_ADDR_UNSPECIFIED(&route->local) && !IN6_IS_ADDR_UNSPECIFIED(&route->remote) &&
           IN6_IS_ADDR_V4MAPPED(&route->local) == IN6_IS_ADDR_V4MAPPED(&route->remote);
}

bool fl_cm_is_terms_valid(const struct fl_cm_terms *terms)
{
    return terms->qpn > FL_IB_QP1 && terms->qpn < 1u << 24 && terms->psn < 1u << 24 &&
           terms->retry_count < 8 && terms->rnr_retry_count < 8 && terms->ece_vendor < 1u << 24;
}

/* Common to REQ and SIDR_REQ */
int fl_cm_begin(struct fl_cm *cm, const struct fl_cm_route *route, uint64_t service_id, uint16_t src_port,
                const void *private_data, size_t private_len, size_t private_max, void *owner,
                struct fl_cm_conn **out)
{
    uint8_t space;
    uint16_t port;
    struct fl_cm_conn *conn;
    if (fl_cm_service_id_parse(service_id, &space, &port))
        private_max -= sizeof(struct fl_cm_ip_hdr);
    else
        src_port = 0;
    if (!is_route_valid(route) || private_len > private_max || (private_len && !private_data))
        return -EINVAL;
    int r = fl_cm_conn_new(cm, &conn);
    if (r)
        return r;
    conn->owner = owner;
    conn->service_id = service_id;
    conn->src_port = src_port;
    conn->route = *route;
    conn->route.pkey = route->pkey ? route->pkey : 0xffff;
    conn->route.hop_limit = route->hop_limit ? route->hop_limit : 64;
    conn->route.ack_timeout = route->ack_timeout ? route->ack_timeout : FL_CM_ACK_TIMEOUT;
    conn->tid = conn->own_tid;
    conn->grant_ns = fl_cm_code_ns(cm->config.response_timeout);
    conn->service_timeout = cm->config.service_timeout;
    *out = conn;
    return 0;
}

uint64_t fl_cm_own_wait_ns(const struct fl_cm *cm, const struct fl_cm_conn *conn)
{
    return fl_cm_code_ns(cm->config.response_timeout) + fl_cm_code_ns(conn->route.ack_timeout);
}

int fl_cm_connect(struct fl_cm *cm, const struct fl_cm_connect *connect, uint64_t now,
                  struct fl_cm_conn **out)
{
    struct fl_cm_conn *conn;
    if ((connect->service != FL_IB_RC && connect->service != FL_IB_UC) ||
        !fl_cm_is_terms_valid(&connect->terms) || connect->route.mtu < 1 || connect->route.mtu > 5)
        return -EINVAL;
    int r = fl_cm_begin(cm, &connect->route, connect->service_id, connect->src_port, connect->private_data,
                        connect->private_len, FL_CM_REQ_PRIVATE_LEN, connect->owner, &conn);
    if (r)
        return r;
    conn->service = connect->service;
    conn->local = connect->terms;
    fl_cm_build_req(cm, conn, connect->private_data, connect->private_len);
    conn->state = FL_CM_REQ_SENT;
    fl_cm_send_out(cm, conn, fl_cm_own_wait_ns(cm, conn), cm->config.retries, now);
    *out = conn;
    return 0;
}

/* A REP that is not the first. */
static void take_rep_again(struct fl_cm *cm, struct fl_cm_conn *conn, const struct fl_cm_mad *mad)
{
    if (conn->passive || be32_get(mad->rep.local_id) != conn->remote_id) {
        if (conn->state == FL_CM_REJ_SENT && !conn->passive) /* we gave up before the peer's ID was known */
            fl_cm_send(cm, conn, FL_CM_TX_ANSWER);
        else
            cm->stats.nr_unknown++;
        return;
    }
    cm->stats.nr_duplicates++;
    if (conn->state == FL_CM_REP_RCVD && conn->mra_sent)
        fl_cm_send(cm, conn, FL_CM_TX_MRA);
    else if (conn->state == FL_CM_UP || conn->state == FL_CM_REJ_SENT) /* RTU or REJ was lost */
        fl_cm_send(cm, conn, FL_CM_TX_ANSWER);
}

void fl_cm_rx_rep(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad, uint64_t now)
{
    const struct fl_cm_rep *rep = &mad->rep;
    struct fl_cm_conn *conn = fl_cm_find_id(cm, be32_get(rep->remote_id));
    if (!conn || conn->sidr) {
        cm->stats.nr_unknown++;
        fl_cm_reject_stranger(cm, meta, mad, FL_CM_ABOUT_REP, FL_CM_REJ_COMM_ID, NULL, 0);
        return;
    }
    conn = fl_cm_named(cm, meta, rep->remote_id, false);
    if (!conn)
        return;
    if (conn->state != FL_CM_REQ_SENT) {
        take_rep_again(cm, conn, mad);
        return;
    }
    if (be24_get(rep->qpn) <= FL_IB_QP1) {
        cm->stats.nr_malformed++;
        return;
    }
    fl_cm_send_nothing(conn);
    fl_cm_take_rep(conn, mad);
    struct fl_cm_conn *old = fl_cm_find_qpn(cm, &conn->route.remote, conn->remote_guid, conn->peer.qpn);
    if (old && fl_cm_blocks(old)) {
        conn->state = FL_CM_REP_RCVD;
        conn->reason = FL_CM_REJ_STALE;
        fl_cm_tell_end(cm, conn, FL_CM_REJECTED, NULL);
        fl_cm_send_rej(cm, conn, FL_CM_REJ_STALE, NULL, 0, NULL, 0, now);
        fl_cm_end_stale(cm, old, now);
        return;
    }
    if (old)
        fl_cm_end_stale(cm, old, now);
    fl_cm_link_peer(cm, conn);
    fl_cm_link_qpn(cm, conn);
    conn->state = FL_CM_REP_RCVD;
    fl_cm_set_deadline(cm, conn, now + conn->grant_ns / 2);
    fl_cm_tell(cm, conn, FL_CM_CONNECT_RESPONSE, mad);
}

int fl_cm_ready(struct fl_cm *cm, struct fl_cm_conn *conn, const void *private_data, size_t private_len,
                uint64_t now)
{
    if (private_len > FL_CM_RTU_PRIVATE_LEN || (private_len && !private_data))
        return -EINVAL;
    if (conn->state != FL_CM_REP_RCVD)
        return -ENOTCONN;
    fl_cm_send_nothing(conn);
    fl_cm_build_rtu(conn, private_data, private_len);
    fl_cm_send(cm, conn, FL_CM_TX_ANSWER);
    fl_cm_set_deadline(cm, conn, FL_CM_NEVER);
    conn->state = FL_CM_UP;
    conn->was_connected = true;
    return 0;
}

/* MRA (12.6.6): one counts for each time that the message was sent, so that the peer cannot keep us for ever.
 */
void fl_cm_rx_mra(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad, uint64_t now)
{
    struct fl_cm_conn *conn = fl_cm_named(cm, meta, mad->mra.remote_id, false);
    if (!conn)
        return;
    uint8_t about = fl_cm_mra_about(&mad->mra);
    bool of_req = conn->state == FL_CM_REQ_SENT && about == FL_CM_ABOUT_REQ;
    bool of_rep = conn->state == FL_CM_REP_SENT && about == FL_CM_ABOUT_REP &&
                  be32_get(mad->mra.local_id) == conn->remote_id;
    if ((!of_req && !of_rep) || conn->mra_rcvd) {
        cm->stats.nr_duplicates++;
        return;
    }
    conn->mra_rcvd = true;
    conn->tx &= (uint8_t)~FL_CM_TX_OUT;
    if (!conn->tx)
        fl_list_del(&conn->to_send);
    uint64_t wait = fl_cm_peer_code_ns(fl_cm_mra_timeout(&mad->mra), FL_CM_PEER_SERVICE_MAX);
    fl_cm_set_deadline(cm, conn,
                       now + wait + fl_cm_peer_code_ns(conn->route.ack_timeout, FL_CM_PEER_CODE_MAX));
}
