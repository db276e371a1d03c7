/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/port/patience.h"

#include "base/unit.h"

static void ends(void **state)
{
    struct fl_port_patience patience = {0};
    uint64_t start = FL_NS_PER_S, now = start;
    while (fl_port_is_patient(&patience, now))
        now += 5 * FL_NS_PER_MS;
    assert_int_equal(now - start, FL_PORT_HUB_NS);
}

/* Looks that come late, as this process had no CPU between them, use up little of it. */
static void does_not_count_what_was_not_seen(void **state)
{
    struct fl_port_patience patience = {0};
    uint64_t start = FL_NS_PER_S, now = start, away = 0;
    for (int i = 1; fl_port_is_patient(&patience, now); i++) {
        uint64_t step = i % 10 ? 5 * FL_NS_PER_MS : 3 * FL_NS_PER_S;
        now += step;
        away += step > FL_PORT_STEP_NS ? step - FL_PORT_STEP_NS : 0;
    }
    assert_in_range(now - start - away, FL_PORT_HUB_NS, FL_PORT_HUB_NS + FL_PORT_STEP_NS);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(ends), cmocka_unit_test(does_not_count_what_was_not_seen));
}
