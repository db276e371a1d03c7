/* SPDX-License-Identifier: Apache-2.0 */
/* A process that takes the last message of a connection and ends, by UDP: its peer gets the acknowledgement.
 */
#include "base/unit.h"
#include "rnic/test_peers.h"

#define EXCHANGES 24 /* three times as many as make an acknowledgement wait; each may take a time slice of both */
#define ROUNDS    5

static void (*ending)(struct tp *tp);

static void never_repeat(struct tp *tp)
{
    struct fl_qp *qp = fl_qp_of(tp->qp);
    fl_rnic_lock(qp->rnic);
    qp->roce.timeout_ns = 0;
    fl_rnic_unlock(qp->rnic);
}

static void take_message(struct tp *tp)
{
    struct ibv_wc wc;
    do
        wc = tp_next(tp);
    while (wc.opcode != IBV_WC_RECV);
    TP_CHECK(wc.status == IBV_WC_SUCCESS);
}

static void send_message(struct tp *tp, unsigned int flags)
{
    TP_CHECK(!tp_post(tp, IBV_WR_SEND, tp->plain, tp->plain_mr->lkey, 64, 0, 0, flags));
}

/* Answers each message at once but for the last one. */
static void respond(struct tp *tp)
{
    never_repeat(tp);
    for (int i = 0; i < 4; i++)
        TP_CHECK(!tp_post_recv(tp, 1, tp->plain, tp->plain_mr->lkey, 4096));
    __atomic_store_n(&tp->me->command, 1, __ATOMIC_SEQ_CST);
    for (int i = 0; i < EXCHANGES; i++) {
        take_message(tp);
        send_message(tp, i % 64 ? 0 : IBV_SEND_SIGNALED);
        TP_CHECK(!tp_post_recv(tp, 1, tp->plain, tp->plain_mr->lkey, 4096));
    }
    take_message(tp);
    ending(tp);
}

static void by_exit(struct tp *tp)
{
    exit(0);
}

static void by_destroying(struct tp *tp)
{
    TP_CHECK(!fl_qp_destroy(tp->qp));
    _exit(0);
}

static void by_disconnecting(struct tp *tp)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    TP_CHECK(!fl_qp_modify(tp->qp, &attr, IBV_QP_STATE));
    _exit(0);
}

static void by_stopping_to_poll(struct tp *tp)
{
    usleep(200000);
    _exit(0);
}

static void talk(void (*end)(struct tp *tp))
{
    ending = end;
    for (int round = 0; round < ROUNDS; round++) {
        struct tp *tp = tp_open(respond);
        struct ibv_wc wc;
        never_repeat(tp);
        assert_string_equal(fl_qp_of(tp->qp)->path->name, "udp");
        for (int i = 0; i < 4; i++)
            assert_int_equal(tp_post_recv(tp, 1, tp->plain, tp->plain_mr->lkey, 4096), 0);
        while (!__atomic_load_n(&tp->other->command, __ATOMIC_SEQ_CST))
            usleep(100);
        for (int i = 0; i < EXCHANGES; i++) {
            send_message(tp, 0);
            take_message(tp);
            assert_int_equal(tp_post_recv(tp, 1, tp->plain, tp->plain_mr->lkey, 4096), 0);
        }
        send_message(tp, IBV_SEND_SIGNALED);
        do
            wc = tp_next(tp);
        while (wc.opcode != IBV_WC_SEND);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        tp_close(tp);
    }
}

static void exits(void **state)
{
    talk(by_exit);
}

static void destroys_its_queue_pair(void **state)
{
    talk(by_destroying);
}

static void disconnects(void **state)
{
    talk(by_disconnecting);
}

static void stops_to_poll(void **state)
{
    talk(by_stopping_to_poll);
}

int main(void)
{
    setenv("FARLANE_SHM", "0", 1);
    return FL_UNIT_RUN(cmocka_unit_test(exits), cmocka_unit_test(destroys_its_queue_pair),
                       cmocka_unit_test(disconnects), cmocka_unit_test(stops_to_poll));
}
