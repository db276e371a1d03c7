/* SPDX-License-Identifier: Apache-2.0 */
/* PCI devices as sysfs has them. */
#ifndef FARLANE_DOCTOR_PCI_H
#define FARLANE_DOCTOR_PCI_H

#include "check.h"

struct pci_speed {
    double gts, gbps; /* of a lane; of all lanes, payload and headers, one way */
    int width;
    double max_gts;
    int max_width;
};

/* `path` is a device's folder. */
int pci_speed_read(const struct sys *sys, const char *path, struct pci_speed *speed);

enum pci_kind { PCI_NIC, PCI_NVME, PCI_GPU, NR_PCI_KINDS };

struct pci_device {
    char bdf[SYS_NAME_LEN];
    enum pci_kind kind;
    int64_t node; /* -1: not told */
    uint32_t vendor;
    char path[256]; /* below /sys/devices: the bridges on its way */
};

#define PCI_MAX 128

struct pci_devices {
    int nr;
    struct pci_device at[PCI_MAX];
};

/* NICs, NVMe drives and GPUs; the number. */
int pci_devices_read(const struct sys *sys, struct pci_devices *devices);
const char *pci_kind_name(enum pci_kind kind);

enum pci_distance { PCI_SAME_SWITCH, PCI_SAME_BRIDGE, PCI_SAME_NODE, PCI_OTHER_NODE };
enum pci_distance pci_distance(const struct pci_device *a, const struct pci_device *b);
const char *pci_distance_name(enum pci_distance distance);

/* How many NUMA nodes there are, at least 1. */
int pci_nodes(const struct sys *sys);

#endif
