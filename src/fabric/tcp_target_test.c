/* SPDX-License-Identifier: Apache-2.0 */
/* The target's engine over a pair, with a host and a target that do what the test says. */
#include "fabric/tcp_target.h"

#include "base/crc.h"
#include "fabric/test_world.h"

static void expect_closed(struct world *w)
{
    fl_pair_run(w->pair);
    assert_true(fl_pair_closed(w->pair));
}

/* ---- set-up ---- */

static void ic_exchange(void **state)
{
    for (int asked = 0; asked < 4; asked++)
        for (int allowed = 0; allowed < 4; allowed++) {
            struct fl_listen_options options = {.handler = &script_handler,
                                                .hdgst = allowed & 1,
                                                .ddgst = allowed & 2,
                                                .max_h2c_len = 65536,
                                                .pda = 16};
            struct world *w = world_create(&options, 4);
            struct fl_conn_info info;
            union fl_tcp_pdu *got;

            test_host_ic(&w->host, asked & 1, asked & 2, 8, 1);
            got = &w->host.pdus[0].pdu;
            assert_int_equal(got->ic_resp.dgst, asked & allowed);
            assert_int_equal(got->ic_resp.cpda, 3);
            assert_int_equal(le32_get(got->ic_resp.maxh2cdata), 65536);
            fl_conn_info(w->script.conn, &info);
            assert_int_equal(info.hdgst_asked, asked & 1);
            assert_int_equal(info.ddgst, (asked & allowed) >> 1);
            assert_int_equal(info.pda_host, 8);
            assert_int_equal(info.pda_ctrl, 16);
            send_capsule_write(w, 1, 0, 512, 0);
            test_host_expect_resp(&w->host, 1, 0);
            send_read(w, 2, 77, 512, 0);
            expect_data(w, 2, 77, 512, FL_TCP_F_DATA_LAST);
            test_host_expect_resp(&w->host, 2, 0);
            assert_int_equal(w->script.nr_wrong_data, 0);
            world_destroy(w);
        }
}

static void refuses_a_wrong_start(void **state)
{
    struct {
        uint8_t at, value, fes;
    } const cases[] = {
        {0, FL_TCP_CMD, FL_TCP_FES_SEQUENCE},
        {0, FL_TCP_IC_RESP, FL_TCP_FES_HEADER},
        {0, 8, FL_TCP_FES_HEADER},
        {1, 1, FL_TCP_FES_HEADER},
        {2, 127, FL_TCP_FES_HEADER},
        {4, 127, FL_TCP_FES_HEADER},
        {8, 1, FL_TCP_FES_UNSUPPORTED},
        {10, 32, FL_TCP_FES_HEADER},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct world *w = world_create(&plain, 4);
        uint8_t req[128] = {0, 0, 128, 0, 128};
        size_t left;

        req[cases[i].at] = cases[i].value;
        left = test_host_raw(&w->host, req, sizeof(req));
        assert_true(left <= sizeof(req));
        test_host_take(&w->host);
        test_host_expect_term(&w->host, (enum fl_tcp_fes)cases[i].fes);
        expect_closed(w);
        world_destroy(w);
    }
}

static void second_ic_req_is_out_of_sequence(void **state)
{
    struct world *w = world_create(&plain, 4);
    uint8_t req[128] = {0, 0, 128, 0, 128};

    test_host_ic(&w->host, false, false, 4, 1);
    test_host_raw(&w->host, req, sizeof(req));
    test_host_take(&w->host);
    test_host_expect_term(&w->host, FL_TCP_FES_SEQUENCE);
    expect_closed(w);
    world_destroy(w);
}

static void host_says_goodbye(void **state)
{
    struct world *w = world_create(&plain, 4);
    uint8_t term[24] = {FL_TCP_H2C_TERM, 0, 24, 0, 24, 0, 0, 0, FL_TCP_FES_RANGE};

    test_host_ic(&w->host, true, true, 4, 1);
    test_host_raw(&w->host, term, sizeof(term));
    test_host_take(&w->host);
    test_host_expect_none(&w->host);
    expect_closed(w);
    assert_non_null(strstr(w->script.why, "data transfer out of range"));
    world_destroy(w);
}

/* ---- reads ---- */

static void success_flag_only_when_it_may(void **state)
{
    struct world *w = world_create(&plain, 4);

    test_host_ic(&w->host, true, true, 4, 1);
    w->script.conn->sq_flow_off = true;
    send_read(w, 7, 5, 4096, 0);
    expect_data(w, 7, 5, 4096, FL_TCP_F_DATA_LAST | FL_TCP_F_DATA_SUCCESS);
    test_host_expect_none(&w->host);
    send_read(w, 8, 5, 4096, SCRIPT_RESULT);
    expect_data(w, 8, 5, 4096, FL_TCP_F_DATA_LAST);
    test_host_expect_resp(&w->host, 8, 0);
    send_read(w, 9, 5, 4096, SCRIPT_FAIL);
    test_host_expect_resp(&w->host, 9, FL_NVME_SC_INTERNAL);
    send_flush(w, 10, 0);
    test_host_expect_resp(&w->host, 10, 0);
    test_host_expect_none(&w->host);
    world_destroy(w);
}

static void command_is_released_when_its_data_left(void **state)
{
    struct world *w = world_create(&plain, 1);
    struct fl_nvme_sqe sqe = read_sqe(1, 0, 4096, 0);
    uint8_t buf[2000];

    test_host_ic(&w->host, false, false, 4, 1);
    test_host_cmd(&w->host, &sqe, NULL, 0);
    fl_tcp_stream_tx_done(&w->host.s, test_host_raw(&w->host, w->host.s.tx_buf, 72));
    assert_int_equal(fl_pair_pending(w->pair), 24 + 4096 + 24);
    assert_int_equal(fl_pair_take(w->pair, buf, 2000), 2000);
    assert_int_equal(fl_pair_take(w->pair, buf, 2000), 2000);
    assert_int_equal(fl_pair_take(w->pair, buf, 119), 119);
    assert_int_equal(w->script.nr_released, 0);
    assert_int_equal(fl_pair_take(w->pair, buf, 1), 1);
    assert_int_equal(w->script.nr_released, 1);
    assert_int_equal(fl_pair_take(w->pair, buf, 2000), 24);
    world_destroy(w);
}

/* A slot is the command's until its data has left, whatever identifiers the host gives out again. */
static void identifier_used_again_at_once(void **state)
{
    struct world *w = world_create(&plain, 2);

    test_host_ic(&w->host, true, true, 4, 1);
    for (int i = 0; i < 50; i++) {
        send_read(w, 3, (uint32_t)i, 4096, 0);
        expect_data(w, 3, (uint32_t)i, 4096, FL_TCP_F_DATA_LAST);
        test_host_expect_resp(&w->host, 3, 0);
        send_write(w, 3, (uint32_t)i, 8192, 0);
        test_host_data(&w->host, 3, expect_r2t(w, 3, 0, 8192), 0, script_pattern + i, 8192, true);
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, 3, 0);
    }
    assert_int_equal(w->script.nr_wrong_data, 0);
    world_destroy(w);
}

/* ---- writes ---- */

static void write_by_r2t(void **state)
{
    struct world *w = world_create(&plain, 4);
    uint16_t tag;

    test_host_ic(&w->host, false, true, 4, 1);
    send_write(w, 1, 9, 200000, 0);
    tag = expect_r2t(w, 1, 0, 200000);
    test_host_data(&w->host, 1, tag, 0, script_pattern + 9, 70000, false);
    test_host_data(&w->host, 1, tag, 70000, script_pattern + 9 + 70000, 130000, true);
    test_host_pump(&w->host);
    test_host_expect_resp(&w->host, 1, 0);
    assert_int_equal(w->script.nr_fetched, 1);
    assert_int_equal(w->script.nr_wrong_data, 0);
    world_destroy(w);
}

static void several_r2ts_outstanding(void **state)
{
    struct fl_listen_options options = plain;
    struct world *w;
    uint16_t tags[5];
    const uint32_t len = 5 * 65536 - 512;

    options.max_h2c_len = 65536;
    options.maxr2t = 3;
    w = world_create(&options, 4);
    test_host_ic(&w->host, true, false, 4, 16);
    send_write(w, 1, 9, len, 0);
    for (uint32_t i = 0; i < 3; i++)
        tags[i] = expect_r2t(w, 1, i * 65536, 65536);
    test_host_expect_none(&w->host);
    /* each R2T is a window of its own: the host may serve them in any order */
    test_host_data(&w->host, 1, tags[1], 65536, script_pattern + 9 + 65536, 65536, true);
    test_host_pump(&w->host);
    tags[3] = expect_r2t(w, 1, 3 * 65536, 65536);
    test_host_data(&w->host, 1, tags[0], 0, script_pattern + 9, 30000, false);
    test_host_pump(&w->host);
    test_host_expect_none(&w->host);
    test_host_data(&w->host, 1, tags[3], 3 * 65536, script_pattern + 9 + 3 * 65536, 65536, true);
    test_host_pump(&w->host);
    tags[4] = expect_r2t(w, 1, 4 * 65536, 65536 - 512);
    test_host_data(&w->host, 1, tags[4], 4 * 65536, script_pattern + 9 + 4 * 65536, 65536 - 512, true);
    test_host_data(&w->host, 1, tags[0], 30000, script_pattern + 9 + 30000, 65536 - 30000, true);
    test_host_data(&w->host, 1, tags[2], 2 * 65536, script_pattern + 9 + 2 * 65536, 65536, true);
    test_host_pump(&w->host);
    test_host_expect_resp(&w->host, 1, 0);
    assert_int_equal(w->script.nr_wrong_data, 0);
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < i; k++)
            assert_int_not_equal(tags[i], tags[k]);
    world_destroy(w);
}

static void sgl_forms(void **state)
{
    struct {
        uint8_t opcode, type;
        uint32_t len, capsule;
        uint64_t addr;
        fl_nvme_status status;
    } const cases[] = {
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_OFFSET, 512, 512, 0, 0},
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_OFFSET, 512, 512, 16, FL_NVME_SC_SGL_INVALID_OFFSET},
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_OFFSET, 512, 512, UINT64_MAX, FL_NVME_SC_SGL_INVALID_OFFSET},
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_OFFSET, 1024, 512, 0, FL_NVME_SC_SGL_INVALID_DATA},
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_OFFSET, 0xffffffff, 512, 0, FL_NVME_SC_SGL_INVALID_DATA},
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_OFFSET, 512, 1024, 0, FL_NVME_SC_SGL_INVALID_DATA},
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_OFFSET, 512, 0, 0, FL_NVME_SC_SGL_INVALID_DATA},
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_TRANSPORT, 512, 512, 0, FL_NVME_SC_SGL_INVALID_DATA},
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_DATA_BLOCK, 512, 0, 0x1000, FL_NVME_SC_SGL_INVALID_TYPE},
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_KEYED, 512, 0, 0x1000, FL_NVME_SC_SGL_INVALID_TYPE},
        {FL_NVME_CMD_WRITE, FL_NVME_SGL_LAST_SEGMENT_OFFSET, 16, 0, 0, FL_NVME_SC_SGL_INVALID_TYPE},
        {FL_NVME_CMD_READ, FL_NVME_SGL_OFFSET, 512, 0, 0, FL_NVME_SC_SGL_INVALID_DATA},
        {FL_NVME_CMD_FLUSH, FL_NVME_SGL_DATA_BLOCK, 0, 0, 0, 0},
        {FL_NVME_CMD_FLUSH, FL_NVME_SGL_KEYED, 512, 0, 0x1000, 0},
        {FL_NVME_CMD_FABRICS, FL_NVME_SGL_DATA_BLOCK, 0, 0, 0, 0},
        {FL_NVME_CMD_FABRICS, FL_NVME_SGL_TRANSPORT, 0, 0, 0, 0},
    };
    struct world *w = world_create(&plain, 4);

    test_host_ic(&w->host, false, false, 4, 1);
    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fl_nvme_sqe sqe = test_host_sqe(cases[i].opcode, (uint16_t)i, cases[i].type, cases[i].len);

        sqe.sgl.addr = le64_of(cases[i].addr);
        test_host_cmd(&w->host, &sqe, script_pattern, cases[i].capsule);
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, (uint16_t)i, cases[i].status);
    }
    assert_int_equal(w->script.nr_wrong_data, 0);
    world_destroy(w);
}

/* ---- limits ---- */

static void more_commands_than_agreed(void **state)
{
    struct world *w = world_create(&plain, 3);

    test_host_ic(&w->host, false, false, 4, 1);
    for (uint16_t i = 0; i < 3; i++)
        send_flush(w, i, SCRIPT_HOLD);
    send_flush(w, 9, 0);
    test_host_expect_term(&w->host, FL_TCP_FES_SEQUENCE);
    assert_int_equal(w->script.nr_commands, 3);
    world_destroy(w);
}

/* A host that sends and sends but never takes its answers is not read any more; nothing grows. */
static void host_that_does_not_listen(void **state)
{
    struct world *w = world_create(&plain, 4);
    struct fl_nvme_sqe sqe = test_host_sqe(FL_NVME_CMD_FLUSH, 1, FL_NVME_SGL_TRANSPORT, 0);
    struct fl_tcp_cmd pdu = {.sqe = sqe};
    int accepted = 0, taken = 0;
    uint8_t buf[24];

    test_host_ic(&w->host, false, false, 4, 1);
    fl_tcp_hdr_set(&pdu.hdr, FL_TCP_CMD, 0, 72, false, false, 4, 0);
    for (int i = 0; i < 100000; i++)
        if (fl_pair_feed(w->pair, &pdu, sizeof(pdu)) == sizeof(pdu))
            accepted++;
    assert_true(accepted > 4 && accepted < 2000);
    assert_int_equal(fl_pair_pending(w->pair), w->script.nr_commands * 24);
    while (fl_pair_take(w->pair, buf, sizeof(buf)) == sizeof(buf))
        taken++;
    assert_int_equal(taken, accepted);
    assert_int_equal(w->script.nr_commands, accepted);
    world_destroy(w);
}

static void target_closes(void **state)
{
    for (int held = 0; held < 2; held++) {
        struct world *w = world_create(&plain, 8);

        test_host_ic(&w->host, false, false, 4, 1);
        for (uint16_t i = 0; i < 3; i++)
            send_flush(w, i, SCRIPT_TILL_BROKEN);
        send_write(w, 3, 0, 100000, 0); /* its data never comes */
        expect_r2t(w, 3, 0, 100000);
        if (held)
            send_flush(w, 4, SCRIPT_HOLD);
        send_read(w, 5, 0, 4096, SCRIPT_CLOSE);
        /* what was complete before still reaches the host */
        expect_data(w, 5, 0, 4096, FL_TCP_F_DATA_LAST);
        test_host_expect_resp(&w->host, 5, 0);
        test_host_expect_none(&w->host);
        assert_int_equal(w->script.nr_broken, 1);
        assert_int_equal(fl_pair_closed(w->pair), !held);
        if (held)
            assert_true(script_go(&w->script));
        expect_closed(w);
        assert_string_equal(w->script.why, "as the script says");
        assert_int_equal(fl_pair_feed(w->pair, "x", 1), 0);
        world_destroy(w);
    }
}

static void target_closes_from_outside(void **state)
{
    struct world *w = world_create(&plain, 8);

    test_host_ic(&w->host, false, false, 4, 1);
    send_flush(w, 1, SCRIPT_TILL_BROKEN);
    fl_conn_close(w->script.conn, "time is up");
    fl_conn_close(w->script.conn, "not the first reason");
    assert_int_equal(w->script.nr_broken, 0); /* never inside the call */
    assert_int_equal(w->script.nr_closed, 0);
    fl_pair_run(w->pair);
    assert_int_equal(w->script.nr_broken, 1);
    assert_int_equal(w->script.nr_closed, 1);
    assert_string_equal(w->script.why, "time is up");
    world_destroy(w);
}

/* ---- cases from reports about other products ---- */

static void case_T4_header_length_lies(void **state)
{
    static const uint8_t types[] = {FL_TCP_IC_REQ, FL_TCP_H2C_TERM, FL_TCP_CMD, FL_TCP_H2C_DATA};

    for (size_t i = 0; i < FL_ARRAY_LEN(types); i++) {
        for (int hlen = 0; hlen < 256; hlen++) {
            struct world *w;
            uint8_t pdu[300] = {types[i], 0, (uint8_t)hlen, 0, 0x2c, 1};

            if (hlen == fl_tcp_hlen(types[i]))
                continue;
            w = world_create(&plain, 4);
            if (types[i] != FL_TCP_IC_REQ) {
                test_host_ic(&w->host, true, true, 4, 1);
                pdu[1] = types[i] == FL_TCP_H2C_TERM ? 0 : FL_TCP_F_HDGST;
            }
            test_host_raw(&w->host, pdu, sizeof(pdu));
            test_host_take(&w->host);
            test_host_expect_term(&w->host, FL_TCP_FES_HEADER);
            expect_closed(w);
            assert_int_equal(w->script.nr_commands, 0);
            world_destroy(w);
        }
    }
}

static void case_T5_data_nobody_asked_for(void **state)
{
    for (int what = 0; what < 6; what++) {
        struct world *w = world_create(&plain, 4);
        uint16_t tag = 0;

        test_host_ic(&w->host, false, false, 4, 1);
        switch (what) {
        case 0: /* no tag was ever issued */
            test_host_data(&w->host, 1, 0, 0, script_pattern, 512, true);
            break;
        case 1: /* a tag far outside */
            test_host_data(&w->host, 1, 0xffff, 0, script_pattern, 512, true);
            break;
        case 2: /* the command is there, but no R2T was sent for it */
            send_write(w, 1, 0, 512, SCRIPT_HOLD);
            test_host_data(&w->host, 1, 0, 0, script_pattern, 512, true);
            break;
        case 3: /* the R2T was served already, the command is not complete */
        case 4: /* ... and it is */
            send_write(w, 1, 0, 512, what == 3 ? SCRIPT_HOLD_DATA : 0);
            tag = expect_r2t(w, 1, 0, 512);
            test_host_data(&w->host, 1, tag, 0, script_pattern, 512, true);
            test_host_pump(&w->host);
            if (what == 4)
                test_host_expect_resp(&w->host, 1, 0);
            test_host_data(&w->host, 1, tag, 0, script_pattern, 512, true);
            break;
        case 5: /* right tag, another command's identifier */
            send_write(w, 1, 0, 512, 0);
            test_host_data(&w->host, 2, expect_r2t(w, 1, 0, 512), 0, script_pattern, 512, true);
            break;
        }
        test_host_pump(&w->host);
        test_host_expect_term(&w->host, FL_TCP_FES_HEADER);
        world_destroy(w);
    }
}

/* A tag is new each time, so that data for an R2T of the past is not taken for the present one. */
static void case_T5_old_tag(void **state)
{
    struct world *w = world_create(&plain, 1);
    uint16_t old;

    test_host_ic(&w->host, false, false, 4, 1);
    send_write(w, 1, 0, 512, 0);
    old = expect_r2t(w, 1, 0, 512);
    test_host_data(&w->host, 1, old, 0, script_pattern, 512, true);
    test_host_pump(&w->host);
    test_host_expect_resp(&w->host, 1, 0);
    send_write(w, 1, 0, 512, 0);
    assert_int_not_equal(expect_r2t(w, 1, 0, 512), old);
    test_host_data(&w->host, 1, old, 0, script_pattern, 512, true);
    test_host_pump(&w->host);
    test_host_expect_term(&w->host, FL_TCP_FES_HEADER);
    world_destroy(w);
}

static void case_T6_data_out_of_range(void **state)
{
    struct {
        uint32_t off, len, datal;
        bool last;
        uint8_t fes;
    } const cases[] = {
        {10000, 512, 512, true, FL_TCP_FES_RANGE},      {9728, 512, 512, true, FL_TCP_FES_RANGE},
        {0xfffffe00, 512, 512, true, FL_TCP_FES_RANGE}, {0, 10004, 10004, true, FL_TCP_FES_RANGE},
        {4, 512, 512, false, FL_TCP_FES_RANGE},         {0, 512, 0, false, FL_TCP_FES_HEADER},
        {0, 512, 516, false, FL_TCP_FES_HEADER},        {0, 512, 0xffffffff, false, FL_TCP_FES_HEADER},
        {0, 512, 508, false, FL_TCP_FES_HEADER},        {0, 512, 512, true, FL_TCP_FES_HEADER},
        {0, 10000, 10000, false, FL_TCP_FES_HEADER},    {0, 65540, 65540, false, FL_TCP_FES_LIMIT},
        {0, 1 << 20, 1 << 20, false, FL_TCP_FES_LIMIT},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(cases); i++) {
        struct fl_listen_options options = plain;
        struct world *w;

        options.max_h2c_len = 65536;
        w = world_create(&options, 4);
        test_host_ic(&w->host, false, false, 4, 1);
        send_write(w, 1, 0, cases[i].len > 65536 ? 2000000 : 10000, 0);
        test_host_data(&w->host, 1, expect_r2t(w, 1, 0, cases[i].len > 65536 ? 2000000 : 10000), cases[i].off,
                       script_pattern, cases[i].len, cases[i].last);
        /* the header as it is queued, before it is sent */
        ((struct fl_tcp_data *)w->host.s.segs[w->host.s.seg_head].ptr)->datal = le32_of(cases[i].datal);
        test_host_pump(&w->host);
        test_host_expect_term(&w->host, (enum fl_tcp_fes)cases[i].fes);
        assert_int_equal(w->script.nr_wrong_data, 0);
        world_destroy(w);
    }
}

static void case_T6_data_goes_backwards(void **state)
{
    struct world *w = world_create(&plain, 4);
    uint16_t tag;

    test_host_ic(&w->host, false, false, 4, 1);
    send_write(w, 1, 0, 10000, 0);
    tag = expect_r2t(w, 1, 0, 10000);
    test_host_data(&w->host, 1, tag, 0, script_pattern, 4096, false);
    test_host_pump(&w->host);
    test_host_data(&w->host, 1, tag, 0, script_pattern, 4096, false);
    test_host_pump(&w->host);
    test_host_expect_term(&w->host, FL_TCP_FES_RANGE);
    world_destroy(w);
}

/* Nothing is reserved by the number that the host sends: it is the target that says how much it wants. */
static void case_T6_sgl_of_4_gib(void **state)
{
    struct world *w = world_create(&plain, 4);

    test_host_ic(&w->host, false, false, 4, 1);
    send_write(w, 1, 0, 0xffffffff, 0);
    test_host_expect_resp(&w->host, 1, FL_NVME_SC_SGL_INVALID_DATA);
    assert_int_equal(w->script.last_sgl_len, 0xffffffff);
    assert_int_equal(w->script.nr_fetched, 0);
    world_destroy(w);
}

static void case_T7_data_pdu_at_the_limit(void **state)
{
    static const size_t chunks[] = {0, 1, 12, 23, 24, 25, 4096, 131096, 131097};
    static const uint32_t limit = 131072;

    for (size_t i = 0; i < FL_ARRAY_LEN(chunks); i++) {
        struct fl_listen_options options = plain;
        struct world *w;
        uint16_t tag;

        options.max_h2c_len = limit;
        w = world_create(&options, 4);
        w->host.feed_chunk = chunks[i];
        test_host_ic(&w->host, i % 2, i % 3 == 0, 4, 1);
        for (uint32_t len = limit - 4; len <= limit; len += 4) {
            send_write(w, 1, 0, len, 0);
            tag = expect_r2t(w, 1, 0, len);
            test_host_data(&w->host, 1, tag, 0, script_pattern, len, true);
            test_host_pump(&w->host);
            test_host_expect_resp(&w->host, 1, 0);
        }
        send_write(w, 2, 0, limit + 512, 0);
        tag = expect_r2t(w, 2, 0, limit + 512);
        test_host_data(&w->host, 2, tag, 0, script_pattern, limit, false);
        test_host_data(&w->host, 2, tag, limit, script_pattern + limit, 512, true);
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, 2, 0);
        assert_int_equal(w->script.nr_wrong_data, 0);
        world_destroy(w);
    }
}

/* The data of one command is wrong while 31 others run: it fails, they do not. */
static void case_T11_data_digest_error_fails_one_command(void **state)
{
    for (int in_capsule = 0; in_capsule < 2; in_capsule++) {
        struct world *w = world_create(&plain, 32);
        uint16_t tags[32];
        uint8_t bad[4096];

        test_host_ic(&w->host, true, true, 4, 1);
        for (uint16_t i = 0; i < 31; i++) {
            send_write(w, i, i, 4096, 0);
            tags[i] = expect_r2t(w, i, 0, 4096);
        }
        /* the bit flips after the digest was computed */
        memcpy(bad, script_pattern + 16, sizeof(bad));
        if (in_capsule) {
            struct fl_nvme_sqe sqe = write_sqe(31, FL_NVME_SGL_OFFSET, 16, 4096, 0);

            test_host_cmd(&w->host, &sqe, bad, sizeof(bad));
        } else {
            send_write(w, 31, 16, 4096, 0);
            test_host_data(&w->host, 31, expect_r2t(w, 31, 0, 4096), 0, bad, sizeof(bad), true);
        }
        bad[1000] ^= 4;
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, 31, FL_NVME_SC_TRANSIENT_TRANSPORT);
        for (uint16_t i = 0; i < 31; i++) {
            test_host_data(&w->host, i, tags[i], 0, script_pattern + i, 4096, true);
            test_host_pump(&w->host);
            test_host_expect_resp(&w->host, i, 0);
        }
        assert_int_equal(w->script.nr_wrong_data, 0);
        world_destroy(w);
    }
}

static uint32_t nr_asked;

/* Wrong for data from byte 7 of the pattern on. */
static uint32_t known_digest(struct fl_cmd *cmd)
{
    nr_asked++;
    return fl_crc32c(0, cmd->data, cmd->data_len) ^ (cmd->data == script_pattern + 7);
}

/* The target may know the digest of what it sends: then nobody looks at the bytes. */
static void sends_the_digest_that_the_target_knows(void **state)
{
    struct fl_handler handler = script_handler;
    struct fl_listen_options options = plain;

    handler.digest = known_digest;
    options.handler = &handler;
    for (int ddgst = 0; ddgst < 2; ddgst++) {
        struct world *w = world_create(&options, 4);
        struct test_host_pdu *got;

        nr_asked = 0;
        test_host_ic(&w->host, true, ddgst, 4, 1);
        send_read(w, 1, 5, 4096, 0);
        expect_data(w, 1, 5, 4096, FL_TCP_F_DATA_LAST);
        test_host_expect_resp(&w->host, 1, 0);
        send_read(w, 2, 7, 4096, 0);
        got = test_host_expect(&w->host, FL_TCP_C2H_DATA);
        assert_int_equal(got->digest_ok, !ddgst);
        test_host_expect_resp(&w->host, 2, 0);
        assert_int_equal(nr_asked, ddgst ? 2 : 0);
        world_destroy(w);
    }
}

static void case_T11_digest_error_in_one_of_several_pdus(void **state)
{
    struct world *w = world_create(&plain, 4);
    uint8_t bad[4096];
    uint16_t tag;

    test_host_ic(&w->host, true, true, 4, 1);
    send_write(w, 1, 0, 12288, 0);
    tag = expect_r2t(w, 1, 0, 12288);
    memcpy(bad, script_pattern, 4096);
    test_host_data(&w->host, 1, tag, 0, bad, 4096, false);
    bad[0] ^= 1;
    test_host_pump(&w->host);
    test_host_data(&w->host, 1, tag, 4096, script_pattern + 4096, 8192, true);
    test_host_pump(&w->host);
    test_host_expect_resp(&w->host, 1, FL_NVME_SC_TRANSIENT_TRANSPORT);
    send_read(w, 2, 0, 512, 0);
    expect_data(w, 2, 0, 512, FL_TCP_F_DATA_LAST);
    world_destroy(w);
}

static void case_T11_header_digest_error_ends_it(void **state)
{
    struct world *w = world_create(&plain, 4);
    struct fl_nvme_sqe sqe = test_host_sqe(FL_NVME_CMD_FLUSH, 1, FL_NVME_SGL_TRANSPORT, 0);

    test_host_ic(&w->host, true, false, 4, 1);
    test_host_cmd(&w->host, &sqe, NULL, 0);
    ((uint8_t *)w->host.s.segs[w->host.s.seg_head].ptr)[40] ^= 1;
    test_host_pump(&w->host);
    test_host_expect_term(&w->host, FL_TCP_FES_HDGST);
    assert_int_equal(w->script.nr_commands, 0);
    world_destroy(w);
}

static void case_T13_small_capsules(void **state)
{
    static const uint32_t limits[] = {0, 16, 4096, 8192};

    for (size_t i = 0; i < FL_ARRAY_LEN(limits); i++)
        for (int k = 0; k < 3; k++) {
            static const uint32_t sizes[] = {16, 512, 4096};
            struct world *w = world_create(&plain, 4);

            test_host_ic(&w->host, true, true, 4, 1);
            /* Connect comes before the limit of its queue is known. */
            send_capsule_write(w, 1, 0, 1024, SCRIPT_FETCH);
            test_host_expect_resp(&w->host, 1, 0);
            fl_conn_set_capsule_len(w->script.conn, limits[i]);
            send_write(w, 2, 0, sizes[k], 0);
            test_host_data(&w->host, 2, expect_r2t(w, 2, 0, sizes[k]), 0, script_pattern, sizes[k], true);
            test_host_pump(&w->host);
            test_host_expect_resp(&w->host, 2, 0);
            send_capsule_write(w, 3, 0, sizes[k], SCRIPT_HOLD);
            if (sizes[k] > limits[i]) {
                test_host_expect_term(&w->host, FL_TCP_FES_LIMIT);
            } else {
                script_go(&w->script);
                test_host_pump(&w->host);
                test_host_expect_resp(&w->host, 3, 0);
            }
            assert_int_equal(w->script.nr_wrong_data, 0);
            world_destroy(w);
        }
}

/* Cut while a command waits for a buffer, for its data, for more of it, is in the back end, and is being
 * sent. */
static void case_T14_cut_in_every_state(void **state)
{
    for (int what = 0; what < 8; what++)
        for (int late = 0; late < 2; late++) {
            struct world *w = world_create(&plain, 4);
            uint8_t some[100];

            test_host_ic(&w->host, true, true, 4, 1);
            switch (what) {
            case 0: /* waits for a buffer, by R2T and in the capsule */
                send_write(w, 1, 0, 4096, SCRIPT_HOLD);
                send_capsule_write(w, 2, 0, 4096, SCRIPT_HOLD);
                break;
            case 1: /* waits for data */
                send_write(w, 1, 0, 4096, late ? SCRIPT_HOLD_DATA : 0);
                break;
            case 2: /* has some of it, and some of the next PDU */
                send_write(w, 1, 0, 40960, late ? SCRIPT_HOLD_DATA : 0);
                test_host_data(&w->host, 1, expect_r2t(w, 1, 0, 40960), 0, script_pattern, 20480, false);
                test_host_pump(&w->host);
                test_host_data(&w->host, 1, le16_get(w->host.pdus[1].pdu.r2t.ttag), 20480, script_pattern,
                               20480, true);
                test_host_raw(&w->host, w->host.s.segs[w->host.s.seg_head].ptr, 28);
                test_host_raw(&w->host, script_pattern, 1000);
                break;
            case 3: /* in the back end */
                send_write(w, 1, 0, 4096, SCRIPT_HOLD_DATA);
                test_host_data(&w->host, 1, expect_r2t(w, 1, 0, 4096), 0, script_pattern, 4096, true);
                test_host_pump(&w->host);
                send_read(w, 2, 0, 4096, SCRIPT_HOLD);
                break;
            case 4: { /* data on its way to the host */
                struct fl_nvme_sqe sqe = read_sqe(1, 0, 65536, 0);

                test_host_cmd(&w->host, &sqe, NULL, 0);
                fl_tcp_stream_tx_done(&w->host.s,
                                      test_host_raw(&w->host, w->host.s.segs[w->host.s.seg_head].ptr, 76));
                assert_int_equal(fl_pair_take(w->pair, some, sizeof(some)), sizeof(some));
                break;
            }
            case 5: /* half a capsule */
                test_host_raw(&w->host, "\4\3\110\114\130\4\0\0\1", 9);
                break;
            case 6: /* waits for an event */
                send_flush(w, 1, SCRIPT_TILL_BROKEN);
                break;
            case 7: /* half a header, and nothing at all before */
                break;
            }
            fl_pair_cut(w->pair);
            assert_int_equal(w->script.nr_broken, 1);
            if (late)
                fl_pair_run(w->pair);
            world_destroy(w); /* checks that all came back */
        }
}

/* The same in the middle of a stash that is larger than the receive buffer. */
int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(ic_exchange), cmocka_unit_test(refuses_a_wrong_start),
        cmocka_unit_test(second_ic_req_is_out_of_sequence), cmocka_unit_test(host_says_goodbye),
        cmocka_unit_test(success_flag_only_when_it_may),
        cmocka_unit_test(command_is_released_when_its_data_left),
        cmocka_unit_test(identifier_used_again_at_once), cmocka_unit_test(write_by_r2t),
        cmocka_unit_test(several_r2ts_outstanding), cmocka_unit_test(sgl_forms),
        cmocka_unit_test(more_commands_than_agreed), cmocka_unit_test(host_that_does_not_listen),
        cmocka_unit_test(target_closes), cmocka_unit_test(target_closes_from_outside),
        cmocka_unit_test(case_T4_header_length_lies), cmocka_unit_test(case_T5_data_nobody_asked_for),
        cmocka_unit_test(case_T5_old_tag), cmocka_unit_test(case_T6_data_out_of_range),
        cmocka_unit_test(case_T6_data_goes_backwards), cmocka_unit_test(case_T6_sgl_of_4_gib),
        cmocka_unit_test(case_T7_data_pdu_at_the_limit),
        cmocka_unit_test(case_T11_data_digest_error_fails_one_command),
        cmocka_unit_test(sends_the_digest_that_the_target_knows),
        cmocka_unit_test(case_T11_digest_error_in_one_of_several_pdus),
        cmocka_unit_test(case_T11_header_digest_error_ends_it), cmocka_unit_test(case_T13_small_capsules),
        cmocka_unit_test(case_T14_cut_in_every_state));
}
