/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Questions about a process's RNIC and their answers, on an abstract Unix socket (SOCK_SEQPACKET): one struct
 * a message, one answer a question. Both ends run on one host, but perhaps in different versions: a message
 * of another size or number is refused, and nothing in an answer is believed unseen.
 */
#ifndef FL_RNIC_STATS_PROTO_H
#define FL_RNIC_STATS_PROTO_H

#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>

#include "rnic/stats/counters.h"

#define FL_STATS_MAGIC       0x666c7334u /* "fls4": changes when a message or a list of counters changes */
#define FL_STATS_ADDRESS_LEN 112
#define FL_STATS_QPS_MAX     32 /* in one answer */
#define FL_STATS_DEVICES_MAX 16

enum fl_stats_what { FL_STATS_PROCESS = 1, FL_STATS_DEVICES, FL_STATS_QPS };

struct fl_stats_ask {
    uint32_t magic;
    uint32_t what;
    uint32_t from; /* the first device (by index), the first queue pair (by number) */
    uint32_t rsvd;
};

struct fl_stats_process {
    uint32_t is_hub;
    uint32_t nr_qps;
    uint64_t counters[FL_NR_PROCESS_COUNTERS];
};

struct fl_stats_device {
    char name[64], ifname[16];
    uint64_t gone[FL_NR_QP_COUNTERS]; /* of queue pairs that are destroyed */
};

struct fl_stats_qp {
    char device[64];
    uint32_t qpn, type, state;     /* enum ibv_qp_type, enum ibv_qp_state */
    uint32_t peer_qpn;             /* 0: not connected */
    struct in6_addr gid, peer_gid; /* all zero: not connected */
    uint32_t mtu;                  /* bytes of payload */
    uint32_t nr_sends, nr_recvs;   /* posted and not complete */
    uint32_t nr_ports;             /* source ports that packets are sprayed over */
    uint64_t rate;                 /* bytes a second that congestion leaves; 0: no limit */
    char path[8], how[40];         /* "shm", "udp", "none"; by what means */
    char reason[192];              /* why not a better one */
    uint64_t counters[FL_NR_QP_COUNTERS];
};

struct fl_stats_answer {
    uint32_t magic;
    uint32_t what;
    int32_t status;   /* negative errno: -EPERM: not for this user */
    uint32_t nr;      /* entries */
    uint32_t next;    /* to be asked from; 0: that is all */
    uint32_t nr_gone; /* queue pairs destroyed so far: where it changes between answers, sums are wrong */
    union {
        struct fl_stats_process process;
        struct fl_stats_device devices[FL_STATS_DEVICES_MAX];
        struct fl_stats_qp qps[FL_STATS_QPS_MAX];
    };
};

/* Where a process answers, made of the address that the hub's table has of it */
static inline void fl_stats_address(const char *address, char to[FL_STATS_ADDRESS_LEN])
{
    snprintf(to, FL_STATS_ADDRESS_LEN, "%.100s-st", address);
}

#endif
