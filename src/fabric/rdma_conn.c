/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the target over RDMA is driven, moved and ended. Nothing of a queue pair touches memory
 * once it is destroyed: that is how every end begins, and after it commands are brought to theirs without
 * waiting for completions.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "fabric/rdma_parts.h"

/* A quiet completion queue is polled for this long before it is armed: arming costs the peer a system call.
 */
#define HOT_NS (20 * FL_NS_PER_US)
/* While commands are in work their next step is expected, and to arm the queue would have the RNIC's thread
 * take it: which has no CPU where all are polling. */
#define HOT_AT_WORK_NS (200 * FL_NS_PER_US)
/* In a loop that polls anyway: a host that lost its CPU for a moment goes on soon, and to arm the queue hands
 * the work to the RNIC's thread meanwhile. Not for ever, so that a turn does not look at each idle queue. */
#define HOT_BUSY_NS (50 * FL_NS_PER_MS)
/* While data moves, by the software RNIC packet by packet: a long transfer completes after a while only. */
#define HOT_MOVING_NS (5 * FL_NS_PER_MS)

/* ---- the end ---- */

static void cut(struct rdma_conn *c, const char *why)
{
    if (c->state == FL_RDMA_DEAD)
        return;
    note_why(c, why);
    c->state = FL_RDMA_DEAD;
    c->conn.dead = true;
    if (c->id->qp) {
        (void)c->lib->cm->disconnect(c->id); /* fails where the peer was first */
        if (c->shared)
            fl_rdma_give_back(c);
        c->lib->cm->destroy_qp(c->id);
    }
}

/* Once: what the queue pair had in hand has come to its end; then whatever the target holds back. */
static void tell_target(struct rdma_conn *c)
{
    c->told = true;
    fl_rdma_end_commands(c);
    if (c->conn.handler->broken)
        c->conn.handler->broken(&c->conn);
}

void fl_rdma_free(struct rdma_conn *c)
{
    if (c->id->qp)
        c->lib->cm->destroy_qp(c->id);
    if (c->cq)
        c->lib->verbs->destroy_cq(c->cq);
    if (c->comp)
        c->lib->verbs->destroy_comp_channel(c->comp);
    if (c->recv_mr)
        c->lib->verbs->dereg_mr(c->recv_mr);
    if (c->recv_mem)
        munmap(c->recv_mem, c->recv_mem_len);
    if (c->copies)
        munmap(c->copies, c->copies_len);
    c->lib->cm->destroy_id(c->id);
    if (c->channel)
        c->lib->cm->destroy_event_channel(c->channel);
    if (c->shared)
        fl_rdma_shared_put(c->shared);
    if (c->domain)
        fl_rdma_domain_put(c->domain);
    free(c->slots);
    free(c->pieces);
    free(c->waiting);
    free(c);
}

void fl_rdma_unregister(struct rdma_conn *c)
{
    fl_poller_del(&c->poller);
    fl_timer_cancel(&c->timer);
    fl_watch_del(&c->cm_watch);
    fl_watch_del(&c->cq_watch);
}

int fl_rdma_arm_timer(struct rdma_conn *c, uint32_t ms)
{
    c->timer_deadline = fl_loop_now(c->conn.loop) + ms * FL_NS_PER_MS;
    return fl_timer_set(c->conn.loop, &c->timer, c->timer_deadline);
}

static void close_conn(struct fl_conn *conn, const char *why)
{
    struct rdma_conn *c = rdma_conn_of(conn);

    note_why(c, why);
    if (c->state != FL_RDMA_OPEN)
        return;
    c->state = FL_RDMA_CLOSING;
    conn->dead = true;
    if (fl_rdma_arm_timer(c, c->close_ms) < 0)
        c->broke = true;
    ensure_polled(c);
}

/* What is due after any call. False: c is gone, or has left for another loop. */
static bool serve(struct rdma_conn *c);

/* ---- moving to another loop ---- */

int fl_rdma_register(struct rdma_conn *c)
{
    struct fl_loop *loop = c->conn.loop;
    int r = fl_watch_add(loop, &c->cm_watch, EPOLLIN);

    if (r == 0)
        r = fl_watch_add(loop, &c->cq_watch, EPOLLIN);
    return r;
}

static void arrive(struct fl_msg *msg)
{
    struct rdma_conn *c = FL_CONTAINER_OF(msg, struct rdma_conn, msg);

    c->moving = false;
    if (fl_rdma_register(c) < 0)
        broke(c, "the connection could not be watched");
    if (c->timer_deadline && fl_timer_set(c->conn.loop, &c->timer, c->timer_deadline) < 0)
        broke(c, "no memory for a timer");
    ensure_polled(c);
    c->moved(&c->conn);
    fl_rdma_take_waiting(c);
}

static void depart(struct rdma_conn *c)
{
    fl_rdma_unregister(c);
    c->conn.loop = c->to_loop;
    c->conn.pool = c->to_pool;
    c->to_loop = NULL;
    c->msg.run = arrive;
    fl_loop_post(c->conn.loop, &c->msg);
}

static void move(struct fl_conn *conn, struct fl_loop *loop, struct fl_pool *pool,
                 void (*moved)(struct fl_conn *conn))
{
    struct rdma_conn *c = rdma_conn_of(conn);

    ensure_polled(c); /* departs from there */
    c->moving = true;
    c->to_loop = loop;
    c->to_pool = pool;
    c->moved = moved;
}

/* ---- driving ---- */

static bool serve(struct rdma_conn *c)
{
    if (fl_unlikely(c->to_loop)) {
        depart(c);
        return false;
    }
    if (fl_unlikely(c->broke))
        cut(c, "broken");
    if (c->state == FL_RDMA_CLOSING && !c->nr_sending)
        cut(c, "closed");
    if (fl_likely(c->state != FL_RDMA_DEAD))
        return true;
    if (!c->told)
        tell_target(c);
    if (c->nr_active)
        return true;
    fl_rdma_unregister(c);
    c->conn.handler->closed(&c->conn, c->why);
    fl_rdma_free(c);
    return false;
}

static bool is_cold(const struct rdma_conn *c)
{
    /* An admin queue always has commands: asynchronous event requests. */
    uint64_t hot_ns = c->nr_fetching || c->nr_sending ? HOT_MOVING_NS
                      : c->conn.qid && c->nr_active   ? HOT_AT_WORK_NS
                                                      : HOT_NS;

    if (!fl_loop_sleeps(c->conn.loop) && c->conn.qid)
        hot_ns = HOT_BUSY_NS;
    return fl_loop_now(c->conn.loop) - c->last_ns >= hot_ns;
}

static int poll_conn(struct fl_poller *poller)
{
    struct rdma_conn *c = FL_CONTAINER_OF(poller, struct rdma_conn, poller);
    int work = 0;

    if (fl_likely(c->state != FL_RDMA_DEAD && !c->to_loop)) {
        work = fl_rdma_reap(c);
        if (!work && !c->armed && is_cold(c)) {
            c->armed = true;
            if (ibv_req_notify_cq(c->cq, 0))
                broke(c, "the completion queue could not be armed");
            work = fl_rdma_reap(c); /* what came before it was armed */
        }
    }
    if (work)
        c->last_ns = fl_loop_now(c->conn.loop);
    if (!serve(c))
        return 1;
    if (!work && (c->armed || c->state == FL_RDMA_DEAD)) {
        fl_poller_del(&c->poller);
        return 0;
    }
    return 1; /* not armed: the loop must not sleep */
}

static void cq_ready(struct fl_watch *watch, uint32_t events)
{
    struct rdma_conn *c = FL_CONTAINER_OF(watch, struct rdma_conn, cq_watch);
    struct ibv_cq *cq;
    void *context;

    if (!c->lib->verbs->get_cq_event(c->comp, &cq, &context))
        c->lib->verbs->ack_cq_events(cq, 1);
    c->armed = false;
    c->last_ns = fl_loop_now(c->conn.loop);
    ensure_polled(c);
}

static void cm_ready(struct fl_watch *watch, uint32_t events)
{
    struct rdma_conn *c = FL_CONTAINER_OF(watch, struct rdma_conn, cm_watch);
    struct rdma_cm_event *event;
    enum rdma_cm_event_type type;

    if (c->lib->cm->get_cm_event(c->channel, &event))
        return;
    type = event->event;
    c->lib->cm->ack_cm_event(event);
    if (type == RDMA_CM_EVENT_ESTABLISHED)
        c->established = true;
    else if (type == RDMA_CM_EVENT_DISCONNECTED)
        cut(c, "the host closed the connection");
    else if (type != RDMA_CM_EVENT_TIMEWAIT_EXIT)
        cut(c, c->lib->cm->event_str(type));
    (void)serve(c);
}

static void expired(struct fl_timer *timer)
{
    struct rdma_conn *c = FL_CONTAINER_OF(timer, struct rdma_conn, timer);

    c->timer_deadline = 0;
    if (c->state == FL_RDMA_CLOSING)
        cut(c, "the host did not take the last responses");
    else if (c->state == FL_RDMA_OPEN && !c->conn.sq_len) {
        if (!c->nr_active)
            close_conn(&c->conn, "no NVMe Connect came in time");
        else if (fl_rdma_arm_timer(c, c->setup_ms) < 0) /* Connect has come; the target is at it */
            broke(c, "no memory for a timer");
    }
    (void)serve(c);
}

/* ---- the target's wishes ---- */

static int set_depth(struct fl_conn *conn, uint32_t nr_cmds)
{
    /* HSQSIZE is SQSIZE (RDMA transport specification 1.0, 3.1). */
    return nr_cmds == rdma_conn_of(conn)->nr_recv ? 0 : -EINVAL;
}

static void set_limits(struct fl_conn *conn, uint32_t capsule_data_len)
{
    (void)conn;
    (void)capsule_data_len; /* the receives have been posted: fl_listen_options has told their length */
}

static void info(const struct fl_conn *conn, struct fl_conn_info *out)
{
    const struct rdma_conn *c = rdma_conn_of(conn);

    *out = (struct fl_conn_info){
        .transport = "rdma",
        .rx_len = __atomic_load_n(&c->rx_len, __ATOMIC_RELAXED),
        .tx_len = __atomic_load_n(&c->tx_len, __ATOMIC_RELAXED),
        .nr_pdus_rx = __atomic_load_n(&c->nr_rx, __ATOMIC_RELAXED),
        .nr_pdus_tx = __atomic_load_n(&c->nr_tx, __ATOMIC_RELAXED),
    };
    memcpy(out->peer, c->peer, sizeof(out->peer));
    memcpy(out->local, c->local, sizeof(out->local));
}

static const struct fl_conn_ops ops = {
    .set_depth = set_depth,
    .set_limits = set_limits,
    .fetch = fl_rdma_fetch,
    .complete = fl_rdma_complete,
    .close = close_conn,
    .move = move,
    .info = info,
};

void fl_rdma_prepare(struct rdma_conn *c)
{
    c->conn.ops = &ops;
    c->poller.poll = poll_conn;
    c->timer.expired = expired;
    c->cm_watch = (struct fl_watch){.fd = c->channel->fd, .ready = cm_ready};
    c->cq_watch = (struct fl_watch){.fd = c->comp->fd, .ready = cq_ready};
}
