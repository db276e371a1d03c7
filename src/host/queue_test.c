/* SPDX-License-Identifier: Apache-2.0 */
/* Queues: reads, writes and the rest, refusals, waiting: against a scripted target on loopback sockets. */
#include "host/test_remote.h"

/* Writes and reads back lengths around the limits, in one and in odd pieces. */
static void reads_and_writes(void **state)
{
    static const uint32_t lens[] = {512, 4096, 8192, 8704, 65536, 131072, 131584, 1 << 20, (1 << 20) + 512};

    for (int dg = 0; dg < 4; dg++) {
        struct fake *f = fake_start();
        struct fl_device_options o = quick;
        struct fl_device *dev;
        struct fl_queue *q;
        uint8_t *out = malloc(2 << 20), *in = malloc(2 << 20);
        struct fl_error err = {0};

        o.hdgst = dg & 1;
        o.ddgst = dg & 2;
        f->capsule_len = dg == 1 ? 0 : 8192;
        f->no_success = dg == 2;
        f->r2t_len = dg == 3 ? 4096 : 0;
        dev = open_with(f, &o);
        q = queue_of(dev, dg == 0 ? 2 : 32);
        for (uint32_t i = 0; i < FL_ARRAY_LEN(lens); i++) {
            struct iovec iov[4] = {{in, 1}, {in + 1, 510}, {in + 511, 0}, {in + 511, lens[i] - 511}};
            struct counted c = {.io = {.op = FL_IO_READ,
                                       .off = 1024,
                                       .len = lens[i],
                                       .iov = iov,
                                       .nr_iov = 4,
                                       .done = counted_done}};

            fill(out, lens[i], i + 1);
            memset(in, 0, lens[i]);
            if (fl_write(q, out, 1024, lens[i], &err) < 0)
                fail_msg("%s", err.text);
            assert_memory_equal(f->mem + 1024, out, lens[i]);
            assert_int_equal(fl_submit(q, &c.io), 0);
            settle(q, &c, 1);
            assert_int_equal(c.result, 0);
            assert_memory_equal(in, out, lens[i]);
            c = (struct counted){.io = {.op = FL_IO_COMPARE,
                                        .off = 1024,
                                        .len = lens[i],
                                        .iov = iov,
                                        .nr_iov = 4,
                                        .done = counted_done}};
            assert_int_equal(fl_submit(q, &c.io), 0);
            settle(q, &c, 1);
            assert_int_equal(c.result, 0);
        }
        assert_int_equal(fl_flush(q, &err), 0);
        fl_queue_destroy(q);
        fl_device_close(dev);
        assert_int_equal(fake_get(f->nr_terms), 0);
        fake_end(f);
        free(out);
        free(in);
    }
}

static void other_operations(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 8);
    uint8_t block[512];
    struct iovec iov = {block, 512};
    struct counted c[4] = {
        {.io = {.op = FL_IO_WRITE_ZEROES, .off = 0, .len = FAKE_LEN, .done = counted_done}},
        {.io = {.op = FL_IO_DISCARD, .off = 512, .len = 1024, .done = counted_done}},
        {.io = {.op = FL_IO_VERIFY, .off = 0, .len = FAKE_LEN, .done = counted_done}},
        {.io = {.op = FL_IO_COMPARE, .off = 0, .len = 512, .iov = &iov, .nr_iov = 1, .done = counted_done}},
    };

    fill(block, 512, 3);
    memset(f->mem, 9, FAKE_LEN);
    for (int i = 0; i < 4; i++)
        assert_int_equal(fl_submit(q, &c[i].io), 0);
    settle(q, c, 4);
    assert_int_equal(c[0].result, 0);
    assert_int_equal(f->mem[FAKE_LEN - 1], 0);
    assert_int_equal(c[1].result, 0);
    assert_int_equal(c[2].result, 0);
    assert_int_equal(c[3].result, -EILSEQ);
    assert_int_equal(c[3].io.nvme_status, FL_NVME_SC_COMPARE_FAILED);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void refuses_what_is_out_of_range(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 1), *second = NULL, *others[7];
    struct fl_error err = {0};
    uint8_t buf[1024];
    struct iovec iov = {buf, 512};
    struct counted c[2] = {
        {.io = {.op = FL_IO_READ, .len = 512, .iov = &iov, .nr_iov = 1, .done = counted_done}}};

    assert_int_equal(fl_read(q, buf, 256, 512, &err), -EINVAL);
    assert_true(strstr(err.text, "multiples") != NULL);
    fl_error_clear(&err);
    assert_int_equal(fl_read(q, buf, FAKE_LEN, 512, &err), -EINVAL);
    fl_error_clear(&err);
    assert_int_equal(fl_read(q, buf, UINT64_MAX - 511, 512, &err), -EINVAL);
    fl_error_clear(&err);
    c[0].io.len = 1024; /* more than the iov holds */
    assert_int_equal(fl_submit(q, &c[0].io), -EINVAL);
    c[0].io.len = 512;
    c[0].io.flags = FL_IO_FUA << 1; /* nothing that is known */
    assert_int_equal(fl_submit(q, &c[0].io), -EINVAL);
    c[0].io.flags = 0;
    c[1] = c[0];
    assert_int_equal(fl_submit(q, &c[0].io), 0);
    assert_int_equal(fl_submit(q, &c[1].io), -EAGAIN);
    settle(q, c, 1);

    /* The target says no: shrunk behind our back. */
    fake_set(f->nr_blocks, 8);
    assert_int_equal(fl_read(q, buf, 1234 * 512, 1024, &err), -ERANGE);
    assert_string_equal(err.text, "read of 2 blocks at 1234: beyond the end of the namespace (status 80h)");
    fl_error_clear(&err);
    for (int i = 0; i < 7; i++)
        others[i] = queue_of(dev, 1);
    assert_int_equal(fl_queue_create(dev, 1, &second, &err), -EMFILE);
    fl_queue_destroy(others[3]);
    others[3] = queue_of(dev, 1);
    for (int i = 0; i < 7; i++)
        fl_queue_destroy(others[i]);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void case_T11_wrong_data_digest_is_retried(void **state)
{
    struct fake *f = fake_start();
    struct fl_device_options o = quick;
    struct fl_device *dev;
    struct fl_queue *q;
    uint8_t buf[4096];
    struct fl_error err = {0};

    o.ddgst = true;
    dev = open_with(f, &o);
    q = queue_of(dev, 4);
    fill(f->mem, 4096, 1);
    fake_set(f->flip_count, 3);
    assert_int_equal(fl_read(q, buf, 0, 4096, &err), 0);
    assert_memory_equal(buf, f->mem, 4096);
    assert_int_equal(fake_get(f->nr_io), 4);
    fake_set(f->flip_count, 1000); /* for good: an error in the end, and the queue goes on */
    assert_int_equal(fl_read(q, buf, 0, 4096, &err), -EIO);
    fake_set(f->flip_count, 0);
    fl_error_clear(&err);
    assert_int_equal(fl_read(q, buf, 0, 4096, &err), 0);
    assert_int_equal(fake_get(f->nr_accepted), 2);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void status_that_passes_is_waited_for(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 4);
    uint8_t buf[512];
    struct fl_error err = {0};

    fake_set(f->fail_status, FL_NVME_SC_NS_NOT_READY);
    fake_set(f->fail_count, 2);
    assert_int_equal(fl_write(q, buf, 0, 512, &err), 0);
    assert_int_equal(fake_get(f->nr_io), 3);
    fake_set(f->fail_status, FL_NVME_SC_NS_NOT_READY | FL_NVME_DNR);
    fake_set(f->fail_count, 1);
    assert_int_equal(fl_write(q, buf, 0, 512, &err), -EBUSY);
    fl_error_clear(&err);
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void descriptor_wakes(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 8);
    struct pollfd p = {.fd = fl_queue_fd(q), .events = POLLIN};
    struct counted c[1];
    struct iovec iov[1];
    uint8_t buf[4096];

    assert_true(p.fd >= 0);
    for (int i = 0; i < 20; i++) {
        uint64_t end = fl_now_ns() + PATIENCE_MS * FL_NS_PER_MS;

        if (i == 10)
            fake_cut(f); /* the descriptor must also lead through a reconnect */
        submit_writes(q, c, iov, buf, 1);
        while (!c[0].nr) {
            while (fl_queue_poll(q) > 0)
                ;
            if (!c[0].nr)
                poll(&p, 1, 1000);
            assert_true(fl_now_ns() < end);
        }
        assert_int_equal(c[0].result, 0);
    }
    fl_queue_destroy(q);
    fl_device_close(dev);
    fake_end(f);
}

static void destroy_cancels(void **state)
{
    struct fake *f = fake_start();
    struct fl_device *dev = open_with(f, &quick);
    struct fl_queue *q = queue_of(dev, 8);
    struct counted c[8];
    struct iovec iov[8];
    uint8_t *buf = malloc(8 * 4096);

    fake_set(f->mute_io, 1);
    submit_writes(q, c, iov, buf, 8);
    fl_queue_poll(q);
    fl_queue_destroy(q);
    for (int i = 0; i < 8; i++) {
        assert_int_equal(c[i].nr, 1);
        assert_int_equal(c[i].result, -ECANCELED);
    }
    fl_device_close(dev);
    fake_end(f);
    free(buf);
}

int main(void)
{
    quiet_unless_asked();
    return FL_UNIT_RUN(cmocka_unit_test(reads_and_writes), cmocka_unit_test(other_operations),
                       cmocka_unit_test(refuses_what_is_out_of_range),
                       cmocka_unit_test(case_T11_wrong_data_digest_is_retried),
                       cmocka_unit_test(status_that_passes_is_waited_for), cmocka_unit_test(descriptor_wakes),
                       cmocka_unit_test(destroy_cancels));
}
