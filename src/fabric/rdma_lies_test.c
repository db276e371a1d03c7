/* SPDX-License-Identifier: Apache-2.0 */
/* A target that lies to an RDMA host: each lie ends in an error that says what the target did, and in nothing
 * else: the host's memory, its requests and verbs' objects are as they should be. */
#include "base/unit.h"

#include "fabric/rdma_host_parts.h"
#include "fabric/test_host_verbs.h"
#include "mem/shared.h"

#define NR_REQS 4
#define LEN     8192u

struct fix {
    struct fl_rdma_host *host;
    struct fl_addr addr;
    struct fl_request req[NR_REQS];
    struct iovec iov[NR_REQS][2];
    uint8_t *heap, *shared; /* registered for its request; for good */
    int nr_done[NR_REQS];
    bool again; /* done() submits it once more */
};

static void done(void *user, struct fl_request *req)
{
    struct fix *f = user;

    f->nr_done[req->slot]++;
    if (f->again)
        fl_rdma_host_submit(f->host, req);
}

static void start(struct fix *f)
{
    struct fl_rdma_host_options o = {.lib = &hv_lib,
                                     .addrs = &f->addr,
                                     .nr_addrs = 1,
                                     .dev = "soft",
                                     .qid = 1,
                                     .sqsize = NR_REQS,
                                     .nr_reqs = NR_REQS,
                                     .done = done,
                                     .user = f};
    struct fl_error err = {0};

    memset(f, 0, sizeof(*f));
    for (uint32_t i = 0; i < NR_REQS; i++)
        fl_list_init(&f->req[i].link);
    hv_init();
    assert_int_equal(fl_addr_parse("127.0.0.1:4420", 0, &f->addr, &err), 0);
    f->heap = malloc(LEN);
    f->shared = fl_shared_alloc(LEN);
    assert_non_null(f->shared);
    memset(f->heap, 0x11, LEN);
    memset(f->shared, 0x22, LEN);
    if (fl_rdma_host_create(&o, &f->host, &err) < 0)
        fail_msg("%s", err.text);
}

static int step(struct fix *f)
{
    return fl_rdma_host_step(f->host);
}

static void start_connect(struct fix *f)
{
    start(f);
    hv_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
    assert_int_equal(step(f), 0);
    hv_event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
    assert_int_equal(step(f), 0);
    assert_true(hv.connecting);
}

static void connect_with(struct fix *f, uint32_t nr_recv)
{
    struct fl_nvme_rdma_rep rep;

    start_connect(f);
    fl_nvme_rdma_rep_encode(&rep, nr_recv);
    hv_event(RDMA_CM_EVENT_ESTABLISHED, 0, &rep, sizeof(rep));
    assert_int_equal(step(f), 1);
    for (uint32_t i = 0; i < NR_REQS; i++)
        fl_rdma_host_bind(f->host, &f->req[i], i);
}

static void stop(struct fix *f)
{
    fl_rdma_host_destroy(f->host);
    for (uint32_t i = 0; i < NR_REQS; i++)
        assert_true(f->req[i].state != FL_REQUEST_SENT && fl_list_empty(&f->req[i].link));
    hv_check_empty();
    free(f->heap);
    fl_shared_free(f->shared, LEN);
}

static uint16_t submit(struct fix *f, uint32_t slot, bool to_host, uint8_t *data, uint32_t len)
{
    struct fl_request *req = &f->req[slot];

    f->iov[slot][0] = (struct iovec){data, len};
    req->iov = f->iov[slot];
    req->nr_iov = len ? 1 : 0;
    req->data_len = len;
    req->to_host = to_host;
    req->pdu.sqe.opcode = to_host ? FL_NVME_CMD_READ : FL_NVME_CMD_WRITE;
    fl_rdma_host_submit(f->host, req);
    return req->cid;
}

/* It ends with this code, and each of these words is in the text; what comes after it changes nothing. */
static void expect_end(struct fix *f, const char *what, int code, const char *words)
{
    const struct fl_error *err = fl_rdma_host_err(f->host);
    char first[sizeof(err->text)];

    for (int i = 0; i < 10 && !err->code; i++)
        if (step(f) > 0)
            fl_rdma_host_io(f->host);
    if (err->code != code || !strstr(err->text, words) || !strstr(err->text, "target"))
        fail_msg("%s: %d, \"%s\"", what, err->code, err->text);
    strcpy(first, err->text);
    hv_respond(f->req[0].cid, 0);
    hv_event(RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    assert_int_equal(fl_rdma_host_io(f->host), code);
    assert_int_equal(step(f), code);
    assert_true(fl_rdma_host_peek(f->host));
    assert_string_equal(err->text, first);
}

/* ---- connecting ---- */

static void replies_that_are_none(void **state)
{
    static const uint8_t zeroes[196], format_1[32] = {1, 0, 8}, of_an_older_kind[32] = {0, 0, 0, 0, 9};
    static const struct {
        const char *what;
        const void *data;
        uint8_t len;
        const char *words;
    } cases[] = {
        {"no private data", NULL, 0,
         "127.0.0.1:4420 is no NVMe/RDMA target: the reply to the connect has 0 bytes"},
        {"nothing in it", zeroes, 0, "is no NVMe/RDMA target: the reply to the connect has 0 bytes"},
        {"too short", zeroes, 31, "has 31 bytes of private data; check address and port"},
        {"another format", format_1, 32,
         "has 32 bytes of private data of another format; check address and port"},
        {"all zero, as long as a REP's", zeroes, 196, "it says that it has no receives (CRQSIZE is 0)"},
        {"CRQSIZE 0", of_an_older_kind, 32, "it says that it has no receives (CRQSIZE is 0)"},
    };

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fix f;

        start_connect(&f);
        hv_event(RDMA_CM_EVENT_ESTABLISHED, 0, cases[i].data, cases[i].len);
        expect_end(&f, cases[i].what, -EPROTO, cases[i].words);
        stop(&f);
    }
}

static void rejections(void **state)
{
    static const uint8_t zeroes[148], format_1[4] = {1, 0, 6}, no_resources[148] = {0, 0, 6},
                                      hsqsize[4] = {0, 0, 4}, unheard_of[4] = {0, 0, 0xff, 0xff};
    static const struct {
        const char *what;
        int reason;
        const void *data;
        uint8_t len;
        const char *words;
    } cases[] = {
        {"no resources", 28, no_resources, 148,
         "the target rejected the connection: no resources (status 6): fewer"},
        {"a long queue", 28, hsqsize, 4, "submission queue (status 4): shorter queues may help"},
        {"a status that nobody knows", 28, unheard_of, 4, "unknown status (status 65535)"},
        {"no private data", 28, NULL, 0,
         "gives no reason of NVMe/RDMA: check address and port (CM reason 28)"},
        {"nothing but zeroes", 28, zeroes, 148, "gives no reason of NVMe/RDMA"},
        {"too short", 28, no_resources, 3, "gives no reason of NVMe/RDMA"},
        {"another format", 28, format_1, 4, "gives no reason of NVMe/RDMA"},
        {"another program's reason with NVMe's data", 3, no_resources, 4, "try again later (CM reason 3)"},
        {"stale", 10, NULL, 0, "127.0.0.1:4420 rejected the connection: it still has an earlier"},
        {"a reason that nobody knows", 4711, zeroes, 148, "(CM reason 4711)"},
    };

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fix f;
        int code;

        start_connect(&f);
        hv_event(RDMA_CM_EVENT_REJECTED, cases[i].reason, cases[i].data, cases[i].len);
        code = step(&f);
        if (code != -ECONNREFUSED || !strstr(fl_rdma_host_err(f.host)->text, cases[i].words))
            fail_msg("%s: %d, \"%s\"", cases[i].what, code, fl_rdma_host_err(f.host)->text);
        stop(&f);
    }
}

/* At each moment of connecting, whatever the connection manager says then. */
static void ends_while_connecting(void **state)
{
    static const enum rdma_cm_event_type types[] = {
        RDMA_CM_EVENT_ADDR_ERROR,      RDMA_CM_EVENT_ROUTE_ERROR,     RDMA_CM_EVENT_CONNECT_ERROR,
        RDMA_CM_EVENT_UNREACHABLE,     RDMA_CM_EVENT_REJECTED,        RDMA_CM_EVENT_DISCONNECTED,
        RDMA_CM_EVENT_DEVICE_REMOVAL,  RDMA_CM_EVENT_ADDR_CHANGE,     RDMA_CM_EVENT_CONNECT_REQUEST,
        RDMA_CM_EVENT_MULTICAST_ERROR, RDMA_CM_EVENT_CONNECT_RESPONSE};

    for (uint32_t i = 0; i < FL_ARRAY_LEN(types); i++) {
        for (int when = 0; when < 4; when++) {
            struct fix f;

            start(&f);
            if (when > 0)
                hv_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
            if (when > 1)
                hv_event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
            if (when < 3)
                assert_int_equal(step(&f), 0);
            hv_event(types[i], 0, NULL, 0);
            assert_true(step(&f) < 0);
            assert_true(strlen(fl_rdma_host_err(f.host)->text) > 10);
            assert_true(step(&f) < 0);
            stop(&f);
        }
    }
}

/* ---- responses ---- */

static void free_slot(struct fix *f)
{
    hv_respond((uint16_t)(f->req[0].cid ^ 3), 0);
}

static void no_such_slot(struct fix *f)
{
    hv_respond(0xffff, 0);
}

static void old_generation(struct fix *f)
{
    hv_respond((uint16_t)(f->req[0].cid - NR_REQS), 0);
}

static void twice(struct fix *f)
{
    hv_respond(f->req[0].cid, 0);
    hv_respond(f->req[0].cid, 0);
}

static void twice_before_the_send_is_done(struct fix *f)
{
    hv_respond(f->req[2].cid, 0); /* has its data in the capsule */
    hv_respond(f->req[2].cid, FL_NVME_SC_INTERNAL);
}

static void of_length(uint32_t len, uint16_t cid)
{
    const struct ibv_wc how = {.opcode = IBV_WC_RECV};
    uint8_t bytes[64] = {0};

    fl_nvme_cqe_set((struct fl_nvme_cqe *)(void *)bytes, cid, 0, 0, 0);
    hv_deliver(bytes, len, &how);
}

static void empty(struct fix *f)
{
    of_length(0, f->req[0].cid);
}

static void one_byte_short(struct fix *f)
{
    of_length(15, f->req[0].cid);
}

static void one_byte_long(struct fix *f)
{
    of_length(17, f->req[0].cid);
}

static void longer(struct fix *f)
{
    of_length(64, f->req[0].cid);
}

static void with(struct fix *f, const struct ibv_wc *how)
{
    struct fl_nvme_cqe cqe;

    fl_nvme_cqe_set(&cqe, f->req[0].cid, 0, 0, 0);
    hv_deliver(&cqe, sizeof(cqe), how);
}

static void invalidates_the_key_of_the_command(struct fix *f)
{
    const struct fl_nvme_keyed_sgl *sgl = (const struct fl_nvme_keyed_sgl *)&f->req[0].pdu.sqe.sgl;
    const struct ibv_wc how = {
        .opcode = IBV_WC_RECV, .wc_flags = IBV_WC_WITH_INV, .invalidated_rkey = le32_get(sgl->key)};

    with(f, &how);
}

static void invalidates_a_foreign_key(struct fix *f)
{
    const struct ibv_wc how = {
        .opcode = IBV_WC_RECV, .wc_flags = IBV_WC_WITH_INV, .invalidated_rkey = 0xdeadbeef};

    with(f, &how);
}

static void writes_with_immediate(struct fix *f)
{
    const struct ibv_wc how = {.opcode = IBV_WC_RECV_RDMA_WITH_IMM, .wc_flags = IBV_WC_WITH_IMM};

    hv_deliver(NULL, 16, &how);
}

static void send_fails(enum ibv_wc_status status)
{
    assert_true(hv_sent(status));
}

static void no_receives(struct fix *f)
{
    send_fails(IBV_WC_RNR_RETRY_EXC_ERR);
}

static void short_receives(struct fix *f)
{
    send_fails(IBV_WC_REM_INV_REQ_ERR);
}

static void is_mute(struct fix *f)
{
    send_fails(IBV_WC_RETRY_EXC_ERR);
}

static void cannot_take_it(struct fix *f)
{
    send_fails(IBV_WC_REM_OP_ERR);
}

static void flushed(struct fix *f)
{
    hv_deliver(NULL, 0, &(struct ibv_wc){.status = IBV_WC_WR_FLUSH_ERR});
}

static void receive_fails(struct fix *f)
{
    hv_deliver(NULL, 0, &(struct ibv_wc){.status = IBV_WC_LOC_PROT_ERR});
}

static void says_good_bye(struct fix *f)
{
    hv_event(RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
    hv_deliver(NULL, 0, &(struct ibv_wc){.status = IBV_WC_WR_FLUSH_ERR});
}

static void lies_of_a_connected_target(void **state)
{
    static const struct {
        const char *what;
        void (*lie)(struct fix *f);
        int code;
        const char *words;
    } cases[] = {
        {"a slot that is free", free_slot, -EPROTO,
         "broke the NVMe/RDMA protocol: it answered command 7, which it"},
        {"no such slot", no_such_slot, -EPROTO, "it answered command 65535, which it has not got"},
        {"an earlier use of the slot", old_generation, -EPROTO,
         "it answered command 0, which it has not got"},
        {"twice", twice, -EPROTO, "it answered command 4, which it has not got, or had answered before"},
        {"twice, the SEND being under way", twice_before_the_send_is_done, -EPROTO, "or had answered before"},
        {"empty", empty, -EPROTO,
         "it sent a response of 0 bytes, which must have 16; that is a fault of the target's"},
        {"short", one_byte_short, -EPROTO, "it sent a response of 15 bytes, which must have 16"},
        {"long", one_byte_long, -EPROTO, "it sent a response that is longer than 16 bytes"},
        {"longer", longer, -EPROTO, "it sent a response that is longer than 16 bytes"},
        {"its key invalidated", invalidates_the_key_of_the_command, -EPROTO, "which it was not asked to"},
        {"a foreign key invalidated", invalidates_a_foreign_key, -EPROTO,
         "invalidates the key deadbeefh, which it"},
        {"WRITE with immediate", writes_with_immediate, -EPROTO,
         "it wrote with an immediate where a response"},
        {"no receives", no_receives, -ECONNRESET, "though it said that it has 4 (CRQSIZE)"},
        {"short receives", short_receives, -ECONNRESET,
         "its receives may be shorter than it says (IOCCSZ, 4096"},
        {"mute", is_mute, -ECONNRESET, "the target does not answer any more"},
        {"it cannot take it", cannot_take_it, -ECONNRESET,
         "a command could not be sent to the target: the peer"},
        {"flushed", flushed, -ECONNRESET, "the target is gone, or used memory that is not open to it"},
        {"our receive", receive_fails, -ECONNRESET,
         "a response of the target could not be received: our memory"},
        {"DREQ", says_good_bye, -ECONNRESET, "the target closed the connection"},
    };

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fix f;

        connect_with(&f, 4);
        fl_rdma_host_set_limits(f.host, 4096, FL_NVME_RDMA_MAX_PIECES);
        submit(&f, 0, true, f.heap, LEN); /* the slot has a generation behind it then */
        assert_true(hv_respond(f.req[0].cid, 0));
        assert_true(hv_sent(IBV_WC_SUCCESS));
        assert_int_equal(fl_rdma_host_io(f.host), 0);
        assert_int_equal(f.nr_done[0], 1);
        submit(&f, 0, true, f.heap, LEN);
        submit(&f, 1, false, f.heap, LEN);
        submit(&f, 2, false, f.shared, 512);
        assert_int_equal(hv.nr_sends, 3);
        cases[i].lie(&f);
        expect_end(&f, cases[i].what, cases[i].code, cases[i].words);
        assert_true(f.nr_done[0] <= 2 && f.nr_done[1] == 0 && f.nr_done[2] == 0);
        stop(&f);
    }
}

/* A command that waits for a receive of the target's has a number that can be guessed. */
static void answer_to_what_was_not_sent_yet(void **state)
{
    for (int again = 0; again < 2; again++) {
        struct fix f;

        connect_with(&f, 1);
        f.again = again;
        for (uint32_t i = 0; i < 3; i++)
            submit(&f, i, true, f.shared, 512);
        assert_int_equal(hv.nr_sends, 1);
        hv_respond(f.req[0].cid, 0);
        hv_respond(f.req[1].cid, 0);
        expect_end(&f, "answered before it was sent", -EPROTO, "it answered command 1, which it has not got");
        assert_int_equal(f.nr_done[0], 1);
        assert_int_equal(f.nr_done[1], 0);
        stop(&f);
    }
}

/* All of them are the owner's to judge, and none is the connection's end. */
static void every_status(void **state)
{
    struct fix f;

    connect_with(&f, 4);
    for (uint32_t status = 0; status < 0x8000; status += status < 0x1000 ? 1 : 0x101) {
        submit(&f, 0, true, f.heap, LEN);
        assert_true(hv_sent(IBV_WC_SUCCESS));
        assert_true(hv_respond(f.req[0].cid, (fl_nvme_status)status));
        assert_int_equal(fl_rdma_host_io(f.host), 0);
        assert_int_equal(f.req[0].state, FL_REQUEST_IDLE);
        assert_int_equal(le16_get(f.req[0].cqe.status), status << 1);
        assert_false(hv_memory((uintptr_t)f.heap, LEN, hv.next_key)); /* not open any more */
    }
    stop(&f);
}

/* What is said to have been read, and was not: nothing of other memory gets into the buffer. */
static void data_that_was_not_written(void **state)
{
    struct fix f;

    connect_with(&f, 4);
    fl_rdma_host_set_limits(f.host, 0, 1);
    for (int what = 0; what < 4; what++) {
        struct fl_request *req = &f.req[0];
        bool failed = what & 1, partly = what & 2;
        const struct fl_nvme_keyed_sgl *sgl = (const struct fl_nvme_keyed_sgl *)&req->pdu.sqe.sgl;

        memset(f.heap, 0x11, LEN);
        f.iov[0][0] = (struct iovec){f.heap, 1000}; /* two pieces: they go through one beside */
        f.iov[0][1] = (struct iovec){f.heap + 2000, 3000};
        req->iov = f.iov[0];
        req->nr_iov = 2;
        req->data_len = 4000;
        req->to_host = true;
        fl_rdma_host_submit(f.host, req);
        assert_int_equal(le24_get(sgl->len), 4000);
        if (partly)
            memset(hv_memory(le64_get(sgl->addr), 4000, le32_get(sgl->key)), 0x33, 10);
        assert_true(hv_sent(IBV_WC_SUCCESS));
        assert_true(hv_respond(req->cid, failed ? FL_NVME_SC_INTERNAL : 0));
        assert_int_equal(fl_rdma_host_io(f.host), 0);
        for (uint32_t i = 0; i < 5000; i++) {
            bool in = i < 1000 || i >= 2000;
            uint8_t want = !in || failed ? 0x11 : partly && i < 10 ? 0x33 : 0;

            if (f.heap[i] != want)
                fail_msg("case %d: byte %u is %02x", what, i, f.heap[i]);
        }
    }
    stop(&f);
}

/* FFFFh is no command in the error log. */
static void no_command_is_ffff(void **state)
{
    enum { MANY = 256 };
    static struct fl_request reqs[MANY];
    struct fl_rdma_host_options o = {.lib = &hv_lib,
                                     .nr_addrs = 1,
                                     .dev = "soft",
                                     .qid = 1,
                                     .sqsize = MANY,
                                     .nr_reqs = MANY,
                                     .done = done};
    struct fl_nvme_rdma_rep rep;
    struct fl_error err = {0};
    struct fix f;

    start(&f);
    fl_rdma_host_destroy(f.host);
    o.addrs = &f.addr;
    o.user = &f;
    memset(reqs, 0, sizeof(reqs));
    assert_int_equal(fl_rdma_host_create(&o, &f.host, &err), 0);
    fl_nvme_rdma_rep_encode(&rep, MANY);
    hv_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
    hv_event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
    hv_event(RDMA_CM_EVENT_ESTABLISHED, 0, &rep, sizeof(rep));
    assert_int_equal(step(&f), 1);
    fl_rdma_host_bind(f.host, &reqs[MANY - 1], MANY - 1);
    memset(f.nr_done, 0, sizeof(f.nr_done));
    for (int i = 0; i < 600; i++) {
        struct fl_request *req = &reqs[MANY - 1];

        fl_rdma_host_submit(f.host, req);
        assert_int_not_equal(req->cid, 0xffff);
        assert_true(hv_sent(IBV_WC_SUCCESS));
        /* done() counts by slot: not of those that f has room for */
        req->slot = 0;
        assert_true(hv_respond(req->cid, 0));
        assert_int_equal(fl_rdma_host_io(f.host), 0);
        req->slot = MANY - 1;
        assert_int_equal(f.nr_done[0], i + 1);
    }
    stop(&f);
}

/* Each call that makes something fails once, in each of these, and nothing is left. */
static void memory_is_short(void **state)
{
    bool went_through = false;

    for (long n = 1; !went_through; n++) {
        struct fl_nvme_rdma_rep rep;
        struct fl_error err = {0};
        struct fix f;
        struct fl_rdma_host_options o = {.lib = &hv_lib,
                                         .nr_addrs = 1,
                                         .dev = "soft",
                                         .qid = 1,
                                         .sqsize = NR_REQS,
                                         .nr_reqs = NR_REQS,
                                         .done = done,
                                         .user = &f};

        start(&f);
        fl_rdma_host_destroy(f.host);
        hv.fail_in = n;
        o.addrs = &f.addr;
        fl_nvme_rdma_rep_encode(&rep, 4);
        if (fl_rdma_host_create(&o, &f.host, &err) < 0) {
            assert_true(strlen(err.text) > 10);
            hv_check_empty();
            free(f.heap);
            fl_shared_free(f.shared, LEN);
            continue;
        }
        hv_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
        hv_event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
        hv_event(RDMA_CM_EVENT_ESTABLISHED, 0, &rep, sizeof(rep));
        if (step(&f) > 0) {
            fl_rdma_host_bind(f.host, &f.req[0], 0);
            submit(&f, 0, true, f.heap, LEN);
            if (hv.fail_in)
                went_through = true;
            else
                assert_int_equal(fl_rdma_host_io(f.host), 0);
        } else {
            assert_true(strlen(fl_rdma_host_err(f.host)->text) > 10);
        }
        stop(&f);
    }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(replies_that_are_none), cmocka_unit_test(rejections),
                       cmocka_unit_test(ends_while_connecting), cmocka_unit_test(lies_of_a_connected_target),
                       cmocka_unit_test(answer_to_what_was_not_sent_yet), cmocka_unit_test(every_status),
                       cmocka_unit_test(data_that_was_not_written), cmocka_unit_test(no_command_is_ffff),
                       cmocka_unit_test(memory_is_short));
}
