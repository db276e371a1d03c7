/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves bytes from one endpoint to another, several chunks at a time, on the caller's thread. Chunks of a
 * namespace or file may end in any order; a stream gets and gives them in order.
 */
#ifndef FARLANE_PUMP_H
#define FARLANE_PUMP_H

#include <stdbool.h>
#include <stdint.h>

#include "endpoint.h"
#include "term.h"

#define PUMP_CHUNK_LEN (1u << 20)
#define PUMP_DEPTH     8u

struct pump_options {
    struct endpoint *from, *to; /* to: ENDPOINT_NONE: only looked at (check) */
    uint64_t from_off, to_off;
    uint64_t len; /* UINT64_MAX: until the stream ends */
    uint32_t depth;
    uint32_t chunk_len; /* multiple of every block length */
    uint32_t *crc;      /* CRC-32C of each chunk, noted, or with `check` compared; NULL: not */
    bool check;
    struct progress *progress; /* NULL: none */
};

struct pump_result {
    uint64_t len; /* moved */
    uint64_t ns;
    uint64_t differ_at; /* with -EILSEQ: offset of the first chunk that differs */
};

/* 0, or negative errno with text: -EINTR after SIGINT or SIGTERM, -EPIPE when nobody reads the stream any
 * more. */
int pump_run(const struct pump_options *options, struct pump_result *result, struct fl_error *err);

/* SIGINT and SIGTERM end pump_run instead of the process. */
void pump_catch_signals(void);
int pump_signal(void); /* the one that interrupted; 0: none */

#endif
