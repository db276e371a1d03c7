/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's NVMe host. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static void each_fabric(struct doctor *d,
                        void (*see)(struct doctor *d, const char *name, const char *transport))
{
    struct sys_names names;
    char transport[32];

    sys_list(d->sys, &names, "/sys/class/nvme");
    for (int i = 0; i < names.nr; i++)
        if (sys_read(d->sys, transport, sizeof(transport), "/sys/class/nvme/%s/transport", names.name[i]) >
                0 &&
            strcmp(transport, "pcie"))
            see(d, names.name[i], transport);
}

static void see_state(struct doctor *d, const char *name, const char *transport)
{
    char state[64], address[SYS_TEXT_LEN];

    sys_read(d->sys, state, sizeof(state), "/sys/class/nvme/%s/state", name);
    sys_read(d->sys, address, sizeof(address), "/sys/class/nvme/%s/address", name);
    report(d, strcmp(state, "live") ? LEVEL_BAD : LEVEL_OK, name, NULL, "%s, %s, %s", transport, state,
           address);
}

void check_nvme_state(struct doctor *d)
{
    each_fabric(d, see_state);
}

void check_nvme_multipath(struct doctor *d)
{
    char text[16];

    if (sys_read(d->sys, text, sizeof(text), "/sys/module/nvme_core/parameters/multipath") > 0)
        report(d, text[0] == 'N' ? LEVEL_SLOW : LEVEL_OK, "nvme_core", NULL, "multipath is %s", text);
}

void check_nvme_timeout(struct doctor *d)
{
    int64_t io, admin = 0;

    if (sys_number(d->sys, &io, "/sys/module/nvme_core/parameters/io_timeout") < 0)
        return;
    sys_number(d->sys, &admin, "/sys/module/nvme_core/parameters/admin_timeout");
    /* 30 s is the kernel's own; some clouds have its largest, since their volumes may be away for long */
    report(d,
           io < 10    ? LEVEL_SLOW
           : io > 600 ? LEVEL_HINT
                      : LEVEL_OK,
           "nvme_core", NULL, "I/O is given up after %lld s, admin commands after %lld s", (long long)io,
           (long long)admin);
}

static void see_loss(struct doctor *d, const char *name, const char *transport)
{
    char loss[32], fast[32];
    int64_t delay = 0;
    bool ever, quick;

    if (sys_read(d->sys, loss, sizeof(loss), "/sys/class/nvme/%s/ctrl_loss_tmo", name) <= 0)
        return;
    sys_read(d->sys, fast, sizeof(fast), "/sys/class/nvme/%s/fast_io_fail_tmo", name);
    sys_number(d->sys, &delay, "/sys/class/nvme/%s/reconnect_delay", name);
    ever = !strcmp(loss, "off");
    quick = !ever && atoi(loss) < 60;
    report(d, quick ? LEVEL_SLOW : LEVEL_OK, name, NULL,
           "%s: given up after %s%s, tries every %lld s, I/O fails %s%s%s", transport, ever ? "never" : loss,
           ever ? "" : " s", (long long)delay, !fast[0] || !strcmp(fast, "off") ? "only then" : "after ",
           !fast[0] || !strcmp(fast, "off") ? "" : fast, !fast[0] || !strcmp(fast, "off") ? "" : " s");
}

void check_nvme_loss(struct doctor *d)
{
    each_fabric(d, see_loss);
}

void check_nvme_policy(struct doctor *d)
{
    struct sys_names names, parts;
    char policy[32];

    sys_list(d->sys, &names, "/sys/class/nvme-subsystem");
    for (int i = 0; i < names.nr; i++) {
        int nr_paths = 0;

        sys_list(d->sys, &parts, "/sys/class/nvme-subsystem/%s", names.name[i]);
        for (int n = 0; n < parts.nr; n++)
            nr_paths += sys_exists(d->sys, "/sys/class/nvme-subsystem/%s/%s/transport", names.name[i],
                                   parts.name[n]);
        if (nr_paths < 2 || sys_read(d->sys, policy, sizeof(policy), "/sys/class/nvme-subsystem/%s/iopolicy",
                                     names.name[i]) <= 0)
            continue;
        report(d, strcmp(policy, "numa") ? LEVEL_OK : LEVEL_HINT, names.name[i], NULL, "%d paths, policy %s",
               nr_paths, policy);
    }
}

/* In the kernel, loaded, or a file that modprobe would find */
static bool has_module(const struct sys *sys, const char *release, const char *name, const char *file)
{
    char path[SYS_TEXT_LEN], *text;
    bool has = sys_exists(sys, "/sys/module/%s", name);

    for (int i = 0; i < 2 && !has; i++) {
        snprintf(path, sizeof(path), "/lib/modules/%s/%s", release, i ? "modules.builtin" : "modules.dep");
        text = sys_read_all(sys, path);
        has = text && strstr(text, file);
        free(text);
    }
    return has;
}

void check_nvme_modules(struct doctor *d)
{
    static const char *const names[][2] = {{"nvme_tcp", "/nvme-tcp.ko"}, {"nvme_rdma", "/nvme-rdma.ko"}};
    char release[128];

    if (sys_read(d->sys, release, sizeof(release), "/proc/sys/kernel/osrelease") <= 0)
        return;
    for (int i = 0; i < 2; i++) {
        bool has = has_module(d->sys, release, names[i][0], names[i][1]);

        report(d, has ? LEVEL_OK : LEVEL_HINT, names[i][0], NULL,
               has ? "this kernel (%s) has it" : "this kernel (%s) does not have it", release);
    }
}
