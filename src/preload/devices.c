/* SPDX-License-Identifier: Apache-2.0 */
/* Devices: the real ones, as if this library were not there, then those of the software RNIC. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "preload/preload.h"

/* What ibv_get_device_list() gives: the program sees devices only. */
struct list {
    struct ibv_device **real; /* to be freed with this one; NULL: none */
    struct ibv_device *devices[];
};

/* Is it one of those that the program is to see? FARLANE_DEVICES names them, with commas between; empty: all.
 */
static bool wanted(const char *name)
{
    const char *names = getenv("FARLANE_DEVICES");
    size_t len = strlen(name);
    if (!names || !*names)
        return true;
    for (; *names; names += *names == ',') {
        size_t n = strcspn(names, ",");
        if (n == len && !memcmp(names, name, n))
            return true;
        names += n;
    }
    return false;
}

static int append(struct list *list, int n, struct ibv_device **from, int nr)
{
    for (int i = 0; i < nr; i++) {
        if (wanted(from[i]->name))
            list->devices[n++] = from[i];
    }
    return n;
}

bool fl_real_devices(void)
{
    const struct fl_verbs *below = fl_real_verbs();
    int nr = 0;
    bool found = false;
    struct ibv_device **list = below ? below->get_device_list(&nr) : NULL;
    for (int i = 0; i < nr; i++)
        found = found || wanted(list[i]->name);
    if (list)
        below->free_device_list(list);
    return found;
}

FL_EXPORT struct ibv_device **ibv_get_device_list(int *nr)
{
    const struct fl_verbs *below = fl_real_verbs();
    int nr_real = 0, nr_soft = 0, n;
    if (nr)
        *nr = 0;
    struct ibv_device **soft = fl_verbs_soft.get_device_list(&nr_soft);
    if (!soft)
        return NULL;
    /* No list, where the kernel has no RDMA, is an empty one here. */
    struct ibv_device **real = below ? below->get_device_list(&nr_real) : NULL;
    struct list *list = calloc(1, sizeof(*list) + (size_t)(nr_real + nr_soft + 1) * sizeof(list->devices[0]));
    if (!list) {
        if (real)
            below->free_device_list(real);
        fl_verbs_soft.free_device_list(soft);
        errno = ENOMEM;
        return NULL;
    }
    list->real = real;
    n = append(list, 0, real, nr_real);
    n = append(list, n, soft, nr_soft);
    fl_verbs_soft.free_device_list(soft);
    if (nr)
        *nr = n;
    return list->devices;
}

FL_EXPORT void ibv_free_device_list(struct ibv_device **devices)
{
    struct list *list = FL_CONTAINER_OF(devices, struct list, devices[0]);
    if (list->real)
        fl_real_verbs()->free_device_list(list->real);
    free(list);
}

FL_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
    return fl_verbs_of_device(device)->get_device_name(device);
}

FL_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
    return fl_verbs_of_device(device)->get_device_guid(device);
}

FL_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
    return fl_verbs_of_device(device)->get_device_index(device);
}

FL_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
    return fl_verbs_of_device(device)->open_device(device);
}

FL_EXPORT int ibv_close_device(struct ibv_context *context)
{
    return fl_verbs_of(context)->close_device(context);
}

FL_EXPORT int ibv_get_async_event(struct ibv_context *context, struct ibv_async_event *event)
{
    return fl_verbs_of(context)->get_async_event(context, event);
}

/* The context of the object that it is about; NULL: it is about a port or a device. */
static const struct ibv_context *context_of(const struct ibv_async_event *event)
{
    switch (event->event_type) {
    case IBV_EVENT_CQ_ERR:
        return event->element.cq->context;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
        return event->element.srq->context;
    case IBV_EVENT_WQ_FATAL:
        return event->element.wq->context;
    case IBV_EVENT_DEVICE_FATAL:
    case IBV_EVENT_PORT_ACTIVE:
    case IBV_EVENT_PORT_ERR:
    case IBV_EVENT_LID_CHANGE:
    case IBV_EVENT_PKEY_CHANGE:
    case IBV_EVENT_SM_CHANGE:
    case IBV_EVENT_CLIENT_REREGISTER:
    case IBV_EVENT_GID_CHANGE:
        return NULL;
    default:
        return event->element.qp->context;
    }
}

FL_EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
    const struct ibv_context *context = context_of(event);
    if (context) /* no one counts the others */
        fl_verbs_of(context)->ack_async_event(event);
}
