/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies into memory that is not in the CPU's caches and need not be: without reading each line before it is
 * written, and without making later, smaller stores wait.
 */
#ifndef FL_BASE_COPY_H
#define FL_BASE_COPY_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/*
 * Like memcpy. The thread that calls it sees the bytes at once; others once it has made a locked access (an
 * atomic read-modify-write, any system call that takes a lock), which is how anything is handed to another
 * thread or a peer here.
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

#endif
