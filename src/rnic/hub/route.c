/* SPDX-License-Identifier: Apache-2.0 */
/* Whose a packet is. */
#include "rnic/hub/table.h"
#include "wire/ib_cm.h"

#define HDRS_LEN (sizeof(struct fl_bth) + sizeof(struct fl_deth))

static uint32_t slot_of_comm_id(const struct fl_hub_table *table, be32 id)
{
    uint32_t slot = be32_get(id) >> FL_HUB_COMM_SHIFT;
    return table->shared->slots[slot].state == FL_HUB_FREE ? 0 : slot;
}

static uint32_t route_cm(const struct fl_hub_table *table, const struct fl_cm_mad *mad, uint32_t self)
{
    uint64_t service_id;
    uint32_t slot;
    switch (be16_get(mad->hdr.attr_id)) {
    case FL_CM_REQ:
        service_id = be64_get(mad->req.service_id);
        break;
    case FL_CM_SIDR_REQ:
        service_id = be64_get(mad->sidr_req.service_id);
        break;
    case FL_CM_SIDR_REP:
        return slot_of_comm_id(table, mad->sidr_rep.request_id);
    default: /* all others begin with the sender's ID and the receiver's */
        slot = slot_of_comm_id(table, mad->rtu.remote_id);
        if (!slot && table->young)
            return 0; /* it is sent again; an answer would end the connection of one that is about to come */
        return slot ? slot : self;
    }
    slot = fl_hub_slot_of_service(table, service_id);
    if (!slot && table->settling)
        return 0; /* it is asked again; a refusal would be for good */
    return slot ? slot : self;
}

uint32_t fl_hub_route(const struct fl_hub_table *table, const uint8_t *packet, size_t len, uint32_t self)
{
    const struct fl_bth *bth = (const struct fl_bth *)packet;
    const struct fl_cm_mad *mad;
    uint32_t qpn;
    if (len < sizeof(*bth) + FL_IB_ICRC_LEN)
        return 0;
    qpn = be24_get(bth->qpn);
    if (qpn != FL_IB_QP1)
        return fl_hub_slot_of_qpn(table->shared, qpn);
    if (len < HDRS_LEN + FL_MAD_LEN + FL_IB_ICRC_LEN)
        return 0;
    mad = fl_cm_view(packet + HDRS_LEN, FL_MAD_LEN);
    return mad ? route_cm(table, mad, self) : self;
}
