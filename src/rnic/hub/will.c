/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/hub/will.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/util.h"

int fl_hub_will_create(struct fl_hub_will *will)
{
    void *p = MAP_FAILED;
    int r;
    will->shared = NULL;
    will->nr_given_back = 0;
    will->fd = memfd_create("farlane-will", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (will->fd < 0)
        return -errno;
    if (ftruncate(will->fd, sizeof(*will->shared)) == 0)
        p = mmap(NULL, sizeof(*will->shared), PROT_READ | PROT_WRITE, MAP_SHARED, will->fd, 0);
    if (p != MAP_FAILED &&
        fcntl(will->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) == 0) {
        will->shared = p;
        return 0;
    }
    r = -errno;
    if (p != MAP_FAILED)
        munmap(p, sizeof(*will->shared));
    close(will->fd);
    will->fd = -1;
    return r;
}

void fl_hub_will_fini(struct fl_hub_will *will)
{
    if (!will->shared)
        return;
    munmap(will->shared, sizeof(*will->shared));
    close(will->fd);
    will->shared = NULL;
    will->fd = -1;
}

/* The process may be killed between any two stores: what is valid is whole. */
int fl_hub_will_add(struct fl_hub_will *will, const struct fl_hub_bond *bond)
{
    struct fl_hub_will_shared *s = will->shared;
    uint32_t at;
    if (!s || (!will->nr_given_back && s->nr == FL_HUB_WILL_MAX))
        return -ENOSPC;
    at = will->nr_given_back ? will->given_back[--will->nr_given_back] : s->nr;
    s->entries[at].bond = *bond;
    __atomic_store_n(&s->entries[at].valid, 1, __ATOMIC_RELEASE);
    if (at == s->nr)
        __atomic_store_n(&s->nr, at + 1, __ATOMIC_RELEASE);
    return (int)at;
}

void fl_hub_will_del(struct fl_hub_will *will, int number)
{
    if (!will->shared || number < 0)
        return;
    __atomic_store_n(&will->shared->entries[number].valid, 0, __ATOMIC_RELEASE);
    will->given_back[will->nr_given_back++] = (uint16_t)number;
}

uint64_t fl_hub_will_bind(struct fl_hub_will *will)
{
    uint64_t number;
    if (!will->shared || getrandom(&number, sizeof(number), 0) != sizeof(number))
        return 0;
    number |= 1; /* never 0 */
    __atomic_store_n(&will->shared->bound_to, number, __ATOMIC_SEQ_CST);
    return number;
}

void fl_hub_will_unbind(struct fl_hub_will *will)
{
    if (will->shared)
        __atomic_store_n(&will->shared->bound_to, 0, __ATOMIC_SEQ_CST);
}

const struct fl_hub_will_shared *fl_hub_will_map(int fd)
{
    const struct fl_hub_will_shared *s;
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || st.st_size != sizeof(*s))
        return NULL;
    s = mmap(NULL, sizeof(*s), PROT_READ, MAP_SHARED, fd, 0);
    return s == MAP_FAILED ? NULL : s;
}

void fl_hub_will_unmap(const struct fl_hub_will_shared *will)
{
    if (will)
        munmap((void *)(uintptr_t)will, sizeof(*will));
}

bool fl_hub_will_is_bound(const struct fl_hub_will_shared *will, uint64_t number)
{
    return number && __atomic_load_n(&will->bound_to, __ATOMIC_SEQ_CST) == number;
}

bool fl_hub_will_next(const struct fl_hub_will_shared *will, uint32_t *at, struct fl_hub_bond *bond)
{
    uint32_t nr = __atomic_load_n(&will->nr, __ATOMIC_ACQUIRE);
    nr = FL_MIN(nr, FL_HUB_WILL_MAX);
    while (*at < nr) {
        uint32_t i = (*at)++;
        if (__atomic_load_n(&will->entries[i].valid, __ATOMIC_ACQUIRE) != 1)
            continue;
        memcpy(bond, &will->entries[i].bond, sizeof(*bond));
        return true;
    }
    return false;
}
