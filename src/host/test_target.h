/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a small target on a loopback socket that is right by default and wrong as told. A thread a
 * connection, blocking. Made of the wire's structs alone, so that it agrees with the host by the
 * specification and not by sharing an engine.
 */
#ifndef FL_HOST_TEST_TARGET_H
#define FL_HOST_TEST_TARGET_H

#include "host/test_target_admin.h"

/* The data of a write: in the capsule, or asked for. false: the connection is over. */
static inline bool fake_fetch(struct fake_conn *c, const struct fl_nvme_sqe *sqe, const uint8_t *capsule,
                              uint8_t *to, uint32_t len)
{
    uint32_t step = fake_get(c->fake->r2t_len) ? (uint32_t)fake_get(c->fake->r2t_len) : len;

    if (capsule) {
        memcpy(to, capsule, len);
        return true;
    }
    for (uint32_t off = 0; off < len; off += step) {
        uint32_t want = FL_MIN(step, len - off), got = 0;
        union fl_tcp_pdu pdu = {
            .r2t = {.cccid = sqe->cid, .ttag = le16_of(9), .r2to = le32_of(off), .r2tl = le32_of(want)}};

        fake_send(c, &pdu, FL_TCP_R2T, 0, NULL, 0, false);
        while (got < want) {
            uint8_t *data;
            uint32_t n;
            bool ok = fake_pdu(c, &pdu, &data, &n);

            if (ok && pdu.hdr.type == FL_TCP_CMD && c->nr_waiting < 256) {
                c->waiting[c->nr_waiting++] = (struct fake_capsule){pdu, data};
                continue;
            }
            ok = ok && pdu.hdr.type == FL_TCP_H2C_DATA && n <= want - got;
            if (ok)
                memcpy(to + off + got, data, n);
            free(data);
            if (!ok)
                return false;
            got += n;
        }
    }
    return true;
}

static inline bool fake_io(struct fake_conn *c, const struct fl_nvme_sqe *sqe, const uint8_t *capsule)
{
    struct fake *f = c->fake;
    uint64_t off = fl_nvme_rw_slba(sqe) * FAKE_BLOCK;
    uint32_t len = fl_nvme_rw_nr_blocks(sqe) * FAKE_BLOCK;
    uint16_t cid = le16_get(sqe->cid);
    uint8_t *tmp;
    bool ok = true;

    fake_inc(f->nr_io);
    if (fake_get(f->delay_ms))
        usleep((useconds_t)fake_get(f->delay_ms) * 1000);
    if (fake_get(f->mute_io))
        return true;
    if (fake_take(&f->drop_count))
        return false;
    if (fake_take(&f->fail_count)) {
        fake_respond(c, cid, 0, (fl_nvme_status)fake_get(f->fail_status));
        return true;
    }
    if (sqe->opcode == FL_NVME_CMD_FLUSH || sqe->opcode == FL_NVME_CMD_VERIFY ||
        sqe->opcode == FL_NVME_CMD_DSM) {
        fake_respond(c, cid, 0, 0);
        return true;
    }
    if (!fl_range_fits(off, len, (uint64_t)fake_get(f->nr_blocks) * FAKE_BLOCK) || off + len > FAKE_LEN) {
        fake_respond(c, cid, 0, FL_NVME_SC_LBA_RANGE | FL_NVME_DNR);
        return true;
    }
    tmp = malloc(len);
    switch (sqe->opcode) {
    case FL_NVME_CMD_READ:
        memcpy(tmp, f->mem + off, len);
        fake_respond_data(c, cid, tmp, len, fake_take(&f->flip_count));
        break;
    case FL_NVME_CMD_WRITE:
        ok = fake_fetch(c, sqe, capsule, tmp, len);
        if (ok) {
            fake_inc(f->nr_writes);
            memcpy(f->mem + off, tmp, len);
            fake_respond(c, cid, 0, 0);
        }
        break;
    case FL_NVME_CMD_WRITE_ZEROES:
        memset(f->mem + off, 0, len);
        fake_respond(c, cid, 0, 0);
        break;
    case FL_NVME_CMD_COMPARE:
        ok = fake_fetch(c, sqe, capsule, tmp, len);
        fake_respond(c, cid, 0, memcmp(f->mem + off, tmp, len) ? FL_NVME_SC_COMPARE_FAILED : 0);
        break;
    default:
        fake_respond(c, cid, 0, FL_NVME_SC_INVALID_OPCODE | FL_NVME_DNR);
    }
    free(tmp);
    return ok;
}

static inline void *fake_serve(void *arg)
{
    struct fake_conn *c = arg;
    struct fake *f = c->fake;
    union fl_tcp_pdu pdu;
    uint8_t *data = NULL;
    uint32_t len;
    bool ok = true;

    while (ok) {
        if (c->nr_waiting) {
            pdu = c->waiting[0].pdu;
            data = c->waiting[0].data;
            memmove(&c->waiting[0], &c->waiting[1], (size_t)--c->nr_waiting * sizeof(c->waiting[0]));
        } else if (!fake_pdu(c, &pdu, &data, &len)) {
            break;
        }
        switch (pdu.hdr.type) {
        case FL_TCP_IC_REQ: {
            struct fl_tcp_ic ic = {.hdgst = pdu.ic_req.dgst & FL_TCP_DGST_HEADER,
                                   .ddgst = pdu.ic_req.dgst & FL_TCP_DGST_DATA,
                                   .pda = 4,
                                   .maxh2cdata = 16384};

            fl_tcp_ic_resp_encode(&pdu.ic_resp, &ic);
            fake_send(c, &pdu, FL_TCP_IC_RESP, 0, NULL, 0, false);
            c->hdgst = ic.hdgst;
            c->ddgst = ic.ddgst;
            break;
        }
        case FL_TCP_CMD:
            if (c->qid == 0 || pdu.cmd.sqe.opcode == FL_NVMF_OPCODE)
                fake_admin(c, &pdu.cmd.sqe, data);
            else
                ok = fake_io(c, &pdu.cmd.sqe, data);
            break;
        case FL_TCP_H2C_TERM:
            fake_set(f->term_fes, le16_get(pdu.term.fes));
            fake_inc(f->nr_terms);
            ok = false;
            break;
        default:
            ok = fake_get(f->mute);
        }
        free(data);
        data = NULL;
    }
    free(data);
    while (c->nr_waiting)
        free(c->waiting[--c->nr_waiting].data);
    shutdown(c->fd, SHUT_RDWR);
    pthread_mutex_lock(&f->lock);
    c->has_event = false;
    pthread_mutex_unlock(&f->lock);
    return NULL;
}

static inline void fake_reap(struct fake_conn *c)
{
    pthread_join(c->thread, NULL);
    close(c->fd);
    c->used = false;
}

static inline void *fake_accept(void *arg)
{
    struct fake *f = arg;
    int next = 0;

    while (!fake_get(f->stop)) {
        struct pollfd p = {.fd = f->listen_fd, .events = POLLIN};
        struct fake_conn *c = &f->conns[next];
        int fd, one = 1;

        if (poll(&p, 1, 20) <= 0)
            continue;
        fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        fake_inc(f->nr_accepted);
        pthread_mutex_lock(&f->lock);
        if (c->used) { /* the oldest; its host has long gone */
            shutdown(c->fd, SHUT_RDWR);
            pthread_mutex_unlock(&f->lock);
            fake_reap(c);
            pthread_mutex_lock(&f->lock);
        }
        *c = (struct fake_conn){.fake = f, .fd = fd, .used = true};
        pthread_mutex_init(&c->send_lock, NULL);
        pthread_mutex_unlock(&f->lock);
        pthread_create(&c->thread, NULL, fake_serve, c);
        next = (next + 1) % FAKE_MAX_CONNS;
    }
    return NULL;
}

static inline void fake_listen(struct fake *f)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(f->port)};
    socklen_t len = sizeof(a);
    int one = 1;

    f->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(f->listen_fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    assert_int_equal(bind(f->listen_fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(listen(f->listen_fd, 64), 0);
    getsockname(f->listen_fd, (struct sockaddr *)&a, &len);
    f->port = ntohs(a.sin_port);
    snprintf(f->url, sizeof(f->url), "nvme+tcp://127.0.0.1:%u/" FAKE_NQN "?ns=1", f->port);
    fake_set(f->stop, 0);
    pthread_create(&f->thread, NULL, fake_accept, f);
}

static inline struct fake *fake_start(void)
{
    struct fake *f = calloc(1, sizeof(*f));

    *f = (struct fake){.nr_blocks = FAKE_LEN / FAKE_BLOCK,
                       .nr_queues = 8,
                       .mdts = 5,
                       .capsule_len = 8192,
                       .nr_entries = 128,
                       .nr_namespaces = 1,
                       .uuid0 = 7};
    pthread_mutex_init(&f->lock, NULL);
    f->mem = calloc(1, FAKE_LEN);
    fake_listen(f);
    return f;
}

/* Cuts every connection. */
static inline void fake_cut(struct fake *f)
{
    pthread_mutex_lock(&f->lock);
    for (int i = 0; i < FAKE_MAX_CONNS; i++)
        if (f->conns[i].used)
            shutdown(f->conns[i].fd, SHUT_RDWR);
    pthread_mutex_unlock(&f->lock);
}

/* No listener any more, and no connection. fake_listen brings it back on the same port. */
static inline void fake_down(struct fake *f)
{
    fake_set(f->stop, 1);
    pthread_join(f->thread, NULL);
    close(f->listen_fd);
    fake_cut(f);
    for (int i = 0; i < FAKE_MAX_CONNS; i++)
        if (f->conns[i].used)
            fake_reap(&f->conns[i]);
}

static inline void fake_event(struct fake *f, uint32_t dw0)
{
    for (int i = 0; i < FAKE_MAX_CONNS; i++) {
        struct fake_conn *c = &f->conns[i];
        bool has;

        pthread_mutex_lock(&f->lock);
        has = c->used && c->has_event;
        c->has_event = false;
        pthread_mutex_unlock(&f->lock);
        if (has)
            fake_respond(c, c->event_cid, dw0, 0);
    }
}

static inline void fake_end(struct fake *f)
{
    fake_down(f);
    free(f->mem);
    free(f);
}

#endif
