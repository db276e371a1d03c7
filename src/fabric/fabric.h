/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The seam between an NVMe transport and the target. A transport (tcp, later rdma, pair) turns connections into struct
 * fl_conn and capsules into struct fl_cmd; what the target does with them it learns through struct fl_handler.
 *
 * One connection is one NVMe queue (Fabrics 1.1, 2.3). A connection and its commands live on one loop at a time; all calls
 * in both directions are made on that loop's thread.
 *
 * The life of a command:
 *   transport -> handler->command(cmd)       the capsule is here; cmd->sqe is the host's, unchecked
 *   target    -> fl_cmd_fetch(cmd)           only for data from the host: cmd->data, cmd->data_len say where to and how much
 *   transport -> handler->data_ready(cmd)    the data is there, or cmd->transport_status says why not
 *   target    -> fl_cmd_complete(cmd)        cqe set; data_len bytes of cmd->data go to the host first when cmd->to_host
 *   transport -> handler->released(cmd)      the transport will not touch cmd->data again; cmd is reused after this call
 * Every command that was given to the target is completed by it exactly once, also after the connection died (the
 * transport then sends nothing and only releases). data_ready() may be called from inside fl_cmd_fetch, released() from
 * inside fl_cmd_complete: make these calls the last thing done with the command.
 */
#ifndef FL_FABRIC_FABRIC_H
#define FL_FABRIC_FABRIC_H

#include <stdbool.h>
#include <stdint.h>

#include <farlane/error.h>

#include "base/address.h"
#include "base/list.h"
#include "loop/loop.h"
#include "mem/pool.h"
#include "wire/nvme.h"

struct fl_cmd;
struct fl_conn;

struct fl_handler {
    /* A connection was accepted and its transport is ready; no command came yet. Sets conn->user. */
    void (*opened)(struct fl_conn *conn, void *listener_user);
    void (*command)(struct fl_cmd *cmd);
    void (*data_ready)(struct fl_cmd *cmd);
    void (*released)(struct fl_cmd *cmd);
    /* The CRC-32C of cmd->data_len bytes of cmd->data, which are on their way to the host, where it is cheaper than to look at them.
     * Inside of fl_cmd_complete. NULL: it never is. */
    uint32_t (*digest)(struct fl_cmd *cmd);
    /* conn->dead was just set (by either side, or broken): nothing reaches the host any more. The target completes what it
     * holds back (asynchronous event requests, commands that wait for a buffer), now or soon; closed() follows when all
     * commands are released. Never called from inside a call of the target's on this conn; may be NULL.
     * Commands whose data is on its way from the host get data_ready() with a transport_status, before or after this. */
    void (*broken)(struct fl_conn *conn);
    /* The connection is gone (closed by either side, or broken), all its commands are released. Last call; conn is freed after it. */
    void (*closed)(struct fl_conn *conn, const char *why);
};

struct fl_cmd {
    struct fl_nvme_sqe sqe;
    struct fl_nvme_cqe cqe; /* the target sets dw0, dw1 and status by fl_cmd_finish; sqhd and cid by the same */
    struct fl_conn *conn;

    /* Data. data points to a pool buffer, to the namespace's own memory, or to the capsule (see below). */
    void *data;
    uint32_t data_len;
    bool to_host;

    /* What the SQE's SGL describes, checked by the transport for its own rules: the length in all, and how much of it
     * came in the capsule. SGL forms that the transport does not know arrive with transport_status set. */
    uint32_t sgl_len;
    bool in_capsule;
    /* The in-capsule data (sgl_len bytes, digest right), else NULL: may be used in place inside the call of command(). After
     * it, too, until the command ends, but it may have been moved: the pointer is to be read again. fl_cmd_fetch copies it to
     * cmd->data, then or later; it is gone after that.
     * NULL with in_capsule: it is still on its way, and fl_cmd_fetch brings it as it would any other. */
    const void *capsule_data;
    fl_nvme_status transport_status; /* not 0: complete the command with this status */
    /* Set by the target before it fetches, else NULL: what has come of the data, len bytes from `off` on, before all of it is there.
     * True: the target has put it where it belongs, and it will not be in cmd->data. Each byte is offered once at most, perhaps
     * inside of a call about another command; a transport need not ask. */
    bool (*place)(struct fl_cmd *cmd, uint32_t off, const void *data, uint32_t len);

    /* The target's. */
    void *buf; /* pool buffer to put back in released(), or NULL */
    struct fl_pool_wait wait;
    struct fl_list link;
    uint64_t start_ns; /* since when the command and its data are here; 0: nobody wants to know */
    union {
        void *ptr[44];
        uint64_t word[44];
    } user;
};

struct fl_conn_info { /* what was asked, offered and used; for status output and logs */
    char peer[FL_ADDR_TEXT_LEN], local[FL_ADDR_TEXT_LEN];
    const char *transport; /* "tcp", "rdma" */
    bool hdgst_asked, ddgst_asked, hdgst, ddgst;
    uint32_t max_h2c_len, maxr2t, pda_host, pda_ctrl; /* TCP */
    uint64_t rx_len, tx_len, nr_pdus_rx, nr_pdus_tx, nr_digest_errors;
};

struct fl_conn_ops {
    int (*set_depth)(struct fl_conn *conn, uint32_t nr_cmds);
    void (*set_limits)(struct fl_conn *conn, uint32_t capsule_data_len);
    void (*fetch)(struct fl_cmd *cmd);
    void (*complete)(struct fl_cmd *cmd);
    void (*close)(struct fl_conn *conn, const char *why);
    void (*move)(struct fl_conn *conn, struct fl_loop *loop, struct fl_pool *pool, void (*moved)(struct fl_conn *conn));
    void (*info)(const struct fl_conn *conn, struct fl_conn_info *info);
    /* Of a command that was completed with data for the host and is not released: what has not left of it is copied to the
     * same place of buf (data_len bytes, there until released()), and sent from there; cmd->data is not touched again. False:
     * nothing was done. NULL: this transport cannot, but needs the data for a bounded time only. */
    bool (*detach)(struct fl_cmd *cmd, void *buf);
};

struct fl_conn {
    const struct fl_conn_ops *ops;
    const struct fl_handler *handler;
    struct fl_loop *loop;
    struct fl_pool *pool; /* of the same loop */
    void *user;           /* the target's */
    uint16_t sqhd;        /* next submission queue head that a response tells */
    uint16_t sq_len;      /* SQSIZE + 1; 0 before Connect */
    uint16_t qid;
    bool sq_flow_off; /* agreed at Connect (CATTR bit 2): a response may be folded into the data (TCP SUCCESS) */
    bool keyed_sgl;   /* data is described by keyed SGL descriptors (RDMA), else by transport ones */
    bool dead;        /* nothing reaches the host any more; the target may hurry to complete what is left */
};

/* Room for nr_cmds commands at a time (called at Connect, when SQSIZE is known; 1 before). A host that sends more than that at a
 * time breaks the protocol and is disconnected. -ENOMEM leaves the old depth. -EINVAL: the connection was made for another (RDMA). */
static inline int fl_conn_set_depth(struct fl_conn *conn, uint32_t nr_cmds) { return conn->ops->set_depth(conn, nr_cmds); }
/* Most in-capsule data (bytes) from now on; a larger capsule is a fatal transport error. 8192 before Connect. */
static inline void fl_conn_set_capsule_len(struct fl_conn *conn, uint32_t len) { conn->ops->set_limits(conn, len); }
/* May be called from any callback of conn; closed() follows, never inside this call. */
static inline void fl_conn_close(struct fl_conn *conn, const char *why) { conn->ops->close(conn, why); }
/* Takes conn to another loop; allowed while exactly one command (Connect) is with the target. moved() runs on the new loop, never
 * inside this call; until then nobody touches conn or the command. */
static inline void fl_conn_move(struct fl_conn *conn, struct fl_loop *loop, struct fl_pool *pool,
                                void (*moved)(struct fl_conn *conn))
{
    conn->ops->move(conn, loop, pool, moved);
}
static inline void fl_conn_info(const struct fl_conn *conn, struct fl_conn_info *info) { conn->ops->info(conn, info); }

/* Brings cmd->data_len bytes (at most sgl_len, not 0) from the host to cmd->data. */
static inline void fl_cmd_fetch(struct fl_cmd *cmd) { cmd->conn->ops->fetch(cmd); }

/* Sends the data (to_host and status success) and the response. */
static inline void fl_cmd_complete(struct fl_cmd *cmd) { cmd->conn->ops->complete(cmd); }

/* ---- listening ---- */

struct fl_listener;
struct fl_rdma_lib;

struct fl_listen_options {
    struct fl_loop *loop;
    struct fl_pool *pool;
    const struct fl_handler *handler;
    void *listener_user;
    struct fl_addr addr; /* port 0: any; fl_listener_addr tells which */
    const char *dev;     /* RDMA: which device, as fl_choose() takes it; NULL: auto. Used during listen() only */
    bool hdgst, ddgst;   /* digests that may be agreed (both true by default) */
    uint32_t max_h2c_len; /* MAXH2CDATA, 4096..; 0: default */
    uint32_t maxr2t;      /* R2Ts outstanding per command at most; 0: default */
    uint32_t pda;         /* CPDA in bytes: 4 (default)..128 */
    uint32_t capsule_len; /* in-capsule data of I/O queues (RDMA, whose receives are posted before Connect) */
    uint32_t shared_recv; /* RDMA: receives that all I/O queues have in common; 0: each has its own */
    const struct fl_rdma_lib *rdma; /* RDMA: whose verbs; NULL: those of the chosen device */
    uint32_t setup_timeout_ms; /* ICReq and Connect must come within; 0: default 10 s */
    uint32_t close_timeout_ms; /* what is still to be sent when a connection is closed has this long; 0: default 2 s */
};

struct fl_transport {
    const char *name; /* "tcp", "rdma" */
    /* In-capsule data of I/O queues, bytes: unless the target is told otherwise (0: 8192), and at most (0: no limit). */
    uint32_t capsule_len, most_capsule_len;
    /* -EADDRNOTAVAIL and -EADDRINUSE are told apart in errno and text. */
    int (*listen)(const struct fl_listen_options *options, struct fl_listener **listener, struct fl_error *err);
    void (*unlisten)(struct fl_listener *listener); /* connections that were accepted stay */
    void (*listener_addr)(const struct fl_listener *listener, struct fl_addr *addr);
};

extern const struct fl_transport fl_tcp_transport, fl_rdma_transport;
/* NULL when there is none of that name. */
const struct fl_transport *fl_transport_find(const char *name);

#endif
