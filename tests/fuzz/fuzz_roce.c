/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live RoCE queue pair, and a peer that says anything. Input: a byte of kind (RC, RC with selective
 * retransmission, UC, UD) and MTU, then records: a byte of what happens (a receive is posted, a request is
 * posted, time passes, a packet comes), and what it needs. Each posted request completes once and in order,
 * at the latest when the queue pair is torn down; memory is touched through checked ranges only.
 */
#include "fuzz.h"
#include "input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/roce/bits.h"
#include "rnic/roce/roce.h"

#define MEM_LEN 9000
#define KEY     0x1001u

struct bed {
    uint8_t *mem; /* exactly that long, so that ASan sees the end */
    uint64_t nr_sends, nr_sends_done, nr_recvs, nr_recvs_done;
};

static uint32_t pair(struct input *in)
{
    uint32_t low = byte(in);
    return low | (uint32_t)byte(in) << 8;
}

static int open_range(struct fl_roce_qp *qp, uint32_t key, uint64_t addr, uint32_t len, int access,
                      void **ptr)
{
    struct bed *bed = qp->owner;
    assert(len);
    if (key != KEY || addr > MEM_LEN || len > MEM_LEN - addr)
        return -EACCES;
    *ptr = bed->mem + addr;
    return 0;
}

static int invalidate(struct fl_roce_qp *qp, uint32_t rkey, bool from_peer)
{
    return rkey & 1 ? 0 : -EINVAL;
}

static void complete(struct fl_roce_qp *qp, const struct ibv_wc *wc, bool of_send, bool solicited)
{
    struct bed *bed = qp->owner;
    if (of_send) {
        assert(wc->wr_id == bed->nr_sends_done && bed->nr_sends_done < bed->nr_sends);
        bed->nr_sends_done++;
    } else {
        assert(wc->wr_id == bed->nr_recvs_done && bed->nr_recvs_done < bed->nr_recvs);
        bed->nr_recvs_done++;
    }
}

static const struct fl_roce_ops ops = {
    .local = open_range,
    .remote = open_range,
    .invalidate = invalidate,
    .complete = complete,
};

static void post_recv(struct fl_roce_qp *qp, struct input *in)
{
    struct bed *bed = qp->owner;
    struct ibv_sge sge[2] = {{pair(in), byte(in) * 16u, KEY}, {pair(in), byte(in) * 16u, KEY}};
    struct ibv_recv_wr wr = {.wr_id = bed->nr_recvs, .sg_list = sge, .num_sge = byte(in) % 3};
    bed->nr_recvs++; /* it may complete at once */
    if (fl_roce_qp_post_recv(qp, &wr))
        bed->nr_recvs--;
}

static void post_send(struct fl_roce_qp *qp, struct input *in)
{
    struct bed *bed = qp->owner;
    struct ibv_sge sge[2] = {{pair(in), pair(in), KEY}, {pair(in), byte(in), KEY}};
    struct ibv_send_wr wr = {.wr_id = bed->nr_sends, .sg_list = sge};
    wr.opcode = (enum ibv_wr_opcode)(byte(in) % 12);
    wr.num_sge = byte(in) % 3;
    wr.send_flags = byte(in) & (IBV_SEND_FENCE | IBV_SEND_SOLICITED);
    if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP || wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        sge[0].length = 8;
        wr.num_sge = 1;
    }
    bed->nr_sends++;
    if (fl_roce_qp_post_send(qp, &wr))
        bed->nr_sends--;
}

/* A packet whose PSN lies near what the queue pair expects, and whose keys and addresses are often right. */
static void packet(struct fl_roce_qp *qp, struct input *in, uint64_t now)
{
    static uint8_t bytes[FL_IB_HDRS_MAX + 4100];
    static const uint8_t services[] = {[IBV_QPT_RC] = 0, [IBV_QPT_UC] = 0x20, [IBV_QPT_UD] = 0x60};
    uint8_t what = byte(in), how = byte(in);
    uint8_t opcode = what >= 0xf0   ? FL_IB_OPCODE_CNP
                     : what >= 0xe8 ? FL_IB_OPCODE_SACK
                     : what >= 0xe6 ? FL_IB_OPCODE_PROBE
                                    : (what & 0x1f) | services[qp->cap.type];
    struct fl_roce_meta meta = {.ce = how & 32};
    const struct fl_ib_opcode *op = &fl_ib_opcodes[opcode];
    if (!op->name)
        return;
    uint32_t mtu = fl_ib_mtu_len(qp->attr.mtu), len = 0;
    if (op->attr & FL_IB_HAS_PAYLOAD)
        len = how & 1 ? mtu : pair(in) % 4097;
    uint32_t near = op->attr & FL_IB_RESPONSE ? qp->req.psn_una : qp->resp.epsn;
    uint32_t psn = how & 2 ? near : fl_psn_add(near, (uint32_t)(int8_t)byte(in));
    fl_bth_set((struct fl_bth *)bytes, opcode, 0xffff, qp->cap.qpn, psn, (uint8_t)(-len & 3));
    ((struct fl_bth *)bytes)->ack = how & 4 ? FL_BTH_ACKREQ : 0;
    for (uint32_t i = sizeof(struct fl_bth); i < op->hdr_len; i++)
        bytes[i] = byte(in);
    if (how & 8) {
        struct fl_reth *reth = (struct fl_reth *)(bytes +
                                                  sizeof(struct fl_bth)); /* AtomicETH begins like it */
        if (op->reth || op->atomic) {
            reth->va = be64_of(pair(in) % (MEM_LEN + 100));
            reth->rkey = be32_of(KEY);
        }
        if (op->reth)
            reth->dma_len = be32_of(how & 16 ? len : pair(in));
    }
    if (op->deth && how & 8)
        ((struct fl_deth *)(bytes + op->deth))->qkey = be32_of(qp->attr.qkey);
    memset(bytes + op->hdr_len, how, len + 3);
    if (opcode == FL_IB_OPCODE_SACK && qp->sel && how & 8)
        memcpy(bytes + op->hdr_len, &qp->sel->probe_serial, sizeof(be32)); /* the answer to its probe */
    struct fl_ib_packet view;
    if (!fl_ib_packet_view(&view, bytes, op->hdr_len + len + (-len & 3)))
        fl_roce_qp_rx(qp, &view, &meta, now);
}

static void drain(struct fl_roce_qp *qp, uint64_t now)
{
    struct fl_roce_tx tx;
    for (int n = 0; n < 64 && fl_roce_qp_tx(qp, now, &tx); n++) {
        static uint8_t sent[FL_IB_HDRS_MAX + 4100];
        uint32_t at = 0;
        for (int i = 0; i < tx.nr_iov; i++) {
            assert(at + tx.iov[i].iov_len <= sizeof(sent));
            memcpy(sent + at, tx.iov[i].iov_base, tx.iov[i].iov_len); /* ASan looks at the reference */
            at += (uint32_t)tx.iov[i].iov_len;
        }
        struct fl_ib_packet view;
        int r = fl_ib_packet_view(&view, sent, tx.len);
        assert(at == tx.len && !r);
    }
}

/* What is on its way is counted once, whatever the peer says and however often the clock runs out. */
static void check_selective(const struct fl_roce_qp *qp, const struct fl_roce_pool *pool)
{
    const struct fl_roce_selective *sel = qp->sel;
    assert(sel->nr_held + pool->nr_free == pool->nr);
    if (qp->state == IBV_QPS_ERR)
        return;
    uint32_t nr = (uint32_t)fl_psn_diff(qp->req.psn_max, qp->req.psn_una), nr_out = 0, nr_lost = 0;
    for (uint32_t i = 0; i < nr; i++) {
        uint32_t psn = fl_psn_add(qp->req.psn_una, i);
        bool lost = i < FL_ROCE_SPAN && fl_bit(sel->lost, psn);
        nr_lost += lost;
        nr_out += !lost && !(i < FL_ROCE_SPAN && fl_bit(sel->seen, psn));
    }
    assert(sel->nr_lost == nr_lost && sel->nr_out == nr_out);
    assert(qp->req.psn_next == qp->req.psn_max && fl_psn_diff(sel->psn_heard, qp->req.psn_una) >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
    struct input in = {data, data + len};
    uint8_t kind = byte(&in);
    struct bed bed = {.mem = calloc(1, MEM_LEN)};
    struct fl_roce_pool pool;
    int r = fl_roce_pool_init(&pool, 4);
    bool selective = (kind & 3) == 1;
    struct fl_roce_cap cap = {.type = types[kind & 3],
                              .qpn = 9,
                              .max_send_wr = 8,
                              .max_recv_wr = 8,
                              .max_send_sge = 2,
                              .max_recv_sge = 2,
                              .max_dest_rd_atomic = 3,
                              .sq_sig_all = true,
                              .pool = &pool};
    struct fl_roce_attr attr = {.dest_qpn = 8,
                                .sq_psn = 0xfffff0,
                                .rq_psn = 0xfffff8,
                                .qkey = 5,
                                .pkey = 0xffff,
                                .access = kind & 0x80 ? 0 : 0xf,
                                .mtu = (uint8_t)(1 + (kind >> 2) % 5),
                                .timeout = 10,
                                .retry_cnt = 2,
                                .rnr_retry = kind & 0x40 ? 7 : 1,
                                .min_rnr_timer = 1,
                                .max_rd_atomic = 2,
                                .max_dest_rd_atomic = 3,
                                .window = 8,
                                .read_piece = kind & 0x10 ? 2 : 0,
                                .selective = selective,
                                .nr_paths = selective && kind & 0x20 ? 4 : 1};
    struct fl_roce_qp qp;
    uint64_t now = 1;
    assert(bed.mem && !r);
    r = fl_roce_qp_init(&qp, &ops, &cap, &bed);
    assert(!r);
    for (int state = IBV_QPS_INIT; state <= IBV_QPS_RTS; state++) {
        r = fl_roce_qp_modify(&qp, (enum ibv_qp_state)state, &attr);
        assert(!r);
    }
    while (in.at < in.end) {
        switch (byte(&in) & 7) {
        case 0:
            post_recv(&qp, &in);
            break;
        case 1:
            post_send(&qp, &in);
            break;
        case 2:
            if (fl_roce_qp_deadline(&qp) != FL_ROCE_NEVER)
                now = fl_roce_qp_deadline(&qp);
            fl_roce_qp_tick(&qp, now);
            break;
        case 3:
            drain(&qp, now);
            break;
        default:
            packet(&qp, &in, now);
        }
        assert(qp.req.tail - qp.req.cur <= qp.req.tail - qp.req.head);
        if (selective)
            check_selective(&qp, &pool);
        assert(qp.req.nr_rd <= attr.max_rd_atomic && qp.resp.nr_rd <= attr.max_dest_rd_atomic);
    }
    drain(&qp, now);
    fl_roce_qp_modify(&qp, IBV_QPS_ERR, &attr);
    assert(bed.nr_sends_done == bed.nr_sends && bed.nr_recvs_done == bed.nr_recvs);
    fl_roce_qp_fini(&qp);
    assert(pool.nr_free == pool.nr);
    fl_roce_pool_fini(&pool);
    free(bed.mem);
    return 0;
}
