/* SPDX-License-Identifier: Apache-2.0 */
/* An open device: the table that the verbs' inline functions call. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "rnic/objects.h"
#include "rnic/retired.h"
#include "rnic/verbs.h"

static int query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
    if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
        uint64_t now = fl_now_ns(); /* in the unit of completion time stamps */
        values->raw_clock.tv_sec = 0;
        values->raw_clock.tv_nsec = (long)now;
    }
    values->comp_mask &= IBV_VALUES_MASK_RAW_CLOCK;
    return 0;
}

static int compat_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    return fl_context_query_device(context, attr);
}

static const struct ibv_context_ops ops = {
    ._compat_query_device = compat_query_device,
    .alloc_mw = fl_mw_alloc,
    .bind_mw = fl_mw_bind1,
    .dealloc_mw = fl_mw_dealloc,
    .poll_cq = fl_cq_poll,
    .req_notify_cq = fl_cq_req_notify,
    .post_srq_recv = fl_srq_post_recv,
    .post_send = fl_qp_post_send,
    .post_recv = fl_qp_post_recv,
};

/* Members that stay NULL are those that we do not have: the header's functions say EOPNOTSUPP then. */
void fl_context_set_verbs(struct verbs_context *v)
{
    v->query_port = fl_context_query_port;
    v->query_device_ex = fl_context_query_device_ex;
    v->query_rt_values = query_rt_values;
    v->create_cq_ex = fl_cq_create_ex;
    v->modify_cq = fl_cq_modify;
    v->create_qp_ex = fl_qp_create_ex;
    v->create_srq_ex = fl_srq_create_ex;
    v->get_srq_num = fl_srq_number;
    v->alloc_td = fl_td_alloc;
    v->dealloc_td = fl_td_dealloc;
    v->alloc_parent_domain = fl_pd_alloc_parent;
    v->sz = sizeof(*v);
    v->context.ops = ops;
    v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
}

static int open_fds(struct ibv_context *context)
{
    context->async_fd = eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
    /* Programs poll cmd_fd for nothing, but some test that it is one. */
    context->cmd_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (context->async_fd >= 0 && context->cmd_fd >= 0)
        return 0;
    int r = errno;
    if (context->async_fd >= 0)
        close(context->async_fd);
    if (context->cmd_fd >= 0)
        close(context->cmd_fd);
    return r;
}

struct ibv_context *fl_context_open(struct ibv_device *device)
{
    struct fl_error err = {0};
    struct fl_context *c = calloc(1, sizeof(*c));
    if (!c)
        return NULL;
    c->device = FL_CONTAINER_OF(device, struct fl_device, device);
    c->rnic = fl_rnic_get(&err);
    if (!c->rnic) {
        fl_rnic_log_failure(device->name, &err);
        goto free_context;
    }
    int r = open_fds(&c->verbs.context);
    if (r) {
        fl_rnic_put(c->rnic);
        errno = r;
        goto free_context;
    }
    c->refs = 1;
    pthread_mutex_init(&c->events_lock, NULL);
    fl_list_init(&c->events);
    fl_context_set_verbs(&c->verbs);
    c->verbs.context.device = device;
    c->verbs.context.num_comp_vectors = 1;
    pthread_mutex_init(&c->verbs.context.mutex, NULL);
    pthread_mutex_lock(&fl_devices_lock);
    fl_list_add_tail(&c->device->contexts, &c->link);
    pthread_mutex_unlock(&fl_devices_lock);
    return &c->verbs.context;

free_context:
    free(c);
    return NULL;
}

void fl_context_put(struct fl_context *c)
{
    struct ibv_context *context = &c->verbs.context;
    if (__atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL))
        return;
    fl_async_forget(c, NULL, NULL, NULL, NULL);
    close(context->async_fd);
    close(context->cmd_fd);
    pthread_mutex_destroy(&context->mutex);
    pthread_mutex_destroy(&c->events_lock);
    fl_rnic_put(c->rnic);
    c->rnic = &fl_rnic_none;
    fl_retire(c);
}

/* Programs close devices whose objects they have not all destroyed; those stay, as the manual page says. */
int fl_context_close(struct ibv_context *context)
{
    struct fl_context *c = fl_context_of(context);
    if (fl_gone(context))
        return 0; /* the parent's */
    if (__atomic_load_n(&c->refs, __ATOMIC_ACQUIRE) > 1)
        FL_INFO("%s: closed while protection domains, completion queues or channels are there",
                context->device->name);
    pthread_mutex_lock(&fl_devices_lock);
    bool open = fl_list_linked(&c->link);
    fl_list_del(&c->link);
    pthread_mutex_unlock(&fl_devices_lock);
    if (!open)
        return EINVAL; /* once more, while its objects are there */
    fl_context_put(c);
    return 0;
}
