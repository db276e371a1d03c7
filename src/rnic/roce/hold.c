/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The receiving side of selective retransmission. Requests that come ahead of others are held, whole, and
 * taken in order when those before them have come; so memory, keys, receives and completions see what they
 * always see, in the order in which it was sent. What is held is told in SACKs.
 */
#include <string.h>

#include "rnic/roce/bits.h"
#include "rnic/roce/parts.h"

#define SACK_EVERY 8 /* packets ahead, unless one asks */

static void release(struct fl_roce_qp *qp, uint32_t psn)
{
    struct fl_roce_selective *sel = qp->sel;
    struct fl_roce_pool *pool = qp->cap.pool;
    fl_bit_clear(sel->held, psn);
    sel->nr_held--;
    if (FAULT(11))
        return;
    pool->free[pool->nr_free++] = sel->slots[psn & FL_ROCE_BIT_MASK];
}

void fl_roce_hold_reset(struct fl_roce_qp *qp)
{
    struct fl_roce_selective *sel = qp->sel;
    if (!sel)
        return;
    for (uint32_t i = 0; i < FL_ROCE_SPAN && sel->nr_held; i++)
        if (fl_bit(sel->held, i))
            release(qp, i);
    sel->nr_unsaid = sel->nr_again = sel->again_head = 0;
    sel->echo_due = false;
}

void fl_roce_hold(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint32_t ahead)
{
    struct fl_roce_selective *sel = qp->sel;
    struct fl_roce_pool *pool = qp->cap.pool;
    uint32_t len = packet->op->hdr_len + packet->payload_len;
    qp->stats.nr_out_of_order++;
    if (ahead >= FL_ROCE_SPAN || len > sizeof(pool->packets->bytes)) {
        qp->stats.nr_dropped++;
        return;
    }
    if (fl_bit(sel->held, packet->psn)) {
        qp->stats.nr_duplicates++;
    } else if (!pool->nr_free) {
        qp->stats.nr_no_room++; /* the peer sees in the next SACK that it is missing */
    } else {
        uint16_t i = pool->free[--pool->nr_free];
        pool->packets[i].payload_len = packet->payload_len;
        memcpy(pool->packets[i].bytes, packet->bth, len);
        sel->slots[packet->psn & FL_ROCE_BIT_MASK] = i;
        fl_bit_set(sel->held, packet->psn);
        sel->nr_held++;
        qp->stats.nr_held++;
    }
    if (++sel->nr_unsaid >= SACK_EVERY || sel->nr_held == 1 || (packet->bth->ack & FL_BTH_ACKREQ)) {
        sel->nr_unsaid = 0;
        fl_roce_queue_ack(qp);
    }
}

bool fl_roce_held(struct fl_roce_qp *qp, struct fl_ib_packet *packet)
{
    struct fl_roce_selective *sel = qp->sel;
    uint32_t psn = qp->resp.epsn;
    if (!sel->nr_held || !fl_bit(sel->held, psn))
        return false;
    const struct fl_roce_held *held = &qp->cap.pool->packets[sel->slots[psn & FL_ROCE_BIT_MASK]];
    const struct fl_bth *bth = (const struct fl_bth *)held->bytes;
    *packet = (struct fl_ib_packet){
        .bth = bth,
        .op = &fl_ib_opcodes[bth->opcode],
        .payload = held->bytes + fl_ib_opcodes[bth->opcode].hdr_len,
        .payload_len = held->payload_len,
        .psn = psn,
        .qpn = be24_get(bth->qpn),
    };
    return true;
}

void fl_roce_let_go(struct fl_roce_qp *qp, uint32_t from)
{
    struct fl_roce_selective *sel = qp->sel;
    uint32_t nr = (uint32_t)fl_psn_diff(qp->resp.epsn, from);
    for (uint32_t i = 0; i < nr && i < FL_ROCE_SPAN && sel->nr_held; i++)
        if (fl_bit(sel->held, from + i))
            release(qp, from + i);
}

void fl_roce_take_probe(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    be32 serial;
    if (packet->payload_len < sizeof(serial)) {
        qp->stats.nr_dropped++;
        return;
    }
    memcpy(&serial, packet->payload, sizeof(serial));
    qp->sel->echo = be32_get(serial);
    qp->sel->echo_due = true;
}

/* The PSN that comes next, which is not here: bit 0, always clear. A held one stands there while it waits for
 * a receive; the peer has to send it again. */
uint32_t fl_roce_put_bitmap(const struct fl_roce_qp *qp, be32 *bits)
{
    const struct fl_roce_selective *sel = qp->sel;
    uint32_t nr = 0;
    for (uint32_t i = 0; i < FL_ROCE_SPAN / 32 && sel->nr_held; i++) {
        uint32_t word = fl_bits_32(sel->held, qp->resp.epsn + 32 * i);
        if (!i)
            word &= ~1u;
        bits[i] = be32_of(word);
        nr = word ? i + 1 : nr;
    }
    return nr;
}

void fl_roce_again_push(struct fl_roce_qp *qp, uint32_t psn, uint32_t nr, uint32_t start)
{
    struct fl_roce_selective *sel = qp->sel;
    if (sel->nr_again == FL_ROCE_AGAIN_MAX)
        return; /* asked for once more in the next round */
    sel->again[(sel->again_head + sel->nr_again++) % FL_ROCE_AGAIN_MAX] = (struct fl_roce_again){psn, nr,
                                                                                                 start};
}
