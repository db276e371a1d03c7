/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slow medium on demand: preloaded into a server with a file namespace (uring=0, so that threads do the
 * I/O), it holds each read and write for as long as the file named by FL_GATE exists.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

ssize_t preadv64(int fd, const struct iovec *iov, int nr, off_t at);
ssize_t pwritev64v2(int fd, const struct iovec *iov, int nr, off_t at, int flags);

static void wait_for_gate(void)
{
    const char *gate = getenv("FL_GATE");

    while (gate && access(gate, F_OK) == 0)
        usleep(5000);
}

__attribute__((visibility("default"))) ssize_t preadv64(int fd, const struct iovec *iov, int nr, off_t at)
{
    ssize_t (*next)(int, const struct iovec *, int,
                    off_t) = (ssize_t(*)(int, const struct iovec *, int, off_t))dlsym(RTLD_NEXT, "preadv64");

    wait_for_gate();
    return next(fd, iov, nr, at);
}

__attribute__((visibility("default"))) ssize_t pwritev64v2(int fd, const struct iovec *iov, int nr, off_t at,
                                                           int flags)
{
    ssize_t (*next)(int, const struct iovec *, int, off_t, int) = (ssize_t(*)(
        int, const struct iovec *, int, off_t, int))dlsym(RTLD_NEXT, "pwritev64v2");

    wait_for_gate();
    return next(fd, iov, nr, at, flags);
}
