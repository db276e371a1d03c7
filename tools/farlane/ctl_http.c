/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define MAX_ANSWER (256u << 20)

static int no_answer(const char *path, uint32_t patience_s, struct fl_error *err)
{
    return fl_error_set(
        err, -ETIMEDOUT,
        "no answer at the control socket %s within %u s: the farlane that serves there is stuck or "
        "very busy. What was asked may still be done: look with farlane ctl list, or wait longer "
        "with --timeout",
        path, patience_s);
}

static int connect_to(const char *path, uint32_t patience_s, struct fl_error *err)
{
    struct sockaddr_un addr = {.sun_family = AF_UNIX};
    const struct timeval patience = {.tv_sec = patience_s};
    int fd, code;

    if (strlen(path) >= sizeof(addr.sun_path))
        return fl_error_set(err, -EINVAL, "the path of the control socket is too long: %s", path);
    strcpy(addr.sun_path, path);
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return fl_error_set(err, -errno, "cannot make a socket: %s", strerror(errno));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience)); /* of connect(), too */
    if (connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
        return fd;
    code = -errno;
    close(fd);
    if (code == -ENOENT || code == -ECONNREFUSED)
        return fl_error_set(
            err, -ECONNREFUSED,
            "no farlane serves at the control socket %s: start farlane serve, or say which with "
            "--control",
            path);
    if (code == -EAGAIN)
        return no_answer(path, patience_s, err);
    if (code == -EACCES)
        return fl_error_set(err, code, "the control socket %s belongs to another user", path);
    return fl_error_set(err, code, "cannot connect to the control socket %s: %s", path, strerror(-code));
}

static int send_all(int fd, const char *buf, size_t len)
{
    while (len) {
        ssize_t n = send(fd, buf, len, MSG_NOSIGNAL);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? -ETIMEDOUT : -errno;
        buf += n;
        len -= (size_t)n;
    }
    return 0;
}

static int receive_all(int fd, char **out, size_t *out_len)
{
    size_t cap = 65536, len = 0;
    char *buf = malloc(cap);

    while (buf) {
        ssize_t n;

        if (len + 1 == cap) {
            char *grown = cap < MAX_ANSWER ? realloc(buf, cap *= 2) : NULL;

            if (!grown)
                break;
            buf = grown;
        }
        n = recv(fd, buf + len, cap - len - 1, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            int code = -errno;

            free(buf);
            return code == -EAGAIN ? -ETIMEDOUT : code;
        }
        if (n == 0) {
            buf[len] = 0;
            *out = buf;
            *out_len = len;
            return 0;
        }
        len += (size_t)n;
    }
    free(buf);
    return -ENOMEM;
}

static int parse(char *text, size_t len, struct ctl_answer *answer)
{
    char *body = strstr(text, "\r\n\r\n");

    if (!body || sscanf(text, "HTTP/1.1 %d", &answer->http) != 1)
        return -EPROTO;
    body += 4;
    answer->len = len - (size_t)(body - text);
    answer->body = malloc(answer->len + 1);
    if (!answer->body)
        return -ENOMEM;
    memcpy(answer->body, body, answer->len + 1);
    answer->json = json_loadb(answer->body, answer->len, 0, NULL);
    return 0;
}

int ctl_request(const char *socket_path, const char *method, const char *path, const json_t *json,
                uint32_t patience_s, struct ctl_answer *answer, struct fl_error *err)
{
    char *body = json ? json_dumps(json, JSON_COMPACT) : NULL, *head = NULL, *text = NULL;
    size_t len = body ? strlen(body) : 0;
    int fd, rc;

    memset(answer, 0, sizeof(*answer));
    fd = connect_to(socket_path, patience_s, err);
    rc = fd < 0 ? fd : 0;
    if (rc == 0 &&
        asprintf(&head,
                 "%s %s HTTP/1.1\r\nHost: farlane\r\nConnection: close\r\nContent-Type: application/json\r\n"
                 "Content-Length: %zu\r\n\r\n%s",
                 method, path, len, body ? body : "") < 0)
        rc = -ENOMEM;
    if (rc == 0)
        rc = send_all(fd, head, strlen(head));
    if (rc == 0)
        rc = receive_all(fd, &text, &len);
    if (rc == 0)
        rc = parse(text, len, answer);
    if (rc == -ETIMEDOUT)
        no_answer(socket_path, patience_s, err);
    else if (rc < 0)
        fl_error_set(err, rc, "no answer at the control socket %s: %s", socket_path, strerror(-rc));
    if (fd >= 0)
        close(fd);
    free(body);
    free(head);
    free(text);
    return rc;
}

void ctl_answer_free(struct ctl_answer *answer)
{
    json_decref(answer->json);
    free(answer->body);
    memset(answer, 0, sizeof(*answer));
}

void ctl_path_add(char *path, size_t len, const char *part)
{
    size_t at = strlen(path);

    for (; *part && at + 4 < len; part++) {
        if (isalnum((unsigned char)*part) || strchr("-._~:", *part))
            path[at++] = *part;
        else
            at += (size_t)snprintf(path + at, 4, "%%%02X", (unsigned char)*part);
    }
    path[at] = 0;
}
