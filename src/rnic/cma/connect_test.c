/* SPDX-License-Identifier: Apache-2.0 */
#include "rnic/cma/test_bed.h"

static void connect_send_disconnect(void **state)
{
    struct bed bed;
    struct rdma_cm_id *client, *server;
    struct buffer from = {.bytes = "over the wire"}, to = {0};
    bed_init(&bed, RDMA_PS_TCP, 0);
    connect_both(&bed, &client, &server);
    assert_ptr_equal(server->context, &bed);
    assert_int_equal(be16toh(fl_cma_get_dst_port(client)), bed.port);
    assert_int_equal(fl_cma_get_src_port(client), fl_cma_get_dst_port(server));
    buffer_init(&from, client);
    buffer_init(&to, server);
    post_recv(server, &to);
    post_send(client, &from, 14);
    assert_int_equal(wait_wc(server->recv_cq).byte_len, 14);
    assert_int_equal(wait_wc(client->send_cq).status, IBV_WC_SUCCESS);
    assert_string_equal((char *)to.bytes, "over the wire");

    assert_int_equal(fl_cma_disconnect(client), 0);
    expect_and_ack(bed.client, RDMA_CM_EVENT_DISCONNECTED);
    expect_and_ack(bed.server, RDMA_CM_EVENT_DISCONNECTED);
    assert_int_equal(fl_cma_disconnect(server), 0); /* many programs do, and it does no harm */
    expect_and_ack(bed.client, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    expect_and_ack(bed.server, RDMA_CM_EVENT_TIMEWAIT_EXIT);
    fl_mr_dereg(from.mr);
    fl_mr_dereg(to.mr);
    destroy(client);
    destroy(server);
    bed_fini(&bed);
}

static void private_data_and_depths_go_over(void **state)
{
    struct rdma_conn_param ask = {.private_data = "ask",
                                  .private_data_len = 4,
                                  .responder_resources = 9,
                                  .initiator_depth = 5,
                                  .retry_count = 3,
                                  .rnr_retry_count = 2},
                           answer = {.private_data = "answer",
                                     .private_data_len = 7,
                                     .responder_resources = 4,
                                     .initiator_depth = 8,
                                     .rnr_retry_count = 1};
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC), init;
    struct ibv_qp_attr got;
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 1);
    struct rdma_cm_id *client = resolved(bed.client, bed.port, RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(client, &ask), 0);
    struct rdma_cm_event *event = expect(bed.server, RDMA_CM_EVENT_CONNECT_REQUEST);
    assert_ptr_equal(event->listen_id, bed.listener);
    assert_string_equal(event->param.conn.private_data, "ask");
    assert_int_equal(event->param.conn.private_data_len, FL_CM_CONNECT_IP_LEN);
    assert_int_equal(event->param.conn.responder_resources, 5); /* the peer's depth */
    assert_int_equal(event->param.conn.initiator_depth, 9);
    assert_int_equal(event->param.conn.retry_count, 3);
    assert_int_equal(event->param.conn.rnr_retry_count, 2);
    assert_int_equal(event->param.conn.qp_num, client->qp->qp_num);
    struct rdma_cm_id *server = event->id;
    fl_cma_ack_cm_event(event);
    assert_int_equal(fl_cma_create_qp(server, NULL, &attr), 0);
    assert_int_equal(fl_cma_accept(server, &answer), 0);
    event = expect(bed.client, RDMA_CM_EVENT_ESTABLISHED);
    assert_string_equal(event->param.conn.private_data, "answer");
    assert_int_equal(event->param.conn.private_data_len, FL_CM_REP_PRIVATE_LEN);
    fl_cma_ack_cm_event(event);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);

    assert_int_equal(fl_qp_query(server->qp, &got, 0, &init), 0);
    assert_int_equal(got.qp_state, IBV_QPS_RTS);
    assert_int_equal(got.max_dest_rd_atomic, 4);
    assert_int_equal(got.max_rd_atomic, 8);
    assert_int_equal(got.retry_cnt, 3);
    assert_int_equal(got.rnr_retry, 2);
    assert_int_equal(fl_qp_query(client->qp, &got, 0, &init), 0);
    assert_int_equal(got.max_dest_rd_atomic, 8);
    assert_int_equal(got.max_rd_atomic, 4);
    assert_int_equal(got.rnr_retry, 1);
    destroy(client);
    destroy(server);
    bed_fini(&bed);
}

/* rdma_create_ep() and the inline functions of rdma_verbs.h; one thread takes both parts in turn. */
static void endpoints(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct rdma_cm_id *listener, *client, *server;
    struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
    char port[8];
    assert_int_equal(fl_cma_getaddrinfo("127.0.0.1", "0", &hints, &res), 0);
    assert_int_equal(fl_cma_create_ep(&listener, res, NULL, &attr), 0);
    fl_cma_freeaddrinfo(res);
    assert_int_equal(fl_cma_listen(listener, 1), 0);
    snprintf(port, sizeof(port), "%u", be16toh(fl_cma_get_src_port(listener)));

    hints.ai_flags = 0;
    attr = qp_attr(IBV_QPT_RC);
    assert_int_equal(fl_cma_getaddrinfo("127.0.0.1", port, &hints, &res), 0);
    assert_int_equal(fl_cma_create_ep(&client, res, NULL, &attr), 0);
    fl_cma_freeaddrinfo(res);
    assert_non_null(client->qp);
    /* A synchronous connect waits for the accept: so it goes asynchronous for that. */
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    assert_int_equal(fl_cma_migrate_id(client, channel), 0);
    assert_int_equal(fl_cma_connect(client, &param), 0);
    assert_int_equal(fl_cma_get_request(listener, &server), 0);
    assert_non_null(server->qp);
    assert_int_equal(server->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_event_channel *other = fl_cma_create_event_channel();
    assert_int_equal(fl_cma_migrate_id(server, other), 0);
    assert_int_equal(fl_cma_accept(server, NULL), 0);
    expect_and_ack(channel, RDMA_CM_EVENT_ESTABLISHED);
    expect_and_ack(other, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(fl_cma_migrate_id(client, NULL), 0);
    assert_int_equal(fl_cma_disconnect(client), 0); /* waits for its event */
    assert_int_equal(client->event->event, RDMA_CM_EVENT_DISCONNECTED);
    fl_cma_destroy_ep(client);
    fl_cma_destroy_ep(server);
    fl_cma_destroy_ep(listener);
    fl_cma_destroy_event_channel(channel);
    fl_cma_destroy_event_channel(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(connect_send_disconnect),
        cmocka_unit_test(private_data_and_depths_go_over),
        cmocka_unit_test(endpoints),
    };
    use_own_port();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
