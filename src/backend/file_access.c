/* SPDX-License-Identifier: Apache-2.0 */
/* How a file can be read, written and zeroed: proved when it is opened. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "backend/file.h"
#include "base/log.h"

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

int fl_file_choose_access(struct fl_file *file, const struct fl_url *url, struct fl_error *err)
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

void fl_file_probe_zeroing(struct fl_file *file)
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
