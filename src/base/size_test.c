/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <errno.h>
#include <string.h>

#include "base/unit.h"

static void sizes(void **state)
{
    static const struct {
        const char *text;
        int rc;
        uint64_t size;
    } cases[] = {
        {"0", 0, 0},
        {"4096", 0, 4096},
        {"4k", 0, 4096},
        {"4K", 0, 4096},
        {"4KiB", 0, 4096},
        {"4kB", 0, 4000},
        {"512B", 0, 512},
        {"64M", 0, UINT64_C(64) << 20},
        {"1GiB", 0, UINT64_C(1) << 30},
        {"1GB", 0, 1000000000},
        {"1.5G", 0, UINT64_C(3) << 29},
        {"0.5k", 0, 512},
        {"2.50T", 0, UINT64_C(5) << 39},
        {"15E", 0, UINT64_C(15) << 60},
        {"18446744073709551615", 0, UINT64_MAX},
        {"18446744073709551616", -ERANGE, 0},
        {"16E", -ERANGE, 0},
        {"99999999999999999999999999999999999999999999", -ERANGE, 0},
        {"17179869184G", -ERANGE, 0},
        {"1.1", -EINVAL, 0},
        {"0.0001k", -EINVAL, 0},
        {"1.k", -EINVAL, 0},
        {"1.00000000000000000000000k", -EINVAL, 0},
        {"", -EINVAL, 0},
        {"k", -EINVAL, 0},
        {"-1", -EINVAL, 0},
        {"+1", -EINVAL, 0},
        {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},
        {"1 k", -EINVAL, 0},
        {"1x", -EINVAL, 0},
        {"1kk", -EINVAL, 0},
        {"1Ki", -EINVAL, 0},
        {"0x10", -EINVAL, 0},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fl_error err = {0};
        uint64_t size = 0;
        int rc = fl_size_parse(cases[i].text, &size, &err);

        if (rc != cases[i].rc || (!rc && size != cases[i].size))
            fail_msg("\"%s\": %d, %llu", cases[i].text, rc, (unsigned long long)size);
        assert_int_equal(err.code, rc);
        assert_int_equal(!rc, !err.text[0]);
    }
}

static void exact_texts_parse_back(void **state)
{
    static const uint64_t values[] = {
        0, 1, 512, 1000, 1024, 1536, UINT64_C(1536) << 20, UINT64_C(1) << 40, UINT64_MAX};
    char buf[FL_SIZE_TEXT_LEN];

    for (size_t i = 0; i < FL_ARRAY_LEN(values); i++) {
        uint64_t back = 0;

        assert_int_equal(fl_size_parse(fl_size_format_exact(values[i], buf), &back, NULL), 0);
        assert_true(back == values[i]);
    }
    assert_string_equal(fl_size_format_exact(UINT64_C(1536) << 20, buf), "1536M");
}

static void numbers(void **state)
{
    struct fl_error err = {0};
    uint64_t v = 0;

    assert_int_equal(fl_number_parse("4420", 1, 65535, "port", &v, &err), 0);
    assert_int_equal(v, 4420);
    assert_int_equal(fl_number_parse("18446744073709551615", 0, UINT64_MAX, "x", &v, &err), 0);
    assert_true(v == UINT64_MAX);
    assert_int_equal(fl_number_parse("18446744073709551616", 0, UINT64_MAX, "x", &v, NULL), -ERANGE);
    assert_int_equal(fl_number_parse("65536", 1, 65535, "port", &v, &err), -ERANGE);
    assert_non_null(strstr(err.text, "port 65536"));
    assert_int_equal(fl_number_parse("0", 1, 65535, "port", &v, NULL), -ERANGE);
    assert_int_equal(fl_number_parse("", 0, 1, "port", &v, NULL), -EINVAL);
    assert_int_equal(fl_number_parse("1a", 0, 1, "port", &v, NULL), -EINVAL);
    assert_int_equal(fl_number_parse("-1", 0, 1, "port", &v, NULL), -EINVAL);
}

static void texts_for_people(void **state)
{
    char buf[FL_SIZE_TEXT_LEN];

    assert_string_equal(fl_size_format(0, buf), "0 B");
    assert_string_equal(fl_size_format(1023, buf), "1023 B");
    assert_string_equal(fl_size_format(1024, buf), "1.00 KiB");
    assert_string_equal(fl_size_format(UINT64_C(3) << 29, buf), "1.50 GiB");
    assert_string_equal(fl_size_format(UINT64_C(100) << 30, buf), "100 GiB");
    assert_string_equal(fl_size_format((UINT64_C(1) << 30) - 1, buf), "1.00 GiB");
    assert_string_equal(fl_size_format(UINT64_MAX, buf), "16.0 EiB");
    assert_string_equal(fl_rate_format(1.234e9, buf), "1.23 GB/s");
    assert_string_equal(fl_rate_format(999999, buf), "1.00 MB/s");
    assert_string_equal(fl_count_format(612345, buf), "612 k");
    assert_string_equal(fl_count_format(7, buf), "7");
    assert_string_equal(fl_duration_format(7200, buf), "7.20 us");
    assert_string_equal(fl_duration_format(999, buf), "999 ns");
    assert_string_equal(fl_duration_format(UINT64_C(3600000000000), buf), "3600 s");
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(sizes), cmocka_unit_test(exact_texts_parse_back),
                       cmocka_unit_test(numbers), cmocka_unit_test(texts_for_people));
}
