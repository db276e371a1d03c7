/* SPDX-License-Identifier: Apache-2.0 */
/* How many times each part of a line of numbers is covered by ranges that come and go. */
#ifndef FL_RNIC_RANGE_COUNT_H
#define FL_RNIC_RANGE_COUNT_H

#include <stdint.h>

struct fl_range_point { /* from here to the next point: so many */
    uintptr_t at;
    uint32_t count;
};

struct fl_range_count {
    struct fl_range_point *points; /* in order, no two neighbours with the same count */
    uint32_t nr, cap;
};

void fl_range_count_fini(struct fl_range_count *rc);
/* 0, -ENOMEM: nothing changed. */
int fl_range_count_add(struct fl_range_count *rc, uintptr_t from, uintptr_t to);
/* The range was added before. Calls bare() for each part that nothing covers any more. */
void fl_range_count_del(struct fl_range_count *rc, uintptr_t from, uintptr_t to,
                        void (*bare)(void *arg, uintptr_t from, uintptr_t to), void *arg);

#endif
