/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, their ports and GID tables, kept in step with the host's interfaces. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/log.h"
#include "rnic/objects.h"

pthread_mutex_t fl_devices_lock = PTHREAD_MUTEX_INITIALIZER;
uint32_t fl_devices_nr_removals;

static struct fl_list devices = FL_LIST_INIT(devices);
static int nr_devices;

struct fl_list *fl_devices(void)
{
    return &devices;
}

void fl_devices_forget_contexts(void)
{
    struct fl_device *d;
    fl_list_for_each (d, &devices, link) {
        fl_list_init(&d->contexts);
        memset(d->gone, 0, sizeof(d->gone));
    }
}

static struct fl_device *device_of(const struct fl_interface *i)
{
    struct fl_device *d;
    fl_list_for_each (d, &devices, link) {
        if (d->ifindex == i->index && !strcmp(d->ifname, i->name))
            return d;
    }
    return NULL;
}

static struct fl_device *device_create(const struct fl_interface *i)
{
    struct fl_device *d = calloc(1, sizeof(*d));
    if (!d)
        return NULL;
    d->device.node_type = IBV_NODE_CA;
    d->device.transport_type = IBV_TRANSPORT_IB;
    snprintf(d->device.name, sizeof(d->device.name), "farlane%d", nr_devices);
    snprintf(d->device.dev_name, sizeof(d->device.dev_name), "%s", d->device.name);
    snprintf(d->ifname, sizeof(d->ifname), "%s", i->name);
    d->ifindex = i->index;
    d->loopback = i->loopback;
    memcpy(d->mac, i->mac, sizeof(d->mac));
    fl_list_init(&d->contexts);
    fl_list_add_tail(&devices, &d->link);
    nr_devices++;
    return d;
}

static void eui64(const uint8_t mac[6], uint8_t to[8])
{
    const uint8_t id[] = {mac[0] ^ 2, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]};
    memcpy(to, id, sizeof(id));
}

uint64_t fl_device_guid(const struct fl_device *d)
{
    uint64_t guid;
    uint8_t id[8];
    static const uint8_t no_mac[6];
    if (memcmp(d->mac, no_mac, sizeof(no_mac))) {
        eui64(d->mac, id);
    } else { /* the loopback: locally administered, different for each such interface */
        const uint8_t made[] = {2, 'f', 'l', 0xff, 0xfe, 0, (uint8_t)(d->ifindex >> 8), (uint8_t)d->ifindex};
        memcpy(id, made, sizeof(id));
    }
    memcpy(&guid, id, sizeof(guid));
    return guid;
}

static bool has_addr(const struct fl_interface *i, const struct in6_addr *addr)
{
    for (int n = 0; n < i->nr_addrs; n++)
        if (IN6_ARE_ADDR_EQUAL(&i->addrs[n], addr))
            return true;
    return false;
}

static int find_gid(const struct fl_device *d, const struct in6_addr *addr)
{
    for (int n = 0; n < d->nr_gids; n++)
        if (IN6_ARE_ADDR_EQUAL(&d->gids[n].addr, addr))
            return n;
    return -1;
}

/*
 * Index 0 is the link-local address, as with the kernel's RNICs: that of the interface, else made of the MAC
 * (which then is only a name). The loopback has none.
 */
static struct fl_gid default_gid(const struct fl_device *d, const struct fl_interface *i)
{
    struct fl_gid gid = {.assigned = i->nr_addrs && IN6_IS_ADDR_LINKLOCAL(&i->addrs[0])};
    if (gid.assigned) {
        gid.addr = i->addrs[0];
    } else {
        gid.addr.s6_addr[0] = 0xfe;
        gid.addr.s6_addr[1] = 0x80;
        eui64(d->mac, gid.addr.s6_addr + 8);
    }
    return gid;
}

static bool put_gid(struct fl_device *d, int index, const struct fl_gid *gid)
{
    if (IN6_ARE_ADDR_EQUAL(&d->gids[index].addr, &gid->addr) && d->gids[index].assigned == gid->assigned)
        return false;
    d->gids[index] = *gid;
    if (index >= d->nr_gids)
        d->nr_gids = index + 1;
    return true;
}

/* An address keeps its index; a new one takes the first that is free. True: something changed. */
static bool update_gids(struct fl_device *d, const struct fl_interface *i)
{
    bool changed = false;
    int first = 0;
    if (!i->loopback) {
        struct fl_gid gid = default_gid(d, i);
        changed = put_gid(d, first++, &gid);
    }
    for (int n = first; n < d->nr_gids; n++) {
        if (d->gids[n].assigned && !has_addr(i, &d->gids[n].addr)) {
            d->gids[n] = (struct fl_gid){0};
            changed = true;
        }
    }
    for (int n = 0; n < i->nr_addrs; n++) {
        int at = first;
        if (find_gid(d, &i->addrs[n]) >= 0)
            continue;
        while (at < FL_GID_MAX && d->gids[at].assigned)
            at++;
        if (at < FL_GID_MAX)
            changed |= put_gid(d, at, &(struct fl_gid){.addr = i->addrs[n], .assigned = true});
    }
    while (d->nr_gids && IN6_IS_ADDR_UNSPECIFIED(&d->gids[d->nr_gids - 1].addr))
        d->nr_gids--;
    return changed;
}

static void tell(struct fl_device *d, enum ibv_event_type type)
{
    struct ibv_async_event event = {.element.port_num = 1, .event_type = type};
    struct fl_context *c;
    fl_list_for_each (c, &d->contexts, link) {
        fl_async_raise(c, &event, NULL);
    }
}

static void set_up(struct fl_device *d, bool up)
{
    if (d->up == up)
        return;
    d->up = up;
    tell(d, up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
}

/* Its interface is gone, and comes back, if it does, as another one. */
static void take_away(struct fl_device *d)
{
    d->removed = true;
    d->nr_removals++;
    __atomic_add_fetch(&fl_devices_nr_removals, 1, __ATOMIC_RELEASE);
    set_up(d, false);
    memset(d->gids, 0, sizeof(d->gids));
    d->nr_gids = 0;
    tell(d, IBV_EVENT_DEVICE_FATAL);
}

static void take_interface(void *arg, const struct fl_interface *i)
{
    const uint32_t *scan = arg;
    struct fl_device *d = device_of(i);
    if (!d && i->nr_addrs) /* without an address nothing can be sent or come */
        d = device_create(i);
    if (!d)
        return;
    d->seen_in = *scan;
    d->removed = false;
    memcpy(d->mac, i->mac, sizeof(d->mac));
    /* queue pairs look at these without the lock */
    __atomic_store_n(&d->if_mtu, i->mtu, __ATOMIC_RELAXED);
    __atomic_store_n(&d->speed_mbps, i->speed_mbps, __ATOMIC_RELAXED);
    if (update_gids(d, i))
        tell(d, IBV_EVENT_GID_CHANGE);
    set_up(d, i->up);
}

int fl_devices_scan(void)
{
    static uint32_t scan; /* under the lock */
    struct fl_device *d;
    pthread_mutex_lock(&fl_devices_lock);
    scan++;
    int r = fl_interfaces_read(take_interface, &scan);
    if (!r) {
        fl_list_for_each (d, &devices, link) {
            if (d->seen_in != scan && !d->removed)
                take_away(d);
        }
    }
    pthread_mutex_unlock(&fl_devices_lock);
    return r;
}

enum ibv_mtu fl_mtu_of_interface(uint32_t if_mtu)
{
    /* IPv6, UDP, BTH and the longest extended headers, immediate, ICRC, and some to spare, as the kernel's */
    const uint32_t around = 40 + 8 + 12 + 16 + 4 + 4 + 20;
    for (int code = IBV_MTU_4096; code > IBV_MTU_256; code--)
        if (if_mtu >= fl_ib_mtu_len((uint8_t)code) + around)
            return (enum ibv_mtu)code;
    return IBV_MTU_256;
}

enum ibv_mtu fl_device_mtu(const struct fl_device *d)
{
    return fl_mtu_of_interface(__atomic_load_n(&d->if_mtu, __ATOMIC_RELAXED));
}

int fl_device_gid(struct fl_device *d, int index, struct fl_gid *gid)
{
    if (index < 0 || index >= FL_GID_MAX)
        return EINVAL;
    pthread_mutex_lock(&fl_devices_lock);
    *gid = d->gids[index];
    pthread_mutex_unlock(&fl_devices_lock);
    return IN6_IS_ADDR_UNSPECIFIED(&gid->addr) ? ENODATA : 0;
}

int fl_device_find_gid(struct fl_device *d, const struct in6_addr *addr)
{
    pthread_mutex_lock(&fl_devices_lock);
    int index = find_gid(d, addr);
    pthread_mutex_unlock(&fl_devices_lock);
    return index;
}
