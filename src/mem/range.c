/* SPDX-License-Identifier: Apache-2.0 */
#include "mem/range.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fl_mem_range *ranges; /* lock, as the next three */
static size_t nr_ranges, cap;
static uint64_t last_id;
static uint32_t nr_removed; /* written under the lock, read by anyone */

int fl_mem_range_add(void *base, size_t len)
{
    int r = 0;

    pthread_mutex_lock(&lock);
    if (nr_ranges == cap) {
        size_t more = cap ? cap * 2 : 16;
        struct fl_mem_range *grown = realloc(ranges, more * sizeof(*grown));

        if (grown) {
            ranges = grown;
            cap = more;
        }
    }
    if (nr_ranges < cap)
        ranges[nr_ranges++] = (struct fl_mem_range){.id = ++last_id, .base = (uintptr_t)base, .len = len};
    else
        r = -ENOMEM;
    pthread_mutex_unlock(&lock);
    return r;
}

void fl_mem_range_remove(void *base, size_t len)
{
    size_t kept = 0;

    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < nr_ranges; i++)
        if (ranges[i].base - (uintptr_t)base >= len)
            ranges[kept++] = ranges[i];
    if (kept != nr_ranges)
        __atomic_add_fetch(&nr_removed, 1, __ATOMIC_RELEASE);
    nr_ranges = kept;
    if (!kept) { /* nothing is left behind at the end */
        free(ranges);
        ranges = NULL;
        cap = 0;
    }
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
