/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests: a target that does what the command's CDW10 says. Reads (opcode 2) get cdw12 bytes of
 * script_pattern, writes (opcode 1) are compared with it from cdw11 on, others have no data.
 */
#ifndef FL_FABRIC_TEST_SCRIPT_H
#define FL_FABRIC_TEST_SCRIPT_H

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "fabric/fabric.h"

enum {
    SCRIPT_HOLD = 1,         /* in command(): wait for script_go */
    SCRIPT_HOLD_DATA = 2,    /* the same in data_ready() */
    SCRIPT_FETCH = 4,        /* fetch even data that is in the capsule */
    SCRIPT_FAIL = 8,         /* complete with Internal Error and no data */
    SCRIPT_RESULT = 16,      /* DW0 is not 0 */
    SCRIPT_CLOSE = 32,       /* close the connection after completion */
    SCRIPT_TILL_BROKEN = 64, /* held until the connection breaks, as an asynchronous event request */
    SCRIPT_PLACE = 128       /* of the data that is offered while it comes, every other part is taken */
};

struct script {
    struct fl_conn *conn;
    struct fl_list held;
    uint32_t depth; /* set_depth in opened() when not 0 */
    int nr_opened, nr_commands, nr_released, nr_fetched, nr_broken, nr_closed, nr_wrong_data;
    int nr_buffers, nr_offered, nr_placed;
    fl_nvme_status last_transport_status;
    uint32_t last_sgl_len;
    bool last_in_capsule;
    char why[160];
};

static uint8_t script_pattern[4 << 20];

static struct script *script_of(struct fl_conn *conn)
{
    return conn->user;
}

static void script_opened(struct fl_conn *conn, void *user)
{
    struct script *x = user;

    conn->user = x;
    x->conn = conn;
    x->nr_opened++;
    if (x->depth && fl_conn_set_depth(conn, x->depth) < 0)
        abort();
}

static void script_complete(struct fl_cmd *cmd, fl_nvme_status status)
{
    uint32_t what = le32_get(cmd->sqe.cdw10);
    struct fl_conn *conn = cmd->conn;

    fl_nvme_cqe_set(&cmd->cqe, le16_get(cmd->sqe.cid), conn->sqhd, what & SCRIPT_RESULT ? 5 : 0, status);
    fl_cmd_complete(cmd);
    if (what & SCRIPT_CLOSE)
        fl_conn_close(conn, "as the script says");
}

static void script_got_data(struct fl_cmd *cmd, const void *data, uint32_t len)
{
    if (memcmp(data, script_pattern + le32_get(cmd->sqe.cdw11), len))
        script_of(cmd->conn)->nr_wrong_data++;
    script_complete(cmd, 0);
}

static bool script_place(struct fl_cmd *cmd, uint32_t off, const void *data, uint32_t len)
{
    struct script *x = script_of(cmd->conn);

    if (!cmd->buf || off + len > cmd->sgl_len || fl_loop_current() != cmd->conn->loop)
        abort();
    if (x->nr_offered++ % 2)
        return false;
    memcpy((uint8_t *)cmd->buf + off, data, len);
    x->nr_placed++;
    return true;
}

static void script_act(struct fl_cmd *cmd)
{
    struct script *x = script_of(cmd->conn);
    uint32_t what = le32_get(cmd->sqe.cdw10), len = le32_get(cmd->sqe.cdw12);

    if (cmd->transport_status)
        return script_complete(cmd, cmd->transport_status);
    if (what & SCRIPT_FAIL)
        return script_complete(cmd, FL_NVME_SC_INTERNAL);
    switch (cmd->sqe.opcode) {
    case FL_NVME_CMD_WRITE:
        if (!cmd->sgl_len)
            return script_complete(cmd, FL_NVME_SC_INVALID_FIELD);
        if (cmd->sgl_len > sizeof(script_pattern) - (1 << 20))
            return script_complete(cmd, FL_NVME_SC_SGL_INVALID_DATA);
        if (cmd->capsule_data && !(what & (SCRIPT_FETCH | SCRIPT_HOLD)))
            return script_got_data(cmd, cmd->capsule_data, cmd->sgl_len);
        cmd->buf = cmd->data = malloc(cmd->sgl_len);
        cmd->data_len = cmd->sgl_len;
        cmd->place = what & SCRIPT_PLACE ? script_place : NULL;
        x->nr_buffers++;
        x->nr_fetched++;
        return fl_cmd_fetch(cmd);
    case FL_NVME_CMD_READ:
        cmd->data = script_pattern + le32_get(cmd->sqe.cdw11);
        cmd->data_len = FL_MIN(len, cmd->sgl_len);
        cmd->to_host = true;
        return script_complete(cmd, 0);
    default:
        return script_complete(cmd, 0);
    }
}

static void script_hold(struct fl_cmd *cmd)
{
    fl_list_add_tail(&script_of(cmd->conn)->held, &cmd->link);
}

static void script_command(struct fl_cmd *cmd)
{
    struct script *x = script_of(cmd->conn);

    x->nr_commands++;
    x->last_transport_status = cmd->transport_status;
    x->last_sgl_len = cmd->sgl_len;
    x->last_in_capsule = cmd->in_capsule;
    cmd->buf = NULL;
    fl_list_init(&cmd->link);
    if (le32_get(cmd->sqe.cdw10) & (SCRIPT_HOLD | SCRIPT_TILL_BROKEN))
        script_hold(cmd);
    else
        script_act(cmd);
}

static void script_data_ready(struct fl_cmd *cmd)
{
    script_of(cmd->conn)->last_transport_status = cmd->transport_status;
    if (le32_get(cmd->sqe.cdw10) & SCRIPT_HOLD_DATA)
        script_hold(cmd);
    else if (cmd->transport_status)
        script_complete(cmd, cmd->transport_status);
    else
        script_got_data(cmd, cmd->data, cmd->data_len);
}

/* Lets the first of those that are held go on; false: there is none. */
static bool script_go(struct script *x)
{
    struct fl_list *l = fl_list_pop(&x->held);
    struct fl_cmd *cmd;

    if (!l)
        return false;
    cmd = FL_CONTAINER_OF(l, struct fl_cmd, link);
    if (cmd->buf && cmd->transport_status)
        script_complete(cmd, cmd->transport_status);
    else if (cmd->buf)
        script_got_data(cmd, cmd->data, cmd->data_len);
    else
        script_act(cmd);
    return true;
}

static void script_released(struct fl_cmd *cmd)
{
    struct script *x = script_of(cmd->conn);

    x->nr_released++;
    if (cmd->buf)
        x->nr_buffers--;
    free(cmd->buf);
    cmd->buf = NULL;
}

static void script_broken(struct fl_conn *conn)
{
    struct script *x = script_of(conn);
    struct fl_cmd *cmd, *next;

    x->nr_broken++;
    fl_list_for_each_safe (cmd, next, &x->held, link) {
        if (le32_get(cmd->sqe.cdw10) & SCRIPT_TILL_BROKEN) {
            fl_list_del(&cmd->link);
            script_complete(cmd, FL_NVME_SC_ABORT_QUEUE);
        }
    }
}

static void script_closed(struct fl_conn *conn, const char *why)
{
    struct script *x = script_of(conn);

    x->nr_closed++;
    x->conn = NULL;
    strncpy(x->why, why, sizeof(x->why) - 1);
}

static const struct fl_handler script_handler = {
    .opened = script_opened,
    .command = script_command,
    .data_ready = script_data_ready,
    .released = script_released,
    .broken = script_broken,
    .closed = script_closed,
};

static void script_init(struct script *x, uint32_t depth)
{
    memset(x, 0, sizeof(*x));
    fl_list_init(&x->held);
    x->depth = depth;
    if (!script_pattern[1])
        for (size_t i = 0; i < sizeof(script_pattern); i++)
            script_pattern[i] = (uint8_t)(i * 13 + (i >> 9) + (i >> 17));
}

#endif
