/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a namespace stands on: null, ram, file. A backend is opened once and used from several loops, each through a channel
 * of its own (struct fl_chan). Offsets and lengths are bytes and multiples of the block length; the caller has checked
 * the range. Used by the target and, for file:, ram: and null: URLs, by the host.
 */
#ifndef FL_BACKEND_BACKEND_H
#define FL_BACKEND_BACKEND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <farlane/error.h>

#include "base/list.h"
#include "base/url.h"
#include "loop/loop.h"

struct fl_backend;
struct fl_chan;
struct fl_marks;

enum fl_bio_op {
    FL_BIO_READ,
    FL_BIO_WRITE,
    FL_BIO_FLUSH, /* everything completed before is durable */
    FL_BIO_ZERO,  /* write zeroes; may release the space (FL_BIO_F_MAY_TRIM) */
    FL_BIO_TRIM,  /* deallocate: reads give zeroes afterwards */
};

#define FL_BIO_F_FUA 1u      /* durable when done */
#define FL_BIO_F_MAY_TRIM 2u /* ZERO: deallocating is welcome (DEAC) */

struct fl_bio {
    enum fl_bio_op op;
    uint32_t flags;
    uint64_t off;
    uint64_t len;            /* bytes; READ and WRITE: the sum of iov */
    const struct iovec *iov; /* caller's until done; any alignment (a backend that needs alignment copies) */
    uint32_t nr_iov;
    /* result: 0 or negative errno (-EIO, -ENOSPC, ...). May run inside fl_chan_submit. */
    void (*done)(struct fl_bio *bio, int result);
    /* Only with memory that has marks: called instead of done() when others are at byte `off`. The bio goes on where it
     * stopped with fl_chan_resume, later. NULL: the call waits for them, so they must be on other threads and soon through. */
    void (*again)(struct fl_bio *bio, uint64_t off);
    /* the backend's */
    struct fl_list link;
    uint64_t priv[10];
};

struct fl_backend_ops {
    const char *kind; /* "ram" */
    int (*open)(const struct fl_url *url, struct fl_backend **backend, struct fl_error *err);
    void (*close)(struct fl_backend *backend); /* no channel is left */
    int (*chan_open)(struct fl_backend *backend, struct fl_loop *loop, struct fl_chan **chan);
    void (*chan_close)(struct fl_chan *chan); /* nothing in flight */
    void (*submit)(struct fl_chan *chan, struct fl_bio *bio);
    void (*resume)(struct fl_chan *chan, struct fl_bio *bio); /* after again(); NULL: it is never called */
    /* Writes at once what is short (up to a stripe, say): true, or false where it does not, since others are at these bytes, or
     * the range is not there. Never sleeps; a bio is the way then. NULL: it cannot. The thread of a channel. */
    bool (*write_now)(struct fl_backend *backend, uint64_t off, const void *data, uint64_t len);
    /* The CRC-32C of what lies at mem + off, which the caller has marked for reading; cheaper than looking at the bytes where it is
     * known from before. NULL: it never is. Any thread. */
    uint32_t (*digest)(struct fl_backend *backend, uint64_t off, uint64_t len);
    int (*flush_submissions)(struct fl_chan *chan); /* hand over what submit gathered (io_uring); 0 when not needed */
    int (*poll)(struct fl_chan *chan);              /* reap completions: how many */
    int (*fd)(struct fl_chan *chan);                /* readable when poll would reap something; -1: never needed */
    /* The length that resize to 0 takes over, of what was made longer or shorter beside us; 0: not known. NULL: there
     * is no such thing. Any thread. */
    uint64_t (*found_len)(struct fl_backend *backend);
    int (*resize)(struct fl_backend *backend, uint64_t len, struct fl_error *err); /* any thread */
    /* Is what it stands on still where it was found? 0, or -ESTALE with a sentence. May block. NULL: it cannot go. */
    int (*look)(struct fl_backend *backend, struct fl_error *err);
    /* Small state that lives as long as the data: reservations. -EOPNOTSUPP where nothing outlives the process. Blocking, atomic. */
    int (*state_load)(struct fl_backend *backend, void *buf, size_t cap); /* length or -ENOENT */
    int (*state_save)(struct fl_backend *backend, const void *buf, size_t len);
};

struct fl_backend {
    const struct fl_backend_ops *ops;
    uint32_t block_len;
    uint64_t len;    /* bytes; read with relaxed atomics (changes by resize) */
    bool sync;       /* submit always completes inside the call, or calls again(), without sleeping */
    bool volatile_cache; /* a completed write may be lost until FLUSH */
    bool trims;      /* TRIM frees space */
    bool read_only;
    uint8_t uuid[16]; /* stable identity of the data (file: kept with it), else random */
    char spec[512];  /* as the user wrote it, for people */
    char note[160];  /* which path the data take and why ("direct, io_uring"), for people; "": nothing to tell */
    /* Direct reads: where the bytes lie in memory, stable until close (resize keeps the address). NULL: no such thing. */
    const uint8_t *mem;
    bool mem_repeats; /* mem is one FL_POOL_MAX_LEN window that stands for every offset (null) */
    /* Of mem, when it changes: whoever reads it directly marks what he reads, as long as he does. NULL: it never does. */
    struct fl_marks *marks;
};

struct fl_chan {
    const struct fl_backend_ops *ops;
    struct fl_backend *backend;
    struct fl_loop *loop; /* NULL: the owner polls (fl_chan_poll), nothing is registered on a loop */
};

/* kind of url: FL_URL_FILE, FL_URL_RAM, FL_URL_NULL. */
int fl_backend_open(const struct fl_url *url, struct fl_backend **backend, struct fl_error *err);
void fl_backend_close(struct fl_backend *backend);

/* With a loop, the channel registers its own poller and watch there, and calls done() from that loop. */
int fl_chan_open(struct fl_backend *backend, struct fl_loop *loop, struct fl_chan **chan);
void fl_chan_close(struct fl_chan *chan);
static inline void fl_chan_submit(struct fl_chan *chan, struct fl_bio *bio) { chan->ops->submit(chan, bio); }
static inline void fl_chan_resume(struct fl_chan *chan, struct fl_bio *bio) { chan->ops->resume(chan, bio); }

/* For the owner of a channel without a loop: hands over what was gathered and runs completions; how many. What these begin is handed
 * over as well, so that the owner may sleep on the descriptor when 0 is returned. */
static inline int fl_chan_poll(struct fl_chan *chan)
{
    int rc = chan->ops->flush_submissions(chan), n;

    if (rc < 0)
        return rc;
    n = chan->ops->poll(chan);
    if (n <= 0)
        return n;
    rc = chan->ops->flush_submissions(chan);
    return rc < 0 ? rc : n;
}
static inline int fl_chan_fd(struct fl_chan *chan) { return chan->ops->fd(chan); }

static inline uint64_t fl_backend_len(const struct fl_backend *b) { return __atomic_load_n(&b->len, __ATOMIC_RELAXED); }

#endif
