/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"

#include <errno.h>
#include <stdio.h>

#include "verbs/rdmacm.h"

/* All members but the name are functions. */
static void is_whole(const struct fl_rdmacm *rdmacm)
{
    const char *const *member = &rdmacm->name;
    for (size_t i = 0; i < sizeof(*rdmacm) / sizeof(*member); i++)
        assert_non_null(member[i]);
}

static void both_tables_are_whole(void **state)
{
    const struct fl_rdmacm *hardware;
    struct fl_error err = {0};
    is_whole(&fl_rdmacm_soft);
    assert_string_equal(fl_rdmacm_soft.event_str(RDMA_CM_EVENT_ESTABLISHED), "RDMA_CM_EVENT_ESTABLISHED");
    int r = fl_rdmacm_hardware(&hardware, &err);
    if (r == -ENOENT) {
        assert_non_null(err.text[0] ? err.text : NULL);
        skip();
    }
    assert_int_equal(r, 0);
    is_whole(hardware);
    /* A function of librdmacm's that needs no device */
    assert_string_equal(hardware->event_str(RDMA_CM_EVENT_REJECTED),
                        fl_rdmacm_soft.event_str(RDMA_CM_EVENT_REJECTED));
    assert_ptr_not_equal(hardware->event_str, fl_rdmacm_soft.event_str);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(both_tables_are_whole)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
