/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An I/O queue of a remote controller (private to src/host). All of it belongs to the thread that uses the
 * queue, apart from link_queues and taken (under the controller's lock) and wake_fd (written to by the service thread).
 *
 * An I/O becomes one command, or several when it is larger than the controller takes at a time. Commands sit
 * in slots; what finds no slot waits in `pending`. When the connection breaks, slots keep their commands and
 * send them again over the next one: every command used here may be carried out twice with the same result,
 * and an I/O completes once.
 */
#ifndef FL_HOST_REMOTE_QUEUE_H
#define FL_HOST_REMOTE_QUEUE_H

#include "host/remote.h"

enum fl_rq_state {
    FL_RQ_WAIT,    /* for the controller to be live (again) */
    FL_RQ_CONNECT, /* on the way to a connection of its own */
    FL_RQ_LIVE,
    FL_RQ_LOST,
};

enum fl_slot_state {
    FL_SLOT_FREE,
    FL_SLOT_OUT,   /* with the engine */
    FL_SLOT_KEPT,  /* its connection broke; goes out again over the next one */
    FL_SLOT_LATER, /* the target asked for a pause */
};

/* One command. */
struct fl_slot {
    struct fl_request req;
    struct fl_io *io;
    uint8_t state; /* enum fl_slot_state */
    uint8_t age;   /* looks of the time-out since it went out */
    uint8_t tries;
    uint64_t due_ns; /* LATER */
    struct iovec range_iov;
    struct fl_nvme_dsm_range range; /* the data of Dataset Management */
};

/* The library's part of struct fl_io. */
struct fl_rio {
    struct fl_list link; /* on queue->pending while not all of it has become commands */
    uint64_t issued;     /* bytes that have */
    const struct iovec *iov;
    size_t skip; /* where the next command's data begin */
    uint32_t nr_iov;
    uint32_t nr_cmds;
    int result;
    bool all_issued;
};
_Static_assert(sizeof(struct fl_rio) <= sizeof(((struct fl_io *)0)->priv), "struct fl_io has room for it");

struct fl_remote_queue {
    struct fl_queue base;
    struct fl_remote *remote;
    enum fl_rq_state state;
    uint32_t epoch;        /* of the association that the connection belongs to */
    uint32_t failed_epoch; /* could not connect in this one: wait for the next */
    struct fl_link link;
    uint32_t idle_polls;

    struct fl_slot *slots;
    uint32_t *free; /* stack of slot numbers */
    uint32_t nr_slots, nr_free, nr_later;
    struct fl_list pending; /* struct fl_rio */
    uint32_t *unsent;       /* slots whose I/O wants to know when it is sent */
    uint32_t nr_unsent;

    uint32_t nsid, block_shift;
    uint64_t max_len[FL_IO_VERIFY + 1]; /* bytes of one command, by operation */

    uint64_t down_ns;       /* since when there is no connection */
    uint64_t scan_ns;       /* next look for commands without an answer */
    uint64_t create_end_ns; /* until then its first connection is tried */
    bool creating;          /* inside fl_queue_create: a failure is the caller's to know */
    struct fl_error err;

    struct fl_list link_queues;
    struct fl_taken taken; /* under the controller's lock: by which way its bytes go, or last went */
    bool was_live;         /* the same: taken is set */
    uint16_t qid;
    int wake_fd;

    /* For fl_queue_fd, once it was called. */
    bool fd_used;
    struct fl_pollset pollset;
    int timer_fd;
    uint32_t tick_ms;
    uint32_t spin_us; /* how long fl_queue_wait polls before it sleeps; learned */
};

static inline struct fl_rio *fl_rio_of(struct fl_io *io)
{
    return (struct fl_rio *)io->priv;
}

static inline struct fl_io *fl_io_of(struct fl_rio *rio)
{
    return (struct fl_io *)((char *)rio - offsetof(struct fl_io, priv));
}

static inline struct fl_remote_queue *fl_remote_queue_of(struct fl_queue *queue)
{
    return FL_CONTAINER_OF(queue, struct fl_remote_queue, base);
}

/* ---- remote_io.c: I/Os and commands ---- */
extern const struct fl_link_ops fl_rq_ops;
void fl_rq_submit(struct fl_queue *queue, struct fl_io *io);
void fl_rq_issue_pending(struct fl_remote_queue *q);
void fl_rq_note_sent(struct fl_remote_queue *q); /* sends, and notes when for the I/Os that want to know */
void fl_rq_limits(struct fl_remote_queue *q, const struct fl_remote_facts *facts);
void fl_rq_keep(struct fl_remote_queue *q);   /* the connection is gone: OUT becomes KEPT */
void fl_rq_resend(struct fl_remote_queue *q); /* KEPT goes out over the new one */
void fl_rq_send_later(struct fl_remote_queue *q, uint64_t now_ns); /* LATER whose pause is over */
/* KEPT whose I/O's memory is not there, and all else of that I/O, end with -EFAULT. Runs completions. */
void fl_rq_fail_bad(struct fl_remote_queue *q);
void fl_rq_fail_all(struct fl_remote_queue *q, int code);          /* not while LIVE */
/* One more look; the slot that has gone unanswered for too many of them, or NULL. */
struct fl_slot *fl_rq_scan(struct fl_remote_queue *q);
#define FL_RQ_LOOKS 4 /* in io_timeout_ms */

#endif
