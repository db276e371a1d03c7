/* SPDX-License-Identifier: Apache-2.0 */
/* The whole target over NVMe/TCP in memory: the engine and what stands behind it, byte by byte where it
 * matters. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "fabric/test_host.h"
#include "target/test_bed.h"

#define NS_LEN (4u << 20)

struct queue {
    struct bed *bed;
    struct fl_pair *pair;
    struct test_host host;
    uint16_t cntlid;
};

static uint8_t pattern[NS_LEN];

static struct queue *queue_open(struct bed *bed)
{
    struct fl_listen_options options = {.handler = &fl_target_handler, .hdgst = true, .ddgst = true};
    struct queue *q = calloc(1, sizeof(*q));
    struct fl_tport *port;

    q->bed = bed;
    options.loop = bed->loops[0];
    options.pool = bed->target->admin_pool;
    fl_list_for_each (port, &bed->target->ports, link)
        if (port->id == bed->port_id)
            options.listener_user = port;
    assert_int_equal(fl_pair_create(&options, &q->pair), 0);
    test_host_init(&q->host, q->pair);
    return q;
}

/* Moves bytes and turns the target until both have nothing to do. */
static void settle(struct queue *q)
{
    int before;

    do {
        before = q->host.nr;
        test_host_pump(&q->host);
        bed_turn(q->bed);
        test_host_pump(&q->host);
    } while (q->host.nr != before || fl_pair_pending(q->pair));
}

/* Until the host has got nr PDUs; the back end may take its time. */
static void settle_until(struct queue *q, int nr)
{
    for (int i = 0; i < 2000 && q->host.nr < nr; i++) {
        settle(q);
        if (q->host.nr < nr)
            bed_sleep(q->bed, 1);
    }
    assert_true(q->host.nr >= nr);
}

static struct fl_nvme_sqe connect_sqe(uint16_t qid, uint8_t sgl_type)
{
    struct fl_nvmf_connect_cmd cmd = {.opcode = FL_NVMF_OPCODE,
                                      .flags = FL_NVME_CMD_PSDT_SGL,
                                      .fctype = FL_NVMF_CONNECT,
                                      .qid = le16_of(qid),
                                      .sqsize = le16_of(31)};
    struct fl_nvme_sqe sqe;

    memcpy(&sqe, &cmd, sizeof(sqe));
    sqe.sgl = (struct fl_nvme_sgl){.len = le32_of(sizeof(struct fl_nvmf_connect_data)), .type = sgl_type};
    return sqe;
}

static struct queue *queue_connect(struct bed *bed, uint16_t qid, uint16_t cntlid, bool digests)
{
    struct queue *q = queue_open(bed);
    struct fl_nvme_sqe sqe = connect_sqe(qid, FL_NVME_SGL_OFFSET);
    struct fl_nvmf_connect_data data;
    uint8_t hostid[16] = "host identifier";
    struct test_host_pdu *got;

    test_host_ic(&q->host, digests, digests, 4, 1);
    assert_int_equal(fl_nvmf_connect_data_encode(&data, hostid, cntlid, BED_NQN, BED_HOST), 0);
    test_host_cmd(&q->host, &sqe, &data, sizeof(data));
    settle(q);
    got = test_host_expect(&q->host, FL_TCP_RESP);
    assert_int_equal(fl_nvme_cqe_status(&got->pdu.resp.cqe), 0);
    q->cntlid = (uint16_t)le32_get(got->pdu.resp.cqe.dw0);
    return q;
}

static void queue_close(struct queue *q)
{
    if (!q)
        return;
    fl_pair_cut(q->pair);
    for (int i = 0; i < 2000 && !fl_pair_closed(q->pair); i++)
        bed_sleep(q->bed, 1);
    assert_true(fl_pair_closed(q->pair));
    bed_turn(q->bed);
    fl_pair_destroy(q->pair);
    test_host_fini(&q->host);
    free(q);
}

static void enable(struct queue *admin)
{
    struct fl_nvmf_property_set_cmd cmd = {
        .opcode = FL_NVMF_OPCODE,
        .flags = FL_NVME_CMD_PSDT_SGL,
        .fctype = FL_NVMF_PROPERTY_SET,
        .ofst = le32_of(FL_NVMF_PROP_CC),
        .value = le64_of(FL_NVME_CC_EN | 6u << FL_NVME_CC_IOSQES_SHIFT | 4u << FL_NVME_CC_IOCQES_SHIFT)};
    struct fl_nvme_sqe sqe;

    memcpy(&sqe, &cmd, sizeof(sqe));
    test_host_cmd(&admin->host, &sqe, NULL, 0);
    settle(admin);
    test_host_expect_resp(&admin->host, 0, 0);
}

static struct fl_nvme_sqe rw_sqe(uint8_t opcode, uint16_t cid, uint32_t nsid, uint32_t at, uint32_t len,
                                 uint8_t sgl_type)
{
    struct fl_nvme_sqe sqe = test_host_sqe(opcode, cid, sgl_type, len);

    sqe.nsid = le32_of(nsid);
    fl_nvme_rw_set(&sqe, at / 512, len / 512, 0);
    return sqe;
}

static void write_at(struct queue *q, uint32_t nsid, uint32_t at, uint32_t len, bool in_capsule)
{
    struct fl_nvme_sqe sqe = rw_sqe(FL_NVME_CMD_WRITE, 3, nsid, at, len,
                                    in_capsule ? FL_NVME_SGL_OFFSET : FL_NVME_SGL_TRANSPORT);

    test_host_cmd(&q->host, &sqe, pattern + at, in_capsule ? len : 0);
    settle_until(q, q->host.seen + 1);
    if (!in_capsule) {
        uint16_t tag = le16_get(test_host_expect(&q->host, FL_TCP_R2T)->pdu.r2t.ttag);

        test_host_data(&q->host, 3, tag, 0, pattern + at, len, true);
        settle_until(q, q->host.seen + 1);
    }
    test_host_expect_resp(&q->host, 3, 0);
}

static void read_at(struct queue *q, uint32_t nsid, uint32_t at, uint32_t len)
{
    struct fl_nvme_sqe sqe = rw_sqe(FL_NVME_CMD_READ, 4, nsid, at, len, FL_NVME_SGL_TRANSPORT);
    struct test_host_pdu *got;

    test_host_cmd(&q->host, &sqe, NULL, 0);
    settle_until(q, q->host.seen + 2);
    got = test_host_expect(&q->host, FL_TCP_C2H_DATA);
    assert_true(got->digest_ok);
    assert_int_equal(got->len, len);
    assert_memory_equal(got->data, pattern + at, len);
    test_host_expect_resp(&q->host, 4, 0);
}

static uint64_t pool_used(struct bed *bed)
{
    struct fl_pool_stats stats;

    fl_pool_stats(bed->target->workers[0].pool, &stats);
    return stats.used_len;
}

static char file_path[64];

static char *file_spec(char *spec, size_t len)
{
    int fd;

    strcpy(file_path, "/tmp/fl_pair_test.XXXXXX");
    fd = mkstemp(file_path);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, NS_LEN), 0);
    close(fd);
    snprintf(spec, len, "file:%s,bs=512", file_path);
    return spec;
}

static void writes_and_reads_at_every_split(void **state)
{
    static const size_t chunks[] = {0, 1, 24, 28, 71, 100, 4096};
    static const uint32_t sizes[] = {512, 4096, 8192, 8704, 131072};

    for (int file = 0; file < 2; file++) {
        struct bed *bed = bed_new(1, NULL);
        char spec[100];
        uint32_t nsid = bed_add_ns(bed, file ? file_spec(spec, sizeof(spec)) : "ram:4M,bs=512");

        for (size_t i = 0; i < FL_ARRAY_LEN(chunks); i++) {
            struct queue *admin = queue_connect(bed, 0, 0xffff, i % 2), *io;

            enable(admin);
            io = queue_connect(bed, 1, admin->cntlid, i % 2);
            io->host.feed_chunk = io->host.take_chunk = chunks[i];
            for (size_t k = 0; k < FL_ARRAY_LEN(sizes); k++) {
                write_at(io, nsid, (uint32_t)(i * 512 + k * 200 * 1024), sizes[k], sizes[k] <= 8192);
                read_at(io, nsid, (uint32_t)(i * 512 + k * 200 * 1024), sizes[k]);
                write_at(io, nsid, (uint32_t)(i * 1024 + k * 200 * 1024), sizes[k], false);
                read_at(io, nsid, (uint32_t)(i * 1024 + k * 200 * 1024), sizes[k]);
            }
            queue_close(io);
            queue_close(admin);
        }
        assert_int_equal(pool_used(bed), 0);
        bed_free(bed);
        if (file)
            unlink(file_path);
    }
}

/* Connect brings no data in its capsule, which it must: data that follows was not asked for. */
static void case_T5_connect_without_data(void **state)
{
    for (int tag = 0; tag < 0x10000; tag += 0x5555) {
        struct bed *bed = bed_new(1, NULL);
        struct queue *q = queue_open(bed);
        struct fl_nvme_sqe sqe = connect_sqe(0, FL_NVME_SGL_TRANSPORT);

        test_host_ic(&q->host, false, false, 4, 1);
        test_host_cmd(&q->host, &sqe, NULL, 0);
        settle(q);
        assert_int_equal(q->host.nr, 2);
        if (q->host.pdus[1].pdu.hdr.type == FL_TCP_RESP)
            assert_int_not_equal(fl_nvme_cqe_status(&q->host.pdus[1].pdu.resp.cqe), 0);
        q->host.seen = 2;
        test_host_data(&q->host, 0, (uint16_t)tag, 0, pattern, 1024, true);
        settle(q);
        test_host_expect_term(&q->host, FL_TCP_FES_HEADER);
        queue_close(q);
        bed_free(bed);
    }
}

static void case_T6_sgl_of_4_gib(void **state)
{
    struct bed *bed = bed_new(1, NULL);
    uint32_t nsid = bed_add_ns(bed, "ram:4M,bs=512");
    struct queue *admin = queue_connect(bed, 0, 0xffff, false), *io;
    static const uint32_t lens[] = {0xffffffff, 0xfffffe00, 0x80000000, (1 << 20) + 512};

    enable(admin);
    io = queue_connect(bed, 1, admin->cntlid, false);
    for (size_t i = 0; i < FL_ARRAY_LEN(lens); i++)
        for (uint8_t opcode = FL_NVME_CMD_WRITE; opcode <= FL_NVME_CMD_READ; opcode++) {
            struct fl_nvme_sqe sqe = rw_sqe(opcode, 1, nsid, 0, 65536 * 512u, FL_NVME_SGL_TRANSPORT);
            struct test_host_pdu *got;

            sqe.sgl.len = le32_of(lens[i]);
            test_host_cmd(&io->host, &sqe, NULL, 0);
            settle(io);
            got = test_host_expect(&io->host, FL_TCP_RESP);
            assert_int_not_equal(fl_nvme_cqe_status(&got->pdu.resp.cqe), 0);
            assert_int_equal(pool_used(bed), 0);
        }
    write_at(io, nsid, 0, 4096, false);
    queue_close(io);
    queue_close(admin);
    bed_free(bed);
}

/* One command's data is wrong; 31 others run, and nothing of the bad data is kept. */
static void case_T11_data_digest_error(void **state)
{
    struct bed *bed = bed_new(1, NULL);
    uint32_t nsid = bed_add_ns(bed, "ram:4M,bs=512");
    struct queue *admin = queue_connect(bed, 0, 0xffff, true), *io;
    struct fl_nvme_sqe sqe;
    uint16_t tags[31];
    uint8_t bad[4096];

    enable(admin);
    io = queue_connect(bed, 1, admin->cntlid, true);
    write_at(io, nsid, 0, 4096, true);
    for (uint16_t i = 0; i < 31; i++) {
        sqe = rw_sqe(FL_NVME_CMD_WRITE, i, nsid, 65536u + i * 4096u, 4096, FL_NVME_SGL_TRANSPORT);
        test_host_cmd(&io->host, &sqe, NULL, 0);
        settle(io);
        tags[i] = le16_get(test_host_expect(&io->host, FL_TCP_R2T)->pdu.r2t.ttag);
    }
    memcpy(bad, pattern + 4096, sizeof(bad));
    sqe = rw_sqe(FL_NVME_CMD_WRITE, 99, nsid, 0, 4096, FL_NVME_SGL_OFFSET);
    test_host_cmd(&io->host, &sqe, bad, sizeof(bad));
    bad[77] ^= 2;
    settle(io);
    test_host_expect_resp(&io->host, 99, FL_NVME_SC_TRANSIENT_TRANSPORT);
    for (uint16_t i = 0; i < 31; i++) {
        test_host_data(&io->host, i, tags[i], 0, pattern + 65536 + i * 4096, 4096, true);
        settle(io);
        test_host_expect_resp(&io->host, i, 0);
    }
    read_at(io, nsid, 0, 4096); /* untouched by the bad one */
    read_at(io, nsid, 65536 + 30 * 4096, 4096);
    queue_close(io);
    queue_close(admin);
    bed_free(bed);
}

static int64_t capsule_len;

static void set_capsule(struct fl_target_options *options)
{
    options->capsule_len = capsule_len;
}

static void case_T13_in_capsule_data_of_all_sizes(void **state)
{
    static const int64_t sizes[] = {0, 16, 4096, 8192};

    for (size_t i = 0; i < FL_ARRAY_LEN(sizes); i++) {
        struct bed *bed;
        struct queue *admin, *io;
        struct fl_nvme_sqe sqe;
        uint32_t nsid;
        le32 ioccsz;

        capsule_len = sizes[i];
        bed = bed_new(1, set_capsule);
        nsid = bed_add_ns(bed, "ram:4M,bs=512");
        admin = queue_connect(bed, 0, 0xffff, true); /* 1024 bytes in the capsule, whatever the limit */
        enable(admin);
        sqe = test_host_sqe(FL_NVME_ADM_IDENTIFY, 5, FL_NVME_SGL_TRANSPORT, 4096);
        sqe.cdw10 = le32_of(FL_NVME_CNS_CTRL);
        test_host_cmd(&admin->host, &sqe, NULL, 0);
        settle(admin);
        memcpy(&ioccsz, test_host_expect(&admin->host, FL_TCP_C2H_DATA)->data + 1792, sizeof(ioccsz));
        assert_int_equal(le32_get(ioccsz), (64 + sizes[i]) / 16);
        test_host_expect_resp(&admin->host, 5, 0);
        io = queue_connect(bed, 1, admin->cntlid, true);
        for (uint32_t len = 512; len <= 8192; len *= 2) {
            write_at(io, nsid, len, len, len <= sizes[i]);
            write_at(io, nsid, len * 2, len, false);
            read_at(io, nsid, len, len);
            read_at(io, nsid, len * 2, len);
        }
        sqe = rw_sqe(FL_NVME_CMD_WRITE, 9, nsid, 0, 8704, FL_NVME_SGL_OFFSET);
        test_host_cmd(&io->host, &sqe, pattern, 8704);
        settle(io);
        test_host_expect_term(&io->host, FL_TCP_FES_LIMIT);
        queue_close(io);
        queue_close(admin);
        bed_free(bed);
    }
}

static void four_buffers(struct fl_target_options *options)
{
    options->pool_len = 4 << 20;
    options->mdts_len = 1 << 20;
}

/* Cut while commands wait for a buffer, for data, are in the back end and have their data sent: all comes
 * back. */
static void case_T14_cut_with_four_buffers(void **state)
{
    struct bed *bed = bed_new(1, four_buffers);
    char spec[100];
    uint32_t nsid = bed_add_ns(bed, file_spec(spec, sizeof(spec)));

    for (int what = 0; what < 6; what++)
        for (int late = 0; late < 3; late++) {
            struct queue *admin = queue_connect(bed, 0, 0xffff, true), *io;
            uint8_t some[10000];
            bool stop = false;

            enable(admin);
            io = queue_connect(bed, 1, admin->cntlid, true);
            for (uint16_t i = 0; i < 10 && !stop; i++) { /* six more than there are buffers */
                struct fl_nvme_sqe sqe = rw_sqe(what == 3 || what == 4 ? FL_NVME_CMD_READ : FL_NVME_CMD_WRITE,
                                                i, nsid, 0, what == 2 ? 8192 : 1 << 20,
                                                what == 2 ? FL_NVME_SGL_OFFSET : FL_NVME_SGL_TRANSPORT);

                test_host_cmd(&io->host, &sqe, pattern, what == 2 ? 8192 : 0);
                stop = what == 4 && i == 3;
                if (what == 3 || what == 4) { /* fed, nothing taken */
                    struct iovec iov[1];

                    while (fl_tcp_stream_tx_iov(&io->host.s, iov, 1))
                        fl_tcp_stream_tx_done(&io->host.s,
                                              fl_pair_feed(io->pair, iov[0].iov_base, iov[0].iov_len));
                } else {
                    settle(io);
                }
            }
            if (what == 1) { /* some data of one */
                uint16_t tag = le16_get(test_host_expect(&io->host, FL_TCP_R2T)->pdu.r2t.ttag);

                test_host_data(&io->host, 0, tag, 0, pattern, 65536, false);
                settle(io);
            }
            if (what == 5) { /* and all of another, which frees its buffer for the next in line */
                uint16_t tag = le16_get(test_host_expect(&io->host, FL_TCP_R2T)->pdu.r2t.ttag);

                test_host_data(&io->host, 0, tag, 0, pattern, 1 << 20, true);
                test_host_pump(&io->host);
            }
            for (int i = 0; i < late; i++)
                bed_sleep(bed, 1);
            if (what == 3 || what == 4)
                fl_pair_take(io->pair, some, sizeof(some)); /* in the middle of data */
            queue_close(io);
            queue_close(admin);
            assert_int_equal(pool_used(bed), 0);
        }
    bed_free(bed);
    unlink(file_path);
}

int main(void)
{
    for (size_t i = 0; i < sizeof(pattern); i++)
        pattern[i] = (uint8_t)(i * 31 + (i >> 9) * 7);
    return FL_UNIT_RUN(cmocka_unit_test(writes_and_reads_at_every_split),
                       cmocka_unit_test(case_T5_connect_without_data), cmocka_unit_test(case_T6_sgl_of_4_gib),
                       cmocka_unit_test(case_T11_data_digest_error),
                       cmocka_unit_test(case_T13_in_capsule_data_of_all_sizes),
                       cmocka_unit_test(case_T14_cut_with_four_buffers));
}
