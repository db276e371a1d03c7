/* SPDX-License-Identifier: Apache-2.0 */
#include "base/slab.h"

#include <errno.h>
#include <string.h>

#include "base/unit.h"

static void all_out_and_back(void **state)
{
    struct fl_slab slab;
    void *objects[5];

    assert_int_equal(fl_slab_init(&slab, 100, 5), 0);
    for (uint32_t i = 0; i < 5; i++) {
        objects[i] = fl_slab_get(&slab);
        assert_int_equal(fl_slab_index(&slab, objects[i]), i);
        assert_int_equal((uintptr_t)objects[i] % 64, 0);
        memset(objects[i], (int)i, 100);
    }
    assert_null(fl_slab_get(&slab));
    assert_int_equal(fl_slab_nr_used(&slab), 5);
    fl_slab_put(&slab, objects[3]);
    assert_int_equal(fl_slab_nr_used(&slab), 4);
    assert_ptr_equal(fl_slab_get(&slab), objects[3]);
    assert_int_equal(*(uint8_t *)objects[3], 3); /* the content stays */
    for (uint32_t i = 0; i < 5; i++)
        fl_slab_put(&slab, objects[i]);
    assert_int_equal(fl_slab_nr_used(&slab), 0);
    fl_slab_fini(&slab);
}

static void foreign_indices(void **state)
{
    struct fl_slab slab;
    void *object;

    assert_int_equal(fl_slab_init(&slab, 8, 3), 0);
    assert_null(fl_slab_lookup(&slab, 0));
    object = fl_slab_get(&slab);
    assert_ptr_equal(fl_slab_lookup(&slab, fl_slab_index(&slab, object)), object);
    assert_null(fl_slab_lookup(&slab, 1));
    assert_null(fl_slab_lookup(&slab, 3));
    assert_null(fl_slab_lookup(&slab, UINT64_C(1) << 32));
    assert_null(fl_slab_lookup(&slab, UINT64_MAX));
    fl_slab_put(&slab, object);
    assert_null(fl_slab_lookup(&slab, 0));
    fl_slab_fini(&slab);
}

static void impossible_sizes(void **state)
{
    struct fl_slab slab;

    assert_int_equal(fl_slab_init(&slab, 0, 1), -EINVAL);
    assert_int_equal(fl_slab_init(&slab, 1, 0), -EINVAL);
    assert_int_equal(fl_slab_init(&slab, SIZE_MAX, 1), -EINVAL);
    assert_int_equal(fl_slab_init(&slab, SIZE_MAX / 4, 8), -EINVAL);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(all_out_and_back), cmocka_unit_test(foreign_indices),
                       cmocka_unit_test(impossible_sizes));
}
