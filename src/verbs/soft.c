/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "rnic/verbs.h"
#include "verbs/verbs.h"

static int query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    return fl_context_query_port(context, port, attr, sizeof(*attr));
}

static int query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr)
{
    return fl_context_query_device_ex(context, input, attr, sizeof(*attr));
}

static struct ibv_mr *no_dmabuf(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd,
                                int access)
{
    errno = EOPNOTSUPP;
    return NULL;
}

static int fork_init(void)
{
    return 0; /* nothing is pinned, so nothing has to be kept from the child */
}

static enum ibv_fork_status is_fork_initialized(void)
{
    return IBV_FORK_UNNEEDED;
}

const struct fl_verbs fl_verbs_soft = {
    .name = "soft",
    .get_device_list = fl_device_list_get,
    .free_device_list = fl_device_list_free,
    .get_device_name = fl_device_name,
    .get_device_guid = fl_device_guid_get,
    .get_device_index = fl_device_index,
    .open_device = fl_context_open,
    .close_device = fl_context_close,
    .get_async_event = fl_async_get,
    .ack_async_event = fl_async_ack,
    .query_device = fl_context_query_device,
    .query_device_ex = query_device_ex,
    .query_port = query_port,
    .query_gid = fl_context_query_gid,
    .query_gid_ex = fl_context_query_gid_ex,
    .query_gid_table = fl_context_query_gid_table,
    .query_pkey = fl_context_query_pkey,
    .get_pkey_index = fl_context_pkey_index,
    .alloc_pd = fl_pd_alloc,
    .dealloc_pd = fl_pd_dealloc,
    .reg_mr = fl_mr_reg,
    .reg_mr_iova = fl_mr_reg_iova,
    .reg_mr_iova2 = fl_mr_reg_iova2,
    .reg_dmabuf_mr = no_dmabuf,
    .rereg_mr = fl_mr_rereg,
    .dereg_mr = fl_mr_dereg,
    .create_comp_channel = fl_channel_create,
    .destroy_comp_channel = fl_channel_destroy,
    .create_cq = fl_cq_create,
    .resize_cq = fl_cq_resize,
    .destroy_cq = fl_cq_destroy,
    .get_cq_event = fl_cq_event_get,
    .ack_cq_events = fl_cq_event_ack,
    .create_srq = fl_srq_create,
    .create_srq_ex = fl_srq_create_ex,
    .modify_srq = fl_srq_modify,
    .query_srq = fl_srq_query,
    .destroy_srq = fl_srq_destroy,
    .create_qp = fl_qp_create,
    .create_qp_ex = fl_qp_create_ex,
    .qp_to_qp_ex = fl_qp_to_ex,
    .modify_qp = fl_qp_modify,
    .query_qp = fl_qp_query,
    .query_qp_data_in_order = fl_qp_data_in_order,
    .destroy_qp = fl_qp_destroy,
    .attach_mcast = fl_qp_attach_mcast,
    .detach_mcast = fl_qp_detach_mcast,
    .create_ah = fl_ah_create,
    .init_ah_from_wc = fl_ah_init_from_wc,
    .create_ah_from_wc = fl_ah_create_from_wc,
    .destroy_ah = fl_ah_destroy,
    .fork_init = fork_init,
    .is_fork_initialized = is_fork_initialized,
};
