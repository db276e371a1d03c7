/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of blocks that come from memory one after the other: while one is copied, the next is fetched into
 * the second-level cache, a line for each line. A CPU asks for 10 to 16 lines at a time and no more, so all
 * of a block asked for in a row waits, and so does the copy behind it; this keeps as many on their way as
 * there can be.
 */
#ifndef FL_BASE_COPY_AHEAD_H
#define FL_BASE_COPY_AHEAD_H

#include <stdbool.h>
#include <stddef.h>

#define FL_COPY_AHEAD_MAX 4096u /* what follows in a block, CPUs fetch by themselves */

/* Like fl_copy_watched(). Of ahead, as many lines are fetched as are copied, FL_COPY_AHEAD_MAX bytes of
 * ahead_len at most. Any address will do, nothing faults. */
void *fl_copy_ahead(void *dst, const void *src, size_t len, const void *ahead, size_t ahead_len);

/* Its parts, for tests: which of them runs where, all in the same way. */
void fl_copy_ahead_256(void *dst, const void *src, size_t len, const void *ahead); /* len: whole lines */
void fl_copy_ahead_any(void *dst, const void *src, size_t len, const void *ahead);
bool fl_copy_ahead_256_works(void);

#endif
