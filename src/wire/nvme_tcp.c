/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvme_tcp.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>

/* Bits of rule.when: who receives (enum fl_tcp_role), and whether the IC exchange is over. */
#define WHEN(receiver, established) (1u << ((receiver) + 2 * (established)))
#define EITHER(receiver)            (WHEN(receiver, 0) | WHEN(receiver, 1))

enum body {
    BODY_NONE, /* header only */
    BODY_DATA, /* data at PDO, or none */
    BODY_TERM, /* up to 128 bytes of another PDU's header, right after our own */
};

struct rule {
    uint8_t hlen;  /* 0: not a type */
    uint8_t start; /* end of header and header digest */
    uint8_t when;
    uint8_t body;
    uint16_t flags; /* bit n: flags of value n are right */
    uint16_t pad;   /* eight bytes in all: found by a shift */
};

/*
 * Transport specification 3.6.2.2 to 3.6.2.10, for each combination of digests agreed. digest: length of a
 * header digest; data, plain: flags of PDUs that may bring data and of those that never do, as far as they
 * speak of digests. LAST is bit 2 of the flags; SUCCESS, bit 3, stands for the response capsule and so comes
 * only with LAST (3.6.2.9).
 */
#define RULES(digest, data, plain)                                                                           \
    {                                                                                                        \
        [FL_TCP_IC_REQ] = {128, 128, WHEN(FL_TCP_TARGET, 0), BODY_NONE, 1, 0},                               \
        [FL_TCP_IC_RESP] = {128, 128, WHEN(FL_TCP_HOST, 0), BODY_NONE, 1, 0},                                \
        [FL_TCP_H2C_TERM] = {24, 24, EITHER(FL_TCP_TARGET), BODY_TERM, 1, 0},                                \
        [FL_TCP_C2H_TERM] = {24, 24, EITHER(FL_TCP_HOST), BODY_TERM, 1, 0},                                  \
        [FL_TCP_CMD] = {72, 72 + (digest), WHEN(FL_TCP_TARGET, 1), BODY_DATA, (data), 0},                    \
        [FL_TCP_RESP] = {24, 24 + (digest), WHEN(FL_TCP_HOST, 1), BODY_NONE, (plain), 0},                    \
        [FL_TCP_H2C_DATA] = {24, 24 + (digest), WHEN(FL_TCP_TARGET, 1), BODY_DATA, (data) | (data) << 4, 0}, \
        [FL_TCP_C2H_DATA] =                                                                                  \
            {24, 24 + (digest), WHEN(FL_TCP_HOST, 1), BODY_DATA, (data) | (data) << 4 | (data) << 12, 0},    \
        [FL_TCP_R2T] = {24, 24 + (digest), WHEN(FL_TCP_HOST, 1), BODY_NONE, (plain), 0},                     \
    }

/* Index: 1 for a header digest, 2 for a data digest. The header digest is in every PDU once agreed, the data
 * digest in those with data. */
static const struct rule rules[4][FL_TCP_NR_TYPES] = {
    RULES(0, 1u << 0, 1u << 0),
    RULES(FL_TCP_DIGEST_LEN, 1u << 1, 1u << 1),
    RULES(0, 1u << 0 | 1u << 2, 1u << 0),
    RULES(FL_TCP_DIGEST_LEN, 1u << 1 | 1u << 3, 1u << 1),
};

/* Bit n of entry d - 1: d divides n. PDO and alignment are multiples of 4 and at most 255 and 128, so in
 * dwords they fit, and the data path needs no division. */
#define MULTIPLE(d, n) ((n) % (d) == 0 ? 1ull << (n) : 0)
#define MULTIPLES_8(d, n)                                                                                 \
    (MULTIPLE(d, n) | MULTIPLE(d, n + 1) | MULTIPLE(d, n + 2) | MULTIPLE(d, n + 3) | MULTIPLE(d, n + 4) | \
     MULTIPLE(d, n + 5) | MULTIPLE(d, n + 6) | MULTIPLE(d, n + 7))
#define MULTIPLES(d)                                                                                        \
    (MULTIPLES_8(d, 0) | MULTIPLES_8(d, 8) | MULTIPLES_8(d, 16) | MULTIPLES_8(d, 24) | MULTIPLES_8(d, 32) | \
     MULTIPLES_8(d, 40) | MULTIPLES_8(d, 48) | MULTIPLES_8(d, 56))
static const uint64_t multiples[32] = {
    MULTIPLES(1),  MULTIPLES(2),  MULTIPLES(3),  MULTIPLES(4),  MULTIPLES(5),  MULTIPLES(6),  MULTIPLES(7),
    MULTIPLES(8),  MULTIPLES(9),  MULTIPLES(10), MULTIPLES(11), MULTIPLES(12), MULTIPLES(13), MULTIPLES(14),
    MULTIPLES(15), MULTIPLES(16), MULTIPLES(17), MULTIPLES(18), MULTIPLES(19), MULTIPLES(20), MULTIPLES(21),
    MULTIPLES(22), MULTIPLES(23), MULTIPLES(24), MULTIPLES(25), MULTIPLES(26), MULTIPLES(27), MULTIPLES(28),
    MULTIPLES(29), MULTIPLES(30), MULTIPLES(31), MULTIPLES(32),
};

static bool pda_ok(uint32_t pda)
{
    return pda >= FL_TCP_PDA_MIN && pda <= FL_TCP_PDA_MAX && !(pda & 3);
}

static bool aligned(uint32_t pdo, uint32_t pda)
{
    if (pda == FL_TCP_PDA_MIN) /* what nearly everybody asks for */
        return !(pdo & 3);
    assert(pda_ok(pda));
    return !(pdo & 3) && (multiples[pda / 4 - 1] >> (pdo / 4) & 1);
}

static int fault_at(struct fl_tcp_fault *fault, enum fl_tcp_fes fes, uint32_t offset)
{
    fault->fes = (uint16_t)fes;
    fault->offset = offset;
    return -EPROTO;
}

#define FAULT_FIELD(fault, type, field) fault_at(fault, FL_TCP_FES_HEADER, offsetof(struct type, field))

/* PDO and PLEN of a type that may bring data; start: where its header and header digest end. Not inline: it
 * leaves the check of the others, most of them commands and responses, without registers to save. */
static __attribute__((noinline)) int check_data(const struct fl_tcp_hdr *hdr, uint32_t start,
                                                const struct fl_tcp_limits *limits,
                                                struct fl_tcp_fault *fault)
{
    uint32_t plen = le32_get(hdr->plen), pdo = hdr->pdo;
    bool ddgst = hdr->flags & FL_TCP_F_DDGST;

    if (plen == start) {
        if (pdo && pdo != start)
            return FAULT_FIELD(fault, fl_tcp_hdr, pdo);
        return ddgst ? FAULT_FIELD(fault, fl_tcp_hdr, flags) : 0; /* a digest of nothing */
    }
    if (pdo ? pdo < start || !aligned(pdo, limits->pda) : plen > start)
        return FAULT_FIELD(fault, fl_tcp_hdr, pdo);
    if (plen < start)
        return FAULT_FIELD(fault, fl_tcp_hdr, plen);
    if (pdo > plen)
        return FAULT_FIELD(fault, fl_tcp_hdr, pdo);
    if (plen > limits->max_plen)
        return fault_at(fault, FL_TCP_FES_LIMIT, offsetof(struct fl_tcp_hdr, plen));
    if (ddgst != limits->ddgst) /* agreed, and only now we know that there is data */
        return FAULT_FIELD(fault, fl_tcp_hdr, flags);
    if (plen <= pdo + (ddgst ? FL_TCP_DIGEST_LEN : 0u))
        return FAULT_FIELD(fault, fl_tcp_hdr, plen);
    return 0;
}

int fl_tcp_hdr_check(const struct fl_tcp_hdr *hdr, enum fl_tcp_role receiver,
                     const struct fl_tcp_limits *limits, struct fl_tcp_fault *fault)
{
    if (hdr->type >= FL_TCP_NR_TYPES)
        return FAULT_FIELD(fault, fl_tcp_hdr, type);
    const struct rule *rule = &rules[limits->hdgst + 2 * limits->ddgst][hdr->type];
    if (!(rule->when & WHEN(receiver, limits->established)))
        return fault_at(fault, rule->when & EITHER(receiver) ? FL_TCP_FES_SEQUENCE : FL_TCP_FES_HEADER,
                        offsetof(struct fl_tcp_hdr, type));
    if (hdr->flags > 15 || !(rule->flags >> hdr->flags & 1))
        return FAULT_FIELD(fault, fl_tcp_hdr, flags);
    if (hdr->hlen != rule->hlen)
        return FAULT_FIELD(fault, fl_tcp_hdr, hlen);
    uint32_t plen = le32_get(hdr->plen);
    if (plen == rule->start && !hdr->pdo &&
        !(hdr->flags & FL_TCP_F_DDGST)) /* no data, right for every type */
        return 0;
    if (rule->body == BODY_DATA)
        return check_data(hdr, rule->start, limits, fault);
    if (hdr->pdo)
        return FAULT_FIELD(fault, fl_tcp_hdr, pdo);
    if (plen < rule->start || plen > (rule->body == BODY_TERM ? FL_TCP_TERM_PLEN_MAX : rule->start))
        return FAULT_FIELD(fault, fl_tcp_hdr, plen);
    return 0;
}

int fl_tcp_data_check(const struct fl_tcp_data *pdu, struct fl_tcp_fault *fault)
{
    uint32_t datal = le32_get(pdu->datal);
    if (!datal || datal != fl_tcp_data_len(&pdu->hdr))
        return FAULT_FIELD(fault, fl_tcp_data, datal);
    return 0;
}

int fl_tcp_r2t_check(const struct fl_tcp_r2t *pdu, struct fl_tcp_fault *fault)
{
    if (!le32_get(pdu->r2tl))
        return FAULT_FIELD(fault, fl_tcp_r2t, r2tl);
    return 0;
}

static uint8_t dgst_of(const struct fl_tcp_ic *ic)
{
    return (uint8_t)((ic->hdgst ? FL_TCP_DGST_HEADER : 0) | (ic->ddgst ? FL_TCP_DGST_DATA : 0));
}

int fl_tcp_ic_req_decode(const struct fl_tcp_ic_req *pdu, struct fl_tcp_ic *ic, struct fl_tcp_fault *fault)
{
    if (le16_get(pdu->pfv)) /* a later protocol: 3.6.2.2 */
        return fault_at(fault, FL_TCP_FES_UNSUPPORTED, offsetof(struct fl_tcp_ic_req, pfv));
    if (pdu->hpda > 31)
        return FAULT_FIELD(fault, fl_tcp_ic_req, hpda);
    uint32_t maxr2t = le32_get(pdu->maxr2t);
    *ic = (struct fl_tcp_ic){
        .hdgst = pdu->dgst & FL_TCP_DGST_HEADER,
        .ddgst = pdu->dgst & FL_TCP_DGST_DATA,
        .pda = (uint8_t)((pdu->hpda + 1) * 4),
        .nr_r2t = maxr2t == UINT32_MAX ? maxr2t : maxr2t + 1,
    };
    return 0;
}

int fl_tcp_ic_resp_decode(const struct fl_tcp_ic_resp *pdu, const struct fl_tcp_ic *asked,
                          struct fl_tcp_ic *ic, struct fl_tcp_fault *fault)
{
    if (le16_get(pdu->pfv))
        return fault_at(fault, FL_TCP_FES_UNSUPPORTED, offsetof(struct fl_tcp_ic_resp, pfv));
    if (pdu->cpda > 31)
        return FAULT_FIELD(fault, fl_tcp_ic_resp, cpda);
    if (pdu->dgst & (FL_TCP_DGST_HEADER | FL_TCP_DGST_DATA) & ~dgst_of(asked))
        return FAULT_FIELD(fault, fl_tcp_ic_resp, dgst);
    uint32_t maxh2cdata = le32_get(pdu->maxh2cdata);
    if (maxh2cdata < FL_TCP_MAXH2CDATA_MIN || maxh2cdata & 3)
        return FAULT_FIELD(fault, fl_tcp_ic_resp, maxh2cdata);
    *ic = (struct fl_tcp_ic){
        .hdgst = pdu->dgst & FL_TCP_DGST_HEADER,
        .ddgst = pdu->dgst & FL_TCP_DGST_DATA,
        .pda = (uint8_t)((pdu->cpda + 1) * 4),
        .maxh2cdata = maxh2cdata,
    };
    return 0;
}

void fl_tcp_ic_req_encode(struct fl_tcp_ic_req *pdu, const struct fl_tcp_ic *ic)
{
    assert(pda_ok(ic->pda) && ic->nr_r2t);
    memset(pdu, 0, sizeof(*pdu));
    fl_tcp_hdr_set(&pdu->hdr, FL_TCP_IC_REQ, 0, sizeof(*pdu), false, false, FL_TCP_PDA_MIN, 0);
    pdu->hpda = (uint8_t)(ic->pda / 4 - 1);
    pdu->dgst = dgst_of(ic);
    pdu->maxr2t = le32_of(ic->nr_r2t - 1);
}

void fl_tcp_ic_resp_encode(struct fl_tcp_ic_resp *pdu, const struct fl_tcp_ic *ic)
{
    assert(pda_ok(ic->pda) && ic->maxh2cdata >= FL_TCP_MAXH2CDATA_MIN);
    memset(pdu, 0, sizeof(*pdu));
    fl_tcp_hdr_set(&pdu->hdr, FL_TCP_IC_RESP, 0, sizeof(*pdu), false, false, FL_TCP_PDA_MIN, 0);
    pdu->cpda = (uint8_t)(ic->pda / 4 - 1);
    pdu->dgst = dgst_of(ic);
    pdu->maxh2cdata = le32_of(ic->maxh2cdata);
}

uint32_t fl_tcp_term_encode(uint8_t out[FL_TCP_TERM_PLEN_MAX], enum fl_tcp_role sender,
                            const struct fl_tcp_fault *fault, const void *bad_pdu, uint32_t bad_len)
{
    struct fl_tcp_term term;
    uint32_t copied = bad_pdu ? bad_len : 0;
    if (copied > FL_TCP_TERM_PLEN_MAX - sizeof(term))
        copied = FL_TCP_TERM_PLEN_MAX - sizeof(term);

    memset(&term, 0, sizeof(term));
    term.hdr.type = sender == FL_TCP_TARGET ? FL_TCP_C2H_TERM : FL_TCP_H2C_TERM;
    term.hdr.hlen = sizeof(term);
    term.hdr.plen = le32_of((uint32_t)sizeof(term) + copied);
    term.fes = le16_of(fault->fes);
    if (fault->fes == FL_TCP_FES_HEADER || fault->fes == FL_TCP_FES_HDGST ||
        fault->fes == FL_TCP_FES_UNSUPPORTED)
        term.fei = le32_of(fault->offset);
    memcpy(out, &term, sizeof(term));
    if (copied)
        memcpy(out + sizeof(term), bad_pdu, copied);
    return (uint32_t)sizeof(term) + copied;
}

uint8_t fl_tcp_pdo(uint8_t hlen, bool hdgst, uint8_t pda)
{
    uint32_t start = hlen + (hdgst ? FL_TCP_DIGEST_LEN : 0u);
    assert(pda_ok(pda));
    return (uint8_t)((start + pda - 1u) / pda * pda);
}

uint8_t fl_tcp_hlen(uint8_t type)
{
    return type < FL_TCP_NR_TYPES ? rules[0][type].hlen : 0;
}

const char *fl_tcp_type_text(uint8_t type)
{
    static const char *const names[FL_TCP_NR_TYPES] = {
        [FL_TCP_IC_REQ] = "ICReq",        [FL_TCP_IC_RESP] = "ICResp",   [FL_TCP_H2C_TERM] = "H2CTermReq",
        [FL_TCP_C2H_TERM] = "C2HTermReq", [FL_TCP_CMD] = "CapsuleCmd",   [FL_TCP_RESP] = "CapsuleResp",
        [FL_TCP_H2C_DATA] = "H2CData",    [FL_TCP_C2H_DATA] = "C2HData", [FL_TCP_R2T] = "R2T",
    };
    return type < FL_TCP_NR_TYPES && names[type] ? names[type] : "unknown PDU";
}

const char *fl_tcp_term_text(uint16_t fes)
{
    switch (fes) {
    case FL_TCP_FES_HEADER:
        return "invalid PDU header field";
    case FL_TCP_FES_SEQUENCE:
        return "PDU sequence error";
    case FL_TCP_FES_HDGST:
        return "header digest error";
    case FL_TCP_FES_RANGE:
        return "data transfer out of range";
    case FL_TCP_FES_LIMIT:
        return "R2T or data transfer limit exceeded";
    case FL_TCP_FES_UNSUPPORTED:
        return "unsupported parameter";
    default:
        return "unknown fatal error status";
    }
}
