/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/range_count.h"

#define LINE 64

/* The same by a plain array */
struct model {
    int count[LINE];
    bool bare[LINE];
};

static void note_bare(void *arg, uintptr_t from, uintptr_t to)
{
    struct model *m = arg;
    for (uintptr_t i = from; i < to; i++) {
        assert_false(m->bare[i]);
        m->bare[i] = true;
    }
}

static void test_against_a_plain_array(void **state)
{
    struct fl_range_count rc = {0};
    struct model m = {0};
    struct {
        uintptr_t from, to;
    } ranges[16] = {{0}};
    srand(7);
    for (int i = 0; i < 20000; i++) {
        int k = rand() % 16;
        if (ranges[k].to) {
            bool want[LINE];
            memset(m.bare, 0, sizeof(m.bare));
            for (int at = 0; at < LINE; at++)
                want[at] = at >= (int)ranges[k].from && at < (int)ranges[k].to && !--m.count[at];
            fl_range_count_del(&rc, ranges[k].from, ranges[k].to, note_bare, &m);
            assert_memory_equal(m.bare, want, sizeof(want));
            ranges[k].to = 0;
        } else {
            ranges[k].from = (uintptr_t)rand() % (LINE - 1);
            ranges[k].to = ranges[k].from + 1 + (uintptr_t)rand() % (LINE - 1 - ranges[k].from);
            for (uintptr_t at = ranges[k].from; at < ranges[k].to; at++)
                m.count[at]++;
            assert_int_equal(fl_range_count_add(&rc, ranges[k].from, ranges[k].to), 0);
        }
        for (uint32_t p = 0; p < rc.nr; p++) {
            assert_int_equal(m.count[rc.points[p].at], rc.points[p].count);
            assert_int_not_equal(rc.points[p].count, p ? rc.points[p - 1].count : 0);
            assert_true(!p || rc.points[p - 1].at < rc.points[p].at);
        }
    }
    for (int k = 0; k < 16; k++)
        if (ranges[k].to)
            fl_range_count_del(&rc, ranges[k].from, ranges[k].to, note_bare, memset(&m, 0, sizeof(m)));
    assert_int_equal(rc.nr, 0);
    fl_range_count_fini(&rc);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_against_a_plain_array)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
