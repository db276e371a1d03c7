/* SPDX-License-Identifier: Apache-2.0 */
/* The machine that this process runs on. */
#include <errno.h>
#include <ifaddrs.h>
#include <liburing.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "live.h"
#include "verbs/verbs.h"
#include "wire/ib.h"

static uint8_t mask_len(const uint8_t *mask, size_t len)
{
    uint8_t bits = 0;

    while (bits < len * 8 && mask[bits / 8] & 0x80 >> bits % 8)
        bits++;
    return bits;
}

static int live_addrs(const struct sys *sys, struct sys_addr *addrs, int max)
{
    struct ifaddrs *list;
    int nr = 0;

    if (getifaddrs(&list) < 0)
        return -errno;
    for (const struct ifaddrs *i = list; i && nr < max; i = i->ifa_next) {
        struct sys_addr *a = &addrs[nr];

        if (!i->ifa_addr || !i->ifa_netmask || strlen(i->ifa_name) >= sizeof(a->ifname))
            continue;
        memset(a, 0, sizeof(*a));
        strcpy(a->ifname, i->ifa_name);
        if (i->ifa_addr->sa_family == AF_INET) {
            a->addr.s6_addr[10] = a->addr.s6_addr[11] = 0xff;
            memcpy(a->addr.s6_addr + 12, &((const struct sockaddr_in *)i->ifa_addr)->sin_addr, 4);
            a->prefix_len =
                (uint8_t)(96 +
                          mask_len((const uint8_t *)&((const struct sockaddr_in *)i->ifa_netmask)->sin_addr,
                                   4));
        } else if (i->ifa_addr->sa_family == AF_INET6) {
            a->addr = ((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr;
            a->prefix_len = mask_len(((const struct sockaddr_in6 *)i->ifa_netmask)->sin6_addr.s6_addr, 16);
        } else {
            continue;
        }
        nr++;
    }
    freeifaddrs(list);
    return nr;
}

static int live_interfaces(const struct sys *sys, struct sys_interface *interfaces, int max)
{
    struct if_nameindex *list = if_nameindex();
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), nr = 0;

    for (const struct if_nameindex *i = list; i && i->if_index && nr < max; i++) {
        struct sys_interface *to = &interfaces[nr];
        struct ifreq req = {0};

        memset(to, 0, sizeof(*to));
        snprintf(to->name, sizeof(to->name), "%s", i->if_name);
        memcpy(req.ifr_name, to->name, sizeof(req.ifr_name) - 1);
        if (ioctl(fd, SIOCGIFMTU, &req) < 0)
            continue;
        to->mtu = (uint32_t)req.ifr_mtu;
        if (ioctl(fd, SIOCGIFFLAGS, &req) < 0)
            continue;
        to->up = req.ifr_flags & IFF_UP && req.ifr_flags & IFF_RUNNING;
        to->loopback = req.ifr_flags & IFF_LOOPBACK;
        nr++;
    }
    if (list)
        if_freenameindex(list);
    if (fd >= 0)
        close(fd);
    return list ? nr : -ENOMEM;
}

static bool in_subnet(const struct sys_addr *a, const struct in6_addr *to)
{
    for (int bit = 0; bit < a->prefix_len; bit++)
        if ((a->addr.s6_addr[bit / 8] ^ to->s6_addr[bit / 8]) & 0x80 >> bit % 8)
            return false;
    return true;
}

/* The address that a connected socket gets, and whose it is: the kernel's own choice, with all its rules */
static int live_route(const struct sys *sys, const struct in6_addr *to, struct sys_route *route)
{
    static struct sys_addr addrs[256];
    struct sockaddr_in6 name = {.sin6_family = AF_INET6, .sin6_port = htons(9), .sin6_addr = *to};
    socklen_t len = sizeof(name);
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0), nr, r = 0, off = 0;

    if (fd < 0)
        return -EOPNOTSUPP; /* no IPv6 in this kernel: not even for mapped addresses */
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (connect(fd, (const struct sockaddr *)&name, sizeof(name)) < 0 ||
        getsockname(fd, (struct sockaddr *)&name, &len) < 0)
        r = -errno;
    close(fd);
    nr = r ? 0 : live_addrs(sys, addrs, 256);
    for (int i = 0; i < nr; i++) {
        if (!IN6_ARE_ADDR_EQUAL(&addrs[i].addr, &name.sin6_addr))
            continue;
        strcpy(route->ifname, addrs[i].ifname);
        route->gateway = !in_subnet(&addrs[i], to);
        return 0;
    }
    return r ? r : -EOPNOTSUPP;
}

static int live_port_mtu(const struct sys *sys, const char *dev, int port, uint32_t *active, uint32_t *max)
{
    const struct fl_verbs *verbs;
    struct ibv_device **list;
    struct ibv_context *context = NULL;
    struct ibv_port_attr attr;
    int r = fl_verbs_hardware(&verbs, NULL);

    if (r < 0)
        return -EOPNOTSUPP;
    list = verbs->get_device_list(NULL);
    for (int i = 0; list && list[i] && !context; i++)
        if (!strcmp(verbs->get_device_name(list[i]), dev))
            context = verbs->open_device(list[i]);
    if (list)
        verbs->free_device_list(list);
    if (!context)
        return -EACCES;
    r = -verbs->query_port(context, (uint8_t)port, &attr);
    if (!r) {
        *active = fl_ib_mtu_len((uint8_t)attr.active_mtu);
        *max = fl_ib_mtu_len((uint8_t)attr.max_mtu);
    }
    verbs->close_device(context);
    return r;
}

static int live_space(const struct sys *sys, const char *path, uint64_t *total, uint64_t *left)
{
    struct statvfs fs;

    if (statvfs(path, &fs) < 0)
        return -errno;
    *total = (uint64_t)fs.f_blocks * fs.f_frsize;
    *left = (uint64_t)fs.f_bavail * fs.f_frsize;
    return 0;
}

static int live_uring(const struct sys *sys)
{
    struct io_uring ring;
    int r = io_uring_queue_init(4, &ring, 0);

    if (!r)
        io_uring_queue_exit(&ring);
    return r;
}

const struct sys_ops sys_live_ops = {
    .addrs = live_addrs,
    .interfaces = live_interfaces,
    .route = live_route,
    .port_mtu = live_port_mtu,
    .dcb = live_dcb,
    .pause = live_pause,
    .counters = live_counters,
    .firewall = live_firewall,
    .iptables = live_iptables,
    .space = live_space,
    .uring = live_uring,
    .gpu_register = live_gpu_register,
};
