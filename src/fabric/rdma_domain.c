/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/rdma_domain.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "rnic/verbs.h"

const struct fl_rdma_lib fl_rdma_soft = {.verbs = &fl_verbs_soft, .cm = &fl_rdmacm_soft};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fl_rdma_lib hardware_lib; /* lock; the same each time that it is filled in */
static struct fl_rdma_domain *domains;  /* lock */
static size_t cache_max;                /* any thread, as the next two */
static uint64_t nr_temporary, nr_temporary_ever;

int fl_rdma_lib_get(bool hardware, const struct fl_rdma_lib **lib, struct fl_error *err)
{
    int r = 0;

    *lib = &fl_rdma_soft;
    if (!hardware) {
        fl_rnic_failure_is_told(); /* fl_rdma_no_manager() */
        return 0;
    }
    pthread_mutex_lock(&lock);
    r = fl_verbs_hardware(&hardware_lib.verbs, err);
    if (r == 0)
        r = fl_rdmacm_hardware(&hardware_lib.cm, err);
    pthread_mutex_unlock(&lock);
    *lib = &hardware_lib;
    return r;
}

/* iWARP's READ responses are writes into the sink by the peer, which must have the right to them. */
static int access_of(const struct ibv_context *context, enum fl_rdma_role role)
{
    if (role == FL_RDMA_HOST)
        return IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
    return IBV_ACCESS_LOCAL_WRITE |
           (context->device->transport_type == IBV_TRANSPORT_IWARP ? IBV_ACCESS_REMOTE_WRITE : 0);
}

static void ranges_removed(void);

int fl_rdma_no_manager(const struct fl_rdma_lib *lib, struct fl_error *err)
{
    int r = errno ? -errno : -EIO;
    struct fl_error why = {0};

    if (lib->cm == &fl_rdmacm_soft)
        fl_rnic_failure(&why);
    if (why.code == r)
        return fl_error_set(err, r, "the software RNIC cannot start: %s%s", why.text,
                            r == -EADDRINUSE ? "; the kernel's devices are taken with dev=hardware" : "");
    return fl_error_set(err, r, "the RDMA connection manager (%s) cannot be used: %s", lib->cm->name,
                        strerror(-r));
}

int fl_rdma_domain_get(const struct fl_rdma_lib *lib, struct ibv_context *context, enum fl_rdma_role role,
                       struct fl_rdma_domain **domain)
{
    struct fl_rdma_domain *d;
    int r = 0;

    fl_mem_range_on_remove(ranges_removed);
    pthread_mutex_lock(&lock);
    for (d = domains; d && (d->context != context || d->role != role); d = d->next)
        ;
    if (!d) {
        d = calloc(1, sizeof(*d));
        if (!d) {
            r = -ENOMEM;
            goto unlock;
        }
        d->lib = lib;
        d->context = context;
        d->role = role;
        d->access = access_of(context, role);
        d->pd = lib->verbs->alloc_pd(context);
        if (!d->pd) {
            r = errno ? -errno : -ENOMEM;
            free(d);
            goto unlock;
        }
        d->next = domains;
        domains = d;
    }
    d->refs++;
    *domain = d;
unlock:
    pthread_mutex_unlock(&lock);
    return r;
}

static void forget(struct fl_rdma_domain *d, const struct fl_rdma_region *region)
{
    d->lib->verbs->dereg_mr(region->mr);
    if (region->pinned)
        fl_mem_range_unpin(region->id);
}

void fl_rdma_domain_put(struct fl_rdma_domain *d)
{
    struct fl_rdma_domain **at = &domains;

    pthread_mutex_lock(&lock);
    if (!--d->refs) {
        while (*at != d)
            at = &(*at)->next;
        *at = d->next;
        for (size_t i = 0; i < d->nr_regions; i++)
            forget(d, &d->regions[i]);
        d->lib->verbs->dealloc_pd(d->pd);
        free(d->regions);
        free(d);
    }
    pthread_mutex_unlock(&lock);
}

/* Ranges that are gone take their registrations with them; nothing of theirs is in flight any more. */
static void drop_gone(struct fl_rdma_domain *d)
{
    size_t kept = 0;

    for (size_t i = 0; i < d->nr_regions; i++)
        if (fl_mem_range_exists(d->regions[i].id))
            d->regions[kept++] = d->regions[i];
        else
            forget(d, &d->regions[i]);
    d->nr_regions = kept;
}

/* No lock of mem/range is held. */
static void ranges_removed(void)
{
    pthread_mutex_lock(&lock);
    for (struct fl_rdma_domain *d = domains; d; d = d->next)
        drop_gone(d);
    pthread_mutex_unlock(&lock);
}

static struct ibv_mr *region_of(struct fl_rdma_domain *d, const struct fl_mem_range *range)
{
    struct fl_rdma_region *grown;
    struct ibv_mr *mr;
    bool pinned;

    for (size_t i = 0; i < d->nr_regions; i++)
        if (d->regions[i].id == range->id)
            return d->regions[i].mr;
    grown = realloc(d->regions, (d->nr_regions + 1) * sizeof(*grown));
    if (!grown)
        return NULL;
    d->regions = grown;
    pinned = d->lib->verbs != &fl_verbs_soft && fl_mem_range_pin(range->id);
    mr = d->lib->verbs->reg_mr(d->pd, (void *)range->base, range->len, d->access);
    if (mr)
        grown[d->nr_regions++] = (struct fl_rdma_region){.id = range->id, .mr = mr, .pinned = pinned};
    else if (pinned)
        fl_mem_range_unpin(range->id);
    return mr;
}

static struct ibv_mr *find_slow(struct fl_rdma_keys *keys, const void *p, size_t len)
{
    struct fl_rdma_domain *d = keys->domain;
    struct fl_mem_range range;
    struct ibv_mr *mr = NULL;

    pthread_mutex_lock(&lock);
    if (keys->nr_removed != fl_mem_range_nr_removed()) {
        keys->nr_removed = fl_mem_range_nr_removed();
        keys->nr = keys->next = 0;
    }
    if (fl_mem_range_find(p, len, &range))
        mr = region_of(d, &range);
    pthread_mutex_unlock(&lock);
    if (!mr) {
        keys->nr_misses++;
        return NULL;
    }
    keys->entries[keys->next].base = range.base;
    keys->entries[keys->next].len = range.len;
    keys->entries[keys->next].mr = mr;
    keys->next = (keys->next + 1) % FL_RDMA_KEYS;
    keys->nr = keys->nr < FL_RDMA_KEYS ? keys->nr + 1 : FL_RDMA_KEYS;
    return mr;
}

struct ibv_mr *fl_rdma_find(struct fl_rdma_keys *keys, const void *p, size_t len)
{
    if (keys->nr_removed == fl_mem_range_nr_removed()) {
        for (uint32_t i = 0; i < keys->nr; i++) {
            size_t off = (uintptr_t)p - keys->entries[i].base;

            if (off < keys->entries[i].len && len <= keys->entries[i].len - off)
                return keys->entries[i].mr;
        }
    }
    return find_slow(keys, p, len);
}

/* Keeps it from now on, if the cache is on and has room. */
static bool cache(const void *p, size_t len)
{
    size_t max = __atomic_load_n(&cache_max, __ATOMIC_RELAXED), nr, used;

    if (fl_likely(!max))
        return false;
    fl_mem_range_totals(FL_MEM_CACHED, &nr, &used);
    return len <= max && used <= max - len &&
           fl_mem_range_add_kind((void *)(uintptr_t)p, len, FL_MEM_CACHED) == 0;
}

struct ibv_mr *fl_rdma_find_or_register(struct fl_rdma_keys *keys, const void *p, size_t len, int access,
                                        struct ibv_mr **own)
{
    struct ibv_mr *mr = fl_rdma_find(keys, p, len);

    *own = NULL;
    if (mr)
        return mr;
    if (keys->domain->role == FL_RDMA_HOST) {
        mr = cache(p, len) ? fl_rdma_find(keys, p, len) : NULL;
        if (mr)
            return mr;
        __atomic_add_fetch(&nr_temporary_ever, 1, __ATOMIC_RELAXED);
    }
    *own = keys->domain->lib->verbs->reg_mr(keys->domain->pd, (void *)(uintptr_t)p, len, access);
    if (*own && keys->domain->role == FL_RDMA_HOST)
        __atomic_add_fetch(&nr_temporary, 1, __ATOMIC_RELAXED);
    return *own;
}

void fl_rdma_drop_own(struct fl_rdma_keys *keys, struct ibv_mr *own)
{
    if (keys->domain->role == FL_RDMA_HOST)
        __atomic_sub_fetch(&nr_temporary, 1, __ATOMIC_RELAXED);
    keys->domain->lib->verbs->dereg_mr(own);
}

void fl_rdma_cache_set(size_t max_len)
{
    __atomic_store_n(&cache_max, max_len, __ATOMIC_RELAXED);
    if (!max_len)
        fl_mem_range_remove_overlapping(NULL, SIZE_MAX, FL_MEM_CACHED);
}

void fl_rdma_counts_get(struct fl_rdma_counts *counts)
{
    *counts = (struct fl_rdma_counts){
        .nr_temporary = __atomic_load_n(&nr_temporary, __ATOMIC_RELAXED),
        .nr_temporary_ever = __atomic_load_n(&nr_temporary_ever, __ATOMIC_RELAXED)};
    pthread_mutex_lock(&lock);
    for (struct fl_rdma_domain *d = domains; d; d = d->next)
        if (d->role == FL_RDMA_HOST)
            counts->nr_regions += d->nr_regions;
    pthread_mutex_unlock(&lock);
}

const char *fl_rdma_wc_text(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return "success";
    case IBV_WC_LOC_LEN_ERR:
        return "more came than the buffer holds";
    case IBV_WC_LOC_PROT_ERR:
        return "our memory is not registered for it";
    case IBV_WC_WR_FLUSH_ERR:
        return "the connection has ended";
    case IBV_WC_REM_INV_REQ_ERR:
        return "the peer calls the request invalid";
    case IBV_WC_REM_ACCESS_ERR:
        return "the peer does not allow access to the memory that it named";
    case IBV_WC_REM_OP_ERR:
        return "the peer could not carry it out";
    case IBV_WC_RETRY_EXC_ERR:
        return "the peer does not answer";
    case IBV_WC_RNR_RETRY_EXC_ERR:
        return "the peer posts no receives";
    default:
        return "a local error";
    }
}
