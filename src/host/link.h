/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One NVMe queue over one connection, TCP or RDMA: socket or queue pair, protocol engine, and the way to a
 * usable queue (connect, ICReq with TCP, Fabrics Connect). Nothing here blocks or owns a thread: the admin
 * queue's link is driven by the service thread, an I/O queue's by whoever polls the queue.
 */
#ifndef FL_HOST_LINK_H
#define FL_HOST_LINK_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>

#include <farlane/error.h>

#include "base/address.h"
#include "fabric/rdma_host.h"
#include "fabric/tcp_dial.h"
#include "fabric/tcp_host.h"
#include "wire/nvmf.h"

enum fl_link_state {
    FL_LINK_DOWN,
    FL_LINK_DIAL,    /* TCP, or the RDMA connection manager */
    FL_LINK_IC,      /* TCP: ICReq is out */
    FL_LINK_CONNECT, /* Fabrics Connect is out */
    FL_LINK_READY,
};

struct fl_link_options {
    const struct fl_addr *addrs; /* in place while the link is in use */
    uint32_t nr_addrs;
    bool rdma;                    /* else TCP */
    const char *dev;              /* RDMA: by which device, as fl_choose() takes it; in place as addrs */
    bool hdgst, ddgst;            /* TCP */
    uint16_t qid, sqsize, cntlid; /* SQSIZE 0's based */
    uint32_t kato_ms;
    uint32_t nr_reqs; /* slots of the owner: 0..nr_reqs-1 */
    uint32_t max_data_len;
    uint32_t capsule_len; /* in-capsule data at most, once connected */
    uint32_t max_pieces;  /* RDMA: descriptors behind a command at most (MSDBD); 0: one, in the command */
    uint32_t timeout_ms;  /* until READY */
    uint32_t rx_cap;      /* receive buffer; 0: default */
    const uint8_t *hostid;
    const char *hostnqn, *subnqn;
};

struct fl_link;

struct fl_link_ops {
    /* READY, and req->cqe is set: the link is done with req. May submit again, this one too. */
    void (*done)(struct fl_link *link, struct fl_request *req);
};

struct fl_link {
    enum fl_link_state state;
    struct fl_rdma_host *rdma; /* NULL: TCP, or down */
    int fd;
    uint32_t serial; /* goes up with each start: two sockets may have one number, one after the other */
    bool tx_blocked; /* the socket took less than there was */
    bool bad_memory; /* it broke since memory of a write, or of some of them, is not there */
    struct fl_tcp_host host;
    struct fl_dial dial;
    const struct fl_link_ops *ops;
    uint64_t deadline_ns;
    uint32_t timeout_ms, capsule_len, max_pieces;
    uint16_t cntlid;      /* the controller's answer to Connect */
    uint16_t nvme_status; /* Connect was refused with it */
    struct fl_request connect_req;
    struct fl_nvmf_connect_data connect_data;
    struct iovec connect_iov;
    struct fl_error err; /* why it broke */
};

/* Begins. Owner's requests are bound to slots once fl_link_step said that it is ready. */
int fl_link_start(struct fl_link *link, const struct fl_link_options *options, const struct fl_link_ops *ops,
                  uint64_t now_ns);
/* On the way to READY: 1 when it just got there, 0 not yet, negative errno: broken, see link->err. */
int fl_link_step(struct fl_link *link, uint64_t now_ns);
/* READY: sends what waits, takes in what has come. 0 or negative errno: broken. */
int fl_link_io(struct fl_link *link);
/* READY: the sending half of it. A failure is not recorded: fl_link_io meets it again. */
int fl_link_send(struct fl_link *link);
/* READY: as fl_tcp_host_bind and fl_tcp_host_submit. */
static inline void fl_link_bind(struct fl_link *link, struct fl_request *req, uint32_t slot)
{
    if (link->rdma)
        fl_rdma_host_bind(link->rdma, req, slot);
    else
        fl_tcp_host_bind(&link->host, req, slot);
}
static inline void fl_link_submit(struct fl_link *link, struct fl_request *req)
{
    if (link->rdma)
        fl_rdma_host_submit(link->rdma, req);
    else
        fl_tcp_host_submit(&link->host, req);
}
/* READY: has something come? Without waiting, and without taking it in. */
bool fl_link_peek(struct fl_link *link);
/* Before each sleep on the descriptors. True: something has come already, do not sleep. */
bool fl_link_arm(struct fl_link *link);
/* READY: which way its bytes go. */
void fl_link_taken(struct fl_link *link, struct fl_taken *taken);
/* Closes; the owner's requests are idle afterwards. No-op when down. */
void fl_link_stop(struct fl_link *link);

/* What to poll for before the next call: how many of p. */
#define FL_LINK_MAX_FDS FL_DIAL_MAX_ADDRS
_Static_assert(FL_RDMA_HOST_FDS <= FL_LINK_MAX_FDS, "either kind fits");
int fl_link_pollfds(const struct fl_link *link, struct pollfd p[FL_LINK_MAX_FDS]);
/* When to call fl_link_step at the latest; UINT64_MAX: READY or down. */
uint64_t fl_link_deadline(const struct fl_link *link);

#endif
