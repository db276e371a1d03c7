/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of connections goes back to the kernel: malloc keeps what lies in between blocks that are in use,
 * which after a thousand connections are 200 MiB. Beside the loop, since it takes a while.
 */
#include <malloc.h>
#include <stdlib.h>

#include "base/clock.h"
#include "loop/aside.h"
#include "target/core.h"

#define MANY     32 /* connections that ended */
#define AFTER_NS FL_NS_PER_S

struct giving {
    struct fl_aside aside;
    struct fl_target *target;
};

static void give(struct fl_aside *aside)
{
    (void)aside;
#if defined(__GLIBC__)
    malloc_trim(0);
#endif
}

static void given(struct fl_aside *aside)
{
    struct giving *g = FL_CONTAINER_OF(aside, struct giving, aside);
    struct fl_target *target = g->target;

    free(g);
    target->nr_rounds--;
    fl_target_check_stopped(target); /* the last one may free the target */
}

static void start(struct fl_timer *timer)
{
    struct fl_target *target = FL_CONTAINER_OF(timer, struct fl_target, give_timer);
    struct giving *g = calloc(1, sizeof(*g));

    target->most_queues = target->nr_queues;
    if (!g)
        return;
    g->aside = (struct fl_aside){.work = give, .done = given};
    g->target = target;
    target->nr_rounds++; /* the target stays until then */
    fl_aside_start(target->loop, &g->aside);
}

void fl_give_back_after(struct fl_target *target)
{
    if (target->stopping || target->most_queues - target->nr_queues < MANY || target->give_timer.heap_index)
        return;
    target->give_timer.expired = start;
    fl_timer_set(target->loop, &target->give_timer, fl_loop_now(target->loop) + AFTER_NS);
}
