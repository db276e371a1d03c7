/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two doctors look at the path between them. One listens (farlane doctor --listen), the other asks: JSON, one
 * object a line, over one TCP connection; datagrams and RDMA as agreed there. The listener answers one peer
 * at a time, tells what doctor tells, and sends datagrams only to the address that its TCP connection has.
 * docs/design/doctor.md
 */
#ifndef FARLANE_DOCTOR_PEER_H
#define FARLANE_DOCTOR_PEER_H

#include <jansson.h>

#include "base/address.h"
#include "check.h"

#define PEER_PORT        4419
#define PEER_VERSION     1
#define PEER_PATIENCE_MS 5000
#define PEER_LINE_MAX    (1 << 20)

/* ---- lines ---- */
struct peer_line {
    int fd;
    char *bytes; /* what was read and not yet taken */
    size_t len, cap;
};

void peer_line_init(struct peer_line *line, int fd);
void peer_line_fini(struct peer_line *line); /* the descriptor stays the caller's */
/* One object; 0 or negative errno: -ECONNRESET: the peer closed, -ETIMEDOUT, -EPROTO: no JSON object, or too
 * long. */
int peer_line_get(struct peer_line *line, json_t **object, int timeout_ms);
/* Takes a reference. */
int peer_line_put(struct peer_line *line, json_t *object);
/* Raw bytes after a line */
int peer_bytes_get(struct peer_line *line, void *bytes, size_t len, int timeout_ms);
int peer_bytes_put(struct peer_line *line, const void *bytes, size_t len, int timeout_ms);

/* ---- what one end tells of itself ---- */
json_t *facts_json(const struct sys *sys);
/* Both ends of one path: interfaces by name, and the RDMA ports behind them. */
void facts_compare(struct doctor *d, const json_t *here, const json_t *there, const char *here_if,
                   const char *there_if);
/* The interface that has this address, by the facts; "": none */
const char *facts_interface_of(const json_t *facts, const struct in6_addr *addr, int64_t *mtu);

/* ---- probes by datagrams ---- */
/* A socket with DF set whatever the kernel knows of the path, bound to the address and connected if `to` is
 * not NULL. */
int probe_socket(const struct fl_addr *from, const struct fl_addr *to);
/* Answers datagrams until the TCP connection has something to say, or the time is over. */
void probe_answer(int udp, int tcp, int timeout_ms);

struct probe_result {
    int there, back; /* largest IP packets that passed each way; 0: not even small ones */
};
/* `want`: the largest to try, an IP packet's length. */
int probe_path(int udp, bool ip6, int want, struct probe_result *result);

/* ---- transfers ---- */
#define PEER_BULK_LEN (16u << 20)
struct bulk_result {
    double there_gbps, back_gbps;   /* gigabytes a second */
    uint32_t segments, retransmits; /* of this end */
    uint32_t rtt_us;
};
int bulk_ask(struct peer_line *line, struct bulk_result *result);
int bulk_take(struct peer_line *line, uint64_t len); /* the listener's halves */
int bulk_give(struct peer_line *line, uint64_t len);

#define PEER_RDMA_LEN (1u << 20)
struct rdma_peer;
/* The listener's end: a service of the connection manager at this address. `hardware`: librdmacm, else the
 * software RNIC. */
int rdma_peer_listen(bool hardware, const struct fl_addr *at, struct rdma_peer **peer, uint16_t *port,
                     struct fl_error *err);
/* Takes one connection and what it writes; the CRC of what was written. */
int rdma_peer_take(struct rdma_peer *peer, uint32_t *crc, struct fl_error *err);
void rdma_peer_free(struct rdma_peer *peer);
struct rdma_result {
    double write_gbps, read_gbps;
    double latency_us; /* of an 8-byte write, waited for */
    uint32_t path_mtu, crc;
    char dev[SYS_NAME_LEN];
};
int rdma_peer_ask(bool hardware, const struct fl_addr *from, const struct fl_addr *to,
                  struct rdma_result *result, struct fl_error *err);

/* ---- the two ends ---- */
/* Everything about the paths to `host` (HOST or HOST:PORT) as findings of d. Name service and packets: may
 * take some 10 s. */
void peer_ask(struct doctor *d, const char *host);
/* The address that a user's HOST[:PORT] means; false: text in err. Asks the name service. */
bool peer_resolve(const char *host, struct fl_addr *to, struct in6_addr *ip, struct fl_error *err);
/* Serves until `stop` is set or accepting fails. Negative errno with text. */
int peer_serve(const struct sys *sys, const char *address, volatile int *stop, struct fl_error *err);
/* One connection that was accepted */
void peer_serve_one(const struct sys *sys, int fd);

#endif
