/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs by shared memory (shm/): the choice, and what the objects have to do for it. Under rnic->lock.
 */
#ifndef FL_RNIC_SHM_PATH_H
#define FL_RNIC_SHM_PATH_H

#include "rnic/objects.h"

void fl_shm_path_start(struct fl_rnic *rnic); /* without it, all goes by UDP */
void fl_shm_path_stop(struct fl_rnic *rnic);
void fl_shm_path_forget(struct fl_rnic *rnic); /* in the child of a fork */

/* On the way to RTR: shared memory if the peer is a process of this host and user. Sets path and reason. */
void fl_shm_path_choose(struct fl_qp *qp);
void fl_shm_path_leave(struct fl_qp *qp);
/* What peers see of it: after each change. hide: it is reset or destroyed. */
void fl_shm_path_show(struct fl_qp *qp);
void fl_shm_path_hide(struct fl_qp *qp);
/* A key was closed or changed: returns when no peer uses it as it was. */
void fl_shm_path_quiesce(struct fl_rnic *rnic);

/* Of fl_roce_ops */
bool fl_shm_path_direct(struct fl_roce_qp *roce, const struct fl_roce_swqe *wqe);
/* Do its packets go that way just now? By UDP until the link is up. */
bool fl_shm_path_carries(struct fl_qp *qp);
/* Up to max packets. True: there may be more. */
bool fl_shm_path_send_some(struct fl_qp *qp, int max);

#endif
