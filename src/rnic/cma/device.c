/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices as ids see them: opened when first needed, with one protection domain each for those who bring
 * none, and kept until the end of the process, as librdmacm keeps them.
 */
#include <stdlib.h>

#include "rnic/cma/parts.h"
#include "rnic/verbs.h"

struct opened {
    struct fl_list link;
    struct fl_device *device;
    struct ibv_context *context;
    struct ibv_pd *pd; /* NULL until somebody wants it */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fl_list devices = FL_LIST_INIT(devices); /* lock */
static struct fl_list inherited = FL_LIST_INIT(
    inherited); /* of a parent: dead, but the program may hold them */

struct fl_device *fl_cma_device_of(const struct in6_addr *gid)
{
    struct fl_device *d, *found = NULL;
    pthread_mutex_lock(&fl_devices_lock);
    fl_list_for_each (d, fl_devices(), link) {
        for (int i = 0; i < d->nr_gids && !found; i++)
            if (d->gids[i].assigned && IN6_ARE_ADDR_EQUAL(&d->gids[i].addr, gid))
                found = d;
    }
    pthread_mutex_unlock(&fl_devices_lock);
    return found;
}

void fl_cma_devices_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    fl_list_splice(&inherited, &devices);
}

/* Under lock */
static struct opened *open_device(struct fl_device *device)
{
    struct opened *o;
    fl_list_for_each (o, &devices, link) {
        if (o->device == device)
            return o;
    }
    o = calloc(1, sizeof(*o));
    if (!o)
        return NULL;
    o->device = device;
    o->context = fl_context_open(&device->device);
    if (!o->context) {
        free(o);
        return NULL;
    }
    fl_list_add_tail(&devices, &o->link);
    return o;
}

int fl_cma_set_device(struct fl_cma_id *id, struct fl_device *device)
{
    if (id->state == FL_CMA_REMOVED)
        return -ENODEV;
    pthread_mutex_lock(&fl_devices_lock);
    bool removed = device->removed;
    if (!removed) {
        id->device = device;
        id->nr_removals = device->nr_removals;
    }
    pthread_mutex_unlock(&fl_devices_lock);
    return removed ? -ENODEV : 0;
}

int fl_cma_attach(struct fl_cma_id *id, struct fl_device *device)
{
    int r = 0;
    pthread_mutex_lock(&lock);
    struct opened *o = open_device(device);
    if (o && !o->pd)
        o->pd = fl_pd_alloc(o->context);
    if (!o || !o->pd)
        r = -errno;
    pthread_mutex_unlock(&lock);
    if (!r)
        r = fl_cma_lock(id->cma);
    if (r)
        return r;
    r = fl_cma_set_device(id, device);
    if (!r) {
        id->id.verbs = o->context;
        id->id.pd = o->pd;
        id->id.port_num = 1;
    }
    fl_cma_unlock(id->cma);
    return r;
}

static bool is_removed(const struct fl_cma_id *id)
{
    if (!id->device)
        return false;
    pthread_mutex_lock(&fl_devices_lock);
    bool removed = id->nr_removals != id->device->nr_removals;
    pthread_mutex_unlock(&fl_devices_lock);
    return removed;
}

/* As the kernel does it: whatever an id was doing ends, with no other event than this one. */
int fl_cma_tell_removals(struct fl_cma *cma)
{
    uint32_t nr = __atomic_load_n(&fl_devices_nr_removals, __ATOMIC_ACQUIRE);
    struct fl_cma_id *id, *tmp;
    int told = 0;
    if (fl_likely(nr == cma->nr_removals))
        return 0;
    cma->nr_removals = nr;
    fl_list_for_each_safe (id, tmp, &cma->ids, all_link) {
        if (!is_removed(id))
            continue;
        fl_cma_leave(id);
        __atomic_store_n(&id->state, FL_CMA_REMOVED, __ATOMIC_RELAXED);
        fl_cma_tell(id, RDMA_CM_EVENT_DEVICE_REMOVAL, 0, NULL);
        told++;
    }
    return told;
}

struct ibv_context **fl_cma_get_devices(int *nr)
{
    int n = 0, known;
    struct ibv_device **list = fl_device_list_get(&known);
    if (nr)
        *nr = 0;
    if (!list)
        return NULL;
    struct ibv_context **contexts = calloc((size_t)known + 1, sizeof(struct ibv_context *));
    pthread_mutex_lock(&lock);
    for (int i = 0; contexts && i < known; i++) {
        struct opened *o = open_device(FL_CONTAINER_OF(list[i], struct fl_device, device));
        if (o)
            contexts[n++] = o->context;
    }
    pthread_mutex_unlock(&lock);
    fl_device_list_free(list);
    if (nr)
        *nr = n;
    return contexts;
}

void fl_cma_free_devices(struct ibv_context **list)
{
    free(list);
}
