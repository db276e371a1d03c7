/* SPDX-License-Identifier: Apache-2.0 */
/* The program at one end: what it posts, and what must have come of it at each completion. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/sim/sim.h"

#define IMM_BASE 0x51000000u

static bool takes_recv(const struct msg *m)
{
    return m->opcode == IBV_WR_SEND || m->opcode == IBV_WR_SEND_WITH_IMM ||
           m->opcode == IBV_WR_SEND_WITH_INV || m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_write(const struct msg *m)
{
    return m->opcode == IBV_WR_RDMA_WRITE || m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool is_atomic(const struct msg *m)
{
    return m->opcode == IBV_WR_ATOMIC_CMP_AND_SWP || m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static struct side *side_of(struct fl_roce_qp *qp)
{
    return qp->owner;
}

/* One region a side, remote addresses counted from 0x10000; local ones the same. */
#define IOVA 0x10000ull

static int open_range(struct side *s, uint32_t key, uint64_t addr, uint32_t len, void **ptr)
{
    HOLDS(s->world, len, "side %d: a check of nothing", s->id);
    if (key != s->key || addr < IOVA || addr - IOVA > s->mr_len || len > s->mr_len - (addr - IOVA))
        return -EACCES;
    *ptr = s->mem + (addr - IOVA);
    return 0;
}

static int op_local(struct fl_roce_qp *qp, uint32_t lkey, uint64_t addr, uint32_t len, int access, void **ptr)
{
    return open_range(side_of(qp), lkey, addr, len, ptr);
}

/* What the peer READs is open to it until that is complete, as programs do who close memory with each request.
 */
static bool is_closed(const struct side *s, uint64_t addr, uint32_t len)
{
    const struct side *peer = s->peer;
    for (int i = peer->nr_done; i < peer->nr_posted; i++) {
        const struct msg *m = &peer->msgs[i];
        if (m->opcode == IBV_WR_RDMA_READ && addr >= IOVA + m->src && addr + len <= IOVA + m->src + m->len)
            return false;
    }
    return true;
}

static int op_remote(struct fl_roce_qp *qp, uint32_t rkey, uint64_t addr, uint32_t len, int access,
                     void **ptr)
{
    struct side *s = side_of(qp);
    if (access == IBV_ACCESS_REMOTE_READ && is_closed(s, addr, len)) {
        s->nr_closed++;
        return -EACCES;
    }
    return open_range(s, rkey ^ 0xff, addr, len, ptr);
}

static int op_invalidate(struct fl_roce_qp *qp, uint32_t rkey, bool from_peer)
{
    struct side *s = side_of(qp);
    if (from_peer)
        s->nr_invalidated++;
    else
        s->nr_local_invalidated++;
    return 0;
}

/* Used memory gets other contents, here and in what is expected, so that a late packet that writes again
 * shows. */
static void reuse(struct side *s, size_t at, size_t len)
{
    for (size_t i = 0; i < len; i++)
        s->mem[at + i] = s->shadow[at + i] = (uint8_t)(sim_draw(s->world) | 1);
}

static void same(struct side *s, const char *what, int i, size_t at, const uint8_t *want, size_t len)
{
    HOLDS(s->world, !memcmp(s->mem + at, want, len), "side %d: %s of message %d has other bytes", s->id, what,
          i);
}

/* What a message that is complete must have done. */
static void check_done(struct side *s, int i)
{
    const struct msg *m = &s->msgs[i];
    struct side *peer = s->peer;
    size_t slot = (size_t)i * MSG_LEN;
    if (s->world->type != IBV_QPT_RC)
        return;
    if (is_write(m)) {
        same(peer, "the write", i, peer->at_sink + slot, s->mem + m->src, m->len);
        reuse(peer, peer->at_sink + slot, m->len);
    } else if (m->opcode == IBV_WR_RDMA_READ) {
        same(s, "the read", i, s->at_read + slot, peer->mem + m->src, m->len);
        reuse(s, s->at_read + slot, m->len);
    } else if (is_atomic(m)) {
        uint64_t original;
        memcpy(&original, s->mem + s->at_read + slot, sizeof(original));
        HOLDS(s->world, original == s->expect_original, "side %d: atomic %d found %llu and not %llu", s->id,
              i, (unsigned long long)original, (unsigned long long)s->expect_original);
        if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
            s->expect_original += m->add;
        else if (original == m->compare)
            s->expect_original = m->add;
        reuse(s, s->at_read + slot, sizeof(original));
    }
}

static void send_complete(struct side *s, const struct ibv_wc *wc)
{
    struct world *w = s->world;
    int i = (int)wc->wr_id;
    HOLDS(w, i >= s->nr_done && i < s->nr_posted, "side %d: message %d completes again or out of order",
          s->id, i);
    if (wc->status == IBV_WC_SUCCESS) {
        HOLDS(w, s->failed == IBV_WC_SUCCESS, "side %d: success after a failure", s->id);
        HOLDS(w, s->msgs[i].signaled, "side %d: message %d did not ask for a completion", s->id, i);
        HOLDS(w, i != s->bad, "side %d: message %d is not allowed and succeeds", s->id, i);
        for (; s->nr_done <= i; s->nr_done++) {
            HOLDS(w, s->nr_done == i || !s->msgs[s->nr_done].signaled, "side %d: no completion of %d", s->id,
                  s->nr_done);
            check_done(s, s->nr_done);
        }
        return;
    }
    if (s->failed == IBV_WC_SUCCESS) {
        s->failed = wc->status;
        s->failed_at = i;
    } else {
        HOLDS(w, wc->status == IBV_WC_WR_FLUSH_ERR, "side %d: a second failure %d", s->id, wc->status);
        HOLDS(w, i == s->nr_done, "side %d: flushed %d, not %d", s->id, i, s->nr_done);
    }
    s->nr_flushed++;
    s->nr_done = i + 1;
}

/* The peer's message that this receive was for */
static int next_message(struct side *s, const struct ibv_wc *wc)
{
    struct side *peer = s->peer;
    if (s->world->type != IBV_QPT_RC) /* some are missing */
        return (int)(be32_get(*(const be32 *)&wc->imm_data) - IMM_BASE);
    while (s->next_received < peer->nr_posted && !takes_recv(&peer->msgs[s->next_received]))
        s->next_received++;
    return s->next_received++;
}

static void recv_complete(struct side *s, const struct ibv_wc *wc)
{
    struct world *w = s->world;
    if (wc->status != IBV_WC_SUCCESS) {
        HOLDS(w, w->scenario == BAD_OP || w->scenario == DEAD, "side %d: receive fails with %d", s->id,
              wc->status);
        return;
    }
    HOLDS(w, (int)wc->wr_id == s->nr_received, "side %d: receive %d completes, not %d", s->id, (int)wc->wr_id,
          s->nr_received);
    int i = next_message(s, wc);
    HOLDS(w, i >= 0 && i < s->peer->nr_posted, "side %d: a message that was never sent", s->id);
    const struct msg *m = &s->peer->msgs[i];
    size_t at = s->at_recv + (size_t)s->nr_received++ * (MSG_LEN + FL_ROCE_GRH_LEN), skip = 0;
    if (w->type == IBV_QPT_UD)
        skip = FL_ROCE_GRH_LEN;
    HOLDS(w, wc->byte_len == m->len + skip, "side %d: message %d has %u bytes and not %u", s->id, i,
          wc->byte_len, m->len);
    HOLDS(w, (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) == is_write(m), "side %d: message %d: opcode", s->id,
          i);
    bool imm = m->opcode == IBV_WR_SEND_WITH_IMM || m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    HOLDS(w,
          !!(wc->wc_flags & IBV_WC_WITH_IMM) == imm &&
              (!imm || be32_get(*(const be32 *)&wc->imm_data) == m->imm),
          "side %d: message %d: immediate", s->id, i);
    if (is_write(m)) {
        if (w->type == IBV_QPT_RC)
            same(s, "the write with immediate", i, s->at_sink + (size_t)i * MSG_LEN, s->peer->mem + m->src,
                 m->len);
        return;
    }
    same(s, "the receive", i, at + skip, s->peer->mem + m->src, m->len);
    reuse(s, at, m->len + skip);
}

static void op_complete(struct fl_roce_qp *qp, const struct ibv_wc *wc, bool of_send, bool solicited)
{
    struct side *s = side_of(qp);
    if (s->world->trace)
        fprintf(s->world->trace, "%12llu complete  at %d: %s %d status %d\n",
                (unsigned long long)s->world->now, s->id, of_send ? "message" : "receive", (int)wc->wr_id,
                wc->status);
    if (of_send)
        send_complete(s, wc);
    else
        recv_complete(s, wc);
}

static const struct fl_roce_ops ops = {
    .local = op_local,
    .remote = op_remote,
    .invalidate = op_invalidate,
    .complete = op_complete,
};

void side_make(struct world *w, struct side *s, struct side *peer, int id)
{
    memset(s, 0, sizeof(*s));
    *s = (struct side){.world = w, .peer = peer, .id = id, .key = 0x100u * (uint32_t)(id + 1), .bad = -1};
    s->at_sink = SRC_LEN;
    s->at_read = s->at_sink + (size_t)MAX_MSGS * MSG_LEN;
    s->at_recv = s->at_read + (size_t)MAX_MSGS * MSG_LEN;
    s->at_atomic = s->at_recv + (size_t)MAX_MSGS * (MSG_LEN + FL_ROCE_GRH_LEN);
    s->at_atomic = (s->at_atomic + 7) & ~(size_t)7;
    s->mr_len = s->at_atomic + 8;
    s->mem_len = s->mr_len + GUARD_LEN;
    s->mem = malloc(s->mem_len);
    s->shadow = malloc(s->mem_len);
    HOLDS(w, s->mem && s->shadow, "no memory");
    uint64_t x = w->seed * 31 + (uint64_t)id;
    for (size_t i = 0; i < s->mem_len; i++) {
        x = x * 6364136223846793005ull + 1442695040888963407ull;
        s->mem[i] = (uint8_t)(x >> 56);
    }
    memset(s->mem + s->at_atomic, 0, 8);
    memcpy(s->shadow, s->mem, s->mem_len);
}

static uint32_t some_len(struct world *w, uint32_t mtu)
{
    uint32_t max = w->type == IBV_QPT_UD ? mtu : MSG_LEN;
    switch (below(w, 6)) {
    case 0:
        return 0;
    case 1:
        return 1 + below(w, 8);
    case 2: /* whole packets */
        return mtu * (1 + below(w, 3)) <= max ? mtu * (1 + below(w, 1)) : max;
    case 3:
        return 1 + below(w, mtu < max ? mtu : max);
    default:
        return 1 + below(w, max);
    }
}

void side_plan(struct side *s)
{
    static const enum ibv_wr_opcode kinds[] = {
        IBV_WR_SEND,
        IBV_WR_SEND_WITH_IMM,
        IBV_WR_SEND_WITH_INV,
        IBV_WR_RDMA_WRITE,
        IBV_WR_RDMA_READ,
        IBV_WR_RDMA_WRITE_WITH_IMM,
        IBV_WR_ATOMIC_FETCH_AND_ADD,
        IBV_WR_ATOMIC_CMP_AND_SWP,
        IBV_WR_RDMA_READ,
        IBV_WR_RDMA_WRITE,
        IBV_WR_SEND,
        IBV_WR_LOCAL_INV,
    };
    struct world *w = s->world;
    uint32_t mtu = fl_ib_mtu_len(s->qp.attr.mtu);
    s->nr_msgs = 1 + (int)below(w, MAX_MSGS);
    bool few_told = chance(w, 3000);
    for (int i = 0; i < s->nr_msgs; i++) {
        struct msg *m = &s->msgs[i];
        m->opcode = w->type == IBV_QPT_RC ? kinds[below(w, sizeof(kinds) / sizeof(kinds[0]))]
                    : w->type == IBV_QPT_UC && chance(w, 3000) ? IBV_WR_RDMA_WRITE_WITH_IMM
                                                               : IBV_WR_SEND_WITH_IMM;
        m->len = is_atomic(m) ? 8 : m->opcode == IBV_WR_LOCAL_INV ? 0 : some_len(w, mtu);
        m->src = below(w, SRC_LEN - MSG_LEN);
        m->imm = IMM_BASE + (uint32_t)i;
        m->add = 1 + below(w, 1000);
        m->compare = below(w, 3);
        m->signaled = i + 1 == s->nr_msgs || !few_told || chance(w, 2000);
        s->peer->nr_recv_want += takes_recv(m);
    }
}

/* The last message of side 0 becomes one that the peer must refuse. */
static void plan_bad(struct side *s)
{
    struct msg *m = &s->msgs[s->bad = s->nr_msgs - 1];
    s->peer->nr_recv_want -= takes_recv(m);
    m->signaled = true;
    m->len = 1 + below(s->world, MSG_LEN);
    s->bad_status = IBV_WC_REM_ACCESS_ERR;
    switch (m->imm = below(s->world, 4)) {
    case 0: /* past the end */
    case 1: /* wrong key */
        m->opcode = IBV_WR_RDMA_WRITE;
        break;
    case 2: /* past the end */
        m->opcode = IBV_WR_RDMA_READ;
        break;
    case 3: /* not aligned */
        m->opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        m->len = 8;
        s->bad_status = IBV_WC_REM_INV_REQ_ERR;
        break;
    }
}

void side_connect(struct side *s)
{
    struct world *w = s->world;
    struct fl_roce_attr attr = s->qp.attr; /* filled in by the run */
    struct fl_roce_cap cap = {
        .type = w->type,
        .qpn = (uint32_t)s->id + 17,
        .max_send_wr = MAX_MSGS,
        .max_recv_wr = MAX_MSGS,
        .max_send_sge = SGE_MAX,
        .max_recv_sge = SGE_MAX,
        .max_inline = INLINE_LEN,
        .max_dest_rd_atomic = attr.max_dest_rd_atomic,
        .pool = &w->pool,
    };
    if (w->scenario == BAD_OP && !s->id)
        plan_bad(s);
    HOLDS(w, !fl_roce_qp_init(&s->qp, &ops, &cap, s), "init");
    attr.dest_qpn = (uint32_t)s->peer->id + 17;
    HOLDS(w, !fl_roce_qp_modify(&s->qp, IBV_QPS_INIT, &attr), "INIT");
    HOLDS(w, !fl_roce_qp_modify(&s->qp, IBV_QPS_RTR, &attr), "RTR");
    HOLDS(w, !fl_roce_qp_modify(&s->qp, IBV_QPS_RTS, &attr), "RTS");
    s->app_at = below(w, 50000);
    s->pump_at = FL_ROCE_NEVER;
}

/* A buffer cut into up to SGE_MAX pieces, some of them empty */
static int cut(struct side *s, size_t at, uint32_t len, struct ibv_sge *sge)
{
    int nr = len ? 1 + (int)below(s->world, SGE_MAX) : (int)below(s->world, 2);
    for (int i = 0; i < nr; i++) {
        uint32_t n = i + 1 == nr ? len : below(s->world, len + 1);
        sge[i] = (struct ibv_sge){IOVA + at, n, s->key};
        at += n;
        len -= n;
    }
    return nr;
}

static void post_message(struct side *s, int i)
{
    const struct msg *m = &s->msgs[i];
    struct side *peer = s->peer;
    struct ibv_sge sge[SGE_MAX];
    struct ibv_send_wr wr = {.wr_id = (uint64_t)i, .opcode = m->opcode, .sg_list = sge};
    size_t slot = (size_t)i * MSG_LEN, local = m->src;
    if (m->opcode == IBV_WR_RDMA_READ || is_atomic(m))
        local = s->at_read + slot;
    wr.num_sge = cut(s, local, m->len, sge);
    wr.send_flags = (m->signaled ? IBV_SEND_SIGNALED : 0u) | (chance(s->world, 1000) ? IBV_SEND_FENCE : 0u) |
                    (chance(s->world, 1000) ? IBV_SEND_SOLICITED : 0u);
    be32 imm = be32_of(m->imm);
    memcpy(&wr.imm_data, &imm, sizeof(imm));
    if (is_atomic(m)) {
        wr.wr.atomic.remote_addr = IOVA + peer->at_atomic + (i == s->bad ? 4u : 0u);
        wr.wr.atomic.rkey = peer->key ^ 0xff;
        wr.wr.atomic.compare_add = m->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? m->compare : m->add;
        wr.wr.atomic.swap = m->add;
    } else if (s->world->type != IBV_QPT_UD) {
        size_t remote = m->opcode == IBV_WR_RDMA_READ ? m->src : peer->at_sink + slot;
        uint32_t rkey = peer->key ^ 0xff;
        if (i == s->bad && m->imm == 1)
            rkey++;
        else if (i == s->bad)
            remote = peer->mr_len - below(s->world, m->len);
        wr.wr.rdma.remote_addr = IOVA + remote;
        wr.wr.rdma.rkey = rkey;
    } else {
        wr.wr.ud.remote_qpn = peer->qp.cap.qpn;
        wr.wr.ud.remote_qkey = 0x11111111;
    }
    if (takes_recv(m) && m->len <= INLINE_LEN && wr.num_sge && chance(s->world, 5000)) {
        wr.send_flags |= IBV_SEND_INLINE;
        for (int k = 0; k < wr.num_sge; k++)
            sge[k].addr = (uintptr_t)s->mem + (sge[k].addr - IOVA);
    }
    HOLDS(s->world, !fl_roce_qp_post_send(&s->qp, &wr), "side %d: message %d cannot be posted", s->id, i);
}

static void post_receive(struct side *s)
{
    struct ibv_sge sge[SGE_MAX];
    struct ibv_recv_wr wr = {.wr_id = (uint64_t)s->nr_recv_posted, .sg_list = sge};
    size_t at = s->at_recv + (size_t)s->nr_recv_posted * (MSG_LEN + FL_ROCE_GRH_LEN);
    wr.num_sge = cut(s, at, MSG_LEN + FL_ROCE_GRH_LEN, sge);
    s->nr_recv_posted++;
    HOLDS(s->world, !fl_roce_qp_post_recv(&s->qp, &wr), "side %d: no receive can be posted", s->id);
}

void side_app(struct side *s)
{
    struct world *w = s->world;
    for (int n = (int)below(w, 6); n && s->nr_recv_posted < s->nr_recv_want; n--)
        post_receive(s);
    for (int n = (int)below(w, 8); n && s->nr_posted < s->nr_msgs; n--) {
        s->nr_posted++;
        post_message(s, s->nr_posted - 1);
    }
    bool more = s->nr_posted < s->nr_msgs || s->nr_recv_posted < s->nr_recv_want;
    s->app_at = more ? w->now + below(w, 200000) : FL_ROCE_NEVER;
    s->pump_at = w->now;
}

bool side_quiet(const struct side *s)
{
    if (s->nr_posted < s->nr_msgs || s->nr_done < s->nr_posted)
        return false;
    return s->failed != IBV_WC_SUCCESS || s->world->type != IBV_QPT_RC || s->peer->failed != IBV_WC_SUCCESS ||
           s->world->scenario == DEAD || s->nr_received == s->nr_recv_want;
}

static void check_failure(struct side *s)
{
    struct world *w = s->world;
    if (s->failed == IBV_WC_SUCCESS || s->failed == IBV_WC_WR_FLUSH_ERR)
        return; /* a peer's fault brings this side to ERR, and all of it is flushed */
    /* The refusal was lost, or overtook answers that had to come first: the peer says it once. */
    if (s->failed == IBV_WC_RETRY_EXC_ERR) {
        HOLDS(w, w->scenario == DEAD || (w->scenario == BAD_OP && (w->drop || w->corrupt || w->reorder)),
              "side %d: retries used up at message %d", s->id, s->failed_at);
        return;
    }
    HOLDS(w, s->bad >= 0 && s->failed_at == s->bad && s->failed == s->bad_status,
          "side %d: message %d fails with %d", s->id, s->failed_at, s->failed);
}

void side_check_end(struct side *s)
{
    struct world *w = s->world;
    check_failure(s);
    HOLDS(w, !memcmp(s->mem, s->shadow, SRC_LEN), "side %d: the source area has changed", s->id);
    HOLDS(w, !memcmp(s->mem + s->mr_len, s->shadow + s->mr_len, GUARD_LEN),
          "side %d: written beyond its region", s->id);
    if (w->scenario == BAD_OP || w->scenario == DEAD || w->type != IBV_QPT_RC)
        return;
    HOLDS(w, s->failed == IBV_WC_SUCCESS, "side %d: message %d fails with %d", s->id, s->failed_at,
          s->failed);
    HOLDS(w, s->nr_received == s->nr_recv_want, "side %d: %d messages of %d", s->id, s->nr_received,
          s->nr_recv_want);
    uint64_t value;
    memcpy(&value, s->mem + s->at_atomic, 8);
    HOLDS(w, value == s->peer->expect_original, "side %d: the atomics come to %llu", s->id,
          (unsigned long long)value);
    memcpy(s->shadow + s->at_atomic, &value, 8);
    HOLDS(w, !memcmp(s->mem, s->shadow, s->mem_len), "side %d: memory differs from what was done to it",
          s->id);
    int want = 0, want_local = 0;
    for (int i = 0; i < s->peer->nr_msgs; i++)
        want += s->peer->msgs[i].opcode == IBV_WR_SEND_WITH_INV;
    for (int i = 0; i < s->nr_msgs; i++)
        want_local += s->msgs[i].opcode == IBV_WR_LOCAL_INV;
    HOLDS(w, s->nr_invalidated == want && s->nr_local_invalidated == want_local,
          "side %d: %d keys invalidated, not %d", s->id, s->nr_invalidated, want);
}

void side_free(struct side *s)
{
    fl_roce_qp_fini(&s->qp);
    free(s->mem);
    free(s->shadow);
}
