/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"
#include "rnic/device.h"
#include "wire/ib.h"

static void find_interface(const struct sys *sys, struct port *p)
{
    struct sys_names names;

    /* The index that has one is not always 0: entries may be empty, or of an interface elsewhere */
    sys_list(sys, &names, "/sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs", p->dev, p->port);
    for (int i = 0; i < names.nr && !p->ifname[0]; i++)
        sys_read(sys, p->ifname, sizeof(p->ifname), "/sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/%s",
                 p->dev, p->port, names.name[i]);
    if (p->ifname[0] || sys_list(sys, &names, "/sys/class/infiniband/%s/device/net", p->dev) <= 0)
        return;
    snprintf(p->ifname, sizeof(p->ifname), "%s", names.name[0]);
}

static void read_port(const struct sys *sys, struct port *p)
{
    char text[SYS_TEXT_LEN];

    sys_read(sys, p->link_layer, sizeof(p->link_layer), "/sys/class/infiniband/%s/ports/%d/link_layer",
             p->dev, p->port);
    p->roce = !strcmp(p->link_layer, "Ethernet");
    if (sys_read(sys, text, sizeof(text), "/sys/class/infiniband/%s/ports/%d/state", p->dev, p->port) > 0)
        p->state = atoi(text);
    if (sys_read(sys, text, sizeof(text), "/sys/class/infiniband/%s/ports/%d/phys_state", p->dev, p->port) >
        0)
        p->phys_state = atoi(text);
    if (sys_read(sys, text, sizeof(text), "/sys/class/infiniband/%s/ports/%d/rate", p->dev, p->port) > 0)
        p->gbps = atof(text);
    if (p->roce)
        find_interface(sys, p);
}

int ports_read(const struct sys *sys, struct ports *ports)
{
    struct sys_names *devs = calloc(2, sizeof(*devs)), *names = devs + 1;

    ports->nr = 0;
    if (!devs)
        return 0;
    sys_list(sys, devs, "/sys/class/infiniband");
    for (int i = 0; i < devs->nr; i++) {
        sys_list(sys, names, "/sys/class/infiniband/%s/ports", devs->name[i]);
        for (int n = 0; n < names->nr && ports->nr < PORTS_MAX; n++) {
            struct port *p = &ports->at[ports->nr++];

            memset(p, 0, sizeof(*p));
            strcpy(p->dev, devs->name[i]);
            p->port = atoi(names->name[n]);
            snprintf(p->label, sizeof(p->label), "%.63s/%d", devs->name[i], p->port);
            read_port(sys, p);
        }
    }
    free(devs);
    return ports->nr;
}

enum { TYPE_LOOPBACK = 772 }; /* ARPHRD_LOOPBACK of <linux/if_arp.h> */

static void read_nic(const struct sys *sys, struct nic *nic)
{
    char text[SYS_TEXT_LEN];
    int64_t type = 0;

    sys_number(sys, &type, "/sys/class/net/%s/type", nic->name);
    nic->loopback = type == TYPE_LOOPBACK;
    nic->bridge = sys_exists(sys, "/sys/class/net/%s/bridge", nic->name);
    nic->hardware = sys_exists(sys, "/sys/class/net/%s/device", nic->name);
    sys_read(sys, text, sizeof(text), "/sys/class/net/%s/operstate", nic->name);
    nic->up = !strcmp(text, "up") || (!strcmp(text, "unknown") && nic->hardware);
    if (sys_number(sys, &nic->mtu, "/sys/class/net/%s/mtu", nic->name) < 0)
        nic->mtu = 0;
    if (sys_number(sys, &nic->mbps, "/sys/class/net/%s/speed", nic->name) < 0 || nic->mbps < 0)
        nic->mbps = 0; /* -1: not known; an interface that is down answers EINVAL */
}

/* By the kernel's own list; sysfs adds what it knows, unless it is that of another network namespace. */
static int list_of_kernel(const struct sys *sys, struct nics *nics)
{
    struct sys_interface *list = calloc(NICS_MAX, sizeof(*list));
    int nr = list ? SYS_ASK(sys, interfaces, list, NICS_MAX) : -ENOMEM;

    for (int i = 0; i < nr; i++) {
        struct nic *nic = &nics->at[i];

        memset(nic, 0, sizeof(*nic));
        strcpy(nic->name, list[i].name);
        if (sys_exists(sys, "/sys/class/net/%s/operstate", nic->name)) {
            read_nic(sys, nic);
        } else {
            nic->hardware = !list[i].loopback;
            nic->loopback = list[i].loopback;
        }
        nic->up = list[i].up;
        nic->mtu = list[i].mtu;
    }
    free(list);
    return nr;
}

static int list_of_sysfs(const struct sys *sys, struct nics *nics)
{
    struct sys_names *names = calloc(1, sizeof(*names));
    int nr = 0;

    if (names)
        sys_list(sys, names, "/sys/class/net");
    for (int i = 0; names && i < names->nr && nr < NICS_MAX; i++) {
        struct nic *nic = &nics->at[nr];

        if (!sys_exists(sys, "/sys/class/net/%s/operstate", names->name[i]))
            continue; /* bonding_masters is a file there */
        memset(nic, 0, sizeof(*nic));
        strcpy(nic->name, names->name[i]);
        read_nic(sys, nic);
        nr++;
    }
    free(names);
    return nr;
}

int nics_read(const struct sys *sys, struct nics *nics)
{
    struct ports *ports = calloc(1, sizeof(*ports));

    nics->nr = list_of_kernel(sys, nics);
    if (nics->nr < 0)
        nics->nr = list_of_sysfs(sys, nics);
    if (ports)
        ports_read(sys, ports);
    for (int i = 0; i < nics->nr; i++)
        for (int n = 0; ports && n < ports->nr; n++)
            nics->at[i].rdma |= !strcmp(ports->at[n].ifname, nics->at[i].name);
    free(ports);
    return nics->nr;
}

uint32_t roce_mtu(int64_t mtu)
{
    return fl_ib_mtu_len((uint8_t)fl_mtu_of_interface((uint32_t)mtu));
}
