/* SPDX-License-Identifier: Apache-2.0 */
/* What the back ends share among themselves. */
#ifndef FL_BACKEND_INTERNAL_H
#define FL_BACKEND_INTERNAL_H

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "backend/backend.h"
#include "base/util.h"

extern const struct fl_backend_ops fl_null_backend_ops, fl_ram_backend_ops, fl_file_backend_ops;

/* Fills in what the URL says: ops, block length (512 unless given), read_only, spec, and a random uuid. */
void fl_backend_init(struct fl_backend *backend, const struct fl_backend_ops *ops, const struct fl_url *url);

/* The size of a ram or null namespace in whole blocks, checked against `limit`. */
int fl_backend_check_size(const struct fl_url *url, uint32_t block_len, uint64_t len, uint64_t limit,
                          struct fl_error *err);

static inline void fl_backend_set_len(struct fl_backend *backend, uint64_t len)
{
    __atomic_store_n(&backend->len, len, __ATOMIC_RELAXED);
}

/* A guard against our own callers: they have checked the range of what a peer wrote, with the length of that
 * moment. */
static inline int fl_bio_check(const struct fl_backend *backend, const struct fl_bio *bio)
{
    if (bio->op == FL_BIO_FLUSH)
        return 0;
    if (backend->read_only && bio->op != FL_BIO_READ)
        return -EROFS;
    return fl_range_fits(bio->off, bio->len, fl_backend_len(backend)) ? 0 : -EINVAL;
}

/* A channel with nothing in it, for the back ends whose submit does all the work. */
int fl_sync_chan_open(struct fl_backend *backend, struct fl_loop *loop, struct fl_chan **chan);
void fl_sync_chan_close(struct fl_chan *chan);
int fl_sync_chan_nothing(struct fl_chan *chan); /* flush_submissions and poll */
int fl_sync_chan_no_fd(struct fl_chan *chan);
int fl_no_state_load(struct fl_backend *backend, void *buf, size_t cap);
int fl_no_state_save(struct fl_backend *backend, const void *buf, size_t len);

#endif
