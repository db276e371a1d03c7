/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that meet at the same bytes of a namespace in memory. A read is sent from there and has it marked
 * until its last byte has left (backend/marks.h); what would write there meanwhile, on whatever loop, is put
 * aside and tried again each turn. A read that meets a writer goes through a buffer, part by part. It is the
 * reader that makes way: once a write has waited for a turn, each loop copies what it still has to send of
 * those bytes (detach), so that a host which takes its data slowly, or never, does not keep others from
 * writing. Where that cannot be done (no buffer is left; RDMA, where it ends by itself) and the write has
 * waited for long, the reader's connection is closed.
 *
 * Nothing here is on the way of commands that meet nobody.
 */
#include "base/clock.h"
#include "target/core.h"

#define LATE_NS     (2 * FL_NS_PER_S)
#define ASK_NS      (50 * FL_NS_PER_US) /* between two questions to the other loops */
#define AGAIN_NS    FL_NS_PER_MS /* a loop that sleeps looks so often; it does not within the first turns */
#define AWAKE_TURNS 64

/* ---- readers make way ---- */

static bool meets(uint64_t off, uint64_t len, uint64_t at)
{
    uint64_t first = off >> FL_MARKS_STRIPE_SHIFT, last = (off + len - 1) >> FL_MARKS_STRIPE_SHIFT;

    return (((at >> FL_MARKS_STRIPE_SHIFT) - first) & (FL_MARKS_NR - 1)) <= last - first;
}

static bool make_way(struct fl_ns_view *view, struct fl_cmd *cmd)
{
    struct fl_conn *conn = cmd->conn;
    void *buf = conn->ops->detach ? fl_pool_get(conn->pool, cmd->data_len) : NULL;

    if (!buf)
        return false;
    if (!conn->ops->detach(cmd, buf)) {
        fl_pool_put(conn->pool, buf);
        return false;
    }
    cmd->buf = buf; /* goes back when the command is released */
    fl_io_read_over(view, fl_tio_of(cmd));
    FL_COUNT(view->io.copied_len, cmd->data_len);
    FL_COUNT(view->io.zero_copy_len, -(uint64_t)cmd->data_len);
    return true;
}

/* Of this loop. late_at: a byte where a write has waited for too long; UINT64_MAX: none. */
static void let_writes_in(struct fl_ns_view *view, uint64_t late_at)
{
    struct fl_tio *tio, *next;

    fl_list_for_each_safe (tio, next, &view->reading, bio.link) {
        struct fl_cmd *cmd = fl_cmd_of_tio(tio);

        if (!fl_marks_wanted(view->marks, tio->off, tio->len) || make_way(view, cmd))
            continue;
        /* No other reader was let in since it waits: this one was there before. */
        if (late_at != UINT64_MAX && meets(tio->off, tio->len, late_at)) {
            fl_conn_close(cmd->conn, "it did not take its data while others waited to write there");
            return; /* its commands may have left the list; others have their turn when it is asked again */
        }
    }
}

/* ---- the question goes from loop to loop, and back to who asked ---- */

static void go_on(struct fl_ns_view *view);

static void answered(struct fl_msg *msg)
{
    struct fl_ns_view *view = FL_CONTAINER_OF(msg, struct fl_ns_view, aside.msg);

    view->aside.asking = false;
    if (view->aside.nr)
        go_on(view);
    if (--view->nr_in_flight == 0 && view->removing)
        fl_view_idle(view);
}

static void pass_on(struct fl_ns_view *view, uint32_t at);

static void asked(struct fl_msg *msg)
{
    struct fl_ns_view *view = FL_CONTAINER_OF(msg, struct fl_ns_view, aside.msg);

    let_writes_in(&view->ns->views[view->aside.at], view->aside.late_at);
    pass_on(view, view->aside.at + 1);
}

static void pass_on(struct fl_ns_view *view, uint32_t at)
{
    uint32_t nr = view->worker->target->nr_workers;

    view->aside.at = at == nr ? 0 : at;
    view->aside.msg.run = view->aside.at == view->worker->index ? answered : asked;
    fl_loop_post(view->ns->views[view->aside.at].worker->loop, &view->aside.msg);
}

static void ask_others(struct fl_ns_view *view, uint64_t late_at)
{
    uint64_t now = fl_now_ns();

    if (view->aside.asking || view->worker->target->nr_workers == 1 || now - view->aside.asked_ns < ASK_NS)
        return;
    view->aside.asked_ns = now;
    view->aside.asking = true;
    view->aside.late_at = late_at;
    view->nr_in_flight++; /* so that the views stay until it is back */
    pass_on(view, view->worker->index + 1);
}

/* ---- those that wait ---- */

static void stop_looking(struct fl_ns_view *view)
{
    fl_poller_del(&view->aside.poller);
    fl_timer_cancel(&view->aside.timer);
}

/* Where the write that has waited longest stands, if that is too long. */
static uint64_t find_late(const struct fl_ns_view *view)
{
    uint64_t now = fl_now_ns();
    struct fl_tio *tio;

    fl_list_for_each (tio, &view->aside.list, bio.link)
        if (tio->aside_at != UINT64_MAX && now - tio->aside_ns > LATE_NS)
            return tio->aside_at;
    return UINT64_MAX;
}

static void go_on(struct fl_ns_view *view)
{
    struct fl_list now, *link;
    uint64_t late_at;

    fl_list_init(&now);
    fl_list_splice(&now, &view->aside.list);
    while ((link = fl_list_pop(&now))) {
        struct fl_tio *tio = FL_CONTAINER_OF(link, struct fl_tio, bio.link);

        view->aside.nr--;
        tio->next(fl_cmd_of_tio(tio));
    }
    if (!view->aside.nr) {
        stop_looking(view);
        view->aside.nr_turns = 0;
        return;
    }
    if (!view->aside.nr_turns++)
        return; /* most are through when their loop has sent what it has */
    late_at = find_late(view);
    let_writes_in(view, late_at);
    ask_others(view, late_at);
}

static int look_again(struct fl_poller *poller)
{
    struct fl_ns_view *view = FL_CONTAINER_OF(poller, struct fl_ns_view, aside.poller);
    uint32_t had = view->aside.nr;

    go_on(view);
    return view->aside.nr < had || view->aside.nr_turns < AWAKE_TURNS;
}

static void wake_up(struct fl_timer *timer)
{
    struct fl_ns_view *view = FL_CONTAINER_OF(timer, struct fl_ns_view, aside.timer);

    go_on(view);
    if (view->aside.nr)
        fl_timer_set(view->worker->loop, timer, fl_loop_now(view->worker->loop) + AGAIN_NS);
}

static void put_aside(struct fl_ns_view *view, struct fl_cmd *cmd, uint64_t at,
                      void (*again)(struct fl_cmd *cmd))
{
    struct fl_loop *loop = view->worker->loop;
    struct fl_tio *tio = fl_tio_of(cmd);

    fl_tqueue_track(cmd, FL_TIO_BACKEND, NULL);
    tio->next = again;
    tio->aside_at = at;
    if (!tio->aside_ns)
        tio->aside_ns = fl_now_ns();
    fl_list_add_tail(&view->aside.list, &tio->bio.link);
    if (view->aside.nr++ || view->aside.poller.loop)
        return;
    view->aside.poller.poll = look_again;
    fl_poller_add(loop, &view->aside.poller);
    view->aside.timer.expired = wake_up;
    fl_timer_set(loop, &view->aside.timer, fl_loop_now(loop) + AGAIN_NS);
}

void fl_io_put_aside(struct fl_ns_view *view, struct fl_cmd *cmd, void (*again)(struct fl_cmd *cmd))
{
    put_aside(view, cmd, UINT64_MAX, again);
}

/* ---- what the back end could not write ---- */

static void resume(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    if (tio->from_capsule) /* the transport has put it elsewhere */
        tio->iov.iov_base = (void *)(uintptr_t)cmd->capsule_data;
    fl_chan_resume(tio->view->chan, &tio->bio);
}

void fl_io_bio_again(struct fl_bio *bio, uint64_t off)
{
    struct fl_tio *tio = FL_CONTAINER_OF(bio, struct fl_tio, bio);
    struct fl_cmd *cmd = fl_cmd_of_tio(tio);

    tio->from_capsule = cmd->capsule_data && tio->iov.iov_base == cmd->capsule_data;
    put_aside(tio->view, cmd, bio->op == FL_BIO_READ ? UINT64_MAX : off, resume);
}
