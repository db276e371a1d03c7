/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc.h"

#include <stdlib.h>
#include <string.h>

#include "base/crc32_copy.h"
#include "base/crc32c_join.h"
#include "base/crc32c_wide.h"
#include "base/unit.h"

typedef uint32_t crc_fn(uint32_t crc, const void *p, size_t len);

/* What fl_crc32c chooses by CPU and length, one by one; on a CPU that lacks it, the yardstick itself. */
static uint32_t by_256_bits(uint32_t crc, const void *p, size_t len)
{
    size_t done = 0;

    if (fl_crc32c_256_works())
        crc = ~fl_crc32c_256(~crc, p, len, &done);
    return fl_crc32c_portable(crc, (const uint8_t *)p + done, len - done);
}

static uint32_t by_512_bits(uint32_t crc, const void *p, size_t len)
{
    size_t done = 0;

    if (fl_crc32c_512_works())
        crc = ~fl_crc32c_512(~crc, p, len, &done);
    return fl_crc32c_portable(crc, (const uint8_t *)p + done, len - done);
}

/* Each implementation runs the whole table of its polynomial. */
static const struct {
    const char *name;
    crc_fn *fn;
    int castagnoli;
} impls[] = {
    {"fl_crc32c", fl_crc32c, 1},
    {"fl_crc32c_isal", fl_crc32c_isal, 1},
    {"fl_crc32c_256", by_256_bits, 1},
    {"fl_crc32c_512", by_512_bits, 1},
    {"fl_crc32c_portable", fl_crc32c_portable, 1},
    {"fl_crc32", fl_crc32, 0},
    {"fl_crc32_portable", fl_crc32_portable, 0},
};

static uint8_t zeros[32], ones[32], up[32], down[32];

/* RFC 3720 B.4 (written there as bytes, least significant first); the check values of both polynomials. */
static const struct {
    const void *p;
    size_t len;
    uint32_t crc32c;
    uint32_t crc32;
} vectors[] = {
    {"", 0, 0, 0},
    {"a", 1, 0xc1d04330, 0xe8b7be43},
    {"123456789", 9, 0xe3069283, 0xcbf43926},
    {zeros, 32, 0x8a9136aa, 0x190a55ad},
    {ones, 32, 0x62a8ab43, 0xff6cab0b},
    {up, 32, 0x46dd794e, 0x91267e8a},
    {down, 32, 0x113fdb5c, 0x9ab0ef72},
};

static void vectors_hold(void **state)
{
    for (size_t i = 0; i < FL_ARRAY_LEN(impls); i++) {
        for (size_t v = 0; v < FL_ARRAY_LEN(vectors); v++) {
            uint32_t want = impls[i].castagnoli ? vectors[v].crc32c : vectors[v].crc32;
            uint32_t got = impls[i].fn(0, vectors[v].p, vectors[v].len);

            if (got != want)
                fail_msg("%s, vector %zu: %08x, not %08x", impls[i].name, v, got, want);
        }
    }
}

static void pieces_chain(void **state)
{
    uint8_t buf[1021];

    srand(1);
    for (size_t i = 0; i < sizeof(buf); i++)
        buf[i] = (uint8_t)rand();
    for (size_t i = 0; i < FL_ARRAY_LEN(impls); i++) {
        uint32_t whole = impls[i].fn(0, buf, sizeof(buf));

        for (size_t cut = 0; cut <= sizeof(buf); cut++) {
            uint32_t crc = impls[i].fn(0, buf, cut);

            assert_int_equal(impls[i].fn(crc, buf + cut, sizeof(buf) - cut), whole);
        }
    }
}

static void agrees_with_portable(void **state)
{
    enum { LEN = 70000 };
    uint8_t *buf = malloc(LEN);

    srand(2);
    for (size_t i = 0; i < LEN; i++)
        buf[i] = (uint8_t)rand();
    for (size_t len = 0; len < LEN; len = len * 3 / 2 + 1) {
        for (size_t at = 0; at < 17 && at + len <= LEN; at++) {
            uint32_t crc = fl_crc32c_portable(0x12345678, buf + at, len);

            for (size_t i = 0; i < FL_ARRAY_LEN(impls); i++)
                if (impls[i].castagnoli)
                    assert_int_equal(impls[i].fn(0x12345678, buf + at, len), crc);
            assert_int_equal(fl_crc32(0, buf + at, len), fl_crc32_portable(0, buf + at, len));
        }
    }
    free(buf);
}

/* Each number of blocks with each tail; one byte more at a time, so that the yardstick is quick. */
static void every_length(void **state)
{
    enum { LEN = 3 * 3848 + 1000 };
    uint8_t *buf = malloc(LEN);
    uint32_t want = 0;

    srand(3);
    for (size_t i = 0; i < LEN; i++)
        buf[i] = (uint8_t)rand();
    for (size_t len = 0; len < LEN; len++) {
        for (size_t i = 0; i < FL_ARRAY_LEN(impls); i++)
            if (impls[i].castagnoli && impls[i].fn != fl_crc32c_portable)
                assert_int_equal(impls[i].fn(0, buf, len), want);
        want = fl_crc32c_portable(want, buf + len, 1);
    }
    free(buf);
}

#if defined(__x86_64__)
/* The bits of vector registers above the 128 that legacy SSE instructions know; zero if nothing uses them. */
__attribute__((target("avx"))) static bool uppers_in_use(void)
{
    uint8_t ymm[16][32] __attribute__((aligned(32)));

    __asm__ volatile("vmovdqa %%ymm0, 0(%0)\n"
                     "vmovdqa %%ymm1, 32(%0)\n"
                     "vmovdqa %%ymm2, 64(%0)\n"
                     "vmovdqa %%ymm3, 96(%0)\n"
                     "vmovdqa %%ymm4, 128(%0)\n"
                     "vmovdqa %%ymm5, 160(%0)\n"
                     "vmovdqa %%ymm6, 192(%0)\n"
                     "vmovdqa %%ymm7, 224(%0)\n"
                     "vmovdqa %%ymm8, 256(%0)\n"
                     "vmovdqa %%ymm9, 288(%0)\n"
                     "vmovdqa %%ymm10, 320(%0)\n"
                     "vmovdqa %%ymm11, 352(%0)\n"
                     "vmovdqa %%ymm12, 384(%0)\n"
                     "vmovdqa %%ymm13, 416(%0)\n"
                     "vmovdqa %%ymm14, 448(%0)\n"
                     "vmovdqa %%ymm15, 480(%0)\n" ::"r"(ymm)
                     : "memory");
    for (int i = 0; i < 16; i++)
        for (int b = 16; b < 32; b++)
            if (ymm[i][b])
                return true;
    return false;
}

static uint32_t copied(uint32_t crc, const void *p, size_t len)
{
    static uint8_t to[4096] __attribute__((aligned(64)));
    return fl_crc32_copy(crc, to, p, len, false);
}

/* Else each change between VEX and legacy SSE instructions is slow on Intel's CPUs, in the whole thread. */
static void leaves_vectors_clear(void **state)
{
    static const struct {
        const char *name;
        crc_fn *fn;
    } called[] = {{"fl_crc32c", fl_crc32c}, {"fl_crc32", fl_crc32}, {"fl_crc32_copy", copied}};
    uint8_t buf[4096];

    if (!__builtin_cpu_supports("avx"))
        return;
    for (size_t i = 0; i < sizeof(buf); i++)
        buf[i] = (uint8_t)(i * 37 + 11);
    for (size_t i = 0; i < FL_ARRAY_LEN(called); i++)
        for (size_t len = 0; len <= sizeof(buf); len += len < 300 ? 1 : 397) {
            called[i].fn(0, buf, len);
            if (uppers_in_use())
                fail_msg("%s leaves vector registers in use after %zu bytes", called[i].name, len);
        }
}
#endif

static void joins(void **state)
{
    static const size_t lens[] = {0, 1, 2, 3, 7, 64, 511, 4096, 65537};
    static uint8_t buf[65537 + 1000];
    struct fl_crc32c_join join;

    for (size_t i = 0; i < sizeof(buf); i++)
        buf[i] = (uint8_t)(i * i >> 5);
    for (size_t k = 0; k < FL_ARRAY_LEN(lens); k++) {
        fl_crc32c_join_init(&join, lens[k]);
        for (size_t first = 0; first < 1000; first += 333)
            assert_int_equal(fl_crc32c_join(&join, fl_crc32c_portable(0, buf, first),
                                            fl_crc32c_portable(0, buf + first, lens[k])),
                             fl_crc32c_portable(0, buf, first + lens[k]));
    }
}

int main(void)
{
    memset(ones, 0xff, sizeof(ones));
    for (int i = 0; i < 32; i++) {
        up[i] = (uint8_t)i;
        down[i] = (uint8_t)(31 - i);
    }
    return FL_UNIT_RUN(cmocka_unit_test(vectors_hold), cmocka_unit_test(pieces_chain),
#if defined(__x86_64__)
                       cmocka_unit_test(leaves_vectors_clear),
#endif
                       cmocka_unit_test(agrees_with_portable), cmocka_unit_test(every_length),
                       cmocka_unit_test(joins));
}
