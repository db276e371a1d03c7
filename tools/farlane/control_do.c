/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/size.h"
#include "base/util.h"
#include "control.h"

static bool fail(struct control_reply *reply, int code, const char *field, const struct fl_error *err)
{
    control_reply_error(reply, code, field, err ? err->text : NULL);
    return false;
}

static bool show(struct control_reply *reply, unsigned http, json_t *json)
{
    reply->http = http;
    reply->json = json;
    return false;
}

/* ---- what ends later ---- */

static void change_done(struct fl_change *change, int result, const struct fl_error *err)
{
    struct control_reply *reply = FL_CONTAINER_OF(change, struct control_reply, change);

    if (result < 0)
        fail(reply, result, NULL, err);
    else
        show(reply, 200, json_pack("{s:b}", "removed", 1));
    reply->ready(reply);
}

/* A subsystem that could be added only in part is taken away again; nobody waits for that. */
static void rollback_done(struct fl_change *change, int result, const struct fl_error *err)
{
    free(change);
}

static void roll_back(struct server *s, const char *nqn)
{
    struct fl_subsystem *ss = fl_subsystem_find(s->target, nqn);
    struct fl_change *change = calloc(1, sizeof(*change));

    if (!ss || !change) {
        free(change);
        return;
    }
    change->done = rollback_done;
    fl_subsystem_remove(ss, change);
}

/* ---- changes ---- */

static bool add_subsystem(struct server *s, struct control_op *op, struct control_reply *reply)
{
    const struct config_subsystem *cfg = op->body.subsystem;
    char field[SERVER_FIELD_LEN];
    struct fl_error err = {0};
    int rc = server_add_subsystem(s, cfg, field, &err);

    if (rc == 0)
        return show(reply, 201, control_show_subsystems(s, cfg->nqn));
    if (strcmp(field, "nqn"))
        roll_back(s, cfg->nqn);
    return fail(reply, rc, field, &err);
}

static bool add_namespace(struct server *s, struct fl_subsystem *ss, struct control_op *op,
                          struct control_reply *reply)
{
    char field[SERVER_FIELD_LEN];
    struct fl_error err = {0};
    uint32_t nsid = 0;
    int rc = server_add_namespace(ss, op->body.ns, &nsid, field, &err);

    if (rc < 0)
        return fail(reply, rc, field, &err);
    return show(reply, 201,
                json_pack("{s:s, s:I, s:s}", "subsystem", op->nqn, "nsid", (json_int_t)nsid, "spec",
                          op->body.ns->spec));
}

static bool change_namespace(struct server *s, struct fl_subsystem *ss, struct control_op *op,
                             struct control_reply *reply)
{
    const struct control_namespace_change *c = op->body.namespace_change;
    struct fl_error err = {0};
    uint64_t len = 0;
    int rc;

    if (strcmp(c->size, "file")) {
        rc = fl_size_parse(c->size, &len, &err);
        if (rc < 0)
            return fail(reply, rc, "size", &err);
        if (len == 0) {
            fl_error_set(&err, -EINVAL, "size 0: a namespace has at least one block; remove it instead");
            return fail(reply, -EINVAL, "size", &err);
        }
    }
    rc = fl_namespace_resize(ss, op->nsid, len, c->force && *c->force, &err);
    if (rc < 0)
        return fail(reply, rc, rc == -ENOENT ? "nsid" : "size", &err);
    return show(reply, 200, control_show_subsystems(s, op->nqn));
}

static bool add_host(struct fl_subsystem *ss, struct control_op *op, struct control_reply *reply)
{
    struct fl_error err = {0};
    int rc = fl_subsystem_host_add(ss, op->body.host->nqn, &err);

    if (rc < 0)
        return fail(reply, rc, "nqn", &err);
    return show(reply, 201, json_pack("{s:s, s:s}", "subsystem", op->nqn, "nqn", op->body.host->nqn));
}

static bool remove_host(struct fl_subsystem *ss, struct control_op *op, struct control_reply *reply)
{
    struct fl_error err = {0};
    int rc = fl_subsystem_host_remove(ss, op->hostnqn, op->keep, &err);
    json_t *json;

    if (rc < 0)
        return fail(reply, rc, "nqn", &err);
    json = json_pack("{s:b, s:b}", "removed", 1, "kept_connections", op->keep);
    if (op->keep)
        json_object_set_new(json, "warning",
                            json_string("what this host has connected stays connected until it disconnects"));
    return show(reply, 200, json);
}

static bool change_in_subsystem(struct server *s, struct control_op *op, struct control_reply *reply)
{
    struct fl_subsystem *ss = fl_subsystem_find(s->target, op->nqn);
    struct fl_error err = {0};
    int rc;

    if (!ss) {
        fl_error_set(&err, -ENOENT, "there is no subsystem %s", op->nqn);
        return fail(reply, -ENOENT, "nqn", &err);
    }
    reply->change.done = change_done;
    switch (op->kind) {
    case CONTROL_SUBSYSTEM_CHANGE:
        rc = fl_subsystem_set_allow_any(ss, *op->body.subsystem_change->allow_any_host);
        return rc < 0 ? fail(reply, rc, "allow_any_host", NULL)
                      : show(reply, 200, control_show_subsystems(s, op->nqn));
    case CONTROL_SUBSYSTEM_REMOVE:
        fl_subsystem_remove(ss, &reply->change);
        return true;
    case CONTROL_NAMESPACE_ADD:
        return add_namespace(s, ss, op, reply);
    case CONTROL_NAMESPACE_CHANGE:
        return change_namespace(s, ss, op, reply);
    case CONTROL_NAMESPACE_REMOVE:
        fl_namespace_remove(ss, op->nsid, op->deadline_ms, &reply->change);
        return true;
    case CONTROL_HOST_ADD:
        return add_host(ss, op, reply);
    default:
        return remove_host(ss, op, reply);
    }
}

/* Beside what it was given: whether it listens already, and if not, why. */
struct new_listener {
    uint32_t id;
    json_t *json;
};

static void note_state(void *arg, const struct fl_listener_info *info)
{
    struct new_listener *l = arg;

    if (info->id != l->id)
        return;
    json_object_set_new(l->json, "state", control_text(info->state));
    json_object_set_new(l->json, "reason", control_text(info->reason ? info->reason : ""));
}

static json_t *show_new_listener(struct server *s, uint32_t id, const char *address)
{
    const struct fl_target_visitor visitor = {.listener = note_state};
    struct new_listener l = {id, json_pack("{s:I, s:s}", "id", (json_int_t)id, "address", address)};

    fl_target_visit(s->target, &visitor, &l);
    return l.json;
}

static bool change_listener(struct server *s, struct control_op *op, struct control_reply *reply)
{
    struct fl_error err = {0};
    char field[SERVER_FIELD_LEN];
    uint32_t id = 0;
    int rc;

    switch (op->kind) {
    case CONTROL_LISTENER_ADD:
        rc = server_add_listener(s, op->body.listener, &id, field, &err);
        if (rc < 0)
            return fail(reply, rc, field, &err);
        return show(reply, 201, show_new_listener(s, id, op->body.listener->address));
    case CONTROL_LISTENER_REMOVE:
        rc = server_remove_listener(s, op->listener_id, &err);
        return rc < 0 ? fail(reply, rc, "id", &err) : show(reply, 200, json_pack("{s:b}", "removed", 1));
    default:
        rc = fl_target_set_ana(s->target, op->listener_id,
                               op->body.listener_change->ana_group ? *op->body.listener_change->ana_group : 1,
                               op->body.listener_change->ana_state, &err);
        return rc < 0 ? fail(reply, rc, "ana_state", &err) : show(reply, 200, control_show_listeners(s));
    }
}

/* ---- all ---- */

static bool save_config(struct server *s, struct control_reply *reply)
{
    struct config *config = server_snapshot(s);
    struct fl_error err = {0};
    int rc = config_save_text(config, &reply->text, &reply->text_len, &err);

    config_free(config);
    if (rc < 0)
        return fail(reply, rc, NULL, &err);
    reply->type = "application/yaml";
    return show(reply, 200, NULL);
}

static bool show_subsystem(struct server *s, struct control_op *op, struct control_reply *reply)
{
    json_t *json = control_show_subsystems(s, op->nqn);
    struct fl_error err = {0};

    if (json)
        return show(reply, 200, json);
    fl_error_set(&err, -ENOENT, "there is no subsystem %s", op->nqn);
    return fail(reply, -ENOENT, "nqn", &err);
}

bool control_execute(struct server *s, struct control_op *op, struct control_reply *reply)
{
    switch (op->kind) {
    case CONTROL_STATUS:
        return show(reply, 200, control_show_status(s));
    case CONTROL_SUBSYSTEMS:
        return show(reply, 200, control_show_subsystems(s, NULL));
    case CONTROL_SUBSYSTEM:
        return show_subsystem(s, op, reply);
    case CONTROL_NAMESPACES:
        return show(reply, 200, control_show_namespaces(s));
    case CONTROL_HOSTS:
        return show(reply, 200, control_show_hosts(s));
    case CONTROL_LISTENERS:
        return show(reply, 200, control_show_listeners(s));
    case CONTROL_CONNECTIONS:
        return show(reply, 200, control_show_connections(s));
    case CONTROL_CONFIG:
        return save_config(s, reply);
    case CONTROL_METRICS:
        reply->text = metrics_text(s, &reply->text_len);
        reply->type = "text/plain; version=0.0.4; charset=utf-8";
        return show(reply, 200, NULL);
    case CONTROL_SUBSYSTEM_ADD:
        return add_subsystem(s, op, reply);
    case CONTROL_LISTENER_ADD:
    case CONTROL_LISTENER_REMOVE:
    case CONTROL_LISTENER_CHANGE:
        return change_listener(s, op, reply);
    default:
        return change_in_subsystem(s, op, reply);
    }
}
