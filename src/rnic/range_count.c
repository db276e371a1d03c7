/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/range_count.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void fl_range_count_fini(struct fl_range_count *rc)
{
    free(rc->points);
    *rc = (struct fl_range_count){0};
}

/* The first point that is not before `at` */
static uint32_t find(const struct fl_range_count *rc, uintptr_t at)
{
    uint32_t low = 0, high = rc->nr;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (rc->points[middle].at < at)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes a point at `at`; there is room. Its index. */
static uint32_t cut(struct fl_range_count *rc, uintptr_t at)
{
    uint32_t i = find(rc, at);
    if (i < rc->nr && rc->points[i].at == at)
        return i;
    memmove(&rc->points[i + 1], &rc->points[i], sizeof(rc->points[0]) * (rc->nr - i));
    rc->points[i] = (struct fl_range_point){at, i ? rc->points[i - 1].count : 0};
    rc->nr++;
    return i;
}

/* Takes out what is no boundary any more among the points from first to last. */
static void join(struct fl_range_count *rc, uint32_t first, uint32_t last)
{
    uint32_t to = first;
    for (uint32_t i = first; i < rc->nr; i++) {
        uint32_t before = to ? rc->points[to - 1].count : 0;
        if (i > last) {
            memmove(&rc->points[to], &rc->points[i], sizeof(rc->points[0]) * (rc->nr - i));
            to += rc->nr - i;
            break;
        }
        if (rc->points[i].count != before)
            rc->points[to++] = rc->points[i];
    }
    rc->nr = to;
}

static int make_room(struct fl_range_count *rc)
{
    if (rc->nr + 2 <= rc->cap)
        return 0;
    uint32_t cap = rc->cap ? rc->cap * 2 : 64;
    struct fl_range_point *points = realloc(rc->points, sizeof(*points) * cap);
    if (!points)
        return -ENOMEM;
    rc->points = points;
    rc->cap = cap;
    return 0;
}

int fl_range_count_add(struct fl_range_count *rc, uintptr_t from, uintptr_t to)
{
    if (make_room(rc))
        return -ENOMEM;
    uint32_t first = cut(rc, from), last = cut(rc, to);
    for (uint32_t i = first; i < last; i++)
        rc->points[i].count++;
    join(rc, first, last);
    return 0;
}

void fl_range_count_del(struct fl_range_count *rc, uintptr_t from, uintptr_t to,
                        void (*bare)(void *arg, uintptr_t from, uintptr_t to), void *arg)
{
    if (make_room(rc))
        return; /* it counts as covered for ever, which costs nothing but this */
    uint32_t first = cut(rc, from), last = cut(rc, to);
    for (uint32_t i = first; i < last; i++)
        if (rc->points[i].count && !--rc->points[i].count)
            bare(arg, rc->points[i].at, rc->points[i + 1].at);
    join(rc, first, last);
}
