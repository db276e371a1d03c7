/* SPDX-License-Identifier: Apache-2.0 */
/* Options of ids, and what a software RNIC on Ethernet has no use for. */
#include <string.h>

#include "rnic/cma/parts.h"

#define ACK_TIMEOUT_MAX 31 /* five bits */

static int set_byte(uint8_t *to, const void *value, size_t len, unsigned int max)
{
    if (len != 1 || *(const uint8_t *)value > max)
        return -EINVAL;
    *to = *(const uint8_t *)value;
    return 0;
}

/* Such as decide what a port may be shared with: until it is bound, or, for reuse, listens. */
static int set_flag(bool *to, const void *value, size_t len, bool allowed)
{
    int flag;
    if (len != sizeof(flag) || !allowed)
        return -EINVAL;
    memcpy(&flag, value, sizeof(flag));
    *to = flag;
    return 0;
}

static int set_locked(struct fl_cma_id *id, int name, const void *value, size_t len)
{
    switch (name) {
    case RDMA_OPTION_ID_TOS:
        return set_byte(&id->tos, value, len, UINT8_MAX);
    case RDMA_OPTION_ID_REUSEADDR:
        return set_flag(&id->reuseaddr, value, len, id->state <= FL_CMA_BOUND);
    case RDMA_OPTION_ID_AFONLY:
        return set_flag(&id->afonly, value, len, id->state <= FL_CMA_BOUND);
    case RDMA_OPTION_ID_ACK_TIMEOUT:
        return set_byte(&id->ack_timeout, value, len, ACK_TIMEOUT_MAX);
    default:
        return -ENOSYS;
    }
}

int fl_cma_set_option(struct rdma_cm_id *cm_id, int level, int name, void *value, size_t len)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    if (level != RDMA_OPTION_ID || !value) { /* paths of InfiniBand are found by IP here */
        errno = level == RDMA_OPTION_ID ? EINVAL : ENOSYS;
        return -1;
    }
    int r = fl_cma_lock(id->cma);
    if (r)
        return fl_cma_result(r);
    r = set_locked(id, name, value, len);
    fl_cma_unlock(id->cma);
    return fl_cma_result(r);
}

int fl_cma_set_local_ece(struct rdma_cm_id *cm_id, struct ibv_ece *ece)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    if (!ece || ece->comp_mask) {
        errno = EINVAL;
        return -1;
    }
    id->local_ece = *ece;
    return 0;
}

int fl_cma_get_remote_ece(struct rdma_cm_id *cm_id, struct ibv_ece *ece)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    if (!ece || ece->comp_mask) {
        errno = EINVAL;
        return -1;
    }
    ece->vendor_id = id->remote_ece.vendor_id;
    ece->options = id->remote_ece.options;
    return 0;
}

int fl_cma_join_multicast(struct rdma_cm_id *id, struct sockaddr *addr, void *context)
{
    errno = EOPNOTSUPP;
    return -1;
}

int fl_cma_join_multicast_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
    errno = EOPNOTSUPP;
    return -1;
}

int fl_cma_leave_multicast(struct rdma_cm_id *id, struct sockaddr *addr)
{
    errno = EADDRNOTAVAIL; /* no group was joined */
    return -1;
}
