/* SPDX-License-Identifier: Apache-2.0 */
#include "base/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "base/util.h"

static const struct sockaddr_in *v4(const struct fl_addr *addr)
{
    return (const struct sockaddr_in *)&addr->ss;
}

static const struct sockaddr_in6 *v6(const struct fl_addr *addr)
{
    return (const struct sockaddr_in6 *)&addr->ss;
}

static int parse_port(const char *text, int *port, struct fl_error *err)
{
    uint64_t v;
    int rc = fl_number_parse(text, 0, UINT16_MAX, "port", &v, err);

    if (!rc)
        *port = (int)v;
    return rc;
}

int fl_addr_split(const char *text, char *host, size_t len, int *port, struct fl_error *err)
{
    const char *from = text, *to, *colon;

    *port = -1;
    if (*text == '[') {
        from = text + 1;
        to = strchr(from, ']');
        if (!to)
            return fl_error_set(err, -EINVAL, "address \"%.80s\": the bracket is not closed", text);
        if (to[1] && to[1] != ':')
            return fl_error_set(err, -EINVAL, "address \"%.80s\": only :PORT may follow the bracket", text);
        colon = to[1] ? to + 1 : NULL;
    } else {
        /* More than one colon and no brackets: an IPv6 address, all of it. */
        colon = strchr(text, ':');
        if (colon && strchr(colon + 1, ':'))
            colon = NULL;
        to = colon ? colon : text + strlen(text);
    }
    if (to == from)
        return fl_error_set(err, -EINVAL, "address \"%.80s\": the host is missing", text);
    if ((size_t)(to - from) >= len)
        return fl_error_set(err, -ENAMETOOLONG, "address \"%.80s...\" is too long", text);
    if (colon) {
        int rc = parse_port(colon + 1, port, err);

        if (rc)
            return fl_error_wrap(err, rc, "address \"%.80s\"", text);
    }
    memcpy(host, from, (size_t)(to - from));
    host[to - from] = '\0';
    return 0;
}

/* The scope of a link-local address: an interface's name or number. */
static int parse_scope(const char *scope, uint32_t *id, struct fl_error *err)
{
    uint64_t v;

    *id = if_nametoindex(scope);
    if (*id)
        return 0;
    if (isdigit((unsigned char)*scope) && !fl_number_parse(scope, 1, UINT32_MAX, "scope", &v, NULL)) {
        *id = (uint32_t)v;
        return 0;
    }
    return fl_error_set(err, -ENODEV, "this machine has no network interface \"%.40s\"", scope);
}

int fl_addr_parse_ip(const char *ip, uint16_t port, struct fl_addr *addr, struct fl_error *err)
{
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    struct sockaddr_in in4 = {.sin_family = AF_INET, .sin_port = htons(port)};
    const char *percent = strchr(ip, '%');
    char plain[INET6_ADDRSTRLEN];
    size_t len = percent ? (size_t)(percent - ip) : strlen(ip);

    if (len >= sizeof(plain))
        goto malformed;
    memcpy(plain, ip, len);
    plain[len] = '\0';

    memset(addr, 0, sizeof(*addr));
    if (!percent && inet_pton(AF_INET, plain, &in4.sin_addr) == 1) {
        memcpy(&addr->ss, &in4, sizeof(in4));
        addr->len = sizeof(in4);
        return 0;
    }
    if (inet_pton(AF_INET6, plain, &in6.sin6_addr) != 1)
        goto malformed;
    if (percent) {
        int rc = parse_scope(percent + 1, &in6.sin6_scope_id, err);

        if (rc)
            return fl_error_wrap(err, rc, "address \"%.80s\"", ip);
    }
    memcpy(&addr->ss, &in6, sizeof(in6));
    addr->len = sizeof(in6);
    return 0;
malformed:
    return fl_error_set(err, -EINVAL, "\"%.80s\" is not an IPv4 or IPv6 address", ip);
}

int fl_addr_parse(const char *text, uint16_t default_port, struct fl_addr *addr, struct fl_error *err)
{
    char host[FL_HOST_LEN];
    int port, rc = fl_addr_split(text, host, sizeof(host), &port, err);

    return rc ? rc : fl_addr_parse_ip(host, port < 0 ? default_port : (uint16_t)port, addr, err);
}

static int resolver_errno(int rc)
{
    switch (rc) {
    case EAI_MEMORY:
        return -ENOMEM;
    case EAI_SYSTEM:
        return errno ? -errno : -EIO;
    default:
        return -EADDRNOTAVAIL;
    }
}

int fl_addr_resolve(const char *text, uint16_t default_port, struct fl_addr *addrs, size_t max,
                    struct fl_error *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *list;
    char host[FL_HOST_LEN];
    uint16_t port;
    int given, rc, n = 0;

    assert(max > 0);
    rc = fl_addr_split(text, host, sizeof(host), &given, err);
    if (rc)
        return rc;
    port = given < 0 ? default_port : (uint16_t)given;
    if (strchr(host, ':') || strchr(host, '%')) /* in no name: an address, or nothing */
        return (rc = fl_addr_parse_ip(host, port, addrs, err)) ? rc : 1;
    if (!fl_addr_parse_ip(host, port, addrs, NULL))
        return 1;

    errno = 0;
    rc = getaddrinfo(host, NULL, &hints, &list);
    if (rc)
        return fl_error_set(err, resolver_errno(rc), "host \"%.200s\" cannot be found: %s", host,
                            gai_strerror(rc));
    for (const struct addrinfo *ai = list; ai && (size_t)n < max; ai = ai->ai_next) {
        if (fl_addr_from(&addrs[n], ai->ai_addr, ai->ai_addrlen))
            continue;
        fl_addr_set_port(&addrs[n++], port);
    }
    freeaddrinfo(list);
    return n ? n : fl_error_set(err, -EADDRNOTAVAIL, "host \"%.200s\" has no IP address", host);
}

int fl_addr_from(struct fl_addr *addr, const struct sockaddr *sa, socklen_t len)
{
    socklen_t want;

    if (len < sizeof(sa->sa_family))
        return -EAFNOSUPPORT;
    want = sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
    if ((sa->sa_family != AF_INET && sa->sa_family != AF_INET6) || len < want)
        return -EAFNOSUPPORT;
    memset(addr, 0, sizeof(*addr));
    memcpy(&addr->ss, sa, want);
    addr->len = want;
    return 0;
}

char *fl_addr_format_ip(const struct fl_addr *addr, char buf[FL_ADDR_IP_LEN])
{
    char name[IF_NAMESIZE];
    uint32_t scope;
    size_t n;

    if (addr->ss.ss_family == AF_INET) {
        inet_ntop(AF_INET, &v4(addr)->sin_addr, buf, FL_ADDR_IP_LEN);
        return buf;
    }
    if (addr->ss.ss_family != AF_INET6) {
        snprintf(buf, FL_ADDR_IP_LEN, "?");
        return buf;
    }
    inet_ntop(AF_INET6, &v6(addr)->sin6_addr, buf, FL_ADDR_IP_LEN);
    scope = v6(addr)->sin6_scope_id;
    if (!scope)
        return buf;
    n = strlen(buf);
    if (if_indextoname(scope, name))
        snprintf(buf + n, FL_ADDR_IP_LEN - n, "%%%s", name);
    else
        snprintf(buf + n, FL_ADDR_IP_LEN - n, "%%%u", scope);
    return buf;
}

char *fl_addr_format(const struct fl_addr *addr, char buf[FL_ADDR_TEXT_LEN])
{
    char ip[FL_ADDR_IP_LEN];

    snprintf(buf, FL_ADDR_TEXT_LEN, addr->ss.ss_family == AF_INET6 ? "[%s]:%u" : "%s:%u",
             fl_addr_format_ip(addr, ip), fl_addr_port(addr));
    return buf;
}

uint16_t fl_addr_port(const struct fl_addr *addr)
{
    switch (addr->ss.ss_family) {
    case AF_INET:
        return ntohs(v4(addr)->sin_port);
    case AF_INET6:
        return ntohs(v6(addr)->sin6_port);
    default:
        return 0;
    }
}

void fl_addr_set_port(struct fl_addr *addr, uint16_t port)
{
    if (addr->ss.ss_family == AF_INET)
        ((struct sockaddr_in *)&addr->ss)->sin_port = htons(port);
    else if (addr->ss.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&addr->ss)->sin6_port = htons(port);
}

bool fl_addr_is_any(const struct fl_addr *addr)
{
    if (addr->ss.ss_family == AF_INET)
        return v4(addr)->sin_addr.s_addr == htonl(INADDR_ANY);
    return addr->ss.ss_family == AF_INET6 && IN6_IS_ADDR_UNSPECIFIED(&v6(addr)->sin6_addr);
}

bool fl_addr_is_loopback(const struct fl_addr *addr)
{
    if (addr->ss.ss_family == AF_INET)
        return ntohl(v4(addr)->sin_addr.s_addr) >> 24 == 127;
    if (addr->ss.ss_family != AF_INET6)
        return false;
    if (IN6_IS_ADDR_V4MAPPED(&v6(addr)->sin6_addr))
        return v6(addr)->sin6_addr.s6_addr[12] == 127;
    return IN6_IS_ADDR_LOOPBACK(&v6(addr)->sin6_addr);
}

bool fl_addr_same_ip(const struct fl_addr *a, const struct fl_addr *b)
{
    if (a->ss.ss_family != b->ss.ss_family)
        return false;
    if (a->ss.ss_family == AF_INET)
        return v4(a)->sin_addr.s_addr == v4(b)->sin_addr.s_addr;
    return IN6_ARE_ADDR_EQUAL(&v6(a)->sin6_addr, &v6(b)->sin6_addr) &&
           v6(a)->sin6_scope_id == v6(b)->sin6_scope_id;
}

bool fl_addr_equal(const struct fl_addr *a, const struct fl_addr *b)
{
    return fl_addr_same_ip(a, b) && fl_addr_port(a) == fl_addr_port(b);
}
