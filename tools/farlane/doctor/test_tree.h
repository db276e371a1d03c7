/* SPDX-License-Identifier: Apache-2.0 */
/* Fake systems for the tests of doctor: a folder that looks like /, and hooks that read files of its folder
 * hooks/. */
#ifndef FARLANE_DOCTOR_TEST_TREE_H
#define FARLANE_DOCTOR_TEST_TREE_H

#include "base/unit.h"
#include "check.h"

struct tree {
    char root[64];
    struct sys sys;
    struct doctor d;
};

void tree_begin(struct tree *t);
void tree_end(struct tree *t);

void tree_put(struct tree *t, const char *path, const char *fmt, ...) FL_PRINTF(3, 4);
void tree_bytes(struct tree *t, const char *path, const void *bytes, size_t len);
void tree_link(struct tree *t, const char *path, const char *to);
void tree_remove(struct tree *t, const char *path);

/* Runs one check, after forgetting what was found before. */
void tree_run(struct tree *t, const char *id);
/* The finding with this id and subject (NULL: any); fails if there is none or it has another level or
 * evidence. */
const struct finding *tree_expect(struct tree *t, const char *id, const char *subject, enum level level,
                                  const char *evidence);
/* There must be no finding with this id */
void tree_expect_none(struct tree *t, const char *id);

/* An active port: RoCE with its interface, or InfiniBand (ifname NULL). */
void tree_port(struct tree *t, const char *dev, const char *ifname);
void tree_gid(struct tree *t, const char *dev, int index, const char *gid, const char *type,
              const char *ifname);
void tree_interface(struct tree *t, const char *ifname, int mtu);

#endif
