/* SPDX-License-Identifier: Apache-2.0 */
/* A member's side of its connection to the hub. */
#ifndef FL_RNIC_HUB_LINK_H
#define FL_RNIC_HUB_LINK_H

#include "rnic/hub/proto.h"
#include "rnic/hub/ring.h"
#include "rnic/hub/will.h"

struct fl_hub_link {
    int fd;
    bool welcome;
    uint32_t slot;
    uint32_t seq;
    uint16_t udp_port;                  /* of this process's own, for HELLO; 0: none */
    const struct fl_hub_shared *shared; /* from WELCOME on, and after the hub is gone until the next one */
    struct fl_hub_ring ring;
    struct fl_hub_will *will; /* this process's; NULL: it has none */
    const struct fl_hub_will_shared *hub_will; /* kept as `shared` is; NULL: not for us to see */
    uint64_t hub_service;                      /* what it says as long as the hub has not gone on purpose */
};

void fl_hub_link_init(struct fl_hub_link *link, struct fl_hub_will *will);
void fl_hub_link_fini(struct fl_hub_link *link);

/* Says HELLO. 0 or negative errno: -ECONNREFUSED: there is no hub. */
int fl_hub_link_connect(struct fl_hub_link *link, const char *name, uint32_t want, const char *address);
void fl_hub_link_close(struct fl_hub_link *link); /* keeps `shared` */

/* Sends without waiting; the link gives the number. */
int fl_hub_link_send(struct fl_hub_link *link, struct fl_hub_msg *msg);
/* One message: 1, 0: none, negative: the link is broken. WELCOME is taken in here; its status may say no. */
int fl_hub_link_recv(struct fl_hub_link *link, struct fl_hub_msg *msg);
#endif
