/* SPDX-License-Identifier: Apache-2.0 */
/* Is there hardware that leads to the peer, and may this process use it? */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "verbs/choose_parts.h"
#include "verbs/gid_rank.h"

#define OWN_GIDS 256 /* of a port that are looked at for one to send from */

/* How far a port got: the reason of the one that got farthest is worth telling. */
enum stage { ELSEWHERE, WRONG_GID, NOT_ACTIVE, CLOSED, USABLE };

struct look {
    enum stage stage;
    const struct fl_port_gid *gid; /* NULL: the port's first, for InfiniBand and iWARP */
    bool bind;
    char why[FL_WHY_LEN];
};

/* The interface that a GID has to belong to; "": whichever has the address. */
static const char *wanted_interface(const struct fl_ask *ask)
{
    const struct fl_route *route = &ask->facts->route;

    if (ask->listen || route->kind == FL_ROUTE_LOCAL)
        return "";
    return *route->ifname ? route->ifname : ask->facts->ifname;
}

static bool on(const struct fl_port_gid *g, const char *ifname)
{
    return !*ifname || !*g->ifname || !strcmp(g->ifname, ifname);
}

/* Where the port is, for people: "on eth0, eth1", "on no interface". */
static const char *whereabouts(const struct fl_hw_port *p, char *text, size_t size)
{
    size_t at = (size_t)snprintf(text, size, "on");

    for (uint32_t i = 0; i < p->nr_gids; i++) {
        bool told = !*p->gids[i].ifname;

        for (uint32_t k = 0; k < i && !told; k++)
            told = !strcmp(p->gids[k].ifname, p->gids[i].ifname);
        if (!told && at < size)
            at += (size_t)snprintf(text + at, size - at, "%s %s", at > 2 ? "," : "", p->gids[i].ifname);
    }
    if (at == 2)
        snprintf(text, size, "on no interface with an address");
    return text;
}

static void elsewhere(const struct fl_ask *ask, const struct fl_hw_port *p, struct look *l)
{
    char where[96], to[FL_ADDR_IP_LEN], source[INET6_ADDRSTRLEN];

    whereabouts(p, where, sizeof(where));
    fl_addr_format_ip(&ask->facts->to, to);
    if (ask->listen)
        fl_why(l->why, "%s port %u does not have the address %s; it is %s", p->device, p->port, to, where);
    else
        fl_why(l->why, "%s port %u is %s; %s is reached from %s on %s", p->device, p->port, where, to,
               fl_gid_text(&ask->source, source),
               *ask->facts->ifname ? ask->facts->ifname : ask->facts->route.ifname);
}

/* A named device that the route would not take: an address of its own to send from. */
static const struct fl_port_gid *own_gid(const struct fl_ask *ask, const struct fl_hw_port *p)
{
    const struct fl_gid_wish wish = {.peer = ask->source};
    struct fl_gid_entry entries[OWN_GIDS];
    struct fl_gid_choice choices[OWN_GIDS];
    int nr = (int)FL_MIN(p->nr_gids, (uint32_t)OWN_GIDS);

    if (!ask->name || ask->listen)
        return NULL;
    for (int i = 0; i < nr; i++)
        entries[i] = (struct fl_gid_entry){
            .index = i, .type = p->gids[i].roce_v2 ? FL_GID_ROCE_V2 : FL_GID_ROCE_V1, .gid = p->gids[i].gid};
    if (!fl_gid_rank(entries, nr, &wish, choices) || choices[0].rank > FL_GID_SAME_KIND)
        return NULL;
    return &p->gids[choices[0].entry->index];
}

static void find_roce(const struct fl_ask *ask, const struct fl_hw_port *p, struct look *l)
{
    const char *ifname = wanted_interface(ask);
    char source[INET6_ADDRSTRLEN];

    for (uint32_t i = 0; i < p->nr_gids; i++) {
        const struct fl_port_gid *g = &p->gids[i];

        if (!IN6_ARE_ADDR_EQUAL(&g->gid, &ask->source) || !on(g, ifname))
            continue;
        l->stage = WRONG_GID;
        if (!g->roce_v2)
            continue;
        l->gid = g;
        return;
    }
    if (l->stage == WRONG_GID) {
        fl_why(l->why, "%s port %u knows %s as RoCE v1 only, which no router passes on", p->device, p->port,
               fl_gid_text(&ask->source, source));
        return;
    }
    l->gid = own_gid(ask, p);
    l->bind = l->gid;
    if (!l->gid)
        elsewhere(ask, p, l);
}

static void find_infiniband(const struct fl_ask *ask, const struct fl_hw_port *p, struct look *l)
{
    for (uint32_t i = 0; i < p->nr_gids && !l->gid; i++)
        if (!IN6_IS_ADDR_UNSPECIFIED(&ask->facts->ipoib) &&
            IN6_ARE_ADDR_EQUAL(&p->gids[i].gid, &ask->facts->ipoib))
            l->gid = &p->gids[i];
    if (!l->gid)
        fl_why(l->why, "%s port %u is InfiniBand; the address %s is on %s, which is no IPoIB interface of it",
               p->device, p->port, fl_gid_text(&ask->source, (char[INET6_ADDRSTRLEN]){0}),
               *ask->facts->ifname ? ask->facts->ifname : "no interface");
}

static void find_iwarp(const struct fl_ask *ask, const struct fl_hw_port *p, struct look *l)
{
    for (uint32_t i = 0; i < p->nr_gids && !l->gid; i++)
        if (*ask->facts->ifname && !strcmp(p->gids[i].ifname, ask->facts->ifname))
            l->gid = &p->gids[i];
    if (!l->gid)
        elsewhere(ask, p, l);
}

static bool may_open(const struct fl_choose_facts *f, const struct fl_hw_port *p, struct look *l)
{
    if (!*p->uverbs)
        fl_why(l->why,
               "%s has no file in /dev/infiniband: load the kernel module ib_uverbs (modprobe ib_uverbs)",
               p->device);
    else if (p->access)
        fl_why(l->why, "%s, the file of %s, may not be opened: %s", p->uverbs, p->device,
               strerror(-p->access));
    else if (f->hw.cm_access)
        fl_why(l->why, "%s cannot be opened: %s%s", f->hw.cm, strerror(-f->hw.cm_access),
               f->hw.cm_access == -ENOENT ? "; load the kernel module rdma_ucm (modprobe rdma_ucm)" : "");
    else if (f->no_library.code)
        fl_why(l->why, "%.*s", FL_WHY_LEN - 1, f->no_library.text);
    else
        return true;
    return false;
}

static struct look look_at(const struct fl_ask *ask, const struct fl_hw_port *p)
{
    struct look l = {.stage = ELSEWHERE};

    if (ask->any)
        l.stage = NOT_ACTIVE;
    else if (p->kind == FL_PORT_ROCE)
        find_roce(ask, p, &l);
    else if (p->kind == FL_PORT_INFINIBAND)
        find_infiniband(ask, p, &l);
    else
        find_iwarp(ask, p, &l);
    if (!ask->any && !l.gid)
        return l;
    l.stage = NOT_ACTIVE;
    if (!p->active) {
        fl_why(l.why, "%s port %u is %s, not ACTIVE: is its cable in, its interface up?", p->device, p->port,
               p->state);
        return l;
    }
    l.stage = may_open(ask->facts, p, &l) ? USABLE : CLOSED;
    return l;
}

static void take(const struct fl_ask *ask, const struct fl_hw_port *p, const struct look *l,
                 struct fl_choice *c)
{
    c->hardware = true;
    c->path = FL_PATH_HARDWARE;
    if (ask->any) /* every device of its kind listens */
        return;
    snprintf(c->device, sizeof(c->device), "%s", p->device);
    c->port = p->port;
    c->gid_index = l->gid->index;
    c->gid = l->gid->gid;
    c->bind = l->bind;
    snprintf(c->ifname, sizeof(c->ifname), "%s", *l->gid->ifname ? l->gid->ifname : ask->facts->ifname);
    if (l->bind)
        fl_addr_of_gid(&c->gid, if_nametoindex(c->ifname), &c->source);
}

bool fl_choose_hardware(const struct fl_ask *ask, struct fl_choice *c)
{
    const struct fl_hw *hw = &ask->facts->hw;
    char *why = c->why_not[FL_PATH_HARDWARE];
    struct look best = {.stage = ELSEWHERE};
    uint32_t nr = 0;

    for (uint32_t i = 0; i < hw->nr_ports; i++) {
        const struct fl_hw_port *p = &hw->ports[i];
        struct look l;

        if (ask->name && strcmp(ask->name, p->device))
            continue;
        l = look_at(ask, p);
        if (l.stage == USABLE) {
            take(ask, p, &l, c);
            *why = '\0';
            return true;
        }
        if (!nr++ || l.stage > best.stage)
            best = l;
    }
    if (!nr)
        fl_why(why, "this machine has no RDMA device (%s/sys/class/infiniband is empty)", hw->root);
    else if (nr > 1 && best.stage == ELSEWHERE && !ask->listen)
        fl_why(why, "none of this machine's %u RDMA ports is on %s; the first: %.150s", nr,
               *ask->facts->ifname ? ask->facts->ifname : ask->facts->route.ifname, best.why);
    else
        fl_why(why, "%s", best.why);
    return false;
}
