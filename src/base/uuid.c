/* SPDX-License-Identifier: Apache-2.0 */
#include "base/uuid.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void fl_uuid_make(struct fl_uuid *uuid)
{
    /* Up to 256 bytes come whole or, before the pool is seeded at boot, after a wait. */
    while (getrandom(uuid->b, sizeof(uuid->b), 0) != sizeof(uuid->b)) {
        if (errno != EINTR)
            abort();
    }
    uuid->b[6] = (uint8_t)((uuid->b[6] & 0x0f) | 0x40); /* version 4 */
    uuid->b[8] = (uint8_t)((uuid->b[8] & 0x3f) | 0x80); /* variant of RFC 4122 */
}

static bool dash_before(int byte)
{
    return byte == 4 || byte == 6 || byte == 8 || byte == 10;
}

char *fl_uuid_format(const struct fl_uuid *uuid, char buf[FL_UUID_TEXT_LEN])
{
    static const char hex[] = "0123456789abcdef";
    char *out = buf;

    for (int i = 0; i < 16; i++) {
        if (dash_before(i))
            *out++ = '-';
        *out++ = hex[uuid->b[i] >> 4];
        *out++ = hex[uuid->b[i] & 15];
    }
    *out = '\0';
    return buf;
}

static int hex_value(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

int fl_uuid_parse(const char *text, struct fl_uuid *uuid, struct fl_error *err)
{
    const char *s = text;
    struct fl_uuid parsed;

    for (int i = 0; i < 16; i++) {
        int high, low;

        if (dash_before(i) && *s++ != '-')
            goto malformed;
        high = hex_value(*s);
        if (high < 0)
            goto malformed;
        low = hex_value(s[1]);
        if (low < 0)
            goto malformed;
        parsed.b[i] = (uint8_t)(high << 4 | low);
        s += 2;
    }
    if (*s)
        goto malformed;
    *uuid = parsed;
    return 0;
malformed:
    return fl_error_set(err, -EINVAL,
                        "\"%.60s\" is not a UUID: 32 hexadecimal digits, in groups of 8-4-4-4-12", text);
}

bool fl_uuid_is_zero(const struct fl_uuid *uuid)
{
    static const struct fl_uuid zero;

    return !memcmp(uuid, &zero, sizeof(zero));
}
