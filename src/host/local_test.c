/* SPDX-License-Identifier: Apache-2.0 */
/* Local devices through the public header, as a program would use them. */
#include <farlane/host.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/unit.h"

#define LEN (4u << 20)

static char path[] = "/tmp/farlane-local.XXXXXX";
static char file_url[64];

static const char *const urls[] = {"ram:4M", "ram:4M,bs=4096", file_url, NULL};

struct bed {
    struct fl_device *dev;
    struct fl_queue *q;
    uint8_t *buf;
};

static void setup(struct bed *bed, const char *url, uint32_t depth)
{
    struct fl_error err = {0};

    if (fl_device_open(url, NULL, &bed->dev, &err) || fl_queue_create(bed->dev, depth, &bed->q, &err))
        fail_msg("%s", err.text);
    assert_int_equal(posix_memalign((void **)&bed->buf, 4096, LEN), 0);
}

static void teardown(struct bed *bed)
{
    fl_queue_destroy(bed->q);
    fl_device_close(bed->dev);
    free(bed->buf);
}

static void count(struct fl_io *io, int result)
{
    int *left = io->user;

    assert_int_equal(result, 0);
    (*left)--;
}

static void reads_back(struct bed *bed)
{
    for (uint32_t i = 0; i < LEN; i++)
        bed->buf[i] = (uint8_t)(i * 7 + (i >> 10));
    assert_int_equal(fl_write(bed->q, bed->buf, 0, LEN, NULL), 0);
    assert_int_equal(fl_flush(bed->q, NULL), 0);
    memset(bed->buf, 0, LEN);
    assert_int_equal(fl_read(bed->q, bed->buf, 0, LEN, NULL), 0);
    for (uint32_t i = 0; i < LEN; i++)
        if (bed->buf[i] != (uint8_t)(i * 7 + (i >> 10)))
            fail_msg("byte %u", i);
}

static void full_queue(struct bed *bed)
{
    struct iovec iov[9];
    struct fl_io io[9];
    int left = 8, spins = 0;

    for (int i = 0; i < 9; i++) {
        iov[i] = (struct iovec){.iov_base = bed->buf + 4096 * i, .iov_len = 4096};
        io[i] = (struct fl_io){.op = FL_IO_READ,
                               .off = 4096u * (unsigned)i,
                               .len = 4096,
                               .iov = &iov[i],
                               .nr_iov = 1,
                               .done = count,
                               .user = &left};
        assert_int_equal(fl_submit(bed->q, &io[i]), i < 8 ? 0 : -EAGAIN);
        assert_int_equal(left, 8); /* never inside fl_submit */
    }
    while (left) {
        assert_true(fl_queue_poll(bed->q) >= 0);
        if (left && spins++ > 1000)
            assert_true(fl_queue_wait(bed->q, 1000) >= 0);
    }
    assert_int_equal(fl_queue_poll(bed->q), 0);
}

static void descriptor_wakes(struct bed *bed)
{
    struct pollfd pfd = {.fd = fl_queue_fd(bed->q), .events = POLLIN};
    struct iovec iov = {.iov_base = bed->buf, .iov_len = 65536};
    int left = 1;
    struct fl_io io = {.op = FL_IO_WRITE,
                       .flags = FL_IO_FUA,
                       .len = 65536,
                       .iov = &iov,
                       .nr_iov = 1,
                       .done = count,
                       .user = &left};

    assert_true(pfd.fd >= 0);
    assert_int_equal(poll(&pfd, 1, 0), 0);
    for (int i = 0; i < 3; i++, left = 1) {
        assert_int_equal(fl_submit(bed->q, &io), 0);
        while (left && !fl_queue_poll(bed->q))
            assert_int_equal(poll(&pfd, 1, 5000), 1);
        assert_int_equal(left, 0);
        assert_int_equal(fl_queue_poll(bed->q), 0);
        assert_int_equal(poll(&pfd, 1, 0), 0);
    }
}

static int one_result;
static void keep_result(struct fl_io *io, int result)
{
    one_result = result;
    *(int *)io->user = 1;
}

static int run_one(struct bed *bed, enum fl_io_op op, uint64_t off, uint64_t len)
{
    struct iovec iov = {.iov_base = bed->buf, .iov_len = len};
    int done = 0;
    struct fl_io io = {
        .op = op, .off = off, .len = len, .iov = &iov, .nr_iov = 1, .done = keep_result, .user = &done};
    int rc = fl_submit(bed->q, &io);

    if (rc)
        return rc;
    while (!done)
        if (fl_queue_poll(bed->q) == 0 && !done)
            assert_int_equal(fl_queue_wait(bed->q, 10000), 1); /* also when the next piece has only begun */
    return one_result;
}

static void other_commands(struct bed *bed)
{
    memset(bed->buf, 3, LEN);
    assert_int_equal(run_one(bed, FL_IO_WRITE, 0, LEN), 0);
    assert_int_equal(run_one(bed, FL_IO_COMPARE, 0, LEN), 0); /* more than one piece */
    assert_int_equal(run_one(bed, FL_IO_VERIFY, 0, LEN), 0);
    bed->buf[LEN - 1] = 4;
    assert_int_equal(run_one(bed, FL_IO_COMPARE, 0, LEN), -EILSEQ);
    assert_int_equal(run_one(bed, FL_IO_WRITE_ZEROES, 4096, 8192), 0);
    assert_int_equal(run_one(bed, FL_IO_DISCARD, LEN - 65536, 65536), 0);
    assert_int_equal(run_one(bed, FL_IO_READ, 0, LEN), 0);
    assert_int_equal(bed->buf[4095], 3);
    assert_int_equal(bed->buf[4096], 0);
    assert_int_equal(bed->buf[12287], 0);
    assert_int_equal(bed->buf[12288], 3);
    assert_int_equal(bed->buf[LEN - 65536], 0);
    assert_int_equal(run_one(bed, FL_IO_READ, LEN, 4096), -EINVAL);
}

static void canceled(struct fl_io *io, int result)
{
    assert_int_equal(result, -ECANCELED);
    (*(int *)io->user)--;
}

static void destroyed_in_flight(const char *url)
{
    struct bed bed;
    struct iovec iov;
    struct fl_io io[4];
    int left = 4;

    setup(&bed, url, 4);
    iov = (struct iovec){.iov_base = bed.buf, .iov_len = 1 << 20};
    for (int i = 0; i < 4; i++) {
        io[i] = (struct fl_io){.op = i % 2 ? FL_IO_READ : FL_IO_COMPARE,
                               .len = 1 << 20,
                               .iov = &iov,
                               .nr_iov = 1,
                               .done = canceled,
                               .user = &left};
        assert_int_equal(fl_submit(bed.q, &io[i]), 0);
    }
    teardown(&bed);
    assert_int_equal(left, 0);
}

static void every_url(void **state)
{
    for (int i = 0; urls[i]; i++) {
        struct bed bed;
        struct fl_device_info info;

        setup(&bed, urls[i], 8);
        fl_device_info(bed.dev, &info);
        assert_int_equal(info.len, LEN);
        assert_string_equal(info.transport, i < 2 ? "ram" : "file");
        reads_back(&bed);
        full_queue(&bed);
        descriptor_wakes(&bed);
        other_commands(&bed);
        teardown(&bed);
        destroyed_in_flight(urls[i]);
    }
}

/* The file of another opener can be read along with it, and is not written. */
static void reads_along(void **state)
{
    struct bed first, second;
    struct fl_device_info info;

    setup(&first, file_url, 1);
    memset(first.buf, 9, 4096);
    assert_int_equal(fl_write(first.q, first.buf, 0, 4096, NULL), 0);
    setup(&second, file_url, 1);
    fl_device_info(second.dev, &info);
    assert_true(info.read_only);
    assert_int_equal(fl_read(second.q, second.buf, 0, 4096, NULL), 0);
    assert_int_equal(second.buf[100], 9);
    assert_int_equal(fl_write(second.q, second.buf, 0, 4096, NULL), -EROFS);
    teardown(&second);
    teardown(&first);
}

static void clear_errors(void **state)
{
    struct fl_error err = {0};
    struct fl_device *dev;

    assert_int_equal(fl_device_open("file:/nonexistent/x", NULL, &dev, &err), -ENOENT);
    assert_non_null(strstr(err.text, "does not exist"));
    fl_error_clear(&err);
    assert_int_equal(fl_subsystem_open("ram:1M", NULL, &dev, &err), -EINVAL);
    fl_error_clear(&err);
    assert_int_equal(fl_device_open("null:1G", &(struct fl_device_options){.require = 77}, &dev, &err), -EINVAL);
    fl_error_clear(&err);
    assert_int_equal(fl_device_open("null:1G", NULL, &dev, &err), 0);
    assert_int_equal(fl_admin_command(dev, NULL, NULL, 0, true, NULL, NULL, &err), -EOPNOTSUPP);
    fl_device_close(dev);
}

int main(void)
{
    int fd = mkstemp(path), rc;

    if (fd < 0 || ftruncate(fd, LEN) < 0)
        return 1;
    close(fd);
    snprintf(file_url, sizeof(file_url), "file:%s", path);
    rc = FL_UNIT_RUN(cmocka_unit_test(every_url), cmocka_unit_test(reads_along),
                     cmocka_unit_test(clear_errors));
    unlink(path);
    return rc;
}
