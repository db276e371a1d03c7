/* SPDX-License-Identifier: Apache-2.0 */
/* What goes wrong at each step of both ends, and what they agree on: after it nothing is left of verbs'
 * objects. */
#include "fabric/test_rdma.h"

/* Connects, or not; a request if it does. */
static bool try_once(struct bed *bed)
{
    struct fl_rdma_host_options o = {.lib = &test_lib,
                                     .addrs = &bed->addr,
                                     .nr_addrs = 1,
                                     .qid = 1,
                                     .sqsize = NR_REQS - 1,
                                     .nr_reqs = NR_REQS,
                                     .done = done,
                                     .user = bed};
    static uint8_t heap[8192]; /* registered for its request */
    struct fl_error err = {0};
    struct fl_request *req;

    if (fl_rdma_host_create(&o, &bed->host, &err) < 0) {
        assert_int_not_equal(err.text[0], 0);
        return false;
    }
    TURN_UNTIL(bed, fl_rdma_host_step(bed->host) != 0);
    if (fl_rdma_host_step(bed->host) < 0) {
        assert_int_not_equal(fl_rdma_host_err(bed->host)->text[0], 0);
        return false;
    }
    for (uint32_t i = 0; i < NR_REQS; i++)
        fl_rdma_host_bind(bed->host, &bed->reqs[i], i);
    fl_rdma_host_set_limits(bed->host, 4096, FL_NVME_RDMA_MAX_PIECES);
    for (int i = 0; i < 2; i++) {
        req = request(bed, i, i ? FL_NVME_CMD_READ : FL_NVME_CMD_WRITE, 0, heap, sizeof(heap));
        memcpy(heap, script_pattern, sizeof(heap));
        fl_rdma_host_submit(bed->host, req);
        TURN_UNTIL(bed, req->state != FL_REQUEST_SENT || fl_rdma_host_step(bed->host) < 0 ||
                            fl_rdma_host_io(bed->host) < 0);
        if (req->state != FL_REQUEST_IDLE || fl_nvme_cqe_status(&req->cqe))
            return false;
    }
    return true;
}

static void all_steps(uint32_t shared_recv)
{
    long n = 1, nr_failed = 0;

    for (;; n++) {
        struct bed bed;
        bool ok;

        bed_listen_with(&bed, shared_recv);
        test_verbs.fail_in = n;
        ok = try_once(&bed);
        nr_failed += !ok;
        test_verbs.fail_in = 0;
        if (bed.host)
            fl_rdma_host_destroy(bed.host);
        bed.host = NULL;
        assert_true(try_once(&bed)); /* the target is as it was */
        bed_free(&bed);
        if (!test_verbs.fired)
            break;
    }
    assert_true(n > 20 && nr_failed > 15); /* there are so many steps, and most of them matter */
}

static void each_step_fails_once(void **state)
{
    all_steps(0);
}

static void each_step_fails_once_with_shared_receives(void **state)
{
    all_steps(16);
}

/* The host's READs: what it says at connect, what the device can, and what is set on the queue pair. */
static void case_R3_rdma_reads_agreed(void **state)
{
    static const struct {
        int host, target, want;
    } cases[] = {{16, 16, 16}, {16, 4, 4}, {1, 16, 1}, {128, 128, 128}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct ibv_qp_attr attr;
        struct ibv_qp_init_attr init;
        struct bed bed;

        bed_listen(&bed);
        test_verbs.device.max_qp_rd_atom = cases[i].host;
        test_verbs.device.max_qp_init_rd_atom = cases[i].target;
        bed_connect(&bed, 1);
        assert_int_equal(test_verbs.accepted.initiator_depth, cases[i].want);
        assert_int_equal(test_verbs.accepted.responder_resources, 0); /* the host reads nothing */
        assert_int_equal(test_verbs.accepted.rnr_retry_count, 7);     /* as the host asked */
        assert_non_null(test_verbs.accepted_qp);
        assert_int_equal(
            fl_verbs_soft.query_qp(test_verbs.accepted_qp, &attr, IBV_QP_MAX_QP_RD_ATOMIC, &init), 0);
        assert_int_equal(attr.max_rd_atomic, test_verbs.accepted.initiator_depth);
        for (int k = 0; k < NR_REQS; k++)
            fl_rdma_host_submit(bed.host, request(&bed, k, FL_NVME_CMD_WRITE, 0,
                                                  memcpy(bed.buf + k * 65536, script_pattern, 65536), 65536));
        TURN_UNTIL(&bed, bed.nr_done == NR_REQS);
        assert_int_equal(bed.script.nr_wrong_data, 0);
        bed_free(&bed);
    }
}

/* Data in any pieces, with devices that gather from few: each piece lies in one registered region. */
static void case_R4_pieces_and_small_devices(void **state)
{
    uint64_t seed = 88172645463325252u;

    for (int max_sge = 1; max_sge <= 4; max_sge++) {
        struct bed bed;
        uint8_t *other = fl_shared_alloc(BUF_LEN); /* another region */

        bed_listen(&bed);
        test_verbs.device.max_sge = max_sge;
        bed_connect(&bed, 1);
        for (int round = 0; round < 150; round++) {
            struct iovec iov[20];
            uint32_t nr, len = 0;
            struct fl_request *req;
            bool write = round & 1;

            seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
            nr = 1 + seed % 20;
            for (uint32_t k = 0; k < nr; k++) {
                size_t room = BUF_LEN / 20, n;

                seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
                n = seed >> 8 & 1 ? seed >> 16 & 511 : (seed >> 16) % room;
                iov[k] = (struct iovec){
                    (seed & 3 ? bed.buf : other) + room * k + (seed >> 32) % (room - n + 1), n};
                len += (uint32_t)n;
            }
            if (!len)
                continue;
            for (uint32_t k = 0, at = 0; k < nr; at += (uint32_t)iov[k++].iov_len)
                write ? memcpy(iov[k].iov_base, script_pattern + at, iov[k].iov_len)
                      : memset(iov[k].iov_base, 0, iov[k].iov_len);
            req = request(&bed, 0, write ? FL_NVME_CMD_WRITE : FL_NVME_CMD_READ, 0, NULL, len);
            req->iov = iov;
            req->nr_iov = nr;
            assert_int_equal(finish(&bed, req), 0);
            if (write && max_sge == 1)
                assert_false(bed.script.last_in_capsule);
            for (uint32_t k = 0, at = 0; k < nr; at += (uint32_t)iov[k++].iov_len)
                assert_memory_equal(iov[k].iov_base, script_pattern + at, iov[k].iov_len);
        }
        assert_int_equal(bed.script.nr_wrong_data, 0);
        bed_disconnect(&bed);
        fl_shared_free(other, BUF_LEN);
        bed_free(&bed);
    }
}

/* The listener goes while a connection is at work: receives in common stay until the last one has ended. */
static void listener_goes_first(void **state)
{
    for (uint32_t shared = 0; shared <= 16; shared += 16) {
        struct bed bed;

        bed_listen_with(&bed, shared);
        bed_connect(&bed, 1);
        for (int k = 0; k < 4; k++)
            fl_rdma_host_submit(bed.host, request(&bed, k, FL_NVME_CMD_WRITE, SCRIPT_HOLD,
                                                  memcpy(bed.buf + k * 4096, script_pattern, 4096), 4096));
        TURN_UNTIL(&bed, bed.script.nr_commands == 4);
        fl_rdma_transport.unlisten(bed.listener);
        bed.listener = NULL;
        while (script_go(&bed.script))
            ;
        TURN_UNTIL(&bed, bed.nr_done == 4);
        assert_int_equal(bed.script.nr_wrong_data, 0);
        assert_int_equal(test_verbs.nr_srqs, shared ? 1 : 0);
        bed_free(&bed);
    }
}

/* A controller may have fewer receives than the queue has entries: the host sends no more than those. */
static void case_R10_host_keeps_to_crqsize(void **state)
{
    struct bed bed;

    bed_listen(&bed);
    test_verbs.crqsize = 3;
    bed_connect(&bed, 1);
    for (int round = 0; round < 3; round++) {
        int before = bed.script.nr_commands, finished;

        bed.nr_done = 0;
        for (int k = 0; k < NR_REQS; k++)
            fl_rdma_host_submit(bed.host, request(&bed, k, FL_NVME_CMD_WRITE, SCRIPT_HOLD,
                                                  memcpy(bed.buf + k * 8192, script_pattern, 8192), 8192));
        while (bed.nr_done < NR_REQS) {
            TURN_UNTIL(&bed,
                       bed.script.nr_commands - before - bed.nr_done == FL_MIN(3, NR_REQS - bed.nr_done));
            for (int i = 0; i < 200; i++) {
                turn(&bed);
                assert_true(bed.script.nr_commands - before <= bed.nr_done + 3);
            }
            finished = bed.nr_done;
            assert_true(script_go(&bed.script));
            TURN_UNTIL(&bed, bed.nr_done == finished + 1);
        }
    }
    assert_int_equal(bed.script.nr_wrong_data, 0);
    bed_free(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_fails_once),
        cmocka_unit_test(each_step_fails_once_with_shared_receives),
        cmocka_unit_test(listener_goes_first),
        cmocka_unit_test(case_R10_host_keeps_to_crqsize),
        cmocka_unit_test(case_R3_rdma_reads_agreed),
        cmocka_unit_test(case_R4_pieces_and_small_devices),
    };

    return cmocka_run_group_tests_name("rdma_ends", tests, use_own_port, NULL);
}
