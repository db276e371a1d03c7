/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What programs do wrong, on plain verbs: each line must give an error and leave the process alive. Run on
 * the software RNIC's first device.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include "checks.h"

#define ALL_ACCESS \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

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
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ALL_ACCESS & ~IBV_ACCESS_LOCAL_WRITE};
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

#if defined(__x86_64__)
/* A queue pair that is connected to itself, and one request by it: how that ends, or its receive. */
static enum ibv_wc_status one_request(struct ibv_send_wr *wr, struct ibv_recv_wr *recv, uint64_t which)
{
    struct ibv_send_wr *bad;
    struct ibv_recv_wr *bad_recv;
    struct ibv_qp *qp = new_qp(IBV_QPT_RC, NULL);
    enum ibv_wc_status status = IBV_WC_GENERAL_ERR;
    wr->send_flags = IBV_SEND_SIGNALED;
    if (!connect_to_itself(qp) && (!recv || !ibv_post_recv(qp, recv, &bad_recv)) &&
        !ibv_post_send(qp, wr, &bad)) {
        struct ibv_wc wc = {0};
        for (int i = 0; i < 20000 && (wc.wr_id != which || !wc.qp_num); i++)
            if (ibv_poll_cq(cq, 1, &wc) <= 0)
                usleep(1000);
        status = wc.wr_id == which ? wc.status : IBV_WC_GENERAL_ERR;
    }
    ibv_destroy_qp(qp);
    return status;
}

/* Memory that was registered and then taken away, in whichever way: an error of the request, at once. */
static void memory_that_is_gone(void)
{
    enum { SEND_FROM, RECEIVE_TO, WRITE_FROM, WRITE_TO, READ_FROM, READ_TO, ADD_AT, ADD_TO, WAYS };
    for (int way = 0; way < 2 * WAYS; way++) {
        int what = way % WAYS;
        char *gone = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct ibv_mr *bad = ibv_reg_mr(pd, gone, 8192, ALL_ACCESS),
                      *good = ibv_reg_mr(pd, buf, sizeof(buf), ALL_ACCESS);
        bool far = what == WRITE_TO || what == READ_FROM || what == ADD_AT;
        bool local = what == SEND_FROM || what == WRITE_FROM || what == READ_TO || what == ADD_TO;
        struct ibv_sge sge = {(uintptr_t)(local ? gone + 4000 : buf), 8, (local ? bad : good)->lkey};
        struct ibv_sge to = {(uintptr_t)(what == RECEIVE_TO ? gone : buf), 64,
                             (what == RECEIVE_TO ? bad : good)->lkey};
        struct ibv_recv_wr recv = {.wr_id = 2, .sg_list = &to, .num_sge = 1};
        struct ibv_send_wr wr = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
        uint64_t addr = (uintptr_t)(far ? gone + 4000 : buf);
        uint32_t rkey = (far ? bad : good)->rkey;
        if (what == WRITE_FROM || what == WRITE_TO || what == READ_FROM || what == READ_TO) {
            wr.opcode = what == WRITE_FROM || what == WRITE_TO ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
            wr.wr.rdma.remote_addr = addr;
            wr.wr.rdma.rkey = rkey;
        } else if (what == ADD_AT || what == ADD_TO) {
            wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
            wr.wr.atomic.remote_addr = addr;
            wr.wr.atomic.rkey = rkey;
            wr.wr.atomic.compare_add = 1;
        }
        if (way < WAYS)
            munmap(gone, 8192);
        else /* of which nobody tells */
            mprotect(gone, 8192, PROT_NONE);
        enum ibv_wc_status status = one_request(&wr, wr.opcode == IBV_WR_SEND ? &recv : NULL,
                                                what == RECEIVE_TO ? 2 : 1);
        check(status != IBV_WC_SUCCESS && status != IBV_WC_GENERAL_ERR, "a request on memory that is gone",
              way * 100 + (int)status);
        GIVES(0, ibv_dereg_mr(bad));
        GIVES(0, ibv_dereg_mr(good));
        if (way >= WAYS)
            munmap(gone, 8192);
    }
}

/* Posts to memory that is there now and then. */
static void *post_many(void *arg)
{
    struct ibv_mr **mr = arg;
    for (int i = 0; !__atomic_load_n(&mr[2], __ATOMIC_ACQUIRE); i++) {
        struct ibv_sge sge = {(uintptr_t)mr[0]->addr, 4096, mr[0]->lkey};
        struct ibv_send_wr wr = {.wr_id = 1,
                                 .sg_list = &sge,
                                 .num_sge = 1,
                                 .opcode = i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE};
        wr.wr.rdma.remote_addr = (uintptr_t)mr[1]->addr;
        wr.wr.rdma.rkey = mr[1]->rkey;
        one_request(&wr, NULL, 1); /* may have been in time */
    }
    return NULL;
}

static void memory_that_goes_meanwhile(void)
{
    for (int i = 0; i < 30; i++) {
        char *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct ibv_mr *mr[3] = {ibv_reg_mr(pd, p, 4096, ALL_ACCESS),
                                ibv_reg_mr(pd, p + 4096, 4096, ALL_ACCESS)};
        pthread_t thread;
        pthread_create(&thread, NULL, post_many, mr);
        usleep((useconds_t)(i * 37 % 500));
        munmap(i % 2 ? p : p + 4096, 4096);
        usleep(1000);
        __atomic_store_n(&mr[2], mr[0], __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        munmap(p, 8192);
        GIVES(0, ibv_dereg_mr(mr[0]));
        GIVES(0, ibv_dereg_mr(mr[1]));
    }
}
#else
static void memory_that_is_gone(void)
{
}

static void memory_that_goes_meanwhile(void)
{
}
#endif

/* Threads that post to a queue pair while another one destroys it: refused, from some moment on. */
static void *post_to(void *arg)
{
    struct ibv_qp **now = arg, *qp;
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_recv_wr *bad_recv, recv = {0};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_wc wc[16];
    for (uint32_t i = 0; (qp = __atomic_load_n(now, __ATOMIC_ACQUIRE)); i++) {
        ibv_post_send(qp, &wr, &bad);
        ibv_post_recv(qp, &recv, &bad_recv);
        if (i % 16 == 0)
            ibv_modify_qp(qp, &attr, IBV_QP_STATE);
        ibv_poll_cq(cq, 16, wc);
    }
    return NULL;
}

static void destroyed_meanwhile(void)
{
    struct ibv_cq *usual = cq;
    struct ibv_qp *now, *next;
    pthread_t threads[3];
    cq = ibv_create_cq(context, 4096, NULL, NULL, 0);
    now = new_qp(IBV_QPT_RC, NULL);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, post_to, &now);
    for (int i = 0; i < 200; i++) { /* as many are kept */
        next = new_qp(IBV_QPT_RC, NULL);
        check(next && !connect_to_itself(next), "a queue pair", i);
        GIVES(0, ibv_destroy_qp(__atomic_exchange_n(&now, next, __ATOMIC_ACQ_REL)));
    }
    next = __atomic_exchange_n(&now, NULL, __ATOMIC_ACQ_REL);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    GIVES(0, ibv_destroy_qp(next));
    GIVES(0, ibv_destroy_cq(cq));
    cq = usual;
}

/* The same with queues, which two threads destroy: one of them is refused, and nobody keeps a lock. */
static struct queues {
    struct ibv_cq *cq;
    struct ibv_srq *srq;
} *the_queues;

static void *use_queues(void *arg)
{
    struct queues *q;
    struct ibv_recv_wr *bad, recv = {0};
    struct ibv_wc wc[4];
    for (int i = 0; (q = __atomic_load_n(&the_queues, __ATOMIC_ACQUIRE)); i++) {
        ibv_resize_cq(q->cq, 1 + i % 100);
        ibv_req_notify_cq(q->cq, 0);
        ibv_poll_cq(q->cq, 4, wc);
        ibv_post_srq_recv(q->srq, &recv, &bad);
    }
    return NULL;
}

static void *destroy_queues(void *arg)
{
    struct queues *q = arg;
    return (void *)((intptr_t)!ibv_destroy_cq(q->cq) + 16 * !ibv_destroy_srq(q->srq));
}

static void queues_destroyed_meanwhile(void)
{
    static struct queues all[80]; /* as many are kept */
    struct ibv_srq_init_attr attr = {.attr = {.max_wr = 8, .max_sge = 1}};
    pthread_t users[2], destroyer;
    void *there, *here;
    for (int i = 0; i < 80; i++) {
        all[i].cq = ibv_create_cq(context, 16, NULL, NULL, 0);
        all[i].srq = ibv_create_srq(pd, &attr);
        check(all[i].cq && all[i].srq, "queues", i);
        struct queues *old = the_queues;
        __atomic_store_n(&the_queues, &all[i], __ATOMIC_RELEASE);
        if (!old) {
            for (int k = 0; k < 2; k++)
                pthread_create(&users[k], NULL, use_queues, NULL);
            continue;
        }
        pthread_create(&destroyer, NULL, destroy_queues, old);
        here = destroy_queues(old);
        pthread_join(destroyer, &there);
        GIVES(17, (int)((intptr_t)here + (intptr_t)there)); /* each once */
    }
    struct queues *last = __atomic_exchange_n(&the_queues, NULL, __ATOMIC_ACQ_REL);
    for (int k = 0; k < 2; k++)
        pthread_join(users[k], NULL);
    GIVES(17, (int)(intptr_t)destroy_queues(last));
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
    memory_that_goes_meanwhile();
    destroyed_meanwhile();
    queues_destroyed_meanwhile();
    destroyed();
    connection_manager();
    wrong_order();
    printf("%d checks, %d wrong\n", nr_checks, nr_failed);
    return nr_failed != 0;
}
