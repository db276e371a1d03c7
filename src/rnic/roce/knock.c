/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is anybody there? A zero-length WRITE with the PSN before the next one: behind what the peer expects, so
 * that it is not executed, and acknowledged as any request whose acknowledgement was lost (9.7.5.1.5).
 * Nothing waits for that acknowledgement; it counts as a packet that came.
 */
#include "rnic/roce/parts.h"

bool fl_roce_qp_knock(struct fl_roce_qp *qp, struct fl_roce_tx *tx)
{
    const uint8_t opcode = FL_IB_OPCODE(FL_IB_RC, FL_IB_WRITE_ONLY);
    if (qp->cap.type != IBV_QPT_RC || qp->state != IBV_QPS_RTS || qp->req.psn_una != qp->req.psn_max)
        return false;
    fl_roce_tx_begin(tx, opcode, qp, fl_psn_add(qp->req.psn_una, UINT32_MAX));
    *(struct fl_reth *)fl_roce_tx_hdr(tx, fl_ib_opcodes[opcode].reth) = (struct fl_reth){0};
    fl_roce_tx_bth(tx)->ack |= FL_BTH_ACKREQ;
    fl_roce_tx_end(qp, tx, 0);
    return true;
}
