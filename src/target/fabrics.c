/* SPDX-License-Identifier: Apache-2.0 */
/* Fabrics commands (NVMe over Fabrics 1.1, 3): Connect of admin and I/O queues, properties, Disconnect. */
#include <errno.h>

#include "target/core.h"

/* IPO and IATTR of Connect Invalid Parameters: where the bad field is. */
#define IN_COMMAND(field) fl_nvmf_connect_invalid(false, offsetof(struct fl_nvmf_connect_cmd, field))
#define IN_DATA(field)    fl_nvmf_connect_invalid(true, offsetof(struct fl_nvmf_connect_data, field))

static void refuse(struct fl_cmd *cmd, fl_nvme_status status, uint32_t where, const char *why)
{
    struct fl_tqueue *q = cmd->conn->user;
    struct fl_conn_info info = {0};
    uint32_t held;

    fl_conn_info(cmd->conn, &info);
    if (fl_log_rate_allow(&q->target->refused_rate, 5, fl_loop_now(q->target->loop), &held))
        FL_WARN("Connect from %s refused: %s%s", info.peer, why, held ? " (and others before it)" : "");
    cmd->cqe.dw0 = le32_of(where);
    fl_tqueue_finish(cmd, status | FL_NVME_DNR);
}

static void refuse_param(struct fl_cmd *cmd, uint32_t where, const char *why)
{
    refuse(cmd, FL_NVME_SC_CONNECT_INVALID_PARAM, where, why);
}

static const struct fl_nvmf_connect_cmd *connect_of(const struct fl_cmd *cmd)
{
    return (const struct fl_nvmf_connect_cmd *)(const void *)&cmd->sqe;
}

/* From here on the connection is a queue. */
static void accept_connect(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    struct fl_conn *conn = cmd->conn;

    conn->qid = q->qid;
    conn->sq_len = (uint16_t)q->depth;
    cmd->cqe.dw0 = le32_of(q->ctrl->cntlid); /* AUTHREQ 0 */
    if (!(connect_of(cmd)->cattr & FL_NVMF_CATTR_NO_SQ_FLOW) || q->target->options.no_success_flag) {
        fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
        return;
    }
    /* 3.3: SQHD FFFFh in this response says that SQ flow control is off. */
    conn->sqhd = 0xffff;
    conn->sq_flow_off = true;
    fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
    conn->sqhd = 0;
}

static void connect_admin(struct fl_tqueue *q, struct fl_cmd *cmd, struct fl_subsystem *ss,
                          const struct fl_nvmf_connect_data *data)
{
    const struct fl_nvmf_connect_cmd *c = connect_of(cmd);
    struct fl_tctrl *ctrl;
    fl_nvme_status status;

    if (le16_get(data->cntlid) != FL_NVMF_CNTLID_DYNAMIC) {
        refuse_param(cmd, IN_DATA(cntlid), "controllers are dynamic here, CNTLID must be FFFFh");
        return;
    }
    status = fl_tctrl_create(ss, q, data, le32_get(c->kato), &ctrl);
    if (status) {
        fl_tqueue_finish(cmd, status);
        return;
    }
    fl_list_del(&q->link);
    q->ctrl = ctrl;
    q->command = fl_tqueue_admin_command;
    memcpy(q->hostid, ctrl->hostid, sizeof(q->hostid));
    accept_connect(q, cmd);
}

static void io_queue_moved(struct fl_conn *conn)
{
    struct fl_tqueue *q = conn->user;
    struct fl_cmd *cmd = q->connect;

    q->connect = NULL;
    q->moving = false;
    q->command = fl_io_command;
    accept_connect(q, cmd);
    if (q->close_late) /* the controller ended during the move */
        fl_conn_close(conn, q->close_why);
}

/* The loop with the fewest I/O queues; among equals the next in turn, so that the queues of one host spread.
 */
static struct fl_worker *choose_worker(struct fl_target *target)
{
    struct fl_worker *best = &target->workers[0];

    for (uint32_t i = 0; i < target->nr_workers; i++)
        if (target->workers[i].nr_queues < best->nr_queues)
            best = &target->workers[i];
    return best;
}

static void connect_io(struct fl_tqueue *q, struct fl_cmd *cmd, struct fl_subsystem *ss,
                       const struct fl_nvmf_connect_data *data)
{
    struct fl_tctrl *ctrl = ss->discovery ? NULL : fl_tctrl_find(ss, le16_get(data->cntlid));
    struct fl_target *target = ss->target;
    uint16_t qid = le16_get(connect_of(cmd)->qid);

    if (!ctrl) {
        refuse_param(cmd, IN_DATA(cntlid), "the subsystem has no controller of this CNTLID");
        return;
    }
    if (strcmp(ctrl->hostnqn, data->hostnqn)) {
        refuse_param(cmd, IN_DATA(hostnqn), "the controller belongs to another host NQN");
        return;
    }
    if (memcmp(ctrl->hostid, data->hostid, sizeof(ctrl->hostid))) {
        refuse_param(cmd, IN_DATA(hostid), "the controller belongs to another host identifier");
        return;
    }
    if (!fl_tctrl_ready(ctrl) || fl_nvme_cc_shn(ctrl->cc)) {
        refuse(cmd, FL_NVME_SC_CMD_SEQ_ERROR, 0, "the controller is not enabled");
        return;
    }
    if (qid > target->options.max_queues || qid > ctrl->queues_granted) {
        refuse_param(cmd, IN_COMMAND(qid), "QID is beyond the number of queues granted");
        return;
    }
    if (ctrl->queues[qid]) {
        refuse(cmd, FL_NVME_SC_CMD_SEQ_ERROR, IN_COMMAND(qid),
               "QID is in use"); /* 3.3: a queue that exists already */
        return;
    }
    fl_list_del(&q->link);
    q->ctrl = ctrl;
    q->qid = qid;
    memcpy(q->hostid, ctrl->hostid, sizeof(q->hostid));
    ctrl->queues[qid] = q;
    ctrl->nr_io_queues++;
    q->worker = choose_worker(target);
    q->worker->nr_queues++;
    q->counted_in_worker = true;
    q->views = ss->tables[q->worker->index];
    q->ana = &q->port->worker_ana[q->worker->index * (FL_ANA_GROUPS + 1)];
    q->moving = true;
    q->connect = cmd;
    fl_conn_set_capsule_len(cmd->conn, fl_tport_capsule_len(q->port));
    fl_conn_move(cmd->conn, q->worker->loop, q->worker->pool, io_queue_moved);
}

static void connect_checked(struct fl_tqueue *q, struct fl_cmd *cmd, const struct fl_nvmf_connect_data *data)
{
    const struct fl_nvmf_connect_cmd *c = connect_of(cmd);
    struct fl_target *target = q->target;
    uint16_t qid = le16_get(c->qid), sqsize = le16_get(c->sqsize); /* SQSIZE is 0's based: 1 is two entries */
    uint32_t max_depth = qid ? target->options.max_depth : FL_MAX(target->options.max_depth, FL_ADMIN_DEPTH);
    struct fl_subsystem *ss;
    struct fl_error err = {0};
    int r;

    if (le16_get(c->recfmt)) {
        refuse(cmd, FL_NVME_SC_CONNECT_FORMAT, 0, "RECFMT is not 0");
        return;
    }
    if (!sqsize || sqsize >= max_depth) {
        refuse_param(cmd, IN_COMMAND(sqsize), "SQSIZE is out of range");
        return;
    }
    if (!fl_nvmf_nqn_field_ok(data->subnqn, sizeof(data->subnqn))) {
        refuse_param(cmd, IN_DATA(subnqn), "SUBNQN is empty, too long or not terminated");
        return;
    }
    if (fl_nqn_check(data->hostnqn, sizeof(data->hostnqn), &err) < 0) {
        refuse_param(cmd, IN_DATA(hostnqn), err.text);
        return;
    }
    if (fl_uuid_is_zero((const struct fl_uuid *)(const void *)data->hostid)) {
        refuse_param(cmd, IN_DATA(hostid), "the host identifier is zero");
        return;
    }
    ss = fl_subsystem_find(target, data->subnqn);
    if (!ss) {
        fl_error_set(&err, -1, "there is no subsystem %.223s", data->subnqn);
        refuse_param(cmd, IN_DATA(subnqn), err.text);
        return;
    }
    if (!fl_subsystem_allows(ss, data->hostnqn)) {
        fl_error_set(&err, -1, "host %.200s is not allowed in %.200s", data->hostnqn, ss->nqn);
        refuse(cmd, FL_NVME_SC_CONNECT_INVALID_HOST, IN_DATA(hostnqn), err.text);
        return;
    }
    r = fl_conn_set_depth(cmd->conn, sqsize + 1u);
    if (r == -EINVAL) {
        refuse_param(cmd, IN_COMMAND(sqsize), "SQSIZE is not that of the RDMA connect request (HSQSIZE)");
        return;
    }
    if (r < 0) {
        fl_tqueue_finish(cmd, FL_NVME_SC_CONNECT_CTRL_BUSY);
        return;
    }
    q->depth_asked = q->depth = sqsize + 1u;
    if (qid)
        connect_io(q, cmd, ss, data);
    else
        connect_admin(q, cmd, ss, data);
}

static void connect_received(struct fl_cmd *cmd)
{
    struct fl_tqueue *q = cmd->conn->user;
    struct fl_nvmf_connect_data data;

    q->connecting = false;
    memcpy(&data, cmd->data, sizeof(data));
    fl_pool_put(cmd->conn->pool, cmd->buf); /* the queue may leave this loop, the buffer must not */
    cmd->buf = NULL;
    connect_checked(q, cmd, &data);
}

static void do_connect(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    struct fl_nvmf_connect_data data;

    if (cmd->sgl_len != sizeof(data)) {
        fl_tqueue_finish(cmd, FL_NVME_SC_SGL_INVALID_DATA | FL_NVME_DNR);
        return;
    }
    if (!cmd->capsule_data) {
        q->connecting = true;
        fl_tqueue_receive(cmd, sizeof(data), connect_received);
        return;
    }
    memcpy(&data, cmd->capsule_data, sizeof(data));
    connect_checked(q, cmd, &data);
}

void fl_fabrics_first_command(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    if (cmd->sqe.opcode == FL_NVMF_OPCODE && fl_nvmf_fctype(&cmd->sqe) == FL_NVMF_CONNECT && !q->connecting &&
        !q->moving && !q->depth)
        do_connect(q, cmd);
    else /* 2.3: nothing but Connect before Connect */
        fl_tqueue_finish(cmd, FL_NVME_SC_CMD_SEQ_ERROR | FL_NVME_DNR);
}

/* ---- properties ---- */

static void property_get(struct fl_tctrl *ctrl, struct fl_cmd *cmd)
{
    const struct fl_nvmf_property_get_cmd *c =
        (const struct fl_nvmf_property_get_cmd *)(const void *)&cmd->sqe;
    uint8_t size = c->attrib & FL_NVMF_PROPERTY_SIZE_MASK;
    uint32_t offset = le32_get(c->ofst);
    uint64_t value = 0;
    bool ok = size == (offset == FL_NVMF_PROP_CAP ? FL_NVMF_PROPERTY_8 : FL_NVMF_PROPERTY_4);

    switch (offset) {
    case FL_NVMF_PROP_CAP:
        value = fl_tctrl_cap(ctrl);
        break;
    case FL_NVMF_PROP_VS:
        value = FL_NVME_VS_2_0;
        break;
    case FL_NVMF_PROP_CC:
        value = ctrl->cc;
        break;
    case FL_NVMF_PROP_CSTS:
        value = ctrl->csts;
        break;
    case FL_NVMF_PROP_CRTO:
        value = fl_nvme_cap_timeout_ms(fl_tctrl_cap(ctrl)) / 500; /* CRWMT */
        break;
    default:
        ok = false;
    }
    if (!ok) {
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
        return;
    }
    cmd->cqe.dw0 = le32_of((uint32_t)value);
    cmd->cqe.dw1 = le32_of((uint32_t)(value >> 32));
    fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
}

static void property_set(struct fl_tctrl *ctrl, struct fl_cmd *cmd)
{
    const struct fl_nvmf_property_set_cmd *c =
        (const struct fl_nvmf_property_set_cmd *)(const void *)&cmd->sqe;
    bool four = (c->attrib & FL_NVMF_PROPERTY_SIZE_MASK) == FL_NVMF_PROPERTY_4;

    if (!four || le32_get(c->ofst) != FL_NVMF_PROP_CC) { /* NSSR: CAP.NSSRS is 0 */
        fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_FIELD | FL_NVME_DNR);
        return;
    }
    fl_tctrl_set_cc(ctrl, (uint32_t)le64_get(c->value));
    fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
}

/* ---- after Connect ---- */

static void disconnect(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    struct fl_conn *conn = cmd->conn;

    if (le16_get(((const struct fl_nvmf_disconnect_cmd *)(const void *)&cmd->sqe)->recfmt)) {
        fl_tqueue_finish(cmd, FL_NVME_SC_CONNECT_FORMAT | FL_NVME_DNR);
        return;
    }
    if (!q->qid) { /* 3.4: an admin queue ends by shutting the controller down */
        fl_tqueue_finish(cmd, FL_NVME_SC_DISCONNECT_INVALID_QTYPE | FL_NVME_DNR);
        return;
    }
    fl_tqueue_finish(cmd, FL_NVME_SC_SUCCESS);
    fl_conn_close(conn, "the host disconnected the queue");
}

void fl_fabrics_command(struct fl_tqueue *q, struct fl_cmd *cmd)
{
    switch (fl_nvmf_fctype(&cmd->sqe)) {
    case FL_NVMF_PROPERTY_GET:
        if (q->qid)
            break;
        property_get(q->ctrl, cmd);
        return;
    case FL_NVMF_PROPERTY_SET:
        if (q->qid)
            break;
        property_set(q->ctrl, cmd);
        return;
    case FL_NVMF_DISCONNECT:
        disconnect(q, cmd);
        return;
    case FL_NVMF_CONNECT:
        fl_tqueue_finish(cmd, FL_NVME_SC_CMD_SEQ_ERROR | FL_NVME_DNR);
        return;
    }
    fl_tqueue_finish(cmd, FL_NVME_SC_INVALID_OPCODE | FL_NVME_DNR);
}
