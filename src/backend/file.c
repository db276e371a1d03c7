/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "backend/file.h"
#include "backend/file_lock.h"
#include "base/log.h"
#include "base/size.h"

#define MAX_LEN (UINT64_C(1) << 62)

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
            "file: the device \"%s\" is in use (mounted, or part of a volume); unmount it, or open it "
            "for reading with ro=1",
            file->path);
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

/* A block device that is mounted must not be written behind the file system's back: the kernel refuses it
 * with O_EXCL. */
static int claim_device(struct fl_file *file)
{
    int fd = open(file->path, O_RDWR | O_EXCL | O_CLOEXEC);

    if (fd < 0)
        return -errno;
    close(file->fd);
    file->fd = fd;
    return 0;
}

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

static int settle_len(struct fl_file *file, const struct fl_url *url, struct fl_error *err)
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

/* ---- how it can be read and written ---- */

/* NULL: O_DIRECT works, with file->mem_align and off_align; else why not. */
static const char *probe_direct(struct fl_file *file, const struct fl_url *url, char why[80])
{
    struct statx sx = {0};
    uint8_t *buf = NULL;
    int fd;

    if (url->direct == FL_URL_OFF)
        return "direct=0";
    fd = fl_file_reopen(file, O_DIRECT);
    if (fd < 0) {
        snprintf(why, 80, "O_DIRECT is refused here (%s)", strerror(-fd));
        return why;
    }
    file->mem_align = file->off_align = 0;
#ifdef STATX_DIOALIGN
    if (!statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) && sx.stx_mask & STATX_DIOALIGN) {
        file->mem_align = FL_MAX(sx.stx_dio_mem_align, (uint32_t)sizeof(void *));
        file->off_align = sx.stx_dio_offset_align;
        if (!file->off_align) {
            close(fd);
            return "the file system has no direct I/O for this file";
        }
    }
#endif
    if (posix_memalign((void **)&buf, 4096, 4096)) {
        close(fd);
        return "out of memory";
    }
    /* Also where statx has told: the proof is in the doing. */
    for (uint32_t align = file->off_align ? file->off_align : 512;; align *= 2) {
        if (align <= 4096 && pread(fd, buf, align, 0) >= 0) {
            if (!file->off_align)
                file->mem_align = file->off_align = align;
            why = NULL;
            break;
        }
        if (file->off_align || align >= 4096 || errno != EINVAL) {
            snprintf(why, 80, "a direct read fails (%s)",
                     align > 4096 ? "alignment over 4096" : strerror(errno));
            break;
        }
    }
    free(buf);
    close(fd);
    /* A block written as part of a larger unit would be read, changed and written again: a crash or a
     * neighbour's write in between would lose it. The page cache does that safely. */
    if (!why && file->base.block_len % file->off_align) {
        why = "the device's direct I/O has larger units than the namespace's blocks (use bs=4096)";
        file->off_align = 0;
    }
    return why;
}

static int choose_access(struct fl_file *file, const struct fl_url *url, struct fl_error *err)
{
    char buf[80];
    const char *why = probe_direct(file, url, buf);
    const char *engine_why = "";
    int rc;

    file->direct = !why;
    if (why && url->direct == FL_URL_ON)
        return fl_error_set(err, -EINVAL, "file: direct=1 is not possible for \"%s\": %s", file->path, why);
    rc = url->uring == FL_URL_OFF ? -ECANCELED : fl_file_uring_probe();
    if (rc && url->uring == FL_URL_ON)
        return fl_error_set(err, rc, "file: uring=1 is not possible: io_uring is not to be had here (%s)",
                            strerror(-rc));
    file->engine = rc ? &fl_file_threads : &fl_file_uring;
    if (rc) {
        engine_why = url->uring == FL_URL_OFF ? "uring=0" : strerror(-rc);
        if (url->uring == FL_URL_AUTO)
            FL_WARN(
                "io_uring is not to be had here (%s); files are read and written by threads, which is slower",
                strerror(-rc));
        rc = fl_file_pool_create(&file->pool);
        if (rc)
            return fl_error_set(err, rc, "file: cannot start threads: %s", strerror(-rc));
    }
    snprintf(file->base.note, sizeof(file->base.note), "%s%s%s, %s%s%s", why ? "buffered (" : "direct",
             why ? why : "", why ? ")" : "", file->engine->name, *engine_why ? ": " : "", engine_why);
    if (why && url->direct == FL_URL_AUTO)
        FL_WARN("%s goes through the page cache: %s", file->path, why);
    FL_INFO("%s: %" PRIu64 " bytes, %s", file->path, file->base.len, file->base.note);
    return 0;
}

static bool device_discards(const struct fl_file *file)
{
    static const char *const at[] = {"queue", "../queue"}; /* of a disk, of a partition */
    char path[96], text[32] = "";
    struct stat st;
    bool yes = false;

    if (fstat(file->fd, &st) < 0)
        return false;
    for (size_t i = 0; i < FL_ARRAY_LEN(at); i++) {
        FILE *f;

        snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s/discard_max_bytes", major(st.st_rdev),
                 minor(st.st_rdev), at[i]);
        f = fopen(path, "re");
        if (!f)
            continue;
        yes = fgets(text, sizeof(text), f) && strtoull(text, NULL, 10) > 0;
        fclose(f);
        break;
    }
    return yes;
}

static void probe_zeroing(struct fl_file *file)
{
    uint64_t end = fl_round_up(file->base.len, 4096);

    if (file->base.read_only)
        return;
    file->can = FL_FILE_CAN_ZERO | FL_FILE_CAN_PUNCH;
    if (file->is_block) {
        file->base.trims = device_discards(file);
        return;
    }
    /* Beyond the end: nothing happens, but a file system that cannot says so. */
    file->base.trims = fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)end, 4096) == 0;
    if (!file->base.trims)
        file->can &= ~FL_FILE_CAN_PUNCH;
}

static void destroy(struct fl_file *file)
{
    fl_file_pool_destroy(file->pool);
    fl_file_state_close(file);
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
    if (file->is_block && !file->base.read_only && url->lock != FL_URL_OFF) {
        rc = claim_device(file);
        if (rc)
            return cannot_open(file, rc, err);
    }
    if (url->lock != FL_URL_OFF) {
        rc = fl_file_lock(file->fd, file->path, file->base.read_only, err);
        if (rc)
            return rc;
    }
    rc = settle_len(file, url, err);
    if (rc)
        return rc;
    zeroes = mmap(NULL, FL_FILE_ZERO_LEN, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (zeroes == MAP_FAILED)
        return fl_error_set(err, -ENOMEM, "file: out of memory");
    file->zeroes = zeroes;
    rc = choose_access(file, url, err);
    if (rc)
        return rc;
    probe_zeroing(file);
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

/* ---- resizing ---- */

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

static int resize(struct fl_backend *backend, uint64_t len, struct fl_error *err)
{
    struct fl_file *file = fl_file_of(backend);
    int rc;

    pthread_mutex_lock(&file->lock);
    rc = resize_locked(file, len, err);
    pthread_mutex_unlock(&file->lock);
    return rc;
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
    .resize = resize,
    .look = fl_file_look,
    .state_load = fl_file_state_load,
    .state_save = fl_file_state_save,
};
