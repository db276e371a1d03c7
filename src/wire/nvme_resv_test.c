/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvme_resv.h"

#include "wire/literal.h"

static void places_of_resv_register_data(void **state)
{
    struct fl_nvme_resv_register_data s;
    pattern(&s, sizeof(s));
    AT64(&s, crkey, 0);
    AT64(&s, nrkey, 8);
}

static void places_of_resv_acquire_data(void **state)
{
    struct fl_nvme_resv_acquire_data s;
    pattern(&s, sizeof(s));
    AT64(&s, crkey, 0);
    AT64(&s, prkey, 8);
}

static void places_of_resv_release_data(void **state)
{
    struct fl_nvme_resv_release_data s;
    pattern(&s, sizeof(s));
    AT64(&s, crkey, 0);
}

static void places_of_resv_status(void **state)
{
    struct fl_nvme_resv_status s;
    pattern(&s, sizeof(s));
    AT32(&s, gen, 0);
    AT8(&s, rtype, 4);
    AT16(&s, regctl, 5);
    AT8(&s, ptpls, 9);
}

static void places_of_resv_status_ext(void **state)
{
    struct fl_nvme_resv_status_ext s;
    pattern(&s, sizeof(s));
    AT32(&s, gen, 0);
    AT8(&s, rtype, 4);
    AT16(&s, regctl, 5);
    AT8(&s, ptpls, 9);
}

static void places_of_resv_ctrl(void **state)
{
    struct fl_nvme_resv_ctrl s;
    pattern(&s, sizeof(s));
    AT16(&s, cntlid, 0);
    AT8(&s, rcsts, 2);
    AT64(&s, hostid, 8);
    AT64(&s, rkey, 16);
}

static void places_of_resv_ctrl_ext(void **state)
{
    struct fl_nvme_resv_ctrl_ext s;
    pattern(&s, sizeof(s));
    AT16(&s, cntlid, 0);
    AT8(&s, rcsts, 2);
    AT64(&s, rkey, 8);
    AT8(&s, hostid[0], 16);
    AT8(&s, hostid[15], 31);
}

static void places_of_resv_log(void **state)
{
    struct fl_nvme_resv_log s;
    pattern(&s, sizeof(s));
    AT64(&s, count, 0);
    AT8(&s, type, 8);
    AT8(&s, nalp, 9);
    AT32(&s, nsid, 12);
}

/* A preempt, a report and a notification between two Linux hosts and a Linux target */
static void literal_data(void **state)
{
    struct fl_nvme_resv_acquire_data acquire;
    struct fl_nvme_resv_release_data release;
    struct fl_nvme_resv_status_ext status;
    struct fl_nvme_resv_log log;
    uint32_t cdw10 = 0x00000301;

    assert_int_equal(cdw10 & FL_NVME_RESV_ACTION_MASK, FL_NVME_RESV_PREEMPT);
    assert_int_equal(cdw10 >> FL_NVME_RESV_RTYPE_SHIFT & FL_NVME_RESV_RTYPE_MASK,
                     FL_NVME_RESV_WRITE_EXCL_REG_ONLY);
    literal(&acquire, sizeof(acquire), "b100000000000000a100000000000000");
    assert_int_equal(le64_get(acquire.crkey), 0xb1);
    assert_int_equal(le64_get(acquire.prkey), 0xa1);
    literal(&release, sizeof(release), "b100000000000000");
    assert_int_equal(le64_get(release.crkey), 0xb1);

    memset(&status, 0, sizeof(status));
    literal(&status, 8,
            "0300000003010000"); /* generation 3, write exclusive registrants only, one registrant */
    assert_int_equal(le32_get(status.gen), 3);
    assert_int_equal(status.rtype, FL_NVME_RESV_WRITE_EXCL_REG_ONLY);
    assert_int_equal(le16_get(status.regctl), 1);

    memset(&log, 0, sizeof(log));
    literal(&log, 13, "01000000000000000100000001");
    assert_int_equal(le64_get(log.count), 1);
    assert_int_equal(log.type, FL_NVME_RESV_NOTICE_REG_PREEMPTED);
    assert_int_equal(log.nalp, 0);
    assert_int_equal(le32_get(log.nsid), 1);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(places_of_resv_register_data),
                       cmocka_unit_test(places_of_resv_acquire_data),
                       cmocka_unit_test(places_of_resv_release_data), cmocka_unit_test(places_of_resv_status),
                       cmocka_unit_test(places_of_resv_status_ext), cmocka_unit_test(places_of_resv_ctrl),
                       cmocka_unit_test(places_of_resv_ctrl_ext), cmocka_unit_test(places_of_resv_log),
                       cmocka_unit_test(literal_data));
}
