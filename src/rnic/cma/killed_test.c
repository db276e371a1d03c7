/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Processes of another host that are killed while they are connected: this side hears of it at once, from
 * that host's hub, and hears nothing of those that live.
 */
#include "rnic/cma/test_hosts.h"

static void test_member(void **state)
{
    struct bed bed;
    struct child hub = start_idle();
    struct rdma_cm_id *id;
    struct child member = connected_from_there(&bed, &id);
    uint64_t since = fl_now_ns();
    end(&member);
    expect_end(bed.server, since);
    disconnected(&bed, &id, 1);
    end(&hub);
}

static void test_server(void **state)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct child hub = start_idle(), member = start_there(serve, 0);
    struct rdma_cm_id *id = begin(channel, THERE, hear(&member));
    expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    hear(&member);
    uint64_t since = fl_now_ns();
    end(&member);
    expect_end(channel, since);
    destroy(id);
    fl_cma_destroy_event_channel(channel);
    end(&hub);
}

/* The next hub speaks for it. */
static void test_hub(void **state)
{
    struct bed bed;
    struct rdma_cm_id *id;
    struct child hub = connected_from_there(&bed, &id);
    struct child other = start_idle();
    uint64_t since = fl_now_ns();
    end(&hub);
    expect_end(bed.server, since);
    disconnected(&bed, &id, 1);
    end(&other);
}

static void test_many_connections(void **state)
{
    static struct rdma_cm_id *ids[MANY];
    struct bed bed;
    struct child hub = start_idle();
    struct child member = many_connected_from_there(&bed, ids);
    uint64_t since = fl_now_ns();
    end(&member);
    for (int i = 0; i < MANY; i++)
        expect_end(bed.server, since);
    disconnected(&bed, ids, MANY);
    end(&hub);
}

/* Whose hub is killed lives on, and so do its connections. */
static void test_survivor(void **state)
{
    struct bed bed;
    struct child hub = start_idle();
    struct rdma_cm_id *id;
    struct child member = connected_from_there(&bed, &id);
    struct child third = start_idle();
    end(&hub);
    expect_nothing_for(bed.server, 900);
    uint64_t since = fl_now_ns(); /* and the next hub knows of it */
    end(&member);
    expect_end(bed.server, since);
    disconnected(&bed, &id, 1);
    end(&third);
}

/* A hub that is stopped, and replaced, has not died; when it goes on it is a member, whose hub speaks for it.
 */
static void test_stopped_hub(void **state)
{
    struct bed bed;
    struct rdma_cm_id *id;
    struct child hub = connected_from_there(&bed, &id);
    struct child other = start_idle();
    assert_int_equal(kill(hub.pid, SIGSTOP), 0);
    expect_nothing_for(bed.server, 2500);
    assert_int_equal(kill(hub.pid, SIGCONT), 0);
    expect_nothing_for(bed.server, 1500);
    uint64_t since = fl_now_ns();
    end(&hub);
    expect_end(bed.server, since);
    disconnected(&bed, &id, 1);
    end(&other);
}

/* One that is killed while it is stopped and replaced */
static void test_stopped_hub_is_killed(void **state)
{
    struct bed bed;
    struct rdma_cm_id *id;
    struct child hub = connected_from_there(&bed, &id);
    struct child other = start_idle();
    assert_int_equal(kill(hub.pid, SIGSTOP), 0);
    expect_nothing_for(bed.server, 2500);
    uint64_t since = fl_now_ns();
    end(&hub);
    expect_end(bed.server, since);
    disconnected(&bed, &id, 1);
    end(&other);
}

int main(void)
{
    if (!hosts_init())
        return 77;
    return FL_UNIT_RUN(cmocka_unit_test(test_member), cmocka_unit_test(test_server),
                       cmocka_unit_test(test_hub), cmocka_unit_test(test_many_connections),
                       cmocka_unit_test(test_survivor), cmocka_unit_test(test_stopped_hub),
                       cmocka_unit_test(test_stopped_hub_is_killed));
}
