/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For perftest's client, by LD_PRELOAD: it connects a second time without asking whether the server listens
 * yet, and a server in an emulated guest needs a while for that.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <unistd.h>

enum { LATE_US = 1500000 };

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
        usleep(LATE_US);
    return next(id, param);
}
