/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of this folder share. */
#ifndef FL_RNIC_ROCE_PARTS_H
#define FL_RNIC_ROCE_PARTS_H

#include "rnic/roce/roce.h"

/* Deliberate faults, built into the simulation only: it must notice each of them. */
#ifdef FL_ROCE_FAULTS
extern int fl_roce_fault;
#define FAULT(n) (fl_roce_fault == (n))
#else
#define FAULT(n) 0
#endif

#define WINDOW_MAX (1u << 20)

/* sge.c */
/* Pieces of len bytes from offset on; how many, or negative errno. */
int fl_roce_gather(struct fl_roce_qp *qp, const struct ibv_sge *sge, uint32_t nr, uint64_t offset,
                   uint32_t len, struct iovec *iov);
/* 0; -EMSGSIZE: beyond the end; what local() says. */
int fl_roce_scatter(struct fl_roce_qp *qp, const struct ibv_sge *sge, uint32_t nr, uint64_t offset,
                    const void *src, uint32_t len);
/* Of an answer to a READ: where the owner puts it, else as fl_roce_scatter(). */
int fl_roce_place(struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe, uint32_t offset, const void *src,
                  uint32_t len);
uint64_t fl_roce_sge_len(const struct ibv_sge *sge, uint32_t nr);

/* packet.c: headers in order, then the payload, then finish. */
void fl_roce_tx_begin(struct fl_roce_tx *tx, uint8_t opcode, const struct fl_roce_qp *qp, uint32_t psn);
static inline struct fl_bth *fl_roce_tx_bth(struct fl_roce_tx *tx)
{
    return (struct fl_bth *)tx->hdr;
}
/* Room for the extended headers, which the opcode table places */
static inline void *fl_roce_tx_hdr(struct fl_roce_tx *tx, uint8_t at)
{
    return tx->hdr + at;
}
void fl_roce_tx_end(struct fl_roce_qp *qp, struct fl_roce_tx *tx, uint32_t payload_len);

/* requester.c */
bool fl_roce_request_next(struct fl_roce_qp *qp, uint64_t now, struct fl_roce_tx *tx, bool open);
/* The rate alone may hold it back. */
bool fl_roce_has_data(const struct fl_roce_qp *qp);
void fl_roce_requester_reset(struct fl_roce_qp *qp);
static inline struct fl_roce_swqe *fl_roce_swqe_at(struct fl_roce_qp *qp, uint32_t i)
{
    return &qp->req.wqes[i & qp->req.mask];
}
static inline bool fl_roce_is_local(const struct fl_roce_swqe *wqe)
{
    return wqe->wr.opcode == IBV_WR_LOCAL_INV || wqe->wr.opcode == IBV_WR_BIND_MW;
}
static inline bool fl_roce_is_atomic(const struct fl_roce_swqe *wqe)
{
    return wqe->wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wqe->wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}
static inline bool fl_roce_is_rd(const struct fl_roce_swqe *wqe) /* has a response that brings data */
{
    return wqe->wr.opcode == IBV_WR_RDMA_READ || fl_roce_is_atomic(wqe);
}
/* A long READ is asked for in pieces, so that its answers are bounded like all else that is on its way: the
 * piece that index i belongs to ends before this one. */
static inline uint32_t fl_roce_piece_end(const struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe,
                                         uint32_t i)
{
    uint32_t end = i - i % qp->read_piece + qp->read_piece;
    return end < wqe->nr_psn ? end : wqe->nr_psn;
}
/* All before index i of it have been answered. */
static inline void fl_roce_piece_done(struct fl_roce_qp *qp, struct fl_roce_swqe *wqe, uint32_t i)
{
    if (i % qp->read_piece || !wqe->nr_asked)
        return;
    wqe->nr_asked--;
    qp->req.nr_rd--;
}

/* One packet at psn: SEND or WRITE, atomic, READ request for the nr answers from psn on. False: our own
 * memory does not open, and the request has failed. */
bool fl_roce_put_request(struct fl_roce_qp *qp, struct fl_roce_swqe *wqe, uint32_t psn, uint32_t nr,
                         struct fl_roce_tx *tx);

/* window.c */
void fl_roce_window_reset(struct fl_roce_qp *qp);
void fl_roce_window_moved(struct fl_roce_qp *qp, uint32_t nr); /* done with */
void fl_roce_window_missed(struct fl_roce_qp *qp);             /* one was lost */
void fl_roce_window_gone_back(struct fl_roce_qp *qp);          /* all that was on its way is sent again */

/* selective.c and resend.c: the requester's part of it, when both peers agreed */
static inline bool fl_roce_selective_on(const struct fl_roce_qp *qp)
{
    return qp->attr.selective;
}
static inline uint8_t fl_roce_path_of(const struct fl_roce_qp *qp, uint32_t psn)
{
    return (uint8_t)(psn & (qp->attr.nr_paths - 1u)) & (FL_ROCE_PATHS_MAX - 1);
}
void fl_roce_selective_reset(struct fl_roce_qp *qp);
bool fl_roce_selective_open(const struct fl_roce_qp *qp); /* for what was never sent yet */
/* What goes before that: lost packets, and probes. */
bool fl_roce_selective_next(struct fl_roce_qp *qp, uint64_t now, struct fl_roce_tx *tx);
/* Sent for the first time. How many are on their way. */
uint32_t fl_roce_selective_sent(struct fl_roce_qp *qp, uint32_t psn, uint32_t nr, struct fl_roce_tx *tx);
/* It asks for an acknowledgement. */
void fl_roce_selective_timed(struct fl_roce_qp *qp, uint32_t psn, uint64_t now);
void fl_roce_selective_arm(struct fl_roce_qp *qp, uint64_t now);
void fl_roce_selective_response(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now);
void fl_roce_selective_tick(struct fl_roce_qp *qp, uint64_t now);
void fl_roce_selective_go_back(struct fl_roce_qp *qp, uint64_t now);

/* hold.c: the responder's */
void fl_roce_hold_reset(struct fl_roce_qp *qp);
void fl_roce_hold(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint32_t ahead);
bool fl_roce_held(struct fl_roce_qp *qp, struct fl_ib_packet *packet); /* the one that comes next */
void fl_roce_let_go(struct fl_roce_qp *qp, uint32_t from);             /* what is held up to epsn */
void fl_roce_take_probe(struct fl_roce_qp *qp, const struct fl_ib_packet *packet);
uint32_t fl_roce_put_bitmap(const struct fl_roce_qp *qp, be32 *bits); /* words */
/* Answers to be sent again: nr of them, asked for from index start on. */
void fl_roce_again_push(struct fl_roce_qp *qp, uint32_t psn, uint32_t nr, uint32_t start);

/* direct.c */
enum fl_roce_direct {
    FL_ROCE_BY_PACKETS,
    FL_ROCE_DONE, /* and complete */
    FL_ROCE_WAIT, /* for the end of what is before it */
};
enum fl_roce_direct fl_roce_try_direct(struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe);

/* completer.c */
enum fl_roce_nak { FL_ROCE_NAK_NONE, FL_ROCE_NAK_GAP, FL_ROCE_NAK_LATER, FL_ROCE_NAK_FATAL };
/* Counted. *status: what the request ends with, now or when its RNR retries are used up. */
enum fl_roce_nak fl_roce_nak(struct fl_roce_qp *qp, uint8_t syndrome, enum ibv_wc_status *status);
/* False: it has waited for a receive often enough. */
bool fl_roce_wait_rnr(struct fl_roce_qp *qp, uint8_t code, uint64_t now);
/* The WQE at head ends in an error, and with it the connection. */
void fl_roce_fail_head(struct fl_roce_qp *qp, enum ibv_wc_status status);
/* psn_una has moved. */
void fl_roce_progress(struct fl_roce_qp *qp, uint32_t psn_una, uint64_t now);
void fl_roce_response(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, uint64_t now);
void fl_roce_requester_tick(struct fl_roce_qp *qp, uint64_t now);
/* Completes the WQE at head. */
void fl_roce_send_done(struct fl_roce_qp *qp, enum ibv_wc_status status);
/* Completes what stands finished at head without a packet: local operations, and the fault found while
 * sending. */
void fl_roce_retire(struct fl_roce_qp *qp);

/* responder.c */
void fl_roce_request(struct fl_roce_qp *qp, const struct fl_ib_packet *packet);
void fl_roce_responder_reset(struct fl_roce_qp *qp);
void fl_roce_recv_done(struct fl_roce_qp *qp, enum ibv_wc_status status, const struct fl_ib_packet *last);
bool fl_roce_take_recv(struct fl_roce_qp *qp);
/* Says so to the peer, and stops taking requests. */
void fl_roce_refuse(struct fl_roce_qp *qp, enum fl_ib_nak nak, enum ibv_wc_status recv_status);

void fl_roce_queue_ack(struct fl_roce_qp *qp);

/* inbound.c: what requests do */
enum fl_roce_verdict {
    FL_ROCE_OK,
    FL_ROCE_NO_RECV,
    FL_ROCE_BAD_REQUEST,
    FL_ROCE_BAD_LENGTH, /* longer than the receive */
    FL_ROCE_BAD_ACCESS,
    FL_ROCE_BAD_LOCAL, /* our own receive's memory */
};
enum fl_roce_verdict fl_roce_inbound(struct fl_roce_qp *qp, const struct fl_ib_packet *packet);

/* rd.c: READ and atomic requests and their answers */
enum fl_roce_verdict fl_roce_rd_new(struct fl_roce_qp *qp, const struct fl_ib_packet *packet);
void fl_roce_rd_again(struct fl_roce_qp *qp, const struct fl_ib_packet *packet);
struct fl_roce_rd *fl_roce_rd_find(struct fl_roce_qp *qp, uint32_t psn, enum fl_roce_rd_kind kind);
struct fl_roce_rd *fl_roce_rd_pending(const struct fl_roce_qp *qp); /* the oldest that waits, or NULL */
void fl_roce_rd_answered(struct fl_roce_qp *qp);                    /* that one, whole */
void fl_roce_rd_give_up(struct fl_roce_qp *qp);                     /* all: none is answered any more */

/* respond.c */
/* open: data may leave, too. */
bool fl_roce_respond_next(struct fl_roce_qp *qp, struct fl_roce_tx *tx, bool open);

/* datagram.c */
void fl_roce_datagram(struct fl_roce_qp *qp, const struct fl_ib_packet *packet,
                      const struct fl_roce_meta *meta);

/* qp.c */
void fl_roce_qp_fail(struct fl_roce_qp *qp); /* to ERR: flushes all */

#endif
