/* SPDX-License-Identifier: Apache-2.0 */
#ifndef FL_WIRE_NVME_LOG_H
#define FL_WIRE_NVME_LOG_H

/*
 * Log pages (base specification 5.16.1). The discovery log is in discovery.h, the reservation notification in
 * nvme_resv.h.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/bytes.h"
#include "wire/layout.h"
#include "wire/nvme.h"

/* Supported log pages (00h) */
#define FL_NVME_LID_SUPPORTED    (1u << 0)
#define FL_NVME_LID_INDEX_OFFSET (1u << 1)

struct fl_nvme_supported_logs {
    le32 lid[256];
};
FL_LAYOUT_SIZE(fl_nvme_supported_logs, 1024);
FL_LAYOUT_AT(fl_nvme_supported_logs, lid, 0);

/* Error information (01h): an array of these, newest first */
struct fl_nvme_error_entry {
    le64 count; /* 0: entry not in use */
    le16 sqid;
    le16 cid;
    le16 status; /* as in a completion, phase tag included */
    le16 peloc;  /* bits 7:0 byte, 10:8 bit of the command at fault; ffffh: none */
    le64 lba;
    le32 nsid;
    uint8_t vsia; /* vendor specific log page with more */
    uint8_t trtype;
    uint8_t rsvd30[2];
    le64 csi; /* command specific information */
    le16 trtsi;
    uint8_t rsvd42[22];
};
FL_LAYOUT_SIZE(fl_nvme_error_entry, 64);
FL_LAYOUT_AT(fl_nvme_error_entry, count, 0);
FL_LAYOUT_AT(fl_nvme_error_entry, sqid, 8);
FL_LAYOUT_AT(fl_nvme_error_entry, cid, 10);
FL_LAYOUT_AT(fl_nvme_error_entry, status, 12);
FL_LAYOUT_AT(fl_nvme_error_entry, peloc, 14);
FL_LAYOUT_AT(fl_nvme_error_entry, lba, 16);
FL_LAYOUT_AT(fl_nvme_error_entry, nsid, 24);
FL_LAYOUT_AT(fl_nvme_error_entry, vsia, 28);
FL_LAYOUT_AT(fl_nvme_error_entry, trtype, 29);
FL_LAYOUT_AT(fl_nvme_error_entry, rsvd30, 30);
FL_LAYOUT_AT(fl_nvme_error_entry, csi, 32);
FL_LAYOUT_AT(fl_nvme_error_entry, trtsi, 40);
FL_LAYOUT_AT(fl_nvme_error_entry, rsvd42, 42);

/* SMART / health (02h) */
#define FL_NVME_SMART_CRIT_SPARE       0x01
#define FL_NVME_SMART_CRIT_TEMPERATURE 0x02
#define FL_NVME_SMART_CRIT_RELIABILITY 0x04
#define FL_NVME_SMART_CRIT_READ_ONLY   0x08
#define FL_NVME_SMART_CRIT_BACKUP      0x10

struct fl_nvme_smart_log {
    uint8_t critical_warning; /* FL_NVME_SMART_CRIT_* */
    le16 temperature;         /* kelvin */
    uint8_t avail_spare;      /* percent */
    uint8_t spare_thresh;
    uint8_t percent_used;
    uint8_t endgrp_critical;
    uint8_t rsvd7[25];
    struct fl_nvme_u128 data_units_read; /* thousands of 512 bytes, rounded up */
    struct fl_nvme_u128 data_units_written;
    struct fl_nvme_u128 host_reads; /* commands */
    struct fl_nvme_u128 host_writes;
    struct fl_nvme_u128 ctrl_busy_time; /* minutes */
    struct fl_nvme_u128 power_cycles;
    struct fl_nvme_u128 power_on_hours;
    struct fl_nvme_u128 unsafe_shutdowns;
    struct fl_nvme_u128 media_errors;
    struct fl_nvme_u128 nr_error_entries; /* over the controller's life */
    le32 warning_temp_time;               /* minutes */
    le32 critical_temp_time;
    le16 temp_sensor[8];
    le32 tmt1_count;
    le32 tmt2_count;
    le32 tmt1_time; /* seconds */
    le32 tmt2_time;
    uint8_t rsvd232[280];
};
FL_LAYOUT_SIZE(fl_nvme_smart_log, 512);
FL_LAYOUT_AT(fl_nvme_smart_log, critical_warning, 0);
FL_LAYOUT_AT(fl_nvme_smart_log, temperature, 1);
FL_LAYOUT_AT(fl_nvme_smart_log, avail_spare, 3);
FL_LAYOUT_AT(fl_nvme_smart_log, spare_thresh, 4);
FL_LAYOUT_AT(fl_nvme_smart_log, percent_used, 5);
FL_LAYOUT_AT(fl_nvme_smart_log, endgrp_critical, 6);
FL_LAYOUT_AT(fl_nvme_smart_log, rsvd7, 7);
FL_LAYOUT_AT(fl_nvme_smart_log, data_units_read, 32);
FL_LAYOUT_AT(fl_nvme_smart_log, data_units_written, 48);
FL_LAYOUT_AT(fl_nvme_smart_log, host_reads, 64);
FL_LAYOUT_AT(fl_nvme_smart_log, host_writes, 80);
FL_LAYOUT_AT(fl_nvme_smart_log, ctrl_busy_time, 96);
FL_LAYOUT_AT(fl_nvme_smart_log, power_cycles, 112);
FL_LAYOUT_AT(fl_nvme_smart_log, power_on_hours, 128);
FL_LAYOUT_AT(fl_nvme_smart_log, unsafe_shutdowns, 144);
FL_LAYOUT_AT(fl_nvme_smart_log, media_errors, 160);
FL_LAYOUT_AT(fl_nvme_smart_log, nr_error_entries, 176);
FL_LAYOUT_AT(fl_nvme_smart_log, warning_temp_time, 192);
FL_LAYOUT_AT(fl_nvme_smart_log, critical_temp_time, 196);
FL_LAYOUT_AT(fl_nvme_smart_log, temp_sensor, 200);
FL_LAYOUT_AT(fl_nvme_smart_log, tmt1_count, 216);
FL_LAYOUT_AT(fl_nvme_smart_log, tmt2_count, 220);
FL_LAYOUT_AT(fl_nvme_smart_log, tmt1_time, 224);
FL_LAYOUT_AT(fl_nvme_smart_log, tmt2_time, 228);
FL_LAYOUT_AT(fl_nvme_smart_log, rsvd232, 232);

/* Firmware slots (03h) */
struct fl_nvme_fw_slot_log {
    uint8_t afi; /* bits 2:0 the running slot, 6:4 the next */
    uint8_t rsvd1[7];
    char frs[7][8]; /* ASCII, padded with spaces; zeros: empty slot */
    uint8_t rsvd64[448];
};
FL_LAYOUT_SIZE(fl_nvme_fw_slot_log, 512);
FL_LAYOUT_AT(fl_nvme_fw_slot_log, afi, 0);
FL_LAYOUT_AT(fl_nvme_fw_slot_log, rsvd1, 1);
FL_LAYOUT_AT(fl_nvme_fw_slot_log, frs, 8);
FL_LAYOUT_AT(fl_nvme_fw_slot_log, rsvd64, 64);

/* Changed namespaces (04h): ascending; first entry FL_NVME_NSID_ALL when there are more than fit */
#define FL_NVME_CHANGED_NS_MAX 1024

struct fl_nvme_changed_ns_log {
    le32 nsid[1024];
};
FL_LAYOUT_SIZE(fl_nvme_changed_ns_log, 4096);
FL_LAYOUT_AT(fl_nvme_changed_ns_log, nsid, 0);

/* Commands supported and effects (05h) */
#define FL_NVME_EFFECT_CSUPP (1u << 0)
#define FL_NVME_EFFECT_LBCC  (1u << 1) /* changes logical block content */
#define FL_NVME_EFFECT_NCC   (1u << 2) /* namespace capability */
#define FL_NVME_EFFECT_NIC   (1u << 3) /* namespace inventory */
#define FL_NVME_EFFECT_CCC   (1u << 4) /* controller capability */
#define FL_NVME_EFFECT_CSE_SHIFT                                              \
    16 /* 3 bits: 0 none, 1 alone in the namespace, 2 alone in the controller \
        */

struct fl_nvme_effects_log {
    le32 acs[256];
    le32 iocs[256];
    uint8_t rsvd2048[2048];
};
FL_LAYOUT_SIZE(fl_nvme_effects_log, 4096);
FL_LAYOUT_AT(fl_nvme_effects_log, acs, 0);
FL_LAYOUT_AT(fl_nvme_effects_log, iocs, 1024);
FL_LAYOUT_AT(fl_nvme_effects_log, rsvd2048, 2048);

/* Asymmetric namespace access (0Ch): header, then groups, each a descriptor with its namespaces */
enum fl_nvme_ana_state {
    FL_NVME_ANA_OPTIMIZED = 0x1,
    FL_NVME_ANA_NON_OPTIMIZED = 0x2,
    FL_NVME_ANA_INACCESSIBLE = 0x3,
    FL_NVME_ANA_PERSISTENT_LOSS = 0x4,
    FL_NVME_ANA_CHANGE = 0xf,
};

#define FL_NVME_LOG_ANA_RGO 0x01 /* LSP: groups only, no namespaces */

struct fl_nvme_ana_header {
    le64 chgcnt;
    le16 ngrps;
    uint8_t rsvd10[6];
};
FL_LAYOUT_SIZE(fl_nvme_ana_header, 16);
FL_LAYOUT_AT(fl_nvme_ana_header, chgcnt, 0);
FL_LAYOUT_AT(fl_nvme_ana_header, ngrps, 8);
FL_LAYOUT_AT(fl_nvme_ana_header, rsvd10, 10);

/* nnsids le32 namespace identifiers follow, ascending. */
struct fl_nvme_ana_group {
    le32 grpid;
    le32 nnsids;
    le64 chgcnt;
    uint8_t state; /* bits 3:0 enum fl_nvme_ana_state */
    uint8_t rsvd17[15];
};
FL_LAYOUT_SIZE(fl_nvme_ana_group, 32);
FL_LAYOUT_AT(fl_nvme_ana_group, grpid, 0);
FL_LAYOUT_AT(fl_nvme_ana_group, nnsids, 4);
FL_LAYOUT_AT(fl_nvme_ana_group, chgcnt, 8);
FL_LAYOUT_AT(fl_nvme_ana_group, state, 16);
FL_LAYOUT_AT(fl_nvme_ana_group, rsvd17, 17);

struct fl_nvme_ana_walk {
    const uint8_t *page;
    size_t len, pos;
    uint32_t nr_left; /* groups that the header promises and that were not read yet */
};

/* Begins a walk over the page_len bytes of an ANA log page. -EPROTO: shorter than its header. */
int fl_nvme_ana_start(struct fl_nvme_ana_walk *walk, const void *page, size_t page_len);

/*
 * 1: *group, and *nsids its group->nnsids identifiers, point into the page; 0: no more; -EPROTO: the page
 * ends inside a descriptor or its list.
 */
int fl_nvme_ana_next(struct fl_nvme_ana_walk *walk, const struct fl_nvme_ana_group **group,
                     const le32 **nsids);

#endif
