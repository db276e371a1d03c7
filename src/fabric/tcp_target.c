/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/tcp_target.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fabric/tcp_slot.h"

#define DEFAULT_RX_CAP    65536u
#define MOST_H2C_LEN      (1u << 28)
#define EARLY_CAPSULE_LEN FL_TCP_ADMIN_DATA_LEN /* before Connect tells which queue it is */

static const struct fl_tcp_stream_ops stream_ops;

/* The most PDUs that one command can have in the queue: R2Ts, or data and response. */
static uint32_t pdus_per_cmd(const struct fl_tcp_target *t)
{
    return FL_MAX(t->nr_r2t, 2u);
}

/*
 * Twice what a host that keeps to its depth can make us queue. When more than half of it is in use the host
 * does not keep to it (it sends new commands without waiting for responses), and its commands have to wait;
 * the other half is then enough for all that are with the target.
 */
static int reserve_tx(struct fl_tcp_target *t)
{
    return fl_tcp_stream_set_tx_pdus(&t->stream, 2 * (t->nr_slots * pdus_per_cmd(t) + 2));
}

static void set_limits(struct fl_tcp_target *t)
{
    uint32_t cmd = sizeof(struct fl_tcp_cmd) + t->capsule_len,
             data = sizeof(struct fl_tcp_data) + t->max_h2c_len;

    /* Which of both a PDU must keep to is checked when its type is known. */
    t->stream.limits.max_plen = FL_MAX(cmd, data) + FL_TCP_PDA_MAX + 2 * FL_TCP_DIGEST_LEN;
}

int fl_tcp_target_init(struct fl_tcp_target *t, const struct fl_tcp_target_options *options)
{
    int r;

    memset(t, 0, sizeof(*t));
    t->conn = (struct fl_conn){
        .ops = options->conn_ops, .handler = options->handler, .loop = options->loop, .pool = options->pool};
    t->kick = options->kick;
    t->hdgst_allowed = options->hdgst;
    t->ddgst_allowed = options->ddgst;
    t->max_h2c_len = options->max_h2c_len ? options->max_h2c_len & ~3u : FL_TCP_TARGET_DEFAULT_H2C_LEN;
    t->max_h2c_len = FL_MIN(FL_MAX(t->max_h2c_len, (uint32_t)FL_TCP_MAXH2CDATA_MIN), MOST_H2C_LEN);
    t->maxr2t = options->maxr2t ? FL_MIN(options->maxr2t, FL_TCP_TARGET_MAX_R2T) : FL_TCP_TARGET_MAX_R2T;
    t->nr_r2t = 1;
    t->pda = (uint8_t)FL_MAX(options->pda, (uint32_t)FL_TCP_PDA_MIN);
    t->capsule_len = EARLY_CAPSULE_LEN;
    r = fl_tcp_stream_init(&t->stream, &stream_ops, FL_TCP_TARGET, 2 * (FL_TCP_TARGET_MAX_R2T + 2),
                           options->rx_cap ? options->rx_cap : DEFAULT_RX_CAP);
    if (r < 0)
        return r;
    r = fl_tcp_slots_grow(t, 1);
    if (r == 0)
        r = fl_tcp_stash_reserve(t);
    if (r < 0)
        fl_tcp_target_fini(t);
    set_limits(t);
    return r;
}

void fl_tcp_target_fini(struct fl_tcp_target *t)
{
    assert(!t->nr_active);
    fl_tcp_stream_fini(&t->stream);
    fl_tcp_slots_fini(t);
}

/* Inside a call of the driver's it looks itself; else it is told, once. */
void fl_tcp_target_want_driver(struct fl_tcp_target *t)
{
    if (t->busy || t->kicked)
        return;
    t->kicked = true;
    t->kick(t);
}

static void note_why(struct fl_tcp_target *t, const char *why)
{
    if (!t->why[0])
        snprintf(t->why, sizeof(t->why), "%s", why);
}

/* ---- set-up ---- */

static int take_ic_req(struct fl_tcp_target *t, const struct fl_tcp_ic_req *req, struct fl_tcp_fault *fault)
{
    struct fl_tcp_ic ic, ours;
    union fl_tcp_pdu resp;
    int r = fl_tcp_ic_req_decode(req, &ic, fault);

    if (r < 0)
        return r;
    t->hdgst_asked = ic.hdgst;
    t->ddgst_asked = ic.ddgst;
    t->nr_r2t = FL_MIN(ic.nr_r2t, t->maxr2t);
    ours = (struct fl_tcp_ic){.hdgst = ic.hdgst && t->hdgst_allowed,
                              .ddgst = ic.ddgst && t->ddgst_allowed,
                              .pda = t->pda,
                              .maxh2cdata = t->max_h2c_len};
    fl_tcp_ic_resp_encode(&resp.ic_resp, &ours);
    fl_tcp_stream_send(&t->stream, &resp, sizeof(resp.ic_resp), NULL, 0, NULL);
    t->stream.tx_hdgst = t->stream.limits.hdgst = ours.hdgst;
    t->stream.tx_ddgst = t->stream.limits.ddgst = ours.ddgst;
    t->stream.tx_pda = ic.pda;
    t->stream.limits.pda = ours.pda;
    t->stream.limits.established = true;
    t->state = FL_TCP_TARGET_OPEN;
    return 0;
}

/* ---- PDUs ---- */

static int take_term(struct fl_tcp_target *t, const struct fl_tcp_term *pdu, struct fl_tcp_fault *fault)
{
    snprintf(t->why, sizeof(t->why), "the host ended the connection: %s (FES %u, FEI %u)",
             fl_tcp_term_text(le16_get(pdu->fes)), le16_get(pdu->fes), le32_get(pdu->fei));
    fault->fes = 0; /* nothing to answer */
    return -EPROTO;
}

static int on_header(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, uint32_t data_len,
                     struct fl_tcp_fault *fault)
{
    struct fl_tcp_target *t = FL_CONTAINER_OF(s, struct fl_tcp_target, stream);

    if (fl_unlikely(t->moving || t->state >= FL_TCP_TARGET_CLOSING))
        return -EAGAIN;
    switch (pdu->hdr.type) {
    case FL_TCP_CMD:
        return fl_tcp_target_take_cmd(t, pdu, data_len, fault);
    case FL_TCP_H2C_DATA:
        return fl_tcp_target_take_data(t, &pdu->data, fault);
    case FL_TCP_IC_REQ:
        return take_ic_req(t, &pdu->ic_req, fault);
    default: /* H2CTermReq; fl_tcp_hdr_check lets no other through */
        return take_term(t, &pdu->term, fault);
    }
}

static int on_payload(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, const void *data, bool digest_ok,
                      struct fl_tcp_fault *fault)
{
    struct fl_tcp_target *t = FL_CONTAINER_OF(s, struct fl_tcp_target, stream);

    if (pdu->hdr.type == FL_TCP_CMD)
        return fl_tcp_target_take_capsule(t, pdu, data, digest_ok, fault);
    fl_tcp_target_take_data_payload(t, &pdu->data, digest_ok);
    return 0;
}

static const struct fl_tcp_stream_ops stream_ops = {.header = on_header,
                                                    .payload = on_payload,
                                                    .sent = fl_tcp_target_on_sent,
                                                    .digest = fl_tcp_target_digest};

/* ---- the end ---- */

/* Nothing is received from now on; what is queued still goes out. */
static void start_closing(struct fl_tcp_target *t)
{
    if (t->state >= FL_TCP_TARGET_CLOSING)
        return;
    t->state = FL_TCP_TARGET_CLOSING;
    t->conn.dead = true;
}

/* Commands whose data will not come any more, then whatever the target holds back. Outside of its calls. */
static void tell_target(struct fl_tcp_target *t)
{
    if (t->told || !t->conn.dead)
        return;
    t->told = true;
    t->stream.place_iov = NULL; /* rx_iov gives nothing from now on */
    fl_tcp_target_drop_early(t);
    fl_tcp_target_drop_fetches(t);
    if (t->conn.handler->broken)
        t->conn.handler->broken(&t->conn);
}

static void answer_fault(struct fl_tcp_target *t)
{
    struct fl_tcp_stream *s = &t->stream;
    uint8_t term[FL_TCP_TERM_PLEN_MAX];
    uint32_t len;

    if (!t->why[0])
        snprintf(t->why, sizeof(t->why), "the host broke the protocol: %s at byte %u of %s",
                 fl_tcp_term_text(s->fault.fes), s->fault.offset,
                 s->bad_len ? fl_tcp_type_text(s->bad_pdu[0]) : "a PDU");
    if (s->fault.fes && !t->conn.dead) {
        len = fl_tcp_term_encode(term, FL_TCP_TARGET, &s->fault, s->bad_pdu, s->bad_len);
        fl_tcp_stream_send_raw(s, term, len);
    }
    start_closing(t);
}

static void enter(struct fl_tcp_target *t)
{
    assert(!t->busy);
    t->busy = true;
    t->kicked = false;
}

static void leave(struct fl_tcp_target *t, int r)
{
    if (fl_unlikely(r < 0))
        answer_fault(t);
    if (fl_unlikely(t->conn.dead))
        tell_target(t);
    t->busy = false;
}

static int resume(struct fl_tcp_target *t)
{
    if (!t->stream.rx_paused || t->moving || t->state >= FL_TCP_TARGET_CLOSING ||
        (t->wait_room && fl_tcp_target_must_wait(t)))
        return 0;
    t->wait_room = false;
    return fl_tcp_stream_resume(&t->stream);
}

int fl_tcp_target_rx_iov(struct fl_tcp_target *t, struct iovec *iov, int max)
{
    if (fl_unlikely(t->state >= FL_TCP_TARGET_CLOSING || t->moving))
        return 0;
    return fl_tcp_stream_rx_iov(&t->stream, iov, max);
}

void fl_tcp_target_rx_done(struct fl_tcp_target *t, size_t n)
{
    enter(t);
    leave(t, fl_tcp_stream_rx_done(&t->stream, n));
}

void fl_tcp_target_tx_done(struct fl_tcp_target *t, size_t n)
{
    enter(t);
    fl_tcp_stream_tx_done(&t->stream, n);
    leave(t, fl_unlikely(t->stream.rx_paused) ? resume(t) : 0);
}

void fl_tcp_target_advance(struct fl_tcp_target *t)
{
    enter(t);
    leave(t, resume(t));
}

void fl_tcp_target_cut(struct fl_tcp_target *t, const char *why)
{
    if (t->state == FL_TCP_TARGET_DEAD)
        return;
    enter(t);
    note_why(t, why);
    t->state = FL_TCP_TARGET_DEAD;
    t->conn.dead = true;
    fl_tcp_stream_abort(&t->stream);
    leave(t, 0);
}

void fl_tcp_target_close(struct fl_conn *conn, const char *why)
{
    struct fl_tcp_target *t = fl_tcp_target_of(conn);

    note_why(t, why);
    start_closing(t);
    fl_tcp_target_want_driver(t);
}

/* ---- the target's wishes ---- */

int fl_tcp_target_set_depth(struct fl_conn *conn, uint32_t nr_cmds)
{
    struct fl_tcp_target *t = fl_tcp_target_of(conn);
    int r = fl_tcp_slots_grow(t, nr_cmds);

    if (r == 0)
        r = reserve_tx(t);
    if (r == 0)
        r = fl_tcp_stash_reserve(t);
    return r;
}

void fl_tcp_target_set_limits(struct fl_conn *conn, uint32_t capsule_data_len)
{
    struct fl_tcp_target *t = fl_tcp_target_of(conn);

    t->capsule_len = capsule_data_len;
    set_limits(t);
    if (fl_tcp_stash_reserve(t) < 0)
        fl_tcp_target_close(conn, "no memory for in-capsule data");
}

void fl_tcp_target_info(const struct fl_conn *conn, struct fl_conn_info *info)
{
    const struct fl_tcp_target *t = FL_CONTAINER_OF(conn, struct fl_tcp_target, conn);
    const struct fl_tcp_stream *s = &t->stream;

    *info = (struct fl_conn_info){
        .transport = "tcp",
        .hdgst_asked = t->hdgst_asked,
        .ddgst_asked = t->ddgst_asked,
        .hdgst = s->limits.hdgst,
        .ddgst = s->limits.ddgst,
        .max_h2c_len = t->max_h2c_len,
        .maxr2t = t->nr_r2t,
        .pda_host = s->tx_pda,
        .pda_ctrl = t->pda,
        .rx_len = FL_TCP_PEEK(s->rx_len),
        .tx_len = FL_TCP_PEEK(s->tx_len),
        .nr_pdus_rx = FL_TCP_PEEK(s->nr_rx_pdus),
        .nr_pdus_tx = FL_TCP_PEEK(s->nr_tx_pdus),
        .nr_digest_errors = FL_TCP_PEEK(s->nr_ddgst_errors),
    };
}
