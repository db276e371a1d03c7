/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where memory is known to an RDMA device: a protection domain for each device and role, shared by all
 * connections, in which each range of src/mem/range is registered when it is first met. A connection looks
 * keys up through a cache of its own, without a lock.
 */
#ifndef FL_FABRIC_RDMA_DOMAIN_H
#define FL_FABRIC_RDMA_DOMAIN_H

#include <stdbool.h>

#include "mem/range.h"
#include "verbs/rdmacm.h"
#include "verbs/verbs.h"

/* Whose functions they are: of the software RNIC, or of hardware. */
struct fl_rdma_lib {
    const struct fl_verbs *verbs;
    const struct fl_rdmacm *cm;
};

extern const struct fl_rdma_lib fl_rdma_soft;

/* The software RNIC's, or hardware's, loaded at the first call. -ENOENT with text: rdma-core is not there. */
int fl_rdma_lib_get(bool hardware, const struct fl_rdma_lib **lib, struct fl_error *err);
/* The library's connection manager could not be had: why, from errno. Returns the negative code. */
int fl_rdma_no_manager(const struct fl_rdma_lib *lib, struct fl_error *err);

/* A target moves data itself and lets nobody at its memory; a host lets its targets. */
enum fl_rdma_role { FL_RDMA_TARGET, FL_RDMA_HOST };

struct fl_rdma_domain {
    const struct fl_rdma_lib *lib;
    struct ibv_context *context;
    enum fl_rdma_role role;
    int access;
    struct ibv_pd *pd;
    /* private, under a lock */
    uint32_t refs;
    struct fl_rdma_domain *next;
    struct fl_rdma_region {
        uint64_t id; /* of the range */
        struct ibv_mr *mr;
        bool pinned; /* by hardware */
    } * regions;
    size_t nr_regions;
};

/* Any thread. -ENOMEM and what the device says. */
int fl_rdma_domain_get(const struct fl_rdma_lib *lib, struct ibv_context *context, enum fl_rdma_role role,
                       struct fl_rdma_domain **domain);
void fl_rdma_domain_put(struct fl_rdma_domain *domain);

#define FL_RDMA_KEYS 8

/* A connection's cache. Zeroed, but for domain. */
struct fl_rdma_keys {
    struct fl_rdma_domain *domain;
    uint32_t nr_removed, nr, next;
    uint64_t nr_misses; /* memory that belongs to no range */
    struct {
        uintptr_t base;
        size_t len;
        struct ibv_mr *mr;
    } entries[FL_RDMA_KEYS];
};

/* The region that holds [p, p + len), or NULL: no range of ours, or the device refuses it. */
struct ibv_mr *fl_rdma_find(struct fl_rdma_keys *keys, const void *p, size_t len);
/* The same, else one of its own with this access, for the caller to take away (dereg) when *own is set. NULL
 * and errno. */
struct ibv_mr *fl_rdma_find_or_register(struct fl_rdma_keys *keys, const void *p, size_t len, int access,
                                        struct ibv_mr **own);

/* Takes such a one away again. */
void fl_rdma_drop_own(struct fl_rdma_keys *keys, struct ibv_mr *own);

/* The registration cache of hosts (farlane/memory.h); 0: off. Any thread. */
void fl_rdma_cache_set(size_t max_len);

struct fl_rdma_counts { /* of hosts */
    uint64_t nr_regions, nr_temporary, nr_temporary_ever;
};
void fl_rdma_counts_get(struct fl_rdma_counts *counts);

/* Plain words for a completion's status; never NULL, static. */
const char *fl_rdma_wc_text(enum ibv_wc_status status);

#endif
