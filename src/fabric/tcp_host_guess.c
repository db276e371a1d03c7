/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guessing what comes next. A controller that answers reads in the order in which they were sent, each by one
 * C2HData with LAST and SUCCESS, sends bytes that are known in advance but for the data: so one readv can put
 * many headers here and many payloads straight into the callers' buffers, where else each small payload would
 * pass the stream's buffer. Headers are then compared whole with what was expected. From the first that
 * differs on, nothing of the guess holds: what lies in the wrong places is collected and goes the ordinary
 * way, and guessing rests for a while, the longer the more often it was wrong.
 *
 * A buffer may so hold another read's data for a moment. It is ours until its own read has ended, and is
 * filled again before.
 */
#include "fabric/tcp_host.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"

#define MAX_LEN   8192u        /* payloads worth it; larger ones are read straight into place anyway */
#define BUF_LEN   (132u << 10) /* all that one guess can bring */
#define MAX_STEPS 64           /* entries of the order looked at for one guess */
#define MAX_REST  1024u        /* reads without a guess after a wrong one */

#define HDR_LEN sizeof(struct fl_tcp_data)
_Static_assert(HDR_LEN == 24, "three words");

int fl_tcp_guess_init(struct fl_tcp_host *h)
{
    struct fl_tcp_guess *g = &h->guess;
    uint32_t size = 64;

    while (size < 2 * h->nr_reqs)
        size *= 2;
    g->order = calloc(size, sizeof(g->order[0]));
    g->buf = malloc(BUF_LEN);
    if (!g->order || !g->buf) {
        fl_tcp_guess_fini(h);
        return -ENOMEM;
    }
    g->mask = size - 1;
    g->max = 2;
    g->rest_len = 4;
    return 0;
}

void fl_tcp_guess_fini(struct fl_tcp_host *h)
{
    free(h->guess.order);
    free(h->guess.resting);
    free(h->guess.buf);
    h->guess = (struct fl_tcp_guess){0};
}

/* The read that an entry of the order stands for, if nothing of its answer has come yet. */
static struct fl_request *waiting_read(const struct fl_tcp_host *h, uint16_t cid)
{
    struct fl_request *req = h->reqs[cid & h->slot_mask];

    return req->cid == cid && req->state == FL_REQUEST_SENT && !req->data_done ? req : NULL;
}

static void expect(struct fl_tcp_guess *g, struct fl_request *req, struct iovec *iov)
{
    struct fl_tcp_expected *e = &g->expected[g->nr++];

    e->req = req;
    iov[0] = (struct iovec){&e->came, HDR_LEN};
    iov[1] = (struct iovec){(uint8_t *)req->iov->iov_base + req->iov_skip, req->data_len};
}

/* A guess would read into memory that is not there. What is sent meanwhile is not in the order: a guess that
 * begins before it has come is wrong once. */
void fl_tcp_guess_rest(struct fl_tcp_host *h, bool rest)
{
    struct fl_tcp_guess *g = &h->guess;

    if (rest && g->order) {
        g->resting = g->order;
        g->order = NULL;
        g->head = g->tail = g->nr = 0;
    } else if (!rest && g->resting) {
        g->order = g->resting;
        g->resting = NULL;
    }
}

static uint64_t word(const struct fl_tcp_data *hdr, uint32_t i)
{
    le64 w;

    memcpy(&w, (const uint8_t *)hdr + i * sizeof(w), sizeof(w));
    return le64_get(w);
}

/* The whole header, three words of it: type, flags, lengths; identifier, offset 0; length, reserved. */
static bool as_expected(const struct fl_tcp_expected *e)
{
    const uint64_t first = FL_TCP_C2H_DATA | (uint64_t)(FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS) << 8 |
                           (uint64_t)HDR_LEN << 16 | (uint64_t)HDR_LEN << 24;
    uint32_t len = e->req->data_len;

    return word(&e->came, 0) == (first | (HDR_LEN + len) << 32) && word(&e->came, 1) == e->req->cid &&
           word(&e->came, 2) == len;
}

/* Only between PDUs or in the payload of one that has its place, with nothing left over in the stream's
 * buffer. */
static bool may_guess(struct fl_tcp_host *h, int n)
{
    struct fl_tcp_guess *g = &h->guess;
    const struct fl_tcp_stream *s = &h->stream;

    if (!g->order || g->head == g->tail || s->limits.hdgst || s->limits.ddgst)
        return false;
    if (s->rx_head != s->rx_tail || !s->rx_offered || n > 2 || (n == 1) != (s->pdu_left == 0))
        return false;
    if (g->rest) {
        g->rest--;
        return false;
    }
    return true;
}

int fl_tcp_host_rx_iov(struct fl_tcp_host *h, struct iovec *iov, int max)
{
    struct fl_tcp_guess *g = &h->guess;
    int n = fl_tcp_stream_rx_iov(&h->stream, iov, max), at = n - 1;
    uint32_t len = 0, steps = 0;

    g->nr = 0;
    if (n <= 0 || !may_guess(h, n))
        return n;
    g->direct = n == 2 ? h->stream.pdu_left : 0;
    for (uint32_t i = g->head; i != g->tail && g->nr < g->max && at + 2 <= max && steps++ < MAX_STEPS; i++) {
        struct fl_request *req = waiting_read(h, g->order[i & g->mask]);

        if (!req) {
            if (i == g->head)
                g->head++;
            continue;
        }
        if (req->nr_iov != 1 || req->data_len > MAX_LEN || len + HDR_LEN + req->data_len > BUF_LEN)
            break; /* who comes after it is not known */
        len += (uint32_t)HDR_LEN + req->data_len;
        expect(g, req, iov + at);
        at += 2;
    }
    return g->nr ? at : n;
}

/* Bytes that lie elsewhere go the ordinary way. */
static int feed(struct fl_tcp_host *h, const uint8_t *p, size_t len)
{
    while (len) {
        struct iovec iov[FL_TCP_STREAM_IOV_MAX];
        int nr = fl_tcp_stream_rx_iov(&h->stream, iov, FL_TCP_STREAM_IOV_MAX), r;
        size_t n = 0;

        for (int i = 0; i < nr && n < len; i++) {
            size_t k = FL_MIN(iov[i].iov_len, len - n);

            memcpy(iov[i].iov_base, p + n, k);
            n += k;
        }
        if (!n)
            return -EPROTO;
        r = fl_tcp_stream_rx_done(&h->stream, n);
        if (r < 0)
            return r;
        p += n;
        len -= n;
    }
    return 0;
}

/* The guess was wrong from entry i on; n bytes lie there. All are copied before any goes to its place, which
 * may be where another still lies. */
static int unscramble(struct fl_tcp_host *h, uint32_t i, size_t n)
{
    struct fl_tcp_guess *g = &h->guess;
    size_t len = 0;

    g->rest = g->rest_len;
    g->rest_len = FL_MIN(g->rest_len * 2, MAX_REST);
    for (; len < n; i++) {
        const struct fl_tcp_expected *e = &g->expected[i];
        size_t k = FL_MIN(n - len, HDR_LEN);

        memcpy(g->buf + len, &e->came, k);
        len += k;
        k = FL_MIN(n - len, (size_t)e->req->data_len);
        memcpy(g->buf + len, (const uint8_t *)e->req->iov->iov_base + e->req->iov_skip, k);
        len += k;
    }
    return feed(h, g->buf, n);
}

/* The last one, of which only a part has come: header and then, where it lies already, the beginning of its
 * payload. */
static int begin(struct fl_tcp_host *h, const struct fl_tcp_expected *e, size_t n)
{
    struct iovec iov[FL_TCP_STREAM_IOV_MAX];
    size_t header = FL_MIN(n, HDR_LEN);
    int r = feed(h, (const uint8_t *)&e->came, header);

    if (r < 0 || n == header)
        return r;
    fl_tcp_stream_rx_iov(&h->stream, iov, FL_TCP_STREAM_IOV_MAX); /* names that very place */
    return fl_tcp_stream_rx_done(&h->stream, n - header);
}

int fl_tcp_guess_rx_done(struct fl_tcp_host *h, size_t n)
{
    struct fl_tcp_guess *g = &h->guess;
    size_t direct = FL_MIN(n, (size_t)g->direct);
    uint32_t i, nr = g->nr;
    int r = direct ? fl_tcp_stream_rx_done(&h->stream, direct) : 0;

    g->nr = 0;
    n -= direct;
    for (i = 0; r == 0 && n && i < nr; i++) {
        struct fl_tcp_expected *e = &g->expected[i];
        size_t len = HDR_LEN + e->req->data_len;

        if (fl_unlikely(n < HDR_LEN)) {
            r = begin(h, e, n);
            n = 0;
        } else if (fl_unlikely(!as_expected(e))) {
            return unscramble(h, i, n);
        } else if (fl_unlikely(n < len)) {
            r = begin(h, e, n);
            n = 0;
        } else {
            n -= len;
            fl_tcp_host_read_ended(h, e->req, (uint32_t)len);
        }
    }
    g->rest_len = 4;
    g->max = FL_MIN(i == nr ? nr * 2 : i + 1, (uint32_t)FL_TCP_HOST_MAX_GUESS);
    return r;
}
