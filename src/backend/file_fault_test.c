/* SPDX-License-Identifier: Apache-2.0 */
/* The file back end over answers that a kernel seldom gives, and over a medium that loses its cache. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "backend/file_bed.h"
#include "base/log.h"

/* ---- an engine that answers by a script ---- */

static struct {
    struct fl_list queue;
    unsigned seed;
    bool shorten;   /* reads and writes, as the kernel may */
    bool stutter;   /* EAGAIN and EINTR */
    int answer[4];  /* by fl_file_code: instead of doing it; 0: none */
    int nr_answers; /* how many such answers are left; negative: no end */
    unsigned nr_short, nr_stutter, nr_answered, nr_syncs, nr_allocs;
} script;

static int script_open(struct fl_file_chan *chan)
{
    fl_list_init(&script.queue);
    return 0;
}

static void script_close(struct fl_file_chan *chan)
{
    assert_true(fl_list_empty(&script.queue));
}

static void script_start(struct fl_file_chan *chan, struct fl_bio *bio)
{
    fl_list_add_tail(&script.queue, &bio->link);
}

static int script_do(struct fl_file_chan *chan, struct fl_bio *bio)
{
    struct fl_file_op *op = fl_file_op(bio);
    off_t at = (off_t)(bio->off + op->pos);
    uint32_t unit = chan->file->direct ? chan->file->off_align : 1, nr = op->nr_iov;
    struct iovec iov[8];
    ssize_t n;

    script.nr_syncs += op->code == FL_FILE_SYNC;
    script.nr_allocs += op->code == FL_FILE_ALLOC;
    if (script.answer[op->code] && script.nr_answers) {
        script.nr_answers -= script.nr_answers > 0;
        script.nr_answered++;
        return script.answer[op->code];
    }
    if (script.stutter && rand_r(&script.seed) % 4 == 0) {
        script.nr_stutter++;
        return rand_r(&script.seed) % 2 ? -EAGAIN : -EINTR;
    }
    if (op->code == FL_FILE_SYNC)
        return fdatasync(chan->fd);
    if (op->code == FL_FILE_ALLOC)
        return fallocate(chan->fd, op->mode, at, (off_t)op->len) ? -errno : 0;
    nr = FL_MIN(nr, (uint32_t)FL_ARRAY_LEN(iov));
    memcpy(iov, op->iov, nr * sizeof(iov[0]));
    if (script.shorten && iov[nr - 1].iov_len > unit) {
        iov[nr - 1].iov_len = (1 + (size_t)rand_r(&script.seed) % (iov[nr - 1].iov_len / unit)) * unit;
        script.nr_short++;
    }
    n = op->code == FL_FILE_READ ? preadv(chan->fd, iov, (int)nr, at) : pwritev(chan->fd, iov, (int)nr, at);
    return n < 0 ? -errno : (int)n;
}

static int script_reap(struct fl_file_chan *chan)
{
    struct fl_list *link;
    int n = 0;

    for (; (link = fl_list_pop(&script.queue)); n++) {
        struct fl_bio *bio = FL_LIST_ENTRY(link, struct fl_bio, link);

        fl_file_complete(bio, script_do(chan, bio));
    }
    return n;
}

static int script_hand_over(struct fl_file_chan *chan)
{
    return 0;
}

static const struct fl_file_engine script_engine = {
    .name = "script",
    .open = script_open,
    .close = script_close,
    .start = script_start,
    .hand_over = script_hand_over,
    .reap = script_reap,
};

static void setup_scripted(struct bed *bed, const char *spec)
{
    memset(&script, 0, sizeof(script));
    bed_setup(bed, spec, &script_engine);
}

/* ---- faults ---- */

static void short_transfers_go_on(void **state)
{
    static const char *const specs[] = {"short,size=1M", "short,direct=0", "short,direct=0,bs=4096"};

    for (size_t s = 0; s < FL_ARRAY_LEN(specs); s++) {
        for (unsigned odd = 0; odd < 2; odd++) {
            struct bed bed;

            setup_scripted(&bed, specs[s]);
            script.shorten = script.stutter = true;
            fill(bed.buf, BED_LEN, (unsigned)s);
            for (unsigned i = 0; i < 8; i++) {
                assert_int_equal(run(&bed, FL_BIO_WRITE, 0, bed.buf + odd, 8192, 524288), 0);
                memset(bed.buf2, 0, BED_LEN);
                assert_int_equal(run(&bed, FL_BIO_READ, 0, bed.buf2 + odd, 8192, 524288), 0);
                assert_memory_equal(bed.buf + odd, bed.buf2 + odd, 524288);
            }
            assert_true(script.nr_short > 20 && script.nr_stutter > 20);
            bed_teardown(&bed);
        }
    }
}

static void answer(enum fl_file_code code, int result, int nr)
{
    memset(script.answer, 0, sizeof(script.answer));
    script.answer[code] = result;
    script.nr_answers = nr;
    script.nr_answered = 0;
}

static void errors_keep_their_meaning(void **state)
{
    static const struct {
        int kernel, bio;
    } codes[] = {{-EIO, -EIO}, {-ENOSPC, -ENOSPC}, {-EDQUOT, -ENOSPC}, {-EFBIG, -ENOSPC}, {-ENOMEM, -ENOMEM}};
    struct bed bed;

    setup_scripted(&bed, "errors,size=1M");
    for (size_t i = 0; i < FL_ARRAY_LEN(codes); i++) {
        answer(FL_FILE_WRITE, codes[i].kernel, 1);
        assert_int_equal(run(&bed, FL_BIO_WRITE, 0, bed.buf, 0, 4096), codes[i].bio);
        assert_int_equal(script.nr_answered, 1);
        answer(FL_FILE_WRITE, codes[i].kernel, 1);
        assert_int_equal(run(&bed, FL_BIO_WRITE, 0, bed.buf + 1, 0, 4096), codes[i].bio); /* bounced */
    }
    answer(FL_FILE_READ, -EIO, 1);
    assert_int_equal(run(&bed, FL_BIO_READ, 0, bed.buf, 0, 4096), -EIO);
    answer(FL_FILE_READ, -EAGAIN, -1); /* for ever: an end all the same */
    assert_int_equal(run(&bed, FL_BIO_READ, 0, bed.buf, 0, 4096), -EAGAIN);
    /* Somebody cut the file: no bytes are not zeroes. */
    assert_int_equal(ftruncate(fl_file_of(bed.backend)->fd, 4096), 0);
    answer(FL_FILE_READ, 0, 0);
    assert_int_equal(run(&bed, FL_BIO_READ, 0, bed.buf, 0, 8192), -EIO);
    assert_int_equal(run(&bed, FL_BIO_READ, 0, bed.buf, 8192, 4096), -EIO);
    bed_teardown(&bed);
}

static void zeroes_without_fallocate(void **state)
{
    static const int codes[] = {-EOPNOTSUPP, -EINVAL};

    for (size_t i = 0; i < FL_ARRAY_LEN(codes); i++) {
        struct bed bed;

        setup_scripted(&bed, "zeroes,size=1M");
        fill(bed.buf, BED_LEN, 1);
        assert_int_equal(run(&bed, FL_BIO_WRITE, 0, bed.buf, 0, BED_LEN), 0);
        answer(FL_FILE_ALLOC, codes[i], -1);
        assert_int_equal(run(&bed, FL_BIO_ZERO, FL_BIO_F_FUA, NULL, 512, BED_LEN - 1024), 0);
        assert_true(script.nr_answered > 0);
        assert_int_equal(script.nr_syncs, 1); /* FUA */
        assert_int_equal(run(&bed, FL_BIO_TRIM, 0, NULL, 512, 4096), 0);
        assert_int_equal(run(&bed, FL_BIO_READ, 0, bed.buf2, 0, BED_LEN), 0);
        assert_memory_equal(bed.buf, bed.buf2, 512);
        assert_memory_equal(bed.buf + BED_LEN - 512, bed.buf2 + BED_LEN - 512, 512);
        for (uint64_t b = 512; b < BED_LEN - 512; b++)
            assert_int_equal(bed.buf2[b], 0);
        /* A way that is not there is not tried again; one that did not suit a range is. */
        assert_int_equal(fl_file_of(bed.backend)->can == 0, codes[i] == -EOPNOTSUPP);
        answer(FL_FILE_ALLOC, -ENOSPC, 1);
        fl_file_of(bed.backend)->can = FL_FILE_CAN_ZERO;
        assert_int_equal(run(&bed, FL_BIO_ZERO, 0, NULL, 0, 4096), -ENOSPC);
        bed_teardown(&bed);
    }
}

static void swallow(void *arg, enum fl_log_level level, const char *text)
{
    (*(int *)arg)++;
}

static void failed_write_back_is_not_forgotten(void **state)
{
    struct bed bed;
    struct job a, b;
    int logged = 0;

    setup_scripted(&bed, "lost,size=1M,direct=0");
    fl_log_set_sink(swallow, &logged);
    answer(FL_FILE_SYNC, -EIO, 1);
    start(&bed, &a, FL_BIO_FLUSH, 0, NULL, 0, 0);
    start(&bed, &b, FL_BIO_FLUSH, 0, NULL, 0, 0);
    while (!a.done || !b.done)
        fl_chan_poll(bed.chan);
    assert_int_equal(a.result, -EIO);
    assert_int_equal(b.result, -EIO); /* its sync went well: the kernel had told already */
    assert_int_equal(run(&bed, FL_BIO_FLUSH, 0, NULL, 0, 0), -EIO);
    assert_int_equal(logged, 1);
    fl_log_set_sink(NULL, NULL);
    bed_teardown(&bed);

    setup_scripted(&bed, "lost");
    if (fl_file_of(bed.backend)->direct) { /* nothing lies in the page cache: the next answer counts */
        answer(FL_FILE_SYNC, -EIO, 1);
        assert_int_equal(run(&bed, FL_BIO_FLUSH, 0, NULL, 0, 0), -EIO);
        assert_int_equal(run(&bed, FL_BIO_FLUSH, 0, NULL, 0, 0), 0);
    }
    bed_teardown(&bed);
}

static void flushes_share_a_sync_begun_after_them(void **state)
{
    struct bed bed;
    struct job f[6];

    setup_scripted(&bed, "share,size=1M");
    start(&bed, &f[0], FL_BIO_FLUSH, 0, NULL, 0, 0); /* begins at once */
    for (int i = 1; i < 6; i++)
        start(&bed, &f[i], FL_BIO_FLUSH, 0, NULL, 0, 0); /* came after it began: a second one */
    while (!f[5].done)
        fl_chan_poll(bed.chan);
    for (int i = 0; i < 6; i++)
        assert_true(f[i].done && f[i].result == 0);
    assert_int_equal(script.nr_syncs, 2);
    bed_teardown(&bed);
}

/* ---- a power failure, by a model of the medium ---- */

#define NR_CELLS 64

/* What the cache of the medium holds, and what would be left without power. By block: the number of its last
 * write. */
static struct {
    uint64_t cached[NR_CELLS], kept[NR_CELLS], at_sync[NR_CELLS];
} medium;

static void model_start(struct fl_file_chan *chan, struct fl_bio *bio)
{
    /* The least that fdatasync promises: what was complete when it began. */
    if (fl_file_op(bio)->code == FL_FILE_SYNC)
        memcpy(medium.at_sync, medium.cached, sizeof(medium.cached));
    script_start(chan, bio);
}

static int model_complete(struct fl_bio *bio)
{
    struct fl_file_op *op = fl_file_op(bio);
    uint64_t cell = bio->off / 512, seq;

    if (op->code == FL_FILE_SYNC) {
        for (int i = 0; i < NR_CELLS; i++)
            medium.kept[i] = FL_MAX(medium.kept[i], medium.at_sync[i]);
        return 0;
    }
    assert_int_equal(op->code, FL_FILE_WRITE);
    memcpy(&seq, op->iov[0].iov_base, sizeof(seq));
    medium.cached[cell] = seq;
    if (op->dsync)
        medium.kept[cell] = seq;
    return (int)op->len;
}

/* Some of what is under way ends, in any order. */
static int model_reap(struct fl_file_chan *chan)
{
    struct fl_list rest, *link;
    int n = 0;

    fl_list_init(&rest);
    fl_list_splice(&rest, &script.queue);
    while ((link = fl_list_pop(&rest))) {
        struct fl_bio *bio = FL_LIST_ENTRY(link, struct fl_bio, link);

        if (rand_r(&script.seed) % 3) {
            fl_list_add_tail(&script.queue, link);
            continue;
        }
        fl_file_complete(bio, model_complete(bio));
        n++;
    }
    return n;
}

static const struct fl_file_engine model_engine = {
    .name = "model",
    .open = script_open,
    .close = script_close,
    .start = model_start,
    .hand_over = script_hand_over,
    .reap = model_reap,
};

/* A host that remembers what it was promised. */
struct promise {
    struct job job;
    uint64_t cell, seq;
    uint64_t covered[NR_CELLS];
    bool used;
};

static void take_promise(struct promise *p, uint64_t *acked, uint64_t *durable)
{
    assert_int_equal(p->job.result, 0);
    p->used = false;
    if (p->job.bio.op == FL_BIO_FLUSH) {
        for (int i = 0; i < NR_CELLS; i++)
            durable[i] = FL_MAX(durable[i], p->covered[i]);
        return;
    }
    acked[p->cell] = p->seq;
    if (p->job.bio.flags & FL_BIO_F_FUA)
        durable[p->cell] = p->seq;
}

static void power_fails(unsigned seed, unsigned turns)
{
    uint64_t issued[NR_CELLS] = {0}, acked[NR_CELLS] = {0}, durable[NR_CELLS] = {0};
    bool busy[NR_CELLS] = {false};
    struct promise *ps = calloc(12, sizeof(*ps));
    struct bed bed;

    memset(&medium, 0, sizeof(medium));
    memset(&script, 0, sizeof(script));
    script.seed = seed;
    bed_setup(&bed, "model,size=1M", &model_engine);
    for (unsigned t = 0; t < turns; t++) {
        for (struct promise *p = ps; p < ps + 12; p++) {
            uint8_t *buf = bed.buf + (p - ps) * 512;
            bool flush = rand_r(&script.seed) % 6 == 0;

            if (p->used && p->job.done) {
                busy[p->cell] &= p->job.bio.op == FL_BIO_FLUSH;
                take_promise(p, acked, durable);
            }
            p->cell = p->used ? p->cell : (uint64_t)rand_r(&script.seed) % NR_CELLS;
            if (p->used || (!flush && busy[p->cell]))
                continue;
            p->used = true;
            if (flush) {
                memcpy(p->covered, acked, sizeof(acked));
                start(&bed, &p->job, FL_BIO_FLUSH, 0, NULL, 0, 0);
                continue;
            }
            busy[p->cell] = true;
            p->seq = ++issued[p->cell];
            memcpy(buf, &p->seq, sizeof(p->seq));
            start(&bed, &p->job, FL_BIO_WRITE, rand_r(&script.seed) % 8 ? 0 : FL_BIO_F_FUA, buf,
                  p->cell * 512, 512);
        }
        fl_chan_poll(bed.chan);
    }
    for (struct promise *p = ps; p < ps + 12; p++) /* promises that came in the last turn */
        if (p->used && p->job.done)
            take_promise(p, acked, durable);
    for (int i = 0; i < NR_CELLS; i++)
        if (medium.kept[i] < durable[i] || medium.kept[i] > issued[i])
            fail_msg("seed %u: block %d has write %llu; durable %llu, issued %llu", seed, i,
                     (unsigned long long)medium.kept[i], (unsigned long long)durable[i],
                     (unsigned long long)issued[i]);
    for (struct promise *p = ps; p < ps + 12; p++)
        while (p->used && !p->job.done)
            fl_chan_poll(bed.chan);
    free(ps);
    bed_teardown(&bed);
}

static void power_failures_keep_promises(void **state)
{
    for (unsigned seed = 1; seed <= 200; seed++)
        power_fails(seed, 20 + seed % 80);
}

int main(void)
{
    return BED_RUN(cmocka_unit_test(short_transfers_go_on), cmocka_unit_test(errors_keep_their_meaning),
                   cmocka_unit_test(zeroes_without_fallocate),
                   cmocka_unit_test(failed_write_back_is_not_forgotten),
                   cmocka_unit_test(flushes_share_a_sync_begun_after_them),
                   cmocka_unit_test(power_failures_keep_promises));
}
