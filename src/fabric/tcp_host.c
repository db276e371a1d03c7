/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/tcp_host.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/probe.h"
#include "base/util.h"

#define DEFAULT_RX_CAP (256u << 10)
#define H2C_WINDOW     32 /* H2CData PDUs that wait in the stream at a time */
#define TOKEN_H2C      1u /* bit of a token: H2CData, not a capsule */

static struct fl_tcp_host *host_of(struct fl_tcp_stream *s)
{
    return FL_CONTAINER_OF(s, struct fl_tcp_host, stream);
}

static int fault_set(struct fl_tcp_fault *fault, enum fl_tcp_fes fes, uint32_t offset)
{
    *fault = (struct fl_tcp_fault){.fes = (uint16_t)fes, .offset = offset};
    return -EPROTO;
}

/* ---- from the controller ---- */

/*
 * The request that an identifier names. A free slot or an old generation means that the controller answers
 * twice (a response after SUCCESS, say): a PDU out of sequence.
 */
static struct fl_request *find_req(struct fl_tcp_host *h, uint16_t cid, uint32_t offset,
                                   struct fl_tcp_fault *fault)
{
    uint16_t slot = cid & h->slot_mask;
    struct fl_request *req = slot < h->nr_reqs ? h->reqs[slot] : NULL;

    if (fl_likely(req && req->state == FL_REQUEST_SENT && req->cid == cid))
        return req;
    fault_set(fault, req ? FL_TCP_FES_SEQUENCE : FL_TCP_FES_HEADER, offset);
    return NULL;
}

static void finish(struct fl_tcp_host *h, struct fl_request *req)
{
    req->state = FL_REQUEST_IDLE;
    h->nr_sent--;
    h->ops->done(h, req);
}

static void good_again(struct fl_tcp_host *h, struct fl_request *req)
{
    req->nr_iov = req->nr_bad;
    req->nr_bad = 0;
    if (!--h->nr_bad)
        fl_tcp_guess_rest(h, false);
}

/* Not all of the data are where they belong. True: the request has ended. */
static bool incomplete(struct fl_tcp_host *h, struct fl_request *req)
{
    /* A data digest error fails this command alone, and it may be sent again (transport
     * specification 3.3.1.2.2). The same for success without all of the data: nothing that a caller could
     * use. */
    if (!fl_nvme_cqe_status(&req->cqe))
        req->cqe.status = le16_of(FL_NVME_SC_TRANSIENT_TRANSPORT << 1);
    if (!req->nr_bad)
        return false;
    good_again(h, req);
    req->cqe.dw0 = le32_of(EFAULT);
    req->cqe.status = le16_of((FL_NVME_SC_INTERNAL | FL_NVME_DNR) << 1);
    req->state = FL_REQUEST_UNSENT;
    h->nr_sent--;
    h->ops->done(h, req);
    return true;
}

static void answered(struct fl_tcp_host *h, struct fl_request *req)
{
    if (fl_unlikely(req->digest_bad || req->data_done < req->data_len) && incomplete(h, req))
        return;
    if (fl_unlikely(req->nr_r2t)) {
        req->nr_r2t = 0;
        fl_list_del(&req->link);
    }
    if (fl_unlikely(req->nr_tx))
        req->state = FL_REQUEST_ANSWERED;
    else
        finish(h, req);
}

static int on_response(struct fl_tcp_host *h, const struct fl_tcp_resp *pdu, struct fl_tcp_fault *fault)
{
    struct fl_request *req = find_req(h, le16_get(pdu->cqe.cid), 20, fault);

    if (!req)
        return -EPROTO;
    req->cqe = pdu->cqe;
    answered(h, req);
    return 0;
}

static int on_data(struct fl_tcp_host *h, const struct fl_tcp_data *pdu, uint32_t data_len,
                   struct fl_tcp_fault *fault)
{
    struct fl_request *req = find_req(h, le16_get(pdu->cccid), 8, fault);

    if (!req || fl_tcp_data_check(pdu, fault) < 0)
        return -EPROTO;
    /* SUCCESS stands only with LAST (transport specification 3.6.2.7). */
    if ((pdu->hdr.flags & (FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS)) == FL_TCP_F_DATA_SUCCESS)
        return fault_set(fault, FL_TCP_FES_HEADER, 1);
    if (!req->to_host || le32_get(pdu->datao) != req->data_done || data_len > req->data_len - req->data_done)
        return fault_set(fault, FL_TCP_FES_RANGE, 12);
    if (fl_likely(req->nr_iov == 1))
        fl_tcp_stream_place(&h->stream, (uint8_t *)req->iov->iov_base + req->iov_skip + req->data_done);
    else if (req->nr_iov) /* else its memory is not there: thrown away */
        fl_tcp_stream_place_iov(&h->stream, req->iov, (int)req->nr_iov, req->iov_skip + req->data_done);
    req->data_done += data_len;
    return 0;
}

static int on_r2t(struct fl_tcp_host *h, const struct fl_tcp_r2t *pdu, struct fl_tcp_fault *fault)
{
    struct fl_request *req = find_req(h, le16_get(pdu->cccid), 8, fault);
    uint32_t off = le32_get(pdu->r2to), len = le32_get(pdu->r2tl);

    if (!req || fl_tcp_r2t_check(pdu, fault) < 0)
        return -EPROTO;
    /* In-capsule data has its data_done at the end from the start, so an R2T for it ends here, too. */
    if (req->to_host || !fl_range_fits(off, len, req->data_len) || len > req->data_len - req->data_done)
        return fault_set(fault, FL_TCP_FES_RANGE, 12);
    if (req->nr_r2t == FL_REQUEST_NR_R2T)
        return fault_set(fault, FL_TCP_FES_LIMIT, 0);
    req->data_done += len;
    req->r2t[req->nr_r2t] = (struct fl_request_r2t){.ttag = le16_get(pdu->ttag), .off = off, .left = len};
    if (!req->nr_r2t++)
        fl_list_add_tail(&h->tx_wait, &req->link);
    return 0;
}

static int on_ic_resp(struct fl_tcp_host *h, const struct fl_tcp_ic_resp *pdu, struct fl_tcp_fault *fault)
{
    struct fl_tcp_stream *s = &h->stream;
    int r = fl_tcp_ic_resp_decode(pdu, &h->asked, &h->agreed, fault);

    if (r < 0)
        return r;
    s->limits.established = true;
    s->limits.hdgst = s->tx_hdgst = h->agreed.hdgst;
    s->limits.ddgst = s->tx_ddgst = h->agreed.ddgst;
    s->tx_pda = h->agreed.pda;
    h->ready = true;
    h->ops->ready(h);
    return 0;
}

/* C2HTermReq: the controller ends the connection and says why. */
static int on_term(struct fl_tcp_host *h, const struct fl_tcp_term *pdu)
{
    h->term_fes = le16_get(pdu->fes);
    if (!h->term_fes)
        h->term_fes = UINT16_MAX; /* reserved, but it did come */
    return fl_error_set(&h->err, -EPROTO, "the target ended the connection: %s (code %u, at %u)",
                        fl_tcp_term_text(h->term_fes), h->term_fes, le32_get(pdu->fei));
}

static int header(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, uint32_t data_len,
                  struct fl_tcp_fault *fault)
{
    struct fl_tcp_host *h = host_of(s);

    switch (pdu->hdr.type) {
    case FL_TCP_C2H_DATA:
        return on_data(h, &pdu->data, data_len, fault);
    case FL_TCP_RESP:
        return on_response(h, &pdu->resp, fault);
    case FL_TCP_R2T:
        return on_r2t(h, &pdu->r2t, fault);
    case FL_TCP_IC_RESP:
        return on_ic_resp(h, &pdu->ic_resp, fault);
    case FL_TCP_C2H_TERM:
        return on_term(h, &pdu->term);
    default: /* fl_tcp_hdr_check lets no other pass */
        return fault_set(fault, FL_TCP_FES_HEADER, 0);
    }
}

static int payload(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, const void *data, bool digest_ok,
                   struct fl_tcp_fault *fault)
{
    struct fl_tcp_host *h = host_of(s);
    struct fl_request *req;

    if (fl_unlikely(pdu->hdr.type != FL_TCP_C2H_DATA))
        return 0;
    /* Nothing else of the stream has been looked at since header() found it. */
    req = h->reqs[le16_get(pdu->data.cccid) & h->slot_mask];
    if (fl_unlikely(!digest_ok))
        req->digest_bad = true;
    if (pdu->hdr.flags & FL_TCP_F_DATA_SUCCESS) {
        req->cqe = (struct fl_nvme_cqe){.cid = pdu->data.cccid};
        answered(h, req);
    }
    return 0;
}

bool fl_tcp_host_bad_memory(struct fl_tcp_host *h)
{
    struct fl_tcp_stream *s = &h->stream;
    struct fl_request *req;
    bool any = false;

    for (uint32_t i = 0; i < h->nr_reqs; i++) {
        req = h->reqs[i];
        if (!req || req->state != FL_REQUEST_SENT || !req->to_host || !req->nr_iov ||
            fl_probe_iov(req->iov, req->nr_iov, req->iov_skip, req->data_len, true))
            continue;
        req->nr_bad = req->nr_iov;
        req->nr_iov = 0;
        req->digest_bad = true; /* whatever comes of it, it is not complete */
        h->nr_bad++;
        any = true;
    }
    if (any) {
        fl_tcp_guess_rest(h, true);
        req = s->pdu.hdr.type == FL_TCP_C2H_DATA ? h->reqs[le16_get(s->pdu.data.cccid) & h->slot_mask] : NULL;
        if (req && req->nr_bad) /* it is the one that was being filled, if one was */
            fl_tcp_stream_discard(s);
    }
    return any;
}

/* All of a read's data and its end have come, as a guess had it. */
void fl_tcp_host_read_ended(struct fl_tcp_host *h, struct fl_request *req, uint32_t plen)
{
    h->stream.rx_len += plen;
    h->stream.nr_rx_pdus++;
    req->data_done = req->data_len;
    req->cqe = (struct fl_nvme_cqe){.cid = le16_of(req->cid)};
    answered(h, req);
}

/* ---- to the controller ---- */

/* A PDU with len bytes of req's data from off on. */
static void send_data(struct fl_tcp_host *h, struct fl_request *req, union fl_tcp_pdu *pdu, uint32_t hlen,
                      uint32_t off, uint32_t len, void *token)
{
    size_t skip = req->iov_skip + off;

    req->nr_tx++;
    if (fl_likely(req->nr_iov == 1))
        fl_tcp_stream_send(&h->stream, pdu, hlen, (const uint8_t *)req->iov->iov_base + skip, len, token);
    else
        fl_tcp_stream_send_iov(&h->stream, pdu, hlen, req->iov, (int)req->nr_iov, skip, len, token);
}

static void sent(struct fl_tcp_stream *s, void *token)
{
    struct fl_tcp_host *h = host_of(s);
    struct fl_request *req = (struct fl_request *)((uintptr_t)token & ~(uintptr_t)TOKEN_H2C);

    if ((uintptr_t)token & TOKEN_H2C)
        h->nr_h2c--;
    if (!--req->nr_tx && req->state == FL_REQUEST_ANSWERED)
        finish(h, req);
}

void fl_tcp_host_pump_slow(struct fl_tcp_host *h)
{
    while (!fl_list_empty(&h->tx_wait) && h->nr_h2c < H2C_WINDOW) {
        struct fl_request *req = FL_LIST_ENTRY(h->tx_wait.next, struct fl_request, link);
        struct fl_request_r2t *todo = &req->r2t[0];
        uint32_t len = FL_MIN(todo->left, h->agreed.maxh2cdata);
        uint32_t off = todo->off;
        union fl_tcp_pdu pdu;

        pdu.data = (struct fl_tcp_data){
            .hdr = {.type = FL_TCP_H2C_DATA, .flags = len == todo->left ? FL_TCP_F_DATA_LAST : 0},
            .cccid = le16_of(req->cid),
            .ttag = le16_of(todo->ttag),
            .datao = le32_of(off),
            .datal = le32_of(len),
        };
        h->nr_h2c++;
        todo->off += len;
        todo->left -= len;
        if (!todo->left) {
            req->nr_r2t--;
            memmove(&req->r2t[0], &req->r2t[1], req->nr_r2t * sizeof(req->r2t[0]));
            fl_list_del(&req->link);
            if (req->nr_r2t)
                fl_list_add_tail(&h->tx_wait, &req->link);
        }
        send_data(h, req, &pdu, sizeof(pdu.data), off, len, (void *)((uintptr_t)req | TOKEN_H2C));
    }
}

static void next_cid(struct fl_tcp_host *h, struct fl_request *req)
{
    do
        req->cid = (uint16_t)(req->cid + (1u << h->slot_bits));
    while (fl_unlikely(req->cid == UINT16_MAX)); /* means "no command" in the error log */
    req->pdu.sqe.cid = le16_of(req->cid);
}

static void set_sgl(struct fl_nvme_sgl *sgl, uint8_t type, uint32_t len)
{
    sgl->len = le32_of(len);
    sgl->type = type;
}

void fl_tcp_host_submit(struct fl_tcp_host *h, struct fl_request *req)
{
    uint32_t len = req->data_len;

    assert((req->state == FL_REQUEST_IDLE || req->state == FL_REQUEST_UNSENT) && h->ready);
    next_cid(h, req);
    req->pdu.hdr.flags = 0; /* the stream adds to them */
    req->state = FL_REQUEST_SENT;
    req->digest_bad = false;
    req->data_done = 0;
    h->nr_sent++;
    if (len && !req->to_host && len <= h->capsule_len) {
        set_sgl(&req->pdu.sqe.sgl, FL_NVME_SGL_OFFSET, len);
        req->data_done = len;
        send_data(h, req, (union fl_tcp_pdu *)&req->pdu, sizeof(req->pdu), 0, len, req);
        return;
    }
    set_sgl(&req->pdu.sqe.sgl, FL_NVME_SGL_TRANSPORT, len);
    if (req->to_host && len && h->guess.order) {
        struct fl_tcp_guess *g = &h->guess;

        g->order[g->tail++ & g->mask] = req->cid;
        if (g->tail - g->head > g->mask)
            g->head = g->tail - g->mask;
    }
    fl_tcp_stream_send(&h->stream, (union fl_tcp_pdu *)&req->pdu, sizeof(req->pdu), NULL, 0, NULL);
}

void fl_tcp_host_bind(struct fl_tcp_host *h, struct fl_request *req, uint32_t slot)
{
    assert(slot < h->nr_reqs);
    h->reqs[slot] = req;
    req->slot = (uint16_t)slot;
    req->cid = (uint16_t)slot;
    req->state = FL_REQUEST_IDLE;
    req->nr_tx = 0;
    req->nr_r2t = 0;
    fl_list_init(&req->link);
    req->pdu.hdr = (struct fl_tcp_hdr){.type = FL_TCP_CMD};
    req->pdu.sqe.flags = FL_NVME_CMD_PSDT_SGL;
    req->pdu.sqe.sgl = (struct fl_nvme_sgl){.type = FL_NVME_SGL_TRANSPORT};
}

void fl_tcp_host_start(struct fl_tcp_host *h)
{
    union fl_tcp_pdu pdu;

    fl_tcp_ic_req_encode(&pdu.ic_req, &h->asked);
    fl_tcp_stream_send(&h->stream, &pdu, sizeof(pdu.ic_req), NULL, 0, NULL);
}

/* The controller broke the protocol: says so in words, and to the controller by H2CTermReq. */
static int broken(struct fl_tcp_host *h)
{
    struct fl_tcp_stream *s = &h->stream;
    const struct fl_tcp_fault *f = &s->fault;
    uint8_t term[FL_TCP_TERM_PLEN_MAX];

    if (h->term_fes)
        return -EPROTO;
    fl_error_set(&h->err, -EPROTO, "the target broke the protocol: %s (code %u) at byte %u of %s",
                 fl_tcp_term_text(f->fes), f->fes, f->offset,
                 s->bad_len ? fl_tcp_type_text(s->bad_pdu[0]) : "a PDU");
    fl_tcp_stream_send_raw(s, term, fl_tcp_term_encode(term, FL_TCP_HOST, f, s->bad_pdu, s->bad_len));
    return -EPROTO;
}

int fl_tcp_host_rx_done(struct fl_tcp_host *h, size_t n)
{
    int r = h->guess.nr ? fl_tcp_guess_rx_done(h, n) : fl_tcp_stream_rx_done(&h->stream, n);

    return fl_likely(r == 0) ? 0 : broken(h);
}

static const struct fl_tcp_stream_ops stream_ops = {.header = header, .payload = payload, .sent = sent};

int fl_tcp_host_init(struct fl_tcp_host *h, const struct fl_tcp_host_ops *ops,
                     const struct fl_tcp_host_options *options)
{
    int r;

    assert(options->nr_reqs && options->nr_reqs <= FL_REQUESTS_MAX);
    *h = (struct fl_tcp_host){.ops = ops, .nr_reqs = options->nr_reqs, .capsule_len = FL_TCP_ADMIN_DATA_LEN};
    fl_list_init(&h->tx_wait);
    while (1u << h->slot_bits < h->nr_reqs)
        h->slot_bits++;
    h->slot_mask = (uint16_t)((1u << h->slot_bits) - 1);
    h->asked = (struct fl_tcp_ic){
        .hdgst = options->hdgst, .ddgst = options->ddgst, .pda = FL_TCP_PDA_MIN, .nr_r2t = FL_REQUEST_NR_R2T};
    h->reqs = calloc(h->nr_reqs, sizeof(h->reqs[0]));
    if (!h->reqs)
        return -ENOMEM;
    r = fl_tcp_stream_init(&h->stream, &stream_ops, FL_TCP_HOST, h->nr_reqs + H2C_WINDOW + 2,
                           options->rx_cap ? options->rx_cap : DEFAULT_RX_CAP);
    if (r < 0) {
        free(h->reqs);
        return r;
    }
    r = options->guess ? fl_tcp_guess_init(h) : 0;
    if (r < 0) {
        fl_tcp_stream_fini(&h->stream);
        free(h->reqs);
        return r;
    }
    h->stream.limits.max_plen = FL_TCP_PDA_MAX + 2 * FL_TCP_DIGEST_LEN + options->max_data_len;
    h->stream.limits.pda = FL_TCP_PDA_MIN;
    return 0;
}

void fl_tcp_host_fini(struct fl_tcp_host *h)
{
    if (!h->reqs)
        return;
    for (uint32_t i = 0; i < h->nr_reqs; i++)
        if (h->reqs[i])
            h->reqs[i]->state = FL_REQUEST_IDLE; /* so that sent() finishes none */
    fl_tcp_stream_fini(&h->stream);
    fl_tcp_guess_fini(h);
    for (uint32_t i = 0; i < h->nr_reqs; i++) {
        if (!h->reqs[i])
            continue;
        fl_list_del(&h->reqs[i]->link);
        h->reqs[i]->nr_r2t = 0;
        if (h->reqs[i]->nr_bad)
            good_again(h, h->reqs[i]);
    }
    free(h->reqs);
    h->reqs = NULL;
}
