/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connection manager as one table with two instances, as struct fl_verbs: hardware (librdmacm, found at
 * run time) and soft. Each member has the signature and the errors of the function of librdmacm whose name it
 * bears after rdma_. The inline functions of <rdma/rdma_cma.h> and <rdma/rdma_verbs.h> work on either's ids.
 */
#ifndef FL_VERBS_RDMACM_H
#define FL_VERBS_RDMACM_H

#include <rdma/rdma_cma.h>

#include <farlane/error.h>

struct fl_rdmacm {
    const char *name; /* "hardware", "soft" */

    struct rdma_event_channel *(*create_event_channel)(void);
    void (*destroy_event_channel)(struct rdma_event_channel *channel);
    int (*get_cm_event)(struct rdma_event_channel *channel, struct rdma_cm_event **event);
    int (*ack_cm_event)(struct rdma_cm_event *event);
    const char *(*event_str)(enum rdma_cm_event_type event);

    int (*create_id)(struct rdma_event_channel *channel, struct rdma_cm_id **id, void *context,
                     enum rdma_port_space ps);
    int (*destroy_id)(struct rdma_cm_id *id);
    int (*migrate_id)(struct rdma_cm_id *id, struct rdma_event_channel *channel);

    int (*bind_addr)(struct rdma_cm_id *id, struct sockaddr *addr);
    int (*resolve_addr)(struct rdma_cm_id *id, struct sockaddr *src_addr, struct sockaddr *dst_addr,
                        int timeout_ms);
    int (*resolve_route)(struct rdma_cm_id *id, int timeout_ms);
    __be16 (*get_src_port)(struct rdma_cm_id *id);
    __be16 (*get_dst_port)(struct rdma_cm_id *id);

    int (*create_qp)(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    int (*create_qp_ex)(struct rdma_cm_id *id, struct ibv_qp_init_attr_ex *attr);
    void (*destroy_qp)(struct rdma_cm_id *id);
    int (*create_srq)(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
    int (*create_srq_ex)(struct rdma_cm_id *id, struct ibv_srq_init_attr_ex *attr);
    void (*destroy_srq)(struct rdma_cm_id *id);
    int (*init_qp_attr)(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask);

    int (*connect)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*establish)(struct rdma_cm_id *id);
    int (*listen)(struct rdma_cm_id *id, int backlog);
    int (*get_request)(struct rdma_cm_id *listen, struct rdma_cm_id **id);
    int (*accept)(struct rdma_cm_id *id, struct rdma_conn_param *param);
    int (*reject)(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
    int (*reject_ece)(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len);
    int (*disconnect)(struct rdma_cm_id *id);
    int (*notify)(struct rdma_cm_id *id, enum ibv_event_type event);

    int (*create_ep)(struct rdma_cm_id **id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                     struct ibv_qp_init_attr *attr);
    void (*destroy_ep)(struct rdma_cm_id *id);
    int (*getaddrinfo)(const char *node, const char *service, const struct rdma_addrinfo *hints,
                       struct rdma_addrinfo **res);
    void (*freeaddrinfo)(struct rdma_addrinfo *res);

    struct ibv_context **(*get_devices)(int *nr);
    void (*free_devices)(struct ibv_context **list);

    int (*set_option)(struct rdma_cm_id *id, int level, int name, void *value, size_t len);
    int (*set_local_ece)(struct rdma_cm_id *id, struct ibv_ece *ece);
    int (*get_remote_ece)(struct rdma_cm_id *id, struct ibv_ece *ece);
    int (*join_multicast)(struct rdma_cm_id *id, struct sockaddr *addr, void *context);
    int (*join_multicast_ex)(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context);
    int (*leave_multicast)(struct rdma_cm_id *id, struct sockaddr *addr);
};

extern const struct fl_rdmacm fl_rdmacm_soft;

/*
 * librdmacm, loaded at the first call and kept. -ENOENT with text where it is not installed. Members that an
 * old librdmacm lacks fail with ENOSYS. Any thread.
 */
int fl_rdmacm_hardware(const struct fl_rdmacm **rdmacm, struct fl_error *err);

#endif
