/* SPDX-License-Identifier: Apache-2.0 */
/* Which way the bytes of a connected queue pair go: not a forecast as in choose.h, but what is. */
#ifndef FL_VERBS_TAKEN_H
#define FL_VERBS_TAKEN_H

#include "verbs/choose.h"
#include "verbs/verbs.h"

struct fl_taken {
    enum fl_path path;
    char device[FL_RDMA_NAME_LEN];
    bool settling;        /* shared memory is on its way: look again */
    uint32_t qpn;         /* of the software RNIC; 0: hardware, or none */
    int peer_pid;         /* where the peer is a process of this host; 0: it is not, or not known */
    char how[64];         /* "mapped", "process_vm", "engine", "go-back-N", ...; "": nothing went yet */
    char why[FL_WHY_LEN]; /* what keeps it from being better; "": nothing */
};

/* qp is connected, and not destroyed meanwhile. Any thread. */
void fl_taken_by(const struct fl_verbs *verbs, struct ibv_qp *qp, struct fl_taken *taken);
/* Looks again; a queue pair that is gone leaves what there was. Any thread. */
void fl_taken_again(struct fl_taken *taken);

#endif
