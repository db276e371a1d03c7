/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The objects of the target and who owns them.
 *
 * The control loop owns everything here but the two structs marked "a worker's": the namespace views and the
 * queues. What a view or a queue needs of the rest is copied into it by a message (struct fl_round), or never
 * changes while it lives.
 */
#ifndef FL_TARGET_CORE_H
#define FL_TARGET_CORE_H

#include <pthread.h>
#include <string.h>

#include "backend/marks.h"
#include "base/list.h"
#include "base/log.h"
#include "base/nqn.h"
#include "base/url.h"
#include "base/util.h"
#include "nvme/rules.h"
#include "target/target.h"
#include "wire/discovery.h"
#include "wire/nvme_log.h"
#include "wire/nvme_resv.h"
#include "wire/nvmf.h"

#define FL_NSID_MAX        FL_TARGET_NSID_MAX
#define FL_ANA_GROUPS      FL_TARGET_ANA_GROUPS
#define FL_AER_MAX         4u  /* AERL + 1 */
#define FL_ABORT_MAX       4u  /* ACL + 1 */
#define FL_ERROR_ENTRIES   64u /* ELPE + 1 */
#define FL_RESV_NOTICES    64u
#define FL_REGISTRANTS     128u
#define FL_ADMIN_DEPTH     128u /* ASQSZ of the discovery log */
#define FL_CONTROLLERS_MAX 4096u
#define FL_FUSED_BLOCKS    128u /* ACWU + 1 */
/* Copy: ranges, blocks a range, blocks in all (MSRC, MSSRL, MCL): one command stays below what a loop may
 * spend on one host. */
#define FL_COPY_RANGES       128u
#define FL_COPY_RANGE_BLOCKS 2048u
#define FL_COPY_BLOCKS       16384u
#define FL_DISC_KATO_MS      120000u /* idle time after which a discovery controller without keep alive goes */

struct fl_tqueue;
struct fl_tctrl;
struct fl_tns;
struct fl_tport;

/* ---- loops ---- */

struct fl_worker {
    struct fl_target *target;
    struct fl_loop *loop;
    struct fl_pool *pool; /* data of I/O queues */
    uint32_t index;
    uint32_t nr_queues; /* the control loop's book: I/O queues that live here or are on their way */
    /* Compare on a back end that isn't memory reads here, one command at a time. */
    uint8_t *scratch;
    bool scratch_busy;
    struct fl_list scratch_wait;
};

/*
 * A message to every worker and back. `each` runs once on each loop and must lead to one fl_round_ack there,
 * now or later; `done` runs on the control loop after the last of them and the round is freed after it.
 */
struct fl_round;
struct fl_round_leg {
    struct fl_msg msg;
    struct fl_round *round;
    struct fl_worker *worker;
};

struct fl_round {
    struct fl_target *target;
    void (*each)(struct fl_round_leg *leg);
    void (*done)(struct fl_round *round);
    void *arg[4];
    int result; /* the control loop's; fl_round_ack's first error */
    uint32_t nr_left;
    struct fl_round_leg legs[];
};
struct fl_round *fl_round_new(struct fl_target *target, void (*each)(struct fl_round_leg *),
                              void (*done)(struct fl_round *));
void fl_round_start(struct fl_round *round);
void fl_round_ack(struct fl_round_leg *leg);

/* ---- target ---- */

struct fl_target {
    struct fl_target_options options;
    struct fl_loop *loop;                 /* the control loop */
    const struct fl_transport *transport; /* tests put a scripted one here; NULL: by name */
    struct fl_worker *workers;
    uint32_t nr_workers;
    struct fl_pool *admin_pool; /* of all admin queues, so that data of I/O never stands before a keep alive
                                   or an identify */
    struct fl_list subsystems, ports, controllers, fresh; /* fresh: connections without a controller yet */
    struct fl_subsystem *discovery;
    uint32_t nr_controllers, nr_queues, nr_rounds, nr_closing_ns;
    uint32_t most_queues; /* since memory went back to the kernel */
    uint16_t last_cntlid;
    uint32_t last_port_id;
    uint64_t genctr; /* of the discovery log */
    uint64_t start_ns;
    bool stopping;
    void (*stopped)(void *arg);
    void *stopped_arg;
    struct fl_timer stop_timer, look_timer, give_timer;
    bool looking; /* beside the loop, just now */
    struct fl_log_rate refused_rate;
};

/* ---- listeners: waiting -> listening, failed; each state but the last is left by a retry timer too ---- */

enum fl_tport_state { FL_PORT_WAITING, FL_PORT_LISTENING, FL_PORT_FAILED, FL_PORT_CLOSED };

struct fl_tport {
    struct fl_target *target;
    struct fl_list link;
    struct fl_listener_spec spec;
    uint32_t id; /* PORTID */
    enum fl_tport_state state;
    bool for_device; /* waiting: the address is here */
    char reason[320];
    struct fl_listener *listener;
    struct fl_addr addr;
    const struct fl_transport *transport;
    struct fl_timer retry;
    uint32_t nr_queues; /* each holds the port */
    uint8_t ana[FL_ANA_GROUPS + 1];
    uint64_t ana_count;  /* CHGCNT */
    uint8_t *worker_ana; /* FL_ANA_GROUPS + 1 for each worker, its own copy */
};

/* ---- subsystems and namespaces ---- */

struct fl_host_entry {
    struct fl_list link;
    char nqn[FL_NQN_LEN];
};

struct fl_subsystem {
    struct fl_target *target;
    struct fl_list link;
    char nqn[FL_NQN_LEN];
    char serial[21], model[41];
    bool allow_any_host, discovery, removing;
    struct fl_list hosts;
    struct fl_tns *ns[FL_NSID_MAX + 1]; /* by nsid; those being removed are not here any more */
    uint32_t nr_ns, nr_ns_closing, nr_controllers;
    struct fl_ns_view ***tables; /* [worker][nsid]: the worker's */
    struct fl_change *remove_change;
    uint64_t ana_count;
};

struct fl_registrant {
    uint8_t hostid[16];
    uint64_t key;
};

struct fl_resv {
    uint32_t gen;
    enum fl_nvme_resv_type type;
    int holder; /* index of the registrant, -1: none (also for the all-registrants types) */
    bool ptpl;
    uint32_t nr;
    struct fl_registrant reg[FL_REGISTRANTS];
};

/* What a worker must know to decide: made anew for each change, a copy for each worker. */
struct fl_resv_view {
    enum fl_nvme_resv_type type;
    uint32_t nr;
    struct {
        uint8_t hostid[16];
        bool holder;
    } reg[];
};

enum fl_tns_state { FL_NS_OPENING, FL_NS_ACTIVE, FL_NS_REMOVING };

struct fl_tns {
    struct fl_subsystem *ss;
    uint32_t nsid, ana_group;
    enum fl_tns_state state;
    struct fl_backend *be;
    uint64_t len; /* bytes, as hosts are told */
    uint8_t uuid[16];
    char spec[512];
    struct fl_ns_view *views; /* one a worker */
    struct fl_resv resv;
    struct fl_list resv_queue; /* reservation commands that wait for the one in work */
    bool resv_busy, resv_persists;
    struct fl_resv *resv_before; /* the state before the command in work, until that is stored */
    uint32_t nr_holds;           /* work beside the loop that uses be */
    bool told_gone;              /* that what it stands on has gone */
    bool unused;                 /* no worker has it any more: freed with the last hold */
    struct fl_list excl_queue;
    struct fl_excl *excl; /* who has the namespace for itself */
    struct fl_change *change;
    struct fl_timer deadline;
    bool remove_asked;
};

/* A worker's: a namespace as its loop sees it. */
struct fl_ns_view {
    struct fl_tns *ns;
    struct fl_worker *worker;
    struct fl_chan *chan;
    uint32_t nsid, ana_group;
    uint32_t block_len, block_shift;
    uint64_t nr_blocks;
    const uint8_t *mem;        /* reads are answered from here */
    uint64_t mem_mask;         /* offset & mask lies in mem */
    struct fl_marks *marks;    /* who is at it just now; NULL: it never changes */
    struct fl_list reading;    /* reads of this loop that are being sent from there, by bio.link */
    bool sync, read_only, removing;
    const struct fl_resv_view *resv; /* NULL: no reservation is held */
    /* Somebody has the namespace for itself (exclusive.c): writes wait. */
    bool hold;
    struct fl_list held;
    uint32_t nr_in_flight;      /* commands that have this view, until they are released */
    uint32_t nr_writes;         /* writes in the back end */
    struct fl_round_leg *drain; /* to be told when nr_writes is 0 */
    struct fl_round_leg *close; /* to be told when nr_in_flight is 0 */
    struct {                    /* overlap.c: commands that met others at their bytes */
        struct fl_list list;    /* by bio.link */
        uint32_t nr, nr_turns;
        struct fl_poller poller;
        struct fl_timer timer;
        struct fl_msg msg; /* to the other loops and back */
        bool asking;       /* it is on its way: at which loop, and since when */
        uint32_t at;
        uint64_t asked_ns, late_at;
    } aside;
    struct fl_io_counters io;   /* written by the worker, read by all */
} __attribute__((aligned(FL_CACHE_LINE)));

/* ---- controllers: new -> live (Connect) -> dying (closing its queues) -> freed; CC.EN and CSTS within live
 * ---- */

/* The error log, also filled from I/O loops: only what failed takes the lock. */
struct fl_error_ring {
    pthread_mutex_t lock;
    struct fl_nvme_error_entry entry[FL_ERROR_ENTRIES];
    uint64_t count;
};

struct fl_tctrl {
    struct fl_target *target;
    struct fl_subsystem *ss;
    struct fl_tport *port;
    struct fl_list link;
    uint16_t cntlid;
    char hostnqn[FL_NQN_LEN];
    uint8_t hostid[16];
    char peer[FL_ADDR_TEXT_LEN];
    bool dying;
    bool service_time;  /* the host wants to know how long its I/Os take here; read by the queues' loops */
    bool write_through; /* the host turned the write cache off; read by the queues' loops */
    struct fl_tqueue *admin;
    struct fl_tqueue **queues; /* [qid], 1..max_queues */
    uint32_t nr_io_queues;     /* that are in queues[], also those going away */
    uint32_t queues_asked, queues_granted;
    uint32_t cc, csts;
    bool disabling; /* CC.EN fell: CSTS.RDY falls when the I/O queues are gone */

    uint32_t kato_ms;
    struct fl_timer kato_timer;
    uint64_t kato_seen; /* sum of commands at the last look (traffic based keep alive) */
    bool kato_fed;

    struct fl_cmd *aer[FL_AER_MAX];
    uint32_t nr_aer;
    uint32_t aer_pending, aer_masked; /* bits by enum fl_event */
    uint32_t nr_aborts;

    uint32_t changed_ns[FL_NSID_MAX / 32 + 1];
    bool disc_changed;
    struct fl_error_ring errors;
    struct fl_nvme_resv_log resv_log[FL_RESV_NOTICES];
    uint32_t resv_log_first, resv_log_nr;
    uint64_t resv_log_count;
    uint32_t feat[256]; /* current values, by feature */
    uint32_t resv_mask[FL_NSID_MAX + 1];
    uint64_t nr_reads, nr_writes, read_len, write_len; /* of queues that are gone, for SMART */
};

/* A worker's (an admin queue: the control loop's). The control loop touches what is marked so. */
struct fl_tqueue {
    struct fl_conn *conn;      /* NULL after closed(); lock for looking from another thread */
    struct fl_ns_view **views; /* [nsid] of the subsystem on this loop */
    const uint8_t *ana;        /* [group] of the port on this loop */
    struct fl_worker *worker;
    uint32_t mdts_len;
    uint32_t nr_in_flight;
    struct fl_cmd *fused;   /* the first half, waiting for the second */
    struct fl_cmd *connect; /* over the move to another loop */
    bool connecting; /* the data of a Connect is on its way: no other one is taken meanwhile */
    bool moving, close_late;
    struct fl_list async; /* commands that didn't end inside command(), by cmd->link */
    struct fl_io_counters io;
    uint64_t nr_commands;

    void (*command)(struct fl_tqueue *q, struct fl_cmd *cmd);
    struct fl_target *target;
    struct fl_tctrl *ctrl; /* NULL before Connect; it outlives the queue */
    uint8_t hostid[16];
    uint16_t qid;
    uint32_t depth_asked, depth;
    struct fl_log_rate log_rate;
    pthread_mutex_t lock; /* of conn against its end, for fl_target_visit */

    /* the control loop's */
    struct fl_tport *port;
    struct fl_list link; /* target->fresh */
    bool close_posted, counted_in_worker;
    const char *close_why;
    struct fl_msg msg_close, msg_gone, msg_bye;
};

/* ---- one command's own data, in fl_cmd.user ---- */

enum fl_tio_state { FL_TIO_NEW, FL_TIO_WAITING /* cancel() is set */, FL_TIO_FETCHING, FL_TIO_BACKEND };

struct fl_abort { /* an Abort that looks for its victim, on the loop of the victim's queue */
    struct fl_msg msg;
    struct fl_cmd *cmd; /* the Abort command, the control loop's */
    struct fl_tqueue *queue;
    uint16_t cid;
    bool aborted;
};

/*
 * A time in which no write to a namespace is in work on any loop: asked for and granted on the control loop,
 * one at a time. While it lasts, each loop puts its writes aside (fl_ns_view.hold).
 */
struct fl_excl {
    struct fl_list link;
    void (*go)(struct fl_excl *excl);
};

struct fl_tio {
    struct fl_ns_view *view;          /* counted in its nr_in_flight; NULL: none */
    bool listed;                      /* on queue->async */
    uint8_t state;                    /* enum fl_tio_state */
    bool marked;                      /* on view->reading */
    bool from_capsule;                /* put aside: its data is in the capsule */
    struct fl_abort *abort;           /* to be told at the end */
    void (*next)(struct fl_cmd *cmd); /* after what it waits for */
    void (*then)(struct fl_cmd *cmd); /* after that */
    void (*cancel)(struct fl_cmd *cmd);
    uint64_t off, len; /* bytes of the namespace */
    uint64_t aside_ns, aside_at; /* put aside: since when, 0: never; where a write stands, else UINT64_MAX */
    struct fl_bio bio;
    struct iovec iov;
    struct fl_cmd *pair;                                         /* the other half of a fused operation */
    void (*compared)(struct fl_cmd *cmd, fl_nvme_status status); /* NULL: the comparison is the command */
    struct fl_msg msg;                                           /* to the control loop and back */
    struct fl_excl excl;
    union {
        struct {
            uint32_t index, nr;
            uint64_t pos;
        } walk; /* DSM, Copy, Verify, Flush of all: which part is in work */
        struct {
            uint8_t action, type, iekey, cptpl;
            fl_nvme_status status;
            uint64_t crkey, arg; /* arg: NRKEY or PRKEY */
        } resv;
        uint64_t placed_len; /* Write: so much from the beginning on is where it belongs already */
        struct fl_abort abort;
    } u;
};
_Static_assert(sizeof(struct fl_tio) <= sizeof(((struct fl_cmd *)0)->user),
               "a command has room for the target's own data");

static inline struct fl_tio *fl_tio_of(struct fl_cmd *cmd)
{
    return (struct fl_tio *)&cmd->user;
}

static inline struct fl_cmd *fl_cmd_of_tio(struct fl_tio *tio)
{
    return FL_CONTAINER_OF((void *)tio, struct fl_cmd, user);
}

/* Counters have one writer; readers on other loops see each of them whole. */
#define FL_COUNT(counter, n) __atomic_store_n(&(counter), (counter) + (n), __ATOMIC_RELAXED)
#define FL_PEEK(counter)     __atomic_load_n(&(counter), __ATOMIC_RELAXED)

static inline void fl_io_counters_add(struct fl_io_counters *sum, const struct fl_io_counters *io)
{
    sum->nr_reads += FL_PEEK(io->nr_reads);
    sum->nr_writes += FL_PEEK(io->nr_writes);
    sum->nr_other += FL_PEEK(io->nr_other);
    sum->read_len += FL_PEEK(io->read_len);
    sum->write_len += FL_PEEK(io->write_len);
    sum->nr_errors += FL_PEEK(io->nr_errors);
    sum->zero_copy_len += FL_PEEK(io->zero_copy_len);
    sum->copied_len += FL_PEEK(io->copied_len);
}

/* ---- queue.c: the end of every command, and what all of them may wait for ---- */
extern const struct fl_handler fl_target_handler;
void fl_tqueue_finish_slow(struct fl_cmd *cmd,
                           fl_nvme_status status); /* of a command that waited or failed */
void fl_tqueue_tell_time(struct fl_cmd *cmd); /* how long it took here, in the answer */
/* The end of a command, whatever it was; nothing may be touched after it. */
static inline void fl_tqueue_finish(struct fl_cmd *cmd, fl_nvme_status status)
{
    struct fl_conn *conn = cmd->conn;

    if (fl_unlikely(cmd->start_ns))
        fl_tqueue_tell_time(cmd);
    if (fl_unlikely(status || fl_tio_of(cmd)->listed)) {
        fl_tqueue_finish_slow(cmd, status);
        return;
    }
    if (!conn->sq_flow_off) {
        if (++conn->sqhd >= conn->sq_len)
            conn->sqhd = 0;
        cmd->cqe.sqhd = le16_of(conn->sqhd);
    }
    fl_cmd_complete(cmd);
}
/* cmd->buf of len bytes, then next(cmd): at once or later. cmd->data points to it. */
void fl_tqueue_with_buffer(struct fl_cmd *cmd, uint32_t len, void (*next)(struct fl_cmd *cmd));
/* len bytes from the host to cmd->data, then next(cmd). */
void fl_tqueue_fetch(struct fl_cmd *cmd, uint32_t len, void (*next)(struct fl_cmd *cmd));
/* Both, the buffer being as long as the data. */
void fl_tqueue_receive(struct fl_cmd *cmd, uint32_t len, void (*next)(struct fl_cmd *cmd));
void fl_tqueue_track(struct fl_cmd *cmd, enum fl_tio_state state, void (*cancel)(struct fl_cmd *cmd));
void fl_tqueue_close(struct fl_tqueue *q, const char *why); /* control loop; the queue may live anywhere */
void fl_tqueue_abort(struct fl_abort *abort);               /* control loop; answers by fl_admin_abort_done */

/* ---- controller.c ---- */
fl_nvme_status fl_tctrl_create(struct fl_subsystem *ss, struct fl_tqueue *admin,
                               const struct fl_nvmf_connect_data *data, uint32_t kato_ms,
                               struct fl_tctrl **ctrl);
void fl_tctrl_kill(struct fl_tctrl *ctrl, const char *why);
void fl_tctrl_queue_gone(struct fl_tqueue *q); /* also admin */
struct fl_tctrl *fl_tctrl_find(struct fl_subsystem *ss, uint16_t cntlid);
void fl_tctrl_feed(struct fl_tctrl *ctrl); /* keep alive */
void fl_tctrl_set_kato(struct fl_tctrl *ctrl, uint32_t kato_ms);
void fl_tctrl_set_cc(struct fl_tctrl *ctrl, uint32_t cc);
uint64_t fl_tctrl_cap(const struct fl_tctrl *ctrl);
void fl_tctrl_log_error(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint16_t qid,
                        fl_nvme_status status); /* any loop */
static inline bool fl_tctrl_ready(const struct fl_tctrl *ctrl)
{
    return ctrl->csts & FL_NVME_CSTS_RDY;
}

/* ---- fabrics.c: Connect, Disconnect, properties ---- */
void fl_fabrics_first_command(struct fl_tqueue *q, struct fl_cmd *cmd); /* a queue before Connect */
void fl_fabrics_command(struct fl_tqueue *q, struct fl_cmd *cmd);       /* after it */

/* ---- admin.c and its pages ---- */
void fl_tqueue_admin_command(struct fl_tqueue *q, struct fl_cmd *cmd);
void fl_admin_abort_done(struct fl_abort *abort);
void fl_admin_identify(struct fl_tqueue *q, struct fl_cmd *cmd);
void fl_admin_get_log(struct fl_tqueue *q, struct fl_cmd *cmd);
void fl_admin_get_features(struct fl_tqueue *q, struct fl_cmd *cmd);
void fl_admin_set_features(struct fl_tqueue *q, struct fl_cmd *cmd);
void fl_features_reset(struct fl_tctrl *ctrl);
uint32_t fl_admin_effects(bool admin, uint8_t opcode,
                          bool discovery); /* entry of the effects log; 0: no such command */
uint32_t fl_io_effects(uint8_t opcode);

/* The window of a log page that a host asked for; what is appended beyond or before it is only counted. */
struct fl_log_page {
    uint8_t *buf;
    uint64_t off, len; /* window */
    uint64_t pos;      /* length of the page so far */
};
void fl_log_add(struct fl_log_page *page, const void *data, size_t len);
fl_nvme_status fl_log_discovery(struct fl_tctrl *ctrl, struct fl_log_page *page);
void fl_log_ana(struct fl_tctrl *ctrl, struct fl_log_page *page, bool groups_only);

/* ---- aer.c ---- */
enum fl_event { FL_EVENT_NS_CHANGED, FL_EVENT_ANA, FL_EVENT_DISCOVERY, FL_EVENT_RESERVATION, FL_NR_EVENTS };
void fl_aer_command(struct fl_tqueue *q, struct fl_cmd *cmd);
void fl_aer_raise(struct fl_tctrl *ctrl, enum fl_event event);
void fl_aer_unmask(struct fl_tctrl *ctrl, enum fl_event event);
bool fl_aer_abort(struct fl_tctrl *ctrl, uint16_t cid);
void fl_aer_drop_all(struct fl_tctrl *ctrl);
void fl_aer_ns_changed(struct fl_subsystem *ss, uint32_t nsid);
void fl_aer_ana_changed(struct fl_target *target, struct fl_tport *port);
void fl_aer_discovery_changed(struct fl_target *target);

/* ---- io.c and its families ---- */
void fl_io_command(struct fl_tqueue *q, struct fl_cmd *cmd);
/* Namespace, ANA, reservation, write protection; on success the view is counted. */
fl_nvme_status fl_io_check(struct fl_tqueue *q, struct fl_cmd *cmd, struct fl_ns_view **view);
fl_nvme_status fl_io_range(struct fl_ns_view *view, struct fl_cmd *cmd,
                           uint32_t *len); /* tio->off, tio->len from SLBA and NLB */
void fl_io_submit(struct fl_cmd *cmd, enum fl_bio_op op, uint32_t flags,
                  void (*done)(struct fl_bio *bio, int result));
uint32_t fl_io_fua(const struct fl_cmd *cmd); /* FL_BIO_F_FUA when asked for, or the write cache is off */
uint32_t fl_io_digest(struct fl_cmd *cmd);      /* of a read that is being answered */
void fl_io_write_done(struct fl_ns_view *view); /* leaves view->nr_writes */
bool fl_io_check_access(const struct fl_ns_view *view, const struct fl_tqueue *q, enum fl_nvme_access access);
fl_nvme_status fl_io_errno(struct fl_cmd *cmd, int result, enum fl_nvme_io_kind kind);
void fl_io_write(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd);
void fl_io_compare(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd);
void fl_io_write_zeroes(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd);
void fl_io_dsm(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd);
void fl_io_verify(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd);
void fl_io_copy(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd);
void fl_io_fused(struct fl_tqueue *q, struct fl_cmd *cmd);
void fl_io_compare_received(struct fl_cmd *cmd);
/* Before a write: true when the command was put aside (it comes back to again(cmd)) or ended because a
 * reservation came between. */
bool fl_io_held(struct fl_ns_view *view, struct fl_cmd *cmd, void (*again)(struct fl_cmd *cmd));
void fl_io_resv(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd);

/* ---- overlap.c: commands at the same bytes of memory ---- */
/* again(cmd) is called later, when others may be through. Nobody can cancel it meanwhile: it does not take long. */
void fl_io_put_aside(struct fl_ns_view *view, struct fl_cmd *cmd, void (*again)(struct fl_cmd *cmd));
void fl_io_bio_again(struct fl_bio *bio, uint64_t off); /* for fl_bio.again */
/* A read of memory needs its bytes no longer. */
static inline void fl_io_read_over(struct fl_ns_view *view, struct fl_tio *tio)
{
    tio->marked = false;
    fl_list_del(&tio->bio.link);
    fl_marks_read_end(view->marks, tio->off, tio->len);
}

/* ---- namespace.c ---- */
struct fl_tns *fl_tns_find(struct fl_subsystem *ss, uint32_t nsid); /* active ones */
void fl_view_idle(struct fl_ns_view *view); /* nr_in_flight fell to 0 while removing */
void fl_tns_hold(struct fl_tns *ns); /* control loop; keeps ns and its back end */
void fl_tns_put(struct fl_tns *ns);
void fl_tns_counters(const struct fl_tns *ns, struct fl_io_counters *sum);

/* ---- exclusive.c: control loop ---- */
void fl_excl_ask(struct fl_tns *ns, struct fl_excl *excl); /* excl->go runs when all loops hold */
void fl_excl_end(struct fl_tns *ns);

/* ---- reservation.c ---- */
void fl_resv_queue(struct fl_tns *ns, struct fl_tio *tio); /* one after the other: what changes the state, or reads it */

/* ---- reservation_state.c ---- */
void fl_resv_load(struct fl_tns *ns);
/* Stores ns->resv; done() runs later. -ENOMEM: it will not. */
int fl_resv_save(struct fl_tns *ns, void (*done)(struct fl_tns *ns, int result, void *arg), void *arg);
void fl_resv_set_ptpl(struct fl_tctrl *ctrl, struct fl_cmd *cmd, bool ptpl); /* Set Features: ends the command */
fl_nvme_status fl_resv_change_ptpl(struct fl_tns *ns, bool ptpl);
void fl_resv_ptpl_over(struct fl_cmd *cmd); /* that of one namespace is done */
static inline bool fl_resv_persists(const struct fl_tns *ns)
{
    return ns->resv_persists;
}
void fl_resv_publish(struct fl_tns *ns, void (*done)(void *arg), void *arg); /* to all workers */

/* ---- subsystem.c, listener.c, target.c ---- */
bool fl_subsystem_allows(const struct fl_subsystem *ss, const char *hostnqn);
void fl_subsystem_check_removed(struct fl_subsystem *ss);
void fl_subsystem_free(struct fl_subsystem *ss);
void fl_tport_info(const struct fl_tport *port, struct fl_listener_info *info);
/* In-capsule data of its I/O queues. */
uint32_t fl_tport_capsule_len(const struct fl_tport *port);
void fl_tport_put(struct fl_tport *port);
void fl_tport_close_all(struct fl_target *target);
void fl_target_check_stopped(struct fl_target *target);

/* ---- give_back.c ---- */
void fl_give_back_after(struct fl_target *target); /* a connection has ended */

/* ---- look_after.c ---- */
void fl_look_after(struct fl_target *target); /* from now on, as long as there is something to look at */

#endif
