/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two units of the CPU compute a CRC at the same time: the crc32 instruction takes 8 bytes a cycle, and
 * carry-less multiplication in 256 bits nearly as much again. A block is cut in four: the first 128 * N bytes
 * are folded in vectors, the other three parts of 56 * N bytes go through crc32 in three independent chains
 * (its latency is three cycles). The four results are then moved to the end of the block, each by one
 * multiplication by a power of x, and added.
 */
#include "base/crc32c_wide.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define STEP_VECTOR 128u
#define STEP_CHAIN  56u
#define STEP        (STEP_VECTOR + 3 * STEP_CHAIN)

#define WIDE __attribute__((target("avx2,vpclmulqdq,pclmul,sse4.2")))

/* x^(8 * bytes - 33) mod P, bit-reflected, for bytes = 56 * N, 112 * N and 168 * N: moves a CRC on over that
 * many bytes. */
struct block {
    uint32_t nr_steps;
    uint32_t move[3];
};
static const struct block large = {64, {0x96a1f19b, 0xa9232e2b, 0x57e82916}};
static const struct block small = {13, {0x5b397730, 0x0a2a8d7e, 0xaf6939d9}};

/* x^(1024 + 31) and x^(1024 - 33) mod P, reflected: folds 128 bytes onto the next 128. */
#define FOLD_LOW  0x6992cea2
#define FOLD_HIGH 0x0d3b6092

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

WIDE static inline __m256i load256(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

WIDE static inline __m256i fold(__m256i acc, __m256i by, const uint8_t *next)
{
    __m256i low = _mm256_clmulepi64_epi128(acc, by, 0x00), high = _mm256_clmulepi64_epi128(acc, by, 0x11);

    return _mm256_xor_si256(_mm256_xor_si256(low, high), load256(next));
}

WIDE static inline uint64_t move_on(uint64_t crc, uint32_t by)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi32_si128((int)by),
                                           0x00);

    return (uint64_t)_mm_cvtsi128_si64(product);
}

WIDE static uint32_t crc_of_block(const struct block *block, uint32_t crc, const uint8_t *p)
{
    const __m256i by = _mm256_set_epi64x(FOLD_HIGH, FOLD_LOW, FOLD_HIGH, FOLD_LOW);
    const size_t chain_len = (size_t)block->nr_steps * STEP_CHAIN;
    const uint8_t *a = p + (size_t)block->nr_steps * STEP_VECTOR, *b = a + chain_len, *c = b + chain_len;
    __m256i v0 = _mm256_xor_si256(load256(p), _mm256_set_epi64x(0, 0, 0, crc));
    __m256i v1 = load256(p + 32), v2 = load256(p + 64), v3 = load256(p + 96);
    uint64_t crc_a = 0, crc_b = 0, crc_c = 0, crc_v = 0;
    uint8_t rest[STEP_VECTOR];

    for (uint32_t step = 1;; step++) {
#pragma GCC unroll 7
        for (uint32_t i = 0; i < STEP_CHAIN; i += 8) {
            crc_a = _mm_crc32_u64(crc_a, load64(a + i));
            crc_b = _mm_crc32_u64(crc_b, load64(b + i));
            crc_c = _mm_crc32_u64(crc_c, load64(c + i));
        }
        if (step == block->nr_steps)
            break;
        p += STEP_VECTOR;
        v0 = fold(v0, by, p);
        v1 = fold(v1, by, p + 32);
        v2 = fold(v2, by, p + 64);
        v3 = fold(v3, by, p + 96);
        a += STEP_CHAIN;
        b += STEP_CHAIN;
        c += STEP_CHAIN;
    }
    _mm256_storeu_si256((__m256i *)rest, v0);
    _mm256_storeu_si256((__m256i *)(rest + 32), v1);
    _mm256_storeu_si256((__m256i *)(rest + 64), v2);
    _mm256_storeu_si256((__m256i *)(rest + 96), v3);
    for (uint32_t i = 0; i < sizeof(rest); i += 8)
        crc_v = _mm_crc32_u64(crc_v, load64(rest + i));
    return (uint32_t)(crc_c ^
                      _mm_crc32_u64(0, move_on(crc_v, block->move[2]) ^ move_on(crc_a, block->move[1]) ^
                                           move_on(crc_b, block->move[0])));
}

uint32_t fl_crc32c_wide(uint32_t crc, const uint8_t *p, size_t len, size_t *done)
{
    const uint8_t *start = p;

    for (; len >= (size_t)large.nr_steps * STEP;
         p += (size_t)large.nr_steps * STEP, len -= (size_t)large.nr_steps * STEP)
        crc = crc_of_block(&large, crc, p);
    for (; len >= (size_t)small.nr_steps * STEP;
         p += (size_t)small.nr_steps * STEP, len -= (size_t)small.nr_steps * STEP)
        crc = crc_of_block(&small, crc, p);
    *done = (size_t)(p - start);
    return crc;
}

bool fl_crc32c_wide_works(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq") &&
           __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
}

#else

uint32_t fl_crc32c_wide(uint32_t crc, const uint8_t *p, size_t len, size_t *done)
{
    *done = 0;
    return crc;
}

bool fl_crc32c_wide_works(void)
{
    return false;
}

#endif
