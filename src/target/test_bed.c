/* SPDX-License-Identifier: Apache-2.0 */
#include "target/test_bed.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/crc.h"
#include "base/uuid.h"

static struct bed *the_bed; /* listen() has no other way to know it */

struct fl_listener {
    struct fl_listen_options options;
    struct fl_addr addr;
};

static int bed_listen(const struct fl_listen_options *options, struct fl_listener **listener,
                      struct fl_error *err)
{
    if (the_bed->listen_error)
        return fl_error_set(err, the_bed->listen_error, "cannot listen: %s",
                            strerror(-the_bed->listen_error));
    *listener = calloc(1, sizeof(**listener));
    (*listener)->options = *options;
    (*listener)->addr = options->addr;
    if (!fl_addr_port(&options->addr))
        fl_addr_set_port(&(*listener)->addr, 40000);
    the_bed->nr_listening++;
    return 0;
}

static void bed_unlisten(struct fl_listener *listener)
{
    the_bed->nr_listening--;
    free(listener);
}

static void bed_listener_addr(const struct fl_listener *listener, struct fl_addr *addr)
{
    *addr = listener->addr;
}

static const struct fl_transport bed_transport = {
    .name = "tcp", .listen = bed_listen, .unlisten = bed_unlisten, .listener_addr = bed_listener_addr};

/* ---- connections ---- */

static struct bed_conn *bc_of(struct fl_conn *conn)
{
    return FL_CONTAINER_OF(conn, struct bed_conn, conn);
}

static struct bed_cmd *bcmd_of(struct fl_cmd *cmd)
{
    return FL_CONTAINER_OF(cmd, struct bed_cmd, cmd);
}

static void check_closed(struct bed_conn *bc)
{
    if (!bc->closing || bc->closed || !fl_list_empty(&bc->cmds) || bc->moved)
        return;
    bc->closed = true;
    fl_list_del(&bc->link);
    bc->bed->nr_conns--;
    bc->conn.handler->closed(&bc->conn, "closed");
}

static void close_now(struct fl_msg *msg)
{
    struct bed_conn *bc = FL_CONTAINER_OF(msg, struct bed_conn, msg_close);
    struct bed_cmd *bcmd;
    bool again = true;

    bc->conn.dead = true;
    bc->conn.handler->broken(&bc->conn);
    while (again) {
        again = false;
        fl_list_for_each (bcmd, &bc->cmds, link) {
            if (bcmd->fetching) {
                bcmd->fetching = false;
                bcmd->cmd.transport_status = FL_NVME_SC_ABORT_QUEUE;
                bc->conn.handler->data_ready(&bcmd->cmd);
                again = true;
                break;
            }
            if (bcmd->answered && !bcmd->released) {
                bed_release(bcmd);
                again = true;
                break;
            }
        }
    }
    check_closed(bc);
}

static void conn_close(struct fl_conn *conn, const char *why)
{
    struct bed_conn *bc = bc_of(conn);

    assert_null(bc->moved);
    if (bc->closing)
        return;
    bc->closing = true;
    bc->msg_close.run = close_now;
    fl_loop_post(conn->loop, &bc->msg_close);
}

static int conn_set_depth(struct fl_conn *conn, uint32_t nr_cmds)
{
    bc_of(conn)->depth = nr_cmds;
    return 0;
}

static void conn_set_limits(struct fl_conn *conn, uint32_t len)
{
    bc_of(conn)->capsule_len = len;
}

static void cmd_fetch(struct fl_cmd *cmd)
{
    struct bed_cmd *bcmd = bcmd_of(cmd);

    assert_true(cmd->data_len && cmd->data_len <= cmd->sgl_len);
    if (bcmd->hold_fetch) {
        bcmd->fetching = true;
        return;
    }
    memcpy(cmd->data, bcmd->out, cmd->data_len);
    cmd->conn->handler->data_ready(cmd);
}

static void cmd_complete(struct fl_cmd *cmd)
{
    struct bed_cmd *bcmd = bcmd_of(cmd);

    assert_false(bcmd->answered); /* exactly once */
    assert_false(bcmd->fetching);
    bcmd->answered = true;
    bcmd->cqe = cmd->cqe;
    assert_int_equal(le16_get(cmd->cqe.cid), le16_get(cmd->sqe.cid));
    if (cmd->to_host && cmd->data_len && !fl_nvme_cqe_status(&cmd->cqe))
        assert_int_equal(cmd->conn->handler->digest(cmd), fl_crc32c(0, cmd->data, cmd->data_len));
    if (bcmd->bc->hold_release && cmd->to_host && !cmd->conn->dead)
        return;
    bed_release(bcmd);
}

void bed_release(struct bed_cmd *bcmd)
{
    struct fl_cmd *cmd = &bcmd->cmd;

    assert_true(bcmd->answered && !bcmd->released);
    if (cmd->to_host && !fl_nvme_cqe_status(&cmd->cqe)) {
        assert_true(cmd->data_len <= bcmd->in_len);
        memcpy(bcmd->in, cmd->data, cmd->data_len);
        bcmd->got_len = cmd->data_len;
    }
    bcmd->released = true;
    fl_list_del(&bcmd->link);
    bcmd->bc->bed->nr_cmds--;
    cmd->conn->handler->released(cmd);
    check_closed(bcmd->bc);
}

static void move_now(struct fl_msg *msg)
{
    struct bed_conn *bc = FL_CONTAINER_OF(msg, struct bed_conn, msg_move);
    void (*moved)(struct fl_conn *) = bc->moved;

    bc->moved = NULL;
    moved(&bc->conn);
    check_closed(bc);
}

static void conn_move(struct fl_conn *conn, struct fl_loop *loop, struct fl_pool *pool,
                      void (*moved)(struct fl_conn *conn))
{
    struct bed_conn *bc = bc_of(conn);

    conn->loop = loop;
    conn->pool = pool;
    bc->moved = moved;
    bc->msg_move.run = move_now;
    fl_loop_post(loop, &bc->msg_move);
}

static void conn_info(const struct fl_conn *conn, struct fl_conn_info *info)
{
    const struct bed_conn *bc = FL_CONTAINER_OF(conn, const struct bed_conn, conn);

    memset(info, 0, sizeof(*info));
    snprintf(info->peer, sizeof(info->peer), "10.0.0.2:5000");
    snprintf(info->local, sizeof(info->local), "%s", bc->local);
    info->transport = "tcp";
}

static bool cmd_detach(struct fl_cmd *cmd, void *buf)
{
    struct bed_conn *bc = bc_of(cmd->conn);

    if (!bc->can_detach)
        return false;
    bc->nr_detached++;
    cmd->data = memcpy(buf, cmd->data, cmd->data_len);
    return true;
}

static const struct fl_conn_ops conn_ops = {conn_set_depth, conn_set_limits, cmd_fetch, cmd_complete,
                                            conn_close,     conn_move,       conn_info, cmd_detach};

struct bed_conn *bed_open(struct bed *bed)
{
    struct bed_conn *bc = calloc(1, sizeof(*bc));
    struct fl_tport *port;

    bc->bed = bed;
    bc->conn.ops = &conn_ops;
    bc->conn.handler = &fl_target_handler;
    bc->conn.loop = bed->loops[0];
    bc->conn.pool = bed->target->admin_pool;
    bc->depth = 1;
    snprintf(bc->local, sizeof(bc->local), "10.0.0.1:4420");
    fl_list_init(&bc->cmds);
    fl_list_init(&bc->link);
    fl_list_add_tail(&bed->conns, &bc->link);
    bed->nr_conns++;
    fl_list_for_each (port, &bed->target->ports, link)
        if (port->id == bed->port_id)
            bc->conn.handler->opened(&bc->conn, port);
    return bc;
}

void bed_cut(struct bed_conn *bc)
{
    conn_close(&bc->conn, "cut");
    bed_turn(bc->bed);
}

bool bed_is_closed(const struct bed_conn *bc)
{
    return bc->closed;
}

void bed_conn_free(struct bed_conn *bc)
{
    if (bc)
        assert_true(bc->closed);
    free(bc);
}

/* ---- commands ---- */

static void deliver(struct fl_msg *msg)
{
    struct bed_cmd *bcmd = FL_CONTAINER_OF(msg, struct bed_cmd, msg);

    bcmd->cmd.conn->handler->command(&bcmd->cmd);
    if (!bcmd->answered && bcmd->cmd.capsule_data) { /* it lies elsewhere after the call */
        uint8_t *moved = malloc(bcmd->out_len);

        memcpy(moved, bcmd->out, bcmd->out_len);
        free(bcmd->out);
        bcmd->out = moved;
        bcmd->cmd.capsule_data = moved;
    }
}

struct bed_cmd *bed_send(struct bed_conn *bc, const struct fl_nvme_sqe *sqe, const void *out,
                         uint32_t out_len, bool in_capsule, uint32_t in_len)
{
    struct bed_cmd *bcmd = calloc(1, sizeof(*bcmd));

    bcmd->bc = bc;
    bcmd->cmd.sqe = *sqe;
    bcmd->cmd.sqe.cid = le16_of(++bc->next_cid);
    bcmd->cmd.conn = &bc->conn;
    bcmd->out = malloc(out_len + 1);
    if (out_len)
        memcpy(bcmd->out, out, out_len);
    bcmd->out_len = out_len;
    bcmd->in = calloc(1, in_len + 1);
    bcmd->in_len = in_len;
    bcmd->cmd.sgl_len = out_len ? out_len : in_len;
    bcmd->cmd.in_capsule = in_capsule && out_len;
    bcmd->cmd.capsule_data = in_capsule && out_len ? bcmd->out : NULL;
    fl_list_init(&bcmd->link);
    fl_list_add_tail(&bc->cmds, &bcmd->link);
    bc->bed->nr_cmds++;
    bcmd->msg.run = deliver;
    fl_loop_post(bc->conn.loop, &bcmd->msg);
    return bcmd;
}

void bed_give_data(struct bed_cmd *bcmd)
{
    assert_true(bcmd->fetching);
    bcmd->fetching = false;
    memcpy(bcmd->cmd.data, bcmd->out, bcmd->cmd.data_len);
    bcmd->cmd.conn->handler->data_ready(&bcmd->cmd);
}

bool bed_place(struct bed_cmd *bcmd, uint32_t off, uint32_t len)
{
    assert_true(bcmd->fetching && off + len <= bcmd->cmd.data_len);
    return bcmd->cmd.place && bcmd->cmd.place(&bcmd->cmd, off, bcmd->out + off, len);
}

void bed_free_cmd(struct bed_cmd *bcmd)
{
    assert_true(bcmd->released);
    free(bcmd->out);
    free(bcmd->in);
    free(bcmd);
}

uint16_t bed_status(const struct bed_cmd *bcmd)
{
    assert_true(bcmd->answered);
    return fl_nvme_status_code(fl_nvme_cqe_status(&bcmd->cqe));
}

uint16_t bed_run(struct bed_conn *bc, const struct fl_nvme_sqe *sqe, const void *out, uint32_t out_len,
                 void *in, uint32_t in_len, uint64_t *result)
{
    struct bed_cmd *bcmd = bed_send(bc, sqe, out, out_len, out_len <= 8192, in_len);
    uint64_t until = fl_now_ns() + 2 * FL_NS_PER_S;
    uint16_t status;

    bed_turn(bc->bed);
    while (!bcmd->released && fl_now_ns() < until)
        bed_sleep(bc->bed, 1);
    assert_true(bcmd->released);
    status = bed_status(bcmd);
    if (result)
        *result = le32_get(bcmd->cqe.dw0) | (uint64_t)le32_get(bcmd->cqe.dw1) << 32;
    if (in && !status)
        memcpy(in, bcmd->in, in_len);
    bed_free_cmd(bcmd);
    return status;
}

/* ---- hosts ---- */

struct fl_nvme_sqe bed_sqe(uint8_t opcode, uint32_t nsid)
{
    struct fl_nvme_sqe sqe = {.opcode = opcode, .flags = FL_NVME_CMD_PSDT_SGL, .nsid = le32_of(nsid)};

    return sqe;
}

struct fl_nvme_sqe bed_rw(uint8_t opcode, uint32_t nsid, uint64_t slba, uint32_t nr_blocks)
{
    struct fl_nvme_sqe sqe = bed_sqe(opcode, nsid);

    fl_nvme_rw_set(&sqe, slba, nr_blocks, 0);
    return sqe;
}

void bed_connect_default(struct bed_connect *c, const char *hostnqn, const char *subnqn, uint16_t qid,
                         uint16_t cntlid)
{
    uint8_t hostid[16] = "host identifier";

    memset(c, 0, sizeof(*c));
    hostid[15] = (uint8_t)hostnqn[strlen(hostnqn) - 1]; /* another one for each host */
    assert_int_equal(fl_nvmf_connect_data_encode(&c->data, hostid, cntlid, subnqn, hostnqn), 0);
    c->qid = qid;
    c->sqsize = 31;
}

uint16_t bed_connect(struct bed_conn *bc, const struct bed_connect *c, uint32_t *dw0)
{
    struct fl_nvmf_connect_cmd cmd = {.opcode = FL_NVMF_OPCODE,
                                      .flags = FL_NVME_CMD_PSDT_SGL,
                                      .fctype = FL_NVMF_CONNECT,
                                      .recfmt = le16_of(c->recfmt),
                                      .qid = le16_of(c->qid),
                                      .sqsize = le16_of(c->sqsize),
                                      .cattr = c->cattr,
                                      .kato = le32_of(c->kato)};
    struct fl_nvme_sqe sqe;
    uint64_t result;
    uint16_t status;

    memcpy(&sqe, &cmd, sizeof(sqe));
    status = bed_run(bc, &sqe, &c->data, sizeof(c->data), NULL, 0, &result);
    if (dw0)
        *dw0 = (uint32_t)result;
    return status;
}

static void set_cc(struct bed_conn *admin, uint32_t cc)
{
    struct fl_nvmf_property_set_cmd cmd = {.opcode = FL_NVMF_OPCODE,
                                           .flags = FL_NVME_CMD_PSDT_SGL,
                                           .fctype = FL_NVMF_PROPERTY_SET,
                                           .ofst = le32_of(FL_NVMF_PROP_CC),
                                           .value = le64_of(cc)};
    struct fl_nvme_sqe sqe;

    memcpy(&sqe, &cmd, sizeof(sqe));
    assert_int_equal(bed_run(admin, &sqe, NULL, 0, NULL, 0, NULL), 0);
}

void bed_enable(struct bed_conn *admin)
{
    set_cc(admin, FL_NVME_CC_EN | 6u << FL_NVME_CC_IOSQES_SHIFT | 4u << FL_NVME_CC_IOCQES_SHIFT);
}

struct bed_conn *bed_io_queue(struct bed *bed, const char *hostnqn, uint16_t cntlid, uint16_t qid)
{
    struct bed_conn *bc = bed_open(bed);
    struct bed_connect c;

    bed_connect_default(&c, hostnqn, BED_NQN, qid, cntlid);
    assert_int_equal(bed_connect(bc, &c, NULL), 0);
    return bc;
}

void bed_host(struct bed *bed, const char *hostnqn, struct bed_host *host)
{
    struct bed_connect c;
    uint32_t dw0;

    host->admin = bed_open(bed);
    bed_connect_default(&c, hostnqn, BED_NQN, 0, 0xffff);
    assert_int_equal(bed_connect(host->admin, &c, &dw0), 0);
    host->cntlid = (uint16_t)dw0;
    bed_enable(host->admin);
    host->io = bed_io_queue(bed, hostnqn, host->cntlid, 1);
}

uint16_t bed_identify(struct bed_conn *admin, uint8_t cns, uint32_t nsid, void *page)
{
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_ADM_IDENTIFY, nsid);

    sqe.cdw10 = le32_of(cns);
    return bed_run(admin, &sqe, NULL, 0, page, 4096, NULL);
}

uint16_t bed_log(struct bed_conn *admin, uint8_t lid, uint64_t off, bool rae, void *buf, uint32_t len)
{
    struct fl_nvme_sqe sqe = bed_sqe(FL_NVME_ADM_GET_LOG_PAGE, FL_NVME_NSID_ALL);

    fl_nvme_log_set(&sqe, lid, 0, rae, off, len);
    return bed_run(admin, &sqe, NULL, 0, buf, len, NULL);
}

uint16_t bed_feature(struct bed_conn *admin, bool set, uint8_t fid, uint32_t nsid, uint32_t value,
                     uint64_t *result)
{
    struct fl_nvme_sqe sqe = bed_sqe(set ? FL_NVME_ADM_SET_FEATURES : FL_NVME_ADM_GET_FEATURES, nsid);

    sqe.cdw10 = le32_of(fid);
    sqe.cdw11 = le32_of(value);
    return bed_run(admin, &sqe, NULL, 0, NULL, 0, result);
}

/* ---- the bed ---- */

void bed_turn(struct bed *bed)
{
    uint32_t quiet = 0;

    while (quiet < 3) {
        int work = 0;

        for (uint32_t i = 0; i < bed->nr_loops; i++)
            work += fl_loop_turn(bed->loops[i], 0);
        quiet = work ? 0 : quiet + 1;
    }
}

void bed_sleep(struct bed *bed, uint32_t ms)
{
    uint64_t until = fl_now_ns() + ms * FL_NS_PER_MS;

    while (fl_now_ns() < until)
        for (uint32_t i = 0; i < bed->nr_loops; i++)
            fl_loop_turn(bed->loops[i], 200 * FL_NS_PER_US);
}

uint32_t bed_add_ns(struct bed *bed, const char *spec)
{
    struct fl_namespace_options o = {.spec = spec};
    struct fl_error err = {0};
    uint32_t nsid = 0;

    if (fl_namespace_add(bed->ss, &o, &nsid, &err) < 0)
        fail_msg("%s", err.text);
    bed_turn(bed);
    assert_non_null(fl_tns_find(bed->ss, nsid));
    return nsid;
}

struct bed *bed_new(uint32_t nr_loops, void (*tweak)(struct fl_target_options *options))
{
    struct bed *bed = calloc(1, sizeof(*bed));
    struct fl_target_options o = {.loops = bed->loops, .nr_loops = nr_loops, .capsule_len = -1};
    struct fl_subsystem_options so = {.nqn = BED_NQN, .allow_any_host = true};
    struct fl_listener_spec spec;
    struct fl_error err = {0};

    the_bed = bed;
    bed->nr_loops = nr_loops;
    fl_list_init(&bed->conns);
    for (uint32_t i = 0; i < nr_loops; i++)
        assert_int_equal(fl_loop_create(NULL, &bed->loops[i]), 0);
    if (tweak)
        tweak(&o);
    assert_int_equal(fl_target_create(&o, &bed->target, &err), 0);
    bed->target->transport = &bed_transport;
    assert_int_equal(fl_subsystem_add(bed->target, &so, &bed->ss, &err), 0);
    assert_int_equal(fl_listener_spec_parse("tcp://10.0.0.1:4420", &spec, &err), 0);
    assert_int_equal(fl_target_listen(bed->target, &spec, &bed->port_id, &err), 0);
    bed_turn(bed);
    return bed;
}

static void stopped(void *arg)
{
    *(bool *)arg = true;
}

void bed_free(struct bed *bed)
{
    struct bed_conn *bc, *next;
    struct fl_list gone;
    bool done = false;

    fl_list_init(&gone);
    fl_target_shutdown(bed->target, stopped, &done);
    fl_list_for_each_safe (bc, next, &bed->conns, link)
        bc->hold_release = false;
    for (int i = 0; i < 2000 && !done; i++)
        bed_sleep(bed, 1);
    assert_true(done);
    assert_int_equal(bed->nr_conns, 0);
    assert_int_equal(bed->nr_cmds, 0);
    assert_int_equal(bed->nr_listening, 0);
    bed_turn(bed);
    fl_target_destroy(bed->target); /* pools assert that every buffer is back */
    for (uint32_t i = 0; i < bed->nr_loops; i++)
        fl_loop_destroy(bed->loops[i]);
    free(bed);
}
