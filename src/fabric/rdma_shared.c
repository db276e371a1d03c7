/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/rdma_shared.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/util.h"

static int post(struct fl_rdma_shared *s, uint32_t recv)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)fl_rdma_shared_at(s, recv), .length = s->recv_len, .lkey = s->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = (uint64_t)recv << FL_RDMA_WR_BITS, .sg_list = &sge, .num_sge = 1};

    return ibv_post_srq_recv(s->srq, &wr, &bad);
}

int fl_rdma_shared_post(struct fl_rdma_shared *s, uint32_t recv)
{
    __atomic_sub_fetch(&s->nr_held, 1, __ATOMIC_RELAXED);
    return post(s, recv);
}

static void destroy(struct fl_rdma_shared *s)
{
    if (s->srq)
        s->lib->verbs->destroy_srq(s->srq);
    if (s->mr)
        s->lib->verbs->dereg_mr(s->mr);
    if (s->mem)
        munmap(s->mem, s->mem_len);
    if (s->domain)
        fl_rdma_domain_put(s->domain);
    free(s);
}

static int fill(struct fl_rdma_shared *s)
{
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = s->nr, .max_sge = 1}};

    s->mem = mmap(NULL, s->mem_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s->mem == MAP_FAILED) {
        s->mem = NULL;
        return -ENOMEM;
    }
    s->mr = s->lib->verbs->reg_mr(s->domain->pd, s->mem, s->mem_len, IBV_ACCESS_LOCAL_WRITE);
    s->srq = s->mr ? s->lib->verbs->create_srq(s->domain->pd, &attr) : NULL;
    if (!s->srq)
        return errno ? -errno : -ENOMEM;
    for (uint32_t i = 0; i < s->nr; i++)
        if (post(s, i))
            return -EIO;
    return 0;
}

int fl_rdma_shared_create(const struct fl_rdma_lib *lib, struct ibv_context *context, uint32_t nr,
                          uint32_t recv_len, struct fl_rdma_shared **shared)
{
    struct fl_rdma_shared *s;
    struct ibv_device_attr device;
    int r;

    if (lib->verbs->query_device(context, &device) || !device.max_srq || (uint32_t)device.max_srq_wr < nr)
        return -EOPNOTSUPP;
    s = calloc(1, sizeof(*s));
    if (!s)
        return -ENOMEM;
    s->lib = lib;
    s->refs = 1;
    s->nr = nr;
    s->recv_len = recv_len;
    s->max_held = nr - FL_MAX(nr / 4, 1u);
    s->stride = (uint32_t)fl_round_up(recv_len, FL_CACHE_LINE);
    s->mem_len = fl_round_up((size_t)nr * s->stride, 4096);
    r = fl_rdma_domain_get(lib, context, FL_RDMA_TARGET, &s->domain);
    if (r == 0)
        r = fill(s);
    if (r < 0)
        destroy(s);
    else
        *shared = s;
    return r;
}

void fl_rdma_shared_get(struct fl_rdma_shared *s)
{
    __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
}

void fl_rdma_shared_put(struct fl_rdma_shared *s)
{
    if (!__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL))
        destroy(s);
}
