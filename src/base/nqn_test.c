/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nqn.h"

#include <errno.h>
#include <string.h>

#include "base/unit.h"
#include "base/utf8.h"

/* What hosts send and administrators write, well and badly. */
static void a1_host_nqns(void **state)
{
    static const struct {
        const char *nqn;
        bool valid;
    } cases[] = {
        {"nqn.2014-08.org.nvmexpress.discovery", true},
        {"nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6", true},
        {"nqn.2014-08.org.nvmexpress:uuid:F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6", true},
        {"nqn.2008-04.org.example.host1", true}, /* no colon */
        {"nqn.2016-06.io.spdk:cnode1", true},
        {"nqn.1988-11.com.dell:powerstore:00:a1b2c3", true},
        {"nqn.2019-08.org.qemu:nvme-1", true},
        {"nqn.2024-01.org.example:d\xc3\xa9p\xc3\xb4t", true},
        {"nqn.2024-01.org.example:a b", true},
        {"nqn.2024-01.org.example:", true},
        {"nqn.2024-12.x:y", true},
        {"nqn.2024-01.3com.1", true},
        {"", false},
        {"nqn", false},
        {"nqn.", false},
        {"2014-08.org.example:disk", false},
        {"NQN.2014-08.org.example:disk", false},
        {"nqn.2014-08", false},
        {"nqn.2014-08.", false},
        {"nqn.2014-00.org.example", false},
        {"nqn.2014-13.org.example", false},
        {"nqn.14-08.org.example", false},
        {"nqn.2014-8.org.example", false},
        {"nqn.201a-08.org.example", false},
        {"nqn.2014-08.:disk", false},
        {"nqn.2014-08.org..example", false},
        {"nqn.2014-08.org.example.", false},
        {"nqn.2014-08.org example", false},
        {"nqn.2014-08.org.example/disk", false},
        {"nqn.2014-08.org.\xc3\xa9xample", false},
        {"nqn.2014-08.org.example:\xff", false},
        {"nqn.2014-08.org.example:\xc3", false},
        {"nqn.2014-08.org.example:a\nb", false},
        {"nqn.2014-08.org.nvmexpress:uuid:f81d4fae7dec11d0a76500a0c91e6bf6", false},
        {"nqn.2014-08.org.nvmexpress:uuid:", false},
        {"nqn.2014-08.org.nvmexpress:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6x", false},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fl_error err = {0};
        int rc = fl_nqn_check(cases[i].nqn, FL_NQN_FIELD_LEN, &err);

        if (rc != (cases[i].valid ? 0 : -EINVAL))
            fail_msg("\"%s\": %d %s", cases[i].nqn, rc, err.text);
        assert_int_equal(!rc, !err.text[0]);
    }
}

static void a1_length_and_terminator(void **state)
{
    char field[FL_NQN_FIELD_LEN];
    struct fl_error err = {0};

    memset(field, 'x', sizeof(field));
    memcpy(field, "nqn.2024-01.org.example:", 24);
    assert_int_equal(fl_nqn_check(field, sizeof(field), &err), -EINVAL); /* 256 bytes without a terminator */
    assert_non_null(strstr(err.text, "too long"));
    field[224] = '\0';
    assert_int_equal(fl_nqn_check(field, sizeof(field), NULL), -EINVAL);
    field[223] = '\0';
    assert_int_equal(fl_nqn_check(field, sizeof(field), NULL), 0);
    assert_int_equal(fl_nqn_check(field, 100, NULL), -EINVAL); /* the field ends before the terminator */
    assert_int_equal(fl_nqn_check(field, 0, NULL), -EINVAL);
}

static void uuid_form(void **state)
{
    struct fl_uuid uuid, back;
    char nqn[FL_NQN_LEN];

    fl_uuid_make(&uuid);
    assert_int_equal(fl_nqn_check(fl_nqn_from_uuid(&uuid, nqn), sizeof(nqn), NULL), 0);
    assert_true(fl_nqn_uuid(nqn, &back));
    assert_memory_equal(&uuid, &back, sizeof(uuid));
    assert_false(fl_nqn_uuid("nqn.2024-01.org.example:x", &back));
    assert_true(fl_nqn_is_discovery(FL_NQN_DISCOVERY));
    assert_false(fl_nqn_is_discovery("nqn.2014-08.org.nvmexpress.discovery2"));
}

static void utf8(void **state)
{
    static const struct {
        const char *s;
        size_t valid;
    } cases[] = {
        {"abc", 3},
        {"\xc3\xa9", 2},
        {"\xe2\x82\xac", 3},
        {"\xf0\x9f\x98\x80", 4},
        {"\xf4\x8f\xbf\xbf", 4},
        {"a\x80", 1},    /* no first byte */
        {"\xc0\x80", 0}, /* overlong */
        {"\xc1\xbf", 0},
        {"\xe0\x9f\xbf", 0},
        {"\xf0\x8f\xbf\xbf", 0},
        {"\xed\xa0\x80", 0},     /* surrogate */
        {"\xf4\x90\x80\x80", 0}, /* above U+10FFFF */
        {"\xf5\x80\x80\x80", 0},
        {"ab\xe2\x82", 2}, /* cut off */
        {"\xe2\x28\xa1", 0},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++)
        assert_int_equal(fl_utf8_valid_len(cases[i].s, strlen(cases[i].s)), cases[i].valid);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(a1_host_nqns), cmocka_unit_test(a1_length_and_terminator),
                       cmocka_unit_test(uuid_form), cmocka_unit_test(utf8));
}
