/* SPDX-License-Identifier: Apache-2.0 */
#include "peer.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/util.h"
#include "wire/ib.h"

#define ACCESS \
    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC)

static int complain(const char *what)
{
    fprintf(stderr, "%s: %m\n", what);
    return -1;
}

/* The first device that is up and has a GID that can be used; the one asked for if there is one. */
static struct ibv_context *open_device(const struct fl_verbs *verbs, const char *name)
{
    struct ibv_device **list = verbs->get_device_list(NULL);
    struct ibv_context *context = NULL;
    for (int i = 0; list && list[i] && !context; i++) {
        struct ibv_port_attr port;
        if (name && strcmp(name, verbs->get_device_name(list[i])))
            continue;
        context = verbs->open_device(list[i]);
        if (context && !name && (verbs->query_port(context, 1, &port) || port.state != IBV_PORT_ACTIVE)) {
            verbs->close_device(context);
            context = NULL;
        }
    }
    if (list)
        verbs->free_device_list(list);
    return context;
}

static int find_gid(struct peer *p)
{
    struct in6_addr addr;
    p->gid_index = p->options.gid_index;
    if (p->gid_index >= 0)
        return p->verbs->query_gid(p->context, 1, p->gid_index, &p->mine.gid);
    for (int i = 0; i < 256; i++) {
        struct ibv_gid_entry entry;
        if (p->verbs->query_gid_ex(p->context, 1, (uint32_t)i, &entry, 0, sizeof(entry)))
            continue;
        memcpy(&addr, &entry.gid, sizeof(addr));
        if (entry.gid_type == IBV_GID_TYPE_ROCE_V2 && IN6_IS_ADDR_V4MAPPED(&addr)) {
            p->gid_index = i;
            p->mine.gid = entry.gid;
            return 0;
        }
    }
    return -1;
}

static int make_qp(struct peer *p)
{
    struct ibv_qp_init_attr init = {
        .send_cq = p->cq,
        .recv_cq = p->cq,
        .cap = {.max_send_wr = p->options.depth,
                .max_recv_wr = p->options.depth,
                .max_send_sge = 1,
                .max_recv_sge = 1,
                .max_inline_data = p->options.max_inline},
        .qp_type = p->options.type,
    };
    struct ibv_qp_init_attr_ex init_ex = {0};
    memcpy(&init_ex, &init, sizeof(init)); /* its beginning, and comp_mask, which lies in the padding */
    init_ex.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    init_ex.pd = p->pd;
    init_ex.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_RDMA_WRITE;
    p->qp = p->options.extended ? p->verbs->create_qp_ex(p->context, &init_ex)
                                : p->verbs->create_qp(p->pd, &init);
    return p->qp ? 0 : complain("create_qp");
}

static int to_init(struct peer *p)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = ACCESS, .qkey = 0x11111111};
    if (p->verbs->modify_qp(p->qp, &attr,
                            IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX |
                                (p->options.type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)))
        return complain("modify_qp to INIT");
    return 0;
}

int peer_open(struct peer *p, const struct fl_verbs *verbs, const struct peer_options *options)
{
    struct ibv_port_attr port;
    *p = (struct peer){.verbs = verbs, .options = *options};
    p->context = open_device(verbs, options->device);
    if (!p->context)
        return complain("no device");
    if (find_gid(p) || verbs->query_port(p->context, 1, &port))
        return complain("no GID");
    p->mine.mtu = options->mtu ? (uint32_t)options->mtu : fl_ib_mtu_len((uint8_t)port.active_mtu);
    p->buf = mmap(NULL, options->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1,
                  0);
    if (p->buf == MAP_FAILED) {
        p->buf = NULL;
        return complain("mmap");
    }
    p->pd = verbs->alloc_pd(p->context);
    p->cq = p->pd ? verbs->create_cq(p->context, (int)options->depth * 2, NULL, NULL, 0) : NULL;
    p->mr = p->cq ? verbs->reg_mr(p->pd, p->buf, options->len, ACCESS) : NULL;
    if (!p->mr)
        return complain("protection domain, completion queue, memory region");
    if (make_qp(p) || to_init(p))
        return -1;
    p->mine.qpn = p->qp->qp_num;
    p->mine.psn = 0xffff00;
    p->mine.rkey = p->mr->rkey;
    p->mine.addr = (uintptr_t)p->buf;
    return 0;
}

static int whole(int fd, void *to, const void *from, size_t len)
{
    for (size_t at = 0; at < len;) {
        ssize_t n = to ? read(fd, (char *)to + at, len - at) : write(fd, (const char *)from + at, len - at);
        if (n <= 0)
            return complain(n ? "the other end" : "the other end is gone");
        at += (size_t)n;
    }
    return 0;
}

int peer_meet(int fd)
{
    char c = 'x';
    return whole(fd, NULL, &c, 1) || whole(fd, &c, NULL, 1) ? -1 : 0;
}

static enum ibv_mtu mtu_code(uint32_t len)
{
    uint8_t code = IBV_MTU_256;
    while (fl_ib_mtu_len(code) < len && code < IBV_MTU_4096)
        code++;
    return (enum ibv_mtu)code;
}

static int to_rts(struct peer *p)
{
    struct ibv_qp_attr attr = {
        .qp_state = IBV_QPS_RTR,
        .path_mtu = mtu_code(FL_MIN(p->mine.mtu, p->other.mtu)),
        .dest_qp_num = p->other.qpn,
        .rq_psn = p->other.psn,
        .max_dest_rd_atomic = 16,
        .min_rnr_timer = 12,
        .ah_attr = {.is_global = 1,
                    .port_num = 1,
                    .grh = {.dgid = p->other.gid, .sgid_index = (uint8_t)p->gid_index, .hop_limit = 64}},
        .sq_psn = p->mine.psn,
        .timeout = 14,
        .retry_cnt = 7,
        .rnr_retry = 7,
        .max_rd_atomic = 16,
    };
    bool rc = p->options.type == IBV_QPT_RC, ud = p->options.type == IBV_QPT_UD;
    int mask = IBV_QP_STATE;
    if (!ud)
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
    if (rc)
        mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
    if (p->verbs->modify_qp(p->qp, &attr, mask))
        return complain("modify_qp to RTR");
    attr.qp_state = IBV_QPS_RTS;
    mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
    if (rc)
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
    if (p->verbs->modify_qp(p->qp, &attr, mask))
        return complain("modify_qp to RTS");
    return 0;
}

int peer_connect(struct peer *p, int fd)
{
    if (whole(fd, NULL, &p->mine, sizeof(p->mine)) || whole(fd, &p->other, NULL, sizeof(p->other)))
        return -1;
    return to_rts(p) || peer_meet(fd) ? -1 : 0;
}

int peer_join(struct peer *a, struct peer *b)
{
    a->other = b->mine;
    b->other = a->mine;
    return to_rts(a) || to_rts(b) ? -1 : 0;
}

void peer_close(struct peer *p)
{
    if (p->qp)
        p->verbs->destroy_qp(p->qp);
    if (p->mr)
        p->verbs->dereg_mr(p->mr);
    if (p->cq)
        p->verbs->destroy_cq(p->cq);
    if (p->pd)
        p->verbs->dealloc_pd(p->pd);
    if (p->context)
        p->verbs->close_device(p->context);
    if (p->buf)
        munmap(p->buf, p->options.len);
}

int peer_reap(struct peer *p, uint32_t nr)
{
    struct ibv_wc wc[16];
    while (nr) {
        int n = ibv_poll_cq(p->cq, FL_MIN((int)nr, 16), wc);
        if (n < 0)
            return complain("poll_cq");
        for (int i = 0; i < n; i++) {
            if (wc[i].status != IBV_WC_SUCCESS) {
                fprintf(stderr, "request %llu ended with status %d\n", (unsigned long long)wc[i].wr_id,
                        wc[i].status);
                return -1;
            }
        }
        nr -= (uint32_t)n;
    }
    return 0;
}
