/* SPDX-License-Identifier: Apache-2.0 */
#include "walk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc.h"
#include "base/unit.h"
#include "wire/nvmf.h"

_Noreturn void walk_fail(const struct walk *w, const char *condition, int line)
{
    print_error("%s, connection %zu, %s: not so: %s (line %d)\n", w->file, w->connection, w->what, condition,
                line);
    fail();
    abort();
}

struct pdu {
    struct fl_tcp_hdr hdr;
    const uint8_t *bytes; /* the whole PDU */
    const uint8_t *data;
    uint32_t data_len;
};

static uint32_t digest_at(const uint8_t *p)
{
    le32 x;
    memcpy(&x, p, sizeof(x));
    return le32_get(x);
}

/* The next PDU of a direction, its header checked by the code under test and its digests by a plain CRC. */
static bool next_pdu(struct walk *w, const struct flow_half *half, enum fl_tcp_role receiver, size_t *at,
                     struct pdu *pdu)
{
    size_t left = half->len - *at;
    struct fl_tcp_fault fault = {0, 0};
    if (!left)
        return false;
    w->what = "common header";
    WALK_CHECK(w, left >= sizeof(pdu->hdr));
    pdu->bytes = half->bytes + *at;
    memcpy(&pdu->hdr, pdu->bytes, sizeof(pdu->hdr));
    w->what = fl_tcp_type_text(pdu->hdr.type);
    WALK_CHECK(w, fl_tcp_hdr_check(&pdu->hdr, receiver, &w->limits[receiver], &fault) == 0);
    WALK_CHECK(w, le32_get(pdu->hdr.plen) <= left);
    WALK_CHECK(w, pdu->hdr.hlen == fl_tcp_hlen(pdu->hdr.type));
    pdu->data = pdu->bytes + fl_tcp_data_offset(&pdu->hdr);
    pdu->data_len = fl_tcp_data_len(&pdu->hdr);
    if (fl_tcp_hdgst_len(&pdu->hdr)) {
        WALK_CHECK(w,
                   digest_at(pdu->bytes + pdu->hdr.hlen) == fl_crc32c_portable(0, pdu->bytes, pdu->hdr.hlen));
        w->tally->nr_hdgst++;
    }
    if (fl_tcp_ddgst_len(&pdu->hdr)) {
        WALK_CHECK(w,
                   digest_at(pdu->data + pdu->data_len) == fl_crc32c_portable(0, pdu->data, pdu->data_len));
        w->tally->nr_ddgst++;
    }
    w->tally->nr_pdus[pdu->hdr.type]++;
    *at += le32_get(pdu->hdr.plen);
    return true;
}

static void walk_ic(struct walk *w, const struct flow *flow, size_t at[2])
{
    struct pdu pdu;
    struct fl_tcp_fault fault;
    w->limits[FL_TCP_TARGET] = w->limits[FL_TCP_HOST] = (struct fl_tcp_limits){.pda = 4, .max_plen = 128};
    WALK_CHECK(w, next_pdu(w, &flow->half[FLOW_OUT], FL_TCP_TARGET, &at[FLOW_OUT], &pdu));
    WALK_CHECK(w, fl_tcp_ic_req_decode((const void *)pdu.bytes, &w->asked, &fault) == 0);
    if (!next_pdu(w, &flow->half[FLOW_BACK], FL_TCP_HOST, &at[FLOW_BACK], &pdu))
        return;
    WALK_CHECK(w, fl_tcp_ic_resp_decode((const void *)pdu.bytes, &w->asked, &w->agreed, &fault) == 0);
    WALK_CHECK(w, w->agreed.maxh2cdata >= FL_TCP_MAXH2CDATA_MIN);
    for (int role = 0; role < 2; role++)
        w->limits[role] = (struct fl_tcp_limits){
            .hdgst = w->agreed.hdgst,
            .ddgst = w->agreed.ddgst,
            .pda = role == FL_TCP_TARGET ? w->agreed.pda : w->asked.pda,
            .max_plen = (role == FL_TCP_TARGET ? w->agreed.maxh2cdata : 4u << 20) + 256,
            .established = true,
        };
}

static struct cmd *add_cmd(struct walk *w)
{
    if (w->nr_cmds == w->cap_cmds) {
        w->cap_cmds = w->cap_cmds ? 2 * w->cap_cmds : 64;
        w->cmds = realloc(w->cmds, w->cap_cmds * sizeof(w->cmds[0]));
        WALK_CHECK(w, w->cmds);
    }
    struct cmd *cmd = &w->cmds[w->nr_cmds++];
    memset(cmd, 0, sizeof(*cmd));
    return cmd;
}

static void walk_cmd(struct walk *w, const struct pdu *pdu)
{
    struct fl_tcp_cmd capsule;
    struct cmd *cmd = add_cmd(w);
    memcpy(&capsule, pdu->bytes, sizeof(capsule));
    cmd->sqe = capsule.sqe;
    cmd->capsule = pdu->data;
    cmd->capsule_len = pdu->data_len;
    const struct fl_nvme_sgl *sgl = &cmd->sqe.sgl;
    WALK_CHECK(w, cmd->sqe.flags == FL_NVME_CMD_PSDT_SGL);
    if (pdu->data_len) {
        WALK_CHECK(w, sgl->type == FL_NVME_SGL_OFFSET && !le64_get(sgl->addr));
        WALK_CHECK(w, le32_get(sgl->len) == pdu->data_len && pdu->data_len <= FL_TCP_ADMIN_DATA_LEN);
    } else if (cmd->sqe.opcode != FL_NVMF_OPCODE || fl_nvmf_xfer(&cmd->sqe) != FL_NVME_XFER_NONE) {
        WALK_CHECK(w, sgl->type == FL_NVME_SGL_TRANSPORT ||
                          (sgl->type == FL_NVME_SGL_OFFSET && !le32_get(sgl->len)));
    }
}

/* The latest command so far with this identifier. */
static struct cmd *latest(struct walk *w, uint16_t cid)
{
    for (size_t i = w->nr_cmds; i--;)
        if (le16_get(w->cmds[i].sqe.cid) == cid)
            return &w->cmds[i];
    walk_fail(w, "its command was seen", __LINE__);
}

/* The earliest command with this identifier that has no response yet: in the target's direction that is the
 * one meant. */
static struct cmd *pending(struct walk *w, uint16_t cid)
{
    for (size_t i = 0; i < w->nr_cmds; i++)
        if (le16_get(w->cmds[i].sqe.cid) == cid && !w->cmds[i].done)
            return &w->cmds[i];
    walk_fail(w, "its command is outstanding", __LINE__);
}

/* Data must come in order without a gap, within the command's length. */
static void add_data(struct walk *w, struct cmd *cmd, const struct fl_tcp_data *head, const struct pdu *pdu)
{
    uint32_t len = le32_get(cmd->sqe.sgl.len);
    WALK_CHECK(w, le32_get(head->datao) == cmd->data_len);
    WALK_CHECK(w, pdu->data_len <= len - cmd->data_len);
    if (!cmd->data)
        cmd->data = malloc(len);
    WALK_CHECK(w, cmd->data);
    memcpy(cmd->data + cmd->data_len, pdu->data, pdu->data_len);
    cmd->data_len += pdu->data_len;
}

static void walk_h2c_data(struct walk *w, const struct pdu *pdu)
{
    struct fl_tcp_data head;
    struct fl_tcp_fault fault;
    memcpy(&head, pdu->bytes, sizeof(head));
    struct cmd *cmd = latest(w, le16_get(head.cccid));
    WALK_CHECK(w, fl_tcp_data_check(&head, &fault) == 0);
    WALK_CHECK(w, pdu->data_len <= w->agreed.maxh2cdata);
    WALK_CHECK(w, fl_nvmf_xfer(&cmd->sqe) == FL_NVME_XFER_TO_CTRL && !cmd->capsule_len);
    WALK_CHECK(w, cmd->nr_h2c < WALK_MAX_XFERS);
    cmd->h2c[cmd->nr_h2c++] = (struct xfer){le16_get(head.ttag), le32_get(head.datao), le32_get(head.datal),
                                            head.hdr.flags & FL_TCP_F_DATA_LAST};
    add_data(w, cmd, &head, pdu);
}

static void walk_c2h_data(struct walk *w, const struct pdu *pdu)
{
    struct fl_tcp_data head;
    struct fl_tcp_fault fault;
    memcpy(&head, pdu->bytes, sizeof(head));
    struct cmd *cmd = pending(w, le16_get(head.cccid));
    WALK_CHECK(w, fl_tcp_data_check(&head, &fault) == 0);
    WALK_CHECK(w, fl_nvmf_xfer(&cmd->sqe) == FL_NVME_XFER_TO_HOST && !cmd->c2h_last);
    WALK_CHECK(w, !le16_get(head.ttag));
    add_data(w, cmd, &head, pdu);
    cmd->c2h_last = head.hdr.flags & FL_TCP_F_DATA_LAST;
    if (head.hdr.flags & FL_TCP_F_DATA_SUCCESS) {
        WALK_CHECK(w, w->no_sq_flow); /* transport specification 3.6.2.9 */
        cmd->done = true;
    }
}

static void walk_r2t(struct walk *w, const struct pdu *pdu)
{
    struct fl_tcp_r2t r2t;
    struct fl_tcp_fault fault;
    memcpy(&r2t, pdu->bytes, sizeof(r2t));
    struct cmd *cmd = pending(w, le16_get(r2t.cccid));
    WALK_CHECK(w, fl_tcp_r2t_check(&r2t, &fault) == 0);
    WALK_CHECK(w, cmd->nr_r2t < WALK_MAX_XFERS);
    cmd->r2t[cmd->nr_r2t++] = (struct xfer){le16_get(r2t.ttag), le32_get(r2t.r2to), le32_get(r2t.r2tl),
                                            false};
}

/* Each R2T is answered in full by H2CData of its tag, the last of which says so; together they are the
 * command's data. */
static void check_transfers(struct walk *w, const struct cmd *cmd)
{
    unsigned h = 0;
    uint32_t total = 0;
    for (unsigned i = 0; i < cmd->nr_r2t; i++) {
        uint32_t end = cmd->r2t[i].offset + cmd->r2t[i].len;
        WALK_CHECK(w, cmd->r2t[i].offset == total);
        while (total < end) {
            WALK_CHECK(w, h < cmd->nr_h2c && cmd->h2c[h].ttag == cmd->r2t[i].ttag);
            WALK_CHECK(w, cmd->h2c[h].offset == total && cmd->h2c[h].len <= end - total);
            total += cmd->h2c[h].len;
            WALK_CHECK(w, cmd->h2c[h].last == (total == end));
            h++;
        }
    }
    WALK_CHECK(w, h == cmd->nr_h2c);
    WALK_CHECK(w, !cmd->nr_r2t || total == le32_get(cmd->sqe.sgl.len));
    WALK_CHECK(w, fl_nvmf_xfer(&cmd->sqe) != FL_NVME_XFER_TO_HOST || !cmd->data_len || cmd->c2h_last);
}

static void count_status(struct walk *w, uint16_t wire)
{
    size_t i = 0;
    while (i < WALK_MAX_STATUS && w->tally->status[i].nr && w->tally->status[i].wire != wire)
        i++;
    WALK_CHECK(w, i < WALK_MAX_STATUS);
    w->tally->status[i].wire = wire;
    w->tally->status[i].nr++;
}

static void walk_resp(struct walk *w, const struct pdu *pdu)
{
    struct fl_tcp_resp resp;
    memcpy(&resp, pdu->bytes, sizeof(resp));
    struct cmd *cmd = pending(w, le16_get(resp.cqe.cid));
    cmd->cqe = resp.cqe;
    cmd->done = true;
    WALK_CHECK(w, !(le16_get(resp.cqe.status) & 1)); /* no phase on fabrics */
    WALK_CHECK(w, !strstr(fl_nvme_status_text(fl_nvme_cqe_status(&resp.cqe)), "unknown"));
    if (fl_nvme_cqe_status(&resp.cqe))
        count_status(w, le16_get(resp.cqe.status));
    check_payload(w, cmd);
    WALK_CHECK(w,
               le16_get(resp.cqe.sqhd) <= w->sqsize || (w->no_sq_flow && le16_get(resp.cqe.sqhd) == 0xffff));
}

void walk_connection(const struct flow *flow, const char *file, size_t connection, struct tally *tally)
{
    struct walk w = {.file = file, .connection = connection, .what = "start", .tally = tally};
    struct pdu pdu;
    size_t at[2] = {0, 0};
    if (!flow->half[FLOW_OUT].len) { /* refused by TCP */
        WALK_CHECK(&w, !flow->half[FLOW_BACK].len);
        return;
    }
    walk_ic(&w, flow, at);
    while (next_pdu(&w, &flow->half[FLOW_OUT], FL_TCP_TARGET, &at[FLOW_OUT], &pdu)) {
        WALK_CHECK(&w, pdu.hdr.type == FL_TCP_CMD || pdu.hdr.type == FL_TCP_H2C_DATA);
        if (pdu.hdr.type == FL_TCP_CMD)
            walk_cmd(&w, &pdu);
        else
            walk_h2c_data(&w, &pdu);
    }
    while (next_pdu(&w, &flow->half[FLOW_BACK], FL_TCP_HOST, &at[FLOW_BACK], &pdu)) {
        if (pdu.hdr.type == FL_TCP_RESP)
            walk_resp(&w, &pdu);
        else if (pdu.hdr.type == FL_TCP_C2H_DATA)
            walk_c2h_data(&w, &pdu);
        else if (pdu.hdr.type == FL_TCP_R2T)
            walk_r2t(&w, &pdu);
        else
            walk_fail(&w, "a type that a target sends", __LINE__);
    }
    for (size_t i = 0; i < w.nr_cmds; i++) {
        w.what = "transfers";
        check_transfers(&w, &w.cmds[i]);
        free(w.cmds[i].data);
    }
    free(w.cmds);
}
