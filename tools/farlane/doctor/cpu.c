/* SPDX-License-Identifier: Apache-2.0 */
/* CPUs: frequency, idle states, isolation. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci.h"

/* An idle state that takes longer to leave is seen in the latency of every I/O that is waited for */
#define SLOW_IDLE_US 20

void check_cpu_governor(struct doctor *d)
{
    struct sys_names names;
    char first[SYS_TEXT_LEN] = "", text[SYS_TEXT_LEN];
    int nr = 0, nr_other = 0;

    sys_list(d->sys, &names, "/sys/devices/system/cpu/cpufreq");
    for (int i = 0; i < names.nr; i++) {
        if (sys_read(d->sys, text, sizeof(text), "/sys/devices/system/cpu/cpufreq/%s/scaling_governor",
                     names.name[i]) <= 0)
            continue;
        nr++;
        if (strcmp(text, "performance") && !nr_other++)
            strcpy(first, text);
    }
    if (nr)
        report(d, nr_other ? LEVEL_SLOW : LEVEL_OK, "governor", NULL, "%d of %d policies have %s",
               nr_other ? nr_other : nr, nr, nr_other ? first : "performance");
}

void check_cpu_idle(struct doctor *d)
{
    struct sys_names names;
    char name[SYS_TEXT_LEN], slowest[SYS_TEXT_LEN] = "";
    int64_t latency, disable, worst = -1;

    sys_list(d->sys, &names, "/sys/devices/system/cpu/cpu0/cpuidle");
    for (int i = 0; i < names.nr; i++) {
        if (sys_number(d->sys, &latency, "/sys/devices/system/cpu/cpu0/cpuidle/%s/latency", names.name[i]) <
            0)
            continue;
        disable = 0;
        sys_number(d->sys, &disable, "/sys/devices/system/cpu/cpu0/cpuidle/%s/disable", names.name[i]);
        if (disable || latency <= worst)
            continue;
        worst = latency;
        sys_read(d->sys, name, sizeof(name), "/sys/devices/system/cpu/cpu0/cpuidle/%s/name", names.name[i]);
        strcpy(slowest, name);
    }
    if (worst >= 0)
        report(d, worst > SLOW_IDLE_US ? LEVEL_HINT : LEVEL_OK, "idle states", NULL,
               "the deepest in use, %s, takes %lld us to leave", slowest, (long long)worst);
}

void check_cpu_isolated(struct doctor *d)
{
    char text[SYS_TEXT_LEN], own[SYS_TEXT_LEN] = "";

    if (sys_read(d->sys, text, sizeof(text), "/sys/devices/system/cpu/isolated") < 0)
        return;
    char *status = sys_read_all(d->sys, "/proc/self/status");
    const char *line = status ? strstr(status, "Cpus_allowed_list:") : NULL;
    if (line)
        sscanf(line, "Cpus_allowed_list: %255s", own);
    free(status);
    report(d, text[0] ? LEVEL_HINT : LEVEL_OK, "isolated CPUs", text, "isolated: %s; this process may use %s",
           text[0] ? text : "none", own[0] ? own : "?");
}

void check_cpu_balancing(struct doctor *d)
{
    int64_t on;

    if (pci_nodes(d->sys) > 1 && !sys_number(d->sys, &on, "/proc/sys/kernel/numa_balancing"))
        report(d, on ? LEVEL_HINT : LEVEL_OK, "kernel.numa_balancing", NULL, "it is %lld on %d NUMA nodes",
               (long long)on, pci_nodes(d->sys));
}
