/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/backend.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "backend/internal.h"
#include "base/size.h"
#include "base/uuid.h"

#define DEFAULT_BLOCK_LEN 512

static const struct fl_backend_ops *const kinds[] = {
    [FL_URL_FILE] = &fl_file_backend_ops,
    [FL_URL_NULL] = &fl_null_backend_ops,
    [FL_URL_RAM] = &fl_ram_backend_ops,
};

int fl_backend_open(const struct fl_url *url, struct fl_backend **backend, struct fl_error *err)
{
    if ((size_t)url->kind >= FL_ARRAY_LEN(kinds) || !kinds[url->kind])
        return fl_error_set(err, -EINVAL,
                            "a remote namespace cannot be served: use file:PATH, ram:SIZE or null:SIZE");
    return kinds[url->kind]->open(url, backend, err);
}

void fl_backend_close(struct fl_backend *backend)
{
    if (backend)
        backend->ops->close(backend);
}

int fl_chan_open(struct fl_backend *backend, struct fl_loop *loop, struct fl_chan **chan)
{
    return backend->ops->chan_open(backend, loop, chan);
}

void fl_chan_close(struct fl_chan *chan)
{
    if (chan)
        chan->ops->chan_close(chan);
}

void fl_backend_init(struct fl_backend *backend, const struct fl_backend_ops *ops, const struct fl_url *url)
{
    struct fl_uuid uuid;

    backend->ops = ops;
    backend->block_len = url->block_len ? url->block_len : DEFAULT_BLOCK_LEN;
    backend->read_only = url->read_only;
    fl_url_format(url, backend->spec,
                  sizeof(backend->spec)); /* a very long path is cut off: it is for people */
    fl_uuid_make(&uuid);
    memcpy(backend->uuid, uuid.b, sizeof(backend->uuid));
}

int fl_backend_check_size(const struct fl_url *url, uint32_t block_len, uint64_t len, uint64_t limit,
                          struct fl_error *err)
{
    char size[FL_SIZE_TEXT_LEN], most[FL_SIZE_TEXT_LEN];
    const char *kind = url->kind == FL_URL_RAM ? "ram" : url->kind == FL_URL_NULL ? "null" : "file";

    if (!len || len % block_len)
        return fl_error_set(err, -EINVAL,
                            "%s: a size of %" PRIu64 " bytes is not a whole number of blocks of %" PRIu32
                            " bytes; give a multiple of it",
                            kind, len, block_len);
    if (len > limit)
        return fl_error_set(err, -EFBIG,
                            "%s: %s (%" PRIu64 " bytes) is more than the limit of %s (%" PRIu64 " bytes)",
                            kind, fl_size_format(len, size), len, fl_size_format(limit, most), limit);
    return 0;
}

int fl_sync_chan_open(struct fl_backend *backend, struct fl_loop *loop, struct fl_chan **out)
{
    struct fl_chan *chan = calloc(1, sizeof(*chan));

    if (!chan)
        return -ENOMEM;
    *chan = (struct fl_chan){.ops = backend->ops, .backend = backend, .loop = loop};
    *out = chan;
    return 0;
}

void fl_sync_chan_close(struct fl_chan *chan)
{
    free(chan);
}

int fl_sync_chan_nothing(struct fl_chan *chan)
{
    return 0;
}

int fl_sync_chan_no_fd(struct fl_chan *chan)
{
    return -1;
}

int fl_no_state_load(struct fl_backend *backend, void *buf, size_t cap)
{
    return -EOPNOTSUPP;
}

int fl_no_state_save(struct fl_backend *backend, const void *buf, size_t len)
{
    return -EOPNOTSUPP;
}
