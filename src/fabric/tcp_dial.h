/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connecting to the first of several addresses that answers, without blocking: the next address is tried when
 * the one before failed or hasn't answered for a while, and goes on beside it (as RFC 8305 has it for IPv6
 * and IPv4).
 */
#ifndef FL_FABRIC_TCP_DIAL_H
#define FL_FABRIC_TCP_DIAL_H

#include <stdint.h>

#include <farlane/error.h>

#include "base/address.h"

#define FL_DIAL_MAX_ADDRS  8
#define FL_DIAL_STAGGER_MS 250

struct fl_dial {
    const struct fl_addr *addrs; /* the caller's */
    uint32_t nr_addrs, nr_tried;
    int fds[FL_DIAL_MAX_ADDRS]; /* by address; -1: not tried, or failed */
    uint64_t next_ns;           /* when the next address is due */
    struct fl_error err;        /* the first failure */
};

void fl_dial_start(struct fl_dial *dial, const struct fl_addr *addrs, uint32_t nr_addrs, uint64_t now_ns);
/* A connected, non-blocking socket; -EINPROGRESS: poll fds for writing, and call again then or at next_ns
 * (UINT64_MAX: no need); else the errno, and dial->err says more. Nothing else stays open when it ends. */
int fl_dial_step(struct fl_dial *dial, uint64_t now_ns);
void fl_dial_stop(struct fl_dial *dial);

#endif
