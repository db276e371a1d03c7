/* SPDX-License-Identifier: Apache-2.0 */
/* What is particular to files: faults of the kernel's answers, locks, identity and state, odd files, block
 * devices. */
#include "backend/file.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unit.h"

#define LEN (UINT64_C(1) << 20)

static char dir[64];

static int open_spec(struct fl_backend **backend, struct fl_error *err, const char *fmt, ...) FL_PRINTF(3, 4);
static int open_spec(struct fl_backend **backend, struct fl_error *err, const char *fmt, ...)
{
    static struct fl_url url;
    char spec[512];
    va_list args;
    int rc;

    va_start(args, fmt);
    vsnprintf(spec, sizeof(spec), fmt, args);
    va_end(args);
    rc = fl_url_parse(spec, &url, err);
    return rc ? rc : fl_backend_open(&url, backend, err);
}

static void must_open(struct fl_backend **backend, const char *spec)
{
    struct fl_error err = {0};

    if (open_spec(backend, &err, "file:%s/%s", dir, spec))
        fail_msg("%s", err.text);
}

static void expect_refusal(int code, const char *text, const char *spec)
{
    struct fl_backend *backend;
    struct fl_error err = {0};

    assert_int_equal(open_spec(&backend, &err, "file:%s/%s", dir, spec), code);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not tell \"%s\"", err.text, text);
}

static void make_file(const char *name, uint64_t len)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", dir, name);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    close(fd);
}

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

struct bed {
    struct fl_backend *backend;
    struct fl_chan *chan;
    uint8_t *buf, *buf2; /* LEN bytes each, page aligned */
};

static void setup_scripted(struct bed *bed, const char *spec)
{
    memset(&script, 0, sizeof(script));
    must_open(&bed->backend, spec);
    fl_file_of(bed->backend)->engine = &script_engine;
    assert_int_equal(fl_chan_open(bed->backend, NULL, &bed->chan), 0);
    assert_int_equal(posix_memalign((void **)&bed->buf, 4096, LEN), 0);
    assert_int_equal(posix_memalign((void **)&bed->buf2, 4096, LEN), 0);
}

static void setup_plain(struct bed *bed, const char *spec)
{
    must_open(&bed->backend, spec);
    assert_int_equal(fl_chan_open(bed->backend, NULL, &bed->chan), 0);
    assert_int_equal(posix_memalign((void **)&bed->buf, 4096, LEN), 0);
    assert_int_equal(posix_memalign((void **)&bed->buf2, 4096, LEN), 0);
}

static void teardown(struct bed *bed)
{
    free(bed->buf);
    free(bed->buf2);
    fl_chan_close(bed->chan);
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
    job->bio = (struct fl_bio){.op = op,
                               .flags = flags,
                               .off = off,
                               .len = len,
                               .iov = &job->iov,
                               .nr_iov = !!buf,
                               .done = job_done};
    fl_chan_submit(bed->chan, &job->bio);
}

static int run(struct bed *bed, enum fl_bio_op op, uint32_t flags, void *buf, uint64_t off, uint64_t len)
{
    struct job job;

    start(bed, &job, op, flags, buf, off, len);
    while (!job.done) {
        int n = fl_chan_poll(bed->chan);

        assert_true(n >= 0);
        if (!n && fl_file_of(bed->backend)->engine != &script_engine) {
            struct pollfd pfd = {.fd = fl_chan_fd(bed->chan), .events = POLLIN};

            assert_true(poll(&pfd, 1, 30000) != 0);
        }
    }
    return job.result;
}

static void fill(uint8_t *buf, uint64_t len, unsigned seed)
{
    for (uint64_t i = 0; i < len; i++)
        buf[i] = (uint8_t)(i * 37 + (i >> 9) * 11 + seed);
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
            fill(bed.buf, LEN, (unsigned)s);
            for (unsigned i = 0; i < 8; i++) {
                assert_int_equal(run(&bed, FL_BIO_WRITE, 0, bed.buf + odd, 8192, 524288), 0);
                memset(bed.buf2, 0, LEN);
                assert_int_equal(run(&bed, FL_BIO_READ, 0, bed.buf2 + odd, 8192, 524288), 0);
                assert_memory_equal(bed.buf + odd, bed.buf2 + odd, 524288);
            }
            assert_true(script.nr_short > 20 && script.nr_stutter > 20);
            teardown(&bed);
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
    teardown(&bed);
}

static void zeroes_without_fallocate(void **state)
{
    static const int codes[] = {-EOPNOTSUPP, -EINVAL};

    for (size_t i = 0; i < FL_ARRAY_LEN(codes); i++) {
        struct bed bed;

        setup_scripted(&bed, "zeroes,size=1M");
        fill(bed.buf, LEN, 1);
        assert_int_equal(run(&bed, FL_BIO_WRITE, 0, bed.buf, 0, LEN), 0);
        answer(FL_FILE_ALLOC, codes[i], -1);
        assert_int_equal(run(&bed, FL_BIO_ZERO, FL_BIO_F_FUA, NULL, 512, LEN - 1024), 0);
        assert_true(script.nr_answered > 0);
        assert_int_equal(script.nr_syncs, 1); /* FUA */
        assert_int_equal(run(&bed, FL_BIO_TRIM, 0, NULL, 512, 4096), 0);
        assert_int_equal(run(&bed, FL_BIO_READ, 0, bed.buf2, 0, LEN), 0);
        assert_memory_equal(bed.buf, bed.buf2, 512);
        assert_memory_equal(bed.buf + LEN - 512, bed.buf2 + LEN - 512, 512);
        for (uint64_t b = 512; b < LEN - 512; b++)
            assert_int_equal(bed.buf2[b], 0);
        /* A way that is not there is not tried again; one that did not suit a range is. */
        assert_int_equal(fl_file_of(bed.backend)->can == 0, codes[i] == -EOPNOTSUPP);
        answer(FL_FILE_ALLOC, -ENOSPC, 1);
        fl_file_of(bed.backend)->can = FL_FILE_CAN_ZERO;
        assert_int_equal(run(&bed, FL_BIO_ZERO, 0, NULL, 0, 4096), -ENOSPC);
        teardown(&bed);
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
    teardown(&bed);

    setup_scripted(&bed, "lost");
    if (fl_file_of(bed.backend)->direct) { /* nothing lies in the page cache: the next answer counts */
        answer(FL_FILE_SYNC, -EIO, 1);
        assert_int_equal(run(&bed, FL_BIO_FLUSH, 0, NULL, 0, 0), -EIO);
        assert_int_equal(run(&bed, FL_BIO_FLUSH, 0, NULL, 0, 0), 0);
    }
    teardown(&bed);
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
    teardown(&bed);
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
    setup_scripted(&bed, "model,size=1M");
    fl_chan_close(bed.chan);
    fl_file_of(bed.backend)->engine = &model_engine;
    assert_int_equal(fl_chan_open(bed.backend, NULL, &bed.chan), 0);
    script.seed = seed;
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
    teardown(&bed);
}

static void power_failures_keep_promises(void **state)
{
    for (unsigned seed = 1; seed <= 200; seed++)
        power_fails(seed, 20 + seed % 80);
}

/* ---- odd files ---- */

static void refusals_say_what_to_do(void **state)
{
    char path[128];

    expect_refusal(-ENOENT, "truncate -s 1G", "missing");
    expect_refusal(-ENOENT, "does not exist", "missing,size=1M,ro=1");
    expect_refusal(-ENOENT, "does not exist", "no/dir,size=1M");
    expect_refusal(-EINVAL, "whole number of blocks", "odd,size=1000");
    expect_refusal(-EISDIR, "directory", "");
    make_file("small", 500);
    expect_refusal(-EINVAL, "smaller than one block", "small");
    make_file("small4k", 2048);
    expect_refusal(-EINVAL, "smaller than one block of 4096", "small4k,bs=4096");
    snprintf(path, sizeof(path), "%s/fifo", dir);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_refusal(-EINVAL, "neither a regular file nor a block device", "fifo");
    snprintf(path, sizeof(path), "%s/odd", dir);
    assert_int_equal(access(path, F_OK), -1); /* what could not be made whole is gone */
}

static void sizes(void **state)
{
    struct fl_backend *backend;
    struct fl_error err = {0};
    struct stat st;
    char path[128];

    make_file("tail", 10000);
    must_open(&backend, "tail,bs=4096");
    assert_int_equal(backend->len, 8192);
    fl_backend_close(backend);
    must_open(&backend, "tail,prealloc=1"); /* takes the space and leaves the tail */
    assert_int_equal(backend->len, 10000 / 512 * 512);
    snprintf(path, sizeof(path), "%s/tail", dir);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 10000);

    /* Grown by somebody else: size 0 takes it over. Case A12. */
    assert_int_equal(truncate(path, 20480), 0);
    assert_int_equal(backend->ops->resize(backend, 0, &err), 0);
    assert_int_equal(fl_backend_len(backend), 20480);
    assert_int_equal(backend->ops->resize(backend, 512 * 1024, &err), 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 512 * 1024);
    assert_true(st.st_blocks >= 512 * 2); /* prealloc */
    fl_backend_close(backend);

    must_open(&backend, "tail,ro=1");
    assert_true(backend->read_only && !backend->volatile_cache);
    assert_int_equal(backend->ops->resize(backend, 4096, &err), -EROFS);
    fl_backend_close(backend);
}

static void over_the_limit_of_the_process(void **state)
{
    int status;
    pid_t pid = fork();

    if (!pid) { /* would be killed by SIGXFSZ if it wrote */
        struct rlimit limit = {65536, 65536};
        struct fl_backend *backend;
        struct fl_error err = {0};

        setrlimit(RLIMIT_FSIZE, &limit);
        if (open_spec(&backend, &err, "file:%s/limit,size=1M", dir) != -EFBIG ||
            !strstr(err.text, "ulimit -f"))
            _exit(1);
        if (open_spec(&backend, NULL, "file:%s/limit,size=64k", dir) ||
            backend->ops->resize(backend, 128 * 1024, NULL) != -EFBIG || backend->len != 65536)
            _exit(2);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

static bool put_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY);
    bool ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return ok;
}

/* A file system of 2 MiB in a name space of this process, where that is allowed. */
static bool mount_small(const char *at)
{
    char uids[40], gids[40];

    snprintf(uids, sizeof(uids), "0 %u 1", (unsigned)geteuid());
    snprintf(gids, sizeof(gids), "0 %u 1", (unsigned)getegid());
    if (mkdir(at, 0700))
        return false;
    if (unshare(CLONE_NEWNS) &&
        (unshare(CLONE_NEWUSER | CLONE_NEWNS) || !put_text("/proc/self/uid_map", uids) ||
         !put_text("/proc/self/setgroups", "deny") || !put_text("/proc/self/gid_map", gids)))
        return false;
    return !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) && !mount("none", at, "tmpfs", 0, "size=2m");
}

static int fill_medium(void)
{
    struct bed bed;
    int first;

    setup_plain(&bed, "tmpfs/full,size=4M");
    fill(bed.buf, LEN, 1);
    first = run(&bed, FL_BIO_WRITE, 0, bed.buf, 0, LEN);
    if (first || run(&bed, FL_BIO_WRITE, 0, bed.buf, LEN, LEN) ||
        run(&bed, FL_BIO_WRITE, 0, bed.buf, 3 * LEN, LEN) != -ENOSPC)
        return 1;
    if (run(&bed, FL_BIO_TRIM, 0, NULL, 0, 2 * LEN) || run(&bed, FL_BIO_WRITE, 0, bed.buf, 3 * LEN, LEN))
        return 2; /* trimmed space can be used again */
    if (run(&bed, FL_BIO_READ, 0, bed.buf2, 3 * LEN, LEN) || memcmp(bed.buf, bed.buf2, LEN) != 0)
        return 3;
    teardown(&bed);
    return 0;
}

static void full_medium(void **state)
{
    char at[128];
    int status;
    pid_t pid = fork();

    if (!pid) {
        snprintf(at, sizeof(at), "%s/tmpfs", dir);
        _exit(mount_small(at) ? fill_medium() : 77);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
        print_message(
            "no file system may be mounted here: the full medium is left to the scripted answers\n");
    else
        assert_int_equal(status, 0);
}

/* ---- locks ---- */

static void one_server_a_file(void **state)
{
    struct fl_backend *backend, *second;
    struct fl_error err = {0};
    int go[2], status;
    char byte = 0, pid_text[32];
    pid_t pid;

    must_open(&backend, "locked,size=1M");
    expect_refusal(-EBUSY, "in this process", "locked");
    assert_int_equal(open_spec(&second, &err, "file:%s/locked,ro=1,lock=0", dir), 0);
    fl_backend_close(second);
    fl_backend_close(backend);

    assert_int_equal(pipe(go), 0);
    pid = fork();
    if (!pid) {
        must_open(&backend, "locked");
        if (write(go[1], "x", 1) != 1)
            _exit(1);
        pause();
    }
    assert_int_equal(read(go[0], &byte, 1), 1);
    snprintf(pid_text, sizeof(pid_text), "by process %d (", (int)pid);
    expect_refusal(-EBUSY, pid_text, "locked");
    kill(pid, SIGKILL);
    must_open(&backend, "locked"); /* free with the end of its holder, who need not be reaped */
    fl_backend_close(backend);
    waitpid(pid, &status, 0);
    close(go[0]);
    close(go[1]);

    must_open(&backend, "locked,ro=1"); /* many may read */
    must_open(&second, "locked,ro=1");
    expect_refusal(-EBUSY, "in this process", "locked");
    fl_backend_close(second);
    fl_backend_close(backend);
}

/* ---- identity and state ---- */

static void identity_is_stable(void **state)
{
    struct fl_backend *a, *b;
    uint8_t uuid[16];
    char from[128], to[128];

    must_open(&a, "id-a,size=1M");
    must_open(&b, "id-b,size=1M");
    assert_memory_not_equal(a->uuid, b->uuid, 16);
    memcpy(uuid, a->uuid, 16);
    fl_backend_close(a);
    fl_backend_close(b);
    must_open(&a, "id-a");
    assert_memory_equal(a->uuid, uuid, 16);
    fl_backend_close(a);
    snprintf(from, sizeof(from), "%s/id-a", dir);
    snprintf(to, sizeof(to), "%s/id-c", dir);
    assert_int_equal(rename(from, to), 0);
    must_open(&a, "id-c");
    assert_memory_equal(a->uuid, uuid, 16);
    fl_backend_close(a);
    snprintf(from, sizeof(from), "%s/id-c.farlane", dir);
    assert_int_equal(access(from, F_OK), -1); /* opening leaves no trace */
}

static void state_is_kept(void **state)
{
    struct fl_backend *backend;
    uint8_t uuid[16], buf[16];
    char path[128];
    int fd;

    must_open(&backend, "state,size=1M");
    memcpy(uuid, backend->uuid, 16);
    assert_int_equal(backend->ops->state_load(backend, buf, sizeof(buf)), -ENOENT);
    assert_int_equal(backend->ops->state_save(backend, "first", 5), 0);
    assert_int_equal(backend->ops->state_save(backend, "\0second\xff", 8), 0);
    fl_backend_close(backend);

    must_open(&backend, "state,ro=1");
    assert_memory_equal(backend->uuid, uuid, 16);
    assert_int_equal(backend->ops->state_load(backend, buf, 4), -E2BIG);
    assert_int_equal(backend->ops->state_load(backend, buf, sizeof(buf)), 8);
    assert_memory_equal(buf, "\0second\xff", 8);
    assert_int_equal(backend->ops->state_save(backend, "x", 1), -EROFS);
    fl_backend_close(backend);

    must_open(&backend, "state");
    assert_int_equal(backend->ops->state_save(backend, "", 0), 0);
    assert_int_equal(backend->ops->state_load(backend, buf, sizeof(buf)), 0);
    fl_backend_close(backend);

    /* Damage is not taken for "no reservations". */
    snprintf(path, sizeof(path), "%s/state.farlane", dir);
    fd = open(path, O_RDWR);
    assert_int_equal(pwrite(fd, "0", 1, 40), 1);
    assert_int_equal(pwrite(fd, "1", 1, 41), 1);
    close(fd);
    expect_refusal(-EBADMSG, "move it away", "state");
    assert_int_equal(truncate(path, 20), 0);
    expect_refusal(-EBADMSG, "damaged", "state");
    assert_int_equal(unlink(path), 0);
    must_open(&backend, "state");
    fl_backend_close(backend);
}

/* Killed at any moment, the state is the old one or the new one. */
static void state_survives_kills(void **state)
{
    unsigned seed = 1;
    bool seen = false; /* a slow machine may kill the first ones before they save */

    make_file("killed", LEN);
    for (int round = 0; round < 12; round++) {
        struct timespec nap = {.tv_nsec = 1000000 + rand_r(&seed) % 20000000};
        struct fl_backend *backend;
        uint8_t buf[4096];
        int status, n;
        pid_t pid = fork();

        if (!pid) {
            must_open(&backend, "killed");
            for (unsigned i = 0;; i++) {
                size_t len = i % 2 ? 3000 : 10;

                memset(buf, i % 2 ? 'L' : 's', len);
                backend->ops->state_save(backend, buf, len);
            }
        }
        nanosleep(&nap, NULL);
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        must_open(&backend, "killed");
        n = backend->ops->state_load(backend, buf, sizeof(buf));
        assert_true((n == -ENOENT && !seen) || (n == 3000 && buf[0] == 'L' && buf[2999] == 'L') ||
                    (n == 10 && buf[0] == 's' && buf[9] == 's'));
        seen |= n > 0;
        fl_backend_close(backend);
    }
}

/* ---- block devices ---- */

static bool attach(const char *name, unsigned sector_len, char device[64])
{
    char command[256];
    FILE *p;
    bool ok;

    make_file(name, 4 * LEN);
    snprintf(command, sizeof(command), "losetup --show -f -b %u %s/%s 2>/dev/null", sector_len, dir, name);
    p = popen(command, "r");
    ok = p && fgets(device, 64, p);
    if (p)
        ok &= pclose(p) == 0;
    if (ok)
        device[strcspn(device, "\n")] = '\0';
    return ok;
}

static void block_device(unsigned sector_len, const char *options, bool direct)
{
    char device[64], command[128], spec[128];
    struct fl_error err = {0};
    struct fl_backend *again;
    struct bed bed;

    if (!attach("disk", sector_len, device)) {
        print_message("no loop device may be had here: block devices are not tested\n");
        return;
    }
    snprintf(spec, sizeof(spec), "file:%s%s", device, options);
    if (open_spec(&bed.backend, &err, "%s", spec))
        fail_msg("%s", err.text);
    print_message("%s, sectors of %u: %s\n", spec, sector_len, bed.backend->note);
    assert_int_equal(bed.backend->len, 4 * LEN);
    assert_int_equal(fl_file_of(bed.backend)->direct, direct);
    assert_int_equal(open_spec(&again, &err, "%s", spec), -EBUSY);
    assert_int_equal(fl_chan_open(bed.backend, NULL, &bed.chan), 0);
    assert_int_equal(posix_memalign((void **)&bed.buf, 4096, LEN), 0);
    assert_int_equal(posix_memalign((void **)&bed.buf2, 4096, LEN), 0);
    fill(bed.buf, LEN, 5);
    assert_int_equal(run(&bed, FL_BIO_WRITE, 0, bed.buf, 0, LEN), 0);
    /* Single blocks, also where they are smaller than a sector: the neighbours stay. */
    fill(bed.buf + 8192, bed.backend->block_len, 99);
    assert_int_equal(run(&bed, FL_BIO_WRITE, FL_BIO_F_FUA, bed.buf + 8192, 8192, bed.backend->block_len), 0);
    memset(bed.buf + 65536 + 512, 0, 65536);
    if (bed.backend->block_len == 512) {
        assert_int_equal(run(&bed, FL_BIO_ZERO, 0, NULL, 65536 + 512, 65536), 0);
    } else {
        fill(bed.buf, LEN, 5);
        fill(bed.buf + 8192, bed.backend->block_len, 99);
        memset(bed.buf + 65536, 0, 65536);
        assert_int_equal(run(&bed, FL_BIO_TRIM, 0, NULL, 65536, 65536), 0);
    }
    assert_int_equal(run(&bed, FL_BIO_FLUSH, 0, NULL, 0, 0), 0);
    assert_int_equal(run(&bed, FL_BIO_READ, 0, bed.buf2, 0, LEN), 0);
    assert_memory_equal(bed.buf, bed.buf2, LEN);
    fl_error_clear(&err);
    assert_int_equal(bed.backend->ops->resize(bed.backend, 8 * LEN, &err), -EINVAL);
    assert_non_null(strstr(err.text, "resize the device"));
    assert_int_equal(bed.backend->ops->resize(bed.backend, 0, NULL), 0);
    teardown(&bed);
    snprintf(command, sizeof(command), "losetup -d %s", device);
    assert_int_equal(system(command), 0);
}

static void block_devices(void **state)
{
    block_device(512, "", true);
    block_device(4096, ",bs=4096", true);
    block_device(4096, ",bs=512", false);
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

int main(void)
{
    int rc;

    snprintf(dir, sizeof(dir), "/tmp/farlane-file.XXXXXX");
    if (!mkdtemp(dir))
        return 1;
    rc = FL_UNIT_RUN(
        cmocka_unit_test(short_transfers_go_on), cmocka_unit_test(errors_keep_their_meaning),
        cmocka_unit_test(zeroes_without_fallocate), cmocka_unit_test(failed_write_back_is_not_forgotten),
        cmocka_unit_test(flushes_share_a_sync_begun_after_them),
        cmocka_unit_test(power_failures_keep_promises), cmocka_unit_test(refusals_say_what_to_do),
        cmocka_unit_test(sizes), cmocka_unit_test(over_the_limit_of_the_process),
        cmocka_unit_test(full_medium), cmocka_unit_test(one_server_a_file),
        cmocka_unit_test(identity_is_stable), cmocka_unit_test(state_is_kept),
        cmocka_unit_test(state_survives_kills), cmocka_unit_test(block_devices));
    nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return rc;
}
