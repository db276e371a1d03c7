/* SPDX-License-Identifier: Apache-2.0 */
/* Two ends compared, lines, and probes over a path that swallows large packets. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "peer.h"
#include "test_tree.h"

/* ---- D6: MTU pairs; speeds, PFC, GIDs of both ends ---- */

static json_t *end_of(int mtu, int mbps, int pfc, const char *gid)
{
    struct tree t;
    json_t *facts;
    char speed[16];

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_interface(&t, "eth1", mtu);
    snprintf(speed, sizeof(speed), "%d\n", mbps);
    tree_put(&t, "/sys/class/net/eth1/speed", "%s", speed);
    tree_put(&t, "/hooks/addrs", "eth1 10.0.0.%d/24\n", mtu / 100);
    if (pfc >= 0)
        tree_put(&t, "/hooks/dcb/eth1", "%x 26:3", pfc);
    tree_gid(&t, "mlx5_0", 0, "fe80::1", "RoCE v2", "eth1");
    tree_gid(&t, "mlx5_0", 1, gid, "RoCE v2", "eth1");
    facts = facts_json(&t.sys);
    assert_non_null(facts);
    tree_end(&t);
    return facts;
}

static void compare(struct tree *t, json_t *a, json_t *b)
{
    doctor_free(&t->d);
    facts_compare(&t->d, a, b, "eth1", "eth1");
    json_decref(a);
    json_decref(b);
}

static void both_ends(void **state)
{
    struct tree t;

    tree_begin(&t);
    compare(&t, end_of(9000, 100000, 8, "::ffff:10.0.0.1"), end_of(9000, 100000, 8, "::ffff:10.0.0.2"));
    tree_expect(&t, "peer-mtu-equal", "eth1 - eth1", LEVEL_OK, "MTU 9000 here, 9000 there");
    tree_expect(&t, "peer-speed", NULL, LEVEL_OK, "100000 Mb/s here");
    tree_expect(&t, "peer-pfc", NULL, LEVEL_OK, "0x08 here, 0x08 there");
    tree_expect(&t, "peer-gid", NULL, LEVEL_OK, "RoCE v2 IPv4 at both ends");
    compare(&t, end_of(1500, 100000, 8, "::ffff:10.0.0.1"), end_of(9000, 25000, 0, "fd00::2"));
    tree_expect(&t, "peer-mtu-equal", NULL, LEVEL_BAD, "MTU 1500 here, 9000 there");
    tree_expect(&t, "peer-speed", NULL, LEVEL_SLOW, "25000 Mb/s there");
    tree_expect(&t, "peer-pfc", NULL, LEVEL_SLOW, "0x08 here, 0x00 there");
    tree_expect(&t, "peer-gid", NULL, LEVEL_BAD, "no routable RoCE v2 GID of one family");
    compare(&t, end_of(9000, 100000, 8, "::ffff:10.0.0.1"), end_of(1500, 100000, -1, "::ffff:10.0.0.2"));
    tree_expect(&t, "peer-mtu-equal", NULL, LEVEL_BAD, "MTU 9000 here, 1500 there");
    tree_expect(&t, "peer-pfc", NULL, LEVEL_UNSEEN, "only the interface here");
    compare(&t, end_of(9000, 100000, 8, "::ffff:10.0.0.1"), json_object()); /* a peer that tells nothing */
    tree_expect(&t, "peer-mtu-equal", NULL, LEVEL_UNSEEN, "could not be seen");
    tree_end(&t);
}

/* ---- lines ---- */

static void lines(void **state)
{
    struct peer_line a, b;
    json_t *x = json_pack("{s:s}", "ask", "hello"), *got;
    char byte, big[4096];
    int fd[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    peer_line_init(&a, fd[0]);
    peer_line_init(&b, fd[1]);
    assert_int_equal(peer_line_put(&a, x), 0);
    assert_int_equal(peer_bytes_put(&a, "Z", 1, 100), 0);
    assert_int_equal(peer_line_get(&b, &got, 1000), 0);
    assert_true(json_equal(x, got));
    json_decref(got);
    assert_int_equal(peer_bytes_get(&b, &byte, 1, 1000), 0); /* bytes behind a line are not lost */
    assert_int_equal(byte, 'Z');
    assert_int_equal(peer_line_get(&b, &got, 20), -ETIMEDOUT);
    for (const char *const *bad = (const char *const[]){"[1]\n", "{\n", "\n", "\xff\n", NULL}; *bad; bad++) {
        assert_int_equal(peer_bytes_put(&a, *bad, strlen(*bad), 100), 0);
        assert_int_equal(peer_line_get(&b, &got, 1000), -EPROTO);
    }
    memset(big, 'x', sizeof(big)); /* a line without an end is not gathered for ever */
    int r = 0;
    for (size_t sent = 0; !r && sent < 2 * PEER_LINE_MAX; sent += sizeof(big)) {
        assert_int_equal(peer_bytes_put(&a, big, sizeof(big), 100), 0);
        r = peer_line_get(&b, &got, 1);
        r = r == -ETIMEDOUT ? 0 : r;
    }
    assert_int_equal(r, -EPROTO);
    close(fd[0]);
    json_decref(x);
    peer_line_fini(&a);
    peer_line_fini(&b);
    close(fd[1]);
}

/* ---- probes: asker - relay that swallows - answerer ---- */

struct way {
    int udp[2];      /* the relay's sockets: towards the asker, towards the answerer */
    int there, back; /* longest payloads that pass */
    int answerer, stop[2];
};

static void *relay(void *arg)
{
    struct way *w = arg;
    static char bytes[65536];
    struct pollfd pfd[3] = {{w->udp[0], POLLIN, 0}, {w->udp[1], POLLIN, 0}, {w->stop[0], POLLIN, 0}};

    while (poll(pfd, 3, -1) > 0 && !pfd[2].revents)
        for (int i = 0; i < 2; i++) {
            ssize_t n = pfd[i].revents ? recv(w->udp[i], bytes, sizeof(bytes), MSG_DONTWAIT) : -1;

            if (n >= 0 && n <= (i ? w->back : w->there))
                send(w->udp[!i], bytes, (size_t)n, 0);
        }
    return NULL;
}

static void *answerer(void *arg)
{
    const struct way *w = arg;

    probe_answer(w->answerer, w->stop[0], 30000);
    return NULL;
}

static int udp_here(struct fl_addr *addr)
{
    int fd;

    assert_int_equal(fl_addr_parse_ip("127.0.0.1", 0, addr, NULL), 0);
    fd = probe_socket(addr, NULL);
    assert_true(fd >= 0);
    addr->len = sizeof(addr->ss);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr->ss, &addr->len), 0);
    return fd;
}

static void join(int a, const struct fl_addr *at_a, int b, const struct fl_addr *at_b)
{
    assert_int_equal(connect(a, (const struct sockaddr *)&at_b->ss, at_b->len), 0);
    assert_int_equal(connect(b, (const struct sockaddr *)&at_a->ss, at_a->len), 0);
}

static struct probe_result walk(int want, int there, int back)
{
    struct fl_addr at[4];
    struct probe_result got;
    struct way w = {.there = there, .back = back};
    pthread_t threads[2];
    int asker = udp_here(&at[0]);

    w.udp[0] = udp_here(&at[1]);
    w.udp[1] = udp_here(&at[2]);
    w.answerer = udp_here(&at[3]);
    join(asker, &at[0], w.udp[0], &at[1]);
    join(w.udp[1], &at[2], w.answerer, &at[3]);
    assert_int_equal(pipe(w.stop), 0);
    pthread_create(&threads[0], NULL, relay, &w);
    pthread_create(&threads[1], NULL, answerer, &w);
    assert_int_equal(probe_path(asker, false, want, &got), 0);
    assert_int_equal(write(w.stop[1], "x", 1), 1);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    close(asker);
    close(w.udp[0]);
    close(w.udp[1]);
    close(w.answerer);
    close(w.stop[0]);
    close(w.stop[1]);
    return got;
}

static void black_hole_between(void **state)
{
    struct probe_result got = walk(9000, 65536, 65536);

    assert_int_equal(got.there, 9000);
    assert_int_equal(got.back, 9000);
    got = walk(9000, 1500 - 28, 65536); /* both ends have 9000, a hop between has 1500, one way only */
    assert_in_range(got.there, 1492, 1500);
    assert_int_equal(got.back, 9000);
    got = walk(9000, 65536, 1500 - 28);
    assert_int_equal(got.there, 9000);
    assert_in_range(got.back, 1492, 1500);
    got = walk(1500, 10, 10); /* nothing passes */
    assert_int_equal(got.there, 0);
    assert_int_equal(got.back, 0);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(both_ends), cmocka_unit_test(lines),
                       cmocka_unit_test(black_hole_between));
}
