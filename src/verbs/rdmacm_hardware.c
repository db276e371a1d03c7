/* SPDX-License-Identifier: Apache-2.0 */
/* librdmacm, found at run time: farlane also runs where it is not installed. */
#include <errno.h>

#include "base/util.h"
#include "verbs/library.h"
#include "verbs/rdmacm.h"

/* What an older library lacks */
static int lacks(void)
{
    errno = ENOSYS;
    return -1;
}

static int no_id(struct rdma_cm_id *id)
{
    return lacks();
}

static int no_reject_ece(struct rdma_cm_id *id, const void *private_data, uint8_t private_data_len)
{
    return lacks();
}

static int no_qp_attr(struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask)
{
    return lacks();
}

static int no_ece(struct rdma_cm_id *id, struct ibv_ece *ece)
{
    return lacks();
}

static int no_join_ex(struct rdma_cm_id *id, struct rdma_cm_join_mc_attr_ex *attr, void *context)
{
    return lacks();
}

#define MAY_LACK(member, less) FL_SYMBOL(struct fl_rdmacm, member, "rdma_" #member, less)
#define NEEDS(member)          MAY_LACK(member, NULL)

static const struct fl_symbol symbols[] = {
    NEEDS(create_event_channel),
    NEEDS(destroy_event_channel),
    NEEDS(get_cm_event),
    NEEDS(ack_cm_event),
    NEEDS(event_str),
    NEEDS(create_id),
    NEEDS(destroy_id),
    NEEDS(migrate_id),
    NEEDS(bind_addr),
    NEEDS(resolve_addr),
    NEEDS(resolve_route),
    NEEDS(get_src_port),
    NEEDS(get_dst_port),
    NEEDS(create_qp),
    NEEDS(create_qp_ex),
    NEEDS(destroy_qp),
    NEEDS(create_srq),
    NEEDS(create_srq_ex),
    NEEDS(destroy_srq),
    MAY_LACK(init_qp_attr, no_qp_attr),
    NEEDS(connect),
    MAY_LACK(establish, no_id),
    NEEDS(listen),
    NEEDS(get_request),
    NEEDS(accept),
    NEEDS(reject),
    MAY_LACK(reject_ece, no_reject_ece),
    NEEDS(disconnect),
    NEEDS(notify),
    NEEDS(create_ep),
    NEEDS(destroy_ep),
    NEEDS(getaddrinfo),
    NEEDS(freeaddrinfo),
    NEEDS(get_devices),
    NEEDS(free_devices),
    NEEDS(set_option),
    MAY_LACK(set_local_ece, no_ece),
    MAY_LACK(get_remote_ece, no_ece),
    NEEDS(join_multicast),
    MAY_LACK(join_multicast_ex, no_join_ex),
    NEEDS(leave_multicast),
};

static struct fl_rdmacm hw = {.name = "hardware"};

static struct fl_library library = {
    .file = "librdmacm.so.1",
    .package = "rdma-core",
    .version = "28",
    .symbols = symbols,
    .nr_symbols = FL_ARRAY_LEN(symbols),
    .table = &hw,
    .lock = PTHREAD_MUTEX_INITIALIZER,
};

int fl_rdmacm_hardware(const struct fl_rdmacm **rdmacm, struct fl_error *err)
{
    int r = fl_library_load(&library, err);
    if (!r)
        *rdmacm = &hw;
    return r;
}
