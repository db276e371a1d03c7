/* SPDX-License-Identifier: Apache-2.0 */
/* Private data and descriptors as Linux sent them (rdma-basic.pcap), and what must not pass. */
#include "wire/nvme_rdma.h"

#include <errno.h>

#include "wire/literal.h"

static void literal_req(void **state)
{
    uint8_t bytes[56] = {0}; /* what librdmacm hands on: padded with zeroes */
    struct fl_nvme_rdma_req req;
    struct fl_nvme_rdma_ask ask;

    literal(bytes, 10,
            "00000000"
            "20001f000000");
    assert_int_equal(fl_nvme_rdma_req_decode(bytes, sizeof(bytes), &ask), 0);
    assert_int_equal(ask.qid, 0);
    assert_int_equal(ask.nr_recv, 32);
    assert_int_equal(ask.nr_send, 32);
    assert_int_equal(ask.cntlid, 0);
    fl_nvme_rdma_req_encode(&req, &ask);
    assert_memory_equal(&req, bytes, sizeof(req));

    literal(bytes, 10,
            "00000300"
            "80007f000201");
    assert_int_equal(fl_nvme_rdma_req_decode(bytes, sizeof(bytes), &ask), 0);
    assert_int_equal(ask.qid, 3);
    assert_int_equal(ask.nr_recv, 128);
    assert_int_equal(ask.nr_send, 128);
    assert_int_equal(ask.cntlid, 0x102);
    fl_nvme_rdma_req_encode(&req, &ask);
    assert_memory_equal(&req, bytes, sizeof(req));
}

static uint16_t sts_of(const char *hex, size_t len)
{
    uint8_t bytes[32] = {0};
    struct fl_nvme_rdma_ask ask;

    literal(bytes, 10, hex);
    return fl_nvme_rdma_req_decode(bytes, len, &ask);
}

static void req_refused(void **state)
{
    struct fl_nvme_rdma_ask ask;

    assert_int_equal(fl_nvme_rdma_req_decode(NULL, 0, &ask), FL_NVME_RDMA_INVALID_LEN);
    assert_int_equal(sts_of("0000000020001f000000", 31), FL_NVME_RDMA_INVALID_LEN);
    assert_int_equal(sts_of("0000000020001f000000", 32), 0);
    assert_int_equal(sts_of("0100000020001f000000", 32), FL_NVME_RDMA_INVALID_RECFMT);
    assert_int_equal(sts_of("00000000200020000000", 32), FL_NVME_RDMA_INVALID_HSQSIZE);
    assert_int_equal(sts_of("00000000200000000000", 32), FL_NVME_RDMA_INVALID_HSQSIZE);
    assert_int_equal(sts_of("000000001e001f000000", 32), FL_NVME_RDMA_INVALID_HRQSIZE);
    assert_int_equal(sts_of("000000001f001f000000", 32), 0);
    assert_int_equal(sts_of("00000100ffffffff0000", 32), 0); /* 65536 entries: the target decides */
}

static void literal_rep_and_rej(void **state)
{
    uint8_t bytes[32] = {0};
    struct fl_nvme_rdma_rep rep;
    struct fl_nvme_rdma_rej rej;
    uint32_t nr_recv;
    uint16_t sts;

    literal(bytes, 4, "00002000");
    assert_int_equal(fl_nvme_rdma_rep_decode(bytes, sizeof(bytes), &nr_recv), 0);
    assert_int_equal(nr_recv, 32);
    fl_nvme_rdma_rep_encode(&rep, 32);
    assert_memory_equal(&rep, bytes, sizeof(rep));
    assert_int_equal(fl_nvme_rdma_rep_decode(bytes, 31, &nr_recv), -EPROTO);
    assert_int_equal(fl_nvme_rdma_rep_decode(NULL, 32, &nr_recv), -EPROTO);
    bytes[0] = 1;
    assert_int_equal(fl_nvme_rdma_rep_decode(bytes, sizeof(bytes), &nr_recv), -EPROTO);

    literal(bytes, 4, "00000600");
    assert_int_equal(fl_nvme_rdma_rej_decode(bytes, 4, &sts), 0);
    assert_int_equal(sts, FL_NVME_RDMA_NO_RESOURCES);
    assert_string_equal(fl_nvme_rdma_sts_text(sts), "no resources");
    assert_string_equal(fl_nvme_rdma_sts_text(0), "unknown status");
    assert_string_equal(fl_nvme_rdma_sts_text(10), "unknown status");
    fl_nvme_rdma_rej_encode(&rej, 6);
    assert_memory_equal(&rej, bytes, sizeof(rej));
    assert_int_equal(fl_nvme_rdma_rej_decode(bytes, 3, &sts), -EPROTO);
}

static fl_nvme_status decode(const char *hex, uint32_t capsule_len, struct fl_nvme_rdma_data *data)
{
    struct fl_nvme_sqe sqe = {0};

    literal(&sqe.sgl, sizeof(sqe.sgl), hex);
    return fl_nvme_rdma_data_decode(&sqe, capsule_len, data);
}

static void keyed(void **state)
{
    struct fl_nvme_rdma_data data;
    struct fl_nvme_sqe sqe = {0};
    uint8_t want[16];

    assert_int_equal(decode("0010203040506070"
                            "563412"
                            "efbeadde"
                            "40",
                            0, &data),
                     0);
    assert_int_equal(data.len, 0x123456);
    assert_int_equal(data.addr, 0x7060504030201000);
    assert_int_equal(data.key, 0xdeadbeef);
    assert_false(data.invalidate);
    assert_false(data.in_capsule);
    assert_int_equal(decode("0010203040506070"
                            "563412"
                            "efbeadde"
                            "4f",
                            0, &data),
                     0);
    assert_true(data.invalidate);
    assert_int_equal(decode("0000000000000000"
                            "000000"
                            "00000000"
                            "4f",
                            0, &data),
                     0);
    assert_int_equal(data.len, 0);
    assert_false(data.invalidate);

    literal(want, 16,
            "0010203040506070"
            "563412"
            "efbeadde"
            "40");
    fl_nvme_rdma_sgl_keyed(&sqe, 0x7060504030201000, 0x123456, 0xdeadbeef);
    assert_memory_equal(&sqe.sgl, want, 16);
    literal(want, 16,
            "0000000000000000"
            "000000"
            "00000000"
            "40");
    fl_nvme_rdma_sgl_none(&sqe);
    assert_memory_equal(&sqe.sgl, want, 16);
}

static void in_capsule(void **state)
{
    struct fl_nvme_rdma_data data;
    struct fl_nvme_sqe sqe = {0};
    uint8_t want[16];

    assert_int_equal(decode("0000000000000000"
                            "00100000"
                            "000000"
                            "01",
                            4096, &data),
                     0);
    assert_true(data.in_capsule);
    assert_int_equal(data.len, 4096);
    assert_int_equal(data.offset, 0);
    assert_int_equal(decode("0008000000000000"
                            "00080000"
                            "000000"
                            "01",
                            4096, &data),
                     0);
    assert_int_equal(data.offset, 2048);
    assert_int_equal(decode("0000000000000000"
                            "01100000"
                            "000000"
                            "01",
                            4096, &data),
                     FL_NVME_SC_SGL_INVALID_DATA);
    assert_int_equal(decode("0010000000000000"
                            "01000000"
                            "000000"
                            "01",
                            4096, &data),
                     FL_NVME_SC_SGL_INVALID_DATA);
    assert_int_equal(decode("0110000000000000"
                            "00000000"
                            "000000"
                            "01",
                            4096, &data),
                     FL_NVME_SC_SGL_INVALID_OFFSET);
    assert_int_equal(decode("ffffffffffffffff"
                            "02000000"
                            "000000"
                            "01",
                            4096, &data),
                     FL_NVME_SC_SGL_INVALID_OFFSET);
    assert_int_equal(decode("0100000000000000"
                            "ffffffff"
                            "000000"
                            "01",
                            4096, &data),
                     FL_NVME_SC_SGL_INVALID_DATA);

    literal(want, 16,
            "0000000000000000"
            "00100000"
            "000000"
            "01");
    fl_nvme_rdma_sgl_capsule(&sqe, 4096);
    assert_memory_equal(&sqe.sgl, want, 16);
}

static void other_types(void **state)
{
    struct fl_nvme_rdma_data data;

    assert_int_equal(decode("0000000000000000"
                            "00000000"
                            "000000"
                            "00",
                            0, &data),
                     0);
    assert_int_equal(data.len, 0);
    assert_int_equal(decode("0000000000000000"
                            "01000000"
                            "000000"
                            "00",
                            0, &data),
                     FL_NVME_SC_SGL_INVALID_TYPE);
    assert_int_equal(decode("0000000000000000"
                            "00100000"
                            "000000"
                            "5a",
                            0, &data),
                     FL_NVME_SC_SGL_INVALID_TYPE);
    assert_int_equal(decode("0000000000000000" /* a segment that is not the last */
                            "20000000"
                            "000000"
                            "21",
                            32, &data),
                     FL_NVME_SC_SGL_INVALID_TYPE);
    assert_int_equal(decode("0000000000000000" /* and one in the host's memory */
                            "20000000"
                            "000000"
                            "30",
                            32, &data),
                     FL_NVME_SC_SGL_INVALID_TYPE);
    assert_int_equal(decode("0000000000000000"
                            "00100000"
                            "000000"
                            "41",
                            0, &data),
                     FL_NVME_SC_SGL_INVALID_TYPE);
}

#define PIECE_1        \
    "0010203040506070" \
    "563412"           \
    "efbeadde"         \
    "40"
#define PIECE_2        \
    "0000000000000100" \
    "000200"           \
    "01000000"         \
    "4f"
#define PIECE_3        \
    "0000000000000200" \
    "000000"           \
    "02000000"         \
    "4f"

static void several_pieces(void **state)
{
    struct fl_nvme_rdma_piece pieces[3];
    struct fl_nvme_rdma_data data;
    struct fl_nvme_keyed_sgl sgl;
    struct fl_nvme_sqe sqe = {0};
    uint8_t behind[48], want[16];

    literal(behind, 48, PIECE_1 PIECE_2 PIECE_3);
    assert_int_equal(decode("0000000000000000"
                            "30000000"
                            "000000"
                            "31",
                            48, &data),
                     0);
    assert_int_equal(data.nr_pieces, 3);
    assert_int_equal(fl_nvme_rdma_pieces_decode(behind, 3, &data, pieces), 0);
    assert_int_equal(data.len, 0x123456 + 512);
    assert_int_equal(pieces[0].addr, 0x7060504030201000);
    assert_int_equal(pieces[0].len, 0x123456);
    assert_int_equal(pieces[0].key, 0xdeadbeef);
    assert_int_equal(pieces[1].len, 512);
    assert_true(data.invalidate);
    assert_int_equal(data.invalidate_key, 1); /* that of no bytes does not count */
    data.len = 0;
    assert_int_equal(fl_nvme_rdma_pieces_decode(behind, 2, &data, pieces), FL_NVME_SC_SGL_INVALID_COUNT);
    behind[31] = FL_NVME_SGL_OFFSET;
    assert_int_equal(fl_nvme_rdma_pieces_decode(behind, 3, &data, pieces), FL_NVME_SC_SGL_INVALID_TYPE);

    assert_int_equal(decode("1000000000000000"
                            "10000000"
                            "000000"
                            "31",
                            48, &data),
                     FL_NVME_SC_SGL_INVALID_OFFSET);
    assert_int_equal(decode("0000000000000000"
                            "40000000"
                            "000000"
                            "31",
                            48, &data),
                     FL_NVME_SC_SGL_INVALID_SEGMENT);
    assert_int_equal(decode("0000000000000000"
                            "00000000"
                            "000000"
                            "31",
                            48, &data),
                     FL_NVME_SC_SGL_INVALID_SEGMENT);
    assert_int_equal(decode("0000000000000000"
                            "18000000"
                            "000000"
                            "31",
                            48, &data),
                     FL_NVME_SC_SGL_INVALID_SEGMENT);

    fl_nvme_rdma_sgl_pieces(&sqe, 3);
    literal(want, 16,
            "0000000000000000"
            "30000000"
            "000000"
            "31");
    assert_memory_equal(&sqe.sgl, want, 16);
    fl_nvme_rdma_sgl_piece(&sgl, 0x7060504030201000, 0x123456, 0xdeadbeef);
    literal(want, 16, PIECE_1);
    assert_memory_equal(&sgl, want, 16);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(several_pieces),      cmocka_unit_test(literal_req), cmocka_unit_test(req_refused),
        cmocka_unit_test(literal_rep_and_rej), cmocka_unit_test(keyed),       cmocka_unit_test(in_capsule),
        cmocka_unit_test(other_types),
    };
    return cmocka_run_group_tests_name("nvme_rdma", tests, NULL, NULL);
}
