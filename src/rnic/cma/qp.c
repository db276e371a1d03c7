/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs and shared receive queues of ids, with the completion queues that the program does not bring.
 */
#include <string.h>

#include "base/log.h"
#include "rnic/cma/parts.h"
#include "rnic/verbs.h"

static void destroy_cq(struct ibv_cq **cq, struct ibv_comp_channel **channel)
{
    if (*cq)
        fl_cq_destroy(*cq);
    if (*channel)
        fl_channel_destroy(*channel);
    *cq = NULL;
    *channel = NULL;
}

static int create_cq(struct fl_cma_id *id, uint32_t len, struct ibv_cq **cq,
                     struct ibv_comp_channel **channel)
{
    *channel = fl_channel_create(id->id.verbs);
    if (!*channel)
        return -errno;
    *cq = fl_cq_create(id->id.verbs, (int)FL_MAX(len, 1u), &id->id, *channel, 0);
    if (*cq)
        return 0;
    int r = -errno;
    destroy_cq(cq, channel);
    return r;
}

/* What the program gave, else our own; both are shown in the id. */
static int set_cqs(struct fl_cma_id *id, struct ibv_qp_init_attr_ex *attr)
{
    struct rdma_cm_id *cm_id = &id->id;
    int r = 0;
    if (!attr->recv_cq) {
        r = create_cq(id, attr->srq ? 0 : attr->cap.max_recv_wr, &cm_id->recv_cq, &cm_id->recv_cq_channel);
        if (r)
            return r;
        attr->recv_cq = cm_id->recv_cq;
    }
    if (!attr->send_cq) {
        r = create_cq(id, attr->cap.max_send_wr, &cm_id->send_cq, &cm_id->send_cq_channel);
        if (r)
            destroy_cq(&cm_id->recv_cq, &cm_id->recv_cq_channel);
        attr->send_cq = cm_id->send_cq;
    }
    return r;
}

static void destroy_cqs(struct rdma_cm_id *id)
{
    destroy_cq(&id->recv_cq, &id->recv_cq_channel);
    destroy_cq(&id->send_cq, &id->send_cq_channel);
}

static void set_owner(struct fl_cma_id *id, struct ibv_qp *qp, bool on)
{
    if (fl_cma_lock(id->cma))
        return;
    fl_qp_of(qp)->cm_id = on ? id : NULL;
    id->qpn = on ? qp->qp_num : 0;
    if (on)
        id->srq = qp->srq;
    fl_cma_unlock(id->cma);
}

static int check_create(const struct fl_cma_id *id, const struct ibv_qp_init_attr_ex *attr)
{
    if (id->id.qp || !id->id.verbs)
        return -EINVAL;
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd)
        return -EINVAL;
    return attr->pd->context == id->id.verbs ? 0 : -EINVAL;
}

int fl_cma_create_qp_ex(struct rdma_cm_id *cm_id, struct ibv_qp_init_attr_ex *attr)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    if (!(attr->comp_mask & IBV_QP_INIT_ATTR_PD) || !attr->pd) {
        attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr->pd = cm_id->pd;
    }
    int r = check_create(id, attr);
    if (r)
        return fl_cma_result(r);
    if (!attr->srq)
        attr->srq = cm_id->srq;
    r = set_cqs(id, attr);
    if (r)
        return fl_cma_result(r);
    struct ibv_qp *qp = fl_qp_create_ex(cm_id->verbs, attr);
    if (!qp) {
        r = -errno;
        goto free_cqs;
    }
    cm_id->qp_type = attr->qp_type;
    r = fl_cma_qp_to_init(id, qp);
    if (r)
        goto free_qp;
    cm_id->pd = attr->pd;
    cm_id->qp = qp;
    set_owner(id, qp, true);
    return 0;

free_qp:
    fl_qp_destroy(qp);
free_cqs:
    destroy_cqs(cm_id);
    return fl_cma_result(r);
}

int fl_cma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct ibv_qp_init_attr_ex ex = {0};
    memcpy(&ex, attr, sizeof(*attr)); /* the struct without _ex is its beginning */
    ex.comp_mask = IBV_QP_INIT_ATTR_PD;
    ex.pd = pd ? pd : id->pd;
    int r = fl_cma_create_qp_ex(id, &ex);
    memcpy(attr, &ex, sizeof(*attr));
    return r;
}

void fl_cma_destroy_qp(struct rdma_cm_id *cm_id)
{
    struct ibv_qp *qp = cm_id->qp;
    if (!qp)
        return;
    set_owner(fl_cma_id_of(cm_id), qp, false);
    fl_qp_destroy(qp);
    cm_id->qp = NULL;
    destroy_cqs(cm_id);
}

int fl_cma_create_srq_ex(struct rdma_cm_id *cm_id, struct ibv_srq_init_attr_ex *attr)
{
    if (!(attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) || !attr->pd) {
        attr->pd = cm_id->pd;
        attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
    }
    if (cm_id->srq || !attr->pd || !(attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE)) {
        errno = EINVAL;
        return -1;
    }
    /* A listener at all addresses is of no device, but its program may have chosen one. */
    struct ibv_srq *srq = fl_srq_create_ex(attr->pd->context, attr);
    if (!srq)
        return -1;
    cm_id->pd = attr->pd;
    cm_id->srq = srq;
    return 0;
}

int fl_cma_create_srq(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    struct ibv_srq_init_attr_ex ex = {0};
    memcpy(&ex, attr, sizeof(*attr));
    ex.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    ex.srq_type = IBV_SRQT_BASIC;
    ex.pd = pd;
    int r = fl_cma_create_srq_ex(id, &ex);
    memcpy(attr, &ex, sizeof(*attr));
    return r;
}

void fl_cma_destroy_srq(struct rdma_cm_id *id)
{
    if (!id->srq)
        return;
    fl_srq_destroy(id->srq);
    id->srq = NULL;
}
