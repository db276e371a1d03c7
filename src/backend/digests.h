/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32Cs of a namespace's memory, one for each 4 KiB, kept from when they were first asked for until their
 * bytes change: a data digest of what was read before is made of them, without another pass over the bytes.
 *
 * They follow the marks (marks.h). Whoever asks is a reader there, so that nothing changes meanwhile; whoever
 * changes memory drops them first, as a writer there. What changes without marks, fl_digests_drop_all()
 * before and after is for: an entry counts only in the epoch that had begun before its bytes were looked at.
 */
#ifndef FL_BACKEND_DIGESTS_H
#define FL_BACKEND_DIGESTS_H

#include <stdint.h>

#include "base/crc32c_join.h"

#define FL_DIGESTS_SHIFT 12
#define FL_DIGESTS_LEN   (UINT64_C(1) << FL_DIGESTS_SHIFT)

struct fl_digests {
    uint64_t *entry;    /* the epoch, and below it the CRC; 0: none is known. NULL: none is kept */
    uint64_t table_len; /* bytes */
    uint32_t epoch;     /* 0: none was ever asked for */
    struct fl_crc32c_join join;
};

/* For the first len bytes of a memory. Where there is no room for them, none are kept. */
void fl_digests_init(struct fl_digests *d, uint64_t len);
void fl_digests_fini(struct fl_digests *d);

/* The CRC-32C of len bytes from off on of the memory at mem. They are marked for a reader. */
uint32_t fl_digests_of(struct fl_digests *d, const uint8_t *mem, uint64_t off, uint64_t len);

void fl_digests_drop_range(struct fl_digests *d, uint64_t off, uint64_t len);
void fl_digests_drop_all(struct fl_digests *d);

/* len bytes from off on, not 0, are going to change. They are marked for a writer; so whoever kept one of
 * theirs did so before, and the epoch is seen. */
static inline void fl_digests_drop(struct fl_digests *d, uint64_t off, uint64_t len)
{
    if (__atomic_load_n(&d->epoch, __ATOMIC_RELAXED))
        fl_digests_drop_range(d, off, len);
}

#endif
