/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host's command with its data and its answer, as the engines of all transports take it (tcp_host.h,
 * rdma_host.h). It is the owner's memory and has a slot of its own in one engine, for good.
 */
#ifndef FL_FABRIC_REQUEST_H
#define FL_FABRIC_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/list.h"
#include "wire/nvme.h"
#include "wire/nvme_tcp.h"

#define FL_REQUESTS_MAX   4096 /* slots of a queue; leaves 4 bits of generation in a command identifier */
#define FL_REQUEST_NR_R2T 4    /* TCP: R2Ts per command that we allow the controller at a time */

enum fl_request_state {
    FL_REQUEST_IDLE,
    FL_REQUEST_SENT,     /* the controller has it, or will */
    FL_REQUEST_UNSENT,   /* with done(): its memory cannot be used, and the controller has not seen it, or it
                          * was a read; cqe is a failure, with the errno in dw0 */
    FL_REQUEST_ANSWERED, /* answered, but bytes of its data still wait to be sent: the buffer isn't free yet
                          */
};

struct fl_request {
    /* The owner fills in pdu.sqe, apart from flags, cid and SGL. Over TCP it is sent from here with its
     * header; other transports take the command alone. */
    struct fl_tcp_cmd pdu;

    /* The data: data_len bytes from byte iov_skip of iov on. In place until done(). */
    const struct iovec *iov;
    uint32_t nr_iov;
    uint32_t data_len; /* 0: none */
    size_t iov_skip;
    bool to_host;

    struct fl_nvme_cqe cqe; /* the answer */

    /* private to the engine */
    uint8_t state; /* enum fl_request_state */
    bool digest_bad;
    uint8_t nr_r2t; /* in r2t[], oldest first */
    uint16_t slot, cid;
    uint32_t nr_tx;      /* references to our data in the stream */
    uint32_t data_done;  /* to host: bytes received; to controller: bytes that R2Ts have asked for */
    struct fl_list link; /* of those that wait to be sent: on tx_wait of the engine */
    struct fl_request_r2t {
        uint16_t ttag;
        uint32_t off, left;
    } r2t[FL_REQUEST_NR_R2T];
    uint32_t nr_bad; /* TCP: nr_iov of a read whose memory is not there, and nr_iov is 0 meanwhile */
};

#endif
