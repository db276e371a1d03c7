/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA_PS_UDP: queue pairs of datagrams find each other by SIDR. */
#include "rnic/cma/test_bed.h"

#define GRH_LEN 40

static struct rdma_cm_id *take_request(struct bed *bed, const char *said)
{
    struct ibv_qp_init_attr attr = qp_attr(IBV_QPT_UD);
    struct rdma_cm_event *event = expect(bed->server, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *id = event->id;
    assert_int_equal(event->param.ud.private_data_len, FL_CM_RESOLVE_IP_LEN);
    assert_string_equal(event->param.ud.private_data, said);
    fl_cma_ack_cm_event(event);
    assert_int_equal(fl_cma_create_qp(id, NULL, &attr), 0);
    return id;
}

static void send_datagram(struct rdma_cm_id *id, struct buffer *buffer, struct ibv_ah *ah, uint32_t qpn)
{
    struct ibv_sge sge = {(uintptr_t)buffer->bytes, 8, buffer->mr->lkey};
    struct ibv_send_wr *bad, wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND};
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = qpn;
    wr.wr.ud.remote_qkey = RDMA_UDP_QKEY;
    assert_int_equal(ibv_post_send(id->qp, &wr, &bad), 0);
}

static void resolve_and_send(void **state)
{
    struct rdma_conn_param ask = {.private_data = "who?", .private_data_len = 5},
                           answer = {.private_data = "me", .private_data_len = 3};
    struct buffer from = {.bytes = "datagram"}, to = {.mr = NULL};
    struct bed bed;
    bed_init(&bed, RDMA_PS_UDP, 0);
    struct rdma_cm_id *client = resolved(bed.client, bed.port, RDMA_PS_UDP);
    assert_int_equal(fl_cma_connect(client, &ask), 0);
    struct rdma_cm_id *server = take_request(&bed, "who?");
    buffer_init(&from, client);
    buffer_init(&to, server);
    post_recv(server, &to);
    assert_int_equal(fl_cma_accept(server, &answer), 0);

    struct rdma_cm_event *event = expect(bed.client, RDMA_CM_EVENT_ESTABLISHED);
    assert_string_equal(event->param.ud.private_data, "me");
    assert_int_equal(event->param.ud.qp_num, server->qp->qp_num);
    assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
    struct ibv_ah *ah = fl_ah_create(client->pd, &event->param.ud.ah_attr);
    assert_non_null(ah);
    fl_cma_ack_cm_event(event);
    send_datagram(client, &from, ah, server->qp->qp_num);
    struct ibv_wc wc = wait_wc(server->recv_cq);
    assert_int_equal(wc.byte_len, GRH_LEN + 8);
    assert_int_equal(wc.src_qp, client->qp->qp_num);
    assert_memory_equal(to.bytes + GRH_LEN, "datagram", 8);
    assert_int_equal(fl_ah_destroy(ah), 0);
    fl_mr_dereg(from.mr);
    fl_mr_dereg(to.mr);
    destroy(client);
    destroy(server);
    bed_fini(&bed);
}

static void refused(void **state)
{
    struct bed bed;
    bed_init(&bed, RDMA_PS_UDP, 0);
    struct rdma_cm_id *client = resolved(bed.client, bed.port, RDMA_PS_UDP);
    assert_int_equal(fl_cma_connect(client, NULL), 0);
    struct rdma_cm_id *server = take_request(&bed, "");
    assert_int_equal(fl_cma_reject(server, "no", 3), 0);
    struct rdma_cm_event *event = expect(bed.client, RDMA_CM_EVENT_UNREACHABLE);
    assert_int_equal(event->status, FL_CM_SIDR_REJECT);
    assert_string_equal(event->param.ud.private_data, "no");
    fl_cma_ack_cm_event(event);
    destroy(client);
    destroy(server);
    bed_fini(&bed);
}

static void nobody_serves(void **state)
{
    struct rdma_event_channel *channel = fl_cma_create_event_channel();
    struct rdma_cm_id *client = resolved(channel, 1, RDMA_PS_UDP);
    assert_int_equal(fl_cma_connect(client, NULL), 0);
    struct rdma_cm_event *event = expect(channel, RDMA_CM_EVENT_UNREACHABLE);
    assert_int_equal(event->status, FL_CM_SIDR_UNSUPPORTED);
    fl_cma_ack_cm_event(event);
    destroy(client);
    fl_cma_destroy_event_channel(channel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resolve_and_send),
        cmocka_unit_test(refused),
        cmocka_unit_test(nobody_serves),
    };
    use_own_port();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
