/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_NVME_RESV_H
#define FL_WIRE_NVME_RESV_H

/*
 * Reservations (base specification 7.2 to 7.5 and 8.19): command fields and data.
 */

#include <stdint.h>

#include "base/bytes.h"
#include "wire/layout.h"
#include "wire/nvme.h"

/* RTYPE. Host identifier 0 is reserved. */
enum fl_nvme_resv_type {
    FL_NVME_RESV_NONE = 0,
    FL_NVME_RESV_WRITE_EXCL = 1,
    FL_NVME_RESV_EXCL_ACCESS = 2,
    FL_NVME_RESV_WRITE_EXCL_REG_ONLY = 3,
    FL_NVME_RESV_EXCL_ACCESS_REG_ONLY = 4,
    FL_NVME_RESV_WRITE_EXCL_ALL_REGS = 5,
    FL_NVME_RESV_EXCL_ACCESS_ALL_REGS = 6,
};

/* CDW10 of all three: bits 2:0 the action, 3 IEKEY; 15:8 RTYPE of Acquire and Release; 31:30 CPTPL of
 * Register. */
#define FL_NVME_RESV_ACTION_MASK 0x7u
#define FL_NVME_RESV_IEKEY       (1u << 3)
#define FL_NVME_RESV_RTYPE_SHIFT 8
#define FL_NVME_RESV_RTYPE_MASK  0xffu
#define FL_NVME_RESV_CPTPL_SHIFT 30

enum fl_nvme_resv_register_action {
    FL_NVME_RESV_REGISTER = 0,
    FL_NVME_RESV_UNREGISTER = 1,
    FL_NVME_RESV_REPLACE = 2,
};

enum fl_nvme_resv_cptpl {
    FL_NVME_RESV_CPTPL_NO_CHANGE = 0,
    FL_NVME_RESV_CPTPL_RESERVED = 1,
    FL_NVME_RESV_CPTPL_CLEAR = 2,
    FL_NVME_RESV_CPTPL_PERSIST = 3,
};

enum fl_nvme_resv_acquire_action {
    FL_NVME_RESV_ACQUIRE = 0,
    FL_NVME_RESV_PREEMPT = 1,
    FL_NVME_RESV_PREEMPT_ABORT = 2,
};

enum fl_nvme_resv_release_action {
    FL_NVME_RESV_RELEASE = 0,
    FL_NVME_RESV_CLEAR = 1,
};

struct fl_nvme_resv_register_data {
    le64 crkey;
    le64 nrkey;
};
FL_LAYOUT_SIZE(fl_nvme_resv_register_data, 16);
FL_LAYOUT_AT(fl_nvme_resv_register_data, crkey, 0);
FL_LAYOUT_AT(fl_nvme_resv_register_data, nrkey, 8);

struct fl_nvme_resv_acquire_data {
    le64 crkey;
    le64 prkey;
};
FL_LAYOUT_SIZE(fl_nvme_resv_acquire_data, 16);
FL_LAYOUT_AT(fl_nvme_resv_acquire_data, crkey, 0);
FL_LAYOUT_AT(fl_nvme_resv_acquire_data, prkey, 8);

struct fl_nvme_resv_release_data {
    le64 crkey;
};
FL_LAYOUT_SIZE(fl_nvme_resv_release_data, 8);
FL_LAYOUT_AT(fl_nvme_resv_release_data, crkey, 0);

/* Report: CDW10 number of dwords, 0's based; CDW11 bit 0 EDS, the form for 16-byte host identifiers (the only
 * one on fabrics). */
#define FL_NVME_RESV_REPORT_EDS (1u << 0)

/* Header of the report with 8-byte host identifiers; fl_nvme_resv_ctrl follow at 24. */
struct fl_nvme_resv_status {
    le32 gen;
    uint8_t rtype;
    le16 regctl; /* registered controllers */
    uint8_t rsvd7[2];
    uint8_t ptpls;
    uint8_t rsvd10[14];
};
FL_LAYOUT_SIZE(fl_nvme_resv_status, 24);
FL_LAYOUT_AT(fl_nvme_resv_status, gen, 0);
FL_LAYOUT_AT(fl_nvme_resv_status, rtype, 4);
FL_LAYOUT_AT(fl_nvme_resv_status, regctl, 5);
FL_LAYOUT_AT(fl_nvme_resv_status, rsvd7, 7);
FL_LAYOUT_AT(fl_nvme_resv_status, ptpls, 9);
FL_LAYOUT_AT(fl_nvme_resv_status, rsvd10, 10);

/* The same with 16-byte host identifiers; fl_nvme_resv_ctrl_ext follow at 64. */
struct fl_nvme_resv_status_ext {
    le32 gen;
    uint8_t rtype;
    le16 regctl;
    uint8_t rsvd7[2];
    uint8_t ptpls;
    uint8_t rsvd10[54];
};
FL_LAYOUT_SIZE(fl_nvme_resv_status_ext, 64);
FL_LAYOUT_AT(fl_nvme_resv_status_ext, gen, 0);
FL_LAYOUT_AT(fl_nvme_resv_status_ext, rtype, 4);
FL_LAYOUT_AT(fl_nvme_resv_status_ext, regctl, 5);
FL_LAYOUT_AT(fl_nvme_resv_status_ext, rsvd7, 7);
FL_LAYOUT_AT(fl_nvme_resv_status_ext, ptpls, 9);
FL_LAYOUT_AT(fl_nvme_resv_status_ext, rsvd10, 10);

#define FL_NVME_RESV_RCSTS_HOLDER 0x01

struct fl_nvme_resv_ctrl {
    le16 cntlid; /* 0xffff: not a controller of this moment (dynamic) */
    uint8_t rcsts;
    uint8_t rsvd3[5];
    le64 hostid;
    le64 rkey;
};
FL_LAYOUT_SIZE(fl_nvme_resv_ctrl, 24);
FL_LAYOUT_AT(fl_nvme_resv_ctrl, cntlid, 0);
FL_LAYOUT_AT(fl_nvme_resv_ctrl, rcsts, 2);
FL_LAYOUT_AT(fl_nvme_resv_ctrl, rsvd3, 3);
FL_LAYOUT_AT(fl_nvme_resv_ctrl, hostid, 8);
FL_LAYOUT_AT(fl_nvme_resv_ctrl, rkey, 16);

struct fl_nvme_resv_ctrl_ext {
    le16 cntlid;
    uint8_t rcsts;
    uint8_t rsvd3[5];
    le64 rkey;
    uint8_t hostid[16];
    uint8_t rsvd32[32];
};
FL_LAYOUT_SIZE(fl_nvme_resv_ctrl_ext, 64);
FL_LAYOUT_AT(fl_nvme_resv_ctrl_ext, cntlid, 0);
FL_LAYOUT_AT(fl_nvme_resv_ctrl_ext, rcsts, 2);
FL_LAYOUT_AT(fl_nvme_resv_ctrl_ext, rsvd3, 3);
FL_LAYOUT_AT(fl_nvme_resv_ctrl_ext, rkey, 8);
FL_LAYOUT_AT(fl_nvme_resv_ctrl_ext, hostid, 16);
FL_LAYOUT_AT(fl_nvme_resv_ctrl_ext, rsvd32, 32);

/* Reservation notification log page (80h) */
enum fl_nvme_resv_notice {
    FL_NVME_RESV_NOTICE_EMPTY = 0,
    FL_NVME_RESV_NOTICE_REG_PREEMPTED = 1,
    FL_NVME_RESV_NOTICE_RELEASED = 2,
    FL_NVME_RESV_NOTICE_PREEMPTED = 3,
};

struct fl_nvme_resv_log {
    le64 count;   /* log page count */
    uint8_t type; /* enum fl_nvme_resv_notice */
    uint8_t nalp; /* further pages waiting */
    uint8_t rsvd10[2];
    le32 nsid;
    uint8_t rsvd16[48];
};
FL_LAYOUT_SIZE(fl_nvme_resv_log, 64);
FL_LAYOUT_AT(fl_nvme_resv_log, count, 0);
FL_LAYOUT_AT(fl_nvme_resv_log, type, 8);
FL_LAYOUT_AT(fl_nvme_resv_log, nalp, 9);
FL_LAYOUT_AT(fl_nvme_resv_log, rsvd10, 10);
FL_LAYOUT_AT(fl_nvme_resv_log, nsid, 12);
FL_LAYOUT_AT(fl_nvme_resv_log, rsvd16, 16);

#endif
