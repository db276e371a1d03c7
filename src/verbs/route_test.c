/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of the kernel about routes, made up and real. */
#include "verbs/route.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "base/unit.h"

struct answer {
    size_t len;
    uint8_t bytes[512] __attribute__((aligned(4)));
};

static void begin(struct answer *a, uint8_t family, uint8_t type)
{
    struct nlmsghdr h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct rtmsg)), .nlmsg_type = RTM_NEWROUTE};
    struct rtmsg rt = {.rtm_family = family, .rtm_type = type};

    memset(a, 0, sizeof(*a));
    memcpy(a->bytes, &h, sizeof(h));
    memcpy(a->bytes + NLMSG_HDRLEN, &rt, sizeof(rt));
    a->len = h.nlmsg_len;
}

static void attribute(struct answer *a, uint16_t type, const void *data, size_t len)
{
    struct rtattr attr = {.rta_type = type, .rta_len = (uint16_t)RTA_LENGTH(len)};
    uint32_t total;

    memcpy(a->bytes + a->len, &attr, sizeof(attr));
    memcpy(a->bytes + a->len + RTA_LENGTH(0), data, len);
    a->len += RTA_ALIGN(attr.rta_len);
    total = (uint32_t)a->len;
    memcpy(a->bytes, &total, sizeof(total));
}

static void ip(struct answer *a, uint16_t type, int family, const char *text)
{
    uint8_t bytes[16];

    assert_int_equal(inet_pton(family, text, bytes), 1);
    attribute(a, type, bytes, family == AF_INET ? 4 : 16);
}

static void oif(struct answer *a, uint32_t index)
{
    attribute(a, RTA_OIF, &index, sizeof(index));
}

static const char *text_of(const struct fl_addr *addr)
{
    static char text[FL_ADDR_IP_LEN];

    return addr->len ? fl_addr_format_ip(addr, text) : "none";
}

static int parse(const struct answer *a, struct fl_route *route)
{
    struct fl_error err = {0};
    int r = fl_route_parse(a->bytes, a->len, route, &err);

    assert_int_equal(r, err.code);
    return r;
}

static void on_the_same_network(void **state)
{
    struct fl_route route;
    struct answer a;

    begin(&a, AF_INET, RTN_UNICAST);
    ip(&a, RTA_DST, AF_INET, "10.0.0.2");
    oif(&a, 7);
    ip(&a, RTA_PREFSRC, AF_INET, "10.0.0.1");
    assert_int_equal(parse(&a, &route), 0);
    assert_int_equal(route.kind, FL_ROUTE_DIRECT);
    assert_int_equal(route.ifindex, 7);
    assert_string_equal(text_of(&route.source), "10.0.0.1");
    assert_string_equal(text_of(&route.gateway), "none");
}

static void by_a_router(void **state)
{
    struct fl_route route;
    struct answer a;

    begin(&a, AF_INET6, RTN_UNICAST);
    ip(&a, RTA_PREFSRC, AF_INET6, "2001:db8::1");
    oif(&a, 3);
    ip(&a, RTA_GATEWAY, AF_INET6, "fe80::1");
    assert_int_equal(parse(&a, &route), 0);
    assert_int_equal(route.kind, FL_ROUTE_GATEWAY);
    assert_string_equal(text_of(&route.source), "2001:db8::1");
    assert_string_equal(text_of(&route.gateway), "fe80::1");
}

static void this_host(void **state)
{
    struct fl_route route;
    struct answer a;

    begin(&a, AF_INET, RTN_LOCAL);
    oif(&a, 1);
    ip(&a, RTA_PREFSRC, AF_INET, "10.0.0.1");
    assert_int_equal(parse(&a, &route), 0);
    assert_int_equal(route.kind, FL_ROUTE_LOCAL);
}

static void no_way_there(void **state)
{
    static const struct {
        uint8_t type;
        int code;
    } cases[] = {{RTN_UNREACHABLE, -EHOSTUNREACH},
                 {RTN_PROHIBIT, -EACCES},
                 {RTN_BLACKHOLE, -ENETUNREACH},
                 {RTN_MULTICAST, -EADDRNOTAVAIL},
                 {RTN_BROADCAST, -EADDRNOTAVAIL}};
    struct fl_route route;
    struct answer a;

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        begin(&a, AF_INET, cases[i].type);
        assert_int_equal(parse(&a, &route), cases[i].code);
    }
}

static void the_kernels_refusal(void **state)
{
    struct nlmsghdr h = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct nlmsgerr)), .nlmsg_type = NLMSG_ERROR};
    struct nlmsgerr e = {.error = -ENETUNREACH};
    struct answer a = {.len = h.nlmsg_len};
    struct fl_route route;
    struct fl_error err = {0};

    memcpy(a.bytes, &h, sizeof(h));
    memcpy(a.bytes + NLMSG_HDRLEN, &e, sizeof(e));
    assert_int_equal(fl_route_parse(a.bytes, a.len, &route, &err), -ENETUNREACH);
    assert_string_equal(err.text, "there is no route to it: Network is unreachable");
    e.error = 12345; /* no errno at all */
    memcpy(a.bytes + NLMSG_HDRLEN, &e, sizeof(e));
    assert_int_equal(parse(&a, &route), -EPROTO);
}

static void lengths_that_lie(void **state)
{
    struct rtattr attr = {.rta_type = RTA_OIF, .rta_len = 200};
    struct fl_route route;
    struct answer a;
    uint32_t len;

    for (size_t cut = 0; cut < sizeof(struct nlmsghdr) + sizeof(struct rtmsg); cut++) {
        begin(&a, AF_INET, RTN_UNICAST);
        a.len = cut;
        assert_int_equal(parse(&a, &route), -EPROTO);
    }
    begin(&a, AF_INET, RTN_UNICAST); /* an attribute that goes beyond the message */
    oif(&a, 7);
    memcpy(a.bytes + NLMSG_LENGTH(sizeof(struct rtmsg)), &attr, sizeof(attr));
    assert_int_equal(parse(&a, &route), -EPROTO);
    attr.rta_len = 1; /* one that is shorter than its own head */
    memcpy(a.bytes + NLMSG_LENGTH(sizeof(struct rtmsg)), &attr, sizeof(attr));
    assert_int_equal(parse(&a, &route), -EPROTO);
    begin(&a, AF_INET, RTN_UNICAST); /* an address of the other family */
    ip(&a, RTA_PREFSRC, AF_INET6, "2001:db8::1");
    assert_int_equal(parse(&a, &route), -EPROTO);
    begin(&a, AF_INET, RTN_UNICAST); /* a message that is said to be longer than what came */
    len = 4096;
    memcpy(a.bytes, &len, sizeof(len));
    assert_int_equal(parse(&a, &route), -EPROTO);
}

static void others_before_it(void **state)
{
    struct nlmsghdr h = {.nlmsg_len = NLMSG_LENGTH(8), .nlmsg_type = RTM_NEWADDR};
    struct fl_route route;
    struct answer a, both;

    begin(&a, AF_INET, RTN_LOCAL);
    oif(&a, 1);
    memset(&both, 0, sizeof(both));
    memcpy(both.bytes, &h, sizeof(h));
    memcpy(both.bytes + h.nlmsg_len, a.bytes, a.len);
    both.len = h.nlmsg_len + a.len;
    assert_int_equal(parse(&both, &route), 0);
    assert_int_equal(route.ifindex, 1);
    both.len = h.nlmsg_len; /* and nothing behind it */
    assert_int_equal(parse(&both, &route), -EPROTO);
}

static void the_real_loopback(void **state)
{
    static const char *const ips[] = {"127.0.0.1", "::1"};
    struct fl_route route;
    struct fl_error err = {0};
    struct fl_addr to;

    for (size_t i = 0; i < FL_ARRAY_LEN(ips); i++) {
        assert_int_equal(fl_addr_parse_ip(ips[i], 4420, &to, NULL), 0);
        if (fl_route_find(&to, NULL, &route, &err) < 0) { /* a machine without IPv6 */
            assert_int_equal(i, 1);
            continue;
        }
        assert_int_equal(route.kind, FL_ROUTE_LOCAL);
        assert_string_equal(text_of(&route.source), ips[i]);
        assert_int_equal(fl_addr_port(&route.source), 0);
        assert_string_equal(route.ifname, "lo");
    }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(on_the_same_network), cmocka_unit_test(by_a_router),
                       cmocka_unit_test(this_host), cmocka_unit_test(no_way_there),
                       cmocka_unit_test(the_kernels_refusal), cmocka_unit_test(lengths_that_lie),
                       cmocka_unit_test(others_before_it), cmocka_unit_test(the_real_loopback));
}
