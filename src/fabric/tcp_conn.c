/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/tcp_conn.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "fabric/tcp_socket.h"
#include "fabric/tcp_target.h"

#define DEFAULT_SETUP_MS 10000u
#define DEFAULT_CLOSE_MS 2000u
#define RX_IOV_MAX       8
/* Reads in one turn while each fills all that was offered. */
#define MAX_READS 4
/* A connection that had bytes lately is read without asking epoll first. With more of them than this on a
 * loop, a read that finds nothing costs more than epoll's answer for all at once. */
#define HOT_NS  FL_NS_PER_MS
#define MAX_HOT 4u

/* What the connections of one loop share. */
struct tcp_group {
    struct fl_loop *loop;
    uint32_t nr_hot, nr_users;
    struct tcp_group *next;
};

static pthread_mutex_t groups_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tcp_group *groups; /* groups_lock; also nr_users. nr_hot is the loop's own */

struct tcp_conn {
    struct fl_tcp_target target;
    struct fl_watch watch;
    struct fl_poller poller;
    struct tcp_group *group;
    bool hot, tx_full, said_goodbye;
    uint64_t last_rx;

    struct fl_timer
        timer; /* set-up, then the end; none in between: keep-alive decides (it is the target's) */
    uint64_t timer_deadline;
    uint32_t setup_ms, close_ms;

    /* a move to another loop */
    struct fl_msg msg;
    struct fl_loop *to_loop;
    struct fl_pool *to_pool;
    void (*moved)(struct fl_conn *conn);

    char peer[FL_ADDR_TEXT_LEN], local[FL_ADDR_TEXT_LEN];
};

static struct tcp_group *group_get(struct fl_loop *loop)
{
    struct tcp_group *group;

    pthread_mutex_lock(&groups_lock);
    for (group = groups; group && group->loop != loop; group = group->next)
        ;
    if (!group && (group = calloc(1, sizeof(*group)))) {
        group->loop = loop;
        group->next = groups;
        groups = group;
    }
    if (group)
        group->nr_users++;
    pthread_mutex_unlock(&groups_lock);
    return group;
}

static void group_put(struct tcp_group *group)
{
    struct tcp_group **at = &groups;

    if (!group)
        return;
    pthread_mutex_lock(&groups_lock);
    if (!--group->nr_users) {
        while (*at != group)
            at = &(*at)->next;
        *at = group->next;
        free(group);
    }
    pthread_mutex_unlock(&groups_lock);
}

static bool serve(struct tcp_conn *c);

/* ---- who is asked for bytes, and how ---- */

static void make_cold(struct tcp_conn *c)
{
    if (!c->hot)
        return;
    c->hot = false;
    c->group->nr_hot--;
}

static void ensure_polled(struct tcp_conn *c)
{
    if (!c->poller.loop)
        fl_poller_add(c->target.conn.loop, &c->poller);
}

static void note_bytes(struct tcp_conn *c)
{
    c->last_rx = fl_loop_now(c->target.conn.loop);
    if (fl_likely(c->hot) || !c->group || c->group->nr_hot >= MAX_HOT)
        return;
    c->hot = true;
    c->group->nr_hot++;
    ensure_polled(c);
}

/* Level-triggered: what cannot be acted on must not be asked for, or the loop would never sleep. */
static void set_interest(struct tcp_conn *c)
{
    const struct fl_tcp_target *t = &c->target;
    bool rx = t->state >= FL_TCP_TARGET_CLOSING || !t->stream.rx_paused;

    if (c->watch.loop)
        (void)fl_watch_set(&c->watch, (rx ? EPOLLIN : 0u) | (c->tx_full ? EPOLLOUT : 0u));
}

/* ---- bytes ---- */

static void cut_errno(struct tcp_conn *c, const char *what)
{
    char why[160];

    snprintf(why, sizeof(why), "%s: %s", what, strerror(errno));
    fl_tcp_target_cut(&c->target, why);
}

/* Nobody listens any more: read to see the end, and to let the goodbye arrive (a socket closed with unread
 * bytes is reset). */
static void drain(struct tcp_conn *c)
{
    char waste[16384];
    ssize_t n = recv(c->watch.fd, waste, sizeof(waste), 0);

    if (n == 0)
        fl_tcp_target_cut(&c->target, "the host closed the connection");
    else if (n < 0 && errno != EAGAIN && errno != EINTR)
        cut_errno(c, "the connection broke");
}

static ssize_t read_socket(int fd, struct iovec *iov, int n)
{
    struct msghdr msg = {.msg_iov = iov, .msg_iovlen = (size_t)n};

    return n == 1 ? recv(fd, iov->iov_base, iov->iov_len, 0) : recvmsg(fd, &msg, 0);
}

/* Returns whether bytes came. */
static bool receive(struct tcp_conn *c)
{
    struct fl_tcp_target *t = &c->target;
    struct iovec iov[RX_IOV_MAX];
    bool any = false;

    for (int round = 0; round < MAX_READS; round++) {
        int n = fl_tcp_target_rx_iov(t, iov, RX_IOV_MAX);
        size_t offered = 0;
        ssize_t got;

        if (fl_unlikely(!n)) {
            if (t->state == FL_TCP_TARGET_CLOSING)
                drain(c);
            return any;
        }
        for (int i = 0; i < n; i++)
            offered += iov[i].iov_len;
        got = read_socket(c->watch.fd, iov, n);
        if (fl_unlikely(got <= 0)) {
            if (got == 0)
                fl_tcp_target_cut(t, "the host closed the connection");
            else if (errno != EAGAIN && errno != EINTR)
                cut_errno(c, "the connection broke");
            return any;
        }
        any = true;
        note_bytes(c);
        fl_tcp_target_rx_done(t, (size_t)got);
        if ((size_t)got < offered)
            break;
    }
    return any;
}

static bool transmit(struct tcp_conn *c)
{
    struct fl_tcp_target *t = &c->target;
    struct iovec iov[FL_TCP_STREAM_IOV_MAX];
    bool any = false;

    while (fl_tcp_stream_tx_pending(&t->stream)) {
        struct msghdr msg = {.msg_iov = iov};
        size_t offered = 0;
        ssize_t put;

        msg.msg_iovlen = (size_t)fl_tcp_stream_tx_iov(&t->stream, iov, FL_TCP_STREAM_IOV_MAX);
        for (size_t i = 0; i < msg.msg_iovlen; i++)
            offered += iov[i].iov_len;
        put = sendmsg(c->watch.fd, &msg, MSG_NOSIGNAL);
        if (fl_unlikely(put < 0)) {
            if (errno == EINTR)
                continue;
            if (errno != EAGAIN) {
                cut_errno(c, "the connection broke");
                break;
            }
            put = 0;
        } else {
            any = true;
            fl_tcp_target_tx_done(t, (size_t)put);
        }
        if ((size_t)put < offered) {
            c->tx_full = true;
            break;
        }
    }
    return any;
}

/* ---- the end ---- */

static void close_socket(struct tcp_conn *c)
{
    if (c->watch.fd < 0)
        return;
    make_cold(c);
    fl_watch_del(&c->watch);
    close(c->watch.fd);
    c->watch.fd = -1;
}

static void destroy(struct tcp_conn *c)
{
    close_socket(c);
    fl_poller_del(&c->poller);
    fl_timer_cancel(&c->timer);
    c->target.conn.handler->closed(&c->target.conn, c->target.why);
    fl_tcp_target_fini(&c->target);
    group_put(c->group);
    free(c);
}

static void arm(struct tcp_conn *c, uint64_t deadline)
{
    struct fl_loop *loop = c->target.conn.loop;

    c->timer_deadline = deadline;
    if (fl_timer_set(loop, &c->timer, deadline) < 0 && c->target.state >= FL_TCP_TARGET_CLOSING)
        fl_tcp_target_cut(&c->target, "no memory for a timer");
}

static void reset_socket(struct tcp_conn *c)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};

    (void)setsockopt(c->watch.fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

static void expired(struct fl_timer *timer)
{
    struct tcp_conn *c = FL_CONTAINER_OF(timer, struct tcp_conn, timer);
    struct fl_tcp_target *t = &c->target;

    if (t->state == FL_TCP_TARGET_CLOSING) {
        reset_socket(c); /* else the kernel would go on trying for minutes */
        fl_tcp_target_cut(t, "the host did not take the goodbye");
    } else if (t->state < FL_TCP_TARGET_CLOSING && !t->conn.sq_len) {
        if (t->nr_active) /* Connect has come; the target is at it */
            arm(c, fl_loop_now(t->conn.loop) + c->setup_ms * FL_NS_PER_MS);
        else
            fl_conn_close(&t->conn, "no NVMe Connect came in time");
    }
    serve(c);
}

/* Sends what is left, then half-closes and waits for the host to do the same. */
static void say_goodbye(struct tcp_conn *c)
{
    struct fl_tcp_target *t = &c->target;

    if (!c->said_goodbye && !fl_tcp_stream_tx_pending(&t->stream)) {
        c->said_goodbye = true;
        shutdown(c->watch.fd, SHUT_WR);
    }
    if (!c->timer.heap_index || c->timer_deadline > fl_loop_now(t->conn.loop) + c->close_ms * FL_NS_PER_MS)
        arm(c, fl_loop_now(t->conn.loop) + c->close_ms * FL_NS_PER_MS);
}

/* ---- moving to another loop ---- */

static void arrive(struct fl_msg *msg)
{
    struct tcp_conn *c = FL_CONTAINER_OF(msg, struct tcp_conn, msg);
    struct fl_tcp_target *t = &c->target;

    t->moving = false;
    if (fl_watch_add(t->conn.loop, &c->watch, EPOLLIN) < 0)
        cut_errno(c, "the connection could not be watched");
    if (c->timer_deadline && t->state < FL_TCP_TARGET_CLOSING && !t->conn.sq_len)
        arm(c, c->timer_deadline);
    c->moved(&t->conn);
    fl_tcp_target_advance(t);
    serve(c);
}

static void depart(struct tcp_conn *c)
{
    struct fl_tcp_target *t = &c->target;

    make_cold(c);
    fl_poller_del(&c->poller);
    fl_timer_cancel(&c->timer);
    fl_watch_del(&c->watch);
    group_put(c->group);
    c->group = group_get(c->to_loop); /* NULL: never hot */
    t->conn.loop = c->to_loop;
    t->conn.pool = c->to_pool;
    c->to_loop = NULL;
    c->msg.run = arrive;
    fl_loop_post(t->conn.loop, &c->msg);
}

static void move(struct fl_conn *conn, struct fl_loop *loop, struct fl_pool *pool,
                 void (*moved)(struct fl_conn *conn))
{
    struct tcp_conn *c = FL_CONTAINER_OF(conn, struct tcp_conn, target.conn);

    c->target.moving = true;
    c->to_loop = loop;
    c->to_pool = pool;
    c->moved = moved;
    ensure_polled(c); /* departs from there, or earlier, when the call in progress is over */
}

/* ---- driving ---- */

/* After bytes came, a kick, an expiry: does what is due. False: c is gone, or has left for another loop. */
static bool serve(struct tcp_conn *c)
{
    struct fl_tcp_target *t = &c->target;

    if (fl_unlikely(c->to_loop)) {
        depart(c);
        return false;
    }
    if (t->kicked)
        fl_tcp_target_advance(t);
    if (!c->tx_full && fl_tcp_stream_tx_pending(&t->stream))
        (void)transmit(c);
    if (fl_unlikely(t->state >= FL_TCP_TARGET_CLOSING)) {
        if (t->state == FL_TCP_TARGET_CLOSING)
            say_goodbye(c);
        if (t->state == FL_TCP_TARGET_DEAD)
            close_socket(c);
        if (fl_tcp_target_finished(t)) {
            destroy(c);
            return false;
        }
    }
    set_interest(c);
    return true;
}

static int poll_conn(struct fl_poller *poller)
{
    struct tcp_conn *c = FL_CONTAINER_OF(poller, struct tcp_conn, poller);
    int work = c->target.kicked;

    if (c->hot && c->watch.fd >= 0) {
        if (receive(c))
            work = 1;
        else if (fl_loop_now(c->target.conn.loop) - c->last_rx > HOT_NS)
            make_cold(c);
    }
    if (!serve(c))
        return 1;
    if (!c->hot)
        fl_poller_del(&c->poller);
    return work;
}

static void ready(struct fl_watch *watch, uint32_t events)
{
    struct tcp_conn *c = FL_CONTAINER_OF(watch, struct tcp_conn, watch);

    if (events & EPOLLOUT)
        c->tx_full = false;
    if (!c->hot && events & ~(uint32_t)EPOLLOUT) {
        if (events & (EPOLLERR | EPOLLHUP) && c->target.stream.rx_paused)
            fl_tcp_target_cut(&c->target,
                              "the connection broke"); /* nobody reads now, and it would be told for ever */
        else
            (void)receive(c);
    }
    (void)serve(c);
}

static void kick(struct fl_tcp_target *t)
{
    struct tcp_conn *c = FL_CONTAINER_OF(t, struct tcp_conn, target);

    ensure_polled(c);
}

static void info(const struct fl_conn *conn, struct fl_conn_info *out)
{
    const struct tcp_conn *c = FL_CONTAINER_OF(conn, struct tcp_conn, target.conn);

    fl_tcp_target_info(conn, out);
    memcpy(out->peer, c->peer, sizeof(out->peer));
    memcpy(out->local, c->local, sizeof(out->local));
}

static const struct fl_conn_ops tcp_conn_ops = {
    .set_depth = fl_tcp_target_set_depth,
    .set_limits = fl_tcp_target_set_limits,
    .fetch = fl_tcp_target_fetch,
    .complete = fl_tcp_target_complete,
    .close = fl_tcp_target_close,
    .move = move,
    .info = info,
    .detach = fl_tcp_target_detach,
};

static void name_ends(struct tcp_conn *c, const struct fl_addr *peer)
{
    struct fl_addr local = {.len = sizeof(local.ss)};

    fl_addr_format(peer, c->peer);
    if (getsockname(c->watch.fd, (struct sockaddr *)&local.ss, &local.len) == 0)
        fl_addr_format(&local, c->local);
}

int fl_tcp_conn_create(const struct fl_listen_options *options, int fd, const struct fl_addr *peer)
{
    struct tcp_conn *c = calloc(1, sizeof(*c));
    const struct fl_tcp_target_options target = fl_tcp_target_options_of(options, &tcp_conn_ops, kick);
    int r;

    if (!c) {
        close(fd);
        return -ENOMEM;
    }
    c->watch = (struct fl_watch){.fd = fd, .ready = ready};
    c->poller.poll = poll_conn;
    c->timer.expired = expired;
    c->setup_ms = options->setup_timeout_ms ? options->setup_timeout_ms : DEFAULT_SETUP_MS;
    c->close_ms = options->close_timeout_ms ? options->close_timeout_ms : DEFAULT_CLOSE_MS;
    name_ends(c, peer);
    fl_tcp_socket_tune(fd, peer);
    r = fl_tcp_target_init(&c->target, &target);
    if (r < 0)
        goto close_fd;
    c->group = group_get(options->loop);
    c->timer_deadline = fl_loop_now(options->loop) + c->setup_ms * FL_NS_PER_MS;
    r = fl_timer_set(options->loop, &c->timer, c->timer_deadline);
    if (r < 0)
        goto fini_target;
    r = fl_watch_add(options->loop, &c->watch, EPOLLIN);
    if (r < 0)
        goto cancel_timer;
    options->handler->opened(&c->target.conn, options->listener_user);
    return 0;

cancel_timer:
    fl_timer_cancel(&c->timer);
fini_target:
    group_put(c->group);
    fl_tcp_target_fini(&c->target);
close_fd:
    close(fd);
    free(c);
    return r;
}
