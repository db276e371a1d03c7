/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sockets of a port. One receives on UDP 4791, IPv4 and IPv6 together; packets leave by others, a few
 * source ports a family, so that the fabric spreads flows over its paths and any process can send. All that
 * are shared are unconnected: what ICMP says about one peer never becomes an error of a socket that others
 * need. A flow that most packets go by has a connected one beside that, with the same port.
 */
#ifndef FL_RNIC_PORT_UDP_H
#define FL_RNIC_PORT_UDP_H

#include "rnic/port.h"

#define FL_UDP_PACKET_MAX (FL_IB_HDRS_MAX + 4096 + 4 + FL_IB_ICRC_LEN) /* BTH to ICRC, with pad */

static inline bool fl_udp_is_ip4(const struct in6_addr *gid)
{
    return IN6_IS_ADDR_V4MAPPED(gid);
}

/* Bound to port with everything on that the receiver wants to know; or negative errno. */
int fl_udp_listen(uint16_t port);
/* The same beside the sockets of nr others of this user, who are stopped: all packets come here. */
int fl_udp_listen_beside(uint16_t port, int nr);
/* The same on any free port, told in *port. */
int fl_udp_listen_own(uint16_t *port);
#define FL_UDP_TTL 64

extern const struct in6_addr fl_udp_any_ip4;

/* For sending from that address (the scope is that of a link-local one), with a source port of its own in
 * *port. */
int fl_udp_source(const struct in6_addr *gid, uint32_t scope_id, uint8_t tos, uint16_t *port);

/* The same with the port of such a socket, which stays open. */
int fl_udp_source_beside(const struct in6_addr *gid, uint32_t scope_id, uint8_t tos, uint16_t port);
/* How the kernel counts the IPv4 identification of what a connected socket sends; a call that fails with
 * EAGAIN is not counted. */
struct fl_udp_count {
    uint16_t next;
    bool by_packet; /* a burst takes as many numbers as it has packets; else one */
};

struct fl_udp_datagram { /* one packet, cut out of what came */
    struct in6_addr src, dst;
    uint16_t sport;
    uint8_t tos, ttl;
    uint16_t index;       /* in the burst that it came in: farlane's senders count so */
    const uint8_t *bytes; /* BTH to ICRC */
    uint32_t len;
};

/* A GID as a socket's name: how long it is. */
socklen_t fl_udp_name(struct sockaddr_in6 *name, const struct in6_addr *gid, uint32_t scope_id,
                      uint16_t port);
int fl_udp_connect(int fd, const struct in6_addr *gid, uint32_t scope_id, uint16_t port);
/* twin.c: the same connected to the flow's destination. Negative errno; -EOPNOTSUPP: this kernel does not
 * tell how it counts, or counts in another way. */
int fl_udp_twin(const struct fl_port_flow *flow, uint8_t tos, uint16_t sport, uint16_t dport,
                struct fl_udp_count *count);

/* On that port too, beside the socket of fl_udp_listen(), connected to the flow that brought this packet.
 * What comes between the two steps, from anybody, lies in it as well, and so addresses are told at first. */
int fl_udp_listen_to(const struct fl_udp_datagram *flow, uint16_t port);
/* They need not be told any more. */
void fl_udp_listens_to(int fd, const struct fl_udp_datagram *flow);

/* ICRC of a packet (BTH to ICRC) as it would be with this identification (IPv4). */
uint32_t fl_udp_icrc(const struct in6_addr *src, const struct in6_addr *dst, uint16_t sport, uint16_t dport,
                     uint16_t id, const void *packet, uint32_t packet_len);
/* The same step by step: from the headers before the packet, with identification 0; with another one; then
 * BTH and rest as in wire/ib.h. */
uint32_t fl_udp_icrc_start(const struct in6_addr *src, const struct in6_addr *dst, uint16_t sport,
                           uint16_t dport, uint32_t packet_len);
uint32_t fl_udp_icrc_with_id(uint32_t start, const struct in6_addr *dst, uint16_t id);

/* Receiver */

#define FL_UDP_RX_BATCH 8

struct fl_udp_rx; /* buffers of one socket */

struct fl_udp_rx *fl_udp_rx_create(void);
void fl_udp_rx_destroy(struct fl_udp_rx *rx);
/* All that comes from now on is of this flow. Of packets that come alone, every fourth is then asked for its
 * mark of congestion, and all while there have been some: to ask costs a fifth of the call. */
void fl_udp_rx_know(struct fl_udp_rx *rx, const struct fl_udp_datagram *flow);
/* The next packet. False: none, or (*error) the socket is broken. It holds until the next call. */
bool fl_udp_rx_next(struct fl_udp_rx *rx, int fd, struct fl_udp_datagram *datagram, int *error,
                    struct fl_port_stats *stats);
/* The last system call brought less than was asked for, so it is no use to make another one just now. Once:
 * then it is. */
bool fl_udp_rx_rests(struct fl_udp_rx *rx);
/* Packets are left from the last system call. */
bool fl_udp_rx_has_more(const struct fl_udp_rx *rx);

/* What an ICRC takes that the packet before has in common with this one; zeroed at first. */
struct fl_udp_checker {
    struct fl_icrc_finder finder;
    struct in6_addr src, dst;
    uint16_t sport, dport;
    uint16_t first_id; /* IPv4 identification of the burst's first packet, most likely */
    uint32_t len;      /* 0: nothing is known */
    uint32_t start;    /* fl_udp_icrc_start() of the above */
};

/* Checks the ICRC and makes of it what the queue pairs take; packet holds as long as datagram does, and grh
 * (FL_ROCE_GRH_LEN bytes) where it points to. 0, -EBADMSG: ICRC, -EPROTO: headers. */
int fl_udp_packet(const struct fl_udp_datagram *datagram, uint16_t dport, struct fl_udp_checker *checker,
                  struct fl_port_packet *packet, uint8_t *grh);

/* Sender */

struct fl_udp_tx;

/* epoll_fd gets sockets that have no room, for as long as they have none. */
struct fl_udp_tx *fl_udp_tx_create(uint16_t dport, int epoll_fd, uint64_t epoll_data);
void fl_udp_tx_destroy(struct fl_udp_tx *tx);
void fl_udp_tx_forget(struct fl_udp_tx *tx); /* closes the sockets, and no more */
bool fl_udp_tx_send(struct fl_udp_tx *tx, const struct fl_port_flow *flow, const struct fl_roce_tx *packet,
                    struct fl_port_stats *stats);
void fl_udp_tx_flush(struct fl_udp_tx *tx, struct fl_port_stats *stats);

#endif
