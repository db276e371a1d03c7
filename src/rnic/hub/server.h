/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The hub's side of the abstract Unix socket: members come and go, ask for blocks and services, and get
 * packets through a ring each. It runs in the process that holds UDP port 4791, inside fl_port_poll().
 */
#ifndef FL_RNIC_HUB_SERVER_H
#define FL_RNIC_HUB_SERVER_H

#include <sys/uio.h>

#include "rnic/hub/estate.h"
#include "rnic/hub/proto.h"

struct fl_hub_server;

/*
 * name: of the abstract socket, without its leading zero. epoll_fd: where its descriptors go, with tag (below
 * 2^32) in the upper half of the data and a number of the server's own in the lower. want, udp_port and
 * address: of this process itself, which has a slot like any other. -EADDRINUSE: the name is taken.
 */
struct fl_hub_server_options {
    const char *name;
    const char *address;
    int epoll_fd;
    uint32_t tag;
    uint32_t want;
    uint16_t udp_port;                  /* of its own beside the hub's, or 0 */
    const struct fl_hub_shared *before; /* or NULL */
    uint64_t settle_ns; /* members of a hub before this one may take so long to say what they listen on */
    struct fl_hub_will *will;           /* of this process */
    struct fl_hub_estates *estates;     /* members that die go there */
};
int fl_hub_server_start(const struct fl_hub_server_options *options, struct fl_hub_server **server);
void fl_hub_server_stop(struct fl_hub_server *server);
void fl_hub_server_forget(struct fl_hub_server *server); /* closes the descriptors, and no more */

struct fl_hub_table *fl_hub_server_table(struct fl_hub_server *server);
uint32_t fl_hub_server_self(const struct fl_hub_server *server);

/* Another hub is stopped and may come back, with its connections: called while that is so, each second at
 * least. Nobody is told meanwhile that a communication ID is unknown. */
void fl_hub_server_wait_for_others(struct fl_hub_server *server, uint64_t now);

void fl_hub_server_event(struct fl_hub_server *server, uint32_t number);
/* Housekeeping, due at fl_hub_server_deadline() (UINT64_MAX: none). */
void fl_hub_server_tick(struct fl_hub_server *server, uint64_t now);
uint64_t fl_hub_server_deadline(const struct fl_hub_server *server);

/* A packet for another process. False: it has no ring, or a full one. */
bool fl_hub_server_push(struct fl_hub_server *server, uint32_t slot, const struct fl_hub_packet *meta,
                        const void *bytes, size_t len);

#endif
