/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/devices.h"

#include <arpa/inet.h>
#include <errno.h>

#include "verbs/test_tree.h"

#define NO_GID "0000:0000:0000:0000:0000:0000:0000:0000"

static const char *gid_text(const struct fl_port_gid *g)
{
    static char text[INET6_ADDRSTRLEN];

    return inet_ntop(AF_INET6, &g->gid, text, sizeof(text));
}

static void nothing_there(void **state)
{
    struct fl_hw hw;

    assert_int_equal(fl_hw_read(tree, &hw), 0);
    assert_int_equal(hw.nr_ports, 0);
    assert_int_equal(hw.cm_access, -ENOENT);
    fl_hw_free(&hw);
    tree_put("", "sys/class/infiniband/"); /* the modules are loaded, there is no device */
    assert_int_equal(fl_hw_read(tree, &hw), 0);
    assert_int_equal(hw.nr_ports, 0);
    fl_hw_free(&hw);
}

static void a_roce_port(void **state)
{
    const struct fl_hw_port *p;
    struct fl_hw hw;

    tree_device("mlx5_0", 3, "4: ACTIVE", "Ethernet");
    tree_gid("mlx5_0", 0, "fe80:0000:0000:0000:5054:00ff:fe12:3456", "IB/RoCE v1", "eth0");
    tree_gid("mlx5_0", 1, "fe80:0000:0000:0000:5054:00ff:fe12:3456", "RoCE v2", "eth0");
    tree_gid("mlx5_0", 2, NO_GID, NULL, NULL);
    tree_gid("mlx5_0", 10, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "eth0");
    assert_int_equal(fl_hw_read(tree, &hw), 0);
    assert_int_equal(hw.nr_ports, 1);
    p = &hw.ports[0];
    assert_string_equal(p->device, "mlx5_0");
    assert_int_equal(p->port, 1);
    assert_int_equal(p->kind, FL_PORT_ROCE);
    assert_true(p->active);
    assert_string_equal(p->state, "ACTIVE");
    assert_string_equal(p->rate, "100 Gb/sec (4X EDR)");
    assert_int_equal(p->access, 0);
    assert_non_null(strstr(p->uverbs, "/dev/infiniband/uverbs3"));
    assert_int_equal(hw.cm_access, 0);
    assert_int_equal(p->nr_gids, 3); /* the unset one is none */
    assert_false(p->gids[0].roce_v2);
    assert_true(p->gids[1].roce_v2);
    assert_int_equal(p->gids[2].index, 10);
    assert_string_equal(gid_text(&p->gids[2]), "::ffff:10.0.0.1");
    assert_string_equal(p->gids[2].ifname, "eth0");
    fl_hw_free(&hw);
}

static void infiniband_and_iwarp(void **state)
{
    struct in6_addr gid;
    struct fl_hw hw;

    tree_device("mlx4_0", 0, "1: DOWN", "InfiniBand");
    tree_gid("mlx4_0", 0, "fe80:0000:0000:0000:0002:c903:0000:1001", NULL, NULL);
    tree_device("siw0", 1, "4: ACTIVE", "Ethernet");
    tree_put("4: RNIC", "sys/class/infiniband/siw0/node_type");
    tree_gid("siw0", 0, "5254:0012:3456:0000:0000:0000:0000:0000", NULL, NULL);
    tree_put("", "sys/class/infiniband/siw0/device/net/eth1/");
    tree_put("80:00:02:08:fe:80:00:00:00:00:00:00:00:02:c9:03:00:00:10:01", "sys/class/net/ib0/address");
    tree_put("52:54:00:12:34:56", "sys/class/net/eth1/address");
    assert_int_equal(fl_hw_read(tree, &hw), 0);
    assert_int_equal(hw.nr_ports, 2);
    assert_int_equal(hw.ports[0].kind, FL_PORT_INFINIBAND);
    assert_false(hw.ports[0].active);
    assert_string_equal(hw.ports[0].state, "DOWN");
    assert_int_equal(hw.ports[1].kind, FL_PORT_IWARP);
    assert_int_equal(hw.ports[1].nr_gids, 1);
    assert_string_equal(hw.ports[1].gids[0].ifname, "eth1");
    assert_true(fl_hw_gid_of_ipoib(tree, "ib0", &gid));
    assert_memory_equal(&gid, &hw.ports[0].gids[0].gid, sizeof(gid));
    assert_false(fl_hw_gid_of_ipoib(tree, "eth1", &gid)); /* a MAC is no GID */
    assert_false(fl_hw_gid_of_ipoib(tree, "eth2", &gid));
    fl_hw_free(&hw);
}

static void a_tree_that_makes_no_sense(void **state)
{
    struct fl_hw hw;

    tree_put("", "sys/class/infiniband/bare/");
    tree_put("garbage", "sys/class/infiniband/odd/ports/1/state");
    tree_put("not a gid", "sys/class/infiniband/odd/ports/1/gids/0");
    tree_put("fe80::1:2:3:4:5:6:7:8:9:10:11:12:13:14:15:16:17:18:19:20:21:22",
             "sys/class/infiniband/odd/ports/1/gids/1");
    tree_put("0000:0000:0000:0000:0000:ffff:0a00:0001", "sys/class/infiniband/odd/ports/1/gids/2");
    tree_put("an-interface-whose-name-is-longer-than-any-can-be",
             "sys/class/infiniband/odd/ports/1/gid_attrs/ndevs/2");
    assert_int_equal(fl_hw_read(tree, &hw), 0);
    assert_int_equal(hw.nr_ports, 1);
    assert_false(hw.ports[0].active);
    assert_int_equal(hw.ports[0].access, -ENOENT);
    assert_string_equal(hw.ports[0].uverbs, "");
    assert_int_equal(hw.ports[0].nr_gids, 1);
    assert_false(hw.ports[0].gids[0].roce_v2); /* no word of its type */
    assert_int_equal(strlen(hw.ports[0].gids[0].ifname), IF_NAMESIZE - 1);
    fl_hw_free(&hw);
}

static void many_devices_in_order(void **state)
{
    struct fl_hw hw;
    char name[16];

    for (int i = 11; i >= 0; i--) {
        snprintf(name, sizeof(name), "mlx5_%d", i);
        tree_device(name, i, "4: ACTIVE", "Ethernet");
    }
    tree_put("1: DOWN", "sys/class/infiniband/mlx5_2/ports/2/state");
    assert_int_equal(fl_hw_read(tree, &hw), 0);
    assert_int_equal(hw.nr_ports, 13);
    assert_string_equal(hw.ports[3].device, "mlx5_2");
    assert_int_equal(hw.ports[3].port, 2);
    assert_string_equal(hw.ports[12].device, "mlx5_11");
    assert_non_null(strstr(hw.ports[12].uverbs, "uverbs11"));
    fl_hw_free(&hw);
}

#define IN_TREE(test) cmocka_unit_test_setup_teardown(test, tree_begin, tree_end)

int main(void)
{
    return FL_UNIT_RUN(IN_TREE(nothing_there), IN_TREE(a_roce_port), IN_TREE(infiniband_and_iwarp),
                       IN_TREE(a_tree_that_makes_no_sense), IN_TREE(many_devices_in_order));
}
