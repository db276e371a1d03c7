/* SPDX-License-Identifier: Apache-2.0 */
/* What choose.c (the order of things) and choose_hw.c (is there hardware that leads there?) share. */
#ifndef FL_VERBS_CHOOSE_PARTS_H
#define FL_VERBS_CHOOSE_PARTS_H

#include "verbs/choose.h"

struct fl_ask {
    const struct fl_choose_facts *facts;
    const char *name;       /* the only device that will do; NULL: any */
    bool listen, any;       /* any: on every address */
    struct in6_addr source; /* as a GID */
};

/* True: *port and what is in *choice of it. False: why_not[FL_PATH_HARDWARE] says why. */
bool fl_choose_hardware(const struct fl_ask *ask, struct fl_choice *choice);

/* A reason, cut where it is too long */
void fl_why(char to[FL_WHY_LEN], const char *fmt, ...) FL_PRINTF(2, 3);

bool fl_gid_of_addr(const struct fl_addr *addr, struct in6_addr *gid);
void fl_addr_of_gid(const struct in6_addr *gid, uint32_t ifindex, struct fl_addr *addr);
/* "10.0.0.1", "fe80::1" */
const char *fl_gid_text(const struct in6_addr *gid, char text[INET6_ADDRSTRLEN]);
/* One that could reach a peer of this GID: of the same family, link-local only where that is. */
bool fl_gid_alike(const struct in6_addr *a, const struct in6_addr *b);

#endif
