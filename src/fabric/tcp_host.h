/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of one NVMe/TCP connection (one NVMe queue), without I/O: capsules out, data and responses
 * in, R2T answered. Whoever drives it moves the bytes of `stream` (see tcp_stream.h) and calls
 * fl_tcp_host_pump before sending.
 *
 * The command identifier of a request (request.h) is its slot's
 * number and a generation, so that an answer to an earlier use of the slot is recognised as stale.
 */
#ifndef FL_FABRIC_TCP_HOST_H
#define FL_FABRIC_TCP_HOST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/uio.h>

#include <farlane/error.h>

#include "base/list.h"
#include "fabric/request.h"
#include "fabric/tcp_stream.h"
#include "wire/nvme.h"
#include "wire/nvme_tcp.h"

struct fl_tcp_host;

struct fl_tcp_host_ops {
    /* ICResp has come; what was agreed stands in host. Commands may be submitted from now on. */
    void (*ready)(struct fl_tcp_host *host);
    /* req->cqe is set, the engine is done with req. May submit again, this one too. */
    void (*done)(struct fl_tcp_host *host, struct fl_request *req);
};

#define FL_TCP_HOST_MAX_GUESS 32

/* What the next bytes are expected to be; see tcp_host_guess.c. */
struct fl_tcp_guess {
    uint16_t *order; /* ring of the identifiers of reads, as they were sent; NULL: no guessing */
    uint16_t *resting; /* order, while a read's memory is not there */
    uint32_t mask, head, tail;
    uint32_t max;            /* how many to expect at a time: learned */
    uint32_t rest, rest_len; /* reads to go without, and how many the next time */
    uint32_t nr,
        direct; /* of the last fl_tcp_host_rx_iov: entries, and bytes before them that are no guess */
    uint8_t *buf;
    struct fl_tcp_expected {
        struct fl_request *req;
        struct fl_tcp_data came;
    } expected[FL_TCP_HOST_MAX_GUESS];
};

struct fl_tcp_host_options {
    bool hdgst, ddgst;     /* digests asked for */
    uint32_t nr_reqs;      /* slots, at most FL_REQUESTS_MAX */
    uint32_t max_data_len; /* largest data of one command */
    uint32_t rx_cap;       /* receive buffer; 0: default */
    bool guess;            /* for queues with many small reads */
};

struct fl_tcp_host {
    const struct fl_tcp_host_ops *ops;
    struct fl_tcp_stream stream;
    struct fl_request **reqs; /* by slot */
    uint32_t nr_reqs;
    uint16_t slot_mask; /* bits of a command identifier that are the slot */
    uint8_t slot_bits;
    struct fl_list tx_wait; /* requests with R2Ts to answer */
    uint32_t nr_h2c;        /* H2CData PDUs in the stream */
    uint32_t capsule_len;   /* in-capsule data at most; the owner's, from IOCCSZ; 8192 to begin with */
    uint32_t nr_sent;       /* requests that the controller has */
    uint32_t nr_bad;        /* reads whose data are thrown away, since their memory is not there */

    struct fl_tcp_ic asked, agreed;
    bool ready;
    uint16_t term_fes;   /* C2HTermReq has come with this status */
    struct fl_error err; /* why the stream is broken */
    struct fl_tcp_guess guess;
};

int fl_tcp_host_init(struct fl_tcp_host *host, const struct fl_tcp_host_ops *ops,
                     const struct fl_tcp_host_options *options);
/* Requests in flight fall back to idle, without done(): what becomes of them is the owner's matter. */
void fl_tcp_host_fini(struct fl_tcp_host *host);

/* Puts ICReq into the stream. */
void fl_tcp_host_start(struct fl_tcp_host *host);

/* req gets a slot for as long as host lives; what never changes in its PDU is set. */
void fl_tcp_host_bind(struct fl_tcp_host *host, struct fl_request *req, uint32_t slot);
void fl_tcp_host_submit(struct fl_tcp_host *host, struct fl_request *req);

/* Where to receive to, in place of fl_tcp_stream_rx_iov. */
int fl_tcp_host_rx_iov(struct fl_tcp_host *host, struct iovec *iov, int max);
/* n bytes were received there. 0; -EPROTO: host->err tells why, and unless the controller ended
 * the connection itself, a termination request is queued: send what you can, then close. */
int fl_tcp_host_rx_done(struct fl_tcp_host *host, size_t n);

/*
 * The kernel found memory of a read not to be there (EFAULT). The data of all reads of which that is true are thrown away
 * from now on, and they end as FL_REQUEST_UNSENT with EFAULT: the connection goes on. False: there is none.
 */
bool fl_tcp_host_bad_memory(struct fl_tcp_host *host);

/* ---- between tcp_host.c and tcp_host_guess.c ---- */
int fl_tcp_guess_init(struct fl_tcp_host *host);
void fl_tcp_guess_fini(struct fl_tcp_host *host);
void fl_tcp_guess_rest(struct fl_tcp_host *host, bool rest);
int fl_tcp_guess_rx_done(struct fl_tcp_host *host, size_t n);
void fl_tcp_host_read_ended(struct fl_tcp_host *host, struct fl_request *req, uint32_t plen);

/* Answers R2Ts as far as the stream has room. Call before sending. */
void fl_tcp_host_pump_slow(struct fl_tcp_host *host);
static inline void fl_tcp_host_pump(struct fl_tcp_host *host)
{
    if (!fl_list_empty(&host->tx_wait))
        fl_tcp_host_pump_slow(host);
}

#endif
