/* SPDX-License-Identifier: Apache-2.0 */
/* The host's network interfaces and their addresses, as the kernel has them. */
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_link.h>
#include <netpacket/packet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "rnic/device.h"

#define INTERFACES_MAX 256

struct found {
    struct fl_interface *at;
    int nr;
    int fd; /* any socket, for ioctl(): what it is for must not fail for want of a descriptor half-way */
};

static uint32_t read_speed(const char *name)
{
    char path[64 + IF_NAMESIZE];
    long mbps = 0;
    snprintf(path, sizeof(path), "/sys/class/net/%s/speed", name);
    FILE *f = fopen(path, "re");
    if (!f)
        return 0;
    if (fscanf(f, "%ld", &mbps) != 1) /* not every kind of interface knows */
        mbps = 0;
    fclose(f);
    return mbps > 0 && mbps <= 10000000 ? (uint32_t)mbps : 0;
}

static struct fl_interface *interface_of(struct found *found, const struct ifaddrs *ifa)
{
    struct ifreq req = {0};
    snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifa->ifa_name);
    if (ioctl(found->fd, SIOCGIFINDEX, &req) < 0)
        return NULL;
    uint32_t index = (uint32_t)req.ifr_ifindex;
    for (int i = 0; i < found->nr; i++)
        if (found->at[i].index == index)
            return &found->at[i];
    if (found->nr == INTERFACES_MAX)
        return NULL;
    struct fl_interface *i = &found->at[found->nr++];
    snprintf(i->name, sizeof(i->name), "%s", ifa->ifa_name);
    i->index = index;
    i->loopback = ifa->ifa_flags & IFF_LOOPBACK;
    i->up = (ifa->ifa_flags & IFF_UP) && (ifa->ifa_flags & IFF_RUNNING);
    i->speed_mbps = i->loopback ? 0 : read_speed(i->name);
    if (!ioctl(found->fd, SIOCGIFMTU, &req))
        i->mtu = (uint32_t)req.ifr_mtu;
    return i;
}

static bool is_link_local(const struct in6_addr *addr)
{
    return IN6_IS_ADDR_LINKLOCAL(addr);
}

static void add_addr(struct fl_interface *i, const struct in6_addr *addr)
{
    int at = i->nr_addrs;
    if (at == FL_GID_MAX)
        return;
    for (int n = 0; n < i->nr_addrs; n++) /* aliases show an address twice */
        if (IN6_ARE_ADDR_EQUAL(&i->addrs[n], addr))
            return;
    if (is_link_local(addr)) {
        for (at = 0; at < i->nr_addrs && is_link_local(&i->addrs[at]);)
            at++;
        memmove(&i->addrs[at + 1], &i->addrs[at], sizeof(*addr) * (size_t)(i->nr_addrs - at));
    }
    i->addrs[at] = *addr;
    i->nr_addrs++;
}

static void take_addr(struct fl_interface *i, const struct sockaddr *sa)
{
    struct in6_addr addr = {0};
    if (sa->sa_family == AF_PACKET) {
        const struct sockaddr_ll *ll = (const struct sockaddr_ll *)sa;
        if (ll->sll_halen == sizeof(i->mac))
            memcpy(i->mac, ll->sll_addr, sizeof(i->mac));
    } else if (sa->sa_family == AF_INET) {
        addr.s6_addr[10] = addr.s6_addr[11] = 0xff;
        memcpy(addr.s6_addr + 12, &((const struct sockaddr_in *)sa)->sin_addr, 4);
        add_addr(i, &addr);
    } else if (sa->sa_family == AF_INET6) {
        addr = ((const struct sockaddr_in6 *)sa)->sin6_addr;
        add_addr(i, &addr);
    }
}

static int by_use(const void *a, const void *b)
{
    const struct fl_interface *x = a, *y = b;
    if (x->loopback != y->loopback)
        return x->loopback ? 1 : -1;
    return x->index < y->index ? -1 : 1;
}

int fl_interfaces_read(void (*take)(void *arg, const struct fl_interface *interface), void *arg)
{
    struct found found = {.at = calloc(INTERFACES_MAX, sizeof(*found.at))};
    struct ifaddrs *list;
    if (!found.at)
        return -ENOMEM;
    found.fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (found.fd < 0 || getifaddrs(&list) < 0) {
        int r = -errno;
        if (found.fd >= 0)
            close(found.fd);
        free(found.at);
        return r;
    }
    for (const struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
        struct fl_interface *i = ifa->ifa_addr ? interface_of(&found, ifa) : NULL;
        if (i)
            take_addr(i, ifa->ifa_addr);
    }
    close(found.fd);
    freeifaddrs(list);
    qsort(found.at, (size_t)found.nr, sizeof(*found.at), by_use);
    for (int i = 0; i < found.nr; i++)
        take(arg, &found.at[i]);
    free(found.at);
    return 0;
}
