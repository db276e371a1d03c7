/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of another host that are killed while they are connected, with nobody left there to say so: this
 * side finds out. Those that are only stopped, or whose hub died, keep their connections.
 */
#include "rnic/cma/test_hosts.h"

#define ROUND FL_NS_PER_S
#define AGAIN (3 * ROUND + 3 * FL_NS_PER_S) /* rounds: no answer, who else is there, and all the others */
/* A round and what is needed to be sure, which takes 5 s: again, where this process or the kernel's answers
 * waited for a CPU. */
#define LATE (20 * FL_NS_PER_S)

static void expect_late_end(struct rdma_event_channel *channel, int status, uint64_t since, uint64_t within)
{
    struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, (int)(within / FL_NS_PER_MS)), 1);
    struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(event->status, status);
    assert_int_equal(fl_cma_ack_cm_event(event), 0);
    if (fl_now_ns() - since > within)
        fail_msg("after %llu ms", (unsigned long long)((fl_now_ns() - since) / FL_NS_PER_MS));
}

/* Nobody is left there who could speak for it. */
static void nobody_left(void **state)
{
    struct bed bed;
    struct rdma_cm_id *id;
    struct child only = connected_from_there(&bed, &id);
    uint64_t since = fl_now_ns();
    end(&only);
    expect_late_end(bed.server, -ETIMEDOUT, since, LATE);
    disconnected(&bed, &id, 1);
}

/* More than the other kernel sends messages about */
static void nobody_left_of_many(void **state)
{
    static struct rdma_cm_id *ids[MANY];
    struct bed bed;
    struct child only = many_connected_from_there(&bed, ids);
    uint64_t since = fl_now_ns();
    end(&only);
    for (int i = 0; i < MANY; i++)
        expect_late_end(bed.server, -ETIMEDOUT, since, LATE);
    disconnected(&bed, ids, MANY);
}

static void no_server_left(void **state)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct child only = start_there(serve, 0);
    struct rdma_cm_id *id = begin(channel, THERE, hear(&only));
    expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    hear(&only);
    uint64_t since = fl_now_ns();
    end(&only);
    expect_late_end(channel, -ETIMEDOUT, since, LATE);
    destroy(id);
    fl_cma_destroy_event_channel(channel);
}

/* Another one has the port before anybody asked, and knows nothing of the connection. */
static void started_again(void **state)
{
    struct bed bed;
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *id;
    struct child first = connected_from_there(&bed, &id);
    uint64_t since = fl_now_ns();
    end(&first);
    struct child second = start_there(serve, 0);
    struct rdma_cm_id *other = begin(channel, THERE, hear(&second));
    expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    hear(&second);
    expect_late_end(bed.server, 0, since, LATE);
    since = fl_now_ns();
    end(&second);
    struct child third = start_there(serve, 0);
    hear(&third);
    expect_late_end(channel, 0, since, LATE);
    destroy(id);
    destroy(other);
    bed_fini(&bed);
    fl_cma_destroy_event_channel(channel);
    end(&third);
}

/* Stopped, it has the port and says nothing; that is not its end. */
static void stopped_alone(void **state)
{
    struct bed bed;
    struct rdma_cm_id *id;
    struct child only = connected_from_there(&bed, &id);
    assert_int_equal(kill(only.pid, SIGSTOP), 0);
    expect_nothing_for(bed.server, 5000);
    assert_int_equal(kill(only.pid, SIGCONT), 0);
    expect_nothing_for(bed.server, 2500);
    uint64_t since = fl_now_ns();
    end(&only);
    expect_late_end(bed.server, -ETIMEDOUT, since, LATE);
    disconnected(&bed, &id, 1);
}

/* Another one, which never heard of its connections, serves in its place meanwhile. */
static void stopped_and_replaced(void **state)
{
    struct bed bed;
    struct rdma_cm_id *id;
    struct child first = connected_from_there(&bed, &id);
    assert_int_equal(kill(first.pid, SIGSTOP), 0);
    struct child second = start_idle();
    expect_nothing_for(bed.server, (int)((AGAIN + 2 * FL_NS_PER_S) / FL_NS_PER_MS));
    assert_int_equal(kill(first.pid, SIGCONT), 0);
    expect_nothing_for(bed.server, 2500);
    uint64_t since = fl_now_ns();
    end(&first);
    expect_late_end(bed.server, 0, since, LATE);
    disconnected(&bed, &id, 1);
    end(&second);
}

/* Where a hub dies, and nobody has its port for a moment, whoever lives goes on. */
static void survivor(void **state)
{
    struct bed bed;
    struct child hub = start_idle();
    struct rdma_cm_id *id;
    struct child member = connected_from_there(&bed, &id);
    end(&hub);
    expect_nothing_for(bed.server, 5000);
    disconnected(&bed, &id, 1);
    end(&member);
}

int main(void)
{
    fl_vigil_round_ns = ROUND; /* here and there */
    if (!hosts_init())
        return 77;
    return FL_UNIT_RUN(cmocka_unit_test(nobody_left), cmocka_unit_test(nobody_left_of_many),
                       cmocka_unit_test(no_server_left), cmocka_unit_test(started_again),
                       cmocka_unit_test(stopped_alone), cmocka_unit_test(stopped_and_replaced),
                       cmocka_unit_test(survivor));
}
