/* SPDX-License-Identifier: Apache-2.0 */
/* Who uses the software RNIC on this host, by which paths, and what was counted. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "rnic.h"
#include "term.h"

enum { OPT_JSON = 256, OPT_WATCH, OPT_PROMETHEUS, OPT_PID, OPT_QP };

static const struct cmd_option options[] = {
    {OPT_JSON, "json", NULL, "all that is known, as JSON; with --watch one line each time"},
    {OPT_WATCH, "watch", "SECONDS", "again and again, with rates, until interrupted"},
    {OPT_PID, "pid", "PID", "this process only"},
    {OPT_QP, "qp", "NUMBER", "stats: this queue pair only; 0x... as programs print it, or decimal"},
    {OPT_PROMETHEUS, "prometheus", NULL, "stats: as Prometheus reads them"},
    CMD_OPTION_END,
};

static int run_rnic(int argc, char **argv);

const struct cmd cmd_rnic = {
    .name = "rnic",
    .summary = "the software RNIC: devices, who uses it, which path each queue pair takes and why",
    .usage = "rnic [devices|qps|stats] [--json] [--watch SECONDS] [--pid PID]",
    .details =
        "Without a word: devices, processes and queue pairs.\n"
        "  devices   devices and ports with their GIDs, as programs here see them\n"
        "  qps       queue pairs of every process: state, peer, path, and why not a better one\n"
        "  stats     what processes and devices, or with --qp one queue pair, have counted\n"
        "Only a process's own user and root see more than that it is there. Processes in other network\n"
        "namespaces are not seen. Exit status of qps, stats and --pid: 5: no process uses the software RNIC, "
        "4: none that may be "
        "looked at.\n"
        "\n"
        "Examples:\n"
        "  farlane rnic\n"
        "  farlane rnic qps --watch 1\n"
        "  farlane rnic stats --prometheus > /var/lib/node_exporter/farlane.prom\n",
    .options = options,
    .run = run_rnic,
};

enum what { ALL, DEVICES, QPS, STATS };

struct rnic {
    enum what what;
    bool json, prometheus, has_what;
    uint64_t watch_s, pid, qpn;
};

/* ---- one look ---- */

static void show_json(const struct rnic *r, const struct rnic_look *look)
{
    json_t *json = json_object();

    if (r->what == ALL || r->what == DEVICES)
        json_object_set_new(json, "devices", rnic_json_devices());
    if (r->what != DEVICES) {
        json_object_set_new(json, "udp_port", json_integer(look->udp_port));
        json_object_set_new(json, "processes", rnic_json_processes(look));
    }
    json_dumpf(json, stdout, r->watch_s ? JSON_COMPACT : JSON_INDENT(2));
    putchar('\n');
    json_decref(json);
}

static bool any_details(const struct rnic_look *look)
{
    for (int i = 0; i < look->nr_processes; i++) {
        if (!look->processes[i].status)
            return true;
    }
    return false;
}

static int show_all(const struct rnic_look *look)
{
    rnic_show_devices();
    if (!look->nr_processes)
        return EXIT_OK;
    putchar('\n');
    rnic_show_processes(look);
    for (int i = 0; i < look->nr_processes; i++) {
        if (!look->processes[i].view.nr_qps)
            continue;
        putchar('\n');
        rnic_show_qps(look);
        break;
    }
    return EXIT_OK;
}

static int show_tables(const struct rnic *r, const struct rnic_look *look)
{
    switch (r->what) {
    case ALL:
        return show_all(look);
    case DEVICES:
        rnic_show_devices();
        return EXIT_OK;
    case QPS:
        rnic_show_qps(look);
        return EXIT_OK;
    case STATS:
        if (rnic_show_counters(look, (uint32_t)r->qpn) || !r->qpn || !any_details(look))
            return EXIT_OK;
        cmd_complain("there is no queue pair 0x%06llx (see: farlane rnic qps)", (unsigned long long)r->qpn);
        return EXIT_NOT_FOUND;
    }
    return EXIT_OK;
}

static int show(const struct rnic *r, const struct rnic_look *look)
{
    if (r->json) {
        show_json(r, look);
        return EXIT_OK;
    }
    if (r->prometheus) {
        rnic_prometheus(look);
        return EXIT_OK;
    }
    return show_tables(r, look);
}

/* Nothing to look at is a fault where queue pairs or counters are asked for, and else worth a word. */
static int one_look(const struct rnic *r, struct rnic_look *look, const struct rnic_look *before)
{
    struct fl_error err = {0};
    int rc = r->what == DEVICES ? 0 : rnic_look(look, (int)r->pid, before, &err), status;

    if (rc < 0 && (r->what != ALL || r->pid || rc != -ENOENT)) {
        if (r->json && rc == -ENOENT)
            show_json(r, look);
        return cmd_fail(&err, rc);
    }
    if (r->watch_s && term_is_tty(stdout))
        fputs("\033[H\033[2J", stdout);
    status = show(r, look);
    if (rc < 0 && !r->json)
        printf("\n%s\n", err.text);
    if (status != EXIT_OK || (r->what != QPS && r->what != STATS) || any_details(look))
        return status;
    rc = look->nr_processes ? look->processes[0].status : -ENOENT;
    if (rc == -ENOENT)
        cmd_complain("no process uses the software RNIC any more");
    else
        cmd_complain("process %d: %s", look->processes[0].pid, rnic_why(rc));
    return cmd_exit_status(rc);
}

static int look_on(const struct rnic *r)
{
    struct rnic_look now = {0}, before = {0};
    int status;

    for (;;) {
        status = one_look(r, &now, before.at_ns ? &before : NULL);
        rnic_look_free(&before);
        before = now;
        now = (struct rnic_look){0};
        if (!r->watch_s || status == EXIT_USAGE || fflush(stdout) || ferror(stdout))
            break;
        sleep((unsigned int)r->watch_s);
    }
    rnic_look_free(&before);
    return status;
}

/* ---- options ---- */

static int take_what(struct rnic *r, const char *text)
{
    static const char *const names[] = {"devices", "qps", "stats", NULL};
    const char *near;

    if (r->has_what)
        return cmd_usage(&cmd_rnic, "'%s' is too much", text);
    for (int i = 0; names[i]; i++) {
        if (!strcmp(names[i], text)) {
            r->what = (enum what)(DEVICES + i);
            r->has_what = true;
            return EXIT_OK;
        }
    }
    near = cmd_nearest(text, names);
    return near ? cmd_usage(&cmd_rnic, "there is no '%s'; did you mean '%s'?", text, near)
                : cmd_usage(&cmd_rnic, "there is no '%s'; allowed: devices, qps, stats", text);
}

/* As these tables and programs show it, or as --json does. */
static bool take_qp(const struct cmd_args *args, uint64_t *qpn)
{
    char *end;

    if (strncmp(args->arg, "0x", 2) && strncmp(args->arg, "0X", 2))
        return cmd_args_number(args, 2, 0xffffff, qpn);
    *qpn = strtoull(args->arg + 2, &end, 16);
    if (isxdigit((unsigned char)args->arg[2]) && !*end && *qpn >= 2 && *qpn <= 0xffffff)
        return true;
    cmd_usage(args->cmd, "--qp \"%.40s\" is not a number from 0x2 to 0xffffff", args->arg);
    return false;
}

static int check(const struct rnic *r)
{
    if ((r->prometheus || r->qpn) && r->what != STATS)
        return cmd_usage(&cmd_rnic, "--%s goes with 'stats'", r->prometheus ? "prometheus" : "qp");
    if (r->prometheus && (r->json || r->qpn || r->watch_s))
        return cmd_usage(&cmd_rnic, "--prometheus does not go with --%s",
                         r->json  ? "json"
                         : r->qpn ? "qp"
                                  : "watch");
    if (r->json && r->qpn)
        return cmd_usage(&cmd_rnic, "--json shows all queue pairs: it does not go with --qp");
    return EXIT_OK;
}

static int run_rnic(int argc, char **argv)
{
    struct rnic r = {0};
    struct cmd_args args;
    int id, status;

    cmd_args_init(&args, &cmd_rnic, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        bool good = true;

        switch (id) {
        case CMD_BAD:
        case CMD_HELP:
            return cmd_args_status(id);
        case OPT_JSON:
            r.json = true;
            break;
        case OPT_PROMETHEUS:
            r.prometheus = true;
            break;
        case OPT_WATCH:
            good = cmd_args_number(&args, 1, 86400, &r.watch_s);
            break;
        case OPT_PID:
            good = cmd_args_number(&args, 1, INT32_MAX, &r.pid);
            break;
        case OPT_QP:
            good = take_qp(&args, &r.qpn);
            break;
        default:
            good = take_what(&r, args.arg) == EXIT_OK;
        }
        if (!good)
            return EXIT_USAGE;
    }
    status = check(&r);
    return status == EXIT_OK ? look_on(&r) : status;
}
