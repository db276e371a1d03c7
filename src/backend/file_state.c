/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What belongs to the data and lives as long: the namespace's uuid and its reservations.
 *
 * The uuid of a file that was never given one is derived from what stays the same (file system, inode, time
 * of birth; a device's own name), so that opening a file leaves no trace. State goes into a small text file
 * beside it, FILE.farlane, together with the uuid of that moment. Not into an extended attribute: block
 * devices, NFS and older tmpfs have none, their size is limited, and copying tools would give two files one
 * identity, which a host takes for two paths to one namespace. A block device's state is kept in
 * $STATE_DIRECTORY (systemd), /var/lib/farlane, or the user's
 * ~/.local/state/farlane, for /dev forgets.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "backend/file.h"
#include "base/crc.h"
#include "base/log.h"
#include "base/uuid.h"

#define MAGIC    "farlane namespace state 1\n"
#define TEXT_MAX (2 * FL_FILE_STATE_MAX + 256)

/* ---- identity ---- */

/* FNV-1a, 128 bits: spreads, and needs to resist nobody. */
static void derive_uuid(const char *what, uint8_t uuid[16])
{
    const unsigned __int128 prime = ((unsigned __int128)1 << 88) + 0x13b;
    unsigned __int128 h = ((unsigned __int128)UINT64_C(0x6c62272e07bb0142) << 64) +
                          UINT64_C(0x62b821756295c58d);

    for (; *what; what++)
        h = (h ^ (uint8_t)*what) * prime;
    for (int i = 0; i < 16; i++)
        uuid[i] = (uint8_t)(h >> (120 - 8 * i));
    uuid[6] = (uint8_t)((uuid[6] & 0x0f) | 0x80); /* version 8: made by rules of our own */
    uuid[8] = (uint8_t)((uuid[8] & 0x3f) | 0x80);
}

static bool read_line(const char *path, char *line, size_t len)
{
    FILE *f = fopen(path, "re");
    bool ok;

    if (!f)
        return false;
    ok = fgets(line, (int)len, f) && *line && *line != '\n';
    fclose(f);
    if (ok)
        line[strcspn(line, "\n")] = '\0';
    return ok;
}

static void describe_device(const struct fl_file *file, const struct stat *st, char *text, size_t len)
{
    static const char *const at[] = {"wwid",          "device/wwid",       "dm/uuid", "serial",
                                     "device/serial", "loop/backing_file", "../wwid", "../device/wwid",
                                     "../serial",     "../device/serial"};
    char path[128], line[256], part[32] = "0";

    snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/partition", major(st->st_rdev), minor(st->st_rdev));
    read_line(path, part, sizeof(part));
    for (size_t i = 0; i < FL_ARRAY_LEN(at); i++) {
        snprintf(path, sizeof(path), "/sys/dev/block/%u:%u/%s", major(st->st_rdev), minor(st->st_rdev),
                 at[i]);
        if (read_line(path, line, sizeof(line))) {
            snprintf(text, len, "block %s %s part %s", at[i], line, part);
            return;
        }
    }
    snprintf(text, len, "block named %s", file->path); /* nothing better: stable as long as the name is */
}

static void describe_file(const struct fl_file *file, const struct stat *st, char *text, size_t len)
{
    struct statx sx = {0};
    struct statfs fs = {0};
    uint32_t fsid[2] = {0};

    if (!fstatfs(file->fd, &fs))
        memcpy(fsid, &fs.f_fsid, sizeof(fsid));
    if (statx(file->fd, "", AT_EMPTY_PATH, STATX_BTIME, &sx) < 0 || !(sx.stx_mask & STATX_BTIME))
        sx.stx_btime.tv_sec = 0, sx.stx_btime.tv_nsec = 0;
    snprintf(text, len, "file %08x%08x %" PRIu64 " %lld.%09u", fsid[0], fsid[1], (uint64_t)st->st_ino,
             (long long)sx.stx_btime.tv_sec, sx.stx_btime.tv_nsec);
}

/* ---- where it is kept ---- */

static int make_dirs(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        if (mkdir(path, 0755) < 0 && errno != EEXIST) {
            *p = '/';
            return -errno;
        }
        *p = '/';
    }
    return 0;
}

static void choose_path(struct fl_file *file)
{
    const char *dir = getenv("STATE_DIRECTORY"), *home = getenv("HOME"), *xdg = getenv("XDG_STATE_HOME");
    char uuid[FL_UUID_TEXT_LEN];
    struct fl_uuid u;
    int n;

    if (!file->is_block) {
        snprintf(file->state_path, sizeof(file->state_path), "%s.farlane", file->path);
        return;
    }
    memcpy(u.b, file->base.uuid, sizeof(u.b));
    fl_uuid_format(&u, uuid);
    if (dir && *dir == '/')
        n = snprintf(file->state_path, sizeof(file->state_path), "%s/%s.farlane", dir, uuid);
    else if (geteuid() == 0 || !home || *home != '/')
        n = snprintf(file->state_path, sizeof(file->state_path), "/var/lib/farlane/%s.farlane", uuid);
    else if (xdg && *xdg == '/')
        n = snprintf(file->state_path, sizeof(file->state_path), "%s/farlane/%s.farlane", xdg, uuid);
    else
        n = snprintf(file->state_path, sizeof(file->state_path), "%s/.local/state/farlane/%s.farlane", home,
                     uuid);
    if (n < 0 || (size_t)n >= sizeof(file->state_path))
        file->state_path[0] = '\0';
}

/* ---- the text ---- */

static int hex_value(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t write_text(const struct fl_file *file, const uint8_t *state, size_t len, char *text)
{
    static const char hex[] = "0123456789abcdef";
    char uuid[FL_UUID_TEXT_LEN];
    struct fl_uuid u;
    size_t n;

    memcpy(u.b, file->base.uuid, sizeof(u.b));
    n = (size_t)sprintf(text, MAGIC "uuid %s\nreservations ", fl_uuid_format(&u, uuid));
    for (size_t i = 0; i < len; i++) {
        text[n++] = hex[state[i] >> 4];
        text[n++] = hex[state[i] & 15];
    }
    text[n++] = '\n';
    return n + (size_t)sprintf(text + n, "crc32c %08x\n", fl_crc32c(0, text, n));
}

/* 0, or -EBADMSG. */
static int parse_text(struct fl_file *file, char *text, size_t len)
{
    char *crc_line, *end, *p = text + strlen(MAGIC);
    struct fl_uuid uuid;
    uint8_t *state;
    size_t n = 0;

    text[len] = '\0';
    if (strlen(text) != len || strncmp(text, MAGIC, strlen(MAGIC)) != 0)
        return -EBADMSG;
    crc_line = strstr(text, "\ncrc32c ");
    if (!crc_line || strtoul(crc_line + 8, &end, 16) != fl_crc32c(0, text, (size_t)(crc_line + 1 - text)) ||
        strcmp(end, "\n") != 0)
        return -EBADMSG;
    crc_line[1] = '\0';
    if (strncmp(p, "uuid ", 5) != 0 || strlen(p) < 5 + FL_UUID_TEXT_LEN)
        return -EBADMSG;
    p += 5;
    end = p + FL_UUID_TEXT_LEN - 1;
    *end++ = '\0';
    if (fl_uuid_parse(p, &uuid, NULL) || strncmp(end, "reservations ", 13) != 0)
        return -EBADMSG;
    p = end + 13;
    state = malloc(strlen(p) / 2 + 1);
    if (!state)
        return -ENOMEM;
    for (; hex_value(p[0]) >= 0 && hex_value(p[1]) >= 0; p += 2)
        state[n++] = (uint8_t)(hex_value(p[0]) << 4 | hex_value(p[1]));
    if (strcmp(p, "\n") != 0) {
        free(state);
        return -EBADMSG;
    }
    memcpy(file->base.uuid, uuid.b, sizeof(uuid.b));
    file->state = state;
    file->state_len = n;
    file->has_state = true;
    return 0;
}

static ssize_t read_whole(const char *path, char *buf, size_t room)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    size_t n = 0;
    ssize_t got;

    if (fd < 0)
        return -errno;
    while (n < room && (got = read(fd, buf + n, room - n)) != 0) {
        if (got < 0) {
            if (errno == EINTR)
                continue;
            got = -errno;
            close(fd);
            return got;
        }
        n += (size_t)got;
    }
    close(fd);
    return n < room ? (ssize_t)n : -EFBIG;
}

int fl_file_state_open(struct fl_file *file, struct fl_error *err)
{
    char what[FL_URL_PATH_LEN + 64];
    struct stat st;
    ssize_t n;
    char *text;
    int rc = 0;

    if (fstat(file->fd, &st) < 0)
        return fl_error_set(err, -errno, "file: cannot examine \"%s\": %s", file->path, strerror(errno));
    if (file->is_block)
        describe_device(file, &st, what, sizeof(what));
    else
        describe_file(file, &st, what, sizeof(what));
    derive_uuid(what, file->base.uuid);
    choose_path(file);
    if (file->created) { /* what lies there belonged to a file of this name that is gone */
        if (unlink(file->state_path) == 0)
            FL_WARN("%s was left from an earlier file and is removed", file->state_path);
        return 0;
    }
    text = malloc(TEXT_MAX + 1);
    if (!text)
        return fl_error_set(err, -ENOMEM, "file: out of memory");
    n = read_whole(file->state_path, text, TEXT_MAX);
    if (n >= 0)
        rc = parse_text(file, text, (size_t)n);
    else if (n == -EACCES && file->base.read_only)
        FL_INFO("%s belongs to another user: its uuid and reservations are not known", file->state_path);
    else if (n != -ENOENT && n != -ENOTDIR)
        rc = (int)n;
    free(text);
    if (rc == -EBADMSG)
        return fl_error_set(
            err, rc,
            "file: \"%s\", which keeps the reservations, is damaged; move it away to go on without them",
            file->state_path);
    return rc ? fl_error_set(err, rc, "file: cannot read \"%s\": %s", file->state_path, strerror(-rc)) : 0;
}

void fl_file_state_close(struct fl_file *file)
{
    free(file->state);
    file->state = NULL;
}

int fl_file_state_load(struct fl_backend *backend, void *buf, size_t cap)
{
    struct fl_file *file = fl_file_of(backend);
    int rc;

    pthread_mutex_lock(&file->lock);
    if (!file->has_state) {
        rc = -ENOENT;
    } else if (file->state_len > cap) {
        rc = -E2BIG;
    } else {
        memcpy(buf, file->state, file->state_len);
        rc = (int)file->state_len;
    }
    pthread_mutex_unlock(&file->lock);
    return rc;
}

/* ---- saving: whole and durable, or as before ---- */

static int write_all(int fd, const char *text, size_t len)
{
    while (len) {
        ssize_t n = write(fd, text, len);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -errno;
        text += n;
        len -= (size_t)n;
    }
    return fsync(fd) < 0 ? -errno : 0;
}

int fl_file_sync_dir_of(const char *path)
{
    char copy[FL_URL_PATH_LEN + 16];
    int fd, rc;

    snprintf(copy, sizeof(copy), "%s", path);
    fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -errno;
    rc = fsync(fd) < 0 ? -errno : 0;
    close(fd);
    return rc;
}

static int replace(struct fl_file *file, const char *text, size_t len)
{
    char next[FL_URL_PATH_LEN + 24];
    int fd, rc;

    snprintf(next, sizeof(next), "%s.new", file->state_path);
    fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0 && errno == ENOENT && !make_dirs(file->state_path))
        fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    rc = write_all(fd, text, len);
    if (close(fd) < 0 && !rc)
        rc = -errno;
    if (!rc && rename(next, file->state_path) < 0)
        rc = -errno;
    if (rc) {
        unlink(next);
        return rc;
    }
    return fl_file_sync_dir_of(file->state_path);
}

int fl_file_state_save(struct fl_backend *backend, const void *buf, size_t len)
{
    struct fl_file *file = fl_file_of(backend);
    char *text;
    uint8_t *copy;
    int rc;

    if (backend->read_only)
        return -EROFS;
    if (len > FL_FILE_STATE_MAX)
        return -E2BIG;
    text = malloc(TEXT_MAX);
    copy = malloc(len + 1);
    if (!text || !copy) {
        free(text);
        free(copy);
        return -ENOMEM;
    }
    memcpy(copy, buf, len);
    pthread_mutex_lock(&file->lock);
    rc = replace(file, text, write_text(file, copy, len, text));
    if (rc) {
        FL_ERR("cannot save the state of %s as %s: %s", file->path, file->state_path, strerror(-rc));
        free(copy);
    } else {
        free(file->state);
        file->state = copy;
        file->state_len = len;
        file->has_state = true;
    }
    pthread_mutex_unlock(&file->lock);
    free(text);
    return rc;
}
