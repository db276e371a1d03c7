/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory as a namespace. One range of addresses is reserved with room to grow, so that the address of a byte
 * never changes and what is below backend->len may be sent straight from where it lies. Memory that once was
 * part of the namespace stays mapped and readable until close: a sendmsg in flight may still hold its address
 * after a trim or a shrink, and then sends zeroes.
 */
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "backend/digests.h"
#include "backend/internal.h"
#include "backend/marks.h"
#include "base/copy.h"
#include "base/log.h"
#include "base/size.h"
#include "mem/range.h"

#define MIN_ROOM     (UINT64_C(64) << 30)
#define MAX_ROOM     (UINT64_C(32) << 40) /* x86-64 gives a process 128 TiB of addresses */
#define ROOM_FACTOR  4
#define COLD_MIN_LEN (UINT64_C(32) << 20)
#define HUGE_LEN     (UINT64_C(2) << 20)
#define HUGE_MIN_LEN (UINT64_C(16) << 20)  /* smaller ones gain nothing */
#define COPY_LEN     (UINT64_C(128) << 10) /* others wait so long at most */
#define SPINS        1000                  /* then another thread may have the CPU */

struct ram {
    struct fl_backend base;
    uint8_t *mem;
    uint64_t room;   /* reserved addresses */
    uint64_t mapped; /* readable and writable; never shrinks */
    uint64_t page_len;
    bool huge;
    uint8_t *taken; /* huge pages that were written, NULL: pages are small. Atomic, and no more than a hint */
    bool cold;      /* so large that a block is not in the CPU's caches when its turn comes */
    pthread_mutex_t resize_lock; /* mapped, and one resize at a time */
    pthread_t filler;
    bool filling, stop_filling; /* the latter atomic */
    struct fl_marks marks;
    struct fl_digests digests;
};

/* A bio's own part (bio->priv). */
struct progress {
    uint64_t pos;
    bool wants; /* has said so of the stripe at pos */
};
_Static_assert(sizeof(struct progress) <= sizeof(((struct fl_bio *)0)->priv), "it must fit into a bio");

static struct ram *ram_of(struct fl_backend *backend)
{
    return FL_CONTAINER_OF(backend, struct ram, base);
}

/* Huge pages save TLB misses, but a namespace larger than the memory is meant to stay thin. */
static bool want_huge(const struct fl_url *url, uint64_t len)
{
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);

    if (url->huge != FL_URL_AUTO)
        return url->huge == FL_URL_ON;
    return len >= HUGE_MIN_LEN && len <= memory / 4 * 3;
}

/* Whoever may not wait (write_now, which may be called with the RNIC's lock) writes only to huge pages that
 * are there, as far as is known here: one that is swapped out is not noticed. */
static uint64_t huge_page_of(const struct ram *ram, uint64_t off)
{
    return ((uintptr_t)ram->mem % HUGE_LEN + off) / HUGE_LEN;
}

static void note_taken(const struct ram *ram, uint64_t off, uint64_t len, bool taken)
{
    if (!ram->taken)
        return;
    for (uint64_t i = huge_page_of(ram, off); i <= huge_page_of(ram, off + len - 1); i++)
        if (__atomic_load_n(&ram->taken[i], __ATOMIC_RELAXED) != taken)
            __atomic_store_n(&ram->taken[i], taken, __ATOMIC_RELAXED);
}

static bool is_taken(const struct ram *ram, uint64_t off, uint64_t len)
{
    for (uint64_t i = huge_page_of(ram, off); ram->taken && i <= huge_page_of(ram, off + len - 1); i++)
        if (!__atomic_load_n(&ram->taken[i], __ATOMIC_RELAXED))
            return false;
    return true;
}

/*
 * The first write to a huge page waits until the kernel has cleared 2 MiB: 0.3 ms, and 5 ms in a virtual
 * machine whose hypervisor has to find the memory first. Whoever asks for huge pages by name has them taken
 * at the start, by a thread beside; by default they are taken as they are written, so that a namespace stays
 * thin.
 */
static void *fill(void *arg)
{
    struct ram *ram = arg;

    setpriority(PRIO_PROCESS, (id_t)gettid(), 19); /* of this thread */
    /* The length is looked at each time: it may be changed meanwhile. */
    for (uint64_t at = 0;
         at < fl_backend_len(&ram->base) && !__atomic_load_n(&ram->stop_filling, __ATOMIC_RELAXED);
         at += HUGE_LEN) {
        uint64_t len = FL_MIN(HUGE_LEN, ram->room - at);

        if (madvise(ram->mem + at, len, MADV_POPULATE_WRITE) < 0 && errno != EINTR) {
            if (errno != EINVAL) /* before Linux 5.14 */
                FL_WARN("%s: memory for the first %" PRIu64 " MiB only could be taken at the start: %s",
                        ram->base.spec, at >> 20, strerror(errno));
            break;
        }
        note_taken(ram, at, len, true);
    }
    return NULL;
}

static void start_filling(struct ram *ram)
{
    sigset_t all, old;

    sigfillset(&all); /* signals are the program's */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    ram->filling = pthread_create(&ram->filler, NULL, fill, ram) ==
                   0; /* without it, pages are taken as they are written */
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Makes [0, len) usable. Memory beyond the old length holds zeroes: never touched, or released by the shrink.
 */
static int map_more(struct ram *ram, uint64_t len)
{
    uint64_t end = FL_MIN(fl_round_up(len, HUGE_LEN), ram->room);

    if (end <= ram->mapped)
        return 0;
    if (mprotect(ram->mem + ram->mapped, end - ram->mapped, PROT_READ | PROT_WRITE) < 0)
        return -errno;
    if (ram->huge)
        madvise(ram->mem, end, MADV_HUGEPAGE); /* advice: without it all works the same */
    ram->mapped = end;
    (void)fl_mem_range_add(ram->mem, end); /* else its parts are registered one by one */
    return 0;
}

static int reserve(struct ram *ram, uint64_t len)
{
    uint64_t room = FL_MIN(FL_MAX(MIN_ROOM, fl_round_up(len, HUGE_LEN) * ROOM_FACTOR), MAX_ROOM);

    /* RLIMIT_AS may grant less room to grow. */
    for (;; room /= 2) {
        room = FL_MAX(room, fl_round_up(len, HUGE_LEN));
        ram->mem = mmap(NULL, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (ram->mem != MAP_FAILED)
            break;
        if (room <= fl_round_up(len, HUGE_LEN))
            return -errno;
    }
    ram->room = room;
    madvise(ram->mem, room, MADV_DONTDUMP);
    if (ram->huge) /* without it, writes go as if pages were small */
        ram->taken = calloc(room / HUGE_LEN + 2, 1);
    return 0;
}

static int open_ram(const struct fl_url *url, struct fl_backend **out, struct fl_error *err)
{
    struct ram *ram = calloc(1, sizeof(*ram));
    char size[FL_SIZE_TEXT_LEN];
    int rc;

    if (!ram)
        return fl_error_set(err, -ENOMEM, "ram: out of memory");
    fl_backend_init(&ram->base, &fl_ram_backend_ops, url);
    rc = fl_backend_check_size(url, ram->base.block_len, url->size, MAX_ROOM, err);
    if (rc)
        goto free_ram;
    ram->page_len = (uint64_t)sysconf(_SC_PAGESIZE);
    ram->huge = want_huge(url, url->size);
    ram->cold = url->size >= COLD_MIN_LEN;
    rc = reserve(ram, url->size);
    if (!rc)
        rc = map_more(ram, url->size);
    if (rc) {
        fl_error_set(err, rc,
                     "ram: the kernel does not grant %s (%s); see ulimit -v and vm.overcommit_memory",
                     fl_size_format(url->size, size), strerror(-rc));
        goto unmap;
    }
    if (!ram->huge && url->huge == FL_URL_AUTO && url->size >= HUGE_MIN_LEN)
        FL_WARN("ram: %s is most of this machine's memory or more; pages are taken as they are written, and "
                "writing "
                "them all will run the machine out of memory",
                fl_size_format(url->size, size));
    pthread_mutex_init(&ram->resize_lock, NULL);
    fl_digests_init(&ram->digests, ram->room);
    ram->base.mem = ram->mem;
    ram->base.marks = &ram->marks;
    ram->base.sync = true;
    ram->base.trims = true;
    ram->base.len = url->size;
    if (url->huge == FL_URL_ON)
        start_filling(ram);
    *out = &ram->base;
    return 0;

unmap:
    if (ram->room) {
        fl_mem_range_remove(ram->mem, ram->room);
        munmap(ram->mem, ram->room);
    }
free_ram:
    free(ram->taken);
    free(ram);
    return rc;
}

static void close_ram(struct fl_backend *backend)
{
    struct ram *ram = ram_of(backend);

    __atomic_store_n(&ram->stop_filling, true, __ATOMIC_RELAXED);
    if (ram->filling)
        pthread_join(ram->filler, NULL);
    fl_digests_fini(&ram->digests);
    fl_mem_range_remove(ram->mem, ram->room);
    munmap(ram->mem, ram->room);
    pthread_mutex_destroy(&ram->resize_lock);
    free(ram->taken);
    free(ram);
}

/* Whole pages go back to the kernel where they can, the edges are written. Small ranges are cheaper to write
 * than to fault in again. */
static void zero(struct ram *ram, uint64_t off, uint64_t len)
{
    uint64_t from = fl_round_up(off, ram->page_len), to = (off + len) & ~(ram->page_len - 1);

    if (from >= to || to - from < 16 * ram->page_len) {
        memset(ram->mem + off, 0, len);
        return;
    }
    memset(ram->mem + off, 0, from - off);
    memset(ram->mem + to, 0, off + len - to);
    if (fl_mem_give_back(ram->mem + from, to - from) < 0) /* hardware, or mlockall, holds the pages */
        memset(ram->mem + from, 0, to - from);
    else
        note_taken(ram, from, to - from, false);
}

static void copy_in(const struct ram *ram, uint8_t *at, const void *data, uint64_t len)
{
    if (ram->cold)
        fl_copy_past_caches(at, data, len);
    else
        memcpy(at, data, len);
}

static void copy(const struct ram *ram, const struct fl_bio *bio, uint64_t pos, uint64_t len)
{
    uint8_t *at = ram->mem + bio->off + pos;

    for (const struct iovec *v = bio->iov; len; v++) {
        uint8_t *theirs = v->iov_base;
        uint64_t n;

        if (pos >= v->iov_len) {
            pos -= v->iov_len;
            continue;
        }
        n = FL_MIN(v->iov_len - pos, len);
        theirs += pos;
        pos = 0;
        if (bio->op == FL_BIO_READ)
            memcpy(theirs, at, n);
        else
            copy_in(ram, at, theirs, n);
        at += n;
        len -= n;
    }
}

/*
 * Marks for a writer what can be had of [off, off + len) and drops its digests: the only way to change what
 * hosts may read. fl_marks_write_end() ends it.
 */
static inline uint64_t start_change(struct ram *ram, uint64_t off, uint64_t len)
{
    uint64_t n = fl_marks_write(&ram->marks, off, len);

    if (fl_likely(n))
        fl_digests_drop(&ram->digests, off, n);
    return n;
}

/* Does as much from pos on as nobody else is at. 0: nothing. */
static uint64_t do_some(struct ram *ram, const struct fl_bio *bio, uint64_t pos)
{
    uint64_t off = bio->off + pos, len = FL_MIN(bio->len - pos, COPY_LEN);

    if (bio->op == FL_BIO_READ) {
        len = fl_marks_read_some(&ram->marks, off, len);
        if (!len)
            return 0;
        copy(ram, bio, pos, len);
        fl_marks_read_end(&ram->marks, off, len);
        return len;
    }
    if (bio->op != FL_BIO_WRITE)
        len = FL_MIN(bio->len - pos, FL_MARKS_MAX_LEN);
    len = start_change(ram, off, len);
    if (!len)
        return 0;
    if (bio->op == FL_BIO_WRITE) {
        copy(ram, bio, pos, len);
        note_taken(ram, off, len, true);
    } else {
        zero(ram, off, len);
    }
    fl_marks_write_end(&ram->marks, off, len);
    return len;
}

static bool write_now(struct fl_backend *backend, uint64_t off, const void *data, uint64_t len)
{
    struct ram *ram = ram_of(backend);
    uint64_t had;

    if (backend->read_only || !len || !fl_range_fits(off, len, fl_backend_len(backend)) ||
        !is_taken(ram, off, len))
        return false;
    had = start_change(ram, off, len);
    if (had == len)
        copy_in(ram, ram->mem + off, data, len);
    if (had)
        fl_marks_write_end(&ram->marks, off, had);
    return had == len;
}

static uint32_t digest(struct fl_backend *backend, uint64_t off, uint64_t len)
{
    struct ram *ram = ram_of(backend);

    return fl_digests_of(&ram->digests, ram->mem, off, len);
}

static void resume(struct fl_chan *chan, struct fl_bio *bio)
{
    struct progress *p = (struct progress *)bio->priv;
    struct ram *ram = ram_of(chan->backend);
    uint32_t nr_spins = 0;

    while (p->pos < bio->len) {
        uint64_t n = do_some(ram, bio, p->pos);

        if (fl_likely(n)) {
            if (fl_unlikely(p->wants))
                fl_marks_want_end(&ram->marks, bio->off + p->pos);
            p->wants = false;
            p->pos += n;
            continue;
        }
        if (!p->wants && bio->op != FL_BIO_READ)
            p->wants = fl_marks_want(&ram->marks, bio->off + p->pos);
        if (bio->again) {
            bio->again(bio, bio->off + p->pos);
            return;
        }
        if (++nr_spins % SPINS == 0)
            sched_yield();
    }
    bio->done(bio, 0);
}

static void submit(struct fl_chan *chan, struct fl_bio *bio)
{
    int rc = fl_bio_check(chan->backend, bio);

    if (fl_unlikely(rc || bio->op == FL_BIO_FLUSH)) {
        bio->done(bio, rc);
        return;
    }
    *(struct progress *)bio->priv = (struct progress){0};
    resume(chan, bio);
}

/* What hosts cannot reach any more goes back to the kernel, but for what is still on its way to one: that may
 * hold its address, and its digest is made. It stays until the namespace grows again. */
static void release(struct ram *ram, uint64_t off, uint64_t len)
{
    while (len) {
        uint64_t most = FL_MIN(len, FL_MARKS_MAX_LEN), n = start_change(ram, off, most);

        if (n) {
            zero(ram, off, n);
            fl_marks_write_end(&ram->marks, off, n);
        } else {
            n = FL_MIN(len, FL_MARKS_STRIPE_LEN - off % FL_MARKS_STRIPE_LEN);
        }
        off += n;
        len -= n;
    }
}

static int resize(struct fl_backend *backend, uint64_t len, struct fl_error *err)
{
    struct ram *ram = ram_of(backend);
    struct fl_url url = {.kind = FL_URL_RAM};
    uint64_t old;
    int rc;

    if (!len)
        return 0;
    rc = fl_backend_check_size(&url, backend->block_len, len, ram->room, err);
    if (rc)
        return rc;
    pthread_mutex_lock(&ram->resize_lock);
    old = fl_backend_len(backend);
    if (len < old) {
        fl_backend_set_len(backend, len);
        release(ram, len, ram->mapped - len);
    } else if (len > old) {
        rc = map_more(ram, len);
        if (rc) {
            fl_error_set(err, rc, "ram: the kernel does not grant %" PRIu64 " bytes: %s", len, strerror(-rc));
        } else {
            /* A write that raced with an earlier shrink may have left bytes behind. */
            fl_digests_drop_all(&ram->digests);
            zero(ram, old, ram->mapped - old);
            fl_digests_drop_all(&ram->digests);
            fl_backend_set_len(backend, len);
        }
    }
    pthread_mutex_unlock(&ram->resize_lock);
    return rc;
}

const struct fl_backend_ops fl_ram_backend_ops = {
    .kind = "ram",
    .open = open_ram,
    .close = close_ram,
    .chan_open = fl_sync_chan_open,
    .chan_close = fl_sync_chan_close,
    .submit = submit,
    .resume = resume,
    .write_now = write_now,
    .digest = digest,
    .flush_submissions = fl_sync_chan_nothing,
    .poll = fl_sync_chan_nothing,
    .fd = fl_sync_chan_no_fd,
    .resize = resize,
    .state_load = fl_no_state_load,
    .state_save = fl_no_state_save,
};
