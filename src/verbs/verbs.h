/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The verbs' control functions as one table with two instances: hardware (libibverbs, found at run time) and
 * soft (the software RNIC of this process). Each member has the signature and the errors of the function of
 * libibverbs whose name it bears after ibv_. Data-path calls (ibv_post_send, ibv_poll_cq, ibv_wr_*,
 * ibv_start_poll, ...) and those that the header itself finds in the context (ibv_alloc_mw, ibv_create_cq_ex,
 * ...) are not here: call the header's inline functions. Three of those refer to functions of the library,
 * and are here: query_device_ex, create_qp_ex, create_srq_ex.
 */
#ifndef FL_VERBS_VERBS_H
#define FL_VERBS_VERBS_H

#include <infiniband/verbs.h>

#include <farlane/error.h>

struct fl_verbs {
    const char *name; /* "hardware", "soft" */

    struct ibv_device **(*get_device_list)(int *nr);
    void (*free_device_list)(struct ibv_device **list);
    const char *(*get_device_name)(struct ibv_device *device);
    __be64 (*get_device_guid)(struct ibv_device *device);
    int (*get_device_index)(struct ibv_device *device);
    struct ibv_context *(*open_device)(struct ibv_device *device);
    int (*close_device)(struct ibv_context *context);
    int (*get_async_event)(struct ibv_context *context, struct ibv_async_event *event);
    void (*ack_async_event)(struct ibv_async_event *event);

    int (*query_device)(struct ibv_context *context, struct ibv_device_attr *attr);
    int (*query_device_ex)(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                           struct ibv_device_attr_ex *attr);
    /* attr is filled whole, whatever the age of the library */
    int (*query_port)(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);
    int (*query_gid)(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
    int (*query_gid_ex)(struct ibv_context *context, uint32_t port, uint32_t index,
                        struct ibv_gid_entry *entry, uint32_t flags, size_t entry_len);
    ssize_t (*query_gid_table)(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                               uint32_t flags, size_t entry_len);
    int (*query_pkey)(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
    int (*get_pkey_index)(struct ibv_context *context, uint8_t port, __be16 pkey);

    struct ibv_pd *(*alloc_pd)(struct ibv_context *context);
    int (*dealloc_pd)(struct ibv_pd *pd);
    struct ibv_mr *(*reg_mr)(struct ibv_pd *pd, void *addr, size_t len, int access);
    struct ibv_mr *(*reg_mr_iova)(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access);
    struct ibv_mr *(*reg_mr_iova2)(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                   unsigned int access);
    struct ibv_mr *(*reg_dmabuf_mr)(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd,
                                    int access);
    int (*rereg_mr)(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len, int access);
    int (*dereg_mr)(struct ibv_mr *mr);

    struct ibv_comp_channel *(*create_comp_channel)(struct ibv_context *context);
    int (*destroy_comp_channel)(struct ibv_comp_channel *channel);
    struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
                                struct ibv_comp_channel *channel, int vector);
    int (*resize_cq)(struct ibv_cq *cq, int cqe);
    int (*destroy_cq)(struct ibv_cq *cq);
    int (*get_cq_event)(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
    void (*ack_cq_events)(struct ibv_cq *cq, unsigned int nr);

    struct ibv_srq *(*create_srq)(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
    struct ibv_srq *(*create_srq_ex)(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
    int (*modify_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
    int (*query_srq)(struct ibv_srq *srq, struct ibv_srq_attr *attr);
    int (*destroy_srq)(struct ibv_srq *srq);

    struct ibv_qp *(*create_qp)(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
    struct ibv_qp *(*create_qp_ex)(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
    struct ibv_qp_ex *(*qp_to_qp_ex)(struct ibv_qp *qp);
    int (*modify_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
    int (*query_qp)(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init);
    int (*query_qp_data_in_order)(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
    int (*destroy_qp)(struct ibv_qp *qp);
    int (*attach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
    int (*detach_mcast)(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

    struct ibv_ah *(*create_ah)(struct ibv_pd *pd, struct ibv_ah_attr *attr);
    int (*init_ah_from_wc)(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
                           struct ibv_ah_attr *attr);
    struct ibv_ah *(*create_ah_from_wc)(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                        uint8_t port);
    int (*destroy_ah)(struct ibv_ah *ah);

    int (*fork_init)(void);
    enum ibv_fork_status (*is_fork_initialized)(void);
};

extern const struct fl_verbs fl_verbs_soft;

/*
 * libibverbs, loaded at the first call and kept. -ENOENT with text where it is not installed. Members that an
 * old libibverbs lacks say "not supported" in the way of their manual page. Any thread.
 */
int fl_verbs_hardware(const struct fl_verbs **verbs, struct fl_error *err);

#endif
