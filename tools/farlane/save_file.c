/* SPDX-License-Identifier: Apache-2.0 */
#include "save_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

static int cannot_write(const char *path, int code, struct fl_error *err)
{
    return fl_error_set(err, code, "cannot write %s: %s", path, strerror(-code));
}

/* A file that is not empty: opened and locked, into *fd. */
static int look(const char *path, const struct save_kind *kind, bool force, int *fd, struct fl_error *err)
{
    int rc = 0;

    *fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (*fd < 0)
        return fl_error_set(err, -errno, "cannot look at what %s is: %s", path, strerror(errno));
    /* The lock that a target has on the files it serves. */
    if (flock(*fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
        rc = fl_error_set(err, -EBUSY,
                          "%s is in use by another program, maybe as a namespace: it was not replaced", path);
    else if (!force && !kind->is_one(path))
        rc = fl_error_set(err, -EEXIST,
                          "%s is there already and is no %s: it was not replaced (--force replaces it)", path,
                          kind->name);
    if (rc < 0) {
        close(*fd);
        *fd = -1;
    }
    return rc;
}

/* What is at the path: *st, with st_mode 0 if nothing is. */
static int check(const char *path, const struct save_kind *kind, bool force, struct stat *st, int *fd,
                 struct fl_error *err)
{
    *fd = -1;
    if (stat(path, st) < 0) {
        memset(st, 0, sizeof(*st));
        return errno == ENOENT ? 0 : cannot_write(path, -errno, err);
    }
    if (S_ISFIFO(st->st_mode))
        return 0;
    if (!S_ISREG(st->st_mode))
        return fl_error_set(err, S_ISDIR(st->st_mode) ? -EISDIR : -EEXIST,
                            "%s is a %s: a file is needed to put the result in", path,
                            S_ISDIR(st->st_mode)    ? "folder"
                            : S_ISSOCK(st->st_mode) ? "socket"
                                                    : "device");
    return look(path, kind, force || st->st_size == 0, fd, err);
}

int save_file_check(const char *path, const struct save_kind *kind, bool force, struct fl_error *err)
{
    struct stat st;
    int fd, rc = check(path, kind, force, &st, &fd, err);

    if (fd >= 0)
        close(fd);
    return rc;
}

static void release(struct save_file *s)
{
    if (s->old >= 0)
        close(s->old);
    free(s->place);
    free(s->beside);
    *s = (struct save_file){.old = -1};
}

/* Beside its place, with the rights that the file has which it replaces. */
static int open_beside(struct save_file *s, const struct stat *old)
{
    int fd;

    s->place = old->st_mode ? realpath(s->path, NULL) : strdup(s->path);
    if (!s->place || asprintf(&s->beside, "%s.new-%d", s->place, (int)getpid()) < 0) {
        s->beside = NULL;
        return -ENOMEM;
    }
    fd = open(s->beside, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return -errno;
    if (old->st_mode)
        (void)fchmod(fd, old->st_mode & 0777);
    s->f = fdopen(fd, "w");
    if (s->f)
        return 0;
    close(fd);
    unlink(s->beside);
    return -ENOMEM;
}

int save_file_begin(struct save_file *s, const char *path, const struct save_kind *kind, bool force,
                    struct fl_error *err)
{
    struct stat st;
    int rc;

    *s = (struct save_file){.path = path, .old = -1};
    rc = check(path, kind, force, &st, &s->old, err);
    if (rc < 0)
        return rc;
    if (S_ISFIFO(st.st_mode)) {
        s->f = fopen(path, "we");
        rc = s->f ? 0 : -errno;
    } else {
        rc = open_beside(s, &st);
    }
    if (rc < 0) {
        cannot_write(path, rc, err);
        release(s);
    }
    return rc;
}

int save_file_end(struct save_file *s, bool good, struct fl_error *err)
{
    int rc = 0;

    errno = 0;
    if (ferror(s->f) || fflush(s->f) != 0 || (good && s->beside && fsync(fileno(s->f)) < 0))
        rc = errno ? -errno : -EIO;
    if (fclose(s->f) != 0 && !rc)
        rc = -errno;
    if (!rc && good && s->beside && rename(s->beside, s->place) < 0)
        rc = -errno;
    if ((rc || !good) && s->beside)
        unlink(s->beside);
    if (rc)
        cannot_write(s->path, rc, err);
    release(s);
    return rc;
}
