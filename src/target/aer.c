/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asynchronous events (base specification 2.0, 5.2). Each kind is pending when it happened, and masked from
 * the time that a request told of it until the host reads the log page with RAE 0. What happens while it is
 * masked needs no event of its own: the page that the host is about to read has it.
 */
#include "target/core.h"

static const struct {
    uint8_t type, info, log;
    uint32_t enable; /* bit of the Asynchronous Event Configuration; 0: always on */
} events[FL_NR_EVENTS] = {
    [FL_EVENT_NS_CHANGED] = {FL_NVME_AER_NOTICE, FL_NVME_AER_NOTICE_NS_CHANGED, FL_NVME_LOG_CHANGED_NS,
                             FL_NVME_AEN_NS_ATTR},
    [FL_EVENT_ANA] = {FL_NVME_AER_NOTICE, FL_NVME_AER_NOTICE_ANA, FL_NVME_LOG_ANA, FL_NVME_AEN_ANA},
    [FL_EVENT_DISCOVERY] = {FL_NVME_AER_NOTICE, FL_NVME_AER_NOTICE_DISC_CHANGED, FL_NVME_LOG_DISCOVERY,
                            FL_NVME_AEN_DISC_CHANGE},
    [FL_EVENT_RESERVATION] = {FL_NVME_AER_IO, FL_NVME_AER_IO_RESERVATION, FL_NVME_LOG_RESERVATION, 0},
};

static void deliver(struct fl_tctrl *ctrl)
{
    for (uint32_t e = 0; e < FL_NR_EVENTS && ctrl->nr_aer; e++) {
        struct fl_cmd *cmd;

        if (!(ctrl->aer_pending & 1u << e))
            continue;
        ctrl->aer_pending &= ~(1u << e);
        ctrl->aer_masked |= 1u << e;
        cmd = ctrl->aer[0]; /* oldest first */
        ctrl->nr_aer--;
        memmove(&ctrl->aer[0], &ctrl->aer[1], ctrl->nr_aer * sizeof(ctrl->aer[0]));
        cmd->cqe.dw0 = le32_of(fl_nvme_aer_of(events[e].type, events[e].info, events[e].log));
        fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
    }
}

void fl_aer_command(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    struct fl_tctrl *ctrl = q->ctrl;

    if (ctrl->nr_aer == FL_AER_MAX) {
        fl_tqueue_finish(cmd, FL_NVME_SC_ASYNC_LIMIT | FL_NVME_DNR);
        return;
    }
    ctrl->aer[ctrl->nr_aer++] = cmd;
    deliver(ctrl);
}

void fl_aer_raise(struct fl_tctrl *ctrl, enum fl_event event)
{
    uint32_t enable = events[event].enable;

    if (ctrl->dying || (enable && !(ctrl->feat[FL_NVME_FEAT_ASYNC_EVENT] & enable)) ||
        (ctrl->aer_masked & 1u << event))
        return;
    ctrl->aer_pending |= 1u << event;
    deliver(ctrl);
}

void fl_aer_unmask(struct fl_tctrl *ctrl, enum fl_event event)
{
    ctrl->aer_masked &= ~(1u << event);
}

bool fl_aer_abort(struct fl_tctrl *ctrl, uint16_t cid)
{
    for (uint32_t i = 0; i < ctrl->nr_aer; i++) {
        struct fl_cmd *cmd = ctrl->aer[i];

        if (le16_get(cmd->sqe.cid) != cid)
            continue;
        ctrl->nr_aer--;
        memmove(&ctrl->aer[i], &ctrl->aer[i + 1], (ctrl->nr_aer - i) * sizeof(ctrl->aer[0]));
        fl_tqueue_finish(cmd, FL_NVME_SC_ABORT_REQ);
        return true;
    }
    return false;
}

void fl_aer_drop_all(struct fl_tctrl *ctrl)
{
    while (ctrl->nr_aer)
        fl_tqueue_finish(ctrl->aer[--ctrl->nr_aer], FL_NVME_SC_ABORT_QUEUE);
}

void fl_aer_ns_changed(struct fl_subsystem *ss, uint32_t nsid)
{
    struct fl_tctrl *ctrl;

    ss->ana_count++; /* a group's list of namespaces is part of the ANA log */
    fl_list_for_each (ctrl, &ss->target->controllers, link) {
        if (ctrl->ss != ss)
            continue;
        ctrl->changed_ns[nsid / 32] |= 1u << nsid % 32;
        fl_aer_raise(ctrl, FL_EVENT_NS_CHANGED);
    }
}

void fl_aer_ana_changed(struct fl_target *target, struct fl_tport *port)
{
    struct fl_tctrl *ctrl;

    fl_list_for_each (ctrl, &target->controllers, link)
        if (ctrl->port == port)
            fl_aer_raise(ctrl, FL_EVENT_ANA);
}

/* Subsystem, listener or host: what the discovery log tells may be another one now. */
void fl_aer_discovery_changed(struct fl_target *target)
{
    struct fl_tctrl *ctrl;

    target->genctr++;
    fl_list_for_each (ctrl, &target->controllers, link)
        if (ctrl->ss->discovery)
            fl_aer_raise(ctrl, FL_EVENT_DISCOVERY);
}
