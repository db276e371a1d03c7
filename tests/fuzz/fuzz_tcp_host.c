/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes from a target to the host's engine, with commands of all directions in flight. First byte: bits 0 and
 * 1 digests, 2 the input has its own ICResp, 3 many pieces of memory, 4 clear: small commands; 7:4 how much
 * is read at a time. Whatever comes: each command ends once, nothing outside its buffer is written, and a
 * broken stream stays broken.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric/tcp_host.h"

#define NR_REQS 4
#define LEN     32768u

struct fix {
    struct fl_tcp_host h;
    struct fl_request req[NR_REQS];
    struct iovec iov[NR_REQS][8];
    uint8_t *buf[NR_REQS]; /* of exactly LEN bytes, so that ASan sees the end */
    bool out[NR_REQS], many, small;
    uint32_t nr_submitted;
};

static void submit(struct fix *f, uint32_t slot)
{
    struct fl_request *req = &f->req[slot];
    uint32_t nr = f->many ? 8 : 1, each = LEN / nr - (f->many ? 1 : 0);

    assert(!f->out[slot]);
    f->out[slot] = true;
    f->nr_submitted++;
    for (uint32_t i = 0; i < nr; i++)
        f->iov[slot][i] = (struct iovec){f->buf[slot] + i * each, i == nr - 1 ? LEN - i * each : each};
    req->iov = f->iov[slot];
    req->nr_iov = nr;
    req->data_len = slot == 3 || f->small ? 4096 : LEN; /* one goes with its data in the capsule */
    req->to_host = slot < 2;
    fl_tcp_host_submit(&f->h, req);
}

static void done(struct fl_tcp_host *h, struct fl_request *req)
{
    struct fix *f = FL_CONTAINER_OF(h, struct fix, h);

    assert(f->out[req->slot]);
    f->out[req->slot] = false;
    if (f->nr_submitted < 64)
        submit(f, req->slot);
}

static void ready(struct fl_tcp_host *h)
{
    struct fix *f = FL_CONTAINER_OF(h, struct fix, h);

    for (uint32_t i = 0; i < NR_REQS; i++)
        submit(f, i);
}

static const struct fl_tcp_host_ops ops = {.ready = ready, .done = done};

static void drain(struct fix *f)
{
    struct iovec iov[FL_TCP_STREAM_IOV_MAX];

    fl_tcp_host_pump(&f->h);
    while (fl_tcp_stream_tx_pending(&f->h.stream)) {
        int nr = fl_tcp_stream_tx_iov(&f->h.stream, iov, FL_TCP_STREAM_IOV_MAX);
        size_t n = 0;

        for (int i = 0; i < nr; i++)
            n += iov[i].iov_len;
        fl_tcp_stream_tx_done(&f->h.stream, n);
        fl_tcp_host_pump(&f->h);
    }
}

static bool feed(struct fix *f, const uint8_t *p, size_t len, size_t chunk)
{
    while (len) {
        struct iovec iov[FL_TCP_STREAM_IOV_MAX];
        int nr = fl_tcp_host_rx_iov(&f->h, iov, FL_TCP_STREAM_IOV_MAX);
        size_t want = FL_MIN(len, chunk), n = 0;

        assert(nr > 0);
        for (int i = 0; i < nr && n < want; i++) {
            size_t k = FL_MIN(iov[i].iov_len, want - n);

            memcpy(iov[i].iov_base, p + n, k);
            n += k;
        }
        p += n;
        len -= n;
        if (fl_tcp_host_rx_done(&f->h, n) < 0) {
            assert(f->h.err.code == -EPROTO && f->h.err.text[0]);
            assert(fl_tcp_host_rx_iov(&f->h, iov, FL_TCP_STREAM_IOV_MAX) == 0);
            return false;
        }
        drain(f);
    }
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fix f = {0};
    struct fl_tcp_ic ic = {.pda = 4, .maxh2cdata = 4096};
    struct fl_tcp_host_options o = {.nr_reqs = NR_REQS, .max_data_len = LEN, .rx_cap = 16384, .guess = true};
    static const uint16_t chunks[16] = {65535, 1,    3,    7,    8,    24,   28,    100,
                                        512,   1000, 4096, 4120, 5000, 8192, 16384, 30000};
    union fl_tcp_pdu pdu;
    bool ok = true;

    if (!len)
        return 0;
    o.hdgst = ic.hdgst = data[0] & 1;
    o.ddgst = ic.ddgst = data[0] & 2;
    f.many = data[0] & 8;
    f.small = !(data[0] >> 4 & 1);
    assert(fl_tcp_host_init(&f.h, &ops, &o) == 0);
    for (uint32_t i = 0; i < NR_REQS; i++) {
        f.buf[i] = malloc(LEN);
        memset(f.buf[i], (int)i, LEN);
        fl_tcp_host_bind(&f.h, &f.req[i], i);
    }
    fl_tcp_host_start(&f.h);
    drain(&f);
    if (!(data[0] & 4)) {
        fl_tcp_ic_resp_encode(&pdu.ic_resp, &ic);
        ok = feed(&f, pdu.bytes, sizeof(pdu.ic_resp), 128);
        assert(ok);
    }
    feed(&f, data + 1, len - 1, chunks[data[0] >> 4]);
    drain(&f);
    fl_tcp_host_fini(&f.h);
    for (uint32_t i = 0; i < NR_REQS; i++) {
        assert(!f.req[i].nr_tx && !f.req[i].nr_r2t);
        free(f.buf[i]);
    }
    return 0;
}
