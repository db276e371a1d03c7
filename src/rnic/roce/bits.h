/* SPDX-License-Identifier: Apache-2.0 */
/* One bit for each of FL_ROCE_SPAN PSNs, in a ring. */
#ifndef FL_RNIC_ROCE_BITS_H
#define FL_RNIC_ROCE_BITS_H

#include "rnic/roce/roce.h"

#define FL_ROCE_BIT_MASK (FL_ROCE_SPAN - 1)

static inline bool fl_bit(const uint64_t *bits, uint32_t psn)
{
    return bits[(psn & FL_ROCE_BIT_MASK) / 64] >> psn % 64 & 1;
}

static inline void fl_bit_set(uint64_t *bits, uint32_t psn)
{
    bits[(psn & FL_ROCE_BIT_MASK) / 64] |= 1ull << psn % 64;
}

static inline void fl_bit_clear(uint64_t *bits, uint32_t psn)
{
    bits[(psn & FL_ROCE_BIT_MASK) / 64] &= ~(1ull << psn % 64);
}

/* Those of psn to psn + 31, the first lowest */
static inline uint32_t fl_bits_32(const uint64_t *bits, uint32_t psn)
{
    uint32_t i = (psn & FL_ROCE_BIT_MASK) / 64, shift = psn % 64;
    uint64_t word = bits[i] >> shift;
    if (shift > 32)
        word |= bits[(i + 1) % FL_ROCE_SPAN_WORDS] << (64 - shift);
    return (uint32_t)word;
}

/* How far from psn on the first one is set, of nr PSNs; nr: none of them. */
static inline uint32_t fl_bits_next(const uint64_t *bits, uint32_t psn, uint32_t nr)
{
    for (uint32_t n = 0; n < nr;) {
        uint64_t word = bits[((psn + n) & FL_ROCE_BIT_MASK) / 64] >> (psn + n) % 64;
        if (word) {
            n += (uint32_t)__builtin_ctzll(word);
            return n < nr ? n : nr;
        }
        n += 64 - (psn + n) % 64;
    }
    return nr;
}

#endif
