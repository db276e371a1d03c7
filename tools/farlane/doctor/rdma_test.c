/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices, ports and GID tables, good and bad. */
#include <arpa/inet.h>
#include <string.h>

#include "test_tree.h"

static void set_peer(struct tree *t, const char *mapped)
{
    t->d.peer = "peer";
    assert_int_equal(inet_pton(AF_INET6, mapped, &t->d.peer_addr), 1);
}

/* ---- D1: the zoo of GID tables ---- */

static void v1_before_v2(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_gid(&t, "mlx5_0", 0, "fe80::1", "IB/RoCE v1", "eth1");
    tree_gid(&t, "mlx5_0", 1, "fe80::1", "RoCE v2", "eth1");
    tree_gid(&t, "mlx5_0", 2, "::ffff:10.1.0.5", "IB/RoCE v1", "eth1");
    tree_gid(&t, "mlx5_0", 3, "::ffff:10.1.0.5", "RoCE v2", "eth1");
    tree_run(&t, "rdma-gid");
    tree_expect(&t, "rdma-gid", "mlx5_0/1", LEVEL_OK, "index 3 10.1.0.5 (RoCE v2, routable)");
    assert_string_equal(tree_expect(&t, "rdma-gid-default", "mlx5_0/1", LEVEL_HINT, "index 3")->remedy,
                        "export NCCL_IB_GID_INDEX=3 UCX_IB_GID_INDEX=3 # perftest: -x 3");
    tree_end(&t);
}

static void only_ipv6_with_holes(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    for (int i = 0; i < 16; i++)
        tree_gid(&t, "mlx5_0", i, "0000:0000:0000:0000:0000:0000:0000:0000", NULL, NULL);
    tree_gid(&t, "mlx5_0", 0, "fe80::1", "RoCE v2", "eth1");
    tree_gid(&t, "mlx5_0", 7, "fd00:1::5", "RoCE v2", "eth1");
    tree_gid(&t, "mlx5_0", 12, "fd00:2::5", "RoCE v2", "eth1");
    tree_put(&t, "/hooks/addrs", "eth1 fd00:1::5/64\neth1 fd00:2::5/64\n");
    set_peer(&t, "fd00:2::9");
    tree_run(&t, "rdma-gid");
    tree_expect(&t, "rdma-gid", "mlx5_0/1", LEVEL_OK, "index 12 fd00:2::5 (RoCE v2, in the peer's subnet)");
    tree_end(&t);
}

/* Indices 0 and 1 cannot be read: others tools gave up there */
static void first_entries_unreadable(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/gids/0/is-a-folder", "x"); /* read() answers EISDIR */
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/gids/1/is-a-folder", "x");
    tree_gid(&t, "mlx5_0", 2, "::ffff:10.1.0.5", "RoCE v2", "eth1");
    tree_run(&t, "rdma-gid");
    tree_expect(&t, "rdma-gid", "mlx5_0/1", LEVEL_OK, "index 2 10.1.0.5");
    tree_end(&t);
}

/* Two entries on one host, four on the other: the index differs, the choice does not */
static void index_differs_between_hosts(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_gid(&t, "mlx5_0", 0, "::ffff:10.1.0.5", "IB/RoCE v1", "eth1");
    tree_gid(&t, "mlx5_0", 1, "::ffff:10.1.0.5", "RoCE v2", "eth1");
    set_peer(&t, "::ffff:10.1.0.9");
    tree_run(&t, "rdma-gid");
    tree_expect(&t, "rdma-gid", "mlx5_0/1", LEVEL_OK, "index 1 10.1.0.5");
    tree_end(&t);
}

/* In a container without the interface, types cannot be read */
static void container_without_interface(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", NULL);
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/link_layer", "Ethernet\n");
    tree_run(&t, "rdma-gid");
    tree_expect(&t, "rdma-gid", "mlx5_0/1", LEVEL_BAD, "no entry, and no interface of the port is seen");
    tree_gid(&t, "mlx5_0", 3, "::ffff:10.1.0.5", NULL, NULL);
    tree_run(&t, "rdma-gid");
    tree_expect(&t, "rdma-gid", "mlx5_0/1", LEVEL_BAD, "its type cannot be read");
    tree_expect_none(&t, "rdma-gid-default");
    tree_end(&t);
}

static void infiniband_port(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", NULL);
    tree_gid(&t, "mlx5_0", 0, "fe80:0000:0000:0000:0002:c903:0001:0002", "IB/RoCE v1", NULL);
    tree_run(&t, "rdma-gid");
    tree_expect(&t, "rdma-gid", "mlx5_0/1", LEVEL_OK, "index 0 fe80::2:c903:1:2 (InfiniBand)");
    tree_end(&t);
}

static void link_local_and_v1_only(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_gid(&t, "mlx5_0", 0, "fe80::1", "IB/RoCE v1", "eth1");
    tree_run(&t, "rdma-gid");
    tree_expect(&t, "rdma-gid", "mlx5_0/1", LEVEL_SLOW, "RoCE v1");
    tree_gid(&t, "mlx5_0", 1, "fe80::1", "RoCE v2", "eth1");
    tree_run(&t, "rdma-gid");
    tree_expect(&t, "rdma-gid", "mlx5_0/1", LEVEL_SLOW, "link-local");
    tree_end(&t);
}

/* ---- devices and ports ---- */

static void no_devices(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_run(&t, NULL);
    tree_expect(&t, "rdma-devices", NULL, LEVEL_HINT, "no device");
    tree_expect(&t, "rdma-gid", NULL, LEVEL_ABSENT, "nothing");
    for (size_t i = 0; i < t.d.nr_findings; i++) /* an empty machine has no faults of RDMA */
        assert_true(strncmp(t.d.findings[i].check->id, "rdma-", 5) || t.d.findings[i].level > LEVEL_SLOW);
    tree_end(&t);
}

static void device_files(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_run(&t, "rdma-files");
    tree_expect(&t, "rdma-files", "mlx5_0", LEVEL_BAD, "ib_uverbs");
    tree_put(&t, "/sys/class/infiniband_verbs/abi_version", "6\n");
    tree_put(&t, "/sys/class/infiniband_verbs/uverbs0/ibdev", "mlx5_0\n");
    tree_run(&t, "rdma-files");
    tree_expect(&t, "rdma-files", "mlx5_0", LEVEL_BAD, "/dev/infiniband/uverbs0 is not there");
    tree_put(&t, "/dev/infiniband/uverbs0", "x");
    tree_run(&t, "rdma-files");
    tree_expect(&t, "rdma-files", "mlx5_0", LEVEL_OK, "can be opened");
    tree_run(&t, "rdma-cm");
    tree_expect(&t, "rdma-cm", NULL, LEVEL_BAD, "rdma_cm");
    tree_put(&t, "/dev/infiniband/rdma_cm", "x");
    tree_run(&t, "rdma-cm");
    tree_expect(&t, "rdma-cm", NULL, LEVEL_OK, "can be opened");
    tree_end(&t);
}

static void network_namespaces(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/sys/module/ib_core/parameters/netns_mode", "N\n");
    tree_run(&t, "rdma-netns");
    tree_expect(&t, "rdma-netns", NULL, LEVEL_HINT, "this one has none");
    tree_put(&t, "/sys/module/ib_core/parameters/netns_mode", "Y\n");
    tree_run(&t, "rdma-netns");
    tree_expect(&t, "rdma-netns", NULL, LEVEL_OK, "shared by all");
    tree_end(&t);
}

static void port_states(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_run(&t, "rdma-port-state");
    tree_expect(&t, "rdma-port-state", "mlx5_0/1", LEVEL_OK, "ACTIVE, Ethernet, 100 Gb/s, interface eth1");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/state", "1: DOWN\n");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/phys_state", "3: Disabled\n");
    tree_run(&t, "rdma-port-state");
    assert_non_null(strstr(tree_expect(&t, "rdma-port-state", "mlx5_0/1", LEVEL_BAD, "state 1")->remedy,
                           "ip link set eth1 up"));
    tree_port(&t, "mlx5_1", "eth2"); /* another one works: the first may just have no cable */
    tree_run(&t, "rdma-port-state");
    tree_expect(&t, "rdma-port-state", "mlx5_0/1", LEVEL_HINT, "state 1");
    tree_port(&t, "mlx5_2", NULL);
    tree_put(&t, "/sys/class/infiniband/mlx5_2/ports/1/state", "2: INIT\n");
    tree_run(&t, "rdma-port-state");
    tree_expect(&t, "rdma-subnet-manager", "mlx5_2/1", LEVEL_BAD, "INIT");
    tree_end(&t);
}

static void pcie_below_the_port(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", NULL);
    tree_link(&t, "/sys/class/infiniband/mlx5_0/device", "/sys/devices/pci0000:00/0000:01:00.0");
    tree_put(&t, "/sys/devices/pci0000:00/0000:01:00.0/current_link_speed", "8.0 GT/s PCIe\n");
    tree_put(&t, "/sys/devices/pci0000:00/0000:01:00.0/current_link_width", "8\n");
    tree_run(&t, "rdma-pcie-rate");
    tree_expect(&t, "rdma-pcie-rate", "mlx5_0/1", LEVEL_SLOW,
                "port 100 Gb/s; PCIe 0000:01:00.0 gives 63 Gb/s");
    tree_put(&t, "/sys/devices/pci0000:00/0000:01:00.0/current_link_width", "16\n");
    tree_run(&t, "rdma-pcie-rate");
    tree_expect(&t, "rdma-pcie-rate", "mlx5_0/1", LEVEL_OK, "gives 126 Gb/s");
    tree_put(&t, "/sys/devices/pci0000:00/0000:01:00.0/current_link_speed", "Unknown\n");
    tree_run(&t, "rdma-pcie-rate");
    tree_expect(&t, "rdma-pcie-rate", NULL, LEVEL_ABSENT, "");
    tree_end(&t);
}

/* D6: 1500 gives 1024; where the device is not asked, the interface tells */
static void packet_size(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_interface(&t, "eth1", 1500);
    tree_run(&t, "rdma-port-mtu");
    tree_expect(&t, "rdma-port-mtu", "mlx5_0/1", LEVEL_SLOW, "RoCE sends 1024 bytes");
    tree_interface(&t, "eth1", 9000);
    tree_run(&t, "rdma-port-mtu");
    tree_expect(&t, "rdma-port-mtu", "mlx5_0/1", LEVEL_OK, "RoCE sends 4096 bytes");
    tree_put(&t, "/hooks/mtu/mlx5_0", "2048 4096");
    tree_run(&t, "rdma-port-mtu");
    tree_expect(&t, "rdma-port-mtu", "mlx5_0/1", LEVEL_SLOW, "RoCE sends 2048 bytes");
    tree_end(&t);
}

static void link_errors(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", NULL);
    tree_run(&t, "rdma-errors");
    tree_expect(&t, "rdma-errors", NULL, LEVEL_ABSENT, "");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error", "0\n");
    tree_run(&t, "rdma-errors");
    tree_expect(&t, "rdma-errors", "mlx5_0/1", LEVEL_OK, "no error in 1 counters");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/counters/link_downed", "7\n");
    tree_run(&t, "rdma-errors");
    tree_expect(&t, "rdma-errors", "mlx5_0/1", LEVEL_SLOW, "link_downed 7");
    tree_end(&t);
}

int main(void)
{
    return FL_UNIT_RUN(
        cmocka_unit_test(v1_before_v2), cmocka_unit_test(only_ipv6_with_holes),
        cmocka_unit_test(first_entries_unreadable), cmocka_unit_test(index_differs_between_hosts),
        cmocka_unit_test(container_without_interface), cmocka_unit_test(infiniband_port),
        cmocka_unit_test(link_local_and_v1_only), cmocka_unit_test(no_devices),
        cmocka_unit_test(device_files), cmocka_unit_test(network_namespaces), cmocka_unit_test(port_states),
        cmocka_unit_test(pcie_below_the_port), cmocka_unit_test(packet_size), cmocka_unit_test(link_errors));
}
