/* SPDX-License-Identifier: Apache-2.0 */
/* Memory regions and windows, seen by a peer. */
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rnic/test_verbs.h"

static void test_remote_bounds(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    uint64_t at = (uintptr_t)tv->b.buf;
    uint32_t key = tv->b.mr->rkey;
    assert_int_equal(tv_write_status(tv, key, at + TV_BUF_LEN - 8, 8), IBV_WC_SUCCESS);
    tv_refused(tv, key, at + TV_BUF_LEN - 7, 8);
    tv_refused(tv, key, at - 1, 8);
    tv_refused(tv, key + 0x100, at, 8);
    tv_refused(tv, 0, at, 8);
    tv_free(tv);
}

static void test_local_key(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_sge sge = {(uintptr_t)tv->a.buf + TV_BUF_LEN - 4, 8, tv->a.mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), 0);
    assert_int_equal(tv_wait(tv->a.scq).status, IBV_WC_LOC_PROT_ERR);
    tv_free(tv);
}

/* Another protection domain's key is no key. */
static void test_protection_domain(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_pd *other = fl_pd_alloc(tv->context);
    struct ibv_mr *mr = fl_mr_reg(other, tv->b.buf, TV_BUF_LEN, TV_ALL_REMOTE);
    assert_non_null(mr);
    tv_refused(tv, mr->rkey, (uintptr_t)tv->b.buf, 8);
    assert_int_equal(fl_pd_dealloc(other), EBUSY);
    assert_int_equal(fl_mr_dereg(mr), 0);
    assert_int_equal(fl_pd_dealloc(other), 0);
    tv_free(tv);
}

static void test_rights(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_mr *mr = fl_mr_reg(tv->pd, tv->b.buf, 64, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    tv_refused(tv, mr->rkey, (uintptr_t)tv->b.buf, 8);
    uint32_t gone = mr->rkey;
    assert_int_equal(fl_mr_dereg(mr), 0);
    tv_refused(tv, gone, (uintptr_t)tv->b.buf, 8);
    assert_null(fl_mr_reg(tv->pd, tv->b.buf, 64, IBV_ACCESS_REMOTE_WRITE)); /* without local write */
    assert_int_equal(errno, EINVAL);
    assert_null(fl_mr_reg(tv->pd, tv->b.buf, 64, 1 << 30));
    assert_int_equal(errno, EINVAL);
    assert_null(fl_mr_reg(tv->pd, tv->b.buf, 0, 0));
    assert_int_equal(errno, EINVAL);
    tv_free(tv);
}

static void test_iova(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_mr *mr = fl_mr_reg_iova2(tv->pd, tv->b.buf + 128, 64, 0xabc0000000000000, TV_ALL_REMOTE);
    assert_non_null(mr);
    tv_fill(&tv->a, 0, 8, 9);
    assert_int_equal(tv_write_status(tv, mr->rkey, 0xabc0000000000000 + 56, 8), IBV_WC_SUCCESS);
    assert_memory_equal(tv->b.buf + 128 + 56, tv->a.buf, 8);
    tv_refused(tv, mr->rkey, (uintptr_t)tv->b.buf + 128, 8);
    assert_int_equal(fl_mr_dereg(mr), 0);
    mr = fl_mr_reg(tv->pd, tv->b.buf + 128, 64, TV_ALL_REMOTE | IBV_ACCESS_ZERO_BASED);
    assert_int_equal(tv_write_status(tv, mr->rkey, 0, 8), IBV_WC_SUCCESS);
    assert_memory_equal(tv->b.buf + 128, tv->a.buf, 8);
    assert_int_equal(fl_mr_dereg(mr), 0);
    tv_free(tv);
}

static void test_unmapped_memory(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *three = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(three, MAP_FAILED);
    assert_int_equal(munmap(three + page, page), 0);
    assert_null(fl_mr_reg(tv->pd, three, 3 * page, IBV_ACCESS_LOCAL_WRITE)); /* a hole in it */
    assert_int_equal(errno, EFAULT);
    assert_null(fl_mr_reg(tv->pd, three + page, 8, 0));
    assert_int_equal(errno, EFAULT);
    assert_int_equal(mprotect(three, page, PROT_READ), 0);
    assert_null(fl_mr_reg(tv->pd, three, page, IBV_ACCESS_LOCAL_WRITE));
    assert_int_equal(errno, EFAULT);
    struct ibv_mr *mr = fl_mr_reg(tv->pd, three, page, IBV_ACCESS_REMOTE_READ);
    assert_non_null(mr);
    assert_int_equal(fl_mr_dereg(mr), 0);
    assert_null(fl_mr_reg(tv->pd, (void *)UINTPTR_MAX, 8, 0)); /* around the end of the address space */
    assert_int_equal(errno, EINVAL);
    assert_null(fl_mr_reg(tv->pd, NULL, 8, 0));
    assert_int_equal(errno, EFAULT);
    munmap(three, page);
    munmap(three + 2 * page, page);
    tv_free(tv);
}

static void test_rereg(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_pd *other = fl_pd_alloc(tv->context);
    struct ibv_mr *mr = fl_mr_reg(tv->pd, tv->b.buf, 64, TV_ALL_REMOTE);
    assert_int_equal(fl_mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ), 0);
    tv_refused(tv, mr->rkey, (uintptr_t)tv->b.buf, 8);
    assert_int_equal(fl_mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS | IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
                                 tv->b.buf + 64, 64, TV_ALL_REMOTE),
                     0);
    assert_int_equal(tv_write_status(tv, mr->rkey, (uintptr_t)tv->b.buf + 64, 64), IBV_WC_SUCCESS);
    tv_refused(tv, mr->rkey, (uintptr_t)tv->b.buf, 8);
    assert_int_equal(fl_mr_rereg(mr, 1 << 10, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
    assert_int_equal(fl_mr_rereg(mr, IBV_REREG_MR_CHANGE_PD, other, NULL, 0, 0), 0);
    tv_refused(tv, mr->rkey, (uintptr_t)tv->b.buf + 64, 8);
    assert_int_equal(fl_pd_dealloc(other), EBUSY);
    assert_int_equal(fl_mr_dereg(mr), 0);
    assert_int_equal(fl_pd_dealloc(other), 0);
    tv_free(tv);
}

/* V13, first half: the same address, mapped anew, shows what is there now. */
static void case_V13_mapped_again(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *at = NULL;
    for (uint8_t round = 1; round <= 3; round++) {
        uint8_t *p = mmap(at, page, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | (at ? MAP_FIXED_NOREPLACE : 0), -1, 0);
        assert_ptr_not_equal(p, MAP_FAILED);
        at = p;
        memset(p, round, page);
        struct ibv_mr *mr = fl_mr_reg(tv->pd, p, page, TV_ALL_REMOTE);
        assert_non_null(mr);
        struct ibv_mr *own = tv->b.mr;
        uint8_t *buf = tv->b.buf;
        tv->b.mr = mr;
        tv->b.buf = p;
        assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_READ, 0, 0, (uint32_t)page, 0), 0);
        tv_wait_ok(tv->a.scq, IBV_WC_RDMA_READ);
        assert_memory_equal(tv->a.buf, p, page);
        tv->b.mr = own;
        tv->b.buf = buf;
        assert_int_equal(fl_mr_dereg(mr), 0);
        assert_int_equal(munmap(p, page), 0);
    }
    tv_free(tv);
}

static int bind2(struct tv *tv, struct ibv_mw *mw, uint32_t rkey, uint32_t at, uint32_t len,
                 unsigned int access)
{
    struct ibv_send_wr *bad, wr = {
                                 .opcode = IBV_WR_BIND_MW,
                                 .send_flags = IBV_SEND_SIGNALED,
                                 .bind_mw = {.mw = mw,
                                             .rkey = rkey,
                                             .bind_info = {.mr = tv->b.mr,
                                                           .addr = (uintptr_t)tv->b.buf + at,
                                                           .length = len,
                                                           .mw_access_flags = access}},
                             };
    return ibv_post_send(tv->b.qp, &wr, &bad);
}

static void allow_windows(struct tv *tv)
{
    assert_int_equal(
        fl_mr_rereg(tv->b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, TV_ALL_REMOTE | IBV_ACCESS_MW_BIND),
        0);
}

static void test_window_type_2(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_mw *mw = ibv_alloc_mw(tv->pd, IBV_MW_TYPE_2);
    uint64_t at = (uintptr_t)tv->b.buf + 256;
    assert_non_null(mw);
    allow_windows(tv);
    tv_refused(tv, mw->rkey, at, 8); /* not bound yet */
    uint32_t key = ibv_inc_rkey(mw->rkey);
    assert_int_equal(bind2(tv, mw, key, 256, 64, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE), 0);
    tv_wait_ok(tv->b.scq, IBV_WC_BIND_MW);
    assert_int_equal(tv_write_status(tv, key, at + 56, 8), IBV_WC_SUCCESS);
    assert_int_equal(fl_mr_dereg(tv->b.mr), EBUSY);
    tv_refused(tv, key, at + 57, 8);
    assert_int_equal(bind2(tv, mw, key ^ 0x100, 0, 64, 0), EINVAL); /* not its key */

    struct ibv_send_wr *bad,
        inv = {.opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = key};
    assert_int_equal(ibv_post_send(tv->b.qp, &inv, &bad), 0);
    tv_wait_ok(tv->b.scq, IBV_WC_LOCAL_INV);
    tv_refused(tv, key, at, 8);
    assert_int_equal(bind2(tv, mw, ibv_inc_rkey(key), 256, 64, IBV_ACCESS_REMOTE_WRITE), 0);
    tv_wait_ok(tv->b.scq, IBV_WC_BIND_MW);
    assert_int_equal(tv_write_status(tv, ibv_inc_rkey(key), at, 8), IBV_WC_SUCCESS);
    /* bound again without being invalidated */
    assert_int_equal(bind2(tv, mw, key, 256, 64, IBV_ACCESS_REMOTE_WRITE), 0);
    assert_int_equal(tv_wait(tv->b.scq).status, IBV_WC_MW_BIND_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    tv_free(tv);
}

/* The peer's SEND takes the window back. */
static void test_window_invalidated_by_peer(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_mw *mw = ibv_alloc_mw(tv->pd, IBV_MW_TYPE_2);
    allow_windows(tv);
    assert_int_equal(bind2(tv, mw, mw->rkey, 0, 64, IBV_ACCESS_REMOTE_WRITE), 0);
    tv_wait_ok(tv->b.scq, IBV_WC_BIND_MW);
    assert_int_equal(tv_recv(&tv->b, 1, 512, 64), 0);
    struct ibv_send_wr *bad,
        wr = {.opcode = IBV_WR_SEND_WITH_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = mw->rkey};
    assert_int_equal(ibv_post_send(tv->a.qp, &wr, &bad), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    struct ibv_wc wc = tv_wait(tv->b.rcq);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
    assert_int_equal(wc.invalidated_rkey, mw->rkey);
    tv_refused(tv, mw->rkey, (uintptr_t)tv->b.buf, 8);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    tv_free(tv);
}

static void test_window_type_1(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    struct ibv_mw *mw = ibv_alloc_mw(tv->pd, IBV_MW_TYPE_1);
    uint32_t before = mw->rkey;
    struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
                               .bind_info = {.mr = tv->b.mr,
                                             .addr = (uintptr_t)tv->b.buf,
                                             .length = 64,
                                             .mw_access_flags = IBV_ACCESS_REMOTE_WRITE}};
    allow_windows(tv);
    assert_int_equal(ibv_bind_mw(tv->b.qp, mw, &bind), 0);
    tv_wait_ok(tv->b.scq, IBV_WC_BIND_MW);
    assert_int_not_equal(mw->rkey, before);
    assert_int_equal(tv_write_status(tv, mw->rkey, (uintptr_t)tv->b.buf, 64), IBV_WC_SUCCESS);
    before = mw->rkey;
    bind.bind_info.length = 0; /* unbind */
    assert_int_equal(ibv_bind_mw(tv->b.qp, mw, &bind), 0);
    tv_wait_ok(tv->b.scq, IBV_WC_BIND_MW);
    tv_refused(tv, before, (uintptr_t)tv->b.buf, 8);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    tv_free(tv);
}

static int count_maps(void)
{
    FILE *f = fopen("/proc/self/maps", "re");
    int c, n = 0;
    assert_non_null(f);
    while ((c = fgetc(f)) != EOF)
        n += c == '\n';
    fclose(f);
    return n;
}

/* V12, the part without a fork: many different ranges leave no mark on the process's maps. */
static void case_V12_maps_stay_level(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    size_t page = (size_t)sysconf(_SC_PAGESIZE), len = 1024 * page;
    uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    int before = count_maps();
    for (int i = 0; i < 100000; i++) {
        struct ibv_mr *mr = fl_mr_reg(tv->pd, p + (size_t)(i * 977) % (len - 2 * page),
                                      100 + (size_t)i % 5000, TV_ALL_REMOTE);
        assert_non_null(mr);
        assert_int_equal(fl_mr_dereg(mr), 0);
    }
    assert_in_range(count_maps(), 1, before + 2);
    munmap(p, len);
    tv_free(tv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_remote_bounds),
        cmocka_unit_test(test_local_key),
        cmocka_unit_test(test_protection_domain),
        cmocka_unit_test(test_rights),
        cmocka_unit_test(test_iova),
        cmocka_unit_test(test_unmapped_memory),
        cmocka_unit_test(test_rereg),
        cmocka_unit_test(case_V13_mapped_again),
        cmocka_unit_test(test_window_type_2),
        cmocka_unit_test(test_window_invalidated_by_peer),
        cmocka_unit_test(test_window_type_1),
        cmocka_unit_test(case_V12_maps_stay_level),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
