/* SPDX-License-Identifier: Apache-2.0 */
/* An RDMA host of ours against a target that is made of plain verbs and does what it must not, over the
 * software RNIC: each ends the connection with words, and after it nothing is left of verbs' objects. */
#include "base/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/rdma_host_parts.h"
#include "fabric/test_verbs.h"
#include "mem/shared.h"

#define CAPSULE 8192u
#define RECVS   8
#define DATA    65536u
#define BUF_LEN (1u << 20)
#define NR_REQS 8
#define WAIT_NS (20 * FL_NS_PER_S)

/* The target. */
struct liar {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *listener, *id;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t *mem; /* receives, then data */
    const void *rep;
    uint8_t rep_len;
    struct ibv_wc wcs[32];
    int nr_wcs;
    bool established, gone;
};

struct world {
    struct liar t;
    struct fl_addr addr;
    struct fl_rdma_host *host;
    struct fl_request reqs[NR_REQS];
    struct iovec iov[NR_REQS];
    uint8_t *buf; /* shared memory, registered once */
    int nr_done;
};

static void done(void *user, struct fl_request *req)
{
    struct world *w = user;

    w->nr_done++;
}

static uint8_t *recv_of(struct liar *t, uint64_t i)
{
    return t->mem + i * CAPSULE;
}

static uint8_t *data_of(struct liar *t)
{
    return t->mem + RECVS * CAPSULE;
}

static void post_recv(struct liar *t, uint64_t i)
{
    struct ibv_sge sge = {.addr = (uintptr_t)recv_of(t, i), .length = CAPSULE, .lkey = t->mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = i, .sg_list = &sge, .num_sge = 1};

    assert_int_equal(ibv_post_recv(t->id->qp, &wr, &bad), 0);
}

static void accept_host(struct liar *t, struct rdma_cm_event *event)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = 64, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};
    struct rdma_conn_param param = {.private_data = t->rep,
                                    .private_data_len = t->rep_len,
                                    .initiator_depth = event->param.conn.initiator_depth,
                                    .rnr_retry_count = 7};

    t->id = event->id;
    test_lib.cm->ack_cm_event(event);
    t->pd = test_lib.verbs->alloc_pd(t->id->verbs);
    t->mr = test_lib.verbs->reg_mr(t->pd, t->mem, RECVS * CAPSULE + DATA, IBV_ACCESS_LOCAL_WRITE);
    t->cq = test_lib.verbs->create_cq(t->id->verbs, 128, NULL, NULL, 0);
    attr.send_cq = attr.recv_cq = t->cq;
    assert_int_equal(test_lib.cm->create_qp(t->id, t->pd, &attr), 0);
    for (uint64_t i = 0; i < RECVS; i++)
        post_recv(t, i);
    assert_int_equal(test_lib.cm->accept(t->id, &param), 0);
}

static void liar_turn(struct liar *t)
{
    struct rdma_cm_event *event;

    while (!test_lib.cm->get_cm_event(t->channel, &event)) {
        enum rdma_cm_event_type type = event->event;

        if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
            accept_host(t, event);
            continue;
        }
        test_lib.cm->ack_cm_event(event);
        t->established |= type == RDMA_CM_EVENT_ESTABLISHED;
        t->gone |= type != RDMA_CM_EVENT_ESTABLISHED;
    }
    if (t->cq && t->nr_wcs < 32)
        t->nr_wcs += ibv_poll_cq(t->cq, 32 - t->nr_wcs, t->wcs + t->nr_wcs);
}

static void turn_both(struct world *w)
{
    liar_turn(&w->t);
    if (w->host && fl_rdma_host_step(w->host) > 0)
        fl_rdma_host_io(w->host);
}

#define UNTIL(w, condition)                    \
    do {                                       \
        uint64_t end_ = fl_now_ns() + WAIT_NS; \
        while (!(condition)) {                 \
            assert_true(fl_now_ns() < end_);   \
            turn_both(w);                      \
        }                                      \
    } while (0)

static void world_start(struct world *w)
{
    static struct fl_nvme_rdma_rep rep;
    struct liar *t = &w->t;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    memset(w, 0, sizeof(*w));
    for (uint32_t i = 0; i < NR_REQS; i++)
        fl_list_init(&w->reqs[i].link);
    test_verbs_init();
    fl_nvme_rdma_rep_encode(&rep, RECVS);
    t->rep = &rep;
    t->rep_len = sizeof(rep);
    t->mem = aligned_alloc(4096, RECVS * CAPSULE + DATA);
    w->buf = fl_shared_alloc(2 * BUF_LEN);
    t->channel = test_lib.cm->create_event_channel();
    assert_true(t->channel && w->buf);
    assert_int_equal(fcntl(t->channel->fd, F_SETFL, O_NONBLOCK), 0);
    assert_int_equal(test_lib.cm->create_id(t->channel, &t->listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(test_lib.cm->bind_addr(t->listener, (struct sockaddr *)&at), 0);
    assert_int_equal(test_lib.cm->listen(t->listener, 4), 0);
    at.sin_port = test_lib.cm->get_src_port(t->listener);
    assert_int_equal(fl_addr_from(&w->addr, (struct sockaddr *)&at, sizeof(at)), 0);
}

static void host_start(struct world *w)
{
    struct fl_rdma_host_options o = {.lib = &test_lib,
                                     .addrs = &w->addr,
                                     .nr_addrs = 1,
                                     .qid = 1,
                                     .sqsize = NR_REQS - 1,
                                     .nr_reqs = NR_REQS,
                                     .done = done,
                                     .user = w};
    struct fl_error err = {0};

    assert_int_equal(fl_rdma_host_create(&o, &w->host, &err), 0);
    for (uint32_t i = 0; i < NR_REQS; i++)
        fl_rdma_host_bind(w->host, &w->reqs[i], i);
    fl_rdma_host_set_limits(w->host, 4096, FL_NVME_RDMA_MAX_PIECES);
}

static void connect_both(struct world *w)
{
    host_start(w);
    UNTIL(w, fl_rdma_host_step(w->host) != 0);
    assert_int_equal(fl_rdma_host_step(w->host), 1);
}

static void drop_connection(struct liar *t, bool say_so)
{
    if (!t->id)
        return;
    if (say_so)
        (void)test_lib.cm->disconnect(t->id);
    test_lib.cm->destroy_qp(t->id);
    test_lib.verbs->destroy_cq(t->cq);
    test_lib.verbs->dereg_mr(t->mr);
    test_lib.verbs->dealloc_pd(t->pd);
    test_lib.cm->destroy_id(t->id);
    t->id = NULL;
    t->cq = NULL;
}

static void world_end(struct world *w)
{
    if (w->host)
        fl_rdma_host_destroy(w->host);
    for (uint32_t i = 0; i < NR_REQS; i++)
        assert_true(w->reqs[i].state == FL_REQUEST_IDLE && fl_list_empty(&w->reqs[i].link));
    drop_connection(&w->t, true);
    test_lib.cm->destroy_id(w->t.listener);
    test_lib.cm->destroy_event_channel(w->t.channel);
    test_verbs_check_empty();
    free(w->t.mem);
    fl_shared_free(w->buf, 2 * BUF_LEN);
}

static void submit(struct world *w, int i, uint8_t opcode, void *data, uint32_t len)
{
    struct fl_request *req = &w->reqs[i];

    req->pdu.sqe.opcode = opcode;
    w->iov[i] = (struct iovec){data, len};
    req->iov = &w->iov[i];
    req->nr_iov = 1;
    req->data_len = len;
    req->to_host = opcode == FL_NVME_CMD_READ;
    fl_rdma_host_submit(w->host, req);
}

/* ---- what it sends ---- */

/* The number-th capsule that came. */
static struct fl_nvme_sqe *capsule(struct world *w, int number)
{
    int seen = 0;

    UNTIL(w, w->t.nr_wcs > number);
    for (int i = 0; i < w->t.nr_wcs; i++)
        if (w->t.wcs[i].opcode == IBV_WC_RECV && seen++ == number) {
            assert_int_equal(w->t.wcs[i].status, IBV_WC_SUCCESS);
            return (struct fl_nvme_sqe *)(void *)recv_of(&w->t, w->t.wcs[i].wr_id);
        }
    fail_msg("there is no such capsule");
    return NULL;
}

static void post(struct liar *t, enum ibv_wr_opcode opcode, uint32_t len, uint64_t addr, uint32_t key)
{
    struct ibv_sge sge = {.addr = (uintptr_t)data_of(t), .length = len, .lkey = t->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};

    if (opcode == IBV_WR_SEND_WITH_INV)
        wr.invalidate_rkey = key;
    wr.wr.rdma.remote_addr = opcode == IBV_WR_SEND_WITH_INV ? 0 : addr;
    if (opcode != IBV_WR_SEND_WITH_INV)
        wr.wr.rdma.rkey = key;
    assert_int_equal(ibv_post_send(t->id->qp, &wr, &bad), 0);
}

static void put_response(struct liar *t, uint16_t cid)
{
    memset(data_of(t), 0, 64);
    fl_nvme_cqe_set((struct fl_nvme_cqe *)(void *)data_of(t), cid, 0, 0, 0);
}

static const struct fl_nvme_keyed_sgl *sgl_of(struct world *w)
{
    return (const struct fl_nvme_keyed_sgl *)(const void *)&capsule(w, 0)->sgl;
}

static void answers_twice(struct world *w)
{
    put_response(&w->t, le16_get(capsule(w, 0)->cid));
    post(&w->t, IBV_WR_SEND, 16, 0, 0);
    post(&w->t, IBV_WR_SEND, 16, 0, 0);
}

static void answers_another(struct world *w)
{
    put_response(&w->t, (uint16_t)(le16_get(capsule(w, 0)->cid) + 3));
    post(&w->t, IBV_WR_SEND, 16, 0, 0);
}

static void answers_before_it_is_asked(struct world *w)
{
    put_response(&w->t, 5); /* the first use of that slot, when it comes */
    post(&w->t, IBV_WR_SEND, 16, 0, 0);
}

static void is_short(struct world *w)
{
    put_response(&w->t, le16_get(capsule(w, 0)->cid));
    post(&w->t, IBV_WR_SEND, 15, 0, 0);
}

static void is_long(struct world *w)
{
    put_response(&w->t, le16_get(capsule(w, 0)->cid));
    post(&w->t, IBV_WR_SEND, 17, 0, 0);
}

static void is_very_long(struct world *w)
{
    put_response(&w->t, le16_get(capsule(w, 0)->cid));
    post(&w->t, IBV_WR_SEND, DATA, 0, 0);
}

static void invalidates_our_key(struct world *w)
{
    put_response(&w->t, le16_get(capsule(w, 0)->cid));
    post(&w->t, IBV_WR_SEND_WITH_INV, 16, 0, le32_get(sgl_of(w)->key));
}

static void invalidates_any_key(struct world *w)
{
    put_response(&w->t, le16_get(capsule(w, 0)->cid));
    post(&w->t, IBV_WR_SEND_WITH_INV, 16, 0, 0xbad00bad);
}

static void writes_with_immediate(struct world *w)
{
    post(&w->t, IBV_WR_RDMA_WRITE_WITH_IMM, 16, le64_get(sgl_of(w)->addr), le32_get(sgl_of(w)->key));
}

static void writes_past_the_end(struct world *w)
{
    post(&w->t, IBV_WR_RDMA_WRITE, DATA, le64_get(sgl_of(w)->addr) + 2 * BUF_LEN - 4096,
         le32_get(sgl_of(w)->key));
}

static void writes_before_the_beginning(struct world *w)
{
    post(&w->t, IBV_WR_RDMA_WRITE, 4096, le64_get(sgl_of(w)->addr) - 1, le32_get(sgl_of(w)->key));
}

static void writes_by_any_key(struct world *w)
{
    post(&w->t, IBV_WR_RDMA_WRITE, 4096, le64_get(sgl_of(w)->addr), le32_get(sgl_of(w)->key) ^ 0xff00);
}

static void reads_by_any_key(struct world *w)
{
    post(&w->t, IBV_WR_RDMA_READ, 4096, le64_get(sgl_of(w)->addr), le32_get(sgl_of(w)->key) ^ 0xff00);
}

static void says_good_bye(struct world *w)
{
    (void)test_lib.cm->disconnect(w->t.id);
}

static void goes(struct world *w)
{
    drop_connection(&w->t, false);
}

static void lies(void **state)
{
    static const struct {
        const char *what;
        void (*lie)(struct world *w);
        const char *words;
    } cases[] = {
        {"twice", answers_twice, "which it has not got, or had answered before"},
        {"another", answers_another, "which it has not got, or had answered before"},
        {"too early", answers_before_it_is_asked, "which it has not got, or had answered before"},
        {"short", is_short, "a response of 15 bytes"},
        {"long", is_long, "longer than 16 bytes"},
        {"very long", is_very_long, "longer than 16 bytes"},
        {"our key", invalidates_our_key, "target"},
        {"any key", invalidates_any_key, "target"},
        {"immediate", writes_with_immediate, "it wrote with an immediate"},
        {"past the end", writes_past_the_end, "used memory that is not open to it"},
        {"before the beginning", writes_before_the_beginning, "used memory that is not open to it"},
        {"write, any key", writes_by_any_key, "used memory that is not open to it"},
        {"read, any key", reads_by_any_key, "used memory that is not open to it"},
        {"DREQ", says_good_bye, "the target closed the connection"},
        {"gone without a word", goes, "target"},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int waits = 0; waits < 2; waits++) {
            struct world w;
            const struct fl_error *err;

            world_start(&w);
            connect_both(&w);
            memset(w.buf, 0x77, BUF_LEN);
            submit(&w, 0, FL_NVME_CMD_READ, w.buf, 4096);
            submit(&w, 1, FL_NVME_CMD_WRITE, w.buf + 8192, 65536);
            (void)capsule(&w, 0);
            if (waits)
                UNTIL(&w, fl_rdma_host_arm(w.host) || w.host->armed);
            cases[i].lie(&w);
            err = fl_rdma_host_err(w.host);
            for (uint64_t end = fl_now_ns() + WAIT_NS; !err->code; turn_both(&w))
                if (fl_now_ns() > end)
                    fail_msg("%s: the host does not notice", cases[i].what);
            if (!strstr(err->text, cases[i].words) || !strstr(err->text, "target"))
                fail_msg("%s: \"%s\"", cases[i].what, err->text);
            for (uint32_t k = 4096; k < BUF_LEN; k++)
                if (w.buf[k] != 0x77)
                    fail_msg("%s: byte %u was written", cases[i].what, k);
            world_end(&w);
        }
    }
}

/* What is no reply of NVMe/RDMA's, as it comes through the connection manager, which fills it up with zeroes.
 */
static void replies(void **state)
{
    static const uint8_t format[32] = {1, 0, 8}, none[32];
    static const struct {
        const void *rep;
        uint8_t len;
        const char *words;
    } cases[] = {{NULL, 0, "CRQSIZE is 0"},
                 {none, 32, "CRQSIZE is 0"},
                 {none, 3, "CRQSIZE is 0"},
                 {format, 32, "no NVMe/RDMA target"}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct world w;

        world_start(&w);
        w.t.rep = cases[i].rep;
        w.t.rep_len = cases[i].len;
        host_start(&w);
        UNTIL(&w, fl_rdma_host_step(w.host) != 0);
        assert_int_equal(fl_rdma_host_step(w.host), -EPROTO);
        if (!strstr(fl_rdma_host_err(w.host)->text, cases[i].words))
            fail_msg("%s", fl_rdma_host_err(w.host)->text);
        world_end(&w);
    }
}

/* Either side goes after so many turns of its own, with and without a word: at each moment from the first
 * message of the connect to the answer of a command. */
static void each_moment(void **state)
{
    for (int who = 0; who < 4; who++) {
        for (int turns = 0; turns < 40; turns++) {
            struct world w;
            bool say_so = who & 1;

            world_start(&w);
            host_start(&w);
            for (int i = 0; i < turns; i++) {
                turn_both(&w);
                if (i >= 20 && fl_rdma_host_step(w.host) > 0 && w.reqs[i % NR_REQS].state == FL_REQUEST_IDLE)
                    submit(&w, i % NR_REQS, i & 1 ? FL_NVME_CMD_READ : FL_NVME_CMD_WRITE, w.buf, 65536);
                if (i >= 25 && w.t.id && w.t.nr_wcs && w.t.wcs[0].opcode == IBV_WC_RECV)
                    post(&w.t, IBV_WR_RDMA_READ, 4096, le64_get(sgl_of(&w)->addr), le32_get(sgl_of(&w)->key));
                usleep(turns % 4 * 100);
            }
            if (who < 2) {
                drop_connection(&w.t, say_so);
                if (turns > 30 && fl_rdma_host_step(w.host) > 0)
                    UNTIL(&w, fl_rdma_host_step(w.host) < 0);
            } else {
                fl_rdma_host_destroy(w.host);
                w.host = NULL;
                if (w.t.id && w.t.established)
                    UNTIL(&w, w.t.gone);
            }
            world_end(&w);
        }
    }
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(lies), cmocka_unit_test(replies),
                                       cmocka_unit_test(each_moment)};

    return cmocka_run_group_tests_name("rdma_liar", tests, use_own_port, NULL);
}
