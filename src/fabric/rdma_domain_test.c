/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/rdma_domain.h"

#include <errno.h>
#include <stdlib.h>

#include "base/unit.h"

enum { LEN = 4 * 4096 };

static struct ibv_context *open_first(void)
{
    struct ibv_device **list = fl_verbs_soft.get_device_list(NULL);
    struct ibv_context *context;

    assert_non_null(list);
    assert_non_null(list[0]);
    context = fl_verbs_soft.open_device(list[0]);
    fl_verbs_soft.free_device_list(list);
    assert_non_null(context);
    return context;
}

/* While a domain of this table knows the memory, can pages of it go back to the kernel? Then, when the range
 * or the domain has gone, they can again. */
static void check(const struct fl_rdma_lib *lib, int wanted)
{
    struct ibv_context *context = open_first();
    struct fl_rdma_domain *domain;
    struct fl_rdma_keys keys = {0};
    void *mem = NULL;

    assert_int_equal(posix_memalign(&mem, 4096, LEN), 0);
    assert_int_equal(fl_mem_range_add(mem, LEN), 0);
    assert_int_equal(fl_mem_give_back(mem, LEN), 0);
    assert_int_equal(fl_rdma_domain_get(lib, context, FL_RDMA_TARGET, &domain), 0);
    keys.domain = domain;
    assert_non_null(fl_rdma_find(&keys, mem, LEN));
    assert_int_equal(fl_mem_give_back(mem, LEN), wanted);
    fl_rdma_domain_put(domain);
    assert_int_equal(fl_mem_give_back(mem, LEN), 0);
    fl_mem_range_remove(mem, LEN);
    free(mem);
    fl_verbs_soft.close_device(context);
}

/* The software RNIC goes by addresses; hardware has the pages themselves. */
static void hardware_pins(void **state)
{
    struct fl_verbs verbs = fl_verbs_soft; /* any table that is not the software RNIC's */
    struct fl_rdma_lib hardware = {.verbs = &verbs, .cm = &fl_rdmacm_soft};

    check(&fl_rdma_soft, 0);
    check(&hardware, -EBUSY);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(hardware_pins));
}
