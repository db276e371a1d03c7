/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "ctl.h"
#include "term.h"

static const char *text(const json_t *object, const char *key)
{
    const char *s = json_string_value(json_object_get(object, key));

    return s ? s : "";
}

static uint64_t number(const json_t *object, const char *key)
{
    return (uint64_t)json_integer_value(json_object_get(object, key));
}

static bool truth(const json_t *object, const char *key)
{
    return json_is_true(json_object_get(object, key));
}

static void heading(const char *title)
{
    printf("%s%s%s\n", term_on(stdout, TERM_BOLD), title, term_off(stdout));
}

static void count(uint64_t n, const char *what, const char *after)
{
    printf("%" PRIu64 " %s%s%s", n, what, n == 1 ? "" : "s", after);
}

/* ---- status ---- */

static void print_uptime(double s)
{
    if (s < 120)
        printf("up %.0f s", s);
    else if (s < 7200)
        printf("up %.0f min", s / 60);
    else if (s < 172800)
        printf("up %.1f h", s / 3600);
    else
        printf("up %.1f days", s / 86400);
}

void ctl_show_status(const json_t *status)
{
    char total[FL_SIZE_TEXT_LEN], peak[FL_SIZE_TEXT_LEN], used[FL_SIZE_TEXT_LEN];
    struct table t;
    json_t *loop;
    size_t i;

    printf("farlane %s, process %" PRIu64 ", ", text(status, "version"), number(status, "pid"));
    print_uptime(json_number_value(json_object_get(status, "uptime_s")));
    if (text(status, "config_file")[0])
        printf(", started from %s", text(status, "config_file"));
    putchar('\n');
    count(number(status, "subsystems"), "subsystem", ", ");
    count(number(status, "namespaces"), "namespace", ", ");
    printf("%" PRIu64 " of ", number(status, "listening"));
    count(number(status, "listeners"), "listener", " listening, ");
    count(number(status, "controllers"), "controller", ", ");
    count(number(status, "connections"), "connection", "\n\n");
    table_init(&t, ">LOOP", ">BUSY s", ">CONNECTIONS", ">BUFFERS", ">USED", ">PEAK", ">WAITS", NULL);
    json_array_foreach(json_object_get(status, "loops"), i, loop)
    {
        const json_t *b = json_object_get(loop, "buffers");

        table_cell(&t, "%" PRIu64, number(loop, "index"));
        table_cell(&t, "%.2f", json_number_value(json_object_get(loop, "busy_s")));
        table_cell(&t, "%" PRIu64, number(loop, "connections"));
        table_cell(&t, "%s", fl_size_format(number(b, "total"), total));
        table_cell(&t, "%s", fl_size_format(number(b, "used"), used));
        table_cell(&t, "%s", fl_size_format(number(b, "peak"), peak));
        table_cell(&t, "%" PRIu64, number(b, "waits"));
    }
    table_print(&t, stdout, 0);
}

/* ---- list ---- */

static void show_namespaces(const json_t *list)
{
    char size[FL_SIZE_TEXT_LEN], reads[FL_SIZE_TEXT_LEN], writes[FL_SIZE_TEXT_LEN];
    struct table t;
    json_t *ns;
    size_t i;

    if (json_array_size(list) == 0) {
        printf("  no namespace\n");
        return;
    }
    table_init(&t, ">NSID", ">SIZE", ">BLOCK", ">READ", ">WRITTEN", ">ERRORS", "STATE", "STANDS ON", NULL);
    json_array_foreach((json_t *)list, i, ns)
    {
        const json_t *io = json_object_get(ns, "io");

        table_cell(&t, "%" PRIu64, number(ns, "nsid"));
        table_cell(&t, "%s", fl_size_format(number(ns, "size"), size));
        table_cell(&t, "%" PRIu64, number(ns, "block"));
        table_cell(&t, "%s", fl_size_format(number(io, "read_bytes"), reads));
        table_cell(&t, "%s", fl_size_format(number(io, "write_bytes"), writes));
        table_cell(&t, "%" PRIu64, number(io, "errors"));
        table_cell(&t, "%s%s", text(ns, "state"), truth(ns, "reserved") ? ", reserved" : "");
        table_cell(&t, "%s", text(ns, "spec"));
    }
    table_print(&t, stdout, 2);
}

static void show_listeners(const json_t *list)
{
    struct table t;
    json_t *l;
    size_t i;

    heading("listeners");
    if (json_array_size(list) == 0) {
        printf("  none: farlane ctl listener add tcp://ADDR\n");
        return;
    }
    table_init(&t, ">ID", "URL", ">CONNECTIONS", "STATE", NULL);
    json_array_foreach((json_t *)list, i, l)
    {
        table_cell(&t, "%" PRIu64, number(l, "id"));
        table_cell(&t, "%s", text(l, "url"));
        table_cell(&t, "%" PRIu64, number(l, "connections"));
        table_cell(&t, "%s%s%s", text(l, "state"), text(l, "reason")[0] ? ": " : "", text(l, "reason"));
    }
    table_print(&t, stdout, 2);
}

void ctl_show_list(const json_t *subsystems, const json_t *listeners)
{
    json_t *ss, *host;
    size_t i, j;

    json_array_foreach(json_object_get(subsystems, "subsystems"), i, ss)
    {
        printf("%s%s%s  serial %s, %s\n", term_on(stdout, TERM_BOLD), text(ss, "nqn"), term_off(stdout),
               text(ss, "serial"),
               truth(ss, "allow_any_host") ? "any host may connect" : "hosts that may connect:");
        if (!truth(ss, "allow_any_host") && json_array_size(json_object_get(ss, "hosts")) == 0)
            printf("  no host\n");
        json_array_foreach(json_object_get(ss, "hosts"), j, host)
            printf("  host %s\n", json_string_value(host));
        show_namespaces(json_object_get(ss, "namespaces"));
        putchar('\n');
    }
    show_listeners(json_object_get(listeners, "listeners"));
}

/* ---- connections ---- */

static const char *digests(const json_t *d)
{
    bool header = truth(d, "header"), data = truth(d, "data");

    return header && data ? "both" : header ? "header" : data ? "data" : "none";
}

static void show_queues(const json_t *list)
{
    char in[FL_SIZE_TEXT_LEN], out[FL_SIZE_TEXT_LEN];
    struct table t;
    json_t *q;
    size_t i;

    table_init(&t, ">QUEUE", "PEER", ">LOOP", ">DEPTH", ">ASKED", ">IN FLIGHT", "DIGESTS", "ASKED",
               ">RECEIVED", ">SENT", NULL);
    json_array_foreach((json_t *)list, i, q)
    {
        const json_t *depth = json_object_get(q, "depth"), *d = json_object_get(q, "digests"),
                     *bytes = json_object_get(q, "bytes");

        table_cell(&t, number(q, "queue") ? "%" PRIu64 : "admin", number(q, "queue"));
        table_cell(&t, "%s", text(q, "peer"));
        table_cell(&t, "%" PRIu64, number(q, "loop"));
        table_cell(&t, "%" PRIu64, number(depth, "used"));
        table_cell(&t, "%" PRIu64, number(depth, "asked"));
        table_cell(&t, "%" PRIu64, number(q, "in_flight"));
        table_cell(&t, "%s", digests(json_object_get(d, "used")));
        table_cell(&t, "%s", digests(json_object_get(d, "asked")));
        table_cell(&t, "%s", fl_size_format(number(bytes, "in"), in));
        table_cell(&t, "%s", fl_size_format(number(bytes, "out"), out));
    }
    table_print(&t, stdout, 2);
}

void ctl_show_connections(const json_t *connections)
{
    const json_t *list = json_object_get(connections, "controllers");
    json_t *c;
    size_t i;

    if (json_array_size(list) == 0)
        printf("No host is connected.\n");
    json_array_foreach((json_t *)list, i, c)
    {
        const json_t *queues = json_object_get(c, "queues");

        printf("%scontroller %" PRIu64 "%s of %s\n", term_on(stdout, TERM_BOLD), number(c, "controller"),
               term_off(stdout), text(c, "subsystem"));
        printf("  host %s, %s, keep-alive %.3g s, I/O queues: %" PRIu64 " asked, %" PRIu64
               " granted, %" PRIu64 " used\n",
               text(c, "host"), text(c, "state"), (double)number(c, "keep_alive_ms") / 1e3,
               number(queues, "asked"), number(queues, "granted"), number(queues, "used"));
        show_queues(json_object_get(c, "connections"));
        if (i + 1 < json_array_size(list))
            putchar('\n');
    }
}
