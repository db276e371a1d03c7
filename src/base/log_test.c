/* SPDX-License-Identifier: Apache-2.0 */
#include "base/log.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/unit.h"

struct heard {
    int n;
    enum fl_log_level level;
    char text[1100];
};

static void hear(void *arg, enum fl_log_level level, const char *text)
{
    struct heard *h = arg;

    h->n++;
    h->level = level;
    snprintf(h->text, sizeof(h->text), "%s", text);
}

static int evaluated(int *n)
{
    return ++*n;
}

static void level_from_environment(void **state)
{
    struct heard h = {0};

    fl_log_set_sink(hear, &h);
    FL_DEBUG("%d", 7);
    assert_int_equal(h.n, 1); /* main() put debug into the environment */
    assert_int_equal(h.level, FL_LOG_DEBUG);
    assert_string_equal(h.text, "7");
    fl_log_set_sink(NULL, NULL);
}

static void levels_filter(void **state)
{
    struct heard h = {0};
    int n = 0;

    fl_log_set_sink(hear, &h);
    fl_log_set_level(FL_LOG_WARN);
    FL_INFO("%d", evaluated(&n));
    assert_int_equal(h.n, 0);
    assert_int_equal(n, 0);
    FL_ERR("%d", evaluated(&n));
    FL_WARN("%d", evaluated(&n));
    assert_int_equal(h.n, 2);
    assert_int_equal(n, 2);
    fl_log_set_sink(NULL, NULL);
}

static void names_of_levels(void **state)
{
    enum fl_log_level level = FL_LOG_DEBUG;
    struct fl_error err = {0};

    assert_int_equal(fl_log_parse_level("error", &level, &err), 0);
    assert_int_equal(level, FL_LOG_ERR);
    assert_int_equal(fl_log_parse_level("loud", &level, &err), -EINVAL);
    assert_non_null(strstr(err.text, "loud"));
    assert_int_equal(level, FL_LOG_ERR);
}

static void control_characters_do_not_pass(void **state)
{
    struct heard h = {0};

    fl_log_set_sink(hear, &h);
    FL_ERR("host \033[2J\nx\x7f");
    assert_string_equal(h.text, "host ?[2J?x?");
    FL_ERR("host \xff\xc2\x9b"
           "2J gr\xc3\xbcn \xc3");
    assert_string_equal(h.text, "host ???2J gr\xc3\xbcn ?");
    fl_log_set_sink(NULL, NULL);
}

static void once(void **state)
{
    struct heard h = {0};

    fl_log_set_sink(hear, &h);
    for (int i = 0; i < 3; i++)
        FL_LOG_ONCE(FL_LOG_ERR, "x");
    assert_int_equal(h.n, 1);
    fl_log_set_sink(NULL, NULL);
}

static void rate_limit(void **state)
{
    struct fl_log_rate rate = {0};
    uint32_t held = 99;
    uint64_t now = 0;

    assert_true(fl_log_rate_allow(&rate, 2, now, &held));
    assert_int_equal(held, 0);
    assert_true(fl_log_rate_allow(&rate, 2, now, NULL));
    for (int i = 0; i < 5; i++)
        assert_false(fl_log_rate_allow(&rate, 2, now += 1000, NULL));
    now += FL_NS_PER_S;
    assert_true(fl_log_rate_allow(&rate, 2, now, &held));
    assert_int_equal(held, 5);
    assert_true(fl_log_rate_allow(&rate, 2, now, &held));
    assert_int_equal(held, 0);
    assert_false(fl_log_rate_allow(&rate, 2, now, NULL));
}

int main(void)
{
    setenv("FARLANE_LOG", "debug", 1);
    return FL_UNIT_RUN(cmocka_unit_test(level_from_environment), cmocka_unit_test(levels_filter),
                       cmocka_unit_test(names_of_levels), cmocka_unit_test(control_characters_do_not_pass),
                       cmocka_unit_test(once), cmocka_unit_test(rate_limit));
}
