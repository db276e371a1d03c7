/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of NVMe/RDMA in one process: the target does what the script says (test_script.h). */
#include "base/unit.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/rdma_host.h"
#include "fabric/test_script.h"
#include "mem/shared.h"

#define NR_REQS 8
#define WAIT_NS (20 * FL_NS_PER_S)
#define BUF_LEN (1u << 20)

struct bed {
    struct fl_loop *loop;
    struct fl_listener *listener;
    struct fl_addr addr;
    struct script script;
    struct fl_rdma_host *host;
    struct fl_request reqs[NR_REQS];
    struct iovec iov[NR_REQS][3];
    uint8_t *buf; /* shared memory, registered once */
    int nr_done;
};

static void done(void *user, struct fl_request *req)
{
    struct bed *bed = user;

    bed->nr_done++;
}

static void turn(struct bed *bed)
{
    fl_loop_turn(bed->loop, 0);
    if (bed->host && fl_rdma_host_step(bed->host) > 0)
        fl_rdma_host_io(bed->host);
}

#define TURN_UNTIL(bed, condition)             \
    do {                                       \
        uint64_t end_ = fl_now_ns() + WAIT_NS; \
        while (!(condition)) {                 \
            assert_true(fl_now_ns() < end_);   \
            turn(bed);                         \
        }                                      \
    } while (0)

static void bed_listen(struct bed *bed)
{
    struct fl_listen_options o = {
        .handler = &script_handler, .listener_user = &bed->script, .capsule_len = 4096};
    struct fl_error err = {0};

    memset(bed, 0, sizeof(*bed));
    script_init(&bed->script, 0);
    assert_int_equal(fl_loop_create(NULL, &bed->loop), 0);
    assert_int_equal(fl_addr_parse("127.0.0.1", 0, &o.addr, &err), 0);
    o.loop = bed->loop;
    assert_int_equal(fl_rdma_transport.listen(&o, &bed->listener, &err), 0);
    fl_rdma_transport.listener_addr(bed->listener, &bed->addr);
    assert_int_not_equal(fl_addr_port(&bed->addr), 0);
    bed->buf = fl_shared_alloc(2 * BUF_LEN);
    assert_non_null(bed->buf);
}

static void bed_connect(struct bed *bed, uint16_t qid)
{
    struct fl_rdma_host_options o = {.addrs = &bed->addr,
                                     .nr_addrs = 1,
                                     .qid = qid,
                                     .sqsize = NR_REQS,
                                     .nr_reqs = NR_REQS,
                                     .done = done,
                                     .user = bed};
    struct fl_error err = {0};

    assert_int_equal(fl_rdma_host_create(&o, &bed->host, &err), 0);
    TURN_UNTIL(bed, fl_rdma_host_step(bed->host) != 0);
    assert_int_equal(fl_rdma_host_step(bed->host), 1);
    for (uint32_t i = 0; i < NR_REQS; i++)
        fl_rdma_host_bind(bed->host, &bed->reqs[i], i);
    fl_rdma_host_set_capsule_len(bed->host, 4096);
}

static void bed_disconnect(struct bed *bed)
{
    if (bed->host)
        fl_rdma_host_destroy(bed->host);
    bed->host = NULL;
    TURN_UNTIL(bed, bed->script.nr_closed == bed->script.nr_opened);
    assert_int_equal(bed->script.nr_commands, bed->script.nr_released);
    assert_int_equal(bed->script.nr_buffers, 0);
}

static void bed_free(struct bed *bed)
{
    bed_disconnect(bed);
    fl_rdma_transport.unlisten(bed->listener);
    fl_loop_destroy(bed->loop);
    fl_shared_free(bed->buf, 2 * BUF_LEN);
}

static struct fl_request *request(struct bed *bed, int i, uint8_t opcode, uint32_t what, void *data,
                                  uint32_t len)
{
    struct fl_request *req = &bed->reqs[i];

    req->pdu.sqe.opcode = opcode;
    req->pdu.sqe.cdw10 = le32_of(what);
    req->pdu.sqe.cdw11 = le32_of(0);
    req->pdu.sqe.cdw12 = le32_of(len);
    bed->iov[i][0] = (struct iovec){data, len};
    req->iov = bed->iov[i];
    req->nr_iov = 1;
    req->iov_skip = 0;
    req->data_len = len;
    req->to_host = opcode == FL_NVME_CMD_READ;
    return req;
}

static fl_nvme_status finish(struct bed *bed, struct fl_request *req)
{
    fl_rdma_host_submit(bed->host, req);
    TURN_UNTIL(bed, req->state == FL_REQUEST_IDLE);
    return fl_nvme_cqe_status(&req->cqe);
}

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

static void nobody_listens(void **state)
{
    struct fl_error err = {0};
    struct bed bed;

    bed_listen(&bed);
    fl_addr_set_port(&bed.addr, 1);
    struct fl_rdma_host_options o = {
        .addrs = &bed.addr, .nr_addrs = 1, .sqsize = 31, .nr_reqs = NR_REQS, .done = done, .user = &bed};
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
    struct fl_rdma_host_options o = {
        .addrs = &bed.addr, .nr_addrs = 1, .sqsize = 32, .nr_reqs = NR_REQS, .done = done, .user = &bed};
    assert_int_equal(fl_rdma_host_create(&o, &bed.host, &err), 0); /* an admin queue of 33 entries */
    TURN_UNTIL(&bed, fl_rdma_host_step(bed.host) != 0);
    assert_non_null(strstr(fl_rdma_host_err(bed.host)->text, "submission queue"));
    assert_int_equal(bed.script.nr_opened, 0);
    bed_free(&bed);
}

/* A UDP port and a hub that no other test has */
static int use_own_port(void **state)
{
    char text[64];

    snprintf(text, sizeof(text), "%d", 20000 + (int)getpid() % 12000);
    setenv("FARLANE_ROCE_PORT", text, 1);
    snprintf(text, sizeof(text), "farlane-test-%d", (int)getpid());
    setenv("FARLANE_HUB", text, 1);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_and_writes),
        cmocka_unit_test(pieces),
        cmocka_unit_test(many),
        cmocka_unit_test(host_goes),
        cmocka_unit_test(host_goes_at_once),
        cmocka_unit_test(target_closes),
        cmocka_unit_test(wrong_memory),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(rejected_by_the_target),
    };

    return cmocka_run_group_tests_name("rdma", tests, use_own_port, NULL);
}
