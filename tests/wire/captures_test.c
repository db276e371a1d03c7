/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every NVMe/TCP capture of tests/captures, decoded whole, each a test of its own name. The numbers expected
 * here are tshark's, not ours. Argument: the folder of the captures.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/unit.h"
#include "tls.h"
#include "walk.h"

struct expected {
    const char *name; /* without .pcap */
    unsigned nr_flows;
    /* ICReq, ICResp, -, -, CapsuleCmd, CapsuleResp, H2CData, C2HData, -, R2T */
    unsigned nr_pdus[FL_TCP_NR_TYPES];
    struct {
        uint16_t wire;
        unsigned nr;
    } status[WALK_MAX_STATUS];
    unsigned nr_hdgst, nr_ddgst;
    unsigned nr_connect, nr_auth, nr_resv, nr_disc_entries, nr_pattern_blocks; /* payloads decoded */
    unsigned nr_tls;                                                           /* connections under TLS */
    const char *file;                                                          /* when it is not name.pcap */
};

static const struct expected captures[] = {
    {.name = "tcp-ana",
     .nr_flows = 4,
     .nr_connect = 4,
     .nr_pattern_blocks = 40,
     .nr_pdus = {4, 4, 0, 0, 82, 81, 0, 48, 0, 0},
     .status = {{0x800c, 1}}},
    {.name = "tcp-auth",
     .nr_flows = 3,
     .nr_connect = 3,
     .nr_auth = 12,
     .nr_pattern_blocks = 16,
     .nr_pdus = {3, 3, 0, 0, 45, 45, 0, 24, 0, 0},
     .status = {{0x800c, 1}}},
    {.name = "tcp-auth-both",
     .nr_flows = 3,
     .nr_connect = 3,
     .nr_auth = 14,
     .nr_pattern_blocks = 16,
     .nr_pdus = {3, 3, 0, 0, 47, 47, 0, 24, 0, 0},
     .status = {{0x800c, 1}}},
    {.name = "tcp-basic",
     .nr_flows = 3,
     .nr_connect = 3,
     .nr_disc_entries = 2,
     .nr_pattern_blocks = 272,
     .nr_pdus = {3, 3, 0, 0, 52, 52, 1, 25, 0, 1},
     .status = {{0x800c, 2}}},
    {.name = "tcp-cmds-admin",
     .nr_flows = 2,
     .nr_connect = 2,
     .nr_pdus = {2, 2, 0, 0, 61, 61, 0, 34, 0, 0},
     .status = {{0x800c, 1}, {0xc002, 1}, {0xc004, 4}, {0xc01e, 1}}},
    {.name = "tcp-cmds-events",
     .nr_flows = 4,
     .nr_connect = 4,
     .nr_pdus = {4, 4, 0, 0, 82, 82, 0, 53, 0, 0},
     .status = {{0x800c, 2}}},
    {.name = "tcp-cmds-io",
     .nr_flows = 2,
     .nr_connect = 2,
     .nr_pattern_blocks = 32,
     .nr_pdus = {2, 2, 0, 0, 62, 62, 0, 36, 0, 0},
     .status = {{0x800c, 1}, {0xc002, 4}, {0xc004, 2}, {0xc00c, 2}}},
    {.name = "tcp-digest",
     .nr_flows = 3,
     .nr_connect = 3,
     .nr_disc_entries = 2,
     .nr_pattern_blocks = 272,
     .nr_pdus = {3, 3, 0, 0, 52, 52, 1, 25, 0, 1},
     .status = {{0x800c, 2}},
     .nr_hdgst = 97,
     .nr_ddgst = 25},
    {.name = "tcp-disc",
     .nr_flows = 1,
     .nr_connect = 1,
     .nr_disc_entries = 5,
     .nr_pdus = {1, 1, 0, 0, 23, 23, 0, 7, 0, 0},
     .status = {{0x800c, 1}}},
    {.name = "tcp-large",
     .nr_flows = 2,
     .nr_connect = 2,
     .nr_pattern_blocks = 4096,
     .nr_pdus = {2, 2, 0, 0, 33, 33, 1, 18, 0, 1},
     .status = {{0x800c, 1}},
     .file = "tcp-large.pcap.gz"},
    {.name = "tcp-passthru",
     .nr_flows = 2,
     .nr_connect = 2,
     .nr_pattern_blocks = 28,
     .nr_pdus = {2, 2, 0, 0, 53, 53, 0, 25, 0, 0},
     .status = {{0x050a, 1}, {0x8002, 4}, {0x800c, 1}}},
    {.name = "tcp-refused",
     .nr_flows = 5,
     .nr_connect = 4,
     .nr_pdus = {4, 4, 0, 0, 32, 32, 0, 17, 0, 0},
     .status = {{0x800c, 1}, {0x8304, 1}, {0x8308, 1}}},
    {.name = "tcp-resv",
     .nr_flows = 4,
     .nr_connect = 4,
     .nr_resv = 15,
     .nr_pattern_blocks = 3,
     .nr_pdus = {4, 4, 0, 0, 82, 82, 0, 40, 0, 0},
     .status = {{0x800c, 2}, {0x8106, 1}, {0xc106, 2}}},
    {.name = "tcp-tls",
     .nr_flows = 3,
     .nr_connect = 2,
     .nr_pattern_blocks = 16,
     .nr_pdus = {3, 2, 0, 0, 33, 33, 0, 19, 0, 0},
     .status = {{0x800c, 1}},
     .nr_tls = 2},
    {.name = "tcp-tls-libnvme1.13",
     .nr_flows = 3,
     .nr_connect = 2,
     .nr_pattern_blocks = 16,
     .nr_pdus = {3, 2, 0, 0, 32, 32, 0, 18, 0, 0},
     .status = {{0x800c, 1}},
     .nr_tls = 2},
};

static const char *folder;

/* Opens a capture; shuffle: its frames in another order and every third one twice, which must not matter. */
static void load(const struct expected *e, bool shuffle, struct flows *flows)
{
    char path[4096], keylog[4096];
    struct pcap pcap;
    unsigned nr_tls = 0;
    if (e->file)
        snprintf(path, sizeof(path), "%s/%s", folder, e->file);
    else
        snprintf(path, sizeof(path), "%s/%s.pcap", folder, e->name);
    snprintf(keylog, sizeof(keylog), "%s/%s.keylog", folder, e->name);
    assert_int_equal(pcap_load(&pcap, path), 0);
    if (shuffle) {
        size_t nr = pcap.nr_frames, out = 0;
        struct pcap_frame *mixed = malloc(2 * nr * sizeof(*mixed));
        assert_non_null(mixed);
        for (size_t i = nr; i--;) {
            size_t other = (i * 7919 + 13) % (i + 1);
            struct pcap_frame taken = pcap.frames[other];
            pcap.frames[other] = pcap.frames[i];
            mixed[out++] = taken;
            if (i % 3 == 0)
                mixed[out++] = taken;
        }
        free(pcap.frames);
        pcap.frames = mixed;
        pcap.nr_frames = out;
    }
    assert_int_equal(flows_collect(flows, &pcap), 0);
    for (size_t i = 0; i < flows->nr; i++)
        if (tls_is_tls(&flows->flow[i])) {
            assert_int_equal(tls_open(&flows->flow[i], keylog), 0);
            nr_tls++;
        }
    assert_int_equal(nr_tls, e->nr_tls);
    pcap_free(&pcap);
}

static unsigned status_nr(const struct tally *tally, uint16_t wire)
{
    for (size_t i = 0; i < WALK_MAX_STATUS; i++)
        if (tally->status[i].nr && tally->status[i].wire == wire)
            return tally->status[i].nr;
    return 0;
}

static void decodes_whole(void **state)
{
    const struct expected *e = *state;
    struct tally tally = {0};
    struct flows flows;
    unsigned nr_failed = 0, nr_want = 0;

    load(e, false, &flows);
    assert_int_equal(flows.nr, e->nr_flows);
    for (size_t i = 0; i < flows.nr; i++)
        walk_connection(&flows.flow[i], e->name, i, &tally);
    flows_free(&flows);

    for (int type = 0; type < FL_TCP_NR_TYPES; type++)
        if (tally.nr_pdus[type] != e->nr_pdus[type]) {
            print_error("%s: %u PDUs of type %s instead of %u\n", e->name, tally.nr_pdus[type],
                        fl_tcp_type_text((uint8_t)type), e->nr_pdus[type]);
            fail();
        }
    assert_int_equal(tally.nr_hdgst, e->nr_hdgst);
    assert_int_equal(tally.nr_ddgst, e->nr_ddgst);
    for (size_t i = 0; i < WALK_MAX_STATUS; i++) {
        nr_failed += tally.status[i].nr;
        nr_want += e->status[i].nr;
        if (e->status[i].nr)
            assert_int_equal(status_nr(&tally, e->status[i].wire), e->status[i].nr);
    }
    assert_int_equal(nr_failed, nr_want);
    assert_int_equal(tally.nr_connect, e->nr_connect);
    assert_int_equal(tally.nr_auth, e->nr_auth);
    assert_int_equal(tally.nr_resv, e->nr_resv);
    assert_int_equal(tally.nr_disc_entries, e->nr_disc_entries);
    assert_int_equal(tally.nr_pattern_blocks, e->nr_pattern_blocks);
}

static void any_order_of_frames(void **state)
{
    struct flows straight, mixed;
    load(&captures[3], false, &straight);
    load(&captures[3], true, &mixed);
    assert_true(mixed.nr_repeated > straight.nr_repeated);
    assert_int_equal(straight.nr, mixed.nr);
    for (size_t i = 0; i < straight.nr; i++) {
        const struct flow *a = &straight.flow[i], *b = NULL;
        for (size_t k = 0; k < mixed.nr; k++)
            if (mixed.flow[k].port[0] == a->port[0])
                b = &mixed.flow[k];
        assert_non_null(b);
        for (int dir = 0; dir < 2; dir++) {
            assert_int_equal(a->half[dir].len, b->half[dir].len);
            assert_memory_equal(a->half[dir].bytes, b->half[dir].bytes, a->half[dir].len);
        }
    }
    flows_free(&straight);
    flows_free(&mixed);
}

/* A byte changed anywhere in a stream is noticed by TLS. */
static void changed_record_does_not_open(void **state)
{
    char path[4096], keylog[4096];
    struct pcap pcap;
    struct flows flows;
    snprintf(path, sizeof(path), "%s/tcp-tls.pcap", folder);
    snprintf(keylog, sizeof(keylog), "%s/tcp-tls.keylog", folder);
    assert_int_equal(pcap_load(&pcap, path), 0);
    assert_int_equal(flows_collect(&flows, &pcap), 0);
    flows.flow[0].half[FLOW_BACK].bytes[3000] ^= 1;
    assert_int_equal(tls_open(&flows.flow[0], keylog), -EBADMSG);
    flows_free(&flows);
    pcap_free(&pcap);
}

int main(int argc, char **argv)
{
    enum { NR = sizeof(captures) / sizeof(captures[0]) };
    struct CMUnitTest tests[NR + 2] = {
        [NR] = cmocka_unit_test(any_order_of_frames),
        [NR + 1] = cmocka_unit_test(changed_record_does_not_open),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    folder = argv[1];
    for (size_t i = 0; i < NR; i++)
        tests[i] = (struct CMUnitTest){captures[i].name, decodes_whole, NULL, NULL, (void *)&captures[i]};
    return cmocka_run_group_tests_name("captures", tests, NULL, NULL);
}
