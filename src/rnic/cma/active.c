/* SPDX-License-Identifier: Apache-2.0 */
/* The side that asks for a connection, and what both sides say of their queue pairs. */
#include "rnic/cma/parts.h"

#define COUNT_MAX 7 /* three bits in the messages */

/* What stands for "as much as can be": the device's limit, and for a passive side what its peer asked for */
static bool take_depth(uint8_t *depth, uint8_t given, uint8_t any, bool passive)
{
    uint8_t most = passive ? *depth : FL_ROCE_RD_MAX;
    if (given == any)
        *depth = FL_MIN(most, FL_ROCE_RD_MAX);
    else if (given > FL_ROCE_RD_MAX)
        return false;
    else
        *depth = given;
    return true;
}

int fl_cma_take_param(struct fl_cma_id *id, const struct rdma_conn_param *param)
{
    static const struct rdma_conn_param all = {.responder_resources = RDMA_MAX_RESP_RES,
                                               .initiator_depth = RDMA_MAX_INIT_DEPTH,
                                               .retry_count = COUNT_MAX,
                                               .rnr_retry_count = COUNT_MAX};
    if (!param)
        param = &all;
    if (!take_depth(&id->responder_resources, param->responder_resources, RDMA_MAX_RESP_RES, id->passive) ||
        !take_depth(&id->initiator_depth, param->initiator_depth, RDMA_MAX_INIT_DEPTH, id->passive))
        return -EINVAL;
    id->retry_count = FL_MIN(param->retry_count, COUNT_MAX);
    id->rnr_retry_count = FL_MIN(param->rnr_retry_count, COUNT_MAX);
    if (!id->id.qp) {
        id->qpn = param->qp_num & FL_IB_QPN_MASK;
        id->srq = param->srq;
    }
    return 0;
}

static uint16_t features_of(const struct fl_cma_id *id)
{
    if (id->id.qp_type != IBV_QPT_RC)
        return 0;
    if (!id->id.qp) /* a program that sets the states itself knows nothing of how packets are sent again */
        return FL_CM_KNOCK;
    return FL_CM_KNOCK | FL_CM_SELECTIVE | (id->cma->rnic->spray ? FL_CM_SPRAY : 0);
}

struct fl_cm_terms fl_cma_terms(const struct fl_cma_id *id)
{
    return (struct fl_cm_terms){
        .qpn = id->qpn,
        .psn = id->psn,
        .responder_resources = id->responder_resources,
        .initiator_depth = id->initiator_depth,
        .retry_count = id->retry_count,
        .rnr_retry_count = id->rnr_retry_count,
        .srq = id->srq,
        .features = features_of(id),
        .ece_vendor = id->local_ece.vendor_id & 0xffffff,
        .ece_options = id->local_ece.options,
    };
}

static uint64_t service_of(const struct fl_cma_id *id)
{
    return fl_cm_service_id((enum fl_cm_port_space)(id->id.ps & 0xff),
                            fl_cma_port_of(&id->id.route.addr.dst_addr));
}

static int begin(struct fl_cma_id *id, const struct rdma_conn_param *param)
{
    struct fl_cm_connect connect = {
        .service_id = service_of(id),
        .src_port = fl_cma_port_of(&id->id.route.addr.src_addr),
        .service = id->id.qp_type == IBV_QPT_UC ? FL_IB_UC : FL_IB_RC,
        .route = id->route,
        .terms = fl_cma_terms(id),
        .private_data = param ? param->private_data : NULL,
        .private_len = param && param->private_data ? param->private_data_len : 0,
        .owner = id,
    };
    return fl_cm_connect(id->cma->cm, &connect, id->cma->rnic->now, &id->conn);
}

static int begin_datagram(struct fl_cma_id *id, const struct rdma_conn_param *param)
{
    struct fl_cm_resolve resolve = {
        .service_id = service_of(id),
        .src_port = fl_cma_port_of(&id->id.route.addr.src_addr),
        .route = id->route,
        .private_data = param ? param->private_data : NULL,
        .private_len = param && param->private_data ? param->private_data_len : 0,
        .owner = id,
    };
    return fl_cm_resolve(id->cma->cm, &resolve, id->cma->rnic->now, &id->conn);
}

int fl_cma_connect(struct rdma_cm_id *cm_id, struct rdma_conn_param *param)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    int r = fl_cma_lock(id->cma);
    if (r)
        return fl_cma_result(r);
    r = id->state == FL_CMA_ROUTE_RESOLVED ? fl_cma_take_param(id, param) : -EINVAL;
    if (!r)
        r = fl_cma_is_datagram(id) ? begin_datagram(id, param) : begin(id, param);
    if (!r)
        id->state = FL_CMA_CONNECTING;
    fl_cma_unlock(id->cma);
    return r ? fl_cma_result(r) : fl_cma_complete(id);
}

int fl_cma_establish(struct rdma_cm_id *cm_id)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    if (cm_id->qp) { /* then it is done when the peer's answer is fetched */
        errno = EINVAL;
        return -1;
    }
    int r = fl_cma_lock(id->cma);
    if (r)
        return fl_cma_result(r);
    r = id->conn && !id->passive && !fl_cma_is_datagram(id)
            ? fl_cm_ready(id->cma->cm, id->conn, NULL, 0, id->cma->rnic->now)
            : -EINVAL;
    if (!r)
        fl_cma_connected(id);
    fl_cma_unlock(id->cma);
    return fl_cma_result(r == -ENOTCONN ? -EINVAL : r);
}
