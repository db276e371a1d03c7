/* SPDX-License-Identifier: Apache-2.0 */
/* The path of an I/O: no lock, no allocation. */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "base/probe.h"
#include "host/remote_queue.h"
#include "host/status.h"

#define MAX_TRIES 5
#define PAUSE_MS  100

void fl_rq_limits(struct fl_remote_queue *q, const struct fl_remote_facts *f)
{
    uint64_t nlb = UINT64_C(65536) << q->block_shift; /* NLB has 16 bits */
    uint64_t data = FL_MIN((uint64_t)f->max_xfer, nlb) & ~(uint64_t)(f->block_len - 1);

    q->max_len[FL_IO_READ] = q->max_len[FL_IO_WRITE] = q->max_len[FL_IO_COMPARE] = FL_MAX(
        data, (uint64_t)f->block_len);
    q->max_len[FL_IO_FLUSH] = UINT64_MAX;
    q->max_len[FL_IO_WRITE_ZEROES] = FL_MAX(FL_MIN(f->max_zeroes_len, nlb), (uint64_t)f->block_len);
    q->max_len[FL_IO_VERIFY] = FL_MAX(FL_MIN(f->max_verify_len, nlb), (uint64_t)f->block_len);
    q->max_len[FL_IO_DISCARD] = f->max_discard_blocks << q->block_shift;
}

/* ---- from I/Os to commands ---- */

static void build_rw(const struct fl_remote_queue *q, struct fl_slot *slot, uint8_t opcode, uint64_t off,
                     uint64_t len, uint32_t flags)
{
    struct fl_nvme_sqe *sqe = &slot->req.pdu.sqe;

    sqe->opcode = opcode;
    fl_nvme_rw_set(sqe, off >> q->block_shift, (uint32_t)(len >> q->block_shift), flags);
}

static void build_discard(const struct fl_remote_queue *q, struct fl_slot *slot, uint64_t off, uint64_t len)
{
    struct fl_nvme_sqe *sqe = &slot->req.pdu.sqe;

    sqe->opcode = FL_NVME_CMD_DSM;
    sqe->cdw10 = le32_of(0); /* one range */
    sqe->cdw11 = le32_of(FL_NVME_DSM_AD);
    sqe->cdw12 = le32_of(0);
    slot->range = (struct fl_nvme_dsm_range){.nlb = le32_of((uint32_t)(len >> q->block_shift)),
                                             .slba = le64_of(off >> q->block_shift)};
    slot->range_iov = (struct iovec){&slot->range, sizeof(slot->range)};
    slot->req.iov = &slot->range_iov;
    slot->req.nr_iov = 1;
    slot->req.iov_skip = 0;
    slot->req.data_len = sizeof(slot->range);
}

/* The next len bytes of the caller's memory. */
static void take_data(struct fl_rio *rio, struct fl_request *req, uint32_t len)
{
    req->iov = rio->iov;
    req->nr_iov = rio->nr_iov;
    req->iov_skip = rio->skip;
    req->data_len = len;
    rio->skip += len;
    while (rio->nr_iov > 1 && rio->skip >= rio->iov->iov_len) {
        rio->skip -= rio->iov->iov_len;
        rio->iov++;
        rio->nr_iov--;
    }
}

/* Makes the next command of an I/O. There is a free slot. */
static void issue(struct fl_remote_queue *q, struct fl_io *io)
{
    struct fl_rio *rio = fl_rio_of(io);
    struct fl_slot *slot = &q->slots[q->free[--q->nr_free]];
    uint64_t off = io->off + rio->issued, len = FL_MIN(io->len - rio->issued, q->max_len[io->op]);
    uint32_t fua = io->flags & FL_IO_FUA ? FL_NVME_RW_FUA : 0;

    slot->io = io;
    slot->state = FL_SLOT_OUT;
    slot->age = 0;
    slot->tries = 0;
    slot->req.to_host = false;
    slot->req.data_len = 0;
    switch (io->op) {
    case FL_IO_READ:
        build_rw(q, slot, FL_NVME_CMD_READ, off, len, 0);
        slot->req.to_host = true;
        take_data(rio, &slot->req, (uint32_t)len);
        break;
    case FL_IO_WRITE:
        build_rw(q, slot, FL_NVME_CMD_WRITE, off, len, fua);
        take_data(rio, &slot->req, (uint32_t)len);
        break;
    case FL_IO_COMPARE:
        build_rw(q, slot, FL_NVME_CMD_COMPARE, off, len, fua);
        take_data(rio, &slot->req, (uint32_t)len);
        break;
    case FL_IO_WRITE_ZEROES:
        build_rw(q, slot, FL_NVME_CMD_WRITE_ZEROES, off, len, fua);
        break;
    case FL_IO_VERIFY:
        build_rw(q, slot, FL_NVME_CMD_VERIFY, off, len, 0);
        break;
    case FL_IO_DISCARD:
        build_discard(q, slot, off, len);
        break;
    case FL_IO_FLUSH:
        build_rw(q, slot, FL_NVME_CMD_FLUSH, 0, UINT64_C(1) << q->block_shift, 0); /* CDW10 to 12 are 0 */
        len = io->len;
        break;
    }
    if (fl_unlikely(io->times) && q->nr_unsent < q->nr_slots)
        q->unsent[q->nr_unsent++] = (uint32_t)(slot - q->slots);
    rio->issued += len;
    rio->all_issued = rio->issued >= io->len;
    rio->nr_cmds++;
    fl_link_submit(&q->link, &slot->req);
}

void fl_rq_note_sent(struct fl_remote_queue *q)
{
    uint64_t now_ns;

    if (!q->nr_unsent || fl_link_send(&q->link) < 0)
        return; /* the next poll sees what is wrong */
    now_ns = fl_now_ns();
    while (q->nr_unsent) {
        const struct fl_slot *slot = &q->slots[q->unsent[--q->nr_unsent]];

        if (slot->state == FL_SLOT_OUT && slot->io->times)
            slot->io->times->sent_ns = now_ns;
    }
}

static void note_answer(struct fl_io_times *times, const struct fl_nvme_cqe *cqe)
{
    times->answered_ns = fl_now_ns();
    times->service_ns = FL_MAX(times->service_ns, (uint64_t)le32_get(cqe->dw1));
}

void fl_rq_issue_pending(struct fl_remote_queue *q)
{
    while (q->nr_free && !fl_list_empty(&q->pending)) {
        struct fl_rio *rio = FL_LIST_ENTRY(q->pending.next, struct fl_rio, link);

        issue(q, fl_io_of(rio));
        if (rio->all_issued)
            fl_list_del(&rio->link);
    }
}

void fl_rq_submit(struct fl_queue *queue, struct fl_io *io)
{
    struct fl_remote_queue *q = fl_remote_queue_of(queue);
    struct fl_rio *rio = fl_rio_of(io);

    fl_list_init(&rio->link);
    rio->issued = 0;
    rio->iov = io->iov;
    rio->skip = 0;
    rio->nr_iov = io->nr_iov;
    rio->nr_cmds = 0;
    rio->result = 0;
    rio->all_issued = false;
    if (fl_unlikely(io->times))
        *io->times = (struct fl_io_times){0};
    if (fl_likely(q->state == FL_RQ_LIVE && fl_list_empty(&q->pending) && q->nr_free)) {
        issue(q, io);
        if (fl_likely(rio->all_issued))
            return;
    }
    fl_list_add_tail(&q->pending, &rio->link);
    if (q->state == FL_RQ_LIVE)
        fl_rq_issue_pending(q);
}

/* ---- from answers to completions ---- */

static void free_slot(struct fl_remote_queue *q, struct fl_slot *slot)
{
    slot->state = FL_SLOT_FREE;
    slot->io = NULL;
    q->free[q->nr_free++] = (uint32_t)(slot - q->slots);
}

/* True: the command goes out once more. */
static bool retry(struct fl_remote_queue *q, struct fl_slot *slot, fl_nvme_status status)
{
    enum fl_retry how = fl_io_status_retry(status);

    if (how == FL_RETRY_NEVER || slot->tries >= MAX_TRIES)
        return false;
    slot->tries++;
    slot->age = 0;
    if (how == FL_RETRY_NOW) {
        fl_link_submit(&q->link, &slot->req);
    } else {
        slot->state = FL_SLOT_LATER;
        slot->due_ns = fl_now_ns() + (uint64_t)slot->tries * PAUSE_MS * FL_NS_PER_MS;
        q->nr_later++;
    }
    return true;
}

/* What is not under way any more of an I/O that failed is not begun. */
static void stop_io(struct fl_io *io, int code, fl_nvme_status status)
{
    struct fl_rio *rio = fl_rio_of(io);

    if (!rio->result) {
        rio->result = code;
        io->nvme_status = status;
    }
    rio->all_issued = true;
    fl_list_del(&rio->link);
}

static void answered(struct fl_link *link, struct fl_request *req)
{
    struct fl_remote_queue *q = FL_CONTAINER_OF(link, struct fl_remote_queue, link);
    struct fl_slot *slot = FL_CONTAINER_OF(req, struct fl_slot, req);
    struct fl_io *io = slot->io;
    struct fl_rio *rio = fl_rio_of(io);
    fl_nvme_status status = fl_nvme_cqe_status(&req->cqe);

    if (fl_unlikely(status)) {
        bool unsent = req->state == FL_REQUEST_UNSENT;

        if (!unsent && retry(q, slot, status))
            return;
        if (unsent)
            stop_io(io, -(int)le32_get(req->cqe.dw0), 0);
        else
            stop_io(io, fl_io_status_errno(status), status);
    }
    if (fl_unlikely(io->times))
        note_answer(io->times, &req->cqe);
    free_slot(q, slot);
    rio->nr_cmds--;
    if (fl_likely(rio->all_issued && !rio->nr_cmds))
        fl_queue_complete(&q->base, io, rio->result);
    if (fl_unlikely(!fl_list_empty(&q->pending)))
        fl_rq_issue_pending(q);
}

const struct fl_link_ops fl_rq_ops = {.done = answered};

/* ---- when the connection breaks ---- */

void fl_rq_keep(struct fl_remote_queue *q)
{
    for (uint32_t i = 0; i < q->nr_slots; i++)
        if (q->slots[i].state == FL_SLOT_OUT)
            q->slots[i].state = FL_SLOT_KEPT;
}

void fl_rq_resend(struct fl_remote_queue *q)
{
    for (uint32_t i = 0; i < q->nr_slots; i++) {
        struct fl_slot *slot = &q->slots[i];

        if (slot->state != FL_SLOT_KEPT)
            continue;
        slot->state = FL_SLOT_OUT;
        slot->age = 0;
        fl_link_submit(&q->link, &slot->req);
    }
    fl_rq_issue_pending(q);
}

void fl_rq_send_later(struct fl_remote_queue *q, uint64_t now_ns)
{
    for (uint32_t i = 0; q->nr_later && i < q->nr_slots; i++) {
        struct fl_slot *slot = &q->slots[i];

        if (slot->state != FL_SLOT_LATER || now_ns < slot->due_ns)
            continue;
        q->nr_later--;
        slot->state = FL_SLOT_OUT;
        slot->age = 0;
        fl_link_submit(&q->link, &slot->req);
    }
}

void fl_rq_fail_bad(struct fl_remote_queue *q)
{
    struct fl_list ended, *l;

    q->link.bad_memory = false;
    for (uint32_t i = 0; i < q->nr_slots; i++) {
        const struct fl_request *req = &q->slots[i].req;

        if (q->slots[i].state == FL_SLOT_KEPT && req->data_len &&
            !fl_probe_iov(req->iov, req->nr_iov, req->iov_skip, req->data_len, req->to_host))
            stop_io(q->slots[i].io, -EFAULT, 0);
    }
    fl_list_init(&ended);
    for (uint32_t i = 0; i < q->nr_slots; i++) {
        struct fl_slot *slot = &q->slots[i];
        struct fl_rio *rio = slot->io ? fl_rio_of(slot->io) : NULL;

        if (slot->state != FL_SLOT_KEPT || !rio->result)
            continue;
        if (!--rio->nr_cmds)
            fl_list_add_tail(&ended, &rio->link);
        free_slot(q, slot);
    }
    while ((l = fl_list_pop(&ended))) {
        struct fl_rio *rio = FL_LIST_ENTRY(l, struct fl_rio, link);

        fl_queue_complete(&q->base, fl_io_of(rio), rio->result);
    }
}

void fl_rq_fail_all(struct fl_remote_queue *q, int code)
{
    struct fl_list ended, *l;

    /* All are collected before the first completion runs: that may submit again. */
    fl_list_init(&ended);
    while ((l = fl_list_pop(&q->pending))) {
        struct fl_rio *rio = FL_LIST_ENTRY(l, struct fl_rio, link);

        stop_io(fl_io_of(rio), code, 0);
        if (!rio->nr_cmds)
            fl_list_add_tail(&ended, &rio->link);
    }
    for (uint32_t i = 0; i < q->nr_slots; i++) {
        struct fl_slot *slot = &q->slots[i];
        struct fl_rio *rio;

        if (slot->state == FL_SLOT_FREE)
            continue;
        rio = fl_rio_of(slot->io);
        stop_io(slot->io, code, 0);
        if (!--rio->nr_cmds)
            fl_list_add_tail(&ended, &rio->link);
        free_slot(q, slot);
    }
    q->nr_later = q->nr_unsent = 0;
    while ((l = fl_list_pop(&ended))) {
        struct fl_rio *rio = FL_LIST_ENTRY(l, struct fl_rio, link);

        fl_queue_complete(&q->base, fl_io_of(rio), rio->result);
    }
}

struct fl_slot *fl_rq_scan(struct fl_remote_queue *q)
{
    struct fl_slot *late = NULL;

    for (uint32_t i = 0; i < q->nr_slots; i++)
        if (q->slots[i].state == FL_SLOT_OUT && q->slots[i].age++ >= FL_RQ_LOOKS)
            late = &q->slots[i];
    return late;
}
