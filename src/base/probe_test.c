/* SPDX-License-Identifier: Apache-2.0 */
#include "base/probe.h"

#include <sys/mman.h>

#include "base/unit.h"

#define PAGE 4096u

static bool probe(const void *p, size_t len, bool write)
{
    struct iovec iov = {(void *)p, len};
    return fl_probe_iov(&iov, 1, 0, len, write);
}

static void tells_what_is_there(void **state)
{
    uint8_t *p = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct iovec iov[3] = {{p, PAGE}, {NULL, 0}, {p + PAGE, PAGE}};

    assert_ptr_not_equal(p, MAP_FAILED);
    for (uint32_t i = 0; i < 3 * PAGE; i++)
        p[i] = (uint8_t)i;
    assert_true(probe(p + 1, 3 * PAGE - 1, true));
    assert_true(fl_probe_iov(iov, 3, 10, 2 * PAGE - 10, true));
    for (uint32_t i = 0; i < 3 * PAGE; i++)
        assert_int_equal(p[i], (uint8_t)i);
    assert_int_equal(mprotect(p + PAGE, PAGE, PROT_READ), 0);
    assert_true(probe(p, 3 * PAGE, false));
    assert_false(probe(p + PAGE - 1, 2, true));
    assert_false(fl_probe_iov(iov, 3, 10, PAGE, true));
    assert_true(fl_probe_iov(iov, 3, 10, PAGE - 10, true));
    assert_int_equal(mprotect(p + PAGE, PAGE, PROT_NONE), 0);
    assert_false(probe(p, PAGE + 1, false));
    assert_int_equal(munmap(p + PAGE, PAGE), 0);
    assert_false(probe(p, 3 * PAGE, false));
    assert_true(probe(p, PAGE, true));
    assert_false(probe(NULL, 1, false));
    assert_false(probe(NULL, 1, true));
    assert_false(probe((void *)(UINTPTR_MAX - 10), 100, false));
    munmap(p, PAGE);
    munmap(p + 2 * PAGE, PAGE);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(tells_what_is_there));
}
