/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/shm/message.h"

/* The peer is as it was when its epoch was first seen. */
static bool still_open(const struct fl_shm_link *link, struct fl_shm_flow *flow, uint32_t qpn,
                       uint32_t dest_qpn, uint32_t psn)
{
    struct fl_shm_qp peer;
    if (!fl_shm_find(link->peer, dest_qpn, &peer) || !peer.takes || peer.dest_qpn != qpn)
        return false;
    if (fl_likely(flow->open))
        return peer.epoch == flow->peer_epoch;
    if (!peer.epoch || peer.psn != psn)
        return false;
    flow->peer = fl_shm_grant_of(link->peer, dest_qpn);
    flow->peer_epoch = peer.epoch;
    flow->open = true;
    return true;
}

/* The rest after `granted`: it holds for all receives up to there. */
static void look_at_grant(struct fl_shm_flow *flow)
{
    const struct fl_shm_grant *peer = flow->peer;
    flow->granted = __atomic_load_n(&peer->granted, __ATOMIC_ACQUIRE);
    flow->max_len = __atomic_load_n(&peer->max_len, __ATOMIC_RELAXED);
    flow->lo = __atomic_load_n(&peer->lo, __ATOMIC_RELAXED);
    flow->hi = __atomic_load_n(&peer->hi, __ATOMIC_RELAXED);
}

static bool is_granted(struct fl_shm_flow *flow, uint32_t len)
{
    if ((int32_t)(flow->granted - flow->sent) <= 0)
        look_at_grant(flow);
    return (int32_t)(flow->granted - flow->sent) > 0 && len <= flow->max_len;
}

struct fl_shm_message *fl_shm_message_begin(struct fl_shm_link *link, struct fl_shm_flow *flow, uint32_t qpn,
                                            uint32_t dest_qpn, uint32_t psn, uint32_t len)
{
    struct fl_shm_message *m;
    if (len > FL_SHM_MESSAGE_MAX || !still_open(link, flow, qpn, dest_qpn, psn) || !is_granted(flow, len))
        return NULL;
    m = (struct fl_shm_message *)fl_hub_ring_reserve(&link->out, (uint32_t)sizeof(*m) + len,
                                                     FL_HUB_RING_MESSAGE);
    if (!m)
        return NULL;
    m->dest_qpn = dest_qpn;
    m->src_qpn = qpn;
    m->epoch = flow->peer_epoch;
    flow->sent++;
    return m;
}

void fl_shm_message_cancel(struct fl_shm_link *link, struct fl_shm_flow *flow, uint64_t at)
{
    link->out.at = at;
    flow->sent--;
}

bool fl_shm_message_all_taken(struct fl_shm_flow *flow)
{
    if (flow->taken != flow->sent && flow->peer)
        flow->taken = __atomic_load_n(&flow->peer->taken, __ATOMIC_ACQUIRE);
    return flow->taken == flow->sent;
}
