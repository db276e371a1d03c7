/* SPDX-License-Identifier: Apache-2.0 */
/* What commands say and carry: every payload of the captures goes through the decoders and is held against
 * the command. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/unit.h"
#include "walk.h"
#include "wire/discovery.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_log.h"
#include "wire/nvme_resv.h"
#include "wire/nvmf.h"

static bool succeeded(const struct cmd *cmd)
{
    return !fl_nvme_cqe_status(&cmd->cqe);
}

/* Data from the host, by capsule or H2CData */
static const void *out_data(struct walk *w, const struct cmd *cmd, uint32_t *len)
{
    WALK_CHECK(w, !(cmd->capsule_len && cmd->data_len));
    *len = cmd->capsule_len ? cmd->capsule_len : cmd->data_len;
    return cmd->capsule_len ? cmd->capsule : cmd->data;
}

static void check_connect(struct walk *w, const struct cmd *cmd)
{
    struct fl_nvmf_connect_cmd c;
    uint32_t len, offset;
    const struct fl_nvmf_connect_data *data = out_data(w, cmd, &len);
    memcpy(&c, &cmd->sqe, sizeof(c));
    WALK_CHECK(w, cmd == &w->cmds[0]);
    WALK_CHECK(w, len == sizeof(*data) && !le16_get(c.recfmt));
    WALK_CHECK(w, fl_nvmf_connect_data_check(data, &offset) == 0);
    w->qid = le16_get(c.qid);
    w->sqsize = le16_get(c.sqsize);
    w->no_sq_flow = c.cattr & FL_NVMF_CATTR_NO_SQ_FLOW;
    WALK_CHECK(w, w->sqsize >= 31 && w->qid <= 1);
    WALK_CHECK(w, w->qid ? !le32_get(c.kato) && le16_get(data->cntlid) != FL_NVMF_CNTLID_DYNAMIC
                         : le16_get(data->cntlid) == FL_NVMF_CNTLID_DYNAMIC);
    memcpy(w->subnqn, data->subnqn, sizeof(w->subnqn));
    w->tally->nr_connect++;
    if (succeeded(cmd)) {
        w->connected = true;
        w->cntlid = fl_nvmf_connect_cntlid(&cmd->cqe);
        WALK_CHECK(w, w->cntlid && w->cntlid <= FL_NVMF_CNTLID_MAX);
    } else if (fl_nvme_status_code(fl_nvme_cqe_status(&cmd->cqe)) == FL_NVME_SC_CONNECT_INVALID_PARAM) {
        WALK_CHECK(w, le32_get(cmd->cqe.dw0) ==
                          fl_nvmf_connect_invalid(true, offsetof(struct fl_nvmf_connect_data, subnqn)));
    }
}

static void check_property(struct walk *w, const struct cmd *cmd)
{
    struct fl_nvmf_property_set_cmd c;
    memcpy(&c, &cmd->sqe, sizeof(c));
    uint64_t value = fl_nvmf_property_value(&cmd->cqe);
    if (!succeeded(cmd))
        return;
    switch (le32_get(c.ofst)) {
    case FL_NVMF_PROP_CAP:
        WALK_CHECK(w, c.fctype == FL_NVMF_PROPERTY_GET && c.attrib == FL_NVMF_PROPERTY_8);
        WALK_CHECK(w, value & FL_NVME_CAP_CSS_NVM && fl_nvme_cap_nr_entries(value) >= 2);
        WALK_CHECK(w, fl_nvme_cap_page_shift(value) == 12 && fl_nvme_cap_timeout_ms(value) >= 500);
        break;
    case FL_NVMF_PROP_VS:
        WALK_CHECK(w, c.fctype == FL_NVMF_PROPERTY_GET && !c.attrib);
        WALK_CHECK(w, value >= FL_NVME_VS_1_3 && value <= FL_NVME_VS_OF(2, 9, 0));
        break;
    case FL_NVMF_PROP_CC:
        if (c.fctype == FL_NVMF_PROPERTY_SET)
            value = le64_get(c.value);
        if (value & FL_NVME_CC_EN) {
            WALK_CHECK(w, fl_nvme_cc_iosqes((uint32_t)value) == 6 && fl_nvme_cc_iocqes((uint32_t)value) == 4);
            WALK_CHECK(w, !fl_nvme_cc_mps((uint32_t)value) && !fl_nvme_cc_ams((uint32_t)value));
            WALK_CHECK(w, fl_nvme_cc_css((uint32_t)value) == FL_NVME_CC_CSS_NVM ||
                              fl_nvme_cc_css((uint32_t)value) == FL_NVME_CC_CSS_IOCS);
        }
        break;
    case FL_NVMF_PROP_CSTS:
        WALK_CHECK(w, c.fctype == FL_NVMF_PROPERTY_GET && !(value & FL_NVME_CSTS_CFS));
        break;
    default:
        walk_fail(w, "a property that exists", __LINE__);
    }
}

/* DH-HMAC-CHAP messages: type, id, transaction; the rest is for in-band authentication to read. */
static void check_auth(struct walk *w, const struct cmd *cmd)
{
    struct fl_nvmf_auth_cmd c;
    uint32_t len = cmd->data_len;
    const uint8_t *data = cmd->data;
    memcpy(&c, &cmd->sqe, sizeof(c));
    if (c.fctype == FL_NVMF_AUTH_SEND)
        data = out_data(w, cmd, &len);
    WALK_CHECK(w,
               c.secp == FL_NVMF_AUTH_SECP && c.spsp0 == FL_NVMF_AUTH_SPSP && c.spsp1 == FL_NVMF_AUTH_SPSP);
    WALK_CHECK(w, le32_get(c.len) == le32_get(c.sgl.len) && len == le32_get(c.len));
    WALK_CHECK(w, succeeded(cmd) && len >= 8 && data[0] <= 1);
    w->tally->nr_auth++;
}

static void check_fabrics(struct walk *w, const struct cmd *cmd)
{
    uint8_t fctype = fl_nvmf_fctype(&cmd->sqe);
    w->what = fl_nvmf_fctype_text(fctype);
    switch (fctype) {
    case FL_NVMF_CONNECT:
        check_connect(w, cmd);
        break;
    case FL_NVMF_PROPERTY_GET:
    case FL_NVMF_PROPERTY_SET:
        WALK_CHECK(w, !w->qid);
        check_property(w, cmd);
        break;
    case FL_NVMF_AUTH_SEND:
    case FL_NVMF_AUTH_RECV:
        check_auth(w, cmd);
        break;
    default:
        walk_fail(w, "a Fabrics command of the captures", __LINE__);
    }
}

static void check_text(struct walk *w, const char *field, size_t len)
{
    char text[64];
    fl_nvme_text_get(text, field, len);
    WALK_CHECK(w, strlen(text) && !strchr(text, '?'));
}

static void check_id_ctrl(struct walk *w, const struct cmd *cmd)
{
    const struct fl_nvme_id_ctrl *id = (const void *)cmd->data;
    check_text(w, id->sn, sizeof(id->sn));
    check_text(w, id->mn, sizeof(id->mn));
    check_text(w, id->fr, sizeof(id->fr));
    WALK_CHECK(w, le16_get(id->cntlid) == w->cntlid);
    WALK_CHECK(w, !strcmp(id->subnqn, w->subnqn));
    WALK_CHECK(w, le32_get(id->ver) >= FL_NVME_VS_1_3);
    WALK_CHECK(w, le32_get(id->sgls) & FL_NVME_SGLS_SUPPORTED && le32_get(id->sgls) & FL_NVME_SGLS_OFFSET);
    WALK_CHECK(w, id->cntrltype <= FL_NVME_CNTRLTYPE_DISCOVERY);
    WALK_CHECK(w,
               (id->cntrltype == FL_NVME_CNTRLTYPE_DISCOVERY) == !strcmp(w->subnqn, FL_NVME_DISCOVERY_NQN));
    WALK_CHECK(w, !(id->cmic & FL_NVME_CMIC_ANA) || (le32_get(id->nanagrpid) && le32_get(id->anagrpmax)));
}

static void check_id_ns(struct walk *w, const struct cmd *cmd)
{
    const struct fl_nvme_id_ns *id = (const void *)cmd->data;
    if (!le64_get(id->nsze)) /* a namespace that is not there */
        return;
    uint8_t lbads = id->lbaf[fl_nvme_flbas_index(id->flbas)].lbads;
    WALK_CHECK(w, le64_get(id->ncap) <= le64_get(id->nsze) && le64_get(id->nuse) <= le64_get(id->ncap));
    WALK_CHECK(w, fl_nvme_flbas_index(id->flbas) <= id->nlbaf);
    WALK_CHECK(w, lbads == 9 || lbads == 12);
    WALK_CHECK(w, le64_get(id->nsze) << lbads <= 1ull << 40);
    WALK_CHECK(w, !id->dps && !(id->flbas & 0x10));
}

static void check_ns_descs(struct walk *w, const struct cmd *cmd)
{
    const struct fl_nvme_ns_desc *desc;
    const uint8_t *nid;
    unsigned types = 0;
    size_t pos = 0;
    int r;
    while ((r = fl_nvme_ns_desc_next(cmd->data, cmd->data_len, &pos, &desc, &nid)) > 0) {
        WALK_CHECK(w, desc->nidt >= FL_NVME_NIDT_EUI64 && desc->nidt <= FL_NVME_NIDT_CSI);
        WALK_CHECK(w, !(types & 1u << desc->nidt)); /* one of each */
        WALK_CHECK(w, desc->nidt != FL_NVME_NIDT_CSI || *nid == FL_NVME_CSI_NVM);
        types |= 1u << desc->nidt;
    }
    WALK_CHECK(w, r == 0 && types);
}

static void check_ns_list(struct walk *w, const struct cmd *cmd)
{
    const struct fl_nvme_ns_list *list = (const void *)cmd->data;
    uint32_t last = le32_get(cmd->sqe.nsid);
    size_t i = 0;
    for (; i < FL_NVME_NS_LIST_MAX && le32_get(list->nsid[i]); i++) {
        WALK_CHECK(w, le32_get(list->nsid[i]) > last);
        last = le32_get(list->nsid[i]);
    }
    for (; i < FL_NVME_NS_LIST_MAX; i++)
        WALK_CHECK(w, !le32_get(list->nsid[i]));
}

static void check_identify(struct walk *w, const struct cmd *cmd)
{
    uint8_t cns = (uint8_t)le32_get(cmd->sqe.cdw10);
    WALK_CHECK(w, le32_get(cmd->sqe.sgl.len) == FL_NVME_IDENTIFY_LEN);
    if (!succeeded(cmd)) {
        WALK_CHECK(w, !cmd->data_len);
        return;
    }
    WALK_CHECK(w, cmd->data_len == FL_NVME_IDENTIFY_LEN);
    switch (cns) {
    case FL_NVME_CNS_NS:
        check_id_ns(w, cmd);
        break;
    case FL_NVME_CNS_CTRL:
        check_id_ctrl(w, cmd);
        break;
    case FL_NVME_CNS_NS_ACTIVE_LIST:
        check_ns_list(w, cmd);
        break;
    case FL_NVME_CNS_NS_DESC_LIST:
        check_ns_descs(w, cmd);
        break;
    case FL_NVME_CNS_CSI_CTRL: {
        const struct fl_nvme_id_ctrl_nvm *id = (const void *)cmd->data;
        WALK_CHECK(w, id->vsl < 32 && id->wzsl < 32 && id->wusl < 32);
        break;
    }
    case FL_NVME_CNS_CSI_NS:
        break;
    case FL_NVME_CNS_NS_INDEPENDENT: {
        const struct fl_nvme_id_ns_indep *id = (const void *)cmd->data;
        WALK_CHECK(w, id->nstat & FL_NVME_NSTAT_READY);
        break;
    }
    case FL_NVME_CNS_CMD_SETS: {
        const struct fl_nvme_id_cmd_sets *sets = (const void *)cmd->data;
        WALK_CHECK(w, le64_get(sets->combination[0]) & 1u << FL_NVME_CSI_NVM);
        break;
    }
    default:
        walk_fail(w, "an Identify of the captures", __LINE__);
    }
}

static void check_ana(struct walk *w, const struct cmd *cmd)
{
    struct fl_nvme_ana_walk walk;
    const struct fl_nvme_ana_group *group;
    const le32 *nsids;
    uint32_t last = 0;
    int r;
    WALK_CHECK(w, fl_nvme_ana_start(&walk, cmd->data, cmd->data_len) == 0);
    while ((r = fl_nvme_ana_next(&walk, &group, &nsids)) > 0) {
        uint8_t state = group->state & 0xf;
        WALK_CHECK(w, le32_get(group->grpid) > last);
        WALK_CHECK(w, state && (state <= FL_NVME_ANA_PERSISTENT_LOSS || state == FL_NVME_ANA_CHANGE));
        for (uint32_t i = 0; i < le32_get(group->nnsids); i++)
            WALK_CHECK(w, le32_get(nsids[i]) && (!i || le32_get(nsids[i]) > le32_get(nsids[i - 1])));
        last = le32_get(group->grpid);
    }
    if (cmd->data_len == sizeof(struct fl_nvme_ana_header)) /* nvme-cli reads the header first */
        WALK_CHECK(w, r == -EPROTO && walk.nr_left);
    else
        WALK_CHECK(w, r == 0 && last);
}

static void check_disc_log(struct walk *w, const struct cmd *cmd)
{
    uint64_t genctr, numrec, offset = fl_nvme_log_offset(&cmd->sqe);
    size_t at = sizeof(struct fl_disc_header);
    if (!offset) {
        WALK_CHECK(w, cmd->data_len >= 16);
        if (cmd->data_len < at) /* the head alone */
            return;
        WALK_CHECK(w, fl_disc_header_decode(cmd->data, cmd->data_len, &genctr, &numrec, NULL) == 0);
        WALK_CHECK(w, numrec && numrec < 16);
        WALK_CHECK(w, fl_disc_nr_here(cmd->data_len, numrec) ==
                          (cmd->data_len - at) / sizeof(struct fl_disc_entry));
    } else {
        WALK_CHECK(w, offset % sizeof(struct fl_disc_entry) == 0);
        at = 0;
    }
    for (; at + sizeof(struct fl_disc_entry) <= cmd->data_len; at += sizeof(struct fl_disc_entry)) {
        struct fl_disc_record record;
        WALK_CHECK(w, fl_disc_entry_decode((const void *)(cmd->data + at), &record, NULL) == 0);
        WALK_CHECK(w, record.trtype == FL_DISC_TRTYPE_TCP && record.adrfam == FL_DISC_ADRFAM_IPV4);
        WALK_CHECK(w, !strcmp(record.traddr, "10.77.0.11"));
        WALK_CHECK(w, !strcmp(record.trsvcid, "4420") || !strcmp(record.trsvcid, "4421"));
        WALK_CHECK(w, record.asqsz >= FL_DISC_ASQSZ_MIN && record.cntlid == FL_DISC_CNTLID_DYNAMIC);
        if (record.subtype == FL_DISC_SUBTYPE_CURRENT)
            WALK_CHECK(w, !strcmp(record.subnqn, FL_NVME_DISCOVERY_NQN));
        else
            WALK_CHECK(w, record.subtype == FL_DISC_SUBTYPE_NVM &&
                              !strncmp(record.subnqn, "nqn.2026-01.org.example:sub", 27));
        w->tally->nr_disc_entries++;
    }
}

static void check_error_log(struct walk *w, const struct cmd *cmd)
{
    const struct fl_nvme_error_entry *entry = (const void *)cmd->data;
    for (uint32_t i = 0; i < cmd->data_len / sizeof(*entry) && le64_get(entry[i].count); i++) {
        WALK_CHECK(w, !i || le64_get(entry[i].count) < le64_get(entry[i - 1].count)); /* newest first */
        WALK_CHECK(w, le16_get(entry[i].status) >> 1);
    }
}

static void check_smart(struct walk *w, const struct cmd *cmd)
{
    const struct fl_nvme_smart_log *log = (const void *)cmd->data;
    WALK_CHECK(w, cmd->data_len == sizeof(*log));
    WALK_CHECK(w, le16_get(log->temperature) < 400 && log->avail_spare <= 100 && log->spare_thresh <= 100);
    WALK_CHECK(w, !le64_get(log->host_reads.hi) && !le64_get(log->data_units_read.hi));
}

static void check_effects(struct walk *w, const struct cmd *cmd)
{
    const struct fl_nvme_effects_log *log = (const void *)cmd->data;
    WALK_CHECK(w, cmd->data_len == sizeof(*log));
    WALK_CHECK(w, le32_get(log->acs[FL_NVME_ADM_IDENTIFY]) & FL_NVME_EFFECT_CSUPP);
    for (unsigned i = 0; i < 256; i++) /* what is supported is known here by name */
        WALK_CHECK(
            w, (!le32_get(log->acs[i]) || !strstr(fl_nvme_opcode_text(true, (uint8_t)i), "unknown")) &&
                   (!le32_get(log->iocs[i]) || !strstr(fl_nvme_opcode_text(false, (uint8_t)i), "unknown")));
}

static void check_changed_ns(struct walk *w, const struct cmd *cmd)
{
    const struct fl_nvme_changed_ns_log *log = (const void *)cmd->data;
    WALK_CHECK(w, cmd->data_len == sizeof(*log));
    for (unsigned i = 1; i < FL_NVME_CHANGED_NS_MAX; i++)
        WALK_CHECK(w, !le32_get(log->nsid[i]) || le32_get(log->nsid[i]) > le32_get(log->nsid[i - 1]));
}

static void check_log(struct walk *w, const struct cmd *cmd)
{
    WALK_CHECK(w, fl_nvme_log_len(&cmd->sqe) == le32_get(cmd->sqe.sgl.len));
    if (!succeeded(cmd)) {
        WALK_CHECK(w, !cmd->data_len);
        return;
    }
    WALK_CHECK(w, cmd->data_len == fl_nvme_log_len(&cmd->sqe));
    switch (fl_nvme_log_lid(&cmd->sqe)) {
    case FL_NVME_LOG_ERROR:
        check_error_log(w, cmd);
        break;
    case FL_NVME_LOG_SMART:
        check_smart(w, cmd);
        break;
    case FL_NVME_LOG_FW_SLOT: {
        const struct fl_nvme_fw_slot_log *log = (const void *)cmd->data;
        WALK_CHECK(w, cmd->data_len == sizeof(*log));
        if (log->afi & 7) /* nvmet's is all zeros */
            check_text(w, log->frs[(log->afi & 7) - 1], sizeof(log->frs[0]));
        break;
    }
    case FL_NVME_LOG_CHANGED_NS:
        check_changed_ns(w, cmd);
        break;
    case FL_NVME_LOG_CMD_EFFECTS:
        check_effects(w, cmd);
        break;
    case FL_NVME_LOG_ANA:
        check_ana(w, cmd);
        break;
    case FL_NVME_LOG_DISCOVERY:
        check_disc_log(w, cmd);
        break;
    case FL_NVME_LOG_RESERVATION: {
        const struct fl_nvme_resv_log *log = (const void *)cmd->data;
        WALK_CHECK(w, cmd->data_len == sizeof(*log) && log->type <= FL_NVME_RESV_NOTICE_PREEMPTED);
        WALK_CHECK(w, !log->type == !le64_get(log->count) && !log->type == !le32_get(log->nsid));
        break;
    }
    case FL_NVME_LOG_SUPPORTED: {
        const struct fl_nvme_supported_logs *log = (const void *)cmd->data;
        WALK_CHECK(w, le32_get(log->lid[FL_NVME_LOG_SUPPORTED]) & FL_NVME_LID_SUPPORTED);
        break;
    }
    default:
        walk_fail(w, "a log page of the captures", __LINE__);
    }
}

static void check_admin(struct walk *w, const struct cmd *cmd)
{
    switch (cmd->sqe.opcode) {
    case FL_NVME_ADM_IDENTIFY:
        check_identify(w, cmd);
        break;
    case FL_NVME_ADM_GET_LOG_PAGE:
        check_log(w, cmd);
        break;
    case FL_NVME_ADM_ASYNC_EVENT:
        if (succeeded(cmd)) {
            uint32_t dw0 = le32_get(cmd->cqe.dw0);
            WALK_CHECK(w, fl_nvme_aer_type(dw0) == FL_NVME_AER_NOTICE ||
                              fl_nvme_aer_type(dw0) == FL_NVME_AER_IO);
            WALK_CHECK(
                w, fl_nvme_aer_of(fl_nvme_aer_type(dw0), fl_nvme_aer_info(dw0), fl_nvme_aer_log(dw0)) == dw0);
            WALK_CHECK(w, fl_nvme_aer_log(dw0));
        }
        break;
    case FL_NVME_ADM_SET_FEATURES:
    case FL_NVME_ADM_GET_FEATURES:
    case FL_NVME_ADM_KEEP_ALIVE:
        break;
    default: /* the captures hold one command that nobody knows */
        WALK_CHECK(w, fl_nvme_status_code(fl_nvme_cqe_status(&cmd->cqe)) == FL_NVME_SC_INVALID_OPCODE);
    }
}

/* Was this block the destination of a Copy on this queue? Then it tells the address that it came from. */
static bool was_copied(const struct walk *w, uint64_t lba)
{
    for (size_t i = 0; i < w->nr_cmds; i++)
        if (w->cmds[i].sqe.opcode == FL_NVME_CMD_COPY && lba >= fl_nvme_rw_slba(&w->cmds[i].sqe) &&
            lba < fl_nvme_rw_slba(&w->cmds[i].sqe) + 65536)
            return true;
    return false;
}

/* "pattern for lba 0000000042 part ...": the block tells its own address. */
static void check_pattern(struct walk *w, const struct cmd *cmd, const uint8_t *data, uint32_t len)
{
    uint64_t slba = fl_nvme_rw_slba(&cmd->sqe);
    for (uint32_t i = 0; i < len / 512; i++) {
        char want[40];
        int n = snprintf(want, sizeof(want), "pattern for lba %010llu part 1 of 8",
                         (unsigned long long)(slba + i));
        if (memcmp(data + i * 512, want, 16)) /* something else is written there */
            continue;
        WALK_CHECK(w, !memcmp(data + i * 512, want, (size_t)n - 10) || was_copied(w, slba + i));
        w->tally->nr_pattern_blocks++;
    }
}

static void check_rw(struct walk *w, const struct cmd *cmd)
{
    bool from_host = fl_nvmf_xfer(&cmd->sqe) == FL_NVME_XFER_TO_CTRL;
    uint32_t nr = fl_nvme_rw_nr_blocks(&cmd->sqe), len = cmd->data_len;
    const uint8_t *data = from_host ? out_data(w, cmd, &len) : cmd->data;
    WALK_CHECK(w, le32_get(cmd->sqe.sgl.len) == nr * 512 || le32_get(cmd->sqe.sgl.len) == nr * 4096);
    if (succeeded(cmd)) {
        WALK_CHECK(w, len == le32_get(cmd->sqe.sgl.len));
        if (len == nr * 512)
            check_pattern(w, cmd, data, len);
    }
}

static void check_resv_report(struct walk *w, const struct cmd *cmd)
{
    const struct fl_nvme_resv_status_ext *st = (const void *)cmd->data;
    WALK_CHECK(w, le32_get(cmd->sqe.cdw11) & FL_NVME_RESV_REPORT_EDS);
    WALK_CHECK(w, cmd->data_len == (le32_get(cmd->sqe.cdw10) + 1) * 4 && cmd->data_len >= sizeof(*st));
    const struct fl_nvme_resv_ctrl_ext *ctrl = (const void *)(cmd->data + sizeof(*st));
    unsigned holders = 0;
    WALK_CHECK(w, st->rtype <= FL_NVME_RESV_EXCL_ACCESS_ALL_REGS);
    unsigned nr_here = (unsigned)((cmd->data_len - sizeof(*st)) / sizeof(*ctrl));
    for (unsigned i = 0; i < le16_get(st->regctl) && i < nr_here; i++) {
        WALK_CHECK(w, !(ctrl[i].rcsts & ~FL_NVME_RESV_RCSTS_HOLDER) && le64_get(ctrl[i].rkey));
        holders += ctrl[i].rcsts & FL_NVME_RESV_RCSTS_HOLDER;
    }
    if (nr_here >= le16_get(st->regctl)) /* else nvme-cli reads on */
        WALK_CHECK(w, !st->rtype == !holders);
}

static void check_resv(struct walk *w, const struct cmd *cmd)
{
    uint32_t len, cdw10 = le32_get(cmd->sqe.cdw10),
                  rtype = cdw10 >> FL_NVME_RESV_RTYPE_SHIFT & FL_NVME_RESV_RTYPE_MASK;
    out_data(w, cmd, &len);
    switch (cmd->sqe.opcode) {
    case FL_NVME_CMD_RESV_REGISTER:
        WALK_CHECK(w, len == sizeof(struct fl_nvme_resv_register_data));
        WALK_CHECK(w, (cdw10 & FL_NVME_RESV_ACTION_MASK) <= FL_NVME_RESV_REPLACE);
        break;
    case FL_NVME_CMD_RESV_ACQUIRE:
        WALK_CHECK(w, len == sizeof(struct fl_nvme_resv_acquire_data));
        WALK_CHECK(w, (cdw10 & FL_NVME_RESV_ACTION_MASK) <= FL_NVME_RESV_PREEMPT_ABORT);
        WALK_CHECK(w, rtype >= FL_NVME_RESV_WRITE_EXCL && rtype <= FL_NVME_RESV_EXCL_ACCESS_ALL_REGS);
        break;
    case FL_NVME_CMD_RESV_RELEASE:
        WALK_CHECK(w, len == sizeof(struct fl_nvme_resv_release_data));
        WALK_CHECK(w, (cdw10 & FL_NVME_RESV_ACTION_MASK) <= FL_NVME_RESV_CLEAR);
        break;
    default:
        check_resv_report(w, cmd);
    }
    w->tally->nr_resv++;
}

static void check_ranges(struct walk *w, const struct cmd *cmd)
{
    uint32_t len;
    const uint8_t *data = out_data(w, cmd, &len);
    bool copy = cmd->sqe.opcode == FL_NVME_CMD_COPY;
    uint32_t nr = ((copy ? le32_get(cmd->sqe.cdw12) : le32_get(cmd->sqe.cdw10)) & 0xff) + 1;
    size_t each = copy ? sizeof(struct fl_nvme_copy_range) : sizeof(struct fl_nvme_dsm_range);
    WALK_CHECK(w, len >= nr * each);
    for (uint32_t i = 0; i < nr; i++) {
        const struct fl_nvme_copy_range *c = (const void *)(data + i * each);
        const struct fl_nvme_dsm_range *d = (const void *)(data + i * each);
        uint64_t slba = le64_get(copy ? c->slba : d->slba),
                 nlb = copy ? le16_get(c->nlb) + 1u : le32_get(d->nlb);
        WALK_CHECK(w, nlb && slba + nlb < 1u << 30);
    }
    WALK_CHECK(w,
               !copy || !(le32_get(cmd->sqe.cdw12) >> FL_NVME_COPY_FORMAT_SHIFT & FL_NVME_COPY_FORMAT_MASK));
}

static void check_io(struct walk *w, const struct cmd *cmd)
{
    switch (cmd->sqe.opcode) {
    case FL_NVME_CMD_READ:
    case FL_NVME_CMD_WRITE:
    case FL_NVME_CMD_COMPARE:
        check_rw(w, cmd);
        break;
    case FL_NVME_CMD_FLUSH:
    case FL_NVME_CMD_VERIFY:
    case FL_NVME_CMD_WRITE_ZEROES:
    case FL_NVME_CMD_WRITE_UNCOR:
        WALK_CHECK(w, !cmd->capsule_len && !cmd->data_len);
        break;
    case FL_NVME_CMD_DSM:
    case FL_NVME_CMD_COPY:
        check_ranges(w, cmd);
        break;
    case FL_NVME_CMD_RESV_REGISTER:
    case FL_NVME_CMD_RESV_ACQUIRE:
    case FL_NVME_CMD_RESV_RELEASE:
    case FL_NVME_CMD_RESV_REPORT:
        check_resv(w, cmd);
        break;
    default:
        WALK_CHECK(w, fl_nvme_status_code(fl_nvme_cqe_status(&cmd->cqe)) == FL_NVME_SC_INVALID_OPCODE);
    }
}

void check_payload(struct walk *w, const struct cmd *cmd)
{
    if (cmd->sqe.opcode == FL_NVMF_OPCODE) {
        check_fabrics(w, cmd);
        return;
    }
    w->what = fl_nvme_opcode_text(!w->qid, cmd->sqe.opcode);
    WALK_CHECK(w, w->connected);
    if (w->qid)
        check_io(w, cmd);
    else
        check_admin(w, cmd);
}
