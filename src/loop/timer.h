/* SPDX-License-Identifier: Apache-2.0 */
/* A binary heap of timers, soonest first. Part of the loop; no clock of its own. */
#ifndef FL_LOOP_TIMER_H
#define FL_LOOP_TIMER_H

#include "loop/loop.h"

struct fl_timer_heap {
    struct fl_timer **at; /* at[1..nr]; at[0] is unused so that heap_index 0 can mean 'not armed' */
    uint32_t nr, cap;
};

void fl_timer_heap_fini(struct fl_timer_heap *heap);
/* Adds the timer, or moves it when it is in the heap. -ENOMEM. */
int fl_timer_heap_set(struct fl_timer_heap *heap, struct fl_timer *timer, uint64_t deadline_ns);
void fl_timer_heap_remove(struct fl_timer_heap *heap, struct fl_timer *timer);

static inline struct fl_timer *fl_timer_heap_first(const struct fl_timer_heap *heap)
{
    return heap->nr ? heap->at[1] : NULL;
}

#endif
