/* SPDX-License-Identifier: Apache-2.0 */
#include <farlane/memory.h>

#include <errno.h>

#include "fabric/rdma_domain.h"
#include "mem/range.h"

int fl_mem_register(void *base, size_t len, struct fl_error *err)
{
    int r;

    if (!base || !len || (uintptr_t)base > UINTPTR_MAX - len)
        return fl_error_set(err, -EINVAL, "%zu bytes at %p are no memory that can be registered", len, base);
    r = fl_mem_range_add_kind(base, len, FL_MEM_REGISTERED);
    if (r == -EEXIST)
        return fl_error_set(
            err, r, "%zu bytes at %p overlap memory that is registered: unregister that first", len, base);
    return r < 0 ? fl_error_set(err, r, "out of memory") : 0;
}

int fl_mem_unregister(void *base, size_t len, struct fl_error *err)
{
    int r = fl_mem_range_remove_exact(base, len, FL_MEM_REGISTERED);

    if (r < 0)
        return fl_error_set(
            err, r, "%zu bytes at %p are not registered as such: give what was registered, whole", len, base);
    return 0;
}

void fl_mem_cache(size_t max_len)
{
    fl_rdma_cache_set(max_len);
}

void fl_mem_forget(const void *base, size_t len)
{
    fl_mem_range_remove_overlapping(base, len, FL_MEM_CACHED);
}

void fl_mem_stats(struct fl_mem_stats *stats)
{
    struct fl_rdma_counts counts;
    size_t nr, len;

    fl_rdma_counts_get(&counts);
    *stats = (struct fl_mem_stats){.nr_device_regions = counts.nr_regions + counts.nr_temporary,
                                   .nr_temporary = counts.nr_temporary,
                                   .nr_temporary_ever = counts.nr_temporary_ever};
    fl_mem_range_totals(FL_MEM_REGISTERED, &nr, &len);
    stats->nr_registered = nr;
    stats->registered_len = len;
    fl_mem_range_totals(FL_MEM_CACHED, &nr, &len);
    stats->nr_cached = nr;
    stats->cached_len = len;
}
