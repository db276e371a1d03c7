/* SPDX-License-Identifier: Apache-2.0 */
#include <farlane/error.h>

#include <errno.h>
#include <string.h>

#include "base/unit.h"

static void first_cause_wins(void **state)
{
    struct fl_error err = {0};

    assert_int_equal(fl_error_set(&err, -EINVAL, "size %d is odd", 3), -EINVAL);
    assert_int_equal(fl_error_set(&err, -EIO, "later"), -EIO);
    assert_int_equal(err.code, -EINVAL);
    assert_string_equal(err.text, "size 3 is odd");
    fl_error_clear(&err);
    assert_int_equal(err.code, 0);
    assert_string_equal(err.text, "");
    fl_error_set(&err, -EIO, "now");
    assert_string_equal(err.text, "now");
}

static void null_is_allowed(void **state)
{
    assert_int_equal(fl_error_set(NULL, -EINVAL, "x"), -EINVAL);
    assert_int_equal(fl_error_wrap(NULL, -EINVAL, "x"), -EINVAL);
    fl_error_clear(NULL);
}

static void wrap_puts_context_before(void **state)
{
    struct fl_error err = {0};

    fl_error_set(&err, -ENOENT, "no such file");
    assert_int_equal(fl_error_wrap(&err, -ENOENT, "open %s", "a.img"), -ENOENT);
    assert_string_equal(err.text, "open a.img: no such file");
    fl_error_wrap(&err, -ENOENT, "namespace %d", 1);
    assert_string_equal(err.text, "namespace 1: open a.img: no such file");
}

static void wrap_names_the_code_when_nothing_is_set(void **state)
{
    struct fl_error err = {0};

    fl_error_wrap(&err, -ENOENT, "open a.img");
    assert_int_equal(err.code, -ENOENT);
    assert_string_equal(err.text, "open a.img: No such file or directory");
}

static void long_text_is_cut_and_terminated(void **state)
{
    struct fl_error err = {0};
    char big[1000];

    memset(big, 'x', sizeof(big) - 1);
    big[sizeof(big) - 1] = '\0';
    fl_error_set(&err, -EINVAL, "%s", big);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
    fl_error_wrap(&err, -EINVAL, "%s", big);
    assert_int_equal(strlen(err.text), sizeof(err.text) - 1);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(first_cause_wins), cmocka_unit_test(null_is_allowed),
                       cmocka_unit_test(wrap_puts_context_before),
                       cmocka_unit_test(wrap_names_the_code_when_nothing_is_set),
                       cmocka_unit_test(long_text_is_cut_and_terminated));
}
