/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes of one user on one host: what each has mapped of the other, a ring of packets each way, and
 * the Unix socket that woke them up and tells when the other is gone.
 */
#ifndef FL_RNIC_SHM_LINK_H
#define FL_RNIC_SHM_LINK_H

#include "base/list.h"
#include "mem/shared.h"
#include "rnic/hub/proto.h"
#include "rnic/hub/ring.h"
#include "rnic/key_table.h"
#include "rnic/shm/segment.h"

enum fl_shm_msg_type {
    FL_SHM_HELLO = 100, /* address; descriptors: segment, keys, ring to the listener, ring from it */
    FL_SHM_WELCOME,     /* descriptors: segment, keys */
    FL_SHM_REGION,      /* values: id, base, length; descriptor: the memory */
    FL_SHM_REGIONS,     /* values: ids of all that the sender still has */
    FL_SHM_WAKE,        /* the ring is no longer empty */
};

struct fl_shm_region {
    uint32_t id;        /* the owner's; 0: none */
    uint64_t base, len; /* in the owner's process */
    uint8_t *at;        /* in ours */
};

struct fl_shm_link {
    struct fl_list link;
    char address[FL_HUB_ADDRESS_LEN]; /* the peer's: its name for as long as it lives */
    int fd;                           /* -1: to ourselves */
    int pid;         /* 0: in another namespace of processes, out of the kernel's reach for us */
    uint32_t number; /* for epoll */
    bool up, dead;
    bool broken;       /* dead since what came by it makes no sense */
    bool left;         /* the peer has gone: what it left in its ring is still taken, nothing is sent */
    uint32_t nr_users; /* queue pairs */
    struct fl_hub_ring out, in;
    const struct fl_shm_file *peer;
    const struct fl_key_file *keys;
    uint32_t newest_region, nr_freed;            /* of ours, as the peer was told */
    struct fl_shm_region regions[FL_SHARED_MAX]; /* the peer's */
    uint64_t alive_at;                           /* when the socket was last seen open */
    int vm_error; /* process_vm_readv/writev is not permitted: positive errno */
};

/* What every link shows of this process */
struct fl_shm_self {
    char address[FL_HUB_ADDRESS_LEN];
    int segment_fd, keys_fd; /* for reading only */
    const struct fl_shm_file *segment;
    const struct fl_key_file *keys;
};

/* To a peer that listens on address; it becomes up when WELCOME has come. -EPERM: another user's. */
int fl_shm_link_connect(const struct fl_shm_self *self, const char *address, struct fl_shm_link **link);
/* From a peer: fd is the link's in any case. Up with its HELLO. */
int fl_shm_link_accept(int fd, struct fl_shm_link **link);
/* To ourselves: up at once */
int fl_shm_link_loop(const struct fl_shm_self *self, struct fl_shm_link **link);
void fl_shm_link_destroy(struct fl_shm_link *link);

/* Messages that have come. False: the peer is gone, or talks nonsense. */
bool fl_shm_link_read(struct fl_shm_link *link, const struct fl_shm_self *self);
/* Tells the peer of memory that is new, or gone. */
void fl_shm_link_tell_regions(struct fl_shm_link *link);
/* Both have mapped what the other shows. */
static inline bool fl_shm_link_is_open(const struct fl_shm_link *link)
{
    return link->up && !link->left;
}

/* Of one that is dead or left: why, for people; static text */
const char *fl_shm_link_end(const struct fl_shm_link *link);

/* Is the peer there? Asks the kernel when that is longer ago than a moment: numbers of processes come again.
 */
bool fl_shm_link_is_alive(struct fl_shm_link *link, uint64_t now);

#endif
