/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_NVME_TCP_H
#define FL_WIRE_NVME_TCP_H

/*
 * NVMe/TCP transport specification 1.0: PDUs, their one header check, digests' places. Pure functions: bytes
 * in, verdict out.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/layout.h"
#include "wire/nvme.h"

#define FL_TCP_PORT           4420
#define FL_TCP_DISCOVERY_PORT 8009
#define FL_TCP_DIGEST_LEN     4
#define FL_TCP_PDA_MIN        4
#define FL_TCP_PDA_MAX        128
#define FL_TCP_MAXH2CDATA_MIN 4096
#define FL_TCP_TERM_PLEN_MAX  152  /* header and the first 128 bytes of the PDU complained about */
#define FL_TCP_ADMIN_DATA_LEN 8192 /* in-capsule data that admin and Fabrics commands may always bring */

enum fl_tcp_type {
    FL_TCP_IC_REQ = 0,
    FL_TCP_IC_RESP = 1,
    FL_TCP_H2C_TERM = 2,
    FL_TCP_C2H_TERM = 3,
    FL_TCP_CMD = 4,
    FL_TCP_RESP = 5,
    FL_TCP_H2C_DATA = 6,
    FL_TCP_C2H_DATA = 7,
    FL_TCP_R2T = 9,
    FL_TCP_NR_TYPES = 10, /* for tables; 8 is not in use */
};

#define FL_TCP_F_HDGST        0x01
#define FL_TCP_F_DDGST        0x02
#define FL_TCP_F_DATA_LAST    0x04
#define FL_TCP_F_DATA_SUCCESS 0x08

/* Digests asked for and agreed, in ICReq and ICResp */
#define FL_TCP_DGST_HEADER 0x01
#define FL_TCP_DGST_DATA   0x02

/* Fatal error status of a termination request (transport specification 3.6.2.4 and 3.6.2.5). FEI is the byte
 * offset of the field for the header field and parameter errors, the digest that came for a header digest
 * error, else reserved. */
enum fl_tcp_fes {
    FL_TCP_FES_HEADER = 1,      /* invalid PDU header field */
    FL_TCP_FES_SEQUENCE = 2,    /* PDU sequence error */
    FL_TCP_FES_HDGST = 3,       /* header digest error */
    FL_TCP_FES_RANGE = 4,       /* data transfer out of range */
    FL_TCP_FES_LIMIT = 5,       /* R2T limit or data transfer limit exceeded */
    FL_TCP_FES_UNSUPPORTED = 6, /* unsupported parameter */
};

struct fl_tcp_hdr {
    uint8_t type;  /* enum fl_tcp_type */
    uint8_t flags; /* FL_TCP_F_* */
    uint8_t hlen;
    uint8_t pdo;
    le32 plen;
};
FL_LAYOUT_SIZE(fl_tcp_hdr, 8);
FL_LAYOUT_AT(fl_tcp_hdr, type, 0);
FL_LAYOUT_AT(fl_tcp_hdr, flags, 1);
FL_LAYOUT_AT(fl_tcp_hdr, hlen, 2);
FL_LAYOUT_AT(fl_tcp_hdr, pdo, 3);
FL_LAYOUT_AT(fl_tcp_hdr, plen, 4);

struct fl_tcp_ic_req {
    struct fl_tcp_hdr hdr;
    le16 pfv;
    uint8_t hpda; /* alignment of data towards the host, in dwords, 0's based */
    uint8_t dgst; /* FL_TCP_DGST_* */
    le32 maxr2t;  /* outstanding R2Ts per command, 0's based */
    uint8_t rsvd16[112];
};
FL_LAYOUT_SIZE(fl_tcp_ic_req, 128);
FL_LAYOUT_AT(fl_tcp_ic_req, hdr, 0);
FL_LAYOUT_AT(fl_tcp_ic_req, pfv, 8);
FL_LAYOUT_AT(fl_tcp_ic_req, hpda, 10);
FL_LAYOUT_AT(fl_tcp_ic_req, dgst, 11);
FL_LAYOUT_AT(fl_tcp_ic_req, maxr2t, 12);
FL_LAYOUT_AT(fl_tcp_ic_req, rsvd16, 16);

struct fl_tcp_ic_resp {
    struct fl_tcp_hdr hdr;
    le16 pfv;
    uint8_t cpda;    /* alignment of data towards the controller, in dwords, 0's based */
    uint8_t dgst;    /* FL_TCP_DGST_* */
    le32 maxh2cdata; /* most data in one H2CData, in bytes */
    uint8_t rsvd16[112];
};
FL_LAYOUT_SIZE(fl_tcp_ic_resp, 128);
FL_LAYOUT_AT(fl_tcp_ic_resp, hdr, 0);
FL_LAYOUT_AT(fl_tcp_ic_resp, pfv, 8);
FL_LAYOUT_AT(fl_tcp_ic_resp, cpda, 10);
FL_LAYOUT_AT(fl_tcp_ic_resp, dgst, 11);
FL_LAYOUT_AT(fl_tcp_ic_resp, maxh2cdata, 12);
FL_LAYOUT_AT(fl_tcp_ic_resp, rsvd16, 16);

/* H2CTermReq and C2HTermReq; up to 128 bytes of the bad PDU follow */
struct fl_tcp_term {
    struct fl_tcp_hdr hdr;
    le16 fes; /* enum fl_tcp_fes */
    le32 fei;
    uint8_t rsvd14[10];
};
FL_LAYOUT_SIZE(fl_tcp_term, 24);
FL_LAYOUT_AT(fl_tcp_term, hdr, 0);
FL_LAYOUT_AT(fl_tcp_term, fes, 8);
FL_LAYOUT_AT(fl_tcp_term, fei, 10);
FL_LAYOUT_AT(fl_tcp_term, rsvd14, 14);

struct fl_tcp_cmd {
    struct fl_tcp_hdr hdr;
    struct fl_nvme_sqe sqe;
};
FL_LAYOUT_SIZE(fl_tcp_cmd, 72);
FL_LAYOUT_AT(fl_tcp_cmd, hdr, 0);
FL_LAYOUT_AT(fl_tcp_cmd, sqe, 8);

struct fl_tcp_resp {
    struct fl_tcp_hdr hdr;
    struct fl_nvme_cqe cqe;
};
FL_LAYOUT_SIZE(fl_tcp_resp, 24);
FL_LAYOUT_AT(fl_tcp_resp, hdr, 0);
FL_LAYOUT_AT(fl_tcp_resp, cqe, 8);

/* H2CData and C2HData */
struct fl_tcp_data {
    struct fl_tcp_hdr hdr;
    le16 cccid;
    le16 ttag; /* reserved in C2HData */
    le32 datao;
    le32 datal;
    uint8_t rsvd20[4];
};
FL_LAYOUT_SIZE(fl_tcp_data, 24);
FL_LAYOUT_AT(fl_tcp_data, hdr, 0);
FL_LAYOUT_AT(fl_tcp_data, cccid, 8);
FL_LAYOUT_AT(fl_tcp_data, ttag, 10);
FL_LAYOUT_AT(fl_tcp_data, datao, 12);
FL_LAYOUT_AT(fl_tcp_data, datal, 16);
FL_LAYOUT_AT(fl_tcp_data, rsvd20, 20);

struct fl_tcp_r2t {
    struct fl_tcp_hdr hdr;
    le16 cccid;
    le16 ttag;
    le32 r2to;
    le32 r2tl;
    uint8_t rsvd20[4];
};
FL_LAYOUT_SIZE(fl_tcp_r2t, 24);
FL_LAYOUT_AT(fl_tcp_r2t, hdr, 0);
FL_LAYOUT_AT(fl_tcp_r2t, cccid, 8);
FL_LAYOUT_AT(fl_tcp_r2t, ttag, 10);
FL_LAYOUT_AT(fl_tcp_r2t, r2to, 12);
FL_LAYOUT_AT(fl_tcp_r2t, r2tl, 16);
FL_LAYOUT_AT(fl_tcp_r2t, rsvd20, 20);

/* Who received the PDU */
enum fl_tcp_role {
    FL_TCP_TARGET = 0,
    FL_TCP_HOST = 1,
};

/* What was agreed for PDUs towards us */
struct fl_tcp_limits {
    bool hdgst, ddgst;
    uint8_t pda;       /* alignment of data in bytes: 4, 8, ... 128 */
    uint32_t max_plen; /* of CMD, H2C_DATA and C2H_DATA, everything included; other types have lengths of
                          their own */
    bool established;  /* the IC exchange is over */
};

struct fl_tcp_fault {
    uint16_t fes;    /* enum fl_tcp_fes */
    uint32_t offset; /* byte in the PDU at fault; for FL_TCP_FES_HDGST the digest that came */
};

/*
 * Checks the common header of a PDU just received, before anything else of it is used, its fields in wire
 * order. 0, or -EPROTO and *fault says what to answer. After 0:
 *   - hlen is the fixed length of this type, so sizeof of its struct; plen >= hlen + header digest;
 *   - fl_tcp_data_len() bytes of data lie at fl_tcp_data_offset(), within plen, data digest after them;
 *   - flags agree with the digests negotiated.
 */
int fl_tcp_hdr_check(const struct fl_tcp_hdr *hdr, enum fl_tcp_role receiver,
                     const struct fl_tcp_limits *limits, struct fl_tcp_fault *fault);

/* The rest of a PDU's header, where fl_tcp_hdr_check() does not see it; call after it. DATAL must be the
 * length of the data carried and not 0. Ranges against the command are the caller's matter. */
int fl_tcp_data_check(const struct fl_tcp_data *pdu, struct fl_tcp_fault *fault);
int fl_tcp_r2t_check(const struct fl_tcp_r2t *pdu, struct fl_tcp_fault *fault);

/* What an ICReq or ICResp says, in plain units. */
struct fl_tcp_ic {
    bool hdgst, ddgst;
    uint8_t pda;         /* bytes, 4 to 128: alignment that the sender of the PDU wants in data towards it */
    uint32_t nr_r2t;     /* ICReq: R2Ts that may be outstanding per command, 1 to UINT32_MAX (2^32 becomes
                            UINT32_MAX) */
    uint32_t maxh2cdata; /* ICResp: bytes */
};

/* After fl_tcp_hdr_check(). */
int fl_tcp_ic_req_decode(const struct fl_tcp_ic_req *pdu, struct fl_tcp_ic *ic, struct fl_tcp_fault *fault);
/* asked: what our ICReq asked for; a digest that we did not ask for is a fault. */
int fl_tcp_ic_resp_decode(const struct fl_tcp_ic_resp *pdu, const struct fl_tcp_ic *asked,
                          struct fl_tcp_ic *ic, struct fl_tcp_fault *fault);

void fl_tcp_ic_req_encode(struct fl_tcp_ic_req *pdu, const struct fl_tcp_ic *ic);
void fl_tcp_ic_resp_encode(struct fl_tcp_ic_resp *pdu, const struct fl_tcp_ic *ic);

/*
 * A termination request towards the peer of `sender`. out has room for FL_TCP_TERM_PLEN_MAX bytes; bad_pdu
 * (may be NULL) are the bad_len bytes of its header that came, of which up to 128 are put in. Returns the
 * length to send.
 */
uint32_t fl_tcp_term_encode(uint8_t out[FL_TCP_TERM_PLEN_MAX], enum fl_tcp_role sender,
                            const struct fl_tcp_fault *fault, const void *bad_pdu, uint32_t bad_len);

/* Fatal error status in plain words. Never NULL, static. */
const char *fl_tcp_term_text(uint16_t fes);

/* Name of a PDU type, as the specification has it ("CapsuleCmd"); "unknown PDU". Never NULL, static. */
const char *fl_tcp_type_text(uint8_t type);

/* Header length of a type including the common header; 0 for a type that is not one. */
uint8_t fl_tcp_hlen(uint8_t type);

/* For a header that passed fl_tcp_hdr_check(): */
static inline uint32_t fl_tcp_hdgst_len(const struct fl_tcp_hdr *hdr)
{
    return (hdr->flags & FL_TCP_F_HDGST) ? FL_TCP_DIGEST_LEN : 0;
}

static inline uint32_t fl_tcp_ddgst_len(const struct fl_tcp_hdr *hdr)
{
    return (hdr->flags & FL_TCP_F_DDGST) ? FL_TCP_DIGEST_LEN : 0;
}

/* Where data starts; for PDUs without data, their end. */
static inline uint32_t fl_tcp_data_offset(const struct fl_tcp_hdr *hdr)
{
    return hdr->pdo ? hdr->pdo : hdr->hlen + fl_tcp_hdgst_len(hdr);
}

/* How much data a PDU brings: 0 for most types. In a termination request it is the copy of the header
 * complained about. */
static inline uint32_t fl_tcp_data_len(const struct fl_tcp_hdr *hdr)
{
    return le32_get(hdr->plen) - fl_tcp_data_offset(hdr) - fl_tcp_ddgst_len(hdr);
}

/* Where data goes in a PDU to be sent: the least offset after header and header digest that pda (4 to 128)
 * divides. */
uint8_t fl_tcp_pdo(uint8_t hlen, bool hdgst, uint8_t pda);

/* Fills in a common header for a PDU to be sent, with its digest flags and lengths: data_len 0 means no data
 * (no PDO, no data digest). pda: 4 unless the peer asked for more. Returns PLEN. */
static inline uint32_t fl_tcp_hdr_set(struct fl_tcp_hdr *hdr, enum fl_tcp_type type, uint8_t flags,
                                      uint8_t hlen, bool hdgst, bool ddgst, uint8_t pda, uint32_t data_len)
{
    uint32_t plen = hlen + (hdgst ? FL_TCP_DIGEST_LEN : 0u);
    uint8_t pdo = 0;
    le64 word;

    if (hdgst)
        flags |= FL_TCP_F_HDGST;
    if (data_len) {
        pdo = pda == FL_TCP_PDA_MIN ? (uint8_t)plen
                                    : fl_tcp_pdo(hlen, hdgst, pda); /* header lengths are multiples of 4 */
        plen = pdo + data_len;
        if (ddgst) {
            flags |= FL_TCP_F_DDGST;
            plen += FL_TCP_DIGEST_LEN;
        }
    }
    /* in one store: whoever copies it next reads it in one */
    word = le64_of((uint64_t)type | (uint64_t)flags << 8 | (uint64_t)hlen << 16 | (uint64_t)pdo << 24 |
                   (uint64_t)plen << 32);
    memcpy(hdr, &word, sizeof(*hdr));
    return plen;
}

#endif
