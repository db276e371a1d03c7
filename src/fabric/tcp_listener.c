/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/util.h"
#include "fabric/fabric.h"
#include "fabric/tcp_conn.h"

#define ACCEPTS_PER_TURN 16
#define BACKLOG          4096 /* the kernel's somaxconn is the limit; a host opens all its queues at once */
#define PAUSE_NS         (100 * FL_NS_PER_MS)

struct fl_listener {
    struct fl_listen_options options;
    struct fl_watch watch;
    struct fl_timer retry; /* after the process ran out of descriptors or memory */
    struct fl_log_rate rate;
};

/* The connection stays in the backlog, the descriptor stays ready: looking at it again at once would be a
 * busy loop. */
static void pause_accept(struct fl_listener *l, int error)
{
    if (fl_log_rate_allow(&l->rate, 1, fl_loop_now(l->options.loop), NULL))
        FL_WARN("cannot accept a connection: %s; trying again", strerror(error));
    if (fl_timer_set(l->options.loop, &l->retry, fl_loop_now(l->options.loop) + PAUSE_NS) == 0)
        (void)fl_watch_set(&l->watch, 0);
}

static void retry(struct fl_timer *timer)
{
    struct fl_listener *l = FL_CONTAINER_OF(timer, struct fl_listener, retry);

    (void)fl_watch_set(&l->watch, EPOLLIN);
}

static void accept_some(struct fl_watch *watch, uint32_t events)
{
    struct fl_listener *l = FL_CONTAINER_OF(watch, struct fl_listener, watch);

    for (int i = 0; i < ACCEPTS_PER_TURN; i++) {
        struct fl_addr peer = {.len = sizeof(peer.ss)};
        int fd = accept4(watch->fd, (struct sockaddr *)&peer.ss, &peer.len, SOCK_NONBLOCK | SOCK_CLOEXEC), r;

        if (fd < 0) {
            if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                pause_accept(l, errno);
            if (errno == EAGAIN || errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                return;
            continue; /* that connection is gone already */
        }
        r = fl_tcp_conn_create(&l->options, fd, &peer);
        if (r < 0 && fl_log_rate_allow(&l->rate, 1, fl_loop_now(l->options.loop), NULL))
            FL_WARN("cannot serve a connection: %s", strerror(-r));
    }
}

static int explain(const struct fl_addr *addr, int error, struct fl_error *err)
{
    char text[FL_ADDR_TEXT_LEN];

    fl_addr_format(addr, text);
    switch (error) {
    case EADDRNOTAVAIL:
        return fl_error_set(err, -error, "cannot listen on %s: no interface of this machine has that address",
                            text);
    case EADDRINUSE:
        return fl_error_set(
            err, -error, "cannot listen on %s: another program listens there; stop it or take another port",
            text);
    case EACCES:
        return fl_error_set(
            err, -error, "cannot listen on %s: ports below 1024 need the right to; take a higher one", text);
    default:
        return fl_error_set(err, -error, "cannot listen on %s: %s", text, strerror(error));
    }
}

/* Returns the descriptor or a negative errno. */
static int open_socket(const struct fl_addr *addr)
{
    int one = 1, r, fd = socket(addr->ss.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return -errno;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    /* [::] and 0.0.0.0 are two listeners: each may be added and removed alone. */
    if (addr->ss.ss_family == AF_INET6)
        (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
    if (bind(fd, (const struct sockaddr *)&addr->ss, addr->len) < 0 || listen(fd, BACKLOG) < 0) {
        r = -errno;
        close(fd);
        return r;
    }
    return fd;
}

static int tcp_listen(const struct fl_listen_options *options, struct fl_listener **out, struct fl_error *err)
{
    struct fl_listener *l = calloc(1, sizeof(*l));
    int r;

    if (!l)
        return fl_error_set(err, -ENOMEM, "no memory for a listener");
    l->options = *options;
    l->retry.expired = retry;
    r = open_socket(&options->addr);
    if (r < 0) {
        free(l);
        return explain(&options->addr, -r, err);
    }
    l->watch = (struct fl_watch){.fd = r, .ready = accept_some};
    r = fl_watch_add(options->loop, &l->watch, EPOLLIN);
    if (r < 0) {
        close(l->watch.fd);
        free(l);
        return explain(&options->addr, -r, err);
    }
    *out = l;
    return 0;
}

static void tcp_unlisten(struct fl_listener *l)
{
    if (!l)
        return;
    fl_timer_cancel(&l->retry);
    fl_watch_del(&l->watch);
    close(l->watch.fd);
    free(l);
}

static void tcp_listener_addr(const struct fl_listener *l, struct fl_addr *addr)
{
    *addr = (struct fl_addr){.len = sizeof(addr->ss)};
    if (getsockname(l->watch.fd, (struct sockaddr *)&addr->ss, &addr->len) < 0)
        *addr = l->options.addr;
}

const struct fl_transport fl_tcp_transport = {
    .name = "tcp",
    .capsule_len = 128u << 10, /* a write of that length needs no round trip for an R2T */
    .listen = tcp_listen,
    .unlisten = tcp_unlisten,
    .listener_addr = tcp_listener_addr,
};

const struct fl_transport *fl_transport_find(const char *name)
{
    static const struct fl_transport *const transports[] = {&fl_tcp_transport, &fl_rdma_transport};

    for (size_t i = 0; i < FL_ARRAY_LEN(transports); i++)
        if (!strcmp(transports[i]->name, name))
            return transports[i];
    return NULL;
}
