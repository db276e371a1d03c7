/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/unit.h"
#include "base/util.h"
#include "verbs/gid_rank.h"

static struct in6_addr addr(const char *text)
{
    struct in6_addr a = {0};
    char mapped[64];

    snprintf(mapped, sizeof(mapped), "%s%s", strchr(text, ':') ? "" : "::ffff:", text);
    assert_int_equal(inet_pton(AF_INET6, mapped, &a), 1);
    return a;
}

static struct fl_gid_entry entry(int index, enum fl_gid_type type, const char *gid, uint8_t len)
{
    return (struct fl_gid_entry){.index = index, .type = type, .gid = addr(gid), .prefix_len = len};
}

/* The best entry's index, or -1 */
static int best(const struct fl_gid_entry *entries, int nr, const char *peer, enum fl_gid_rank *why)
{
    struct fl_gid_choice choices[16];
    struct fl_gid_wish wish = {0};

    if (peer)
        wish.peer = addr(peer);
    if (!fl_gid_rank(entries, nr, &wish, choices))
        return -1;
    *why = choices[0].rank;
    return choices[0].entry->index;
}

/* The usual table of a RoCE port, as several public reports show it: v1 and v2 by turns */
static void v2_of_an_address_wins(void **state)
{
    const struct fl_gid_entry e[] = {
        entry(0, FL_GID_ROCE_V1, "fe80::1", 64),
        entry(1, FL_GID_ROCE_V2, "fe80::1", 64),
        entry(2, FL_GID_ROCE_V1, "10.1.0.5", 120),
        entry(3, FL_GID_ROCE_V2, "10.1.0.5", 120),
    };
    enum fl_gid_rank why;

    assert_int_equal(best(e, 4, NULL, &why), 3);
    assert_int_equal(why, FL_GID_SAME_KIND);
    assert_int_equal(best(e, 4, "10.1.0.9", &why), 3);
    assert_int_equal(why, FL_GID_ON_LINK);
    assert_int_equal(best(e, 2, "10.1.0.9", &why), 1);
    assert_int_equal(why, FL_GID_LINK_LOCAL);
    assert_int_equal(best(e, 1, "10.1.0.9", &why), 0);
    assert_int_equal(why, FL_GID_V1);
}

static void only_ipv6(void **state)
{
    const struct fl_gid_entry e[] = {
        entry(0, FL_GID_ROCE_V2, "fe80::1", 64),
        entry(5, FL_GID_ROCE_V2, "fd00:1::5", 64),
        entry(7, FL_GID_ROCE_V2, "fd00:2::5", 64),
    };
    enum fl_gid_rank why;

    assert_int_equal(best(e, 3, NULL, &why), 5);
    assert_int_equal(best(e, 3, "fd00:2::9", &why), 7);
    assert_int_equal(best(e, 3, "10.0.0.1", &why), 5);
    assert_int_equal(why, FL_GID_OTHER_KIND);
    assert_int_equal(best(e, 3, "fe80::2", &why), 0); /* the scope is the route's matter */
}

/* Subnets that end within a byte */
static void subnets(void **state)
{
    const struct fl_gid_entry e[] = {
        entry(1, FL_GID_ROCE_V2, "10.0.0.1", 96 + 25),
        entry(2, FL_GID_ROCE_V2, "10.0.0.129", 96 + 25),
    };
    enum fl_gid_rank why;

    assert_int_equal(best(e, 2, "10.0.0.127", &why), 1);
    assert_int_equal(best(e, 2, "10.0.0.130", &why), 2);
    assert_int_equal(best(e, 2, "10.0.1.130", &why), 1);
    assert_int_equal(why, FL_GID_SAME_KIND);
}

static void what_cannot_be_used(void **state)
{
    struct fl_gid_entry e[] = {
        entry(0, FL_GID_UNKNOWN, "10.0.0.1", 120),
        entry(1, FL_GID_ROCE_V2, "::", 0),
        entry(2, FL_GID_ROCE_V2, "10.0.0.1", 120),
        entry(3, FL_GID_ROCE_V2, "127.0.0.1", 104),
    };
    enum fl_gid_rank why;

    e[2].down = true;
    assert_int_equal(best(e, 4, "10.0.0.2", &why), -1);
    assert_int_equal(best(e, 4, "127.0.0.2", &why), 3);
    assert_int_equal(best(e, 0, NULL, &why), -1);
    for (int i = 0; i <= FL_GID_EMPTY; i++)
        assert_true(strlen(fl_gid_rank_why((enum fl_gid_rank)i)) > 4);
}

static void types(void **state)
{
    const struct fl_gid_entry ib = entry(0, FL_GID_IB, "fe80::2:c903:1:2", 0);
    enum fl_gid_rank why;

    assert_int_equal(fl_gid_type_parse("RoCE v2", false), FL_GID_ROCE_V2);
    assert_int_equal(fl_gid_type_parse("IB/RoCE v1", false), FL_GID_ROCE_V1);
    assert_int_equal(fl_gid_type_parse("IB/RoCE v1", true), FL_GID_IB);
    assert_int_equal(fl_gid_type_parse("", false), FL_GID_UNKNOWN);
    assert_int_equal(best(&ib, 1, NULL, &why), 0);
    assert_int_equal(why, FL_GID_NATIVE);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(v2_of_an_address_wins), cmocka_unit_test(only_ipv6),
                       cmocka_unit_test(subnets), cmocka_unit_test(what_cannot_be_used),
                       cmocka_unit_test(types));
}
