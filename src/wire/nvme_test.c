/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvme.h"

#include "wire/literal.h"

static void queue_entries(void **state)
{
    struct fl_nvme_sqe sqe;
    struct fl_nvme_cqe cqe;
    struct fl_nvme_sgl sgl;
    struct fl_nvme_keyed_sgl keyed;

    pattern(&sqe, sizeof(sqe));
    AT8(&sqe, opcode, 0);
    AT8(&sqe, flags, 1);
    AT16(&sqe, cid, 2);
    AT32(&sqe, nsid, 4);
    AT32(&sqe, cdw2, 8);
    AT32(&sqe, cdw3, 12);
    AT64(&sqe, mptr, 16);
    AT64(&sqe, sgl.addr, 24);
    AT32(&sqe, sgl.len, 32);
    AT8(&sqe, sgl.type, 39);
    AT32(&sqe, cdw10, 40);
    AT32(&sqe, cdw11, 44);
    AT32(&sqe, cdw12, 48);
    AT32(&sqe, cdw13, 52);
    AT32(&sqe, cdw14, 56);
    AT32(&sqe, cdw15, 60);

    pattern(&cqe, sizeof(cqe));
    AT32(&cqe, dw0, 0);
    AT32(&cqe, dw1, 4);
    AT16(&cqe, sqhd, 8);
    AT16(&cqe, sqid, 10);
    AT16(&cqe, cid, 12);
    AT16(&cqe, status, 14);

    pattern(&sgl, sizeof(sgl));
    AT64(&sgl, addr, 0);
    AT32(&sgl, len, 8);
    AT8(&sgl, type, 15);

    pattern(&keyed, sizeof(keyed));
    AT64(&keyed, addr, 0);
    AT24(&keyed, len, 8);
    AT32(&keyed, key, 11);
    AT8(&keyed, type, 15);
}

static void completion(void **state)
{
    struct fl_nvme_cqe cqe, want;

    /* Compare failed, and the answer to a Property Get of CAP, as Linux sent them */
    literal(&want, sizeof(want),
            "000000000000000008000000"
            "27000a05");
    fl_nvme_cqe_set(&cqe, 0x27, 8, 0, FL_NVME_SC_COMPARE_FAILED);
    assert_memory_equal(&cqe, &want, sizeof(want));
    literal(&want, sizeof(want), "ff03000f200800000200000001000000");
    fl_nvme_cqe_set(&cqe, 1, 2, 0x000008200f0003ffull, FL_NVME_SC_SUCCESS);
    assert_memory_equal(&cqe, &want, sizeof(want));

    literal(&cqe, sizeof(cqe), "00000000000000000800010027000483"); /* Connect: invalid host, do not retry */
    assert_int_equal(fl_nvme_cqe_status(&cqe), FL_NVME_DNR | 0x182);
    cqe.status.b[0] |= 1; /* a phase tag is not status */
    assert_int_equal(fl_nvme_cqe_status(&cqe), FL_NVME_DNR | 0x182);
    fl_nvme_cqe_set(&cqe, 0xffff, 0xffff, UINT64_MAX, 0x7fff);
    assert_int_equal(fl_nvme_cqe_status(&cqe), 0x7fff);
    assert_int_equal(le16_get(cqe.status), 0xfffe);
    /* success, whatever the bits around it */
    cqe.status = le16_of(0xf001);
    assert_int_equal(fl_nvme_cqe_status(&cqe), 0);
    cqe.status = le16_of(0xf003);
    assert_int_equal(fl_nvme_cqe_status(&cqe), 0x7801);
}

static void read_and_write(void **state)
{
    struct fl_nvme_sqe sqe;
    memset(&sqe, 0, sizeof(sqe));
    fl_nvme_rw_set(&sqe, 0x123456789abcull, 65536, FL_NVME_RW_FUA);
    static const uint8_t want[12] = {0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0, 0xff, 0xff, 0, 0x40};
    assert_memory_equal((uint8_t *)&sqe + 40, want, 12);
    assert_int_equal(fl_nvme_rw_slba(&sqe), 0x123456789abcull);
    assert_int_equal(fl_nvme_rw_nr_blocks(&sqe), 65536);
    memset(&sqe, 0, sizeof(sqe));
    assert_int_equal(fl_nvme_rw_nr_blocks(&sqe), 1); /* 0's based */
}

static void ranges(void **state)
{
    struct fl_nvme_dsm_range dsm;
    struct fl_nvme_copy_range copy;

    literal(&dsm, sizeof(dsm), "00000000080000000001000000000000"); /* 8 blocks from 256 on */
    assert_int_equal(le32_get(dsm.cattr), 0);
    assert_int_equal(le32_get(dsm.nlb), 8);
    assert_int_equal(le64_get(dsm.slba), 256);
    pattern(&dsm, sizeof(dsm));
    AT32(&dsm, cattr, 0);
    AT32(&dsm, nlb, 4);
    AT64(&dsm, slba, 8);

    pattern(&copy, sizeof(copy));
    AT64(&copy, slba, 8);
    AT16(&copy, nlb, 16);
    AT32(&copy, eilbrt, 24);
    AT16(&copy, elbat, 28);
    AT16(&copy, elbatm, 30);
}

static void log_page_command(void **state)
{
    struct fl_nvme_sqe sqe;
    memset(&sqe, 0, sizeof(sqe));
    literal((uint8_t *)&sqe + 40, 24,
            "0c0003080000000000000000000000000000000000000000"); /* ANA, 8208 bytes */
    assert_int_equal(fl_nvme_log_lid(&sqe), FL_NVME_LOG_ANA);
    assert_int_equal(fl_nvme_log_len(&sqe), 8208);
    assert_int_equal(fl_nvme_log_offset(&sqe), 0);

    struct fl_nvme_sqe again;
    memset(&again, 0, sizeof(again));
    literal((uint8_t *)&sqe + 40, 24,
            "7080ff000000000000000000000000000000000000000000"); /* discovery, RAE */
    fl_nvme_log_set(&again, FL_NVME_LOG_DISCOVERY, 0, true, 0, 1024);
    assert_memory_equal(&again, &sqe, sizeof(sqe));
    fl_nvme_log_set(&again, FL_NVME_LOG_ANA, 0x7f, false, 0x0102030405060708ull, 1ull << 34);
    literal((uint8_t *)&sqe + 40, 24, "0c7fffffffff000008070605040302010000000000000000");
    assert_memory_equal(&again, &sqe, sizeof(sqe));
    assert_int_equal(fl_nvme_log_len(&again), 1ull << 34);
    assert_int_equal(fl_nvme_log_offset(&again), 0x0102030405060708ull);
}

static void events(void **state)
{
    /* namespaces changed, as Linux told it */
    assert_int_equal(
        fl_nvme_aer_of(FL_NVME_AER_NOTICE, FL_NVME_AER_NOTICE_NS_CHANGED, FL_NVME_LOG_CHANGED_NS),
        0x00040002);
    assert_int_equal(fl_nvme_aer_type(0x0070f002), FL_NVME_AER_NOTICE);
    assert_int_equal(fl_nvme_aer_info(0x0070f002), FL_NVME_AER_NOTICE_DISC_CHANGED);
    assert_int_equal(fl_nvme_aer_log(0x0070f002), FL_NVME_LOG_DISCOVERY);
}

static void directions(void **state)
{
    assert_int_equal(fl_nvme_opcode_xfer(FL_NVME_CMD_WRITE), FL_NVME_XFER_TO_CTRL);
    assert_int_equal(fl_nvme_opcode_xfer(FL_NVME_CMD_READ), FL_NVME_XFER_TO_HOST);
    assert_int_equal(fl_nvme_opcode_xfer(FL_NVME_CMD_FLUSH), FL_NVME_XFER_NONE);
    assert_int_equal(fl_nvme_opcode_xfer(FL_NVME_CMD_COPY), FL_NVME_XFER_TO_CTRL);
    assert_int_equal(fl_nvme_opcode_xfer(FL_NVME_ADM_IDENTIFY), FL_NVME_XFER_TO_HOST);
}

static void status_texts(void **state)
{
    static const fl_nvme_status some[] = {0x000, 0x001, 0x024, 0x080, 0x084, 0x100, 0x12d,
                                          0x180, 0x184, 0x185, 0x190, 0x191, 0x280, 0x285,
                                          0x288, 0x300, 0x303, 0x360, 0x370, 0x371};
    for (size_t i = 0; i < sizeof(some) / sizeof(some[0]); i++) {
        assert_null(strstr(fl_nvme_status_text(some[i]), "unknown"));
        assert_string_equal(fl_nvme_status_text(some[i]),
                            fl_nvme_status_text(some[i] | FL_NVME_DNR | FL_NVME_MORE | FL_NVME_CRD_MASK));
    }
    for (unsigned status = 0; status < 0x10000; status++) { /* always something */
        assert_true(strlen(fl_nvme_status_text((fl_nvme_status)status)) > 0);
        assert_true(strlen(fl_nvme_io_status_text((fl_nvme_status)status)) > 0);
    }
    assert_string_not_equal(fl_nvme_status_text(0x182), fl_nvme_io_status_text(0x182));
    assert_string_equal(fl_nvme_status_text(0x7ff), "vendor specific status");
    assert_int_equal(fl_nvme_status_type(FL_NVME_DNR | 0x285), FL_NVME_SCT_MEDIA);
    assert_int_equal(fl_nvme_status_code(FL_NVME_DNR | 0x285), FL_NVME_SC_COMPARE_FAILED);
}

static void opcode_texts(void **state)
{
    assert_string_equal(fl_nvme_opcode_text(true, 0x06), "Identify");
    assert_string_equal(fl_nvme_opcode_text(false, 0x02), "Read");
    assert_string_equal(fl_nvme_opcode_text(true, 0x02), "Get Log Page");
    assert_non_null(strstr(fl_nvme_opcode_text(true, 0x7e), "unknown"));
    assert_non_null(strstr(fl_nvme_opcode_text(false, 0x7e), "unknown"));
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(queue_entries), cmocka_unit_test(completion), cmocka_unit_test(read_and_write),
        cmocka_unit_test(ranges), cmocka_unit_test(log_page_command), cmocka_unit_test(events),
        cmocka_unit_test(directions), cmocka_unit_test(status_texts), cmocka_unit_test(opcode_texts));
}
