/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "term.h"

enum { OPT_SIZE = 256, OPT_FLAG };

static const struct cmd_option options[] = {
    {'c', "config", "FILE", "a file"},
    {'v', "verbose", NULL, "a switch"},
    {OPT_SIZE, "size", "SIZE", "a size"},
    {OPT_FLAG, "flag", NULL, "another switch"},
    CMD_OPTION_END,
};

static const struct cmd cmd = {.name = "test", .summary = "s", .usage = "test", .options = options};

static void start(struct cmd_args *args, char **argv)
{
    int argc = 0;

    while (argv[argc])
        argc++;
    cmd_args_init(args, &cmd, argc, argv);
}

#define ARGS(...) ((char *[]){"test", __VA_ARGS__, NULL})

static void takes_options_in_every_form(void **state)
{
    struct cmd_args a;

    start(&a, ARGS("--config=x", "one", "--size", "4k", "-vcy", "-c", "z", "--flag", "--", "--size"));
    assert_int_equal(cmd_args_next(&a), 'c');
    assert_string_equal(a.arg, "x");
    assert_int_equal(cmd_args_next(&a), CMD_OPERAND);
    assert_string_equal(a.arg, "one");
    assert_int_equal(cmd_args_next(&a), OPT_SIZE);
    assert_string_equal(a.arg, "4k");
    assert_int_equal(cmd_args_next(&a), 'v');
    assert_int_equal(cmd_args_next(&a), 'c');
    assert_string_equal(a.arg, "y");
    assert_int_equal(cmd_args_next(&a), 'c');
    assert_string_equal(a.arg, "z");
    assert_int_equal(cmd_args_next(&a), OPT_FLAG);
    assert_int_equal(cmd_args_next(&a), CMD_OPERAND);
    assert_string_equal(a.arg, "--size");
    assert_int_equal(cmd_args_next(&a), CMD_DONE);
}

static void refuses_what_it_does_not_know(void **state)
{
    struct cmd_args a;

    start(&a, ARGS("--sizes", "1"));
    assert_int_equal(cmd_args_next(&a), CMD_BAD);
    start(&a, ARGS("-x"));
    assert_int_equal(cmd_args_next(&a), CMD_BAD);
    start(&a, ARGS("--size"));
    assert_int_equal(cmd_args_next(&a), CMD_BAD);
    start(&a, ARGS("--flag=1"));
    assert_int_equal(cmd_args_next(&a), CMD_BAD);
}

static void checks_numbers(void **state)
{
    struct cmd_args a;
    uint64_t v;

    start(&a, ARGS("--size", "12"));
    cmd_args_next(&a);
    assert_true(cmd_args_number(&a, 1, 12, &v));
    assert_int_equal(v, 12);
    assert_false(cmd_args_number(&a, 1, 11, &v));
    start(&a, ARGS("--size", "1.5G"));
    cmd_args_next(&a);
    assert_true(cmd_args_size(&a, &v));
    assert_int_equal(v, 3u << 29);
    start(&a, ARGS("--size", "much"));
    cmd_args_next(&a);
    assert_false(cmd_args_size(&a, &v));
}

static void finds_the_nearest(void **state)
{
    static const char *const names[] = {"serve", "discover", "info", "read", "write", "copy", "bench", NULL};

    assert_string_equal(cmd_nearest("sevre", names), "serve");
    assert_string_equal(cmd_nearest("disc", names), "discover");
    assert_string_equal(cmd_nearest("benhc", names), "bench");
    assert_null(cmd_nearest("frobnicate", names));
    assert_null(cmd_nearest("x", names));
    assert_null(cmd_nearest("", names));
}

static void tells_scripts_what_happened(void **state)
{
    assert_int_equal(cmd_exit_status(0), EXIT_OK);
    assert_int_equal(cmd_exit_status(-ECONNREFUSED), EXIT_UNREACHABLE);
    assert_int_equal(cmd_exit_status(-EACCES), EXIT_DENIED);
    assert_int_equal(cmd_exit_status(-ENOENT), EXIT_NOT_FOUND);
    assert_int_equal(cmd_exit_status(-EILSEQ), EXIT_DIFFERENT);
    assert_int_equal(cmd_exit_status(-EIO), EXIT_FAILED);
}

static void aligns_tables(void **state)
{
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    struct table t;

    table_init(&t, "NAME", ">N", "NOTE", NULL);
    table_cell(&t, "a");
    table_cell(&t, "%d", 1000);
    table_cell(&t, "x");
    table_cell(&t, "\xc3\xa4\xc3\xb6\xc3\xbc"); /* three columns wide */
    table_cell(&t, "%d", 7);
    table_cell(&t, "y");
    table_print(&t, f, 1);
    fclose(f);
    assert_string_equal(text, " NAME     N  NOTE\n a     1000  x\n \xc3\xa4\xc3\xb6\xc3\xbc      7  y\n");
    free(text);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(takes_options_in_every_form),
                       cmocka_unit_test(refuses_what_it_does_not_know), cmocka_unit_test(checks_numbers),
                       cmocka_unit_test(finds_the_nearest), cmocka_unit_test(tells_scripts_what_happened),
                       cmocka_unit_test(aligns_tables));
}
