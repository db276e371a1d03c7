/* SPDX-License-Identifier: Apache-2.0 */
/* A thousand connections of one process: what each costs in memory, and that none costs time while it is
 * idle. */
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "rnic/test_verbs.h"

#define PAIRS      1000
#define QP_LEN_MAX 65536 /* beyond its queues */

static long resident_len(void)
{
    long pages = 0, drop;
    FILE *f = fopen("/proc/self/statm", "re");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%ld %ld", &drop, &pages), 2);
    fclose(f);
    return pages * sysconf(_SC_PAGESIZE);
}

static uint64_t cpu_ns(void)
{
    struct rusage ru;
    getrusage(RUSAGE_SELF, &ru);
    return (uint64_t)(ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * FL_NS_PER_S +
           (uint64_t)(ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000;
}

/* Two queue pairs that share everything else with all others */
static void make_pair(struct tv *tv, struct tv_end *ends)
{
    struct ibv_qp_init_attr init = {
        .send_cq = tv->a.scq,
        .recv_cq = tv->a.rcq,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
        .qp_type = IBV_QPT_RC};
    for (int i = 0; i < 2; i++) {
        ends[i] = tv->a;
        ends[i].qp = fl_qp_create(tv->pd, &init);
        assert_non_null(ends[i].qp);
    }
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tv_to_init(tv, &ends[i]), 0);
        assert_int_equal(tv_to_rtr(tv, &ends[i], &ends[!i]), 0);
        assert_int_equal(tv_to_rts(tv, &ends[i]), 0);
    }
}

static void test_a_thousand_connections(void **state)
{
    struct tv *tv = tv_new(IBV_QPT_RC);
    struct tv_end(*pairs)[2] = calloc(PAIRS, sizeof(*pairs));
    const struct timespec nap = {.tv_nsec = 300000000};
    assert_non_null(pairs);
    tv->cqe = 4096;
    tv_make_end(tv, &tv->a);
    long before = resident_len();
    for (int i = 0; i < PAIRS; i++)
        make_pair(tv, pairs[i]);
    for (int i = 0; i < PAIRS; i++) {
        assert_int_equal(tv_post(&pairs[i][0], &pairs[i][1], IBV_WR_RDMA_WRITE, 0, 4096, 64, 0), 0);
        tv_wait_ok(tv->a.scq, IBV_WC_RDMA_WRITE);
    }
    long each = (resident_len() - before) / (2 * PAIRS);
    printf("a connected queue pair: %ld bytes\n", each);
    assert_in_range(each, 1, QP_LEN_MAX);
    uint64_t busy = cpu_ns();
    nanosleep(&nap, NULL);
    nanosleep(&nap, NULL); /* the time-outs of what was sent are over in the first of the two */
    busy = cpu_ns() - busy;
    assert_true(busy < 60 * FL_NS_PER_MS);
    for (int i = 0; i < 2 * PAIRS; i++)
        assert_int_equal(fl_qp_destroy(pairs[i / 2][i % 2].qp), 0);
    free(pairs);
    tv_free(tv);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_thousand_connections)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
