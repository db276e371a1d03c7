/* SPDX-License-Identifier: Apache-2.0 */
/* Who asks: which processes of this host have an RNIC, and what each one says of itself. */
#ifndef FL_RNIC_STATS_CLIENT_H
#define FL_RNIC_STATS_CLIENT_H

#include <stdbool.h>

#include <farlane/error.h>

#include "rnic/stats/proto.h"

struct fl_stats_listed { /* as the hub's table has it */
    int pid;             /* as the hub sees it; 0: it cannot */
    uint32_t uid, slot;
    bool is_hub;
    char address[FL_STATS_ADDRESS_LEN]; /* where it answers */
};

/*
 * All processes at the hub. hub_path NULL: the hub of this network namespace and UDP port. Returns the
 * number, and *list, which is the caller's to free. -ENOENT: there is no hub, -ETIMEDOUT: it does not answer.
 */
int fl_stats_list(const char *hub_path, uint16_t udp_port, struct fl_stats_listed **list,
                  struct fl_error *err);

struct fl_stats_view { /* one process */
    int pid;           /* as it is seen from here */
    struct fl_stats_process process;
    struct fl_stats_device *devices;
    struct fl_stats_qp *qps;
    uint32_t nr_devices, nr_qps;
};

/* 0; -EPERM: another user's, -ETIMEDOUT: it does not answer (stopped?), -EPROTO: another version of farlane,
 * -ECONNREFUSED: it is gone, other negative errnos. pid is set where it was seen. */
int fl_stats_view_get(const char *address, struct fl_stats_view *view);
void fl_stats_view_free(struct fl_stats_view *view);
/* A device's counters: those of its queue pairs, and of those that are gone. */
void fl_stats_sum(const struct fl_stats_view *view, const struct fl_stats_device *device,
                  uint64_t counters[FL_NR_QP_COUNTERS]);

#endif
