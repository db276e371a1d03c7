/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/devices.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <farlane/api.h>

#include "base/util.h"

#define PATH_LEN     512
#define PORTS_MAX    1024
#define IPOIB_HW_LEN 20 /* queue pair number, then the port's GID */

/* ---- small files ---- */

static bool read_line(char *line, size_t size, const char *fmt, ...) FL_PRINTF(3, 4);

/* The first line of a file, without its newline. False: there is none, or it cannot be read. */
static bool read_line(char *line, size_t size, const char *fmt, ...)
{
    char path[PATH_LEN];
    va_list args;
    bool got;
    FILE *f;

    va_start(args, fmt);
    vsnprintf(path, sizeof(path), fmt, args);
    va_end(args);
    f = fopen(path, "re");
    if (!f)
        return false;
    got = fgets(line, (int)size, f);
    fclose(f);
    if (got)
        line[strcspn(line, "\n")] = '\0';
    return got;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strverscmp((*a)->d_name, (*b)->d_name);
}

static int visible(const struct dirent *d)
{
    return d->d_name[0] != '.';
}

/* What is in a folder, in order. 0: nothing, or no such folder. */
static int list(struct dirent ***names, const char *fmt, ...) FL_PRINTF(2, 3);
static int list(struct dirent ***names, const char *fmt, ...)
{
    char path[PATH_LEN];
    va_list args;
    int n;

    va_start(args, fmt);
    vsnprintf(path, sizeof(path), fmt, args);
    va_end(args);
    *names = NULL;
    n = scandir(path, names, visible, by_name);
    return FL_MAX(n, 0);
}

static void free_list(struct dirent **names, int n)
{
    for (int i = 0; i < n; i++)
        free(names[i]);
    free(names);
}

/* ---- a port ---- */

static struct fl_port_gid *add_gid(struct fl_hw_port *p)
{
    struct fl_port_gid *grown = realloc(p->gids, (p->nr_gids + 1) * sizeof(*grown));

    if (!grown)
        return NULL;
    p->gids = grown;
    grown[p->nr_gids] = (struct fl_port_gid){0};
    return &grown[p->nr_gids++];
}

static int read_gid(struct fl_hw_port *p, const char *folder, const char *index)
{
    char line[64];
    struct fl_port_gid *g;
    struct in6_addr gid;

    if (!read_line(line, sizeof(line), "%s/gids/%s", folder, index) || inet_pton(AF_INET6, line, &gid) != 1 ||
        IN6_IS_ADDR_UNSPECIFIED(&gid))
        return 0;
    g = add_gid(p);
    if (!g)
        return -ENOMEM;
    g->gid = gid;
    g->index = atoi(index);
    g->roce_v2 = read_line(line, sizeof(line), "%s/gid_attrs/types/%s", folder, index) &&
                 !strcmp(line, "RoCE v2");
    if (read_line(line, sizeof(line), "%s/gid_attrs/ndevs/%s", folder, index))
        snprintf(g->ifname, sizeof(g->ifname), "%.*s", IF_NAMESIZE - 1, line);
    return 0;
}

static int read_gids(struct fl_hw_port *p, const char *folder)
{
    struct dirent **names;
    int n = list(&names, "%s/gids", folder), r = 0;

    for (int i = 0; i < n && r == 0; i++)
        r = read_gid(p, folder, names[i]->d_name);
    free_list(names, n);
    return r;
}

/* iWARP's GIDs are MACs; which interfaces the device serves stands beside it. */
static int read_netdevs(struct fl_hw_port *p, const char *root)
{
    struct dirent **names;
    int n = list(&names, "%s/sys/class/infiniband/%s/device/net", root, p->device), r = 0;

    for (int i = 0; i < n && r == 0; i++) {
        struct fl_port_gid *g = add_gid(p);

        if (g)
            snprintf(g->ifname, sizeof(g->ifname), "%.*s", IF_NAMESIZE - 1, names[i]->d_name);
        else
            r = -ENOMEM;
    }
    free_list(names, n);
    return r;
}

/* "4: ACTIVE" */
static void read_state(struct fl_hw_port *p, const char *folder)
{
    char line[64] = "", *colon;

    read_line(line, sizeof(line), "%s/state", folder);
    colon = strchr(line, ':');
    p->active = atoi(line) == 4;
    snprintf(p->state, sizeof(p->state), "%.*s", (int)sizeof(p->state) - 1,
             colon && colon[1] ? colon + 2
             : *line           ? line
                               : "unknown");
}

static int read_port(struct fl_hw_port *p, const char *root)
{
    char folder[PATH_LEN], line[64] = "";

    snprintf(folder, sizeof(folder), "%s/sys/class/infiniband/%s/ports/%u", root, p->device, p->port);
    read_state(p, folder);
    if (p->kind != FL_PORT_IWARP)
        p->kind = read_line(line, sizeof(line), "%s/link_layer", folder) && !strcmp(line, "InfiniBand")
                      ? FL_PORT_INFINIBAND
                      : FL_PORT_ROCE;
    if (read_line(line, sizeof(line), "%s/rate", folder))
        snprintf(p->rate, sizeof(p->rate), "%.*s", (int)sizeof(p->rate) - 1, line);
    return p->kind == FL_PORT_IWARP ? read_netdevs(p, root) : read_gids(p, folder);
}

/* ---- devices ---- */

static int look_at(const char *path)
{
    return access(path, R_OK | W_OK) < 0 ? -errno : 0;
}

/* Which uverbsN is the device's. */
static void find_uverbs(struct fl_hw_port *p, const char *root)
{
    struct dirent **names;
    int n = list(&names, "%s/sys/class/infiniband_verbs", root);

    p->access = -ENOENT;
    for (int i = 0; i < n; i++) {
        char line[FL_RDMA_NAME_LEN + 2];

        if (!read_line(line, sizeof(line), "%s/sys/class/infiniband_verbs/%s/ibdev", root,
                       names[i]->d_name) ||
            strcmp(line, p->device))
            continue;
        snprintf(p->uverbs, sizeof(p->uverbs), "%s/dev/infiniband/%.40s", root, names[i]->d_name);
        p->access = look_at(p->uverbs);
        break;
    }
    free_list(names, n);
}

static int add_port(struct fl_hw *hw, const struct fl_hw_port *port)
{
    struct fl_hw_port *grown;

    if (hw->nr_ports >= PORTS_MAX)
        return 0;
    grown = realloc(hw->ports, (hw->nr_ports + 1) * sizeof(*grown));
    if (!grown)
        return -ENOMEM;
    hw->ports = grown;
    grown[hw->nr_ports++] = *port;
    return 0;
}

static int read_device(struct fl_hw *hw, const char *device)
{
    struct fl_hw_port like = {.kind = FL_PORT_ROCE};
    struct dirent **names;
    char line[32] = "";
    int n, r = 0;

    snprintf(like.device, sizeof(like.device), "%.*s", FL_RDMA_NAME_LEN - 1, device);
    if (read_line(line, sizeof(line), "%s/sys/class/infiniband/%s/node_type", hw->root, device) &&
        strstr(line, "RNIC"))
        like.kind = FL_PORT_IWARP;
    find_uverbs(&like, hw->root);
    n = list(&names, "%s/sys/class/infiniband/%s/ports", hw->root, device);
    for (int i = 0; i < n && r == 0; i++) {
        like.port = (uint8_t)atoi(names[i]->d_name);
        r = add_port(hw, &like);
        if (r == 0)
            r = read_port(&hw->ports[hw->nr_ports - 1], hw->root);
    }
    free_list(names, n);
    return r;
}

int fl_hw_read(const char *root, struct fl_hw *hw)
{
    struct dirent **names;
    int n, r = 0;

    *hw = (struct fl_hw){0};
    if ((size_t)snprintf(hw->root, sizeof(hw->root), "%s", root) >= sizeof(hw->root))
        return -ENAMETOOLONG;
    n = list(&names, "%s/sys/class/infiniband", root);
    for (int i = 0; i < n && r == 0; i++)
        r = read_device(hw, names[i]->d_name);
    free_list(names, n);
    snprintf(hw->cm, sizeof(hw->cm), "%s/dev/infiniband/rdma_cm", root);
    hw->cm_access = look_at(hw->cm);
    if (r < 0)
        fl_hw_free(hw);
    return r;
}

void fl_hw_free(struct fl_hw *hw)
{
    for (uint32_t i = 0; i < hw->nr_ports; i++)
        free(hw->ports[i].gids);
    free(hw->ports);
    *hw = (struct fl_hw){0};
}

bool fl_hw_gid_of_ipoib(const char *root, const char *ifname, struct in6_addr *gid)
{
    unsigned int bytes[IPOIB_HW_LEN];
    char line[80], *at = line;
    int n = 0;

    if (!read_line(line, sizeof(line), "%s/sys/class/net/%s/address", root, ifname))
        return false;
    for (; n < IPOIB_HW_LEN; n++) {
        int len = 0;

        if (sscanf(at, n ? ":%2x%n" : "%2x%n", &bytes[n], &len) != 1 || !len)
            return false;
        at += len;
    }
    if (*at)
        return false;
    for (int i = 0; i < 16; i++)
        gid->s6_addr[i] = (uint8_t)bytes[IPOIB_HW_LEN - 16 + i];
    return true;
}
