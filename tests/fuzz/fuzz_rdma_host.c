/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a target may do to the host's NVMe/RDMA connection, over verbs made here (fabric/test_host_verbs.h).
 *
 * Byte 0: bits 1:0 how many receives the target says it has, 2 an admin queue, 3 the input says what the
 * connection manager brings (else it connects), 5:4 IOCCSZ and MSDBD, 6 done() submits again, 7 something
 * cannot be made, the next byte says what. Then steps: a byte, and what belongs to it.
 *
 * Whatever comes: each request ends once at most, nothing outside its buffer is written, a broken connection
 * stays broken and has words for it, and at the end nothing of verbs' is left.
 */
#include "fuzz.h"

#include <stdbool.h>

#include "base/util.h"
#include "fabric/rdma_host.h"
#include "fabric/test_host_verbs.h"
#include "input.h"
#include "mem/shared.h"

#define NR_REQS 5
#define LEN     8192u /* of each buffer */
#define MOST    96u   /* submits */

static struct fuzz {
    struct input in;
    struct fl_rdma_host *host;
    struct fl_request req[NR_REQS];
    struct iovec iov[NR_REQS][4];
    uint8_t *heap[NR_REQS]; /* of exactly LEN bytes, so that ASan sees the end */
    bool out[NR_REQS], again;
    uint32_t nr_submits;
} f;

static uint8_t *shared; /* registered for good: of all inputs, since to make it costs more than all else */

static void submit(uint32_t slot, uint8_t what)
{
    static const uint32_t lens[] = {0, 1, 512, LEN};
    struct fl_request *req = &f.req[slot];
    uint32_t len = lens[what & 3], nr = 1 + (what >> 2 & 3);
    uint8_t *data = what & 16 ? shared + slot * LEN : f.heap[slot];

    if (f.out[slot] || f.nr_submits++ >= MOST)
        return;
    f.out[slot] = true;
    for (uint32_t i = 0; i < nr; i++) {
        uint32_t from = i * (LEN / nr), most = i + 1 == nr ? LEN - from : LEN / nr;

        f.iov[slot][i] = (struct iovec){data + from, most};
    }
    req->iov = f.iov[slot];
    req->nr_iov = nr;
    req->iov_skip = what & 32 && len <= LEN / 2 ? LEN / 2 : 0;
    req->data_len = len;
    req->to_host = what & 64;
    fl_rdma_host_submit(f.host, req);
}

static void done(void *user, struct fl_request *req)
{
    assert(f.out[req->slot] && fl_list_empty(&req->link));
    assert(req->state == FL_REQUEST_IDLE || req->state == FL_REQUEST_UNSENT);
    f.out[req->slot] = false;
    if (f.again)
        submit(req->slot, byte(&f.in));
}

/* A command that was sent: the number-th of those that are known, or any cid. */
static uint16_t some_cid(uint8_t what)
{
    if (what & 0x80)
        return (uint16_t)(what << 8 | byte(&f.in));
    return f.req[what % NR_REQS].cid;
}

/* As a target does it that does no wrong, through the key that it was given. */
static void write_data(const struct fl_request *req)
{
    const struct fl_nvme_keyed_sgl *sgl = (const struct fl_nvme_keyed_sgl *)(const void *)&req->pdu.sqe.sgl;
    uint32_t len = le24_get(sgl->len);
    uint8_t *at;

    if (!f.out[req->slot] || !req->to_host || sgl->type != FL_NVME_SGL_KEYED)
        return;
    at = len ? hv_memory(le64_get(sgl->addr), len, le32_get(sgl->key)) : NULL;
    if (at)
        memset(at, byte(&f.in), len);
}

static void anything(void)
{
    static const enum ibv_wc_opcode opcodes[] = {IBV_WC_RECV, IBV_WC_RECV, IBV_WC_RECV,
                                                 IBV_WC_RECV_RDMA_WITH_IMM};
    uint8_t how = byte(&f.in), bytes[64];
    uint32_t len = how & 4 ? 16 : byte(&f.in) % sizeof(bytes);
    struct ibv_wc wc = {.opcode = opcodes[how & 3]};

    take(&f.in, bytes, sizeof(struct fl_nvme_cqe));
    if (how & 8)
        wc.wc_flags |= IBV_WC_WITH_IMM;
    if (how & 16) {
        wc.wc_flags |= IBV_WC_WITH_INV;
        wc.invalidated_rkey = how & 32 ? hv.next_key : 0xbad;
    }
    if (how & 64)
        wc.status = (enum ibv_wc_status)(byte(&f.in) % 24);
    hv_deliver(bytes, len, &wc);
}

static void cm_says(void)
{
    uint8_t what = byte(&f.in), len = byte(&f.in), data[256];

    take(&f.in, data, len);
    hv_event((enum rdma_cm_event_type)(what & 31), what >> 5 == 7 ? 28 : what >> 5, len == 255 ? NULL : data,
             len);
}

static void move_on(void)
{
    int before = fl_rdma_host_err(f.host)->code, r = fl_rdma_host_step(f.host);

    assert(!before || r == before);
    if (r > 0)
        r = fl_rdma_host_io(f.host);
    if (r < 0) {
        assert(fl_rdma_host_err(f.host)->code == r && strlen(fl_rdma_host_err(f.host)->text) > 10);
        assert(!fl_rdma_host_err(f.host)->text[sizeof(fl_rdma_host_err(f.host)->text) - 1]);
    }
}

static bool connected(void)
{
    return fl_rdma_host_step(f.host) > 0;
}

static void step(void)
{
    uint8_t what = byte(&f.in), more;

    switch (what % 10) {
    case 0:
    case 1:
        more = byte(&f.in);
        if (connected())
            submit(more % NR_REQS, (uint8_t)(what / 10 * 8 + more / NR_REQS));
        break;
    case 2:
    case 3:
        hv_sent(what == 13 ? (enum ibv_wc_status)(byte(&f.in) % 24) : IBV_WC_SUCCESS);
        break;
    case 4:
    case 5:
        more = byte(&f.in);
        if (what & 32)
            write_data(&f.req[more % NR_REQS]);
        hv_respond(some_cid(more), what & 64 ? (fl_nvme_status)(byte(&f.in) | byte(&f.in) << 8) : 0);
        break;
    case 6:
        anything();
        break;
    case 7:
        if (what == 7)
            cm_says();
        else if (what == 17)
            hv_event(RDMA_CM_EVENT_DISCONNECTED, 0, NULL, 0);
        else
            fl_rdma_host_peek(f.host);
        break;
    case 8:
        if (connected())
            fl_rdma_host_arm(f.host);
        break;
    default:
        move_on();
    }
}

static void begin(uint8_t form)
{
    static const uint32_t capsule_lens[] = {0, 16, 4096, 65536};
    struct fl_nvme_rdma_rep rep;

    if (!(form & 8)) {
        hv_event(RDMA_CM_EVENT_ADDR_RESOLVED, 0, NULL, 0);
        hv_event(RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL, 0);
        fl_nvme_rdma_rep_encode(&rep, 1 + (form & 3) * 2);
        hv_event(RDMA_CM_EVENT_ESTABLISHED, 0, &rep, sizeof(rep));
        move_on();
    }
    for (uint32_t i = 0; i < NR_REQS; i++)
        fl_rdma_host_bind(f.host, &f.req[i], i);
    fl_rdma_host_set_limits(f.host, capsule_lens[form >> 4 & 3], form >> 4 & 3 ? 4 : 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fl_addr addr;
    struct fl_rdma_host_options o = {.lib = &hv_lib,
                                     .addrs = &addr,
                                     .nr_addrs = 1,
                                     .dev = "soft",
                                     .sqsize = NR_REQS,
                                     .nr_reqs = NR_REQS,
                                     .done = done};
    struct fl_error err = {0};
    uint8_t form;

    memset(&f, 0, sizeof(f));
    f.in = (struct input){data, data + len};
    hv_init();
    if (!shared)
        shared = fl_shared_alloc(NR_REQS * LEN);
    assert(shared && fl_addr_parse("127.0.0.1:4420", 0, &addr, &err) == 0);
    form = byte(&f.in);
    o.qid = form & 4 ? 0 : 1;
    f.again = form & 64;
    hv.fail_in = form & 128 ? 1 + byte(&f.in) % 32 : 0;
    if (fl_rdma_host_create(&o, &f.host, &err) < 0) {
        assert(err.text[0]);
        hv_check_empty();
        return 0;
    }
    for (uint32_t i = 0; i < NR_REQS; i++) {
        f.heap[i] = malloc(LEN);
        memset(f.heap[i], (int)i, LEN);
    }
    begin(form);
    while (f.in.at < f.in.end)
        step();
    move_on();
    fl_rdma_host_destroy(f.host);
    hv_check_empty();
    for (uint32_t i = 0; i < NR_REQS; i++) {
        assert(f.req[i].state != FL_REQUEST_SENT && fl_list_empty(&f.req[i].link));
        free(f.heap[i]);
    }
    return 0;
}
