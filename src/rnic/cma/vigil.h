/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections to processes of other hosts, which may die with nobody left to say so: when to ask whether they
 * are still there, and what to make of silence. No I/O; the owner sends, counts what came, and is told who is
 * gone.
 */
#ifndef FL_RNIC_CMA_VIGIL_H
#define FL_RNIC_CMA_VIGIL_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/list.h"

#define FL_VIGIL_NEVER UINT64_MAX

extern uint64_t fl_vigil_round_ns; /* how often one of a process is asked; tests change it */

struct fl_vigil_peer {
    struct fl_list link;
    struct fl_vigil_home *home; /* NULL: not watched */
    uint64_t nr_came;           /* packets, when it was last asked */
    bool asked;
};

struct fl_vigil_ops {
    /* Packets that ever came from it. */
    uint64_t (*nr_came)(const struct fl_vigil_peer *peer);
    /* Asks for an answer that changes nothing. False: it cannot, or data that waits for an answer does. */
    bool (*ask)(struct fl_vigil_peer *peer);
    /* Asks whoever has its place now whether he knows the connection, and ends it if not. */
    void (*ask_place)(struct fl_vigil_peer *peer);
    /* It is gone. It may be taken off meanwhile, and no other. */
    void (*gone)(struct fl_vigil_peer *peer);
};

struct fl_vigil {
    const struct fl_vigil_ops *ops;
    struct fl_list homes;
    uint64_t next_round, next_look;
};

void fl_vigil_init(struct fl_vigil *vigil, const struct fl_vigil_ops *ops);
/* place: which process of that host it is, as far as it can be told. 0, -ENOMEM. */
int fl_vigil_add(struct fl_vigil *vigil, struct fl_vigil_peer *peer, const struct in6_addr *host,
                 uint32_t place, uint64_t now);
void fl_vigil_del(struct fl_vigil_peer *peer); /* also of one that is not watched */
/* That host says that nobody has the port. True: it is one that matters. */
bool fl_vigil_refused(struct fl_vigil *vigil, const struct in6_addr *host, uint64_t now);
void fl_vigil_tick(struct fl_vigil *vigil, uint64_t now);
uint64_t fl_vigil_deadline(const struct fl_vigil *vigil);

#endif
