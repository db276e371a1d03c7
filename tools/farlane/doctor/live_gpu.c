/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Registers memory of a GPU with an RDMA device and takes it back: the only proof that it works. In a child,
 * since a driver that is set up badly may hang or end the process; it gets ten seconds.
 */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live.h"
#include "verbs/verbs.h"

#define LEN         (2u << 20)
#define PATIENCE_MS 10000

enum { RANGE_DMA_BUF_FD = 1 }; /* CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD */

/* Of CUDA's driver API, which is the same since its versions named here */
struct cuda {
    int (*init)(unsigned int flags);
    int (*device_get)(int *device, int ordinal);
    int (*context_retain)(void **context, int device);
    int (*context_set)(void *context);
    int (*mem_alloc)(unsigned long long *ptr, size_t len);
    int (*range_handle)(void *handle, unsigned long long ptr, size_t len, int type, unsigned long long flags);
};

struct answer {
    int code;
    char why[SYS_TEXT_LEN];
};

static int fail(struct answer *a, int code, const char *what, int status)
{
    snprintf(a->why, sizeof(a->why), "%s: error %d", what, status);
    return code;
}

static bool find(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);

    memcpy(function, &symbol, sizeof(symbol));
    return symbol;
}

static int cuda_open(struct cuda *cuda, struct answer *a)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);

    if (!library) {
        snprintf(a->why, sizeof(a->why), "libcuda.so.1 is not installed");
        return -EOPNOTSUPP;
    }
    if (!find(library, "cuInit", &cuda->init) || !find(library, "cuDeviceGet", &cuda->device_get) ||
        !find(library, "cuDevicePrimaryCtxRetain", &cuda->context_retain) ||
        !find(library, "cuCtxSetCurrent", &cuda->context_set) ||
        !find(library, "cuMemAlloc_v2", &cuda->mem_alloc)) {
        snprintf(a->why, sizeof(a->why), "libcuda.so.1 lacks a function");
        return -EOPNOTSUPP;
    }
    find(library, "cuMemGetHandleForAddressRange", &cuda->range_handle); /* since 11.7 */
    return 0;
}

static int gpu_memory(struct cuda *cuda, int gpu, unsigned long long *ptr, struct answer *a)
{
    void *context;
    int device, status;

    if ((status = cuda->init(0)) != 0)
        return fail(a, -EOPNOTSUPP, "cuInit", status);
    if ((status = cuda->device_get(&device, gpu)) != 0)
        return fail(a, -ENODEV, "cuDeviceGet", status);
    if ((status = cuda->context_retain(&context, device)) != 0 || (status = cuda->context_set(context)) != 0)
        return fail(a, -EOPNOTSUPP, "the GPU's context", status);
    if ((status = cuda->mem_alloc(ptr, LEN)) != 0)
        return fail(a, -EOPNOTSUPP, "cuMemAlloc", status);
    return 0;
}

static int open_rdma(const struct fl_verbs *verbs, const char *name, struct ibv_pd **pd, struct answer *a)
{
    struct ibv_device **list = verbs->get_device_list(NULL);
    struct ibv_context *context = NULL;

    for (int i = 0; list && list[i] && !context; i++)
        if (!strcmp(verbs->get_device_name(list[i]), name))
            context = verbs->open_device(list[i]);
    *pd = context ? verbs->alloc_pd(context) : NULL;
    if (!*pd)
        return fail(a, -ENODEV, "ibv_open_device", errno);
    return 0;
}

static int try(int gpu, const char *dev, enum sys_register how, struct answer *a)
{
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
    const struct fl_verbs *verbs;
    struct fl_error err = {0};
    struct cuda cuda = {0};
    unsigned long long ptr;
    struct ibv_pd *pd;
    struct ibv_mr *mr;
    int fd = -1, r, status;

    r = fl_verbs_hardware(&verbs, &err);
    if (r < 0) {
        snprintf(a->why, sizeof(a->why), "%.200s", err.text);
        return -EOPNOTSUPP;
    }
    if ((r = cuda_open(&cuda, a)) < 0 || (r = gpu_memory(&cuda, gpu, &ptr, a)) < 0 ||
        (r = open_rdma(verbs, dev, &pd, a)) < 0)
        return r;
    if (how == SYS_REGISTER_DMABUF) {
        if (!cuda.range_handle)
            return fail(a, -ENOSYS, "CUDA before 11.7 gives no dma-buf", 0);
        if ((status = cuda.range_handle(&fd, ptr, LEN, RANGE_DMA_BUF_FD, 0)) != 0)
            return fail(a, -EINVAL, "cuMemGetHandleForAddressRange", status);
        mr = verbs->reg_dmabuf_mr(pd, 0, LEN, ptr, fd, access);
    } else {
        mr = verbs->reg_mr(pd, (void *)(uintptr_t)ptr, LEN, access);
    }
    if (!mr)
        return fail(a, errno ? -errno : -EIO, how == SYS_REGISTER_DMABUF ? "ibv_reg_dmabuf_mr" : "ibv_reg_mr",
                    errno);
    verbs->dereg_mr(mr); /* the rest goes with the process */
    return 0;
}

int live_gpu_register(const struct sys *sys, int gpu, const char *dev, enum sys_register how, char *why,
                      size_t len)
{
    struct answer a = {.code = -EIO, .why = "the trial ended without an answer"};
    struct pollfd pfd;
    int fds[2];
    pid_t pid;

    if (pipe(fds) < 0)
        return -errno;
    pid = fork();
    if (pid < 0) {
        close(fds[0]);
        close(fds[1]);
        return -errno;
    }
    if (!pid) {
        close(fds[0]);
        a.why[0] = 0;
        a.code = try(gpu, dev, how, &a);
        _exit(write(fds[1], &a, sizeof(a)) == sizeof(a) ? 0 : 1);
    }
    close(fds[1]);
    pfd = (struct pollfd){.fd = fds[0], .events = POLLIN};
    if (poll(&pfd, 1, PATIENCE_MS) == 0) {
        kill(pid, SIGKILL);
        snprintf(a.why, sizeof(a.why), "no answer in %d s", PATIENCE_MS / 1000);
        a.code = -ETIMEDOUT;
    } else if (read(fds[0], &a, sizeof(a)) != sizeof(a)) {
        a = (struct answer){.code = -EIO, .why = "the trial ended without an answer"};
    }
    close(fds[0]);
    waitpid(pid, NULL, 0);
    snprintf(why, len, "%s", a.why);
    return a.code;
}
