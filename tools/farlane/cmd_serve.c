/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <stdlib.h>
#include <string.h>

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/log.h"
#include "base/size.h"
#include "base/util.h"
#include "cmd.h"
#include "control.h"
#include "serve_show.h"
#include "server.h"

enum {
    OPT_LISTEN = 256,
    OPT_NS,
    OPT_NQN,
    OPT_HOST,
    OPT_CONTROL,
    OPT_METRICS,
    OPT_CORES,
    OPT_POLL,
    OPT_SERIAL,
    OPT_MODEL,
    OPT_MDTS,
    OPT_CAPSULE,
    OPT_MAX_QUEUES,
    OPT_MAX_DEPTH,
    OPT_SHARED_RECEIVES,
    OPT_BUFFERS,
    OPT_STRICT,
    OPT_NO_HDGST,
    OPT_NO_DDGST,
    OPT_JSON,
    OPT_READY_FD,
    OPT_CHECK,
};

static const struct cmd_option options[] = {
    {'c', "config", "FILE", "configuration in YAML, see farlane.yaml(5); - is standard input"},
    {OPT_NS, "ns", "SPEC",
     "a namespace: ram:SIZE, null:SIZE or file:PATH, then ,bs=512|4096 and others; may be repeated"},
    {OPT_LISTEN, "listen", "tcp|rdma://ADDR[:PORT]",
     "where to listen, default tcp://127.0.0.1:4420; all addresses: tcp://0.0.0.0 (IPv4), tcp://[::] (IPv6); "
     "rdma://ADDR[:PORT]?dev=auto|soft|hardware|NAME chooses the RDMA device; may be repeated"},
    {OPT_NQN, "nqn", "NQN",
     "name of the subsystem that has the --ns, default nqn.2026-01.io.farlane:HOSTNAME"},
    {OPT_HOST, "host", "NQN", "let in this host; may be repeated. Without it any host may connect"},
    {OPT_CONTROL, "control", "SOCKET",
     "Unix socket of `farlane ctl`, or none; default: see farlane ctl --help"},
    {OPT_METRICS, "metrics", "[ADDR:]PORT",
     "Prometheus metrics at http://ADDR:PORT/metrics; ADDR is 127.0.0.1 unless given"},
    {OPT_CORES, "cores", "LIST",
     "one loop on each of these CPUs, as 0-3,8; default: half of the CPUs, at most 4 loops, not bound"},
    {OPT_POLL, "poll", "MODE",
     "adaptive (default: polls while there is work, then sleeps), busy (never sleeps), sleep"},
    {OPT_SERIAL, "serial", "TEXT", "serial number of the subsystem, up to 20 characters"},
    {OPT_MODEL, "model", "TEXT", "model of the subsystem, up to 40 characters"},
    {OPT_MDTS, "mdts", "SIZE", "largest transfer of one command, default 1M"},
    {OPT_CAPSULE, "capsule", "SIZE",
     "data that a write may carry in its command, default 128K (RDMA: 8K); 0: none"},
    {OPT_MAX_QUEUES, "max-queues", "N", "I/O queues of a host at most, default 64"},
    {OPT_MAX_DEPTH, "max-depth", "N", "entries of an I/O queue at most, default 128"},
    {OPT_SHARED_RECEIVES, "shared-receives", "N",
     "RDMA: receives for all I/O queues together, default 0: own ones"},
    {OPT_BUFFERS, "buffers", "SIZE",
     "memory for data on its way, all loops together, at least 1M (and 1M a loop)"},
    {OPT_STRICT, "strict", NULL, "fail if an address of --listen isn't there yet, instead of waiting for it"},
    {OPT_NO_HDGST, "no-hdgst", NULL, "--listen: refuse header digests"},
    {OPT_NO_DDGST, "no-ddgst", NULL, "--listen: refuse data digests"},
    {OPT_CHECK, "check", NULL, "only look at configuration and options, and say whether they are right"},
    {OPT_READY_FD, "ready-fd", "FD", "write a line to this descriptor and close it when hosts can connect"},
    {OPT_JSON, "json", NULL, "tell by one JSON object what is served"},
    CMD_OPTION_END,
};

/* What the command line says; lists are turned into one more subsystem, and listeners. */
struct serve_args {
    const char *file, *nqn, *serial, *model;
    struct config *over; /* settings and listeners that win over the file's */
    struct config_subsystem ss;
    bool json, check, strict, no_hdgst, no_ddgst;
    int ready_fd;
};

static bool take_count(const struct cmd_args *args, uint64_t min, uint64_t max, uint32_t **member)
{
    uint64_t v;

    if (!cmd_args_number(args, min, max, &v))
        return false;
    config_set_number(member, (uint32_t)v);
    return true;
}

/* Whoever waits for the line would wait for ever. */
static bool take_ready_fd(const struct cmd_args *args, int fd, struct serve_args *a)
{
    const int flags = fcntl(fd, F_GETFL);

    a->ready_fd = fd;
    if (flags >= 0 && (flags & O_ACCMODE) != O_RDONLY)
        return true;
    cmd_usage(args->cmd, "--ready-fd %d: this descriptor is %s", fd,
              flags < 0 ? "not open" : "not open for writing");
    return false;
}

static bool take_option(struct cmd_args *args, int id, struct serve_args *a)
{
    uint64_t v;

    switch (id) {
    case 'c':
        a->file = args->arg;
        return true;
    case OPT_NS:
        config_add_namespace(&a->ss, args->arg);
        return true;
    case OPT_LISTEN:
        config_add_listener(a->over, args->arg);
        return true;
    case OPT_NQN:
        a->nqn = args->arg;
        return true;
    case OPT_HOST:
        config_add_host(&a->ss, args->arg);
        return true;
    case OPT_CONTROL:
        config_set_text(&a->over->control, args->arg);
        return true;
    case OPT_METRICS:
        config_set_text(&a->over->metrics, args->arg);
        return true;
    case OPT_CORES:
        config_set_text(&a->over->cores, args->arg);
        return true;
    case OPT_POLL:
        config_set_text(&a->over->poll, args->arg);
        return true;
    case OPT_SERIAL:
        a->serial = args->arg;
        return true;
    case OPT_MODEL:
        a->model = args->arg;
        return true;
    case OPT_MDTS:
        config_set_text(&a->over->mdts, args->arg);
        return true;
    case OPT_CAPSULE:
        config_set_text(&a->over->capsule, args->arg);
        return true;
    case OPT_BUFFERS:
        config_set_text(&a->over->buffers, args->arg);
        return true;
    case OPT_MAX_QUEUES:
        return take_count(args, 1, 1024, &a->over->max_queues);
    case OPT_MAX_DEPTH:
        return take_count(args, 2, 1024, &a->over->max_depth);
    case OPT_SHARED_RECEIVES:
        return take_count(args, 0, 16384, &a->over->shared_receives);
    case OPT_STRICT:
        a->strict = true;
        return true;
    case OPT_NO_HDGST:
        a->no_hdgst = true;
        return true;
    case OPT_NO_DDGST:
        a->no_ddgst = true;
        return true;
    case OPT_JSON:
        a->json = true;
        return true;
    case OPT_CHECK:
        a->check = true;
        return true;
    case OPT_READY_FD:
        if (!cmd_args_number(args, 1, 1 << 20, &v))
            return false;
        return take_ready_fd(args, (int)v, a);
    default:
        cmd_usage(&cmd_serve, "'%s' is not an option; a namespace is given by --ns %s", args->arg, args->arg);
        return false;
    }
}

/* ---- options and file made one ---- */

static void replace(char **to, char **from)
{
    if (!*from)
        return;
    free(*to);
    *to = *from;
    *from = NULL;
}

static void replace_number(uint32_t **to, uint32_t **from)
{
    if (!*from)
        return;
    free(*to);
    *to = *from;
    *from = NULL;
}

static void override(struct config *c, struct config *over, struct config_marks *marks)
{
    const struct {
        const char *key;
        char **to, **from;
    } texts[] = {
        {"control", &c->control, &over->control}, {"metrics", &c->metrics, &over->metrics},
        {"cores", &c->cores, &over->cores},       {"poll", &c->poll, &over->poll},
        {"mdts", &c->mdts, &over->mdts},          {"capsule", &c->capsule, &over->capsule},
        {"buffers", &c->buffers, &over->buffers},
    };
    const struct {
        const char *key;
        uint32_t **to, **from;
    } numbers[] = {
        {"max_queues", &c->max_queues, &over->max_queues},
        {"max_depth", &c->max_depth, &over->max_depth},
        {"shared_receives", &c->shared_receives, &over->shared_receives},
    };
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(texts); i++) {
        if (*texts[i].from)
            config_mark_typed(marks, texts[i].key);
        replace(texts[i].to, texts[i].from);
    }
    for (i = 0; i < FL_ARRAY_LEN(numbers); i++) {
        if (*numbers[i].from)
            config_mark_typed(marks, numbers[i].key);
        replace_number(numbers[i].to, numbers[i].from);
    }
}

static void default_nqn(char *nqn, size_t len)
{
    char name[65] = "localhost", *p;

    gethostname(name, sizeof(name) - 1);
    for (p = name; *p; p++)
        *p = (char)(isalnum((unsigned char)*p) || *p == '-' || *p == '.' ? tolower((unsigned char)*p) : '-');
    snprintf(nqn, len, "nqn.2026-01.io.farlane:%s", name[0] ? name : "localhost");
}

static void add_listeners(struct serve_args *a, struct config *c, struct config_marks *marks)
{
    uint32_t i;

    if (a->over->nr_listeners || !c->nr_listeners) {
        config_drop_listeners(c);
        c->listeners = a->over->listeners;
        c->nr_listeners = a->over->nr_listeners;
        a->over->listeners = NULL;
        a->over->nr_listeners = 0;
        config_mark_typed(marks, "listeners");
        if (!c->nr_listeners)
            config_add_listener(c, "tcp://127.0.0.1:4420");
    }
    for (i = 0; i < c->nr_listeners; i++) {
        if (a->strict)
            config_set_bool(&c->listeners[i].strict, true);
        if (a->no_hdgst)
            config_set_bool(&c->listeners[i].hdgst, false);
        if (a->no_ddgst)
            config_set_bool(&c->listeners[i].ddgst, false);
    }
}

static void add_subsystem(struct serve_args *a, struct config *c, struct config_marks *marks)
{
    struct config_subsystem *ss;
    char nqn[224], path[32];

    if (!a->ss.nr_namespaces && !a->ss.nr_hosts && !a->nqn)
        return;
    default_nqn(nqn, sizeof(nqn));
    snprintf(path, sizeof(path), "subsystems[%u]", c->nr_subsystems);
    config_mark_typed(marks, path);
    ss = config_add_subsystem(c, a->nqn ? a->nqn : nqn);
    config_set_text(&ss->serial, a->serial);
    config_set_text(&ss->model, a->model);
    ss->namespaces = a->ss.namespaces;
    ss->nr_namespaces = a->ss.nr_namespaces;
    ss->hosts = a->ss.hosts;
    ss->nr_hosts = a->ss.nr_hosts;
    memset(&a->ss, 0, sizeof(a->ss));
}

static int make_config(struct serve_args *a, struct server *s, struct fl_error *err)
{
    int rc = 0;

    if (a->file)
        rc = config_load(a->file, &s->config, &s->marks, err);
    else
        s->config = config_create();
    if (rc < 0)
        return rc;
    s->config_file = a->file;
    override(s->config, a->over, &s->marks);
    add_listeners(a, s->config, &s->marks);
    add_subsystem(a, s->config, &s->marks);
    return 0;
}

/* ---- being ready, and the end ---- */

struct serve_signals {
    struct fl_watch watch;
    struct server *s;
    int count;
};

static void on_signal(struct fl_watch *watch, uint32_t events)
{
    struct serve_signals *signals = FL_CONTAINER_OF(watch, struct serve_signals, watch);
    struct signalfd_siginfo info;

    while (read(watch->fd, &info, sizeof(info)) == sizeof(info)) {
        if (info.ssi_signo == SIGHUP) {
            FL_WARN("SIGHUP changes nothing: use farlane ctl, or restart with the new file");
            continue;
        }
        if (signals->count++)
            _exit(128 + (int)info.ssi_signo); /* the second time: now */
        fl_loop_stop(signals->s->loops[0]);
    }
}

static int watch_signals(struct serve_signals *signals, struct server *s, struct fl_error *err)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    *signals = (struct serve_signals){.s = s};
    signals->watch.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    signals->watch.ready = on_signal;
    if (signals->watch.fd < 0)
        return fl_error_set(err, -errno, "cannot watch signals: %s", strerror(errno));
    return fl_watch_add(s->loops[0], &signals->watch, EPOLLIN);
}

/* systemd's readiness protocol: a datagram to the socket that the environment names. */
static void notify_manager(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    size_t len = path ? strlen(path) : 0;
    int fd;

    if (!len || len >= sizeof(addr.sun_path) || (path[0] != '/' && path[0] != '@'))
        return;
    memcpy(addr.sun_path, path, len);
    if (path[0] == '@')
        addr.sun_path[0] = 0;
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&addr,
               (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
        FL_WARN("cannot tell the service manager at %s: %s", path, strerror(errno));
    close(fd);
}

static void tell_ready(const struct serve_args *a)
{
    if (a->ready_fd > 0) {
        if (write(a->ready_fd, "ready\n", 6) != 6)
            FL_WARN("cannot write to --ready-fd %d: %s", a->ready_fd, strerror(errno));
        if (a->ready_fd > 2)
            close(a->ready_fd);
    }
    notify_manager("READY=1");
}

/* ---- control and metrics ---- */

struct serve_http {
    struct control_http *control, *metrics;
    char path[108], url[128];
};

/* The name beside `path` for a process of its own: /run/x.sock and /run/x become /run/x-PID.sock. */
static int name_beside(char *path, size_t len, struct fl_error *err)
{
    char *base = strrchr(path, '/'), *end = strrchr(base ? base : path, '.');
    size_t at = end ? (size_t)(end - path) : strlen(path);

    if (snprintf(path + at, len - at, "-%d.sock", (int)getpid()) >= (int)(len - at))
        return fl_error_set(err, -ENAMETOOLONG, "%s: too long for a socket's name", path);
    return 0;
}

static int start_control(struct server *s, struct serve_http *h, struct fl_error *err)
{
    const char *said = s->config->control;
    int rc;

    if (said && !strcmp(said, "none"))
        return 0;
    if (said) {
        if (snprintf(h->path, sizeof(h->path), "%s", said) >= (int)sizeof(h->path))
            h->path[0] = 0;
        return control_http_unix(s, said, &h->control, err);
    }
    rc = control_default_path(h->path, sizeof(h->path), true, err);
    if (rc == 0)
        rc = control_http_unix(s, h->path, &h->control, err);
    if (rc == -EADDRINUSE) { /* a second one beside it has a socket of its own */
        fl_error_clear(err);
        rc = name_beside(h->path, sizeof(h->path), err);
        if (rc == 0)
            rc = control_http_unix(s, h->path, &h->control, err);
    }
    if (rc < 0) { /* nobody asked for it: serve without */
        FL_WARN("no control socket: %s", err->text);
        fl_error_clear(err);
        h->path[0] = 0;
    }
    return 0;
}

static int start_http(struct server *s, struct serve_http *h, struct fl_error *err)
{
    int rc = start_control(s, h, err);

    if (rc < 0)
        return config_error_at(&s->marks, rc, err, "control");
    if (!s->config->metrics)
        return 0;
    rc = control_http_metrics(s, s->config->metrics, &h->metrics, h->url, sizeof(h->url), err);
    return rc < 0 ? config_error_at(&s->marks, rc, err, "metrics") : 0;
}

static void count_open(const struct config *c, struct serve_ways *ways)
{
    uint32_t i;

    for (i = 0; i < c->nr_subsystems; i++) {
        const struct config_subsystem *ss = &c->subsystems[i];

        if (!(ss->allow_any_host ? *ss->allow_any_host : ss->nr_hosts == 0))
            ways->nr_closed++;
        else if (ways->nr_open++ == 0)
            ways->open_nqn = ss->nqn;
    }
}

/* Whether farlane ctl takes this socket when nobody says which. */
static bool is_usual(const char *control)
{
    char usual[sizeof(((struct serve_http *)0)->path)];

    return control_default_path(usual, sizeof(usual), false, NULL) == 0 && !strcmp(usual, control);
}

static void show(struct server *s, const struct serve_args *a, const struct serve_http *h)
{
    struct serve_ways ways = {
        .control = h->control ? h->path : NULL,
        .control_is_usual = h->control && is_usual(h->path),
        .metrics_url = h->metrics ? h->url : NULL,
    };
    json_t *json;
    char *text;

    count_open(s->config, &ways);
    if (!a->json) {
        serve_show(s, &ways);
    } else {
        json = serve_show_json(s, &ways);
        text = json_dumps(json, JSON_COMPACT);
        puts(text ? text : "{}");
        free(text);
        json_decref(json);
    }
    if (fflush(stdout) == 0 && !ferror(stdout))
        return;
    /* It was closed by whoever started this, or is of no use: hosts are served all the same. */
    FL_WARN("cannot tell on standard output what is served: %s", strerror(errno));
    __fpurge(stdout);
    clearerr(stdout);
}

/* ---- all ---- */

static int serve(struct server *s, struct serve_args *a)
{
    struct serve_signals signals = {.watch.fd = -1};
    struct serve_http http = {0};
    struct fl_error err = {0};
    int rc, status;

    rc = server_start(s, &err);
    if (rc == 0)
        rc = watch_signals(&signals, s, &err);
    if (rc == 0)
        rc = start_http(s, &http, &err);
    status = rc < 0 ? cmd_fail(&err, rc) : EXIT_OK;
    if (rc == 0 && a->check) {
        printf("The configuration is right.\n");
    } else if (rc == 0) {
        server_settle(s);
        show(s, a, &http);
        tell_ready(a);
        rc = server_run(s);
        if (rc < 0)
            cmd_complain("the event loop broke: %s", strerror(-rc)), status = EXIT_FAILED;
        notify_manager("STOPPING=1");
    }
    if (server_drain(s, 10000) < 0) {
        cmd_complain("some I/O did not end within 10 s; ending without it");
        if (http.control)
            unlink(http.path);
        _exit(EXIT_FAILED);
    }
    control_http_stop(http.control);
    control_http_stop(http.metrics);
    if (signals.watch.loop)
        fl_watch_del(&signals.watch);
    if (signals.watch.fd >= 0)
        close(signals.watch.fd);
    server_free(s);
    return status;
}

static int take_args(struct serve_args *a, int argc, char **argv)
{
    struct cmd_args args;
    int id;

    cmd_args_init(&args, &cmd_serve, argc, argv);
    while ((id = cmd_args_next(&args)) != CMD_DONE) {
        if (id == CMD_BAD || id == CMD_HELP)
            return cmd_args_status(id) + 1;
        if (!take_option(&args, id, a))
            return EXIT_USAGE + 1;
    }
    if (a->file || a->ss.nr_namespaces || a->nqn)
        return 0;
    return cmd_usage(
               &cmd_serve,
               "nothing to serve: say --ns ram:1G, --ns file:PATH or -c FILE.yaml (or --nqn NQN, and add "
               "namespaces later with farlane ctl)") +
           1;
}

static int run(int argc, char **argv)
{
    struct serve_args a = {.over = config_create()};
    struct server s = {0};
    struct fl_error err = {0};
    int status = take_args(&a, argc, argv) - 1; /* -1: go on */
    int rc;

    if (status < 0) {
        rc = make_config(&a, &s, &err);
        status = rc < 0 ? cmd_fail(&err, rc) : serve(&s, &a);
    }
    add_subsystem(&a, a.over, &s.marks); /* what make_config did not take is freed with it */
    config_free(a.over);
    config_free(s.config);
    config_marks_free(&s.marks);
    return status;
}

const struct cmd cmd_serve = {
    .name = "serve",
    .summary = "serve files, RAM or a null device as NVMe namespaces over TCP and RDMA",
    .usage = "serve [-c FILE.yaml] [--ns SPEC]... [--listen tcp|rdma://ADDR[:PORT]]... [OPTIONS]",
    .details =
        "Runs as an ordinary user, without huge pages. SIGINT and SIGTERM let I/O in flight end and leave "
        "with status 0; SIGHUP\n"
        "changes nothing. Options win over the file; --ns, --nqn and --host make a subsystem beside those of "
        "the file.\n"
        "\n"
        "Examples:\n"
        "  farlane serve --ns ram:1G\n"
        "  farlane serve --ns file:/srv/disk.img,bs=4096 --listen tcp://0.0.0.0\n"
        "  farlane serve --ns file:/dev/nvme1n1 --listen 'tcp://[::]:4420' --cores 2-3 --metrics 9100\n"
        "  farlane serve -c /etc/farlane.yaml\n",
    .options = options,
    .run = run,
};
