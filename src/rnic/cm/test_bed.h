/* SPDX-License-Identifier: Apache-2.0 */
/* Two engines, and MADs moved between them by hand. */
#ifndef FL_RNIC_CM_TEST_BED_H
#define FL_RNIC_CM_TEST_BED_H

#include "base/unit.h"
#include "rnic/cm/cm.h"
#include "wire/ib.h"

#define SERVICE fl_cm_service_id(FL_CM_PS_TCP, 7471)
#define MS      1000000ull
#define SECOND  (1000 * MS)

enum { A, B }; /* who asks, who is asked */

struct bed {
    struct fl_cm *cm[2];
    struct in6_addr addr[2];
    uint64_t now;
    struct fl_cm_listener *listener;
    struct fl_cm_tx last; /* that went over */
};

static inline struct in6_addr v4(uint8_t last)
{
    return (struct in6_addr){{{[10] = 0xff, [11] = 0xff, [12] = 10, [13] = 77, [15] = last}}};
}

static inline struct fl_cm *new_engine(uint64_t guid, uint32_t max_conns)
{
    struct fl_cm_config config = {.guid = guid, .seed = {guid, 7}, .max_conns = max_conns};
    struct fl_cm *cm = NULL;
    assert_int_equal(fl_cm_create(&config, &cm), 0);
    return cm;
}

static inline void bed_init(struct bed *bed)
{
    *bed = (struct bed){.addr = {v4(12), v4(11)}, .now = SECOND};
    bed->cm[A] = new_engine(0xa, 0);
    bed->cm[B] = new_engine(0xb, 0);
    assert_int_equal(fl_cm_listen(bed->cm[B], SERVICE, NULL, 8, bed, &bed->listener), 0);
}

/* Everything that was begun is over, and nothing is left. */
static inline void bed_fini(struct bed *bed)
{
    for (int i = 0; i < 2; i++)
        fl_cm_destroy(bed->cm[i]);
}

static inline void give(struct bed *bed, int to, const struct fl_cm_tx *tx)
{
    struct fl_cm_meta meta = {
        .local = tx->remote, .remote = tx->local, .src_qpn = FL_IB_QP1, .hop_limit = tx->hop_limit};
    fl_cm_rx(bed->cm[to], &meta, &tx->mad, sizeof(tx->mad), bed->now);
}

/* The next message that `from` sends; false: none. */
static inline bool take(struct bed *bed, int from, struct fl_cm_tx *tx)
{
    return fl_cm_tx(bed->cm[from], tx);
}

static inline void expect_tx(struct bed *bed, int from, struct fl_cm_tx *tx, uint16_t attr)
{
    assert_true(take(bed, from, tx));
    assert_int_equal(be16_get(tx->mad.hdr.attr_id), attr);
}

static inline void expect_silence(struct bed *bed)
{
    struct fl_cm_tx tx;
    assert_false(take(bed, A, &tx));
    assert_false(take(bed, B, &tx));
}

/* One message, that must be of this kind, goes over. */
static inline void move(struct bed *bed, int from, uint16_t attr)
{
    expect_tx(bed, from, &bed->last, attr);
    give(bed, !from, &bed->last);
}

/* One message is lost. */
static inline void lose(struct bed *bed, int from, uint16_t attr)
{
    struct fl_cm_tx tx;
    expect_tx(bed, from, &tx, attr);
}

static inline struct fl_cm_event expect_event(struct bed *bed, int at, enum fl_cm_event_kind kind)
{
    struct fl_cm_event event;
    assert_true(fl_cm_next_event(bed->cm[at], &event));
    assert_int_equal(event.kind, kind);
    return event;
}

static inline void expect_no_event(struct bed *bed)
{
    struct fl_cm_event event;
    assert_false(fl_cm_next_event(bed->cm[A], &event));
    assert_false(fl_cm_next_event(bed->cm[B], &event));
}

/* To the next deadline of one side, which must be; it may be over, while the other side was waited for. */
static inline void wait_for(struct bed *bed, int at)
{
    uint64_t deadline = fl_cm_deadline(bed->cm[at]);
    assert_int_not_equal(deadline, FL_CM_NEVER);
    bed->now = FL_MAX(bed->now, deadline);
    fl_cm_tick(bed->cm[at], bed->now);
}

static inline struct fl_cm_connect connect_args(const struct bed *bed)
{
    return (struct fl_cm_connect){
        .service_id = SERVICE,
        .src_port = 40000,
        .service = FL_IB_RC,
        .route = {.local = bed->addr[A], .remote = bed->addr[B], .mtu = 3, .flow_label = 0xc81d6},
        .terms = {.qpn = 0x13,
                  .psn = 0x7695c0,
                  .responder_resources = 4,
                  .initiator_depth = 2,
                  .retry_count = 5,
                  .rnr_retry_count = 6},
        .private_data = "ping",
        .private_len = 4,
        .owner = (void *)&bed->addr[A],
    };
}

static inline struct fl_cm_terms accept_terms(void)
{
    return (struct fl_cm_terms){
        .qpn = 0x21, .psn = 0x2e3bf9, .responder_resources = 2, .initiator_depth = 3, .rnr_retry_count = 7};
}

static inline struct fl_cm_conn *begin(struct bed *bed)
{
    struct fl_cm_connect args = connect_args(bed);
    struct fl_cm_conn *conn = NULL;
    assert_int_equal(fl_cm_connect(bed->cm[A], &args, bed->now, &conn), 0);
    return conn;
}

/* Both ends of a new connection, up to where the passive side has sent its REP. */
static inline void begin_both(struct bed *bed, struct fl_cm_conn *conn[2])
{
    struct fl_cm_terms terms = accept_terms();
    conn[A] = begin(bed);
    move(bed, A, FL_CM_REQ);
    conn[B] = expect_event(bed, B, FL_CM_CONNECT_REQUEST).conn;
    assert_int_equal(fl_cm_accept(bed->cm[B], conn[B], &terms, "pong", 4, bed->now), 0);
}

static inline void establish(struct bed *bed, struct fl_cm_conn *conn[2])
{
    begin_both(bed, conn);
    move(bed, B, FL_CM_REP);
    expect_event(bed, A, FL_CM_CONNECT_RESPONSE);
    assert_int_equal(fl_cm_ready(bed->cm[A], conn[A], NULL, 0, bed->now), 0);
    move(bed, A, FL_CM_RTU);
    expect_event(bed, B, FL_CM_ESTABLISHED);
    expect_silence(bed);
}

#endif
