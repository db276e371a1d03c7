/* SPDX-License-Identifier: Apache-2.0 */
/* Get Log Page (base specification 2.0, 5.16): each page is written from its start, and the window that the
 * host asked for is kept. */
#include "base/clock.h"
#include "target/core.h"

void fl_log_add(struct fl_log_page *page, const void *data, size_t len)
{
    uint64_t from = FL_MAX(page->pos, page->off), to = FL_MIN(page->pos + len, page->off + page->len);

    if (from < to)
        memcpy(page->buf + (from - page->off), (const uint8_t *)data + (from - page->pos), to - from);
    page->pos += len;
}

static fl_nvme_status supported_logs(struct fl_tctrl *ctrl, struct fl_log_page *page,
                                     const struct fl_nvme_sqe *sqe);

static fl_nvme_status error_log(struct fl_tctrl *ctrl, struct fl_log_page *page,
                                const struct fl_nvme_sqe *sqe)
{
    struct fl_error_ring *ring = &ctrl->errors;
    struct fl_nvme_error_entry none = {0};

    pthread_mutex_lock(&ring->lock);
    for (uint64_t i = 0; i < FL_ERROR_ENTRIES; i++)
        fl_log_add(page, i < ring->count ? &ring->entry[(ring->count - 1 - i) % FL_ERROR_ENTRIES] : &none,
                   sizeof(none));
    pthread_mutex_unlock(&ring->lock);
    return FL_NVME_SC_SUCCESS;
}

static struct fl_nvme_u128 u128_of(uint64_t v)
{
    return (struct fl_nvme_u128){.lo = le64_of(v)};
}

/* What the controller's queues did, those that are gone included. Units are thousands of 512 bytes, rounded
 * up. */
static fl_nvme_status smart_log(struct fl_tctrl *ctrl, struct fl_log_page *page,
                                const struct fl_nvme_sqe *sqe)
{
    uint64_t reads = ctrl->nr_reads, writes = ctrl->nr_writes, read_len = ctrl->read_len,
             write_len = ctrl->write_len;
    uint32_t nsid = le32_get(sqe->nsid);
    struct fl_nvme_smart_log log = {.avail_spare = 100, .spare_thresh = 10};

    if (nsid && nsid != FL_NVME_NSID_ALL) /* LPA bit 0 is 0: none per namespace */
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    for (uint32_t qid = 1; qid <= ctrl->target->options.max_queues; qid++) {
        const struct fl_tqueue *q = ctrl->queues[qid];

        if (!q)
            continue;
        reads += FL_PEEK(q->io.nr_reads);
        writes += FL_PEEK(q->io.nr_writes);
        read_len += FL_PEEK(q->io.read_len);
        write_len += FL_PEEK(q->io.write_len);
    }
    log.data_units_read = u128_of((read_len / 512 + 999) / 1000);
    log.data_units_written = u128_of((write_len / 512 + 999) / 1000);
    log.host_reads = u128_of(reads);
    log.host_writes = u128_of(writes);
    log.power_cycles = u128_of(1);
    log.power_on_hours = u128_of(
        (fl_loop_now(ctrl->target->loop) - FL_MIN(ctrl->target->start_ns, fl_loop_now(ctrl->target->loop))) /
        (3600 * FL_NS_PER_S));
    pthread_mutex_lock(&ctrl->errors.lock);
    log.nr_error_entries = u128_of(ctrl->errors.count);
    pthread_mutex_unlock(&ctrl->errors.lock);
    fl_log_add(page, &log, sizeof(log));
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status firmware_log(struct fl_tctrl *ctrl, struct fl_log_page *page,
                                   const struct fl_nvme_sqe *sqe)
{
    struct fl_nvme_fw_slot_log log = {.afi = 1};

    fl_nvme_text_set(log.frs[0], sizeof(log.frs[0]), "0.1.0");
    fl_log_add(page, &log, sizeof(log));
    return FL_NVME_SC_SUCCESS;
}

/*
 * Ascending. "Changed since the page was last read": forgotten when a read gets as far as the last entry,
 * with RAE or without it (nvme-cli always sets it). There are as many identifiers as entries, so that none
 * overflows.
 */
static fl_nvme_status changed_ns_log(struct fl_tctrl *ctrl, struct fl_log_page *page,
                                     const struct fl_nvme_sqe *sqe)
{
    struct fl_nvme_changed_ns_log log = {0};
    uint32_t nr = 0;

    for (uint32_t nsid = 1; nsid <= FL_NSID_MAX && nr < FL_NVME_CHANGED_NS_MAX; nsid++)
        if (ctrl->changed_ns[nsid / 32] & 1u << nsid % 32)
            log.nsid[nr++] = le32_of(nsid);
    fl_log_add(page, &log, sizeof(log));
    if (page->off + page->len >= nr * sizeof(log.nsid[0]))
        memset(ctrl->changed_ns, 0, sizeof(ctrl->changed_ns));
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status effects_log(struct fl_tctrl *ctrl, struct fl_log_page *page,
                                  const struct fl_nvme_sqe *sqe)
{
    struct fl_nvme_effects_log log = {0};
    uint8_t csi = (uint8_t)(le32_get(sqe->cdw14) >> 24);

    if (csi != FL_NVME_CSI_NVM)
        return FL_NVME_SC_INVALID_LOG_PAGE | FL_NVME_DNR;
    for (uint32_t op = 0; op < 256; op++) {
        log.acs[op] = le32_of(fl_admin_effects(true, (uint8_t)op, ctrl->ss->discovery));
        log.iocs[op] = le32_of(fl_admin_effects(false, (uint8_t)op, ctrl->ss->discovery));
    }
    fl_log_add(page, &log, sizeof(log));
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status ana_log(struct fl_tctrl *ctrl, struct fl_log_page *page, const struct fl_nvme_sqe *sqe)
{
    fl_log_ana(ctrl, page, le32_get(sqe->cdw10) >> FL_NVME_LOG_LSP_SHIFT & FL_NVME_LOG_ANA_RGO);
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status discovery_log(struct fl_tctrl *ctrl, struct fl_log_page *page,
                                    const struct fl_nvme_sqe *sqe)
{
    return fl_log_discovery(ctrl, page);
}

/* The oldest notice; reading it takes it away. Without one, an empty page (type 0). */
static fl_nvme_status reservation_log(struct fl_tctrl *ctrl, struct fl_log_page *page,
                                      const struct fl_nvme_sqe *sqe)
{
    struct fl_nvme_resv_log log = {0};

    if (ctrl->resv_log_nr) {
        log = ctrl->resv_log[ctrl->resv_log_first];
        log.nalp = (uint8_t)FL_MIN(ctrl->resv_log_nr - 1, 255u);
        if (!(le32_get(sqe->cdw10) & FL_NVME_LOG_RAE)) {
            ctrl->resv_log_first = (ctrl->resv_log_first + 1) % FL_RESV_NOTICES;
            ctrl->resv_log_nr--;
        }
    }
    fl_log_add(page, &log, sizeof(log));
    return FL_NVME_SC_SUCCESS;
}

#define NO_EVENT FL_NR_EVENTS
#define IO       1u
#define DISC     2u

static const struct {
    fl_nvme_status (*write)(struct fl_tctrl *ctrl, struct fl_log_page *page, const struct fl_nvme_sqe *sqe);
    uint8_t who;
    uint8_t event; /* whose report is acknowledged by reading the page */
} logs[256] = {
    [FL_NVME_LOG_SUPPORTED] = {supported_logs, IO, NO_EVENT},
    [FL_NVME_LOG_ERROR] = {error_log, IO | DISC, NO_EVENT},
    [FL_NVME_LOG_SMART] = {smart_log, IO, NO_EVENT},
    [FL_NVME_LOG_FW_SLOT] = {firmware_log, IO, NO_EVENT},
    [FL_NVME_LOG_CHANGED_NS] = {changed_ns_log, IO, FL_EVENT_NS_CHANGED},
    [FL_NVME_LOG_CMD_EFFECTS] = {effects_log, IO, NO_EVENT},
    [FL_NVME_LOG_ANA] = {ana_log, IO, FL_EVENT_ANA},
    [FL_NVME_LOG_DISCOVERY] = {discovery_log, DISC, FL_EVENT_DISCOVERY},
    [FL_NVME_LOG_RESERVATION] = {reservation_log, IO, FL_EVENT_RESERVATION},
};

static bool has_log(const struct fl_tctrl *ctrl, uint32_t lid)
{
    return logs[lid].write && logs[lid].who & (ctrl->ss->discovery ? DISC : IO);
}

static fl_nvme_status supported_logs(struct fl_tctrl *ctrl, struct fl_log_page *page,
                                     const struct fl_nvme_sqe *sqe)
{
    struct fl_nvme_supported_logs log = {0};

    for (uint32_t lid = 0; lid < 256; lid++)
        if (has_log(ctrl, lid))
            log.lid[lid] = le32_of(FL_NVME_LID_SUPPORTED);
    fl_log_add(page, &log, sizeof(log));
    return FL_NVME_SC_SUCCESS;
}

static void build(struct fl_cmd *cmd)
{
    struct fl_tqueue *q = cmd->conn->user;
    uint8_t lid = fl_nvme_log_lid(&cmd->sqe);
    struct fl_log_page page = {
        .buf = cmd->data,
        .off = fl_nvme_log_offset(&cmd->sqe),
        .len = fl_nvme_log_len(&cmd->sqe),
    };
    fl_nvme_status status;

    memset(cmd->data, 0, page.len);
    status = logs[lid].write(q->ctrl, &page, &cmd->sqe);
    if (!status && page.off > page.pos) /* beyond the page's end */
        status = FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    if (!status && logs[lid].event != NO_EVENT && !(le32_get(cmd->sqe.cdw10) & FL_NVME_LOG_RAE))
        fl_aer_unmask(q->ctrl, (enum fl_event)logs[lid].event);
    cmd->to_host = !status;
    cmd->data_len = (uint32_t)page.len;
    fl_tqueue_finish(cmd, status);
}

void fl_admin_get_log(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    uint64_t len = fl_nvme_log_len(&cmd->sqe), off = fl_nvme_log_offset(&cmd->sqe);

    if (!has_log(q->ctrl, fl_nvme_log_lid(&cmd->sqe)))
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_LOG_PAGE | FL_NVME_DNR);
    else if (len > q->mdts_len || off % 4 || off > UINT64_MAX - len ||
             le32_get(cmd->sqe.cdw14) & 1u << 23 /* OT: index */)
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
    else if (cmd->sgl_len != len)
        fl_tqueue_finish(cmd, FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR);
    else
        fl_tqueue_with_buffer(cmd, (uint32_t)len, build);
}
