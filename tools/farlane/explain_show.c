/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <stdio.h>

#include "cmd.h"
#include "term.h"

static bool by_device(const struct explanation *e)
{
    return e->path != FL_PATH_TCP && *e->choice.device;
}

/* No way was found, or none that leads to the target. */
static bool lost(const struct explanation *e)
{
    return e->code && !e->connected;
}

/* How many have a reason */
static int nr_why_not(const struct explanation *e)
{
    return lost(e) ? FL_NR_PATHS : (int)e->path;
}

/* ---- for people ---- */

static void field(const char *name, const char *fmt, ...) FL_PRINTF(2, 3);
static void field(const char *name, const char *fmt, ...)
{
    va_list args;

    printf("%s%-9s%s ", term_on(stdout, TERM_DIM), name, term_off(stdout));
    va_start(args, fmt);
    vprintf(fmt, args);
    va_end(args);
    putchar('\n');
}

static void show_source(const struct explanation *e)
{
    char ip[FL_ADDR_IP_LEN], gid[INET6_ADDRSTRLEN];
    const struct fl_choice *c = &e->choice;

    if (c->source.len && by_device(e))
        field("from", "%s, %s port %u GID %d (%s)%s%s", fl_addr_format_ip(&c->source, ip), c->device, c->port,
              c->gid_index, inet_ntop(AF_INET6, &c->gid, gid, sizeof(gid)), *c->ifname ? " on " : "",
              c->ifname);
    else if (c->source.len)
        field("from", "%s%s%s", fl_addr_format_ip(&c->source, ip), *e->route.ifname ? " on " : "",
              e->route.ifname);
}

static void show_target(const struct explanation *e)
{
    char to[FL_ADDR_TEXT_LEN], ip[FL_ADDR_IP_LEN];

    fl_addr_format(&e->to, to);
    if (e->choice.here && e->target_pid)
        field("to", "%s, process %d of this host", to, e->target_pid);
    else if (e->choice.here)
        field("to", "%s, this host", to);
    else if (e->route.gateway.len)
        field("to", "%s, by the router %s", to, fl_addr_format_ip(&e->route.gateway, ip));
    else
        field("to", "%s", to);
}

void explain_text(const struct explanation *e)
{
    struct table t;

    field("URL", "%s", e->url);
    if (lost(e))
        field("path", "%snone%s", term_on(stdout, TERM_RED), term_off(stdout));
    else
        field("path", "%s%s%s%s", term_on(stdout, TERM_BOLD), fl_path_text(e->path), term_off(stdout),
              e->connected ? ", seen by connecting" : ", as far as this machine knows");
    show_source(e);
    show_target(e);
    if (!nr_why_not(e))
        return;
    printf("\n%s\n", lost(e) ? "Why not:" : "Better ways, and why not:");
    table_init(&t, "PATH", "WHY NOT", NULL);
    for (int i = 0; i < nr_why_not(e); i++) {
        table_cell(&t, "%s", fl_path_text((enum fl_path)i));
        table_cell(&t, "%s", *e->choice.why_not[i] ? e->choice.why_not[i] : "-");
    }
    table_print(&t, stdout, 2);
}

/* ---- for programs ---- */

static json_t *text_or_null(const char *text)
{
    return *text ? json_string(text) : json_null();
}

static void add_device(json_t *json, const struct explanation *e)
{
    const struct fl_choice *c = &e->choice;
    char gid[INET6_ADDRSTRLEN];

    if (!by_device(e)) {
        json_object_set_new(json, "device", json_null());
        return;
    }
    json_object_set_new(json, "device",
                        json_pack("{s:s, s:s, s:i, s:i, s:s, s:o}", "name", c->device, "kind",
                                  e->path == FL_PATH_HARDWARE ? "hardware" : "software", "port", c->port,
                                  "gid_index", c->gid_index, "gid",
                                  inet_ntop(AF_INET6, &c->gid, gid, sizeof(gid)), "interface",
                                  text_or_null(c->ifname)));
}

static void add_route(json_t *json, const struct explanation *e)
{
    static const char *const kinds[] = {"direct", "gateway", "local"};
    char source[FL_ADDR_IP_LEN] = "", gateway[FL_ADDR_IP_LEN] = "", to[FL_ADDR_TEXT_LEN];

    if (e->choice.source.len)
        fl_addr_format_ip(&e->choice.source, source);
    if (e->route.gateway.len)
        fl_addr_format_ip(&e->route.gateway, gateway);
    json_object_set_new(json, "to", json_string(fl_addr_format(&e->to, to)));
    json_object_set_new(json, "this_host", json_boolean(e->choice.here));
    json_object_set_new(json, "source", text_or_null(source));
    json_object_set_new(json, "route",
                        json_pack("{s:s, s:o, s:o}", "kind", kinds[e->route.kind], "interface",
                                  text_or_null(e->route.ifname), "gateway", text_or_null(gateway)));
}

static void print(json_t *json)
{
    json_dumpf(json, stdout, JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
}

void explain_json(const struct explanation *e)
{
    json_t *why = json_object(), *json = json_object();

    for (int i = 0; i < nr_why_not(e); i++)
        json_object_set_new(why, fl_path_name((enum fl_path)i), text_or_null(e->choice.why_not[i]));
    json_object_set_new(json, "url", json_string(e->url));
    json_object_set_new(json, "path", lost(e) ? json_null() : json_string(fl_path_name(e->path)));
    json_object_set_new(json, "connected", json_boolean(e->connected));
    json_object_set_new(json, "error", text_or_null(e->err.text));
    json_object_set_new(json, "target_pid", e->target_pid ? json_integer(e->target_pid) : json_null());
    add_route(json, e);
    add_device(json, e);
    json_object_set_new(json, "why_not", why);
    print(json);
}

int explain_local(const char *url, bool json)
{
    if (json) {
        print(json_pack("{s:s, s:s, s:b, s:n, s:{}}", "url", url, "path", "local", "connected", 0, "error",
                        "why_not"));
        return EXIT_OK;
    }
    field("URL", "%s", url);
    field("path", "local: a namespace of this machine, in this process; no network is used");
    return EXIT_OK;
}
