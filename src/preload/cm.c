/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of librdmacm, all by the one connection manager of this process (fl_cm()). */
#include <rdma/rdma_verbs.h>

#include "preload/preload.h"

FL_EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
    return fl_cm()->create_event_channel();
}

FL_EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *channel)
{
    fl_cm()->destroy_event_channel(channel);
}

FL_EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    return fl_cm()->get_cm_event(channel, event);
}

FL_EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
    return fl_cm()->ack_cm_event(event);
}

FL_EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
    return fl_cm()->event_str(event);
}

FL_EXPORT int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                             enum rdma_port_space ps)
{
    return fl_cm()->create_id(channel, id, context, ps);
}

FL_EXPORT int rdma_destroy_id(struct rdma_cm_id *id)
{
    return fl_cm()->destroy_id(id);
}

FL_EXPORT int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    return fl_cm()->migrate_id(id, channel);
}

FL_EXPORT int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
    return fl_cm()->bind_addr(id, addr);
}

FL_EXPORT int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
                                int timeout_ms)
{
    return fl_cm()->resolve_addr(id, src_addr, dst_addr, timeout_ms);
}

FL_EXPORT int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
    return fl_cm()->resolve_route(id, timeout_ms);
}

FL_EXPORT __be16 rdma_get_src_port(struct rdma_cm_id *id)
{
    return fl_cm()->get_src_port(id);
}

FL_EXPORT __be16 rdma_get_dst_port(struct rdma_cm_id *id)
{
    return fl_cm()->get_dst_port(id);
}

FL_EXPORT int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return fl_cm()->create_qp(id, pd, attr);
}

FL_EXPORT int rdma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr)
{
    return fl_cm()->create_qp_ex(id, attr);
}

FL_EXPORT void rdma_destroy_qp(struct rdma_cm_id *id)
{
    fl_cm()->destroy_qp(id);
}

FL_EXPORT int rdma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return fl_cm()->create_srq(id, pd, attr);
}

FL_EXPORT int rdma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr)
{
    return fl_cm()->create_srq_ex(id, attr);
}

FL_EXPORT void rdma_destroy_srq(struct rdma_cm_id *id)
{
    fl_cm()->destroy_srq(id);
}

FL_EXPORT int rdma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    return fl_cm()->init_qp_attr(id, attr, mask);
}

FL_EXPORT int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    return fl_cm()->connect(id, param);
}

FL_EXPORT int rdma_establish(struct rdma_cm_id *id)
{
    return fl_cm()->establish(id);
}

FL_EXPORT int rdma_listen(struct rdma_cm_id *id, int backlog)
{
    return fl_cm()->listen(id, backlog);
}

FL_EXPORT int rdma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id)
{
    return fl_cm()->get_request(listen, id);
}

FL_EXPORT int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    return fl_cm()->accept(id, param);
}

FL_EXPORT int rdma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    return fl_cm()->reject(id, private_data, private_data_len);
}

FL_EXPORT int rdma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    return fl_cm()->reject_ece(id, private_data, private_data_len);
}

FL_EXPORT int rdma_disconnect(struct rdma_cm_id *id)
{
    return fl_cm()->disconnect(id);
}

FL_EXPORT int rdma_notify(struct rdma_cm_id *id, enum ibv_event_type event)
{
    return fl_cm()->notify(id, event);
}

FL_EXPORT int rdma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                             struct ibv_qp_init_attr *attr)
{
    return fl_cm()->create_ep(id, res, pd, attr);
}

FL_EXPORT void rdma_destroy_ep(struct rdma_cm_id *id)
{
    fl_cm()->destroy_ep(id);
}

FL_EXPORT int rdma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                               struct rdma_addrinfo **res)
{
    return fl_cm()->getaddrinfo(node, service, hints, res);
}

FL_EXPORT void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
    fl_cm()->freeaddrinfo(res);
}

FL_EXPORT struct ibv_context **rdma_get_devices(int *nr)
{
    return fl_cm()->get_devices(nr);
}

FL_EXPORT void rdma_free_devices(struct ibv_context **list)
{
    fl_cm()->free_devices(list);
}

FL_EXPORT int rdma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len)
{
    return fl_cm()->set_option(id, level, name, value, len);
}

FL_EXPORT int rdma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    return fl_cm()->set_local_ece(id, ece);
}

FL_EXPORT int rdma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    return fl_cm()->get_remote_ece(id, ece);
}

FL_EXPORT int rdma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    return fl_cm()->join_multicast(id, addr, context);
}

FL_EXPORT int rdma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr,
                                     void *context)
{
    return fl_cm()->join_multicast_ex(id, attr, context);
}

FL_EXPORT int rdma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    return fl_cm()->leave_multicast(id, addr);
}
