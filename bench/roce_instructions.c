/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two queue pairs of the RoCE engine, packets carried from one to the other, for callgrind: the instructions
 * that the engine spends on one request, without port, ICRC and kernel. bench/instructions.py runs it and
 * reads the cost of the two functions that take the turns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/roce/roce.h"

#define DEPTH 32u
#define KEY   7u

__attribute__((noinline)) void requester_turn(uint32_t nr);
__attribute__((noinline)) void responder_turn(void);

struct end {
    struct fl_roce_qp qp;
    uint8_t *mem;
};

struct wire { /* what one end has sent, as it lies in a receive buffer */
    uint32_t nr, len[4 * DEPTH];
    uint8_t bytes[4 * DEPTH][FL_IB_HDRS_MAX + 4096];
};

static struct end a, b;
static struct wire to_a, to_b;
static uint32_t nr_done, len;
static enum ibv_wr_opcode opcode;
static uint64_t now = 1;

static int open_range(struct fl_roce_qp *qp, uint32_t key, uint64_t addr, uint32_t nr, int access, void **ptr)
{
    struct end *e = qp->owner;
    if (key != KEY || addr > DEPTH * 4096 || nr > DEPTH * 4096 - addr)
        return -1;
    *ptr = e->mem + addr;
    return 0;
}

static int invalidate(struct fl_roce_qp *qp, uint32_t rkey, bool from_peer)
{
    return 0;
}

static void complete(struct fl_roce_qp *qp, const struct ibv_wc *wc, bool of_send, bool solicited)
{
    if (wc->status != IBV_WC_SUCCESS)
        exit(1);
    nr_done += of_send;
}

static const struct fl_roce_ops ops = {
    .local = open_range, .remote = open_range, .invalidate = invalidate, .complete = complete};

static void send_all(struct fl_roce_qp *qp, struct wire *w)
{
    struct fl_roce_tx tx;
    while (w->nr < 4 * DEPTH && fl_roce_qp_tx(qp, now, &tx)) {
        uint32_t at = 0;
        for (int i = 0; i < tx.nr_iov; i++) {
            memcpy(w->bytes[w->nr] + at, tx.iov[i].iov_base, tx.iov[i].iov_len);
            at += (uint32_t)tx.iov[i].iov_len;
        }
        w->len[w->nr++] = at;
    }
}

static void take_all(struct fl_roce_qp *qp, struct wire *w)
{
    struct fl_ib_packet view;
    for (uint32_t i = 0; i < w->nr; i++)
        if (!fl_ib_packet_view(&view, w->bytes[i], w->len[i]))
            fl_roce_qp_rx(qp, &view, NULL, now);
    w->nr = 0;
}

/* Takes what came, posts, sends. */
void requester_turn(uint32_t nr)
{
    take_all(&a.qp, &to_a);
    for (uint32_t i = 0; i < nr; i++) {
        struct ibv_sge sge = {i * 4096, len, KEY};
        struct ibv_send_wr wr = {
            .opcode = opcode, .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED};
        wr.wr.rdma.remote_addr = i * 4096;
        wr.wr.rdma.rkey = KEY;
        if (fl_roce_qp_post_send(&a.qp, &wr))
            exit(1);
    }
    send_all(&a.qp, &to_b);
}

void responder_turn(void)
{
    take_all(&b.qp, &to_b);
    send_all(&b.qp, &to_a);
}

static void connect_end(struct end *e, uint32_t qpn, bool selective, struct fl_roce_pool *pool)
{
    struct fl_roce_cap cap = {.type = IBV_QPT_RC,
                              .qpn = qpn,
                              .max_send_wr = DEPTH,
                              .max_recv_wr = DEPTH,
                              .max_send_sge = 1,
                              .max_recv_sge = 1,
                              .max_dest_rd_atomic = 16,
                              .pool = pool};
    struct fl_roce_attr attr = {.dest_qpn = 3 - qpn,
                                .pkey = 0xffff,
                                .access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE,
                                .mtu = IBV_MTU_4096,
                                .timeout = 14,
                                .retry_cnt = 7,
                                .max_rd_atomic = 16,
                                .max_dest_rd_atomic = 16,
                                .selective = selective};
    e->mem = calloc(DEPTH, 4096);
    int r = fl_roce_qp_init(&e->qp, &ops, &cap, e);
    for (int state = IBV_QPS_INIT; !r && state <= IBV_QPS_RTS; state++)
        r = fl_roce_qp_modify(&e->qp, (enum ibv_qp_state)state, &attr);
    if (r || !e->mem)
        exit(1);
}

int main(int argc, char **argv)
{
    static const char *const names[] = {
        [IBV_WR_RDMA_WRITE] = "write", [IBV_WR_SEND] = "send", [IBV_WR_RDMA_READ] = "read"};
    struct fl_roce_pool pool;
    uint32_t rounds = argc == 5 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0;
    len = argc == 5 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    for (opcode = IBV_WR_RDMA_WRITE; opcode <= IBV_WR_RDMA_READ; opcode++)
        if (argc == 5 && names[opcode] && !strcmp(argv[1], names[opcode]))
            break;
    if (argc != 5 || opcode > IBV_WR_RDMA_READ || !rounds || len > 4096) {
        fprintf(stderr,
                "usage: roce_instructions write|send|read BYTES ROUNDS plain|selective\n"
                "%u requests a round; for callgrind, see instructions.py\n",
                DEPTH);
        return 2;
    }
    if (fl_roce_pool_init(&pool, 64))
        return 1;
    connect_end(&a, 1, !strcmp(argv[4], "selective"), &pool);
    connect_end(&b, 2, !strcmp(argv[4], "selective"), &pool);
    for (uint32_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; opcode == IBV_WR_SEND && i < DEPTH; i++) {
            struct ibv_sge sge = {i * 4096, 4096, KEY};
            struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
            if (fl_roce_qp_post_recv(&b.qp, &wr))
                return 1;
        }
        now += 10000;
        nr_done = 0;
        requester_turn(DEPTH);
        while (nr_done < DEPTH) {
            responder_turn();
            requester_turn(0);
        }
    }
    printf("%u\n", rounds * DEPTH);
    return 0;
}
