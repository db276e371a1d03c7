/* SPDX-License-Identifier: Apache-2.0 */
#include "base/crc.h"

#include <isa-l/crc.h>

#include "base/crc32c_wide.h"
#include "base/vectors.h"

/* ISA-L takes an int: longer input goes in pieces. */
#define MAX_PIECE ((size_t)1 << 30)

static uint32_t crc32c_register(const unsigned char *p, size_t len, uint32_t crc)
{
    crc = crc32_iscsi((unsigned char *)p, (int)len,
                      crc); /* ISA-L only reads, but its prototype lacks the const */
    fl_vectors_leave();
    return crc;
}

uint32_t fl_crc32c(uint32_t crc, const void *p, size_t len)
{
    const unsigned char *b = p;
    size_t done = 0;

    /* crc32_iscsi is the bare register: both inversions are the caller's. */
    crc = ~crc;
    if (len >= FL_CRC32C_512_MIN && fl_crc32c_512_works())
        crc = fl_crc32c_512(crc, b, len, &done);
    else if (len >= FL_CRC32C_256_MIN && fl_crc32c_256_works())
        crc = fl_crc32c_256(crc, b, len, &done);
    b += done;
    len -= done;
    while (len > MAX_PIECE) {
        crc = crc32c_register(b, MAX_PIECE, crc);
        b += MAX_PIECE;
        len -= MAX_PIECE;
    }
    return ~crc32c_register(b, len, crc);
}

uint32_t fl_crc32c_isal(uint32_t crc, const void *p, size_t len)
{
    return ~crc32c_register(p, len, ~crc);
}

uint32_t fl_crc32(uint32_t crc, const void *p, size_t len)
{
    /* Unlike crc32_iscsi, this one inverts inside. */
    crc = crc32_gzip_refl(crc, p, len);
    fl_vectors_leave();
    return crc;
}

/* One step of the register for all 256 values of a byte, computed on each call: this version is for tests. */
static uint32_t update_by_table(uint32_t crc, const uint8_t *b, size_t len, uint32_t poly)
{
    uint32_t table[256];

    for (uint32_t i = 0; i < 256; i++) {
        uint32_t r = i;

        for (int bit = 0; bit < 8; bit++)
            r = r & 1 ? r >> 1 ^ poly : r >> 1;
        table[i] = r;
    }
    crc = ~crc;
    while (len--)
        crc = crc >> 8 ^ table[(crc ^ *b++) & 0xff];
    return ~crc;
}

uint32_t fl_crc32c_portable(uint32_t crc, const void *p, size_t len)
{
    return update_by_table(crc, p, len, 0x82f63b78);
}

uint32_t fl_crc32_portable(uint32_t crc, const void *p, size_t len)
{
    return update_by_table(crc, p, len, 0xedb88320);
}
