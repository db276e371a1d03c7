/* SPDX-License-Identifier: Apache-2.0 */
/*
 * As in crc32c_wide.c data is folded by carry-less multiplication, four vectors at a time; there is no
 * instruction for this polynomial that could work beside them. What was loaded for that is stored as well. A
 * store that crosses a cache line costs as much as two, and behind a packet's header all would: so of two
 * vectors that follow each other one is made that fills a line.
 */
#include "base/crc32_copy.h"

#include <string.h>

#include "base/crc.h"
#include "base/util.h"
#include "base/vectors.h"

#if defined(__x86_64__)

#include <immintrin.h>

#define WIDE_512 __attribute__((target("avx512f,vpclmulqdq,pclmul,sse4.2")))
#define LEN      64u /* of a vector */
#define STEP     (4 * LEN)

WIDE_512 static inline __m512i fold(__m512i acc, __m512i by, __m512i next)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(acc, by, 0x00),
                                     _mm512_clmulepi64_epi128(acc, by, 0x11), next, 0x96); /* XOR of three */
}

/* The CRC of 16 bytes: their high half is moved on over 12 bytes, then 4 more, and what is left is divided by
 * P with the quotient x^64 / P (Barrett). Powers of x mod P, bit-reflected. */
WIDE_512 static inline uint32_t reduce_128(__m128i v)
{
    const __m128i low = _mm_cvtsi64_si128(0xffffffff);
    __m128i t = _mm_xor_si128(_mm_clmulepi64_si128(v, _mm_cvtsi64_si128(0xccaa009e), 0x00), /* x^95 */
                              _mm_srli_si128(v, 8));
    __m128i u = _mm_xor_si128(
        _mm_clmulepi64_si128(_mm_and_si128(t, low), _mm_cvtsi64_si128(0xb8bc6765), 0x00), /* x^63 */
        _mm_srli_si128(t, 4));
    __m128i quotient = _mm_clmulepi64_si128(_mm_and_si128(u, low), _mm_cvtsi64_si128(0x1f7011641),
                                            0x00); /* x^64 / P */
    __m128i product = _mm_clmulepi64_si128(_mm_and_si128(quotient, low), _mm_cvtsi64_si128(0x1db710641),
                                           0x00); /* P */

    return (uint32_t)((uint64_t)_mm_cvtsi128_si64(_mm_xor_si128(u, product)) >> 32);
}

/* The first three of the four lanes onto the last, over 48, 32 and 16 bytes: x^(8n + 31) and x^(8n - 33). */
WIDE_512 static inline uint32_t reduce_512(__m512i v)
{
    const __m512i by = _mm512_set_epi64(0, 0, 0xccaa009e, 0xae689191, 0x81256527, 0xf1da05aa, 0xaf449247,
                                        0x3db1ecdc);
    __m512i z = fold(v, by, _mm512_maskz_mov_epi64(0xc0, v));
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(z), _mm512_extracti64x4_epi64(z, 1));

    return reduce_128(_mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
}

WIDE_512 static inline __m512i load(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

WIDE_512 uint32_t fl_crc32_copy_512(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t len, size_t ahead,
                                    size_t *done)
{
    /* Over 256 and over 64 bytes */
    const __m512i by_four = _mm512_set4_epi64(0xe95c1271, 0xce3371cb, 0xe95c1271, 0xce3371cb);
    const __m512i by_one = _mm512_set4_epi64(0x1d9513d7, 0x8f352d95, 0x1d9513d7, 0x8f352d95);
    /* The lines of dst begin so far into the vectors of src: these places of two vectors make one line. */
    const uint32_t skip = (uint32_t) - (uintptr_t)dst & (LEN - 1);
    const __m512i line = _mm512_add_epi32(
        _mm512_set1_epi32((int)(skip / 4)),
        _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
    __m512i v[4] = {load(src), load(src + LEN), load(src + 2 * LEN), load(src + 3 * LEN)}, last = v[3];
    uint8_t *to = dst + skip;
    size_t at = STEP;

    _mm512_storeu_si512(dst, v[0]);
    for (int i = 0; i < 3; i++, to += LEN)
        _mm512_store_si512(to, _mm512_permutex2var_epi32(v[i], line, v[i + 1]));
    v[0] = _mm512_xor_si512(v[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)~crc)));
    for (; len - at >= STEP; at += STEP) {
#pragma GCC unroll 4
        for (uint32_t i = 0; i < 4; i++, to += LEN) {
            if (ahead)
                __builtin_prefetch(src + at + i * LEN + ahead, 0, 2);
            __m512i next = load(src + at + i * LEN);

            _mm512_store_si512(to, _mm512_permutex2var_epi32(last, line, next));
            last = next;
            v[i] = fold(v[i], by_four, next);
        }
    }
    _mm512_storeu_si512(dst + at - LEN, last);
    *done = at;
    return ~reduce_512(fold(fold(fold(v[0], by_one, v[1]), by_one, v[2]), by_one, v[3]));
}

bool fl_crc32_copy_512_works(void)
{
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("vpclmulqdq") &&
           __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
}

#else

uint32_t fl_crc32_copy_512(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t len, size_t ahead,
                           size_t *done)
{
    *done = 0;
    return crc;
}

bool fl_crc32_copy_512_works(void)
{
    return false;
}

#endif

uint32_t fl_crc32_copy(uint32_t crc, void *dst, const void *src, size_t len, bool more)
{
    size_t done = 0;

    if (len >= FL_CRC32_COPY_512_MIN && ((uintptr_t)dst & 3) == 0 && fl_crc32_copy_512_works()) {
        crc = fl_crc32_copy_512(crc, dst, src, len, more ? len : 0, &done);
        fl_vectors_leave();
    }
    if (fl_likely(done == len))
        return crc;
    memcpy((uint8_t *)dst + done, (const uint8_t *)src + done, len - done);
    return fl_crc32(crc, (uint8_t *)dst + done, len - done);
}
