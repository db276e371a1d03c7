/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes that died, and what is still to be said for them: each of their connections a few times, as a
 * packet may be lost. No I/O.
 */
#ifndef FL_RNIC_HUB_ESTATE_H
#define FL_RNIC_HUB_ESTATE_H

#include "base/list.h"
#include "rnic/hub/will.h"

#define FL_HUB_ESTATES 1024u /* at a time; for others nothing is said */

struct fl_hub_estates {
    struct fl_list all;
    uint32_t nr;
};

void fl_hub_estates_init(struct fl_hub_estates *estates);
void fl_hub_estates_fini(struct fl_hub_estates *estates);
/* Takes the mapping over. */
void fl_hub_estates_add(struct fl_hub_estates *estates, const struct fl_hub_will_shared *will, uint64_t now);
/* The next connection whose end is to be told now. False: none. */
bool fl_hub_estates_next(struct fl_hub_estates *estates, uint64_t now, struct fl_hub_bond *bond);
uint64_t fl_hub_estates_deadline(const struct fl_hub_estates *estates); /* UINT64_MAX: none */

#endif
