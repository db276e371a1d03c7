/* SPDX-License-Identifier: Apache-2.0 */
/* Endpoints: an id with all that it needs, from a resolved address. */
#include <stdlib.h>

#include "rnic/cma/parts.h"

static int set_up_passive(struct fl_cma_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                          const struct ibv_qp_init_attr *attr)
{
    if (fl_cma_bind_addr(&id->id, res->ai_src_addr))
        return -1;
    if (pd)
        id->id.pd = pd;
    if (!attr)
        return 0;
    id->ep_attr = malloc(sizeof(*id->ep_attr));
    if (!id->ep_attr)
        return -1;
    *id->ep_attr = *attr;
    id->ep_attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    return 0;
}

static int set_up_active(struct fl_cma_id *id, struct rdma_addrinfo *res, struct ibv_pd *pd,
                         struct ibv_qp_init_attr *attr)
{
    const int timeout_ms = 2000;
    if (fl_cma_resolve_addr(&id->id, res->ai_src_addr, res->ai_dst_addr, timeout_ms) ||
        fl_cma_resolve_route(&id->id, timeout_ms))
        return -1;
    if (!attr)
        return 0;
    attr->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    return fl_cma_create_qp(&id->id, pd, attr);
}

int fl_cma_create_ep(struct rdma_cm_id **out, struct rdma_addrinfo *res, struct ibv_pd *pd,
                     struct ibv_qp_init_attr *attr)
{
    struct rdma_cm_id *id;
    if (fl_cma_create_id(NULL, &id, NULL, (enum rdma_port_space)res->ai_port_space))
        return -1;
    if (res->ai_qp_type)
        id->qp_type = (enum ibv_qp_type)res->ai_qp_type;
    int r = res->ai_flags & RAI_PASSIVE ? set_up_passive(fl_cma_id_of(id), res, pd, attr)
                                        : set_up_active(fl_cma_id_of(id), res, pd, attr);
    if (r) {
        int cause = errno;
        fl_cma_destroy_ep(id);
        errno = cause;
        return -1;
    }
    *out = id;
    return 0;
}

void fl_cma_destroy_ep(struct rdma_cm_id *id)
{
    if (id->qp)
        fl_cma_destroy_qp(id);
    if (id->srq)
        fl_cma_destroy_srq(id);
    fl_cma_destroy_id(id);
}
