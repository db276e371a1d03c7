/* SPDX-License-Identifier: Apache-2.0 */
/* The extended way of posting (ibv_wr_*): requests are gathered aside, and posted all at once or not at all.
 */
#ifndef FL_RNIC_QP_EX_H
#define FL_RNIC_QP_EX_H

#include "rnic/objects.h"

/* Fills in qp->ex and qp->builder. 0, -EOPNOTSUPP: some operation of the flags, -ENOMEM. */
int fl_qp_builder_create(struct fl_qp *qp, uint64_t send_ops_flags);
void fl_qp_builder_destroy(struct fl_qp_builder *builder);

/* qp_post.c: all or none. 0 or positive errno. */
int fl_qp_post_all(struct fl_qp *qp, const struct ibv_send_wr *wrs, uint32_t nr);

#endif
