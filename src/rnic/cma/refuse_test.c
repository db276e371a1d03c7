/* SPDX-License-Identifier: Apache-2.0 */
/* What is refused: by the peer, by the engine, by the rules for ports and states. */
#include "rnic/cma/test_bed.h"

static void reject_brings_private_data(void **state)
{
    struct rdma_conn_param param = {.retry_count = 7};
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    struct rdma_cm_id *client = resolved(bed.client, bed.port, RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(client, &param), 0);
    struct rdma_cm_event *event = expect(bed.server, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    assert_int_equal(fl_cma_reject(server, "no", 3), 0);
    fl_cma_ack_cm_event(event);
    assert_int_equal(fl_cma_destroy_id(server), 0);
    event = expect(bed.client, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(event->status, FL_CM_REJ_CONSUMER);
    assert_string_equal(event->param.conn.private_data, "no");
    assert_int_equal(event->param.conn.private_data_len, FL_CM_REJ_PRIVATE_LEN);
    fl_cma_ack_cm_event(event);
    assert_int_equal(client->qp->state, IBV_QPS_ERR);
    destroy(client);
    bed_fini(&bed);
}

static void nobody_listens(void **state)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *client = resolved(channel, 1, RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(client, NULL), 0);
    struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(event->status, FL_CM_REJ_SERVICE_ID);
    fl_cma_ack_cm_event(event);
    destroy(client);
    fl_cma_destroy_event_channel(channel);
}

/* A server may tell its peer the port that it was bound to before it listens there. */
static void listens_a_moment_late(void **state)
{
    struct bed bed;
    struct rdma_cm_id *listener;
    struct sockaddr_in addr = loopback(0);
    bed_init(&bed, RDMA_PS_TCP, 0);
    assert_int_equal(fl_cma_create_id(bed.server, &listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_bind_addr(listener, (struct sockaddr *)&addr), 0);
    struct rdma_cm_id *client = resolved(bed.client, be16toh(fl_cma_get_src_port(listener)), RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(client, NULL), 0);
    assert_int_equal(fl_cma_listen(listener, 0), 0);
    struct rdma_cm_event *event = expect(bed.server, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    assert_ptr_equal(event->listen_id, listener);
    fl_cma_ack_cm_event(event);
    fl_cma_destroy_id(server);
    expect_and_ack(bed.client, RDMA_CM_EVENT_REJECTED);
    fl_cma_destroy_id(listener);
    destroy(client);
    bed_fini(&bed);
}

static void synchronous_connect_is_refused(void **state)
{
    struct sockaddr_in addr = loopback(1);
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct rdma_cm_id *client;
    assert_int_equal(fl_cma_create_id(NULL, &client, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_resolve_addr(client, NULL, (struct sockaddr *)&addr, 1000), 0);
    assert_int_equal(fl_cma_resolve_route(client, 1000), 0);
    assert_int_equal(fl_cma_create_qp(client, NULL, &attr), 0);
    assert_int_equal(fl_cma_connect(client, NULL), -1);
    assert_int_equal(errno, ECONNREFUSED);
    assert_int_equal(client->event->event, RDMA_CM_EVENT_REJECTED);
    fl_cma_destroy_ep(client);
}

static int bind_another(struct rdma_cm_id **id, uint16_t port, int reuse)
{
    struct sockaddr_in addr = loopback(port);
    assert_int_equal(fl_cma_create_id(NULL, id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_set_option(*id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse, sizeof(reuse)),
                     0);
    return fl_cma_bind_addr(*id, (struct sockaddr *)&addr);
}

static void ports_are_taken(void **state)
{
    struct rdma_cm_id *a, *b, *c, *udp;
    struct sockaddr_in addr;
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    assert_int_equal(bind_another(&a, bed.port, 0), -1);
    assert_int_equal(errno, EADDRINUSE);
    fl_cma_destroy_id(a);
    /* Another space is another port. */
    addr = loopback(bed.port);
    assert_int_equal(fl_cma_create_id(NULL, &udp, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(fl_cma_bind_addr(udp, (struct sockaddr *)&addr), 0);
    fl_cma_destroy_id(udp);
    /* Two share one as long as nobody listens. */
    assert_int_equal(bind_another(&a, 0, 1), 0);
    uint16_t port = be16toh(fl_cma_get_src_port(a));
    assert_int_equal(bind_another(&b, port, 1), 0);
    assert_int_equal(bind_another(&c, port, 0), -1);
    assert_int_equal(errno, EADDRINUSE);
    fl_cma_destroy_id(c);
    assert_int_equal(fl_cma_listen(a, 1), 0);
    assert_int_equal(bind_another(&c, port, 1), -1);
    fl_cma_destroy_id(c);
    assert_int_equal(fl_cma_listen(b, 1), -1);
    assert_int_equal(errno, EADDRINUSE);
    fl_cma_destroy_id(a);
    fl_cma_destroy_id(b);
    assert_int_equal(bind_another(&a, port, 0), 0); /* free again */
    fl_cma_destroy_id(a);
    bed_fini(&bed);
}

static void wrong_state_or_value(void **state)
{
    struct sockaddr_in addr = loopback(7);
    struct sockaddr_in nowhere = {.sin_family = AF_INET, .sin_addr.s_addr = htobe32(0xcb007101)};
    struct sockaddr unix_addr = {.sa_family = AF_UNIX};
    struct rdma_conn_param param = {.private_data = "", .private_data_len = FL_CM_CONNECT_IP_LEN + 1};
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct rdma_cm_id *id;
    char private_data[256] = {0};
    assert_int_equal(fl_cma_create_id(channel, &id, NULL, RDMA_PS_IPOIB), -1);
    assert_int_equal(errno, EPROTONOSUPPORT);
    assert_int_equal(fl_cma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
#define EINVAL_OF(call)                  \
    do {                                 \
        errno = 0;                       \
        assert_int_equal(call, -1);      \
        assert_int_equal(errno, EINVAL); \
    } while (0)
    EINVAL_OF(fl_cma_resolve_route(id, 1000));
    EINVAL_OF(fl_cma_connect(id, NULL));
    EINVAL_OF(fl_cma_accept(id, NULL));
    EINVAL_OF(fl_cma_reject(id, NULL, 0));
    EINVAL_OF(fl_cma_disconnect(id));
    EINVAL_OF(fl_cma_establish(id));
    EINVAL_OF(fl_cma_notify(id, IBV_EVENT_COMM_EST));
    EINVAL_OF(fl_cma_create_qp(id, NULL, &attr)); /* of no device yet */
    assert_int_equal(fl_cma_bind_addr(id, &unix_addr), -1);
    assert_int_equal(errno, EAFNOSUPPORT);
    assert_int_equal(fl_cma_bind_addr(id, (struct sockaddr *)&nowhere), -1);
    assert_int_equal(errno, EADDRNOTAVAIL);
    assert_int_equal(fl_cma_set_option(id, RDMA_OPTION_ID, 99, private_data, 1), -1);
    assert_int_equal(errno, ENOSYS);
    EINVAL_OF(fl_cma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, private_data, 2));
    assert_int_equal(fl_cma_join_multicast(id, (struct sockaddr *)&addr, NULL), -1);
    assert_int_equal(errno, EOPNOTSUPP);
    fl_cma_destroy_id(id);

    id = resolved(channel, 7, RDMA_PS_TCP);
    EINVAL_OF(fl_cma_create_qp(id, NULL, &attr)); /* it has one */
    EINVAL_OF(fl_cma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000));
    EINVAL_OF(fl_cma_listen(id, 1));
    param.private_data = private_data;
    EINVAL_OF(fl_cma_connect(id, &param));
    param.private_data_len = FL_CM_CONNECT_IP_LEN;
    assert_int_equal(fl_cma_connect(id, &param), 0);
    EINVAL_OF(fl_cma_connect(id, &param));
    expect_and_ack(channel, RDMA_CM_EVENT_REJECTED);
    destroy(id);
    expect_nothing(channel);
    fl_cma_destroy_event_channel(channel);
}

static void nonblocking_channel(void **state)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_event *event;
    assert_int_equal(fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK), 0);
    assert_int_equal(fl_cma_get_cm_event(channel, &event), -1);
    assert_int_equal(errno, EAGAIN);
    struct rdma_cm_id *client = resolved(channel, 7, RDMA_PS_TCP);
    assert_int_equal(fl_cma_get_cm_event(channel, &event), -1);
    assert_int_equal(errno, EAGAIN);
    destroy(client);
    fl_cma_destroy_event_channel(channel);
}

/* Requests that nobody looked at go with their listener. */
static void listener_goes(void **state)
{
    struct bed bed;
    struct rdma_cm_id *clients[5];
    bed_init(&bed, RDMA_PS_TCP, 3);
    for (int i = 0; i < 5; i++) {
        clients[i] = resolved(bed.client, bed.port, RDMA_PS_TCP);
        assert_int_equal(fl_cma_connect(clients[i], NULL), 0);
    }
    wait_readable(bed.server->fd);
    assert_int_equal(fl_cma_destroy_id(bed.listener), 0);
    for (int i = 0; i < 5; i++)
        expect_and_ack(bed.client, RDMA_CM_EVENT_REJECTED);
    for (int i = 0; i < 5; i++)
        destroy(clients[i]);
    expect_nothing(bed.server);
    fl_cma_destroy_event_channel(bed.server);
    fl_cma_destroy_event_channel(bed.client);
}

static void *ack_later(void *arg)
{
    usleep(50000);
    fl_cma_ack_cm_event(arg);
    return NULL;
}

static void destroy_waits_for_acks(void **state)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *client = resolved(channel, 1, RDMA_PS_TCP);
    pthread_t thread;
    assert_int_equal(fl_cma_connect(client, NULL), 0);
    struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_REJECTED);
    uint64_t begin = fl_now_ns();
    assert_int_equal(pthread_create(&thread, NULL, ack_later, event), 0);
    destroy(client);
    assert_true(fl_now_ns() - begin >= 49 * FL_NS_PER_MS);
    pthread_join(thread, NULL);
    fl_cma_destroy_event_channel(channel);
}

/* Each side goes at each stage; the other one hears of it. */
static void client_goes_at_each_stage(void **state)
{
    struct bed bed;
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct rdma_cm_id *client, *server;
    bed_init(&bed, RDMA_PS_TCP, 0);
    /* The request is there. */
    client = resolved(bed.client, bed.port, RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(client, NULL), 0);
    struct rdma_cm_event *event = expect(bed.server, RDMA_CM_EVENT_CONNECT_REQUEST);
    server = event->id;
    destroy(client);
    expect_and_ack(bed.server, RDMA_CM_EVENT_REJECTED);
    fl_cma_ack_cm_event(event);
    fl_cma_destroy_id(server);
    /* The answer is there, and not fetched. */
    client = resolved(bed.client, bed.port, RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(client, NULL), 0);
    event = expect(bed.server, RDMA_CM_EVENT_CONNECT_REQUEST);
    server = event->id;
    fl_cma_ack_cm_event(event);
    assert_int_equal(fl_cma_create_qp(server, NULL, &attr), 0);
    assert_int_equal(fl_cma_accept(server, NULL), 0);
    wait_readable(bed.client->fd);
    destroy(client);
    expect_and_ack(bed.server, RDMA_CM_EVENT_REJECTED);
    destroy(server);
    /* Connected: either side. */
    connect_both(&bed, &client, &server);
    destroy(client);
    expect_and_ack(bed.server, RDMA_CM_EVENT_DISCONNECTED);
    destroy(server);
    connect_both(&bed, &client, &server);
    destroy(server);
    expect_and_ack(bed.client, RDMA_CM_EVENT_DISCONNECTED);
    destroy(client);
    bed_fini(&bed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reject_brings_private_data),
        cmocka_unit_test(nobody_listens),
        cmocka_unit_test(listens_a_moment_late),
        cmocka_unit_test(synchronous_connect_is_refused),
        cmocka_unit_test(ports_are_taken),
        cmocka_unit_test(wrong_state_or_value),
        cmocka_unit_test(nonblocking_channel),
        cmocka_unit_test(listener_goes),
        cmocka_unit_test(destroy_waits_for_acks),
        cmocka_unit_test(client_goes_at_each_stage),
    };
    use_own_port();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
