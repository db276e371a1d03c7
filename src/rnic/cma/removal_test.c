/* SPDX-License-Identifier: Apache-2.0 */
/* An interface goes away under ids of all kinds: RDMA_CM_EVENT_DEVICE_REMOVAL, and they can be destroyed. */
#include "rnic/test_interface.h"

#include "rnic/cma/test_bed.h"

#define ADDRESS "10.98.0.1"

static int number; /* of interfaces made */

static int new_interface(void)
{
    char name[IF_NAMESIZE];
    snprintf(name, sizeof(name), "fltest%d", number++);
    int fd = make_interface(name, ADDRESS);
    if (fd < 0)
        skip();
    return fd;
}

static struct sockaddr_in address(uint16_t port)
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_port = htobe16(port)};
    inet_pton(AF_INET, ADDRESS, &addr.sin_addr);
    return addr;
}

/* As bed_init(), at the interface's address */
static void init(struct bed *bed, enum rdma_port_space ps)
{
    struct sockaddr_in addr = address(0);
    bed->server = fl_cma_create_event_channel();
    bed->client = fl_cma_create_event_channel();
    assert_int_equal(fl_cma_create_id(bed->server, &bed->listener, NULL, ps), 0);
    assert_int_equal(fl_cma_bind_addr(bed->listener, (struct sockaddr *)&addr), 0);
    assert_int_equal(fl_cma_listen(bed->listener, 8), 0);
    bed->port = be16toh(fl_cma_get_src_port(bed->listener));
}

static struct rdma_cm_id *resolved_id(struct bed *bed)
{
    struct sockaddr_in addr = address(bed->port);
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct rdma_cm_id *id;
    assert_int_equal(fl_cma_create_id(bed->client, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_resolve_addr(id, NULL, (struct sockaddr *)&addr, 1000), 0);
    expect_and_ack(bed->client, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(fl_cma_resolve_route(id, 1000), 0);
    expect_and_ack(bed->client, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(fl_cma_create_qp(id, NULL, &attr), 0);
    return id;
}

/* The next event is this id's removal. */
static void expect_removal(struct rdma_event_channel *channel, const struct rdma_cm_id *id)
{
    struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_DEVICE_REMOVAL);
    assert_ptr_equal(event->id, id);
    assert_int_equal(event->status, 0);
    assert_int_equal(fl_cma_ack_cm_event(event), 0);
}

static void test_listener_and_connection(void **state)
{
    struct bed bed;
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    int fd = new_interface();
    init(&bed, RDMA_PS_TCP);
    struct rdma_cm_id *client = resolved_id(&bed), *idle = resolved_id(&bed);
    assert_int_equal(fl_cma_connect(client, &param), 0);
    struct rdma_cm_event *event = expect(bed.server, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    assert_int_equal(fl_cma_ack_cm_event(event), 0);
    assert_int_equal(fl_cma_create_qp(server, NULL, &attr), 0);
    assert_int_equal(fl_cma_accept(server, &param), 0);
    expect_and_ack(bed.client, RDMA_CM_EVENT_ESTABLISHED);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    struct buffer buffer;
    buffer_init(&buffer, client);
    post_recv(client, &buffer);

    close(fd);
    expect_removal(bed.server, bed.listener);
    expect_removal(bed.client, client);
    expect_removal(bed.client, idle);
    expect_removal(bed.server, server);
    struct ibv_wc wc = wait_wc(client->recv_cq);
    assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);

    /* Nothing but to destroy is left. */
    struct sockaddr_in addr = address(0);
    assert_int_equal(fl_cma_disconnect(client), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(fl_cma_connect(idle, &param), -1);
    assert_int_equal(errno, EINVAL);
    assert_int_equal(fl_cma_accept(server, &param), -1);
    assert_int_equal(fl_cma_reject(server, NULL, 0), -1);
    assert_int_equal(fl_cma_listen(bed.listener, 1), -1);
    assert_int_equal(fl_cma_bind_addr(idle, (struct sockaddr *)&addr), -1);
    assert_int_equal(fl_cma_resolve_addr(idle, NULL, (struct sockaddr *)&addr, 1000), -1);
    fl_cma_destroy_qp(idle);
    assert_int_equal(fl_cma_create_qp(idle, NULL, &attr), -1);
    assert_int_equal(errno, ENODEV);
    assert_int_equal(fl_mr_dereg(buffer.mr), 0);
    destroy(client);
    destroy(server);
    destroy(idle);
    bed_fini(&bed);
}

/* One that was not fetched goes with its listener's events; one that was is an id like others. */
static void test_requests(void **state)
{
    struct bed bed;
    int fd = new_interface();
    init(&bed, RDMA_PS_TCP);
    struct rdma_cm_id *first = resolved_id(&bed), *second = resolved_id(&bed);
    assert_int_equal(fl_cma_connect(first, NULL), 0);
    struct rdma_cm_event *event = expect(bed.server, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    assert_int_equal(fl_cma_ack_cm_event(event), 0);
    assert_int_equal(fl_cma_connect(second, NULL), 0);
    wait_readable(bed.server->fd);

    close(fd);
    expect_removal(bed.client, first);
    expect_removal(bed.client, second);
    /* The other request could not be served any more, and is gone. */
    expect_removal(bed.server, bed.listener);
    expect_removal(bed.server, server);
    destroy(first);
    destroy(second);
    destroy(server);
    bed_fini(&bed);
}

/* Nobody fetches the events. */
static void test_destroyed_with_events(void **state)
{
    struct bed bed;
    int fd = new_interface();
    init(&bed, RDMA_PS_UDP);
    struct rdma_cm_id *other;
    struct sockaddr_in addr = address(0);
    assert_int_equal(fl_cma_create_id(bed.client, &other, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_bind_addr(other, (struct sockaddr *)&addr), 0);
    close(fd);
    wait_readable(bed.client->fd);
    destroy(other);
    bed_fini(&bed);
}

/* Those of no device, and of another one, go on. */
static void test_others(void **state)
{
    struct bed bed, any;
    struct sockaddr_in addr = {.sin_family = AF_INET};
    struct rdma_cm_id *client, *server;
    int fd = new_interface();
    init(&bed, RDMA_PS_TCP);
    bed_init(&any, RDMA_PS_TCP, 8);
    struct rdma_cm_id *everywhere;
    assert_int_equal(fl_cma_create_id(any.server, &everywhere, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_bind_addr(everywhere, (struct sockaddr *)&addr), 0);
    assert_int_equal(fl_cma_listen(everywhere, 8), 0);
    connect_both(&any, &client, &server);
    close(fd);
    expect_removal(bed.server, bed.listener);
    expect_nothing(any.server);
    expect_nothing(any.client);
    destroy(client);
    expect_and_ack(any.server, RDMA_CM_EVENT_DISCONNECTED);
    destroy(server);
    destroy(everywhere);
    bed_fini(&any);
    bed_fini(&bed);
}

/* A call that waits for an answer does not wait for ever. */
static void test_synchronous(void **state)
{
    int fd = new_interface();
    struct rdma_cm_id *listener, *request;
    struct sockaddr_in addr = address(0);
    assert_int_equal(fl_cma_create_id(NULL, &listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_bind_addr(listener, (struct sockaddr *)&addr), 0);
    assert_int_equal(fl_cma_listen(listener, 8), 0);
    close(fd);
    assert_int_equal(fl_cma_get_request(listener, &request), -1);
    assert_int_equal(errno, ENODEV);
    destroy(listener);
}

int main(void)
{
    if (!own_network())
        return 77;
    set_up(true);
    use_own_port();
    return FL_UNIT_RUN(cmocka_unit_test(test_listener_and_connection), cmocka_unit_test(test_requests),
                       cmocka_unit_test(test_destroyed_with_events), cmocka_unit_test(test_others),
                       cmocka_unit_test(test_synchronous));
}
