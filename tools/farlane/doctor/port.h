/* SPDX-License-Identifier: Apache-2.0 */
/* Ports of RDMA devices and network interfaces, as several files of checks need them. */
#ifndef FARLANE_DOCTOR_PORT_H
#define FARLANE_DOCTOR_PORT_H

#include "check.h"

struct port {
    char dev[SYS_NAME_LEN];
    int port;
    char label[2 * SYS_NAME_LEN]; /* "mlx5_0/1" */
    bool roce;                    /* link layer Ethernet */
    char link_layer[32];
    int state, phys_state;     /* as the kernel numbers them: 4 ACTIVE, 2 INIT; 5 LinkUp; 0: not known */
    double gbps;               /* 0: not known */
    char ifname[SYS_NAME_LEN]; /* of RoCE; "": none is seen */
};

enum { PORT_INIT = 2, PORT_ARMED = 3, PORT_ACTIVE = 4 };

#define PORTS_MAX 128

struct ports {
    int nr;
    struct port at[PORTS_MAX];
};

/* Every port of every device; their number. */
int ports_read(const struct sys *sys, struct ports *ports);

/* Network interfaces that a device stands behind, and those of RoCE ports (a bond, a VLAN). */
struct nic {
    char name[SYS_NAME_LEN];
    bool up, rdma;
    int64_t mtu, mbps; /* 0: not known */
    bool loopback, bridge, hardware;
};

#define NICS_MAX 128

struct nics {
    int nr;
    struct nic at[NICS_MAX];
};

int nics_read(const struct sys *sys, struct nics *nics);
/* Those that carry data: up, no loopback, no bridge. */
static inline bool nic_counts(const struct nic *nic)
{
    return nic->up && !nic->loopback && !nic->bridge && (nic->hardware || nic->rdma);
}

/* Kernel's MTU of an interface -> what RoCE sends in a packet: 256 to 4096 */
uint32_t roce_mtu(int64_t mtu);

#endif
