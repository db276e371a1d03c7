/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's side of one NVMe/TCP connection, without I/O: set-up, command capsules, data transfer,
 * termination. A driver (tcp.c with sockets, pair.c in memory) embeds it, moves its bytes and supplies the
 * rest of struct fl_conn_ops:
 *
 *   n = fl_tcp_target_rx_iov(t, iov, max);    read;  fl_tcp_target_rx_done(t, got);
 *   n = fl_tcp_stream_tx_iov(&t->stream, ..); write; fl_tcp_target_tx_done(t, put);
 *   broken or at its end:                            fl_tcp_target_cut(t, why);
 *
 * After each of these, and soon after kick(), the driver looks at what is to be done:
 *   fl_tcp_stream_tx_pending(&t->stream)   something is to be sent
 *   t->state == FL_TCP_TARGET_CLOSING      send what is pending, then say goodbye and cut
 *   fl_tcp_target_finished(t)              call handler->closed(&t->conn, t->why), then fini
 */
#ifndef FL_FABRIC_TCP_TARGET_H
#define FL_FABRIC_TCP_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "fabric/fabric.h"
#include "fabric/tcp_stream.h"

#define FL_TCP_TARGET_MAX_R2T         4u /* outstanding per command, whatever the host allows */
#define FL_TCP_TARGET_DEFAULT_H2C_LEN (1u << 20)
#define FL_TCP_TARGET_MAX_DEPTH       16384u /* times R2Ts: what a 16-bit tag can tell apart */

enum fl_tcp_target_state {
    FL_TCP_TARGET_SETUP, /* waits for ICReq */
    FL_TCP_TARGET_OPEN,
    FL_TCP_TARGET_CLOSING, /* nothing is received any more; what is queued (a termination request at the end,
                              perhaps) is sent */
    FL_TCP_TARGET_DEAD,    /* nothing is sent either; waits for the target to complete its commands */
};

struct fl_tcp_slot;
struct fl_tcp_target;

struct fl_tcp_target_options {
    const struct fl_conn_ops *conn_ops;
    const struct fl_handler *handler;
    struct fl_loop *loop;
    struct fl_pool *pool;
    /* Something is to be sent or to be closed, and the driver is not in the middle of a call to the engine.
     * Called once until the driver's next call. */
    void (*kick)(struct fl_tcp_target *t);
    bool hdgst, ddgst;
    uint32_t max_h2c_len; /* 0: default */
    uint32_t maxr2t;      /* 0: default */
    uint32_t pda;         /* 0: 4 */
    uint32_t rx_cap;      /* 0: default */
};

/* As a listener has them, for a driver of its connections. */
static inline struct fl_tcp_target_options fl_tcp_target_options_of(const struct fl_listen_options *o,
                                                                    const struct fl_conn_ops *ops,
                                                                    void (*kick)(struct fl_tcp_target *t))
{
    return (struct fl_tcp_target_options){
        .conn_ops = ops,
        .handler = o->handler,
        .loop = o->loop,
        .pool = o->pool,
        .kick = kick,
        .hdgst = o->hdgst,
        .ddgst = o->ddgst,
        .max_h2c_len = o->max_h2c_len,
        .maxr2t = o->maxr2t,
        .pda = o->pda,
    };
}

struct fl_tcp_region { /* reserved memory, untouched until it is used */
    uint8_t *base;
    size_t len;
};

struct fl_tcp_target {
    struct fl_conn conn;
    struct fl_tcp_stream stream;
    enum fl_tcp_target_state state;
    void (*kick)(struct fl_tcp_target *t);
    bool moving;   /* the driver's: commands that come now wait for the other loop */
    char why[160]; /* the first cause of the end */

    /* private */
    bool busy, kicked, told, wait_room, in_header, hdgst_allowed, ddgst_allowed;
    bool hdgst_asked, ddgst_asked;
    uint8_t pda;
    uint32_t max_h2c_len, maxr2t, nr_r2t; /* ours; what is used with this host */
    uint32_t capsule_len;
    uint32_t nr_slots, nr_active; /* active: with the target, or their data is being sent */
    uint32_t nr_fetching;         /* R2Ts are outstanding */
    uint32_t tag_bits;
    struct fl_tcp_slot **slots; /* by number */
    struct fl_tcp_slot *free;
    struct fl_tcp_slot *chunks[8]; /* memory of the slots */
    uint32_t nr_chunks;
    struct fl_tcp_slot
        *receiving; /* of the command, known to the target, whose in-capsule data is on its way */
    /* Where in-capsule data waits that the target could not take at once: capsule_len for each slot. */
    struct fl_tcp_region stash, old_stash[4];
    uint32_t stash_stride, stash_peak, nr_stashed, nr_old_stash;
    uint64_t stashed_len;
};

int fl_tcp_target_init(struct fl_tcp_target *t, const struct fl_tcp_target_options *options);
/* No command may be with the target. */
void fl_tcp_target_fini(struct fl_tcp_target *t);

int fl_tcp_target_rx_iov(struct fl_tcp_target *t, struct iovec *iov,
                         int max); /* 0: nothing is to be read now */
void fl_tcp_target_rx_done(struct fl_tcp_target *t, size_t n);
void fl_tcp_target_tx_done(struct fl_tcp_target *t, size_t n);
/* The bytes can go no further: everything queued is dropped, commands come to their end. */
void fl_tcp_target_cut(struct fl_tcp_target *t, const char *why);
/* Does what was put off by kick(); also after a move. */
void fl_tcp_target_advance(struct fl_tcp_target *t);

static inline bool fl_tcp_target_finished(const struct fl_tcp_target *t)
{
    return t->state == FL_TCP_TARGET_DEAD && t->told && !t->nr_active;
}

/* The members of struct fl_conn_ops that need no driver. */
int fl_tcp_target_set_depth(struct fl_conn *conn, uint32_t nr_cmds);
void fl_tcp_target_set_limits(struct fl_conn *conn, uint32_t capsule_data_len);
void fl_tcp_target_fetch(struct fl_cmd *cmd);
void fl_tcp_target_complete(struct fl_cmd *cmd);
bool fl_tcp_target_detach(struct fl_cmd *cmd, void *buf);
void fl_tcp_target_close(struct fl_conn *conn, const char *why);
/* All but peer and local. */
void fl_tcp_target_info(const struct fl_conn *conn, struct fl_conn_info *info);

#endif
