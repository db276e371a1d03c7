/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A controller: made by the Connect of an admin queue, gone with it. Dying (keep alive ran out, host not
 * allowed any more, subsystem removed, admin queue lost) closes its queues; when the last of them has ended
 * it is freed. It lives on the control loop.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "target/core.h"

#define CAP_TO 15u /* CC.EN takes effect within 7.5 s */

uint64_t fl_tctrl_cap(const struct fl_tctrl *ctrl)
{
    return (ctrl->target->options.max_depth - 1) | FL_NVME_CAP_CQR |
           (uint64_t)CAP_TO << FL_NVME_CAP_TO_SHIFT | FL_NVME_CAP_CSS_NVM | FL_NVME_CAP_CSS_IOCS |
           FL_NVME_CAP_CRWMS;
}

static void free_ctrl(struct fl_tctrl *ctrl)
{
    struct fl_target *target = ctrl->target;
    struct fl_subsystem *ss = ctrl->ss;

    FL_INFO("controller %u of %s for %s (%s) has ended", ctrl->cntlid, ss->nqn, ctrl->hostnqn, ctrl->peer);
    fl_timer_cancel(&ctrl->kato_timer);
    fl_list_del(&ctrl->link);
    pthread_mutex_destroy(&ctrl->errors.lock);
    free(ctrl->queues);
    free(ctrl);
    target->nr_controllers--;
    ss->nr_controllers--;
    fl_subsystem_check_removed(ss);
}

static void close_io_queues(struct fl_tctrl *ctrl, const char *why)
{
    for (uint32_t qid = 1; qid <= ctrl->target->options.max_queues; qid++)
        if (ctrl->queues[qid])
            fl_tqueue_close(ctrl->queues[qid], why);
}

void fl_tctrl_kill(struct fl_tctrl *ctrl, const char *why)
{
    if (ctrl->dying)
        return;
    FL_INFO("controller %u of %s for %s (%s): %s", ctrl->cntlid, ctrl->ss->nqn, ctrl->hostnqn, ctrl->peer,
            why);
    ctrl->dying = true;
    fl_timer_cancel(&ctrl->kato_timer);
    close_io_queues(ctrl, why);
    if (ctrl->admin)
        fl_tqueue_close(ctrl->admin, why);
}

/* What waits for the last I/O queue. */
static void check_idle(struct fl_tctrl *ctrl)
{
    if (ctrl->nr_io_queues)
        return;
    if (ctrl->disabling) {
        ctrl->disabling = false;
        if (!(ctrl->cc & FL_NVME_CC_EN))
            ctrl->csts &= ~(FL_NVME_CSTS_RDY | FL_NVME_CSTS_CFS);
    }
    if (fl_nvme_csts_shst(ctrl->csts) == FL_NVME_CSTS_SHST_OCCURRING) {
        ctrl->csts &= ~(3u << FL_NVME_CSTS_SHST_SHIFT);
        ctrl->csts |= FL_NVME_CSTS_SHST_COMPLETE << FL_NVME_CSTS_SHST_SHIFT;
    }
    if (ctrl->dying && !ctrl->admin)
        free_ctrl(ctrl);
}

void fl_tctrl_queue_gone(struct fl_tqueue *q)
{
    struct fl_tctrl *ctrl = q->ctrl;

    ctrl->nr_reads += q->io.nr_reads;
    ctrl->nr_writes += q->io.nr_writes;
    ctrl->read_len += q->io.read_len;
    ctrl->write_len += q->io.write_len;
    if (q == ctrl->admin) {
        ctrl->admin = NULL;
        fl_tctrl_kill(ctrl, "its admin queue has ended");
    } else {
        ctrl->queues[q->qid] = NULL;
        ctrl->nr_io_queues--;
    }
    check_idle(ctrl);
}

struct fl_tctrl *fl_tctrl_find(struct fl_subsystem *ss, uint16_t cntlid)
{
    struct fl_tctrl *ctrl;

    fl_list_for_each (ctrl, &ss->target->controllers, link)
        if (ctrl->ss == ss && ctrl->cntlid == cntlid && !ctrl->dying)
            return ctrl;
    return NULL;
}

/* ---- keep alive (base specification 2.0, 3.9); a timer of the control loop that no I/O and no change stands
 * before ---- */

static uint64_t sum_commands(const struct fl_tctrl *ctrl)
{
    uint64_t sum = ctrl->admin ? ctrl->admin->nr_commands : 0;

    for (uint32_t qid = 1; ctrl->nr_io_queues && qid <= ctrl->target->options.max_queues; qid++)
        if (ctrl->queues[qid])
            sum += FL_PEEK(ctrl->queues[qid]->nr_commands);
    return sum;
}

static uint32_t kato_now(const struct fl_tctrl *ctrl)
{
    return ctrl->kato_ms ? ctrl->kato_ms : ctrl->ss->discovery ? FL_DISC_KATO_MS : 0;
}

static void arm_kato(struct fl_tctrl *ctrl)
{
    uint32_t ms = kato_now(ctrl);

    if (ms && !ctrl->dying)
        fl_timer_set(ctrl->target->loop, &ctrl->kato_timer,
                     fl_loop_now(ctrl->target->loop) + ms * FL_NS_PER_MS);
    else
        fl_timer_cancel(&ctrl->kato_timer);
}

/* Any command feeds the timer (CTRATT.TBKAS): looked at when it expires, so that no command has to touch it.
 */
static void kato_expired(struct fl_timer *timer)
{
    struct fl_tctrl *ctrl = FL_CONTAINER_OF(timer, struct fl_tctrl, kato_timer);
    uint64_t sum = sum_commands(ctrl);

    if (sum != ctrl->kato_seen) {
        ctrl->kato_seen = sum;
        arm_kato(ctrl);
        return;
    }
    if (ctrl->kato_ms)
        FL_WARN("%s (%s) has sent nothing for its keep alive time of %u ms: its controller %u of %s ends",
                ctrl->hostnqn, ctrl->peer, ctrl->kato_ms, ctrl->cntlid, ctrl->ss->nqn);
    ctrl->csts |= FL_NVME_CSTS_CFS;
    fl_tctrl_kill(ctrl, "keep alive ran out");
}

void fl_tctrl_feed(struct fl_tctrl *ctrl)
{
    ctrl->kato_seen = sum_commands(ctrl);
    arm_kato(ctrl);
}

void fl_tctrl_set_kato(struct fl_tctrl *ctrl, uint32_t kato_ms)
{
    uint64_t unit = ctrl->target->options.min_kato_ms;
    uint64_t up = (kato_ms + unit - 1) / unit * unit; /* rounded up to the granularity (KAS) */

    ctrl->kato_ms = up > UINT32_MAX ? UINT32_MAX : (uint32_t)up;
    fl_tctrl_feed(ctrl);
}

/* ---- CC and CSTS ---- */

static void enable(struct fl_tctrl *ctrl)
{
    uint32_t cc = ctrl->cc, css = fl_nvme_cc_css(cc);
    bool io = !ctrl->ss->discovery;

    /* A discovery controller has no I/O queues and so nothing to say about their entries. */
    if ((io && (fl_nvme_cc_iosqes(cc) != 6 || fl_nvme_cc_iocqes(cc) != 4)) || fl_nvme_cc_mps(cc) ||
        fl_nvme_cc_ams(cc) || (css != FL_NVME_CC_CSS_NVM && css != FL_NVME_CC_CSS_IOCS)) {
        FL_WARN("%s (%s) enables controller %u with CC %08x, which it does not support", ctrl->hostnqn,
                ctrl->peer, ctrl->cntlid, cc);
        ctrl->csts |= FL_NVME_CSTS_CFS;
        return;
    }
    fl_features_reset(ctrl);
    ctrl->csts = FL_NVME_CSTS_RDY;
    fl_tctrl_feed(ctrl);
}

void fl_tctrl_set_cc(struct fl_tctrl *ctrl, uint32_t cc)
{
    uint32_t old = ctrl->cc;

    ctrl->cc = cc;
    if (!(old & FL_NVME_CC_EN) && (cc & FL_NVME_CC_EN) && !ctrl->disabling)
        enable(ctrl);
    if ((old & FL_NVME_CC_EN) &&
        !(cc & FL_NVME_CC_EN)) { /* Controller Level Reset: the I/O queues go, the association stays */
        ctrl->disabling = true;
        fl_aer_drop_all(ctrl);
        ctrl->aer_pending = ctrl->aer_masked = 0;
        close_io_queues(ctrl, "the host disabled the controller");
    }
    if (!fl_nvme_cc_shn(old) && fl_nvme_cc_shn(cc)) {
        ctrl->csts &= ~(3u << FL_NVME_CSTS_SHST_SHIFT);
        ctrl->csts |= FL_NVME_CSTS_SHST_OCCURRING << FL_NVME_CSTS_SHST_SHIFT;
        close_io_queues(ctrl, "the host shut the controller down");
    }
    if (fl_nvme_cc_shn(old) && !fl_nvme_cc_shn(cc))
        ctrl->csts &= ~(3u << FL_NVME_CSTS_SHST_SHIFT);
    check_idle(ctrl);
}

/* ---- birth ---- */

static uint16_t new_cntlid(struct fl_target *target)
{
    for (uint32_t tries = 0; tries < FL_NVMF_CNTLID_MAX; tries++) {
        struct fl_tctrl *ctrl;
        bool used = false;

        target->last_cntlid = (uint16_t)(target->last_cntlid >= FL_NVMF_CNTLID_MAX ? 1
                                                                                   : target->last_cntlid + 1);
        fl_list_for_each (ctrl, &target->controllers, link)
            used = used || ctrl->cntlid == target->last_cntlid;
        if (!used)
            return target->last_cntlid;
    }
    return 0;
}

fl_nvme_status fl_tctrl_create(struct fl_subsystem *ss, struct fl_tqueue *admin,
                               const struct fl_nvmf_connect_data *data, uint32_t kato_ms,
                               struct fl_tctrl **out)
{
    struct fl_target *target = ss->target;
    struct fl_conn_info info = {0};
    struct fl_tctrl *ctrl;

    if (target->nr_controllers >= FL_CONTROLLERS_MAX)
        return FL_NVME_SC_CONNECT_CTRL_BUSY;
    ctrl = calloc(1, sizeof(*ctrl));
    if (!ctrl)
        return FL_NVME_SC_INTERNAL;
    ctrl->queues = calloc(target->options.max_queues + 1, sizeof(*ctrl->queues));
    if (!ctrl->queues) {
        free(ctrl);
        return FL_NVME_SC_INTERNAL;
    }
    pthread_mutex_init(&ctrl->errors.lock, NULL);
    ctrl->target = target;
    ctrl->ss = ss;
    ctrl->port = admin->port;
    ctrl->cntlid = new_cntlid(target);
    snprintf(ctrl->hostnqn, sizeof(ctrl->hostnqn), "%.*s", FL_NQN_MAX, data->hostnqn);
    memcpy(ctrl->hostid, data->hostid, sizeof(ctrl->hostid));
    fl_conn_info(admin->conn, &info);
    snprintf(ctrl->peer, sizeof(ctrl->peer), "%s", info.peer);
    ctrl->admin = admin;
    ctrl->kato_timer.expired = kato_expired;
    fl_list_init(&ctrl->link);
    fl_list_add_tail(&target->controllers, &ctrl->link);
    target->nr_controllers++;
    ss->nr_controllers++;
    fl_features_reset(ctrl);
    fl_tctrl_set_kato(ctrl, kato_ms);
    FL_INFO("controller %u of %s for %s (%s)", ctrl->cntlid, ss->nqn, ctrl->hostnqn, ctrl->peer);
    *out = ctrl;
    return FL_NVME_SC_SUCCESS;
}

/* An Identify whose field at fault can only be CNS: that of the command sets may be refused for its CNTID. */
static bool is_cns(const struct fl_cmd *cmd)
{
    const struct fl_tqueue *q = cmd->conn->user;

    return !q->qid && cmd->sqe.opcode == FL_NVME_ADM_IDENTIFY &&
           (uint8_t)le32_get(cmd->sqe.cdw10) != FL_NVME_CNS_CMD_SETS;
}

void fl_tctrl_log_error(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint16_t qid, fl_nvme_status status)
{
    struct fl_error_ring *ring = &ctrl->errors;
    struct fl_nvme_error_entry *e;
    uint16_t code = fl_nvme_status_code(status);
    /* The byte of the command at fault, where the status itself says which. */
    uint16_t loc = code == FL_NVME_SC_INVALID_OPCODE                 ? 0
                   : code == FL_NVME_SC_INVALID_NS                   ? 4
                   : code == FL_NVME_SC_INVALID_FIELD && is_cns(cmd) ? 40
                                                                     : 0xffff;

    pthread_mutex_lock(&ring->lock);
    e = &ring->entry[ring->count++ % FL_ERROR_ENTRIES];
    memset(e, 0, sizeof(*e));
    e->count = le64_of(ring->count);
    e->sqid = le16_of(qid);
    e->cid = cmd->sqe.cid;
    e->status = le16_of((uint16_t)(status << 1));
    e->peloc = le16_of(loc);
    e->nsid = cmd->sqe.nsid;
    if (qid)
        e->lba = le64_of(fl_nvme_rw_slba(&cmd->sqe));
    pthread_mutex_unlock(&ring->lock);
}
