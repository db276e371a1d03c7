/* SPDX-License-Identifier: Apache-2.0 */
/* One table of vectors for every back end. */
#include "backend/backend.h"

#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/unit.h"
#include "base/util.h"
#include "mem/range.h"

#define LEN     (UINT64_C(4) << 20)
#define MIB     (UINT64_C(1) << 20)
#define NR_DEEP 64

/* ---- what each vector works with ---- */

static const struct kind {
    const char *name, *spec; /* %s: a directory of the test's own */
    uint32_t block_len;
} kinds[] = {
    {"ram 512", "ram:4M,bs=512", 512},
    {"ram 4096", "ram:4M,bs=4096", 4096},
    {"file 512", "file:%s/a,size=4M", 512},
    {"file 4096", "file:%s/b,size=4M,bs=4096", 4096},
    {"file buffered 512", "file:%s/c,size=4M,direct=0", 512},
    {"file buffered 4096", "file:%s/d,size=4M,direct=0,bs=4096", 4096},
    {"file threads 512", "file:%s/e,size=4M,uring=0", 512},
    {"file threads buffered", "file:%s/f,size=4M,uring=0,direct=0,bs=4096", 4096},
    {"file prealloc", "file:%s/g,size=4M,prealloc=1,bs=4096", 4096},
};

static char dir[64];

struct bed {
    const struct kind *kind;
    struct fl_loop *loop; /* NULL: the test polls */
    struct fl_backend *backend;
    struct fl_chan *chan;
    uint8_t *mem; /* 2 MiB, page aligned */
};

static int open_spec(const char *spec, struct fl_backend **backend, struct fl_error *err)
{
    struct fl_url *url = malloc(sizeof(*url));
    int rc = fl_url_parse(spec, url, err);

    if (!rc)
        rc = fl_backend_open(url, backend, err);
    free(url);
    return rc;
}

static void setup(struct bed *bed, const struct kind *kind, bool on_loop)
{
    struct fl_error err = {0};
    char spec[256];

    *bed = (struct bed){.kind = kind};
    snprintf(spec, sizeof(spec), kind->spec, dir);
    if (open_spec(spec, &bed->backend, &err))
        fail_msg("%s: %s", spec, err.text);
    if (on_loop)
        assert_int_equal(fl_loop_create(NULL, &bed->loop), 0);
    assert_int_equal(fl_chan_open(bed->backend, bed->loop, &bed->chan), 0);
    assert_int_equal(posix_memalign((void **)&bed->mem, 4096, 2 * MIB), 0);
    memset(bed->mem, 0xee, 2 * MIB);
}

static void teardown(struct bed *bed)
{
    free(bed->mem);
    fl_chan_close(bed->chan);
    fl_loop_destroy(bed->loop);
    fl_backend_close(bed->backend);
}

struct job {
    struct fl_bio bio;
    struct iovec iov;
    bool done;
    int result;
};

static void job_done(struct fl_bio *bio, int result)
{
    struct job *job = FL_CONTAINER_OF(bio, struct job, bio);

    assert_false(job->done);
    job->done = true;
    job->result = result;
}

static void start(struct bed *bed, struct job *job, enum fl_bio_op op, uint32_t flags, void *buf,
                  uint64_t off, uint64_t len)
{
    *job = (struct job){.iov = {.iov_base = buf, .iov_len = len}};
    job->bio = (struct fl_bio){.op = op, .flags = flags, .off = off, .len = len, .done = job_done};
    if (buf) {
        job->bio.iov = &job->iov;
        job->bio.nr_iov = 1;
    }
    fl_chan_submit(bed->chan, &job->bio);
}

static void poll_or_sleep(struct fl_chan *chan)
{
    struct pollfd pfd = {.fd = fl_chan_fd(chan), .events = POLLIN};
    int n = fl_chan_poll(chan);

    assert_true(n >= 0);
    if (!n && pfd.fd >= 0 && poll(&pfd, 1, 30000) == 0)
        fail_msg("no completion in 30 s, and the descriptor is not readable");
}

static int finish(struct bed *bed, struct job *job)
{
    while (!job->done) {
        if (bed->loop)
            assert_true(fl_loop_turn(bed->loop, UINT64_C(10000000000)) >= 0);
        else
            poll_or_sleep(bed->chan);
    }
    return job->result;
}

static int run(struct bed *bed, enum fl_bio_op op, uint32_t flags, void *buf, uint64_t off, uint64_t len)
{
    struct job job;

    start(bed, &job, op, flags, buf, off, len);
    return finish(bed, &job);
}

#define READ(off, len, buf)  assert_int_equal(run(bed, FL_BIO_READ, 0, buf, off, len), 0)
#define WRITE(off, len, buf) assert_int_equal(run(bed, FL_BIO_WRITE, 0, buf, off, len), 0)

/* Bytes that tell their place and generation. */
static void fill(uint8_t *buf, uint64_t off, uint64_t len, unsigned seed)
{
    for (uint64_t i = 0; i < len; i++)
        buf[i] = (uint8_t)((off + i) * 131 + ((off + i) >> 9) + seed);
}

static void expect(const uint8_t *buf, uint64_t off, uint64_t len, unsigned seed)
{
    for (uint64_t i = 0; i < len; i++) {
        uint8_t want = (uint8_t)((off + i) * 131 + ((off + i) >> 9) + seed);

        if (buf[i] != want)
            fail_msg("byte %llu is %u, not %u", (unsigned long long)(off + i), buf[i], want);
    }
}

static void expect_zero(const uint8_t *buf, uint64_t len)
{
    for (uint64_t i = 0; i < len; i++) {
        if (buf[i])
            fail_msg("byte %llu is %u, not 0", (unsigned long long)i, buf[i]);
    }
}

/* ---- the vectors ---- */

static void reads_back(struct bed *bed)
{
    static const struct {
        uint64_t off, len;
    } at[] = {{0, 4096}, {4096, 65536}, {MIB - 4096, MIB}, {LEN - 4096, 4096}, {LEN - MIB, MIB}};

    for (size_t i = 0; i < FL_ARRAY_LEN(at); i++) {
        fill(bed->mem, at[i].off, at[i].len, (unsigned)i);
        WRITE(at[i].off, at[i].len, bed->mem);
        memset(bed->mem, 0xee, at[i].len);
        READ(at[i].off, at[i].len, bed->mem);
        expect(bed->mem, at[i].off, at[i].len, (unsigned)i);
        if (bed->backend->mem)
            expect(bed->backend->mem + at[i].off, at[i].off, at[i].len, (unsigned)i);
    }
}

static void single_blocks(struct bed *bed)
{
    uint32_t bs = bed->kind->block_len;

    for (uint64_t off = 0; off < 16 * bs; off += bs) {
        fill(bed->mem, off, bs, 3);
        WRITE(off, bs, bed->mem);
    }
    fill(bed->mem, 5 * bs, bs, 77);
    WRITE(5 * bs, bs, bed->mem);
    READ(0, 16 * bs, bed->mem);
    expect(bed->mem, 0, 5 * bs, 3);
    expect(bed->mem + 5 * bs, 5 * bs, bs, 77);
    expect(bed->mem + 6 * bs, 6 * bs, 10 * bs, 3);
}

static void out_of_range(struct bed *bed)
{
    uint32_t bs = bed->kind->block_len;

    assert_int_equal(run(bed, FL_BIO_READ, 0, bed->mem, LEN, bs), -EINVAL);
    assert_int_equal(run(bed, FL_BIO_READ, 0, bed->mem, LEN - bs, 2 * bs), -EINVAL);
    assert_int_equal(run(bed, FL_BIO_WRITE, 0, bed->mem, UINT64_MAX - bs + 1, 2 * bs), -EINVAL);
    assert_int_equal(run(bed, FL_BIO_ZERO, 0, NULL, LEN, bs), -EINVAL);
}

static void scattered(struct bed *bed)
{
    /* Pieces of odd lengths at odd addresses, 12288 bytes in all. */
    static const uint32_t lens[] = {1, 511, 3, 4096, 4093, 700, 2883, 1};
    struct iovec iov[FL_ARRAY_LEN(lens)];
    struct job job = {0};
    uint8_t *at = bed->mem + MIB + 1;
    uint64_t sum = 0;

    for (size_t i = 0; i < FL_ARRAY_LEN(lens); i++) {
        iov[i] = (struct iovec){.iov_base = at, .iov_len = lens[i]};
        fill(at, 8192 + sum, lens[i], 9);
        sum += lens[i];
        at += lens[i] + 13;
    }
    assert_int_equal(sum, 12288);
    job.bio = (struct fl_bio){.op = FL_BIO_WRITE,
                              .off = 8192,
                              .len = sum,
                              .iov = iov,
                              .nr_iov = FL_ARRAY_LEN(lens),
                              .done = job_done};
    fl_chan_submit(bed->chan, &job.bio);
    assert_int_equal(finish(bed, &job), 0);
    READ(8192, sum, bed->mem + 1);
    expect(bed->mem + 1, 8192, sum, 9);

    memset(bed->mem + MIB, 0, MIB);
    job.done = false;
    job.bio.op = FL_BIO_READ;
    fl_chan_submit(bed->chan, &job.bio);
    assert_int_equal(finish(bed, &job), 0);
    sum = 0;
    for (size_t i = 0; i < FL_ARRAY_LEN(lens); i++) {
        expect(iov[i].iov_base, 8192 + sum, lens[i], 9);
        assert_int_equal(((uint8_t *)iov[i].iov_base)[lens[i]], 0);
        sum += lens[i];
    }
}

static void more_pieces_than_iov_max(struct bed *bed)
{
    enum { NR = 1500 };
    struct iovec *iov = calloc(NR, sizeof(*iov));
    struct job job = {0};

    for (int i = 0; i < NR; i++)
        iov[i] = (struct iovec){.iov_base = bed->mem + i * 1024, .iov_len = 512};
    for (int i = 0; i < NR; i++)
        fill(iov[i].iov_base, (uint64_t)i * 512, 512, 40);
    job.bio = (struct fl_bio){
        .op = FL_BIO_WRITE, .len = NR * 512 / 4096 * 4096, .iov = iov, .done = job_done};
    job.bio.nr_iov = (uint32_t)(job.bio.len / 512);
    fl_chan_submit(bed->chan, &job.bio);
    assert_int_equal(finish(bed, &job), 0);
    READ(0, job.bio.len, bed->mem);
    expect(bed->mem, 0, job.bio.len, 40);
    free(iov);
}

/* ---- several threads at the same blocks of memory ---- */

#define SHARED_LEN (256u << 10)

struct sharer {
    struct fl_backend *backend;
    pthread_t thread;
    uint64_t number, nr_torn;
    bool writes;
};

static void *share(void *arg)
{
    struct sharer *s = arg;
    uint64_t *buf = aligned_alloc(4096, SHARED_LEN), until = fl_now_ns() + 200 * FL_NS_PER_MS;
    struct iovec iov[2] = {{buf, 5000}, {(uint8_t *)buf + 5000, SHARED_LEN - 5000}};
    struct fl_chan *chan;

    assert_int_equal(fl_chan_open(s->backend, NULL, &chan), 0);
    for (uint64_t round = 1; fl_now_ns() < until; round++) {
        struct job job = {.bio = {.op = s->writes ? FL_BIO_WRITE : FL_BIO_READ,
                                  .len = SHARED_LEN,
                                  .iov = iov,
                                  .nr_iov = 2,
                                  .done = job_done}};

        for (uint32_t i = 0; s->writes && i < SHARED_LEN / 8; i++)
            buf[i] = s->number << 32 | round;
        fl_chan_submit(chan, &job.bio);
        assert_true(job.done && !job.result);
        for (uint32_t i = 0; !s->writes && i < SHARED_LEN / 8; i += 512)
            s->nr_torn += memcmp(&buf[i], &buf[i + 1], 4096 - 8) != 0;
    }
    fl_chan_close(chan);
    free(buf);
    return NULL;
}

static void a_block_is_one_version(void **state)
{
    struct sharer s[4] = {0};
    struct fl_backend *backend;

    assert_int_equal(open_spec("ram:4M,bs=4096", &backend, NULL), 0);
    for (uint32_t i = 0; i < 4; i++) {
        s[i] = (struct sharer){.backend = backend, .number = i + 1, .writes = i < 2};
        assert_int_equal(pthread_create(&s[i].thread, NULL, share, &s[i]), 0);
    }
    for (uint32_t i = 0; i < 4; i++) {
        pthread_join(s[i].thread, NULL);
        assert_int_equal(s[i].nr_torn, 0);
    }
    fl_backend_close(backend);
}

static void zero_and_trim(struct bed *bed)
{
    static const struct {
        enum fl_bio_op op;
        uint32_t flags;
    } ways[] = {
        {FL_BIO_ZERO, 0}, {FL_BIO_ZERO, FL_BIO_F_MAY_TRIM}, {FL_BIO_ZERO, FL_BIO_F_FUA}, {FL_BIO_TRIM, 0}};
    uint32_t bs = bed->kind->block_len;

    for (size_t i = 0; i < FL_ARRAY_LEN(ways); i++) {
        /* Not on page edges where blocks are smaller than pages. */
        uint64_t off = 4096 + bs, len = 512 * 1024 - 2 * bs;

        fill(bed->mem, 0, MIB, 5);
        WRITE(0, MIB, bed->mem);
        assert_int_equal(run(bed, ways[i].op, ways[i].flags, NULL, off, len), 0);
        READ(0, MIB, bed->mem);
        expect(bed->mem, 0, off, 5);
        expect_zero(bed->mem + off, len);
        expect(bed->mem + off + len, off + len, MIB - off - len, 5);
    }
    assert_int_equal(run(bed, FL_BIO_ZERO, 0, NULL, LEN - bs, bs), 0);
    assert_int_equal(run(bed, FL_BIO_TRIM, 0, NULL, 0, LEN), 0);
    READ(0, MIB, bed->mem);
    expect_zero(bed->mem, MIB);
}

static void flush_and_fua(struct bed *bed)
{
    fill(bed->mem, 0, 8192, 6);
    assert_int_equal(run(bed, FL_BIO_WRITE, FL_BIO_F_FUA, bed->mem, 0, 8192), 0);
    assert_int_equal(run(bed, FL_BIO_FLUSH, 0, NULL, 0, 0), 0);
    memset(bed->mem, 0, 8192);
    READ(0, 8192, bed->mem);
    expect(bed->mem, 0, 8192, 6);
}

static void many_in_flight(struct bed *bed)
{
    static struct job jobs[NR_DEEP], flushes[2], zero;
    const uint64_t len = 8192;

    for (unsigned round = 0; round < 2; round++) {
        for (unsigned i = 0; i < NR_DEEP; i++) {
            fill(bed->mem + i * len, i * len, len, round);
            start(bed, &jobs[i], FL_BIO_WRITE, i % 32 == 3 ? FL_BIO_F_FUA : 0, bed->mem + i * len, i * len,
                  len);
            if (i % 32 == 5)
                start(bed, &flushes[i / 32], FL_BIO_FLUSH, 0, NULL, 0, 0);
        }
        start(bed, &zero, FL_BIO_ZERO, 0, NULL, 3 * MIB, 65536);
        for (unsigned i = 0; i < NR_DEEP; i++)
            assert_int_equal(finish(bed, &jobs[i]), 0);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(finish(bed, &flushes[i]), 0);
        assert_int_equal(finish(bed, &zero), 0);
        memset(bed->mem, 0, NR_DEEP * len);
        for (unsigned i = 0; i < NR_DEEP; i++)
            start(bed, &jobs[i], FL_BIO_READ, 0, bed->mem + i * len, i * len, len);
        for (unsigned i = 0; i < NR_DEEP; i++)
            assert_int_equal(finish(bed, &jobs[i]), 0);
        expect(bed->mem, 0, NR_DEEP * len, round);
    }
}

/* Case A12: the size follows at once, data below the smaller size stay, what is beyond an earlier end reads
 * as zeroes. */
static void grows_and_shrinks(struct bed *bed)
{
    struct fl_error err = {0};
    const uint8_t *mem = bed->backend->mem;

    fill(bed->mem, 0, MIB, 8);
    WRITE(0, MIB, bed->mem);
    fill(bed->mem, 3 * MIB, MIB, 8);
    WRITE(3 * MIB, MIB, bed->mem);

    assert_int_equal(bed->backend->ops->resize(bed->backend, 8 * MIB, &err), 0);
    assert_int_equal(fl_backend_len(bed->backend), 8 * MIB);
    READ(3 * MIB, MIB, bed->mem);
    expect(bed->mem, 3 * MIB, MIB, 8);
    READ(7 * MIB, MIB, bed->mem);
    expect_zero(bed->mem, MIB);

    assert_int_equal(bed->backend->ops->resize(bed->backend, 2 * MIB, &err), 0);
    assert_int_equal(fl_backend_len(bed->backend), 2 * MIB);
    assert_int_equal(run(bed, FL_BIO_READ, 0, bed->mem, 2 * MIB, 4096), -EINVAL);
    READ(0, MIB, bed->mem);
    expect(bed->mem, 0, MIB, 8);

    assert_int_equal(bed->backend->ops->resize(bed->backend, LEN, &err), 0);
    READ(3 * MIB, MIB, bed->mem);
    expect_zero(bed->mem, MIB);
    assert_ptr_equal(bed->backend->mem, mem);

    assert_int_equal(bed->backend->ops->resize(bed->backend, LEN + 1, &err), -EINVAL);
    assert_non_null(strstr(err.text, "whole number of blocks"));
    assert_int_equal(fl_backend_len(bed->backend), LEN);
    assert_int_equal(bed->backend->ops->resize(bed->backend, 0, NULL), 0); /* what there is now */
    assert_int_equal(fl_backend_len(bed->backend), LEN);
}

#define VECTOR(f) \
    {             \
#f, f     \
    }
static const struct vector {
    const char *name;
    void (*run)(struct bed *bed);
} vectors[] = {
    VECTOR(reads_back),
    VECTOR(single_blocks),
    VECTOR(out_of_range),
    VECTOR(scattered),
    VECTOR(more_pieces_than_iov_max),
    VECTOR(zero_and_trim),
    VECTOR(flush_and_fua),
    VECTOR(many_in_flight),
    VECTOR(grows_and_shrinks),
};

static void every_vector(bool on_loop)
{
    for (size_t k = 0; k < FL_ARRAY_LEN(kinds); k++) {
        for (size_t v = 0; v < FL_ARRAY_LEN(vectors); v++) {
            struct bed bed;

            print_message("%s: %s\n", kinds[k].name, vectors[v].name);
            setup(&bed, &kinds[k], on_loop);
            assert_int_equal(bed.backend->block_len, kinds[k].block_len);
            assert_int_equal(fl_backend_len(bed.backend), LEN);
            vectors[v].run(&bed);
            teardown(&bed);
        }
    }
}

static void every_kind_polled(void **state)
{
    every_vector(false);
}

static void every_kind_on_a_loop(void **state)
{
    every_vector(true);
}

/* ---- one kind alone ---- */

static void null_reads_zeroes(void **state)
{
    static const struct kind null_kind = {"null", "null:1T,bs=4096", 4096};
    struct bed b, *bed = &b;

    setup(bed, &null_kind, false);
    assert_true(bed->backend->sync && bed->backend->mem_repeats);
    WRITE((UINT64_C(1) << 40) - MIB, MIB, bed->mem);
    READ((UINT64_C(1) << 40) - MIB, MIB, bed->mem);
    expect_zero(bed->mem, MIB);
    assert_int_equal(run(bed, FL_BIO_READ, 0, bed->mem, UINT64_C(1) << 40, 4096), -EINVAL);
    expect_zero(bed->backend->mem, MIB);
    teardown(bed);
}

static void read_only_refuses_writes(void **state)
{
    static const struct kind ro = {"ram", "ram:1M,ro=1", 512};
    struct bed b, *bed = &b;

    setup(bed, &ro, false);
    assert_int_equal(run(bed, FL_BIO_WRITE, 0, bed->mem, 0, 512), -EROFS);
    assert_int_equal(run(bed, FL_BIO_ZERO, 0, NULL, 0, 512), -EROFS);
    READ(0, 512, bed->mem);
    assert_int_equal(run(bed, FL_BIO_FLUSH, 0, NULL, 0, 0), 0);
    teardown(bed);
}

static uint64_t resident(const uint8_t *mem, uint64_t len)
{
    static unsigned char in[64 << 8];
    uint64_t n = 0;

    assert_true(len / 4096 <= sizeof(in));
    assert_int_equal(mincore((void *)(uintptr_t)mem, len, in), 0);
    for (uint64_t i = 0; i < len / 4096; i++)
        n += in[i] & 1;
    return n * 4096;
}

/* Memory in huge pages by name is taken at the start, beside; by default, as it is written. What is written
 * meanwhile stays. */
static void ram_takes_its_memory_at_the_start(void **state)
{
    const uint64_t len = 64 << 20;
    uint64_t until = fl_now_ns() + 20 * FL_NS_PER_S;
    struct fl_backend *backend;

    assert_int_equal(open_spec("ram:64M,huge=1", &backend, NULL), 0);
    for (uint64_t at = len; at >= 1 << 20; at -= 1 << 20)
        ((uint8_t *)(uintptr_t)backend->mem)[at - 1] = (uint8_t)(at >> 20);
    while (resident(backend->mem, len) < len && fl_now_ns() < until)
        usleep(1000);
    assert_int_equal(resident(backend->mem, len), len);
    for (uint64_t at = 1 << 20; at <= len; at += 1 << 20)
        assert_int_equal(backend->mem[at - 1], (uint8_t)(at >> 20));
    assert_int_equal(backend->mem[0], 0);
    fl_backend_close(backend);

    assert_int_equal(open_spec("ram:64M", &backend, NULL), 0);
    usleep(100000);
    assert_int_equal(resident(backend->mem, len), 0);
    fl_backend_close(backend);

    /* Closed, and made smaller and larger, in the middle of it. */
    assert_int_equal(open_spec("ram:1G,huge=1", &backend, NULL), 0);
    assert_int_equal(backend->ops->resize(backend, 8 << 20, NULL), 0);
    assert_int_equal(backend->ops->resize(backend, 256 << 20, NULL), 0);
    for (uint64_t at = 0; at < 256 << 20; at += 1 << 20)
        assert_int_equal(backend->mem[at], 0);
    fl_backend_close(backend);
}

/* Hardware that has registered the memory goes on with these very pages. */
static void ram_keeps_pages_that_hardware_holds(void **state)
{
    static const struct kind kind = {"ram", "ram:1M", 512};
    struct bed b, *bed = &b;
    struct fl_mem_range range;
    const uint8_t *mem;

    setup(bed, &kind, false);
    mem = bed->backend->mem;
    memset((void *)(uintptr_t)mem, 7, 1 << 20);
    assert_true(fl_mem_range_find(mem, 1 << 20, &range) && fl_mem_range_pin(range.id));
    assert_int_equal(run(bed, FL_BIO_TRIM, 0, NULL, 100 * 512, 1800 * 512), 0);
    assert_int_equal(run(bed, FL_BIO_ZERO, 0, NULL, 0, 512), 0);
    assert_int_equal(resident(mem, 1 << 20), 1 << 20);
    for (int i = 0; i < 1 << 20; i++)
        if (mem[i] != (i < 512 || (i >= 100 * 512 && i < 1900 * 512) ? 0 : 7))
            fail_msg("byte %d is %u", i, mem[i]);
    fl_mem_range_unpin(range.id);
    assert_int_equal(run(bed, FL_BIO_TRIM, 0, NULL, 0, 1 << 20), 0);
    assert_int_equal(resident(mem, 1 << 20), 0);
    teardown(bed);
}

static void ram_names_its_limits(void **state)
{
    struct fl_error err = {0};
    struct fl_backend *backend;

    assert_int_equal(open_spec("ram:1000", &backend, &err), -EINVAL);
    assert_non_null(strstr(err.text, "whole number of blocks of 512"));
    fl_error_clear(&err);
    assert_int_equal(open_spec("ram:64T", &backend, &err), -EFBIG);
    assert_non_null(strstr(err.text, "limit of 32"));
    fl_error_clear(&err);
    assert_int_equal(open_spec("ram:1G", &backend, &err), 0);
    assert_int_equal(backend->ops->resize(backend, UINT64_C(1) << 50, &err), -EFBIG);
    assert_non_null(strstr(err.text, "limit of 64"));
    fl_backend_close(backend);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

static void remove_dir(void)
{
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* The one who writes at once may hold a lock: a huge page, which takes its time, is taken by an ordinary
 * write. */
static void ram_writes_at_once_where_memory_is(void **state)
{
    static const struct kind huge = {"ram", "ram:32M", 512}, small = {"ram", "ram:32M,huge=0", 512};
    enum { HUGE = 2 << 20 };
    struct bed room, *bed = &room;

    setup(bed, &huge, false);
    const struct fl_backend_ops *ops = bed->backend->ops;
    const uint64_t edge = HUGE - (uintptr_t)bed->backend->mem % HUGE; /* of two pages */
    assert_false(ops->write_now(bed->backend, edge - 4096, bed->mem, 4096));
    WRITE(edge - 4096, 512, bed->mem);
    assert_true(ops->write_now(bed->backend, edge - 4096, bed->mem, 4096));
    assert_false(ops->write_now(bed->backend, edge - 2048, bed->mem, 4096)); /* half of it */
    assert_false(ops->write_now(bed->backend, edge, bed->mem, 4096));
    READ(edge, 4096, bed->mem); /* of zeroes: takes none */
    assert_false(ops->write_now(bed->backend, edge, bed->mem, 4096));
    WRITE(edge - 512, 1024, bed->mem);
    fill(bed->mem, edge - 2048, 4096, 1);
    assert_true(ops->write_now(bed->backend, edge - 2048, bed->mem, 4096));
    READ(edge - 2048, 4096, bed->mem);
    expect(bed->mem, edge - 2048, 4096, 1);
    assert_int_equal(run(bed, FL_BIO_TRIM, 0, NULL, edge - 65536, HUGE), 0);
    assert_false(ops->write_now(bed->backend, edge - 4096, bed->mem, 4096));
    assert_false(ops->write_now(bed->backend, edge, bed->mem, 4096));
    READ(edge - 2048, 4096, bed->mem);
    expect_zero(bed->mem, 4096);
    teardown(bed);

    setup(bed, &small, false);
    assert_true(bed->backend->ops->write_now(bed->backend, 0, bed->mem, 4096));
    teardown(bed);
}

int main(void)
{
    int rc;

    snprintf(dir, sizeof(dir), "/tmp/farlane-backend.XXXXXX");
    if (!mkdtemp(dir))
        return 1;
    rc = FL_UNIT_RUN(cmocka_unit_test(every_kind_polled), cmocka_unit_test(every_kind_on_a_loop),
                     cmocka_unit_test(null_reads_zeroes), cmocka_unit_test(read_only_refuses_writes),
                     cmocka_unit_test(ram_names_its_limits), cmocka_unit_test(a_block_is_one_version),
                     cmocka_unit_test(ram_takes_its_memory_at_the_start),
                     cmocka_unit_test(ram_writes_at_once_where_memory_is),
                     cmocka_unit_test(ram_keeps_pages_that_hardware_holds));
    remove_dir();
    return rc;
}
