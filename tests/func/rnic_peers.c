/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes with a queue pair each, connected over loopback, for scripts to look at: one line of JSON
 * says who they are and what this one has counted, then they stay until standard input ends. On the UDP port
 * and hub of the environment.
 */
#include <stdio.h>

#include "rnic/test_peers.h"

#define NR_SENDS  4
#define SEND_LEN  40000 /* ten packets: too long for a message */
#define NR_SHORT  100   /* messages, by shared memory */
#define SHORT_LEN 64

static void receive(struct tp *tp)
{
    for (int i = 0; i < NR_SENDS + NR_SHORT; i++)
        TP_CHECK(!tp_post_recv(tp, 1, tp->plain, tp->plain_mr->lkey, SEND_LEN));
    __atomic_store_n(&tp->me->nr_done, 1, __ATOMIC_SEQ_CST);
    for (;;)
        pause();
}

static void do_one(struct tp *tp, enum ibv_wr_opcode opcode, uint32_t len, uint64_t at, uint32_t key)
{
    TP_CHECK(!tp_post(tp, opcode, tp->plain, tp->plain_mr->lkey, len, at, key, IBV_SEND_SIGNALED));
    TP_CHECK(tp_next(tp).status == IBV_WC_SUCCESS);
}

int main(void)
{
    struct tp *tp = tp_open_here(NULL, receive);
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    uint64_t end = fl_now_ns() + 10 * FL_NS_PER_S;
    while (!__atomic_load_n(&tp->other->nr_done, __ATOMIC_SEQ_CST)) {
        TP_CHECK(fl_now_ns() < end);
        usleep(200);
    }
    if (qp->link)
        TP_CHECK(tp_wait_for_direct(tp));
    for (int i = 0; i < 5; i++)
        do_one(tp, IBV_WR_RDMA_WRITE, 4096, tp->other->pool_at, tp->other->pool_key);
    for (int i = 0; i < 3; i++)
        do_one(tp, IBV_WR_RDMA_READ, 4096, tp->other->plain_at, tp->other->plain_key);
    for (int i = 0; i < NR_SENDS; i++)
        do_one(tp, IBV_WR_SEND, SEND_LEN, 0, 0);
    for (int i = 0; i < NR_SHORT; i++)
        do_one(tp, IBV_WR_SEND, SHORT_LEN, 0, 0);
    printf("{\"pids\": [%d, %d], \"qpns\": [%u, %u], \"hub\": %d, \"tx_packets\": %llu, \"tx_bytes\": %llu, "
           "\"direct_mapped\": %llu, \"direct_process_vm\": %llu}\n",
           (int)getpid(), (int)tp->child, tp->me->qpn, tp->other->qpn,
           fl_port_stats(qp->rnic->port)->is_hub ? 0 : 1, (unsigned long long)qp->roce.stats.nr_tx,
           (unsigned long long)qp->roce.stats.tx_len, (unsigned long long)qp->nr_mapped,
           (unsigned long long)qp->nr_vm);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    tp_close(tp);
    return 0;
}
