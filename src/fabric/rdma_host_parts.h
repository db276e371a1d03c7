/* SPDX-License-Identifier: Apache-2.0 */
/* What rdma_host.c (a connection's beginning and end) and rdma_host_req.c (its requests) share. */
#ifndef FL_FABRIC_RDMA_HOST_PARTS_H
#define FL_FABRIC_RDMA_HOST_PARTS_H

#include <errno.h>

#include "fabric/rdma_domain.h"
#include "fabric/rdma_host.h"
#include "verbs/choose.h"
#include "wire/nvme_rdma.h"

#define BATCH        32
#define SIGNAL_EVERY 16 /* SENDs without data in the capsule are told of only so often */
#define SGE_MAX      4

enum fl_rdma_host_state { RESOLVE_ADDR, RESOLVE_ROUTE, CONNECT, CONNECTED };

/* What a completion is of, in the low bits of its wr_id; above them the receive or slot. */
enum { WR_RECV, WR_SEND, WR_SIGNAL, WR_BITS = 2 };

struct fl_rdma_host_slot {
    struct fl_request *req;
    uint8_t generation;
    bool sending;       /* its SEND has data in it, and has no completion yet */
    bool answered;      /* or no answer is expected: it has not been sent */
    struct ibv_mr *own; /* of memory that belongs to no range */
    uint8_t *bounce;    /* data that lies in several pieces, in one */
};

/* A command that is not sent inline: with data behind it, or with the descriptors of its data. */
struct fl_rdma_host_capsule {
    struct fl_nvme_sqe sqe;
    struct fl_nvme_keyed_sgl pieces[FL_NVME_RDMA_MAX_PIECES];
};

struct fl_rdma_host {
    const struct fl_rdma_lib *lib;
    struct fl_rdma_host_options options;
    struct fl_error err;
    enum fl_rdma_host_state state;
    bool closed; /* by the target: what it answered before is still taken in */
    uint32_t next_addr;
    struct fl_choice choice;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct fl_rdma_domain *domain;
    struct fl_rdma_keys keys;
    struct ibv_comp_channel *comp;
    struct ibv_cq *cq;
    struct ibv_mr *recv_mr;
    struct fl_nvme_cqe *recvs;             /* one a slot */
    struct fl_rdma_host_capsule *capsules; /* the same; behind the receives, in one piece with them */
    struct fl_rdma_host_slot *slots;
    uint32_t capsule_len, max_pieces, max_sge, slot_bits;
    uint32_t nr_out, max_out; /* commands without a response, and how many the controller has receives for */
    bool armed;
    /* Places in the send queue: taken by each SEND, given back when a later one is told of. */
    uint32_t nr_sends, sends_max, unsignaled;
    struct fl_list tx_wait; /* requests that found none, or no receive at the controller */
    struct fl_list unsent;  /* those whose memory cannot be used, till done() is called */
    uint32_t idle;
    struct ibv_wc wcs[BATCH];
    int nr_wcs;
};

/* The first cause counts. Returns it. */
static inline int fl_rdma_host_broken(struct fl_rdma_host *h, int code, const char *text)
{
    if (!h->err.code)
        fl_error_set(&h->err, code, "%s", text);
    return h->err.code;
}

static inline int fl_rdma_host_closed(struct fl_rdma_host *h)
{
    return fl_rdma_host_broken(h, -ECONNRESET, "the target closed the connection");
}

/* rdma_host.c */
int fl_rdma_host_take_events(struct fl_rdma_host *host); /* of the connection manager */

/* rdma_host_words.c: the first cause counts here, too, and each returns it. */
int fl_rdma_host_breach(struct fl_rdma_host *host, const char *what);
/* 0: the private data of the target's REP will do. */
int fl_rdma_host_check_reply(struct fl_rdma_host *host, const void *private_data, size_t len,
                             uint32_t *nr_recv);
int fl_rdma_host_rejected(struct fl_rdma_host *host, int reason, const void *private_data, size_t len);
int fl_rdma_host_wc_failed(struct fl_rdma_host *host, const struct ibv_wc *wc);

/* rdma_host_req.c */
int fl_rdma_host_post_recv(struct fl_rdma_host *host, uint32_t i);
/* The queue pair is gone: requests fall back to idle. */
void fl_rdma_host_end_requests(struct fl_rdma_host *host);

#endif
