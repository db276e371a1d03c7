/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_DISCOVERY_H
#define FL_WIRE_DISCOVERY_H

/*
 * Discovery log page (base specification 5.16.1.23, NVMe over Fabrics 1.1 5.3): log page 70h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/layout.h"
#include "wire/nvme.h"

enum fl_disc_trtype {
    FL_DISC_TRTYPE_RDMA = 1,
    FL_DISC_TRTYPE_FC = 2,
    FL_DISC_TRTYPE_TCP = 3,
    FL_DISC_TRTYPE_LOOP = 254,
};

enum fl_disc_adrfam {
    FL_DISC_ADRFAM_PCI = 0,
    FL_DISC_ADRFAM_IPV4 = 1,
    FL_DISC_ADRFAM_IPV6 = 2,
    FL_DISC_ADRFAM_IB = 3,
    FL_DISC_ADRFAM_FC = 4,
    FL_DISC_ADRFAM_LOOP = 254,
};

enum fl_disc_subtype {
    FL_DISC_SUBTYPE_REFERRAL = 1,
    FL_DISC_SUBTYPE_NVM = 2,
    FL_DISC_SUBTYPE_CURRENT = 3, /* the discovery subsystem that answers */
};

/* TREQ: bits 1:0 secure channel, bit 2 flow control may be disabled */
#define FL_DISC_TREQ_SECURE_MASK         0x03
#define FL_DISC_TREQ_SECURE_UNSPECIFIED  0
#define FL_DISC_TREQ_SECURE_REQUIRED     1
#define FL_DISC_TREQ_SECURE_NOT_REQUIRED 2
#define FL_DISC_TREQ_NO_SQ_FLOW          0x04

#define FL_DISC_EFLAGS_DUPRETINFO (1u << 0) /* the same through every port */
#define FL_DISC_EFLAGS_EPCSD      (1u << 1) /* explicit persistent connection supported */
#define FL_DISC_EFLAGS_NCC        (1u << 2)

#define FL_DISC_CNTLID_DYNAMIC 0xffff
#define FL_DISC_ASQSZ_MIN      32

enum fl_disc_tcp_sectype {
    FL_DISC_TCP_SECTYPE_NONE = 0,
    FL_DISC_TCP_SECTYPE_TLS12 = 1,
    FL_DISC_TCP_SECTYPE_TLS13 = 2,
};

enum fl_disc_rdma_qptype {
    FL_DISC_RDMA_QPTYPE_CONNECTED = 1,
    FL_DISC_RDMA_QPTYPE_DATAGRAM = 2,
};

enum fl_disc_rdma_prtype {
    FL_DISC_RDMA_PRTYPE_NONE = 1,
    FL_DISC_RDMA_PRTYPE_IB = 2,
    FL_DISC_RDMA_PRTYPE_ROCE = 3,
    FL_DISC_RDMA_PRTYPE_ROCEV2 = 4,
    FL_DISC_RDMA_PRTYPE_IWARP = 5,
};

#define FL_DISC_RDMA_CMS_RDMA_CM 1

struct fl_disc_header {
    le64 genctr;
    le64 numrec;
    le16 recfmt; /* 0 */
    uint8_t rsvd18[1006];
};
FL_LAYOUT_SIZE(fl_disc_header, 1024);
FL_LAYOUT_AT(fl_disc_header, genctr, 0);
FL_LAYOUT_AT(fl_disc_header, numrec, 8);
FL_LAYOUT_AT(fl_disc_header, recfmt, 16);
FL_LAYOUT_AT(fl_disc_header, rsvd18, 18);

struct fl_disc_entry {
    uint8_t trtype;  /* enum fl_disc_trtype */
    uint8_t adrfam;  /* enum fl_disc_adrfam */
    uint8_t subtype; /* enum fl_disc_subtype */
    uint8_t treq;    /* FL_DISC_TREQ_* */
    le16 portid;
    le16 cntlid;
    le16 asqsz;
    le16 eflags; /* FL_DISC_EFLAGS_* */
    uint8_t rsvd12[20];
    char trsvcid[32]; /* ASCII, padded with spaces */
    uint8_t rsvd64[192];
    char subnqn[256];  /* ends with NUL */
    char traddr[256];  /* ASCII, padded with spaces */
    uint8_t tsas[256]; /* by trtype, below */
};
FL_LAYOUT_SIZE(fl_disc_entry, 1024);
FL_LAYOUT_AT(fl_disc_entry, trtype, 0);
FL_LAYOUT_AT(fl_disc_entry, adrfam, 1);
FL_LAYOUT_AT(fl_disc_entry, subtype, 2);
FL_LAYOUT_AT(fl_disc_entry, treq, 3);
FL_LAYOUT_AT(fl_disc_entry, portid, 4);
FL_LAYOUT_AT(fl_disc_entry, cntlid, 6);
FL_LAYOUT_AT(fl_disc_entry, asqsz, 8);
FL_LAYOUT_AT(fl_disc_entry, eflags, 10);
FL_LAYOUT_AT(fl_disc_entry, rsvd12, 12);
FL_LAYOUT_AT(fl_disc_entry, trsvcid, 32);
FL_LAYOUT_AT(fl_disc_entry, rsvd64, 64);
FL_LAYOUT_AT(fl_disc_entry, subnqn, 256);
FL_LAYOUT_AT(fl_disc_entry, traddr, 512);
FL_LAYOUT_AT(fl_disc_entry, tsas, 768);

/* tsas of TCP */
struct fl_disc_tsas_tcp {
    uint8_t sectype; /* enum fl_disc_tcp_sectype */
    uint8_t rsvd1[255];
};
FL_LAYOUT_SIZE(fl_disc_tsas_tcp, 256);
FL_LAYOUT_AT(fl_disc_tsas_tcp, sectype, 0);
FL_LAYOUT_AT(fl_disc_tsas_tcp, rsvd1, 1);

/* tsas of RDMA */
struct fl_disc_tsas_rdma {
    uint8_t qptype;
    uint8_t prtype;
    uint8_t cms;
    uint8_t rsvd3[5];
    le16 pkey;
    uint8_t rsvd10[246];
};
FL_LAYOUT_SIZE(fl_disc_tsas_rdma, 256);
FL_LAYOUT_AT(fl_disc_tsas_rdma, qptype, 0);
FL_LAYOUT_AT(fl_disc_tsas_rdma, prtype, 1);
FL_LAYOUT_AT(fl_disc_tsas_rdma, cms, 2);
FL_LAYOUT_AT(fl_disc_tsas_rdma, rsvd3, 3);
FL_LAYOUT_AT(fl_disc_tsas_rdma, pkey, 8);
FL_LAYOUT_AT(fl_disc_tsas_rdma, rsvd10, 10);

/* One entry in plain form: strings trimmed and ended by NUL. */
struct fl_disc_record {
    uint8_t trtype, adrfam, subtype, treq;
    uint16_t portid, cntlid, asqsz, eflags;
    uint8_t sectype;                            /* TCP */
    uint8_t rdma_qptype, rdma_prtype, rdma_cms; /* RDMA */
    uint16_t rdma_pkey;
    char trsvcid[33];
    char traddr[257];
    char subnqn[FL_NVME_NQN_FIELD_LEN];
};

/*
 * The header of a log page of which page_len bytes are here. 0 and *genctr, *numrec; else -EPROTO with
 * *offset (may be NULL) of the field that is wrong: page shorter than a header, or RECFMT unknown. *numrec is
 * what the peer says: read on in pages, and use fl_disc_nr_here() for what this one holds.
 */
int fl_disc_header_decode(const void *page, size_t page_len, uint64_t *genctr, uint64_t *numrec,
                          uint32_t *offset);

/* Whole entries of a log page that lie within its first page_len bytes, at most numrec. */
static inline size_t fl_disc_nr_here(size_t page_len, uint64_t numrec)
{
    size_t nr = page_len < sizeof(struct fl_disc_header) ? 0 : page_len / sizeof(struct fl_disc_entry) - 1;
    return numrec < nr ? (size_t)numrec : nr;
}

/*
 * Fields padded with spaces or NULs are trimmed. -EPROTO with *offset (may be NULL): NQN not ended within its
 * field, longer than 223 bytes or empty; a byte below space or above '~' in TRSVCID or TRADDR. Transports,
 * address families and types that are not known here are passed on as they are: the reader skips such
 * entries.
 */
int fl_disc_entry_decode(const struct fl_disc_entry *entry, struct fl_disc_record *record, uint32_t *offset);

void fl_disc_header_encode(struct fl_disc_header *header, uint64_t genctr, uint64_t numrec);

/* -EINVAL when a string is too long for its field (it is never cut). */
int fl_disc_entry_encode(struct fl_disc_entry *entry, const struct fl_disc_record *record);

#endif
