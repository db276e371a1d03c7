/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/pair.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric/tcp_target.h"

struct fl_pair {
    struct fl_tcp_target target;
    struct fl_poller poller;
    struct fl_msg msg;
    void (*moved)(struct fl_conn *conn);
    bool closed;
};

static struct fl_pair *pair_of(struct fl_conn *conn)
{
    return FL_CONTAINER_OF(conn, struct fl_pair, target.conn);
}

void fl_pair_run(struct fl_pair *pair)
{
    struct fl_tcp_target *t = &pair->target;

    if (pair->closed || t->moving)
        return;
    fl_tcp_target_advance(t);
    if (t->state == FL_TCP_TARGET_CLOSING && !fl_tcp_stream_tx_pending(&t->stream))
        fl_tcp_target_cut(t, "closed");
    if (fl_tcp_target_finished(t)) {
        pair->closed = true;
        fl_poller_del(&pair->poller);
        t->conn.handler->closed(&t->conn, t->why);
    }
}

static int poll_pair(struct fl_poller *poller)
{
    struct fl_pair *pair = FL_CONTAINER_OF(poller, struct fl_pair, poller);

    fl_poller_del(poller);
    fl_pair_run(pair);
    return 1;
}

static void kick(struct fl_tcp_target *t)
{
    struct fl_pair *pair = FL_CONTAINER_OF(t, struct fl_pair, target);

    if (t->conn.loop && !pair->poller.loop)
        fl_poller_add(t->conn.loop, &pair->poller);
}

/* On the new loop. */
static void arrive(struct fl_msg *msg)
{
    struct fl_pair *pair = FL_CONTAINER_OF(msg, struct fl_pair, msg);

    pair->target.moving = false;
    pair->moved(&pair->target.conn);
    fl_pair_run(pair);
}

static void move(struct fl_conn *conn, struct fl_loop *loop, struct fl_pool *pool,
                 void (*moved)(struct fl_conn *conn))
{
    struct fl_pair *pair = pair_of(conn);

    fl_poller_del(&pair->poller);
    pair->target.moving = true;
    pair->moved = moved;
    pair->msg.run = arrive;
    conn->loop = loop;
    conn->pool = pool;
    fl_loop_post(loop, &pair->msg);
}

static void info(const struct fl_conn *conn, struct fl_conn_info *info)
{
    fl_tcp_target_info(conn, info);
    snprintf(info->peer, sizeof(info->peer), "pair");
    snprintf(info->local, sizeof(info->local), "pair");
}

static const struct fl_conn_ops pair_conn_ops = {
    .set_depth = fl_tcp_target_set_depth,
    .set_limits = fl_tcp_target_set_limits,
    .fetch = fl_tcp_target_fetch,
    .complete = fl_tcp_target_complete,
    .close = fl_tcp_target_close,
    .move = move,
    .info = info,
    .detach = fl_tcp_target_detach,
};

int fl_pair_create(const struct fl_listen_options *options, struct fl_pair **out)
{
    struct fl_pair *pair = calloc(1, sizeof(*pair));
    const struct fl_tcp_target_options target = fl_tcp_target_options_of(options, &pair_conn_ops, kick);
    int r;

    if (!pair)
        return -ENOMEM;
    pair->poller.poll = poll_pair;
    r = fl_tcp_target_init(&pair->target, &target);
    if (r < 0) {
        free(pair);
        return r;
    }
    *out = pair;
    options->handler->opened(&pair->target.conn, options->listener_user);
    return 0;
}

void fl_pair_destroy(struct fl_pair *pair)
{
    if (!pair)
        return;
    if (!pair->closed) {
        fl_pair_cut(pair);
        fl_pair_run(pair);
    }
    fl_poller_del(&pair->poller);
    fl_tcp_target_fini(&pair->target);
    free(pair);
}

size_t fl_pair_feed(struct fl_pair *pair, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;
    size_t total = 0;

    while (total < len && !pair->closed) {
        struct iovec iov[8];
        int nr = fl_tcp_target_rx_iov(&pair->target, iov, 8);
        size_t took = 0;

        if (!nr)
            break;
        for (int i = 0; i < nr; i++) {
            size_t n = FL_MIN(iov[i].iov_len, len - total - took);

            memcpy(iov[i].iov_base, p + total + took, n);
            took += n;
        }
        total += took;
        fl_tcp_target_rx_done(&pair->target, took);
        fl_pair_run(pair);
    }
    return total;
}

size_t fl_pair_take(struct fl_pair *pair, void *bytes, size_t len)
{
    struct fl_tcp_stream *s = &pair->target.stream;
    size_t total = 0;

    while (total < len && !pair->closed && !pair->target.moving && fl_tcp_stream_tx_pending(s)) {
        struct iovec iov[8];
        int nr = fl_tcp_stream_tx_iov(s, iov, 8);
        size_t took = 0;

        for (int i = 0; i < nr; i++) {
            size_t n = FL_MIN(iov[i].iov_len, len - total - took);

            memcpy((uint8_t *)bytes + total + took, iov[i].iov_base, n);
            took += n;
        }
        total += took;
        fl_tcp_target_tx_done(&pair->target, took);
        fl_pair_run(pair);
    }
    return total;
}

size_t fl_pair_pending(const struct fl_pair *pair)
{
    const struct fl_tcp_stream *s = &pair->target.stream;
    size_t total = 0;

    for (uint32_t i = 0; i < s->nr_segs; i++)
        total += s->segs[(s->seg_head + i) & (s->seg_cap - 1)].len;
    return total - s->seg_off;
}

void fl_pair_cut(struct fl_pair *pair)
{
    if (pair->closed)
        return;
    fl_tcp_target_cut(&pair->target, "the connection was cut");
    fl_pair_run(pair);
}

bool fl_pair_closed(const struct fl_pair *pair)
{
    return pair->closed;
}

const char *fl_pair_why(const struct fl_pair *pair)
{
    return pair->target.why;
}

struct fl_conn *fl_pair_conn(struct fl_pair *pair)
{
    return &pair->target.conn;
}
