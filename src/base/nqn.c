/* SPDX-License-Identifier: Apache-2.0 */
#include "base/nqn.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "base/util.h"

#define UUID_PREFIX "nqn.2014-08.org.nvmexpress:uuid:"

/* "YYYY-MM." */
static bool date_ok(const char *s, size_t len)
{
    static const char form[] = "dddd-dd.";
    int month;

    if (len < sizeof(form) - 1)
        return false;
    for (size_t i = 0; i < sizeof(form) - 1; i++) {
        if (form[i] == 'd' ? !isdigit((unsigned char)s[i]) : s[i] != form[i])
            return false;
    }
    month = (s[5] - '0') * 10 + s[6] - '0';
    return month >= 1 && month <= 12;
}

/*
 * Labels of letters, digits, dashes (and underscores, which are in use) between dots. The last label needs no
 * letter: the name of a single host may follow the domain without a colon.
 */
static bool domain_ok(const char *s, size_t len)
{
    bool label = false;

    for (size_t i = 0; i < len; i++) {
        if (s[i] == '.') {
            if (!label)
                return false;
            label = false;
        } else if (isalnum((unsigned char)s[i]) || s[i] == '-' || s[i] == '_') {
            label = true;
        } else {
            return false;
        }
    }
    return label;
}

static int bad(const char *nqn, size_t len, const char *why, struct fl_error *err)
{
    return fl_error_set(err, -EINVAL, "NQN \"%.*s%s\" %s", (int)FL_MIN(len, (size_t)100), nqn,
                        len > 100 ? "..." : "", why);
}

int fl_nqn_check(const char *nqn, size_t max, struct fl_error *err)
{
    size_t len = strnlen(nqn, max), date_at = sizeof("nqn.") - 1,
           domain_at = date_at + sizeof("YYYY-MM.") - 1;
    const char *colon;
    struct fl_uuid uuid;

    if (len == 0)
        return fl_error_set(err, -EINVAL, "NQN is empty");
    if (len > FL_NQN_MAX)
        return fl_error_set(err, -EINVAL, "NQN \"%.60s...\" is too long: %d bytes are allowed", nqn,
                            FL_NQN_MAX);
    if (len == max)
        return fl_error_set(err, -EINVAL, "NQN is not terminated within its field of %zu bytes", max);
    if (len < date_at || memcmp(nqn, "nqn.", date_at) != 0)
        return bad(nqn, len, "does not start with \"nqn.\"", err);
    if (!date_ok(nqn + date_at, len - date_at))
        return bad(nqn, len,
                   "has no date: \"nqn.\" is followed by year and month, like nqn.2024-01.org.example:disk",
                   err);

    colon = memchr(nqn, ':', len);
    if (!domain_ok(nqn + domain_at, (colon ? (size_t)(colon - nqn) : len) - domain_at))
        return bad(nqn, len, "has no valid reverse domain name after the date, like org.example", err);
    if (!colon)
        return 0;
    if (fl_utf8_valid_len(colon, len - (size_t)(colon - nqn)) != len - (size_t)(colon - nqn))
        return bad(nqn, len, "is not valid UTF-8", err);
    for (const char *c = colon; c < nqn + len; c++) {
        if (iscntrl((unsigned char)*c))
            return bad(nqn, len, "contains a control character", err);
    }
    if (len >= sizeof(UUID_PREFIX) - 1 && !memcmp(nqn, UUID_PREFIX, sizeof(UUID_PREFIX) - 1) &&
        fl_uuid_parse(nqn + sizeof(UUID_PREFIX) - 1, &uuid, NULL) < 0)
        return bad(nqn, len, "is of the UUID form, but its UUID is malformed", err);
    return 0;
}

bool fl_nqn_is_discovery(const char *nqn)
{
    return !strcmp(nqn, FL_NQN_DISCOVERY);
}

char *fl_nqn_from_uuid(const struct fl_uuid *uuid, char buf[FL_NQN_LEN])
{
    char text[FL_UUID_TEXT_LEN];

    snprintf(buf, FL_NQN_LEN, UUID_PREFIX "%s", fl_uuid_format(uuid, text));
    return buf;
}

bool fl_nqn_uuid(const char *nqn, struct fl_uuid *uuid)
{
    return !strncmp(nqn, UUID_PREFIX, sizeof(UUID_PREFIX) - 1) &&
           !fl_uuid_parse(nqn + sizeof(UUID_PREFIX) - 1, uuid, NULL);
}
