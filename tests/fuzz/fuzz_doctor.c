/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All that farlane doctor parses: files of /proc and /sys by its checks, the kernel's answers by netlink and
 * in the form of the old iptables, and what another doctor tells. The first byte says which. Files: a line
 * with the check's name; what follows is cut at bytes 0xff into FILES contents, which all files of a fake
 * tree have in turn.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "doctor/live.h"
#include "doctor/peer.h"
#include "doctor/xt.h"

enum { FILES = 4, PART_MAX = 4096 };

/* One of each that a check or a helper of checks reads; the names in folders are part of it. */
static const char *const paths[] = {
    "/proc/net/snmp",
    "/proc/net/snmp6",
    "/proc/net/route",
    "/proc/net/ip_tables_names",
    "/proc/net/ip6_tables_names",
    "/proc/self/status",
    "/proc/self/limits",
    "/proc/self/cgroup",
    "/proc/meminfo",
    "/proc/cpuinfo",
    "/proc/modules",
    "/proc/mounts",
    "/proc/cmdline",
    "/proc/driver/nvidia/version",
    "/proc/sys/net/core/rmem_max",
    "/proc/sys/net/core/wmem_max",
    "/proc/sys/net/ipv4/tcp_rmem",
    "/proc/sys/net/ipv4/tcp_wmem",
    "/proc/sys/net/ipv4/tcp_sack",
    "/proc/sys/net/ipv4/conf/all/rp_filter",
    "/proc/sys/net/ipv4/conf/all/arp_ignore",
    "/proc/sys/net/ipv4/conf/eth1/rp_filter",
    "/proc/sys/net/ipv4/conf/eth2/rp_filter",
    "/proc/sys/kernel/io_uring_disabled",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/numa_balancing",
    "/proc/sys/kernel/yama/ptrace_scope",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/max_map_count",
    "/sys/fs/cgroup/cgroup.controllers",
    "/sys/fs/cgroup/cpu.max",
    "/sys/fs/cgroup/cpu.stat",
    "/sys/fs/cgroup/memory.max",
    "/sys/fs/cgroup/memory.current",
    "/sys/fs/cgroup/pids.max",
    "/sys/fs/cgroup/pids.current",
    "/sys/fs/cgroup/rdma.max",
    "/sys/class/infiniband/mlx5_0/fw_ver",
    "/sys/class/infiniband/mlx5_0/board_id",
    "/sys/class/infiniband/mlx5_0/node_type",
    "/sys/class/infiniband/mlx5_0/ports/1/state",
    "/sys/class/infiniband/mlx5_0/ports/1/phys_state",
    "/sys/class/infiniband/mlx5_0/ports/1/rate",
    "/sys/class/infiniband/mlx5_0/ports/1/link_layer",
    "/sys/class/infiniband/mlx5_0/ports/1/gids/0",
    "/sys/class/infiniband/mlx5_0/ports/1/gids/1",
    "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/0",
    "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/1",
    "/sys/class/infiniband/mlx5_0/ports/1/gid_attrs/ndevs/0",
    "/sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error",
    "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence",
    "/sys/class/infiniband/mlx5_0/tc/1/traffic_class",
    "/sys/class/infiniband/mlx5_0/device/net/eth1/x",
    "/sys/class/infiniband_verbs/uverbs0/ibdev",
    "/sys/class/net/eth1/mtu",
    "/sys/class/net/eth1/type",
    "/sys/class/net/eth1/speed",
    "/sys/class/net/eth1/duplex",
    "/sys/class/net/eth1/operstate",
    "/sys/class/net/eth1/device/x",
    "/sys/class/net/eth1/ecn/roce_np/enable/3",
    "/sys/class/net/eth1/ecn/roce_rp/enable/3",
    "/sys/class/net/eth1/statistics/rx_dropped",
    "/sys/class/net/eth2/mtu",
    "/sys/class/net/eth2/type",
    "/sys/class/net/eth2/device/x",
    "/sys/class/nvme/nvme0/transport",
    "/sys/class/nvme/nvme0/state",
    "/sys/class/nvme/nvme0/address",
    "/sys/class/nvme/nvme0/ctrl_loss_tmo",
    "/sys/class/nvme/nvme0/fast_io_fail_tmo",
    "/sys/class/nvme/nvme0/reconnect_delay",
    "/sys/class/nvme-subsystem/nvme-subsys0/iopolicy",
    "/sys/class/nvme-subsystem/nvme-subsys0/nvme0/x",
    "/sys/class/nvme-subsystem/nvme-subsys0/nvme1/x",
    "/sys/module/ib_core/parameters/netns_mode",
    "/sys/module/nvme_core/parameters/multipath",
    "/sys/module/nvme_core/parameters/io_timeout",
    "/sys/module/nvme_core/parameters/admin_timeout",
    "/sys/module/nvidia_peermem/version",
    "/sys/bus/pci/devices/0000:01:00.0/class",
    "/sys/bus/pci/devices/0000:01:00.0/vendor",
    "/sys/bus/pci/devices/0000:01:00.0/numa_node",
    "/sys/bus/pci/devices/0000:01:00.0/config",
    "/sys/bus/pci/devices/0000:01:00.0/current_link_speed",
    "/sys/bus/pci/devices/0000:01:00.0/current_link_width",
    "/sys/bus/pci/devices/0000:01:00.0/max_link_speed",
    "/sys/bus/pci/devices/0000:01:00.0/max_link_width",
    "/sys/bus/pci/devices/0000:02:00.0/class",
    "/sys/bus/pci/devices/0000:02:00.0/vendor",
    "/sys/bus/pci/devices/0000:02:00.0/config",
    "/sys/kernel/iommu_groups/1/type",
    "/sys/kernel/iommu_groups/1/devices/0000:01:00.0/x",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages",
    "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
    "/sys/kernel/mm/transparent_hugepage/enabled",
    "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos",
    "/sys/devices/system/cpu/isolated",
    "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor",
    "/sys/devices/system/cpu/cpu0/cpuidle/state1/latency",
    "/sys/devices/system/cpu/cpu0/cpuidle/state1/disable",
    "/sys/devices/system/cpu/cpu0/cpuidle/state1/name",
    "/sys/devices/system/node/node0/x",
    "/sys/devices/system/node/node1/x",
    "/dev/infiniband/uverbs0",
};

static char root[64];
static int contents[FILES];

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    return remove(path);
}

static void remove_tree(void)
{
    nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make_folders(char *path)
{
    for (char *p = path + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        mkdir(path, 0700);
    }
}

/* Names of a few files, each under many paths. */
static void make_tree(void)
{
    char path[512], name[128];

    snprintf(root, sizeof(root), "%s/farlane-fuzz-XXXXXX", access("/dev/shm", W_OK) ? "/tmp" : "/dev/shm");
    assert(mkdtemp(root));
    atexit(remove_tree);
    for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
        snprintf(name, sizeof(name), "%s/content%zu", root, i % FILES);
        if (i < FILES) {
            contents[i] = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
            assert(contents[i] >= 0);
        }
        snprintf(path, sizeof(path), "%s%s", root, paths[i]);
        make_folders(path);
        assert(link(name, path) == 0);
    }
}

static void put(int fd, const uint8_t *data, size_t len)
{
    assert(pwrite(fd, data, len, 0) == (ssize_t)len && ftruncate(fd, (off_t)len) == 0);
}

/* By its name, or by a number for a fuzzer that has lost it. */
static const struct check *check_of(const uint8_t **data, size_t *len)
{
    const uint8_t *end = *len ? memchr(*data, '\n', *len) : NULL;
    const size_t name_len = end ? (size_t)(end - *data) : 0;
    const struct check *check = *len ? &doctor_checks[**data % nr_doctor_checks] : NULL;

    if (!end)
        return NULL;
    for (size_t i = 0; i < nr_doctor_checks; i++)
        if (strlen(doctor_checks[i].id) == name_len && !memcmp(doctor_checks[i].id, *data, name_len))
            check = &doctor_checks[i];
    *data = end + 1;
    *len -= name_len + 1;
    return check;
}

/* A report of all its forms: what was read is shown. */
static void check_files(const uint8_t *data, size_t len)
{
    static const struct sys_ops no_ops;
    const struct sys sys = {.root = root, .ops = &no_ops};
    struct doctor d = {.sys = &sys, .plan_len = 1 << 30, .peer = "peer"};
    const struct check *check;
    json_t *json;
    FILE *f;

    check = check_of(&data, &len);
    if (!check || !check->run)
        return;
    for (int i = 0; i < FILES; i++) {
        const uint8_t *cut = len ? memchr(data, 0xff, len) : NULL;
        const size_t part = cut && i < FILES - 1 ? (size_t)(cut - data) : len;

        put(contents[i], data, part < PART_MAX ? part : PART_MAX);
        data += part + (part < len);
        len -= part + (part < len);
    }
    doctor_run(&d, check->id);
    json = doctor_json(&d);
    assert(json || d.broken);
    json_decref(json);
    f = fopen("/dev/null", "we");
    assert(f);
    doctor_show(&d, f, true);
    doctor_script(&d, f);
    fclose(f);
    doctor_free(&d);
}

/* Two messages, cut in the middle; their own lengths are what netlink_run() has looked at. */
static struct nlmsghdr *message(const uint8_t *data, size_t len)
{
    struct nlmsghdr *m = malloc(sizeof(*m) + len);

    assert(m);
    memset(m, 0, sizeof(*m));
    m->nlmsg_len = (uint32_t)(sizeof(*m) + len);
    if (len)
        memcpy(m + 1, data, len);
    return m;
}

static void netlink(const uint8_t *data, size_t len)
{
    struct nlmsghdr *first = message(data, len / 2), *second = message(data + len / 2, len - len / 2);
    struct sys_chain chains[2] = {0};
    struct firewall_parse parse = {.chains = chains, .max = 2};
    struct sys_dcb dcb;

    dcb_parse(first, &dcb);
    for (int i = 0; i < 64; i++)
        assert(dcb.dscp_prio[i] < 8);
    firewall_take_chain(&parse, first);
    firewall_take_rule(&parse, second);
    assert(parse.nr <= 2);
    free(first);
    free(second);
}

static void iptables(const uint8_t *data, size_t len)
{
    struct sys_chain chain = {0};

    if (len < 2)
        return;
    if (data[0] & 2)
        xt_take_match(data[0] & 4 ? "tcp" : data[0] & 8 ? "udp" : "multiport", data + 1, len - 1, &chain);
    else
        xt_take_table(data + 2, len - 2, data[0] & 1, data[1], &chain);
}

/* What the other doctor says of itself, compared with what it says of us. */
static void facts(const uint8_t *data, size_t len)
{
    static const struct sys_ops no_ops;
    const struct sys sys = {.root = root, .ops = &no_ops};
    struct doctor d = {.sys = &sys};
    json_t *there = json_loadb((const char *)data, len, 0, NULL), *here = facts_json(&sys);
    struct in6_addr addr = {.s6_addr = {[10] = 0xff, 0xff, 10, 0, 0, 1}};
    int64_t mtu;

    facts_interface_of(there, &addr, &mtu);
    facts_compare(&d, here, there, "eth1", "eth1");
    facts_compare(&d, there, there, "eth1", "eth1");
    json_decref(here);
    json_decref(there);
    doctor_free(&d);
}

static void lines(const uint8_t *data, size_t len)
{
    struct peer_line line;
    uint8_t raw[16];
    int ends[2];
    json_t *object;

    if (len > 1 << 16 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
        return;
    assert(write(ends[1], data, len) == (ssize_t)len);
    close(ends[1]);
    peer_line_init(&line, ends[0]);
    while (peer_line_get(&line, &object, 1000) == 0) {
        if (json_object_get(object, "raw"))
            peer_bytes_get(&line, raw, sizeof(raw), 1000);
        json_decref(object);
    }
    peer_line_fini(&line);
    close(ends[0]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static void (*const parsers[])(const uint8_t *, size_t) = {['f' % 5] = check_files,
                                                               ['n' % 5] = netlink,
                                                               ['t' % 5] = iptables,
                                                               ['g' % 5] = facts,
                                                               ['m' % 5] = lines};

    if (!root[0])
        make_tree();
    if (len)
        parsers[data[0] % 5](data + 1, len - 1);
    return 0;
}
