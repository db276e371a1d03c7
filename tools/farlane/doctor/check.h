/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A check is one row of one table (table.c): what it looks at, how it sees it, what a fault means and what
 * mends it. Its function looks at the system and reports what it saw. docs/design/doctor.md
 */
#ifndef FARLANE_DOCTOR_CHECK_H
#define FARLANE_DOCTOR_CHECK_H

#include <stdio.h>

#include <jansson.h>

#include "sys.h"

struct doctor;

enum level {
    LEVEL_BAD,    /* something will not work */
    LEVEL_SLOW,   /* it works, and worse than it could, or not for long */
    LEVEL_HINT,   /* no fault: what could be better, or what one should know */
    LEVEL_UNSEEN, /* could not be seen, and why */
    LEVEL_OK,
    LEVEL_ABSENT, /* there is nothing of this kind here */
    NR_LEVELS,
};

enum sure { SURE_CERTAIN, SURE_LIKELY, SURE_MAYBE };

/*
 * In cause and remedy {0} is the subject and {1} what the function gave beside it. A remedy that begins with
 * # is advice and no command. A check whose function is NULL is reported by another's.
 */
struct check {
    const char *id;
    const char *what; /* is looked at */
    const char *how;  /* it is seen: files, calls */
    const char *cause;
    const char *remedy;
    enum sure sure;
    void (*run)(struct doctor *d);
};

struct finding {
    const struct check *check;
    enum level level;
    enum sure sure;
    char *subject, *evidence;
    char *cause, *remedy; /* NULL where there is no fault */
};

struct snapshot;
struct gids;

struct doctor {
    const struct sys *sys;
    uint64_t plan_len; /* bytes that shall be registered */
    const char *peer;  /* as the user named it; NULL: none */
    struct in6_addr peer_addr;
    struct snapshot *before, *after; /* of counters; NULL: the counters since the start are judged */
    double load_s;                   /* between the two */

    const struct check *now;
    struct finding *findings;
    size_t nr_findings, cap;
    bool broken; /* no memory: the report is not whole */
};

extern const struct check doctor_checks[];
extern const size_t nr_doctor_checks;

const char *level_name(enum level level);
const char *sure_name(enum sure sure);

/* Runs every check of the table that has a function, or the one with this id (NULL: all). */
void doctor_run(struct doctor *d, const char *id);
void doctor_free(struct doctor *d);
/* Is there a row of this name? */
bool doctor_knows(const char *id);
size_t doctor_count(const struct doctor *d, enum level level);

/* What a check's function reports. `arg` is {1}; NULL: "". */
void report(struct doctor *d, enum level level, const char *subject, const char *arg, const char *fmt, ...)
    FL_PRINTF(5, 6);
/* The same for another row of the table than the one that runs; surer or less sure than its row says. */
void report_as(struct doctor *d, const char *id, enum level level, const char *subject, const char *arg,
               const char *fmt, ...) FL_PRINTF(6, 7);
void report_doubt(struct doctor *d, enum sure sure); /* of the last finding */
/* "could not be seen", with what would show it */
void report_unseen(struct doctor *d, const char *subject, int code, const char *fmt, ...) FL_PRINTF(4, 5);

/* show.c, json.c, script.c */
void doctor_show(const struct doctor *d, FILE *f, bool all);
json_t *doctor_json(const struct doctor *d);
void doctor_script(const struct doctor *d, FILE *f);
void doctor_show_table(FILE *f);
/* A word that a shell takes as it is; quoted where needed. The caller frees it. */
char *shell_word(const char *word);

/* The checks, by file */
void check_rdma_devices(struct doctor *d), check_rdma_files(struct doctor *d),
    check_rdma_cm(struct doctor *d), check_rdma_netns(struct doctor *d);
void check_rdma_port_state(struct doctor *d), check_rdma_manager(struct doctor *d),
    check_rdma_pcie_rate(struct doctor *d), check_rdma_port_mtu(struct doctor *d),
    check_rdma_errors(struct doctor *d);
void check_rdma_gid(struct doctor *d), check_rdma_gid_default(struct doctor *d);
void check_net_link(struct doctor *d), check_net_mtu(struct doctor *d), check_net_rp_filter(struct doctor *d),
    check_net_arp(struct doctor *d), check_net_route(struct doctor *d), check_net_firewall(struct doctor *d);
void check_net_udp_buffers(struct doctor *d), check_net_udp_drops(struct doctor *d),
    check_net_tcp_buffers(struct doctor *d), check_net_tcp_options(struct doctor *d),
    check_net_tcp_loss(struct doctor *d), check_net_udp_checksum(struct doctor *d);
void check_mem_lock(struct doctor *d), check_mem_huge(struct doctor *d),
    check_mem_overcommit(struct doctor *d), check_mem_maps(struct doctor *d), check_mem_shm(struct doctor *d),
    check_limit_files(struct doctor *d);
void check_box_memory(struct doctor *d), check_box_cpu(struct doctor *d), check_box_rdma(struct doctor *d),
    check_box_pids(struct doctor *d), check_box_uring(struct doctor *d), check_box_ptrace(struct doctor *d);
void check_pci_link(struct doctor *d), check_pci_numa(struct doctor *d), check_pci_distance(struct doctor *d),
    check_pci_iommu(struct doctor *d), check_pci_acs(struct doctor *d),
    check_pci_read_request(struct doctor *d);
void check_gpu_driver(struct doctor *d), check_gpu_flavour(struct doctor *d),
    check_gpu_registration(struct doctor *d);
void check_nvme_state(struct doctor *d), check_nvme_multipath(struct doctor *d),
    check_nvme_timeout(struct doctor *d), check_nvme_loss(struct doctor *d),
    check_nvme_policy(struct doctor *d), check_nvme_modules(struct doctor *d);
void check_cpu_governor(struct doctor *d), check_cpu_idle(struct doctor *d),
    check_cpu_isolated(struct doctor *d), check_cpu_balancing(struct doctor *d);
void check_congestion_control(struct doctor *d), check_congestion_dscp(struct doctor *d),
    check_congestion_pause(struct doctor *d), check_congestion_counters(struct doctor *d);

#endif
