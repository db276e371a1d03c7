/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One RoCE v2 queue pair, requester and responder, without I/O: packets, posted work and the time go in;
 * packets, completions and the next deadline come out. It opens no socket, reads no clock, and allocates only
 * in fl_roce_qp_init(). A port (sockets, shared memory), the simulation and the fuzzers move the packets:
 *
 *   fl_roce_qp_post_send(qp, wr);
 *   while (fl_roce_qp_tx(qp, now, &tx)) send(tx.iov, tx.nr_iov), the ICRC after it;
 *   fl_roce_qp_rx(qp, &packet, &meta, now);         a packet whose ICRC and sender are right
 *   if (now >= fl_roce_qp_deadline(qp)) fl_roce_qp_tick(qp, now);
 *
 * After each post, rx and tick there may be packets to send. One thread at a time. Times are nanoseconds of
 * any clock that does not go back. References: IBA volume 1, chapter 9 (transport), 10.3 (queue pair states).
 */
#ifndef FL_RNIC_ROCE_H
#define FL_RNIC_ROCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include <infiniband/verbs.h>

#include "rnic/roce/congestion.h"
#include "wire/ib.h"

#define FL_ROCE_SGE_MAX           32
#define FL_ROCE_MSG_MAX           (1u << 30) /* so that a message at MTU 256 takes no more than 2^22 PSNs */
#define FL_ROCE_GRH_LEN           40         /* what a UD receive begins with */
#define FL_ROCE_RD_MAX            128        /* most READs and atomics that may be on their way */
#define FL_ROCE_SPAN              2048 /* selective: PSNs from the oldest missing to the newest sent, at most */
#define FL_ROCE_PATHS_MAX         16
#define FL_ROCE_POOL_MAX          65536
#define FL_ROCE_NEVER             UINT64_MAX
#define FL_ROCE_RNR_RETRY_FOREVER 7

struct fl_roce_qp;
struct fl_roce_swqe;

struct fl_roce_ops {
    /*
     * Where len bytes (not 0) at addr lie that a key opens for `access` (IBV_ACCESS_*; 0: local read) to this
     * queue pair: the one check of keys, bounds and rights. 0 and *ptr, which need hold only until the next
     * call on this queue pair; else negative errno.
     */
    int (*local)(struct fl_roce_qp *qp, uint32_t lkey, uint64_t addr, uint32_t len, int access, void **ptr);
    int (*remote)(struct fl_roce_qp *qp, uint32_t rkey, uint64_t addr, uint32_t len, int access, void **ptr);
    /* Local invalidate, and the key that a SEND with invalidate names. */
    int (*invalidate)(struct fl_roce_qp *qp, uint32_t rkey, bool from_peer);
    int (*bind)(struct fl_roce_qp *qp,
                const struct ibv_send_wr *wr); /* memory window; NULL: there are none */
    /*
     * The READ, WRITE without immediate or atomic whose turn it is, all before it being complete, done at
     * once in the peer's memory. False: not so, it goes by packets. Asked only while qp->direct; NULL: never.
     */
    bool (*direct)(struct fl_roce_qp *qp, const struct fl_roce_swqe *wqe);
    /*
     * Data of the READ wr_id, len bytes that belong at `offset` in it: each byte once, mostly in order. True:
     * the owner has put it where it belongs. False: it goes where the request's SGEs say. NULL: never asked.
     * Must not call back.
     */
    bool (*place)(struct fl_roce_qp *qp, uint64_t wr_id, uint32_t offset, const void *data, uint32_t len);
    /* One request is done. solicited: wakes who waits for solicited completions only. Must not call back. */
    void (*complete)(struct fl_roce_qp *qp, const struct ibv_wc *wc, bool of_send, bool solicited);
    void (*event)(struct fl_roce_qp *qp,
                  enum ibv_event_type event); /* NULL: nobody listens. Must not call back. */
};

/* A receive queue: of one queue pair, or shared. */
struct fl_roce_rwqe {
    uint64_t wr_id;
    uint32_t nr_sge;
    struct ibv_sge *sge;
};

struct fl_roce_rq {
    bool shared;
    uint32_t limit; /* a shared one: IBV_EVENT_SRQ_LIMIT_REACHED, once, when fewer are left; 0: never */
    /* private */
    struct fl_roce_rwqe *wqes;
    uint32_t head, tail, mask, cap, max_sge;
};

int fl_roce_rq_init(struct fl_roce_rq *rq, uint32_t cap, uint32_t max_sge, bool shared);
void fl_roce_rq_fini(struct fl_roce_rq *rq);
/* 0, -ENOMEM: full, -EINVAL: too many SGEs. For a shared queue; others post through their queue pair. */
int fl_roce_rq_post(struct fl_roce_rq *rq, const struct ibv_recv_wr *wr);
/* Room for cap requests; those that wait stay, in order. 0, -EINVAL: more wait than that, -ENOMEM. */
int fl_roce_rq_resize(struct fl_roce_rq *rq, uint32_t cap);

static inline uint32_t fl_roce_rq_left(const struct fl_roce_rq *rq)
{
    return rq->tail - rq->head;
}

/*
 * Packets that came ahead of others and wait for them, under selective retransmission: of all queue pairs of
 * one thread together, so that what a lossy fabric may cost is bounded. When none is left the peer sends
 * again. About 4 KiB each, of which only what was used at a time is resident. It outlives its queue pairs.
 */
struct fl_roce_held {
    uint32_t payload_len;
    uint8_t bytes[FL_IB_HDRS_MAX + 4096]; /* from the BTH on, without pad */
};

struct fl_roce_pool {
    uint32_t nr, nr_free;
    /* private */
    struct fl_roce_held *packets;
    uint16_t *free;
};

int fl_roce_pool_init(struct fl_roce_pool *pool, uint32_t nr); /* 0, -EINVAL, -ENOMEM */
void fl_roce_pool_fini(struct fl_roce_pool *pool);

/* Fixed when a queue pair is made */
struct fl_roce_cap {
    enum ibv_qp_type type; /* IBV_QPT_RC, _UC or _UD */
    uint32_t qpn;
    uint32_t max_send_wr, max_recv_wr; /* max_recv_wr does not count with rq */
    uint32_t max_send_sge, max_recv_sge;
    uint32_t max_inline;
    uint32_t max_dest_rd_atomic; /* room for as many */
    bool sq_sig_all;
    struct fl_roce_rq *rq;     /* shared receive queue, or NULL */
    struct fl_roce_pool *pool; /* RC: what selective retransmission takes, NULL: there is none */
};

/* Set on the way to RTR and RTS; the coded values are those of the verbs. */
struct fl_roce_attr {
    uint32_t dest_qpn, sq_psn, rq_psn;
    uint32_t qkey;
    uint16_t pkey;
    int access;                 /* what the peer may do: IBV_ACCESS_REMOTE_* */
    uint8_t mtu;                /* enum ibv_mtu */
    uint8_t timeout;            /* fl_ib_ack_timeout_ns() */
    uint8_t retry_cnt;          /* 0 to 7 */
    uint8_t rnr_retry;          /* 7: for ever */
    uint8_t min_rnr_timer;      /* what our RNR NAKs say: fl_ib_rnr_us() */
    uint8_t max_rd_atomic;      /* that we have on their way */
    uint8_t max_dest_rd_atomic; /* that the peer may have, at most that of the cap */
    uint32_t window;            /* packets not yet acknowledged at most, 0: default */
    uint32_t read_piece;        /* a longer READ is asked for in pieces of so many packets; 0: default */
    uint64_t line_rate;         /* of the port, bytes a second; 0: FL_ROCE_LINE_RATE */
    /* Set on the way to RTR, RC, the same at both ends. Only between two farlane peers that agreed on it:
     * others know nothing of it. */
    bool selective;   /* only what is missing is sent again; needs a pool */
    uint8_t nr_paths; /* spraying: fl_roce_tx.path is 0 to nr_paths - 1. A power of two up to
                       * FL_ROCE_PATHS_MAX, 0 is 1; more than 1 needs selective */
};

/* What came with a packet */
struct fl_roce_meta {
    /* UD: FL_ROCE_GRH_LEN bytes for the receive buffer; over IPv4 the header is their last 20 */
    const uint8_t *grh;
    bool ce; /* the IP header's ECN field says that congestion was met */
};

/* One packet to be sent: iov[0] is BTH and extended headers, then payload by reference, then pad. It holds
 * until the next call on the queue pair; the ICRC is the port's. */
struct fl_roce_tx {
    uint8_t hdr[FL_IB_HDRS_MAX];
    struct iovec iov[FL_ROCE_SGE_MAX + 2];
    int nr_iov;
    uint32_t len;      /* of all iov */
    struct ibv_ah *ah; /* UD: where it goes; NULL: to the connected peer */
    uint8_t path; /* packets of one path should stay in order, those of different paths need not: a port takes
                   * another source port for each */
};

struct fl_roce_stats {
    uint64_t nr_tx, nr_rx, tx_len, rx_len; /* packets and payload */
    uint64_t nr_acks, nr_coalesced;        /* ACKs sent; ACKs that another one made unnecessary */
    uint64_t nr_timeouts, nr_gone_back;    /* retransmissions begun: by the clock, because of what came */
    uint64_t nr_resent;                    /* packets sent again */
    uint64_t nr_nak_tx[5], nr_nak_rx[5];   /* enum fl_ib_nak */
    uint64_t nr_rnr_tx, nr_rnr_rx;
    uint64_t nr_cnp_tx, nr_cnp_rx; /* congestion notifications */
    uint64_t nr_duplicates;        /* requests seen before */
    uint64_t nr_stale;             /* responses to nothing that waits */
    uint64_t nr_out_of_order;      /* requests after a gap */
    uint64_t
        nr_dropped; /* not for us: wrong service, P_Key, Q_Key or state; UC and UD: no receive, bad length */
    /* selective retransmission */
    uint64_t nr_lost;             /* judged lost: packets of ours, and answers */
    uint64_t nr_probes;           /* sent */
    uint64_t nr_held, nr_no_room; /* came ahead and were kept; and were not, the pool being empty */
};

/* private from here on */

struct fl_roce_swqe {
    struct ibv_send_wr wr; /* next and sg_list are not used */
    struct ibv_sge *sge;
    uint8_t *inline_data;
    uint32_t nr_sge;
    uint32_t len;
    uint32_t first_psn, nr_psn; /* from its start on */
    uint32_t nr_done;           /* READ: responses that came, in order */
    bool started, is_inline;
    uint16_t nr_asked; /* READ, atomic: requests on their way */
    uint8_t status;    /* enum ibv_wc_status of a fault found here while sending */
};

struct fl_roce_requester {
    struct fl_roce_swqe *wqes;
    uint32_t head, cur,
        tail; /* oldest not complete, next to be sent, next free: head <= cur <= tail, free running */
    uint32_t mask, cap;
    uint32_t psn_una;  /* oldest not acknowledged: in the WQE at head */
    uint32_t psn_next; /* to be sent: in the WQE at cur */
    uint32_t psn_max;  /* never sent yet */
    uint32_t window;   /* packets on their way: attr.window, or less while much is lost */
    uint32_t nr_moved, nr_missed, nr_since_back;
    uint32_t nr_rd; /* READ requests and atomics on their way */
    uint32_t nr_unasked;
    uint8_t retry_left, rnr_left;
    bool retrying; /* gone back, and nothing new acknowledged since */
    bool drained;  /* SQD: it was said */
    uint64_t timeout_at, rnr_at;
};

enum fl_roce_rd_kind { FL_ROCE_RD_NONE, FL_ROCE_RD_READ, FL_ROCE_RD_ATOMIC };

/* A READ or atomic request kept so that its response can be sent again (9.4.4, 9.7.4) */
struct fl_roce_rd {
    uint8_t kind;
    bool pending; /* responses are still to be sent */
    bool replay;  /* they were sent before */
    bool whole;   /* READ: each of them was sent once */
    uint32_t first_psn, nr_psn;
    uint32_t next;  /* READ: index of the next response */
    uint32_t start; /* index of the first response to this request: that one is called first or only */
    uint32_t end;   /* one past the last response to this request */
    uint64_t va, len;
    uint32_t rkey, msn;
    uint64_t original; /* atomic: what was there */
};

struct fl_roce_recv { /* the receive taken for the message that is coming in */
    bool taken;
    uint64_t wr_id;
    uint32_t nr_sge;
    uint64_t room;
    struct ibv_sge sge[FL_ROCE_SGE_MAX];
};

struct fl_roce_responder {
    uint32_t epsn, msn;
    int prev;      /* opcode of the packet before, -1: none */
    bool gap_told; /* an RNR or sequence NAK was sent for epsn */
    bool failed;   /* a fatal NAK is on its way or sent */
    bool broken;   /* UC: the rest of this message is thrown away */
    /* message that is coming in */
    struct fl_roce_recv recv;
    uint64_t va;
    uint32_t rkey, write_len, offset;
    /* answers to be sent, after those of rd[] */
    bool ack_pending, nak_pending, cnp_pending;
    uint8_t nak_syndrome;
    uint8_t l3_type; /* of the datagram, for its completion */
    uint32_t ack_psn, nak_psn;
    struct fl_roce_rd *rd; /* ring of the last max_dest_rd_atomic requests */
    uint32_t rd_head, nr_rd;
    uint32_t nr_pending, first_pending; /* of rd[]; first_pending: counted from rd_head */
};

struct fl_roce_again { /* answers to a READ that are to be sent again */
    uint32_t psn, nr;
    uint32_t start; /* index of the first one asked for */
};

#define FL_ROCE_SPAN_WORDS (FL_ROCE_SPAN / 64)
#define FL_ROCE_AGAIN_MAX  64

/* Selective retransmission. PSNs are those from the oldest missing on; of a READ: those of its answers. */
struct fl_roce_selective {
    /* requester */
    uint64_t seen[FL_ROCE_SPAN_WORDS];   /* at the peer, or the answer came */
    uint64_t lost[FL_ROCE_SPAN_WORDS];   /* to be sent, or asked for, again */
    uint64_t fresh[FL_ROCE_SPAN_WORDS];  /* that was done since the last probe */
    uint64_t closed[FL_ROCE_SPAN_WORDS]; /* ... before it: the answer to the probe judges them */
    uint64_t heard[FL_ROCE_SPAN_WORDS];  /* this READ request is at the peer */
    uint32_t psn_heard;                  /* the peer has executed all requests before it */
    uint32_t nr_out;                     /* sent, and neither seen nor lost */
    uint32_t nr_lost, nr_fresh, nr_closed;
    /* newest seen on each path: requests, answers to READs */
    uint32_t high[FL_ROCE_PATHS_MAX], high_read[FL_ROCE_PATHS_MAX];
    uint32_t found; /* the request that was looked for last */
    uint32_t turn;  /* of the paths for what is sent again */
    bool probe_due, probing, timed;
    uint32_t probe, timed_psn;
    be32 probe_serial;
    uint64_t probe_at, timed_at, srtt, rttvar, pto_at;
    uint32_t nr_ptos; /* since something moved */
    uint32_t nr_vain; /* rounds since something moved in which something was missing again */
    bool by_clock;    /* what the probe closes is what the clock found, not what was sent again */
    bool doomed;      /* the peer refused doom_psn; answers before it are missing yet */
    uint8_t doom_status;
    uint32_t doom_psn, rnr_psn;
    /* responder */
    uint64_t held[FL_ROCE_SPAN_WORDS];
    uint16_t slots[FL_ROCE_SPAN]; /* where in the pool */
    uint32_t nr_held, nr_unsaid;
    bool echo_due;
    uint32_t echo, answer_turn;
    struct fl_roce_again again[FL_ROCE_AGAIN_MAX];
    uint32_t again_head, nr_again;
    struct {
        struct fl_sack head;
        be32 bits[FL_ROCE_SPAN / 32];
    } sack; /* the one that is being sent */
};

struct fl_roce_qp {
    const struct fl_roce_ops *ops;
    void *owner;
    enum ibv_qp_state state;
    struct fl_roce_cap cap;
    struct fl_roce_attr attr;
    struct fl_roce_stats stats;
    bool direct; /* the owner can reach the peer's memory: ops->direct */

    /* private */
    uint32_t mtu;
    uint64_t timeout_ns;
    uint32_t read_piece; /* answers that one READ request asks for, at most */
    struct fl_roce_rq *rq, own_rq;
    struct fl_roce_requester req;
    struct fl_roce_responder resp;
    struct fl_roce_congestion cc;
    struct fl_roce_selective *sel; /* with a pool */
    bool held;                     /* the rate held something back */
    bool turn;                     /* whose packet is next, when both sides have one */
    uint32_t nr_passed;            /* requests that went before an acknowledgement */
};

/* 0, -EINVAL: type or a number, -ENOMEM. In state RESET. */
int fl_roce_qp_init(struct fl_roce_qp *qp, const struct fl_roce_ops *ops, const struct fl_roce_cap *cap,
                    void *owner);
void fl_roce_qp_fini(struct fl_roce_qp *qp); /* no completions any more */

/*
 * To another state. INIT, RTR and RTS follow RESET in this order; attr counts from then on as far as the
 * verbs have each value set at that step. RESET: everything forgotten. ERR: everything that was posted
 * completes with WR_FLUSH_ERR. -EINVAL: not a way that 10.3.1 knows, or a value of attr out of range; nothing
 * is changed then. What the verbs allow on a caller's side is the caller's to check.
 */
int fl_roce_qp_modify(struct fl_roce_qp *qp, enum ibv_qp_state to, const struct fl_roce_attr *attr);

/*
 * One request each; its next is not looked at, its SGEs and inline data are copied. 0; -EINVAL: state,
 * opcode, number of SGEs, or length; -ENOMEM: queue full. In ERR it is flushed at once.
 */
int fl_roce_qp_post_send(struct fl_roce_qp *qp, const struct ibv_send_wr *wr);
int fl_roce_qp_post_recv(struct fl_roce_qp *qp, const struct ibv_recv_wr *wr);
/* The newest nr requests were not posted after all. Nothing else was called since then; not in ERR. */
void fl_roce_qp_take_back(struct fl_roce_qp *qp, uint32_t nr);

/* The next packet to be sent; false: none for now. Call it until false: sends without acknowledgement
 * complete at the call after theirs. */
bool fl_roce_qp_tx(struct fl_roce_qp *qp, uint64_t now, struct fl_roce_tx *tx);
void fl_roce_qp_rx(struct fl_roce_qp *qp, const struct fl_ib_packet *packet, const struct fl_roce_meta *meta,
                   uint64_t now);
/*
 * A request that changes nothing, and that whoever is there acknowledges. False: there is no need for one, as
 * something waits for an answer anyway, or the queue pair is not in RTS, or not RC.
 */
bool fl_roce_qp_knock(struct fl_roce_qp *qp, struct fl_roce_tx *tx);
/* Of answers there is only an acknowledgement to be sent: good news that can wait a little. */
bool fl_roce_qp_owes_ack(const struct fl_roce_qp *qp);
/*
 * A SEND that came whole by another way than packets, and keeps the order with them: into the next receive.
 * imm in network byte order; NULL: none. False: it did not fit, or was not expected, and the queue pair is in
 * ERR, unless it was not ready to receive at all.
 */
bool fl_roce_qp_message(struct fl_roce_qp *qp, const void *data, uint32_t len, const uint32_t *imm,
                        bool solicited);
uint64_t fl_roce_qp_deadline(const struct fl_roce_qp *qp); /* FL_ROCE_NEVER: none */
void fl_roce_qp_tick(struct fl_roce_qp *qp, uint64_t now);

#endif
