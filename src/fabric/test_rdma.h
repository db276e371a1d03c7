/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: both ends of NVMe/RDMA in one process, the target doing what the script says (test_script.h),
 * over verbs that are counted (test_verbs.h).
 */
#ifndef FL_FABRIC_TEST_RDMA_H
#define FL_FABRIC_TEST_RDMA_H

#include "base/unit.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/rdma_host.h"
#include "fabric/test_script.h"
#include "fabric/test_verbs.h"
#include "mem/shared.h"
#include "wire/nvme_rdma.h"

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

static void bed_listen_with(struct bed *bed, uint32_t shared_recv)
{
    struct fl_listen_options o = {.handler = &script_handler,
                                  .listener_user = &bed->script,
                                  .capsule_len = 4096,
                                  .shared_recv = shared_recv,
                                  .rdma = &test_lib};
    struct fl_error err = {0};

    memset(bed, 0, sizeof(*bed));
    test_verbs_init();
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

static void bed_listen(struct bed *bed)
{
    bed_listen_with(bed, 0);
}

static void bed_connect(struct bed *bed, uint16_t qid)
{
    struct fl_rdma_host_options o = {.lib = &test_lib,
                                     .addrs = &bed->addr,
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
    fl_rdma_host_set_limits(bed->host, 4096, FL_NVME_RDMA_MAX_PIECES);
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
    if (bed->listener)
        fl_rdma_transport.unlisten(bed->listener);
    fl_loop_destroy(bed->loop);
    fl_shared_free(bed->buf, 2 * BUF_LEN);
    test_verbs_check_empty();
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

#endif
