/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/tcp_dial.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "fabric/tcp_socket.h"

static void note(struct fl_dial *d, uint32_t i, int code)
{
    char text[FL_ADDR_TEXT_LEN];

    fl_error_set(&d->err, code, "connect to %s: %s", fl_addr_format(&d->addrs[i], text), strerror(-code));
}

/* Begins with the next address; a failure moves on to the one after at once. */
static void try_next(struct fl_dial *d, uint64_t now_ns)
{
    while (d->nr_tried < d->nr_addrs) {
        uint32_t i = d->nr_tried++;
        const struct fl_addr *a = &d->addrs[i];
        int fd = socket(a->ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

        if (fd < 0) {
            note(d, i, -errno);
            continue;
        }
        if (connect(fd, (const struct sockaddr *)&a->ss, a->len) < 0 && errno != EINPROGRESS) {
            note(d, i, -errno);
            close(fd);
            continue;
        }
        fl_tcp_socket_tune(fd, a);
        d->fds[i] = fd;
        d->next_ns = d->nr_tried < d->nr_addrs ? now_ns + FL_DIAL_STAGGER_MS * FL_NS_PER_MS : UINT64_MAX;
        return;
    }
    d->next_ns = UINT64_MAX;
}

void fl_dial_start(struct fl_dial *d, const struct fl_addr *addrs, uint32_t nr_addrs, uint64_t now_ns)
{
    *d = (struct fl_dial){.addrs = addrs, .nr_addrs = FL_MIN(nr_addrs, (uint32_t)FL_DIAL_MAX_ADDRS)};
    for (uint32_t i = 0; i < FL_DIAL_MAX_ADDRS; i++)
        d->fds[i] = -1;
    try_next(d, now_ns);
}

void fl_dial_stop(struct fl_dial *d)
{
    for (uint32_t i = 0; i < d->nr_tried; i++) {
        if (d->fds[i] >= 0)
            close(d->fds[i]);
        d->fds[i] = -1;
    }
}

/* A connect to a port of this machine that nobody listens on may choose that very port as its own end and so
 * meet itself. */
static bool met_itself(int fd)
{
    struct fl_addr a = {.len = sizeof(a.ss)}, b = {.len = sizeof(b.ss)};

    return getsockname(fd, (struct sockaddr *)&a.ss, &a.len) == 0 &&
           getpeername(fd, (struct sockaddr *)&b.ss, &b.len) == 0 && fl_addr_equal(&a, &b);
}

/* 1: connected; 0: not yet; else the errno of the failure. */
static int look(int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int code = 0;
    socklen_t len = sizeof(code);

    if (poll(&p, 1, 0) <= 0)
        return 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &len) < 0)
        return -errno;
    if (!code && met_itself(fd))
        code = ECONNREFUSED;
    return code ? -code : 1;
}

int fl_dial_step(struct fl_dial *d, uint64_t now_ns)
{
    bool waiting = false, failed = false;

    for (uint32_t i = 0; i < d->nr_tried; i++) {
        int r = d->fds[i] >= 0 ? look(d->fds[i]) : 0, fd = d->fds[i];

        if (r > 0) {
            d->fds[i] = -1;
            fl_dial_stop(d);
            return fd;
        }
        if (r < 0) {
            note(d, i, r);
            close(fd);
            d->fds[i] = -1;
            failed = true;
        }
        waiting |= d->fds[i] >= 0;
    }
    if (d->nr_tried < d->nr_addrs && (failed || !waiting || now_ns >= d->next_ns)) {
        try_next(d, now_ns);
        for (uint32_t i = 0; i < d->nr_tried; i++)
            waiting |= d->fds[i] >= 0;
    }
    return waiting ? -EINPROGRESS : d->err.code ? d->err.code : -EADDRNOTAVAIL;
}
