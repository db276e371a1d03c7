/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A live connection manager with a program on top, and peers that say anything. Input: records of a byte of
 * what happens (a MAD comes, the program calls, time passes) and what it needs. Nothing is told of what was
 * destroyed; what is sent is well formed and goes to the peers; when all is destroyed and the time has
 * passed, nothing is left.
 */
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "rnic/cm/cm.h"
#include "wire/ib.h"

#define CONNS   8
#define SERVICE fl_cm_service_id(FL_CM_PS_TCP, 7471)
#define UD      fl_cm_service_id(FL_CM_PS_UDP, 7174)
#define NO_IP   0x7700000000000001ull

struct bed {
    const uint8_t *at, *end;
    struct fl_cm *cm;
    struct fl_cm_listener *listeners[3];
    struct fl_cm_conn *conns[CONNS]; /* owner: the place */
    struct fl_cm_mad sent[4];        /* latest: whose IDs the peer knows */
    unsigned nr_sent;
    uint64_t now;
};

static uint8_t byte(struct bed *bed)
{
    return bed->at < bed->end ? *bed->at++ : 0;
}

static struct in6_addr addr_of(uint8_t last)
{
    return (struct in6_addr){{{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = last}}};
}

/* A MAD whose parts are right as far as the input wants it. */
static void take_mad(struct bed *bed)
{
    uint8_t how = byte(bed);
    struct fl_cm_mad mad;
    const struct fl_cm_mad *sent = &bed->sent[byte(bed) % 4];
    uint8_t attr_byte = byte(bed), tid = byte(bed);
    fl_cm_init(&mad, (enum fl_cm_attr)(FL_CM_REQ + attr_byte % 11), tid);
    size_t len = byte(bed) % 233;
    len = FL_MIN(len, (size_t)(bed->end - bed->at));
    if (len)
        memcpy(mad.bytes, bed->at, len);
    bed->at += len;
    struct fl_cm_meta meta = {.local = addr_of(1), .remote = addr_of(how & 1 ? 3 : 2), .src_qpn = FL_IB_QP1};
    uint16_t attr = be16_get(mad.hdr.attr_id);
    if (how & 2) { /* an answer to what was sent */
        mad.rep.remote_id = sent->rep.local_id;
        if (how & 4)
            mad.rep.local_id = sent->rep.remote_id;
        if (attr == FL_CM_SIDR_REP) {
            mad.sidr_rep.request_id = sent->sidr_req.request_id;
            mad.sidr_rep.service_id = be64_of(UD);
        }
        if (attr == FL_CM_DREQ)
            mad.dreq.remote_qpn = be24_of(2 + (how >> 3));
    }
    if (attr == FL_CM_REQ && how & 8) {
        mad.req.service_id = be64_of(how & 16 ? SERVICE : NO_IP);
        memcpy(mad.req.primary.local_gid, &meta.remote, 16);
        memcpy(mad.req.primary.remote_gid, &meta.local, 16);
        fl_cm_ip_set((struct fl_cm_ip_hdr *)mad.req.private_data, 4, 1, &meta.remote.s6_addr[12],
                     &meta.local.s6_addr[12]);
        mad.req.qpn = be24_of(2 + (how >> 5));
        fl_cm_req_service_set(&mad.req, FL_IB_RC);
        fl_cm_req_mtu_set(&mad.req, 3);
    }
    if (attr == FL_CM_SIDR_REQ && how & 8) {
        mad.sidr_req.service_id = be64_of(UD);
        fl_cm_ip_set((struct fl_cm_ip_hdr *)mad.sidr_req.private_data, 4, 1, &meta.remote.s6_addr[12],
                     &meta.local.s6_addr[12]);
    }
    if (how == 0xff)
        mad.hdr.class_version = 1;
    fl_cm_rx(bed->cm, &meta, &mad, how == 0xfe ? 255 : sizeof(mad), bed->now);
}

static struct fl_cm_terms terms_of(struct bed *bed)
{
    uint8_t qpn = byte(bed), psn = byte(bed), features = byte(bed);
    return (struct fl_cm_terms){.qpn = 2 + qpn % 32, .psn = psn, .features = features};
}

static void begin(struct bed *bed, struct fl_cm_conn **place)
{
    static const uint8_t data[64];
    uint8_t how = byte(bed), mtu = byte(bed);
    struct fl_cm_connect connect = {
        .service_id = how & 2 ? SERVICE : NO_IP,
        .service = how & 4 ? FL_IB_UC : FL_IB_RC,
        .route = {.local = addr_of(1), .remote = addr_of(how & 1 ? 3 : 2), .mtu = mtu % 7},
        .terms = terms_of(bed),
        .private_data = data,
        .private_len = how >> 3,
        .owner = place,
    };
    struct fl_cm_resolve resolve = {.service_id = UD, .route = connect.route, .owner = place};
    if (*place)
        return;
    int r = how & 0x80 ? fl_cm_resolve(bed->cm, &resolve, bed->now, place)
                       : fl_cm_connect(bed->cm, &connect, bed->now, place);
    assert(!r == !!*place);
}

static void call(struct bed *bed, uint8_t what, struct fl_cm_conn **place)
{
    static const uint8_t data[256];
    struct fl_cm *cm = bed->cm;
    struct fl_cm_conn *conn = *place;
    struct fl_cm_terms terms;
    uint8_t a, b, c;
    if (!conn)
        return;
    switch (what) {
    case 0:
        terms = terms_of(bed);
        fl_cm_accept(cm, conn, &terms, data, byte(bed), bed->now);
        break;
    case 1:
        a = byte(bed), b = byte(bed), c = byte(bed);
        fl_cm_reject(cm, conn, a, data, b, data, c, bed->now);
        break;
    case 2:
        fl_cm_ready(cm, conn, data, byte(bed), bed->now);
        break;
    case 3:
        fl_cm_delay(cm, conn, byte(bed), bed->now);
        break;
    case 4:
        fl_cm_established(cm, conn, bed->now);
        break;
    case 5:
        fl_cm_disconnect(cm, conn, data, byte(bed), bed->now);
        break;
    case 6:
        a = byte(bed), b = byte(bed), c = byte(bed);
        fl_cm_sidr_reply(cm, conn, (enum fl_cm_sidr_status)(a % 6), b, c, data, byte(bed), bed->now);
        break;
    default:
        fl_cm_conn_destroy(cm, conn, bed->now);
        *place = NULL;
        break;
    }
}

static void take_events(struct bed *bed)
{
    struct fl_cm_event event;
    while (fl_cm_next_event(bed->cm, &event)) {
        volatile uint8_t last; /* ASan looks at what the event points at */
        if (event.private_len)
            last = ((const uint8_t *)event.private_data)[event.private_len - 1];
        if (event.ari_len)
            last = ((const uint8_t *)event.ari)[event.ari_len - 1];
        (void)last;
        if (event.kind != FL_CM_CONNECT_REQUEST && event.kind != FL_CM_SIDR_REQUEST) {
            struct fl_cm_conn **place = event.owner;
            assert(place >= bed->conns && place < bed->conns + CONNS && *place == event.conn);
            continue;
        }
        assert(event.owner == bed && event.listener);
        struct fl_cm_conn **place = &bed->conns[byte(bed) % CONNS];
        if (*place) { /* no room: refused */
            fl_cm_conn_destroy(bed->cm, event.conn, bed->now);
            continue;
        }
        *place = event.conn;
        fl_cm_set_owner(event.conn, place);
        assert(fl_cm_service(event.conn) == FL_IB_UD || fl_cm_peer(event.conn)->qpn >= 2);
    }
}

static void send_all(struct bed *bed)
{
    struct fl_cm_tx tx;
    const struct in6_addr local = addr_of(1), peers[2] = {addr_of(2), addr_of(3)};
    while (fl_cm_tx(bed->cm, &tx)) {
        assert(fl_cm_view(&tx.mad, sizeof(tx.mad)));
        assert(!memcmp(&tx.local, &local, 16));
        assert(!memcmp(&tx.remote, &peers[0], 16) || !memcmp(&tx.remote, &peers[1], 16));
        bed->sent[bed->nr_sent++ % 4] = tx.mad;
    }
}

static void pass_time(struct bed *bed, uint64_t until)
{
    bed->now = FL_MAX(bed->now, until);
    fl_cm_tick(bed->cm, bed->now);
    assert(fl_cm_deadline(bed->cm) > bed->now);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    const uint64_t services[] = {SERVICE, UD, NO_IP};
    struct bed bed = {.at = data, .end = data + len, .now = 1};
    struct fl_cm_config config = {
        .guid = 1, .seed = {1, 2}, .max_conns = 10, .retries = 2, .response_timeout = 12};
    int r = fl_cm_create(&config, &bed.cm);
    assert(!r);
    for (unsigned i = 0; i < FL_ARRAY_LEN(services); i++) {
        r = fl_cm_listen(bed.cm, services[i], NULL, 3, &bed, &bed.listeners[i]);
        assert(!r);
    }
    while (bed.at < bed.end) {
        uint8_t what = byte(&bed);
        struct fl_cm_conn **place = &bed.conns[(what >> 3) % CONNS];
        switch (what & 7) {
        case 0:
            begin(&bed, place);
            break;
        case 1:
            call(&bed, byte(&bed) & 7, place);
            break;
        case 2:
            take_events(&bed);
            break;
        case 3:
            send_all(&bed);
            break;
        case 4:
            if (fl_cm_deadline(bed.cm) != FL_CM_NEVER)
                pass_time(&bed, fl_cm_deadline(bed.cm));
            break;
        default:
            take_mad(&bed);
            break;
        }
        assert(fl_cm_nr_conns(bed.cm) <= config.max_conns);
    }
    for (unsigned i = 0; i < CONNS; i++)
        call(&bed, 7, &bed.conns[i]);
    for (unsigned i = 0; i < FL_ARRAY_LEN(services); i++)
        fl_cm_listener_destroy(bed.cm, bed.listeners[i], bed.now);
    struct fl_cm_event event;
    assert(!fl_cm_next_event(bed.cm, &event));
    send_all(&bed);
    for (int i = 0; i < 1000 && fl_cm_deadline(bed.cm) != FL_CM_NEVER; i++) {
        pass_time(&bed, fl_cm_deadline(bed.cm));
        send_all(&bed);
    }
    assert(!fl_cm_nr_conns(bed.cm));
    fl_cm_destroy(bed.cm);
    return 0;
}
