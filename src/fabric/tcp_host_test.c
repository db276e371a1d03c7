/* SPDX-License-Identifier: Apache-2.0 */
/* The host's engine against a controller that sends just what it is told to. */
#include "base/unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/crc.h"
#include "base/util.h"
#include "fabric/tcp_host.h"

#define NR_REQS 4
#define BUF_LEN (300u << 10)
#define OUT_LEN (2u << 20)
#define MAXH2C  8192u

struct fix {
    struct fl_tcp_host h;
    struct fl_request req[NR_REQS];
    struct iovec iov[NR_REQS][8];
    uint8_t *buf[NR_REQS];
    int nr_done[NR_REQS];
    int nr_ready;
    bool hdgst, ddgst;
    uint32_t chunk; /* bytes fed at a time; 0: all */
    uint8_t *out;
    size_t out_len;
};

static bool guess; /* the tests run without it and with it */

static void ready(struct fl_tcp_host *h)
{
    FL_CONTAINER_OF(h, struct fix, h)->nr_ready++;
}

static void done(struct fl_tcp_host *h, struct fl_request *req)
{
    FL_CONTAINER_OF(h, struct fix, h)->nr_done[req->slot]++;
}

static const struct fl_tcp_host_ops ops = {.ready = ready, .done = done};

/* What the engine wants sent goes to f->out. */
static void take(struct fix *f)
{
    struct iovec iov[FL_TCP_STREAM_IOV_MAX];

    f->out_len = 0;
    fl_tcp_host_pump(&f->h);
    while (fl_tcp_stream_tx_pending(&f->h.stream)) {
        int nr = fl_tcp_stream_tx_iov(&f->h.stream, iov, 3);
        size_t n = 0;

        for (int i = 0; i < nr; i++) {
            assert_true(f->out_len + iov[i].iov_len <= OUT_LEN);
            memcpy(f->out + f->out_len, iov[i].iov_base, iov[i].iov_len);
            f->out_len += iov[i].iov_len;
            n += iov[i].iov_len;
        }
        fl_tcp_stream_tx_done(&f->h.stream, n);
        fl_tcp_host_pump(&f->h);
    }
}

static int feed(struct fix *f, const void *bytes, size_t len)
{
    const uint8_t *p = bytes;

    while (len) {
        struct iovec iov[FL_TCP_STREAM_IOV_MAX];
        int nr = fl_tcp_host_rx_iov(&f->h, iov, FL_TCP_STREAM_IOV_MAX);
        size_t limit = f->chunk ? FL_MIN(len, (size_t)f->chunk) : len, n = 0;

        if (!nr)
            return -EPROTO;
        for (int i = 0; i < nr && n < limit; i++) {
            size_t k = FL_MIN(iov[i].iov_len, limit - n);

            memcpy(iov[i].iov_base, p + n, k);
            n += k;
        }
        p += n;
        len -= n;
        if (fl_tcp_host_rx_done(&f->h, n) < 0)
            return -EPROTO;
    }
    return 0;
}

/* A PDU as the controller sends it. Returns its length. */
static size_t make_pdu(const struct fix *f, uint8_t *out, union fl_tcp_pdu *pdu, uint8_t type, uint8_t flags,
                       const void *data, uint32_t len)
{
    uint8_t hlen = fl_tcp_hlen(type);
    bool dgst = type > FL_TCP_C2H_TERM;
    uint32_t plen = fl_tcp_hdr_set(&pdu->hdr, type, flags, hlen, dgst && f->hdgst, dgst && f->ddgst && len, 4,
                                   len);
    le32 crc;

    memcpy(out, pdu, hlen);
    if (pdu->hdr.flags & FL_TCP_F_HDGST) {
        crc = le32_of(fl_crc32c(0, out, hlen));
        memcpy(out + hlen, &crc, 4);
    }
    if (len)
        memcpy(out + pdu->hdr.pdo, data, len);
    if (pdu->hdr.flags & FL_TCP_F_DDGST) {
        crc = le32_of(fl_crc32c(0, data, len));
        memcpy(out + plen - 4, &crc, 4);
    }
    return plen;
}

static size_t make_data(const struct fix *f, uint8_t *out, uint16_t cid, uint32_t off, const void *data,
                        uint32_t len, uint8_t flags)
{
    union fl_tcp_pdu pdu = {.data = {.cccid = le16_of(cid), .datao = le32_of(off), .datal = le32_of(len)}};

    return make_pdu(f, out, &pdu, FL_TCP_C2H_DATA, flags, data, len);
}

static size_t make_resp(const struct fix *f, uint8_t *out, uint16_t cid, fl_nvme_status status)
{
    union fl_tcp_pdu pdu = {0};

    fl_nvme_cqe_set(&pdu.resp.cqe, cid, 0, 7, status);
    return make_pdu(f, out, &pdu, FL_TCP_RESP, 0, NULL, 0);
}

static size_t make_r2t(const struct fix *f, uint8_t *out, uint16_t cid, uint16_t ttag, uint32_t off,
                       uint32_t len)
{
    union fl_tcp_pdu pdu = {
        .r2t = {.cccid = le16_of(cid), .ttag = le16_of(ttag), .r2to = le32_of(off), .r2tl = le32_of(len)}};

    return make_pdu(f, out, &pdu, FL_TCP_R2T, 0, NULL, 0);
}

/* Connected, four slots with buffers of a pattern. */
static struct fix *connected(bool hdgst, bool ddgst, uint32_t chunk)
{
    const struct fl_tcp_host_options o = {.hdgst = hdgst,
                                          .ddgst = ddgst,
                                          .nr_reqs = NR_REQS,
                                          .max_data_len = BUF_LEN,
                                          .rx_cap = 64u << 10,
                                          .guess = guess};
    struct fl_tcp_ic ic = {.hdgst = hdgst, .ddgst = ddgst, .pda = 4, .maxh2cdata = MAXH2C};
    struct fix *f = calloc(1, sizeof(*f));
    union fl_tcp_pdu pdu;

    f->chunk = chunk;
    f->out = malloc(OUT_LEN);
    assert_int_equal(fl_tcp_host_init(&f->h, &ops, &o), 0);
    for (uint32_t i = 0; i < NR_REQS; i++) {
        f->buf[i] = malloc(BUF_LEN);
        for (uint32_t k = 0; k < BUF_LEN; k++)
            f->buf[i][k] = (uint8_t)(k * 7 + k / 251 + i);
        fl_tcp_host_bind(&f->h, &f->req[i], i);
    }
    fl_tcp_host_start(&f->h);
    take(f);
    assert_int_equal(f->out_len, 128);
    fl_tcp_ic_resp_encode(&pdu.ic_resp, &ic);
    assert_int_equal(feed(f, &pdu, 128), 0);
    assert_int_equal(f->nr_ready, 1);
    f->hdgst = hdgst;
    f->ddgst = ddgst;
    return f;
}

static void destroy(struct fix *f)
{
    fl_tcp_host_fini(&f->h);
    for (uint32_t i = 0; i < NR_REQS; i++) {
        assert_int_equal(f->req[i].nr_tx, 0);
        free(f->buf[i]);
    }
    free(f->out);
    free(f);
}

/* Submits len bytes of slot's buffer, in nr pieces. Returns the command identifier. */
static uint16_t submit(struct fix *f, uint32_t slot, bool to_host, uint32_t len, uint32_t nr)
{
    struct fl_request *req = &f->req[slot];
    uint32_t at = 0;

    for (uint32_t i = 0; i < nr; i++) {
        uint32_t n = i == nr - 1 ? len - at : len / nr | 1;

        f->iov[slot][i] = (struct iovec){f->buf[slot] + at, n};
        at += n;
    }
    req->iov = f->iov[slot];
    req->nr_iov = nr;
    req->iov_skip = 0;
    req->data_len = len;
    req->to_host = to_host;
    req->pdu.sqe.opcode = to_host ? FL_NVME_CMD_READ : FL_NVME_CMD_WRITE;
    fl_tcp_host_submit(&f->h, req);
    return req->cid;
}

static fl_nvme_status status_of(const struct fix *f, uint32_t slot)
{
    return fl_nvme_cqe_status(&f->req[slot].cqe);
}

static void expect_fault(struct fix *f, uint16_t fes)
{
    const struct fl_tcp_term *term = (const void *)f->out;

    assert_int_equal(f->h.err.code, -EPROTO);
    take(f);
    assert_true(f->out_len >= sizeof(*term));
    assert_int_equal(term->hdr.type, FL_TCP_H2C_TERM);
    assert_int_equal(le32_get(term->hdr.plen), f->out_len);
    assert_int_equal(le16_get(term->fes), fes);
}

/* ---- */

/*
 * The memory of one read goes away, in the middle of it or before anything has come; another goes on. The engine is asked
 * as a socket's EFAULT would have it asked, and puts no byte there from then on.
 */
static void read_without_memory_is_thrown_away(void **state)
{
    const uint32_t len = 12288;
    uint8_t *map = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint8_t *wire = malloc(64u << 10);

    assert_ptr_not_equal(map, MAP_FAILED);
    for (uint32_t first = 0; first <= 24 + 4096; first += 20) {
        struct fix *f = connected(first & 4, first & 8, first % 3 ? 0 : 100);
        uint16_t bad, good;
        size_t n;

        memset(f->buf[0], 1, len);
        memset(f->buf[1], 1, len);
        f->iov[0][0] = (struct iovec){f->buf[0], 4096};
        f->iov[0][1] = (struct iovec){map, 8192};
        f->req[0].iov = f->iov[0];
        f->req[0].nr_iov = 2;
        f->req[0].data_len = len;
        f->req[0].to_host = true;
        fl_tcp_host_submit(&f->h, &f->req[0]);
        bad = f->req[0].cid;
        good = submit(f, 1, true, len, 1);
        n = make_data(f, wire, bad, 0, f->buf[2], len, FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS);
        n += make_data(f, wire + n, good, 0, f->buf[3], len, FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS);
        assert_int_equal(feed(f, wire, first), 0);
        assert_false(fl_tcp_host_bad_memory(&f->h));
        assert_int_equal(mprotect(map, 8192, PROT_READ), 0);
        assert_true(fl_tcp_host_bad_memory(&f->h));
        assert_false(fl_tcp_host_bad_memory(&f->h)); /* it is known */
        assert_int_equal(feed(f, wire + first, n - first), 0);
        assert_int_equal(f->nr_done[0], 1);
        assert_int_equal(f->req[0].state, FL_REQUEST_UNSENT);
        assert_int_equal(le32_get(f->req[0].cqe.dw0), EFAULT);
        assert_true(status_of(f, 0) != 0);
        assert_int_equal(f->req[0].nr_iov, 2);
        assert_int_equal(f->nr_done[1], 1);
        assert_int_equal(status_of(f, 1), 0);
        assert_memory_equal(f->buf[1], f->buf[3], len);
        assert_int_equal(f->h.nr_sent, 0);
        /* With its memory back it is as good as any, and guesses begin again. */
        assert_int_equal(mprotect(map, 8192, PROT_READ | PROT_WRITE), 0);
        fl_tcp_host_submit(&f->h, &f->req[0]);
        n = make_data(f, wire, f->req[0].cid, 0, f->buf[2], len, FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS);
        assert_int_equal(feed(f, wire, n), 0);
        assert_int_equal(status_of(f, 0), 0);
        assert_memory_equal(map, f->buf[2] + 4096, 8192);
        assert_int_equal(f->h.guess.order != NULL, guess);
        /* The connection ends while one is known to be bad. */
        fl_tcp_host_submit(&f->h, &f->req[0]);
        assert_int_equal(mprotect(map, 8192, PROT_READ), 0);
        assert_true(fl_tcp_host_bad_memory(&f->h));
        destroy(f);
        assert_int_equal(mprotect(map, 8192, PROT_READ | PROT_WRITE), 0);
    }
    munmap(map, 8192);
    free(wire);
}

static void asks_for_the_connection(void **state)
{
    const struct fl_tcp_host_options o = {.hdgst = true, .nr_reqs = 1, .max_data_len = 4096};
    static const uint8_t icreq[16] = {0,
                                      0,
                                      128,
                                      0,
                                      128,
                                      0,
                                      0,
                                      0,
                                      /* PFV */ 0,
                                      0,
                                      /* HPDA */ 0,
                                      /* DGST */ 1,
                                      /* MAXR2T, 0's based */ 3,
                                      0,
                                      0,
                                      0};
    struct fix f = {.out = malloc(OUT_LEN)};

    assert_int_equal(fl_tcp_host_init(&f.h, &ops, &o), 0);
    fl_tcp_host_start(&f.h);
    take(&f);
    assert_int_equal(f.out_len, 128);
    assert_memory_equal(f.out, icreq, sizeof(icreq));
    fl_tcp_host_fini(&f.h);
    free(f.out);
}

/* The capsule of a read, byte for byte. */
static void sends_a_capsule(void **state)
{
    struct fix *f = connected(false, false, 0);
    static const uint8_t head[] = {4, 0, 72, 0, 72, 0, 0, 0, /* opcode, PSDT */ 2, 0x40};
    static const uint8_t sgl[16] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0x5a};
    uint16_t cid = submit(f, 1, true, 4096, 1);

    take(f);
    assert_int_equal(f->out_len, 72);
    assert_memory_equal(f->out, head, sizeof(head));
    assert_int_equal(f->out[10] | f->out[11] << 8, cid);
    assert_memory_equal(f->out + 8 + 24, sgl, sizeof(sgl));
    destroy(f);
}

static const uint32_t chunks[] = {0, 1, 7, 24, 4096};

static void reads_with_every_split(void **state)
{
    uint8_t *pdus = malloc(OUT_LEN), *data = malloc(BUF_LEN);

    for (uint32_t k = 0; k < BUF_LEN; k++)
        data[k] = (uint8_t)(k * 31 + 1);
    for (uint32_t c = 0; c < FL_ARRAY_LEN(chunks); c++) {
        for (uint32_t dg = 0; dg < 4; dg++) {
            for (uint32_t nr = 1; nr <= 5; nr += 2) {
                struct fix *f = connected(dg & 1, dg & 2, chunks[c]);
                uint16_t a = submit(f, 0, true, 100000, nr), b = submit(f, 1, true, 4096, nr);
                size_t n = make_data(f, pdus, a, 0, data, 60000, 0);

                n += make_data(f, pdus + n, b, 0, data, 4096, FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS);
                n += make_data(f, pdus + n, a, 60000, data + 60000, 40000, FL_TCP_F_DATA_LAST);
                n += make_resp(f, pdus + n, a, 0);
                assert_int_equal(feed(f, pdus, n), 0);
                assert_int_equal(f->nr_done[0], 1);
                assert_int_equal(f->nr_done[1], 1);
                assert_int_equal(status_of(f, 0), 0);
                assert_int_equal(le32_get(f->req[0].cqe.dw0), 7);
                assert_int_equal(status_of(f, 1), 0);
                assert_memory_equal(f->buf[0], data, 100000);
                assert_memory_equal(f->buf[1], data, 4096);
                assert_int_equal(f->h.nr_sent, 0);
                destroy(f);
            }
        }
    }
    free(pdus);
    free(data);
}

/* Small reads answered in order for a while and then not, in all sorts of pieces: right data, each once. */
static void reads_in_any_order(void **state)
{
    uint8_t *pdus = malloc(OUT_LEN), *data = malloc(BUF_LEN);
    uint64_t seed = 1;

    for (uint32_t round = 0; round < 300; round++) {
        struct fix *f = connected(false, false, round % 3 == 0 ? 0 : round * 37 % 9000 + 1);
        uint16_t cid[NR_REQS];
        uint32_t len[NR_REQS];

        for (uint32_t turn = 0; turn < 12; turn++) {
            bool disorder = round % 4 && turn % 5 == 4;
            size_t n = 0;

            for (uint32_t i = 0; i < NR_REQS; i++) {
                seed = seed * 6364136223846793005u + 1;
                len[i] = round & 1 ? 4096 : ((uint32_t)(seed >> 40) % 2500 + 1) * 4;
                memset(f->buf[i], 0xee, len[i] + 1);
                cid[i] = submit(f, i, true, len[i], round % 7 == 6 && i == 2 ? 3 : 1);
            }
            take(f);
            for (uint32_t k = 0; k < NR_REQS; k++) {
                uint32_t i = disorder ? (k * 3 + turn) % NR_REQS : k;
                uint8_t flags = FL_TCP_F_DATA_LAST | (disorder && turn & 1 ? 0 : FL_TCP_F_DATA_SUCCESS);

                memset(data, cid[i] & 0xff, len[i]);
                n += make_data(f, pdus + n, cid[i], 0, data, len[i], flags);
                if (!(flags & FL_TCP_F_DATA_SUCCESS))
                    n += make_resp(f, pdus + n, cid[i], 0);
            }
            assert_int_equal(feed(f, pdus, n), 0);
            for (uint32_t i = 0; i < NR_REQS; i++) {
                assert_int_equal(f->nr_done[i], turn + 1);
                assert_int_equal(status_of(f, i), 0);
                for (uint32_t b = 0; b < len[i]; b++)
                    assert_int_equal(f->buf[i][b], cid[i] & 0xff);
                assert_int_equal(f->buf[i][len[i]], 0xee);
            }
        }
        assert_int_equal(f->h.nr_sent, 0);
        destroy(f);
    }
    free(pdus);
    free(data);
}

static void writes_in_the_capsule(void **state)
{
    struct fix *f = connected(true, true, 0);
    uint8_t pdu[64];
    uint16_t cid = submit(f, 2, false, 8192, 3);
    const struct fl_tcp_cmd *cmd = (const void *)f->out;
    uint32_t crc;

    take(f);
    assert_int_equal(f->out_len, 72 + 4 + 8192 + 4);
    assert_int_equal(cmd->hdr.pdo, 76);
    assert_int_equal(cmd->sqe.sgl.type, FL_NVME_SGL_OFFSET);
    assert_int_equal(le32_get(cmd->sqe.sgl.len), 8192);
    assert_memory_equal(f->out + 76, f->buf[2], 8192);
    crc = fl_crc32c(0, f->buf[2], 8192);
    assert_memory_equal(f->out + 76 + 8192, &crc, 4);
    assert_int_equal(feed(f, pdu, make_resp(f, pdu, cid, 0)), 0);
    assert_int_equal(f->nr_done[2], 1);

    /* The next command of that slot has no data, so it has no data digest. */
    cid = submit(f, 2, false, 0, 0);
    take(f);
    assert_int_equal(f->out_len, 72 + 4);
    assert_int_equal(cmd->hdr.flags, FL_TCP_F_HDGST);
    assert_int_equal(feed(f, pdu, make_resp(f, pdu, cid, 0)), 0);
    assert_int_equal(f->nr_done[2], 2);
    destroy(f);
}

/* Walks H2CData in f->out; returns how many, and puts their data together. */
static int collect_h2c(struct fix *f, uint8_t *data, uint32_t *len, uint16_t ttag)
{
    size_t at = 0;
    int nr = 0;

    *len = 0;
    while (at < f->out_len) {
        const struct fl_tcp_data *d = (const void *)(f->out + at);
        uint32_t n = le32_get(d->datal);

        if (d->hdr.type == FL_TCP_H2C_DATA && le16_get(d->ttag) == ttag) {
            assert_true(n <= MAXH2C);
            memcpy(data + le32_get(d->datao), f->out + at + d->hdr.pdo, n);
            *len += n;
            nr++;
        }
        at += le32_get(d->hdr.plen);
    }
    assert_int_equal(at, f->out_len);
    return nr;
}

/* T7: at the limit, below it, and one block above. */
static void case_T7_h2cdata_at_the_limit(void **state)
{
    static const struct {
        uint32_t len;
        int nr;
    } cases[] = {
        {MAXH2C, 1}, {MAXH2C - 4, 1}, {MAXH2C + 512, 2}, {BUF_LEN, BUF_LEN / MAXH2C + !!(BUF_LEN % MAXH2C)}};
    uint8_t *data = malloc(BUF_LEN), pdu[64];

    for (uint32_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fix *f = connected(i & 1, i & 2, 0);
        uint16_t cid;
        uint32_t len;

        f->h.capsule_len = 0;
        cid = submit(f, 0, false, cases[i].len, 1 + i);
        take(f);
        assert_int_equal(((const struct fl_tcp_cmd *)f->out)->sqe.sgl.type, FL_NVME_SGL_TRANSPORT);
        assert_int_equal(feed(f, pdu, make_r2t(f, pdu, cid, 77, 0, cases[i].len)), 0);
        take(f);
        assert_int_equal(collect_h2c(f, data, &len, 77), cases[i].nr);
        assert_int_equal(len, cases[i].len);
        assert_memory_equal(data, f->buf[0], len);
        assert_int_equal(feed(f, pdu, make_resp(f, pdu, cid, 0)), 0);
        assert_int_equal(f->nr_done[0], 1);
        assert_int_equal(status_of(f, 0), 0);
        destroy(f);
    }
    free(data);
}

static void answers_several_r2ts(void **state)
{
    struct fix *f = connected(false, false, 0);
    uint8_t pdus[512], *data = malloc(BUF_LEN);
    uint16_t a, b;
    uint32_t len;
    size_t n = 0;

    f->h.capsule_len = 0;
    a = submit(f, 0, false, 64000, 1);
    b = submit(f, 1, false, 20000, 2);
    for (uint32_t i = 0; i < 4; i++)
        n += make_r2t(f, pdus + n, a, (uint16_t)(10 + i), i * 16000, 16000);
    n += make_r2t(f, pdus + n, b, 50, 0, 20000);
    assert_int_equal(feed(f, pdus, n), 0);
    take(f);
    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(collect_h2c(f, data, &len, (uint16_t)(10 + i)), 2);
        assert_int_equal(len, 16000);
    }
    assert_memory_equal(data, f->buf[0], 64000);
    assert_int_equal(collect_h2c(f, data, &len, 50), 3);
    assert_memory_equal(data, f->buf[1], 20000);
    destroy(f);
    free(data);
}

/* The buffer stays ours until the bytes have left, even when the controller has answered. */
static void holds_the_buffer_until_it_was_sent(void **state)
{
    struct fix *f = connected(false, false, 0);
    uint8_t pdu[64];
    uint16_t cid = submit(f, 0, false, 4096, 1);

    assert_int_equal(feed(f, pdu, make_resp(f, pdu, cid, FL_NVME_SC_LBA_RANGE)), 0);
    assert_int_equal(f->nr_done[0], 0);
    take(f);
    assert_int_equal(f->nr_done[0], 1);
    assert_int_equal(status_of(f, 0), FL_NVME_SC_LBA_RANGE);
    destroy(f);
}

static void identifiers_are_not_used_twice_in_a_row(void **state)
{
    struct fix *f = connected(false, false, 0);
    uint8_t pdu[64];
    uint16_t last = 0;

    for (int i = 0; i < 70000; i++) {
        uint16_t cid = submit(f, 3, true, 0, 1);

        assert_true(cid != last && cid != UINT16_MAX && (cid & 3) == 3);
        last = cid;
        take(f);
        assert_int_equal(feed(f, pdu, make_resp(f, pdu, cid, 0)), 0);
    }
    assert_int_equal(f->nr_done[3], 70000);
    destroy(f);
}

/* A capsule without data after one with data, in the same slot. */
static void slots_are_used_again_for_anything(void **state)
{
    struct fix *f = connected(true, true, 0);
    uint8_t pdu[64];

    for (int i = 0; i < 4; i++) {
        bool write = !(i & 1);
        uint16_t cid = submit(f, 0, !write, 4096, 1);
        const struct fl_tcp_cmd *cmd = (const void *)f->out;

        take(f);
        assert_int_equal(cmd->hdr.flags, write ? FL_TCP_F_HDGST | FL_TCP_F_DDGST : FL_TCP_F_HDGST);
        assert_int_equal(cmd->hdr.pdo, write ? 76 : 0);
        assert_int_equal(f->out_len, write ? 76 + 4096 + 4 : 76);
        assert_int_equal(feed(f, pdu, make_resp(f, pdu, cid, FL_NVME_SC_INTERNAL)), 0);
    }
    destroy(f);
}

/* T4: HLEN is compared with what the type has, before any use of it. */
static void case_T4_wrong_header_length(void **state)
{
    static const uint8_t types[] = {FL_TCP_RESP, FL_TCP_C2H_DATA, FL_TCP_R2T, FL_TCP_C2H_TERM};

    for (uint32_t i = 0; i < FL_ARRAY_LEN(types); i++) {
        for (uint32_t hlen = 0; hlen < 256; hlen++) {
            struct fix *f = connected(true, true, 0);
            uint8_t bytes[512] = {types[i], 0, (uint8_t)hlen, 28, 0, 1};

            if (types[i] != FL_TCP_C2H_TERM)
                bytes[1] = FL_TCP_F_HDGST | (types[i] == FL_TCP_C2H_DATA ? FL_TCP_F_DDGST : 0);
            submit(f, 0, true, 4096, 1);
            take(f);
            assert_int_equal(feed(f, bytes, sizeof(bytes)), -EPROTO);
            if (hlen != fl_tcp_hlen(types[i]))
                expect_fault(f, FL_TCP_FES_HEADER);
            assert_int_equal(f->nr_done[0], 0);
            destroy(f);
        }
    }
}

/* T9: SUCCESS ends the command once; without LAST, or with a response capsule besides, the connection ends.
 */
static void case_T9_success_flag(void **state)
{
    uint8_t *pdus = malloc(OUT_LEN);
    struct fix *f = connected(false, false, 0);
    uint16_t cid = submit(f, 0, true, 4096, 1);
    size_t n = make_data(f, pdus, cid, 0, f->buf[3], 4096, FL_TCP_F_DATA_SUCCESS);

    take(f);
    assert_int_equal(feed(f, pdus, n), -EPROTO);
    assert_int_equal(f->nr_done[0], 0);
    expect_fault(f, FL_TCP_FES_HEADER);
    destroy(f);

    for (int reused = 0; reused < 2; reused++) {
        f = connected(false, false, 0);
        cid = submit(f, 0, true, 4096, 1);
        n = make_data(f, pdus, cid, 0, f->buf[3], 4096, FL_TCP_F_DATA_SUCCESS | FL_TCP_F_DATA_LAST);
        assert_int_equal(feed(f, pdus, n), 0);
        assert_int_equal(f->nr_done[0], 1);
        take(f);
        if (reused) /* the next command in the slot must not be taken for answered */
            submit(f, 0, true, 4096, 1);
        take(f);
        assert_int_equal(feed(f, pdus, make_resp(f, pdus, cid, 0)), -EPROTO);
        assert_int_equal(f->nr_done[0], 1);
        expect_fault(f, FL_TCP_FES_SEQUENCE);
        destroy(f);
    }
    free(pdus);
}

/* T11: a data digest error fails one command, which may be tried again; a header digest error ends the
 * connection. */
static void case_T11_digest_errors(void **state)
{
    uint8_t *pdus = malloc(OUT_LEN);

    for (int success = 0; success < 2; success++) {
        struct fix *f = connected(true, true, 5);
        uint16_t a = submit(f, 0, true, 4096, 1), b = submit(f, 1, true, 4096, 1);
        size_t n = make_data(f, pdus, a, 0, f->buf[3], 4096,
                             success ? FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS : FL_TCP_F_DATA_LAST);

        pdus[success ? 1000 : n - 1] ^= 1; /* in the data, and in the digest */
        if (!success)
            n += make_resp(f, pdus + n, a, 0);
        n += make_data(f, pdus + n, b, 0, f->buf[3], 4096, FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS);
        assert_int_equal(feed(f, pdus, n), 0);
        assert_int_equal(status_of(f, 0), FL_NVME_SC_TRANSIENT_TRANSPORT);
        assert_int_equal(f->nr_done[0], 1);
        assert_int_equal(status_of(f, 1), 0);
        assert_int_equal(f->nr_done[1], 1);

        a = submit(f, 0, true, 4096, 1);
        n = make_data(f, pdus, a, 0, f->buf[3], 4096, FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS);
        pdus[25] ^= 0x10;
        take(f);
        assert_int_equal(feed(f, pdus, n), -EPROTO);
        assert_int_equal(f->nr_done[0], 1);
        expect_fault(f, FL_TCP_FES_HDGST);
        destroy(f);
    }
    free(pdus);
}

/* Success without all of the data is no success. */
static void case_T9_short_data(void **state)
{
    uint8_t *pdus = malloc(OUT_LEN);
    struct fix *f = connected(false, false, 0);
    uint16_t a = submit(f, 0, true, 4096, 1), b = submit(f, 1, true, 4096, 1), c;
    size_t n = make_data(f, pdus, a, 0, f->buf[3], 512, FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS);

    n += make_resp(f, pdus + n, b, 0);
    f->h.capsule_len = 0;
    c = submit(f, 2, false, 4096, 1);
    n += make_resp(f, pdus + n, c, 0);
    assert_int_equal(feed(f, pdus, n), 0);
    for (int i = 0; i < 3; i++)
        assert_int_equal(status_of(f, (uint32_t)i), FL_NVME_SC_TRANSIENT_TRANSPORT);
    destroy(f);
    free(pdus);
}

struct bad {
    const char *what;
    uint16_t fes;
    size_t (*make)(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t capsule);
};

static size_t data_no_such_slot(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    f->h.nr_reqs = 3; /* slot 3 does not exist */
    return make_data(f, out, rd | 3, 0, f->buf[3], 512, 0);
}
static size_t data_free_slot(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_data(f, out, 3, 0, f->buf[3], 512, 0);
}
static size_t data_old_generation(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_data(f, out, (uint16_t)(rd + 4), 0, f->buf[3], 512, 0);
}
static size_t data_for_a_write(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_data(f, out, wr, 0, f->buf[3], 512, 0);
}
static size_t data_out_of_order(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_data(f, out, rd, 512, f->buf[3], 512, 0);
}
static size_t data_twice(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    size_t n = make_data(f, out, rd, 0, f->buf[3], 512, 0);

    return n + make_data(f, out + n, rd, 0, f->buf[3], 512, 0);
}
static size_t data_past_the_end(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_data(f, out, rd, 0, f->buf[3], 65536 + 4, 0);
}
static size_t data_datal_lies(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    size_t n = make_data(f, out, rd, 0, f->buf[3], 512, 0);

    out[16] ^= 4;
    return n;
}
static size_t r2t_for_a_read(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_r2t(f, out, rd, 1, 0, 512);
}
static size_t r2t_for_capsule_data(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_r2t(f, out, cap, 1, 0, 512);
}
static size_t r2t_past_the_end(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_r2t(f, out, wr, 1, 65536 - 512, 1024);
}
static size_t r2t_wraps(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_r2t(f, out, wr, 1, 0xfffffe00u, 1024);
}
static size_t r2t_empty(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_r2t(f, out, wr, 1, 0, 0);
}
static size_t r2t_too_much(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    size_t n = make_r2t(f, out, wr, 1, 0, 65536);

    return n + make_r2t(f, out + n, wr, 2, 0, 512);
}
static size_t r2t_too_many(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    size_t n = 0;

    for (uint16_t i = 0; i < FL_REQUEST_NR_R2T + 1; i++)
        n += make_r2t(f, out + n, wr, i, i * 512u, 512);
    return n;
}
static size_t resp_free_slot(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    return make_resp(f, out, 3, 0);
}
static size_t resp_twice(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    size_t n = make_resp(f, out, rd, FL_NVME_SC_INTERNAL);

    return n + make_resp(f, out + n, rd, FL_NVME_SC_INTERNAL);
}
static size_t second_ic_resp(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    struct fl_tcp_ic ic = {.pda = 4, .maxh2cdata = MAXH2C};

    fl_tcp_ic_resp_encode((struct fl_tcp_ic_resp *)out, &ic);
    return 128;
}
static size_t host_pdu(struct fix *f, uint8_t *out, uint16_t rd, uint16_t wr, uint16_t cap)
{
    union fl_tcp_pdu pdu = {0};

    return make_pdu(f, out, &pdu, FL_TCP_CMD, 0, NULL, 0);
}

static void malformed_answers_end_the_connection(void **state)
{
    static const struct bad bads[] = {
        {"data, no such slot", FL_TCP_FES_HEADER, data_no_such_slot},
        {"data, free slot", FL_TCP_FES_SEQUENCE, data_free_slot},
        {"data, old generation", FL_TCP_FES_SEQUENCE, data_old_generation},
        {"data for a write", FL_TCP_FES_RANGE, data_for_a_write},
        {"data out of order", FL_TCP_FES_RANGE, data_out_of_order},
        {"data twice", FL_TCP_FES_RANGE, data_twice},
        {"data past the end", FL_TCP_FES_RANGE, data_past_the_end},
        {"DATAL lies", FL_TCP_FES_HEADER, data_datal_lies},
        {"R2T for a read", FL_TCP_FES_RANGE, r2t_for_a_read},
        {"R2T for in-capsule data", FL_TCP_FES_RANGE, r2t_for_capsule_data},
        {"R2T past the end", FL_TCP_FES_RANGE, r2t_past_the_end},
        {"R2T wraps", FL_TCP_FES_RANGE, r2t_wraps},
        {"R2T of nothing", FL_TCP_FES_HEADER, r2t_empty},
        {"R2T for more than there is", FL_TCP_FES_RANGE, r2t_too_much},
        {"R2Ts, too many", FL_TCP_FES_LIMIT, r2t_too_many},
        {"response, free slot", FL_TCP_FES_SEQUENCE, resp_free_slot},
        {"response twice", FL_TCP_FES_SEQUENCE, resp_twice},
        {"second ICResp", FL_TCP_FES_SEQUENCE, second_ic_resp},
        {"a host's PDU", 0, host_pdu},
    };
    uint8_t *pdus = malloc(OUT_LEN);

    for (uint32_t i = 0; i < FL_ARRAY_LEN(bads); i++) {
        for (uint32_t chunk = 0; chunk < 4; chunk += 3) {
            struct fix *f = connected(false, false, chunk);
            uint16_t rd = submit(f, 0, true, 65536, 1), wr = submit(f, 1, false, 65536, 1),
                     cap = submit(f, 2, false, 512, 1);
            size_t n;

            take(f);
            n = bads[i].make(f, pdus, rd, wr, cap);
            if (feed(f, pdus, n) != -EPROTO)
                fail_msg("%s: taken", bads[i].what);
            f->h.nr_reqs = NR_REQS;
            if (bads[i].fes && f->h.stream.fault.fes != bads[i].fes)
                fail_msg("%s: code %u instead of %u", bads[i].what, f->h.stream.fault.fes, bads[i].fes);
            assert_true(strstr(f->h.err.text, "broke the protocol") != NULL);
            destroy(f);
        }
    }
    free(pdus);
}

static void reports_what_the_target_complains_of(void **state)
{
    struct fix *f = connected(true, false, 3);
    struct fl_tcp_fault fault = {FL_TCP_FES_LIMIT, 12};
    uint8_t term[FL_TCP_TERM_PLEN_MAX];
    uint32_t n = fl_tcp_term_encode(term, FL_TCP_TARGET, &fault, f->buf[0], 72);

    assert_int_equal(feed(f, term, n), -EPROTO);
    assert_int_equal(f->h.term_fes, FL_TCP_FES_LIMIT);
    assert_true(strstr(f->h.err.text, "ended the connection") != NULL);
    take(f);
    assert_int_equal(f->out_len, 0); /* it is not answered */
    destroy(f);
}

static void digest_that_was_not_asked_for(void **state)
{
    const struct fl_tcp_host_options o = {.nr_reqs = 1, .max_data_len = 4096};
    struct fl_tcp_ic ic = {.hdgst = true, .pda = 4, .maxh2cdata = MAXH2C};
    struct fix f = {.out = malloc(OUT_LEN)};
    union fl_tcp_pdu pdu;

    assert_int_equal(fl_tcp_host_init(&f.h, &ops, &o), 0);
    fl_tcp_host_start(&f.h);
    take(&f);
    fl_tcp_ic_resp_encode(&pdu.ic_resp, &ic);
    assert_int_equal(feed(&f, &pdu, 128), -EPROTO);
    assert_int_equal(f.nr_ready, 0);
    fl_tcp_host_fini(&f.h);
    free(f.out);
}

static int run(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(asks_for_the_connection), cmocka_unit_test(sends_a_capsule),
        cmocka_unit_test(reads_with_every_split), cmocka_unit_test(reads_in_any_order),
        cmocka_unit_test(writes_in_the_capsule), cmocka_unit_test(case_T7_h2cdata_at_the_limit),
        cmocka_unit_test(answers_several_r2ts), cmocka_unit_test(holds_the_buffer_until_it_was_sent),
        cmocka_unit_test(identifiers_are_not_used_twice_in_a_row),
        cmocka_unit_test(slots_are_used_again_for_anything), cmocka_unit_test(case_T4_wrong_header_length),
        cmocka_unit_test(case_T9_success_flag), cmocka_unit_test(case_T9_short_data),
        cmocka_unit_test(case_T11_digest_errors), cmocka_unit_test(malformed_answers_end_the_connection),
        cmocka_unit_test(reports_what_the_target_complains_of),
        cmocka_unit_test(read_without_memory_is_thrown_away),
        cmocka_unit_test(digest_that_was_not_asked_for));
}

int main(void)
{
    int r = run();

    guess = true;
    return run() + r;
}
