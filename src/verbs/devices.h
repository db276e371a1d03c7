/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The RDMA hardware of this machine, and what the kernel drives like hardware (rdma_rxe, siw): what /sys and
 * /dev tell without a library and without privileges.
 */
#ifndef FL_VERBS_DEVICES_H
#define FL_VERBS_DEVICES_H

#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

#define FL_RDMA_NAME_LEN 64 /* of a device, as IBV_SYSFS_NAME_MAX */

enum fl_port_kind { FL_PORT_ROCE, FL_PORT_INFINIBAND, FL_PORT_IWARP };

struct fl_port_gid {
    int index;
    struct in6_addr gid; /* IPv4 as ::ffff:a.b.c.d */
    bool roce_v2;
    char ifname[IF_NAMESIZE]; /* "": not told, or it is in another network namespace */
};

struct fl_hw_port {
    char device[FL_RDMA_NAME_LEN];
    uint8_t port;
    enum fl_port_kind kind;
    bool active;
    char state[24];           /* "ACTIVE", "DOWN", "INIT" */
    char rate[32];            /* "100 Gb/sec (4X EDR)"; "": not told */
    char uverbs[160];         /* the path of the device's file; "": it has none */
    int access;               /* to that file: 0 or negative errno */
    struct fl_port_gid *gids; /* those that are set */
    uint32_t nr_gids;
};

struct fl_hw {
    struct fl_hw_port *ports; /* by device's name, then number */
    uint32_t nr_ports;
    char cm[160];  /* the connection manager's file */
    int cm_access; /* 0 or negative errno */
    char root[96];
};

/* root: a folder that stands for /, "" for / itself. No device at all is 0, and an empty list. -ENOMEM. */
int fl_hw_read(const char *root, struct fl_hw *hw);
void fl_hw_free(struct fl_hw *hw);

/* The GID that an IP-over-InfiniBand interface stands for, from its hardware address. */
bool fl_hw_gid_of_ipoib(const char *root, const char *ifname, struct in6_addr *gid);

#endif
