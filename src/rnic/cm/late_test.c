/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of messages that the network holds back until what they are about is over. */
#include "rnic/cm/test_bed.h"

/* Every message of a connection, from either side */
struct copies {
    struct fl_cm_tx tx[2][3];
};

static void move_and_keep(struct bed *bed, int from, uint16_t attr, struct fl_cm_tx *copy)
{
    move(bed, from, attr);
    *copy = bed->last;
}

/* A connection that is established, disconnected and destroyed. */
static void come_and_go(struct bed *bed, struct copies *copies)
{
    struct fl_cm_terms terms = accept_terms();
    struct fl_cm_conn *a = begin(bed);
    move_and_keep(bed, A, FL_CM_REQ, &copies->tx[A][0]);
    struct fl_cm_conn *b = expect_event(bed, B, FL_CM_CONNECT_REQUEST).conn;
    assert_int_equal(fl_cm_accept(bed->cm[B], b, &terms, "pong", 4, bed->now), 0);
    move_and_keep(bed, B, FL_CM_REP, &copies->tx[B][0]);
    expect_event(bed, A, FL_CM_CONNECT_RESPONSE);
    assert_int_equal(fl_cm_ready(bed->cm[A], a, NULL, 0, bed->now), 0);
    move_and_keep(bed, A, FL_CM_RTU, &copies->tx[A][1]);
    expect_event(bed, B, FL_CM_ESTABLISHED);
    assert_int_equal(fl_cm_disconnect(bed->cm[A], a, NULL, 0, bed->now), 0);
    move_and_keep(bed, A, FL_CM_DREQ, &copies->tx[A][2]);
    move_and_keep(bed, B, FL_CM_DREP, &copies->tx[B][1]);
    fl_cm_conn_destroy(bed->cm[A], a, bed->now);
    fl_cm_conn_destroy(bed->cm[B], b, bed->now);
    expect_no_event(bed);
}

/* Until nothing is left of what is over. */
static void sit_out_time_wait(struct bed *bed, uint32_t left)
{
    for (int i = A; i <= B; i++)
        while (fl_cm_nr_conns(bed->cm[i]) > left)
            wait_for(bed, i);
    assert_int_equal(fl_cm_nr_conns(bed->cm[A]), left);
    assert_int_equal(fl_cm_nr_conns(bed->cm[B]), left);
}

/* Answers may be sent, and are heard; nobody is told of anything. */
static void give_late(struct bed *bed, const struct copies *copies)
{
    for (int from = A; from <= B; from++) {
        for (int i = 0; i < 2 + (from == A); i++) {
            struct fl_cm_tx tx;
            give(bed, !from, &copies->tx[from][i]);
            for (int rounds = 0, any = 1; any; rounds++) {
                assert_in_range(rounds, 0, 3); /* no answers to answers without end */
                any = 0;
                for (int side = A; side <= B; side++)
                    for (; take(bed, side, &tx); any = 1)
                        give(bed, !side, &tx);
            }
            expect_no_event(bed);
        }
    }
}

static void copies_of_one_that_is_gone(void **state)
{
    struct bed bed;
    struct copies copies;
    bed_init(&bed);
    come_and_go(&bed, &copies);
    give_late(&bed, &copies); /* in time wait */
    sit_out_time_wait(&bed, 0);
    give_late(&bed, &copies);
    bed.now += 3 * SECOND;
    give_late(&bed, &copies);
    assert_int_equal(fl_cm_nr_conns(bed.cm[B]), 0);
    bed_fini(&bed);
}

static void still_up(struct bed *bed, struct fl_cm_conn *conn[2])
{
    assert_int_equal(fl_cm_stats(bed->cm[B])->nr_stale, 0);
    for (int i = A; i <= B; i++)
        assert_int_equal(fl_cm_disconnect(bed->cm[i], conn[i], NULL, 0, bed->now), 0);
    move(bed, A, FL_CM_DREQ);
    assert_ptr_equal(expect_event(bed, B, FL_CM_DISCONNECTED).conn, conn[B]);
}

/* The queue pair numbers of both sides have their next connection. */
static void copies_while_the_next_one_is_up(void **state)
{
    struct bed bed;
    struct copies copies;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    come_and_go(&bed, &copies);
    establish(&bed, conn);
    give_late(&bed, &copies); /* the first in time wait */
    sit_out_time_wait(&bed, 1);
    give_late(&bed, &copies);
    still_up(&bed, conn);
    bed_fini(&bed);
}

static void copies_while_the_next_one_is_begun(void **state)
{
    struct bed bed;
    struct copies copies;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    come_and_go(&bed, &copies);
    sit_out_time_wait(&bed, 0);
    begin_both(&bed, conn);
    struct fl_cm_tx rep;
    expect_tx(&bed, B, &rep, FL_CM_REP);
    give_late(&bed, &copies);
    give(&bed, A, &rep);
    assert_ptr_equal(expect_event(&bed, A, FL_CM_CONNECT_RESPONSE).conn, conn[A]);
    give_late(&bed, &copies);
    assert_int_equal(fl_cm_ready(bed.cm[A], conn[A], NULL, 0, bed.now), 0);
    move(&bed, A, FL_CM_RTU);
    assert_ptr_equal(expect_event(&bed, B, FL_CM_ESTABLISHED).conn, conn[B]);
    bed_fini(&bed);
}

/* Nobody listened; the same queue pair asks again with success, and then a copy of the first REQ arrives. */
static void copy_of_a_rejected_request(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    fl_cm_listener_destroy(bed.cm[B], bed.listener, bed.now);
    bed.now += 3 * SECOND;
    conn[A] = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_tx req = bed.last;
    move(&bed, B, FL_CM_REJ);
    assert_int_equal(expect_event(&bed, A, FL_CM_REJECTED).reason, FL_CM_REJ_SERVICE_ID);
    fl_cm_conn_destroy(bed.cm[A], conn[A], bed.now);
    assert_int_equal(fl_cm_listen(bed.cm[B], SERVICE, NULL, 8, NULL, &bed.listener), 0);
    establish(&bed, conn);
    give(&bed, B, &req);
    expect_no_event(&bed);
    move(&bed, B, FL_CM_REJ); /* the same answer: the first may have been lost */
    assert_int_equal(be16_get(bed.last.mad.rej.reason), FL_CM_REJ_SERVICE_ID);
    expect_no_event(&bed);
    expect_silence(&bed);
    still_up(&bed, conn);
    bed_fini(&bed);
}

/* So many were rejected since that the connections themselves are not kept any more. Few of the marks that
 * they leave have given way to others. */
static void copies_of_those_not_kept(void **state)
{
    enum { KEPT = 1024, MORE = 64 };
    static struct fl_cm_tx req[KEPT + MORE];
    struct bed bed;
    struct fl_cm_event event;
    int asked_again = 0;
    bed_init(&bed);
    for (int i = 0; i < KEPT + MORE; i++) {
        struct fl_cm_conn *a = begin(&bed);
        move_and_keep(&bed, A, FL_CM_REQ, &req[i]);
        struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
        assert_int_equal(fl_cm_reject(bed.cm[B], b, FL_CM_REJ_CONSUMER, NULL, 0, NULL, 0, bed.now), 0);
        fl_cm_conn_destroy(bed.cm[B], b, bed.now);
        move(&bed, B, FL_CM_REJ);
        expect_event(&bed, A, FL_CM_REJECTED);
        fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    }
    assert_int_equal(fl_cm_nr_conns(bed.cm[B]), KEPT);
    for (int i = 0; i < MORE; i++) {
        give(&bed, B, &req[i]);
        if (fl_cm_next_event(bed.cm[B], &event)) {
            asked_again++;
            fl_cm_conn_destroy(bed.cm[B], event.conn, bed.now);
        }
        expect_tx(&bed, B, &bed.last, FL_CM_REJ);
        assert_int_equal(be16_get(bed.last.mad.rej.reason), FL_CM_REJ_CONSUMER);
    }
    assert_in_range(asked_again, 0, MORE / 8);
    bed_fini(&bed);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(copies_of_one_that_is_gone), cmocka_unit_test(copies_while_the_next_one_is_up),
        cmocka_unit_test(copies_while_the_next_one_is_begun), cmocka_unit_test(copy_of_a_rejected_request),
        cmocka_unit_test(copies_of_those_not_kept));
}
