/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/library.h"

#include <errno.h>
#include <string.h>

#include "base/unit.h"
#include "base/util.h"

struct table {
    size_t (*strlen)(const char *text);
    int (*answer)(void);
    const char *kept; /* is in no list of symbols: stays as it is */
};

static int forty_two(void)
{
    return 42;
}

static struct fl_library of(struct table *table, const char *file, const struct fl_symbol *symbols, size_t nr)
{
    return (struct fl_library){.file = file,
                               .package = "the C library",
                               .version = "2",
                               .symbols = symbols,
                               .nr_symbols = nr,
                               .table = table,
                               .lock = PTHREAD_MUTEX_INITIALIZER};
}

static void functions_come_and_what_lacks_is_replaced(void **state)
{
    static const struct fl_symbol symbols[] = {
        FL_SYMBOL(struct table, strlen, "strlen", NULL),
        FL_SYMBOL(struct table, answer, "fl_no_such_function", forty_two),
    };
    struct table table = {.kept = "kept"};
    struct fl_library library = of(&table, "libc.so.6", symbols, FL_ARRAY_LEN(symbols));
    struct fl_error err = {0};

    assert_int_equal(fl_library_load(&library, &err), 0);
    assert_int_equal(table.strlen("four"), 4);
    assert_int_equal(table.answer(), 42);
    assert_string_equal(table.kept, "kept");
    table.strlen = NULL;
    assert_int_equal(fl_library_load(&library, &err), 0);
    assert_null(table.strlen); /* the second call did nothing */
}

static void a_library_that_is_too_old_says_so(void **state)
{
    static const struct fl_symbol symbols[] = {
        FL_SYMBOL(struct table, strlen, "strlen", NULL),
        FL_SYMBOL(struct table, answer, "fl_no_such_function", NULL),
    };
    struct table table = {0};
    struct fl_library library = of(&table, "libc.so.6", symbols, FL_ARRAY_LEN(symbols));
    struct fl_error err = {0};

    assert_int_equal(fl_library_load(&library, &err), -ENOENT);
    assert_non_null(strstr(err.text, "libc.so.6 has no fl_no_such_function: the C library 2 or newer"));
    fl_error_clear(&err);
    assert_int_equal(fl_library_load(&library, &err), -ENOENT); /* nothing was kept of the first attempt */
}

static void one_that_is_missing_says_whose_it_is(void **state)
{
    struct table table = {0};
    struct fl_library library = of(&table, "libfarlane-nowhere.so.1", NULL, 0);
    struct fl_error err = {0};

    assert_int_equal(fl_library_load(&library, &err), -ENOENT);
    assert_non_null(strstr(err.text, "libfarlane-nowhere.so.1 of the C library, which is not installed"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(functions_come_and_what_lacks_is_replaced),
        cmocka_unit_test(a_library_that_is_too_old_says_so),
        cmocka_unit_test(one_that_is_missing_says_whose_it_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
