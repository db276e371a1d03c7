/* SPDX-License-Identifier: Apache-2.0 */
#include "mem/range.h"

#include "base/unit.h"

static uint8_t bytes[4096];

static void finds_what_is_whole(void **state)
{
    struct fl_mem_range range;

    assert_int_equal(fl_mem_range_add(bytes + 100, 200), 0);
    assert_true(fl_mem_range_find(bytes + 100, 200, &range));
    assert_int_equal(range.base, (uintptr_t)(bytes + 100));
    assert_int_equal(range.len, 200);
    assert_true(fl_mem_range_find(bytes + 299, 1, &range));
    assert_false(fl_mem_range_find(bytes + 299, 2, &range));
    assert_false(fl_mem_range_find(bytes + 99, 2, &range));
    assert_false(fl_mem_range_find(bytes + 301, 0, &range));
    assert_false(fl_mem_range_find(bytes + 150, SIZE_MAX, &range));
    fl_mem_range_remove(bytes + 100, 200);
    assert_false(fl_mem_range_find(bytes + 150, 1, &range));
}

static void grows_and_goes(void **state)
{
    struct fl_mem_range small, large;
    uint32_t removed = fl_mem_range_nr_removed();

    assert_int_equal(fl_mem_range_add(bytes, 1000), 0);
    assert_true(fl_mem_range_find(bytes + 500, 10, &small));
    assert_int_equal(fl_mem_range_add(bytes, 2000), 0);
    assert_true(fl_mem_range_find(bytes + 990, 20, &large));
    assert_int_not_equal(small.id, large.id);
    assert_int_equal(fl_mem_range_nr_removed(), removed);
    fl_mem_range_remove(bytes + 1, 4000); /* neither begins there */
    assert_true(fl_mem_range_exists(small.id));
    assert_int_equal(fl_mem_range_nr_removed(), removed);
    fl_mem_range_remove(bytes, 4096);
    assert_false(fl_mem_range_exists(small.id));
    assert_false(fl_mem_range_exists(large.id));
    assert_int_equal(fl_mem_range_nr_removed(), removed + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_what_is_whole),
                                       cmocka_unit_test(grows_and_goes)};

    return cmocka_run_group_tests_name("range", tests, NULL, NULL);
}
