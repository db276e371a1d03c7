/* SPDX-License-Identifier: Apache-2.0 */
/* The few macros that everybody needs. */
#ifndef FL_BASE_UTIL_H
#define FL_BASE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FL_ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

/* The struct of `type` whose `member` lies at `ptr`. */
#define FL_CONTAINER_OF(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

#define FL_MIN(a, b)                       \
    ({                                     \
        __typeof__(a) min_a_ = (a);        \
        __typeof__(b) min_b_ = (b);        \
        min_a_ < min_b_ ? min_a_ : min_b_; \
    })

#define FL_MAX(a, b)                       \
    ({                                     \
        __typeof__(a) max_a_ = (a);        \
        __typeof__(b) max_b_ = (b);        \
        max_a_ > max_b_ ? max_a_ : max_b_; \
    })

#define fl_likely(x)   __builtin_expect(!!(x), 1)
#define fl_unlikely(x) __builtin_expect(!!(x), 0)

/* Distance that keeps two threads' data out of one line (pairs of lines are fetched together on x86). */
#define FL_CACHE_LINE 64

static inline bool fl_is_pow2(uint64_t v)
{
    return v && !(v & (v - 1));
}

/* `align` is a power of two. */
static inline uint64_t fl_round_up(uint64_t v, uint64_t align)
{
    return (v + align - 1) & ~(align - 1);
}

/* True if [at, at + len) lies within [0, end), without wrapping: the check for a peer's offset and length. */
static inline bool fl_range_fits(uint64_t at, uint64_t len, uint64_t end)
{
    return len <= end && at <= end - len;
}

#endif
