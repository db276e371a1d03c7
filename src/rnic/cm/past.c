/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that are over, of which the network may still hold a copy. One that came for a new request would
 * be asked of the program once more; where its queue pair has another connection by now, it would end that
 * one as stale. What is kept of it are 24 bytes in one of a few places, by its hash: the one that ends first
 * gives way.
 */
#include "rnic/cm/parts.h"

#define WAYS 4

struct identity {
    const struct in6_addr *remote;
    uint64_t guid;
    uint32_t id, qpn, psn;
};

static uint64_t key_of(const struct fl_cm *cm, const struct identity *who)
{
    uint64_t addr[2];
    memcpy(addr, who->remote, sizeof(addr));
    uint64_t key = fl_cm_hash(cm, addr[0], addr[1]);
    key = fl_cm_hash(cm, key, who->guid);
    key = fl_cm_hash(cm, key, (uint64_t)who->qpn << 32 | who->psn);
    return fl_cm_hash(cm, key, who->id);
}

static uint64_t key_of_req(const struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_req *req)
{
    const struct identity who = {
        .remote = &meta->remote,
        .guid = be64_get(req->ca_guid),
        .id = be32_get(req->local_id),
        .qpn = be24_get(req->qpn),
        .psn = be24_get(req->psn),
    };
    return key_of(cm, &who);
}

/* The places where it may be, WAYS of them */
static struct fl_cm_past *places_of(const struct fl_cm *cm, uint64_t key)
{
    return &cm->past[key % (FL_CM_PAST_LEN / WAYS) * WAYS];
}

static struct fl_cm_past *find(const struct fl_cm *cm, uint64_t key)
{
    struct fl_cm_past *places = places_of(cm, key);
    for (int i = 0; i < WAYS; i++)
        if (places[i].key == key)
            return &places[i];
    return NULL;
}

static void put(struct fl_cm *cm, uint64_t key, uint16_t reason, uint64_t until)
{
    struct fl_cm_past *past = find(cm, key), *places = places_of(cm, key);
    if (!past) {
        past = places;
        for (int i = 1; i < WAYS; i++)
            if (places[i].until < past->until)
                past = &places[i];
    }
    *past = (struct fl_cm_past){.key = key, .until = until, .reason = reason};
}

void fl_cm_remember(struct fl_cm *cm, const struct fl_cm_conn *conn, uint64_t now)
{
    if (!conn->passive || conn->sidr)
        return;
    const struct identity who = {
        .remote = &conn->route.remote,
        .guid = conn->remote_guid,
        .id = conn->remote_id,
        .qpn = conn->peer.qpn,
        .psn = conn->peer.psn,
    };
    bool rejected = be16_get(conn->answer.hdr.attr_id) == FL_CM_REJ;
    put(cm, key_of(cm, &who), rejected ? be16_get(conn->answer.rej.reason) : 0, now + fl_cm_repeats_ns(conn));
}

void fl_cm_remember_rejected(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_req *req,
                             uint16_t reason, uint64_t now)
{
    uint64_t one = fl_cm_peer_code_ns(fl_cm_req_remote_timeout(req), FL_CM_PEER_CODE_MAX) +
                   fl_cm_peer_code_ns(fl_cm_path_ack_timeout(&req->primary), FL_CM_PEER_CODE_MAX);
    put(cm, key_of_req(cm, meta, req), reason, now + (fl_cm_req_max_cm_retries(req) + 2u) * one);
}

const struct fl_cm_past *fl_cm_find_past(const struct fl_cm *cm, const struct fl_cm_meta *meta,
                                         const struct fl_cm_req *req, uint64_t now)
{
    uint64_t key = key_of_req(cm, meta, req);
    const struct fl_cm_past *past = find(cm, key);
    return past && now < past->until ? past : NULL;
}
