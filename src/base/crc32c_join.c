/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc32c_join.h"

#include <string.h>

#define POLYNOMIAL 0x82f63b78u

/* The register is linear: what it becomes is the sum of what each of its bits becomes. */
struct moved_bits {
    uint32_t bit[32];
};

static uint32_t move(const struct moved_bits *by, uint32_t crc)
{
    uint32_t sum = 0;

    for (int i = 0; i < 32; i++)
        sum ^= crc >> i & 1 ? by->bit[i] : 0;
    return sum;
}

static struct moved_bits twice(const struct moved_bits *by)
{
    struct moved_bits sum;

    for (int i = 0; i < 32; i++)
        sum.bit[i] = move(by, by->bit[i]);
    return sum;
}

static struct moved_bits one_byte(void)
{
    struct moved_bits by;

    for (int i = 0; i < 32; i++) {
        uint32_t r = UINT32_C(1) << i;

        for (int bit = 0; bit < 8; bit++)
            r = r & 1 ? r >> 1 ^ POLYNOMIAL : r >> 1;
        by.bit[i] = r;
    }
    return by;
}

/* Inversions at the beginning and the end of a CRC cancel out when two are added. */
void fl_crc32c_join_init(struct fl_crc32c_join *join, size_t len)
{
    struct moved_bits by = one_byte();

    for (unsigned int i = 0; i < 8; i++)
        for (uint32_t v = 0; v < 16; v++)
            join->moved[i][v] = v << 4 * i;
    for (; len; len >>= 1, by = twice(&by)) {
        if (!(len & 1))
            continue;
        for (unsigned int i = 0; i < 8; i++)
            for (uint32_t v = 0; v < 16; v++)
                join->moved[i][v] = move(&by, join->moved[i][v]);
    }
}
