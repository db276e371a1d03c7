/* SPDX-License-Identifier: Apache-2.0 */
#include "mem/range.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

static pthread_rwlock_t giving = PTHREAD_RWLOCK_INITIALIZER; /* read: pages go back; write: a pin begins */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;     /* taken after the other */
static struct fl_mem_range *ranges;                          /* lock, as the next three */
static size_t nr_ranges, cap;
static uint64_t last_id;
static uint32_t nr_removed; /* written under the lock, read by anyone */
static void (*on_remove)(void);

static bool overlap(const struct fl_mem_range *r, uintptr_t base, size_t len)
{
    return r->base - base < len || base - r->base < r->len;
}

static bool make_room(void)
{
    size_t more = cap ? cap * 2 : 16;
    struct fl_mem_range *grown;

    if (nr_ranges < cap)
        return true;
    grown = realloc(ranges, more * sizeof(*grown));
    if (!grown)
        return false;
    ranges = grown;
    cap = more;
    return true;
}

int fl_mem_range_add_kind(void *base, size_t len, enum fl_mem_range_kind kind)
{
    int r = 0;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; kind == FL_MEM_REGISTERED && i < nr_ranges; i++)
        if (ranges[i].kind == kind && overlap(&ranges[i], (uintptr_t)base, len))
            r = -EEXIST;
    if (!r && !make_room())
        r = -ENOMEM;
    if (!r)
        ranges[nr_ranges++] = (struct fl_mem_range){
            .id = ++last_id, .base = (uintptr_t)base, .len = len, .kind = kind};
    pthread_mutex_unlock(&lock);
    return r;
}

int fl_mem_range_add(void *base, size_t len)
{
    return fl_mem_range_add_kind(base, len, FL_MEM_OURS);
}

/* Those that gone() says; how many. */
static size_t remove_those(bool (*gone)(const struct fl_mem_range *r, uintptr_t base, size_t len, int kind),
                           const void *base, size_t len, int kind)
{
    size_t kept = 0, nr;
    void (*removed)(void);

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nr_ranges; i++)
        if (!gone(&ranges[i], (uintptr_t)base, len, kind))
            ranges[kept++] = ranges[i];
    nr = nr_ranges - kept;
    if (nr)
        __atomic_add_fetch(&nr_removed, 1, __ATOMIC_RELEASE);
    nr_ranges = kept;
    if (!kept) { /* nothing is left behind at the end */
        free(ranges);
        ranges = NULL;
        cap = 0;
    }
    removed = nr ? on_remove : NULL;
    pthread_mutex_unlock(&lock);
    if (removed)
        removed();
    return nr;
}

static bool begins_within(const struct fl_mem_range *r, uintptr_t base, size_t len, int kind)
{
    return r->base - base < len;
}

static bool is_exactly(const struct fl_mem_range *r, uintptr_t base, size_t len, int kind)
{
    return r->base == base && r->len == len && (int)r->kind == kind;
}

static bool overlaps(const struct fl_mem_range *r, uintptr_t base, size_t len, int kind)
{
    return (int)r->kind == kind && overlap(r, base, len);
}

void fl_mem_range_remove(void *base, size_t len)
{
    (void)remove_those(begins_within, base, len, 0);
}

int fl_mem_range_remove_exact(void *base, size_t len, enum fl_mem_range_kind kind)
{
    return remove_those(is_exactly, base, len, (int)kind) ? 0 : -ENOENT;
}

void fl_mem_range_remove_overlapping(const void *base, size_t len, enum fl_mem_range_kind kind)
{
    (void)remove_those(overlaps, base, len, (int)kind);
}

void fl_mem_range_totals(enum fl_mem_range_kind kind, size_t *nr, size_t *len)
{
    *nr = *len = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nr_ranges; i++) {
        if (ranges[i].kind == kind) {
            ++*nr;
            *len += ranges[i].len;
        }
    }
    pthread_mutex_unlock(&lock);
}

void fl_mem_range_on_remove(void (*removed)(void))
{
    pthread_mutex_lock(&lock);
    on_remove = removed;
    pthread_mutex_unlock(&lock);
}

int fl_mem_range_find(const void *p, size_t len, struct fl_mem_range *range)
{
    int found = 0;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nr_ranges && !found; i++) {
        size_t off = (uintptr_t)p - ranges[i].base;

        if ((uintptr_t)p < ranges[i].base || off > ranges[i].len || len > ranges[i].len - off)
            continue;
        *range = ranges[i];
        found = 1;
    }
    pthread_mutex_unlock(&lock);
    return found;
}

int fl_mem_range_exists(uint64_t id)
{
    int found = 0;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nr_ranges && !found; i++)
        found = ranges[i].id == id;
    pthread_mutex_unlock(&lock);
    return found;
}

uint32_t fl_mem_range_nr_removed(void)
{
    return __atomic_load_n(&nr_removed, __ATOMIC_ACQUIRE);
}

static bool add_pins(uint64_t id, int nr)
{
    bool found = false;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nr_ranges && !found; i++)
        if (ranges[i].id == id) {
            ranges[i].nr_pins += (uint32_t)nr;
            found = true;
        }
    pthread_mutex_unlock(&lock);
    return found;
}

bool fl_mem_range_pin(uint64_t id)
{
    bool found;

    pthread_rwlock_wrlock(&giving); /* what is on its way back to the kernel is there first */
    found = add_pins(id, 1);
    pthread_rwlock_unlock(&giving);
    return found;
}

void fl_mem_range_unpin(uint64_t id)
{
    (void)add_pins(id, -1);
}

static bool is_pinned(uintptr_t base, size_t len)
{
    bool pinned = false;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nr_ranges && !pinned; i++)
        pinned = ranges[i].nr_pins && ranges[i].base < base + len && base < ranges[i].base + ranges[i].len;
    pthread_mutex_unlock(&lock);
    return pinned;
}

int fl_mem_give_back(void *base, size_t len)
{
    int r = -EBUSY;

    pthread_rwlock_rdlock(&giving);
    if (!is_pinned((uintptr_t)base, len))
        r = madvise(base, len, MADV_DONTNEED) < 0 ? -errno : 0;
    pthread_rwlock_unlock(&giving);
    return r;
}
