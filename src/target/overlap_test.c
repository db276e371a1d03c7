/* SPDX-License-Identifier: Apache-2.0 */
/* Reads and writes that meet at the same bytes of memory. */
#include <stdlib.h>

#include "backend/marks.h"
#include "base/clock.h"
#include "target/test_setup.h"

#define BLOCKS 64u
#define LEN    (BLOCKS * 512)

static uint8_t old[LEN], new[LEN], got[LEN];

/* A second queue, on another loop where there are two, whose host does not take the answer of a read. */
struct meeting {
    struct setup s;
    struct bed_conn *io2;
    struct bed_cmd *r;
};

static void await(struct meeting *m, const bool *what)
{
    for (int i = 0; i < 10000 && !*what; i++)
        bed_sleep(m->s.bed, 1);
    assert_true(*what);
}

static uint16_t write_all(struct bed_conn *io, const uint8_t *data)
{
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, BLOCKS);

    return bed_run(io, &sqe, data, LEN, NULL, 0, NULL);
}

static void expect_all(struct bed_conn *io, const uint8_t *data)
{
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_READ, 1, 0, BLOCKS);

    assert_int_equal(bed_run(io, &sqe, NULL, 0, got, LEN, NULL), 0);
    assert_memory_equal(got, data, LEN);
}

static void meet(struct meeting *m, uint32_t nr_loops, bool can_detach,
                 void (*tweak)(struct fl_target_options *o))
{
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_READ, 1, 0, BLOCKS);

    memset(old, 1, LEN);
    memset(new, 2, LEN);
    start(&m->s, nr_loops, tweak);
    m->io2 = bed_io_queue(m->s.bed, BED_HOST, m->s.h.cntlid, 2);
    assert_int_equal(m->s.h.io->conn.loop != m->io2->conn.loop, nr_loops == 2);
    assert_int_equal(write_all(m->s.h.io, old), 0);
    m->io2->hold_release = true;
    m->io2->can_detach = can_detach;
    m->r = bed_send(m->io2, &sqe, NULL, 0, false, LEN);
    bed_turn(m->s.bed);
    assert_true(m->r->answered && !m->r->released);
}

/* The read that was under way is what was there when it began. */
static void end_read(struct meeting *m)
{
    if (!m->r->released)
        bed_release(m->r);
    assert_int_equal(m->r->got_len, LEN);
    assert_memory_equal(m->r->in, old, LEN);
    m->io2->hold_release = false;
}

static void part(struct meeting *m)
{
    bed_free_cmd(m->r);
    stop(&m->s);
    bed_conn_free(m->io2);
}

static void write_waits_for_a_reader(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, BLOCKS);
        struct meeting m;
        struct bed_cmd *w;

        meet(&m, loops, false, NULL);
        w = bed_send(m.s.h.io, &sqe, new, LEN, false, 0);
        bed_sleep(m.s.bed, 5);
        assert_false(w->answered);
        end_read(&m);
        await(&m, &w->released);
        assert_int_equal(bed_status(w), 0);
        expect_all(m.io2, new);
        bed_free_cmd(w);
        part(&m);
    }
}

/* Whoever takes his data slowly keeps nobody from writing. */
static void reader_makes_way(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct meeting m;

        meet(&m, loops, true, NULL);
        assert_int_equal(write_all(m.s.h.io, new), 0);
        assert_false(m.r->released);
        assert_int_equal(m.io2->nr_detached, 1);
        expect_all(m.s.h.io, new);
        end_read(&m);
        assert_int_equal(write_all(m.s.h.io, new), 0);
        assert_int_equal(m.io2->nr_detached, 1);
        part(&m);
    }
}

static void tiny_pool(struct fl_target_options *o)
{
    o->pool_len = 1 << 20;
}

/* There is no buffer for what it still has to take: after a time its connection is closed, and no other. */
static void reader_that_never_makes_way_is_cut(void **state)
{
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_READ, 1, 1024, 8);
    struct bed_conn *io3;
    struct bed_cmd *r3, *w;
    struct meeting m;
    void *all;

    meet(&m, 2, true, tiny_pool);
    io3 = bed_io_queue(m.s.bed, BED_HOST, m.s.h.cntlid, 3);
    io3->hold_release = true;
    r3 = bed_send(io3, &sqe, NULL, 0, false, 4096); /* elsewhere */
    bed_turn(m.s.bed);
    all = fl_pool_get(m.io2->conn.pool, 1 << 20);
    assert_non_null(all);
    sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, 1);
    w = bed_send(m.s.h.io, &sqe, new, 512, false, 0);
    await(&m, &w->released);
    assert_int_equal(bed_status(w), 0);
    bed_free_cmd(w);
    assert_true(bed_is_closed(m.io2));
    assert_false(bed_is_closed(io3));
    bed_release(r3);
    fl_pool_put(m.io2->conn.pool, all);
    bed_free_cmd(r3);
    part(&m);
    bed_conn_free(io3);
}

/* While a write waits, further reads come by a buffer, after it: neither keeps the other out for ever. */
static void reads_let_a_write_through(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct fl_nvme_sqe w_sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, BLOCKS),
                           r_sqe = bed_rw(FL_NVME_CMD_READ, 1, 0, BLOCKS);
        struct bed_cmd *w, *r[4];
        struct meeting m;

        meet(&m, loops, false, NULL);
        w = bed_send(m.s.h.io, &w_sqe, new, LEN, false, 0);
        while (!fl_marks_wanted(m.s.bed->ss->ns[1]->be->marks, 0, LEN))
            bed_sleep(m.s.bed, 1);
        for (uint32_t i = 0; i < 4; i++)
            r[i] = bed_send(m.io2, &r_sqe, NULL, 0, false, LEN);
        bed_sleep(m.s.bed, 2);
        for (uint32_t i = 0; i < 4; i++)
            assert_false(r[i]->answered);
        end_read(&m);
        await(&m, &w->released);
        for (uint32_t i = 0; i < 4; i++) {
            await(&m, &r[i]->released);
            assert_memory_equal(r[i]->in, new, LEN);
            bed_free_cmd(r[i]);
        }
        bed_free_cmd(w);
        part(&m);
    }
}

/* Everything that changes the namespace waits, and Compare, which only reads, does not. */
static void all_that_write_wait(void **state)
{
    static const uint8_t ops[] = {FL_NVME_CMD_WRITE_ZEROES, FL_NVME_CMD_DSM, FL_NVME_CMD_COPY,
                                  FL_NVME_CMD_WRITE, FL_NVME_CMD_COMPARE};

    for (uint32_t k = 0; k < 2 * FL_ARRAY_LEN(ops); k++) {
        struct fl_nvme_dsm_range range = {.nlb = le32_of(BLOCKS)};
        struct fl_nvme_copy_range from = {.slba = le64_of(1024), .nlb = le16_of(BLOCKS - 1)};
        uint8_t op = ops[k / 2];
        struct fl_nvme_sqe sqe = bed_rw(op, 1, 0, BLOCKS);
        struct bed_cmd *c;
        struct meeting m;

        meet(&m, 1 + k % 2, false, NULL);
        memset(new, op == FL_NVME_CMD_WRITE ? 2 : op == FL_NVME_CMD_COMPARE ? 1 : 0, LEN);
        switch (op) {
        case FL_NVME_CMD_DSM:
            sqe.cdw10 = le32_of(0);
            sqe.cdw11 = le32_of(FL_NVME_DSM_AD);
            c = bed_send(m.s.h.io, &sqe, &range, sizeof(range), true, 0);
            break;
        case FL_NVME_CMD_COPY: /* one range of zeroes */
            sqe.cdw12 = le32_of(0);
            c = bed_send(m.s.h.io, &sqe, &from, sizeof(from), true, 0);
            break;
        case FL_NVME_CMD_WRITE: /* in the capsule, which is moved meanwhile */
        case FL_NVME_CMD_COMPARE:
            c = bed_send(m.s.h.io, &sqe, new, LEN, true, 0);
            break;
        default:
            c = bed_send(m.s.h.io, &sqe, NULL, 0, false, 0);
        }
        bed_sleep(m.s.bed, 2);
        assert_int_equal(c->answered, op == FL_NVME_CMD_COMPARE);
        end_read(&m);
        await(&m, &c->released);
        assert_int_equal(bed_status(c), 0);
        expect_all(m.io2, new);
        bed_free_cmd(c);
        part(&m);
    }
}

/* Compare and Write are one, also where the Write has to wait for a reader: no other write comes between. */
static void fused_pair_waits_as_one(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_COMPARE, 1, 0, 1);
        struct bed_cmd *pair[2], *w;
        struct meeting m;
        uint8_t three[512];

        meet(&m, loops, false, NULL);
        memset(three, 3, sizeof(three));
        sqe.flags |= FL_NVME_CMD_FUSE_FIRST;
        pair[0] = bed_send(m.s.h.io, &sqe, old, 512, true, 0);
        sqe.opcode = FL_NVME_CMD_WRITE;
        sqe.flags ^= FL_NVME_CMD_FUSE_MASK;
        pair[1] = bed_send(m.s.h.io, &sqe, new, 512, true, 0);
        for (uint32_t i = 0; i < loops; i++)
            await(&m, &m.s.bed->ss->ns[1]->views[i].hold);
        sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, 1);
        w = bed_send(m.io2, &sqe, three, 512, true, 0);
        bed_sleep(m.s.bed, 2);
        assert_false(pair[1]->answered || w->answered);
        end_read(&m);
        await(&m, &pair[1]->released);
        await(&m, &w->released);
        assert_int_equal(bed_status(pair[0]), 0);
        assert_int_equal(bed_status(pair[1]), 0);
        assert_int_equal(bed_status(w), 0);
        expect_all(m.io2, memcpy(old, three, 512)); /* the last */
        bed_free_cmd(pair[0]);
        bed_free_cmd(pair[1]);
        bed_free_cmd(w);
        part(&m);
    }
}

/* The namespace is removed, or the writer cut, while a write waits: all ends with the reader. */
static void what_waits_ends_with_its_namespace_or_host(void **state)
{
    for (uint32_t k = 0; k < 4; k++) {
        struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, BLOCKS);
        struct bed_conn *io3;
        struct meeting m;
        struct bed_cmd *w;

        meet(&m, 1 + k % 2, false, NULL);
        io3 = bed_io_queue(m.s.bed, BED_HOST, m.s.h.cntlid, 3);
        w = bed_send(io3, &sqe, new, LEN, true, 0);
        bed_sleep(m.s.bed, 2);
        if (k < 2)
            fl_namespace_remove(m.s.bed->ss, 1, 5000, NULL);
        else
            bed_cut(io3);
        bed_sleep(m.s.bed, 2);
        assert_false(w->released);
        end_read(&m);
        await(&m, &w->released);
        bed_turn(m.s.bed);
        assert_int_equal(m.s.bed->target->nr_closing_ns, 0);
        part(&m);
        bed_free_cmd(w);
        bed_conn_free(io3);
    }
}

/* What a smaller namespace has no longer is not taken from under a reader. */
static void shrink_under_a_reader(void **state)
{
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_READ, 1, 0, BLOCKS);
    struct fl_error err = {0};
    struct meeting m;

    meet(&m, 2, false, NULL);
    assert_int_equal(fl_namespace_resize(m.s.bed->ss, 1, 512, true, &err), 0);
    bed_turn(m.s.bed);
    end_read(&m);
    assert_int_equal(fl_namespace_resize(m.s.bed->ss, 1, 1 << 20, true, &err), 0);
    bed_turn(m.s.bed);
    assert_int_equal(bed_run(m.io2, &sqe, NULL, 0, got, LEN, NULL), 0);
    memset(old + 512, 0, LEN - 512);
    assert_memory_equal(got, old, LEN);
    part(&m);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(write_waits_for_a_reader), cmocka_unit_test(reader_makes_way),
                       cmocka_unit_test(reader_that_never_makes_way_is_cut),
                       cmocka_unit_test(reads_let_a_write_through), cmocka_unit_test(all_that_write_wait),
                       cmocka_unit_test(fused_pair_waits_as_one),
                       cmocka_unit_test(what_waits_ends_with_its_namespace_or_host),
                       cmocka_unit_test(shrink_under_a_reader));
}
