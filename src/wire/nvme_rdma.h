/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_NVME_RDMA_H
#define FL_WIRE_NVME_RDMA_H

/*
 * NVMe RDMA transport specification 1.0: what the connection manager's messages carry, and what the data
 * pointer of a command says. A capsule of a command is the SQE and in-capsule data, in one SEND; a response
 * capsule is the CQE.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/layout.h"
#include "wire/nvme.h"

#define FL_NVME_RDMA_RECFMT    0  /* of all three */
#define FL_NVME_RDMA_ADMIN_MAX 32 /* entries of an admin queue */

/* Private data of REQ */
struct fl_nvme_rdma_req {
    le16 recfmt;
    le16 qid;
    le16 hrqsize; /* receives that the host keeps posted: 1's based */
    le16 hsqsize; /* of the submission queue: 0's based */
    le16 cntlid;  /* FFFFh or, of older hosts, 0: any */
    uint8_t rsvd10[22];
};
FL_LAYOUT_SIZE(fl_nvme_rdma_req, 32);
FL_LAYOUT_AT(fl_nvme_rdma_req, recfmt, 0);
FL_LAYOUT_AT(fl_nvme_rdma_req, qid, 2);
FL_LAYOUT_AT(fl_nvme_rdma_req, hrqsize, 4);
FL_LAYOUT_AT(fl_nvme_rdma_req, hsqsize, 6);
FL_LAYOUT_AT(fl_nvme_rdma_req, cntlid, 8);

/* Private data of REP */
struct fl_nvme_rdma_rep {
    le16 recfmt;
    le16 crqsize; /* receives that the controller keeps posted: 1's based */
    uint8_t rsvd4[28];
};
FL_LAYOUT_SIZE(fl_nvme_rdma_rep, 32);
FL_LAYOUT_AT(fl_nvme_rdma_rep, recfmt, 0);
FL_LAYOUT_AT(fl_nvme_rdma_rep, crqsize, 2);

/* Private data of REJ, when it is the controller that rejects (CM reason 28) */
struct fl_nvme_rdma_rej {
    le16 recfmt;
    le16 sts; /* enum fl_nvme_rdma_sts */
};
FL_LAYOUT_SIZE(fl_nvme_rdma_rej, 4);
FL_LAYOUT_AT(fl_nvme_rdma_rej, recfmt, 0);
FL_LAYOUT_AT(fl_nvme_rdma_rej, sts, 2);

enum fl_nvme_rdma_sts {
    FL_NVME_RDMA_INVALID_LEN = 1,
    FL_NVME_RDMA_INVALID_RECFMT = 2,
    FL_NVME_RDMA_INVALID_QID = 3,
    FL_NVME_RDMA_INVALID_HSQSIZE = 4,
    FL_NVME_RDMA_INVALID_HRQSIZE = 5,
    FL_NVME_RDMA_NO_RESOURCES = 6,
    FL_NVME_RDMA_INVALID_IRD = 7,
    FL_NVME_RDMA_INVALID_ORD = 8,
    FL_NVME_RDMA_INVALID_CNTLID = 9,
};

/* Plain words; never NULL, static. */
const char *fl_nvme_rdma_sts_text(uint16_t sts);

/* A queue as a host asks for it; counts are 1's based. */
struct fl_nvme_rdma_ask {
    uint16_t qid, cntlid;
    uint32_t nr_recv; /* responses that the host has room for */
    uint32_t nr_send; /* entries of its submission queue */
};

void fl_nvme_rdma_req_encode(struct fl_nvme_rdma_req *req, const struct fl_nvme_rdma_ask *ask);
/* 0, or the STS to reject with. len: what came with the REQ, which the connection manager may have padded. */
uint16_t fl_nvme_rdma_req_decode(const void *private_data, size_t len, struct fl_nvme_rdma_ask *ask);
void fl_nvme_rdma_rep_encode(struct fl_nvme_rdma_rep *rep, uint32_t nr_recv);
/* 0; -EPROTO: too short, or of another format. */
int fl_nvme_rdma_rep_decode(const void *private_data, size_t len, uint32_t *nr_recv);
void fl_nvme_rdma_rej_encode(struct fl_nvme_rdma_rej *rej, uint16_t sts);
int fl_nvme_rdma_rej_decode(const void *private_data, size_t len, uint16_t *sts);

/* Where a command's data is. */
struct fl_nvme_rdma_data {
    uint32_t len; /* 0: none, and nothing else counts (but nr_pieces) */
    bool in_capsule;
    uint32_t offset; /* in the capsule, behind the SQE */
    uint64_t addr;   /* else the host's memory */
    uint32_t key;
    bool invalidate; /* the host wants the response to come as SEND with Invalidate of invalidate_key */
    uint32_t invalidate_key;
    uint32_t nr_pieces; /* not 0: so many keyed descriptors lie behind the SQE: fl_nvme_rdma_pieces_decode */
};

struct fl_nvme_rdma_piece {
    uint64_t addr;
    uint32_t len, key;
};

/*
 * capsule_len: bytes that came behind the SQE. 0, or the status to complete the command with: a descriptor of
 * another type or sub type, or data or descriptors that are not all within the capsule. Of segments only the
 * last one is taken, and only right behind the SQE (RDMA transport specification 1.0, 3.3; base specification
 * 2.0, "Data and SGL Locations within a Command Capsule").
 */
fl_nvme_status fl_nvme_rdma_data_decode(const struct fl_nvme_sqe *sqe, uint32_t capsule_len,
                                        struct fl_nvme_rdma_data *data);

/*
 * The data->nr_pieces descriptors of such a command, which begin at behind_sqe; pieces has room for max
 * (MSDBD). data->len becomes their sum, and the key to invalidate the last one that asks for it. 0, or a
 * status: too many of them, or one that is not keyed.
 */
fl_nvme_status fl_nvme_rdma_pieces_decode(const void *behind_sqe, uint32_t max,
                                          struct fl_nvme_rdma_data *data, struct fl_nvme_rdma_piece *pieces);

/* The host's side. */
void fl_nvme_rdma_sgl_none(struct fl_nvme_sqe *sqe);
void fl_nvme_rdma_sgl_capsule(struct fl_nvme_sqe *sqe, uint32_t len);
void fl_nvme_rdma_sgl_keyed(struct fl_nvme_sqe *sqe, uint64_t addr, uint32_t len, uint32_t key);
/* nr descriptors follow the SQE, each set by the second. */
void fl_nvme_rdma_sgl_pieces(struct fl_nvme_sqe *sqe, uint32_t nr);
void fl_nvme_rdma_sgl_piece(struct fl_nvme_keyed_sgl *sgl, uint64_t addr, uint32_t len, uint32_t key);

#define FL_NVME_RDMA_MAX_PIECES 16        /* that our controllers take (MSDBD), and our hosts send */
#define FL_NVME_RDMA_MAX_DATA   0xffffffu /* of one keyed descriptor */

#endif
