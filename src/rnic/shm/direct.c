/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/shm/direct.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/clock.h"
#include "base/copy.h"

bool fl_shm_direct_begin(struct fl_shm_link *link, uint64_t now)
{
    if (!link->up || !fl_shm_link_is_alive(link, now))
        return false;
    /* The peer sees the odd number before we look at what it may close: fl_shm_link_quiesce(). */
    uint64_t *busy = &link->out.shared->busy;
    __atomic_exchange_n(busy, *busy | 1, __ATOMIC_SEQ_CST);
    return true;
}

void fl_shm_direct_end(struct fl_shm_link *link)
{
    uint64_t *busy = &link->out.shared->busy;
    __atomic_store_n(busy, (*busy | 1) + 1, __ATOMIC_RELEASE);
}

void fl_shm_link_quiesce(struct fl_shm_link *link)
{
    const uint64_t *busy;
    uint64_t seen, looked_at = 0;
    if (!link->up || link->fd < 0) /* to ourselves: under one lock */
        return;
    busy = &link->in.shared->busy;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    seen = __atomic_load_n(busy, __ATOMIC_SEQ_CST);
    while ((seen & 1) && __atomic_load_n(busy, __ATOMIC_ACQUIRE) == seen) {
        uint64_t now = fl_now_ns();
        if (now - looked_at > FL_NS_PER_MS && !fl_shm_link_is_alive(link, now))
            return;
        looked_at = now;
        sched_yield();
    }
}

static int right_of(enum fl_shm_op op)
{
    return op == FL_SHM_READ    ? IBV_ACCESS_REMOTE_READ
           : op == FL_SHM_WRITE ? IBV_ACCESS_REMOTE_WRITE
                                : IBV_ACCESS_REMOTE_ATOMIC;
}

/* As the peer would decide: 0 and where it is. Nothing is said when it would refuse: the request then goes
 * to it as a packet, and it refuses. */
static int check(const struct fl_shm_link *link, const struct fl_shm_request *r, struct fl_key_place *place)
{
    struct fl_shm_qp qp;
    int right = right_of(r->op);
    if (!fl_shm_find(link->peer, r->dest_qpn, &qp) || !qp.takes || qp.dest_qpn != r->qpn ||
        !(qp.access & (uint32_t)right))
        return -EACCES;
    const struct fl_key_ask ask = {.key = r->rkey,
                                   .pd = qp.pd,
                                   .qpn = r->dest_qpn,
                                   .access = right,
                                   .remote = true,
                                   .addr = r->addr,
                                   .len = r->len,
                                   .memo = r->memo};
    *place = (struct fl_key_place){0};
    return r->len ? fl_key_find(link->keys, &ask, place) : 0; /* 9.7.4: no key is needed for nothing */
}

/* In our own address space; NULL: it is not. */
static uint8_t *mapped(const struct fl_shm_link *link, const struct fl_key_place *place, uint64_t len)
{
    if (link->fd < 0)
        return (uint8_t *)(uintptr_t)place->ptr;
    for (int i = 0; place->region && i < FL_SHARED_MAX; i++) {
        const struct fl_shm_region *r = &link->regions[i];
        if (r->id == place->region && place->ptr >= r->base &&
            fl_range_fits(place->ptr - r->base, len, r->len))
            return r->at + (place->ptr - r->base);
    }
    return NULL;
}

static void write_mapped(uint8_t *to, const struct fl_shm_request *r)
{
    for (int i = 0; i < r->nr_iov; i++) {
        fl_copy_watched(to, r->iov[i].iov_base, r->iov[i].iov_len);
        to += r->iov[i].iov_len;
    }
}

static void read_mapped(const uint8_t *from, const struct fl_shm_request *r)
{
    for (int i = 0; i < r->nr_iov; i++) {
        memmove(r->iov[i].iov_base, from, r->iov[i].iov_len);
        from += r->iov[i].iov_len;
    }
}

static bool atomic_mapped(uint8_t *at, const struct fl_shm_request *r)
{
    uint64_t original = r->compare, *word = (uint64_t *)at;
    if ((uintptr_t)at % sizeof(*word) || r->nr_iov != 1)
        return false;
    if (r->op == FL_SHM_ADD)
        original = __atomic_fetch_add(word, r->operand, __ATOMIC_SEQ_CST);
    else
        __atomic_compare_exchange_n(word, &original, r->operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    memcpy(r->iov[0].iov_base, &original, sizeof(original));
    return true;
}

static bool copy_by_kernel(struct fl_shm_link *link, const struct fl_shm_request *r, uint64_t ptr)
{
    const struct iovec remote = {(void *)(uintptr_t)ptr, r->len};
    ssize_t n;
    if (link->vm_error || link->pid <= 0 || (r->op != FL_SHM_READ && r->op != FL_SHM_WRITE))
        return false;
    n = r->op == FL_SHM_READ ? process_vm_readv(link->pid, r->iov, (unsigned long)r->nr_iov, &remote, 1, 0)
                             : process_vm_writev(link->pid, r->iov, (unsigned long)r->nr_iov, &remote, 1, 0);
    if (n < 0 && (errno == EPERM || errno == ENOSYS))
        link->vm_error = errno;
    return n == (ssize_t)r->len;
}

static enum fl_shm_how move(struct fl_shm_link *link, const struct fl_shm_request *r,
                            const struct fl_key_place *place)
{
    if (!r->len)
        return FL_SHM_MAPPED;
    uint8_t *at = mapped(link, place, r->len);
    if (!at)
        return copy_by_kernel(link, r, place->ptr) ? FL_SHM_VM : FL_SHM_NOT;
    if (r->op == FL_SHM_READ)
        read_mapped(at, r);
    else if (r->op == FL_SHM_WRITE)
        write_mapped(at, r);
    else if (!atomic_mapped(at, r))
        return FL_SHM_NOT;
    return FL_SHM_MAPPED;
}

/* May it be done before the peer has taken the messages that were sent before it? 10.8.3.3 keeps the order of
 * what each does to memory. */
static bool may_pass(const struct fl_shm_request *r, const struct fl_key_place *place)
{
    if (!r->behind || !r->len)
        return true;
    return r->op == FL_SHM_WRITE && (place->ptr >= r->hi || place->ptr + r->len <= r->lo);
}

enum fl_shm_how fl_shm_direct(struct fl_shm_link *link, const struct fl_shm_request *request)
{
    struct fl_key_place place;
    if (check(link, request, &place) || !may_pass(request, &place))
        return FL_SHM_NOT;
    return move(link, request, &place);
}
