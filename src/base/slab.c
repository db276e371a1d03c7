/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slab.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

int fl_slab_init(struct fl_slab *slab, size_t object_len, uint32_t nr)
{
    size_t len;

    memset(slab, 0, sizeof(*slab));
    if (!object_len || !nr || object_len > SIZE_MAX / 2)
        return -EINVAL;
    slab->object_len = fl_round_up(object_len, FL_CACHE_LINE);
    if (__builtin_mul_overflow(slab->object_len, (size_t)nr, &len))
        return -EINVAL;

    slab->mem = aligned_alloc(FL_CACHE_LINE, len);
    slab->free = malloc(nr * sizeof(*slab->free));
    slab->in_use = calloc(nr, 1);
    if (!slab->mem || !slab->free || !slab->in_use) {
        fl_slab_fini(slab);
        return -ENOMEM;
    }
    memset(slab->mem, 0, len);
    slab->nr = slab->nr_free = nr;
    for (uint32_t i = 0; i < nr; i++)
        slab->free[i] = nr - 1 - i; /* index 0 goes out first */
    return 0;
}

void fl_slab_fini(struct fl_slab *slab)
{
    free(slab->mem);
    free(slab->free);
    free(slab->in_use);
    memset(slab, 0, sizeof(*slab));
}

void fl_slab_put(struct fl_slab *slab, void *object)
{
    uint32_t index = fl_slab_index(slab, object);

    assert(index < slab->nr && fl_slab_at(slab, index) == object);
    assert(slab->in_use[index]);
    slab->in_use[index] = 0;
    slab->free[slab->nr_free++] = index;
}
