/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The CRC-32C of two pieces from those of each, without looking at their bytes again: crc(a ++ b) is
 * fl_crc32c_join(join, crc(a), crc(b)), where b has the length that join was made for.
 */
#ifndef FL_BASE_CRC32C_JOIN_H
#define FL_BASE_CRC32C_JOIN_H

#include <stddef.h>
#include <stdint.h>

struct fl_crc32c_join {
    uint32_t moved[8][16]; /* what each value of each four bits becomes over len bytes of zeroes */
};

void fl_crc32c_join_init(struct fl_crc32c_join *join, size_t len);

static inline uint32_t fl_crc32c_join(const struct fl_crc32c_join *join, uint32_t a, uint32_t b)
{
    for (unsigned int i = 0; i < 8; i++)
        b ^= join->moved[i][a >> 4 * i & 0xf];
    return b;
}

#endif
