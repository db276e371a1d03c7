/* SPDX-License-Identifier: Apache-2.0 */
/* libibverbs, found at run time: farlane also runs where it is not installed. */
#include <errno.h>
#include <string.h>

#include "base/util.h"
#include "verbs/library.h"
#include "verbs/verbs.h"

struct table {
    struct fl_verbs verbs;
    int (*query_port)(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr);
};

static struct table hw;

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

#define MAY_LACK(symbol, member, less) FL_SYMBOL(struct table, verbs.member, symbol, less)
#define NEEDS(member)                  MAY_LACK("ibv_" #member, member, NULL)

static const struct fl_symbol symbols[] = {
    NEEDS(get_device_list),
    NEEDS(free_device_list),
    NEEDS(get_device_name),
    NEEDS(get_device_guid),
    MAY_LACK("ibv_get_device_index", get_device_index, no_device_index),
    NEEDS(open_device),
    NEEDS(close_device),
    NEEDS(get_async_event),
    NEEDS(ack_async_event),
    NEEDS(query_device),
    NEEDS(query_gid),
    MAY_LACK("_ibv_query_gid_ex", query_gid_ex, no_gid_ex),
    MAY_LACK("_ibv_query_gid_table", query_gid_table, no_gid_table),
    NEEDS(query_pkey),
    MAY_LACK("ibv_get_pkey_index", get_pkey_index, no_pkey_index),
    NEEDS(alloc_pd),
    NEEDS(dealloc_pd),
    NEEDS(reg_mr),
    NEEDS(reg_mr_iova),
    MAY_LACK("ibv_reg_mr_iova2", reg_mr_iova2, plain_iova2),
    MAY_LACK("ibv_reg_dmabuf_mr", reg_dmabuf_mr, no_dmabuf),
    NEEDS(rereg_mr),
    NEEDS(dereg_mr),
    NEEDS(create_comp_channel),
    NEEDS(destroy_comp_channel),
    NEEDS(create_cq),
    NEEDS(resize_cq),
    NEEDS(destroy_cq),
    NEEDS(get_cq_event),
    NEEDS(ack_cq_events),
    NEEDS(create_srq),
    NEEDS(modify_srq),
    NEEDS(query_srq),
    NEEDS(destroy_srq),
    NEEDS(create_qp),
    MAY_LACK("ibv_qp_to_qp_ex", qp_to_qp_ex, no_qp_ex),
    NEEDS(modify_qp),
    NEEDS(query_qp),
    MAY_LACK("ibv_query_qp_data_in_order", query_qp_data_in_order, no_data_in_order),
    NEEDS(destroy_qp),
    NEEDS(attach_mcast),
    NEEDS(detach_mcast),
    NEEDS(create_ah),
    NEEDS(init_ah_from_wc),
    NEEDS(create_ah_from_wc),
    NEEDS(destroy_ah),
    NEEDS(fork_init),
    MAY_LACK("ibv_is_fork_initialized", is_fork_initialized, no_fork_status),
    FL_SYMBOL(struct table, query_port, "ibv_query_port", NULL),
};

static struct table hw = {.verbs = {.name = "hardware",
                                    .query_port = query_port,
                                    .query_device_ex = query_device_ex,
                                    .create_srq_ex = create_srq_ex,
                                    .create_qp_ex = create_qp_ex}};

static struct fl_library library = {
    .file = "libibverbs.so.1",
    .package = "rdma-core",
    .version = "28",
    .symbols = symbols,
    .nr_symbols = FL_ARRAY_LEN(symbols),
    .table = &hw,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

int fl_verbs_hardware(const struct fl_verbs **verbs, struct fl_error *err)
{
    int r = fl_library_load(&library, err);
    if (!r)
        *verbs = &hw.verbs;
    return r;
}
