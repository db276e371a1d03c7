/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, limits of containers, CPUs, the kernel's NVMe host, good and bad. */
#include <errno.h>
#include <string.h>

#include "test_tree.h"

#define LIMITS(soft, hard, files)                                                           \
    "Limit                     Soft Limit           Hard Limit           Units     \n"      \
    "Max open files            " files "                 1048576              files     \n" \
    "Max locked memory         " soft "                " hard "                bytes     \n"

/* ---- D3: 64 KiB, 8 MiB, unlimited, with and without CAP_IPC_LOCK; planned is 1 GiB ---- */
static void memory_lock(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_run(&t, "mem-lock");
    tree_expect(&t, "mem-lock", NULL, LEVEL_UNSEEN, "limits");
    tree_put(&t, "/proc/self/status", "Name:\tx\nCapEff:\t0000000000000000\n");
    tree_put(&t, "/proc/self/limits", "%s", LIMITS("65536", "65536", "1024"));
    tree_run(&t, "mem-lock");
    const struct finding *f = tree_expect(&t, "mem-lock", "RLIMIT_MEMLOCK", LEVEL_BAD,
                                          "64.0 KiB may be locked");
    assert_non_null(strstr(f->evidence, "1.00 GiB (--plan)"));
    assert_non_null(strstr(f->remedy, "ulimit -l 1048576"));
    tree_put(&t, "/proc/self/limits", "%s", LIMITS("8388608", "unlimited", "1024"));
    tree_run(&t, "mem-lock");
    tree_expect(&t, "mem-lock", NULL, LEVEL_BAD, "8.00 MiB may be locked (hard limit unlimited)");
    t.d.plan_len = 4 << 20;
    tree_run(&t, "mem-lock");
    tree_expect(&t, "mem-lock", NULL, LEVEL_OK, "8.00 MiB");
    t.d.plan_len = 1 << 30;
    tree_put(&t, "/proc/self/limits", "%s", LIMITS("unlimited", "unlimited", "1024"));
    tree_run(&t, "mem-lock");
    tree_expect(&t, "mem-lock", NULL, LEVEL_OK, "unlimited may be locked");
    tree_put(&t, "/proc/self/limits", "%s", LIMITS("65536", "65536", "1024"));
    tree_put(&t, "/proc/self/status", "CapEff:\t0000000000004000\n");
    tree_run(&t, "mem-lock");
    tree_expect(&t, "mem-lock", NULL, LEVEL_OK, "CAP_IPC_LOCK");
    tree_end(&t);
}

static void open_files(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/proc/self/limits", "%s", LIMITS("65536", "65536", "1024"));
    tree_run(&t, "limit-files");
    tree_expect(&t, "limit-files", NULL, LEVEL_HINT, "soft 1024, hard 1048576");
    tree_put(&t, "/proc/self/limits", "%s", LIMITS("65536", "65536", "65536"));
    tree_run(&t, "limit-files");
    tree_expect(&t, "limit-files", NULL, LEVEL_OK, "soft 65536");
    tree_end(&t);
}

static void memory_settings(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n");
    tree_put(&t, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    tree_put(&t, "/proc/sys/vm/overcommit_memory", "2\n");
    tree_put(&t, "/proc/sys/vm/max_map_count", "1000\n");
    tree_put(&t, "/hooks/space", "67108864 1048576");
    tree_run(&t, NULL);
    tree_expect(&t, "mem-huge", NULL, LEVEL_HINT, "[madvise]");
    tree_expect(&t, "mem-overcommit", NULL, LEVEL_HINT, "it is 2");
    tree_expect(&t, "mem-maps", NULL, LEVEL_HINT, "1000");
    tree_expect(&t, "mem-shm", NULL, LEVEL_SLOW, "1.00 MiB free of 64.0 MiB");
    tree_put(&t, "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "512\n");
    tree_put(&t, "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "500\n");
    tree_put(&t, "/proc/sys/vm/overcommit_memory", "0\n");
    tree_put(&t, "/proc/sys/vm/max_map_count", "65530\n");
    tree_put(&t, "/hooks/space", "8589934592 8589934592");
    tree_run(&t, NULL);
    tree_expect(&t, "mem-huge", "hugepages-2048kB", LEVEL_OK, "512 huge pages, 500 free");
    tree_expect(&t, "mem-overcommit", NULL, LEVEL_OK, "it is 0");
    tree_expect(&t, "mem-maps", NULL, LEVEL_OK, "65530");
    tree_expect(&t, "mem-shm", NULL, LEVEL_OK, "8.00 GiB");
    tree_end(&t);
}

/* The limit of a group above counts, too */
static void container_version_2(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/proc/self/cgroup", "0::/kube/pod/box\n");
    tree_put(&t, "/sys/fs/cgroup/kube/pod/box/memory.max", "max\n");
    tree_put(&t, "/sys/fs/cgroup/kube/pod/memory.max", "536870912\n");
    tree_put(&t, "/sys/fs/cgroup/kube/pod/box/pids.max", "10\n");
    tree_put(&t, "/sys/fs/cgroup/kube/pod/box/cpu.max", "50000 100000\n");
    tree_put(&t, "/sys/fs/cgroup/kube/pod/box/cpu.stat", "usage_usec 1\nnr_periods 9\nnr_throttled 4\n");
    tree_put(&t, "/sys/fs/cgroup/kube/pod/box/rdma.max", "mlx5_0 hca_handle=2 hca_object=0\n");
    tree_run(&t, NULL);
    assert_non_null(strstr(tree_expect(&t, "box-memory", NULL, LEVEL_BAD, "512 MiB allowed")->remedy,
                           "/sys/fs/cgroup/kube/pod"));
    tree_expect(&t, "box-pids", NULL, LEVEL_BAD, "10 tasks");
    tree_expect(&t, "box-cpu", NULL, LEVEL_SLOW, "0.50 CPUs allowed; stopped 4 times");
    tree_expect(&t, "box-rdma", NULL, LEVEL_BAD, "hca_object=0");
    tree_put(&t, "/sys/fs/cgroup/kube/pod/memory.max", "max\n");
    tree_put(&t, "/sys/fs/cgroup/kube/pod/box/pids.max", "max\n");
    tree_put(&t, "/sys/fs/cgroup/kube/pod/box/cpu.max", "max 100000\n");
    tree_put(&t, "/sys/fs/cgroup/kube/pod/box/rdma.max", "mlx5_0 hca_handle=max hca_object=max\n");
    tree_run(&t, NULL);
    tree_expect(&t, "box-memory", NULL, LEVEL_OK, "no limit");
    tree_expect(&t, "box-pids", NULL, LEVEL_OK, "no limit");
    tree_expect(&t, "box-cpu", NULL, LEVEL_OK, "no quota");
    tree_expect(&t, "box-rdma", NULL, LEVEL_OK, "max");
    tree_end(&t);
}

static void container_version_1(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/proc/self/cgroup", "4:memory:/docker/abc\n1:cpu:/docker/abc\n0::/\n");
    tree_put(&t, "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "268435456\n");
    tree_put(&t, "/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    tree_put(&t, "/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "200000\n");
    tree_put(&t, "/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_period_us", "100000\n");
    tree_run(&t, NULL);
    tree_expect(&t, "box-memory", NULL, LEVEL_BAD, "256 MiB allowed");
    tree_expect(&t, "box-cpu", NULL, LEVEL_HINT, "2.00 CPUs allowed; stopped 0 times");
    tree_put(&t, "/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "9223372036854771712\n");
    tree_put(&t, "/sys/fs/cgroup/cpu/docker/abc/cpu.cfs_quota_us", "-1\n");
    tree_run(&t, NULL);
    tree_expect(&t, "box-memory", NULL, LEVEL_OK, "no limit");
    tree_expect(&t, "box-cpu", NULL, LEVEL_OK, "no quota");
    tree_end(&t);
}

static void container_permissions(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/hooks/uring", "error %d", EPERM);
    tree_put(&t, "/proc/sys/kernel/io_uring_disabled", "2\n");
    tree_put(&t, "/proc/sys/kernel/yama/ptrace_scope", "1\n");
    tree_run(&t, NULL);
    tree_expect(&t, "box-uring", NULL, LEVEL_SLOW, "kernel.io_uring_disabled is 2");
    tree_expect(&t, "box-ptrace", NULL, LEVEL_HINT, "it is 1");
    tree_put(&t, "/hooks/uring", "ok");
    tree_put(&t, "/proc/sys/kernel/yama/ptrace_scope", "0\n");
    tree_run(&t, NULL);
    tree_expect(&t, "box-uring", NULL, LEVEL_OK, "set up");
    tree_expect(&t, "box-ptrace", NULL, LEVEL_OK, "it is 0");
    tree_end(&t);
}

static void cpus(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/sys/devices/system/cpu/cpufreq/policy0/scaling_governor", "performance\n");
    tree_put(&t, "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "powersave\n");
    tree_put(&t, "/sys/devices/system/cpu/cpu0/cpuidle/state0/latency", "0\n");
    tree_put(&t, "/sys/devices/system/cpu/cpu0/cpuidle/state1/latency", "133\n");
    tree_put(&t, "/sys/devices/system/cpu/cpu0/cpuidle/state1/name", "C6\n");
    tree_put(&t, "/sys/devices/system/cpu/isolated", "2-3\n");
    tree_put(&t, "/sys/devices/system/node/node0/x", "x");
    tree_put(&t, "/sys/devices/system/node/node1/x", "x");
    tree_put(&t, "/proc/sys/kernel/numa_balancing", "1\n");
    tree_run(&t, NULL);
    tree_expect(&t, "cpu-governor", NULL, LEVEL_SLOW, "1 of 2 policies have powersave");
    tree_expect(&t, "cpu-idle", NULL, LEVEL_HINT, "C6, takes 133 us");
    assert_non_null(
        strstr(tree_expect(&t, "cpu-isolated", NULL, LEVEL_HINT, "isolated: 2-3")->remedy, "--cores 2-3"));
    tree_expect(&t, "cpu-balancing", NULL, LEVEL_HINT, "it is 1 on 2 NUMA nodes");
    tree_put(&t, "/sys/devices/system/cpu/cpufreq/policy1/scaling_governor", "performance\n");
    tree_put(&t, "/sys/devices/system/cpu/cpu0/cpuidle/state1/disable", "1\n");
    tree_put(&t, "/sys/devices/system/cpu/isolated", "\n");
    tree_put(&t, "/proc/sys/kernel/numa_balancing", "0\n");
    tree_run(&t, NULL);
    tree_expect(&t, "cpu-governor", NULL, LEVEL_OK, "2 of 2 policies have performance");
    tree_expect(&t, "cpu-idle", NULL, LEVEL_OK, "0 us");
    tree_expect(&t, "cpu-isolated", NULL, LEVEL_OK, "none");
    tree_expect(&t, "cpu-balancing", NULL, LEVEL_OK, "it is 0");
    tree_end(&t);
}

static void nvme_host(void **state)
{
    struct tree t;

    tree_begin(&t);
    tree_put(&t, "/sys/class/nvme/nvme0/transport", "pcie\n");
    tree_put(&t, "/sys/class/nvme/nvme1/transport", "rdma\n");
    tree_put(&t, "/sys/class/nvme/nvme1/state", "connecting\n");
    tree_put(&t, "/sys/class/nvme/nvme1/address", "traddr=10.0.0.1,trsvcid=4420\n");
    tree_put(&t, "/sys/class/nvme/nvme1/ctrl_loss_tmo", "10\n");
    tree_put(&t, "/sys/class/nvme/nvme1/reconnect_delay", "2\n");
    tree_put(&t, "/sys/module/nvme_core/parameters/multipath", "N\n");
    tree_put(&t, "/sys/module/nvme_core/parameters/io_timeout", "5\n");
    tree_put(&t, "/sys/class/nvme-subsystem/nvme-subsys1/iopolicy", "numa\n");
    tree_put(&t, "/sys/class/nvme-subsystem/nvme-subsys1/nvme1/transport", "rdma\n");
    tree_put(&t, "/sys/class/nvme-subsystem/nvme-subsys1/nvme2/transport", "tcp\n");
    tree_put(&t, "/proc/sys/kernel/osrelease", "6.1.0\n");
    tree_put(&t, "/lib/modules/6.1.0/modules.dep", "kernel/drivers/nvme/host/nvme-tcp.ko: x\n");
    tree_run(&t, NULL);
    tree_expect(&t, "nvme-state", "nvme1", LEVEL_BAD, "rdma, connecting, traddr=10.0.0.1");
    tree_expect(&t, "nvme-loss", "nvme1", LEVEL_SLOW,
                "given up after 10 s, tries every 2 s, I/O fails only then");
    tree_expect(&t, "nvme-multipath", NULL, LEVEL_SLOW, "N");
    tree_expect(&t, "nvme-timeout", NULL, LEVEL_SLOW, "after 5 s");
    tree_expect(&t, "nvme-policy", "nvme-subsys1", LEVEL_HINT, "2 paths, policy numa");
    tree_expect(&t, "nvme-modules", "nvme_tcp", LEVEL_OK, "has it");
    tree_expect(&t, "nvme-modules", "nvme_rdma", LEVEL_HINT, "does not have it");
    tree_put(&t, "/sys/class/nvme/nvme1/state", "live\n");
    tree_put(&t, "/sys/class/nvme/nvme1/ctrl_loss_tmo", "off\n");
    tree_put(&t, "/sys/class/nvme/nvme1/fast_io_fail_tmo", "15\n");
    tree_put(&t, "/sys/module/nvme_core/parameters/multipath", "Y\n");
    tree_put(&t, "/sys/module/nvme_core/parameters/io_timeout", "30\n");
    tree_put(&t, "/sys/class/nvme-subsystem/nvme-subsys1/iopolicy", "round-robin\n");
    tree_put(&t, "/sys/module/nvme_rdma/refcnt", "1\n");
    tree_run(&t, NULL);
    tree_expect(&t, "nvme-state", "nvme1", LEVEL_OK, "live");
    tree_expect(&t, "nvme-loss", "nvme1", LEVEL_OK,
                "given up after never, tries every 2 s, I/O fails after 15 s");
    tree_expect(&t, "nvme-multipath", NULL, LEVEL_OK, "Y");
    tree_expect(&t, "nvme-timeout", NULL, LEVEL_OK, "after 30 s");
    tree_expect(&t, "nvme-policy", "nvme-subsys1", LEVEL_OK, "round-robin");
    tree_expect(&t, "nvme-modules", "nvme_rdma", LEVEL_OK, "has it");
    tree_end(&t);
}

int main(void)
{
    return FL_UNIT_RUN(cmocka_unit_test(memory_lock), cmocka_unit_test(open_files),
                       cmocka_unit_test(memory_settings), cmocka_unit_test(container_version_2),
                       cmocka_unit_test(container_version_1), cmocka_unit_test(container_permissions),
                       cmocka_unit_test(cpus), cmocka_unit_test(nvme_host));
}
