/* SPDX-License-Identifier: Apache-2.0 */
/* Packets to where nobody has the port: the kernel says so, for each family. */
#include "rnic/port/test_packet.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "rnic/port/impl.h"

static struct fl_port *open_port(void)
{
    struct fl_port *port = NULL;
    char name[64];
    snprintf(name, sizeof(name), "farlane-test-knock-%d", (int)getpid());
    for (int tries = 0; !port; tries++) {
        const struct fl_port_options options = {
            .udp_port = (uint16_t)(20000 + (getpid() * 7 + tries) % 10000), .hub_path = name, .no_hub = true};
        struct fl_error err = {0};
        assert_true(tries < 100);
        fl_port_open(&options, &port, &err);
    }
    return port;
}

static void knock(struct fl_port *port, const char *to)
{
    const struct fl_port_flow flow = flow_of(strchr(to, ':') ? "::1" : "127.0.0.1", to);
    struct fl_roce_tx tx;
    packet_of(&tx, FL_IB_RC, 0x123, 0, NULL, 0);
    tx.nr_iov = 1;
    fl_port_knock(port, &flow, &tx);
}

static bool hears(struct fl_port *port, const char *of, int ms)
{
    struct pollfd pfd = {.fd = fl_port_wait_fd(port), .events = POLLIN};
    const struct in6_addr expected = gid_of(of);
    struct in6_addr gid;
    if (poll(&pfd, 1, ms) != 1)
        return false;
    fl_port_hear_refusals(port);
    assert_true(fl_port_refused(port, &gid));
    assert_memory_equal(&gid, &expected, sizeof(gid));
    assert_false(fl_port_refused(port, &gid));
    assert_int_equal(poll(&pfd, 1, 0), 0); /* it is over with that */
    return true;
}

static void ignore(void *arg, const struct fl_port_packet *packet)
{
    ++*(int *)arg;
}

static void one_of_each_family(void **state)
{
    static const char *const addresses[] = {"127.0.0.1", "::1", "127.0.0.2"};
    struct fl_port *port = open_port();
    int nr = 0;
    knock(port, "127.0.0.1"); /* here somebody has the port: the packet comes, and is right */
    for (uint64_t end = fl_now_ns() + 20 * FL_NS_PER_S; !port->stats.nr_unknown_qpn && fl_now_ns() < end;)
        fl_port_poll(port, 16, ignore, &nr);
    assert_int_equal(port->stats.nr_unknown_qpn, 1);
    assert_false(hears(port, "127.0.0.1", 50));
    close(port->udp_fd);
    port->udp_fd = -1;
    for (size_t i = 0; i < FL_ARRAY_LEN(addresses); i++) {
        for (int n = 0; n < 2; n++) {
            knock(port, addresses[i]);
            assert_true(hears(port, addresses[i], 5000));
        }
    }
    port->role = FL_ROLE_NONE; /* it has no socket to hand anything over from */
    fl_port_close(port);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(one_of_each_family));
}
