/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations by io_uring: a ring for each channel. What is started gathers in the submission queue and is
 * handed over once a turn of the loop, but the first one of an idle channel goes at once: nobody would join
 * it. Completions are found by looking at the ring; the kernel is entered only when it says that it has work
 * to finish (TASKRUN).
 */
#include <errno.h>
#include <liburing.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "backend/file.h"
#include "base/clock.h"
#include "base/log.h"

#define NR_SQ   256
#define NR_CQ   1024 /* in flight at most */
#define NR_REAP 64
/* A disk that answers within this is worth waiting for awake: to sleep and wake up costs as much as its
 * answer. */
#define AWAKE_NS (150 * FL_NS_PER_US)

struct uring {
    struct io_uring ring;
    bool enabled; /* by the thread that submits: the ring belongs to it */
    uint32_t nr_gathered, nr_inflight;
    uint64_t busy_since;    /* when the ring last became busy; 0: that latency is measured */
    uint64_t latency_ns;    /* moving average of the first answer */
    struct fl_list waiting; /* bios for which there was no room */
    struct fl_log_rate rate;
};

/*
 * The kernel finishes requests when the thread next enters it (COOP_TASKRUN, 5.19) and raises a flag in the
 * ring meanwhile, instead of an interrupt; a thread that sleeps is woken. On a loop one thread submits
 * (SINGLE_ISSUER, 6.0); a channel without a loop may change threads with I/O in flight, so its ring belongs
 * to none. Not DEFER_TASKRUN: with it the ring's descriptor does not become readable, and an eventfd would be
 * written for each request.
 */
static const unsigned loop_setups[] = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
        IORING_SETUP_R_DISABLED,
    IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    0,
};
static const unsigned free_setups[] = {IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0};

static int set_up(struct io_uring *ring, bool on_loop, bool *disabled)
{
    const unsigned *setups = on_loop ? loop_setups : free_setups;
    size_t nr = on_loop ? FL_ARRAY_LEN(loop_setups) : FL_ARRAY_LEN(free_setups);
    int rc = -EINVAL;

    for (size_t i = 0; i < nr && rc == -EINVAL; i++) {
        struct io_uring_params params = {.flags = setups[i] | IORING_SETUP_CQSIZE, .cq_entries = NR_CQ};

        rc = io_uring_queue_init_params(NR_SQ, ring, &params);
        *disabled = setups[i] & IORING_SETUP_R_DISABLED;
    }
    return rc;
}

int fl_file_uring_probe(void)
{
    static const int needed[] = {IORING_OP_READ,   IORING_OP_WRITE, IORING_OP_READV,
                                 IORING_OP_WRITEV, IORING_OP_FSYNC, IORING_OP_FALLOCATE};
    struct io_uring_probe *probe;
    struct io_uring ring;
    int rc = io_uring_queue_init(4, &ring, 0);

    if (rc)
        return rc;
    probe = io_uring_get_probe_ring(&ring);
    if (!probe)
        rc = -EOPNOTSUPP;
    for (size_t i = 0; !rc && i < FL_ARRAY_LEN(needed); i++) {
        if (!io_uring_opcode_supported(probe, needed[i]))
            rc = -EOPNOTSUPP;
    }
    if (probe)
        io_uring_free_probe(probe);
    io_uring_queue_exit(&ring);
    return rc;
}

static int open_ring(struct fl_file_chan *chan)
{
    /* The second is never used, but keeps the file locked until the ring is gone: of a process that is
     * killed, writes may be under way a little longer than it lives, and must not meet those of its
     * successor. */
    const int fds[] = {chan->fd, chan->file->fd};
    struct uring *u = calloc(1, sizeof(*u));
    bool disabled;
    int rc;

    if (!u)
        return -ENOMEM;
    fl_list_init(&u->waiting);
    rc = set_up(&u->ring, chan->base.loop, &disabled);
    if (rc)
        goto free_uring;
    u->enabled = !disabled;
    rc = io_uring_register_files(&u->ring, fds, FL_ARRAY_LEN(fds));
    if (rc)
        goto exit_ring;
    chan->engine = u;
    return 0;

exit_ring:
    io_uring_queue_exit(&u->ring);
free_uring:
    free(u);
    return rc;
}

static void close_ring(struct fl_file_chan *chan)
{
    struct uring *u = chan->engine;

    fl_watch_del(&chan->watch);
    io_uring_queue_exit(&u->ring);
    free(u);
}

static void prepare(struct io_uring_sqe *sqe, struct fl_bio *bio)
{
    const struct fl_file_op *op = fl_file_op(bio);
    uint64_t at = bio->off + op->pos;

    switch (op->code) {
    case FL_FILE_READ:
        if (op->nr_iov == 1)
            io_uring_prep_read(sqe, 0, op->iov->iov_base, (unsigned)op->len, at);
        else
            io_uring_prep_readv(sqe, 0, op->iov, op->nr_iov, at);
        break;
    case FL_FILE_WRITE:
        if (op->nr_iov == 1)
            io_uring_prep_write(sqe, 0, op->iov->iov_base, (unsigned)op->len, at);
        else
            io_uring_prep_writev(sqe, 0, op->iov, op->nr_iov, at);
        sqe->rw_flags = op->dsync ? RWF_DSYNC : 0;
        break;
    case FL_FILE_SYNC:
        io_uring_prep_fsync(sqe, 0, IORING_FSYNC_DATASYNC);
        break;
    case FL_FILE_ALLOC:
        io_uring_prep_fallocate(sqe, 0, op->mode, (off_t)at, (off_t)op->len);
        break;
    }
    sqe->flags |= IOSQE_FIXED_FILE;
    io_uring_sqe_set_data(sqe, bio);
}

static void ring_ready(struct fl_watch *watch, uint32_t events);

/* Once, on the thread that submits. The library of Debian 12 declares io_uring_enable_rings but does not
 * export it. */
static int enable(struct uring *u)
{
    if (syscall(SYS_io_uring_register, u->ring.ring_fd, IORING_REGISTER_ENABLE_RINGS, NULL, 0) < 0)
        return -errno;
    u->enabled = true;
    return 0;
}

static int start_watching(struct fl_file_chan *chan)
{
    struct uring *u = chan->engine;

    if (!chan->base.loop || chan->watch.loop)
        return 0;
    io_uring_register_ring_fd(&u->ring); /* saves a look-up at each call; there is a limit for each thread */
    chan->watch = (struct fl_watch){.fd = u->ring.ring_fd, .ready = ring_ready};
    return fl_watch_add(chan->base.loop, &chan->watch, EPOLLIN);
}

/* On a loop: it stays awake for a disk that has been fast so far. */
static void expect_answer(struct fl_file_chan *chan, struct uring *u)
{
    uint64_t now = fl_loop_now(chan->base.loop);

    if (!u->nr_inflight)
        u->busy_since = now;
    if (u->latency_ns < AWAKE_NS)
        fl_loop_stay_awake(chan->base.loop, now + FL_MAX(2 * u->latency_ns, AWAKE_NS / 2));
}

static void learn_latency(struct fl_file_chan *chan, struct uring *u)
{
    uint64_t now = fl_loop_now(chan->base.loop);
    uint64_t sample = FL_MIN(now - u->busy_since,
                             8 * AWAKE_NS); /* one slow answer must not be held against it for long */

    u->latency_ns = (7 * u->latency_ns + sample) / 8;
    u->busy_since = 0;
}

static int hand_over(struct fl_file_chan *chan)
{
    struct uring *u = chan->engine;
    int n = 0;

    if (fl_likely(!u->nr_gathered))
        return 0;
    if (fl_unlikely(!u->enabled))
        n = enable(u);
    if (fl_unlikely(!chan->watch.loop) && !n)
        n = start_watching(chan);
    if (!n)
        n = io_uring_submit(&u->ring);
    if (fl_unlikely(n < 0)) { /* all stay in the queue and are tried again with the next turn */
        uint64_t now = fl_now_ns();

        if (n == -EAGAIN || n == -EBUSY || n == -EINTR)
            return 1; /* work is left: the loop must not sleep on it */
        if (fl_log_rate_allow(&u->rate, 1, now, NULL))
            FL_ERR("%s: io_uring does not take requests: %s", chan->file->path, strerror(-n));
        return n;
    }
    if (chan->base.loop)
        expect_answer(chan, u);
    u->nr_gathered -= (uint32_t)n;
    u->nr_inflight += (uint32_t)n;
    return n + (u->nr_gathered != 0);
}

static bool try_queue(struct fl_file_chan *chan, struct fl_bio *bio)
{
    struct uring *u = chan->engine;
    struct io_uring_sqe *sqe;

    if (u->nr_gathered + u->nr_inflight >= NR_CQ)
        return false;
    sqe = io_uring_get_sqe(&u->ring);
    if (!sqe && hand_over(chan) > 0)
        sqe = io_uring_get_sqe(&u->ring);
    if (!sqe)
        return false;
    prepare(sqe, bio);
    u->nr_gathered++;
    return true;
}

static int reap(struct fl_file_chan *chan)
{
    struct uring *u = chan->engine;
    struct io_uring_cqe *cqes[NR_REAP];
    struct {
        struct fl_bio *bio;
        int result;
    } done[NR_REAP];
    bool outer = chan->in_call;
    unsigned n;

    if (!u->nr_inflight)
        return 0;
    n = io_uring_peek_batch_cqe(&u->ring, cqes,
                                NR_REAP); /* enters the kernel only for TASKRUN and overflow */
    if (!n)
        return 0;
    for (unsigned i = 0; i < n; i++) {
        done[i].bio = io_uring_cqe_get_data(cqes[i]);
        done[i].result = cqes[i]->res;
    }
    io_uring_cq_advance(&u->ring, n);
    u->nr_inflight -= n;
    if (u->busy_since)
        learn_latency(chan, u);
    chan->in_call = true;
    for (unsigned i = 0; i < n; i++)
        fl_file_complete(done[i].bio, done[i].result);
    while (!fl_list_empty(&u->waiting)) {
        struct fl_bio *bio = FL_LIST_FIRST(&u->waiting, struct fl_bio, link);

        fl_list_del(&bio->link);
        if (!try_queue(chan, bio)) {
            fl_list_add_head(&u->waiting, &bio->link);
            break;
        }
    }
    chan->in_call = outer;
    return (int)n;
}

static void start(struct fl_file_chan *chan, struct fl_bio *bio)
{
    struct uring *u = chan->engine;

    if (!fl_list_empty(&u->waiting) || !try_queue(chan, bio)) {
        fl_list_add_tail(&u->waiting, &bio->link);
        return;
    }
    if (chan->in_call || u->nr_inflight || u->nr_gathered > 1)
        return;
    chan->in_call = true;
    if (hand_over(chan) > 0)
        reap(chan); /* what the page cache holds is there already */
    chan->in_call = false;
}

static void ring_ready(struct fl_watch *watch, uint32_t events)
{
    reap(FL_CONTAINER_OF(watch, struct fl_file_chan, watch));
}

static int ring_fd(struct fl_file_chan *chan)
{
    struct uring *u = chan->engine;

    return u->ring.ring_fd;
}

const struct fl_file_engine fl_file_uring = {
    .name = "io_uring",
    .open = open_ring,
    .close = close_ring,
    .start = start,
    .hand_over = hand_over,
    .reap = reap,
    .fd = ring_fd,
};
