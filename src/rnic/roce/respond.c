/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving side: answers. Those to READs and atomics come first, in PSN order, then the one ACK or NAK
 * that stands for everything before it; so acknowledgements coalesce while packets come in faster than
 * answers go out (9.7.5.1.2).
 */
#include "rnic/roce/parts.h"

static void put_aeth(struct fl_roce_tx *tx, uint8_t at, uint8_t syndrome, uint32_t msn)
{
    *(struct fl_aeth *)fl_roce_tx_hdr(tx, at) = (struct fl_aeth){syndrome, be24_of(msn)};
}

static const uint8_t ack_syndrome = FL_AETH_ACK << 5 | FL_AETH_NO_CREDITS;

static void put_ack(struct fl_roce_qp *qp, struct fl_roce_tx *tx, uint32_t psn, uint8_t syndrome)
{
    uint8_t opcode = FL_IB_OPCODE(FL_IB_RC, FL_IB_ACK);
    fl_roce_tx_begin(tx, opcode, qp, psn);
    put_aeth(tx, fl_ib_opcodes[opcode].aeth, syndrome, qp->resp.msn);
    fl_roce_tx_end(qp, tx, 0);
}

/* What has come, and what lies here of what follows it */
static void put_sack(struct fl_roce_qp *qp, struct fl_roce_tx *tx, bool echo)
{
    struct fl_roce_selective *sel = qp->sel;
    uint32_t nr = fl_roce_put_bitmap(qp, sel->sack.bits), len = sizeof(sel->sack.head) + nr * sizeof(be32);
    const struct fl_roce_rd *rd = fl_roce_rd_pending(qp);
    uint32_t answered = rd ? fl_psn_add(rd->first_psn, rd->next) : qp->resp.epsn;
    sel->sack.head = (struct fl_sack){.echo = be32_of(echo ? sel->echo : 0), .answered = be24_of(answered)};
    fl_roce_tx_begin(tx, FL_IB_OPCODE_SACK, qp, fl_psn_add(qp->resp.epsn, UINT32_MAX));
    put_aeth(tx, fl_ib_opcodes[FL_IB_OPCODE_SACK].aeth, ack_syndrome, qp->resp.msn);
    tx->iov[tx->nr_iov++] = (struct iovec){&sel->sack, len};
    tx->path = fl_roce_path_of(qp, sel->answer_turn);
    fl_roce_tx_end(qp, tx, len);
    qp->stats.nr_acks++;
    if (echo) {
        sel->answer_turn++; /* answers sent again go ahead of the echo, on its path */
        sel->echo_due = false;
    }
}

static void put_atomic(struct fl_roce_qp *qp, struct fl_roce_tx *tx, struct fl_roce_rd *rd)
{
    uint8_t opcode = FL_IB_OPCODE(FL_IB_RC, FL_IB_ATOMIC_ACK);
    fl_roce_tx_begin(tx, opcode, qp, rd->first_psn);
    put_aeth(tx, fl_ib_opcodes[opcode].aeth, ack_syndrome, rd->msn);
    *(struct fl_atomic_ack_eth *)fl_roce_tx_hdr(
        tx, fl_ib_opcodes[opcode].atomic_ack) = (struct fl_atomic_ack_eth){be64_of(rd->original)};
    fl_roce_tx_end(qp, tx, 0);
}

/* Packet i of the answer, of which `start` to `end` are sent. False: the memory does not open any more. */
static bool put_read(struct fl_roce_qp *qp, struct fl_roce_tx *tx, const struct fl_roce_rd *rd, uint32_t i,
                     uint32_t start, uint32_t end)
{
    uint32_t offset = i * qp->mtu;
    bool first = i == start, last = i + 1 == end;
    uint32_t len = i + 1 == rd->nr_psn ? (uint32_t)rd->len - offset : qp->mtu;
    enum fl_ib_op op = last    ? (first ? FL_IB_READ_ONLY : FL_IB_READ_LAST)
                       : first ? FL_IB_READ_FIRST
                               : FL_IB_READ_MIDDLE;
    uint8_t opcode = FL_IB_OPCODE(FL_IB_RC, op);
    void *ptr = NULL;
    if (len && qp->ops->remote(qp, rd->rkey, rd->va + offset, len, IBV_ACCESS_REMOTE_READ, &ptr))
        return false;
    fl_roce_tx_begin(tx, opcode, qp, fl_psn_add(rd->first_psn, i));
    if (fl_ib_opcodes[opcode].aeth)
        put_aeth(tx, fl_ib_opcodes[opcode].aeth, ack_syndrome, rd->msn);
    if (len)
        tx->iov[tx->nr_iov++] = (struct iovec){ptr, len};
    fl_roce_tx_end(qp, tx, len);
    return true;
}

/*
 * All of it was answered once, and it was asked for again. Mostly the answers have come, and the owner has
 * closed the memory because of that: a late copy of the request finds no access, and must not end the
 * connection. Who lacks an answer asks until its retries are used up.
 */
static bool may_be_late(const struct fl_roce_rd *rd)
{
    return rd->whole && !FAULT(15);
}

static void again_done(struct fl_roce_selective *sel)
{
    sel->again_head = (sel->again_head + 1) % FL_ROCE_AGAIN_MAX;
    sel->nr_again--;
}

/* What the peer asked for again, in the order in which it asked. 1: a packet, 0: nothing, -1: no access to
 * *psn. */
static int put_again(struct fl_roce_qp *qp, struct fl_roce_tx *tx, uint32_t *psn)
{
    struct fl_roce_selective *sel = qp->sel;
    while (sel->nr_again) {
        struct fl_roce_again *again = &sel->again[sel->again_head];
        const struct fl_roce_rd *rd = fl_roce_rd_find(qp, again->psn, FL_ROCE_RD_READ);
        uint32_t i = rd ? fl_psn_add(again->psn, -rd->first_psn) : 0;
        *psn = again->psn;
        bool opens = rd && put_read(qp, tx, rd, i, again->start, i + again->nr);
        if (rd && !opens && !may_be_late(rd))
            return -1;
        again->psn = fl_psn_add(again->psn, 1);
        if (!opens || !--again->nr) /* none: its answers have come meanwhile */
            again_done(sel);
        if (!opens)
            continue;
        tx->path = fl_roce_path_of(qp, sel->answer_turn);
        return 1;
    }
    return 0;
}

/* The next answer to the oldest READ or atomic that waits. 1: a packet, 0: none waits any more, -1: no access
 * to *psn. */
static int put_pending(struct fl_roce_qp *qp, struct fl_roce_tx *tx, uint32_t *psn)
{
    struct fl_roce_responder *resp = &qp->resp;
    struct fl_roce_rd *rd;
    for (;; fl_roce_rd_answered(qp)) {
        rd = fl_roce_rd_pending(qp);
        if (!rd)
            return 0;
        *psn = fl_psn_add(rd->first_psn, rd->next);
        if (rd->kind == FL_ROCE_RD_ATOMIC) {
            put_atomic(qp, tx, rd);
            break;
        }
        if (put_read(qp, tx, rd, rd->next, rd->start, rd->end))
            break;
        if (!may_be_late(rd))
            return -1;
    }
    tx->path = fl_roce_path_of(qp, *psn);
    rd->next++;
    rd->whole = rd->whole || rd->next == rd->nr_psn;
    if (rd->kind != FL_ROCE_RD_READ || rd->next == rd->end)
        fl_roce_rd_answered(qp);
    if (resp->ack_pending && fl_psn_diff(*psn, resp->ack_psn) >= 0) {
        resp->ack_pending = false;
        qp->stats.nr_coalesced++;
    }
    return 1;
}

/* Annex A17.9.3: to the queue pair that sent what was marked, BECN set, 16 reserved bytes */
static void put_cnp(struct fl_roce_qp *qp, struct fl_roce_tx *tx)
{
    static uint8_t reserved[16];
    fl_roce_tx_begin(tx, FL_IB_OPCODE_CNP, qp, 0);
    fl_roce_tx_bth(tx)->ecn = FL_BTH_BECN;
    tx->iov[tx->nr_iov++] = (struct iovec){reserved, sizeof(reserved)};
    fl_roce_tx_end(qp, tx, sizeof(reserved));
    qp->stats.nr_cnp_tx++;
    qp->resp.cnp_pending = false;
}

bool fl_roce_qp_owes_ack(const struct fl_roce_qp *qp)
{
    const struct fl_roce_responder *resp = &qp->resp;
    return resp->ack_pending && !resp->nak_pending && !resp->cnp_pending && !fl_roce_rd_pending(qp) &&
           !(fl_roce_selective_on(qp) && (qp->sel->nr_held || qp->sel->nr_again || qp->sel->echo_due));
}

bool fl_roce_respond_next(struct fl_roce_qp *qp, struct fl_roce_tx *tx, bool open)
{
    struct fl_roce_responder *resp = &qp->resp;
    if (resp->cnp_pending) {
        put_cnp(qp, tx);
        return true;
    }
    bool selective = fl_roce_selective_on(qp);
    if (selective && resp->ack_pending && qp->sel->nr_held) {
        resp->ack_pending = false; /* what is missing is told at once, also ahead of a long answer */
        put_sack(qp, tx, false);
        return true;
    }
    struct fl_roce_rd *rd = fl_roce_rd_pending(qp);
    if ((rd || (selective && qp->sel->nr_again)) && !open)
        return false; /* an ACK must not pass it */
    uint32_t psn;
    int r = selective ? put_again(qp, tx, &psn) : 0;
    if (!r && selective && qp->sel->echo_due) {
        resp->ack_pending = false;
        put_sack(qp, tx, true);
        return true;
    }
    if (!r && rd)
        r = put_pending(qp, tx, &psn);
    if (r > 0)
        return true;
    if (r < 0) {
        fl_roce_rd_give_up(qp);
        fl_roce_refuse(qp, FL_IB_NAK_ACCESS, IBV_WC_WR_FLUSH_ERR);
        resp->nak_psn = psn;
    }
    if (resp->nak_pending) {
        resp->nak_pending = resp->ack_pending = false;
        put_ack(qp, tx, resp->nak_psn, resp->nak_syndrome);
        if (fl_aeth_kind(resp->nak_syndrome) == FL_AETH_RNR)
            qp->stats.nr_rnr_tx++;
        else
            qp->stats.nr_nak_tx[fl_aeth_value(resp->nak_syndrome)]++;
        return true;
    }
    if (resp->ack_pending) {
        resp->ack_pending = false;
        put_ack(qp, tx, resp->ack_psn, ack_syndrome);
        qp->stats.nr_acks++;
        return true;
    }
    return false;
}
