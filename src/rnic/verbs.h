/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The software RNIC's control functions: each does what its manual page of libibverbs says, with the same
 * signature and the same way of giving errors. Any thread. src/verbs puts them into fl_verbs_soft. Data-path
 * calls are the header's own inline functions.
 */
#ifndef FL_RNIC_VERBS_H
#define FL_RNIC_VERBS_H

#include <stdbool.h>

#include <infiniband/verbs.h>

#include <farlane/error.h>

/* rnic.c: why the RNIC could not start, where a function failed with that errno; code 0: it did start */
void fl_rnic_failure(struct fl_error *err);
/* Who asks for that tells it: then it is not logged, too. A program that knows verbs alone learns of it by
 * the log. */
void fl_rnic_failure_is_told(void);

/* device.c, context.c */
struct ibv_device **fl_device_list_get(int *nr);
void fl_device_list_free(struct ibv_device **list);
bool fl_device_is_soft(const struct ibv_device *device); /* or one of some other library's? */
const char *fl_device_name(struct ibv_device *device);
__be64 fl_device_guid_get(struct ibv_device *device);
int fl_device_index(struct ibv_device *device);
struct ibv_context *fl_context_open(struct ibv_device *device);
int fl_context_close(struct ibv_context *context);
int fl_context_query_device(struct ibv_context *context, struct ibv_device_attr *attr);
int fl_context_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
                               struct ibv_device_attr_ex *attr, size_t len);
int fl_context_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t len);
int fl_context_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid);
int fl_context_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
                            struct ibv_gid_entry *entry, uint32_t flags, size_t entry_len);
ssize_t fl_context_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
                                   uint32_t flags, size_t entry_len);
int fl_context_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey);
int fl_context_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey);

/* async_event.c */
int fl_async_get(struct ibv_context *context, struct ibv_async_event *event);
void fl_async_ack(struct ibv_async_event *event);

/* domain.c */
struct ibv_pd *fl_pd_alloc(struct ibv_context *context);
struct ibv_pd *fl_pd_alloc_parent(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr);
int fl_pd_dealloc(struct ibv_pd *pd);
struct ibv_td *fl_td_alloc(struct ibv_context *context, struct ibv_td_init_attr *attr);
int fl_td_dealloc(struct ibv_td *td);

/* memory_region.c, memory_window.c */
struct ibv_mr *fl_mr_reg(struct ibv_pd *pd, void *addr, size_t len, int access);
struct ibv_mr *fl_mr_reg_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access);
struct ibv_mr *fl_mr_reg_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned int access);
int fl_mr_rereg(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len, int access);
int fl_mr_dereg(struct ibv_mr *mr);
struct ibv_mw *fl_mw_alloc(struct ibv_pd *pd, enum ibv_mw_type type);
int fl_mw_dealloc(struct ibv_mw *mw);
int fl_mw_bind1(struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind);

/* completion_queue.c, cq_channel.c, cq_poll.c */
struct ibv_comp_channel *fl_channel_create(struct ibv_context *context);
int fl_channel_destroy(struct ibv_comp_channel *channel);
struct ibv_cq *fl_cq_create(struct ibv_context *context, int cqe, void *cq_context,
                            struct ibv_comp_channel *channel, int vector);
struct ibv_cq_ex *fl_cq_create_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);
int fl_cq_resize(struct ibv_cq *cq, int cqe);
int fl_cq_modify(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
int fl_cq_destroy(struct ibv_cq *cq);
int fl_cq_event_get(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context);
void fl_cq_event_ack(struct ibv_cq *cq, unsigned int nr);
int fl_cq_poll(struct ibv_cq *cq, int max, struct ibv_wc *wc);
int fl_cq_req_notify(struct ibv_cq *cq, int solicited_only);
void fl_cq_set_ex_ops(struct ibv_cq_ex *cq, uint64_t wc_flags);

/* queue_pair.c, qp_attr.c, qp_ex.c */
struct ibv_qp *fl_qp_create(struct ibv_pd *pd, struct ibv_qp_init_attr *attr);
struct ibv_qp *fl_qp_create_ex(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp_ex *fl_qp_to_ex(struct ibv_qp *qp);
int fl_qp_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask);
int fl_qp_query(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, struct ibv_qp_init_attr *init);
int fl_qp_destroy(struct ibv_qp *qp);
int fl_qp_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fl_qp_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
/*
 * Of the READs posted from now on: each packet's data, checked, is offered to f, once for each byte and
 * mostly in order. True: f has put it where it belongs, and the request's SGEs are not looked at. Called by
 * whatever thread moves the RNIC on, with its lock held: f calls nothing of the verbs, and is quick. Where
 * data does not come in packets (shared memory) it is not called. f NULL: no longer.
 */
typedef bool fl_qp_place(void *arg, uint64_t wr_id, uint32_t offset, const void *data, uint32_t len);
void fl_qp_place_answers(struct ibv_qp *qp, fl_qp_place *f, void *arg);
int fl_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags);
int fl_qp_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);
int fl_qp_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid);

/* shared_receive_queue.c */
struct ibv_srq *fl_srq_create(struct ibv_pd *pd, struct ibv_srq_init_attr *attr);
struct ibv_srq *fl_srq_create_ex(struct ibv_context *context, struct ibv_srq_init_attr_ex *attr);
int fl_srq_modify(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask);
int fl_srq_query(struct ibv_srq *srq, struct ibv_srq_attr *attr);
int fl_srq_number(struct ibv_srq *srq, uint32_t *number);
int fl_srq_destroy(struct ibv_srq *srq);
int fl_srq_post_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* address_handle.c */
struct ibv_ah *fl_ah_create(struct ibv_pd *pd, struct ibv_ah_attr *attr);
int fl_ah_init_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
                       struct ibv_ah_attr *attr);
struct ibv_ah *fl_ah_create_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port);
int fl_ah_destroy(struct ibv_ah *ah);

#endif
