/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/shm/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

int fl_shm_file_create(struct fl_shm_file **file, int *fd)
{
    int rc = 0;
    void *p;
    *fd = memfd_create("farlane-shm", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (*fd < 0)
        return -errno;
    if (ftruncate(*fd, sizeof(**file)) < 0 ||
        fcntl(*fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0)
        rc = -errno;
    p = rc ? MAP_FAILED : mmap(NULL, sizeof(**file), PROT_READ | PROT_WRITE, MAP_SHARED, *fd, 0);
    if (p == MAP_FAILED) {
        rc = rc ? rc : -errno;
        close(*fd);
        return rc;
    }
    *file = p;
    (*file)->version = FL_SHM_VERSION;
    return 0;
}

void *fl_shm_map_sealed(int fd, uint64_t len, int prot)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || !len || len != (uint64_t)st.st_size)
        return NULL;
    void *p = mmap(NULL, len, prot, MAP_SHARED | MAP_NORESERVE, fd, 0);
    return p == MAP_FAILED ? NULL : p;
}

int fl_shm_reopen_read_only(int fd)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

int fl_shm_file_map(int fd, const struct fl_shm_file **file)
{
    struct fl_shm_file *p = fl_shm_map_sealed(fd, sizeof(*p), PROT_READ);
    if (!p)
        return -EPROTO;
    if (p->version != FL_SHM_VERSION) {
        munmap(p, sizeof(*p));
        return -EPROTO;
    }
    *file = p;
    return 0;
}

void fl_shm_file_unmap(const struct fl_shm_file *file)
{
    if (file)
        munmap((void *)file, sizeof(*file));
}

/* 1 more than its place; 0: none */
static uint32_t place_of(const struct fl_shm_file *file, uint32_t qpn)
{
    uint32_t index = __atomic_load_n(&file->blocks[(qpn & FL_IB_QPN_MASK) >> FL_HUB_BLOCK_BITS],
                                     __ATOMIC_ACQUIRE);
    if (!index || index > FL_HUB_SLOT_BLOCKS)
        return 0;
    return ((index - 1) << FL_HUB_BLOCK_BITS | (qpn & (FL_HUB_BLOCK_LEN - 1))) + 1;
}

struct fl_shm_grant *fl_shm_grant_of(const struct fl_shm_file *file, uint32_t qpn)
{
    uint32_t place = place_of(file, qpn);
    return place ? (struct fl_shm_grant *)&file->grants[place - 1] : NULL;
}

bool fl_shm_publish(struct fl_shm_file *file, const struct fl_shm_qp *to)
{
    uint32_t block = to->qpn >> FL_HUB_BLOCK_BITS, index = file->blocks[block];
    if (!index) {
        if (file->nr_blocks == FL_HUB_SLOT_BLOCKS)
            return false;
        index = ++file->nr_blocks;
        __atomic_store_n(&file->blocks[block], (uint16_t)index, __ATOMIC_RELEASE);
    }
    struct fl_shm_qp *qp = &file->qps[(index - 1) << FL_HUB_BLOCK_BITS | (to->qpn & (FL_HUB_BLOCK_LEN - 1))];
    uint32_t seq = qp->seq;
    __atomic_store_n(&qp->seq, seq + 1, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    qp->takes = to->takes;
    qp->dest_qpn = to->dest_qpn;
    qp->access = to->access;
    qp->pd = to->pd;
    qp->epoch = to->epoch;
    qp->psn = to->psn;
    qp->qpn = to->qpn;
    /* Whoever closes something and then waits for those who use it (fl_shm_quiesce) relies on the order. */
    __atomic_store_n(&qp->seq, seq + 2, __ATOMIC_SEQ_CST);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return true;
}

bool fl_shm_find(const struct fl_shm_file *file, uint32_t qpn, struct fl_shm_qp *qp)
{
    uint32_t place = place_of(file, qpn);
    if (!place)
        return false;
    const struct fl_shm_qp *from = &file->qps[place - 1];
    uint32_t seq = __atomic_load_n(&from->seq, __ATOMIC_ACQUIRE);
    *qp = *from;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return !(seq & 1) && __atomic_load_n(&from->seq, __ATOMIC_RELAXED) == seq && qp->qpn == qpn;
}
