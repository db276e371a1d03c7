/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy_ahead.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit.h"
#include "base/util.h"

#define ROOM 16384u

static const size_t lens[] = {0,   1,    2,    17,   63,   64,   65,   127,  128,  129,
                              512, 1000, 4095, 4096, 4097, 4160, 5000, 8191, 8192, 12345};

static uint8_t *make(uint8_t *bytes)
{
    for (uint32_t i = 0; i < ROOM; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    return bytes;
}

static void check(uint8_t *dst, size_t at, const uint8_t *src, size_t len, const void *ahead,
                  size_t ahead_len)
{
    memset(dst, 0xee, ROOM);
    assert_ptr_equal(fl_copy_ahead(dst + at, src, len, ahead, ahead_len), dst + at);
    assert_memory_equal(dst + at, src, len);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(dst[at + len + i], 0xee);
        if (at > i)
            assert_int_equal(dst[at - 1 - i], 0xee);
    }
}

static void copies_all_and_no_more(void **state)
{
    uint8_t *src = make(malloc(ROOM)), *dst = malloc(ROOM);

    for (size_t i = 0; i < FL_ARRAY_LEN(lens); i++)
        for (size_t k = 0; k < FL_ARRAY_LEN(lens); k++)
            for (size_t at = 0; at < 70; at += 23)
                check(dst, at, src + at / 2, lens[i], src, lens[k]);
    free(src);
    free(dst);
}

/* What is ahead may be gone: a request that is wrong is found to be so when its turn comes. */
static void what_is_ahead_need_not_be_there(void **state)
{
    uint8_t *src = make(malloc(ROOM)), *dst = malloc(ROOM);

    check(dst, 0, src, 4096, NULL, 4096);
    check(dst, 0, src, 4096, (const void *)(uintptr_t)64, 4096);
    check(dst, 0, src, 4096, (const void *)(UINTPTR_MAX - 100), 4096);
    check(dst, 0, src, 4096, (const void *)(UINTPTR_MAX / 2), SIZE_MAX);
    free(src);
    free(dst);
}

static void copies_within_one_memory(void **state)
{
    uint8_t *bytes = malloc(ROOM), *was = make(malloc(ROOM));
    static const int shifts[] = {0, 1, 63, 64, 65, 1000};

    for (size_t i = 0; i < FL_ARRAY_LEN(shifts); i++) {
        make(bytes);
        fl_copy_ahead(bytes + shifts[i], bytes, 5000, was, 4096);
        assert_memory_equal(bytes + shifts[i], was, 5000);
        make(bytes);
        fl_copy_ahead(bytes, bytes + shifts[i], 5000, was, 4096);
        assert_memory_equal(bytes, was + shifts[i], 5000);
    }
    free(bytes);
    free(was);
}

static void each_way_copies_the_same(void **state)
{
    uint8_t *src = make(malloc(ROOM)), *dst = calloc(1, ROOM);

    fl_copy_ahead_any(dst + 1, src + 3, 4032, src);
    assert_memory_equal(dst + 1, src + 3, 4032);
    assert_int_equal(dst[0] | dst[4033], 0);
    if (fl_copy_ahead_256_works()) {
        memset(dst, 0, ROOM);
        fl_copy_ahead_256(dst + 1, src + 3, 4032, src);
        assert_memory_equal(dst + 1, src + 3, 4032);
        assert_int_equal(dst[0] | dst[4033], 0);
    }
    free(src);
    free(dst);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(copies_all_and_no_more), cmocka_unit_test(what_is_ahead_need_not_be_there),
        cmocka_unit_test(copies_within_one_memory), cmocka_unit_test(each_way_copies_the_same));
}
