/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices: one for each network interface that has an IP address, with one port. They are found once and kept
 * for the life of the process; the interfaces' addresses, MTU and state are read again when the kernel says
 * that they changed.
 */
#ifndef FL_RNIC_DEVICE_H
#define FL_RNIC_DEVICE_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include <infiniband/verbs.h>
#include <net/if.h>
#include <netinet/in.h>

#include "base/list.h"
#include "rnic/stats/counters.h"

#define FL_GID_MAX 64 /* addresses of an interface that are looked at */

struct fl_gid {
    struct in6_addr addr; /* all zero: nothing at this index */
    bool assigned;        /* false: made of the MAC; the interface does not have it */
};

/* What a device has FL_OBJECTS_MAX of; memory regions and windows are limited by their keys. */
enum fl_limited { FL_LIMITED_PD, FL_LIMITED_CQ, FL_LIMITED_SRQ, FL_LIMITED_QP, FL_LIMITED_AH, FL_NR_LIMITED };
#define FL_OBJECTS_MAX (1u << 20)

struct fl_device {
    struct ibv_device device; /* first; what lies behind it is zero for programs that look there */
    uint8_t room[1024];
    struct fl_list link;
    char ifname[IF_NAMESIZE];
    uint32_t ifindex;
    bool loopback, up;
    bool removed;         /* the interface is gone; programs may hold the device for as long as they like */
    uint32_t nr_removals; /* it may come back */
    uint32_t seen_in;     /* the last scan that found it */
    uint32_t if_mtu;
    uint32_t speed_mbps; /* 0: not known */
    uint8_t mac[6];
    struct fl_gid gids[FL_GID_MAX]; /* an address keeps its index while it is there */
    int nr_gids;                    /* one past the last in use */
    struct fl_list contexts;
    uint32_t nr_objects[FL_NR_LIMITED]; /* atomic */
    uint64_t gone[FL_NR_QP_COUNTERS];   /* what queue pairs counted that are destroyed; the RNIC's lock */
};

/* Protects all devices, and the lists of their contexts. */
extern pthread_mutex_t fl_devices_lock;

/* How often any was removed: who keeps something on devices looks at them when this changed. Atomic. */
extern uint32_t fl_devices_nr_removals;

/* gid.c: reads the interfaces; makes devices for new ones; raises events where something changed. */
int fl_devices_scan(void);
/* In the child of a fork: nobody is told of changes any more. */
void fl_devices_forget_contexts(void);
/* First device of the list, for iteration under fl_devices_lock. */
struct fl_list *fl_devices(void);

enum ibv_mtu fl_device_mtu(const struct fl_device *device);
/* What an interface's MTU leaves for the payload */
enum ibv_mtu fl_mtu_of_interface(uint32_t if_mtu);
uint64_t fl_device_guid(const struct fl_device *device); /* network byte order */
/* Copies one entry. 0 or positive errno: ENODATA nothing there, EINVAL beyond the table. */
int fl_device_gid(struct fl_device *device, int index, struct fl_gid *gid);
/* The index of an address; -1: none. */
int fl_device_find_gid(struct fl_device *device, const struct in6_addr *addr);

/* interfaces.c: one as the kernel has it */
struct fl_interface {
    char name[IF_NAMESIZE];
    uint32_t index;
    bool loopback, up;
    uint32_t mtu, speed_mbps;
    uint8_t mac[6];
    int nr_addrs;
    struct in6_addr addrs[FL_GID_MAX]; /* link-local ones first, then in the kernel's order */
};
/* Calls take() for each interface, those with the lowest index first, loopback last. 0 or negative errno. */
int fl_interfaces_read(void (*take)(void *arg, const struct fl_interface *interface), void *arg);

#endif
