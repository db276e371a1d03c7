/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"

static const char whole[] = "cores: 0-1\n"
                            "poll: adaptive\n"
                            "max_queues: 8\n"
                            "mdts: 512K\n"
                            "control: none\n"
                            "listeners:\n"
                            "  - address: tcp://[::1]:4420\n"
                            "    ddgst: no\n"
                            "subsystems:\n"
                            "  - nqn: nqn.2026-01.org.example:a\n"
                            "    serial: S1\n"
                            "    hosts:\n"
                            "      - nqn.2026-01.org.example:host1\n"
                            "      - nqn.2026-01.org.example:host2\n"
                            "    namespaces:\n"
                            "      - spec: ram:1G,bs=4096\n"
                            "      - {nsid: 7, spec: \"null:2G\", ana_group: 2}\n";

static void loads_everything(void **state)
{
    struct config_marks marks = {0};
    struct fl_error err = {0};
    struct config *c = NULL;

    assert_int_equal(config_load_text("f", whole, sizeof(whole) - 1, &c, &marks, &err), 0);
    assert_string_equal(c->cores, "0-1");
    assert_int_equal(*c->max_queues, 8);
    assert_null(c->max_depth);
    assert_int_equal(c->nr_listeners, 1);
    assert_false(*c->listeners[0].ddgst);
    assert_null(c->listeners[0].hdgst);
    assert_int_equal(c->subsystems[0].nr_hosts, 2);
    assert_string_equal(c->subsystems[0].hosts[1], "nqn.2026-01.org.example:host2");
    assert_int_equal(c->subsystems[0].nr_namespaces, 2);
    assert_null(c->subsystems[0].namespaces[0].nsid);
    assert_int_equal(*c->subsystems[0].namespaces[1].nsid, 7);

    fl_error_set(&err, -EINVAL, "why");
    config_error_at(&marks, -EINVAL, &err, "subsystems[0].namespaces[1].spec");
    assert_string_equal(err.text, "f:17:25: why");
    fl_error_clear(&err);
    fl_error_set(&err, -EINVAL, "why");
    config_error_at(&marks, -EINVAL, &err, "subsystems[0].model"); /* not there: the subsystem's place */
    assert_string_equal(err.text, "f:10:5: why");
    config_marks_free(&marks);
    config_free(c);
}

static void saves_what_loads_again(void **state)
{
    char *first = NULL, *second = NULL;
    size_t first_len, second_len;
    struct config_marks marks = {0}, again = {0};
    struct config *c = NULL, *d = NULL;
    struct fl_error err = {0};

    assert_int_equal(config_load_text("f", whole, sizeof(whole) - 1, &c, &marks, &err), 0);
    assert_int_equal(config_save_text(c, &first, &first_len, &err), 0);
    assert_int_equal(config_load_text("g", first, first_len, &d, &again, &err), 0);
    assert_int_equal(config_save_text(d, &second, &second_len, &err), 0);
    assert_int_equal(first_len, second_len);
    assert_memory_equal(first, second, first_len);
    assert_string_equal(d->subsystems[0].namespaces[1].spec, "null:2G");
    assert_false(*d->listeners[0].ddgst);
    assert_null(d->listeners[0].strict);
    free(first);
    free(second);
    config_marks_free(&marks);
    config_marks_free(&again);
    config_free(c);
    config_free(d);
}

/* Each with the place and a part of the message. */
static const struct {
    const char *text, *wanted;
} faults[] = {
    {"polll: busy\n", "f:1:1: unknown key 'polll': did you mean 'poll'?"},
    {"poll: busy\nzebra: 1\n", "f:2:1: unknown key 'zebra'; allowed here: cores, poll, max_queues"},
    {"subsystems:\n  - nqn: a\n    namespaces:\n      - size: 3\n", "f:4:9: unknown key 'size'"},
    {"subsystems:\n  - serial: a\n", "f:2:5: subsystems[0] has no 'nqn', which it needs"},
    {"max_queues: many\n", "f:1:13: "},
    {"max_queues: -1\n", "f:1:13: "},
    {"max_queues: 4294967296\n", "f:1:13: "},
    {"max_queues: 010\n", "f:1:13: max_queues starts with 0"},
    {"listeners:\n  - address: tcp://1.2.3.4\n    hdgst: 12\n",
     "f:3:12: listeners[0].hdgst is true or false, not '12'"},
    {"listeners: tcp://1.2.3.4\n", "f:1:12: listeners needs a list"},
    {"listeners:\n  - tcp://1.2.3.4\n", "f:2:5: listeners[0] needs a block of keys"},
    {"cores: [1, 2]\n", "f:1:8: cores needs a text"},
    {"cores: 1\ncores: 2\n", "f:2:1: 'cores' stands here twice"},
    {"poll: *x\n", "f:1:7: aliases (*x) are not used"},
    {"- a\n", "f:1:1: the file needs a block of keys"},
    {"cores: 1\n---\ncores: 2\n", "f:2:1: a second document starts here"},
    {"listeners: [\n", "f:2:1: not valid YAML"},
    {"\tcores: 1\n", "f:1:1: not valid YAML"},
    {"cores: \"\\0\"\n", "f:1:8: cores has a zero byte in it"},
    {"cores: ''\n", "f:1:8: cores has 0 characters; allowed are 1 to 1000"},
    {"subsystems:\n  - nqn: a\n    namespaces:\n      - spec: ram:1G\n        uuid: abc\n", "f:5:15: "},
    {"? [a]\n: b\n", "f:1:3: a key is a plain word"},
};

static void says_where_and_what(void **state)
{
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(faults); i++) {
        struct config_marks marks = {0};
        struct fl_error err = {0};
        struct config *c = NULL;
        int rc = config_load_text("f", faults[i].text, strlen(faults[i].text), &c, &marks, &err);

        if (rc != -EINVAL || strncmp(err.text, faults[i].wanted, strlen(faults[i].wanted)))
            fail_msg("%s\nwanted: %s\ngot %d: %s", faults[i].text, faults[i].wanted, rc, err.text);
        assert_null(c);
        config_marks_free(&marks);
    }
}

static void takes_nothing_for_defaults(void **state)
{
    static const char *const texts[] = {"", "# only a remark\n", "{}\n", "subsystems: []\n"};
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(texts); i++) {
        struct config_marks marks = {0};
        struct fl_error err = {0};
        struct config *c = NULL;

        if (config_load_text("f", texts[i], strlen(texts[i]), &c, &marks, &err) < 0)
            fail_msg("'%s': %s", texts[i], err.text);
        assert_non_null(c);
        assert_int_equal(c->nr_subsystems, 0);
        config_marks_free(&marks);
        config_free(c);
    }
}

static void reports_files_it_cannot_read(void **state)
{
    struct config_marks marks = {0};
    struct fl_error err = {0};
    struct config *c = NULL;

    assert_int_equal(config_load("/nonexistent/x.yaml", &c, &marks, &err), -ENOENT);
    assert_non_null(strstr(err.text, "/nonexistent/x.yaml"));
    fl_error_clear(&err);
    assert_int_equal(config_load("/dev/zero", &c, &marks, &err), -EFBIG);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(loads_everything), cmocka_unit_test(saves_what_loads_again),
                       cmocka_unit_test(says_where_and_what), cmocka_unit_test(takes_nothing_for_defaults),
                       cmocka_unit_test(reports_files_it_cannot_read));
}
