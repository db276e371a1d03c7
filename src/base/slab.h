/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A fixed number of objects of one size, reserved at set-up: get and put take no memory and no lock. Each
 * object has an index, which may go to a peer as a tag; fl_slab_lookup turns a tag that came back into the
 * object, or into NULL when it names none that is in use. Objects are cleared once, at init, and keep their
 * content over put and get, so that what is set up in them once stays. One thread.
 */
#ifndef FL_BASE_SLAB_H
#define FL_BASE_SLAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fl_slab {
    uint8_t *mem;
    uint32_t
        *free; /* indices, used as a stack: the object put last is warm in the cache and goes out first */
    uint8_t *in_use; /* one flag an object */
    size_t object_len;
    uint32_t nr;
    uint32_t nr_free;
};

/* Objects are aligned to 64 bytes. 0 or -ENOMEM, -EINVAL (nothing to hold, or too much for a size_t). */
int fl_slab_init(struct fl_slab *slab, size_t object_len, uint32_t nr);
/* Everything must have been put back, except at an exit by error. */
void fl_slab_fini(struct fl_slab *slab);

static inline void *fl_slab_at(const struct fl_slab *slab, uint32_t index)
{
    return slab->mem + (size_t)index * slab->object_len;
}

/* NULL: all are in use. */
static inline void *fl_slab_get(struct fl_slab *slab)
{
    uint32_t index;

    if (!slab->nr_free)
        return NULL;
    index = slab->free[--slab->nr_free];
    slab->in_use[index] = 1;
    return fl_slab_at(slab, index);
}

static inline uint32_t fl_slab_index(const struct fl_slab *slab, const void *object)
{
    return (uint32_t)((size_t)((const uint8_t *)object - slab->mem) / slab->object_len);
}

/* Putting what is not in use is a fault of ours and ends the program. */
void fl_slab_put(struct fl_slab *slab, void *object);

/* For an index that came from outside: NULL unless it names an object in use. */
static inline void *fl_slab_lookup(const struct fl_slab *slab, uint64_t index)
{
    return index < slab->nr && slab->in_use[index] ? fl_slab_at(slab, (uint32_t)index) : NULL;
}

static inline uint32_t fl_slab_nr_used(const struct fl_slab *slab)
{
    return slab->nr - slab->nr_free;
}

#endif
