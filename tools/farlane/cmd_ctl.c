/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"
#include "cmd.h"
#include "control.h"
#include "ctl.h"
#include "save_file.h"

enum {
    OPT_CONTROL = 256,
    OPT_JSON,
    OPT_NSID,
    OPT_UUID,
    OPT_ANA_GROUP,
    OPT_FORCE,
    OPT_DEADLINE,
    OPT_TIMEOUT,
    OPT_SERIAL,
    OPT_MODEL,
    OPT_HOST,
    OPT_ANY_HOST,
    OPT_NO_ANY_HOST,
    OPT_STRICT,
    OPT_NO_HDGST,
    OPT_NO_DDGST,
    OPT_KEEP,
    OPT_DISCONNECT
};

static const struct cmd_option options[] = {
    {OPT_CONTROL, "control", "SOCKET",
     "which farlane serve; default $FARLANE_CONTROL, else /run/farlane/control.sock for root and "
     "$XDG_RUNTIME_DIR/farlane/control.sock or /tmp/farlane-UID/control.sock for others"},
    {OPT_JSON, "json", NULL, "the answer as JSON"},
    {OPT_NSID, "nsid", "N", "ns add: number of the namespace, default the lowest free one"},
    {OPT_UUID, "uuid", "UUID", "ns add: identity, default what the file has, or a new one"},
    {OPT_ANA_GROUP, "ana-group", "N", "ns add, listener ana: group, default 1"},
    {OPT_FORCE, "force", NULL, "ns resize: shrink, too; save: replace a file that is no configuration"},
    {OPT_DEADLINE, "deadline", "SECONDS", "ns rm: wait so long for I/O in flight, default 30"},
    {OPT_TIMEOUT, "timeout", "SECONDS",
     "how long the server may leave a request unanswered, default 30; ns rm: on top of --deadline"},
    {OPT_SERIAL, "serial", "TEXT", "subsystem add: serial number"},
    {OPT_MODEL, "model", "TEXT", "subsystem add: model"},
    {OPT_HOST, "host", "NQN", "subsystem add: let in this host; may be repeated"},
    {OPT_ANY_HOST, "any-host", NULL, "subsystem set: let in every host"},
    {OPT_NO_ANY_HOST, "no-any-host", NULL, "subsystem add, set: only hosts that were added"},
    {OPT_STRICT, "strict", NULL, "listener add: fail if the address isn't there yet"},
    {OPT_NO_HDGST, "no-hdgst", NULL, "listener add: refuse header digests"},
    {OPT_NO_DDGST, "no-ddgst", NULL, "listener add: refuse data digests"},
    {OPT_KEEP, "keep", NULL, "host rm: what it has connected stays connected"},
    {OPT_DISCONNECT, "disconnect", NULL, "host rm: cut what it has connected (default)"},
    CMD_OPTION_END,
};

#define MAX_OPERANDS       6
#define DEFAULT_TIMEOUT_S  30
#define DEFAULT_DEADLINE_S 30 /* the server's */

struct ctl {
    char control[108];
    bool json, keep, disconnect, force;
    json_t *body; /* options that go into the request as they are */
    uint64_t deadline_s, timeout_s;
    const char *operand[MAX_OPERANDS];
    uint32_t nr_operands;
};

/* ---- answers ---- */

static int refused(const struct ctl_answer *answer)
{
    const json_t *e = json_object_get(answer->json, "error");
    const char *code = json_string_value(json_object_get(e, "code")),
               *message = json_string_value(json_object_get(e, "message"));

    cmd_complain("%s", message ? message : "the target refused, and did not say why");
    if (code && (!strcmp(code, "ENOENT") || !strcmp(code, "ENXIO")))
        return EXIT_NOT_FOUND;
    if (code && !strcmp(code, "EINVAL"))
        return EXIT_USAGE;
    if (code && (!strcmp(code, "EACCES") || !strcmp(code, "EPERM")))
        return EXIT_DENIED;
    return EXIT_FAILED;
}

static void print_json(const struct ctl_answer *answer)
{
    json_dumpf(answer->json, stdout, JSON_INDENT(2));
    putchar('\n');
}

/* EXIT_OK: the answer is good, and to be freed; else all is done. */
static int ask(struct ctl *c, const char *method, const char *path, const json_t *body,
               struct ctl_answer *answer)
{
    /* A removal waits for I/O to end, and only then answers. */
    const uint64_t waits_s = strcmp(method, "DELETE") ? 0
                             : c->deadline_s          ? c->deadline_s
                                                      : DEFAULT_DEADLINE_S;
    struct fl_error err = {0};
    int rc = ctl_request(c->control, method, path, body, (uint32_t)(c->timeout_s + waits_s), answer, &err);
    int status;

    if (rc < 0)
        return cmd_fail(&err, rc);
    if (answer->http < 300)
        return EXIT_OK;
    status = refused(answer);
    ctl_answer_free(answer);
    return status;
}

static void said_listener(const json_t *json, const char *said)
{
    const char *state = json_string_value(json_object_get(json, "state")),
               *reason = json_string_value(json_object_get(json, "reason"));

    printf("%s: id %lld", said, (long long)json_integer_value(json_object_get(json, "id")));
    if (state && strcmp(state, "listening"))
        printf(", %s%s%s", state, reason && *reason ? ": " : "", reason ? reason : "");
    putchar('\n');
}

/* A change: says what was done, or shows the answer. */
static int change(struct ctl *c, const char *method, const char *path, const json_t *body, const char *said)
{
    struct ctl_answer answer;
    const char *warning;
    int status = ask(c, method, path, body, &answer);

    if (status != EXIT_OK)
        return status;
    warning = json_string_value(json_object_get(answer.json, "warning"));
    if (c->json)
        print_json(&answer);
    else if (json_object_get(answer.json, "nsid"))
        printf("%s: nsid %lld\n", said, (long long)json_integer_value(json_object_get(answer.json, "nsid")));
    else if (json_object_get(answer.json, "id"))
        said_listener(answer.json, said);
    else
        printf("%s\n", said);
    if (warning)
        fprintf(stderr, "farlane: note: %s\n", warning);
    ctl_answer_free(&answer);
    return EXIT_OK;
}

/* ---- operands ---- */

/* The subsystem: the first operand if it is an NQN and more than `needed` follow, else the only one that
 * there is. */
static int take_subsystem(struct ctl *c, uint32_t *at, uint32_t needed, char *path, size_t len)
{
    struct ctl_answer answer;
    const json_t *list;
    int status;

    snprintf(path, len, "/v1/subsystems/");
    if (c->nr_operands - *at > needed) {
        ctl_path_add(path, len, c->operand[(*at)++]);
        return EXIT_OK;
    }
    status = ask(c, "GET", "/v1/subsystems", NULL, &answer);
    if (status != EXIT_OK)
        return status;
    list = json_object_get(answer.json, "subsystems");
    if (json_array_size(list) == 1)
        ctl_path_add(path, len, json_string_value(json_object_get(json_array_get(list, 0), "nqn")));
    else
        status = cmd_usage(&cmd_ctl, "there are %zu subsystems: say the NQN of the one that is meant",
                           json_array_size(list));
    ctl_answer_free(&answer);
    return status;
}

static bool has_operands(const struct ctl *c, uint32_t at, uint32_t least, uint32_t most)
{
    return c->nr_operands >= at + least && c->nr_operands <= at + most;
}

/* ---- commands ---- */

static int ns(struct ctl *c, const char *verb)
{
    char path[1024], *spec;
    uint32_t at = 2;
    int status;

    if (!strcmp(verb, "add") && has_operands(c, at, 1, 2)) {
        status = take_subsystem(c, &at, 1, path, sizeof(path));
        if (status != EXIT_OK)
            return status;
        strcat(path, "/namespaces");
        spec = config_absolute_spec(c->operand[at]); /* the server may run in another folder */
        json_object_set_new(c->body, "spec", json_string(spec));
        free(spec);
        return change(c, "POST", path, c->body, "namespace added");
    }
    if (!strcmp(verb, "rm") && has_operands(c, at, 1, 2)) {
        status = take_subsystem(c, &at, 1, path, sizeof(path));
        if (status != EXIT_OK)
            return status;
        strcat(path, "/namespaces/");
        ctl_path_add(path, sizeof(path) - 32, c->operand[at]);
        if (c->deadline_s)
            snprintf(path + strlen(path), 32, "?deadline_ms=%llu", (unsigned long long)c->deadline_s * 1000);
        return change(c, "DELETE", path, NULL, "namespace removed");
    }
    if (!strcmp(verb, "resize") && has_operands(c, at, 2, 3)) {
        status = take_subsystem(c, &at, 2, path, sizeof(path));
        if (status != EXIT_OK)
            return status;
        strcat(path, "/namespaces/");
        ctl_path_add(path, sizeof(path), c->operand[at]);
        json_object_set_new(c->body, "size", json_string(c->operand[at + 1]));
        return change(c, "PATCH", path, c->body, "namespace resized");
    }
    return cmd_usage(
        &cmd_ctl,
        "ns add [NQN] SPEC, ns rm [NQN] NSID, ns resize [NQN] NSID SIZE (or 'file': what the file has)");
}

static int subsystem(struct ctl *c, const char *verb)
{
    char path[1024] = "/v1/subsystems/";

    if (!has_operands(c, 2, 1, 1))
        return cmd_usage(&cmd_ctl,
                         "subsystem add NQN, subsystem rm NQN, subsystem set NQN --any-host|--no-any-host");
    ctl_path_add(path, sizeof(path), c->operand[2]);
    if (!strcmp(verb, "add")) {
        json_object_set_new(c->body, "nqn", json_string(c->operand[2]));
        return change(c, "POST", "/v1/subsystems", c->body, "subsystem added");
    }
    if (!strcmp(verb, "rm"))
        return change(c, "DELETE", path, NULL, "subsystem removed");
    if (!strcmp(verb, "set"))
        return change(c, "PATCH", path, c->body, "subsystem changed");
    return cmd_usage(&cmd_ctl, "there is no 'subsystem %s'; allowed: add, rm, set", verb);
}

/* An operand of digits is the ID, another one the URL. */
static int listener_path(struct ctl *c, const char *which, char *path, size_t len)
{
    struct ctl_answer answer;
    json_t *l;
    size_t i;
    int status;

    if (which[strspn(which, "0123456789")] == 0) {
        snprintf(path, len, "/v1/listeners/%s", which);
        return EXIT_OK;
    }
    status = ask(c, "GET", "/v1/listeners", NULL, &answer);
    if (status != EXIT_OK)
        return status;
    path[0] = 0;
    json_array_foreach(json_object_get(answer.json, "listeners"), i, l)
    {
        if (!strcmp(json_string_value(json_object_get(l, "url")), which))
            snprintf(path, len, "/v1/listeners/%lld",
                     (long long)json_integer_value(json_object_get(l, "id")));
    }
    ctl_answer_free(&answer);
    if (path[0])
        return EXIT_OK;
    cmd_complain("there is no listener %s (see: farlane ctl list)", which);
    return EXIT_NOT_FOUND;
}

static int listener(struct ctl *c, const char *verb)
{
    char path[128];
    int status;

    if (!strcmp(verb, "add") && has_operands(c, 2, 1, 1)) {
        json_object_set_new(c->body, "address", json_string(c->operand[2]));
        return change(c, "POST", "/v1/listeners", c->body, "listener added");
    }
    if (!strcmp(verb, "rm") && has_operands(c, 2, 1, 1)) {
        status = listener_path(c, c->operand[2], path, sizeof(path));
        return status == EXIT_OK ? change(c, "DELETE", path, NULL, "listener removed") : status;
    }
    if (!strcmp(verb, "ana") && has_operands(c, 2, 2, 2)) {
        status = listener_path(c, c->operand[2], path, sizeof(path));
        if (status != EXIT_OK)
            return status;
        json_object_set_new(c->body, "ana_state", json_string(c->operand[3]));
        return change(c, "PATCH", path, c->body, "ANA state set");
    }
    return cmd_usage(&cmd_ctl,
                     "listener add tcp|rdma://ADDR[:PORT], listener rm ID|URL, listener ana ID|URL STATE");
}

static int host(struct ctl *c, const char *verb)
{
    char path[1024];
    uint32_t at = 2;
    int status;

    if ((strcmp(verb, "add") && strcmp(verb, "rm")) || !has_operands(c, at, 1, 2))
        return cmd_usage(&cmd_ctl, "host add [NQN] HOSTNQN, host rm [NQN] HOSTNQN [--keep|--disconnect]");
    if (c->keep && c->disconnect)
        return cmd_usage(&cmd_ctl, "--keep and --disconnect exclude each other");
    status = take_subsystem(c, &at, 1, path, sizeof(path));
    if (status != EXIT_OK)
        return status;
    strcat(path, "/hosts");
    if (!strcmp(verb, "add")) {
        json_object_set_new(c->body, "nqn", json_string(c->operand[at]));
        return change(c, "POST", path, c->body, "host added");
    }
    strcat(path, "/");
    ctl_path_add(path, sizeof(path) - 8, c->operand[at]);
    if (c->keep)
        strcat(path, "?keep=1");
    return change(c, "DELETE", path, NULL,
                  c->keep ? "host removed" : "host removed, its connections are cut");
}

static int show(struct ctl *c, const char *path, void (*print)(const json_t *json))
{
    struct ctl_answer answer;
    int status = ask(c, "GET", path, NULL, &answer);

    if (status != EXIT_OK)
        return status;
    if (c->json || !print)
        answer.json ? print_json(&answer) : (void)fwrite(answer.body, 1, answer.len, stdout);
    else
        print(answer.json);
    ctl_answer_free(&answer);
    return EXIT_OK;
}

static int list(struct ctl *c)
{
    struct ctl_answer subsystems, listeners;
    int status = ask(c, "GET", "/v1/subsystems", NULL, &subsystems);

    if (status != EXIT_OK)
        return status;
    status = ask(c, "GET", "/v1/listeners", NULL, &listeners);
    if (status == EXIT_OK && c->json) {
        json_object_update(subsystems.json, listeners.json);
        print_json(&subsystems);
    } else if (status == EXIT_OK) {
        ctl_show_list(subsystems.json, listeners.json);
    }
    ctl_answer_free(&subsystems);
    if (status == EXIT_OK)
        ctl_answer_free(&listeners);
    return status;
}

/* ---- save ---- */

/* One that says something: a file of comments alone is a text as any other. */
static bool is_config(const char *path)
{
    struct config_marks marks = {0};
    struct config *config = NULL;
    const bool is_one = config_load(path, &config, &marks, NULL) == 0 && marks.nr > 0;

    config_free(config);
    config_marks_free(&marks);
    return is_one;
}

static int write_file(struct ctl *c, const char *path, const struct ctl_answer *answer)
{
    static const struct save_kind kind = {"farlane configuration", is_config};
    struct fl_error err = {0};
    struct save_file file;
    int rc = save_file_begin(&file, path, &kind, c->force, &err);

    if (rc == 0) {
        fwrite(answer->body, 1, answer->len, file.f);
        rc = save_file_end(&file, true, &err);
    }
    if (rc < 0)
        return cmd_fail(&err, rc);
    printf("saved; farlane serve -c %s brings it back\n", path);
    return EXIT_OK;
}

static int save(struct ctl *c)
{
    const char *path = c->nr_operands > 1 ? c->operand[1] : "-";
    struct ctl_answer answer;
    int status;

    if (c->nr_operands > 2)
        return cmd_usage(&cmd_ctl, "save [FILE]: '%s' is too much", c->operand[2]);
    status = ask(c, "GET", "/v1/config", NULL, &answer);
    if (status != EXIT_OK)
        return status;
    if (!strcmp(path, "-")) {
        fwrite(answer.body, 1, answer.len, stdout);
    } else {
        status = write_file(c, path, &answer);
    }
    ctl_answer_free(&answer);
    return status;
}

/* ---- options and the rest ---- */

static bool take_option(const struct cmd_args *args, int id, struct ctl *c)
{
    uint64_t v;

    switch (id) {
    case OPT_CONTROL:
        if (strlen(args->arg) < sizeof(c->control)) {
            strcpy(c->control, args->arg);
            return true;
        }
        cmd_usage(args->cmd, "--control: a socket's path has up to %zu characters", sizeof(c->control) - 1);
        return false;
    case OPT_JSON:
        c->json = true;
        return true;
    case OPT_KEEP:
        c->keep = true;
        return true;
    case OPT_DISCONNECT:
        c->disconnect = true;
        return true;
    case OPT_DEADLINE:
        return cmd_args_number(args, 1, 500, &c->deadline_s);
    case OPT_TIMEOUT:
        return cmd_args_number(args, 1, 86400, &c->timeout_s);
    case OPT_NSID:
    case OPT_ANA_GROUP:
        if (!cmd_args_number(args, 1, UINT32_MAX - 1, &v))
            return false;
        json_object_set_new(c->body, id == OPT_NSID ? "nsid" : "ana_group", json_integer((json_int_t)v));
        return true;
    case OPT_UUID:
        json_object_set_new(c->body, "uuid", json_string(args->arg));
        return true;
    case OPT_SERIAL:
        json_object_set_new(c->body, "serial", json_string(args->arg));
        return true;
    case OPT_MODEL:
        json_object_set_new(c->body, "model", json_string(args->arg));
        return true;
    case OPT_FORCE:
        c->force = true;
        json_object_set_new(c->body, "force", json_true());
        return true;
    case OPT_STRICT:
        json_object_set_new(c->body, "strict", json_true());
        return true;
    case OPT_NO_HDGST:
        json_object_set_new(c->body, "hdgst", json_false());
        return true;
    case OPT_NO_DDGST:
        json_object_set_new(c->body, "ddgst", json_false());
        return true;
    case OPT_ANY_HOST:
        json_object_set_new(c->body, "allow_any_host", json_true());
        return true;
    case OPT_NO_ANY_HOST:
        json_object_set_new(c->body, "allow_any_host", json_false());
        return true;
    case OPT_HOST:
        if (!json_object_get(c->body, "hosts"))
            json_object_set_new(c->body, "hosts", json_array());
        json_array_append_new(json_object_get(c->body, "hosts"), json_string(args->arg));
        return true;
    default:
        break;
    }
    if (c->nr_operands == MAX_OPERANDS) {
        cmd_usage(args->cmd, "'%s' is too much", args->arg);
        return false;
    }
    c->operand[c->nr_operands++] = args->arg;
    return true;
}

static int dispatch(struct ctl *c)
{
    static const char *const names[] = {"list", "status",    "connections", "save", "metrics",
                                        "ns",   "subsystem", "listener",    "host", NULL};
    const char *what = c->operand[0], *verb = c->nr_operands > 1 ? c->operand[1] : "", *near;

    if (!strcmp(verb, "remove") || !strcmp(verb, "delete") || !strcmp(verb, "del"))
        verb = "rm";
    if (!strcmp(what, "ns"))
        return ns(c, verb);
    if (!strcmp(what, "subsystem"))
        return subsystem(c, verb);
    if (!strcmp(what, "listener"))
        return listener(c, verb);
    if (!strcmp(what, "host"))
        return host(c, verb);
    if (!strcmp(what, "save"))
        return save(c);
    if (c->nr_operands > 1)
        return cmd_usage(&cmd_ctl, "'%s' is too much after %s", verb, what);
    if (!strcmp(what, "list"))
        return list(c);
    if (!strcmp(what, "status"))
        return show(c, "/v1/status", ctl_show_status);
    if (!strcmp(what, "connections"))
        return show(c, "/v1/connections", ctl_show_connections);
    if (!strcmp(what, "metrics"))
        return show(c, "/metrics", NULL);
    near = cmd_nearest(what, names);
    return near ? cmd_usage(&cmd_ctl, "there is no '%s'; did you mean '%s'?", what, near)
                : cmd_usage(&cmd_ctl,
                            "there is no '%s'; allowed: list, status, connections, save, metrics, ns, "
                            "subsystem, listener, host",
                            what);
}

static int run(int argc, char **argv)
{
    struct ctl c = {.body = json_object(), .timeout_s = DEFAULT_TIMEOUT_S};
    struct fl_error err = {0};
    struct cmd_args args;
    int id, rc, status;

    cmd_args_init(&args, &cmd_ctl, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        if (id == CMD_BAD || id == CMD_HELP || !take_option(&args, id, &c)) {
            json_decref(c.body);
            return id == CMD_HELP ? EXIT_OK : EXIT_USAGE;
        }
    }
    rc = c.control[0] || !c.nr_operands ? 0 : control_default_path(c.control, sizeof(c.control), false, &err);
    if (!c.nr_operands)
        status = cmd_usage(&cmd_ctl, "do what? farlane %s", cmd_ctl.usage);
    else
        status = rc < 0 ? cmd_fail(&err, -ECONNREFUSED) : dispatch(&c);
    json_decref(c.body);
    return status;
}

const struct cmd cmd_ctl = {
    .name = "ctl",
    .summary = "look at and change what a running `farlane serve` does",
    .usage = "ctl [--control SOCKET] list|status|connections|save|metrics|ns|subsystem|listener|host ...",
    .details =
        "What to do:\n"
        "  list                                    subsystems, namespaces, hosts, listeners\n"
        "  status                                  the process, its loops and buffers\n"
        "  connections                             who is connected; what was asked, granted and used\n"
        "  save [FILE] [--force]                   the configuration as it is now, as YAML (farlane serve -c "
        "FILE)\n"
        "  metrics                                 as Prometheus reads them\n"
        "  ns add [NQN] SPEC                       SPEC as for farlane serve --ns\n"
        "  ns resize [NQN] NSID SIZE               SIZE 'file': what the file has now\n"
        "  ns rm [NQN] NSID\n"
        "  subsystem add|rm NQN\n"
        "  subsystem set NQN --any-host|--no-any-host\n"
        "  listener add tcp|rdma://ADDR[:PORT]\n"
        "  listener rm ID|URL\n"
        "  listener ana ID|URL STATE               optimized, non-optimized, inaccessible\n"
        "  host add [NQN] HOSTNQN\n"
        "  host rm [NQN] HOSTNQN [--keep]\n"
        "NQN may be left out while there is one subsystem. The same by HTTP: docs/control.md.\n",
    .options = options,
    .run = run,
};
