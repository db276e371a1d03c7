/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Now and then a look at what namespaces stand on, beside the loop: a file that was deleted or replaced is
 * served on as if nothing had happened, and all that is written to it is lost with the process. The operator
 * is told once.
 */
#include <stdlib.h>

#include "base/clock.h"
#include "loop/aside.h"
#include "target/core.h"

#define EVERY_NS (5 * FL_NS_PER_S)

struct looks {
    struct fl_aside aside;
    struct fl_target *target;
    uint32_t nr;
    struct {
        struct fl_tns *ns;
        struct fl_backend *be;
        int result;
        struct fl_error err;
    } at[];
};

static uint32_t gather(struct fl_target *target, struct looks *looks)
{
    struct fl_subsystem *ss;
    uint32_t nr = 0;

    fl_list_for_each (ss, &target->subsystems, link)
        for (uint32_t nsid = 1; ss->nr_ns && nsid <= FL_NSID_MAX; nsid++) {
            struct fl_tns *ns = ss->ns[nsid];

            if (!ns || !ns->be->ops->look)
                continue;
            if (looks) {
                fl_tns_hold(ns);
                looks->at[nr].ns = ns;
                looks->at[nr].be = ns->be;
            }
            nr++;
        }
    return nr;
}

static void look(struct fl_aside *aside)
{
    struct looks *looks = FL_CONTAINER_OF(aside, struct looks, aside);

    for (uint32_t i = 0; i < looks->nr; i++)
        looks->at[i].result = looks->at[i].be->ops->look(looks->at[i].be, &looks->at[i].err);
}

static void looked(struct fl_aside *aside)
{
    struct looks *looks = FL_CONTAINER_OF(aside, struct looks, aside);

    looks->target->looking = false;
    fl_look_after(looks->target);
    for (uint32_t i = 0; i < looks->nr; i++) {
        struct fl_tns *ns = looks->at[i].ns;
        bool gone = looks->at[i].result < 0;

        if (gone && !ns->told_gone && !ns->remove_asked)
            FL_WARN("namespace %u of %s: %s", ns->nsid, ns->ss->nqn, looks->at[i].err.text);
        ns->told_gone = gone;
        fl_tns_put(ns); /* the last one may free the target */
    }
    free(looks);
}

static void start(struct fl_timer *timer)
{
    struct fl_target *target = FL_CONTAINER_OF(timer, struct fl_target, look_timer);
    uint32_t nr = gather(target, NULL);
    struct looks *looks = nr ? calloc(1, sizeof(*looks) + nr * sizeof(looks->at[0])) : NULL;

    if (!looks) {
        if (nr)
            fl_look_after(target);
        return;
    }
    looks->aside = (struct fl_aside){.work = look, .done = looked};
    looks->target = target;
    looks->nr = gather(target, looks);
    target->looking = true;
    fl_aside_start(target->loop, &looks->aside);
}

void fl_look_after(struct fl_target *target)
{
    if (target->stopping || target->looking || target->look_timer.heap_index)
        return;
    target->look_timer.expired = start;
    fl_timer_set(target->loop, &target->look_timer, fl_loop_now(target->loop) + EVERY_NS);
}
