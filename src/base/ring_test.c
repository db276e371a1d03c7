/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ring.h"

#include "base/unit.h"

static int things[1000];

static void fills_and_wraps(void **state)
{
    struct fl_ring ring;
    int in = 0, out = 0;

    assert_int_equal(fl_ring_init(&ring, 5), 0); /* room for 8 */
    assert_null(fl_ring_pop(&ring));
    assert_null(fl_ring_peek(&ring));
    for (int round = 0; round < 100; round++) {
        while (in < 1000 && fl_ring_push(&ring, &things[in]))
            in++;
        if (in < 1000) {
            assert_true(fl_ring_full(&ring));
            assert_int_equal(fl_ring_count(&ring), 8);
        }
        for (int i = 0; i < round % 9 && !fl_ring_empty(&ring); i++) {
            assert_ptr_equal(fl_ring_peek(&ring), &things[out]);
            assert_ptr_equal(fl_ring_pop(&ring), &things[out]);
            out++;
        }
    }
    assert_true(out > 300);
    fl_ring_fini(&ring);
}

static void counters_run_over(void **state)
{
    struct fl_ring ring;

    assert_int_equal(fl_ring_init(&ring, 4), 0);
    ring.head = ring.tail = UINT32_MAX - 1;
    for (int i = 0; i < 4; i++)
        assert_true(fl_ring_push(&ring, &things[i]));
    assert_false(fl_ring_push(&ring, &things[4]));
    for (int i = 0; i < 4; i++)
        assert_ptr_equal(fl_ring_pop(&ring), &things[i]);
    assert_true(fl_ring_empty(&ring));
    fl_ring_fini(&ring);
}

static void impossible_sizes(void **state)
{
    struct fl_ring ring;

    assert_int_equal(fl_ring_init(&ring, 0), -EINVAL);
    assert_int_equal(fl_ring_init(&ring, (UINT32_C(1) << 31) + 1), -EINVAL);
    assert_int_equal(fl_ring_init(&ring, 1), 0);
    assert_true(fl_ring_push(&ring, &things[0]));
    assert_true(fl_ring_full(&ring));
    fl_ring_fini(&ring);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(fills_and_wraps), cmocka_unit_test(counters_run_over),
                       cmocka_unit_test(impossible_sizes));
}
