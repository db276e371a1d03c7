/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies into memory that is not in the CPU's caches and need not be: without reading each line before it is
 * written, and without making later, smaller stores wait.
 */
#ifndef FL_BASE_COPY_H
#define FL_BASE_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/util.h"

/*
 * Like memcpy, into memory that is not in the CPU's caches and need not be: without reading each line before
 * it is written, and without making later, smaller stores wait. The thread that calls it sees the bytes at
 * once; others once it has made a locked access (an atomic read-modify-write, any system call that takes a
 * lock), which is how anything is handed to another thread or a peer here.
 */
static inline void fl_copy_past_caches(void *dst, const void *src, size_t len)
{
#if defined(__SSE2__)
    uint8_t *d = dst;
    const uint8_t *s = src;

    if (((uintptr_t)d & 63) == 0 && (len & 63) == 0) {
        for (; len; len -= 64, d += 64, s += 64) {
            __m128i a = _mm_loadu_si128((const __m128i *)(const void *)s);
            __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(s + 16));
            __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(s + 32));
            __m128i e = _mm_loadu_si128((const __m128i *)(const void *)(s + 48));

            _mm_stream_si128((__m128i *)(void *)d, a);
            _mm_stream_si128((__m128i *)(void *)(d + 16), b);
            _mm_stream_si128((__m128i *)(void *)(d + 32), c);
            _mm_stream_si128((__m128i *)(void *)(d + 48), e);
        }
        return;
    }
#endif
    memcpy(dst, src, len);
}

/*
 * What is going to be copied soon, into the second-level cache: where it comes from memory, while something
 * else is being done. Up to three cache lines more. Any address will do, nothing faults.
 *
 * More than FL_FETCH_LEN in a row waits: a CPU asks for 10 to 24 lines at a time, and 0.1 us and more goes by
 * until they are there. So does the first of a page that the TLB does not hold (0.2 us in a virtual machine),
 * but only for what needs it: ask for that one alone, well before the others.
 */
#define FL_FETCH_LEN 1024u

static inline void fl_fetch_ahead(const void *data, size_t len)
{
    const uint8_t *p = data;

    for (size_t i = 0; i < len; i += 4 * (size_t)FL_CACHE_LINE) {
        __builtin_prefetch(p + i, 0, 2);
        __builtin_prefetch(p + i + FL_CACHE_LINE, 0, 2);
        __builtin_prefetch(p + i + 2 * (size_t)FL_CACHE_LINE, 0, 2);
        __builtin_prefetch(p + i + 3 * (size_t)FL_CACHE_LINE, 0, 2);
    }
}

/*
 * Like memmove, for memory that somebody watches: the last byte is stored once, after all others. Programs
 * wait for the last byte of an RDMA WRITE to change, take it that all is there, and may use the buffer anew
 * at once; memcpy may store the same bytes twice.
 */
static inline void *fl_copy_watched(void *dst, const void *src, size_t len)
{
    uint8_t last;

    if (!len)
        return dst;
    if ((uintptr_t)dst - (uintptr_t)src < len || (uintptr_t)src - (uintptr_t)dst < len) {
        last = ((const uint8_t *)src)[len - 1]; /* it may be written over */
        memmove(dst, src, len - 1);
    } else {
        memcpy(dst, src, len - 1); /* the last byte last: memory is read from its beginning on */
        last = ((const uint8_t *)src)[len - 1];
    }
    __atomic_store_n((uint8_t *)dst + len - 1, last, __ATOMIC_RELEASE);
    return dst;
}

#endif
