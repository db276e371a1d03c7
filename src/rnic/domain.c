/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protection domains; thread domains, by which a program promises that one thread at a time uses what is made
 * with them, which saves us nothing yet; and parent domains, which are another name for a protection domain.
 */
#include <errno.h>
#include <stdlib.h>

#include "rnic/objects.h"
#include "rnic/retired.h"
#include "rnic/verbs.h"

struct fl_td {
    struct ibv_td td;
    uint32_t nr_users; /* parent domains; atomic */
};

static struct fl_td *td_of(struct ibv_td *td)
{
    return FL_CONTAINER_OF(td, struct fl_td, td);
}

static struct fl_pd *make_pd(struct ibv_context *context, uint32_t number)
{
    if (!fl_limit_take(context, FL_LIMITED_PD))
        return NULL;
    struct fl_pd *pd = fl_limit_used(context, FL_LIMITED_PD, calloc(1, sizeof(*pd)));
    if (!pd)
        return NULL;
    pd->number = number;
    pd->pd.context = context;
    pd->pd.handle = number;
    fl_count(&fl_context_of(context)->refs, 1);
    return pd;
}

struct ibv_pd *fl_pd_alloc(struct ibv_context *context)
{
    static uint32_t last_number;
    if (fl_gone(context)) {
        errno = ENODEV;
        return NULL;
    }
    struct fl_pd *pd = make_pd(context, __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED));
    return pd ? &pd->pd : NULL;
}

int fl_pd_dealloc(struct ibv_pd *ibv_pd)
{
    struct fl_pd *pd = fl_pd_of(ibv_pd);
    struct ibv_context *context = ibv_pd->context;
    struct fl_rnic *rnic = fl_context_lock(&ibv_pd->context);
    if (!rnic)
        return ENODEV;
    bool busy = __atomic_load_n(&pd->nr_objects, __ATOMIC_ACQUIRE);
    if (!busy)
        ibv_pd->context = fl_retired_context(context);
    fl_rnic_unlock(rnic);
    if (busy)
        return EBUSY;
    if (pd->parent)
        fl_count(&fl_pd_of(pd->parent)->nr_objects, -1);
    if (pd->td)
        fl_count(&td_of(pd->td)->nr_users, -1);
    fl_limit_give(context, FL_LIMITED_PD);
    fl_retire(pd);
    fl_context_put(fl_context_of(context));
    return 0;
}

struct ibv_td *fl_td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
    if (fl_gone(context) || attr->comp_mask) {
        errno = fl_gone(context) ? ENODEV : EOPNOTSUPP;
        return NULL;
    }
    struct fl_td *td = calloc(1, sizeof(*td));
    if (!td)
        return NULL;
    td->td.context = context;
    fl_count(&fl_context_of(context)->refs, 1);
    return &td->td;
}

int fl_td_dealloc(struct ibv_td *ibv_td)
{
    struct ibv_context *context = ibv_td->context;
    struct fl_rnic *rnic = fl_context_lock(&ibv_td->context);
    if (!rnic)
        return ENODEV;
    bool busy = __atomic_load_n(&td_of(ibv_td)->nr_users, __ATOMIC_ACQUIRE);
    if (!busy)
        ibv_td->context = fl_retired_context(context);
    fl_rnic_unlock(rnic);
    if (busy)
        return EBUSY;
    fl_retire(td_of(ibv_td));
    fl_context_put(fl_context_of(context));
    return 0;
}

struct ibv_pd *fl_pd_alloc_parent(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
    int r = 0;
    if (fl_gone(context))
        r = ENODEV;
    else if (!attr->pd || attr->pd->context != context || (attr->td && attr->td->context != context))
        r = EINVAL;
    else if (attr->comp_mask & ~(uint32_t)IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)
        r = EOPNOTSUPP; /* the program's own allocators: our queues do not lie in memory of its choice */
    if (r) {
        errno = r;
        return NULL;
    }
    struct fl_pd *pd = make_pd(context, fl_pd_of(attr->pd)->number);
    if (!pd)
        return NULL;
    pd->parent = attr->pd;
    pd->td = attr->td;
    fl_count(&fl_pd_of(pd->parent)->nr_objects, 1);
    if (pd->td)
        fl_count(&td_of(pd->td)->nr_users, 1);
    return &pd->pd;
}
