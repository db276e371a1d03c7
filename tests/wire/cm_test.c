/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Linux hosts said to each other to connect, in the captures of tests/captures, told again with our
 * connection manager in the place of either side: it must say the same, byte by byte but for the numbers that
 * it chooses itself, and understand the same. Argument: the folder of the captures.
 */
#include <stdio.h>
#include <string.h>

#include "base/unit.h"
#include "pcap.h"
#include "rnic/cm/cm.h"
#include "wire/ib.h"

#define TALKS_MAX 16
#define MADS_MAX  12

enum { ASKS, ASKED };

struct said {
    int by;
    struct fl_cm_mad mad;
};

struct talk { /* one connect, or one question which queue pair serves */
    struct in6_addr addr[2];
    be32 id[2]; /* as Linux chose them */
    struct said said[MADS_MAX];
    int nr;
};

static const struct {
    const char *name;
    int nr_talks;
} captures[] = {
    {"roce-cm", 5},    {"roce-errors", 7},    {"roce-loss", 3},        {"roce-ops", 1},
    {"roce-rping", 1}, {"roce-rping-ip6", 1}, {"roce-send-lat-cm", 2},
};

static const char *folder;
static struct talk talks[TALKS_MAX];
static int nr_talks;

/* The MAD of a frame to QP1, and between whom; false: another frame. */
static bool mad_of(const struct pcap_frame *frame, struct fl_cm_mad *mad, struct in6_addr *src,
                   struct in6_addr *dst)
{
    const uint8_t *ip = frame->bytes + 14, *udp;
    struct fl_ib_packet packet;
    *src = *dst = (struct in6_addr){{{[10] = 0xff, [11] = 0xff}}};
    if (frame->len < 14 + 20 + 8)
        return false;
    if (ip[0] == 0x45 && ip[9] == 17) {
        memcpy(&src->s6_addr[12], ip + 12, 4);
        memcpy(&dst->s6_addr[12], ip + 16, 4);
        udp = ip + 20;
    } else if (ip[0] >> 4 == 6 && ip[6] == 17) {
        memcpy(src, ip + 8, 16);
        memcpy(dst, ip + 24, 16);
        udp = ip + 40;
    } else {
        return false;
    }
    uint32_t len = (uint32_t)(udp[4] << 8 | udp[5]) - 8;
    if ((udp[2] << 8 | udp[3]) != FL_ROCE_PORT || udp + 8 + len > frame->bytes + frame->len ||
        len < FL_IB_ICRC_LEN)
        return false;
    if (fl_ib_packet_view(&packet, udp + 8, len - FL_IB_ICRC_LEN) || packet.qpn != FL_IB_QP1)
        return false;
    const struct fl_cm_mad *view = fl_cm_view(packet.payload, packet.payload_len);
    assert_non_null(view);
    *mad = *view;
    return true;
}

static uint16_t attr_of(const struct fl_cm_mad *mad)
{
    return be16_get(mad->hdr.attr_id);
}

static bool is_sidr(const struct fl_cm_mad *mad)
{
    return attr_of(mad) == FL_CM_SIDR_REQ || attr_of(mad) == FL_CM_SIDR_REP;
}

static bool same_id(be32 a, be32 b)
{
    return be32_get(a) == be32_get(b);
}

/* Whose message is it? In all that are not first, the IDs are at the same places. */
static void collect(const struct fl_cm_mad *mad, const struct in6_addr *src, const struct in6_addr *dst)
{
    struct talk *talk = NULL;
    int by = ASKS;
    if (attr_of(mad) == FL_CM_REQ || attr_of(mad) == FL_CM_SIDR_REQ) {
        assert_true(nr_talks < TALKS_MAX);
        talk = &talks[nr_talks++];
        *talk = (struct talk){.addr = {*src, *dst}, .id[ASKS] = mad->req.local_id};
    } else {
        for (int i = 0; i < nr_talks; i++) {
            if (same_id(mad->rep.local_id, talks[i].id[ASKS]) && !is_sidr(mad)) {
                talk = &talks[i];
                by = ASKS;
            } else if (same_id(is_sidr(mad) ? mad->sidr_rep.request_id : mad->rep.remote_id,
                               talks[i].id[ASKS])) {
                talk = &talks[i];
                by = ASKED;
            }
        }
        assert_non_null(talk);
        if (attr_of(mad) == FL_CM_REP)
            talk->id[ASKED] = mad->rep.local_id;
    }
    assert_true(talk->nr < MADS_MAX);
    talk->said[talk->nr++] = (struct said){.by = by, .mad = *mad};
}

/* ---- one side of a talk is ours ---- */

struct stage {
    const struct talk *talk;
    int us;
    struct fl_cm *cm;
    struct fl_cm_conn *conn;
    be32 id; /* ours */
    uint64_t tid;
    bool peer_disconnected;
    uint64_t now;
};

static const struct fl_cm_mad *first_of(const struct talk *talk, uint16_t attr)
{
    for (int i = 0; i < talk->nr; i++)
        if (attr_of(&talk->said[i].mad) == attr)
            return &talk->said[i].mad;
    return NULL;
}

static bool has_ip(uint64_t service_id)
{
    uint8_t space;
    uint16_t port;
    return fl_cm_service_id_parse(service_id, &space, &port);
}

static void connect_like(struct stage *s, const struct fl_cm_mad *mad)
{
    const struct fl_cm_req *req = &mad->req;
    size_t skip = has_ip(be64_get(req->service_id)) ? sizeof(struct fl_cm_ip_hdr) : 0;
    struct fl_cm_connect args = {
        .service_id = be64_get(req->service_id),
        .src_port = be16_get(((const struct fl_cm_ip_hdr *)req->private_data)->src_port),
        .service = fl_cm_req_service(req),
        .route = {.local = s->talk->addr[ASKS],
                  .remote = s->talk->addr[ASKED],
                  .flow_label = fl_cm_path_flow_label(&req->primary),
                  .traffic_class = req->primary.traffic_class,
                  .mtu = fl_cm_req_mtu(req)},
        .terms = {.qpn = be24_get(req->qpn),
                  .psn = be24_get(req->psn),
                  .responder_resources = req->responder_resources,
                  .initiator_depth = req->initiator_depth,
                  .retry_count = fl_cm_req_retry_count(req),
                  .rnr_retry_count = fl_cm_req_rnr_retry_count(req),
                  .flow_control = fl_cm_req_flow_control(req),
                  .srq = fl_cm_req_srq(req)},
        .private_data = req->private_data + skip,
        .private_len = sizeof(req->private_data) - skip,
    };
    assert_int_equal(fl_cm_connect(s->cm, &args, s->now, &s->conn), 0);
}

static void resolve_like(struct stage *s, const struct fl_cm_mad *mad)
{
    const struct fl_cm_sidr_req *req = &mad->sidr_req;
    struct fl_cm_resolve args = {
        .service_id = be64_get(req->service_id),
        .src_port = be16_get(((const struct fl_cm_ip_hdr *)req->private_data)->src_port),
        .route = {.local = s->talk->addr[ASKS], .remote = s->talk->addr[ASKED]},
        .private_data = req->private_data + sizeof(struct fl_cm_ip_hdr),
        .private_len = sizeof(req->private_data) - sizeof(struct fl_cm_ip_hdr),
    };
    assert_int_equal(fl_cm_resolve(s->cm, &args, s->now, &s->conn), 0);
}

static void accept_like(struct stage *s, const struct fl_cm_mad *mad)
{
    const struct fl_cm_rep *rep = &mad->rep;
    struct fl_cm_terms terms = {
        .qpn = be24_get(rep->qpn),
        .psn = be24_get(rep->psn),
        .responder_resources = rep->responder_resources,
        .initiator_depth = rep->initiator_depth,
        .rnr_retry_count = fl_cm_rep_rnr_retry_count(rep),
        .flow_control = fl_cm_rep_flow_control(rep),
        .srq = fl_cm_rep_srq(rep),
        .features = FL_CM_SELECTIVE | FL_CM_SPRAY | FL_CM_SHM, /* which the peer has never heard of */
    };
    assert_int_equal(
        fl_cm_accept(s->cm, s->conn, &terms, rep->private_data, sizeof(rep->private_data), s->now), 0);
}

/* Says what Linux said here. False: there is nothing to be said any more. */
static bool act_like(struct stage *s, const struct fl_cm_mad *mad)
{
    switch (attr_of(mad)) {
    case FL_CM_REQ:
        connect_like(s, mad);
        break;
    case FL_CM_SIDR_REQ:
        resolve_like(s, mad);
        break;
    case FL_CM_REP:
        accept_like(s, mad);
        break;
    case FL_CM_RTU:
        assert_int_equal(fl_cm_ready(s->cm, s->conn, NULL, 0, s->now), 0);
        break;
    case FL_CM_DREQ:
        assert_int_equal(fl_cm_disconnect(s->cm, s->conn, NULL, 0, s->now), 0);
        return !s->peer_disconnected;
    case FL_CM_SIDR_REP:
        assert_int_equal(fl_cm_sidr_reply(s->cm, s->conn, (enum fl_cm_sidr_status)mad->sidr_rep.status,
                                          be24_get(mad->sidr_rep.qpn), be32_get(mad->sidr_rep.qkey),
                                          mad->sidr_rep.private_data, sizeof(mad->sidr_rep.private_data),
                                          s->now),
                         0);
        break;
    default: /* DREP and REJ: by the engine itself */
        break;
    }
    return true;
}

static void check_said(struct stage *s, const struct fl_cm_mad *want)
{
    struct fl_cm_tx tx;
    assert_true(fl_cm_tx(s->cm, &tx));
    assert_memory_equal(&tx.local, &s->talk->addr[s->us], 16);
    assert_memory_equal(&tx.remote, &s->talk->addr[!s->us], 16);
    uint16_t attr = attr_of(want);
    assert_int_equal(attr_of(&tx.mad), attr);
    if (attr == FL_CM_REQ || attr == FL_CM_SIDR_REQ)
        s->tid = be64_get(tx.mad.hdr.tid);
    if (attr == FL_CM_DREQ || be64_get(tx.mad.hdr.tid) == s->tid) /* ours to choose */
        tx.mad.hdr.tid = want->hdr.tid;
    if (attr == FL_CM_REQ || attr == FL_CM_SIDR_REQ || attr == FL_CM_REP)
        s->id = tx.mad.req.local_id;
    if (attr != FL_CM_SIDR_REP && same_id(tx.mad.req.local_id, s->id))
        tx.mad.req.local_id = s->talk->id[s->us];
    if (attr == FL_CM_REQ) { /* ours wants a REP that was lost again sooner than Linux does */
        assert_int_equal(fl_cm_req_local_timeout(&tx.mad.req), 19);
        fl_cm_req_local_timeout_set(&tx.mad.req, fl_cm_req_local_timeout(&want->req));
    }
    assert_memory_equal(&tx.mad, want, sizeof(*want));
}

static void check_private(const struct fl_cm_event *event, const struct fl_cm_mad *mad)
{
    struct fl_cm_mad copy = *mad;
    size_t len;
    uint8_t *data = fl_cm_private(&copy, &len);
    assert_true(event->private_len <= len);
    data += len - event->private_len; /* behind the IP header */
    assert_memory_equal(event->private_data, data, event->private_len);
}

static void hear(struct stage *s, struct fl_cm_mad mad)
{
    static const struct {
        uint16_t attr;
        enum fl_cm_event_kind kind;
    } events[] = {
        {FL_CM_REQ, FL_CM_CONNECT_REQUEST},   {FL_CM_REP, FL_CM_CONNECT_RESPONSE},
        {FL_CM_RTU, FL_CM_ESTABLISHED},       {FL_CM_DREQ, FL_CM_DISCONNECTED},
        {FL_CM_DREP, FL_CM_DISCONNECTED},     {FL_CM_REJ, FL_CM_REJECTED},
        {FL_CM_SIDR_REQ, FL_CM_SIDR_REQUEST}, {FL_CM_SIDR_REP, FL_CM_SIDR_RESPONSE},
    };
    struct fl_cm_meta meta = {.local = s->talk->addr[s->us],
                              .remote = s->talk->addr[!s->us],
                              .src_qpn = FL_IB_QP1,
                              .hop_limit = 64};
    struct fl_cm_event event;
    uint16_t attr = attr_of(&mad);
    if (attr == FL_CM_SIDR_REP)
        mad.sidr_rep.request_id = s->id;
    else if (attr != FL_CM_REQ && attr != FL_CM_SIDR_REQ)
        mad.rep.remote_id = s->id;
    fl_cm_rx(s->cm, &meta, &mad, sizeof(mad), s->now);
    if (attr == FL_CM_DREP && s->peer_disconnected) /* both sides began, and that was told */
        return;
    if (attr == FL_CM_REQ && first_of(s->talk, FL_CM_REJ)) /* nobody listens */
        return;
    assert_true(fl_cm_next_event(s->cm, &event));
    unsigned i = 0;
    while (events[i].attr != attr)
        i++;
    assert_int_equal(event.kind, events[i].kind);
    if (attr == FL_CM_REQ || attr == FL_CM_SIDR_REQ) {
        s->conn = event.conn;
        size_t len;
        const struct fl_cm_ip_hdr *ip = (const void *)fl_cm_private(&mad, &len);
        assert_int_equal(fl_cm_src_port(s->conn), be16_get(ip->src_port));
    }
    assert_ptr_equal(event.conn, s->conn);
    check_private(&event, &mad);
    if (attr == FL_CM_REQ || attr == FL_CM_REP) {
        const struct fl_cm_terms *peer = fl_cm_peer(s->conn);
        assert_int_equal(peer->qpn, be24_get(attr == FL_CM_REQ ? mad.req.qpn : mad.rep.qpn));
        assert_int_equal(peer->psn, be24_get(attr == FL_CM_REQ ? mad.req.psn : mad.rep.psn));
        assert_int_equal(peer->features, 0);
        assert_int_equal(fl_cm_ack_timeout(s->conn), 17);
    }
    if (attr == FL_CM_REJ)
        assert_int_equal(event.reason, FL_CM_REJ_SERVICE_ID);
    if (attr == FL_CM_SIDR_REP)
        assert_int_equal(event.qkey, 0x01234567);
    s->peer_disconnected |= attr == FL_CM_DREQ;
}

static void replay(const struct talk *talk, int us)
{
    struct stage s = {.talk = talk, .us = us, .now = 1000000000};
    const struct fl_cm_mad *first = &talk->said[0].mad, *rep = first_of(talk, FL_CM_REP);
    be64 guid = us == ASKS ? first->req.ca_guid : rep ? rep->rep.ca_guid : be64_of(1);
    struct fl_cm_config config = {.guid = be64_get(guid), .seed = {1, 2}};
    struct fl_cm_listener *listener;
    assert_int_equal(fl_cm_create(&config, &s.cm), 0);
    uint64_t service_id = be64_get(is_sidr(first) ? first->sidr_req.service_id : first->req.service_id);
    if (!first_of(talk, FL_CM_REJ))
        assert_int_equal(fl_cm_listen(s.cm, service_id, &talk->addr[ASKED], 1, NULL, &listener), 0);
    for (int i = 0; i < talk->nr; i++) {
        const struct said *said = &talk->said[i];
        if (said->by != us)
            hear(&s, said->mad);
        else if (act_like(&s, &said->mad))
            check_said(&s, &said->mad);
        s.now += 1000000;
    }
    struct fl_cm_tx tx;
    struct fl_cm_event event;
    assert_false(fl_cm_tx(s.cm, &tx));
    assert_false(fl_cm_next_event(s.cm, &event));
    assert_int_equal(
        fl_cm_stats(s.cm)->nr_malformed + fl_cm_stats(s.cm)->nr_forged + fl_cm_stats(s.cm)->nr_unknown, 0);
    fl_cm_destroy(s.cm);
}

static void replay_capture(void **state)
{
    const char *name = captures[(uintptr_t)*state].name;
    char path[512];
    struct pcap pcap;
    snprintf(path, sizeof(path), "%s/%s.pcap", folder, name);
    assert_int_equal(pcap_load(&pcap, path), 0);
    nr_talks = 0;
    for (size_t i = 0; i < pcap.nr_frames; i++) {
        struct fl_cm_mad mad;
        struct in6_addr src, dst;
        if (mad_of(&pcap.frames[i], &mad, &src, &dst))
            collect(&mad, &src, &dst);
    }
    assert_int_equal(nr_talks, captures[(uintptr_t)*state].nr_talks);
    for (int i = 0; i < nr_talks; i++) {
        replay(&talks[i], ASKS);
        replay(&talks[i], ASKED);
    }
    pcap_free(&pcap);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[FL_ARRAY_LEN(captures)];
    if (argc != 2) {
        fprintf(stderr, "usage: %s CAPTURES\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    for (uintptr_t i = 0; i < FL_ARRAY_LEN(captures); i++)
        tests[i] = (struct CMUnitTest){
            .name = captures[i].name, .test_func = replay_capture, .initial_state = (void *)i};
    return cmocka_run_group_tests_name(__FILE__, tests, NULL, NULL);
}
