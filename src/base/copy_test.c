/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/copy_ahead.h"
#include "base/unit.h"

static void copies_past_caches(void **state)
{
    uint8_t *src = aligned_alloc(64, 8192), *dst = aligned_alloc(64, 8192);

    for (int i = 0; i < 8192; i++)
        src[i] = (uint8_t)(i * 7 + i / 256);
    for (size_t at = 0; at < 130; at += 13)
        for (size_t len = 0; len <= 4096; len = len < 130 ? len + 1 : len * 2) {
            memset(dst, 0, 8192);
            fl_copy_past_caches(dst + at, src + 1, len);
            assert_memory_equal(dst + at, src + 1, len);
            assert_int_equal(dst[at + len], 0);
        }
    free(src);
    free(dst);
}

#define ROUNDS 3000

struct watch {
    uint8_t buf[128];
    size_t len;
    int nr_stored_twice;
};

/* Sees the last byte, uses the buffer at once, and looks whether it stays so. */
static void *watcher(void *arg)
{
    struct watch *w = arg;
    volatile uint8_t *last = &w->buf[w->len - 1];

    for (int i = 0; i < ROUNDS; i++) {
        uint8_t turn = (uint8_t)(2 * i + 1);

        for (int n = 1; *last != turn; n++)
            if (n % 1000 == 0)
                sched_yield();
        *last = (uint8_t)(turn + 1);
        for (int n = 0; n < 50 && i + 1 < ROUNDS; n++)
            if (*last == turn) {
                w->nr_stored_twice++;
                *last = (uint8_t)(turn + 1);
            }
    }
    return NULL;
}

static void stores_the_last_byte_once_and_last(void *(*copy)(void *dst, const void *src, size_t len))
{
    static const size_t lens[] = {1, 2, 8, 16, 24, 64, 100};

    for (size_t k = 0; k < sizeof(lens) / sizeof(lens[0]); k++) {
        struct watch w = {.len = lens[k]};
        volatile uint8_t *last = &w.buf[w.len - 1];
        uint8_t src[128];
        pthread_t thread;

        assert_int_equal(pthread_create(&thread, NULL, watcher, &w), 0);
        for (int i = 0; i < ROUNDS; i++) {
            for (int n = 1; *last != (uint8_t)(2 * i); n++)
                if (n % 1000 == 0)
                    sched_yield();
            memset(src, 2 * i + 1, sizeof(src));
            copy(w.buf, src, w.len);
        }
        pthread_join(thread, NULL);
        assert_int_equal(w.nr_stored_twice, 0);
        assert_int_equal(w.buf[0], w.len > 1 ? (uint8_t)(2 * ROUNDS - 1) : (uint8_t)(2 * ROUNDS));
    }
}

static void stores_a_watched_last_byte_once_and_last(void **state)
{
    stores_the_last_byte_once_and_last(fl_copy_watched);
}

static void *copy_ahead(void *dst, const void *src, size_t len)
{
    return fl_copy_ahead(dst, src, len, src, len);
}

static void stores_it_so_while_it_fetches(void **state)
{
    stores_the_last_byte_once_and_last(copy_ahead);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(copies_past_caches),
                       cmocka_unit_test(stores_a_watched_last_byte_once_and_last),
                       cmocka_unit_test(stores_it_so_while_it_fetches));
}
