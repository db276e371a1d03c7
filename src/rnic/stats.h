/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an RNIC has counted, and the path of each queue pair with the reason: for others who ask (stats/), and
 * at the end of the process. Counting itself costs no more than the increments that are there anyway.
 */
#ifndef FL_RNIC_STATS_H
#define FL_RNIC_STATS_H

#include <stdbool.h>
#include <stdio.h>

#include "rnic/objects.h"
#include "rnic/stats/proto.h"

/* Others may ask from then on; without it the RNIC works all the same. Before its thread starts, and after
 * its end, when what was counted is added to what the process has counted before. */
void fl_stats_start(struct fl_rnic *rnic);
void fl_stats_stop(struct fl_rnic *rnic);
void fl_stats_forget(struct fl_rnic *rnic); /* in the child of a fork */
void fl_stats_forget_past(void);            /* the same: what its parent counted is not its own */

/* A fl_stats_source; takes the lock, for a short time. */
void fl_stats_answer(void *rnic, const struct fl_stats_ask *ask, struct fl_stats_answer *answer);

/* Under rnic->lock */
void fl_stats_qp_gone(struct fl_qp *qp);
void fl_stats_qp(const struct fl_qp *qp, struct fl_stats_qp *to);
void fl_stats_process(const struct fl_rnic *rnic, uint64_t counters[FL_NR_PROCESS_COUNTERS]);

/* stats_gone.c: queue pairs that are destroyed, those of one path for one reason together. Under rnic->lock;
 * without an RNIC, under the process's. */
struct fl_stats_gone {
    uint32_t nr_qps;
    struct fl_stats_qp qp; /* device, path, how, reason; counters are sums */
};
void fl_stats_gone_add(const struct fl_stats_qp *qp);
void fl_stats_gone_each(void (*see)(const struct fl_stats_gone *sum, void *arg), void *arg);
void fl_stats_gone_forget(void); /* in the child of a fork */

/*
 * stats_text.c: all that this process has counted so far and the paths of its queue pairs, as text. Any
 * thread, at any time.
 */
void fl_rnic_stats_print(FILE *f);
/* FARLANE_RNIC_STATS in the environment, "stderr" or a file to append to: prints at the end of the process.
 */
void fl_stats_at_exit(void);
/* What RNICs of this process that are closed have counted, under no lock but the process's. False: there has
 * been no RNIC. */
bool fl_stats_past(uint64_t counters[FL_NR_PROCESS_COUNTERS]);

#endif
