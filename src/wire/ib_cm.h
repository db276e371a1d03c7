/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_IB_CM_H
#define FL_WIRE_IB_CM_H

/*
 * Messages of the InfiniBand connection manager (IBA volume 1, 12.6 to 12.11), each a MAD of 256 bytes
 * (13.4), and the header that librdmacm and Linux put before the private data of a request to tell IP
 * addresses and port (annex A11). Fields narrower than a byte go through functions; everything else is read
 * where it lies.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/layout.h"

#define FL_MAD_LEN          256
#define FL_MAD_BASE_VERSION 1
#define FL_MAD_CLASS_CM     7
#define FL_MAD_CM_VERSION   2
#define FL_MAD_METHOD_SEND  3

/* Attribute identifiers (table 112 of 16.7.1) */
enum fl_cm_attr {
    FL_CM_REQ = 0x0010,
    FL_CM_MRA = 0x0011,
    FL_CM_REJ = 0x0012,
    FL_CM_REP = 0x0013,
    FL_CM_RTU = 0x0014,
    FL_CM_DREQ = 0x0015,
    FL_CM_DREP = 0x0016,
    FL_CM_SIDR_REQ = 0x0017,
    FL_CM_SIDR_REP = 0x0018,
    FL_CM_LAP = 0x0019, /* load alternate path and its answer: known by name, not decoded */
    FL_CM_APR = 0x001a,
};

struct fl_mad_hdr {
    uint8_t base_version;
    uint8_t mgmt_class;
    uint8_t class_version;
    uint8_t method;
    be16 status;
    be16 class_specific;
    be64 tid;
    be16 attr_id; /* enum fl_cm_attr */
    be16 rsvd18;
    be32 attr_mod;
};
FL_LAYOUT_SIZE(fl_mad_hdr, 24);
FL_LAYOUT_AT(fl_mad_hdr, base_version, 0);
FL_LAYOUT_AT(fl_mad_hdr, mgmt_class, 1);
FL_LAYOUT_AT(fl_mad_hdr, class_version, 2);
FL_LAYOUT_AT(fl_mad_hdr, method, 3);
FL_LAYOUT_AT(fl_mad_hdr, status, 4);
FL_LAYOUT_AT(fl_mad_hdr, class_specific, 6);
FL_LAYOUT_AT(fl_mad_hdr, tid, 8);
FL_LAYOUT_AT(fl_mad_hdr, attr_id, 16);
FL_LAYOUT_AT(fl_mad_hdr, rsvd18, 18);
FL_LAYOUT_AT(fl_mad_hdr, attr_mod, 20);

/* One path of a REQ: primary and alternate (12.7.10 to 12.7.21) */
struct fl_cm_path {
    be16 local_lid, remote_lid;
    uint8_t local_gid[16], remote_gid[16];
    be32 flow_rate; /* flow label 20 bits, reserved 6, packet rate 6 */
    uint8_t traffic_class;
    uint8_t hop_limit;
    uint8_t sl;          /* service level 4, subnet local 1, reserved 3 */
    uint8_t ack_timeout; /* local ACK timeout 5, reserved 3 */
};
FL_LAYOUT_SIZE(fl_cm_path, 44);
FL_LAYOUT_AT(fl_cm_path, local_gid, 4);
FL_LAYOUT_AT(fl_cm_path, remote_gid, 20);
FL_LAYOUT_AT(fl_cm_path, flow_rate, 36);
FL_LAYOUT_AT(fl_cm_path, traffic_class, 40);
FL_LAYOUT_AT(fl_cm_path, hop_limit, 41);
FL_LAYOUT_AT(fl_cm_path, sl, 42);
FL_LAYOUT_AT(fl_cm_path, ack_timeout, 43);

#define FL_CM_REQ_PRIVATE_LEN      92
#define FL_CM_MRA_PRIVATE_LEN      222
#define FL_CM_REJ_PRIVATE_LEN      148
#define FL_CM_REJ_ARI_LEN          72
#define FL_CM_REP_PRIVATE_LEN      196
#define FL_CM_RTU_PRIVATE_LEN      224
#define FL_CM_DREQ_PRIVATE_LEN     220
#define FL_CM_DREP_PRIVATE_LEN     224
#define FL_CM_SIDR_REQ_PRIVATE_LEN 216
#define FL_CM_SIDR_REP_PRIVATE_LEN 136
#define FL_CM_SIDR_REP_INFO_LEN    72

struct fl_cm_req { /* 12.6.5 */
    be32 local_id;
    uint8_t rsvd4[4];
    be64 service_id;
    be64 ca_guid;
    uint8_t rsvd24[4];
    be32 qkey;
    be24 qpn;
    uint8_t responder_resources;
    be24 eecn;
    uint8_t initiator_depth;
    be24 remote_eecn;
    uint8_t b43; /* remote CM response timeout 5, transport service 2, end to end flow control 1 */
    be24 psn;
    uint8_t b47; /* local CM response timeout 5, retry count 3 */
    be16 pkey;
    uint8_t b50; /* path MTU 4, RDC exists 1, RNR retry count 3 */
    uint8_t b51; /* max CM retries 4, SRQ 1, extended transport 3 */
    struct fl_cm_path primary, alternate;
    uint8_t private_data[FL_CM_REQ_PRIVATE_LEN];
};
FL_LAYOUT_SIZE(fl_cm_req, 232);
FL_LAYOUT_AT(fl_cm_req, service_id, 8);
FL_LAYOUT_AT(fl_cm_req, ca_guid, 16);
FL_LAYOUT_AT(fl_cm_req, qkey, 28);
FL_LAYOUT_AT(fl_cm_req, qpn, 32);
FL_LAYOUT_AT(fl_cm_req, responder_resources, 35);
FL_LAYOUT_AT(fl_cm_req, initiator_depth, 39);
FL_LAYOUT_AT(fl_cm_req, remote_eecn, 40);
FL_LAYOUT_AT(fl_cm_req, b43, 43);
FL_LAYOUT_AT(fl_cm_req, psn, 44);
FL_LAYOUT_AT(fl_cm_req, b47, 47);
FL_LAYOUT_AT(fl_cm_req, pkey, 48);
FL_LAYOUT_AT(fl_cm_req, b50, 50);
FL_LAYOUT_AT(fl_cm_req, b51, 51);
FL_LAYOUT_AT(fl_cm_req, primary, 52);
FL_LAYOUT_AT(fl_cm_req, alternate, 96);
FL_LAYOUT_AT(fl_cm_req, private_data, 140);

struct fl_cm_mra { /* 12.6.6 */
    be32 local_id, remote_id;
    uint8_t b8; /* message acknowledged 2, reserved 6 */
    uint8_t b9; /* service timeout 5, reserved 3 */
    uint8_t private_data[FL_CM_MRA_PRIVATE_LEN];
};
FL_LAYOUT_SIZE(fl_cm_mra, 232);
FL_LAYOUT_AT(fl_cm_mra, b8, 8);
FL_LAYOUT_AT(fl_cm_mra, b9, 9);
FL_LAYOUT_AT(fl_cm_mra, private_data, 10);

struct fl_cm_rej { /* 12.6.7 */
    be32 local_id, remote_id;
    uint8_t b8; /* message rejected 2, reserved 6 */
    uint8_t b9; /* length of ari 7, reserved 1 */
    be16 reason;
    uint8_t ari[FL_CM_REJ_ARI_LEN];
    uint8_t private_data[FL_CM_REJ_PRIVATE_LEN];
};
FL_LAYOUT_SIZE(fl_cm_rej, 232);
FL_LAYOUT_AT(fl_cm_rej, b8, 8);
FL_LAYOUT_AT(fl_cm_rej, b9, 9);
FL_LAYOUT_AT(fl_cm_rej, reason, 10);
FL_LAYOUT_AT(fl_cm_rej, ari, 12);
FL_LAYOUT_AT(fl_cm_rej, private_data, 84);

struct fl_cm_rep { /* 12.6.8 */
    be32 local_id, remote_id;
    be32 qkey;
    be24 qpn;
    uint8_t rsvd15;
    be24 eecn;
    uint8_t rsvd19;
    be24 psn;
    uint8_t rsvd23;
    uint8_t responder_resources;
    uint8_t initiator_depth;
    uint8_t b26; /* target ACK delay 5, failover accepted 2, end to end flow control 1 */
    uint8_t b27; /* RNR retry count 3, SRQ 1, reserved 4 */
    be64 ca_guid;
    uint8_t private_data[FL_CM_REP_PRIVATE_LEN];
};
FL_LAYOUT_SIZE(fl_cm_rep, 232);
FL_LAYOUT_AT(fl_cm_rep, qkey, 8);
FL_LAYOUT_AT(fl_cm_rep, qpn, 12);
FL_LAYOUT_AT(fl_cm_rep, eecn, 16);
FL_LAYOUT_AT(fl_cm_rep, psn, 20);
FL_LAYOUT_AT(fl_cm_rep, responder_resources, 24);
FL_LAYOUT_AT(fl_cm_rep, initiator_depth, 25);
FL_LAYOUT_AT(fl_cm_rep, b26, 26);
FL_LAYOUT_AT(fl_cm_rep, b27, 27);
FL_LAYOUT_AT(fl_cm_rep, ca_guid, 28);
FL_LAYOUT_AT(fl_cm_rep, private_data, 36);

struct fl_cm_rtu { /* 12.6.9 */
    be32 local_id, remote_id;
    uint8_t private_data[FL_CM_RTU_PRIVATE_LEN];
};
FL_LAYOUT_SIZE(fl_cm_rtu, 232);

struct fl_cm_dreq { /* 12.6.10 */
    be32 local_id, remote_id;
    be24 remote_qpn; /* of the side that receives this */
    uint8_t rsvd11;
    uint8_t private_data[FL_CM_DREQ_PRIVATE_LEN];
};
FL_LAYOUT_SIZE(fl_cm_dreq, 232);
FL_LAYOUT_AT(fl_cm_dreq, remote_qpn, 8);
FL_LAYOUT_AT(fl_cm_dreq, private_data, 12);

struct fl_cm_drep { /* 12.6.11 */
    be32 local_id, remote_id;
    uint8_t private_data[FL_CM_DREP_PRIVATE_LEN];
};
FL_LAYOUT_SIZE(fl_cm_drep, 232);

struct fl_cm_sidr_req { /* 12.11.1 */
    be32 request_id;
    be16 pkey;
    uint8_t rsvd6[2];
    be64 service_id;
    uint8_t private_data[FL_CM_SIDR_REQ_PRIVATE_LEN];
};
FL_LAYOUT_SIZE(fl_cm_sidr_req, 232);
FL_LAYOUT_AT(fl_cm_sidr_req, pkey, 4);
FL_LAYOUT_AT(fl_cm_sidr_req, service_id, 8);
FL_LAYOUT_AT(fl_cm_sidr_req, private_data, 16);

struct fl_cm_sidr_rep { /* 12.11.2 */
    be32 request_id;
    uint8_t status; /* enum fl_cm_sidr_status */
    uint8_t info_len;
    uint8_t rsvd6[2];
    be24 qpn;
    uint8_t rsvd11;
    be64 service_id;
    be32 qkey;
    uint8_t info[FL_CM_SIDR_REP_INFO_LEN];
    uint8_t private_data[FL_CM_SIDR_REP_PRIVATE_LEN];
};
FL_LAYOUT_SIZE(fl_cm_sidr_rep, 232);
FL_LAYOUT_AT(fl_cm_sidr_rep, status, 4);
FL_LAYOUT_AT(fl_cm_sidr_rep, info_len, 5);
FL_LAYOUT_AT(fl_cm_sidr_rep, qpn, 8);
FL_LAYOUT_AT(fl_cm_sidr_rep, service_id, 12);
FL_LAYOUT_AT(fl_cm_sidr_rep, qkey, 20);
FL_LAYOUT_AT(fl_cm_sidr_rep, info, 24);
FL_LAYOUT_AT(fl_cm_sidr_rep, private_data, 96);

struct fl_cm_mad {
    struct fl_mad_hdr hdr;
    union {
        struct fl_cm_req req;
        struct fl_cm_mra mra;
        struct fl_cm_rej rej;
        struct fl_cm_rep rep;
        struct fl_cm_rtu rtu;
        struct fl_cm_dreq dreq;
        struct fl_cm_drep drep;
        struct fl_cm_sidr_req sidr_req;
        struct fl_cm_sidr_rep sidr_rep;
        uint8_t bytes[232];
    };
};
FL_LAYOUT_SIZE(fl_cm_mad, FL_MAD_LEN);

/* Message named by an MRA (12.6.6.3) or a REJ (12.6.7.3) */
enum fl_cm_about {
    FL_CM_ABOUT_REQ = 0,
    FL_CM_ABOUT_REP = 1,
    FL_CM_ABOUT_OTHER = 2, /* MRA: a LAP; REJ: none of them */
};

enum fl_cm_reason { /* of a REJ; table 107 of 12.6.7.2 */
                    FL_CM_REJ_NO_QP = 1,
                    FL_CM_REJ_NO_EEC = 2,
                    FL_CM_REJ_NO_RESOURCES = 3,
                    FL_CM_REJ_TIMEOUT = 4,
                    FL_CM_REJ_UNSUPPORTED = 5,
                    FL_CM_REJ_COMM_ID = 6,
                    FL_CM_REJ_COMM_INSTANCE = 7,
                    FL_CM_REJ_SERVICE_ID = 8, /* nobody listens */
                    FL_CM_REJ_TRANSPORT = 9,
                    FL_CM_REJ_STALE = 10,
                    FL_CM_REJ_PRIMARY_GID = 12, /* primary remote GID */
                    FL_CM_REJ_PATH_MTU = 26,
                    FL_CM_REJ_RESPONDER_RESOURCES = 27,
                    FL_CM_REJ_CONSUMER = 28,
                    FL_CM_REJ_RNR_RETRY = 29,
                    FL_CM_REJ_DUPLICATE_ID = 30,
                    FL_CM_REJ_CLASS_VERSION = 31,
};

enum fl_cm_sidr_status { /* 12.11.2.2 */
                         FL_CM_SIDR_OK = 0,
                         FL_CM_SIDR_UNSUPPORTED = 1, /* service ID not known */
                         FL_CM_SIDR_REJECT = 2,
                         FL_CM_SIDR_NO_QP = 3,
                         FL_CM_SIDR_REDIRECT = 4,
                         FL_CM_SIDR_VERSION = 5,
};

/* One member for each: all of a field's values fit, higher bits of v are dropped. shift: from the low end of
 * the byte. */
#define FL_CM_BITS_(name, type, byte, shift, bits)                        \
    static inline uint8_t name(const struct type *m)                      \
    {                                                                     \
        return m->byte >> (shift) & ((1u << (bits)) - 1);                 \
    }                                                                     \
    static inline void name##_set(struct type *m, uint8_t v)              \
    {                                                                     \
        uint8_t mask = (uint8_t)(((1u << (bits)) - 1) << (shift));        \
        m->byte = (uint8_t)((m->byte & ~mask) | ((v << (shift)) & mask)); \
    }

FL_CM_BITS_(fl_cm_req_remote_timeout, fl_cm_req, b43, 3, 5) /* 4.096 us times 2 to it */
FL_CM_BITS_(fl_cm_req_service, fl_cm_req, b43, 1, 2)        /* 0 RC, 1 UC, 2 RD, 3 extended */
FL_CM_BITS_(fl_cm_req_flow_control, fl_cm_req, b43, 0, 1)
FL_CM_BITS_(fl_cm_req_local_timeout, fl_cm_req, b47, 3, 5)
FL_CM_BITS_(fl_cm_req_retry_count, fl_cm_req, b47, 0, 3)
FL_CM_BITS_(fl_cm_req_mtu, fl_cm_req, b50, 4, 4) /* 1 is 256, 5 is 4096: fl_ib_mtu_len() */
FL_CM_BITS_(fl_cm_req_rdc, fl_cm_req, b50, 3, 1)
FL_CM_BITS_(fl_cm_req_rnr_retry_count, fl_cm_req, b50, 0, 3)
FL_CM_BITS_(fl_cm_req_max_cm_retries, fl_cm_req, b51, 4, 4)
FL_CM_BITS_(fl_cm_req_srq, fl_cm_req, b51, 3, 1)
FL_CM_BITS_(fl_cm_req_extended, fl_cm_req, b51, 0, 3)
FL_CM_BITS_(fl_cm_path_sl, fl_cm_path, sl, 4, 4)
FL_CM_BITS_(fl_cm_path_subnet_local, fl_cm_path, sl, 3, 1)
FL_CM_BITS_(fl_cm_path_ack_timeout, fl_cm_path, ack_timeout, 3, 5)
FL_CM_BITS_(fl_cm_mra_about, fl_cm_mra, b8, 6, 2)
FL_CM_BITS_(fl_cm_mra_timeout, fl_cm_mra, b9, 3, 5)
FL_CM_BITS_(fl_cm_rej_about, fl_cm_rej, b8, 6, 2)
FL_CM_BITS_(fl_cm_rej_ari_len, fl_cm_rej, b9, 1, 7) /* may be more than there is room for: see the view */
FL_CM_BITS_(fl_cm_rep_ack_delay, fl_cm_rep, b26, 3, 5)
FL_CM_BITS_(fl_cm_rep_failover, fl_cm_rep, b26, 1, 2)
FL_CM_BITS_(fl_cm_rep_flow_control, fl_cm_rep, b26, 0, 1)
FL_CM_BITS_(fl_cm_rep_rnr_retry_count, fl_cm_rep, b27, 5, 3)
FL_CM_BITS_(fl_cm_rep_srq, fl_cm_rep, b27, 4, 1)

static inline uint32_t fl_cm_path_flow_label(const struct fl_cm_path *path)
{
    return be32_get(path->flow_rate) >> 12;
}

static inline uint8_t fl_cm_path_rate(const struct fl_cm_path *path)
{
    return be32_get(path->flow_rate) & 63;
}

static inline void fl_cm_path_flow_rate_set(struct fl_cm_path *path, uint32_t flow_label, uint8_t rate)
{
    path->flow_rate = be32_of(flow_label << 12 | (rate & 63));
}

/*
 * A whole MAD as a CM message. NULL: not 256 bytes, not of the CM's class and version, not a Send(), an
 * attribute that is not in enum fl_cm_attr, or a length inside that goes beyond its field. (A wrong class
 * version is the one fault that is answered: fl_cm_version_wrong.)
 */
const struct fl_cm_mad *fl_cm_view(const void *bytes, size_t len);
/* A CM message that only its class version spoils; the answer to a REQ like that is REJ 31. */
bool fl_cm_version_wrong(const void *bytes, size_t len);

/* Zeroes all and fills in the header. */
void fl_cm_init(struct fl_cm_mad *mad, enum fl_cm_attr attr, uint64_t tid);

/* Where the private data of a message lies, and how much; length 0 for LAP and APR. */
uint8_t *fl_cm_private(struct fl_cm_mad *mad, size_t *len);

/* "ConnectRequest" and so on, "unknown CM message". Never NULL, static. */
const char *fl_cm_attr_text(uint16_t attr);
/* Why a REJ was sent, in plain words. Never NULL, static. */
const char *fl_cm_reason_text(uint16_t reason);
const char *fl_cm_sidr_status_text(uint8_t status);

/* Annex A11: the first bytes of the private data of a REQ or SIDR_REQ whose service ID says so */
struct fl_cm_ip_hdr {
    uint8_t version; /* major 4, minor 4: 0 */
    uint8_t ip;      /* 4 or 6 in the upper half, reserved */
    be16 src_port;
    uint8_t src[16], dst[16]; /* IPv4: in the last four bytes, zeroes before */
};
FL_LAYOUT_SIZE(fl_cm_ip_hdr, 36);
FL_LAYOUT_AT(fl_cm_ip_hdr, src_port, 2);
FL_LAYOUT_AT(fl_cm_ip_hdr, src, 4);
FL_LAYOUT_AT(fl_cm_ip_hdr, dst, 20);

/* Port spaces of librdmacm in a service ID (A11.2.2): 00 00 00 00 01, the protocol, the port */
enum fl_cm_port_space {
    FL_CM_PS_TCP = 0x06,
    FL_CM_PS_UDP = 0x11,
    FL_CM_PS_IB = 0x3f,
};

uint64_t fl_cm_service_id(enum fl_cm_port_space space, uint16_t port);
/* False if the service ID is not of this kind. */
bool fl_cm_service_id_parse(uint64_t service_id, uint8_t *space, uint16_t *port);

/* The header at the start of private data: NULL if len is too small, the version unknown, or the IP version
 * neither 4 nor 6. */
const struct fl_cm_ip_hdr *fl_cm_ip_view(const void *private_data, size_t len);
/* ip_version 4 or 6; src and dst of 4 or 16 bytes. */
void fl_cm_ip_set(struct fl_cm_ip_hdr *hdr, int ip_version, uint16_t src_port, const void *src,
                  const void *dst);

#endif
