/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs of two processes by shared memory. */
#include "base/unit.h"
#include "rnic/stats.h"
#include "rnic/test_peers.h"

enum { NOTHING, FEED, STOP_TAKING, DEREG };

static void sleep_on(struct tp *tp)
{
    for (;;)
        pause();
}

/* What a peer's program does when it is asked; its RNIC's thread does the rest. */
static void serve(struct tp *tp)
{
    for (;; usleep(200)) {
        int command = __atomic_load_n(&tp->me->command, __ATOMIC_SEQ_CST);
        struct ibv_wc wc;
        if (command == FEED)
            for (uint64_t i = 0; i < tp->me->argument; i++)
                tp_post_recv(tp, i, tp->plain + i * 16384, tp->plain_mr->lkey, 16384);
        if (command == DEREG)
            fl_mr_dereg(tp->pool_mr);
        if (command != NOTHING)
            __atomic_store_n(&tp->me->command, NOTHING, __ATOMIC_SEQ_CST);
        while (fl_cq_poll(tp->cq, 1, &wc) == 1)
            __atomic_add_fetch(&tp->me->nr_done, wc.status == IBV_WC_SUCCESS, __ATOMIC_SEQ_CST);
    }
}

static void tell(struct tp *tp, int command, uint64_t argument)
{
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    tp->other->argument = argument;
    __atomic_store_n(&tp->other->command, command, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&tp->other->command, __ATOMIC_SEQ_CST) != NOTHING && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(tp->other->command, NOTHING);
}

static bool vm_works(struct tp *tp)
{
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    tp_post(tp, IBV_WR_RDMA_READ, tp->plain, tp->plain_mr->lkey, 8, tp->other->plain_at, tp->other->plain_key,
            IBV_SEND_SIGNALED);
    assert_int_equal(tp_next(tp).status, IBV_WC_SUCCESS);
    return qp->nr_vm > 0;
}

static void write_and_read(struct tp *tp, uint64_t at, uint32_t key)
{
    const uint32_t lens[] = {0, 1, 64, 4096, 70000, TP_LEN};
    for (size_t i = 0; i < FL_ARRAY_LEN(lens); i++) {
        memset(tp->plain, (int)i + 1, TP_LEN);
        memset(tp->pool, 0, TP_LEN);
        assert_int_equal(tp_post(tp, IBV_WR_RDMA_WRITE, tp->plain, tp->plain_mr->lkey, lens[i], at, key, 0),
                         0);
        assert_int_equal(
            tp_post(tp, IBV_WR_RDMA_READ, tp->pool, tp->pool_mr->lkey, lens[i], at, key, IBV_SEND_SIGNALED),
            0);
        struct ibv_wc wc = tp_next(tp);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
        assert_int_equal(wc.byte_len, lens[i]);
        assert_memory_equal(tp->pool, tp->plain, lens[i]);
        assert_true(lens[i] == TP_LEN || !tp->pool[lens[i]]);
    }
}

/* As `farlane rnic` tells it */
static struct fl_stats_qp told(struct tp *tp)
{
    struct fl_qp *qp = fl_qp_of(tp->qp);
    struct fl_stats_qp stats;
    fl_rnic_lock(qp->rnic);
    fl_stats_qp(qp, &stats);
    fl_rnic_unlock(qp->rnic);
    return stats;
}

static void one_sided_while_the_peer_is_blocked(void **state)
{
    struct tp *tp = tp_open(sleep_on);
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    assert_string_equal(qp->path->name, "shm");
    assert_true(tp_wait_for_direct(tp));
    uint64_t nr_packets = qp->roce.stats.nr_tx;
    write_and_read(tp, tp->other->pool_at, tp->other->pool_key);
    if (vm_works(tp))
        write_and_read(tp, tp->other->plain_at, tp->other->plain_key);
    assert_int_equal(qp->roce.stats.nr_tx, nr_packets);
    tp_close(tp);
}

static void one_sided_while_the_peer_is_stopped(void **state)
{
    struct tp *tp = tp_open(sleep_on);
    int status;
    assert_true(tp_wait_for_direct(tp));
    kill(tp->child, SIGSTOP);
    waitpid(tp->child, &status, WUNTRACED);
    assert_true(WIFSTOPPED(status));
    write_and_read(tp, tp->other->pool_at, tp->other->pool_key);
    if (vm_works(tp))
        write_and_read(tp, tp->other->plain_at, tp->other->plain_key);
    tp_close(tp);
}

static void atomics_add_up(void **state)
{
    struct tp *tp = tp_open(sleep_on);
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    uint64_t targets[] = {tp->other->pool_at, tp->other->plain_at};
    uint32_t keys[] = {tp->other->pool_key, tp->other->plain_key};
    assert_true(tp_wait_for_direct(tp));
    for (int k = 0; k < 2; k++) { /* in mapped memory, and by the peer's engine */
        uint64_t *got = (uint64_t *)tp->plain;
        for (uint64_t i = 0; i < 50; i++) {
            struct ibv_sge sge = {.addr = (uintptr_t)got, .length = 8, .lkey = tp->plain_mr->lkey};
            struct ibv_send_wr wr = {.sg_list = &sge,
                                     .num_sge = 1,
                                     .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
                                     .send_flags = IBV_SEND_SIGNALED,
                                     .wr.atomic = {.remote_addr = targets[k],
                                                   .rkey = keys[k],
                                                   .compare_add = 3}},
                               *bad;
            assert_int_equal(fl_qp_post_send(tp->qp, &wr, &bad), 0);
            assert_int_equal(tp_next(tp).status, IBV_WC_SUCCESS);
            assert_int_equal(*got, 3 * i);
        }
    }
    assert_true(qp->nr_mapped >= 50);
    assert_non_null(strstr(told(tp).reason, "atomics in memory that is not mapped here"));
    assert_null(strstr(told(tp).reason, "rights"));
    tp_close(tp);
}

/* SENDs, which the peer's engine takes, and WRITEs, which it does not see, in turns: in order, and all whole.
 */
static void sends_and_writes_keep_their_order(void **state)
{
    struct tp *tp = tp_open(serve);
    assert_true(tp_wait_for_direct(tp));
    tell(tp, FEED, 60);
    for (uint32_t i = 0; i < 60; i++) {
        memset(tp->plain + i * 16384, (int)i + 1, 16384);
        assert_int_equal(tp_post(tp, IBV_WR_SEND, tp->plain + i * 16384, tp->plain_mr->lkey,
                                 i % 3 ? 64 : 16384, 0, 0, IBV_SEND_SIGNALED),
                         0);
        assert_int_equal(tp_post(tp, IBV_WR_RDMA_WRITE, tp->plain + i * 16384, tp->plain_mr->lkey,
                                 i % 2 ? 16384 : 64, tp->other->pool_at + i * 16384, tp->other->pool_key,
                                 IBV_SEND_SIGNALED),
                         0);
    }
    for (uint32_t i = 0; i < 120; i++) {
        struct ibv_wc wc = tp_next(tp);
        assert_int_equal(wc.status, IBV_WC_SUCCESS);
        assert_int_equal(wc.opcode, i % 2 ? IBV_WC_RDMA_WRITE : IBV_WC_SEND);
    }
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    while (__atomic_load_n(&tp->other->nr_done, __ATOMIC_SEQ_CST) < 60 && fl_now_ns() < end)
        usleep(100);
    assert_int_equal(tp->other->nr_done, 60);
    for (uint32_t i = 0; i < 60; i++) {
        uint32_t sent = i % 3 ? 64 : 16384, written = i % 2 ? 16384 : 64;
        memset(tp->pool, 0, 16384);
        tp_post(tp, IBV_WR_RDMA_READ, tp->pool, tp->pool_mr->lkey, sent, tp->other->plain_at + i * 16384,
                tp->other->plain_key, IBV_SEND_SIGNALED);
        tp_next(tp);
        for (uint32_t k = 0; k < sent; k++)
            assert_int_equal(tp->pool[k], i + 1);
        memset(tp->pool, 0, 16384);
        tp_post(tp, IBV_WR_RDMA_READ, tp->pool, tp->pool_mr->lkey, written, tp->other->pool_at + i * 16384,
                tp->other->pool_key, IBV_SEND_SIGNALED);
        tp_next(tp);
        for (uint32_t k = 0; k < written; k++)
            assert_int_equal(tp->pool[k], i + 1);
    }
    tp_close(tp);
}

static void refusals_are_those_of_the_wire(void **state)
{
    struct tp *tp = tp_open(sleep_on);
    assert_true(tp_wait_for_direct(tp));
    tp_post(tp, IBV_WR_RDMA_WRITE, tp->plain, tp->plain_mr->lkey, 64, tp->other->pool_at + TP_LEN - 63,
            tp->other->pool_key, 0);
    assert_int_equal(tp_next(tp).status, IBV_WC_REM_ACCESS_ERR);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(fl_qp_query(tp->qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_ERR);
    assert_non_null(strstr(told(tp).reason, "key, rights or state"));
    tp_close(tp);
}

static void a_key_that_is_gone_opens_nothing(void **state)
{
    struct tp *tp = tp_open(serve);
    assert_true(tp_wait_for_direct(tp));
    tell(tp, DEREG, 0);
    tp_post(tp, IBV_WR_RDMA_READ, tp->plain, tp->plain_mr->lkey, 64, tp->other->pool_at, tp->other->pool_key,
            0);
    assert_int_equal(tp_next(tp).status, IBV_WC_REM_ACCESS_ERR);
    tp_close(tp);
}

static void own_memory_is_checked(void **state)
{
    struct tp *tp = tp_open(sleep_on);
    assert_true(tp_wait_for_direct(tp));
    tp_post(tp, IBV_WR_RDMA_READ, tp->plain + TP_LEN - 8, tp->plain_mr->lkey, 16, tp->other->pool_at,
            tp->other->pool_key, 0);
    assert_int_equal(tp_next(tp).status, IBV_WC_LOC_PROT_ERR);
    tp_close(tp);
}

static void no_receive_is_retried_and_told(void **state)
{
    struct tp *tp = tp_open(sleep_on);
    assert_true(tp_wait_for_direct(tp));
    tp_post(tp, IBV_WR_SEND, tp->plain, tp->plain_mr->lkey, 64, 0, 0, 0);
    assert_int_equal(tp_next(tp).status, IBV_WC_RNR_RETRY_EXC_ERR);
    tp_close(tp);
}

/* Also where nothing is asked of it, so that nothing fails. */
static void of_a_peer_that_has_left_is_told_that(void **state)
{
    struct tp *tp = tp_open(sleep_on);
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;
    assert_true(tp_wait_for_direct(tp));
    assert_null(strstr(told(tp).reason, "ended"));
    kill(tp->child, SIGKILL);
    waitpid(tp->child, NULL, 0);
    while (!strstr(told(tp).reason, "the peer's process has ended") && fl_now_ns() < end)
        usleep(1000);
    assert_string_equal(told(tp).reason, "the peer's process has ended, or has closed its RNIC");
    assert_string_equal(told(tp).path, "shm"); /* how its data went */
    tp_post(tp, IBV_WR_RDMA_WRITE, tp->plain, tp->plain_mr->lkey, 64, tp->other->pool_at, tp->other->pool_key,
            0);
    assert_int_equal(tp_next(tp).status, IBV_WC_RETRY_EXC_ERR);
    assert_string_equal(told(tp).path, "udp");
    assert_non_null(strstr(told(tp).reason, "the peer's process has ended"));
    tp_close(tp);
}

static void a_killed_peer_ends_in_an_error(void **state)
{
    struct tp *tp = tp_open(sleep_on);
    assert_true(tp_wait_for_direct(tp));
    kill(tp->child, SIGKILL);
    waitpid(tp->child, NULL, 0);
    usleep(2000);
    uint64_t start = fl_now_ns();
    tp_post(tp, IBV_WR_RDMA_WRITE, tp->plain, tp->plain_mr->lkey, 64, tp->other->pool_at, tp->other->pool_key,
            0);
    assert_int_equal(tp_next(tp).status, IBV_WC_RETRY_EXC_ERR);
    assert_true(fl_now_ns() - start < 5 * FL_NS_PER_S);
    tp_close(tp);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(one_sided_while_the_peer_is_blocked),
        cmocka_unit_test(one_sided_while_the_peer_is_stopped), cmocka_unit_test(atomics_add_up),
        cmocka_unit_test(sends_and_writes_keep_their_order), cmocka_unit_test(refusals_are_those_of_the_wire),
        cmocka_unit_test(a_key_that_is_gone_opens_nothing), cmocka_unit_test(own_memory_is_checked),
        cmocka_unit_test(no_receive_is_retried_and_told),
        cmocka_unit_test(of_a_peer_that_has_left_is_told_that),
        cmocka_unit_test(a_killed_peer_ends_in_an_error));
}
