/* SPDX-License-Identifier: Apache-2.0 */
/* What is refused, by which answer: requests, messages of strangers, arguments. */
#include "rnic/cm/test_bed.h"

#include <errno.h>
#include <stdlib.h>

static void expect_rej(struct bed *bed, uint16_t reason)
{
    move(bed, B, FL_CM_REJ);
    assert_int_equal(be16_get(bed->last.mad.rej.reason), reason);
    assert_int_equal(fl_cm_rej_about(&bed->last.mad.rej), FL_CM_ABOUT_REQ);
    assert_int_equal(expect_event(bed, A, FL_CM_REJECTED).reason, reason);
    expect_no_event(bed);
    expect_silence(bed);
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
    expect_rej(&bed, FL_CM_REJ_SERVICE_ID);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_no_service, 1);
    assert_int_equal(fl_cm_nr_conns(bed.cm[B]), 0);
    fl_cm_conn_destroy(bed.cm[A], a, bed.now);
    assert_int_equal(fl_cm_nr_conns(bed.cm[A]), 0);
    bed_fini(&bed);
}

static void set_service(struct fl_cm_tx *tx)
{
    fl_cm_req_service_set(&tx->mad.req, 2);
}

static void set_mtu(struct fl_cm_tx *tx)
{
    fl_cm_req_mtu_set(&tx->mad.req, 6);
}

static void set_no_mtu(struct fl_cm_tx *tx)
{
    fl_cm_req_mtu_set(&tx->mad.req, 0);
}

static void set_our_gid(struct fl_cm_tx *tx)
{
    tx->mad.req.primary.remote_gid[15]++;
}

static void set_version(struct fl_cm_tx *tx)
{
    tx->mad.hdr.class_version = 1;
}

static void set_no_ip(struct fl_cm_tx *tx)
{
    tx->mad.req.private_data[1] = 0;
}

static void bad_requests(void **state)
{
    static const struct {
        void (*spoil)(struct fl_cm_tx *tx);
        uint16_t reason;
    } rows[] = {
        {set_service, FL_CM_REJ_TRANSPORT},     {set_mtu, FL_CM_REJ_PATH_MTU},
        {set_no_mtu, FL_CM_REJ_PATH_MTU},       {set_our_gid, FL_CM_REJ_PRIMARY_GID},
        {set_version, FL_CM_REJ_CLASS_VERSION}, {set_no_ip, FL_CM_REJ_UNSUPPORTED},
    };
    for (unsigned i = 0; i < FL_ARRAY_LEN(rows); i++) {
        struct bed bed;
        bed_init(&bed);
        begin(&bed);
        expect_tx(&bed, A, &bed.last, FL_CM_REQ);
        rows[i].spoil(&bed.last);
        give(&bed, B, &bed.last);
        expect_rej(&bed, rows[i].reason);
        assert_int_equal(fl_cm_stats(bed.cm[B])->nr_malformed, 1);
        assert_int_equal(fl_cm_nr_conns(bed.cm[B]), 0);
        bed_fini(&bed);
    }
}

static void set_src_ip(struct fl_cm_tx *tx)
{
    tx->mad.req.private_data[4 + 15]++;
}

static void set_dst_ip(struct fl_cm_tx *tx)
{
    tx->mad.req.private_data[20 + 15]++;
}

static void set_ip6(struct fl_cm_tx *tx)
{
    tx->mad.req.private_data[1] = 0x60;
}

static void set_ip_garbage(struct fl_cm_tx *tx)
{
    tx->mad.req.private_data[4]++;
}

static void set_their_gid(struct fl_cm_tx *tx)
{
    tx->mad.req.primary.local_gid[15]++;
}

static void set_sender(struct fl_cm_tx *tx)
{
    tx->local.s6_addr[15]++;
}

/* What says one address and comes from another gets no answer. */
static void forged_requests(void **state)
{
    static void (*const spoil[])(struct fl_cm_tx * tx) = {set_src_ip,     set_dst_ip,    set_ip6,
                                                          set_ip_garbage, set_their_gid, set_sender};
    struct bed bed;
    bed_init(&bed);
    for (unsigned i = 0; i < FL_ARRAY_LEN(spoil); i++) {
        begin(&bed);
        expect_tx(&bed, A, &bed.last, FL_CM_REQ);
        spoil[i](&bed.last);
        give(&bed, B, &bed.last);
        expect_no_event(&bed);
        expect_silence(&bed);
        assert_int_equal(fl_cm_stats(bed.cm[B])->nr_forged, i + 1);
        assert_int_equal(fl_cm_nr_conns(bed.cm[B]), 0);
    }
    bed_fini(&bed);
}

/* Each message of a live connection, from another address, another queue pair than QP1, or to another address
 */
static void forged_messages(void **state)
{
    static const uint16_t attrs[] = {FL_CM_REP, FL_CM_RTU, FL_CM_MRA, FL_CM_REJ, FL_CM_DREQ, FL_CM_DREP};
    for (unsigned i = 0; i < FL_ARRAY_LEN(attrs); i++) {
        struct bed bed;
        struct fl_cm_conn *conn[2];
        struct fl_cm_tx tx;
        bed_init(&bed);
        begin_both(&bed, conn);
        expect_tx(&bed, B, &tx, FL_CM_REP);
        for (int to = A; to <= B; to++) {
            struct fl_cm_tx forged = {.local = v4(66), .remote = bed.addr[to]};
            be32 a = tx.mad.rep.remote_id, b = tx.mad.rep.local_id;
            fl_cm_init(&forged.mad, (enum fl_cm_attr)attrs[i], 1);
            forged.mad.rep.local_id = to == A ? b : a; /* the same place in all of them */
            forged.mad.rep.remote_id = to == A ? a : b;
            if (attrs[i] == FL_CM_REP)
                forged.mad.rep.qpn = be24_of(77);
            give(&bed, to, &forged);
            forged.local = bed.addr[!to];
            struct fl_cm_meta meta = {.local = forged.remote, .remote = forged.local, .src_qpn = 2};
            fl_cm_rx(bed.cm[to], &meta, &forged.mad, sizeof(forged.mad), bed.now);
            forged.remote = v4(67); /* another address of ours */
            give(&bed, to, &forged);
            expect_no_event(&bed);
            assert_int_equal(fl_cm_stats(bed.cm[to])->nr_forged, 3);
        }
        expect_silence(&bed);
        give(&bed, A, &tx);
        expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
        bed_fini(&bed);
    }
}

static void not_a_message(void **state)
{
    struct bed bed;
    struct fl_cm_mad mad;
    bed_init(&bed);
    struct fl_cm_meta meta = {.local = bed.addr[B], .remote = bed.addr[A], .src_qpn = 1};
    fl_cm_init(&mad, FL_CM_REQ, 1);
    fl_cm_rx(bed.cm[B], &meta, &mad, 255, bed.now);
    fl_cm_rx(bed.cm[B], &meta, &mad, 0, bed.now);
    mad.hdr.attr_id = be16_of(0x1b);
    fl_cm_rx(bed.cm[B], &meta, &mad, sizeof(mad), bed.now);
    fl_cm_init(&mad, FL_CM_DREQ, 1); /* only requests are answered in another version */
    mad.hdr.class_version = 1;
    fl_cm_rx(bed.cm[B], &meta, &mad, sizeof(mad), bed.now);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_malformed, 4);
    fl_cm_init(&mad, FL_CM_LAP, 1); /* RoCE has no alternate paths */
    fl_cm_rx(bed.cm[B], &meta, &mad, sizeof(mad), bed.now);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_unknown, 1);
    fl_cm_init(&mad, FL_CM_REQ, 1); /* no queue pair has this number */
    fl_cm_rx(bed.cm[B], &meta, &mad, sizeof(mad), bed.now);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_malformed, 5);
    expect_silence(&bed);
    bed_fini(&bed);
}

/* A flood of requests to nobody: answers are bounded, and never more than the questions. */
static void strangers(void **state)
{
    struct bed bed;
    bed_init(&bed);
    for (int i = 0; i < 100; i++) {
        struct fl_cm_tx tx = {.local = bed.addr[A], .remote = bed.addr[B]};
        fl_cm_init(&tx.mad, FL_CM_DREQ, 1);
        tx.mad.dreq.local_id = be32_of(1000 + (uint32_t)i);
        give(&bed, B, &tx);
    }
    int nr = 0;
    struct fl_cm_tx tx;
    while (take(&bed, B, &tx))
        assert_int_equal(be32_get(tx.mad.drep.remote_id), 1000 + nr++);
    assert_int_equal(nr, 64);
    assert_int_equal(fl_cm_stats(bed.cm[B])->nr_answers_dropped, 36);
    bed_fini(&bed);
}

#define REFUSED(member, value)                                                          \
    do {                                                                                \
        struct fl_cm_connect args_ = connect_args(&bed);                                \
        args_.member = value;                                                           \
        assert_int_equal(fl_cm_connect(bed.cm[A], &args_, bed.now, &conn[A]), -EINVAL); \
    } while (0)

static void arguments(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    uint8_t data[256] = {0};
    bed_init(&bed);
    REFUSED(private_len, 57);
    REFUSED(private_data, NULL);
    REFUSED(terms.qpn, 1);
    REFUSED(terms.qpn, 1 << 24);
    REFUSED(terms.psn, 1 << 24);
    REFUSED(terms.retry_count, 8);
    REFUSED(terms.rnr_retry_count, 8);
    REFUSED(terms.ece_vendor, 1 << 24);
    REFUSED(service, FL_IB_UD);
    REFUSED(route.mtu, 0);
    REFUSED(route.mtu, 6);
    REFUSED(route.flow_label, 1 << 20);
    REFUSED(route.ack_timeout, 32);
    REFUSED(route.remote, (struct in6_addr){0});
    REFUSED(route.local.s6_addr[0], 0xfd); /* the other is IPv4 */
    assert_int_equal(fl_cm_nr_conns(bed.cm[A]), 0);
    struct fl_cm_connect args = connect_args(&bed);
    args.service_id = 0x1234567800000001; /* no IP header, more room */
    args.private_data = data;
    args.private_len = 92;
    assert_int_equal(fl_cm_connect(bed.cm[A], &args, bed.now, &conn[A]), 0);
    move(&bed, A, FL_CM_REQ);
    expect_rej(&bed, FL_CM_REJ_SERVICE_ID);

    struct fl_cm_terms terms = accept_terms();
    begin(&bed);
    move(&bed, A, FL_CM_REQ);
    conn[B] = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    assert_int_equal(fl_cm_accept(bed.cm[B], conn[B], &terms, data, 197, bed.now), -EINVAL);
    assert_int_equal(fl_cm_reject(bed.cm[B], conn[B], 28, NULL, 0, data, 149, bed.now), -EINVAL);
    assert_int_equal(fl_cm_reject(bed.cm[B], conn[B], 28, data, 73, NULL, 0, bed.now), -EINVAL);
    assert_int_equal(fl_cm_ready(bed.cm[B], conn[B], data, 225, bed.now), -EINVAL);
    assert_int_equal(fl_cm_ready(bed.cm[B], conn[B], NULL, 0, bed.now), -ENOTCONN);
    assert_int_equal(fl_cm_disconnect(bed.cm[B], conn[B], data, 221, bed.now), -EINVAL);
    assert_int_equal(fl_cm_disconnect(bed.cm[B], conn[B], NULL, 0, bed.now), -ENOTCONN);
    terms.qpn = 0;
    assert_int_equal(fl_cm_accept(bed.cm[B], conn[B], &terms, NULL, 0, bed.now), -EINVAL);
    expect_silence(&bed);
    bed_fini(&bed);
}

static void configurations(void **state)
{
    static const struct fl_cm_config bad[] = {
        {.id_mask = UINT32_MAX},
        {.id_mask = 0xff00ff00},
        {.id_mask = 0xff000000, .id_prefix = 1},
        {.id_mask = 0xffff0000, .max_conns = 40000}, /* too many for 16 bits not to come again soon */
        {.response_timeout = 32},
        {.retries = 16},
        {.service_timeout = 32},
        {.ack_delay = 32},
    };
    struct fl_cm *cm;
    for (unsigned i = 0; i < FL_ARRAY_LEN(bad); i++)
        assert_int_equal(fl_cm_create(&bad[i], &cm), -EINVAL);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* IDs have the prefix, none comes twice before all did, and the next cannot be read off the one before. */
static void communication_ids(void **state)
{
    struct bed bed;
    bed_init(&bed);
    struct fl_cm_config config = {
        .seed = {1, 2}, .id_prefix = 0xabc00000, .id_mask = 0xffff8000, .max_conns = 100};
    struct fl_cm *cm;
    assert_int_equal(fl_cm_create(&config, &cm), 0);
    static uint32_t ids[1 << 15];
    uint64_t steps = 0;
    for (unsigned i = 0; i < FL_ARRAY_LEN(ids); i++) {
        struct fl_cm_connect args = connect_args(&bed);
        struct fl_cm_conn *conn;
        struct fl_cm_tx tx;
        assert_int_equal(fl_cm_connect(cm, &args, bed.now, &conn), 0);
        assert_true(fl_cm_tx(cm, &tx));
        ids[i] = be32_get(tx.mad.req.local_id);
        assert_int_equal(ids[i] & config.id_mask, config.id_prefix);
        steps += i && ids[i] - ids[i - 1] + 16 <= 32;
        fl_cm_conn_destroy(cm, conn, bed.now);
        assert_true(fl_cm_tx(cm, &tx)); /* REJ */
        bed.now = fl_cm_deadline(cm);
        fl_cm_tick(cm, bed.now);
        assert_int_equal(fl_cm_nr_conns(cm), 0);
    }
    assert_true(steps < 100); /* 32 of 32768 by chance */
    qsort(ids, FL_ARRAY_LEN(ids), sizeof(ids[0]), by_value);
    for (unsigned i = 0; i < FL_ARRAY_LEN(ids); i++)
        assert_int_equal(ids[i], config.id_prefix + i);
    fl_cm_destroy(cm);
    bed_fini(&bed);
}

/* The host's hub was replaced, and the new one calls the process by another number. */
static void another_prefix(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    struct fl_cm_tx tx;
    bed_init(&bed);
    struct fl_cm_config config = {.seed = {1, 2}, .id_prefix = 0x12300000, .id_mask = 0xfff00000};
    fl_cm_destroy(bed.cm[A]);
    assert_int_equal(fl_cm_create(&config, &bed.cm[A]), 0);
    begin_both(&bed, conn);
    fl_cm_set_id_prefix(bed.cm[A], 0x45600000);
    move(&bed, B, FL_CM_REP); /* what was begun before goes on */
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    struct fl_cm_connect args = connect_args(&bed);
    args.terms.qpn++;
    assert_int_equal(fl_cm_connect(bed.cm[A], &args, bed.now, &conn[A]), 0);
    expect_tx(&bed, A, &tx, FL_CM_REQ);
    assert_int_equal(be32_get(tx.mad.req.local_id) & config.id_mask, 0x45600000);
    bed_fini(&bed);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(nobody_listens), cmocka_unit_test(bad_requests),
                       cmocka_unit_test(forged_requests), cmocka_unit_test(forged_messages),
                       cmocka_unit_test(not_a_message), cmocka_unit_test(strangers),
                       cmocka_unit_test(arguments), cmocka_unit_test(configurations),
                       cmocka_unit_test(communication_ids), cmocka_unit_test(another_prefix));
}
