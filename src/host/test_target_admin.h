/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: the fake target's (test_target.h) Fabrics and admin commands. */
#ifndef FL_HOST_TEST_TARGET_ADMIN_H
#define FL_HOST_TEST_TARGET_ADMIN_H

#include "host/test_target_pdu.h"

static inline void fake_id_ctrl(struct fake *f, struct fl_nvme_id_ctrl *id)
{
    *id = (struct fl_nvme_id_ctrl){
        .mdts = (uint8_t)f->mdts,
        .cntlid = le16_of(1),
        .ver = le32_of(FL_NVME_VS_1_4),
        .oaes = le32_of(FL_NVME_OAES_NS_ATTR),
        .cntrltype = 1,
        .kas = le16_of(10),
        .sqes = 0x66,
        .cqes = 0x44,
        .maxcmd = le16_of(1024),
        .nn = le32_of(1024),
        .mnan = le32_of(1024),
        .sgls = le32_of(FL_NVME_SGLS_SUPPORTED | FL_NVME_SGLS_OFFSET | FL_NVME_SGLS_TRANSPORT),
        .ioccsz = le32_of((64 + f->capsule_len) / 16),
        .iorcsz = le32_of(1)};
    memset(id->mn, ' ', sizeof(id->mn));
    memcpy(id->mn, "fake", 4);
    memset(id->sn, ' ', sizeof(id->sn));
    memcpy(id->sn, "0001", 4);
    memcpy(id->fr, "1.0     ", 8);
    memcpy(id->subnqn, FAKE_NQN, sizeof(FAKE_NQN));
    if (f->tweak)
        f->tweak(id);
}

static inline void fake_identify(struct fake_conn *c, const struct fl_nvme_sqe *sqe)
{
    struct fake *f = c->fake;
    uint8_t *page = calloc(1, FL_NVME_IDENTIFY_LEN);
    uint32_t nsid = le32_get(sqe->nsid);
    fl_nvme_status status = 0;
    size_t pos = 0;
    uint8_t uuid[16] = {fake_get(f->uuid0), 1, 2};

    switch (le32_get(sqe->cdw10) & 0xff) {
    case FL_NVME_CNS_CTRL:
        fake_id_ctrl(f, (void *)page);
        break;
    case FL_NVME_CNS_NS: {
        struct fl_nvme_id_ns *ns = (void *)page;

        if (nsid && nsid <= (uint32_t)f->nr_namespaces)
            *ns = (struct fl_nvme_id_ns){.nsze = le64_of(fake_get(f->nr_blocks)), .lbaf[0].lbads = 9};
        else
            status = FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
        break;
    }
    case FL_NVME_CNS_NS_ACTIVE_LIST:
        for (int i = 0, at = 0; i < f->nr_namespaces; i++)
            if ((uint32_t)i + 1 > nsid)
                ((struct fl_nvme_ns_list *)page)->nsid[at++] = le32_of((uint32_t)i + 1);
        break;
    case FL_NVME_CNS_NS_DESC_LIST:
        fl_nvme_ns_desc_add(page, FL_NVME_IDENTIFY_LEN, &pos, FL_NVME_NIDT_UUID, uuid);
        break;
    default:
        status = FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    }
    if (status)
        fake_respond(c, le16_get(sqe->cid), 0, status);
    else
        fake_respond_data(c, le16_get(sqe->cid), page, FL_NVME_IDENTIFY_LEN, false);
    free(page);
}

static inline void fake_fabrics(struct fake_conn *c, const struct fl_nvme_sqe *sqe, const uint8_t *data)
{
    struct fake *f = c->fake;
    const struct fl_nvmf_connect_cmd *con = (const void *)sqe;
    const struct fl_nvmf_property_get_cmd *get = (const void *)sqe;
    const struct fl_nvmf_property_set_cmd *set = (const void *)sqe;
    uint16_t cid = le16_get(sqe->cid);
    uint64_t value = 0;

    switch (fl_nvmf_fctype(sqe)) {
    case FL_NVMF_CONNECT:
        c->qid = le16_get(con->qid);
        if (!c->qid)
            fake_set(f->kato_seen, le32_get(con->kato));
        if (fake_get(f->connect_status))
            fake_respond(c, cid, f->connect_dw0, (fl_nvme_status)fake_get(f->connect_status));
        else if (c->qid && fake_take(&f->held_count))
            fake_respond(c, cid, 0, FL_NVME_SC_CMD_SEQ_ERROR | FL_NVME_DNR);
        else
            fake_respond(c, cid, 1, 0);
        return;
    case FL_NVMF_PROPERTY_GET:
        switch (le32_get(get->ofst)) {
        case FL_NVMF_PROP_CAP:
            value = (f->nr_entries - 1) | 2ull << FL_NVME_CAP_TO_SHIFT | FL_NVME_CAP_CSS_NVM;
            break;
        case FL_NVMF_PROP_VS:
            value = FL_NVME_VS_1_4;
            break;
        case FL_NVMF_PROP_CSTS:
            value = FL_NVME_CSTS_RDY;
            if (fl_nvme_cc_shn(c->cc))
                value |= FL_NVME_CSTS_SHST_COMPLETE << FL_NVME_CSTS_SHST_SHIFT;
            break;
        }
        fake_respond(c, cid, value, 0);
        return;
    case FL_NVMF_PROPERTY_SET:
        c->cc = (uint32_t)le64_get(set->value);
        if (fl_nvme_cc_shn(c->cc))
            fake_inc(f->nr_shutdowns);
        fake_respond(c, cid, 0, 0);
        return;
    default:
        fake_respond(c, cid, 0, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
    }
}

static inline void fake_log(struct fake_conn *c, const struct fl_nvme_sqe *sqe)
{
    struct fake *f = c->fake;
    uint32_t len = (uint32_t)FL_MIN(fl_nvme_log_len(sqe), (uint64_t)65536);
    uint8_t *page = calloc(1, len);

    fake_inc(f->nr_logs);
    if (fl_nvme_log_lid(sqe) == FL_NVME_LOG_DISCOVERY && f->log_page)
        f->log_page(f, page, fl_nvme_log_offset(sqe), len);
    fake_respond_data(c, le16_get(sqe->cid), page, len, false);
    free(page);
}

static inline void fake_admin(struct fake_conn *c, const struct fl_nvme_sqe *sqe, const uint8_t *data)
{
    struct fake *f = c->fake;
    uint16_t cid = le16_get(sqe->cid);
    uint32_t n = f->nr_queues - 1;

    for (uint64_t start = fl_now_ns();
         fl_now_ns() - start < (uint64_t)fake_get(f->admin_delay_ms) * FL_NS_PER_MS;)
        usleep(10000);
    switch (sqe->opcode) {
    case FL_NVMF_OPCODE:
        fake_fabrics(c, sqe, data);
        break;
    case FL_NVME_ADM_IDENTIFY:
        fake_identify(c, sqe);
        break;
    case FL_NVME_ADM_SET_FEATURES:
        fake_respond(c, cid, (uint8_t)le32_get(sqe->cdw10) == FL_NVME_FEAT_NUM_QUEUES ? n << 16 | n : 0, 0);
        break;
    case FL_NVME_ADM_GET_LOG_PAGE:
        fake_log(c, sqe);
        break;
    case FL_NVME_ADM_KEEP_ALIVE:
        fake_inc(f->nr_keep_alives);
        fake_respond(c, cid, 0, 0);
        break;
    case FL_NVME_ADM_ASYNC_EVENT:
        pthread_mutex_lock(&f->lock);
        c->has_event = true;
        c->event_cid = cid;
        pthread_mutex_unlock(&f->lock);
        break;
    default:
        fake_respond(c, cid, 0, FL_NVME_SC_INVALID_OPCODE | FL_NVME_DNR);
    }
}

#endif
