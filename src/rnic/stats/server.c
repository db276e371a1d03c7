/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/stats/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/util.h"
#include "rnic/hub/unix.h"

#define CONNS    4
#define LISTENER CONNS

struct fl_stats_server {
    int listen_fd, epoll_fd;
    int conns[CONNS]; /* -1: none */
    uint32_t next;    /* the one that makes room */
    fl_stats_source *source;
    void *arg;
    struct fl_stats_answer answer;
};

static int watch(struct fl_stats_server *server, int fd, uint32_t number)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u32 = number};
    return epoll_ctl(server->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0 ? -errno : 0;
}

int fl_stats_server_open(const char *address, fl_stats_source *source, void *arg,
                         struct fl_stats_server **out)
{
    struct fl_stats_server *server = calloc(1, sizeof(*server));
    int rc;
    if (!server)
        return -ENOMEM;
    *server = (struct fl_stats_server){.source = source, .arg = arg};
    for (int i = 0; i < CONNS; i++)
        server->conns[i] = -1;
    rc = server->listen_fd = fl_hub_unix_listen(address);
    if (rc < 0)
        goto free_server;
    rc = server->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (rc < 0) {
        rc = -errno;
        goto close_listener;
    }
    rc = watch(server, server->listen_fd, LISTENER);
    if (rc < 0)
        goto close_epoll;
    *out = server;
    return 0;
close_epoll:
    close(server->epoll_fd);
close_listener:
    close(server->listen_fd);
free_server:
    free(server);
    return rc;
}

void fl_stats_server_forget(struct fl_stats_server *server)
{
    if (!server)
        return;
    close(server->listen_fd);
    close(server->epoll_fd);
    for (int i = 0; i < CONNS; i++) {
        if (server->conns[i] >= 0)
            close(server->conns[i]);
    }
}

void fl_stats_server_close(struct fl_stats_server *server)
{
    fl_stats_server_forget(server);
    free(server);
}

int fl_stats_server_fd(const struct fl_stats_server *server)
{
    return server->epoll_fd;
}

static void drop(struct fl_stats_server *server, uint32_t number)
{
    if (server->conns[number] >= 0)
        close(server->conns[number]);
    server->conns[number] = -1;
}

static bool may_know(int fd)
{
    struct fl_hub_peer peer;
    return fl_hub_unix_peer(fd, &peer) == 0 && (peer.uid == 0 || peer.uid == geteuid());
}

static void refuse(int fd)
{
    const struct fl_stats_answer no = {.magic = FL_STATS_MAGIC, .status = -EPERM};
    send(fd, &no, sizeof(no), MSG_DONTWAIT | MSG_NOSIGNAL);
    close(fd);
}

/* The oldest connection makes room: who asks asks at once. */
static void accept_one(struct fl_stats_server *server)
{
    int fd = accept4(server->listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    if (!may_know(fd)) {
        refuse(fd);
        return;
    }
    uint32_t number = server->next++ % CONNS;
    drop(server, number);
    if (watch(server, fd, number) < 0)
        close(fd);
    else
        server->conns[number] = fd;
}

/* False: the connection ends. */
static bool answer_one(struct fl_stats_server *server, int fd)
{
    struct fl_stats_answer *answer = &server->answer;
    struct fl_stats_ask ask;
    ssize_t len = recv(fd, &ask, sizeof(ask), MSG_DONTWAIT | MSG_TRUNC);
    if (len < 0)
        return errno == EAGAIN || errno == EINTR;
    if (len != sizeof(ask) || ask.magic != FL_STATS_MAGIC)
        return false;
    memset(answer, 0, sizeof(*answer));
    answer->magic = FL_STATS_MAGIC;
    answer->what = ask.what;
    server->source(server->arg, &ask, answer);
    return send(fd, answer, sizeof(*answer), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(*answer);
}

void fl_stats_server_run(struct fl_stats_server *server)
{
    struct epoll_event events[CONNS + 1];
    int nr = epoll_wait(server->epoll_fd, events, CONNS + 1, 0);
    for (int i = 0; i < nr; i++) {
        uint32_t number = events[i].data.u32;
        if (number == LISTENER)
            accept_one(server);
        else if (server->conns[number] >= 0 && !answer_one(server, server->conns[number]))
            drop(server, number);
    }
}
