/* SPDX-License-Identifier: Apache-2.0 */
/* V13: memory that is unmapped while it is registered. A skip where the system has no userfaultfd for us. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rnic/guard.h"
#include "rnic/test_verbs.h"

/* Unmapping returns when the guard has read of it; the key is closed a little later. */
static void await_closed(struct tv *tv, const struct ibv_mr *mr)
{
    struct fl_rnic *rnic = fl_context_of(tv->context)->rnic;
    uint64_t end = fl_now_ns() + TV_WAIT_NS;
    for (bool closed = false; !closed;) {
        fl_rnic_lock(rnic);
        closed = fl_key_at(&rnic->keys, mr->handle)->kind == FL_KEY_NONE;
        fl_rnic_unlock(rnic);
        assert_true(fl_now_ns() < end);
    }
}

/* V13, second half: what is mapped there next is not the peer's to write, nor to read; and nothing crashes.
 */
static void case_V13_unmapped_while_registered(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int way = 0; way < 3; way++) {
        uint8_t *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
                *moved = NULL;
        assert_ptr_not_equal(p, MAP_FAILED);
        struct ibv_mr *mr = fl_mr_reg(tv->pd, p + 100, 3 * page, TV_ALL_REMOTE);
        assert_non_null(mr);
        assert_int_equal(tv_write_status(tv, mr->rkey, (uintptr_t)p + 100, 8), IBV_WC_SUCCESS);
        if (way == 0) { /* gone, and nothing there */
            assert_int_equal(munmap(p, 4 * page), 0);
        } else if (way == 1) { /* another mapping over a part of it */
            assert_ptr_equal(
                mmap(p + page, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                p + page);
        } else { /* moved away */
            moved = mremap(p, 4 * page, 4 * page, MREMAP_MAYMOVE | MREMAP_FIXED, p + (64 << 20));
            assert_ptr_equal(moved, p + (64 << 20));
        }
        await_closed(tv, mr);
        tv_refused(tv, mr->rkey, (uintptr_t)p + page, 8);
        assert_int_equal(fl_mr_dereg(mr), 0);
        if (way == 1)
            munmap(p, 4 * page);
        else if (way == 2)
            munmap(moved, 4 * page);
    }
    tv_free(tv);
}

/* Regions that share pages: the one that goes first leaves the other watched. */
static void case_V13_overlapping_regions(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *p = mmap(NULL, 4 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *all = fl_mr_reg(tv->pd, p, 4 * page, TV_ALL_REMOTE),
                  *part = fl_mr_reg(tv->pd, p + page, 10, TV_ALL_REMOTE);
    assert_int_equal(fl_mr_dereg(part), 0);
    assert_int_equal(munmap(p + page, page), 0);
    await_closed(tv, all);
    tv_refused(tv, all->rkey, (uintptr_t)p, 8);
    assert_int_equal(fl_mr_dereg(all), 0);
    munmap(p, page);
    munmap(p + 2 * page, 2 * page);
    tv_free(tv);
}

static bool never(void *arg)
{
    return false;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_V13_unmapped_while_registered),
        cmocka_unit_test(case_V13_overlapping_regions),
    };
    const struct fl_guard_ops none = {.begin = never};
    struct fl_guard *guard;
    int r = fl_guard_create(&none, NULL, &guard);
    if (r) {
        fprintf(stderr, "no userfaultfd: %s\n", strerror(-r));
        return 77;
    }
    fl_guard_destroy(guard);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
