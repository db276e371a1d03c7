/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs do wrong, on plain verbs: each line must give an error and leave the process alive. Run on
 * the software RNIC's first device.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "checks.h"

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

/* Calls that return a positive errno, 0 or -1 with errno; those that return an object or NULL with errno */
#define GIVES(want, call)                                                      \
    do {                                                                       \
        errno = 0;                                                             \
        long got_ = (long)(call);                                              \
        check(got_ == (want) || (got_ == -1 && errno == (want)), #call, got_); \
    } while (0)
#define FAILS(call)                    \
    do {                               \
        errno = 0;                     \
        long got_ = (long)(call);      \
        check(got_ != 0, #call, got_); \
    } while (0)
#define NONE(want, call)                                              \
    do {                                                              \
        errno = 0;                                                    \
        void *got_ = (call);                                          \
        check(!got_ && errno == (want), #call, (long)(intptr_t)got_); \
    } while (0)
/* As the manual: no object, and some errno */
#define NONE_ANY(call)                                      \
    do {                                                    \
        errno = 0;                                          \
        void *got_ = (call);                                \
        check(!got_ && errno, #call, (long)(intptr_t)got_); \
    } while (0)

static struct ibv_context *context;
static struct ibv_pd *pd;
static struct ibv_comp_channel *channel;
static struct ibv_cq *cq;
static struct ibv_srq *srq;
static char buf[4096];

static struct ibv_qp *new_qp(enum ibv_qp_type type, struct ibv_srq *with)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq,
        .recv_cq = cq,
        .srq = with,
        .qp_type = type,
        .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 2, .max_recv_sge = 2}};
    return ibv_create_qp(pd, &attr);
}

static void set_up(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    context = list && list[0] ? ibv_open_device(list[0]) : NULL;
    if (!context) {
        printf("no device\n");
        exit(1);
    }
    ibv_free_device_list(list);
    pd = ibv_alloc_pd(context);
    channel = ibv_create_comp_channel(context);
    cq = ibv_create_cq(context, 16, NULL, channel, 0);
    srq = ibv_create_srq(pd, &srq_attr);
}

static void memory(void)
{
    char *gone = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NONE(EFAULT, ibv_reg_mr(pd, (void *)4096, 4096, IBV_ACCESS_LOCAL_WRITE));
    NONE(EFAULT, ibv_reg_mr(pd, gone, 8192, IBV_ACCESS_LOCAL_WRITE)); /* may not be written to */
    munmap(gone + 4096, 4096);
    NONE(EFAULT, ibv_reg_mr(pd, gone, 8192, 0)); /* half of it */
    munmap(gone, 4096);
    NONE_ANY(ibv_reg_mr(pd, buf, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE));
    NONE(EINVAL, ibv_reg_mr(pd, buf, 64, IBV_ACCESS_REMOTE_WRITE));
    NONE_ANY(ibv_reg_mr(pd, buf, 64, 1 << 19));
    struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
    GIVES(EBUSY, ibv_dealloc_pd(pd));
    FAILS(ibv_rereg_mr(mr, 1 << 10, NULL, NULL, 0, 0));
    GIVES(0, ibv_dereg_mr(mr));
    FAILS(ibv_dereg_mr(mr));
}

static void busy(void)
{
    struct ibv_qp *qp = new_qp(IBV_QPT_RC, srq);
    GIVES(EBUSY, ibv_destroy_cq(cq));
    GIVES(EBUSY, ibv_destroy_srq(srq));
    GIVES(EBUSY, ibv_destroy_comp_channel(channel));
    GIVES(EBUSY, ibv_dealloc_pd(pd));
    ibv_destroy_qp(qp);
}

static void posting(void)
{
    struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
    struct ibv_qp *qp = new_qp(IBV_QPT_RC, NULL);
    struct ibv_sge sge[3] = {
        {(uintptr_t)buf, 8, mr->lkey}, {(uintptr_t)buf, 8, mr->lkey}, {(uintptr_t)buf, 8, mr->lkey}};
    struct ibv_send_wr *bad = NULL, wr = {.sg_list = sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    struct ibv_recv_wr *bad_recv = NULL, recv = {.sg_list = sge, .num_sge = 1};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .port_num = 1};
    GIVES(EINVAL, ibv_post_send(qp, &wr, &bad));
    check(bad == &wr, "bad_wr", 0);
    GIVES(EINVAL, ibv_post_recv(qp, &recv, &bad_recv));
    GIVES(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 9;
    GIVES(EINVAL,
          ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    attr.port_num = 1;
    GIVES(EINVAL, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    GIVES(0, ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    recv.num_sge = 3;
    GIVES(EINVAL, ibv_post_recv(qp, &recv, &bad_recv));
    recv.num_sge = -1;
    GIVES(EINVAL, ibv_post_recv(qp, &recv, &bad_recv));
    recv.num_sge = 1;
    for (int i = 0; i < 4; i++)
        GIVES(0, ibv_post_recv(qp, &recv, &bad_recv));
    GIVES(ENOMEM, ibv_post_recv(qp, &recv, &bad_recv));
    ibv_destroy_qp(qp);
    ibv_dereg_mr(mr);
}

static void limits(void)
{
    struct ibv_qp_init_attr attr = {
        .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {.max_send_wr = UINT32_MAX}};
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = UINT32_MAX, .max_sge = 1}};
    struct ibv_ah_attr ah = {.port_num = 1};
    struct ibv_port_attr port;
    union ibv_gid gid;
    NONE_ANY(ibv_create_qp(pd, &attr));
    attr.cap = (struct ibv_qp_cap){.max_send_sge = 1 << 20};
    NONE_ANY(ibv_create_qp(pd, &attr));
    attr.cap = (struct ibv_qp_cap){.max_inline_data = 1 << 30};
    NONE_ANY(ibv_create_qp(pd, &attr));
    attr.cap = (struct ibv_qp_cap){.max_send_wr = 1};
    attr.send_cq = NULL;
    NONE(EINVAL, ibv_create_qp(pd, &attr));
    attr.send_cq = cq;
    attr.qp_type = (enum ibv_qp_type)77;
    NONE_ANY(ibv_create_qp(pd, &attr));
    NONE_ANY(ibv_create_cq(context, 0, NULL, NULL, 0));
    NONE_ANY(ibv_create_cq(context, -1, NULL, NULL, 0));
    NONE_ANY(ibv_create_cq(context, INT32_MAX, NULL, NULL, 0));
    NONE_ANY(ibv_create_cq(context, 1, NULL, NULL, 99));
    NONE_ANY(ibv_create_srq(pd, &srq_attr));
    NONE(EINVAL, ibv_create_ah(pd, &ah)); /* RoCE without a GID */
    FAILS(ibv_query_port(context, 2, &port));
    FAILS(ibv_query_gid(context, 1, 100000, &gid));
    FAILS(ibv_query_gid(context, 1, -1, &gid));
    FAILS(ibv_resize_cq(cq, -5));
}

/* As many regions as the device says that it has, and no more; as many channels as there are descriptors. All
 * are whole afterwards. */
static void full(void)
{
    struct rlimit usual, few = {.rlim_cur = 64};
    struct ibv_device_attr attr;
    struct ibv_comp_channel *channels[64];
    struct ibv_mr *last = NULL, **all;
    int nr = 0;
    GIVES(0, ibv_query_device(context, &attr));
    all = calloc((size_t)attr.max_mr + 1, sizeof(struct ibv_mr *));
    for (; all && nr <= attr.max_mr; nr++) {
        errno = 0;
        last = all[nr] = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
        if (!last)
            break;
    }
    check(!last && errno == ENOMEM && nr == attr.max_mr, "one region more than max_mr", nr);
    NONE(ENOMEM, ibv_alloc_mw(pd, IBV_MW_TYPE_1));
    for (int i = 0; i < nr; i++)
        nr_failed += ibv_dereg_mr(all[i]) != 0;
    free(all);
    last = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
    check(last != NULL, "a region after that", 0);
    GIVES(0, ibv_dereg_mr(last));

    getrlimit(RLIMIT_NOFILE, &usual);
    few.rlim_max = usual.rlim_max;
    setrlimit(RLIMIT_NOFILE, &few);
    for (nr = 0; nr < 64; nr++) {
        errno = 0;
        channels[nr] = ibv_create_comp_channel(context);
        if (!channels[nr])
            break;
    }
    check(nr < 64 && errno == EMFILE, "a channel without a descriptor", nr);
    NONE(EMFILE, rdma_create_event_channel());
    setrlimit(RLIMIT_NOFILE, &usual);
    while (nr)
        GIVES(0, ibv_destroy_comp_channel(channels[--nr]));
}

static int connect_to_itself(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
        return -1;
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR,
                                .path_mtu = IBV_MTU_1024,
                                .dest_qp_num = qp->qp_num,
                                .max_dest_rd_atomic = 1,
                                .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 1}}};
    if (ibv_query_gid(context, 1, 0, &attr.ah_attr.grh.dgid) ||
        ibv_modify_qp(qp, &attr,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
        return -1;
    attr = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 1, .max_rd_atomic = 1};
    return ibv_modify_qp(qp, &attr,
                         IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                             IBV_QP_MAX_QP_RD_ATOMIC);
}

static enum ibv_wc_status next_status(void)
{
    struct ibv_wc wc = {0};
    for (int i = 0; i < 10000; i++, usleep(1000)) {
        int n = ibv_poll_cq(cq, 1, &wc);
        if (n)
            return n < 0 ? IBV_WC_GENERAL_ERR : wc.status;
    }
    return IBV_WC_GENERAL_ERR;
}

/* Memory that was registered and then taken away: an error of the request, once the kernel has told of it,
 * which it does a moment after munmap() has returned; and it does not where it has no userfaultfd. */
static void memory_that_is_gone(void)
{
    int watch = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
    if (watch < 0)
        return;
    close(watch);
    char *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr = ibv_reg_mr(pd, gone, 4096, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = {(uintptr_t)gone, 64, mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_recv_wr *bad_recv, recv = {.sg_list = &sge, .num_sge = 1};
    struct ibv_qp *qp = new_qp(IBV_QPT_RC, NULL);
    GIVES(0, connect_to_itself(qp));
    munmap(gone, 4096);
    usleep(300000);
    GIVES(0, ibv_post_recv(qp, &recv, &bad_recv));
    GIVES(0, ibv_post_send(qp, &wr, &bad));
    enum ibv_wc_status status = next_status();
    check(status != IBV_WC_SUCCESS && status != IBV_WC_GENERAL_ERR, "a SEND from memory that is gone",
          status);
    GIVES(0, ibv_destroy_qp(qp));
    GIVES(0, ibv_dereg_mr(mr));
}

/* Used once more after they were destroyed */
static void destroyed(void)
{
    struct ibv_comp_channel *old_channel = ibv_create_comp_channel(context);
    struct ibv_cq *old_cq = ibv_create_cq(context, 4, NULL, old_channel, 0);
    struct ibv_srq_init_attr srq_attr = {.attr = {.max_wr = 4, .max_sge = 1}};
    struct ibv_srq *old_srq = ibv_create_srq(pd, &srq_attr);
    struct ibv_qp *old = new_qp(IBV_QPT_RC, NULL);
    struct ibv_pd *old_pd = ibv_alloc_pd(context);
    struct ibv_mr *mr = ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = {(uintptr_t)buf, 8, mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    struct ibv_recv_wr *bad_recv, recv = {.sg_list = &sge, .num_sge = 1};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp_init_attr init;
    struct ibv_cq *told;
    struct ibv_wc wc;
    void *arg;
    GIVES(0, ibv_destroy_qp(old));
    GIVES(0, ibv_destroy_srq(old_srq));
    GIVES(0, ibv_destroy_cq(old_cq));
    GIVES(0, ibv_destroy_comp_channel(old_channel));
    GIVES(0, ibv_dealloc_pd(old_pd));
    FAILS(ibv_post_send(old, &wr, &bad));
    FAILS(ibv_post_recv(old, &recv, &bad_recv));
    FAILS(ibv_modify_qp(old, &attr, IBV_QP_STATE));
    FAILS(ibv_query_qp(old, &attr, IBV_QP_STATE, &init));
    FAILS(ibv_destroy_qp(old));
    FAILS(ibv_post_srq_recv(old_srq, &recv, &bad_recv));
    FAILS(ibv_destroy_srq(old_srq));
    check(ibv_poll_cq(old_cq, 1, &wc) < 0, "ibv_poll_cq() of one that is destroyed", 0);
    FAILS(ibv_req_notify_cq(old_cq, 0));
    FAILS(ibv_destroy_cq(old_cq));
    FAILS(ibv_get_cq_event(old_channel, &told, &arg));
    FAILS(ibv_destroy_comp_channel(old_channel));
    NONE_ANY(ibv_reg_mr(old_pd, buf, 64, 0));
    NONE_ANY(ibv_create_cq(context, 4, NULL, old_channel, 0));
    FAILS(ibv_dealloc_pd(old_pd));
    GIVES(0, ibv_dereg_mr(mr));
    FAILS(ibv_dereg_mr(mr));
}

static void connection_manager(void)
{
    struct rdma_event_channel *events = rdma_create_event_channel();
    struct sockaddr_storage nonsense = {.ss_family = 99};
    struct rdma_conn_param param = {.responder_resources = 200};
    struct rdma_cm_event *event;
    struct rdma_cm_id *id, *other;
    fcntl(events->fd, F_SETFL, O_NONBLOCK);
    FAILS(rdma_create_id(events, &id, NULL, (enum rdma_port_space)7));
    GIVES(0, rdma_create_id(events, &id, NULL, RDMA_PS_TCP));
    FAILS(rdma_connect(id, &param));
    FAILS(rdma_accept(id, &param));
    FAILS(rdma_disconnect(id));
    FAILS(rdma_resolve_route(id, 100));
    FAILS(rdma_bind_addr(id, (struct sockaddr *)&nonsense));
    FAILS(rdma_resolve_addr(id, NULL, (struct sockaddr *)&nonsense, 100));
    FAILS(rdma_get_cm_event(events, &event));
    FAILS(rdma_ack_cm_event(NULL));
    GIVES(0, rdma_destroy_id(id));
    FAILS(rdma_listen(id, 1));
    FAILS(rdma_destroy_id(id));
    GIVES(0, rdma_create_id(events, &other, NULL, RDMA_PS_TCP));
    rdma_destroy_event_channel(events); /* before its id */
    FAILS(rdma_get_cm_event(events, &event));
    rdma_destroy_event_channel(events);
    rdma_destroy_id(other);
}

/* The device before all that is on it */
static void wrong_order(void)
{
    struct ibv_qp *qp = new_qp(IBV_QPT_UD, NULL);
    struct ibv_wc wc;
    GIVES(0, ibv_close_device(context));
    FAILS(ibv_close_device(context));
    GIVES(0, ibv_poll_cq(cq, 1, &wc));
    GIVES(0, ibv_destroy_qp(qp));
    GIVES(0, ibv_destroy_srq(srq));
    GIVES(0, ibv_destroy_cq(cq));
    GIVES(0, ibv_destroy_comp_channel(channel));
    GIVES(0, ibv_dealloc_pd(pd));
    NONE_ANY(ibv_alloc_pd(context));
}

int main(void)
{
    set_up();
    memory();
    busy();
    posting();
    limits();
    full();
    memory_that_is_gone();
    destroyed();
    connection_manager();
    wrong_order();
    printf("%d checks, %d wrong\n", nr_checks, nr_failed);
    return nr_failed != 0;
}
