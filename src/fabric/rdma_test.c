/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of NVMe/RDMA in one process: the target does what the script says (test_script.h). */
#include <poll.h>
#include <sys/mman.h>

#include "fabric/rdma_host_parts.h"
#include "fabric/test_rdma.h"

static void reads_and_writes(void **state)
{
    static const uint32_t lens[] = {1, 512, 4096, 4097, 65536, BUF_LEN};
    static uint8_t heap[BUF_LEN]; /* memory that is registered for each request */
    struct bed bed;

    bed_listen(&bed);
    bed_connect(&bed, 1);
    for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
        for (int own = 0; own < 2; own++) {
            uint8_t *data = own ? heap : bed.buf;

            memset(data, 0xee, lens[i]);
            assert_int_equal(finish(&bed, request(&bed, 0, FL_NVME_CMD_READ, 0, data, lens[i])), 0);
            assert_memory_equal(data, script_pattern, lens[i]);
            assert_int_equal(finish(&bed, request(&bed, 1, FL_NVME_CMD_WRITE, 0, data, lens[i])), 0);
            assert_int_equal(bed.script.last_sgl_len, lens[i]);
            assert_int_equal(bed.script.last_in_capsule, !own && lens[i] <= 4096);
            assert_int_equal(finish(&bed, request(&bed, 2, FL_NVME_CMD_WRITE, SCRIPT_FETCH, data, lens[i])),
                             0);
        }
    }
    assert_int_equal(finish(&bed, request(&bed, 3, FL_NVME_CMD_FLUSH, 0, NULL, 0)), 0);
    assert_int_equal(bed.script.nr_wrong_data, 0);
    assert_int_equal(
        fl_nvme_status_code(finish(&bed, request(&bed, 3, FL_NVME_CMD_READ, SCRIPT_FAIL, bed.buf, 512))),
        FL_NVME_SC_INTERNAL);
    bed_free(&bed);
}

/* Data in several pieces, with a beginning that is skipped. */
static void pieces(void **state)
{
    struct bed bed;
    struct fl_request *req;

    bed_listen(&bed);
    bed_connect(&bed, 1);
    for (uint32_t len = 1000; len <= 9000; len += 8000) {
        memset(bed.buf, 0, 40000);
        req = request(&bed, 0, FL_NVME_CMD_READ, 0, bed.buf, len);
        bed.iov[0][0] = (struct iovec){bed.buf, 300};
        bed.iov[0][1] = (struct iovec){bed.buf + 10000, 0};
        bed.iov[0][2] = (struct iovec){bed.buf + 20000, len};
        req->nr_iov = 3;
        req->iov_skip = 100;
        assert_int_equal(finish(&bed, req), 0);
        assert_memory_equal(bed.buf + 100, script_pattern, 200);
        assert_memory_equal(bed.buf + 20000, script_pattern + 200, len - 200);
        assert_int_equal(bed.buf[99], 0);
        assert_int_equal(bed.buf[20000 + len - 200], 0);
        req->pdu.sqe.opcode = FL_NVME_CMD_WRITE;
        req->to_host = false;
        assert_int_equal(finish(&bed, req), 0);
    }
    assert_int_equal(bed.script.nr_wrong_data, 0);
    bed_free(&bed);
}

static void several_descriptors(void **state)
{
    static const struct {
        uint32_t nr, type; /* pieces, and what describes them */
    } cases[] = {{1, FL_NVME_SGL_KEYED},
                 {2, FL_NVME_SGL_LAST_SEGMENT_OFFSET},
                 {FL_NVME_RDMA_MAX_PIECES, FL_NVME_SGL_LAST_SEGMENT_OFFSET},
                 {FL_NVME_RDMA_MAX_PIECES + 1, FL_NVME_SGL_KEYED}};
    struct iovec iov[FL_NVME_RDMA_MAX_PIECES + 1];
    struct bed bed;

    bed_listen(&bed);
    bed_connect(&bed, 1);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t len = 0;
        struct fl_request *req;

        for (uint32_t k = 0; k < cases[i].nr; k++) { /* from the end to the beginning, with gaps */
            iov[k] = (struct iovec){bed.buf + BUF_LEN - (k + 1) * 22000, 5000 + 1000 * k};
            len += (uint32_t)iov[k].iov_len;
        }
        memset(bed.buf, 0, BUF_LEN);
        for (int write = 0; write < 2; write++) {
            req = request(&bed, 0, write ? FL_NVME_CMD_WRITE : FL_NVME_CMD_READ, 0, bed.buf, len);
            req->iov = iov;
            req->nr_iov = cases[i].nr;
            assert_int_equal(finish(&bed, req), 0);
            assert_int_equal(req->pdu.sqe.sgl.type, cases[i].type);
            assert_int_equal(bed.script.last_sgl_len, len);
            for (uint32_t k = 0, at = 0; k < cases[i].nr; at += (uint32_t)iov[k++].iov_len) {
                assert_memory_equal(iov[k].iov_base, script_pattern + at, iov[k].iov_len);
                assert_int_equal(((uint8_t *)iov[k].iov_base)[iov[k].iov_len], 0);
            }
        }
    }
    assert_int_equal(bed.script.nr_wrong_data, 0);
    bed_free(&bed);
}

/* By UDP, where data comes in packets; what several READs fetch is not offered. */
static void data_is_offered_as_it_comes(void **state)
{
    const uint64_t until = fl_now_ns() + WAIT_NS;
    const char *shm = getenv("FARLANE_SHM");
    const int want = shm && !strcmp(shm, "0") ? 10 : 0;
    struct fl_request *req;
    struct bed bed;

    bed_listen(&bed);
    bed_connect(&bed, 1);
    memcpy(bed.buf, script_pattern, BUF_LEN);
    do
        assert_int_equal(
            finish(&bed, request(&bed, 0, FL_NVME_CMD_WRITE, SCRIPT_PLACE, bed.buf, BUF_LEN - 1)), 0);
    while (bed.script.nr_placed < want && fl_now_ns() < until);
    assert_true(bed.script.nr_placed >= want);
    assert_int_equal(bed.script.nr_wrong_data, 0);

    bed.script.nr_offered = 0;
    for (int i = 0; i < 5; i++) {
        req = request(&bed, 0, FL_NVME_CMD_WRITE, SCRIPT_PLACE, bed.buf, 400000);
        bed.iov[0][0].iov_len = 200000;
        bed.iov[0][1] = (struct iovec){bed.buf + 200000, 200000};
        req->nr_iov = 2;
        assert_int_equal(finish(&bed, req), 0);
        assert_int_equal(req->pdu.sqe.sgl.type, FL_NVME_SGL_LAST_SEGMENT_OFFSET);
    }
    assert_int_equal(bed.script.nr_offered, 0);
    assert_int_equal(bed.script.nr_wrong_data, 0);
    bed_free(&bed);
}

/* While the loop is not turned, the RNIC's own thread takes the data: the target is not called from there. */
static void data_that_comes_beside_the_loop(void **state)
{
    struct bed bed;

    bed_listen(&bed);
    bed_connect(&bed, 1);
    memcpy(bed.buf, script_pattern, BUF_LEN);
    for (int i = 0; i < 10; i++) {
        struct fl_request *req = request(&bed, 0, FL_NVME_CMD_WRITE, SCRIPT_PLACE, bed.buf, BUF_LEN - 1);
        int nr_fetched = bed.script.nr_fetched;

        fl_rdma_host_submit(bed.host, req);
        TURN_UNTIL(&bed, bed.script.nr_fetched > nr_fetched);
        poll(NULL, 0, 20);
        TURN_UNTIL(&bed, req->state == FL_REQUEST_IDLE);
        assert_int_equal(fl_nvme_cqe_status(&req->cqe), 0);
    }
    assert_int_equal(bed.script.nr_wrong_data, 0);
    bed_free(&bed);
}

/* More descriptors at once than the target's send queue has places for: commands wait, and none is lost. */
static void many_descriptors(void **state)
{
    struct iovec iov[NR_REQS][FL_NVME_RDMA_MAX_PIECES];
    struct bed bed;

    bed_listen(&bed);
    test_verbs.device.max_qp_wr = 2 * FL_NVME_RDMA_MAX_PIECES + 5; /* fewer than two a slot */
    bed_connect(&bed, 1);
    for (int round = 0; round < 50; round++) {
        bed.nr_done = 0;
        memset(bed.buf, 0, BUF_LEN);
        for (int i = 0; i < NR_REQS; i++) {
            uint32_t nr = 1 + (uint32_t)(round * 7 + i * 5) % FL_NVME_RDMA_MAX_PIECES;
            struct fl_request *req = request(&bed, i, i & 1 ? FL_NVME_CMD_READ : FL_NVME_CMD_WRITE, 0, NULL,
                                             nr * 4096);

            for (uint32_t k = 0, at = 0; k < nr; k++, at += 4096) {
                iov[i][k] = (struct iovec){bed.buf + (size_t)(k * NR_REQS + (uint32_t)i) * 4096, 4096};
                if (!(i & 1))
                    memcpy(iov[i][k].iov_base, script_pattern + at, 4096);
            }
            req->iov = iov[i];
            req->nr_iov = nr;
            fl_rdma_host_submit(bed.host, req);
        }
        TURN_UNTIL(&bed, bed.nr_done == NR_REQS);
        for (int i = 0; i < NR_REQS; i++) {
            assert_int_equal(fl_nvme_cqe_status(&bed.reqs[i].cqe), 0);
            for (uint32_t k = 0; k < bed.reqs[i].nr_iov; k++)
                assert_memory_equal(iov[i][k].iov_base, script_pattern + k * 4096, 4096);
        }
    }
    assert_int_equal(bed.script.nr_wrong_data, 0);
    bed_free(&bed);
}

/* Every slot at once, many times: more than either end has places for in its send queue. */
static void many(void **state)
{
    struct bed bed;

    bed_listen(&bed);
    bed_connect(&bed, 1);
    for (int round = 0; round < 200; round++) {
        bed.nr_done = 0;
        for (int i = 0; i < NR_REQS; i++)
            fl_rdma_host_submit(bed.host, request(&bed, i, i & 1 ? FL_NVME_CMD_READ : FL_NVME_CMD_WRITE, 0,
                                                  memcpy(bed.buf + i * 8192, script_pattern, 8192),
                                                  round & 1 ? 8192 : 512));
        TURN_UNTIL(&bed, bed.nr_done == NR_REQS);
        for (int i = 0; i < NR_REQS; i++)
            assert_int_equal(fl_nvme_cqe_status(&bed.reqs[i].cqe), 0);
    }
    assert_int_equal(bed.script.nr_wrong_data, 0);
    assert_int_equal(bed.script.nr_commands, 200 * NR_REQS);
    bed_free(&bed);
}

/* The host goes while commands are in each of the states that they have. */
static void host_goes(void **state)
{
    static const uint32_t holds[] = {SCRIPT_HOLD, SCRIPT_HOLD_DATA, SCRIPT_TILL_BROKEN};
    struct bed bed;

    bed_listen(&bed);
    for (size_t i = 0; i < sizeof(holds) / sizeof(holds[0]); i++) {
        script_init(&bed.script, 0);
        bed_connect(&bed, 1);
        for (int k = 0; k < 4; k++)
            fl_rdma_host_submit(bed.host,
                                request(&bed, k, FL_NVME_CMD_WRITE, holds[i], bed.buf + k * 65536, 65536));
        TURN_UNTIL(&bed, bed.script.nr_commands == 4);
        fl_rdma_host_destroy(bed.host);
        bed.host = NULL;
        for (int k = 0; k < 4; k++)
            assert_int_equal(bed.reqs[k].state, FL_REQUEST_IDLE);
        TURN_UNTIL(&bed, bed.script.nr_broken == 1);
        while (script_go(&bed.script))
            ;
        bed_disconnect(&bed);
    }
    bed_free(&bed);
}

/* At once after the commands were sent: READs and WRITEs are under way. */
static void host_goes_at_once(void **state)
{
    struct bed bed;

    bed_listen(&bed);
    for (int turns = 0; turns < 12; turns++) {
        script_init(&bed.script, 0);
        bed_connect(&bed, 1);
        for (int k = 0; k < NR_REQS; k++)
            fl_rdma_host_submit(bed.host, request(&bed, k, k & 1 ? FL_NVME_CMD_READ : FL_NVME_CMD_WRITE, 0,
                                                  bed.buf + k * 65536, 65536));
        for (int t = 0; t < turns; t++)
            fl_loop_turn(bed.loop, 0);
        bed_disconnect(&bed);
    }
    bed_free(&bed);
}

static void target_closes(void **state)
{
    struct bed bed;

    bed_listen(&bed);
    bed_connect(&bed, 1);
    /* The response that was given before still arrives. */
    assert_int_equal(finish(&bed, request(&bed, 0, FL_NVME_CMD_FLUSH, SCRIPT_CLOSE, NULL, 0)), 0);
    TURN_UNTIL(&bed, fl_rdma_host_step(bed.host) < 0 || fl_rdma_host_io(bed.host) < 0);
    assert_non_null(strstr(fl_rdma_host_err(bed.host)->text, "closed"));
    assert_string_equal(bed.script.why, "as the script says");
    bed_free(&bed);
}

/* The host hears of the end before it looks for the response that was given first. */
static void response_before_the_end(void **state)
{
    struct fl_request *req;
    struct pollfd p;
    struct bed bed;

    bed_listen(&bed);
    bed_connect(&bed, 1);
    req = request(&bed, 0, FL_NVME_CMD_FLUSH, SCRIPT_CLOSE, NULL, 0);
    fl_rdma_host_submit(bed.host, req);
    p = (struct pollfd){.fd = bed.host->channel->fd, .events = POLLIN};
    for (uint64_t end = fl_now_ns() + WAIT_NS; poll(&p, 1, 0) == 0; assert_true(fl_now_ns() < end))
        fl_loop_turn(bed.loop, 0);
    assert_true(fl_rdma_host_arm(bed.host));
    assert_int_equal(req->state, FL_REQUEST_SENT);
    (void)fl_rdma_host_io(bed.host);
    assert_int_equal(req->state, FL_REQUEST_IDLE);
    assert_int_equal(fl_nvme_cqe_status(&req->cqe), 0);
    TURN_UNTIL(&bed, fl_rdma_host_io(bed.host) < 0);
    assert_non_null(strstr(fl_rdma_host_err(bed.host)->text, "the target closed"));
    bed_free(&bed);
}

/* A key that the host does not have: the transfer fails, and with it the connection. */
static void wrong_memory(void **state)
{
    struct bed bed;
    struct fl_request *req;

    bed_listen(&bed);
    bed_connect(&bed, 1);
    req = request(&bed, 0, FL_NVME_CMD_READ, SCRIPT_HOLD, bed.buf, 4096);
    fl_rdma_host_submit(bed.host, req);
    TURN_UNTIL(&bed, bed.script.nr_commands == 1);
    fl_shared_free(bed.buf, 2 * BUF_LEN); /* and its registration, at the next look-up */
    bed.buf = fl_shared_alloc(2 * BUF_LEN);
    fl_rdma_host_submit(bed.host, request(&bed, 1, FL_NVME_CMD_READ, SCRIPT_HOLD, bed.buf, 4096));
    script_go(&bed.script);
    TURN_UNTIL(&bed, bed.script.nr_broken == 1);
    while (script_go(&bed.script))
        ;
    TURN_UNTIL(&bed, bed.script.nr_closed == 1);
    assert_non_null(strstr(bed.script.why, "RDMA"));
    bed_free(&bed);
}

/* Memory that may only be read can be written from; what cannot be used fails its own request alone. */
static void memory_that_cannot_be_used(void **state)
{
    const size_t len = 64 << 10, page = 4096;
    uint8_t *readable = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *hole = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec halves[2] = {{hole, 4096}, {NULL, 0}};
    struct fl_request *req;
    struct bed bed;

    assert_true(readable != MAP_FAILED && hole != MAP_FAILED);
    memcpy(readable, script_pattern, len);
    assert_int_equal(mprotect(readable, len, PROT_READ), 0);
    assert_int_equal(munmap(hole + page, len - page), 0);
    bed_listen(&bed);
    bed_connect(&bed, 1);
    assert_int_equal(finish(&bed, request(&bed, 0, FL_NVME_CMD_WRITE, 0, readable, 512)), 0);
    assert_int_equal(finish(&bed, request(&bed, 0, FL_NVME_CMD_WRITE, SCRIPT_FETCH, readable, (uint32_t)len)),
                     0);
    assert_int_equal(bed.script.nr_wrong_data, 0);

    for (int write = 0; write < 2; write++) {
        uint8_t opcode = write ? FL_NVME_CMD_WRITE : FL_NVME_CMD_READ;
        struct fl_request *others[2];

        bed.nr_done = 0;
        others[0] = request(&bed, 1, opcode, 0, memcpy(bed.buf, script_pattern, 8192), 8192);
        others[1] = request(&bed, 2, opcode, 0, memcpy(bed.buf + 8192, script_pattern, 8192), 8192);
        req = request(&bed, 0, opcode, 0, write ? hole : readable, (uint32_t)len);
        fl_rdma_host_submit(bed.host, others[0]);
        fl_rdma_host_submit(bed.host, req);
        fl_rdma_host_submit(bed.host, others[1]);
        assert_int_equal(req->state, FL_REQUEST_SENT); /* done() is never called from submit */
        TURN_UNTIL(&bed, bed.nr_done == 3);
        assert_int_equal(req->state, FL_REQUEST_UNSENT);
        assert_int_equal(le32_get(req->cqe.dw0), EFAULT);
        assert_int_not_equal(fl_nvme_cqe_status(&req->cqe), 0);
        for (int i = 0; i < 2; i++) {
            assert_int_equal(others[i]->state, FL_REQUEST_IDLE);
            assert_int_equal(fl_nvme_cqe_status(&others[i]->cqe), 0);
        }
    }
    halves[1] = (struct iovec){bed.buf, 4096}; /* its slot is as it was; two pieces go through one beside */
    req = request(&bed, 0, FL_NVME_CMD_READ, 0, NULL, 8192);
    req->iov = halves;
    req->nr_iov = 2;
    assert_int_equal(finish(&bed, req), 0);
    assert_memory_equal(hole, script_pattern, 4096);
    bed_free(&bed);
    munmap(readable, len);
    munmap(hole, page);
}

static void nobody_listens(void **state)
{
    struct fl_error err = {0};
    struct bed bed;

    bed_listen(&bed);
    fl_addr_set_port(&bed.addr, 1);
    struct fl_rdma_host_options o = {.lib = &test_lib,
                                     .addrs = &bed.addr,
                                     .nr_addrs = 1,
                                     .sqsize = 31,
                                     .nr_reqs = NR_REQS,
                                     .done = done,
                                     .user = &bed};
    assert_int_equal(fl_rdma_host_create(&o, &bed.host, &err), 0);
    TURN_UNTIL(&bed, fl_rdma_host_step(bed.host) != 0);
    assert_int_equal(fl_rdma_host_err(bed.host)->code, -ECONNREFUSED);
    bed_free(&bed);
}

static void rejected_by_the_target(void **state)
{
    struct fl_error err = {0};
    struct bed bed;

    bed_listen(&bed);
    struct fl_rdma_host_options o = {.lib = &test_lib,
                                     .addrs = &bed.addr,
                                     .nr_addrs = 1,
                                     .sqsize = 32,
                                     .nr_reqs = NR_REQS,
                                     .done = done,
                                     .user = &bed};
    assert_int_equal(fl_rdma_host_create(&o, &bed.host, &err), 0); /* an admin queue of 33 entries */
    TURN_UNTIL(&bed, fl_rdma_host_step(bed.host) != 0);
    assert_non_null(strstr(fl_rdma_host_err(bed.host)->text, "submission queue"));
    assert_int_equal(bed.script.nr_opened, 0);
    bed_free(&bed);
}

static void registered_memory(void **state)
{
    const size_t len = 1 << 18;
    uint8_t *heap = malloc(len);
    struct fl_rdma_counts before, after;
    struct bed bed;
    long nr_mrs;

    bed_listen(&bed);
    bed_connect(&bed, 1);
    fl_rdma_counts_get(&before);
    assert_int_equal(finish(&bed, request(&bed, 0, FL_NVME_CMD_READ, 0, heap, 65536)), 0);
    fl_rdma_counts_get(&after);
    assert_int_equal(after.nr_temporary_ever, before.nr_temporary_ever + 1);
    assert_int_equal(after.nr_temporary, 0);

    assert_int_equal(fl_mem_range_add_kind(heap, len, FL_MEM_REGISTERED), 0);
    nr_mrs = test_verbs.nr_mrs;
    for (int i = 0; i < 10; i++)
        assert_int_equal(finish(&bed, request(&bed, 0, FL_NVME_CMD_READ, 0, heap + i * 4096, 65536)), 0);
    assert_memory_equal(heap + 9 * 4096, script_pattern, 65536);
    assert_int_equal(test_verbs.nr_mrs, nr_mrs + 1);
    fl_rdma_counts_get(&before);
    assert_int_equal(before.nr_temporary_ever, after.nr_temporary_ever);
    assert_int_equal(before.nr_regions, after.nr_regions + 1);
    assert_int_equal(fl_mem_range_remove_exact(heap, len, FL_MEM_REGISTERED), 0);
    assert_int_equal(test_verbs.nr_mrs, nr_mrs); /* at once, not at the next I/O */

    fl_rdma_cache_set(100000);
    for (int i = 0; i < 10; i++)
        assert_int_equal(finish(&bed, request(&bed, 0, FL_NVME_CMD_READ, 0, heap, 65536)), 0);
    assert_int_equal(test_verbs.nr_mrs, nr_mrs + 1);
    fl_rdma_counts_get(&after);
    assert_int_equal(after.nr_temporary_ever, before.nr_temporary_ever);
    assert_int_equal(finish(&bed, request(&bed, 0, FL_NVME_CMD_READ, 0, heap + 65536, 65536)),
                     0); /* no room */
    fl_rdma_counts_get(&after);
    assert_int_equal(after.nr_temporary_ever, before.nr_temporary_ever + 1);
    fl_mem_range_remove_overlapping(heap + 100, 1, FL_MEM_CACHED);
    assert_int_equal(test_verbs.nr_mrs, nr_mrs);
    assert_int_equal(finish(&bed, request(&bed, 0, FL_NVME_CMD_READ, 0, heap, 4096)), 0);
    assert_int_equal(test_verbs.nr_mrs, nr_mrs + 1);
    fl_rdma_cache_set(0);
    assert_int_equal(test_verbs.nr_mrs, nr_mrs);
    bed_free(&bed);
    free(heap);
}

static struct ibv_pd *any_pd(struct ibv_context *context)
{
    static struct ibv_pd pd;

    return &pd;
}

static int no_dealloc(struct ibv_pd *pd)
{
    return 0;
}

/* What an iWARP device reads into, the peer must be allowed to write to; elsewhere nobody may. */
static void case_R7_read_sinks_of_iwarp(void **state)
{
    static struct fl_verbs verbs = {.alloc_pd = any_pd, .dealloc_pd = no_dealloc};
    static const struct fl_rdma_lib lib = {.verbs = &verbs};
    struct ibv_device device = {.transport_type = IBV_TRANSPORT_IWARP};
    struct ibv_context context = {.device = &device};
    struct fl_rdma_domain *domain;

    assert_int_equal(fl_rdma_domain_get(&lib, &context, FL_RDMA_TARGET, &domain), 0);
    assert_int_equal(domain->access, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    fl_rdma_domain_put(domain);
    device.transport_type = IBV_TRANSPORT_IB;
    assert_int_equal(fl_rdma_domain_get(&lib, &context, FL_RDMA_TARGET, &domain), 0);
    assert_int_equal(domain->access, IBV_ACCESS_LOCAL_WRITE);
    fl_rdma_domain_put(domain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_writes),
        cmocka_unit_test(pieces),
        cmocka_unit_test(several_descriptors),
        cmocka_unit_test(many_descriptors),
        cmocka_unit_test(data_is_offered_as_it_comes),
        cmocka_unit_test(data_that_comes_beside_the_loop),
        cmocka_unit_test(registered_memory),
        cmocka_unit_test(case_R7_read_sinks_of_iwarp),
        cmocka_unit_test(many),
        cmocka_unit_test(host_goes),
        cmocka_unit_test(host_goes_at_once),
        cmocka_unit_test(target_closes),
        cmocka_unit_test(response_before_the_end),
        cmocka_unit_test(wrong_memory),
        cmocka_unit_test(memory_that_cannot_be_used),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(rejected_by_the_target),
    };

    return cmocka_run_group_tests_name("rdma", tests, use_own_port, NULL);
}
