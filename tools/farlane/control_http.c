/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd, turned by the control loop through its epoll descriptor: no thread of its own. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <microhttpd.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/address.h"
#include "base/clock.h"
#include "base/list.h"
#include "base/util.h"
#include "control.h"

#define MAX_CONNECTIONS 64u
/* With more than this, whoever has been silent longest makes room: connections that ask nothing must not keep
 * others out. */
#define MANY_CONNECTIONS 32u
#define IDLE_TIMEOUT_S   30u
#define BACKLOG          128

struct control_http {
    struct server *s;
    struct MHD_Daemon *daemon;
    struct fl_watch watch;
    struct fl_timer timer;
    struct fl_list clients; /* connections, the one that was silent longest first */
    uint32_t nr_clients;
    struct fl_list waiting; /* requests whose change has not ended */
    char path[108];         /* to unlink; "": TCP, which shows metrics only */
    bool metrics_only;
};

struct client {
    struct control_http *http;
    struct MHD_Connection *connection;
    struct fl_list link;
    bool waits; /* for a change that has not ended */
    bool shut;
};

struct request {
    struct control_http *http;
    struct MHD_Connection *connection;
    struct client *client; /* NULL: there was no memory to keep account of it */
    char *body;
    size_t body_len;
    bool too_large, executed;
    struct fl_list link; /* while it waits */
    struct control_op op;
    struct control_reply reply;
};

/* ---- turning ---- */

static void turn(struct control_http *http)
{
    MHD_UNSIGNED_LONG_LONG ms;

    MHD_run(http->daemon);
    if (MHD_get_timeout(http->daemon, &ms) == MHD_YES)
        fl_timer_set(http->s->loops[0], &http->timer, fl_now_ns() + ms * FL_NS_PER_MS + 1);
    else
        fl_timer_cancel(&http->timer);
}

static void on_ready(struct fl_watch *watch, uint32_t events)
{
    turn(FL_CONTAINER_OF(watch, struct control_http, watch));
}

static void on_timer(struct fl_timer *timer)
{
    turn(FL_CONTAINER_OF(timer, struct control_http, timer));
}

/* ---- connections ---- */

/* libmicrohttpd closes it when it reads the end. */
static void shut(struct client *c)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(c->connection,
                                                                   MHD_CONNECTION_INFO_CONNECTION_FD);

    c->shut = true;
    if (info)
        shutdown(info->connect_fd, SHUT_RDWR);
}

static void make_room(struct control_http *http)
{
    uint32_t nr = http->nr_clients;
    struct client *c;

    fl_list_for_each (c, &http->clients, link) {
        if (nr <= MANY_CONNECTIONS)
            return;
        if (!c->waits && !c->shut)
            shut(c);
        nr -= c->shut;
    }
}

static void on_connection(void *cls, struct MHD_Connection *connection, void **socket_context,
                          enum MHD_ConnectionNotificationCode code)
{
    struct control_http *http = cls;
    struct client *c = *socket_context;

    if (code == MHD_CONNECTION_NOTIFY_STARTED) {
        *socket_context = c = calloc(1, sizeof(*c));
        if (!c)
            return;
        c->http = http;
        c->connection = connection;
        fl_list_init(&c->link);
        fl_list_add_tail(&http->clients, &c->link);
        http->nr_clients++;
        make_room(http);
    } else if (c) {
        fl_list_del(&c->link);
        http->nr_clients--;
        free(c);
        *socket_context = NULL;
    }
}

static struct client *client_of(struct MHD_Connection *connection)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection,
                                                                   MHD_CONNECTION_INFO_SOCKET_CONTEXT);

    return info ? info->socket_context : NULL;
}

static void note_request(struct client *c)
{
    if (!c)
        return;
    fl_list_del(&c->link);
    fl_list_add_tail(&c->http->clients, &c->link);
}

/* ---- requests ---- */

static void add_header(struct MHD_Response *response, const char *name, const char *value)
{
    if (value && value[0])
        MHD_add_response_header(response, name, value);
}

static enum MHD_Result send_reply(struct request *r)
{
    struct MHD_Response *response;
    enum MHD_Result result;
    char *text = r->reply.text;
    size_t len = r->reply.text_len;

    if (!text) {
        text = json_dumps(r->reply.json, JSON_INDENT(2));
        len = text ? strlen(text) : 0;
        if (text)
            text[len++] = '\n'; /* in the place of the terminator */
    }
    r->reply.text = NULL;
    response = MHD_create_response_from_buffer(len, text, MHD_RESPMEM_MUST_FREE);
    if (!response) {
        free(text);
        return MHD_NO;
    }
    add_header(response, "Content-Type", r->reply.type ? r->reply.type : "application/json");
    add_header(response, "Allow", r->reply.allow);
    add_header(response, "Cache-Control", "no-store");
    result = MHD_queue_response(r->connection, r->reply.http, response);
    MHD_destroy_response(response);
    return result;
}

/* A change has ended: its connection goes on. */
static void resume(struct control_reply *reply)
{
    struct request *r = FL_CONTAINER_OF(reply, struct request, reply);

    r->executed = true;
    if (!fl_list_linked(&r->link))
        return; /* it ended before control_execute returned */
    fl_list_del(&r->link);
    if (r->client)
        r->client->waits = false;
    MHD_resume_connection(r->connection);
    /* Not turned from here: this may run deep inside the target. */
    fl_timer_set(r->http->s->loops[0], &r->http->timer, fl_now_ns());
}

static enum MHD_Result note_argument(void *cls, enum MHD_ValueKind kind, const char *key, const char *value)
{
    char *query = cls;
    size_t at = strlen(query);

    snprintf(query + at, 256 - at, "%s%s%s%s", at ? "&" : "", key, value ? "=" : "", value ? value : "");
    return MHD_YES;
}

static enum MHD_Result handle(struct request *r, const char *path, const char *method)
{
    char query[256] = "";
    int rc;

    r->reply.ready = resume;
    if (r->too_large) {
        control_reply_error(&r->reply, -EMSGSIZE, "body", "the body is larger than 64 KiB");
        return send_reply(r);
    }
    MHD_get_connection_values(r->connection, MHD_GET_ARGUMENT_KIND, note_argument, query);
    rc = control_parse(method, path, query, r->body, r->body_len, &r->op, &r->reply);
    if (rc == 0 && r->http->s->stopping) {
        control_reply_error(&r->reply, -ESHUTDOWN, NULL, "the target is shutting down");
        r->reply.http = MHD_HTTP_SERVICE_UNAVAILABLE;
    } else if (rc == 0 && r->http->metrics_only && r->op.kind != CONTROL_METRICS) {
        control_reply_error(&r->reply, -ENOENT, "path",
                            "only /metrics is here; control goes through the Unix socket");
    } else if (rc == 0 && control_execute(r->http->s, &r->op, &r->reply) && !r->executed) {
        fl_list_add_tail(&r->http->waiting, &r->link);
        if (r->client)
            r->client->waits = true;
        MHD_suspend_connection(r->connection);
        return MHD_YES;
    }
    r->executed = true;
    return send_reply(r);
}

static bool take_body(struct request *r, const char *data, size_t len)
{
    char *grown;

    if (r->too_large || len > CONTROL_MAX_BODY - r->body_len) {
        r->too_large = true;
        return true;
    }
    grown = realloc(r->body, r->body_len + len);
    if (!grown)
        return false;
    memcpy(grown + r->body_len, data, len);
    r->body = grown;
    r->body_len += len;
    return true;
}

static enum MHD_Result on_request(void *cls, struct MHD_Connection *connection, const char *path,
                                  const char *method, const char *version, const char *data, size_t *len,
                                  void **state)
{
    struct request *r = *state;

    if (!r) {
        *state = r = calloc(1, sizeof(*r));
        if (!r)
            return MHD_NO;
        r->http = cls;
        fl_list_init(&r->link);
        r->connection = connection;
        r->client = client_of(connection);
        note_request(r->client);
        return MHD_YES;
    }
    if (*len) {
        bool ok = take_body(r, data, *len);

        *len = 0;
        return ok ? MHD_YES : MHD_NO;
    }
    if (r->executed)
        return send_reply(r);
    return handle(r, path, method);
}

static void on_completed(void *cls, struct MHD_Connection *connection, void **state,
                         enum MHD_RequestTerminationCode code)
{
    struct request *r = *state;

    if (!r)
        return;
    control_op_free(&r->op);
    control_reply_free(&r->reply);
    free(r->body);
    free(r);
    *state = NULL;
}

/* The path may have %XX in it, which control_parse undoes part by part. */
static size_t leave_escaped(void *cls, struct MHD_Connection *connection, char *text)
{
    return strlen(text);
}

/* ---- listening ---- */

static int start(struct server *s, int fd, const char *path, struct control_http **out, struct fl_error *err)
{
    const union MHD_DaemonInfo *info;
    struct control_http *http = calloc(1, sizeof(*http));
    int rc;

    if (!http)
        return fl_error_set(err, -ENOMEM, "out of memory");
    http->s = s;
    fl_list_init(&http->clients);
    fl_list_init(&http->waiting);
    snprintf(http->path, sizeof(http->path), "%s", path);
    http->metrics_only = !path[0];
    http->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL, on_request, http, MHD_OPTION_LISTEN_SOCKET,
        fd, MHD_OPTION_NOTIFY_CONNECTION, on_connection, http, MHD_OPTION_NOTIFY_COMPLETED, on_completed,
        NULL, MHD_OPTION_UNESCAPE_CALLBACK, leave_escaped, NULL, MHD_OPTION_CONNECTION_LIMIT, MAX_CONNECTIONS,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_TIMEOUT_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768,
        MHD_OPTION_END);
    if (!http->daemon) {
        free(http);
        close(fd);
        return fl_error_set(err, -EIO, "cannot start the HTTP service of the control socket");
    }
    info = MHD_get_daemon_info(http->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    http->watch.fd = info->epoll_fd;
    http->watch.ready = on_ready;
    http->timer.expired = on_timer;
    rc = fl_watch_add(s->loops[0], &http->watch, EPOLLIN);
    if (rc < 0) {
        MHD_stop_daemon(http->daemon);
        free(http);
        return fl_error_set(err, rc, "cannot watch the control socket: %s", strerror(-rc));
    }
    *out = http;
    return 0;
}

/* A socket file without a process behind it is in the way of nobody. */
static int remove_dead(const struct sockaddr_un *addr, struct fl_error *err)
{
    struct stat st;
    int fd, rc;

    if (lstat(addr->sun_path, &st) < 0)
        return 0;
    if (!S_ISSOCK(st.st_mode))
        return fl_error_set(err, -EEXIST, "%s is there and is no socket: choose another path for --control",
                            addr->sun_path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    rc = connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) < 0 ? -errno : 0;
    close(fd);
    if (rc == -ECONNREFUSED)
        unlink(addr->sun_path);
    else if (rc == 0 || rc == -EAGAIN)
        return fl_error_set(err, -EADDRINUSE,
                            "another farlane serves on %s: choose another path with --control",
                            addr->sun_path);
    return 0;
}

int control_http_unix(struct server *s, const char *path, struct control_http **http, struct fl_error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    mode_t mask;
    int fd, rc;

    if (strlen(path) >= sizeof(addr.sun_path))
        return fl_error_set(err, -EINVAL,
                            "the path of the control socket has %zu characters; a socket's may have %zu",
                            strlen(path), sizeof(addr.sun_path) - 1);
    strcpy(addr.sun_path, path);
    rc = remove_dead(&addr, err);
    if (rc < 0)
        return rc;
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fl_error_set(err, -errno, "cannot make the control socket: %s", strerror(errno));
    mask = umask(0177); /* never open to others, not even for a moment */
    rc = bind(fd, (const struct sockaddr *)&addr, sizeof(addr)) < 0 ? -errno : 0;
    umask(mask);
    if (rc == 0 && listen(fd, BACKLOG) < 0)
        rc = -errno;
    if (rc < 0) {
        close(fd);
        return fl_error_set(err, rc, "cannot make the control socket %s: %s", path, strerror(-rc));
    }
    rc = start(s, fd, path, http, err);
    if (rc < 0)
        unlink(path);
    return rc;
}

int control_http_metrics(struct server *s, const char *address, struct control_http **http, char *url,
                         size_t url_len, struct fl_error *err)
{
    char text[FL_ADDR_TEXT_LEN];
    const int one = 1;
    struct fl_addr addr;
    int fd, rc;

    rc = fl_addr_parse(address[0] == ':' ? address + 1 : address, 0, &addr, NULL);
    if (rc < 0) /* a port alone: loopback */
        rc = (snprintf(text, sizeof(text), "127.0.0.1:%s", address[0] == ':' ? address + 1 : address),
              fl_addr_parse(text, 0, &addr, err));
    if (rc < 0)
        return fl_error_wrap(err, rc, "metrics '%s' should be ADDR:PORT or PORT", address);
    fd = socket(addr.ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return fl_error_set(err, -errno, "cannot make a socket for metrics: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&addr.ss, addr.len) < 0 || listen(fd, BACKLOG) < 0) {
        rc = -errno;
        close(fd);
        return fl_error_set(err, rc, "cannot listen for metrics on %s: %s", fl_addr_format(&addr, text),
                            strerror(-rc));
    }
    addr.len = sizeof(addr.ss);
    getsockname(fd, (struct sockaddr *)&addr.ss, &addr.len);
    snprintf(url, url_len, "http://%s/metrics", fl_addr_format(&addr, text));
    return start(s, fd, "", http, err);
}

void control_http_stop(struct control_http *http)
{
    struct fl_list *l;

    if (!http)
        return;
    while ((l = fl_list_pop(&http->waiting)))
        MHD_resume_connection(
            FL_CONTAINER_OF(l, struct request, link)->connection); /* to be closed with the others */
    fl_watch_del(&http->watch);
    fl_timer_cancel(&http->timer);
    MHD_stop_daemon(http->daemon);
    if (http->path[0])
        unlink(http->path);
    free(http);
}
