/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes over the TCP connection, each way, with a CRC. */
#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/crc.h"
#include "peer.h"

#define PIECE       (1u << 20)
#define PATIENCE_MS 20000

/* Bytes that differ from place to place, so that a piece in the wrong place is seen */
static void pattern(uint8_t *bytes, size_t len, uint64_t at)
{
    for (size_t i = 0; i + 8 <= len; i += 8) {
        uint64_t v = (at + i + 1) * UINT64_C(0x9e3779b97f4a7c15);

        v ^= v >> 29;
        memcpy(bytes + i, &v, 8);
    }
}

/* Sends the pattern; its CRC */
static int give(struct peer_line *line, uint64_t len, uint32_t *crc)
{
    uint8_t *piece = malloc(PIECE);
    int r = piece ? 0 : -ENOMEM;

    *crc = 0;
    for (uint64_t at = 0; !r && at < len; at += PIECE) {
        size_t n = len - at < PIECE ? (size_t)(len - at) : PIECE;

        pattern(piece, n, at);
        *crc = fl_crc32c(*crc, piece, n);
        r = peer_bytes_put(line, piece, n, PATIENCE_MS);
    }
    free(piece);
    return r;
}

static int take(struct peer_line *line, uint64_t len, uint32_t *crc)
{
    uint8_t *piece = malloc(PIECE);
    int r = piece ? 0 : -ENOMEM;

    *crc = 0;
    for (uint64_t at = 0; !r && at < len; at += PIECE) {
        size_t n = len - at < PIECE ? (size_t)(len - at) : PIECE;

        r = peer_bytes_get(line, piece, n, PATIENCE_MS);
        if (!r)
            *crc = fl_crc32c(*crc, piece, n);
    }
    free(piece);
    return r;
}

static int say_crc(struct peer_line *line, uint32_t crc)
{
    json_t *answer = json_pack("{s:I}", "crc", (json_int_t)crc);
    int r = peer_line_put(line, answer);

    json_decref(answer);
    return r;
}

int bulk_take(struct peer_line *line, uint64_t len)
{
    uint32_t crc;
    int r = take(line, len, &crc);

    return r < 0 ? r : say_crc(line, crc);
}

int bulk_give(struct peer_line *line, uint64_t len)
{
    uint32_t crc;
    int r = give(line, len, &crc);

    return r < 0 ? r : say_crc(line, crc);
}

static int ask(struct peer_line *line, const char *what)
{
    json_t *question = json_pack("{s:s, s:I}", "ask", what, "len", (json_int_t)PEER_BULK_LEN);
    int r = peer_line_put(line, question);

    json_decref(question);
    return r;
}

/* -EBADMSG: the CRCs differ */
static int hear_crc(struct peer_line *line, uint32_t crc)
{
    json_t *answer;
    int r = peer_line_get(line, &answer, PATIENCE_MS);

    if (r < 0)
        return r;
    r = json_integer_value(json_object_get(answer, "crc")) == (json_int_t)crc ? 0 : -EBADMSG;
    json_decref(answer);
    return r;
}

static double gbps(uint64_t start)
{
    return (double)PEER_BULK_LEN / (double)(fl_now_ns() - start);
}

int bulk_ask(struct peer_line *line, struct bulk_result *result)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);
    uint32_t crc;
    uint64_t start = fl_now_ns();
    int r = ask(line, "take");

    if (!r)
        r = give(line, PEER_BULK_LEN, &crc);
    if (!r)
        r = hear_crc(line, crc);
    result->there_gbps = gbps(start);
    start = fl_now_ns();
    if (!r)
        r = ask(line, "give");
    if (!r)
        r = take(line, PEER_BULK_LEN, &crc);
    result->back_gbps = gbps(start);
    if (!r)
        r = hear_crc(line, crc);
    getsockopt(line->fd, IPPROTO_TCP, TCP_INFO, &info, &len);
    result->retransmits = info.tcpi_total_retrans;
    result->rtt_us = info.tcpi_min_rtt;
    result->segments = info.tcpi_segs_out;
    return r;
}
