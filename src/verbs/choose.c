/* SPDX-License-Identifier: Apache-2.0 */
/* Hardware before software, and shared memory before datagrams, where the user does not say otherwise. */
#include "verbs/choose.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/util.h"
#include "verbs/choose_parts.h"

const char *fl_path_name(enum fl_path path)
{
    static const char *const names[] = {"hardware", "shm", "udp", "tcp"};

    return path < FL_NR_PATHS ? names[path] : "?";
}

const char *fl_path_text(enum fl_path path)
{
    static const char *const texts[] = {"RDMA by hardware", "RDMA on shared memory",
                                        "RDMA by RoCE v2 over UDP", "TCP"};

    return path < FL_NR_PATHS ? texts[path] : "?";
}

void fl_why(char to[FL_WHY_LEN], const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(to, FL_WHY_LEN, fmt, args);
    va_end(args);
}

/* ---- GIDs ---- */

bool fl_gid_of_addr(const struct fl_addr *addr, struct in6_addr *gid)
{
    *gid = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    if (addr->len && addr->ss.ss_family == AF_INET)
        memcpy(gid->s6_addr + 12, &((const struct sockaddr_in *)&addr->ss)->sin_addr, 4);
    else if (addr->len && addr->ss.ss_family == AF_INET6)
        *gid = ((const struct sockaddr_in6 *)&addr->ss)->sin6_addr;
    else
        return false;
    return true;
}

void fl_addr_of_gid(const struct in6_addr *gid, uint32_t ifindex, struct fl_addr *addr)
{
    struct sockaddr_in in4 = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_addr = *gid};

    memcpy(&in4.sin_addr, gid->s6_addr + 12, 4);
    if (IN6_IS_ADDR_LINKLOCAL(gid))
        in6.sin6_scope_id = ifindex;
    if (IN6_IS_ADDR_V4MAPPED(gid))
        fl_addr_from(addr, (struct sockaddr *)&in4, sizeof(in4));
    else
        fl_addr_from(addr, (struct sockaddr *)&in6, sizeof(in6));
}

const char *fl_gid_text(const struct in6_addr *gid, char text[INET6_ADDRSTRLEN])
{
    inet_ntop(AF_INET6, gid, text, INET6_ADDRSTRLEN);
    return IN6_IS_ADDR_V4MAPPED(gid) ? text + strlen("::ffff:") : text;
}

bool fl_gid_alike(const struct in6_addr *a, const struct in6_addr *b)
{
    return !IN6_IS_ADDR_V4MAPPED(a) == !IN6_IS_ADDR_V4MAPPED(b) &&
           !IN6_IS_ADDR_LINKLOCAL(a) == !IN6_IS_ADDR_LINKLOCAL(b);
}

/* ---- software ---- */

static void no_software(struct fl_choice *c, const char *fmt, ...) FL_PRINTF(2, 3);
static void no_software(struct fl_choice *c, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    vsnprintf(c->why_not[FL_PATH_UDP], FL_WHY_LEN, fmt, args);
    va_end(args);
    fl_why(c->why_not[FL_PATH_SHM], "%s", c->why_not[FL_PATH_UDP]);
}

static const struct fl_soft_gid *find_soft(const struct fl_ask *ask, bool *bind)
{
    const struct fl_choose_facts *f = ask->facts;

    *bind = false;
    for (uint32_t i = 0; i < f->nr_soft; i++)
        if (IN6_ARE_ADDR_EQUAL(&f->soft[i].gid, &ask->source) &&
            (!ask->name || !strcmp(ask->name, f->soft[i].device)))
            return &f->soft[i];
    *bind = true;
    for (uint32_t i = 0; i < f->nr_soft && ask->name && !ask->listen; i++)
        if (!strcmp(ask->name, f->soft[i].device) && fl_gid_alike(&f->soft[i].gid, &ask->source))
            return &f->soft[i];
    return NULL;
}

static bool choose_software(const struct fl_ask *ask, struct fl_choice *c)
{
    const struct fl_choose_facts *f = ask->facts;
    char source[INET6_ADDRSTRLEN];
    const struct fl_soft_gid *g;

    if (!c->here && !ask->listen)
        fl_why(c->why_not[FL_PATH_SHM], "the peer is on another host");
    else if (f->shm_off)
        fl_why(c->why_not[FL_PATH_SHM], "shared memory is switched off (FARLANE_SHM=0)");
    if (!ask->any) {
        g = find_soft(ask, &c->bind);
        if (!g) {
            no_software(c,
                        ask->name ? "%2$s has no address that fits; %1$s is wanted"
                                  : "no device of the software RNIC has the address %1$s",
                        fl_gid_text(&ask->source, source), ask->name);
            return false;
        }
        snprintf(c->device, sizeof(c->device), "%s", g->device);
        snprintf(c->ifname, sizeof(c->ifname), "%s", g->ifname);
        c->port = 1;
        c->gid_index = g->index;
        c->gid = g->gid;
        if (c->bind)
            fl_addr_of_gid(&g->gid, if_nametoindex(g->ifname), &c->source);
    }
    c->hardware = false;
    c->path = *c->why_not[FL_PATH_SHM] ? FL_PATH_UDP : FL_PATH_SHM;
    return true;
}

/* ---- what the user wants ---- */

enum want { WANT_ANY = 3, WANT_HARDWARE = 1, WANT_SOFT = 2 };

static bool is_hardware(const struct fl_choose_facts *f, const char *name)
{
    for (uint32_t i = 0; i < f->hw.nr_ports; i++)
        if (!strcmp(f->hw.ports[i].device, name))
            return true;
    return false;
}

static bool is_soft(const struct fl_choose_facts *f, const char *name)
{
    for (uint32_t i = 0; i < f->nr_soft; i++)
        if (!strcmp(f->soft[i].device, name))
            return true;
    return false;
}

static size_t add(char *text, size_t size, size_t at, const char *name, const char *kind)
{
    return at < size ? at + (size_t)snprintf(text + at, size - at, "%s%s%s", at ? ", " : "", name, kind) : at;
}

static int no_such_device(const struct fl_choose_facts *f, const char *name, struct fl_error *err)
{
    const char *before = "";
    char known[300] = "";
    size_t at = 0;

    for (uint32_t i = 0; i < f->hw.nr_ports; i++) {
        if (strcmp(before, f->hw.ports[i].device))
            at = add(known, sizeof(known), at, f->hw.ports[i].device, " (hardware)");
        before = f->hw.ports[i].device;
    }
    for (uint32_t i = 0; i < f->nr_soft; i++) {
        if (strcmp(before, f->soft[i].device))
            at = add(known, sizeof(known), at, f->soft[i].device, "");
        before = f->soft[i].device;
    }
    for (uint32_t i = 0; i < f->nr_soft; i++)
        if (!strcmp(name, f->soft[i].ifname))
            return fl_error_set(err, -ENODEV,
                                "dev=%s is a network interface; the RDMA device on it is %s: dev=%s", name,
                                f->soft[i].device, f->soft[i].device);
    return fl_error_set(err, -ENODEV, "dev=%s: this machine has no such RDMA device; it has %s", name,
                        *known ? known : "none");
}

static int wish(const struct fl_choose_facts *f, const char *dev, enum want *want, const char **name,
                struct fl_error *err)
{
    *name = NULL;
    *want = WANT_ANY;
    if (!dev || !*dev || !strcmp(dev, "auto"))
        return 0;
    *want = WANT_SOFT;
    if (!strcmp(dev, "soft"))
        return 0;
    *want = WANT_HARDWARE;
    if (!strcmp(dev, "hardware"))
        return 0;
    *name = dev;
    if (is_hardware(f, dev))
        return 0;
    *want = WANT_SOFT;
    return is_soft(f, dev) ? 0 : no_such_device(f, dev, err);
}

/* ---- choosing ---- */

/* Who listens may wait for the device as long as the address is not there either; where it is, the name is
 * wrong. */
static int unknown_name(const struct fl_ask *ask, const struct fl_error *why, struct fl_error *err)
{
    char source[INET6_ADDRSTRLEN];

    if (!ask->listen)
        return fl_error_set(err, why->code, "%s", why->text);
    if (ask->any || *ask->facts->ifname)
        return fl_error_set(err, -ENXIO, "%s", why->text);
    return fl_error_set(err, why->code, "neither the address %s nor the device is there: %s",
                        fl_gid_text(&ask->source, source), why->text);
}

/* The address is on an interface, and the software RNIC's devices are made of those. */
static int other_device(const struct fl_ask *ask, struct fl_error *err)
{
    const struct fl_choose_facts *f = ask->facts;
    char source[INET6_ADDRSTRLEN];

    for (uint32_t i = 0; i < f->nr_soft; i++)
        if (IN6_ARE_ADDR_EQUAL(&f->soft[i].gid, &ask->source))
            return fl_error_set(err, -ENXIO, "dev=%s does not have the address %s: that is one of dev=%s",
                                ask->name, fl_gid_text(&ask->source, source), f->soft[i].device);
    return 0;
}

static int choose(struct fl_ask *ask, const char *dev, struct fl_choice *c, struct fl_error *err)
{
    enum want want;
    struct fl_error why = {0};
    const char *why_not;

    if (wish(ask->facts, dev, &want, &ask->name, &why) < 0)
        return unknown_name(ask, &why, err);
    if (ask->any && ask->name)
        return fl_error_set(err, -EINVAL,
                            "dev=%s listens on addresses of its own only: name one instead of all", dev);
    if (want == WANT_SOFT)
        fl_why(c->why_not[FL_PATH_HARDWARE], "dev=%s asks for the software RNIC", dev);
    else if (fl_choose_hardware(ask, c))
        return 0;
    if (want == WANT_HARDWARE)
        no_software(c, ask->name ? "dev=%s asks for hardware" : "only hardware is asked for", dev);
    else if (choose_software(ask, c))
        return 0;
    c->path = FL_PATH_TCP;
    if (ask->listen && ask->name && want == WANT_SOFT && other_device(ask, err) < 0)
        return -ENXIO;
    if (want == WANT_ANY)
        return fl_error_set(err, -ENODEV, "no RDMA device leads there: %s; %s", c->why_not[FL_PATH_HARDWARE],
                            c->why_not[FL_PATH_UDP]);
    why_not = c->why_not[want == WANT_HARDWARE ? FL_PATH_HARDWARE : FL_PATH_UDP];
    if (ask->name)
        return fl_error_set(err, -ENODEV, "dev=%s cannot be used: %s", dev, why_not);
    return fl_error_set(err, -ENODEV, "%s", why_not); /* who asks for the kind need not have written dev= */
}

static struct fl_choice nothing_yet(const struct fl_choose_facts *f)
{
    return (struct fl_choice){
        .path = FL_PATH_TCP, .source = f->route.source, .here = f->route.kind == FL_ROUTE_LOCAL};
}

int fl_choose(const struct fl_choose_facts *f, const char *dev, struct fl_choice *c, struct fl_error *err)
{
    struct fl_ask ask = {.facts = f};

    *c = nothing_yet(f);
    if (f->no_route.code || !fl_gid_of_addr(&f->route.source, &ask.source)) {
        const char *why = f->no_route.code ? f->no_route.text : "the route to it names no source address";

        c->here = false;
        for (int i = 0; i < FL_NR_PATHS; i++)
            fl_why(c->why_not[i], "%.*s", FL_WHY_LEN - 1, why);
        return fl_error_set(err, f->no_route.code ? f->no_route.code : -EHOSTUNREACH, "%s", why);
    }
    return choose(&ask, dev, c, err);
}

int fl_choose_listen(const struct fl_choose_facts *f, const char *dev, struct fl_choice *c,
                     struct fl_error *err)
{
    struct fl_ask ask = {.facts = f, .listen = true, .any = fl_addr_is_any(&f->to)};

    *c = nothing_yet(f);
    c->source = (struct fl_addr){0};
    c->here = true;
    if (!fl_gid_of_addr(&f->to, &ask.source))
        return fl_error_set(err, -EAFNOSUPPORT, "it is no IP address");
    return choose(&ask, dev, c, err);
}
