/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys.h"

#define ALL_MAX (1 << 20)

static int path_of(const struct sys *sys, char path[PATH_MAX], const char *fmt, va_list args)
{
    int at = snprintf(path, PATH_MAX, "%s", sys->root);
    int n = at < PATH_MAX ? vsnprintf(path + at, (size_t)(PATH_MAX - at), fmt, args) : 0;

    return at + n < PATH_MAX ? 0 : -ENAMETOOLONG;
}

/* Format to path, in the functions below */
#define PATH_OF(sys, path, fmt, r)            \
    do {                                      \
        va_list args_;                        \
        va_start(args_, fmt);                 \
        (r) = path_of(sys, path, fmt, args_); \
        va_end(args_);                        \
    } while (0)

static ssize_t read_path(const char *path, void *bytes, size_t len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    size_t at = 0;
    ssize_t n = 0;

    if (fd < 0)
        return -errno;
    while (at < len && (n = read(fd, (char *)bytes + at, len - at)) > 0)
        at += (size_t)n;
    if (n < 0)
        n = -errno;
    close(fd);
    return n < 0 ? n : (ssize_t)at;
}

ssize_t sys_read(const struct sys *sys, char *text, size_t len, const char *fmt, ...)
{
    char path[PATH_MAX];
    ssize_t n;
    int r;

    text[0] = 0;
    PATH_OF(sys, path, fmt, r);
    if (r < 0)
        return r;
    n = read_path(path, text, len - 1);
    if (n < 0)
        return n;
    while (n > 0 && isspace((unsigned char)text[n - 1]))
        n--;
    text[n] = 0;
    return n;
}

ssize_t sys_read_bytes(const struct sys *sys, void *bytes, size_t len, const char *fmt, ...)
{
    char path[PATH_MAX];
    int r;

    PATH_OF(sys, path, fmt, r);
    return r < 0 ? r : read_path(path, bytes, len);
}

char *sys_read_all(const struct sys *sys, const char *path)
{
    char full[PATH_MAX], *text;
    ssize_t n;

    if (snprintf(full, sizeof(full), "%s%s", sys->root, path) >= (int)sizeof(full)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    text = malloc(ALL_MAX);
    if (!text)
        return NULL;
    n = read_path(full, text, ALL_MAX - 1);
    if (n < 0) {
        free(text);
        errno = (int)-n;
        return NULL;
    }
    text[n] = 0;
    return text;
}

int sys_number(const struct sys *sys, int64_t *value, const char *fmt, ...)
{
    char path[PATH_MAX], text[64], *end;
    ssize_t n;
    int r;

    PATH_OF(sys, path, fmt, r);
    if (r < 0)
        return r;
    n = read_path(path, text, sizeof(text) - 1);
    if (n < 0)
        return (int)n;
    text[n] = 0;
    errno = 0;
    *value = (int64_t)strtoll(text, &end, 0);
    if (errno == ERANGE) /* limits are told as 2^64 - 1, or near it */
        *value = INT64_MAX;
    return end == text ? -EINVAL : 0;
}

bool sys_exists(const struct sys *sys, const char *fmt, ...)
{
    char path[PATH_MAX];
    int r;

    PATH_OF(sys, path, fmt, r);
    return !r && !access(path, F_OK);
}

int sys_may_use(const struct sys *sys, const char *fmt, ...)
{
    char path[PATH_MAX];
    int r;

    PATH_OF(sys, path, fmt, r);
    if (!r && faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) < 0)
        r = -errno;
    return r;
}

int sys_link(const struct sys *sys, char name[SYS_NAME_LEN], const char *fmt, ...)
{
    char path[PATH_MAX], to[PATH_MAX];
    const char *last;
    ssize_t n;
    int r;

    PATH_OF(sys, path, fmt, r);
    if (r < 0)
        return r;
    n = readlink(path, to, sizeof(to) - 1);
    if (n < 0)
        return -errno;
    to[n] = 0;
    last = strrchr(to, '/');
    snprintf(name, SYS_NAME_LEN, "%.63s", last ? last + 1 : to);
    return 0;
}

int sys_real(const struct sys *sys, char *path, size_t len, const char *fmt, ...)
{
    char asked[PATH_MAX], real[PATH_MAX], root[PATH_MAX];
    size_t skip = 0;
    int r;

    PATH_OF(sys, asked, fmt, r);
    if (r < 0)
        return r;
    if (!realpath(asked, real))
        return -errno;
    if (*sys->root && realpath(sys->root, root) && !strncmp(real, root, strlen(root)))
        skip = strlen(root);
    return (size_t)snprintf(path, len, "%s", real + skip) < len ? 0 : -ENAMETOOLONG;
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(a, b);
}

int sys_list(const struct sys *sys, struct sys_names *names, const char *fmt, ...)
{
    char path[PATH_MAX];
    struct dirent *e;
    DIR *dir;
    int r;

    names->nr = 0;
    PATH_OF(sys, path, fmt, r);
    if (r < 0)
        return r;
    dir = opendir(path);
    if (!dir)
        return -errno;
    while ((e = readdir(dir)) && names->nr < SYS_NAMES_MAX)
        if (e->d_name[0] != '.' && strlen(e->d_name) < SYS_NAME_LEN)
            strcpy(names->name[names->nr++], e->d_name);
    closedir(dir);
    qsort(names->name, (size_t)names->nr, SYS_NAME_LEN, by_name);
    return names->nr;
}

int sys_field(const char *text, const char *key, int64_t *value)
{
    size_t len = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n')) {
        char *end;

        line += *line == '\n';
        if (strncmp(line, key, len))
            continue;
        *value = (int64_t)strtoll(line + len, &end, 10);
        return end == line + len ? -EINVAL : 0;
    }
    return -ENOENT;
}

bool sys_capable(const struct sys *sys, enum sys_capability capability)
{
    char *text = sys_read_all(sys, "/proc/self/status");
    const char *line = text ? strstr(text, "CapEff:") : NULL;
    bool has = line && strtoull(line + 7, NULL, 16) >> capability & 1;

    free(text);
    return has;
}

int64_t sys_pair(const char *text, const char *row, const char *column)
{
    const char *names = NULL;
    size_t len = strlen(row);

    for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        if (strncmp(line, row, len) || line[len] != ':')
            continue;
        if (!names) {
            names = line;
            continue;
        }
        const char *n = names + len + 1, *v = line + len + 1;
        while (*n == ' ' && *v == ' ') {
            size_t name_len = strcspn(++n, " \n");
            v++;
            if (name_len == strlen(column) && !strncmp(n, column, name_len))
                return strtoll(v, NULL, 10);
            n += name_len;
            v += strcspn(v, " \n");
        }
        return -ENOENT;
    }
    return -ENOENT;
}
