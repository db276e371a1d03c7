/* SPDX-License-Identifier: Apache-2.0 */
#include "base/try.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unit.h"

#define PAGE 4096u

static uint8_t *map(int prot)
{
    uint8_t *p = mmap(NULL, 2 * PAGE, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    return p;
}

/* ---- faults that are none of ours; each in a process of its own, before the handler is put in place here
 * ---- */

static int status_of(void (*child)(void))
{
    int status;
    fflush(NULL);
    pid_t pid = fork();
    if (!pid) {
        child();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status;
}

static volatile uint8_t *hole(void)
{
    uint8_t *p = map(PROT_READ);
    munmap(p, 2 * PAGE);
    return p;
}

/* It is left alone where the user says so. */
static void switched_off(void)
{
    struct sigaction now;
    signal(SIGSEGV, SIG_DFL);
    setenv("FARLANE_SIGSEGV", "0", 1);
    fl_try_init();
    sigaction(SIGSEGV, NULL, &now);
    if ((now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL)
        _exit(1);
    fl_try_copy((void *)hole(), "x", 1);
}

static void usual(void)
{
    signal(SIGSEGV, SIG_DFL);
    fl_try_init();
    *hole() = 1;
}

static void sent(void)
{
    signal(SIGSEGV, SIG_DFL);
    fl_try_init();
    kill(getpid(), SIGSEGV);
    pause();
}

static void sent_and_ignored(void)
{
    signal(SIGSEGV, SIG_IGN);
    fl_try_init();
    kill(getpid(), SIGSEGV);
    raise(SIGSEGV);
    _exit(5);
}

static void ends(int sig)
{
    _exit(sig == SIGBUS ? 8 : 7);
}

static void with_a_handler(void)
{
    signal(SIGSEGV, ends);
    fl_try_init();
    *hole() = 1;
}

static sigjmp_buf back;

static void jumps(int sig, siginfo_t *info, void *context)
{
    siglongjmp(back, sig == SIGSEGV && info->si_addr ? 1 : 2);
}

/* As programs do that expect faults; and those of a function that is tried, but elsewhere than in its memory.
 */
static void with_a_handler_that_jumps(void)
{
    const struct sigaction sa = {.sa_sigaction = jumps, .sa_flags = SA_SIGINFO};
    uint8_t byte = 0;
    sigaction(SIGSEGV, &sa, NULL);
    fl_try_init();
    for (volatile int i = 0; i < 3; i++) {
        if (!sigsetjmp(back, 1))
            *hole() = 1;
        if (fl_try_copy((void *)(uintptr_t)hole(), &byte, 1))
            _exit(1);
    }
    _exit(9);
}

static struct sigaction older;

static void passes_on(int sig, siginfo_t *info, void *context)
{
    older.sa_sigaction(sig, info, context);
}

/* Later than ours, keeps it and passes on to it: ours must not do the same. */
static void with_a_handler_that_passes_on(void)
{
    const struct sigaction sa = {.sa_sigaction = passes_on, .sa_flags = SA_SIGINFO};
    uint8_t byte = 0;
    signal(SIGSEGV, SIG_DFL);
    fl_try_init();
    sigaction(SIGSEGV, &sa, &older);
    fl_try_init();
    if (!fl_try_copy((void *)(uintptr_t)hole(), &byte, 1))
        *hole() = 1;
}

static void faults_of_others(void **state)
{
    int status = status_of(switched_off);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = status_of(usual);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = status_of(sent);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    status = status_of(with_a_handler_that_passes_on);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
    assert_int_equal(WEXITSTATUS(status_of(sent_and_ignored)), 5);
    assert_int_equal(WEXITSTATUS(status_of(with_a_handler)), 7);
    assert_int_equal(WEXITSTATUS(status_of(with_a_handler_that_jumps)), 9);
}

/* ---- */

static void misses(uint8_t *dst, const uint8_t *src, size_t len, const uint8_t *at)
{
    uintptr_t missed[FL_TRY_MISSED_MAX];
    assert_false(fl_try_copy(dst, src, len));
    assert_true(fl_try_has_missed());
    assert_int_equal(fl_try_missed(missed, FL_TRY_MISSED_MAX), 1);
    assert_in_range(missed[0], (uintptr_t)at,
                    (uintptr_t)at + len - 1); /* memcpy need not begin at the beginning */
    assert_false(fl_try_has_missed());
    assert_int_equal(fl_try_missed(missed, FL_TRY_MISSED_MAX), 0);
}

static void copies(void **state)
{
    uint8_t *p = map(PROT_READ | PROT_WRITE), out[PAGE] = {0};
    fl_try_init();
    fl_try_init();
    for (size_t i = 0; i < PAGE; i++)
        p[i] = (uint8_t)(i * 7);
    for (size_t len = 0; len <= PAGE; len = len < 70 ? len + 1 : len * 2) {
        memset(out, 0, sizeof(out));
        assert_true(fl_try_copy(out, p + PAGE - len, len));
        assert_memory_equal(out, p + PAGE - len, len);
        assert_true(len == PAGE || out[len] == 0);
    }
    for (size_t len = 17; len <= 64; len++) { /* over each other, both ways */
        for (size_t i = 0; i < PAGE; i++)
            out[i] = (uint8_t)(i * 7);
        assert_true(fl_try_short(out + 5, out, len));
        assert_memory_equal(out + 5, p, len);
        assert_true(fl_try_short(out, out + 5, len));
        assert_memory_equal(out, p, len);
    }
    assert_false(fl_try_has_missed());
    munmap(p, 2 * PAGE);
}

static void memory_that_is_not_there(void **state)
{
    uint8_t *p = map(PROT_READ | PROT_WRITE), out[2 * PAGE] = {0};
    fl_try_init();
    munmap(p + PAGE, PAGE);
    for (size_t len = 1; len <= PAGE; len = len < 70 ? len + 1 : len * 2) {
        misses(out, p + PAGE, len, p + PAGE);
        misses(p + PAGE, out, len, p + PAGE);
    }
    misses(p + PAGE - 100, out, 1000, p + PAGE);
    assert_int_equal(mprotect(p, PAGE, PROT_READ), 0);
    misses(p + 8, out, 8, p + 8);
    assert_true(fl_try_copy(out, p, 8));
    assert_int_equal(mprotect(p, PAGE, PROT_NONE), 0);
    misses(out, p, 8, p);
    munmap(p, PAGE);
}

static void a_file_that_was_cut(void **state)
{
    FILE *file = tmpfile();
    uint8_t out[8];
    assert_non_null(file);
    assert_int_equal(ftruncate(fileno(file), PAGE), 0);
    uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    fl_try_init();
    assert_true(fl_try_copy(p, "1234567", 8));
    assert_int_equal(ftruncate(fileno(file), 0), 0);
    misses(out, p + 16, 8, p + 16);
    munmap(p, PAGE);
    fclose(file);
}

/* What a function must keep is kept, whatever ran when it faulted. */
static void *spoils(void *a, const void *b, size_t len)
{
    const volatile uint8_t *from = b;
    volatile uint64_t v[16];
    for (int i = 0; i < 16; i++)
        v[i] = len + (uint64_t)i;
    uint64_t r = v[0] * v[1] + v[2] * v[3], s = v[4] * v[5] + v[6] * v[7], t = v[8] * v[9] + v[10] * v[11],
             u = v[12] * v[13] + v[14] * v[15];
    for (size_t i = 0; i < len; i++)
        r += s * from[i] + t, s ^= u + r, t += s * u, u ^= r * t;
    *(volatile uint64_t *)a = r + s + t + u;
    return a;
}

static void registers(void **state)
{
    uint8_t *p = map(PROT_READ | PROT_WRITE);
    uint64_t sum[2] = {0}, to;
    fl_try_init();
    munmap(p + PAGE, PAGE);
    for (int miss = 0; miss < 2; miss++) {
        uint64_t a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7;
        for (uint64_t i = 0; i < 100; i++) {
            assert_true(fl_try(&to, p + PAGE - 8 + (miss ? 4 : 0), 8, spoils) == !miss);
            a += b * i, b ^= c + i, c += d, d ^= e * 3, e += f, f ^= g + a, g += a;
        }
        sum[miss] = a ^ b ^ c ^ d ^ e ^ f ^ g;
    }
    assert_int_equal(sum[0], sum[1]);
    uintptr_t missed[FL_TRY_MISSED_MAX];
    fl_try_missed(missed, FL_TRY_MISSED_MAX);
    munmap(p, PAGE);
}

static void more_than_are_kept(void **state)
{
    uintptr_t missed[FL_TRY_MISSED_MAX];
    uint8_t *p = map(PROT_READ), out[1];
    fl_try_init();
    munmap(p, 2 * PAGE);
    for (int i = 0; i < 3 * FL_TRY_MISSED_MAX; i++)
        assert_false(fl_try_copy(out, p + i, 1));
    assert_int_equal(fl_try_missed(missed, FL_TRY_MISSED_MAX), FL_TRY_MISSED_MAX);
    assert_int_equal(missed[FL_TRY_MISSED_MAX - 1], (uintptr_t)p + FL_TRY_MISSED_MAX - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(faults_of_others), /* first */
        cmocka_unit_test(copies),
        cmocka_unit_test(memory_that_is_not_there),
        cmocka_unit_test(a_file_that_was_cut),
        cmocka_unit_test(registers),
        cmocka_unit_test(more_than_are_kept),
    };
#if !defined(__x86_64__)
    return 77;
#endif
    return cmocka_run_group_tests(tests, NULL, NULL);
}
