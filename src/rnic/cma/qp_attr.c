/* SPDX-License-Identifier: Apache-2.0 */
/* What a queue pair must be set to for its connection, and the steps that set it. */
#include <string.h>

#include "rnic/cma/parts.h"
#include "rnic/verbs.h"

/* A requester that tries for ever need not wait as long as one whose tries are counted, to whom Linux' code 0
 * (655 ms) is promised. */
#define RNR_TIMER_PATIENT 0
#define RNR_TIMER_QUICK   12 /* 0.64 ms */

static void init_attr(const struct fl_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
    *mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
    attr->pkey_index = 0;
    attr->port_num = id->id.port_num;
    if (fl_cma_is_datagram(id)) {
        *mask |= IBV_QP_QKEY;
        attr->qkey = RDMA_UDP_QKEY;
        return;
    }
    *mask |= IBV_QP_ACCESS_FLAGS;
    attr->qp_access_flags = 0;
    if (id->conn) {
        attr->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
        if (id->responder_resources)
            attr->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    }
}

static int rtr_attr(const struct fl_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
    *mask = IBV_QP_STATE;
    if (fl_cma_is_datagram(id))
        return 0;
    if (!id->conn)
        return -EINVAL;
    const struct fl_cm_route *route = fl_cm_route(id->conn);
    const struct fl_cm_terms *peer = fl_cm_peer(id->conn);
    int gid_index = fl_device_find_gid(id->device, &route->local);
    if (!peer->qpn || gid_index < 0)
        return -EINVAL;
    *mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    attr->ah_attr = (struct ibv_ah_attr){.is_global = 1,
                                         .port_num = id->id.port_num,
                                         .grh = {.flow_label = route->flow_label,
                                                 .sgid_index = (uint8_t)gid_index,
                                                 .hop_limit = route->hop_limit,
                                                 .traffic_class = id->tos}};
    memcpy(&attr->ah_attr.grh.dgid, &route->remote, sizeof(route->remote));
    attr->path_mtu = (enum ibv_mtu)route->mtu;
    attr->dest_qp_num = peer->qpn;
    attr->rq_psn = id->psn; /* what each side gives is where the other shall start */
    if (id->id.qp_type == IBV_QPT_RC) {
        *mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        attr->max_dest_rd_atomic = FL_MIN(id->responder_resources, peer->responder_resources);
        attr->min_rnr_timer = id->rnr_retry_count == FL_ROCE_RNR_RETRY_FOREVER ? RNR_TIMER_QUICK
                                                                               : RNR_TIMER_PATIENT;
    }
    return 0;
}

static int rts_attr(const struct fl_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
    *mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    attr->sq_psn = 0;
    if (fl_cma_is_datagram(id))
        return 0;
    if (!id->conn || !fl_cm_peer(id->conn)->qpn)
        return -EINVAL;
    const struct fl_cm_terms *peer = fl_cm_peer(id->conn);
    attr->sq_psn = peer->psn;
    if (id->id.qp_type == IBV_QPT_RC) {
        *mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        attr->timeout = id->ack_timeout ? id->ack_timeout : fl_cm_ack_timeout(id->conn);
        attr->retry_cnt = peer->retry_count;
        attr->rnr_retry = peer->rnr_retry_count;
        attr->max_rd_atomic = FL_MIN(id->initiator_depth, peer->initiator_depth);
    }
    return 0;
}

/* What both farlane peers offered */
static void agree(struct fl_cma_id *id)
{
    if (!id->id.qp || id->id.qp_type != IBV_QPT_RC)
        return;
    struct fl_qp *qp = fl_qp_of(id->id.qp);
    uint16_t features = fl_cm_peer(id->conn)->features & fl_cma_terms(id).features;
    qp->selective = features & FL_CM_SELECTIVE;
    qp->spray = features & FL_CM_SPRAY;
}

/* 0 or negative errno */
static int attr_for(struct fl_cma_id *id, struct ibv_qp_attr *attr, int *mask)
{
    int r = fl_cma_lock(id->cma);
    if (r)
        return r;
    switch (attr->qp_state) {
    case IBV_QPS_INIT:
        if (id->device && id->state != FL_CMA_REMOVED)
            init_attr(id, attr, mask);
        else
            r = id->device ? -ENODEV : -EINVAL;
        break;
    case IBV_QPS_RTR:
        r = rtr_attr(id, attr, mask);
        if (!r)
            agree(id);
        break;
    case IBV_QPS_RTS:
        r = rts_attr(id, attr, mask);
        break;
    default:
        r = -EINVAL;
        break;
    }
    fl_cma_unlock(id->cma);
    return r;
}

int fl_cma_init_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    return fl_cma_result(attr_for(fl_cma_id_of(id), attr, mask));
}

static int step(struct fl_cma_id *id, struct ibv_qp *qp, enum ibv_qp_state to)
{
    struct ibv_qp_attr attr = {.qp_state = to};
    int mask, r = attr_for(id, &attr, &mask);
    return r ? r : -fl_qp_modify(qp, &attr, mask);
}

int fl_cma_qp_to_init(struct fl_cma_id *id, struct ibv_qp *qp)
{
    int r = step(id, qp, IBV_QPS_INIT);
    if (fl_cma_is_datagram(id)) {
        r = r ? r : step(id, qp, IBV_QPS_RTR);
        r = r ? r : step(id, qp, IBV_QPS_RTS);
    }
    return r;
}

/* INIT once more: by now the rights of the peer are known. */
int fl_cma_qp_to_rts(struct fl_cma_id *id)
{
    int r = step(id, id->id.qp, IBV_QPS_INIT);
    r = r ? r : step(id, id->id.qp, IBV_QPS_RTR);
    return r ? r : step(id, id->id.qp, IBV_QPS_RTS);
}

void fl_cma_qp_to_error(struct fl_cma_id *id)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    if (id->id.qp && !fl_cma_is_datagram(id))
        fl_qp_modify(id->id.qp, &attr, IBV_QP_STATE);
}
