/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The face of librdmacm over the software RNIC: each function does what the manual page of its namesake
 * (rdma_ in the place of fl_cma_) says, with the same signature and the same way of giving errors. Any
 * thread. src/verbs puts them into fl_rdmacm_soft. docs/design/rdmacm.md tells how it is made.
 */
#ifndef FL_RNIC_RDMACM_H
#define FL_RNIC_RDMACM_H

#include <rdma/rdma_cma.h>

/* channel.c, event.c */
struct rdma_event_channel *fl_cma_create_event_channel(void);
void fl_cma_destroy_event_channel(struct rdma_event_channel *channel);
int fl_cma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event);
int fl_cma_ack_cm_event(struct rdma_cm_event *event);
const char *fl_cma_event_str(enum rdma_cm_event_type event);

/* id.c */
int fl_cma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                     enum rdma_port_space ps);
int fl_cma_destroy_id(struct rdma_cm_id *id);
int fl_cma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel);

/* address.c */
int fl_cma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr);
int fl_cma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
                        int timeout_ms);
int fl_cma_resolve_route(struct rdma_cm_id *id, int timeout_ms);
__be16 fl_cma_get_src_port(struct rdma_cm_id *id);
__be16 fl_cma_get_dst_port(struct rdma_cm_id *id);

/* qp.c, qp_attr.c */
int fl_cma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
int fl_cma_create_qp_ex(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr);
void fl_cma_destroy_qp(struct rdma_cm_id *id);
int fl_cma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
int fl_cma_create_srq_ex(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);
void fl_cma_destroy_srq(struct rdma_cm_id *id);
int fl_cma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);

/* active.c, passive.c, ending.c */
int fl_cma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int fl_cma_establish(struct rdma_cm_id *id);
int fl_cma_listen(struct rdma_cm_id *id, int backlog);
int fl_cma_get_request(struct rdma_cm_id *listen, struct rdma_cm_id **id);
int fl_cma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param);
int fl_cma_reject(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
int fl_cma_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
int fl_cma_disconnect(struct rdma_cm_id *id);
int fl_cma_notify(struct rdma_cm_id *id, enum ibv_event_type event);

/* endpoint.c, addrinfo.c */
int fl_cma_create_ep(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                     struct ibv_qp_init_attr *attr);
void fl_cma_destroy_ep(struct rdma_cm_id *id);
int fl_cma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                       struct rdma_addrinfo **res);
void fl_cma_freeaddrinfo(struct rdma_addrinfo *res);

/* device.c */
struct ibv_context **fl_cma_get_devices(int *nr);
void fl_cma_free_devices(struct ibv_context **list);

/* option.c */
int fl_cma_set_option(struct rdma_cm_id *id, int level, int name, void *value, size_t len);
int fl_cma_set_local_ece(struct rdma_cm_id *id, struct ibv_ece *ece);
int fl_cma_get_remote_ece(struct rdma_cm_id *id, struct ibv_ece *ece);
int fl_cma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
int fl_cma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context);
int fl_cma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr);

#endif
