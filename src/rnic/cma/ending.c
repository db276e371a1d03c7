/* SPDX-License-Identifier: Apache-2.0 */
/* Refusing and disconnecting. */
#include "rnic/cma/parts.h"

#define REJ_ECE 35 /* the vendor's option is not supported (enhanced connection establishment) */

static int reject(struct rdma_cm_id *cm_id, const void *data, uint8_t len, uint16_t reason)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    struct fl_cma *cma = id->cma;
    int r = fl_cma_lock(cma);
    if (r)
        return fl_cma_result(r);
    if (!id->conn)
        r = -EINVAL;
    else if (fl_cma_is_datagram(id))
        r = fl_cm_sidr_reply(cma->cm, id->conn, FL_CM_SIDR_REJECT, 0, 0, data, data ? len : 0,
                             cma->rnic->now);
    else
        r = fl_cm_reject(cma->cm, id->conn, reason, NULL, 0, data, data ? len : 0, cma->rnic->now);
    fl_cma_unlock(cma);
    return fl_cma_result(r == -ENOTCONN ? -EINVAL : r);
}

int fl_cma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
    return reject(id, data, len, FL_CM_REJ_CONSUMER);
}

int fl_cma_reject_ece(struct rdma_cm_id *id, const void *data, uint8_t len)
{
    return reject(id, data, len, REJ_ECE);
}

int fl_cma_disconnect(struct rdma_cm_id *cm_id)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    struct fl_cma *cma = id->cma;
    int r = fl_cma_lock(cma);
    if (r)
        return fl_cma_result(r);
    bool connected = id->conn && !fl_cma_is_datagram(id);
    fl_cma_unlock(cma);
    if (!connected)
        return fl_cma_result(-EINVAL);
    fl_cma_qp_to_error(id);
    r = fl_cma_lock(cma);
    if (r)
        return fl_cma_result(r);
    fl_cma_leaving_tell(id);
    r = id->conn ? fl_cm_disconnect(cma->cm, id->conn, NULL, 0, cma->rnic->now) : -EINVAL;
    fl_cma_unlock(cma);
    return r ? fl_cma_result(-EINVAL) : fl_cma_complete(id);
}

int fl_cma_notify(struct rdma_cm_id *cm_id, enum ibv_event_type event)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    struct fl_cma *cma = id->cma;
    int r = fl_cma_lock(cma);
    if (r)
        return fl_cma_result(r);
    if (!id->conn || event != IBV_EVENT_COMM_EST)
        r = -EINVAL;
    else
        fl_cm_established(cma->cm, id->conn, cma->rnic->now); /* it may be known already */
    fl_cma_unlock(cma);
    return fl_cma_result(r);
}
