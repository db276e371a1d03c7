/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ib.h"

#include <errno.h>

#include "wire/literal.h"

/* A packet as Linux sent it: IP header, UDP header, BTH to ICRC. */
struct sent {
    const char *ip, *udp, *packet;
};

static const struct sent send_imm = {/* one byte */
                                     "45000030b64f400040116fbd0a4d000c0a4d000b", "d06612b7001c0000",
                                     "0500ffff00000011807af255010203043938dd41"};
static const struct sent send_inv = {"45000094f3e84000401131c00a4d000c0a4d000b", "d03912b700800000",
                                     "1780ffff0000001180a6cef70800016c00070e151c232a31383f464d545b626970777e8"
                                     "58c939aa1a8afb6bdc4cbd2d9e0e7eef5fc030a11181f"
                                     "262d343b424950575e656c737a81888f969da4abb2b9c0c7ced5dce3eaf1f8ff060d141"
                                     "b222930373e454c535a61686f767d848b9299a0a7aeb57a"
                                     "4d30dd"};
static const struct sent write_ip6 = {
    "6000000000681140fd770000000000000000000000000001fd770000000000000000000000000002", "dbf912b700680000",
    "0a00ffff0000001180babbc1000055ad348f0b000000040b0000004072646d612d70696e672d303a204142434445464748494a4b"
    "4c4d4e4f505152"
    "535455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f707172006e745b14"};

static size_t bytes_of(uint8_t *out, const char *hex)
{
    size_t len = strlen(hex) / 2;
    literal(out, len, hex);
    return len;
}

static struct fl_ib_packet viewed(const uint8_t *bytes, size_t len)
{
    struct fl_ib_packet packet;
    assert_int_equal(fl_ib_packet_view(&packet, bytes, len), 0);
    return packet;
}

static void literal_bth(void **state)
{
    uint8_t bytes[256];
    size_t len = bytes_of(bytes, send_imm.packet);
    struct fl_ib_packet p = viewed(bytes, len - 4);
    assert_string_equal(p.op->name, "RC SEND only with immediate");
    assert_int_equal(p.qpn, 0x11);
    assert_int_equal(p.psn, 0x7af255);
    assert_int_equal(be16_get(p.bth->pkey), 0xffff);
    assert_int_equal(p.bth->ack, FL_BTH_ACKREQ);
    assert_int_equal(be32_get(fl_ib_immdt(&p)->data), 0x01020304);
    assert_int_equal(p.payload_len, 0);
    assert_null(fl_ib_reth(&p));
    struct fl_bth again;
    fl_bth_set(&again, 5, 0xffff, 0x11, 0x7af255, 0);
    again.ack = FL_BTH_ACKREQ;
    assert_memory_equal(&again, bytes, sizeof(again));

    len = bytes_of(bytes, send_inv.packet);
    p = viewed(bytes, len - 4);
    assert_string_equal(p.op->name, "RC SEND only with invalidate");
    assert_true(p.bth->flags & FL_BTH_SOLICITED);
    assert_int_equal(be32_get(fl_ib_ieth(&p)->rkey), 0x0800016c);
    assert_int_equal(p.payload_len, 100);
    assert_int_equal(p.payload[1], 0x07);
}

static void literal_rdma(void **state)
{
    uint8_t bytes[256];
    size_t len = bytes_of(bytes, write_ip6.packet);
    struct fl_ib_packet p = viewed(bytes, len - 4);
    const struct fl_reth *reth = fl_ib_reth(&p);
    assert_int_equal(be64_get(reth->va), 0x55ad348f0b00);
    assert_int_equal(be32_get(reth->rkey), 0x40b);
    assert_int_equal(be32_get(reth->dma_len), 64);
    assert_int_equal(p.payload_len, 64);
    assert_memory_equal(p.payload, "rdma-ping-0: ABC", 16);

    /* write only with immediate, no data */
    len = bytes_of(bytes, "0b00ffff00000011807af26100005571ebc3d00000000244000000000506070830adeb4f");
    p = viewed(bytes, len - 4);
    assert_int_equal(be32_get(fl_ib_reth(&p)->dma_len), 0);
    assert_int_equal(be32_get(fl_ib_immdt(&p)->data), 0x05060708);

    /* read request, and the only packet of a response of one byte */
    len = bytes_of(bytes, "0c00ffff00000011807af26600005571ebc3c00000000244000000019d5ee390");
    p = viewed(bytes, len - 4);
    assert_int_equal(be32_get(fl_ib_reth(&p)->dma_len), 1);
    len = bytes_of(bytes, "1030ffff00000011007af2661f0000110000000059cebeb1");
    p = viewed(bytes, len - 4);
    assert_int_equal(fl_bth_pad(p.bth), 3);
    assert_int_equal(p.payload_len, 1);
    assert_int_equal(fl_ib_aeth(&p)->syndrome, 0x1f);
    assert_int_equal(be24_get(fl_ib_aeth(&p)->msn), 0x11);
}

static void literal_atomics(void **state)
{
    uint8_t bytes[256];
    size_t len = bytes_of(
        bytes, "1300ffff00000011807af26e00005571ebc3f0000000024400000000000000010000000000000007305fcb85");
    struct fl_ib_packet p = viewed(bytes, len - 4);
    const struct fl_atomic_eth *eth = fl_ib_atomic(&p);
    assert_int_equal(be64_get(eth->va), 0x5571ebc3f000);
    assert_int_equal(be32_get(eth->rkey), 0x244);
    assert_int_equal(be64_get(eth->swap_add), 1);
    assert_int_equal(be64_get(eth->compare), 7);
    len = bytes_of(bytes, "1200ffff00000011007af26d1f000016000000000000002802f4e7a2");
    p = viewed(bytes, len - 4);
    assert_int_equal(be64_get(fl_ib_atomic_ack(&p)->original), 40);
    assert_int_equal(be24_get(fl_ib_aeth(&p)->msn), 22);
}

static void literal_deth(void **state)
{
    uint8_t bytes[256];
    size_t len = bytes_of(bytes, "6500ffff00000011000000000123456700000011000000115a5a5a5ac099e402");
    struct fl_ib_packet p = viewed(bytes, len - 4);
    assert_int_equal(be32_get(fl_ib_deth(&p)->qkey), 0x01234567);
    assert_int_equal(be24_get(fl_ib_deth(&p)->src_qpn), 0x11);
    assert_int_equal(be32_get(fl_ib_immdt(&p)->data), 0x11);
    assert_int_equal(p.payload_len, 4);
}

static uint32_t icrc4(const struct sent *sent, const uint8_t *packet, size_t len, uint16_t *id)
{
    uint8_t ip[20], udp[8];
    bytes_of(ip, sent->ip);
    bytes_of(udp, sent->udp);
    *id = (uint16_t)(ip[4] << 8 | ip[5]);
    struct fl_icrc_ip4 in = {
        .src_port = (uint16_t)(udp[0] << 8 | udp[1]), .dst_port = FL_ROCE_PORT, .id = *id, .df = true};
    memcpy(&in.src, ip + 12, 4);
    memcpy(&in.dst, ip + 16, 4);
    uint32_t whole = fl_icrc_rest(fl_icrc_ip4(&in, (uint32_t)len), packet, (uint32_t)len);

    /* the identification found again from what it does to the ICRC */
    in.id = 0;
    uint32_t zero = fl_icrc_rest(fl_icrc_ip4(&in, (uint32_t)len), packet, (uint32_t)len);
    uint16_t found = 0;
    assert_true(fl_icrc_find_id(zero ^ whole, (uint32_t)len, &found));
    assert_int_equal(found, *id);
    static struct fl_icrc_finder finder;
    found = 0;
    assert_true(fl_icrc_finder_id(&finder, zero ^ whole, (uint32_t)len, &found));
    assert_int_equal(found, *id);
    return whole;
}

static void literal_icrc(void **state)
{
    const struct sent *v4[] = {&send_imm, &send_inv};
    uint8_t packet[256], ip[40], udp[8];
    le32 at_end;
    for (size_t i = 0; i < 2; i++) {
        uint16_t id;
        size_t len = bytes_of(packet, v4[i]->packet);
        memcpy(&at_end, packet + len - 4, 4);
        assert_int_equal(icrc4(v4[i], packet, len, &id), le32_get(at_end));
        packet[4] ^= FL_BTH_FECN; /* a router may mark it */
        assert_int_equal(icrc4(v4[i], packet, len, &id), le32_get(at_end));
        packet[11] ^= 1;
        assert_int_not_equal(icrc4(v4[i], packet, len, &id), le32_get(at_end));
    }

    size_t len = bytes_of(packet, write_ip6.packet);
    bytes_of(ip, write_ip6.ip);
    bytes_of(udp, write_ip6.udp);
    struct fl_icrc_ip6 in = {.src_port = (uint16_t)(udp[0] << 8 | udp[1]), .dst_port = FL_ROCE_PORT};
    memcpy(in.src, ip + 8, 16);
    memcpy(in.dst, ip + 24, 16);
    memcpy(&at_end, packet + len - 4, 4);
    assert_int_equal(fl_icrc_rest(fl_icrc_ip6(&in, (uint32_t)len), packet, (uint32_t)len), le32_get(at_end));
}

static void each_id_adds_its_own(void **state)
{
    struct fl_icrc_ip4 zero = {
        .src = be32_of(0x0a000001), .src_port = 0xc123, .dst_port = FL_ROCE_PORT, .df = true};
    for (uint32_t id = 0; id < 1u << 16; id++) {
        struct fl_icrc_ip4 in = zero;
        in.id = (uint16_t)id;
        assert_int_equal(fl_icrc_ip4(&zero, id % 4200) ^ fl_icrc_ip4_id((uint16_t)id),
                         fl_icrc_ip4(&in, id % 4200));
    }
}

/* It is computed in another way where no bit of the masked byte is set. */
static void ecn_is_not_under_the_icrc(void **state)
{
    uint8_t packet[64] = {0x04, 0, 0xff, 0xff};
    for (size_t i = 5; i < sizeof(packet); i++)
        packet[i] = (uint8_t)(i * 29);
    for (uint32_t len = sizeof(struct fl_bth) + FL_IB_ICRC_LEN; len <= sizeof(packet); len++) {
        packet[4] = 0;
        uint32_t icrc = fl_icrc_rest(0x12345678, packet, len);
        for (uint32_t ecn = 1; ecn < 256; ecn++) {
            packet[4] = (uint8_t)ecn;
            assert_int_equal(fl_icrc_rest(0x12345678, packet, len), icrc);
        }
    }
}

/* One wrong bit in the packet is not explained by an identification, but for one in 65536. */
static void wrong_icrc_has_no_id(void **state)
{
    static struct fl_icrc_finder finder;
    unsigned nr_found = 0;
    for (uint32_t bit = 0; bit < 32; bit++)
        for (uint32_t len = 16; len <= 4096 + 44; len += 48) {
            uint16_t id;
            bool here = fl_icrc_find_id(1u << bit, len, &id);
            assert_int_equal(fl_icrc_finder_id(&finder, 1u << bit, len, &id), here);
            nr_found += here;
        }
    assert_in_range(nr_found, 0, 3);
    uint16_t id = 1;
    assert_true(fl_icrc_find_id(0, 100, &id));
    assert_int_equal(id, 0);
}

/* All lengths share the finder's tables. */
static void every_length_finds_the_id(void **state)
{
    static struct fl_icrc_finder finder;
    static uint8_t packet[4096 + 64];
    struct fl_icrc_ip4 in = {.src_port = 0xc123, .dst_port = FL_ROCE_PORT, .df = true};
    for (uint32_t len = 16; len <= sizeof(packet); len += 4) {
        in.id = (uint16_t)(len * 40503u);
        uint32_t with = fl_icrc_rest(fl_icrc_ip4(&in, len), packet, len);
        uint16_t id = 0, want = in.id;
        in.id = 0;
        uint32_t without = fl_icrc_rest(fl_icrc_ip4(&in, len), packet, len);
        assert_true(fl_icrc_finder_id(&finder, with ^ without, len, &id));
        assert_int_equal(id, want);
    }
}

static void refused_packets(void **state)
{
    uint8_t bytes[64] = {4, 0, 0xff, 0xff};
    struct fl_ib_packet p;
    assert_int_equal(fl_ib_packet_view(&p, bytes, 12), 0);
    assert_int_equal(fl_ib_packet_view(&p, bytes, 8), -EPROTO);
    assert_int_equal(fl_ib_packet_view(&p, bytes, 0), -EPROTO);
    assert_int_equal(fl_ib_packet_view(&p, bytes, 14), -EPROTO);
    bytes[1] = 0x10; /* a pad byte of nothing */
    assert_int_equal(fl_ib_packet_view(&p, bytes, 12), -EPROTO);
    assert_int_equal(fl_ib_packet_view(&p, bytes, 16), 0);
    assert_int_equal(p.payload_len, 3);
    bytes[1] = 0x01; /* version 1 */
    assert_int_equal(fl_ib_packet_view(&p, bytes, 16), -EPROTO);
    bytes[1] = 0;
    bytes[0] = 10; /* no room for the RETH */
    assert_int_equal(fl_ib_packet_view(&p, bytes, 24), -EPROTO);
    assert_int_equal(fl_ib_packet_view(&p, bytes, 28), 0);
    bytes[0] = 12; /* a read request has no payload */
    assert_int_equal(fl_ib_packet_view(&p, bytes, 28), 0);
    assert_int_equal(fl_ib_packet_view(&p, bytes, 32), -EPROTO);
    bytes[0] = 21;
    assert_int_equal(fl_ib_packet_view(&p, bytes, 32), -EPROTO);
}

/* Table 38 once more, typed out: header lengths of every opcode; 0 where there is none. */
static void opcode_table(void **state)
{
    static const uint8_t rc[32] = {12, 12, 12, 16, 12, 16, 28, 12, 12, 16, 28, 32, 28, 16, 12, 16,
                                   16, 16, 24, 40, 40, 0,  16, 16, 0,  0,  0,  0,  0,  0,  0,  0};
    static const uint8_t uc[32] = {12, 12, 12, 16, 12, 16, 28, 12, 12, 16, 28, 32};
    for (int op = 0; op < 256; op++) {
        const struct fl_ib_opcode *e = &fl_ib_opcodes[op];
        uint8_t want = op < 32                  ? rc[op]
                       : op >= 32 && op < 64    ? uc[op - 32]
                       : op == 0x64             ? 20
                       : op == 0x65             ? 24
                       : op == FL_IB_OPCODE_CNP ? 12
                       : op == 0xc0             ? 16 /* farlane's own: SACK, ... */
                       : op == 0xc1             ? 12 /* ... probe */
                                                : 0;
        assert_int_equal(e->hdr_len, want);
        assert_int_equal(!!e->name, !!want);
        assert_true(want <= FL_IB_HDRS_MAX);
        assert_int_equal(!!e->reth, !!(e->attr & FL_IB_HAS_RETH));
        assert_int_equal(!!e->aeth, !!(e->attr & FL_IB_HAS_AETH));
        assert_int_equal(!!e->deth, !!(e->attr & FL_IB_HAS_DETH));
        assert_int_equal(!!e->immdt, !!(e->attr & FL_IB_HAS_IMMDT));
        assert_int_equal(!!e->ieth, !!(e->attr & FL_IB_HAS_IETH));
        assert_int_equal(!!e->atomic, !!(e->attr & FL_IB_HAS_ATOMIC));
        assert_int_equal(!!e->atomic_ack, !!(e->attr & FL_IB_HAS_ATOMIC_ACK));
    }
}

static void what_may_follow(void **state)
{
    assert_true(fl_ib_may_follow(-1, FL_IB_SEND_FIRST));
    assert_false(fl_ib_may_follow(-1, FL_IB_SEND_MIDDLE));
    assert_false(fl_ib_may_follow(-1, FL_IB_SEND_LAST));
    assert_true(fl_ib_may_follow(FL_IB_SEND_FIRST, FL_IB_SEND_MIDDLE));
    assert_true(fl_ib_may_follow(FL_IB_SEND_FIRST, FL_IB_SEND_LAST_INV));
    assert_true(fl_ib_may_follow(FL_IB_SEND_MIDDLE, FL_IB_SEND_LAST_IMM));
    assert_false(fl_ib_may_follow(FL_IB_SEND_MIDDLE, FL_IB_SEND_ONLY));
    assert_false(fl_ib_may_follow(FL_IB_SEND_FIRST, FL_IB_WRITE_LAST));
    assert_false(fl_ib_may_follow(FL_IB_SEND_FIRST, FL_IB_READ_REQUEST));
    assert_true(fl_ib_may_follow(FL_IB_SEND_LAST, FL_IB_WRITE_ONLY_IMM));
    assert_true(fl_ib_may_follow(FL_IB_READ_REQUEST, FL_IB_FETCH_ADD));
    assert_true(fl_ib_may_follow(FL_IB_WRITE_FIRST, FL_IB_WRITE_LAST_IMM));
    assert_false(fl_ib_may_follow(FL_IB_WRITE_LAST, FL_IB_WRITE_LAST));
    assert_true(fl_ib_may_follow(FL_IB_READ_FIRST, FL_IB_READ_LAST));
    assert_false(fl_ib_may_follow(FL_IB_READ_FIRST, FL_IB_READ_ONLY));
    assert_false(fl_ib_may_follow(FL_IB_SEND_FIRST, 0x20 | FL_IB_SEND_LAST));
}

/* Table 45: RNR timer values, in units of 10 microseconds. */
static void rnr_timers(void **state)
{
    static const uint32_t table[32] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                                       48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                                       2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
    for (uint8_t code = 0; code < 32; code++) {
        assert_int_equal(fl_ib_rnr_us(code), table[code] * 10);
        assert_int_equal(fl_ib_rnr_us(code | 0xe0), table[code] * 10);
        assert_int_equal(fl_ib_rnr_code(table[code] * 10), code);
    }
    assert_int_equal(fl_ib_rnr_us(0), 655360);
    assert_int_equal(fl_ib_rnr_us(13), 960);
    assert_int_equal(fl_ib_rnr_code(0), 1);
    assert_int_equal(fl_ib_rnr_code(961), 14);
    assert_int_equal(fl_ib_rnr_code(491521), 0);
    assert_int_equal(fl_ib_rnr_code(UINT32_MAX), 0);
    assert_int_equal(fl_ib_ack_timeout_ns(0), 0);
    assert_int_equal(fl_ib_ack_timeout_ns(14), 67108864);
    assert_int_equal(fl_ib_ack_timeout_ns(31), 8796093022208);
}

static void psn_arithmetic(void **state)
{
    assert_int_equal(fl_psn_add(0xffffff, 1), 0);
    assert_int_equal(fl_psn_add(5, (uint32_t)-6), 0xffffff);
    assert_int_equal(fl_psn_diff(0, 0xffffff), 1);
    assert_int_equal(fl_psn_diff(0xffffff, 0), -1);
    assert_int_equal(fl_psn_diff(0x800000, 0), -0x800000);
    assert_int_equal(fl_psn_diff(0x7fffff, 0), 0x7fffff);
    assert_int_equal(fl_psn_diff(7, 7), 0);
    assert_int_equal(fl_ib_nr_packets(0, 256), 1);
    assert_int_equal(fl_ib_nr_packets(256, 256), 1);
    assert_int_equal(fl_ib_nr_packets(257, 256), 2);
    assert_int_equal(fl_ib_nr_packets(UINT32_MAX, 256), 1 << 24);
    assert_int_equal(fl_ib_mtu_len(1), 256);
    assert_int_equal(fl_ib_mtu_len(5), 4096);
    assert_int_equal(fl_ib_mtu_len(0), 0);
    assert_int_equal(fl_ib_mtu_len(6), 0);
}

static void syndromes(void **state)
{
    assert_int_equal(fl_aeth_syndrome(FL_AETH_ACK, FL_AETH_NO_CREDITS), 0x1f);
    assert_int_equal(fl_aeth_syndrome(FL_AETH_NAK, FL_IB_NAK_OPERATIONAL), 0x63);
    assert_int_equal(fl_aeth_syndrome(FL_AETH_RNR, 0), 0x20);
    assert_int_equal(fl_aeth_kind(0x62), FL_AETH_NAK);
    assert_int_equal(fl_aeth_value(0x62), FL_IB_NAK_ACCESS);
    assert_int_equal(fl_aeth_kind(0x9f), FL_AETH_RSVD);
    assert_int_equal(fl_aeth_kind(0x5f), FL_AETH_RSVD);
    assert_string_equal(fl_aeth_text(0x62), "NAK: remote access error");
    assert_string_equal(fl_aeth_text(0x7f), "NAK with a reserved code");
    assert_string_equal(fl_aeth_text(0xff), "reserved syndrome");
    assert_string_equal(fl_aeth_text(0x2d), "RNR NAK: receiver not ready");
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(literal_bth), cmocka_unit_test(literal_rdma), cmocka_unit_test(literal_atomics),
        cmocka_unit_test(literal_deth), cmocka_unit_test(literal_icrc),
        cmocka_unit_test(each_id_adds_its_own), cmocka_unit_test(ecn_is_not_under_the_icrc),
        cmocka_unit_test(wrong_icrc_has_no_id), cmocka_unit_test(every_length_finds_the_id),
        cmocka_unit_test(refused_packets), cmocka_unit_test(opcode_table), cmocka_unit_test(what_may_follow),
        cmocka_unit_test(rnr_timers), cmocka_unit_test(psn_arithmetic), cmocka_unit_test(syndromes));
}
