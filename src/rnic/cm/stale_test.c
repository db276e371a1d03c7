/* SPDX-License-Identifier: Apache-2.0 */
/* Connections that one side has forgotten. */
#include "rnic/cm/test_bed.h"

static void same_id_for_another_connect(void **state)
{
    struct bed bed;
    bed_init(&bed);
    begin(&bed);
    move(&bed, A, FL_CM_REQ);
    expect_event(&bed, B, FL_CM_CONNECT_REQUEST);
    bed.last.mad.req.psn = be24_of(1);
    give(&bed, B, &bed.last);
    expect_no_event(&bed);
    move(&bed, B, FL_CM_REJ);
    assert_int_equal(be16_get(bed.last.mad.rej.reason), FL_CM_REJ_DUPLICATE_ID);
    bed_fini(&bed);
}

/* A second engine at the address of the first, which has forgotten everything but kept its queue pair number
 */
static void restart(struct bed *bed)
{
    fl_cm_destroy(bed->cm[A]);
    struct fl_cm_config config = {.guid = 0xa, .seed = {99, bed->now}};
    assert_int_equal(fl_cm_create(&config, &bed->cm[A]), 0);
}

static void stale_connection(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    establish(&bed, conn);
    restart(&bed);
    begin(&bed);
    move(&bed, A, FL_CM_REQ);
    move(&bed, B, FL_CM_REJ);
    assert_int_equal(expect_event(&bed, A, FL_CM_REJECTED).reason, FL_CM_REJ_STALE);
    move(&bed, B, FL_CM_DREQ);
    move(&bed, A, FL_CM_DREP); /* it knows nothing of it, and that is agreed */
    assert_ptr_equal(expect_event(&bed, B, FL_CM_DISCONNECTED).conn, conn[B]);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_stale, 1);
    establish(&bed, conn); /* the old one, in time wait, is in nobody's way */
    bed_fini(&bed);
}

/* Short programs of a host without others: each begins with queue pair numbers of its own choice, one day
 * with those of the last. */
static void queue_pair_of_one_in_time_wait(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2], *old;
    bed_init(&bed);
    establish(&bed, conn);
    old = conn[B];
    assert_int_equal(fl_cm_disconnect(bed.cm[A], conn[A], NULL, 0, bed.now), 0);
    move(&bed, A, FL_CM_DREQ);
    move(&bed, B, FL_CM_DREP);
    expect_event(&bed, A, FL_CM_DISCONNECTED);
    expect_event(&bed, B, FL_CM_DISCONNECTED);
    restart(&bed);
    establish(&bed, conn);
    wait_for(&bed, B);
    assert_ptr_equal(expect_event(&bed, B, FL_CM_TIMEWAIT_EXIT).conn, old);
    expect_no_event(&bed);
    expect_silence(&bed);
    bed_fini(&bed);
}

/* The peer died, does not hear that it is over, and comes back. */
static void queue_pair_of_one_that_ends(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2], *old;
    bed_init(&bed);
    establish(&bed, conn);
    old = conn[B];
    assert_int_equal(fl_cm_disconnect(bed.cm[B], conn[B], NULL, 0, bed.now), 0);
    lose(&bed, B, FL_CM_DREQ);
    restart(&bed);
    conn[A] = begin(&bed);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_event event = expect_event(&bed, B, FL_CM_DISCONNECTED);
    assert_ptr_equal(event.conn, old);
    assert_false(event.timed_out);
    assert_ptr_not_equal(expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn, old);
    expect_silence(&bed);
    bed_fini(&bed);
}

/* What was not answered yet gives way at once. */
static void stale_request(void **state)
{
    struct bed bed;
    bed_init(&bed);
    begin(&bed);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_conn *old = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    restart(&bed);
    begin(&bed);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_event event = expect_event(&bed, B, FL_CM_REJECTED);
    assert_ptr_equal(event.conn, old);
    assert_int_equal(event.reason, FL_CM_REJ_STALE);
    assert_ptr_not_equal(expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn, old);
    move(&bed, B, FL_CM_REJ); /* of the old one, should anybody still wait for it */
    assert_int_equal(be16_get(bed.last.mad.rej.reason), FL_CM_REJ_STALE);
    expect_no_event(&bed);
    expect_silence(&bed);
    bed_fini(&bed);
}

static void stale_half_open(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    begin_both(&bed, conn);
    lose(&bed, B, FL_CM_REP);
    restart(&bed);
    begin(&bed);
    move(&bed, A, FL_CM_REQ);
    move(&bed, B, FL_CM_REJ);
    assert_int_equal(expect_event(&bed, A, FL_CM_REJECTED).reason, FL_CM_REJ_STALE);
    assert_int_equal(expect_event(&bed, B, FL_CM_REJECTED).reason, FL_CM_REJ_STALE);
    bed_fini(&bed);
}

/* The passive side forgot, and uses a queue pair that the active side believes to be connected to. */
static void stale_reply(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2], *old;
    bed_init(&bed);
    establish(&bed, conn);
    old = conn[A];
    fl_cm_destroy(bed.cm[B]);
    bed.cm[B] = new_engine(0xb, 0);
    fl_cm_listen(bed.cm[B], SERVICE, NULL, 8, NULL, &bed.listener);
    begin_both(&bed, conn);
    move(&bed, B, FL_CM_REP);
    struct fl_cm_event event = expect_event(&bed, A, FL_CM_REJECTED);
    assert_ptr_equal(event.conn, conn[A]);
    assert_int_equal(event.reason, FL_CM_REJ_STALE);
    move(&bed, A, FL_CM_REJ);
    assert_int_equal(expect_event(&bed, B, FL_CM_REJECTED).reason, FL_CM_REJ_STALE);
    move(&bed, A, FL_CM_DREQ);
    move(&bed, B, FL_CM_DREP);
    assert_ptr_equal(expect_event(&bed, A, FL_CM_DISCONNECTED).conn, old);
    bed_fini(&bed);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(same_id_for_another_connect), cmocka_unit_test(stale_connection),
                       cmocka_unit_test(queue_pair_of_one_in_time_wait),
                       cmocka_unit_test(queue_pair_of_one_that_ends), cmocka_unit_test(stale_request),
                       cmocka_unit_test(stale_half_open), cmocka_unit_test(stale_reply));
}
