/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cases of public bug reports (docs/cases.md) on plain verbs, between two queue pairs of one process: cases
 * [soft|hardware [DEVICE]]. The same that the unit tests of src/rnic hold, as any RNIC should have them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/util.h"
#include "peer.h"

#define INLINE 64
#define ALL    (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

static const struct fl_verbs *verbs = &fl_verbs_soft;
static struct peer_options options = {
    .gid_index = -1, .type = IBV_QPT_RC, .depth = 32, .len = 1 << 16, .max_inline = INLINE};

struct pair {
    struct peer a, b;
};

static int setup(void **state)
{
    static struct pair pair;
    *state = &pair;
    return peer_open(&pair.a, verbs, &options) || peer_open(&pair.b, verbs, &options) ||
                   peer_join(&pair.a, &pair.b)
               ? -1
               : 0;
}

static int setup_extended(void **state)
{
    options.extended = true;
    int r = setup(state);
    options.extended = false;
    return r;
}

static int teardown(void **state)
{
    struct pair *pair = *state;
    peer_close(&pair->a);
    peer_close(&pair->b);
    return 0;
}

static struct ibv_wc next(struct peer *p)
{
    struct ibv_wc wc;
    time_t end = time(NULL) + 20;
    int n;
    while (!(n = ibv_poll_cq(p->cq, 1, &wc)))
        assert_true(time(NULL) < end);
    assert_int_equal(n, 1);
    return wc;
}

static void nothing(struct peer *p)
{
    struct ibv_wc wc;
    assert_int_equal(ibv_poll_cq(p->cq, 1, &wc), 0);
}

static int recv_at(struct peer *p, uint64_t wr_id, uint32_t at, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)p->buf + at, len, p->mr->lkey};
    struct ibv_recv_wr *bad = NULL, wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};
    int r = ibv_post_recv(p->qp, &wr, &bad);
    if (r)
        assert_ptr_equal(bad, &wr);
    return r;
}

static int post(struct peer *p, enum ibv_wr_opcode opcode, struct ibv_sge *sge, int nr, unsigned int flags,
                uint64_t addr, uint32_t rkey)
{
    struct ibv_send_wr *bad = NULL, wr = {.wr_id = 1,
                                          .sg_list = sge,
                                          .num_sge = nr,
                                          .opcode = opcode,
                                          .send_flags = IBV_SEND_SIGNALED | flags};
    wr.wr.rdma.remote_addr = addr;
    wr.wr.rdma.rkey = rkey;
    int r = ibv_post_send(p->qp, &wr, &bad);
    if (r)
        assert_ptr_equal(bad, &wr);
    return r;
}

static int send_inline(struct ibv_qp_ex *ex, size_t nr, const struct ibv_data_buf *bufs)
{
    ex->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_start(ex);
    ibv_wr_send(ex);
    ibv_wr_set_inline_data_list(ex, nr, bufs);
    return ibv_wr_complete(ex);
}

static void case_V1_inline_list(void **state)
{
    struct pair *p = *state;
    struct ibv_qp_ex *ex = verbs->qp_to_qp_ex(p->a.qp);
    char data[INLINE + 1];
    memset(data, 'x', sizeof(data));
    for (uint64_t i = 0; i < 2; i++)
        assert_int_equal(recv_at(&p->b, i, 0, 1024), 0);
    /* A device may give more than was asked for; the sum is beyond any. */
    static char much[4096];
    const struct ibv_data_buf over[] = {{much, INLINE}, {much, sizeof(much)}};
    assert_int_not_equal(send_inline(ex, 2, over), 0);
    const struct ibv_data_buf exact[] = {{data, INLINE - 1}, {data, 1}}, two[] = {{"ab", 2}, {"cde", 3}};
    assert_int_equal(send_inline(ex, 2, exact), 0);
    assert_int_equal(next(&p->a).status, IBV_WC_SUCCESS);
    assert_int_equal(next(&p->b).byte_len, INLINE);
    assert_memory_equal(p->b.buf, data, INLINE);
    assert_int_equal(send_inline(ex, 2, two), 0);
    assert_int_equal(next(&p->a).status, IBV_WC_SUCCESS);
    assert_int_equal(next(&p->b).byte_len, 5);
    assert_memory_equal(p->b.buf, "abcde", 5);
}

static void case_V2_zero_length(void **state)
{
    struct pair *p = *state;
    static const enum ibv_wr_opcode ops[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
                                             IBV_WR_RDMA_READ};
    for (size_t i = 0; i < FL_ARRAY_LEN(ops); i++) {
        bool takes = ops[i] == IBV_WR_SEND || ops[i] == IBV_WR_RDMA_WRITE_WITH_IMM;
        for (int nr = 0; nr < 2; nr++) {
            struct ibv_sge sge = {(uintptr_t)p->a.buf, 0, p->a.mr->lkey};
            unsigned int flags = ops[i] != IBV_WR_RDMA_READ && nr ? IBV_SEND_INLINE : 0;
            if (takes)
                assert_int_equal(recv_at(&p->b, 9, 0, 16), 0);
            assert_int_equal(post(&p->a, ops[i], &sge, nr, flags, 0, 0), 0); /* no key is looked at */
            assert_int_equal(next(&p->a).status, IBV_WC_SUCCESS);
            if (takes) {
                struct ibv_wc wc = next(&p->b);
                assert_int_equal(wc.status, IBV_WC_SUCCESS);
                assert_int_equal(wc.byte_len, 0);
            }
        }
    }
    struct ibv_sge sge = {(uintptr_t)p->a.buf, 8,
                          p->a.mr->lkey}; /* and the order of packets is still right */
    assert_int_equal(post(&p->a, IBV_WR_RDMA_WRITE, &sge, 1, 0, p->a.other.addr, p->a.other.rkey), 0);
    assert_int_equal(next(&p->a).status, IBV_WC_SUCCESS);
    nothing(&p->b);
}

static void to_error(struct peer *p)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    assert_int_equal(verbs->modify_qp(p->qp, &attr, IBV_QP_STATE), 0);
}

/* What is flushed comes in order, each once; no more than wr_id, status and qp_num is looked at. */
static void case_V4_flushed_in_order(void **state)
{
    struct pair *p = *state;
    for (uint64_t i = 0; i < 5; i++)
        assert_int_equal(recv_at(&p->a, i, 0, 16), 0);
    to_error(&p->a);
    for (uint64_t i = 0; i < 5; i++) {
        struct ibv_wc wc = next(&p->a);
        assert_int_equal(wc.wr_id, i);
        assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
        assert_int_equal(wc.qp_num, p->a.qp->qp_num);
    }
    nothing(&p->a);
}

static void case_V6_post_in_a_wrong_state(void **state)
{
    struct pair *p = *state;
    struct ibv_sge sge = {(uintptr_t)p->a.buf, 8, p->a.mr->lkey};
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    to_error(&p->a);
    assert_int_equal(post(&p->a, IBV_WR_SEND, &sge, 1, 0, 0, 0), 0);
    assert_int_equal(next(&p->a).status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(recv_at(&p->a, 1, 0, 8), 0);
    assert_int_equal(next(&p->a).status, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(verbs->modify_qp(p->a.qp, &attr, IBV_QP_STATE), 0);
    assert_true(post(&p->a, IBV_WR_SEND, &sge, 1, 0, 0, 0) > 0);
    if (verbs == &fl_verbs_soft) /* others take receives here, and lose them */
        assert_true(recv_at(&p->a, 1, 0, 8) > 0);
}

static void case_V12_fork(void **state)
{
    struct pair *p = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *half = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr = verbs->reg_mr(p->b.pd, half, page / 2, ALL);
    int status;
    assert_non_null(mr);
    pid_t child = fork();
    if (!child) {
        half[page - 1] = 1; /* its own half */
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    memset(p->a.buf, 7, page);
    struct ibv_sge sge = {(uintptr_t)p->a.buf, (uint32_t)page / 2, p->a.mr->lkey};
    assert_int_equal(post(&p->a, IBV_WR_RDMA_WRITE, &sge, 1, 0, (uintptr_t)half, mr->rkey), 0);
    assert_int_equal(next(&p->a).status, IBV_WC_SUCCESS);
    assert_memory_equal(half, p->a.buf, page / 2);
    assert_int_equal(half[page - 1], 0);
    assert_int_equal(verbs->dereg_mr(mr), 0);
    munmap(half, page);
}

static void case_V13_unmapped_and_mapped_again(void **state)
{
    struct pair *p = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = NULL;
    for (uint8_t round = 1; round < 4; round++) {
        uint8_t *m = mmap(at, page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED : 0), -1, 0);
        at = m;
        memset(m, round, page);
        struct ibv_mr *mr = verbs->reg_mr(p->b.pd, m, page, ALL);
        struct ibv_sge sge = {(uintptr_t)p->a.buf, (uint32_t)page, p->a.mr->lkey};
        assert_int_equal(post(&p->a, IBV_WR_RDMA_READ, &sge, 1, 0, (uintptr_t)m, mr->rkey), 0);
        assert_int_equal(next(&p->a).status, IBV_WC_SUCCESS);
        assert_memory_equal(p->a.buf, m, page);
        assert_int_equal(verbs->dereg_mr(mr), 0);
        munmap(m, page);
    }
}

/* The old pages, or an error: never the memory of whoever is there now. */
static void case_V13_unmapped_while_registered(void **state)
{
    struct pair *p = *state;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *m = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct ibv_mr *mr = verbs->reg_mr(p->b.pd, m, page, ALL);
    struct ibv_sge sge = {(uintptr_t)p->a.buf, (uint32_t)page, p->a.mr->lkey};
    const struct timespec nap = {.tv_nsec = 100000000};
    assert_non_null(mr);
    memset(p->a.buf, 0xee, page);
    assert_ptr_equal(mmap(m, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
                     m);
    nanosleep(&nap, NULL);
    assert_int_equal(post(&p->a, IBV_WR_RDMA_WRITE, &sge, 1, 0, (uintptr_t)m, mr->rkey), 0);
    next(&p->a);
    for (size_t i = 0; i < page; i++)
        assert_int_equal(m[i], 0);
    assert_int_equal(verbs->dereg_mr(mr), 0);
    munmap(m, page);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(case_V1_inline_list, setup_extended, teardown),
        cmocka_unit_test_setup_teardown(case_V2_zero_length, setup, teardown),
        cmocka_unit_test_setup_teardown(case_V4_flushed_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(case_V6_post_in_a_wrong_state, setup, teardown),
        cmocka_unit_test_setup_teardown(case_V12_fork, setup, teardown),
        cmocka_unit_test_setup_teardown(case_V13_unmapped_and_mapped_again, setup, teardown),
        cmocka_unit_test_setup_teardown(case_V13_unmapped_while_registered, setup, teardown),
    };
    struct fl_error err = {0};
    if (argc > 1 && !strcmp(argv[1], "hardware") && fl_verbs_hardware(&verbs, &err)) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    options.device = argc > 2 ? argv[2] : NULL;
    if (verbs != &fl_verbs_soft)
        verbs->fork_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
