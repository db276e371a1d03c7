/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs by shared memory (shm/): the choice, and what the objects have to do for it. Under rnic->lock.
 */
#ifndef FL_RNIC_SHM_PATH_H
#define FL_RNIC_SHM_PATH_H

#include "rnic/objects.h"
#include "rnic/shm/direct.h"

void fl_shm_path_start(struct fl_rnic *rnic); /* without it, all goes by UDP */
void fl_shm_path_stop(struct fl_rnic *rnic);
void fl_shm_path_forget(struct fl_rnic *rnic); /* in the child of a fork */

/* Is it an address of this host? Not under the lock that protects the devices. */
bool fl_shm_path_is_here(const struct in6_addr *addr);
/* On the way to RTR: shared memory if the peer is a process of this host and user. Sets path and reason. */
void fl_shm_path_choose(struct fl_qp *qp);
void fl_shm_path_leave(struct fl_qp *qp);
/* Before it goes to ERR by the program: takes what is complete for the peer already. */
void fl_shm_path_take(struct fl_qp *qp);
/* What peers see of it: after each change. hide: it is reset or destroyed. */
void fl_shm_path_show(struct fl_qp *qp);
void fl_shm_path_hide(struct fl_qp *qp);
/* A key was closed or changed: returns when no peer uses it as it was. */
void fl_shm_path_quiesce(struct fl_rnic *rnic);

/* A READ, WRITE or atomic between fl_shm_direct_begin() and _end(), counted. r: all but who. */
bool fl_shm_path_do(struct fl_qp *qp, struct fl_shm_request *r);

/* shm_post.c */
/* Does requests at once, in order, and returns the first that was not done. now: as for
 * fl_shm_direct_begin(). */
struct ibv_send_wr *fl_shm_path_post(struct fl_qp *qp, struct ibv_send_wr *wr, uint64_t now);
/* On the way to RTR: own lies in what peers see. NULL: none will be taken. */
void fl_shm_path_begin_messages(struct fl_qp *qp, struct fl_shm_grant *own, uint32_t epoch);
/* A receive was posted. */
void fl_shm_path_posted(struct fl_qp *qp, const struct ibv_recv_wr *wr);
/* Peers are told of the receives that there are. */
void fl_shm_path_grant(struct fl_qp *qp);
/* Memory of receives is not what it was when they were granted: what comes for them comes by packets from now on, and is judged as
 * it arrives. */
void fl_shm_path_revoke(struct fl_rnic *rnic, uint32_t lkey);
/* Of struct fl_shm_delivery, arg being the RNIC */
void fl_shm_path_message(void *arg, struct fl_shm_link *link, const struct fl_shm_message *message,
                         const void *data, uint32_t len);

/* Of fl_roce_ops */
bool fl_shm_path_direct(struct fl_roce_qp *roce, const struct fl_roce_swqe *wqe);
/* Do its packets go that way just now? By UDP until the link is up. */
bool fl_shm_path_carries(struct fl_qp *qp);
/* Up to max packets. True: there may be more. */
bool fl_shm_path_send_some(struct fl_qp *qp, int max);

#endif
