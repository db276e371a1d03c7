/* SPDX-License-Identifier: Apache-2.0 */
/* Names to addresses, by the C library's resolver. */
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "rnic/cma/parts.h"

static int family_of(const struct rdma_addrinfo *hints)
{
    return hints->ai_flags & RAI_FAMILY ? hints->ai_family : AF_UNSPEC;
}

static struct sockaddr *copy(const void *addr, size_t len)
{
    struct sockaddr *to = malloc(len);
    if (to)
        memcpy(to, addr, len);
    return to;
}

/* 0 or EAI_MEMORY */
static int put(const struct addrinfo *from, struct sockaddr **addr, socklen_t *len, char **name)
{
    *addr = copy(from->ai_addr, from->ai_addrlen);
    *len = from->ai_addrlen;
    if (!*addr)
        return EAI_MEMORY;
    if (from->ai_canonname) {
        *name = strdup(from->ai_canonname);
        if (!*name)
            return EAI_MEMORY;
    }
    return 0;
}

static void set_kind(struct rdma_addrinfo *rai, const struct rdma_addrinfo *hints)
{
    rai->ai_flags = hints->ai_flags;
    rai->ai_port_space = hints->ai_port_space;
    rai->ai_qp_type = hints->ai_qp_type;
    if (!rai->ai_port_space)
        rai->ai_port_space = rai->ai_qp_type == IBV_QPT_UD ? RDMA_PS_UDP : RDMA_PS_TCP;
    if (!rai->ai_qp_type)
        rai->ai_qp_type = rai->ai_port_space == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
}

static int make(const struct addrinfo *ai, const struct rdma_addrinfo *hints, struct rdma_addrinfo **out)
{
    struct rdma_addrinfo *rai = calloc(1, sizeof(*rai));
    if (!rai)
        return EAI_MEMORY;
    *out = rai;
    set_kind(rai, hints);
    rai->ai_family = ai->ai_family;
    if (hints->ai_flags & RAI_PASSIVE)
        return put(ai, &rai->ai_src_addr, &rai->ai_src_len, &rai->ai_src_canonname);
    int r = put(ai, &rai->ai_dst_addr, &rai->ai_dst_len, &rai->ai_dst_canonname);
    if (r || !hints->ai_src_addr || !hints->ai_src_len)
        return r;
    rai->ai_src_addr = copy(hints->ai_src_addr, hints->ai_src_len);
    rai->ai_src_len = hints->ai_src_len;
    return rai->ai_src_addr ? 0 : EAI_MEMORY;
}

/* No names: the addresses that the hints hold */
static int make_of_hints(const struct rdma_addrinfo *hints, struct rdma_addrinfo **out)
{
    struct rdma_addrinfo *rai = calloc(1, sizeof(*rai));
    if (!rai)
        return EAI_MEMORY;
    set_kind(rai, hints);
    rai->ai_family = hints->ai_family;
    rai->ai_src_len = hints->ai_src_addr ? hints->ai_src_len : 0;
    rai->ai_dst_len = hints->ai_dst_addr ? hints->ai_dst_len : 0;
    rai->ai_src_addr = rai->ai_src_len ? copy(hints->ai_src_addr, rai->ai_src_len) : NULL;
    rai->ai_dst_addr = rai->ai_dst_len ? copy(hints->ai_dst_addr, rai->ai_dst_len) : NULL;
    if ((rai->ai_src_len && !rai->ai_src_addr) || (rai->ai_dst_len && !rai->ai_dst_addr)) {
        fl_cma_freeaddrinfo(rai);
        return EAI_MEMORY;
    }
    *out = rai;
    return 0;
}

int fl_cma_getaddrinfo(const char *node, const char *service, const struct rdma_addrinfo *hints,
                       struct rdma_addrinfo **res)
{
    static const struct rdma_addrinfo no_hints;
    struct addrinfo *list = NULL, ai_hints = {.ai_socktype = SOCK_STREAM};
    struct rdma_addrinfo **end = res;
    if (!node && !service && !hints) {
        errno = EINVAL;
        return -1;
    }
    if (!hints)
        hints = &no_hints;
    *res = NULL;
    if (!node && !service)
        return make_of_hints(hints, res);
    ai_hints.ai_family = family_of(hints);
    ai_hints.ai_flags = (hints->ai_flags & RAI_PASSIVE ? AI_PASSIVE : 0) |
                        (hints->ai_flags & RAI_NUMERICHOST ? AI_NUMERICHOST : 0);
    int r = getaddrinfo(node, service, &ai_hints, &list);
    if (r)
        return r;
    for (const struct addrinfo *ai = list; ai && !r; ai = ai->ai_next) {
        r = make(ai, hints, end);
        if (*end)
            end = &(*end)->ai_next;
    }
    freeaddrinfo(list);
    if (r) {
        fl_cma_freeaddrinfo(*res);
        *res = NULL;
    }
    return r;
}

void fl_cma_freeaddrinfo(struct rdma_addrinfo *res)
{
    while (res) {
        struct rdma_addrinfo *next = res->ai_next;
        free(res->ai_src_addr);
        free(res->ai_dst_addr);
        free(res->ai_src_canonname);
        free(res->ai_dst_canonname);
        free(res);
        res = next;
    }
}
