/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32_copy.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/unit.h"

enum { MAX = 5000, ROOM = 64 };

static uint8_t src[MAX + ROOM], dst[MAX + 2 * ROOM] __attribute__((aligned(64)));

static void fill(void)
{
    srand(1);
    for (size_t i = 0; i < sizeof(src); i++)
        src[i] = (uint8_t)rand();
}

typedef uint32_t copy_fn(uint32_t crc, void *dst, const void *src, size_t len, bool more);

/* On a CPU that lacks it, the yardstick itself */
static uint32_t by_512_bits(uint32_t crc, void *to, const void *from, size_t len, bool more)
{
    size_t done = 0;

    if (len >= FL_CRC32_COPY_512_MIN && fl_crc32_copy_512_works())
        crc = fl_crc32_copy_512(crc, to, from, len, more ? 4096 : 0, &done);
    memcpy((uint8_t *)to + done, (const uint8_t *)from + done, len - done);
    return fl_crc32_portable(crc, (const uint8_t *)from + done, len - done);
}

static void check(copy_fn *copy, size_t to, size_t from, size_t len)
{
    uint32_t want = fl_crc32_portable(0x12345678, src + from, len);

    memset(dst, 0xee, sizeof(dst));
    assert_int_equal(copy(0x12345678, dst + to, src + from, len, len & 1), want);
    assert_memory_equal(dst + to, src + from, len);
    for (size_t i = 0; i < to; i++)
        assert_int_equal(dst[i], 0xee);
    for (size_t i = to + len; i < sizeof(dst); i++)
        assert_int_equal(dst[i], 0xee);
}

static void every_place_of_a_line(void **state)
{
    fill();
    for (size_t to = 0; to < ROOM; to++)
        for (size_t len = 0; len < MAX; len += len < 20 ? 1 : 251) {
            check(fl_crc32_copy, to, to * 7 % ROOM, len);
            if (to % 4 == 0)
                check(by_512_bits, to, to * 5 % ROOM, len);
        }
}

static void every_length(void **state)
{
    fill();
    for (size_t len = 0; len < MAX; len++) {
        check(fl_crc32_copy, 12, 1, len);
        check(by_512_bits, 28, 0, len);
    }
}

static void pieces_chain(void **state)
{
    uint32_t whole, crc;

    fill();
    whole = fl_crc32_portable(0, src, 4096);
    for (size_t cut = 0; cut <= 4096; cut += 37) {
        crc = fl_crc32_copy(0, dst, src, cut, true);
        crc = fl_crc32_copy(crc, dst + cut, src + cut, 4096 - cut, false);
        assert_int_equal(crc, whole);
        assert_memory_equal(dst, src, 4096);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_place_of_a_line),
        cmocka_unit_test(every_length),
        cmocka_unit_test(pieces_chain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
