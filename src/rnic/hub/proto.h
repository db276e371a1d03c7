/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages between a process and the hub on an abstract Unix socket (SOCK_SEQPACKET), one struct a message.
 * Both run on one host, but perhaps in different versions and for different users: a message of another size
 * or type ends the connection, and every number in it is checked.
 */
#ifndef FL_RNIC_HUB_PROTO_H
#define FL_RNIC_HUB_PROTO_H

#include <stdint.h>

#include <netinet/in.h>

#include "rnic/hub/table.h"

#define FL_HUB_MAGIC 0x666c6832u /* "flh2": changes when a message, or the ring, changes */
#define FL_HUB_BATCH 64u

enum fl_hub_type {
    /* to the hub */
    FL_HUB_HELLO = 1, /* slot: the one it had, or 0; address; udp_port: its own, or 0. With it may come a
                         descriptor of the will, and values[0] is what that is bound to (will.h) */
    FL_HUB_GET,       /* one more block */
    FL_HUB_CLAIM,     /* nr values: blocks that it had */
    FL_HUB_LISTEN,    /* nr values: service IDs; is_new: no hub was told of them before; status of the first that
                         failed, -EAGAIN: ask again, members of the hub before may have it */
    FL_HUB_UNLISTEN,
    /* from the hub */
    FL_HUB_WELCOME, /* slot; with it come descriptors of the shared table and of the ring, and, to members of
                       the hub's user, of the hub's will and values[0], as above */
    FL_HUB_REPLY,   /* to GET (value: block), CLAIM (bit i of values[0]: i is yours), LISTEN */
    FL_HUB_WAKE,    /* the ring is no longer empty */
};

struct fl_hub_msg {
    uint32_t magic;
    uint16_t type;
    uint16_t nr;
    uint32_t seq; /* of the request, in its reply */
    int32_t status;
    uint32_t slot;
    uint32_t is_new; /* 0 from older versions */
    uint64_t values[FL_HUB_BATCH];
    char address[FL_HUB_ADDRESS_LEN];
    uint16_t udp_port;
    uint16_t rsvd2;
};

_Static_assert(sizeof(struct fl_hub_msg) == 640, "versions that talk to each other");

/* Before each packet in a ring. What the receiver checks: ICRC. */
struct fl_hub_packet {
    struct in6_addr src, dst; /* IPv4 as ::ffff:a.b.c.d */
    uint16_t udp_sport;
    uint8_t tos, ttl;
};

#define FL_HUB_PACKET_MAX (64 + 4096) /* BTH to ICRC */

/*
 * What the hub makes of one message of a member that has a slot: pure, for the fuzzer. True and *reply, when
 * there is one; *broken: the message ends the connection.
 */
bool fl_hub_handle(struct fl_hub_table *table, uint32_t slot, const struct fl_hub_msg *msg, size_t len,
                   struct fl_hub_msg *reply, bool *broken);
/* A HELLO as it should be? */
bool fl_hub_hello_ok(const struct fl_hub_msg *msg, size_t len);

#endif
