/* SPDX-License-Identifier: Apache-2.0 */
/* Machines that are made up, and which device each leads by. */
#include "verbs/choose.h"

#include <arpa/inet.h>
#include <errno.h>

#include "verbs/test_tree.h"

#define HAS(text, part)                                             \
    do {                                                            \
        if (!strstr((text), (part)))                                \
            fail_msg("\"%s\" does not say \"%s\"", (text), (part)); \
    } while (0)

/*
 * eth0 has 10.0.0.1 and a RoCE device, eth1 has 10.0.1.1 and none; farlane0, farlane1 and farlane2 are the
 * software RNIC's on eth0, eth1 and lo. The peer is 10.0.0.2 by eth0.
 */
struct machine {
    struct fl_choose_facts facts;
    struct fl_soft_gid soft[3];
};

static struct fl_addr addr(const char *ip)
{
    struct fl_addr a;

    assert_int_equal(fl_addr_parse_ip(ip, 4420, &a, NULL), 0);
    return a;
}

static void soft(struct machine *m, int i, const char *device, const char *ifname, const char *gid)
{
    struct fl_soft_gid *g = &m->soft[i];

    *g = (struct fl_soft_gid){.index = i, .up = true};
    strcpy(g->device, device);
    strcpy(g->ifname, ifname);
    assert_int_equal(inet_pton(AF_INET6, gid, &g->gid), 1);
}

static void by(struct machine *m, const char *to, enum fl_route_kind kind, const char *ifname,
               const char *source)
{
    m->facts.to = addr(to);
    m->facts.route = (struct fl_route){.kind = kind, .source = addr(source)};
    strcpy(m->facts.route.ifname, kind == FL_ROUTE_LOCAL ? "lo" : ifname);
    strcpy(m->facts.ifname, ifname);
}

static void build(struct machine *m)
{
    memset(m, 0, sizeof(*m));
    soft(m, 0, "farlane0", "eth0", "::ffff:10.0.0.1");
    soft(m, 1, "farlane1", "eth1", "::ffff:10.0.1.1");
    soft(m, 2, "farlane2", "lo", "::ffff:127.0.0.1");
    m->facts.soft = m->soft;
    m->facts.nr_soft = FL_ARRAY_LEN(m->soft);
    by(m, "10.0.0.2", FL_ROUTE_DIRECT, "eth0", "10.0.0.1");
}

static void with_hardware(struct machine *m)
{
    tree_device("mlx5_0", 0, "4: ACTIVE", "Ethernet");
    tree_gid("mlx5_0", 0, "0000:0000:0000:0000:0000:ffff:0a00:0001", "IB/RoCE v1", "eth0");
    tree_gid("mlx5_0", 1, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "eth0");
    build(m);
    assert_int_equal(fl_hw_read(tree, &m->facts.hw), 0);
}

static void look_again(struct machine *m)
{
    fl_hw_free(&m->facts.hw);
    assert_int_equal(fl_hw_read(tree, &m->facts.hw), 0);
}

static int choose(struct machine *m, const char *dev, struct fl_choice *c, struct fl_error *err)
{
    int r;

    *err = (struct fl_error){0};
    r = fl_choose(&m->facts, dev, c, err);
    assert_int_equal(r, err->code);
    for (int i = 0; i < (int)c->path && r == 0; i++)
        assert_true(c->why_not[i][0]); /* each better way has its reason */
    if (r == 0)
        assert_string_equal(c->why_not[c->path], "");
    return r;
}

static void hardware_before_software(void **state)
{
    struct fl_choice c;
    struct fl_error err;
    struct machine m;

    with_hardware(&m);
    for (int i = 0; i < 3; i++) {
        static const char *const devs[] = {NULL, "auto", "hardware"};

        assert_int_equal(choose(&m, devs[i], &c, &err), 0);
        assert_true(c.hardware);
        assert_int_equal(c.path, FL_PATH_HARDWARE);
        assert_string_equal(c.device, "mlx5_0");
        assert_int_equal(c.port, 1);
        assert_int_equal(c.gid_index, 1); /* RoCE v2 */
        assert_string_equal(c.ifname, "eth0");
        assert_false(c.bind);
        assert_false(c.here);
    }
    fl_hw_free(&m.facts.hw);
}

static void software_when_told_or_alone(void **state)
{
    struct fl_choice c;
    struct fl_error err;
    struct machine m;

    with_hardware(&m);
    assert_int_equal(choose(&m, "soft", &c, &err), 0);
    assert_false(c.hardware);
    assert_int_equal(c.path, FL_PATH_UDP);
    assert_string_equal(c.device, "farlane0");
    HAS(c.why_not[FL_PATH_HARDWARE], "dev=soft asks for the software RNIC");
    HAS(c.why_not[FL_PATH_SHM], "on another host");
    fl_hw_free(&m.facts.hw);
    build(&m);
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    assert_string_equal(c.device, "farlane0");
    HAS(c.why_not[FL_PATH_HARDWARE], "this machine has no RDMA device");
    assert_int_equal(choose(&m, "hardware", &c, &err), -ENODEV);
    HAS(err.text, "this machine has no RDMA device");
    assert_null(strstr(err.text, "dev=")); /* it may have been --require */
    assert_string_equal(c.why_not[FL_PATH_UDP], "only hardware is asked for");
}

static void a_device_by_name(void **state)
{
    struct fl_choice c;
    struct fl_error err;
    char text[FL_ADDR_IP_LEN];
    struct machine m;

    with_hardware(&m);
    assert_int_equal(choose(&m, "mlx5_0", &c, &err), 0);
    assert_true(c.hardware);
    assert_int_equal(choose(&m, "farlane0", &c, &err), 0);
    assert_false(c.hardware);
    assert_false(c.bind);
    assert_int_equal(choose(&m, "farlane1", &c, &err), 0); /* not by the route, but it is to be */
    assert_string_equal(c.device, "farlane1");
    assert_true(c.bind);
    assert_string_equal(fl_addr_format_ip(&c.source, text), "10.0.1.1");
    by(&m, "10.0.1.2", FL_ROUTE_DIRECT, "eth1", "10.0.1.1");
    assert_int_equal(choose(&m, "mlx5_0", &c, &err), 0);
    assert_true(c.hardware && c.bind);
    assert_string_equal(fl_addr_format_ip(&c.source, text), "10.0.0.1");
    assert_int_equal(choose(&m, "mlx5_7", &c, &err), -ENODEV);
    HAS(err.text, "mlx5_0 (hardware), farlane0, farlane1, farlane2");
    assert_int_equal(choose(&m, "eth1", &c, &err), -ENODEV);
    HAS(err.text, "dev=eth1 is a network interface; the RDMA device on it is farlane1");
    by(&m, "2001:db8::2", FL_ROUTE_DIRECT, "eth0", "2001:db8::1");
    assert_int_equal(choose(&m, "farlane0", &c, &err), -ENODEV);
    HAS(err.text, "farlane0 has no address that fits; 2001:db8::1 is wanted");
    assert_int_equal(choose(&m, "mlx5_0", &c, &err), -ENODEV);
    HAS(err.text, "2001:db8::2 is reached from 2001:db8::1 on eth0");
    fl_hw_free(&m.facts.hw);
}

static void on_this_host(void **state)
{
    struct fl_choice c;
    struct fl_error err;
    struct machine m;

    with_hardware(&m);
    by(&m, "127.0.0.1", FL_ROUTE_LOCAL, "lo", "127.0.0.1");
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    assert_int_equal(c.path, FL_PATH_SHM);
    assert_true(c.here);
    assert_string_equal(c.device, "farlane2");
    HAS(c.why_not[FL_PATH_HARDWARE], "mlx5_0 port 1 is on eth0; 127.0.0.1 is reached from 127.0.0.1 on lo");
    m.facts.shm_off = true;
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    assert_int_equal(c.path, FL_PATH_UDP);
    HAS(c.why_not[FL_PATH_SHM], "FARLANE_SHM=0");
    /* an address of the hardware's: who listens there by hardware is reached by it */
    by(&m, "10.0.0.1", FL_ROUTE_LOCAL, "eth0", "10.0.0.1");
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    assert_true(c.hardware && c.here);
    fl_hw_free(&m.facts.hw);
}

/* What keeps the hardware from being taken, and what to do. */
static void hardware_that_cannot_be_used(void **state)
{
    struct fl_choice c;
    struct fl_error err;
    struct machine m;

    with_hardware(&m);
    by(&m, "10.0.1.2", FL_ROUTE_DIRECT, "eth1", "10.0.1.1");
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    assert_string_equal(c.device, "farlane1");
    HAS(c.why_not[FL_PATH_HARDWARE], "mlx5_0 port 1 is on eth0; 10.0.1.2 is reached from 10.0.1.1 on eth1");
    by(&m, "10.0.0.2", FL_ROUTE_DIRECT, "eth0", "10.0.0.1");

    fl_error_set(&m.facts.no_library, -ENOENT, "RDMA hardware needs librdmacm.so.1 of rdma-core");
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    assert_false(c.hardware);
    HAS(c.why_not[FL_PATH_HARDWARE], "needs librdmacm.so.1 of rdma-core");
    fl_error_clear(&m.facts.no_library);

    tree_put("1: DOWN", "sys/class/infiniband/mlx5_0/ports/1/state");
    look_again(&m);
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    HAS(c.why_not[FL_PATH_HARDWARE], "mlx5_0 port 1 is DOWN, not ACTIVE");
    tree_put("4: ACTIVE", "sys/class/infiniband/mlx5_0/ports/1/state");

    tree_put("IB/RoCE v1", "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1");
    look_again(&m);
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    HAS(c.why_not[FL_PATH_HARDWARE], "10.0.0.1 as RoCE v1 only");
    tree_put("RoCE v2", "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1");

    look_again(&m);
    m.facts.hw.ports[0].access = -EACCES; /* root may open anything, so no file can play this */
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    HAS(c.why_not[FL_PATH_HARDWARE], "uverbs0, the file of mlx5_0, may not be opened: Permission denied");
    m.facts.hw.ports[0].access = 0;
    m.facts.hw.cm_access = -ENOENT;
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    HAS(c.why_not[FL_PATH_HARDWARE], "modprobe rdma_ucm");
    fl_hw_free(&m.facts.hw);
}

/* Of two ports the one that got farther tells its reason. */
static void the_reason_worth_telling(void **state)
{
    struct fl_choice c;
    struct fl_error err;
    struct machine m;

    with_hardware(&m);
    tree_device("mlx5_1", 1, "1: DOWN", "Ethernet");
    tree_gid("mlx5_1", 0, "0000:0000:0000:0000:0000:ffff:0a00:0101", "RoCE v2", "eth1");
    look_again(&m);
    by(&m, "10.0.1.2", FL_ROUTE_DIRECT, "eth1", "10.0.1.1");
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    HAS(c.why_not[FL_PATH_HARDWARE], "mlx5_1 port 1 is DOWN");
    by(&m, "10.0.2.2", FL_ROUTE_GATEWAY, "eth2", "10.0.2.1");
    assert_int_equal(choose(&m, NULL, &c, &err), -ENODEV);
    HAS(c.why_not[FL_PATH_HARDWARE], "none of this machine's 2 RDMA ports is on eth2");
    HAS(err.text, "no RDMA device leads there: none of this machine's 2 RDMA ports");
    HAS(err.text, "no device of the software RNIC has the address 10.0.2.1");
    fl_hw_free(&m.facts.hw);
}

static void infiniband_and_iwarp(void **state)
{
    struct fl_choice c;
    struct fl_error err;
    struct machine m;

    tree_device("mlx4_0", 0, "4: ACTIVE", "InfiniBand");
    tree_gid("mlx4_0", 0, "fe80:0000:0000:0000:0002:c903:0000:1001", NULL, NULL);
    tree_device("siw0", 1, "4: ACTIVE", "Ethernet");
    tree_put("4: RNIC", "sys/class/infiniband/siw0/node_type");
    tree_put("", "sys/class/infiniband/siw0/device/net/eth1/");
    build(&m);
    look_again(&m);
    by(&m, "10.0.3.2", FL_ROUTE_DIRECT, "ib0", "10.0.3.1");
    assert_int_equal(choose(&m, "hardware", &c, &err), -ENODEV);
    HAS(err.text, "ib0");
    m.facts.ipoib = m.facts.hw.ports[0].gids[0].gid;
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    assert_string_equal(c.device, "mlx4_0");
    memset(&m.facts.ipoib, 0, sizeof(m.facts.ipoib));
    by(&m, "10.0.1.2", FL_ROUTE_DIRECT, "eth1", "10.0.1.1");
    assert_int_equal(choose(&m, NULL, &c, &err), 0);
    assert_string_equal(c.device, "siw0");
    fl_hw_free(&m.facts.hw);
}

static void no_route(void **state)
{
    struct fl_choice c;
    struct fl_error err;
    struct machine m;

    with_hardware(&m);
    fl_error_set(&m.facts.no_route, -ENETUNREACH, "there is no route to it: Network is unreachable");
    assert_int_equal(choose(&m, NULL, &c, &err), -ENETUNREACH);
    for (int i = 0; i < FL_NR_PATHS; i++)
        HAS(c.why_not[i], "no route");
    fl_error_clear(&m.facts.no_route);
    m.facts.route.source.len = 0;
    assert_int_equal(choose(&m, NULL, &c, &err), -EHOSTUNREACH);
    fl_hw_free(&m.facts.hw);
}

static void listening(void **state)
{
    struct fl_error err = {0};
    struct fl_choice c;
    struct machine m;

    with_hardware(&m);
    m.facts.to = addr("10.0.0.1");
    assert_int_equal(fl_choose_listen(&m.facts, "", &c, &err), 0);
    assert_string_equal(c.device, "mlx5_0");
    m.facts.to = addr("127.0.0.1");
    assert_int_equal(fl_choose_listen(&m.facts, "auto", &c, &err), 0);
    assert_string_equal(c.device, "farlane2");
    m.facts.to = addr("0.0.0.0"); /* every device of the kind that is chosen */
    assert_int_equal(fl_choose_listen(&m.facts, NULL, &c, &err), 0);
    assert_true(c.hardware);
    assert_string_equal(c.device, "");
    assert_int_equal(fl_choose_listen(&m.facts, "soft", &c, &err), 0);
    assert_false(c.hardware);
    assert_int_equal(fl_choose_listen(&m.facts, "mlx5_0", &c, &err), -EINVAL);
    HAS(err.text, "name one instead of all");
    fl_error_clear(&err);
    m.facts.to = addr("10.0.1.1");
    assert_int_equal(fl_choose_listen(&m.facts, "mlx5_0", &c, &err), -ENODEV);
    HAS(err.text, "mlx5_0 port 1 does not have the address 10.0.1.1; it is on eth0");
    fl_error_clear(&err);
    assert_int_equal(fl_choose_listen(&m.facts, "farlane0", &c, &err), -ENXIO);
    HAS(err.text, "dev=farlane0 does not have the address 10.0.1.1: that is one of dev=farlane1");
    fl_error_clear(&err);
    assert_int_equal(fl_choose_listen(&m.facts, "foo", &c, &err), -ENXIO);
    HAS(err.text, "it has mlx5_0 (hardware), farlane0, farlane1, farlane2");
    fl_error_clear(&err);
    by(&m, "10.9.9.9", FL_ROUTE_LOCAL, "", "10.9.9.9"); /* not there yet, as the device may be */
    assert_int_equal(fl_choose_listen(&m.facts, "foo", &c, &err), -ENODEV);
    HAS(err.text, "neither the address 10.9.9.9 nor the device is there: dev=foo");
    fl_error_clear(&err);
    assert_int_equal(fl_choose_listen(&m.facts, "farlane0", &c, &err), -ENODEV);
    HAS(err.text, "farlane0 has no address that fits; 10.9.9.9 is wanted");
    tree_put("1: DOWN", "sys/class/infiniband/mlx5_0/ports/1/state");
    look_again(&m);
    m.facts.to = addr("0.0.0.0");
    assert_int_equal(fl_choose_listen(&m.facts, NULL, &c, &err), 0);
    assert_false(c.hardware);
    fl_hw_free(&m.facts.hw);
}

/* This machine as it is: the loopback is always there. */
static void the_real_machine(void **state)
{
    struct fl_addr to = addr("127.0.0.1");
    struct fl_error err = {0};
    struct fl_choice c;

    setenv("FARLANE_ROOT", tree, 1);
    assert_int_equal(fl_choose_to(&to, NULL, &c, &err), 0);
    assert_true(c.here);
    assert_false(c.hardware);
    assert_string_equal(c.ifname, "lo");
    HAS(c.why_not[FL_PATH_HARDWARE], tree);
    assert_int_equal(fl_choose_at(&to, "soft", &c, &err), 0);
    assert_string_equal(c.ifname, "lo");
    unsetenv("FARLANE_ROOT");
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, tree_begin, tree_end)

int main(void)
{
    return FL_UNIT_RUN(
        IN_TREE(hardware_before_software), IN_TREE(software_when_told_or_alone), IN_TREE(a_device_by_name),
        IN_TREE(on_this_host), IN_TREE(hardware_that_cannot_be_used), IN_TREE(the_reason_worth_telling),
        IN_TREE(infiniband_and_iwarp), IN_TREE(no_route), IN_TREE(listening), IN_TREE(the_real_machine));
}
