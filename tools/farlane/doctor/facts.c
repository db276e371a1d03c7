/* SPDX-License-Identifier: Apache-2.0 */
/* What one end tells the other of itself, and what follows from both. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "peer.h"
#include "port.h"

#define ADDRS_MAX 256

static json_t *dcb_json(const struct sys *sys, const char *ifname)
{
    struct sys_dcb dcb = {0};
    json_t *map;

    if (SYS_ASK(sys, dcb, ifname, &dcb) < 0)
        return json_null();
    map = dcb.has_dscp ? json_array() : json_null();
    for (int i = 0; dcb.has_dscp && i < 64; i++)
        json_array_append_new(map, json_integer(dcb.dscp_prio[i]));
    return json_pack("{s:i, s:o}", "pfc", dcb.pfc, "dscp", map);
}

static json_t *addrs_json(const struct sys_addr *addrs, int nr, const char *ifname)
{
    json_t *list = json_array();
    char text[INET6_ADDRSTRLEN];

    for (int i = 0; i < nr; i++)
        if (!strcmp(addrs[i].ifname, ifname) && inet_ntop(AF_INET6, &addrs[i].addr, text, sizeof(text)))
            json_array_append_new(list, json_pack("{s:s, s:i}", "addr", text, "len", addrs[i].prefix_len));
    return list;
}

/* The kinds of the usable GIDs of a port: "RoCE v2 IPv4", ... */
static json_t *gid_kinds_json(const struct sys *sys, const struct port *p)
{
    json_t *list = json_array();
    struct sys_names *names = calloc(1, sizeof(*names));

    if (names)
        sys_list(sys, names, "/sys/class/infiniband/%s/ports/%d/gids", p->dev, p->port);
    for (int i = 0; names && i < names->nr; i++) {
        char gid[SYS_TEXT_LEN], type[SYS_TEXT_LEN], kind[64];
        struct in6_addr a;
        bool known = false;

        if (sys_read(sys, gid, sizeof(gid), "/sys/class/infiniband/%s/ports/%d/gids/%s", p->dev, p->port,
                     names->name[i]) <= 0 ||
            inet_pton(AF_INET6, gid, &a) != 1 || IN6_IS_ADDR_UNSPECIFIED(&a) ||
            sys_read(sys, type, sizeof(type), "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%s", p->dev,
                     p->port, names->name[i]) <= 0)
            continue;
        snprintf(kind, sizeof(kind), "%.20s %s", type,
                 IN6_IS_ADDR_V4MAPPED(&a)    ? "IPv4"
                 : IN6_IS_ADDR_LINKLOCAL(&a) ? "link-local"
                                             : "IPv6");
        for (size_t n = 0; n < json_array_size(list); n++)
            known |= !strcmp(json_string_value(json_array_get(list, n)), kind);
        if (!known)
            json_array_append_new(list, json_string(kind));
    }
    free(names);
    return list;
}

static json_t *interfaces_json(const struct sys *sys)
{
    struct nics *nics = calloc(1, sizeof(*nics));
    struct sys_addr *addrs = calloc(ADDRS_MAX, sizeof(*addrs));
    json_t *list = json_array();
    int nr = addrs ? SYS_ASK(sys, addrs, addrs, ADDRS_MAX) : 0;

    if (nics)
        nics_read(sys, nics);
    for (int i = 0; nics && addrs && i < nics->nr; i++) {
        const struct nic *nic = &nics->at[i];

        /* A name that is no UTF-8 cannot be told */
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:I, s:b, s:b, s:o, s:o}", "name", nic->name, "mtu",
                                        (json_int_t)nic->mtu, "mbps", (json_int_t)nic->mbps, "loopback",
                                        nic->loopback, "bridge", nic->bridge, "dcb", dcb_json(sys, nic->name),
                                        "addrs", addrs_json(addrs, nr, nic->name)));
    }
    free(nics);
    free(addrs);
    return list;
}

static json_t *ports_json(const struct sys *sys)
{
    struct ports *ports = calloc(1, sizeof(*ports));
    json_t *list = json_array();

    if (ports)
        ports_read(sys, ports);
    for (int i = 0; ports && i < ports->nr; i++) {
        const struct port *p = &ports->at[i];

        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:f, s:o}", "port", p->label,
                                              "link_layer", p->link_layer, "interface", p->ifname, "active",
                                              p->state == PORT_ACTIVE, "gbps", p->gbps, "gids",
                                              gid_kinds_json(sys, p)));
    }
    free(ports);
    return list;
}

json_t *facts_json(const struct sys *sys)
{
    char host[256] = "";

    gethostname(host, sizeof(host) - 1);
    return json_pack("{s:i, s:s, s:s, s:o, s:o}", "version", PEER_VERSION, "farlane", FARLANE_VERSION, "host",
                     host, "interfaces", interfaces_json(sys), "rdma", ports_json(sys));
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static json_int_t number_of(const json_t *object, const char *key)
{
    return json_integer_value(json_object_get(object, key));
}

const char *facts_interface_of(const json_t *facts, const struct in6_addr *addr, int64_t *mtu)
{
    json_t *nic, *a;
    size_t i, n;

    json_array_foreach(json_object_get(facts, "interfaces"), i,
                       nic){json_array_foreach(json_object_get(nic, "addrs"), n, a){struct in6_addr one;

    if (inet_pton(AF_INET6, text_of(a, "addr"), &one) != 1 || !IN6_ARE_ADDR_EQUAL(&one, addr))
        continue;
    *mtu = number_of(nic, "mtu");
    return text_of(nic, "name");
}
}
*mtu = 0;
return "";
}

/* The member of a list whose `key` is `name` */
static const json_t *find(const json_t *facts, const char *list, const char *key, const char *name)
{
    json_t *one;
    size_t i;

    json_array_foreach(json_object_get(facts, list), i,
                       one) if (*name && !strcmp(text_of(one, key), name)) return one;
    return NULL;
}

static void compare_interfaces(struct doctor *d, const json_t *a, const json_t *b, const char *label)
{
    json_int_t mtu_a = number_of(a, "mtu"), mtu_b = number_of(b, "mtu");
    json_int_t speed_a = number_of(a, "mbps"), speed_b = number_of(b, "mbps");
    char arg[SYS_TEXT_LEN];

    snprintf(arg, sizeof(arg), "%.63s mtu %lld", mtu_a < mtu_b ? text_of(a, "name") : text_of(b, "name"),
             (long long)(mtu_a > mtu_b ? mtu_a : mtu_b));
    report_as(d, "peer-mtu-equal", mtu_a == mtu_b ? LEVEL_OK : LEVEL_BAD, label, arg,
              "MTU %lld here, %lld there", (long long)mtu_a, (long long)mtu_b);
    if (speed_a && speed_b)
        report_as(d, "peer-speed", speed_a == speed_b ? LEVEL_OK : LEVEL_SLOW, label, NULL,
                  "%lld Mb/s here, %lld Mb/s there", (long long)speed_a, (long long)speed_b);
}

static void compare_dcb(struct doctor *d, const json_t *a, const json_t *b, const char *label)
{
    const json_t *dcb_a = json_object_get(a, "dcb"), *dcb_b = json_object_get(b, "dcb");
    bool same_map = json_equal(json_object_get(dcb_a, "dscp"), json_object_get(dcb_b, "dscp"));
    json_int_t pfc_a = number_of(dcb_a, "pfc"), pfc_b = number_of(dcb_b, "pfc");

    if (!json_is_object(dcb_a) && !json_is_object(dcb_b))
        return;
    if (!json_is_object(dcb_a) || !json_is_object(dcb_b)) {
        report_as(d, "peer-pfc", LEVEL_UNSEEN, label, NULL,
                  "only the interface %s tells of data centre bridging",
                  json_is_object(dcb_a) ? "here" : "there");
        return;
    }
    report_as(d, "peer-pfc", pfc_a == pfc_b && same_map ? LEVEL_OK : LEVEL_SLOW, label, text_of(a, "name"),
              "PFC mask 0x%02llx here, 0x%02llx there; maps of DSCP are %s", (long long)pfc_a,
              (long long)pfc_b, same_map ? "the same" : "different");
}

static void compare_gids(struct doctor *d, const json_t *a, const json_t *b, const char *ifname,
                         const char *label)
{
    json_t *gids_a = json_object_get(a, "gids"), *gids_b = json_object_get(b, "gids"), *x, *y;
    const char *common = NULL;
    size_t i, n;

    if (!a || !b)
        return;
    json_array_foreach(gids_a, i, x)
    {
        json_array_foreach(gids_b, n, y)
        {
            if (json_equal(x, y) && strstr(json_string_value(x), "v2") &&
                !strstr(json_string_value(x), "link-local"))
                common = json_string_value(x);
        }
    }
    report_as(d, "peer-gid", common ? LEVEL_OK : LEVEL_BAD, label, ifname, "%s%s at both ends",
              common ? common : "no routable RoCE v2 GID", common ? "" : " of one family");
}

void facts_compare(struct doctor *d, const json_t *here, const json_t *there, const char *here_if,
                   const char *there_if)
{
    const json_t *a = find(here, "interfaces", "name", here_if),
                 *b = find(there, "interfaces", "name", there_if);
    char label[2 * SYS_NAME_LEN + 8];

    snprintf(label, sizeof(label), "%.63s - %.63s", here_if, there_if);
    if (!a || !b) {
        report_as(d, "peer-mtu-equal", LEVEL_UNSEEN, label, NULL,
                  "the interfaces of the path could not be seen (a router or NAT between?)");
        return;
    }
    compare_interfaces(d, a, b, label);
    compare_dcb(d, a, b, label);
    compare_gids(d, find(here, "rdma", "interface", here_if), find(there, "rdma", "interface", there_if),
                 here_if, label);
}
