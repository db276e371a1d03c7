/* SPDX-License-Identifier: Apache-2.0 */
/* What this machine is like: the facts that a choice stands on. */
#include <errno.h>
#include <ifaddrs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rnic/device.h"
#include "rnic/verbs.h"
#include "verbs/choose_parts.h"
#include "verbs/rdmacm.h"
#include "verbs/verbs.h"

static void find_interface(const struct fl_addr *addr, char ifname[IF_NAMESIZE])
{
    struct ifaddrs *list;
    struct fl_addr one;

    if (getifaddrs(&list) < 0)
        return;
    for (const struct ifaddrs *i = list; i && !*ifname; i = i->ifa_next) {
        socklen_t len = i->ifa_addr && i->ifa_addr->sa_family == AF_INET ? sizeof(struct sockaddr_in)
                                                                         : sizeof(struct sockaddr_in6);

        if (i->ifa_addr && fl_addr_from(&one, i->ifa_addr, len) == 0 && fl_addr_same_ip(&one, addr))
            snprintf(ifname, IF_NAMESIZE, "%s", i->ifa_name);
    }
    freeifaddrs(list);
}

/* Does the library come when it is called for? */
static void try_libraries(struct fl_error *err)
{
    const struct fl_rdmacm *cm;
    const struct fl_verbs *verbs;

    if (!fl_verbs_hardware(&verbs, err))
        (void)fl_rdmacm_hardware(&cm, err);
}

static int add_device(struct fl_choose_facts *f, const struct fl_device *d)
{
    struct fl_soft_gid *grown = realloc(f->soft, (f->nr_soft + (uint32_t)d->nr_gids + 1) * sizeof(*grown));

    if (!grown)
        return -ENOMEM;
    f->soft = grown;
    for (int i = 0; i < d->nr_gids; i++) {
        struct fl_soft_gid *g = &f->soft[f->nr_soft];

        if (!d->gids[i].assigned)
            continue;
        *g = (struct fl_soft_gid){.index = i, .gid = d->gids[i].addr, .up = d->up};
        snprintf(g->device, sizeof(g->device), "%s", d->device.name);
        snprintf(g->ifname, sizeof(g->ifname), "%s", d->ifname);
        f->nr_soft++;
    }
    return 0;
}

static int read_software(struct fl_choose_facts *f)
{
    const struct fl_device *d;
    int r = 0;

    fl_device_list_free(fl_device_list_get(NULL)); /* reads the interfaces */
    pthread_mutex_lock(&fl_devices_lock);
    fl_list_for_each (d, fl_devices(), link)
        if (r == 0)
            r = add_device(f, d);
    pthread_mutex_unlock(&fl_devices_lock);
    return r;
}

static bool is_off(const char *variable)
{
    const char *value = getenv(variable);

    return value && !strcmp(value, "0");
}

int fl_choose_look(const struct fl_addr *to, bool listen, struct fl_choose_facts *f)
{
    const char *root = secure_getenv("FARLANE_ROOT");
    int r;

    *f = (struct fl_choose_facts){.to = *to, .shm_off = is_off("FARLANE_SHM")};
    root = root ? root : "";
    if (listen)
        f->route = (struct fl_route){.kind = FL_ROUTE_LOCAL, .source = *to};
    else
        (void)fl_route_find(to, NULL, &f->route, &f->no_route);
    if (f->route.source.len)
        find_interface(&f->route.source, f->ifname);
    if (*f->ifname)
        (void)fl_hw_gid_of_ipoib(root, f->ifname, &f->ipoib);
    r = fl_hw_read(root, &f->hw);
    if (r == 0 && f->hw.nr_ports)
        try_libraries(&f->no_library);
    if (r == 0)
        r = read_software(f);
    if (r < 0)
        fl_choose_forget(f);
    return r;
}

void fl_choose_forget(struct fl_choose_facts *f)
{
    fl_hw_free(&f->hw);
    free(f->soft);
    f->soft = NULL;
    f->nr_soft = 0;
}

typedef int rule(const struct fl_choose_facts *facts, const char *dev, struct fl_choice *choice,
                 struct fl_error *err);

static int look_and_choose(const struct fl_addr *addr, bool listen, rule *choose, const char *dev,
                           struct fl_choice *choice, struct fl_error *err)
{
    struct fl_choose_facts facts;
    int r = fl_choose_look(addr, listen, &facts);

    if (r < 0) {
        *choice = (struct fl_choice){.path = FL_PATH_TCP};
        return fl_error_set(err, r, "the RDMA devices of this machine cannot be listed: %s", strerror(-r));
    }
    r = choose(&facts, dev, choice, err);
    fl_choose_forget(&facts);
    return r;
}

int fl_choose_to(const struct fl_addr *to, const char *dev, struct fl_choice *choice, struct fl_error *err)
{
    return look_and_choose(to, false, fl_choose, dev, choice, err);
}

int fl_choose_at(const struct fl_addr *at, const char *dev, struct fl_choice *choice, struct fl_error *err)
{
    return look_and_choose(at, true, fl_choose_listen, dev, choice, err);
}
