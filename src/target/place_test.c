/* SPDX-License-Identifier: Apache-2.0 */
/* Long writes to memory whose data is put where it belongs while more of it is on its way. */
#include <stdlib.h>

#include "base/clock.h"
#include "target/test_setup.h"

#define BLOCKS 512u
#define LEN    (BLOCKS * 512)
#define PART   4096u

static uint8_t old[LEN], new[LEN], got[LEN];

/* A write whose data is on its way, and a second queue that looks. */
struct writing {
    struct setup s;
    struct bed_conn *io2;
    struct bed_cmd *w;
    uint32_t first; /* block */
};

static void begin_at(struct writing *t, uint32_t nr_loops, uint32_t first)
{
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, BLOCKS);

    memset(old, 1, LEN);
    for (uint32_t i = 0; i < LEN; i++)
        new[i] = (uint8_t)(i / 512 * 7 + i + 2);
    start(&t->s, nr_loops, NULL);
    t->io2 = bed_io_queue(t->s.bed, BED_HOST, t->s.h.cntlid, 2);
    t->first = first;
    for (uint32_t i = 0; i < 2; i++) {
        sqe = bed_rw(FL_NVME_CMD_WRITE, 1, first, BLOCKS);
        if (!i)
            assert_int_equal(bed_run(t->s.h.io, &sqe, old, LEN, NULL, 0, NULL), 0);
    }
    t->w = bed_send(t->s.h.io, &sqe, new, LEN, false, 0);
    t->w->hold_fetch = true;
    bed_turn(t->s.bed);
    assert_true(t->w->fetching);
}

static void begin(struct writing *t, uint32_t nr_loops)
{
    begin_at(t, nr_loops, 0);
}

/* What another queue reads: the write's data up to new_len, then what was there before. */
static void expect(struct writing *t, uint32_t new_len)
{
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_READ, 1, t->first, BLOCKS);

    assert_int_equal(bed_run(t->io2, &sqe, NULL, 0, got, LEN, NULL), 0);
    assert_memory_equal(got, new, new_len);
    assert_memory_equal(got + new_len, old + new_len, LEN - new_len);
}

/* The rest of the data comes. Of what was placed the buffer has something else, for nobody should look. */
static void finish(struct writing *t, uint32_t placed_len, uint16_t status)
{
    uint64_t until = fl_now_ns() + 10 * FL_NS_PER_S;

    memset(t->w->out, 0xee, placed_len);
    bed_give_data(t->w);
    while (!t->w->released && fl_now_ns() < until)
        bed_sleep(t->s.bed, 1);
    assert_true(t->w->released);
    assert_int_equal(bed_status(t->w), status);
}

static void end(struct writing *t)
{
    bed_free_cmd(t->w);
    stop(&t->s);
    bed_conn_free(t->io2);
}

static void each_part_is_seen_at_once(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct writing t;

        begin(&t, loops);
        for (uint32_t off = 0; off < LEN; off += PART) {
            assert_true(bed_place(t.w, off, PART));
            if (off % (8 * PART) == 0)
                expect(&t, off + PART);
        }
        finish(&t, LEN, 0);
        expect(&t, LEN);
        end(&t);
    }
}

/* Half a block, what is out of order, and what goes over from one stripe of the marks to the next */
static void what_is_not_placed_comes_at_the_end(void **state)
{
    struct writing t;

    begin(&t, 1);
    assert_false(bed_place(t.w, 0, 256));
    assert_false(bed_place(t.w, PART, PART));
    assert_true(bed_place(t.w, 0, PART));
    assert_false(bed_place(t.w, 2 * PART, PART));
    expect(&t, PART);
    finish(&t, PART, 0);
    expect(&t, LEN);
    end(&t);

    begin_at(&t, 1, 1);
    assert_true(bed_place(t.w, 0, PART));
    for (uint32_t off = PART; off < 20 * PART; off += PART)
        assert_true(bed_place(t.w, off, PART));
    expect(&t, 20 * PART);
    finish(&t, 20 * PART, 0);
    expect(&t, LEN);
    end(&t);
}

/* A reader's blocks are what they were until it has them all. */
static void not_under_a_reader(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_READ, 1, 64 * 1024 / 512, 8);
        struct writing t;
        struct bed_cmd *r;

        begin(&t, loops);
        t.io2->hold_release = true;
        r = bed_send(t.io2, &sqe, NULL, 0, false, PART);
        bed_turn(t.s.bed);
        assert_true(r->answered && !r->released);
        for (uint32_t off = 0; off < 64 * 1024; off += PART)
            assert_true(bed_place(t.w, off, PART));
        assert_false(bed_place(t.w, 64 * 1024, PART));
        bed_release(r);
        assert_memory_equal(r->in, old, PART);
        t.io2->hold_release = false;
        expect(&t, 64 * 1024);
        assert_true(bed_place(t.w, 64 * 1024, PART));
        finish(&t, 64 * 1024 + PART, 0);
        expect(&t, LEN);
        bed_free_cmd(r);
        end(&t);
    }
}

/* The first stripe of its marks is free, the second is not: nothing of it is written, and the first is free
 * again. */
static void not_half_under_a_reader(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_READ, 1, 64 * 1024 / 512, 8);
        const uint32_t before = 15 * PART; /* this part goes over from one stripe to the next */
        struct writing t;
        struct bed_cmd *r;

        begin_at(&t, loops, 1);
        t.io2->hold_release = true;
        r = bed_send(t.io2, &sqe, NULL, 0, false, PART);
        bed_turn(t.s.bed);
        assert_true(r->answered && !r->released);
        for (uint32_t off = 0; off < before; off += PART)
            assert_true(bed_place(t.w, off, PART));
        assert_false(bed_place(t.w, before, PART));
        bed_release(r);
        assert_memory_equal(r->in, old, PART);
        t.io2->hold_release = false;
        expect(&t, before);
        assert_true(bed_place(t.w, before, PART));
        finish(&t, before + PART, 0);
        expect(&t, LEN);
        bed_free_cmd(r);
        end(&t);
    }
}

/* What had come of a write that another meets stays as the later of the two left it. */
static void what_another_wrote_since_stays(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_WRITE, 1, 0, 2 * PART / 512);
        static uint8_t other[2 * PART];
        struct writing t;

        begin(&t, loops);
        for (uint32_t off = 0; off < 3 * PART; off += PART)
            assert_true(bed_place(t.w, off, PART));
        memset(other, 0x77, sizeof(other));
        assert_int_equal(bed_run(t.io2, &sqe, other, sizeof(other), NULL, 0, NULL), 0);
        assert_true(bed_place(t.w, 3 * PART, PART));
        finish(&t, 0, 0);
        memcpy(new, other, sizeof(other));
        expect(&t, LEN);
        end(&t);
    }
}

static void taken(struct fl_excl *excl)
{
    excl->go = NULL;
}

/* While compare-and-write, say, has the namespace for itself */
static void waits_while_the_namespace_is_taken(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct fl_excl excl = {.go = taken};
        struct fl_tns *ns;
        struct writing t;

        begin(&t, loops);
        ns = fl_tio_of(&t.w->cmd)->view->ns;
        assert_true(bed_place(t.w, 0, PART));
        fl_excl_ask(ns, &excl);
        bed_turn(t.s.bed);
        assert_null(excl.go);
        assert_false(bed_place(t.w, PART, PART));
        bed_give_data(t.w);
        bed_turn(t.s.bed);
        assert_false(t.w->released);
        expect(&t, PART);
        fl_excl_end(ns);
        bed_turn(t.s.bed);
        assert_true(t.w->released);
        assert_int_equal(bed_status(t.w), 0);
        expect(&t, LEN);
        end(&t);
    }
}

static bool left_over(struct fl_cmd *cmd, uint32_t off, const void *data, uint32_t len)
{
    fail_msg("it belongs to the command before");
    return false;
}

/* A transport's object serves one command after the other. */
static void only_data_of_writes(void **state)
{
    struct fl_nvme_sqe sqe = bed_rw(FL_NVME_CMD_COMPARE, 1, 0, BLOCKS);
    struct writing t;
    struct bed_cmd *c;

    begin(&t, 1);
    c = bed_send(t.io2, &sqe, new, LEN, false, 0);
    c->cmd.place = left_over;
    c->hold_fetch = true;
    bed_turn(t.s.bed);
    assert_true(c->fetching);
    assert_false(bed_place(c, 0, PART));
    bed_give_data(c);
    bed_turn(t.s.bed);
    assert_true(c->released);
    assert_int_equal(bed_status(c), FL_NVME_SC_COMPARE_FAILED);
    finish(&t, 0, 0);
    expect(&t, LEN);
    bed_free_cmd(c);
    end(&t);
}

/* A write that breaks off has changed what had come, block by block, and nothing else. */
static void breaks_off_between_blocks(void **state)
{
    for (uint32_t loops = 1; loops <= 2; loops++) {
        struct writing t;

        begin(&t, loops);
        for (uint32_t off = 0; off < 3 * PART; off += PART)
            assert_true(bed_place(t.w, off, PART));
        bed_cut(t.s.h.io);
        assert_true(t.w->released);
        expect(&t, 3 * PART);
        end(&t);
    }
}

/* Aborted, or somebody else has a reservation by now: no more of it. */
static void stops_when_it_is_aborted(void **state)
{
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_ADM_ABORT, 0);
    struct writing t;
    struct bed_cmd *abort;

    begin(&t, 1);
    assert_true(bed_place(t.w, 0, PART));
    sqe.cdw10 = le32_of(1u | (uint32_t)le16_get(t.w->cmd.sqe.cid) << 16);
    abort = bed_send(t.s.h.admin, &sqe, NULL, 0, false, 0);
    bed_turn(t.s.bed);
    assert_false(abort->answered);
    assert_false(bed_place(t.w, PART, PART));
    finish(&t, 0, FL_NVME_SC_ABORT_REQ);
    bed_turn(t.s.bed);
    assert_true(abort->answered);
    expect(&t, PART);
    bed_free_cmd(abort);
    end(&t);
}

static void stops_when_another_host_reserves(void **state)
{
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_CMD_RESV_REGISTER, 1);
    const struct fl_nvme_resv_register_data reg = {.nrkey = le64_of(5)};
    const struct fl_nvme_resv_acquire_data acquire = {.crkey = le64_of(5)};
    struct bed_host other;
    struct writing t;

    begin(&t, 1);
    bed_host(t.s.bed, HOST_B, &other);
    assert_true(bed_place(t.w, 0, PART));
    assert_int_equal(bed_run(other.io, &sqe, &reg, sizeof(reg), NULL, 0, NULL), 0);
    sqe = bed_sqe(FL_NVME_CMD_RESV_ACQUIRE, 1);
    sqe.cdw10 = le32_of(1u << 8); /* Write Exclusive */
    assert_int_equal(bed_run(other.io, &sqe, &acquire, sizeof(acquire), NULL, 0, NULL), 0);
    assert_false(bed_place(t.w, PART, PART));
    finish(&t, 0, FL_NVME_SC_ABORT_PREEMPT);
    expect(&t, PART);
    end(&t);
    bed_conn_free(other.admin);
    bed_conn_free(other.io);
}

/* What is no longer part of the namespace is not written, and holds zeroes when it is again. */
static void not_beyond_the_end(void **state)
{
    struct fl_error err = {0};
    struct writing t;

    begin(&t, 1);
    assert_true(bed_place(t.w, 0, PART));
    assert_int_equal(fl_namespace_resize(t.s.bed->ss, 1, 2 * PART, true, &err), 0);
    bed_turn(t.s.bed);
    assert_true(bed_place(t.w, PART, PART));
    assert_false(bed_place(t.w, 2 * PART, PART));
    bed_give_data(t.w);
    bed_turn(t.s.bed);
    assert_true(t.w->released);
    assert_int_not_equal(bed_status(t.w), 0);
    assert_int_equal(fl_namespace_resize(t.s.bed->ss, 1, 1 << 20, true, &err), 0);
    bed_turn(t.s.bed);
    memset(old, 0, LEN);
    expect(&t, 2 * PART);
    end(&t);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(each_part_is_seen_at_once), cmocka_unit_test(what_is_not_placed_comes_at_the_end),
        cmocka_unit_test(not_under_a_reader), cmocka_unit_test(not_half_under_a_reader),
        cmocka_unit_test(what_another_wrote_since_stays),
        cmocka_unit_test(waits_while_the_namespace_is_taken), cmocka_unit_test(only_data_of_writes),
        cmocka_unit_test(breaks_off_between_blocks), cmocka_unit_test(stops_when_it_is_aborted),
        cmocka_unit_test(stops_when_another_host_reserves), cmocka_unit_test(not_beyond_the_end));
}
