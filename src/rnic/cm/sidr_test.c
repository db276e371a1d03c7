/* SPDX-License-Identifier: Apache-2.0 */
/* Service ID resolution: which queue pair serves datagrams. */
#include "rnic/cm/test_bed.h"

#include <errno.h>

#define UD_SERVICE fl_cm_service_id(FL_CM_PS_UDP, 7174)

static struct fl_cm_resolve resolve_args(const struct bed *bed)
{
    return (struct fl_cm_resolve){
        .service_id = UD_SERVICE,
        .src_port = 40001,
        .route = {.local = bed->addr[A], .remote = bed->addr[B]},
        .private_data = "who",
        .private_len = 3,
        .owner = (void *)&bed->addr[A],
    };
}

static void init(struct bed *bed, struct fl_cm_conn **a)
{
    bed_init(bed);
    assert_int_equal(fl_cm_listen(bed->cm[B], UD_SERVICE, NULL, 1, bed, &bed->listener), 0);
    struct fl_cm_resolve args = resolve_args(bed);
    assert_int_equal(fl_cm_resolve(bed->cm[A], &args, bed->now, a), 0);
}

static void resolved(void **state)
{
    struct bed bed;
    struct fl_cm_conn *a, *b;
    init(&bed, &a);
    move(&bed, A, FL_CM_SIDR_REQ);
    struct fl_cm_tx req = bed.last;
    struct fl_cm_event event = expect_event(&bed, B, FL_CM_SIDR_REQUEST);
    b = event.conn;
    assert_ptr_equal(event.listener, bed.listener);
    assert_int_equal(event.private_len, 180);
    assert_memory_equal(event.private_data, "who", 4);
    assert_int_equal(fl_cm_src_port(b), 40001);
    assert_int_equal(fl_cm_service(b), FL_IB_UD);
    assert_memory_equal(&fl_cm_route(b)->remote, &bed.addr[A], 16);
    give(&bed, B, &req); /* the program thinks */
    expect_no_event(&bed);
    expect_silence(&bed);
    assert_int_equal(fl_cm_sidr_reply(bed.cm[B], b, FL_CM_SIDR_OK, 0x11, 0x1234567, "me", 2, bed.now), 0);
    assert_int_equal(fl_cm_sidr_reply(bed.cm[B], b, FL_CM_SIDR_OK, 0x11, 0x1234567, "me", 2, bed.now),
                     -ENOTCONN);
    lose(&bed, B, FL_CM_SIDR_REP);
    fl_cm_conn_destroy(bed.cm[B], b, bed.now);
    wait_for(&bed, A);
    move(&bed, A, FL_CM_SIDR_REQ);
    expect_no_event(&bed);
    move(&bed, B, FL_CM_SIDR_REP); /* the same again */
    event = expect_event(&bed, A, FL_CM_SIDR_RESPONSE);
    assert_ptr_equal(event.conn, a);
    assert_ptr_equal(event.owner, &bed.addr[A]);
    assert_int_equal(event.sidr_status, FL_CM_SIDR_OK);
    assert_int_equal(event.qpn, 0x11);
    assert_int_equal(event.qkey, 0x1234567);
    assert_int_equal(event.private_len, 136);
    assert_memory_equal(event.private_data, "me", 3);
    give(&bed, A, &bed.last);
    expect_no_event(&bed);
    assert_int_equal(fl_cm_deadline(bed.cm[A]), FL_CM_NEVER);
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    wait_for(&bed, B);
    for (int i = A; i <= B; i++)
        assert_int_equal(fl_cm_nr_conns(bed.cm[i]), 0);
    bed_fini(&bed);
}

static void nobody_serves(void **state)
{
    struct bed bed;
    struct fl_cm_conn *a;
    init(&bed, &a);
    fl_cm_listener_destroy(bed.cm[B], bed.listener, bed.now);
    bed.now += 3 * SECOND; /* and does not come back */
    move(&bed, A, FL_CM_SIDR_REQ);
    move(&bed, B, FL_CM_SIDR_REP);
    assert_int_equal(expect_event(&bed, A, FL_CM_SIDR_RESPONSE).sidr_status, FL_CM_SIDR_UNSUPPORTED);
    bed_fini(&bed);
}

/* Destroyed without an answer, by its owner or by the listener's end */
static void refused(void **state)
{
    for (int i = 0; i < 2; i++) {
        struct bed bed;
        struct fl_cm_conn *a;
        init(&bed, &a);
        move(&bed, A, FL_CM_SIDR_REQ);
        if (i)
            fl_cm_listener_destroy(bed.cm[B], bed.listener, bed.now);
        else
            fl_cm_conn_destroy(bed.cm[B], expect_event(&bed, B, FL_CM_SIDR_REQUEST).conn, bed.now);
        expect_no_event(&bed);
        move(&bed, B, FL_CM_SIDR_REP);
        assert_int_equal(expect_event(&bed, A, FL_CM_SIDR_RESPONSE).sidr_status, FL_CM_SIDR_REJECT);
        bed_fini(&bed);
    }
}

static void no_answer(void **state)
{
    struct bed bed;
    struct fl_cm_conn *a;
    init(&bed, &a);
    for (int i = 0; i < 16; i++) {
        lose(&bed, A, FL_CM_SIDR_REQ);
        expect_no_event(&bed);
        wait_for(&bed, A);
    }
    assert_ptr_equal(expect_event(&bed, A, FL_CM_UNREACHABLE).conn, a);
    expect_silence(&bed);
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    assert_int_equal(fl_cm_nr_conns(bed.cm[A]), 0);
    bed_fini(&bed);
}

static void destroyed_while_it_asks(void **state)
{
    struct bed bed;
    struct fl_cm_conn *a;
    init(&bed, &a);
    move(&bed, A, FL_CM_SIDR_REQ);
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    assert_int_equal(fl_cm_nr_conns(bed.cm[A]), 0);
    fl_cm_sidr_reply(bed.cm[B], expect_event(&bed, B, FL_CM_SIDR_REQUEST).conn, FL_CM_SIDR_OK, 2, 3, NULL, 0,
                     bed.now);
    move(&bed, B, FL_CM_SIDR_REP);
    expect_no_event(&bed);
    expect_silence(&bed);
    bed_fini(&bed);
}

/* Neither an address, nor a service ID, nor a connection's ID of another kind */
static void forged(void **state)
{
    struct bed bed;
    struct fl_cm_conn *a;
    init(&bed, &a);
    expect_tx(&bed, A, &bed.last, FL_CM_SIDR_REQ);
    struct fl_cm_tx tx = bed.last;
    tx.local = v4(66);
    give(&bed, B, &tx);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_forged, 1);
    tx = bed.last;
    tx.mad.sidr_req.private_data[1] = 0;
    give(&bed, B, &tx);
    expect_tx(&bed, B, &tx, FL_CM_SIDR_REP);
    assert_int_equal(tx.mad.sidr_rep.status, FL_CM_SIDR_REJECT);
    expect_no_event(&bed);
    give(&bed, B, &bed.last);
    fl_cm_sidr_reply(bed.cm[B], expect_event(&bed, B, FL_CM_SIDR_REQUEST).conn, FL_CM_SIDR_OK, 2, 3, NULL, 0,
                     bed.now);
    struct fl_cm_tx rep;
    expect_tx(&bed, B, &rep, FL_CM_SIDR_REP);
    tx = rep;
    tx.mad.sidr_rep.service_id = be64_of(UD_SERVICE + 1);
    give(&bed, A, &tx);
    tx = rep;
    tx.local = v4(66);
    give(&bed, A, &tx);
    fl_cm_init(&tx.mad, FL_CM_REJ, 1);
    tx.local = bed.addr[B];
    tx.mad.rej.remote_id = rep.mad.sidr_rep.request_id;
    give(&bed, A, &tx);
    expect_no_event(&bed);
    give(&bed, A, &rep);
    expect_event(&bed, A, FL_CM_SIDR_RESPONSE);
    bed_fini(&bed);
}

/* A peer counts its questions and its connections as it likes. */
static void same_number_as_a_connection(void **state)
{
    struct bed bed;
    struct fl_cm_conn *a;
    init(&bed, &a);
    expect_tx(&bed, A, &bed.last, FL_CM_SIDR_REQ);
    struct fl_cm_tx sidr = bed.last;
    struct fl_cm_conn *conn[2];
    conn[A] = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    conn[B] = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    sidr.mad.sidr_req.request_id = bed.last.mad.req.local_id;
    give(&bed, B, &sidr);
    assert_ptr_not_equal(expect_event(&bed, B, FL_CM_SIDR_REQUEST).conn, conn[B]);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_duplicates, 0);
    bed_fini(&bed);
}

static void bounds(void **state)
{
    struct bed bed;
    struct fl_cm_conn *a, *other;
    uint8_t data[200] = {0};
    init(&bed, &a);
    struct fl_cm_resolve args = resolve_args(&bed);
    args.private_data = data;
    args.private_len = 181;
    assert_int_equal(fl_cm_resolve(bed.cm[A], &args, bed.now, &other), -EINVAL);
    args.private_len = 180;
    assert_int_equal(fl_cm_resolve(bed.cm[A], &args, bed.now, &other), 0);
    move(&bed, A, FL_CM_SIDR_REQ);
    move(&bed, A, FL_CM_SIDR_REQ); /* beyond the backlog of one */
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_backlog, 1);
    struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_SIDR_REQUEST).conn;
    expect_no_event(&bed);
    assert_int_equal(fl_cm_sidr_reply(bed.cm[B], b, FL_CM_SIDR_OK, 1 << 24, 0, NULL, 0, bed.now), -EINVAL);
    assert_int_equal(fl_cm_sidr_reply(bed.cm[B], b, FL_CM_SIDR_OK, 2, 0, data, 137, bed.now), -EINVAL);
    assert_int_equal(fl_cm_accept(bed.cm[B], b, &(struct fl_cm_terms){.qpn = 2}, NULL, 0, bed.now),
                     -ENOTCONN);
    assert_int_equal(fl_cm_delay(bed.cm[B], b, 0, bed.now), -ENOTCONN);
    expect_silence(&bed);
    bed_fini(&bed);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(resolved), cmocka_unit_test(nobody_serves), cmocka_unit_test(refused),
                       cmocka_unit_test(no_answer), cmocka_unit_test(destroyed_while_it_asks),
                       cmocka_unit_test(forged), cmocka_unit_test(same_number_as_a_connection),
                       cmocka_unit_test(bounds));
}
