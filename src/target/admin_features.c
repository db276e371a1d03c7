/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Get and Set Features (base specification 2.0, 5.15 and 5.27). Nothing is saveable; the default is what a
 * controller has when it is enabled. A feature is one row of the table: who has it, which bits may be set,
 * and what happens then.
 */
#include "target/core.h"

#define IO   1u
#define DISC 2u
#define SET  4u /* changeable */
#define NS   8u /* per namespace */

#define ENABLED_EVENTS_IO   (FL_NVME_AEN_NS_ATTR | FL_NVME_AEN_ANA)
#define ENABLED_EVENTS_DISC FL_NVME_AEN_DISC_CHANGE

struct feature {
    uint8_t flags;
    uint32_t initial, mask; /* mask: bits that may differ from 0 */
    fl_nvme_status (*set)(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t value);
    fl_nvme_status (*get)(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t *value);
};

/* ---- the ones with a meaning of their own ---- */

/* 5.27.1.5: both numbers are 0's based, FFFFh is not allowed. What is granted holds for the controller's
 * life. */
static fl_nvme_status set_queues(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t value)
{
    uint32_t nsq = (value & 0xffff) + 1, ncq = (value >> 16) + 1, granted;

    if (nsq == 0x10000 || ncq == 0x10000)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (ctrl->nr_io_queues)
        return FL_NVME_SC_CMD_SEQ_ERROR | FL_NVME_DNR;
    granted = FL_MIN(nsq, ncq);
    granted = FL_MIN(granted, ctrl->target->options.max_queues);
    ctrl->queues_asked = nsq;
    ctrl->queues_granted = granted;
    ctrl->feat[FL_NVME_FEAT_NUM_QUEUES] = (granted - 1) | (granted - 1) << 16;
    cmd->cqe.dw0 = le32_of(ctrl->feat[FL_NVME_FEAT_NUM_QUEUES]);
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status set_kato(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t value)
{
    fl_tctrl_set_kato(ctrl, value);
    ctrl->feat[FL_NVME_FEAT_KATO] = ctrl->kato_ms;
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status get_kato(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t *value)
{
    *value = ctrl->kato_ms;
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status set_power(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t value)
{
    return value & 0x1f ? FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR
                        : FL_NVME_SC_SUCCESS; /* one power state: 0 */
}

/* Thresholds by sensor and direction; the composite one is kept, for there is no temperature to compare with.
 */
static fl_nvme_status set_temperature(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t value)
{
    uint32_t sensor = value >> 16 & 0xf, direction = value >> 20 & 3;

    if ((sensor && sensor != 0xf) || direction > 1)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (!direction)
        ctrl->feat[FL_NVME_FEAT_TEMP_THRESH] = value & 0xffff;
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status get_temperature(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t *value)
{
    uint32_t select = le32_get(cmd->sqe.cdw11), sensor = select >> 16 & 0xf, direction = select >> 20 & 3;

    if (sensor || direction > 1)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (direction) /* under temperature: never reached */
        *value = 0;
    return FL_NVME_SC_SUCCESS;
}

/* 5.27.1.4: DULBE needs NSFEAT.DAE, which no namespace has. */
static fl_nvme_status set_error_recovery(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t value)
{
    if (value & 1u << 16)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    ctrl->feat[FL_NVME_FEAT_ERR_RECOVERY] = value & 0xffff;
    return FL_NVME_SC_SUCCESS;
}

/* Off: each write is durable when it is answered, as if it had FUA. */
static fl_nvme_status set_write_cache(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t value)
{
    ctrl->feat[FL_NVME_FEAT_VOLATILE_WC] = value;
    __atomic_store_n(&ctrl->write_through, !value, __ATOMIC_RELAXED);
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status set_service_time(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t value)
{
    if ((value & ~FL_NVME_SERVICE_TIME_ON) != FL_NVME_SERVICE_TIME_MAGIC)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    ctrl->feat[FL_NVME_FEAT_SERVICE_TIME] = value;
    __atomic_store_n(&ctrl->service_time, value & FL_NVME_SERVICE_TIME_ON, __ATOMIC_RELAXED);
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status set_events(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t value)
{
    uint32_t can = ctrl->ss->discovery ? ENABLED_EVENTS_DISC : ENABLED_EVENTS_IO | FL_NVME_AEN_SMART_MASK;

    if (value & ~can)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    ctrl->feat[FL_NVME_FEAT_ASYNC_EVENT] = value;
    return FL_NVME_SC_SUCCESS;
}

static void host_id_built(struct fl_cmd *cmd)
{
    struct fl_tqueue *q = cmd->conn->user;

    memcpy(cmd->data, q->ctrl->hostid, sizeof(q->ctrl->hostid));
    cmd->to_host = true;
    cmd->data_len = sizeof(q->ctrl->hostid);
    fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
}

/* It comes with Connect and stays; over fabrics only the 16-byte form (5.27.1.25). */
static void get_host_id(struct fl_cmd *cmd)
{
    if (!(le32_get(cmd->sqe.cdw11) & FL_NVME_FEAT_HOST_ID_EXHID))
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
    else if (cmd->sgl_len != 16)
        fl_tqueue_finish(cmd, FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR);
    else
        fl_tqueue_with_buffer(cmd, 16, host_id_built);
}

static fl_nvme_status set_resv_mask(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t value)
{
    uint32_t nsid = le32_get(cmd->sqe.nsid);

    if (nsid != FL_NVME_NSID_ALL && !fl_tns_find(ctrl->ss, nsid))
        return FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
    for (uint32_t i = 1; i <= FL_NSID_MAX; i++)
        if (nsid == i || nsid == FL_NVME_NSID_ALL)
            ctrl->resv_mask[i] = value;
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status get_resv_mask(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t *value)
{
    uint32_t nsid = le32_get(cmd->sqe.nsid);

    if (!fl_tns_find(ctrl->ss, nsid))
        return FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
    *value = ctrl->resv_mask[nsid];
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status get_resv_persist(struct fl_tctrl *ctrl, struct fl_cmd *cmd, uint32_t *value)
{
    struct fl_tns *ns = fl_tns_find(ctrl->ss, le32_get(cmd->sqe.nsid));

    if (!ns)
        return FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
    *value = ns->resv.ptpl;
    return FL_NVME_SC_SUCCESS;
}

static const struct feature features[256] = {
    [FL_NVME_FEAT_ARBITRATION] = {IO | SET, 0x07, 0xffffff07},
    [FL_NVME_FEAT_POWER_MGMT] = {IO | SET, 0, 0xff, set_power},
    [FL_NVME_FEAT_TEMP_THRESH] = {IO | SET, 0xffff, 0x3fffff, set_temperature, get_temperature},
    [FL_NVME_FEAT_ERR_RECOVERY] = {IO | SET, 0, 0x1ffff, set_error_recovery},
    [FL_NVME_FEAT_VOLATILE_WC] = {IO | SET, 1, 1, set_write_cache},
    [FL_NVME_FEAT_NUM_QUEUES] = {IO | SET, 0, 0xffffffff, set_queues},
    [FL_NVME_FEAT_WRITE_ATOMIC] = {IO | SET, 0, 1},
    [FL_NVME_FEAT_ASYNC_EVENT] = {IO | DISC | SET, 0, 0xffffffff, set_events},
    [FL_NVME_FEAT_KATO] = {IO | DISC | SET, 0, 0xffffffff, set_kato, get_kato},
    [FL_NVME_FEAT_HOST_ID] = {IO | DISC, 0, 0},
    [FL_NVME_FEAT_RESV_MASK] = {IO | SET | NS, 0, 0xe, set_resv_mask, get_resv_mask},
    [FL_NVME_FEAT_RESV_PERSIST] = {IO | SET | NS, 0, 1, NULL, get_resv_persist},
    [FL_NVME_FEAT_SERVICE_TIME] = {IO | SET, FL_NVME_SERVICE_TIME_MAGIC, UINT32_MAX, set_service_time},
};

static const struct feature *find_feature(const struct fl_tctrl *ctrl, const struct fl_cmd *cmd)
{
    const struct feature *f = &features[(uint8_t)le32_get(cmd->sqe.cdw10)];

    return f->flags & (ctrl->ss->discovery ? DISC : IO) ? f : NULL;
}

/* What a controller has when it is enabled. No event is on before the host asks for it. KATO is Connect's. */
void fl_features_reset(struct fl_tctrl *ctrl)
{
    for (uint32_t i = 0; i < 256; i++)
        ctrl->feat[i] = features[i].initial;
    memset(ctrl->resv_mask, 0, sizeof(ctrl->resv_mask));
    ctrl->queues_granted = ctrl->target->options.max_queues;
    ctrl->queues_asked = 0;
    __atomic_store_n(&ctrl->write_through, false, __ATOMIC_RELAXED);
    __atomic_store_n(&ctrl->service_time, false, __ATOMIC_RELAXED);
    ctrl->feat[FL_NVME_FEAT_NUM_QUEUES] = (ctrl->queues_granted - 1) | (ctrl->queues_granted - 1) << 16;
}

static fl_nvme_status check_ns(const struct feature *f, const struct fl_cmd *cmd)
{
    uint32_t nsid = le32_get(cmd->sqe.nsid);

    if (f->flags & NS)
        return nsid ? FL_NVME_SC_SUCCESS : FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
    return FL_NVME_SC_SUCCESS;
}

void fl_admin_get_features(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    struct fl_tctrl *ctrl = q->ctrl;
    uint32_t cdw10 = le32_get(cmd->sqe.cdw10),
             select = cdw10 >> FL_NVME_FEAT_SEL_SHIFT & FL_NVME_FEAT_SEL_MASK, value;
    const struct feature *f = find_feature(ctrl, cmd);
    fl_nvme_status status = f ? check_ns(f, cmd) : FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;

    if (!status && select > FL_NVME_FEAT_SEL_SUPPORTED)
        status = FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (status) {
        fl_tqueue_finish(cmd, status);
        return;
    }
    if (select == FL_NVME_FEAT_SEL_SUPPORTED) {
        value = (f->flags & SET ? FL_NVME_FEAT_CAP_CHANGEABLE : 0) |
                (f->flags & NS ? FL_NVME_FEAT_CAP_PER_NS : 0);
    } else if (select != FL_NVME_FEAT_SEL_CURRENT) { /* nothing is saved: the default stands for it (5.15) */
        value = (uint8_t)cdw10 == FL_NVME_FEAT_NUM_QUEUES ? (ctrl->target->options.max_queues - 1) * 0x10001u
                                                          : f->initial;
    } else if ((uint8_t)cdw10 == FL_NVME_FEAT_HOST_ID) {
        get_host_id(cmd);
        return;
    } else {
        value = ctrl->feat[(uint8_t)cdw10];
        status = f->get ? f->get(ctrl, cmd, &value) : FL_NVME_SC_SUCCESS;
    }
    cmd->cqe.dw0 = le32_of(value);
    fl_tqueue_finish(cmd, status);
}

void fl_admin_set_features(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    struct fl_tctrl *ctrl = q->ctrl;
    uint32_t cdw10 = le32_get(cmd->sqe.cdw10), value = le32_get(cmd->sqe.cdw11);
    const struct feature *f = find_feature(ctrl, cmd);
    fl_nvme_status status;

    if (!f)
        status = FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    else if (cdw10 & FL_NVME_FEAT_SAVE)
        status = FL_NVME_SC_FEATURE_NOT_SAVEABLE | FL_NVME_DNR;
    else if ((uint8_t)cdw10 == FL_NVME_FEAT_HOST_ID)
        status = FL_NVME_SC_CMD_SEQ_ERROR | FL_NVME_DNR; /* 5.27.1.25: not over fabrics, Connect said it */
    else if (value & ~f->mask)
        status = FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    else if (!(f->flags & SET) && !f->set)
        status = FL_NVME_SC_FEATURE_NOT_CHANGEABLE | FL_NVME_DNR;
    else
        status = check_ns(f, cmd);
    if (!status && (uint8_t)cdw10 == FL_NVME_FEAT_RESV_PERSIST) { /* takes time: it ends the command */
        fl_resv_set_ptpl(ctrl, cmd, value & FL_NVME_FEAT_RESV_PERSIST_PTPL);
        return;
    }
    if (!status && f->set)
        status = f->set(ctrl, cmd, value);
    else if (!status)
        ctrl->feat[(uint8_t)cdw10] = value;
    fl_tqueue_finish(cmd, status);
}
