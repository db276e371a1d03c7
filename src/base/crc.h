/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C (NVMe/TCP digests: Castagnoli, reflected) and CRC-32 (IEEE 802.3; the RoCE ICRC stands on it).
 * Start from 0 and feed the result back in to go on: crc(a ++ b) == crc(crc(0, a), b). Initial and final
 * inversion happen inside.
 */
#ifndef FL_BASE_CRC_H
#define FL_BASE_CRC_H

#include <stddef.h>
#include <stdint.h>

uint32_t fl_crc32c(uint32_t crc, const void *p, size_t len);
uint32_t fl_crc32(uint32_t crc, const void *p, size_t len);

/* The same by ISA-L alone, which fl_crc32c uses for short input and on CPUs without wide carry-less
 * multiplication. For tests. */
uint32_t fl_crc32c_isal(uint32_t crc, const void *p, size_t len);

/* The same by a plain table, one byte at a time: the yardstick of the tests. */
uint32_t fl_crc32c_portable(uint32_t crc, const void *p, size_t len);
uint32_t fl_crc32_portable(uint32_t crc, const void *p, size_t len);

#endif
