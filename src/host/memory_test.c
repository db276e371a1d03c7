/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"

#include <errno.h>
#include <string.h>

#include <farlane/memory.h>

static char bytes[65536];

static void registers_what_is_given(void **state)
{
    struct fl_error err = {0};
    struct fl_mem_stats stats;

    assert_int_equal(fl_mem_register(NULL, 10, &err), -EINVAL);
    assert_int_equal(fl_mem_register(bytes, 0, &err), -EINVAL);
    assert_int_equal(fl_mem_register(bytes, SIZE_MAX, &err), -EINVAL);
    assert_int_equal(fl_mem_unregister(bytes, 4096, &err), -ENOENT);
    assert_int_equal(fl_mem_register(bytes, 4096, &err), 0);
    assert_int_equal(fl_mem_register(bytes + 8192, 100, NULL), 0);
    for (size_t at = 0; at < 8192 + 100; at += 4095) /* each overlaps one */
        if (at < 4096 || at >= 8192 - 4095)
            assert_int_equal(fl_mem_register(bytes + at, 4096, &err), -EEXIST);
    assert_int_equal(fl_mem_register(bytes + 4096, 4096, &err), 0); /* just between */
    fl_mem_stats(&stats);
    assert_int_equal(stats.nr_registered, 3);
    assert_int_equal(stats.registered_len, 8192 + 100);
    assert_int_equal(stats.nr_device_regions, 0);
    assert_int_equal(fl_mem_unregister(bytes, 4095, &err), -ENOENT);
    assert_int_equal(fl_mem_unregister(bytes + 1, 4096, &err), -ENOENT);
    assert_non_null(strstr(err.text, "registered"));
    assert_int_equal(fl_mem_unregister(bytes, 4096, &err), 0);
    assert_int_equal(fl_mem_unregister(bytes, 4096, &err), -ENOENT);
    assert_int_equal(fl_mem_unregister(bytes + 4096, 4096, &err), 0);
    assert_int_equal(fl_mem_unregister(bytes + 8192, 100, &err), 0);
    fl_mem_forget(bytes, sizeof(bytes)); /* nothing there */
    fl_mem_cache(0);
    fl_mem_stats(&stats);
    assert_int_equal(stats.nr_registered, 0);
    assert_int_equal(stats.registered_len, 0);
    assert_int_equal(stats.nr_cached, 0);
    assert_int_equal(stats.nr_temporary_ever, 0);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(registers_what_is_given));
}
