/* SPDX-License-Identifier: Apache-2.0 */
/* librdmacm, found at run time: farlane also runs where it is not installed. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/util.h"
#include "verbs/rdmacm.h"

#define LIBRARY "librdmacm.so.1"

static struct {
    pthread_mutex_t lock;
    bool loaded;
    struct fl_rdmacm rdmacm;
} hw = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* What an older library lacks */
static int lacks(void)
{
    errno = ENOSYS;
    return -1;
}

static int no_id(struct rdma_cm_id *id)
{
    return lacks();
}

static int no_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    return lacks();
}

static int no_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    return lacks();
}

static int no_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    return lacks();
}

static int no_join_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
    return lacks();
}

typedef void (*any_function)(void);

struct symbol {
    const char *name;
    size_t at;            /* in struct fl_rdmacm */
    any_function or_else; /* NULL: cannot do without */
};

#define MAY_LACK(function, less)                                                      \
    {                                                                                 \
        "rdma_" #function, offsetof(struct fl_rdmacm, function), (any_function)(less) \
    }
#define NEEDS(function) MAY_LACK(function, NULL)

static const struct symbol symbols[] = {
    NEEDS(create_event_channel),
    NEEDS(destroy_event_channel),
    NEEDS(get_cm_event),
    NEEDS(ack_cm_event),
    NEEDS(event_str),
    NEEDS(create_id),
    NEEDS(destroy_id),
    NEEDS(migrate_id),
    NEEDS(bind_addr),
    NEEDS(resolve_addr),
    NEEDS(resolve_route),
    NEEDS(get_src_port),
    NEEDS(get_dst_port),
    NEEDS(create_qp),
    NEEDS(create_qp_ex),
    NEEDS(destroy_qp),
    NEEDS(create_srq),
    NEEDS(create_srq_ex),
    NEEDS(destroy_srq),
    MAY_LACK(init_qp_attr, no_qp_attr),
    NEEDS(connect),
    MAY_LACK(establish, no_id),
    NEEDS(listen),
    NEEDS(get_request),
    NEEDS(accept),
    NEEDS(reject),
    MAY_LACK(reject_ece, no_reject_ece),
    NEEDS(disconnect),
    NEEDS(notify),
    NEEDS(create_ep),
    NEEDS(destroy_ep),
    NEEDS(getaddrinfo),
    NEEDS(freeaddrinfo),
    NEEDS(get_devices),
    NEEDS(free_devices),
    NEEDS(set_option),
    MAY_LACK(set_local_ece, no_ece),
    MAY_LACK(get_remote_ece, no_ece),
    NEEDS(join_multicast),
    MAY_LACK(join_multicast_ex, no_join_ex),
    NEEDS(leave_multicast),
};

static int fill(void *library, struct fl_error *err)
{
    for (size_t i = 0; i < FL_ARRAY_LEN(symbols); i++) {
        any_function f = (any_function)dlsym(library, symbols[i].name);
        if (!f)
            f = symbols[i].or_else;
        if (!f)
            return fl_error_set(err, -ENOENT, "%s has no %s: rdma-core 28 or newer is needed", LIBRARY,
                                symbols[i].name);
        memcpy((char *)&hw.rdmacm + symbols[i].at, &f, sizeof(f));
    }
    hw.rdmacm.name = "hardware";
    return 0;
}

static int load(struct fl_error *err)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fl_error_set(err, -ENOENT, "RDMA hardware needs librdmacm, which is not installed: %s",
                            dlerror());
    int r = fill(library, err);
    if (r)
        dlclose(library);
    return r;
}

int fl_rdmacm_hardware(const struct fl_rdmacm **rdmacm, struct fl_error *err)
{
    pthread_mutex_lock(&hw.lock);
    int r = hw.loaded ? 0 : load(err);
    hw.loaded = !r;
    pthread_mutex_unlock(&hw.lock);
    if (!r)
        *rdmacm = &hw.rdmacm;
    return r;
}
