/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rate for what one queue pair sends, that falls with each congestion notification and recovers with time
 * (annex A17.9; the law is that of DCQCN: Zhu et al., SIGCOMM 2015). Without notifications there is no limit
 * and no cost. Pure arithmetic on the time given.
 */
#ifndef FL_RNIC_ROCE_CONGESTION_H
#define FL_RNIC_ROCE_CONGESTION_H

#include <stdbool.h>
#include <stdint.h>

#define FL_ROCE_LINE_RATE 12500000000ull /* bytes a second, where nobody says another */
#define FL_ROCE_CNP_NS    50000          /* at most one notification in that time */

struct fl_roce_congestion {
    uint64_t line_rate;
    /* private */
    bool limited;
    uint64_t rate, target; /* bytes a second */
    uint32_t alpha;        /* how congested it was of late: 0 to 1024 */
    uint32_t nr_rounds;    /* of recovery since the last notification */
    uint64_t alpha_at, round_at;
    uint64_t next_at; /* the next packet may leave */
    uint64_t cnp_at;  /* the next notification to the peer may leave */
};

/* A notification came. */
void fl_roce_congestion_cut(struct fl_roce_congestion *cc, uint64_t now);
/* May a packet leave? If not, at next_at. */
bool fl_roce_congestion_open(struct fl_roce_congestion *cc, uint64_t now);
/* len bytes leave. */
void fl_roce_congestion_sent(struct fl_roce_congestion *cc, uint32_t len, uint64_t now);
/* A packet came marked. True: tell the peer. */
bool fl_roce_congestion_marked(struct fl_roce_congestion *cc, uint64_t now);

#endif
