/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"

#include <errno.h>
#include <string.h>

#include "control.h"

static int parse(const char *method, const char *path, const char *query, const char *body,
                 struct control_op *op, struct control_reply *reply)
{
    memset(reply, 0, sizeof(*reply));
    return control_parse(method, path, query, body, body ? strlen(body) : 0, op, reply);
}

static void end(struct control_op *op, struct control_reply *reply)
{
    control_op_free(op);
    control_reply_free(reply);
}

static void finds_its_way(void **state)
{
    static const struct {
        const char *method, *path;
        enum control_kind kind;
    } ways[] = {
        {"GET", "/v1/status", CONTROL_STATUS},
        {"HEAD", "/v1/status", CONTROL_STATUS},
        {"GET", "/metrics", CONTROL_METRICS},
        {"GET", "/v1/subsystems", CONTROL_SUBSYSTEMS},
        {"GET", "/v1/subsystems/nqn.2026-01.org.example:a", CONTROL_SUBSYSTEM},
        {"DELETE", "/v1/subsystems/a", CONTROL_SUBSYSTEM_REMOVE},
        {"DELETE", "/v1/subsystems/a/namespaces/4", CONTROL_NAMESPACE_REMOVE},
        {"DELETE", "/v1/subsystems/a/hosts/h", CONTROL_HOST_REMOVE},
        {"DELETE", "/v1/listeners/3", CONTROL_LISTENER_REMOVE},
        {"GET", "/v1/connections", CONTROL_CONNECTIONS},
    };
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(ways); i++) {
        struct control_reply reply;
        struct control_op op;

        if (parse(ways[i].method, ways[i].path, NULL, NULL, &op, &reply) < 0)
            fail_msg("%s %s", ways[i].method, ways[i].path);
        assert_int_equal(op.kind, ways[i].kind);
        end(&op, &reply);
    }
}

static void takes_escaped_names(void **state)
{
    struct control_reply reply;
    struct control_op op;

    assert_int_equal(
        parse("DELETE", "/v1/subsystems/nqn.x%2Fy%3A%25/hosts/h%20i", "keep=1", NULL, &op, &reply), 0);
    assert_string_equal(op.nqn, "nqn.x/y:%");
    assert_string_equal(op.hostnqn, "h i");
    assert_true(op.keep);
    end(&op, &reply);
    assert_int_equal(parse("DELETE", "/v1/subsystems/a/namespaces/77", "deadline_ms=1500", NULL, &op, &reply),
                     0);
    assert_int_equal(op.nsid, 77);
    assert_int_equal(op.deadline_ms, 1500);
    end(&op, &reply);
}

static void fills_bodies(void **state)
{
    struct control_reply reply;
    struct control_op op;

    assert_int_equal(
        parse(
            "POST", "/v1/subsystems", NULL,
            "{\"nqn\": \"nqn.2026-01.org.example:a\", \"allow_any_host\": false, \"hosts\": [\"h1\", \"h2\"],"
            " \"namespaces\": [{\"spec\": \"ram:1G\"}, {\"spec\": \"ram:2G\", \"nsid\": 5}], \"model\": "
            "null}",
            &op, &reply),
        0);
    assert_int_equal(op.kind, CONTROL_SUBSYSTEM_ADD);
    assert_string_equal(op.body.subsystem->hosts[1], "h2");
    assert_int_equal(op.body.subsystem->nr_namespaces, 2);
    assert_int_equal(*op.body.subsystem->namespaces[1].nsid, 5);
    assert_null(op.body.subsystem->model);
    end(&op, &reply);
    assert_int_equal(parse("PATCH", "/v1/subsystems/a/namespaces/1", NULL,
                           "{\"size\": 1048576, \"force\": true}", &op, &reply),
                     0);
    assert_string_equal(op.body.namespace_change->size, "1048576");
    assert_true(*op.body.namespace_change->force);
    end(&op, &reply);
}

static const struct {
    const char *method, *path, *query, *body;
    unsigned http;
    const char *field, *part;
} faults[] = {
    {"GET", "/", NULL, NULL, 404, "path", "there is no such path"},
    {"GET", "/v2/status", NULL, NULL, 404, "path", ""},
    {"GET", "/v1/status/", NULL, "", 200, NULL, NULL}, /* a slash at the end does no harm */
    {"GET", "/v1/subsystems/a/namespaces/1", NULL, NULL, 405, "method", "allowed: PATCH, DELETE"},
    {"DELETE", "/v1/subsystems/a/namespaces/x", NULL, NULL, 404, "path", ""},
    {"DELETE", "/v1/subsystems/a/namespaces/4294967296", NULL, NULL, 404, "path", ""},
    {"DELETE", "/v1/subsystems/%00", NULL, NULL, 404, "path", ""},
    {"DELETE", "/v1/subsystems/%4", NULL, NULL, 404, "path", ""},
    {"POST", "/v1/subsystems", NULL, NULL, 400, "body", "not JSON"},
    {"POST", "/v1/subsystems", NULL, "{", 400, "body", "not JSON"},
    {"POST", "/v1/subsystems", NULL, "[]", 400, NULL, "the body needs to be an object"},
    {"POST", "/v1/subsystems", NULL, "{}", 400, "nqn", "nqn is missing"},
    {"POST", "/v1/subsystems", NULL, "{\"nqn\": 3}", 400, "nqn", "needs to be a text"},
    {"POST", "/v1/subsystems", NULL, "{\"nqn\": \"a\", \"nqn\": \"b\"}", 400, "body", "duplicate"},
    {"POST", "/v1/subsystems", NULL, "{\"nqn\": \"a\", \"size\": 1}", 400, "size",
     "not known here; allowed: nqn, serial"},
    {"POST", "/v1/subsystems", NULL, "{\"nqn\": \"a\", \"namespaces\": [{\"spec\": \"x\"}, {}]}", 400,
     "namespaces[1].spec", "is missing"},
    {"POST", "/v1/subsystems", NULL, "{\"nqn\": \"a\", \"hosts\": [\"x\", 3]}", 400, "hosts[1]", "text"},
    {"POST", "/v1/subsystems", NULL, "{\"nqn\": \"a\", \"hosts\": \"x\"}", 400, "hosts", "list"},
    {"POST", "/v1/subsystems/a/namespaces", NULL, "{\"spec\": \"x\", \"nsid\": -1}", 400, "nsid",
     "whole number"},
    {"POST", "/v1/subsystems/a/namespaces", NULL, "{\"spec\": \"x\", \"nsid\": 1.5}", 400, "nsid",
     "whole number"},
    {"POST", "/v1/listeners", NULL, "{\"address\": \"x\", \"strict\": \"yes\"}", 400, "strict",
     "true or false"},
    {"DELETE", "/v1/listeners/1", NULL, "{}", 400, "body", "takes no body"},
    {"DELETE", "/v1/listeners/1", "force=1", NULL, 400, "query", "allowed: keep, deadline_ms"},
    {"DELETE", "/v1/listeners/1", "keep=x", NULL, 400, "query", "not a number"},
};

static void says_what_is_wrong(void **state)
{
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(faults); i++) {
        const char *field, *message;
        struct control_reply reply;
        struct control_op op;
        json_t *e;

        parse(faults[i].method, faults[i].path, faults[i].query, faults[i].body, &op, &reply);
        if (faults[i].http == 200) {
            assert_null(reply.json);
            end(&op, &reply);
            continue;
        }
        e = json_object_get(reply.json, "error");
        field = json_string_value(json_object_get(e, "field"));
        message = json_string_value(json_object_get(e, "message"));
        if (reply.http != faults[i].http || !message || !strstr(message, faults[i].part) ||
            strcmp(field ? field : "", faults[i].field ? faults[i].field : ""))
            fail_msg("%s %s %s\ngot %u, field %s: %s", faults[i].method, faults[i].path,
                     faults[i].body ? faults[i].body : "", reply.http, field ? field : "-",
                     message ? message : "-");
        end(&op, &reply);
    }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(finds_its_way), cmocka_unit_test(takes_escaped_names),
                       cmocka_unit_test(fills_bodies), cmocka_unit_test(says_what_is_wrong));
}
