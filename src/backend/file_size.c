/* SPDX-License-Identifier: Apache-2.0 */
/* How long a served file is: found out, made so, changed. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/file.h"
#include "base/log.h"
#include "base/size.h"

#define MAX_LEN (UINT64_C(1) << 62)

static int check_limit(const struct fl_file *file, uint64_t len, struct fl_error *err)
{
    char size[FL_SIZE_TEXT_LEN], most[FL_SIZE_TEXT_LEN];
    struct rlimit limit;

    /* Past it the kernel kills the process (SIGXFSZ). */
    if (file->is_block || file->base.read_only || getrlimit(RLIMIT_FSIZE, &limit) < 0 ||
        limit.rlim_cur >= len)
        return 0;
    return fl_error_set(err, -EFBIG,
                        "file: \"%s\" of %s is larger than this process may write (%s): see ulimit -f",
                        file->path, fl_size_format(len, size), fl_size_format(limit.rlim_cur, most));
}

static int take_space(struct fl_file *file, uint64_t len, struct fl_error *err)
{
    char size[FL_SIZE_TEXT_LEN];

    if (!file->prealloc || !fallocate(file->fd, 0, 0, (off_t)len))
        return 0;
    return fl_error_set(err, -errno,
                        "file: cannot take %s of space for \"%s\": %s; leave prealloc=1 out to let it grow",
                        fl_size_format(len, size), file->path, strerror(errno));
}

/* Sets the length of a regular file; with prealloc also takes the space. */
static int extend(struct fl_file *file, uint64_t len, struct fl_error *err)
{
    char size[FL_SIZE_TEXT_LEN];
    int rc = check_limit(file, len, err);

    if (rc)
        return rc;
    if (ftruncate(file->fd, (off_t)len) < 0)
        return fl_error_set(err, -errno, "file: cannot make \"%s\" %s long: %s", file->path,
                            fl_size_format(len, size), strerror(errno));
    return take_space(file, len, err);
}

static int actual_len(const struct fl_file *file, uint64_t *len)
{
    struct stat st;

    if (file->is_block)
        return ioctl(file->fd, BLKGETSIZE64, len) < 0 ? -errno : 0;
    if (fstat(file->fd, &st) < 0)
        return -errno;
    *len = (uint64_t)st.st_size;
    return 0;
}

int fl_file_settle_len(struct fl_file *file, const struct fl_url *url, struct fl_error *err)
{
    char size[FL_SIZE_TEXT_LEN];
    uint32_t block_len = file->base.block_len;
    uint64_t len;
    int rc;

    if (url->size && url->size % block_len)
        return fl_error_set(err, -EINVAL,
                            "file: size=%" PRIu64 " is not a whole number of blocks of %" PRIu32 " bytes",
                            url->size, block_len);
    if (file->created) {
        rc = extend(file, url->size, err);
        if (rc)
            return rc;
    }
    rc = actual_len(file, &len);
    if (rc)
        return fl_error_set(err, rc, "file: cannot learn the size of \"%s\": %s", file->path, strerror(-rc));
    if (url->size && url->size != len)
        FL_WARN("%s exists and has %" PRIu64 " bytes; size=%" PRIu64 " is only for making it", file->path,
                len, url->size);
    if (len % block_len)
        FL_WARN("%s has %" PRIu64 " bytes, not a whole number of blocks: the last %" PRIu64
                " are not part of the namespace",
                file->path, len, len % block_len);
    len -= len % block_len;
    if (!len)
        return fl_error_set(err, -EINVAL,
                            "file: \"%s\" is smaller than one block of %" PRIu32 " bytes; make it larger: "
                            "truncate -s 1G '%s'",
                            file->path, block_len, file->path);
    if (len > MAX_LEN)
        return fl_error_set(err, -EFBIG, "file: \"%s\" has %s, more than farlane can serve", file->path,
                            fl_size_format(len, size));
    rc = check_limit(file, len, err);
    if (!rc && !file->created && !file->is_block && !file->base.read_only)
        rc = take_space(file, len, err);
    if (!rc && file->created) { /* a flush makes no promise that the loss of the file's name could break */
        rc = fsync(file->fd) < 0 ? -errno : fl_file_sync_dir_of(file->path);
        if (rc)
            fl_error_set(err, rc, "file: \"%s\" cannot be made durable: %s", file->path, strerror(-rc));
    }
    file->base.len = len;
    return rc;
}

static int resize_regular(struct fl_file *file, uint64_t actual, uint64_t len, struct fl_error *err)
{
    uint64_t old = file->base.len;
    int rc = 0;

    if (len > actual) {
        rc = extend(file, len, err);
    } else if (len < old) {
        /* New I/O is refused before the space goes; the caller has let older I/O end. */
        fl_backend_set_len(&file->base, len);
        if (ftruncate(file->fd, (off_t)len) < 0) {
            rc = fl_error_set(err, -errno, "file: cannot shorten \"%s\" to %" PRIu64 " bytes: %s", file->path,
                              len, strerror(errno));
            fl_backend_set_len(&file->base, old);
        }
    }
    if (!rc && fsync(file->fd) < 0)
        rc = fl_error_set(err, -errno, "file: the new size of \"%s\" is not durable: %s", file->path,
                          strerror(errno));
    return rc;
}

static int resize_locked(struct fl_file *file, uint64_t len, struct fl_error *err)
{
    uint32_t block_len = file->base.block_len;
    uint64_t actual;
    int rc = actual_len(file, &actual);

    if (rc)
        return fl_error_set(err, rc, "file: cannot learn the size of \"%s\": %s", file->path, strerror(-rc));
    if (!len) {
        len = actual - actual % block_len;
        if (!len)
            return fl_error_set(err, -EINVAL, "file: \"%s\" now has %" PRIu64 " bytes, less than a block",
                                file->path, actual);
    } else if (len % block_len) {
        return fl_error_set(err, -EINVAL,
                            "file: a size of %" PRIu64 " bytes is not a whole number of blocks of %" PRIu32
                            " bytes",
                            len, block_len);
    } else if (len > MAX_LEN) {
        return fl_error_set(err, -EFBIG, "file: %" PRIu64 " bytes are more than farlane can serve", len);
    } else if (file->is_block) {
        if (len != actual - actual % block_len)
            return fl_error_set(err, -EINVAL,
                                "file: the device \"%s\" has %" PRIu64 " bytes, not %" PRIu64
                                "; resize the device, then take its size over (size 0)",
                                file->path, actual, len);
    } else if (len != file->base.len) {
        if (file->base.read_only)
            return fl_error_set(err, -EROFS, "file: \"%s\" is open for reading only and keeps its size",
                                file->path);
        rc = resize_regular(file, actual, len, err);
        if (rc)
            return rc;
    }
    fl_backend_set_len(&file->base, len);
    return 0;
}

uint64_t fl_file_found_len(struct fl_backend *backend)
{
    struct fl_file *file = fl_file_of(backend);
    uint64_t actual;

    return actual_len(file, &actual) ? 0 : actual - actual % backend->block_len;
}

int fl_file_resize(struct fl_backend *backend, uint64_t len, struct fl_error *err)
{
    struct fl_file *file = fl_file_of(backend);
    int rc;

    pthread_mutex_lock(&file->lock);
    rc = resize_locked(file, len, err);
    pthread_mutex_unlock(&file->lock);
    return rc;
}
