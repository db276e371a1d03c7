/* SPDX-License-Identifier: Apache-2.0 */
/* A digest that a ram namespace gives is that of its bytes, whatever has changed them since it was kept. */
#include "backend/digests.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "backend/backend.h"
#include "backend/marks.h"
#include "base/crc.h"
#include "base/unit.h"
#include "base/util.h"

#define LEN   (UINT64_C(4) << 20)
#define PIECE FL_DIGESTS_LEN

struct bed {
    struct fl_backend *backend;
    struct fl_chan *chan;
    uint8_t *buf; /* of LEN bytes, at random */
};

static void fill(uint8_t *buf, size_t len, uint32_t seed)
{
    for (size_t i = 0; i < len; i++) {
        seed = seed * 1664525 + 1013904223;
        buf[i] = (uint8_t)(seed >> 24);
    }
}

static void open_chan(struct fl_backend *backend, struct fl_chan **chan)
{
    assert_int_equal(fl_chan_open(backend, NULL, chan), 0);
}

static void setup(struct bed *bed)
{
    struct fl_url *url = malloc(sizeof(*url));

    assert_int_equal(fl_url_parse("ram:4M", url, NULL), 0);
    assert_int_equal(fl_backend_open(url, &bed->backend, NULL), 0);
    free(url);
    open_chan(bed->backend, &bed->chan);
    bed->buf = malloc(LEN);
    fill(bed->buf, LEN, 1);
}

static void teardown(struct bed *bed)
{
    free(bed->buf);
    fl_chan_close(bed->chan);
    fl_backend_close(bed->backend);
}

static void done(struct fl_bio *bio, int result)
{
    assert_int_equal(result, 0);
    bio->priv[9] = 1;
}

static void run(struct fl_chan *chan, enum fl_bio_op op, uint64_t off, void *data, uint64_t len)
{
    struct iovec iov = {data, len};
    struct fl_bio bio = {.op = op, .off = off, .len = len, .iov = &iov, .nr_iov = 1, .done = done};

    fl_chan_submit(chan, &bio);
    assert_int_equal(bio.priv[9], 1);
}

/* As a read that is sent from where it lies: its bytes are its own until the digest is out. */
static uint32_t digest(struct fl_backend *b, uint64_t off, uint64_t len, uint32_t *of_bytes)
{
    uint32_t crc;

    while (!fl_marks_read(b->marks, off, len))
        ;
    crc = b->ops->digest(b, off, len);
    *of_bytes = fl_crc32c(0, b->mem + off, len);
    fl_marks_read_end(b->marks, off, len);
    return crc;
}

static void expect_right(struct fl_backend *b, uint64_t off, uint64_t len)
{
    uint32_t of_bytes, crc = digest(b, off, len, &of_bytes);

    if (crc != of_bytes)
        fail_msg("%llu bytes at %llu: %08x, not %08x", (unsigned long long)len, (unsigned long long)off, crc,
                 of_bytes);
}

static void is_that_of_the_bytes(void **state)
{
    static const struct {
        uint64_t off, len;
    } at[] = {{0, 512},       {0, PIECE},          {512, 512},           {512, PIECE},
              {PIECE, PIECE}, {PIECE - 512, 1024}, {1536, 3 * PIECE},    {0, 32 * PIECE},
              {0, LEN},       {512, LEN - 1024},   {LEN - PIECE, PIECE}, {65536 - 512, 65536},
              {65536, 65536}};
    struct bed bed;

    setup(&bed);
    run(bed.chan, FL_BIO_WRITE, 0, bed.buf, LEN);
    for (int round = 0; round < 2; round++)
        for (size_t i = 0; i < FL_ARRAY_LEN(at); i++)
            expect_right(bed.backend, at[i].off, at[i].len);
    teardown(&bed);
}

/* They are kept indeed: what changes memory behind the back of the namespace is found out. */
static void is_kept(void **state)
{
    struct bed bed;
    uint32_t was, crc, now;
    uint8_t *mem;

    setup(&bed);
    mem = (uint8_t *)(uintptr_t)bed.backend->mem;
    run(bed.chan, FL_BIO_WRITE, 0, bed.buf, 4 * PIECE);
    crc = digest(bed.backend, 512, 3 * PIECE, &was);
    assert_int_equal(crc, was);
    mem[2 * PIECE] ^= 1;
    crc = digest(bed.backend, 512, 3 * PIECE, &now);
    assert_int_equal(crc, was);
    assert_int_not_equal(now, was);
    mem[2 * PIECE] ^= 1;
    teardown(&bed);
}

/* ---- each way to change memory ---- */

static void by_write(struct bed *bed, uint64_t off, uint64_t len)
{
    run(bed->chan, FL_BIO_WRITE, off, bed->buf, len);
}

static void by_write_now(struct bed *bed, uint64_t off, uint64_t len)
{
    for (uint64_t at = 0; at < len; at += 512)
        assert_true(bed->backend->ops->write_now(bed->backend, off + at, bed->buf + at, 512));
}

static void by_zero(struct bed *bed, uint64_t off, uint64_t len)
{
    run(bed->chan, FL_BIO_ZERO, off, NULL, len);
}

static void by_trim(struct bed *bed, uint64_t off, uint64_t len)
{
    run(bed->chan, FL_BIO_TRIM, off, NULL, len);
}

/* All behind off goes, and comes back as zeroes. A reader that was not told yet finds zeroes, too. */
static void by_resize(struct bed *bed, uint64_t off, uint64_t len)
{
    assert_int_equal(bed->backend->ops->resize(bed->backend, off ? off : 512, NULL), 0);
    expect_right(bed->backend, 0, LEN);
    assert_int_equal(bed->backend->ops->resize(bed->backend, LEN, NULL), 0);
}

/* A reader keeps what lies behind from being given back: it is zeroed when the namespace grows. */
static void by_growth(struct bed *bed, uint64_t off, uint64_t len)
{
    assert_true(fl_marks_read(bed->backend->marks, 0, LEN));
    by_resize(bed, off, len);
    fl_marks_read_end(bed->backend->marks, 0, LEN);
}

static void follows_every_change(void **state)
{
    static void (*const ways[])(struct bed * bed, uint64_t off, uint64_t len) = {
        by_write, by_write_now, by_zero, by_trim, by_resize, by_growth};
    static const struct {
        uint64_t off, len;
    } at[] = {{0, 512},       {PIECE - 512, 512},  {PIECE - 512, 1024},
              {PIECE, PIECE}, {65536 - 512, 1024}, {65536 + 512, 2 * 65536},
              {512, 1 << 20}, {LEN - 512, 512}};
    struct bed bed;

    setup(&bed);
    for (size_t w = 0; w < FL_ARRAY_LEN(ways); w++) {
        for (size_t i = 0; i < FL_ARRAY_LEN(at); i++) {
            uint32_t was, crc;

            fill(bed.buf, LEN, (uint32_t)(100 * w + i));
            run(bed.chan, FL_BIO_WRITE, 0, bed.buf, LEN);
            crc = digest(bed.backend, 0, LEN, &was);
            assert_int_equal(crc, was);
            fill(bed.buf, LEN, (uint32_t)(100 * w + i + 50));
            ways[w](&bed, at[i].off, at[i].len);
            for (uint64_t off = 0; off < LEN; off += PIECE)
                expect_right(bed.backend, off, PIECE);
            expect_right(bed.backend, 0, LEN);
            assert_int_not_equal(fl_crc32c(0, bed.backend->mem, LEN), was);
        }
    }
    teardown(&bed);
}

/* What was begun before a change without marks does not count after it, also if it is kept later. */
static void late_ones_do_not_count(void **state)
{
    static uint8_t mem[2 * PIECE];
    struct fl_digests d;
    uint64_t early;

    fl_digests_init(&d, sizeof(mem));
    assert_non_null(d.entry);
    fill(mem, sizeof(mem), 3);
    assert_int_equal(fl_digests_of(&d, mem, 0, sizeof(mem)), fl_crc32c(0, mem, sizeof(mem)));
    early = d.entry[0];
    assert_true(early);
    for (int i = 0; i < 2; i++) {
        fl_digests_drop_all(&d);
        fill(mem, sizeof(mem), 4);
        d.entry[0] = early;
        assert_int_equal(fl_digests_of(&d, mem, 0, sizeof(mem)), fl_crc32c(0, mem, sizeof(mem)));
        early = d.entry[0];
    }
    fl_digests_fini(&d);
}

/* Without the memory for them they are computed. */
static void goes_without(void **state)
{
    static uint8_t mem[2 * PIECE];
    struct fl_digests d = {.entry = NULL};

    fill(mem, sizeof(mem), 3);
    fl_digests_drop_all(&d);
    fl_digests_drop(&d, 0, PIECE);
    for (uint32_t i = 0; i < 2; i++, mem[0]++)
        assert_int_equal(fl_digests_of(&d, mem, 0, sizeof(mem)), fl_crc32c(0, mem, sizeof(mem)));
    fl_digests_fini(&d);
}

/* ---- several threads ---- */

#define SHARED_LEN (UINT64_C(256) << 10)
#define ROUNDS     300u

struct sharer {
    struct fl_backend *backend;
    pthread_t thread;
    uint32_t number, nr_wrong;
};

/* Even ones change something, each in another way by turns; odd ones read. */
static void *share(void *arg)
{
    struct sharer *s = arg;
    uint32_t seed = s->number;
    uint8_t *buf = malloc(SHARED_LEN);
    struct fl_chan *chan;

    open_chan(s->backend, &chan);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        uint64_t off, len;

        seed = seed * 1664525 + 1013904223;
        off = (seed >> 8) % (SHARED_LEN / 512) * 512;
        len = FL_MIN(((seed >> 4) % 300 + 1) * 512, SHARED_LEN - off);
        if (s->number % 2) {
            uint32_t of_bytes, crc = digest(s->backend, off, len, &of_bytes);

            s->nr_wrong += crc != of_bytes;
        } else if (round % 4 == 3) {
            run(chan, round % 8 == 3 ? FL_BIO_ZERO : FL_BIO_TRIM, off, NULL, len);
        } else if (round % 4 == 2) {
            memset(buf, (int)round, 4096);
            (void)s->backend->ops->write_now(s->backend, off, buf, FL_MIN(len, UINT64_C(4096)));
        } else {
            memset(buf, (int)(seed >> 16), len);
            run(chan, FL_BIO_WRITE, off, buf, len);
        }
    }
    fl_chan_close(chan);
    free(buf);
    return NULL;
}

static void is_right_among_threads(void **state)
{
    struct sharer sharers[4];
    struct bed bed;

    setup(&bed);
    for (uint32_t i = 0; i < FL_ARRAY_LEN(sharers); i++) {
        sharers[i] = (struct sharer){.backend = bed.backend, .number = i};
        assert_int_equal(pthread_create(&sharers[i].thread, NULL, share, &sharers[i]), 0);
    }
    for (uint32_t i = 0; i < FL_ARRAY_LEN(sharers); i++) {
        pthread_join(sharers[i].thread, NULL);
        assert_int_equal(sharers[i].nr_wrong, 0);
    }
    expect_right(bed.backend, 0, LEN);
    teardown(&bed);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(is_that_of_the_bytes), cmocka_unit_test(is_kept),
                       cmocka_unit_test(follows_every_change), cmocka_unit_test(late_ones_do_not_count),
                       cmocka_unit_test(goes_without), cmocka_unit_test(is_right_among_threads));
}
