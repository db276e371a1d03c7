/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a queue pair as programs see them, and the attributes of each step. */
#include <stdio.h>

#include "base/log.h"
#include "rnic/test_verbs.h"

static char last_log[512];

static void keep_log(void *arg, enum fl_log_level level, const char *text)
{
    snprintf(last_log, sizeof(last_log), "%s", text);
}

static struct tv *unconnected(enum ibv_qp_type type)
{
    struct tv *tv = tv_new(type);
    tv_make_end(tv, &tv->a);
    tv_make_end(tv, &tv->b);
    last_log[0] = 0;
    fl_log_set_sink(keep_log, NULL);
    return tv;
}

static void done(struct tv *tv)
{
    fl_log_set_sink(NULL, NULL);
    tv_free(tv);
}

/* Refused with EINVAL, and the log names the field. */
static void names(struct tv *tv, enum ibv_qp_state to, int mask, const char *field)
{
    enum ibv_qp_state before = tv->a.qp->state;
    last_log[0] = 0;
    assert_int_equal(tv_to(&tv->a, &tv->attr, to, mask), EINVAL);
    if (!strstr(last_log, field))
        fail_msg("the log says \"%s\", not %s", last_log, field);
    assert_int_equal(tv->a.qp->state, before);
}

#define TO_INIT (IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TO_RTR                                                                                   \
    (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | \
     IBV_QP_MIN_RNR_TIMER)
#define TO_RTS \
    (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC)

static void test_missing_attributes_are_named(void **state)
{
    struct tv *tv = unconnected(IBV_QPT_RC);
    names(tv, IBV_QPS_INIT, TO_INIT & ~IBV_QP_PORT, "port_num is missing");
    names(tv, IBV_QPS_INIT, TO_INIT & ~IBV_QP_ACCESS_FLAGS, "qp_access_flags is missing");
    names(tv, IBV_QPS_RTR, TO_RTR, "RESET to RTR: the states");
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_INIT, TO_INIT), 0);
    names(tv, IBV_QPS_RTR, TO_RTR & ~IBV_QP_DEST_QPN, "dest_qp_num is missing");
    names(tv, IBV_QPS_RTR, TO_RTR & ~IBV_QP_MIN_RNR_TIMER, "min_rnr_timer is missing");
    names(tv, IBV_QPS_RTR, TO_RTR | IBV_QP_SQ_PSN, "sq_psn cannot be set");
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_RTR, TO_RTR), 0);
    names(tv, IBV_QPS_RTS, TO_RTS & ~IBV_QP_TIMEOUT, "timeout is missing");
    names(tv, IBV_QPS_INIT, TO_INIT, "the states");
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_RTS, TO_RTS), 0);
    names(tv, IBV_QPS_RTR, TO_RTR, "the states");
    names(tv, IBV_QPS_RTS, IBV_QP_ALT_PATH, "alt_ah_attr");
    names(tv, IBV_QPS_SQE, 0, "the states");
    done(tv);
}

static void test_wrong_values_are_named(void **state)
{
    char hint[160];
    struct tv *tv = unconnected(IBV_QPT_RC);
    struct ibv_qp_attr good = tv->attr;
    tv->attr.port_num = 2;
    names(tv, IBV_QPS_INIT, TO_INIT, "port_num has the value 2");
    tv->attr = good;
    tv->attr.pkey_index = 1;
    names(tv, IBV_QPS_INIT, TO_INIT, "pkey_index has the value 1");
    tv->attr = good;
    tv->attr.qp_access_flags = 1 << 20;
    names(tv, IBV_QPS_INIT, TO_INIT, "qp_access_flags");
    tv->attr = good;
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_INIT, TO_INIT), 0);
    tv->attr.path_mtu = 6;
    names(tv, IBV_QPS_RTR, TO_RTR, "path_mtu has the value 6");
    tv->attr = good;
    tv->attr.dest_qp_num = 1 << 24;
    names(tv, IBV_QPS_RTR, TO_RTR, "dest_qp_num");
    tv->attr = good;
    tv->attr.max_dest_rd_atomic = 200;
    names(tv, IBV_QPS_RTR, TO_RTR, "max_dest_rd_atomic has the value 200");
    tv->attr = good;
    tv->attr.ah_attr.is_global = 0;
    snprintf(hint, sizeof(hint),
             "is_global is 0, but RoCE needs a GID. Give the programs at both ends the index of "
             "one: %d is ::ffff:127.0.0.1 here (ibv_rc_pingpong -g %d",
             tv->gid_index, tv->gid_index);
    names(tv, IBV_QPS_RTR, TO_RTR, hint);
    tv->attr = good;
    tv->attr.ah_attr.grh.sgid_index = 63;
    names(tv, IBV_QPS_RTR, TO_RTR, "sgid_index 63");
    tv->attr = good;
    tv->attr.ah_attr.grh.dgid.raw[10] = 0;
    names(tv, IBV_QPS_RTR, TO_RTR, "IPv4");
    tv->attr = good;
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_RTR, TO_RTR), 0);
    tv->attr.retry_cnt = 8;
    names(tv, IBV_QPS_RTS, TO_RTS, "retry_cnt has the value 8");
    tv->attr = good;
    tv->attr.timeout = 32;
    names(tv, IBV_QPS_RTS, TO_RTS, "timeout has the value 32");
    tv->attr = good;
    tv->attr.cur_qp_state = IBV_QPS_RTS;
    names(tv, IBV_QPS_RTS, TO_RTS | IBV_QP_CUR_STATE, "cur_qp_state");
    tv->attr.cur_qp_state = IBV_QPS_RTR;
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_RTS, TO_RTS | IBV_QP_CUR_STATE), 0);
    done(tv);
}

/* The other types need less. */
static void test_types(void **state)
{
    struct tv *tv = unconnected(IBV_QPT_UD);
    names(tv, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT, "qkey is missing");
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_INIT, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY),
                     0);
    names(tv, IBV_QPS_RTR, IBV_QP_AV, "ah_attr cannot be set");
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_RTR, 0), 0);
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_RTS, IBV_QP_SQ_PSN), 0);
    done(tv);
    tv = unconnected(IBV_QPT_UC);
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_INIT, TO_INIT), 0);
    names(tv, IBV_QPS_RTR, TO_RTR & ~IBV_QP_MIN_RNR_TIMER, "max_dest_rd_atomic cannot be set");
    assert_int_equal(
        tv_to(&tv->a, &tv->attr, IBV_QPS_RTR, IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN),
        0);
    done(tv);
}

static int post_send(struct tv *tv)
{
    return tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 8, 0);
}

/* V6: RESET refuses both, INIT and RTR take receives, ERR takes and flushes both; errno is positive, bad_wr
 * set. */
static void case_V6_post_in_each_state(void **state)
{
    struct tv *tv = unconnected(IBV_QPT_RC);
    assert_int_equal(post_send(tv), EINVAL);
    assert_int_equal(tv_recv(&tv->a, 1, 0, 8), EINVAL);
    assert_int_equal(tv_to_init(tv, &tv->a), 0);
    assert_int_equal(post_send(tv), EINVAL);
    assert_int_equal(tv_recv(&tv->a, 1, 0, 8), 0);
    assert_int_equal(tv_to_rtr(tv, &tv->a, &tv->b), 0);
    assert_int_equal(post_send(tv), EINVAL);
    assert_int_equal(tv_recv(&tv->a, 2, 0, 8), 0);
    assert_int_equal(tv_to_rts(tv, &tv->a), 0);
    assert_int_equal(tv_recv(&tv->a, 3, 0, 8), 0);
    test_port.drop_all = true;
    assert_int_equal(post_send(tv), 0);
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_SQD, 0), 0);
    assert_int_equal(post_send(tv), 0); /* waits until RTS */
    assert_int_equal(tv_recv(&tv->a, 4, 0, 8), 0);
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_ERR, 0), 0);
    assert_int_equal(post_send(tv), 0);
    assert_int_equal(tv_recv(&tv->a, 5, 0, 8), 0);
    for (uint64_t i = 1; i <= 5; i++) {
        struct ibv_wc wc = tv_wait(tv->a.rcq);
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_WR_FLUSH_ERR);
    tv_none(tv->a.scq);
    tv_none(tv->a.rcq);
    done(tv);
}

/* A marker posted in ERR comes back flushed, after all that was before it (as programs drain a queue pair).
 */
static void case_V6_marker_in_error(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    test_port.drop_all = true;
    for (int i = 0; i < 5; i++)
        assert_int_equal(post_send(tv), 0);
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_ERR, 0), 0);
    struct ibv_send_wr *bad, marker = {.wr_id = 99, .opcode = IBV_WR_SEND}; /* not even signalled */
    assert_int_equal(ibv_post_send(tv->a.qp, &marker, &bad), 0);
    for (int i = 0; i < 5; i++)
        assert_int_equal(tv_wait(tv->a.scq).wr_id, 1);
    assert_int_equal(tv_wait(tv->a.scq).wr_id, 99);
    tv_free(tv);
}

static void test_drain(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_async_event event;
    tv->attr.en_sqd_async_notify = 1;
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 4096, 0), 0);
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_SQD, IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    do { /* the peer's first packet is an event too */
        assert_int_equal(fl_async_get(tv->context, &event), 0);
        fl_async_ack(&event);
    } while (event.event_type == IBV_EVENT_COMM_EST);
    assert_int_equal(event.event_type, IBV_EVENT_SQ_DRAINED);
    tv_none(tv->a.scq);
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_RTS, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    tv_free(tv);
}

static void test_query(void **state)
{
    struct tv *tv = tv_hasty_pair(IBV_QPT_RC);
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    assert_int_equal(fl_qp_query(tv->a.qp, &attr, IBV_QP_STATE | IBV_QP_CAP, &init), 0);
    assert_int_equal(attr.qp_state, IBV_QPS_RTS);
    assert_int_equal(attr.dest_qp_num, tv->b.qp->qp_num);
    assert_int_equal(attr.path_mtu, IBV_MTU_1024);
    assert_int_equal(attr.timeout, 12);
    assert_int_equal(attr.cap.max_send_wr, TV_WRS);
    assert_int_equal(init.cap.max_inline_data, TV_INLINE);
    assert_ptr_equal(init.send_cq, tv->a.scq);
    assert_memory_equal(&attr.ah_attr.grh.dgid, &tv->gid, 16);
    tv_free(tv);
}

/* Rights that are taken away while the queue pair runs count from then on. */
static void test_access_changes_live(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    tv->attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
    assert_int_equal(tv_to(&tv->b, &tv->attr, IBV_QPS_RTS, IBV_QP_ACCESS_FLAGS), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_READ, 0, 0, 64, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_READ);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_REM_INV_REQ_ERR);
    tv_free(tv);
}

static void test_create_refuses(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_qp_init_attr init = {
        .send_cq = tv->a.scq, .recv_cq = tv->a.rcq, .qp_type = IBV_QPT_RAW_PACKET};
    assert_null(fl_qp_create(tv->pd, &init));
    assert_int_equal(errno, EOPNOTSUPP);
    init.qp_type = IBV_QPT_RC;
    init.cap.max_send_wr = 1 << 20;
    assert_null(fl_qp_create(tv->pd, &init));
    assert_int_equal(errno, EINVAL);
    init.cap = (struct ibv_qp_cap){.max_send_sge = 33};
    assert_null(fl_qp_create(tv->pd, &init));
    init.cap = (struct ibv_qp_cap){.max_inline_data = 1 << 20};
    assert_null(fl_qp_create(tv->pd, &init));
    init.cap = (struct ibv_qp_cap){.max_send_wr = 1};
    init.send_cq = NULL;
    assert_null(fl_qp_create(tv->pd, &init));
    assert_int_equal(errno, EINVAL);
    assert_int_equal(fl_qp_attach_mcast(tv->a.qp, &tv->gid, 0), EOPNOTSUPP);
    tv_free(tv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing_attributes_are_named),
        cmocka_unit_test(test_wrong_values_are_named),
        cmocka_unit_test(test_types),
        cmocka_unit_test(case_V6_post_in_each_state),
        cmocka_unit_test(case_V6_marker_in_error),
        cmocka_unit_test(test_drain),
        cmocka_unit_test(test_query),
        cmocka_unit_test(test_access_changes_live),
        cmocka_unit_test(test_create_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
