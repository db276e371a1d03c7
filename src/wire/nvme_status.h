/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_NVME_STATUS_H
#define FL_WIRE_NVME_STATUS_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Status of an NVMe command as a host value, without the phase tag: status code in bits 7:0, status code type
 * in 10:8, command retry delay in 12:11, More in 13, Do Not Retry in 14 (base specification 3.3.3.2). The
 * constants hold type and code.
 */
typedef uint16_t fl_nvme_status;

#define FL_NVME_SC_MASK   0x7ff /* code and type */
#define FL_NVME_CRD_SHIFT 11
#define FL_NVME_CRD_MASK  0x1800
#define FL_NVME_MORE      0x2000
#define FL_NVME_DNR       0x4000

enum fl_nvme_sct {
    FL_NVME_SCT_GENERIC = 0,
    FL_NVME_SCT_CMD_SPECIFIC = 1,
    FL_NVME_SCT_MEDIA = 2,
    FL_NVME_SCT_PATH = 3,
    FL_NVME_SCT_VENDOR = 7,
};

enum fl_nvme_sc {
    /* generic */
    FL_NVME_SC_SUCCESS = 0x000,
    FL_NVME_SC_INVALID_OPCODE = 0x001,
    FL_NVME_SC_INVALID_FIELD = 0x002,
    FL_NVME_SC_CMDID_CONFLICT = 0x003,
    FL_NVME_SC_DATA_XFER_ERROR = 0x004,
    FL_NVME_SC_POWER_LOSS = 0x005,
    FL_NVME_SC_INTERNAL = 0x006,
    FL_NVME_SC_ABORT_REQ = 0x007,
    FL_NVME_SC_ABORT_QUEUE = 0x008,
    FL_NVME_SC_FUSED_FAIL = 0x009,
    FL_NVME_SC_FUSED_MISSING = 0x00a,
    FL_NVME_SC_INVALID_NS = 0x00b,
    FL_NVME_SC_CMD_SEQ_ERROR = 0x00c,
    FL_NVME_SC_SGL_INVALID_SEGMENT = 0x00d,
    FL_NVME_SC_SGL_INVALID_COUNT = 0x00e,
    FL_NVME_SC_SGL_INVALID_DATA = 0x00f, /* data SGL length invalid */
    FL_NVME_SC_SGL_INVALID_METADATA = 0x010,
    FL_NVME_SC_SGL_INVALID_TYPE = 0x011,
    FL_NVME_SC_CMB_INVALID_USE = 0x012,
    FL_NVME_SC_PRP_INVALID_OFFSET = 0x013,
    FL_NVME_SC_AWU_EXCEEDED = 0x014,
    FL_NVME_SC_OP_DENIED = 0x015,
    FL_NVME_SC_SGL_INVALID_OFFSET = 0x016,
    FL_NVME_SC_HOSTID_FORMAT = 0x018,
    FL_NVME_SC_KATO_EXPIRED = 0x019,
    FL_NVME_SC_KATO_INVALID = 0x01a,
    FL_NVME_SC_ABORT_PREEMPT = 0x01b,
    FL_NVME_SC_SANITIZE_FAILED = 0x01c,
    FL_NVME_SC_SANITIZE_IN_PROGRESS = 0x01d,
    FL_NVME_SC_SGL_INVALID_GRANULARITY = 0x01e,
    FL_NVME_SC_CMD_IN_CMBQ = 0x01f,
    FL_NVME_SC_NS_WRITE_PROTECTED = 0x020,
    FL_NVME_SC_CMD_INTERRUPTED = 0x021,
    FL_NVME_SC_TRANSIENT_TRANSPORT = 0x022,
    FL_NVME_SC_LOCKDOWN = 0x023,
    FL_NVME_SC_MEDIA_NOT_READY = 0x024,

    /* generic, NVM command set */
    FL_NVME_SC_LBA_RANGE = 0x080,
    FL_NVME_SC_CAP_EXCEEDED = 0x081,
    FL_NVME_SC_NS_NOT_READY = 0x082,
    FL_NVME_SC_RESV_CONFLICT = 0x083,
    FL_NVME_SC_FORMAT_IN_PROGRESS = 0x084,

    /* command specific */
    FL_NVME_SC_CQ_INVALID = 0x100,
    FL_NVME_SC_QID_INVALID = 0x101,
    FL_NVME_SC_QUEUE_SIZE = 0x102,
    FL_NVME_SC_ABORT_LIMIT = 0x103,
    FL_NVME_SC_ASYNC_LIMIT = 0x105,
    FL_NVME_SC_FW_SLOT = 0x106,
    FL_NVME_SC_FW_IMAGE = 0x107,
    FL_NVME_SC_INVALID_VECTOR = 0x108,
    FL_NVME_SC_INVALID_LOG_PAGE = 0x109,
    FL_NVME_SC_INVALID_FORMAT = 0x10a,
    FL_NVME_SC_FW_NEEDS_CONV_RESET = 0x10b,
    FL_NVME_SC_INVALID_QUEUE = 0x10c,
    FL_NVME_SC_FEATURE_NOT_SAVEABLE = 0x10d,
    FL_NVME_SC_FEATURE_NOT_CHANGEABLE = 0x10e,
    FL_NVME_SC_FEATURE_NOT_PER_NS = 0x10f,
    FL_NVME_SC_FW_NEEDS_SUBSYS_RESET = 0x110,
    FL_NVME_SC_FW_NEEDS_RESET = 0x111,
    FL_NVME_SC_FW_NEEDS_MAX_TIME = 0x112,
    FL_NVME_SC_FW_PROHIBITED = 0x113,
    FL_NVME_SC_OVERLAPPING_RANGE = 0x114,
    FL_NVME_SC_NS_INSUFFICIENT_CAP = 0x115,
    FL_NVME_SC_NS_ID_UNAVAILABLE = 0x116,
    FL_NVME_SC_NS_ALREADY_ATTACHED = 0x118,
    FL_NVME_SC_NS_IS_PRIVATE = 0x119,
    FL_NVME_SC_NS_NOT_ATTACHED = 0x11a,
    FL_NVME_SC_THIN_PROV_NOT_SUPP = 0x11b,
    FL_NVME_SC_CTRL_LIST_INVALID = 0x11c,
    FL_NVME_SC_SELF_TEST_IN_PROGRESS = 0x11d,
    FL_NVME_SC_BP_WRITE_PROHIBITED = 0x11e,
    FL_NVME_SC_INVALID_CTRL_ID = 0x11f,
    FL_NVME_SC_INVALID_SEC_CTRL_STATE = 0x120,
    FL_NVME_SC_INVALID_CTRL_RESOURCES = 0x121,
    FL_NVME_SC_INVALID_RESOURCE_ID = 0x122,
    FL_NVME_SC_PMR_SANITIZE = 0x123,
    FL_NVME_SC_ANA_GROUP_ID_INVALID = 0x124,
    FL_NVME_SC_ANA_ATTACH_FAILED = 0x125,
    FL_NVME_SC_INSUFFICIENT_CAP = 0x126,
    FL_NVME_SC_NS_ATTACH_LIMIT = 0x127,
    FL_NVME_SC_LOCKDOWN_NOT_SUPP = 0x128,
    FL_NVME_SC_CMD_SET_NOT_SUPP = 0x129,
    FL_NVME_SC_CMD_SET_NOT_ENABLED = 0x12a,
    FL_NVME_SC_CMD_SET_COMBINATION = 0x12b,
    FL_NVME_SC_INVALID_CMD_SET = 0x12c,
    FL_NVME_SC_ID_UNAVAILABLE = 0x12d,

    /* command specific, fabrics */
    FL_NVME_SC_CONNECT_FORMAT = 0x180,
    FL_NVME_SC_CONNECT_CTRL_BUSY = 0x181,
    FL_NVME_SC_CONNECT_INVALID_PARAM = 0x182,
    FL_NVME_SC_CONNECT_RESTART_DISC = 0x183,
    FL_NVME_SC_CONNECT_INVALID_HOST = 0x184,
    FL_NVME_SC_DISCONNECT_INVALID_QTYPE = 0x185,
    FL_NVME_SC_DISCOVERY_RESTART = 0x190,
    FL_NVME_SC_AUTH_REQUIRED = 0x191,

    /* command specific, NVM command set: numbers shared with the fabrics ones, the command tells them apart
     */
    FL_NVME_SC_BAD_ATTRIBUTES = 0x180,
    FL_NVME_SC_INVALID_PI = 0x181,
    FL_NVME_SC_READ_ONLY = 0x182,
    FL_NVME_SC_CMD_SIZE_LIMIT = 0x183,

    /* media and data integrity */
    FL_NVME_SC_WRITE_FAULT = 0x280,
    FL_NVME_SC_READ_ERROR = 0x281,
    FL_NVME_SC_GUARD_CHECK = 0x282,
    FL_NVME_SC_APPTAG_CHECK = 0x283,
    FL_NVME_SC_REFTAG_CHECK = 0x284,
    FL_NVME_SC_COMPARE_FAILED = 0x285,
    FL_NVME_SC_ACCESS_DENIED = 0x286,
    FL_NVME_SC_UNWRITTEN_BLOCK = 0x287,
    FL_NVME_SC_STORAGE_TAG_CHECK = 0x288,

    /* path related */
    FL_NVME_SC_PATH_INTERNAL = 0x300,
    FL_NVME_SC_ANA_PERSISTENT_LOSS = 0x301,
    FL_NVME_SC_ANA_INACCESSIBLE = 0x302,
    FL_NVME_SC_ANA_TRANSITION = 0x303,
    FL_NVME_SC_CTRL_PATH_ERROR = 0x360,
    FL_NVME_SC_HOST_PATH_ERROR = 0x370,
    FL_NVME_SC_HOST_ABORTED = 0x371,
};

static inline uint16_t fl_nvme_status_code(fl_nvme_status status)
{
    return status & FL_NVME_SC_MASK;
}

static inline enum fl_nvme_sct fl_nvme_status_type(fl_nvme_status status)
{
    return (enum fl_nvme_sct)(status >> 8 & 7);
}

/*
 * The status in plain words for people; flags (retry, more) are left out. Codes 180h to 183h mean other
 * things for NVM commands than for Connect; this one takes them as Connect's. Never NULL, static.
 */
const char *fl_nvme_status_text(fl_nvme_status status);

/* The same for the answer to an I/O command: 180h to 183h as the NVM command set has them. */
const char *fl_nvme_io_status_text(fl_nvme_status status);

#endif
