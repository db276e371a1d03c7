/* SPDX-License-Identifier: Apache-2.0 */
/* PCI links, distances, IOMMU, ACS; GPUs and what may register their memory; congestion; good and bad. */
#include <errno.h>
#include <string.h>

#include "snapshot.h"
#include "test_tree.h"

#define NIC  "0000:02:00.0"
#define GPU  "0000:03:00.0"
#define DISK "0000:81:00.0"

/* A device below bridges; `way` is its folder below /sys/devices */
static void device(struct tree *t, const char *bdf, const char *way, const char *class, const char *vendor,
                   int node)
{
    char path[256], to[256];

    snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", bdf);
    snprintf(to, sizeof(to), "/sys/devices/%s/%s", way, bdf);
    tree_link(t, path, to);
#define FILE_OF(name, ...)                              \
    do {                                                \
        char file_[320];                                \
        snprintf(file_, sizeof(file_), "%s/" name, to); \
        tree_put(t, file_, __VA_ARGS__);                \
    } while (0)
    FILE_OF("class", "%s\n", class);
    FILE_OF("vendor", "%s\n", vendor);
    FILE_OF("numa_node", "%d\n", node);
    FILE_OF("current_link_speed", "16.0 GT/s PCIe\n");
    FILE_OF("max_link_speed", "16.0 GT/s PCIe\n");
    FILE_OF("current_link_width", "16\n");
    FILE_OF("max_link_width", "16\n");
}

static void two_nodes(struct tree *t)
{
    tree_put(t, "/sys/devices/system/node/node0/x", "x");
    tree_put(t, "/sys/devices/system/node/node1/x", "x");
}

/* NIC and GPU below one switch, the drive at the other socket */
static void machine(struct tree *t)
{
    tree_begin(t);
    two_nodes(t);
    device(t, NIC, "pci0000:00/0000:00:01.0/0000:01:00.0", "0x020000", "0x15b3", 0);
    device(t, GPU, "pci0000:00/0000:00:01.0/0000:01:00.0", "0x030200", "0x10de", 0);
    device(t, DISK, "pci0000:80/0000:80:01.0", "0x010802", "0x144d", 1);
}

static void lanes(void **state)
{
    struct tree t;

    machine(&t);
    tree_run(&t, "pci-link");
    tree_expect(&t, "pci-link", NIC, LEVEL_OK, "NIC: 16.0 GT/s x 16 of 16.0 GT/s x 16");
    tree_put(&t, "/sys/bus/pci/devices/" NIC "/current_link_width", "8\n");
    tree_put(&t, "/sys/bus/pci/devices/" GPU "/current_link_speed", "2.5 GT/s PCIe\n");
    tree_put(&t, "/sys/bus/pci/devices/" DISK "/current_link_speed", "8.0 GT/s PCIe\n");
    tree_run(&t, "pci-link");
    tree_expect(&t, "pci-link", NIC, LEVEL_SLOW, "x 8 of");
    tree_expect(&t, "pci-link", GPU, LEVEL_OK, "an idle GPU lowers its speed");
    tree_expect(&t, "pci-link", DISK, LEVEL_SLOW, "8.0 GT/s");
    tree_end(&t);
}

static void distances(void **state)
{
    struct tree t;

    machine(&t);
    tree_run(&t, NULL);
    tree_expect(&t, "pci-distance", GPU, LEVEL_OK, "below one switch");
    tree_expect(&t, "pci-distance", DISK, LEVEL_SLOW, "on different NUMA nodes");
    tree_expect(&t, "pci-numa", NIC, LEVEL_OK, "NUMA node 0 of 2");
    device(&t, "0000:82:00.0", "pci0000:80/0000:80:02.0", "0x020000", "0x15b3", 1);
    device(&t, "0000:c1:00.0", "pci0000:c0", "0x010802", "0x144d", 1);
    tree_put(&t, "/sys/bus/pci/devices/" NIC "/numa_node", "-1\n");
    tree_run(&t, NULL);
    tree_expect(&t, "pci-distance", DISK, LEVEL_OK, "0000:82:00.0, is below one root complex");
    tree_expect(&t, "pci-distance", "0000:c1:00.0", LEVEL_OK, "on one NUMA node");
    tree_expect(&t, "pci-numa", NIC, LEVEL_HINT, "NUMA node -1");
    tree_end(&t);
}

static void iommu(void **state)
{
    struct tree t;

    machine(&t);
    tree_run(&t, "pci-iommu");
    tree_expect(&t, "pci-iommu", NULL, LEVEL_OK, "no IOMMU");
    tree_put(&t, "/sys/kernel/iommu_groups/5/type", "DMA-FQ\n");
    tree_link(&t, "/sys/bus/pci/devices/" NIC "/iommu_group", "/sys/kernel/iommu_groups/5");
    tree_run(&t, "pci-iommu");
    tree_expect(&t, "pci-iommu", NIC, LEVEL_SLOW, "type DMA-FQ"); /* there is a GPU */
    tree_put(&t, "/sys/kernel/iommu_groups/5/type", "identity\n");
    tree_run(&t, "pci-iommu");
    tree_expect(&t, "pci-iommu", NIC, LEVEL_OK, "identity");
    tree_end(&t);
}

static void acs(void **state)
{
    uint8_t config[4096] = {0};
    struct tree t;

    machine(&t);
    tree_run(&t, "pci-acs");
    tree_expect(&t, "pci-acs", "0000:01:00.0", LEVEL_UNSEEN, "could not be seen");
    /* first 64 bytes only: what an ordinary user gets */
    tree_link(&t, "/sys/bus/pci/devices/0000:01:00.0", "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0");
    tree_bytes(&t, "/sys/bus/pci/devices/0000:01:00.0/config", config, 64);
    tree_run(&t, "pci-acs");
    tree_expect(&t, "pci-acs", "0000:01:00.0", LEVEL_UNSEEN, "root sees it");
    /* AER at 0x100, then ACS at 0x148: capability, then control */
    memcpy(config + 0x100, (const uint8_t[]){0x01, 0x00, 0x81, 0x14}, 4);
    memcpy(config + 0x148, (const uint8_t[]){0x0d, 0x00, 0x01, 0x00, 0x5f, 0x00, 0x1d, 0x00}, 8);
    tree_bytes(&t, "/sys/bus/pci/devices/0000:01:00.0/config", config, sizeof(config));
    tree_run(&t, "pci-acs");
    assert_non_null(strstr(tree_expect(&t, "pci-acs", "0000:01:00.0", LEVEL_SLOW, "0x001d")->remedy,
                           "setpci -s 0000:01:00.0"));
    config[0x148 + 6] = 1; /* source validation alone redirects nothing */
    tree_bytes(&t, "/sys/bus/pci/devices/0000:01:00.0/config", config, sizeof(config));
    tree_run(&t, "pci-acs");
    tree_expect(&t, "pci-acs", "0000:01:00.0", LEVEL_OK, "directly");
    memcpy(config + 0x100, (const uint8_t[]){0x01, 0x00, 0x01, 0x10}, 4); /* a chain that bites its tail */
    tree_bytes(&t, "/sys/bus/pci/devices/0000:01:00.0/config", config, sizeof(config));
    tree_run(&t, "pci-acs");
    tree_end(&t);
}

static void read_requests(void **state)
{
    uint8_t config[256] = {[6] = 0x10, [0x34] = 0x40, [0x40] = 0x05, [0x41] = 0x60, [0x60] = 0x10};
    struct tree t;

    machine(&t);
    config[0x69] = 0x50; /* 128 << 5 */
    tree_bytes(&t, "/sys/bus/pci/devices/" NIC "/config", config, sizeof(config));
    tree_run(&t, "pci-read-request");
    tree_expect(&t, "pci-read-request", NIC, LEVEL_OK, "4096 bytes");
    tree_expect(&t, "pci-read-request", DISK, LEVEL_UNSEEN, "");
    config[0x69] = 0x00;
    tree_bytes(&t, "/sys/bus/pci/devices/" NIC "/config", config, sizeof(config));
    tree_run(&t, "pci-read-request");
    tree_expect(&t, "pci-read-request", NIC, LEVEL_SLOW, "128 bytes");
    config[0x41] = 0x40; /* a chain that bites its tail */
    tree_bytes(&t, "/sys/bus/pci/devices/" NIC "/config", config, sizeof(config));
    tree_run(&t, "pci-read-request");
    tree_end(&t);
}

static void gpu_drivers(void **state)
{
    struct tree t;

    machine(&t);
    tree_run(&t, NULL);
    tree_expect(&t, "gpu-driver", GPU, LEVEL_BAD, "vendor 10de without a driver");
    tree_link(&t, "/sys/bus/pci/devices/" GPU "/driver", "/sys/bus/pci/drivers/nvidia");
    tree_put(&t, "/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.1\nGCC version\n");
    tree_run(&t, NULL);
    tree_expect(&t, "gpu-driver", GPU, LEVEL_OK, "driver nvidia");
    tree_expect(&t, "gpu-flavour", NULL, LEVEL_HINT, "Kernel Module  535.1");
    tree_put(&t, "/proc/driver/nvidia/version",
             "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.1\n");
    tree_run(&t, NULL);
    tree_expect(&t, "gpu-flavour", NULL, LEVEL_OK, "Open Kernel Module");
    tree_end(&t);
}

/* D2: the verdict is a registration; what files say is told, and never a verdict */
static void module_loaded_service_not_there(void **state)
{
    struct tree t;

    machine(&t);
    tree_put(&t, "/sys/module/nvidia_peermem/refcnt", "0\n");
    tree_run(&t, "gpu-registration");
    tree_expect(&t, "gpu-registration", NULL, LEVEL_UNSEEN,
                "no RDMA device to register with; nvidia_peermem is loaded");
    tree_port(&t, "mlx5_0", "eth1");
    tree_run(&t, "gpu-registration"); /* devices, and no way to try: unknown, though the module is loaded */
    tree_expect(&t, "gpu-registration", "GPU 0, mlx5_0", LEVEL_UNSEEN, "unknown");
    tree_put(&t, "/hooks/gpu/0/mlx5_0/dmabuf", "error %d", EOPNOTSUPP + 1000);
    tree_put(&t, "/hooks/gpu/0/mlx5_0/peermem", "error %d", EFAULT);
    tree_run(&t, "gpu-registration");
    tree_expect(&t, "gpu-registration", "GPU 0, mlx5_0", LEVEL_SLOW,
                "nvidia_peermem is loaded, memory_peers has no client");
    tree_put(&t, "/hooks/gpu/0/mlx5_0/peermem", "ok");
    tree_put(&t, "/sys/kernel/mm/memory_peers/nv_mem/version", "1\n");
    tree_run(&t, "gpu-registration");
    tree_expect(&t, "gpu-registration", "GPU 0, mlx5_0", LEVEL_OK, "by peermem, and not by dma-buf");
    tree_end(&t);
}

/* D2: neither module, but dma-buf works; the old name only */
static void dma_buf_without_modules(void **state)
{
    struct tree t;

    machine(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_put(&t, "/hooks/gpu/0/mlx5_0/dmabuf", "ok");
    tree_put(&t, "/hooks/gpu/0/mlx5_0/peermem", "error %d", EFAULT);
    tree_run(&t, "gpu-registration");
    tree_expect(&t, "gpu-registration", "GPU 0, mlx5_0", LEVEL_OK,
                "by dma-buf, and not by peermem; neither nvidia_peermem");
    tree_put(&t, "/sys/module/nv_peer_mem/refcnt", "0\n");
    tree_put(&t, "/hooks/gpu/0/mlx5_0/dmabuf", "error %d", ENOSYS);
    tree_run(&t, "gpu-registration");
    tree_expect(&t, "gpu-registration", "GPU 0, mlx5_0", LEVEL_SLOW, "nv_peer_mem is loaded");
    tree_end(&t);
}

/* ---- congestion ---- */

static void lossless(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_interface(&t, "eth1", 9000);
    tree_run(&t, "congestion-control");
    tree_expect(&t, "congestion-control", "mlx5_0/1", LEVEL_UNSEEN, "could not be seen");
    tree_put(&t, "/hooks/dcb/eth1", "0");
    tree_run(&t, "congestion-control");
    assert_int_equal(
        tree_expect(&t, "congestion-control", "mlx5_0/1", LEVEL_SLOW, "off for every priority")->sure,
        SURE_MAYBE);
    tree_put(&t, "/sys/class/net/eth1/ecn/roce_np/enable/3", "1\n");
    tree_put(&t, "/sys/class/net/eth1/ecn/roce_rp/enable/3", "1\n");
    tree_run(&t, "congestion-control");
    tree_expect(&t, "congestion-control", "mlx5_0/1", LEVEL_OK, "notification 0x08, reaction 0x08");
    tree_end(&t);
}

static void dscp_and_pause(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_interface(&t, "eth1", 9000);
    tree_put(&t, "/hooks/dcb/eth1", "8");
    tree_run(&t, "congestion-dscp");
    tree_expect(&t, "congestion-dscp", "mlx5_0/1", LEVEL_SLOW, "no map from DSCP");
    tree_put(&t, "/hooks/dcb/eth1", "8 26:3 0:0");
    tree_run(&t, "congestion-dscp");
    tree_expect(&t, "congestion-dscp", "mlx5_0/1", LEVEL_UNSEEN, "which DSCP RoCE sends");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/tc/1/traffic_class", "0\n");
    tree_run(&t, "congestion-dscp");
    tree_expect(&t, "congestion-dscp", "mlx5_0/1", LEVEL_BAD, "DSCP 0, which has priority 0; PFC mask 0x08");
    tree_put(&t, "/sys/kernel/config/rdma_cm/mlx5_0/ports/1/default_roce_tos", "106\n");
    tree_run(&t, "congestion-dscp");
    tree_expect(&t, "congestion-dscp", "mlx5_0/1", LEVEL_OK, "DSCP 26, which has priority 3");
    tree_put(&t, "/hooks/pause/eth1", "1 1");
    tree_run(&t, "congestion-pause");
    tree_expect(&t, "congestion-pause", "mlx5_0/1", LEVEL_SLOW, "receive on, send on; PFC mask 0x08");
    tree_put(&t, "/hooks/pause/eth1", "0 0");
    tree_run(&t, "congestion-pause");
    tree_expect(&t, "congestion-pause", "mlx5_0/1", LEVEL_OK, "receive off");
    tree_end(&t);
}

static void counters_before_and_after(void **state)
{
    struct snapshot before, after;
    struct tree t;

    tree_begin(&t);
    tree_port(&t, "mlx5_0", "eth1");
    tree_interface(&t, "eth1", 9000);
    tree_put(&t, "/hooks/counters/eth1", "rx_prio3_pause 0\nrx_discards_phy 5\nrx_bytes 99\n");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "0\n");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/np_cnp_sent", "1000\n");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/rnr_nak_retry_err", "0\n");
    tree_run(&t, "congestion-counters");
    tree_expect(&t, "congestion-discards", "eth1", LEVEL_HINT,
                "rx_discards_phy is 5 since the driver's start");
    tree_expect(&t, "congestion-cnp", "mlx5_0/1", LEVEL_HINT, "np_cnp_sent is 1000");
    tree_expect_none(&t, "congestion-retries");
    tree_expect_none(&t, "congestion-pauses");
    tree_expect(&t, "congestion-counters", NULL, LEVEL_OK,
                "5 counters of congestion looked at, 2 of them are not zero");

    assert_int_equal(snapshot_take(&t.sys, &before), 0);
    tree_put(&t, "/hooks/counters/eth1", "rx_prio3_pause 7\nrx_discards_phy 5\nrx_bytes 999\n");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/out_of_sequence", "40\n");
    tree_put(&t, "/sys/class/infiniband/mlx5_0/ports/1/hw_counters/rnr_nak_retry_err", "2\n");
    assert_int_equal(snapshot_take(&t.sys, &after), 0);
    t.d.before = &before;
    t.d.after = &after;
    t.d.load_s = 2;
    tree_run(&t, "congestion-counters");
    tree_expect(&t, "congestion-retries", "mlx5_0/1", LEVEL_SLOW, "out_of_sequence grew by 40 in 2.0 s");
    tree_expect(&t, "congestion-rnr", "mlx5_0/1", LEVEL_SLOW, "grew by 2");
    tree_expect(&t, "congestion-pauses", "eth1", LEVEL_HINT, "rx_prio3_pause grew by 7");
    tree_expect_none(&t, "congestion-discards"); /* old ones are no matter any more */
    tree_expect_none(&t, "congestion-cnp");
    snapshot_free(&before);
    snapshot_free(&after);
    tree_end(&t);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(lanes), cmocka_unit_test(distances), cmocka_unit_test(iommu),
                       cmocka_unit_test(acs), cmocka_unit_test(read_requests), cmocka_unit_test(gpu_drivers),
                       cmocka_unit_test(module_loaded_service_not_there),
                       cmocka_unit_test(dma_buf_without_modules), cmocka_unit_test(lossless),
                       cmocka_unit_test(dscp_and_pause), cmocka_unit_test(counters_before_and_after));
}
