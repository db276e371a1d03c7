/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory keys. A key is 32 bits: 24 of slot and generation, mixed by a secret of the process, so that knowing
 * one tells nothing of the others, and 8 that change freely (random for memory regions; for memory windows of
 * type 2 the consumer owns them). A slot that was freed is taken again only after thousands of others, and
 * then under another generation.
 *
 * The entries lie in a file of memory (memfd) that processes of the same host and user map to make the check
 * themselves, by the same function: fl_key_check(). Writing is for the owner, under the RNIC's lock; a
 * sequence number in each entry lets others read meanwhile.
 */
#ifndef FL_RNIC_KEY_TABLE_H
#define FL_RNIC_KEY_TABLE_H

#include <stdint.h>

#include "base/util.h"

#define FL_KEY_SLOT_BITS 18
#define FL_KEY_MAX       (1u << FL_KEY_SLOT_BITS) /* memory regions and windows at once */

enum fl_key_kind {
    FL_KEY_NONE,   /* no access, whatever the key */
    FL_KEY_MR,     /* memory region: for SGEs and for peers */
    FL_KEY_WINDOW, /* memory window: for peers alone */
};

struct fl_key_entry {
    uint32_t seq;  /* odd while the owner writes */
    uint32_t kind; /* enum fl_key_kind */
    uint32_t key;
    uint32_t pd;     /* number of the protection domain */
    uint32_t access; /* IBV_ACCESS_* */
    uint32_t qpn;    /* of a window of type 2: the queue pair it was bound on; 0: any of its domain */
    uint64_t addr;   /* first address as SGEs and peers give it (iova) */
    uint64_t len;
    uint64_t ptr;        /* where that is in the owner's process */
    uint32_t parent;     /* of a window: slot of its memory region */
    uint32_t nr_windows; /* bound to this memory region */
    uint32_t region;     /* fl_shared_find() of what it opens; 0: memory that nobody else can map */
    uint8_t rsvd60[4];
};
_Static_assert(sizeof(struct fl_key_entry) == 64, "one cache line");

/* The mapped file; peers map it read-only. */
struct fl_key_file {
    uint32_t secret[4];
    uint8_t rsvd16[48];
    struct fl_key_entry entries[FL_KEY_MAX]; /* pages that were never used cost nothing */
};

struct fl_key_table {
    struct fl_key_file *file;
    int fd;
    /* private */
    uint32_t *next; /* of each free slot: the one freed after it */
    uint8_t *generation;
    uint32_t oldest, newest; /* free slots, FIFO */
    uint32_t nr_free, nr_fresh, nr_used;
    uint64_t nr_changes; /* of entries, plus 1 */
};

/* Keys that were asked for lately: to find one's slot anew takes longer than the check. Zeroed, and for one
 * table, whose keys keep their slots for good, and one queue pair. */
#define FL_KEY_MEMO 4
struct fl_key_memo {
    struct {
        uint32_t key, slot; /* slot: plus 1 */
        /* What it opened to a local access, in the process's own table, after that many changes */
        uint64_t nr_changes;
        uint64_t addr, len, ptr;
        uint32_t access;
    } at[FL_KEY_MEMO];
};

/* Who asks, and for what */
struct fl_key_ask {
    uint32_t key;
    uint32_t pd;
    uint32_t qpn;
    int access;  /* IBV_ACCESS_*; 0: local read */
    bool remote; /* a peer asks: windows count, and access says which right it needs */
    uint64_t addr, len;
    struct fl_key_memo *memo; /* NULL: none */
};

int fl_key_table_init(struct fl_key_table *table);
void fl_key_table_fini(struct fl_key_table *table);

/* A slot and a key for it, which opens nothing yet. -ENOMEM: all slots are taken. */
int fl_key_alloc(struct fl_key_table *table, uint32_t *slot, uint32_t *key);
/* What the key opens from now on. kind NONE: nothing. seq and nr_windows of `to` are not looked at. */
void fl_key_set(struct fl_key_table *table, uint32_t slot, const struct fl_key_entry *to);
void fl_key_free(struct fl_key_table *table, uint32_t slot);
/* Closes memory regions that lie in [from, to) of our memory, even in part, and their windows. Their slots
 * stay taken. */
void fl_key_close_range(struct fl_key_table *table, uint64_t from, uint64_t to);
/* Another key for the same slot: for memory windows of type 1. */
uint32_t fl_key_renew(struct fl_key_table *table, uint32_t slot);

static inline struct fl_key_entry *fl_key_at(const struct fl_key_table *table, uint32_t slot)
{
    return &table->file->entries[slot];
}
/* The slot that a key names, whether the key is good or not. */
uint32_t fl_key_slot(const struct fl_key_file *file, uint32_t key);

/*
 * The one check of key, protection domain, queue pair, rights and bounds, on every path. 0 and *ptr in the
 * owner's process; -EACCES. Any process that has the file.
 */
int fl_key_check(const struct fl_key_file *file, const struct fl_key_ask *ask, uint64_t *ptr);
/* The same for those who want to map it; and all that the key opens. */
struct fl_key_place {
    uint64_t ptr;
    uint32_t region, access;
    uint64_t all_addr, all_len;
};
int fl_key_find(const struct fl_key_file *file, const struct fl_key_ask *ask, struct fl_key_place *place);

/* The same for local accesses in the process's own table, under the RNIC's lock. ask->memo is not NULL. */
int fl_key_check_own(const struct fl_key_table *table, const struct fl_key_ask *ask, uint64_t *ptr);

/* Whether fl_key_check_own() said yes to the like of it, and nothing has changed since. */
static inline bool fl_key_is_known(const struct fl_key_table *table, const struct fl_key_memo *memo,
                                   uint32_t key, int access, uint64_t addr, uint64_t len, uint64_t *ptr)
{
    uint32_t i = key >> 8 & (FL_KEY_MEMO - 1);
    uint64_t off = addr - memo->at[i].addr; /* huge when it lies before */
    *ptr = memo->at[i].ptr + off;
    return memo->at[i].nr_changes == table->nr_changes && memo->at[i].key == key &&
           !((uint32_t)access & ~memo->at[i].access) && fl_range_fits(off, len, memo->at[i].len);
}

#endif
