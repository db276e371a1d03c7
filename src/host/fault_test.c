/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that is not there: the I/O that names it fails, and no other; against a scripted target. */
#include "host/test_remote.h"

#include <sys/mman.h>

/* Each connection is counted, so none may be given up because the machine is busy. */
static const struct fl_device_options patient = {
    .hostnqn = "nqn.2026-01.org.example:host",
    .kato_ms = 120000,
    .connect_timeout_ms = 60000,
    .reconnect_delay_ms = 50,
};

static uint8_t *hole(size_t len)
{
    uint8_t *p = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

static void reads_of_others_are_not_touched(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &patient);
    struct fl_queue *q = queue_of(dev, 8);
    struct fl_error err = {0};
    uint8_t *bad = hole(4096), *buf = malloc(8 * 4096);
    struct counted c[8];
    struct iovec iov[8];

    fill(f->mem, 8 * 4096, 5);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(fl_read(q, bad, 0, 4096, &err), -EFAULT);
        assert_non_null(strstr(err.text, "read of 8 blocks at 0: memory"));
        fl_error_clear(&err);
        assert_int_equal(fl_read(q, buf, 4096, 4096, &err), 0);
        assert_memory_equal(buf, f->mem + 4096, 4096);
    }
    fl_queue_destroy(q);
    q = queue_of(dev, 8);
    for (int i = 0; i < 8; i++) {
        iov[i] = (struct iovec){i == 0 ? bad : buf + i * 4096, 4096};
        c[i] = (struct counted){.io = {.op = FL_IO_READ,
                                       .off = (uint64_t)i * 4096,
                                       .len = 4096,
                                       .iov = &iov[i],
                                       .nr_iov = 1,
                                       .done = counted_done}};
        assert_int_equal(fl_submit(q, &c[i].io), 0);
    }
    settle(q, c, 8);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(c[i].nr, 1);
        assert_int_equal(c[i].result, i == 0 ? -EFAULT : 0);
    }
    assert_memory_equal(buf + 4096, f->mem + 4096, 7 * 4096);
    assert_int_equal(fake_get(f->nr_accepted), 3); /* the connection lives on */
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
    munmap(bad, 4096);
    free(buf);
}

/* len: in the capsule or asked for; at: where the hole is */
static void write_with_a_hole(uint32_t len, uint32_t at)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &patient);
    struct fl_queue *q = queue_of(dev, 4);
    struct fl_error err = {0};
    uint8_t *bad = hole(4096), *buf = malloc(len), *others = malloc(8 * 4096);
    struct iovec iov[8], pieces[3] = {{buf, at}, {bad, 512}, {buf + at, len - at - 512}};
    struct counted c[8], w = {.io = {.op = FL_IO_WRITE,
                                     .off = 1 << 20,
                                     .len = len,
                                     .iov = pieces,
                                     .nr_iov = 3,
                                     .done = counted_done}};

    fill(others, 8 * 4096, 3);
    fill(buf, len, 4);
    memset(f->mem, 0xee, FAKE_LEN);
    submit_writes(q, c, iov, others, 2);
    assert_int_equal(fl_submit(q, &w.io), 0);
    iov[2] = (struct iovec){others + 2 * 4096, 4096};
    c[2] = c[1];
    c[2].io.off = 2 * 4096;
    c[2].io.iov = &iov[2];
    assert_int_equal(fl_submit(q, &c[2].io), 0);
    settle(q, &w, 1);
    settle(q, c, 3);
    assert_int_equal(w.result, -EFAULT);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(c[i].nr, 1);
        assert_int_equal(c[i].result, 0);
    }
    assert_memory_equal(f->mem, others, 3 * 4096);
    /* Nothing but what it named was written, and the next write finds the connection that came after it. */
    for (uint32_t i = 0; i < len; i++)
        assert_true(f->mem[(1 << 20) + i] == 0xee);
    assert_int_equal(fl_write(q, buf, 1 << 20, len, &err), 0);
    assert_memory_equal(f->mem + (1 << 20), buf, len);
    assert_int_equal(fake_get(f->nr_accepted), 4);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
    munmap(bad, 4096);
    free(buf);
    free(others);
}

static void write_ends_and_the_others_go_out_again(void **state)
{
    write_with_a_hole(4096, 512);
    write_with_a_hole(65536, 512);
    write_with_a_hole(65536, 65536 - 512);
}

/* Every kind of device says so at once. */
static void null_is_refused(void **state)
{
    struct fake *f = fake_start();
    const char *urls[] = {f->url, "ram:1M", "null:1M"};

    for (size_t i = 0; i < FL_ARRAY_LEN(urls); i++) {
        struct fl_device *dev = NULL;
        struct fl_error err = {0};
        struct fl_queue *q;

        assert_int_equal(fl_device_open(urls[i], i ? NULL : &patient, &dev, &err), 0);
        q = queue_of(dev, 2);
        assert_int_equal(fl_read(q, NULL, 0, 4096, &err), -EFAULT);
        assert_non_null(strstr(err.text, "NULL"));
        fl_error_clear(&err);
        assert_int_equal(fl_write(q, NULL, 0, 4096, &err), -EFAULT);
        fl_error_clear(&err);
        assert_int_equal(fl_read(q, NULL, 0, 0, &err), 0);
        fl_queue_destroy(q);
        fl_device_close(dev);
    }
    assert_int_equal(fake_get(f->nr_accepted), 2);
    fake_end(f);
}

int main(void)
{
    quiet_unless_asked();
    return FL_UNIT_RUN(cmocka_unit_test(reads_of_others_are_not_touched),
                       cmocka_unit_test(write_ends_and_the_others_go_out_again),
                       cmocka_unit_test(null_is_refused));
}
