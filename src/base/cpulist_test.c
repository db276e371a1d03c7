/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cpulist.h"

#include <errno.h>
#include <string.h>

#include "base/unit.h"

static void lists(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint32_t nr;
        const char *back;
    } cases[] = {
        {"0", 0, 1, "0"},
        {"0-3,8", 0, 5, "0-3,8"},
        {"0,1,2", 0, 3, "0-2"},
        {"4,2", 0, 2, "4,2"}, /* the order says which loop runs where */
        {"0-1", 0, 2, "0,1"},
        {"0-1023", 0, 1024, "0-1023"},
        {"7-7", 0, 1, "7"},
        {"1024", -ERANGE, 0, NULL},
        {"0-99999999999999", -ERANGE, 0, NULL},
        {"3-1", -EINVAL, 0, NULL},
        {"1,1", -EINVAL, 0, NULL},
        {"0-3,2", -EINVAL, 0, NULL},
        {"", -EINVAL, 0, NULL},
        {",", -EINVAL, 0, NULL},
        {"1,", -EINVAL, 0, NULL},
        {"1-", -EINVAL, 0, NULL},
        {"-1", -EINVAL, 0, NULL},
        {"a", -EINVAL, 0, NULL},
        {"1 2", -EINVAL, 0, NULL},
        {"0-3:2", -EINVAL, 0, NULL},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fl_error err = {0};
        struct fl_cpulist list;
        char back[100];
        int rc = fl_cpulist_parse(cases[i].text, &list, &err);

        if (rc != cases[i].rc)
            fail_msg("\"%s\": %d %s", cases[i].text, rc, err.text);
        assert_int_equal(!rc, !err.text[0]);
        if (rc)
            continue;
        assert_int_equal(list.nr, cases[i].nr);
        assert_int_equal(fl_cpulist_format(&list, back, sizeof(back)), strlen(cases[i].back));
        assert_string_equal(back, cases[i].back);
    }
}

static void short_buffer(void **state)
{
    struct fl_cpulist list;
    char buf[4];

    assert_int_equal(fl_cpulist_parse("10,20,30", &list, NULL), 0);
    assert_int_equal(fl_cpulist_format(&list, buf, sizeof(buf)), 8);
    assert_string_equal(buf, "10,");
    assert_int_equal(fl_cpulist_format(&list, NULL, 0), 8);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(lists), cmocka_unit_test(short_buffer));
}
