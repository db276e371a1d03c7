/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A remote controller (private to src/host). Who touches what:
 *   - set at open: fixed, any thread;
 *   - epoch, lost, base.len: atomics;
 *   - under `lock`: facts, queues, state for people;
 *   - the rest belongs to the service thread.
 * docs/design/host.md draws the states.
 */
#ifndef FL_HOST_REMOTE_H
#define FL_HOST_REMOTE_H

#include <pthread.h>
#include <semaphore.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"
#include "host/device.h"
#include "host/identity.h"
#include "host/link.h"
#include "host/pollset.h"
#include "loop/loop.h"
#include "wire/nvme_identify.h"

#define FL_REMOTE_MAX_QUEUES 256
#define FL_REMOTE_MAX_XFER   (4u << 20) /* largest command, whatever the controller takes */
#define FL_REMOTE_DEF_XFER   (1u << 20) /* largest command when it names no limit */

/* Admin queue: 32 entries, as small as controllers must allow. Slots: one sequence at a time, keep-alive,
 * event, callers. */
#define FL_ADMIN_SQSIZE 31
enum { FL_ADMIN_SEQ, FL_ADMIN_KEEP_ALIVE, FL_ADMIN_EVENT, FL_ADMIN_CALLS, FL_ADMIN_NR = 16 };
#define FL_ADMIN_TIMEOUT_MS 30000

/* What the controller said of itself and of the namespace. */
struct fl_remote_facts {
    uint64_t cap;
    uint32_t vs;
    uint16_t cntlid;
    char model[41], serial[21], firmware[9], subnqn[FL_NQN_LEN];
    uint32_t max_xfer;    /* bytes of one command */
    uint32_t capsule_len; /* in-capsule data of I/O queues */
    uint32_t max_pieces;  /* descriptors of one command */
    uint32_t nr_entries;  /* of an I/O queue at most */
    uint32_t max_cmds;    /* MAXCMD; 0: not said */
    uint32_t nr_queues;   /* I/O queues granted */
    uint32_t oaes;
    bool keep_alive, volatile_cache;
    uint64_t max_zeroes_len, max_verify_len, max_discard_blocks;

    uint32_t nsid, block_len;
    uint64_t len;
    bool read_only;
    uint8_t uuid[16];
};

enum fl_remote_state {
    FL_REMOTE_OPENING, /* the first attempt: its failure is that of fl_device_open */
    FL_REMOTE_LIVE,
    FL_REMOTE_DOWN, /* waiting for the next attempt, or at one */
    FL_REMOTE_LOST,
};

/* Where an attempt stands. */
enum fl_remote_phase {
    FL_PHASE_IDLE,
    FL_PHASE_WAIT,
    FL_PHASE_LINK,
    FL_PHASE_SETUP,
    FL_PHASE_LIVE,
    FL_PHASE_CLOSING
};

struct fl_remote;
struct fl_remote_queue;

/* One admin command of a sequence. */
struct fl_step {
    const char *what;
    bool (*skip)(const struct fl_remote *r); /* may be NULL */
    void (*build)(struct fl_remote *r, struct fl_nvme_sqe *sqe);
    uint32_t data_len; /* into r->seq_buf */
    bool optional;     /* an error status is not a failure: got() isn't called */
    int (*got)(
        struct fl_remote *r,
        const struct fl_nvme_cqe *cqe); /* 0; -EAGAIN: ask again soon; else errno, r->err set. NULL: 0 */
};

/* A raw admin command of some thread, which waits on `done`. */
struct fl_admin_call {
    struct fl_msg msg;
    struct fl_list link;
    struct fl_remote *remote;
    const struct fl_nvme_sqe *sqe;
    struct iovec iov;
    bool to_host;
    uint64_t deadline_ns;
    struct fl_nvme_cqe cqe;
    int code;
    sem_t done;
};

struct fl_remote {
    struct fl_device base;

    /* ---- set at open ---- */
    struct fl_addr addrs[FL_DIAL_MAX_ADDRS];
    uint32_t nr_addrs;
    char subnqn[FL_NQN_LEN];
    char name[FL_NQN_LEN + FL_HOST_LEN + 16]; /* for messages */
    struct fl_host_identity who;
    bool rdma;    /* else TCP */
    char dev[64]; /* RDMA: which device */
    char
        fallback_why[sizeof(((struct fl_error *)0)->text)]; /* TCP, since RDMA could not be had; "": not so */
    bool hdgst, ddgst, subsystem, discovery, no_reconnect;
    uint32_t want_nsid, want_queues, want_entries;
    uint32_t kato_ms, connect_timeout_ms, fast_fail_ms, loss_timeout_ms, reconnect_delay_ms, io_timeout_ms;
    struct fl_loop *loop;

    /* ---- atomics ---- */
    uint32_t epoch; /* goes up when an association begins and when it ends: odd is live */
    int lost;       /* errno once the controller was given up */

    /* ---- under lock ---- */
    pthread_mutex_t lock;
    struct fl_remote_facts facts;
    struct fl_list queues;
    bool qid_used[FL_REMOTE_MAX_QUEUES + 1];
    uint32_t
        last_qid; /* given out last: the next is another, since the target may still hold a closed queue */
    enum fl_remote_state state;
    uint32_t attempt;
    uint64_t next_attempt_ns;
    char reason[sizeof(((struct fl_error *)0)->text)]; /* why it is down or lost */
    int reason_code;                                   /* its errno */
    struct fl_taken taken;                             /* by which way its bytes go */
    uint32_t loss_epoch; /* a queue of this epoch broke; loss_msg is on its way */
    bool loss_posted;
    char loss_text[256];
    void (*changed)(struct fl_device *dev, void *arg);
    void *changed_arg;

    /* ---- the service thread's ---- */
    enum fl_remote_phase phase;
    struct fl_link link;
    struct fl_pollset pollset;
    struct fl_watch watch;
    struct fl_timer timer;
    struct fl_msg open_msg, close_msg, loss_msg;
    struct fl_remote_facts draft; /* of the attempt in progress */
    struct fl_error err;          /* why the last attempt or association ended */
    int warned_code;              /* cause of failed attempts that was told already */
    uint64_t attempt_deadline_ns; /* for the next answer; CLOSING: for all */
    uint64_t loss_deadline_ns, live_since_ns;

    struct fl_request reqs[FL_ADMIN_NR];
    struct fl_admin_call *calls[FL_ADMIN_NR]; /* by slot */
    struct fl_list calls_waiting;
    const struct fl_step *step; /* of the sequence in progress; NULL: none */
    void (*seq_done)(struct fl_remote *r);
    uint64_t seq_again_ns, seq_deadline_ns; /* UINT64_MAX: not */
    uint64_t ready_deadline_ns;             /* CSTS.RDY by CAP.TO */
    struct iovec seq_iov;
    uint8_t seq_buf[FL_NVME_IDENTIFY_LEN];
    uint64_t keep_alive_ns, keep_alive_sent_ns;
    uint32_t event;       /* DW0 of the event that is dealt with */
    bool refresh_pending; /* an event came while a sequence ran */

    struct fl_error *open_err; /* the opener's */
    int open_code;
    bool reached; /* an opening that failed got a connection, and failed of what came after */
    sem_t opened, closed;
};

static inline struct fl_remote *fl_remote_of(struct fl_device *dev)
{
    return FL_CONTAINER_OF(dev, struct fl_remote, base);
}

static inline uint32_t fl_remote_epoch(const struct fl_remote *r)
{
    return __atomic_load_n(&r->epoch, __ATOMIC_ACQUIRE);
}

/* ---- controller.c: life of the association, on the service thread ---- */
void fl_remote_run(struct fl_remote *r); /* does what is due */
/* During an attempt: the target has as long as connect_timeout_ms for its next answer. */
void fl_remote_answer_due(struct fl_remote *r, uint64_t now_ns);
void fl_remote_start_open(struct fl_msg *msg);
void fl_remote_start_close(struct fl_msg *msg);
void fl_remote_loss_reported(struct fl_msg *msg);
/* Any thread: the connection of an I/O queue broke, and with it the association. Does nothing when epoch is
 * over already. */
void fl_remote_report_loss(struct fl_remote *r, uint32_t epoch, const char *text);

/* ---- admin.c: the admin queue's commands, on the service thread ---- */
extern const struct fl_link_ops fl_admin_ops;
void fl_admin_bind(struct fl_remote *r);
void fl_admin_run_seq(struct fl_remote *r, const struct fl_step *steps, void (*done)(struct fl_remote *r));
void fl_admin_tick(struct fl_remote *r, uint64_t now_ns); /* what is due: keep-alive, repeats, time-outs */
uint64_t fl_admin_deadline(const struct fl_remote *r);
void fl_admin_start_live(struct fl_remote *r, uint64_t now_ns); /* keep-alive and event */
void fl_admin_cut(struct fl_remote *r, int code);               /* fails the callers' commands */
/* The calling thread waits. */
int fl_admin_call(struct fl_remote *r, const struct fl_nvme_sqe *sqe, void *data, uint32_t len, bool to_host,
                  struct fl_nvme_cqe *cqe, struct fl_error *err);

/* ---- setup.c: the sequences ---- */
extern const struct fl_step fl_setup_steps[];
extern const struct fl_step fl_refresh_steps[]; /* after a namespace event */
extern const struct fl_step fl_log_steps[];     /* reads the log page that the event names */
extern const struct fl_step fl_shutdown_steps[];

/* ---- identify.c: what the answers say, and whether it can be right ---- */
int fl_identify_ctrl(const struct fl_nvme_id_ctrl *id, uint16_t cntlid, const char *subnqn, bool discovery,
                     uint32_t kato_ms, struct fl_remote_facts *facts, struct fl_error *err);
int fl_identify_ns(const struct fl_nvme_id_ns *id, uint32_t nsid, struct fl_remote_facts *facts,
                   struct fl_error *err);
void fl_identify_nvm(const struct fl_nvme_id_ctrl_nvm *id, struct fl_remote_facts *facts);

/* ---- remote_queue.c ---- */
int fl_remote_queue_create(struct fl_device *dev, uint32_t depth, struct fl_queue **queue,
                           struct fl_error *err);
void fl_remote_queues_wake(struct fl_remote *r); /* lock held */
/* The least of the ways that I/O queues go; without any, taken stays as it is. Lock held. */
void fl_remote_queues_taken(struct fl_remote *r, struct fl_taken *taken);

#endif
