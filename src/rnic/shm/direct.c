/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/shm/direct.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include <infiniband/verbs.h>

#include "base/clock.h"
#include "base/copy.h"
#include "base/copy_ahead.h"
#include "base/try.h"
#include "rnic/shm/message.h"

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

static _Thread_local struct iovec ahead; /* of the copy that this thread makes: it has no argument for it */

static void *copy_ahead(void *dst, const void *src, size_t len)
{
    return fl_copy_ahead(dst, src, len, ahead.iov_base, ahead.iov_len);
}

static bool write_mapped(uint8_t *to, const struct fl_shm_request *r)
{
    if (r->ahead.iov_len)
        ahead = r->ahead;
    for (int i = 0; i < r->nr_iov; i++) {
        bool last = i + 1 == r->nr_iov;
        if (!fl_try_copy_by(to, r->iov[i].iov_base, r->iov[i].iov_len,
                            last && r->ahead.iov_len ? copy_ahead : fl_copy_watched))
            return false;
        to += r->iov[i].iov_len;
    }
    return true;
}

static bool read_mapped(const uint8_t *from, const struct fl_shm_request *r)
{
    for (int i = 0; i < r->nr_iov; i++) {
        if (!fl_try_copy_by(r->iov[i].iov_base, from, r->iov[i].iov_len, memmove))
            return false;
        from += r->iov[i].iov_len;
    }
    return true;
}

struct atomic {
    const struct fl_shm_request *request;
    uint64_t *found;
};

static void *execute(void *at, const void *arg, size_t len)
{
    const struct atomic *a = arg;
    const struct fl_shm_request *r = a->request;
    uint64_t *word = at;
    (void)len;
    if (r->op == FL_SHM_ADD)
        *a->found = __atomic_fetch_add(word, r->operand, __ATOMIC_SEQ_CST);
    else
        __atomic_compare_exchange_n(word, a->found, r->operand, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return at;
}

static void *touch(void *at, const void *same, size_t len)
{
    (void)same;
    for (size_t i = 0; i < len; i++)
        __atomic_fetch_or((uint8_t *)at + i, 0, __ATOMIC_RELAXED);
    return at;
}

static bool is_atomic(const struct fl_shm_request *r)
{
    return r->op == FL_SHM_SWAP || r->op == FL_SHM_ADD;
}

static bool is_odd(const struct fl_shm_request *r, const uint8_t *at)
{
    return (uintptr_t)at % sizeof(uint64_t) || r->nr_iov != 1;
}

/* What is done once must not be done again by a packet: where the result has no place it is not begun. If
 * that place goes just now, the result is lost with it. */
static bool atomic_mapped(uint8_t *at, const struct fl_shm_request *r)
{
    uint64_t found = r->compare;
    const struct atomic a = {.request = r, .found = &found};
    void *result = r->iov[0].iov_base;
    if (!fl_try(result, result, sizeof(found), touch) || !fl_try(at, &a, sizeof(found), execute))
        return false;
    (void)!fl_try_copy(result, &found, sizeof(found));
    return true;
}

static bool copy_by_kernel(struct fl_shm_link *link, const struct fl_shm_request *r, uint64_t ptr)
{
    const struct iovec remote = {(void *)(uintptr_t)ptr, r->len};
    ssize_t n;
    if (link->vm_error || link->pid <= 0 || is_atomic(r))
        return false;
    n = r->op == FL_SHM_READ ? process_vm_readv(link->pid, r->iov, (unsigned long)r->nr_iov, &remote, 1, 0)
                             : process_vm_writev(link->pid, r->iov, (unsigned long)r->nr_iov, &remote, 1, 0);
    if (n < 0 && (errno == EPERM || errno == ENOSYS))
        link->vm_error = errno;
    return n == (ssize_t)r->len;
}

static enum fl_shm_how leave(struct fl_shm_request *r, enum fl_shm_why why)
{
    r->why = why;
    return FL_SHM_NOT;
}

static enum fl_shm_why why_not_by_kernel(const struct fl_shm_link *link, const struct fl_shm_request *r)
{
    return is_atomic(r) ? FL_SHM_ATOMIC : link->vm_error || link->pid <= 0 ? FL_SHM_FAR : FL_SHM_HOLE;
}

static enum fl_shm_how move(struct fl_shm_link *link, struct fl_shm_request *r, uint64_t ptr, uint8_t *at)
{
    if (!r->len)
        return FL_SHM_MAPPED;
    if (!at) {
        fl_fetch_ahead(r->ahead.iov_base, FL_MIN(r->ahead.iov_len, (size_t)FL_FETCH_LEN));
        return copy_by_kernel(link, r, ptr) ? FL_SHM_VM : leave(r, why_not_by_kernel(link, r));
    }
    if (is_atomic(r) && is_odd(r, at))
        return leave(r, FL_SHM_ODD);
    bool ok = r->op == FL_SHM_READ    ? read_mapped(at, r)
              : r->op == FL_SHM_WRITE ? write_mapped(at, r)
                                      : atomic_mapped(at, r);
    return ok ? FL_SHM_MAPPED : leave(r, FL_SHM_HOLE);
}

/* May it be done although the peer may not have taken the messages that were sent before it? 10.8.3.3 keeps
 * the order of what each does to memory. Whether it has is asked last: that costs a cache line of the peer's.
 */
static bool may_pass(const struct fl_shm_request *r, uint64_t ptr)
{
    struct fl_shm_flow *flow = r->behind;
    if (!flow || !r->len || flow->taken == flow->sent)
        return true;
    if (r->op == FL_SHM_WRITE && (ptr >= flow->hi || ptr + r->len <= flow->lo))
        return true;
    return fl_shm_message_all_taken(flow);
}

/* All that the key opens, where all of it is mapped. */
static void keep(const struct fl_shm_link *link, const struct fl_shm_request *r,
                 const struct fl_key_place *place)
{
    struct fl_key_place all = *place;
    all.ptr -= r->addr - place->all_addr;
    *r->open = (struct fl_shm_open){.at = mapped(link, &all, place->all_len),
                                    .op = r->op,
                                    .rkey = r->rkey,
                                    .addr = place->all_addr,
                                    .len = place->all_len,
                                    .ptr = all.ptr};
}

static bool is_known(const struct fl_shm_open *open, const struct fl_shm_request *r)
{
    return open && open->at && open->op == r->op && open->rkey == r->rkey && r->addr >= open->addr &&
           fl_range_fits(r->addr - open->addr, r->len, open->len);
}

enum fl_shm_how fl_shm_direct(struct fl_shm_link *link, struct fl_shm_request *request)
{
    struct fl_shm_open *open = request->open;
    struct fl_key_place place;
    if (fl_likely(is_known(open, request))) {
        uint64_t off = request->addr - open->addr;
        return may_pass(request, open->ptr + off) ? move(link, request, open->ptr + off, open->at + off)
                                                  : leave(request, FL_SHM_BEHIND);
    }
    if (check(link, request, &place))
        return leave(request, FL_SHM_NOT_OPEN);
    if (open && request->len)
        keep(link, request, &place);
    if (!may_pass(request, place.ptr))
        return leave(request, FL_SHM_BEHIND);
    return move(link, request, place.ptr, mapped(link, &place, request->len));
}
