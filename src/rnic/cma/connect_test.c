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

#define LONG_LEN (300u << 10)

static uint64_t nr_resent(const struct rdma_cm_id *id)
{
    return fl_qp_of(id->qp)->roce.stats.nr_resent;
}

/* Two farlane peers agree on selective retransmission, and on spraying where it is wished; the packets of a
 * message then leave by several source ports, which does not look like loss. */
static void what_farlane_peers_agree_on(void **state)
{
    setenv("FARLANE_SHM", "0", 1);
    for (int spray = 0; spray < 2; spray++) {
        struct bed bed;
        struct rdma_cm_id *client, *server;
        bed_init(&bed, RDMA_PS_TCP, 0);
        fl_cma_id_of(bed.listener)->cma->rnic->spray = spray; /* as FARLANE_SPRAY=1 sets it */
        connect_both(&bed, &client, &server);
        for (int i = 0; i < 2; i++) {
            const struct fl_roce_attr *attr = &fl_qp_of(i ? server->qp : client->qp)->roce.attr;
            assert_true(attr->selective);
            assert_int_equal(attr->nr_paths, spray ? FL_RNIC_PATHS : 1);
        }
        uint8_t *from = malloc(LONG_LEN), *to = calloc(1, LONG_LEN);
        for (uint32_t i = 0; i < LONG_LEN; i++)
            from[i] = (uint8_t)(i * 7 + (i >> 8));
        struct ibv_mr *from_mr = fl_mr_reg(client->pd, from, LONG_LEN, IBV_ACCESS_LOCAL_WRITE);
        struct ibv_mr *to_mr = fl_mr_reg(server->pd, to, LONG_LEN,
                                         IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
        struct ibv_sge sge = {(uintptr_t)from, LONG_LEN, from_mr->lkey};
        struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE};
        wr.wr.rdma.remote_addr = (uintptr_t)to;
        wr.wr.rdma.rkey = to_mr->rkey;
        assert_int_equal(ibv_post_send(client->qp, &wr, &bad), 0);
        assert_int_equal(wait_wc(client->send_cq).status, IBV_WC_SUCCESS);
        assert_memory_equal(from, to, LONG_LEN);
        print_message("%s: %llu packets sent again\n", spray ? "sprayed" : "one path",
                      (unsigned long long)nr_resent(client));
        fl_mr_dereg(from_mr);
        fl_mr_dereg(to_mr);
        free(from);
        free(to);
        destroy(client);
        destroy(server);
        bed_fini(&bed);
    }
    unsetenv("FARLANE_SHM");
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

/* The kind of the client's queue pair goes over, and the server's is made of it. */
static void unreliable_connection(void **state)
{
    struct bed bed;
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_UC);
    struct buffer from = {.bytes = "perhaps"}, to = {.mr = NULL};
    bed_init(&bed, RDMA_PS_TCP, 0);
    struct rdma_cm_id *client = resolved(bed.client, bed.port, RDMA_PS_TCP);
    fl_cma_destroy_qp(client);
    assert_int_equal(fl_cma_create_qp(client, NULL, &attr), 0);
    assert_int_equal(fl_cma_connect(client, NULL), 0);
    struct rdma_cm_event *event = expect(bed.server, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    fl_cma_ack_cm_event(event);
    assert_int_equal(server->qp_type, IBV_QPT_UC);
    attr = qp_attr(server->qp_type);
    assert_int_equal(fl_cma_create_qp(server, NULL, &attr), 0);
    buffer_init(&from, client);
    buffer_init(&to, server);
    post_recv(server, &to);
    assert_int_equal(fl_cma_accept(server, NULL), 0);
    expect_and_ack(bed.client, RDMA_CM_EVENT_ESTABLISHED);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    post_send(client, &from, 8);
    assert_int_equal(wait_wc(server->recv_cq).byte_len, 8);
    assert_string_equal((char *)to.bytes, "perhaps");
    fl_mr_dereg(from.mr);
    fl_mr_dereg(to.mr);
    destroy(client);
    expect_and_ack(bed.server, RDMA_CM_EVENT_DISCONNECTED);
    destroy(server);
    bed_fini(&bed);
}

/* The Starting PSN of a REQ or REP is where the one who hears it begins, as Linux and hardware have it. */
static void each_side_sends_from_the_psn_it_was_given(void **state)
{
    struct ibv_qp_init_attr init;
    struct rdma_cm_id *ids[2];
    struct ibv_qp_attr got;
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    connect_both(&bed, &ids[0], &ids[1]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fl_qp_query(ids[i]->qp, &got, 0, &init), 0);
        assert_int_equal(got.sq_psn, fl_cm_peer(fl_cma_id_of(ids[i])->conn)->psn);
        assert_int_equal(got.rq_psn, fl_cma_id_of(ids[i])->psn);
    }
    assert_int_not_equal(got.sq_psn, got.rq_psn);
    destroy(ids[0]);
    destroy(ids[1]);
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
        cmocka_unit_test(what_farlane_peers_agree_on),
        cmocka_unit_test(private_data_and_depths_go_over),
        cmocka_unit_test(unreliable_connection),
        cmocka_unit_test(each_side_sends_from_the_psn_it_was_given),
        cmocka_unit_test(endpoints),
    };
    use_own_port();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
