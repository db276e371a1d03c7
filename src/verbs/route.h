/* SPDX-License-Identifier: Apache-2.0 */
/* By which interface and from which address the kernel would send to a peer: what its routes say. */
#ifndef FL_VERBS_ROUTE_H
#define FL_VERBS_ROUTE_H

#include <net/if.h>

#include "base/address.h"

enum fl_route_kind {
    FL_ROUTE_DIRECT,  /* the peer is on the interface's own network */
    FL_ROUTE_GATEWAY, /* a router passes it on */
    FL_ROUTE_LOCAL,   /* the peer's address is this host's own */
};

struct fl_route {
    enum fl_route_kind kind;
    uint32_t ifindex;
    char ifname[IF_NAMESIZE]; /* LOCAL: of the loopback, whichever interface has the address */
    struct fl_addr source;    /* port 0; len 0: the kernel names none */
    struct fl_addr gateway;   /* GATEWAY */
};

/*
 * Asks the kernel (rtnetlink, no privileges); sends nothing to the peer. from: an address of this host to
 * send from, or NULL. 0; -ENETUNREACH, -EHOSTUNREACH, -EACCES: there is no route, or one that forbids it;
 * with text. Any thread.
 */
int fl_route_find(const struct fl_addr *to, const struct fl_addr *from, struct fl_route *route,
                  struct fl_error *err);

/*
 * The kernel's answer to RTM_GETROUTE: one netlink message or several, of which the first that is a route or
 * an error counts. -EPROTO: it is neither, or lengths in it lie. ifname stays empty.
 */
int fl_route_parse(const void *answer, size_t len, struct fl_route *route, struct fl_error *err);

#endif
