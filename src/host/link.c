/* SPDX-License-Identifier: Apache-2.0 */
#include "host/link.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/util.h"
#include "host/status.h"

#define MAX_RX_ROUNDS 4 /* reads in one fl_link_io while the socket fills all that is offered */

static struct fl_link *link_of(struct fl_tcp_host *host)
{
    return FL_CONTAINER_OF(host, struct fl_link, host);
}

/* ---- bytes ---- */

static int send_pending(struct fl_link *l)
{
    struct fl_tcp_stream *s = &l->host.stream;
    struct iovec iov[FL_TCP_STREAM_IOV_MAX];

    fl_tcp_host_pump(&l->host);
    while (fl_tcp_stream_tx_pending(s)) {
        struct msghdr msg = {.msg_iov = iov,
                             .msg_iovlen = (size_t)fl_tcp_stream_tx_iov(s, iov, FL_TCP_STREAM_IOV_MAX)};
        ssize_t n = msg.msg_iovlen == 1 ? send(l->fd, iov[0].iov_base, iov[0].iov_len, MSG_NOSIGNAL)
                                        : sendmsg(l->fd, &msg, MSG_NOSIGNAL);

        if (n < 0) {
            if (errno == EINTR)
                continue;
            l->tx_blocked = errno == EAGAIN;
            l->bad_memory = errno == EFAULT;
            return l->tx_blocked ? 0 : -errno;
        }
        fl_tcp_stream_tx_done(s, (size_t)n);
        fl_tcp_host_pump(&l->host);
    }
    l->tx_blocked = false;
    return 0;
}

static size_t iov_len(const struct iovec *iov, int nr)
{
    size_t len = 0;

    for (int i = 0; i < nr; i++)
        len += iov[i].iov_len;
    return len;
}

/* The engine broke: its words, and a last try to let the controller know. */
static int engine_broke(struct fl_link *l)
{
    fl_error_set(&l->err, l->host.err.code, "%s", l->host.err.text);
    if (!l->host.term_fes)
        send_pending(l);
    return l->err.code;
}

static int receive(struct fl_link *l)
{
    struct iovec iov[FL_TCP_STREAM_IOV_MAX];

    for (int round = 0; round < MAX_RX_ROUNDS; round++) {
        int nr = fl_tcp_host_rx_iov(&l->host, iov, FL_TCP_STREAM_IOV_MAX);
        ssize_t n = nr == 1 ? recv(l->fd, iov[0].iov_base, iov[0].iov_len, 0) : readv(l->fd, iov, nr);

        if (fl_unlikely(n <= 0)) {
            if (n == 0)
                return fl_error_set(&l->err, -ECONNRESET, "the target closed the connection");
            if (errno == EAGAIN)
                return 0;
            if (errno == EINTR)
                continue;
            /* Later again if it has come back meanwhile; else some of it is thrown away. */
            if (errno == EFAULT) {
                fl_tcp_host_bad_memory(&l->host);
                continue;
            }
            return fl_error_set(&l->err, -errno, "receive from the target: %s", strerror(errno));
        }
        if (fl_unlikely(fl_tcp_host_rx_done(&l->host, (size_t)n) < 0))
            return engine_broke(l);
        if ((size_t)n < iov_len(iov, nr))
            return 0; /* that was all */
    }
    return 0;
}

static int rdma_broke(struct fl_link *l)
{
    const struct fl_error *err = fl_rdma_host_err(l->rdma);

    return fl_error_set(&l->err, err->code, "%s", err->text);
}

int fl_link_send(struct fl_link *l)
{
    if (l->rdma)
        return 0; /* what was submitted is posted */
    if (!fl_tcp_stream_tx_pending(&l->host.stream) && fl_list_empty(&l->host.tx_wait))
        return 0;
    return send_pending(l);
}

int fl_link_io(struct fl_link *l)
{
    int r;

    if (l->rdma)
        return fl_unlikely(fl_rdma_host_io(l->rdma) < 0) ? rdma_broke(l) : 0;
    r = fl_link_send(l);

    if (fl_unlikely(r < 0)) {
        if (!l->bad_memory)
            receive(l); /* the controller may have said why it closed */
        fl_error_set(&l->err, r, "send to the target: %s",
                     l->bad_memory ? "memory of a write is not there: it ends, and the others go out again"
                                   : strerror(-r));
        return l->err.code;
    }
    return receive(l);
}

/* ---- the way to READY ---- */

/* The address that answered. */
static void format_peer(const struct fl_link *l, char text[FL_ADDR_TEXT_LEN])
{
    struct fl_addr addr = {.len = sizeof(addr.ss)};

    snprintf(text, FL_ADDR_TEXT_LEN, "HOST");
    if (l->rdma)
        fl_addr_format(fl_rdma_host_addr(l->rdma), text);
    else if (!getpeername(l->fd, (struct sockaddr *)&addr.ss, &addr.len))
        fl_addr_format(&addr, text);
}

static int refused(struct fl_link *l, fl_nvme_status status)
{
    const struct fl_nvmf_connect_data *d = &l->connect_data;
    uint32_t dw0 = le32_get(l->connect_req.cqe.dw0);
    char peer[FL_ADDR_TEXT_LEN];
    int code = fl_connect_status_errno(status);

    l->nvme_status = status;
    if (fl_nvme_status_code(status) == FL_NVME_SC_CONNECT_INVALID_HOST)
        return fl_error_set(&l->err, code,
                            "the target does not allow this host, %s, to use %s: let it be allowed there, or "
                            "come under another NQN",
                            d->hostnqn, d->subnqn);
    if (fl_nvme_status_code(status) != FL_NVME_SC_CONNECT_INVALID_PARAM)
        return fl_error_set(&l->err, code, "the target refused Connect: %s (status %xh)",
                            fl_nvme_status_text(status), fl_nvme_status_code(status));
    /* Which field: its offset, and whether that counts in the data or in the command (Fabrics 1.1, 3.3). */
    if (dw0 == fl_nvmf_connect_invalid(true, offsetof(struct fl_nvmf_connect_data, subnqn))) {
        format_peer(l, peer);
        return fl_error_set(&l->err, -ENOENT,
                            "the target has no subsystem %s (farlane discover nvme+%s://%s lists those that "
                            "it has)",
                            d->subnqn, l->rdma ? "rdma" : "tcp", peer);
    }
    if (dw0 == fl_nvmf_connect_invalid(true, offsetof(struct fl_nvmf_connect_data, hostnqn)))
        return fl_error_set(&l->err, -EACCES, "the target does not accept the host NQN %s", d->hostnqn);
    return fl_error_set(&l->err, -EINVAL, "the target refused Connect: byte %u of its %s is invalid",
                        dw0 & 0xffff, dw0 & FL_NVMF_IATTR_DATA ? "data" : "command");
}

static const struct fl_tcp_host_ops ready_ops;

static void connected(struct fl_link *l, struct fl_request *req)
{
    fl_nvme_status status = fl_nvme_cqe_status(&req->cqe);

    if (req->state == FL_REQUEST_UNSENT) {
        fl_error_set(&l->err, -(int)le32_get(req->cqe.dw0), "the memory of Connect cannot be registered");
        return;
    }
    if (status) {
        refused(l, status);
        return;
    }
    if (le32_get(req->cqe.dw0) & (FL_NVMF_AUTHREQ_ATR | FL_NVMF_AUTHREQ_ASCR)) {
        fl_error_set(&l->err, -EACCES,
                     "the target asks for in-band authentication, which this host does not have");
        return;
    }
    l->cntlid = fl_nvmf_connect_cntlid(&req->cqe);
    if (l->rdma)
        fl_rdma_host_set_limits(l->rdma, l->capsule_len, l->max_pieces);
    l->host.capsule_len = l->capsule_len;
    l->host.ops = &ready_ops;
    l->state = FL_LINK_READY;
}

static void connect_done(struct fl_tcp_host *host, struct fl_request *req)
{
    connected(link_of(host), req);
}

static void owners_done(struct fl_tcp_host *host, struct fl_request *req)
{
    struct fl_link *l = link_of(host);

    l->ops->done(l, req);
}

static const struct fl_tcp_host_ops ready_ops = {.done = owners_done};

static void rdma_done(void *user, struct fl_request *req)
{
    struct fl_link *l = user;

    if (fl_likely(l->state == FL_LINK_READY))
        l->ops->done(l, req);
    else
        connected(l, req);
}

static void ic_done(struct fl_tcp_host *host)
{
    struct fl_link *l = link_of(host);

    if (host->asked.hdgst != host->agreed.hdgst || host->asked.ddgst != host->agreed.ddgst) {
        fl_error_set(&l->err, -EOPNOTSUPP, "the target does not offer the %s digest that was asked for",
                     host->asked.hdgst != host->agreed.hdgst ? "header" : "data");
        return;
    }
    l->state = FL_LINK_CONNECT;
    fl_tcp_host_submit(host, &l->connect_req);
}

static const struct fl_tcp_host_ops setup_ops = {.ready = ic_done, .done = connect_done};

static void prepare_connect(struct fl_link *l, const struct fl_link_options *o)
{
    struct fl_nvmf_connect_cmd *cmd = (struct fl_nvmf_connect_cmd *)&l->connect_req.pdu.sqe;

    l->connect_req = (struct fl_request){
        .iov = &l->connect_iov, .nr_iov = 1, .data_len = sizeof(l->connect_data)};
    l->connect_iov = (struct iovec){&l->connect_data, sizeof(l->connect_data)};
    fl_link_bind(l, &l->connect_req, o->nr_reqs);
    cmd->opcode = FL_NVMF_OPCODE;
    cmd->fctype = FL_NVMF_CONNECT;
    cmd->qid = le16_of(o->qid);
    cmd->sqsize = le16_of(o->sqsize);
    cmd->cattr =
        FL_NVMF_CATTR_NO_SQ_FLOW; /* the engine never has more out than there is room for; SUCCESS needs it */
    cmd->kato = le32_of(o->kato_ms);
}

/* The connect request has a slot of its own, after those of the owner. */
static int start_rdma(struct fl_link *l, const struct fl_link_options *o)
{
    const struct fl_rdma_host_options options = {.addrs = o->addrs,
                                                 .nr_addrs = o->nr_addrs,
                                                 .dev = o->dev,
                                                 .qid = o->qid,
                                                 .cntlid = o->cntlid,
                                                 .sqsize = o->sqsize,
                                                 .nr_reqs = o->nr_reqs + 1,
                                                 .done = rdma_done,
                                                 .user = l};

    if (fl_rdma_host_create(&options, &l->rdma, &l->err) < 0)
        return l->err.code;
    prepare_connect(l, o);
    l->state = FL_LINK_DIAL;
    return 0;
}

int fl_link_start(struct fl_link *l, const struct fl_link_options *o, const struct fl_link_ops *ops,
                  uint64_t now_ns)
{
    const struct fl_tcp_host_options host = {.hdgst = o->hdgst,
                                             .ddgst = o->ddgst,
                                             .nr_reqs = o->nr_reqs + 1,
                                             .max_data_len = FL_MAX(o->max_data_len, 4096u),
                                             .rx_cap = o->rx_cap,
                                             .guess = o->qid != 0};
    int r;

    *l = (struct fl_link){
        .fd = -1,
        .serial = l->serial + 1,
        .ops = ops,
        .timeout_ms = o->timeout_ms,
        /* RDMA's admin queues have no data in capsules (transport specification 1.0, 3.3) */
        .capsule_len = o->rdma && !o->qid ? 0 : o->capsule_len,
        .max_pieces = o->max_pieces};
    if (fl_nvmf_connect_data_encode(&l->connect_data, o->hostid, o->cntlid, o->subnqn, o->hostnqn) < 0)
        return fl_error_set(&l->err, -EINVAL, "an NQN is empty or too long");
    l->deadline_ns = now_ns + o->timeout_ms * FL_NS_PER_MS;
    if (o->rdma)
        return start_rdma(l, o);
    r = fl_tcp_host_init(&l->host, &setup_ops, &host);
    if (r < 0)
        return fl_error_set(&l->err, r, "out of memory");
    prepare_connect(l, o);
    l->state = FL_LINK_DIAL;
    fl_dial_start(&l->dial, o->addrs, o->nr_addrs, now_ns);
    return 0;
}

static int dial_rdma(struct fl_link *l)
{
    int r = fl_rdma_host_step(l->rdma);

    if (r < 0)
        return rdma_broke(l);
    if (r > 0) {
        l->state = FL_LINK_CONNECT;
        fl_rdma_host_submit(l->rdma, &l->connect_req);
    }
    return 0;
}

static int dial(struct fl_link *l, uint64_t now_ns)
{
    int fd = fl_dial_step(&l->dial, now_ns);

    if (fd < 0)
        return fd == -EINPROGRESS ? 0 : fl_error_set(&l->err, fd, "%s", l->dial.err.text);
    l->fd = fd;
    l->state = FL_LINK_IC;
    fl_tcp_host_start(&l->host);
    return 0;
}

static int timed_out(struct fl_link *l)
{
    static const char *const waits[] = {[FL_LINK_DIAL] = "the TCP connect",
                                        [FL_LINK_IC] = "ICReq",
                                        [FL_LINK_CONNECT] = "the Connect command"};

    if (l->state == FL_LINK_IC)
        return fl_error_set(
            &l->err, -ETIMEDOUT,
            "whoever listens there does not answer as an NVMe/TCP target: is it one, and is it "
            "stopped? (no answer to %s within %u ms)",
            waits[l->state], l->timeout_ms);
    return fl_error_set(&l->err, -ETIMEDOUT, "no answer to %s within %u ms",
                        l->rdma && l->state == FL_LINK_DIAL ? "the RDMA connect" : waits[l->state],
                        l->timeout_ms);
}

int fl_link_step(struct fl_link *l, uint64_t now_ns)
{
    int r = 0;

    if (l->state == FL_LINK_DIAL)
        r = l->rdma ? dial_rdma(l) : dial(l, now_ns);
    if (r == 0 && l->state > FL_LINK_DIAL)
        r = fl_link_io(l);
    if (r == 0 && l->state == FL_LINK_CONNECT && !l->err.code)
        r = fl_link_io(l); /* Connect itself */
    if (r < 0)
        return r;
    if (l->err.code)
        return l->err.code;
    if (l->state == FL_LINK_READY)
        return 1;
    return now_ns >= l->deadline_ns ? timed_out(l) : 0;
}

void fl_link_stop(struct fl_link *l)
{
    if (l->state == FL_LINK_DOWN)
        return;
    if (l->rdma) {
        fl_rdma_host_destroy(l->rdma);
        l->rdma = NULL;
        l->state = FL_LINK_DOWN;
        return;
    }
    fl_dial_stop(&l->dial);
    if (l->fd >= 0)
        close(l->fd);
    l->fd = -1;
    fl_tcp_host_fini(&l->host);
    l->state = FL_LINK_DOWN;
}

bool fl_link_peek(struct fl_link *l)
{
    char byte;

    if (l->rdma)
        return fl_rdma_host_peek(l->rdma);
    return recv(l->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) >= 0 || errno != EAGAIN;
}

void fl_link_taken(struct fl_link *l, struct fl_taken *taken)
{
    if (!l->rdma || !fl_rdma_host_taken(l->rdma, taken))
        *taken = (struct fl_taken){.path = FL_PATH_TCP};
}

bool fl_link_arm(struct fl_link *l)
{
    return l->rdma && l->state > FL_LINK_DIAL && fl_rdma_host_arm(l->rdma);
}

int fl_link_pollfds(const struct fl_link *l, struct pollfd p[FL_LINK_MAX_FDS])
{
    int n = 0;

    if (l->rdma)
        return fl_rdma_host_pollfds(l->rdma, p);
    if (l->state == FL_LINK_DIAL) {
        for (uint32_t i = 0; i < l->dial.nr_tried; i++)
            if (l->dial.fds[i] >= 0)
                p[n++] = (struct pollfd){.fd = l->dial.fds[i], .events = POLLOUT};
    } else if (l->fd >= 0) {
        p[n++] = (struct pollfd){.fd = l->fd, .events = (short)(POLLIN | (l->tx_blocked ? POLLOUT : 0))};
    }
    return n;
}

uint64_t fl_link_deadline(const struct fl_link *l)
{
    if (l->state == FL_LINK_DOWN || l->state == FL_LINK_READY)
        return UINT64_MAX;
    return l->state == FL_LINK_DIAL && !l->rdma ? FL_MIN(l->deadline_ns, l->dial.next_ns) : l->deadline_ns;
}
