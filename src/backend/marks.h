/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who uses which part of a memory that several loops read and write. Memory is divided into stripes; a stripe
 * is marked by any number of readers, for as long as its bytes are on their way to a host, or by one writer,
 * for as long as it copies. So what a reader sends is one version from its first byte to its last, and so is
 * the digest.
 *
 * Nobody waits here: who cannot mark comes back later. A writer that found readers says that it wants the
 * stripe, and no further reader gets in until it has had it, so that neither keeps the other out for ever.
 *
 * Stripes share words when the memory has more of them than there are words; that costs a needless wait now
 * and then. The words of neighbours lie in one cache line: a large read touches few.
 */
#ifndef FL_BACKEND_MARKS_H
#define FL_BACKEND_MARKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/util.h"

#define FL_MARKS_STRIPE_SHIFT 16
#define FL_MARKS_STRIPE_LEN   (UINT64_C(1) << FL_MARKS_STRIPE_SHIFT)
#define FL_MARKS_NR           8192u /* a range that is marked at a time has fewer stripes */
#define FL_MARKS_MAX_LEN      (FL_MARKS_NR / 2 * FL_MARKS_STRIPE_LEN)

#define FL_MARK_READERS 0x0000ffffu
#define FL_MARK_FULL    0x00008000u /* so many readers that no other is let in */
#define FL_MARK_WANT    0x00010000u /* one of the writers that want it */
#define FL_MARK_WANTS   0x7fff0000u
#define FL_MARK_WRITER  0x80000000u

struct fl_marks {
    bool alone; /* one thread has it: no atomic operation is needed. Set before the first use */
    uint32_t word[FL_MARKS_NR];
};

static inline uint32_t *fl_marks_word(struct fl_marks *m, uint64_t stripe)
{
    return &m->word[stripe & (FL_MARKS_NR - 1)];
}

/* Returns what was there. */
static inline uint32_t fl_marks_add(struct fl_marks *m, uint64_t stripe, uint32_t n)
{
    uint32_t *word = fl_marks_word(m, stripe), was;

    if (!m->alone)
        return __atomic_fetch_add(word, n, __ATOMIC_ACQ_REL);
    was = *word;
    *word = was + n;
    return was;
}

static inline void fl_marks_read_end(struct fl_marks *m, uint64_t off, uint64_t len)
{
    uint64_t i = off >> FL_MARKS_STRIPE_SHIFT, last = (off + len - 1) >> FL_MARKS_STRIPE_SHIFT;

    if (fl_likely(m->alone))
        for (; i <= last; i++)
            --*fl_marks_word(m, i);
    else
        for (; i <= last; i++)
            __atomic_fetch_sub(fl_marks_word(m, i), 1, __ATOMIC_RELEASE);
}

/* Marks for a reader as many bytes from off on as can be had, at most len, not 0: how many, 0 if somebody
 * writes at the first, or wants to. */
static inline uint64_t fl_marks_read_some(struct fl_marks *m, uint64_t off, uint64_t len)
{
    uint64_t i = off >> FL_MARKS_STRIPE_SHIFT, last = (off + len - 1) >> FL_MARKS_STRIPE_SHIFT, first = i;

    if (fl_likely(m->alone)) {
        while (i <= last && fl_likely(*fl_marks_word(m, i) < FL_MARK_FULL))
            ++*fl_marks_word(m, i++);
    } else {
        while (i <= last &&
               fl_likely(__atomic_fetch_add(fl_marks_word(m, i), 1, __ATOMIC_ACQUIRE) < FL_MARK_FULL))
            i++;
        if (fl_unlikely(i <= last))
            __atomic_fetch_sub(fl_marks_word(m, i), 1, __ATOMIC_RELAXED);
    }
    return fl_likely(i > last) ? len : i == first ? 0 : (i << FL_MARKS_STRIPE_SHIFT) - off;
}

/* The same with all or nothing. */
static inline bool fl_marks_read(struct fl_marks *m, uint64_t off, uint64_t len)
{
    uint64_t n = fl_marks_read_some(m, off, len);

    if (fl_unlikely(n != len && n))
        fl_marks_read_end(m, off, n);
    return n == len;
}

/* Does a writer wait for somebody who reads here? */
static inline bool fl_marks_wanted(struct fl_marks *m, uint64_t off, uint64_t len)
{
    for (uint64_t i = off >> FL_MARKS_STRIPE_SHIFT; i <= (off + len - 1) >> FL_MARKS_STRIPE_SHIFT; i++)
        if (__atomic_load_n(fl_marks_word(m, i), __ATOMIC_RELAXED) & FL_MARK_WANTS)
            return true;
    return false;
}

/* Is nobody there, neither reader nor writer? */
static inline bool fl_marks_idle(struct fl_marks *m, uint64_t off, uint64_t len)
{
    for (uint64_t i = off >> FL_MARKS_STRIPE_SHIFT; i <= (off + len - 1) >> FL_MARKS_STRIPE_SHIFT; i++)
        if (__atomic_load_n(fl_marks_word(m, i), __ATOMIC_RELAXED))
            return false;
    return true;
}

static inline bool fl_marks_write_one(struct fl_marks *m, uint64_t stripe)
{
    uint32_t *word = fl_marks_word(m, stripe), was = __atomic_load_n(word, __ATOMIC_RELAXED);

    while (!(was & (FL_MARK_READERS | FL_MARK_WRITER))) {
        if (m->alone) {
            *word = was | FL_MARK_WRITER;
            return true;
        }
        if (__atomic_compare_exchange_n(word, &was, was | FL_MARK_WRITER, true, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

/* Marks for a writer as many bytes from off on as can be had, at most len: how many, 0 if it is none. */
static inline uint64_t fl_marks_write(struct fl_marks *m, uint64_t off, uint64_t len)
{
    uint64_t i = off >> FL_MARKS_STRIPE_SHIFT, last = (off + len - 1) >> FL_MARKS_STRIPE_SHIFT, first = i;

    while (i <= last && fl_marks_write_one(m, i))
        i++;
    if (i > last)
        return len;
    return i == first ? 0 : (i << FL_MARKS_STRIPE_SHIFT) - off;
}

static inline void fl_marks_write_end(struct fl_marks *m, uint64_t off, uint64_t len)
{
    for (uint64_t i = off >> FL_MARKS_STRIPE_SHIFT; i <= (off + len - 1) >> FL_MARKS_STRIPE_SHIFT; i++)
        fl_marks_add(m, i, -FL_MARK_WRITER);
}

/* The stripe that fl_marks_write could not have: while it is wanted, no new reader gets in. False: so many
 * want it that one more is not counted. */
static inline bool fl_marks_want(struct fl_marks *m, uint64_t off)
{
    if (fl_likely((fl_marks_add(m, off >> FL_MARKS_STRIPE_SHIFT, FL_MARK_WANT) & FL_MARK_WANTS) <
                  FL_MARK_WANTS / 2))
        return true;
    fl_marks_add(m, off >> FL_MARKS_STRIPE_SHIFT, -FL_MARK_WANT);
    return false;
}

static inline void fl_marks_want_end(struct fl_marks *m, uint64_t off)
{
    fl_marks_add(m, off >> FL_MARKS_STRIPE_SHIFT, -FL_MARK_WANT);
}

#endif
