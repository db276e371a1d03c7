/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the target's side of NVMe/RDMA share: rdma_accept.c makes a connection, rdma_cmd.c moves
 * commands and data, rdma_conn.c drives and ends it. docs/design/rdma.md tells the states.
 */
#ifndef FL_FABRIC_RDMA_PARTS_H
#define FL_FABRIC_RDMA_PARTS_H

#include <stdbool.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/util.h"
#include "fabric/fabric.h"
#include "fabric/rdma_domain.h"
#include "fabric/rdma_shared.h"
#include "wire/nvme_rdma.h"

enum fl_rdma_state {
    FL_RDMA_OPEN,
    FL_RDMA_CLOSING, /* nothing new is taken or sent; what was posted gets its completion */
    FL_RDMA_DEAD,    /* the queue pair is gone; waits for the target to complete its commands */
};

enum slot_state {
    SLOT_FREE,
    SLOT_TARGET,
    SLOT_FETCHING, /* with the target, and an RDMA READ is under way */
    SLOT_SENDING,  /* completed; data and response are under way */
};

/* What a completion is of: in the low bits of its wr_id, above them the number of receive or slot. */
enum {
    WR_RECV,
    WR_READ,
    WR_SEND,
    WR_PIECE /* unsignaled: told of only when it fails */,
    WR_BITS = FL_RDMA_WR_BITS
};

struct slot {
    struct fl_cmd cmd;
    struct slot *next; /* free, or waiting for places in the send queue */
    enum slot_state state;
    struct fl_nvme_rdma_data sgl;
    struct fl_nvme_rdma_piece *pieces; /* of sgl, where there are several */
    uint32_t nr_places;                /* that it has in the send queue */
    int recv;                          /* the receive that its capsule lies in, -1: given back */
    struct ibv_mr *own;                /* of data that belongs to no range */
};

/* Responses that are posted together, the data of all before the first of them: packets of one length in a
 * row leave in fewer system calls. */
#define RDMA_BATCH 32
struct rdma_batch {
    uint32_t nr_data, nr_sends, nr_recvs;
    struct ibv_recv_wr recvs[RDMA_BATCH]; /* before all of them, as these let the host send again */
    struct ibv_sge recv_sges[RDMA_BATCH];
    struct ibv_send_wr data[RDMA_BATCH], sends[RDMA_BATCH];
    struct ibv_sge data_sges[RDMA_BATCH], sges[RDMA_BATCH];
};
_Static_assert(RDMA_BATCH > FL_NVME_RDMA_MAX_PIECES, "one response has room");

struct rdma_conn {
    struct fl_conn conn;
    const struct fl_rdma_lib *lib;
    struct rdma_cm_id *id;
    struct rdma_event_channel *channel;
    struct ibv_comp_channel *comp;
    struct ibv_cq *cq;
    struct fl_rdma_domain *domain;
    struct fl_rdma_keys keys;

    enum fl_rdma_state state;
    struct rdma_batch *batch; /* what is gathered while completions are taken in; else NULL */
    struct {
        const uint8_t *first, *last;  /* the data of the batch's first response, as far as it is not fetched,
                                         and of its last, if that is another */
        uint32_t first_len, last_len; /* 0: nothing */
    } ahead;                          /* what is to be fetched from memory */
    bool told, established, moving, armed, broke;
    char why[160]; /* the first cause of the end */
    uint32_t setup_ms, close_ms;
    uint64_t last_ns, timer_deadline;

    struct fl_watch cm_watch, cq_watch;
    struct fl_poller poller;
    struct fl_timer timer;
    struct fl_msg msg; /* a move to another loop */
    struct fl_loop *to_loop;
    struct fl_pool *to_pool;
    void (*moved)(struct fl_conn *conn);

    /* Receives: one for each command that the host may have out. Twice as many slots, since a host may send
     * its next command before we have seen that the response to the last one has left. What finds no slot
     * waits. */
    struct fl_rdma_shared *shared; /* or those in common; then nr_recv says only what the host may have out */
    uint8_t *copies; /* with them: room for a capsule's data in each slot, and for a capsule in each that
                        waits; untouched, it costs nothing */
    size_t copies_len;
    uint8_t *recv_mem;
    size_t recv_mem_len;
    struct ibv_mr *recv_mr;
    uint32_t nr_recv, recv_stride, capsule_len;
    uint16_t qid; /* as the host's REQ says */
    struct slot *slots, *free;
    struct fl_nvme_rdma_piece
        *pieces; /* FL_NVME_RDMA_MAX_PIECES a slot; pages that were never used cost nothing */
    uint32_t nr_slots, nr_active, nr_sending, nr_fetching;
    /* Places in the send queue: two a slot, for a command whose data lies in one piece never waits. */
    uint32_t nr_places;
    struct slot *place_head, *place_tail; /* wait for some, in order */
    struct {
        uint32_t recv, len; /* recv: with shared ones the place in the ring, whose copy it is */
    } * waiting;            /* ring of nr_recv */
    uint32_t wait_head, nr_waiting;

    uint64_t rx_len, tx_len, nr_rx, nr_tx;
    char peer[FL_ADDR_TEXT_LEN], local[FL_ADDR_TEXT_LEN];
};

static inline struct rdma_conn *rdma_conn_of(const struct fl_conn *conn)
{
    return FL_CONTAINER_OF((struct fl_conn *)(uintptr_t)conn, struct rdma_conn, conn);
}

static inline struct slot *slot_of(struct fl_cmd *cmd)
{
    return FL_CONTAINER_OF(cmd, struct slot, cmd);
}

static inline void ensure_polled(struct rdma_conn *c)
{
    if (!c->poller.loop && !c->moving)
        fl_poller_add(c->conn.loop, &c->poller);
}

static inline void note_why(struct rdma_conn *c, const char *why)
{
    if (!c->why[0])
        snprintf(c->why, sizeof(c->why), "%s", why);
}

/* The connection can go no further; the poller ends it, outside of all calls. */
static inline void broke(struct rdma_conn *c, const char *why)
{
    note_why(c, why);
    c->broke = true;
    ensure_polled(c);
}

/* rdma_cmd.c */
void fl_rdma_post_recv(struct rdma_conn *c, uint32_t recv);
void fl_rdma_fetch(struct fl_cmd *cmd);
bool fl_rdma_place(void *conn, uint64_t wr_id, uint32_t offset, const void *data, uint32_t len);
void fl_rdma_complete(struct fl_cmd *cmd);
int fl_rdma_reap(struct rdma_conn *c); /* takes completions in; how many there were */
void fl_rdma_take_waiting(struct rdma_conn *c);
/* The queue pair is about to go: receives in common that it has taken go back. */
void fl_rdma_give_back(struct rdma_conn *c);
/* The queue pair is gone: what it had in hand comes to its end. */
void fl_rdma_end_commands(struct rdma_conn *c);

/* rdma_conn.c */
void fl_rdma_prepare(
    struct rdma_conn *c); /* what is called when something comes, and what the target may call */
int fl_rdma_arm_timer(struct rdma_conn *c, uint32_t ms);
int fl_rdma_register(struct rdma_conn *c); /* on the loop of its conn */
void fl_rdma_unregister(struct rdma_conn *c);
void fl_rdma_free(struct rdma_conn *c);

#endif
