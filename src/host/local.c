/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local devices: file:, ram: and null: URLs, by the same back ends that a target serves, so that local and
 * remote are used and compared by one program. A queue is a channel of the back end; nothing lies between the
 * caller's buffers and io_uring.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "backend/backend.h"
#include "base/clock.h"
#include "base/log.h"
#include "host/device.h"

#define MAX_TRANSFER (1u << 20) /* nothing is split; a good size to ask for */
#define MAX_DEPTH    1024
#define CHECK_LEN    (1u << 20) /* of the buffer that Compare and Verify read into */

struct local_device {
    struct fl_device base;
    struct fl_backend *backend;
};

/* One I/O on its way through the back end. */
struct local_io {
    struct fl_bio bio;
    struct local_queue *queue;
    struct fl_io *io;
    struct fl_list link; /* on free or finished */
    int result;
    uint64_t pos; /* Compare, Verify: bytes checked */
    uint8_t *buf; /* Compare, Verify: CHECK_LEN bytes or less */
    struct iovec iov;
};

struct local_queue {
    struct fl_queue base;
    struct fl_chan *chan;
    struct fl_list free, finished;
    int epoll_fd, event_fd; /* -1 until fl_queue_fd is asked for */
    struct local_io ios[];
};

static struct local_device *device_of(struct fl_device *dev)
{
    return FL_CONTAINER_OF(dev, struct local_device, base);
}

static struct local_queue *queue_of(struct fl_queue *queue)
{
    return FL_CONTAINER_OF(queue, struct local_queue, base);
}

/* ---- an I/O ---- */

/* Completions are kept for the poll: done() never runs inside fl_submit. */
static void end_io(struct local_io *l, int result)
{
    struct local_queue *q = l->queue;
    uint64_t one = 1;

    l->result = result;
    if (fl_unlikely(l->io->times)) {
        l->io->times->answered_ns = fl_now_ns();
        l->io->times->service_ns = l->io->times->answered_ns - l->io->times->sent_ns;
    }
    if (q->event_fd >= 0 && fl_list_empty(&q->finished) && write(q->event_fd, &one, sizeof(one)) < 0)
        FL_LOG_ONCE(FL_LOG_ERR, "a local queue cannot wake its user (errno %d)", errno);
    fl_list_add_tail(&q->finished, &l->link);
}

static void bio_done(struct fl_bio *bio, int result)
{
    end_io(FL_CONTAINER_OF(bio, struct local_io, bio), result);
}

/* Compares what was read with the caller's bytes from l->pos on. */
static bool is_equal(const struct local_io *l, uint64_t len)
{
    const uint8_t *buf = l->buf;
    uint64_t pos = l->pos;

    for (const struct iovec *v = l->io->iov; len; v++) {
        uint64_t n;

        if (pos >= v->iov_len) {
            pos -= v->iov_len;
            continue;
        }
        n = FL_MIN(v->iov_len - pos, len);
        if (memcmp((const uint8_t *)v->iov_base + pos, buf, n) != 0)
            return false;
        buf += n;
        len -= n;
        pos = 0;
    }
    return true;
}

static void next_check(struct local_io *l);

static void check_done(struct fl_bio *bio, int result)
{
    struct local_io *l = FL_CONTAINER_OF(bio, struct local_io, bio);

    if (!result && l->io->op == FL_IO_COMPARE && !is_equal(l, bio->len))
        result = -EILSEQ;
    l->pos += bio->len;
    if (!result && l->pos < l->io->len) {
        next_check(l);
        return;
    }
    free(l->buf);
    l->buf = NULL;
    end_io(l, result);
}

static void next_check(struct local_io *l)
{
    uint64_t len = FL_MIN(l->io->len - l->pos, (uint64_t)CHECK_LEN);

    l->iov = (struct iovec){.iov_base = l->buf, .iov_len = len};
    l->bio = (struct fl_bio){.op = FL_BIO_READ,
                             .off = l->io->off + l->pos,
                             .len = len,
                             .iov = &l->iov,
                             .nr_iov = 1,
                             .done = check_done};
    fl_chan_submit(l->queue->chan, &l->bio);
}

static void start_check(struct local_io *l)
{
    if (posix_memalign((void **)&l->buf, 4096, FL_MIN(l->io->len, (uint64_t)CHECK_LEN))) {
        l->buf = NULL;
        end_io(l, -ENOMEM);
        return;
    }
    l->pos = 0;
    next_check(l);
}

static void local_submit(struct fl_queue *queue, struct fl_io *io)
{
    static const enum fl_bio_op ops[] = {
        [FL_IO_READ] = FL_BIO_READ,         [FL_IO_WRITE] = FL_BIO_WRITE,  [FL_IO_FLUSH] = FL_BIO_FLUSH,
        [FL_IO_WRITE_ZEROES] = FL_BIO_ZERO, [FL_IO_DISCARD] = FL_BIO_TRIM,
    };
    struct local_queue *q = queue_of(queue);
    struct local_io *l = FL_LIST_ENTRY(fl_list_pop(&q->free), struct local_io, link); /* depth was checked */

    l->io = io;
    if (fl_unlikely(io->times))
        *io->times = (struct fl_io_times){.sent_ns = fl_now_ns()};
    if (io->op == FL_IO_COMPARE || io->op == FL_IO_VERIFY) {
        start_check(l);
        return;
    }
    if (io->op == FL_IO_DISCARD && !q->chan->backend->trims) { /* a hint, as in Dataset Management */
        end_io(l, 0);
        return;
    }
    l->bio = (struct fl_bio){.op = ops[io->op],
                             .flags = io->flags & FL_IO_FUA ? FL_BIO_F_FUA : 0,
                             .off = io->off,
                             .len = io->len,
                             .iov = io->iov,
                             .nr_iov = io->nr_iov,
                             .done = bio_done};
    fl_chan_submit(q->chan, &l->bio);
}

/* ---- the queue ---- */

static void run_finished(struct local_queue *q, bool cancel)
{
    struct fl_list now, *link;
    uint64_t count;

    if (fl_list_empty(&q->finished))
        return;
    if (q->event_fd >= 0 && read(q->event_fd, &count, sizeof(count)) < 0)
        FL_DEBUG(
            "a local queue's eventfd was empty"); /* a completion came before fl_queue_fd was asked for */
    fl_list_init(&now);
    fl_list_splice(&now,
                   &q->finished); /* what done() submits waits for the next poll, or this would never end */
    while ((link = fl_list_pop(&now))) {
        struct local_io *l = FL_LIST_ENTRY(link, struct local_io, link);
        struct fl_io *io = l->io;
        int result = cancel ? -ECANCELED : l->result;

        fl_list_add_head(&q->free, &l->link); /* the one whose cache lines are warm goes first */
        fl_queue_complete(&q->base, io, result);
    }
}

static int local_poll(struct fl_queue *queue)
{
    struct local_queue *q = queue_of(queue);
    int rc = 0;

    if (!q->chan->backend->sync)
        rc = fl_chan_poll(q->chan);
    run_finished(q, false);
    return rc < 0 ? rc : 0;
}

static int local_wait(struct fl_queue *queue, int timeout_ms)
{
    struct local_queue *q = queue_of(queue);
    struct pollfd pfd = {.fd = fl_chan_fd(q->chan), .events = POLLIN};
    int rc;

    if (!q->chan->backend->sync) { /* hands over what was gathered, and may find completions */
        rc = fl_chan_poll(q->chan);
        if (rc < 0)
            return rc;
    }
    if (!fl_list_empty(&q->finished))
        return 1;
    if (!q->base.nr_ios && timeout_ms < 0)
        return 0; /* nothing will ever come */
    rc = poll(&pfd, pfd.fd < 0 ? 0 : 1, timeout_ms);
    return rc < 0 ? (errno == EINTR ? 1 : -errno) : rc > 0;
}

static int add_to_epoll(int epoll_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};

    return fd < 0 || !epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? 0 : -errno;
}

static int local_fd(struct fl_queue *queue)
{
    struct local_queue *q = queue_of(queue);
    int rc;

    if (q->epoll_fd >= 0)
        return q->epoll_fd;
    q->event_fd = eventfd(!fl_list_empty(&q->finished), EFD_CLOEXEC | EFD_NONBLOCK);
    q->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    rc = q->event_fd < 0 || q->epoll_fd < 0 ? -errno : add_to_epoll(q->epoll_fd, q->event_fd);
    if (!rc)
        rc = add_to_epoll(q->epoll_fd, fl_chan_fd(q->chan));
    if (!rc)
        return q->epoll_fd;
    if (q->event_fd >= 0)
        close(q->event_fd);
    if (q->epoll_fd >= 0)
        close(q->epoll_fd);
    q->event_fd = q->epoll_fd = -1;
    return rc;
}

static uint32_t nr_finished(const struct local_queue *q)
{
    uint32_t n = 0;

    for (const struct fl_list *l = q->finished.next; l != &q->finished; l = l->next)
        n++;
    return n;
}

static void local_queue_destroy(struct fl_queue *queue)
{
    struct local_queue *q = queue_of(queue);

    /* The kernel has the caller's buffers until it says so; what done() submits now is waited for as well. */
    while (q->base.nr_ios) {
        while (nr_finished(q) < q->base.nr_ios) {
            struct pollfd pfd = {.fd = fl_chan_fd(q->chan), .events = POLLIN};

            if (fl_chan_poll(q->chan) == 0 && nr_finished(q) < q->base.nr_ios)
                poll(&pfd, 1, 10);
        }
        run_finished(q, true);
    }
    fl_chan_close(q->chan);
    if (q->epoll_fd >= 0)
        close(q->epoll_fd);
    if (q->event_fd >= 0)
        close(q->event_fd);
    free(q);
}

static const struct fl_queue_ops queue_ops = {
    .destroy = local_queue_destroy,
    .submit = local_submit,
    .poll = local_poll,
    .wait = local_wait,
    .fd = local_fd,
};

static int local_queue_create(struct fl_device *dev, uint32_t depth, struct fl_queue **out,
                              struct fl_error *err)
{
    struct local_device *d = device_of(dev);
    struct local_queue *q;
    int rc;

    if (depth > MAX_DEPTH)
        return fl_error_set(err, -EINVAL, "a depth of %u is more than a local queue takes (%u)", depth,
                            MAX_DEPTH);
    q = calloc(1, sizeof(*q) + depth * sizeof(q->ios[0]));
    if (!q)
        return fl_error_set(err, -ENOMEM, "no memory for a queue of depth %u", depth);
    q->base.ops = &queue_ops;
    q->epoll_fd = q->event_fd = -1;
    fl_list_init(&q->free);
    fl_list_init(&q->finished);
    for (uint32_t i = 0; i < depth; i++) {
        q->ios[i].queue = q;
        fl_list_add_tail(&q->free, &q->ios[i].link);
    }
    rc = fl_chan_open(d->backend, NULL, &q->chan);
    if (rc) {
        free(q);
        return fl_error_set(err, rc, "cannot open a queue: %s", strerror(-rc));
    }
    *out = &q->base;
    return 0;
}

/* ---- the device ---- */

static void local_close(struct fl_device *dev)
{
    struct local_device *d = device_of(dev);

    fl_backend_close(d->backend);
    free(d);
}

static void local_info(struct fl_device *dev, struct fl_device_info *info)
{
    const struct fl_backend *backend = device_of(dev)->backend;

    snprintf(info->model, sizeof(info->model), "farlane local %s", backend->ops->kind);
    snprintf(info->state, sizeof(info->state), "live%s%.50s", *backend->note ? ": " : "", backend->note);
    snprintf(info->path_why, sizeof(info->path_why), "%s", backend->note);
    info->max_transfer_len = MAX_TRANSFER;
    info->max_depth = MAX_DEPTH;
    info->volatile_cache = backend->volatile_cache;
    memcpy(info->uuid, backend->uuid, sizeof(info->uuid));
}

/* A file that another process serves may still be read: that is how local and remote are compared. */
static int open_backend(const struct fl_url *url, struct fl_backend **backend, struct fl_error *err)
{
    struct fl_error why = {0};
    struct fl_url along = *url;
    int rc = fl_backend_open(url, backend, &why);

    if (rc == -EBUSY && url->kind == FL_URL_FILE && !url->read_only && url->lock == FL_URL_AUTO) {
        along.read_only = true;
        along.lock = FL_URL_OFF;
        if (!fl_backend_open(&along, backend, NULL)) {
            FL_WARN("%s; it is read along with it, and not written", why.text);
            return 0;
        }
    }
    return rc ? fl_error_set(err, rc, "%s", why.text) : 0;
}

static int local_open(const struct fl_url *url, const struct fl_device_options *options, bool subsystem,
                      struct fl_device **dev, struct fl_error *err);

#define LOCAL_OPS(name)                                                                  \
    {                                                                                    \
        .transport = name, .open = local_open, .close = local_close, .info = local_info, \
        .queue_create = local_queue_create                                               \
    }

const struct fl_device_ops fl_file_device_ops = LOCAL_OPS("file");
const struct fl_device_ops fl_ram_device_ops = LOCAL_OPS("ram");
const struct fl_device_ops fl_null_device_ops = LOCAL_OPS("null");

static int local_open(const struct fl_url *url, const struct fl_device_options *options, bool subsystem,
                      struct fl_device **dev, struct fl_error *err)
{
    struct local_device *d = calloc(1, sizeof(*d));
    int rc;

    if (!d)
        return fl_error_set(err, -ENOMEM, "out of memory");
    rc = open_backend(url, &d->backend, err);
    if (rc) {
        free(d);
        return rc;
    }
    d->base.ops = url->kind == FL_URL_FILE  ? &fl_file_device_ops
                  : url->kind == FL_URL_RAM ? &fl_ram_device_ops
                                            : &fl_null_device_ops;
    d->base.block_len = d->backend->block_len;
    d->base.read_only = d->backend->read_only;
    d->base.len = fl_backend_len(d->backend);
    *dev = &d->base;
    return 0;
}
