/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to memory that belongs to the program, which may unmap it, take its rights away or cut the file
 * under it at any moment, from any thread. What a fault would end with a signal ends with false instead: the
 * access runs in a frame that the handler of SIGSEGV and SIGBUS goes back to. Faults anywhere else go to whom
 * they would have gone to before.
 *
 * On x86-64; elsewhere, with FARLANE_SIGSEGV=0 in the environment, in a thread that blocks these signals, or
 * under a handler that the program has put in place since fl_try_init() was called last, a fault is a signal
 * as ever.
 */
#ifndef FL_BASE_TRY_H
#define FL_BASE_TRY_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Touches len bytes at a and at b and nothing else that lasts: it may end in the middle. Takes no lock. */
typedef void *fl_try_function(void *a, const void *b, size_t len);

/* Before the memory of others is touched; and again now and then, as the program may have put a handler of
 * its own in place. */
void fl_try_init(void);

/* False: a part of one of both was not there; any part may have been done. */
bool fl_try(void *a, const void *b, size_t len, fl_try_function *f);

/* The same for copies of 17 to 64 bytes, which cost no more than those that are not tried; like
 * fl_copy_watched(). */
bool fl_try_short(void *dst, const void *src, size_t len);

/* f: memcpy or the like */
static inline bool fl_try_copy_by(void *dst, const void *src, size_t len, fl_try_function *f)
{
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    if (len - 17 < 48)
        return fl_try_short(dst, src, len);
#endif
    return fl_try(dst, src, len, f);
}

static inline bool fl_try_copy(void *dst, const void *src, size_t len)
{
    return fl_try_copy_by(dst, src, len, memcpy);
}

/* Where accesses failed since this was asked last; how many addresses. */
#define FL_TRY_MISSED_MAX 8
int fl_try_missed(uintptr_t *at, int max);

extern bool fl_try_any_missed; /* private */
static inline bool fl_try_has_missed(void)
{
    return __builtin_expect(__atomic_load_n(&fl_try_any_missed, __ATOMIC_RELAXED), 0);
}

/* All signals but those that a thread's own faults raise: for threads that leave signals to the program. */
static inline void fl_signals_but_faults(sigset_t *set)
{
    static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
    sigfillset(set);
    for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
        sigdelset(set, faults[i]);
}

#endif
