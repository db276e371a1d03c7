/* SPDX-License-Identifier: Apache-2.0 */
#include "host/pollset.h"

#include <sys/socket.h>
#include <unistd.h>

#include "base/unit.h"

static bool is_ready(const struct fl_pollset *set)
{
    struct pollfd p = {.fd = set->epfd, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

/* A link that is READY over one end of a socket pair. */
static void come_up(struct fl_link *link, int *peer)
{
    int fds[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
    link->fd = fds[0];
    link->serial++;
    link->state = FL_LINK_READY;
    *peer = fds[1];
}

static void go_down(struct fl_link *link, int peer)
{
    close(link->fd);
    close(peer);
    link->fd = -1;
    link->state = FL_LINK_DOWN;
}

static void follows_the_link(void **state)
{
    struct fl_link link = {.fd = -1};
    struct fl_pollset set;
    int peer;

    assert_int_equal(fl_pollset_init(&set), 0);
    come_up(&link, &peer);
    fl_pollset_sync(&set, &link);
    assert_false(is_ready(&set));
    assert_int_equal(write(peer, "x", 1), 1);
    assert_true(is_ready(&set));
    go_down(&link, peer);
    fl_pollset_sync(&set, &link);
    assert_false(is_ready(&set));
    fl_pollset_fini(&set);
}

/* A busy machine: the connection went down and came to READY again between two looks, and the new socket got
 * the number of the old one, which had left the set when it was closed. Nothing of the new one would ever
 * have been heard. */
static void socket_with_the_same_number(void **state)
{
    struct fl_link link = {.fd = -1};
    struct fl_pollset set;
    int peer, before;

    assert_int_equal(fl_pollset_init(&set), 0);
    come_up(&link, &peer);
    before = link.fd;
    fl_pollset_sync(&set, &link);
    go_down(&link, peer);
    come_up(&link, &peer);
    assert_int_equal(link.fd, before);
    fl_pollset_sync(&set, &link);
    assert_int_equal(write(peer, "x", 1), 1);
    assert_true(is_ready(&set));
    go_down(&link, peer);
    fl_pollset_fini(&set);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(follows_the_link), cmocka_unit_test(socket_with_the_same_number));
}
