/* SPDX-License-Identifier: Apache-2.0 */
/* Who listens, and how much waits. */
#include "rnic/cm/test_bed.h"

#include <errno.h>

static void listeners(void **state)
{
    struct bed bed;
    struct fl_cm_listener *at_addr, *other;
    struct in6_addr elsewhere = v4(99);
    bed_init(&bed);
    assert_int_equal(fl_cm_listen(bed.cm[B], SERVICE, NULL, 8, NULL, &other), -EADDRINUSE);
    assert_int_equal(fl_cm_listen(bed.cm[B], SERVICE, &bed.addr[B], 8, NULL, &at_addr), 0);
    assert_int_equal(fl_cm_listen(bed.cm[B], SERVICE, &bed.addr[B], 8, NULL, &other), -EADDRINUSE);
    assert_int_equal(fl_cm_listen(bed.cm[B], SERVICE, &elsewhere, 8, NULL, &other), 0);
    assert_int_equal(fl_cm_listen(bed.cm[B], SERVICE + 1, &elsewhere, 0, NULL, &other), -EINVAL);
    begin(&bed);
    move(&bed, A, FL_CM_REQ);
    assert_ptr_equal(expect_event(&bed, B, FL_CM_CONNECT_REQUEST).listener, at_addr);
    fl_cm_listener_destroy(bed.cm[B], at_addr, bed.now);
    struct fl_cm_connect args = connect_args(&bed);
    struct fl_cm_conn *a;
    args.terms.qpn++;
    fl_cm_connect(bed.cm[A], &args, bed.now, &a);
    move(&bed, A, FL_CM_REQ);
    assert_ptr_equal(expect_event(&bed, B, FL_CM_CONNECT_REQUEST).listener, bed.listener);
    fl_cm_listener_destroy(bed.cm[B], bed.listener, bed.now);
    args.terms.qpn++;
    fl_cm_connect(bed.cm[A], &args, bed.now, &a);
    move(&bed, A, FL_CM_REQ);
    expect_silence(&bed); /* it may come back */
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_closed, 1);
    bed.now += 3 * SECOND;
    fl_cm_tick(bed.cm[A], bed.now);
    move(&bed, A, FL_CM_REQ);
    move(&bed, B, FL_CM_REJ);
    assert_int_equal(expect_event(&bed, A, FL_CM_REJECTED).reason, FL_CM_REJ_SERVICE_ID);
    bed_fini(&bed);
}

/* perftest -R -c UD: what it needs for its datagrams goes by a connection to the same port before. */
static void datagrams_after_a_listener(void **state)
{
    struct bed bed;
    bed_init(&bed);
    struct fl_cm_resolve args = {.service_id = fl_cm_service_id(FL_CM_PS_UDP, 7471),
                                 .src_port = 40001,
                                 .route = connect_args(&bed).route};
    struct fl_cm_conn *a;
    fl_cm_listener_destroy(bed.cm[B], bed.listener, bed.now);
    fl_cm_resolve(bed.cm[A], &args, bed.now, &a);
    move(&bed, A, FL_CM_SIDR_REQ);
    expect_silence(&bed);
    args.service_id++;
    fl_cm_resolve(bed.cm[A], &args, bed.now, &a);
    move(&bed, A, FL_CM_SIDR_REQ);
    move(&bed, B, FL_CM_SIDR_REP);
    assert_int_equal(expect_event(&bed, A, FL_CM_SIDR_RESPONSE).sidr_status, FL_CM_SIDR_UNSUPPORTED);
    bed_fini(&bed);
}

/* 0.0.0.0, :: for IPv6 alone, and both, side by side */
static void listeners_of_a_family(void **state)
{
    struct bed bed;
    struct fl_cm_listener *all4, *all6, *other;
    struct in6_addr any4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}}, here = {.s6_addr = {0xfd, [15] = 1}};
    struct fl_cm_connect args;
    struct fl_cm_conn *a;
    bed_init(&bed);
    assert_int_equal(fl_cm_listen(bed.cm[B], SERVICE, &any4, 8, NULL, &all4), 0);
    assert_int_equal(fl_cm_listen(bed.cm[B], SERVICE, &in6addr_any, 8, NULL, &all6), 0);
    assert_int_equal(fl_cm_listen(bed.cm[B], SERVICE, &any4, 8, NULL, &other), -EADDRINUSE);
    begin(&bed);
    move(&bed, A, FL_CM_REQ);
    assert_ptr_equal(expect_event(&bed, B, FL_CM_CONNECT_REQUEST).listener, all4);
    fl_cm_listener_destroy(bed.cm[B], all4, bed.now);
    args = connect_args(&bed);
    args.terms.qpn++;
    fl_cm_connect(bed.cm[A], &args, bed.now, &a);
    move(&bed, A, FL_CM_REQ);
    assert_ptr_equal(expect_event(&bed, B, FL_CM_CONNECT_REQUEST).listener, bed.listener);
    args.route.local = args.route.remote = here;
    args.route.local.s6_addr[15] = 2;
    args.terms.qpn++;
    fl_cm_connect(bed.cm[A], &args, bed.now, &a);
    move(&bed, A, FL_CM_REQ);
    assert_ptr_equal(expect_event(&bed, B, FL_CM_CONNECT_REQUEST).listener, all6);
    bed_fini(&bed);
}

static void listener_gone(void **state)
{
    struct bed bed;
    struct fl_cm_terms terms = accept_terms();
    bed_init(&bed);
    begin(&bed);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_conn *known = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    struct fl_cm_connect args = connect_args(&bed);
    struct fl_cm_conn *a;
    args.terms.qpn++;
    fl_cm_connect(bed.cm[A], &args, bed.now, &a);
    move(&bed, A, FL_CM_REQ);
    fl_cm_listener_destroy(bed.cm[B], bed.listener, bed.now);
    expect_no_event(&bed);
    move(&bed, B, FL_CM_REJ); /* the one that nobody heard of */
    assert_ptr_equal(expect_event(&bed, A, FL_CM_REJECTED).conn, a);
    assert_int_equal(fl_cm_accept(bed.cm[B], known, &terms, NULL, 0, bed.now), 0);
    move(&bed, B, FL_CM_REP);
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    bed_fini(&bed);
}

static void too_many_connections(void **state)
{
    struct bed bed;
    struct fl_cm_listener *listener;
    struct fl_cm_conn *a[3];
    bed_init(&bed);
    fl_cm_destroy(bed.cm[B]);
    bed.cm[B] = new_engine(0xb, 2);
    fl_cm_listen(bed.cm[B], SERVICE, NULL, 8, NULL, &listener);
    struct fl_cm_connect args = connect_args(&bed);
    for (int i = 0; i < 3; i++) {
        args.terms.qpn++;
        fl_cm_connect(bed.cm[A], &args, bed.now, &a[i]);
        move(&bed, A, FL_CM_REQ);
    }
    struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    move(&bed, B, FL_CM_REJ);
    struct fl_cm_event event = expect_event(&bed, A, FL_CM_REJECTED);
    assert_ptr_equal(event.conn, a[2]);
    assert_int_equal(event.reason, FL_CM_REJ_NO_RESOURCES);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_no_resources, 1);
    assert_int_equal(fl_cm_connect(bed.cm[B], &args, bed.now, &b), -ENOSPC);
    bed_fini(&bed);
}

static void backlog_full(void **state)
{
    struct bed bed;
    struct fl_cm_listener *listener;
    struct fl_cm_conn *a[2];
    bed_init(&bed);
    fl_cm_listener_destroy(bed.cm[B], bed.listener, bed.now);
    fl_cm_listen(bed.cm[B], SERVICE, NULL, 1, NULL, &listener);
    struct fl_cm_connect args = connect_args(&bed);
    for (int i = 0; i < 2; i++) {
        args.terms.qpn++;
        fl_cm_connect(bed.cm[A], &args, bed.now, &a[i]);
        move(&bed, A, FL_CM_REQ);
    }
    expect_silence(&bed); /* dropped: it will ask again */
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_backlog, 1);
    struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    expect_no_event(&bed);
    assert_int_equal(fl_cm_reject(bed.cm[B], b, FL_CM_REJ_CONSUMER, NULL, 0, NULL, 0, bed.now), 0);
    move(&bed, B, FL_CM_REJ);
    assert_ptr_equal(expect_event(&bed, A, FL_CM_REJECTED).conn, a[0]);
    wait_for(&bed, A);
    move(&bed, A, FL_CM_REQ);
    expect_event(&bed, B, FL_CM_CONNECT_REQUEST);
    bed_fini(&bed);
}

/* A program that takes 1 ms for each request, one after the other, and two that answer at once. */
static uint64_t connect_64(uint32_t backlog)
{
    struct bed bed;
    struct fl_cm_listener *listener;
    struct fl_cm_event event;
    struct fl_cm_conn *asked[64];
    struct fl_cm_tx tx;
    unsigned nr_asked = 0, nr_accepted = 0, nr_up = 0;
    bed_init(&bed);
    fl_cm_listener_destroy(bed.cm[B], bed.listener, bed.now);
    assert_int_equal(fl_cm_listen(bed.cm[B], SERVICE, NULL, backlog, NULL, &listener), 0);
    uint64_t begun_at = bed.now, accept_at = FL_CM_NEVER;
    for (uint32_t i = 0; i < 64; i++) {
        struct fl_cm_connect args = connect_args(&bed);
        struct fl_cm_conn *a;
        args.terms.qpn += i;
        assert_int_equal(fl_cm_connect(bed.cm[A], &args, bed.now, &a), 0);
    }
    for (;;) {
        for (bool moved = true; moved;) {
            moved = false;
            for (int i = A; i <= B; i++) {
                while (take(&bed, i, &tx)) {
                    give(&bed, !i, &tx);
                    moved = true;
                }
            }
            while (fl_cm_next_event(bed.cm[A], &event)) {
                assert_int_equal(event.kind, FL_CM_CONNECT_RESPONSE); /* and never UNREACHABLE or REJECTED */
                assert_int_equal(fl_cm_ready(bed.cm[A], event.conn, NULL, 0, bed.now), 0);
                moved = true;
            }
            while (fl_cm_next_event(bed.cm[B], &event)) {
                if (event.kind == FL_CM_CONNECT_REQUEST)
                    asked[nr_asked++] = event.conn;
                else
                    nr_up++;
            }
        }
        if (nr_up == 64)
            break;
        if (accept_at == FL_CM_NEVER && nr_accepted < nr_asked)
            accept_at = bed.now + MS;
        uint64_t next = FL_MIN(fl_cm_deadline(bed.cm[A]), fl_cm_deadline(bed.cm[B]));
        bed.now = FL_MIN(next, accept_at);
        if (bed.now == accept_at) {
            struct fl_cm_terms terms = accept_terms();
            terms.qpn += nr_accepted;
            assert_int_equal(fl_cm_accept(bed.cm[B], asked[nr_accepted++], &terms, NULL, 0, bed.now), 0);
            accept_at = FL_CM_NEVER;
        } else {
            fl_cm_tick(bed.cm[A], bed.now);
            fl_cm_tick(bed.cm[B], bed.now);
        }
    }
    assert_int_equal(nr_asked, 64);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_backlog != 0, backlog < 64);
    uint64_t took = bed.now - begun_at;
    bed_fini(&bed);
    return took;
}

/* Case V11: 64 queue pairs connect at once */
static void case_V11_backlog_64(void **state)
{
    assert_in_range(connect_64(64), 64 * MS, 65 * MS);
}

static void case_V11_backlog_1(void **state)
{
    assert_in_range(connect_64(1), 64 * MS, 3 * SECOND);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(listeners), cmocka_unit_test(listeners_of_a_family),
                       cmocka_unit_test(datagrams_after_a_listener), cmocka_unit_test(listener_gone),
                       cmocka_unit_test(too_many_connections), cmocka_unit_test(backlog_full),
                       cmocka_unit_test(case_V11_backlog_64), cmocka_unit_test(case_V11_backlog_1));
}
