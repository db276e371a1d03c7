/* SPDX-License-Identifier: Apache-2.0 */
/* One RoCE packet, BTH to pad, without ICRC; the first byte is the opcode of the packet before it, 255 for
 * none. */
#include "fuzz.h"

#include "wire/ib.h"

static void inside(const struct fl_ib_packet *p, const uint8_t *bytes, const void *hdr, size_t len)
{
    const uint8_t *at = hdr;
    assert(!at || (at >= bytes + sizeof(struct fl_bth) && at + len <= p->payload));
}

static void icrc_survives_marks(const uint8_t *bytes, uint32_t len)
{
    struct fl_icrc_ip4 ip = {.src_port = 49152, .dst_port = FL_ROCE_PORT, .df = true};
    uint32_t zero = fl_icrc_rest(fl_icrc_ip4(&ip, len), bytes, len);
    ip.id = (uint16_t)(bytes[11] << 8 | bytes[10]);
    uint16_t id = 0;
    bool found = fl_icrc_find_id(zero ^ fl_icrc_rest(fl_icrc_ip4(&ip, len), bytes, len), len, &id);
    assert(found && id == ip.id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fl_ib_packet p;
    if (!len)
        return 0;
    int prev = data[0] == 255 ? -1 : data[0];
    const uint8_t *bytes = data + 1;
    if (fl_ib_packet_view(&p, bytes, len - 1))
        return 0;
    inside(&p, bytes, fl_ib_reth(&p), sizeof(struct fl_reth));
    inside(&p, bytes, fl_ib_aeth(&p), sizeof(struct fl_aeth));
    inside(&p, bytes, fl_ib_immdt(&p), sizeof(struct fl_immdt));
    inside(&p, bytes, fl_ib_atomic(&p), sizeof(struct fl_atomic_eth));
    inside(&p, bytes, fl_ib_atomic_ack(&p), sizeof(struct fl_atomic_ack_eth));
    inside(&p, bytes, fl_ib_ieth(&p), sizeof(struct fl_ieth));
    inside(&p, bytes, fl_ib_deth(&p), sizeof(struct fl_deth));
    assert(p.payload + p.payload_len + fl_bth_pad(p.bth) == bytes + len - 1);
    assert(p.payload_len == 0 || (p.op->attr & FL_IB_HAS_PAYLOAD));
    assert(p.psn <= FL_IB_QPN_MASK && p.qpn <= FL_IB_QPN_MASK);
    if (fl_ib_aeth(&p))
        assert(fl_aeth_text(fl_ib_aeth(&p)->syndrome));
    if (prev < 0 || fl_ib_opcodes[prev].name)
        (void)fl_ib_may_follow(prev, p.bth->opcode);
    if (len - 1 >= sizeof(struct fl_bth) + FL_IB_ICRC_LEN)
        icrc_survives_marks(bytes, (uint32_t)(len - 1));
    return 0;
}
