/* SPDX-License-Identifier: Apache-2.0 */
/* Admin commands: what there is, who may send it, and the small ones. */
#include "target/core.h"

#define ALL         1u /* also for discovery controllers */
#define DISABLED_OK 2u /* before CC.EN too */

struct admin_op {
    void (*run)(struct fl_tqueue *q, struct fl_cmd *cmd);
    uint8_t flags;
    uint32_t effects;
};

static void keep_alive(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    fl_tctrl_feed(q->ctrl);
    fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
}

/* ---- Abort (base specification 2.0, 5.1) ---- */

static void answer_abort(struct fl_cmd *cmd, bool aborted)
{
    cmd->cqe.dw0 = le32_of(aborted ? 0 : FL_NVME_ABORT_NOT_ABORTED);
    fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
}

void fl_admin_abort_done(struct fl_abort *abort)
{
    struct fl_cmd *cmd = abort->cmd;
    struct fl_tqueue *admin = cmd->conn->user;

    admin->ctrl->nr_aborts--;
    answer_abort(cmd, abort->aborted);
}

static void abort_command(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    struct fl_tctrl *ctrl = q->ctrl;
    uint32_t cdw10 = le32_get(cmd->sqe.cdw10);
    uint16_t sqid = (uint16_t)cdw10, cid = (uint16_t)(cdw10 >> 16);
    struct fl_tqueue *victim = !sqid ? q : sqid <= q->target->options.max_queues ? ctrl->queues[sqid] : NULL;
    struct fl_abort *abort = &fl_tio_of(cmd)->u.abort;

    if (ctrl->nr_aborts == FL_ABORT_MAX) {
        fl_tqueue_finish(cmd, FL_NVME_SC_ABORT_LIMIT);
        return;
    }
    if (!sqid && fl_aer_abort(ctrl, cid)) {
        answer_abort(cmd, true);
        return;
    }
    if (!victim) {
        answer_abort(cmd, false);
        return;
    }
    ctrl->nr_aborts++;
    *abort = (struct fl_abort){.cmd = cmd, .queue = victim, .cid = cid};
    fl_tqueue_track(cmd, FL_TIO_BACKEND, NULL);
    fl_tqueue_abort(abort);
}

#define SUPP FL_NVME_EFFECT_CSUPP

static const struct admin_op ops[256] = {
    [FL_NVME_ADM_GET_LOG_PAGE] = {fl_admin_get_log, ALL, SUPP},
    [FL_NVME_ADM_IDENTIFY] = {fl_admin_identify, ALL, SUPP},
    [FL_NVME_ADM_ABORT] = {abort_command, ALL, SUPP},
    [FL_NVME_ADM_SET_FEATURES] = {fl_admin_set_features, ALL, SUPP},
    [FL_NVME_ADM_GET_FEATURES] = {fl_admin_get_features, ALL, SUPP},
    [FL_NVME_ADM_ASYNC_EVENT] = {fl_aer_command, ALL, SUPP},
    [FL_NVME_ADM_KEEP_ALIVE] = {keep_alive, ALL | DISABLED_OK, SUPP},
    [FL_NVME_ADM_FABRICS] = {fl_fabrics_command, ALL | DISABLED_OK, SUPP},
};

uint32_t fl_admin_effects(bool admin, uint8_t opcode, bool discovery)
{
    if (!admin)
        return discovery ? 0 : fl_io_effects(opcode);
    return ops[opcode].run && (!discovery || ops[opcode].flags & ALL) ? ops[opcode].effects : 0;
}

void fl_tqueue_admin_command(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    const struct admin_op *op = &ops[cmd->sqe.opcode];

    if (!op->run || (q->ctrl->ss->discovery && !(op->flags & ALL))) {
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_OPCODE | FL_NVME_DNR);
        return;
    }
    if (q->ctrl->dying) {
        fl_tqueue_finish(cmd, FL_NVME_SC_ABORT_QUEUE);
        return;
    }
    if (!fl_tctrl_ready(q->ctrl) && !(op->flags & DISABLED_OK)) {
        fl_tqueue_finish(cmd, FL_NVME_SC_CMD_SEQ_ERROR | FL_NVME_DNR);
        return;
    }
    if (cmd->sqe.flags & FL_NVME_CMD_FUSE_MASK ||
        ((cmd->sqe.flags & FL_NVME_CMD_PSDT_MASK) != FL_NVME_CMD_PSDT_SGL && cmd->sgl_len)) {
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
        return;
    }
    op->run(q, cmd);
}
