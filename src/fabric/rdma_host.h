/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of one NVMe/RDMA connection (one NVMe queue): connecting, command capsules out, responses
 * in. The controller moves the data itself, by RDMA READ and WRITE, from and to the memory that a command
 * describes. Requests are those of request.h; of their private part only state, slot and cid are used here.
 * Nothing blocks, and no thread is needed: whoever uses the queue calls fl_rdma_host_io.
 */
#ifndef FL_FABRIC_RDMA_HOST_H
#define FL_FABRIC_RDMA_HOST_H

#include <poll.h>

#include "base/address.h"
#include "fabric/request.h"
#include "verbs/taken.h"

struct fl_rdma_host;
struct fl_rdma_lib;

struct fl_rdma_host_options {
    const struct fl_rdma_lib *lib; /* NULL: those of the chosen device; others are for tests */
    const struct fl_addr *addrs;   /* tried in order; in place while connecting */
    uint32_t nr_addrs;
    const char *dev; /* as fl_choose() takes it; in place while connecting */
    uint16_t qid, cntlid;
    uint16_t sqsize;  /* 0's based */
    uint32_t nr_reqs; /* slots, at most FL_REQUESTS_MAX */
    void (*done)(void *user, struct fl_request *req);
    void *user;
};

/* Begins to connect. -ENOMEM, or what the connection manager says, in err. */
int fl_rdma_host_create(const struct fl_rdma_host_options *options, struct fl_rdma_host **host,
                        struct fl_error *err);
/* Requests in flight fall back to idle, without done(); nothing touches their memory afterwards. */
void fl_rdma_host_destroy(struct fl_rdma_host *host);

/* While connecting: 1 when the queue pair is connected, 0 not yet, negative errno: see fl_rdma_host_err. */
int fl_rdma_host_step(struct fl_rdma_host *host);
const struct fl_error *fl_rdma_host_err(const struct fl_rdma_host *host);
/* The one of the options' addresses that it goes to. */
const struct fl_addr *fl_rdma_host_addr(const struct fl_rdma_host *host);

void fl_rdma_host_bind(struct fl_rdma_host *host, struct fl_request *req, uint32_t slot);
void fl_rdma_host_submit(struct fl_rdma_host *host, struct fl_request *req);
/* As the controller says (IOCCSZ, MSDBD): what a capsule holds behind the command, in bytes, 0 to begin with;
 * how many descriptors may be there, 1 to begin with. */
void fl_rdma_host_set_limits(struct fl_rdma_host *host, uint32_t capsule_len, uint32_t max_pieces);

/* Which way its bytes go, while it is connected. False: it is not. */
bool fl_rdma_host_taken(struct fl_rdma_host *host, struct fl_taken *taken);

/* Takes in what has come, calls done(). 0 or negative errno: broken. */
int fl_rdma_host_io(struct fl_rdma_host *host);
/* Has something come that the next fl_rdma_host_io will take? */
bool fl_rdma_host_peek(struct fl_rdma_host *host);
/* Before sleeping on the descriptors: true: do not, something has come. */
bool fl_rdma_host_arm(struct fl_rdma_host *host);
#define FL_RDMA_HOST_FDS 2
int fl_rdma_host_pollfds(const struct fl_rdma_host *host, struct pollfd p[FL_RDMA_HOST_FDS]);

#endif
