/* SPDX-License-Identifier: Apache-2.0 */
/* Address vectors: from the verbs' attributes to flows of the port, for queue pairs and address handles. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "rnic/objects.h"
#include "rnic/retired.h"
#include "rnic/verbs.h"

/* Most programs go by LIDs until they are told a GID; which, the user has to know: an IPv4 address where
 * there is one. */
static void suggest_gid(struct fl_context *context, const char *what)
{
    const char *name = context->verbs.context.device->name;
    char text[INET6_ADDRSTRLEN];
    struct fl_gid gid = {0}, at;
    int index = -1;
    for (int i = 0; i < FL_GID_MAX; i++) {
        if (fl_device_gid(context->device, i, &at) || !at.assigned)
            continue;
        if (index >= 0 && !IN6_IS_ADDR_V4MAPPED(&at.addr))
            continue;
        index = i;
        gid = at;
        if (IN6_IS_ADDR_V4MAPPED(&at.addr))
            break;
    }
    if (index < 0) {
        FL_WARN("%s: address vector: %s", name, what);
        return;
    }
    inet_ntop(AF_INET6, &gid.addr, text, sizeof(text));
    FL_WARN("%s: address vector: %s. Give the programs at both ends the index of one: %d is %s here "
            "(ibv_rc_pingpong -g %d, ib_write_bw -x %d; farlane rnic devices lists all)",
            name, what, index, text, index, index);
}

int fl_flow_from_attr(struct fl_context *context, const struct ibv_ah_attr *attr, uint32_t entropy,
                      struct fl_port_flow *flow)
{
    const char *name = context->verbs.context.device->name;
    struct fl_gid gid;
    struct in6_addr dgid;
    char what[64];
    if (!attr->is_global) {
        suggest_gid(context, "is_global is 0, but RoCE needs a GID");
        return EINVAL;
    }
    if (attr->port_num != 1) {
        FL_WARN("%s: address vector: port_num is %u, there is port 1", name, attr->port_num);
        return EINVAL;
    }
    if (fl_device_gid(context->device, attr->grh.sgid_index, &gid)) {
        snprintf(what, sizeof(what), "sgid_index %u: no GID there", attr->grh.sgid_index);
        suggest_gid(context, what);
        return EINVAL;
    }
    if (!gid.assigned) {
        FL_WARN("%s: address vector: sgid_index %u: interface %s does not have that address", name,
                attr->grh.sgid_index, context->device->ifname);
        return EINVAL;
    }
    memcpy(&dgid, &attr->grh.dgid, sizeof(dgid));
    if (IN6_IS_ADDR_UNSPECIFIED(&dgid) || IN6_IS_ADDR_MULTICAST(&dgid)) {
        FL_WARN("%s: address vector: dgid is no address of one host", name);
        return EINVAL;
    }
    if (IN6_IS_ADDR_V4MAPPED(&dgid) != IN6_IS_ADDR_V4MAPPED(&gid.addr)) {
        FL_WARN("%s: address vector: dgid and the GID at sgid_index %u are not both IPv4 or both IPv6", name,
                attr->grh.sgid_index);
        return EINVAL;
    }
    *flow = (struct fl_port_flow){
        .sgid = gid.addr,
        .dgid = dgid,
        .scope_id = IN6_IS_ADDR_LINKLOCAL(&dgid) ? context->device->ifindex : 0,
        .entropy = attr->grh.flow_label ? ibv_flow_label_to_udp_sport(attr->grh.flow_label)
                                        : (uint16_t)entropy,
        .tos = attr->grh.traffic_class,
        .hop_limit = attr->grh.hop_limit,
    };
    return 0;
}

static struct ibv_ah *make_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    struct fl_ah *ah = NULL;
    struct fl_port_flow flow;
    uint32_t entropy;
    memcpy(&entropy, attr->grh.dgid.raw + 12, sizeof(entropy));
    int r = fl_gone(pd->context) ? ENODEV
                                 : fl_flow_from_attr(fl_context_of(pd->context), attr, entropy >> 16, &flow);
    if (!r) {
        ah = calloc(1, sizeof(*ah));
        r = ah ? 0 : ENOMEM;
    }
    if (r) {
        errno = r;
        return NULL;
    }
    ah->ah = (struct ibv_ah){.context = pd->context, .pd = pd};
    ah->flow = flow;
    fl_count(&fl_pd_of(pd)->nr_objects, 1);
    return &ah->ah;
}

struct ibv_ah *fl_ah_create(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
    if (!fl_limit_take(pd->context, FL_LIMITED_AH))
        return NULL;
    return fl_limit_used(pd->context, FL_LIMITED_AH, make_ah(pd, attr));
}

/* The last 20 of the 40 bytes are an IPv4 header (annex A17.4.5.2), or all of them an IPv6 one. */
static int gids_of_grh(const struct ibv_grh *grh, struct in6_addr *src, struct in6_addr *dst, uint8_t *tos)
{
    const uint8_t *bytes = (const uint8_t *)grh, *ip4 = bytes + 20;
    if (bytes[0] >> 4 == 6) {
        memcpy(src, bytes + 8, 16);
        memcpy(dst, bytes + 24, 16);
        *tos = (uint8_t)(bytes[0] << 4 | bytes[1] >> 4);
        return 0;
    }
    if (ip4[0] >> 4 != 4)
        return EINVAL;
    *src = *dst = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    memcpy(src->s6_addr + 12, ip4 + 12, 4);
    memcpy(dst->s6_addr + 12, ip4 + 16, 4);
    *tos = ip4[1];
    return 0;
}

int fl_ah_init_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
                       struct ibv_ah_attr *attr)
{
    struct in6_addr src, dst;
    uint8_t tos;
    memset(attr, 0, sizeof(*attr));
    if (!(wc->wc_flags & IBV_WC_GRH) || port != 1 || gids_of_grh(grh, &src, &dst, &tos)) {
        errno = EINVAL;
        return -1;
    }
    int index = fl_device_find_gid(fl_context_of(context)->device, &dst);
    if (index < 0) {
        errno = EINVAL;
        return -1;
    }
    attr->is_global = 1;
    attr->port_num = port;
    attr->dlid = wc->slid;
    memcpy(&attr->grh.dgid, &src, sizeof(src));
    attr->grh.sgid_index = (uint8_t)index;
    attr->grh.traffic_class = tos;
    attr->grh.hop_limit = 0xff;
    return 0;
}

struct ibv_ah *fl_ah_create_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh, uint8_t port)
{
    struct ibv_ah_attr attr;
    if (fl_ah_init_from_wc(pd->context, port, wc, grh, &attr))
        return NULL;
    return fl_ah_create(pd, &attr);
}

int fl_ah_destroy(struct ibv_ah *ah)
{
    struct ibv_context *context = ah->context;
    struct fl_rnic *rnic = fl_context_lock(&ah->context);
    if (!rnic)
        return ENODEV;
    bool busy = fl_qp_uses_ah(rnic, ah);
    if (!busy)
        ah->context = fl_retired_context(context);
    fl_rnic_unlock(rnic);
    if (busy)
        return EBUSY;
    fl_count(&fl_pd_of(ah->pd)->nr_objects, -1);
    fl_limit_give(context, FL_LIMITED_AH);
    fl_retire(fl_ah_of(ah));
    return 0;
}
