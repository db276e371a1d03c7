/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uuid.h"

#include <errno.h>
#include <string.h>

#include "base/unit.h"

static void text_and_bytes(void **state)
{
    static const uint8_t bytes[] = {0xf8, 0x1d, 0x4f, 0xae, 0x7d, 0xec, 0x11, 0xd0,
                                    0xa7, 0x65, 0x00, 0xa0, 0xc9, 0x1e, 0x6b, 0xf6};
    char text[FL_UUID_TEXT_LEN];
    struct fl_uuid uuid;

    assert_int_equal(fl_uuid_parse("f81d4fae-7dec-11d0-a765-00a0c91e6bf6", &uuid, NULL), 0);
    assert_memory_equal(uuid.b, bytes, sizeof(bytes));
    assert_string_equal(fl_uuid_format(&uuid, text), "f81d4fae-7dec-11d0-a765-00a0c91e6bf6");
    assert_int_equal(fl_uuid_parse("F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6", &uuid, NULL), 0);
    assert_memory_equal(uuid.b, bytes, sizeof(bytes));
}

static void malformed(void **state)
{
    static const char *const texts[] = {
        "",
        "f",
        "f81d4fae",
        "f81d4fae7dec11d0a76500a0c91e6bf6",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf60",
        "f81d4fae-7dec-11d0-a765-00a0c91e6bf6 ",
        "g81d4fae-7dec-11d0-a765-00a0c91e6bf6",
        "f81d4fae-7dec-11d0-a765_00a0c91e6bf6",
        "f81d4fa-e7dec-11d0-a765-00a0c91e6bf6",
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(texts); i++) {
        struct fl_error err = {0};
        struct fl_uuid uuid;

        assert_int_equal(fl_uuid_parse(texts[i], &uuid, &err), -EINVAL);
        assert_true(err.text[0]);
    }
}

static void made_ones_are_version_4_and_differ(void **state)
{
    char a[FL_UUID_TEXT_LEN], b[FL_UUID_TEXT_LEN];
    struct fl_uuid uuid = {{0}};

    assert_true(fl_uuid_is_zero(&uuid));
    fl_uuid_make(&uuid);
    assert_false(fl_uuid_is_zero(&uuid));
    fl_uuid_format(&uuid, a);
    fl_uuid_make(&uuid);
    fl_uuid_format(&uuid, b);
    assert_string_not_equal(a, b);
    assert_int_equal(a[14], '4');
    assert_non_null(strchr("89ab", a[19]));
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(text_and_bytes), cmocka_unit_test(malformed),
                       cmocka_unit_test(made_ones_are_version_4_and_differ));
}
