/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of this folder: two queue pairs, and packets moved by hand. */
#ifndef FL_RNIC_ROCE_TEST_PAIR_H
#define FL_RNIC_ROCE_TEST_PAIR_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit.h"
#include "rnic/roce/roce.h"

#define LKEY    0x11u
#define RKEY    0x22u
#define MEM_LEN (64u << 10)
#define MAX_WCS 64
#define LOG_MAX 4096

struct end {
    struct fl_roce_qp qp;
    struct end *peer;
    uint8_t *mem;
    struct ibv_wc wcs[MAX_WCS];
    bool of_send[MAX_WCS], solicited[MAX_WCS];
    int nr_wcs, nr_events, nr_invalidated;
    enum ibv_event_type event;
    uint32_t invalidated;
    bool closed; /* the remote key is gone */
};

struct sent { /* a packet as it left */
    struct end *from;
    uint8_t bytes[FL_IB_HDRS_MAX + 4096 + 4];
    uint32_t len;
    struct ibv_ah *ah;
    uint8_t path;
    struct fl_ib_packet view;
};

struct pair {
    struct end a, b;
    uint64_t now;
    struct fl_roce_attr attr; /* of both, changed before pair_up */
    struct fl_roce_cap cap;
    struct fl_roce_pool pool; /* with pair_selective() */
    struct sent log[LOG_MAX]; /* everything that was sent */
    int nr_log;
};

static int pair_open(struct fl_roce_qp *qp, uint32_t key, uint32_t want, uint64_t addr, uint32_t len,
                     void **ptr)
{
    struct end *e = qp->owner;
    assert_true(len);
    if (key != want || addr > MEM_LEN || len > MEM_LEN - addr)
        return -EACCES;
    *ptr = e->mem + addr;
    return 0;
}

static int pair_local(struct fl_roce_qp *qp, uint32_t lkey, uint64_t addr, uint32_t len, int access,
                      void **ptr)
{
    return pair_open(qp, lkey, LKEY, addr, len, ptr);
}

static int pair_remote(struct fl_roce_qp *qp, uint32_t rkey, uint64_t addr, uint32_t len, int access,
                       void **ptr)
{
    struct end *e = qp->owner;
    return e->closed ? -EACCES : pair_open(qp, rkey, RKEY, addr, len, ptr);
}

static int pair_invalidate(struct fl_roce_qp *qp, uint32_t rkey, bool from_peer)
{
    struct end *e = qp->owner;
    e->nr_invalidated++;
    e->invalidated = rkey;
    return rkey == 0xbad ? -EINVAL : 0;
}

static void pair_complete(struct fl_roce_qp *qp, const struct ibv_wc *wc, bool of_send, bool solicited)
{
    struct end *e = qp->owner;
    assert_true(e->nr_wcs < MAX_WCS);
    e->of_send[e->nr_wcs] = of_send;
    e->solicited[e->nr_wcs] = solicited;
    e->wcs[e->nr_wcs++] = *wc;
}

static void pair_event(struct fl_roce_qp *qp, enum ibv_event_type event)
{
    struct end *e = qp->owner;
    e->nr_events++;
    e->event = event;
}

static const struct fl_roce_ops pair_ops = {
    .local = pair_local,
    .remote = pair_remote,
    .invalidate = pair_invalidate,
    .complete = pair_complete,
    .event = pair_event,
};

static inline struct pair *pair_new(void)
{
    struct pair *p = calloc(1, sizeof(*p));
    assert_non_null(p);
    p->attr = (struct fl_roce_attr){
        .sq_psn = 100,
        .rq_psn = 100,
        .qkey = 0x1234,
        .pkey = 0xffff,
        .access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
        .mtu = IBV_MTU_1024,
        .timeout = 10, /* 4.194304 ms */
        .retry_cnt = 3,
        .rnr_retry = 2,
        .min_rnr_timer = 13,
        .max_rd_atomic = 2,
        .max_dest_rd_atomic = 2,
    };
    p->cap = (struct fl_roce_cap){.type = IBV_QPT_RC,
                                  .max_send_wr = 16,
                                  .max_recv_wr = 16,
                                  .max_send_sge = 3,
                                  .max_recv_sge = 3,
                                  .max_inline = 32,
                                  .max_dest_rd_atomic = 8,
                                  .sq_sig_all = true};
    p->now = 1000000;
    for (int i = 0; i < 2; i++) {
        struct end *e = i ? &p->b : &p->a;
        e->peer = i ? &p->a : &p->b;
        e->mem = malloc(MEM_LEN);
        assert_non_null(e->mem);
        for (uint32_t k = 0; k < MEM_LEN; k++)
            e->mem[k] = (uint8_t)(k * 7 + (k >> 8) * 13 + (uint32_t)i * 101);
    }
    return p;
}

static inline void pair_to(struct end *e, const struct fl_roce_attr *attr, enum ibv_qp_state last)
{
    for (int state = IBV_QPS_INIT; state <= (int)last; state++)
        assert_int_equal(fl_roce_qp_modify(&e->qp, (enum ibv_qp_state)state, attr), 0);
}

static inline void pair_up(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        struct end *e = i ? &p->b : &p->a;
        p->cap.qpn = i ? 0x22 : 0x11;
        p->attr.dest_qpn = i ? 0x11 : 0x22;
        assert_int_equal(fl_roce_qp_init(&e->qp, &pair_ops, &p->cap, e), 0);
        pair_to(e, &p->attr, IBV_QPS_RTS);
    }
}

static inline void pair_free(struct pair *p)
{
    for (int i = 0; i < 2; i++) {
        fl_roce_qp_fini(i ? &p->b.qp : &p->a.qp);
        free(i ? p->b.mem : p->a.mem);
    }
    assert_int_equal(p->pool.nr_free, p->pool.nr); /* nothing is held any more */
    fl_roce_pool_fini(&p->pool);
    free(p);
}

/* The next packet of this end, kept in the log; NULL: none. */
static inline struct sent *take(struct pair *p, struct end *e)
{
    struct fl_roce_tx tx;
    if (!fl_roce_qp_tx(&e->qp, p->now, &tx))
        return NULL;
    assert_true(p->nr_log < LOG_MAX);
    struct sent *s = &p->log[p->nr_log++];
    s->from = e;
    s->ah = tx.ah;
    s->path = tx.path;
    s->len = 0;
    for (int i = 0; i < tx.nr_iov; i++) {
        memcpy(s->bytes + s->len, tx.iov[i].iov_base, tx.iov[i].iov_len);
        s->len += (uint32_t)tx.iov[i].iov_len;
    }
    assert_int_equal(s->len, tx.len);
    assert_int_equal(fl_ib_packet_view(&s->view, s->bytes, s->len), 0);
    return s;
}

static inline void give(struct pair *p, struct sent *s)
{
    fl_roce_qp_rx(&s->from->peer->qp, &s->view, NULL, p->now);
}

/* Until both are silent, every packet arriving. */
static inline void settle(struct pair *p)
{
    for (bool more = true; more;) {
        more = false;
        for (int i = 0; i < 2; i++) {
            struct sent *s;
            while ((s = take(p, i ? &p->b : &p->a))) {
                give(p, s);
                more = true;
            }
        }
    }
}

/* All that this end has to send, lost. How many. */
static inline int lose(struct pair *p, struct end *e)
{
    int nr = 0;
    while (take(p, e))
        nr++;
    return nr;
}

static inline void wait_until(struct pair *p, uint64_t at)
{
    p->now = at;
    fl_roce_qp_tick(&p->a.qp, at);
    fl_roce_qp_tick(&p->b.qp, at);
}

static inline int post(struct end *e, uint64_t id, enum ibv_wr_opcode opcode, uint64_t local, uint32_t len,
                       uint64_t remote)
{
    struct ibv_sge sge = {local, len, LKEY};
    struct ibv_send_wr wr = {.wr_id = id, .opcode = opcode, .sg_list = &sge, .num_sge = 1};
    if (opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = remote;
        wr.wr.atomic.rkey = RKEY;
        wr.wr.atomic.compare_add = 5;
        wr.wr.atomic.swap = 77;
    } else {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = RKEY;
    }
    return fl_roce_qp_post_send(&e->qp, &wr);
}

static inline int post_recv(struct end *e, uint64_t id, uint64_t local, uint32_t len)
{
    struct ibv_sge sge = {local, len, LKEY};
    struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1};
    return fl_roce_qp_post_recv(&e->qp, &wr);
}

static inline void expect_wc(const struct end *e, int i, uint64_t id, enum ibv_wc_status status)
{
    assert_true(i < e->nr_wcs);
    assert_int_equal(e->wcs[i].wr_id, id);
    assert_int_equal(e->wcs[i].status, status);
}

#endif
