/* SPDX-License-Identifier: Apache-2.0 */
/* GPUs: driver, its flavour, and whether an RDMA device can register their memory. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci.h"

enum { VENDOR_NVIDIA = 0x10de };

static int count_gpus(const struct sys *sys)
{
    struct pci_devices *devices = calloc(1, sizeof(*devices));
    int nr = 0;

    if (devices)
        pci_devices_read(sys, devices);
    for (int i = 0; devices && i < devices->nr; i++)
        nr += devices->at[i].kind == PCI_GPU && devices->at[i].vendor == VENDOR_NVIDIA;
    free(devices);
    return nr;
}

void check_gpu_driver(struct doctor *d)
{
    struct pci_devices *devices = calloc(1, sizeof(*devices));

    if (devices)
        pci_devices_read(d->sys, devices);
    for (int i = 0; devices && i < devices->nr; i++) {
        const struct pci_device *dev = &devices->at[i];
        char driver[SYS_NAME_LEN];

        if (dev->kind != PCI_GPU)
            continue;
        if (sys_link(d->sys, driver, "/sys/bus/pci/devices/%s/driver", dev->bdf) < 0)
            report(d, LEVEL_BAD, dev->bdf, NULL, "GPU of vendor %04x without a driver", dev->vendor);
        else
            report(d, !strcmp(driver, "nouveau") ? LEVEL_SLOW : LEVEL_OK, dev->bdf, NULL, "driver %s",
                   driver);
    }
    free(devices);
}

void check_gpu_flavour(struct doctor *d)
{
    char text[512];

    if (sys_read(d->sys, text, sizeof(text), "/proc/driver/nvidia/version") <= 0)
        return;
    text[strcspn(text, "\n")] = 0;
    report(d, strstr(text, "Open Kernel Module") ? LEVEL_OK : LEVEL_HINT, "nvidia", NULL, "%s", text);
}

/* What files say: never more than a guess, since each of them has been seen with and without the service */
static void tell_files(const struct sys *sys, char *text, size_t len)
{
    static const char *const modules[] = {"nvidia_peermem", "nv_peer_mem"};
    struct sys_names clients;
    size_t at = 0;

    text[0] = 0;
    for (int i = 0; i < 2; i++)
        if (sys_exists(sys, "/sys/module/%s", modules[i]))
            at += (size_t)snprintf(text + at, len - at, "%s%s is loaded", at ? ", " : "", modules[i]);
    if (!at)
        at += (size_t)snprintf(text + at, len - at, "neither nvidia_peermem nor nv_peer_mem is loaded");
    if (sys_list(sys, &clients, "/sys/kernel/mm/memory_peers") > 0)
        snprintf(text + at, len - at, ", %s is in memory_peers", clients.name[0]);
    else
        snprintf(text + at, len - at, ", memory_peers has no client");
}

/*
 * The verdict is a registration, made and taken back, by each way and with each RDMA device. Without it:
 * unknown, with what was seen.
 */
void check_gpu_registration(struct doctor *d)
{
    static const char *const ways[] = {"dma-buf", "peermem"};
    char files[SYS_TEXT_LEN];
    struct sys_names devs;
    int gpus = count_gpus(d->sys);

    if (!gpus)
        return;
    tell_files(d->sys, files, sizeof(files));
    if (sys_list(d->sys, &devs, "/sys/class/infiniband") <= 0) {
        report(d, LEVEL_UNSEEN, "GPUDirect RDMA", NULL, "there is no RDMA device to register with; %s",
               files);
        return;
    }
    for (int gpu = 0; gpu < gpus; gpu++) {
        for (int i = 0; i < devs.nr; i++) {
            char label[2 * SYS_NAME_LEN], why[2][SYS_TEXT_LEN] = {"", ""};
            int r[2];

            snprintf(label, sizeof(label), "GPU %d, %s", gpu, devs.name[i]);
            for (int way = 0; way < 2; way++)
                r[way] = SYS_ASK(d->sys, gpu_register, gpu, devs.name[i], (enum sys_register)way, why[way],
                                 sizeof(why[way]));
            if (r[0] == -EOPNOTSUPP || r[0] == -ENODEV)
                report(d, LEVEL_UNSEEN, label, NULL, "unknown, for no registration could be tried (%s); %s",
                       why[0][0] ? why[0] : strerror(-r[0]), files);
            else if (r[0] < 0 && r[1] < 0)
                report(d, LEVEL_SLOW, label, NULL,
                       "a registration fails by dma-buf (%s) and by peermem (%s); %s",
                       why[0][0] ? why[0] : strerror(-r[0]), why[1][0] ? why[1] : strerror(-r[1]), files);
            else
                report(d, LEVEL_OK, label, NULL, "memory was registered by %s%s%s; %s", ways[r[0] < 0],
                       r[0] >= 0 && r[1] >= 0 ? " and by peermem" : ", and not by ",
                       r[0] >= 0 && r[1] >= 0 ? "" : ways[r[0] >= 0], files);
        }
    }
}
