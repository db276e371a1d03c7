/* SPDX-License-Identifier: Apache-2.0 */
/* SENDs that come whole, without packets: their order and their receives were seen to by those who move them.
 */
#include "rnic/roce/parts.h"

bool fl_roce_qp_message(struct fl_roce_qp *qp, const void *data, uint32_t len, const uint32_t *imm,
                        bool solicited)
{
    struct fl_roce_responder *resp = &qp->resp;
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS,
                        .opcode = IBV_WC_RECV,
                        .byte_len = len,
                        .qp_num = qp->cap.qpn,
                        .src_qp = qp->attr.dest_qpn};
    bool ready = qp->state == IBV_QPS_RTR || qp->state == IBV_QPS_RTS || qp->state == IBV_QPS_SQD ||
                 qp->state == IBV_QPS_SQE;
    if (!ready || resp->failed)
        return false;
    if (resp->recv.taken ||
        !fl_roce_take_recv(qp)) { /* inside of another, or more than were promised a receive */
        fl_roce_refuse(qp, FL_IB_NAK_REQUEST, IBV_WC_WR_FLUSH_ERR);
        return false;
    }
    if (len > resp->recv.room) {
        fl_roce_refuse(qp, FL_IB_NAK_REQUEST, IBV_WC_LOC_LEN_ERR);
        return false;
    }
    if (fl_roce_scatter(qp, resp->recv.sge, resp->recv.nr_sge, 0, data, len)) {
        fl_roce_refuse(qp, FL_IB_NAK_OPERATIONAL, IBV_WC_LOC_PROT_ERR);
        return false;
    }
    wc.wr_id = resp->recv.wr_id;
    if (imm) {
        wc.wc_flags = IBV_WC_WITH_IMM;
        wc.imm_data = *imm;
    }
    resp->recv.taken = false;
    qp->ops->complete(qp, &wc, false, solicited);
    return true;
}
