/* SPDX-License-Identifier: Apache-2.0 */
/* Identify (base specification 2.0, 5.17; NVM command set 1.0, 4.1.5): one builder a CNS. */
#include <stdio.h>

#include "target/core.h"
#include "wire/nvme_rdma.h"

#define FIRMWARE "0.1.0"

struct request {
    struct fl_tctrl *ctrl;
    const struct fl_nvme_sqe *sqe;
    uint32_t nsid;
    uint16_t cntid;
    uint8_t cns, csi;
    bool keyed_sgl; /* of the transport that asks */
    void *page;     /* 4096 zeros */
};

static void fill_discovery(const struct fl_tctrl *ctrl, struct fl_nvme_id_ctrl *id)
{
    id->cntrltype = FL_NVME_CNTRLTYPE_DISCOVERY;
    id->oaes = le32_of(FL_NVME_OAES_DISC_CHANGE);
    id->lpa = FL_NVME_LPA_EXTENDED;
    id->dctype = 1; /* direct discovery controller */
}

static void fill_io(const struct fl_tctrl *ctrl, bool keyed_sgl, struct fl_nvme_id_ctrl *id)
{
    uint32_t capsule_len = fl_tport_capsule_len(ctrl->port);

    id->cntrltype = FL_NVME_CNTRLTYPE_IO;
    id->cmic = FL_NVME_CMIC_MULTI_PORT | FL_NVME_CMIC_MULTI_CTRL | FL_NVME_CMIC_ANA;
    id->oaes = le32_of(FL_NVME_OAES_NS_ATTR | FL_NVME_OAES_ANA);
    id->lpa = FL_NVME_LPA_EFFECTS | FL_NVME_LPA_EXTENDED | FL_NVME_LPA_SUPPORTED_LOGS;
    id->sqes = 0x66;
    id->cqes = 0x44;
    id->nn = id->mnan = le32_of(FL_NSID_MAX);
    id->oncs = le16_of(FL_NVME_ONCS_COMPARE | FL_NVME_ONCS_DSM | FL_NVME_ONCS_WRITE_ZEROES |
                       FL_NVME_ONCS_RESERVATIONS | FL_NVME_ONCS_VERIFY | FL_NVME_ONCS_COPY);
    id->fuses = le16_of(FL_NVME_FUSES_COMPARE_WRITE);
    id->vwc = FL_NVME_VWC_PRESENT | FL_NVME_VWC_FLUSH_ALL_NS_YES;
    id->acwu = le16_of(FL_FUSED_BLOCKS - 1);
    id->ocfs = le16_of(FL_NVME_OCFS_FORMAT0);
    id->anatt = 10;
    id->anacap = FL_NVME_ANACAP_OPTIMIZED | FL_NVME_ANACAP_NON_OPTIMIZED | FL_NVME_ANACAP_INACCESSIBLE |
                 FL_NVME_ANACAP_PERSISTENT_LOSS | FL_NVME_ANACAP_CHANGE | FL_NVME_ANACAP_GRPID_STATIC;
    id->anagrpmax = id->nanagrpid = le32_of(FL_ANA_GROUPS);
    id->ioccsz = le32_of((uint32_t)(sizeof(struct fl_nvme_sqe) + capsule_len) / 16);
    id->iorcsz = le32_of(sizeof(struct fl_nvme_cqe) / 16);
    id->ofcs = le16_of(FL_NVME_OFCS_DISCONNECT);
    if (keyed_sgl) { /* that many descriptors may follow a command in its capsule */
        uint32_t room = capsule_len / (uint32_t)sizeof(struct fl_nvme_keyed_sgl);

        room = FL_MIN(room, (uint32_t)FL_NVME_RDMA_MAX_PIECES);
        id->msdbd = (uint8_t)FL_MAX(room, 1u);
    }
}

static fl_nvme_status id_ctrl(struct request *r)
{
    struct fl_tctrl *ctrl = r->ctrl;
    const struct fl_target_options *o = &ctrl->target->options;
    struct fl_nvme_id_ctrl *id = r->page;

    fl_nvme_text_set(id->sn, sizeof(id->sn), ctrl->ss->serial);
    fl_nvme_text_set(id->mn, sizeof(id->mn), ctrl->ss->model);
    fl_nvme_text_set(id->fr, sizeof(id->fr), FIRMWARE);
    id->rab = 6;
    id->mdts = (uint8_t)(__builtin_ctz(o->mdts_len) - 12);
    id->cntlid = le16_of(ctrl->cntlid);
    id->ver = le32_of(FL_NVME_VS_2_0);
    id->ctratt = le32_of(FL_NVME_CTRATT_HOSTID_128 | FL_NVME_CTRATT_TBKAS);
    id->acl = FL_ABORT_MAX - 1;
    id->aerl = FL_AER_MAX - 1;
    id->frmw = FL_NVME_FRMW_SLOT1_RO | 1 << FL_NVME_FRMW_NR_SLOTS_SHIFT;
    id->elpe = FL_ERROR_ENTRIES - 1;
    id->kas = le16_of((uint16_t)FL_MAX(o->min_kato_ms / 100, 1u));
    id->maxcmd = le16_of((uint16_t)o->max_depth);
    id->sgls = le32_of(FL_NVME_SGLS_SUPPORTED | FL_NVME_SGLS_OFFSET |
                       (r->keyed_sgl ? FL_NVME_SGLS_KEYED : FL_NVME_SGLS_TRANSPORT));
    snprintf(id->subnqn, sizeof(id->subnqn), "%s", ctrl->ss->nqn);
    id->msdbd = 1;
    if (ctrl->ss->discovery)
        fill_discovery(ctrl, id);
    else
        fill_io(ctrl, r->keyed_sgl, id);
    return FL_NVME_SC_SUCCESS;
}

static uint8_t rescap(const struct fl_tns *ns)
{
    return FL_NVME_RESCAP_WRITE_EXCL | FL_NVME_RESCAP_EXCL_ACCESS | FL_NVME_RESCAP_WRITE_EXCL_REG_ONLY |
           FL_NVME_RESCAP_EXCL_ACCESS_REG_ONLY | FL_NVME_RESCAP_WRITE_EXCL_ALL_REGS |
           FL_NVME_RESCAP_EXCL_ACCESS_ALL_REGS | FL_NVME_RESCAP_IEKEY_13 |
           (fl_resv_persists(ns) ? FL_NVME_RESCAP_PTPL : 0);
}

static fl_nvme_status id_ns(struct request *r)
{
    struct fl_tns *ns = fl_tns_find(r->ctrl->ss, r->nsid);
    struct fl_nvme_id_ns *id = r->page;
    uint32_t shift;

    if (r->nsid == FL_NVME_NSID_ALL) { /* what all namespaces have in common: their formats */
        id->nlbaf = 0;
        return FL_NVME_SC_SUCCESS;
    }
    if (!r->nsid || r->nsid > FL_NSID_MAX)
        return FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
    if (!ns) /* an inactive NSID: zeros (5.17.2.1) */
        return FL_NVME_SC_SUCCESS;
    shift = (uint32_t)__builtin_ctz(ns->be->block_len);
    id->nsze = id->ncap = id->nuse = le64_of(ns->len >> shift);
    id->nmic = FL_NVME_NMIC_SHARED;
    id->rescap = rescap(ns);
    /* Trimmed blocks read as zeros; Write Zeroes may deallocate. */
    id->dlfeat = ns->be->trims ? FL_NVME_DLFEAT_READ_ZEROES | FL_NVME_DLFEAT_WRITE_ZEROES : 0;
    id->nvmcap.lo = le64_of(ns->len);
    id->mssrl = le16_of(FL_COPY_RANGE_BLOCKS);
    id->mcl = le32_of(FL_COPY_BLOCKS);
    id->msrc = FL_COPY_RANGES - 1;
    id->anagrpid = le32_of(ns->ana_group);
    id->nsattr = ns->be->read_only ? FL_NVME_NSATTR_WRITE_PROTECTED : 0;
    memcpy(id->nguid, ns->uuid, sizeof(id->nguid)); /* some hosts know no other name */
    id->lbaf[0].lbads = (uint8_t)shift;
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status id_ns_allocated(struct request *r)
{
    return id_ns(r); /* a namespace that is allocated is attached to each controller */
}

static fl_nvme_status ns_list(struct request *r)
{
    struct fl_nvme_ns_list *list = r->page;
    uint32_t nr = 0;

    if (r->nsid >= FL_NVME_NSID_ALL - 1)
        return FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
    for (uint32_t nsid = r->nsid + 1; nsid <= FL_NSID_MAX && nr < FL_NVME_NS_LIST_MAX; nsid++)
        if (fl_tns_find(r->ctrl->ss, nsid))
            list->nsid[nr++] = le32_of(nsid);
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status csi_ns_list(struct request *r)
{
    return r->csi == FL_NVME_CSI_NVM ? ns_list(r) : FL_NVME_SC_INVALID_CMD_SET | FL_NVME_DNR;
}

static fl_nvme_status ns_desc_list(struct request *r)
{
    struct fl_tns *ns = fl_tns_find(r->ctrl->ss, r->nsid);
    uint8_t csi = FL_NVME_CSI_NVM;
    size_t pos = 0;

    if (!ns)
        return FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
    fl_nvme_ns_desc_add(r->page, FL_NVME_IDENTIFY_LEN, &pos, FL_NVME_NIDT_UUID, ns->uuid);
    fl_nvme_ns_desc_add(r->page, FL_NVME_IDENTIFY_LEN, &pos, FL_NVME_NIDT_NGUID, ns->uuid);
    fl_nvme_ns_desc_add(r->page, FL_NVME_IDENTIFY_LEN, &pos, FL_NVME_NIDT_CSI, &csi);
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status csi_ns(struct request *r)
{
    if (r->csi != FL_NVME_CSI_NVM)
        return FL_NVME_SC_INVALID_CMD_SET | FL_NVME_DNR;
    if (r->nsid == FL_NVME_NSID_ALL || fl_tns_find(r->ctrl->ss, r->nsid))
        return FL_NVME_SC_SUCCESS; /* no protection information: all zero */
    return !r->nsid || r->nsid > FL_NSID_MAX ? FL_NVME_SC_INVALID_NS | FL_NVME_DNR : FL_NVME_SC_SUCCESS;
}

static fl_nvme_status csi_ctrl(struct request *r)
{
    struct fl_nvme_id_ctrl_nvm *id = r->page;

    if (r->csi != FL_NVME_CSI_NVM)
        return FL_NVME_SC_INVALID_CMD_SET | FL_NVME_DNR;
    id->dmrl = 255; /* ranges: the field holds no 256 */
    id->dmrsl = le32_of(UINT32_MAX);
    id->dmsl = le64_of(UINT64_MAX);
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status ns_independent(struct request *r)
{
    struct fl_tns *ns = fl_tns_find(r->ctrl->ss, r->nsid);
    struct fl_nvme_id_ns_indep *id = r->page;

    if (!r->nsid || r->nsid > FL_NSID_MAX)
        return FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
    if (!ns)
        return FL_NVME_SC_SUCCESS;
    id->nmic = FL_NVME_NMIC_SHARED;
    id->rescap = rescap(ns);
    id->anagrpid = le32_of(ns->ana_group);
    id->nsattr = ns->be->read_only ? FL_NVME_NSATTR_WRITE_PROTECTED : 0;
    id->nstat = FL_NVME_NSTAT_READY;
    return FL_NVME_SC_SUCCESS;
}

/* Ascending from CNTID on; controllers stand in no order in the target's list. */
static fl_nvme_status ctrl_list(struct request *r)
{
    struct fl_nvme_ctrl_list *list = r->page;
    struct fl_tctrl *ctrl;
    uint32_t from = r->cntid, nr = 0;

    if (r->cns == FL_NVME_CNS_NS_CTRL_LIST && !fl_tns_find(r->ctrl->ss, r->nsid))
        return FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
    while (nr < FL_NVME_CTRL_LIST_MAX) {
        uint32_t best = UINT32_MAX;

        fl_list_for_each (ctrl, &r->ctrl->target->controllers, link)
            if (ctrl->ss == r->ctrl->ss && !ctrl->dying && ctrl->cntlid >= from && ctrl->cntlid < best)
                best = ctrl->cntlid;
        if (best == UINT32_MAX)
            break;
        list->cntlid[nr++] = le16_of((uint16_t)best);
        from = best + 1;
    }
    list->num = le16_of((uint16_t)nr);
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status cmd_sets(struct request *r)
{
    struct fl_nvme_id_cmd_sets *sets = r->page;

    if (r->cntid != 0xffff && r->cntid != r->ctrl->cntlid)
        return FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    sets->combination[0] = le64_of(1u << FL_NVME_CSI_NVM);
    return FL_NVME_SC_SUCCESS;
}

static fl_nvme_status granularity(struct request *r)
{
    return FL_NVME_SC_SUCCESS; /* no descriptors: any size will do */
}

static fl_nvme_status (*const builders[256])(struct request *r) = {
    [FL_NVME_CNS_NS] = id_ns,
    [FL_NVME_CNS_CTRL] = id_ctrl,
    [FL_NVME_CNS_NS_ACTIVE_LIST] = ns_list,
    [FL_NVME_CNS_NS_DESC_LIST] = ns_desc_list,
    [FL_NVME_CNS_CSI_NS] = csi_ns,
    [FL_NVME_CNS_CSI_CTRL] = csi_ctrl,
    [FL_NVME_CNS_CSI_NS_ACTIVE_LIST] = csi_ns_list,
    [FL_NVME_CNS_NS_INDEPENDENT] = ns_independent,
    [FL_NVME_CNS_NS_ALLOCATED_LIST] = ns_list,
    [FL_NVME_CNS_NS_ALLOCATED] = id_ns_allocated,
    [FL_NVME_CNS_NS_CTRL_LIST] = ctrl_list,
    [FL_NVME_CNS_CTRL_LIST] = ctrl_list,
    [FL_NVME_CNS_NS_GRANULARITY] = granularity,
    [FL_NVME_CNS_CSI_NS_ALLOCATED_LIST] = csi_ns_list,
    [FL_NVME_CNS_CSI_NS_ALLOCATED] = csi_ns,
    [FL_NVME_CNS_CMD_SETS] = cmd_sets,
};

static void build(struct fl_cmd *cmd)
{
    struct fl_tqueue *q = cmd->conn->user;
    uint32_t cdw10 = le32_get(cmd->sqe.cdw10);
    struct request r = {
        .ctrl = q->ctrl,
        .sqe = &cmd->sqe,
        .nsid = le32_get(cmd->sqe.nsid),
        .cns = (uint8_t)cdw10,
        .cntid = (uint16_t)(cdw10 >> 16),
        .csi = (uint8_t)(le32_get(cmd->sqe.cdw11) >> 24),
        .keyed_sgl = cmd->conn->keyed_sgl,
        .page = cmd->data,
    };
    fl_nvme_status status;

    memset(cmd->data, 0, FL_NVME_IDENTIFY_LEN);
    status = builders[r.cns](&r);
    cmd->to_host = !status;
    cmd->data_len = FL_NVME_IDENTIFY_LEN;
    fl_tqueue_finish(cmd, status);
}

void fl_admin_identify(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    uint8_t cns = (uint8_t)le32_get(cmd->sqe.cdw10);

    if (!builders[cns] || (q->ctrl->ss->discovery && cns != FL_NVME_CNS_CTRL))
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
    else if (cmd->sgl_len != FL_NVME_IDENTIFY_LEN)
        fl_tqueue_finish(cmd, FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR);
    else
        fl_tqueue_with_buffer(cmd, FL_NVME_IDENTIFY_LEN, build);
}
