/* SPDX-License-Identifier: Apache-2.0 */
/* Links, distances, IOMMU and ACS of PCI devices. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci.h"

static struct pci_devices *read_devices(const struct doctor *d)
{
    struct pci_devices *devices = calloc(1, sizeof(*devices));

    if (devices)
        pci_devices_read(d->sys, devices);
    return devices;
}

static int count(const struct pci_devices *devices, enum pci_kind kind)
{
    int nr = 0;

    for (int i = 0; i < devices->nr; i++)
        nr += devices->at[i].kind == kind;
    return nr;
}

void check_pci_link(struct doctor *d)
{
    struct pci_devices *devices = read_devices(d);

    for (int i = 0; devices && i < devices->nr; i++) {
        const struct pci_device *dev = &devices->at[i];
        struct pci_speed s;
        char path[SYS_TEXT_LEN];
        bool narrow, slow;

        snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s", dev->bdf);
        if (pci_speed_read(d->sys, path, &s) < 0 || !s.max_width || s.max_gts <= 0)
            continue; /* a virtual device has no link */
        narrow = s.width < s.max_width;
        slow = s.gts < s.max_gts;
        report(d, narrow || (slow && dev->kind != PCI_GPU) ? LEVEL_SLOW : LEVEL_OK, dev->bdf, NULL,
               "%s: %.1f GT/s x %d of %.1f GT/s x %d%s", pci_kind_name(dev->kind), s.gts, s.width, s.max_gts,
               s.max_width, slow && dev->kind == PCI_GPU ? "; an idle GPU lowers its speed by itself" : "");
    }
    free(devices);
}

void check_pci_numa(struct doctor *d)
{
    struct pci_devices *devices = read_devices(d);
    int nodes = pci_nodes(d->sys);

    for (int i = 0; devices && i < devices->nr; i++) {
        const struct pci_device *dev = &devices->at[i];

        if (nodes > 1)
            report(d, dev->node < 0 ? LEVEL_HINT : LEVEL_OK, dev->bdf, NULL, "%s: NUMA node %lld of %d",
                   pci_kind_name(dev->kind), (long long)dev->node, nodes);
    }
    if (nodes == 1)
        report(d, LEVEL_OK, "this machine", NULL, "one NUMA node: every device is as near as every other");
    free(devices);
}

/* For each drive and GPU its nearest NIC */
void check_pci_distance(struct doctor *d)
{
    struct pci_devices *devices = read_devices(d);

    for (int i = 0; devices && i < devices->nr; i++) {
        const struct pci_device *dev = &devices->at[i], *best = NULL;
        enum pci_distance nearest = PCI_OTHER_NODE;

        for (int n = 0; n < devices->nr && dev->kind != PCI_NIC; n++) {
            enum pci_distance distance = pci_distance(dev, &devices->at[n]);

            if (devices->at[n].kind == PCI_NIC && (!best || distance < nearest)) {
                best = &devices->at[n];
                nearest = distance;
            }
        }
        if (!best)
            continue;
        report(d, nearest == PCI_OTHER_NODE && pci_nodes(d->sys) > 1 ? LEVEL_SLOW : LEVEL_OK, dev->bdf,
               best->bdf, "%s: the nearest NIC, %s, is %s", pci_kind_name(dev->kind), best->bdf,
               nearest == PCI_OTHER_NODE && pci_nodes(d->sys) == 1 ? pci_distance_name(PCI_SAME_NODE)
                                                                   : pci_distance_name(nearest));
    }
    free(devices);
}

void check_pci_iommu(struct doctor *d)
{
    struct pci_devices *devices = read_devices(d);
    struct sys_names groups;
    int nr_groups = sys_list(d->sys, &groups, "/sys/kernel/iommu_groups");

    for (int i = 0; devices && i < devices->nr; i++) {
        const struct pci_device *dev = &devices->at[i];
        char group[SYS_NAME_LEN], type[32];
        bool translates;

        if (nr_groups <= 0) {
            report(d, LEVEL_OK, "this machine", NULL,
                   "no IOMMU is in use (/sys/kernel/iommu_groups is empty)");
            break;
        }
        if (sys_link(d->sys, group, "/sys/bus/pci/devices/%s/iommu_group", dev->bdf) < 0 ||
            sys_read(d->sys, type, sizeof(type), "/sys/kernel/iommu_groups/%s/type", group) <= 0)
            continue;
        translates = !strncmp(type, "DMA", 3);
        report(d,
               !translates               ? LEVEL_OK
               : count(devices, PCI_GPU) ? LEVEL_SLOW
                                         : LEVEL_HINT,
               dev->bdf, NULL, "%s: IOMMU group %s, type %s", pci_kind_name(dev->kind), group, type);
    }
    free(devices);
}

enum {
    CONFIG_STATUS = 6,
    STATUS_CAPS = 0x10,
    CONFIG_CAPS = 0x34,
    CAP_EXPRESS = 0x10,
    EXTENDED = 0x100,
    EXT_ACS = 0x0d
};
enum { ACS_REQUEST_REDIRECT = 1 << 2, ACS_COMPLETION_REDIRECT = 1 << 3, ACS_UPSTREAM = 1 << 4 };

static unsigned int get16(const uint8_t *p)
{
    return p[0] | (unsigned int)p[1] << 8;
}

static unsigned int get32(const uint8_t *p)
{
    return get16(p) | get16(p + 2) << 16;
}

/* ACS control of a bridge; -ENODATA: it has no ACS; -EACCES: only the first 64 bytes were given */
static int acs_control(const struct sys *sys, const char *bdf, unsigned int *control)
{
    uint8_t config[4096];
    ssize_t n = sys_read_bytes(sys, config, sizeof(config), "/sys/bus/pci/devices/%s/config", bdf);
    size_t at = EXTENDED;

    if (n < 0)
        return (int)n;
    if (n <= 64)
        return -EACCES;
    for (int hops = 0; hops < 256 && at >= EXTENDED && at + 8 <= (size_t)n; hops++) {
        unsigned int head = get32(config + at);

        if ((head & 0xffff) == EXT_ACS) {
            *control = get16(config + at + 6);
            return 0;
        }
        at = head >> 20 & 0xffc;
    }
    return -ENODATA;
}

/* Bridges between devices that could talk to each other directly: those on the way of a GPU or an NVMe drive
 */
void check_pci_acs(struct doctor *d)
{
    struct pci_devices *devices = read_devices(d);
    struct sys_names *seen = calloc(1, sizeof(*seen));
    int gpus = devices ? count(devices, PCI_GPU) : 0;

    for (int i = 0; devices && seen && i < devices->nr; i++) {
        const struct pci_device *dev = &devices->at[i];
        char path[sizeof(dev->path)], *save = NULL;

        if (dev->kind == PCI_NIC)
            continue;
        strcpy(path, dev->path);
        for (char *part = strtok_r(path, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
            unsigned int control, redirect;
            bool old = false;
            int r;

            if (!strcmp(part, dev->bdf) || strlen(part) != strlen(dev->bdf) || part[4] != ':')
                continue; /* no bridge: pci0000:00, the device itself */
            for (int n = 0; n < seen->nr; n++)
                old |= !strcmp(seen->name[n], part);
            if (old || seen->nr == SYS_NAMES_MAX)
                continue;
            snprintf(seen->name[seen->nr++], SYS_NAME_LEN, "%s", part);
            r = acs_control(d->sys, part, &control);
            if (r == -ENODATA)
                continue;
            if (r < 0) {
                report_unseen(d, part, r, "ACS of the bridge");
                continue;
            }
            redirect = control & (ACS_REQUEST_REDIRECT | ACS_COMPLETION_REDIRECT | ACS_UPSTREAM);
            report(d,
                   !redirect ? LEVEL_OK
                   : gpus    ? LEVEL_SLOW
                             : LEVEL_HINT,
                   part, NULL, "ACS control 0x%04x: %s", control,
                   redirect ? "traffic between devices goes by the root complex"
                            : "devices may talk directly");
        }
    }
    free(devices);
    free(seen);
}

/* PCI Express capability, device control: bits 14:12 are the largest read request, 128 << n bytes */
void check_pci_read_request(struct doctor *d)
{
    struct pci_devices *devices = read_devices(d);

    for (int i = 0; devices && i < devices->nr; i++) {
        const struct pci_device *dev = &devices->at[i];
        uint8_t config[256];
        ssize_t n;
        size_t at;

        if (dev->kind == PCI_GPU)
            continue;
        n = sys_read_bytes(d->sys, config, sizeof(config), "/sys/bus/pci/devices/%s/config", dev->bdf);
        if (n <= 64) {
            report_unseen(d, dev->bdf, n < 0 ? (int)n : -EACCES, "its largest read request");
            continue;
        }
        at = get16(config + CONFIG_STATUS) & STATUS_CAPS ? config[CONFIG_CAPS] & 0xfcu : 0;
        for (int hops = 0; hops < 48 && at >= 64 && at + 10 <= (size_t)n;
             hops++, at = config[at + 1] & 0xfcu) {
            if (config[at] != CAP_EXPRESS)
                continue;
            unsigned int len = 128u << (get16(config + at + 8) >> 12 & 7);
            report(d, len < 512 ? LEVEL_SLOW : LEVEL_OK, dev->bdf, NULL, "%s: reads of up to %u bytes",
                   pci_kind_name(dev->kind), len);
            break;
        }
    }
    free(devices);
}
