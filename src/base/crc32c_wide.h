/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C for CPUs with carry-less multiplication in vectors of 256 bits (AMD from Zen 3, Intel from Alder
 * Lake) or 512 (AMD from Zen 4, Intel servers from Ice Lake). Used by crc.c and its test alone. */
#ifndef FL_BASE_CRC32C_WIDE_H
#define FL_BASE_CRC32C_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FL_CRC32C_256_MIN 3848u /* bytes: a block; for fewer nothing is done */
#define FL_CRC32C_512_MIN 16u   /* fewer are no faster */

/* This CPU has what it takes. */
bool fl_crc32c_256_works(void);
bool fl_crc32c_512_works(void);
/* The bare register (no inversions) over as much of p as suits; *done tells how much that was. */
uint32_t fl_crc32c_256(uint32_t crc, const uint8_t *p, size_t len, size_t *done);
uint32_t fl_crc32c_512(uint32_t crc, const uint8_t *p, size_t len, size_t *done);

#endif
