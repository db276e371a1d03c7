/* SPDX-License-Identifier: Apache-2.0 */
/* Data in the command capsule: used at once, put aside, received where it belongs. */
#include "fabric/tcp_target.h"

#include "fabric/test_world.h"

static void in_capsule_data_waits_for_a_buffer(void **state)
{
    struct world *w = world_create(&plain, 20);

    for (size_t chunk = 0; chunk < 5000; chunk += 700) {
        w->host.feed_chunk = chunk;
        if (!chunk)
            test_host_ic(&w->host, true, true, 4, 1);
        for (uint16_t i = 0; i < 20; i++)
            send_capsule_write(w, i, i, 8192 - i * 4, i % 3 ? SCRIPT_HOLD : SCRIPT_FETCH);
        while (script_go(&w->script))
            ;
        test_host_pump(&w->host);
        for (uint16_t i = 0; i < 20; i++)
            test_host_expect(&w->host, FL_TCP_RESP);
    }
    assert_int_equal(w->script.nr_wrong_data, 0);
    world_destroy(w);
}

/* Larger than the receive buffer: it is received where the target wants it, or where it waits. */
static void large_capsule(void **state)
{
    struct world *w = world_create(&plain, 4);

    fl_conn_set_capsule_len(w->script.conn, 300000);
    test_host_ic(&w->host, true, true, 4, 1);
    for (uint16_t i = 0; i < 3; i++) {
        send_capsule_write(w, i, i, 300000, i == 0 ? 0 : i == 1 ? SCRIPT_FETCH : SCRIPT_HOLD);
        script_go(&w->script);
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, i, 0);
    }
    assert_int_equal(w->script.nr_wrong_data, 0);
    send_capsule_write(w, 9, 0, 300004, 0);
    test_host_expect_term(&w->host, FL_TCP_FES_LIMIT);
    world_destroy(w);
}

/* Connect's data waits while the depth and the limits that it asks for are set. */
static void limits_change_while_data_waits(void **state)
{
    struct world *w = world_create(&plain, 0);

    test_host_ic(&w->host, true, true, 4, 1);
    send_capsule_write(w, 1, 100, 1024, SCRIPT_HOLD);
    assert_int_equal(fl_conn_set_depth(w->script.conn, 128), 0);
    fl_conn_set_capsule_len(w->script.conn, 65536);
    assert_int_equal(fl_conn_set_depth(w->script.conn, 256), 0);
    for (uint16_t i = 2; i < 120; i++)
        send_capsule_write(w, i, i, 8192, SCRIPT_HOLD);
    fl_conn_set_capsule_len(w->script.conn, 16);
    while (script_go(&w->script))
        ;
    test_host_pump(&w->host);
    for (uint16_t i = 1; i < 120; i++)
        test_host_expect_resp(&w->host, i, 0);
    assert_int_equal(w->script.nr_wrong_data, 0);
    assert_int_equal(fl_conn_set_depth(w->script.conn, 20000), -EINVAL);
    world_destroy(w);
}

/* A part of a capsule's PDU: its first len bytes, or all that is left. */
static void send_part(struct world *w, size_t len)
{
    struct iovec iov[8];
    int nr;

    while (len && (nr = fl_tcp_stream_tx_iov(&w->host.s, iov, 1))) {
        size_t n = test_host_raw(&w->host, iov[0].iov_base, FL_MIN(len, iov[0].iov_len));

        if (!n)
            break; /* it closed */
        fl_tcp_stream_tx_done(&w->host.s, n);
        len -= n;
    }
    test_host_take(&w->host);
}

enum { LONG = 100000 };

static struct world *world_with_long_capsules(uint32_t depth, bool ddgst)
{
    struct world *w = world_create(&plain, depth);

    fl_conn_set_capsule_len(w->script.conn, 131072);
    test_host_ic(&w->host, ddgst, ddgst, 4, 1);
    return w;
}

static void queue_capsule(struct world *w, uint16_t cid, uint32_t len, uint32_t what)
{
    struct fl_nvme_sqe sqe = write_sqe(cid, FL_NVME_SGL_OFFSET, cid, len, what);

    test_host_cmd(&w->host, &sqe, script_pattern + cid, len);
}

/* The target hears of it with the header, and has its data without a copy, whatever the pieces it comes in.
 */
static void long_capsule_is_begun_early(void **state)
{
    for (size_t part = 1; part < LONG - 128; part += 4999) {
        struct world *w = world_with_long_capsules(4, part % 2);

        queue_capsule(w, 7, LONG, 0);
        send_part(w, 128);
        assert_int_equal(w->script.nr_commands, 1);
        assert_true(w->script.last_in_capsule);
        assert_int_equal(w->script.nr_fetched, 1);
        send_part(w, part);
        test_host_expect_none(&w->host);
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, 7, 0);
        assert_int_equal(w->script.nr_wrong_data, 0);
        world_destroy(w);
    }
}

/* It asks for the data before, amid and after its coming. */
static void long_capsule_is_fetched_late(void **state)
{
    for (int when = 0; when < 3; when++) {
        struct world *w = world_with_long_capsules(4, true);

        queue_capsule(w, 7, LONG, SCRIPT_HOLD);
        queue_capsule(w, 8, LONG, SCRIPT_HOLD);
        send_part(w, 200);
        assert_int_equal(w->script.nr_commands, 1);
        if (when == 0)
            assert_true(script_go(&w->script));
        send_part(w, LONG / 2);
        if (when == 1)
            assert_true(script_go(&w->script));
        test_host_expect_none(&w->host);
        test_host_pump(&w->host);
        if (when == 2)
            assert_true(script_go(&w->script));
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, 7, 0);
        assert_true(script_go(&w->script));
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, 8, 0);
        assert_int_equal(w->script.nr_wrong_data, 0);
        world_destroy(w);
    }
}

/* A host need not be ready for the answer to what it is still sending. */
static void refused_long_capsule_is_answered_after_its_data(void **state)
{
    for (int held = 0; held < 2; held++) {
        struct world *w = world_with_long_capsules(2, true);

        queue_capsule(w, 7, LONG, SCRIPT_FAIL | (held ? SCRIPT_HOLD : 0));
        queue_capsule(w, 8, LONG, 0);
        send_part(w, 200);
        if (held)
            assert_true(script_go(&w->script));
        send_part(w, LONG / 2);
        test_host_expect_none(&w->host);
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, 7, FL_NVME_SC_INTERNAL);
        test_host_expect_resp(&w->host, 8, 0);
        world_destroy(w);
    }
}

/* The SGL tells another length than the PDU: status, and the stream goes on. */
static void long_capsule_with_a_wrong_sgl(void **state)
{
    struct world *w = world_with_long_capsules(2, false);
    struct fl_nvme_sqe sqe = write_sqe(1, FL_NVME_SGL_OFFSET, 1, LONG - 512, 0);

    test_host_cmd(&w->host, &sqe, script_pattern, LONG);
    send_part(w, 200);
    test_host_expect_none(&w->host);
    test_host_pump(&w->host);
    test_host_expect_resp(&w->host, 1, FL_NVME_SC_SGL_INVALID_DATA);
    queue_capsule(w, 2, LONG, 0);
    test_host_pump(&w->host);
    test_host_expect_resp(&w->host, 2, 0);
    world_destroy(w);
}

static void case_T11_data_digest_error_in_a_long_capsule(void **state)
{
    static const uint32_t what[] = {0, SCRIPT_HOLD, SCRIPT_FAIL};
    static uint8_t bad[LONG];

    for (uint32_t i = 0; i < FL_ARRAY_LEN(what); i++) {
        struct world *w = world_with_long_capsules(2, true);
        struct fl_nvme_sqe sqe = write_sqe(1, FL_NVME_SGL_OFFSET, 1, LONG, what[i]);

        memcpy(bad, script_pattern + 1, LONG);
        test_host_cmd(&w->host, &sqe, bad, LONG); /* its digest is computed here */
        bad[LONG / 2] ^= 1;
        send_part(w, 200);
        test_host_pump(&w->host);
        if (what[i] == SCRIPT_HOLD)
            assert_true(script_go(&w->script));
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, 1,
                              what[i] == SCRIPT_FAIL ? FL_NVME_SC_INTERNAL : FL_NVME_SC_TRANSIENT_TRANSPORT);
        queue_capsule(w, 2, LONG, 0);
        test_host_pump(&w->host);
        test_host_expect_resp(&w->host, 2, 0);
        assert_int_equal(w->script.nr_wrong_data, 0);
        world_destroy(w);
    }
}

/* What is put aside is bounded, by letting the host wait; not while data is owed that lies behind it. */
static void host_waits_when_much_is_put_aside(void **state)
{
    struct world *w = world_with_long_capsules(64, false);
    uint16_t tag;
    int nr;

    for (uint16_t i = 1; i <= 30; i++)
        queue_capsule(w, i, LONG, SCRIPT_HOLD);
    test_host_pump(&w->host);
    nr = w->script.nr_commands;
    assert_in_range(nr, 10, 12); /* a MiB of them */
    for (int i = 0; i < 30; i++) {
        assert_true(script_go(&w->script));
        fl_pair_run(w->pair);
        test_host_pump(&w->host);
    }
    for (uint16_t i = 1; i <= 30; i++)
        test_host_expect_resp(&w->host, i, 0);

    send_write(w, 40, 40, 512, 0);
    tag = expect_r2t(w, 40, 0, 512);
    for (uint16_t i = 1; i <= 30; i++)
        queue_capsule(w, i, LONG, SCRIPT_HOLD);
    test_host_data(&w->host, 40, tag, 0, script_pattern + 40, 512, true);
    test_host_pump(&w->host);
    test_host_expect_resp(&w->host, 40, 0);
    while (script_go(&w->script))
        fl_pair_run(w->pair);
    test_host_pump(&w->host);
    assert_int_equal(w->script.nr_wrong_data, 0);
    world_destroy(w);
}

/* Capsules that are as long as all that may be put aside must not make a pair wait for its second half. */
static void a_few_are_put_aside_whatever_their_length(void **state)
{
    struct world *w = world_create(&plain, 16);

    fl_conn_set_capsule_len(w->script.conn, 1 << 20);
    test_host_ic(&w->host, false, false, 4, 1);
    for (uint16_t i = 1; i <= 6; i++)
        queue_capsule(w, i, 1 << 20, SCRIPT_HOLD);
    test_host_pump(&w->host);
    assert_int_equal(w->script.nr_commands, 4);
    while (script_go(&w->script)) {
        fl_pair_run(w->pair);
        test_host_pump(&w->host);
    }
    for (uint16_t i = 1; i <= 6; i++)
        test_host_expect_resp(&w->host, i, 0);
    world_destroy(w);
}

static void case_T14_cut_in_every_state_of_a_long_capsule(void **state)
{
    static const uint32_t what[] = {
        0, SCRIPT_HOLD, SCRIPT_FAIL, SCRIPT_FETCH, SCRIPT_CLOSE, SCRIPT_FAIL | SCRIPT_CLOSE};

    for (uint32_t i = 0; i < FL_ARRAY_LEN(what); i++) {
        for (int go = 0; go < 3; go++) {
            struct world *w = world_with_long_capsules(4, i % 2);

            queue_capsule(w, 1, LONG, what[i]);
            queue_capsule(w, 2, LONG, what[i]);
            send_part(w, 200);
            if (go == 1)
                script_go(&w->script);
            send_part(w, 50000);
            if (go == 2)
                script_go(&w->script);
            fl_pair_cut(w->pair);
            world_destroy(w);
        }
    }
}

static void case_T14_cut_in_a_large_capsule(void **state)
{
    struct world *w = world_create(&plain, 4);
    struct fl_nvme_sqe sqe = write_sqe(1, FL_NVME_SGL_OFFSET, 0, 200000, 0);

    fl_conn_set_capsule_len(w->script.conn, 300000);
    test_host_ic(&w->host, false, false, 4, 1);
    test_host_cmd(&w->host, &sqe, script_pattern, 200000);
    test_host_raw(&w->host, w->host.s.segs[w->host.s.seg_head].ptr, 72);
    test_host_raw(&w->host, script_pattern, 100000);
    assert_int_equal(w->script.nr_commands, 1);
    assert_int_equal(w->script.nr_buffers, 1);
    world_destroy(w);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(in_capsule_data_waits_for_a_buffer), cmocka_unit_test(large_capsule),
                       cmocka_unit_test(limits_change_while_data_waits),
                       cmocka_unit_test(long_capsule_is_begun_early),
                       cmocka_unit_test(long_capsule_is_fetched_late),
                       cmocka_unit_test(refused_long_capsule_is_answered_after_its_data),
                       cmocka_unit_test(long_capsule_with_a_wrong_sgl),
                       cmocka_unit_test(case_T11_data_digest_error_in_a_long_capsule),
                       cmocka_unit_test(host_waits_when_much_is_put_aside),
                       cmocka_unit_test(a_few_are_put_aside_whatever_their_length),
                       cmocka_unit_test(case_T14_cut_in_every_state_of_a_long_capsule),
                       cmocka_unit_test(case_T14_cut_in_a_large_capsule));
}
