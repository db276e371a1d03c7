/* SPDX-License-Identifier: Apache-2.0 */
#include "loop/timer.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

void fl_timer_heap_fini(struct fl_timer_heap *heap)
{
    free(heap->at);
    *heap = (struct fl_timer_heap){0};
}

static void put_at(struct fl_timer_heap *heap, uint32_t i, struct fl_timer *timer)
{
    heap->at[i] = timer;
    timer->heap_index = i;
}

static void sift_up(struct fl_timer_heap *heap, uint32_t i)
{
    struct fl_timer *timer = heap->at[i];

    for (; i > 1 && timer->deadline_ns < heap->at[i / 2]->deadline_ns; i /= 2)
        put_at(heap, i, heap->at[i / 2]);
    put_at(heap, i, timer);
}

static void sift_down(struct fl_timer_heap *heap, uint32_t i)
{
    struct fl_timer *timer = heap->at[i];

    for (;;) {
        uint32_t child = 2 * i;

        if (child > heap->nr)
            break;
        if (child < heap->nr && heap->at[child + 1]->deadline_ns < heap->at[child]->deadline_ns)
            child++;
        if (heap->at[child]->deadline_ns >= timer->deadline_ns)
            break;
        put_at(heap, i, heap->at[child]);
        i = child;
    }
    put_at(heap, i, timer);
}

int fl_timer_heap_set(struct fl_timer_heap *heap, struct fl_timer *timer, uint64_t deadline_ns)
{
    uint32_t i = timer->heap_index;

    if (!i) {
        if (heap->nr + 1 >= heap->cap) {
            uint32_t cap = heap->cap ? heap->cap * 2 : 32;
            struct fl_timer **at = realloc(heap->at, cap * sizeof(*at));

            if (!at)
                return -ENOMEM;
            heap->at = at;
            heap->cap = cap;
        }
        i = ++heap->nr;
        put_at(heap, i, timer);
    }
    timer->deadline_ns = deadline_ns;
    sift_up(heap, i);
    sift_down(heap, timer->heap_index);
    return 0;
}

void fl_timer_heap_remove(struct fl_timer_heap *heap, struct fl_timer *timer)
{
    uint32_t i = timer->heap_index;
    struct fl_timer *last;

    if (!i)
        return;
    assert(i <= heap->nr && heap->at[i] == timer);
    timer->heap_index = 0;
    last = heap->at[heap->nr--];
    if (last == timer)
        return;
    put_at(heap, i, last);
    sift_up(heap, i);
    sift_down(heap, last->heap_index);
}
