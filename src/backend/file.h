/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file back end's own: file.c opens and knows the file, file_size.c its length, file_access.c how it can be
 * read and written, file_chan.c is the state machine of a bio, file_uring.c and file_threads.c carry single
 * operations out, file_state.c keeps identity and reservations.
 */
#ifndef FL_BACKEND_FILE_H
#define FL_BACKEND_FILE_H

#include <pthread.h>
#include <sys/types.h>

#include "backend/internal.h"

#define FL_FILE_ZERO_LEN \
    (1u << 20) /* of the window of zeroes that is written where the file system cannot zero */
#define FL_FILE_STATE_MAX (64u << 10)

/* Ways to zero that the file (still) has; a bit goes when the kernel says that it cannot. */
#define FL_FILE_CAN_ZERO  1u /* FALLOC_FL_ZERO_RANGE */
#define FL_FILE_CAN_PUNCH 2u /* FALLOC_FL_PUNCH_HOLE */

struct fl_file_engine;
struct fl_file_pool;

struct fl_file {
    struct fl_backend base;
    char path[FL_URL_PATH_LEN];
    int fd; /* holds the lock; each channel has a description of its own, so that each learns of write errors
             */
    int claim; /* of a device that is written, see fl_file_claim; no ring refers to it */
    bool is_block, created, prealloc, direct;
    uint32_t mem_align, off_align; /* direct: of the addresses, of the offsets and lengths */
    unsigned can;                  /* FL_FILE_CAN_*, relaxed atomics */
    int lost;                      /* buffered: a flush failed, so data that had been taken is gone; atomic */
    const uint8_t *zeroes;
    const struct fl_file_engine *engine;
    struct fl_file_pool *pool; /* of file_threads.c */
    pthread_mutex_t lock;      /* resize, state */
    char state_path[FL_URL_PATH_LEN + 16];
    uint8_t *state; /* as last saved */
    size_t state_len;
    bool has_state;
};

enum fl_file_code { FL_FILE_READ, FL_FILE_WRITE, FL_FILE_SYNC, FL_FILE_ALLOC };

/* A bio's own part (bio->priv): the one operation of it that is under way. */
struct fl_file_op {
    struct fl_file_chan *chan;
    uint64_t pos;            /* bytes of the bio that are done */
    uint64_t len;            /* of the operation */
    const struct iovec *iov; /* of the operation: the bio's, or &bounce, or own */
    uint32_t nr_iov;
    int mode;  /* FL_FILE_ALLOC */
    void *own; /* bounce buffer or iovecs, to be freed */
    struct iovec bounce;
    uint8_t code, nr_retries;
    bool dsync;
    int result; /* of file_threads.c */
};
_Static_assert(sizeof(struct fl_file_op) <= sizeof(((struct fl_bio *)0)->priv),
               "an operation must fit into a bio");

static inline struct fl_file_op *fl_file_op(struct fl_bio *bio)
{
    return (struct fl_file_op *)bio->priv;
}

struct fl_file_chan {
    struct fl_chan base;
    struct fl_file *file;
    int fd;
    void *engine; /* of the engine */
    bool in_call; /* inside submit or poll: what is started now is gathered */
    /* One sync at a time: those who ask meanwhile share the next, which is begun after the last of their
     * writes. */
    struct fl_list sync_next, sync_now;
    bool syncing;
    struct fl_bio sync_bio;
    struct fl_poller poller;
    struct fl_watch watch;
};

struct fl_file_engine {
    const char *name;
    int (*open)(struct fl_file_chan *chan);
    void (*close)(struct fl_file_chan *chan);
    /* Takes the operation in fl_file_op(bio); ends in fl_file_complete, also inside this call when
     * !chan->in_call. */
    void (*start)(struct fl_file_chan *chan, struct fl_bio *bio);
    int (*hand_over)(struct fl_file_chan *chan);
    int (*reap)(struct fl_file_chan *chan);
    int (*fd)(struct fl_file_chan *chan);
};

extern const struct fl_file_engine fl_file_uring, fl_file_threads;

/* 0, or why io_uring is not to be had here: -ENOSYS, -EPERM (containers), -EOPNOTSUPP (too old), -ENOMEM
 * (memlock). */
int fl_file_uring_probe(void);
int fl_file_pool_create(struct fl_file_pool **pool);
void fl_file_pool_destroy(struct fl_file_pool *pool);

/* The engine's report: bytes or 0, else negative errno. */
void fl_file_complete(struct fl_bio *bio, int result);

int fl_file_chan_open(struct fl_backend *backend, struct fl_loop *loop, struct fl_chan **chan);
void fl_file_chan_close(struct fl_chan *chan);
void fl_file_submit(struct fl_chan *chan, struct fl_bio *bio);
int fl_file_hand_over(struct fl_chan *chan);
int fl_file_poll(struct fl_chan *chan);
int fl_file_fd(struct fl_chan *chan);

/* Of file_size.c: while it is opened, sets base.len; and fl_backend_ops.resize. */
int fl_file_settle_len(struct fl_file *file, const struct fl_url *url, struct fl_error *err);
uint64_t fl_file_found_len(struct fl_backend *backend);
int fl_file_resize(struct fl_backend *backend, uint64_t len, struct fl_error *err);

/* Of file_access.c, while it is opened: sets direct, alignments, engine, pool and note; can and base.trims. */
int fl_file_choose_access(struct fl_file *file, const struct fl_url *url, struct fl_error *err);
void fl_file_probe_zeroing(struct fl_file *file);

/* Opens the file once more, with a description of its own where the kernel lets us. */
int fl_file_reopen(const struct fl_file *file, int flags);

/* Sets uuid, state_path and the state that was kept. */
int fl_file_state_open(struct fl_file *file, struct fl_error *err);
void fl_file_state_close(struct fl_file *file);
int fl_file_state_load(struct fl_backend *backend, void *buf, size_t cap);
int fl_file_state_save(struct fl_backend *backend, const void *buf, size_t len);
int fl_file_look(struct fl_backend *backend, struct fl_error *err); /* touches nothing that changes */
int fl_file_sync_dir_of(const char *path); /* the directory that holds `path` */

static inline struct fl_file *fl_file_of(struct fl_backend *backend)
{
    return FL_CONTAINER_OF(backend, struct fl_file, base);
}

static inline struct fl_file_chan *fl_file_chan_of(struct fl_chan *chan)
{
    return FL_CONTAINER_OF(chan, struct fl_file_chan, base);
}

#endif
