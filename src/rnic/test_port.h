/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_RNIC_TEST_PORT_H
#define FL_RNIC_TEST_PORT_H

#include <stdbool.h>

#include "rnic/port.h"

/* What the test's port does wrong, and what it saw. Changed while nothing is under way. */
struct test_port {
    bool drop_all; /* packets vanish */
    bool full;     /* takes nothing */
    bool small;    /* has room for a few packets only */
    bool forge;    /* packets seem to come from another address */
    int nr_refused;
    int nr_qpns_back;
};
extern struct test_port test_port;

#endif
