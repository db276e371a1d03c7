/* SPDX-License-Identifier: Apache-2.0 */
#include "mem/pool.h"

#include <string.h>

#include "base/unit.h"

static void hands_out_aligned_disjoint_buffers(void **state)
{
    struct fl_pool *pool;
    struct fl_pool_stats stats;
    void *buf[257]; /* one more for the call that gives none */
    int nr = 0;

    assert_int_equal(fl_pool_create(1 << 20, &pool), 0);
    while ((buf[nr] = fl_pool_get(pool, 4096))) {
        assert_int_equal((uintptr_t)buf[nr] % 4096, 0);
        memset(buf[nr], nr, 4096);
        nr++;
    }
    assert_int_equal(nr, 256);
    for (int i = 0; i < nr; i++) {
        assert_int_equal(((uint8_t *)buf[i])[0], i);
        assert_int_equal(((uint8_t *)buf[i])[4095], i);
    }
    for (int i = 0; i < nr; i++)
        fl_pool_put(pool, buf[i]);
    fl_pool_stats(pool, &stats);
    assert_int_equal(stats.used_len, 0);
    assert_int_equal(stats.peak_len, 1 << 20);
    fl_pool_destroy(pool);
}

static void merges_small_ones_into_a_large_one(void **state)
{
    struct fl_pool *pool;
    void *small[256], *large;

    assert_int_equal(fl_pool_create(1 << 20, &pool), 0);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 256; i++)
            assert_non_null(small[i] = fl_pool_get(pool, 1));
        assert_null(fl_pool_get(pool, 1));
        for (int i = 0; i < 256; i++)
            fl_pool_put(pool, small[(i * 97) % 256]);
        assert_non_null(large = fl_pool_get(pool, 1 << 20));
        assert_null(fl_pool_get(pool, 1));
        fl_pool_put(pool, large);
    }
    fl_pool_destroy(pool);
}

struct waiter {
    struct fl_pool_wait wait;
    void *buf;
    int order;
};
static int nr_ready;

static void note_ready(struct fl_pool_wait *wait, void *buf)
{
    struct waiter *w = FL_CONTAINER_OF(wait, struct waiter, wait);

    w->buf = buf;
    w->order = ++nr_ready;
}

static void serves_waiters_in_order_and_nobody_overtakes(void **state)
{
    struct fl_pool *pool;
    struct waiter a = {.wait.ready = note_ready}, b = a, c = a;
    void *large, *small;

    nr_ready = 0;
    assert_int_equal(fl_pool_create(1 << 20, &pool), 0);
    assert_non_null(large = fl_pool_get(pool, 1 << 19));
    assert_non_null(small = fl_pool_get(pool, 4096));
    fl_pool_wait(pool, &a.wait, 1 << 19);
    fl_pool_wait(pool, &b.wait, 4096);
    fl_pool_wait(pool, &c.wait, 4096);
    assert_null(fl_pool_get(pool, 4096)); /* there is room, but a waits */
    fl_pool_wait_cancel(&b.wait);
    fl_pool_wait_cancel(&b.wait);
    fl_pool_put(pool, large);
    assert_int_equal(a.order, 1);
    assert_int_equal(c.order, 2);
    assert_null(b.buf);
    fl_pool_put(pool, a.buf);
    fl_pool_put(pool, c.buf);
    fl_pool_put(pool, small);
    fl_pool_destroy(pool);
}

static void random_use_keeps_buffers_apart(void **state)
{
    struct fl_pool *pool;
    struct {
        uint8_t *buf;
        uint32_t len;
        uint8_t mark;
    } held[64] = {0};
    uint32_t seed = 1;

    assert_int_equal(fl_pool_create(4 << 20, &pool), 0);
    for (int i = 0; i < 50000; i++) {
        uint32_t slot = (seed = seed * 1664525 + 1013904223) >> 26;

        if (held[slot].buf) {
            assert_int_equal(held[slot].buf[0], held[slot].mark);
            assert_int_equal(held[slot].buf[held[slot].len - 1], held[slot].mark);
            fl_pool_put(pool, held[slot].buf);
            held[slot].buf = NULL;
            continue;
        }
        seed = seed * 1664525 + 1013904223;
        held[slot].len = 1 + (seed >> 8) % (seed & 0x40000000 ? 8192 : 1 << 20);
        held[slot].mark = (uint8_t)i;
        held[slot].buf = fl_pool_get(pool, held[slot].len);
        if (held[slot].buf)
            held[slot].buf[0] = held[slot].buf[held[slot].len - 1] = (uint8_t)i;
    }
    for (int i = 0; i < 64; i++)
        if (held[i].buf)
            fl_pool_put(pool, held[i].buf);
    for (int i = 0; i < 4; i++)
        assert_non_null(held[i].buf = fl_pool_get(pool, 1 << 20)); /* nothing leaked, all merged */
    for (int i = 0; i < 4; i++)
        fl_pool_put(pool, held[i].buf);
    fl_pool_destroy(pool);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(hands_out_aligned_disjoint_buffers),
                       cmocka_unit_test(merges_small_ones_into_a_large_one),
                       cmocka_unit_test(serves_waiters_in_order_and_nobody_overtakes),
                       cmocka_unit_test(random_use_keeps_buffers_apart));
}
