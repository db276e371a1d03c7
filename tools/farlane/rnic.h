/* SPDX-License-Identifier: Apache-2.0 */
/* What `farlane rnic` has looked at, and the forms in which it shows it. */
#ifndef FARLANE_RNIC_H
#define FARLANE_RNIC_H

#include <jansson.h>
#include <stdbool.h>

#include "rnic/device.h"
#include "rnic/stats/client.h"

struct rnic_process {
    int pid; /* as it is seen from here; 0: in another namespace of processes */
    uint32_t uid, slot;
    bool is_hub;
    char user[64], command[64]; /* "?": not known */
    int status;                 /* 0: there are details; else why not, as fl_stats_view_get() says it */
    struct fl_stats_view view;
    uint64_t moved_before; /* bytes, at the look before this one; 0: there was none */
};

struct rnic_look {
    uint16_t udp_port;
    struct rnic_process *processes;
    int nr_processes;
    uint64_t at_ns, before_ns; /* 0: no look before this one */
};

/* All processes, or the one with this pid (0: all). 0; negative errno with text: -ENOENT: there is none. */
int rnic_look(struct rnic_look *look, int pid, const struct rnic_look *before, struct fl_error *err);
void rnic_look_free(struct rnic_look *look);
/* One sentence for a status that is not 0. */
const char *rnic_why(int status);
uint64_t rnic_moved(const struct rnic_process *p);

void rnic_each_device(void (*see)(const struct fl_device *device, void *arg), void *arg);
const char *rnic_gid(const struct in6_addr *gid, char text[INET6_ADDRSTRLEN]);
const char *rnic_qp_type(uint32_t type);
const char *rnic_qp_state(uint32_t state);

/* rnic_show.c: tables on standard output */
void rnic_show_devices(void);
void rnic_show_processes(const struct rnic_look *look);
void rnic_show_qps(const struct rnic_look *look);
/* qpn 0: processes and devices; else that queue pair. The number of them shown. */
int rnic_show_counters(const struct rnic_look *look, uint32_t qpn);

/* rnic_json.c */
json_t *rnic_json_devices(void);
json_t *rnic_json_processes(const struct rnic_look *look);
void rnic_prometheus(const struct rnic_look *look);

#endif
