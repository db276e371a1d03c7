/* SPDX-License-Identifier: Apache-2.0 */
#include "base/unit.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "fabric/tcp_dial.h"

/* A listener on loopback; backlog -1: a port that nobody listens on. */
static int listener(int backlog, struct fl_addr *addr)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    assert_int_equal(fl_addr_parse("127.0.0.1:0", 0, addr, NULL), 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&addr->ss, addr->len), 0);
    addr->len = sizeof(addr->ss);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&addr->ss, &addr->len), 0);
    if (backlog >= 0)
        assert_int_equal(listen(fd, backlog), 0);
    return fd;
}

/* Until connected or failed; at most ms. */
static int dial(struct fl_dial *d, const struct fl_addr *addrs, uint32_t nr, uint32_t ms)
{
    uint64_t end = fl_now_ns() + ms * FL_NS_PER_MS;
    int r;

    fl_dial_start(d, addrs, nr, fl_now_ns());
    while ((r = fl_dial_step(d, fl_now_ns())) == -EINPROGRESS && fl_now_ns() < end)
        usleep(1000);
    if (r == -EINPROGRESS)
        fl_dial_stop(d);
    return r;
}

/* The clock stands still: nothing is begun because of the time. */
static int dial_at_once(struct fl_dial *d, const struct fl_addr *addrs, uint32_t nr)
{
    uint64_t now = fl_now_ns(), end = now + 20 * FL_NS_PER_S;
    int r;

    fl_dial_start(d, addrs, nr, now);
    while ((r = fl_dial_step(d, now)) == -EINPROGRESS && fl_now_ns() < end)
        usleep(1000);
    return r;
}

static uint16_t peer_port(int fd)
{
    struct fl_addr a = {.len = sizeof(a.ss)};

    assert_int_equal(getpeername(fd, (struct sockaddr *)&a.ss, &a.len), 0);
    return fl_addr_port(&a);
}

static void goes_on_where_one_is_refused(void **state)
{
    struct fl_addr addrs[3];
    int fds[3] = {listener(-1, &addrs[0]), listener(-1, &addrs[1]), listener(4, &addrs[2])}, fd;
    struct fl_dial d;

    fd = dial_at_once(&d, addrs, 3);
    assert_true(fd >= 0);
    assert_int_equal(peer_port(fd), fl_addr_port(&addrs[2]));
    close(fd);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

static void goes_on_beside_one_that_hangs(void **state)
{
    struct fl_addr addrs[2];
    int hangs = listener(0, &addrs[0]), works = listener(4, &addrs[1]), full[8], fd;
    uint64_t start, took;
    struct fl_dial d;

    for (int i = 0; i < 8; i++) {
        full[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        connect(full[i], (struct sockaddr *)&addrs[0].ss, addrs[0].len);
    }
    start = fl_now_ns();
    fd = dial(&d, addrs, 2, 20000);
    took = fl_now_ns() - start;
    assert_true(fd >= 0);
    assert_int_equal(peer_port(fd), fl_addr_port(&addrs[1]));
    assert_true(took >= FL_DIAL_STAGGER_MS * FL_NS_PER_MS);
    close(fd);
    /* Alone, it is still at it after a while, and can be stopped. */
    assert_int_equal(dial(&d, addrs, 1, 100), -EINPROGRESS);
    for (int i = 0; i < 8; i++)
        close(full[i]);
    close(hangs);
    close(works);
}

static void says_why_none_answers(void **state)
{
    struct fl_addr addrs[2];
    int a = listener(-1, &addrs[0]), b = listener(-1, &addrs[1]);
    char text[FL_ADDR_TEXT_LEN];
    struct fl_dial d;

    assert_int_equal(dial(&d, addrs, 2, 20000), -ECONNREFUSED);
    assert_true(strstr(d.err.text, fl_addr_format(&addrs[0], text)) != NULL); /* the first cause */
    assert_true(dial(&d, addrs, 0, 100) < 0);
    close(a);
    close(b);
}

/* A connect to a free port of the range that connects come from may meet itself; that is no target. */
static void does_not_take_itself_for_the_target(void **state)
{
    struct fl_addr addr;
    int fd = listener(-1, &addr), nr_refused = 0;

    close(fd);
    for (int i = 0; i < 2000; i++) {
        struct fl_dial d;
        int r = dial(&d, &addr, 1, 20000);

        assert_true(r < 0);
        nr_refused += r == -ECONNREFUSED;
    }
    assert_int_equal(nr_refused, 2000);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(goes_on_where_one_is_refused), cmocka_unit_test(goes_on_beside_one_that_hangs),
        cmocka_unit_test(says_why_none_answers), cmocka_unit_test(does_not_take_itself_for_the_target));
}
