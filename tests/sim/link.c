/* SPDX-License-Identifier: Apache-2.0 */
#include "link.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define KEY 7

uint64_t link_draw(struct link *l)
{
    uint64_t z = l->a.rng += 0x9e3779b97f4a7c15ull; /* splitmix64 */
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static int open_range(struct fl_roce_qp *qp, uint32_t key, uint64_t addr, uint32_t len, int access,
                      void **ptr)
{
    struct link_end *e = qp->owner;
    assert(len && key == KEY && addr <= e->mem_len && len <= e->mem_len - addr);
    *ptr = e->mem + addr;
    return 0;
}

static int invalidate(struct fl_roce_qp *qp, uint32_t rkey, bool from_peer)
{
    return 0;
}

static void complete(struct fl_roce_qp *qp, const struct ibv_wc *wc, bool of_send, bool solicited)
{
    struct link_end *e = qp->owner;
    uint64_t *nr = of_send ? &e->nr_sends : &e->nr_recvs;
    assert(wc->wr_id == *nr); /* in order, each once */
    ++*nr;
    if (!of_send)
        e->last = *wc;
    if (wc->status != IBV_WC_SUCCESS && !e->nr_failed++)
        e->status = wc->status;
    if (e->link->done)
        e->link->done(e, wc, of_send);
}

static const struct fl_roce_ops ops = {
    .local = open_range,
    .remote = open_range,
    .invalidate = invalidate,
    .complete = complete,
};

static void make_end(struct link *l, struct link_end *e, const struct fl_roce_cap *cap,
                     const struct fl_roce_attr *attr, size_t mem_len)
{
    bool is_b = e == &l->b;
    struct fl_roce_cap c = *cap;
    struct fl_roce_attr at = *attr;
    e->link = l;
    e->peer = is_b ? &l->a : &l->b;
    e->mem_len = mem_len;
    e->mem = malloc(mem_len ? mem_len : 1);
    assert(e->mem);
    for (size_t i = 0; i < mem_len; i++)
        e->mem[i] = (uint8_t)((i >> 12) * 31 + i * 7 + is_b * 101);
    e->pump_at = FL_ROCE_NEVER;
    c.qpn = 0x11 + is_b;
    c.pool = &l->pool;
    at.dest_qpn = 0x12 - is_b;
    at.sq_psn = is_b ? 0xffff80 : 0xfffff0; /* both wrap */
    at.rq_psn = is_b ? 0xfffff0 : 0xffff80;
    int r = fl_roce_qp_init(&e->qp, &ops, &c, e);
    assert(!r);
    for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
        r = fl_roce_qp_modify(&e->qp, (enum ibv_qp_state)state, &at);
        assert(!r);
    }
}

struct link *link_new(const struct fl_roce_cap *cap, const struct fl_roce_attr *attr, size_t mem_len)
{
    struct link *l = calloc(1, sizeof(*l));
    assert(l);
    int r = fl_roce_pool_init(&l->pool, 4096);
    assert(!r);
    l->rate = 12500000000ull;
    l->latency = 5000;
    l->backlog = 10000;
    l->now = 1;
    l->a.rng = 1;
    make_end(l, &l->a, cap, attr, mem_len);
    make_end(l, &l->b, cap, attr, mem_len);
    return l;
}

void link_free(struct link *l)
{
    for (int i = 0; i < 2; i++) {
        struct link_end *e = i ? &l->b : &l->a;
        while (e->oldest) {
            struct link_packet *p = e->oldest;
            e->oldest = p->next;
            free(p);
        }
        fl_roce_qp_fini(&e->qp);
        free(e->mem);
    }
    assert(l->pool.nr_free == l->pool.nr);
    fl_roce_pool_fini(&l->pool);
    free(l);
}

static void arrive_at(struct link_end *to, struct link_packet *p)
{
    struct link_packet *before = to->newest;
    while (before && before->at > p->at)
        before = before->before;
    p->before = before;
    p->next = before ? before->next : to->oldest;
    *(before ? &before->next : &to->oldest) = p;
    *(p->next ? &p->next->before : &to->newest) = p;
    if (++to->nr_flying > to->max_flying)
        to->max_flying = to->nr_flying;
}

static struct link_packet *packet_of(const struct fl_roce_tx *tx, uint64_t at)
{
    struct link_packet *p = malloc(sizeof(*p) + tx->len);
    assert(p);
    p->at = at;
    p->len = 0;
    for (int i = 0; i < tx->nr_iov; i++) {
        memcpy(p->bytes + p->len, tx->iov[i].iov_base, tx->iov[i].iov_len);
        p->len += (uint32_t)tx->iov[i].iov_len;
    }
    return p;
}

static void send(struct link *l, struct link_end *e, const struct fl_roce_tx *tx)
{
    const uint32_t overhead = 14 + 20 + 8 + 4 + 4 + 20; /* Ethernet, IPv4, UDP, ICRC, FCS, preamble and gap */
    uint64_t from = e->free_at > l->now ? e->free_at : l->now;
    e->free_at = from + (tx->len + overhead) * 1000000000ull / l->rate;
    struct link_packet *p = packet_of(tx, e->free_at + l->latency + l->path_delay[tx->path]);
    struct link_fate fate = {0};
    struct fl_ib_packet view;
    int r = fl_ib_packet_view(&view, p->bytes, p->len);
    assert(!r);
    l->nr_packets++;
    if (l->fate)
        l->fate(l, e, &view, &fate);
    if (fate.drop) {
        l->nr_lost++;
        free(p);
        return;
    }
    if (fate.twice)
        arrive_at(e->peer, packet_of(tx, p->at + 1000));
    p->at += fate.delay;
    arrive_at(e->peer, p);
}

static void pump(struct link *l, struct link_end *e)
{
    struct fl_roce_tx tx;
    e->pump_at = FL_ROCE_NEVER;
    for (;;) {
        if (e->free_at > l->now + l->backlog) {
            e->pump_at = e->free_at - l->backlog;
            return;
        }
        if (!fl_roce_qp_tx(&e->qp, l->now, &tx))
            return;
        send(l, e, &tx);
    }
}

static void take(struct link *l, struct link_end *e)
{
    struct link_packet *p = e->oldest;
    struct fl_ib_packet view;
    e->oldest = p->next;
    *(p->next ? &p->next->before : &e->newest) = NULL;
    e->nr_flying--;
    int r = fl_ib_packet_view(&view, p->bytes, p->len);
    assert(!r);
    fl_roce_qp_rx(&e->qp, &view, NULL, l->now);
    free(p);
}

static uint64_t next_of(const struct link_end *e)
{
    uint64_t at = fl_roce_qp_deadline(&e->qp);
    if (e->oldest && e->oldest->at < at)
        at = e->oldest->at;
    return e->pump_at < at ? e->pump_at : at;
}

void link_run(struct link *l, uint64_t end)
{
    pump(l, &l->a);
    pump(l, &l->b);
    for (;;) {
        uint64_t a = next_of(&l->a), b = next_of(&l->b);
        struct link_end *e = a <= b ? &l->a : &l->b;
        uint64_t at = a <= b ? a : b;
        if (at == FL_ROCE_NEVER || at > end)
            return;
        l->now = at > l->now ? at : l->now;
        while (e->oldest && e->oldest->at <= l->now)
            take(l, e);
        if (l->now >= fl_roce_qp_deadline(&e->qp))
            fl_roce_qp_tick(&e->qp, l->now);
        pump(l, e);
    }
}

void link_post(struct link_end *e, uint64_t id, enum ibv_wr_opcode opcode, uint64_t at, uint32_t len)
{
    struct ibv_sge sge = {at, len, KEY};
    struct ibv_send_wr wr = {.wr_id = id, .opcode = opcode, .sg_list = &sge, .num_sge = 1};
    wr.wr.rdma.remote_addr = at;
    wr.wr.rdma.rkey = KEY;
    int r = fl_roce_qp_post_send(&e->qp, &wr);
    assert(!r);
}

void link_post_recv(struct link_end *e, uint64_t id, uint64_t at, uint32_t len)
{
    struct ibv_sge sge = {at, len, KEY};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
    int r = fl_roce_qp_post_recv(&e->qp, &wr);
    assert(!r);
}

void link_lossy(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                struct link_fate *fate)
{
    fate->drop = link_draw(l) % 10000 < l->loss;
}

void link_narrow(struct link *l, struct link_end *from, const struct fl_ib_packet *packet,
                 struct link_fate *fate)
{
    uint64_t *free_at = &l->narrow_free_at[from == &l->b];
    if (*free_at < from->free_at)
        *free_at = from->free_at;
    if (*free_at - from->free_at > l->narrow_queue * 1000000000ull / l->narrow_rate) {
        fate->drop = true;
        return;
    }
    *free_at += (packet->payload_len + 100) * 1000000000ull / l->narrow_rate;
    fate->delay = *free_at - from->free_at;
}
