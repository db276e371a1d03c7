/* SPDX-License-Identifier: Apache-2.0 */
#include "base/copy_ahead.h"

#include "base/copy.h"

#define LINE ((size_t)FL_CACHE_LINE)

/* It may be no pointer at all, so it is counted with as a number. */
static inline void fetch_line(const void *ahead, size_t at)
{
    __builtin_prefetch((const void *)((uintptr_t)ahead + at), 0, 2);
}

void fl_copy_ahead_any(void *dst, const void *src, size_t len, const void *ahead)
{
    for (size_t at = 0; at < len; at += LINE) {
        fetch_line(ahead, at);
        memcpy((uint8_t *)dst + at, (const uint8_t *)src + at, LINE);
    }
}

#if defined(__x86_64__)

#include <immintrin.h>

/* Vectors of 512 bits bring nothing more: what it waits for is memory. */
__attribute__((target("avx2"))) void fl_copy_ahead_256(void *dst, const void *src, size_t len,
                                                       const void *ahead)
{
    uint8_t *d = dst;
    const uint8_t *s = src;

    for (size_t at = 0; at < len; at += LINE) {
        fetch_line(ahead, at);
        __m256i a = _mm256_loadu_si256((const __m256i *)(const void *)(s + at));
        __m256i b = _mm256_loadu_si256((const __m256i *)(const void *)(s + at + 32));

        _mm256_storeu_si256((__m256i *)(void *)(d + at), a);
        _mm256_storeu_si256((__m256i *)(void *)(d + at + 32), b);
    }
}

bool fl_copy_ahead_256_works(void)
{
    return __builtin_cpu_supports("avx2");
}

#else

void fl_copy_ahead_256(void *dst, const void *src, size_t len, const void *ahead)
{
    fl_copy_ahead_any(dst, src, len, ahead);
}

bool fl_copy_ahead_256_works(void)
{
    return false;
}

#endif

void *fl_copy_ahead(void *dst, const void *src, size_t len, const void *ahead, size_t ahead_len)
{
    uint8_t *d = dst;
    const uint8_t *s = src;
    /* Whole lines, and at least a byte is left, which is stored last */
    size_t most = len ? (len - 1) & ~(LINE - 1) : 0;
    size_t wanted = FL_MIN(ahead_len, (size_t)FL_COPY_AHEAD_MAX) & ~(LINE - 1);
    size_t fetch = FL_MIN(wanted, most), plain = most - fetch;

    if ((uintptr_t)dst - (uintptr_t)src < len || (uintptr_t)src - (uintptr_t)dst < len)
        return fl_copy_watched(dst, src, len);
    if (plain) /* first: what is fetched is needed soon after the rest */
        memcpy(d, s, plain);
    if (fetch && fl_copy_ahead_256_works())
        fl_copy_ahead_256(d + plain, s + plain, fetch, ahead);
    else
        fl_copy_ahead_any(d + plain, s + plain, fetch, ahead);
    if (wanted > fetch) /* the line that goes with the last one, which is copied by itself */
        fetch_line(ahead, fetch);
    fl_copy_watched(d + most, s + most, len - most);
    return dst;
}
