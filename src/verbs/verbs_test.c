/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "verbs/verbs.h"

/* No member of either table is missing. */
static void all_set(const struct fl_verbs *verbs)
{
    void *const *members = (void *const *)verbs;
    for (size_t i = 0; i < sizeof(*verbs) / sizeof(void *); i++)
        assert_non_null(members[i]);
}

static void test_soft(void **state)
{
    all_set(&fl_verbs_soft);
    int nr = 0;
    struct ibv_device **list = fl_verbs_soft.get_device_list(&nr);
    assert_non_null(list);
    assert_true(nr > 0); /* the loopback at least */
    assert_string_equal(fl_verbs_soft.get_device_name(list[0]), "farlane0");
    assert_null(list[nr]);
    fl_verbs_soft.free_device_list(list);
}

static void test_hardware(void **state)
{
    const struct fl_verbs *verbs = NULL;
    struct fl_error err = {0};
    int r = fl_verbs_hardware(&verbs, &err);
    if (r) { /* no rdma-core here: then it says so */
        assert_int_equal(r, -ENOENT);
        assert_true(err.text[0]);
        return;
    }
    all_set(verbs);
    int nr = -1;
    struct ibv_device **list = verbs->get_device_list(&nr);
    if (list)
        verbs->free_device_list(list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_soft),
        cmocka_unit_test(test_hardware),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
