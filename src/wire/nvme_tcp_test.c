/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/nvme_tcp.h"

#include <errno.h>

#include "wire/literal.h"

static const uint8_t types[] = {FL_TCP_IC_REQ, FL_TCP_IC_RESP,  FL_TCP_H2C_TERM, FL_TCP_C2H_TERM, FL_TCP_CMD,
                                FL_TCP_RESP,   FL_TCP_H2C_DATA, FL_TCP_C2H_DATA, FL_TCP_R2T};

/* From the specification, 3.6.2.2 to 3.6.2.10: who receives the type, its header's length, whether it may
 * bring data. */
static bool to_target(uint8_t type)
{
    return type == 0 || type == 2 || type == 4 || type == 6;
}

static uint8_t hlen_of(uint8_t type)
{
    return type <= 1 ? 128 : type == 4 ? 72 : 24;
}

static bool may_have_data(uint8_t type)
{
    return type == 4 || type == 6 || type == 7;
}

static bool of_setup(uint8_t type)
{
    return type <= 1;
}

static bool of_term(uint8_t type)
{
    return type == 2 || type == 3;
}

static struct fl_tcp_limits limits_for(uint8_t type, bool hdgst, bool ddgst, uint8_t pda)
{
    return (struct fl_tcp_limits){hdgst, ddgst, pda, 1u << 20, !of_setup(type)};
}

/* A right header of this type without data. */
static struct fl_tcp_hdr right(uint8_t type, const struct fl_tcp_limits *limits)
{
    bool digest = limits->hdgst && !of_setup(type) && !of_term(type);
    return (struct fl_tcp_hdr){type, digest ? 1 : 0, hlen_of(type), 0,
                               le32_of(hlen_of(type) + (digest ? 4u : 0u))};
}

static void good(const struct fl_tcp_hdr *hdr, const struct fl_tcp_limits *limits)
{
    struct fl_tcp_fault fault = {0, 0};
    assert_int_equal(
        fl_tcp_hdr_check(hdr, to_target(hdr->type) ? FL_TCP_TARGET : FL_TCP_HOST, limits, &fault), 0);
}

static void bad(const struct fl_tcp_hdr *hdr, const struct fl_tcp_limits *limits, uint16_t fes,
                uint32_t offset)
{
    struct fl_tcp_fault fault = {0, 0};
    assert_int_equal(
        fl_tcp_hdr_check(hdr, to_target(hdr->type) ? FL_TCP_TARGET : FL_TCP_HOST, limits, &fault), -EPROTO);
    assert_int_equal(fault.fes, fes);
    assert_int_equal(fault.offset, offset);
}

static void literal_ic(void **state)
{
    struct fl_tcp_ic_req req;
    struct fl_tcp_ic_resp resp;
    struct fl_tcp_ic ic;
    struct fl_tcp_fault fault;
    uint8_t again[128];

    memset(&req, 0, sizeof(req));
    literal(&req, 16, "000080008000000000001f03ffff0000"); /* HPDA 128 bytes, both digests, 65536 R2Ts */
    assert_int_equal(fl_tcp_ic_req_decode(&req, &ic, &fault), 0);
    assert_true(ic.hdgst && ic.ddgst);
    assert_int_equal(ic.pda, 128);
    assert_int_equal(ic.nr_r2t, 65536);
    fl_tcp_ic_req_encode((void *)again, &ic);
    assert_memory_equal(again, &req, 128);

    memset(&resp, 0, sizeof(resp));
    literal(&resp, 16, "01008000800000000000000100004000"); /* a Linux target with header digest: 4 MiB */
    struct fl_tcp_ic answer;
    assert_int_equal(fl_tcp_ic_resp_decode(&resp, &ic, &answer, &fault), 0);
    assert_true(answer.hdgst && !answer.ddgst);
    assert_int_equal(answer.pda, 4);
    assert_int_equal(answer.maxh2cdata, 4194304);
    fl_tcp_ic_resp_encode((void *)again, &answer);
    assert_memory_equal(again, &resp, 128);
}

static void literal_command_and_response(void **state)
{
    struct fl_tcp_cmd cmd;
    struct fl_tcp_resp resp;

    literal(&cmd, sizeof(cmd),
            "040048004800000002400500000000000000000000000000000000000000000000000000000000000004"
            "00000000005a7080ff000000000000000000000000000000000000000000");
    assert_int_equal(cmd.hdr.type, FL_TCP_CMD);
    assert_int_equal(cmd.hdr.hlen, 72);
    assert_int_equal(le32_get(cmd.hdr.plen), 72);
    assert_int_equal(cmd.sqe.opcode, FL_NVME_ADM_GET_LOG_PAGE);
    assert_int_equal(le16_get(cmd.sqe.cid), 5);
    assert_int_equal(cmd.sqe.sgl.type, FL_NVME_SGL_TRANSPORT);
    assert_int_equal(le32_get(cmd.sqe.sgl.len), 1024);

    literal(&resp, sizeof(resp),
            "050018001800000000000000000000000800010027000a05"); /* Compare: the data differ */
    assert_int_equal(resp.hdr.type, FL_TCP_RESP);
    assert_int_equal(le16_get(resp.cqe.sqhd), 8);
    assert_int_equal(le16_get(resp.cqe.sqid), 1);
    assert_int_equal(le16_get(resp.cqe.cid), 0x27);
    assert_int_equal(fl_nvme_cqe_status(&resp.cqe), FL_NVME_SC_COMPARE_FAILED);
}

static void literal_data_and_r2t(void **state)
{
    struct fl_tcp_data data;
    struct fl_tcp_r2t r2t;
    struct fl_tcp_fault fault;

    literal(&r2t, sizeof(r2t), "090018001800000016000500000000000000010000000000");
    assert_int_equal(r2t.hdr.type, FL_TCP_R2T);
    assert_int_equal(le16_get(r2t.cccid), 0x16);
    assert_int_equal(le16_get(r2t.ttag), 5);
    assert_int_equal(le32_get(r2t.r2to), 0);
    assert_int_equal(le32_get(r2t.r2tl), 65536);
    assert_int_equal(fl_tcp_r2t_check(&r2t, &fault), 0);
    r2t.r2tl = le32_of(0);
    assert_int_equal(fl_tcp_r2t_check(&r2t, &fault), -EPROTO);
    assert_int_equal(fault.fes, 1);
    assert_int_equal(fault.offset, 16);

    literal(&data, sizeof(data),
            "0604181818000100160005000010000000000100"
            "00000000"); /* H2CData, last, at 4096 */
    assert_int_equal(data.hdr.type, FL_TCP_H2C_DATA);
    assert_int_equal(data.hdr.flags, FL_TCP_F_DATA_LAST);
    assert_int_equal(data.hdr.pdo, 24);
    assert_int_equal(le16_get(data.cccid), 0x16);
    assert_int_equal(le16_get(data.ttag), 5);
    assert_int_equal(le32_get(data.datao), 4096);
    assert_int_equal(le32_get(data.datal), 65536);
    assert_int_equal(fl_tcp_data_len(&data.hdr), 65536);
    assert_int_equal(fl_tcp_data_check(&data, &fault), 0);
    data.datal = le32_of(65532);
    assert_int_equal(fl_tcp_data_check(&data, &fault), -EPROTO);
    assert_int_equal(fault.fes, 1);
    assert_int_equal(fault.offset, 16);

    literal(&data, sizeof(data),
            "0704181858000000650000000000000040000000"
            "00000000"); /* C2HData */
    assert_int_equal(data.hdr.type, FL_TCP_C2H_DATA);
    assert_int_equal(fl_tcp_data_len(&data.hdr), 64);
    assert_int_equal(fl_tcp_data_check(&data, &fault), 0);
}

static void literal_term(void **state)
{
    static const uint8_t offender[200] = {5, 0, 24, 0, 24};
    struct fl_tcp_fault fault = {FL_TCP_FES_HEADER, 0x01020304};
    struct fl_tcp_term term, want;
    uint8_t out[FL_TCP_TERM_PLEN_MAX];

    /* FEI stands at byte 10, straight after FES */
    literal(&want, sizeof(want), "030018002000000001000403020100000000000000000000");
    assert_int_equal(fl_tcp_term_encode(out, FL_TCP_TARGET, &fault, offender, 8), 32);
    memcpy(&term, out, sizeof(term));
    assert_memory_equal(&term, &want, sizeof(want));
    assert_memory_equal(out + 24, offender, 8);
    assert_int_equal(le16_get(term.fes), FL_TCP_FES_HEADER);
    assert_int_equal(le32_get(term.fei), 0x01020304);
    assert_int_equal(fl_tcp_data_len(&term.hdr), 8);

    literal(&want, sizeof(want),
            "020018009800000004000000000000000000000000000000"); /* no FEI for this status */
    fault.fes = FL_TCP_FES_RANGE;
    assert_int_equal(fl_tcp_term_encode(out, FL_TCP_HOST, &fault, offender, sizeof(offender)), 152);
    assert_memory_equal(out, &want, sizeof(want));
    assert_int_equal(fl_tcp_term_encode(out, FL_TCP_HOST, &fault, NULL, 8), 24);
}

static void type_by_role_and_phase(void **state)
{
    for (unsigned type = 0; type < 256; type++) {
        for (int role = 0; role < 2; role++) {
            for (int established = 0; established < 2; established++) {
                struct fl_tcp_limits limits = {false, false, 4, 4096, established};
                bool known = memchr(types, (int)type, sizeof(types));
                bool mine = known && to_target((uint8_t)type) == (role == FL_TCP_TARGET);
                bool now = of_term((uint8_t)type) || of_setup((uint8_t)type) == !established;
                struct fl_tcp_hdr hdr = right((uint8_t)type, &limits);
                struct fl_tcp_fault fault = {0, 0};
                int r = fl_tcp_hdr_check(&hdr, (enum fl_tcp_role)role, &limits, &fault);
                assert_int_equal(r, mine && now ? 0 : -EPROTO);
                assert_int_equal(fault.fes, !mine ? FL_TCP_FES_HEADER : !now ? FL_TCP_FES_SEQUENCE : 0);
                assert_int_equal(fault.offset, 0);
                assert_int_equal(fl_tcp_hlen((uint8_t)type), known ? hlen_of((uint8_t)type) : 0);
                assert_true(known != !strcmp(fl_tcp_type_text((uint8_t)type), "unknown PDU"));
            }
        }
    }
}

/* Case T4: a header length that lies, for each type in its role, header digest on and off. */
static void T4_header_length_lies(void **state)
{
    for (size_t t = 0; t < sizeof(types); t++) {
        for (int hdgst = 0; hdgst < 2; hdgst++) {
            struct fl_tcp_limits limits = limits_for(types[t], hdgst, false, 4);
            struct fl_tcp_hdr hdr = right(types[t], &limits);
            good(&hdr, &limits);
            for (unsigned hlen = 0; hlen < 256; hlen++) {
                if (hlen == hlen_of(types[t]))
                    continue;
                hdr.hlen = (uint8_t)hlen;
                bad(&hdr, &limits, FL_TCP_FES_HEADER, 2);
                hdr.plen = le32_of(hlen + (hdr.flags & 1 ? 4u : 0u)); /* PLEN in keeping with the lie */
                bad(&hdr, &limits, FL_TCP_FES_HEADER, 2);
                hdr.plen = right(types[t], &limits).plen;
            }
        }
    }
}

static void flags_of_each_type(void **state)
{
    for (size_t t = 0; t < sizeof(types); t++) {
        uint8_t type = types[t];
        for (unsigned digests = 0; digests < 4; digests++) {
            struct fl_tcp_limits limits = limits_for(type, digests & 1, digests & 2, 4);
            for (unsigned flags = 0; flags < 256; flags++) {
                bool data = may_have_data(type) && limits.ddgst;
                uint8_t start = (uint8_t)(hlen_of(type) + (flags & 1 ? 4 : 0));
                struct fl_tcp_hdr hdr = {type, (uint8_t)flags, hlen_of(type), 0, le32_of(start)};
                if (data) { /* the data digest comes with data only */
                    hdr.pdo = start;
                    hdr.plen = le32_of(start + 512 + 4u);
                }
                unsigned want = (limits.hdgst && !of_setup(type) && !of_term(type) ? 1u : 0) |
                                (data ? 2u : 0);
                unsigned may = type == FL_TCP_H2C_DATA ? 4 : type == FL_TCP_C2H_DATA ? 12 : 0;
                if ((flags & ~may) == want && (flags & 12) != 8)
                    good(&hdr, &limits);
                else
                    bad(&hdr, &limits, FL_TCP_FES_HEADER, 1);
            }
        }
    }
}

/* A digest of no data, and data without the digest agreed */
static void data_digest_only_with_data(void **state)
{
    struct fl_tcp_limits limits = limits_for(FL_TCP_CMD, false, true, 4);
    struct fl_tcp_hdr hdr = {FL_TCP_CMD, 0, 72, 0, le32_of(72)};
    good(&hdr, &limits);
    assert_int_equal(fl_tcp_data_len(&hdr), 0);
    hdr.flags = FL_TCP_F_DDGST;
    bad(&hdr, &limits, FL_TCP_FES_HEADER, 1);
    hdr = (struct fl_tcp_hdr){FL_TCP_CMD, FL_TCP_F_DDGST, 72, 72, le32_of(76)};
    bad(&hdr, &limits, FL_TCP_FES_HEADER, 4);
    hdr.plen = le32_of(77);
    good(&hdr, &limits);
    assert_int_equal(fl_tcp_data_len(&hdr), 1);
    hdr.flags = 0;
    bad(&hdr, &limits, FL_TCP_FES_HEADER, 1);
}

/* Every PDO against every alignment, by division here and by table there. */
static void data_offset_of_each_type(void **state)
{
    for (size_t t = 0; t < sizeof(types); t++) {
        uint8_t type = types[t];
        for (unsigned pda = 4; pda <= 128; pda += 4) {
            for (unsigned pdo = 0; pdo < 256; pdo++) {
                struct fl_tcp_limits limits = limits_for(type, pda & 4, false, (uint8_t)pda);
                struct fl_tcp_hdr hdr = right(type, &limits);
                unsigned start = le32_get(hdr.plen);
                hdr.pdo = (uint8_t)pdo;
                if (!may_have_data(type)) {
                    if (pdo)
                        bad(&hdr, &limits, FL_TCP_FES_HEADER, 3);
                    continue;
                }
                if (!pdo || pdo == start) /* no data: either way of saying so */
                    good(&hdr, &limits);
                else
                    bad(&hdr, &limits, FL_TCP_FES_HEADER, 3);
                hdr.plen = le32_of(start + 1000);
                if (pdo >= start && pdo % pda == 0) {
                    good(&hdr, &limits);
                    assert_int_equal(fl_tcp_data_len(&hdr), start + 1000 - pdo);
                    assert_int_equal(fl_tcp_data_offset(&hdr), pdo);
                } else {
                    bad(&hdr, &limits, FL_TCP_FES_HEADER, 3);
                }
            }
            for (unsigned pdo = 0; pdo < 256; pdo += pda) {
                if (pdo >= hlen_of(type)) {
                    assert_int_equal(fl_tcp_pdo(hlen_of(type), false, (uint8_t)pda), pdo);
                    break;
                }
            }
        }
    }
    assert_int_equal(fl_tcp_pdo(72, true, 4), 76);
    assert_int_equal(fl_tcp_pdo(24, true, 32), 32);
    assert_int_equal(fl_tcp_pdo(72, true, 128), 128);
}

static void pdu_length_of_each_type(void **state)
{
    static const uint32_t lens[] = {0,   1,   7,   8,    23,         25,         71,        73,
                                    127, 129, 153, 4096, 0x7fffffff, 0x80000000, 0xffffffff};
    for (size_t t = 0; t < sizeof(types); t++) {
        uint8_t type = types[t];
        struct fl_tcp_limits limits = limits_for(type, false, false, 4);
        struct fl_tcp_hdr hdr = right(type, &limits);
        for (size_t i = 0; i < sizeof(lens) / sizeof(lens[0]); i++) {
            hdr.plen = le32_of(lens[i]);
            if (may_have_data(type))
                bad(&hdr, &limits, FL_TCP_FES_HEADER, lens[i] < hlen_of(type) ? 4 : 3);
            else if (of_term(type) && lens[i] >= 24 && lens[i] <= 152)
                good(&hdr, &limits);
            else
                bad(&hdr, &limits, FL_TCP_FES_HEADER, 4);
        }
        if (!may_have_data(type))
            continue;
        hdr.pdo = hlen_of(type);
        limits.max_plen = 8192;
        hdr.plen = le32_of(8192);
        good(&hdr, &limits);
        hdr.plen = le32_of(8193);
        bad(&hdr, &limits, FL_TCP_FES_LIMIT, 4);
        hdr.plen = le32_of(0xffffffff);
        bad(&hdr, &limits, FL_TCP_FES_LIMIT, 4);
        hdr.pdo = 128;
        hdr.plen = le32_of(124); /* data would start behind the end */
        bad(&hdr, &limits, FL_TCP_FES_HEADER, 3);
        hdr.plen = le32_of(128); /* padding, then nothing */
        bad(&hdr, &limits, FL_TCP_FES_HEADER, 4);
    }
}

static void ic_faults(void **state)
{
    static const struct {
        unsigned at;
        uint8_t value;
        uint16_t fes;
        uint32_t offset;
    } req_cases[] = {{8, 1, 6, 8}, {9, 1, 6, 8}, {10, 32, 1, 10}, {10, 255, 1, 10}},
      resp_cases[] = {{8, 1, 6, 8},   {10, 32, 1, 10},   {11, 1, 1, 11},
                      {11, 2, 1, 11}, {13, 0x0f, 1, 12}, {12, 2, 1, 12}};
    struct fl_tcp_ic ic = {.pda = 4, .nr_r2t = 1, .maxh2cdata = 4096}, out;
    struct fl_tcp_fault fault;
    uint8_t bytes[128];

    for (size_t i = 0; i < sizeof(req_cases) / sizeof(req_cases[0]); i++) {
        fl_tcp_ic_req_encode((void *)bytes, &ic);
        bytes[req_cases[i].at] = req_cases[i].value;
        assert_int_equal(fl_tcp_ic_req_decode((void *)bytes, &out, &fault), -EPROTO);
        assert_int_equal(fault.fes, req_cases[i].fes);
        assert_int_equal(fault.offset, req_cases[i].offset);
    }
    for (size_t i = 0; i < sizeof(resp_cases) / sizeof(resp_cases[0]); i++) {
        fl_tcp_ic_resp_encode((void *)bytes, &ic);
        bytes[resp_cases[i].at] = resp_cases[i].value;
        assert_int_equal(fl_tcp_ic_resp_decode((void *)bytes, &ic, &out, &fault), -EPROTO);
        assert_int_equal(fault.fes, resp_cases[i].fes);
        assert_int_equal(fault.offset, resp_cases[i].offset);
    }
    fl_tcp_ic_req_encode((void *)bytes, &ic);
    memset(bytes + 12, 0xff, 4); /* MAXR2T 2^32 outstanding */
    assert_int_equal(fl_tcp_ic_req_decode((void *)bytes, &out, &fault), 0);
    assert_int_equal(out.nr_r2t, UINT32_MAX);
}

/* What fl_tcp_hdr_set makes passes the check, whatever was agreed. */
static void headers_set_are_right(void **state)
{
    for (unsigned mix = 0; mix < 4; mix++) {
        for (unsigned pda = 4; pda <= 128; pda += 4) {
            static const uint32_t lens[] = {0, 1, 512, 8192};
            for (size_t i = 0; i < 4; i++) {
                struct fl_tcp_limits limits = {mix & 1, mix & 2, (uint8_t)pda, 16384, true};
                struct fl_tcp_hdr hdr;
                uint32_t plen = fl_tcp_hdr_set(&hdr, FL_TCP_CMD, 0, 72, limits.hdgst, limits.ddgst,
                                               (uint8_t)pda, lens[i]);
                good(&hdr, &limits);
                assert_int_equal(plen, le32_get(hdr.plen));
                assert_int_equal(fl_tcp_data_len(&hdr), lens[i]);
            }
        }
    }
    struct fl_tcp_hdr hdr, want;
    literal(&want, 8, "0607181c20000100"); /* as in a capture with both digests */
    assert_int_equal(fl_tcp_hdr_set(&hdr, FL_TCP_H2C_DATA, FL_TCP_F_DATA_LAST, 24, true, true, 4, 65536),
                     65568);
    assert_memory_equal(&hdr, &want, 8);
}

static void texts(void **state)
{
    for (uint16_t fes = 1; fes <= 6; fes++)
        assert_null(strstr(fl_tcp_term_text(fes), "unknown"));
    assert_non_null(strstr(fl_tcp_term_text(0), "unknown"));
    assert_non_null(strstr(fl_tcp_term_text(7), "unknown"));
    assert_string_equal(fl_tcp_type_text(9), "R2T");
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(literal_ic), cmocka_unit_test(literal_command_and_response),
                       cmocka_unit_test(literal_data_and_r2t), cmocka_unit_test(literal_term),
                       cmocka_unit_test(type_by_role_and_phase), cmocka_unit_test(T4_header_length_lies),
                       cmocka_unit_test(flags_of_each_type), cmocka_unit_test(data_digest_only_with_data),
                       cmocka_unit_test(data_offset_of_each_type), cmocka_unit_test(pdu_length_of_each_type),
                       cmocka_unit_test(ic_faults), cmocka_unit_test(headers_set_are_right),
                       cmocka_unit_test(texts));
}
