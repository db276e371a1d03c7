/* SPDX-License-Identifier: Apache-2.0 */
#include "fabric/tcp_stream.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/util.h"

/*
 * Receiving, by state:
 *   HEADER  rx_buf[rx_head..rx_tail) begins with a PDU's header, perhaps not whole
 *   KEEP    header() was called; the whole PDU is being gathered in rx_buf
 *   DATA    the payload is on its way to the owner's place (rx_buf is empty) or is thrown away; pdu holds the
 * header DIGEST  the payload is there, the data digest is not whole in rx_buf
 */
enum { HEADER, KEEP, DATA, DIGEST };

/* A payload from here on is worth a read of its own instead of a copy out of rx_buf; see choose_offer. */
#define LARGE_PAYLOAD 16384u
#define SMALL_OFFER   1024u
#define MIN_RX_CAP    16384u

/* What one PDU can take of tx_buf: its header, padded to 128 (the largest alignment), and a data digest; a
 * termination request is longer. */
#define MAX_OWN FL_TCP_TERM_PLEN_MAX
/* Header, data, digest. */
#define SEGS_PER_PDU 3

static uint32_t seg_cap_for(uint32_t nr_pdus)
{
    uint32_t cap = 16;

    while (cap < nr_pdus * SEGS_PER_PDU)
        cap *= 2;
    return cap;
}

int fl_tcp_stream_init(struct fl_tcp_stream *s, const struct fl_tcp_stream_ops *ops, enum fl_tcp_role role,
                       uint32_t nr_tx_pdus, uint32_t rx_cap)
{
    int r;

    memset(s, 0, sizeof(*s));
    s->ops = ops;
    s->role = role;
    s->limits.pda = FL_TCP_PDA_MIN;
    s->tx_pda = FL_TCP_PDA_MIN;
    s->rx_cap = FL_MAX(rx_cap, MIN_RX_CAP);
    s->rx_offer = s->rx_cap;
    s->rx_buf = malloc(s->rx_cap);
    if (!s->rx_buf)
        return -ENOMEM;
    r = fl_tcp_stream_set_tx_pdus(s, nr_tx_pdus);
    if (r < 0) {
        free(s->rx_buf);
        s->rx_buf = NULL;
    }
    return r;
}

/* Bytes that wait are moved: those in front of the ring's end stay in order because everything is laid out
 * afresh. */
int fl_tcp_stream_set_tx_pdus(struct fl_tcp_stream *s, uint32_t nr_tx_pdus)
{
    uint32_t seg_cap = seg_cap_for(nr_tx_pdus), tx_cap = (nr_tx_pdus + 2) * MAX_OWN, at = 0;
    struct fl_tcp_seg *segs;
    uint8_t *buf;

    if (tx_cap <= s->tx_cap)
        return 0;
    segs = malloc(seg_cap * sizeof(*segs));
    buf = malloc(tx_cap);
    if (!segs || !buf) {
        free(segs);
        free(buf);
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < s->nr_segs; i++) {
        struct fl_tcp_seg *seg = &segs[i];

        *seg = s->segs[(s->seg_head + i) & (s->seg_cap - 1)];
        if (seg->own) {
            memcpy(buf + at, seg->ptr, seg->len);
            seg->ptr = buf + at;
            at += seg->len;
        }
    }
    free(s->segs);
    free(s->tx_buf);
    s->segs = segs;
    s->seg_cap = seg_cap;
    s->seg_head = 0;
    s->tx_buf = buf;
    s->tx_cap = tx_cap;
    s->tx_head = 0;
    s->tx_tail = s->tx_used = at;
    return 0;
}

void fl_tcp_stream_abort(struct fl_tcp_stream *s)
{
    s->rx_broken = true;
    s->place_iov = NULL;
    while (s->nr_segs) {
        void *token = s->segs[s->seg_head].token;

        s->seg_head = (s->seg_head + 1) & (s->seg_cap - 1);
        s->nr_segs--;
        if (token)
            s->ops->sent(s, token);
    }
    s->seg_off = 0;
    s->tx_head = s->tx_tail = s->tx_used = 0;
    s->tx_open = false;
}

void fl_tcp_stream_fini(struct fl_tcp_stream *s)
{
    fl_tcp_stream_abort(s);
    free(s->rx_buf);
    free(s->tx_buf);
    free(s->segs);
    s->rx_buf = s->tx_buf = NULL;
    s->segs = NULL;
    s->seg_cap = s->tx_cap = 0;
}

/* ---- receive ---- */

bool fl_tcp_stream_whole(const struct fl_tcp_stream *s)
{
    return s->rx_whole;
}

bool fl_tcp_stream_fits(const struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu)
{
    return le32_get(pdu->hdr.plen) <= s->rx_cap;
}

void fl_tcp_stream_keep(struct fl_tcp_stream *s)
{
    s->rx_keep = true;
}

void fl_tcp_stream_place(struct fl_tcp_stream *s, void *ptr)
{
    s->place_one = (struct iovec){.iov_base = ptr, .iov_len = s->pdu_data_len};
    s->place_iov = &s->place_one;
    s->place_nr = 1;
    s->place_off = 0;
}

void fl_tcp_stream_place_iov(struct fl_tcp_stream *s, const struct iovec *iov, int nr, size_t skip)
{
    while (nr && skip >= iov->iov_len) {
        skip -= iov->iov_len;
        iov++;
        nr--;
    }
    s->place_iov = iov;
    s->place_nr = (uint32_t)nr;
    s->place_off = skip;
}

bool fl_tcp_stream_rx_partial(const struct fl_tcp_stream *s)
{
    return s->rx_state != HEADER || s->rx_head != s->rx_tail;
}

/* The next len bytes of the place were filled by the reader, or are to be filled from src. */
static void advance_place(struct fl_tcp_stream *s, const uint8_t *src, uint32_t len)
{
    bool digest = s->limits.ddgst;

    s->pdu_left -= len;
    while (len) {
        const struct iovec *iov = s->place_iov;
        uint8_t *dst = (uint8_t *)iov->iov_base + s->place_off;
        uint32_t n = (uint32_t)FL_MIN((size_t)len, iov->iov_len - s->place_off);

        if (src) {
            memcpy(dst, src, n);
            src += n;
        }
        if (digest)
            s->rx_crc = fl_crc32c(s->rx_crc, dst, n);
        len -= n;
        s->place_off += n;
        if (s->place_off == iov->iov_len) {
            s->place_iov++;
            s->place_nr--;
            s->place_off = 0;
            assert(s->place_nr || !s->pdu_left);
        }
    }
}

void fl_tcp_stream_discard(struct fl_tcp_stream *s)
{
    if (s->rx_state == DATA)
        s->place_iov = NULL;
}

static int break_stream(struct fl_tcp_stream *s, const void *pdu, uint32_t len)
{
    s->rx_broken = true;
    s->bad_len = FL_MIN(len, (uint32_t)sizeof(s->bad_pdu));
    memcpy(s->bad_pdu, pdu, s->bad_len);
    return -EPROTO;
}

static bool data_digest_ok(struct fl_tcp_stream *s, const struct fl_tcp_hdr *hdr, uint32_t crc,
                           const uint8_t *digest)
{
    le32 got;

    if (!fl_tcp_ddgst_len(hdr))
        return true;
    memcpy(&got, digest, sizeof(got));
    if (le32_get(got) == crc)
        return true;
    FL_TCP_COUNT(s->nr_ddgst_errors, 1);
    return false;
}

/* Each returns 1 when parsing can go on, 0 when more bytes are needed or it is paused, or -EPROTO. */
static int finish_payload(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu, const void *kept,
                          uint32_t crc, const uint8_t *digest)
{
    bool ok = data_digest_ok(s, &pdu->hdr, crc, digest);

    s->rx_state = HEADER;
    s->place_iov = NULL;
    if (s->ops->payload(s, pdu, kept, ok, &s->fault) < 0)
        return break_stream(s, pdu, pdu->hdr.hlen);
    return 1;
}

static int parse_kept(struct fl_tcp_stream *s)
{
    const union fl_tcp_pdu *pdu = (const void *)(s->rx_buf + s->rx_head);
    uint32_t plen = le32_get(pdu->hdr.plen), offset = fl_tcp_data_offset(&pdu->hdr), len = s->pdu_data_len;
    const uint8_t *data = (const uint8_t *)pdu + offset; /* padding may be longer than any header */

    if (s->rx_tail - s->rx_head < plen)
        return 0;
    s->rx_head += plen;
    return finish_payload(s, pdu, data, s->limits.ddgst ? fl_crc32c(0, data, len) : 0, data + len);
}

static int parse_digest(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu)
{
    uint32_t len = fl_tcp_ddgst_len(&pdu->hdr);

    if (s->rx_tail - s->rx_head < len)
        return 0;
    s->rx_head += len;
    return finish_payload(s, pdu, NULL, s->rx_crc, s->rx_buf + s->rx_head - len);
}

static int parse_data(struct fl_tcp_stream *s, const union fl_tcp_pdu *pdu)
{
    uint32_t n = FL_MIN(s->rx_tail - s->rx_head, s->pdu_left);

    if (s->place_iov) {
        advance_place(s, s->rx_buf + s->rx_head, n);
    } else {
        if (s->limits.ddgst)
            s->rx_crc = fl_crc32c(s->rx_crc, s->rx_buf + s->rx_head, n);
        s->pdu_left -= n;
    }
    s->rx_head += n;
    if (s->pdu_left)
        return 0;
    s->rx_state = DIGEST;
    return parse_digest(s, pdu);
}

static bool header_digest_ok(const union fl_tcp_pdu *pdu)
{
    le32 got;

    memcpy(&got, pdu->bytes + pdu->hdr.hlen, sizeof(got));
    return le32_get(got) == fl_crc32c(0, pdu->bytes, pdu->hdr.hlen);
}

/*
 * How much to read into rx_buf at a time. All that fits is best for commands and small payloads. When
 * payloads are large, what follows a header is better read straight into place by the next read, so take
 * little more than a header.
 */
static void choose_offer(struct fl_tcp_stream *s, uint32_t data_len)
{
    s->rx_offer = data_len >= LARGE_PAYLOAD ? SMALL_OFFER : s->rx_cap;
}

static int parse_header(struct fl_tcp_stream *s)
{
    const union fl_tcp_pdu *pdu = (const void *)(s->rx_buf + s->rx_head);
    uint32_t have = s->rx_tail - s->rx_head, offset, plen;
    int r;

    if (have < sizeof(pdu->hdr))
        return 0;
    if (fl_tcp_hdr_check(&pdu->hdr, s->role, &s->limits, &s->fault) < 0)
        return break_stream(s, pdu, have);
    offset = fl_tcp_data_offset(&pdu->hdr);
    if (have < offset)
        return 0;
    if (fl_tcp_hdgst_len(&pdu->hdr) && !header_digest_ok(pdu)) {
        le32 got;

        memcpy(&got, pdu->bytes + pdu->hdr.hlen, sizeof(got));
        s->fault = (struct fl_tcp_fault){.fes = FL_TCP_FES_HDGST, .offset = le32_get(got)};
        return break_stream(s, pdu, pdu->hdr.hlen);
    }
    plen = le32_get(pdu->hdr.plen);
    s->pdu_data_len = s->pdu_left = fl_tcp_data_len(&pdu->hdr);
    s->rx_whole = have >= plen;
    s->rx_keep = false;
    s->place_iov = NULL;
    r = s->ops->header(s, pdu, s->pdu_data_len, &s->fault);
    if (fl_unlikely(r < 0)) {
        if (r != -EAGAIN)
            return break_stream(s, pdu, pdu->hdr.hlen);
        s->rx_paused = true;
        return 0;
    }
    FL_TCP_COUNT(s->nr_rx_pdus, 1);
    if (!s->pdu_data_len) {
        s->rx_head += offset;
        return 1;
    }
    choose_offer(s, s->pdu_data_len);
    if (s->rx_keep) {
        s->rx_state = KEEP;
        return parse_kept(s);
    }
    s->rx_head += offset;
    s->rx_crc = 0;
    s->rx_state = DATA;
    if (!s->rx_whole) {
        memcpy(&s->pdu, pdu, pdu->hdr.hlen);
        pdu = &s->pdu;
    }
    return parse_data(s, pdu);
}

static int parse(struct fl_tcp_stream *s)
{
    int r = 0;

    assert(!s->rx_busy);
    s->rx_busy = true;
    do {
        /* abort() may have been called from a callback */
        if (fl_unlikely(s->rx_broken || s->rx_paused))
            break;
        switch (s->rx_state) {
        case HEADER:
            r = parse_header(s);
            break;
        case KEEP:
            r = parse_kept(s);
            break;
        case DATA:
            r = s->rx_head != s->rx_tail || !s->pdu_left ? parse_data(s, &s->pdu) : 0;
            break;
        case DIGEST:
            r = parse_digest(s, &s->pdu);
            break;
        }
    } while (r > 0);
    s->rx_busy = false;
    return r < 0 ? r : 0;
}

int fl_tcp_stream_rx_iov(struct fl_tcp_stream *s, struct iovec *iov, int max)
{
    uint32_t offer = s->rx_offer;
    int n = 0;

    if (s->rx_broken || s->rx_paused)
        return 0;
    s->rx_offered = 0;
    if (s->rx_state == DATA && s->place_iov) {
        size_t left = s->pdu_left, off = s->place_off;

        for (uint32_t i = 0; left; i++, n++) {
            size_t len = FL_MIN(s->place_iov[i].iov_len - off, left);

            if (n == max)
                return n;
            iov[n] = (struct iovec){.iov_base = (uint8_t *)s->place_iov[i].iov_base + off, .iov_len = len};
            left -= len;
            off = 0;
        }
    }
    if (n == max)
        return n;
    if (s->rx_head == s->rx_tail) {
        s->rx_head = s->rx_tail = 0;
    } else if (s->rx_head && (s->rx_cap - s->rx_tail < s->rx_cap / 2 || s->rx_state == KEEP)) {
        memmove(s->rx_buf, s->rx_buf + s->rx_head, s->rx_tail - s->rx_head);
        s->rx_tail -= s->rx_head;
        s->rx_head = 0;
    }
    if (s->rx_state == KEEP)
        offer = s->rx_cap;
    offer = FL_MIN(offer, s->rx_cap - s->rx_tail);
    if (offer) {
        iov[n++] = (struct iovec){.iov_base = s->rx_buf + s->rx_tail, .iov_len = offer};
        s->rx_offered = offer;
    }
    return n;
}

int fl_tcp_stream_rx_done(struct fl_tcp_stream *s, size_t n)
{
    if (s->rx_broken)
        return -EPROTO;
    FL_TCP_COUNT(s->rx_len, n);
    if (s->rx_state == DATA && s->place_iov) {
        uint32_t direct = (uint32_t)FL_MIN(n, (size_t)s->pdu_left);

        advance_place(s, NULL, direct);
        n -= direct;
    }
    if (n && n == s->rx_offered)
        s->rx_offer = s->rx_cap; /* more came than was expected */
    s->rx_tail += (uint32_t)n;
    assert(s->rx_tail <= s->rx_cap);
    return parse(s);
}

int fl_tcp_stream_resume(struct fl_tcp_stream *s)
{
    if (s->rx_broken || !s->rx_paused)
        return 0;
    s->rx_paused = false;
    return parse(s);
}

/* ---- transmit ---- */

static struct fl_tcp_seg *add_seg(struct fl_tcp_stream *s)
{
    assert(s->nr_segs < s->seg_cap);
    return &s->segs[(s->seg_head + s->nr_segs++) & (s->seg_cap - 1)];
}

static struct fl_tcp_seg *last_seg(struct fl_tcp_stream *s)
{
    return &s->segs[(s->seg_head + s->nr_segs - 1) & (s->seg_cap - 1)];
}

static uint8_t *start_own(struct fl_tcp_stream *s, uint32_t len)
{
    uint8_t *p;

    if (!s->tx_used)
        s->tx_head = s->tx_tail = 0;
    if (s->tx_tail >= s->tx_head && s->tx_cap - s->tx_tail < len)
        s->tx_tail = 0;
    assert(s->tx_used + len <= s->tx_cap && (s->tx_tail >= s->tx_head || s->tx_head - s->tx_tail >= len));
    p = s->tx_buf + s->tx_tail;
    s->tx_tail += len;
    s->tx_used += len;
    *add_seg(s) = (struct fl_tcp_seg){.ptr = p, .len = len, .own = true};
    s->tx_open = true;
    return p;
}

/* Queues len bytes of tx_buf, to be filled in by the caller: as part of the last segment where that is
 * theirs, too. */
static uint8_t *queue_own(struct fl_tcp_stream *s, uint32_t len)
{
    uint8_t *p = s->tx_buf + s->tx_tail;

    if (!s->tx_open || s->tx_tail < s->tx_head || s->tx_cap - s->tx_tail < len)
        return start_own(s, len);
    last_seg(s)->len += len;
    s->tx_tail += len;
    s->tx_used += len;
    return p;
}

static void queue_data(struct fl_tcp_stream *s, const struct fl_tcp_seg *seg)
{
    *add_seg(s) = *seg;
    s->tx_open = false;
}

/* Puts the header, padded, into tx_buf and tells whether a data digest follows the data. */
static bool queue_header(struct fl_tcp_stream *s, union fl_tcp_pdu *hdr, uint32_t hlen, uint32_t data_len)
{
    bool dgst = hdr->hdr.type > FL_TCP_C2H_TERM; /* never in ICReq, ICResp and termination requests */
    bool hdgst = dgst && s->tx_hdgst, ddgst = dgst && s->tx_ddgst && data_len;
    uint32_t len, end = hlen + (hdgst ? FL_TCP_DIGEST_LEN : 0);
    uint8_t *p;

    /* A command's PDU is used again and again: its digest flags are those of the last time. */
    fl_tcp_hdr_set(&hdr->hdr, hdr->hdr.type, hdr->hdr.flags & ~(FL_TCP_F_HDGST | FL_TCP_F_DDGST),
                   (uint8_t)hlen, hdgst, ddgst, s->tx_pda, data_len);
    len = data_len ? hdr->hdr.pdo : end;
    p = queue_own(s, len);
    if (hlen == sizeof(hdr->resp))
        fl_copy_words24(p, hdr); /* most of them */
    else
        memcpy(p, hdr, hlen);
    if (hdgst) {
        le32 crc = le32_of(fl_crc32c(0, p, hlen));

        memcpy(p + hlen, &crc, sizeof(crc));
    }
    if (len > end)
        memset(p + end, 0, len - end);
    FL_TCP_COUNT(s->nr_tx_pdus, 1);
    return ddgst;
}

static void queue_digest(struct fl_tcp_stream *s, uint32_t crc)
{
    le32 digest = le32_of(crc);

    memcpy(queue_own(s, sizeof(digest)), &digest, sizeof(digest));
}

void fl_tcp_stream_send(struct fl_tcp_stream *s, union fl_tcp_pdu *hdr, uint32_t hlen, const void *data,
                        uint32_t len, void *token)
{
    bool ddgst = queue_header(s, hdr, hlen, len);

    if (len) {
        queue_data(s, &(struct fl_tcp_seg){.ptr = data, .len = len, .token = token});
    } else if (token) {
        last_seg(s)->token = token;
        s->tx_open = false;
    }
    if (ddgst)
        queue_digest(s,
                     token && s->ops->digest ? s->ops->digest(s, token, data, len) : fl_crc32c(0, data, len));
}

static uint32_t digest_of_iov(const struct iovec *iov, size_t skip, uint32_t len)
{
    uint32_t crc = 0;

    for (; len; iov++, skip = 0) {
        uint32_t n = (uint32_t)FL_MIN((size_t)len, iov->iov_len - skip);

        crc = fl_crc32c(crc, (const uint8_t *)iov->iov_base + skip, n);
        len -= n;
    }
    return crc;
}

void fl_tcp_stream_send_iov(struct fl_tcp_stream *s, union fl_tcp_pdu *hdr, uint32_t hlen,
                            const struct iovec *iov, int nr, size_t skip, uint32_t len, void *token)
{
    bool ddgst;

    while (nr && skip >= iov->iov_len) {
        skip -= iov->iov_len;
        iov++;
        nr--;
    }
    if (!len || len <= iov->iov_len - skip) {
        fl_tcp_stream_send(s, hdr, hlen, len ? (const uint8_t *)iov->iov_base + skip : NULL, len, token);
        return;
    }
    ddgst = queue_header(s, hdr, hlen, len);
    queue_data(s, &(struct fl_tcp_seg){
                      .iov = iov, .nr_iov = nr, .skip = (uint32_t)skip, .len = len, .token = token});
    if (ddgst)
        queue_digest(s, digest_of_iov(iov, skip, len));
}

void fl_tcp_stream_send_raw(struct fl_tcp_stream *s, const void *pdu, uint32_t len)
{
    memcpy(queue_own(s, len), pdu, len);
    FL_TCP_COUNT(s->nr_tx_pdus, 1);
}

bool fl_tcp_stream_detach(struct fl_tcp_stream *s, const void *token, void *buf)
{
    for (uint32_t i = 0; i < s->nr_segs; i++) {
        struct fl_tcp_seg *seg = &s->segs[(s->seg_head + i) & (s->seg_cap - 1)];
        uint32_t off = i ? 0 : s->seg_off;

        if (seg->token != token || seg->own || seg->nr_iov)
            continue;
        memcpy((uint8_t *)buf + off, seg->ptr + off, seg->len - off);
        seg->ptr = buf;
        return true;
    }
    return false;
}

uint32_t fl_tcp_stream_tx_room(const struct fl_tcp_stream *s)
{
    /* A gap of less than MAX_OWN may be left at the ring's end; set_tx_pdus counted it in. */
    uint32_t own = (s->tx_cap - s->tx_used) / MAX_OWN, segs = (s->seg_cap - s->nr_segs) / SEGS_PER_PDU;

    return own < 2 ? 0 : FL_MIN(own - 2, segs);
}

/* Pieces of a segment after its first `off` bytes. */
static int gather_iov(const struct fl_tcp_seg *seg, uint32_t off, struct iovec *iov, int max)
{
    size_t skip = (size_t)seg->skip + off;
    uint32_t left = seg->len - off;
    int n = 0;

    for (const struct iovec *from = seg->iov; left && n < max; from++) {
        size_t len;

        if (skip >= from->iov_len) {
            skip -= from->iov_len;
            continue;
        }
        len = FL_MIN(from->iov_len - skip, (size_t)left);
        iov[n++] = (struct iovec){.iov_base = (uint8_t *)from->iov_base + skip, .iov_len = len};
        left -= (uint32_t)len;
        skip = 0;
    }
    return n;
}

int fl_tcp_stream_tx_iov(const struct fl_tcp_stream *s, struct iovec *iov, int max)
{
    uint32_t off = s->seg_off;
    int n = 0;

    for (uint32_t i = 0; i < s->nr_segs && n < max; i++, off = 0) {
        const struct fl_tcp_seg *seg = &s->segs[(s->seg_head + i) & (s->seg_cap - 1)];

        if (fl_unlikely(seg->nr_iov))
            n += gather_iov(seg, off, iov + n, max - n);
        else
            iov[n++] = (struct iovec){.iov_base = (uint8_t *)seg->ptr + off, .iov_len = seg->len - off};
    }
    return n;
}

void fl_tcp_stream_tx_done(struct fl_tcp_stream *s, size_t n)
{
    FL_TCP_COUNT(s->tx_len, n);
    while (n) {
        struct fl_tcp_seg *seg = &s->segs[s->seg_head];
        uint32_t left = seg->len - s->seg_off;
        void *token = seg->token;

        assert(s->nr_segs);
        if (n < left) {
            s->seg_off += (uint32_t)n;
            return;
        }
        n -= left;
        s->seg_off = 0;
        if (seg->own) {
            s->tx_head = (uint32_t)(seg->ptr - s->tx_buf) + seg->len;
            s->tx_used -= seg->len;
        }
        s->seg_head = (s->seg_head + 1) & (s->seg_cap - 1);
        if (!--s->nr_segs)
            s->tx_open = false;
        if (token)
            s->ops->sent(s, token); /* may queue more */
    }
}
