/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entry of a port's GID table to use, and why: one ranking for whoever chooses and whoever explains. No
 * index is special. Pure functions: the caller reads the table (verbs, sysfs) and the interfaces' addresses.
 * Any thread.
 */
#ifndef FL_VERBS_GID_RANK_H
#define FL_VERBS_GID_RANK_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>

enum fl_gid_type { FL_GID_UNKNOWN, FL_GID_IB, FL_GID_ROCE_V1, FL_GID_ROCE_V2 };

struct fl_gid_entry {
    int index;
    enum fl_gid_type type;
    struct in6_addr gid; /* IPv4 mapped, as RoCE has it; all zero: an empty entry */
    uint8_t
        prefix_len; /* of 128, of the interface's address that it stands for; 0: not known, or no address */
    bool down;      /* its interface is known to be down */
};

/* What the two ends have to agree on. All zero: no peer is known. */
struct fl_gid_wish {
    struct in6_addr peer; /* mapped when it is IPv4; all zero: none */
};

/* In the order of the ranking, best first */
enum fl_gid_rank {
    FL_GID_ON_LINK,    /* RoCE v2, of the peer's subnet */
    FL_GID_SAME_KIND,  /* RoCE v2, routable, of the peer's family (of any, if there is no peer: IPv4 first) */
    FL_GID_OTHER_KIND, /* RoCE v2, routable, of the other family: the peer needs one of it, too */
    FL_GID_LINK_LOCAL, /* RoCE v2, fe80::, within one Ethernet only */
    FL_GID_V1,         /* RoCE v1: within one Ethernet, and both ends must choose it */
    FL_GID_NATIVE,     /* InfiniBand */
    /* not to be used */
    FL_GID_LOOPBACK, /* its address is of the loopback, and the peer is another machine */
    FL_GID_DOWN,
    FL_GID_NO_TYPE, /* its type could not be read */
    FL_GID_EMPTY,
};

struct fl_gid_choice {
    const struct fl_gid_entry *entry;
    enum fl_gid_rank rank;
};

/*
 * Puts all entries in order: choices[0] is the best. Among equals the lower index stands first. Returns how
 * many of them can be used: 0: none. `choices` has room for `nr`; it points into `entries`.
 */
int fl_gid_rank(const struct fl_gid_entry *entries, int nr, const struct fl_gid_wish *wish,
                struct fl_gid_choice *choices);

static inline bool fl_gid_is_usable(enum fl_gid_rank rank)
{
    return rank < FL_GID_LOOPBACK;
}

/* Why an entry stands where it stands, as part of a sentence: "RoCE v2, in the peer's subnet". */
const char *fl_gid_rank_why(enum fl_gid_rank rank);
/* As the kernel writes it in gid_attrs/types: "IB/RoCE v1", "RoCE v2"; `ib`: the port's link layer is
 * InfiniBand. */
enum fl_gid_type fl_gid_type_parse(const char *text, bool ib);

#endif
