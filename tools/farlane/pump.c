/* SPDX-License-Identifier: Apache-2.0 */
#include "pump.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <unistd.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/util.h"
#include "mem/shared.h"

enum state { FREE, READING, FULL, WRITING };

struct slot {
    struct pump *pump;
    enum state state;
    uint64_t seq, at; /* number and place of its chunk */
    uint32_t len;
    uint8_t *buf, *data; /* data: the first byte that counts */
    bool submitted;      /* WRITING: the queue has taken it */
    struct fl_io io;
    struct iovec iov;
};

struct pump {
    const struct pump_options *o;
    struct slot *slots;
    uint64_t next_seq, next_at; /* to be read */
    uint64_t out_seq;           /* to be written to a stream */
    uint64_t done_len;
    uint32_t reading, writing; /* in flight on queues */
    bool eof;
    bool lost; /* a queue will not complete what is in flight */
    int failed;
    uint64_t differ_at;
    struct fl_error *err;
};

static volatile sig_atomic_t interrupted;

static void on_signal(int signo)
{
    interrupted = signo;
}

void pump_catch_signals(void)
{
    const struct sigaction action = {.sa_handler = on_signal};

    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

int pump_signal(void)
{
    return interrupted;
}

static void fail(struct pump *p, int code, uint16_t nvme_status, const char *what, const struct endpoint *e)
{
    if (code == -EINTR)
        fl_error_set(p->err, code, "interrupted");
    else if (e->kind == ENDPOINT_DEVICE)
        code = device_io_error(e->dev, &e->info, what, code, nvme_status, p->err);
    else
        fl_error_set(p->err, code, "%s %s: %s", what, e->name, strerror(-code));
    if (!p->failed)
        p->failed = code;
}

/* ---- reading ---- */

static void note_full(struct slot *s)
{
    const struct pump_options *o = s->pump->o;
    uint32_t crc;

    s->state = FULL;
    if (!o->crc)
        return;
    crc = fl_crc32c(0, s->data, s->len);
    if (!o->check) {
        o->crc[s->seq] = crc;
    } else if (o->crc[s->seq] != crc) {
        s->pump->differ_at = FL_MIN(s->pump->differ_at, s->at);
        s->pump->failed = -EILSEQ;
    }
}

static void read_done(struct fl_io *io, int result)
{
    struct slot *s = FL_CONTAINER_OF(io, struct slot, io);

    s->pump->reading--;
    if (result < 0) {
        s->state = FREE;
        fail(s->pump, result, io->nvme_status, "cannot read", s->pump->o->from);
        return;
    }
    note_full(s);
}

/* Whole blocks around the chunk; what is around lies in the buffer beside s->data. */
static int submit(struct endpoint *e, struct slot *s, enum fl_io_op op, uint64_t off,
                  void (*done)(struct fl_io *io, int result))
{
    const uint32_t pad = (uint32_t)(off % e->block_len);

    s->iov = (struct iovec){.iov_base = s->data - pad, .iov_len = fl_round_up(pad + s->len, e->block_len)};
    s->io = (struct fl_io){
        .op = op,
        .off = off - pad,
        .len = s->iov.iov_len,
        .iov = &s->iov,
        .nr_iov = 1,
        .done = done,
    };
    return fl_submit(e->queue, &s->io);
}

/* Up to len bytes, fewer only at the end. */
static ssize_t read_some(const struct endpoint *e, uint8_t *buf, uint32_t len, uint64_t off)
{
    uint32_t got = 0;

    while (got < len) {
        ssize_t n = e->kind == ENDPOINT_FILE ? pread(e->fd, buf + got, len - got, (off_t)(off + got))
                                             : read(e->fd, buf + got, len - got);

        if (n < 0 && errno == EINTR && !interrupted)
            continue;
        if (n < 0)
            return -errno;
        if (n == 0)
            break;
        got += (uint32_t)n;
    }
    return got;
}

static bool read_now(struct pump *p, struct slot *s)
{
    ssize_t n = read_some(p->o->from, s->data, s->len, p->o->from_off + s->at);

    if (n < 0) {
        fail(p, (int)n, 0, "cannot read", p->o->from);
        return false;
    }
    if (n < (ssize_t)s->len) {
        p->eof = true;
        if (p->o->len != UINT64_MAX) {
            fail(p, -EIO, 0, "has ended before its size:", p->o->from);
            return false;
        }
    }
    s->len = (uint32_t)n;
    if (n)
        note_full(s);
    return n > 0;
}

/* A stream may be longer than the namespace: after its last byte, nothing may follow. */
static bool has_room(struct pump *p)
{
    const struct endpoint *to = p->o->to;
    uint8_t byte;

    if (to->kind != ENDPOINT_DEVICE || p->o->to_off + p->next_at < to->len)
        return true;
    if (p->o->len == UINT64_MAX && read_some(p->o->from, &byte, 1, 0) == 0)
        p->eof = true;
    else if (!p->failed)
        p->failed = fl_error_set(p->err, -ENOSPC, "%s is longer than %s", p->o->from->name, to->name);
    return false;
}

static bool start_read(struct pump *p)
{
    const struct pump_options *o = p->o;
    struct slot *s = &p->slots[p->next_seq % o->depth];
    const uint64_t left = o->len == UINT64_MAX ? UINT64_MAX : o->len - p->next_at;
    uint32_t pad;
    int rc;

    if (s->state != FREE || p->eof || left == 0 || !has_room(p))
        return false;
    s->seq = p->next_seq;
    s->at = p->next_at;
    /* The first chunk ends where a chunk of the sink ends, so that all others lie on whole blocks. */
    s->len = (uint32_t)FL_MIN(left, (uint64_t)o->chunk_len - (o->to_off + s->at) % o->chunk_len);
    if (o->to->kind == ENDPOINT_DEVICE)
        s->len = (uint32_t)FL_MIN((uint64_t)s->len, o->to->len - o->to_off - s->at);
    pad = (uint32_t)FL_MAX((o->from_off + s->at) % o->from->block_len,
                           (o->to_off + s->at) % o->to->block_len);
    s->data = s->buf + pad;
    if (o->from->kind == ENDPOINT_DEVICE) {
        rc = submit(o->from, s, FL_IO_READ, o->from_off + s->at, read_done);
        if (rc == -EAGAIN)
            return false;
        if (rc < 0) {
            fail(p, rc, 0, "cannot read", o->from);
            return false;
        }
        s->state = READING;
        p->reading++;
    } else if (!read_now(p, s)) {
        return false;
    }
    p->next_seq++;
    p->next_at += s->len;
    return true;
}

/* ---- writing ---- */

static void note_written(struct slot *s)
{
    s->pump->done_len += s->len;
    s->state = FREE;
}

static void write_done(struct fl_io *io, int result)
{
    struct slot *s = FL_CONTAINER_OF(io, struct slot, io);

    s->pump->writing--;
    if (result < 0) {
        s->state = FREE;
        fail(s->pump, result, io->nvme_status, "cannot write to", s->pump->o->to);
        return;
    }
    note_written(s);
}

/* A chunk that begins or ends inside a block: the rest of the block keeps what is there. */
static int fill_blocks(struct pump *p, struct slot *s)
{
    struct endpoint *to = p->o->to;
    const uint64_t off = p->o->to_off + s->at, end = off + s->len;
    const uint32_t head = (uint32_t)(off % to->block_len), tail = (uint32_t)(end % to->block_len);
    uint8_t *block;
    int rc = 0;

    if (!head && !tail)
        return 0;
    block = aligned_alloc(4096, fl_round_up(to->block_len, 4096));
    if (!block)
        return -ENOMEM;
    if (head) {
        rc = endpoint_read_block(to, off - head, block, p->err);
        memcpy(s->data - head, block, head);
    }
    if (rc == 0 && tail) {
        rc = endpoint_read_block(to, end - tail, block, p->err);
        memcpy(s->data + s->len, block + tail, to->block_len - tail);
    }
    free(block);
    return rc;
}

static int write_all(const struct endpoint *e, const uint8_t *buf, uint32_t len, uint64_t off)
{
    while (len) {
        ssize_t n = e->kind == ENDPOINT_FILE ? pwrite(e->fd, buf, len, (off_t)off) : write(e->fd, buf, len);

        if (n < 0 && errno == EINTR && !interrupted)
            continue;
        if (n < 0)
            return -errno;
        buf += n;
        off += (uint64_t)n;
        len -= (uint32_t)n;
    }
    return 0;
}

static bool start_write(struct pump *p, struct slot *s)
{
    const struct pump_options *o = p->o;
    int rc;

    if (s->state != FULL || (o->to->kind == ENDPOINT_STREAM && s->seq != p->out_seq))
        return false;
    if (o->to->kind == ENDPOINT_DEVICE) {
        rc = fill_blocks(p, s);
        if (rc == 0)
            rc = submit(o->to, s, FL_IO_WRITE, o->to_off + s->at, write_done);
        if (rc == -EAGAIN)
            return false;
        if (rc == 0) {
            s->state = WRITING;
            p->writing++;
            return true;
        }
    } else {
        rc = o->to->kind == ENDPOINT_NONE ? 0 : write_all(o->to, s->data, s->len, o->to_off + s->at);
    }
    if (rc < 0) {
        fail(p, rc, 0, "cannot write to", o->to);
        return false;
    }
    p->out_seq++;
    note_written(s);
    return true;
}

/* ---- all ---- */

static bool poll_queue(struct pump *p, struct endpoint *e)
{
    int n;

    if (e->kind != ENDPOINT_DEVICE)
        return false;
    n = fl_queue_poll(e->queue);
    if (n < 0) {
        fail(p, n, 0, "lost the connection to", e);
        p->lost = true;
    }
    return n > 0;
}

static void wait_for_queues(struct pump *p)
{
    struct pollfd fds[2];
    nfds_t n = 0;

    if (p->reading && p->writing) {
        fds[n++] = (struct pollfd){.fd = fl_queue_fd(p->o->from->queue), .events = POLLIN};
        fds[n++] = (struct pollfd){.fd = fl_queue_fd(p->o->to->queue), .events = POLLIN};
        poll(fds, n, 100);
    } else if (p->reading) {
        fl_queue_wait(p->o->from->queue, 100);
    } else if (p->writing) {
        fl_queue_wait(p->o->to->queue, 100);
    }
}

static bool turn(struct pump *p)
{
    bool moved = false;
    uint32_t i;

    while (!p->failed && start_read(p))
        moved = true;
    for (i = 0; i < p->o->depth && !p->failed; i++)
        moved |= start_write(p, &p->slots[(p->out_seq + i) % p->o->depth]);
    if (p->reading)
        moved |= poll_queue(p, p->o->from);
    if (p->writing)
        moved |= poll_queue(p, p->o->to);
    return moved;
}

static bool finished(const struct pump *p)
{
    if (p->lost)
        return true;
    if (p->reading || p->writing)
        return false;
    if (p->failed)
        return true;
    return (p->eof || p->next_at == p->o->len) && p->done_len == p->next_at;
}

static size_t slot_len(const struct pump *p)
{
    const struct pump_options *o = p->o;

    return fl_round_up(o->chunk_len + 2 * (size_t)FL_MAX(o->from->block_len, o->to->block_len) + 4096, 4096);
}

static int make_slots(struct pump *p)
{
    const struct pump_options *o = p->o;
    uint32_t i;

    p->slots = calloc(o->depth, sizeof(*p->slots));
    if (!p->slots)
        return -ENOMEM;
    for (i = 0; i < o->depth; i++) {
        p->slots[i].pump = p;
        p->slots[i].buf = fl_shared_alloc(slot_len(p)); /* memory that RDMA registers once */
        if (!p->slots[i].buf)
            return -ENOMEM;
    }
    return 0;
}

static void cut_off(struct endpoint *e)
{
    if (e->kind != ENDPOINT_DEVICE || !e->queue)
        return;
    fl_queue_destroy(e->queue); /* its completions run in here, while the slots are still there */
    e->queue = NULL;
}

static void free_slots(struct pump *p)
{
    uint32_t i;

    if (p->lost) {
        cut_off(p->o->from);
        cut_off(p->o->to);
    }

    for (i = 0; p->slots && i < p->o->depth; i++)
        fl_shared_free(p->slots[i].buf, slot_len(p));
    free(p->slots);
}

int pump_run(const struct pump_options *options, struct pump_result *result, struct fl_error *err)
{
    struct pump p = {.o = options, .err = err, .differ_at = UINT64_MAX};
    const uint64_t start = fl_now_ns();
    int rc = make_slots(&p);

    if (rc < 0)
        fl_error_set(err, rc, "out of memory: %u buffers of %u bytes", options->depth, options->chunk_len);
    while (rc == 0 && !finished(&p)) {
        if (interrupted && !p.failed) {
            p.failed = fl_error_set(err, -EINTR, "interrupted");
            p.lost = true; /* what is in flight may be stuck: it is cut off */
        }
        if (!turn(&p))
            wait_for_queues(&p);
        if (options->progress)
            progress_update(options->progress, p.done_len);
    }
    free_slots(&p);
    *result = (struct pump_result){.len = p.done_len, .ns = fl_now_ns() - start, .differ_at = p.differ_at};
    return rc < 0 ? rc : p.failed;
}
