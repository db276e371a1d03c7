/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of struct fl_udp_tx, for the files that make it up. */
#ifndef FL_RNIC_PORT_TX_H
#define FL_RNIC_PORT_TX_H

#include "rnic/port/udp.h"

#define PORTS        8     /* source ports that flows spread over */
#define SOURCES      64    /* sockets: of each source address, TOS and port */
#define QUEUE        8     /* a power of two */
#define BUF_LEN      65000 /* with all headers below 65535 */
#define SEGMENTS_MAX 64    /* UDP_MAX_SEGMENTS of older kernels */
#define TWINS        8
#define TWIN_VOTES   256 /* packets by which a flow is ahead of all others when it gets a twin */
#define TWINS_LOST   16  /* then there are no more */
#define ECT0         2
#define ECN_MASK     3

/* A socket that is bound to the address and has the TOS needs no control data for them, which costs as much
 * as the packet. */
struct source {
    int fd;
    uint16_t port;
    uint8_t slot; /* of PORTS */
    uint8_t tos;
    struct in6_addr sgid;
    uint32_t scope_id;
    bool bound; /* else it takes the address from control data: all others were in use, or it could not be
                   bound */
    bool waits; /* in epoll */
    /* Of a twin (twin.c), which has the fields above in common with the source that it stands beside */
    struct source *plain; /* NULL: it is none */
    struct in6_addr dgid;
    uint16_t dport;
    struct fl_udp_count count; /* of the next entry that is made; all leave in order */
    uint64_t used_at;
};

struct entry {
    struct fl_port_flow flow;
    struct source *source;
    uint8_t tos;
    bool closed; /* nothing more is added: its last segment is shorter than the others */
    bool apart;  /* leaves packet by packet */
    uint16_t id; /* IPv4 identification of the first segment; the kernel counts up from there */
    uint32_t len, segment_len, nr_segments;
    uint32_t icrc; /* of a segment's headers before the packet, with identification 0 */
    uint8_t *bytes;
};

struct fl_udp_tx {
    uint16_t dport;
    int epoll_fd;
    uint64_t epoll_data;
    bool no_gso; /* this kernel or path refused it */
    uint32_t head, tail;
    struct source sources[SOURCES];
    uint32_t nr_sources;
    struct source *last;
    struct source any[2]; /* IPv4, IPv6: for what comes after SOURCES */
    struct source twins[TWINS], *last_twin;
    uint64_t twin_clock;
    uint32_t nr_twins_lost;
    struct {
        struct source *source;
        struct in6_addr dgid;
        uint16_t dport;
        uint32_t votes;
    } candidate; /* for a twin */
    struct entry queue[QUEUE];
    uint8_t bytes[QUEUE][BUF_LEN];
};

static inline uint16_t fl_udp_tx_dport(const struct fl_udp_tx *tx, const struct fl_port_flow *flow)
{
    return flow->dport ? flow->dport : tx->dport;
}

/* tx.c: the ICRCs of an entry's packets, anew */
void fl_udp_tx_seal(const struct fl_udp_tx *tx, const struct entry *e);

/* source.c. The socket for a flow; NULL: there is no descriptor for one. */
struct source *fl_udp_tx_source(struct fl_udp_tx *tx, const struct fl_port_flow *flow, uint8_t tos);
/* Its twin for that flow, if it has one, or else itself. */
struct source *fl_udp_tx_twin(struct fl_udp_tx *tx, struct source *s, const struct fl_port_flow *flow);
/* What waits for it goes by the source beside it. */
void fl_udp_tx_end_twin(struct fl_udp_tx *tx, struct source *twin);
/* Whether epoll tells of room in it. */
void fl_udp_tx_watch(struct fl_udp_tx *tx, struct source *s, bool on);

#endif
