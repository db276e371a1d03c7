/* SPDX-License-Identifier: Apache-2.0 */
/* What is wrong with this machine's set-up for fabrics, and how to mend it. Reads only. */
#include <errno.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd.h"
#include "doctor/check.h"
#include "doctor/peer.h"
#include "doctor/snapshot.h"

enum { OPT_JSON = 256, OPT_FIX, OPT_LIST, OPT_PLAN, OPT_DURING, OPT_CHECK, OPT_PEER, OPT_LISTEN };

static const struct cmd_option options[] = {
    {OPT_JSON, "json", NULL, "the report as JSON"},
    {OPT_FIX, "fix", NULL, "print the remedies as a script, for you to read and run; runs nothing"},
    {'a', "all", NULL, "also what was found right, and what is not there"},
    {OPT_PLAN, "plan", "SIZE", "memory that shall be registered, default 1G"},
    {OPT_DURING, "during", "SECONDS", "judge counters by what they grow in that time, while your load runs"},
    {OPT_PEER, "peer", "HOST[:PORT]",
     "compare with a machine where a doctor listens, and prove each path to it"},
    {OPT_LISTEN, "listen", "ADDRESS[:PORT]",
     "answer the doctor of another machine, until interrupted; port 4419"},
    {OPT_CHECK, "check", "ID", "only this check"},
    {OPT_LIST, "list", NULL, "every check: its question and how it is answered"},
    CMD_OPTION_END,
};

static int run_doctor(int argc, char **argv);

const struct cmd cmd_doctor = {
    .name = "doctor",
    .summary = "what is wrong with this machine's set-up, why, and what mends it",
    .usage = "doctor [--json | --fix] [--all] [--plan SIZE] [--during SECONDS | --peer HOST] [--check ID]\n"
             "       farlane doctor --listen ADDRESS",
    .details =
        "Reads only, and needs no root; what a user may not see is said. Each finding has evidence, cause,\n"
        "remedy, and how sure it is. 'hint' is no fault.\n"
        "Exit status: 0 nothing is bad or slow, 1 something is, 2 wrong usage or no report.\n"
        "\n"
        "Examples:\n"
        "  farlane doctor --all\n"
        "  farlane doctor --plan 64G --fix > mend.sh    # read it, run it, then farlane doctor again\n"
        "  farlane doctor --listen 10.0.0.1             # and on the other machine:\n"
        "  farlane doctor --peer 10.0.0.1\n"
        "  farlane doctor --json | jq '.findings[] | select(.level == \"bad\")'\n",
    .options = options,
    .run = run_doctor,
};

struct wish {
    bool json, fix, all, list;
    uint64_t plan_len, during_s;
    const char *check, *peer, *listen;
};

static int parse(struct wish *w, int argc, char **argv, bool *go)
{
    struct cmd_args args;
    int id;

    *go = false;
    cmd_args_init(&args, &cmd_doctor, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        switch (id) {
        case OPT_JSON:
            w->json = true;
            break;
        case OPT_FIX:
            w->fix = true;
            break;
        case 'a':
            w->all = true;
            break;
        case OPT_LIST:
            w->list = true;
            break;
        case OPT_PLAN:
            if (!cmd_args_size(&args, &w->plan_len))
                return EXIT_USAGE;
            break;
        case OPT_DURING:
            if (!cmd_args_number(&args, 1, 3600, &w->during_s))
                return EXIT_USAGE;
            break;
        case OPT_PEER:
            w->peer = args.arg;
            break;
        case OPT_LISTEN:
            w->listen = args.arg;
            break;
        case OPT_CHECK:
            w->check = args.arg;
            break;
        case CMD_OPERAND:
            return cmd_usage(&cmd_doctor, "'%s' is too much: it takes no operand", args.arg);
        default:
            return cmd_args_status(id);
        }
    }
    if (w->json && w->fix)
        return cmd_usage(&cmd_doctor, "--json and --fix are two forms of one report: choose one");
    if (w->peer && (w->during_s || w->check))
        return cmd_usage(
            &cmd_doctor,
            "--peer makes a load of its own, and all checks belong to it: leave out --during and --check");
    *go = true;
    return EXIT_OK;
}

/* A check that can be run by itself, or NULL with a message */
static bool is_check(const char *id)
{
    for (size_t i = 0; i < nr_doctor_checks; i++)
        if (!strcmp(doctor_checks[i].id, id) && doctor_checks[i].run)
            return true;
    cmd_usage(&cmd_doctor, "there is no check '%s' to run; --list names them all", id);
    return false;
}

/* Looks at the counters before and after what makes a load: the user's, or the transfers to the peer. */
static int load(struct doctor *d, const struct wish *w, struct snapshot looks[2])
{
    const struct timespec pause = {.tv_sec = (time_t)w->during_s};
    struct fl_error err = {0};
    struct fl_addr peer;

    if (snapshot_take(d->sys, &looks[0]) < 0)
        return -ENOMEM;
    if (w->peer) {
        d->peer = peer_resolve(w->peer, &peer, &d->peer_addr, &err) ? w->peer : NULL;
        peer_ask(d, w->peer);
    } else {
        nanosleep(&pause, NULL);
        d->load_s = (double)w->during_s;
    }
    if (snapshot_take(d->sys, &looks[1]) < 0) {
        snapshot_free(&looks[0]);
        return -ENOMEM;
    }
    d->before = &looks[0];
    d->after = &looks[1];
    return 0;
}

static volatile int stop;

static void take_signal(int signo)
{
    stop = 1;
}

static int serve(const struct sys *sys, const char *address)
{
    const struct sigaction action = {.sa_handler = take_signal};
    struct fl_error err = {0};
    int r;

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    r = peer_serve(sys, address, &stop, &err);
    if (r < 0) {
        cmd_complain("%s", err.text);
        return EXIT_USAGE;
    }
    return EXIT_OK;
}

static int show(const struct doctor *d, const struct wish *w)
{
    if (d->broken) {
        cmd_complain("no memory for the report");
        return EXIT_USAGE;
    }
    if (w->fix) {
        doctor_script(d, stdout);
    } else if (w->json) {
        json_t *report = doctor_json(d);

        if (!report || json_dumpf(report, stdout, JSON_INDENT(2)) < 0) {
            json_decref(report);
            return EXIT_USAGE;
        }
        json_decref(report);
        putchar('\n');
    } else {
        doctor_show(d, stdout, w->all);
    }
    return doctor_count(d, LEVEL_BAD) || doctor_count(d, LEVEL_SLOW) ? EXIT_FAILED : EXIT_OK;
}

static int run_doctor(int argc, char **argv)
{
    const struct sys sys = {.root = "", .ops = &sys_live_ops};
    struct wish w = {.plan_len = 1u << 30};
    struct snapshot looks[2] = {0};
    struct doctor d = {.sys = &sys};
    bool go;
    int status = parse(&w, argc, argv, &go);

    if (!go)
        return status;
    if (w.list) {
        doctor_show_table(stdout);
        return EXIT_OK;
    }
    if (w.listen)
        return serve(&sys, w.listen);
    if (w.check && !is_check(w.check))
        return EXIT_USAGE;
    d.plan_len = w.plan_len;
    if ((w.during_s || w.peer) && load(&d, &w, looks) < 0) {
        cmd_complain("no memory");
        return EXIT_USAGE;
    }
    doctor_run(&d, w.check);
    status = show(&d, &w);
    doctor_free(&d);
    snapshot_free(&looks[0]);
    snapshot_free(&looks[1]);
    return status;
}
