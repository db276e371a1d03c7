/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compare (NVM command set 1.0, 3.2.1). Memory is compared in place. From other back ends the worker's one
 * scratch buffer is read chunk by chunk; one Compare at a time has it, so that no Compare that holds a buffer
 * waits for another buffer.
 */
#include <stdlib.h>

#include "target/core.h"

#define SCRATCH_LEN (128u * 1024)

static void compare_next(struct fl_cmd *cmd);

static struct fl_cmd *cmd_of_bio(struct fl_bio *bio)
{
    return fl_cmd_of_tio(FL_CONTAINER_OF(bio, struct fl_tio, bio));
}

static void (*after_compare(struct fl_cmd *cmd))(struct fl_cmd *cmd, fl_nvme_status status)
{
    return fl_tio_of(cmd)->compared ? fl_tio_of(cmd)->compared : fl_tqueue_finish;
}

static void scratch_put(struct fl_worker *w)
{
    struct fl_list *link = fl_list_pop(&w->scratch_wait);
    struct fl_tio *tio;

    if (!link) {
        w->scratch_busy = false;
        return;
    }
    tio = FL_CONTAINER_OF(link, struct fl_tio, bio.link); /* no bio is in work while it waits */
    tio->cancel = NULL;
    compare_next(fl_cmd_of_tio(tio));
}

static void cancel_scratch(struct fl_cmd *cmd)
{
    fl_list_del(&fl_tio_of(cmd)->bio.link);
}

static void compare_end(struct fl_cmd *cmd, fl_nvme_status status)
{
    struct fl_worker *w = fl_tio_of(cmd)->view->worker;

    after_compare(cmd)(cmd, status);
    scratch_put(w);
}

static void chunk_read(struct fl_bio *bio, int result)
{
    struct fl_cmd *cmd = cmd_of_bio(bio);
    struct fl_tio *tio = fl_tio_of(cmd);

    if (result)
        compare_end(cmd, fl_io_errno(cmd, result, FL_NVME_IO_READ));
    else if (memcmp(tio->view->worker->scratch, (uint8_t *)cmd->data + tio->u.walk.pos, tio->len))
        compare_end(cmd, FL_NVME_SC_COMPARE_FAILED);
    else {
        tio->u.walk.pos += tio->len;
        compare_next(cmd);
    }
}

/* walk.pos: how much is equal so far. */
static void compare_next(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);
    uint64_t start = fl_nvme_rw_slba(&cmd->sqe) << tio->view->block_shift;

    if (tio->u.walk.pos == cmd->data_len) {
        compare_end(cmd, FL_NVME_SC_SUCCESS);
        return;
    }
    fl_tqueue_track(cmd, FL_TIO_BACKEND, NULL);
    tio->off = start + tio->u.walk.pos;
    tio->len = FL_MIN(cmd->data_len - tio->u.walk.pos, (uint64_t)SCRATCH_LEN);
    tio->iov = (struct iovec){tio->view->worker->scratch, tio->len};
    fl_io_submit(cmd, FL_BIO_READ, 0, chunk_read);
}

static void compare_again(struct fl_cmd *cmd)
{
    if (cmd->capsule_data && !cmd->buf) /* the transport has put it elsewhere */
        cmd->data = (void *)(uintptr_t)cmd->capsule_data;
    fl_io_compare_received(cmd);
}

/* The host's data is in cmd->data. Ends in tio->compared, or as the command's own end. */
void fl_io_compare_received(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);
    struct fl_worker *w = tio->view->worker;

    if (tio->view->mem) {
        struct fl_marks *marks = tio->view->marks;
        bool equal;

        if (marks && !fl_marks_read(marks, tio->off, cmd->data_len)) {
            fl_io_put_aside(tio->view, cmd, compare_again);
            return;
        }
        equal = !memcmp(tio->view->mem + (tio->off & tio->view->mem_mask), cmd->data, cmd->data_len);
        if (marks)
            fl_marks_read_end(marks, tio->off, cmd->data_len);
        after_compare(cmd)(cmd, equal ? FL_NVME_SC_SUCCESS : FL_NVME_SC_COMPARE_FAILED);
        return;
    }
    if (!w->scratch)
        w->scratch = aligned_alloc(4096, SCRATCH_LEN);
    if (!w->scratch) {
        after_compare(cmd)(cmd, FL_NVME_SC_INTERNAL);
        return;
    }
    tio->u.walk.pos = 0;
    if (!w->scratch_busy) {
        w->scratch_busy = true;
        compare_next(cmd);
        return;
    }
    fl_tqueue_track(cmd, FL_TIO_WAITING, cancel_scratch);
    fl_list_add_tail(&w->scratch_wait, &tio->bio.link);
}

void fl_io_compare(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd)
{
    uint32_t len;
    fl_nvme_status status = fl_io_range(view, cmd, &len);

    FL_COUNT(q->io.nr_other, 1);
    FL_COUNT(view->io.nr_other, 1);
    fl_tio_of(cmd)->compared = NULL;
    if (!status && len > q->mdts_len)
        status = FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (!status && cmd->sgl_len != len)
        status = FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR;
    if (status) {
        fl_tqueue_finish(cmd, status);
        return;
    }
    cmd->data_len = len;
    if (cmd->capsule_data && view->mem) {
        cmd->data = (void *)(uintptr_t)cmd->capsule_data; /* only read */
        fl_io_compare_received(cmd);
        return;
    }
    fl_tqueue_receive(cmd, len, fl_io_compare_received);
}
