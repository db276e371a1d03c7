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

static void req_lost(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    struct fl_cm_terms terms = accept_terms();
    bed_init(&bed);
    conn[A] = begin(&bed);
    lose(&bed, A, FL_CM_REQ);
    wait_for(&bed, A);
    assert_in_range(bed.now - SECOND, 200 * MS, 400 * MS); /* a sixteenth of the whole time */
    move(&bed, A, FL_CM_REQ);
    conn[B] = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    wait_for(&bed, A);
    move(&bed, A, FL_CM_REQ); /* the program of B thinks: it is not asked twice */
    expect_no_event(&bed);
    expect_silence(&bed);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_duplicates, 1);
    assert_int_equal(fl_cm_stats(bed.cm[A])->nr_retries, 2);
    assert_int_equal(fl_cm_accept(bed.cm[B], conn[B], &terms, NULL, 0, bed.now), 0);
    move(&bed, B, FL_CM_REP);
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    bed_fini(&bed);
}

static void rep_lost(void **state)
{
    for (int who = A; who <= B; who++) { /* whose clock mends it */
        struct bed bed;
        struct fl_cm_conn *conn[2];
        bed_init(&bed);
        begin_both(&bed, conn);
        lose(&bed, B, FL_CM_REP);
        wait_for(&bed, who);
        if (who == A)
            move(&bed, A, FL_CM_REQ);
        move(&bed, B, FL_CM_REP);
        struct fl_cm_event event = expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
        assert_memory_equal(event.private_data, "pong", 5);
        expect_no_event(&bed);
        expect_silence(&bed);
        bed_fini(&bed);
    }
}

static void rtu_lost(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    begin_both(&bed, conn);
    move(&bed, B, FL_CM_REP);
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    fl_cm_ready(bed.cm[A], conn[A], "go", 2, bed.now);
    lose(&bed, A, FL_CM_RTU);
    wait_for(&bed, B);
    move(&bed, B, FL_CM_REP);
    expect_no_event(&bed);
    move(&bed, A, FL_CM_RTU);
    assert_memory_equal(expect_event(&bed, B, FL_CM_ESTABLISHED).private_data, "go", 3);
    give(&bed, B, &bed.last);
    expect_no_event(&bed);
    expect_silence(&bed);
    assert_int_equal(fl_cm_deadline(bed.cm[B]), FL_CM_NEVER);
    bed_fini(&bed);
}

/* The peer's first data tells that it is ready; its RTU may come later, or not at all. */
static void data_before_rtu(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    struct fl_cm_tx rtu;
    bed_init(&bed);
    begin_both(&bed, conn);
    move(&bed, B, FL_CM_REP);
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    fl_cm_ready(bed.cm[A], conn[A], "go", 2, bed.now);
    expect_tx(&bed, A, &rtu, FL_CM_RTU);
    assert_int_equal(fl_cm_established(bed.cm[B], conn[B], bed.now), 0);
    assert_null(expect_event(&bed, B, FL_CM_ESTABLISHED).private_data);
    give(&bed, B, &rtu);
    assert_int_equal(fl_cm_established(bed.cm[B], conn[B], bed.now), -ENOTCONN);
    expect_no_event(&bed);
    assert_int_equal(fl_cm_deadline(bed.cm[B]), FL_CM_NEVER);
    bed_fini(&bed);
}

/* What the network held back for long is neither a new connection nor a disturbance. */
static void late_messages(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    struct fl_cm_tx req, rep;
    struct fl_cm_terms terms = accept_terms();
    bed_init(&bed);
    conn[A] = begin(&bed);
    expect_tx(&bed, A, &req, FL_CM_REQ);
    give(&bed, B, &req);
    conn[B] = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    fl_cm_accept(bed.cm[B], conn[B], &terms, NULL, 0, bed.now);
    expect_tx(&bed, B, &rep, FL_CM_REP);
    give(&bed, A, &rep);
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    give(&bed, A, &rep); /* the program of A thinks */
    expect_silence(&bed);
    fl_cm_ready(bed.cm[A], conn[A], NULL, 0, bed.now);
    move(&bed, A, FL_CM_RTU);
    expect_event(&bed, B, FL_CM_ESTABLISHED);
    give(&bed, B, &req);
    expect_silence(&bed);
    fl_cm_disconnect(bed.cm[A], conn[A], NULL, 0, bed.now);
    give(&bed, A, &rep);
    move(&bed, A, FL_CM_DREQ);
    move(&bed, B, FL_CM_DREP);
    expect_event(&bed, A, FL_CM_DISCONNECTED);
    expect_event(&bed, B, FL_CM_DISCONNECTED);
    give(&bed, A, &rep);
    expect_silence(&bed);
    give(&bed, B, &req); /* too early for the same queue pair */
    move(&bed, B, FL_CM_REJ);
    assert_int_equal(be16_get(bed.last.mad.rej.reason), FL_CM_REJ_STALE);
    expect_no_event(&bed);
    expect_silence(&bed);
    bed_fini(&bed);
}

static void nobody_answers(void **state)
{
    struct bed bed;
    bed_init(&bed);
    struct fl_cm_conn *a = begin(&bed);
    uint64_t before = 0;
    for (int i = 0; i < 16; i++) {
        uint64_t sent_at = bed.now;
        lose(&bed, A, FL_CM_REQ);
        expect_no_event(&bed);
        wait_for(&bed, A);
        assert_in_range(bed.now - sent_at, before + before / 2,
                        6 * SECOND); /* slower and slower, up to a limit */
        before = i < 4 ? bed.now - sent_at : 0;
    }
    assert_in_range(bed.now, 40 * SECOND, 80 * SECOND);
    assert_ptr_equal(expect_event(&bed, A, FL_CM_UNREACHABLE).conn, a);
    /* The peer, if it is there after all, is told. */
    struct fl_cm_tx rej;
    expect_tx(&bed, A, &rej, FL_CM_REJ);
    assert_int_equal(be16_get(rej.mad.rej.reason), FL_CM_REJ_TIMEOUT);
    assert_int_equal(fl_cm_rej_ari_len(&rej.mad.rej), 8);
    assert_memory_equal(rej.mad.rej.ari, "\0\0\0\0\0\0\0\x0a", 8);
    assert_int_equal(fl_cm_stats(bed.cm[A])->nr_timeouts, 1);
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    wait_for(&bed, A);
    assert_int_equal(fl_cm_nr_conns(bed.cm[A]), 0);
    expect_no_event(&bed);
    expect_silence(&bed);
    bed_fini(&bed);
}

/* The passive side hears no RTU, gives up and says so; the active side believed to be connected. */
static void rep_not_answered(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    begin_both(&bed, conn);
    move(&bed, B, FL_CM_REP);
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    fl_cm_ready(bed.cm[A], conn[A], NULL, 0, bed.now);
    for (int i = 0; i < 15; i++) {
        lose(&bed, A, FL_CM_RTU);
        wait_for(&bed, B);
        move(&bed, B, FL_CM_REP);
    }
    lose(&bed, A, FL_CM_RTU);
    wait_for(&bed, B);
    assert_ptr_equal(expect_event(&bed, B, FL_CM_UNREACHABLE).conn, conn[B]);
    lose(&bed, B, FL_CM_REJ);
    assert_int_equal(fl_cm_disconnect(bed.cm[B], conn[B], NULL, 0, bed.now), -ENOTCONN);
    struct fl_cm_tx rtu = {.local = bed.addr[A], .remote = bed.addr[B]}; /* one of those comes late */
    fl_cm_init(&rtu.mad, FL_CM_RTU, 1);
    rtu.mad.rtu.local_id = bed.last.mad.rep.remote_id;
    rtu.mad.rtu.remote_id = bed.last.mad.rep.local_id;
    give(&bed, B, &rtu);
    move(&bed, B, FL_CM_REJ);
    assert_int_equal(be16_get(bed.last.mad.rej.reason), FL_CM_REJ_TIMEOUT);
    struct fl_cm_event event = expect_event(&bed, A, FL_CM_DISCONNECTED);
    assert_ptr_equal(event.conn, conn[A]);
    assert_int_equal(event.reason, FL_CM_REJ_TIMEOUT);
    expect_no_event(&bed);
    bed_fini(&bed);
}

/* The active side gave up before the passive program decided. */
static void given_up_meanwhile(void **state)
{
    struct bed bed;
    struct fl_cm_terms terms = accept_terms();
    bed_init(&bed);
    struct fl_cm_conn *a = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    move(&bed, A, FL_CM_REJ);
    struct fl_cm_event event = expect_event(&bed, B, FL_CM_REJECTED);
    assert_ptr_equal(event.conn, b);
    assert_int_equal(event.reason, FL_CM_REJ_TIMEOUT);
    assert_int_equal(fl_cm_accept(bed.cm[B], b, &terms, NULL, 0, bed.now), -ENOTCONN);
    bed_fini(&bed);

    /* The same, and nobody has asked for the event yet: it is not worth telling. */
    bed_init(&bed);
    a = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_tx req = bed.last;
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    move(&bed, A, FL_CM_REJ);
    give(&bed, B, &req);
    expect_no_event(&bed);
    expect_silence(&bed);
    wait_for(&bed, B);
    assert_int_equal(fl_cm_nr_conns(bed.cm[B]), 0);
    bed_fini(&bed);

    /* The REJ is lost, and the passive program accepts. */
    bed_init(&bed);
    a = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    lose(&bed, A, FL_CM_REJ);
    assert_int_equal(fl_cm_accept(bed.cm[B], b, &terms, NULL, 0, bed.now), 0);
    move(&bed, B, FL_CM_REP);
    move(&bed, A, FL_CM_REJ); /* the same again */
    assert_int_equal(expect_event(&bed, B, FL_CM_REJECTED).reason, FL_CM_REJ_TIMEOUT);
    bed_fini(&bed);

    /* And long after, when nothing is known of it. */
    bed_init(&bed);
    a = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    lose(&bed, A, FL_CM_REJ);
    wait_for(&bed, A);
    assert_int_equal(fl_cm_nr_conns(bed.cm[A]), 0);
    assert_int_equal(fl_cm_accept(bed.cm[B], b, &terms, NULL, 0, bed.now), 0);
    move(&bed, B, FL_CM_REP);
    move(&bed, A, FL_CM_REJ);
    assert_int_equal(fl_cm_rej_about(&bed.last.mad.rej), FL_CM_ABOUT_REP);
    assert_int_equal(expect_event(&bed, B, FL_CM_REJECTED).reason, FL_CM_REJ_COMM_ID);
    bed_fini(&bed);
}

static void slow_program_that_was_asked(void **state)
{
    struct bed bed;
    bed_init(&bed);
    struct fl_cm_conn *a = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_tx req = bed.last;
    struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    uint64_t asked_at = bed.now;
    wait_for(&bed, B);
    assert_int_equal(bed.now - asked_at, (4096ull << 20) / 2);
    move(&bed, B, FL_CM_MRA);
    assert_int_equal(fl_cm_mra_about(&bed.last.mad.mra), FL_CM_ABOUT_REQ);
    assert_int_equal(fl_cm_mra_timeout(&bed.last.mad.mra), 24);
    struct fl_cm_tx mra = bed.last;
    expect_no_event(&bed);
    uint64_t told_at = bed.now;
    wait_for(&bed, A); /* what was due meanwhile is not sent: it was told to wait */
    assert_in_range(bed.now - told_at, 4096ull << 24, (4096ull << 24) + SECOND);
    move(&bed, A, FL_CM_REQ);
    move(&bed, B, FL_CM_MRA); /* still thinking */
    told_at = bed.now;
    bed.now += 10 * SECOND;
    give(&bed, A, &bed.last); /* one counts */
    wait_for(&bed, A);
    assert_in_range(bed.now - told_at, 4096ull << 24, (4096ull << 24) + SECOND);
    /* The peer knows our ID by the MRA, so the REJ names it. */
    assert_int_equal(fl_cm_reject(bed.cm[B], b, FL_CM_REJ_CONSUMER, NULL, 0, NULL, 0, bed.now), 0);
    move(&bed, B, FL_CM_REJ);
    assert_memory_equal(&bed.last.mad.rej.local_id, &mra.mad.mra.local_id, 4);
    assert_ptr_equal(expect_event(&bed, A, FL_CM_REJECTED).conn, a);
    give(&bed, B, &req);
    move(&bed, B, FL_CM_REJ);
    bed_fini(&bed);
}

static void slow_program_that_asked(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    begin_both(&bed, conn);
    move(&bed, B, FL_CM_REP);
    struct fl_cm_tx rep = bed.last;
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    assert_int_equal(fl_cm_delay(bed.cm[A], conn[A], 22, bed.now), 0);
    move(&bed, A, FL_CM_MRA);
    assert_int_equal(fl_cm_mra_about(&bed.last.mad.mra), FL_CM_ABOUT_REP);
    assert_int_equal(fl_cm_mra_timeout(&bed.last.mad.mra), 22);
    assert_int_equal(fl_cm_deadline(bed.cm[A]), FL_CM_NEVER);
    uint64_t told_at = bed.now;
    wait_for(&bed, B);
    assert_in_range(bed.now - told_at, 4096ull << 22, (4096ull << 22) + SECOND);
    move(&bed, B, FL_CM_REP);
    move(&bed, A, FL_CM_MRA);
    fl_cm_ready(bed.cm[A], conn[A], NULL, 0, bed.now);
    move(&bed, A, FL_CM_RTU);
    expect_event(&bed, B, FL_CM_ESTABLISHED);
    assert_int_equal(fl_cm_delay(bed.cm[A], conn[A], 22, bed.now), -ENOTCONN);
    assert_int_equal(fl_cm_delay(bed.cm[A], conn[A], 32, bed.now), -EINVAL);
    give(&bed, A, &rep);
    move(&bed, A, FL_CM_RTU);
    expect_no_event(&bed);
    bed_fini(&bed);

    /* By itself */
    bed_init(&bed);
    begin_both(&bed, conn);
    move(&bed, B, FL_CM_REP);
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    wait_for(&bed, A);
    move(&bed, A, FL_CM_MRA);
    bed_fini(&bed);
}

/* Both ends in one process, and so in one engine. */
static void to_oneself(void **state)
{
    struct bed bed;
    struct fl_cm_tx tx;
    struct fl_cm_terms terms = accept_terms();
    bed_init(&bed);
    bed.addr[A] = bed.addr[B];
    fl_cm_destroy(bed.cm[A]);
    bed.cm[A] = bed.cm[B];
    struct fl_cm_conn *a = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    fl_cm_accept(bed.cm[B], b, &terms, NULL, 0, bed.now);
    move(&bed, B, FL_CM_REP);
    assert_ptr_equal(expect_event(&bed, A, FL_CM_CONNECT_RESPONSE).conn, a);
    fl_cm_ready(bed.cm[A], a, NULL, 0, bed.now);
    move(&bed, A, FL_CM_RTU);
    assert_ptr_equal(expect_event(&bed, B, FL_CM_ESTABLISHED).conn, b);
    fl_cm_disconnect(bed.cm[B], b, NULL, 0, bed.now);
    move(&bed, B, FL_CM_DREQ);
    move(&bed, A, FL_CM_DREP);
    assert_ptr_equal(expect_event(&bed, A, FL_CM_DISCONNECTED).conn, a);
    assert_ptr_equal(expect_event(&bed, B, FL_CM_DISCONNECTED).conn, b);
    assert_false(take(&bed, A, &tx));
    fl_cm_destroy(bed.cm[B]);
}

/* What the peer grants itself or us counts within limits. */
static void odd_time_codes(void **state)
{
    static const uint8_t codes[] = {0, 31};
    for (int i = 0; i < 2; i++) {
        struct bed bed;
        struct fl_cm_conn *conn[2];
        struct fl_cm_tx tx;
        struct fl_cm_terms terms = accept_terms();
        bed_init(&bed);
        conn[A] = begin(&bed);
        expect_tx(&bed, A, &tx, FL_CM_REQ);
        fl_cm_req_remote_timeout_set(&tx.mad.req, codes[i]);
        fl_cm_req_local_timeout_set(&tx.mad.req, codes[i]);
        fl_cm_path_ack_timeout_set(&tx.mad.req.primary, codes[i]);
        give(&bed, B, &tx);
        conn[B] = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
        assert_int_equal(fl_cm_ack_timeout(conn[B]), i ? 31 : 17);
        uint64_t before = bed.now;
        wait_for(&bed, B);
        lose(&bed, B, FL_CM_MRA);
        assert_in_range(bed.now - before, 2 * MS, 9 * SECOND);
        fl_cm_accept(bed.cm[B], conn[B], &terms, NULL, 0, bed.now);
        before = bed.now;
        for (int n = 0; n < 16; n++) {
            lose(&bed, B, FL_CM_REP);
            wait_for(&bed, B);
        }
        expect_event(&bed, B, FL_CM_UNREACHABLE);
        assert_in_range(bed.now - before, 60 * MS, 600 * SECOND);
        bed_fini(&bed);
    }
}

static void ack_timeout_of_the_active_side(void **state)
{
    static const struct {
        uint8_t own, delay, sum;
    } rows[] = {{17, 15, 17}, {17, 16, 18}, {17, 17, 18}, {14, 15, 16},
                {14, 20, 21}, {31, 31, 31}, {20, 0, 20}};
    for (unsigned i = 0; i < FL_ARRAY_LEN(rows); i++) {
        struct bed bed;
        struct fl_cm_conn *a;
        struct fl_cm_terms terms = accept_terms();
        bed_init(&bed);
        struct fl_cm_connect args = connect_args(&bed);
        args.route.ack_timeout = rows[i].own;
        fl_cm_connect(bed.cm[A], &args, bed.now, &a);
        move(&bed, A, FL_CM_REQ);
        fl_cm_accept(bed.cm[B], expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn, &terms, NULL, 0, bed.now);
        expect_tx(&bed, B, &bed.last, FL_CM_REP);
        fl_cm_rep_ack_delay_set(&bed.last.mad.rep, rows[i].delay);
        give(&bed, A, &bed.last);
        assert_int_equal(fl_cm_ack_timeout(a), rows[i].sum);
        bed_fini(&bed);
    }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(three_messages), cmocka_unit_test(req_lost),
                       cmocka_unit_test(rep_lost), cmocka_unit_test(rtu_lost),
                       cmocka_unit_test(data_before_rtu), cmocka_unit_test(late_messages),
                       cmocka_unit_test(nobody_answers), cmocka_unit_test(rep_not_answered),
                       cmocka_unit_test(given_up_meanwhile), cmocka_unit_test(slow_program_that_was_asked),
                       cmocka_unit_test(slow_program_that_asked), cmocka_unit_test(to_oneself),
                       cmocka_unit_test(odd_time_codes), cmocka_unit_test(ack_timeout_of_the_active_side));
}
