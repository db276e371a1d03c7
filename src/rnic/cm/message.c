/* SPDX-License-Identifier: Apache-2.0 */
/* Messages made of connections, and connections of messages. */
#include "rnic/cm/parts.h"
#include "wire/ib.h"

/*
 * What farlane peers agree on: two bytes of mark, two of enum fl_cm_feature. In a REQ, which goes to anybody,
 * in bytes 24 to 27, which are reserved. In a REP, which carries it only to a peer whose REQ did, in the
 * Q_Key, which only reliable datagrams use. Not in the vendor ID and attribute modifier: those are the
 * program's (ece_vendor, ece_options), and a foreign program would hand ours to its hardware.
 */
#define MARK 0x464cu

static be32 agreement_of(uint16_t features)
{
    return be32_of(features ? MARK << 16 | features : 0);
}

static uint16_t agreement_get(be32 word)
{
    uint32_t v = be32_get(word);
    return v >> 16 == MARK ? (uint16_t)v : 0;
}

static void put_private(struct fl_cm_mad *mad, size_t at, const void *data, size_t len)
{
    size_t room;
    uint8_t *to = fl_cm_private(mad, &room);
    if (len)
        memcpy(to + at, data, len);
}

/* Where the program's private data begins in a request: behind the IP header, if there is one. */
static size_t put_ip(struct fl_cm_mad *mad, const struct fl_cm_conn *conn)
{
    uint8_t space;
    uint16_t port;
    size_t room;
    if (!fl_cm_service_id_parse(conn->service_id, &space, &port))
        return 0;
    const struct in6_addr *src = &conn->route.local, *dst = &conn->route.remote;
    struct fl_cm_ip_hdr *ip = (struct fl_cm_ip_hdr *)fl_cm_private(mad, &room);
    if (IN6_IS_ADDR_V4MAPPED(dst))
        fl_cm_ip_set(ip, 4, conn->src_port, &src->s6_addr[12], &dst->s6_addr[12]);
    else
        fl_cm_ip_set(ip, 6, conn->src_port, src, dst);
    return sizeof(*ip);
}

/* Linux answers a REQ that comes again while it waits for the RTU with nothing, and sends a REP that was lost
 * again only after the time that we ask for: 2.1 s. */
#define REP_AGAIN 19

void fl_cm_build_req(const struct fl_cm *cm, struct fl_cm_conn *conn, const void *private_data,
                     size_t private_len)
{
    struct fl_cm_mad *mad = &conn->out;
    struct fl_cm_req *req = &mad->req;
    const struct fl_cm_route *route = &conn->route;
    const struct fl_cm_terms *terms = &conn->local;
    fl_cm_init(mad, FL_CM_REQ, conn->tid);
    mad->hdr.attr_mod = be32_of(terms->ece_options);
    req->local_id = be32_of(conn->local_id);
    be24 vendor = be24_of(terms->ece_vendor);
    memcpy(&req->rsvd4[1], &vendor, sizeof(vendor));
    req->service_id = be64_of(conn->service_id);
    req->ca_guid = be64_of(cm->config.guid);
    be32 agreement = agreement_of(terms->features);
    memcpy(req->rsvd24, &agreement, sizeof(agreement));
    req->qpn = be24_of(terms->qpn);
    req->responder_resources = terms->responder_resources;
    req->initiator_depth = terms->initiator_depth;
    fl_cm_req_remote_timeout_set(req, cm->config.response_timeout);
    fl_cm_req_service_set(req, conn->service);
    fl_cm_req_flow_control_set(req, terms->flow_control);
    req->psn = be24_of(terms->psn);
    fl_cm_req_local_timeout_set(req, FL_MIN(cm->config.response_timeout, REP_AGAIN));
    fl_cm_req_retry_count_set(req, terms->retry_count);
    req->pkey = be16_of(route->pkey);
    fl_cm_req_mtu_set(req, route->mtu);
    fl_cm_req_rnr_retry_count_set(req, terms->rnr_retry_count);
    fl_cm_req_max_cm_retries_set(req, cm->config.retries);
    fl_cm_req_srq_set(req, terms->srq);
    req->primary.local_lid = req->primary.remote_lid = be16_of(0xffff); /* permissive: Ethernet has none */
    memcpy(req->primary.local_gid, &route->local, 16);
    memcpy(req->primary.remote_gid, &route->remote, 16);
    fl_cm_path_flow_rate_set(&req->primary, route->flow_label, 0);
    req->primary.traffic_class = route->traffic_class;
    req->primary.hop_limit = route->hop_limit;
    fl_cm_path_ack_timeout_set(&req->primary, route->ack_timeout);
    put_private(mad, put_ip(mad, conn), private_data, private_len);
}

void fl_cm_build_rep(const struct fl_cm *cm, struct fl_cm_conn *conn, const void *private_data,
                     size_t private_len)
{
    struct fl_cm_mad *mad = &conn->out;
    struct fl_cm_rep *rep = &mad->rep;
    const struct fl_cm_terms *terms = &conn->local;
    fl_cm_init(mad, FL_CM_REP, conn->tid);
    mad->hdr.attr_mod = be32_of(terms->ece_options);
    rep->local_id = be32_of(conn->local_id);
    rep->remote_id = be32_of(conn->remote_id);
    rep->qkey = agreement_of(terms->features);
    rep->qpn = be24_of(terms->qpn);
    rep->psn = be24_of(terms->psn);
    rep->rsvd15 = (uint8_t)(terms->ece_vendor >> 16);
    rep->rsvd19 = (uint8_t)(terms->ece_vendor >> 8);
    rep->rsvd23 = (uint8_t)terms->ece_vendor;
    rep->responder_resources = terms->responder_resources;
    rep->initiator_depth = terms->initiator_depth;
    fl_cm_rep_ack_delay_set(rep, cm->config.ack_delay);
    fl_cm_rep_flow_control_set(rep, terms->flow_control);
    fl_cm_rep_rnr_retry_count_set(rep, terms->rnr_retry_count);
    fl_cm_rep_srq_set(rep, terms->srq);
    rep->ca_guid = be64_of(cm->config.guid);
    put_private(mad, 0, private_data, private_len);
}

void fl_cm_build_rtu(struct fl_cm_conn *conn, const void *private_data, size_t private_len)
{
    fl_cm_init(&conn->answer, FL_CM_RTU, conn->tid);
    conn->answer.rtu.local_id = be32_of(conn->local_id);
    conn->answer.rtu.remote_id = be32_of(conn->remote_id);
    put_private(&conn->answer, 0, private_data, private_len);
}

void fl_cm_build_mra(const struct fl_cm_conn *conn, struct fl_cm_mad *mad)
{
    fl_cm_init(mad, FL_CM_MRA, conn->tid);
    mad->mra.local_id = be32_of(conn->local_id);
    mad->mra.remote_id = be32_of(conn->remote_id);
    fl_cm_mra_about_set(&mad->mra, conn->passive ? FL_CM_ABOUT_REQ : FL_CM_ABOUT_REP);
    fl_cm_mra_timeout_set(&mad->mra, conn->service_timeout);
}

void fl_cm_build_rej(const struct fl_cm *cm, struct fl_cm_conn *conn, uint16_t reason, const void *ari,
                     size_t ari_len, const void *private_data, size_t private_len)
{
    struct fl_cm_rej *rej = &conn->answer.rej;
    be64 guid = be64_of(cm->config.guid);
    fl_cm_init(&conn->answer, FL_CM_REJ, conn->tid);
    rej->remote_id = be32_of(conn->remote_id);
    enum fl_cm_about about = FL_CM_ABOUT_OTHER;
    if (conn->state == FL_CM_REQ_RCVD)
        about = FL_CM_ABOUT_REQ;
    else if (conn->state == FL_CM_REP_RCVD)
        about = FL_CM_ABOUT_REP;
    /* Who rejects a request at once never had an ID (12.6.7); after an MRA the peer knows it. */
    if (about != FL_CM_ABOUT_REQ || conn->mra_sent)
        rej->local_id = be32_of(conn->local_id);
    fl_cm_rej_about_set(rej, (uint8_t)about);
    rej->reason = be16_of(reason);
    if (reason == FL_CM_REJ_TIMEOUT) { /* the peer, whose ID is perhaps not known, finds it by this */
        ari = &guid;
        ari_len = sizeof(guid);
    }
    if (ari_len)
        memcpy(rej->ari, ari, ari_len);
    fl_cm_rej_ari_len_set(rej, (uint8_t)ari_len);
    put_private(&conn->answer, 0, private_data, private_len);
}

void fl_cm_build_dreq(struct fl_cm_conn *conn, const void *private_data, size_t private_len)
{
    fl_cm_init(&conn->out, FL_CM_DREQ, conn->own_tid); /* a transaction of ours, whoever connected */
    conn->out.dreq.local_id = be32_of(conn->local_id);
    conn->out.dreq.remote_id = be32_of(conn->remote_id);
    conn->out.dreq.remote_qpn = be24_of(conn->peer.qpn);
    put_private(&conn->out, 0, private_data, private_len);
}

void fl_cm_build_drep(struct fl_cm_conn *conn, uint64_t tid)
{
    fl_cm_init(&conn->answer, FL_CM_DREP, tid);
    conn->answer.drep.local_id = be32_of(conn->local_id);
    conn->answer.drep.remote_id = be32_of(conn->remote_id);
}

void fl_cm_build_sidr_req(struct fl_cm_conn *conn, const void *private_data, size_t private_len)
{
    fl_cm_init(&conn->out, FL_CM_SIDR_REQ, conn->tid);
    conn->out.sidr_req.request_id = be32_of(conn->local_id);
    conn->out.sidr_req.pkey = be16_of(conn->route.pkey);
    conn->out.sidr_req.service_id = be64_of(conn->service_id);
    put_private(&conn->out, put_ip(&conn->out, conn), private_data, private_len);
}

void fl_cm_build_sidr_rep(struct fl_cm_conn *conn, uint8_t status, uint32_t qpn, uint32_t qkey,
                          const void *private_data, size_t private_len)
{
    struct fl_cm_sidr_rep *rep = &conn->answer.sidr_rep;
    fl_cm_init(&conn->answer, FL_CM_SIDR_REP, conn->tid);
    rep->request_id = be32_of(conn->remote_id);
    rep->status = status;
    rep->qpn = be24_of(qpn);
    rep->service_id = be64_of(conn->service_id);
    rep->qkey = be32_of(qkey);
    put_private(&conn->answer, 0, private_data, private_len);
}

void fl_cm_take_req(struct fl_cm_conn *conn, const struct fl_cm_mad *mad, const struct fl_cm_meta *meta)
{
    const struct fl_cm_req *req = &mad->req;
    uint8_t ack_timeout = fl_cm_path_ack_timeout(&req->primary);
    be24 vendor;
    memcpy(&vendor, &req->rsvd4[1], sizeof(vendor));
    be32 agreement;
    memcpy(&agreement, req->rsvd24, sizeof(agreement));
    conn->remote_id = be32_get(req->local_id);
    conn->remote_guid = be64_get(req->ca_guid);
    conn->service_id = be64_get(req->service_id);
    conn->service = fl_cm_req_service(req);
    conn->route = (struct fl_cm_route){
        .local = meta->local,
        .remote = meta->remote,
        .scope_id = meta->scope_id,
        .flow_label = fl_cm_path_flow_label(&req->primary),
        .pkey = be16_get(req->pkey),
        .traffic_class = req->primary.traffic_class,
        .hop_limit = req->primary.hop_limit,
        .mtu = fl_cm_req_mtu(req),
        .ack_timeout = ack_timeout ? ack_timeout : FL_CM_ACK_TIMEOUT,
    };
    conn->peer = (struct fl_cm_terms){
        .qpn = be24_get(req->qpn),
        .psn = be24_get(req->psn),
        .responder_resources = req->initiator_depth,
        .initiator_depth = req->responder_resources,
        .retry_count = fl_cm_req_retry_count(req),
        .rnr_retry_count = fl_cm_req_rnr_retry_count(req),
        .flow_control = fl_cm_req_flow_control(req),
        .srq = fl_cm_req_srq(req),
        .features = agreement_get(agreement),
        .ece_vendor = be24_get(vendor),
        .ece_options = be32_get(mad->hdr.attr_mod),
    };
}

void fl_cm_take_rep(struct fl_cm_conn *conn, const struct fl_cm_mad *mad)
{
    const struct fl_cm_rep *rep = &mad->rep;
    conn->remote_id = be32_get(rep->local_id);
    conn->remote_guid = be64_get(rep->ca_guid);
    conn->peer_ack_delay = fl_cm_rep_ack_delay(rep);
    conn->peer = (struct fl_cm_terms){
        .qpn = be24_get(rep->qpn),
        .psn = be24_get(rep->psn),
        .responder_resources = FL_MIN(rep->initiator_depth, conn->local.responder_resources),
        .initiator_depth = FL_MIN(rep->responder_resources, conn->local.initiator_depth),
        .retry_count = conn->local.retry_count,
        .rnr_retry_count = fl_cm_rep_rnr_retry_count(rep),
        .flow_control = fl_cm_rep_flow_control(rep),
        .srq = fl_cm_rep_srq(rep),
        .features = agreement_get(rep->qkey) & conn->local.features,
        .ece_vendor = (uint32_t)rep->rsvd15 << 16 | (uint32_t)rep->rsvd19 << 8 | rep->rsvd23,
        .ece_options = be32_get(mad->hdr.attr_mod),
    };
}

static bool ip_is(const struct fl_cm_ip_hdr *ip, const uint8_t addr[16], const struct in6_addr *gid)
{
    static const uint8_t zeroes[12];
    if (ip->ip >> 4 == 6)
        return !memcmp(addr, gid, 16);
    return IN6_IS_ADDR_V4MAPPED(gid) && !memcmp(addr, zeroes, 12) && !memcmp(addr + 12, &gid->s6_addr[12], 4);
}

enum fl_cm_ip fl_cm_check_ip(uint64_t service_id, const void *private_data, size_t len,
                             const struct fl_cm_meta *meta, uint16_t *src_port)
{
    uint8_t space;
    uint16_t port;
    *src_port = 0;
    if (!fl_cm_service_id_parse(service_id, &space, &port))
        return FL_CM_IP_RIGHT;
    const struct fl_cm_ip_hdr *ip = fl_cm_ip_view(private_data, len);
    if (!ip)
        return FL_CM_IP_NONE;
    if (!ip_is(ip, ip->src, &meta->remote) || !ip_is(ip, ip->dst, &meta->local))
        return FL_CM_IP_FORGED;
    *src_port = be16_get(ip->src_port);
    return FL_CM_IP_RIGHT;
}
