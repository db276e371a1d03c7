/* SPDX-License-Identifier: Apache-2.0 */
/* UD, the receiving side (9.8.3.3, 10.2.5): one packet, one message, or nothing. */
#include "rnic/roce/parts.h"

static bool acceptable(struct fl_roce_qp *qp, const struct fl_ib_packet *packet)
{
    struct fl_roce_responder *resp = &qp->resp;
    if (be32_get(fl_ib_deth(packet)->qkey) != qp->attr.qkey || packet->payload_len > qp->mtu)
        return false;
    if (!fl_roce_take_recv(qp))
        return false;
    /* What does not fit must not cost a receive: anybody may send to a datagram queue pair. */
    return (uint64_t)FL_ROCE_GRH_LEN + packet->payload_len <= resp->recv.room;
}

/* There is no service level in RoCE v2. Adapters tell there what lies in the 40 bytes before the payload, and
 * programs (UCX) look for the addresses by that. */
static uint8_t l3_type(const uint8_t *grh)
{
    const uint8_t with_udp = 8, ip6 = 1, ip4 = 2;
    return with_udp | (grh[0] >> 4 == 6 ? ip6 : ip4);
}

void fl_roce_datagram(struct fl_roce_qp *qp, const struct fl_ib_packet *packet,
                      const struct fl_roce_meta *meta)
{
    static const uint8_t no_grh[FL_ROCE_GRH_LEN];
    struct fl_roce_responder *resp = &qp->resp;
    if (!acceptable(qp, packet)) {
        qp->stats.nr_dropped++;
        return;
    }
    struct fl_roce_recv *recv = &resp->recv;
    if (fl_roce_scatter(qp, recv->sge, recv->nr_sge, 0, meta && meta->grh ? meta->grh : no_grh,
                        FL_ROCE_GRH_LEN) ||
        fl_roce_scatter(qp, recv->sge, recv->nr_sge, FL_ROCE_GRH_LEN, packet->payload, packet->payload_len)) {
        fl_roce_recv_done(qp, IBV_WC_LOC_PROT_ERR, NULL);
        fl_roce_qp_fail(qp);
        return;
    }
    resp->offset = FL_ROCE_GRH_LEN + packet->payload_len;
    resp->l3_type = meta && meta->grh ? l3_type(meta->grh) : 0;
    fl_roce_recv_done(qp, IBV_WC_SUCCESS, packet);
}
