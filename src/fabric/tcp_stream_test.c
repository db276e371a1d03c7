/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/tcp_stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/unit.h"
#include "base/util.h"

/* Host to target, recorded from a Linux 6.12 host with both digests (the rest of ICReq is zero). */
static const uint8_t recorded_ic_req[16] = {0x00, 0x00, 0x80, 0x00, 0x80, 0, 0, 0, 0, 0, 0, 0x03};
static const uint8_t recorded_connect[76] = {
    0x04, 0x03, 0x48, 0x4c, 0x50, 0x04, 0x00, 0x00, 0x7f, 0x40, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01,
    0x00, 0x00, 0x00, 0x00, 0x1f, 0x00, 0x00, 0x00, 0x88, 0x13, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x50, 0x91, 0x0e, 0xff};
static const uint8_t recorded_connect_data[18] = {0, 0, 0, 0, 0, 0, 0x40, 0,    0x80,
                                                  0, 0, 0, 0, 0, 0, 0x12, 0xff, 0xff};
static const uint8_t recorded_connect_ddgst[4] = {0x6f, 0x08, 0x30, 0x05};
static const uint8_t recorded_get[76] = {
    0x04, 0x01, 0x48, 0x00, 0x4c, 0x00, 0x00, 0x00, 0x7f, 0x40, 0x01, 0x00, 0x04, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x5a,
    0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00,
    0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x9c, 0xa3, 0x1d, 0x55};
/* Target to host, from the same connection. */
static const uint8_t recorded_resp[28] = {0x05, 0x01, 0x18, 0x00, 0x1c, 0x00, 0x00, 0x00, 0x01, 0x00,
                                          0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x01, 0x00, 0x00, 0x00,
                                          0x00, 0x00, 0x00, 0x00, 0x42, 0x62, 0x33, 0x32};

static uint32_t put_connect(uint8_t *out)
{
    uint8_t *p = out;

    memset(out, 0, 1104);
    memcpy(p, recorded_connect, sizeof(recorded_connect));
    memcpy(p + 76, recorded_connect_data, sizeof(recorded_connect_data));
    strcpy((char *)p + 76 + 256, "nqn.2026-01.org.example:sub1");
    strcpy((char *)p + 76 + 512, "nqn.2014-08.org.nvmexpress:uuid:00000000-0000-4000-8000-000000000012");
    memcpy(p + 1100, recorded_connect_ddgst, 4);
    return 1104;
}

enum mode { DISCARD, PLACE, PLACE_IOV, KEEP_IF_WHOLE, KEEP_IF_FITS };

struct owner {
    struct fl_tcp_stream s;
    enum mode mode;
    bool fail_payload;
    int pauses_left; /* header() says -EAGAIN that often, then again after each PDU */
    int pause_every;
    uint8_t place[1 << 20];
    uint8_t edge[16]; /* must stay untouched */
    struct iovec iov[9];
    /* what was seen, one byte string: a letter a PDU, sizes and sums */
    char log[4096];
    size_t log_len;
    int nr_sent;
    uintptr_t sent[64];
};

static void note(struct owner *o, char what, uint32_t a, uint32_t b)
{
    o->log_len += (size_t)snprintf(o->log + o->log_len, sizeof(o->log) - o->log_len, "%c%u/%x ", what, a, b);
    assert_true(o->log_len < sizeof(o->log));
}

static int on_header(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, uint32_t len,
                     struct fl_tcp_fault *fault)
{
    struct owner *o = FL_CONTAINER_OF(s, struct owner, s);
    size_t at = 0;

    if (o->pauses_left > 0) {
        o->pauses_left--;
        return -EAGAIN;
    }
    o->pauses_left = o->pause_every;
    note(o, "ir..CRhcx2"[pdu->hdr.type], len, fl_crc32c(0, pdu, pdu->hdr.hlen));
    if (pdu->hdr.type == FL_TCP_IC_REQ) {
        s->limits.established = true;
        s->limits.hdgst = s->limits.ddgst = pdu->ic_req.dgst == 3;
    }
    if (!len)
        return 0;
    switch (o->mode) {
    case DISCARD:
        break;
    case PLACE:
        fl_tcp_stream_place(s, o->place);
        break;
    case PLACE_IOV: /* pieces of 1, 3, 9... bytes after 100 bytes that were filled before */
        o->iov[0] = (struct iovec){o->edge, 16};
        o->iov[1] = (struct iovec){o->edge, 0};
        o->iov[2] = (struct iovec){o->edge, 4};
        for (int i = 3, n = 1; i < 9; i++, n *= 3) {
            o->iov[i] = (struct iovec){o->place + at, i < 8 ? (size_t)n : sizeof(o->place) - at};
            at += (size_t)n;
        }
        fl_tcp_stream_place_iov(s, o->iov, 9, 20);
        break;
    case KEEP_IF_WHOLE:
        if (fl_tcp_stream_whole(s))
            fl_tcp_stream_keep(s);
        else
            fl_tcp_stream_place(s, o->place);
        break;
    case KEEP_IF_FITS:
        if (fl_tcp_stream_fits(s, pdu))
            fl_tcp_stream_keep(s);
        else
            fl_tcp_stream_place(s, o->place);
        break;
    }
    return 0;
}

static int on_payload(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, const void *data, bool ok,
                      struct fl_tcp_fault *fault)
{
    struct owner *o = FL_CONTAINER_OF(s, struct owner, s);
    uint32_t len = fl_tcp_data_len(&pdu->hdr);

    if (o->fail_payload) {
        *fault = (struct fl_tcp_fault){.fes = FL_TCP_FES_RANGE};
        return -EPROTO;
    }
    if (o->mode == DISCARD)
        assert_null(data);
    note(o, ok ? 'p' : 'X', len, o->mode == DISCARD ? 0 : fl_crc32c(0, data ? data : o->place, len));
    memset(o->place, 0, len);
    return 0;
}

static void on_sent(struct fl_tcp_stream *s, void *token)
{
    struct owner *o = FL_CONTAINER_OF(s, struct owner, s);

    o->sent[o->nr_sent++] = (uintptr_t)token;
}

static const struct fl_tcp_stream_ops ops = {on_header, on_payload, on_sent};

static struct owner *owner_create(enum mode mode, enum fl_tcp_role role)
{
    struct owner *o = calloc(1, sizeof(*o));

    assert_non_null(o);
    assert_int_equal(fl_tcp_stream_init(&o->s, &ops, role, 8, 16384), 0);
    o->s.limits.max_plen = 1 << 20;
    o->mode = mode;
    return o;
}

static void owner_destroy(struct owner *o)
{
    for (size_t i = 0; i < sizeof(o->edge); i++)
        assert_int_equal(o->edge[i], 0);
    fl_tcp_stream_fini(&o->s);
    free(o);
}

/* Feeds at most n bytes by one read of at most nr pieces; returns how many it took, or what rx_done said. */
static int feed(struct owner *o, const uint8_t *p, size_t n, int nr)
{
    struct iovec iov[12];
    size_t took = 0;
    int r;

    nr = fl_tcp_stream_rx_iov(&o->s, iov, nr);
    for (int i = 0; i < nr; i++) {
        size_t len = FL_MIN(iov[i].iov_len, n - took);

        memcpy(iov[i].iov_base, p + took, len);
        took += len;
    }
    if (!nr)
        return 0;
    r = fl_tcp_stream_rx_done(&o->s, took);
    return r < 0 ? r : (int)took;
}

/* Feeds all of it in reads of chunk bytes (0: of any size), with resume whenever it pauses. */
static int feed_all(struct owner *o, const uint8_t *p, size_t n, size_t chunk)
{
    int r = 0;

    while (n || o->s.rx_paused) {
        if (o->s.rx_paused) {
            struct iovec iov[1];

            assert_int_equal(fl_tcp_stream_rx_iov(&o->s, iov, 1), 0);
            r = fl_tcp_stream_resume(&o->s);
            if (r < 0)
                return r;
            continue;
        }
        r = feed(o, p, FL_MIN(n, chunk ? chunk : 1 + (size_t)rand() % 9000), chunk ? 12 : 1 + rand() % 12);
        if (r < 0)
            return r;
        assert_true(r > 0);
        p += r;
        n -= (size_t)r;
    }
    return 0;
}

/* Takes what the stream has to send, at most `most` bytes at a time. */
static uint32_t take_all(struct owner *o, uint8_t *out, size_t most)
{
    struct iovec iov[5];
    uint32_t total = 0;

    while (fl_tcp_stream_tx_pending(&o->s)) {
        int nr = fl_tcp_stream_tx_iov(&o->s, iov, 5);
        size_t left = most, took = 0;

        assert_true(nr > 0);
        for (int i = 0; i < nr && left; i++) {
            size_t len = FL_MIN(iov[i].iov_len, left);

            assert_true(len > 0);
            memcpy(out + total + took, iov[i].iov_base, len);
            took += len;
            left -= len;
        }
        fl_tcp_stream_tx_done(&o->s, took);
        total += (uint32_t)took;
    }
    return total;
}

static uint8_t pattern[300000];

/* A host's stream: recorded PDUs, then commands with and without data and H2CData of many sizes. */
static uint32_t put_script(uint8_t *out, bool digests, uint8_t pda)
{
    static const uint32_t sizes[] = {512, 4096, 0, 4, 8192, 20000, 0, 131072, 16384, 12, 0, 100000};
    struct owner *o = owner_create(DISCARD, FL_TCP_HOST);
    uint32_t n = 128;

    memset(out, 0, 128);
    memcpy(out, recorded_ic_req, sizeof(recorded_ic_req));
    if (!digests)
        out[11] = 0;
    if (digests && pda == 4) {
        n += put_connect(out + n);
        memcpy(out + n, recorded_get, sizeof(recorded_get));
        n += sizeof(recorded_get);
    }
    o->s.tx_hdgst = o->s.tx_ddgst = digests;
    o->s.tx_pda = pda;
    for (size_t i = 0; i < FL_ARRAY_LEN(sizes); i++) {
        union fl_tcp_pdu pdu = {.hdr.type = i % 5 == 3 || sizes[i] > 8192 ? FL_TCP_H2C_DATA : FL_TCP_CMD};
        uint32_t hlen = fl_tcp_hlen(pdu.hdr.type);

        memset(pdu.bytes + 8, (int)i, hlen - 8);
        fl_tcp_stream_send(&o->s, &pdu, hlen, pattern + i, sizes[i], NULL);
        n += take_all(o, out + n, 1 << 20);
    }
    owner_destroy(o);
    return n;
}

static void take_recorded_bytes(void **state)
{
    static uint8_t in[8192];
    struct owner *o = owner_create(KEEP_IF_FITS, FL_TCP_TARGET);
    uint32_t n = 128;

    memset(in, 0, sizeof(in));
    memcpy(in, recorded_ic_req, sizeof(recorded_ic_req));
    n += put_connect(in + n);
    memcpy(in + n, recorded_get, sizeof(recorded_get));
    n += sizeof(recorded_get);
    assert_int_equal(feed(o, in, n, 1), n);
    assert_non_null(strstr(o->log, "i0/"));
    assert_non_null(strstr(o->log, "C1024/"));
    assert_non_null(strstr(o->log, "p1024/530086f"));
    assert_non_null(strstr(o->log, "C0/"));
    assert_null(strchr(o->log, 'X'));
    assert_false(fl_tcp_stream_rx_partial(&o->s));
    assert_int_equal(o->s.nr_rx_pdus, 3);
    assert_int_equal(o->s.rx_len, n);
    owner_destroy(o);
}

static void every_split_gives_the_same(void **state)
{
    static uint8_t in[1 << 20];
    static const size_t chunks[] = {1,  2,  3,  5,  7,  8,   9,    23,   24,    25,    71,
                                    72, 73, 75, 76, 77, 100, 1000, 4096, 16384, 300000};

    srand(1);
    for (int digests = 0; digests < 2; digests++) {
        for (uint8_t pda = 4; pda && pda <= 128; pda = pda == 4 ? 12 : pda == 12 ? 128 : 0) {
            uint32_t n = put_script(in, digests, pda);
            char want[4096] = "";

            for (int mode = PLACE; mode <= KEEP_IF_FITS; mode++)
                for (size_t i = 0; i < FL_ARRAY_LEN(chunks) + 20; i++) {
                    struct owner *o = owner_create((enum mode)mode, FL_TCP_TARGET);

                    o->s.limits.pda = pda;
                    o->pause_every = i % 3 == 2;
                    assert_int_equal(feed_all(o, in, n, i < FL_ARRAY_LEN(chunks) ? chunks[i] : 0), 0);
                    if (!want[0])
                        strcpy(want, o->log);
                    assert_string_equal(o->log, want);
                    assert_null(strchr(o->log, 'X'));
                    assert_false(fl_tcp_stream_rx_partial(&o->s));
                    owner_destroy(o);
                }
        }
    }
}

static void thrown_away_data_keeps_the_stream(void **state)
{
    static uint8_t in[1 << 20];
    uint32_t n = put_script(in, true, 4);

    for (size_t chunk = 1; chunk < 100000; chunk = chunk * 3 + 1) {
        struct owner *o = owner_create(DISCARD, FL_TCP_TARGET);

        assert_int_equal(feed_all(o, in, n, chunk), 0);
        assert_non_null(strstr(o->log, "p131072/"));
        assert_null(strchr(o->log, 'X'));
        owner_destroy(o);
    }
}

static void wrong_data_digest_is_told(void **state)
{
    uint8_t in[1300] = {0};
    uint32_t n = 128 + put_connect(in + 128);

    memcpy(in, recorded_ic_req, sizeof(recorded_ic_req));
    /* a bit of the payload, and one of the digest */
    for (int i = 0; i < 2; i++) {
        uint32_t at = i ? n - 1 : 128 + 500;

        in[at] ^= 0x10;
        for (int mode = DISCARD; mode <= KEEP_IF_FITS; mode++) {
            struct owner *o = owner_create((enum mode)mode, FL_TCP_TARGET);

            assert_int_equal(feed_all(o, in, n, mode == PLACE ? 1 : 4096), 0);
            assert_non_null(strstr(o->log, "X1024/"));
            assert_int_equal(o->s.nr_ddgst_errors, 1);
            /* and the stream goes on */
            assert_int_equal(feed_all(o, recorded_get, sizeof(recorded_get), 7), 0);
            assert_non_null(strstr(o->log, "C0/"));
            owner_destroy(o);
        }
        in[at] ^= 0x10;
    }
}

static void wrong_header_digest_breaks(void **state)
{
    for (uint32_t at = 8; at < 76; at++) {
        uint8_t in[128 + 76] = {0};
        struct owner *o = owner_create(PLACE, FL_TCP_TARGET);
        struct iovec iov[2];

        memcpy(in, recorded_ic_req, sizeof(recorded_ic_req));
        memcpy(in + 128, recorded_get, sizeof(recorded_get));
        in[128 + at] ^= 0x80;
        assert_int_equal(feed_all(o, in, sizeof(in), 50), -EPROTO);
        assert_int_equal(o->s.fault.fes, FL_TCP_FES_HDGST);
        assert_int_equal(o->s.bad_len, 72);
        assert_memory_equal(o->s.bad_pdu, in + 128, 72);
        assert_int_equal(fl_tcp_stream_rx_iov(&o->s, iov, 2), 0);
        assert_int_equal(fl_tcp_stream_rx_done(&o->s, 0), -EPROTO);
        owner_destroy(o);
    }
}

static void bad_header_breaks_before_it_is_whole(void **state)
{
    struct owner *o = owner_create(PLACE, FL_TCP_TARGET);
    uint8_t in[8] = {0x00, 0x00, 0xff, 0x00, 0x80};

    assert_int_equal(feed_all(o, in, 7, 7), 0);
    assert_true(fl_tcp_stream_rx_partial(&o->s));
    assert_int_equal(feed(o, in + 7, 1, 1), -EPROTO);
    assert_int_equal(o->s.fault.fes, FL_TCP_FES_HEADER);
    assert_int_equal(o->s.fault.offset, 2);
    assert_int_equal(o->s.bad_len, 8);
    owner_destroy(o);
}

static void owner_can_break_the_stream(void **state)
{
    uint8_t in[1232] = {0};
    struct owner *o = owner_create(PLACE, FL_TCP_TARGET);

    memcpy(in, recorded_ic_req, sizeof(recorded_ic_req));
    put_connect(in + 128);
    o->fail_payload = true;
    assert_int_equal(feed_all(o, in, sizeof(in), 5000), -EPROTO);
    assert_int_equal(o->s.fault.fes, FL_TCP_FES_RANGE);
    assert_int_equal(o->s.bad_len, 72);
    owner_destroy(o);
}

/* Payload that comes after its header is read into its place, not through the stream buffer. */
static void large_payload_goes_straight_to_its_place(void **state)
{
    static uint8_t in[1 << 20];
    struct owner *o = owner_create(PLACE, FL_TCP_HOST), *t = owner_create(PLACE, FL_TCP_TARGET);
    union fl_tcp_pdu pdu = {.hdr.type = FL_TCP_C2H_DATA};
    struct iovec iov[4];
    uint32_t n;

    t->s.limits.established = o->s.limits.established = true;
    fl_tcp_stream_send(&t->s, &pdu, 24, pattern, 131072, NULL);
    n = take_all(t, in, 1 << 20);
    assert_int_equal(feed(o, in, 1024, 4), 1024);
    assert_int_equal(fl_tcp_stream_rx_iov(&o->s, iov, 4), 2);
    assert_ptr_equal(iov[0].iov_base, o->place + 1000);
    assert_int_equal(iov[0].iov_len, 131072 - 1000);
    assert_true(iov[1].iov_len < 4096);
    assert_int_equal(feed_all(o, in + 1024, n - 1024, 1 << 20), 0);
    assert_int_equal(fl_tcp_stream_rx_iov(&o->s, iov, 4), 1);
    assert_true(iov[0].iov_len < 4096);
    owner_destroy(t);
    owner_destroy(o);
}

static void pause_and_resume(void **state)
{
    uint8_t in[256 + 128] = {0};
    struct owner *o = owner_create(PLACE, FL_TCP_TARGET);
    struct iovec iov[1];

    memcpy(in, recorded_ic_req, sizeof(recorded_ic_req));
    memcpy(in + 128, recorded_get, sizeof(recorded_get));
    memcpy(in + 128 + 76, recorded_get, sizeof(recorded_get));
    o->pauses_left = 2;
    assert_int_equal(feed(o, in, 128 + 152, 1), 128 + 152);
    assert_int_equal(o->log_len, 0);
    assert_int_equal(fl_tcp_stream_rx_iov(&o->s, iov, 1), 0);
    assert_int_equal(fl_tcp_stream_resume(&o->s), 0);
    assert_int_equal(o->log_len, 0);
    assert_int_equal(fl_tcp_stream_resume(&o->s), 0);
    assert_int_equal(o->s.nr_rx_pdus, 3);
    assert_int_equal(fl_tcp_stream_resume(&o->s), 0);
    owner_destroy(o);
}

static void send_matches_recorded_bytes(void **state)
{
    struct owner *o = owner_create(PLACE, FL_TCP_TARGET), *h = owner_create(PLACE, FL_TCP_HOST);
    uint8_t out[2048], want[1104];
    union fl_tcp_pdu pdu = {0};

    o->s.tx_hdgst = o->s.tx_ddgst = h->s.tx_hdgst = h->s.tx_ddgst = true;
    memcpy(&pdu, recorded_resp, 24);
    pdu.hdr = (struct fl_tcp_hdr){.type = FL_TCP_RESP};
    fl_tcp_stream_send(&o->s, &pdu, 24, NULL, 0, NULL);
    assert_int_equal(take_all(o, out, 11), sizeof(recorded_resp));
    assert_memory_equal(out, recorded_resp, sizeof(recorded_resp));

    put_connect(want);
    memcpy(&pdu, want, 72);
    pdu.hdr = (struct fl_tcp_hdr){.type = FL_TCP_CMD};
    fl_tcp_stream_send(&h->s, &pdu, 72, want + 76, 1024, NULL);
    assert_int_equal(take_all(h, out, 500), sizeof(want));
    assert_memory_equal(out, want, sizeof(want));
    owner_destroy(o);
    owner_destroy(h);
}

static void neighbours_merge_and_tokens_come_in_order(void **state)
{
    struct owner *o = owner_create(PLACE, FL_TCP_TARGET);
    union fl_tcp_pdu resp = {.hdr.type = FL_TCP_RESP}, data = {.hdr.type = FL_TCP_C2H_DATA};
    struct iovec iov[8];
    uint8_t out[4096];

    for (int i = 0; i < 3; i++)
        fl_tcp_stream_send(&o->s, &resp, 24, NULL, 0, NULL);
    assert_int_equal(fl_tcp_stream_tx_iov(&o->s, iov, 8), 1);
    assert_int_equal(iov[0].iov_len, 72);
    fl_tcp_stream_send(&o->s, &data, 24, pattern, 100, (void *)1);
    fl_tcp_stream_send(&o->s, &resp, 24, NULL, 0, (void *)2);
    fl_tcp_stream_send(&o->s, &resp, 24, NULL, 0, (void *)3);
    o->s.tx_ddgst = true;
    fl_tcp_stream_send(&o->s, &data, 24, pattern, 100, (void *)4);
    assert_int_equal(take_all(o, out, 60), 72 + 124 + 48 + 128);
    assert_int_equal(o->nr_sent, 4);
    for (uintptr_t i = 0; i < 4; i++)
        assert_int_equal(o->sent[i], i + 1);
    assert_int_equal(o->s.nr_tx_pdus, 7);
    assert_int_equal(o->s.tx_len, 72 + 124 + 48 + 128);
    owner_destroy(o);
}

static void send_from_pieces(void **state)
{
    struct owner *o = owner_create(PLACE, FL_TCP_HOST);
    uint8_t out[4096], want[4096];
    struct iovec iov[] = {
        {pattern, 10}, {pattern, 0}, {pattern + 500, 1000}, {pattern + 7, 3}, {pattern + 9000, 1000}};
    union fl_tcp_pdu data = {.hdr.type = FL_TCP_H2C_DATA};
    uint32_t n;

    o->s.tx_ddgst = true;
    for (size_t most = 1; most < 2000; most += 100) {
        for (size_t skip = 0; skip < 1100; skip += 109) {
            uint8_t flat[3000];
            size_t len = 0;
            le32 crc;

            o->nr_sent = 0;
            for (int i = 0; i < 5; i++) {
                memcpy(flat + len, iov[i].iov_base, iov[i].iov_len);
                len += iov[i].iov_len;
            }
            fl_tcp_stream_send_iov(&o->s, &data, 24, iov, 5, skip, 900, (void *)9);
            fl_tcp_stream_send(&o->s, &data, 24, flat + skip, 900, (void *)10);
            n = take_all(o, out, most);
            assert_int_equal(n, 2 * (24 + 904));
            memcpy(want, out + 928, 928);
            assert_memory_equal(out, want, 928);
            memcpy(&crc, out + 924, 4);
            assert_int_equal(le32_get(crc), fl_crc32c(0, flat + skip, 900));
            assert_int_equal(o->nr_sent, 2);
        }
    }
    owner_destroy(o);
}

static void data_is_padded_to_the_alignment(void **state)
{
    struct owner *o = owner_create(PLACE, FL_TCP_TARGET);
    union fl_tcp_pdu data = {.hdr.type = FL_TCP_C2H_DATA};
    uint8_t out[4096];

    o->s.tx_hdgst = true;
    o->s.tx_pda = 128;
    fl_tcp_stream_send(&o->s, &data, 24, pattern + 1, 100, NULL);
    assert_int_equal(take_all(o, out, 4096), 228);
    assert_int_equal(out[3], 128);
    for (int i = 28; i < 128; i++)
        assert_int_equal(out[i], 0);
    assert_memory_equal(out + 128, pattern + 1, 100);
    owner_destroy(o);
}

/* The ring of headers wraps in all positions, is grown while it is in use, and no byte is lost. */
static void ring_wraps_and_grows(void **state)
{
    struct owner *o = owner_create(PLACE, FL_TCP_TARGET);
    static uint8_t out[1 << 16];
    uint32_t total = 0, next = 0, taken = 0;

    srand(2);
    for (int round = 0; round < 4000; round++) {
        while (fl_tcp_stream_tx_room(&o->s) && rand() % 4) {
            union fl_tcp_pdu pdu = {.hdr.type = rand() % 3 ? FL_TCP_RESP : FL_TCP_C2H_DATA};

            o->s.tx_pda = (uint8_t)(4 << rand() % 6);
            o->s.tx_ddgst = rand() % 2;
            pdu.data.cccid = le16_of((uint16_t)next++);
            fl_tcp_stream_send(&o->s, &pdu, 24, pattern, pdu.hdr.type == FL_TCP_RESP ? 0 : 8, NULL);
            assert_true(total + 256 < sizeof(out));
        }
        if (round == 2000)
            assert_int_equal(fl_tcp_stream_set_tx_pdus(&o->s, 50), 0);
        if (fl_tcp_stream_tx_pending(&o->s)) {
            struct iovec iov[1];
            size_t n;

            fl_tcp_stream_tx_iov(&o->s, iov, 1);
            n = FL_MIN(iov[0].iov_len, 1 + (size_t)rand() % 150);
            memcpy(out + total, iov[0].iov_base, n);
            total += (uint32_t)n;
            fl_tcp_stream_tx_done(&o->s, n);
        }
        while (total >= 8) { /* eat whole PDUs off the front */
            const union fl_tcp_pdu *pdu = (const void *)out;
            uint32_t plen = le32_get(pdu->hdr.plen);

            if (total < plen)
                break;
            /* at CQE DW0 and at CCCID alike */
            assert_int_equal(le16_get(pdu->data.cccid), (uint16_t)taken++);
            memmove(out, out + plen, total -= plen);
        }
    }
    assert_true(taken > 1000);
    owner_destroy(o);
}

static void abort_gives_references_back(void **state)
{
    struct owner *o = owner_create(PLACE, FL_TCP_TARGET);
    union fl_tcp_pdu data = {.hdr.type = FL_TCP_C2H_DATA};
    struct iovec iov[2];

    fl_tcp_stream_send(&o->s, &data, 24, pattern, 100, (void *)1);
    fl_tcp_stream_send(&o->s, &data, 24, pattern, 100, (void *)2);
    fl_tcp_stream_tx_done(&o->s, 30);
    assert_int_equal(o->nr_sent, 0);
    fl_tcp_stream_abort(&o->s);
    assert_int_equal(o->nr_sent, 2);
    assert_false(fl_tcp_stream_tx_pending(&o->s));
    assert_int_equal(fl_tcp_stream_rx_iov(&o->s, iov, 2), 0);
    assert_int_equal(fl_tcp_stream_rx_done(&o->s, 0), -EPROTO);
    owner_destroy(o);
}

/* What has left is not touched, the rest comes from the copy: as if the owner's bytes had not changed. */
static void detached_data_is_sent_from_its_copy(void **state)
{
    static uint8_t sent[1024];
    uint8_t theirs[256], copy[256];

    for (uint32_t first = 0; first < 24 + 256; first += 23) {
        struct owner *o = owner_create(DISCARD, FL_TCP_TARGET);
        union fl_tcp_pdu data = {.hdr.type = FL_TCP_C2H_DATA};
        struct iovec iov[8];
        uint32_t at = 0;

        memcpy(theirs, pattern, sizeof(theirs));
        memset(copy, 0, sizeof(copy));
        fl_tcp_stream_send(&o->s, &data, 24, theirs, sizeof(theirs), (void *)1);
        fl_tcp_stream_send(&o->s, &data, 24, pattern, 100, (void *)2);
        assert_true(fl_tcp_stream_tx_iov(&o->s, iov, 8) == 4);
        memcpy(sent, iov[0].iov_base, FL_MIN(first, 24u));
        memcpy(sent + 24, theirs, first > 24 ? first - 24 : 0);
        fl_tcp_stream_tx_done(&o->s, first);
        assert_false(fl_tcp_stream_detach(&o->s, (void *)3, copy));
        assert_true(fl_tcp_stream_detach(&o->s, (void *)1, copy));
        assert_int_equal(o->nr_sent, 0);
        memset(theirs, 0xee, sizeof(theirs));
        at = first;
        for (int i = 0, n = fl_tcp_stream_tx_iov(&o->s, iov, 8); i < n; at += (uint32_t)iov[i++].iov_len)
            memcpy(sent + at, iov[i].iov_base, iov[i].iov_len);
        assert_int_equal(at, 24 + 256 + 24 + 100);
        assert_memory_equal(sent + 24, pattern, 256);
        assert_memory_equal(sent + 24 + 256 + 24, pattern, 100);
        fl_tcp_stream_tx_done(&o->s, at - first);
        assert_int_equal(o->nr_sent, 2);
        owner_destroy(o);
    }
}

int main(void)
{
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 7 + (i >> 8));
    return FL_UNIT_RUN(
        cmocka_unit_test(take_recorded_bytes), cmocka_unit_test(every_split_gives_the_same),
        cmocka_unit_test(thrown_away_data_keeps_the_stream), cmocka_unit_test(wrong_data_digest_is_told),
        cmocka_unit_test(wrong_header_digest_breaks), cmocka_unit_test(bad_header_breaks_before_it_is_whole),
        cmocka_unit_test(owner_can_break_the_stream),
        cmocka_unit_test(large_payload_goes_straight_to_its_place), cmocka_unit_test(pause_and_resume),
        cmocka_unit_test(send_matches_recorded_bytes),
        cmocka_unit_test(neighbours_merge_and_tokens_come_in_order), cmocka_unit_test(send_from_pieces),
        cmocka_unit_test(data_is_padded_to_the_alignment), cmocka_unit_test(ring_wraps_and_grows),
        cmocka_unit_test(abort_gives_references_back), cmocka_unit_test(detached_data_is_sent_from_its_copy));
}
