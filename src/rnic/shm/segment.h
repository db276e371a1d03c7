/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process shows to peers on its host: the state of its queue pairs, in memory that they map
 * read-only. With the key table, which lies in a file of its own, it is all that a peer needs to judge by
 * itself whether a READ or WRITE may be done, and whether a SEND will find its receive.
 */
#ifndef FL_RNIC_SHM_SEGMENT_H
#define FL_RNIC_SHM_SEGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "rnic/hub/table.h"

#define FL_SHM_VERSION 3u

struct fl_shm_qp {
    uint32_t seq;   /* odd while it is being changed */
    uint32_t qpn;   /* 0: none */
    uint32_t takes; /* requests: its state is RTR, RTS, SQD or SQE */
    uint32_t dest_qpn;
    uint32_t access; /* IBV_ACCESS_REMOTE_* */
    uint32_t pd;
    uint32_t epoch; /* another one each time that it is connected; 0: it takes no messages (shm/message.h) */
    uint32_t psn;   /* of the first request that it expects */
};
_Static_assert(sizeof(struct fl_shm_qp) == 32, "two in a cache line");

/* What changes with each receive: not beside the state, which is looked at for each request. The owner writes
 * `granted` last, so that whoever has seen it sees the rest. */
struct fl_shm_grant {
    uint32_t granted; /* messages that may be sent since it was connected, in all */
    uint32_t taken;   /* messages that lie in their receives */
    uint32_t max_len; /* of a message: the shortest receive so far */
    uint32_t rsvd12;
    uint64_t lo, hi; /* all receives so far lie between these addresses of the owner's */
    uint8_t rsvd32[32];
};
_Static_assert(sizeof(struct fl_shm_grant) == 64, "a cache line");

struct fl_shm_file {
    uint32_t version;
    uint32_t nr_blocks;
    uint16_t blocks[FL_HUB_BLOCKS]; /* of queue pair numbers: index into qps, plus 1; 0: no queue pair yet */
    struct fl_shm_qp qps[FL_HUB_SLOT_BLOCKS << FL_HUB_BLOCK_BITS]; /* pages never used cost nothing */
    struct fl_shm_grant grants[FL_HUB_SLOT_BLOCKS << FL_HUB_BLOCK_BITS] __attribute__((aligned(64)));
};

/* A sealed memfd, mapped for its owner. 0 or negative errno. */
int fl_shm_file_create(struct fl_shm_file **file, int *fd);
/* Of a peer: read-only. -EPROTO: not sealed, of another size, or another version. */
int fl_shm_file_map(int fd, const struct fl_shm_file **file);
void fl_shm_file_unmap(const struct fl_shm_file *file);

/* Owner. False: there are too many blocks, peers do not get to know it. seq is not looked at. */
bool fl_shm_publish(struct fl_shm_file *file, const struct fl_shm_qp *qp);
/* Anybody. False: none, or it changes just now. */
bool fl_shm_find(const struct fl_shm_file *file, uint32_t qpn, struct fl_shm_qp *qp);

/* The same place for as long as the file is mapped. NULL: the queue pair was never published. */
struct fl_shm_grant *fl_shm_grant_of(const struct fl_shm_file *file, uint32_t qpn);

/* len bytes of a memfd that can never shrink, or NULL */
void *fl_shm_map_sealed(int fd, uint64_t len, int prot);
/* The same file for reading only, or negative errno */
int fl_shm_reopen_read_only(int fd);

#endif
