/* SPDX-License-Identifier: Apache-2.0 */
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"

static const char prefixes[] = "kmgtpe";

static int malformed(const char *text, struct fl_error *err)
{
    return fl_error_set(err, -EINVAL,
                        "size \"%.40s\" is not understood: write a number and k, M, G or T, like 4k or 1.5G",
                        text);
}

/* The unit at `s`: "", k, kB, KiB, B and so on. 0: none of these. */
static uint64_t unit_of(const char *s)
{
    uint64_t unit = 1;
    const char *at;
    int power, base;

    if (!*s || !strcmp(s, "B"))
        return 1;
    at = strchr(prefixes, tolower((unsigned char)*s));
    if (!at)
        return 0;
    s++;
    if (!*s || !strcasecmp(s, "ib"))
        base = 1024;
    else if (!strcasecmp(s, "b"))
        base = 1000;
    else
        return 0;
    for (power = (int)(at - prefixes) + 1; power; power--)
        unit *= (uint64_t)base;
    return unit;
}

int fl_size_parse(const char *text, uint64_t *size, struct fl_error *err)
{
    unsigned __int128 value = 0, part = 0;
    uint64_t scale = 1, unit;
    const char *s = text;

    if (!isdigit((unsigned char)*s))
        return malformed(text, err);
    for (; isdigit((unsigned char)*s); s++) {
        value = value * 10 + (unsigned)(*s - '0');
        if (value > UINT64_MAX)
            goto too_large;
    }
    if (*s == '.') {
        if (!isdigit((unsigned char)*++s))
            return malformed(text, err);
        for (; isdigit((unsigned char)*s); s++) {
            if (scale >= UINT64_C(1000000000000000000))
                return malformed(text, err);
            part = part * 10 + (unsigned)(*s - '0');
            scale *= 10;
        }
    }
    unit = unit_of(s);
    if (!unit)
        return malformed(text, err);
    part *= unit;
    if (part % scale)
        return fl_error_set(err, -EINVAL, "size \"%.40s\" is not a whole number of bytes", text);
    value = value * unit + part / scale;
    if (value > UINT64_MAX)
        goto too_large;
    *size = (uint64_t)value;
    return 0;
too_large:
    return fl_error_set(err, -ERANGE, "size \"%.40s\" is too large: it must be below 16 EiB", text);
}

int fl_number_parse(const char *text, uint64_t min, uint64_t max, const char *what, uint64_t *value,
                    struct fl_error *err)
{
    uint64_t v = 0;
    const char *s = text;

    if (!*s)
        return fl_error_set(err, -EINVAL, "%s is empty: give a number from %" PRIu64 " to %" PRIu64, what,
                            min, max);
    for (; isdigit((unsigned char)*s); s++) {
        if (__builtin_mul_overflow(v, UINT64_C(10), &v) ||
            __builtin_add_overflow(v, (uint64_t)(*s - '0'), &v))
            goto out_of_range;
    }
    if (*s)
        return fl_error_set(err, -EINVAL, "%s \"%.40s\" is not a number from %" PRIu64 " to %" PRIu64, what,
                            text, min, max);
    if (v < min || v > max)
        goto out_of_range;
    *value = v;
    return 0;
out_of_range:
    return fl_error_set(err, -ERANGE, "%s %.40s is out of range: it must be from %" PRIu64 " to %" PRIu64,
                        what, text, min, max);
}

/* Three significant digits, as many as a reader compares. */
static int decimals(double v)
{
    return v < 9.995 ? 2 : v < 99.95 ? 1 : 0;
}

static char *format_scaled(double v, double base, const char *const *units, size_t nr_units, char *buf)
{
    size_t i = 0;

    while (i + 1 < nr_units && v >= base - 0.5) {
        v /= base;
        i++;
    }
    snprintf(buf, FL_SIZE_TEXT_LEN, "%.*f%s", i ? decimals(v) : 0, v, units[i]);
    return buf;
}

char *fl_size_format(uint64_t size, char buf[FL_SIZE_TEXT_LEN])
{
    static const char *const units[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};

    return format_scaled((double)size, 1024, units, FL_ARRAY_LEN(units), buf);
}

char *fl_size_format_exact(uint64_t size, char buf[FL_SIZE_TEXT_LEN])
{
    static const char *const units[] = {"", "k", "M", "G", "T", "P", "E"};
    size_t i = 0;

    while (i + 1 < FL_ARRAY_LEN(units) && size && size % 1024 == 0) {
        size /= 1024;
        i++;
    }
    snprintf(buf, FL_SIZE_TEXT_LEN, "%" PRIu64 "%s", size, units[i]);
    return buf;
}

char *fl_rate_format(double bytes_per_s, char buf[FL_SIZE_TEXT_LEN])
{
    static const char *const units[] = {" B/s", " kB/s", " MB/s", " GB/s", " TB/s"};

    return format_scaled(bytes_per_s, 1000, units, FL_ARRAY_LEN(units), buf);
}

char *fl_count_format(double n, char buf[FL_SIZE_TEXT_LEN])
{
    static const char *const units[] = {"", " k", " M", " G", " T"};

    return format_scaled(n, 1000, units, FL_ARRAY_LEN(units), buf);
}

char *fl_duration_format(uint64_t ns, char buf[FL_SIZE_TEXT_LEN])
{
    static const char *const units[] = {" ns", " us", " ms", " s"};

    return format_scaled((double)ns, 1000, units, FL_ARRAY_LEN(units), buf);
}
