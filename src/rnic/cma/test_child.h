/* SPDX-License-Identifier: Apache-2.0 */
/* Other processes, with ids of their own, that a test kills. */
#ifndef FL_RNIC_CMA_TEST_CHILD_H
#define FL_RNIC_CMA_TEST_CHILD_H

#include "rnic/cma/test_bed.h"
#include "rnic/test_threads.h"

#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

struct child {
    pid_t pid;
    int told; /* what the child writes */
};

/* In the child, which goes to a network namespace unless it is -1: runs a part, which tells steps by what it
 * writes, and stays until it is killed. */
static inline struct child start(int netns, void (*part)(int tell, uint16_t port), uint16_t port)
{
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_true(wait_for_threads());
    struct child child = {.pid = fork(), .told = fds[0]};
    assert_true(child.pid >= 0);
    if (!child.pid) {
        close(fds[0]);
        alarm(60);
        setenv("CMOCKA_TEST_ABORT", "1", 1); /* a failure must not go on with the tests of the parent */
        assert_true(netns < 0 || setns(netns, CLONE_NEWNET) == 0);
        part(fds[1], port);
        for (;;)
            pause();
    }
    close(fds[1]);
    return child;
}

static inline uint16_t hear(const struct child *child)
{
    uint16_t value;
    wait_readable(child->told);
    assert_int_equal(read(child->told, &value, sizeof(value)), sizeof(value));
    return value;
}

static inline void tell(int fd, uint16_t value)
{
    assert_int_equal(write(fd, &value, sizeof(value)), sizeof(value));
}

static inline void end(const struct child *child)
{
    kill(child->pid, SIGKILL);
    assert_int_equal(waitpid(child->pid, NULL, 0), child->pid);
    close(child->told);
}

static inline struct rdma_cm_id *take_request(struct bed *bed)
{
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct rdma_cm_event *event = expect(bed->server, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *id = event->id;
    assert_int_equal(fl_cma_ack_cm_event(event), 0);
    assert_int_equal(fl_cma_create_qp(id, NULL, &attr), 0);
    return id;
}

#endif
