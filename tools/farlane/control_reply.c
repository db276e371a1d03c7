/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "control.h"

static const struct {
    int code;
    unsigned http;
    const char *name;
} statuses[] = {
    {EINVAL, 400, "EINVAL"},
    {EPROTONOSUPPORT, 400, "EPROTONOSUPPORT"},
    {EAFNOSUPPORT, 400, "EAFNOSUPPORT"},
    {ENAMETOOLONG, 400, "ENAMETOOLONG"},
    {EACCES, 403, "EACCES"},
    {EPERM, 403, "EPERM"},
    {ENOENT, 404, "ENOENT"},
    {ENXIO, 404, "ENXIO"}, /* a device of that name */
    {EOPNOTSUPP, 405, "EOPNOTSUPP"},
    {EEXIST, 409, "EEXIST"},
    {EADDRINUSE, 409, "EADDRINUSE"},
    {EBUSY, 409, "EBUSY"},
    {EADDRNOTAVAIL, 409, "EADDRNOTAVAIL"},
    {EFBIG, 413, "EFBIG"},
    {EMSGSIZE, 413, "EMSGSIZE"},
    {ERANGE, 422, "ERANGE"},
    {ENOSPC, 507, "ENOSPC"},
    {ENOMEM, 507, "ENOMEM"},
    {ETIMEDOUT, 504, "ETIMEDOUT"},
    {EROFS, 403, "EROFS"},
    {EISDIR, 400, "EISDIR"},
};

json_t *control_text(const char *text)
{
    json_t *json;
    char *copy, *p;

    if (!text || !text[0])
        return json_null();
    json = json_string(text); /* NULL for what is no UTF-8: names of files, words of a client */
    if (json)
        return json;
    copy = strdup(text);
    for (p = copy; p && *p; p++)
        if ((unsigned char)*p >= 0x80 || (unsigned char)*p < 0x20)
            *p = '?';
    json = json_string(copy);
    free(copy);
    return json;
}

void control_reply_error(struct control_reply *reply, int code, const char *field, const char *message)
{
    const char *name = NULL;
    char unnamed[32];
    size_t i;

    reply->http = 500;
    for (i = 0; i < FL_ARRAY_LEN(statuses); i++) {
        if (statuses[i].code != -code)
            continue;
        reply->http = statuses[i].http;
        name = statuses[i].name;
    }
    if (!name) {
        snprintf(unnamed, sizeof(unnamed), "%s", strerrorname_np(-code) ? strerrorname_np(-code) : "EIO");
        name = unnamed;
    }
    json_decref(reply->json);
    reply->json = json_pack("{s:{s:s, s:o, s:o}}", "error", "code", name, "field", control_text(field),
                            "message", control_text(message && message[0] ? message : strerror(-code)));
}

void control_reply_free(struct control_reply *reply)
{
    json_decref(reply->json);
    free(reply->text);
    reply->json = NULL;
    reply->text = NULL;
}
