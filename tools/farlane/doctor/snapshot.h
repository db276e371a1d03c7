/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of RDMA ports and their interfaces at one moment, to be compared before and after a load. */
#ifndef FARLANE_DOCTOR_SNAPSHOT_H
#define FARLANE_DOCTOR_SNAPSHOT_H

#include "check.h"

struct snapshot_value {
    char label[2 * SYS_NAME_LEN]; /* port or interface */
    char name[SYS_NAME_LEN];
    uint64_t value;
};

struct snapshot {
    size_t nr, cap;
    struct snapshot_value *at;
};

/* 0; -ENOMEM */
int snapshot_take(const struct sys *sys, struct snapshot *snapshot);
void snapshot_free(struct snapshot *snapshot);

#endif
