/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Receives that the I/O queues of a listener have in common, for a target with many hosts: memory for as many
 * capsules as are on their way at a time, not for as many as there may be commands. Admin queues keep
 * receives of their own, so that keep-alive gets through whatever the I/O queues do.
 *
 * A capsule is out of its receive, and the receive back in the queue, before the command goes to the target;
 * only data that came with it stays, and not even that once a part of the receives is held so (the reserve):
 * then it is copied. No slow back end can take the last receive, and a new I/O queue's Connect finds one.
 */
#ifndef FL_FABRIC_RDMA_SHARED_H
#define FL_FABRIC_RDMA_SHARED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "fabric/rdma_domain.h"

#define FL_RDMA_WR_BITS \
    2 /* of a wr_id, the lowest: what it is of; 0: a receive, whose number is above them */

struct fl_rdma_shared {
    const struct fl_rdma_lib *lib;
    struct fl_rdma_domain *domain;
    struct ibv_srq *srq;
    struct ibv_mr *mr;
    uint8_t *mem;
    size_t mem_len;
    uint32_t nr, stride, recv_len;
    uint32_t max_held; /* the others are the reserve */
    /* private: any thread */
    uint32_t nr_held, refs;
    struct fl_rdma_shared *next; /* of a listener with several devices */
};

/*
 * nr receives of recv_len bytes, all posted. The caller's: put. -EOPNOTSUPP: the device has no such queue, or
 * not of this length.
 */
int fl_rdma_shared_create(const struct fl_rdma_lib *lib, struct ibv_context *context, uint32_t nr,
                          uint32_t recv_len, struct fl_rdma_shared **shared);
void fl_rdma_shared_get(struct fl_rdma_shared *shared);
void fl_rdma_shared_put(struct fl_rdma_shared *shared);

static inline uint8_t *fl_rdma_shared_at(const struct fl_rdma_shared *shared, uint32_t recv)
{
    return shared->mem + (size_t)recv * shared->stride;
}

/* A capsule has come in one. True: it may stay there; false: the reserve is reached. */
static inline bool fl_rdma_shared_hold(struct fl_rdma_shared *shared)
{
    return __atomic_add_fetch(&shared->nr_held, 1, __ATOMIC_RELAXED) <= shared->max_held;
}

/* Gives one back that was held. 0, or the errno of ibv_post_srq_recv. */
int fl_rdma_shared_post(struct fl_rdma_shared *shared, uint32_t recv);

#endif
