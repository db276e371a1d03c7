/* SPDX-License-Identifier: Apache-2.0 */
/* Interfaces, the way to the peer, what may drop packets on it. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"

#define ADDRS_MAX 256

static void each_nic(struct doctor *d, void (*see)(struct doctor *d, const struct nic *nic))
{
    struct nics *nics = calloc(1, sizeof(*nics));

    if (!nics)
        return;
    nics_read(d->sys, nics);
    for (int i = 0; i < nics->nr; i++)
        see(d, &nics->at[i]);
    free(nics);
}

static void see_link(struct doctor *d, const struct nic *nic)
{
    char duplex[32], text[64] = "at a speed that it does not tell";

    if (nic->rdma && !nic->up) {
        report(d, LEVEL_BAD, nic->name, NULL, "an RDMA port stands behind it, and it is down");
        return;
    }
    if (!nic_counts(nic))
        return;
    sys_read(d->sys, duplex, sizeof(duplex), "/sys/class/net/%s/duplex", nic->name);
    if (nic->mbps)
        snprintf(text, sizeof(text), "%lld Mb/s", (long long)nic->mbps);
    report(d, strcmp(duplex, "half") ? LEVEL_OK : LEVEL_SLOW, nic->name, NULL, "up, %s%s%s%s", text,
           duplex[0] && strcmp(duplex, "unknown") ? ", " : "", strcmp(duplex, "unknown") ? duplex : "",
           duplex[0] && strcmp(duplex, "unknown") ? " duplex" : "");
}

void check_net_link(struct doctor *d)
{
    each_nic(d, see_link);
}

static void see_mtu(struct doctor *d, const struct nic *nic)
{
    if (!nic_counts(nic) || !nic->mtu)
        return;
    report(d, roce_mtu(nic->mtu) < 4096 ? LEVEL_HINT : LEVEL_OK, nic->name, NULL,
           "MTU %lld: RoCE sends %u bytes a packet", (long long)nic->mtu, roce_mtu(nic->mtu));
}

void check_net_mtu(struct doctor *d)
{
    each_nic(d, see_mtu);
}

static void see_rp_filter(struct doctor *d, const struct nic *nic)
{
    int64_t all = 0, own;

    if (!nic_counts(nic) || sys_number(d->sys, &own, "/proc/sys/net/ipv4/conf/%s/rp_filter", nic->name) < 0)
        return;
    sys_number(d->sys, &all, "/proc/sys/net/ipv4/conf/all/rp_filter");
    /* The larger of both counts: Documentation/networking/ip-sysctl.rst */
    report(d, (all > own ? all : own) == 1 ? LEVEL_SLOW : LEVEL_OK, nic->name, NULL,
           "rp_filter is %lld for all and %lld for %s; the larger counts (0 off, 1 strict, 2 loose)",
           (long long)all, (long long)own, nic->name);
}

/* With one interface strict filtering drops nothing that would have come elsewhere. */
void check_net_rp_filter(struct doctor *d)
{
    struct nics *nics = calloc(1, sizeof(*nics));
    int nr = 0;

    if (!nics)
        return;
    nics_read(d->sys, nics);
    for (int i = 0; i < nics->nr; i++)
        nr += nic_counts(&nics->at[i]);
    for (int i = 0; i < nics->nr; i++) {
        if (nr > 1)
            see_rp_filter(d, &nics->at[i]);
        else if (nic_counts(&nics->at[i]))
            report(d, LEVEL_OK, nics->at[i].name, NULL, "the only interface: there is no other way back");
    }
    free(nics);
}

static bool same_subnet(const struct sys_addr *a, const struct sys_addr *b)
{
    uint8_t len = a->prefix_len, bytes = len / 8, mask = (uint8_t)(0xff << (8 - len % 8));

    return len == b->prefix_len && len <= 128 && !memcmp(&a->addr, &b->addr, bytes) &&
           (len % 8 == 0 || !((a->addr.s6_addr[bytes] ^ b->addr.s6_addr[bytes]) & mask));
}

/* Two interfaces in one IPv4 subnet: each answers for the other's address, unless told not to. */
void check_net_arp(struct doctor *d)
{
    static struct sys_addr addrs[ADDRS_MAX];
    int nr = SYS_ASK(d->sys, addrs, addrs, ADDRS_MAX);

    if (nr < 0) {
        report_unseen(d, "addresses", nr, "the addresses of the interfaces");
        return;
    }
    for (int i = 0; i < nr; i++) {
        for (int n = i + 1; n < nr; n++) {
            int64_t ignore = 0, own = 0;
            const char *a = addrs[i].ifname, *b = addrs[n].ifname;

            if (!strcmp(a, b) || !IN6_IS_ADDR_V4MAPPED(&addrs[i].addr) || !same_subnet(&addrs[i], &addrs[n]))
                continue;
            sys_number(d->sys, &ignore, "/proc/sys/net/ipv4/conf/all/arp_ignore");
            sys_number(d->sys, &own, "/proc/sys/net/ipv4/conf/%s/arp_ignore", b);
            report(d, ignore < 1 && own < 1 ? LEVEL_SLOW : LEVEL_OK, a, b,
                   "%s and %s have addresses in one subnet; arp_ignore is %lld", a, b,
                   (long long)(ignore > own ? ignore : own));
        }
    }
}

/* Without the kernel's own answer: the longest match of /proc/net/route. IPv4 only. */
static int route_of_table(const struct sys *sys, const struct in6_addr *to, struct sys_route *route)
{
    char *text = sys_read_all(sys, "/proc/net/route"), *save = NULL;
    uint32_t dst, best_mask = 0;
    bool found = false;

    if (!text)
        return -errno;
    if (!IN6_IS_ADDR_V4MAPPED(to)) {
        free(text);
        return -EOPNOTSUPP;
    }
    memcpy(&dst, to->s6_addr + 12, 4); /* the file has network order as the CPU reads it */
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        unsigned int net, via, flags, mask;
        char name[SYS_NAME_LEN];

        if (sscanf(line, "%63s %x %x %x %*d %*d %*d %x", name, &net, &via, &flags, &mask) != 5 ||
            (dst & mask) != net || !(flags & 1) || (found && ntohl(mask) <= ntohl(best_mask)))
            continue;
        found = true;
        best_mask = mask;
        strcpy(route->ifname, name);
        route->gateway = flags & 2;
    }
    free(text);
    return found ? 0 : -ENETUNREACH;
}

void check_net_route(struct doctor *d)
{
    struct sys_route route = {0};
    struct ports *ports;
    bool rdma = false;
    int r, nr;

    if (!d->peer)
        return;
    r = SYS_ASK(d->sys, route, &d->peer_addr, &route);
    if (r == -EOPNOTSUPP)
        r = route_of_table(d->sys, &d->peer_addr, &route);
    if (r < 0) {
        report(d, LEVEL_BAD, d->peer, NULL, "the kernel has no route to it: %s", strerror(-r));
        return;
    }
    ports = calloc(1, sizeof(*ports));
    nr = ports ? ports_read(d->sys, ports) : 0;
    for (int i = 0; i < nr; i++)
        rdma |= ports->at[i].state == PORT_ACTIVE && !strcmp(ports->at[i].ifname, route.ifname);
    if (sys_exists(d->sys, "/sys/class/net/%s/bridge", route.ifname))
        report(d, LEVEL_BAD, d->peer, route.ifname, "the route goes by %s, a bridge of this machine's own",
               route.ifname);
    else if (nr && !rdma)
        report(d, LEVEL_SLOW, d->peer, route.ifname,
               "the route goes by %s, behind which no active RDMA port stands", route.ifname);
    else
        report(d, LEVEL_OK, d->peer, NULL, "the route goes by %s%s%s", route.ifname,
               route.gateway ? ", over a router" : "", rdma ? ", which has an RDMA port" : "");
    free(ports);
}

/* Returns whether it drops what no rule takes. */
static bool see_chain(struct doctor *d, const char *id, const char *arg, const struct sys_chain *c)
{
    char label[2 * SYS_NAME_LEN + 2];

    if (!c->drops)
        return false;
    snprintf(label, sizeof(label), "%.63s/%.63s", c->table, c->name);
    if (c->unclear && !(c->names_4791 && c->names_4420))
        report_as(d, id, LEVEL_UNSEEN, label, arg,
                  "the chain drops what no rule takes, and its rules use sets or matches that are not "
                  "understood here; "
                  "--peer proves the ports by packets");
    else
        report_as(d, id, c->names_4791 && c->names_4420 ? LEVEL_OK : LEVEL_BAD, label, arg,
                  "the chain drops what no rule takes; rules name%s%s", c->names_4791 ? " 4791" : " no 4791",
                  c->names_4420 ? " and 4420" : " and no 4420");
    return true;
}

static bool has_line(const char *text, const char *line)
{
    const size_t len = strlen(line);

    for (const char *p = text, *end; *p; p = *end ? end + 1 : end) {
        end = p + strcspn(p, "\n");
        if ((size_t)(end - p) == len && !memcmp(p, line, len))
            return true;
    }
    return false;
}

#define IPTABLES "net-iptables"

/* iptables-nft keeps its rules in nftables; those of the old iptables are another list. */
static void see_iptables(struct doctor *d, bool ip6)
{
    const char *name = ip6 ? "ip6tables" : "iptables";
    char tables[SYS_TEXT_LEN];
    ssize_t n = sys_read(d->sys, tables, sizeof(tables), "/proc/net/%s_tables_names", ip6 ? "ip6" : "ip");
    struct sys_chain chain = {0};
    int r;

    if (n < 0 && n != -EACCES)
        return; /* this kernel has none */
    if (n == -EACCES) {
        report_as(d, IPTABLES, LEVEL_UNSEEN, name, NULL,
                  "whether there are rules of the old %s is not told to this user; --peer proves the ports "
                  "by packets",
                  name);
        return;
    }
    if (!has_line(tables, "filter"))
        return;
    r = SYS_ASK(d->sys, iptables, ip6, &chain);
    if (r < 0)
        report_as(
            d, IPTABLES, LEVEL_UNSEEN, name, NULL,
            "there are rules of the old %s, which could not be seen: %s; --peer proves the ports by packets",
            name, r == -EPERM ? "not by this user; root sees them" : strerror(-r));
    else if (!see_chain(d, IPTABLES, name, &chain))
        report_as(d, IPTABLES, LEVEL_OK, name, NULL, "the old %s drop nothing that arrives by default", name);
}

void check_net_firewall(struct doctor *d)
{
    static struct sys_chain chains[64];
    int nr = SYS_ASK(d->sys, firewall, chains, 64), nr_dropping = 0;

    see_iptables(d, false);
    see_iptables(d, true);
    if (nr < 0) {
        report_unseen(d, "nftables", nr, "the rules of the firewall");
        return;
    }
    for (int i = 0; i < nr; i++)
        nr_dropping += see_chain(d, "net-firewall", NULL, &chains[i]);
    if (!nr_dropping)
        report(d, LEVEL_OK, "nftables", NULL, "no chain for arriving packets drops by default (%d chains)",
               nr);
}
