/* SPDX-License-Identifier: Apache-2.0 */
#include "base/url.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit.h"

#define NQN "nqn.2024-01.org.example:disk"

static struct fl_url url, again;
static char text[FL_URL_TEXT_LEN];

/* Valid ones, and the canonical text of each; NULL: the same. */
static void canonical_texts(void **state)
{
    static const struct {
        const char *in, *out;
    } cases[] = {
        {"nvme+tcp://a.example:4420/" NQN, NULL},
        {"nvme+tcp://a.example/" NQN, "nvme+tcp://a.example:4420/" NQN},
        {"nvme+tcp://1.2.3.4", "nvme+tcp://1.2.3.4:4420"},
        {"nvme+tcp://1.2.3.4/", "nvme+tcp://1.2.3.4:4420"},
        {"nvme+tcp://1.2.3.4:8009?host=" NQN, NULL},
        {"nvme+tcp://[::1]:4420/" NQN "?ns=1&hdgst=1&ddgst=1", NULL},
        {"nvme+tcp://[::1]/" NQN "?ddgst=1&ns=7&hdgst=0", "nvme+tcp://[::1]:4420/" NQN "?ns=7&ddgst=1"},
        {"nvme+tcp://[1111:2222:3333:4444:5555:6666:7777:8888]:4420/" NQN, NULL},
        {"nvme+tcp://[fe80::1%eth0]/" NQN, "nvme+tcp://[fe80::1%25eth0]:4420/" NQN},
        {"nvme+tcp://[fe80::1%25eth0]:4420/" NQN, NULL},
        {"nvme+tcp://h:1/" NQN "?queues=4&depth=128&kato=5000", NULL},
        {"nvme+tcp://h:1/" NQN "%3Fa%26b%25", "nvme+tcp://h:1/" NQN "%3Fa&b%25"},
        {"nvme+tcp://h:1/nqn.2024-01.org.example:d%C3%A9p",
         "nvme+tcp://h:1/nqn.2024-01.org.example:d\xc3\xa9p"},
        {"nvme+tcp://h:1/" NQN "?host=" NQN "%26x", NULL},
        {"nvme+rdma://h:4420/" NQN "?ns=1&dev=soft", NULL},
        {"file:/tmp/disk.img", NULL},
        {"file:disk.img,bs=4k", "file:disk.img,bs=4096"},
        {"file:a%2Cb%25c,bs=512,size=1G,direct=0,ro=1", NULL},
        {"file:/a?b#c&d=e", NULL},
        {"file:///x", NULL},
        {"file:a b", "file:a%20b"},
        {"ram:1.5G", "ram:1536M"},
        {"ram:64M,bs=4096", NULL},
        {"null:1TiB,bs=512,ro=0", "null:1T,bs=512"},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        const char *want = cases[i].out ? cases[i].out : cases[i].in;
        struct fl_error err = {0};

        if (fl_url_parse(cases[i].in, &url, &err))
            fail_msg("%s", err.text);
        assert_int_equal(fl_url_format(&url, text, sizeof(text)), strlen(want));
        assert_string_equal(text, want);
        assert_int_equal(fl_url_parse(text, &again, NULL), 0);
        assert_memory_equal(&url, &again, sizeof(url));
        assert_true(fl_url_has_scheme(cases[i].in));
    }
}

static void fields(void **state)
{
    assert_int_equal(fl_url_parse("nvme+tcp://[fe80::1%25lo]:4421/" NQN
                                  "?ns=3&hdgst=1&queues=2&host=nqn.2008-04.x.y",
                                  &url, NULL),
                     0);
    assert_int_equal(url.kind, FL_URL_NVME_TCP);
    assert_true(fl_url_is_remote(&url));
    assert_string_equal(url.host, "fe80::1%lo");
    assert_string_equal(url.port, "4421");
    assert_string_equal(url.nqn, NQN);
    assert_string_equal(url.hostnqn, "nqn.2008-04.x.y");
    assert_int_equal(url.nsid, 3);
    assert_int_equal(url.nr_queues, 2);
    assert_true(url.hdgst);
    assert_false(url.ddgst);

    assert_int_equal(fl_url_parse("file:/a%2cb,bs=4096,direct=1,ro=1,size=1M", &url, NULL), 0);
    assert_int_equal(url.kind, FL_URL_FILE);
    assert_false(fl_url_is_remote(&url));
    assert_string_equal(url.path, "/a,b");
    assert_int_equal(url.block_len, 4096);
    assert_int_equal(url.direct, FL_URL_ON);
    assert_true(url.read_only);
    assert_int_equal(url.size, 1 << 20);
}

/* What is wrong, and at which character. */
static void errors_say_where(void **state)
{
    static const struct {
        const char *in;
        int at;
        const char *why;
    } cases[] = {
        {"nvme+tcp:///" NQN, 12, "host is missing"},
        {"nvme+tcp://h:0/" NQN, 12, "port 0"},
        {"nvme+tcp://h:70000/" NQN, 12, "out of range"},
        {"nvme+tcp://h:/" NQN, 12, "port is empty"},
        {"nvme+tcp://::1/" NQN, 12, "needs brackets: [::1]"},
        {"nvme+tcp://[::1/" NQN, 12, "bracket is not closed"},
        {"nvme+tcp://[h]/" NQN, 12, "not an IPv6 address"},
        {"nvme+tcp://user@h/" NQN, 12, "not a host name"},
        {"nvme+tcp://h%20h/" NQN, 12, "not a host name"},
        {"nvme+tcp://[::1%]/" NQN, 12, "not an IPv6 address"},
        {"nvme+tcp://[::1%a%b]/" NQN, 12, "not an IPv6 address"}, /* found by the fuzzer */
        {"nvme+tcp://[::1%2525]:1:2/" NQN, 12, "port \"1:2\""},
        {"nvme+tcp://h h/" NQN, 12, "not a host name"},
        {"nvme+tcp://h/disk", 14, "does not start with \"nqn.\""},
        {"nvme+tcp://h/" NQN "#x", 42, "# is not allowed"},
        {"nvme+tcp://h/nqn%2", 17, "two hexadecimal digits"},
        {"nvme+tcp://h/nqn%zz", 17, "two hexadecimal digits"},
        {"nvme+tcp://h/" NQN "%00", 42, "control character"},
        {"nvme+tcp://h/" NQN "?", 43, "option is missing"},
        {"nvme+tcp://h/" NQN "?ns=1&", 48, "option is missing"},
        {"nvme+tcp://h/" NQN "?nsid=1", 43, "\"nsid\" is not an option here; there are ns, "},
        {"nvme+tcp://h/" NQN "?n=1", 43, "not an option"},
        {"nvme+tcp://h/" NQN "?dev=soft", 43, "not an option"},
        {"nvme+tcp://h/" NQN "?bs=512", 43, "not an option"},
        {"nvme+tcp://h/" NQN "?ns", 43, "ns needs a value"},
        {"nvme+tcp://h/" NQN "?ns=", 46, "ns is empty"},
        {"nvme+tcp://h/" NQN "?ns=0", 46, "out of range"},
        {"nvme+tcp://h/" NQN "?ns=4294967295", 46, "out of range"},
        {"nvme+tcp://h/" NQN "?hdgst=yes", 49, "hdgst is 0 or 1"},
        {"nvme+tcp://h/" NQN "?ns=1&ns=2", 48, "given twice"},
        {"nvme+tcp://h/" NQN "?host=x", 48, "does not start with"},
        {"nvme+rdma://h/" NQN "?dev=", 48, "dev is empty"},
        {"file:", 6, "path is missing"},
        {"file:,bs=512", 6, "path is missing"},
        {"file:a,b.img", 8, "a comma in a path is written %2C"},
        {"file:a,bs=1024", 11, "512 or 4096"},
        {"file:a,size=0", 13, "must not be 0"},
        {"file:a,", 8, "option is missing"},
        {"file:a\nb", 7, "control character"},
        {"ram:", 5, "size"},
        {"ram:0", 5, "must not be 0"},
        {"ram:x", 5, "not understood"},
        {"ram:16E", 5, "too large"},
        {"ram:1G,direct=1", 8, "not an option"},
        {"null:1G,bs=", 12, "not understood"},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fl_error err = {0};
        char where[40];

        assert_int_equal(fl_url_parse(cases[i].in, &url, &err), -EINVAL);
        snprintf(where, sizeof(where), "character %d: ", cases[i].at);
        if (!strstr(err.text, where) || !strstr(err.text, cases[i].why))
            fail_msg("\"%s\", expected \"%s%s\", got: %s", cases[i].in, where, cases[i].why, err.text);
    }
}

static void foreign_schemes(void **state)
{
    static const char *const texts[] = {"",        "/tmp/disk.img", "http://h/", "nvme+tcp:h",
                                        "tcp://h", "FILE:x",        "ram"};

    for (size_t i = 0; i < FL_ARRAY_LEN(texts); i++) {
        struct fl_error err = {0};

        assert_false(fl_url_has_scheme(texts[i]));
        assert_int_equal(fl_url_parse(texts[i], &url, &err), -EINVAL);
        assert_non_null(strstr(err.text, "not a URL"));
    }
}

static void limits(void **state)
{
    size_t longest = FL_URL_PATH_LEN - 1;
    char *in = calloc(1, 20000);
    struct fl_error err = {0};

    strcpy(in, "file:");
    memset(in + 5, ' ', longest); /* each is written as three characters */
    assert_int_equal(fl_url_parse(in, &url, NULL), 0);
    assert_true(fl_url_format(&url, text, sizeof(text)) < (int)sizeof(text));
    assert_int_equal(fl_url_parse(text, &again, NULL), 0);
    assert_memory_equal(&url, &again, sizeof(url));
    in[5 + longest] = ' ';
    assert_int_equal(fl_url_parse(in, &url, &err), -EINVAL);
    assert_non_null(strstr(err.text, "too long"));

    memset(in, 0, 20000);
    strcpy(in, "nvme+tcp://h/" NQN);
    memset(in + strlen(in), 'x', FL_NQN_MAX - strlen(NQN));
    assert_int_equal(fl_url_parse(in, &url, NULL), 0);
    in[strlen(in)] = 'x';
    assert_int_equal(fl_url_parse(in, &url, NULL), -EINVAL);

    memset(in, 0, 20000);
    strcpy(in, "nvme+tcp://");
    memset(in + 11, 'h', FL_HOST_LEN - 1);
    assert_int_equal(fl_url_parse(in, &url, NULL), 0);
    in[strlen(in)] = 'h';
    assert_int_equal(fl_url_parse(in, &url, NULL), -EINVAL);
    memset(in + 11, 'h', 10000);
    assert_int_equal(fl_url_parse(in, &url, NULL), -EINVAL);
    free(in);
}

static void short_buffer(void **state)
{
    char buf[8];

    assert_int_equal(fl_url_parse("file:/abcdef", &url, NULL), 0);
    assert_int_equal(fl_url_format(&url, buf, sizeof(buf)), 12);
    assert_string_equal(buf, "file:/a");
    assert_int_equal(fl_url_format(&url, NULL, 0), 12);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(canonical_texts), cmocka_unit_test(fields),
                       cmocka_unit_test(errors_say_where), cmocka_unit_test(foreign_schemes),
                       cmocka_unit_test(limits), cmocka_unit_test(short_buffer));
}
