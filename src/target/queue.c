/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A queue: one connection. It is born on the control loop, moves to its own at the Connect of an I/O queue,
 * and when the connection has ended goes back to the control loop by message (gone), and once more to its
 * loop to be freed there (bye), behind whatever the control loop had sent it before.
 */
#include <assert.h>
#include <stdlib.h>

#include "base/clock.h"
#include "target/core.h"

void fl_tqueue_track(struct fl_cmd *cmd, enum fl_tio_state state, void (*cancel)(struct fl_cmd *cmd))
{
    struct fl_tio *tio = fl_tio_of(cmd);
    struct fl_tqueue *q = cmd->conn->user;

    tio->state = (uint8_t)state;
    tio->cancel = cancel;
    if (!tio->listed) {
        tio->listed = true;
        fl_list_add_tail(&q->async, &cmd->link);
    }
}

/* What the operator and the error log hear of. Conflicts, aborts, paths and unequal data are the everyday of
 * a cluster. */
static bool is_fault(fl_nvme_status status)
{
    uint16_t code = fl_nvme_status_code(status);

    return fl_nvme_status_type(status) != FL_NVME_SCT_PATH && code != FL_NVME_SC_ABORT_REQ &&
           code != FL_NVME_SC_RESV_CONFLICT && code != FL_NVME_SC_COMPARE_FAILED &&
           code != FL_NVME_SC_FUSED_FAIL && code != FL_NVME_SC_ASYNC_LIMIT;
}

static void note_fault(struct fl_tqueue *q, struct fl_cmd *cmd, fl_nvme_status *status)
{
    enum fl_log_level level;

    FL_COUNT(q->io.nr_errors, 1);
    if (!q->ctrl || !is_fault(*status))
        return;
    *status |= FL_NVME_MORE;
    fl_tctrl_log_error(q->ctrl, cmd, q->qid, *status);
    /* The first on a queue is for the operator, the others only for who debugs the host. */
    level = q->io.nr_errors == 1 ? FL_LOG_INFO : FL_LOG_DEBUG;
    if (fl_log_enabled(level))
        fl_log(level, "%s (%s) queue %u: %s: %s", q->ctrl->hostnqn, q->ctrl->peer, q->qid,
               fl_nvme_opcode_text(!q->qid, cmd->sqe.opcode),
               q->qid ? fl_nvme_io_status_text(*status) : fl_nvme_status_text(*status));
}

static void abort_answer(struct fl_msg *msg)
{
    fl_admin_abort_done(FL_CONTAINER_OF(msg, struct fl_abort, msg));
}

void fl_tqueue_tell_time(struct fl_cmd *cmd)
{
    const uint64_t ns = fl_now_ns() - cmd->start_ns;

    cmd->cqe.dw1 = le32_of((uint32_t)FL_MIN(FL_MAX(ns, 1u), (uint64_t)UINT32_MAX)); /* 0: not told */
    cmd->start_ns = 0;
}

void fl_tqueue_finish_slow(struct fl_cmd *cmd, fl_nvme_status status)
{
    struct fl_conn *conn = cmd->conn;
    struct fl_tqueue *q = conn->user;
    struct fl_tio *tio = fl_tio_of(cmd);
    struct fl_abort *abort = tio->abort;
    struct fl_cmd *pair = tio->pair;

    if (tio->listed) {
        tio->listed = false;
        fl_list_del(&cmd->link);
    }
    if (status)
        note_fault(q, cmd, &status);
    if (!conn->sq_flow_off && ++conn->sqhd >= conn->sq_len)
        conn->sqhd = 0;
    cmd->cqe.sqhd = le16_of(conn->sqhd);
    cmd->cqe.status = le16_of((uint16_t)(status << 1));
    tio->abort = NULL;
    tio->pair = NULL;
    fl_cmd_complete(cmd);
    if (pair) { /* half of a fused operation failed before it began: so does the other */
        fl_tio_of(pair)->pair = NULL;
        fl_tqueue_finish(pair, FL_NVME_SC_FUSED_FAIL);
    }
    if (abort) { /* the victim's completion is on its way, now the Abort may tell (base
                    specification 2.0, 5.1) */
        abort->aborted = fl_nvme_status_code(status) == FL_NVME_SC_ABORT_REQ;
        abort->msg.run = abort_answer;
        fl_loop_post(abort->queue->target->loop, &abort->msg);
    }
}

/* ---- waiting ---- */

static void cancel_buffer(struct fl_cmd *cmd)
{
    fl_pool_wait_cancel(&cmd->wait);
}

static void buffer_ready(struct fl_pool_wait *wait, void *buf)
{
    struct fl_cmd *cmd = FL_CONTAINER_OF(wait, struct fl_cmd, wait);
    struct fl_tio *tio = fl_tio_of(cmd);

    tio->cancel = NULL;
    cmd->buf = cmd->data = buf;
    tio->next(cmd);
}

void fl_tqueue_with_buffer(struct fl_cmd *cmd, uint32_t len, void (*next)(struct fl_cmd *cmd))
{
    struct fl_conn *conn = cmd->conn;
    void *buf = fl_pool_get(conn->pool, len);

    if (fl_likely(buf)) {
        cmd->buf = cmd->data = buf;
        next(cmd);
        return;
    }
    if (conn->dead) {
        fl_tqueue_finish(cmd, FL_NVME_SC_ABORT_REQ);
        return;
    }
    fl_tio_of(cmd)->next = next;
    fl_tqueue_track(cmd, FL_TIO_WAITING, cancel_buffer);
    cmd->wait.ready = buffer_ready;
    fl_pool_wait(conn->pool, &cmd->wait, len);
}

void fl_tqueue_fetch(struct fl_cmd *cmd, uint32_t len, void (*next)(struct fl_cmd *cmd))
{
    fl_tio_of(cmd)->next = next;
    cmd->data_len = len;
    cmd->to_host = false;
    fl_tqueue_track(cmd, FL_TIO_FETCHING, NULL);
    fl_cmd_fetch(cmd);
}

static void fetch_into_buffer(struct fl_cmd *cmd)
{
    fl_tqueue_fetch(cmd, cmd->data_len, fl_tio_of(cmd)->then);
}

void fl_tqueue_receive(struct fl_cmd *cmd, uint32_t len, void (*next)(struct fl_cmd *cmd))
{
    cmd->data_len = len;
    fl_tio_of(cmd)->then = next;
    fl_tqueue_with_buffer(cmd, len, fetch_into_buffer);
}

static void on_data_ready(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    if (fl_unlikely(cmd->transport_status || tio->abort)) {
        ((struct fl_tqueue *)cmd->conn->user)->connecting = false; /* if it was one */
        fl_tqueue_finish(cmd, cmd->transport_status ? cmd->transport_status : FL_NVME_SC_ABORT_REQ);
        return;
    }
    tio->state = FL_TIO_BACKEND;
    if (fl_unlikely(cmd->start_ns))
        cmd->start_ns = fl_now_ns();
    tio->next(cmd);
}

/* ---- coming and going ---- */

static void on_opened(struct fl_conn *conn, void *listener_user)
{
    struct fl_tport *port = listener_user;
    struct fl_target *target = port->target;
    struct fl_tqueue *q = target->stopping ? NULL : calloc(1, sizeof(*q));

    conn->user = q;
    if (!q) {
        fl_conn_close(conn, target->stopping ? "the target is stopping" : "out of memory");
        return;
    }
    q->conn = conn;
    q->target = target;
    q->worker = &target->workers[0];
    q->port = port;
    port->nr_queues++;
    target->nr_queues++;
    target->most_queues = FL_MAX(target->most_queues, target->nr_queues);
    q->command = fl_fabrics_first_command;
    q->mdts_len = target->options.mdts_len;
    pthread_mutex_init(&q->lock, NULL);
    fl_list_init(&q->async);
    fl_list_init(&q->link);
    fl_list_add_tail(&target->fresh, &q->link);
}

static void on_command(struct fl_cmd *cmd)
{
    struct fl_tqueue *q = cmd->conn->user;
    struct fl_tio *tio = fl_tio_of(cmd);

    cmd->cqe = (struct fl_nvme_cqe){.cid = cmd->sqe.cid};
    cmd->buf = NULL;
    cmd->to_host = false;
    cmd->data_len = 0;
    cmd->place = NULL;
    tio->view = NULL;
    cmd->start_ns = 0;
    tio->listed = tio->marked = false;
    tio->aside_ns = 0;
    tio->state = FL_TIO_NEW;
    tio->abort = NULL;
    tio->cancel = NULL;
    tio->pair = NULL;
    FL_COUNT(q->nr_in_flight, 1);
    FL_COUNT(q->nr_commands, 1);
    if (fl_unlikely(cmd->transport_status)) {
        fl_tqueue_finish(cmd, cmd->transport_status);
        return;
    }
    q->command(q, cmd);
}

static void on_released(struct fl_cmd *cmd)
{
    struct fl_tqueue *q = cmd->conn->user;
    struct fl_ns_view *view = fl_tio_of(cmd)->view;

    FL_COUNT(q->nr_in_flight, -1u);
    if (fl_tio_of(cmd)->marked)
        fl_io_read_over(view, fl_tio_of(cmd));
    if (cmd->buf)
        fl_pool_put(cmd->conn->pool, cmd->buf);
    if (view && --view->nr_in_flight == 0 && fl_unlikely(view->removing))
        fl_view_idle(view);
}

/* Ends what waits for something of our own; what is with the transport or a back end ends by itself. */
static void on_broken(struct fl_conn *conn)
{
    struct fl_tqueue *q = conn->user;
    bool again = true;

    if (!q)
        return;
    while (again) { /* ending one may end others: start over after each */
        struct fl_cmd *cmd;

        again = false;
        fl_list_for_each (cmd, &q->async, link) {
            struct fl_tio *tio = fl_tio_of(cmd);

            if (tio->state == FL_TIO_WAITING && tio->cancel) {
                tio->cancel(cmd);
                tio->cancel = NULL;
                fl_tqueue_finish(cmd, FL_NVME_SC_ABORT_QUEUE);
                again = true;
                break;
            }
        }
    }
    if (q->ctrl && q->ctrl->admin == q)
        fl_aer_drop_all(q->ctrl);
}

static void bye(struct fl_msg *msg)
{
    struct fl_tqueue *q = FL_CONTAINER_OF(msg, struct fl_tqueue, msg_bye);

    pthread_mutex_destroy(&q->lock);
    free(q);
}

static void gone(struct fl_msg *msg)
{
    struct fl_tqueue *q = FL_CONTAINER_OF(msg, struct fl_tqueue, msg_gone);
    struct fl_target *target = q->target;
    struct fl_loop *loop = q->worker->loop;

    fl_list_del(&q->link);
    if (q->counted_in_worker)
        q->worker->nr_queues--;
    q->port->nr_queues--;
    fl_tport_put(q->port);
    if (q->ctrl)
        fl_tctrl_queue_gone(q);
    target->nr_queues--;
    q->msg_bye.run = bye;
    fl_loop_post(loop, &q->msg_bye);
    fl_give_back_after(target);
    fl_target_check_stopped(target);
}

static void on_closed(struct fl_conn *conn, const char *why)
{
    struct fl_tqueue *q = conn->user;

    if (!q)
        return;
    assert(!q->nr_in_flight);
    FL_DEBUG("queue %u of %s ended: %s", q->qid, q->ctrl ? q->ctrl->hostnqn : "a connection",
             why ? why : "closed");
    pthread_mutex_lock(&q->lock);
    q->conn = NULL;
    pthread_mutex_unlock(&q->lock);
    q->msg_gone.run = gone;
    fl_loop_post(q->target->loop, &q->msg_gone);
}

static void close_here(struct fl_msg *msg)
{
    struct fl_tqueue *q = FL_CONTAINER_OF(msg, struct fl_tqueue, msg_close);

    if (q->moving)
        q->close_late = true; /* nobody may touch the connection before moved() */
    else if (q->conn)
        fl_conn_close(q->conn, q->close_why);
}

void fl_tqueue_close(struct fl_tqueue *q, const char *why)
{
    if (q->close_posted)
        return;
    q->close_posted = true;
    q->close_why = why; /* a literal */
    q->msg_close.run = close_here;
    fl_loop_post(q->worker->loop, &q->msg_close);
}

/* ---- Abort ---- */

static void abort_here(struct fl_msg *msg)
{
    struct fl_abort *abort = FL_CONTAINER_OF(msg, struct fl_abort, msg);
    struct fl_tqueue *q = abort->queue;
    struct fl_cmd *cmd;

    fl_list_for_each (cmd, &q->async, link) {
        struct fl_tio *tio = fl_tio_of(cmd);

        if (cmd == abort->cmd || le16_get(cmd->sqe.cid) != abort->cid || tio->abort)
            continue;
        if (tio->state == FL_TIO_WAITING && tio->cancel) {
            tio->cancel(cmd);
            tio->cancel = NULL;
            tio->abort = abort;
            fl_tqueue_finish(cmd, FL_NVME_SC_ABORT_REQ);
            return;
        }
        if (tio->state == FL_TIO_FETCHING) { /* it ends when its data has come; Abort is answered after it */
            tio->abort = abort;
            return;
        }
        break; /* in the back end, or on its way to the host: nobody stops that */
    }
    abort->msg.run = abort_answer;
    fl_loop_post(q->target->loop, &abort->msg);
}

void fl_tqueue_abort(struct fl_abort *abort)
{
    abort->msg.run = abort_here;
    fl_loop_post(abort->queue->worker->loop, &abort->msg);
}

const struct fl_handler fl_target_handler = {
    .opened = on_opened,
    .command = on_command,
    .data_ready = on_data_ready,
    .released = on_released,
    .digest = fl_io_digest,
    .broken = on_broken,
    .closed = on_closed,
};
