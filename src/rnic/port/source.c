/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets that packets leave by: one for each source address, TOS and source port, unconnected, and for a
 * few flows that most packets go by a connected one beside it (twin.c), which costs less.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/util.h"
#include "rnic/port/tx.h"

static bool is_source(const struct source *s, const struct fl_port_flow *flow, uint8_t tos)
{
    return s->slot == flow->entropy % PORTS && s->tos == tos && s->scope_id == flow->scope_id &&
           !memcmp(&s->sgid, &flow->sgid, sizeof(s->sgid));
}

static struct source *add_source(struct fl_udp_tx *tx, const struct fl_port_flow *flow, uint8_t tos)
{
    struct source *s = &tx->sources[tx->nr_sources];
    *s = (struct source){.slot = (uint8_t)(flow->entropy % PORTS),
                         .tos = tos,
                         .sgid = flow->sgid,
                         .scope_id = flow->scope_id,
                         .bound = true};
    s->fd = fl_udp_source(&flow->sgid, flow->scope_id, tos, &s->port);
    if (s->fd < 0)
        return NULL;
    tx->nr_sources++;
    return s;
}

/* There is no descriptor for another one: better with another's port and TOS than not at all. */
static struct source *spare_source(struct fl_udp_tx *tx, const struct fl_port_flow *flow)
{
    for (struct source *s = tx->sources; s < tx->sources + tx->nr_sources; s++) {
        if (s->scope_id == flow->scope_id && !memcmp(&s->sgid, &flow->sgid, sizeof(s->sgid)))
            return s;
    }
    return NULL;
}

struct source *fl_udp_tx_source(struct fl_udp_tx *tx, const struct fl_port_flow *flow, uint8_t tos)
{
    struct source *s = tx->last;
    if (s && is_source(s, flow, tos))
        return s;
    for (s = tx->sources; s < tx->sources + tx->nr_sources; s++) {
        if (is_source(s, flow, tos))
            return tx->last = s;
    }
    s = tx->nr_sources < SOURCES ? add_source(tx, flow, tos) : NULL;
    if (s)
        return tx->last = s;
    bool ip4 = fl_udp_is_ip4(&flow->dgid);
    s = &tx->any[ip4 ? 0 : 1];
    if (s->fd < 0)
        s->fd = fl_udp_source(ip4 ? &fl_udp_any_ip4 : &in6addr_any, 0, 0, &s->port);
    return s->fd < 0 ? spare_source(tx, flow) : s;
}

void fl_udp_tx_watch(struct fl_udp_tx *tx, struct source *s, bool on)
{
    struct epoll_event event = {.events = EPOLLOUT, .data.u64 = tx->epoll_data};
    if (s->waits != on && epoll_ctl(tx->epoll_fd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, s->fd, &event) == 0)
        s->waits = on;
}

static bool is_queued(const struct fl_udp_tx *tx, const struct source *s)
{
    for (uint32_t i = tx->head; i != tx->tail; i++) {
        if (tx->queue[i % QUEUE].source == s)
            return true;
    }
    return false;
}

void fl_udp_tx_end_twin(struct fl_udp_tx *tx, struct source *twin)
{
    for (uint32_t i = tx->head; i != tx->tail; i++) {
        struct entry *e = &tx->queue[i % QUEUE];
        if (e->source != twin)
            continue;
        e->source = twin->plain;
        e->id = 0;
        fl_udp_tx_seal(tx, e);
    }
    fl_udp_tx_watch(tx, twin, false);
    close(twin->fd);
    *twin = (struct source){.fd = -1};
}

static struct source *add_twin(struct fl_udp_tx *tx, struct source *s, const struct fl_port_flow *flow)
{
    struct source *twin = tx->twins;
    for (struct source *t = tx->twins; t < tx->twins + TWINS; t++) {
        if (t->used_at < twin->used_at)
            twin = t;
    }
    if (twin->fd >= 0 && is_queued(tx, twin))
        return s;
    if (twin->fd >= 0)
        fl_udp_tx_end_twin(tx, twin);
    *twin = *s;
    twin->waits = false;
    twin->plain = s;
    twin->dgid = flow->dgid;
    twin->dport = fl_udp_tx_dport(tx, flow);
    twin->fd = fl_udp_twin(flow, s->tos, s->port, twin->dport, &twin->count);
    if (twin->fd < 0) {
        tx->nr_twins_lost = twin->fd == -EOPNOTSUPP ? TWINS_LOST : tx->nr_twins_lost + 1;
        *twin = (struct source){.fd = -1};
        return s;
    }
    twin->used_at = ++tx->twin_clock;
    return tx->last_twin = twin;
}

/* True: the flow's packets have been the most for a while. */
static bool is_elected(struct fl_udp_tx *tx, struct source *s, const struct fl_port_flow *flow)
{
    uint16_t dport = fl_udp_tx_dport(tx, flow);
    if (tx->candidate.source == s && tx->candidate.dport == dport &&
        IN6_ARE_ADDR_EQUAL(&tx->candidate.dgid, &flow->dgid))
        return ++tx->candidate.votes >= TWIN_VOTES;
    if (tx->candidate.votes) {
        tx->candidate.votes--;
        return false;
    }
    tx->candidate.source = s;
    tx->candidate.dgid = flow->dgid;
    tx->candidate.dport = dport;
    return false;
}

static bool is_twin(const struct fl_udp_tx *tx, const struct source *twin, const struct source *s,
                    const struct fl_port_flow *flow)
{
    return twin->plain == s && twin->dport == fl_udp_tx_dport(tx, flow) &&
           IN6_ARE_ADDR_EQUAL(&twin->dgid, &flow->dgid);
}

struct source *fl_udp_tx_twin(struct fl_udp_tx *tx, struct source *s, const struct fl_port_flow *flow)
{
    struct source *t = tx->last_twin;
    if (!t || !is_twin(tx, t, s, flow)) {
        for (t = tx->twins; t < tx->twins + TWINS && !is_twin(tx, t, s, flow); t++)
            ;
    }
    if (t < tx->twins + TWINS) {
        t->used_at = ++tx->twin_clock;
        return tx->last_twin = t;
    }
    if (!s->bound || tx->nr_twins_lost >= TWINS_LOST || !is_elected(tx, s, flow))
        return s;
    tx->candidate.votes = 0;
    return add_twin(tx, s, flow);
}
