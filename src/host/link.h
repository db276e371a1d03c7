/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One NVMe queue over one TCP connection: socket, protocol engine, and the way to a usable queue (connect,
 * ICReq, Fabrics Connect). Nothing here blocks or owns a thread: the admin queue's link is driven by the
 * service thread, an I/O queue's by whoever polls the queue.
 */
#ifndef FL_HOST_LINK_H
#define FL_HOST_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include <farlane/error.h>

#include "base/address.h"
#include "fabric/tcp_dial.h"
#include "fabric/tcp_host.h"
#include "wire/nvmf.h"

enum fl_link_state {
    FL_LINK_DOWN,
    FL_LINK_DIAL,    /* TCP */
    FL_LINK_IC,      /* ICReq is out */
    FL_LINK_CONNECT, /* Fabrics Connect is out */
    FL_LINK_READY,
};

struct fl_link_options {
    const struct fl_addr *addrs; /* in place while the link is in use */
    uint32_t nr_addrs;
    bool hdgst, ddgst;
    uint16_t qid, sqsize, cntlid; /* SQSIZE 0's based */
    uint32_t kato_ms;
    uint32_t nr_reqs; /* slots of the owner: 0..nr_reqs-1 */
    uint32_t max_data_len;
    uint32_t capsule_len; /* in-capsule data at most, once connected */
    uint32_t timeout_ms;  /* until READY */
    uint32_t rx_cap;      /* receive buffer; 0: default */
    const uint8_t *hostid;
    const char *hostnqn, *subnqn;
};

struct fl_link {
    enum fl_link_state state;
    int fd;
    uint32_t serial; /* goes up with each start: two sockets may have one number, one after the other */
    bool tx_blocked; /* the socket took less than there was */
    struct fl_tcp_host host;
    struct fl_dial dial;
    const struct fl_tcp_host_ops *owner_ops; /* in force once READY */
    uint64_t deadline_ns;
    uint32_t timeout_ms, capsule_len;
    uint16_t cntlid;      /* the controller's answer to Connect */
    uint16_t nvme_status; /* Connect was refused with it */
    struct fl_tcp_req connect_req;
    struct fl_nvmf_connect_data connect_data;
    struct iovec connect_iov;
    struct fl_error err; /* why it broke */
};

/* Begins. Owner's requests are bound to slots once fl_link_step said that it is ready. ops->ready is not
 * called. */
int fl_link_start(struct fl_link *link, const struct fl_link_options *options,
                  const struct fl_tcp_host_ops *ops, uint64_t now_ns);
/* On the way to READY: 1 when it just got there, 0 not yet, negative errno: broken, see link->err. */
int fl_link_step(struct fl_link *link, uint64_t now_ns);
/* READY: sends what waits, takes in what has come. 0 or negative errno: broken. */
int fl_link_io(struct fl_link *link);
/* READY: the sending half of it. A failure is not recorded: fl_link_io meets it again. */
int fl_link_send(struct fl_link *link);
/* Closes; the owner's requests are idle afterwards. No-op when down. */
void fl_link_stop(struct fl_link *link);

/* What to poll for before the next call: how many of p. */
#define FL_LINK_MAX_FDS FL_DIAL_MAX_ADDRS
int fl_link_pollfds(const struct fl_link *link, struct pollfd p[FL_LINK_MAX_FDS]);
/* When to call fl_link_step at the latest; UINT64_MAX: READY or down. */
uint64_t fl_link_deadline(const struct fl_link *link);

#endif
