/* SPDX-License-Identifier: Apache-2.0 */
/* Reads give zeroes, writes are thrown away: what a fabric costs without a medium behind it. */
#include <errno.h>
#include <stdlib.h>

#include "backend/internal.h"
#include "mem/pool.h"
#include "mem/shared.h"

#define LIMIT (UINT64_C(1) << 62) /* no arithmetic on offsets can wrap */

static int open_null(const struct fl_url *url, struct fl_backend **out, struct fl_error *err)
{
    struct fl_backend *backend = calloc(1, sizeof(*backend));
    void *window;
    int rc;

    if (!backend)
        return fl_error_set(err, -ENOMEM, "null: out of memory");
    fl_backend_init(backend, &fl_null_backend_ops, url);
    rc = fl_backend_check_size(url, backend->block_len, url->size, LIMIT, err);
    if (rc)
        goto free_backend;
    window = fl_shared_alloc(FL_POOL_MAX_LEN); /* which RDMA can send from, and registers once */
    if (!window) {
        rc = fl_error_set(err, -ENOMEM, "null: cannot map %u bytes", FL_POOL_MAX_LEN);
        goto free_backend;
    }
    backend->mem = window;
    backend->mem_repeats = true;
    backend->sync = true;
    backend->trims = true;
    backend->len = url->size;
    *out = backend;
    return 0;

free_backend:
    free(backend);
    return rc;
}

static void close_null(struct fl_backend *backend)
{
    fl_shared_free((void *)backend->mem, FL_POOL_MAX_LEN);
    free(backend);
}

static void submit(struct fl_chan *chan, struct fl_bio *bio)
{
    int rc = fl_bio_check(chan->backend, bio);

    if (!rc && bio->op == FL_BIO_READ) {
        for (uint32_t i = 0; i < bio->nr_iov; i++)
            memset(bio->iov[i].iov_base, 0, bio->iov[i].iov_len);
    }
    bio->done(bio, rc);
}

static int resize(struct fl_backend *backend, uint64_t len, struct fl_error *err)
{
    struct fl_url url = {.kind = FL_URL_NULL};
    int rc;

    if (!len)
        return 0;
    rc = fl_backend_check_size(&url, backend->block_len, len, LIMIT, err);
    if (!rc)
        fl_backend_set_len(backend, len);
    return rc;
}

const struct fl_backend_ops fl_null_backend_ops = {
    .kind = "null",
    .open = open_null,
    .close = close_null,
    .chan_open = fl_sync_chan_open,
    .chan_close = fl_sync_chan_close,
    .submit = submit,
    .flush_submissions = fl_sync_chan_nothing,
    .poll = fl_sync_chan_nothing,
    .fd = fl_sync_chan_no_fd,
    .resize = resize,
    .state_load = fl_no_state_load,
    .state_save = fl_no_state_save,
};
