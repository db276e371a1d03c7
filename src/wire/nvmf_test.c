/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvmf.h"

#include <errno.h>

#include "wire/literal.h"

static void literal_commands(void **state)
{
    struct fl_nvmf_connect_cmd connect;
    struct fl_nvmf_property_set_cmd set;
    struct fl_nvmf_property_get_cmd get;
    struct fl_nvme_sqe sqe;

    /* Connect of an admin queue, 32 entries, keep alive 5 s, as a Linux host sends it */
    literal(&connect, sizeof(connect),
            "7f400000010000000000000000000000000000000000000000000000000000000004000000000001"
            "000000001f0000008813000000000000"
            "0000000000000000");
    assert_int_equal(connect.opcode, FL_NVMF_OPCODE);
    assert_int_equal(connect.flags, FL_NVME_CMD_PSDT_SGL);
    assert_int_equal(connect.fctype, FL_NVMF_CONNECT);
    assert_int_equal(connect.sgl.type, FL_NVME_SGL_OFFSET);
    assert_int_equal(le32_get(connect.sgl.len), 1024);
    assert_int_equal(le16_get(connect.recfmt), 0);
    assert_int_equal(le16_get(connect.qid), 0);
    assert_int_equal(le16_get(connect.sqsize), 31);
    assert_int_equal(connect.cattr, 0);
    assert_int_equal(le32_get(connect.kato), 5000);
    memcpy(&sqe, &connect, sizeof(sqe));
    assert_int_equal(fl_nvmf_fctype(&sqe), FL_NVMF_CONNECT);
    assert_int_equal(fl_nvmf_xfer(&sqe), FL_NVME_XFER_TO_CTRL);

    literal(&set, sizeof(set), /* CC = 460060h */
            "7f40001000000000000000000000000000000000000000000000000000000000000000000000005a"
            "000000001400000060004600000000000000000000000000");
    assert_int_equal(set.fctype, FL_NVMF_PROPERTY_SET);
    assert_int_equal(set.attrib, FL_NVMF_PROPERTY_4);
    assert_int_equal(le32_get(set.ofst), FL_NVMF_PROP_CC);
    assert_int_equal(le64_get(set.value), 0x460060);
    assert_int_equal(fl_nvme_cc_css(0x460060), FL_NVME_CC_CSS_IOCS);
    assert_int_equal(fl_nvme_cc_iosqes(0x460060), 6);
    assert_int_equal(fl_nvme_cc_iocqes(0x460060), 4);

    literal(&get, sizeof(get), /* CAP */
            "7f40010004000000000000000000000000000000000000000000000000000000000000000000005a"
            "010000000000000000000000000000000000000000000000");
    assert_int_equal(get.fctype, FL_NVMF_PROPERTY_GET);
    assert_int_equal(get.attrib, FL_NVMF_PROPERTY_8);
    assert_int_equal(le32_get(get.ofst), FL_NVMF_PROP_CAP);
    memcpy(&sqe, &get, sizeof(sqe));
    assert_int_equal(fl_nvmf_xfer(&sqe), FL_NVME_XFER_NONE);
}

static void places(void **state)
{
    struct fl_nvmf_cmd cmd;
    struct fl_nvmf_connect_cmd connect;
    struct fl_nvmf_connect_data data;
    struct fl_nvmf_property_set_cmd set;
    struct fl_nvmf_property_get_cmd get;
    struct fl_nvmf_disconnect_cmd disconnect;
    struct fl_nvmf_auth_cmd auth;

    pattern(&cmd, sizeof(cmd));
    AT8(&cmd, opcode, 0);
    AT16(&cmd, cid, 2);
    AT8(&cmd, fctype, 4);
    AT64(&cmd, sgl.addr, 24);
    pattern(&connect, sizeof(connect));
    AT8(&connect, fctype, 4);
    AT16(&connect, recfmt, 40);
    AT16(&connect, qid, 42);
    AT16(&connect, sqsize, 44);
    AT8(&connect, cattr, 46);
    AT32(&connect, kato, 48);
    pattern(&data, sizeof(data));
    AT8(&data, hostid[0], 0);
    AT16(&data, cntlid, 16);
    AT8(&data, subnqn[0], 256);
    AT8(&data, hostnqn[255], 767);
    pattern(&set, sizeof(set));
    AT8(&set, attrib, 40);
    AT32(&set, ofst, 44);
    AT64(&set, value, 48);
    pattern(&get, sizeof(get));
    AT8(&get, attrib, 40);
    AT32(&get, ofst, 44);
    pattern(&disconnect, sizeof(disconnect));
    AT16(&disconnect, recfmt, 40);
    pattern(&auth, sizeof(auth));
    AT8(&auth, spsp0, 41);
    AT8(&auth, spsp1, 42);
    AT8(&auth, secp, 43);
    AT32(&auth, len, 44);
}

static void connect_answers(void **state)
{
    struct fl_nvme_cqe cqe;
    literal(&cqe, sizeof(cqe),
            "01000200000000000100000000000000"); /* controller 1, authentication required */
    assert_int_equal(fl_nvmf_connect_cntlid(&cqe), 1);
    assert_true(le32_get(cqe.dw0) & FL_NVMF_AUTHREQ_ATR);
    literal(&cqe, sizeof(cqe), "00010100000000000000000000000483"); /* no such subsystem: data at byte 256 */
    assert_int_equal(le32_get(cqe.dw0), fl_nvmf_connect_invalid(true, 256));
    assert_int_equal(fl_nvmf_connect_invalid(false, 44), 44);
    literal(&cqe, sizeof(cqe), "ff03000f200800000200000001000000"); /* CAP of a Linux target */
    uint64_t cap = fl_nvmf_property_value(&cqe);
    assert_int_equal(fl_nvme_cap_nr_entries(cap), 1024);
    assert_int_equal(fl_nvme_cap_timeout_ms(cap), 7500);
    assert_int_equal(fl_nvme_cap_page_shift(cap), 12);
    assert_true(cap & FL_NVME_CAP_CSS_NVM && cap & FL_NVME_CAP_CSS_IOCS && !(cap & FL_NVME_CAP_CSS_ADMIN));
}

static void registers(void **state)
{
    uint32_t cc = 0x00464061; /* 460061h with SHN 1, as at shutdown */
    assert_int_equal(fl_nvme_cc_shn(cc), FL_NVME_CC_SHN_NORMAL);
    assert_int_equal(fl_nvme_cc_mps(0x780), 15);
    assert_int_equal(fl_nvme_cc_ams(0x3800), 7);
    assert_int_equal(fl_nvme_csts_shst(8), FL_NVME_CSTS_SHST_COMPLETE);
    assert_int_equal(FL_NVME_VS_OF(1, 3, 0), 0x00010300);
}

static void connect_data(void **state)
{
    static const uint8_t hostid[16] = {0, 0, 0, 0, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, 0x12};
    struct fl_nvmf_connect_data data, want;
    char longest[FL_NVME_NQN_MAX + 2];
    uint32_t offset = 0;

    memset(&want, 0, sizeof(want));
    literal(&want, 18, "00000000000040008000000000000012ffff");
    literal((uint8_t *)&want + 256, 36,
            "6e716e2e323031342d30382e6f72672e6e766d657870726573732e646973636f76657279");
    literal((uint8_t *)&want + 512, 12, "6e716e2e323032362d30312e");
    assert_int_equal(fl_nvmf_connect_data_encode(&data, hostid, FL_NVMF_CNTLID_DYNAMIC, FL_NVME_DISCOVERY_NQN,
                                                 "nqn.2026-01."),
                     0);
    assert_memory_equal(&data, &want, sizeof(data));
    assert_int_equal(fl_nvmf_connect_data_check(&data, &offset), 0);

    memset(longest, 'n', sizeof(longest) - 1);
    longest[FL_NVME_NQN_MAX + 1] = '\0';
    assert_int_equal(fl_nvmf_connect_data_encode(&data, hostid, 1, longest, "h"), -EINVAL);
    longest[FL_NVME_NQN_MAX] = '\0';
    assert_int_equal(fl_nvmf_connect_data_encode(&data, hostid, 1, longest, "h"), 0);
    assert_int_equal(fl_nvmf_connect_data_check(&data, &offset), 0);
    assert_int_equal(fl_nvmf_connect_data_encode(&data, hostid, 1, "", "h"), -EINVAL);
    assert_int_equal(fl_nvmf_connect_data_encode(&data, hostid, 1, "s", ""), -EINVAL);

    data.subnqn[FL_NVME_NQN_MAX] = 'n'; /* 224 bytes */
    assert_int_equal(fl_nvmf_connect_data_check(&data, &offset), -EPROTO);
    assert_int_equal(offset, 256);
    memset(data.subnqn, 'n', sizeof(data.subnqn)); /* never ended */
    assert_int_equal(fl_nvmf_connect_data_check(&data, &offset), -EPROTO);
    assert_int_equal(offset, 256);
    assert_true(fl_nvmf_nqn_field_ok("nqn", 4));
    assert_false(fl_nvmf_nqn_field_ok("nqn", 3)); /* fills its field, no NUL */
    data.subnqn[1] = '\0';
    data.hostnqn[0] = '\0';
    assert_int_equal(fl_nvmf_connect_data_check(&data, &offset), -EPROTO);
    assert_int_equal(offset, 512);
}

static void texts(void **state)
{
    assert_string_equal(fl_nvmf_fctype_text(1), "Connect");
    assert_non_null(strstr(fl_nvmf_fctype_text(2), "unknown"));
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(literal_commands), cmocka_unit_test(places),
                       cmocka_unit_test(connect_answers), cmocka_unit_test(registers),
                       cmocka_unit_test(connect_data), cmocka_unit_test(texts));
}
