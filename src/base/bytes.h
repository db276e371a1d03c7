/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Integers as they lie on the wire: byte arrays of size 1 to 8 with alignment 1 and a fixed byte order. A
 * struct made of them has no padding and may lie at any address; arithmetic goes through X_get and X_of,
 * which compile to one load or store (24-bit ones to two).
 */
#ifndef FL_BASE_BYTES_H
#define FL_BASE_BYTES_H

#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define FL_LE_(bits, v) (v)
#define FL_BE_(bits, v) __builtin_bswap##bits(v)
#else
#define FL_LE_(bits, v) __builtin_bswap##bits(v)
#define FL_BE_(bits, v) (v)
#endif

#define FL_BYTES_TYPE_(name, bits, order)           \
    typedef struct {                                \
        uint8_t b[(bits) / 8];                      \
    } name;                                         \
    static inline uint##bits##_t name##_get(name x) \
    {                                               \
        uint##bits##_t v;                           \
        memcpy(&v, x.b, sizeof(v));                 \
        return order(bits, v);                      \
    }                                               \
    static inline name name##_of(uint##bits##_t v)  \
    {                                               \
        name x;                                     \
        v = order(bits, v);                         \
        memcpy(x.b, &v, sizeof(v));                 \
        return x;                                   \
    }

FL_BYTES_TYPE_(le16, 16, FL_LE_)
FL_BYTES_TYPE_(le32, 32, FL_LE_)
FL_BYTES_TYPE_(le64, 64, FL_LE_)
FL_BYTES_TYPE_(be16, 16, FL_BE_)
FL_BYTES_TYPE_(be32, 32, FL_BE_)
FL_BYTES_TYPE_(be64, 64, FL_BE_)

/*
 * 24 bytes, word by word. A load that spans several stores just made waits until they, and all older ones,
 * have left the CPU's store buffer: for as long as memory takes, behind a copy into memory that is not in its
 * caches. Words that were stored as words are passed on at once, so this must not become one wide load.
 */
static inline void fl_copy_words24(void *dst, const void *src)
{
    uint64_t a, b, c;

    memcpy(&a, src, 8);
    memcpy(&b, (const uint8_t *)src + 8, 8);
    memcpy(&c, (const uint8_t *)src + 16, 8);
    __asm__("" : "+r"(a), "+r"(b), "+r"(c));
    memcpy(dst, &a, 8);
    memcpy((uint8_t *)dst + 8, &b, 8);
    memcpy((uint8_t *)dst + 16, &c, 8);
}

typedef struct {
    uint8_t b[3];
} le24;

typedef struct {
    uint8_t b[3];
} be24;

static inline uint32_t le24_get(le24 x)
{
    return (uint32_t)x.b[0] | (uint32_t)x.b[1] << 8 | (uint32_t)x.b[2] << 16;
}

/* Bits above the 24th are dropped. */
static inline le24 le24_of(uint32_t v)
{
    return (le24){{(uint8_t)v, (uint8_t)(v >> 8), (uint8_t)(v >> 16)}};
}

static inline uint32_t be24_get(be24 x)
{
    return (uint32_t)x.b[0] << 16 | (uint32_t)x.b[1] << 8 | (uint32_t)x.b[2];
}

static inline be24 be24_of(uint32_t v)
{
    return (be24){{(uint8_t)(v >> 16), (uint8_t)(v >> 8), (uint8_t)v}};
}

_Static_assert(sizeof(le16) == 2 && sizeof(be16) == 2 && _Alignof(le16) == 1, "no padding");
_Static_assert(sizeof(le24) == 3 && sizeof(be24) == 3 && _Alignof(le24) == 1, "no padding");
_Static_assert(sizeof(le32) == 4 && sizeof(be32) == 4 && _Alignof(le32) == 1, "no padding");
_Static_assert(sizeof(le64) == 8 && sizeof(be64) == 8 && _Alignof(le64) == 1, "no padding");

#endif
