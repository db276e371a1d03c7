/* SPDX-License-Identifier: Apache-2.0 */
/* How connections end: rejected, not answered, disconnected, destroyed; and the time after. */
#include "rnic/cm/parts.h"

#include <errno.h>

void fl_cm_send_rej(struct fl_cm *cm, struct fl_cm_conn *conn, uint16_t reason, const void *ari,
                    size_t ari_len, const void *private_data, size_t private_len, uint64_t now)
{
    fl_cm_send_nothing(conn);
    fl_cm_build_rej(cm, conn, reason, ari, ari_len, private_data, private_len);
    fl_cm_send(cm, conn, FL_CM_TX_ANSWER);
    fl_cm_keep(cm, conn, FL_CM_REJ_SENT, now);
}

void fl_cm_send_dreq(struct fl_cm *cm, struct fl_cm_conn *conn, const void *private_data, size_t private_len,
                     uint64_t now)
{
    conn->tx &= (uint8_t)~FL_CM_TX_OUT; /* an RTU that waits still goes first */
    fl_cm_build_dreq(conn, private_data, private_len);
    conn->state = FL_CM_DREQ_SENT;
    conn->was_connected = true;
    uint64_t wait = conn->passive ? conn->wait_ns : fl_cm_own_wait_ns(cm, conn);
    fl_cm_send_out(cm, conn, wait, conn->passive ? conn->retries : cm->config.retries, now);
}

/*
 * Packets of the connection may still be on their way: its queue pair's number must not be used yet. That is
 * each side's own affair: the peer's may have a new connection, if the peer says so, and so is it with Linux.
 */
static void enter_timewait(struct fl_cm *cm, struct fl_cm_conn *conn, const struct fl_cm_mad *mad,
                           uint64_t now)
{
    conn->tx &= FL_CM_TX_ANSWER;
    if (!conn->tx)
        fl_list_del(&conn->to_send);
    conn->state = FL_CM_TIMEWAIT;
    fl_list_del(&conn->by_qpn);
    fl_cm_remember(cm, conn, now);
    fl_cm_set_deadline(cm, conn, now + fl_cm_peer_code_ns(fl_cm_ack_timeout(conn), FL_CM_TIMEWAIT_CODE_MAX));
    fl_cm_tell(cm, conn, FL_CM_DISCONNECTED, mad);
}

void fl_cm_timewait_over(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now)
{
    fl_cm_tell(cm, conn, FL_CM_TIMEWAIT_EXIT, NULL);
    if (!conn->passive || conn->confirmed) {
        fl_cm_close(cm, conn);
        return;
    }
    /* The peer may never have heard of our REP, and repeat its REQ. */
    fl_cm_build_rej(cm, conn, FL_CM_REJ_CONSUMER, NULL, 0, NULL, 0);
    fl_cm_keep(cm, conn, FL_CM_REJ_SENT, now);
}

static void answer_dreq(struct fl_cm *cm, struct fl_cm_conn *conn, const struct fl_cm_mad *mad)
{
    fl_cm_build_drep(conn, be64_get(mad->hdr.tid));
    fl_cm_send(cm, conn, FL_CM_TX_ANSWER);
}

/* What was being connected is over, by the peer's word. */
static void end(struct fl_cm *cm, struct fl_cm_conn *conn, uint16_t reason, const struct fl_cm_mad *mad,
                uint64_t now)
{
    fl_cm_send_nothing(conn);
    conn->reason = reason;
    fl_cm_tell_end(cm, conn, FL_CM_REJECTED, mad);
    if (conn->passive)
        fl_cm_keep(cm, conn, FL_CM_ENDED, now);
    else
        fl_cm_close(cm, conn);
}

void fl_cm_no_answer(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now)
{
    switch (conn->state) {
    case FL_CM_REQ_SENT:
    case FL_CM_REP_SENT:
        fl_cm_tell_end(cm, conn, FL_CM_UNREACHABLE, NULL);
        fl_cm_send_rej(cm, conn, FL_CM_REJ_TIMEOUT, NULL, 0, NULL, 0, now);
        break;
    case FL_CM_DREQ_SENT:
        conn->timed_out = true;
        enter_timewait(cm, conn, NULL, now);
        break;
    default: /* SIDR_SENT */
        fl_cm_tell(cm, conn, FL_CM_UNREACHABLE, NULL);
        fl_cm_close(cm, conn);
        break;
    }
}

void fl_cm_end_stale(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now)
{
    switch (conn->state) {
    case FL_CM_REQ_RCVD:
    case FL_CM_REP_SENT:
    case FL_CM_REP_RCVD:
        cm->stats.nr_stale++;
        conn->reason = FL_CM_REJ_STALE;
        fl_cm_tell_end(cm, conn, FL_CM_REJECTED, NULL);
        fl_cm_send_rej(cm, conn, FL_CM_REJ_STALE, NULL, 0, NULL, 0, now);
        break;
    case FL_CM_UP:
        cm->stats.nr_stale++;
        fl_cm_send_dreq(cm, conn, NULL, 0, now);
        break;
    case FL_CM_DREQ_SENT: /* says as much as a DREP, which may have been overtaken */
        enter_timewait(cm, conn, NULL, now);
        break;
    default: /* not among those that have a queue pair */
        break;
    }
}

int fl_cm_reject(struct fl_cm *cm, struct fl_cm_conn *conn, uint16_t reason, const void *ari, size_t ari_len,
                 const void *private_data, size_t private_len, uint64_t now)
{
    if (private_len > FL_CM_REJ_PRIVATE_LEN || (private_len && !private_data) ||
        ari_len > FL_CM_REJ_ARI_LEN || (ari_len && !ari))
        return -EINVAL;
    if (conn->state != FL_CM_REQ_RCVD && conn->state != FL_CM_REP_RCVD)
        return -ENOTCONN;
    fl_cm_send_rej(cm, conn, reason, ari, ari_len, private_data, private_len, now);
    return 0;
}

/* A REJ of a request that was never answered knows only our ID; one for a time-out perhaps not even that. */
static struct fl_cm_conn *find_rejected(struct fl_cm *cm, const struct fl_cm_meta *meta,
                                        const struct fl_cm_rej *rej)
{
    struct fl_cm_conn *conn;
    if (be16_get(rej->reason) == FL_CM_REJ_TIMEOUT && !be32_get(rej->remote_id)) {
        be64 guid;
        memcpy(&guid, rej->ari, sizeof(guid));
        conn = fl_cm_find_peer(cm, &meta->remote, be32_get(rej->local_id), false);
        if (conn && fl_cm_rej_ari_len(rej) >= sizeof(guid) && be64_get(guid) == conn->remote_guid &&
            !memcmp(&conn->route.local, &meta->local, sizeof(meta->local)))
            return conn;
        cm->stats.nr_unknown++;
        return NULL;
    }
    conn = fl_cm_named(cm, meta, rej->remote_id, false);
    if (conn && conn->state != FL_CM_REQ_SENT && be32_get(rej->local_id) != conn->remote_id) {
        cm->stats.nr_unknown++;
        return NULL;
    }
    return conn;
}

void fl_cm_rx_rej(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad, uint64_t now)
{
    struct fl_cm_conn *conn = find_rejected(cm, meta, &mad->rej);
    if (!conn)
        return;
    uint16_t reason = be16_get(mad->rej.reason);
    switch (conn->state) {
    case FL_CM_REQ_SENT:
    case FL_CM_REQ_RCVD:
    case FL_CM_REP_SENT:
    case FL_CM_REP_RCVD:
        end(cm, conn, reason, mad, now);
        break;
    case FL_CM_UP: /* the peer gave up before our RTU arrived, or knows nothing of us any more */
    case FL_CM_DREQ_SENT:
        conn->reason = reason;
        enter_timewait(cm, conn, NULL, now);
        break;
    default:
        cm->stats.nr_duplicates++;
        break;
    }
}

int fl_cm_disconnect(struct fl_cm *cm, struct fl_cm_conn *conn, const void *private_data, size_t private_len,
                     uint64_t now)
{
    if (private_len > FL_CM_DREQ_PRIVATE_LEN || (private_len && !private_data))
        return -EINVAL;
    if (conn->state == FL_CM_UP || conn->state == FL_CM_REP_SENT) {
        fl_cm_send_dreq(cm, conn, private_data, private_len, now);
        return 0;
    }
    return conn->state == FL_CM_DREQ_SENT || conn->state == FL_CM_TIMEWAIT || conn->was_connected ? 0
                                                                                                  : -ENOTCONN;
}

int fl_cm_knock(struct fl_cm *cm, struct fl_cm_conn *conn)
{
    if (conn->state != FL_CM_UP)
        return -ENOTCONN;
    fl_cm_send(cm, conn, conn->passive ? FL_CM_TX_OUT : FL_CM_TX_ANSWER); /* REP, RTU */
    return 0;
}

int fl_cm_lost(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now)
{
    if (conn->state != FL_CM_UP)
        return -ENOTCONN;
    conn->timed_out = true;
    enter_timewait(cm, conn, NULL, now);
    return 0;
}

void fl_cm_rx_dreq(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad, uint64_t now)
{
    const struct fl_cm_dreq *dreq = &mad->dreq;
    struct fl_cm_conn *conn = fl_cm_find_id(cm, be32_get(dreq->remote_id));
    bool known = conn && !conn->sidr;
    if (known && !fl_cm_named(cm, meta, dreq->remote_id, false))
        return;
    /* An answer to our REQ that overtook, or outlived, the REP: then the peer's ID is new to us. */
    bool instead_of_rep = known && conn->state == FL_CM_REQ_SENT;
    if (!known || (!instead_of_rep && be32_get(dreq->local_id) != conn->remote_id)) {
        cm->stats.nr_unknown++;
        fl_cm_drep_stranger(cm, meta, mad);
        return;
    }
    if (conn->local.qpn != be24_get(dreq->remote_qpn)) {
        cm->stats.nr_malformed++;
        return;
    }
    switch (conn->state) {
    case FL_CM_REQ_SENT:
        fl_cm_drep_stranger(cm, meta, mad);
        end(cm, conn, FL_CM_REJ_CONSUMER, mad, now);
        break;
    case FL_CM_REP_SENT: /* its RTU was lost */
        fl_cm_established(cm, conn, now);
        /* fall through */
    case FL_CM_UP:
    case FL_CM_DREQ_SENT:
        answer_dreq(cm, conn, mad);
        enter_timewait(cm, conn, mad, now);
        break;
    case FL_CM_REP_RCVD: /* before we were ready: it takes its REP back */
        answer_dreq(cm, conn, mad);
        conn->reason = FL_CM_REJ_CONSUMER;
        fl_cm_tell_end(cm, conn, FL_CM_REJECTED, mad);
        fl_cm_keep(cm, conn, FL_CM_ENDED, now);
        break;
    default:
        cm->stats.nr_duplicates++;
        fl_cm_drep_stranger(cm, meta, mad);
        break;
    }
}

void fl_cm_rx_drep(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad, uint64_t now)
{
    struct fl_cm_conn *conn = fl_cm_named(cm, meta, mad->drep.remote_id, false);
    if (!conn)
        return;
    if (conn->state != FL_CM_DREQ_SENT || be32_get(mad->drep.local_id) != conn->remote_id) {
        cm->stats.nr_duplicates++;
        return;
    }
    enter_timewait(cm, conn, mad, now);
}

void fl_cm_conn_destroy(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now)
{
    conn->orphan = true;
    conn->pending = 0;
    fl_list_del(&conn->with_events);
    switch (conn->state) {
    case FL_CM_REQ_SENT:
        fl_cm_send_rej(cm, conn, FL_CM_REJ_TIMEOUT, NULL, 0, NULL, 0, now);
        break;
    case FL_CM_REQ_RCVD:
    case FL_CM_REP_RCVD:
        fl_cm_send_rej(cm, conn, FL_CM_REJ_CONSUMER, NULL, 0, NULL, 0, now);
        break;
    case FL_CM_REP_SENT:
    case FL_CM_UP:
        fl_cm_send_dreq(cm, conn, NULL, 0, now);
        break;
    case FL_CM_SIDR_RCVD:
        fl_cm_sidr_reply(cm, conn, FL_CM_SIDR_REJECT, 0, 0, NULL, 0, now);
        break;
    case FL_CM_SIDR_SENT:
        fl_cm_send_nothing(conn);
        /* fall through */
    case FL_CM_CLOSED:
        fl_cm_close(cm, conn);
        break;
    case FL_CM_DREQ_SENT:
    case FL_CM_TIMEWAIT:
    case FL_CM_REJ_SENT:
    case FL_CM_SIDR_REPLIED:
    case FL_CM_ENDED:
        break; /* goes on, or is kept, for its time */
    }
}

void fl_cm_leave(struct fl_cm *cm, uint64_t now)
{
    /* Ending one may free another, that was kept long enough. */
    for (uint32_t n = cm->nr_conns; n && !fl_list_empty(&cm->conns); n--) {
        struct fl_cm_conn *conn = FL_LIST_FIRST(&cm->conns, struct fl_cm_conn, all);
        fl_list_del(&conn->all);
        fl_list_add_tail(&cm->conns, &conn->all);
        if (!conn->orphan)
            fl_cm_conn_destroy(cm, conn, now);
    }
}
