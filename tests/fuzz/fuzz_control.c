/* SPDX-License-Identifier: Apache-2.0 */
/* Requests to the control socket: "METHOD PATH?QUERY\nBODY" becomes an operation, or an error that says what
 * and where. */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "control.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = malloc(len + 1), *path, *query, *body;
    struct control_reply reply = {0};
    struct control_op op;
    int rc;

    memcpy(text, data, len);
    text[len] = '\0';
    body = strchr(text, '\n');
    if (body)
        *body++ = '\0';
    path = strchr(text, ' ');
    if (path)
        *path++ = '\0';
    query = path ? strchr(path, '?') : NULL;
    if (query)
        *query++ = '\0';
    rc = control_parse(text, path ? path : "", query, body, body ? len - (size_t)(body - text) : 0, &op,
                       &reply);
    if (rc < 0) {
        const json_t *e = json_object_get(reply.json, "error");

        assert(reply.http >= 400 && json_is_string(json_object_get(e, "message")));
    } else {
        assert(!reply.json);
    }
    control_op_free(&op);
    control_reply_free(&reply);
    free(text);
    return 0;
}
