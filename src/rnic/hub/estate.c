/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/hub/estate.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"

/* All within the second in which a peer is to know. */
static const uint64_t pauses[] = {100 * FL_NS_PER_MS, 400 * FL_NS_PER_MS};

struct estate {
    struct fl_list link;
    const struct fl_hub_will_shared *will;
    uint64_t due;
    uint32_t at, nr_told;
};

void fl_hub_estates_init(struct fl_hub_estates *estates)
{
    *estates = (struct fl_hub_estates){0};
    fl_list_init(&estates->all);
}

static void drop(struct fl_hub_estates *estates, struct estate *e)
{
    fl_list_del(&e->link);
    estates->nr--;
    fl_hub_will_unmap(e->will);
    free(e);
}

void fl_hub_estates_fini(struct fl_hub_estates *estates)
{
    struct estate *e, *tmp;
    fl_list_for_each_safe (e, tmp, &estates->all, link)
        drop(estates, e);
}

void fl_hub_estates_add(struct fl_hub_estates *estates, const struct fl_hub_will_shared *will, uint64_t now)
{
    struct estate *e = estates->nr < FL_HUB_ESTATES ? calloc(1, sizeof(*e)) : NULL;
    if (!e) {
        FL_WARN("rnic: peers of a process that died are not told: %s",
                estates->nr < FL_HUB_ESTATES ? "no memory" : "too many died at once");
        fl_hub_will_unmap(will);
        return;
    }
    e->will = will;
    e->due = now;
    fl_list_add_tail(&estates->all, &e->link);
    estates->nr++;
}

bool fl_hub_estates_next(struct fl_hub_estates *estates, uint64_t now, struct fl_hub_bond *bond)
{
    struct estate *e, *tmp;
    fl_list_for_each_safe (e, tmp, &estates->all, link) {
        if (e->due > now)
            continue;
        if (fl_hub_will_next(e->will, &e->at, bond))
            return true;
        if (!e->at || e->nr_told == FL_ARRAY_LEN(pauses)) {
            drop(estates, e);
            continue;
        }
        e->due = now + pauses[e->nr_told++];
        e->at = 0;
    }
    return false;
}

uint64_t fl_hub_estates_deadline(const struct fl_hub_estates *estates)
{
    struct estate *e;
    uint64_t at = UINT64_MAX;
    fl_list_for_each (e, &estates->all, link)
        at = FL_MIN(at, e->due);
    return at;
}
