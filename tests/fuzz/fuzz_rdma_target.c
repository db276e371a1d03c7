/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target's NVMe/RDMA connection over verbs made here: what is posted waits in a list, and the input says
 * in which order and with which status it is done, what capsules come, when the connection manager speaks,
 * and what the target does with its commands.
 *
 * Byte 0 chooses depth, qid, capsule size, receives in common and the places in the send queue; byte 1 seeds
 * the target. Then steps: a byte, and what belongs to it. Where both are FFh, what follows is the REQ: READs
 * allowed, length of its private data, the private data; then steps.
 *
 * Whatever comes: no more is posted than the queue pair was made for; memory of a READ or WRITE can be used
 * until it is done (ASan looks), and its pieces add up to the command's data; a response follows its data;
 * each command that was given to the target comes back; at the end nothing of verbs' is left, and all shared
 * receives are posted.
 */
#include "fuzz.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/util.h"
#include "fabric/rdma_conn.h"
#include "wire/nvme_rdma.h"

#define DATA_LEN 20000u
#define SENDS    512
#define RECVS    256

static uint8_t pattern[DATA_LEN];

struct posted {
    struct ibv_send_wr wr;
    struct ibv_sge sge;
    uint8_t inline_data[64];
};

static struct fuzz {
    const uint8_t *p;
    size_t left;
    uint32_t seed;
    /* verbs */
    struct ibv_device device;
    struct ibv_context context;
    struct ibv_pd pd;
    struct ibv_comp_channel comp;
    struct ibv_cq cq;
    struct ibv_srq srq;
    struct ibv_qp qp;
    struct rdma_cm_id id;
    struct rdma_event_channel channel;
    struct rdma_cm_event event;
    bool has_event, qp_dead;
    int nr_mrs, nr_objects, nr_ids;
    uint32_t max_send, max_recv, srq_len;
    struct posted sends[SENDS];
    uint32_t nr_sends, nr_unacked; /* unacked: their places are taken until a completion was polled */
    struct ibv_recv_wr recvs[RECVS];
    struct ibv_sge recv_sges[RECVS];
    uint32_t nr_recvs;
    struct {
        struct ibv_wc wc;
        uint32_t places;
    } done[SENDS + RECVS];
    uint32_t nr_done, unsignaled;
    /* target */
    struct fl_loop *loop;
    struct fl_conn *conn;
    struct fl_list held;
    struct fl_loop *other;  /* where the target moves the connection to, at its first command */
    struct fl_cmd *connect; /* that command, until it is there */
    bool moves, moving, was_moved;
    uint32_t capsule_len;
    int nr_commands, nr_released, nr_closed;
    uint8_t sum;
} f;

static uint32_t next_random(void)
{
    f.seed = f.seed * 1664525u + 1013904223u;
    return f.seed >> 16;
}

static uint32_t next_byte(void)
{
    if (!f.left)
        return 0;
    f.left--;
    return *f.p++;
}

/* ---- verbs ---- */

static void *made(void *p)
{
    f.nr_objects++;
    return p;
}

static int gone(void)
{
    assert(f.nr_objects-- > 0);
    return 0;
}

static int query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
    *attr = (struct ibv_device_attr){.max_qp_wr = f.max_send ? (int)f.max_send : 16384,
                                     .max_sge = 4,
                                     .max_srq = 1,
                                     .max_srq_wr = RECVS,
                                     .max_qp_init_rd_atom = 16};
    return 0;
}

static struct ibv_pd *alloc_pd(struct ibv_context *context)
{
    f.pd.context = context;
    return made(&f.pd);
}

static int dealloc_pd(struct ibv_pd *pd)
{
    return gone();
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
    struct ibv_mr *mr = next_random() % 64 ? calloc(1, sizeof(*mr)) : NULL;

    if (mr) {
        *mr = (struct ibv_mr){.addr = addr, .length = len, .lkey = 7, .pd = pd};
        f.nr_mrs++;
    }
    return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
    assert(f.nr_mrs-- > 0);
    free(mr);
    return 0;
}

static struct ibv_comp_channel *create_comp(struct ibv_context *context)
{
    f.comp.fd = eventfd(0, EFD_NONBLOCK);
    return made(&f.comp);
}

static int destroy_comp(struct ibv_comp_channel *channel)
{
    close(channel->fd);
    return gone();
}

static struct ibv_cq *create_cq(struct ibv_context *context, int cqe, void *user,
                                struct ibv_comp_channel *channel, int v)
{
    f.cq.context = context;
    return made(&f.cq);
}

static int destroy_cq(struct ibv_cq *cq)
{
    return gone();
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
    f.srq.context = pd->context;
    f.srq_len = attr->attr.max_wr;
    return made(&f.srq);
}

static int destroy_srq(struct ibv_srq *srq)
{
    assert(f.nr_recvs == f.srq_len); /* whoever took one has given it back */
    f.nr_recvs = 0;
    return gone();
}

static int get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **context)
{
    errno = EAGAIN;
    return -1;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned nr)
{
}

static int add_recv(const struct ibv_recv_wr *wr, uint32_t max)
{
    assert(f.nr_recvs < max && max <= RECVS);
    f.recvs[f.nr_recvs] = *wr;
    f.recv_sges[f.nr_recvs++] = wr->sg_list[0];
    return 0;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    assert(!f.qp_dead && !qp->srq);
    return add_recv(wr, f.max_recv);
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    return add_recv(wr, f.srq_len);
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    assert(!f.qp_dead);
    for (; wr; wr = wr->next) {
        struct posted *s = &f.sends[f.nr_sends];

        assert(f.nr_unacked < f.max_send && f.nr_sends < SENDS);
        f.nr_unacked++;
        f.nr_sends++;
        s->wr = *wr;
        assert(wr->num_sge == 1 && wr->sg_list[0].length);
        s->sge = wr->sg_list[0];
        if (wr->send_flags & IBV_SEND_INLINE) {
            assert(s->sge.length <= sizeof(s->inline_data));
            memcpy(s->inline_data, (const void *)(uintptr_t)s->sge.addr, s->sge.length);
        }
        if (wr->opcode == IBV_WR_SEND || wr->opcode == IBV_WR_SEND_WITH_INV)
            assert(s->sge.length == sizeof(struct fl_nvme_cqe) && (wr->send_flags & IBV_SEND_SIGNALED));
        else
            assert((wr->send_flags & IBV_SEND_SIGNALED) || wr->next);
    }
    return 0;
}

static int poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *wcs)
{
    int n = 0;

    while (n < max && f.nr_done) {
        wcs[n++] = f.done[0].wc;
        f.nr_unacked -= f.done[0].places;
        memmove(f.done, f.done + 1, --f.nr_done * sizeof(f.done[0]));
    }
    return n;
}

static int notify_cq(struct ibv_cq *cq, int solicited)
{
    return 0;
}

static struct fl_verbs verbs = {.query_device = query_device,
                                .alloc_pd = alloc_pd,
                                .dealloc_pd = dealloc_pd,
                                .reg_mr = reg_mr,
                                .dereg_mr = dereg_mr,
                                .create_comp_channel = create_comp,
                                .destroy_comp_channel = destroy_comp,
                                .create_cq = create_cq,
                                .destroy_cq = destroy_cq,
                                .create_srq = create_srq,
                                .destroy_srq = destroy_srq,
                                .get_cq_event = get_cq_event,
                                .ack_cq_events = ack_cq_events};

/* ---- the connection manager ---- */

static struct rdma_event_channel *create_channel(void)
{
    f.channel.fd = eventfd(0, EFD_NONBLOCK);
    return made(&f.channel);
}

static void destroy_channel(struct rdma_event_channel *channel)
{
    close(channel->fd);
    gone();
}

static int migrate(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
    return 0;
}

static int get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    uint64_t count;

    if (!f.has_event) {
        errno = EAGAIN;
        return -1;
    }
    f.has_event = false;
    assert(read(channel->fd, &count, sizeof(count)) == sizeof(count));
    *event = &f.event;
    return 0;
}

static int ack_event(struct rdma_cm_event *event)
{
    return 0;
}

static const char *event_str(enum rdma_cm_event_type type)
{
    return "an event";
}

static int create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    f.qp = (struct ibv_qp){.context = id->verbs, .srq = attr->srq};
    f.max_send = attr->cap.max_send_wr;
    f.max_recv = attr->cap.max_recv_wr;
    id->qp = made(&f.qp);
    return 0;
}

static void destroy_qp(struct rdma_cm_id *id)
{
    id->qp = NULL;
    f.qp_dead = true;
    f.nr_sends = f.nr_done = 0;
    if (!f.srq_len)
        f.nr_recvs = 0;
    gone();
}

static int destroy_id(struct rdma_cm_id *id)
{
    assert(!id->qp && f.nr_ids-- > 0);
    return 0;
}

static int accept_(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    return next_random() % 32 ? 0 : -1;
}

static int reject(struct rdma_cm_id *id, const void *private_data, uint8_t len)
{
    return 0;
}

static void complete_send(enum ibv_wc_status status);

/* What was not done is flushed. */
static int disconnect(struct rdma_cm_id *id)
{
    while (f.nr_sends)
        complete_send(IBV_WC_WR_FLUSH_ERR);
    return 0;
}

static struct fl_rdmacm cm = {.create_event_channel = create_channel,
                              .destroy_event_channel = destroy_channel,
                              .migrate_id = migrate,
                              .get_cm_event = get_event,
                              .ack_cm_event = ack_event,
                              .event_str = event_str,
                              .create_qp = create_qp,
                              .destroy_qp = destroy_qp,
                              .destroy_id = destroy_id,
                              .accept = accept_,
                              .reject = reject,
                              .disconnect = disconnect};

static const struct fl_rdma_lib lib = {.verbs = &verbs, .cm = &cm};

/* ---- the target ---- */

static void opened(struct fl_conn *conn, void *user)
{
    f.conn = conn;
}

static void complete(struct fl_cmd *cmd, fl_nvme_status status)
{
    fl_nvme_cqe_set(&cmd->cqe, le16_get(cmd->sqe.cid), 0, 0, status);
    fl_cmd_complete(cmd);
}

static void start(struct fl_cmd *cmd)
{
    if (cmd->transport_status) {
        complete(cmd, cmd->transport_status);
    } else if (!cmd->sgl_len) {
        complete(cmd, 0);
    } else if (cmd->sgl_len > DATA_LEN) {
        complete(cmd, FL_NVME_SC_SGL_INVALID_DATA);
    } else if (cmd->sqe.opcode & 1) {
        if (cmd->capsule_data && next_random() % 2) {
            for (uint32_t i = 0; i < cmd->sgl_len; i++)
                f.sum ^= ((const uint8_t *)cmd->capsule_data)[i];
            complete(cmd, 0);
            return;
        }
        cmd->data_len = 1 + next_random() % cmd->sgl_len;
        cmd->buf = cmd->data = malloc(cmd->data_len);
        fl_cmd_fetch(cmd);
    } else {
        cmd->data_len = 1 + next_random() % cmd->sgl_len;
        cmd->data = pattern;
        cmd->to_host = true;
        complete(cmd, next_random() % 8 ? 0 : FL_NVME_SC_INTERNAL);
    }
}

static void moved(struct fl_conn *conn)
{
    struct fl_cmd *cmd = f.connect;

    f.moving = false;
    f.was_moved = true;
    f.connect = NULL;
    complete(cmd, 0);
}

static void hold(struct fl_cmd *cmd)
{
    fl_list_add_tail(&f.held, &cmd->link);
}

static void command(struct fl_cmd *cmd)
{
    f.nr_commands++;
    cmd->buf = NULL;
    assert(!f.was_moved || cmd->conn->loop == f.other);
    if (cmd->in_capsule && !cmd->transport_status)
        assert(cmd->sgl_len <= f.capsule_len && (!cmd->sgl_len || cmd->capsule_data));
    if (f.moving) { /* it came with the one before */
        complete(cmd, FL_NVME_SC_CMD_SEQ_ERROR);
        return;
    }
    if (f.moves && !f.was_moved) {
        f.moving = true;
        f.connect = cmd;
        fl_conn_move(cmd->conn, f.other, NULL, moved);
        return;
    }
    switch (next_random() % 4) {
    case 0:
        hold(cmd);
        break;
    case 1:
        if (next_random() % 16 == 0)
            fl_conn_close(cmd->conn, "enough");
        /* fall through */
    default:
        start(cmd);
    }
}

static void data_ready(struct fl_cmd *cmd)
{
    if (!cmd->transport_status)
        memset(cmd->data, 0, cmd->data_len); /* nobody writes there any more */
    if (next_random() % 2)
        hold(cmd);
    else
        complete(cmd, cmd->transport_status);
}

static bool go_on(void)
{
    struct fl_list *l = f.moving ? NULL : fl_list_pop(&f.held);
    struct fl_cmd *cmd;

    if (!l)
        return false;
    cmd = FL_CONTAINER_OF(l, struct fl_cmd, link);
    if (cmd->buf)
        complete(cmd, cmd->transport_status);
    else
        start(cmd);
    return true;
}

static void released(struct fl_cmd *cmd)
{
    f.nr_released++;
    free(cmd->buf);
    cmd->buf = NULL;
}

static void closed(struct fl_conn *conn, const char *why)
{
    assert(why[0]);
    f.nr_closed++;
    f.conn = NULL;
}

static const struct fl_handler handler = {
    .opened = opened, .command = command, .data_ready = data_ready, .released = released, .closed = closed};

/* ---- the host and the wire ---- */

static void add_done(const struct ibv_wc *wc, uint32_t places)
{
    f.done[f.nr_done].wc = *wc;
    f.done[f.nr_done++].places = places;
}

static void complete_send(enum ibv_wc_status status)
{
    struct posted *s = &f.sends[0];
    struct ibv_wc wc = {.wr_id = s->wr.wr_id, .status = status};

    if (!f.nr_sends)
        return;
    f.unsignaled++;
    if (!(s->wr.send_flags & IBV_SEND_INLINE) &&
        status == IBV_WC_SUCCESS) { /* the device uses its memory until now */
        uint8_t *at = (uint8_t *)(uintptr_t)s->sge.addr;

        if (s->wr.opcode == IBV_WR_RDMA_READ)
            memset(at, 0x5a, s->sge.length);
        else
            f.sum ^= at[0] ^ at[s->sge.length - 1];
    }
    if (s->wr.send_flags & IBV_SEND_SIGNALED || status != IBV_WC_SUCCESS) {
        add_done(&wc, f.unsignaled);
        f.unsignaled = 0;
    }
    memmove(f.sends, f.sends + 1, --f.nr_sends * sizeof(f.sends[0]));
}

static void deliver(uint32_t len, enum ibv_wc_status status)
{
    struct ibv_wc wc = {.wr_id = f.recvs[0].wr_id, .status = status, .opcode = IBV_WC_RECV};
    uint8_t *at = (uint8_t *)(uintptr_t)f.recv_sges[0].addr;

    if (!f.nr_recvs || f.qp_dead)
        return;
    len = FL_MIN(len, f.recv_sges[0].length);
    wc.byte_len = len;
    memset(at, 0, f.recv_sges[0].length);
    for (uint32_t i = 0; i < len && i < 64; i++)
        at[i] = (uint8_t)next_byte();
    for (uint32_t i = 64; i < len; i++)
        at[i] = (uint8_t)(i < 64 + 64 ? next_byte() : i);
    f.nr_recvs--;
    memmove(f.recvs, f.recvs + 1, f.nr_recvs * sizeof(f.recvs[0]));
    memmove(f.recv_sges, f.recv_sges + 1, f.nr_recvs * sizeof(f.recv_sges[0]));
    add_done(&wc, 0);
}

/* A capsule with a descriptor that makes sense more often than chance would have it. */
static void deliver_right(uint32_t kind)
{
    struct fl_nvme_keyed_sgl pieces[FL_NVME_RDMA_MAX_PIECES];
    struct fl_nvme_sqe sqe = {.opcode = (uint8_t)(1 + kind % 2), .cid = le16_of((uint16_t)kind)};
    uint8_t capsule[64 + sizeof(pieces)];
    uint32_t nr = 1 + next_byte() % FL_NVME_RDMA_MAX_PIECES, len = 0;
    uint8_t *at = (uint8_t *)(uintptr_t)f.recv_sges[0].addr;

    if (!f.nr_recvs || f.qp_dead)
        return;
    for (uint32_t i = 0; i < nr; i++) {
        uint32_t n = next_byte() * 4;

        fl_nvme_rdma_sgl_piece(&pieces[i], 0x1000 * i, n, i);
        if (next_byte() & 1)
            pieces[i].type = FL_NVME_SGL_KEYED_INVALIDATE;
        len += n;
    }
    fl_nvme_rdma_sgl_pieces(&sqe, nr);
    if (kind & 2)
        fl_nvme_rdma_sgl_keyed(&sqe, 0x1000, len, 9);
    if (kind & 4)
        fl_nvme_rdma_sgl_capsule(&sqe, FL_MIN(len, f.recv_sges[0].length - 64));
    memcpy(capsule, &sqe, 64);
    memcpy(capsule + 64, pieces, sizeof(pieces));
    deliver(kind & 4 ? f.recv_sges[0].length : 64 + nr * 16, IBV_WC_SUCCESS);
    memcpy(at, capsule, FL_MIN(sizeof(capsule), f.recv_sges[0].length)); /* before it is looked at */
}

/* A capsule of any length, with a descriptor of any type, whose fields lie at the edges of what is allowed.
 */
static void deliver_edge(void)
{
    static const uint8_t types[] = {FL_NVME_SGL_OFFSET,
                                    FL_NVME_SGL_KEYED,
                                    FL_NVME_SGL_KEYED_INVALIDATE,
                                    FL_NVME_SGL_LAST_SEGMENT_OFFSET,
                                    FL_NVME_SGL_DATA_BLOCK,
                                    0x11,
                                    0x20,
                                    0x21,
                                    0x30,
                                    0x31,
                                    0x41,
                                    0x5a,
                                    0xff};
    static const uint8_t opcodes[] = {FL_NVME_CMD_WRITE, FL_NVME_CMD_READ, FL_NVME_CMD_FLUSH, 0x7f, 0x05};
    uint32_t choice = next_byte(), edge = next_byte(), room, len;
    struct fl_nvme_sqe sqe = {.opcode = opcodes[choice % sizeof(opcodes)],
                              .sgl = {.type = types[edge % sizeof(types)]}};
    uint64_t offset = next_byte();
    uint8_t *at;

    if (!f.nr_recvs || f.qp_dead)
        return;
    at = (uint8_t *)(uintptr_t)f.recv_sges[0].addr;
    room = f.recv_sges[0].length - (uint32_t)sizeof(sqe);
    len = choice & 64 ? room : FL_MIN(next_byte() * 2u, room);
    if (edge & 64) /* to the end of what came, and perhaps one past it */
        offset = len + (offset & 1);
    if (edge & 128)
        offset |= UINT64_C(0xffffffff) << (next_byte() % 33);
    sqe.sgl.addr = le64_of(offset);
    sqe.sgl.len = le32_of(choice & 128 ? len - (uint32_t)offset + next_byte() % 3 : next_byte() * 16u);
    if (sqe.sgl.type >> 4 == FL_NVME_SGL_KEYED >> 4)
        fl_nvme_rdma_sgl_piece((struct fl_nvme_keyed_sgl *)(void *)&sqe.sgl, offset, next_byte() % 4 * 64, 7);
    deliver((uint32_t)sizeof(sqe) + len, IBV_WC_SUCCESS);
    memcpy(at, &sqe, sizeof(sqe)); /* before it is looked at */
}

static void cm_says(enum rdma_cm_event_type type)
{
    uint64_t one = 1;

    if (f.has_event)
        return;
    f.has_event = true;
    f.event = (struct rdma_cm_event){.id = &f.id, .event = type};
    assert(write(f.channel.fd, &one, sizeof(one)) == sizeof(one));
}

static void turn(void)
{
    fl_loop_turn(f.loop, 0);
    fl_loop_turn(f.other, 0);
}

static void step(void)
{
    uint32_t what = next_byte();

    switch (what % 12) {
    case 0:
        deliver(next_byte() * 2, IBV_WC_SUCCESS);
        break;
    case 1:
    case 2:
    case 3:
        deliver_right(what / 12);
        break;
    case 4:
    case 5:
    case 6:
        complete_send(IBV_WC_SUCCESS);
        break;
    case 7:
        if (what == 7)
            complete_send(next_byte() & 1 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_RETRY_EXC_ERR);
        else if (what == 19)
            deliver(100, IBV_WC_LOC_LEN_ERR);
        else
            go_on();
        break;
    case 8:
        go_on();
        break;
    case 9:
        if (what == 9)
            cm_says((enum rdma_cm_event_type)(next_byte() % 16));
        else if (what == 129)
            f.moves = true;
        else if (what > 129)
            deliver_edge();
        else
            turn();
        break;
    case 10:
        if (what == 10 && f.conn && !f.moving)
            fl_conn_close(f.conn, "the input says so");
        else
            turn();
        break;
    default:
        turn();
    }
}

static void run(struct fl_rdma_shared **shared)
{
    static struct {
        struct fl_nvme_rdma_req req;
        uint8_t more[224];
    } hello;
    uint8_t req_len = sizeof(hello.req), depth = 16;
    uint32_t form = next_byte();
    struct fl_nvme_rdma_ask ask = {.qid = form & 1, .nr_send = 2 + (form >> 1 & 7)};
    struct fl_listen_options o = {.loop = f.loop,
                                  .handler = &handler,
                                  .capsule_len = form & 16   ? 512
                                                 : form & 32 ? 64
                                                             : 0,
                                  .shared_recv = form & 64 ? 8 : 0,
                                  .setup_timeout_ms = 3600000,
                                  .close_timeout_ms = 1};

    f.seed = next_byte() + 1;
    f.max_send = form & 128 ? 2 * FL_NVME_RDMA_MAX_PIECES + 5 : 0;
    f.capsule_len = FL_MAX(o.capsule_len, form & 1 ? 0u : 1024u);
    ask.nr_recv = ask.nr_send;
    fl_nvme_rdma_req_encode(&hello.req, &ask);
    if (form == 255 && f.seed == 256) {
        depth = (uint8_t)next_byte();
        req_len = (uint8_t)next_byte();
        f.capsule_len = FL_MAX(o.capsule_len, 1024u);
        for (uint32_t i = 0; i < req_len; i++)
            ((uint8_t *)&hello)[i] = (uint8_t)next_byte();
        if (le16_get(hello.req.hsqsize) > 63) /* more than the lists here hold */
            hello.req.hsqsize = le16_of((uint16_t)(le16_get(hello.req.hsqsize) & 1 ? 0xffff : 63));
    }
    f.id.verbs = &f.context;
    f.nr_ids = 1;
    f.event = (struct rdma_cm_event){
        .id = &f.id,
        .event = RDMA_CM_EVENT_CONNECT_REQUEST,
        .param.conn = {.private_data = &hello, .private_data_len = req_len, .initiator_depth = depth}};
    if (fl_rdma_conn_create(&o, &lib, shared, &f.event) < 0)
        return;
    while (f.left && f.conn)
        step();
    while (f.conn) { /* to its end */
        cm_says(RDMA_CM_EVENT_DISCONNECTED);
        turn();
        while (go_on())
            ;
        turn();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fl_rdma_shared *shared = NULL;

    memset(&f, 0, sizeof(f));
    f.p = data;
    f.left = len;
    f.context.device = &f.device;
    f.context.ops = (struct ibv_context_ops){.poll_cq = poll_cq,
                                             .req_notify_cq = notify_cq,
                                             .post_send = post_send,
                                             .post_recv = post_recv,
                                             .post_srq_recv = post_srq_recv};
    fl_list_init(&f.held);
    assert(fl_loop_create(NULL, &f.loop) == 0 && fl_loop_create(NULL, &f.other) == 0);
    run(&shared);
    while (shared) {
        struct fl_rdma_shared *next = shared->next;

        fl_rdma_shared_put(shared);
        shared = next;
    }
    turn();
    fl_loop_destroy(f.loop);
    fl_loop_destroy(f.other);
    assert(f.nr_commands == f.nr_released && !f.nr_mrs && !f.nr_objects && !f.nr_ids);
    return 0;
}
