/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that not each device has: what they answer on the software RNIC, whether supported or not. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <infiniband/verbs.h>

#include "checks.h"

static struct ibv_device *device;
static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static char buf[4096];

#define GIVES(want, call)                   \
    do {                                    \
        errno = 0;                          \
        long got_ = (long)(call);           \
        check(got_ == (want), #call, got_); \
    } while (0)
/* "Not supported" as manual pages have it: EOPNOTSUPP returned, or no object and errno */
#define UNSUPPORTED(call) GIVES(EOPNOTSUPP, call)
#define NO_OBJECT(call)                                                   \
    do {                                                                  \
        errno = 0;                                                        \
        const void *got_ = (call);                                        \
        check(!got_ && errno == EOPNOTSUPP, #call, (long)(intptr_t)got_); \
    } while (0)

static void set_up(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    device = list ? list[0] : NULL;
    context = device ? ibv_open_device(device) : NULL;
    if (!context) {
        printf("no device\n");
        exit(1);
    }
    pd = ibv_alloc_pd(context);
    cq = ibv_create_cq(context, 16, NULL, NULL, 0);
}

static void device_attributes(void)
{
    struct ibv_query_device_ex_input input = {.comp_mask = 1};
    struct ibv_device_attr_ex attr;
    struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
    struct ibv_port_attr port;
    GIVES(0, ibv_query_device_ex(context, NULL, &attr));
    check(attr.orig_attr.max_qp > 0 && attr.orig_attr.phys_port_cnt == 1, "attributes of the device",
          attr.orig_attr.max_qp);
    check(!attr.odp_caps.general_caps && !attr.tm_caps.max_num_tags && !attr.max_dm_size &&
              !attr.raw_packet_caps,
          "what the device has not", 0);
    GIVES(EINVAL, ibv_query_device_ex(context, &input, &attr));
    GIVES(0, ibv_query_rt_values_ex(context, &values));
    check(values.raw_clock.tv_sec || values.raw_clock.tv_nsec, "the clock", 0);
    GIVES(0, ibv_query_port(context, 1, &port));
    check(port.link_layer == IBV_LINK_LAYER_ETHERNET, "link layer", port.link_layer);
    GIVES(-1, ibv_get_device_index(device));
    GIVES(0, ibv_fork_init());
}

static void extended_cq(void)
{
    struct ibv_cq_init_attr_ex attr = {
        .cqe = 16, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP};
    struct ibv_poll_cq_attr poll = {0};
    struct ibv_modify_cq_attr modify = {.attr_mask = IBV_CQ_ATTR_MODERATE, .moderate = {1, 1}};
    struct ibv_cq_ex *ex = ibv_create_cq_ex(context, &attr);
    check(ex != NULL, "ibv_create_cq_ex()", 0);
    GIVES(ENOENT, ibv_start_poll(ex, &poll));
    poll.comp_mask = 1;
    GIVES(EINVAL, ibv_start_poll(ex, &poll));
    UNSUPPORTED(ibv_modify_cq(ibv_cq_ex_to_cq(ex), &modify));
    GIVES(0, ibv_destroy_cq(ibv_cq_ex_to_cq(ex)));
    attr.wc_flags = IBV_WC_EX_WITH_TM_INFO;
    NO_OBJECT(ibv_create_cq_ex(context, &attr));
}

static struct ibv_qp *new_qp_ex(uint64_t ops)
{
    struct ibv_qp_init_attr_ex attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .qp_type = IBV_QPT_RC,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1},
        .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
        .pd = pd,
        .send_ops_flags = ops};
    return ibv_create_qp_ex(context, &attr);
}

static void extended_qp(void)
{
    struct ibv_ece ece = {0};
    struct ibv_qp *qp = new_qp_ex(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE);
    check(qp != NULL, "ibv_create_qp_ex()", 0);
    struct ibv_qp_ex *ex = ibv_qp_to_qp_ex(qp);
    check(ex != NULL, "ibv_qp_to_qp_ex()", 0);
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_inline_data(ex, buf, 8);
    GIVES(EINVAL, ibv_wr_complete(ex)); /* in RESET */
    ibv_wr_start(ex);
    ibv_wr_rdma_write(ex, 1, 1);
    ibv_wr_abort(ex);
    UNSUPPORTED(ibv_query_ece(qp, &ece));
    UNSUPPORTED(ibv_set_ece(qp, &ece));
    GIVES(0, ibv_query_qp_data_in_order(qp, IBV_WR_RDMA_WRITE, 0));
    GIVES(0, ibv_destroy_qp(qp));
    NO_OBJECT(new_qp_ex(IBV_QP_EX_WITH_TSO));
    NO_OBJECT(new_qp_ex(1ull << 60));
}

static void memory(void)
{
    int fd = open("/dev/null", O_RDWR);
    struct ibv_sge sge;
    struct ibv_alloc_dm_attr dm = {.length = 64};
    struct ibv_mr *mr = ibv_reg_mr_iova2(pd, buf, sizeof(buf), 0x10000,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_RELAXED_ORDERING);
    check(mr && mr->length == sizeof(buf), "ibv_reg_mr_iova2()", 0);
    sge = (struct ibv_sge){(uintptr_t)buf, sizeof(buf), mr->lkey};
    UNSUPPORTED(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1));
    GIVES(0, ibv_dereg_mr(mr));
    NO_OBJECT(ibv_reg_dmabuf_mr(pd, 0, 4096, 0, fd, IBV_ACCESS_LOCAL_WRITE));
    NO_OBJECT(ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_ON_DEMAND | IBV_ACCESS_LOCAL_WRITE));
    NO_OBJECT(ibv_alloc_dm(context, &dm));
    NO_OBJECT(ibv_alloc_null_mr(pd));
    NO_OBJECT(ibv_import_device(fd));
    NO_OBJECT(ibv_import_device(-1));
    NO_OBJECT(ibv_import_pd(context, 1));
    NO_OBJECT(ibv_import_mr(pd, 1));
    NO_OBJECT(ibv_import_dm(context, 1));
    ibv_unimport_pd(pd);
    close(fd);
}

static void others(void)
{
    struct ibv_xrcd_init_attr xrcd = {
        .comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
    struct ibv_flow_attr flow = {.type = IBV_FLOW_ATTR_NORMAL, .port = 1};
    struct ibv_counters_init_attr counters = {0};
    struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = pd, .cq = cq};
    struct ibv_rwq_ind_table_init_attr table = {0};
    struct ibv_td_init_attr td_attr = {0};
    struct ibv_parent_domain_init_attr parent = {.pd = pd};
    struct ibv_srq_init_attr_ex srq = {.attr = {.max_wr = 4, .max_sge = 1},
                                       .comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD,
                                       .srq_type = IBV_SRQT_XRC,
                                       .pd = pd};
    struct ibv_qp_init_attr qp_attr = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_UD, .cap = {.max_send_wr = 1, .max_recv_wr = 1}};
    union ibv_gid group = {.raw = {0xff, 0x0e}};
    NO_OBJECT(ibv_open_xrcd(context, &xrcd));
    NO_OBJECT(ibv_create_counters(context, &counters));
    NO_OBJECT(ibv_create_wq(context, &wq));
    NO_OBJECT(ibv_create_rwq_ind_table(context, &table));
    NO_OBJECT(ibv_create_srq_ex(context, &srq));
    struct ibv_qp *qp = ibv_create_qp(pd, &qp_attr);
    NO_OBJECT(ibv_create_flow(qp, &flow));
    UNSUPPORTED(ibv_attach_mcast(qp, &group, 0));
    UNSUPPORTED(ibv_detach_mcast(qp, &group, 0));
    GIVES(0, ibv_destroy_qp(qp));
    qp_attr.qp_type = IBV_QPT_RAW_PACKET;
    NO_OBJECT(ibv_create_qp(pd, &qp_attr));
    struct ibv_td *td = ibv_alloc_td(context, &td_attr);
    check(td != NULL, "ibv_alloc_td()", 0);
    parent.td = td;
    struct ibv_pd *domain = ibv_alloc_parent_domain(context, &parent);
    check(domain != NULL, "ibv_alloc_parent_domain()", 0);
    GIVES(EBUSY, ibv_dealloc_td(td));
    GIVES(0, ibv_dealloc_pd(domain));
    GIVES(0, ibv_dealloc_td(td));
    for (int type = IBV_MW_TYPE_1; type <= IBV_MW_TYPE_2; type++) {
        struct ibv_mw *mw = ibv_alloc_mw(pd, (enum ibv_mw_type)type);
        check(mw != NULL, "ibv_alloc_mw()", type);
        GIVES(0, ibv_dealloc_mw(mw));
    }
}

/* Vendors' own calls: they must see that the device is not theirs. */
static void vendors(void)
{
    void *mlx5 = dlopen("libmlx5.so.1", RTLD_NOW), *efa = dlopen("libefa.so.1", RTLD_NOW);
    bool (*is_mlx5)(struct ibv_device *) = NULL;
    int (*query_efa)(struct ibv_context *, void *, uint32_t) = NULL;
    char attr[256];
    if (mlx5)
        *(void **)&is_mlx5 = dlsym(mlx5, "mlx5dv_is_supported");
    if (efa)
        *(void **)&query_efa = dlsym(efa, "efadv_query_device");
    if (is_mlx5)
        GIVES(0, is_mlx5(device));
    if (query_efa) {
        int r = query_efa(context, attr, sizeof(attr));
        check(r == EOPNOTSUPP || r == -EOPNOTSUPP, "efadv_query_device()", r);
    }
}

int main(void)
{
    set_up();
    device_attributes();
    extended_cq();
    extended_qp();
    memory();
    others();
    vendors();
    printf("%d checks, %d wrong\n", nr_checks, nr_failed);
    return nr_failed != 0;
}
