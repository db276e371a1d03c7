/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/ib.h"

#include <errno.h>

#include "base/crc.h"
#include "base/util.h"

uint32_t fl_ib_rnr_us(uint8_t code)
{
    static const uint32_t us[32] = {
        655360, 10,    20,    30,    40,    60,     80,     120,    160,    240,    320,
        480,    640,   960,   1280,  1920,  2560,   3840,   5120,   7680,   10240,  15360,
        20480,  30720, 40960, 61440, 81920, 122880, 163840, 245760, 327680, 491520,
    };
    return us[code & 31];
}

uint8_t fl_ib_rnr_code(uint32_t us)
{
    for (uint8_t code = 1; code < 32; code++)
        if (fl_ib_rnr_us(code) >= us)
            return code;
    return 0;
}

uint64_t fl_ib_ack_timeout_ns(uint8_t code)
{
    code &= 31;
    return code ? 4096ull << code : 0;
}

const char *fl_aeth_text(uint8_t syndrome)
{
    static const char *const naks[] = {
        [FL_IB_NAK_SEQUENCE] = "NAK: PSN sequence error",
        [FL_IB_NAK_REQUEST] = "NAK: invalid request",
        [FL_IB_NAK_ACCESS] = "NAK: remote access error",
        [FL_IB_NAK_OPERATIONAL] = "NAK: remote operational error",
        [FL_IB_NAK_RD_REQUEST] = "NAK: invalid reliable datagram request",
    };
    switch (fl_aeth_kind(syndrome)) {
    case FL_AETH_ACK:
        return "ACK";
    case FL_AETH_RNR:
        return "RNR NAK: receiver not ready";
    case FL_AETH_NAK:
        if (fl_aeth_value(syndrome) < sizeof(naks) / sizeof(naks[0]))
            return naks[fl_aeth_value(syndrome)];
        return "NAK with a reserved code";
    case FL_AETH_RSVD:
        break;
    }
    return "reserved syndrome";
}

int fl_ib_packet_view(struct fl_ib_packet *packet, const void *bytes, size_t len)
{
    const struct fl_bth *bth = bytes;
    if (len < sizeof(*bth) || len > UINT16_MAX || len % 4)
        return -EPROTO;
    const struct fl_ib_opcode *op = &fl_ib_opcodes[bth->opcode];
    if (!op->name || (bth->flags & FL_BTH_VERSION) || len < op->hdr_len)
        return -EPROTO;
    uint32_t body = (uint32_t)len - op->hdr_len, pad = fl_bth_pad(bth);
    if (pad > body || (body && pad == body) || (body && !(op->attr & FL_IB_HAS_PAYLOAD)))
        return -EPROTO;
    *packet = (struct fl_ib_packet){
        .bth = bth,
        .op = op,
        .payload = (const uint8_t *)bytes + op->hdr_len,
        .payload_len = body - pad,
        .psn = be24_get(bth->psn),
        .qpn = be24_get(bth->qpn),
    };
    return 0;
}

#define VIEW(name, type, field)                                                      \
    const struct type *name(const struct fl_ib_packet *packet)                       \
    {                                                                                \
        uint8_t at = packet->op->field;                                              \
        return at ? (const struct type *)((const uint8_t *)packet->bth + at) : NULL; \
    }
VIEW(fl_ib_reth, fl_reth, reth)
VIEW(fl_ib_aeth, fl_aeth, aeth)
VIEW(fl_ib_immdt, fl_immdt, immdt)
VIEW(fl_ib_atomic, fl_atomic_eth, atomic)
VIEW(fl_ib_atomic_ack, fl_atomic_ack_eth, atomic_ack)
VIEW(fl_ib_ieth, fl_ieth, ieth)
VIEW(fl_ib_deth, fl_deth, deth)

void fl_bth_set(struct fl_bth *bth, uint8_t opcode, uint16_t pkey, uint32_t qpn, uint32_t psn, uint8_t pad)
{
    *bth = (struct fl_bth){
        .opcode = opcode,
        .flags = (uint8_t)((pad & 3) << FL_BTH_PAD_SHIFT),
        .pkey = be16_of(pkey),
        .qpn = be24_of(qpn),
        .psn = be24_of(psn),
    };
}

/* What stands in an IP packet before the BTH, as the ICRC sees it */
struct udp {
    be16 src_port, dst_port, len, sum;
};

struct ip4 {
    uint8_t version, tos;
    be16 len, id, fragment;
    uint8_t ttl, protocol;
    be16 sum;
    be32 src, dst;
    struct udp udp;
};

struct ip6 {
    be32 flow; /* version, traffic class, flow label */
    be16 len;
    uint8_t next, hops;
    uint8_t src[16], dst[16];
    struct udp udp;
};

#define PROTOCOL_UDP 17
#define FRAGMENT_DF  0x4000

static const uint8_t ones[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

static struct udp udp_of(uint16_t src_port, uint16_t dst_port, uint32_t packet_len)
{
    return (struct udp){be16_of(src_port), be16_of(dst_port),
                        be16_of((uint16_t)(sizeof(struct udp) + packet_len)), be16_of(0xffff)};
}

uint32_t fl_icrc_ip4(const struct fl_icrc_ip4 *ip, uint32_t packet_len)
{
    struct {
        uint8_t lrh[8];
        struct ip4 ip;
    } all = {
        .ip = {.version = 0x45,
               .tos = 0xff,
               .len = be16_of((uint16_t)(sizeof(struct ip4) + packet_len)),
               .id = be16_of(ip->id),
               .fragment = be16_of(ip->df ? FRAGMENT_DF : 0),
               .ttl = 0xff,
               .protocol = PROTOCOL_UDP,
               .sum = be16_of(0xffff),
               .src = ip->src,
               .dst = ip->dst,
               .udp = udp_of(ip->src_port, ip->dst_port, packet_len)},
    };
    memcpy(all.lrh, ones, sizeof(ones));
    _Static_assert(sizeof(all) == 36, "IPv4 header of 20 bytes");
    return fl_crc32(0, &all, sizeof(all));
}

uint32_t fl_icrc_ip4_id(uint16_t id)
{
    /* Of each four bits, the lowest first */
    static const uint32_t adds[4][16] = {
        {0x00000000, 0x9b73ead4, 0xed96d3e9, 0x76e5393d, 0x005ca193, 0x9b2f4b47, 0xedca727a, 0x76b998ae,
         0x00b94326, 0x9bcaa9f2, 0xed2f90cf, 0x765c7a1b, 0x00e5e2b5, 0x9b960861, 0xed73315c, 0x7600db88},
        {0x00000000, 0x0172864c, 0x02e50c98, 0x03978ad4, 0x05ca1930, 0x04b89f7c, 0x072f15a8, 0x065d93e4,
         0x0b943260, 0x0ae6b42c, 0x09713ef8, 0x0803b8b4, 0x0e5e2b50, 0x0f2cad1c, 0x0cbb27c8, 0x0dc9a184},
        {0x00000000, 0x81256527, 0xd93bcc0f, 0x581ea928, 0x69069e5f, 0xe823fb78, 0xb03d5250, 0x31183777,
         0xd20d3cbe, 0x53285999, 0x0b36f0b1, 0x8a139596, 0xbb0ba2e1, 0x3a2ec7c6, 0x62306eee, 0xe3150bc9},
        {0x00000000, 0x7f6b7f3d, 0xfed6fe7a, 0x81bd8147, 0x26dcfab5, 0x59b78588, 0xd80a04cf, 0xa7617bf2,
         0x4db9f56a, 0x32d28a57, 0xb36f0b10, 0xcc04742d, 0x6b650fdf, 0x140e70e2, 0x95b3f1a5, 0xead88e98},
    };
    return adds[0][id & 15] ^ adds[1][id >> 4 & 15] ^ adds[2][id >> 8 & 15] ^ adds[3][id >> 12];
}

uint32_t fl_icrc_ip6(const struct fl_icrc_ip6 *ip, uint32_t packet_len)
{
    struct {
        uint8_t lrh[8];
        struct ip6 ip;
    } all = {
        .ip = {.flow = be32_of(0x6fffffff),
               .len = be16_of((uint16_t)(sizeof(struct udp) + packet_len)),
               .next = PROTOCOL_UDP,
               .hops = 0xff,
               .udp = udp_of(ip->src_port, ip->dst_port, packet_len)},
    };
    memcpy(all.lrh, ones, sizeof(ones));
    memcpy(all.ip.src, ip->src, sizeof(ip->src));
    memcpy(all.ip.dst, ip->dst, sizeof(ip->dst));
    _Static_assert(sizeof(all) == 56, "IPv6 header of 40 bytes");
    return fl_crc32(0, &all, sizeof(all));
}

uint32_t fl_icrc_bth(uint32_t crc, const struct fl_bth *bth)
{
    struct fl_bth masked = *bth;
    masked.ecn = 0xff;
    return fl_crc32(crc, &masked, sizeof(masked));
}

uint32_t fl_icrc_rest(uint32_t crc, const void *packet, uint32_t packet_len)
{
    /* CRC is linear: a byte of ones where a zero stands, four bytes on, is this in the register before. So an
     * ordinary packet is taken in at once, from where it lies. */
    const uint32_t ones_for_ecn = 0x0f6a70d9, hdr = sizeof(struct fl_bth);
    if (((const struct fl_bth *)packet)->ecn == 0)
        return fl_crc32(crc ^ ones_for_ecn, packet, packet_len - FL_IB_ICRC_LEN);
    crc = fl_icrc_bth(crc, packet);
    return fl_crc32(crc, (const uint8_t *)packet + hdr, packet_len - hdr - FL_IB_ICRC_LEN);
}

/*
 * CRC-32 is arithmetic modulo P = x^32 + ... + 1 with the bits of each byte reflected: bit 31 of a word is
 * the coefficient of x^0. Bytes that follow multiply what came before by x^8 each, and P has a constant term,
 * so x has an inverse.
 */
#define POLY 0xedb88320u

static uint32_t times(uint32_t a, uint32_t b)
{
    uint32_t sum = 0;
    for (; b; b <<= 1) {
        if (b & 0x80000000u)
            sum ^= a;
        a = a & 1 ? a >> 1 ^ POLY : a >> 1; /* a times x */
    }
    return sum;
}

static uint32_t over_x(uint32_t a)
{
    return a & 0x80000000u ? (a ^ POLY) << 1 | 1 : a << 1;
}

/* a over x to the 8n */
static uint32_t unshift(uint32_t a, uint32_t n)
{
    uint32_t power = 0x80000000u; /* 1 */
    for (int i = 0; i < 8; i++)
        power = over_x(power);
    for (; n; n >>= 1) {
        if (n & 1)
            a = times(a, power);
        power = times(power, power);
    }
    return a;
}

/* From behind the identification to the ICRC: the rest of IP and UDP headers, and the packet. A register that
 * took in two bytes is those bytes, times x^32, modulo P; so back over four bytes they stand in its low half,
 * the first one lowest, ... */
static uint32_t bytes_back(uint32_t packet_len)
{
    return (uint32_t)(sizeof(struct ip4) - offsetof(struct ip4, fragment)) + packet_len - FL_IB_ICRC_LEN + 2;
}

static bool id_of_bytes(uint32_t bytes, uint16_t *id)
{
    if (bytes >> 16)
        return false;
    *id = (uint16_t)((bytes & 0xff) << 8 | bytes >> 8); /* ... and an IP header is big endian */
    return true;
}

bool fl_icrc_find_id(uint32_t difference, uint32_t packet_len, uint16_t *id)
{
    return id_of_bytes(unshift(difference, bytes_back(packet_len)), id);
}

/* All of this is linear: what a difference gives is the sum of what its bits give. */
static void make_tables(struct fl_icrc_finder *finder)
{
    for (int i = 0; i < FL_ICRC_STEPS; i++) {
        for (int bit = 0; bit < 32; bit++) {
            uint32_t *table = finder->back[i][bit / 4], low = 1u << bit % 4;
            uint32_t one = unshift(1u << bit, 1u << i);
            for (uint32_t below = 0; below < low; below++)
                table[low + below] = table[below] ^ one;
        }
    }
    finder->ready = true;
}

bool fl_icrc_finder_id(struct fl_icrc_finder *finder, uint32_t difference, uint32_t packet_len, uint16_t *id)
{
    uint32_t n = bytes_back(packet_len), at = difference;
    if (n >> FL_ICRC_STEPS)
        return false;
    if (!finder->ready)
        make_tables(finder);
    for (; n; n &= n - 1) {
        const uint32_t(*t)[16] = finder->back[__builtin_ctz(n)];
        at = t[0][at & 15] ^ t[1][at >> 4 & 15] ^ t[2][at >> 8 & 15] ^ t[3][at >> 12 & 15] ^
             t[4][at >> 16 & 15] ^ t[5][at >> 20 & 15] ^ t[6][at >> 24 & 15] ^ t[7][at >> 28];
    }
    return id_of_bytes(at, id);
}
