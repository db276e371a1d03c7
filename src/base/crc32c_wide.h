/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C for CPUs with 256-bit carry-less multiplication (AMD from Zen 3, Intel from Alder Lake). Used by
 * crc.c alone. */
#ifndef FL_BASE_CRC32C_WIDE_H
#define FL_BASE_CRC32C_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FL_CRC32C_WIDE_MIN 3848u /* bytes: the smallest block */

bool fl_crc32c_wide_works(void); /* this CPU has what it needs */
/* The bare register (no inversions) over as much of p as goes in whole blocks; *done tells how much that was.
 */
uint32_t fl_crc32c_wide(uint32_t crc, const uint8_t *p, size_t len, size_t *done);

#endif
