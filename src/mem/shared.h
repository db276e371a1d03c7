/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that other processes can be given: memfds, sealed so that they can never shrink. The software RNIC
 * hands them to peers on the same host, which then move data by one copy (docs/design/rnic_shm.md). Any
 * thread.
 */
#ifndef FL_MEM_SHARED_H
#define FL_MEM_SHARED_H

#include <stddef.h>
#include <stdint.h>

#define FL_SHARED_MAX 64 /* regions of a process that peers get to know; more work, too, but are not shared \
                          */

struct fl_shared_region {
    uint32_t id; /* never used twice in a process; 0: none */
    int fd;
    void *base;
    size_t len;
};

/* len, a multiple of the page size, zeroed; pages that were never used cost nothing. NULL and errno. */
void *fl_shared_alloc(size_t len);
void fl_shared_free(void *base, size_t len); /* of that alloc */

/* The region that holds all of [p, p + len); 0: none. */
uint32_t fl_shared_find(const void *p, size_t len);
/* Regions with an id greater than `after`, lowest first, at most max; their number. The caller closes the
 * descriptors. */
int fl_shared_list(uint32_t after, struct fl_shared_region *regions, int max);
/* The highest id so far, and how many regions were freed; without a lock. */
uint32_t fl_shared_newest(void);
uint32_t fl_shared_nr_freed(void);

#endif
