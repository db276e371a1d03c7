/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages: SENDs that are complete for the sender once they are written into the ring. The receiver has said
 * how many it has receives for (struct fl_shm_grant), how long they may be and that their memory opens, so
 * that nothing is left for an answer to tell; the ring keeps their order among themselves and with packets.
 */
#ifndef FL_RNIC_SHM_MESSAGE_H
#define FL_RNIC_SHM_MESSAGE_H

#include "rnic/shm/link.h"

#define FL_SHM_MESSAGE_MAX 32768u /* bytes; longer SENDs go by packets */

enum fl_shm_message_flag { FL_SHM_SOLICITED = 1, FL_SHM_IMM = 2 };

/* Before the data of each in the ring */
struct fl_shm_message {
    uint32_t dest_qpn, src_qpn;
    uint32_t epoch; /* the receiver's (struct fl_shm_qp): what is for its queue pair's life before is thrown
                       away */
    uint32_t flags;
    uint32_t imm; /* in network byte order */
};
_Static_assert(sizeof(struct fl_shm_message) == 20, "on a multiple of 8 behind the record's length");

/* What one end knows of a connection's messages. Zeroed when it is connected. */
struct fl_shm_flow {
    /* to the peer */
    bool open; /* its epoch is known */
    uint32_t peer_epoch;
    uint32_t sent, granted, taken; /* granted, taken: as last seen */
    /* Of all receives that were granted: looked at with it, and not for each message, since the peer writes
     * that cache line for each. */
    uint32_t max_len;
    uint64_t lo, hi;
    const struct fl_shm_grant *peer;
    /* from the peer */
    uint32_t epoch; /* 0: none are taken */
    uint32_t told, nr_taken;
    uint32_t link; /* number of one that they came by; UINT32_MAX: of none yet */
    bool closed;   /* there is a receive that may not fit: nothing is granted from it on */
    bool revoked;  /* nor is what was granted to be used */
    struct fl_shm_grant *own;
};

/* Room for a message of len bytes to the flow's peer, its head filled in but for flags and imm; NULL: none is
 * to be sent now. It leaves with fl_hub_ring_commit(). */
struct fl_shm_message *fl_shm_message_begin(struct fl_shm_link *link, struct fl_shm_flow *flow, uint32_t qpn,
                                            uint32_t dest_qpn, uint32_t psn, uint32_t len);
/* It does not leave after all: `at` is what link->out.at was before it was begun, and it is the last. */
void fl_shm_message_cancel(struct fl_shm_link *link, struct fl_shm_flow *flow, uint64_t at);
/* Are all that were sent in their receives? */
bool fl_shm_message_all_taken(struct fl_shm_flow *flow);

#endif
