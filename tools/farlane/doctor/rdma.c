/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices, their files, their ports. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci.h"
#include "port.h"

void check_rdma_devices(struct doctor *d)
{
    struct sys_names names;
    char text[SYS_TEXT_LEN];

    if (sys_list(d->sys, &names, "/sys/class/infiniband") <= 0) {
        report(d, LEVEL_HINT, "this machine", NULL,
               "/sys/class/infiniband has no device; farlane's software RNIC works without one");
        return;
    }
    for (int i = 0; i < names.nr; i++) {
        char board[SYS_TEXT_LEN];

        sys_read(d->sys, text, sizeof(text), "/sys/class/infiniband/%s/fw_ver", names.name[i]);
        sys_read(d->sys, board, sizeof(board), "/sys/class/infiniband/%s/board_id", names.name[i]);
        report(d, LEVEL_OK, names.name[i], NULL, "firmware %s, board %s", text[0] ? text : "not told",
               board[0] ? board : "not told");
    }
}

/* The uverbs device of an RDMA device, by the folder that both share */
static bool find_uverbs(const struct sys *sys, const char *dev, char name[SYS_NAME_LEN])
{
    struct sys_names names;
    char text[SYS_NAME_LEN];

    sys_list(sys, &names, "/sys/class/infiniband_verbs");
    for (int i = 0; i < names.nr; i++) {
        if (sys_read(sys, text, sizeof(text), "/sys/class/infiniband_verbs/%s/ibdev", names.name[i]) > 0 &&
            !strcmp(text, dev)) {
            strcpy(name, names.name[i]);
            return true;
        }
    }
    return false;
}

void check_rdma_files(struct doctor *d)
{
    struct sys_names names;
    char uverbs[SYS_NAME_LEN];

    sys_list(d->sys, &names, "/sys/class/infiniband");
    for (int i = 0; i < names.nr; i++) {
        const char *dev = names.name[i];
        int r;

        if (!find_uverbs(d->sys, dev, uverbs)) {
            report(d, LEVEL_BAD, dev, "/dev/infiniband",
                   "no entry of /sys/class/infiniband_verbs names it: the module ib_uverbs is not loaded");
            continue;
        }
        r = sys_may_use(d->sys, "/dev/infiniband/%s", uverbs);
        if (r == -ENOENT)
            report(d, LEVEL_BAD, dev, uverbs,
                   "/dev/infiniband/%s is not there, though the kernel has the device", uverbs);
        else if (r < 0)
            report(d, LEVEL_BAD, dev, uverbs, "/dev/infiniband/%s: %s", uverbs, strerror(-r));
        else
            report(d, LEVEL_OK, dev, NULL, "/dev/infiniband/%s can be opened by this user", uverbs);
    }
}

void check_rdma_cm(struct doctor *d)
{
    struct sys_names names;
    int r;

    if (sys_list(d->sys, &names, "/sys/class/infiniband") <= 0)
        return;
    r = sys_may_use(d->sys, "/dev/infiniband/rdma_cm");
    if (r < 0)
        report(d, LEVEL_BAD, "rdma_cm", NULL, "/dev/infiniband/rdma_cm: %s", strerror(-r));
    else
        report(d, LEVEL_OK, "rdma_cm", NULL, "/dev/infiniband/rdma_cm can be opened by this user");
}

void check_rdma_netns(struct doctor *d)
{
    char text[SYS_TEXT_LEN];
    struct sys_names names;
    bool exclusive;

    if (sys_read(d->sys, text, sizeof(text), "/sys/module/ib_core/parameters/netns_mode") <= 0)
        return;
    exclusive = text[0] == 'N' || text[0] == '0';
    if (exclusive && sys_list(d->sys, &names, "/sys/class/infiniband") <= 0)
        report(d, LEVEL_HINT, "this network namespace", NULL,
               "ib_core is there, devices belong to one network namespace each (netns_mode N), and this one "
               "has none");
    else
        report(d, LEVEL_OK, "ib_core", NULL, "devices are %s network namespaces",
               exclusive ? "given to single" : "shared by all");
}

void check_rdma_port_state(struct doctor *d)
{
    struct ports *ports = calloc(1, sizeof(*ports));
    int nr_active = 0;

    if (!ports)
        return;
    ports_read(d->sys, ports);
    for (int i = 0; i < ports->nr; i++)
        nr_active += ports->at[i].state == PORT_ACTIVE;
    for (int i = 0; i < ports->nr; i++) {
        const struct port *p = &ports->at[i];

        if (p->state == PORT_ACTIVE)
            report(d, LEVEL_OK, p->label, NULL, "ACTIVE, %s, %.0f Gb/s%s%s", p->link_layer, p->gbps,
                   p->ifname[0] ? ", interface " : "", p->ifname);
        else if (p->state == PORT_INIT && !p->roce)
            report_as(d, "rdma-subnet-manager", LEVEL_BAD, p->label, p->dev,
                      "state INIT, physical link up: nobody gave the port an address");
        else /* a port without a cable is a fault only if there is no other */
            report(d, nr_active ? LEVEL_HINT : LEVEL_BAD, p->label, p->ifname[0] ? p->ifname : p->dev,
                   "state %d (4 is ACTIVE), physical state %d (5 is LinkUp)", p->state, p->phys_state);
    }
    free(ports);
}

void check_rdma_pcie_rate(struct doctor *d)
{
    struct ports *ports = calloc(1, sizeof(*ports));

    if (!ports)
        return;
    ports_read(d->sys, ports);
    for (int i = 0; i < ports->nr; i++) {
        const struct port *p = &ports->at[i];
        struct pci_speed speed;
        char bdf[SYS_NAME_LEN], path[SYS_TEXT_LEN];

        snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device", p->dev);
        if (p->state != PORT_ACTIVE || p->gbps <= 0 || sys_link(d->sys, bdf, "%s", path) < 0 ||
            pci_speed_read(d->sys, path, &speed) < 0)
            continue;
        /* Headers of PCIe's packets cost some more; below this no setting reaches the port's rate */
        report(d, p->gbps > speed.gbps ? LEVEL_SLOW : LEVEL_OK, p->label, bdf,
               "port %.0f Gb/s; PCIe %s gives %.0f Gb/s (%.1f GT/s x %d)", p->gbps, bdf, speed.gbps,
               speed.gts, speed.width);
    }
    free(ports);
}

void check_rdma_port_mtu(struct doctor *d)
{
    struct ports *ports = calloc(1, sizeof(*ports));

    if (!ports)
        return;
    ports_read(d->sys, ports);
    for (int i = 0; i < ports->nr; i++) {
        const struct port *p = &ports->at[i];
        uint32_t active = 0, max = 0;
        int64_t mtu = 0;
        int r;

        if (p->state != PORT_ACTIVE)
            continue;
        r = SYS_ASK(d->sys, port_mtu, p->dev, p->port, &active, &max);
        if (p->roce && p->ifname[0] && !sys_number(d->sys, &mtu, "/sys/class/net/%s/mtu", p->ifname)) {
            if (r < 0) { /* what the kernel makes of the interface's */
                active = roce_mtu(mtu);
                max = 4096;
            }
            report(d, active < max ? LEVEL_SLOW : LEVEL_OK, p->label, p->ifname,
                   "RoCE sends %u bytes a packet (the device could %u): %s has an MTU of %lld", active, max,
                   p->ifname, (long long)mtu);
            if (r < 0)
                report_doubt(d, SURE_LIKELY);
        } else if (r < 0) {
            report_unseen(d, p->label, r, "the active MTU");
        } else {
            report(d, active < max ? LEVEL_HINT : LEVEL_OK, p->label, p->dev,
                   "%u bytes a packet, the device could %u", active, max);
        }
    }
    free(ports);
}

void check_rdma_errors(struct doctor *d)
{
    static const char *const names[] = {
        "symbol_error",    "link_error_recovery",         "link_downed",
        "port_rcv_errors", "local_link_integrity_errors", "port_xmit_discards",
        "VL15_dropped"};
    struct ports *ports = calloc(1, sizeof(*ports));

    if (!ports)
        return;
    ports_read(d->sys, ports);
    for (int i = 0; i < ports->nr; i++) {
        const struct port *p = &ports->at[i];
        char text[SYS_TEXT_LEN] = "";
        size_t at = 0, nr = 0;
        int64_t value;

        for (size_t n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
            if (sys_number(d->sys, &value, "/sys/class/infiniband/%s/ports/%d/counters/%s", p->dev, p->port,
                           names[n]) < 0)
                continue;
            nr++;
            if (value && at < sizeof(text))
                at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s %lld", at ? ", " : "", names[n],
                                       (long long)value);
        }
        if (at)
            report(d, LEVEL_SLOW, p->label, p->dev, "since the driver's start: %s", text);
        else if (nr)
            report(d, LEVEL_OK, p->label, NULL, "no error in %zu counters of the link", nr);
    }
    free(ports);
}
