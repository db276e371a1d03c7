/* SPDX-License-Identifier: Apache-2.0 */
/* Copies while CRC-32 is computed: each byte is read once, so that the two agree whatever becomes of the
 * source meanwhile, and the CRC costs next to nothing beside the copy. */
#ifndef FL_BASE_CRC32_COPY_H
#define FL_BASE_CRC32_COPY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* fl_crc32() of what is at dst afterwards. more: as much behind src is likely to be copied next, so it is
 * fetched meanwhile, which the CPU does not do by itself from one page to the next. */
uint32_t fl_crc32_copy(uint32_t crc, void *dst, const void *src, size_t len, bool more);

/* The parts of it, for its test */
#define FL_CRC32_COPY_512_MIN 256u
bool fl_crc32_copy_512_works(void);
/* As much as suits, in vectors of 512 bits; *done tells how much that was. dst: a multiple of 4 from a cache
 * line on. */
uint32_t fl_crc32_copy_512(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t len, size_t ahead,
                           size_t *done);

#endif
