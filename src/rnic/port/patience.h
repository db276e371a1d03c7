/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long a hub is waited for, whatever is asked of it: to be let in, for queue pair numbers, for a service.
 * It is there, but perhaps waits for a CPU, as who waits for it may do, too: that time does not count, since
 * nothing could be seen in it.
 */
#ifndef FL_RNIC_PORT_PATIENCE_H
#define FL_RNIC_PORT_PATIENCE_H

#include <stdbool.h>

#include "base/clock.h"

#define FL_PORT_HUB_NS (10 * FL_NS_PER_S)
#define FL_PORT_STEP_NS \
    (100 * FL_NS_PER_MS) /* between two looks; longer: this process has waited for a CPU */

struct fl_port_patience { /* zeroed at first */
    uint64_t last, end;
};

/* At each look. False: it was long enough. */
static inline bool fl_port_is_patient(struct fl_port_patience *patience, uint64_t now)
{
    if (!patience->end)
        patience->end = now + FL_PORT_HUB_NS;
    else if (now - patience->last > FL_PORT_STEP_NS)
        patience->end += now - patience->last - FL_PORT_STEP_NS; /* so there is an end whatever comes */
    patience->last = now;
    return now < patience->end;
}

#endif
