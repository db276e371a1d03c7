/* SPDX-License-Identifier: Apache-2.0 */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "base/probe.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"

/* A word is read, or 0 is added to it in one step: as the copies of sockets fault, so does this. */
static bool probe_word(uintptr_t addr, bool write)
{
    const struct timespec no_time = {0};
    uint32_t none = 0, *word = (uint32_t *)(addr & ~(uintptr_t)3);
    long r;

    if (write)
        r = syscall(SYS_futex, &none, FUTEX_WAKE_OP_PRIVATE, 0, 0, word,
                    FUTEX_OP(FUTEX_OP_ADD, 0, FUTEX_OP_CMP_EQ, 0));
    else
        r = syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, 0, &no_time, NULL, 0);
    return r >= 0 || errno != EFAULT;
}

static bool probe(uintptr_t addr, size_t len, bool write)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), end = addr + len;

    if (end < addr)
        return false;
    for (; addr < end; addr = (addr & ~(page - 1)) + page)
        if (!probe_word(addr, write))
            return false;
    return true;
}

bool fl_probe_iov(const struct iovec *iov, uint32_t nr, size_t skip, size_t len, bool write)
{
    for (; len && nr; iov++, nr--) {
        size_t n;

        if (skip >= iov->iov_len) {
            skip -= iov->iov_len;
            continue;
        }
        n = FL_MIN(iov->iov_len - skip, len);
        if (!probe((uintptr_t)iov->iov_base + skip, n, write))
            return false;
        len -= n;
        skip = 0;
    }
    return true;
}
