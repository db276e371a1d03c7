/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "rnic/key_table.h"

static int setup(void **state)
{
    struct fl_key_table *t = malloc(sizeof(*t));
    *state = t;
    return t ? fl_key_table_init(t) : -1;
}

static int teardown(void **state)
{
    fl_key_table_fini(*state);
    free(*state);
    return 0;
}

static uint32_t add(struct fl_key_table *t, uint32_t *slot, struct fl_key_entry e)
{
    assert_int_equal(fl_key_alloc(t, slot, &e.key), 0);
    fl_key_set(t, *slot, &e);
    assert_int_equal(fl_key_slot(t->file, e.key), *slot);
    return e.key;
}

static const struct fl_key_entry region = {
    .kind = FL_KEY_MR,
    .pd = 3,
    .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
    .addr = 0x1000,
    .len = 100,
    .ptr = 0x555000,
};

static void test_bounds_and_rights(void **state)
{
    struct fl_key_table *t = *state;
    uint32_t slot;
    uint64_t ptr;
    const struct fl_key_ask good = {.key = add(t, &slot, region),
                                    .pd = 3,
                                    .access = IBV_ACCESS_REMOTE_READ,
                                    .remote = true,
                                    .addr = 0x1000,
                                    .len = 100};
    struct fl_key_ask ask = good;
    assert_int_equal(fl_key_check(t->file, &ask, &ptr), 0);
    assert_int_equal(ptr, 0x555000);
    ask.addr = 0x1063;
    ask.len = 1;
    assert_int_equal(fl_key_check(t->file, &ask, &ptr), 0);
    assert_int_equal(ptr, 0x555063);
    static const struct {
        uint64_t addr, len;
    } beyond[] = {{0x1064, 1},   {0xfff, 1},      {0x1000, 101},
                  {0x1001, 100}, {UINT64_MAX, 2}, {0x1001, UINT64_MAX}};
    for (size_t i = 0; i < FL_ARRAY_LEN(beyond); i++) {
        ask.addr = beyond[i].addr;
        ask.len = beyond[i].len;
        assert_int_equal(fl_key_check(t->file, &ask, &ptr), -EACCES);
    }
    ask = good;
    ask.pd = 4;
    assert_int_equal(fl_key_check(t->file, &ask, &ptr), -EACCES);
    ask = good;
    ask.access = IBV_ACCESS_REMOTE_WRITE;
    assert_int_equal(fl_key_check(t->file, &ask, &ptr), -EACCES);
    ask = good;
    for (int bit = 0; bit < 32; bit++) { /* no other key, not even one that is near */
        ask.key = good.key ^ 1u << bit;
        assert_int_equal(fl_key_check(t->file, &ask, &ptr), -EACCES);
    }
    fl_key_free(t, slot);
    assert_int_equal(fl_key_check(t->file, &good, &ptr), -EACCES);
}

/* The region's end is the end of the address space. */
static void test_up_to_the_last_byte(void **state)
{
    struct fl_key_table *t = *state;
    struct fl_key_entry high = region;
    uint32_t slot;
    uint64_t ptr;
    high.addr = UINT64_MAX - 99;
    struct fl_key_ask ask = {.key = add(t, &slot, high), .pd = 3, .addr = UINT64_MAX, .len = 1};
    assert_int_equal(fl_key_check(t->file, &ask, &ptr), 0);
    ask.len = 2;
    assert_int_equal(fl_key_check(t->file, &ask, &ptr), -EACCES);
    fl_key_free(t, slot);
}

static void test_windows_are_for_peers(void **state)
{
    struct fl_key_table *t = *state;
    struct fl_key_entry window = region;
    uint32_t slot;
    uint64_t ptr;
    window.kind = FL_KEY_WINDOW;
    window.qpn = 77;
    struct fl_key_ask ask = {.key = add(t, &slot, window),
                             .pd = 3,
                             .qpn = 77,
                             .access = IBV_ACCESS_REMOTE_READ,
                             .remote = true,
                             .addr = 0x1000,
                             .len = 1};
    assert_int_equal(fl_key_check(t->file, &ask, &ptr), 0);
    ask.qpn = 78; /* type 2B: one queue pair */
    assert_int_equal(fl_key_check(t->file, &ask, &ptr), -EACCES);
    ask.qpn = 77;
    ask.remote = false;
    assert_int_equal(fl_key_check(t->file, &ask, &ptr), -EACCES);
    fl_key_free(t, slot);
}

/* A key that was freed comes back neither soon nor, its slot, with the same generation. */
static void test_not_reused_soon(void **state)
{
    struct fl_key_table *t = *state;
    enum { NR = 50000 };
    uint8_t *seen = calloc(1 << 24, 1);
    uint32_t slot, key;
    assert_non_null(seen);
    for (int i = 0; i < NR; i++) {
        assert_int_equal(fl_key_alloc(t, &slot, &key), 0);
        assert_true(key);
        assert_false(seen[key >> 8]);
        seen[key >> 8] = 1;
        fl_key_free(t, slot);
    }
    assert_true(t->nr_fresh <= 4096 + 1); /* and yet the table does not grow for ever */
    free(seen);
}

static void test_all_slots(void **state)
{
    struct fl_key_table *t = *state;
    uint32_t slot, key, other;
    for (uint32_t i = 0; i < FL_KEY_MAX; i++)
        assert_int_equal(fl_key_alloc(t, &slot, &key), 0);
    assert_int_equal(fl_key_alloc(t, &slot, &key), -ENOMEM);
    fl_key_free(t, 12345);
    assert_int_equal(fl_key_alloc(t, &other, &key), 0);
    assert_int_equal(other, 12345);
}

/* Keys of slots side by side tell nothing of each other, and two processes' keys nothing either. */
static void test_hard_to_guess(void **state)
{
    struct fl_key_table *t = *state, second;
    uint32_t slot, a, b, same = 0, near = 0, last = 0;
    assert_int_equal(fl_key_table_init(&second), 0);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(fl_key_alloc(t, &slot, &a), 0);
        assert_int_equal(fl_key_alloc(&second, &slot, &b), 0);
        same += a >> 8 == b >> 8;
        near += (a >> 8) - (last >> 8) + 16 < 32;
        last = a;
    }
    assert_true(same < 5);
    assert_true(near < 5);
    fl_key_table_fini(&second);
}

/* Another process maps the file and makes the same check. */
static void test_seen_through_the_file(void **state)
{
    struct fl_key_table *t = *state;
    uint32_t slot;
    uint64_t ptr;
    struct fl_key_ask ask = {.key = add(t, &slot, region), .pd = 3, .addr = 0x1000, .len = 100};
    const struct fl_key_file *file = mmap(NULL, sizeof(*file), PROT_READ, MAP_SHARED, t->fd, 0);
    assert_ptr_not_equal(file, MAP_FAILED);
    assert_int_equal(fl_key_check(file, &ask, &ptr), 0);
    assert_int_equal(ptr, 0x555000);
    fl_key_free(t, slot);
    assert_int_equal(fl_key_check(file, &ask, &ptr), -EACCES);
    munmap((void *)file, sizeof(*file));
}

static bool is_known(const struct fl_key_table *t, const struct fl_key_ask *ask, uint64_t *ptr)
{
    return fl_key_is_known(t, ask->memo, ask->key, ask->access, ask->addr, ask->len, ptr);
}

/* What was found once is known as long as nothing changes, within its bounds and rights. */
static void test_known_until_something_changes(void **state)
{
    struct fl_key_table *t = *state;
    struct fl_key_memo memo = {0};
    uint32_t slot, other;
    uint64_t ptr;
    struct fl_key_ask ask = {.key = add(t, &slot, region),
                             .pd = 3,
                             .access = IBV_ACCESS_LOCAL_WRITE,
                             .addr = 0x1010,
                             .len = 4,
                             .memo = &memo};
    assert_false(is_known(t, &ask, &ptr));
    assert_int_equal(fl_key_check_own(t, &ask, &ptr), 0);
    ask.addr = 0x1000;
    ask.len = 100;
    assert_true(is_known(t, &ask, &ptr));
    assert_int_equal(ptr, 0x555000);
    ask.addr = 0x1001;
    assert_false(is_known(t, &ask, &ptr));
    ask.addr = 0xfff;
    ask.len = 1;
    assert_false(is_known(t, &ask, &ptr));
    ask.addr = 0x1000;
    ask.access = IBV_ACCESS_REMOTE_WRITE;
    assert_false(is_known(t, &ask, &ptr));
    ask.access = 0;
    assert_true(is_known(t, &ask, &ptr));
    (void)add(t, &other, region);
    assert_false(is_known(t, &ask, &ptr));
    assert_int_equal(fl_key_check_own(t, &ask, &ptr), 0);
    assert_true(is_known(t, &ask, &ptr));
    fl_key_free(t, slot);
    assert_false(is_known(t, &ask, &ptr));
    assert_int_equal(fl_key_check_own(t, &ask, &ptr), -EACCES);
    assert_false(is_known(t, &ask, &ptr));
}

/* A key that was asked for by a peer, or in vain, does not inherit what the one before it in its place
 * opened. */
static void test_known_of_its_own_key_alone(void **state)
{
    struct fl_key_table *t = *state;
    struct fl_key_memo memo = {0};
    uint32_t slot, first = 0;
    uint64_t ptr;
    struct fl_key_ask ask = {.key = add(t, &slot, region), .pd = 3, .addr = 0x1000, .len = 1, .memo = &memo};
    struct fl_key_entry elsewhere = region;
    first = ask.key;
    elsewhere.ptr = 0x777000;
    do /* until one has the same place */
        ask.key = add(t, &slot, elsewhere);
    while ((ask.key >> 8 & (FL_KEY_MEMO - 1)) != (first >> 8 & (FL_KEY_MEMO - 1)));
    uint32_t second = ask.key;
    ask.key = first;
    assert_int_equal(fl_key_check_own(t, &ask, &ptr), 0);
    ask.key = second;
    ask.remote = true;
    ask.access = IBV_ACCESS_REMOTE_READ;
    assert_int_equal(fl_key_check(t->file, &ask, &ptr), 0);
    ask.remote = false;
    ask.access = 0;
    assert_false(is_known(t, &ask, &ptr));
    ask.pd = 4;
    assert_int_equal(fl_key_check_own(t, &ask, &ptr), -EACCES);
    assert_false(is_known(t, &ask, &ptr));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_bounds_and_rights, setup, teardown),
        cmocka_unit_test_setup_teardown(test_up_to_the_last_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(test_windows_are_for_peers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_not_reused_soon, setup, teardown),
        cmocka_unit_test_setup_teardown(test_all_slots, setup, teardown),
        cmocka_unit_test_setup_teardown(test_hard_to_guess, setup, teardown),
        cmocka_unit_test_setup_teardown(test_seen_through_the_file, setup, teardown),
        cmocka_unit_test_setup_teardown(test_known_until_something_changes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_known_of_its_own_key_alone, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
