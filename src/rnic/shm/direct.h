/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READ, WRITE and atomics done by the initiator alone, in the peer's memory: mapped, where that is memory of
 * the peer that processes share, else by process_vm_readv() and process_vm_writev(). No thread of the peer
 * takes part. Before the copy the checks are made that the peer would make, with its own tables; while it
 * goes on a word in shared memory says so, and a peer that closes a key or queue pair waits for it.
 */
#ifndef FL_RNIC_SHM_DIRECT_H
#define FL_RNIC_SHM_DIRECT_H

#include <sys/uio.h>

#include "rnic/shm/link.h"

enum fl_shm_op { FL_SHM_READ, FL_SHM_WRITE, FL_SHM_SWAP, FL_SHM_ADD };

struct fl_shm_flow;

/* What a key of the peer's was found to open, to one queue pair. It holds from begin to end: whoever closes
 * something waits for that. Zeroed at the beginning. */
struct fl_shm_open {
    uint8_t *at; /* NULL: nothing yet */
    enum fl_shm_op op;
    uint32_t rkey;
    uint64_t addr, len;
    uint64_t ptr; /* where it is in the peer's process */
};

/* Why a request was left to the peer's engine, for people. One bit each. */
enum fl_shm_why {
    FL_SHM_NOT_OPEN = 1, /* by its key, rights or state, as seen from here: perhaps the peer refuses it */
    FL_SHM_BEHIND = 2,   /* messages before it may not lie in their receives yet */
    FL_SHM_ATOMIC = 4,   /* an atomic where nothing is mapped: the kernel can copy, but not that */
    FL_SHM_ODD = 8,      /* an atomic across words, or whose result goes into several pieces */
    FL_SHM_FAR = 16,     /* nothing is mapped, and the kernel does not copy between the two processes */
    FL_SHM_HOLE = 32,    /* the copy met memory that is not there, at one of the two ends */
};

struct fl_shm_request {
    enum fl_shm_op op;
    uint32_t qpn, dest_qpn; /* ours, the peer's */
    uint32_t rkey;
    uint64_t addr, len;
    const struct iovec *iov; /* ours, of that length */
    int nr_iov;
    uint64_t compare, operand; /* SWAP: what must be there, and what to store; ADD: operand */
    /* Messages that were sent before it may not lie in their receives yet (shm/message.h): what it reads, or
     * writes among those, goes behind them by packets. NULL: there are none. */
    struct fl_shm_flow *behind;
    struct fl_key_memo *memo; /* of the peer's keys; NULL: none */
    struct fl_shm_open *open; /* for the requests of one queue pair between begin and end; NULL: not kept */
    struct iovec ahead;       /* WRITE: what will be copied next, fetched meanwhile; of length 0: nothing */
    enum fl_shm_why why;      /* set with FL_SHM_NOT */
};

enum fl_shm_how {
    FL_SHM_NOT,    /* not done: the peer itself has to see to it, or to refuse it */
    FL_SHM_MAPPED, /* done by one copy in mapped memory */
    FL_SHM_VM,     /* done by the kernel */
};

/* Between begin and end: one request after the other. The peer that closes something waits for the end, so
 * not for long. now: of a moment ago. begin says whether the peer is there; if not, nothing was begun. */
bool fl_shm_direct_begin(struct fl_shm_link *link, uint64_t now);
enum fl_shm_how fl_shm_direct(struct fl_shm_link *link, struct fl_shm_request *request);
void fl_shm_direct_end(struct fl_shm_link *link);

/* What was closed before is not in use by this peer any more when it returns. */
void fl_shm_link_quiesce(struct fl_shm_link *link);

#endif
