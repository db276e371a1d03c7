/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads on one RNIC: each with a pair of its own, several on one, and objects that come and go. */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "rnic/test_verbs.h"

#define THREADS   4
#define PAUSES    200
#define TRY_NS    (40 * FL_NS_PER_S) /* on a machine with other work it takes long until none comes between */
#define LOOKS_MAX 40                 /* in 100 ms; by the millisecond it would be some 50 to 95 */
#define ROUNDS    300

struct worker {
    pthread_t thread;
    struct tv *tv;
    int number;
    int faults;
};

/* cmocka's checks end the test of the thread that runs it, so the others count. */
static bool wait_for(struct ibv_cq *cq, int nr)
{
    struct ibv_wc wc[8];
    uint64_t end = fl_now_ns() + 30 * FL_NS_PER_S;
    while (nr > 0) {
        int n = ibv_poll_cq(cq, FL_MIN(nr, 8), wc);
        if (n < 0 || fl_now_ns() > end)
            return false;
        for (int i = 0; i < n; i++)
            if (wc[i].status != IBV_WC_SUCCESS)
                return false;
        nr -= n;
    }
    return true;
}

static int post_write(struct tv_end *end, struct tv_end *peer, uint32_t at, uint32_t len)
{
    struct ibv_sge sge = {(uintptr_t)end->buf + at, len, end->mr->lkey};
    struct ibv_send_wr *bad,
        wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
    wr.wr.rdma.remote_addr = (uintptr_t)peer->buf + at;
    wr.wr.rdma.rkey = peer->mr->rkey;
    return ibv_post_send(end->qp, &wr, &bad);
}

static void *own_pair(void *arg)
{
    struct worker *w = arg;
    for (int i = 0; i < ROUNDS; i++) {
        tv_fill(&w->tv->a, 0, 3000, (uint8_t)i);
        if (post_write(&w->tv->a, &w->tv->b, 0, 3000) || !wait_for(w->tv->a.scq, 1) ||
            memcmp(w->tv->a.buf, w->tv->b.buf, 3000))
            w->faults++;
    }
    return NULL;
}

static void run(struct worker *workers, int nr, void *(*body)(void *arg))
{
    for (int i = 0; i < nr; i++) {
        workers[i].number = i;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, body, &workers[i]), 0);
    }
    for (int i = 0; i < nr; i++) {
        pthread_join(workers[i].thread, NULL);
        assert_int_equal(workers[i].faults, 0);
    }
}

static void test_a_pair_each(void **state)
{
    struct worker workers[THREADS] = {{0}};
    for (int i = 0; i < THREADS; i++)
        workers[i].tv = tv_pair(IBV_QPT_RC);
    run(workers, THREADS, own_pair);
    for (int i = 0; i < THREADS; i++)
        tv_free(workers[i].tv);
}

/* All post to one queue pair, and each reaps as many completions as it posted, whose they are. */
static void *shared_pair(void *arg)
{
    struct worker *w = arg;
    uint32_t at = (uint32_t)w->number * 8192;
    for (int i = 0; i < ROUNDS; i++)
        if (post_write(&w->tv->a, &w->tv->b, at, 1500) || !wait_for(w->tv->a.scq, 1))
            w->faults++;
    return NULL;
}

static void test_one_pair_for_all(void **state)
{
    struct worker workers[THREADS] = {{0}};
    struct tv *tv = tv_pair(IBV_QPT_RC);
    tv_fill(&tv->a, 0, THREADS * 8192, 1);
    for (int i = 0; i < THREADS; i++)
        workers[i].tv = tv;
    run(workers, THREADS, shared_pair);
    for (uint32_t i = 0; i < THREADS; i++)
        assert_memory_equal(tv->a.buf + i * 8192, tv->b.buf + i * 8192, 1500);
    tv_free(tv);
}

/* Registers, makes and destroys while the others send. */
static void *churn(void *arg)
{
    struct worker *w = arg;
    if (w->number)
        return own_pair(arg);
    for (int i = 0; i < ROUNDS; i++) {
        struct ibv_mr *mr = fl_mr_reg(w->tv->pd, w->tv->a.buf, 4096, IBV_ACCESS_LOCAL_WRITE);
        struct ibv_cq *cq = fl_cq_create(w->tv->context, 16, NULL, NULL, 0);
        struct ibv_qp_init_attr init = {
            .send_cq = cq, .recv_cq = cq, .cap = {.max_send_wr = 4}, .qp_type = IBV_QPT_RC};
        struct ibv_qp *qp = fl_qp_create(w->tv->pd, &init);
        if (!mr || !cq || !qp || fl_cq_resize(cq, 64) || fl_qp_destroy(qp) || fl_cq_destroy(cq) ||
            fl_mr_dereg(mr))
            w->faults++;
    }
    return NULL;
}

static void test_objects_come_and_go(void **state)
{
    struct worker workers[THREADS] = {{0}};
    for (int i = 0; i < THREADS; i++)
        workers[i].tv = tv_pair(IBV_QPT_RC);
    run(workers, THREADS, churn);
    for (int i = 0; i < THREADS; i++)
        tv_free(workers[i].tv);
}

/* Takes what is there; each receive is posted again. */
static int take_all(struct worker *w)
{
    struct ibv_wc wc;
    int n, got = 0;
    while ((n = ibv_poll_cq(w->tv->b.rcq, 1, &wc)) > 0) {
        struct ibv_sge sge = {(uintptr_t)w->tv->b.buf, 64, w->tv->b.mr->lkey};
        struct ibv_recv_wr *bad, wr = {.sg_list = &sge, .num_sge = 1};
        got++;
        if (wc.status != IBV_WC_SUCCESS || ibv_post_recv(w->tv->b.qp, &wr, &bad))
            w->faults++;
    }
    if (n < 0)
        w->faults++;
    return got;
}

/* One sends, one sleeps for each completion in ibv_get_cq_event(): arms, looks once more, sleeps. */
static void *sleeper(void *arg)
{
    struct worker *w = arg;
    struct ibv_cq *cq = w->tv->b.rcq;
    void *context;
    for (int got = 0; !w->faults;) {
        if (ibv_req_notify_cq(cq, 0))
            w->faults++;
        got += take_all(w);
        if (got >= ROUNDS)
            break;
        if (fl_cq_event_get(w->tv->channel, &cq, &context) || cq != w->tv->b.rcq)
            w->faults++;
        fl_cq_event_ack(cq, 1);
    }
    return NULL;
}

static void test_sleeping_for_events(void **state)
{
    struct worker w = {.tv = tv_new(IBV_QPT_RC)};
    struct tv *tv = w.tv;
    tv->channel = fl_channel_create(tv->context);
    tv_connect(tv);
    for (int i = 0; i < TV_WRS; i++)
        assert_int_equal(tv_recv(&tv->b, 1, 0, 64), 0);
    assert_int_equal(pthread_create(&w.thread, NULL, sleeper, &w), 0);
    for (int i = 0; i < ROUNDS; i++) {
        assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 64, 0), 0);
        tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    }
    pthread_join(w.thread, NULL);
    assert_int_equal(w.faults, 0);
    tv_free(tv);
}

static uint64_t nr_thread_turns(struct fl_rnic *rnic)
{
    fl_rnic_lock(rnic);
    uint64_t nr = rnic->stats.nr_thread_turns;
    fl_rnic_unlock(rnic);
    return nr;
}

static void exchange(struct tv *tv)
{
    assert_int_equal(tv_recv(&tv->b, 1, 0, 64), 0);
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_SEND, 0, 0, 64, 0), 0);
    tv_wait_ok(tv->a.scq, IBV_WC_SEND);
    tv_wait_ok(tv->b.rcq, IBV_WC_RECV);
}

/* A program that polls loses its CPU for a moment again and again, while another of its queues is armed: the
 * thread does not begin to drive beside it. All over again where the machine took it away for longer. */
static void test_thread_leaves_a_program_alone(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    uint64_t turns = PAUSES;
    tv->channel = fl_channel_create(tv->context);
    struct ibv_cq *armed = fl_cq_create(tv->context, 16, NULL, tv->channel, 0);
    assert_non_null(armed);
    assert_int_equal(ibv_req_notify_cq(armed, 0), 0);
    tv_connect(tv);
    struct fl_rnic *rnic = fl_qp_of(tv->a.qp)->rnic;
    for (uint64_t limit = fl_now_ns() + TRY_NS; turns > PAUSES / 20 && fl_now_ns() < limit;) {
        for (uint64_t end = fl_now_ns() + 20 * FL_NS_PER_MS; fl_now_ns() < end;)
            exchange(tv);
        turns = nr_thread_turns(rnic);
        for (int n = 0; n < PAUSES; n++) {
            exchange(tv);
            usleep(250);
        }
        turns = nr_thread_turns(rnic) - turns;
    }
    print_message("%u turns\n", (unsigned)turns);
    assert_true(turns <= PAUSES / 20);
    fl_cq_destroy(armed);
    tv_free(tv);
}

/* Voluntary switches of the RNIC's thread: each is a sleep, so a look before it. */
static uint64_t nr_sleeps(void)
{
    DIR *dir = opendir("/proc/self/task");
    uint64_t nr = 0;
    assert_non_null(dir);
    for (struct dirent *d; (d = readdir(dir));) {
        char path[300], line[128];
        bool is_it = false;
        snprintf(path, sizeof(path), "/proc/self/task/%s/status", d->d_name);
        FILE *f = fopen(path, "r");
        while (f && fgets(line, sizeof(line), f)) {
            is_it |= !strcmp(line, "Name:\tfarlane-rnic\n");
            if (is_it)
                sscanf(line, "voluntary_ctxt_switches: %" SCNu64, &nr);
        }
        if (f)
            fclose(f);
    }
    closedir(dir);
    return nr;
}

/* Each look takes the CPU from the program, so a steady one is looked at only every few milliseconds; and yet
 * it is noticed when it has stopped. */
static void test_thread_seldom_looks_at_a_steady_program(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    uint64_t looks = LOOKS_MAX + 1;
    tv_connect(tv);
    for (uint64_t limit = fl_now_ns() + TRY_NS; looks > LOOKS_MAX && fl_now_ns() < limit;) {
        for (uint64_t end = fl_now_ns() + 50 * FL_NS_PER_MS; fl_now_ns() < end;)
            exchange(tv);
        looks = nr_sleeps();
        assert_true(looks > 0);
        for (uint64_t end = fl_now_ns() + 100 * FL_NS_PER_MS; fl_now_ns() < end;)
            exchange(tv);
        looks = nr_sleeps() - looks;
    }
    print_message("%u looks\n", (unsigned)looks);
    assert_true(looks <= LOOKS_MAX);
    tv->b.buf[0] = 0;
    tv->a.buf[0] = 7;
    assert_int_equal(tv_post(&tv->a, &tv->b, IBV_WR_RDMA_WRITE, 0, 0, 1, 0), 0);
    for (int ms = 0; ms < 20000 && __atomic_load_n(tv->b.buf, __ATOMIC_ACQUIRE) != 7; ms++)
        usleep(1000);
    assert_int_equal(__atomic_load_n(tv->b.buf, __ATOMIC_ACQUIRE), 7);
    tv_free(tv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_pair_each),
        cmocka_unit_test(test_one_pair_for_all),
        cmocka_unit_test(test_objects_come_and_go),
        cmocka_unit_test(test_sleeping_for_events),
        cmocka_unit_test(test_thread_leaves_a_program_alone),
        cmocka_unit_test(test_thread_seldom_looks_at_a_steady_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
