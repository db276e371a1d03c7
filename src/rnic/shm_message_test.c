/* SPDX-License-Identifier: Apache-2.0 */
/* SENDs of two processes without packets: what they promise, their order with all else, and peers that lie.
 */
#include "base/unit.h"
#include "rnic/shm/shm.h"
#include "rnic/test_peers.h"

#define EACH 4096u /* of the peer's receives, which lie one after the other in `plain` */

enum { NOTHING, FEED, CLOSE_MEMORY };

/* Posts as many receives as it is asked for, each of argument's upper half bytes, and counts those that end
 * well. */
static void serve(struct tp *tp)
{
    uint64_t posted = 0;
    for (;; usleep(200)) {
        struct ibv_wc wc;
        if (__atomic_load_n(&tp->me->command, __ATOMIC_SEQ_CST) == FEED) {
            for (uint32_t i = 0; i < (uint32_t)tp->me->argument; i++, posted++)
                tp_post_recv(tp, posted, tp->plain + posted * EACH, tp->plain_mr->lkey,
                             (uint32_t)(tp->me->argument >> 32));
            __atomic_store_n(&tp->me->command, NOTHING, __ATOMIC_SEQ_CST);
        }
        if (__atomic_load_n(&tp->me->command, __ATOMIC_SEQ_CST) ==
            CLOSE_MEMORY) { /* that its receives lie in */
            fl_mr_rereg(tp->plain_mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0);
            __atomic_store_n(&tp->me->command, NOTHING, __ATOMIC_SEQ_CST);
        }
        while (fl_cq_poll(tp->cq, 1, &wc) == 1)
            __atomic_add_fetch(&tp->me->nr_done, wc.status == IBV_WC_SUCCESS, __ATOMIC_SEQ_CST);
    }
}

static void command(struct tp *tp, int what)
{
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    __atomic_store_n(&tp->other->command, what, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&tp->other->command, __ATOMIC_SEQ_CST) != NOTHING && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(tp->other->command, NOTHING);
}

static void feed(struct tp *tp, uint32_t nr_receives, uint32_t len)
{
    tp->other->argument = (uint64_t)len << 32 | nr_receives;
    command(tp, FEED);
}

static struct tp *open_with(uint32_t nr_receives, uint32_t len)
{
    struct tp *tp = tp_open(serve);
    assert_true(tp_wait_for_direct(tp));
    feed(tp, nr_receives, len);
    return tp;
}

static void stop(struct tp *tp)
{
    int status;
    kill(tp->child, SIGSTOP);
    waitpid(tp->child, &status, WUNTRACED);
    assert_true(WIFSTOPPED(status));
}

static void wait_for_done(struct tp *tp, int nr)
{
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    while (__atomic_load_n(&tp->other->nr_done, __ATOMIC_SEQ_CST) < nr && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(tp->other->nr_done, nr);
}

static void send_filled(struct tp *tp, int value, uint32_t len)
{
    memset(tp->plain, value, len);
    assert_int_equal(tp_post(tp, IBV_WR_SEND, tp->plain, tp->plain_mr->lkey, len, 0, 0, IBV_SEND_SIGNALED),
                     0);
}

static void expect(struct tp *tp, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = tp_next(tp);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, opcode);
}

static bool is_quiet(struct tp *tp)
{
    struct ibv_wc wc;
    for (int i = 0; i < 1000; i++)
        if (fl_cq_poll(tp->cq, 1, &wc))
            return false;
    return true;
}

/* What the peer's memory holds at receive i */
static const uint8_t *look(struct tp *tp, uint32_t i)
{
    tp_post(tp, IBV_WR_RDMA_READ, tp->pool, tp->pool_mr->lkey, EACH, tp->other->plain_at + i * EACH,
            tp->other->plain_key, IBV_SEND_SIGNALED);
    expect(tp, IBV_WC_RDMA_READ);
    return tp->pool;
}

/* As many as there are receives, as with a NIC, which goes on while the program is stopped; then not one
 * more. */
static void as_many_as_there_are_receives(void **state)
{
    struct tp *tp = open_with(4, EACH);
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    stop(tp);
    for (int i = 0; i < 6; i++)
        send_filled(tp, i + 1, 64);
    for (int i = 0; i < 4; i++)
        expect(tp, IBV_WC_SEND);
    assert_true(is_quiet(tp));
    assert_int_equal(qp->nr_messages_tx, 4);
    kill(tp->child, SIGCONT);
    wait_for_done(tp, 4);
    assert_int_equal(tp_next(tp).status, IBV_WC_RNR_RETRY_EXC_ERR);
    tp_close(tp);
}

static void receives_that_come_later_count(void **state)
{
    struct tp *tp = open_with(200, EACH);
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    for (int i = 0; i < 200; i++) {
        send_filled(tp, i + 1, i % 2 ? 1 : EACH);
        expect(tp, IBV_WC_SEND);
    }
    wait_for_done(tp, 200);
    assert_int_equal(qp->nr_messages_tx, 200);
    feed(tp, 50, EACH);
    for (int i = 0; i < 50; i++) {
        send_filled(tp, i + 101, 64);
        expect(tp, IBV_WC_SEND);
    }
    wait_for_done(tp, 250);
    assert_int_equal(qp->nr_messages_tx, 250);
    for (int i = 0; i < 250; i++)
        assert_int_equal(look(tp, (uint32_t)i)[0], i < 200 ? i + 1 : i - 200 + 101);
    tp_close(tp);
}

static uint64_t nr_ring(const struct fl_qp *qp)
{
    fl_rnic_lock(qp->rnic);
    uint64_t nr = qp->nr_ring;
    fl_rnic_unlock(qp->rnic);
    return nr;
}

/* A WRITE elsewhere passes SENDs that nobody has taken yet; what touches their receives does not. */
static void what_touches_receives_stays_behind(void **state)
{
    struct tp *tp = open_with(8, EACH);
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    stop(tp);
    send_filled(tp, 1, 64);
    expect(tp, IBV_WC_SEND);
    assert_int_equal(tp_post(tp, IBV_WR_RDMA_WRITE, tp->plain, tp->plain_mr->lkey, 64, tp->other->pool_at,
                             tp->other->pool_key, IBV_SEND_SIGNALED),
                     0);
    expect(tp, IBV_WC_RDMA_WRITE);
    uint64_t nr_before = nr_ring(qp);
    memset(tp->plain, 2, 32); /* into the receive of the SEND, half of it */
    assert_int_equal(tp_post(tp, IBV_WR_RDMA_WRITE, tp->plain, tp->plain_mr->lkey, 32, tp->other->plain_at,
                             tp->other->plain_key, IBV_SEND_SIGNALED),
                     0);
    assert_true(is_quiet(tp));
    assert_true(nr_ring(qp) > nr_before);
    kill(tp->child, SIGCONT);
    expect(tp, IBV_WC_RDMA_WRITE);
    const uint8_t *got = look(tp, 0);
    assert_int_equal(got[0], 2);
    assert_int_equal(got[31], 2);
    assert_int_equal(got[32], 1);
    assert_int_equal(got[63], 1);
    tp_close(tp);
}

static void a_read_sees_the_sends_before_it(void **state)
{
    struct tp *tp = open_with(60, EACH);
    for (uint32_t i = 0; i < 60; i++) {
        send_filled(tp, (int)i + 1, EACH);
        expect(tp, IBV_WC_SEND);
        assert_int_equal(look(tp, i)[EACH - 1], i + 1);
    }
    tp_close(tp);
}

static void a_receive_that_is_too_short_is_told(void **state)
{
    struct tp *tp = open_with(4, 16);
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    send_filled(tp, 1, 16);
    expect(tp, IBV_WC_SEND);
    assert_int_equal(qp->nr_messages_tx, 1);
    send_filled(tp, 1, 17);
    assert_int_equal(tp_next(tp).status, IBV_WC_REM_INV_REQ_ERR);
    tp_close(tp);
}

/* As on the wire: the sender learns that its message could not be put where the receive says. */
static void memory_that_is_registered_anew_is_told(void **state)
{
    struct tp *tp = open_with(4, EACH);
    send_filled(tp, 1, 64);
    expect(tp, IBV_WC_SEND);
    wait_for_done(tp, 1);
    command(tp, CLOSE_MEMORY);
    send_filled(tp, 2, 64);
    assert_int_equal(tp_next(tp).status, IBV_WC_REM_OP_ERR);
    assert_int_equal(fl_qp_of(tp->qp)->nr_messages_tx, 1);
    tp_close(tp);
}

static void a_killed_peer_takes_nothing(void **state)
{
    struct tp *tp = open_with(100, EACH);
    kill(tp->child, SIGKILL);
    waitpid(tp->child, NULL, 0);
    usleep(3000);
    send_filled(tp, 1, 64);
    assert_int_equal(tp_next(tp).status, IBV_WC_RETRY_EXC_ERR);
    tp_close(tp);
}

static void forge(struct tp *tp, uint32_t dest_qpn, uint32_t src_qpn, uint32_t epoch, uint32_t len)
{
    struct fl_qp *qp = fl_qp_of(tp->qp);
    struct fl_shm_message *m;
    fl_rnic_lock(qp->rnic);
    m = (struct fl_shm_message *)fl_hub_ring_reserve(&qp->link->out, (uint32_t)sizeof(*m) + len,
                                                     FL_HUB_RING_MESSAGE);
    assert_non_null(m);
    *m = (struct fl_shm_message){.dest_qpn = dest_qpn, .src_qpn = src_qpn, .epoch = epoch};
    memset(m + 1, 0xee, len);
    fl_shm_commit(qp->link);
    fl_rnic_unlock(qp->rnic);
}

static void lies_harm_only_their_own_queue_pair(void **state)
{
    struct tp *tp = open_with(2, EACH);
    struct fl_qp *qp = fl_qp_of(tp->qp);
    uint32_t ours = tp->qp->qp_num, peers = tp->other->qpn;
    send_filled(tp, 1, 64);
    expect(tp, IBV_WC_SEND);
    uint32_t epoch = qp->messages.peer_epoch;
    forge(tp, peers, ours, epoch + 1, 64);  /* from a life before */
    forge(tp, peers, ours + 1, epoch, 64);  /* not connected to that one */
    forge(tp, peers + 1, ours, epoch, 64);  /* does not exist */
    forge(tp, UINT32_MAX, ours, epoch, 64); /* no number of a queue pair */
    send_filled(tp, 2, 64);
    expect(tp, IBV_WC_SEND);
    wait_for_done(tp, 2);
    assert_int_equal(look(tp, 0)[0], 1);
    assert_int_equal(look(tp, 1)[0], 2);
    assert_int_equal(look(tp, 2)[0], 0);
    forge(tp, peers, ours, epoch, 64); /* one more than there are receives: the connection is over */
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    struct fl_shm_qp shown = {.takes = 1};
    while (shown.takes && fl_now_ns() < end)
        fl_shm_find(qp->link->peer, peers, &shown);
    assert_false(shown.takes);
    send_filled(tp, 3, 64);
    assert_int_not_equal(tp_next(tp).status, IBV_WC_SUCCESS);
    tp_close(tp);
}

static void an_immediate_and_an_empty_one(void **state)
{
    struct tp *tp = open_with(2, EACH);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 7, .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    assert_int_equal(fl_qp_post_send(tp->qp, &wr, &bad), 0);
    expect(tp, IBV_WC_SEND);
    wait_for_done(tp, 1);
    assert_int_equal(fl_qp_of(tp->qp)->nr_messages_tx, 1);
    tp_close(tp);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(as_many_as_there_are_receives), cmocka_unit_test(receives_that_come_later_count),
        cmocka_unit_test(what_touches_receives_stays_behind),
        cmocka_unit_test(a_read_sees_the_sends_before_it),
        cmocka_unit_test(a_receive_that_is_too_short_is_told),
        cmocka_unit_test(memory_that_is_registered_anew_is_told),
        cmocka_unit_test(a_killed_peer_takes_nothing), cmocka_unit_test(lies_harm_only_their_own_queue_pair),
        cmocka_unit_test(an_immediate_and_an_empty_one));
}
