/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/hub/ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/try.h"
#include "base/util.h"

#define MASK  (FL_HUB_RING_LEN - 1)
#define SKIP  UINT32_MAX /* instead of a length: the rest up to the end of the ring is unused */
#define ALIGN 8u         /* so that a length never wraps */
#define LINE  FL_CACHE_LINE

/* Until its reader says so, nobody knows that it is awake: a thread that sleeps when another one of its
 * process makes a ring would not be told of what comes first. */
static const uint32_t sleeps_at_first = 1;

int fl_hub_ring_create(void)
{
    int fd = memfd_create("farlane-hub-ring", MFD_CLOEXEC | MFD_ALLOW_SEALING), rc;
    if (fd < 0)
        return -errno;
    if (ftruncate(fd, sizeof(struct fl_hub_ring_shared)) < 0 ||
        pwrite(fd, &sleeps_at_first, sizeof(sleeps_at_first), offsetof(struct fl_hub_ring_shared, sleeps)) <
            0 ||
        fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
        rc = -errno;
        close(fd);
        return rc;
    }
    return fd;
}

int fl_hub_ring_map(struct fl_hub_ring *ring, int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);
    void *p;
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || fstat(fd, &st) < 0 || st.st_size != sizeof(*ring->shared))
        return -EINVAL;
    p = mmap(NULL, sizeof(*ring->shared), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return -errno;
    *ring = (struct fl_hub_ring){.shared = p};
    return 0;
}

int fl_hub_ring_map_by_record(struct fl_hub_ring *ring, int fd)
{
    int rc = fl_hub_ring_map(ring, fd);
    ring->by_record = true;
    return rc;
}

void fl_hub_ring_unmap(struct fl_hub_ring *ring)
{
    if (ring->shared)
        munmap(ring->shared, sizeof(*ring->shared));
    ring->shared = NULL;
}

static bool has_room(struct fl_hub_ring *ring, uint64_t need)
{
    uint64_t used = ring->at - ring->other;
    if (used <= FL_HUB_RING_LEN && FL_HUB_RING_LEN - used >= need)
        return true;
    /* Acquire: the reader is done with the bytes that it gives back. */
    ring->other = __atomic_load_n(&ring->shared->tail, __ATOMIC_ACQUIRE);
    used = ring->at - ring->other; /* nonsense is a huge number or too much room in our own ring: harmless */
    return used <= FL_HUB_RING_LEN && FL_HUB_RING_LEN - used >= need;
}

static uint32_t *word_at(const struct fl_hub_ring *ring, uint64_t at)
{
    return (uint32_t *)(ring->shared->bytes + (at & MASK));
}

static uint64_t need_of(const struct fl_hub_ring *ring, uint64_t len)
{
    return fl_round_up(sizeof(uint32_t) + len, ring->by_record ? LINE : ALIGN);
}

/* Room for so many bytes in one piece; with by_record also for the 0 behind them. */
static bool has_room_for(struct fl_hub_ring *ring, uint64_t need)
{
    uint64_t to_end = FL_HUB_RING_LEN - (ring->at & MASK);
    return has_room(ring, (need > to_end ? need + to_end : need) + (ring->by_record ? LINE : 0));
}

bool fl_hub_ring_has_room(struct fl_hub_ring *ring, size_t len)
{
    return has_room_for(ring, need_of(ring, len));
}

static void put_word(struct fl_hub_ring *ring, uint32_t word)
{
    if (ring->by_record && ring->first == ring->at)
        ring->first_len = word; /* the 0 stays until the commit */
    else
        __atomic_store_n(word_at(ring, ring->at), word, __ATOMIC_RELAXED);
}

uint8_t *fl_hub_ring_reserve(struct fl_hub_ring *ring, uint32_t len, uint32_t kind)
{
    uint64_t need = need_of(ring, len), to_end = FL_HUB_RING_LEN - (ring->at & MASK);
    uint8_t *p;
    if (!has_room_for(ring, need))
        return NULL;
    if (need > to_end) {
        put_word(ring, SKIP);
        ring->at += to_end;
    }
    put_word(ring, len | kind);
    p = ring->shared->bytes + (ring->at & MASK);
    ring->at += need;
    return p + sizeof(len);
}

static void publish(struct fl_hub_ring *ring)
{
    if (ring->first == ring->at)
        return;
    __atomic_store_n(word_at(ring, ring->at), 0, __ATOMIC_RELAXED);
    __atomic_store_n(word_at(ring, ring->first), ring->first_len, __ATOMIC_SEQ_CST);
    ring->first = ring->at;
    /* The line of the next 0: by the next time it is ours. */
    __builtin_prefetch(word_at(ring, ring->at + 2 * (uint64_t)LINE), 1);
}

bool fl_hub_ring_commit(struct fl_hub_ring *ring)
{
    struct fl_hub_ring_shared *s = ring->shared;
    /* Sequentially consistent, as are the reader's: either it sees this, or we see that it sleeps. */
    if (ring->by_record)
        publish(ring);
    else
        __atomic_store_n(&s->head, ring->at, __ATOMIC_SEQ_CST);
    return __atomic_load_n(&s->sleeps, __ATOMIC_SEQ_CST) &&
           __atomic_exchange_n(&s->sleeps, 0, __ATOMIC_SEQ_CST) != 0;
}

bool fl_hub_ring_write(struct fl_hub_ring *ring, const struct iovec *iov, int nr_iov, bool *wake)
{
    const uint64_t before = ring->at;
    uint32_t len = 0;
    uint8_t *p;
    *wake = false;
    for (int i = 0; i < nr_iov; i++)
        len += (uint32_t)iov[i].iov_len;
    p = fl_hub_ring_reserve(ring, len, 0);
    if (!p)
        return false;
    for (int i = 0; i < nr_iov; i++) {
        if (!fl_try_copy(p, iov[i].iov_base, iov[i].iov_len)) {
            ring->at = before;
            return true;
        }
        p += iov[i].iov_len;
    }
    *wake = fl_hub_ring_commit(ring);
    return true;
}

/* 1: there is something behind our position. */
static int has_record(struct fl_hub_ring *ring)
{
    struct fl_hub_ring_shared *s = ring->shared;
    uint64_t ahead;
    if (ring->by_record)
        return __atomic_load_n(word_at(ring, ring->at), __ATOMIC_ACQUIRE) != 0;
    if (ring->other == ring->at) {
        ring->other = __atomic_load_n(&s->head, __ATOMIC_ACQUIRE);
        if (ring->other == ring->at)
            return 0;
    }
    ahead = ring->other - ring->at;
    return ahead > FL_HUB_RING_LEN || ahead % ALIGN ? -EPROTO : ahead != 0;
}

bool fl_hub_ring_has(struct fl_hub_ring *ring)
{
    return has_record(ring) > 0;
}

bool fl_hub_ring_sleep(struct fl_hub_ring *ring)
{
    struct fl_hub_ring_shared *s = ring->shared;
    if (!__atomic_load_n(&s->sleeps, __ATOMIC_RELAXED))
        __atomic_store_n(&s->sleeps, 1, __ATOMIC_SEQ_CST);
    if (ring->by_record)
        return !__atomic_load_n(word_at(ring, ring->at), __ATOMIC_SEQ_CST);
    return __atomic_load_n(&s->head, __ATOMIC_SEQ_CST) == ring->at;
}

/* How much the writer may have written from our position on, as far as that can be known. */
static uint64_t ahead_of(const struct fl_hub_ring *ring)
{
    return ring->by_record ? FL_HUB_RING_LEN : ring->other - ring->at;
}

int fl_hub_ring_peek(struct fl_hub_ring *ring, const uint8_t **at, uint32_t *kind)
{
    for (;;) {
        uint64_t to_end = FL_HUB_RING_LEN - (ring->at & MASK), need;
        uint32_t len;
        int rc = has_record(ring);
        if (rc <= 0)
            return rc;
        len = __atomic_load_n(word_at(ring, ring->at), __ATOMIC_RELAXED);
        if (len == SKIP) {
            if (to_end > ahead_of(ring) || to_end == FL_HUB_RING_LEN)
                return -EPROTO;
            ring->at += to_end;
            continue;
        }
        *kind = len & FL_HUB_RING_MESSAGE;
        len &= ~FL_HUB_RING_MESSAGE;
        need = need_of(ring, len);
        if (!len || need > to_end || need > ahead_of(ring))
            return -EPROTO;
        *at = ring->shared->bytes + (ring->at & MASK) + sizeof(len);
        ring->peeked = (uint32_t)need;
        return (int)len;
    }
}

void fl_hub_ring_consume(struct fl_hub_ring *ring)
{
    ring->at += ring->peeked;
    /* Release: we are done with these bytes. */
    __atomic_store_n(&ring->shared->tail, ring->at, __ATOMIC_RELEASE);
}

int fl_hub_ring_read(struct fl_hub_ring *ring, void *buf, size_t max)
{
    const uint8_t *at;
    uint32_t kind;
    int len = fl_hub_ring_peek(ring, &at, &kind);
    if (len <= 0)
        return len;
    if (kind || (size_t)len > max)
        return -EPROTO;
    memcpy(buf, at, (size_t)len);
    fl_hub_ring_consume(ring);
    return len;
}
