/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that says its last and goes: what the program is told in which order. */
#include "rnic/cma/test_bed.h"

#define FOREVER_NS (600 * FL_NS_PER_S)

struct last {
    struct bed bed;
    struct rdma_cm_id *client, *server;
    struct buffer from, to;
    uint64_t usual_ns;
};

static void let_wait(struct last *l, uint64_t latest_ns)
{
    struct fl_cma *cma = fl_cma_id_of(l->bed.listener)->cma;
    assert_int_equal(fl_cma_lock(cma), 0);
    cma->leave_latest_ns = latest_ns;
    fl_cma_unlock(cma);
}

static bool is_told(struct rdma_event_channel *channel)
{
    struct pollfd pfd = {.fd = channel->fd, .events = POLLIN};
    return poll(&pfd, 1, 0) == 1;
}

/* The client sends a message, which the server does not look at, and disconnects; it hears from the server's
 * side that this was understood. */
static void say_and_go(struct last *l, uint64_t latest_ns)
{
    memset(l, 0, sizeof(*l));
    bed_init(&l->bed, RDMA_PS_TCP, 0);
    l->usual_ns = fl_cma_id_of(l->bed.listener)->cma->leave_latest_ns;
    let_wait(l, latest_ns);
    connect_both(&l->bed, &l->client, &l->server);
    buffer_init(&l->from, l->client);
    buffer_init(&l->to, l->server);
    post_recv(l->server, &l->to);
    post_send(l->client, &l->from, 14);
    assert_int_equal(wait_wc(l->client->send_cq).status, IBV_WC_SUCCESS);
    assert_int_equal(fl_cma_disconnect(l->client), 0);
    expect_and_ack(l->bed.client, RDMA_CM_EVENT_DISCONNECTED);
}

static void take_message(struct last *l)
{
    struct ibv_wc wc = wait_wc(l->server->recv_cq);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    assert_int_equal(wc.byte_len, 14);
}

static void end(struct last *l)
{
    let_wait(l, l->usual_ns);
    fl_mr_dereg(l->from.mr);
    fl_mr_dereg(l->to.mr);
    destroy(l->client);
    destroy(l->server);
    bed_fini(&l->bed);
}

static void on_each_path(void (*test)(void))
{
    test();
    setenv("FARLANE_SHM", "0", 1);
    test();
    unsetenv("FARLANE_SHM");
}

static void tell_after_taking(void)
{
    struct last l;
    say_and_go(&l, FOREVER_NS);
    assert_false(is_told(l.bed.server));
    take_message(&l);
    expect_and_ack(l.bed.server, RDMA_CM_EVENT_DISCONNECTED);
    expect_and_ack(l.bed.server, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    expect_and_ack(l.bed.client, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    end(&l);
}

/* libfabric's rxm, when its thread was kept from the CPU between its look for messages and its look for
 * events, closed the connection with the last message in it. */
static void disconnected_is_told_when_the_messages_before_it_were_taken(void **state)
{
    on_each_path(tell_after_taking);
}

static void tell_who_never_polls(void)
{
    struct last l;
    say_and_go(&l, 10 * FL_NS_PER_MS);
    expect_and_ack(l.bed.server, RDMA_CM_EVENT_DISCONNECTED);
    take_message(&l);
    end(&l);
}

static void who_never_polls_is_told_soon(void **state)
{
    on_each_path(tell_who_never_polls);
}

static void who_disconnects_too_is_told_at_once(void **state)
{
    struct last l;
    say_and_go(&l, FOREVER_NS);
    assert_int_equal(fl_cma_disconnect(l.server), 0);
    assert_true(is_told(l.bed.server));
    expect_and_ack(l.bed.server, RDMA_CM_EVENT_DISCONNECTED);
    take_message(&l);
    end(&l);
}

static void who_destroys_its_queue_pair_is_told(void **state)
{
    struct last l;
    say_and_go(&l, FOREVER_NS);
    fl_cma_destroy_qp(l.server);
    expect_and_ack(l.bed.server, RDMA_CM_EVENT_DISCONNECTED);
    end(&l);
}

static void events_keep_their_order(void **state)
{
    struct last l;
    say_and_go(&l, FOREVER_NS);
    expect_and_ack(l.bed.server, RDMA_CM_EVENT_DISCONNECTED); /* with the next one */
    expect_and_ack(l.bed.server, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    expect_and_ack(l.bed.client, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    end(&l);
}

static void what_waits_goes_with_its_identifier(void **state)
{
    struct last l;
    say_and_go(&l, FOREVER_NS);
    assert_false(is_told(l.bed.server));
    end(&l); /* which finds that nothing is told */
}

/* Its own sends, whose completions many never look at, are no reason to wait. */
static void own_sends_do_not_count(void **state)
{
    struct last l;
    memset(&l, 0, sizeof(l));
    bed_init(&l.bed, RDMA_PS_TCP, 0);
    l.usual_ns = fl_cma_id_of(l.bed.listener)->cma->leave_latest_ns;
    let_wait(&l, FOREVER_NS);
    connect_both(&l.bed, &l.client, &l.server);
    buffer_init(&l.from, l.server);
    buffer_init(&l.to, l.client);
    post_recv(l.client, &l.to);
    post_send(l.server, &l.from, 14);
    assert_int_equal(wait_wc(l.client->recv_cq).byte_len, 14);
    assert_int_equal(fl_cma_disconnect(l.client), 0);
    expect_and_ack(l.bed.client, RDMA_CM_EVENT_DISCONNECTED);
    assert_true(is_told(l.bed.server));
    expect_and_ack(l.bed.server, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(wait_wc(l.server->send_cq).status, IBV_WC_SUCCESS);
    end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(disconnected_is_told_when_the_messages_before_it_were_taken),
        cmocka_unit_test(who_never_polls_is_told_soon),
        cmocka_unit_test(who_disconnects_too_is_told_at_once),
        cmocka_unit_test(who_destroys_its_queue_pair_is_told),
        cmocka_unit_test(events_keep_their_order),
        cmocka_unit_test(what_waits_goes_with_its_identifier),
        cmocka_unit_test(own_sends_do_not_count),
    };
    use_own_port();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
