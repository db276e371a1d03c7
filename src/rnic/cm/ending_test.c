/* SPDX-License-Identifier: Apache-2.0 */
/* How connections end: rejected, disconnected, destroyed at any time. */
#include "rnic/cm/test_bed.h"

#include <errno.h>

/* After their time nothing is left of what nobody owns. */
static void expect_nothing_left(struct bed *bed)
{
    struct fl_cm_tx tx;
    for (int i = A; i <= B; i++) {
        for (int n = 0; fl_cm_nr_conns(bed->cm[i]) && n < 100; n++) {
            uint64_t deadline = fl_cm_deadline(bed->cm[i]);
            assert_int_not_equal(deadline, FL_CM_NEVER);
            bed->now = FL_MAX(bed->now, deadline);
            fl_cm_tick(bed->cm[i], bed->now);
            while (take(bed, i, &tx))
                ;
        }
        assert_int_equal(fl_cm_nr_conns(bed->cm[i]), 0);
    }
    expect_no_event(bed);
}

static void rejected(void **state)
{
    struct bed bed;
    bed_init(&bed);
    struct fl_cm_conn *a = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_tx req = bed.last;
    struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    assert_int_equal(fl_cm_reject(bed.cm[B], b, FL_CM_REJ_CONSUMER, "\x01\x02", 2, "not today", 9, bed.now),
                     0);
    assert_int_equal(fl_cm_reject(bed.cm[B], b, FL_CM_REJ_CONSUMER, NULL, 0, NULL, 0, bed.now), -ENOTCONN);
    move(&bed, B, FL_CM_REJ);
    assert_int_equal(be32_get(bed.last.mad.rej.local_id), 0); /* it never had one */
    struct fl_cm_event event = expect_event(&bed, A, FL_CM_REJECTED);
    assert_ptr_equal(event.conn, a);
    assert_int_equal(event.reason, FL_CM_REJ_CONSUMER);
    assert_int_equal(event.private_len, 148);
    assert_memory_equal(event.private_data, "not today", 10);
    assert_int_equal(event.ari_len, 2);
    assert_memory_equal(event.ari, "\x01\x02", 2);
    /* The REQ comes again: no news for the program, the same answer; also when nobody owns it any more. */
    give(&bed, B, &req);
    expect_no_event(&bed);
    lose(&bed, B, FL_CM_REJ);
    fl_cm_conn_destroy(bed.cm[B], b, bed.now);
    give(&bed, B, &req);
    expect_no_event(&bed);
    move(&bed, B, FL_CM_REJ);
    assert_memory_equal(bed.last.mad.rej.private_data, "not today", 10);
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    expect_nothing_left(&bed);
    bed_fini(&bed);
}

static void rejected_by_the_one_who_asked(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    begin_both(&bed, conn);
    move(&bed, B, FL_CM_REP);
    struct fl_cm_tx rep = bed.last;
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    assert_int_equal(fl_cm_reject(bed.cm[A], conn[A], FL_CM_REJ_CONSUMER, NULL, 0, "no", 2, bed.now), 0);
    lose(&bed, A, FL_CM_REJ);
    give(&bed, A, &rep);
    move(&bed, A, FL_CM_REJ);
    assert_int_equal(fl_cm_rej_about(&bed.last.mad.rej), FL_CM_ABOUT_REP);
    struct fl_cm_event event = expect_event(&bed, B, FL_CM_REJECTED);
    assert_int_equal(event.reason, FL_CM_REJ_CONSUMER);
    assert_memory_equal(event.private_data, "no", 3);
    for (int i = A; i <= B; i++)
        fl_cm_conn_destroy(bed.cm[i], conn[i], bed.now);
    expect_nothing_left(&bed);
    bed_fini(&bed);
}

/* Answers kept for repeats are few, so that nobody fills the table with requests to be rejected. */
static void memory_of_rejects_is_bounded(void **state)
{
    struct bed bed;
    bed_init(&bed);
    struct fl_cm_tx first = {0};
    for (int i = 0; i < 1100; i++) {
        struct fl_cm_connect args = connect_args(&bed);
        struct fl_cm_conn *a;
        args.terms.qpn = 100 + (uint32_t)i;
        fl_cm_connect(bed.cm[A], &args, bed.now, &a);
        move(&bed, A, FL_CM_REQ);
        if (!i)
            first = bed.last;
        fl_cm_conn_destroy(bed.cm[B], expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn, bed.now);
        move(&bed, B, FL_CM_REJ);
        expect_event(&bed, A, FL_CM_REJECTED);
        fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    }
    assert_int_equal(fl_cm_nr_conns(bed.cm[B]), 1024);
    give(&bed, B, &first); /* only its mark is left: not asked once more */
    expect_no_event(&bed);
    lose(&bed, B, FL_CM_REJ);
    expect_nothing_left(&bed);
    bed_fini(&bed);
}

/* One that is pushed out of that memory with its REJ not sent yet is sent all the same. */
static void pushed_out_before_it_was_sent(void **state)
{
    struct bed bed;
    struct fl_cm_tx tx;
    bed_init(&bed);
    for (int i = 0; i < 1030; i++) {
        struct fl_cm_connect args = connect_args(&bed);
        struct fl_cm_conn *a;
        args.terms.qpn = 100 + (uint32_t)i;
        fl_cm_connect(bed.cm[A], &args, bed.now, &a);
        move(&bed, A, FL_CM_REQ);
        fl_cm_conn_destroy(bed.cm[B], expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn, bed.now);
    }
    for (int i = 0; i < 1030; i++)
        expect_tx(&bed, B, &tx, FL_CM_REJ);
    assert_int_equal(fl_cm_nr_conns(bed.cm[B]), 1024);
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
        assert_int_equal(fl_cm_disconnect(bed.cm[first], conn[first], NULL, 0, bed.now), 0);
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
            assert_int_equal(fl_cm_disconnect(bed.cm[i], conn[i], NULL, 0, bed.now), 0);
            fl_cm_conn_destroy(bed.cm[i], conn[i], bed.now);
        }
        expect_silence(&bed);
        expect_nothing_left(&bed);
        bed_fini(&bed);
    }
}

static void dreq_lost(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    establish(&bed, conn);
    fl_cm_disconnect(bed.cm[B], conn[B], NULL, 0, bed.now);
    lose(&bed, B, FL_CM_DREQ);
    wait_for(&bed, B);
    move(&bed, B, FL_CM_DREQ);
    struct fl_cm_tx dreq = bed.last;
    expect_event(&bed, A, FL_CM_DISCONNECTED);
    lose(&bed, A, FL_CM_DREP);
    wait_for(&bed, A); /* time wait is over before the DREQ comes again */
    expect_event(&bed, A, FL_CM_TIMEWAIT_EXIT);
    give(&bed, A, &dreq);
    expect_no_event(&bed);
    move(&bed, A, FL_CM_DREP);
    expect_event(&bed, B, FL_CM_DISCONNECTED);
    give(&bed, B, &bed.last);
    expect_no_event(&bed);
    expect_silence(&bed);
    bed_fini(&bed);
}

static void dreq_not_answered(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    establish(&bed, conn);
    fl_cm_disconnect(bed.cm[A], conn[A], NULL, 0, bed.now);
    for (int i = 0; i < 16; i++) {
        expect_no_event(&bed);
        lose(&bed, A, FL_CM_DREQ);
        wait_for(&bed, A);
    }
    struct fl_cm_event event = expect_event(&bed, A, FL_CM_DISCONNECTED);
    assert_true(event.timed_out);
    assert_null(event.private_data);
    wait_for(&bed, A);
    expect_event(&bed, A, FL_CM_TIMEWAIT_EXIT);
    expect_silence(&bed);
    bed_fini(&bed);
}

static void both_disconnect(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    struct fl_cm_tx dreq[2];
    bed_init(&bed);
    establish(&bed, conn);
    for (int i = A; i <= B; i++) {
        fl_cm_disconnect(bed.cm[i], conn[i], NULL, 0, bed.now);
        expect_tx(&bed, i, &dreq[i], FL_CM_DREQ);
    }
    for (int i = A; i <= B; i++) {
        give(&bed, !i, &dreq[i]);
        expect_event(&bed, !i, FL_CM_DISCONNECTED);
    }
    move(&bed, A, FL_CM_DREP);
    move(&bed, B, FL_CM_DREP);
    expect_no_event(&bed);
    expect_silence(&bed);
    for (int i = A; i <= B; i++)
        fl_cm_conn_destroy(bed.cm[i], conn[i], bed.now);
    expect_nothing_left(&bed);
    bed_fini(&bed);
}

/* Ready, and away again, before the first word went out. */
static void disconnect_at_once(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    begin_both(&bed, conn);
    move(&bed, B, FL_CM_REP);
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    fl_cm_ready(bed.cm[A], conn[A], NULL, 0, bed.now);
    fl_cm_disconnect(bed.cm[A], conn[A], NULL, 0, bed.now);
    move(&bed, A, FL_CM_RTU);
    move(&bed, A, FL_CM_DREQ);
    expect_event(&bed, B, FL_CM_ESTABLISHED); /* both wait, in order */
    expect_event(&bed, B, FL_CM_DISCONNECTED);
    bed_fini(&bed);
}

static void dreq_before_rtu(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    begin_both(&bed, conn);
    move(&bed, B, FL_CM_REP);
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    fl_cm_ready(bed.cm[A], conn[A], NULL, 0, bed.now);
    lose(&bed, A, FL_CM_RTU);
    fl_cm_disconnect(bed.cm[A], conn[A], "bye", 3, bed.now);
    move(&bed, A, FL_CM_DREQ);
    assert_null(expect_event(&bed, B, FL_CM_ESTABLISHED).private_data);
    assert_memory_equal(expect_event(&bed, B, FL_CM_DISCONNECTED).private_data, "bye", 4);
    move(&bed, B, FL_CM_DREP);
    expect_event(&bed, A, FL_CM_DISCONNECTED);
    expect_silence(&bed);
    bed_fini(&bed);
}

/* The passive side wants no more before the active one is ready. */
static void disconnect_before_rtu(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    begin_both(&bed, conn);
    move(&bed, B, FL_CM_REP);
    assert_int_equal(fl_cm_disconnect(bed.cm[B], conn[B], NULL, 0, bed.now), 0);
    move(&bed, B, FL_CM_DREQ); /* instead of the response, of which nobody has asked yet */
    struct fl_cm_event event = expect_event(&bed, A, FL_CM_REJECTED);
    assert_int_equal(event.reason, FL_CM_REJ_CONSUMER);
    expect_no_event(&bed);
    assert_int_equal(fl_cm_ready(bed.cm[A], conn[A], NULL, 0, bed.now), -ENOTCONN);
    move(&bed, A, FL_CM_DREP);
    expect_event(&bed, B, FL_CM_DISCONNECTED);
    for (int i = A; i <= B; i++)
        fl_cm_conn_destroy(bed.cm[i], conn[i], bed.now);
    expect_nothing_left(&bed);
    bed_fini(&bed);
}

/* The same when the REP was lost: the active side still asks. Its program gets one answer, the passive one no
 * second request. */
static void disconnect_before_rep_came(void **state)
{
    for (int late = 0; late < 2; late++) {
        struct bed bed;
        struct fl_cm_conn *conn[2];
        bed_init(&bed);
        begin_both(&bed, conn);
        lose(&bed, B, FL_CM_REP);
        fl_cm_disconnect(bed.cm[B], conn[B], "bye", 3, bed.now);
        if (!late) {
            move(&bed, B, FL_CM_DREQ);
            struct fl_cm_event event = expect_event(&bed, A, FL_CM_REJECTED);
            assert_int_equal(event.reason, FL_CM_REJ_CONSUMER);
            assert_memory_equal(event.private_data, "bye", 4);
            move(&bed, A, FL_CM_DREP);
            expect_event(&bed, B, FL_CM_DISCONNECTED);
        } else { /* a peer that answers any DREQ, and asks on */
            lose(&bed, B, FL_CM_DREQ);
            wait_for(&bed, A);
            move(&bed, A, FL_CM_REQ);
            lose(&bed, B, FL_CM_REJ);
            struct fl_cm_tx drep = {.local = bed.addr[A], .remote = bed.addr[B]}, dreq;
            wait_for(&bed, B);
            expect_tx(&bed, B, &dreq, FL_CM_DREQ);
            fl_cm_init(&drep.mad, FL_CM_DREP, 1);
            drep.mad.drep.local_id = dreq.mad.dreq.remote_id;
            drep.mad.drep.remote_id = dreq.mad.dreq.local_id;
            give(&bed, B, &drep);
            expect_event(&bed, B, FL_CM_DISCONNECTED);
            for (int i = 0; i < 2; i++) {
                wait_for(&bed, A);
                expect_tx(&bed, A, &bed.last, FL_CM_REQ);
            }
            fl_cm_tick(bed.cm[B], bed.now); /* the time of its queue pair number would be over */
            give(&bed, B, &bed.last);
            move(&bed, B, FL_CM_REJ);
            assert_int_equal(expect_event(&bed, A, FL_CM_REJECTED).reason, FL_CM_REJ_CONSUMER);
            expect_event(&bed, B, FL_CM_TIMEWAIT_EXIT);
        }
        expect_no_event(&bed);
        expect_silence(&bed);
        for (int i = A; i <= B; i++)
            fl_cm_conn_destroy(bed.cm[i], conn[i], bed.now);
        expect_nothing_left(&bed);
        bed_fini(&bed);
    }
}

static void dreq_of_strangers(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    establish(&bed, conn);
    fl_cm_disconnect(bed.cm[A], conn[A], NULL, 0, bed.now);
    struct fl_cm_tx dreq, tx;
    expect_tx(&bed, A, &dreq, FL_CM_DREQ);
    tx = dreq;
    tx.mad.dreq.remote_qpn = be24_of(0x22); /* not this connection's */
    give(&bed, B, &tx);
    expect_no_event(&bed);
    tx = dreq;
    tx.mad.dreq.local_id = be32_of(1);
    give(&bed, B, &tx);
    lose(&bed, B, FL_CM_DREP);
    expect_no_event(&bed);
    tx = dreq;
    tx.mad.dreq.remote_id = be32_of(1);
    give(&bed, B, &tx);
    lose(&bed, B, FL_CM_DREP);
    expect_no_event(&bed);
    expect_silence(&bed);
    give(&bed, B, &dreq);
    expect_event(&bed, B, FL_CM_DISCONNECTED);
    bed_fini(&bed);
}

/* A REJ in each state that it can meet, told as what it means there. */
static void rej_at_any_time(void **state)
{
    for (int step = 0; step < 5; step++) {
        struct bed bed;
        struct fl_cm_conn *conn[2];
        struct fl_cm_tx rej = {0};
        bed_init(&bed);
        begin_both(&bed, conn);
        expect_tx(&bed, B, &bed.last, FL_CM_REP);
        fl_cm_init(&rej.mad, FL_CM_REJ, 1);
        rej.mad.rej.reason = be16_of(FL_CM_REJ_COMM_ID);
        rej.mad.rej.local_id = bed.last.mad.rep.local_id;
        rej.mad.rej.remote_id = bed.last.mad.rep.remote_id;
        rej.local = bed.addr[B];
        rej.remote = bed.addr[A];
        if (step >= 1) {
            give(&bed, A, &bed.last);
            expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
        }
        if (step >= 2) {
            fl_cm_ready(bed.cm[A], conn[A], NULL, 0, bed.now);
            move(&bed, A, FL_CM_RTU);
            expect_event(&bed, B, FL_CM_ESTABLISHED);
        }
        if (step >= 3) {
            fl_cm_disconnect(bed.cm[A], conn[A], NULL, 0, bed.now);
            lose(&bed, A, FL_CM_DREQ);
        }
        struct fl_cm_tx wrong = rej;
        wrong.mad.rej.local_id = be32_of(1);
        if (step >= 1) {
            give(&bed, A, &wrong);
            expect_no_event(&bed);
        }
        give(&bed, A, &rej);
        struct fl_cm_event event = expect_event(&bed, A, step < 2 ? FL_CM_REJECTED : FL_CM_DISCONNECTED);
        assert_int_equal(event.reason, FL_CM_REJ_COMM_ID);
        give(&bed, A, &rej);
        expect_no_event(&bed);
        expect_silence(&bed);
        bed_fini(&bed);
    }
}

/* Destroyed at every step, on either side; the other side learns it, and nothing is left. */
static void destroyed_at_any_time(void **state)
{
    enum { REQ_SENT, REQ_RCVD, REP_SENT, REP_RCVD, READY, ESTABLISHED, DREQ_SENT, ENDED, NR_STEPS };
    for (int step = 0; step < NR_STEPS; step++) {
        for (int who = A; who <= B; who++) {
            struct bed bed;
            struct fl_cm_terms terms = accept_terms();
            struct fl_cm_conn *conn[2] = {0};
            bed_init(&bed);
            conn[A] = begin(&bed);
            if (step >= REQ_RCVD) {
                move(&bed, A, FL_CM_REQ);
                conn[B] = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
            }
            if (step >= REP_SENT)
                fl_cm_accept(bed.cm[B], conn[B], &terms, NULL, 0, bed.now);
            if (step >= REP_RCVD)
                move(&bed, B, FL_CM_REP); /* its event waits, and never comes if A is destroyed */
            if (step >= READY) {
                expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
                fl_cm_ready(bed.cm[A], conn[A], NULL, 0, bed.now);
            }
            if (step >= ESTABLISHED)
                move(&bed, A, FL_CM_RTU);
            if (step >= DREQ_SENT)
                fl_cm_disconnect(bed.cm[A], conn[A], NULL, 0, bed.now);
            if (step >= ENDED) {
                move(&bed, A, FL_CM_DREQ);
                move(&bed, B, FL_CM_DREP);
            }
            if (!conn[who]) {
                bed_fini(&bed);
                continue;
            }
            fl_cm_conn_destroy(bed.cm[who], conn[who], bed.now);
            struct fl_cm_tx tx;
            struct fl_cm_event event;
            bool other_ended = false;
            for (int n = 0; n < 40; n++) {
                assert_false(fl_cm_next_event(bed.cm[who], &event) && event.conn == conn[who]);
                for (int i = A; i <= B; i++)
                    while (take(&bed, i, &tx))
                        give(&bed, !i, &tx);
                while (fl_cm_next_event(bed.cm[!who], &event)) {
                    other_ended |= event.kind == FL_CM_REJECTED || event.kind == FL_CM_DISCONNECTED;
                    if (event.kind == FL_CM_CONNECT_REQUEST)
                        conn[!who] = event.conn;
                    else
                        assert_ptr_equal(event.conn, conn[!who]);
                }
            }
            assert_true(other_ended || step == REQ_SENT);
            if (conn[!who])
                fl_cm_conn_destroy(bed.cm[!who], conn[!who], bed.now);
            expect_nothing_left(&bed);
            bed_fini(&bed);
        }
    }
}

/* A process that ends says so of each connection, whatever its state. */
static void leaving_ends_all(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    struct fl_cm_connect args;
    struct fl_cm_tx tx;
    bed_init(&bed);
    establish(&bed, conn);
    args = connect_args(&bed);
    args.terms.qpn++;
    assert_int_equal(fl_cm_connect(bed.cm[A], &args, bed.now, &conn[A]), 0);
    lose(&bed, A, FL_CM_REQ);
    fl_cm_leave(bed.cm[A], bed.now);
    expect_tx(&bed, A, &tx, FL_CM_DREQ);
    expect_tx(&bed, A, &tx, FL_CM_REJ);
    expect_silence(&bed);
    fl_cm_leave(bed.cm[A], bed.now); /* nobody owns any of them now */
    expect_silence(&bed);
    bed_fini(&bed);
}

/* A peer that is there takes it for a repeat. */
static void knock(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    begin_both(&bed, conn);
    assert_int_equal(fl_cm_knock(bed.cm[A], conn[A]), -ENOTCONN);
    assert_int_equal(fl_cm_knock(bed.cm[B], conn[B]), -ENOTCONN);
    assert_int_equal(fl_cm_lost(bed.cm[B], conn[B], bed.now), -ENOTCONN);
    fl_cm_destroy(bed.cm[A]);
    fl_cm_destroy(bed.cm[B]);
    bed_init(&bed);
    establish(&bed, conn);
    assert_int_equal(fl_cm_knock(bed.cm[A], conn[A]), 0);
    move(&bed, A, FL_CM_RTU);
    assert_int_equal(fl_cm_knock(bed.cm[B], conn[B]), 0);
    move(&bed, B, FL_CM_REP);
    move(&bed, A, FL_CM_RTU);
    expect_silence(&bed);
    expect_no_event(&bed);
    bed_fini(&bed);
}

/* One that was started again says that it knows nothing. */
static void knock_at_a_stranger(void **state)
{
    for (int side = A; side <= B; side++) {
        struct bed bed;
        struct fl_cm_conn *conn[2];
        bed_init(&bed);
        establish(&bed, conn);
        fl_cm_destroy(bed.cm[!side]);
        bed.cm[!side] = new_engine(0xc, 0);
        assert_int_equal(fl_cm_knock(bed.cm[side], conn[side]), 0);
        move(&bed, side, side == A ? FL_CM_RTU : FL_CM_REP);
        move(&bed, !side, FL_CM_REJ);
        assert_int_equal(be16_get(bed.last.mad.rej.reason), FL_CM_REJ_COMM_ID);
        assert_ptr_equal(expect_event(&bed, side, FL_CM_DISCONNECTED).conn, conn[side]);
        expect_silence(&bed);
        bed_fini(&bed);
    }
}

/* Known to be gone: it is over without a word, and ends as all do. */
static void lost(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    establish(&bed, conn);
    assert_int_equal(fl_cm_lost(bed.cm[A], conn[A], bed.now), 0);
    assert_int_equal(fl_cm_lost(bed.cm[A], conn[A], bed.now), -ENOTCONN);
    struct fl_cm_event event = expect_event(&bed, A, FL_CM_DISCONNECTED);
    assert_ptr_equal(event.conn, conn[A]);
    assert_true(event.timed_out);
    expect_silence(&bed);
    assert_int_equal(fl_cm_disconnect(bed.cm[A], conn[A], NULL, 0, bed.now), 0);
    expect_silence(&bed);
    wait_for(&bed, A);
    expect_event(&bed, A, FL_CM_TIMEWAIT_EXIT);
    bed_fini(&bed);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(rejected), cmocka_unit_test(rejected_by_the_one_who_asked),
                       cmocka_unit_test(memory_of_rejects_is_bounded),
                       cmocka_unit_test(pushed_out_before_it_was_sent),
                       cmocka_unit_test(disconnect_and_time_wait), cmocka_unit_test(dreq_lost),
                       cmocka_unit_test(dreq_not_answered), cmocka_unit_test(both_disconnect),
                       cmocka_unit_test(disconnect_at_once), cmocka_unit_test(dreq_before_rtu),
                       cmocka_unit_test(disconnect_before_rtu), cmocka_unit_test(disconnect_before_rep_came),
                       cmocka_unit_test(dreq_of_strangers), cmocka_unit_test(rej_at_any_time),
                       cmocka_unit_test(destroyed_at_any_time), cmocka_unit_test(leaving_ends_all),
                       cmocka_unit_test(knock), cmocka_unit_test(knock_at_a_stranger), cmocka_unit_test(lost));
}
