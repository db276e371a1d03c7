/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that transfers are made from and to again and again: pools, namespaces in memory, buffers that
 * fl_shared_alloc gave. An RDMA transport registers a range with its devices when it first meets it, and
 * once. Any thread.
 */
#ifndef FL_MEM_RANGE_H
#define FL_MEM_RANGE_H

#include <stddef.h>
#include <stdint.h>

struct fl_mem_range {
    uint64_t id; /* never used twice; 0: none */
    uintptr_t base;
    size_t len;
};

/* Ranges may overlap: one that grows is added anew. -ENOMEM: it is not known then, which costs time only. */
int fl_mem_range_add(void *base, size_t len);
/* All ranges that begin within [base, base + len); before the memory is given back. */
void fl_mem_range_remove(void *base, size_t len);
/* The range that holds all of [p, p + len); false: none. */
int fl_mem_range_find(const void *p, size_t len, struct fl_mem_range *range);
/* Is there (still) a range of this id? */
int fl_mem_range_exists(uint64_t id);
/* Changes with each removal; what was found before holds while it is the same. */
uint32_t fl_mem_range_nr_removed(void);

#endif
