/* SPDX-License-Identifier: Apache-2.0 */
/* The public face of a queue: checks that hold for every kind of device, and the synchronous calls. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "host/device.h"
#include "host/status.h"

int fl_queue_create(struct fl_device *dev, uint32_t depth, struct fl_queue **queue, struct fl_error *err)
{
    int r;

    if (!depth)
        return fl_error_set(err, -EINVAL, "a queue needs a depth of at least 1");
    if (!dev->block_len)
        return fl_error_set(err, -EINVAL,
                            "%s was opened as a subsystem, without a namespace: it takes no I/O", dev->url);
    r = dev->ops->queue_create(dev, depth, queue, err);
    if (r < 0)
        return r;
    (*queue)->dev = dev;
    (*queue)->depth = depth;
    return 0;
}

void fl_queue_destroy(struct fl_queue *queue)
{
    if (queue)
        queue->ops->destroy(queue);
}

static bool has_data(enum fl_io_op op)
{
    return op == FL_IO_READ || op == FL_IO_WRITE || op == FL_IO_COMPARE;
}

/* Not NULL, and len bytes in all. */
static bool iov_fits(const struct fl_io *io)
{
    uint64_t len = 0;

    for (uint32_t i = 0; i < io->nr_iov; i++) {
        if (io->iov[i].iov_len > io->len - len || fl_unlikely(!io->iov[i].iov_base && io->iov[i].iov_len))
            return false;
        len += io->iov[i].iov_len;
    }
    return len == io->len;
}

/* What is wrong with it. */
static int iov_errno(const struct fl_io *io)
{
    for (uint32_t i = 0; i < io->nr_iov; i++)
        if (!io->iov[i].iov_base && io->iov[i].iov_len)
            return -EFAULT;
    return -EINVAL;
}

int fl_submit(struct fl_queue *queue, struct fl_io *io)
{
    const struct fl_device *dev = queue->dev;

    if (fl_unlikely(queue->nr_ios >= queue->depth))
        return -EAGAIN;
    if (fl_unlikely(io->op > FL_IO_VERIFY) || fl_unlikely(io->flags & ~FL_IO_FUA))
        return -EINVAL;
    if (fl_likely(io->op != FL_IO_FLUSH)) {
        if (fl_unlikely((io->off | io->len) & (dev->block_len - 1)) || fl_unlikely(!io->len) ||
            fl_unlikely(!fl_range_fits(io->off, io->len, fl_device_len(dev))))
            return -EINVAL;
        if (fl_likely(has_data(io->op)) && fl_unlikely(!iov_fits(io)))
            return iov_errno(io);
    }
    io->nvme_status = 0;
    queue->nr_ios++;
    queue->ops->submit(queue, io);
    return 0;
}

int fl_queue_poll(struct fl_queue *queue)
{
    int r;

    queue->nr_done = 0;
    r = queue->ops->poll(queue);
    return queue->nr_done ? (int)queue->nr_done : r;
}

int fl_queue_wait(struct fl_queue *queue, int timeout_ms)
{
    return queue->ops->wait(queue, timeout_ms);
}

int fl_queue_fd(struct fl_queue *queue)
{
    return queue->ops->fd(queue);
}

/* ---- synchronous ---- */

struct sync_io {
    struct fl_io io;
    int result;
    bool done;
};

static void sync_done(struct fl_io *io, int result)
{
    struct sync_io *s = FL_CONTAINER_OF(io, struct sync_io, io);

    s->result = result;
    s->done = true;
}

static const char *const op_names[] = {
    [FL_IO_READ] = "read",       [FL_IO_WRITE] = "write",
    [FL_IO_FLUSH] = "flush",     [FL_IO_WRITE_ZEROES] = "write zeroes",
    [FL_IO_DISCARD] = "discard", [FL_IO_COMPARE] = "compare",
    [FL_IO_VERIFY] = "verify",
};

char *fl_io_text(const struct fl_io *io, uint32_t block_len, char buf[FL_IO_TEXT_LEN])
{
    const char *name = io->op < FL_ARRAY_LEN(op_names) ? op_names[io->op] : "I/O";

    if (io->op == FL_IO_FLUSH)
        snprintf(buf, FL_IO_TEXT_LEN, "flush");
    else if (!block_len || (io->off | io->len) & (block_len - 1))
        snprintf(buf, FL_IO_TEXT_LEN, "%s of %" PRIu64 " bytes at byte %" PRIu64, name, io->len, io->off);
    else
        snprintf(buf, FL_IO_TEXT_LEN, "%s of %" PRIu64 " block%s at %" PRIu64, name, io->len / block_len,
                 io->len == block_len ? "" : "s", io->off / block_len);
    return buf;
}

/* Why fl_submit refused it. */
static int refused(const struct fl_queue *queue, const struct fl_io *io, int r, struct fl_error *err)
{
    const struct fl_device *dev = queue->dev;
    char what[FL_IO_TEXT_LEN];

    fl_io_text(io, dev->block_len, what);
    if (r == -EAGAIN)
        return fl_error_set(
            err, r, "%s: the queue is full; synchronous calls are for queues with nothing in flight", what);
    if (r == -EFAULT)
        return fl_error_set(err, r, "%s: the buffer is NULL", what);
    if (!io->len || (io->off | io->len) & (dev->block_len - 1))
        return fl_error_set(
            err, r, "%s: offset and length must be multiples of the block length, %" PRIu32 ", and not 0",
            what, dev->block_len);
    return fl_error_set(err, r, "%s: %s has %" PRIu64 " bytes", what, dev->url, fl_device_len(dev));
}

static int run_sync(struct fl_queue *queue, enum fl_io_op op, void *buf, uint64_t off, uint64_t len,
                    struct fl_error *err)
{
    struct iovec iov = {buf, (size_t)len};
    struct sync_io s = {
        .io = {.op = op, .off = off, .len = len, .iov = &iov, .nr_iov = 1, .done = sync_done}};
    int r = fl_submit(queue, &s.io);

    if (r < 0)
        return refused(queue, &s.io, r, err);
    while (!s.done)
        if (fl_queue_poll(queue) == 0 && !s.done)
            fl_queue_wait(queue, -1);
    if (s.result < 0) {
        char what[FL_IO_TEXT_LEN], why[FL_STATUS_TEXT_LEN];
        struct fl_device_info info = {0};

        if (s.result == -ENODEV || s.result == -ENOLINK)
            fl_device_info(queue->dev, &info);
        fl_error_set(err, s.result, "%s: %s%s%s", fl_io_text(&s.io, queue->dev->block_len, what),
                     fl_io_result_text(s.result, s.io.nvme_status, why), *info.reason ? ": " : "",
                     info.reason);
    }
    return s.result;
}

int fl_read(struct fl_queue *queue, void *buf, uint64_t off, uint64_t len, struct fl_error *err)
{
    return len ? run_sync(queue, FL_IO_READ, buf, off, len, err) : 0;
}

int fl_write(struct fl_queue *queue, const void *buf, uint64_t off, uint64_t len, struct fl_error *err)
{
    return len ? run_sync(queue, FL_IO_WRITE, (void *)buf, off, len, err) : 0;
}

int fl_flush(struct fl_queue *queue, struct fl_error *err)
{
    return run_sync(queue, FL_IO_FLUSH, NULL, 0, 0, err);
}
