/* SPDX-License-Identifier: Apache-2.0 */
/* JSON objects, one a line, over a stream socket. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "peer.h"

void peer_line_init(struct peer_line *line, int fd)
{
    *line = (struct peer_line){.fd = fd};
}

void peer_line_fini(struct peer_line *line)
{
    free(line->bytes);
    line->bytes = NULL;
}

static int left_ms(uint64_t deadline)
{
    uint64_t now = fl_now_ns();

    return deadline > now ? (int)((deadline - now) / 1000000) + 1 : 0;
}

static int wait_for(int fd, short events, uint64_t deadline)
{
    struct pollfd pfd = {.fd = fd, .events = events};
    int ms = left_ms(deadline), r = ms ? poll(&pfd, 1, ms) : 0;

    return r < 0 ? (errno == EINTR ? -EINTR : -errno) : r ? 0 : -ETIMEDOUT;
}

/* More bytes into the buffer */
static int fill(struct peer_line *line, uint64_t deadline)
{
    ssize_t n;
    int r;

    if (line->len == line->cap) {
        size_t cap = line->cap ? 2 * line->cap : 4096;
        char *more = cap > PEER_LINE_MAX ? NULL : realloc(line->bytes, cap);

        if (!more)
            return cap > PEER_LINE_MAX ? -EPROTO : -ENOMEM;
        line->bytes = more;
        line->cap = cap;
    }
    r = wait_for(line->fd, POLLIN, deadline);
    if (r < 0)
        return r;
    n = recv(line->fd, line->bytes + line->len, line->cap - line->len, MSG_DONTWAIT);
    if (n == 0)
        return -ECONNRESET;
    if (n < 0)
        return errno == EAGAIN ? 0 : -errno;
    line->len += (size_t)n;
    return 0;
}

static void take(struct peer_line *line, size_t len)
{
    line->len -= len;
    memmove(line->bytes, line->bytes + len, line->len);
}

int peer_line_get(struct peer_line *line, json_t **object, int timeout_ms)
{
    uint64_t deadline = fl_now_ns() + (uint64_t)timeout_ms * 1000000;
    char *end;
    int r;

    while (!(end = line->len ? memchr(line->bytes, '\n', line->len) : NULL)) {
        r = fill(line, deadline);
        if (r < 0)
            return r;
    }
    *object = json_loadb(line->bytes, (size_t)(end - line->bytes), 0, NULL);
    take(line, (size_t)(end - line->bytes) + 1);
    if (!json_is_object(*object)) {
        json_decref(*object);
        *object = NULL;
        return -EPROTO;
    }
    return 0;
}

int peer_bytes_get(struct peer_line *line, void *bytes, size_t len, int timeout_ms)
{
    uint64_t deadline = fl_now_ns() + (uint64_t)timeout_ms * 1000000;
    size_t at = len < line->len ? len : line->len;
    int r = 0;

    if (at) {
        memcpy(bytes, line->bytes, at);
        take(line, at);
    }
    while (at < len && (r = wait_for(line->fd, POLLIN, deadline)) == 0) {
        ssize_t n = recv(line->fd, (char *)bytes + at, len - at, MSG_DONTWAIT);

        if (n == 0)
            return -ECONNRESET;
        if (n < 0 && errno != EAGAIN)
            return -errno;
        at += n > 0 ? (size_t)n : 0;
    }
    return r;
}

int peer_bytes_put(struct peer_line *line, const void *bytes, size_t len, int timeout_ms)
{
    uint64_t deadline = fl_now_ns() + (uint64_t)timeout_ms * 1000000;
    size_t at = 0;
    int r = 0;

    while (at < len && (r = wait_for(line->fd, POLLOUT, deadline)) == 0) {
        ssize_t n = send(line->fd, (const char *)bytes + at, len - at, MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0 && errno != EAGAIN)
            return -errno;
        at += n > 0 ? (size_t)n : 0;
    }
    return r;
}

int peer_line_put(struct peer_line *line, json_t *object)
{
    char *text = json_dumps(object, JSON_COMPACT);
    int r = text ? peer_bytes_put(line, text, strlen(text), PEER_PATIENCE_MS) : -ENOMEM;

    free(text);
    return r < 0 ? r : peer_bytes_put(line, "\n", 1, PEER_PATIENCE_MS);
}
