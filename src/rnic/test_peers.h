/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes, each with a software RNIC and a queue pair, connected by hand through memory that they
 * share. */
#ifndef FL_RNIC_TEST_PEERS_H
#define FL_RNIC_TEST_PEERS_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "mem/shared.h"
#include "rnic/device.h"
#include "rnic/objects.h"
#include "rnic/verbs.h"

#define TP_LEN (4u << 20)
#define TP_WRS 256

struct tp_side { /* in shared memory */
    bool ready, connected;
    uint32_t qpn;
    uint64_t pool_at, plain_at;
    uint32_t pool_key, plain_key;
    union ibv_gid gid;
    int command, nr_done;
    uint64_t argument;
};

struct tp_show {
    struct tp_side sides[2];
};

struct tp {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *pool_mr, *plain_mr;
    uint8_t *pool, *plain;
    struct tp_show *show;
    struct tp_side *me, *other;
    pid_t child;
};

/* Their own UDP port, whichever is free, for this process and those that it forks. */
static inline void tp_environment(void)
{
    struct sockaddr_in addr = {.sin_family = AF_INET};
    socklen_t len = sizeof(addr);
    char text[64];
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(fd, (struct sockaddr *)&addr, sizeof(addr)) || getsockname(fd, (struct sockaddr *)&addr, &len))
        abort();
    close(fd);
    snprintf(text, sizeof(text), "%u", ntohs(addr.sin_port));
    setenv("FARLANE_ROCE_PORT", text, 1);
    snprintf(text, sizeof(text), "farlane-peers-%d-%u", (int)getpid(), ntohs(addr.sin_port));
    setenv("FARLANE_HUB", text, 1);
}

static inline struct ibv_context *tp_open_loopback(void)
{
    struct ibv_device **list = fl_device_list_get(NULL);
    struct ibv_context *context = NULL;
    for (int i = 0; list && list[i] && !context; i++)
        if (FL_CONTAINER_OF(list[i], struct fl_device, device)->loopback)
            context = fl_context_open(list[i]);
    fl_device_list_free(list);
    return context;
}

#define TP_CHECK(x)                                                        \
    do {                                                                   \
        if (!(x)) {                                                        \
            fprintf(stderr, "%s:%d: %s failed\n", __FILE__, __LINE__, #x); \
            abort();                                                       \
        }                                                                  \
    } while (0)

static inline void tp_wait(const bool *flag)
{
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    while (!__atomic_load_n(flag, __ATOMIC_SEQ_CST)) {
        TP_CHECK(fl_now_ns() < end);
        usleep(200);
    }
}

static inline void tp_set_up(struct tp *tp)
{
    const int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                       IBV_ACCESS_REMOTE_ATOMIC;
    tp->context = tp_open_loopback();
    TP_CHECK(tp->context);
    tp->pd = fl_pd_alloc(tp->context);
    tp->cq = fl_cq_create(tp->context, 2 * TP_WRS, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {.send_cq = tp->cq,
                                    .recv_cq = tp->cq,
                                    .cap = {.max_send_wr = TP_WRS,
                                            .max_recv_wr = TP_WRS,
                                            .max_send_sge = 2,
                                            .max_recv_sge = 2,
                                            .max_inline_data = 64},
                                    .qp_type = IBV_QPT_RC};
    tp->qp = fl_qp_create(tp->pd, &init);
    TP_CHECK(tp->qp);
    tp->pool = fl_shared_alloc(TP_LEN);
    tp->plain = aligned_alloc(4096, TP_LEN);
    memset(tp->pool, 0, TP_LEN);
    memset(tp->plain, 0, TP_LEN);
    tp->pool_mr = fl_mr_reg(tp->pd, tp->pool, TP_LEN, access);
    tp->plain_mr = fl_mr_reg(tp->pd, tp->plain, TP_LEN, access);
    TP_CHECK(tp->pool_mr && tp->plain_mr);
    TP_CHECK(!fl_context_query_gid(tp->context, 1, 0, &tp->me->gid));
    tp->me->qpn = tp->qp->qp_num;
    tp->me->pool_at = (uintptr_t)tp->pool;
    tp->me->plain_at = (uintptr_t)tp->plain;
    tp->me->pool_key = tp->pool_mr->rkey;
    tp->me->plain_key = tp->plain_mr->rkey;
    __atomic_store_n(&tp->me->ready, true, __ATOMIC_SEQ_CST);
}

static inline void tp_connect(struct tp *tp)
{
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
                            .port_num = 1,
                            .qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE |
                                               IBV_ACCESS_REMOTE_ATOMIC};
    tp_wait(&tp->other->ready);
    TP_CHECK(!fl_qp_modify(tp->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
    a = (struct ibv_qp_attr){
        .qp_state = IBV_QPS_RTR,
        .path_mtu = IBV_MTU_4096,
        .dest_qp_num = tp->other->qpn,
        .rq_psn = 7,
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = 1,
        .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = tp->other->gid, .hop_limit = 64}}};
    TP_CHECK(!fl_qp_modify(tp->qp, &a,
                           IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                               IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS,
                             .timeout = 15,  /* 134 ms */
                             .retry_cnt = 7, /* a hub is killed, and the machine may be busy */
                             .rnr_retry = 3,
                             .sq_psn = 7,
                             .max_rd_atomic = 16};
    TP_CHECK(!fl_qp_modify(tp->qp, &a,
                           IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                               IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC));
    __atomic_store_n(&tp->me->connected, true, __ATOMIC_SEQ_CST);
    tp_wait(&tp->other->connected);
}

/* Both; the child runs and ends. After tp_environment(). before: in the child first, or NULL. */
static inline struct tp *tp_open_here(void (*before)(void), void (*child)(struct tp *tp))
{
    struct tp *tp = calloc(1, sizeof(*tp));
    TP_CHECK(tp);
    tp->show = mmap(NULL, sizeof(*tp->show), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    tp->child = fork();
    TP_CHECK(tp->child >= 0);
    tp->me = &tp->show->sides[tp->child ? 0 : 1];
    tp->other = &tp->show->sides[tp->child ? 1 : 0];
    if (!tp->child) {
        if (before)
            before();
        prctl(PR_SET_PDEATHSIG, SIGKILL);
    }
    tp_set_up(tp);
    tp_connect(tp);
    if (!tp->child) {
        child(tp);
        _exit(0);
    }
    return tp;
}

static inline struct tp *tp_open(void (*child)(struct tp *tp))
{
    tp_environment();
    return tp_open_here(NULL, child);
}

static inline void tp_close(struct tp *tp)
{
    kill(tp->child, SIGKILL);
    waitpid(tp->child, NULL, 0);
    TP_CHECK(!fl_qp_destroy(tp->qp));
    TP_CHECK(!fl_mr_dereg(tp->pool_mr));
    TP_CHECK(!fl_mr_dereg(tp->plain_mr));
    TP_CHECK(!fl_cq_destroy(tp->cq));
    TP_CHECK(!fl_pd_dealloc(tp->pd));
    TP_CHECK(!fl_context_close(tp->context));
    fl_shared_free(tp->pool, TP_LEN);
    free(tp->plain);
    munmap(tp->show, sizeof(*tp->show));
    free(tp);
}

static inline int tp_post(struct tp *tp, enum ibv_wr_opcode opcode, void *at, uint32_t lkey, uint32_t len,
                          uint64_t remote, uint32_t rkey, unsigned int flags)
{
    struct ibv_sge sge = {.addr = (uintptr_t)at, .length = len, .lkey = lkey};
    struct ibv_send_wr wr = {.wr_id = 1,
                             .sg_list = &sge,
                             .num_sge = 1,
                             .opcode = opcode,
                             .send_flags = flags,
                             .wr.rdma = {.remote_addr = remote, .rkey = rkey}},
                       *bad;
    return fl_qp_post_send(tp->qp, &wr, &bad);
}

static inline int tp_post_recv(struct tp *tp, uint64_t wr_id, void *at, uint32_t lkey, uint32_t len)
{
    struct ibv_sge sge = {.addr = (uintptr_t)at, .length = len, .lkey = lkey};
    struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;
    return fl_qp_post_recv(tp->qp, &wr, &bad);
}

/* The next completion, or a fault after 10 s */
static inline struct ibv_wc tp_next(struct tp *tp)
{
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    struct ibv_wc wc;
    int n;
    for (uint32_t i = 1; !(n = fl_cq_poll(tp->cq, 1, &wc)); i++)
        TP_CHECK(i % 1024 || fl_now_ns() < end);
    TP_CHECK(n == 1);
    return wc;
}

/* Until READs and WRITEs no longer go by packets: the link is up and the memory is known. */
static inline bool tp_wait_for_direct(struct tp *tp)
{
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    while (!qp->nr_mapped && fl_now_ns() < end) {
        tp_post(tp, IBV_WR_RDMA_READ, tp->plain, tp->plain_mr->lkey, 8, tp->other->pool_at,
                tp->other->pool_key, IBV_SEND_SIGNALED);
        TP_CHECK(tp_next(tp).status == IBV_WC_SUCCESS);
        usleep(500);
    }
    return qp->nr_mapped;
}

#endif
