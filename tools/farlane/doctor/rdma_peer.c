/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection of the connection manager and bytes by RDMA WRITE and READ, over the software RNIC or over the
 * devices of this machine: the same steps. The listener's memory is twice PEER_RDMA_LEN: what is written,
 * then what is read.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc.h"
#include "peer.h"
#include "verbs/rdmacm.h"
#include "verbs/verbs.h"
#include "wire/ib.h"

#define STEP_MS   3000 /* the connection manager's own patience is longer than a user's */
#define NR_WRITES 16
#define NR_READS  8
#define NR_SMALL  200

struct end {
    const struct fl_rdmacm *cm;
    const struct fl_verbs *verbs;
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    uint8_t *bytes;
};

struct rdma_peer {
    struct end end; /* of the connection, once there is one */
    struct rdma_cm_id *listener;
};

/* Where the peer may write and read; as private data of the answer */
struct grant {
    be64 addr;
    be32 rkey, len;
};

static int choose(struct end *e, bool hardware, struct fl_error *err)
{
    int r;

    memset(e, 0, sizeof(*e));
    e->cm = &fl_rdmacm_soft;
    e->verbs = &fl_verbs_soft;
    if (hardware &&
        ((r = fl_rdmacm_hardware(&e->cm, err)) < 0 || (r = fl_verbs_hardware(&e->verbs, err)) < 0))
        return r;
    e->channel = e->cm->create_event_channel();
    return e->channel
               ? 0
               : fl_error_set(err, -errno, "no event channel of the connection manager: %s", strerror(errno));
}

static int fail(struct fl_error *err, int code, const char *step)
{
    return fl_error_set(err, code < 0 ? code : -EIO, "%s: %s", step, strerror(code < 0 ? -code : EIO));
}

/* The next event, which must be this one; a connection that it brings goes to `id`. */
static int expect(struct end *e, enum rdma_cm_event_type want, struct rdma_cm_id **id, struct grant *grant,
                  struct fl_error *err)
{
    struct pollfd pfd = {.fd = e->channel->fd, .events = POLLIN};
    struct rdma_cm_event *event;
    enum rdma_cm_event_type got;
    int status;

    if (poll(&pfd, 1, STEP_MS) != 1)
        return fl_error_set(err, -ETIMEDOUT, "waited %d s in vain for %s", STEP_MS / 1000,
                            e->cm->event_str(want));
    if (e->cm->get_cm_event(e->channel, &event))
        return fail(err, -errno, "rdma_get_cm_event");
    got = event->event;
    status = event->status;
    if (got == want && id)
        *id = event->id;
    if (got == want && grant) {
        memset(grant, 0, sizeof(*grant));
        if (event->param.conn.private_data_len >= sizeof(*grant))
            memcpy(grant, event->param.conn.private_data, sizeof(*grant));
    }
    e->cm->ack_cm_event(event);
    if (got != want)
        return fl_error_set(err, -ECONNREFUSED, "wanted %s, got %s (status %d)", e->cm->event_str(want),
                            e->cm->event_str(got), status);
    return 0;
}

static int prepare(struct end *e, size_t len, int access, struct fl_error *err)
{
    struct ibv_qp_init_attr attr = {
        .cap = {.max_send_wr = NR_WRITES, .max_recv_wr = 2, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};

    e->pd = e->verbs->alloc_pd(e->id->verbs);
    e->cq = e->pd ? e->verbs->create_cq(e->id->verbs, NR_WRITES + 2, NULL, NULL, 0) : NULL;
    if (!e->cq)
        return fail(err, -errno, "a completion queue");
    e->bytes = aligned_alloc(4096, len);
    if (!e->bytes)
        return fail(err, -ENOMEM, "memory");
    for (size_t i = 0; i < len; i++)
        e->bytes[i] = (uint8_t)((i * 2654435761u) >> 11);
    e->mr = e->verbs->reg_mr(e->pd, e->bytes, len, access);
    if (!e->mr)
        return fail(err, -errno, "ibv_reg_mr (farlane doctor --check mem-lock)");
    attr.send_cq = attr.recv_cq = e->cq;
    if (e->cm->create_qp(e->id, e->pd, &attr))
        return fail(err, -errno, "rdma_create_qp");
    return 0;
}

static void release(struct end *e)
{
    if (e->id && e->id->qp)
        e->cm->destroy_qp(e->id);
    if (e->mr)
        e->verbs->dereg_mr(e->mr);
    free(e->bytes);
    if (e->cq)
        e->verbs->destroy_cq(e->cq);
    if (e->pd)
        e->verbs->dealloc_pd(e->pd);
    if (e->id)
        e->cm->destroy_id(e->id);
    if (e->channel)
        e->cm->destroy_event_channel(e->channel);
}

/* Waits for `nr` completions; all must have succeeded. */
static int complete(struct end *e, int nr, int patience_ms, struct fl_error *err)
{
    uint64_t deadline = fl_now_ns() + (uint64_t)patience_ms * FL_NS_PER_MS;
    struct ibv_wc wc;

    while (nr > 0) {
        int n = ibv_poll_cq(e->cq, 1, &wc);

        if (n < 0)
            return fail(err, -EIO, "ibv_poll_cq");
        if (n && wc.status)
            return fl_error_set(err, -EIO, "a work request failed with status %d%s", wc.status,
                                wc.status == IBV_WC_RETRY_EXC_ERR
                                    ? " (transport retry counter exceeded: no answer from the peer)"
                                    : "");
        nr -= n;
        if (!n && fl_now_ns() > deadline)
            return fl_error_set(err, -ETIMEDOUT, "waited %d s in vain for a completion", patience_ms / 1000);
    }
    return 0;
}

int rdma_peer_listen(bool hardware, const struct fl_addr *at, struct rdma_peer **peer, uint16_t *port,
                     struct fl_error *err)
{
    struct rdma_peer *p = calloc(1, sizeof(*p));
    struct fl_addr addr = *at;
    int r = p ? choose(&p->end, hardware, err) : -ENOMEM;

    fl_addr_set_port(&addr, 0);
    if (!r &&
        (p->end.cm->create_id(p->end.channel, &p->listener, NULL, RDMA_PS_TCP) ||
         p->end.cm->bind_addr(p->listener, (struct sockaddr *)&addr.ss) || p->end.cm->listen(p->listener, 1)))
        r = fail(err, -errno, "listening by the connection manager");
    if (r < 0) {
        rdma_peer_free(p);
        return r;
    }
    *port = be16toh(p->end.cm->get_src_port(p->listener));
    *peer = p;
    return 0;
}

int rdma_peer_take(struct rdma_peer *peer, uint32_t *crc, struct fl_error *err)
{
    struct end *e = &peer->end;
    struct rdma_conn_param param = {
        .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
    struct ibv_recv_wr wr = {0}, *bad;
    struct ibv_sge sge;
    struct grant grant;
    int r = expect(e, RDMA_CM_EVENT_CONNECT_REQUEST, &e->id, NULL, err);

    if (r < 0)
        return r;
    r = prepare(e, 2 * PEER_RDMA_LEN,
                IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, err);
    if (r < 0)
        return r;
    memset(e->bytes, 0, PEER_RDMA_LEN);
    sge = (struct ibv_sge){(uintptr_t)e->bytes, 8, e->mr->lkey};
    wr.sg_list = &sge;
    wr.num_sge = 0; /* the last message says only that all is there */
    if ((r = ibv_post_recv(e->id->qp, &wr, &bad)) != 0)
        return fail(err, -r, "ibv_post_recv");
    grant = (struct grant){be64_of((uintptr_t)e->bytes), be32_of(e->mr->rkey), be32_of(2 * PEER_RDMA_LEN)};
    param.private_data = &grant;
    param.private_data_len = sizeof(grant);
    if (e->cm->accept(e->id, &param))
        return fail(err, -errno, "rdma_accept");
    r = expect(e, RDMA_CM_EVENT_ESTABLISHED, NULL, NULL, err);
    if (!r)
        r = complete(e, 1, 4 * STEP_MS, err);
    if (!r)
        *crc = fl_crc32c(0, e->bytes, PEER_RDMA_LEN);
    return r;
}

void rdma_peer_free(struct rdma_peer *peer)
{
    if (!peer)
        return;
    struct rdma_event_channel *channel = peer->end.channel;
    peer->end.channel = NULL;
    release(&peer->end);
    if (peer->listener)
        peer->end.cm->destroy_id(peer->listener);
    if (channel)
        peer->end.cm->destroy_event_channel(channel);
    free(peer);
}

static int post(struct end *e, enum ibv_wr_opcode op, size_t at, size_t len, const struct grant *to,
                size_t remote_at, struct fl_error *err)
{
    struct ibv_sge sge = {(uintptr_t)(e->bytes + at), (uint32_t)len, e->mr->lkey};
    struct ibv_send_wr wr = {.sg_list = &sge,
                             .num_sge = len ? 1 : 0,
                             .opcode = op,
                             .send_flags = IBV_SEND_SIGNALED},
                       *bad;
    int r;

    wr.wr.rdma.remote_addr = be64_get(to->addr) + remote_at;
    wr.wr.rdma.rkey = be32_get(to->rkey);
    r = ibv_post_send(e->id->qp, &wr, &bad);
    return r ? fail(err, -r, "ibv_post_send") : 0;
}

static int connect_to(struct end *e, const struct fl_addr *from, const struct fl_addr *to,
                      struct grant *grant, struct fl_error *err)
{
    struct rdma_conn_param param = {
        .responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
    struct fl_addr src = *from, dst = *to;
    int r;

    fl_addr_set_port(&src, 0);
    if (e->cm->create_id(e->channel, &e->id, NULL, RDMA_PS_TCP))
        return fail(err, -errno, "rdma_create_id");
    if (e->cm->resolve_addr(e->id, (struct sockaddr *)&src.ss, (struct sockaddr *)&dst.ss, STEP_MS))
        return fail(err, -errno, "rdma_resolve_addr");
    if ((r = expect(e, RDMA_CM_EVENT_ADDR_RESOLVED, NULL, NULL, err)) < 0)
        return r;
    if (e->cm->resolve_route(e->id, STEP_MS))
        return fail(err, -errno, "rdma_resolve_route");
    if ((r = expect(e, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL, NULL, err)) < 0 ||
        (r = prepare(e, 2 * PEER_RDMA_LEN, IBV_ACCESS_LOCAL_WRITE, err)) < 0)
        return r;
    if (e->cm->connect(e->id, &param))
        return fail(err, -errno, "rdma_connect");
    r = expect(e, RDMA_CM_EVENT_ESTABLISHED, NULL, grant, err);
    if (!r && be32_get(grant->len) != 2 * PEER_RDMA_LEN)
        r = fl_error_set(err, -EPROTO, "the peer granted %u bytes", be32_get(grant->len));
    return r;
}

static int transfer(struct end *e, const struct grant *grant, struct rdma_result *result,
                    struct fl_error *err)
{
    uint64_t start = fl_now_ns();
    uint32_t want;
    int r = 0;

    result->crc = fl_crc32c(0, e->bytes, PEER_RDMA_LEN);
    for (int i = 0; i < NR_WRITES && !r; i++)
        r = post(e, IBV_WR_RDMA_WRITE, 0, PEER_RDMA_LEN, grant, 0, err);
    if (!r)
        r = complete(e, NR_WRITES, 4 * STEP_MS, err);
    result->write_gbps = (double)NR_WRITES * PEER_RDMA_LEN / (double)(fl_now_ns() - start);

    want = fl_crc32c(0, e->bytes + PEER_RDMA_LEN, PEER_RDMA_LEN);
    memset(e->bytes + PEER_RDMA_LEN, 0, PEER_RDMA_LEN);
    start = fl_now_ns();
    for (int i = 0; i < NR_READS && !r; i++) {
        r = post(e, IBV_WR_RDMA_READ, PEER_RDMA_LEN, PEER_RDMA_LEN, grant, PEER_RDMA_LEN, err);
        if (!r)
            r = complete(e, 1, 4 * STEP_MS, err);
    }
    result->read_gbps = (double)NR_READS * PEER_RDMA_LEN / (double)(fl_now_ns() - start);
    if (!r && fl_crc32c(0, e->bytes + PEER_RDMA_LEN, PEER_RDMA_LEN) != want)
        r = fl_error_set(err, -EBADMSG, "RDMA READ brought other bytes than the peer has");

    start = fl_now_ns();
    for (int i = 0; i < NR_SMALL && !r; i++) {
        r = post(e, IBV_WR_RDMA_WRITE, 0, 8, grant, 0, err);
        if (!r)
            r = complete(e, 1, STEP_MS, err);
    }
    result->latency_us = (double)(fl_now_ns() - start) / NR_SMALL / 1000;
    if (!r)
        r = post(e, IBV_WR_SEND, 0, 0, grant, 0, err);
    return r ? r : complete(e, 1, STEP_MS, err);
}

int rdma_peer_ask(bool hardware, const struct fl_addr *from, const struct fl_addr *to,
                  struct rdma_result *result, struct fl_error *err)
{
    struct ibv_qp_init_attr init;
    struct ibv_qp_attr attr;
    struct grant grant;
    struct end e;
    int r = choose(&e, hardware, err);

    memset(result, 0, sizeof(*result));
    if (!r)
        r = connect_to(&e, from, to, &grant, err);
    if (!r) {
        snprintf(result->dev, sizeof(result->dev), "%.63s", e.id->verbs->device->name);
        if (!e.verbs->query_qp(e.id->qp, &attr, IBV_QP_PATH_MTU, &init))
            result->path_mtu = fl_ib_mtu_len((uint8_t)attr.path_mtu);
        r = transfer(&e, &grant, result, err);
        e.cm->disconnect(e.id);
    }
    release(&e);
    return r;
}
