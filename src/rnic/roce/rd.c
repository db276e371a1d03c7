/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving side: READ and atomic requests, the last max_dest_rd_atomic of which are kept. A READ asked
 * for again is read again; an atomic asked for again is answered with what was found the first time
 * (9.4.4, 9.4.5).
 */
#include "base/try.h"
#include "rnic/roce/parts.h"

static struct fl_roce_rd *rd_at(const struct fl_roce_qp *qp, uint32_t i)
{
    uint32_t at = qp->resp.rd_head + i;
    return &qp->resp.rd[at < qp->attr.max_dest_rd_atomic ? at : at - qp->attr.max_dest_rd_atomic];
}

/* Number i of the ring is to be answered, perhaps again. */
static void set_pending(struct fl_roce_qp *qp, uint32_t i)
{
    struct fl_roce_responder *resp = &qp->resp;
    struct fl_roce_rd *rd = rd_at(qp, i);
    if (rd->pending)
        return;
    rd->pending = true;
    if (!resp->nr_pending++ || i < resp->first_pending)
        resp->first_pending = i;
}

/* The ring may be long, and it is asked for each packet who is next: so that is known. */
static void clear_pending(struct fl_roce_qp *qp, uint32_t i)
{
    struct fl_roce_responder *resp = &qp->resp;
    rd_at(qp, i)->pending = false;
    if (!--resp->nr_pending || i != resp->first_pending)
        return;
    while (!rd_at(qp, ++i)->pending)
        ;
    resp->first_pending = i;
}

/* Room for one more; NULL: the peer has more on their way than was agreed. */
static struct fl_roce_rd *make_room(struct fl_roce_qp *qp)
{
    struct fl_roce_responder *resp = &qp->resp;
    if (!qp->attr.max_dest_rd_atomic)
        return NULL;
    if (resp->nr_rd == qp->attr.max_dest_rd_atomic) {
        /* The peer has the answers to the oldest, or it would not ask; a repeat that still waits is not
         * needed. */
        struct fl_roce_rd *oldest = rd_at(qp, 0);
        if (oldest->pending && !oldest->replay)
            return NULL;
        if (oldest->pending)
            clear_pending(qp, 0);
        resp->rd_head = (uint32_t)(rd_at(qp, 1) - resp->rd);
        resp->nr_rd--;
        resp->first_pending--; /* where there is one, it is not the oldest */
    }
    return rd_at(qp, resp->nr_rd);
}

static enum fl_roce_verdict new_read(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    const struct fl_reth *reth = fl_ib_reth(packet);
    uint32_t len = be32_get(reth->dma_len);
    void *ptr;
    if (!(qp->attr.access & IBV_ACCESS_REMOTE_READ) || len > FL_ROCE_MSG_MAX)
        return FL_ROCE_BAD_REQUEST;
    struct fl_roce_rd *rd = make_room(qp);
    if (!rd)
        return FL_ROCE_BAD_REQUEST;
    uint64_t va = be64_get(reth->va);
    uint32_t rkey = be32_get(reth->rkey), nr = fl_ib_nr_packets(len, qp->mtu);
    if (len && qp->ops->remote(qp, rkey, va, len, IBV_ACCESS_REMOTE_READ, &ptr))
        return FL_ROCE_BAD_ACCESS;
    *rd = (struct fl_roce_rd){
        .kind = FL_ROCE_RD_READ,
        .first_psn = packet->psn,
        .nr_psn = nr,
        .end = nr,
        .va = va,
        .len = len,
        .rkey = rkey,
    };
    return FL_ROCE_OK;
}

struct atomic {
    uint64_t *found; /* what was there, equal or not */
    uint64_t operand, compare;
    bool swap;
};

/* Indivisible also for other threads and for the other queue pairs of this host. */
static void *execute(void *at, const void *arg, size_t len)
{
    const struct atomic *a = arg;
    (void)len;
    if (a->swap) {
        *a->found = a->compare;
        __atomic_compare_exchange_n((uint64_t *)at, a->found, a->operand, false, __ATOMIC_SEQ_CST,
                                    __ATOMIC_SEQ_CST);
    } else {
        *a->found = __atomic_fetch_add((uint64_t *)at, a->operand, __ATOMIC_SEQ_CST);
    }
    return at;
}

static bool do_atomic(void *ptr, const struct fl_ib_packet *packet, uint64_t *found)
{
    const struct fl_atomic_eth *eth = fl_ib_atomic(packet);
    const struct atomic a = {.found = found,
                             .operand = be64_get(eth->swap_add),
                             .compare = be64_get(eth->compare),
                             .swap = packet->op->message == FL_IB_COMPARE_SWAP};
    return fl_try(ptr, &a, sizeof(uint64_t), execute);
}

static enum fl_roce_verdict new_atomic(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    const struct fl_atomic_eth *eth = fl_ib_atomic(packet);
    uint64_t va = be64_get(eth->va);
    void *ptr;
    if (!(qp->attr.access & IBV_ACCESS_REMOTE_ATOMIC) || va % sizeof(uint64_t))
        return FL_ROCE_BAD_REQUEST;
    struct fl_roce_rd *rd = make_room(qp);
    if (!rd)
        return FL_ROCE_BAD_REQUEST;
    if (qp->ops->remote(qp, be32_get(eth->rkey), va, sizeof(uint64_t), IBV_ACCESS_REMOTE_ATOMIC, &ptr))
        return FL_ROCE_BAD_ACCESS;
    if ((uintptr_t)ptr % sizeof(uint64_t)) /* an iova that is aligned, of memory that is not */
        return FL_ROCE_BAD_REQUEST;
    uint64_t found;
    if (!do_atomic(ptr, packet, &found))
        return FL_ROCE_BAD_ACCESS;
    *rd = (struct fl_roce_rd){
        .kind = FL_ROCE_RD_ATOMIC,
        .first_psn = packet->psn,
        .nr_psn = 1,
        .end = 1,
        .original = found,
    };
    return FL_ROCE_OK;
}

enum fl_roce_verdict fl_roce_rd_new(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_responder *resp = &qp->resp;
    enum fl_roce_verdict v = packet->op->attr & FL_IB_READ ? new_read(qp, packet) : new_atomic(qp, packet);
    if (v != FL_ROCE_OK)
        return v;
    struct fl_roce_rd *rd = rd_at(qp, resp->nr_rd++);
    resp->msn = fl_psn_add(resp->msn, 1);
    rd->msn = resp->msn;
    set_pending(qp, resp->nr_rd - 1);
    resp->epsn = fl_psn_add(packet->psn, rd->nr_psn);
    return FL_ROCE_OK;
}

/* Its number in the ring, -1: there is none. */
static int find(const struct fl_roce_qp *qp, uint32_t psn, enum fl_roce_rd_kind kind)
{
    for (uint32_t i = 0; i < qp->resp.nr_rd; i++) {
        const struct fl_roce_rd *rd = rd_at(qp, i);
        if (rd->kind == kind && fl_psn_add(psn, -rd->first_psn) < rd->nr_psn)
            return (int)i;
    }
    return -1;
}

struct fl_roce_rd *fl_roce_rd_find(struct fl_roce_qp *qp, uint32_t psn, enum fl_roce_rd_kind kind)
{
    int i = find(qp, psn, kind);
    return i < 0 ? NULL : rd_at(qp, (uint32_t)i);
}

static void read_again(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    const struct fl_reth *reth = fl_ib_reth(packet);
    int number = find(qp, packet->psn, FL_ROCE_RD_READ);
    if (number < 0)
        return; /* too old: whoever asks has had its answer */
    struct fl_roce_rd *rd = rd_at(qp, (uint32_t)number);
    uint32_t i = fl_psn_add(packet->psn, -rd->first_psn);
    uint64_t skip = (uint64_t)i * qp->mtu, len = be32_get(reth->dma_len);
    /* It may ask for less than the first time, but for nothing else (9.4.4). */
    if (be32_get(reth->rkey) != rd->rkey || skip + len > rd->len)
        return;
    if (be64_get(reth->va) != rd->va + skip && !FAULT(9))
        return;
    uint32_t end = i + fl_ib_nr_packets((uint32_t)len, qp->mtu);
    if (fl_roce_selective_on(qp)) {
        if (rd->pending && end > rd->next)
            end = rd->next; /* from there on it will be sent anyway */
        if (end > i)
            fl_roce_again_push(qp, packet->psn, end - i, i);
        return;
    }
    rd->va = be64_get(reth->va) - skip;
    rd->replay = rd->replay || !rd->pending || i < rd->next; /* the first answers may have come already */
    rd->next = rd->start = i;
    rd->end = rd->pending && rd->end > end ? rd->end : end;
    set_pending(qp, (uint32_t)number);
}

void fl_roce_rd_again(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    if (packet->op->attr & FL_IB_READ) {
        read_again(qp, packet);
        return;
    }
    int number = find(qp, packet->psn, FL_ROCE_RD_ATOMIC);
    if (number < 0)
        return;
    struct fl_roce_rd *rd = rd_at(qp, (uint32_t)number);
    void *ptr;
    const struct fl_atomic_eth *eth = fl_ib_atomic(packet);
    if (FAULT(2) &&
        !qp->ops->remote(qp, be32_get(eth->rkey), be64_get(eth->va), 8, IBV_ACCESS_REMOTE_ATOMIC, &ptr))
        do_atomic(ptr, packet, &rd->original);
    rd->replay = rd->replay || !rd->pending;
    rd->next = 0;
    set_pending(qp, (uint32_t)number);
}

struct fl_roce_rd *fl_roce_rd_pending(const struct fl_roce_qp *qp)
{
    return qp->resp.nr_pending ? rd_at(qp, qp->resp.first_pending) : NULL;
}

void fl_roce_rd_answered(struct fl_roce_qp *qp)
{
    clear_pending(qp, qp->resp.first_pending);
}

void fl_roce_rd_give_up(struct fl_roce_qp *qp)
{
    for (uint32_t i = 0; i < qp->resp.nr_rd; i++)
        rd_at(qp, i)->pending = false;
    qp->resp.nr_pending = 0;
}
