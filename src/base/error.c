/* SPDX-License-Identifier: Apache-2.0 */
#include <farlane/error.h>

#include <assert.h>
#include <stdio.h>
#include <string.h>

int fl_error_setv(struct fl_error *err, int code, const char *fmt, va_list args)
{
    assert(code < 0);
    if (err && !err->code) {
        err->code = code;
        vsnprintf(err->text, sizeof(err->text), fmt, args);
    }
    return code;
}

int fl_error_set(struct fl_error *err, int code, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    fl_error_setv(err, code, fmt, args);
    va_end(args);
    return code;
}

int fl_error_wrap(struct fl_error *err, int code, const char *fmt, ...)
{
    char cause[sizeof(err->text)];
    va_list args;
    size_t n;

    assert(code < 0);
    if (!err)
        return code;
    if (err->code) {
        memcpy(cause, err->text, sizeof(cause));
    } else {
        err->code = code;
        snprintf(cause, sizeof(cause), "%s", strerror(-code));
    }
    va_start(args, fmt);
    vsnprintf(err->text, sizeof(err->text), fmt, args);
    va_end(args);
    n = strlen(err->text);
    snprintf(err->text + n, sizeof(err->text) - n, ": %s", cause);
    return code;
}

void fl_error_clear(struct fl_error *err)
{
    if (err) {
        err->code = 0;
        err->text[0] = '\0';
    }
}
