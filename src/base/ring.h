/* SPDX-License-Identifier: Apache-2.0 */
/* A queue of pointers with room for a power of two of them, reserved at set-up. One thread. */
#ifndef FL_BASE_RING_H
#define FL_BASE_RING_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/util.h"

struct fl_ring {
    void **slot;
    uint32_t mask;
    uint32_t head, tail; /* run freely: tail - head is the number held */
};

/* Holds at least `nr` (1 to 2^31). 0, -EINVAL or -ENOMEM. */
static inline int fl_ring_init(struct fl_ring *ring, uint32_t nr)
{
    uint32_t size = 1;

    if (!nr || nr > UINT32_C(1) << 31)
        return -EINVAL;
    while (size < nr)
        size <<= 1;
    *ring = (struct fl_ring){.slot = calloc(size, sizeof(void *)), .mask = size - 1};
    return ring->slot ? 0 : -ENOMEM;
}

static inline void fl_ring_fini(struct fl_ring *ring)
{
    free(ring->slot);
    *ring = (struct fl_ring){0};
}

static inline uint32_t fl_ring_count(const struct fl_ring *ring)
{
    return ring->tail - ring->head;
}

static inline bool fl_ring_empty(const struct fl_ring *ring)
{
    return ring->tail == ring->head;
}

static inline bool fl_ring_full(const struct fl_ring *ring)
{
    return fl_ring_count(ring) > ring->mask;
}

/* False: full. */
static inline bool fl_ring_push(struct fl_ring *ring, void *p)
{
    if (fl_ring_full(ring))
        return false;
    ring->slot[ring->tail++ & ring->mask] = p;
    return true;
}

/* The oldest, which stays; NULL: empty. */
static inline void *fl_ring_peek(const struct fl_ring *ring)
{
    return fl_ring_empty(ring) ? NULL : ring->slot[ring->head & ring->mask];
}

static inline void *fl_ring_pop(struct fl_ring *ring)
{
    return fl_ring_empty(ring) ? NULL : ring->slot[ring->head++ & ring->mask];
}

#endif
