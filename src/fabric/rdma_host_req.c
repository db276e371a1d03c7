/* SPDX-License-Identifier: Apache-2.0 */
/* Requests of a host's connection: capsules out, responses in, memory described. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric/rdma_host_parts.h"

#define CM_EVERY 256 /* looks in vain at the completion queue between two at the connection manager */

/* ---- requests ---- */

int fl_rdma_host_post_recv(struct fl_rdma_host *h, uint32_t i)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)&h->recvs[i], .length = sizeof(h->recvs[i]), .lkey = h->recv_mr->lkey};
    struct ibv_recv_wr *bad, wr = {.wr_id = (uint64_t)i << WR_BITS | WR_RECV, .sg_list = &sge, .num_sge = 1};

    return ibv_post_recv(h->id->qp, &wr, &bad) ? fl_rdma_host_broken(h, -EIO, "a receive could not be posted")
                                               : 0;
}

/* Whatever was made for its data goes; what was read is put where it belongs. */
static void end_data(struct fl_rdma_host *h, struct fl_rdma_host_slot *slot)
{
    if (slot->own)
        fl_rdma_drop_own(&h->keys, slot->own);
    slot->own = NULL;
    free(slot->bounce);
    slot->bounce = NULL;
}

void fl_rdma_host_bind(struct fl_rdma_host *h, struct fl_request *req, uint32_t slot)
{
    h->slots[slot].req = req;
    req->slot = (uint16_t)slot;
    req->state = FL_REQUEST_IDLE;
    fl_list_init(&req->link);
    req->pdu.sqe.flags = (uint8_t)((req->pdu.sqe.flags & ~FL_NVME_CMD_PSDT_MASK) | FL_NVME_CMD_PSDT_SGL);
}

void fl_rdma_host_set_limits(struct fl_rdma_host *h, uint32_t capsule_len, uint32_t max_pieces)
{
    uint32_t room = capsule_len / (uint32_t)sizeof(struct fl_nvme_keyed_sgl);
    uint32_t nr = FL_MIN(max_pieces, room);

    h->capsule_len = capsule_len;
    nr = FL_MIN(nr, (uint32_t)FL_NVME_RDMA_MAX_PIECES);
    h->max_pieces = FL_MAX(nr, 1u);
}

static size_t piece_len(const struct iovec *iov, size_t skip, size_t left)
{
    size_t len = skip < iov->iov_len ? iov->iov_len - skip : 0;

    return FL_MIN(len, left);
}

/* The pieces of a request's data; how many there are, at most max + 1. */
static uint32_t pieces(const struct fl_request *req, struct iovec *out, uint32_t max)
{
    size_t left = req->data_len, skip = req->iov_skip;
    uint32_t nr = 0;

    for (uint32_t i = 0; left && i < req->nr_iov; i++) {
        size_t len = piece_len(&req->iov[i], skip, left);

        if (len && nr == max)
            return max + 1;
        if (len)
            out[nr++] = (struct iovec){(char *)req->iov[i].iov_base + skip, len};
        skip -= FL_MIN(skip, req->iov[i].iov_len);
        left -= len;
    }
    return nr;
}

static void copy_pieces(const struct fl_request *req, uint8_t *flat, bool to_pieces)
{
    size_t left = req->data_len, skip = req->iov_skip;

    for (uint32_t i = 0; left && i < req->nr_iov; i++) {
        size_t len = piece_len(&req->iov[i], skip, left);
        uint8_t *at = (uint8_t *)req->iov[i].iov_base + skip;

        memcpy(to_pieces ? at : flat, to_pieces ? flat : at, len);
        flat += len;
        skip -= FL_MIN(skip, req->iov[i].iov_len);
        left -= len;
    }
}

/* Data in the capsule: gathered by the SEND from where it lies. False: not so, describe it. */
static bool put_in_capsule(struct fl_rdma_host *h, struct fl_request *req, struct ibv_sge *sge,
                           uint32_t *nr_sge)
{
    struct iovec iov[SGE_MAX - 1];
    uint32_t nr;

    if (req->to_host || req->data_len > h->capsule_len)
        return false;
    nr = pieces(req, iov, h->max_sge - 1);
    if (nr > h->max_sge - 1)
        return false;
    for (uint32_t i = 0; i < nr; i++) {
        struct ibv_mr *mr = fl_rdma_find(&h->keys, iov[i].iov_base, iov[i].iov_len);

        if (!mr)
            return false;
        sge[1 + i] = (struct ibv_sge){
            .addr = (uintptr_t)iov[i].iov_base, .length = (uint32_t)iov[i].iov_len, .lkey = mr->lkey};
    }
    *nr_sge = 1 + nr;
    fl_nvme_rdma_sgl_capsule(&req->pdu.sqe, req->data_len);
    return true;
}

/* Several pieces, each within memory that is registered: their descriptors follow the command. How many; 0:
 * not so. */
static uint32_t describe_pieces(struct fl_rdma_host *h, struct fl_request *req)
{
    struct fl_nvme_keyed_sgl *sgl = h->capsules[req->slot].pieces;
    struct iovec iov[FL_NVME_RDMA_MAX_PIECES];
    uint32_t nr = h->max_pieces > 1 ? pieces(req, iov, h->max_pieces) : 0;

    if (nr < 2 || nr > h->max_pieces)
        return 0;
    for (uint32_t i = 0; i < nr; i++) {
        struct ibv_mr *mr = fl_rdma_find(&h->keys, iov[i].iov_base, iov[i].iov_len);

        if (!mr || iov[i].iov_len > FL_NVME_RDMA_MAX_DATA)
            return 0;
        fl_nvme_rdma_sgl_piece(&sgl[i], (uintptr_t)iov[i].iov_base, (uint32_t)iov[i].iov_len, mr->rkey);
    }
    fl_nvme_rdma_sgl_pieces(&req->pdu.sqe, nr);
    return nr;
}

/* What the controller may do with memory that is registered for one request: no more than that takes, so that
 * what may only be read can be written from. */
static int access_for(const struct fl_request *req)
{
    return req->to_host ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
}

/* A request whose memory cannot be used fails alone: the connection is not to blame. Without it the
 * controller itself cannot be spoken to, there is no other way. */
static int cannot_send(struct fl_rdma_host *h, struct fl_rdma_host_slot *slot, int code)
{
    if (!h->options.qid)
        return fl_rdma_host_broken(h, code, "the memory of a command cannot be registered");
    slot->req->cqe = (struct fl_nvme_cqe){.dw0 = le32_of((uint32_t)-code)};
    slot->req->cqe.status = le16_of((FL_NVME_SC_INTERNAL | FL_NVME_DNR) << 1);
    slot->answered = true; /* no answer is expected */
    fl_list_add_tail(&h->unsent, &slot->req->link);
    return code;
}

/* One descriptor; pieces that have none of their own are put together. */
static int describe(struct fl_rdma_host *h, struct fl_rdma_host_slot *slot)
{
    struct fl_request *req = slot->req;
    struct iovec iov;
    struct ibv_mr *mr;

    if (pieces(req, &iov, 1) != 1) {
        slot->bounce = calloc(
            1, req->data_len); /* a target may leave out some of what it says to have written */
        if (!slot->bounce)
            return cannot_send(h, slot, -ENOMEM);
        if (!req->to_host)
            copy_pieces(req, slot->bounce, false);
        iov = (struct iovec){slot->bounce, req->data_len};
    }
    errno = 0;
    mr = fl_rdma_find_or_register(&h->keys, iov.iov_base, iov.iov_len, access_for(req), &slot->own);
    if (!mr)
        return cannot_send(h, slot, errno ? -errno : -EFAULT);
    fl_nvme_rdma_sgl_keyed(&req->pdu.sqe, (uintptr_t)iov.iov_base, req->data_len, mr->rkey);
    return 0;
}

static void send_capsule(struct fl_rdma_host *h, struct fl_rdma_host_slot *slot)
{
    struct fl_request *req = slot->req;
    struct ibv_sge sge[SGE_MAX];
    uint32_t nr_sge = 1, nr_pieces = 0;
    struct ibv_send_wr *bad, wr = {.wr_id = WR_SIGNAL, .sg_list = sge, .opcode = IBV_WR_SEND};

    if (!req->data_len)
        fl_nvme_rdma_sgl_none(&req->pdu.sqe);
    else if (!put_in_capsule(h, req, sge, &nr_sge)) {
        nr_pieces = describe_pieces(h, req);
        if (!nr_pieces && describe(h, slot) < 0)
            return;
    }
    sge[0] = (struct ibv_sge){.addr = (uintptr_t)&req->pdu.sqe, .length = sizeof(req->pdu.sqe)};
    if (nr_sge == 1 && !nr_pieces) {
        wr.send_flags = IBV_SEND_INLINE;
        if (++h->unsignaled >= SIGNAL_EVERY)
            wr.send_flags |= IBV_SEND_SIGNALED;
    } else {
        h->capsules[req->slot].sqe = req->pdu.sqe;
        sge[0].addr = (uintptr_t)&h->capsules[req->slot];
        sge[0].length += nr_pieces * (uint32_t)sizeof(struct fl_nvme_keyed_sgl);
        sge[0].lkey = h->recv_mr->lkey;
        wr.wr_id = (uint64_t)req->slot << WR_BITS | WR_SEND;
        wr.send_flags = IBV_SEND_SIGNALED;
        slot->sending = true;
        h->unsignaled++;
    }
    wr.num_sge = (int)nr_sge;
    if (wr.send_flags & IBV_SEND_SIGNALED) {
        wr.wr_id |= (uint64_t)h->unsignaled << 32; /* places that its completion gives back */
        h->unsignaled = 0;
    }
    h->nr_sends++;
    h->nr_out++;
    slot->answered = false;
    if (ibv_post_send(h->id->qp, &wr, &bad))
        fl_rdma_host_broken(h, -EIO, "a command could not be posted");
}

static bool may_send(const struct fl_rdma_host *h)
{
    return h->nr_sends < h->sends_max && h->nr_out < h->max_out;
}

void fl_rdma_host_submit(struct fl_rdma_host *h, struct fl_request *req)
{
    struct fl_rdma_host_slot *slot = &h->slots[req->slot];

    req->state = FL_REQUEST_SENT;
    do
        req->cid = (uint16_t)((uint32_t)slot->generation++ << h->slot_bits | req->slot);
    while (fl_unlikely(req->cid == UINT16_MAX)); /* means "no command" in the error log */
    req->pdu.sqe.cid = le16_of(req->cid);
    slot->answered = true; /* till it is sent: what waits for a place is on a list, and cannot end */
    slot->sending = false;
    if (fl_unlikely(!may_send(h) || !fl_list_empty(&h->tx_wait)))
        fl_list_add_tail(&h->tx_wait, &req->link);
    else
        send_capsule(h, slot);
}

static void finish(struct fl_rdma_host *h, struct fl_rdma_host_slot *slot)
{
    struct fl_request *req = slot->req;

    if (!slot->answered || slot->sending)
        return;
    if (slot->bounce && req->to_host && !fl_nvme_cqe_status(&req->cqe))
        copy_pieces(req, slot->bounce, true);
    if (slot->own || slot->bounce)
        end_data(h, slot);
    req->state = FL_REQUEST_IDLE;
    h->options.done(h->options.user, req);
}

/* Outside of submit, from which no done() is called. What is submitted meanwhile waits for the next time. */
static void end_unsent(struct fl_rdma_host *h)
{
    struct fl_list *l, ended;

    fl_list_init(&ended);
    fl_list_splice(&ended, &h->unsent);
    while ((l = fl_list_pop(&ended))) {
        struct fl_request *req = FL_LIST_ENTRY(l, struct fl_request, link);

        fl_list_init(&req->link);
        end_data(h, &h->slots[req->slot]);
        req->state = FL_REQUEST_UNSENT;
        h->options.done(h->options.user, req);
    }
}

/* ---- completions ---- */

/* What came is no response to any command. */
static int no_response(struct fl_rdma_host *h, const struct ibv_wc *wc, uint16_t cid)
{
    char what[160];

    if (wc->opcode != IBV_WC_RECV)
        return fl_rdma_host_breach(h, "it wrote with an immediate where a response belongs");
    if (wc->wc_flags & IBV_WC_WITH_INV)
        snprintf(what, sizeof(what), "its response invalidates the key %08xh, which it was not asked to",
                 wc->invalidated_rkey);
    else if (wc->byte_len != sizeof(struct fl_nvme_cqe))
        snprintf(what, sizeof(what), "it sent a response of %u bytes, which must have 16", wc->byte_len);
    else
        snprintf(what, sizeof(what), "it answered command %u, which it has not got, or had answered before",
                 cid);
    return fl_rdma_host_breach(h, what);
}

static int take_response(struct fl_rdma_host *h, uint32_t recv, const struct ibv_wc *wc)
{
    struct fl_nvme_cqe cqe = h->recvs[recv];
    uint16_t cid = le16_get(cqe.cid);
    uint32_t number = cid & ((1u << h->slot_bits) - 1);
    struct fl_rdma_host_slot *slot = number < h->options.nr_reqs ? &h->slots[number] : NULL;

    if (fl_unlikely(wc->opcode != IBV_WC_RECV || wc->byte_len != sizeof(cqe) ||
                    (wc->wc_flags & IBV_WC_WITH_INV)))
        return no_response(h, wc, cid);
    if (!slot || !slot->req || slot->req->state != FL_REQUEST_SENT || slot->req->cid != cid || slot->answered)
        return no_response(h, wc, cid);
    if (fl_rdma_host_post_recv(h, recv) < 0)
        return h->err.code;
    slot->req->cqe = cqe;
    slot->answered = true;
    h->nr_out--;
    finish(h, slot);
    return h->err.code;
}

static void pump(struct fl_rdma_host *h)
{
    while (may_send(h) && !fl_list_empty(&h->tx_wait) && !h->err.code) {
        struct fl_request *req = FL_LIST_ENTRY(fl_list_pop(&h->tx_wait), struct fl_request, link);

        fl_list_init(&req->link);
        send_capsule(h, &h->slots[req->slot]);
    }
}

static int take_completion(struct fl_rdma_host *h, const struct ibv_wc *wc)
{
    uint32_t number = (uint32_t)wc->wr_id >> WR_BITS;

    if (fl_unlikely(wc->status != IBV_WC_SUCCESS)) {
        if (fl_rdma_host_take_events(h) < 0) /* it may be known better */
            return h->err.code;
        if (h->closed)
            return fl_rdma_host_closed(h);
        return fl_rdma_host_wc_failed(h, wc);
    }
    if ((wc->wr_id & ((1 << WR_BITS) - 1)) == WR_RECV)
        return take_response(h, number, wc);
    h->nr_sends -= (uint32_t)(wc->wr_id >> 32);
    if ((wc->wr_id & ((1 << WR_BITS) - 1)) == WR_SEND) {
        h->slots[number].sending = false;
        finish(h, &h->slots[number]);
    }
    return h->err.code;
}

bool fl_rdma_host_peek(struct fl_rdma_host *h)
{
    if (!h->nr_wcs && h->cq && !h->err.code) {
        h->nr_wcs = ibv_poll_cq(h->cq, BATCH, h->wcs);
        if (h->nr_wcs < 0) {
            h->nr_wcs = 0;
            fl_rdma_host_broken(h, -EIO, "the completion queue broke");
        }
    }
    return h->nr_wcs || h->err.code || h->closed || !fl_list_empty(&h->unsent);
}

static void drain_comp(struct fl_rdma_host *h)
{
    struct ibv_cq *cq;
    void *context;

    h->armed = false;
    while (!h->lib->verbs->get_cq_event(h->comp, &cq, &context))
        h->lib->verbs->ack_cq_events(cq, 1);
}

int fl_rdma_host_io(struct fl_rdma_host *h)
{
    if (h->armed)
        drain_comp(h);
    if (!fl_rdma_host_peek(h)) {
        if (++h->idle % CM_EVERY == 0)
            fl_rdma_host_take_events(h);
        return h->err.code;
    }
    while (!h->err.code && fl_rdma_host_peek(h)) {
        int nr = h->nr_wcs;

        h->nr_wcs = 0;
        for (int i = 0; i < nr && !h->err.code; i++)
            take_completion(h, &h->wcs[i]);
        if (fl_unlikely(!fl_list_empty(&h->tx_wait)))
            pump(h);
        if (fl_unlikely(!fl_list_empty(&h->unsent)))
            end_unsent(h);
        if (fl_unlikely(h->closed && !nr))
            fl_rdma_host_closed(h);
        if (nr < BATCH)
            break;
    }
    return h->err.code;
}

bool fl_rdma_host_arm(struct fl_rdma_host *h)
{
    if (h->state != CONNECTED)
        return false;
    fl_rdma_host_take_events(h);
    if (!h->armed && !h->err.code) {
        h->armed = true;
        if (ibv_req_notify_cq(h->cq, 0))
            fl_rdma_host_broken(h, -EIO, "the completion queue could not be armed");
    }
    return fl_rdma_host_peek(h);
}

void fl_rdma_host_end_requests(struct fl_rdma_host *h)
{
    for (uint32_t i = 0; h->slots && i < h->options.nr_reqs; i++) {
        end_data(h, &h->slots[i]);
        if (h->slots[i].req) {
            h->slots[i].req->state = FL_REQUEST_IDLE;
            fl_list_init(&h->slots[i].req->link);
        }
    }
}
