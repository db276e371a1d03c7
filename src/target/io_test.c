/* SPDX-License-Identifier: Apache-2.0 */
/* I/O commands of every family on memory, null and file namespaces, on one and two loops. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "target/test_bed.h"

static char dir[64];

struct setup {
    struct bed *bed;
    struct bed_host h;
    uint32_t nsid;
    uint32_t bs;
};

static const char *file_spec(uint32_t bs)
{
    static char spec[160];
    char path[96];
    int fd;

    snprintf(path, sizeof(path), "%s/ns", dir);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
    assert_int_equal(ftruncate(fd, 4 << 20), 0);
    close(fd);
    snprintf(spec, sizeof(spec), "file:%s,bs=%u", path, bs);
    return spec;
}

static void start(struct setup *s, const char *kind, uint32_t bs, uint32_t loops,
                  void (*tweak)(struct fl_target_options *o))
{
    char spec[160];

    snprintf(spec, sizeof(spec), "%s:4M,bs=%u", kind, bs);
    s->bs = bs;
    s->bed = bed_new(loops, tweak);
    s->nsid = bed_add_ns(s->bed, strcmp(kind, "file") ? spec : file_spec(bs));
    bed_host(s->bed, BED_HOST, &s->h);
}

static void stop(struct setup *s)
{
    bed_free(s->bed);
    bed_conn_free(s->h.admin);
    bed_conn_free(s->h.io);
}

static uint16_t rw(struct setup *s, uint8_t opcode, uint64_t slba, uint32_t nr, uint32_t flags, void *data)
{
    struct fl_nvme_sqe sqe = bed_sqe(opcode, s->nsid);
    uint32_t len = data ? nr * s->bs : 0;
    bool to_host = opcode == FL_NVME_CMD_READ;

    fl_nvme_rw_set(&sqe, slba, nr, flags);
    return bed_run(s->h.io, &sqe, to_host ? NULL : data, to_host ? 0 : len, to_host ? data : NULL,
                   to_host ? len : 0, NULL);
}

static void fill(uint8_t *p, size_t len, uint8_t seed)
{
    for (size_t i = 0; i < len; i++)
        p[i] = (uint8_t)(i * 31 + (i >> 8) + seed);
}

/* One list of what must work, on each kind of namespace, block size and number of loops. */
static void families(struct setup *s)
{
    static uint8_t a[1 << 20], b[1 << 20];
    uint32_t n = 65536 / s->bs;
    struct fl_nvme_sqe sqe;
    struct fl_nvme_dsm_range dsm[256] = {0};
    struct fl_nvme_copy_range copy[3] = {0};
    uint64_t dw0;

    fill(a, sizeof(a), 1);
    /* small, large, largest; FUA */
    assert_int_equal(rw(s, FL_NVME_CMD_WRITE, 3, 1, FL_NVME_RW_FUA, a), 0);
    assert_int_equal(rw(s, FL_NVME_CMD_READ, 3, 1, 0, b), 0);
    assert_memory_equal(a, b, s->bs);
    assert_int_equal(rw(s, FL_NVME_CMD_WRITE, 0, sizeof(a) / s->bs, 0, a), 0);
    assert_int_equal(rw(s, FL_NVME_CMD_READ, 0, sizeof(b) / s->bs, 0, b), 0);
    assert_memory_equal(a, b, sizeof(a));

    /* Compare */
    assert_int_equal(rw(s, FL_NVME_CMD_COMPARE, 0, sizeof(a) / s->bs, 0, a), 0);
    a[sizeof(a) - 1] ^= 1;
    assert_int_equal(rw(s, FL_NVME_CMD_COMPARE, 0, sizeof(a) / s->bs, 0, a), FL_NVME_SC_COMPARE_FAILED);
    a[sizeof(a) - 1] ^= 1;
    assert_int_equal(rw(s, FL_NVME_CMD_COMPARE, 1, 1, 0, a + s->bs), 0);
    assert_int_equal(rw(s, FL_NVME_CMD_COMPARE, 1, 1, 0, a + s->bs + 1), FL_NVME_SC_COMPARE_FAILED);

    /* Verify */
    assert_int_equal(rw(s, FL_NVME_CMD_VERIFY, 0, sizeof(a) / s->bs, 0, NULL), 0);

    /* Write Zeroes, with and without DEAC */
    assert_int_equal(rw(s, FL_NVME_CMD_WRITE_ZEROES, 8, 8, 0, NULL), 0);
    assert_int_equal(rw(s, FL_NVME_CMD_WRITE_ZEROES, 24, 8, FL_NVME_RW_DEAC, NULL), 0);
    memset(a + 8 * s->bs, 0, 8 * s->bs);
    memset(a + 24 * s->bs, 0, 8 * s->bs);
    assert_int_equal(rw(s, FL_NVME_CMD_READ, 0, n, 0, b), 0);
    assert_memory_equal(a, b, n < 32 ? n * s->bs : 32 * s->bs);

    /* Copy: three ranges into one place */
    for (uint32_t i = 0; i < 3; i++) {
        copy[i].slba = le64_of(40 + i * 16);
        copy[i].nlb = le16_of((uint16_t)(i * 2));
    }
    sqe = bed_sqe(FL_NVME_CMD_COPY, s->nsid);
    fl_nvme_rw_set(&sqe, 512, 3, 0); /* CDW12 bits 7:0: three ranges */
    assert_int_equal(bed_run(s->h.io, &sqe, copy, sizeof(copy), NULL, 0, &dw0), 0);
    assert_int_equal(rw(s, FL_NVME_CMD_READ, 512, 9, 0, b), 0);
    assert_memory_equal(b, a + 40 * s->bs, s->bs);
    assert_memory_equal(b + s->bs, a + 56 * s->bs, 3 * s->bs);
    assert_memory_equal(b + 4 * s->bs, a + 72 * s->bs, 5 * s->bs);

    /* Dataset Management: one range; and as Linux sends it, a whole page for two ranges */
    dsm[0].slba = le64_of(128);
    dsm[0].nlb = le32_of(8);
    dsm[1].slba = le64_of(160);
    dsm[1].nlb = le32_of(1);
    sqe = bed_sqe(FL_NVME_CMD_DSM, s->nsid);
    sqe.cdw11 = le32_of(FL_NVME_DSM_AD);
    assert_int_equal(bed_run(s->h.io, &sqe, dsm, sizeof(dsm[0]), NULL, 0, NULL), 0);
    sqe.cdw10 = le32_of(1);
    assert_int_equal(bed_run(s->h.io, &sqe, dsm, sizeof(dsm), NULL, 0, NULL), 0);
    assert_int_equal(rw(s, FL_NVME_CMD_READ, 120, 41, 0, b), 0);
    assert_memory_equal(b, a + 120 * s->bs, 8 * s->bs);
    if (s->bed->ss->ns[s->nsid]->be->trims) {
        memset(a, 0, s->bs);
        for (uint32_t i = 0; i < 8; i++)
            assert_memory_equal(b + (8 + i) * s->bs, a, s->bs);
        assert_memory_equal(b + 40 * s->bs, a, s->bs);
    }

    sqe = bed_sqe(FL_NVME_CMD_FLUSH, s->nsid);
    assert_int_equal(bed_run(s->h.io, &sqe, NULL, 0, NULL, 0, NULL), 0);
    sqe = bed_sqe(FL_NVME_CMD_FLUSH, FL_NVME_NSID_ALL);
    assert_int_equal(bed_run(s->h.io, &sqe, NULL, 0, NULL, 0, NULL), 0);
}

static void every_family_everywhere(void **state)
{
    static const char *const kinds[] = {"ram", "file"};
    struct setup s;

    for (uint32_t k = 0; k < 2; k++) {
        for (uint32_t bs = 512; bs <= 4096; bs *= 8) {
            for (uint32_t loops = 1; loops <= 2; loops++) {
                start(&s, kinds[k], bs, loops, NULL);
                families(&s);
                stop(&s);
            }
        }
    }
}

static void null_reads(void **state)
{
    static uint8_t b[1 << 20];
    struct setup s;

    start(&s, "null", 4096, 2, NULL);
    assert_int_equal(rw(&s, FL_NVME_CMD_READ, 1023, 1, 0, b), 0);
    assert_int_equal(rw(&s, FL_NVME_CMD_READ, 768, 256, 0, b), 0);
    assert_int_equal(rw(&s, FL_NVME_CMD_WRITE, 768, 256, 0, b), 0);
    stop(&s);
}

/* Ranges at the end, past it, around it; data of another length than the range. */
static void case_A13_range_arithmetic(void **state)
{
    static const uint8_t ops[] = {FL_NVME_CMD_READ, FL_NVME_CMD_WRITE, FL_NVME_CMD_COMPARE,
                                  FL_NVME_CMD_WRITE_ZEROES, FL_NVME_CMD_VERIFY};
    static uint8_t b[2 << 20];
    struct setup s;
    struct fl_nvme_sqe sqe;

    start(&s, "ram", 512, 2, NULL);
    for (size_t i = 0; i < sizeof(ops); i++) {
        uint64_t last = (4 << 20) / 512 - 1;
        void *data = i < 3 ? b : NULL;

        assert_int_equal(rw(&s, ops[i], last, 1, 0, data), 0);
        assert_int_equal(rw(&s, ops[i], last, 2, 0, data), FL_NVME_SC_LBA_RANGE);
        assert_int_equal(rw(&s, ops[i], last + 1, 1, 0, data), FL_NVME_SC_LBA_RANGE);
        assert_int_equal(rw(&s, ops[i], UINT64_MAX, 1, 0, data), FL_NVME_SC_LBA_RANGE);
        assert_int_equal(rw(&s, ops[i], UINT64_MAX, 2, 0, data), FL_NVME_SC_LBA_RANGE);
        assert_int_equal(rw(&s, ops[i], UINT64_MAX - 5, 100, 0, data), FL_NVME_SC_LBA_RANGE);
        assert_int_equal(rw(&s, ops[i], UINT64_C(1) << 55, 1, 0, data), FL_NVME_SC_LBA_RANGE);
        assert_int_equal(rw(&s, ops[i], 0, 1, 1u << FL_NVME_RW_PRINFO_SHIFT, data), FL_NVME_SC_INVALID_FIELD);
    }
    /* 10 blocks of 512 with 4096 bytes of data */
    sqe = bed_rw(FL_NVME_CMD_READ, s.nsid, 0, 10);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, b, 4096, NULL), FL_NVME_SC_SGL_INVALID_DATA);
    sqe = bed_rw(FL_NVME_CMD_WRITE, s.nsid, 0, 10);
    assert_int_equal(bed_run(s.h.io, &sqe, b, 4096, NULL, 0, NULL), FL_NVME_SC_SGL_INVALID_DATA);
    /* one block, no data: there is no empty read */
    sqe = bed_rw(FL_NVME_CMD_READ, s.nsid, 0, 1);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, NULL, 0, NULL), FL_NVME_SC_SGL_INVALID_DATA);
    /* the most blocks that NLB can tell, far above MDTS */
    sqe = bed_rw(FL_NVME_CMD_READ, s.nsid, 0, 8192);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, b, 4096, NULL), FL_NVME_SC_INVALID_FIELD);
    stop(&s);
}

static void mdts_64k(struct fl_target_options *o)
{
    o->mdts_len = 65536;
}

static void largest_transfer(void **state)
{
    static uint8_t b[131072];
    struct setup s;

    start(&s, "ram", 512, 1, mdts_64k);
    assert_int_equal(rw(&s, FL_NVME_CMD_READ, 0, 128, 0, b), 0);
    assert_int_equal(rw(&s, FL_NVME_CMD_READ, 0, 129, 0, b), FL_NVME_SC_INVALID_FIELD);
    assert_int_equal(rw(&s, FL_NVME_CMD_WRITE, 0, 128, 0, b), 0);
    assert_int_equal(rw(&s, FL_NVME_CMD_WRITE, 0, 129, 0, b), FL_NVME_SC_INVALID_FIELD);
    stop(&s);
}

static void bad_commands(void **state)
{
    uint8_t b[4096];
    struct setup s;
    struct fl_nvme_sqe sqe;
    struct fl_nvme_dsm_range dsm = {.slba = le64_of(UINT64_MAX), .nlb = le32_of(2)};
    struct fl_nvme_copy_range copy[FL_COPY_RANGES] = {0};

    start(&s, "ram", 512, 2, NULL);
    sqe = bed_rw(FL_NVME_CMD_READ, 0, 0, 8);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, b, 4096, NULL), FL_NVME_SC_INVALID_NS);
    sqe = bed_rw(FL_NVME_CMD_READ, 2, 0, 8);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, b, 4096, NULL), FL_NVME_SC_INVALID_NS);
    sqe = bed_rw(FL_NVME_CMD_READ, FL_NVME_NSID_ALL, 0, 8);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, b, 4096, NULL), FL_NVME_SC_INVALID_NS);
    sqe = bed_rw(FL_NVME_CMD_READ, FL_NSID_MAX + 1, 0, 8);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, b, 4096, NULL), FL_NVME_SC_INVALID_NS);
    sqe = bed_rw(FL_NVME_CMD_WRITE_UNCOR, 1, 0, 8);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, NULL, 0, NULL), FL_NVME_SC_INVALID_OPCODE);
    sqe = bed_rw(FL_NVME_CMD_READ, 1, 0, 8); /* PRPs */
    sqe.flags = 0;
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, b, 4096, NULL), FL_NVME_SC_INVALID_FIELD);
    sqe = bed_rw(0xff, 1, 0, 8);
    assert_int_equal(bed_run(s.h.io, &sqe, NULL, 0, NULL, 0, NULL), FL_NVME_SC_INVALID_OPCODE);

    sqe = bed_sqe(FL_NVME_CMD_DSM, 1);
    sqe.cdw11 = le32_of(FL_NVME_DSM_AD);
    assert_int_equal(bed_run(s.h.io, &sqe, &dsm, sizeof(dsm), NULL, 0, NULL), FL_NVME_SC_LBA_RANGE);
    sqe.cdw10 = le32_of(1);
    assert_int_equal(bed_run(s.h.io, &sqe, &dsm, sizeof(dsm), NULL, 0, NULL), FL_NVME_SC_SGL_INVALID_DATA);

    sqe = bed_rw(FL_NVME_CMD_COPY, 1, 8191, 1);
    copy[0].nlb = le16_of(1);
    assert_int_equal(bed_run(s.h.io, &sqe, copy, sizeof(copy[0]), NULL, 0, NULL),
                     FL_NVME_SC_LBA_RANGE); /* destination */
    sqe = bed_rw(FL_NVME_CMD_COPY, 1, 0, 1);
    sqe.cdw12 = le32_of(0);
    copy[0].slba = le64_of(UINT64_MAX);
    assert_int_equal(bed_run(s.h.io, &sqe, copy, sizeof(copy[0]), NULL, 0, NULL), FL_NVME_SC_LBA_RANGE);
    copy[0].slba = le64_of(0);
    copy[0].nlb = le16_of(FL_COPY_RANGE_BLOCKS);
    assert_int_equal(bed_run(s.h.io, &sqe, copy, sizeof(copy[0]), NULL, 0, NULL), FL_NVME_SC_CMD_SIZE_LIMIT);
    sqe.cdw12 = le32_of(FL_COPY_RANGES);
    assert_int_equal(bed_run(s.h.io, &sqe, copy, sizeof(copy), NULL, 0, NULL), FL_NVME_SC_CMD_SIZE_LIMIT);
    sqe.cdw12 = le32_of(1u << FL_NVME_COPY_FORMAT_SHIFT);
    assert_int_equal(bed_run(s.h.io, &sqe, copy, sizeof(copy[0]), NULL, 0, NULL), FL_NVME_SC_INVALID_FIELD);
    stop(&s);
}

/* ---- fused ---- */

static void send_pair(struct setup *s, struct bed_conn *io, uint64_t slba, uint32_t nr, const void *cmp,
                      const void *wr, struct bed_cmd *pair[2])
{
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_COMPARE, s->nsid, slba, nr);

    sqe.flags |= FL_NVME_CMD_FUSE_FIRST;
    pair[0] = bed_send(io, &sqe, cmp, nr * s->bs, nr * s->bs <= 8192, 0);
    sqe.opcode = FL_NVME_CMD_WRITE;
    sqe.flags ^= FL_NVME_CMD_FUSE_MASK;
    pair[1] = bed_send(io, &sqe, wr, nr * s->bs, nr * s->bs <= 8192, 0);
}

static void check_pair(struct setup *s, struct bed_cmd *pair[2], uint16_t one, uint16_t two)
{
    for (int i = 0; i < 200 && !pair[1]->released; i++)
        bed_sleep(s->bed, 1);
    assert_int_equal(bed_status(pair[0]), one);
    assert_int_equal(bed_status(pair[1]), two);
    bed_free_cmd(pair[0]);
    bed_free_cmd(pair[1]);
}

static void compare_and_write(void **state)
{
    static uint8_t a[129 * 512], b[129 * 512], back[129 * 512];
    static const char *const kinds[] = {"ram", "file"};

    for (uint32_t k = 0; k < 4; k++) {
        struct bed_cmd *pair[2], *other;
        struct setup s;
        struct fl_nvme_sqe sqe;

        start(&s, kinds[k & 1], 512, 1 + k / 2, NULL);
        fill(a, sizeof(a), 3);
        fill(b, sizeof(b), 4);
        memset(back, 0, sizeof(back));
        send_pair(&s, s.h.io, 5, 1, back, a, pair); /* zeros there: equal */
        check_pair(&s, pair, 0, 0);
        send_pair(&s, s.h.io, 5, 1, back, b, pair); /* not any more */
        check_pair(&s, pair, FL_NVME_SC_COMPARE_FAILED, FL_NVME_SC_FUSED_FAIL);
        assert_int_equal(rw(&s, FL_NVME_CMD_READ, 5, 1, 0, back), 0);
        assert_memory_equal(back, a, 512);
        memset(back, 0, sizeof(back));
        send_pair(&s, s.h.io, 256, 128, back, b, pair); /* as long as it may be */
        check_pair(&s, pair, 0, 0);
        send_pair(&s, s.h.io, 256, 129, back, b, pair);
        check_pair(&s, pair, FL_NVME_SC_AWU_EXCEEDED, FL_NVME_SC_FUSED_FAIL);
        send_pair(&s, s.h.io, 8192, 1, back, b, pair);
        check_pair(&s, pair, FL_NVME_SC_LBA_RANGE, FL_NVME_SC_FUSED_FAIL);

        /* Another range in the second half; a half alone; a first half before something else. */
        sqe = bed_rw(FL_NVME_CMD_COMPARE, s.nsid, 1, 1);
        sqe.flags |= FL_NVME_CMD_FUSE_FIRST;
        pair[0] = bed_send(s.h.io, &sqe, a, 512, true, 0);
        sqe = bed_rw(FL_NVME_CMD_WRITE, s.nsid, 2, 1);
        sqe.flags |= FL_NVME_CMD_FUSE_SECOND;
        pair[1] = bed_send(s.h.io, &sqe, a, 512, true, 0);
        check_pair(&s, pair, FL_NVME_SC_INVALID_FIELD, FL_NVME_SC_FUSED_FAIL);
        assert_int_equal(bed_run(s.h.io, &sqe, a, 512, NULL, 0, NULL), FL_NVME_SC_FUSED_MISSING);
        sqe = bed_rw(FL_NVME_CMD_COMPARE, s.nsid, 1, 1);
        sqe.flags |= FL_NVME_CMD_FUSE_FIRST;
        other = bed_send(s.h.io, &sqe, a, 512, true, 0);
        bed_turn(s.bed);
        assert_false(other->answered);
        assert_int_equal(rw(&s, FL_NVME_CMD_READ, 0, 1, 0, back), 0);
        assert_int_equal(bed_status(other), FL_NVME_SC_FUSED_MISSING);
        bed_free_cmd(other);
        sqe.flags |= FL_NVME_CMD_FUSE_SECOND;
        assert_int_equal(bed_run(s.h.io, &sqe, a, 512, NULL, 0, NULL), FL_NVME_SC_INVALID_FIELD);

        /* A first half alone when the connection goes. */
        sqe.flags = FL_NVME_CMD_PSDT_SGL | FL_NVME_CMD_FUSE_FIRST;
        other = bed_send(s.h.io, &sqe, a, 512, true, 0);
        bed_turn(s.bed);
        stop(&s);
        bed_free_cmd(other);
    }
}

/* Two queues on two loops race for one block: exactly one of the pairs wins each round, whatever plain writes
 * do beside it. */
static void fused_over_loops(void **state)
{
    uint8_t zero[512] = {0}, one[512], two[512], back[512], noise[512];
    struct setup s;
    struct bed_conn *io2;

    start(&s, "file", 512, 2, NULL);
    io2 = bed_io_queue(s.bed, BED_HOST, s.h.cntlid, 2);
    assert_ptr_not_equal(s.h.io->conn.loop, io2->conn.loop);
    memset(one, 1, sizeof(one));
    memset(two, 2, sizeof(two));
    fill(noise, sizeof(noise), 9);
    for (int i = 0; i < 20; i++) {
        struct bed_cmd *p1[2], *p2[2], *w[8];
        struct fl_nvme_sqe sqe;
        uint32_t won;

        assert_int_equal(rw(&s, FL_NVME_CMD_WRITE, 7, 1, 0, zero), 0);
        for (uint32_t j = 0; j < 8; j++) {
            sqe = bed_rw(FL_NVME_CMD_WRITE, s.nsid, 100 + j, 1);
            w[j] = bed_send(j & 1 ? io2 : s.h.io, &sqe, noise, 512, true, 0);
            if (j == 3)
                send_pair(&s, s.h.io, 7, 1, zero, one, p1);
            if (j == 4)
                send_pair(&s, io2, 7, 1, zero, two, p2);
        }
        for (int t = 0; t < 500; t++) {
            uint32_t left = !p1[1]->released + !p2[1]->released;

            for (uint32_t j = 0; j < 8; j++)
                left += !w[j]->released;
            if (!left)
                break;
            bed_sleep(s.bed, 1);
        }
        won = !bed_status(p1[1]) + !bed_status(p2[1]);
        assert_int_equal(won, 1);
        assert_int_equal(rw(&s, FL_NVME_CMD_READ, 7, 1, 0, back), 0);
        assert_memory_equal(back, bed_status(p1[1]) ? two : one, 512);
        for (uint32_t j = 0; j < 8; j++) {
            assert_int_equal(bed_status(w[j]), 0);
            bed_free_cmd(w[j]);
        }
        for (int j = 0; j < 2; j++) {
            bed_free_cmd(p1[j]);
            bed_free_cmd(p2[j]);
        }
    }
    stop(&s);
    bed_conn_free(io2);
}

/* ---- waiting, aborting, breaking ---- */

static void tiny_pool(struct fl_target_options *o)
{
    o->pool_len = 1 << 20;
}

/* The connection is cut while a command is in each of its states; everything goes back. */
static void case_T14_cut_in_every_state(void **state)
{
    static uint8_t big[1 << 20];

    for (int what = 0; what < 6; what++) {
        struct setup s;
        struct bed_cmd *c[8];
        struct fl_nvme_sqe sqe;
        uint32_t n = 0;

        start(&s, what == 3 ? "file" : what == 0 ? "null" : "ram", 512, 2, tiny_pool);
        switch (what) {
        case 0: /* one has the only buffer and waits for data, four wait for the buffer */
            for (; n < 5; n++) {
                sqe = bed_rw(FL_NVME_CMD_WRITE, s.nsid, 0, 2048);
                c[n] = bed_send(s.h.io, &sqe, big, sizeof(big), false, 0);
                c[n]->hold_fetch = true;
            }
            break;
        case 1: /* between R2T and data */
            sqe = bed_rw(FL_NVME_CMD_WRITE, s.nsid, 0, 64);
            c[n] = bed_send(s.h.io, &sqe, big, 32768, false, 0);
            c[n++]->hold_fetch = true;
            break;
        case 2: /* data on its way to the host, out of the namespace itself */
            s.h.io->hold_release = true;
            sqe = bed_rw(FL_NVME_CMD_READ, s.nsid, 0, 64);
            c[n++] = bed_send(s.h.io, &sqe, NULL, 0, false, 32768);
            break;
        case 3: /* in the back end */
            for (; n < 4; n++) {
                sqe = bed_rw(FL_NVME_CMD_READ, s.nsid, 0, 64);
                c[n] = bed_send(s.h.io, &sqe, NULL, 0, false, 32768);
            }
            break;
        case 4: /* half of a fused operation, its data on the way */
            sqe = bed_rw(FL_NVME_CMD_COMPARE, s.nsid, 0, 1);
            sqe.flags |= FL_NVME_CMD_FUSE_FIRST;
            c[n] = bed_send(s.h.io, &sqe, big, 512, false, 0);
            c[n++]->hold_fetch = true;
            sqe.opcode = FL_NVME_CMD_WRITE;
            sqe.flags ^= FL_NVME_CMD_FUSE_MASK;
            c[n++] = bed_send(s.h.io, &sqe, big, 512, false, 0);
            break;
        case 5: /* parked event requests on the admin queue */
            for (; n < 4; n++) {
                sqe = bed_sqe(FL_NVME_ADM_ASYNC_EVENT, 0);
                c[n] = bed_send(s.h.admin, &sqe, NULL, 0, false, 0);
            }
            break;
        }
        if (what != 3)
            bed_turn(s.bed);
        bed_cut(what == 5 ? s.h.admin : s.h.io);
        for (int t = 0; t < 200 && !bed_is_closed(what == 5 ? s.h.admin : s.h.io); t++)
            bed_sleep(s.bed, 1);
        assert_true(bed_is_closed(what == 5 ? s.h.admin : s.h.io));
        for (uint32_t i = 0; i < n; i++)
            bed_free_cmd(c[i]);
        for (uint32_t w = 0; w < 2; w++) {
            struct fl_pool_stats st;

            fl_pool_stats(s.bed->target->workers[w].pool, &st);
            assert_int_equal(st.used_len, 0);
            assert_int_equal(s.bed->ss->ns[s.nsid]->views[w].nr_in_flight, 0);
            assert_int_equal(s.bed->ss->ns[s.nsid]->views[w].nr_writes, 0);
        }
        stop(&s);
    }
}

/* Commands wait for a buffer in order, and all get one. */
static void pool_runs_dry(void **state)
{
    static uint8_t big[1 << 20];
    struct setup s;
    struct bed_cmd *c[6];

    start(&s, "null", 4096, 1, tiny_pool);
    for (uint32_t i = 0; i < 6; i++) {
        struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_WRITE, s.nsid, 0, 256);

        memset(big, (int)i, sizeof(big));
        c[i] = bed_send(s.h.io, &sqe, big, sizeof(big), false, 0);
        c[i]->hold_fetch = true;
    }
    for (uint32_t i = 0; i < 6; i++) {
        bed_turn(s.bed);
        assert_true(c[i]->fetching);
        bed_give_data(c[i]);
    }
    bed_turn(s.bed);
    for (uint32_t i = 0; i < 6; i++) {
        assert_int_equal(bed_status(c[i]), 0);
        bed_free_cmd(c[i]);
    }
    stop(&s);
}

/* Data of I/O holds every buffer of its loop: Connect, identify and keep alive are served all the same. */
static void case_R6_slow_io_starves_nobody(void **state)
{
    static uint8_t big[1 << 20], page[4096];
    struct fl_nvme_sqe sqe, ka = bed_sqe(FL_NVME_ADM_KEEP_ALIVE, 0);
    struct bed_cmd *c[20];
    struct bed_host other;
    struct setup s;

    start(&s, "null", 4096, 1, tiny_pool);
    for (uint32_t i = 0; i < 20; i++) {
        sqe = bed_rw(FL_NVME_CMD_WRITE, s.nsid, 0, 256);
        c[i] = bed_send(s.h.io, &sqe, big, sizeof(big), false, 0);
        c[i]->hold_fetch = true;
    }
    bed_turn(s.bed);
    assert_int_equal(bed_run(s.h.admin, &ka, NULL, 0, NULL, 0, NULL), 0);
    bed_host(s.bed, "nqn.2026-01.org.example:host-b", &other);
    assert_int_equal(bed_identify(other.admin, FL_NVME_CNS_CTRL, 0, page), 0);
    assert_int_equal(bed_run(other.admin, &ka, NULL, 0, NULL, 0, NULL), 0);
    sqe = bed_sqe(FL_NVME_CMD_FLUSH, s.nsid);
    assert_int_equal(bed_run(other.io, &sqe, NULL, 0, NULL, 0, NULL), 0);
    stop(&s); /* cuts them off: all of them end */
    for (uint32_t i = 0; i < 20; i++)
        bed_free_cmd(c[i]);
    bed_conn_free(other.admin);
    bed_conn_free(other.io);
}

/* A large write to memory whose data does not come keeps nobody waiting, for it is received beside the namespace. */
static void silent_writer(void **state)
{
    static uint8_t big[1 << 16], zero[512], one[512] = {1};
    struct fl_nvme_sqe sqe;
    struct bed_cmd *w, *pair[2];
    struct bed_conn *io2;
    struct setup s;

    start(&s, "ram", 512, 2, NULL);
    io2 = bed_io_queue(s.bed, BED_HOST, s.h.cntlid, 2);
    sqe = bed_rw(FL_NVME_CMD_WRITE, s.nsid, 0, 128);
    w = bed_send(s.h.io, &sqe, big, sizeof(big), false, 0);
    w->hold_fetch = true;
    bed_turn(s.bed);
    assert_true(w->fetching);
    send_pair(&s, io2, 7, 1, zero, one, pair);
    check_pair(&s, pair, 0, 0);
    bed_give_data(w);
    bed_turn(s.bed);
    assert_int_equal(bed_status(w), 0);
    send_pair(&s, io2, 7, 1, zero, one, pair);
    check_pair(&s, pair, 0, 0);
    stop(&s);
    bed_free_cmd(w);
    bed_conn_free(io2);
}

static uint64_t do_abort(struct setup *s, uint16_t sqid, const struct bed_cmd *victim)
{
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_ADM_ABORT, 0);
    uint64_t dw0;

    sqe.cdw10 = le32_of(sqid | (uint32_t)le16_get(victim->cmd.sqe.cid) << 16);
    assert_int_equal(bed_run(s->h.admin, &sqe, NULL, 0, NULL, 0, &dw0), 0);
    return dw0;
}

/* Abort tells whether it aborted, and only after the victim's own response. */
static void abort_tells_the_truth(void **state)
{
    static uint8_t big[1 << 20];
    struct setup s;
    struct bed_cmd *c[2], *aer, *abort;
    struct fl_nvme_sqe sqe;

    for (uint32_t loops = 1; loops <= 2; loops++) {
        start(&s, "null", 512, loops, tiny_pool);
        for (uint32_t i = 0; i < 2; i++) {
            sqe = bed_rw(FL_NVME_CMD_WRITE, s.nsid, 0, 2048);
            c[i] = bed_send(s.h.io, &sqe, big, sizeof(big), false, 0);
            c[i]->hold_fetch = true;
        }
        bed_turn(s.bed);
        assert_true(c[0]->fetching); /* the second waits for the buffer */
        assert_int_equal(do_abort(&s, 1, c[1]), 0);
        assert_int_equal(bed_status(c[1]), FL_NVME_SC_ABORT_REQ);
        assert_int_equal(do_abort(&s, 1, c[1]), 1); /* not there any more */
        assert_int_equal(do_abort(&s, 9, c[1]), 1); /* no such queue */

        /* The first waits for its data: it is aborted when that has come, and then Abort is answered. */
        sqe = bed_sqe(FL_NVME_ADM_ABORT, 0);
        sqe.cdw10 = le32_of(1 | (uint32_t)le16_get(c[0]->cmd.sqe.cid) << 16);
        abort = bed_send(s.h.admin, &sqe, NULL, 0, false, 0);
        bed_turn(s.bed);
        assert_false(abort->answered);
        bed_give_data(c[0]);
        assert_int_equal(bed_status(c[0]), FL_NVME_SC_ABORT_REQ);
        bed_turn(s.bed);
        assert_int_equal(bed_status(abort), 0);
        assert_int_equal(le32_get(abort->cqe.dw0), 0);
        bed_free_cmd(abort);

        sqe = bed_sqe(FL_NVME_ADM_ASYNC_EVENT, 0);
        aer = bed_send(s.h.admin, &sqe, NULL, 0, false, 0);
        bed_turn(s.bed);
        assert_int_equal(do_abort(&s, 0, aer), 0);
        assert_int_equal(bed_status(aer), FL_NVME_SC_ABORT_REQ);
        bed_free_cmd(aer);
        bed_free_cmd(c[0]);
        bed_free_cmd(c[1]);
        stop(&s);
    }
}

int main(void)
{
    int rc;

    fl_log_set_level(FL_LOG_ERR);
    snprintf(dir, sizeof(dir), "/tmp/farlane-target.XXXXXX");
    if (!mkdtemp(dir))
        return 1;
    rc = FL_UNIT_RUN(cmocka_unit_test(every_family_everywhere), cmocka_unit_test(null_reads),
                     cmocka_unit_test(case_A13_range_arithmetic), cmocka_unit_test(largest_transfer),
                     cmocka_unit_test(bad_commands), cmocka_unit_test(compare_and_write),
                     cmocka_unit_test(fused_over_loops), cmocka_unit_test(case_T14_cut_in_every_state),
                     cmocka_unit_test(pool_runs_dry), cmocka_unit_test(silent_writer),
                     cmocka_unit_test(case_R6_slow_io_starves_nobody),
                     cmocka_unit_test(abort_tells_the_truth));
    {
        char path[96];

        snprintf(path, sizeof(path), "%s/ns", dir);
        unlink(path);
        rmdir(dir);
    }
    return rc;
}
