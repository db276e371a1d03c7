/* SPDX-License-Identifier: Apache-2.0 */
/* What a connection does when nothing goes wrong: operations, lengths, MTUs, posting rules, datagrams. */
#include "rnic/roce/test_pair.h"

/* As vmix sent them through Linux rxe (roce-ops.pcap). */
static void packets_equal_those_of_linux(void **state)
{
    static const uint8_t send_imm[] = {0x05, 0x00, 0xff, 0xff, 0, 0, 0, 0x11,
                                       0x80, 0x7a, 0xf2, 0x55, 1, 2, 3, 4};
    static const uint8_t write_imm[] = {0x0b, 0x00, 0xff, 0xff, 0,    0,    0,    0x11, 0x80, 0x7a, 0xf2,
                                        0x56, 0x00, 0x00, 0x55, 0x71, 0xeb, 0xc3, 0xd0, 0x00, 0x00, 0x00,
                                        0x02, 0x44, 0,    0,    0,    0,    5,    6,    7,    8};
    static const uint8_t swap[] = {0x13, 0x00, 0xff, 0xff, 0,    0,    0,    0x11, 0x80, 0x7a,
                                   0xf2, 0x57, 0x00, 0x00, 0x55, 0x71, 0xeb, 0xc3, 0xf0, 0x00,
                                   0x00, 0x00, 0x02, 0x44, 0,    0,    0,    0,    0,    0,
                                   0,    1,    0,    0,    0,    0,    0,    0,    0,    7};
    struct pair *p = pair_new();
    p->attr.sq_psn = 0x7af255;
    pair_up(p);
    p->a.qp.attr.dest_qpn = 0x11;
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND_WITH_IMM};
    memcpy(&wr.imm_data, (uint8_t[]){1, 2, 3, 4}, 4);
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
    wr.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
    memcpy(&wr.imm_data, (uint8_t[]){5, 6, 7, 8}, 4);
    wr.wr.rdma.remote_addr = 0x5571ebc3d000;
    wr.wr.rdma.rkey = 0x244;
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
    struct ibv_sge sge = {0, 8, LKEY};
    wr = (struct ibv_send_wr){.opcode = IBV_WR_ATOMIC_CMP_AND_SWP, .sg_list = &sge, .num_sge = 1};
    wr.wr.atomic.remote_addr = 0x5571ebc3f000;
    wr.wr.atomic.rkey = 0x244;
    wr.wr.atomic.compare_add = 7;
    wr.wr.atomic.swap = 1;
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
    struct sent *s = take(p, &p->a);
    assert_int_equal(s->len, sizeof(send_imm));
    assert_memory_equal(s->bytes, send_imm, s->len);
    s = take(p, &p->a);
    assert_int_equal(s->len, sizeof(write_imm));
    assert_memory_equal(s->bytes, write_imm, s->len);
    s = take(p, &p->a);
    assert_int_equal(s->len, sizeof(swap));
    assert_memory_equal(s->bytes, swap, s->len);
    pair_free(p);
}

static void one_length(uint8_t mtu, uint32_t len, uint32_t psn)
{
    struct pair *p = pair_new();
    p->attr.mtu = mtu;
    p->attr.sq_psn = p->attr.rq_psn = psn;
    pair_up(p);
    uint32_t bytes = 128u << mtu, nr = len ? (len + bytes - 1) / bytes : 1;
    post_recv(&p->b, 70, 30000, 20000);
    assert_int_equal(post(&p->a, 1, IBV_WR_SEND, 11, len, 0), 0);
    assert_int_equal(post(&p->a, 2, IBV_WR_RDMA_WRITE, 12, len, 50001), 0);
    assert_int_equal(post(&p->a, 3, IBV_WR_RDMA_READ, 60001 - len, len, 13), 0);
    settle(p);
    for (int i = 0; i < 3; i++)
        expect_wc(&p->a, i, (uint64_t)i + 1, IBV_WC_SUCCESS);
    assert_int_equal(p->a.nr_wcs, 3);
    assert_int_equal(p->b.nr_wcs, 1);
    assert_int_equal(p->b.wcs[0].byte_len, len);
    assert_memory_equal(p->b.mem + 30000, p->a.mem + 11, len);
    assert_memory_equal(p->b.mem + 50001, p->a.mem + 12, len);
    assert_memory_equal(p->a.mem + 60001 - len, p->b.mem + 13, len);
    assert_int_equal(p->a.qp.req.psn_next, fl_psn_add(psn, 3 * nr));
    assert_int_equal(p->b.qp.resp.epsn, fl_psn_add(psn, 3 * nr));
    pair_free(p);
}

/* Every MTU, lengths about its multiples, from PSNs that wrap on the way. */
static void every_mtu_and_the_psn_wrap(void **state)
{
    for (uint8_t mtu = IBV_MTU_256; mtu <= IBV_MTU_4096; mtu++) {
        uint32_t n = 128u << mtu;
        const uint32_t lens[] = {0, 1, 3, 4, n - 1, n, n + 1, 2 * n, 2 * n + 5, 9999};
        for (size_t i = 0; i < FL_ARRAY_LEN(lens); i++) {
            one_length(mtu, lens[i], 0xffffff);
            one_length(mtu, lens[i], 0xfffffd);
            one_length(mtu, lens[i], 0);
        }
    }
}

/* V2: one packet, PSN plus one, a completion, no look at the key; without SGEs, with an empty one, inline or
 * not. */
static void v2_zero_length_operations(void **state)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                                 IBV_WR_RDMA_READ};
    for (size_t i = 0; i < FL_ARRAY_LEN(opcodes); i++) {
        for (int num_sge = 0; num_sge < 2; num_sge++) {
            for (int is_inline = 0; is_inline < (opcodes[i] == IBV_WR_RDMA_READ ? 1 : 2); is_inline++) {
                struct pair *p = pair_new();
                struct ibv_sge sge = {is_inline ? 0 : 0xdead0000, 0, 0xdead};
                struct ibv_send_wr wr = {
                    .wr_id = 5, .opcode = opcodes[i], .sg_list = &sge, .num_sge = num_sge};
                wr.send_flags = is_inline ? IBV_SEND_INLINE : 0;
                wr.wr.rdma.rkey = 0xdead;
                pair_up(p);
                post_recv(&p->b, 6, 0, 100);
                assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
                settle(p);
                expect_wc(&p->a, 0, 5, IBV_WC_SUCCESS);
                assert_int_equal(p->nr_log, 2); /* and its answer */
                assert_int_equal(p->b.qp.resp.epsn, 101);
                bool takes = opcodes[i] == IBV_WR_SEND || opcodes[i] == IBV_WR_RDMA_WRITE_WITH_IMM;
                assert_int_equal(p->b.nr_wcs, takes);
                if (takes)
                    assert_int_equal(p->b.wcs[0].byte_len, 0);
                pair_free(p);
            }
        }
    }
}

/* Each piece is a READ request of its own, and counts as one; what has a fence waits for all of them. */
static void long_read_in_pieces(void **state)
{
    for (int selective = 0; selective < 2; selective++) {
        struct pair *p = pair_new();
        p->attr.read_piece = 2;
        p->attr.max_rd_atomic = 2;
        p->attr.selective = selective;
        assert_int_equal(fl_roce_pool_init(&p->pool, 8), 0);
        p->cap.pool = &p->pool;
        pair_up(p);
        post(&p->a, 1, IBV_WR_RDMA_READ, 0, 4 * 1024 + 5, 20000);
        struct ibv_send_wr wr = {.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_FENCE};
        assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
        for (uint32_t i = 0; i < 2; i++) {
            struct sent *ask = take(p, &p->a);
            assert_int_equal(ask->view.psn, 100 + 2 * i);
            assert_int_equal(be32_get(fl_ib_reth(&ask->view)->dma_len), 2048);
            assert_int_equal(be64_get(fl_ib_reth(&ask->view)->va), 20000 + 2048 * i);
            give(p, ask);
        }
        assert_null(take(p, &p->a)); /* max_rd_atomic */
        give(p, take(p, &p->b));
        assert_null(take(p, &p->a));
        give(p, take(p, &p->b));
        struct sent *last = take(p, &p->a);
        assert_int_equal(last->view.psn, 104);
        assert_int_equal(be32_get(fl_ib_reth(&last->view)->dma_len), 5);
        assert_null(take(p, &p->a)); /* the fence */
        give(p, last);
        settle(p);
        expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
        expect_wc(&p->a, 1, 2, IBV_WC_SUCCESS);
        assert_memory_equal(p->a.mem, p->b.mem + 20000, 4 * 1024 + 5);
        assert_int_equal(p->a.qp.req.nr_rd, 0);
        pair_free(p);
    }
}

/* V1: the sum counts. */
static void inline_list(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    struct ibv_sge sge[2] = {{(uintptr_t) "abcdefghijklmnopqrst", 20, 0},
                             {(uintptr_t) "0123456789ABCDEF", 13, 0}};
    struct ibv_send_wr wr = {
        .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_INLINE, .sg_list = sge, .num_sge = 2};
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), -EINVAL);
    sge[1].length = 12;
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
    sge[0].addr = sge[1].addr = 0; /* it was copied */
    post_recv(&p->b, 1, 0, 100);
    settle(p);
    assert_int_equal(p->b.wcs[0].byte_len, 32);
    assert_memory_equal(p->b.mem, "abcdefghijklmnopqrst0123456789AB", 32);
    pair_free(p);
}

/* V6 */
static void posting_in_every_state(void **state)
{
    struct pair *p = pair_new();
    struct end *a = &p->a;
    p->cap.qpn = 0x11;
    p->attr.dest_qpn = 0x22;
    assert_int_equal(fl_roce_qp_init(&a->qp, &pair_ops, &p->cap, a), 0);
    assert_int_equal(post_recv(a, 1, 0, 8), -EINVAL);
    assert_int_equal(post(a, 1, IBV_WR_SEND, 0, 8, 0), -EINVAL);
    pair_to(a, &p->attr, IBV_QPS_INIT);
    assert_int_equal(post_recv(a, 2, 0, 8), 0);
    assert_int_equal(post(a, 2, IBV_WR_SEND, 0, 8, 0), -EINVAL);
    assert_int_equal(fl_roce_qp_modify(&a->qp, IBV_QPS_RTS, &p->attr), -EINVAL);
    assert_int_equal(fl_roce_qp_modify(&a->qp, IBV_QPS_RTR, &p->attr), 0);
    assert_int_equal(post_recv(a, 3, 0, 8), 0);
    assert_int_equal(post(a, 3, IBV_WR_SEND, 0, 8, 0), -EINVAL);
    assert_int_equal(fl_roce_qp_modify(&a->qp, IBV_QPS_RTS, &p->attr), 0);
    assert_int_equal(fl_roce_qp_modify(&a->qp, IBV_QPS_SQD, &p->attr), 0);
    assert_int_equal(post(a, 4, IBV_WR_SEND, 0, 8, 0), 0);
    assert_null(take(p, a));
    assert_int_equal(a->nr_events, 1);
    assert_int_equal(a->event, IBV_EVENT_SQ_DRAINED);
    assert_int_equal(fl_roce_qp_modify(&a->qp, IBV_QPS_RTS, &p->attr), 0);
    assert_non_null(take(p, a));
    assert_int_equal(post(a, 5, IBV_WR_RDMA_READ, 0, 8, 0), 0);
    assert_int_equal(a->nr_wcs, 0);
    assert_int_equal(fl_roce_qp_modify(&a->qp, IBV_QPS_ERR, &p->attr), 0);
    assert_int_equal(post(a, 6, IBV_WR_SEND, 0, 8, 0), 0);
    assert_int_equal(post_recv(a, 7, 0, 8), 0);
    /* V4: all of it, in order, once */
    static const uint64_t ids[] = {4, 5, 2, 3, 6, 7};
    assert_int_equal(a->nr_wcs, 6);
    for (int i = 0; i < 6; i++)
        expect_wc(a, i, ids[i], IBV_WC_WR_FLUSH_ERR);
    assert_null(take(p, a));
    assert_int_equal(fl_roce_qp_deadline(&a->qp), FL_ROCE_NEVER);
    assert_int_equal(fl_roce_qp_modify(&a->qp, IBV_QPS_RESET, &p->attr), 0);
    pair_free(p);
}

static void posts_refused(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    struct ibv_sge sge[4] = {{0, 8, LKEY}, {8, 8, LKEY}, {16, 8, LKEY}, {24, 8, LKEY}};
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 4};
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), -EINVAL);
    wr.num_sge = -1;
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), -EINVAL);
    assert_int_equal(post(&p->a, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 4, 0), -EINVAL);
    assert_int_equal(post(&p->a, 1, IBV_WR_SEND, 0, FL_ROCE_MSG_MAX + 1, 0), -EINVAL);
    assert_int_equal(post(&p->a, 1, IBV_WR_BIND_MW, 0, 0, 0), -EINVAL); /* these ops have no windows */
    assert_int_equal(post(&p->a, 1, IBV_WR_TSO, 0, 0, 0), -EINVAL);
    for (int i = 0; i < 16; i++)
        assert_int_equal(post(&p->a, 1, IBV_WR_SEND, 0, 8, 0), 0);
    assert_int_equal(post(&p->a, 1, IBV_WR_SEND, 0, 8, 0), -ENOMEM);
    for (int i = 0; i < 16; i++)
        assert_int_equal(post_recv(&p->a, 1, 0, 8), 0);
    assert_int_equal(post_recv(&p->a, 1, 0, 8), -ENOMEM);
    pair_free(p);
}

static void acknowledgements_coalesce(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    for (uint64_t i = 0; i < 10; i++) {
        post_recv(&p->b, i, 0, 100);
        post(&p->a, i, IBV_WR_SEND, 0, 50, 0);
    }
    settle(p);
    assert_int_equal(p->a.nr_wcs, 10);
    assert_int_equal(p->nr_log, 11);
    assert_int_equal(p->b.qp.stats.nr_acks, 1);
    assert_int_equal(p->b.qp.stats.nr_coalesced, 9);
    assert_int_equal(p->log[10].view.psn, 109);
    assert_int_equal(be24_get(fl_ib_aeth(&p->log[10].view)->msn), 10);
    pair_free(p);
}

/* In SQD the message that was begun is finished, the next one waits; then the program is told. */
static void send_queue_drains(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    post_recv(&p->b, 1, 0, 3000);
    post(&p->a, 1, IBV_WR_SEND, 0, 3000, 0);
    post(&p->a, 2, IBV_WR_RDMA_WRITE, 0, 3000, 0);
    give(p, take(p, &p->a));
    assert_int_equal(fl_roce_qp_modify(&p->a.qp, IBV_QPS_SQD, NULL), 0);
    give(p, take(p, &p->a));
    give(p, take(p, &p->a));
    assert_null(take(p, &p->a));
    assert_int_equal(p->a.nr_events, 0);
    settle(p);
    assert_int_equal(p->a.nr_wcs, 1);
    assert_int_equal(p->a.nr_events, 1);
    assert_int_equal(p->a.event, IBV_EVENT_SQ_DRAINED);
    assert_int_equal(fl_roce_qp_modify(&p->a.qp, IBV_QPS_RTS, NULL), 0);
    settle(p);
    assert_int_equal(p->a.nr_wcs, 2);
    pair_free(p);
}

static void unsignaled_and_solicited(void **state)
{
    struct pair *p = pair_new();
    p->cap.sq_sig_all = false;
    pair_up(p);
    struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
    for (uint64_t i = 0; i < 3; i++) {
        wr.wr_id = i;
        wr.send_flags = i == 2 ? IBV_SEND_SIGNALED | IBV_SEND_SOLICITED : 0;
        post_recv(&p->b, i, 0, 8);
        assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
    }
    settle(p);
    assert_int_equal(p->a.nr_wcs, 1);
    expect_wc(&p->a, 0, 2, IBV_WC_SUCCESS);
    assert_false(p->b.solicited[0]);
    assert_true(p->b.solicited[2]);
    pair_free(p);
}

static void invalidation(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND_WITH_INV, .invalidate_rkey = 0x77};
    post_recv(&p->b, 9, 0, 8);
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
    wr.opcode = IBV_WR_LOCAL_INV;
    wr.invalidate_rkey = 0x78;
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
    settle(p);
    assert_int_equal(p->b.invalidated, 0x77);
    assert_int_equal(p->b.wcs[0].wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(p->b.wcs[0].invalidated_rkey, 0x77);
    assert_int_equal(p->a.invalidated, 0x78);
    assert_int_equal(p->a.wcs[1].opcode, IBV_WC_LOCAL_INV);
    wr.opcode = IBV_WR_SEND_WITH_INV;
    wr.invalidate_rkey = 0xbad;
    post_recv(&p->b, 10, 0, 8);
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
    settle(p);
    expect_wc(&p->a, 2, 1, IBV_WC_REM_ACCESS_ERR);
    pair_free(p);
}

static void atomics(void **state)
{
    struct pair *p = pair_new();
    pair_up(p);
    uint64_t five = 5, value;
    memcpy(p->b.mem + 800, &five, 8);
    post(&p->a, 1, IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 800);
    post(&p->a, 2, IBV_WR_ATOMIC_CMP_AND_SWP, 8, 8, 800); /* 10 is not 5 */
    settle(p);
    memcpy(p->b.mem + 800, &five, 8);
    post(&p->a, 3, IBV_WR_ATOMIC_CMP_AND_SWP, 16, 8, 800);
    settle(p);
    memcpy(&value, p->a.mem, 8);
    assert_int_equal(value, 5);
    memcpy(&value, p->a.mem + 8, 8);
    assert_int_equal(value, 10);
    memcpy(&value, p->b.mem + 800, 8);
    assert_int_equal(value, 77);
    pair_free(p);
}

static void shared_receive_queue(void **state)
{
    struct pair *p = pair_new();
    struct fl_roce_rq rq;
    assert_int_equal(fl_roce_rq_init(&rq, 4, 2, true), 0);
    p->cap.rq = &rq;
    pair_up(p);
    struct ibv_sge sge = {0, 100, LKEY};
    struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1};
    for (int i = 0; i < 4; i++)
        assert_int_equal(fl_roce_rq_post(&rq, &wr), 0);
    assert_int_equal(fl_roce_rq_post(&rq, &wr), -ENOMEM);
    assert_int_equal(fl_roce_qp_post_recv(&p->b.qp, &wr), -EINVAL);
    rq.limit = 3;
    post(&p->a, 1, IBV_WR_SEND, 0, 8, 0);
    settle(p);
    assert_int_equal(p->b.nr_events, 0);
    post(&p->a, 1, IBV_WR_SEND, 0, 8, 0);
    post(&p->b, 1, IBV_WR_SEND, 0, 8, 0);
    settle(p);
    assert_int_equal(p->b.nr_events + p->a.nr_events, 1);
    assert_int_equal(p->b.event, IBV_EVENT_SRQ_LIMIT_REACHED);
    fl_roce_qp_modify(&p->a.qp, IBV_QPS_ERR, NULL);
    assert_int_equal(fl_roce_rq_left(&rq), 1); /* is not this queue pair's to flush */
    pair_free(p);
    fl_roce_rq_fini(&rq);
}

static void datagrams(void **state)
{
    struct pair *p = pair_new();
    p->cap.type = IBV_QPT_UD;
    pair_up(p);
    uint8_t grh[40];
    struct ibv_sge sge = {0, 100, LKEY};
    struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_SEND_WITH_IMM, .sg_list = &sge, .num_sge = 1};
    memset(grh, 0x5a, sizeof(grh));
    memcpy(&wr.imm_data, "imm!", 4);
    wr.wr.ud.ah = (struct ibv_ah *)p;
    wr.wr.ud.remote_qpn = 0x22;
    wr.wr.ud.remote_qkey = 0x80000000; /* that of the queue pair */
    struct fl_roce_meta meta = {.grh = grh};
    post_recv(&p->b, 7, 1000, 140);
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), 0);
    struct sent *s = take(p, &p->a);
    assert_ptr_equal(s->ah, p);
    assert_int_equal(be32_get(fl_ib_deth(&s->view)->qkey), 0x1234);
    assert_int_equal(p->a.nr_wcs, 0); /* the port may still read the payload */
    assert_null(take(p, &p->a));
    expect_wc(&p->a, 0, 1, IBV_WC_SUCCESS);
    fl_roce_qp_rx(&p->b.qp, &s->view, &meta, p->now);
    expect_wc(&p->b, 0, 7, IBV_WC_SUCCESS);
    assert_int_equal(p->b.wcs[0].byte_len, 140);
    assert_int_equal(p->b.wcs[0].src_qp, 0x11);
    assert_int_equal(p->b.wcs[0].wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
    assert_int_equal(p->b.wcs[0].sl, 10); /* UDP over IPv4 */
    assert_memory_equal(p->b.mem + 1000, grh, 40);
    assert_memory_equal(p->b.mem + 1040, p->a.mem, 100);

    /* no receive; one that is too small, which stays; another Q_Key */
    give(p, s);
    post_recv(&p->b, 8, 0, 139);
    give(p, s);
    struct fl_deth *deth = (struct fl_deth *)(uintptr_t)fl_ib_deth(&s->view);
    deth->qkey = be32_of(1);
    give(p, s);
    assert_int_equal(p->b.nr_wcs, 1);
    assert_int_equal(p->b.qp.stats.nr_dropped, 3);
    assert_int_equal(p->b.qp.state, IBV_QPS_RTS);
    sge.length = 1025; /* more than the MTU */
    assert_int_equal(fl_roce_qp_post_send(&p->a.qp, &wr), -EINVAL);
    pair_free(p);
}

static void unreliable_connection(void **state)
{
    struct pair *p = pair_new();
    p->cap.type = IBV_QPT_UC;
    pair_up(p);
    post_recv(&p->b, 7, 20000, 5000);
    post(&p->a, 1, IBV_WR_SEND, 0, 3000, 0);
    post(&p->a, 2, IBV_WR_SEND, 100, 3000, 0);
    for (int i = 0; i < 6; i++) {
        struct sent *s = take(p, &p->a);
        assert_int_equal(s->view.bth->ack, 0);
        if (i != 1)
            give(p, s); /* the first message breaks; its receive serves the second */
    }
    assert_null(take(p, &p->a));
    assert_int_equal(p->a.nr_wcs, 2);
    assert_int_equal(p->b.nr_wcs, 1);
    expect_wc(&p->b, 0, 7, IBV_WC_SUCCESS);
    assert_memory_equal(p->b.mem + 20000, p->a.mem + 100, 3000);
    assert_null(take(p, &p->b));
    post(&p->a, 3, IBV_WR_RDMA_WRITE, 0, 3000, MEM_LEN - 10); /* refused in silence */
    post(&p->a, 4, IBV_WR_RDMA_WRITE, 0, 3000, 40000);
    settle(p);
    assert_memory_equal(p->b.mem + 40000, p->a.mem, 3000);
    assert_int_equal(p->b.qp.state, IBV_QPS_RTS);
    /* our own memory does not open: SQE, and receiving goes on */
    post(&p->a, 5, IBV_WR_SEND, MEM_LEN - 10, 3000, 0);
    post(&p->a, 6, IBV_WR_SEND, 0, 30, 0);
    settle(p);
    expect_wc(&p->a, 4, 5, IBV_WC_LOC_PROT_ERR);
    expect_wc(&p->a, 5, 6, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(p->a.qp.state, IBV_QPS_SQE);
    pair_free(p);
}

/* An acknowledgement waits for the requests that are posted meanwhile, but not for ever. */
static void acknowledgements_go_behind_requests(void **state)
{
    struct pair *p = pair_new();
    p->cap.max_send_wr = 64;
    pair_up(p);
    post_recv(&p->b, 7, 20000, 3000);
    post(&p->a, 1, IBV_WR_SEND, 0, 64, 0);
    assert_false(fl_roce_qp_owes_ack(&p->b.qp));
    give(p, take(p, &p->a));
    assert_true(fl_roce_qp_owes_ack(&p->b.qp));
    post(&p->b, 2, IBV_WR_RDMA_WRITE, 0, 100, 0);
    assert_int_equal(take(p, &p->b)->view.bth->opcode, FL_IB_OPCODE(FL_IB_RC, FL_IB_WRITE_ONLY));
    assert_int_equal(take(p, &p->b)->view.bth->opcode, FL_IB_OPCODE(FL_IB_RC, FL_IB_ACK));
    assert_false(fl_roce_qp_owes_ack(&p->b.qp));
    post_recv(&p->b, 8, 20000, 3000);
    post(&p->a, 3, IBV_WR_SEND, 0, 64, 0);
    give(p, take(p, &p->a));
    int nr = 0;
    for (int i = 0; i < 40; i++)
        assert_int_equal(post(&p->b, 9, IBV_WR_RDMA_WRITE, 0, 100, 0), 0);
    while (take(p, &p->b)->view.bth->opcode != FL_IB_OPCODE(FL_IB_RC, FL_IB_ACK))
        nr++;
    assert_in_range(nr, 8, 32);
    /* bad news and answers do not wait */
    post(&p->a, 4, IBV_WR_SEND, 0, 64, 0);
    give(p, take(p, &p->a));
    assert_false(fl_roce_qp_owes_ack(&p->b.qp)); /* no receive: RNR NAK */
    pair_free(p);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(packets_equal_those_of_linux), cmocka_unit_test(every_mtu_and_the_psn_wrap),
        cmocka_unit_test(v2_zero_length_operations), cmocka_unit_test(long_read_in_pieces),
        cmocka_unit_test(inline_list), cmocka_unit_test(posting_in_every_state),
        cmocka_unit_test(posts_refused), cmocka_unit_test(acknowledgements_coalesce),
        cmocka_unit_test(acknowledgements_go_behind_requests), cmocka_unit_test(send_queue_drains),
        cmocka_unit_test(unsignaled_and_solicited), cmocka_unit_test(invalidation), cmocka_unit_test(atomics),
        cmocka_unit_test(shared_receive_queue), cmocka_unit_test(datagrams),
        cmocka_unit_test(unreliable_connection));
}
