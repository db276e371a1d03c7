/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/cm/parts.h"

#include <errno.h>
#include <stdlib.h>

static struct fl_list *id_chain(const struct fl_cm *cm, uint32_t id)
{
    return &cm->by_id[fl_cm_hash(cm, id, 0) & cm->hash_mask];
}

static uint64_t hash_addr(const struct fl_cm *cm, const struct in6_addr *addr, uint32_t number)
{
    uint64_t words[2];
    memcpy(words, addr, sizeof(words));
    return fl_cm_hash(cm, fl_cm_hash(cm, words[0], words[1]), number);
}

static struct fl_list *peer_chain(const struct fl_cm *cm, const struct in6_addr *remote, uint32_t remote_id)
{
    return &cm->by_peer[hash_addr(cm, remote, remote_id) & cm->hash_mask];
}

static struct fl_list *qpn_chain(const struct fl_cm *cm, const struct in6_addr *remote, uint32_t qpn)
{
    return &cm->by_qpn[hash_addr(cm, remote, qpn) & cm->hash_mask];
}

static bool same_addr(const struct in6_addr *a, const struct in6_addr *b)
{
    return !memcmp(a, b, sizeof(*a));
}

int fl_cm_conn_new(struct fl_cm *cm, struct fl_cm_conn **out)
{
    if (cm->nr_conns >= cm->config.max_conns)
        return -ENOSPC;
    struct fl_cm_conn *conn = calloc(1, sizeof(*conn));
    if (!conn)
        return -ENOMEM;
    if (fl_timer_heap_set(&cm->timers, &conn->timer, FL_CM_NEVER)) {
        free(conn);
        return -ENOMEM;
    }
    struct fl_list *links[] = {&conn->to_send, &conn->with_events, &conn->kept,  &conn->waiting,
                               &conn->by_id,   &conn->by_peer,     &conn->by_qpn};
    for (size_t i = 0; i < FL_ARRAY_LEN(links); i++)
        fl_list_init(links[i]);
    fl_list_add_tail(&cm->conns, &conn->all);
    cm->nr_conns++;
    conn->local_id = fl_cm_new_id(cm);
    conn->own_tid = fl_cm_draw(cm) << 32 | conn->local_id;
    fl_list_add_head(id_chain(cm, conn->local_id), &conn->by_id);
    *out = conn;
    return 0;
}

void fl_cm_conn_free(struct fl_cm *cm, struct fl_cm_conn *conn)
{
    struct fl_list *links[] = {&conn->all,     &conn->to_send, &conn->with_events, &conn->kept,
                               &conn->waiting, &conn->by_id,   &conn->by_peer,     &conn->by_qpn};
    for (size_t i = 0; i < FL_ARRAY_LEN(links); i++)
        fl_list_del(links[i]);
    fl_timer_heap_remove(&cm->timers, &conn->timer);
    cm->nr_conns--;
    free(conn);
}

struct fl_cm_conn *fl_cm_find_id(const struct fl_cm *cm, uint32_t id)
{
    struct fl_cm_conn *conn;
    fl_list_for_each (conn, id_chain(cm, id), by_id)
        if (conn->local_id == id)
            return conn;
    return NULL;
}

struct fl_cm_conn *fl_cm_find_peer(const struct fl_cm *cm, const struct in6_addr *remote, uint32_t remote_id,
                                   bool sidr)
{
    struct fl_cm_conn *conn;
    fl_list_for_each (conn, peer_chain(cm, remote, remote_id), by_peer)
        if (conn->remote_id == remote_id && conn->sidr == sidr && same_addr(&conn->route.remote, remote))
            return conn;
    return NULL;
}

struct fl_cm_conn *fl_cm_find_qpn(const struct fl_cm *cm, const struct in6_addr *remote, uint64_t guid,
                                  uint32_t qpn)
{
    struct fl_cm_conn *conn;
    fl_list_for_each (conn, qpn_chain(cm, remote, qpn), by_qpn)
        if (conn->peer.qpn == qpn && conn->remote_guid == guid && same_addr(&conn->route.remote, remote))
            return conn;
    return NULL;
}

void fl_cm_link_peer(struct fl_cm *cm, struct fl_cm_conn *conn)
{
    fl_list_add_head(peer_chain(cm, &conn->route.remote, conn->remote_id), &conn->by_peer);
}

void fl_cm_link_qpn(struct fl_cm *cm, struct fl_cm_conn *conn)
{
    fl_list_add_head(qpn_chain(cm, &conn->route.remote, conn->peer.qpn), &conn->by_qpn);
}

enum { NO_MATCH, MATCHES_ALL, MATCHES_FAMILY, MATCHES };

static int match(const struct fl_cm_listener *listener, const struct in6_addr *local)
{
    static const struct in6_addr any4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};
    if (listener->any)
        return MATCHES_ALL;
    if (same_addr(&listener->addr, local))
        return MATCHES;
    if (IN6_IS_ADDR_V4MAPPED(local))
        return same_addr(&listener->addr, &any4) ? MATCHES_FAMILY : NO_MATCH;
    return IN6_IS_ADDR_UNSPECIFIED(&listener->addr) ? MATCHES_FAMILY : NO_MATCH;
}

struct fl_cm_listener *fl_cm_find_listener(const struct fl_cm *cm, uint64_t service_id,
                                           const struct in6_addr *local)
{
    struct fl_cm_listener *listener, *best = NULL;
    int best_match = NO_MATCH;
    fl_list_for_each (listener, &cm->listeners, link) {
        int m = listener->service_id == service_id ? match(listener, local) : NO_MATCH;
        if (m > best_match) {
            best = listener;
            best_match = m;
        }
    }
    return best;
}
