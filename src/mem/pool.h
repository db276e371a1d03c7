/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pool of data buffers on one loop: contiguous, 4096-byte aligned, of power-of-two sizes from 4 KiB to 1 MiB, cut out of
 * one reserved range of memory. Pages that were never used cost nothing. When the pool is empty, a waiter is queued and
 * called in order as buffers come back.
 */
#ifndef FL_MEM_POOL_H
#define FL_MEM_POOL_H

#include <stddef.h>
#include <stdint.h>

#include "base/list.h"

#define FL_POOL_MIN_LEN 4096u
#define FL_POOL_MAX_LEN (1u << 20)

struct fl_pool;

struct fl_pool_wait {
    void (*ready)(struct fl_pool_wait *wait, void *buf); /* buf is the caller's */
    uint32_t len;                                        /* private from here */
    struct fl_list link;
};

struct fl_pool_stats {
    uint64_t total_len, used_len, peak_len;
    uint64_t nr_waits; /* how often a caller had to wait */
};

/* total_len is rounded up to 1 MiB. */
int fl_pool_create(size_t total_len, struct fl_pool **pool);
void fl_pool_destroy(struct fl_pool *pool); /* every buffer must be back */

/* len 1..FL_POOL_MAX_LEN. NULL when the pool is empty, or when others wait already (nobody overtakes). */
void *fl_pool_get(struct fl_pool *pool, uint32_t len);
/* Queues wait until a buffer of len is there; ready is called from fl_pool_put. */
void fl_pool_wait(struct fl_pool *pool, struct fl_pool_wait *wait, uint32_t len);
void fl_pool_wait_cancel(struct fl_pool_wait *wait); /* no-op when not queued (zero-initialised) */
void fl_pool_put(struct fl_pool *pool, void *buf);
void fl_pool_stats(const struct fl_pool *pool, struct fl_pool_stats *stats);

#endif
