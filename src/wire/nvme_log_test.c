/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvme_log.h"

#include <errno.h>

#include "wire/literal.h"

static void places_of_supported_logs(void **state)
{
    struct fl_nvme_supported_logs s;
    pattern(&s, sizeof(s));
    AT32(&s, lid[0], 0);
    AT32(&s, lid[255], 1020);
}

static void places_of_error_entry(void **state)
{
    struct fl_nvme_error_entry s;
    pattern(&s, sizeof(s));
    AT64(&s, count, 0);
    AT16(&s, sqid, 8);
    AT16(&s, cid, 10);
    AT16(&s, status, 12);
    AT16(&s, peloc, 14);
    AT64(&s, lba, 16);
    AT32(&s, nsid, 24);
    AT8(&s, vsia, 28);
    AT8(&s, trtype, 29);
    AT64(&s, csi, 32);
    AT16(&s, trtsi, 40);
}

static void places_of_smart_log(void **state)
{
    struct fl_nvme_smart_log s;
    pattern(&s, sizeof(s));
    AT8(&s, critical_warning, 0);
    AT16(&s, temperature, 1);
    AT8(&s, avail_spare, 3);
    AT8(&s, spare_thresh, 4);
    AT8(&s, percent_used, 5);
    AT8(&s, endgrp_critical, 6);
    AT128(&s, data_units_read, 32);
    AT128(&s, data_units_written, 48);
    AT128(&s, host_reads, 64);
    AT128(&s, host_writes, 80);
    AT128(&s, ctrl_busy_time, 96);
    AT128(&s, power_cycles, 112);
    AT128(&s, power_on_hours, 128);
    AT128(&s, unsafe_shutdowns, 144);
    AT128(&s, media_errors, 160);
    AT128(&s, nr_error_entries, 176);
    AT32(&s, warning_temp_time, 192);
    AT32(&s, critical_temp_time, 196);
    AT16(&s, temp_sensor[0], 200);
    AT16(&s, temp_sensor[7], 214);
    AT32(&s, tmt1_count, 216);
    AT32(&s, tmt2_count, 220);
    AT32(&s, tmt1_time, 224);
    AT32(&s, tmt2_time, 228);
}

static void places_of_fw_slot_log(void **state)
{
    struct fl_nvme_fw_slot_log s;
    pattern(&s, sizeof(s));
    AT8(&s, afi, 0);
    AT8(&s, frs[0][0], 8);
    AT8(&s, frs[6][7], 63);
}

static void places_of_changed_ns_log(void **state)
{
    struct fl_nvme_changed_ns_log s;
    pattern(&s, sizeof(s));
    AT32(&s, nsid[0], 0);
    AT32(&s, nsid[1023], 4092);
}

static void places_of_effects_log(void **state)
{
    struct fl_nvme_effects_log s;
    pattern(&s, sizeof(s));
    AT32(&s, acs[0], 0);
    AT32(&s, acs[255], 1020);
    AT32(&s, iocs[0], 1024);
    AT32(&s, iocs[255], 2044);
}

static void places_of_ana_header(void **state)
{
    struct fl_nvme_ana_header s;
    pattern(&s, sizeof(s));
    AT64(&s, chgcnt, 0);
    AT16(&s, ngrps, 8);
}

static void places_of_ana_group(void **state)
{
    struct fl_nvme_ana_group s;
    pattern(&s, sizeof(s));
    AT32(&s, grpid, 0);
    AT32(&s, nnsids, 4);
    AT64(&s, chgcnt, 8);
    AT8(&s, state, 16);
}

/* Commands supported and effects, asynchronous namespace access: as from a Linux target */
static void literal_pages(void **state)
{
    static uint8_t page[4096];
    const struct fl_nvme_effects_log *effects = (const void *)page;
    const struct fl_nvme_ana_group *group;
    const le32 *nsids;
    struct fl_nvme_ana_walk walk;

    memset(page, 0, sizeof(page));
    page[8] = page[24] = page[1024] = page[1032] = 1;
    literal(page + 1028, 1, "03");
    assert_int_equal(le32_get(effects->acs[FL_NVME_ADM_GET_LOG_PAGE]), FL_NVME_EFFECT_CSUPP);
    assert_int_equal(le32_get(effects->acs[FL_NVME_ADM_IDENTIFY]), FL_NVME_EFFECT_CSUPP);
    assert_int_equal(le32_get(effects->iocs[FL_NVME_CMD_WRITE]), FL_NVME_EFFECT_CSUPP | FL_NVME_EFFECT_LBCC);
    assert_int_equal(le32_get(effects->iocs[FL_NVME_CMD_READ]), FL_NVME_EFFECT_CSUPP);

    memset(page, 0, sizeof(page)); /* two groups: 1 without a namespace, 2 inaccessible with namespace 1 */
    literal(page, 9, "040000000000000002");
    literal(page + 16, 17, "0100000000000000040000000000000001");
    literal(page + 48, 17, "0200000001000000040000000000000003");
    page[80] = 1;
    assert_int_equal(fl_nvme_ana_start(&walk, page, 8208), 0);
    assert_int_equal(fl_nvme_ana_next(&walk, &group, &nsids), 1);
    assert_int_equal(le32_get(group->grpid), 1);
    assert_int_equal(le32_get(group->nnsids), 0);
    assert_int_equal(group->state, FL_NVME_ANA_OPTIMIZED);
    assert_int_equal(fl_nvme_ana_next(&walk, &group, &nsids), 1);
    assert_int_equal(le32_get(group->grpid), 2);
    assert_int_equal(group->state, FL_NVME_ANA_INACCESSIBLE);
    assert_int_equal(le32_get(nsids[0]), 1);
    assert_int_equal(fl_nvme_ana_next(&walk, &group, &nsids), 0);
}

static void cut_ana_pages(void **state)
{
    uint8_t page[84];
    const struct fl_nvme_ana_group *group;
    const le32 *nsids;
    struct fl_nvme_ana_walk walk;

    memset(page, 0, sizeof(page));
    literal(page, 9, "040000000000000002");
    literal(page + 16, 17, "0100000000000000040000000000000001");
    literal(page + 48, 17, "0200000001000000040000000000000003");
    assert_int_equal(fl_nvme_ana_start(&walk, page, 15), -EPROTO);
    for (size_t len = 16; len <= sizeof(page); len++) {
        int r, nr = 0;
        assert_int_equal(fl_nvme_ana_start(&walk, page, len), 0);
        while ((r = fl_nvme_ana_next(&walk, &group, &nsids)) > 0)
            nr++;
        assert_int_equal(nr, len < 48 ? 0 : len < 84 ? 1 : 2);
        assert_int_equal(r, len < 84 ? -EPROTO : 0);
    }
    memset(page + 52, 0xff, 4); /* 2^32 - 1 namespaces */
    assert_int_equal(fl_nvme_ana_start(&walk, page, sizeof(page)), 0);
    assert_int_equal(fl_nvme_ana_next(&walk, &group, &nsids), 1);
    assert_int_equal(fl_nvme_ana_next(&walk, &group, &nsids), -EPROTO);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(places_of_supported_logs), cmocka_unit_test(places_of_error_entry),
                       cmocka_unit_test(places_of_smart_log), cmocka_unit_test(places_of_fw_slot_log),
                       cmocka_unit_test(places_of_changed_ns_log), cmocka_unit_test(places_of_effects_log),
                       cmocka_unit_test(places_of_ana_header), cmocka_unit_test(places_of_ana_group),
                       cmocka_unit_test(literal_pages), cmocka_unit_test(cut_ana_pages));
}
