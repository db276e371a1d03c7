/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection manager of InfiniBand (IBA volume 1, chapter 12) as RoCE v2 uses it, without I/O: MADs,
 * calls and the time go in; MADs, events and the next deadline come out. It opens no socket and reads no
 * clock. One engine serves a process, whatever its addresses. A port, the simulation and the fuzzer move the
 * MADs:
 *
 *   fl_cm_rx(cm, &meta, bytes, len, now);          a MAD that came to QP1
 *   if (now >= fl_cm_deadline(cm)) fl_cm_tick(cm, now);
 *   while (fl_cm_next_event(cm, &event)) ...       what the program is to know; any call may be made here
 *   while (fl_cm_tx(cm, &tx)) send(tx.mad, FL_MAD_LEN) to QP1 of tx.remote, with FL_IB_QP1_QKEY
 *
 * After rx, tick and every call with `now` there may be events to take and MADs to send. One thread at a
 * time. Times are nanoseconds of any clock that does not go back.
 *
 * A connection (struct fl_cm_conn) is made by fl_cm_connect() or fl_cm_resolve(), or by a peer's request, and
 * is the caller's from the event that names it first until fl_cm_conn_destroy(). That may be called at any
 * time: it ends what still runs (REJ or DREQ to the peer, repeated as need be, though nobody waits for it),
 * and no event names the connection again, not even one that was waiting.
 *
 *   active                              passive
 *   fl_cm_connect()                     fl_cm_listen()
 *                    REQ ->             CONNECT_REQUEST: queue pair to RTR, then
 *                    <- REP             fl_cm_accept()       or fl_cm_reject()
 *   CONNECT_RESPONSE: queue pair to RTS,
 *   fl_cm_ready()    RTU ->             ESTABLISHED: queue pair to RTS
 *   ...                                 (or fl_cm_established(): the peer's data came before its RTU)
 *   fl_cm_disconnect() by either        DREQ, answered by the engine: DISCONNECTED on both sides, once
 *   TIMEWAIT_EXIT: the queue pair number may be used again
 *
 * Each connection that was begun ends at both sides, within a time that its retries bound, in one of:
 * established (the active side: fl_cm_ready() returned 0), REJECTED, UNREACHABLE; or its owner destroyed it
 * before. The engine repeats what is lost, answers what is repeated, tells the peer to wait (MRA) when the
 * program is slow, and drops MADs of a connection that come from another address than the peer's.
 *
 * Between two farlane peers, REQ and REP also say what more they can (enum fl_cm_feature), in a place that
 * others ignore: see docs/design/cm.md. Private data keeps librdmacm's lengths.
 */
#ifndef FL_RNIC_CM_CM_H
#define FL_RNIC_CM_CM_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "wire/ib_cm.h"

#define FL_CM_NEVER UINT64_MAX

/* Private data of the program, at most. IP: service IDs of IP port spaces, whose REQ begins with the IP
 * header. */
#define FL_CM_CONNECT_IP_LEN (FL_CM_REQ_PRIVATE_LEN - sizeof(struct fl_cm_ip_hdr))
#define FL_CM_RESOLVE_IP_LEN (FL_CM_SIDR_REQ_PRIVATE_LEN - sizeof(struct fl_cm_ip_hdr))
/* Others: FL_CM_REQ_PRIVATE_LEN, FL_CM_REP_PRIVATE_LEN (accept), FL_CM_REJ_PRIVATE_LEN (reject),
 * FL_CM_RTU_PRIVATE_LEN (ready), FL_CM_DREQ_PRIVATE_LEN (disconnect), FL_CM_SIDR_REP_PRIVATE_LEN (reply). */

#define FL_CM_BACKLOG_MAX 1024u /* more is taken as that */

struct fl_cm;
struct fl_cm_conn;
struct fl_cm_listener;

/* What a zero stands for is given behind it. Time codes are IBA's: 4.096 us times 2 to the code. */
struct fl_cm_config {
    uint64_t guid;    /* of the CA, in REQ and REP: what queue pair numbers are unique with */
    uint64_t seed[2]; /* random, and no one else's: communication IDs and PSNs are hard to guess by it */
    uint32_t id_prefix, id_mask; /* communication IDs have these upper bits: id & id_mask == id_prefix */
    uint32_t max_conns;          /* connections of all kinds that there may be at a time (65536) */
    uint8_t response_timeout;    /* within which a peer's CM answers, and ours: time code (20: 4.3 s) */
    uint8_t retries;             /* of REQ, REP, DREQ and SIDR_REQ, at most 15 (15); FL_CM_NO_RETRIES */
    uint8_t service_timeout;     /* what our MRAs ask for: time code (24: 69 s) */
    uint8_t ack_delay;           /* of our queue pairs, in REP: time code (15) */
};
#define FL_CM_NO_RETRIES 0xff

/* What more than the standard's a peer can do; both must */
enum fl_cm_feature {
    FL_CM_SELECTIVE = 1u << 0, /* selective retransmission */
    FL_CM_SPRAY = 1u << 1,     /* packets in any order, over many source ports */
    FL_CM_SHM = 1u << 2,       /* shared memory, if on the same host */
    FL_CM_KNOCK = 1u << 3,     /* a process, asked now and then whether it is still there: fl_cm_knock() */
};

/* From us to the peer. IPv4 addresses are ::ffff:a.b.c.d. Codes are the verbs'. */
struct fl_cm_route {
    struct in6_addr local, remote;    /* GIDs */
    uint32_t scope_id;                /* of link-local addresses: interface index */
    uint32_t flow_label;              /* 20 bits */
    uint16_t pkey;                    /* 0: 0xffff */
    uint8_t traffic_class, hop_limit; /* hop_limit 0: 64 */
    uint8_t mtu;                      /* path MTU: 1 (256) to 5 (4096) */
    uint8_t ack_timeout;              /* of a queue pair at either end; 0: 17 (0.5 s) */
};

/*
 * What one side says of its queue pair. Ours: as given. A peer's: as ours must be set, that is
 * responder_resources is what we may be asked to answer (the peer's initiator depth), initiator_depth what we
 * may ask for; after CONNECT_RESPONSE neither is more than we offered. The counts are what the one who hears
 * them is to use.
 */
struct fl_cm_terms {
    uint32_t qpn, psn; /* first PSN that this side expects: the other starts to send with it */
    uint8_t responder_resources, initiator_depth;
    uint8_t retry_count; /* in REQ only: of a passive side not used; in CONNECT_RESPONSE our own */
    uint8_t rnr_retry_count;
    bool flow_control, srq;
    uint16_t features;                /* enum fl_cm_feature; 0: the peer is not farlane, or agreed to none */
    uint32_t ece_vendor, ece_options; /* enhanced connection establishment, the program's: 24 and 32 bits */
};

struct fl_cm_connect {
    uint64_t service_id; /* fl_cm_service_id(), or any other without IP header */
    uint16_t src_port;   /* with an IP service ID */
    uint8_t service;     /* FL_IB_RC or FL_IB_UC */
    struct fl_cm_route route;
    struct fl_cm_terms terms;
    const void *private_data;
    size_t private_len;
    void *owner; /* comes back in events */
};

struct fl_cm_resolve {
    uint64_t service_id;
    uint16_t src_port;
    struct fl_cm_route route; /* mtu and ack_timeout are not used */
    const void *private_data;
    size_t private_len;
    void *owner;
};

enum fl_cm_event_kind {
    FL_CM_CONNECT_REQUEST,  /* passive, a new conn; owner is the listener's until fl_cm_set_owner() */
    FL_CM_CONNECT_RESPONSE, /* active: accepted; fl_cm_ready() or fl_cm_reject() */
    FL_CM_ESTABLISHED,      /* passive */
    FL_CM_REJECTED,         /* the peer's REJ: reason */
    FL_CM_UNREACHABLE,      /* the peer does not answer */
    FL_CM_DISCONNECTED,     /* timed_out: the peer did not confirm */
    FL_CM_TIMEWAIT_EXIT,    /* after DISCONNECTED */
    FL_CM_SIDR_REQUEST,     /* like CONNECT_REQUEST; fl_cm_sidr_reply() */
    FL_CM_SIDR_RESPONSE,    /* sidr_status, and if it is FL_CM_SIDR_OK: qpn and qkey */
};

struct fl_cm_event {
    enum fl_cm_event_kind kind;
    struct fl_cm_conn *conn;
    void *owner;
    struct fl_cm_listener *listener; /* of *_REQUEST */
    uint16_t reason;                 /* REJECTED: enum fl_cm_reason */
    bool timed_out;
    uint8_t sidr_status; /* enum fl_cm_sidr_status */
    uint32_t qpn, qkey;
    /* As long as the message has room for (the wire has no length): zeroes follow what the peer gave. NULL:
     * the event has none. ari: additional information of REJECTED. Valid until the next call. */
    const void *private_data, *ari;
    size_t private_len, ari_len;
};

struct fl_cm_tx {
    struct in6_addr local, remote;
    uint32_t scope_id;
    uint8_t traffic_class, hop_limit;
    struct fl_cm_mad mad;
};

/* What came with a MAD */
struct fl_cm_meta {
    struct in6_addr local, remote; /* to whom it came, and who sent it */
    uint32_t scope_id;
    uint32_t src_qpn; /* DETH */
    uint8_t traffic_class, hop_limit;
};

struct fl_cm_stats {
    uint64_t nr_rx[16], nr_tx[16]; /* by attribute ID less FL_CM_REQ */
    uint64_t nr_retries;           /* sent again since no answer came */
    uint64_t nr_duplicates;        /* came again, and answered as before or ignored */
    uint64_t nr_timeouts;          /* retries used up */
    uint64_t nr_malformed;         /* not a MAD of the CM, or a value that is not allowed */
    uint64_t nr_forged;            /* from another address than that of the connection or in the message */
    uint64_t nr_unknown;           /* of no connection that is here */
    uint64_t nr_backlog;           /* requests dropped since the backlog was full: the peer asks again */
    uint64_t nr_closed;            /* requests dropped since a listener may come: fl_cm_await() */
    uint64_t nr_no_resources;      /* requests rejected since there are too many connections */
    uint64_t nr_no_service;        /* requests to a service ID that nobody serves */
    uint64_t nr_stale;             /* connections that a new one of the same peer queue pair ended */
    uint64_t nr_answers_dropped;   /* no room for an answer to a stranger */
};

/* 0, -EINVAL, -ENOMEM */
int fl_cm_create(const struct fl_cm_config *config, struct fl_cm **cm);
/* Forgets everything at once; no MAD is sent, connections and listeners are freed. */
void fl_cm_destroy(struct fl_cm *cm);

/* Of communication IDs from now on, where a process has got another number at its host. The mask stays. */
void fl_cm_set_id_prefix(struct fl_cm *cm, uint32_t id_prefix);

void fl_cm_rx(struct fl_cm *cm, const struct fl_cm_meta *meta, const void *bytes, size_t len, uint64_t now);
bool fl_cm_tx(struct fl_cm *cm, struct fl_cm_tx *tx);
bool fl_cm_next_event(struct fl_cm *cm, struct fl_cm_event *event);
uint64_t fl_cm_deadline(const struct fl_cm *cm); /* FL_CM_NEVER: none */
void fl_cm_tick(struct fl_cm *cm, uint64_t now);
const struct fl_cm_stats *fl_cm_stats(const struct fl_cm *cm);
uint32_t fl_cm_nr_conns(const struct fl_cm *cm); /* with those that nobody owns any more */

/*
 * Requests for a service ID, at local addresses that equal `addr`; ::ffff:0.0.0.0: at all of IPv4, :: at all
 * of IPv6, NULL: at all. The one that names less goes before the one that names more. backlog: requests that
 * may wait for fl_cm_accept(), fl_cm_reject() or fl_cm_sidr_reply(), at least 1; what comes beyond is
 * dropped, and the peer asks again. RC, UC and SIDR are one: port spaces keep them apart. -EADDRINUSE:
 * service ID and address are taken. -ENOMEM, -EINVAL.
 */
int fl_cm_listen(struct fl_cm *cm, uint64_t service_id, const struct in6_addr *addr, uint32_t backlog,
                 void *owner, struct fl_cm_listener **listener);
/*
 * Somebody is about to listen on it: was bound to it, or closed a listener, which many do only to open
 * another one. Peers do not wait for that: for 2 s their requests are dropped, which they repeat, and not
 * rejected. So are requests for the port of that number in another space.
 */
void fl_cm_await(struct fl_cm *cm, uint64_t service_id, uint64_t now);
/* Requests whose event was not taken yet are rejected; others stay with their owner. */
void fl_cm_listener_destroy(struct fl_cm *cm, struct fl_cm_listener *listener, uint64_t now);

/* 0 and *conn, -EINVAL: a value or length, -ENOSPC: max_conns, -ENOMEM. */
int fl_cm_connect(struct fl_cm *cm, const struct fl_cm_connect *connect, uint64_t now,
                  struct fl_cm_conn **conn);
int fl_cm_resolve(struct fl_cm *cm, const struct fl_cm_resolve *resolve, uint64_t now,
                  struct fl_cm_conn **conn);

/*
 * The following return 0, -EINVAL: a value or length, or -ENOTCONN: the connection is not in a state for it,
 * be it that the peer ended it meanwhile (then the event that says so is waiting or was taken). Private data
 * is copied.
 */

/* After CONNECT_REQUEST. Of terms, features that the peer did not offer are left out. */
int fl_cm_accept(struct fl_cm *cm, struct fl_cm_conn *conn, const struct fl_cm_terms *terms,
                 const void *private_data, size_t private_len, uint64_t now);
/* After CONNECT_REQUEST or CONNECT_RESPONSE. reason: FL_CM_REJ_CONSUMER unless the cause is another. ari: at
 * most FL_CM_REJ_ARI_LEN, or none. No event follows. */
int fl_cm_reject(struct fl_cm *cm, struct fl_cm_conn *conn, uint16_t reason, const void *ari, size_t ari_len,
                 const void *private_data, size_t private_len, uint64_t now);
/* After CONNECT_RESPONSE: ready to use. */
int fl_cm_ready(struct fl_cm *cm, struct fl_cm_conn *conn, const void *private_data, size_t private_len,
                uint64_t now);
/* After CONNECT_REQUEST or CONNECT_RESPONSE: tells the peer that an answer will take a while. The engine does
 * so by itself after half of the time that the peer grants. service_timeout: time code, 0: the engine's. */
int fl_cm_delay(struct fl_cm *cm, struct fl_cm_conn *conn, uint8_t service_timeout, uint64_t now);
/* Passive: a packet came on the connection's queue pair, so the peer is ready though its RTU was lost.
 * -ENOTCONN, which is no fault: it was known. */
int fl_cm_established(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now);
/* DISCONNECTED follows, unless it was told already: then 0 and nothing happens. */
int fl_cm_disconnect(struct fl_cm *cm, struct fl_cm_conn *conn, const void *private_data, size_t private_len,
                     uint64_t now);
/*
 * Sends the last message of the connecting once more: a peer that knows the connection takes it for a repeat, another one
 * rejects it, which ends the connection. Only where FL_CM_KNOCK was agreed. -ENOTCONN: it is not established.
 */
int fl_cm_knock(struct fl_cm *cm, struct fl_cm_conn *conn);
/* The peer is known to be gone: DISCONNECTED follows, timed_out, without a word to it. -ENOTCONN: as above. */
int fl_cm_lost(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now);
/* After SIDR_REQUEST. qpn and qkey count with FL_CM_SIDR_OK. */
int fl_cm_sidr_reply(struct fl_cm *cm, struct fl_cm_conn *conn, enum fl_cm_sidr_status status, uint32_t qpn,
                     uint32_t qkey, const void *private_data, size_t private_len, uint64_t now);

void fl_cm_conn_destroy(struct fl_cm *cm, struct fl_cm_conn *conn, uint64_t now);
/* All of them, as a process does that ends: what fl_cm_tx() gives then are its last words. */
void fl_cm_leave(struct fl_cm *cm, uint64_t now);

void fl_cm_set_owner(struct fl_cm_conn *conn, void *owner);
/* Known from the first event on, as long as the connection lives. */
const struct fl_cm_route *fl_cm_route(const struct fl_cm_conn *conn);
uint64_t fl_cm_conn_service_id(const struct fl_cm_conn *conn);
uint32_t fl_cm_local_id(const struct fl_cm_conn *conn);
uint32_t fl_cm_remote_id(const struct fl_cm_conn *conn); /* as fl_cm_peer() */
/* Of the IP header: of the side that asked. 0: there is none. */
uint16_t fl_cm_src_port(const struct fl_cm_conn *conn);
uint8_t fl_cm_service(const struct fl_cm_conn *conn); /* FL_IB_RC, FL_IB_UC; of SIDR: FL_IB_UD */
/* From CONNECT_REQUEST or CONNECT_RESPONSE on. */
const struct fl_cm_terms *fl_cm_peer(const struct fl_cm_conn *conn);
/*
 * What the timeout of our queue pair is to be: the passive side takes the peer's word, the active
 * side adds the peer's ACK delay. Known as fl_cm_peer() is.
 */
uint8_t fl_cm_ack_timeout(const struct fl_cm_conn *conn);
/* A random PSN to begin with. */
uint32_t fl_cm_random_psn(struct fl_cm *cm);

#endif
