/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: what the fake target (test_target.h) is made of, and its PDUs. */
#ifndef FL_HOST_TEST_TARGET_PDU_H
#define FL_HOST_TEST_TARGET_PDU_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/unit.h"
#include "base/util.h"
#include "fabric/tcp_stream.h" /* for union fl_tcp_pdu alone */
#include "wire/discovery.h"
#include "wire/nvme_identify.h"
#include "wire/nvme_log.h"
#include "wire/nvme_tcp.h"
#include "wire/nvmf.h"

#define FAKE_NQN       "nqn.2026-01.org.example:fake"
#define FAKE_BLOCK     512u
#define FAKE_LEN       (16u << 20)
#define FAKE_MAX_CONNS 64

struct fake;

struct fake_conn {
    struct fake *fake;
    int fd;
    bool used, hdgst, ddgst;
    uint16_t qid;
    bool has_event; /* an asynchronous event request is out */
    uint16_t event_cid;
    uint32_t cc;
    pthread_t thread;
    pthread_mutex_t send_lock;
    /* Capsules that came while data was waited for. */
    struct fake_capsule {
        union fl_tcp_pdu pdu;
        uint8_t *data;
    } waiting[256];
    int nr_waiting;
};

struct fake {
    int listen_fd;
    uint16_t port;
    char url[128];
    pthread_t thread;
    pthread_mutex_t lock; /* conns */
    struct fake_conn conns[FAKE_MAX_CONNS];
    uint8_t *mem;
    int stop;

    /* ---- how it behaves; set at any time ---- */
    uint32_t nr_blocks, nr_queues, mdts, capsule_len, nr_entries, kato_seen;
    int mute;                    /* takes everything in and answers nothing */
    int mute_io;                 /* the same for I/O commands */
    int fail_status, fail_count; /* the next fail_count I/O commands end with the status */
    int flip_count;              /* the next reads with data digest have a wrong one */
    int drop_count;              /* the next I/O commands end the connection */
    int connect_status;          /* of Connect */
    int held_count;              /* the next Connects of I/O queues: the queue is still there */
    uint32_t connect_dw0;
    int no_success; /* never fold the response into the data */
    int delay_ms;   /* an I/O takes so long */
    int admin_delay_ms;
    int r2t_len; /* R2T in pieces of this; 0: all at once */
    int nr_namespaces;
    uint8_t uuid0;
    void (*tweak)(struct fl_nvme_id_ctrl *id);
    int (*log_page)(struct fake *f, uint8_t *page, uint64_t off, uint32_t len); /* discovery */

    /* ---- what happened ---- */
    int nr_accepted, nr_io, nr_writes, nr_keep_alives, nr_shutdowns, nr_terms, nr_logs;
    int term_fes;
};

#define fake_get(x)    __atomic_load_n(&(x), __ATOMIC_SEQ_CST)
#define fake_set(x, v) __atomic_store_n(&(x), (v), __ATOMIC_SEQ_CST)
#define fake_inc(x)    __atomic_add_fetch(&(x), 1, __ATOMIC_SEQ_CST)

/* Takes one of a count; false when there is none left. */
static inline bool fake_take(int *count)
{
    int n = fake_get(*count);

    while (n > 0)
        if (__atomic_compare_exchange_n(count, &n, n - 1, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
            return true;
    return false;
}

static inline bool fake_read(struct fake_conn *c, void *buf, size_t len)
{
    uint8_t *p = buf;

    while (len) {
        ssize_t n = recv(c->fd, p, len, 0);

        if (n <= 0)
            return false;
        p += n;
        len -= (size_t)n;
    }
    return true;
}

static inline void fake_send(struct fake_conn *c, union fl_tcp_pdu *pdu, uint8_t type, uint8_t flags,
                             const void *data, uint32_t len, bool flip)
{
    uint8_t hlen = fl_tcp_hlen(type), tail[4] = {0}, *buf;
    bool d = type > FL_TCP_C2H_TERM;
    uint32_t plen = fl_tcp_hdr_set(&pdu->hdr, type, flags, hlen, d && c->hdgst, d && c->ddgst && len, 4, len);

    if (fake_get(c->fake->mute))
        return;
    buf = calloc(1, plen + 64);
    memcpy(buf, pdu, hlen);
    if (pdu->hdr.flags & FL_TCP_F_HDGST) {
        le32 crc = le32_of(fl_crc32c(0, buf, hlen));

        memcpy(buf + hlen, &crc, 4);
    }
    if (len)
        memcpy(buf + pdu->hdr.pdo, data, len);
    if (pdu->hdr.flags & FL_TCP_F_DDGST) {
        le32 crc = le32_of(fl_crc32c(0, data, len) ^ flip);

        memcpy(tail, &crc, 4);
        memcpy(buf + plen - 4, tail, 4);
    }
    pthread_mutex_lock(&c->send_lock);
    for (size_t at = 0; at < plen;) {
        ssize_t n = send(c->fd, buf + at, plen - at, MSG_NOSIGNAL);

        if (n <= 0)
            break;
        at += (size_t)n;
    }
    pthread_mutex_unlock(&c->send_lock);
    free(buf);
}

static inline void fake_respond(struct fake_conn *c, uint16_t cid, uint64_t result, fl_nvme_status status)
{
    union fl_tcp_pdu pdu = {0};

    fl_nvme_cqe_set(&pdu.resp.cqe, cid, 0xffff, result, status);
    fake_send(c, &pdu, FL_TCP_RESP, 0, NULL, 0, false);
}

/* Data of a read in two PDUs when it is long enough, and the response. */
static inline void fake_respond_data(struct fake_conn *c, uint16_t cid, const void *data, uint32_t len,
                                     bool flip)
{
    uint32_t half = len > 8192 ? len / 2 & ~3u : len;
    bool success = !fake_get(c->fake->no_success) && c->qid;

    for (uint32_t off = 0; off < len;) {
        uint32_t n = FL_MIN(half, len - off);
        bool last = off + n == len;
        union fl_tcp_pdu pdu = {.data = {.cccid = le16_of(cid), .datao = le32_of(off), .datal = le32_of(n)}};

        fake_send(c, &pdu, FL_TCP_C2H_DATA,
                  last ? FL_TCP_F_DATA_LAST | (success ? FL_TCP_F_DATA_SUCCESS : 0) : 0,
                  (const uint8_t *)data + off, n, flip);
        off += n;
    }
    if (!success)
        fake_respond(c, cid, 0, 0);
}

/* One PDU: header, data. NULL data when there is none; false at the end of the connection. */
static inline bool fake_pdu(struct fake_conn *c, union fl_tcp_pdu *pdu, uint8_t **data, uint32_t *len)
{
    uint8_t skip[256];
    uint32_t hlen, off;

    *data = NULL;
    *len = 0;
    if (!fake_read(c, &pdu->hdr, 8))
        return false;
    hlen = pdu->hdr.hlen;
    if (hlen < 8 || hlen > 128 || !fake_read(c, pdu->bytes + 8, hlen - 8))
        return false;
    off = fl_tcp_data_offset(&pdu->hdr);
    if (off > hlen && !fake_read(c, skip, off - hlen))
        return false;
    if ((pdu->hdr.flags & FL_TCP_F_HDGST)) {
        le32 crc = le32_of(fl_crc32c(0, pdu, hlen));

        if (memcmp(&crc, skip, 4))
            return false;
    }
    *len = fl_tcp_data_len(&pdu->hdr);
    if (*len > 4u << 20)
        return false;
    if (*len) {
        *data = malloc(*len);
        if (!fake_read(c, *data, *len))
            return false;
    }
    if (pdu->hdr.flags & FL_TCP_F_DDGST) {
        le32 crc = le32_of(fl_crc32c(0, *data, *len));

        if (!fake_read(c, skip, 4) || memcmp(&crc, skip, 4))
            return false;
    }
    return true;
}

#endif
