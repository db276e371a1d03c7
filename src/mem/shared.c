/* SPDX-License-Identifier: Apache-2.0 */
#include "mem/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "mem/range.h"

static struct {
    pthread_mutex_t lock;
    uint32_t newest, nr_freed; /* atomic */
    struct fl_shared_region regions[FL_SHARED_MAX];
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

static int create_fd(size_t len)
{
    int fd = memfd_create("farlane-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (fd < 0)
        return -1;
    if (ftruncate(fd, (off_t)len) < 0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

/* False: there are too many; it is memory like any other then. */
static bool remember(void *base, size_t len, int fd)
{
    bool done = false;
    pthread_mutex_lock(&all.lock);
    for (int i = 0; i < FL_SHARED_MAX && !done; i++) {
        if (all.regions[i].id)
            continue;
        uint32_t id = all.newest + 1;
        all.regions[i] = (struct fl_shared_region){.id = id, .fd = fd, .base = base, .len = len};
        __atomic_store_n(&all.newest, id, __ATOMIC_RELEASE);
        done = true;
    }
    pthread_mutex_unlock(&all.lock);
    return done;
}

void *fl_shared_alloc(size_t len)
{
    int fd = len ? create_fd(len) : -1;
    if (fd < 0) {
        errno = len ? errno : EINVAL;
        return NULL;
    }
    void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
    if (p == MAP_FAILED) {
        close(fd);
        errno = ENOMEM;
        return NULL;
    }
    if (!remember(p, len, fd))
        close(fd);
    (void)fl_mem_range_add(p, len); /* else its parts are registered one by one */
    return p;
}

void fl_shared_free(void *base, size_t len)
{
    if (!base)
        return;
    fl_mem_range_remove(base, len);
    pthread_mutex_lock(&all.lock);
    for (int i = 0; i < FL_SHARED_MAX; i++) {
        if (all.regions[i].id && all.regions[i].base == base) {
            close(all.regions[i].fd);
            all.regions[i].id = 0;
            __atomic_add_fetch(&all.nr_freed, 1, __ATOMIC_RELEASE);
        }
    }
    munmap(base, len);
    pthread_mutex_unlock(&all.lock);
}

uint32_t fl_shared_find(const void *p, size_t len)
{
    uint32_t id = 0;
    pthread_mutex_lock(&all.lock);
    for (int i = 0; i < FL_SHARED_MAX; i++) {
        const struct fl_shared_region *r = &all.regions[i];
        uintptr_t at = (uintptr_t)p - (uintptr_t)r->base;
        if (r->id && (uintptr_t)p >= (uintptr_t)r->base && len <= r->len && at <= r->len - len)
            id = r->id;
    }
    pthread_mutex_unlock(&all.lock);
    return id;
}

int fl_shared_list(uint32_t after, struct fl_shared_region *regions, int max)
{
    int nr = 0;
    pthread_mutex_lock(&all.lock);
    while (nr < max) {
        const struct fl_shared_region *lowest = NULL;
        for (int i = 0; i < FL_SHARED_MAX; i++) {
            const struct fl_shared_region *r = &all.regions[i];
            if (r->id > after && (!lowest || r->id < lowest->id))
                lowest = r;
        }
        if (!lowest)
            break;
        regions[nr] = *lowest;
        regions[nr++].fd = fcntl(lowest->fd, F_DUPFD_CLOEXEC, 0); /* the region may be freed any time */
        after = lowest->id;
    }
    pthread_mutex_unlock(&all.lock);
    return nr;
}

uint32_t fl_shared_nr_freed(void)
{
    return __atomic_load_n(&all.nr_freed, __ATOMIC_ACQUIRE);
}

uint32_t fl_shared_newest(void)
{
    return __atomic_load_n(&all.newest, __ATOMIC_ACQUIRE);
}
