/* SPDX-License-Identifier: Apache-2.0 */
/* Admin commands: identify, log pages, features, events, keep alive. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "target/test_setup.h"

static uint32_t sizes_mdts;

static void set_mdts(struct fl_target_options *o)
{
    o->mdts_len = sizes_mdts;
    o->max_depth = 1024;
}

/* Values that strict hosts refuse, checked by the same list that our own host uses. */
static void case_A10_identify_values(void **state)
{
    for (sizes_mdts = FL_TARGET_MDTS_MIN; sizes_mdts <= 1 << 20; sizes_mdts *= 4) {
        struct fl_nvme_id_ctrl id;
        struct fl_nvme_id_ns ns;
        struct fl_error err = {0};
        struct setup s;

        start(&s, 1, set_mdts);
        assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_CTRL, 0, &id), 0);
        if (fl_nvme_check_id_ctrl(&id, &err) < 0)
            fail_msg("%s", err.text);
        assert_true(le32_get(id.mnan) && le32_get(id.mnan) <= le32_get(id.nn));
        assert_int_not_equal(id.mdts, 0); /* no limit */
        assert_int_equal(4096u << id.mdts, sizes_mdts);
        assert_int_equal(le16_get(id.icdoff), 0);
        assert_int_equal(le32_get(id.ioccsz), (64 + 8192) / 16);
        assert_int_equal(le32_get(id.iorcsz), 1);
        assert_int_equal(le16_get(id.maxcmd), 1024);
        assert_int_equal(le16_get(id.kas), 1);
        assert_int_equal(le16_get(id.cntlid), s.h.cntlid);
        assert_int_equal(id.cntrltype, FL_NVME_CNTRLTYPE_IO);
        assert_string_equal(id.subnqn, BED_NQN);
        assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS, s.nsid, &ns), 0);
        if (fl_nvme_check_id_ns(&ns, &err) < 0)
            fail_msg("%s", err.text);
        assert_int_equal(le64_get(ns.nsze), (1 << 20) / 512);
        stop(&s);
    }
}

static void identify_in_all_forms(void **state)
{
    uint8_t page[4096], zero[4096] = {0};
    struct fl_nvme_ns_list *list = (void *)page;
    struct fl_nvme_ctrl_list *ctrls = (void *)page;
    const struct fl_nvme_ns_desc *desc;
    const uint8_t *nid;
    struct setup s;
    struct bed_host b;
    size_t pos = 0;
    struct fl_nvme_sqe sqe;

    start(&s, 2, NULL);
    bed_add_ns(s.bed, "null:1G");
    bed_host(s.bed, HOST_B, &b);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS_ACTIVE_LIST, 0, page), 0);
    assert_int_equal(le32_get(list->nsid[0]), 1);
    assert_int_equal(le32_get(list->nsid[1]), 2);
    assert_int_equal(le32_get(list->nsid[2]), 0);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS_ACTIVE_LIST, 1, page), 0);
    assert_int_equal(le32_get(list->nsid[0]), 2);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS_ACTIVE_LIST, 2, page), 0);
    assert_int_equal(le32_get(list->nsid[0]), 0);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS_ACTIVE_LIST, 0xfffffffe, page),
                     FL_NVME_SC_INVALID_NS);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS_ALLOCATED_LIST, 0, page), 0);
    assert_int_equal(le32_get(list->nsid[1]), 2);

    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS_DESC_LIST, 1, page), 0);
    assert_int_equal(fl_nvme_ns_desc_next(page, 4096, &pos, &desc, &nid), 1);
    assert_int_equal(desc->nidt, FL_NVME_NIDT_UUID);
    assert_memory_equal(nid, s.bed->ss->ns[1]->uuid, 16);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS_DESC_LIST, 3, page), FL_NVME_SC_INVALID_NS);

    /* A namespace that isn't there: zeros; one that can't be: an error. */
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS, 3, page), 0);
    assert_memory_equal(page, zero, 4096);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS, 0, page), FL_NVME_SC_INVALID_NS);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS, FL_NSID_MAX + 1, page), FL_NVME_SC_INVALID_NS);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS, FL_NVME_NSID_ALL, page), 0);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS_ALLOCATED, 1, page), 0);

    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_CTRL_LIST, 0, page), 0);
    assert_int_equal(le16_get(ctrls->num), 2);
    assert_int_equal(le16_get(ctrls->cntlid[0]), s.h.cntlid);
    assert_int_equal(le16_get(ctrls->cntlid[1]), b.cntlid);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS_CTRL_LIST, 1, page), 0);
    assert_int_equal(le16_get(ctrls->num), 2);

    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_CSI_NS, 1, page), 0);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_CSI_CTRL, 0, page), 0);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_CSI_NS_ACTIVE_LIST, 0, page), 0);
    assert_int_equal(le32_get(list->nsid[1]), 2);
    assert_int_equal(bed_identify(s.h.admin, FL_NVME_CNS_NS_INDEPENDENT, 1, page), 0);
    assert_int_equal(((struct fl_nvme_id_ns_indep *)page)->nstat, FL_NVME_NSTAT_READY);
    assert_int_equal(le32_get(((struct fl_nvme_id_ns_indep *)page)->anagrpid), 1);
    sqe = bed_sqe(FL_NVME_ADM_IDENTIFY, 0);
    sqe.cdw10 = le32_of(FL_NVME_CNS_CMD_SETS | 0xffff0000);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, page, 4096, NULL), 0);
    assert_int_equal(page[0], 1);
    sqe.cdw10 = le32_of(FL_NVME_CNS_CSI_CTRL);
    sqe.cdw11 = le32_of(2u << 24); /* ZNS */
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, page, 4096, NULL), FL_NVME_SC_INVALID_CMD_SET);
    assert_int_equal(bed_identify(s.h.admin, 0x7f, 0, page), FL_NVME_SC_INVALID_FIELD);
    sqe = bed_sqe(FL_NVME_ADM_IDENTIFY, 0);
    sqe.cdw10 = le32_of(FL_NVME_CNS_CTRL);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, page, 512, NULL), FL_NVME_SC_SGL_INVALID_DATA);
    stop(&s);
    bed_conn_free(b.admin);
    bed_conn_free(b.io);
}

static void log_pages(void **state)
{
    static uint8_t buf[16384];
    struct fl_nvme_supported_logs *supported = (void *)buf;
    struct fl_nvme_error_entry *errors = (void *)buf;
    struct fl_nvme_smart_log *smart = (void *)buf;
    struct fl_nvme_effects_log *effects = (void *)buf;
    struct fl_nvme_ana_header *ana = (void *)buf;
    const struct fl_nvme_ana_group *group;
    struct fl_nvme_ana_walk walk;
    const le32 *nsids;
    struct fl_nvme_sqe sqe;
    struct setup s;

    start(&s, 2, NULL);
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_SUPPORTED, 0, false, buf, 1024), 0);
    assert_int_equal(le32_get(supported->lid[FL_NVME_LOG_ANA]), 1);
    assert_int_equal(le32_get(supported->lid[FL_NVME_LOG_DISCOVERY]), 0);
    for (uint32_t lid = 0; lid < 256; lid++) { /* it tells the truth */
        static uint8_t other[4096];
        bool has = le32_get(supported->lid[lid]);

        assert_int_equal(!bed_log(s.h.admin, (uint8_t)lid, 0, true, other, 4096), has);
    }
    for (int i = 0; i < 16; i++) {
        sqe = bed_rw(FL_NVME_CMD_READ, 1, 0, 8);
        assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, buf, 4096, NULL), 0);
    }
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_SMART, 0, false, buf, 512), 0);
    assert_int_equal(le64_get(smart->host_reads.lo), 16);
    assert_int_equal(le64_get(smart->data_units_read.lo), 1);

    /* errors: newest first */
    sqe = bed_rw(FL_NVME_CMD_READ, 1, 1 << 30, 8);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, buf, 4096, NULL), FL_NVME_SC_LBA_RANGE);
    sqe = bed_sqe(0xc5, 0);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, NULL, 0, NULL), FL_NVME_SC_INVALID_OPCODE);
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_ERROR, 0, false, buf, 4096), 0);
    assert_int_equal(le16_get(errors[0].sqid), 0);
    assert_int_equal(le16_get(errors[0].status) >> 1 & 0x7ff, FL_NVME_SC_INVALID_OPCODE);
    assert_int_equal(le16_get(errors[1].sqid), 1);
    assert_int_equal(le64_get(errors[1].lba), 1 << 30);
    assert_int_equal(le32_get(errors[1].nsid), 1);
    assert_int_equal(le16_get(errors[0].peloc), 0);
    /* A controller without virtualization has neither Primary Controller Capabilities nor a Secondary
     * Controller List. */
    for (uint8_t cns = FL_NVME_CNS_PRIMARY_CTRL; cns <= FL_NVME_CNS_SECONDARY_CTRL_LIST; cns++) {
        assert_int_equal(bed_identify(s.h.admin, cns, 0, buf), FL_NVME_SC_INVALID_FIELD);
        assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_ERROR, 0, false, buf, 4096), 0);
        assert_int_equal(le16_get(errors[0].status) >> 1 & 0x7ff, FL_NVME_SC_INVALID_FIELD);
        assert_int_equal(le16_get(errors[0].peloc), 40); /* CNS */
    }
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_ERROR, 0, false, buf, 4096), 0);
    assert_true(le64_get(errors[0].count) == le64_get(errors[1].count) + 1);

    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_CMD_EFFECTS, 0, false, buf, 4096), 0);
    assert_true(le32_get(effects->acs[FL_NVME_ADM_IDENTIFY]) & 1);
    assert_true(le32_get(effects->iocs[FL_NVME_CMD_COPY]) & 1);
    assert_int_equal(le32_get(effects->iocs[FL_NVME_CMD_WRITE_UNCOR]), 0);

    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_ANA, 0, false, buf, 4096), 0);
    assert_int_equal(le16_get(ana->ngrps), 1);
    assert_int_equal(fl_nvme_ana_start(&walk, buf, 4096), 0);
    assert_int_equal(fl_nvme_ana_next(&walk, &group, &nsids), 1);
    assert_int_equal(group->state, FL_NVME_ANA_OPTIMIZED);
    assert_int_equal(le32_get(nsids[0]), 1);

    /* a piece of a page, offsets beyond its end and of bad form, a length that is not the data's */
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_ANA, 16, false, buf, 32), 0);
    assert_int_equal(buf[0], 1);
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_ANA, 8192, false, buf, 32), FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_ANA, 2, false, buf, 32), FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_ANA, UINT64_MAX - 3, false, buf, 32),
                     FL_NVME_SC_INVALID_FIELD);
    sqe = bed_sqe(FL_NVME_ADM_GET_LOG_PAGE, FL_NVME_NSID_ALL);
    fl_nvme_log_set(&sqe, FL_NVME_LOG_SMART, 0, false, 0, 512);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, buf, 256, NULL), FL_NVME_SC_SGL_INVALID_DATA);
    fl_nvme_log_set(&sqe, FL_NVME_LOG_SMART, 0, false, 0, UINT64_C(4) << 32);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, buf, 256, NULL), FL_NVME_SC_INVALID_FIELD);
    stop(&s);
}

static void features(void **state)
{
    struct fl_nvme_sqe sqe;
    uint8_t id[16];
    struct setup s;
    uint64_t v;

    start(&s, 2, NULL);
    bed_cut(s.h.io); /* the number of queues cannot change while there are any */
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_NUM_QUEUES, 0, 3 | 7 << 16, &v), 0);
    assert_int_equal(v, 3 | 3 << 16);
    assert_int_equal(bed_feature(s.h.admin, false, FL_NVME_FEAT_NUM_QUEUES, 0, 0, &v), 0);
    assert_int_equal(v, 3 | 3 << 16);
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_NUM_QUEUES, 0, 999 | 999 << 16, &v), 0);
    assert_int_equal(v, 63 | 63 << 16);
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_NUM_QUEUES, 0, 0xffff, &v),
                     FL_NVME_SC_INVALID_FIELD);
    bed_conn_free(s.h.io);
    s.h.io = bed_io_queue(s.bed, BED_HOST, s.h.cntlid, 64);
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_NUM_QUEUES, 0, 1, &v),
                     FL_NVME_SC_CMD_SEQ_ERROR);

    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_KATO, 0, 5001, &v), 0);
    assert_int_equal(bed_feature(s.h.admin, false, FL_NVME_FEAT_KATO, 0, 0, &v), 0);
    assert_int_equal(v, 5100); /* rounded up to KAS */
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_KATO, 0, 0, &v), 0);

    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_ASYNC_EVENT, 0, FL_NVME_AEN_DISC_CHANGE, &v),
                     FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_ASYNC_EVENT, 0, FL_NVME_AEN_NS_ATTR, &v), 0);
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_ERR_RECOVERY, 0, 7, &v), 0);
    assert_int_equal(bed_feature(s.h.admin, false, FL_NVME_FEAT_ERR_RECOVERY, 0, 0, &v), 0);
    assert_int_equal(v, 7);
    sqe = bed_sqe(FL_NVME_ADM_GET_FEATURES, 0);
    sqe.cdw10 = le32_of(FL_NVME_FEAT_ERR_RECOVERY | FL_NVME_FEAT_SEL_DEFAULT << 8);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, NULL, 0, &v), 0);
    assert_int_equal(v, 0);
    sqe.cdw10 = le32_of(FL_NVME_FEAT_ERR_RECOVERY | FL_NVME_FEAT_SEL_SUPPORTED << 8);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, NULL, 0, &v), 0);
    assert_int_equal(v, FL_NVME_FEAT_CAP_CHANGEABLE);
    sqe.cdw10 = le32_of(FL_NVME_FEAT_ERR_RECOVERY | 5 << 8);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, NULL, 0, &v), FL_NVME_SC_INVALID_FIELD);

    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_VOLATILE_WC, 0, 0, &v), 0);
    assert_int_equal(bed_feature(s.h.admin, false, FL_NVME_FEAT_VOLATILE_WC, 0, 0, &v), 0);
    assert_int_equal(v, 0);
    sqe = bed_sqe(FL_NVME_ADM_SET_FEATURES, 0);
    sqe.cdw10 = le32_of(FL_NVME_FEAT_ERR_RECOVERY | FL_NVME_FEAT_SAVE);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, NULL, 0, NULL), FL_NVME_SC_FEATURE_NOT_SAVEABLE);

    sqe = bed_sqe(FL_NVME_ADM_GET_FEATURES, 0);
    sqe.cdw10 = le32_of(FL_NVME_FEAT_HOST_ID);
    sqe.cdw11 = le32_of(1);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, id, 16, NULL), 0);
    assert_memory_equal(id, "host identifier", 15);
    sqe.cdw11 = le32_of(0);
    assert_int_equal(bed_run(s.h.admin, &sqe, NULL, 0, id, 8, NULL), FL_NVME_SC_INVALID_FIELD);

    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_RESV_MASK, 1, 0xe, &v), 0);
    assert_int_equal(bed_feature(s.h.admin, false, FL_NVME_FEAT_RESV_MASK, 1, 0, &v), 0);
    assert_int_equal(v, 0xe);
    assert_int_equal(bed_feature(s.h.admin, false, FL_NVME_FEAT_RESV_MASK, 9, 0, &v), FL_NVME_SC_INVALID_NS);
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_RESV_PERSIST, 1, 1, &v),
                     FL_NVME_SC_FEATURE_NOT_CHANGEABLE);
    assert_int_equal(bed_feature(s.h.admin, false, 0x0c, 0, 0, &v), FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(bed_feature(s.h.admin, true, 0xff, 0, 0, &v), FL_NVME_SC_INVALID_FIELD);
    stop(&s);
}

/* ---- events ---- */

static void events_are_masked_until_read(void **state)
{
    struct fl_nvme_changed_ns_log log;
    struct bed_cmd *a, *b, *more[5];
    struct setup s;
    uint64_t v;

    start(&s, 2, NULL);
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_ASYNC_EVENT, 0, FL_NVME_AEN_NS_ATTR, &v), 0);
    a = send_aer(&s);
    b = send_aer(&s);
    assert_int_equal(bed_add_ns(s.bed, "ram:1M"), 2);
    assert_int_equal(aer_dw0(a), 0x040002);
    assert_int_equal(bed_add_ns(s.bed, "ram:1M"), 3);
    assert_false(b->answered); /* masked */
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_CHANGED_NS, 0, false, &log, sizeof(log)), 0);
    assert_int_equal(le32_get(log.nsid[0]), 1 + 1);
    assert_int_equal(le32_get(log.nsid[1]), 3);
    assert_int_equal(le32_get(log.nsid[2]), 0);
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_CHANGED_NS, 0, false, &log, sizeof(log)), 0);
    assert_int_equal(le32_get(log.nsid[0]), 0); /* cleared */
    fl_namespace_remove(s.bed->ss, 3, 0, NULL);
    bed_turn(s.bed);
    assert_int_equal(aer_dw0(b), 0x040002);
    /* RAE keeps it masked */
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_CHANGED_NS, 0, true, &log, sizeof(log)), 0);
    a = send_aer(&s);
    bed_add_ns(s.bed, "ram:1M");
    assert_false(a->answered);
    /* Without a request waiting, the event waits. */
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_CHANGED_NS, 0, false, &log, sizeof(log)), 0);
    bed_add_ns(s.bed, "ram:1M");
    assert_int_equal(aer_dw0(a), 0x040002);
    assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_CHANGED_NS, 0, false, &log, sizeof(log)), 0);
    bed_add_ns(s.bed, "ram:1M");
    assert_int_equal(aer_dw0(send_aer(&s)), 0x040002);
    /* The fifth request is one too many. */
    for (int i = 0; i < 5; i++)
        more[i] = send_aer(&s);
    assert_int_equal(bed_status(more[4]), FL_NVME_SC_ASYNC_LIMIT);
    stop(&s);
    for (int i = 0; i < 5; i++)
        bed_free_cmd(more[i]);
}

static void ana_states(void **state)
{
    uint8_t buf[4096];
    struct fl_nvme_ana_group *group = (void *)(buf + 16);
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_READ, 1, 0, 8);
    static const struct {
        const char *name;
        uint16_t status;
        uint8_t state;
    } cases[] = {{"inaccessible", FL_NVME_SC_ANA_INACCESSIBLE, 3},
                 {"persistent-loss", FL_NVME_SC_ANA_PERSISTENT_LOSS, 4},
                 {"change", FL_NVME_SC_ANA_TRANSITION, 15},
                 {"non-optimized", 0, 2},
                 {"optimized", 0, 1}};
    struct setup s;
    uint64_t v;

    start(&s, 2, NULL);
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_ASYNC_EVENT, 0, FL_NVME_AEN_ANA, &v), 0);
    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct bed_cmd *aer = send_aer(&s);

        assert_int_equal(fl_target_set_ana(s.bed->target, s.bed->port_id, 1, cases[i].name, NULL), 0);
        bed_turn(s.bed);
        assert_int_equal(aer_dw0(aer), 0x0c0302);
        assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, buf, 4096, NULL), cases[i].status);
        assert_int_equal(bed_log(s.h.admin, FL_NVME_LOG_ANA, 0, false, buf, 4096), 0);
        assert_int_equal(group->state, cases[i].state);
    }
    assert_int_equal(fl_target_set_ana(s.bed->target, 99, 1, "optimized", NULL), -ENOENT);
    assert_int_equal(fl_target_set_ana(s.bed->target, s.bed->port_id, 33, "optimized", NULL), -EINVAL);
    assert_int_equal(fl_target_set_ana(s.bed->target, s.bed->port_id, 1, "good", NULL), -EINVAL);
    stop(&s);
}

/* ---- keep alive ---- */

static void keep_alive(void **state)
{
    struct fl_nvme_sqe ka = bed_sqe(FL_NVME_ADM_KEEP_ALIVE, 0), flush = bed_sqe(FL_NVME_CMD_FLUSH, 1);
    struct setup s;
    uint64_t v;

    start(&s, 2, NULL);
    /* 6 sleeps each: longer than the time in all, and with room for a busy machine in each. */
    assert_int_equal(bed_feature(s.h.admin, true, FL_NVME_FEAT_KATO, 0, 1500, &v), 0);
    for (int i = 0; i < 6; i++) {
        bed_sleep(s.bed, 270);
        assert_int_equal(bed_run(s.h.admin, &ka, NULL, 0, NULL, 0, NULL), 0);
    }
    for (int i = 0; i < 6; i++) { /* I/O feeds it as well (TBKAS) */
        bed_sleep(s.bed, 270);
        assert_int_equal(bed_run(s.h.io, &flush, NULL, 0, NULL, 0, NULL), 0);
    }
    assert_false(bed_is_closed(s.h.admin));
    for (int i = 0; i < 200 && !bed_is_closed(s.h.admin);
         i++) /* 1500 ms; more on a machine that lets us wait */
        bed_sleep(s.bed, 50);
    assert_true(bed_is_closed(s.h.admin));
    bed_turn(s.bed);
    assert_true(bed_is_closed(s.h.io));
    assert_int_equal(s.bed->target->nr_controllers, 0);
    stop(&s);
}

static uint32_t nr_seen[7];

static void see_ss(void *arg, const struct fl_subsystem_info *i)
{
    nr_seen[0]++;
}
static void see_ns(void *arg, const struct fl_namespace_info *i)
{
    nr_seen[1]++;
    assert_string_equal(i->state, "active");
    assert_string_equal(i->backend, "ram");
}
static void see_host(void *arg, const char *nqn, const char *host)
{
    nr_seen[2]++;
}
static void see_listener(void *arg, const struct fl_listener_info *i)
{
    nr_seen[3]++;
    assert_string_equal(i->url, "tcp://10.0.0.1:4420");
    assert_int_equal(i->nr_connections, 2);
}
static void see_ctrl(void *arg, const struct fl_controller_info *i)
{
    nr_seen[4]++;
    assert_string_equal(i->state, "ready");
}
static void see_queue(void *arg, const struct fl_queue_info *i)
{
    nr_seen[5]++;
    assert_string_equal(i->conn.peer, "10.0.0.2:5000");
}
static void see_loop(void *arg, const struct fl_loop_info *i)
{
    nr_seen[6]++;
}

static void visiting(void **state)
{
    static const struct fl_target_visitor v = {see_ss,   see_ns,    see_host, see_listener,
                                               see_ctrl, see_queue, see_loop};
    static const struct fl_target_visitor none = {0};
    static const uint32_t want[7] = {2, 1, 1, 1, 1, 2, 2};
    struct setup s;

    start(&s, 2, NULL);
    fl_subsystem_host_add(s.bed->ss, BED_HOST, NULL);
    fl_target_visit(s.bed->target, &v, NULL);
    assert_memory_equal(nr_seen, want, sizeof(want));
    fl_target_visit(s.bed->target, &none, NULL);
    stop(&s);
}

int main(void)
{
    fl_log_set_level(FL_LOG_ERR);
    return FL_UNIT_RUN(cmocka_unit_test(case_A10_identify_values), cmocka_unit_test(identify_in_all_forms),
                       cmocka_unit_test(log_pages), cmocka_unit_test(features),
                       cmocka_unit_test(events_are_masked_until_read), cmocka_unit_test(ana_states),
                       cmocka_unit_test(keep_alive), cmocka_unit_test(visiting));
}
