/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backend/file.h"
#include "backend/file_lock.h"
#include "base/log.h"

int fl_file_reopen(const struct fl_file *file, int flags)
{
    char self[40];
    int fd, access = file->base.read_only ? O_RDONLY : O_RDWR;

    snprintf(self, sizeof(self), "/proc/self/fd/%d", file->fd);
    fd = open(self, access | flags | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) { /* no /proc: the path, if it still leads to the same file */
        struct stat ours, theirs;

        fd = open(file->path, access | flags | O_CLOEXEC);
        if (fd < 0)
            return -errno;
        if (fstat(fd, &theirs) < 0 || fstat(file->fd, &ours) < 0 || ours.st_dev != theirs.st_dev ||
            ours.st_ino != theirs.st_ino) {
            close(fd);
            return -ESTALE;
        }
    }
    return fd < 0 ? -errno : fd;
}

/* ---- opening ---- */

static bool has_folder(const char *path)
{
    const char *slash = strrchr(path, '/');
    char folder[sizeof(((struct fl_url *)0)->path)];

    if (!slash)
        return true;
    snprintf(folder, sizeof(folder), "%.*s", (int)FL_MAX(slash - path, (ptrdiff_t)1), path);
    return access(folder, F_OK) == 0;
}

static int cannot_open(const struct fl_file *file, int rc, struct fl_error *err)
{
    switch (rc) {
    case -ENOENT:
        if (!has_folder(file->path))
            return fl_error_set(err, rc, "file: \"%s\" does not exist, nor does its folder \"%.*s\"",
                                file->path, (int)(strrchr(file->path, '/') - file->path), file->path);
        return fl_error_set(
            err, rc,
            "file: \"%s\" does not exist; let it be made by adding a size (file:%s,size=1G), or make it: "
            "truncate -s 1G '%s'",
            file->path, file->path, file->path);
    case -EACCES:
    case -EPERM:
        return fl_error_set(err, rc,
                            "file: \"%s\" may not be opened by this user (uid %u); see its owner and mode",
                            file->path, (unsigned)geteuid());
    case -EBUSY:
        return fl_error_set(
            err, rc,
            "file: the device \"%s\" is in use (mounted, part of a volume, or had by a program that keeps "
            "others out: \"lsblk %s\" and \"fuser -v %s\" tell which); end that, or open it for reading "
            "with ro=1",
            file->path, file->path, file->path);
    case -EISDIR:
        return fl_error_set(err, rc, "file: \"%s\" is a directory; name a file or a block device",
                            file->path);
    default:
        return fl_error_set(err, rc, "file: cannot open \"%s\": %s", file->path, strerror(-rc));
    }
}

/* file->fd, or negative errno; falls back to read-only where the file is. */
static int open_path(struct fl_file *file, const struct fl_url *url)
{
    int fd = open(file->path, (url->read_only ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 && errno == ENOENT && url->size && !url->read_only) {
        fd = open(file->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        file->created = fd >= 0;
    }
    if (fd < 0 && !url->read_only && (errno == EACCES || errno == EROFS || errno == EPERM)) {
        int why = errno;

        fd = open(file->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0) {
            errno = why;
        } else {
            FL_WARN("%s may not be written (%s): the namespace is read-only", file->path, strerror(why));
            file->base.read_only = true;
        }
    }
    return fd < 0 ? -errno : fd;
}

static void destroy(struct fl_file *file)
{
    fl_file_pool_destroy(file->pool);
    fl_file_state_close(file);
    if (file->claim >= 0)
        close(file->claim);
    if (file->zeroes)
        munmap((void *)file->zeroes, FL_FILE_ZERO_LEN);
    if (file->fd >= 0) {
        flock(file->fd, LOCK_UN); /* at once: rings, which are taken down later, refer to it too */
        close(file->fd);
    }
    pthread_mutex_destroy(&file->lock);
    free(file);
}

static int set_up(struct fl_file *file, const struct fl_url *url, struct fl_error *err)
{
    struct stat st;
    void *zeroes;
    int rc;

    if (fstat(file->fd, &st) < 0)
        return fl_error_set(err, -errno, "file: cannot examine \"%s\": %s", file->path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return cannot_open(file, -EISDIR, err);
    if (!S_ISREG(st.st_mode) && !S_ISBLK(st.st_mode))
        return fl_error_set(err, -EINVAL, "file: \"%s\" is neither a regular file nor a block device",
                            file->path);
    file->is_block = S_ISBLK(st.st_mode);
    if (file->is_block && url->size)
        return fl_error_set(
            err, -EINVAL, "file: \"%s\" is a block device and has its own size; leave size= out", file->path);
    if (url->lock != FL_URL_OFF) {
        rc = fl_file_lock(file->fd, file->path, file->base.read_only, err);
        if (rc)
            return rc;
        if (file->is_block && !file->base.read_only) {
            file->claim = fl_file_claim(file->path);
            if (file->claim < 0)
                return cannot_open(file, file->claim, err);
        }
    }
    rc = fl_file_settle_len(file, url, err);
    if (rc)
        return rc;
    zeroes = mmap(NULL, FL_FILE_ZERO_LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeroes == MAP_FAILED)
        return fl_error_set(err, -ENOMEM, "file: out of memory");
    file->zeroes = zeroes;
    rc = fl_file_choose_access(file, url, err);
    if (rc)
        return rc;
    fl_file_probe_zeroing(file);
    return fl_file_state_open(file, err);
}

static int open_file(const struct fl_url *url, struct fl_backend **out, struct fl_error *err)
{
    struct fl_file *file = calloc(1, sizeof(*file));
    int rc;

    if (!file)
        return fl_error_set(err, -ENOMEM, "file: out of memory");
    fl_backend_init(&file->base, &fl_file_backend_ops, url);
    pthread_mutex_init(&file->lock, NULL);
    snprintf(file->path, sizeof(file->path), "%s", url->path);
    file->prealloc = url->prealloc;
    file->claim = -1;
    file->fd = open_path(file, url);
    rc = file->fd < 0 ? cannot_open(file, file->fd, err) : set_up(file, url, err);
    if (rc) {
        if (file->created)
            unlink(file->path); /* made a moment ago, and of no use */
        destroy(file);
        return rc;
    }
    file->base.volatile_cache = !file->base.read_only;
    *out = &file->base;
    return 0;
}

static void close_file(struct fl_backend *backend)
{
    destroy(fl_file_of(backend));
}

const struct fl_backend_ops fl_file_backend_ops = {
    .kind = "file",
    .open = open_file,
    .close = close_file,
    .chan_open = fl_file_chan_open,
    .chan_close = fl_file_chan_close,
    .submit = fl_file_submit,
    .flush_submissions = fl_file_hand_over,
    .poll = fl_file_poll,
    .fd = fl_file_fd,
    .found_len = fl_file_found_len,
    .resize = fl_file_resize,
    .look = fl_file_look,
    .state_load = fl_file_state_load,
    .state_save = fl_file_state_save,
};
