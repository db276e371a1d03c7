/* SPDX-License-Identifier: Apache-2.0 */
/* The commands that make a controller usable, keep what is known of it up to date, and shut it down: one
 * table each. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/util.h"
#include "host/remote.h"
#include "wire/nvme_log.h"

/* ---- properties ---- */

static void property_get(struct fl_nvme_sqe *sqe, uint32_t offset, uint8_t size)
{
    struct fl_nvmf_property_get_cmd *cmd = (struct fl_nvmf_property_get_cmd *)sqe;

    cmd->opcode = FL_NVMF_OPCODE;
    cmd->fctype = FL_NVMF_PROPERTY_GET;
    cmd->attrib = size;
    cmd->ofst = le32_of(offset);
}

static void property_set(struct fl_nvme_sqe *sqe, uint32_t offset, uint32_t value)
{
    struct fl_nvmf_property_set_cmd *cmd = (struct fl_nvmf_property_set_cmd *)sqe;

    cmd->opcode = FL_NVMF_OPCODE;
    cmd->fctype = FL_NVMF_PROPERTY_SET;
    cmd->attrib = FL_NVMF_PROPERTY_4;
    cmd->ofst = le32_of(offset);
    cmd->value = le64_of(value);
}

static void build_cap(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    property_get(sqe, FL_NVMF_PROP_CAP, FL_NVMF_PROPERTY_8);
}

static int got_cap(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    r->draft.cap = fl_nvmf_property_value(cqe);
    if (fl_nvme_cap_nr_entries(r->draft.cap) < 2)
        return fl_error_set(&r->err, -EPROTO, "the controller's queues have no room (CAP.MQES is 0)");
    return 0;
}

static void build_vs(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    property_get(sqe, FL_NVMF_PROP_VS, FL_NVMF_PROPERTY_4);
}

static int got_vs(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    r->draft.vs = (uint32_t)fl_nvmf_property_value(cqe);
    return 0;
}

static uint32_t cc(const struct fl_remote *r)
{
    return FL_NVME_CC_EN | FL_NVME_CC_CSS_NVM << FL_NVME_CC_CSS_SHIFT |
           (fl_nvme_cap_page_shift(r->draft.cap) - 12) << FL_NVME_CC_MPS_SHIFT |
           6u << FL_NVME_CC_IOSQES_SHIFT | 4u << FL_NVME_CC_IOCQES_SHIFT;
}

static void build_enable(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    property_set(sqe, FL_NVMF_PROP_CC, cc(r));
}

static int got_enable(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    uint32_t wait_ms = FL_MAX(fl_nvme_cap_timeout_ms(r->draft.cap), 500u);

    r->ready_deadline_ns = fl_now_ns() + wait_ms * FL_NS_PER_MS;
    return 0;
}

static void build_csts(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    property_get(sqe, FL_NVMF_PROP_CSTS, FL_NVMF_PROPERTY_4);
}

static int got_ready(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    uint32_t csts = (uint32_t)fl_nvmf_property_value(cqe);

    if (csts & FL_NVME_CSTS_CFS)
        return fl_error_set(&r->err, -EIO, "the controller reports a fatal error (CSTS is %xh)", csts);
    if (csts & FL_NVME_CSTS_RDY)
        return 0;
    if (fl_now_ns() >= r->ready_deadline_ns)
        return fl_error_set(&r->err, -ETIMEDOUT,
                            "the controller did not become ready in the time that it names, %u ms",
                            fl_nvme_cap_timeout_ms(r->draft.cap));
    return -EAGAIN;
}

/* ---- identify ---- */

static void identify(struct fl_nvme_sqe *sqe, enum fl_nvme_cns cns, uint32_t nsid)
{
    sqe->opcode = FL_NVME_ADM_IDENTIFY;
    sqe->nsid = le32_of(nsid);
    sqe->cdw10 = le32_of(cns);
}

static void build_id_ctrl(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    identify(sqe, FL_NVME_CNS_CTRL, 0);
}

static int got_id_ctrl(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    return fl_identify_ctrl((const void *)r->seq_buf, r->link.cntlid, r->subnqn, r->discovery, r->kato_ms,
                            &r->draft, &r->err);
}

static bool no_namespace(const struct fl_remote *r)
{
    return r->subsystem;
}

/* Before 2.0 there is no such data structure, and some controllers answer with that of CNS 01h. */
static bool no_id_nvm(const struct fl_remote *r)
{
    return r->subsystem || r->draft.vs < FL_NVME_VS_2_0;
}

static void build_id_nvm(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    identify(sqe, FL_NVME_CNS_CSI_CTRL, 0);
    sqe->cdw11 = le32_of((uint32_t)FL_NVME_CSI_NVM << 24);
}

static int got_id_nvm(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    fl_identify_nvm((const void *)r->seq_buf, &r->draft);
    return 0;
}

static bool nsid_known(const struct fl_remote *r)
{
    return r->subsystem || r->want_nsid;
}

static void build_ns_list(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    identify(sqe, FL_NVME_CNS_NS_ACTIVE_LIST, 0);
}

/* Without ns= in the URL: the only namespace there is, and the same one ever after. */
static int got_ns_list(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    const struct fl_nvme_ns_list *list = (const void *)r->seq_buf;
    char text[160] = "";
    size_t at = 0;
    uint32_t nr = 0;

    while (nr < FL_NVME_NS_LIST_MAX && le32_get(list->nsid[nr])) {
        if (at < sizeof(text) - 16)
            at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%u", nr ? ", " : "",
                                   le32_get(list->nsid[nr]));
        nr++;
    }
    if (!nr)
        return fl_error_set(&r->err, -ENOENT, "the subsystem has no namespace that this host may see");
    if (nr > 1)
        return fl_error_set(&r->err, -EINVAL, "the subsystem has %u namespaces: choose one by ?ns=N (%s)", nr,
                            text);
    r->want_nsid = le32_get(list->nsid[0]);
    return 0;
}

static void build_id_ns(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    identify(sqe, FL_NVME_CNS_NS, r->want_nsid);
}

static int got_id_ns(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    return fl_identify_ns((const void *)r->seq_buf, r->want_nsid, &r->draft, &r->err);
}

static void build_ns_desc(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    identify(sqe, FL_NVME_CNS_NS_DESC_LIST, r->want_nsid);
}

static int got_ns_desc(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    const struct fl_nvme_ns_desc *desc;
    const uint8_t *nid;
    size_t pos = 0;

    while (fl_nvme_ns_desc_next(r->seq_buf, sizeof(r->seq_buf), &pos, &desc, &nid) > 0) {
        if (desc->nidt == FL_NVME_NIDT_UUID)
            memcpy(r->draft.uuid, nid, sizeof(r->draft.uuid));
        if (desc->nidt == FL_NVME_NIDT_CSI && nid[0] != FL_NVME_CSI_NVM)
            return fl_error_set(&r->err, -EOPNOTSUPP,
                                "namespace %u has command set %u, not that of block devices", r->want_nsid,
                                nid[0]);
    }
    return 0;
}

/* ---- features ---- */

static void build_queues(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    uint32_t n = r->want_queues - 1;

    sqe->opcode = FL_NVME_ADM_SET_FEATURES;
    sqe->cdw10 = le32_of(FL_NVME_FEAT_NUM_QUEUES);
    sqe->cdw11 = le32_of(n << 16 | n);
}

static int got_queues(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    uint32_t dw0 = le32_get(cqe->dw0);
    uint32_t offered = FL_MIN((dw0 & 0xffff) + 1, (dw0 >> 16) + 1);

    r->draft.nr_queues = FL_MIN(offered, (uint32_t)FL_REMOTE_MAX_QUEUES);
    return 0;
}

static uint32_t wanted_events(const struct fl_remote *r)
{
    return r->draft.oaes & (r->discovery ? FL_NVME_AEN_DISC_CHANGE : FL_NVME_AEN_NS_ATTR | FL_NVME_AEN_ANA);
}

static bool no_events(const struct fl_remote *r)
{
    return !wanted_events(r);
}

static void build_events(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    sqe->opcode = FL_NVME_ADM_SET_FEATURES;
    sqe->cdw10 = le32_of(FL_NVME_FEAT_ASYNC_EVENT);
    sqe->cdw11 = le32_of(wanted_events(r));
}

const struct fl_step fl_setup_steps[] = {
    {.what = "property CAP", .build = build_cap, .got = got_cap},
    {.what = "property VS", .build = build_vs, .got = got_vs},
    {.what = "enabling the controller", .build = build_enable, .got = got_enable},
    {.what = "property CSTS", .build = build_csts, .got = got_ready},
    {.what = "Identify Controller",
     .build = build_id_ctrl,
     .data_len = FL_NVME_IDENTIFY_LEN,
     .got = got_id_ctrl},
    {.what = "Identify Controller (NVM)",
     .skip = no_id_nvm,
     .build = build_id_nvm,
     .data_len = FL_NVME_IDENTIFY_LEN,
     .optional = true,
     .got = got_id_nvm},
    {.what = "Set Features (number of queues)",
     .skip = no_namespace,
     .build = build_queues,
     .got = got_queues},
    {.what = "Set Features (events)", .skip = no_events, .build = build_events, .optional = true},
    {.what = "Identify (active namespaces)",
     .skip = nsid_known,
     .build = build_ns_list,
     .data_len = FL_NVME_IDENTIFY_LEN,
     .got = got_ns_list},
    {.what = "Identify Namespace",
     .skip = no_namespace,
     .build = build_id_ns,
     .data_len = FL_NVME_IDENTIFY_LEN,
     .got = got_id_ns},
    {.what = "Identify (namespace descriptors)",
     .skip = no_namespace,
     .build = build_ns_desc,
     .data_len = FL_NVME_IDENTIFY_LEN,
     .optional = true,
     .got = got_ns_desc},
    {0},
};

/* ---- after an event ---- */

static void log_page(struct fl_nvme_sqe *sqe, uint8_t lid, uint32_t len)
{
    sqe->opcode = FL_NVME_ADM_GET_LOG_PAGE;
    sqe->nsid = le32_of(FL_NVME_NSID_ALL);
    fl_nvme_log_set(sqe, lid, 0, false, 0, len);
}

static void build_changed_ns(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    log_page(sqe, FL_NVME_LOG_CHANGED_NS, sizeof(struct fl_nvme_changed_ns_log));
}

/* Reading it is what makes the controller tell of the next change. */
static void build_event_log(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    log_page(sqe, fl_nvme_aer_log(r->event), 512);
}

const struct fl_step fl_refresh_steps[] = {
    {.what = "Get Log Page (changed namespaces)",
     .build = build_changed_ns,
     .data_len = sizeof(struct fl_nvme_changed_ns_log),
     .optional = true},
    {.what = "Identify Namespace",
     .skip = no_namespace,
     .build = build_id_ns,
     .data_len = FL_NVME_IDENTIFY_LEN,
     .optional = true,
     .got = got_id_ns},
    {0},
};

const struct fl_step fl_log_steps[] = {
    {.what = "Get Log Page", .build = build_event_log, .data_len = 512, .optional = true},
    {0},
};

/* ---- shutdown ---- */

static void build_shutdown(struct fl_remote *r, struct fl_nvme_sqe *sqe)
{
    property_set(sqe, FL_NVMF_PROP_CC, cc(r) | FL_NVME_CC_SHN_NORMAL << FL_NVME_CC_SHN_SHIFT);
}

static int got_shutdown(struct fl_remote *r, const struct fl_nvme_cqe *cqe)
{
    uint32_t csts = (uint32_t)fl_nvmf_property_value(cqe);

    return fl_nvme_csts_shst(csts) == FL_NVME_CSTS_SHST_COMPLETE || (csts & FL_NVME_CSTS_CFS) ? 0 : -EAGAIN;
}

const struct fl_step fl_shutdown_steps[] = {
    {.what = "shutting down", .build = build_shutdown},
    {.what = "property CSTS", .build = build_csts, .optional = true, .got = got_shutdown},
    {0},
};
