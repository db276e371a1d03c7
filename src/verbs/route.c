/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/route.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/util.h"

#define ANSWER_LEN 8192

/* ---- the answer ---- */

static bool take_addr(uint8_t family, const void *data, size_t len, struct fl_addr *addr)
{
    struct sockaddr_in in4 = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (family == AF_INET && len == sizeof(in4.sin_addr)) {
        memcpy(&in4.sin_addr, data, len);
        return fl_addr_from(addr, (struct sockaddr *)&in4, sizeof(in4)) == 0;
    }
    if (family == AF_INET6 && len == sizeof(in6.sin6_addr)) {
        memcpy(&in6.sin6_addr, data, len);
        return fl_addr_from(addr, (struct sockaddr *)&in6, sizeof(in6)) == 0;
    }
    return false;
}

static int refused(int code, struct fl_error *err)
{
    return fl_error_set(err, code, "there is no route to it: %s", strerror(-code));
}

static int take_kind(uint8_t type, struct fl_route *route, struct fl_error *err)
{
    switch (type) {
    case RTN_UNICAST:
        route->kind = FL_ROUTE_DIRECT; /* unless a gateway is named */
        return 0;
    case RTN_LOCAL:
        route->kind = FL_ROUTE_LOCAL;
        return 0;
    case RTN_UNREACHABLE:
        return refused(-EHOSTUNREACH, err);
    case RTN_PROHIBIT:
        return refused(-EACCES, err);
    case RTN_BLACKHOLE:
        return refused(-ENETUNREACH, err);
    default:
        return fl_error_set(err, -EADDRNOTAVAIL, "it is no address of one machine");
    }
}

static int take_attributes(const struct rtmsg *rt, const struct rtattr *a, size_t left,
                           struct fl_route *route)
{
    for (; left >= sizeof(*a); left -= FL_MIN(left, RTA_ALIGN(a->rta_len)),
                               a = (const struct rtattr *)((const char *)a + RTA_ALIGN(a->rta_len))) {
        size_t len;

        if (a->rta_len < sizeof(*a) || a->rta_len > left)
            return -EPROTO;
        len = a->rta_len - RTA_LENGTH(0);
        if (a->rta_type == RTA_OIF && len == sizeof(route->ifindex)) {
            memcpy(&route->ifindex, RTA_DATA(a), len);
        } else if (a->rta_type == RTA_PREFSRC) {
            if (!take_addr(rt->rtm_family, RTA_DATA(a), len, &route->source))
                return -EPROTO;
        } else if (a->rta_type == RTA_GATEWAY) {
            if (!take_addr(rt->rtm_family, RTA_DATA(a), len, &route->gateway))
                return -EPROTO;
            if (route->kind == FL_ROUTE_DIRECT)
                route->kind = FL_ROUTE_GATEWAY;
        }
    }
    return 0;
}

static int take_route(const struct nlmsghdr *h, struct fl_route *route, struct fl_error *err)
{
    const struct rtmsg *rt = NLMSG_DATA(h);
    int r;

    if (h->nlmsg_len < NLMSG_LENGTH(sizeof(*rt)))
        return -EPROTO;
    r = take_kind(rt->rtm_type, route, err);
    return r < 0 ? r : take_attributes(rt, RTM_RTA(rt), RTM_PAYLOAD(h), route);
}

int fl_route_parse(const void *answer, size_t len, struct fl_route *route, struct fl_error *err)
{
    const struct nlmsghdr *h = answer;
    int r = -EPROTO;

    *route = (struct fl_route){0};
    while (len >= sizeof(*h) && h->nlmsg_len >= sizeof(*h) && h->nlmsg_len <= len) {
        size_t step = FL_MIN(len, (size_t)NLMSG_ALIGN(h->nlmsg_len));

        if (h->nlmsg_type == NLMSG_ERROR && h->nlmsg_len >= NLMSG_LENGTH(sizeof(struct nlmsgerr))) {
            r = ((const struct nlmsgerr *)NLMSG_DATA(h))->error;
            if (r < 0 && r > -4096)
                return refused(r, err);
            r = -EPROTO;
            break;
        }
        if (h->nlmsg_type == RTM_NEWROUTE) {
            r = take_route(h, route, err);
            break;
        }
        len -= step;
        h = (const struct nlmsghdr *)((const char *)h + step);
    }
    if (r == -EPROTO)
        fl_error_set(err, r, "the kernel's answer about the route makes no sense");
    return r;
}

/* ---- the question ---- */

struct question {
    struct nlmsghdr header;
    struct rtmsg rt;
    uint8_t attributes[128];
};

static void put(struct question *q, uint16_t type, const void *data, size_t len)
{
    struct rtattr *a = (struct rtattr *)((char *)q + NLMSG_ALIGN(q->header.nlmsg_len));

    a->rta_type = type;
    a->rta_len = (uint16_t)RTA_LENGTH(len);
    memcpy(RTA_DATA(a), data, len);
    q->header.nlmsg_len = (uint32_t)(NLMSG_ALIGN(q->header.nlmsg_len) + RTA_ALIGN(a->rta_len));
}

static void put_addr(struct question *q, uint16_t type, const struct fl_addr *addr, uint8_t *bits)
{
    if (addr->ss.ss_family == AF_INET) {
        put(q, type, &((const struct sockaddr_in *)&addr->ss)->sin_addr, 4);
        *bits = 32;
    } else {
        put(q, type, &((const struct sockaddr_in6 *)&addr->ss)->sin6_addr, 16);
        *bits = 128;
    }
}

static void build(struct question *q, const struct fl_addr *to, const struct fl_addr *from)
{
    uint32_t scope = to->ss.ss_family == AF_INET6 ? ((const struct sockaddr_in6 *)&to->ss)->sin6_scope_id : 0;

    *q = (struct question){.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(q->rt)),
                                      .nlmsg_type = RTM_GETROUTE,
                                      .nlmsg_flags = NLM_F_REQUEST},
                           .rt = {.rtm_family = (uint8_t)to->ss.ss_family}};
    put_addr(q, RTA_DST, to, &q->rt.rtm_dst_len);
    if (from && from->len)
        put_addr(q, RTA_SRC, from, &q->rt.rtm_src_len);
    if (scope)
        put(q, RTA_OIF, &scope, sizeof(scope));
}

/* Its length, or negative errno: the kernel does not take such questions. */
static ssize_t ask(const struct question *q, void *answer, size_t len)
{
    struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE);
    ssize_t n = -1;

    if (fd < 0)
        return -errno;
    if (sendto(fd, q, q->header.nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof(kernel)) >= 0) {
        do
            n = recv(fd, answer, len, 0);
        while (n < 0 && errno == EINTR);
    }
    if (n < 0)
        n = -errno;
    close(fd);
    return n;
}

/* Where routes cannot be asked for (a sandbox): what the choice of a datagram socket tells of them. */
static int connect_socket(const struct fl_addr *to, const struct fl_addr *from, struct fl_route *route,
                          struct fl_error *err)
{
    struct sockaddr_storage ss;
    struct fl_addr target = *to;
    socklen_t len = sizeof(ss);
    int fd = socket(to->ss.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = fd < 0 ? -errno : 0;

    if (!fl_addr_port(&target))
        fl_addr_set_port(&target, 9); /* nothing is sent to it */
    if (r == 0 && ((from && from->len && bind(fd, (const struct sockaddr *)&from->ss, from->len) < 0) ||
                   connect(fd, (struct sockaddr *)&target.ss, target.len) < 0 ||
                   getsockname(fd, (struct sockaddr *)&ss, &len) < 0))
        r = -errno;
    if (fd >= 0)
        close(fd);
    if (r < 0)
        return refused(r, err);
    fl_addr_from(&route->source, (struct sockaddr *)&ss, len);
    fl_addr_set_port(&route->source, 0);
    route->kind = fl_addr_same_ip(&route->source, to) || fl_addr_is_loopback(to) ? FL_ROUTE_LOCAL
                                                                                 : FL_ROUTE_DIRECT;
    return 0;
}

int fl_route_find(const struct fl_addr *to, const struct fl_addr *from, struct fl_route *route,
                  struct fl_error *err)
{
    char answer[ANSWER_LEN] __attribute__((aligned(NLMSG_ALIGNTO)));
    struct question q;
    ssize_t len;
    int r;

    *route = (struct fl_route){0};
    if (to->ss.ss_family != AF_INET && to->ss.ss_family != AF_INET6)
        return fl_error_set(err, -EAFNOSUPPORT, "it is no IP address");
    build(&q, to, from);
    len = ask(&q, answer, sizeof(answer));
    if (len < 0)
        return connect_socket(to, from, route, err);
    r = fl_route_parse(answer, (size_t)len, route, err);
    if (r < 0)
        return r;
    if (!route->source.len) {
        struct fl_route by_socket = {0};

        r = connect_socket(to, from, &by_socket, err);
        if (r < 0)
            return r;
        route->source = by_socket.source;
    }
    if (route->ifindex && !if_indextoname(route->ifindex, route->ifname))
        route->ifname[0] = '\0';
    if (route->source.ss.ss_family == AF_INET6) {
        struct sockaddr_in6 *in6 = (struct sockaddr_in6 *)&route->source.ss;

        if (IN6_IS_ADDR_LINKLOCAL(&in6->sin6_addr))
            in6->sin6_scope_id = route->ifindex;
    }
    return 0;
}
