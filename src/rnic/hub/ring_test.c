/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/unit.h"
#include "rnic/hub/ring.h"

struct both {
    struct fl_hub_ring writer, reader;
};

static bool by_record; /* the tests run with head, and again without */

static int by_head(void **state)
{
    by_record = false;
    return 0;
}

static int by_records(void **state)
{
    by_record = true;
    return 0;
}

static void both_open(struct both *b)
{
    int (*map)(struct fl_hub_ring *, int) = by_record ? fl_hub_ring_map_by_record : fl_hub_ring_map;
    int fd = fl_hub_ring_create();
    assert_true(fd >= 0);
    assert_int_equal(map(&b->writer, fd), 0);
    assert_int_equal(map(&b->reader, fd), 0);
    assert_int_equal(ftruncate(fd, 4096), -1); /* nobody can make the other one crash */
    close(fd);
}

static void both_close(struct both *b)
{
    fl_hub_ring_unmap(&b->writer);
    fl_hub_ring_unmap(&b->reader);
}

static bool put(struct both *b, const void *p, size_t len, bool *wake)
{
    const struct iovec iov[] = {{(void *)p, 1}, {(uint8_t *)p + 1, len - 1}};
    return fl_hub_ring_write(&b->writer, iov, 2, wake);
}

static void records_come_whole_and_in_order(void **state)
{
    struct both b;
    uint8_t in[5000], out[5000];
    uint32_t put_nr = 0, got_nr = 0, seed = 1;
    bool wake;
    both_open(&b);
    while (got_nr < 20000) {
        uint32_t len;
        seed = seed * 1103515245 + 12345;
        len = 4 + seed / 65536 % 4096;
        memset(in, (int)put_nr, len);
        memcpy(in, &len, sizeof(len));
        if (seed & 0x10000 && put(&b, in, len, &wake)) {
            put_nr++;
        } else {
            int n = fl_hub_ring_read(&b.reader, out, sizeof(out));
            assert_true(n >= 0);
            if (!n)
                continue;
            memcpy(&len, out, sizeof(len));
            assert_int_equal(n, len);
            for (int i = 4; i < n; i++)
                assert_int_equal(out[i], (uint8_t)got_nr);
            got_nr++;
        }
    }
    assert_true(b.writer.at > 4 * (uint64_t)FL_HUB_RING_LEN);
    both_close(&b);
}

static void full_ring_takes_nothing(void **state)
{
    struct both b;
    uint8_t bytes[4096] = {0};
    uint32_t nr = 0;
    bool wake;
    both_open(&b);
    while (put(&b, bytes, sizeof(bytes), &wake))
        nr++;
    assert_in_range(nr, 250, 256);
    assert_int_equal(fl_hub_ring_read(&b.reader, bytes, sizeof(bytes)), sizeof(bytes));
    assert_true(put(&b, bytes, sizeof(bytes) - 100, &wake));
    /* A reader that says it has read what was never written gains nothing. */
    b.reader.shared->tail = UINT64_MAX;
    assert_false(put(&b, bytes, sizeof(bytes), &wake));
    both_close(&b);
}

static void a_sleeping_reader_is_woken_once(void **state)
{
    struct both b;
    uint8_t bytes[64] = {0};
    bool wake;
    both_open(&b);
    assert_true(put(&b, bytes, sizeof(bytes), &wake));
    assert_true(wake); /* the reader may sleep since before there was a ring */
    assert_true(put(&b, bytes, sizeof(bytes), &wake));
    assert_false(wake);
    assert_true(fl_hub_ring_read(&b.reader, bytes, sizeof(bytes)) > 0);
    assert_true(fl_hub_ring_read(&b.reader, bytes, sizeof(bytes)) > 0);
    assert_int_equal(fl_hub_ring_read(&b.reader, bytes, sizeof(bytes)), 0);
    assert_true(fl_hub_ring_sleep(&b.reader));
    assert_true(put(&b, bytes, sizeof(bytes), &wake));
    assert_true(wake);
    assert_true(put(&b, bytes, sizeof(bytes), &wake));
    assert_false(wake);
    assert_false(fl_hub_ring_sleep(&b.reader));
    both_close(&b);
}

static void a_broken_writer_is_found(void **state)
{
    const uint64_t heads[] = {8, FL_HUB_RING_LEN + 8, 4, 8, 8, 16};
    const uint32_t lens[] = {0, 4, 4, 4097, 5, UINT32_MAX};
    uint8_t bytes[4096];
    for (size_t i = 0; i < FL_ARRAY_LEN(heads); i++) {
        struct both b;
        both_open(&b);
        b.writer.shared->head = heads[i];
        memcpy(b.writer.shared->bytes, &lens[i], sizeof(lens[i]));
        assert_int_equal(fl_hub_ring_read(&b.reader, bytes, sizeof(bytes)), -EPROTO);
        both_close(&b);
    }
}

/* What the ring held before, or the first part of a batch, never looks like a record. */
static void old_bytes_and_half_a_batch_are_no_records(void **state)
{
    struct both b;
    uint8_t bytes[200], out[200];
    bool wake;
    memset(bytes, 1, sizeof(bytes)); /* a length as well as data */
    both_open(&b);
    for (uint64_t laps = 0; laps < 3 * (uint64_t)FL_HUB_RING_LEN;) {
        uint32_t len = (uint32_t)(laps / 64 % 190) + 4;
        assert_true(put(&b, bytes, len, &wake));
        laps += len;
        assert_int_equal(fl_hub_ring_read(&b.reader, out, sizeof(out)), len);
        assert_false(fl_hub_ring_has(&b.reader));
        assert_int_equal(fl_hub_ring_read(&b.reader, out, sizeof(out)), 0);
        for (int i = 0; i < 3; i++) {
            memset(fl_hub_ring_reserve(&b.writer, len, 0), 2, len);
            assert_int_equal(fl_hub_ring_read(&b.reader, out, sizeof(out)), 0);
        }
        fl_hub_ring_commit(&b.writer);
        for (int i = 0; i < 3; i++) {
            assert_int_equal(fl_hub_ring_read(&b.reader, out, sizeof(out)), len);
            assert_int_equal(out[len - 1], 2);
        }
        assert_int_equal(fl_hub_ring_read(&b.reader, out, sizeof(out)), 0);
    }
    both_close(&b);
}

static void a_broken_record_is_found(void **state)
{
    const uint32_t words[] = {FL_HUB_RING_LEN, FL_HUB_RING_LEN - 3, UINT32_MAX, UINT32_MAX - 1, 5000,
                              FL_HUB_RING_MESSAGE};
    uint8_t bytes[4096];
    for (size_t i = 0; i < FL_ARRAY_LEN(words); i++) {
        struct both b;
        both_open(&b);
        memcpy(b.writer.shared->bytes, &words[i], sizeof(words[i]));
        assert_int_equal(fl_hub_ring_read(&b.reader, bytes, sizeof(bytes)), -EPROTO);
        both_close(&b);
    }
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test_setup(records_come_whole_and_in_order, by_head),
        cmocka_unit_test_setup(full_ring_takes_nothing, by_head),
        cmocka_unit_test_setup(a_sleeping_reader_is_woken_once, by_head),
        cmocka_unit_test_setup(old_bytes_and_half_a_batch_are_no_records, by_head),
        cmocka_unit_test_setup(a_broken_writer_is_found, by_head),
        cmocka_unit_test_setup(records_come_whole_and_in_order, by_records),
        cmocka_unit_test_setup(full_ring_takes_nothing, by_records),
        cmocka_unit_test_setup(a_sleeping_reader_is_woken_once, by_records),
        cmocka_unit_test_setup(old_bytes_and_half_a_batch_are_no_records, by_records),
        cmocka_unit_test_setup(a_broken_record_is_found, by_records));
}
