/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every RoCE v2 capture of tests/captures, decoded whole, each a test of its own name: each packet's headers,
 * ICRC and place in its message; CM messages. The numbers expected here are tshark's, not ours. Argument: the
 * folder of the captures.
 */
#include <stdio.h>
#include <string.h>

#include "base/unit.h"
#include "pcap.h"
#include "wire/ib.h"
#include "wire/ib_cm.h"

#define MAX_KINDS 24
#define MAX_FLOWS 32

struct count {
    uint16_t what; /* opcode, attribute or syndrome */
    uint16_t nr;
};

struct expected {
    const char *name;
    struct count opcodes[MAX_KINDS];
    struct count mads[12];
    struct count syndromes[6];
    bool gaps; /* packets are missing, so what follows what cannot be judged */
};

static const struct expected captures[] = {
    {.name = "roce-atomic-lat", .opcodes = {{18, 5}, {20, 5}}, .syndromes = {{0x1f, 5}}},
    {.name = "roce-cm",
     .opcodes = {{0, 12}, {2, 12}, {17, 12}, {100, 16}, {101, 12}},
     .mads = {{0x10, 3}, {0x12, 1}, {0x13, 2}, {0x14, 2}, {0x15, 2}, {0x16, 2}, {0x17, 2}, {0x18, 2}},
     .syndromes = {{0x1f, 12}}},
    {.name = "roce-errors",
     .opcodes =
         {{0, 3}, {1, 3}, {2, 3}, {4, 1}, {6, 1}, {8, 1}, {10, 3}, {12, 1}, {17, 11}, {23, 1}, {100, 37}},
     .mads = {{0x10, 7}, {0x13, 7}, {0x14, 7}, {0x15, 8}, {0x16, 8}},
     .syndromes = {{0x1f, 4}, {0x20, 1}, {0x60, 1}, {0x62, 4}, {0x63, 1}}},
    {.name = "roce-loss",
     .opcodes = {{0, 6},   {1, 6},   {2, 3},   {3, 4},  {4, 13},  {5, 6},   {6, 6},  {7, 6},
                 {8, 3},   {9, 3},   {10, 15}, {11, 6}, {12, 16}, {13, 3},  {14, 3}, {15, 4},
                 {16, 12}, {17, 52}, {18, 9},  {19, 6}, {20, 3},  {100, 15}},
     .mads = {{0x10, 3}, {0x13, 3}, {0x14, 3}, {0x15, 3}, {0x16, 3}},
     .syndromes = {{0x1f, 79}, {0x60, 1}},
     .gaps = true},
    {.name = "roce-ops",
     .opcodes = {{0, 2},  {1, 2},   {2, 1},  {3, 1},  {4, 4},  {5, 2},  {6, 2},  {7, 2},
                 {8, 1},  {9, 1},   {10, 5}, {11, 2}, {12, 5}, {13, 1}, {14, 1}, {15, 1},
                 {16, 4}, {17, 17}, {18, 3}, {19, 2}, {20, 1}, {100, 5}},
     .mads = {{0x10, 1}, {0x13, 1}, {0x14, 1}, {0x15, 1}, {0x16, 1}},
     .syndromes = {{0x1f, 26}}},
    {.name = "roce-read-bw", .opcodes = {{12, 5}, {13, 5}, {14, 70}, {15, 5}}, .syndromes = {{0x1f, 10}}},
    {.name = "roce-read-lat", .opcodes = {{12, 5}, {13, 5}, {14, 10}, {15, 5}}, .syndromes = {{0x1f, 10}}},
    {.name = "roce-rping",
     .opcodes = {{4, 12}, {10, 3}, {12, 3}, {16, 3}, {17, 15}, {100, 5}},
     .mads = {{0x10, 1}, {0x13, 1}, {0x14, 1}, {0x15, 1}, {0x16, 1}},
     .syndromes = {{0x1f, 18}}},
    {.name = "roce-rping-ip6",
     .opcodes = {{4, 12}, {10, 3}, {12, 3}, {16, 3}, {17, 15}, {100, 5}},
     .mads = {{0x10, 1}, {0x13, 1}, {0x14, 1}, {0x15, 1}, {0x16, 1}},
     .syndromes = {{0x1f, 18}}},
    {.name = "roce-send-lat", .opcodes = {{4, 10}, {17, 10}}, .syndromes = {{0x1f, 10}}},
    {.name = "roce-send-lat-cm",
     .opcodes = {{0, 10}, {2, 10}, {4, 22}, {17, 32}, {100, 10}},
     .mads = {{0x10, 2}, {0x13, 2}, {0x14, 2}, {0x15, 2}, {0x16, 2}},
     .syndromes = {{0x1f, 32}}},
    {.name = "roce-send-lat-ud", .opcodes = {{100, 10}}},
    {.name = "roce-write-bw", .opcodes = {{6, 5}, {7, 70}, {8, 5}, {17, 5}}, .syndromes = {{0x1f, 5}}},
    {.name = "roce-write-imm", .opcodes = {{6, 5}, {7, 10}, {9, 5}, {17, 5}}, .syndromes = {{0x1f, 5}}},
    {.name = "roce-write-lat", .opcodes = {{10, 10}, {17, 10}}, .syndromes = {{0x1f, 10}}},
    {.name = "roce-write-lat-uc", .opcodes = {{38, 10}, {39, 10}, {40, 10}}},
};

static const char *folder;

struct flow_state { /* packets of one kind (requests or responses) towards one queue pair */
    uint8_t src;    /* last byte of the sender's address */
    bool response;
    uint32_t qpn;
    int prev;
};

struct tally {
    unsigned opcodes[256], mads[0x20], syndromes[256], nr_packets;
    struct flow_state flows[MAX_FLOWS];
    unsigned nr_flows;
};

/* UDP to port 4791: its payload, and the ICRC of what stands before the BTH; false for another frame. */
static bool roce_of(const struct pcap_frame *frame, const uint8_t **packet, uint32_t *len, uint32_t *crc,
                    uint8_t *src)
{
    const uint8_t *ip = frame->bytes + 14;
    if (frame->len < 14 + 20 + 8)
        return false;
    if (frame->bytes[12] == 0x08 && frame->bytes[13] == 0 && ip[0] == 0x45 && ip[9] == 17) {
        const uint8_t *udp = ip + 20;
        struct fl_icrc_ip4 in = {.src_port = (uint16_t)(udp[0] << 8 | udp[1]),
                                 .dst_port = (uint16_t)(udp[2] << 8 | udp[3]),
                                 .id = (uint16_t)(ip[4] << 8 | ip[5]),
                                 .df = ip[6] & 0x40};
        memcpy(&in.src, ip + 12, 4);
        memcpy(&in.dst, ip + 16, 4);
        *len = (uint32_t)(ip[2] << 8 | ip[3]) - 28;
        *packet = udp + 8;
        *src = ip[15];
        assert_true(*len <= frame->len - 42);
        *crc = fl_icrc_ip4(&in, *len);
        return in.dst_port == FL_ROCE_PORT;
    }
    if (frame->bytes[12] == 0x86 && frame->bytes[13] == 0xdd && frame->len >= 62 && ip[6] == 17) {
        const uint8_t *udp = ip + 40;
        struct fl_icrc_ip6 in = {.src_port = (uint16_t)(udp[0] << 8 | udp[1]),
                                 .dst_port = (uint16_t)(udp[2] << 8 | udp[3])};
        memcpy(in.src, ip + 8, 16);
        memcpy(in.dst, ip + 24, 16);
        *len = (uint32_t)(udp[4] << 8 | udp[5]) - 8;
        *packet = udp + 8;
        *src = ip[23];
        assert_true(*len <= frame->len - 62);
        *crc = fl_icrc_ip6(&in, *len);
        return in.dst_port == FL_ROCE_PORT;
    }
    return false;
}

static struct flow_state *flow_of(struct tally *tally, uint8_t src, uint32_t qpn, bool response)
{
    for (unsigned i = 0; i < tally->nr_flows; i++) {
        struct flow_state *flow = &tally->flows[i];
        if (flow->src == src && flow->qpn == qpn && flow->response == response)
            return flow;
    }
    assert_true(tally->nr_flows < MAX_FLOWS);
    struct flow_state *flow = &tally->flows[tally->nr_flows++];
    *flow = (struct flow_state){.src = src, .qpn = qpn, .response = response, .prev = -1};
    return flow;
}

static void take_mad(struct tally *tally, const struct fl_ib_packet *packet)
{
    const struct fl_cm_mad *mad = fl_cm_view(packet->payload, packet->payload_len);
    assert_non_null(mad);
    assert_int_equal(be32_get(fl_ib_deth(packet)->qkey), FL_IB_QP1_QKEY);
    uint16_t attr = be16_get(mad->hdr.attr_id);
    tally->mads[attr]++;
    const struct fl_cm_ip_hdr *ip = NULL;
    if (attr == FL_CM_REQ)
        ip = fl_cm_ip_view(mad->req.private_data, sizeof(mad->req.private_data));
    else if (attr == FL_CM_SIDR_REQ)
        ip = fl_cm_ip_view(mad->sidr_req.private_data, sizeof(mad->sidr_req.private_data));
    else
        return;
    assert_non_null(
        ip); /* the ports of librdmacm all come with it, and its addresses are those of the path */
    uint8_t space;
    uint16_t port;
    uint64_t service = be64_get(attr == FL_CM_REQ ? mad->req.service_id : mad->sidr_req.service_id);
    assert_true(fl_cm_service_id_parse(service, &space, &port));
    assert_int_equal(space, attr == FL_CM_REQ ? FL_CM_PS_TCP : FL_CM_PS_UDP);
    if (attr == FL_CM_REQ) {
        assert_memory_equal(ip->src + 12, mad->req.primary.local_gid + 12, 4);
        assert_memory_equal(ip->dst + 12, mad->req.primary.remote_gid + 12, 4);
        assert_int_equal(fl_ib_mtu_len(fl_cm_req_mtu(&mad->req)), 1024);
        assert_int_equal(fl_cm_req_service(&mad->req), FL_IB_RC);
    }
}

static void take(struct tally *tally, const struct expected *e, const struct pcap_frame *frame)
{
    const uint8_t *bytes;
    uint32_t len, crc;
    uint8_t src;
    if (!roce_of(frame, &bytes, &len, &crc, &src))
        return;
    assert_true(len >= sizeof(struct fl_bth) + FL_IB_ICRC_LEN);
    struct fl_ib_packet packet;
    le32 icrc;
    memcpy(&icrc, bytes + len - FL_IB_ICRC_LEN, sizeof(icrc));
    assert_int_equal(fl_icrc_rest(crc, bytes, len), le32_get(icrc));
    assert_int_equal(fl_ib_packet_view(&packet, bytes, len - FL_IB_ICRC_LEN), 0);
    assert_int_equal(be16_get(packet.bth->pkey), FL_IB_PKEY_DEFAULT);
    tally->nr_packets++;
    tally->opcodes[packet.bth->opcode]++;
    if (fl_ib_aeth(&packet))
        tally->syndromes[fl_ib_aeth(&packet)->syndrome]++;
    if (packet.qpn == FL_IB_QP1) {
        take_mad(tally, &packet);
        return;
    }
    struct flow_state *flow = flow_of(tally, src, packet.qpn, packet.op->attr & FL_IB_RESPONSE);
    assert_true(e->gaps || fl_ib_may_follow(flow->prev, packet.bth->opcode));
    flow->prev = packet.bth->opcode;
    if (!(packet.op->attr & FL_IB_ENDS))
        assert_int_equal(packet.payload_len, 1024);
}

static unsigned sum_equal(const unsigned *got, size_t nr_got, const struct count *want, size_t nr_want)
{
    unsigned sum = 0, expected = 0;
    for (size_t i = 0; i < nr_got; i++)
        sum += got[i];
    for (size_t i = 0; i < nr_want; i++) {
        expected += want[i].nr;
        if (want[i].nr)
            assert_int_equal(got[want[i].what], want[i].nr);
    }
    assert_int_equal(sum, expected);
    return sum;
}

static void decodes_whole(void **state)
{
    const struct expected *e = *state;
    struct tally tally;
    struct pcap pcap;
    char path[4096];
    memset(&tally, 0, sizeof(tally));
    snprintf(path, sizeof(path), "%s/%s.pcap", folder, e->name);
    assert_int_equal(pcap_load(&pcap, path), 0);
    for (size_t i = 0; i < pcap.nr_frames; i++)
        take(&tally, e, &pcap.frames[i]);
    pcap_free(&pcap);
    unsigned nr = sum_equal(tally.opcodes, 256, e->opcodes, MAX_KINDS);
    assert_int_equal(nr, tally.nr_packets);
    sum_equal(tally.mads, 0x20, e->mads, sizeof(e->mads) / sizeof(e->mads[0]));
    sum_equal(tally.syndromes, 256, e->syndromes, sizeof(e->syndromes) / sizeof(e->syndromes[0]));
}

int main(int argc, char **argv)
{
    enum { NR = sizeof(captures) / sizeof(captures[0]) };
    struct CMUnitTest tests[NR];
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    for (size_t i = 0; i < NR; i++)
        tests[i] = (struct CMUnitTest){captures[i].name, decodes_whole, NULL, NULL, (void *)&captures[i]};
    return cmocka_run_group_tests_name("roce captures", tests, NULL, NULL);
}
