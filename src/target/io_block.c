/* SPDX-License-Identifier: Apache-2.0 */
/* I/O commands that move no data between host and namespace: Write Zeroes, Dataset Management, Verify, Copy.
 */
#include <errno.h>

#include "target/core.h"

#define CHUNK_LEN (128u * 1024) /* Verify and Copy read this much at a time */

static struct fl_cmd *cmd_of_bio(struct fl_bio *bio)
{
    return fl_cmd_of_tio(FL_CONTAINER_OF(bio, struct fl_tio, bio));
}

static void count_other(struct fl_tqueue *q, struct fl_ns_view *view)
{
    FL_COUNT(q->io.nr_other, 1);
    FL_COUNT(view->io.nr_other, 1);
}

static void begin_write(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    tio->view->nr_writes++;
    fl_tqueue_track(cmd, FL_TIO_BACKEND, NULL);
}

/* ---- Write Zeroes (NVM command set 1.0, 3.2.8) ---- */

static void zeroes_done(struct fl_bio *bio, int result)
{
    struct fl_cmd *cmd = cmd_of_bio(bio);
    struct fl_tio *tio = fl_tio_of(cmd);

    fl_io_write_done(tio->view);
    fl_tqueue_finish(cmd, fl_io_errno(cmd, result, FL_NVME_IO_WRITE));
}

static void zeroes_start(struct fl_cmd *cmd)
{
    uint32_t cdw12 = le32_get(cmd->sqe.cdw12);

    if (fl_io_held(fl_tio_of(cmd)->view, cmd, zeroes_start))
        return;
    begin_write(cmd);
    fl_io_submit(cmd, FL_BIO_ZERO, fl_io_fua(cmd) | (cdw12 & FL_NVME_RW_DEAC ? FL_BIO_F_MAY_TRIM : 0),
                 zeroes_done);
}

void fl_io_write_zeroes(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd)
{
    uint32_t len;
    fl_nvme_status status = fl_io_range(view, cmd, &len);

    count_other(q, view);
    if (status)
        fl_tqueue_finish(cmd, status);
    else
        zeroes_start(cmd);
}

/* ---- Dataset Management (3.2.3): ranges one after the other; only Deallocate does something ---- */

static void dsm_next(struct fl_cmd *cmd);

static void dsm_done(struct fl_bio *bio, int result)
{
    struct fl_cmd *cmd = cmd_of_bio(bio);
    struct fl_tio *tio = fl_tio_of(cmd);

    if (result &&
        result != -EOPNOTSUPP) { /* Deallocate is a hint: a back end that cannot do it has done enough */
        fl_io_write_done(tio->view);
        fl_tqueue_finish(cmd, fl_io_errno(cmd, result, FL_NVME_IO_WRITE));
        return;
    }
    dsm_next(cmd);
}

static void dsm_next(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);
    const struct fl_nvme_dsm_range *ranges = cmd->data;

    while (tio->u.walk.index < tio->u.walk.nr) {
        const struct fl_nvme_dsm_range *r = &ranges[tio->u.walk.index++];

        if (!le32_get(r->nlb))
            continue;
        tio->off = le64_get(r->slba) << tio->view->block_shift;
        tio->len = (uint64_t)le32_get(r->nlb) << tio->view->block_shift;
        fl_io_submit(cmd, FL_BIO_TRIM, 0, dsm_done);
        return;
    }
    fl_io_write_done(tio->view);
    fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
}

static void dsm_start(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    if (fl_io_held(tio->view, cmd, dsm_start))
        return;
    begin_write(cmd);
    dsm_next(cmd);
}

static void dsm_received(struct fl_cmd *cmd)
{
    const struct fl_nvme_dsm_range *ranges = cmd->data;
    struct fl_tio *tio = fl_tio_of(cmd);

    tio->u.walk.index = 0;
    tio->u.walk.nr = (le32_get(cmd->sqe.cdw10) & 0xff) + 1;
    for (uint32_t i = 0; i < tio->u.walk.nr; i++) {
        if (!fl_nvme_range_ok(le64_get(ranges[i].slba), le32_get(ranges[i].nlb), tio->view->nr_blocks)) {
            fl_tqueue_finish(cmd, FL_NVME_SC_LBA_RANGE | FL_NVME_DNR);
            return;
        }
    }
    if (le32_get(cmd->sqe.cdw11) & FL_NVME_DSM_AD)
        dsm_start(cmd);
    else
        fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
}

/* Hosts may send a longer list than they say there are ranges (Linux sends a whole page). */
void fl_io_dsm(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd)
{
    uint32_t need = ((le32_get(cmd->sqe.cdw10) & 0xff) + 1) * (uint32_t)sizeof(struct fl_nvme_dsm_range);

    count_other(q, view);
    if (cmd->sgl_len < need || cmd->sgl_len > FL_NVME_DSM_NR_RANGES_MAX * sizeof(struct fl_nvme_dsm_range))
        fl_tqueue_finish(cmd, FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR);
    else
        fl_tqueue_receive(cmd, cmd->sgl_len, dsm_received);
}

/* ---- Verify (3.2.6): what can be read is verified ---- */

static void verify_next(struct fl_cmd *cmd);

static void verify_done(struct fl_bio *bio, int result)
{
    struct fl_cmd *cmd = cmd_of_bio(bio);

    if (result)
        fl_tqueue_finish(cmd, fl_io_errno(cmd, result, FL_NVME_IO_READ));
    else
        verify_next(cmd);
}

static void verify_next(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    tio->off += tio->len;
    tio->len = FL_MIN(tio->u.walk.pos - tio->off, (uint64_t)CHUNK_LEN); /* pos: where the range ends */
    if (!tio->len) {
        fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
        return;
    }
    tio->iov = (struct iovec){cmd->buf, tio->len};
    fl_io_submit(cmd, FL_BIO_READ, 0, verify_done);
}

static void verify_start(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    fl_tqueue_track(cmd, FL_TIO_BACKEND, NULL);
    tio->u.walk.pos = tio->off + tio->len;
    tio->len = 0;
    verify_next(cmd);
}

void fl_io_verify(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd)
{
    uint32_t len;
    fl_nvme_status status = fl_io_range(view, cmd, &len);

    count_other(q, view);
    if (status || view->mem) /* memory cannot fail to be read */
        fl_tqueue_finish(cmd, status);
    else
        fl_tqueue_with_buffer(cmd, FL_MIN(len, CHUNK_LEN), verify_start);
}

/*
 * ---- Copy (3.2.2), descriptor format 0 ----
 * The buffer is the list of ranges, at most 4 KiB, and behind it the chunk in work. walk.index is the range,
 * walk.nr how far in it (blocks), walk.pos the next destination block.
 */

#define LIST_LEN 4096u
_Static_assert(FL_COPY_RANGES * sizeof(struct fl_nvme_copy_range) <= LIST_LEN,
               "the list fits before the chunk");
#define COPY_BUF_LEN (CHUNK_LEN * 2) /* a power of two is what the pool gives anyway */

static void copy_next(struct fl_cmd *cmd);

static uint32_t copy_nr_ranges(const struct fl_cmd *cmd)
{
    return (le32_get(cmd->sqe.cdw12) & FL_NVME_COPY_NR_RANGES_MASK) + 1;
}

static void copy_fail(struct fl_cmd *cmd, fl_nvme_status status)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    fl_io_write_done(tio->view);
    cmd->cqe.dw0 = le32_of(tio->u.walk.index); /* the lowest range that was not copied */
    fl_tqueue_finish(cmd, status);
}

static void copy_written(struct fl_bio *bio, int result)
{
    struct fl_cmd *cmd = cmd_of_bio(bio);
    struct fl_tio *tio = fl_tio_of(cmd);
    const struct fl_nvme_copy_range *r = (const struct fl_nvme_copy_range *)cmd->buf + tio->u.walk.index;
    uint32_t blocks = (uint32_t)(tio->len >> tio->view->block_shift);

    if (result) {
        copy_fail(cmd, fl_io_errno(cmd, result, FL_NVME_IO_WRITE));
        return;
    }
    tio->u.walk.pos += blocks;
    tio->u.walk.nr += blocks;
    if (tio->u.walk.nr > le16_get(r->nlb)) {
        tio->u.walk.index++;
        tio->u.walk.nr = 0;
    }
    copy_next(cmd);
}

static void copy_read(struct fl_bio *bio, int result)
{
    struct fl_cmd *cmd = cmd_of_bio(bio);
    struct fl_tio *tio = fl_tio_of(cmd);

    if (result) {
        copy_fail(cmd, fl_io_errno(cmd, result, FL_NVME_IO_READ));
        return;
    }
    tio->off = tio->u.walk.pos << tio->view->block_shift;
    fl_io_submit(cmd, FL_BIO_WRITE, fl_io_fua(cmd), copy_written);
}

static void copy_next(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);
    const struct fl_nvme_copy_range *r = (const struct fl_nvme_copy_range *)cmd->buf + tio->u.walk.index;

    if (tio->u.walk.index == copy_nr_ranges(cmd)) {
        fl_io_write_done(tio->view);
        fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
        return;
    }
    tio->off = (le64_get(r->slba) + tio->u.walk.nr) << tio->view->block_shift;
    tio->len = FL_MIN((uint64_t)(le16_get(r->nlb) + 1 - tio->u.walk.nr) << tio->view->block_shift,
                      (uint64_t)CHUNK_LEN);
    tio->iov = (struct iovec){(uint8_t *)cmd->buf + LIST_LEN, tio->len};
    fl_io_submit(cmd, FL_BIO_READ, 0, copy_read);
}

static void copy_start(struct fl_cmd *cmd)
{
    struct fl_tio *tio = fl_tio_of(cmd);

    if (fl_io_held(tio->view, cmd, copy_start))
        return;
    begin_write(cmd);
    copy_next(cmd);
}

static void copy_received(struct fl_cmd *cmd)
{
    const struct fl_nvme_copy_range *r = cmd->data;
    struct fl_tio *tio = fl_tio_of(cmd);
    uint64_t total = 0, nr_blocks = tio->view->nr_blocks;
    fl_nvme_status status = FL_NVME_SC_SUCCESS;

    tio->u.walk.index = tio->u.walk.nr = 0;
    tio->u.walk.pos = fl_nvme_rw_slba(&cmd->sqe);
    for (uint32_t i = 0; i < copy_nr_ranges(cmd) && !status; i++) {
        uint32_t nr = le16_get(r[i].nlb) + 1u;

        total += nr;
        if (nr > FL_COPY_RANGE_BLOCKS || total > FL_COPY_BLOCKS)
            status = FL_NVME_SC_CMD_SIZE_LIMIT | FL_NVME_DNR;
        else if (!fl_nvme_range_ok(le64_get(r[i].slba), nr, nr_blocks))
            status = FL_NVME_SC_LBA_RANGE | FL_NVME_DNR;
    }
    if (!status && !fl_nvme_range_ok(tio->u.walk.pos, total, nr_blocks))
        status = FL_NVME_SC_LBA_RANGE | FL_NVME_DNR;
    if (status)
        fl_tqueue_finish(cmd, status);
    else
        copy_start(cmd);
}

static void copy_with_buffer(struct fl_cmd *cmd)
{
    fl_tqueue_fetch(cmd, cmd->sgl_len, copy_received);
}

void fl_io_copy(struct fl_tqueue *q, struct fl_ns_view *view, struct fl_cmd *cmd)
{
    uint32_t cdw12 = le32_get(cmd->sqe.cdw12), nr = copy_nr_ranges(cmd);

    count_other(q, view);
    if (cdw12 >> FL_NVME_COPY_FORMAT_SHIFT & FL_NVME_COPY_FORMAT_MASK || cdw12 >> 12 & 0xf /* PRINFOR */ ||
        cdw12 >> FL_NVME_RW_PRINFO_SHIFT & FL_NVME_RW_PRINFO_MASK)
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
    else if (nr > FL_COPY_RANGES)
        fl_tqueue_finish(cmd, FL_NVME_SC_CMD_SIZE_LIMIT | FL_NVME_DNR);
    else if (cmd->sgl_len < nr * sizeof(struct fl_nvme_copy_range) || cmd->sgl_len > LIST_LEN)
        fl_tqueue_finish(cmd, FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR);
    else
        fl_tqueue_with_buffer(cmd, COPY_BUF_LEN, copy_with_buffer);
}
