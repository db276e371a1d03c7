/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a small target on a loopback socket that is right by default and wrong as told. A thread a
 * connection, blocking. Made of the wire's structs alone, so that it agrees with the host by the
 * specification and not by sharing an engine.
 */
#ifndef FL_HOST_TEST_TARGET_H
#define FL_HOST_TEST_TARGET_H

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

static inline void fake_id_ctrl(struct fake *f, struct fl_nvme_id_ctrl *id)
{
    *id = (struct fl_nvme_id_ctrl){
        .mdts = (uint8_t)f->mdts,
        .cntlid = le16_of(1),
        .ver = le32_of(FL_NVME_VS_1_4),
        .oaes = le32_of(FL_NVME_OAES_NS_ATTR),
        .cntrltype = 1,
        .kas = le16_of(10),
        .sqes = 0x66,
        .cqes = 0x44,
        .maxcmd = le16_of(1024),
        .nn = le32_of(1024),
        .mnan = le32_of(1024),
        .sgls = le32_of(FL_NVME_SGLS_SUPPORTED | FL_NVME_SGLS_OFFSET | FL_NVME_SGLS_TRANSPORT),
        .ioccsz = le32_of((64 + f->capsule_len) / 16),
        .iorcsz = le32_of(1)};
    memset(id->mn, ' ', sizeof(id->mn));
    memcpy(id->mn, "fake", 4);
    memset(id->sn, ' ', sizeof(id->sn));
    memcpy(id->sn, "0001", 4);
    memcpy(id->fr, "1.0     ", 8);
    memcpy(id->subnqn, FAKE_NQN, sizeof(FAKE_NQN));
    if (f->tweak)
        f->tweak(id);
}

static inline void fake_identify(struct fake_conn *c, const struct fl_nvme_sqe *sqe)
{
    struct fake *f = c->fake;
    uint8_t *page = calloc(1, FL_NVME_IDENTIFY_LEN);
    uint32_t nsid = le32_get(sqe->nsid);
    fl_nvme_status status = 0;
    size_t pos = 0;
    uint8_t uuid[16] = {fake_get(f->uuid0), 1, 2};

    switch (le32_get(sqe->cdw10) & 0xff) {
    case FL_NVME_CNS_CTRL:
        fake_id_ctrl(f, (void *)page);
        break;
    case FL_NVME_CNS_NS: {
        struct fl_nvme_id_ns *ns = (void *)page;

        if (nsid && nsid <= (uint32_t)f->nr_namespaces)
            *ns = (struct fl_nvme_id_ns){.nsze = le64_of(fake_get(f->nr_blocks)), .lbaf[0].lbads = 9};
        else
            status = FL_NVME_SC_INVALID_NS | FL_NVME_DNR;
        break;
    }
    case FL_NVME_CNS_NS_ACTIVE_LIST:
        for (int i = 0, at = 0; i < f->nr_namespaces; i++)
            if ((uint32_t)i + 1 > nsid)
                ((struct fl_nvme_ns_list *)page)->nsid[at++] = le32_of((uint32_t)i + 1);
        break;
    case FL_NVME_CNS_NS_DESC_LIST:
        fl_nvme_ns_desc_add(page, FL_NVME_IDENTIFY_LEN, &pos, FL_NVME_NIDT_UUID, uuid);
        break;
    default:
        status = FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR;
    }
    if (status)
        fake_respond(c, le16_get(sqe->cid), 0, status);
    else
        fake_respond_data(c, le16_get(sqe->cid), page, FL_NVME_IDENTIFY_LEN, false);
    free(page);
}

static inline void fake_fabrics(struct fake_conn *c, const struct fl_nvme_sqe *sqe, const uint8_t *data)
{
    struct fake *f = c->fake;
    const struct fl_nvmf_connect_cmd *con = (const void *)sqe;
    const struct fl_nvmf_property_get_cmd *get = (const void *)sqe;
    const struct fl_nvmf_property_set_cmd *set = (const void *)sqe;
    uint16_t cid = le16_get(sqe->cid);
    uint64_t value = 0;

    switch (fl_nvmf_fctype(sqe)) {
    case FL_NVMF_CONNECT:
        c->qid = le16_get(con->qid);
        if (!c->qid)
            fake_set(f->kato_seen, le32_get(con->kato));
        if (fake_get(f->connect_status))
            fake_respond(c, cid, f->connect_dw0, (fl_nvme_status)fake_get(f->connect_status));
        else if (c->qid && fake_take(&f->held_count))
            fake_respond(c, cid, 0, FL_NVME_SC_CMD_SEQ_ERROR | FL_NVME_DNR);
        else
            fake_respond(c, cid, 1, 0);
        return;
    case FL_NVMF_PROPERTY_GET:
        switch (le32_get(get->ofst)) {
        case FL_NVMF_PROP_CAP:
            value = (f->nr_entries - 1) | 2ull << FL_NVME_CAP_TO_SHIFT | FL_NVME_CAP_CSS_NVM;
            break;
        case FL_NVMF_PROP_VS:
            value = FL_NVME_VS_1_4;
            break;
        case FL_NVMF_PROP_CSTS:
            value = FL_NVME_CSTS_RDY;
            if (fl_nvme_cc_shn(c->cc))
                value |= FL_NVME_CSTS_SHST_COMPLETE << FL_NVME_CSTS_SHST_SHIFT;
            break;
        }
        fake_respond(c, cid, value, 0);
        return;
    case FL_NVMF_PROPERTY_SET:
        c->cc = (uint32_t)le64_get(set->value);
        if (fl_nvme_cc_shn(c->cc))
            fake_inc(f->nr_shutdowns);
        fake_respond(c, cid, 0, 0);
        return;
    default:
        fake_respond(c, cid, 0, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
    }
}

static inline void fake_log(struct fake_conn *c, const struct fl_nvme_sqe *sqe)
{
    struct fake *f = c->fake;
    uint32_t len = (uint32_t)FL_MIN(fl_nvme_log_len(sqe), (uint64_t)65536);
    uint8_t *page = calloc(1, len);

    fake_inc(f->nr_logs);
    if (fl_nvme_log_lid(sqe) == FL_NVME_LOG_DISCOVERY && f->log_page)
        f->log_page(f, page, fl_nvme_log_offset(sqe), len);
    fake_respond_data(c, le16_get(sqe->cid), page, len, false);
    free(page);
}

static inline void fake_admin(struct fake_conn *c, const struct fl_nvme_sqe *sqe, const uint8_t *data)
{
    struct fake *f = c->fake;
    uint16_t cid = le16_get(sqe->cid);
    uint32_t n = f->nr_queues - 1;

    for (uint64_t start = fl_now_ns();
         fl_now_ns() - start < (uint64_t)fake_get(f->admin_delay_ms) * FL_NS_PER_MS;)
        usleep(10000);
    switch (sqe->opcode) {
    case FL_NVMF_OPCODE:
        fake_fabrics(c, sqe, data);
        break;
    case FL_NVME_ADM_IDENTIFY:
        fake_identify(c, sqe);
        break;
    case FL_NVME_ADM_SET_FEATURES:
        fake_respond(c, cid, (uint8_t)le32_get(sqe->cdw10) == FL_NVME_FEAT_NUM_QUEUES ? n << 16 | n : 0, 0);
        break;
    case FL_NVME_ADM_GET_LOG_PAGE:
        fake_log(c, sqe);
        break;
    case FL_NVME_ADM_KEEP_ALIVE:
        fake_inc(f->nr_keep_alives);
        fake_respond(c, cid, 0, 0);
        break;
    case FL_NVME_ADM_ASYNC_EVENT:
        pthread_mutex_lock(&f->lock);
        c->has_event = true;
        c->event_cid = cid;
        pthread_mutex_unlock(&f->lock);
        break;
    default:
        fake_respond(c, cid, 0, FL_NVME_SC_INVALID_OPCODE | FL_NVME_DNR);
    }
}

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
