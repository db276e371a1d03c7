/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of the target over RDMA: capsules in, data by RDMA READ and WRITE, responses out. */
#include <errno.h>
#include <string.h>

#include "fabric/rdma_parts.h"
#include "wire/nvmf.h"

#define BATCH 32 /* completions in one look */

/* ---- receives ---- */

static uint8_t *recv_at(const struct rdma_conn *c, uint32_t recv)
{
    return c->recv_mem + (size_t)recv * c->recv_stride;
}

void fl_rdma_post_recv(struct rdma_conn *c, uint32_t recv)
{
    struct ibv_sge sge = {.addr = (uintptr_t)recv_at(c, recv),
                          .length = (uint32_t)sizeof(struct fl_nvme_sqe) + c->capsule_len,
                          .lkey = c->recv_mr->lkey};
    struct ibv_recv_wr *bad,
        wr = {.wr_id = (uint64_t)recv << WR_BITS | WR_RECV, .sg_list = &sge, .num_sge = 1};

    if (ibv_post_recv(c->id->qp, &wr, &bad))
        broke(c, "a receive could not be posted");
}

/* ---- commands ---- */

static void drop_own(struct rdma_conn *c, struct slot *slot)
{
    if (slot->own)
        c->lib->verbs->dereg_mr(slot->own);
    slot->own = NULL;
}

static void release(struct rdma_conn *c, struct slot *slot)
{
    drop_own(c, slot);
    c->conn.handler->released(&slot->cmd);
    slot->state = SLOT_FREE;
    slot->next_free = c->free;
    c->free = slot;
    c->nr_active--;
}

static fl_nvme_status take_sgl(struct slot *slot, uint32_t capsule_len)
{
    struct fl_cmd *cmd = &slot->cmd;
    fl_nvme_status status = fl_nvme_rdma_data_decode(&cmd->sqe, capsule_len, &slot->sgl);

    cmd->sgl_len = slot->sgl.len;
    cmd->in_capsule = slot->sgl.in_capsule;
    if (status)
        return status | FL_NVME_DNR;
    if (slot->sgl.in_capsule && slot->sgl.len && fl_nvmf_xfer(&cmd->sqe) == FL_NVME_XFER_TO_HOST)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR; /* a capsule has no room for what goes to the host */
    return 0;
}

static void start_cmd(struct rdma_conn *c, struct slot *slot, uint32_t recv, uint32_t len)
{
    const uint8_t *capsule = recv_at(c, recv);
    struct fl_cmd *cmd = &slot->cmd;

    c->free = slot->next_free;
    memcpy(&cmd->sqe, capsule, sizeof(cmd->sqe));
    cmd->data = NULL;
    cmd->data_len = 0;
    cmd->to_host = false;
    slot->recv = (int)recv;
    slot->state = SLOT_TARGET;
    cmd->transport_status = take_sgl(slot, len - (uint32_t)sizeof(cmd->sqe));
    cmd->capsule_data = cmd->in_capsule && cmd->sgl_len && !cmd->transport_status
                            ? capsule + sizeof(cmd->sqe) + slot->sgl.offset
                            : NULL;
    c->nr_active++;
    c->conn.handler->command(cmd);
}

static void take_capsule(struct rdma_conn *c, uint32_t recv, uint32_t len)
{
    c->nr_rx++;
    c->rx_len += len;
    if (len < sizeof(struct fl_nvme_sqe)) {
        broke(c, "the host sent a capsule that is shorter than a command");
    } else if (!c->free || c->nr_waiting) {
        uint32_t at = (c->wait_head + c->nr_waiting++) % c->nr_recv;

        c->waiting[at].recv = recv;
        c->waiting[at].len = len;
    } else {
        start_cmd(c, c->free, recv, len);
    }
}

void fl_rdma_take_waiting(struct rdma_conn *c)
{
    while (c->nr_waiting && c->free && c->state == FL_RDMA_OPEN && !c->broke && !c->moving) {
        uint32_t at = c->wait_head;

        c->wait_head = (c->wait_head + 1) % c->nr_recv;
        c->nr_waiting--;
        start_cmd(c, c->free, c->waiting[at].recv, c->waiting[at].len);
    }
}

static void finish_fetch(struct slot *slot, fl_nvme_status status)
{
    slot->state = SLOT_TARGET;
    slot->cmd.transport_status = status;
    slot->cmd.conn->handler->data_ready(&slot->cmd);
}

void fl_rdma_fetch(struct fl_cmd *cmd)
{
    struct rdma_conn *c = rdma_conn_of(cmd->conn);
    struct slot *slot = slot_of(cmd);
    struct ibv_send_wr *bad, wr;
    struct ibv_sge sge;
    struct ibv_mr *mr;

    if (c->state == FL_RDMA_DEAD || c->broke) {
        finish_fetch(slot, FL_NVME_SC_TRANSIENT_TRANSPORT);
        return;
    }
    if (cmd->in_capsule) {
        memcpy(cmd->data, cmd->capsule_data, cmd->data_len);
        finish_fetch(slot, 0);
        return;
    }
    mr = fl_rdma_find_or_register(&c->keys, cmd->data, cmd->data_len, &slot->own);
    if (!mr) {
        finish_fetch(slot, FL_NVME_SC_INTERNAL);
        return;
    }
    sge = (struct ibv_sge){.addr = (uintptr_t)cmd->data, .length = cmd->data_len, .lkey = mr->lkey};
    wr = (struct ibv_send_wr){.wr_id = (uint64_t)(slot - c->slots) << WR_BITS | WR_READ,
                              .sg_list = &sge,
                              .num_sge = 1,
                              .opcode = IBV_WR_RDMA_READ,
                              .send_flags = IBV_SEND_SIGNALED,
                              .wr.rdma = {.remote_addr = slot->sgl.addr, .rkey = slot->sgl.key}};
    slot->state = SLOT_FETCHING;
    if (ibv_post_send(c->id->qp, &wr, &bad)) {
        broke(c, "an RDMA READ could not be posted");
        finish_fetch(slot, FL_NVME_SC_TRANSIENT_TRANSPORT);
    }
}

/* Data by RDMA WRITE, then the response: a queue pair keeps their order. */
static void send_response(struct rdma_conn *c, struct slot *slot)
{
    struct fl_cmd *cmd = &slot->cmd;
    bool data = cmd->to_host && cmd->data_len && !fl_nvme_cqe_status(&cmd->cqe);
    struct ibv_sge data_sge, sge;
    struct ibv_send_wr write, *bad;
    struct ibv_send_wr send = {.wr_id = (uint64_t)(slot - c->slots) << WR_BITS | WR_SEND,
                               .sg_list = &sge,
                               .num_sge = 1,
                               .opcode = IBV_WR_SEND,
                               .send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE};
    struct ibv_mr *mr;

    if (data) {
        mr = fl_rdma_find_or_register(&c->keys, cmd->data, cmd->data_len, &slot->own);
        if (!mr || slot->sgl.in_capsule) {
            cmd->cqe.status = le16_of((uint16_t)(FL_NVME_SC_INTERNAL << 1));
            data = false;
        } else {
            data_sge = (struct ibv_sge){
                .addr = (uintptr_t)cmd->data, .length = cmd->data_len, .lkey = mr->lkey};
            c->tx_len += cmd->data_len;
        }
    }
    if (data)
        write = (struct ibv_send_wr){.next = &send,
                                     .sg_list = &data_sge,
                                     .num_sge = 1,
                                     .opcode = IBV_WR_RDMA_WRITE,
                                     .wr.rdma = {.remote_addr = slot->sgl.addr, .rkey = slot->sgl.key}};
    if (slot->sgl.invalidate) {
        send.opcode = IBV_WR_SEND_WITH_INV;
        send.invalidate_rkey = slot->sgl.key;
    }
    sge = (struct ibv_sge){.addr = (uintptr_t)&cmd->cqe, .length = sizeof(cmd->cqe)};
    c->nr_tx++;
    c->tx_len += sizeof(cmd->cqe);
    slot->state = SLOT_SENDING;
    c->nr_sending++;
    if (ibv_post_send(c->id->qp, data ? &write : &send, &bad))
        broke(c, "a response could not be posted"); /* the slot ends with the connection */
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
    fl_rdma_post_recv(c, (uint32_t)slot->recv); /* before the response lets the host send again */
    send_response(c, slot);
}

/* ---- completions ---- */

static void take_completion(struct rdma_conn *c, const struct ibv_wc *wc)
{
    uint32_t number = (uint32_t)(wc->wr_id >> WR_BITS);
    struct slot *slot = &c->slots[number];

    if (fl_unlikely(wc->status != IBV_WC_SUCCESS)) {
        if (!c->broke) {
            char why[160];

            snprintf(why, sizeof(why), "RDMA %s failed: %s",
                     (wc->wr_id & 3) == WR_RECV   ? "receive"
                     : (wc->wr_id & 3) == WR_READ ? "READ"
                                                  : "WRITE or SEND",
                     fl_rdma_wc_text(wc->status));
            broke(c, why);
        }
        return;
    }
    switch (wc->wr_id & ((1 << WR_BITS) - 1)) {
    case WR_RECV:
        if (c->state == FL_RDMA_OPEN)
            take_capsule(c, number, wc->byte_len);
        break;
    case WR_READ:
        c->rx_len += slot->cmd.data_len;
        drop_own(c, slot);
        finish_fetch(slot, 0);
        break;
    default:
        c->nr_sending--;
        release(c, slot);
    }
}

/* Returns how many there were. */
int fl_rdma_reap(struct rdma_conn *c)
{
    struct ibv_wc wcs[BATCH];
    int n = ibv_poll_cq(c->cq, BATCH, wcs);

    if (fl_unlikely(n < 0)) {
        broke(c, "the completion queue broke");
        return 1;
    }
    for (int i = 0; i < n; i++)
        take_completion(c, &wcs[i]);
    if (fl_unlikely(c->nr_waiting))
        fl_rdma_take_waiting(c);
    return n;
}

void fl_rdma_end_commands(struct rdma_conn *c)
{
    c->nr_waiting = 0;
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
