/* SPDX-License-Identifier: Apache-2.0 */
/* Service ID resolution (12.11): which queue pair serves datagrams. One question, one answer. */
#include "rnic/cm/parts.h"

#include <errno.h>

#include "wire/ib.h"

int fl_cm_resolve(struct fl_cm *cm, const struct fl_cm_resolve *resolve, uint64_t now,
                  struct fl_cm_conn **out)
{
    struct fl_cm_conn *conn;
    int r = fl_cm_begin(cm, &resolve->route, resolve->service_id, resolve->src_port, resolve->private_data,
                        resolve->private_len, FL_CM_SIDR_REQ_PRIVATE_LEN, resolve->owner, &conn);
    if (r)
        return r;
    conn->sidr = true;
    conn->service = FL_IB_UD;
    fl_cm_build_sidr_req(conn, resolve->private_data, resolve->private_len);
    conn->state = FL_CM_SIDR_SENT;
    fl_cm_send_out(cm, conn, fl_cm_own_wait_ns(cm, conn), cm->config.retries, now);
    *out = conn;
    return 0;
}

void fl_cm_rx_sidr_rep(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad,
                       uint64_t now)
{
    struct fl_cm_conn *conn = fl_cm_named(cm, meta, mad->sidr_rep.request_id, true);
    if (!conn)
        return;
    if (conn->state != FL_CM_SIDR_SENT || be64_get(mad->sidr_rep.service_id) != conn->service_id) {
        cm->stats.nr_duplicates++;
        return;
    }
    fl_cm_send_nothing(conn);
    fl_cm_tell(cm, conn, FL_CM_SIDR_RESPONSE, mad);
    fl_cm_close(cm, conn);
}

static void take_again(struct fl_cm *cm, struct fl_cm_conn *conn)
{
    cm->stats.nr_duplicates++;
    if (conn->state == FL_CM_SIDR_REPLIED)
        fl_cm_send(cm, conn, FL_CM_TX_ANSWER);
}

void fl_cm_rx_sidr_req(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad,
                       uint64_t now)
{
    const struct fl_cm_sidr_req *req = &mad->sidr_req;
    uint64_t service_id = be64_get(req->service_id);
    uint16_t src_port;
    enum fl_cm_ip ip = fl_cm_check_ip(service_id, req->private_data, sizeof(req->private_data), meta,
                                      &src_port);
    if (ip == FL_CM_IP_FORGED) {
        cm->stats.nr_forged++;
        return;
    }
    if (ip == FL_CM_IP_NONE) {
        cm->stats.nr_malformed++;
        fl_cm_sidr_stranger(cm, meta, mad, FL_CM_SIDR_REJECT);
        return;
    }
    struct fl_cm_conn *conn = fl_cm_find_peer(cm, &meta->remote, be32_get(req->request_id), true);
    if (conn) {
        take_again(cm, conn);
        return;
    }
    int r = fl_cm_new_request(cm, meta, service_id, now, &conn);
    if (r) {
        if (r != -EAGAIN)
            fl_cm_sidr_stranger(cm, meta, mad, r == -ENOENT ? FL_CM_SIDR_UNSUPPORTED : FL_CM_SIDR_NO_QP);
        return;
    }
    conn->sidr = true;
    conn->service = FL_IB_UD;
    conn->remote_id = be32_get(req->request_id);
    conn->tid = be64_get(mad->hdr.tid);
    conn->service_id = service_id;
    conn->src_port = src_port;
    conn->route = (struct fl_cm_route){
        .local = meta->local,
        .remote = meta->remote,
        .scope_id = meta->scope_id,
        .pkey = be16_get(req->pkey),
        .traffic_class = meta->traffic_class,
        .hop_limit = 64,
    };
    conn->grant_ns = fl_cm_code_ns(cm->config.response_timeout);
    conn->retries = cm->config.retries;
    conn->state = FL_CM_SIDR_RCVD;
    fl_cm_link_peer(cm, conn);
    fl_cm_tell(cm, conn, FL_CM_SIDR_REQUEST, mad);
}

int fl_cm_sidr_reply(struct fl_cm *cm, struct fl_cm_conn *conn, enum fl_cm_sidr_status status, uint32_t qpn,
                     uint32_t qkey, const void *private_data, size_t private_len, uint64_t now)
{
    if (private_len > FL_CM_SIDR_REP_PRIVATE_LEN || (private_len && !private_data) || qpn >= 1u << 24 ||
        status > UINT8_MAX)
        return -EINVAL;
    if (conn->state != FL_CM_SIDR_RCVD)
        return -ENOTCONN;
    fl_cm_build_sidr_rep(conn, (uint8_t)status, qpn, qkey, private_data, private_len);
    fl_cm_send(cm, conn, FL_CM_TX_ANSWER);
    fl_cm_keep(cm, conn, FL_CM_SIDR_REPLIED, now);
    return 0;
}
