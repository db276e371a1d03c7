/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A buddy allocator over one range, its bookkeeping outside of the range so that free pages are never touched. Blocks that
 * come back are first kept as they are, a few for each size, since the next I/O mostly wants the same size again.
 */
#include "mem/pool.h"

#include <assert.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "mem/shared.h"

#define NR_ORDERS 9 /* 4 KiB << 0 .. 4 KiB << 8 */
#define TOP (NR_ORDERS - 1)
#define KEPT_MAX 64
#define NONE UINT32_MAX

enum page_state {
    PAGE_INSIDE, /* not the first page of a block */
    PAGE_USED,
    PAGE_KEPT, /* free, in kept[] of its order */
    PAGE_FREE, /* free, in the free list of its order */
};

struct page { /* of the first page of each block */
    uint32_t next, prev;
    uint8_t state, order;
};

struct fl_pool {
    uint8_t *base;
    struct page *pages;
    uint32_t nr_pages;
    uint32_t free_head[NR_ORDERS];
    uint32_t kept[NR_ORDERS][KEPT_MAX];
    uint32_t nr_kept[NR_ORDERS];
    struct fl_list waits;
    bool serving; /* fl_pool_put is walking the waits */
    struct fl_pool_stats stats;
};

static void push_free(struct fl_pool *pool, uint32_t page, uint8_t order)
{
    uint32_t head = pool->free_head[order];

    pool->pages[page] = (struct page){.next = head, .prev = NONE, .state = PAGE_FREE, .order = order};
    if (head != NONE)
        pool->pages[head].prev = page;
    pool->free_head[order] = page;
}

static void take_free(struct fl_pool *pool, uint32_t page)
{
    struct page *p = &pool->pages[page];

    if (p->prev != NONE)
        pool->pages[p->prev].next = p->next;
    else
        pool->free_head[p->order] = p->next;
    if (p->next != NONE)
        pool->pages[p->next].prev = p->prev;
    p->state = PAGE_INSIDE;
}

static void merge_free(struct fl_pool *pool, uint32_t page, uint8_t order)
{
    while (order < TOP) {
        uint32_t buddy = page ^ (1u << order);
        const struct page *b = &pool->pages[buddy];

        if (b->state != PAGE_FREE || b->order != order)
            break;
        take_free(pool, buddy);
        pool->pages[page].state = PAGE_INSIDE;
        page &= ~(1u << order);
        order++;
    }
    push_free(pool, page, order);
}

/* Gives the kept blocks back to the buddies, so that larger ones can form. */
static bool release_kept(struct fl_pool *pool)
{
    bool any = false;

    for (uint8_t order = 0; order < NR_ORDERS; order++)
        while (pool->nr_kept[order]) {
            merge_free(pool, pool->kept[order][--pool->nr_kept[order]], order);
            any = true;
        }
    return any;
}

static uint32_t split_free(struct fl_pool *pool, uint8_t order)
{
    uint8_t from = order;
    uint32_t page;

    while (from < NR_ORDERS && pool->free_head[from] == NONE)
        from++;
    if (from == NR_ORDERS)
        return NONE;
    page = pool->free_head[from];
    take_free(pool, page);
    while (from > order) {
        from--;
        push_free(pool, page + (1u << from), from);
    }
    return page;
}

static uint8_t order_of(uint32_t len)
{
    assert(len > 0 && len <= FL_POOL_MAX_LEN);
    return len <= FL_POOL_MIN_LEN ? 0 : (uint8_t)(32 - __builtin_clz((len - 1) / FL_POOL_MIN_LEN));
}

/* The pool's thread alone writes; any other may look, and sees whole numbers. */
static void set_stat(uint64_t *stat, uint64_t value)
{
    __atomic_store_n(stat, value, __ATOMIC_RELAXED);
}

static void *take(struct fl_pool *pool, uint32_t len)
{
    uint8_t order = order_of(len);
    uint32_t page;

    if (pool->nr_kept[order]) {
        page = pool->kept[order][--pool->nr_kept[order]];
    } else {
        page = split_free(pool, order);
        if (page == NONE && release_kept(pool))
            page = split_free(pool, order);
        if (page == NONE)
            return NULL;
    }
    pool->pages[page].state = PAGE_USED;
    pool->pages[page].order = order;
    set_stat(&pool->stats.used_len, pool->stats.used_len + ((uint64_t)FL_POOL_MIN_LEN << order));
    if (pool->stats.used_len > pool->stats.peak_len)
        set_stat(&pool->stats.peak_len, pool->stats.used_len);
    return pool->base + (size_t)page * FL_POOL_MIN_LEN;
}

int fl_pool_create(size_t total_len, struct fl_pool **out)
{
    struct fl_pool *pool;
    int r = -ENOMEM;

    total_len = (total_len + FL_POOL_MAX_LEN - 1) / FL_POOL_MAX_LEN * FL_POOL_MAX_LEN;
    if (!total_len || total_len / FL_POOL_MIN_LEN >= NONE)
        return -EINVAL;
    pool = calloc(1, sizeof(*pool));
    if (!pool)
        return -ENOMEM;
    pool->nr_pages = (uint32_t)(total_len / FL_POOL_MIN_LEN);
    pool->pages = calloc(pool->nr_pages, sizeof(*pool->pages));
    if (!pool->pages)
        goto free_pool;
    pool->base = fl_shared_alloc(total_len);
    if (!pool->base) {
        r = -errno;
        goto free_pages;
    }
    for (uint32_t order = 0; order < NR_ORDERS; order++)
        pool->free_head[order] = NONE;
    for (uint32_t page = pool->nr_pages; page; page -= 1u << TOP)
        push_free(pool, page - (1u << TOP), TOP);
    fl_list_init(&pool->waits);
    pool->stats.total_len = total_len;
    *out = pool;
    return 0;

free_pages:
    free(pool->pages);
free_pool:
    free(pool);
    return r;
}

void fl_pool_destroy(struct fl_pool *pool)
{
    if (!pool)
        return;
    assert(pool->stats.used_len == 0);
    fl_shared_free(pool->base, (size_t)pool->nr_pages * FL_POOL_MIN_LEN);
    free(pool->pages);
    free(pool);
}

void *fl_pool_get(struct fl_pool *pool, uint32_t len)
{
    return fl_list_empty(&pool->waits) ? take(pool, len) : NULL;
}

void fl_pool_wait(struct fl_pool *pool, struct fl_pool_wait *wait, uint32_t len)
{
    wait->len = len;
    fl_list_add_tail(&pool->waits, &wait->link);
    set_stat(&pool->stats.nr_waits, pool->stats.nr_waits + 1);
}

void fl_pool_wait_cancel(struct fl_pool_wait *wait)
{
    if (!wait->len)
        return;
    wait->len = 0;
    fl_list_del(&wait->link);
}

static void serve_waits(struct fl_pool *pool)
{
    if (pool->serving) /* a ready() put a buffer back: the walk below goes on with it */
        return;
    pool->serving = true;
    while (!fl_list_empty(&pool->waits)) {
        struct fl_pool_wait *wait = FL_CONTAINER_OF(pool->waits.next, struct fl_pool_wait, link);
        void *buf = take(pool, wait->len);

        if (!buf)
            break;
        fl_pool_wait_cancel(wait);
        wait->ready(wait, buf);
    }
    pool->serving = false;
}

void fl_pool_put(struct fl_pool *pool, void *buf)
{
    uint32_t page = (uint32_t)(((uint8_t *)buf - pool->base) / FL_POOL_MIN_LEN);
    struct page *p = &pool->pages[page];

    assert(page < pool->nr_pages && p->state == PAGE_USED);
    set_stat(&pool->stats.used_len, pool->stats.used_len - ((uint64_t)FL_POOL_MIN_LEN << p->order));
    if (pool->nr_kept[p->order] < KEPT_MAX) {
        p->state = PAGE_KEPT;
        pool->kept[p->order][pool->nr_kept[p->order]++] = page;
    } else {
        merge_free(pool, page, p->order);
    }
    if (!fl_list_empty(&pool->waits))
        serve_waits(pool);
}

void fl_pool_stats(const struct fl_pool *pool, struct fl_pool_stats *stats)
{
    *stats = (struct fl_pool_stats){
        .total_len = pool->stats.total_len, /* never changes */
        .used_len = __atomic_load_n(&pool->stats.used_len, __ATOMIC_RELAXED),
        .peak_len = __atomic_load_n(&pool->stats.peak_len, __ATOMIC_RELAXED),
        .nr_waits = __atomic_load_n(&pool->stats.nr_waits, __ATOMIC_RELAXED),
    };
}
