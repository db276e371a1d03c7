/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software RNIC of this process and its objects, for the files of src/rnic (docs/design/rnic.md).
 * Programs see the verbs' own structs, which stand first in ours; verbs.h has the functions.
 *
 * Locks, in the order in which they may be taken: rnic->lock, completion queue (consumers), channel and
 * context (events). Whoever produces completions holds rnic->lock. Nothing calls a user back under a lock.
 */
#ifndef FL_RNIC_RNIC_H
#define FL_RNIC_RNIC_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>

#include "base/clock.h"
#include "base/list.h"
#include "loop/timer.h"
#include "rnic/key_table.h"
#include "rnic/port.h"
#include "rnic/roce/roce.h"

struct fl_cq;
struct fl_guard;
struct fl_qp;
struct fl_device;
struct fl_shm_path;
struct fl_stats_server;

#define FL_RNIC_POOL       4096 /* packets */
#define FL_RNIC_PATHS      8    /* where both ends spray */
#define FL_RNIC_PACKET_MAX (FL_IB_HDRS_MAX + 4096 + 4)

/*
 * Others who live on the RNIC's turns: the connection manager, shared memory. All calls are made under
 * rnic->lock, and must not take it. Members may be NULL. Registered before the first device is opened, or
 * under the lock.
 */
struct fl_rnic_client {
    struct fl_list link;
    /* Packets to QP1; true: taken. */
    bool (*management)(struct fl_rnic_client *client, const struct fl_port_packet *packet, uint64_t now);
    /* One turn. Returns how much was done. */
    int (*progress)(struct fl_rnic_client *client, uint64_t now);
    uint64_t (*deadline)(struct fl_rnic_client *client); /* FL_ROCE_NEVER: none */
    /* A connected queue pair got its first packet since it was connected. */
    void (*first_packet)(struct fl_rnic_client *client, struct fl_qp *qp, uint64_t now);
    void (*leave)(struct fl_rnic_client *client, uint64_t now); /* the process ends: last words */
    int wait_fd; /* readable when progress() has something to do; -1: none */
};

struct fl_rnic_stats {
    uint64_t nr_unknown_qpn; /* packets to queue pairs that are not (or no more) here */
    uint64_t nr_foreign;     /* packets to a connected queue pair from another address than its peer's */
    uint64_t nr_held;        /* packets that had to wait since the port had no room */
    uint64_t nr_turns, nr_thread_turns;
};

/* Queue pairs by number: 24 bits in two steps */
struct fl_qp_table {
    struct fl_qp **at[1 << 12];
};

/* A packet that the port did not take; the engine keeps none. Nothing else is sent before it. */
struct fl_rnic_held {
    bool full;
    struct fl_port_flow flow;
    struct fl_roce_tx tx;
    uint8_t bytes[FL_RNIC_PACKET_MAX];
};

struct fl_rnic {
    pthread_mutex_t lock;
    bool gone; /* in a child of fork(), and while the process ends: every call answers ENODEV */
    int refs;  /* open devices */
    struct fl_port *port;
    struct fl_key_table keys;
    struct fl_guard *guard; /* of registered memory; NULL: there is none on this system */
    struct fl_qp_table qps;
    uint32_t nr_qps, nr_qps_gone;
    struct fl_roce_pool pool; /* packets that came ahead of others, of all queue pairs */
    bool spray;               /* connections are offered to be spread over source ports */
    struct fl_list ready;     /* queue pairs that may have something to send: fl_qp.ready_link */
    struct fl_list datagrams; /* UD queue pairs: fl_qp.datagram_link */
    struct fl_list clients;
    struct fl_shm_path *shm;       /* shm_path.c; NULL: there is none */
    struct fl_stats_server *asked; /* stats.c; NULL: nobody can ask. The thread's, while it runs */
    struct fl_timer_heap timers; /* fl_qp.timer: never later than the queue pair's deadline, maybe earlier */
    struct fl_rnic_held held;
    struct {
        bool on, solicited;
        struct fl_cq *cq; /* with completions that nobody was told of yet */
    } gather;
    struct fl_rnic_stats stats;
    uint64_t now; /* of the turn */
    uint64_t port_asked_at, port_came_at,
        client_at;    /* when the port was asked, gave packets, and a client had work */
    bool polled_turn; /* by a program, which polls again soon */
    bool poison;      /* fields of failed completions that are not promised are filled with nonsense */

    /* rnic_thread.c */
    pthread_t thread;
    int epoll_fd, wake_fd, netlink_fd;
    bool stop;
    uint64_t polled_at;   /* when a program's thread last drove; atomic */
    bool refused;         /* one wanted to, while another thread did; atomic */
    uint64_t sleeps_till; /* the thread's next deadline; 0: it is awake; atomic */
    bool port_watched;    /* the thread wakes for packets; else programs drive; atomic */
    uint32_t nr_armed;    /* completion queues whose programs wait for an event; atomic */
};

/* The process's RNIC, opened with the first reference. NULL and errno. */
struct fl_rnic *fl_rnic_get(struct fl_error *err);
/* Logs it, unless fl_rnic_failure_is_told(). who: the device, or what else needs the RNIC */
void fl_rnic_log_failure(const char *who, const struct fl_error *err);
void fl_rnic_put(struct fl_rnic *rnic);
/* Shows the process's RNIC under its lock, NULL if there is none. False: somebody else had it for too long.
 */
bool fl_rnic_look(void (*look)(struct fl_rnic *rnic, void *arg), void *arg);

static inline void fl_rnic_lock(struct fl_rnic *rnic)
{
    pthread_mutex_lock(&rnic->lock);
}
static inline void fl_rnic_unlock(struct fl_rnic *rnic)
{
    pthread_mutex_unlock(&rnic->lock);
}

void fl_rnic_add_client(struct fl_rnic *rnic, struct fl_rnic_client *client); /* locked */
void fl_rnic_del_client(struct fl_rnic *rnic, struct fl_rnic_client *client);

/* One turn, under the lock: packets in, packets out, what is due. Returns how many packets came, and one more
 * where there is more to be sent at once. */
int fl_rnic_progress_locked(struct fl_rnic *rnic, int max);
/* The same from a program's thread; nothing if another thread drives just now. last_look: it is about to
 * sleep, so that it should not be taken for one that goes on polling. */
void fl_rnic_drive(struct fl_rnic *rnic, bool last_look);
/* Next time that a turn is due, under the lock. */
uint64_t fl_rnic_deadline_locked(struct fl_rnic *rnic);
/* Packets of one queue pair, or of all that are ready, to the port. Under the lock. */
void fl_rnic_send_locked(struct fl_rnic *rnic, struct fl_qp *qp);
bool fl_rnic_transmit(struct fl_rnic *rnic, const struct fl_port_flow *flow, const struct fl_roce_tx *tx);

/* A packet that came, under the lock. */
void fl_rnic_deliver(void *rnic, const struct fl_port_packet *packet);

/* rnic_thread.c */
int fl_rnic_thread_start(struct fl_rnic *rnic);
void fl_rnic_thread_stop(struct fl_rnic *rnic);
void fl_rnic_thread_forget(struct fl_rnic *rnic);         /* in the child of a fork */
void fl_rnic_thread_add_fd(struct fl_rnic *rnic, int fd); /* of a client; -1: none */
void fl_rnic_thread_del_fd(struct fl_rnic *rnic, int fd);
/* The deadline came nearer; wakes the thread if it sleeps longer. */
void fl_rnic_wake_by(struct fl_rnic *rnic, uint64_t deadline);
/* Nobody drives: the thread is asleep until a packet comes. Under the lock. */
static inline bool fl_rnic_sleeps(const struct fl_rnic *rnic)
{
    return rnic->port_watched && __atomic_load_n(&rnic->sleeps_till, __ATOMIC_RELAXED);
}
/* Some program waits for an event from now on: the thread drives. */
void fl_rnic_watch(struct fl_rnic *rnic);
/* The thread looks once more and asks peers anew to wake it. */
void fl_rnic_resume(struct fl_rnic *rnic);

struct fl_qp *fl_qp_find(const struct fl_qp_table *table, uint32_t qpn);
int fl_qp_table_set(struct fl_qp_table *table, uint32_t qpn, struct fl_qp *qp); /* NULL: off */

#endif
