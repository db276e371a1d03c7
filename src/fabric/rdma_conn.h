/* SPDX-License-Identifier: Apache-2.0 */
/* The target's side of one NVMe/RDMA connection: made from a request of the connection manager. */
#ifndef FL_FABRIC_RDMA_CONN_H
#define FL_FABRIC_RDMA_CONN_H

#include "fabric/fabric.h"
#include "fabric/rdma_domain.h"

/*
 * Accepts, or rejects with the status that NVMe has for it, and calls handler->opened(). event is a
 * CONNECT_REQUEST, which is acknowledged here; its id is taken, also when this fails.
 */
int fl_rdma_conn_create(const struct fl_listen_options *options, const struct fl_rdma_lib *lib,
                        struct rdma_cm_event *event);

#endif
