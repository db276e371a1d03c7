/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packets by which a process learns whether anybody is left at a peer's address: where nobody has the UDP
 * port, that host's kernel says so (ICMP, port unreachable). They leave by sockets of their own, one for each
 * family: with IP_RECVERR what ICMP says about one destination is an error of the next send to any other,
 * which no packet of a connection should meet. It is not needed for the answers, which come to the port as
 * all do.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <linux/errqueue.h> /* needs struct timespec */

#include "rnic/port/impl.h"

#define QUEUE_LEN (64 << 10) /* of errors that wait; fl_udp_source() leaves next to nothing */
#define BURST     16

static int open_knocker(struct fl_port *port, bool ip4)
{
    struct epoll_event event = {.data.u64 = (uint64_t)FL_PORT_KNOCK << 32}; /* errors are always told */
    const int on = 1, len = QUEUE_LEN;
    int fd = fl_udp_source(ip4 ? &fl_udp_any_ip4 : &in6addr_any, 0, 0, &port->knock[ip4].sport), rc = 0;
    if (fd < 0)
        return fd;
    if (setsockopt(fd, ip4 ? IPPROTO_IP : IPPROTO_IPV6, ip4 ? IP_RECVERR : IPV6_RECVERR, &on, sizeof(on)) <
            0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &len, sizeof(len)) < 0 ||
        epoll_ctl(port->epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)
        rc = -errno;
    if (rc < 0) {
        close(fd);
        return rc;
    }
    port->knock[ip4].fd = fd;
    return 0;
}

struct outgoing {
    struct sockaddr_in6 name;
    struct iovec iov;
    struct msghdr m;
    union {
        struct cmsghdr hdr;
        char bytes[CMSG_SPACE(sizeof(struct in6_pktinfo))];
    } control;
};

static void address(struct outgoing *out, const struct fl_port_flow *flow, uint16_t dport)
{
    struct cmsghdr *c = &out->control.hdr;
    out->m = (struct msghdr){
        .msg_name = &out->name, .msg_iov = &out->iov, .msg_iovlen = 1, .msg_control = &out->control};
    out->m.msg_namelen = fl_udp_name(&out->name, &flow->dgid, flow->scope_id, dport);
    if (fl_udp_is_ip4(&flow->dgid)) {
        struct in_pktinfo from = {0};
        memcpy(&from.ipi_spec_dst, &flow->sgid.s6_addr[12], sizeof(from.ipi_spec_dst));
        *c = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(from)), .cmsg_level = IPPROTO_IP, .cmsg_type = IP_PKTINFO};
        memcpy(CMSG_DATA(c), &from, sizeof(from));
        out->m.msg_controllen = CMSG_SPACE(sizeof(from));
    } else {
        const uint32_t scope_id = IN6_IS_ADDR_LINKLOCAL(&flow->dgid) ? flow->scope_id : 0;
        const struct in6_pktinfo from = {.ipi6_addr = flow->sgid, .ipi6_ifindex = scope_id};
        *c = (struct cmsghdr){
            .cmsg_len = CMSG_LEN(sizeof(from)), .cmsg_level = IPPROTO_IPV6, .cmsg_type = IPV6_PKTINFO};
        memcpy(CMSG_DATA(c), &from, sizeof(from));
        out->m.msg_controllen = CMSG_SPACE(sizeof(from));
    }
}

void fl_port_knock(struct fl_port *port, const struct fl_port_flow *flow, const struct fl_roce_tx *tx)
{
    uint8_t bytes[FL_IB_HDRS_MAX + FL_IB_ICRC_LEN];
    const uint32_t len = tx->len + FL_IB_ICRC_LEN;
    const bool ip4 = fl_udp_is_ip4(&flow->dgid);
    struct outgoing out;
    le32 icrc;
    if (tx->nr_iov != 1 || len > sizeof(bytes) || ip4 != fl_udp_is_ip4(&flow->sgid) ||
        (port->knock[ip4].fd < 0 && open_knocker(port, ip4) < 0))
        return;
    memcpy(bytes, tx->iov[0].iov_base, tx->len);
    icrc = le32_of(
        fl_udp_icrc(&flow->sgid, &flow->dgid, port->knock[ip4].sport, port->udp_port, 0, bytes, len));
    memcpy(bytes + tx->len, &icrc, sizeof(icrc));
    address(&out, flow, port->udp_port);
    out.iov = (struct iovec){bytes, len};
    for (int i = 0; i < 2; i++) { /* the first time it may say only what ICMP did */
        if (sendmsg(port->knock[ip4].fd, &out.m, MSG_DONTWAIT) >= 0) {
            port->stats.nr_tx++;
            port->stats.nr_tx_calls++;
            port->stats.tx_len += len;
            return;
        }
    }
    port->stats.nr_tx_dropped++;
}

static void note(struct fl_port *port, const struct sockaddr_in6 *name)
{
    struct in6_addr gid = name->sin6_addr;
    if (name->sin6_family == AF_INET) {
        gid = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
        memcpy(&gid.s6_addr[12], &((const struct sockaddr_in *)name)->sin_addr, 4);
    }
    if (name->sin6_port == htons(port->udp_port) &&
        port->nr_refused < FL_PORT_REFUSED_MAX) /* others are told again */
        port->refused[port->nr_refused++] = gid;
}

static void read_errors(struct fl_port *port, int fd)
{
    union {
        struct cmsghdr hdr;
        char bytes[256];
    } control;
    for (int i = 0; i < BURST; i++) {
        struct sockaddr_in6 name = {0};
        struct msghdr m = {.msg_name = &name,
                           .msg_namelen = sizeof(name),
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};
        if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
            break;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
            struct sock_extended_err e;
            if ((c->cmsg_level != IPPROTO_IP || c->cmsg_type != IP_RECVERR) &&
                (c->cmsg_level != IPPROTO_IPV6 || c->cmsg_type != IPV6_RECVERR))
                continue;
            memcpy(&e, CMSG_DATA(c), sizeof(e));
            /* Port unreachable, and nothing else: a route may come back. */
            if (e.ee_errno == ECONNREFUSED &&
                (e.ee_origin == SO_EE_ORIGIN_ICMP || e.ee_origin == SO_EE_ORIGIN_ICMP6))
                note(port, &name);
        }
    }
    int error;
    socklen_t len = sizeof(error);
    (void)getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len); /* which else keeps the descriptor ready */
}

void fl_port_hear_refusals(struct fl_port *port)
{
    for (int family = 0; family < 2; family++) {
        if (port->knock[family].fd >= 0)
            read_errors(port, port->knock[family].fd);
    }
}

bool fl_port_refused(struct fl_port *port, struct in6_addr *gid)
{
    if (!port->nr_refused)
        return false;
    *gid = port->refused[--port->nr_refused];
    return true;
}

void fl_port_close_knockers(struct fl_port *port)
{
    for (int family = 0; family < 2; family++) {
        if (port->knock[family].fd >= 0)
            close(port->knock[family].fd);
        port->knock[family].fd = -1;
    }
}
