/* SPDX-License-Identifier: Apache-2.0 */
/* The target's side of one NVMe/RDMA connection: made from a request of the connection manager. */
#ifndef FL_FABRIC_RDMA_CONN_H
#define FL_FABRIC_RDMA_CONN_H

#include "fabric/fabric.h"
#include "fabric/rdma_domain.h"
#include "fabric/rdma_shared.h"

/*
 * Accepts, or rejects with the status that NVMe has for it, and calls handler->opened(). event is a
 * CONNECT_REQUEST, which is acknowledged here; its id is taken, also when this fails. shared: the receives in
 * common that the listener has so far; more are put on it.
 */
int fl_rdma_conn_create(const struct fl_listen_options *options, const struct fl_rdma_lib *lib,
                        struct fl_rdma_shared **shared, struct rdma_cm_event *event);

#endif
