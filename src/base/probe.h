/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is memory that a caller named there at all? The kernel is asked, so that the answer is an answer and not a
 * signal; nothing in it changes. A system call for each page: for what went wrong, not for each I/O.
 */
#ifndef FL_BASE_PROBE_H
#define FL_BASE_PROBE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

/* All of len bytes from byte skip of iov on can be read; write: and written to. */
bool fl_probe_iov(const struct iovec *iov, uint32_t nr, size_t skip, size_t len, bool write);

#endif
