/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include <stdio.h>

#include "rnic/sim/sim.h"

#define HEAP_MAX 20000 /* packets on their way: no run needs that many */

uint64_t sim_draw(struct world *w)
{
    uint64_t z = w->rng += 0x9e3779b97f4a7c15ull; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static bool sooner(const struct packet *a, const struct packet *b)
{
    return a->at != b->at ? a->at < b->at : a->order < b->order;
}

static void swap(struct packet *a, struct packet *b)
{
    struct packet t = *a;
    *a = *b;
    *b = t;
}

static void push(struct world *w, struct packet packet)
{
    if (w->nr_heap == w->cap_heap) {
        w->cap_heap = w->cap_heap ? 2 * w->cap_heap : 256;
        w->heap = realloc(w->heap, w->cap_heap * sizeof(w->heap[0]));
        HOLDS(w, w->heap, "no memory");
    }
    size_t i = w->nr_heap++;
    w->heap[i] = packet;
    for (; i && sooner(&w->heap[i], &w->heap[(i - 1) / 2]); i = (i - 1) / 2)
        swap(&w->heap[i], &w->heap[(i - 1) / 2]);
    if (w->nr_heap > w->max_heap)
        w->max_heap = w->nr_heap;
}

static struct packet pop(struct world *w)
{
    struct packet top = w->heap[0];
    w->heap[0] = w->heap[--w->nr_heap];
    for (size_t i = 0;;) {
        size_t least = i;
        for (size_t k = 2 * i + 1; k <= 2 * i + 2; k++)
            if (k < w->nr_heap && sooner(&w->heap[k], &w->heap[least]))
                least = k;
        if (least == i)
            return top;
        swap(&w->heap[i], &w->heap[least]);
        i = least;
    }
}

static uint32_t icrc_of(const struct packet *p)
{
    struct fl_icrc_ip4 ip = {.src = be32_of(0x7f000001),
                             .dst = be32_of(0x7f000002),
                             .src_port = p->src_port,
                             .dst_port = FL_ROCE_PORT,
                             .id = p->id,
                             .df = true};
    return fl_icrc_rest(fl_icrc_ip4(&ip, p->len), p->bytes, p->len);
}

void net_pcap_begin(FILE *f)
{
    static const uint32_t header[6] = {0xa1b23c4d, 0x00040002, 0, 0, 65535, 101}; /* nanoseconds; raw IP */
    fwrite(header, sizeof(header), 1, f);
}

static void write_pcap(struct world *w, const struct packet *p)
{
    uint32_t len = 28 + p->len;
    uint32_t record[4] = {(uint32_t)(w->now / 1000000000), (uint32_t)(w->now % 1000000000), len, len};
    struct {
        uint8_t version, tos;
        be16 len, id, fragment;
        uint8_t ttl, protocol;
        be16 sum;
        be32 src, dst;
        be16 src_port, dst_port, udp_len, udp_sum;
    } ip = {.version = 0x45,
            .tos = 2,
            .len = be16_of((uint16_t)len),
            .id = be16_of(p->id),
            .fragment = be16_of(0x4000),
            .ttl = 64,
            .protocol = 17,
            .src = be32_of(0x7f000001),
            .dst = be32_of(0x7f000002),
            .src_port = be16_of(p->src_port),
            .dst_port = be16_of(FL_ROCE_PORT),
            .udp_len = be16_of((uint16_t)(8 + p->len))};
    uint32_t sum = 0;
    for (int i = 0; i < 10; i++)
        sum += be16_get(((const be16 *)&ip)[i]);
    sum = (sum & 0xffff) + (sum >> 16);
    ip.sum = be16_of((uint16_t) ~((sum & 0xffff) + (sum >> 16)));
    fwrite(record, sizeof(record), 1, w->pcap);
    fwrite(&ip, sizeof(ip), 1, w->pcap);
    fwrite(p->bytes, p->len, 1, w->pcap);
}

static void trace(struct world *w, const char *what, const struct packet *p)
{
    if (!w->trace)
        return;
    const struct fl_bth *bth = (const struct fl_bth *)p->bytes;
    fprintf(w->trace, "%12llu %-8s to %d: %s psn %06x len %u", (unsigned long long)w->now, what, p->to->id,
            fl_ib_opcodes[bth->opcode].name, be24_get(bth->psn), p->len);
    struct fl_ib_packet view;
    if (!fl_ib_packet_view(&view, p->bytes, p->len - FL_IB_ICRC_LEN) && fl_ib_aeth(&view))
        fprintf(w->trace, " (%s)", fl_aeth_text(fl_ib_aeth(&view)->syndrome));
    fprintf(w->trace, "\n");
}

static void schedule(struct world *w, struct packet packet)
{
    uint64_t at = w->now + w->latency + w->path_delay[packet.path] +
                  (w->jitter ? sim_draw(w) % w->jitter : 0);
    uint64_t *last = &w->last_at[packet.to->id][packet.path];
    if (chance(w, w->reorder)) {
        at += w->latency + sim_draw(w) % (20 * w->latency); /* others overtake it */
        w->nr_reordered++;
    } else {
        at = *last = at > *last ? at : *last;
    }
    if (at >= w->pause_at && at < w->pause_end) {
        at = w->pause_end;
        w->nr_paused++;
    }
    packet.at = at;
    packet.order = w->order++;
    push(w, packet);
}

/* A copy for itself, perhaps long after the answer */
static void schedule_late(struct world *w, struct packet packet)
{
    packet.at = w->now + w->latency + sim_draw(w) % (200 * w->latency);
    packet.order = w->order++;
    w->nr_late++;
    push(w, packet);
}

static struct packet copy_of(struct world *w, const struct packet *packet)
{
    struct packet copy = *packet;
    copy.bytes = malloc(packet->len);
    HOLDS(w, copy.bytes, "no memory");
    memcpy(copy.bytes, packet->bytes, packet->len);
    return copy;
}

void net_send(struct side *from, const struct fl_roce_tx *tx)
{
    struct world *w = from->world;
    HOLDS(w, w->nr_heap < HEAP_MAX, "%zu packets in flight", w->nr_heap);
    HOLDS(w, tx->path < w->nr_paths, "a packet takes path %u of %u", tx->path, w->nr_paths);
    struct packet p = {.to = from->peer,
                       .src_port = (uint16_t)(0xc000 + from->id * FL_ROCE_PATHS_MAX + tx->path),
                       .path = tx->path,
                       .id = (uint16_t)w->order,
                       .len = tx->len + FL_IB_ICRC_LEN};
    p.bytes = malloc(p.len);
    HOLDS(w, p.bytes, "no memory");
    uint32_t at = 0;
    for (int i = 0; i < tx->nr_iov; i++) {
        memcpy(p.bytes + at, tx->iov[i].iov_base, tx->iov[i].iov_len);
        at += (uint32_t)tx->iov[i].iov_len;
    }
    HOLDS(w, at == tx->len, "a packet of %u bytes says %u", at, tx->len);
    le32 icrc = le32_of(icrc_of(&p));
    memcpy(p.bytes + at, &icrc, sizeof(icrc));
    w->nr_packets++;
    if (w->pcap)
        write_pcap(w, &p);
    if (w->now >= w->dead_at || chance(w, w->drop)) {
        trace(w, "drop", &p);
        w->nr_dropped++;
        free(p.bytes);
        return;
    }
    trace(w, "send", &p);
    p.ce = chance(w, w->mark);
    w->nr_marked += p.ce;
    if (chance(w, w->repeat)) {
        w->nr_repeated++;
        (below(w, 3) ? schedule : schedule_late)(w, copy_of(w, &p));
    }
    if (chance(w, w->corrupt)) {
        w->nr_corrupted++;
        uint32_t bit = below(w, 8 * p.len);
        p.bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    schedule(w, p);
}

void net_deliver(struct world *w)
{
    struct packet p = pop(w);
    struct fl_ib_packet view;
    le32 icrc;
    memcpy(&icrc, p.bytes + p.len - FL_IB_ICRC_LEN, sizeof(icrc));
    /* A bit of the byte that the ICRC leaves out may have changed; the packet is right all the same. */
    if (le32_get(icrc) != icrc_of(&p)) {
        trace(w, "spoilt", &p);
    } else {
        trace(w, "arrive", &p);
        HOLDS(w, !fl_ib_packet_view(&view, p.bytes, p.len - FL_IB_ICRC_LEN), "a packet of ours is malformed");
        HOLDS(w, view.qpn == p.to->qp.cap.qpn, "a packet to queue pair %u comes to %u", view.qpn,
              p.to->qp.cap.qpn);
        struct fl_roce_meta meta = {.ce = p.ce};
        fl_roce_qp_rx(&p.to->qp, &view, &meta, w->now);
        p.to->pump_at = w->now + below(w, 3000);
    }
    free(p.bytes);
}

void net_fini(struct world *w)
{
    for (size_t i = 0; i < w->nr_heap; i++)
        free(w->heap[i].bytes);
    free(w->heap);
    w->heap = NULL;
    w->nr_heap = w->cap_heap = 0;
}
