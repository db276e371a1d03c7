/* SPDX-License-Identifier: Apache-2.0 */
/* The target's side of a connection: commands, from the capsule to the response. */
#include <errno.h>
#include <string.h>

#include "base/crc.h"
#include "fabric/tcp_slot.h"

/*
 * A capsule with this much data or more, whose data is not there yet, goes to the target at once, as a
 * command that is to be answered by R2T would, so that the data is received where it belongs.
 */
#define EARLY_LEN 16384u
/* In-capsule data that may be put aside before the host has to wait, and what it is at least in commands. */
#define STASH_LEN (1u << 20)
#define STASH_MIN 4u

#define FAULT(fault, fes_, type, field) fl_tcp_fault_at(fault, fes_, offsetof(struct type, field))

bool fl_tcp_target_must_wait(const struct fl_tcp_target *t)
{
    /* Not while data is asked for: what it lacks is behind whatever comes now. And never so early that a half
     * of a fused operation could be the only one that is waited for. */
    return fl_tcp_stream_tx_half_full(&t->stream) ||
           (t->nr_stashed >= STASH_MIN && t->stashed_len >= STASH_LEN && !t->nr_fetching);
}

static void release_cmd(struct fl_tcp_target *t, struct fl_tcp_slot *slot)
{
    if (slot->stash)
        fl_tcp_stash_put(t, slot);
    t->conn.handler->released(&slot->cmd);
    fl_tcp_slot_put(t, slot);
    t->nr_active--;
}

/* Sets what the SGL says (one descriptor; NVMe/TCP knows data in the capsule and data by the transport).
 */
static fl_nvme_status take_sgl(struct fl_cmd *cmd, uint32_t capsule_len)
{
    const struct fl_nvme_sgl *sgl = &cmd->sqe.sgl;
    uint32_t len = le32_get(sgl->len);

    cmd->in_capsule = false;
    cmd->sgl_len = len;
    if (sgl->type == FL_NVME_SGL_TRANSPORT)
        return capsule_len ? FL_NVME_SC_SGL_INVALID_DATA : 0;
    if (sgl->type == FL_NVME_SGL_OFFSET) {
        if (le64_get(sgl->addr))
            return FL_NVME_SC_SGL_INVALID_OFFSET; /* ICDOFF is 0 */
        if (len != capsule_len)
            return FL_NVME_SC_SGL_INVALID_DATA;
        cmd->in_capsule = true;
        return 0;
    }
    cmd->sgl_len = 0;
    /* Commands without data: hosts leave the descriptor zero, or do not fill it in. */
    if (!capsule_len &&
        (!fl_nvme_opcode_xfer(cmd->sqe.opcode) || (!len && sgl->type == FL_NVME_SGL_DATA_BLOCK)))
        return 0;
    return FL_NVME_SC_SGL_INVALID_TYPE;
}

static void start_cmd(struct fl_tcp_target *t, struct fl_tcp_slot *slot, const struct fl_nvme_sqe *sqe,
                      const void *data, uint32_t data_len, bool digest_ok)
{
    struct fl_cmd *cmd = &slot->cmd;

    cmd->sqe = *sqe;
    cmd->data = NULL;
    cmd->data_len = 0;
    cmd->to_host = false;
    cmd->transport_status = take_sgl(cmd, data_len);
    if (fl_unlikely(!digest_ok && !cmd->transport_status))
        cmd->transport_status = FL_NVME_SC_TRANSIENT_TRANSPORT;
    cmd->capsule_data = cmd->in_capsule && !cmd->transport_status ? data : NULL;
    slot->digest_bad = false;
    slot->state = FL_TCP_SLOT_TARGET;
    t->nr_active++;
    t->conn.handler->command(cmd);
}

/* More commands at a time than was agreed. There is no error of its own for this. */
static int too_many(struct fl_tcp_fault *fault)
{
    return fl_tcp_fault_at(fault, FL_TCP_FES_SEQUENCE, offsetof(struct fl_tcp_hdr, type));
}

/*
 * The target hears of the command before its data is there. If it asks for the data within the call, it says
 * where the stream shall put it; if it cannot say so yet, the data is put aside; if the command has ended, it
 * is thrown away.
 */
static void start_early(struct fl_tcp_target *t, struct fl_tcp_slot *slot, const struct fl_nvme_sqe *sqe,
                        uint32_t data_len)
{
    t->receiving = slot;
    t->in_header = true;
    start_cmd(t, slot, sqe, NULL, data_len, true);
    t->in_header = false;
    if (t->receiving == slot && slot->state == FL_TCP_SLOT_TARGET)
        fl_tcp_stream_place(&t->stream, fl_tcp_stash_get(t, slot));
}

int fl_tcp_target_take_cmd(struct fl_tcp_target *t, const union fl_tcp_pdu *pdu, uint32_t data_len,
                           struct fl_tcp_fault *fault)
{
    const struct fl_tcp_stream *s = &t->stream;
    struct fl_tcp_slot *slot;

    if (fl_unlikely(fl_tcp_target_must_wait(t))) {
        t->wait_room = true;
        return -EAGAIN;
    }
    if (fl_unlikely(data_len > t->capsule_len))
        return FAULT(fault, FL_TCP_FES_LIMIT, fl_tcp_hdr, plen);
    if (data_len && fl_tcp_stream_fits(s, pdu) && (data_len < EARLY_LEN || fl_tcp_stream_whole(s))) {
        fl_tcp_stream_keep(&t->stream);
        return 0;
    }
    slot = fl_tcp_slot_get(t);
    if (fl_unlikely(!slot))
        return too_many(fault);
    if (data_len)
        start_early(t, slot, &pdu->cmd.sqe, data_len);
    else
        start_cmd(t, slot, &pdu->cmd.sqe, NULL, 0, true);
    return 0;
}

static void finish_fetch(struct fl_tcp_slot *slot, fl_nvme_status status);

/* The target did not take the data within command(): it must not be in the way of what follows. */
static void put_aside(struct fl_tcp_target *t, struct fl_tcp_slot *slot)
{
    uint8_t *stash = fl_tcp_stash_get(t, slot);

    memcpy(stash, slot->cmd.capsule_data, slot->cmd.sgl_len);
    slot->cmd.capsule_data = stash;
}

static fl_nvme_status digest_status(const struct fl_tcp_slot *slot)
{
    /* a wrong data digest is an error of this command, not of the connection */
    return slot->digest_bad ? FL_NVME_SC_TRANSIENT_TRANSPORT : FL_NVME_SC_SUCCESS;
}

/* From where it was put aside to where the target wants it. */
static void hand_over(struct fl_tcp_target *t, struct fl_tcp_slot *slot)
{
    struct fl_cmd *cmd = &slot->cmd;

    if (slot->stash) {
        memcpy(cmd->data, slot->stash, cmd->data_len);
        fl_tcp_stash_put(t, slot);
    }
    finish_fetch(slot, digest_status(slot));
}

/* All data of a command is there that was begun early. */
static void end_early(struct fl_tcp_target *t, bool digest_ok)
{
    struct fl_tcp_slot *slot = t->receiving;

    if (!slot)
        return; /* it was dropped */
    t->receiving = NULL;
    slot->digest_bad = !digest_ok;
    if (slot->state == FL_TCP_SLOT_CAPSULE) {
        hand_over(t, slot);
    } else if (slot->state == FL_TCP_SLOT_ENDED) {
        slot->state = FL_TCP_SLOT_TARGET;
        fl_tcp_target_complete(&slot->cmd);
    } else {
        slot->cmd.capsule_data = slot->stash;
    }
}

void fl_tcp_target_drop_early(struct fl_tcp_target *t)
{
    struct fl_tcp_slot *slot = t->receiving;

    if (!slot)
        return;
    t->receiving = NULL;
    t->stream.place_iov = NULL; /* what still comes is thrown away */
    if (slot->state == FL_TCP_SLOT_CAPSULE)
        finish_fetch(slot, FL_NVME_SC_TRANSIENT_TRANSPORT);
    else if (slot->state == FL_TCP_SLOT_ENDED)
        release_cmd(t, slot);
}

int fl_tcp_target_take_capsule(struct fl_tcp_target *t, const union fl_tcp_pdu *pdu, const void *data,
                               bool digest_ok, struct fl_tcp_fault *fault)
{
    struct fl_tcp_slot *slot;

    if (!data) {
        end_early(t, digest_ok);
        return 0;
    }
    slot = fl_tcp_slot_get(t);
    if (!slot)
        return too_many(fault);
    start_cmd(t, slot, &pdu->cmd.sqe, data, fl_tcp_data_len(&pdu->hdr), digest_ok);
    if (slot->state == FL_TCP_SLOT_TARGET && slot->cmd.capsule_data && !slot->stash)
        put_aside(t, slot);
    return 0;
}

/* ---- data from the host ---- */

static void send_r2ts(struct fl_tcp_target *t, struct fl_tcp_slot *slot)
{
    struct fl_cmd *cmd = &slot->cmd;
    /* With one R2T at a time, all in one; it is the host that splits into PDUs of MAXH2CDATA. */
    uint32_t most = t->nr_r2t > 1 ? t->max_h2c_len : cmd->data_len;

    for (uint32_t i = 0; i < t->nr_r2t && slot->asked < cmd->data_len; i++) {
        struct fl_tcp_window *w = &slot->windows[i];
        union fl_tcp_pdu pdu = {.r2t = {.hdr.type = FL_TCP_R2T, .cccid = cmd->sqe.cid}};
        uint32_t len = FL_MIN(most, cmd->data_len - slot->asked);

        if (w->next != w->end)
            continue;
        w->next = slot->asked;
        w->end = slot->asked + len;
        pdu.r2t.ttag = le16_of(fl_tcp_slot_new_tag(t, slot, i));
        pdu.r2t.r2to = le32_of(slot->asked);
        pdu.r2t.r2tl = le32_of(len);
        slot->asked += len;
        fl_tcp_stream_send(&t->stream, &pdu, sizeof(pdu.r2t), NULL, 0, NULL);
    }
}

static void finish_fetch(struct fl_tcp_slot *slot, fl_nvme_status status)
{
    struct fl_cmd *cmd = &slot->cmd;

    if (slot->state == FL_TCP_SLOT_FETCHING)
        fl_tcp_target_of(cmd->conn)->nr_fetching--;
    slot->state = FL_TCP_SLOT_TARGET;
    cmd->capsule_data = NULL;
    if (status && !cmd->transport_status)
        cmd->transport_status = status;
    cmd->conn->handler->data_ready(cmd);
}

void fl_tcp_target_fetch(struct fl_cmd *cmd)
{
    struct fl_tcp_slot *slot = fl_tcp_slot_of(cmd);
    struct fl_tcp_target *t = fl_tcp_target_of(cmd->conn);

    assert(slot->state == FL_TCP_SLOT_TARGET && cmd->data_len && cmd->data_len <= cmd->sgl_len);
    if (cmd->capsule_data) {
        memcpy(cmd->data, cmd->capsule_data, cmd->data_len);
        if (slot->stash)
            fl_tcp_stash_put(t, slot);
        if (fl_unlikely(t->stream.rx_paused))
            fl_tcp_target_want_driver(t);
        finish_fetch(slot, digest_status(slot));
        return;
    }
    if (t->conn.dead) {
        finish_fetch(slot, FL_NVME_SC_TRANSIENT_TRANSPORT);
        return;
    }
    if (cmd->in_capsule) {
        assert(t->receiving == slot);
        slot->state = FL_TCP_SLOT_CAPSULE;
        if (t->in_header && cmd->data_len == cmd->sgl_len)
            fl_tcp_stream_place(&t->stream, cmd->data);
        else if (!slot->stash)
            fl_tcp_stream_place(&t->stream, fl_tcp_stash_get(t, slot));
        return;
    }
    slot->state = FL_TCP_SLOT_FETCHING;
    t->nr_fetching++;
    slot->digest_bad = false;
    slot->asked = slot->arrived = 0;
    for (uint32_t i = 0; i < t->nr_r2t; i++)
        slot->windows[i].next = slot->windows[i].end = 0;
    send_r2ts(t, slot);
    fl_tcp_target_want_driver(t);
}

void fl_tcp_target_drop_fetches(struct fl_tcp_target *t)
{
    for (uint32_t i = 0; i < t->nr_slots; i++)
        if (t->slots[i]->state == FL_TCP_SLOT_FETCHING)
            finish_fetch(t->slots[i], FL_NVME_SC_TRANSIENT_TRANSPORT);
}

/* The tag is the key, not the command identifier; within an R2T data comes in order and
 * without gaps. */
int fl_tcp_target_take_data(struct fl_tcp_target *t, const struct fl_tcp_data *pdu,
                            struct fl_tcp_fault *fault)
{
    struct fl_tcp_slot *slot;
    struct fl_tcp_window *w;
    uint32_t window, len = le32_get(pdu->datal);
    bool last = pdu->hdr.flags & FL_TCP_F_DATA_LAST;
    int r = fl_tcp_data_check(pdu, fault);

    if (r < 0)
        return r;
    slot = fl_tcp_slot_find(t, le16_get(pdu->ttag), &window);
    if (!slot)
        return FAULT(fault, FL_TCP_FES_HEADER, fl_tcp_data, ttag);
    if (le16_get(pdu->cccid) != le16_get(slot->cmd.sqe.cid))
        return FAULT(fault, FL_TCP_FES_HEADER, fl_tcp_data, cccid);
    w = &slot->windows[window];
    if (le32_get(pdu->datao) != w->next)
        return FAULT(fault, FL_TCP_FES_RANGE, fl_tcp_data, datao);
    if (len > t->max_h2c_len)
        return FAULT(fault, FL_TCP_FES_LIMIT, fl_tcp_data, datal);
    if (len > w->end - w->next)
        return FAULT(fault, FL_TCP_FES_RANGE, fl_tcp_data, datal);
    if (last != (len == w->end - w->next))
        return FAULT(fault, FL_TCP_FES_HEADER, fl_tcp_hdr, flags);
    fl_tcp_stream_place(&t->stream, (uint8_t *)slot->cmd.data + w->next);
    return 0;
}

void fl_tcp_target_take_data_payload(struct fl_tcp_target *t, const struct fl_tcp_data *pdu, bool digest_ok)
{
    uint32_t window, len = le32_get(pdu->datal);
    struct fl_tcp_slot *slot = fl_tcp_slot_find(t, le16_get(pdu->ttag), &window);

    assert(slot); /* fl_tcp_target_take_data found it, and only its payload can change that */
    slot->digest_bad |= !digest_ok;
    slot->windows[window].next += len;
    slot->arrived += len;
    if (slot->arrived == slot->cmd.data_len)
        finish_fetch(slot, digest_status(slot));
    else if (slot->windows[window].next == slot->windows[window].end)
        send_r2ts(t, slot);
}

/* ---- completion ---- */

static void send_response(struct fl_tcp_target *t, const struct fl_cmd *cmd)
{
    union fl_tcp_pdu pdu;

    pdu.resp = (struct fl_tcp_resp){.hdr.type = FL_TCP_RESP, .cqe = cmd->cqe};
    fl_tcp_stream_send(&t->stream, &pdu, sizeof(pdu.resp), NULL, 0, NULL);
}

void fl_tcp_target_complete(struct fl_cmd *cmd)
{
    struct fl_tcp_slot *slot = fl_tcp_slot_of(cmd);
    struct fl_tcp_target *t = fl_tcp_target_of(cmd->conn);
    union fl_tcp_pdu pdu;
    bool fold;

    assert(slot->state == FL_TCP_SLOT_TARGET);
    fl_tcp_target_want_driver(t);
    if (fl_unlikely(t->conn.dead)) {
        if (t->receiving == slot) {
            t->receiving = NULL;
            t->stream.place_iov = NULL;
        }
        release_cmd(t, slot);
        return;
    }
    if (fl_unlikely(t->receiving == slot)) {
        slot->state = FL_TCP_SLOT_ENDED; /* hosts do not expect an answer to what they have not sent yet */
        return;
    }
    if (!cmd->to_host || !cmd->data_len || fl_nvme_cqe_status(&cmd->cqe)) {
        send_response(t, cmd);
        release_cmd(t, slot);
        return;
    }
    /* the last data PDU may stand for a response that has nothing to say */
    fold = t->conn.sq_flow_off && !le32_get(cmd->cqe.dw0) && !le32_get(cmd->cqe.dw1);
    pdu.data = (struct fl_tcp_data){
        .hdr.type = FL_TCP_C2H_DATA,
        .hdr.flags = fold ? FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS : FL_TCP_F_DATA_LAST,
        .cccid = cmd->cqe.cid,
        .datal = le32_of(cmd->data_len),
    };
    slot->state = FL_TCP_SLOT_SENDING;
    fl_tcp_stream_send(&t->stream, &pdu, sizeof(pdu.data), cmd->data, cmd->data_len, slot);
    if (!fold)
        send_response(t, cmd);
}

bool fl_tcp_target_detach(struct fl_cmd *cmd, void *buf)
{
    struct fl_tcp_slot *slot = fl_tcp_slot_of(cmd);

    return slot->state == FL_TCP_SLOT_SENDING &&
           fl_tcp_stream_detach(&fl_tcp_target_of(cmd->conn)->stream, slot, buf);
}

void fl_tcp_target_on_sent(struct fl_tcp_stream *s, void *token)
{
    struct fl_tcp_slot *slot = token;

    release_cmd(FL_CONTAINER_OF(s, struct fl_tcp_target, stream), slot);
}

uint32_t fl_tcp_target_digest(struct fl_tcp_stream *s, void *token, const void *data, uint32_t len)
{
    const struct fl_handler *handler = FL_CONTAINER_OF(s, struct fl_tcp_target, stream)->conn.handler;
    struct fl_tcp_slot *slot = token;

    assert(slot->cmd.data == data && slot->cmd.data_len == len);
    return handler->digest ? handler->digest(&slot->cmd) : fl_crc32c(0, data, len);
}
