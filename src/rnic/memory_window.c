/* SPDX-License-Identifier: Apache-2.0 */
/* Memory windows (10.6.7): type 1 by ibv_bind_mw(), type 2B by a work request, and invalidation. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "rnic/objects.h"
#include "rnic/retired.h"
#include "rnic/shm_path.h"
#include "rnic/verbs.h"

#define TAG 0xffu /* bits of a key that are the consumer's, of a window of type 2 */

struct ibv_mw *fl_mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type)
{
    struct fl_rnic *rnic = fl_context_of(pd->context)->rnic;
    if (fl_gone(pd->context) || (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2)) {
        errno = fl_gone(pd->context) ? ENODEV : EINVAL;
        return NULL;
    }
    struct fl_mw *mw = calloc(1, sizeof(*mw));
    if (!mw)
        return NULL;
    mw->mw = (struct ibv_mw){.context = pd->context, .pd = pd, .type = type};
    fl_rnic_lock(rnic);
    int r = fl_key_alloc(&rnic->keys, &mw->slot, &mw->mw.rkey);
    if (!r)
        fl_key_set(
            &rnic->keys, mw->slot,
            &(struct fl_key_entry){.kind = FL_KEY_NONE, .key = mw->mw.rkey, .pd = fl_pd_of(pd)->number});
    fl_rnic_unlock(rnic);
    if (r) {
        free(mw);
        errno = -r;
        return NULL;
    }
    mw->mw.handle = mw->slot;
    fl_count(&fl_pd_of(pd)->nr_objects, 1);
    return &mw->mw;
}

/* The window opens nothing any more; its region is free of it. */
static void unbind(struct fl_rnic *rnic, uint32_t slot, uint32_t key)
{
    struct fl_key_entry *e = fl_key_at(&rnic->keys, slot);
    if (e->kind == FL_KEY_WINDOW)
        fl_key_at(&rnic->keys, e->parent)->nr_windows--;
    fl_key_set(&rnic->keys, slot, &(struct fl_key_entry){.kind = FL_KEY_NONE, .key = key, .pd = e->pd});
    fl_shm_path_quiesce(rnic);
}

int fl_mw_dealloc(struct ibv_mw *ibv_mw)
{
    struct fl_mw *mw = fl_mw_of(ibv_mw);
    struct ibv_context *context = ibv_mw->context;
    struct fl_rnic *rnic = fl_context_lock(&ibv_mw->context);
    if (!rnic)
        return ENODEV;
    ibv_mw->context = fl_retired_context(context);
    unbind(rnic, mw->slot, 0);
    fl_key_free(&rnic->keys, mw->slot);
    fl_rnic_unlock(rnic);
    fl_count(&fl_pd_of(ibv_mw->pd)->nr_objects, -1);
    fl_retire(mw);
    return 0;
}

/* By value, as post_send keeps it: the objects may be gone when its turn comes. */
int fl_mw_resolve(struct ibv_send_wr *wr)
{
    const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
    struct ibv_mw *mw = wr->bind_mw.mw;
    if (!mw || (info->length && !info->mr))
        return -EINVAL;
    bool type2 = mw->type == IBV_MW_TYPE_2;
    if (type2 && ((wr->bind_mw.rkey ^ mw->rkey) & ~TAG))
        return -EINVAL;
    /* handle is the slot */
    wr->bind_mw.mw = (struct ibv_mw *)(uintptr_t)(mw->handle << 1 | type2);
    wr->bind_mw.bind_info.mr = (struct ibv_mr *)(uintptr_t)(info->mr ? info->mr->handle : 0);
    return 0;
}

static int check_bind(const struct fl_qp *qp, const struct fl_key_entry *region,
                      const struct fl_key_entry *window, const struct ibv_mw_bind_info *info, bool type2)
{
    unsigned int remote_change = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
    if (window->pd != qp->pd_number || (type2 && window->kind == FL_KEY_WINDOW))
        return -EINVAL; /* one of type 2 is invalidated before it is bound again */
    if (!info->length)
        return type2 ? -EINVAL : 0;
    if (region->kind != FL_KEY_MR || region->pd != qp->pd_number || !(region->access & IBV_ACCESS_MW_BIND))
        return -EINVAL;
    if (info->mw_access_flags & ~(remote_change | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_LOCAL_WRITE))
        return -EINVAL; /* the last means nothing here, and programs set it */
    if ((info->mw_access_flags & remote_change) && !(region->access & IBV_ACCESS_LOCAL_WRITE))
        return -EINVAL;
    if (info->addr < region->addr || !fl_range_fits(info->addr - region->addr, info->length, region->len))
        return -EINVAL;
    return 0;
}

int fl_mw_bind(struct fl_qp *qp, const struct ibv_send_wr *wr)
{
    struct fl_key_table *keys = &qp->rnic->keys;
    const struct ibv_mw_bind_info *info = &wr->bind_mw.bind_info;
    bool type2 = (uintptr_t)wr->bind_mw.mw & 1;
    uint32_t slot = (uint32_t)((uintptr_t)wr->bind_mw.mw >> 1), parent = (uint32_t)(uintptr_t)info->mr;
    const struct fl_key_entry *region = fl_key_at(keys, parent);
    int r = check_bind(qp, region, fl_key_at(keys, slot), info, type2);
    if (r)
        return r;
    struct fl_key_entry entry = {
        .kind = FL_KEY_WINDOW,
        .key = wr->bind_mw.rkey,
        .pd = qp->pd_number,
        .access = info->mw_access_flags,
        .qpn = type2 ? qp->qp.qp_num : 0,
        .addr = info->addr,
        .len = info->length,
        .ptr = region->ptr + (info->addr - region->addr),
        .region = region->region,
        .parent = parent,
    };
    unbind(qp->rnic, slot, wr->bind_mw.rkey);
    if (info->length) {
        fl_key_at(keys, parent)->nr_windows++;
        fl_key_set(keys, slot, &entry);
    }
    return 0;
}

int fl_key_invalidate(struct fl_qp *qp, uint32_t rkey, bool from_peer)
{
    uint32_t slot = fl_key_slot(qp->rnic->keys.file, rkey);
    const struct fl_key_entry *e = fl_key_at(&qp->rnic->keys, slot);
    /* Only windows of type 2 can be invalidated, through the queue pair that they are bound on (10.6.7.2.6).
     */
    if (e->kind != FL_KEY_WINDOW || e->key != rkey || e->qpn != qp->qp.qp_num)
        return -EINVAL;
    unbind(qp->rnic, slot, rkey);
    return 0;
}

int fl_mw_bind1(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
{
    struct ibv_send_wr *bad, wr = {
                                 .wr_id = bind->wr_id,
                                 .opcode = IBV_WR_BIND_MW,
                                 .send_flags = bind->send_flags,
                                 .bind_mw = {.mw = mw, .bind_info = bind->bind_info},
                             };
    struct fl_rnic *rnic = fl_context_of(qp->context)->rnic;
    if (fl_gone(qp->context))
        return ENODEV;
    fl_rnic_lock(rnic);
    wr.bind_mw.rkey = fl_key_renew(&rnic->keys, fl_mw_of(mw)->slot);
    fl_rnic_unlock(rnic);
    int r = fl_qp_post_send(qp, &wr, &bad);
    if (!r)
        mw->rkey = wr.bind_mw.rkey; /* the old one holds until the bind's turn comes */
    return r;
}
