/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of the target over RDMA: capsules in, data by RDMA READ and WRITE, responses out. */
#include <errno.h>
#include <string.h>

#include "base/copy.h"
#include "base/copy_ahead.h"
#include "fabric/rdma_parts.h"
#include "wire/nvmf.h"

#define BATCH    32 /* completions in one look */
#define FLUSH_AT 16 /* gathered requests: the host works on some while we make others */

/* ---- data from memory ---- */

/*
 * What is sent is copied soon, by us where the host is near, and waits for memory more than for all else.
 * While a block is copied the next one is fetched (base/copy_ahead.h). What comes before that is fetched
 * here, while responses are made: the first line of each block with its own response, so that the TLB has the
 * page, its beginning with the next one, and of the first block of a batch, which no copy goes before, a part
 * with each response.
 */
#define BEGINNING 256u

static void fetch_begun(struct rdma_conn *c)
{
    if (c->ahead.last_len)
        fl_fetch_ahead(c->ahead.last, FL_MIN(c->ahead.last_len, BEGINNING));
    c->ahead.last_len = 0;
    if (c->ahead.first_len) {
        uint32_t len = FL_MIN(c->ahead.first_len, FL_FETCH_LEN);

        fl_fetch_ahead(c->ahead.first, len);
        c->ahead.first += len;
        c->ahead.first_len -= len;
    }
}

static void begin_fetch(struct rdma_conn *c, const uint8_t *data, uint32_t len, bool first)
{
    fetch_begun(c);
    __builtin_prefetch(data, 0, 2);
    if (first) {
        c->ahead.first = data;
        c->ahead.first_len = FL_MIN(len, FL_COPY_AHEAD_MAX);
    } else {
        c->ahead.last = data;
        c->ahead.last_len = len;
    }
}

/* ---- receives ---- */

static uint8_t *recv_at(const struct rdma_conn *c, uint32_t recv)
{
    return c->shared ? fl_rdma_shared_at(c->shared, recv) : c->recv_mem + (size_t)recv * c->recv_stride;
}

static void make_recv(const struct rdma_conn *c, uint32_t recv, struct ibv_recv_wr *wr, struct ibv_sge *sge)
{
    *sge = (struct ibv_sge){.addr = (uintptr_t)recv_at(c, recv),
                            .length = (uint32_t)sizeof(struct fl_nvme_sqe) + c->capsule_len,
                            .lkey = c->recv_mr->lkey};
    *wr = (struct ibv_recv_wr){.wr_id = (uint64_t)recv << WR_BITS | WR_RECV, .sg_list = sge, .num_sge = 1};
}

static void post_recvs(struct rdma_conn *c, struct ibv_recv_wr *wr)
{
    struct ibv_recv_wr *bad;

    if (ibv_post_recv(c->id->qp, wr, &bad))
        broke(c, "a receive could not be posted");
}

void fl_rdma_post_recv(struct rdma_conn *c, uint32_t recv)
{
    struct ibv_recv_wr wr;
    struct ibv_sge sge;

    if (c->shared) {
        if (fl_rdma_shared_post(c->shared, recv))
            broke(c, "a shared receive could not be posted");
        return;
    }
    make_recv(c, recv, &wr, &sge);
    post_recvs(c, &wr);
}

static void flush_recvs(struct rdma_conn *c, struct rdma_batch *b)
{
    if (!b->nr_recvs)
        return;
    b->recvs[b->nr_recvs - 1].next = NULL;
    b->nr_recvs = 0;
    post_recvs(c, b->recvs);
}

/* A receive whose command is done: posted with the response, at the latest. */
static void give_recv(struct rdma_conn *c, uint32_t recv)
{
    struct rdma_batch *b = c->batch;

    if (!b || c->shared) {
        fl_rdma_post_recv(c, recv);
        return;
    }
    if (b->nr_recvs == RDMA_BATCH)
        flush_recvs(c, b);
    make_recv(c, recv, &b->recvs[b->nr_recvs], &b->recv_sges[b->nr_recvs]);
    b->recvs[b->nr_recvs].next = &b->recvs[b->nr_recvs + 1];
    b->nr_recvs++;
}

/* With shared receives: where the capsule that is in a slot, or waits for one, may be copied to. */
static uint8_t *copy_at(const struct rdma_conn *c, uint32_t place)
{
    return c->copies + (size_t)place * c->recv_stride;
}

/* ---- commands ---- */

static void drop_own(struct rdma_conn *c, struct slot *slot)
{
    if (slot->own)
        fl_rdma_drop_own(&c->keys, slot->own);
    slot->own = NULL;
}

static void release(struct rdma_conn *c, struct slot *slot)
{
    drop_own(c, slot);
    if (fl_unlikely(c->shared && slot->recv >= 0)) /* it ended without a response */
        fl_rdma_post_recv(c, (uint32_t)slot->recv);
    slot->recv = -1;
    c->conn.handler->released(&slot->cmd);
    slot->state = SLOT_FREE;
    slot->next = c->free;
    c->free = slot;
    c->nr_active--;
}

/* Fabrics and admin commands have one descriptor (RDMA transport specification 1.0, 3.3). */
static fl_nvme_status take_pieces(struct rdma_conn *c, struct slot *slot, const void *behind_sqe)
{
    if (!c->qid || slot->cmd.sqe.opcode == FL_NVMF_OPCODE)
        return FL_NVME_SC_SGL_INVALID_TYPE;
    return fl_nvme_rdma_pieces_decode(behind_sqe, FL_NVME_RDMA_MAX_PIECES, &slot->sgl, slot->pieces);
}

static fl_nvme_status take_sgl(struct rdma_conn *c, struct slot *slot, const void *behind_sqe,
                               uint32_t capsule_len)
{
    struct fl_cmd *cmd = &slot->cmd;
    fl_nvme_status status = fl_nvme_rdma_data_decode(&cmd->sqe, capsule_len, &slot->sgl);

    if (fl_unlikely(slot->sgl.nr_pieces))
        status = take_pieces(c, slot, behind_sqe);
    cmd->sgl_len = slot->sgl.len;
    cmd->in_capsule = slot->sgl.in_capsule;
    if (status)
        return status | FL_NVME_DNR;
    if (slot->sgl.in_capsule && slot->sgl.len && fl_nvmf_xfer(&cmd->sqe) == FL_NVME_XFER_TO_HOST)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR; /* a capsule has no room for what goes to the host */
    return 0;
}

/* capsule: in receive recv, or a copy of it (-1). */
static void start_cmd(struct rdma_conn *c, struct slot *slot, const uint8_t *capsule, int recv, uint32_t len)
{
    struct fl_cmd *cmd = &slot->cmd;

    c->free = slot->next;
    memcpy(&cmd->sqe, capsule, sizeof(cmd->sqe));
    cmd->data = NULL;
    cmd->data_len = 0;
    cmd->to_host = false;
    cmd->place = NULL;
    slot->recv = recv;
    slot->state = SLOT_TARGET;
    cmd->transport_status = take_sgl(c, slot, capsule + sizeof(cmd->sqe), len - (uint32_t)sizeof(cmd->sqe));
    cmd->capsule_data = cmd->in_capsule && cmd->sgl_len && !cmd->transport_status
                            ? capsule + sizeof(cmd->sqe) + slot->sgl.offset
                            : NULL;
    c->nr_active++;
}

/* The shared receive goes back at once, but for data that may stay in it. */
static void leave_shared(struct rdma_conn *c, struct slot *slot, bool may_stay)
{
    struct fl_cmd *cmd = &slot->cmd;

    if (cmd->capsule_data && slot->recv >= 0 && may_stay)
        return;
    if (cmd->capsule_data)
        cmd->capsule_data = memcpy(copy_at(c, (uint32_t)(slot - c->slots)), cmd->capsule_data, cmd->sgl_len);
    if (slot->recv >= 0)
        fl_rdma_post_recv(c, (uint32_t)slot->recv);
    slot->recv = -1;
}

static void wait_for_slot(struct rdma_conn *c, uint32_t recv, uint32_t len)
{
    uint32_t at = (c->wait_head + c->nr_waiting) % c->nr_recv;

    if (c->shared) {
        if (c->nr_waiting < c->nr_recv)
            memcpy(copy_at(c, c->nr_slots + at), recv_at(c, recv), len);
        fl_rdma_post_recv(c, recv);
        recv = at;
    }
    if (c->nr_waiting == c->nr_recv) {
        broke(c, "the host sent more commands than its queue has entries");
        return;
    }
    c->waiting[at].recv = recv;
    c->waiting[at].len = len;
    c->nr_waiting++;
}

static void take_capsule(struct rdma_conn *c, uint32_t recv, uint32_t len)
{
    bool may_stay = !c->shared || fl_rdma_shared_hold(c->shared);
    struct slot *slot = c->free;

    c->nr_rx++;
    c->rx_len += len;
    if (len < sizeof(struct fl_nvme_sqe)) {
        if (c->shared)
            fl_rdma_post_recv(c, recv);
        broke(c, "the host sent a capsule that is shorter than a command");
        return;
    }
    if (!slot || c->nr_waiting) {
        wait_for_slot(c, recv, len);
        return;
    }
    start_cmd(c, slot, recv_at(c, recv), (int)recv, len);
    if (c->shared)
        leave_shared(c, slot, may_stay);
    c->conn.handler->command(&slot->cmd);
}

void fl_rdma_take_waiting(struct rdma_conn *c)
{
    while (c->nr_waiting && c->free && c->state == FL_RDMA_OPEN && !c->broke && !c->moving) {
        struct slot *slot = c->free;
        uint32_t at = c->wait_head;

        c->wait_head = (c->wait_head + 1) % c->nr_recv;
        c->nr_waiting--;
        if (c->shared) {
            start_cmd(c, slot, copy_at(c, c->nr_slots + at), -1, c->waiting[at].len);
            leave_shared(c, slot, false);
        } else {
            start_cmd(c, slot, recv_at(c, c->waiting[at].recv), (int)c->waiting[at].recv, c->waiting[at].len);
        }
        c->conn.handler->command(&slot->cmd);
    }
}

static void finish_fetch(struct slot *slot, fl_nvme_status status)
{
    if (slot->state == SLOT_FETCHING)
        rdma_conn_of(slot->cmd.conn)->nr_fetching--;
    slot->state = SLOT_TARGET;
    slot->cmd.transport_status = status;
    slot->cmd.conn->handler->data_ready(&slot->cmd);
}

/* ---- places in the send queue ---- */

/* False: there are too few; the slot waits, behind those that do already. */
static bool take_places(struct rdma_conn *c, struct slot *slot, uint32_t nr)
{
    slot->nr_places = nr;
    if (fl_likely(!c->place_head && c->nr_places >= nr)) {
        c->nr_places -= nr;
        return true;
    }
    slot->next = NULL;
    if (c->place_head)
        c->place_tail->next = slot;
    else
        c->place_head = slot;
    c->place_tail = slot;
    return false;
}

static void post_fetch(struct rdma_conn *c, struct slot *slot);
static void post_response(struct rdma_conn *c, struct slot *slot);

static void give_places(struct rdma_conn *c, struct slot *slot)
{
    c->nr_places += slot->nr_places;
    while (fl_unlikely(c->place_head && c->place_head->nr_places <= c->nr_places)) {
        struct slot *first = c->place_head;

        c->place_head = first->next;
        c->nr_places -= first->nr_places;
        if (first->state == SLOT_FETCHING)
            post_fetch(c, first);
        else
            post_response(c, first);
    }
}

/* ---- data ---- */

/* Requests for all of the command's data, one for each piece of the host's memory. How many. */
static uint32_t make_requests(const struct slot *slot, uint32_t lkey, enum ibv_wr_opcode opcode,
                              struct ibv_send_wr *wrs, struct ibv_sge *sges)
{
    const struct fl_nvme_rdma_piece one = {
        .addr = slot->sgl.addr, .len = slot->sgl.len, .key = slot->sgl.key};
    const struct fl_nvme_rdma_piece *p = slot->sgl.nr_pieces ? slot->pieces : &one;
    uintptr_t at = (uintptr_t)slot->cmd.data;
    uint32_t left = slot->cmd.data_len, nr = 0;

    for (; left; p++) { /* no more than sgl_len, the sum of the pieces */
        uint32_t len = FL_MIN(left, p->len);

        if (!len)
            continue;
        sges[nr] = (struct ibv_sge){.addr = at, .length = len, .lkey = lkey};
        wrs[nr] = (struct ibv_send_wr){.wr_id = WR_PIECE,
                                       .next = &wrs[nr + 1],
                                       .sg_list = &sges[nr],
                                       .num_sge = 1,
                                       .opcode = opcode,
                                       .wr.rdma = {.remote_addr = p->addr, .rkey = p->key}};
        nr++;
        at += len;
        left -= len;
    }
    return nr;
}

static void post_fetch(struct rdma_conn *c, struct slot *slot)
{
    struct ibv_send_wr wrs[FL_NVME_RDMA_MAX_PIECES + 1], *bad;
    struct ibv_sge sges[FL_NVME_RDMA_MAX_PIECES];
    struct fl_cmd *cmd = &slot->cmd;
    struct ibv_mr *mr = fl_rdma_find_or_register(&c->keys, cmd->data, cmd->data_len, c->domain->access,
                                                 &slot->own);
    uint32_t nr;

    if (!mr) {
        c->nr_places += slot->nr_places;
        finish_fetch(slot, FL_NVME_SC_INTERNAL);
        return;
    }
    nr = make_requests(slot, mr->lkey, IBV_WR_RDMA_READ, wrs, sges);
    wrs[nr - 1].next = NULL;
    wrs[nr - 1].wr_id = (uint64_t)(slot - c->slots) << WR_BITS | WR_READ;
    wrs[nr - 1].send_flags = IBV_SEND_SIGNALED;
    if (ibv_post_send(c->id->qp, wrs, &bad)) /* some may have been taken: it ends with the queue pair */
        broke(c, "an RDMA READ could not be posted");
}

bool fl_rdma_place(void *arg, uint64_t wr_id, uint32_t offset, const void *data, uint32_t len)
{
    struct rdma_conn *c = arg;
    struct fl_cmd *cmd = &c->slots[wr_id >> WR_BITS].cmd;

    /* Any thread may move the RNIC on; the command is its loop's. */
    return (wr_id & ((1 << WR_BITS) - 1)) == WR_READ && fl_loop_current() == c->conn.loop && cmd->place &&
           cmd->place(cmd, offset, data, len);
}

void fl_rdma_fetch(struct fl_cmd *cmd)
{
    struct rdma_conn *c = rdma_conn_of(cmd->conn);
    struct slot *slot = slot_of(cmd);

    if (c->state == FL_RDMA_DEAD || c->broke) {
        finish_fetch(slot, FL_NVME_SC_TRANSIENT_TRANSPORT);
        return;
    }
    if (cmd->in_capsule) {
        memcpy(cmd->data, cmd->capsule_data, cmd->data_len);
        finish_fetch(slot, 0);
        return;
    }
    if (slot->sgl.nr_pieces) /* several READs: whose offsets are not the command's */
        cmd->place = NULL;
    slot->state = SLOT_FETCHING;
    c->nr_fetching++;
    if (take_places(c, slot, FL_MAX(slot->sgl.nr_pieces, 1u)))
        post_fetch(c, slot);
}

static void flush(struct rdma_conn *c, struct rdma_batch *b)
{
    struct ibv_send_wr *first = b->sends, *bad;

    fetch_begun(c);
    c->ahead.first_len = 0;
    flush_recvs(c, b);
    if (!b->nr_sends)
        return;
    b->sends[b->nr_sends - 1].next = NULL;
    if (b->nr_data) {
        b->data[b->nr_data - 1].next = b->sends;
        first = b->data;
    }
    b->nr_data = b->nr_sends = 0;
    if (ibv_post_send(c->id->qp, first, &bad))
        broke(c, "a response could not be posted"); /* its slot ends with the connection */
}

/* Data by RDMA WRITE, then the response: a queue pair keeps their order. */
static void add_response(struct rdma_conn *c, struct slot *slot, struct rdma_batch *b)
{
    struct fl_cmd *cmd = &slot->cmd;
    struct ibv_send_wr *send = b->sends + b->nr_sends;
    struct ibv_sge *sge = b->sges + b->nr_sends;

    if (cmd->to_host && cmd->data_len && !fl_nvme_cqe_status(&cmd->cqe)) {
        struct ibv_mr *mr = fl_rdma_find_or_register(&c->keys, cmd->data, cmd->data_len, c->domain->access,
                                                     &slot->own);

        if (!mr || slot->sgl.in_capsule) {
            cmd->cqe.status = le16_of((uint16_t)(FL_NVME_SC_INTERNAL << 1));
        } else {
            begin_fetch(c, cmd->data, cmd->data_len, !b->nr_data);
            b->nr_data += make_requests(slot, mr->lkey, IBV_WR_RDMA_WRITE, b->data + b->nr_data,
                                        b->data_sges + b->nr_data);
            c->tx_len += cmd->data_len;
        }
    }
    *sge = (struct ibv_sge){.addr = (uintptr_t)&cmd->cqe, .length = sizeof(cmd->cqe)};
    *send = (struct ibv_send_wr){.wr_id = (uint64_t)(slot - c->slots) << WR_BITS | WR_SEND,
                                 .next = send + 1,
                                 .sg_list = sge,
                                 .num_sge = 1,
                                 .opcode = IBV_WR_SEND,
                                 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
    if (slot->sgl.invalidate) {
        send->opcode = IBV_WR_SEND_WITH_INV;
        send->invalidate_rkey = slot->sgl.invalidate_key;
    }
    c->nr_tx++;
    c->tx_len += sizeof(cmd->cqe);
    b->nr_sends++;
}

/* What is answered while completions are taken in is posted at the end of that, together. */
static void post_response(struct rdma_conn *c, struct slot *slot)
{
    struct rdma_batch own, *b = c->batch;

    if (b && b->nr_data + slot->nr_places > RDMA_BATCH)
        flush(c, b);
    if (!b) {
        b = &own;
        own.nr_data = own.nr_sends = own.nr_recvs = 0;
    }
    add_response(c, slot, b);
    if (!c->batch || b->nr_data + b->nr_sends >= FLUSH_AT)
        flush(c, b);
}

static void send_response(struct rdma_conn *c, struct slot *slot)
{
    uint32_t nr_data = slot->cmd.to_host && slot->cmd.data_len ? FL_MAX(slot->sgl.nr_pieces, 1u) : 0;

    slot->state = SLOT_SENDING;
    c->nr_sending++;
    if (fl_likely(take_places(c, slot, nr_data + 1)))
        post_response(c, slot);
}

void fl_rdma_complete(struct fl_cmd *cmd)
{
    struct rdma_conn *c = rdma_conn_of(cmd->conn);
    struct slot *slot = slot_of(cmd);

    if (fl_unlikely(c->conn.dead || c->broke)) {
        release(c, slot);
        ensure_polled(c); /* it may have been the last */
        return;
    }
    drop_own(c, slot);
    if (slot->recv >= 0)
        give_recv(c, (uint32_t)slot->recv);
    slot->recv = -1;
    send_response(c, slot);
}

/* ---- completions ---- */

/* A receive that no command comes of */
static void give_back(struct rdma_conn *c, const struct ibv_wc *wc)
{
    if (!c->shared || (wc->wr_id & ((1 << WR_BITS) - 1)) != WR_RECV)
        return;
    fl_rdma_shared_hold(c->shared);
    fl_rdma_post_recv(c, (uint32_t)(wc->wr_id >> WR_BITS));
}

void fl_rdma_give_back(struct rdma_conn *c)
{
    struct ibv_wc wc;

    while (ibv_poll_cq(c->cq, 1, &wc) == 1)
        give_back(c, &wc);
}

static void take_completion(struct rdma_conn *c, const struct ibv_wc *wc)
{
    uint32_t number = (uint32_t)(wc->wr_id >> WR_BITS);
    struct slot *slot = &c->slots[number];

    if (fl_unlikely(wc->status != IBV_WC_SUCCESS)) {
        give_back(c, wc);
        if (!c->broke) {
            char why[160];

            snprintf(why, sizeof(why), "RDMA %s failed: %s",
                     (wc->wr_id & 3) == WR_RECV   ? "receive"
                     : (wc->wr_id & 3) == WR_READ ? "READ"
                     : (wc->wr_id & 3) == WR_SEND ? "SEND"
                                                  : "transfer",
                     fl_rdma_wc_text(wc->status));
            broke(c, why);
        }
        return;
    }
    switch (wc->wr_id & ((1 << WR_BITS) - 1)) {
    case WR_RECV:
        if (fl_likely(c->state == FL_RDMA_OPEN))
            take_capsule(c, number, wc->byte_len);
        else
            give_back(c, wc);
        break;
    case WR_READ:
        c->rx_len += slot->cmd.data_len;
        drop_own(c, slot);
        give_places(c, slot);
        finish_fetch(slot, 0);
        break;
    default:
        c->nr_sending--;
        give_places(c, slot);
        release(c, slot);
    }
}

/* Returns how many there were. */
int fl_rdma_reap(struct rdma_conn *c)
{
    struct ibv_wc wcs[BATCH];
    struct rdma_batch batch;
    int n = ibv_poll_cq(c->cq, BATCH, wcs);

    if (fl_unlikely(n < 0)) {
        broke(c, "the completion queue broke");
        return 1;
    }
    batch.nr_data = batch.nr_sends = batch.nr_recvs = 0;
    c->batch = &batch;
    for (int i = 0; i < n; i++)
        take_completion(c, &wcs[i]);
    if (fl_unlikely(c->nr_waiting))
        fl_rdma_take_waiting(c);
    c->batch = NULL;
    flush(c, &batch);
    return n;
}

void fl_rdma_end_commands(struct rdma_conn *c)
{
    c->nr_waiting = 0;
    c->place_head = NULL;
    for (uint32_t i = 0; i < c->nr_slots; i++) {
        if (c->slots[i].state == SLOT_FETCHING) {
            drop_own(c, &c->slots[i]);
            finish_fetch(&c->slots[i], FL_NVME_SC_TRANSIENT_TRANSPORT);
        } else if (c->slots[i].state == SLOT_SENDING) {
            c->nr_sending--;
            release(c, &c->slots[i]);
        }
    }
}
