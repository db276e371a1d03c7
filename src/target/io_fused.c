/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare and Write as one (base specification 2.0, 6.2; NVM command set 1.0, 2.1.3): the Compare waits for
 * the Write that must follow it on the queue. Both halves' data is received into one buffer, the first's;
 * then the namespace is taken for this pair alone (exclusive.c), compared, written, and let go. With one loop
 * and a back end that ends inside the call there is nobody to keep out. The first half's response goes first;
 * its buffer, in which the second's data lies, is free only after both are through.
 */
#include "target/core.h"

static void cancel_first(struct fl_cmd *cmd)
{
    struct fl_tqueue *q = cmd->conn->user;

    q->fused = NULL;
}

static void finish_both(struct fl_cmd *first, fl_nvme_status one, struct fl_cmd *second, fl_nvme_status two)
{
    fl_tio_of(first)->pair = fl_tio_of(second)->pair = NULL;
    fl_tqueue_finish(first, one);
    fl_tqueue_finish(second, two);
}

/* ---- the end ---- */

static void pair_over(struct fl_msg *msg)
{
    struct fl_tio *tio = FL_CONTAINER_OF(msg, struct fl_tio, msg);
    struct fl_cmd *first = fl_cmd_of_tio(tio), *second = tio->pair;

    finish_both(first, tio->u.resv.status, second, fl_tio_of(second)->u.resv.status);
}

static void let_others_go(struct fl_msg *msg)
{
    struct fl_tio *tio = FL_CONTAINER_OF(msg, struct fl_tio, msg);

    fl_excl_end(tio->view->ns);
    tio->msg.run = pair_over;
    fl_loop_post(tio->view->worker->loop, &tio->msg);
}

static void pair_done(struct fl_cmd *first, fl_nvme_status one, fl_nvme_status two)
{
    struct fl_tio *tio = fl_tio_of(first);

    if (!tio->excl.go) {
        finish_both(first, one, tio->pair, two);
        return;
    }
    tio->u.resv.status = one;
    fl_tio_of(tio->pair)->u.resv.status = two;
    tio->msg.run = let_others_go;
    fl_loop_post(tio->view->ns->ss->target->loop, &tio->msg);
}

/* ---- compare, then write ---- */

static void written(struct fl_bio *bio, int result)
{
    struct fl_cmd *second = fl_cmd_of_tio(FL_CONTAINER_OF(bio, struct fl_tio, bio));

    pair_done(fl_tio_of(second)->pair, FL_NVME_SC_SUCCESS, fl_io_errno(second, result, FL_NVME_IO_WRITE));
}

static void compared(struct fl_cmd *first, fl_nvme_status status)
{
    struct fl_cmd *second = fl_tio_of(first)->pair;
    struct fl_tio *tio = fl_tio_of(second);

    if (status) {
        pair_done(first, status, FL_NVME_SC_FUSED_FAIL);
        return;
    }
    tio->iov = (struct iovec){second->data, tio->len};
    fl_io_submit(second, FL_BIO_WRITE, fl_io_fua(second), written);
}

static void start_pair(struct fl_cmd *first)
{
    struct fl_tio *tio = fl_tio_of(first);

    if (tio->view->resv && !fl_io_check_access(tio->view, first->conn->user, FL_NVME_ACCESS_WRITE)) {
        pair_done(first, FL_NVME_SC_ABORT_PREEMPT, FL_NVME_SC_FUSED_FAIL);
        return;
    }
    tio->compared = compared;
    fl_io_compare_received(first);
}

static void pair_go(struct fl_msg *msg)
{
    start_pair(fl_cmd_of_tio(FL_CONTAINER_OF(msg, struct fl_tio, msg)));
}

/* ---- taking the namespace ---- */

static void pair_failed(struct fl_msg *msg)
{
    struct fl_tio *tio = FL_CONTAINER_OF(msg, struct fl_tio, msg);

    finish_both(fl_cmd_of_tio(tio), FL_NVME_SC_INTERNAL, tio->pair, FL_NVME_SC_FUSED_FAIL);
}

static void granted(struct fl_excl *excl)
{
    struct fl_tio *tio = FL_CONTAINER_OF(excl, struct fl_tio, excl);

    tio->msg.run = tio->view->ns->excl == excl ? pair_go : pair_failed;
    fl_loop_post(tio->view->worker->loop, &tio->msg);
}

static void ask(struct fl_msg *msg)
{
    struct fl_tio *tio = FL_CONTAINER_OF(msg, struct fl_tio, msg);

    fl_excl_ask(tio->view->ns, &tio->excl);
}

/* Both halves' data is here. */
static void take_namespace(struct fl_cmd *second)
{
    struct fl_cmd *first = fl_tio_of(second)->pair;
    struct fl_tio *tio = fl_tio_of(first);
    struct fl_target *target = tio->view->ns->ss->target;

    if (target->nr_workers == 1 && tio->view->sync && tio->view->mem && !tio->view->hold &&
        !tio->view->nr_writes && (!tio->view->marks || fl_marks_idle(tio->view->marks, tio->off, tio->len))) {
        tio->excl.go = NULL;
        start_pair(first);
        return;
    }
    tio->excl.go = granted;
    tio->msg.run = ask;
    fl_loop_post(target->loop, &tio->msg);
}

/* ---- data ---- */

static void first_here(struct fl_cmd *first)
{
    struct fl_cmd *second = fl_tio_of(first)->pair;

    second->data = (uint8_t *)first->buf + first->data_len;
    fl_tqueue_fetch(second, first->data_len, take_namespace);
}

static void fetch_first(struct fl_cmd *first)
{
    fl_tqueue_fetch(first, (uint32_t)fl_tio_of(first)->len, first_here);
}

/* ---- checks ---- */

static fl_nvme_status check_half(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    struct fl_ns_view *view;
    uint32_t len;
    fl_nvme_status status = fl_io_check(q, cmd, &view);

    if (!status)
        status = fl_io_range(view, cmd, &len);
    if (status)
        return status;
    if ((le32_get(cmd->sqe.cdw12) & FL_NVME_RW_NLB_MASK) >= FL_FUSED_BLOCKS)
        return FL_NVME_SC_AWU_EXCEEDED | FL_NVME_DNR;
    if (len > q->mdts_len)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    return cmd->sgl_len == len ? FL_NVME_SC_SUCCESS : FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR;
}

static void run_pair(struct fl_tqueue *q, struct fl_cmd *first, struct fl_cmd *second)
{
    fl_nvme_status one = check_half(q, first), two = check_half(q, second);
    struct fl_tio *a = fl_tio_of(first), *b = fl_tio_of(second);

    if (!one && !two && (a->view != b->view || a->off != b->off || a->len != b->len))
        one = FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (one || two) {
        finish_both(first, one ? one : FL_NVME_SC_FUSED_FAIL, second,
                    two && !one ? two : FL_NVME_SC_FUSED_FAIL);
        return;
    }
    FL_COUNT(q->io.nr_writes, 1);
    FL_COUNT(q->io.write_len, b->len);
    FL_COUNT(a->view->io.nr_writes, 1);
    FL_COUNT(a->view->io.write_len, b->len);
    FL_COUNT(a->view->io.copied_len, b->len);
    a->pair = second;
    b->pair = first;
    fl_tqueue_track(second, FL_TIO_BACKEND, NULL);
    fl_tqueue_with_buffer(first, (uint32_t)(a->len * 2),
                          fetch_first); /* FL_FUSED_BLOCKS of 4096, twice: 1 MiB */
}

void fl_io_fused(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    uint8_t fuse = cmd->sqe.flags & FL_NVME_CMD_FUSE_MASK;
    struct fl_cmd *first = q->fused;

    if (first) {
        q->fused = NULL;
        fl_tio_of(first)->cancel = NULL;
        fl_tio_of(first)->state = FL_TIO_BACKEND;
        if (fuse == FL_NVME_CMD_FUSE_SECOND && cmd->sqe.opcode == FL_NVME_CMD_WRITE) {
            run_pair(q, first, cmd);
            return;
        }
        fl_tqueue_finish(first, FL_NVME_SC_FUSED_MISSING | FL_NVME_DNR);
    }
    if (!fuse) {
        q->command(q, cmd);
    } else if (fuse == FL_NVME_CMD_FUSE_FIRST && cmd->sqe.opcode == FL_NVME_CMD_COMPARE) {
        q->fused = cmd;
        fl_tqueue_track(cmd, FL_TIO_WAITING, cancel_first);
    } else if (fuse == FL_NVME_CMD_FUSE_SECOND && cmd->sqe.opcode == FL_NVME_CMD_WRITE) {
        fl_tqueue_finish(cmd, FL_NVME_SC_FUSED_MISSING | FL_NVME_DNR);
    } else { /* no other pair is supported (FUSES) */
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
    }
}
