/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that transfers are made from and to again and again: pools, namespaces in memory, buffers that
 * fl_shared_alloc gave, what an application registered (farlane/memory.h). An RDMA transport registers a
 * range with its devices when it first meets it, and once. Any thread.
 */
#ifndef FL_MEM_RANGE_H
#define FL_MEM_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum fl_mem_range_kind {
    FL_MEM_OURS,
    FL_MEM_REGISTERED, /* by the application */
    FL_MEM_CACHED,     /* by the registration cache: met in a transfer, and kept */
    FL_MEM_KINDS,
};

struct fl_mem_range {
    uint64_t id; /* never used twice; 0: none */
    uintptr_t base;
    size_t len;
    enum fl_mem_range_kind kind;
    uint32_t nr_pins; /* private, under a lock */
};

/* Ranges may overlap: one that grows is added anew. -ENOMEM: it is not known then, which costs time only. */
int fl_mem_range_add(void *base, size_t len);
/* Of a kind. -EEXIST: a registered one overlaps a registered one. */
int fl_mem_range_add_kind(void *base, size_t len, enum fl_mem_range_kind kind);
/* The range of this kind that is exactly that; -ENOENT. */
int fl_mem_range_remove_exact(void *base, size_t len, enum fl_mem_range_kind kind);
/* All of a kind that overlap [base, base + len). */
void fl_mem_range_remove_overlapping(const void *base, size_t len, enum fl_mem_range_kind kind);
void fl_mem_range_totals(enum fl_mem_range_kind kind, size_t *nr, size_t *len);
/* All ranges that begin within [base, base + len); before the memory is given back. */
void fl_mem_range_remove(void *base, size_t len);
/* The range that holds all of [p, p + len); false: none. */
int fl_mem_range_find(const void *p, size_t len, struct fl_mem_range *range);
/* Is there (still) a range of this id? */
int fl_mem_range_exists(uint64_t id);
/* removed() runs after each removal, on the thread that removes: whoever registered such a range with a
 * device lets go of it before the memory is given back. One for the process. */
void fl_mem_range_on_remove(void (*removed)(void));
/*
 * Hardware has the pages themselves (a registration holds them), not the addresses: pages that the kernel
 * takes back and fills anew are no longer those that the device reads and writes. Pin before the
 * registration, unpin after its end. False: there is no such range (any more).
 */
bool fl_mem_range_pin(uint64_t id);
void fl_mem_range_unpin(uint64_t id);
/*
 * Whole pages go back to the kernel, and read as zeroes. -EBUSY: some are pinned, nothing was done; or what
 * madvise(2) says.
 */
int fl_mem_give_back(void *base, size_t len);
/* Changes with each removal; what was found before holds while it is the same. */
uint32_t fl_mem_range_nr_removed(void);

#endif
