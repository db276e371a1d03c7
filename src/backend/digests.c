/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/digests.h"

#include <sys/mman.h>

#include "base/copy.h"
#include "base/crc.h"
#include "base/util.h"

void fl_digests_init(struct fl_digests *d, uint64_t len)
{
    void *table;

    *d = (struct fl_digests){.table_len = ((len + FL_DIGESTS_LEN - 1) >> FL_DIGESTS_SHIFT) *
                                          sizeof(*d->entry)};
    table = mmap(NULL, d->table_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                 0);
    if (table == MAP_FAILED)
        return;
    madvise(table, d->table_len, MADV_DONTDUMP);
    madvise(table, d->table_len, MADV_NOHUGEPAGE); /* 2 MiB are not worth it for a digest here and there */
    d->entry = table;
    fl_crc32c_join_init(&d->join, FL_DIGESTS_LEN);
}

void fl_digests_fini(struct fl_digests *d)
{
    if (d->entry)
        munmap(d->entry, d->table_len);
}

/* The one that is going on; the first is begun here. */
static uint32_t current_epoch(struct fl_digests *d)
{
    uint32_t epoch = __atomic_load_n(&d->epoch, __ATOMIC_ACQUIRE);

    if (fl_likely(epoch))
        return epoch;
    if (__atomic_compare_exchange_n(&d->epoch, &epoch, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return 1;
    return epoch;
}

/* Readers of the same piece may do so at the same time: they find the same. */
static uint32_t keep(uint64_t *entry, uint32_t epoch, const uint8_t *piece)
{
    uint32_t crc = fl_crc32c(0, piece, FL_DIGESTS_LEN);

    __atomic_store_n(entry, (uint64_t)epoch << 32 | crc, __ATOMIC_RELAXED);
    return crc;
}

uint32_t fl_digests_of(struct fl_digests *d, const uint8_t *mem, uint64_t off, uint64_t len)
{
    const uint64_t end = off + len, first = fl_round_up(off, FL_DIGESTS_LEN),
                   last = end & ~(FL_DIGESTS_LEN - 1);
    uint32_t crc = 0, epoch;

    if (!d->entry || first >= last)
        return fl_crc32c(0, mem + off, len);
    epoch = current_epoch(d);
    if (off != first)
        crc = fl_crc32c(0, mem + off, first - off);
    for (uint64_t at = first; at < last; at += FL_DIGESTS_LEN) {
        uint64_t *entry = &d->entry[at >> FL_DIGESTS_SHIFT], known = __atomic_load_n(entry, __ATOMIC_RELAXED);

        if (fl_unlikely(known >> 32 != epoch)) {
            if (at + FL_DIGESTS_LEN < last)
                fl_fetch_ahead(mem + at + FL_DIGESTS_LEN, FL_FETCH_LEN);
            known = keep(entry, epoch, mem + at);
        }
        crc = crc ? fl_crc32c_join(&d->join, crc, (uint32_t)known) : (uint32_t)known;
    }
    return end == last ? crc : fl_crc32c(crc, mem + last, end - last);
}

/* What was never asked for stays untouched: it takes no memory. */
void fl_digests_drop_range(struct fl_digests *d, uint64_t off, uint64_t len)
{
    const uint64_t last = (off + len - 1) >> FL_DIGESTS_SHIFT;

    for (uint64_t i = off >> FL_DIGESTS_SHIFT; i <= last; i++)
        if (__atomic_load_n(&d->entry[i], __ATOMIC_RELAXED))
            __atomic_store_n(&d->entry[i], 0, __ATOMIC_RELAXED);
}

void fl_digests_drop_all(struct fl_digests *d)
{
    if (d->entry)
        __atomic_fetch_add(&d->epoch, 1, __ATOMIC_ACQ_REL);
}
