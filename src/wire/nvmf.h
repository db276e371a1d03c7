/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_NVMF_H
#define FL_WIRE_NVMF_H

/*
 * NVMe over Fabrics 1.1: Fabrics commands, Connect data, controller properties.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/layout.h"
#include "wire/nvme.h"

/* Opcode of every Fabrics command; the type stands in byte 4, where others have the namespace. */
#define FL_NVMF_OPCODE 0x7f

enum fl_nvmf_fctype {
    FL_NVMF_PROPERTY_SET = 0x00,
    FL_NVMF_CONNECT = 0x01,
    FL_NVMF_PROPERTY_GET = 0x04,
    FL_NVMF_AUTH_SEND = 0x05,
    FL_NVMF_AUTH_RECV = 0x06,
    FL_NVMF_DISCONNECT = 0x08,
};

/* "Connect" and so on; "unknown Fabrics command" for others. Never NULL, static. */
const char *fl_nvmf_fctype_text(uint8_t fctype);

static inline uint8_t fl_nvmf_fctype(const struct fl_nvme_sqe *sqe)
{
    return (uint8_t)le32_get(sqe->nsid);
}

/* Direction of a command's data, Fabrics commands included: theirs is in the type, not in the opcode. */
static inline enum fl_nvme_xfer fl_nvmf_xfer(const struct fl_nvme_sqe *sqe)
{
    return fl_nvme_opcode_xfer(sqe->opcode == FL_NVMF_OPCODE ? fl_nvmf_fctype(sqe) : sqe->opcode);
}

/* What all Fabrics commands share, up to the type */
struct fl_nvmf_cmd {
    uint8_t opcode;
    uint8_t flags;
    le16 cid;
    uint8_t fctype;
    uint8_t rsvd5[19];
    struct fl_nvme_sgl sgl;
    uint8_t rsvd40[24];
};
FL_LAYOUT_SIZE(fl_nvmf_cmd, 64);
FL_LAYOUT_AT(fl_nvmf_cmd, opcode, 0);
FL_LAYOUT_AT(fl_nvmf_cmd, flags, 1);
FL_LAYOUT_AT(fl_nvmf_cmd, cid, 2);
FL_LAYOUT_AT(fl_nvmf_cmd, fctype, 4);
FL_LAYOUT_AT(fl_nvmf_cmd, rsvd5, 5);
FL_LAYOUT_AT(fl_nvmf_cmd, sgl, 24);
FL_LAYOUT_AT(fl_nvmf_cmd, rsvd40, 40);

#define FL_NVMF_CATTR_PRIORITY_MASK     0x03
#define FL_NVMF_CATTR_NO_SQ_FLOW        0x04 /* no SQ flow control wanted: SQHD is not used */
#define FL_NVMF_CATTR_INDIVIDUAL_DELETE 0x08

struct fl_nvmf_connect_cmd {
    uint8_t opcode;
    uint8_t flags;
    le16 cid;
    uint8_t fctype;
    uint8_t rsvd5[19];
    struct fl_nvme_sgl sgl;
    le16 recfmt; /* 0 */
    le16 qid;
    le16 sqsize;   /* 0's based */
    uint8_t cattr; /* FL_NVMF_CATTR_* */
    uint8_t rsvd47;
    le32 kato; /* milliseconds */
    uint8_t rsvd52[12];
};
FL_LAYOUT_SIZE(fl_nvmf_connect_cmd, 64);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, opcode, 0);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, flags, 1);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, cid, 2);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, fctype, 4);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, rsvd5, 5);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, sgl, 24);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, recfmt, 40);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, qid, 42);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, sqsize, 44);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, cattr, 46);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, rsvd47, 47);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, kato, 48);
FL_LAYOUT_AT(fl_nvmf_connect_cmd, rsvd52, 52);

#define FL_NVMF_CNTLID_DYNAMIC    0xffff /* in Connect data: any controller will do */
#define FL_NVMF_CNTLID_STATIC_ANY 0xfffe
#define FL_NVMF_CNTLID_MAX        0xffef

struct fl_nvmf_connect_data {
    uint8_t hostid[16];
    le16 cntlid;
    uint8_t rsvd18[238];
    char subnqn[256];
    char hostnqn[256];
    uint8_t rsvd768[256];
};
FL_LAYOUT_SIZE(fl_nvmf_connect_data, 1024);
FL_LAYOUT_AT(fl_nvmf_connect_data, hostid, 0);
FL_LAYOUT_AT(fl_nvmf_connect_data, cntlid, 16);
FL_LAYOUT_AT(fl_nvmf_connect_data, rsvd18, 18);
FL_LAYOUT_AT(fl_nvmf_connect_data, subnqn, 256);
FL_LAYOUT_AT(fl_nvmf_connect_data, hostnqn, 512);
FL_LAYOUT_AT(fl_nvmf_connect_data, rsvd768, 768);

/* Connect's answer in DW0: on success the controller's id, and what authentication it wants first; */
static inline uint16_t fl_nvmf_connect_cntlid(const struct fl_nvme_cqe *cqe)
{
    return (uint16_t)le32_get(cqe->dw0);
}

#define FL_NVMF_AUTHREQ_ATR  (1u << 17) /* in-band authentication wanted */
#define FL_NVMF_AUTHREQ_ASCR (1u << 18) /* in-band authentication wanted, then a secure channel */

/* with FL_NVME_SC_CONNECT_INVALID_PARAM where the bad field is: its offset in the command, or in the data. */
#define FL_NVMF_IATTR_DATA (1u << 16)

static inline uint32_t fl_nvmf_connect_invalid(bool in_data, uint16_t offset)
{
    return (in_data ? FL_NVMF_IATTR_DATA : 0) | offset;
}

/*
 * Connect data with its NQNs checked: each ends within its field, holds 1 to 223 bytes. 0, or -EPROTO and
 * *offset of the field.
 */
int fl_nvmf_connect_data_check(const struct fl_nvmf_connect_data *data, uint32_t *offset);

/* -EINVAL when an NQN is empty or over 223 bytes. */
int fl_nvmf_connect_data_encode(struct fl_nvmf_connect_data *data, const uint8_t hostid[16], uint16_t cntlid,
                                const char *subnqn, const char *hostnqn);

/* Is this field of len bytes (256 on the wire) an NQN: 1 to 223 bytes before its first NUL? Says nothing of
 * the NQN's form. */
bool fl_nvmf_nqn_field_ok(const char *field, size_t len);

#define FL_NVMF_PROPERTY_SIZE_MASK 0x07
#define FL_NVMF_PROPERTY_4         0
#define FL_NVMF_PROPERTY_8         1

struct fl_nvmf_property_set_cmd {
    uint8_t opcode;
    uint8_t flags;
    le16 cid;
    uint8_t fctype;
    uint8_t rsvd5[35];
    uint8_t attrib; /* FL_NVMF_PROPERTY_4 or _8 */
    uint8_t rsvd41[3];
    le32 ofst;
    le64 value;
    uint8_t rsvd56[8];
};
FL_LAYOUT_SIZE(fl_nvmf_property_set_cmd, 64);
FL_LAYOUT_AT(fl_nvmf_property_set_cmd, opcode, 0);
FL_LAYOUT_AT(fl_nvmf_property_set_cmd, flags, 1);
FL_LAYOUT_AT(fl_nvmf_property_set_cmd, cid, 2);
FL_LAYOUT_AT(fl_nvmf_property_set_cmd, fctype, 4);
FL_LAYOUT_AT(fl_nvmf_property_set_cmd, rsvd5, 5);
FL_LAYOUT_AT(fl_nvmf_property_set_cmd, attrib, 40);
FL_LAYOUT_AT(fl_nvmf_property_set_cmd, rsvd41, 41);
FL_LAYOUT_AT(fl_nvmf_property_set_cmd, ofst, 44);
FL_LAYOUT_AT(fl_nvmf_property_set_cmd, value, 48);
FL_LAYOUT_AT(fl_nvmf_property_set_cmd, rsvd56, 56);

/* The value comes in DW0 and DW1. */
struct fl_nvmf_property_get_cmd {
    uint8_t opcode;
    uint8_t flags;
    le16 cid;
    uint8_t fctype;
    uint8_t rsvd5[35];
    uint8_t attrib; /* FL_NVMF_PROPERTY_4 or _8 */
    uint8_t rsvd41[3];
    le32 ofst;
    uint8_t rsvd48[16];
};
FL_LAYOUT_SIZE(fl_nvmf_property_get_cmd, 64);
FL_LAYOUT_AT(fl_nvmf_property_get_cmd, opcode, 0);
FL_LAYOUT_AT(fl_nvmf_property_get_cmd, flags, 1);
FL_LAYOUT_AT(fl_nvmf_property_get_cmd, cid, 2);
FL_LAYOUT_AT(fl_nvmf_property_get_cmd, fctype, 4);
FL_LAYOUT_AT(fl_nvmf_property_get_cmd, rsvd5, 5);
FL_LAYOUT_AT(fl_nvmf_property_get_cmd, attrib, 40);
FL_LAYOUT_AT(fl_nvmf_property_get_cmd, rsvd41, 41);
FL_LAYOUT_AT(fl_nvmf_property_get_cmd, ofst, 44);
FL_LAYOUT_AT(fl_nvmf_property_get_cmd, rsvd48, 48);

static inline uint64_t fl_nvmf_property_value(const struct fl_nvme_cqe *cqe)
{
    return le32_get(cqe->dw0) | (uint64_t)le32_get(cqe->dw1) << 32;
}

struct fl_nvmf_disconnect_cmd {
    uint8_t opcode;
    uint8_t flags;
    le16 cid;
    uint8_t fctype;
    uint8_t rsvd5[19];
    struct fl_nvme_sgl sgl;
    le16 recfmt; /* 0 */
    uint8_t rsvd42[22];
};
FL_LAYOUT_SIZE(fl_nvmf_disconnect_cmd, 64);
FL_LAYOUT_AT(fl_nvmf_disconnect_cmd, opcode, 0);
FL_LAYOUT_AT(fl_nvmf_disconnect_cmd, flags, 1);
FL_LAYOUT_AT(fl_nvmf_disconnect_cmd, cid, 2);
FL_LAYOUT_AT(fl_nvmf_disconnect_cmd, fctype, 4);
FL_LAYOUT_AT(fl_nvmf_disconnect_cmd, rsvd5, 5);
FL_LAYOUT_AT(fl_nvmf_disconnect_cmd, sgl, 24);
FL_LAYOUT_AT(fl_nvmf_disconnect_cmd, recfmt, 40);
FL_LAYOUT_AT(fl_nvmf_disconnect_cmd, rsvd42, 42);

#define FL_NVMF_AUTH_SECP 0xe9 /* the NVMe authentication protocols */
#define FL_NVMF_AUTH_SPSP 0x01 /* both bytes */

/* Authentication Send and Receive */
struct fl_nvmf_auth_cmd {
    uint8_t opcode;
    uint8_t flags;
    le16 cid;
    uint8_t fctype;
    uint8_t rsvd5[19];
    struct fl_nvme_sgl sgl;
    uint8_t rsvd40;
    uint8_t spsp0;
    uint8_t spsp1;
    uint8_t secp;
    le32 len; /* transfer length (Send) or allocation length (Receive), in bytes */
    uint8_t rsvd48[16];
};
FL_LAYOUT_SIZE(fl_nvmf_auth_cmd, 64);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, opcode, 0);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, flags, 1);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, cid, 2);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, fctype, 4);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, rsvd5, 5);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, sgl, 24);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, rsvd40, 40);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, spsp0, 41);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, spsp1, 42);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, secp, 43);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, len, 44);
FL_LAYOUT_AT(fl_nvmf_auth_cmd, rsvd48, 48);

/* Properties of a controller (base specification 3.1.3); other offsets are not reachable over fabrics. */
enum fl_nvmf_property {
    FL_NVMF_PROP_CAP = 0x00, /* 8 bytes; the others 4 */
    FL_NVMF_PROP_VS = 0x08,
    FL_NVMF_PROP_CC = 0x14,
    FL_NVMF_PROP_CSTS = 0x1c,
    FL_NVMF_PROP_NSSR = 0x20,
    FL_NVMF_PROP_NSSD = 0x64,
    FL_NVMF_PROP_CRTO = 0x68,
};

#define FL_NVME_VS_OF(major, minor, tertiary) \
    ((uint32_t)(major) << 16 | (uint32_t)(minor) << 8 | (uint32_t)(tertiary))
#define FL_NVME_VS_1_3 FL_NVME_VS_OF(1, 3, 0)
#define FL_NVME_VS_1_4 FL_NVME_VS_OF(1, 4, 0)
#define FL_NVME_VS_2_0 FL_NVME_VS_OF(2, 0, 0)

/* CAP */
#define FL_NVME_CAP_MQES_MASK    0xffffull /* entries, 0's based */
#define FL_NVME_CAP_CQR          (1ull << 16)
#define FL_NVME_CAP_TO_SHIFT     24 /* 8 bits, units of 500 ms */
#define FL_NVME_CAP_NSSRS        (1ull << 36)
#define FL_NVME_CAP_CSS_NVM      (1ull << 37)
#define FL_NVME_CAP_CSS_IOCS     (1ull << 43) /* one or more command sets, by CC.CSS 6 */
#define FL_NVME_CAP_CSS_ADMIN    (1ull << 44) /* no I/O command set */
#define FL_NVME_CAP_MPSMIN_SHIFT 48           /* 4 bits, 2^(12 + MPSMIN) */
#define FL_NVME_CAP_MPSMAX_SHIFT 52
#define FL_NVME_CAP_CRWMS        (1ull << 59) /* controller ready with media: CRTO valid */
#define FL_NVME_CAP_CRIMS        (1ull << 60)

static inline uint32_t fl_nvme_cap_nr_entries(uint64_t cap)
{
    return (uint32_t)(cap & FL_NVME_CAP_MQES_MASK) + 1;
}

static inline uint32_t fl_nvme_cap_timeout_ms(uint64_t cap)
{
    return (uint32_t)(cap >> FL_NVME_CAP_TO_SHIFT & 0xff) * 500;
}

static inline uint32_t fl_nvme_cap_page_shift(uint64_t cap)
{
    return 12 + (uint32_t)(cap >> FL_NVME_CAP_MPSMIN_SHIFT & 0xf);
}

/* CC */
#define FL_NVME_CC_EN           (1u << 0)
#define FL_NVME_CC_CSS_SHIFT    4 /* 3 bits */
#define FL_NVME_CC_CSS_NVM      0u
#define FL_NVME_CC_CSS_IOCS     6u
#define FL_NVME_CC_CSS_ADMIN    7u
#define FL_NVME_CC_MPS_SHIFT    7  /* 4 bits */
#define FL_NVME_CC_AMS_SHIFT    11 /* 3 bits */
#define FL_NVME_CC_SHN_SHIFT    14 /* 2 bits */
#define FL_NVME_CC_SHN_NORMAL   1u
#define FL_NVME_CC_SHN_ABRUPT   2u
#define FL_NVME_CC_IOSQES_SHIFT 16 /* 4 bits, 2^n bytes: 6 */
#define FL_NVME_CC_IOCQES_SHIFT 20 /* 4 bits: 4 */
#define FL_NVME_CC_CRIME        (1u << 24)

static inline uint32_t fl_nvme_cc_css(uint32_t cc)
{
    return cc >> FL_NVME_CC_CSS_SHIFT & 7;
}

static inline uint32_t fl_nvme_cc_mps(uint32_t cc)
{
    return cc >> FL_NVME_CC_MPS_SHIFT & 0xf;
}

static inline uint32_t fl_nvme_cc_ams(uint32_t cc)
{
    return cc >> FL_NVME_CC_AMS_SHIFT & 7;
}

static inline uint32_t fl_nvme_cc_shn(uint32_t cc)
{
    return cc >> FL_NVME_CC_SHN_SHIFT & 3;
}

static inline uint32_t fl_nvme_cc_iosqes(uint32_t cc)
{
    return cc >> FL_NVME_CC_IOSQES_SHIFT & 0xf;
}

static inline uint32_t fl_nvme_cc_iocqes(uint32_t cc)
{
    return cc >> FL_NVME_CC_IOCQES_SHIFT & 0xf;
}

/* CSTS */
#define FL_NVME_CSTS_RDY            (1u << 0)
#define FL_NVME_CSTS_CFS            (1u << 1) /* controller fatal status */
#define FL_NVME_CSTS_SHST_SHIFT     2         /* 2 bits */
#define FL_NVME_CSTS_SHST_NORMAL    0u
#define FL_NVME_CSTS_SHST_OCCURRING 1u
#define FL_NVME_CSTS_SHST_COMPLETE  2u
#define FL_NVME_CSTS_NSSRO          (1u << 4)
#define FL_NVME_CSTS_PP             (1u << 5)

static inline uint32_t fl_nvme_csts_shst(uint32_t csts)
{
    return csts >> FL_NVME_CSTS_SHST_SHIFT & 3;
}

#endif
