/* SPDX-License-Identifier: Apache-2.0 */
/* A made-up /sys and /dev below a folder of the test's own. */
#ifndef FL_VERBS_TEST_TREE_H
#define FL_VERBS_TEST_TREE_H

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/unit.h"
#include "verbs/devices.h"

static char tree[64]; /* the folder that stands for / */

static inline int tree_remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    return remove(path);
}

static inline int tree_begin(void **state)
{
    strcpy(tree, "/tmp/farlane-tree-XXXXXX");
    return mkdtemp(tree) ? 0 : -1;
}

static inline int tree_end(void **state)
{
    return nftw(tree, tree_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file, and the folders that it lies in. A path that ends in / is a folder. */
static inline void tree_put(const char *text, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static inline void tree_put(const char *text, const char *fmt, ...)
{
    char path[512];
    va_list args;
    FILE *f;
    int at = snprintf(path, sizeof(path), "%s/", tree);

    va_start(args, fmt);
    vsnprintf(path + at, sizeof(path) - (size_t)at, fmt, args);
    va_end(args);
    for (char *slash = path + at; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(path, 0755);
        *slash = '/';
    }
    if (path[strlen(path) - 1] == '/')
        return;
    f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "%s\n", text);
    fclose(f);
}

/* A device with one port, its file, and the connection manager's. */
static inline void tree_device(const char *device, int number, const char *state, const char *link_layer)
{
    char uverbs[32];

    snprintf(uverbs, sizeof(uverbs), "uverbs%d", number);
    tree_put("1: CA", "sys/class/infiniband/%s/node_type", device);
    tree_put(state, "sys/class/infiniband/%s/ports/1/state", device);
    tree_put(link_layer, "sys/class/infiniband/%s/ports/1/link_layer", device);
    tree_put("100 Gb/sec (4X EDR)", "sys/class/infiniband/%s/ports/1/rate", device);
    tree_put(device, "sys/class/infiniband_verbs/%s/ibdev", uverbs);
    tree_put("", "dev/infiniband/%s", uverbs);
    tree_put("", "dev/infiniband/rdma_cm");
}

static inline void tree_gid(const char *device, int index, const char *gid, const char *type,
                            const char *ifname)
{
    tree_put(gid, "sys/class/infiniband/%s/ports/1/gids/%d", device, index);
    if (type)
        tree_put(type, "sys/class/infiniband/%s/ports/1/gid_attrs/types/%d", device, index);
    if (ifname)
        tree_put(ifname, "sys/class/infiniband/%s/ports/1/gid_attrs/ndevs/%d", device, index);
}

#endif
