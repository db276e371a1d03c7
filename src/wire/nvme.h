/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_NVME_H
#define FL_WIRE_NVME_H

/*
 * NVM Express base specification 2.0 and NVM command set specification 1.0: queue entries, SGL descriptors,
 * status, opcodes, features. Nothing here allocates, logs or keeps state.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/layout.h"
#include "wire/nvme_status.h"

#define FL_NVME_NSID_ALL      0xffffffffu
#define FL_NVME_NQN_FIELD_LEN 256 /* size of every NQN field on the wire */
#define FL_NVME_NQN_MAX       223 /* longest NQN without its NUL (base specification 4.5) */
#define FL_NVME_DISCOVERY_NQN "nqn.2014-08.org.nvmexpress.discovery"

/* 128-bit integer, least significant half first */
struct fl_nvme_u128 {
    le64 lo;
    le64 hi;
};
FL_LAYOUT_SIZE(fl_nvme_u128, 16);
FL_LAYOUT_AT(fl_nvme_u128, lo, 0);
FL_LAYOUT_AT(fl_nvme_u128, hi, 8);

/* SGL descriptor type byte: descriptor type in the high nibble, subtype in the low one (base
 * specification 4.1.2). */
enum fl_nvme_sgl_type {
    FL_NVME_SGL_DATA_BLOCK = 0x00, /* address */
    FL_NVME_SGL_OFFSET = 0x01,     /* data block, address is an offset into the capsule's data */
    FL_NVME_SGL_BIT_BUCKET = 0x10,
    FL_NVME_SGL_SEGMENT = 0x20,
    FL_NVME_SGL_LAST_SEGMENT = 0x30,
    FL_NVME_SGL_SEGMENT_OFFSET = 0x21,
    FL_NVME_SGL_LAST_SEGMENT_OFFSET = 0x31,
    FL_NVME_SGL_KEYED = 0x40,            /* keyed data block, address */
    FL_NVME_SGL_KEYED_INVALIDATE = 0x4f, /* the same, and the target invalidates the key */
    FL_NVME_SGL_TRANSPORT = 0x5a, /* transport data block, the transport knows where (TCP: R2T, C2HData) */
};

struct fl_nvme_sgl {
    le64 addr;
    le32 len;
    uint8_t rsvd12[3];
    uint8_t type; /* enum fl_nvme_sgl_type */
};
FL_LAYOUT_SIZE(fl_nvme_sgl, 16);
FL_LAYOUT_AT(fl_nvme_sgl, addr, 0);
FL_LAYOUT_AT(fl_nvme_sgl, len, 8);
FL_LAYOUT_AT(fl_nvme_sgl, rsvd12, 12);
FL_LAYOUT_AT(fl_nvme_sgl, type, 15);

struct fl_nvme_keyed_sgl {
    le64 addr;
    le24 len;
    le32 key;
    uint8_t type; /* FL_NVME_SGL_KEYED or FL_NVME_SGL_KEYED_INVALIDATE */
};
FL_LAYOUT_SIZE(fl_nvme_keyed_sgl, 16);
FL_LAYOUT_AT(fl_nvme_keyed_sgl, addr, 0);
FL_LAYOUT_AT(fl_nvme_keyed_sgl, len, 8);
FL_LAYOUT_AT(fl_nvme_keyed_sgl, key, 11);
FL_LAYOUT_AT(fl_nvme_keyed_sgl, type, 15);

/* struct fl_nvme_sqe.flags: FUSE in bits 1:0, PSDT in bits 7:6. */
#define FL_NVME_CMD_FUSE_MASK         0x03
#define FL_NVME_CMD_FUSE_FIRST        0x01
#define FL_NVME_CMD_FUSE_SECOND       0x02
#define FL_NVME_CMD_PSDT_MASK         0xc0
#define FL_NVME_CMD_PSDT_SGL          0x40 /* SGL, metadata in one buffer; the only form on fabrics */
#define FL_NVME_CMD_PSDT_SGL_MPTR_SGL 0x80 /* SGL, metadata by an SGL segment */

struct fl_nvme_sqe {
    uint8_t opcode;
    uint8_t flags; /* FL_NVME_CMD_FUSE_*, FL_NVME_CMD_PSDT_* */
    le16 cid;
    le32 nsid;
    le32 cdw2;
    le32 cdw3;
    le64 mptr;
    struct fl_nvme_sgl sgl;
    le32 cdw10;
    le32 cdw11;
    le32 cdw12;
    le32 cdw13;
    le32 cdw14;
    le32 cdw15;
};
FL_LAYOUT_SIZE(fl_nvme_sqe, 64);
FL_LAYOUT_AT(fl_nvme_sqe, opcode, 0);
FL_LAYOUT_AT(fl_nvme_sqe, flags, 1);
FL_LAYOUT_AT(fl_nvme_sqe, cid, 2);
FL_LAYOUT_AT(fl_nvme_sqe, nsid, 4);
FL_LAYOUT_AT(fl_nvme_sqe, cdw2, 8);
FL_LAYOUT_AT(fl_nvme_sqe, cdw3, 12);
FL_LAYOUT_AT(fl_nvme_sqe, mptr, 16);
FL_LAYOUT_AT(fl_nvme_sqe, sgl, 24);
FL_LAYOUT_AT(fl_nvme_sqe, cdw10, 40);
FL_LAYOUT_AT(fl_nvme_sqe, cdw11, 44);
FL_LAYOUT_AT(fl_nvme_sqe, cdw12, 48);
FL_LAYOUT_AT(fl_nvme_sqe, cdw13, 52);
FL_LAYOUT_AT(fl_nvme_sqe, cdw14, 56);
FL_LAYOUT_AT(fl_nvme_sqe, cdw15, 60);

struct fl_nvme_cqe {
    le32 dw0;
    le32 dw1;
    le16 sqhd;
    le16 sqid; /* reserved on fabrics */
    le16 cid;
    le16 status; /* fl_nvme_status << 1 | phase tag */
};
FL_LAYOUT_SIZE(fl_nvme_cqe, 16);
FL_LAYOUT_AT(fl_nvme_cqe, dw0, 0);
FL_LAYOUT_AT(fl_nvme_cqe, dw1, 4);
FL_LAYOUT_AT(fl_nvme_cqe, sqhd, 8);
FL_LAYOUT_AT(fl_nvme_cqe, sqid, 10);
FL_LAYOUT_AT(fl_nvme_cqe, cid, 12);
FL_LAYOUT_AT(fl_nvme_cqe, status, 14);

/* Not 0 exactly when the command failed: More, Do Not Retry and the delay say nothing of a command that succeeded
 * (3.3.3.2), so that they alone, which a broken controller may send, make no error without a code. */
static inline fl_nvme_status fl_nvme_cqe_status(const struct fl_nvme_cqe *cqe)
{
    fl_nvme_status status = (fl_nvme_status)(le16_get(cqe->status) >> 1);

    return status & FL_NVME_SC_MASK ? status : 0;
}

/* The phase tag is reserved on fabrics and stays 0. */
static inline void fl_nvme_cqe_set(struct fl_nvme_cqe *cqe, uint16_t cid, uint16_t sqhd, uint64_t result,
                                   fl_nvme_status status)
{
    cqe->dw0 = le32_of((uint32_t)result);
    cqe->dw1 = le32_of((uint32_t)(result >> 32));
    cqe->sqhd = le16_of(sqhd);
    cqe->sqid = le16_of(0);
    cqe->cid = le16_of(cid);
    cqe->status = le16_of((uint16_t)(status << 1));
}

/* Admin command set */
enum fl_nvme_admin_opcode {
    FL_NVME_ADM_DELETE_SQ = 0x00,
    FL_NVME_ADM_CREATE_SQ = 0x01,
    FL_NVME_ADM_GET_LOG_PAGE = 0x02,
    FL_NVME_ADM_DELETE_CQ = 0x04,
    FL_NVME_ADM_CREATE_CQ = 0x05,
    FL_NVME_ADM_IDENTIFY = 0x06,
    FL_NVME_ADM_ABORT = 0x08,
    FL_NVME_ADM_SET_FEATURES = 0x09,
    FL_NVME_ADM_GET_FEATURES = 0x0a,
    FL_NVME_ADM_ASYNC_EVENT = 0x0c,
    FL_NVME_ADM_NS_MGMT = 0x0d,
    FL_NVME_ADM_FW_COMMIT = 0x10,
    FL_NVME_ADM_FW_DOWNLOAD = 0x11,
    FL_NVME_ADM_SELF_TEST = 0x14,
    FL_NVME_ADM_NS_ATTACH = 0x15,
    FL_NVME_ADM_KEEP_ALIVE = 0x18,
    FL_NVME_ADM_DIRECTIVE_SEND = 0x19,
    FL_NVME_ADM_DIRECTIVE_RECV = 0x1a,
    FL_NVME_ADM_VIRT_MGMT = 0x1c,
    FL_NVME_ADM_MI_SEND = 0x1d,
    FL_NVME_ADM_MI_RECV = 0x1e,
    FL_NVME_ADM_CAPACITY_MGMT = 0x20,
    FL_NVME_ADM_DISCOVERY_INFO_MGMT = 0x21,
    FL_NVME_ADM_ZONING_RECV = 0x22,
    FL_NVME_ADM_LOCKDOWN = 0x24,
    FL_NVME_ADM_ZONING_LOOKUP = 0x25,
    FL_NVME_ADM_ZONING_SEND = 0x29,
    FL_NVME_ADM_DOORBELL_CONFIG = 0x7c,
    FL_NVME_ADM_FABRICS = 0x7f,
    FL_NVME_ADM_FORMAT_NVM = 0x80,
    FL_NVME_ADM_SECURITY_SEND = 0x81,
    FL_NVME_ADM_SECURITY_RECV = 0x82,
    FL_NVME_ADM_SANITIZE = 0x84,
    FL_NVME_ADM_GET_LBA_STATUS = 0x86,
};

/* NVM command set */
enum fl_nvme_cmd_opcode {
    FL_NVME_CMD_FLUSH = 0x00,
    FL_NVME_CMD_WRITE = 0x01,
    FL_NVME_CMD_READ = 0x02,
    FL_NVME_CMD_WRITE_UNCOR = 0x04,
    FL_NVME_CMD_COMPARE = 0x05,
    FL_NVME_CMD_WRITE_ZEROES = 0x08,
    FL_NVME_CMD_DSM = 0x09,
    FL_NVME_CMD_VERIFY = 0x0c,
    FL_NVME_CMD_RESV_REGISTER = 0x0d,
    FL_NVME_CMD_RESV_REPORT = 0x0e,
    FL_NVME_CMD_RESV_ACQUIRE = 0x11,
    FL_NVME_CMD_IO_MGMT_RECV = 0x12,
    FL_NVME_CMD_RESV_RELEASE = 0x15,
    FL_NVME_CMD_CANCEL = 0x18,
    FL_NVME_CMD_COPY = 0x19,
    FL_NVME_CMD_IO_MGMT_SEND = 0x1d,
    FL_NVME_CMD_FABRICS = 0x7f,
};

/* The transfer direction stands in bits 1:0 of every opcode (base specification 3.3.3.1). Fabrics commands:
 * of the command type. */
enum fl_nvme_xfer {
    FL_NVME_XFER_NONE = 0,
    FL_NVME_XFER_TO_CTRL = 1,
    FL_NVME_XFER_TO_HOST = 2,
    FL_NVME_XFER_BOTH = 3,
};

static inline enum fl_nvme_xfer fl_nvme_opcode_xfer(uint8_t opcode)
{
    return (enum fl_nvme_xfer)(opcode & 3);
}

/* Name of an opcode in plain words ("Get Log Page"); "unknown admin command" or "unknown I/O command" for
 * others. Never NULL, static. */
const char *fl_nvme_opcode_text(bool admin, uint8_t opcode);

/* Read, Write, Compare, Write Zeroes, Verify: SLBA in CDW10 and 11, the rest in CDW12. */
#define FL_NVME_RW_NLB_MASK     0xffffu    /* 0's based */
#define FL_NVME_RW_DEAC         (1u << 25) /* Write Zeroes: deallocate */
#define FL_NVME_RW_NSZ          (1u << 23) /* Write Zeroes: the whole namespace */
#define FL_NVME_RW_STC          (1u << 24)
#define FL_NVME_RW_PRINFO_SHIFT 26
#define FL_NVME_RW_PRINFO_MASK  0xfu /* PRACT bit 3, PRCHK bits 2:0 */
#define FL_NVME_RW_FUA          (1u << 30)
#define FL_NVME_RW_LR           (1u << 31) /* limited retry */

static inline uint64_t fl_nvme_rw_slba(const struct fl_nvme_sqe *sqe)
{
    return le32_get(sqe->cdw10) | (uint64_t)le32_get(sqe->cdw11) << 32;
}

/* 1 to 65536 */
static inline uint32_t fl_nvme_rw_nr_blocks(const struct fl_nvme_sqe *sqe)
{
    return (le32_get(sqe->cdw12) & FL_NVME_RW_NLB_MASK) + 1;
}

static inline void fl_nvme_rw_set(struct fl_nvme_sqe *sqe, uint64_t slba, uint32_t nr_blocks,
                                  uint32_t cdw12_flags)
{
    sqe->cdw10 = le32_of((uint32_t)slba);
    sqe->cdw11 = le32_of((uint32_t)(slba >> 32));
    sqe->cdw12 = le32_of(((nr_blocks - 1) & FL_NVME_RW_NLB_MASK) | cdw12_flags);
}

/* Dataset Management: CDW10 bits 7:0 number of ranges (0's based), CDW11 attributes. */
#define FL_NVME_DSM_NR_RANGES_MAX 256
#define FL_NVME_DSM_IDR           (1u << 0)
#define FL_NVME_DSM_IDW           (1u << 1)
#define FL_NVME_DSM_AD            (1u << 2) /* deallocate */

struct fl_nvme_dsm_range {
    le32 cattr;
    le32 nlb; /* number of blocks, not 0's based */
    le64 slba;
};
FL_LAYOUT_SIZE(fl_nvme_dsm_range, 16);
FL_LAYOUT_AT(fl_nvme_dsm_range, cattr, 0);
FL_LAYOUT_AT(fl_nvme_dsm_range, nlb, 4);
FL_LAYOUT_AT(fl_nvme_dsm_range, slba, 8);

/* Copy: CDW10 and 11 the destination SLBA, CDW12 bits 7:0 number of ranges (0's based), 11:8 descriptor
 * format. */
#define FL_NVME_COPY_NR_RANGES_MASK 0xffu
#define FL_NVME_COPY_FORMAT_SHIFT   8
#define FL_NVME_COPY_FORMAT_MASK    0xfu

/* source range entry, descriptor format 0 */
struct fl_nvme_copy_range {
    uint8_t rsvd0[8];
    le64 slba;
    le16 nlb; /* 0's based */
    uint8_t rsvd18[6];
    le32 eilbrt;
    le16 elbat;
    le16 elbatm;
};
FL_LAYOUT_SIZE(fl_nvme_copy_range, 32);
FL_LAYOUT_AT(fl_nvme_copy_range, rsvd0, 0);
FL_LAYOUT_AT(fl_nvme_copy_range, slba, 8);
FL_LAYOUT_AT(fl_nvme_copy_range, nlb, 16);
FL_LAYOUT_AT(fl_nvme_copy_range, rsvd18, 18);
FL_LAYOUT_AT(fl_nvme_copy_range, eilbrt, 24);
FL_LAYOUT_AT(fl_nvme_copy_range, elbat, 28);
FL_LAYOUT_AT(fl_nvme_copy_range, elbatm, 30);

/* Identify: CDW10 bits 7:0 CNS, 31:16 CNTID; CDW11 bits 15:0 CNS specific id, 31:24 CSI. The data is always
 * 4096 bytes. */
#define FL_NVME_IDENTIFY_LEN 4096

enum fl_nvme_cns {
    FL_NVME_CNS_NS = 0x00,
    FL_NVME_CNS_CTRL = 0x01,
    FL_NVME_CNS_NS_ACTIVE_LIST = 0x02,
    FL_NVME_CNS_NS_DESC_LIST = 0x03,
    FL_NVME_CNS_NVMSET_LIST = 0x04,
    FL_NVME_CNS_CSI_NS = 0x05,
    FL_NVME_CNS_CSI_CTRL = 0x06,
    FL_NVME_CNS_CSI_NS_ACTIVE_LIST = 0x07,
    FL_NVME_CNS_NS_INDEPENDENT = 0x08,
    FL_NVME_CNS_NS_ALLOCATED_LIST = 0x10,
    FL_NVME_CNS_NS_ALLOCATED = 0x11,
    FL_NVME_CNS_NS_CTRL_LIST = 0x12,
    FL_NVME_CNS_CTRL_LIST = 0x13,
    FL_NVME_CNS_PRIMARY_CTRL = 0x14,
    FL_NVME_CNS_SECONDARY_CTRL_LIST = 0x15,
    FL_NVME_CNS_NS_GRANULARITY = 0x16,
    FL_NVME_CNS_UUID_LIST = 0x17,
    FL_NVME_CNS_DOMAIN_LIST = 0x18,
    FL_NVME_CNS_ENDGRP_LIST = 0x19,
    FL_NVME_CNS_CSI_NS_ALLOCATED_LIST = 0x1a,
    FL_NVME_CNS_CSI_NS_ALLOCATED = 0x1b,
    FL_NVME_CNS_CMD_SETS = 0x1c,
};

enum fl_nvme_csi {
    FL_NVME_CSI_NVM = 0,
    FL_NVME_CSI_KV = 1,
    FL_NVME_CSI_ZNS = 2,
};

/* Get Log Page: CDW10 bits 7:0 LID, 14:8 LSP, 15 RAE, 31:16 NUMDL; CDW11 bits 15:0 NUMDU, 31:16 LSI; CDW12
 * and 13 the offset in bytes; CDW14 bits 6:0 UUID index, 23 offset is an index, 31:24 CSI. NUMD is 0's based
 * and counts dwords. */
#define FL_NVME_LOG_LSP_SHIFT 8
#define FL_NVME_LOG_LSP_MASK  0x7fu
#define FL_NVME_LOG_RAE       (1u << 15)

enum fl_nvme_log_id {
    FL_NVME_LOG_SUPPORTED = 0x00,
    FL_NVME_LOG_ERROR = 0x01,
    FL_NVME_LOG_SMART = 0x02,
    FL_NVME_LOG_FW_SLOT = 0x03,
    FL_NVME_LOG_CHANGED_NS = 0x04,
    FL_NVME_LOG_CMD_EFFECTS = 0x05,
    FL_NVME_LOG_SELF_TEST = 0x06,
    FL_NVME_LOG_TELEMETRY_HOST = 0x07,
    FL_NVME_LOG_TELEMETRY_CTRL = 0x08,
    FL_NVME_LOG_ENDURANCE_GROUP = 0x09,
    FL_NVME_LOG_PREDICTABLE_LAT = 0x0a,
    FL_NVME_LOG_PREDICTABLE_LAT_AGG = 0x0b,
    FL_NVME_LOG_ANA = 0x0c,
    FL_NVME_LOG_PERSISTENT_EVENT = 0x0d,
    FL_NVME_LOG_LBA_STATUS = 0x0e,
    FL_NVME_LOG_ENDURANCE_GROUP_AGG = 0x0f,
    FL_NVME_LOG_MEDIA_UNIT_STATUS = 0x10,
    FL_NVME_LOG_CAPACITY_CONFIG = 0x11,
    FL_NVME_LOG_FEATURE_EFFECTS = 0x12,
    FL_NVME_LOG_MI_EFFECTS = 0x13,
    FL_NVME_LOG_LOCKDOWN = 0x14,
    FL_NVME_LOG_BOOT_PARTITION = 0x15,
    FL_NVME_LOG_ROTATIONAL_MEDIA = 0x16,
    FL_NVME_LOG_DISCOVERY = 0x70,
    FL_NVME_LOG_RESERVATION = 0x80,
    FL_NVME_LOG_SANITIZE = 0x81,
};

static inline uint8_t fl_nvme_log_lid(const struct fl_nvme_sqe *sqe)
{
    return (uint8_t)le32_get(sqe->cdw10);
}

/* Bytes asked for: 4 to 2^34, so wider than any buffer; compare before use. */
static inline uint64_t fl_nvme_log_len(const struct fl_nvme_sqe *sqe)
{
    uint32_t numd = le32_get(sqe->cdw10) >> 16 | le32_get(sqe->cdw11) << 16;
    return ((uint64_t)numd + 1) * 4;
}

static inline uint64_t fl_nvme_log_offset(const struct fl_nvme_sqe *sqe)
{
    return le32_get(sqe->cdw12) | (uint64_t)le32_get(sqe->cdw13) << 32;
}

/* len is a multiple of 4 and not 0. */
static inline void fl_nvme_log_set(struct fl_nvme_sqe *sqe, uint8_t lid, uint8_t lsp, bool rae,
                                   uint64_t offset, uint64_t len)
{
    uint32_t numd = (uint32_t)(len / 4 - 1);
    sqe->cdw10 = le32_of(lid | (lsp & FL_NVME_LOG_LSP_MASK) << FL_NVME_LOG_LSP_SHIFT |
                         (rae ? FL_NVME_LOG_RAE : 0) | numd << 16);
    sqe->cdw11 = le32_of(numd >> 16);
    sqe->cdw12 = le32_of((uint32_t)offset);
    sqe->cdw13 = le32_of((uint32_t)(offset >> 32));
}

/* Get and Set Features: CDW10 bits 7:0 FID; Get: 10:8 SEL; Set: 31 save. */
#define FL_NVME_FEAT_SEL_SHIFT 8
#define FL_NVME_FEAT_SEL_MASK  0x7u
#define FL_NVME_FEAT_SAVE      (1u << 31)

enum fl_nvme_feat_sel {
    FL_NVME_FEAT_SEL_CURRENT = 0,
    FL_NVME_FEAT_SEL_DEFAULT = 1,
    FL_NVME_FEAT_SEL_SAVED = 2,
    FL_NVME_FEAT_SEL_SUPPORTED = 3,
};

/* Answer to FL_NVME_FEAT_SEL_SUPPORTED, in DW0 */
#define FL_NVME_FEAT_CAP_SAVEABLE   (1u << 0)
#define FL_NVME_FEAT_CAP_PER_NS     (1u << 1)
#define FL_NVME_FEAT_CAP_CHANGEABLE (1u << 2)

enum fl_nvme_feat {
    FL_NVME_FEAT_ARBITRATION = 0x01,
    FL_NVME_FEAT_POWER_MGMT = 0x02,
    FL_NVME_FEAT_LBA_RANGE = 0x03,
    FL_NVME_FEAT_TEMP_THRESH = 0x04,
    FL_NVME_FEAT_ERR_RECOVERY = 0x05,
    FL_NVME_FEAT_VOLATILE_WC = 0x06,
    FL_NVME_FEAT_NUM_QUEUES = 0x07,
    FL_NVME_FEAT_IRQ_COALESCE = 0x08,
    FL_NVME_FEAT_IRQ_CONFIG = 0x09,
    FL_NVME_FEAT_WRITE_ATOMIC = 0x0a,
    FL_NVME_FEAT_ASYNC_EVENT = 0x0b,
    FL_NVME_FEAT_AUTO_PST = 0x0c,
    FL_NVME_FEAT_HOST_MEM_BUF = 0x0d,
    FL_NVME_FEAT_TIMESTAMP = 0x0e,
    FL_NVME_FEAT_KATO = 0x0f,
    FL_NVME_FEAT_HCTM = 0x10,
    FL_NVME_FEAT_NOPSC = 0x11,
    FL_NVME_FEAT_RRL = 0x12,
    FL_NVME_FEAT_PLM_CONFIG = 0x13,
    FL_NVME_FEAT_PLM_WINDOW = 0x14,
    FL_NVME_FEAT_LBA_STS_INTERVAL = 0x15,
    FL_NVME_FEAT_HOST_BEHAVIOR = 0x16,
    FL_NVME_FEAT_SANITIZE = 0x17,
    FL_NVME_FEAT_ENDURANCE_EVT = 0x18,
    FL_NVME_FEAT_CMD_SET_PROFILE = 0x19,
    FL_NVME_FEAT_SPINUP = 0x1a,
    FL_NVME_FEAT_CTRL_METADATA = 0x7e,
    FL_NVME_FEAT_NS_METADATA = 0x7f,
    FL_NVME_FEAT_SW_PROGRESS = 0x80,
    FL_NVME_FEAT_HOST_ID = 0x81,
    FL_NVME_FEAT_RESV_MASK = 0x82,
    FL_NVME_FEAT_RESV_PERSIST = 0x83,
    FL_NVME_FEAT_WRITE_PROTECT = 0x84,
    FL_NVME_FEAT_SERVICE_TIME = 0xd0, /* farlane's own, in the range for vendors */
};

/*
 * Service times, for measuring: while it is on, DW1 of an I/O completion (reserved in the NVM command set) tells for how
 * many nanoseconds the controller had the command and all of its data in hand. Get Features answers with the magic
 * number, by which a host knows that D0h means this here before it sets anything.
 */
#define FL_NVME_SERVICE_TIME_MAGIC 0x464c0000u
#define FL_NVME_SERVICE_TIME_ON    (1u << 0)

#define FL_NVME_FEAT_HOST_ID_EXHID     (1u << 0) /* CDW11: the 16-byte form, the only one on fabrics */
#define FL_NVME_FEAT_VOLATILE_WC_WCE   (1u << 0)
#define FL_NVME_FEAT_RESV_PERSIST_PTPL (1u << 0)
#define FL_NVME_FEAT_RESV_MASK_REGPRE  (1u << 1)
#define FL_NVME_FEAT_RESV_MASK_RESREL  (1u << 2)
#define FL_NVME_FEAT_RESV_MASK_RESPRE  (1u << 3)

/* Asynchronous Event Configuration (feature 0Bh) and, from bit 8 on, OAES of Identify Controller */
#define FL_NVME_AEN_SMART_MASK  0xffu
#define FL_NVME_AEN_NS_ATTR     (1u << 8)
#define FL_NVME_AEN_FW_ACT      (1u << 9)
#define FL_NVME_AEN_TELEMETRY   (1u << 10)
#define FL_NVME_AEN_ANA         (1u << 11)
#define FL_NVME_AEN_DISC_CHANGE (1u << 31)

/* Asynchronous event, DW0 of the response: bits 2:0 type, 15:8 information, 23:16 log page */
enum fl_nvme_aer_type {
    FL_NVME_AER_ERROR = 0,
    FL_NVME_AER_SMART = 1,
    FL_NVME_AER_NOTICE = 2,
    FL_NVME_AER_IO = 6,
    FL_NVME_AER_VENDOR = 7,
};

enum fl_nvme_aer_notice {
    FL_NVME_AER_NOTICE_NS_CHANGED = 0x00,
    FL_NVME_AER_NOTICE_FW_ACT = 0x01,
    FL_NVME_AER_NOTICE_TELEMETRY = 0x02,
    FL_NVME_AER_NOTICE_ANA = 0x03,
    FL_NVME_AER_NOTICE_DISC_CHANGED = 0xf0,
};

enum fl_nvme_aer_io {
    FL_NVME_AER_IO_RESERVATION = 0x00,
    FL_NVME_AER_IO_SANITIZE = 0x01,
};

static inline uint32_t fl_nvme_aer_of(uint8_t type, uint8_t info, uint8_t log_id)
{
    return (type & 7u) | (uint32_t)info << 8 | (uint32_t)log_id << 16;
}

static inline uint8_t fl_nvme_aer_type(uint32_t dw0)
{
    return dw0 & 7;
}

static inline uint8_t fl_nvme_aer_info(uint32_t dw0)
{
    return (uint8_t)(dw0 >> 8);
}

static inline uint8_t fl_nvme_aer_log(uint32_t dw0)
{
    return (uint8_t)(dw0 >> 16);
}

/* Abort: CDW10 bits 15:0 SQID, 31:16 CID; DW0 bit 0 of the response is 0 when the command was aborted. */
#define FL_NVME_ABORT_NOT_ABORTED (1u << 0)

#endif
