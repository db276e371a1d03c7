/* SPDX-License-Identifier: Apache-2.0 */
/* One queue pair: its memory, its states, and which half of it a call is for. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/roce/parts.h"

#define WINDOW_DEFAULT 512
#define READ_PIECE     64
#define PIECES_LEAST   4  /* on their way, else each would wait for the one before */
#define ACK_PASSED     16 /* requests that go before an acknowledgement: less than the window that it opens */

#ifdef FL_ROCE_FAULTS
int fl_roce_fault;
#endif

static int make_send_queue(struct fl_roce_qp *qp)
{
    struct fl_roce_requester *req = &qp->req;
    uint32_t size = 1, nr_sge = qp->cap.max_send_sge ? qp->cap.max_send_sge : 1;
    while (size < qp->cap.max_send_wr)
        size *= 2;
    size_t each = sizeof(*req->wqes) + nr_sge * sizeof(struct ibv_sge) + qp->cap.max_inline;
    req->wqes = calloc(size, each);
    if (!req->wqes)
        return -ENOMEM;
    struct ibv_sge *sges = (struct ibv_sge *)(req->wqes + size);
    uint8_t *bytes = (uint8_t *)(sges + (size_t)size * nr_sge);
    for (uint32_t i = 0; i < size; i++) {
        req->wqes[i].sge = sges + (size_t)i * nr_sge;
        req->wqes[i].inline_data = bytes + (size_t)i * qp->cap.max_inline;
    }
    req->mask = size - 1;
    req->cap = qp->cap.max_send_wr;
    return 0;
}

int fl_roce_qp_init(struct fl_roce_qp *qp, const struct fl_roce_ops *ops, const struct fl_roce_cap *cap,
                    void *owner)
{
    memset(qp, 0, sizeof(*qp));
    if ((cap->type != IBV_QPT_RC && cap->type != IBV_QPT_UC && cap->type != IBV_QPT_UD) ||
        cap->qpn > FL_IB_QPN_MASK || cap->max_send_wr > 1u << 20 || cap->max_send_sge > FL_ROCE_SGE_MAX ||
        cap->max_inline > 4096 || cap->max_dest_rd_atomic > FL_ROCE_RD_MAX)
        return -EINVAL;
    qp->ops = ops;
    qp->owner = owner;
    qp->cap = *cap;
    qp->state = IBV_QPS_RESET;
    int r = make_send_queue(qp);
    if (!r && !cap->rq)
        r = fl_roce_rq_init(&qp->own_rq, cap->max_recv_wr, cap->max_recv_sge, false);
    if (!r && cap->max_dest_rd_atomic) {
        qp->resp.rd = calloc(cap->max_dest_rd_atomic, sizeof(*qp->resp.rd));
        r = qp->resp.rd ? 0 : -ENOMEM;
    }
    if (!r && cap->pool && cap->type == IBV_QPT_RC) {
        qp->sel = calloc(1, sizeof(*qp->sel));
        r = qp->sel ? 0 : -ENOMEM;
    }
    if (r) {
        fl_roce_qp_fini(qp);
        return r;
    }
    qp->rq = cap->rq ? cap->rq : &qp->own_rq;
    fl_roce_requester_reset(qp);
    fl_roce_responder_reset(qp);
    return 0;
}

void fl_roce_qp_fini(struct fl_roce_qp *qp)
{
    fl_roce_hold_reset(qp);
    free(qp->sel);
    free(qp->req.wqes);
    free(qp->resp.rd);
    fl_roce_rq_fini(&qp->own_rq);
    memset(qp, 0, sizeof(*qp));
}

/* 10.3.1: which state may follow which, apart from RESET and ERR, which follow any */
static bool may_become(enum ibv_qp_state from, enum ibv_qp_state to)
{
    switch (to) {
    case IBV_QPS_RESET:
    case IBV_QPS_ERR:
        return true;
    case IBV_QPS_INIT:
        return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
    case IBV_QPS_RTR:
        return from == IBV_QPS_INIT;
    case IBV_QPS_RTS:
        return from == IBV_QPS_RTR || from == IBV_QPS_RTS || from == IBV_QPS_SQD || from == IBV_QPS_SQE;
    case IBV_QPS_SQD:
        return from == IBV_QPS_RTS || from == IBV_QPS_SQD;
    default:
        return false; /* SQE comes by itself */
    }
}

static int enter_init(struct fl_roce_qp *qp, const struct fl_roce_attr *attr)
{
    qp->attr.pkey = attr->pkey;
    qp->attr.qkey = attr->qkey;
    qp->attr.access = attr->access;
    return 0;
}

static int enter_rtr(struct fl_roce_qp *qp, const struct fl_roce_attr *attr)
{
    if (!fl_ib_mtu_len(attr->mtu) || attr->dest_qpn > FL_IB_QPN_MASK || attr->rq_psn > FL_IB_QPN_MASK ||
        attr->min_rnr_timer > 31 || attr->max_dest_rd_atomic > qp->cap.max_dest_rd_atomic)
        return -EINVAL;
    uint32_t nr_paths = attr->nr_paths ? attr->nr_paths : 1;
    if ((attr->selective && !qp->sel) || nr_paths > (attr->selective ? FL_ROCE_PATHS_MAX : 1) ||
        (nr_paths & (nr_paths - 1)))
        return -EINVAL;
    qp->attr.selective = attr->selective;
    qp->attr.nr_paths = (uint8_t)nr_paths;
    qp->attr.mtu = attr->mtu;
    qp->attr.dest_qpn = attr->dest_qpn;
    qp->attr.rq_psn = attr->rq_psn;
    qp->attr.min_rnr_timer = attr->min_rnr_timer;
    qp->attr.max_dest_rd_atomic = attr->max_dest_rd_atomic;
    qp->mtu = fl_ib_mtu_len(attr->mtu);
    fl_roce_responder_reset(qp);
    return 0;
}

static int enter_rts(struct fl_roce_qp *qp, const struct fl_roce_attr *attr)
{
    if (attr->sq_psn > FL_IB_QPN_MASK || attr->timeout > 31 || attr->retry_cnt > 7 || attr->rnr_retry > 7 ||
        attr->max_rd_atomic > FL_ROCE_RD_MAX || attr->window > WINDOW_MAX || attr->read_piece > WINDOW_MAX)
        return -EINVAL;
    qp->attr.sq_psn = attr->sq_psn;
    qp->attr.timeout = attr->timeout;
    qp->attr.retry_cnt = attr->retry_cnt;
    qp->attr.rnr_retry = attr->rnr_retry;
    qp->attr.max_rd_atomic = attr->max_rd_atomic;
    qp->attr.window = attr->window ? attr->window : WINDOW_DEFAULT;
    qp->timeout_ns = fl_ib_ack_timeout_ns(attr->timeout);
    qp->read_piece = attr->read_piece                      ? attr->read_piece
                     : attr->max_rd_atomic >= PIECES_LEAST ? READ_PIECE
                                                           : FL_ROCE_MSG_MAX;
    qp->cc = (struct fl_roce_congestion){.line_rate = attr->line_rate};
    fl_roce_requester_reset(qp);
    return 0;
}

static void flush_receives(struct fl_roce_qp *qp)
{
    if (qp->resp.recv.taken)
        fl_roce_recv_done(qp, IBV_WC_WR_FLUSH_ERR, NULL);
    while (!qp->rq->shared && fl_roce_rq_left(qp->rq)) {
        fl_roce_take_recv(qp);
        fl_roce_recv_done(qp, IBV_WC_WR_FLUSH_ERR, NULL);
    }
}

void fl_roce_qp_fail(struct fl_roce_qp *qp)
{
    qp->state = IBV_QPS_ERR;
    qp->req.timeout_at = qp->req.rnr_at = FL_ROCE_NEVER;
    if (qp->sel)
        qp->sel->pto_at = FL_ROCE_NEVER;
    fl_roce_hold_reset(qp);
    while (qp->req.head != qp->req.tail)
        fl_roce_send_done(qp, IBV_WC_WR_FLUSH_ERR);
    flush_receives(qp);
}

int fl_roce_qp_modify(struct fl_roce_qp *qp, enum ibv_qp_state to, const struct fl_roce_attr *attr)
{
    if (!may_become(qp->state, to))
        return -EINVAL;
    int r = 0;
    if (to == IBV_QPS_INIT)
        r = enter_init(qp, attr);
    else if (to == IBV_QPS_RTR)
        r = enter_rtr(qp, attr);
    else if (to == IBV_QPS_RTS && qp->state == IBV_QPS_RTR)
        r = enter_rts(qp, attr);
    if (r)
        return r;
    if (to == IBV_QPS_SQD)
        qp->req.drained = false;
    if (to == IBV_QPS_ERR) {
        qp->resp.failed = qp->resp.ack_pending =
            false; /* nothing more is said, unlike after a NAK of our own */
        fl_roce_qp_fail(qp);
    }
    if (to == IBV_QPS_RESET) {
        fl_roce_responder_reset(qp);
        memset(&qp->attr, 0, sizeof(qp->attr));
        qp->own_rq.head = qp->own_rq.tail;
        fl_roce_requester_reset(qp);
        fl_roce_responder_reset(qp);
    }
    qp->state = to;
    return 0;
}

int fl_roce_qp_post_recv(struct fl_roce_qp *qp, const struct ibv_recv_wr *wr)
{
    if (qp->state == IBV_QPS_RESET || qp->rq->shared)
        return -EINVAL;
    int r = fl_roce_rq_post(qp->rq, wr);
    if (!r && qp->state == IBV_QPS_ERR)
        flush_receives(qp);
    return r;
}

void fl_roce_tx_begin(struct fl_roce_tx *tx, uint8_t opcode, const struct fl_roce_qp *qp, uint32_t psn)
{
    fl_bth_set(fl_roce_tx_bth(tx), opcode, qp->attr.pkey, qp->attr.dest_qpn, psn, 0);
    tx->iov[0] = (struct iovec){tx->hdr, fl_ib_opcodes[opcode].hdr_len};
    tx->nr_iov = 1;
    tx->ah = NULL;
    tx->path = 0;
}

void fl_roce_tx_end(struct fl_roce_qp *qp, struct fl_roce_tx *tx, uint32_t payload_len)
{
    static uint8_t zeroes[4];
    uint32_t pad = -payload_len & 3;
    if (pad) {
        fl_roce_tx_bth(tx)->flags |= (uint8_t)(pad << FL_BTH_PAD_SHIFT);
        tx->iov[tx->nr_iov++] = (struct iovec){zeroes, pad};
    }
    tx->len = (uint32_t)tx->iov[0].iov_len + payload_len + pad;
    qp->stats.nr_tx++;
    qp->stats.tx_len += payload_len;
}

static bool next_packet(struct fl_roce_qp *qp, uint64_t now, struct fl_roce_tx *tx)
{
    bool answers = qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
                   qp->resp.failed;
    bool open = fl_roce_congestion_open(&qp->cc, now);
    qp->held = !open;
    if (qp->state == IBV_QPS_ERR && !answers) /* what came whole before is still acknowledged */
        return fl_roce_qp_owes_ack(qp) && fl_roce_respond_next(qp, tx, open);
    /* An acknowledgement goes behind the requests that wait with it: one burst for the kernel. */
    if (answers && fl_roce_qp_owes_ack(qp)) {
        if (qp->nr_passed++ < ACK_PASSED && fl_roce_request_next(qp, now, tx, open))
            return true;
        qp->nr_passed = 0;
        return fl_roce_respond_next(qp, tx, open);
    }
    qp->turn = !qp->turn; /* else a long READ keeps our own requests back, or they its answers */
    if (qp->turn && answers && fl_roce_respond_next(qp, tx, open))
        return true;
    if (qp->state != IBV_QPS_RESET && fl_roce_request_next(qp, now, tx, open))
        return true;
    return !qp->turn && answers && fl_roce_respond_next(qp, tx, open);
}

bool fl_roce_qp_tx(struct fl_roce_qp *qp, uint64_t now, struct fl_roce_tx *tx)
{
    if (!next_packet(qp, now, tx))
        return false;
    if (tx->nr_iov > 1)
        fl_roce_congestion_sent(&qp->cc, tx->len, now);
    return true;
}

/* True: the packet was about congestion and nothing else. */
static bool take_congestion(struct fl_roce_qp *qp, const struct fl_ib_packet *packet,
                            const struct fl_roce_meta *meta, uint64_t now)
{
    if (packet->bth->opcode == FL_IB_OPCODE_CNP) {
        qp->stats.nr_cnp_rx++;
        fl_roce_congestion_cut(&qp->cc, now);
        return true;
    }
    /* A datagram's sender is not known as a peer, so it is not told. */
    if (meta && meta->ce && qp->cap.type != IBV_QPT_UD && fl_roce_congestion_marked(&qp->cc, now))
        qp->resp.cnp_pending = true;
    return false;
}

void fl_roce_qp_rx(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, const struct fl_roce_meta *meta,
                   uint64_t now)
{
    static const uint8_t services[] = {
        [IBV_QPT_RC] = FL_IB_RC, [IBV_QPT_UC] = FL_IB_UC, [IBV_QPT_UD] = FL_IB_UD};
    bool ready = qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
                 qp->state == IBV_QPS_SQE;
    qp->stats.nr_rx++;
    /* 10.9.3: the lower 15 bits of the P_Key say the partition */
    bool ours = ready && !qp->resp.failed && !((be16_get(packet->bth->pkey) ^ qp->attr.pkey) & 0x7fff);
    if (ours && take_congestion(qp, packet, meta, now))
        return;
    uint8_t opcode = packet->bth->opcode;
    bool own = opcode == FL_IB_OPCODE_SACK || opcode == FL_IB_OPCODE_PROBE;
    if (!ours || (own ? !fl_roce_selective_on(qp) : opcode >> 5 != services[qp->cap.type])) {
        qp->stats.nr_dropped++;
        return;
    }
    qp->stats.rx_len += packet->payload_len;
    if (qp->cap.type == IBV_QPT_UD)
        fl_roce_datagram(qp, packet, meta);
    else if (opcode == FL_IB_OPCODE_PROBE)
        fl_roce_take_probe(qp, packet);
    else if (packet->op->attr & FL_IB_RESPONSE)
        fl_roce_response(qp, packet, now);
    else
        fl_roce_request(qp, packet);
}

uint64_t fl_roce_qp_deadline(const struct fl_roce_qp *qp)
{
    uint64_t at = qp->req.timeout_at < qp->req.rnr_at ? qp->req.timeout_at : qp->req.rnr_at;
    if (qp->sel && qp->sel->pto_at < at)
        at = qp->sel->pto_at;
    if (qp->held && fl_roce_has_data(qp) && qp->cc.next_at < at)
        at = qp->cc.next_at;
    return at;
}

void fl_roce_qp_tick(struct fl_roce_qp *qp, uint64_t now)
{
    if (qp->cc.next_at <= now)
        qp->held = false; /* fl_roce_qp_tx() is to be asked, and says anew */
    if (qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD)
        fl_roce_requester_tick(qp, now);
}
