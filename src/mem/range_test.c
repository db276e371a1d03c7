/* SPDX-License-Identifier: Apache-2.0 */
#include "mem/range.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

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

static bool is_resident(void *page)
{
    unsigned char in;

    assert_int_equal(mincore(page, 1, &in), 0);
    return in & 1;
}

/* What hardware holds stays where it is. */
static void pinned_pages_stay(void **state)
{
    const size_t len = 4 * 4096;
    struct fl_mem_range whole, half;
    uint8_t *mem = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(mem, MAP_FAILED);
    memset(mem, 7, len);
    assert_int_equal(fl_mem_range_add(mem, len), 0);
    assert_true(fl_mem_range_find(mem, len, &whole));
    assert_int_equal(fl_mem_range_add(mem, len / 2), 0);
    assert_true(fl_mem_range_exists(whole.id + 1));
    half = (struct fl_mem_range){.id = whole.id + 1};
    assert_false(fl_mem_range_pin(half.id + 1));

    assert_true(fl_mem_range_pin(half.id) && fl_mem_range_pin(half.id));
    assert_int_equal(fl_mem_give_back(mem, 4096), -EBUSY);
    assert_int_equal(fl_mem_give_back(mem + 4096, len - 4096), -EBUSY);
    assert_true(is_resident(mem + 4096));
    assert_int_equal(mem[4096], 7);
    assert_int_equal(fl_mem_give_back(mem + len / 2, len / 2), 0); /* the other half */
    assert_false(is_resident(mem + len / 2));
    fl_mem_range_unpin(half.id);
    assert_int_equal(fl_mem_give_back(mem, len), -EBUSY);
    fl_mem_range_unpin(half.id);
    assert_int_equal(fl_mem_give_back(mem, len), 0);
    assert_false(is_resident(mem));
    assert_int_equal(mem[0], 0);

    fl_mem_range_remove(mem, len);
    fl_mem_range_unpin(half.id); /* gone before: nothing */
    munmap(mem, len);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(finds_what_is_whole),
                                       cmocka_unit_test(grows_and_goes), cmocka_unit_test(pinned_pages_stay)};

    return cmocka_run_group_tests_name("range", tests, NULL, NULL);
}
