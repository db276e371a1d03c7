/* SPDX-License-Identifier: Apache-2.0 */
/* Messages as Linux sent them (roce-cm.pcap; what is not written out is zero); fields as tshark reads them.
 */
#include "wire/ib_cm.h"

#include "wire/ib.h"
#include "wire/literal.h"

static struct fl_cm_mad mad_of(const char *hex)
{
    struct fl_cm_mad mad;
    memset(&mad, 0, sizeof(mad));
    literal(&mad, strlen(hex) / 2, hex);
    assert_ptr_equal(fl_cm_view(&mad, sizeof(mad)), &mad);
    return mad;
}

static const uint8_t addr_11[4] = {10, 77, 0, 11}, addr_12[4] = {10, 77, 0, 12};

static const char req_hex[] =
    "01070203000000000000000244d449c80010000000000000" /* MAD header */
    "c849d444000000000000000001061d2f505400fffe77001200000000000000000000130100000001000000a07695c0a5ffff30f0"
    "ffffffff00000000000000000000ffff0a4d000c00000000000000000000ffff0a4d000bc81d600000400088" /* primary path
                                                                                                */
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000" /* alternate
                                                                                                  path */
    "0040ea790000000000000000000000000a4d000c0000000000000000000000000a4d000b";

static void literal_req(void **state)
{
    struct fl_cm_mad mad = mad_of(req_hex);
    const struct fl_cm_req *req = &mad.req;
    assert_int_equal(be64_get(mad.hdr.tid), 0x244d449c8);
    assert_int_equal(be16_get(mad.hdr.attr_id), FL_CM_REQ);
    assert_int_equal(be32_get(req->local_id), 0xc849d444);
    assert_int_equal(be64_get(req->service_id), 0x01061d2f);
    assert_int_equal(be64_get(req->ca_guid), 0x505400fffe770012);
    assert_int_equal(be24_get(req->qpn), 0x13);
    assert_int_equal(req->responder_resources, 1);
    assert_int_equal(req->initiator_depth, 1);
    assert_int_equal(fl_cm_req_remote_timeout(req), 0x14);
    assert_int_equal(fl_cm_req_service(req), FL_IB_RC);
    assert_int_equal(fl_cm_req_flow_control(req), 0);
    assert_int_equal(be24_get(req->psn), 0x7695c0);
    assert_int_equal(fl_cm_req_local_timeout(req), 0x14);
    assert_int_equal(fl_cm_req_retry_count(req), 5);
    assert_int_equal(be16_get(req->pkey), 0xffff);
    assert_int_equal(fl_ib_mtu_len(fl_cm_req_mtu(req)), 1024);
    assert_int_equal(fl_cm_req_rdc(req), 0);
    assert_int_equal(fl_cm_req_rnr_retry_count(req), 0);
    assert_int_equal(fl_cm_req_max_cm_retries(req), 15);
    assert_int_equal(fl_cm_req_srq(req), 0);
    assert_int_equal(be16_get(req->primary.local_lid), 0xffff);
    assert_memory_equal(req->primary.local_gid + 12, addr_12, 4);
    assert_memory_equal(req->primary.remote_gid + 12, addr_11, 4);
    assert_int_equal(fl_cm_path_flow_label(&req->primary), 0xc81d6);
    assert_int_equal(fl_cm_path_rate(&req->primary), 0);
    assert_int_equal(req->primary.hop_limit, 64);
    assert_int_equal(fl_cm_path_sl(&req->primary), 0);
    assert_int_equal(fl_cm_path_ack_timeout(&req->primary), 0x11);
    const struct fl_cm_ip_hdr *ip = fl_cm_ip_view(req->private_data, sizeof(req->private_data));
    assert_non_null(ip);
    assert_int_equal(ip->ip >> 4, 4);
    assert_int_equal(be16_get(ip->src_port), 0xea79);
    assert_memory_equal(ip->src + 12, addr_12, 4);
    assert_memory_equal(ip->dst + 12, addr_11, 4);
}

/* The same request built with our setters is the same bytes. */
static void req_built(void **state)
{
    struct fl_cm_mad want = mad_of(req_hex), mad;
    struct fl_cm_req *req = &mad.req;
    fl_cm_init(&mad, FL_CM_REQ, 0x244d449c8);
    req->local_id = be32_of(0xc849d444);
    req->service_id = be64_of(fl_cm_service_id(FL_CM_PS_TCP, 7471));
    req->ca_guid = be64_of(0x505400fffe770012);
    req->qpn = be24_of(0x13);
    req->responder_resources = req->initiator_depth = 1;
    fl_cm_req_remote_timeout_set(req, 20);
    fl_cm_req_service_set(req, FL_IB_RC);
    req->psn = be24_of(0x7695c0);
    fl_cm_req_local_timeout_set(req, 20);
    fl_cm_req_retry_count_set(req, 5);
    req->pkey = be16_of(0xffff);
    fl_cm_req_mtu_set(req, 3);
    fl_cm_req_max_cm_retries_set(req, 15);
    req->primary.local_lid = req->primary.remote_lid = be16_of(0xffff);
    for (int i = 0; i < 2; i++) {
        uint8_t *gid = i ? req->primary.remote_gid : req->primary.local_gid;
        gid[10] = gid[11] = 0xff;
        memcpy(gid + 12, i ? addr_11 : addr_12, 4);
    }
    fl_cm_path_flow_rate_set(&req->primary, 0xc81d6, 0);
    req->primary.hop_limit = 64;
    fl_cm_path_sl_set(&req->primary, 0);
    fl_cm_path_subnet_local_set(&req->primary, 0);
    fl_cm_path_ack_timeout_set(&req->primary, 17);
    size_t len;
    struct fl_cm_ip_hdr *ip = (void *)fl_cm_private(&mad, &len);
    assert_int_equal(len, 92);
    fl_cm_ip_set(ip, 4, 0xea79, addr_12, addr_11);
    assert_memory_equal(&mad, &want, sizeof(mad));
}

static void literal_rep_and_rtu(void **state)
{
    struct fl_cm_mad mad = mad_of("01070203000000000000000244d449c80013000000000000"
                                  "7c37d39ec849d4440000000000001300000000002e3bf900010178e0505400fffe770011");
    const struct fl_cm_rep *rep = &mad.rep;
    assert_int_equal(be32_get(rep->local_id), 0x7c37d39e);
    assert_int_equal(be32_get(rep->remote_id), 0xc849d444);
    assert_int_equal(be24_get(rep->qpn), 0x13);
    assert_int_equal(be24_get(rep->psn), 0x2e3bf9);
    assert_int_equal(rep->responder_resources, 1);
    assert_int_equal(rep->initiator_depth, 1);
    assert_int_equal(fl_cm_rep_ack_delay(rep), 15);
    assert_int_equal(fl_cm_rep_failover(rep), 0);
    assert_int_equal(fl_cm_rep_flow_control(rep), 0);
    assert_int_equal(fl_cm_rep_rnr_retry_count(rep), 7);
    assert_int_equal(fl_cm_rep_srq(rep), 0);
    assert_int_equal(be64_get(rep->ca_guid), 0x505400fffe770011);

    mad = mad_of("01070203000000000000000244d449c80014000000000000c849d4447c37d39e");
    assert_int_equal(be16_get(mad.hdr.attr_id), FL_CM_RTU);
    assert_int_equal(be32_get(mad.rtu.local_id), 0xc849d444);
    assert_int_equal(be32_get(mad.rtu.remote_id), 0x7c37d39e);
}

static void literal_end(void **state)
{
    struct fl_cm_mad mad = mad_of("0107020300000000000000029ed3377c00150000000000007c37d39ec849d44400001300");
    assert_int_equal(be16_get(mad.hdr.attr_id), FL_CM_DREQ);
    assert_int_equal(be24_get(mad.dreq.remote_qpn), 0x13);
    mad = mad_of("0107020300000000000000029ed3377c0016000000000000c849d4447c37d39e");
    assert_int_equal(be16_get(mad.hdr.attr_id), FL_CM_DREP);
    assert_int_equal(be32_get(mad.drep.remote_id), 0x7c37d39e);
    mad = mad_of("01070203000000000000000244d449ce001200000000000000000000ce49d44400000008");
    assert_int_equal(be16_get(mad.hdr.attr_id), FL_CM_REJ);
    assert_int_equal(be16_get(mad.rej.reason), FL_CM_REJ_SERVICE_ID);
    assert_int_equal(fl_cm_rej_about(&mad.rej), FL_CM_ABOUT_REQ);
    assert_int_equal(fl_cm_rej_ari_len(&mad.rej), 0);
    assert_string_equal(fl_cm_reason_text(be16_get(mad.rej.reason)), "nobody listens on this service ID");
}

static void literal_sidr(void **state)
{
    struct fl_cm_mad mad = mad_of(
        "01070203000000000000000244d449ca0017000000000000ca49d444ffff00000000000001111c06"
        "004087f50000000000000000000000000a4d000c0000000000000000000000000a4d000b");
    uint8_t space;
    uint16_t port;
    assert_int_equal(be32_get(mad.sidr_req.request_id), 0xca49d444);
    assert_int_equal(be16_get(mad.sidr_req.pkey), 0xffff);
    assert_true(fl_cm_service_id_parse(be64_get(mad.sidr_req.service_id), &space, &port));
    assert_int_equal(space, FL_CM_PS_UDP);
    assert_int_equal(port, 7174);
    assert_non_null(fl_cm_ip_view(mad.sidr_req.private_data, sizeof(mad.sidr_req.private_data)));

    mad = mad_of("01070203000000000000000244d449ca0018000000000000"
                 "ca49d44400000000000011000000000001111c0601234567");
    assert_int_equal(mad.sidr_rep.status, FL_CM_SIDR_OK);
    assert_int_equal(be24_get(mad.sidr_rep.qpn), 0x11);
    assert_int_equal(be64_get(mad.sidr_rep.service_id), 0x01111c06);
    assert_int_equal(be32_get(mad.sidr_rep.qkey), 0x01234567);
}

/* Each narrow field: all its bits and no others. Values and places are those of 12.6.5 to 12.6.8. */
#define FIELD(type, member, name, mask, shift)         \
    do {                                               \
        struct type m;                                 \
        memset(&m, 0, sizeof(m));                      \
        name##_set(&m, 0xff);                          \
        assert_int_equal(m.member, mask);              \
        assert_int_equal(name(&m), (mask) >> (shift)); \
        memset(&m, 0xff, sizeof(m));                   \
        name##_set(&m, 0);                             \
        assert_int_equal(m.member, 0xff & ~(mask));    \
        assert_int_equal(name(&m), 0);                 \
    } while (0)

static void narrow_fields(void **state)
{
    FIELD(fl_cm_req, b43, fl_cm_req_remote_timeout, 0xf8, 3);
    FIELD(fl_cm_req, b43, fl_cm_req_service, 0x06, 1);
    FIELD(fl_cm_req, b43, fl_cm_req_flow_control, 0x01, 0);
    FIELD(fl_cm_req, b47, fl_cm_req_local_timeout, 0xf8, 3);
    FIELD(fl_cm_req, b47, fl_cm_req_retry_count, 0x07, 0);
    FIELD(fl_cm_req, b50, fl_cm_req_mtu, 0xf0, 4);
    FIELD(fl_cm_req, b50, fl_cm_req_rdc, 0x08, 3);
    FIELD(fl_cm_req, b50, fl_cm_req_rnr_retry_count, 0x07, 0);
    FIELD(fl_cm_req, b51, fl_cm_req_max_cm_retries, 0xf0, 4);
    FIELD(fl_cm_req, b51, fl_cm_req_srq, 0x08, 3);
    FIELD(fl_cm_req, b51, fl_cm_req_extended, 0x07, 0);
    FIELD(fl_cm_path, sl, fl_cm_path_sl, 0xf0, 4);
    FIELD(fl_cm_path, sl, fl_cm_path_subnet_local, 0x08, 3);
    FIELD(fl_cm_path, ack_timeout, fl_cm_path_ack_timeout, 0xf8, 3);
    FIELD(fl_cm_mra, b8, fl_cm_mra_about, 0xc0, 6);
    FIELD(fl_cm_mra, b9, fl_cm_mra_timeout, 0xf8, 3);
    FIELD(fl_cm_rej, b8, fl_cm_rej_about, 0xc0, 6);
    FIELD(fl_cm_rej, b9, fl_cm_rej_ari_len, 0xfe, 1);
    FIELD(fl_cm_rep, b26, fl_cm_rep_ack_delay, 0xf8, 3);
    FIELD(fl_cm_rep, b26, fl_cm_rep_failover, 0x06, 1);
    FIELD(fl_cm_rep, b26, fl_cm_rep_flow_control, 0x01, 0);
    FIELD(fl_cm_rep, b27, fl_cm_rep_rnr_retry_count, 0xe0, 5);
    FIELD(fl_cm_rep, b27, fl_cm_rep_srq, 0x10, 4);
    struct fl_cm_path path;
    fl_cm_path_flow_rate_set(&path, 0xabcde, 0x7f);
    assert_int_equal(be32_get(path.flow_rate), 0xabcde03f);
    assert_int_equal(fl_cm_path_flow_label(&path), 0xabcde);
    assert_int_equal(fl_cm_path_rate(&path), 0x3f);
}

static void refused(void **state)
{
    struct fl_cm_mad mad;
    fl_cm_init(&mad, FL_CM_MRA, 1);
    assert_non_null(fl_cm_view(&mad, 256));
    assert_null(fl_cm_view(&mad, 255));
    mad.hdr.class_version = 1;
    assert_null(fl_cm_view(&mad, 256));
    assert_true(fl_cm_version_wrong(&mad, 256));
    assert_false(fl_cm_version_wrong(&mad, 100));
    mad.hdr.class_version = 2;
    assert_false(fl_cm_version_wrong(&mad, 256));
    mad.hdr.mgmt_class = 3;
    assert_null(fl_cm_view(&mad, 256));
    fl_cm_init(&mad, FL_CM_REJ, 1);
    fl_cm_rej_ari_len_set(&mad.rej, 72);
    assert_non_null(fl_cm_view(&mad, 256));
    fl_cm_rej_ari_len_set(&mad.rej, 73);
    assert_null(fl_cm_view(&mad, 256));
    fl_cm_init(&mad, FL_CM_SIDR_REP, 1);
    mad.sidr_rep.info_len = 73;
    assert_null(fl_cm_view(&mad, 256));
    mad.hdr.attr_id = be16_of(0x1b);
    assert_null(fl_cm_view(&mad, 256));
    mad.hdr.attr_id = be16_of(0x0f);
    assert_null(fl_cm_view(&mad, 256));
}

static void private_data_and_texts(void **state)
{
    static const uint8_t lens[] = {92, 222, 148, 196, 224, 220, 224, 216, 136, 0, 0};
    for (unsigned i = 0; i < sizeof(lens); i++) {
        struct fl_cm_mad mad;
        size_t len;
        fl_cm_init(&mad, (enum fl_cm_attr)(FL_CM_REQ + i), 9);
        uint8_t *at = fl_cm_private(&mad, &len);
        assert_int_equal(len, lens[i]);
        assert_true(!len || at + len == mad.bytes + 232);
    }
    assert_string_equal(fl_cm_attr_text(FL_CM_SIDR_REP), "ServiceIDResReqResp");
    assert_string_equal(fl_cm_attr_text(0x0f), "unknown CM message");
    assert_string_equal(fl_cm_reason_text(FL_CM_REJ_CONSUMER), "rejected by the program that listens");
    for (unsigned i = 0; i < 70; i++)
        assert_non_null(fl_cm_reason_text((uint16_t)i));
    assert_string_equal(fl_cm_reason_text(0), "unknown reason");
    assert_string_equal(fl_cm_reason_text(34), "unknown reason");
    assert_string_equal(fl_cm_sidr_status_text(6), "unknown status");
    assert_string_equal(fl_cm_sidr_status_text(FL_CM_SIDR_NO_QP), "no queue pair available");
}

static void ip_header(void **state)
{
    uint8_t six[16] = {0xfd, 0x77, [15] = 1};
    struct fl_cm_ip_hdr hdr;
    fl_cm_ip_set(&hdr, 6, 4420, six, six);
    assert_memory_equal(fl_cm_ip_view(&hdr, 36)->src, six, 16);
    assert_null(fl_cm_ip_view(&hdr, 35));
    hdr.ip = 0x50;
    assert_null(fl_cm_ip_view(&hdr, 36));
    hdr.ip = 0x40;
    hdr.version = 0x10;
    assert_null(fl_cm_ip_view(&hdr, 36));
    uint8_t space;
    uint16_t port;
    assert_false(fl_cm_service_id_parse(0x10000001061d2full, &space, &port));
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(literal_req), cmocka_unit_test(req_built), cmocka_unit_test(literal_rep_and_rtu),
        cmocka_unit_test(literal_end), cmocka_unit_test(literal_sidr), cmocka_unit_test(narrow_fields),
        cmocka_unit_test(refused), cmocka_unit_test(private_data_and_texts), cmocka_unit_test(ip_header));
}
