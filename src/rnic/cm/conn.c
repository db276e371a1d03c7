/* SPDX-License-Identifier: Apache-2.0 */
/* Steps that all machines take: sending until answered, telling the owner, being over. */
#include "rnic/cm/parts.h"

#include <assert.h>
#include <errno.h>

uint64_t fl_cm_peer_code_ns(uint8_t code, uint8_t max)
{
    return fl_cm_code_ns(FL_MIN(FL_MAX(code, FL_CM_PEER_CODE_MIN), max));
}

void fl_cm_send(struct fl_cm *cm, struct fl_cm_conn *conn, uint8_t tx)
{
    conn->tx |= tx;
    if (!fl_list_linked(&conn->to_send))
        fl_list_add_tail(&cm->to_send, &conn->to_send);
}

void fl_cm_send_nothing(struct fl_cm_conn *conn)
{
    conn->tx = 0;
    fl_list_del(&conn->to_send);
}

/*
 * The first repeats come early, since what is lost is mostly one packet and not the peer; each waits twice as
 * long as the one before, up to the whole time that the peer has. A little of it is random, so that many who
 * began together and were turned away by a full backlog do not come back together.
 */
static void wait_for_answer(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now)
{
    uint64_t wait = conn->wait_ns >> (conn->nr_sent < 5 ? 5 - conn->nr_sent : 0);
    wait = FL_MAX(wait, 8u);
    fl_cm_set_deadline(cm, conn, now + wait - wait / 8 + fl_cm_draw(cm) % (wait / 4));
}

void fl_cm_send_out(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t wait_ns, uint8_t retries,
                    uint64_t now)
{
    conn->wait_ns = wait_ns;
    conn->retries = retries;
    conn->nr_sent = 1;
    conn->mra_rcvd = false;
    fl_cm_send(cm, conn, FL_CM_TX_OUT);
    wait_for_answer(cm, conn, now);
}

bool fl_cm_send_again(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now)
{
    if (conn->nr_sent > conn->retries) {
        cm->stats.nr_timeouts++;
        return false;
    }
    conn->nr_sent++;
    conn->mra_rcvd = false;
    cm->stats.nr_retries++;
    fl_cm_send(cm, conn, FL_CM_TX_OUT);
    wait_for_answer(cm, conn, now);
    return true;
}

void fl_cm_send_mra(struct fl_cm *cm, struct fl_cm_conn *conn)
{
    conn->mra_sent = true;
    fl_cm_send(cm, conn, FL_CM_TX_MRA);
}

/* Those that say how it ended have a place of their own: they may wait behind another. */
static bool is_end(enum fl_cm_event_kind kind)
{
    return kind == FL_CM_REJECTED || kind == FL_CM_UNREACHABLE || kind == FL_CM_DISCONNECTED ||
           kind == FL_CM_TIMEWAIT_EXIT;
}

void fl_cm_tell(struct fl_cm *cm, struct fl_cm_conn *conn, enum fl_cm_event_kind kind,
                const struct fl_cm_mad *mad)
{
    if (conn->orphan)
        return;
    struct fl_cm_mad *said = is_end(kind) ? &conn->said_end : &conn->said;
    if (mad)
        *said = *mad;
    else if (kind != FL_CM_TIMEWAIT_EXIT) /* which has no data, and may follow one that waits */
        memset(said, 0, sizeof(*said));
    conn->pending |= (uint16_t)(1u << kind);
    if (!fl_list_linked(&conn->with_events))
        fl_list_add_tail(&cm->with_events, &conn->with_events);
}

void fl_cm_tell_end(struct fl_cm *cm, struct fl_cm_conn *conn, enum fl_cm_event_kind kind,
                    const struct fl_cm_mad *mad)
{
    const uint16_t request = 1u << FL_CM_CONNECT_REQUEST | 1u << FL_CM_SIDR_REQUEST;
    if (conn->pending & request) { /* never heard of: nobody owns it */
        conn->orphan = true;
        conn->pending = 0;
        fl_list_del(&conn->with_events);
        return;
    }
    conn->pending &= (uint16_t) ~(1u << FL_CM_CONNECT_RESPONSE);
    fl_cm_tell(cm, conn, kind, mad);
}

void fl_cm_leave_backlog(struct fl_cm_conn *conn)
{
    if (!conn->listener)
        return;
    conn->listener->nr_waiting--;
    conn->listener = NULL;
    fl_list_del(&conn->waiting);
}

void fl_cm_close(struct fl_cm *cm, struct fl_cm_conn *conn)
{
    fl_cm_leave_backlog(conn);
    if (fl_list_linked(&conn->kept)) {
        fl_list_del(&conn->kept);
        cm->nr_kept--;
    }
    conn->state = FL_CM_CLOSED;
    if (conn->orphan && !conn->tx) {
        fl_cm_conn_free(cm, conn);
        return;
    }
    fl_list_del(&conn->by_id);
    fl_list_del(&conn->by_peer);
    fl_list_del(&conn->by_qpn);
    fl_cm_set_deadline(cm, conn, FL_CM_NEVER);
}

/* All of its repeats, of which an MRA has put off one, and some more for what the network holds back. */
uint64_t fl_cm_repeats_ns(const struct fl_cm_conn *conn)
{
    uint64_t one = conn->grant_ns + fl_cm_peer_code_ns(conn->route.ack_timeout, FL_CM_PEER_CODE_MAX);
    return (conn->retries + 2u) * one + (conn->mra_sent ? fl_cm_code_ns(conn->service_timeout) : 0);
}

void fl_cm_keep(struct fl_cm *cm, struct fl_cm_conn *conn, enum fl_cm_state state, uint64_t now)
{
    assert(!fl_list_linked(&conn->kept));
    fl_cm_leave_backlog(conn);
    fl_list_del(&conn->by_qpn);
    conn->state = state;
    fl_cm_set_deadline(cm, conn, now + fl_cm_repeats_ns(conn));
    fl_cm_remember(cm, conn, now); /* should it be kept for less, since there are too many */
    fl_list_add_tail(&cm->kept, &conn->kept);
    if (++cm->nr_kept > FL_CM_KEPT_MAX)
        fl_cm_close(cm, FL_LIST_FIRST(&cm->kept, struct fl_cm_conn, kept));
}

int fl_cm_delay(struct fl_cm *cm, struct fl_cm_conn *conn, uint8_t service_timeout, uint64_t now)
{
    if (service_timeout > 31)
        return -EINVAL;
    if (conn->state != FL_CM_REQ_RCVD && conn->state != FL_CM_REP_RCVD)
        return -ENOTCONN;
    if (service_timeout)
        conn->service_timeout = service_timeout;
    fl_cm_set_deadline(cm, conn, FL_CM_NEVER);
    fl_cm_send_mra(cm, conn);
    return 0;
}

void fl_cm_set_owner(struct fl_cm_conn *conn, void *owner)
{
    conn->owner = owner;
}

const struct fl_cm_route *fl_cm_route(const struct fl_cm_conn *conn)
{
    return &conn->route;
}

uint64_t fl_cm_conn_service_id(const struct fl_cm_conn *conn)
{
    return conn->service_id;
}

uint32_t fl_cm_local_id(const struct fl_cm_conn *conn)
{
    return conn->local_id;
}

uint32_t fl_cm_remote_id(const struct fl_cm_conn *conn)
{
    return conn->remote_id;
}

uint16_t fl_cm_src_port(const struct fl_cm_conn *conn)
{
    return conn->src_port;
}

uint8_t fl_cm_service(const struct fl_cm_conn *conn)
{
    return conn->service;
}

const struct fl_cm_terms *fl_cm_peer(const struct fl_cm_conn *conn)
{
    return &conn->peer;
}

uint8_t fl_cm_ack_timeout(const struct fl_cm_conn *conn)
{
    uint8_t own = conn->route.ack_timeout, delay = conn->peer_ack_delay;
    if (conn->passive || delay + 1 < own) /* less than half of it does not count */
        return own;
    uint8_t sum = FL_MAX(own, delay) + 1;
    return FL_MIN(sum, 31);
}
