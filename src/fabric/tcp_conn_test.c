/* SPDX-License-Identifier: Apache-2.0 */
/* The target's connections over real sockets on loopback. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/test_host.h"
#include "fabric/test_script.h"

struct world {
    struct fl_loop *loop;
    struct fl_listener *listener;
    struct fl_addr addr;
    struct script script;
};

static void world_init(struct world *w, const char *addr, const struct fl_listen_options *with,
                       uint32_t depth)
{
    struct fl_listen_options options = with ? *with
                                            : (struct fl_listen_options){.hdgst = true, .ddgst = true};

    script_init(&w->script, depth);
    assert_int_equal(fl_loop_create(NULL, &w->loop), 0);
    options.loop = w->loop;
    options.handler = &script_handler;
    options.listener_user = &w->script;
    assert_int_equal(fl_addr_parse(addr, 0, &options.addr, NULL), 0);
    assert_int_equal(fl_tcp_transport.listen(&options, &w->listener, NULL), 0);
    fl_tcp_transport.listener_addr(w->listener, &w->addr);
    assert_int_not_equal(fl_addr_port(&w->addr), 0);
}

static void turn(struct world *w, uint64_t ms)
{
    assert_true(fl_loop_turn(w->loop, ms * FL_NS_PER_MS) >= 0);
}

/* Turns until *count reaches want; false after 20 s. */
static bool turn_until(struct world *w, const int *count, int want)
{
    uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S;

    while (*count < want && fl_now_ns() < end)
        turn(w, 1);
    return *count >= want;
}

static void world_fini(struct world *w)
{
    struct script *x = &w->script;

    while (script_go(x))
        ;
    assert_true(turn_until(w, &x->nr_closed, x->nr_opened));
    assert_int_equal(x->nr_closed, x->nr_opened);
    assert_int_equal(x->nr_commands, x->nr_released);
    assert_int_equal(x->nr_buffers, 0);
    fl_tcp_transport.unlisten(w->listener);
    fl_loop_destroy(w->loop);
}

static int dial(struct world *w)
{
    int fd = socket(w->addr.ss.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_true(fd >= 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&w->addr.ss, w->addr.len), 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* A host on a socket: sends what is queued, turns the loop, takes what came. */
static void pump(struct world *w, struct test_host *h, int fd)
{
    struct iovec iov[8];
    int n = fl_tcp_stream_tx_iov(&h->s, iov, 8);
    ssize_t r;

    if (n && (r = writev(fd, iov, n)) > 0)
        fl_tcp_stream_tx_done(&h->s, (size_t)r);
    turn(w, 1);
    n = fl_tcp_stream_rx_iov(&h->s, iov, 8);
    if ((r = readv(fd, iov, n)) > 0)
        assert_int_equal(fl_tcp_stream_rx_done(&h->s, (size_t)r), 0);
}

static void pump_until(struct world *w, struct test_host *h, int fd, int nr)
{
    uint64_t end = fl_now_ns() + 10 * FL_NS_PER_S;

    while (h->nr < nr && fl_now_ns() < end)
        pump(w, h, fd);
    assert_true(h->nr >= nr);
}

static void ic_exchange(struct world *w, struct test_host *h, int fd)
{
    struct fl_tcp_ic ic = {.hdgst = true, .ddgst = true, .pda = 4, .nr_r2t = 1};
    union fl_tcp_pdu pdu;

    test_host_init(h, NULL);
    fl_tcp_ic_req_encode(&pdu.ic_req, &ic);
    fl_tcp_stream_send(&h->s, &pdu, sizeof(pdu.ic_req), NULL, 0, NULL);
    pump_until(w, h, fd, 1);
    test_host_expect(h, FL_TCP_IC_RESP);
    w->script.conn->sq_len = 32; /* as if Connect had been done */
}

static void send_read(struct test_host *h, uint16_t cid, uint32_t at, uint32_t len, uint32_t what)
{
    struct fl_nvme_sqe sqe = test_host_sqe(FL_NVME_CMD_READ, cid, FL_NVME_SGL_TRANSPORT, len);

    sqe.cdw10 = le32_of(what);
    sqe.cdw11 = le32_of(at);
    sqe.cdw12 = le32_of(len);
    test_host_cmd(h, &sqe, NULL, 0);
}

static void send_write(struct test_host *h, uint16_t cid, uint32_t len, uint32_t what)
{
    struct fl_nvme_sqe sqe = test_host_sqe(FL_NVME_CMD_WRITE, cid, FL_NVME_SGL_TRANSPORT, len);

    sqe.cdw10 = le32_of(what);
    test_host_cmd(h, &sqe, NULL, 0);
}

static void close_host(struct test_host *h, int fd)
{
    test_host_fini(h);
    close(fd);
}

static uint64_t cpu_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (uint64_t)ts.tv_sec * FL_NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Of the processor, while the loop has nothing to do for `ms`. */
static double idle_share(struct world *w, uint64_t ms)
{
    uint64_t start, cpu, end;

    for (int i = 0; i < 20; i++)
        turn(w, 1);
    start = fl_now_ns();
    cpu = cpu_ns();
    for (end = start + ms * FL_NS_PER_MS; fl_now_ns() < end;)
        turn(w, (end - FL_MIN(fl_now_ns(), end)) / FL_NS_PER_MS + 1);
    return (double)(cpu_ns() - cpu) / (double)(fl_now_ns() - start);
}

static void reads_and_writes(void **state)
{
    static const char *const addrs[] = {"127.0.0.1", "[::1]", "0.0.0.0"};

    for (size_t i = 0; i < FL_ARRAY_LEN(addrs); i++) {
        struct world w;
        struct test_host h;
        struct fl_conn_info info;
        char text[FL_ADDR_TEXT_LEN];
        int fd;

        world_init(&w, addrs[i], NULL, 32);
        fd = dial(&w);
        ic_exchange(&w, &h, fd);
        fl_conn_info(w.script.conn, &info);
        if (!fl_addr_is_any(&w.addr))
            assert_string_equal(info.local, fl_addr_format(&w.addr, text));
        assert_true(info.hdgst && info.ddgst && strlen(info.peer) > 8);
        for (uint16_t k = 0; k < 32; k++)
            send_read(&h, k, k, 4096, 0);
        pump_until(&w, &h, fd, 1 + 64);
        for (uint16_t k = 0; k < 32; k++) {
            struct test_host_pdu *got = test_host_expect(&h, FL_TCP_C2H_DATA);

            assert_memory_equal(got->data, script_pattern + k, 4096);
            test_host_expect_resp(&h, k, 0);
        }
        send_write(&h, 1, 1 << 20, 0);
        pump_until(&w, &h, fd, h.nr + 1);
        test_host_data(&h, 1, le16_get(test_host_expect(&h, FL_TCP_R2T)->pdu.r2t.ttag), 0, script_pattern,
                       1 << 20, true);
        pump_until(&w, &h, fd, h.nr + 1);
        test_host_expect_resp(&h, 1, 0);
        assert_int_equal(w.script.nr_wrong_data, 0);
        close_host(&h, fd);
        world_fini(&w);
    }
}

/* More than the socket takes: the rest goes when the host has read. */
static void host_reads_late(void **state)
{
    struct world w;
    struct test_host h;
    int fd, size = 65536;

    world_init(&w, "127.0.0.1", NULL, 32);
    fd = dial(&w);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
    ic_exchange(&w, &h, fd);
    for (uint16_t k = 0; k < 12; k++)
        send_read(&h, k, k, 1 << 20, 0);
    while (fl_tcp_stream_tx_pending(&h.s)) {
        struct iovec iov[8];
        int n = fl_tcp_stream_tx_iov(&h.s, iov, 8);
        ssize_t r = writev(fd, iov, n);

        assert_true(r > 0);
        fl_tcp_stream_tx_done(&h.s, (size_t)r);
    }
    assert_true(turn_until(&w, &w.script.nr_commands, 12));
    assert_true(w.script.nr_released < 12);
    assert_true(idle_share(&w, 100) < 0.2);
    pump_until(&w, &h, fd, 1 + 24);
    for (uint16_t k = 0; k < 12; k++) {
        assert_memory_equal(test_host_expect(&h, FL_TCP_C2H_DATA)->data, script_pattern + k, 1 << 20);
        test_host_expect_resp(&h, k, 0);
    }
    close_host(&h, fd);
    world_fini(&w);
}

static void completes_later_and_for_many(void **state)
{
    struct world w;
    struct test_host h[12];
    int fd[12];

    world_init(&w, "127.0.0.1", NULL, 8);
    for (int i = 0; i < 12; i++) {
        fd[i] = dial(&w);
        ic_exchange(&w, &h[i], fd[i]);
    }
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 12; i++) {
            send_read(&h[i], (uint16_t)round, (uint32_t)i, 512, SCRIPT_HOLD);
            pump(&w, &h[i], fd[i]);
        }
        assert_true(turn_until(&w, &w.script.nr_commands, (round + 1) * 12));
        while (script_go(&w.script))
            ;
        for (int i = 0; i < 12; i++) {
            pump_until(&w, &h[i], fd[i], 1 + (round + 1) * 2);
            assert_memory_equal(test_host_expect(&h[i], FL_TCP_C2H_DATA)->data, script_pattern + i, 512);
            test_host_expect_resp(&h[i], (uint16_t)round, 0);
        }
    }
    assert_true(idle_share(&w, 100) < 0.2);
    for (int i = 0; i < 12; i++)
        close_host(&h[i], fd[i]);
    world_fini(&w);
}

static void listening_tells_why_not(void **state)
{
    struct fl_listen_options options = {.handler = &script_handler};
    struct fl_listener *other = NULL;
    struct fl_error err = {0};
    struct world w;

    world_init(&w, "127.0.0.1", NULL, 8);
    options.loop = w.loop;
    options.addr = w.addr;
    assert_int_equal(fl_tcp_transport.listen(&options, &other, &err), -EADDRINUSE);
    assert_non_null(strstr(err.text, "127.0.0.1:"));
    fl_error_clear(&err);
    assert_int_equal(fl_addr_parse("192.0.2.77:4420", 0, &options.addr, NULL), 0);
    assert_int_equal(fl_tcp_transport.listen(&options, &other, &err), -EADDRNOTAVAIL);
    assert_non_null(strstr(err.text, "192.0.2.77:4420"));
    assert_ptr_equal(fl_transport_find("tcp"), &fl_tcp_transport);
    assert_null(fl_transport_find("smoke signals"));
    world_fini(&w);
}

/* IPv4 and IPv6 on one port are two listeners. */
static void both_families_on_one_port(void **state)
{
    struct fl_listen_options options = {.handler = &script_handler};
    struct fl_listener *other = NULL;
    struct world w;

    world_init(&w, "0.0.0.0", NULL, 8);
    options.loop = w.loop;
    assert_int_equal(fl_addr_parse("[::]", fl_addr_port(&w.addr), &options.addr, NULL), 0);
    assert_int_equal(fl_tcp_transport.listen(&options, &other, NULL), 0);
    fl_tcp_transport.unlisten(other);
    world_fini(&w);
}

/* The target has nothing to do for a host that is there and quiet. */
static void quiet_host_costs_nothing(void **state)
{
    struct world w;
    struct test_host h;
    int fd;

    world_init(&w, "127.0.0.1", NULL, 8);
    fd = dial(&w);
    ic_exchange(&w, &h, fd);
    assert_true(idle_share(&w, 300) < 0.05);
    close_host(&h, fd);
    world_fini(&w);
}

/* No descriptor is left for the connection that waits: the loop sleeps, and takes it when there is one again.
 */
static void out_of_descriptors(void **state)
{
    struct rlimit old, low;
    struct world w;
    int fd, next;

    world_init(&w, "127.0.0.1", NULL, 8);
    fd = dial(&w);
    next = dup(fd);
    close(next);
    getrlimit(RLIMIT_NOFILE, &old);
    low = (struct rlimit){.rlim_cur = (rlim_t)next, .rlim_max = old.rlim_max};
    setrlimit(RLIMIT_NOFILE, &low);
    assert_true(idle_share(&w, 250) < 0.1);
    assert_int_equal(w.script.nr_opened, 0);
    setrlimit(RLIMIT_NOFILE, &old);
    assert_true(turn_until(&w, &w.script.nr_opened, 1));
    close(fd);
    world_fini(&w);
}

static void case_T1_port_scanner(void **state)
{
    struct fl_listen_options options = {.close_timeout_ms = 200, .setup_timeout_ms = 300};
    struct world w;

    srand(1);
    world_init(&w, "127.0.0.1", &options, 8);
    for (int i = 0; i < 200; i++) {
        uint8_t junk[256];
        int fd = dial(&w), len = 1 + rand() % (int)sizeof(junk);

        for (int k = 0; k < len; k++)
            junk[k] = (uint8_t)rand();
        if (i % 3 == 0) /* an ICReq with a wrong length */
            memcpy(junk, i % 2 ? "\0\0\177\0\200\0\0" : "\0\0\200\0\201\0\0", 8);
        assert_true(write(fd, junk, (size_t)len) > 0);
        if (i % 4 == 0) { /* reset instead of an orderly end */
            struct linger linger = {.l_onoff = 1};

            setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        }
        if (i % 5 == 0)
            turn(&w, 0);
        close(fd);
    }
    assert_true(turn_until(&w, &w.script.nr_closed, 200));
    assert_int_equal(w.script.nr_opened, 200);
    assert_int_equal(w.script.nr_commands, 0);
    assert_true(idle_share(&w, 200) < 0.05);
    world_fini(&w);
}

/* It neither reads the goodbye nor closes. */
static void case_T1_goodbye_nobody_takes(void **state)
{
    struct fl_listen_options options = {.close_timeout_ms = 100};
    uint64_t start;
    struct world w;
    uint8_t got[200];
    int fd;

    world_init(&w, "127.0.0.1", &options, 8);
    fd = dial(&w);
    start = fl_now_ns();
    assert_int_equal(write(fd, "\0\0\200\0\0\0\0\0", 8), 8);
    assert_true(turn_until(&w, &w.script.nr_broken, 1));
    assert_true(turn_until(&w, &w.script.nr_closed, 1));
    assert_true(fl_now_ns() - start >= 90 * FL_NS_PER_MS);
    assert_true(fl_now_ns() - start < 1900 * FL_NS_PER_MS); /* and not the 2 s that others have */
    /* The goodbye was there to be read all the while: a termination request with the header that was wrong. A
     * reset may have thrown it away since. */
    ssize_t n = read(fd, got, sizeof(got));
    assert_true(n == 32 || n < 0);
    close(fd);
    world_fini(&w);
}

static void goodbye_reaches_a_host_that_goes_on_sending(void **state)
{
    struct world w;
    uint8_t got[200];
    size_t len = 0;
    int fd;

    world_init(&w, "127.0.0.1", NULL, 8);
    fd = dial(&w);
    assert_int_equal(write(fd, script_pattern, 100000), 100000);
    for (int i = 0; i < 1000 && len < 24 + 100; i++) {
        ssize_t n;

        turn(&w, 1);
        n = read(fd, got + len, sizeof(got) - len);
        if (n == 0)
            break;
        if (n > 0)
            len += (size_t)n;
    }
    assert_true(len >= 24);
    assert_int_equal(got[0], FL_TCP_C2H_TERM);
    assert_int_equal(w.script.nr_closed, 0);
    close(fd);
    world_fini(&w);
}

static void silent_peer_is_dropped_in_set_up(void **state)
{
    struct fl_listen_options options = {.setup_timeout_ms = 500, .close_timeout_ms = 50};
    struct world w;
    struct test_host h;
    int fd[2];

    world_init(&w, "127.0.0.1", &options, 8);
    fd[0] = dial(&w);
    fd[1] = dial(&w);
    ic_exchange(&w, &h, fd[1]);
    w.script.conn->sq_len = 0; /* ICReq alone is not enough */
    assert_true(turn_until(&w, &w.script.nr_closed, 2));
    assert_non_null(strstr(w.script.why, "Connect"));
    close(fd[0]);
    close_host(&h, fd[1]);
    world_fini(&w);
}

/* Times stand for 30 s: three times what is allowed for set-up. */
static void case_T3_healthy_but_quiet(void **state)
{
    struct fl_listen_options options = {.setup_timeout_ms = 500, .close_timeout_ms = 500};
    uint64_t end;
    struct world w;
    struct test_host h;
    int fd;

    world_init(&w, "127.0.0.1", &options, 8);
    fd = dial(&w);
    ic_exchange(&w, &h, fd);
    send_read(&h, 1, 0, 512, SCRIPT_HOLD); /* one command that takes as long */
    for (end = fl_now_ns() + 1500 * FL_NS_PER_MS; fl_now_ns() < end;)
        pump(&w, &h, fd);
    assert_int_equal(w.script.nr_broken, 0);
    assert_true(script_go(&w.script));
    pump_until(&w, &h, fd, 3);
    close_host(&h, fd);
    world_fini(&w);
}

static void case_T14_reset_in_every_state(void **state)
{
    for (int what = 0; what < 4; what++) {
        struct linger linger = {.l_onoff = 1};
        struct world w;
        struct test_host h;
        int fd;

        world_init(&w, "127.0.0.1", NULL, 8);
        fd = dial(&w);
        ic_exchange(&w, &h, fd);
        if (what == 0) /* waits for data */
            send_write(&h, 1, 100000, 0);
        else if (what == 1) /* in the back end */
            send_read(&h, 1, 0, 4096, SCRIPT_HOLD);
        else if (what == 2) /* an event */
            send_read(&h, 1, 0, 4096, SCRIPT_TILL_BROKEN);
        else /* data that nobody reads */
            for (uint16_t k = 0; k < 8; k++)
                send_read(&h, k, 0, 1 << 20, 0);
        while (!w.script.nr_commands)
            pump(&w, &h, fd);
        for (int i = 0; i < 10; i++)
            turn(&w, 1);
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close_host(&h, fd);
        assert_true(turn_until(&w, &w.script.nr_broken, 1));
        assert_int_equal(w.script.nr_closed, what != 1);
        if (what == 1) /* the back end takes its time; nothing spins meanwhile */
            assert_true(idle_share(&w, 100) < 0.1);
        world_fini(&w);
    }
}

/* ---- moving to another thread's loop ---- */

static struct fl_loop *other_loop;
static _Atomic(int) has_moved, has_closed;

static void *run_other(void *arg)
{
    fl_loop_run(other_loop);
    return NULL;
}

static void after_move(struct fl_conn *conn)
{
    assert_ptr_equal(fl_loop_current(), other_loop);
    assert_ptr_equal(conn->loop, other_loop);
    conn->sq_len = 8;
    has_moved++;
    script_go(conn->user);
}

static void move_command(struct fl_cmd *cmd)
{
    script_command(cmd);
    if (!cmd->conn->sq_len)
        fl_conn_move(cmd->conn, other_loop, NULL, after_move);
}

static void closed_there(struct fl_conn *conn, const char *why)
{
    script_closed(conn, why);
    has_closed++;
}

static void connection_moves_to_another_loop(void **state)
{
    struct fl_handler handler = script_handler;
    struct fl_listen_options options = {.handler = &handler, .hdgst = true, .ddgst = true};
    uint64_t end = fl_now_ns() + 3 * FL_NS_PER_S;
    struct test_host h;
    struct world w;
    pthread_t thread;
    int fd;

    world_init(&w, "127.0.0.1", NULL, 8);
    fl_tcp_transport.unlisten(w.listener);
    handler.command = move_command;
    handler.closed = closed_there;
    options.loop = w.loop;
    options.listener_user = &w.script;
    options.addr = w.addr;
    assert_int_equal(fl_tcp_transport.listen(&options, &w.listener, NULL), 0);
    assert_int_equal(fl_loop_create(NULL, &other_loop), 0);
    assert_int_equal(pthread_create(&thread, NULL, run_other, NULL), 0);
    fd = dial(&w);
    ic_exchange(&w, &h, fd);
    w.script.conn->sq_len = 0;
    send_read(&h, 1, 0, 1024, SCRIPT_HOLD); /* stands for Connect */
    send_read(&h, 2, 0, 1024, 0);           /* comes along with it, and is served over there */
    pump_until(&w, &h, fd, 5);
    assert_int_equal(has_moved, 1);
    for (uint16_t i = 3; i < 100; i++) {
        send_read(&h, i, i, 4096, 0);
        pump_until(&w, &h, fd, h.nr + 2);
        assert_memory_equal(h.pdus[h.nr - 2].data, script_pattern + i, 4096);
    }
    close_host(&h, fd);
    while (!has_closed && fl_now_ns() < end)
        usleep(1000);
    fl_loop_stop(other_loop);
    pthread_join(thread, NULL);
    assert_int_equal(w.script.nr_closed, 1);
    fl_loop_destroy(other_loop);
    world_fini(&w);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(reads_and_writes), cmocka_unit_test(host_reads_late),
        cmocka_unit_test(completes_later_and_for_many), cmocka_unit_test(listening_tells_why_not),
        cmocka_unit_test(both_families_on_one_port), cmocka_unit_test(quiet_host_costs_nothing),
        cmocka_unit_test(out_of_descriptors), cmocka_unit_test(case_T1_port_scanner),
        cmocka_unit_test(case_T1_goodbye_nobody_takes),
        cmocka_unit_test(goodbye_reaches_a_host_that_goes_on_sending),
        cmocka_unit_test(silent_peer_is_dropped_in_set_up), cmocka_unit_test(case_T3_healthy_but_quiet),
        cmocka_unit_test(case_T14_reset_in_every_state), cmocka_unit_test(connection_moves_to_another_loop));
}
