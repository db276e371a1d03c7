/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two ends on plain verbs, through struct fl_verbs, so that the same program runs on the software RNIC and on
 * hardware. What the ends must know of each other goes over any stream socket.
 */
#ifndef FL_TESTS_VERBS_PEER_H
#define FL_TESTS_VERBS_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "verbs/verbs.h"

struct peer_options {
    const char *device; /* NULL: the first that is up; loopback last */
    int gid_index;      /* -1: the first IPv4 one */
    enum ibv_qp_type type;
    int mtu;        /* bytes; 0: the port's */
    uint32_t depth; /* of the send and receive queues */
    uint32_t len;   /* of the buffer */
    uint32_t max_inline;
    bool extended; /* the ibv_wr_* calls */
};

/* What one end tells the other */
struct peer_card {
    union ibv_gid gid;
    uint32_t qpn, psn, rkey, mtu;
    uint64_t addr;
};

struct peer {
    const struct fl_verbs *verbs;
    struct peer_options options;
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    uint8_t *buf;
    int gid_index;
    struct peer_card mine, other;
};

/* 0 or -1 with a line on standard error. */
int peer_open(struct peer *p, const struct fl_verbs *verbs, const struct peer_options *options);
/* Swaps cards over the socket, and goes to RTS. Both ends are ready when it returns. */
int peer_connect(struct peer *p, int fd);
/* Two ends of one process, to RTS. */
int peer_join(struct peer *a, struct peer *b);
void peer_close(struct peer *p);

/* One byte there and one back: both ends are at the same place. */
int peer_meet(int fd);

/* Waits for nr completions, polling. 0, or -1 with a line about one that failed. */
int peer_reap(struct peer *p, uint32_t nr);

#endif
