/* SPDX-License-Identifier: Apache-2.0 */
/* Making and ending objects: each goes to whose context it is in. */
#include "preload/preload.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

FL_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
    return fl_verbs_of(context)->alloc_pd(context);
}

FL_EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
    return fl_verbs_of(pd->context)->dealloc_pd(pd);
}

FL_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    return fl_verbs_of(pd->context)->reg_mr(pd, addr, len, access);
}

FL_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access)
{
    return fl_verbs_of(pd->context)->reg_mr_iova(pd, addr, len, iova, access);
}

FL_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
                                          unsigned int access)
{
    return fl_verbs_of(pd->context)->reg_mr_iova2(pd, addr, len, iova, access);
}

FL_EXPORT struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova,
                                           int fd, int access)
{
    return fl_verbs_of(pd->context)->reg_dmabuf_mr(pd, offset, len, iova, fd, access);
}

FL_EXPORT int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len,
                           int access)
{
    return fl_verbs_of(mr->context)->rereg_mr(mr, flags, pd, addr, len, access);
}

FL_EXPORT int ibv_dereg_mr(struct ibv_mr *mr)
{
    return fl_verbs_of(mr->context)->dereg_mr(mr);
}

FL_EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
    return fl_verbs_of(context)->create_comp_channel(context);
}

FL_EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *channel)
{
    return fl_verbs_of(channel->context)->destroy_comp_channel(channel);
}

FL_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
                                       struct ibv_comp_channel *channel, int vector)
{
    return fl_verbs_of(context)->create_cq(context, cqe, cq_context, channel, vector);
}

FL_EXPORT int ibv_resize_cq(struct ibv_cq *cq, int cqe)
{
    return fl_verbs_of(cq->context)->resize_cq(cq, cqe);
}

FL_EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
    return fl_verbs_of(cq->context)->destroy_cq(cq);
}

FL_EXPORT int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **cq_context)
{
    return fl_verbs_of(channel->context)->get_cq_event(channel, cq, cq_context);
}

FL_EXPORT void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nr)
{
    fl_verbs_of(cq->context)->ack_cq_events(cq, nr);
}

FL_EXPORT struct ibv_srq *ibv_create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    return fl_verbs_of(pd->context)->create_srq(pd, attr);
}

FL_EXPORT int ibv_modify_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr, int mask)
{
    return fl_verbs_of(srq->context)->modify_srq(srq, attr, mask);
}

FL_EXPORT int ibv_query_srq(struct ibv_srq *srq, struct ibv_srq_attr *attr)
{
    return fl_verbs_of(srq->context)->query_srq(srq, attr);
}

FL_EXPORT int ibv_destroy_srq(struct ibv_srq *srq)
{
    return fl_verbs_of(srq->context)->destroy_srq(srq);
}

FL_EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    return fl_verbs_of(pd->context)->create_qp(pd, attr);
}

FL_EXPORT struct ibv_qp_ex *ibv_qp_to_qp_ex(struct ibv_qp *qp)
{
    return fl_verbs_of(qp->context)->qp_to_qp_ex(qp);
}

FL_EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
    return fl_verbs_of(qp->context)->modify_qp(qp, attr, mask);
}

FL_EXPORT int ibv_query_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask,
                           struct ibv_qp_init_attr *init)
{
    return fl_verbs_of(qp->context)->query_qp(qp, attr, mask, init);
}

FL_EXPORT int ibv_query_qp_data_in_order(struct ibv_qp *qp, enum ibv_wr_opcode op, uint32_t flags)
{
    return fl_verbs_of(qp->context)->query_qp_data_in_order(qp, op, flags);
}

FL_EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
    return fl_verbs_of(qp->context)->destroy_qp(qp);
}

FL_EXPORT int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return fl_verbs_of(qp->context)->attach_mcast(qp, gid, lid);
}

FL_EXPORT int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
    return fl_verbs_of(qp->context)->detach_mcast(qp, gid, lid);
}

FL_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    return fl_verbs_of(pd->context)->create_ah(pd, attr);
}

FL_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc,
                                  struct ibv_grh *grh, struct ibv_ah_attr *attr)
{
    return fl_verbs_of(context)->init_ah_from_wc(context, port, wc, grh, attr);
}

FL_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
                                               uint8_t port)
{
    return fl_verbs_of(pd->context)->create_ah_from_wc(pd, wc, grh, port);
}

FL_EXPORT int ibv_destroy_ah(struct ibv_ah *ah)
{
    return fl_verbs_of(ah->context)->destroy_ah(ah);
}
