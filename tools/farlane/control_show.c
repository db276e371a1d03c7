/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "base/uuid.h"
#include "control.h"

#define NUMBER(v) json_integer((json_int_t)(v))

static json_t *uuid_text(const uint8_t *bytes)
{
    char text[FL_UUID_TEXT_LEN];
    struct fl_uuid uuid;

    memcpy(uuid.b, bytes, sizeof(uuid.b));
    return json_string(fl_uuid_format(&uuid, text));
}

static json_t *show_io(const struct fl_io_counters *io)
{
    return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "reads", NUMBER(io->nr_reads), "writes",
                     NUMBER(io->nr_writes), "other", NUMBER(io->nr_other), "read_bytes", NUMBER(io->read_len),
                     "write_bytes", NUMBER(io->write_len), "errors", NUMBER(io->nr_errors), "zero_copy_bytes",
                     NUMBER(io->zero_copy_len), "copied_bytes", NUMBER(io->copied_len));
}

/* ---- subsystems, namespaces, hosts ---- */

struct gathering {
    json_t *list;
    const char *nqn; /* only this one */
    bool with_subsystem;
};

static void show_subsystem(void *arg, const struct fl_subsystem_info *info)
{
    struct gathering *g = arg;

    if (info->discovery || (g->nqn && strcmp(g->nqn, info->nqn)))
        return;
    json_array_append_new(g->list, json_pack("{s:s, s:s, s:s, s:b, s:[], s:[]}", "nqn", info->nqn, "serial",
                                             info->serial, "model", info->model, "allow_any_host",
                                             info->allow_any_host, "hosts", "namespaces"));
}

static json_t *find_list(struct gathering *g, const char *nqn, const char *name)
{
    size_t i;
    json_t *ss;

    json_array_foreach(g->list, i, ss)
    {
        if (!strcmp(json_string_value(json_object_get(ss, "nqn")), nqn))
            return json_object_get(ss, name);
    }
    return NULL;
}

static json_t *namespace_object(const struct fl_namespace_info *info)
{
    json_t *json = json_pack("{s:o, s:o, s:s, s:s, s:o, s:o, s:o, s:o, s:b}", "nsid", NUMBER(info->nsid),
                             "spec", control_text(info->spec), "backend", info->backend, "state", info->state,
                             "size", NUMBER(info->len), "block", NUMBER(info->block_len), "uuid",
                             uuid_text(info->uuid), "ana_group", NUMBER(info->ana_group), "reserved",
                             info->reserved);

    json_object_set_new(json, "io", show_io(&info->io));
    return json;
}

static void show_namespace(void *arg, const struct fl_namespace_info *info)
{
    json_t *json, *list;

    list = find_list(arg, info->ss_nqn, "namespaces");
    if (!list)
        return;
    json = namespace_object(info);
    json_array_append_new(list, json);
}

static void list_namespace(void *arg, const struct fl_namespace_info *info)
{
    json_t *json = namespace_object(info);

    json_object_set_new(json, "subsystem", json_string(info->ss_nqn));
    json_array_append_new(arg, json);
}

static void show_host(void *arg, const char *ss_nqn, const char *hostnqn)
{
    json_t *list = find_list(arg, ss_nqn, "hosts");

    if (list)
        json_array_append_new(list, json_string(hostnqn));
}

static void list_host(void *arg, const char *ss_nqn, const char *hostnqn)
{
    json_array_append_new(arg, json_pack("{s:s, s:s}", "subsystem", ss_nqn, "nqn", hostnqn));
}

json_t *control_show_subsystems(struct server *s, const char *nqn)
{
    const struct fl_target_visitor subsystems = {.subsystem = show_subsystem};
    const struct fl_target_visitor parts = {.ns = show_namespace, .host = show_host};
    struct gathering g = {.list = json_array(), .nqn = nqn};
    json_t *one;

    fl_target_visit(s->target, &subsystems, &g);
    fl_target_visit(s->target, &parts, &g);
    if (!nqn)
        return json_pack("{s:o}", "subsystems", g.list);
    one = json_incref(json_array_get(g.list, 0));
    json_decref(g.list);
    return one;
}

json_t *control_show_namespaces(struct server *s)
{
    const struct fl_target_visitor visitor = {.ns = list_namespace};
    json_t *list = json_array();

    fl_target_visit(s->target, &visitor, list);
    return json_pack("{s:o}", "namespaces", list);
}

json_t *control_show_hosts(struct server *s)
{
    const struct fl_target_visitor visitor = {.host = list_host};
    json_t *list = json_array();

    fl_target_visit(s->target, &visitor, list);
    return json_pack("{s:o}", "hosts", list);
}

/* ---- listeners ---- */

static void list_listener(void *arg, const struct fl_listener_info *info)
{
    json_array_append_new(arg, json_pack("{s:o, s:s, s:s, s:s?, s:o}", "id", NUMBER(info->id), "url",
                                         info->url, "state", info->state, "reason",
                                         info->reason && info->reason[0] ? info->reason : NULL, "connections",
                                         NUMBER(info->nr_connections)));
}

json_t *control_show_listeners(struct server *s)
{
    const struct fl_target_visitor visitor = {.listener = list_listener};
    json_t *list = json_array();

    fl_target_visit(s->target, &visitor, list);
    return json_pack("{s:o}", "listeners", list);
}

/* ---- connections: what was asked, offered and used ---- */

static void list_controller(void *arg, const struct fl_controller_info *info)
{
    json_t *json = json_pack("{s:o, s:s, s:s, s:o, s:s, s:b, s:o, s:{s:o, s:o, s:o}, s:[]}", "controller",
                             NUMBER(info->cntlid), "subsystem", info->ss_nqn, "host", info->hostnqn, "hostid",
                             uuid_text(info->hostid), "state", info->state, "discovery", info->discovery,
                             "keep_alive_ms", NUMBER(info->kato_ms), "queues", "asked",
                             NUMBER(info->queues_asked), "granted", NUMBER(info->queues_granted), "used",
                             NUMBER(info->nr_io_queues), "connections");

    json_array_append_new(arg, json);
}

static json_t *digests(bool header, bool data)
{
    return json_pack("{s:b, s:b}", "header", header, "data", data);
}

static void list_queue(void *arg, const struct fl_queue_info *info)
{
    const struct fl_conn_info *conn = &info->conn;
    json_t *json, *list;

    /* A controller's queues follow it. */
    list = json_object_get(json_array_get(arg, json_array_size(arg) - 1), "connections");
    if (!list)
        return;
    json = json_pack("{s:o, s:s, s:s, s:s, s:o, s:{s:o, s:o}, s:o}", "queue", NUMBER(info->qid), "transport",
                     conn->transport ? conn->transport : "", "peer", conn->peer, "local", conn->local, "loop",
                     NUMBER(info->loop), "depth", "asked", NUMBER(info->depth_asked), "used",
                     NUMBER(info->depth), "in_flight", NUMBER(info->in_flight));
    json_object_set_new(json, "digests",
                        json_pack("{s:o, s:o}", "asked", digests(conn->hdgst_asked, conn->ddgst_asked),
                                  "used", digests(conn->hdgst, conn->ddgst)));
    json_object_set_new(json, "tcp",
                        json_pack("{s:o, s:o, s:o, s:o}", "max_h2c_bytes", NUMBER(conn->max_h2c_len),
                                  "max_r2t", NUMBER(conn->maxr2t), "align_host", NUMBER(conn->pda_host),
                                  "align_controller", NUMBER(conn->pda_ctrl)));
    json_object_set_new(json, "bytes",
                        json_pack("{s:o, s:o}", "in", NUMBER(conn->rx_len), "out", NUMBER(conn->tx_len)));
    json_object_set_new(
        json, "pdus",
        json_pack("{s:o, s:o}", "in", NUMBER(conn->nr_pdus_rx), "out", NUMBER(conn->nr_pdus_tx)));
    json_object_set_new(json, "digest_errors", NUMBER(conn->nr_digest_errors));
    json_object_set_new(json, "io", show_io(&info->io));
    json_array_append_new(list, json);
}

json_t *control_show_connections(struct server *s)
{
    const struct fl_target_visitor visitor = {.controller = list_controller, .queue = list_queue};
    json_t *list = json_array();

    fl_target_visit(s->target, &visitor, list);
    return json_pack("{s:o}", "controllers", list);
}

/* ---- status ---- */

struct counts {
    json_t *loops;
    uint32_t subsystems, namespaces, listeners, listening, controllers, connections;
};

static void count_subsystem(void *arg, const struct fl_subsystem_info *info)
{
    ((struct counts *)arg)->subsystems += !info->discovery;
}

static void count_namespace(void *arg, const struct fl_namespace_info *info)
{
    ((struct counts *)arg)->namespaces++;
}

static void count_listener(void *arg, const struct fl_listener_info *info)
{
    struct counts *c = arg;

    c->listeners++;
    c->listening += !strcmp(info->state, "listening");
}

static void count_controller(void *arg, const struct fl_controller_info *info)
{
    ((struct counts *)arg)->controllers++;
}

static void count_queue(void *arg, const struct fl_queue_info *info)
{
    ((struct counts *)arg)->connections++;
}

static void list_loop(void *arg, const struct fl_loop_info *info)
{
    struct counts *c = arg;

    json_array_append_new(c->loops,
                          json_pack("{s:o, s:f, s:o, s:{s:o, s:o, s:o, s:o}}", "index", NUMBER(info->index),
                                    "busy_s", (double)info->busy_ns / 1e9, "connections",
                                    NUMBER(info->nr_connections), "buffers", "total",
                                    NUMBER(info->pool.total_len), "used", NUMBER(info->pool.used_len), "peak",
                                    NUMBER(info->pool.peak_len), "waits", NUMBER(info->pool.nr_waits)));
}

json_t *control_show_status(struct server *s)
{
    const struct fl_target_visitor visitor = {
        .subsystem = count_subsystem,
        .ns = count_namespace,
        .listener = count_listener,
        .controller = count_controller,
        .queue = count_queue,
        .loop = list_loop,
    };
    struct counts c = {.loops = json_array()};

    fl_target_visit(s->target, &visitor, &c);
    return json_pack("{s:s, s:i, s:f, s:s?, s:s, s:s?, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "version",
                     FARLANE_VERSION, "pid", (int)getpid(), "uptime_s",
                     (double)(fl_now_ns() - s->start_ns) / 1e9, "config_file", s->config_file, "poll",
                     s->config->poll ? s->config->poll : "adaptive", "cores", s->config->cores, "subsystems",
                     NUMBER(c.subsystems), "namespaces", NUMBER(c.namespaces), "listeners",
                     NUMBER(c.listeners), "listening", NUMBER(c.listening), "controllers",
                     NUMBER(c.controllers), "connections", NUMBER(c.connections), "loops", c.loops);
}
