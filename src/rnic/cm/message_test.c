/* SPDX-License-Identifier: Apache-2.0 */
/* What stands in the messages: IP headers, what farlane peers agree on, what belongs to the program. */
#include "rnic/cm/test_bed.h"

static struct fl_cm_conn *ask(struct bed *bed, uint16_t features, struct fl_cm_tx *req)
{
    struct fl_cm_connect args = connect_args(bed);
    struct fl_cm_conn *a = NULL;
    args.terms.features = features;
    args.terms.ece_vendor = 0x123456;
    args.terms.ece_options = 0x89abcdef;
    assert_int_equal(fl_cm_connect(bed->cm[A], &args, bed->now, &a), 0);
    expect_tx(bed, A, req, FL_CM_REQ);
    return a;
}

static void agreement(void **state)
{
    static const struct {
        uint16_t asked, answered, agreed;
    } rows[] = {
        {0, 0, 0},
        {0, FL_CM_SHM, 0},
        {FL_CM_SHM, 0, 0},
        {FL_CM_SELECTIVE | FL_CM_SHM, FL_CM_SHM | FL_CM_SPRAY, FL_CM_SHM},
        {0xffff, 0xffff, 0xffff},
    };
    for (unsigned i = 0; i < FL_ARRAY_LEN(rows); i++) {
        struct bed bed;
        struct fl_cm_tx tx;
        struct fl_cm_terms terms = accept_terms();
        bed_init(&bed);
        struct fl_cm_conn *a = ask(&bed, rows[i].asked, &tx);
        give(&bed, B, &tx);
        struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
        assert_int_equal(fl_cm_peer(b)->features, rows[i].asked);
        terms.features = rows[i].answered;
        terms.ece_vendor = 0xfedcba;
        terms.ece_options = 7;
        fl_cm_accept(bed.cm[B], b, &terms, NULL, 0, bed.now);
        move(&bed, B, FL_CM_REP);
        assert_int_equal(fl_cm_peer(a)->features, rows[i].agreed);
        assert_int_equal(fl_cm_peer(b)->ece_vendor, 0x123456);
        assert_int_equal(fl_cm_peer(b)->ece_options, 0x89abcdef);
        assert_int_equal(fl_cm_peer(a)->ece_vendor, 0xfedcba);
        assert_int_equal(fl_cm_peer(a)->ece_options, 7);
        bed_fini(&bed);
    }
}

/* Where it stands, byte by byte; and a peer that is not farlane neither sees nor sends any of it. */
static void agreement_on_the_wire(void **state)
{
    struct bed bed;
    struct fl_cm_tx req;
    struct fl_cm_terms terms = accept_terms();
    bed_init(&bed);
    struct fl_cm_conn *a = ask(&bed, FL_CM_SELECTIVE | FL_CM_SHM, &req);
    assert_memory_equal(req.mad.bytes + 24, "FL\0\x05", 4);
    assert_memory_equal(req.mad.bytes + 4, "\0\x12\x34\x56", 4);
    assert_int_equal(be32_get(req.mad.hdr.attr_mod), 0x89abcdef);
    memset(req.mad.bytes + 24, 0, 4);
    give(&bed, B, &req);
    terms.features = 0xffff;
    struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
    assert_int_equal(fl_cm_peer(b)->features, 0);
    fl_cm_accept(bed.cm[B], b, &terms, NULL, 0, bed.now);
    move(&bed, B, FL_CM_REP);
    assert_int_equal(be32_get(bed.last.mad.rep.qkey), 0);
    assert_int_equal(fl_cm_peer(a)->features, 0);
    bed_fini(&bed);

    bed_init(&bed);
    ask(&bed, FL_CM_SHM, &req);
    req.mad.bytes[24]++; /* somebody else's use of reserved bytes */
    give(&bed, B, &req);
    assert_int_equal(fl_cm_peer(expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn)->features, 0);
    bed_fini(&bed);
}

/* A reply that offers more than was asked for, or agrees to more */
static void reply_beyond_the_request(void **state)
{
    struct bed bed;
    struct fl_cm_conn *conn[2];
    bed_init(&bed);
    begin_both(&bed, conn);
    expect_tx(&bed, B, &bed.last, FL_CM_REP);
    bed.last.mad.rep.responder_resources = bed.last.mad.rep.initiator_depth = 200;
    memcpy(&bed.last.mad.rep.qkey, "FL\xff\xff", 4);
    give(&bed, A, &bed.last);
    expect_event(&bed, A, FL_CM_CONNECT_RESPONSE);
    assert_int_equal(fl_cm_peer(conn[A])->responder_resources, 4);
    assert_int_equal(fl_cm_peer(conn[A])->initiator_depth, 2);
    assert_int_equal(fl_cm_peer(conn[A])->features, 0);
    bed_fini(&bed);
}

static void over_ip6(void **state)
{
    struct bed bed;
    struct fl_cm_tx req;
    bed_init(&bed);
    bed.addr[A] = (struct in6_addr){{{0xfd, 0x77, [15] = 2}}};
    bed.addr[B] = (struct in6_addr){{{0xfd, 0x77, [15] = 1}}};
    ask(&bed, 0, &req);
    const struct fl_cm_ip_hdr *ip = fl_cm_ip_view(req.mad.req.private_data, sizeof(req.mad.req.private_data));
    assert_non_null(ip);
    assert_int_equal(ip->ip, 0x60);
    assert_memory_equal(ip->src, &bed.addr[A], 16);
    assert_memory_equal(ip->dst, &bed.addr[B], 16);
    give(&bed, B, &req);
    struct fl_cm_event event = expect_event(&bed, B, FL_CM_CONNECT_REQUEST);
    assert_memory_equal(event.private_data, "ping", 5);
    bed_fini(&bed);
}

/* Without an IP header all of the private data is the program's. */
static void service_without_ip(void **state)
{
    struct bed bed;
    struct fl_cm_listener *listener;
    struct fl_cm_conn *a;
    bed_init(&bed);
    struct fl_cm_connect args = connect_args(&bed);
    args.service_id = 0x1000000001061d2f; /* only the first bits are not those of IP service IDs */
    assert_int_equal(fl_cm_listen(bed.cm[B], args.service_id, &bed.addr[B], 1, NULL, &listener), 0);
    fl_cm_connect(bed.cm[A], &args, bed.now, &a);
    move(&bed, A, FL_CM_REQ);
    struct fl_cm_event event = expect_event(&bed, B, FL_CM_CONNECT_REQUEST);
    assert_int_equal(event.private_len, 92);
    assert_memory_equal(event.private_data, "ping", 5);
    assert_int_equal(fl_cm_src_port(event.conn), 0);
    bed_fini(&bed);
}

/* The flags that both sides say, each by itself */
static void flags(void **state)
{
    for (int i = 0; i < 4; i++) {
        struct bed bed;
        struct fl_cm_conn *a;
        struct fl_cm_terms terms = accept_terms();
        bed_init(&bed);
        struct fl_cm_connect args = connect_args(&bed);
        args.service = i & 1 ? FL_IB_UC : FL_IB_RC;
        args.terms.srq = terms.flow_control = i & 1;
        args.terms.flow_control = terms.srq = i & 2;
        fl_cm_connect(bed.cm[A], &args, bed.now, &a);
        move(&bed, A, FL_CM_REQ);
        struct fl_cm_conn *b = expect_event(&bed, B, FL_CM_CONNECT_REQUEST).conn;
        fl_cm_accept(bed.cm[B], b, &terms, NULL, 0, bed.now);
        move(&bed, B, FL_CM_REP);
        assert_int_equal(fl_cm_service(b), i & 1 ? FL_IB_UC : FL_IB_RC);
        assert_int_equal(fl_cm_peer(b)->srq, i & 1);
        assert_int_equal(fl_cm_peer(b)->flow_control, !!(i & 2));
        assert_int_equal(fl_cm_peer(a)->srq, !!(i & 2));
        assert_int_equal(fl_cm_peer(a)->flow_control, i & 1);
        bed_fini(&bed);
    }
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(agreement), cmocka_unit_test(agreement_on_the_wire),
                       cmocka_unit_test(reply_beyond_the_request), cmocka_unit_test(over_ip6),
                       cmocka_unit_test(service_without_ip), cmocka_unit_test(flags));
}
