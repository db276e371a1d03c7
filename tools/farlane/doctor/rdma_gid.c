/* SPDX-License-Identifier: Apache-2.0 */
/* GID tables: which entry wins and why. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"
#include "verbs/gid_rank.h"

#define GIDS_MAX  256
#define ADDRS_MAX 256

struct table {
    int nr, nr_unreadable, nr_usable;
    struct fl_gid_entry entries[GIDS_MAX];
    struct fl_gid_choice choices[GIDS_MAX];
    char ifname[GIDS_MAX][SYS_NAME_LEN];
    struct sys_addr addrs[ADDRS_MAX];
    int nr_addrs;
};

static void read_entry(const struct sys *sys, const struct port *p, const char *index, struct table *t)
{
    struct fl_gid_entry *e = &t->entries[t->nr];
    char text[SYS_TEXT_LEN], state[32];
    char *ifname = t->ifname[t->nr];

    *e = (struct fl_gid_entry){.index = atoi(index)};
    if (sys_read(sys, text, sizeof(text), "/sys/class/infiniband/%s/ports/%d/gids/%s", p->dev, p->port,
                 index) < 0) {
        t->nr_unreadable++;
        return;
    }
    if (inet_pton(AF_INET6, text, &e->gid) != 1 || IN6_IS_ADDR_UNSPECIFIED(&e->gid))
        return; /* a hole: tables have 128 and more */
    ifname[0] = 0;
    if (sys_read(sys, text, sizeof(text), "/sys/class/infiniband/%s/ports/%d/gid_attrs/types/%s", p->dev,
                 p->port, index) > 0)
        e->type = fl_gid_type_parse(text, !p->roce);
    else if (!p->roce)
        e->type = FL_GID_IB;
    sys_read(sys, ifname, SYS_NAME_LEN, "/sys/class/infiniband/%s/ports/%d/gid_attrs/ndevs/%s", p->dev,
             p->port, index);
    if (ifname[0] && sys_read(sys, state, sizeof(state), "/sys/class/net/%s/operstate", ifname) > 0)
        e->down = !strcmp(state, "down");
    for (int i = 0; i < t->nr_addrs; i++)
        if (IN6_ARE_ADDR_EQUAL(&t->addrs[i].addr, &e->gid))
            e->prefix_len = t->addrs[i].prefix_len;
    t->nr++;
}

static void read_table(const struct doctor *d, const struct port *p, struct table *t)
{
    struct sys_names names;
    struct fl_gid_wish wish = {.peer = d->peer_addr};

    t->nr = t->nr_unreadable = 0;
    sys_list(d->sys, &names, "/sys/class/infiniband/%s/ports/%d/gids", p->dev, p->port);
    for (int i = 0; i < names.nr && t->nr < GIDS_MAX; i++)
        read_entry(d->sys, p, names.name[i], t);
    t->nr_usable = fl_gid_rank(t->entries, t->nr, &wish, t->choices);
}

static const char *gid_text(const struct in6_addr *gid, char text[INET6_ADDRSTRLEN])
{
    if (IN6_IS_ADDR_V4MAPPED(gid))
        inet_ntop(AF_INET, gid->s6_addr + 12, text, INET6_ADDRSTRLEN);
    else
        inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
    return text;
}

static void tell_ranking(const struct table *t, char *text, size_t len)
{
    char gid[INET6_ADDRSTRLEN];
    size_t at = 0;

    text[0] = 0;
    for (int i = 0; i < t->nr && i < 4 && at < len; i++) {
        const struct fl_gid_choice *c = &t->choices[i];

        at += (size_t)snprintf(text + at, len - at, "%sindex %d %s (%s)", i ? "; then " : "", c->entry->index,
                               gid_text(&c->entry->gid, gid), fl_gid_rank_why(c->rank));
    }
    if (t->nr > 4 && at < len)
        snprintf(text + at, len - at, "; and %d more", t->nr - 4);
}

static void judge(struct doctor *d, const struct port *p, const struct table *t)
{
    char text[4 * SYS_TEXT_LEN], index[16];
    const struct fl_gid_choice *first = &t->choices[0];

    if (t->nr == 0) {
        report(d, LEVEL_BAD, p->label, p->ifname[0] ? p->ifname : p->dev, "the table has no entry%s%s",
               t->nr_unreadable ? " that can be read" : "",
               p->ifname[0] ? "" : ", and no interface of the port is seen in this network namespace");
        return;
    }
    tell_ranking(t, text, sizeof(text));
    snprintf(index, sizeof(index), "%d", first->entry->index);
    if (!t->nr_usable)
        report(d, LEVEL_BAD, p->label, p->ifname[0] ? p->ifname : p->dev, "no entry can be used: %s", text);
    else if (first->rank == FL_GID_LINK_LOCAL || first->rank == FL_GID_V1)
        report(d, LEVEL_SLOW, p->label, p->ifname[0] ? p->ifname : p->dev, "the best is %s", text);
    else
        report(d, LEVEL_OK, p->label, index, "%s", text);
    /* Programs with a fixed index, or the first entry */
    if (t->nr_usable && first->entry->index != 0 && p->roce)
        report_as(d, "rdma-gid-default", LEVEL_HINT, p->label, index,
                  "the best entry is index %d; many programs take 0 or 3 unless they are told",
                  first->entry->index);
}

void check_rdma_gid(struct doctor *d)
{
    struct ports *ports = calloc(1, sizeof(*ports));
    struct table *t = calloc(1, sizeof(*t));

    if (ports && t) {
        int r = SYS_ASK(d->sys, addrs, t->addrs, ADDRS_MAX);

        t->nr_addrs = r < 0 ? 0 : r;
        ports_read(d->sys, ports);
        for (int i = 0; i < ports->nr; i++) {
            if (ports->at[i].state != PORT_ACTIVE)
                continue;
            read_table(d, &ports->at[i], t);
            judge(d, &ports->at[i], t);
        }
    }
    free(ports);
    free(t);
}
