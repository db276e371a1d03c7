/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One NVMe/TCP byte stream, both directions, without I/O: framing, header and data digests, placing of
 * received data, gathering of what is to be sent. Both roles use it (tcp_target, tcp_host); sockets, tests,
 * fuzzers and the pair transport move the bytes:
 *
 *   n = fl_tcp_stream_rx_iov(s, iov);  got = readv(fd, iov, n);  r = fl_tcp_stream_rx_done(s, got);
 *   n = fl_tcp_stream_tx_iov(s, iov);  put = writev(fd, iov, n); fl_tcp_stream_tx_done(s, put);
 *
 * Received payload goes straight to the place that the owner names when the header has come; what came
 * together with the header is copied there from the stream buffer. Small payload may stay in the stream
 * buffer (keep). Sent headers are copied into the stream's buffer (neighbours merge into one iovec); sent
 * payload is referenced, never copied.
 */
#ifndef FL_FABRIC_TCP_STREAM_H
#define FL_FABRIC_TCP_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "wire/nvme_tcp.h"

#define FL_TCP_STREAM_IOV_MAX 128

struct fl_tcp_stream;

union fl_tcp_pdu { /* a whole header, digest removed */
    struct fl_tcp_hdr hdr;
    struct fl_tcp_ic_req ic_req;
    struct fl_tcp_ic_resp ic_resp;
    struct fl_tcp_term term;
    struct fl_tcp_cmd cmd;
    struct fl_tcp_resp resp;
    struct fl_tcp_data data;
    struct fl_tcp_r2t r2t;
    uint8_t bytes[128];
};

struct fl_tcp_stream_ops {
    /*
     * A header has come, checked by fl_tcp_hdr_check, its digest right. data_len is the payload that follows
     * (0: payload() is not called). The owner says where it goes: fl_tcp_stream_place; or, if
     * fl_tcp_stream_fits(), it may leave it in the stream buffer by fl_tcp_stream_keep; or neither: it is
     * thrown away, and payload() is called with data NULL. Returns 0; -EAGAIN: stop here, header() of this
     * PDU is called again after fl_tcp_stream_resume (only with nothing placed or kept); -EPROTO with *fault
     * filled: the stream is broken.
     */
    int (*header)(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, uint32_t data_len,
                  struct fl_tcp_fault *fault);
    /* All of the payload is there. data: where it lies in the stream buffer if kept, else NULL; digest_ok
     * false: DDGST is wrong. Returns 0 or -EPROTO with *fault filled. */
    int (*payload)(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, const void *data, bool digest_ok,
                   struct fl_tcp_fault *fault);
    /* Everything up to and including the reference given with this token has left (or was dropped by
     * fini/abort). */
    void (*sent)(struct fl_tcp_stream *s, void *token);
    /* The data digest of what is being queued with this token (fl_tcp_stream_send), if the owner knows of a shorter way to it. NULL:
     * none. */
    uint32_t (*digest)(struct fl_tcp_stream *s, void *token, const void *data, uint32_t len);
};

struct fl_tcp_seg { /* private: one piece of what is to be sent */
    union {
        const uint8_t *ptr;
        const struct iovec *iov; /* nr_iov pieces, the owner's */
    };
    void *token;
    uint32_t len;
    uint32_t skip; /* bytes of iov before this piece */
    int nr_iov;    /* 0: ptr */
    bool own;      /* lies in tx_buf: gives that many bytes of it back */
};

/* Counters have one writer, the stream's thread; others may look at them. */
#define FL_TCP_COUNT(counter, n) __atomic_store_n(&(counter), (counter) + (n), __ATOMIC_RELAXED)
#define FL_TCP_PEEK(counter)     __atomic_load_n(&(counter), __ATOMIC_RELAXED)

struct fl_tcp_stream {
    const struct fl_tcp_stream_ops *ops;
    enum fl_tcp_role role;
    struct fl_tcp_limits limits; /* what may be received now */
    bool tx_hdgst, tx_ddgst;
    uint8_t tx_pda; /* alignment of the data in PDUs that we send, bytes */

    /* counters */
    uint64_t rx_len, tx_len, nr_rx_pdus, nr_tx_pdus, nr_ddgst_errors;
    /* Why rx_done returned -EPROTO, and the header that was wrong (for a termination request). */
    struct fl_tcp_fault fault;
    uint32_t bad_len;
    uint8_t bad_pdu[128];

    /* private: receive */
    uint8_t *rx_buf;
    uint32_t rx_cap, rx_head, rx_tail;
    uint32_t rx_offer; /* how much of rx_buf to read into at a time, see choose_offer */
    uint32_t rx_offered;
    uint8_t rx_state;
    bool rx_paused, rx_whole, rx_keep, rx_broken, rx_busy;
    union fl_tcp_pdu pdu; /* its header while the payload is on its way */
    uint32_t pdu_data_len, pdu_left;
    uint32_t rx_crc;
    const struct iovec *place_iov; /* the owner's array, in place until payload(); NULL: thrown away */
    uint32_t place_nr;
    size_t place_off; /* bytes done of place_iov[0] */
    struct iovec place_one;

    /* private: transmit */
    uint8_t *tx_buf;
    uint32_t tx_cap, tx_head, tx_tail, tx_used;
    struct fl_tcp_seg *segs;
    uint32_t seg_cap, seg_head, nr_segs; /* seg_cap is a power of two */
    uint32_t seg_off;                    /* bytes of the first segment that have left */
    bool tx_open;                        /* the last segment is of tx_buf, ends at tx_tail and may grow */
};

/* nr_tx_pdus: how many PDUs may wait to be sent at a time (the owner never queues more). rx_cap: receive
 * buffer, at least 16 KiB. */
int fl_tcp_stream_init(struct fl_tcp_stream *s, const struct fl_tcp_stream_ops *ops, enum fl_tcp_role role,
                       uint32_t nr_tx_pdus, uint32_t rx_cap);
int fl_tcp_stream_set_tx_pdus(struct fl_tcp_stream *s, uint32_t nr_tx_pdus); /* grows; -ENOMEM leaves it */
/* Nothing more is received, what waits to be sent is dropped: sent() is called for all of it, and then no
 * callback any more. */
void fl_tcp_stream_abort(struct fl_tcp_stream *s);
void fl_tcp_stream_fini(struct fl_tcp_stream *s); /* aborts and frees; no-op when all zero */

/* Where the next received bytes shall go, in order: at most max pieces; 0: paused or broken, read nothing. */
int fl_tcp_stream_rx_iov(struct fl_tcp_stream *s, struct iovec *iov, int max);
/* n bytes were put there. 0; -EPROTO: the peer broke the protocol, s->fault tells how. */
int fl_tcp_stream_rx_done(struct fl_tcp_stream *s, size_t n);
/* Goes on after header() said -EAGAIN; same return as rx_done. No-op when not paused. Not from inside a
 * callback. */
int fl_tcp_stream_resume(struct fl_tcp_stream *s);
/* The stream ends in the middle of a PDU. */
bool fl_tcp_stream_rx_partial(const struct fl_tcp_stream *s);

/* Inside header(): */
bool fl_tcp_stream_whole(
    const struct fl_tcp_stream *s); /* payload and digest are in the stream buffer already */
bool fl_tcp_stream_fits(const struct fl_tcp_stream *s,
                        const union fl_tcp_pdu *pdu); /* the PDU is not too large to be kept */
void fl_tcp_stream_keep(
    struct fl_tcp_stream *s); /* payload() is called when all of it is in the stream buffer */
void fl_tcp_stream_place(struct fl_tcp_stream *s, void *ptr); /* one piece of data_len */
/* data_len bytes from skip on; the array stays in place until payload(). */
void fl_tcp_stream_place_iov(struct fl_tcp_stream *s, const struct iovec *iov, int nr, size_t skip);

/* Outside of callbacks: what is still to come of the payload on its way is thrown away. */
void fl_tcp_stream_discard(struct fl_tcp_stream *s);

/*
 * Queues one PDU. hdr: its header, with type and flags (LAST, SUCCESS) and type's own fields set; pdo, plen
 * and digest flags are filled in here (and hlen). data: referenced until sent(token) (token may be NULL: no
 * call); len 0: no data. Digests are computed now.
 */
void fl_tcp_stream_send(struct fl_tcp_stream *s, union fl_tcp_pdu *hdr, uint32_t hlen, const void *data,
                        uint32_t len, void *token);
/* The same with len bytes of an array from skip on; the array, too, stays in place until sent(token). */
void fl_tcp_stream_send_iov(struct fl_tcp_stream *s, union fl_tcp_pdu *hdr, uint32_t hlen,
                            const struct iovec *iov, int nr, size_t skip, uint32_t len, void *token);
/* Queues a PDU as it is, at most FL_TCP_TERM_PLEN_MAX bytes, which are copied: termination requests. */
void fl_tcp_stream_send_raw(struct fl_tcp_stream *s, const void *pdu, uint32_t len);
/* More than half of what nr_tx_pdus promises is in use. */
static inline bool fl_tcp_stream_tx_half_full(const struct fl_tcp_stream *s)
{
    return s->tx_used > s->tx_cap / 2 || s->nr_segs > s->seg_cap / 2;
}
/* What has not left yet of the data that was queued with this token (fl_tcp_stream_send) is copied to the same place of buf,
 * and sent from there. False: there is none. */
bool fl_tcp_stream_detach(struct fl_tcp_stream *s, const void *token, void *buf);
/* How many more PDUs may be queued now, at least. */
uint32_t fl_tcp_stream_tx_room(const struct fl_tcp_stream *s);
static inline bool fl_tcp_stream_tx_pending(const struct fl_tcp_stream *s)
{
    return s->nr_segs != 0;
}
int fl_tcp_stream_tx_iov(const struct fl_tcp_stream *s, struct iovec *iov, int max);
void fl_tcp_stream_tx_done(struct fl_tcp_stream *s, size_t n);

#endif
