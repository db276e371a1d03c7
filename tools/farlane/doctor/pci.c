/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci.h"

/* Shares of the raw rate after the line code: 8b/10b, 128b/130b, and from 64 GT/s on 242 of 256 bytes of a
 * flit */
static double code_share(double gts)
{
    return gts < 6 ? 0.8 : gts < 60 ? 128.0 / 130 : 242.0 / 256;
}

int pci_speed_read(const struct sys *sys, const char *path, struct pci_speed *speed)
{
    char text[64];
    int64_t width = 0, max_width = 0;

    memset(speed, 0, sizeof(*speed));
    if (sys_read(sys, text, sizeof(text), "%s/current_link_speed", path) <= 0)
        return -ENOENT;
    speed->gts = atof(text); /* "16.0 GT/s PCIe"; "Unknown" is 0 */
    if (sys_read(sys, text, sizeof(text), "%s/max_link_speed", path) > 0)
        speed->max_gts = atof(text);
    sys_number(sys, &width, "%s/current_link_width", path);
    sys_number(sys, &max_width, "%s/max_link_width", path);
    if (speed->gts <= 0 || width <= 0 || width > 32)
        return -ENOENT;
    speed->width = (int)width;
    speed->max_width = (int)max_width;
    speed->gbps = speed->gts * speed->width * code_share(speed->gts);
    return 0;
}

static bool kind_of(uint32_t class, enum pci_kind *kind)
{
    switch (class >> 8) {
    case 0x0200: /* Ethernet */
    case 0x0207: /* InfiniBand */
    case 0x0280:
        *kind = PCI_NIC;
        return true;
    case 0x0108: /* NVM */
        *kind = PCI_NVME;
        return true;
    case 0x0300: /* VGA */
    case 0x0302: /* 3D */
    case 0x1200: /* processing accelerator */
        *kind = PCI_GPU;
        return true;
    default:
        return false;
    }
}

int pci_devices_read(const struct sys *sys, struct pci_devices *devices)
{
    struct sys_names *names = calloc(1, sizeof(*names));

    devices->nr = 0;
    if (!names)
        return 0;
    sys_list(sys, names, "/sys/bus/pci/devices");
    for (int i = 0; i < names->nr && devices->nr < PCI_MAX; i++) {
        struct pci_device *dev = &devices->at[devices->nr];
        int64_t class = 0, vendor = 0;

        memset(dev, 0, sizeof(*dev));
        if (sys_number(sys, &class, "/sys/bus/pci/devices/%s/class", names->name[i]) < 0 ||
            !kind_of((uint32_t) class, &dev->kind))
            continue;
        strcpy(dev->bdf, names->name[i]);
        sys_number(sys, &vendor, "/sys/bus/pci/devices/%s/vendor", names->name[i]);
        dev->vendor = (uint32_t)vendor;
        if (dev->kind == PCI_GPU && class >> 8 == 0x0300 && vendor != 0x10de && vendor != 0x1002)
            continue; /* a server's display chip computes nothing */
        if (sys_number(sys, &dev->node, "/sys/bus/pci/devices/%s/numa_node", names->name[i]) < 0)
            dev->node = -1;
        if (sys_real(sys, dev->path, sizeof(dev->path), "/sys/bus/pci/devices/%s", names->name[i]) < 0)
            dev->path[0] = 0;
        devices->nr++;
    }
    free(names);
    return devices->nr;
}

const char *pci_kind_name(enum pci_kind kind)
{
    static const char *const names[] = {"NIC", "NVMe drive", "GPU"};

    return names[kind];
}

/* How many folders both paths share, from /sys/devices on: the root bus is one, each bridge another */
static int shared_steps(const char *a, const char *b)
{
    int nr = 0;

    for (size_t i = 0; a[i] && a[i] == b[i]; i++)
        nr += a[i + 1] == '/' && b[i + 1] == '/';
    return nr;
}

enum pci_distance pci_distance(const struct pci_device *a, const struct pci_device *b)
{
    enum { SYS_DEVICES = 2, ROOT_BUS, ROOT_PORT };
    int shared = shared_steps(a->path, b->path);

    if (shared > ROOT_PORT - 1)
        return PCI_SAME_SWITCH;
    if (shared > SYS_DEVICES)
        return PCI_SAME_BRIDGE;
    return a->node == b->node && a->node >= 0 ? PCI_SAME_NODE : PCI_OTHER_NODE;
}

const char *pci_distance_name(enum pci_distance distance)
{
    static const char *const names[] = {"below one switch", "below one root complex", "on one NUMA node",
                                        "on different NUMA nodes"};

    return names[distance];
}

int pci_nodes(const struct sys *sys)
{
    struct sys_names *names = calloc(1, sizeof(*names));
    int nr = 0;

    if (!names)
        return 1;
    sys_list(sys, names, "/sys/devices/system/node");
    for (int i = 0; i < names->nr; i++)
        nr += !strncmp(names->name[i], "node", 4) && names->name[i][4] >= '0' && names->name[i][4] <= '9';
    free(names);
    return nr ? nr : 1;
}
