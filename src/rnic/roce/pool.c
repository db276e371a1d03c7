/* SPDX-License-Identifier: Apache-2.0 */
/* Packets that wait for others before them: what is in use is bounded for all queue pairs of a thread
 * together. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/roce/parts.h"

int fl_roce_pool_init(struct fl_roce_pool *pool, uint32_t nr)
{
    memset(pool, 0, sizeof(*pool));
    if (!nr || nr > FL_ROCE_POOL_MAX)
        return -EINVAL;
    /* Pages that were never used cost nothing, and what is given back last is taken first. */
    pool->packets = calloc(nr, sizeof(*pool->packets));
    pool->free = malloc(nr * sizeof(*pool->free));
    if (!pool->packets || !pool->free) {
        fl_roce_pool_fini(pool);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < nr; i++)
        pool->free[i] = (uint16_t)(nr - 1 - i);
    pool->nr = pool->nr_free = nr;
    return 0;
}

void fl_roce_pool_fini(struct fl_roce_pool *pool)
{
    free(pool->packets);
    free(pool->free);
    memset(pool, 0, sizeof(*pool));
}
