/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/file_bed.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

char bed_dir[64];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    return remove(path);
}

int bed_make_dir(void)
{
    snprintf(bed_dir, sizeof(bed_dir), "/tmp/farlane-file.XXXXXX");
    return mkdtemp(bed_dir) ? 0 : -errno;
}

int bed_remove_dir(int rc)
{
    nftw(bed_dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    return rc;
}

int open_spec(struct fl_backend **backend, struct fl_error *err, const char *fmt, ...)
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

void must_open(struct fl_backend **backend, const char *spec)
{
    struct fl_error err = {0};

    if (open_spec(backend, &err, "file:%s/%s", bed_dir, spec))
        fail_msg("%s", err.text);
}

void expect_refusal(int code, const char *text, const char *spec)
{
    struct fl_backend *backend;
    struct fl_error err = {0};

    assert_int_equal(open_spec(&backend, &err, "file:%s/%s", bed_dir, spec), code);
    if (!strstr(err.text, text))
        fail_msg("\"%s\" does not tell \"%s\"", err.text, text);
}

void make_file(const char *name, uint64_t len)
{
    char path[128];
    int fd;

    snprintf(path, sizeof(path), "%s/%s", bed_dir, name);
    fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, (off_t)len), 0);
    close(fd);
}

void bed_not_tested(const char *what, const char *why)
{
    print_message("NOT TESTED on this machine: %s: %s\n", what, why);
}

void bed_open_chan(struct bed *bed)
{
    assert_int_equal(fl_chan_open(bed->backend, NULL, &bed->chan), 0);
    assert_int_equal(posix_memalign((void **)&bed->buf, 4096, BED_LEN), 0);
    assert_int_equal(posix_memalign((void **)&bed->buf2, 4096, BED_LEN), 0);
}

void bed_setup(struct bed *bed, const char *spec, const struct fl_file_engine *engine)
{
    must_open(&bed->backend, spec);
    if (engine)
        fl_file_of(bed->backend)->engine = engine;
    bed_open_chan(bed);
}

void bed_teardown(struct bed *bed)
{
    free(bed->buf);
    free(bed->buf2);
    fl_chan_close(bed->chan);
    fl_backend_close(bed->backend);
}

static void job_done(struct fl_bio *bio, int result)
{
    struct job *job = FL_CONTAINER_OF(bio, struct job, bio);

    assert_false(job->done);
    job->done = true;
    job->result = result;
}

void start(struct bed *bed, struct job *job, enum fl_bio_op op, uint32_t flags, void *buf, uint64_t off,
           uint64_t len)
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

int run(struct bed *bed, enum fl_bio_op op, uint32_t flags, void *buf, uint64_t off, uint64_t len)
{
    struct job job;

    start(bed, &job, op, flags, buf, off, len);
    while (!job.done) {
        int n = fl_chan_poll(bed->chan);

        assert_true(n >= 0);
        if (!n && fl_file_of(bed->backend)->engine->fd) { /* a scripted engine never makes us wait */
            struct pollfd pfd = {.fd = fl_chan_fd(bed->chan), .events = POLLIN};

            assert_true(poll(&pfd, 1, 30000) != 0);
        }
    }
    return job.result;
}

void fill(uint8_t *buf, uint64_t len, unsigned seed)
{
    for (uint64_t i = 0; i < len; i++)
        buf[i] = (uint8_t)(i * 37 + (i >> 9) * 11 + seed);
}
