/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/tcp_slot.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#define KEPT_STASH_LEN (256u << 10)

int fl_tcp_slots_grow(struct fl_tcp_target *t, uint32_t nr)
{
    struct fl_tcp_slot **slots, *chunk;
    uint32_t more = nr - t->nr_slots;

    if (nr <= t->nr_slots)
        return 0;
    if (nr > FL_TCP_TARGET_MAX_DEPTH || t->nr_chunks == FL_ARRAY_LEN(t->chunks))
        return -EINVAL;
    slots = realloc(t->slots, nr * sizeof(*slots));
    if (!slots)
        return -ENOMEM;
    t->slots = slots;
    chunk = calloc(more, sizeof(*chunk));
    if (!chunk)
        return -ENOMEM;
    t->chunks[t->nr_chunks++] = chunk;
    for (uint32_t i = nr; i-- > t->nr_slots;) { /* so that the free list begins with the first */
        struct fl_tcp_slot *slot = &chunk[i - t->nr_slots];

        slot->index = i;
        slot->cmd.conn = &t->conn;
        slots[i] = slot;
        fl_tcp_slot_put(t, slot);
    }
    t->nr_slots = nr;
    while ((1u << t->tag_bits) < nr * FL_TCP_TARGET_MAX_R2T)
        t->tag_bits++;
    return 0;
}

static void release_region(struct fl_tcp_region *region)
{
    if (region->len)
        munmap(region->base, region->len);
    *region = (struct fl_tcp_region){0};
}

/* Slots in use may point into the region that there is: then it stays until the end. */
int fl_tcp_stash_reserve(struct fl_tcp_target *t)
{
    uint32_t stride = (uint32_t)fl_round_up(t->capsule_len, 4096);
    size_t len = (size_t)stride * t->nr_slots;
    void *base;

    if (!len || (stride == t->stash_stride && len <= t->stash.len))
        return 0;
    if (t->nr_stashed && t->nr_old_stash == FL_ARRAY_LEN(t->old_stash))
        return -ENOMEM;
    base = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (base == MAP_FAILED)
        return -ENOMEM;
    if (t->nr_stashed)
        t->old_stash[t->nr_old_stash++] = t->stash;
    else
        release_region(&t->stash);
    t->stash = (struct fl_tcp_region){.base = base, .len = len};
    t->stash_stride = stride;
    return 0;
}

uint8_t *fl_tcp_stash_get(struct fl_tcp_target *t, struct fl_tcp_slot *slot)
{
    assert(!slot->stash && (size_t)(slot->index + 1) * t->stash_stride <= t->stash.len);
    slot->stash = t->stash.base + (size_t)slot->index * t->stash_stride;
    t->nr_stashed++;
    t->stashed_len += slot->cmd.sgl_len;
    t->stash_peak = FL_MAX(t->stash_peak, slot->index);
    return slot->stash;
}

void fl_tcp_stash_put(struct fl_tcp_target *t, struct fl_tcp_slot *slot)
{
    slot->stash = NULL;
    t->stashed_len -= slot->cmd.sgl_len;
    if (--t->nr_stashed)
        return;
    /* After a time of want the memory is given back; a little of it stays. */
    if ((uint64_t)(t->stash_peak + 1) * t->stash_stride > KEPT_STASH_LEN)
        (void)madvise(t->stash.base, t->stash.len, MADV_DONTNEED);
    t->stash_peak = 0;
    while (t->nr_old_stash)
        release_region(&t->old_stash[--t->nr_old_stash]);
}

void fl_tcp_slots_fini(struct fl_tcp_target *t)
{
    while (t->nr_chunks)
        free(t->chunks[--t->nr_chunks]);
    free(t->slots);
    t->slots = NULL;
    t->free = NULL;
    t->nr_slots = 0;
    release_region(&t->stash);
    while (t->nr_old_stash)
        release_region(&t->old_stash[--t->nr_old_stash]);
}
