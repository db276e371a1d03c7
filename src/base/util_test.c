/* SPDX-License-Identifier: Apache-2.0 */
#include "base/util.h"

#include "base/clock.h"
#include "base/unit.h"

static void ranges_do_not_wrap(void **state)
{
    assert_true(fl_range_fits(0, 0, 0));
    assert_true(fl_range_fits(0, 10, 10));
    assert_true(fl_range_fits(9, 1, 10));
    assert_true(fl_range_fits(10, 0, 10));
    assert_false(fl_range_fits(10, 1, 10));
    assert_false(fl_range_fits(11, 0, 10));
    assert_false(fl_range_fits(0, 11, 10));
    assert_false(fl_range_fits(UINT64_MAX, 1, 10));
    assert_false(fl_range_fits(UINT64_MAX, 2, UINT64_MAX));
    assert_false(fl_range_fits(1, UINT64_MAX, UINT64_MAX));
    assert_true(fl_range_fits(0, UINT64_MAX, UINT64_MAX));
}

static void numbers(void **state)
{
    assert_true(fl_is_pow2(1) && fl_is_pow2(4096) && fl_is_pow2(UINT64_C(1) << 63));
    assert_false(fl_is_pow2(0) || fl_is_pow2(3) || fl_is_pow2(UINT64_MAX));
    assert_int_equal(fl_round_up(0, 64), 0);
    assert_int_equal(fl_round_up(1, 64), 64);
    assert_int_equal(fl_round_up(64, 64), 64);
    assert_int_equal(FL_MIN(1, 2), 1);
    assert_int_equal(FL_MAX(1, 2), 2);
}

static void time_goes_on(void **state)
{
    uint64_t a = fl_now_ns(), b = fl_now_ns();

    assert_true(a > 0 && b >= a && b - a < 10 * FL_NS_PER_S);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(ranges_do_not_wrap), cmocka_unit_test(numbers),
                       cmocka_unit_test(time_goes_on));
}
