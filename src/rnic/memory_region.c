/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions. Nothing is pinned: pages may be swapped, moved, and copied on a
 * fork. */
#include <errno.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/try.h"
#include "mem/shared.h"
#include "rnic/guard.h"
#include "rnic/objects.h"
#include "rnic/retired.h"
#include "rnic/shm_path.h"
#include "rnic/verbs.h"

#define KNOWN_ACCESS                                                                                        \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | \
     IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB | IBV_ACCESS_OPTIONAL_RANGE)

/* Can this word be read, or written? The kernel tries, so that it is an error and not a signal. */
static bool try_word(uintptr_t addr, bool write)
{
    uint32_t none = 0;
    const struct timespec no_time = {0};
    uint32_t *word = (uint32_t *)(addr & ~(uintptr_t)3);
    long r;
    if (write) /* adds 0, atomically */
        r = syscall(SYS_futex, &none, FUTEX_WAKE_OP_PRIVATE, 0, 0, word,
                    FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0));
    else
        r = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &no_time, NULL, 0);
    return r >= 0 || errno != EFAULT;
}

/* All of it mapped, and its ends open for what is asked. 0 or EFAULT. */
static int check_memory(const void *addr, size_t len, bool write)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), from = (uintptr_t)addr & ~(page - 1),
              to = fl_round_up((uintptr_t)addr + len, page);
    if (to <= from)
        return EFAULT;
    if (msync((void *)from, to - from, MS_ASYNC) < 0 && errno == ENOMEM) /* does nothing but look for holes */
        return EFAULT;
    if (!try_word((uintptr_t)addr, write) || !try_word((uintptr_t)addr + len - 1, write))
        return EFAULT;
    return 0;
}

static int check_access(unsigned int access)
{
    if (access & IBV_ACCESS_ON_DEMAND)
        return EOPNOTSUPP;
    if (access & ~(unsigned int)KNOWN_ACCESS)
        return EINVAL;
    /* 10.6.3.2: who may let peers write may write itself */
    if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) && !(access & IBV_ACCESS_LOCAL_WRITE))
        return EINVAL;
    return 0;
}

static int check(const void *addr, size_t len, uint64_t iova, unsigned int access)
{
    int r = check_access(access);
    if (r)
        return r;
    if (!len || iova + len < iova)
        return EINVAL;
    return check_memory(addr, len, access & IBV_ACCESS_LOCAL_WRITE);
}

static struct fl_key_entry entry_of(const struct fl_mr *mr, uint64_t iova)
{
    return (struct fl_key_entry){
        .kind = FL_KEY_MR,
        .key = mr->mr.lkey,
        .pd = fl_pd_of(mr->mr.pd)->number,
        .access = (uint32_t)mr->access,
        .addr = iova,
        .len = mr->mr.length,
        .ptr = (uint64_t)(uintptr_t)mr->mr.addr,
        .region = fl_shared_find(mr->mr.addr, mr->mr.length),
    };
}

static void unguard(struct fl_rnic *rnic, const struct fl_mr *mr)
{
    if (mr->guarded)
        fl_guard_del(rnic->guard, mr->mr.addr, mr->mr.length);
}

struct ibv_mr *fl_mr_reg_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned int access)
{
    struct fl_rnic *rnic = fl_context_of(pd->context)->rnic;
    struct fl_mr *mr = NULL;
    uint32_t key;
    if (access & IBV_ACCESS_ZERO_BASED)
        iova = 0;
    int r = fl_gone(pd->context) ? ENODEV : check(addr, len, iova, access);
    if (!r) {
        mr = calloc(1, sizeof(*mr));
        r = mr ? 0 : ENOMEM;
    }
    if (r) {
        errno = r;
        return NULL;
    }
    mr->access = (int)access;
    mr->mr = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = len};
    fl_try_init();
    mr->guarded = fl_guard_add(rnic->guard, addr, len); /* before the key opens it */
    fl_rnic_lock(rnic);
    r = fl_key_alloc(&rnic->keys, &mr->slot, &key);
    if (!r) {
        mr->mr.lkey = mr->mr.rkey = key;
        mr->mr.handle = mr->slot;
        struct fl_key_entry entry = entry_of(mr, iova);
        fl_key_set(&rnic->keys, mr->slot, &entry);
    }
    fl_rnic_unlock(rnic);
    if (r) {
        unguard(rnic, mr);
        free(mr);
        errno = -r;
        return NULL;
    }
    fl_count(&fl_pd_of(pd)->nr_objects, 1);
    return &mr->mr;
}

#define NS_PER_S          1000000000L
#define GUARD_PATIENCE_NS (NS_PER_S / 10)

static bool guard_begin(void *arg)
{
    struct fl_rnic *rnic = arg;
    struct timespec at;
    clock_gettime(CLOCK_REALTIME, &at);
    at.tv_nsec += GUARD_PATIENCE_NS;
    at.tv_sec += at.tv_nsec / NS_PER_S;
    at.tv_nsec %= NS_PER_S;
    return !pthread_mutex_timedlock(&rnic->lock, &at);
}

static void guard_end(void *arg)
{
    fl_rnic_unlock(arg);
}

/* Regions there are closed, with their windows; the objects stay. */
static void close_regions(void *arg, uintptr_t from, uintptr_t to)
{
    struct fl_rnic *rnic = arg;
    fl_key_close_range(&rnic->keys, from, to);
    FL_DEBUG("registered memory from %#llx to %#llx is gone: its keys are closed", (unsigned long long)from,
             (unsigned long long)to);
}

const struct fl_guard_ops fl_mr_guard_ops = {.begin = guard_begin, .gone = close_regions, .end = guard_end};

void fl_mr_close_missed(struct fl_rnic *rnic)
{
    uintptr_t at[FL_TRY_MISSED_MAX];
    int nr = fl_try_missed(at, FL_TRY_MISSED_MAX);
    for (int i = 0; i < nr; i++)
        close_regions(rnic, at[i], at[i] + 1);
}

struct ibv_mr *fl_mr_reg_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access)
{
    return fl_mr_reg_iova2(pd, addr, len, iova, (unsigned int)access);
}

struct ibv_mr *fl_mr_reg(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    return fl_mr_reg_iova2(pd, addr, len, (uintptr_t)addr, (unsigned int)access);
}

/* What the region would become; 0 or positive errno. */
static int plan_rereg(const struct fl_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len,
                      int access, struct fl_mr *to)
{
    *to = *mr;
    if (!flags || (flags & ~IBV_REREG_MR_FLAGS_SUPPORTED))
        return EINVAL;
    if (flags & IBV_REREG_MR_CHANGE_PD) {
        if (!pd || pd->context != mr->mr.context)
            return EINVAL;
        to->mr.pd = pd;
    }
    if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
        to->mr.addr = addr;
        to->mr.length = len;
    }
    if (flags & IBV_REREG_MR_CHANGE_ACCESS)
        to->access = access;
    return check(to->mr.addr, to->mr.length, (uintptr_t)to->mr.addr, (unsigned int)to->access);
}

int fl_mr_rereg(struct ibv_mr *ibv_mr, int flags, struct ibv_pd *pd, void *addr, size_t len, int access)
{
    struct fl_mr *mr = fl_mr_of(ibv_mr), to;
    struct fl_rnic *rnic = fl_context_of(ibv_mr->context)->rnic;
    int r = fl_gone(ibv_mr->context) ? ENODEV : plan_rereg(mr, flags, pd, addr, len, access, &to);
    if (r) {
        errno = r;
        return IBV_REREG_MR_ERR_INPUT;
    }
    to.guarded = fl_guard_add(rnic->guard, to.mr.addr, to.mr.length);
    struct fl_mr old = to;
    fl_rnic_lock(rnic);
    struct fl_key_entry *now = fl_key_at(&rnic->keys, mr->slot);
    bool gone = fl_gone(ibv_mr->context), busy = gone || now->nr_windows;
    if (!busy) {
        uint64_t iova = flags & IBV_REREG_MR_CHANGE_TRANSLATION ? (uintptr_t)addr : now->addr;
        struct fl_key_entry entry = entry_of(&to, iova);
        fl_shm_path_revoke(rnic, ibv_mr->lkey);
        fl_key_set(&rnic->keys, mr->slot, &entry);
        fl_shm_path_quiesce(rnic);
        fl_count(&fl_pd_of(ibv_mr->pd)->nr_objects, -1);
        old = *mr;
        *mr = to;
        fl_count(&fl_pd_of(ibv_mr->pd)->nr_objects, 1);
    }
    fl_rnic_unlock(rnic);
    unguard(rnic, &old); /* the old range, or the new one that it does not get */
    if (busy) {
        errno = gone ? ENODEV : EBUSY;
        return IBV_REREG_MR_ERR_INPUT;
    }
    return 0;
}

int fl_mr_dereg(struct ibv_mr *ibv_mr)
{
    struct fl_mr *mr = fl_mr_of(ibv_mr);
    struct ibv_context *context = ibv_mr->context;
    struct fl_rnic *rnic = fl_context_lock(&ibv_mr->context);
    if (!rnic)
        return ENODEV;
    bool busy = fl_key_at(&rnic->keys, mr->slot)->nr_windows;
    if (!busy) {
        ibv_mr->context = fl_retired_context(context);
        fl_key_free(&rnic->keys, mr->slot);
        fl_shm_path_quiesce(rnic);
    }
    fl_rnic_unlock(rnic);
    if (busy) /* 10.6.7.2.4: windows first */
        return EBUSY;
    unguard(rnic, mr);
    fl_count(&fl_pd_of(ibv_mr->pd)->nr_objects, -1);
    fl_retire(mr);
    return 0;
}
