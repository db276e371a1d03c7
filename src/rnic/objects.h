/* SPDX-License-Identifier: Apache-2.0 */
/* The objects behind the verbs' structs. What a lock protects stands beside it; without a word: rnic->lock.
 */
#ifndef FL_RNIC_OBJECTS_H
#define FL_RNIC_OBJECTS_H

#include "rnic/device.h"
#include "rnic/rnic.h"
#include "rnic/shm/message.h"
#include "rnic/verbs.h"

struct fl_context;
struct fl_shm_link;
struct fl_srq;

/* An event waiting for ibv_get_async_event(). Counted in *nr_told when it is given out. */
struct fl_async_event {
    struct fl_list link;
    struct ibv_async_event event;
    uint32_t *nr_told; /* of the object; NULL: of the port */
};

struct fl_context {
    struct fl_rnic *rnic;
    struct fl_device *device;
    struct fl_list link; /* device's contexts, for port events; fl_devices_lock */
    uint32_t refs; /* the program's, and those of protection domains, completion queues, channels: atomic */
    pthread_mutex_t events_lock;
    struct fl_list events; /* events_lock, and the next */
    uint32_t nr_events;
    struct verbs_context verbs; /* last: programs get &verbs.context */
};

struct fl_pd {
    struct ibv_pd pd;
    uint32_t number;       /* as in key entries; a parent domain has that of its protection domain */
    uint32_t nr_objects;   /* atomic */
    struct ibv_pd *parent; /* what a parent domain stands for */
    struct ibv_td *td;
};

struct fl_mr {
    struct ibv_mr mr;
    uint32_t slot;
    int access;
    bool guarded; /* fl_guard_add() */
};

struct fl_mw {
    struct ibv_mw mw;
    uint32_t slot;
};

struct fl_ah {
    struct ibv_ah ah;
    struct fl_port_flow flow;
};

struct fl_channel {
    struct ibv_comp_channel channel; /* fd: an eventfd that counts events (EFD_SEMAPHORE) */
    pthread_mutex_t lock;
    struct fl_list cqs; /* with events to be given out: fl_cq.event_link; lock */
};

struct fl_cqe {
    struct ibv_wc wc;
    uint64_t at; /* ns, when the completion queue wants it */
};

/*
 * A ring that one producer at a time (rnic->lock) fills without the consumers' lock: it writes the entry,
 * then tail. Consumers, one at a time by lock, read the entry, then move head. Both count freely.
 */
struct fl_cq {
    union {
        struct ibv_cq cq;
        struct ibv_cq_ex ex;
    };
    struct fl_rnic *rnic;
    struct fl_cqe *ring;
    uint32_t mask;
    uint32_t tail; /* producer's; atomic */
    bool failed;   /* overrun; atomic */
    bool ignore_overrun, timestamps;
    uint32_t armed;    /* enum fl_cq_armed; atomic */
    uint32_t nr_users; /* queue pairs */
    uint32_t nr_async; /* async events given out; context's events_lock */

    pthread_mutex_t lock __attribute__((aligned(FL_CACHE_LINE)));
    uint32_t head;     /* consumers' */
    struct fl_cqe now; /* ibv_start_poll(): the entry being looked at */

    struct fl_list event_link; /* channel's lock, and the next two */
    uint32_t nr_events;        /* to be given out */
    uint32_t nr_told;          /* given out in all */
};

enum fl_cq_armed { FL_CQ_UNARMED, FL_CQ_ARMED_SOLICITED, FL_CQ_ARMED };

struct fl_srq {
    struct ibv_srq srq;
    struct fl_roce_rq rq;
    uint32_t number;
    uint32_t nr_users;
    uint32_t nr_told; /* context's events_lock */
};

/*
 * How a connected queue pair moves its data: by UDP through the engine, or by shared memory. Under
 * rnic->lock. Requests that are posted are copied; completions go to fl_qp_complete().
 */
struct fl_qp_path_ops {
    const char *name; /* "udp", "shm" */
    /* One request each, as fl_roce_qp_post_send() and _post_recv() */
    int (*post_send)(struct fl_qp *qp, const struct ibv_send_wr *wr);
    int (*post_recv)(struct fl_qp *qp, const struct ibv_recv_wr *wr);
    /* The newest nr requests, of which none has begun, were not posted after all. */
    void (*take_back)(struct fl_qp *qp, uint32_t nr);
    /* Requests in order, as far as they can be done at once: the first that cannot. NULL: there is no such
     * way. */
    struct ibv_send_wr *(*post_now)(struct fl_qp *qp, struct ibv_send_wr *wr);
    /* Requests were posted: sends what may be sent. */
    void (*kick)(struct fl_qp *qp);
    /* To another state, attr as for fl_roce_qp_modify() */
    int (*modify)(struct fl_qp *qp, enum ibv_qp_state to, const struct fl_roce_attr *attr);
    enum ibv_qp_state (*state)(const struct fl_qp *qp);
    void (*leave)(struct fl_qp *qp); /* the queue pair goes back to the engine's path; NULL: nothing to do */
};
extern const struct fl_qp_path_ops fl_qp_path_udp, fl_qp_path_shm;

struct fl_qp {
    union {
        struct ibv_qp qp;
        struct ibv_qp_ex ex;
    };
    struct fl_rnic *rnic;
    const struct fl_qp_path_ops *path;
    void *path_state;
    const char *path_reason;                /* why this path; static text */
    const char *was_shm;                    /* why it no longer goes by shared memory; NULL: it did not */
    struct fl_shm_link *link;               /* shared memory with the peer's process; NULL: by UDP */
    struct fl_shm_qp shown;                 /* to peers */
    uint64_t nr_mapped, nr_vm, direct_len;  /* done in the peer's memory: in mapped memory, by the kernel */
    uint64_t nr_not_direct;                 /* left to the peer's engine although their turn was there */
    uint32_t not_direct_why;                /* enum fl_shm_why of those since it was connected */
    uint64_t nr_ring;                       /* packets sent by shared memory */
    struct fl_key_memo own_keys, peer_keys; /* peer_keys: of the process of link */
    struct fl_shm_flow messages;            /* SENDs by shared memory without packets */
    uint64_t nr_messages_tx, nr_messages_rx, message_len; /* message_len: of those sent */
    uint64_t message_rx_len;
    struct fl_roce_qp roce;
    struct fl_port_flow flow; /* to the connected peer */
    struct fl_cq *send_cq, *recv_cq;
    struct fl_srq *srq;
    uint32_t pd_number;
    struct fl_list ready_link; /* rnic->ready */
    struct {
        uint64_t recv_turn;  /* of the RNIC, in which it last completed a receive */
        uint32_t nr_answers; /* receives in a row after which something was posted before the next turn */
        bool waits;          /* the acknowledgement that it owes was kept back in the last turn */
    } ack;
    struct fl_list datagram_link; /* rnic->datagrams */
    struct fl_timer timer;        /* in rnic->timers */
    bool doomed;                  /* its completion queue overran: to ERR after this turn */
    bool was_error;               /* the end of its receives was told */
    bool established;             /* the first packet was told */
    void *cm_id;                  /* whose connection it is; NULL: of no id of the connection manager */
    bool sqd_notify;
    bool selective, spray;   /* agreed with the peer, which is farlane, too; they count on the way to RTR */
    uint64_t nr_foreign;     /* packets from another address than the peer's */
    uint32_t nr_told;        /* async events given out; context's events_lock */
    struct ibv_qp_attr attr; /* as set, for ibv_query_qp() */
    struct ibv_qp_init_attr init;
    struct fl_qp_builder *builder; /* qp_ex.c; NULL: not asked for */
    fl_qp_place *place;            /* the answers to READs; NULL: where the requests say */
    void *place_arg;
};

static inline struct fl_context *fl_context_of(struct ibv_context *context)
{
    return FL_CONTAINER_OF(context, struct fl_context, verbs.context);
}
static inline struct fl_cq *fl_cq_of(struct ibv_cq *cq)
{
    return FL_CONTAINER_OF(cq, struct fl_cq, cq);
}
static inline struct fl_qp *fl_qp_of(struct ibv_qp *qp)
{
    return FL_CONTAINER_OF(qp, struct fl_qp, qp);
}
static inline struct fl_srq *fl_srq_of(struct ibv_srq *srq)
{
    return FL_CONTAINER_OF(srq, struct fl_srq, srq);
}
static inline struct fl_pd *fl_pd_of(struct ibv_pd *pd)
{
    return FL_CONTAINER_OF(pd, struct fl_pd, pd);
}
static inline struct fl_mr *fl_mr_of(struct ibv_mr *mr)
{
    return FL_CONTAINER_OF(mr, struct fl_mr, mr);
}
static inline struct fl_mw *fl_mw_of(struct ibv_mw *mw)
{
    return FL_CONTAINER_OF(mw, struct fl_mw, mw);
}
static inline struct fl_ah *fl_ah_of(struct ibv_ah *ah)
{
    return FL_CONTAINER_OF(ah, struct fl_ah, ah);
}
static inline struct fl_channel *fl_channel_of(struct ibv_comp_channel *channel)
{
    return FL_CONTAINER_OF(channel, struct fl_channel, channel);
}
/* A program that polls a queue which it has armed looks once more before it sleeps. */
static inline bool fl_cq_is_armed(const struct fl_cq *cq)
{
    return __atomic_load_n(&cq->armed, __ATOMIC_RELAXED) != FL_CQ_UNARMED;
}
static inline struct fl_qp *fl_qp_of_roce(struct fl_roce_qp *roce)
{
    return FL_CONTAINER_OF(roce, struct fl_qp, roce);
}

/* In a child of fork() nothing works, and nothing may touch a lock. */
static inline bool fl_gone(struct ibv_context *context)
{
    return fl_unlikely(fl_context_of(context)->rnic->gone);
}

/*
 * The RNIC, locked; NULL: all is gone, or the object was destroyed, perhaps while the lock was waited for:
 * then its place does not hold any more what it did.
 */
static inline struct fl_rnic *fl_lock_while(struct fl_rnic *rnic, void *const *place, const void *was)
{
    if (fl_unlikely(rnic->gone))
        return NULL;
    fl_rnic_lock(rnic);
    if (fl_likely(*place == was))
        return rnic;
    fl_rnic_unlock(rnic);
    return NULL;
}

static inline struct fl_rnic *fl_qp_lock(struct fl_qp *qp)
{
    struct fl_rnic *rnic = __atomic_load_n(&qp->rnic, __ATOMIC_RELAXED);
    return fl_lock_while(rnic, (void *const *)&qp->rnic, rnic);
}

/* Of an object that has nothing but its context */
static inline struct fl_rnic *fl_context_lock(struct ibv_context *const *context)
{
    struct ibv_context *was = __atomic_load_n(context, __ATOMIC_RELAXED);
    return fl_lock_while(fl_context_of(was)->rnic, (void *const *)context, was);
}

static inline void fl_count(uint32_t *nr, int by)
{
    __atomic_add_fetch(nr, (uint32_t)by, __ATOMIC_ACQ_REL);
}

/* One more of a kind of which a device has so many. False and errno: ENOMEM, there are none left; ENODEV. */
static inline bool fl_limit_take(struct ibv_context *context, enum fl_limited kind)
{
    if (fl_gone(context)) {
        errno = ENODEV;
        return false;
    }
    uint32_t *nr = &fl_context_of(context)->device->nr_objects[kind];
    if (__atomic_fetch_add(nr, 1, __ATOMIC_RELAXED) < FL_OBJECTS_MAX)
        return true;
    fl_count(nr, -1);
    errno = ENOMEM;
    return false;
}

static inline void fl_limit_give(struct ibv_context *context, enum fl_limited kind)
{
    fl_count(&fl_context_of(context)->device->nr_objects[kind], -1);
}

/* What was made of it; if that is nothing it is given back. */
static inline void *fl_limit_used(struct ibv_context *context, enum fl_limited kind, void *made)
{
    if (!made)
        fl_limit_give(context, kind);
    return made;
}

/* context.c: the functions that the verbs' inline functions call */
void fl_context_set_verbs(struct verbs_context *verbs);
/* One reference less; the last one ends it. */
void fl_context_put(struct fl_context *context);

/* async_event.c */
/* Any lock but events_lock may be held. nr_told: the object's counter. */
void fl_async_raise(struct fl_context *context, const struct ibv_async_event *event, uint32_t *nr_told);
/* The object is going: events about it that nobody fetched are thrown away, those given out waited for. */
void fl_async_forget(struct fl_context *context, const uint32_t *nr_told, pthread_mutex_t *mutex,
                     pthread_cond_t *cond, const uint32_t *nr_acked);

/* completion_queue.c, under rnic->lock */
/* One more completion; and then, for one or several, whoever waits for an event is told. */
void fl_cq_put(struct fl_cq *cq, const struct ibv_wc *wc);
void fl_cq_tell(struct fl_cq *cq, bool solicited);
void fl_cq_drop(struct fl_cq *cq, uint32_t qpn); /* completions of a queue pair that is reset or destroyed */

/* cq_channel.c */
void fl_channel_tell(struct fl_channel *channel, struct fl_cq *cq);
void fl_channel_forget(struct fl_channel *channel, struct fl_cq *cq);

/* address_handle.c: 0, or a positive errno and a line in the log */
int fl_flow_from_attr(struct fl_context *context, const struct ibv_ah_attr *attr, uint32_t entropy,
                      struct fl_port_flow *flow);

/* queue_pair.c, under rnic->lock */
extern const struct fl_roce_ops fl_qp_roce_ops;
/* Where memory of our own is that an SGE names; -EACCES. Under the lock. */
int fl_qp_ask_own_key(struct fl_qp *qp, uint32_t lkey, uint64_t addr, uint64_t len, int access,
                      uint64_t *ptr);
static inline int fl_qp_check_own_key(struct fl_qp *qp, uint32_t lkey, uint64_t addr, uint64_t len,
                                      int access, uint64_t *ptr)
{
    if (fl_likely(fl_key_is_known(&qp->rnic->keys, &qp->own_keys, lkey, access, addr, len, ptr)))
        return 0;
    return fl_qp_ask_own_key(qp, lkey, addr, len, access, ptr);
}
void fl_qp_complete(struct fl_qp *qp, const struct ibv_wc *wc, bool of_send, bool solicited);
/* Completions between the two are told of together. No lock is given up meanwhile. */
void fl_rnic_gather(struct fl_rnic *rnic);
void fl_rnic_gathered(struct fl_rnic *rnic);
/* After anything that may have changed what it has to do: its place among the ready ones, and its timer. */
void fl_qp_settle(struct fl_qp *qp);
/* The first packet of a connection, by whichever path */
void fl_qp_first_packet(struct fl_qp *qp, uint64_t now);
void fl_qp_deliver(struct fl_qp *qp, const struct fl_port_packet *packet, uint64_t now);

/* ack.c, under rnic->lock: a receive was completed; something was posted */
void fl_ack_received(struct fl_qp *qp);
void fl_ack_answered(struct fl_qp *qp);
/* It is its turn to send: may what it owes wait for the program's answer, or the next turn? */
bool fl_ack_may_wait(struct fl_qp *qp);
/* What it owes leaves while it can. */
void fl_ack_now(struct fl_qp *qp);

/* A datagram that was posted and has not left names this address handle. */
bool fl_qp_uses_ah(const struct fl_rnic *rnic, const struct ibv_ah *ah);

/* memory_region.c: a fl_guard_gone */
extern const struct fl_guard_ops fl_mr_guard_ops;
/* Regions at which an access failed are closed. Under the lock. */
void fl_mr_close_missed(struct fl_rnic *rnic);

/* memory_window.c, under rnic->lock: 0 or negative errno */
int fl_mw_bind(struct fl_qp *qp, const struct ibv_send_wr *wr);
int fl_key_invalidate(struct fl_qp *qp, uint32_t rkey, bool from_peer);
/* Names the objects of a bind by their slots, for the time after the post. */
int fl_mw_resolve(struct ibv_send_wr *wr);

/* qp_rules.c */
/* Are these the attributes that this step needs and allows? 0 or EINVAL, and a line in the log. */
int fl_qp_attr_check(const struct fl_qp *qp, enum ibv_qp_state from, enum ibv_qp_state to,
                     const struct ibv_qp_attr *attr, int mask);

/* queue_pair.c, under rnic->lock: on the way to RESET */
void fl_qp_reset(struct fl_qp *qp);

#endif
