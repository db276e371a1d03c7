/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs do not only call libibverbs: some look for a device's file in /dev/infiniband, and read what kind
 * of GID it has in /sys/class/infiniband. Software devices have none there; what these programs would find is
 * shown to them. All other paths go on to libc.
 */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"
#include "preload/preload.h"
#include "rnic/device.h"

/* By their names in the library, whatever the header calls them where offsets have 64 bits */
int fl_open(const char *path, int flags, ...) __asm__("open");
int fl_open64(const char *path, int flags, ...) __asm__("open64");
int fl_access(const char *path, int mode) __asm__("access");
int fl_stat(const char *path, struct stat *st) __asm__("stat");
int fl_stat64(const char *path, struct stat *st) __asm__("stat64");

#define DEV     "/dev/infiniband/"
#define SYS     "/sys/class/infiniband/"
#define SYS_LEN (sizeof(SYS) - 1)

typedef int (*open_function)(const char *path, int flags, ...);
typedef int (*access_function)(const char *path, int mode);
typedef int (*stat_function)(const char *path, struct stat *st);

static int real_open(const char *path, int flags, mode_t mode)
{
    static open_function real;
    if (!real)
        real = (open_function)dlsym(RTLD_NEXT, "open64");
    return real(path, flags, mode);
}

/* The software device whose name path begins with, up to its end or a '/'; *rest: what follows */
static struct fl_device *device_of(const char *path, const char **rest)
{
    struct fl_device *found = NULL;
    struct ibv_device **list = fl_verbs_soft.get_device_list(NULL);
    size_t len = strcspn(path, "/");
    for (int i = 0; list && list[i] && !found; i++) {
        if (strlen(list[i]->name) == len && !memcmp(list[i]->name, path, len))
            found = FL_CONTAINER_OF(list[i], struct fl_device, device);
    }
    fl_verbs_soft.free_device_list(list);
    *rest = path + len + (path[len] == '/');
    return found;
}

static bool is_device_file(const char *path)
{
    const char *rest;
    return path && !strncmp(path, DEV, sizeof(DEV) - 1) && device_of(path + sizeof(DEV) - 1, &rest) && !*rest;
}

/* The number that path is after these words; -1: it is not. */
static int number_after(const char *path, const char *words)
{
    size_t len = strlen(words);
    int number, end = 0;
    if (strncmp(path, words, len) || sscanf(path + len, "%d%n", &number, &end) != 1 ||
        path[len + (size_t)end])
        return -1;
    return number;
}

/* What a file of the port says. Its length; negative: there is no such file. */
static int attribute(struct fl_device *device, const char *path, char *text, size_t len)
{
    struct fl_gid gid;
    int index;
    if ((index = number_after(path, "ports/1/gid_attrs/types/")) >= 0 && !fl_device_gid(device, index, &gid))
        return snprintf(text, len, "RoCE v2\n");
    if ((index = number_after(path, "ports/1/gid_attrs/ndevs/")) >= 0 && !fl_device_gid(device, index, &gid))
        return snprintf(text, len, "%s\n", device->ifname);
    if ((index = number_after(path, "ports/1/gids/")) >= 0 && !fl_device_gid(device, index, &gid)) {
        int n = 0;
        for (int i = 0; i < 8; i++)
            n += snprintf(text + n, len - (size_t)n, "%02x%02x%s", gid.addr.s6_addr[2 * i],
                          gid.addr.s6_addr[2 * i + 1], i < 7 ? ":" : "\n");
        return n;
    }
    if (!strcmp(path, "ports/1/link_layer"))
        return snprintf(text, len, "Ethernet\n");
    if (!strcmp(path, "ports/1/state"))
        return snprintf(text, len, device->up ? "4: ACTIVE\n" : "1: DOWN\n");
    return -1;
}

/* The folder of the devices, or of a software device? */
static bool is_folder(const char *path)
{
    const char *rest;
    if (!path || strncmp(path, SYS, SYS_LEN - 1))
        return false;
    if (!path[SYS_LEN - 1])
        return true;
    return path[SYS_LEN - 1] == '/' && (!path[SYS_LEN] || (device_of(path + SYS_LEN, &rest) && !*rest));
}

/* What the path stands for as far as its kind and rights go */
static const char *likeness(const char *path)
{
    return is_device_file(path) ? "/dev/null" : is_folder(path) ? "/sys" : path;
}

/* A descriptor of a software device's file; -1: it is not one. */
static int open_own(const char *path)
{
    char text[128];
    const char *rest;
    if (is_device_file(path))
        return real_open("/dev/null", O_RDWR | O_CLOEXEC, 0);
    if (strncmp(path, SYS, SYS_LEN))
        return -1;
    struct fl_device *device = device_of(path + SYS_LEN, &rest);
    int len = device ? attribute(device, rest, text, sizeof(text)) : -1;
    if (len < 0)
        return -1;
    int fd = memfd_create("farlane-sysfs", MFD_CLOEXEC);
    if (fd >= 0 && (write(fd, text, (size_t)len) != len || lseek(fd, 0, SEEK_SET))) {
        close(fd);
        return -1;
    }
    return fd;
}

static mode_t mode_of(int flags, va_list args)
{
    return flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE ? va_arg(args, mode_t) : 0;
}

static int open_any(const char *path, int flags, mode_t mode)
{
    int fd = path && (!strncmp(path, DEV, sizeof(DEV) - 1) || !strncmp(path, SYS, SYS_LEN)) ? open_own(path)
                                                                                            : -1;
    return fd >= 0 ? fd : real_open(path, flags, mode);
}

FL_EXPORT int fl_open(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_any(path, flags, mode);
}

FL_EXPORT int fl_open64(const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = mode_of(flags, args);
    va_end(args);
    return open_any(path, flags, mode);
}

FL_EXPORT int fl_access(const char *path, int mode)
{
    static access_function real;
    if (!real)
        real = (access_function)dlsym(RTLD_NEXT, "access");
    return real(likeness(path), mode);
}

static int stat_any(const char *path, struct stat *st)
{
    static stat_function real;
    if (!real)
        real = (stat_function)dlsym(RTLD_NEXT, "stat64");
    return real(likeness(path), st);
}

FL_EXPORT int fl_stat(const char *path, struct stat *st)
{
    return stat_any(path, st);
}

FL_EXPORT int fl_stat64(const char *path, struct stat *st)
{
    return stat_any(path, st);
}
