/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "config_schema.h"
#include "control.h"
#include "json_body.h"

/* ---- bodies ---- */

#define OPTIONAL CYAML_FLAG_OPTIONAL

static const cyaml_schema_field_t namespace_change_fields[] = {
    CYAML_FIELD_STRING_PTR("size", 0, struct control_namespace_change, size, 1, 32),
    CYAML_FIELD_BOOL_PTR("force", OPTIONAL, struct control_namespace_change, force),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t namespace_change_body = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct control_namespace_change, namespace_change_fields),
};

static const cyaml_schema_field_t subsystem_change_fields[] = {
    CYAML_FIELD_BOOL_PTR("allow_any_host", 0, struct control_subsystem_change, allow_any_host),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t subsystem_change_body = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct control_subsystem_change, subsystem_change_fields),
};

static const cyaml_schema_field_t listener_change_fields[] = {
    CYAML_FIELD_UINT_PTR("ana_group", OPTIONAL, struct control_listener_change, ana_group),
    CYAML_FIELD_STRING_PTR("ana_state", 0, struct control_listener_change, ana_state, 1, 32),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t listener_change_body = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct control_listener_change, listener_change_fields),
};

static const cyaml_schema_field_t host_fields[] = {
    CYAML_FIELD_STRING_PTR("nqn", 0, struct control_host, nqn, 1, 223),
    CYAML_FIELD_END,
};
static const cyaml_schema_value_t host_body = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct control_host, host_fields),
};

/* ---- paths ---- */

/* Parts of a pattern: N a subsystem's NQN, H a host's NQN, S a namespace ID, L a listener's ID; others
 * literally. */
static const struct route {
    const char *method, *path;
    enum control_kind kind;
    const cyaml_schema_value_t *body;
} routes[] = {
    {"GET", "metrics", CONTROL_METRICS, NULL},
    {"GET", "v1/status", CONTROL_STATUS, NULL},
    {"GET", "v1/config", CONTROL_CONFIG, NULL},
    {"GET", "v1/subsystems", CONTROL_SUBSYSTEMS, NULL},
    {"POST", "v1/subsystems", CONTROL_SUBSYSTEM_ADD, &config_subsystem_schema},
    {"GET", "v1/subsystems/N", CONTROL_SUBSYSTEM, NULL},
    {"PATCH", "v1/subsystems/N", CONTROL_SUBSYSTEM_CHANGE, &subsystem_change_body},
    {"DELETE", "v1/subsystems/N", CONTROL_SUBSYSTEM_REMOVE, NULL},
    {"GET", "v1/subsystems/N/namespaces", CONTROL_SUBSYSTEM, NULL},
    {"POST", "v1/subsystems/N/namespaces", CONTROL_NAMESPACE_ADD, &config_namespace_schema},
    {"PATCH", "v1/subsystems/N/namespaces/S", CONTROL_NAMESPACE_CHANGE, &namespace_change_body},
    {"DELETE", "v1/subsystems/N/namespaces/S", CONTROL_NAMESPACE_REMOVE, NULL},
    {"GET", "v1/subsystems/N/hosts", CONTROL_SUBSYSTEM, NULL},
    {"POST", "v1/subsystems/N/hosts", CONTROL_HOST_ADD, &host_body},
    {"DELETE", "v1/subsystems/N/hosts/H", CONTROL_HOST_REMOVE, NULL},
    {"GET", "v1/namespaces", CONTROL_NAMESPACES, NULL},
    {"GET", "v1/hosts", CONTROL_HOSTS, NULL},
    {"GET", "v1/listeners", CONTROL_LISTENERS, NULL},
    {"POST", "v1/listeners", CONTROL_LISTENER_ADD, &config_listener_schema},
    {"PATCH", "v1/listeners/L", CONTROL_LISTENER_CHANGE, &listener_change_body},
    {"DELETE", "v1/listeners/L", CONTROL_LISTENER_REMOVE, NULL},
    {"GET", "v1/connections", CONTROL_CONNECTIONS, NULL},
};

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Undoes %XX; false: not valid, empty, with a zero byte, or too long. */
static bool unescape(const char *from, size_t len, char *to, size_t cap)
{
    size_t i, out = 0;

    for (i = 0; i < len && out + 1 < cap; i++) {
        if (from[i] != '%') {
            to[out++] = from[i];
            continue;
        }
        if (i + 2 >= len || hex(from[i + 1]) < 0 || hex(from[i + 2]) < 0)
            return false;
        to[out] = (char)(hex(from[i + 1]) << 4 | hex(from[i + 2]));
        if (!to[out++])
            return false;
        i += 2;
    }
    to[out] = 0;
    return i == len && out > 0;
}

static bool take_number(const char *from, size_t len, uint32_t *value)
{
    uint64_t v;
    char text[16];

    if (!unescape(from, len, text, sizeof(text)) || fl_number_parse(text, 0, UINT32_MAX, "", &v, NULL) < 0)
        return false;
    *value = (uint32_t)v;
    return true;
}

static bool match_part(const char *pattern, size_t pattern_len, const char *part, size_t len,
                       struct control_op *op)
{
    if (pattern_len == 1) {
        switch (*pattern) {
        case 'N':
            return unescape(part, len, op->nqn, sizeof(op->nqn));
        case 'H':
            return unescape(part, len, op->hostnqn, sizeof(op->hostnqn));
        case 'S':
            return take_number(part, len, &op->nsid);
        case 'L':
            return take_number(part, len, &op->listener_id);
        }
    }
    return pattern_len == len && !memcmp(pattern, part, len);
}

static bool match_path(const char *pattern, const char *path, struct control_op *op)
{
    while (*pattern && *path) {
        size_t pattern_len = strcspn(pattern, "/"), len = strcspn(path, "/");

        if (!match_part(pattern, pattern_len, path, len, op))
            return false;
        pattern += pattern_len + (pattern[pattern_len] == '/');
        path += len + (path[len] == '/');
    }
    return !*pattern && !*path;
}

static const struct route *find_route(const char *method, const char *path, struct control_op *op,
                                      char *allow, size_t allow_len)
{
    size_t i, at = 0;

    allow[0] = 0;
    for (i = 0; i < FL_ARRAY_LEN(routes); i++) {
        if (!match_path(routes[i].path, path, op))
            continue;
        if (!strcmp(routes[i].method, method))
            return &routes[i];
        at += (size_t)snprintf(allow + at, allow_len - at, "%s%s", at ? ", " : "", routes[i].method);
    }
    return NULL;
}

/* ---- query ---- */

static int parse_query(const char *query, struct control_op *op, struct control_reply *reply)
{
    while (query && *query) {
        size_t len = strcspn(query, "&"), name_len = strcspn(query, "=&");
        const char *value = query + name_len + (name_len < len);
        size_t value_len = len - (size_t)(value - query);
        uint32_t number = 1;

        if (value_len && !take_number(value, value_len, &number)) {
            control_reply_error(reply, -EINVAL, "query", "a value after ? is not a number");
            return -EINVAL;
        }
        if (name_len == 4 && !memcmp(query, "keep", 4)) {
            op->keep = number != 0;
        } else if (name_len == 11 && !memcmp(query, "deadline_ms", 11)) {
            op->deadline_ms = number;
        } else {
            control_reply_error(reply, -EINVAL, "query", "after ? are allowed: keep, deadline_ms");
            return -EINVAL;
        }
        query += len + (query[len] == '&');
    }
    return 0;
}

/* ---- all together ---- */

static int parse_body(const cyaml_schema_value_t *schema, const char *body, size_t len, struct control_op *op,
                      struct control_reply *reply)
{
    struct fl_error err = {0};
    char field[128] = "";
    json_error_t at;
    json_t *json;
    int rc;

    json = json_loadb(body, len, JSON_REJECT_DUPLICATES, &at);
    if (!json) {
        fl_error_set(&err, -EINVAL, "the body is not JSON: line %d, column %d: %s", at.line, at.column,
                     at.text);
        control_reply_error(reply, -EINVAL, "body", err.text);
        return -EINVAL;
    }
    op->schema = schema;
    rc = json_body_take(json, schema, &op->body.any, field, sizeof(field), &err);
    json_decref(json);
    if (rc < 0)
        control_reply_error(reply, rc, field, err.text);
    return rc;
}

int control_parse(const char *method, const char *path, const char *query, const char *body, size_t body_len,
                  struct control_op *op, struct control_reply *reply)
{
    const struct route *route;
    char allow[32], message[200];

    memset(op, 0, sizeof(*op));
    if (!strcmp(method, "HEAD"))
        method = "GET";
    route = find_route(method, *path == '/' ? path + 1 : path, op, allow, sizeof(allow));
    if (!route && allow[0]) {
        snprintf(message, sizeof(message), "%.12s is not possible here; allowed: %s", method, allow);
        control_reply_error(reply, -EOPNOTSUPP, "method", message);
        memcpy(reply->allow, allow, sizeof(reply->allow));
        return -EOPNOTSUPP;
    }
    if (!route) {
        control_reply_error(reply, -ENOENT, "path",
                            "there is no such path; see /v1/status, /v1/subsystems, /v1/namespaces, "
                            "/v1/hosts, /v1/listeners, "
                            "/v1/connections, /v1/config, /metrics");
        return -ENOENT;
    }
    op->kind = route->kind;
    if (parse_query(query, op, reply) < 0)
        return -EINVAL;
    if (!route->body) {
        if (!body_len)
            return 0;
        control_reply_error(reply, -EINVAL, "body", "this request takes no body");
        return -EINVAL;
    }
    return parse_body(route->body, body, body_len, op, reply);
}

void control_op_free(struct control_op *op)
{
    if (op->schema)
        json_body_free(op->schema, op->body.any);
    op->schema = NULL;
    op->body.any = NULL;
}
