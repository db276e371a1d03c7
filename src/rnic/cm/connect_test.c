/* SPDX-License-Identifier: Apache-2.0 */
/* Connecting: both sides, what is lost or repeated, what is refused. */
#include "rnic/cm/test_bed.h"

#include <errno.h>

static void three_messages(void **state)
{
    struct bed bed;
    struct fl_cm_terms terms = accept_terms();
    bed_init(&bed);
    struct fl_cm_conn *a = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    assert_memory_equal(&bed.last.remote, &bed.addr[B], 16);

    struct fl_cm_event event = expect_event(&bed, B, FL_CM_CONNECT_REQUEST);
    struct fl_cm_conn *b = event.conn;
    assert_ptr_equal(event.listener, bed.listener);
    assert_ptr_equal(event.owner, &bed);
    assert_int_equal(event.private_len, 56);
    assert_memory_equal(event.private_data, "ping\0", 5);
    const struct fl_cm_route *route = fl_cm_route(b);
    assert_memory_equal(&route->local, &bed.addr[B], 16);
    assert_memory_equal(&route->remote, &bed.addr[A], 16);
    assert_int_equal(route->mtu, 3);
    assert_int_equal(route->flow_label, 0xc81d6);
    assert_int_equal(route->pkey, 0xffff);
    assert_int_equal(route->hop_limit, 64);
    assert_int_equal(fl_cm_ack_timeout(b), 17);
    assert_int_equal(fl_cm_conn_service_id(b), SERVICE);
    assert_int_equal(fl_cm_src_port(b), 40000);
    assert_int_equal(fl_cm_service(b), FL_IB_RC);
    const struct fl_cm_terms *peer = fl_cm_peer(b);
    assert_int_equal(peer->qpn, 0x13);
    assert_int_equal(peer->psn, 0x7695c0);
    assert_int_equal(peer->responder_resources, 2); /* that it asks for */
    assert_int_equal(peer->initiator_depth, 4);     /* that it answers */
    assert_int_equal(peer->retry_count, 5);
    assert_int_equal(peer->rnr_retry_count, 6);
    assert_int_equal(peer->features, 0);

    fl_cm_set_owner(b, &terms);
    assert_int_equal(fl_cm_accept(bed.cm[B], b, &terms, "pong", 4, bed.now), 0);
    move(&bed, B, FL_CM_REP);
    event = expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    assert_ptr_equal(event.conn, a);
    assert_ptr_equal(event.owner, &bed.addr[A]);
    assert_int_equal(event.private_len, 196);
    assert_memory_equal(event.private_data, "pong\0", 5);
    peer = fl_cm_peer(a);
    assert_int_equal(peer->qpn, 0x21);
    assert_int_equal(peer->psn, 0x2e3bf9);
    assert_int_equal(peer->responder_resources, 3);
    assert_int_equal(peer->initiator_depth, 2);
    assert_int_equal(peer->retry_count, 5);
    assert_int_equal(peer->rnr_retry_count, 7);
    assert_int_equal(fl_cm_ready(bed.cm[A], a, "go", 2, bed.now), 0);
    move(&bed, A, FL_CM_RTU);
    event = expect_event(&bed, B, FL_CM_ESTABLISHED);
    assert_ptr_equal(event.conn, b);
    assert_ptr_equal(event.owner, &terms);
    assert_memory_equal(event.private_data, "go\0", 3);
    expect_no_event(&bed);
    expect_silence(&bed);
    assert_int_equal(fl_cm_deadline(bed.cm[A]), FL_CM_NEVER);
    assert_int_equal(fl_cm_deadline(bed.cm[B]), FL_CM_NEVER);
    bed_fini(&bed);
}

static void nobody_listens(void **state)
{
    struct bed bed;
    bed_init(&bed);
    struct fl_cm_connect args = connect_args(&bed);
    struct fl_cm_conn *a;
    args.service_id++;
    assert_int_equal(fl_cm_connect(bed.cm[A], &args, bed.now, &a), 0);
    move(&bed, A, FL_CM_REQ);
    move(&bed, B, FL_CM_REJ);
    struct fl_cm_event event = expect_event(&bed, A, FL_CM_REJECTED);
    assert_ptr_equal(event.conn, a);
    assert_int_equal(event.reason, FL_CM_REJ_SERVICE_ID);
    assert_int_equal(fl_cm_nr_conns(bed.cm[B]), 0);
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    assert_int_equal(fl_cm_nr_conns(bed.cm[A]), 0);
    expect_silence(&bed);
    bed_fini(&bed);
}

static void disconnect_and_time_wait(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    for (int first = A; first <= B; first++) {
        bed_init(&bed);
        establish(&bed, conn);
        assert_int_equal(fl_cm_disconnect(bed.cm[first], conn[first], "bye", 3, bed.now), 0);
        move(&bed, first, FL_CM_DREQ);
        struct fl_cm_event event = expect_event(&bed, !first, FL_CM_DISCONNECTED);
        assert_ptr_equal(event.conn, conn[!first]);
        assert_memory_equal(event.private_data, "bye\0", 4);
        move(&bed, !first, FL_CM_DREP);
        event = expect_event(&bed, first, FL_CM_DISCONNECTED);
        assert_false(event.timed_out);
        expect_no_event(&bed);
        for (int i = A; i <= B; i++) {
            assert_int_equal(fl_cm_disconnect(bed.cm[i], conn[i], NULL, 0, bed.now), 0);
            wait_for(&bed, i);
            assert_ptr_equal(expect_event(&bed, i, FL_CM_TIMEWAIT_EXIT).conn, conn[i]);
            fl_cm_conn_destroy(bed.cm[i], conn[i], bed.now);
            assert_int_equal(fl_cm_nr_conns(bed.cm[i]), 0);
        }
        expect_no_event(&bed);
        expect_silence(&bed);
        bed_fini(&bed);
    }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(three_messages), cmocka_unit_test(nobody_listens),
                       cmocka_unit_test(disconnect_and_time_wait));
}
