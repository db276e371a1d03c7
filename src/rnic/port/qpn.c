/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>

#include "rnic/port/impl.h"

#define WORDS (FL_HUB_BLOCK_LEN / 64)

void fl_qpn_pool_fini(struct fl_qpn_pool *pool)
{
    for (uint32_t i = 0; i < pool->nr_blocks; i++)
        free(pool->used[i]);
    *pool = (struct fl_qpn_pool){0};
}

int fl_qpn_pool_add(struct fl_qpn_pool *pool, uint32_t block)
{
    uint64_t *used;
    if (pool->nr_blocks == FL_HUB_SLOT_BLOCKS)
        return -ENOSPC;
    used = calloc(WORDS, sizeof(*used));
    if (!used)
        return -ENOMEM;
    pool->blocks[pool->nr_blocks] = (uint16_t)block;
    pool->lost[pool->nr_blocks] = false;
    pool->used[pool->nr_blocks] = used;
    pool->at = pool->nr_blocks << FL_HUB_BLOCK_BITS;
    pool->nr_blocks++;
    return 0;
}

bool fl_qpn_pool_is_short(const struct fl_qpn_pool *pool)
{
    return pool->nr_used * 2 >= pool->nr_blocks << FL_HUB_BLOCK_BITS;
}

int fl_qpn_pool_get(struct fl_qpn_pool *pool, uint32_t *qpn)
{
    uint32_t total = pool->nr_blocks << FL_HUB_BLOCK_BITS;
    for (uint32_t n = 0; n < total; n++) {
        uint32_t at = pool->at, block = at >> FL_HUB_BLOCK_BITS, bit = at & (FL_HUB_BLOCK_LEN - 1);
        pool->at = at + 1 < total ? at + 1 : 0;
        if (pool->lost[block] || pool->used[block][bit / 64] >> bit % 64 & 1)
            continue;
        pool->used[block][bit / 64] |= UINT64_C(1) << bit % 64;
        pool->nr_used++;
        *qpn = (uint32_t)pool->blocks[block] << FL_HUB_BLOCK_BITS | bit;
        return 0;
    }
    return -ENOSPC;
}

static uint32_t index_of(const struct fl_qpn_pool *pool, uint32_t block)
{
    uint32_t i = 0;
    while (i < pool->nr_blocks && pool->blocks[i] != block)
        i++;
    return i;
}

void fl_qpn_pool_put(struct fl_qpn_pool *pool, uint32_t qpn)
{
    uint32_t i = index_of(pool, qpn >> FL_HUB_BLOCK_BITS), bit = qpn & (FL_HUB_BLOCK_LEN - 1);
    if (i == pool->nr_blocks || !(pool->used[i][bit / 64] >> bit % 64 & 1))
        return;
    pool->used[i][bit / 64] &= ~(UINT64_C(1) << bit % 64);
    pool->nr_used--;
}

void fl_qpn_pool_lose(struct fl_qpn_pool *pool, uint32_t block)
{
    uint32_t i = index_of(pool, block);
    if (i < pool->nr_blocks)
        pool->lost[i] = true;
}
