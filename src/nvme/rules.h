/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules of NVMe that hold whoever applies them: ranges, statuses, what a controller may say of itself. Pure
 * functions; nothing here keeps state.
 */
#ifndef FL_NVME_RULES_H
#define FL_NVME_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include <farlane/error.h>

#include "wire/nvme.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_resv.h"

/* [slba, slba + nr_blocks) lies in a namespace of nr_ns_blocks; never wraps (NVM command set 1.0, 2.1.1: LBA
 * Out of Range). */
static inline bool fl_nvme_range_ok(uint64_t slba, uint64_t nr_blocks, uint64_t nr_ns_blocks)
{
    return nr_blocks <= nr_ns_blocks && slba <= nr_ns_blocks - nr_blocks;
}

/* What an I/O was doing when it failed, since the same errno means another status for a read than for a
 * write. */
enum fl_nvme_io_kind { FL_NVME_IO_READ, FL_NVME_IO_WRITE, FL_NVME_IO_OTHER };

/* The one place where an errno of ours becomes a status for a host. 0 stays 0. Do Not Retry is set where
 * trying again is no use. */
fl_nvme_status fl_nvme_status_of_errno(int error, enum fl_nvme_io_kind kind);

/*
 * Is this Identify Controller data of an I/O or discovery controller over fabrics something that a host can
 * work with? The list is what strict hosts insist on (Linux since 6.x refuses a wrong MNAN, and so on). 0, or
 * -EPROTO with the field and its value in err.
 */
int fl_nvme_check_id_ctrl(const struct fl_nvme_id_ctrl *id, struct fl_error *err);

/* The same for Identify Namespace: format index, block size, no metadata that we don't understand, capacity.
 */
int fl_nvme_check_id_ns(const struct fl_nvme_id_ns *id, struct fl_error *err);

/* ---- reservations: what a type allows (base specification 2.0, 8.19, figure "Command Behavior in the
 * Presence of a Reservation") ---- */

enum fl_nvme_access {
    FL_NVME_ACCESS_READ,  /* Read, Compare, Verify, Copy's source */
    FL_NVME_ACCESS_WRITE, /* Write, Write Zeroes, DSM, Copy's destination, Flush */
};

struct fl_nvme_resv_role {
    bool registered;
    bool holder; /* also every registrant, for the all-registrants types */
};

bool fl_nvme_resv_allows(enum fl_nvme_resv_type type, struct fl_nvme_resv_role role,
                         enum fl_nvme_access access);

#endif
