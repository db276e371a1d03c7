/* SPDX-License-Identifier: Apache-2.0 */
/* The network of cm.h: it loses, repeats and holds back. */
#include "cm.h"
#include "wire/ib.h"

static void put_packet(struct world *w, int to, const struct fl_cm_tx *tx, uint64_t late)
{
    uint64_t delay = w->latency + below(w, w->latency) + late;
    if (chance(w, w->reorder))
        delay += below(w, 20 * w->latency);
    HOLDS(w, w->nr_packets < PACKETS_MAX, "more packets than a few connects can need");
    w->packets[w->nr_packets++] = (struct packet){
        .at = w->now + delay, .order = w->order++, .to = to, .tx = *tx};
}

void send_all(struct world *w, int from)
{
    struct fl_cm_tx tx;
    while (fl_cm_tx(w->hosts[from].cm, &tx)) {
        int to = tx.remote.s6_addr[15] - 1;
        HOLDS(w, to >= 0 && to < HOSTS, "a packet to nowhere");
        w->nr_sent++;
        bool lost = chance(w, w->drop) || w->now >= w->dead_at;
        note(w, "%d %s %d %s %08x %08x", from, lost ? "-x" : "->", to,
             fl_cm_attr_text(be16_get(tx.mad.hdr.attr_id)), be32_get(tx.mad.rep.local_id),
             be32_get(tx.mad.rep.remote_id));
        if (lost) {
            w->nr_dropped++;
            continue;
        }
        put_packet(w, to, &tx, 0);
        if (chance(w, w->repeat))
            put_packet(w, to, &tx, w->late ? below(w, w->late) : 0);
    }
}

int first_packet(const struct world *w)
{
    int first = -1;
    for (int i = 0; i < w->nr_packets; i++) {
        const struct packet *p = &w->packets[i], *f = &w->packets[FL_MAX(first, 0)];
        if (first < 0 || p->at < f->at || (p->at == f->at && p->order < f->order))
            first = i;
    }
    return first;
}

void deliver(struct world *w, int i)
{
    struct packet p = w->packets[i];
    w->packets[i] = w->packets[--w->nr_packets];
    struct fl_cm_meta meta = {.local = p.tx.remote, .remote = p.tx.local, .src_qpn = FL_IB_QP1};
    fl_cm_rx(w->hosts[p.to].cm, &meta, &p.tx.mad, sizeof(p.tx.mad), w->now);
}
