/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two units of the CPU compute a CRC at the same time: the crc32 instruction takes 8 bytes a cycle, and
 * carry-less multiplication in vectors as much again or twice that. A block is cut in four: its first part is
 * folded in vectors, the other three, which are equally long, go through crc32 in three independent chains
 * (its latency is three cycles). The four results are then moved to the end of the block, each by one
 * multiplication by a power of x, and added.
 *
 * Four places in a block are read at once, which the CPU does not see as one stream: without asking for what
 * comes next, data from memory would pass at less than half the speed.
 */
#include "base/crc32c_wide.h"

#if defined(__x86_64__)

#include <immintrin.h>
#include <string.h>

#define CHAIN_TARGET "pclmul,sse4.2"
#define CHAIN        __attribute__((target(CHAIN_TARGET)))
#define WIDE_256     __attribute__((target("avx2,vpclmulqdq," CHAIN_TARGET)))
#define WIDE_512     __attribute__((target("avx512f,vpclmulqdq," CHAIN_TARGET)))

#define LINE 64u /* of a cache */

/* Moves a CRC on over 1, 2 and 3 chains of a block: x^(8 * bytes - 33) mod P, bit-reflected. */
typedef uint32_t moves[3];

static inline uint64_t load64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

CHAIN static inline uint64_t move_on(uint64_t crc, uint32_t by)
{
    __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128((long long)crc), _mm_cvtsi32_si128((int)by),
                                           0x00);

    return (uint64_t)_mm_cvtsi128_si64(product);
}

struct chains {
    const uint8_t *at;
    size_t len; /* of each */
    uint64_t a, b, c;
};

/* step bytes of each of the three. */
CHAIN __attribute__((always_inline)) static inline void run_chains(struct chains *chains, uint32_t step)
{
    const uint8_t *a = chains->at, *b = a + chains->len, *c = b + chains->len;

#pragma GCC unroll 8
    for (uint32_t i = 0; i < step; i += 8) {
        chains->a = _mm_crc32_u64(chains->a, load64(a + i));
        chains->b = _mm_crc32_u64(chains->b, load64(b + i));
        chains->c = _mm_crc32_u64(chains->c, load64(c + i));
    }
    chains->at += step;
}

/* The CRC of the block, from those of its vector part and of its chains. */
CHAIN static inline uint32_t join(const struct chains *chains, uint64_t crc, const moves by)
{
    return (uint32_t)(chains->c ^ _mm_crc32_u64(0, move_on(crc, by[2]) ^ move_on(chains->a, by[1]) ^
                                                       move_on(chains->b, by[0])));
}

__attribute__((always_inline)) static inline void fetch(const uint8_t *p, uint32_t len)
{
#pragma GCC unroll 8
    for (uint32_t i = 0; i < len; i += LINE)
        __builtin_prefetch(p + i);
}

/* What to ask for while a block is computed: the one after the next, else (asking twice costs nothing) what
 * is being read. */
static inline const uint8_t *ahead(const uint8_t *p, size_t len, size_t block)
{
    return len >= 3 * block ? p + 2 * block : p;
}

/* ---- 256 bits ---- */

#define VECTOR_256   128u
#define CHAIN_256    56u
#define STEP_256     (VECTOR_256 + 3 * CHAIN_256)
#define NR_STEPS_256 13u
#define BLOCK_256    ((size_t)NR_STEPS_256 * STEP_256)

static const moves moves_256 = {0x5b397730, 0x0a2a8d7e, 0xaf6939d9};

WIDE_256 static inline __m256i load256(const uint8_t *p)
{
    return _mm256_loadu_si256((const __m256i *)p);
}

WIDE_256 static inline __m256i fold_256(__m256i acc, __m256i by, __m256i next)
{
    __m256i low = _mm256_clmulepi64_epi128(acc, by, 0x00), high = _mm256_clmulepi64_epi128(acc, by, 0x11);

    return _mm256_xor_si256(_mm256_xor_si256(low, high), next);
}

WIDE_256 static uint32_t block_256(uint32_t crc, const uint8_t *p, const uint8_t *next)
{
    /* x^(1024 + 31) and x^(1024 - 33) mod P, reflected: folds 128 bytes onto the next 128; 256: 32 bytes. */
    const __m256i by = _mm256_set_epi64x(0x0d3b6092, 0x6992cea2, 0x0d3b6092, 0x6992cea2);
    const __m256i by_one = _mm256_set_epi64x(0xba4fc28e, 0x3da6d0cb, 0xba4fc28e, 0x3da6d0cb);
    struct chains chains = {.at = p + NR_STEPS_256 * VECTOR_256, .len = NR_STEPS_256 * CHAIN_256};
    __m256i v0 = _mm256_xor_si256(load256(p), _mm256_set_epi64x(0, 0, 0, crc));
    __m256i v1 = load256(p + 32), v2 = load256(p + 64), v3 = load256(p + 96);
    uint8_t rest[sizeof(v0)];
    uint64_t crc_v = 0;

    for (uint32_t step = 1;; step++, next += STEP_256) {
        fetch(next, STEP_256);
        run_chains(&chains, CHAIN_256);
        if (step == NR_STEPS_256)
            break;
        p += VECTOR_256;
        v0 = fold_256(v0, by, load256(p));
        v1 = fold_256(v1, by, load256(p + 32));
        v2 = fold_256(v2, by, load256(p + 64));
        v3 = fold_256(v3, by, load256(p + 96));
    }
    v0 = fold_256(fold_256(fold_256(v0, by_one, v1), by_one, v2), by_one, v3);
    _mm256_storeu_si256((__m256i *)rest, v0);
    for (uint32_t i = 0; i < sizeof(rest); i += 8)
        crc_v = _mm_crc32_u64(crc_v, load64(rest + i));
    return join(&chains, crc_v, moves_256);
}

uint32_t fl_crc32c_256(uint32_t crc, const uint8_t *p, size_t len, size_t *done)
{
    const uint8_t *start = p;

    for (; len >= BLOCK_256; p += BLOCK_256, len -= BLOCK_256)
        crc = block_256(crc, p, ahead(p, len, BLOCK_256));
    *done = (size_t)(p - start);
    return crc;
}

/* ---- 512 bits ---- */

#define VECTOR_512   256u
#define CHAIN_512    40u
#define STEP_512     (VECTOR_512 + 3 * CHAIN_512)
#define NR_STEPS_512 10u
#define BLOCK_512    ((size_t)NR_STEPS_512 * STEP_512)
#define AHEAD_512    1024u

static const moves moves_512 = {0xc619809d, 0x0167d312, 0xa90fd27a};

WIDE_512 static inline __m512i load512(const uint8_t *p)
{
    return _mm512_loadu_si512(p);
}

WIDE_512 static inline __m512i fold_512(__m512i acc, __m512i by, __m512i next)
{
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(acc, by, 0x00),
                                     _mm512_clmulepi64_epi128(acc, by, 0x11), next, 0x96); /* XOR of three */
}

/* x^(512 + 31) and x^(512 - 33): folds 64 bytes onto the next 64. */
WIDE_512 static inline __m512i by_one_512(void)
{
    return _mm512_set4_epi64(0x9e4addf8, 0x740eef02, 0x9e4addf8, 0x740eef02);
}

/* The first three of the four lanes are folded onto the last, over 48, 32 and 16 bytes; two crc32 do the
 * rest. */
WIDE_512 static inline uint64_t reduce_512(__m512i v)
{
    const __m512i by = _mm512_set_epi64(0, 0, 0x493c7d27, 0xf20c0dfe, 0xba4fc28e, 0x3da6d0cb, 0xddc0152b,
                                        0x1c291d04);
    __m512i z = fold_512(v, by, _mm512_maskz_mov_epi64(0xc0, v));
    __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(z), _mm512_extracti64x4_epi64(z, 1));
    __m128i x = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1));

    return _mm_crc32_u64(_mm_crc32_u64(0, (uint64_t)_mm_cvtsi128_si64(x)), (uint64_t)_mm_extract_epi64(x, 1));
}

WIDE_512 static inline __m512i start_512(uint32_t crc, const uint8_t *p)
{
    return _mm512_xor_si512(load512(p), _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)crc)));
}

/* x^(2048 + 31) and x^(2048 - 33): folds 256 bytes onto the next 256. */
WIDE_512 static inline __m512i by_four_512(void)
{
    return _mm512_set4_epi64(0xb9e02b86, 0xdcb17aa4, 0xb9e02b86, 0xdcb17aa4);
}

WIDE_512 static inline void fold_four_512(__m512i v[4], const uint8_t *next)
{
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
        v[i] = fold_512(v[i], by_four_512(), load512(next + 64 * i));
}

WIDE_512 static inline __m512i add_four_512(const __m512i v[4])
{
    const __m512i by = by_one_512();

    return fold_512(fold_512(fold_512(v[0], by, v[1]), by, v[2]), by, v[3]);
}

WIDE_512 static uint32_t block_512(uint32_t crc, const uint8_t *p, const uint8_t *next)
{
    struct chains chains = {.at = p + NR_STEPS_512 * VECTOR_512, .len = NR_STEPS_512 * CHAIN_512};
    __m512i v[4] = {start_512(crc, p), load512(p + 64), load512(p + 128), load512(p + 192)};

    for (uint32_t step = 1;; step++, next += STEP_512) {
        fetch(next, STEP_512);
        run_chains(&chains, CHAIN_512);
        if (step == NR_STEPS_512)
            break;
        p += VECTOR_512;
        fold_four_512(v, p);
    }
    return join(&chains, reduce_512(add_four_512(v)), moves_512);
}

/* In vectors alone, 64 bytes or more, down to less than 64: one stream, which is better where it may come
 * from memory and is too short to be asked for in time. */
WIDE_512 static uint32_t vectors_512(uint32_t crc, const uint8_t **at, size_t *left)
{
    const uint8_t *p = *at;
    size_t len = *left;
    __m512i sum = start_512(crc, p);

    if (len >= VECTOR_512) {
        __m512i v[4] = {sum, load512(p + 64), load512(p + 128), load512(p + 192)};

        for (p += VECTOR_512, len -= VECTOR_512; len >= VECTOR_512; p += VECTOR_512, len -= VECTOR_512) {
            fetch(len >= AHEAD_512 + VECTOR_512 ? p + AHEAD_512 : p, VECTOR_512);
            fold_four_512(v, p);
        }
        sum = add_four_512(v);
    } else {
        p += sizeof(sum);
        len -= sizeof(sum);
    }
    for (; len >= sizeof(sum); p += sizeof(sum), len -= sizeof(sum))
        sum = fold_512(sum, by_one_512(), load512(p));
    *at = p;
    *left = len;
    return (uint32_t)reduce_512(sum);
}

WIDE_512 uint32_t fl_crc32c_512(uint32_t crc, const uint8_t *p, size_t len, size_t *done)
{
    const uint8_t *start = p;

    for (; len >= 3 * BLOCK_512; p += BLOCK_512, len -= BLOCK_512)
        crc = block_512(crc, p, p + 2 * BLOCK_512);
    if (len >= sizeof(__m512i))
        crc = vectors_512(crc, &p, &len);
    for (; len >= 8; p += 8, len -= 8)
        crc = (uint32_t)_mm_crc32_u64(crc, load64(p));
    *done = (size_t)(p - start);
    return crc;
}

bool fl_crc32c_256_works(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq") &&
           __builtin_cpu_supports("pclmul") && __builtin_cpu_supports("sse4.2");
}

bool fl_crc32c_512_works(void)
{
    return fl_crc32c_256_works() && __builtin_cpu_supports("avx512f");
}

#else

uint32_t fl_crc32c_256(uint32_t crc, const uint8_t *p, size_t len, size_t *done)
{
    *done = 0;
    return crc;
}

uint32_t fl_crc32c_512(uint32_t crc, const uint8_t *p, size_t len, size_t *done)
{
    *done = 0;
    return crc;
}

bool fl_crc32c_256_works(void)
{
    return false;
}

bool fl_crc32c_512_works(void)
{
    return false;
}

#endif
