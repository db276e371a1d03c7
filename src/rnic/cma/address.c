/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses: binding to one, finding the one to reach another from, and the path between them. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rnic/cma/parts.h"

#define SELECTOR_EXACTLY 2  /* of path records */
#define RATE_100G        16 /* enum ibv_rate has it too, but programs only print it */

bool fl_cma_gid_of(const struct sockaddr *addr, struct in6_addr *gid)
{
    if (addr->sa_family == AF_INET6) {
        *gid = ((const struct sockaddr_in6 *)addr)->sin6_addr;
        return true;
    }
    if (addr->sa_family != AF_INET)
        return false;
    *gid = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(gid->s6_addr + 12, &((const struct sockaddr_in *)addr)->sin_addr, 4);
    return true;
}

uint16_t fl_cma_port_of(const struct sockaddr *addr)
{
    /* In the same place in both kinds */
    if (addr->sa_family == AF_INET || addr->sa_family == AF_INET6)
        return be16toh(((const struct sockaddr_in *)addr)->sin_port);
    return 0;
}

static void set_port(struct sockaddr_storage *addr, uint16_t port)
{
    ((struct sockaddr_in *)addr)->sin_port = htobe16(port);
}

bool fl_cma_is_any(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET)
        return !((const struct sockaddr_in *)addr)->sin_addr.s_addr;
    return addr->sa_family == AF_INET6 &&
           IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

void fl_cma_set_addr(struct sockaddr_storage *to, const struct in6_addr *gid, uint16_t port,
                     uint32_t scope_id)
{
    memset(to, 0, sizeof(*to));
    if (IN6_IS_ADDR_V4MAPPED(gid)) {
        struct sockaddr_in *in = (struct sockaddr_in *)to;
        in->sin_family = AF_INET;
        memcpy(&in->sin_addr, gid->s6_addr + 12, 4);
    } else {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)to;
        in6->sin6_family = AF_INET6;
        in6->sin6_addr = *gid;
        in6->sin6_scope_id = IN6_IS_ADDR_LINKLOCAL(gid) ? scope_id : 0;
    }
    set_port(to, port);
}

static socklen_t len_of(const struct sockaddr *addr)
{
    return addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

/* NULL: no device has it, even after another look at the interfaces. */
static struct fl_device *device_with(const struct in6_addr *gid)
{
    struct fl_device *device = fl_cma_device_of(gid);
    if (!device && !fl_devices_scan())
        device = fl_cma_device_of(gid);
    return device;
}

bool fl_cma_is_loopback(const struct sockaddr *addr)
{
    if (addr->sa_family == AF_INET)
        return be32toh(((const struct sockaddr_in *)addr)->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    return addr->sa_family == AF_INET6 &&
           IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)addr)->sin6_addr);
}

static int bind_once(struct fl_cma_id *id, const struct sockaddr *addr, bool to_claim)
{
    struct sockaddr_storage to = {0};
    uint16_t port = fl_cma_port_of(addr);
    int r = fl_cma_lock(id->cma);
    if (r)
        return r;
    if (id->state != FL_CMA_IDLE)
        r = -EINVAL;
    if (!r)
        r = fl_cma_port_bind(id, addr, &port, to_claim);
    if (!r) {
        memcpy(&to, addr, len_of(addr));
        set_port(&to, port);
        id->id.route.addr.src_storage = to;
        id->state = FL_CMA_BOUND;
    }
    fl_cma_unlock(id->cma);
    return r;
}

/*
 * To an address that may be any, and a port that may be 0. To the kernel a loopback address is of no device;
 * libfabric binds to one, without a port, to see which devices an id can have. Here it stays open until it
 * listens or its peer's address is known.
 */
static int bind_id(struct fl_cma_id *id, const struct sockaddr *addr, bool to_claim)
{
    struct in6_addr gid;
    uint16_t port = fl_cma_port_of(addr);
    struct fl_port_patience patience = {0};
    int r;
    if (!fl_cma_gid_of(addr, &gid))
        return -EAFNOSUPPORT;
    if (!fl_cma_is_any(addr)) {
        struct fl_device *device = device_with(&gid);
        r = device ? 0 : -EADDRNOTAVAIL;
        if (!r && (port || !fl_cma_is_loopback(addr)))
            r = fl_cma_attach(id, device);
        if (r)
            return r;
    }
    do
        r = bind_once(id, addr, to_claim);
    while (fl_cma_port_again(&r, &patience));
    return r;
}

int fl_cma_bind_addr(struct rdma_cm_id *cm_id, struct sockaddr *addr)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    if (!addr || fl_cma_state_of(id) != FL_CMA_IDLE) {
        errno = EINVAL;
        return -1;
    }
    int r = bind_id(id, addr, true);
    if (!r && id->device) { /* as the kernel tells it for a bound address */
        struct in6_addr gid;
        fl_cma_gid_of(addr, &gid);
        memcpy(&cm_id->route.addr.addr.ibaddr.sgid, &gid, sizeof(gid));
        cm_id->route.addr.addr.ibaddr.pkey = htobe16(FL_IB_PKEY_DEFAULT);
    }
    return fl_cma_result(r);
}

/* The address from which the host's routes reach dst, or src itself where it is given. 0 or negative errno */
static int find_source(const struct sockaddr *dst, struct sockaddr_storage *src)
{
    socklen_t len = sizeof(*src);
    struct sockaddr_storage to;
    int fd = socket(dst->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = 0;
    if (fd < 0)
        return -errno;
    memcpy(&to, dst, len_of(dst));
    set_port(&to, FL_ROCE_PORT);
    if (src->ss_family && !fl_cma_is_any((struct sockaddr *)src)) {
        set_port(src, 0);
        if (bind(fd, (struct sockaddr *)src, len_of(dst)))
            r = -errno;
    }
    /* A datagram socket sends nothing here; it only looks for the route. */
    if (!r &&
        (connect(fd, (struct sockaddr *)&to, len_of(dst)) || getsockname(fd, (struct sockaddr *)src, &len)))
        r = -errno;
    close(fd);
    return r;
}

/* Nobody's address is the host's own: the one that is bound to, else the loopback. */
static void replace_any(const struct fl_cma_id *id, struct sockaddr_storage *dst)
{
    const struct sockaddr *src = &id->id.route.addr.src_addr;
    uint16_t port = fl_cma_port_of((struct sockaddr *)dst);
    if (!fl_cma_is_any((struct sockaddr *)dst))
        return;
    if (!fl_cma_is_any(src) && src->sa_family == dst->ss_family)
        memcpy(dst, src, len_of(src));
    else if (dst->ss_family == AF_INET)
        ((struct sockaddr_in *)dst)->sin_addr.s_addr = htobe32(INADDR_LOOPBACK);
    else
        ((struct sockaddr_in6 *)dst)->sin6_addr = in6addr_loopback;
    set_port(dst, port);
}

/* 0 or negative errno, which the event will tell. */
static int resolve(struct fl_cma_id *id, struct sockaddr_storage *dst)
{
    struct rdma_addr *addr = &id->id.route.addr;
    uint16_t port = fl_cma_port_of(&addr->src_addr);
    struct sockaddr_storage src = addr->src_storage;
    struct fl_cm_route *route = &id->route;
    int r;
    replace_any(id, dst);
    r = find_source((struct sockaddr *)dst, &src);
    if (r)
        return r;
    fl_cma_gid_of((struct sockaddr *)&src, &route->local);
    fl_cma_gid_of((struct sockaddr *)dst, &route->remote);
    struct fl_device *device = device_with(&route->local);
    r = device ? fl_cma_attach(id, device) : -ENODEV;
    if (r)
        return r;
    set_port(&src, port);
    addr->src_storage = src;
    addr->dst_storage = *dst;
    if (IN6_IS_ADDR_LINKLOCAL(&route->remote))
        route->scope_id = device->ifindex;
    memcpy(&addr->addr.ibaddr.sgid, &route->local, sizeof(addr->addr.ibaddr.sgid));
    memcpy(&addr->addr.ibaddr.dgid, &route->remote, sizeof(addr->addr.ibaddr.dgid));
    addr->addr.ibaddr.pkey = htobe16(FL_IB_PKEY_DEFAULT);
    return 0;
}

/* The port that is bound to without being asked for: of an address of dst's family. */
static int bind_source(struct fl_cma_id *id, const struct sockaddr *src, const struct sockaddr *dst)
{
    struct sockaddr_storage any = {.ss_family = dst->sa_family};
    if (src && src->sa_family)
        return bind_id(id, src, fl_cma_port_of(src));
    return bind_id(id, (struct sockaddr *)&any, false);
}

int fl_cma_resolve_addr(struct rdma_cm_id *cm_id, struct sockaddr *src, struct sockaddr *dst, int timeout_ms)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    struct sockaddr_storage to = {0};
    struct in6_addr gid;
    enum fl_cma_state from = fl_cma_state_of(id);
    int r = !dst || (from != FL_CMA_IDLE && from != FL_CMA_BOUND) ? -EINVAL : 0;
    if (!r && !fl_cma_gid_of(dst, &gid))
        r = -EAFNOSUPPORT;
    if (!r && from == FL_CMA_IDLE)
        r = bind_source(id, src, dst);
    if (!r && cm_id->route.addr.src_addr.sa_family != dst->sa_family)
        r = -EINVAL;
    if (r)
        return fl_cma_result(r);
    memcpy(&to, dst, len_of(dst));
    int found = resolve(id, &to);
    r = fl_cma_lock(id->cma);
    if (r)
        return fl_cma_result(r);
    if (id->state == FL_CMA_REMOVED) { /* meanwhile, and it was told */
        r = -ENODEV;
    } else {
        if (!found)
            id->state = FL_CMA_ADDR_RESOLVED;
        fl_cma_tell(id, found ? RDMA_CM_EVENT_ADDR_ERROR : RDMA_CM_EVENT_ADDR_RESOLVED, found, NULL);
    }
    fl_cma_unlock(id->cma);
    return r ? fl_cma_result(r) : fl_cma_complete(id);
}

void fl_cma_fill_path(struct fl_cma_id *id)
{
    const struct fl_cm_route *route = &id->route;
    id->path = (struct ibv_sa_path_rec){
        .hop_limit = route->hop_limit,
        .traffic_class = route->traffic_class,
        .reversible = 1,
        .numb_path = 1,
        .pkey = htobe16(FL_IB_PKEY_DEFAULT),
        .mtu_selector = SELECTOR_EXACTLY,
        .mtu = route->mtu,
        .rate_selector = SELECTOR_EXACTLY,
        .rate = RATE_100G,
        .packet_life_time_selector = SELECTOR_EXACTLY,
        .packet_life_time = route->ack_timeout ? (uint8_t)(route->ack_timeout - 1) : 16,
    };
    memcpy(&id->path.sgid, &route->local, sizeof(id->path.sgid));
    memcpy(&id->path.dgid, &route->remote, sizeof(id->path.dgid));
    id->id.route.path_rec = &id->path;
    id->id.route.num_paths = 1;
}

int fl_cma_resolve_route(struct rdma_cm_id *cm_id, int timeout_ms)
{
    struct fl_cma_id *id = fl_cma_id_of(cm_id);
    int r = fl_cma_lock(id->cma);
    if (r)
        return fl_cma_result(r);
    if (id->state == FL_CMA_ADDR_RESOLVED) {
        id->route.mtu = (uint8_t)fl_device_mtu(id->device);
        id->route.traffic_class = id->tos;
        id->route.hop_limit = 64;
        id->route.ack_timeout = id->ack_timeout;
        fl_cma_fill_path(id);
        id->state = FL_CMA_ROUTE_RESOLVED;
        fl_cma_tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, NULL);
    } else {
        r = -EINVAL;
    }
    fl_cma_unlock(id->cma);
    return r ? fl_cma_result(r) : fl_cma_complete(id);
}

__be16 fl_cma_get_src_port(struct rdma_cm_id *id)
{
    return htobe16(fl_cma_port_of(&id->route.addr.src_addr));
}

__be16 fl_cma_get_dst_port(struct rdma_cm_id *id)
{
    return htobe16(fl_cma_port_of(&id->route.addr.dst_addr));
}
