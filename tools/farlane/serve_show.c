/* SPDX-License-Identifier: Apache-2.0 */
#include "serve_show.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/address.h"
#include "base/size.h"
#include "base/url.h"
#include "base/util.h"
#include "control.h"
#include "term.h"

#define MAX_ADDRESSES 16

/* ---- where a listener can be reached ---- */

struct reach {
    char address[MAX_ADDRESSES][FL_ADDR_TEXT_LEN];
    char transport[MAX_ADDRESSES][8]; /* "tcp" */
    uint32_t nr;
    bool loopback_only;
    json_t *list; /* when gathering JSON */
    struct table *table;
};

/* Once: tcp://0.0.0.0 and tcp://[::] together have each address of IPv4 twice. */
static void add_address(struct reach *reach, const char *url, const char *address)
{
    for (uint32_t i = 0; i < reach->nr; i++)
        if (!strcmp(reach->address[i], address) && strcspn(url, ":") == strlen(reach->transport[i]) &&
            !strncmp(reach->transport[i], url, strlen(reach->transport[i])))
            return;
    snprintf(reach->transport[reach->nr], sizeof(reach->transport[0]), "%.*s", (int)strcspn(url, ":"), url);
    snprintf(reach->address[reach->nr++], FL_ADDR_TEXT_LEN, "%s", address);
}

/* A listener on 0.0.0.0 or [::] is reached by the addresses of the interfaces that are up. TCP's [::] is IPv6
 * only (src/fabric/tcp_listener.c); RDMA's takes IPv4, too. */
static void add_interfaces(struct reach *reach, const char *url, const struct fl_addr *any)
{
    struct ifaddrs *all, *i;
    struct fl_addr addr;
    char text[FL_ADDR_TEXT_LEN];
    const bool takes_v6 = any->ss.ss_family == AF_INET6;
    const bool takes_v4 = !takes_v6 || strncmp(url, "tcp:", 4) != 0;

    if (getifaddrs(&all) < 0)
        return;
    for (i = all; i && reach->nr < MAX_ADDRESSES; i = i->ifa_next) {
        bool v6 = i->ifa_addr && i->ifa_addr->sa_family == AF_INET6;

        if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || (!v6 && i->ifa_addr->sa_family != AF_INET))
            continue;
        if (v6 ? !takes_v6 : !takes_v4)
            continue;
        if (fl_addr_from(&addr, i->ifa_addr, v6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in)) <
            0)
            continue;
        fl_addr_set_port(&addr, fl_addr_port(any));
        add_address(reach, url, fl_addr_format(&addr, text));
    }
    freeifaddrs(all);
}

static void note_listener(void *arg, const struct fl_listener_info *info)
{
    const char *text = strstr(info->url, "://");
    struct reach *reach = arg;
    struct fl_addr addr;

    if (!text || reach->nr >= MAX_ADDRESSES)
        return;
    text += 3;
    if (!strncmp(info->state, "waiting", 7) && strlen(text) > 2 && !strcmp(text + strlen(text) - 2, ":0")) {
        reach->loopback_only = false; /* nobody knows its port yet, so there is no URL to show */
        return;
    }
    if (fl_addr_parse(text, FL_URL_DEFAULT_PORT, &addr, NULL) == 0) {
        if (!fl_addr_is_loopback(&addr))
            reach->loopback_only = false;
        if (fl_addr_is_any(&addr)) {
            add_interfaces(reach, info->url, &addr);
            return;
        }
    } else {
        reach->loopback_only = false;
    }
    add_address(reach, info->url, text);
}

/* ---- namespaces ---- */

static void format_url(char *url, size_t len, const struct reach *reach, uint32_t i,
                       const struct fl_namespace_info *info)
{
    snprintf(url, len, "nvme+%s://%s/%s?ns=%u", reach->transport[i], reach->address[i], info->ss_nqn,
             info->nsid);
}

static void note_namespace(void *arg, const struct fl_namespace_info *info)
{
    struct reach *reach = arg;
    char url[1024], size[FL_SIZE_TEXT_LEN];
    uint32_t i;

    for (i = 0; i < reach->nr; i++) {
        format_url(url, sizeof(url), reach, i, info);
        if (reach->list) {
            json_array_append_new(reach->list,
                                  json_pack("{s:s, s:s, s:I, s:I, s:I, s:o}", "url", url, "subsystem",
                                            info->ss_nqn, "nsid", (json_int_t)info->nsid, "size",
                                            (json_int_t)info->len, "block", (json_int_t)info->block_len,
                                            "spec", control_text(info->spec)));
            continue;
        }
        table_cell(reach->table, "%s", url);
        table_cell(reach->table, "%s", fl_size_format(info->len, size));
        table_cell(reach->table, "%u", info->block_len);
        table_cell(reach->table, "%s", info->spec);
    }
}

static void note_trouble(void *arg, const struct fl_listener_info *info)
{
    if (strcmp(info->state, "listening"))
        printf("%s%s: %s%s%s%s\n", term_on(stdout, TERM_YELLOW), info->url, info->state,
               info->reason && info->reason[0] ? ": " : "", info->reason ? info->reason : "",
               term_off(stdout));
}

void serve_show(struct server *s, const struct serve_ways *ways)
{
    const struct fl_target_visitor listeners = {.listener = note_listener};
    const struct fl_target_visitor namespaces = {.ns = note_namespace};
    const struct fl_target_visitor troubles = {.listener = note_trouble};
    struct reach *reach = calloc(1, sizeof(*reach));
    struct table table;

    if (!reach)
        return;
    reach->loopback_only = true;
    reach->table = &table;
    fl_target_visit(s->target, &listeners, reach);
    table_init(&table, "URL", ">SIZE", ">BLOCK", "STANDS ON", NULL);
    fl_target_visit(s->target, &namespaces, reach);
    printf("farlane %s serves, with %u loop%s, polling: %s\n\n", FARLANE_VERSION, s->nr_loops,
           s->nr_loops == 1 ? "" : "s", s->config->poll ? s->config->poll : "adaptive");
    if (table.nr_cells > table.nr_columns) {
        table_print(&table, stdout, 2);
    } else {
        table_hide_empty(&table);
        printf("  no namespace yet: farlane ctl ns add NQN SPEC\n");
    }
    putchar('\n');
    fl_target_visit(s->target, &troubles, NULL);
    if (reach->loopback_only)
        printf("Reachable from this machine only; --listen %s://0.0.0.0 or --listen %s://[::] serves the "
               "network.\n",
               reach->nr ? reach->transport[0] : "tcp", reach->nr ? reach->transport[0] : "tcp");
    if (ways->nr_open && !ways->nr_closed)
        printf("Any host may connect; --host NQN lets in only the hosts that are named.\n");
    else if (ways->nr_open == 1)
        printf("Any host may connect to %s; the others let in only the hosts that are named.\n",
               ways->open_nqn);
    else if (ways->nr_open)
        printf("Any host may connect to %s and %u more; the others let in only the hosts that are named.\n",
               ways->open_nqn, ways->nr_open - 1);
    if (ways->control)
        printf("Control: %s (farlane ctl %s%s%sstatus)\n", ways->control,
               ways->control_is_usual ? "" : "--control ", ways->control_is_usual ? "" : ways->control,
               ways->control_is_usual ? "" : " ");
    if (ways->metrics_url)
        printf("Metrics: %s\n", ways->metrics_url);
    printf("%sReady.%s Ctrl-C ends it.\n", term_on(stdout, TERM_GREEN), term_off(stdout));
    fflush(stdout);
    free(reach);
}

json_t *serve_show_json(struct server *s, const struct serve_ways *ways)
{
    const struct fl_target_visitor listeners = {.listener = note_listener};
    const struct fl_target_visitor namespaces = {.ns = note_namespace};
    struct reach *reach = calloc(1, sizeof(*reach));
    json_t *json;

    if (!reach)
        return NULL;
    reach->list = json_array();
    fl_target_visit(s->target, &listeners, reach);
    fl_target_visit(s->target, &namespaces, reach);
    json = json_pack("{s:b, s:i, s:s, s:s?, s:s?, s:o}", "ready", 1, "pid", (int)getpid(), "version",
                     FARLANE_VERSION, "control", ways->control, "metrics", ways->metrics_url, "namespaces",
                     reach->list);
    json_object_update_new(json, control_show_listeners(s));
    free(reach);
    return json;
}
