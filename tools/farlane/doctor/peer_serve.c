/* SPDX-License-Identifier: Apache-2.0 */
/* farlane doctor --listen: what the other end of a path does. One peer at a time; nothing is written
 * anywhere. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"
#include "snapshot.h"

#define PROBE_MS 20000
#define BULK_MAX (UINT64_C(256) << 20)

struct session {
    const struct sys *sys;
    struct peer_line line;
    struct fl_addr here, there;
    struct snapshot before;
};

static int say(struct session *s, json_t *answer)
{
    int r = answer ? peer_line_put(&s->line, answer) : -ENOMEM;

    json_decref(answer);
    return r;
}

static int say_error(struct session *s, int code, const char *text)
{
    return say(s, json_pack("{s:i, s:s}", "error", code, "text", text));
}

static int answer_hello(struct session *s, const json_t *ask)
{
    return say(s, facts_json(s->sys));
}

/* {"port": the asker's}: a socket on the port that is wanted (0: any), which answers that address only. */
static int answer_probe(struct session *s, const json_t *ask)
{
    json_int_t theirs = json_integer_value(json_object_get(ask, "port"));
    json_int_t ours = json_integer_value(json_object_get(ask, "at"));
    struct fl_addr here = s->here, there = s->there;
    socklen_t len = sizeof(here.ss);
    int fd, r;

    if (theirs < 1 || theirs > 65535 || ours < 0 || ours > 65535)
        return say_error(s, -EINVAL, "no such port");
    fl_addr_set_port(&here, (uint16_t)ours);
    fl_addr_set_port(&there, (uint16_t)theirs);
    fd = probe_socket(&here, &there);
    if (fd < 0)
        return say_error(s, fd, strerror(-fd));
    if (getsockname(fd, (struct sockaddr *)&here.ss, &len) < 0) {
        r = say_error(s, -errno, "no socket");
    } else {
        r = say(s, json_pack("{s:i}", "port", fl_addr_port(&here)));
        if (!r)
            probe_answer(fd, s->line.fd, PROBE_MS);
    }
    close(fd);
    return r;
}

/* Is somebody listening at TCP 4420? If not, we do, for the one connection of the test. */
static int answer_knock(struct session *s, const json_t *ask)
{
    json_int_t port = json_integer_value(json_object_get(ask, "port"));
    struct fl_addr here = s->here;
    const int on = 1;
    struct pollfd pfd[2];
    int fd = socket(here.ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

    if (fd < 0 || port < 1 || port > 65535) {
        if (fd >= 0)
            close(fd);
        return say_error(s, -EINVAL, "no such port");
    }
    fl_addr_set_port(&here, (uint16_t)port);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    r = bind(fd, (const struct sockaddr *)&here.ss, here.len) < 0 || listen(fd, 4) < 0 ? -errno : 0;
    if (r == 0 || r == -EADDRINUSE)
        r = say(s, json_pack("{s:b}", "busy", r < 0));
    else
        r = say_error(s, r, strerror(-r));
    pfd[0] = (struct pollfd){.fd = fd, .events = POLLIN};
    pfd[1] = (struct pollfd){.fd = s->line.fd, .events = POLLIN};
    if (!r) /* the next question comes when the knock is over */
        poll(pfd + 1, 1, PEER_PATIENCE_MS);
    close(fd);
    return r;
}

static int answer_rdma(struct session *s, const json_t *ask)
{
    bool hardware = json_is_true(json_object_get(ask, "hardware"));
    struct fl_error err = {0};
    struct rdma_peer *peer;
    uint32_t crc = 0;
    uint16_t port;
    int r = rdma_peer_listen(hardware, &s->here, &peer, &port, &err);

    if (r < 0)
        return say_error(s, r, err.text);
    r = say(s, json_pack("{s:i}", "port", port));
    if (!r) {
        int taken = rdma_peer_take(peer, &crc, &err);

        r = taken < 0 ? say_error(s, taken, err.text) : say(s, json_pack("{s:I}", "crc", (json_int_t)crc));
    }
    rdma_peer_free(peer);
    return r;
}

static int answer_findings(struct session *s, const json_t *ask)
{
    struct doctor d = {.sys = s->sys, .plan_len = (uint64_t)json_integer_value(json_object_get(ask, "plan"))};
    struct snapshot after;
    int r = snapshot_take(s->sys, &after);

    if (r < 0)
        return say_error(s, r, "no memory");
    d.before = &s->before;
    d.after = &after;
    d.load_s = json_number_value(json_object_get(ask, "seconds"));
    doctor_run(&d, NULL);
    r = d.broken ? say_error(s, -ENOMEM, "no memory") : say(s, doctor_json(&d));
    doctor_free(&d);
    snapshot_free(&after);
    return r;
}

static int answer_bulk(struct session *s, const json_t *ask)
{
    json_int_t len = json_integer_value(json_object_get(ask, "len"));

    if (len < 1 || (uint64_t)len > BULK_MAX)
        return say_error(s, -EINVAL, "no such length");
    return !strcmp(json_string_value(json_object_get(ask, "ask")), "give")
               ? bulk_give(&s->line, (uint64_t)len)
               : bulk_take(&s->line, (uint64_t)len);
}

static const struct question {
    const char *name;
    int (*answer)(struct session *s, const json_t *ask);
} questions[] = {
    {"hello", answer_hello}, {"probe", answer_probe}, {"knock", answer_knock},       {"take", answer_bulk},
    {"give", answer_bulk},   {"rdma", answer_rdma},   {"findings", answer_findings},
};

static int answer(struct session *s, const json_t *ask)
{
    const char *name = json_string_value(json_object_get(ask, "ask"));

    for (size_t i = 0; name && i < sizeof(questions) / sizeof(questions[0]); i++)
        if (!strcmp(questions[i].name, name))
            return questions[i].answer(s, ask);
    return say_error(s, -EOPNOTSUPP, "this doctor does not know the question");
}

void peer_serve_one(const struct sys *sys, int fd)
{
    struct session s = {.sys = sys};
    socklen_t here = sizeof(s.here.ss), there = sizeof(s.there.ss);
    json_t *ask;

    peer_line_init(&s.line, fd);
    if (getsockname(fd, (struct sockaddr *)&s.here.ss, &here) < 0 ||
        getpeername(fd, (struct sockaddr *)&s.there.ss, &there) < 0 || snapshot_take(sys, &s.before) < 0)
        return;
    s.here.len = here;
    s.there.len = there;
    while (!peer_line_get(&s.line, &ask, 4 * PEER_PATIENCE_MS)) {
        int r = answer(&s, ask);

        json_decref(ask);
        if (r < 0)
            break;
    }
    snapshot_free(&s.before);
    peer_line_fini(&s.line);
}

/* The address to name there is not always this one: of a wildcard, any. */
static void say_where(const struct fl_addr *addr)
{
    const uint16_t port = fl_addr_port(addr);
    char text[FL_ADDR_TEXT_LEN], at[8] = "";

    if (port != PEER_PORT)
        snprintf(at, sizeof(at), ":%u", port);
    printf("farlane doctor listens at %s; on the other machine: farlane doctor --peer HOST%s\n",
           fl_addr_format(addr, text), at);
}

static int listen_at(const char *address, struct fl_error *err)
{
    struct fl_addr addr;
    const int on = 1;
    char text[FL_ADDR_TEXT_LEN];
    int r = fl_addr_parse(address, PEER_PORT, &addr, err), fd;

    if (r < 0)
        return r;
    fd = socket(addr.ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fl_error_set(err, -errno, "no socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (const struct sockaddr *)&addr.ss, addr.len) < 0 || listen(fd, 8) < 0) {
        r = fl_error_set(err, -errno, "cannot listen at %s: %s", fl_addr_format(&addr, text),
                         strerror(errno));
        close(fd);
        return r;
    }
    addr.len = sizeof(addr.ss);
    if (!getsockname(fd, (struct sockaddr *)&addr.ss, &addr.len))
        say_where(&addr);
    fflush(stdout);
    return fd;
}

int peer_serve(const struct sys *sys, const char *address, volatile int *stop, struct fl_error *err)
{
    int fd = listen_at(address, err);

    if (fd < 0)
        return fd;
    while (!*stop) {
        struct pollfd pfd = {.fd = fd, .events = POLLIN};
        int one;

        if (poll(&pfd, 1, 500) <= 0)
            continue;
        one = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (one < 0)
            continue;
        peer_serve_one(sys, one);
        close(one);
    }
    close(fd);
    return 0;
}
