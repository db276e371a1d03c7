/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For both ends of perftest with -R, by LD_PRELOAD: its client connects a second time without asking whether
 * its server listens again yet, and crashes when it is refused. So the server makes the file $LATE_FILE when
 * it listens for the second time, and the client waits for that before it connects for the second time.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <rdma/rdma_cma.h>
#include <stdlib.h>
#include <unistd.h>

enum { STEP_US = 20000, STEPS = 750 };

static const char *file(void)
{
    const char *name = getenv("LATE_FILE");

    return name ? name : "";
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    static int calls;
    int (*next)(struct rdma_cm_id *, int);
    int r, fd;

    *(void **)&next = dlsym(RTLD_NEXT, "rdma_listen");
    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    r = next(id, backlog);
    if (!r && calls++) {
        fd = open(file(), O_WRONLY | O_CREAT, 0666);
        if (fd >= 0)
            close(fd);
    }
    return r;
}

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    static int calls;
    int (*next)(struct rdma_cm_id *, struct rdma_conn_param *);

    *(void **)&next = dlsym(RTLD_NEXT, "rdma_connect");
    if (!next) {
        errno = ENOSYS;
        return -1;
    }
    if (calls++)
        for (int i = 0; i < STEPS && access(file(), F_OK); i++)
            usleep(STEP_US);
    return next(id, param);
}
