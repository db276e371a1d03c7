/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs, found at run time: farlane also runs where it is not installed. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>

#include "base/util.h"
#include "verbs/verbs.h"

#define LIBRARY "libibverbs.so.1"

static struct {
    pthread_mutex_t lock;
    bool loaded;
    struct fl_verbs verbs;
    int (*query_port)(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr);
} hw = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* As the header's ibv_query_port(), for which the library need not be linked */
static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, query_port);
    if (vctx)
        return vctx->query_port(context, port, attr, sizeof(*attr));
    memset(attr, 0, sizeof(*attr));
    return hw.query_port(context, port, (struct _compat_ibv_port_attr *)attr);
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, query_device_ex);
    int r = input && input->comp_mask ? EINVAL : EOPNOTSUPP;
    if (r != EINVAL && vctx)
        r = vctx->query_device_ex(context, input, attr, sizeof(*attr));
    if (r != EOPNOTSUPP && r != ENOSYS)
        return r;
    memset(attr, 0, sizeof(*attr));
    return hw.verbs.query_device(context, &attr->orig_attr);
}

/* The struct without _ex is the beginning of the other. */
static struct ibv_srq *create_srq_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, create_srq_ex);
    if (vctx)
        return vctx->create_srq_ex(context, attr);
    if (attr->comp_mask == IBV_SRQ_INIT_ATTR_PD)
        return hw.verbs.create_srq(attr->pd, (struct ibv_srq_init_attr *)attr);
    errno = EOPNOTSUPP;
    return NULL;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr)
{
    struct verbs_context *vctx = verbs_get_ctx_op(context, create_qp_ex);
    if (attr->comp_mask == IBV_QP_INIT_ATTR_PD)
        return hw.verbs.create_qp(attr->pd, (struct ibv_qp_init_attr *)attr);
    if (vctx)
        return vctx->create_qp_ex(context, attr);
    errno = EOPNOTSUPP;
    return NULL;
}

/* What an older library lacks */
static int no_device_index(struct ibv_device *device)
{
    return -1;
}

static int no_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index, struct ibv_gid_entry *entry,
                     uint32_t flags, size_t entry_len)
{
    return EOPNOTSUPP;
}

static ssize_t no_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                            uint32_t flags, size_t entry_len)
{
    return -EOPNOTSUPP;
}

static struct ibv_mr *no_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd,
                                int access)
{
    errno = EOPNOTSUPP;
    return NULL;
}

static struct ibv_qp_ex *no_qp_ex(struct ibv_qp *qp)
{
    errno = EOPNOTSUPP;
    return NULL;
}

static int no_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    return 0;
}

static enum ibv_fork_status no_fork_status(void)
{
    return IBV_FORK_DISABLED;
}

static struct ibv_mr *plain_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                  unsigned int access)
{
    /* The flags above the ordinary ones are wishes, which a library without this call cannot fulfil. */
    return hw.verbs.reg_mr_iova(pd, addr, len, iova,
                                (int)(access & ~(unsigned int)IBV_ACCESS_OPTIONAL_RANGE));
}

static int no_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
    errno = EOPNOTSUPP;
    return -1;
}

typedef void (*any_function)(void);

struct symbol {
    const char *name;
    size_t at;            /* in struct fl_verbs */
    any_function or_else; /* NULL: cannot do without */
};

#define NEEDS(sym, member)                                   \
    {                                                        \
        "ibv_" #sym, offsetof(struct fl_verbs, member), NULL \
    }
#define MAY_LACK(sym, member, less)                                   \
    {                                                                 \
#sym, offsetof(struct fl_verbs, member), (any_function)(less) \
    }

static const struct symbol symbols[] = {
    NEEDS(get_device_list, get_device_list),
    NEEDS(free_device_list, free_device_list),
    NEEDS(get_device_name, get_device_name),
    NEEDS(get_device_guid, get_device_guid),
    MAY_LACK(ibv_get_device_index, get_device_index, no_device_index),
    NEEDS(open_device, open_device),
    NEEDS(close_device, close_device),
    NEEDS(get_async_event, get_async_event),
    NEEDS(ack_async_event, ack_async_event),
    NEEDS(query_device, query_device),
    NEEDS(query_gid, query_gid),
    MAY_LACK(_ibv_query_gid_ex, query_gid_ex, no_gid_ex),
    MAY_LACK(_ibv_query_gid_table, query_gid_table, no_gid_table),
    NEEDS(query_pkey, query_pkey),
    MAY_LACK(ibv_get_pkey_index, get_pkey_index, no_pkey_index),
    NEEDS(alloc_pd, alloc_pd),
    NEEDS(dealloc_pd, dealloc_pd),
    NEEDS(reg_mr, reg_mr),
    NEEDS(reg_mr_iova, reg_mr_iova),
    MAY_LACK(ibv_reg_mr_iova2, reg_mr_iova2, plain_iova2),
    MAY_LACK(ibv_reg_dmabuf_mr, reg_dmabuf_mr, no_dmabuf),
    NEEDS(rereg_mr, rereg_mr),
    NEEDS(dereg_mr, dereg_mr),
    NEEDS(create_comp_channel, create_comp_channel),
    NEEDS(destroy_comp_channel, destroy_comp_channel),
    NEEDS(create_cq, create_cq),
    NEEDS(resize_cq, resize_cq),
    NEEDS(destroy_cq, destroy_cq),
    NEEDS(get_cq_event, get_cq_event),
    NEEDS(ack_cq_events, ack_cq_events),
    NEEDS(create_srq, create_srq),
    NEEDS(modify_srq, modify_srq),
    NEEDS(query_srq, query_srq),
    NEEDS(destroy_srq, destroy_srq),
    NEEDS(create_qp, create_qp),
    MAY_LACK(ibv_qp_to_qp_ex, qp_to_qp_ex, no_qp_ex),
    NEEDS(modify_qp, modify_qp),
    NEEDS(query_qp, query_qp),
    MAY_LACK(ibv_query_qp_data_in_order, query_qp_data_in_order, no_data_in_order),
    NEEDS(destroy_qp, destroy_qp),
    NEEDS(attach_mcast, attach_mcast),
    NEEDS(detach_mcast, detach_mcast),
    NEEDS(create_ah, create_ah),
    NEEDS(init_ah_from_wc, init_ah_from_wc),
    NEEDS(create_ah_from_wc, create_ah_from_wc),
    NEEDS(destroy_ah, destroy_ah),
    NEEDS(fork_init, fork_init),
    MAY_LACK(ibv_is_fork_initialized, is_fork_initialized, no_fork_status),
};

/* dlsym() gives the default version, which is that of the header. A preloaded library of the same functions
 * does not stand before it, as the handle's own scope is searched. */
static int fill(void *library, struct fl_error *err)
{
    for (size_t i = 0; i < FL_ARRAY_LEN(symbols); i++) {
        any_function f = (any_function)dlsym(library, symbols[i].name);
        if (!f)
            f = symbols[i].or_else;
        if (!f)
            return fl_error_set(err, -ENOENT, "%s has no %s: rdma-core 28 or newer is needed", LIBRARY,
                                symbols[i].name);
        memcpy((char *)&hw.verbs + symbols[i].at, &f, sizeof(f));
    }
    any_function compat = (any_function)dlsym(library, "ibv_query_port");
    if (!compat)
        return fl_error_set(err, -ENOENT, "%s has no ibv_query_port", LIBRARY);
    memcpy(&hw.query_port, &compat, sizeof(compat));
    hw.verbs.query_port = query_port;
    hw.verbs.query_device_ex = query_device_ex;
    hw.verbs.create_srq_ex = create_srq_ex;
    hw.verbs.create_qp_ex = create_qp_ex;
    hw.verbs.name = "hardware";
    return 0;
}

static int load(struct fl_error *err)
{
    void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fl_error_set(err, -ENOENT, "RDMA hardware needs rdma-core, which is not installed: %s",
                            dlerror());
    int r = fill(library, err);
    if (r)
        dlclose(library);
    return r;
}

int fl_verbs_hardware(const struct fl_verbs **verbs, struct fl_error *err)
{
    pthread_mutex_lock(&hw.lock);
    int r = hw.loaded ? 0 : load(err);
    hw.loaded = !r;
    pthread_mutex_unlock(&hw.lock);
    if (!r)
        *verbs = &hw.verbs;
    return r;
}
