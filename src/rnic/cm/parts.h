/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the connection manager share. */
#ifndef FL_RNIC_CM_PARTS_H
#define FL_RNIC_CM_PARTS_H

#include "base/list.h"
#include "loop/timer.h"
#include "rnic/cm/cm.h"

#define FL_CM_ANSWERS_MAX 64                         /* answers to strangers that wait to be sent */
#define FL_CM_AWAITED_MAX 16u                        /* fl_cm_await() */
#define FL_CM_AWAITED_NS  (2000 * UINT64_C(1000000)) /* perftest comes back after one second */
#define FL_CM_KEPT_MAX    1024  /* connections that are over, kept so that repeats get the same answer */
#define FL_CM_PAST_LEN    4096u /* requests that are over: past.c */

/* What a peer's time codes count as: none makes us fast without end, or wait for days */
#define FL_CM_PEER_CODE_MIN     10 /* 4 ms */
#define FL_CM_PEER_CODE_MAX     22 /* 17 s */
#define FL_CM_PEER_SERVICE_MAX  24 /* 69 s, what Linux asks for */
#define FL_CM_TIMEWAIT_CODE_MAX 20
#define FL_CM_ACK_TIMEOUT       17

enum fl_cm_state {
    FL_CM_REQ_SENT,  /* REP or REJ is to come */
    FL_CM_REQ_RCVD,  /* accept or reject is to come */
    FL_CM_REP_SENT,  /* RTU is to come */
    FL_CM_REP_RCVD,  /* ready or reject is to come */
    FL_CM_UP,        /* established */
    FL_CM_DREQ_SENT, /* DREP is to come */
    FL_CM_TIMEWAIT,  /* not connected any more; answers DREQ */
    FL_CM_SIDR_SENT,
    FL_CM_SIDR_RCVD,
    /* Kept for a while so that repeats are known: */
    FL_CM_REJ_SENT,
    FL_CM_SIDR_REPLIED,
    FL_CM_ENDED,  /* by the peer's REJ: repeats of its REQ are not new */
    FL_CM_CLOSED, /* in no table; waits for its owner's destroy only */
};

enum { FL_CM_TX_ANSWER = 1, FL_CM_TX_MRA = 2, FL_CM_TX_OUT = 4 };

struct fl_cm_conn {
    struct fl_list all, to_send, with_events, kept, waiting; /* links */
    struct fl_list by_id, by_peer, by_qpn;                   /* hash chains */
    struct fl_timer timer;           /* always in the heap: setting it needs no memory */
    struct fl_cm_listener *listener; /* while it counts for its backlog */
    void *owner;
    enum fl_cm_state state;
    bool orphan;  /* nobody owns it: no events, freed when it is over */
    bool passive; /* came by a peer's request */
    bool sidr;
    bool was_connected; /* or half so, and disconnected */
    bool confirmed;     /* passive: the peer has got our REP */
    bool mra_sent;
    bool mra_rcvd; /* since the last time that out was sent */
    uint32_t local_id, remote_id;
    uint64_t remote_guid, service_id;
    uint64_t tid, own_tid; /* of the connect, whoever began it; of what we begin */
    uint16_t src_port;
    uint8_t service, peer_ack_delay, service_timeout;
    struct fl_cm_route route;
    struct fl_cm_terms local, peer;

    uint8_t tx; /* FL_CM_TX_* that wait */
    /* The message that is sent again until it is answered, and the answer that is sent again when asked. */
    struct fl_cm_mad out, answer;
    uint64_t wait_ns; /* what the peer has to answer, and the way there and back */
    uint8_t nr_sent, retries;
    uint64_t grant_ns; /* what the peer grants us */

    uint16_t pending; /* bits of enum fl_cm_event_kind, told in this order */
    uint16_t reason;
    bool timed_out;
    /* What pending events are about: requests, responses and RTU; how it ended */
    struct fl_cm_mad said, said_end;
};

struct fl_cm_listener {
    struct fl_list link, waiting;
    uint64_t service_id;
    struct in6_addr addr;
    bool any;
    uint32_t backlog, nr_waiting;
    void *owner;
};

struct fl_cm {
    struct fl_cm_config config;
    struct fl_cm_stats stats;
    struct fl_list conns, to_send, with_events, kept, listeners;
    struct fl_list *by_id, *by_peer, *by_qpn; /* hash tables of hash_mask + 1 */
    uint32_t hash_mask;
    uint32_t nr_conns, nr_kept;
    struct fl_timer_heap timers;
    struct fl_cm_awaited {
        uint64_t service_id, at;
    } awaited[FL_CM_AWAITED_MAX];
    uint32_t nr_awaited; /* in all; the newest are kept */
    struct fl_cm_past {
        uint64_t key, until;
        uint16_t reason;
    } * past;          /* FL_CM_PAST_LEN */
    uint32_t id_count; /* goes through all IDs before one comes again */
    uint64_t nr_drawn;
    struct fl_cm_tx answers[FL_CM_ANSWERS_MAX];
    uint32_t answers_head, answers_tail;
};

/* random.c */
uint64_t fl_cm_hash(const struct fl_cm *cm, uint64_t a, uint64_t b); /* keyed */
uint64_t fl_cm_draw(struct fl_cm *cm);
uint32_t fl_cm_new_id(struct fl_cm *cm);

/* table.c: connections, and how they are found */
int fl_cm_conn_new(struct fl_cm *cm, struct fl_cm_conn **conn); /* -ENOSPC, -ENOMEM; it has an ID */
void fl_cm_conn_free(struct fl_cm *cm, struct fl_cm_conn *conn);
struct fl_cm_conn *fl_cm_find_id(const struct fl_cm *cm, uint32_t id);
/* By what a peer calls it; requests of SIDR have numbers of their own. */
struct fl_cm_conn *fl_cm_find_peer(const struct fl_cm *cm, const struct in6_addr *remote, uint32_t remote_id,
                                   bool sidr);
struct fl_cm_conn *fl_cm_find_qpn(const struct fl_cm *cm, const struct in6_addr *remote, uint64_t guid,
                                  uint32_t qpn);
void fl_cm_link_peer(struct fl_cm *cm, struct fl_cm_conn *conn); /* route.remote and remote_id are known */
void fl_cm_link_qpn(struct fl_cm *cm, struct fl_cm_conn *conn);
struct fl_cm_listener *fl_cm_find_listener(const struct fl_cm *cm, uint64_t service_id,
                                           const struct in6_addr *local);

/* conn.c: steps that all machines take */
static inline uint64_t fl_cm_code_ns(uint8_t code)
{
    return 4096ull << code;
}
uint64_t fl_cm_peer_code_ns(uint8_t code, uint8_t max);   /* bounded */
uint64_t fl_cm_repeats_ns(const struct fl_cm_conn *conn); /* how long a message of the peer may come again */
static inline void fl_cm_set_deadline(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t at)
{
    fl_timer_heap_set(&cm->timers, &conn->timer, at); /* it is in the heap, so this cannot fail */
}
void fl_cm_send(struct fl_cm *cm, struct fl_cm_conn *conn, uint8_t tx);
/* out is built: it is sent until an answer comes. wait_ns: what an answer may take. */
void fl_cm_send_out(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t wait_ns, uint8_t retries,
                    uint64_t now);
/* Sends out once more. false: it was sent often enough. */
bool fl_cm_send_again(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now);
/* Nothing of what waits to be sent is wanted any more. */
void fl_cm_send_nothing(struct fl_cm_conn *conn);
void fl_cm_send_mra(struct fl_cm *cm, struct fl_cm_conn *conn);
void fl_cm_tell(struct fl_cm *cm, struct fl_cm_conn *conn, enum fl_cm_event_kind kind,
                const struct fl_cm_mad *mad);
/* The peer ended what was being connected; a program that has not yet heard of it will not. */
void fl_cm_tell_end(struct fl_cm *cm, struct fl_cm_conn *conn, enum fl_cm_event_kind kind,
                    const struct fl_cm_mad *mad);
void fl_cm_leave_backlog(struct fl_cm_conn *conn);
/* To a state that is kept for a while: after that, CLOSED. */
void fl_cm_keep(struct fl_cm *cm, struct fl_cm_conn *conn, enum fl_cm_state state, uint64_t now);
void fl_cm_close(struct fl_cm *cm, struct fl_cm_conn *conn); /* frees an orphan */

/* ending.c */
void fl_cm_send_rej(struct fl_cm *cm, struct fl_cm_conn *conn, uint16_t reason, const void *ari,
                    size_t ari_len, const void *private_data, size_t private_len, uint64_t now);
void fl_cm_send_dreq(struct fl_cm *cm, struct fl_cm_conn *conn, const void *private_data, size_t private_len,
                     uint64_t now);
/* The time after it is over. */
void fl_cm_timewait_over(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now);
/* All repeats of out were in vain. */
void fl_cm_no_answer(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now);
/* A new connection has the queue pair of this one: the peer does not know this one any more. */
void fl_cm_end_stale(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now);
/* It is connected, or half so, and the new one is rejected for it (12.9.8.3.1). */
static inline bool fl_cm_blocks(const struct fl_cm_conn *conn)
{
    return conn->state == FL_CM_REP_SENT || conn->state == FL_CM_REP_RCVD || conn->state == FL_CM_UP;
}

/* message.c: MADs from connections and back. Lengths of private data and ari are checked by the caller. */
void fl_cm_build_req(const struct fl_cm *cm, struct fl_cm_conn *conn, const void *private_data,
                     size_t private_len);
void fl_cm_build_rep(const struct fl_cm *cm, struct fl_cm_conn *conn, const void *private_data,
                     size_t private_len);
void fl_cm_build_rtu(struct fl_cm_conn *conn, const void *private_data, size_t private_len);
void fl_cm_build_mra(const struct fl_cm_conn *conn, struct fl_cm_mad *mad);
void fl_cm_build_rej(const struct fl_cm *cm, struct fl_cm_conn *conn, uint16_t reason, const void *ari,
                     size_t ari_len, const void *private_data, size_t private_len);
void fl_cm_build_dreq(struct fl_cm_conn *conn, const void *private_data, size_t private_len);
void fl_cm_build_drep(struct fl_cm_conn *conn, uint64_t tid);
void fl_cm_build_sidr_req(struct fl_cm_conn *conn, const void *private_data, size_t private_len);
void fl_cm_build_sidr_rep(struct fl_cm_conn *conn, uint8_t status, uint32_t qpn, uint32_t qkey,
                          const void *private_data, size_t private_len);
void fl_cm_take_req(struct fl_cm_conn *conn, const struct fl_cm_mad *mad, const struct fl_cm_meta *meta);
void fl_cm_take_rep(struct fl_cm_conn *conn, const struct fl_cm_mad *mad);
/* Does a request whose service ID asks for an IP header have one, and one that says what the packet's does?
 */
enum fl_cm_ip { FL_CM_IP_RIGHT, FL_CM_IP_NONE, FL_CM_IP_FORGED };
enum fl_cm_ip fl_cm_check_ip(uint64_t service_id, const void *private_data, size_t len,
                             const struct fl_cm_meta *meta, uint16_t *src_port);

/* past.c: requests that are over, of which the network may still hold a copy */
void fl_cm_remember(struct fl_cm *cm, const struct fl_cm_conn *conn, uint64_t now);
void fl_cm_remember_rejected(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_req *req,
                             uint16_t reason, uint64_t now);
/* NULL: it is new. reason: what it was rejected for; 0: there is nothing more to say about it. */
const struct fl_cm_past *fl_cm_find_past(const struct fl_cm *cm, const struct fl_cm_meta *meta,
                                         const struct fl_cm_req *req, uint64_t now);

/* stranger.c: answers that need no connection */
void fl_cm_reject_stranger(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad,
                           enum fl_cm_about about, uint16_t reason, const void *ari, size_t ari_len);
void fl_cm_drep_stranger(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad);
void fl_cm_sidr_stranger(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad,
                         uint8_t status);

/* active.c */
bool fl_cm_is_terms_valid(const struct fl_cm_terms *terms);
/* Checks, and makes what a REQ or SIDR_REQ begins. */
int fl_cm_begin(struct fl_cm *cm, const struct fl_cm_route *route, uint64_t service_id, uint16_t src_port,
                const void *private_data, size_t private_len, size_t private_max, void *owner,
                struct fl_cm_conn **out);
/* What an answer may take to a message that is ours to begin. */
uint64_t fl_cm_own_wait_ns(const struct fl_cm *cm, const struct fl_cm_conn *conn);

/* passive.c */
/* What a request that came makes, in its listener's backlog. -ENOENT: nobody listens, -EAGAIN: backlog full,
 * -ENOSPC, -ENOMEM; counted. */
int fl_cm_new_request(struct fl_cm *cm, const struct fl_cm_meta *meta, uint64_t service_id, uint64_t now,
                      struct fl_cm_conn **out);

/* active.c, passive.c, ending.c, sidr.c: a message came */
typedef void fl_cm_rx_fn(struct fl_cm *cm, const struct fl_cm_meta *meta, const struct fl_cm_mad *mad,
                         uint64_t now);
fl_cm_rx_fn fl_cm_rx_req, fl_cm_rx_rep, fl_cm_rx_rtu, fl_cm_rx_mra, fl_cm_rx_rej, fl_cm_rx_dreq,
    fl_cm_rx_drep, fl_cm_rx_sidr_req, fl_cm_rx_sidr_rep;
/* The connection that a message names by our ID, if it comes from its peer; else NULL, and counted. */
struct fl_cm_conn *fl_cm_named(struct fl_cm *cm, const struct fl_cm_meta *meta, be32 id, bool sidr);

#endif
