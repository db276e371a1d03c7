/* SPDX-License-Identifier: Apache-2.0 */
/* Files of the kernel's device tree, as libibverbs' own programs read them. Software devices have none there.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "preload/preload.h"

const char *ibv_get_sysfs_path(void);
int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t len);

FL_EXPORT const char *ibv_get_sysfs_path(void)
{
    return "/sys";
}

/* The length of the text, without the newline at its end; -1 and errno. */
FL_EXPORT int ibv_read_sysfs_file(const char *dir, const char *file, char *buf, size_t len)
{
    char *path;
    if (asprintf(&path, "%s/%s", dir, file) < 0)
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    free(path);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, buf, len);
    close(fd);
    if (n > 0) {
        if (buf[n - 1] == '\n')
            buf[--n] = '\0';
        else if ((size_t)n < len)
            buf[n] = '\0';
    }
    return (int)n;
}
