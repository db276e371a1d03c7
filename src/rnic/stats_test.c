/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted is shown: to others who ask, and as text. */
#include "rnic/test_verbs.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rnic/stats.h"
#include "rnic/stats/client.h"

static void view_of_this_process(struct fl_stats_view *view)
{
    char address[64], stats[FL_STATS_ADDRESS_LEN];
    snprintf(address, sizeof(address), "farlane-test-port-%d", (int)getpid());
    fl_stats_address(address, stats);
    assert_int_equal(fl_stats_view_get(stats, view), 0);
}

static const struct fl_stats_qp *qp_of(const struct fl_stats_view *view, uint32_t qpn)
{
    for (uint32_t i = 0; i < view->nr_qps; i++)
        if (view->qps[i].qpn == qpn)
            return &view->qps[i];
    return NULL;
}

static void send_some(struct tv *tv, int nr)
{
    for (int i = 0; i < nr; i++) {
        assert_int_equal(tv_recv(&tv->b, 1, 0, 2048), 0);
        assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 2048, 0), 0); /* two packets */
        tv_wait_ok(tv->a.scq, IBV_WC_SEND);
        tv_wait_ok(tv->b.rcq, IBV_WC_RECV);
    }
}

static void test_queue_pairs(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct fl_stats_view view;
    uint32_t a = tv->a.qp->qp_num, b = tv->b.qp->qp_num;
    send_some(tv, 5);
    assert_int_equal(tv_recv(&tv->b, 1, 0, 64), 0);
    view_of_this_process(&view);
    assert_int_equal(view.process.nr_qps, 2);
    assert_int_equal(view.nr_qps, 2);
    const struct fl_stats_qp *qp = qp_of(&view, a);
    assert_non_null(qp);
    assert_int_equal(qp->peer_qpn, b);
    assert_int_equal(qp->type, IBV_QPT_RC);
    assert_int_equal(qp->state, IBV_QPS_RTS);
    assert_int_equal(qp->mtu, 1024);
    assert_memory_equal(&qp->peer_gid, &tv->gid, sizeof(tv->gid));
    assert_string_equal(qp->path, "udp");
    assert_string_equal(qp->how, "go-back-N");
    assert_non_null(strstr(qp->reason, "no farlane process of this host has the peer's queue pair"));
    assert_non_null(strstr(qp->reason, "selective"));
    assert_int_equal(qp->nr_ports, 1);
    assert_int_equal(qp->counters[FL_QP_COUNTER_tx_packets], 10);
    assert_int_equal(qp->counters[FL_QP_COUNTER_tx_bytes], 5 * 2048);
    qp = qp_of(&view, b);
    assert_non_null(qp);
    assert_int_equal(qp->nr_recvs, 1);
    assert_int_equal(qp->counters[FL_QP_COUNTER_rx_packets], 10);
    assert_int_equal(qp->counters[FL_QP_COUNTER_rx_bytes], 5 * 2048);
    assert_int_equal(qp->counters[FL_QP_COUNTER_acks_tx], qp->counters[FL_QP_COUNTER_tx_packets]);
    assert_true(view.process.counters[FL_PROCESS_COUNTER_udp_tx_packets] >= 10);
    fl_stats_view_free(&view);
    tv_free(tv);
}

static void test_not_connected(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct fl_stats_view view;
    assert_int_equal(tv_to(&tv->a, &tv->attr, IBV_QPS_RESET, 0), 0);
    view_of_this_process(&view);
    const struct fl_stats_qp *qp = qp_of(&view, tv->a.qp->qp_num);
    assert_non_null(qp);
    assert_string_equal(qp->path, "none");
    assert_int_equal(qp->peer_qpn, 0);
    assert_int_equal(qp->state, IBV_QPS_RESET);
    fl_stats_view_free(&view);
    tv_free(tv);
}

static void test_other_services(void **state)
{
    const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD};
    for (int i = 0; i < 2; i++) {
        struct tv *tv = tv_pair(types[i]);
        struct fl_stats_view view;
        view_of_this_process(&view);
        const struct fl_stats_qp *qp = qp_of(&view, tv->a.qp->qp_num);
        assert_non_null(qp);
        assert_int_equal(qp->type, types[i]);
        assert_string_equal(qp->path, "udp");
        assert_string_equal(qp->how, ""); /* nothing is sent again */
        assert_null(strstr(qp->reason, "selective"));
        assert_int_equal(!!strstr(qp->reason, "datagrams"), types[i] == IBV_QPT_UD);
        assert_int_equal(!!qp->peer_qpn, types[i] == IBV_QPT_UC);
        fl_stats_view_free(&view);
        tv_free(tv);
    }
}

/* More than fit into one answer: each once, in order. */
static void test_many(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_qp_init_attr init = {.send_cq = tv->a.scq,
                                    .recv_cq = tv->a.rcq,
                                    .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1},
                                    .qp_type = IBV_QPT_RC};
    struct ibv_qp *qps[3 * FL_STATS_QPS_MAX];
    struct fl_stats_view view;
    for (size_t i = 0; i < FL_ARRAY_LEN(qps); i++) {
        qps[i] = fl_qp_create(tv->pd, &init);
        assert_non_null(qps[i]);
    }
    view_of_this_process(&view);
    assert_int_equal(view.nr_qps, FL_ARRAY_LEN(qps) + 2);
    for (uint32_t i = 1; i < view.nr_qps; i++)
        assert_true(view.qps[i].qpn > view.qps[i - 1].qpn);
    fl_stats_view_free(&view);
    for (size_t i = 0; i < FL_ARRAY_LEN(qps); i++)
        assert_int_equal(fl_qp_destroy(qps[i]), 0);
    tv_free(tv);
}

static uint64_t sent_by_loopback(const struct fl_stats_view *view)
{
    uint64_t counters[FL_NR_QP_COUNTERS];
    for (uint32_t i = 0; i < view->nr_devices; i++) {
        if (!strcmp(view->devices[i].ifname, "lo")) {
            fl_stats_sum(view, &view->devices[i], counters);
            return counters[FL_QP_COUNTER_tx_packets];
        }
    }
    return 0;
}

/* A device has counted what its queue pairs have, also when they are gone. */
static void test_destroyed_queue_pairs_count(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC), *other;
    struct fl_stats_view view;
    view_of_this_process(&view);
    uint64_t before = sent_by_loopback(&view);
    fl_stats_view_free(&view);
    other = tv_pair(IBV_QPT_RC);
    send_some(other, 3);
    view_of_this_process(&view);
    uint64_t during = sent_by_loopback(&view);
    fl_stats_view_free(&view);
    assert_true(during >= before + 6 + 3); /* and the ACKs, of which some may be joined */
    tv_free(other);
    view_of_this_process(&view);
    assert_int_equal(view.nr_qps, 2);
    assert_int_equal(sent_by_loopback(&view), during);
    fl_stats_view_free(&view);
    tv_free(tv);
}

static void test_forged_and_unknown(void **state)
{
    struct tv *tv = tv_hasty_pair(IBV_QPT_RC);
    struct fl_rnic *rnic = fl_context_of(tv->context)->rnic;
    struct fl_port_packet lost = {.packet = {.qpn = 0x7654}};
    struct fl_stats_view view;
    fl_rnic_lock(rnic);
    fl_rnic_deliver(rnic, &lost);
    fl_rnic_unlock(rnic);
    test_port.forge = true;
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_RETRY_EXC_ERR);
    view_of_this_process(&view);
    const uint64_t *a = qp_of(&view, tv->a.qp->qp_num)->counters,
                   *b = qp_of(&view, tv->b.qp->qp_num)->counters;
    assert_int_equal(b[FL_QP_COUNTER_rx_packets], 0);
    assert_int_equal(b[FL_QP_COUNTER_foreign_rx], 4); /* one, and three retries */
    assert_int_equal(a[FL_QP_COUNTER_resent_by_timeout], 4);
    assert_int_equal(a[FL_QP_COUNTER_resent_packets], 3);
    assert_int_equal(view.process.counters[FL_PROCESS_COUNTER_foreign_packets], 4);
    assert_int_equal(view.process.counters[FL_PROCESS_COUNTER_unknown_qpn], 1);
    fl_stats_view_free(&view);
    tv_free(tv);
}

static void test_naks_by_kind(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct fl_stats_view view;
    tv->b.mr->rkey ^= 0x5a5a5a00;
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_REM_ACCESS_ERR);
    view_of_this_process(&view);
    assert_int_equal(qp_of(&view, tv->a.qp->qp_num)->counters[FL_QP_COUNTER_nak_rx_remote_access], 1);
    assert_int_equal(qp_of(&view, tv->b.qp->qp_num)->counters[FL_QP_COUNTER_nak_tx_remote_access], 1);
    assert_int_equal(qp_of(&view, tv->a.qp->qp_num)->state, IBV_QPS_ERR);
    fl_stats_view_free(&view);
    tv->b.mr->rkey ^= 0x5a5a5a00;
    tv_free(tv);
}

static char *text_now(void)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    fl_rnic_stats_print(f);
    fclose(f);
    return text;
}

static void test_text(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    char want[128];
    send_some(tv, 2);
    char *text = text_now();
    snprintf(want, sizeof(want), "queue pair 0x%06x of %s: udp, go-back-N: ", tv->a.qp->qp_num,
             tv->context->device->name);
    assert_non_null(strstr(text, want));
    assert_non_null(strstr(text, "(lo):"));
    assert_non_null(strstr(text, "tx_packets"));
    assert_null(strstr(text, "cnp_rx")); /* nothing of what is 0 */
    free(text);
    tv_free(tv);
    text = text_now(); /* the RNIC is closed; what it did is not forgotten */
    assert_null(strstr(text, "  queue pair "));
    assert_non_null(strstr(text, "2 queue pairs of farlane"));
    assert_non_null(strstr(text, ", destroyed: udp, go-back-N: "));
    assert_non_null(strstr(text, "tx_packets"));
    assert_non_null(strstr(text, "udp_tx_packets"));
    free(text);
}

/* In processes of their own, since the environment is looked at once. */
static void in_child(const char *path, void (*run)(void))
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        setenv("FARLANE_RNIC_STATS", path, 1);
        run();
        exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static void use_and_close(void)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    send_some(tv, 1);
    tv_free(tv);
}

static void use_and_leave(void)
{
    send_some(tv_pair(IBV_QPT_RC), 1);
}

static void use_and_fork(void)
{
    use_and_close();
    if (fork() == 0)
        exit(0); /* it has done nothing, so it says nothing */
    wait(NULL);
}

static int nr_lines(const char *path, const char *word)
{
    char line[512];
    int nr = 0;
    FILE *f = fopen(path, "r");
    while (f && fgets(line, sizeof(line), f))
        nr += !!strstr(line, word);
    if (f)
        fclose(f);
    return nr;
}

static void test_at_exit(void **state)
{
    char path[] = "/tmp/farlane-stats-XXXXXX";
    void (*const uses[])(void) = {use_and_close, use_and_leave, use_and_fork};
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    for (int i = 0; i < 3; i++) {
        in_child(path, uses[i]);
        assert_int_equal(nr_lines(path, "software RNIC of process"), i + 1);
        assert_int_equal(nr_lines(path, " udp_tx_packets "), i + 1);
    }
    assert_int_equal(nr_lines(path, "  queue pair "), 2); /* of who left them */
    assert_int_equal(nr_lines(path, "  2 queue pairs of farlane"), 2);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_at_exit), /* first: no RNIC has been here */
        cmocka_unit_test(test_queue_pairs),
        cmocka_unit_test(test_not_connected),
        cmocka_unit_test(test_other_services),
        cmocka_unit_test(test_many),
        cmocka_unit_test(test_destroyed_queue_pairs_count),
        cmocka_unit_test(test_forged_and_unknown),
        cmocka_unit_test(test_naks_by_kind),
        cmocka_unit_test(test_text),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
