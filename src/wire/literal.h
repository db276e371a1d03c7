/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of this folder: bytes written out, and buffers whose every byte tells its offset. */
#ifndef FL_WIRE_LITERAL_H
#define FL_WIRE_LITERAL_H

#include <stdio.h>
#include <string.h>

#include "base/bytes.h"
#include "base/unit.h"

/* Hex digits to bytes, exactly len of them. */
static inline void literal(void *out, size_t len, const char *hex)
{
    uint8_t *bytes = out;
    assert_int_equal(strlen(hex), 2 * len);
    for (size_t i = 0; i < len; i++) {
        unsigned byte = 0;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
        bytes[i] = (uint8_t)byte;
    }
}

/* The byte at an offset of a patterned buffer: neighbours differ, and so do the same places of other 256-byte
 * blocks. */
static inline uint8_t pattern_at(size_t offset)
{
    return (uint8_t)(offset * 37 + (offset >> 8) * 11 + 5);
}

static inline void pattern(void *out, size_t len)
{
    uint8_t *bytes = out;
    for (size_t i = 0; i < len; i++)
        bytes[i] = pattern_at(i);
}

/* What the specification's field of n bytes at an offset says in such a buffer, as it is little endian. */
static inline uint64_t pattern_le(size_t offset, size_t n)
{
    uint64_t v = 0;
    for (size_t i = n; i--;)
        v = v << 8 | pattern_at(offset + i);
    return v;
}

#define AT8(s, field, offset)  assert_int_equal((uint8_t)(s)->field, pattern_le(offset, 1))
#define AT16(s, field, offset) assert_int_equal(le16_get((s)->field), pattern_le(offset, 2))
#define AT24(s, field, offset) assert_int_equal(le24_get((s)->field), pattern_le(offset, 3))
#define AT32(s, field, offset) assert_int_equal(le32_get((s)->field), pattern_le(offset, 4))
#define AT64(s, field, offset) assert_int_equal(le64_get((s)->field), pattern_le(offset, 8))
#define AT128(s, field, offset)                                                 \
    do {                                                                        \
        assert_int_equal(le64_get((s)->field.lo), pattern_le(offset, 8));       \
        assert_int_equal(le64_get((s)->field.hi), pattern_le((offset) + 8, 8)); \
    } while (0)

#endif
