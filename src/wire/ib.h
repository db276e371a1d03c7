/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_IB_H
#define FL_WIRE_IB_H

/*
 * The InfiniBand transport as RoCE v2 carries it (IBA volume 1, chapter 9; annex A17): base and extended
 * transport headers, what each opcode brings, the invariant CRC, PSN arithmetic. Pure functions: bytes in,
 * verdict out. A packet here is what UDP carries: BTH, extended headers, payload, 0 to 3 pad bytes, and at
 * its end the ICRC.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/layout.h"

#define FL_ROCE_PORT        4791
#define FL_IB_ICRC_LEN      4
#define FL_IB_QPN_MASK      0xffffffu
#define FL_IB_QP1           1
#define FL_IB_QP1_QKEY      0x80010000u
#define FL_IB_PKEY_DEFAULT  0xffffu
#define FL_IB_MULTICAST_QPN 0xffffffu
#define FL_IB_HDRS_MAX      (12 + 28) /* BTH and the most that follows it: AtomicETH */

/* Transport service: bits 7 to 5 of the opcode (9.2.1) */
enum fl_ib_service {
    FL_IB_RC = 0,
    FL_IB_UC = 1,
    FL_IB_UD = 3,
    FL_IB_CNP = 4, /* annex A17: congestion notification, one opcode of its own */
};

/* Operation: bits 4 to 0 */
enum fl_ib_op {
    FL_IB_SEND_FIRST = 0,
    FL_IB_SEND_MIDDLE = 1,
    FL_IB_SEND_LAST = 2,
    FL_IB_SEND_LAST_IMM = 3,
    FL_IB_SEND_ONLY = 4,
    FL_IB_SEND_ONLY_IMM = 5,
    FL_IB_WRITE_FIRST = 6,
    FL_IB_WRITE_MIDDLE = 7,
    FL_IB_WRITE_LAST = 8,
    FL_IB_WRITE_LAST_IMM = 9,
    FL_IB_WRITE_ONLY = 10,
    FL_IB_WRITE_ONLY_IMM = 11,
    FL_IB_READ_REQUEST = 12,
    FL_IB_READ_FIRST = 13, /* responses */
    FL_IB_READ_MIDDLE = 14,
    FL_IB_READ_LAST = 15,
    FL_IB_READ_ONLY = 16,
    FL_IB_ACK = 17,
    FL_IB_ATOMIC_ACK = 18,
    FL_IB_COMPARE_SWAP = 19,
    FL_IB_FETCH_ADD = 20,
    FL_IB_SEND_LAST_INV = 22,
    FL_IB_SEND_ONLY_INV = 23,
};

#define FL_IB_OPCODE(service, op) ((uint8_t)((service) << 5 | (op)))
#define FL_IB_OPCODE_CNP          0x81
/* Of the range for manufacturers (9.2.1, table 38), between two farlane peers that agreed on it: an ACK with
 * what lies there of what follows, and the request for one. docs/design/roce.md has their form. */
#define FL_IB_OPCODE_SACK  0xc0
#define FL_IB_OPCODE_PROBE 0xc1

/* Base transport header (9.2) */
struct fl_bth {
    uint8_t opcode;
    uint8_t flags; /* FL_BTH_SOLICITED, FL_BTH_MIGREQ, pad count, version 0 */
    be16 pkey;
    uint8_t ecn; /* FL_BTH_FECN, FL_BTH_BECN; not under the ICRC */
    be24 qpn;    /* where it goes */
    uint8_t ack; /* FL_BTH_ACKREQ */
    be24 psn;
};
FL_LAYOUT_SIZE(fl_bth, 12);
FL_LAYOUT_AT(fl_bth, opcode, 0);
FL_LAYOUT_AT(fl_bth, flags, 1);
FL_LAYOUT_AT(fl_bth, pkey, 2);
FL_LAYOUT_AT(fl_bth, ecn, 4);
FL_LAYOUT_AT(fl_bth, qpn, 5);
FL_LAYOUT_AT(fl_bth, ack, 8);
FL_LAYOUT_AT(fl_bth, psn, 9);

#define FL_BTH_SOLICITED 0x80
#define FL_BTH_MIGREQ    0x40
#define FL_BTH_PAD_SHIFT 4 /* two bits */
#define FL_BTH_VERSION   0x0f
#define FL_BTH_FECN      0x80
#define FL_BTH_BECN      0x40
#define FL_BTH_ACKREQ    0x80

static inline uint8_t fl_bth_pad(const struct fl_bth *bth)
{
    return bth->flags >> FL_BTH_PAD_SHIFT & 3;
}

/* RDMA extended transport header (9.3.3) */
struct fl_reth {
    be64 va;
    be32 rkey;
    be32 dma_len;
};
FL_LAYOUT_SIZE(fl_reth, 16);
FL_LAYOUT_AT(fl_reth, va, 0);
FL_LAYOUT_AT(fl_reth, rkey, 8);
FL_LAYOUT_AT(fl_reth, dma_len, 12);

/* Atomic extended transport header (9.3.4) */
struct fl_atomic_eth {
    be64 va;
    be32 rkey;
    be64 swap_add; /* what to store, or to add */
    be64 compare;
};
FL_LAYOUT_SIZE(fl_atomic_eth, 28);
FL_LAYOUT_AT(fl_atomic_eth, va, 0);
FL_LAYOUT_AT(fl_atomic_eth, rkey, 8);
FL_LAYOUT_AT(fl_atomic_eth, swap_add, 12);
FL_LAYOUT_AT(fl_atomic_eth, compare, 20);

/* ACK extended transport header (9.3.5) */
struct fl_aeth {
    uint8_t syndrome;
    be24 msn;
};
FL_LAYOUT_SIZE(fl_aeth, 4);
FL_LAYOUT_AT(fl_aeth, syndrome, 0);
FL_LAYOUT_AT(fl_aeth, msn, 1);

/* Atomic ACK extended transport header (9.3.5.3) */
struct fl_atomic_ack_eth {
    be64 original;
};
FL_LAYOUT_SIZE(fl_atomic_ack_eth, 8);

/* Immediate data (9.3.6) */
struct fl_immdt {
    be32 data;
};
FL_LAYOUT_SIZE(fl_immdt, 4);

/* Invalidate extended transport header (9.3.7) */
struct fl_ieth {
    be32 rkey;
};
FL_LAYOUT_SIZE(fl_ieth, 4);

/* Datagram extended transport header (9.3.2) */
struct fl_deth {
    be32 qkey;
    uint8_t rsvd4;
    be24 src_qpn;
};
FL_LAYOUT_SIZE(fl_deth, 8);
FL_LAYOUT_AT(fl_deth, qkey, 0);
FL_LAYOUT_AT(fl_deth, rsvd4, 4);
FL_LAYOUT_AT(fl_deth, src_qpn, 5);

/* Payload of a SACK: this, then words of bits: whether the PSN lies there, the lowest bit of the first word
 * being that after the BTH's PSN. Payload of a probe: a be32 that its SACK repeats. */
struct fl_sack {
    be32 echo;
    uint8_t rsvd4;
    be24 answered; /* answers to READs and atomics before this PSN have been sent */
};
FL_LAYOUT_SIZE(fl_sack, 8);
FL_LAYOUT_AT(fl_sack, echo, 0);
FL_LAYOUT_AT(fl_sack, rsvd4, 4);
FL_LAYOUT_AT(fl_sack, answered, 5);

/* AETH syndrome (9.7.5.2.1): kind in bits 6 and 5, value in bits 4 to 0 */
enum fl_aeth_kind {
    FL_AETH_ACK = 0, /* value: credits, coded */
    FL_AETH_RNR = 1, /* value: code of the timer */
    FL_AETH_RSVD = 2,
    FL_AETH_NAK = 3, /* value: enum fl_ib_nak */
};

enum fl_ib_nak {
    FL_IB_NAK_SEQUENCE = 0,
    FL_IB_NAK_REQUEST = 1,     /* invalid request */
    FL_IB_NAK_ACCESS = 2,      /* remote access error */
    FL_IB_NAK_OPERATIONAL = 3, /* remote operational error */
    FL_IB_NAK_RD_REQUEST = 4,  /* invalid reliable datagram request */
};

#define FL_AETH_NO_CREDITS 31 /* this responder does not count credits (end to end flow control off) */

static inline uint8_t fl_aeth_syndrome(enum fl_aeth_kind kind, uint8_t value)
{
    return (uint8_t)(kind << 5 | (value & 31));
}

/* The top bit is reserved; a set one makes the syndrome a reserved one. */
static inline enum fl_aeth_kind fl_aeth_kind(uint8_t syndrome)
{
    return syndrome & 0x80 ? FL_AETH_RSVD : (enum fl_aeth_kind)(syndrome >> 5);
}

static inline uint8_t fl_aeth_value(uint8_t syndrome)
{
    return syndrome & 31;
}

/* Plain words for a syndrome ("NAK: remote access error"). Never NULL, static. */
const char *fl_aeth_text(uint8_t syndrome);

/* RNR NAK timer (table 45 of 9.7.5.2.8): code, of which five bits count, to microseconds. Code 0 is the
 * longest, 655.36 ms. */
uint32_t fl_ib_rnr_us(uint8_t code);
/* The code of the shortest time that is at least us; 0 (the longest) where there is none. */
uint8_t fl_ib_rnr_code(uint32_t us);

/* Local ACK timeout (9.7.6.1.3): 4.096 us times 2 to the code, in nanoseconds; 0 for code 0: no time-out.
 * Five bits of code count. */
uint64_t fl_ib_ack_timeout_ns(uint8_t code);

/* PSNs are 24 bits and compared in a circle (9.7.1): the distance is right as long as both lie within 2^23.
 */
static inline uint32_t fl_psn_add(uint32_t psn, uint32_t n)
{
    return (psn + n) & 0xffffffu;
}

/* a - b: from -2^23 to 2^23 - 1 */
static inline int32_t fl_psn_diff(uint32_t a, uint32_t b)
{
    return (int32_t)((a - b) << 8) >> 8;
}

/* Path MTU as verbs and CM code it: 1 is 256 bytes, 5 is 4096; 0 for another code. */
static inline uint32_t fl_ib_mtu_len(uint8_t code)
{
    return code >= 1 && code <= 5 ? 128u << code : 0;
}

/* How many packets a message of len bytes takes: none is one (9.4). mtu is a power of two. */
static inline uint32_t fl_ib_nr_packets(uint32_t len, uint32_t mtu)
{
    return len ? (uint32_t)(((uint64_t)len + mtu - 1) / mtu) : 1;
}

/* What an opcode is and brings (9.2.1, table 38 and 9.4) */
enum fl_ib_attr {
    FL_IB_HAS_DETH = 1 << 0,
    FL_IB_HAS_RETH = 1 << 1,
    FL_IB_HAS_AETH = 1 << 2,
    FL_IB_HAS_IMMDT = 1 << 3,
    FL_IB_HAS_ATOMIC = 1 << 4,
    FL_IB_HAS_ATOMIC_ACK = 1 << 5,
    FL_IB_HAS_IETH = 1 << 6,
    FL_IB_HAS_PAYLOAD = 1 << 7, /* may have; the others never do */
    FL_IB_STARTS = 1 << 8,      /* first or only packet of its message */
    FL_IB_ENDS = 1 << 9,        /* last or only packet */
    FL_IB_REQUEST = 1 << 10,
    FL_IB_RESPONSE = 1 << 11,
    FL_IB_SEND = 1 << 12,   /* takes a receive: sends, and ... */
    FL_IB_WRITE = 1 << 13,  /* ... writes that end with an immediate, which have both bits */
    FL_IB_READ = 1 << 14,   /* request and responses */
    FL_IB_ATOMIC = 1 << 15, /* request and response */
};

struct fl_ib_opcode {
    const char *name; /* NULL: not an opcode of RC, UC or UD */
    uint16_t attr;    /* enum fl_ib_attr */
    uint8_t hdr_len;  /* BTH and all extended headers */
    /* Offsets from the BTH; 0: there is none */
    uint8_t deth, reth, aeth, immdt, atomic, atomic_ack, ieth;
    /* Message class that this packet begins or goes on with: packets of one message have the same
     * (FL_IB_SEND_FIRST, FL_IB_WRITE_FIRST, FL_IB_READ_FIRST); of single packets their own operation. */
    uint8_t message;
};

extern const struct fl_ib_opcode fl_ib_opcodes[256];

/*
 * May this request follow that one on the same queue pair (9.8.3.1, table 50)? prev: opcode of the packet
 * before, or -1 for none. Both are opcodes of the table. For RC and UC requests, and for responses to one
 * READ.
 */
bool fl_ib_may_follow(int prev, uint8_t next);

/* A packet whose headers were found whole */
struct fl_ib_packet {
    const struct fl_bth *bth;
    const struct fl_ib_opcode *op;
    const uint8_t *payload;
    uint32_t payload_len; /* without pad and ICRC */
    uint32_t psn, qpn;
};

/*
 * len bytes from the BTH up to the ICRC, which is not among them. 0; -EPROTO: shorter than its headers, an
 * unknown opcode, a BTH version other than 0, pad bytes of a payload that is not there, a payload where there
 * can be none, or a length that is no multiple of four. After 0 each header that the opcode brings is there.
 */
int fl_ib_packet_view(struct fl_ib_packet *packet, const void *bytes, size_t len);

/* The extended headers of a packet that fl_ib_packet_view() accepted; NULL if its opcode has none. */
const struct fl_reth *fl_ib_reth(const struct fl_ib_packet *packet);
const struct fl_aeth *fl_ib_aeth(const struct fl_ib_packet *packet);
const struct fl_immdt *fl_ib_immdt(const struct fl_ib_packet *packet);
const struct fl_atomic_eth *fl_ib_atomic(const struct fl_ib_packet *packet);
const struct fl_atomic_ack_eth *fl_ib_atomic_ack(const struct fl_ib_packet *packet);
const struct fl_ieth *fl_ib_ieth(const struct fl_ib_packet *packet);
const struct fl_deth *fl_ib_deth(const struct fl_ib_packet *packet);

/* Fills in a BTH but for flags other than pad, ECN and ACKREQ, which are set to none. */
void fl_bth_set(struct fl_bth *bth, uint8_t opcode, uint16_t pkey, uint32_t qpn, uint32_t psn, uint8_t pad);

/*
 * Invariant CRC (annex A17.3.3): over 8 bytes of ones, IP header, UDP header and packet, with what routers
 * change set to ones: TOS or traffic class, flow label, TTL or hop limit, both checksums, and the byte with
 * FECN and BECN. The IPv4 identification and fragment field count. Begin with one of the first two, then the
 * BTH, then fl_crc32() over the rest; the result lies behind it as a le32. packet_len: BTH to ICRC, that
 * included.
 */
struct fl_icrc_ip4 {
    be32 src, dst;
    uint16_t src_port, dst_port;
    uint16_t id;
    bool df;
};

struct fl_icrc_ip6 {
    uint8_t src[16], dst[16];
    uint16_t src_port, dst_port;
};

uint32_t fl_icrc_ip4(const struct fl_icrc_ip4 *ip, uint32_t packet_len);
/* What the identification adds (XOR) to fl_icrc_ip4() of the same with identification 0. */
uint32_t fl_icrc_ip4_id(uint16_t id);
uint32_t fl_icrc_ip6(const struct fl_icrc_ip6 *ip, uint32_t packet_len);
uint32_t fl_icrc_bth(uint32_t crc, const struct fl_bth *bth);
/* All at once, for a packet in one piece; packet_len as above. */
uint32_t fl_icrc_rest(uint32_t crc, const void *packet, uint32_t packet_len);

/*
 * An ordinary UDP socket does not tell the identification of the IPv4 header, which the ICRC covers. CRC is
 * linear, so what an identification adds to an ICRC computed for 0 depends on nothing but itself and the
 * bytes that follow it. difference: the ICRC received, XOR the one computed with id 0. True: some
 * identification explains it, and *id is that; so a packet is checked up to 16 bits.
 */
bool fl_icrc_find_id(uint32_t difference, uint32_t packet_len, uint16_t *id);

/* The same some ten times faster, by tables that hold for every length; zeroed, they are made at the first
 * call.
 */
#define FL_ICRC_STEPS 14 /* bits of a length */
struct fl_icrc_finder {
    bool ready;
    uint32_t back[FL_ICRC_STEPS][8][16]; /* by 2^i bytes, for each four bits */
};

bool fl_icrc_finder_id(struct fl_icrc_finder *finder, uint32_t difference, uint32_t packet_len, uint16_t *id);

#endif
