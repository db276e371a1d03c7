/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared memory between the software RNICs of one user's processes on a host (docs/design/rnic_shm.md): links
 * to peers, packets by them, and waiting for those who use what is being closed. One thread at a time (the
 * RNIC's lock), but for fl_shm_wait_fd(), on which any thread may sleep.
 */
#ifndef FL_RNIC_SHM_SHM_H
#define FL_RNIC_SHM_SHM_H

#include "rnic/port.h"
#include "rnic/shm/direct.h"
#include "rnic/shm/message.h"

struct fl_shm;

struct fl_shm_options {
    const char *address; /* abstract socket on which peers find this process */
    const struct fl_key_table *keys;
};

int fl_shm_open(const struct fl_shm_options *options, struct fl_shm **shm);
void fl_shm_close(struct fl_shm *shm); /* no queue pair uses a link any more */
/* In the child of a fork: closes descriptors, so that peers see when the parent ends. */
void fl_shm_forget(struct fl_shm *shm);

/* A link to a process, made if there is none; it may be up only later. Counted: put it back. NULL and *reason
 * (static text). */
struct fl_shm_link *fl_shm_get(struct fl_shm *shm, const struct fl_port_peer *peer, const char **reason);
void fl_shm_put(struct fl_shm *shm, struct fl_shm_link *link);

/* What peers are to know of a queue pair from now on. */
void fl_shm_show(struct fl_shm *shm, const struct fl_shm_qp *qp);
/* Where the grants of a queue pair are told that was shown before. NULL: too many, peers do not get to know
 * it. */
struct fl_shm_grant *fl_shm_grant_at(struct fl_shm *shm, uint32_t qpn);
/* What was closed before (keys, queue pairs) is in nobody's use any more. */
void fl_shm_quiesce(struct fl_shm *shm);

/* A packet to the peer. Before it, room for one must be there. True: it is for this process itself, which
 * sleeps: wake it. */
bool fl_shm_has_room(struct fl_shm_link *link);
bool fl_shm_send(struct fl_shm_link *link, const struct fl_port_flow *flow, const struct fl_roce_tx *tx);

/* Messages that were begun leave. As above. */
bool fl_shm_commit(struct fl_shm_link *link);

struct fl_shm_delivery {
    void (*packet)(void *arg, const struct fl_port_packet *packet);
    /* len bytes of data, which the peer may change at any time: look at each once */
    void (*message)(void *arg, struct fl_shm_link *link, const struct fl_shm_message *message,
                    const void *data, uint32_t len);
    void *arg;
};

/* One turn: peers that come and go, packets and messages. Returns how many were delivered. */
int fl_shm_progress(struct fl_shm *shm, const struct fl_shm_delivery *to);
/* To be called before each sleep; 0: there is something already. */
uint64_t fl_shm_deadline(struct fl_shm *shm);
int fl_shm_wait_fd(const struct fl_shm *shm);

#endif
