/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way of a bio through the file back end. Each has one operation under way at a time (fl_file_op):
 *
 *   READ, WRITE   pieces of the bio's iovecs, or of a bounce buffer where O_DIRECT wants other alignment;
 * short ones go on FLUSH         joins the channel's next sync ZERO, TRIM    fallocate, by each way the file
 * has; else zeroes are written, piece by piece; FUA: then joins a sync
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/falloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/file.h"
#include "base/log.h"

#define PIECE_LEN  (UINT64_C(1) << 30) /* below the kernel's MAX_RW_COUNT */
#define BOUNCE_LEN (UINT64_C(1) << 20)
#define NR_RETRIES 100 /* of EAGAIN, EINTR: more is no passing trouble */

static void finish(struct fl_bio *bio, int result)
{
    /* The limits of a quota or of RLIMIT_FSIZE are a full medium to the user of a namespace. */
    if (result == -EDQUOT || result == -EFBIG)
        result = -ENOSPC;
    bio->done(bio, result);
}

static void start(struct fl_bio *bio)
{
    struct fl_file_op *op = fl_file_op(bio);

    op->chan->file->engine->start(op->chan, bio);
}

static void release_own(struct fl_file_op *op)
{
    free(op->own);
    op->own = NULL;
}

/* ---- sync ---- */

static void start_sync(struct fl_file_chan *chan)
{
    fl_list_splice(&chan->sync_now, &chan->sync_next);
    chan->syncing = true;
    *fl_file_op(&chan->sync_bio) = (struct fl_file_op){.chan = chan, .code = FL_FILE_SYNC};
    start(&chan->sync_bio);
}

static void join_sync(struct fl_file_chan *chan, struct fl_bio *bio)
{
    fl_list_add_tail(&chan->sync_next, &bio->link);
    if (!chan->syncing)
        start_sync(chan);
}

static void sync_done(struct fl_file_chan *chan, int result)
{
    struct fl_file *file = chan->file;
    struct fl_list done, *link;

    if (result > 0)
        result = 0;
    if (result && !file->direct && !__atomic_exchange_n(&file->lost, 1, __ATOMIC_RELAXED))
        FL_ERR("%s: writing back failed (%s): data that was taken may be lost; every further flush fails "
               "until the "
               "namespace is opened again",
               file->path, strerror(-result));
    /* The kernel tells of lost pages once a description; whoever flushes later must not take that for
     * success. */
    if (!result && __atomic_load_n(&file->lost, __ATOMIC_RELAXED))
        result = -EIO;
    fl_list_init(&done);
    fl_list_splice(&done, &chan->sync_now);
    chan->syncing = false;
    if (!fl_list_empty(&chan->sync_next))
        start_sync(chan);
    while ((link = fl_list_pop(&done)))
        finish(FL_LIST_ENTRY(link, struct fl_bio, link), result);
}

/* ---- read and write ---- */

static bool is_aligned(const struct fl_file *file, const struct iovec *iov, uint32_t nr_iov)
{
    uintptr_t mem = 0, len = 0;

    if (!file->direct)
        return true;
    for (uint32_t i = 0; i < nr_iov; i++) {
        mem |= (uintptr_t)iov[i].iov_base;
        len |= iov[i].iov_len;
    }
    return !(mem & (file->mem_align - 1)) && !(len & (file->off_align - 1));
}

/* Copies [pos, pos + len) of the bio's iovecs to or from a buffer. */
static void copy(const struct fl_bio *bio, uint64_t pos, uint8_t *buf, uint64_t len, bool to_bio)
{
    for (const struct iovec *v = bio->iov; len; v++) {
        uint64_t n;

        if (pos >= v->iov_len) {
            pos -= v->iov_len;
            continue;
        }
        n = FL_MIN(v->iov_len - pos, len);
        if (to_bio)
            memcpy((uint8_t *)v->iov_base + pos, buf, n);
        else
            memcpy(buf, (uint8_t *)v->iov_base + pos, n);
        buf += n;
        len -= n;
        pos = 0;
    }
}

/* The iovecs of what follows op->pos: a copy of at most IOV_MAX of them, the first cut. */
static int slice_iovecs(const struct fl_bio *bio, struct fl_file_op *op)
{
    const struct iovec *v = bio->iov, *end = bio->iov + bio->nr_iov;
    uint64_t skip = op->pos;
    struct iovec *own;

    for (; v < end && skip >= v->iov_len; v++)
        skip -= v->iov_len;
    own = malloc(FL_MIN((size_t)(end - v), (size_t)IOV_MAX) * sizeof(*own));
    if (!own)
        return -ENOMEM;
    op->own = own;
    op->iov = own;
    op->len = 0;
    for (op->nr_iov = 0; v < end && op->nr_iov < IOV_MAX && op->len < PIECE_LEN; v++, skip = 0) {
        uint64_t n = FL_MIN(v->iov_len - skip, PIECE_LEN - op->len);

        if (!n)
            continue;
        own[op->nr_iov++] = (struct iovec){.iov_base = (uint8_t *)v->iov_base + skip, .iov_len = n};
        op->len += n;
    }
    return 0;
}

static int bounce(const struct fl_bio *bio, struct fl_file_op *op)
{
    const struct fl_file *file = op->chan->file;

    op->len = FL_MIN(bio->len - op->pos, BOUNCE_LEN);
    if (posix_memalign(&op->own, FL_MAX(file->mem_align, file->off_align), op->len)) {
        op->own = NULL;
        return -ENOMEM;
    }
    op->bounce = (struct iovec){.iov_base = op->own, .iov_len = op->len};
    op->iov = &op->bounce;
    op->nr_iov = 1;
    if (bio->op == FL_BIO_WRITE)
        copy(bio, op->pos, op->own, op->len, false);
    return 0;
}

static void next_piece(struct fl_bio *bio)
{
    struct fl_file_op *op = fl_file_op(bio);
    int rc = 0;

    if (fl_unlikely(!is_aligned(op->chan->file, bio->iov, bio->nr_iov))) {
        rc = bounce(bio, op);
    } else if (fl_likely(!op->pos && bio->nr_iov <= IOV_MAX && bio->len <= PIECE_LEN)) {
        op->iov = bio->iov;
        op->nr_iov = bio->nr_iov;
        op->len = bio->len;
    } else {
        rc = slice_iovecs(bio, op);
        if (!rc &&
            !is_aligned(op->chan->file, op->iov, op->nr_iov)) { /* a short one stopped within a block */
            release_own(op);
            rc = bounce(bio, op);
        }
    }
    if (rc)
        finish(bio, rc);
    else
        start(bio);
}

/* ---- zero and trim ---- */

static void write_zeroes(struct fl_bio *bio)
{
    struct fl_file_op *op = fl_file_op(bio);

    op->code = FL_FILE_WRITE;
    op->len = FL_MIN(bio->len - op->pos, (uint64_t)FL_FILE_ZERO_LEN);
    op->bounce = (struct iovec){.iov_base = (void *)op->chan->file->zeroes, .iov_len = op->len};
    op->iov = &op->bounce;
    op->nr_iov = 1;
    start(bio);
}

/* Which ways are tried, in this order, each once. */
static void next_way_to_zero(struct fl_bio *bio, unsigned tried)
{
    struct fl_file_op *op = fl_file_op(bio);
    struct fl_file *file = op->chan->file;
    unsigned can = __atomic_load_n(&file->can, __ATOMIC_RELAXED) & ~tried;
    bool release = bio->op == FL_BIO_TRIM || bio->flags & FL_BIO_F_MAY_TRIM;

    op->code = FL_FILE_ALLOC;
    op->len = bio->len;
    if (can & FL_FILE_CAN_PUNCH && (release || (!(can & FL_FILE_CAN_ZERO) && !file->prealloc)))
        op->mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    else if (can & FL_FILE_CAN_ZERO)
        op->mode = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE;
    else
        op->mode = 0;
    if (op->mode)
        start(bio);
    else
        write_zeroes(bio);
}

static void zero_done(struct fl_bio *bio)
{
    if (bio->flags & FL_BIO_F_FUA)
        join_sync(fl_file_op(bio)->chan, bio);
    else
        finish(bio, 0);
}

static void alloc_done(struct fl_bio *bio, int result)
{
    struct fl_file_op *op = fl_file_op(bio);
    unsigned way = op->mode & FALLOC_FL_PUNCH_HOLE ? FL_FILE_CAN_PUNCH : FL_FILE_CAN_ZERO;
    unsigned tried = way;

    switch (result) {
    case 0:
        zero_done(bio);
        return;
    case -EOPNOTSUPP:
    case -ENOSYS:
    case -ENODEV:
        __atomic_fetch_and(&op->chan->file->can, ~way, __ATOMIC_RELAXED);
        break;
    case -EINVAL: /* this range: blocks smaller than the device's */
    case -EPERM:  /* a sealed or append-only file */
        break;
    default:
        finish(bio, result);
        return;
    }
    if (way == FL_FILE_CAN_ZERO)
        tried |= FL_FILE_CAN_PUNCH; /* it stood before, or was not wanted */
    next_way_to_zero(bio, tried);
}

/* ---- what comes back ---- */

static void rw_done(struct fl_bio *bio, int result)
{
    struct fl_file_op *op = fl_file_op(bio);
    uint64_t n = result > 0 ? (uint64_t)result : 0;
    bool bounced = op->iov == &op->bounce;

    /* O_DIRECT goes on only from a whole unit. Nothing done at all: the file ends early (somebody cut it). */
    if (op->chan->file->direct && op->pos + n < bio->len)
        n &= ~(uint64_t)(op->chan->file->off_align - 1);
    if (n && bounced && bio->op == FL_BIO_READ)
        copy(bio, op->pos, op->own, n, true);
    release_own(op);
    if (!n) {
        finish(bio, result < 0 ? result : -EIO);
        return;
    }
    op->pos += n;
    op->nr_retries = 0;
    if (op->pos < bio->len) {
        if (bio->op == FL_BIO_READ || bio->op == FL_BIO_WRITE)
            next_piece(bio);
        else
            write_zeroes(bio);
    } else if (bio->op == FL_BIO_READ || bio->op == FL_BIO_WRITE) {
        finish(bio, 0);
    } else {
        zero_done(bio);
    }
}

void fl_file_complete(struct fl_bio *bio, int result)
{
    struct fl_file_op *op = fl_file_op(bio);

    if (fl_unlikely((result == -EINTR || result == -EAGAIN) && op->nr_retries < NR_RETRIES)) {
        op->nr_retries++;
        start(bio);
        return;
    }
    switch (op->code) {
    case FL_FILE_READ:
    case FL_FILE_WRITE:
        rw_done(bio, result);
        break;
    case FL_FILE_SYNC:
        sync_done(op->chan, result);
        break;
    case FL_FILE_ALLOC:
        alloc_done(bio, result);
        break;
    }
}

/* ---- the channel ---- */

void fl_file_submit(struct fl_chan *base, struct fl_bio *bio)
{
    struct fl_file_chan *chan = fl_file_chan_of(base);
    struct fl_file_op *op = fl_file_op(bio);
    int rc = fl_bio_check(base->backend, bio);

    if (rc || (!bio->len && bio->op != FL_BIO_FLUSH)) {
        finish(bio, rc);
        return;
    }
    *op = (struct fl_file_op){.chan = chan};
    switch (bio->op) {
    case FL_BIO_READ:
        op->code = FL_FILE_READ;
        next_piece(bio);
        break;
    case FL_BIO_WRITE:
        op->code = FL_FILE_WRITE;
        op->dsync = bio->flags & FL_BIO_F_FUA;
        next_piece(bio);
        break;
    case FL_BIO_FLUSH:
        if (chan->file->base.read_only)
            finish(bio, 0);
        else
            join_sync(chan, bio);
        break;
    case FL_BIO_ZERO:
    case FL_BIO_TRIM:
        next_way_to_zero(bio, 0);
        break;
    }
}

int fl_file_hand_over(struct fl_chan *base)
{
    struct fl_file_chan *chan = fl_file_chan_of(base);

    return chan->file->engine->hand_over(chan);
}

int fl_file_poll(struct fl_chan *base)
{
    struct fl_file_chan *chan = fl_file_chan_of(base);

    return chan->file->engine->reap(chan);
}

int fl_file_fd(struct fl_chan *base)
{
    struct fl_file_chan *chan = fl_file_chan_of(base);

    return chan->file->engine->fd(chan);
}

static int poll_on_loop(struct fl_poller *poller)
{
    struct fl_file_chan *chan = FL_CONTAINER_OF(poller, struct fl_file_chan, poller);
    int n = chan->file->engine->reap(chan), m = chan->file->engine->hand_over(chan);

    return n + (m > 0 ? m : 0);
}

int fl_file_chan_open(struct fl_backend *backend, struct fl_loop *loop, struct fl_chan **out)
{
    struct fl_file *file = fl_file_of(backend);
    struct fl_file_chan *chan = calloc(1, sizeof(*chan));
    int rc;

    if (!chan)
        return -ENOMEM;
    chan->base = (struct fl_chan){.ops = backend->ops, .backend = backend, .loop = loop};
    chan->file = file;
    fl_list_init(&chan->sync_next);
    fl_list_init(&chan->sync_now);
    chan->sync_bio.op = FL_BIO_FLUSH;
    chan->fd = fl_file_reopen(file, file->direct ? O_DIRECT : 0);
    if (chan->fd < 0) {
        rc = chan->fd;
        goto free_chan;
    }
    rc = file->engine->open(chan);
    if (rc)
        goto close_fd;
    if (loop) {
        chan->poller.poll = poll_on_loop;
        fl_poller_add(loop, &chan->poller);
    }
    *out = &chan->base;
    return 0;

close_fd:
    close(chan->fd);
free_chan:
    free(chan);
    return rc;
}

void fl_file_chan_close(struct fl_chan *base)
{
    struct fl_file_chan *chan = fl_file_chan_of(base);

    fl_poller_del(&chan->poller);
    chan->file->engine->close(chan);
    close(chan->fd);
    free(chan);
}
