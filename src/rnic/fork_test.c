/* SPDX-License-Identifier: Apache-2.0 */
/* V12: a program forks while it uses the RNIC. The child owns its memory and nothing of the RNIC. */
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rnic/test_threads.h"
#include "rnic/test_verbs.h"

/* In a child cmocka's checks would end in the parent's test. */
#define CHECK(what)          \
    do {                     \
        if (!(what))         \
            return __LINE__; \
    } while (0)

static int in_child(int (*child)(void *arg), void *arg)
{
    int status;
    assert_true(wait_for_threads());
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (!pid)
        _exit(child(arg));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

struct half {
    struct tv *tv;
    uint8_t *page;
    size_t len;
};

static int write_other_half(void *arg)
{
    struct half *h = arg;
    memset(h->page, 0xcc, h->len); /* all of the child's own copy: no fault */
    return 0;
}

static void case_V12_half_a_page(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct half h = {tv, mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), page};
    assert_ptr_not_equal(h.page, MAP_FAILED);
    memset(h.page, 0x11, page);
    struct ibv_mr *mr = fl_mr_reg(tv->pd, h.page, page / 2, TV_ALL_REMOTE), *own = tv->b.mr;
    uint8_t *buf = tv->b.buf;
    assert_non_null(mr);
    assert_int_equal(in_child(write_other_half, &h), 0);
    assert_int_equal(h.page[page - 1], 0x11);
    tv->b.mr = mr;
    tv->b.buf = h.page;
    tv_fill(&tv->a, 0, (uint32_t)page / 2, 5);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, (uint32_t)page / 2, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    assert_memory_equal(h.page, tv->a.buf, page / 2); /* the parent's page, also after the copy on write */
    assert_int_equal(h.page[page / 2], 0x11);
    tv->b.mr = own;
    tv->b.buf = buf;
    assert_int_equal(fl_mr_dereg(mr), 0);
    munmap(h.page, page);
    tv_free(tv);
}

/* Every call on what the parent made ends in an error, and none in a wait. */
static int use_all(void *arg)
{
    struct tv *tv = arg;
    struct ibv_wc wc;
    struct ibv_send_wr *bad, wr = {.opcode = IBV_WR_RDMA_WRITE};
    struct ibv_recv_wr *bad_recv, recv = {.wr_id = 1};
    struct ibv_async_event event;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    struct ibv_qp_init_attr init = {.send_cq = tv->a.scq, .recv_cq = tv->a.scq, .qp_type = IBV_QPT_RC};
    CHECK(ibv_post_send(tv->a.qp, &wr, &bad) == ENODEV && bad == &wr);
    CHECK(ibv_post_recv(tv->a.qp, &recv, &bad_recv) == ENODEV);
    CHECK(ibv_poll_cq(tv->a.scq, 1, &wc) < 0);
    CHECK(ibv_req_notify_cq(tv->a.scq, 0) == ENODEV);
    CHECK(fl_qp_modify(tv->a.qp, &attr, IBV_QP_STATE) == ENODEV);
    CHECK(!fl_qp_create(tv->pd, &init) && errno == ENODEV);
    CHECK(!fl_mr_reg(tv->pd, tv->a.buf, 8, 0) && errno == ENODEV);
    CHECK(!fl_pd_alloc(tv->context) && errno == ENODEV);
    CHECK(!fl_cq_create(tv->context, 8, NULL, NULL, 0) && errno == ENODEV);
    CHECK(fl_async_get(tv->context, &event) < 0 && errno == ENODEV);
    CHECK(fl_qp_destroy(tv->a.qp) == ENODEV);
    CHECK(fl_mr_dereg(tv->a.mr) == ENODEV);
    CHECK(fl_pd_dealloc(tv->pd) == ENODEV);
    return 0;
}

static void test_child_gets_errors(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    assert_int_equal(in_child(use_all, tv), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    tv_free(tv);
}

/* The child opens the device for itself. */
static int open_anew(void *arg)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    CHECK(fl_context_of(tv->context)->rnic != fl_context_of(((struct tv *)arg)->context)->rnic);
    CHECK(!tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0));
    CHECK(tv_wait(tv->a.scq).status == IBV_WC_SUCCESS);
    tv_free(tv);
    return 0;
}

static void test_child_opens_anew(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    assert_int_equal(in_child(open_anew, tv), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 64, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    tv_free(tv);
}

static int do_nothing(void *arg)
{
    return 0;
}

/* Forks in the midst of traffic: nothing hangs, nothing is lost. */
static void case_V12_forks_under_way(void **state)
{
    struct tv *tv = tv_pair(IBV_QPT_RC);
    for (int i = 0; i < 20; i++) {
        tv_fill(&tv->a, 0, 60000, (uint8_t)i);
        assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 60000, 0), 0);
        assert_int_equal(in_child(do_nothing, NULL), 0);
        tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
        assert_memory_equal(tv->a.buf, tv->b.buf, 60000);
    }
    tv_free(tv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(case_V12_half_a_page),
        cmocka_unit_test(test_child_gets_errors),
        cmocka_unit_test(test_child_opens_anew),
        cmocka_unit_test(case_V12_forks_under_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
