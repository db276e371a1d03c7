/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <sys/un.h>

#include "base/unit.h"

#define LONGEST_IP6 "1111:2222:3333:4444:5555:6666:7777:8888" /* 39 characters */

static void addresses(void **state)
{
    static const struct {
        const char *text;
        int rc;
        const char *back, *ip;
    } cases[] = {
        {"1.2.3.4", 0, "1.2.3.4:4420", "1.2.3.4"},
        {"1.2.3.4:80", 0, "1.2.3.4:80", "1.2.3.4"},
        {"0.0.0.0:0", 0, "0.0.0.0:0", "0.0.0.0"},
        {"::1", 0, "[::1]:4420", "::1"},
        {"[::1]", 0, "[::1]:4420", "::1"},
        {"[::1]:65535", 0, "[::1]:65535", "::1"},
        {"::", 0, "[::]:4420", "::"},
        {LONGEST_IP6, 0, "[" LONGEST_IP6 "]:4420", LONGEST_IP6},
        {"[" LONGEST_IP6 "]:12345", 0, "[" LONGEST_IP6 "]:12345", LONGEST_IP6},
        {"fe80::1%lo", 0, "[fe80::1%lo]:4420", "fe80::1%lo"},
        {"[fe80::1%lo]:4421", 0, "[fe80::1%lo]:4421", "fe80::1%lo"},
        {"fe80::1%1", 0, "[fe80::1%lo]:4420", "fe80::1%lo"},
        {"fe80::1%4000000000", 0, "[fe80::1%4000000000]:4420", "fe80::1%4000000000"},
        {"::ffff:10.0.0.1", 0, "[::ffff:10.0.0.1]:4420", "::ffff:10.0.0.1"},
        {"fe80::1%nosuchif", -ENODEV, NULL, NULL},
        {"fe80::1%", -ENODEV, NULL, NULL},
        {"1.2.3.4%lo", -EINVAL, NULL, NULL},
        {"", -EINVAL, NULL, NULL},
        {"[]", -EINVAL, NULL, NULL},
        {":80", -EINVAL, NULL, NULL},
        {"[::1", -EINVAL, NULL, NULL},
        {"[::1]80", -EINVAL, NULL, NULL},
        {"::1]", -EINVAL, NULL, NULL},
        {"1.2.3", -EINVAL, NULL, NULL},
        {"1.2.3.4.5", -EINVAL, NULL, NULL},
        {"1.2.3.4:", -EINVAL, NULL, NULL},
        {"1.2.3.4:x", -EINVAL, NULL, NULL},
        {"1.2.3.4:65536", -ERANGE, NULL, NULL},
        {"localhost", -EINVAL, NULL, NULL}, /* parsing asks no name service */
        {LONGEST_IP6 ":9999", -EINVAL, NULL, NULL},
        {"1111111111111111111111111111111111111111111111111111111:1:1", -EINVAL, NULL, NULL},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        char text[FL_ADDR_TEXT_LEN], ip[FL_ADDR_IP_LEN];
        struct fl_error err = {0};
        struct fl_addr addr, again;
        int rc = fl_addr_parse(cases[i].text, 4420, &addr, &err);

        if (rc != cases[i].rc)
            fail_msg("\"%s\": %d %s", cases[i].text, rc, err.text);
        assert_int_equal(!rc, !err.text[0]);
        if (rc)
            continue;
        assert_string_equal(fl_addr_format(&addr, text), cases[i].back);
        assert_string_equal(fl_addr_format_ip(&addr, ip), cases[i].ip);
        assert_int_equal(fl_addr_parse(text, 1, &again, NULL), 0); /* pasted back */
        assert_true(fl_addr_equal(&addr, &again));
        assert_int_equal(fl_addr_parse_ip(ip, fl_addr_port(&addr), &again, NULL), 0);
        assert_true(fl_addr_equal(&addr, &again));
    }
}

/* Together with the table above: full, scoped and bracketed addresses, and the longest that can be printed.
 */
static void t15_ipv6_at_its_longest(void **state)
{
    assert_true(FL_ADDR_IP_LEN >= sizeof("1111:2222:3333:4444:5555:6666:255.255.255.255%abcdefghijklmno"));
    assert_true(FL_ADDR_TEXT_LEN >=
                sizeof("[1111:2222:3333:4444:5555:6666:255.255.255.255%abcdefghijklmno]:65535"));
    assert_true(FL_HOST_LEN >= FL_ADDR_IP_LEN);
}

static void split_keeps_names(void **state)
{
    struct fl_error err = {0};
    char host[20];
    int port;

    assert_int_equal(fl_addr_split("a.example", host, sizeof(host), &port, NULL), 0);
    assert_string_equal(host, "a.example");
    assert_int_equal(port, -1);
    assert_int_equal(fl_addr_split("a.example:4420", host, sizeof(host), &port, NULL), 0);
    assert_string_equal(host, "a.example");
    assert_int_equal(port, 4420);
    assert_int_equal(fl_addr_split("[fe80::1%eth0]:0", host, sizeof(host), &port, NULL), 0);
    assert_string_equal(host, "fe80::1%eth0");
    assert_int_equal(port, 0);
    assert_int_equal(fl_addr_split("a-name-of-20-letters", host, sizeof(host), &port, &err), -ENAMETOOLONG);
    assert_non_null(strstr(err.text, "too long"));
}

static void properties(void **state)
{
    struct fl_addr a, b;

    assert_int_equal(fl_addr_parse("127.9.9.9:1", 0, &a, NULL), 0);
    assert_true(fl_addr_is_loopback(&a));
    assert_false(fl_addr_is_any(&a));
    assert_int_equal(fl_addr_parse("127.9.9.9:2", 0, &b, NULL), 0);
    assert_true(fl_addr_same_ip(&a, &b));
    assert_false(fl_addr_equal(&a, &b));
    fl_addr_set_port(&b, 1);
    assert_true(fl_addr_equal(&a, &b));
    assert_int_equal(fl_addr_parse("::ffff:127.0.0.1", 0, &b, NULL), 0);
    assert_true(fl_addr_is_loopback(&b));
    assert_false(fl_addr_same_ip(&a, &b));
    assert_int_equal(fl_addr_parse("[::]:7", 0, &b, NULL), 0);
    assert_true(fl_addr_is_any(&b));
    assert_int_equal(fl_addr_port(&b), 7);
    assert_int_equal(fl_addr_parse("fe80::1%1", 0, &a, NULL), 0);
    assert_int_equal(fl_addr_parse("fe80::1%4000000000", 0, &b, NULL), 0);
    assert_false(fl_addr_same_ip(&a, &b));
}

static void from_socket_address(void **state)
{
    struct sockaddr_in in4 = {
        .sin_family = AF_INET, .sin_port = htons(9), .sin_addr.s_addr = htonl(0x01020304)};
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    char text[FL_ADDR_TEXT_LEN];
    struct fl_addr addr;

    assert_int_equal(fl_addr_from(&addr, (struct sockaddr *)&in4, sizeof(in4)), 0);
    assert_string_equal(fl_addr_format(&addr, text), "1.2.3.4:9");
    assert_int_equal(fl_addr_from(&addr, (struct sockaddr *)&in4, 8), -EAFNOSUPPORT);
    assert_int_equal(fl_addr_from(&addr, (struct sockaddr *)&un, sizeof(un)), -EAFNOSUPPORT);
    assert_int_equal(fl_addr_from(&addr, (struct sockaddr *)&un, 0), -EAFNOSUPPORT);
}

static void resolving(void **state)
{
    struct fl_error err = {0};
    struct fl_addr addrs[4];
    struct addrinfo *list;

    assert_int_equal(fl_addr_resolve("[::1]:5", 4420, addrs, 4, &err), 1);
    assert_true(fl_addr_is_loopback(&addrs[0]));
    if (getaddrinfo("localhost", NULL, NULL, &list)) {
        /* A root file system without /etc/hosts, and no name service. */
        assert_true(fl_addr_resolve("localhost:7", 4420, addrs, 4, &err) < 0);
        assert_non_null(strstr(err.text, "localhost"));
        fl_error_clear(&err);
    } else {
        freeaddrinfo(list);
        assert_true(fl_addr_resolve("localhost:7", 4420, addrs, 4, &err) >= 1);
        assert_true(fl_addr_is_loopback(&addrs[0]));
        assert_int_equal(fl_addr_port(&addrs[0]), 7);
        assert_int_equal(fl_addr_resolve("localhost", 4420, addrs, 1, &err), 1);
        assert_int_equal(fl_addr_port(&addrs[0]), 4420);
    }
    assert_int_equal(err.code, 0);
    assert_true(fl_addr_resolve("a:b:c:zz", 1, addrs, 4, &err) < 0);
    assert_int_equal(err.code, -EINVAL);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(addresses), cmocka_unit_test(t15_ipv6_at_its_longest),
                       cmocka_unit_test(split_keeps_names), cmocka_unit_test(properties),
                       cmocka_unit_test(from_socket_address), cmocka_unit_test(resolving));
}
