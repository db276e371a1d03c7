/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces, routes, filters, buffers, good and bad. */
#include <arpa/inet.h>
#include <string.h>

#include "test_tree.h"

#define CONF "/proc/sys/net/ipv4/conf/"

static void links(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_interface(&t, "eth1", 9000);
    tree_put(&t, "/sys/class/net/bonding_masters", "bond0\n");
    tree_run(&t, "net-link");
    tree_expect(&t, "net-link", "eth1", LEVEL_OK, "up, 100000 Mb/s, full duplex");
    tree_put(&t, "/sys/class/net/eth1/duplex", "half\n");
    tree_run(&t, "net-link");
    tree_expect(&t, "net-link", "eth1", LEVEL_SLOW, "half duplex");
    tree_put(&t, "/sys/class/net/eth1/operstate", "down\n");
    tree_run(&t, "net-link");
    tree_expect(&t, "net-link", NULL, LEVEL_ABSENT, ""); /* a spare port */
    tree_port(&t, "mlx5_0", "eth1");
    tree_run(&t, "net-link");
    tree_expect(&t, "net-link", "eth1", LEVEL_BAD, "an RDMA port stands behind it");
    tree_end(&t);
}

/* D6 */
static void mtu_1500_and_9000(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_interface(&t, "eth1", 1500);
    tree_run(&t, "net-mtu");
    tree_expect(&t, "net-mtu", "eth1", LEVEL_HINT, "RoCE sends 1024 bytes");
    tree_interface(&t, "eth1", 9000);
    tree_run(&t, "net-mtu");
    tree_expect(&t, "net-mtu", "eth1", LEVEL_OK, "RoCE sends 4096 bytes");
    tree_end(&t);
}

static void reverse_path(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_interface(&t, "eth1", 9000);
    tree_put(&t, CONF "all/rp_filter", "1\n");
    tree_put(&t, CONF "eth1/rp_filter", "0\n");
    tree_run(&t, "net-rp-filter");
    tree_expect(&t, "net-rp-filter", "eth1", LEVEL_OK, "the only interface");
    tree_interface(&t, "eth2", 9000);
    tree_put(&t, CONF "eth2/rp_filter", "2\n");
    tree_run(&t, "net-rp-filter");
    /* the larger of both counts: 1 for eth1, 2 for eth2 */
    assert_string_equal(
        tree_expect(&t, "net-rp-filter", "eth1", LEVEL_SLOW, "rp_filter is 1 for all and 0")->remedy,
        "sysctl -w net/ipv4/conf/eth1/rp_filter=2");
    tree_expect(&t, "net-rp-filter", "eth2", LEVEL_OK, "2 for eth2");
    tree_put(&t, CONF "all/rp_filter", "0\n");
    tree_run(&t, "net-rp-filter");
    tree_expect(&t, "net-rp-filter", "eth1", LEVEL_OK, "0 for eth1");
    tree_end(&t);
}

static void two_in_one_subnet(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_run(&t, "net-arp");
    tree_expect(&t, "net-arp", NULL, LEVEL_UNSEEN, "addresses");
    tree_put(&t, "/hooks/addrs", "eth1 10.0.0.1/24\neth1 10.0.0.2/24\neth2 10.0.1.1/24\n");
    tree_run(&t, "net-arp");
    tree_expect(&t, "net-arp", NULL, LEVEL_ABSENT, "");
    tree_put(&t, "/hooks/addrs", "eth1 10.0.0.1/24\neth2 10.0.0.3/24\n");
    tree_run(&t, "net-arp");
    tree_expect(&t, "net-arp", "eth1", LEVEL_SLOW, "eth1 and eth2 have addresses in one subnet");
    tree_put(&t, CONF "all/arp_ignore", "1\n");
    tree_run(&t, "net-arp");
    tree_expect(&t, "net-arp", "eth1", LEVEL_OK, "arp_ignore is 1");
    tree_end(&t);
}

/* ---- D5: which interface would be used ---- */

static void go_to(struct tree *t, const char *peer)
{
    char mapped[80];

    snprintf(mapped, sizeof(mapped), "::ffff:%s", peer);
    t->d.peer = peer;
    assert_int_equal(inet_pton(AF_INET6, mapped, &t->d.peer_addr), 1);
    tree_run(t, "net-route");
}

static void route_decides(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_run(&t, "net-route");
    tree_expect(&t, "net-route", NULL, LEVEL_ABSENT, ""); /* without a peer there is no route to look at */
    for (int i = 1; i <= 8; i++) {
        char dev[16], ifname[16];

        snprintf(dev, sizeof(dev), "mlx5_%d", i);
        snprintf(ifname, sizeof(ifname), "rail%d", i);
        tree_port(&t, dev, ifname);
        tree_interface(&t, ifname, 9000);
    }
    tree_put(&t, "/sys/class/net/docker0/bridge/bridge_id", "8000\n");
    tree_interface(&t, "eth0", 1500);
    tree_put(&t, "/proc/net/route",
             "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
             "eth0\t00000000\t0100000A\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"    /* default, by 10.0.0.1 */
             "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n" /* 172.17.0.0/16 */
             "rail1\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"   /* 192.168.1.0/24 */
             "rail8\t0008A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"   /* 192.168.8.0/24 */
             "rail2\t0900A8C0\t00000000\t0000\t0\t0\t0\tFFFFFFFF\t0\t0\t0\n"); /* not up */
    go_to(&t, "192.168.8.77");
    tree_expect(&t, "net-route", "192.168.8.77", LEVEL_OK, "by rail8, which has an RDMA port");
    go_to(&t, "192.168.1.1");
    tree_expect(&t, "net-route", "192.168.1.1", LEVEL_OK, "by rail1");
    go_to(&t, "8.8.8.8");
    tree_expect(&t, "net-route", "8.8.8.8", LEVEL_SLOW, "by eth0, behind which no active RDMA port stands");
    go_to(&t, "172.17.3.4");
    tree_expect(&t, "net-route", "172.17.3.4", LEVEL_BAD, "docker0, a bridge");
    tree_put(&t, "/proc/net/route", "Iface\tDestination\n");
    go_to(&t, "8.8.8.8");
    tree_expect(&t, "net-route", "8.8.8.8", LEVEL_BAD, "no route");
    tree_end(&t);
}

static void firewalls(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/hooks/firewall", "error 1\n");
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-firewall", "nftables", LEVEL_UNSEEN, "root sees it");
    tree_put(&t, "/hooks/firewall", "filter input accept 0 0 0\n");
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-firewall", "nftables", LEVEL_OK, "no chain");
    tree_put(&t, "/hooks/firewall", "filter input drop 0 1 0\n");
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-firewall", "filter/input", LEVEL_BAD, "no 4791 and 4420");
    tree_put(&t, "/hooks/firewall", "filter input drop 1 1 0\n");
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-firewall", "filter/input", LEVEL_OK, "4791 and 4420");
    tree_put(&t, "/hooks/firewall", "filter input drop 0 0 1\n"); /* sets are not understood: no verdict */
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-firewall", "filter/input", LEVEL_UNSEEN, "--peer proves");
    tree_end(&t);
}

static void old_iptables(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/hooks/firewall", "filter input accept 0 0 0\n");
    tree_put(&t, "/hooks/iptables", "iptables INPUT drop 0 1 0\n");
    tree_put(&t, "/proc/net/ip_tables_names",
             "nat\nmangle\n"); /* no filters: not asked, which would load them */
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-firewall", "nftables", LEVEL_OK, "no chain");
    assert_int_equal(t.d.nr_findings, 1);
    tree_put(&t, "/proc/net/ip_tables_names", "nat\nfilter\n");
    tree_run(&t, "net-firewall");
    assert_memory_equal(
        tree_expect(&t, "net-iptables", "iptables/INPUT", LEVEL_BAD, "no 4791 and 4420")->remedy,
        "iptables -I INPUT -p udp --dport 4791", 37);
    tree_put(&t, "/hooks/iptables", "iptables INPUT drop 1 1 1\n");
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-iptables", "iptables/INPUT", LEVEL_OK, "4791 and 4420");
    tree_put(&t, "/hooks/iptables", "iptables INPUT drop 0 1 1\n");
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-iptables", "iptables/INPUT", LEVEL_UNSEEN, "not understood");
    tree_put(&t, "/hooks/iptables", "iptables INPUT accept 0 0 0\n");
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-iptables", "iptables", LEVEL_OK, "drop nothing");
    tree_put(&t, "/hooks/iptables", "error 1\n");
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-iptables", "iptables", LEVEL_UNSEEN, "root sees them");
    tree_put(&t, "/proc/net/ip6_tables_names", "filter\n");
    tree_put(&t, "/hooks/ip6tables", "ip6tables INPUT drop 0 0 0\n");
    tree_run(&t, "net-firewall");
    tree_expect(&t, "net-iptables", "ip6tables/INPUT", LEVEL_BAD, "no 4791 and no 4420");
    tree_end(&t);
}

/* ---- UDP and TCP ---- */

static void udp_buffers(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_run(&t, "net-udp-buffers");
    tree_expect(&t, "net-udp-buffers", "rmem_max", LEVEL_UNSEEN, "another network namespace");
    tree_put(&t, "/proc/sys/net/core/rmem_max", "212992\n");
    tree_put(&t, "/proc/sys/net/core/wmem_max", "16777216\n");
    tree_run(&t, "net-udp-buffers");
    assert_string_equal(tree_expect(&t, "net-udp-buffers", "rmem_max", LEVEL_SLOW, "212992")->remedy,
                        "sysctl -w net/core/rmem_max=8388608");
    tree_expect(&t, "net-udp-buffers", "wmem_max", LEVEL_OK, "16777216");
    tree_put(&t, "/proc/self/status", "Name:\tx\nCapEff:\t0000000000001000\n");
    tree_run(&t, "net-udp-buffers");
    tree_expect(&t, "net-udp-buffers", "rmem_max", LEVEL_OK, "CAP_NET_ADMIN");
    tree_end(&t);
}

#define SNMP(tcp_again, drops, sums)                                                                      \
    "Ip: Forwarding DefaultTTL\nIp: 1 64\n"                                                               \
    "Tcp: RtoAlgorithm OutSegs RetransSegs\nTcp: 1 2000000 " tcp_again "\n"                               \
    "Udp: InDatagrams NoPorts InErrors OutDatagrams RcvbufErrors SndbufErrors InCsumErrors IgnoredMulti " \
    "MemErrors\n"                                                                                         \
    "Udp: 500 1 2 3 " drops " 4 " sums " 5 6\n"                                                           \
    "UdpLite: InDatagrams RcvbufErrors\nUdpLite: 77 88\n"

static void lost_packets(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/proc/net/snmp", "%s", SNMP("12", "0", "0"));
    tree_put(&t, "/proc/net/snmp6",
             "Udp6InDatagrams                 \t9\nUdp6RcvbufErrors                \t0\n");
    tree_run(&t, NULL);
    tree_expect(&t, "net-udp-drops", "UDP", LEVEL_OK, "0 datagrams found a full buffer since the start, 500");
    tree_expect(&t, "net-udp-checksum", "UDP", LEVEL_OK, "0 datagrams");
    tree_expect(&t, "net-tcp-loss", "TCP", LEVEL_OK, "12 of 2000000");
    tree_put(&t, "/proc/net/snmp", "%s", SNMP("9000", "17", "3"));
    tree_put(&t, "/proc/net/snmp6", "Udp6RcvbufErrors                \t4\n");
    tree_run(&t, NULL);
    tree_expect(&t, "net-udp-drops", "UDP", LEVEL_SLOW, "21 datagrams");
    tree_expect(&t, "net-udp-checksum", "UDP", LEVEL_SLOW, "3 datagrams");
    tree_expect(&t, "net-tcp-loss", "TCP", LEVEL_SLOW, "0.450 %");
    tree_put(&t, "/proc/net/snmp",
             "Udp: InDatagrams\nUdp: \n"); /* nothing to be found, nothing to crash on */
    tree_run(&t, NULL);
    tree_expect(&t, "net-udp-drops", NULL, LEVEL_ABSENT, "");
    tree_end(&t);
}

static void tcp_settings(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/proc/sys/net/ipv4/tcp_rmem", "4096\t131072\t6291456\n");
    tree_put(&t, "/proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t33554432\n");
    tree_put(&t, "/proc/sys/net/ipv4/tcp_sack", "0\n");
    tree_put(&t, "/proc/sys/net/ipv4/tcp_window_scaling", "1\n");
    tree_run(&t, NULL);
    assert_string_equal(tree_expect(&t, "net-tcp-buffers", "tcp_rmem", LEVEL_HINT, "6291456")->remedy,
                        "sysctl -w net/ipv4/tcp_rmem='4096 131072 16777216'");
    tree_expect(&t, "net-tcp-buffers", "tcp_wmem", LEVEL_OK, "33554432");
    tree_expect(&t, "net-tcp-options", "tcp_sack", LEVEL_SLOW, "tcp_sack is 0");
    tree_expect(&t, "net-tcp-options", "tcp_window_scaling", LEVEL_OK, "is 1");
    tree_end(&t);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(links), cmocka_unit_test(mtu_1500_and_9000),
                       cmocka_unit_test(reverse_path), cmocka_unit_test(two_in_one_subnet),
                       cmocka_unit_test(route_decides), cmocka_unit_test(firewalls),
                       cmocka_unit_test(old_iptables), cmocka_unit_test(udp_buffers),
                       cmocka_unit_test(lost_packets), cmocka_unit_test(tcp_settings));
}
