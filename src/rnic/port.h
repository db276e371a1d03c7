/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What carries RoCE v2 packets for the software RNIC of one process: UDP port 4791 and the hub (udp_port.c,
 * hub/). The queue pairs above know packets and flows; sockets, ICRC, GSO and GRO, and who else on this host
 * lives on the same IP addresses, are known here.
 *
 * One thread at a time (the RNIC's lock), except fl_port_wait_fd(), which any thread may sleep on. Nothing
 * here calls back but the deliver() of fl_port_poll(). References: RoCE v2 annex A17 (UDP, ICRC), IBA 9.11.
 */
#ifndef FL_RNIC_PORT_H
#define FL_RNIC_PORT_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <farlane/error.h>

#include "rnic/hub/will.h"
#include "rnic/roce/roce.h"
#include "wire/ib_cm.h"

struct fl_port;

struct fl_port_options {
    uint16_t udp_port;    /* 0: 4791. Others are for tests: a hub serves one port number */
    const char *hub_path; /* NULL: the one of this network namespace; else an abstract name, for tests */
    bool no_hub;          /* fail with -EADDRINUSE instead of joining a hub */
};

/* Where a packet goes: addresses are GIDs, IPv4 as ::ffff:a.b.c.d. Made once for a connection or address
 * handle. */
struct fl_port_flow {
    struct in6_addr sgid, dgid;
    uint32_t scope_id; /* of link-local addresses: interface index */
    uint16_t dport;    /* UDP port of the peer's process (fl_port_find_peer()); 0: that of RoCE */
    uint16_t entropy;  /* chooses the source port: one flow keeps its order on the wire */
    uint8_t tos;       /* DSCP and ECN; ECT(0) is set by the port where the flow may be marked */
    uint8_t hop_limit; /* 0: 64 */
};

/* A packet that came: its ICRC is right. It holds until deliver() returns. */
struct fl_port_packet {
    struct in6_addr sgid, dgid; /* who sent it, to which of our addresses */
    struct fl_ib_packet packet; /* views of the bytes */
    struct fl_roce_meta meta;   /* grh is set for datagram packets (UD, CNP excepted) */
    uint16_t udp_sport;
};

struct fl_port_stats {
    uint64_t nr_rx, nr_tx, rx_len, tx_len;
    uint64_t nr_rx_calls, nr_tx_calls; /* system calls: packets a call tell whether GRO and GSO work */
    uint64_t nr_bad_icrc, nr_bad_packet, nr_unknown_qpn;
    uint64_t nr_tx_dropped; /* the socket had no room for a while */
    uint64_t nr_from_hub, nr_past_hub, nr_to_others, nr_others_dropped;
    uint64_t nr_by_lane;    /* by the socket that is connected to one flow */
    uint64_t nr_last_words; /* DREQs for processes that died */
    bool is_hub;
};

/* Joins or becomes the hub. 0 or negative errno with text. */
int fl_port_open(const struct fl_port_options *options, struct fl_port **port, struct fl_error *err);
void fl_port_close(struct fl_port *port);
/* In the child of a fork: closes the descriptors, so that the UDP port is free when the parent ends. Nothing
 * else may be called after it. */
void fl_port_forget(struct fl_port *port);

/*
 * Queue pair numbers are the host's: the hub gives each process blocks of them, so that it can tell whose
 * packet one is. A number that was given back is not given out again soon. 0, -ENOSPC, or -EAGAIN: the hub has not
 * answered yet, so ask again in a moment, but without a lock that others need.
 */
int fl_port_qpn_get(struct fl_port *port, uint32_t *qpn);
void fl_port_qpn_put(struct fl_port *port, uint32_t qpn);

/*
 * Packets to QP1 go by what they say: a REQ or SIDR_REQ to the process that listens on its service ID, others
 * to the process whose communication ID they name (the upper bits of each communication ID are the process's
 * prefix). -EADDRINUSE: another process listens. -EINPROGRESS: the hub was asked and has not answered, -EAGAIN: there is no
 * hub just now, or one that does not know yet whether another process does; as above.
 */
int fl_port_listen(struct fl_port *port, uint64_t service_id);
/* The same for who can do without; to be taken back by fl_port_unlisten() in any case. */
void fl_port_listen_later(struct fl_port *port, uint64_t service_id);
void fl_port_unlisten(struct fl_port *port, uint64_t service_id);
uint32_t fl_port_comm_id_prefix(const struct fl_port *port, uint32_t *mask); /* id & mask == prefix */

/*
 * Sends one packet; its ICRC is computed here. The bytes are copied or sent before it returns, so that tx
 * need not hold. Packets wait for fl_port_flush(), which puts them on the wire in as few calls as it can, or
 * until there are many. false: no room now; nothing was taken, try again after fl_port_poll(), for which
 * fl_port_wait_fd() becomes readable when there is room again.
 */
bool fl_port_send(struct fl_port *port, const struct fl_port_flow *flow, const struct fl_roce_tx *tx);
void fl_port_flush(struct fl_port *port);

/* A message for QP1 as a packet to send (IBA 13.4); mad must hold as long as tx. */
static inline void fl_port_mad(struct fl_roce_tx *tx, uint32_t psn, const struct fl_cm_mad *mad)
{
    struct fl_bth *bth = (struct fl_bth *)tx->hdr;
    struct fl_deth *deth = (struct fl_deth *)(tx->hdr + sizeof(*bth));
    const uint32_t len = sizeof(*bth) + sizeof(*deth);
    *tx = (struct fl_roce_tx){.nr_iov = 2, .len = len + FL_MAD_LEN};
    fl_bth_set(bth, FL_IB_OPCODE(FL_IB_UD, FL_IB_SEND_ONLY), FL_IB_PKEY_DEFAULT, FL_IB_QP1, psn & 0xffffff,
               0);
    *deth = (struct fl_deth){.qkey = be32_of(FL_IB_QP1_QKEY), .src_qpn = be24_of(FL_IB_QP1)};
    tx->iov[0] = (struct iovec){tx->hdr, len};
    tx->iov[1] = (struct iovec){(void *)(uintptr_t)mad, FL_MAD_LEN};
}

/*
 * A connection whose peer is to hear of it should this process be killed: the hub then sends a DREQ in its
 * name, or, if this process is the hub, the next one does if it is this user's. A number for
 * fl_port_parted(), or -ENOSPC: there are too many. Negative numbers may be given back, too.
 */
int fl_port_connected(struct fl_port *port, const struct fl_hub_bond *bond);
void fl_port_parted(struct fl_port *port, int number);

/*
 * Sends one packet of headers alone by a socket that hears what ICMP says of it, at once. Where nobody has the RoCE port,
 * fl_port_refused() gives that address some time after; to be asked after fl_port_poll(). Anybody can forge it.
 */
void fl_port_knock(struct fl_port *port, const struct fl_port_flow *flow, const struct fl_roce_tx *tx);
bool fl_port_refused(struct fl_port *port, struct in6_addr *gid);

/* Takes what has come, at most max packets, without waiting. Returns the number delivered. */
int fl_port_poll(struct fl_port *port, int max,
                 void (*deliver)(void *arg, const struct fl_port_packet *packet), void *arg);
/* Readable when fl_port_poll() has something to do (packets, hub messages, a hub that is gone). An epoll
 * descriptor. */
int fl_port_wait_fd(const struct fl_port *port);
/* Next time that fl_port_poll() wants to be called although nothing came (FL_ROCE_NEVER: none; 0: at once).
 * To be called before each sleep on fl_port_wait_fd(): from then on what comes makes it readable. */
uint64_t fl_port_deadline(struct fl_port *port);

/*
 * Which process on this host has a queue pair: for shared memory. 0 and *peer, -ENOENT: none here, -EAGAIN:
 * no hub just now. The answer is read in the hub's own table, which every process maps: no round trip. The
 * hub may be another user's, so what counts is checked again with the peer itself (SO_PEERCRED).
 */
struct fl_port_peer {
    int pid;
    uint32_t uid;
    uint16_t udp_port; /* where it takes packets of this host past the hub; 0: it does not */
    uint32_t slot;     /* this process's number at the hub, unique while it lives */
    char address[104]; /* abstract Unix socket on which the process takes shared-memory connections */
};
int fl_port_find_peer(struct fl_port *port, uint32_t qpn, struct fl_port_peer *peer);
/*
 * Does somebody have this queue pair number? 0: a process that is there, or one that a new hub still expects
 * back. -ENOENT: nobody, -EAGAIN: no hub just now.
 */
int fl_port_find_owner(struct fl_port *port, uint32_t qpn);
/* The address that others find for this process: who takes shared-memory connections listens on it. */
const char *fl_port_address(const struct fl_port *port);
/* Every process at the hub, for `farlane rnic`. Returns the number, at most max. */
int fl_port_peers(struct fl_port *port, struct fl_port_peer *peers, int max);

const struct fl_port_stats *fl_port_stats(const struct fl_port *port);

#endif
