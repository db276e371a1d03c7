/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's NVMe/TCP engine. Byte 0 chooses depth, limits and kind, byte 1 seeds how the stream is cut
 * into reads and what the target does with its commands. Then, by kind, the host's bytes as they are, or
 * steps of a host that knows the protocol: it makes right digests and uses the tags that it was given, so
 * that the depths are reached.
 *
 * Whatever comes: what the target sends is an NVMe/TCP stream that our own host side accepts, and in the end
 * all commands have come back and the connection is closed.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric/pair.h"
#include "fabric/tcp_stream.h"

#define DATA_LEN 40000u

static uint8_t pattern[DATA_LEN];

struct fuzz {
    /* input */
    const uint8_t *p;
    size_t left;
    uint32_t seed;
    /* target */
    struct fl_pair *pair;
    struct fl_conn *conn;
    struct fl_list held;
    int nr_held, nr_commands, nr_released, nr_closed;
    uint8_t sum;
    /* host */
    struct fl_tcp_stream host;
    uint16_t cid, tag;
    uint32_t offset, len; /* of the last R2T */
};

static uint32_t next_random(struct fuzz *f)
{
    f->seed = f->seed * 1664525u + 1013904223u;
    return f->seed >> 16;
}

static uint32_t next_byte(struct fuzz *f)
{
    if (!f->left)
        return 0;
    f->left--;
    return *f->p++;
}

static uint32_t next_16(struct fuzz *f)
{
    uint32_t low = next_byte(f);

    return low | next_byte(f) << 8;
}

/* ---- the target ---- */

static void opened(struct fl_conn *conn, void *user)
{
    struct fuzz *f = user;

    conn->user = f;
    f->conn = conn;
}

static void complete(struct fl_cmd *cmd, fl_nvme_status status)
{
    fl_nvme_cqe_set(&cmd->cqe, le16_get(cmd->sqe.cid), 0, 0, status);
    fl_cmd_complete(cmd);
}

static void hold(struct fuzz *f, struct fl_cmd *cmd)
{
    fl_list_add_tail(&f->held, &cmd->link);
    f->nr_held++;
}

static void start(struct fl_cmd *cmd)
{
    struct fuzz *f = cmd->conn->user;

    if (cmd->transport_status) {
        complete(cmd, cmd->transport_status);
    } else if (!cmd->sgl_len) {
        complete(cmd, 0);
    } else if (cmd->sgl_len > DATA_LEN) {
        complete(cmd, FL_NVME_SC_SGL_INVALID_DATA);
    } else if (cmd->sqe.opcode & 1) {
        if (cmd->capsule_data && next_random(f) % 2) {
            /* all of it may be read in place */
            for (uint32_t i = 0; i < cmd->sgl_len; i++)
                f->sum ^= ((const uint8_t *)cmd->capsule_data)[i];
            complete(cmd, 0);
            return;
        }
        cmd->data_len = 1 + next_random(f) % cmd->sgl_len;
        cmd->buf = cmd->data = malloc(cmd->data_len);
        fl_cmd_fetch(cmd);
    } else {
        cmd->data_len = 1 + next_random(f) % cmd->sgl_len;
        cmd->data = pattern;
        cmd->to_host = true;
        complete(cmd, next_random(f) % 8 ? 0 : FL_NVME_SC_INTERNAL);
    }
}

static void command(struct fl_cmd *cmd)
{
    struct fuzz *f = cmd->conn->user;

    f->nr_commands++;
    cmd->buf = NULL;
    if (cmd->capsule_data)
        assert(cmd->in_capsule && cmd->sgl_len == le32_get(cmd->sqe.sgl.len));
    switch (next_random(f) % 4) {
    case 0:
        hold(f, cmd);
        break;
    case 1:
        if (next_random(f) % 16 == 0)
            fl_conn_close(cmd->conn, "enough");
        /* fall through */
    default:
        start(cmd);
    }
}

static void data_ready(struct fl_cmd *cmd)
{
    struct fuzz *f = cmd->conn->user;

    if (!cmd->transport_status)
        memset(cmd->data, 0, cmd->data_len); /* nobody writes there any more */
    if (next_random(f) % 2)
        hold(f, cmd);
    else
        complete(cmd, cmd->transport_status);
}

static bool go_on(struct fuzz *f)
{
    struct fl_list *l = fl_list_pop(&f->held);
    struct fl_cmd *cmd;

    if (!l)
        return false;
    f->nr_held--;
    cmd = FL_CONTAINER_OF(l, struct fl_cmd, link);
    if (cmd->buf)
        complete(cmd, cmd->transport_status);
    else
        start(cmd);
    return true;
}

static void released(struct fl_cmd *cmd)
{
    struct fuzz *f = cmd->conn->user;

    f->nr_released++;
    free(cmd->buf);
    cmd->buf = NULL;
}

static void closed(struct fl_conn *conn, const char *why)
{
    struct fuzz *f = conn->user;

    assert(why[0]);
    f->nr_closed++;
}

static const struct fl_handler handler = {
    .opened = opened, .command = command, .data_ready = data_ready, .released = released, .closed = closed};

/* ---- the host ---- */

static int host_header(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, uint32_t len,
                       struct fl_tcp_fault *fault)
{
    struct fuzz *f = FL_CONTAINER_OF(s, struct fuzz, host);

    if (pdu->hdr.type == FL_TCP_IC_RESP) {
        s->limits.established = true;
        s->limits.hdgst = s->tx_hdgst = pdu->ic_resp.dgst & FL_TCP_DGST_HEADER;
        s->limits.ddgst = s->tx_ddgst = pdu->ic_resp.dgst & FL_TCP_DGST_DATA;
    } else if (pdu->hdr.type == FL_TCP_R2T) {
        assert(fl_tcp_r2t_check(&pdu->r2t, fault) == 0);
        f->cid = le16_get(pdu->r2t.cccid);
        f->tag = le16_get(pdu->r2t.ttag);
        f->offset = le32_get(pdu->r2t.r2to);
        f->len = le32_get(pdu->r2t.r2tl);
    }
    return 0;
}

static int host_payload(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, const void *data, bool ok,
                        struct fl_tcp_fault *fault)
{
    assert(ok);
    return 0;
}

static void host_sent(struct fl_tcp_stream *s, void *token)
{
}

static const struct fl_tcp_stream_ops host_ops = {host_header, host_payload, host_sent};

static void take(struct fuzz *f, size_t most)
{
    uint8_t buf[3000];

    while (most) {
        size_t n = fl_pair_take(f->pair, buf, FL_MIN(most, sizeof(buf))), at = 0;

        if (!n)
            break;
        most -= n;
        while (at < n) {
            struct iovec iov[1];
            size_t len;

            assert(fl_tcp_stream_rx_iov(&f->host, iov, 1) == 1);
            len = FL_MIN(iov[0].iov_len, n - at);
            memcpy(iov[0].iov_base, buf + at, len);
            at += len;
            assert(fl_tcp_stream_rx_done(&f->host, len) == 0);
        }
    }
}

static bool feed(struct fuzz *f, const uint8_t *p, size_t len)
{
    while (len) {
        size_t n = 1 + (next_random(f) % 3 ? next_random(f) % 300 : next_random(f) % 20000);
        size_t took = fl_pair_feed(f->pair, p, FL_MIN(n, len));

        if (!took) {
            take(f, SIZE_MAX); /* closed, or it does not read before we do */
            took = fl_pair_feed(f->pair, p, FL_MIN(n, len));
            if (!took)
                return false;
        }
        p += took;
        len -= took;
        if (next_random(f) % 8 == 0)
            go_on(f);
    }
    return true;
}

static bool send_queued(struct fuzz *f)
{
    struct iovec iov[1];

    while (fl_tcp_stream_tx_iov(&f->host, iov, 1)) {
        if (!feed(f, iov[0].iov_base, iov[0].iov_len))
            return false;
        fl_tcp_stream_tx_done(&f->host, iov[0].iov_len);
    }
    return true;
}

static void queue_cmd(struct fuzz *f)
{
    static const uint8_t types[] = {FL_NVME_SGL_OFFSET, FL_NVME_SGL_TRANSPORT};
    uint32_t what = next_byte(f), len = next_16(f), in_capsule = what & 16 ? next_16(f) : len;
    uint8_t type = what & 8 ? (uint8_t)next_byte(f) : types[what & 1];
    union fl_tcp_pdu pdu = {.cmd = {.hdr.type = FL_TCP_CMD,
                                    .sqe.opcode = (uint8_t)(what & 6 ? 1 + (what >> 1 & 1) : 0),
                                    .sqe.cid = le16_of((uint16_t)next_byte(f)),
                                    .sqe.sgl = {.len = le32_of(len), .type = type}}};

    if (type == FL_NVME_SGL_TRANSPORT && !(what & 16))
        in_capsule = 0;
    fl_tcp_stream_send(&f->host, &pdu, sizeof(pdu.cmd), pattern, FL_MIN(in_capsule, DATA_LEN), NULL);
}

/* Answers the last R2T, rightly if what is 0. */
static void queue_data(struct fuzz *f)
{
    uint32_t what = next_byte(f), part = f->len;
    union fl_tcp_pdu pdu;

    if (what & 1)
        part = 1 + next_16(f) % FL_MAX(f->len, 1u);
    part = FL_MIN(part, DATA_LEN);
    pdu.data = (struct fl_tcp_data){.hdr.type = FL_TCP_H2C_DATA,
                                    .hdr.flags = part == f->len ? FL_TCP_F_DATA_LAST : 0,
                                    .cccid = le16_of(f->cid),
                                    .ttag = le16_of(f->tag),
                                    .datao = le32_of(f->offset),
                                    .datal = le32_of(part)};
    if (what & 2)
        pdu.data.ttag = le16_of((uint16_t)(f->tag ^ 1u << (next_byte(f) & 15)));
    if (what & 4)
        pdu.data.datao = le32_of(f->offset + next_16(f));
    if (what & 8)
        pdu.data.datal = le32_of(next_16(f));
    if (what & 16)
        pdu.hdr.flags ^= FL_TCP_F_DATA_LAST;
    if (!part)
        part = 4;
    fl_tcp_stream_send(&f->host, &pdu, sizeof(pdu.data), pattern, part, NULL);
    f->offset += part;
    f->len -= FL_MIN(part, f->len);
}

static bool step(struct fuzz *f)
{
    struct fl_tcp_ic ic = {.pda = FL_TCP_PDA_MIN, .nr_r2t = 4};
    union fl_tcp_pdu pdu;
    uint32_t what = next_byte(f), len;
    bool ok;

    switch (what % 16) {
    case 0:
        ic.hdgst = what & 16;
        ic.ddgst = what & 32;
        ic.nr_r2t = what & 64 ? 1 : 4;
        fl_tcp_ic_req_encode(&pdu.ic_req, &ic);
        fl_tcp_stream_send(&f->host, &pdu, sizeof(pdu.ic_req), NULL, 0, NULL);
        ok = send_queued(f);
        take(f, 128);
        return ok;
    case 1:
    case 2:
    case 3:
    case 4:
    case 5:
        queue_cmd(f);
        return send_queued(f);
    case 6:
    case 7:
    case 8:
        queue_data(f);
        return send_queued(f);
    case 9:
    case 10:
        go_on(f);
        fl_pair_run(f->pair);
        return true;
    case 11:
    case 12:
        take(f, next_16(f));
        return true;
    case 13:
        take(f, SIZE_MAX);
        return true;
    case 14: /* raw bytes */
        len = (uint32_t)FL_MIN((size_t)next_byte(f), f->left);
        ok = feed(f, f->p, len);
        f->p += len;
        f->left -= len;
        return ok;
    default:
        if (!fl_pair_closed(f->pair) && what == 0xff)
            fl_conn_close(f->conn, "time is up");
        return true;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint32_t depths[] = {1, 4, 32, 130}, capsules[] = {8192, 16, 0, 100000};
    struct fl_listen_options options = {
        .handler = &handler, .hdgst = true, .ddgst = true, .max_h2c_len = 8192};
    struct fuzz f = {.p = data, .left = len};
    uint32_t what = next_byte(&f);

    f.seed = next_byte(&f);
    options.maxr2t = 1 + (what & 3);
    options.listener_user = &f;
    fl_list_init(&f.held);
    assert(fl_pair_create(&options, &f.pair) == 0);
    assert(fl_tcp_stream_init(&f.host, &host_ops, FL_TCP_HOST, 4, 16384) == 0);
    f.host.limits.max_plen = UINT32_MAX;
    assert(fl_conn_set_depth(f.conn, depths[what >> 2 & 3]) == 0);
    if (what & 0x30)
        fl_conn_set_capsule_len(f.conn, capsules[what >> 4 & 3]);
    f.conn->sq_flow_off = what & 0x40;

    if (what & 0x80)
        while (f.left && step(&f))
            ;
    else
        feed(&f, f.p, f.left);
    if (f.seed & 1)
        take(&f, SIZE_MAX);
    if (f.seed & 2)
        while (go_on(&f))
            ;
    fl_pair_cut(f.pair);
    while (go_on(&f))
        ;
    fl_pair_run(f.pair);
    assert(fl_pair_closed(f.pair) && f.nr_closed == 1 && f.nr_commands == f.nr_released && !f.nr_held);
    fl_pair_destroy(f.pair);
    fl_tcp_stream_fini(&f.host);
    return 0;
}
