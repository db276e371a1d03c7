/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bytes.h"

#include "base/unit.h"

#define CHECK(type, value, ...)                        \
    do {                                               \
        static const uint8_t bytes[] = {__VA_ARGS__};  \
        type x = type##_of(value);                     \
        assert_int_equal(sizeof(x), sizeof(bytes));    \
        assert_memory_equal(&x, bytes, sizeof(bytes)); \
        assert_true(type##_get(x) == (value));         \
    } while (0)

static void literal_bytes(void **state)
{
    CHECK(le16, 0x0102, 0x02, 0x01);
    CHECK(be16, 0x0102, 0x01, 0x02);
    CHECK(le24, 0x010203, 0x03, 0x02, 0x01);
    CHECK(be24, 0x010203, 0x01, 0x02, 0x03);
    CHECK(le32, 0xf1020304, 0x04, 0x03, 0x02, 0xf1);
    CHECK(be32, 0xf1020304, 0xf1, 0x02, 0x03, 0x04);
    CHECK(le64, 0xf102030405060708, 0x08, 0x07, 0x06, 0x05, 0x04, 0x03, 0x02, 0xf1);
    CHECK(be64, 0xf102030405060708, 0xf1, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08);
    CHECK(le24, 0xffffff, 0xff, 0xff, 0xff);
}

static void bits_above_24_are_dropped(void **state)
{
    assert_int_equal(le24_get(le24_of(0xab000001)), 1);
    assert_int_equal(be24_get(be24_of(0xab000001)), 1);
}

static void any_address(void **state)
{
    struct odd {
        uint8_t one;
        le32 x;
        be64 y;
        le16 z;
    } s = {1, le32_of(7), be64_of(8), le16_of(9)};

    assert_int_equal(sizeof(s), 15);
    assert_int_equal(offsetof(struct odd, y), 5);
    assert_int_equal(le32_get(s.x), 7);
    assert_int_equal(be64_get(s.y), 8);
    assert_int_equal(le16_get(s.z), 9);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(literal_bytes), cmocka_unit_test(bits_above_24_are_dropped),
                       cmocka_unit_test(any_address));
}
