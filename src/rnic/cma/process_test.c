/* SPDX-License-Identifier: Apache-2.0 */
/* Two processes of one host; one of them is killed at each stage. */
#include "rnic/cma/test_child.h"

/* A server that echoes what it is sent once. */
static void serve_one(int fd, uint16_t unused)
{
    struct bed bed;
    struct buffer buffer = {.mr = NULL};
    bed_init(&bed, RDMA_PS_TCP, 0);
    tell(fd, bed.port);
    struct rdma_cm_id *id = take_request(&bed);
    buffer_init(&buffer, id);
    post_recv(id, &buffer);
    assert_int_equal(fl_cma_accept(id, NULL), 0);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    post_send(id, &buffer, wait_wc(id->recv_cq).byte_len);
    expect_and_ack(bed.server, RDMA_CM_EVENT_DISCONNECTED);
    tell(fd, 1);
}

static void echo_between_processes(void **state)
{
    struct child child = start(-1, serve_one, 0);
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *id = resolved(channel, hear(&child), RDMA_PS_TCP);
    struct buffer from = {.bytes = "to and fro"}, to = {.mr = NULL};
    buffer_init(&from, id);
    buffer_init(&to, id);
    post_recv(id, &to);
    assert_int_equal(fl_cma_connect(id, NULL), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    post_send(id, &from, 11);
    assert_int_equal(wait_wc(id->recv_cq).byte_len, 11);
    assert_string_equal((char *)to.bytes, "to and fro");
    assert_int_equal(fl_cma_disconnect(id), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(hear(&child), 1);
    end(&child);
    fl_mr_dereg(from.mr);
    fl_mr_dereg(to.mr);
    destroy(id);
    fl_cma_destroy_event_channel(channel);
}

static void just_listen(int fd, uint16_t unused)
{
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    tell(fd, bed.port);
}

static int bind_to(struct rdma_cm_id **id, uint16_t port)
{
    struct sockaddr_in addr = loopback(port);
    assert_int_equal(fl_cma_create_id(NULL, id, NULL, RDMA_PS_TCP), 0);
    return fl_cma_bind_addr(*id, (struct sockaddr *)&addr);
}

static void a_port_belongs_to_one_process(void **state)
{
    struct child a = start(-1, just_listen, 0), b = start(-1, just_listen, 0);
    uint16_t port_a = hear(&a), port_b = hear(&b);
    struct rdma_cm_id *id;
    assert_int_not_equal(port_a, port_b);
    assert_int_equal(bind_to(&id, port_a), -1);
    assert_int_equal(errno, EADDRINUSE);
    fl_cma_destroy_id(id);
    end(&a);
    uint64_t till = fl_now_ns() + 10 * FL_NS_PER_S;
    while (bind_to(&id, port_a)) { /* the hub hears of it soon */
        assert_true(fl_now_ns() < till);
        fl_cma_destroy_id(id);
        usleep(10000);
    }
    assert_int_equal(fl_cma_listen(id, 1), 0);
    fl_cma_destroy_id(id);
    end(&b);
}

static void listen_go_and_come_back(int fd, uint16_t unused)
{
    struct bed bed;
    struct rdma_cm_id *id;
    bed_init(&bed, RDMA_PS_TCP, 0);
    assert_int_equal(fl_cma_destroy_id(bed.listener), 0);
    tell(fd, bed.port);
    usleep(200000);
    assert_int_equal(bind_to(&id, bed.port), 0);
    assert_int_equal(fl_cma_listen(id, 1), 0);
}

/* The hub of the test before was killed, and this process takes its place. */
static void wait_until_hub(void)
{
    struct fl_cma *cma = fl_cma_get();
    uint64_t till = fl_now_ns() + 10 * FL_NS_PER_S;
    for (bool hub = false; !hub; usleep(1000)) {
        assert_true(fl_now_ns() < till);
        assert_int_equal(fl_cma_lock(cma), 0);
        hub = fl_port_stats(cma->rnic->port)->is_hub;
        fl_cma_unlock(cma);
    }
}

/* As perftest does it: the client asks while there is no listener, and is not refused for that. */
static void a_listener_that_comes_back(void **state)
{
    wait_until_hub(); /* so that what nobody listens on does not come to the server by itself */
    struct child child = start(-1, listen_go_and_come_back, 0);
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *id = resolved(channel, hear(&child), RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(id, NULL), 0);
    struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
    assert_int_equal(poll(&pfd, 1, 1000), 0); /* it waits for an accept */
    end(&child);
    expect_and_ack(channel, RDMA_CM_EVENT_REJECTED);
    destroy(id);
    fl_cma_destroy_event_channel(channel);
}

/* Clients that are killed */
static void ask(int fd, uint16_t port)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *id = resolved(channel, port, RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(id, NULL), 0);
    tell(fd, 1);
}

static void ask_and_be_connected(int fd, uint16_t port)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *id = resolved(channel, port, RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(id, NULL), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    tell(fd, 1);
}

static void client_is_killed_after_its_request(void **state)
{
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    struct child child = start(-1, ask, bed.port);
    struct rdma_cm_id *id = take_request(&bed);
    end(&child);
    assert_int_equal(fl_cma_accept(id, NULL), 0);
    expect_and_ack(bed.server, RDMA_CM_EVENT_REJECTED);
    destroy(id);
    bed_fini(&bed);
}

static void client_is_killed_before_it_is_ready(void **state)
{
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    struct child child = start(-1, ask, bed.port);
    struct rdma_cm_id *id = take_request(&bed);
    assert_int_equal(fl_cma_accept(id, NULL), 0);
    hear(&child);
    usleep(20000); /* it has got the answer, and does not fetch it */
    end(&child);
    expect_and_ack(bed.server, RDMA_CM_EVENT_REJECTED);
    destroy(id);
    bed_fini(&bed);
}

static void connected_client_is_killed(void **state)
{
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    struct child child = start(-1, ask_and_be_connected, bed.port);
    struct rdma_cm_id *id = take_request(&bed);
    assert_int_equal(fl_cma_accept(id, NULL), 0);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    hear(&child);
    uint64_t begin = fl_now_ns();
    end(&child);
    expect_and_ack(bed.server, RDMA_CM_EVENT_DISCONNECTED);
    assert_true(fl_now_ns() - begin < 5 * FL_NS_PER_S);
    destroy(id);
    bed_fini(&bed);
}

/* Servers that are killed */
static void take_and_wait(int fd, uint16_t unused)
{
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    tell(fd, bed.port);
    take_request(&bed);
    tell(fd, 1);
}

static void take_and_accept(int fd, uint16_t unused)
{
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    tell(fd, bed.port);
    assert_int_equal(fl_cma_accept(take_request(&bed), NULL), 0);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    tell(fd, 1);
}

static void accept_and_exit(int fd, uint16_t unused)
{
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    tell(fd, bed.port);
    assert_int_equal(fl_cma_accept(take_request(&bed), NULL), 0);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    exit(0);
}

static uint64_t nr_dreqs_that_came(void)
{
    struct fl_cma *cma = fl_cma_get();
    assert_int_equal(fl_cma_lock(cma), 0);
    uint64_t nr = fl_cm_stats(cma->cm)->nr_rx[FL_CM_DREQ - FL_CM_REQ];
    fl_cma_unlock(cma);
    return nr;
}

/* It leaves everything open, as many do, and tells the peer, which need not find out by looking. */
static void connected_server_exits(void **state)
{
    struct child child = start(-1, accept_and_exit, 0);
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *id = resolved(channel, hear(&child), RDMA_PS_TCP);
    uint64_t nr_before = nr_dreqs_that_came();
    assert_int_equal(fl_cma_connect(id, NULL), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    expect_and_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_true(nr_dreqs_that_came() > nr_before);
    assert_int_equal(waitpid(child.pid, NULL, 0), child.pid);
    close(child.told);
    destroy(id);
    fl_cma_destroy_event_channel(channel);
}

static void server_is_killed_with_a_request(void **state)
{
    struct child child = start(-1, take_and_wait, 0);
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *id = resolved(channel, hear(&child), RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(id, NULL), 0);
    hear(&child);
    end(&child);
    expect_and_ack(channel, RDMA_CM_EVENT_REJECTED);
    destroy(id);
    fl_cma_destroy_event_channel(channel);
}

static void connected_server_is_killed(void **state)
{
    struct child child = start(-1, take_and_accept, 0);
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *id = resolved(channel, hear(&child), RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(id, NULL), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    hear(&child);
    uint64_t begin = fl_now_ns();
    end(&child);
    expect_and_ack(channel, RDMA_CM_EVENT_DISCONNECTED);
    assert_true(fl_now_ns() - begin < 10 * FL_NS_PER_S); /* 5 of them where it was the hub */
    destroy(id);
    fl_cma_destroy_event_channel(channel);
}

enum { HUB, MEMBER };
static int go[2][2]; /* pipes to the children */

static void say_go(int to)
{
    assert_int_equal(write(go[to][1], "g", 1), 1);
}

static void hear_go(int who)
{
    char c;
    assert_int_equal(read(go[who][0], &c, 1), 1);
}

static void be_a_busy_hub(int fd, uint16_t unused)
{
    struct fl_cma *cma = fl_cma_get();
    assert_non_null(cma);
    tell(fd, 1);
    hear_go(HUB);
    assert_int_equal(fl_cma_lock(cma), 0);
    tell(fd, 2);
    usleep(2500000);
    fl_cma_unlock(cma);
}

static void make_queue_pair(int fd, uint16_t unused)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    assert_non_null(fl_cma_get()); /* before the hub is busy */
    tell(fd, 1);
    hear_go(MEMBER);
    resolved(channel, 1, RDMA_PS_TCP);
    tell(fd, 2);
}

/* Its numbers are waited for. */
static void a_queue_pair_while_the_hub_is_busy(void **state)
{
    assert_true(pipe(go[HUB]) == 0 && pipe(go[MEMBER]) == 0);
    struct child hub = start(-1, be_a_busy_hub, 0), member;
    assert_int_equal(hear(&hub), 1);
    member = start(-1, make_queue_pair, 0);
    assert_int_equal(hear(&member), 1);
    say_go(HUB);
    assert_int_equal(hear(&hub), 2);
    say_go(MEMBER);
    assert_int_equal(hear(&member), 2);
    end(&member);
    end(&hub);
    for (int i = 0; i < 4; i++)
        close(go[i / 2][i % 2]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* First, so that the child is the hub */
        cmocka_unit_test(a_queue_pair_while_the_hub_is_busy),
        cmocka_unit_test(connected_server_is_killed),
        cmocka_unit_test(echo_between_processes),
        cmocka_unit_test(a_port_belongs_to_one_process),
        cmocka_unit_test(a_listener_that_comes_back),
        cmocka_unit_test(client_is_killed_after_its_request),
        cmocka_unit_test(client_is_killed_before_it_is_ready),
        cmocka_unit_test(connected_client_is_killed),
        cmocka_unit_test(connected_server_exits),
        cmocka_unit_test(server_is_killed_with_a_request),
        cmocka_unit_test(connected_server_is_killed),
    };
    use_own_port();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
