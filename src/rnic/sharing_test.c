/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that share a host: the end of the hub, forks, other users. */
#include <sched.h>

#include "base/unit.h"
#include "rnic/test_peers.h"

#define ROUNDS 20
#define TRIES  3

struct flag {
    bool set;
    pid_t grandchild;
};

static void sleep_on(struct tp *tp)
{
    for (;;)
        pause();
}

static struct flag *flag_new(void)
{
    struct flag *flag = mmap(NULL, sizeof(*flag), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(flag, MAP_FAILED);
    return flag;
}

/* A process with an RNIC and nothing else to do: the first one is the hub. */
static pid_t start_idle(struct flag *flag)
{
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (tp_open_loopback())
            __atomic_store_n(&flag->set, true, __ATOMIC_SEQ_CST);
        for (;;)
            pause();
    }
    tp_wait(&flag->set);
    flag->set = false;
    return pid;
}

static void end(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static void write_all(struct tp *tp, int nr)
{
    for (int i = 0; i < nr; i++) {
        tp_post(tp, IBV_WR_RDMA_WRITE, tp->plain, tp->plain_mr->lkey, 8192, tp->other->plain_at,
                tp->other->plain_key, IBV_SEND_SIGNALED);
        assert_int_equal(tp_next(tp).status, IBV_WC_SUCCESS);
    }
}

/* For one test, however it ends */
static int shm_off(void **state)
{
    return setenv("FARLANE_SHM", "0", 1);
}

static int shm_on(void **state)
{
    return unsetenv("FARLANE_SHM");
}

/* Two processes talk by UDP, a third one is their hub and is killed: again and again. The time of the slowest
 * WRITE that met it. */
static uint64_t kill_hubs(struct flag *flag)
{
    uint64_t longest = 0;
    for (int round = 0; round < ROUNDS; round++) {
        tp_environment();
        pid_t hub = start_idle(flag);
        struct tp *tp = tp_open_here(NULL, sleep_on);
        const struct fl_qp *qp = fl_qp_of(tp->qp);
        assert_string_equal(qp->path->name, "udp");
        write_all(tp, 20);
        assert_false(fl_port_stats(qp->rnic->port)->is_hub);
        uint64_t start = fl_now_ns();
        kill(hub, SIGKILL);
        write_all(tp, 1);
        longest = FL_MAX(longest, fl_now_ns() - start);
        waitpid(hub, NULL, 0);
        write_all(tp, 20);
        tp_close(tp);
    }
    print_message("longest WRITE across it: %u us\n", (unsigned)(longest / FL_NS_PER_US));
    return longest;
}

/* All over again where a machine was so busy that one of them waited for a CPU. */
static void a_killed_hub_costs_no_connection(void **state)
{
    struct flag *flag = flag_new();
    uint64_t longest = FL_NS_PER_S;
    for (int i = 0; i < TRIES && longest >= FL_NS_PER_S; i++)
        longest = kill_hubs(flag);
    assert_true(longest < FL_NS_PER_S);
    munmap(flag, sizeof(*flag));
}

/* A child that lives on does not keep the port, nor links to peers. */
static void a_forked_child_holds_nothing(void **state)
{
    struct flag *flag = flag_new();
    pid_t grandchild;
    tp_environment();
    pid_t pid = fork();
    if (pid == 0) { /* the hub, which forks and is killed */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (!tp_open_loopback())
            _exit(1);
        grandchild = fork();
        if (grandchild == 0) {
            prctl(PR_SET_PDEATHSIG, 0);
            sleep(60);
            _exit(0);
        }
        flag->grandchild = grandchild;
        __atomic_store_n(&flag->set, true, __ATOMIC_SEQ_CST);
        for (;;)
            pause();
    }
    tp_wait(&flag->set);
    flag->set = false;
    end(pid);
    struct tp *tp = tp_open_here(NULL, sleep_on); /* which waits less long than that one lives */
    assert_true(tp_wait_for_direct(tp));
    kill(flag->grandchild, SIGKILL);
    tp_close(tp);
    munmap(flag, sizeof(*flag));
}

static void become_nobody(void)
{
    TP_CHECK(!setgid(65534) && !setuid(65534));
}

static void another_users_process_goes_by_udp(void **state)
{
    if (geteuid())
        skip();
    tp_environment();
    struct tp *tp = tp_open_here(become_nobody, sleep_on);
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    assert_string_equal(qp->path->name, "udp");
    assert_string_equal(qp->path_reason, "the peer runs as another user");
    write_all(tp, 20);
    assert_int_equal(qp->nr_mapped + qp->nr_vm, 0);
    tp_close(tp);
}

/* The peer is process 1 of a namespace of its own, as in a container that shares the network of others. */
static void become_first(void)
{
    TP_CHECK(!unshare(CLONE_NEWPID));
    pid_t pid = fork();
    TP_CHECK(pid >= 0);
    if (pid) {
        waitpid(pid, NULL, 0);
        _exit(0);
    }
}

static void another_namespace_of_processes_is_no_hindrance(void **state)
{
    if (geteuid())
        skip();
    tp_environment();
    struct tp *tp = tp_open_here(become_first, sleep_on);
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    assert_string_equal(qp->path->name, "shm");
    assert_true(tp_wait_for_direct(tp));
    write_all(tp, 20); /* memory outside of pools, and a process that we can see */
    assert_true(qp->nr_vm > 0);
    tp_close(tp);
}

static void it_can_be_switched_off(void **state)
{
    struct tp *tp = tp_open(sleep_on);
    const struct fl_qp *qp = fl_qp_of(tp->qp);
    assert_string_equal(qp->path->name, "udp");
    assert_string_equal(qp->path_reason, "shared memory is switched off");
    write_all(tp, 20);
    tp_close(tp);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test_setup_teardown(a_killed_hub_costs_no_connection, shm_off, shm_on),
                       cmocka_unit_test(a_forked_child_holds_nothing),
                       cmocka_unit_test(another_users_process_goes_by_udp),
                       cmocka_unit_test(another_namespace_of_processes_is_no_hindrance),
                       cmocka_unit_test_setup_teardown(it_can_be_switched_off, shm_off, shm_on));
}
