/* SPDX-License-Identifier: Apache-2.0 */
/* Queue pairs and their connections: the program's own, options, and data that comes before the RTU. */
#include "rnic/cma/test_bed.h"

static struct rdma_cm_id *ask(struct bed *bed, struct rdma_cm_id *client)
{
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    assert_int_equal(fl_cma_connect(client, NULL), 0);
    struct rdma_cm_event *event = expect(bed->server, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    fl_cma_ack_cm_event(event);
    assert_int_equal(fl_cma_create_qp(server, NULL, &attr), 0);
    return server;
}

static void set_state(struct rdma_cm_id *id, struct ibv_qp *qp, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr = {.qp_state = state};
    int mask;
    assert_int_equal(fl_cma_init_qp_attr(id, &attr, &mask), 0);
    assert_int_equal(fl_qp_modify(qp, &attr, mask), 0);
}

/* rdma_init_qp_attr() and rdma_establish(), as UCX does it */
static void the_programs_own_queue_pair(void **state)
{
    struct bed bed;
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    bed_init(&bed, RDMA_PS_TCP, 0);
    struct rdma_cm_id *client = resolved(bed.client, bed.port, RDMA_PS_TCP);
    fl_cma_destroy_qp(client);
    struct ibv_cq *cq = fl_cq_create(client->verbs, 16, NULL, NULL, 0);
    attr.send_cq = attr.recv_cq = cq;
    struct ibv_qp *qp = fl_qp_create(client->pd, &attr);
    assert_non_null(qp);
    set_state(client, qp, IBV_QPS_INIT);
    struct ibv_qp_attr early = {.qp_state = IBV_QPS_RTR};
    int mask;
    assert_int_equal(fl_cma_init_qp_attr(client, &early, &mask), -1); /* nobody to go to yet */
    param.qp_num = qp->qp_num;
    assert_int_equal(fl_cma_connect(client, &param), 0);
    struct rdma_cm_event *event = expect(bed.server, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    assert_int_equal(event->param.conn.qp_num, qp->qp_num);
    fl_cma_ack_cm_event(event);
    attr = qp_attr(IBV_QPT_RC);
    assert_int_equal(fl_cma_create_qp(server, NULL, &attr), 0);
    assert_int_equal(fl_cma_accept(server, NULL), 0);
    event = expect(bed.client, RDMA_CM_EVENT_CONNECT_RESPONSE);
    assert_int_equal(event->param.conn.qp_num, server->qp->qp_num);
    fl_cma_ack_cm_event(event);
    set_state(client, qp, IBV_QPS_RTR);
    set_state(client, qp, IBV_QPS_RTS);
    assert_int_equal(fl_cma_establish(client), 0);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(fl_cma_disconnect(client), 0);
    expect_and_ack(bed.client, RDMA_CM_EVENT_DISCONNECTED);
    expect_and_ack(bed.server, RDMA_CM_EVENT_DISCONNECTED);
    fl_qp_destroy(qp);
    fl_cq_destroy(cq);
    destroy(client);
    destroy(server);
    bed_fini(&bed);
}

/* The RTU is on its way, or lost, and the peer's first packet is here. */
static void data_before_the_rtu(void **state)
{
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    struct rdma_cm_id *client = resolved(bed.client, bed.port, RDMA_PS_TCP), *server = ask(&bed, client);
    assert_int_equal(fl_cma_accept(server, NULL), 0);
    struct fl_cma *cma = fl_cma_id_of(server)->cma;
    assert_int_equal(fl_cma_lock(cma), 0);
    fl_qp_first_packet(fl_qp_of(server->qp), cma->rnic->now);
    fl_cma_unlock(cma);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    expect_and_ack(bed.client, RDMA_CM_EVENT_ESTABLISHED);
    expect_nothing(bed.server); /* the RTU says nothing new */
    destroy(client);
    expect_and_ack(bed.server, RDMA_CM_EVENT_DISCONNECTED);
    destroy(server);
    bed_fini(&bed);
}

static void the_program_tells_of_data(void **state)
{
    struct bed bed;
    bed_init(&bed, RDMA_PS_TCP, 0);
    struct rdma_cm_id *client = resolved(bed.client, bed.port, RDMA_PS_TCP), *server = ask(&bed, client);
    assert_int_equal(fl_cma_accept(server, NULL), 0);
    assert_int_equal(fl_cma_notify(server, IBV_EVENT_COMM_EST), 0);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(fl_cma_notify(server, IBV_EVENT_COMM_EST), 0);
    assert_int_equal(fl_cma_notify(server, IBV_EVENT_PATH_MIG), -1);
    expect_and_ack(bed.client, RDMA_CM_EVENT_ESTABLISHED);
    destroy(server);
    expect_and_ack(bed.client, RDMA_CM_EVENT_DISCONNECTED);
    destroy(client);
    bed_fini(&bed);
}

/* TOS, timeout and ECE: set by one side, seen by the other or in the queue pair. */
static void options_take_effect(void **state)
{
    struct bed bed;
    struct sockaddr_in addr;
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC), init;
    struct ibv_qp_attr got;
    struct ibv_ece ece = {.vendor_id = 0x15b3, .options = 0x10000002}, seen = {0};
    struct rdma_cm_id *client;
    uint8_t tos = 0x68, timeout = 19;
    bed_init(&bed, RDMA_PS_TCP, 0);
    addr = loopback(bed.port);
    assert_int_equal(fl_cma_create_id(bed.client, &client, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(fl_cma_set_option(client, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
    assert_int_equal(fl_cma_set_option(client, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
    assert_int_equal(fl_cma_resolve_addr(client, NULL, (struct sockaddr *)&addr, 1000), 0);
    expect_and_ack(bed.client, RDMA_CM_EVENT_ADDR_RESOLVED);
    assert_int_equal(fl_cma_resolve_route(client, 1000), 0);
    expect_and_ack(bed.client, RDMA_CM_EVENT_ROUTE_RESOLVED);
    assert_int_equal(client->route.path_rec->traffic_class, tos);
    assert_int_equal(fl_cma_create_qp(client, NULL, &attr), 0);
    assert_int_equal(fl_cma_set_local_ece(client, &ece), 0);
    struct rdma_cm_id *server = ask(&bed, client);
    assert_int_equal(fl_cma_get_remote_ece(server, &seen), 0);
    assert_int_equal(seen.vendor_id, ece.vendor_id);
    assert_int_equal(seen.options, ece.options);
    assert_int_equal(fl_cma_accept(server, NULL), 0);
    expect_and_ack(bed.client, RDMA_CM_EVENT_ESTABLISHED);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(fl_qp_query(client->qp, &got, 0, &init), 0);
    assert_int_equal(got.ah_attr.grh.traffic_class, tos);
    assert_true(got.timeout >= timeout);
    assert_int_equal(fl_qp_query(server->qp, &got, 0, &init), 0);
    assert_int_equal(got.ah_attr.grh.traffic_class, tos);
    assert_int_equal(got.timeout, timeout);
    destroy(server);
    expect_and_ack(bed.client, RDMA_CM_EVENT_DISCONNECTED);
    destroy(client);
    bed_fini(&bed);
}

static void a_shared_receive_queue(void **state)
{
    struct bed bed;
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct buffer from = {.bytes = "shared"}, to = {.mr = NULL};
    struct ibv_recv_wr *bad, wr = {.num_sge = 1};
    struct ibv_sge sge;
    bed_init(&bed, RDMA_PS_TCP, 0);
    struct rdma_cm_id *client = resolved(bed.client, bed.port, RDMA_PS_TCP);
    assert_int_equal(fl_cma_connect(client, NULL), 0);
    struct rdma_cm_event *event = expect(bed.server, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    fl_cma_ack_cm_event(event);
    assert_int_equal(fl_cma_create_srq(server, NULL, &srq), 0);
    assert_int_equal(fl_cma_create_srq(server, NULL, &srq), -1); /* it has one */
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    assert_int_equal(fl_cma_create_qp(server, NULL, &attr), 0);
    assert_ptr_equal(server->qp->srq, server->srq);
    buffer_init(&from, client);
    buffer_init(&to, server);
    sge = (struct ibv_sge){(uintptr_t)to.bytes, sizeof(to.bytes), to.mr->lkey};
    wr.sg_list = &sge;
    assert_int_equal(ibv_post_srq_recv(server->srq, &wr, &bad), 0);
    assert_int_equal(fl_cma_accept(server, NULL), 0);
    event = expect(bed.client, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(event->param.conn.srq, 1);
    fl_cma_ack_cm_event(event);
    expect_and_ack(bed.server, RDMA_CM_EVENT_ESTABLISHED);
    post_send(client, &from, 7);
    assert_int_equal(wait_wc(server->recv_cq).byte_len, 7);
    assert_string_equal((char *)to.bytes, "shared");
    fl_mr_dereg(from.mr);
    fl_mr_dereg(to.mr);
    destroy(client);
    expect_and_ack(bed.server, RDMA_CM_EVENT_DISCONNECTED);
    fl_cma_destroy_qp(server);
    fl_cma_destroy_srq(server);
    assert_null(server->srq);
    destroy(server);
    bed_fini(&bed);
}

/* Requests of a listening endpoint share the receive queue that it was made with, and none destroys it. */
static void one_receive_queue_for_all_requests(void **state)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *res;
    struct ibv_srq_init_attr srq = {.attr = {.max_wr = 8, .max_sge = 1}};
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_RC);
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *listener, *other, *clients[2], *servers[2];
    /* The protection domain comes from an id that has an address; the listener has none of its own. */
    other = resolved(channel, 1, RDMA_PS_TCP);
    assert_int_equal(fl_cma_getaddrinfo("0.0.0.0", "0", &hints, &res), 0);
    attr.srq = fl_srq_create(other->pd, &srq);
    assert_non_null(attr.srq);
    assert_int_equal(fl_cma_create_ep(&listener, res, other->pd, &attr), 0);
    fl_cma_freeaddrinfo(res);
    assert_null(listener->verbs);
    assert_int_equal(fl_cma_create_srq(listener, NULL, &srq), 0); /* it may have one besides */
    assert_int_equal(fl_cma_listen(listener, 2), 0);
    for (int i = 0; i < 2; i++) {
        clients[i] = resolved(channel, be16toh(fl_cma_get_src_port(listener)), RDMA_PS_TCP);
        assert_int_equal(fl_cma_connect(clients[i], NULL), 0);
        assert_int_equal(fl_cma_get_request(listener, &servers[i]), 0);
        assert_ptr_equal(servers[i]->qp->srq, attr.srq);
        assert_int_equal(fl_cma_reject(servers[i], NULL, 0), 0);
        expect_and_ack(channel, RDMA_CM_EVENT_REJECTED);
    }
    for (int i = 0; i < 2; i++) {
        fl_cma_destroy_ep(servers[i]);
        fl_cma_destroy_ep(clients[i]);
    }
    assert_int_equal(fl_srq_destroy(attr.srq), 0);
    fl_cma_destroy_ep(listener);
    fl_cma_destroy_ep(other);
    fl_cma_destroy_event_channel(channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_programs_own_queue_pair), cmocka_unit_test(data_before_the_rtu),
        cmocka_unit_test(the_program_tells_of_data),   cmocka_unit_test(options_take_effect),
        cmocka_unit_test(a_shared_receive_queue),      cmocka_unit_test(one_receive_queue_for_all_requests),
    };
    use_own_port();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
