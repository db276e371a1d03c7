/* SPDX-License-Identifier: Apache-2.0 */
/* The receiving side: SENDs and WRITEs, packet by packet, into memory (9.7.4.1, 9.4.1, 9.4.3). */
#include "base/copy.h"
#include "base/try.h"
#include "rnic/roce/parts.h"

static enum fl_roce_verdict take_send(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_responder *resp = &qp->resp;
    if (packet->op->attr & FL_IB_STARTS) {
        if (!fl_roce_take_recv(qp))
            return FL_ROCE_NO_RECV;
        resp->offset = 0;
    }
    if ((uint64_t)resp->offset + packet->payload_len > resp->recv.room)
        return FL_ROCE_BAD_LENGTH;
    if (fl_roce_scatter(qp, resp->recv.sge, resp->recv.nr_sge, resp->offset, packet->payload,
                        packet->payload_len))
        return FL_ROCE_BAD_LOCAL;
    const struct fl_ieth *ieth = fl_ib_ieth(packet);
    if (ieth && qp->ops->invalidate(qp, be32_get(ieth->rkey), true))
        return FL_ROCE_BAD_ACCESS;
    return FL_ROCE_OK;
}

/* The whole range is checked at once, and each packet's part again, as the key may have gone in between. */
static enum fl_roce_verdict begin_write(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_responder *resp = &qp->resp;
    const struct fl_reth *reth = fl_ib_reth(packet);
    void *ptr;
    uint32_t len = be32_get(reth->dma_len);
    if (!(qp->attr.access & IBV_ACCESS_REMOTE_WRITE) || len > FL_ROCE_MSG_MAX)
        return FL_ROCE_BAD_REQUEST;
    resp->va = be64_get(reth->va);
    resp->rkey = be32_get(reth->rkey);
    resp->write_len = len;
    resp->offset = 0;
    if (len && qp->ops->remote(qp, resp->rkey, resp->va, FAULT(8) ? 1 : len, IBV_ACCESS_REMOTE_WRITE, &ptr))
        return FL_ROCE_BAD_ACCESS; /* a write of nothing has no key to be checked (9.4.3) */
    return FL_ROCE_OK;
}

static enum fl_roce_verdict take_write(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_responder *resp = &qp->resp;
    uint16_t attr = packet->op->attr;
    void *ptr;
    if (attr & FL_IB_STARTS) {
        enum fl_roce_verdict v = begin_write(qp, packet);
        if (v != FL_ROCE_OK)
            return v;
    }
    uint64_t end = (uint64_t)resp->offset + packet->payload_len;
    if (attr & FL_IB_ENDS ? end != resp->write_len : end >= resp->write_len)
        return FL_ROCE_BAD_REQUEST;
    if ((attr & FL_IB_SEND) && !fl_roce_take_recv(qp)) /* an immediate takes a receive */
        return FL_ROCE_NO_RECV;
    if (packet->payload_len) {
        if (qp->ops->remote(qp, resp->rkey, resp->va + resp->offset, FAULT(8) ? 1 : packet->payload_len,
                            IBV_ACCESS_REMOTE_WRITE, &ptr))
            return FL_ROCE_BAD_ACCESS;
        if (!fl_try_copy_by(ptr, packet->payload, packet->payload_len, fl_copy_watched))
            return FL_ROCE_BAD_ACCESS;
    }
    return FL_ROCE_OK;
}

enum fl_roce_verdict fl_roce_inbound(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_responder *resp = &qp->resp;
    uint16_t attr = packet->op->attr;
    if (attr & FL_IB_ENDS ? packet->payload_len > qp->mtu : packet->payload_len != qp->mtu)
        return FL_ROCE_BAD_REQUEST; /* 9.8.3.2 */
    if (!(attr & FL_IB_STARTS) && (attr & FL_IB_ENDS) && !packet->payload_len)
        return FL_ROCE_BAD_REQUEST; /* the last of several packets brings something */
    enum fl_roce_verdict v = attr & FL_IB_WRITE ? take_write(qp, packet) : take_send(qp, packet);
    if (v != FL_ROCE_OK)
        return v;
    resp->offset += packet->payload_len;
    resp->epsn = fl_psn_add(packet->psn, 1);
    if (attr & FL_IB_ENDS) {
        resp->msn = fl_psn_add(resp->msn, 1);
        if (attr & FL_IB_SEND)
            fl_roce_recv_done(qp, IBV_WC_SUCCESS, packet);
    }
    return FL_ROCE_OK;
}
