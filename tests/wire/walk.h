/* SPDX-License-Identifier: Apache-2.0 */
/* Walks the PDUs of one captured NVMe/TCP connection, both directions, and checks all that the bytes can
 * tell. */
#ifndef FL_TESTS_WIRE_WALK_H
#define FL_TESTS_WIRE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "pcap.h"
#include "wire/nvme_tcp.h"

#define WALK_MAX_STATUS 8

/* What a capture holds, all its connections together */
struct tally {
    unsigned nr_pdus[FL_TCP_NR_TYPES];
    struct {
        uint16_t wire; /* status field of a response that failed, as on the wire */
        unsigned nr;
    } status[WALK_MAX_STATUS];
    unsigned nr_hdgst, nr_ddgst;
    unsigned
        nr_pattern_blocks; /* blocks of 512 bytes read or written that hold the pattern of the captures */
    unsigned nr_connect, nr_disc_entries, nr_resv, nr_auth; /* payloads decoded */
};

#define WALK_MAX_XFERS 16

struct xfer { /* an R2T or an H2CData */
    uint16_t ttag;
    uint32_t offset, len;
    bool last;
};

struct cmd {
    struct fl_nvme_sqe sqe;
    const uint8_t *capsule; /* data that came with it */
    uint32_t capsule_len;
    uint8_t *data; /* data that came by H2CData or C2HData */
    uint32_t data_len;
    bool c2h_last, done;
    struct fl_nvme_cqe cqe;
    struct xfer r2t[WALK_MAX_XFERS], h2c[WALK_MAX_XFERS];
    unsigned nr_r2t, nr_h2c;
};

struct walk {
    const char *file;
    size_t connection;
    const char *what; /* what is being looked at, for messages */
    struct tally *tally;
    struct fl_tcp_limits limits[2]; /* of PDUs towards the target, towards the host: enum fl_tcp_role */
    struct fl_tcp_ic asked, agreed;
    struct cmd *cmds;
    size_t nr_cmds, cap_cmds;
    /* from Connect */
    bool connected;
    uint16_t qid, sqsize, cntlid;
    bool no_sq_flow;
    char subnqn[256];
};

/* Fails the test with the place in the capture. */
_Noreturn void walk_fail(const struct walk *w, const char *condition, int line);
#define WALK_CHECK(w, condition)                \
    do {                                        \
        if (!(condition))                       \
            walk_fail(w, #condition, __LINE__); \
    } while (0)

void walk_connection(const struct flow *flow, const char *file, size_t connection, struct tally *tally);

/* payload.c: the command, its data in either direction and its response */
void check_payload(struct walk *w, const struct cmd *cmd);

#endif
