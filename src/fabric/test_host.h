/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: a host that says just what it is told to, over a pair, and remembers what came back. */
#ifndef FL_FABRIC_TEST_HOST_H
#define FL_FABRIC_TEST_HOST_H

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit.h"
#include "base/util.h"
#include "fabric/pair.h"
#include "fabric/tcp_stream.h"

#define TEST_HOST_PDUS 512

struct test_host_pdu {
    union fl_tcp_pdu pdu;
    uint8_t *data; /* its payload */
    uint32_t len;
    bool digest_ok;
};

struct test_host {
    struct fl_tcp_stream s;
    struct fl_pair *pair;
    size_t feed_chunk, take_chunk; /* 0: as much as there is */
    struct test_host_pdu pdus[TEST_HOST_PDUS];
    int nr, seen; /* what came, and how much of it the test has looked at */
};

static int test_host_header(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, uint32_t len,
                            struct fl_tcp_fault *fault)
{
    struct test_host *h = FL_CONTAINER_OF(s, struct test_host, s);
    struct test_host_pdu *got = &h->pdus[h->nr];

    assert_true(h->nr < TEST_HOST_PDUS);
    memcpy(&got->pdu, pdu, pdu->hdr.hlen);
    got->len = len;
    got->digest_ok = true;
    if (len) {
        got->data = malloc(len);
        fl_tcp_stream_place(s, got->data);
    } else {
        h->nr++;
    }
    if (pdu->hdr.type == FL_TCP_IC_RESP) {
        s->limits.established = true;
        s->limits.hdgst = s->tx_hdgst = pdu->ic_resp.dgst & FL_TCP_DGST_HEADER;
        s->limits.ddgst = s->tx_ddgst = pdu->ic_resp.dgst & FL_TCP_DGST_DATA;
        s->tx_pda = (uint8_t)((pdu->ic_resp.cpda + 1) * 4);
    }
    return 0;
}

static int test_host_payload(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, const void *data, bool ok,
                             struct fl_tcp_fault *fault)
{
    struct test_host *h = FL_CONTAINER_OF(s, struct test_host, s);

    h->pdus[h->nr++].digest_ok = ok;
    return 0;
}

static void test_host_sent(struct fl_tcp_stream *s, void *token)
{
}

static const struct fl_tcp_stream_ops test_host_ops = {test_host_header, test_host_payload, test_host_sent};

static inline void test_host_init(struct test_host *h, struct fl_pair *pair)
{
    memset(h, 0, sizeof(*h));
    assert_int_equal(fl_tcp_stream_init(&h->s, &test_host_ops, FL_TCP_HOST, 1024, 65536), 0);
    h->s.limits.max_plen = UINT32_MAX;
    h->pair = pair;
}

static inline void test_host_fini(struct test_host *h)
{
    for (int i = 0; i <= h->nr && i < TEST_HOST_PDUS; i++) /* the last may not be whole */
        free(h->pdus[i].data);
    fl_tcp_stream_fini(&h->s);
}

/* Takes all that the target has sent. */
static inline void test_host_take(struct test_host *h)
{
    uint8_t buf[4096];
    size_t n;

    while (
        (n = fl_pair_take(h->pair, buf, h->take_chunk ? FL_MIN(h->take_chunk, sizeof(buf)) : sizeof(buf)))) {
        size_t at = 0;

        while (at < n) {
            struct iovec iov[4];
            int nr = fl_tcp_stream_rx_iov(&h->s, iov, 4);
            size_t took = 0;

            assert_true(nr > 0);
            for (int i = 0; i < nr; i++) {
                size_t len = FL_MIN(iov[i].iov_len, n - at - took);

                memcpy(iov[i].iov_base, buf + at + took, len);
                took += len;
            }
            at += took;
            assert_int_equal(fl_tcp_stream_rx_done(&h->s, took), 0);
        }
    }
}

/* Raw bytes to the target; returns how many it took. */
static inline size_t test_host_raw(struct test_host *h, const void *bytes, size_t len)
{
    size_t chunk = h->feed_chunk ? h->feed_chunk : len, total = 0;

    while (total < len) {
        size_t n = fl_pair_feed(h->pair, (const uint8_t *)bytes + total, FL_MIN(chunk, len - total));

        total += n;
        if (!n)
            break;
    }
    return total;
}

/* Sends what is queued, then takes what there is. */
static inline void test_host_pump(struct test_host *h)
{
    struct iovec iov[16];
    int nr;

    while ((nr = fl_tcp_stream_tx_iov(&h->s, iov, 1))) {
        size_t n = test_host_raw(h, iov[0].iov_base, iov[0].iov_len);

        if (n)
            fl_tcp_stream_tx_done(&h->s, n);
        if (n < iov[0].iov_len) { /* it closed, or does not read before we take */
            int before = h->nr;

            test_host_take(h);
            if (!n && before == h->nr)
                break;
        }
    }
    test_host_take(h);
}

/* The next PDU that came, which must be of this type. */
static inline struct test_host_pdu *test_host_expect(struct test_host *h, enum fl_tcp_type type)
{
    assert_true(h->seen < h->nr);
    assert_string_equal(fl_tcp_type_text(h->pdus[h->seen].pdu.hdr.type), fl_tcp_type_text(type));
    return &h->pdus[h->seen++];
}

static inline void test_host_expect_none(struct test_host *h)
{
    assert_int_equal(h->seen, h->nr);
}

static inline void test_host_expect_term(struct test_host *h, enum fl_tcp_fes fes)
{
    struct test_host_pdu *got = test_host_expect(h, FL_TCP_C2H_TERM);

    assert_int_equal(le16_get(got->pdu.term.fes), fes);
    test_host_expect_none(h);
}

static inline void test_host_expect_resp(struct test_host *h, uint16_t cid, fl_nvme_status status)
{
    struct test_host_pdu *got = test_host_expect(h, FL_TCP_RESP);

    assert_int_equal(le16_get(got->pdu.resp.cqe.cid), cid);
    assert_int_equal(fl_nvme_status_code(fl_nvme_cqe_status(&got->pdu.resp.cqe)), status);
}

static inline void test_host_ic(struct test_host *h, bool hdgst, bool ddgst, uint8_t pda, uint32_t nr_r2t)
{
    struct fl_tcp_ic ic = {.hdgst = hdgst, .ddgst = ddgst, .pda = pda, .nr_r2t = nr_r2t};
    union fl_tcp_pdu pdu;

    fl_tcp_ic_req_encode(&pdu.ic_req, &ic);
    h->s.limits.pda = pda;
    fl_tcp_stream_send(&h->s, &pdu, sizeof(pdu.ic_req), NULL, 0, NULL);
    test_host_pump(h);
    test_host_expect(h, FL_TCP_IC_RESP);
}

static inline struct fl_nvme_sqe test_host_sqe(uint8_t opcode, uint16_t cid, uint8_t sgl_type, uint32_t len)
{
    return (struct fl_nvme_sqe){.opcode = opcode,
                                .flags = FL_NVME_CMD_PSDT_SGL,
                                .cid = le16_of(cid),
                                .sgl = {.len = le32_of(len), .type = sgl_type}};
}

/* Queues a command; data: in its capsule, stays in place until it is pumped. */
static inline void test_host_cmd(struct test_host *h, const struct fl_nvme_sqe *sqe, const void *data,
                                 uint32_t len)
{
    union fl_tcp_pdu pdu = {.cmd = {.hdr.type = FL_TCP_CMD, .sqe = *sqe}};

    fl_tcp_stream_send(&h->s, &pdu, sizeof(pdu.cmd), data, len, NULL);
}

static inline void test_host_data(struct test_host *h, uint16_t cid, uint16_t ttag, uint32_t off,
                                  const void *data, uint32_t len, bool last)
{
    union fl_tcp_pdu pdu = {.data = {.hdr.type = FL_TCP_H2C_DATA,
                                     .hdr.flags = last ? FL_TCP_F_DATA_LAST : 0,
                                     .cccid = le16_of(cid),
                                     .ttag = le16_of(ttag),
                                     .datao = le32_of(off),
                                     .datal = le32_of(len)}};

    fl_tcp_stream_send(&h->s, &pdu, sizeof(pdu.data), data, len, NULL);
}

#endif
