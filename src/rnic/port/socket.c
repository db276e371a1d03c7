/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <linux/filter.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rnic/port/udp.h"

#define BUFFER_LEN (8 << 20)

static void set(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof(value)); /* what an older kernel lacks is told by what comes */
}

/* More than net.core.[rw]mem_max takes CAP_NET_ADMIN; without it we get what we may have. */
static void set_buffer(int fd, int name, int force)
{
    const int len = BUFFER_LEN;
    if (setsockopt(fd, SOL_SOCKET, force, &len, sizeof(len)) < 0)
        set(fd, SOL_SOCKET, name, len);
}

static int open_any(int *family)
{
    int fd = socket(AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    *family = AF_INET6;
    if (fd < 0 && errno == EAFNOSUPPORT) { /* a kernel without IPv6 */
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        *family = AF_INET;
    }
    return fd < 0 ? -errno : fd;
}

static int bind_any(int fd, int family, uint16_t port)
{
    const struct sockaddr_in ip4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    const struct sockaddr_in6 ip6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    int rc = family == AF_INET ? bind(fd, (const struct sockaddr *)&ip4, sizeof(ip4))
                               : bind(fd, (const struct sockaddr *)&ip6, sizeof(ip6));
    return rc < 0 ? -errno : 0;
}

/* Not bound yet */
static int open_listener(int *of_family)
{
    int family, fd = open_any(&family);
    if (fd < 0)
        return fd;
    *of_family = family;
    if (family == AF_INET) /* a socket of both families tells the address of either in the one for IPv6 */
        set(fd, IPPROTO_IP, IP_PKTINFO, 1);
    set(fd, IPPROTO_IP, IP_RECVTOS, 1);
    set(fd, IPPROTO_IP, IP_RECVTTL, 1);
    if (family == AF_INET6) {
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, 1);
        set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
        set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, 1);
        set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1); /* RoCE sends checksum 0 over IPv6 too */
    }
    set(fd, IPPROTO_UDP, UDP_GRO, 1);
    set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE);
    return fd;
}

int fl_udp_listen(uint16_t port)
{
    int family, fd = open_listener(&family), rc;
    if (fd < 0)
        return fd;
    rc = bind_any(fd, family, port); /* alone: whoever gets it is the hub */
    if (rc < 0) {
        close(fd);
        return rc;
    }
    set(fd, SOL_SOCKET, SO_REUSEPORT, 1); /* from now on this user may bind another one beside it */
    return fd;
}

int fl_udp_listen_beside(uint16_t port, int nr)
{
    /* The sockets of one port are numbered in the order in which they were bound. */
    struct sock_filter take_this[] = {{.code = BPF_RET | BPF_K, .k = (uint32_t)nr}};
    const struct sock_fprog program = {.len = 1, .filter = take_this};
    const int one = 1;
    int family, fd = open_listener(&family), rc;
    if (fd < 0)
        return fd;
    rc = setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof(one)) < 0 ? -errno
                                                                         : bind_any(fd, family, port);
    if (rc == 0 && setsockopt(fd, SOL_SOCKET, SO_ATTACH_REUSEPORT_CBPF, &program, sizeof(program)) < 0)
        rc = -errno;
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

int fl_udp_listen_own(uint16_t *port)
{
    struct sockaddr_in6 name;
    socklen_t len = sizeof(name);
    int family, fd = open_listener(&family), rc;
    if (fd < 0)
        return fd;
    rc = bind_any(fd, family, 0);
    if (rc == 0 && getsockname(fd, (struct sockaddr *)&name, &len) < 0)
        rc = -errno;
    if (rc < 0) {
        close(fd);
        return rc;
    }
    *port = ntohs(name.sin6_port); /* at the same place in both families */
    return fd;
}

const struct in6_addr fl_udp_any_ip4 = {.s6_addr = {[10] = 0xff, [11] = 0xff}};

socklen_t fl_udp_name(struct sockaddr_in6 *name, const struct in6_addr *gid, uint32_t scope_id, uint16_t port)
{
    if (fl_udp_is_ip4(gid)) {
        struct sockaddr_in *ip4 = (struct sockaddr_in *)name;
        *ip4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(port)};
        memcpy(&ip4->sin_addr, &gid->s6_addr[12], sizeof(ip4->sin_addr));
        return sizeof(*ip4);
    }
    *name = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_port = htons(port), .sin6_addr = *gid};
    if (IN6_IS_ADDR_LINKLOCAL(gid))
        name->sin6_scope_id = scope_id;
    return sizeof(*name);
}

static int bind_to(int fd, const struct in6_addr *gid, uint32_t scope_id, uint16_t port)
{
    struct sockaddr_in6 name;
    socklen_t len = fl_udp_name(&name, gid, scope_id, port);
    return bind(fd, (const struct sockaddr *)&name, len) < 0 ? -errno : 0;
}

int fl_udp_connect(int fd, const struct in6_addr *gid, uint32_t scope_id, uint16_t port)
{
    struct sockaddr_in6 name;
    socklen_t len = fl_udp_name(&name, gid, scope_id, port);
    return connect(fd, (const struct sockaddr *)&name, len) < 0 ? -errno : 0;
}

static void tell_addresses(int fd, bool ip4, int on)
{
    if (ip4) {
        set(fd, IPPROTO_IP, IP_PKTINFO, on);
        set(fd, IPPROTO_IP, IP_RECVTTL, on);
    } else {
        set(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, on);
        set(fd, IPPROTO_IPV6, IPV6_RECVHOPLIMIT, on);
    }
}

int fl_udp_listen_to(const struct fl_udp_datagram *flow, uint16_t port)
{
    bool ip4 = fl_udp_is_ip4(&flow->dst);
    int fd = socket(ip4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), rc;
    if (fd < 0)
        return -errno;
    set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    tell_addresses(fd, ip4, 1);
    if (ip4) {
        set(fd, IPPROTO_IP, IP_RECVTOS, 1);
    } else {
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        set(fd, IPPROTO_IPV6, IPV6_RECVTCLASS, 1);
        set(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, 1);
    }
    set(fd, IPPROTO_UDP, UDP_GRO, 1);
    set_buffer(fd, SO_RCVBUF, SO_RCVBUFFORCE);
    rc = bind_to(fd, &flow->dst, 0, port);
    if (rc == 0)
        rc = fl_udp_connect(fd, &flow->src, 0, flow->sport);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}

void fl_udp_listens_to(int fd, const struct fl_udp_datagram *flow)
{
    tell_addresses(fd, fl_udp_is_ip4(&flow->dst), 0);
}

/* Annex A17: source ports of 0xc000 and above. Those are not reserved for us, so a few tries, and then any.
 */
static int bind_source(int fd, const struct in6_addr *gid, uint32_t scope_id)
{
    uint16_t at[8];
    if (getrandom(at, sizeof(at), 0) == sizeof(at)) {
        for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++) {
            if (bind_to(fd, gid, scope_id, at[i] | 0xc000) == 0)
                return 0;
        }
    }
    return bind_to(fd, gid, scope_id, 0);
}

static int open_source(const struct in6_addr *gid, uint8_t tos)
{
    int family = fl_udp_is_ip4(gid) ? AF_INET : AF_INET6;
    int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -errno;
    /* DF, and no path MTU that a forged ICMP message could lower: the queue pair's MTU is what was agreed.
     * With DF an unconnected IPv4 socket sends identification 0, which the ICRC covers. */
    if (family == AF_INET) {
        set(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE);
        set(fd, IPPROTO_IP, IP_TTL, FL_UDP_TTL);
        set(fd, IPPROTO_IP, IP_TOS, tos);
    } else {
        set(fd, IPPROTO_IPV6, IPV6_V6ONLY, 1);
        set(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
        set(fd, IPPROTO_IPV6, IPV6_UNICAST_HOPS, FL_UDP_TTL);
        set(fd, IPPROTO_IPV6, IPV6_TCLASS, tos);
    }
    set_buffer(fd, SO_SNDBUF, SO_SNDBUFFORCE);
    return fd;
}

int fl_udp_source(const struct in6_addr *gid, uint32_t scope_id, uint8_t tos, uint16_t *port)
{
    struct sockaddr_in6 addr;
    socklen_t len = sizeof(addr);
    int fd = open_source(gid, tos), rc;
    if (fd < 0)
        return fd;
    set(fd, SOL_SOCKET, SO_RCVBUF, 1); /* nobody should send here, and nobody reads */
    rc = bind_source(fd, gid, scope_id);
    if (rc == 0 && getsockname(fd, (struct sockaddr *)&addr, &len) < 0)
        rc = -errno;
    if (rc < 0) {
        close(fd);
        return rc;
    }
    set(fd, SOL_SOCKET, SO_REUSEPORT, 1); /* it was bound alone; from now on, twins beside it */
    *port = ntohs(addr.sin6_port);        /* at the same place in both families */
    return fd;
}

int fl_udp_source_beside(const struct in6_addr *gid, uint32_t scope_id, uint8_t tos, uint16_t port)
{
    int fd = open_source(gid, tos), rc;
    if (fd < 0)
        return fd;
    set(fd, SOL_SOCKET, SO_REUSEPORT, 1);
    rc = bind_to(fd, gid, scope_id, port);
    if (rc < 0) {
        close(fd);
        return rc;
    }
    return fd;
}
