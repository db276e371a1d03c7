/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "verbs/gid_rank.h"

static bool in_subnet(const struct in6_addr *a, const struct in6_addr *b, uint8_t len)
{
    uint8_t bytes = len / 8, mask = (uint8_t)(0xff << (8 - len % 8));

    if (!len || len > 128 || memcmp(a, b, bytes))
        return false;
    return len % 8 == 0 || ((a->s6_addr[bytes] ^ b->s6_addr[bytes]) & mask) == 0;
}

static bool is_loopback(const struct in6_addr *a)
{
    return IN6_IS_ADDR_LOOPBACK(a) || (IN6_IS_ADDR_V4MAPPED(a) && a->s6_addr[12] == 127);
}

static enum fl_gid_rank rank_v2(const struct fl_gid_entry *e, const struct in6_addr *peer)
{
    bool v4 = IN6_IS_ADDR_V4MAPPED(&e->gid), have_peer = !IN6_IS_ADDR_UNSPECIFIED(peer);

    if (is_loopback(&e->gid))
        return have_peer && is_loopback(peer) ? FL_GID_ON_LINK : FL_GID_LOOPBACK;
    if (IN6_IS_ADDR_LINKLOCAL(&e->gid)) /* every Ethernet has this subnet: the peer's may be another one */
        return have_peer && IN6_IS_ADDR_LINKLOCAL(peer) ? FL_GID_SAME_KIND : FL_GID_LINK_LOCAL;
    if (have_peer && in_subnet(&e->gid, peer, e->prefix_len))
        return FL_GID_ON_LINK;
    return v4 == (have_peer ? IN6_IS_ADDR_V4MAPPED(peer) : true) ? FL_GID_SAME_KIND : FL_GID_OTHER_KIND;
}

static enum fl_gid_rank rank(const struct fl_gid_entry *e, const struct in6_addr *peer)
{
    if (IN6_IS_ADDR_UNSPECIFIED(&e->gid))
        return FL_GID_EMPTY;
    if (e->type == FL_GID_UNKNOWN)
        return FL_GID_NO_TYPE;
    if (e->down)
        return FL_GID_DOWN;
    return e->type == FL_GID_IB ? FL_GID_NATIVE : e->type == FL_GID_ROCE_V1 ? FL_GID_V1 : rank_v2(e, peer);
}

static int by_rank(const void *a, const void *b)
{
    const struct fl_gid_choice *x = a, *y = b;

    return x->rank != y->rank ? (int)x->rank - (int)y->rank : x->entry->index - y->entry->index;
}

int fl_gid_rank(const struct fl_gid_entry *entries, int nr, const struct fl_gid_wish *wish,
                struct fl_gid_choice *choices)
{
    int nr_usable = 0;

    for (int i = 0; i < nr; i++) {
        choices[i] = (struct fl_gid_choice){&entries[i], rank(&entries[i], &wish->peer)};
        nr_usable += fl_gid_is_usable(choices[i].rank);
    }
    qsort(choices, (size_t)nr, sizeof(*choices), by_rank);
    return nr_usable;
}

const char *fl_gid_rank_why(enum fl_gid_rank rank)
{
    static const char *const why[] = {
        [FL_GID_ON_LINK] = "RoCE v2, in the peer's subnet",
        [FL_GID_SAME_KIND] = "RoCE v2, routable",
        [FL_GID_OTHER_KIND] = "RoCE v2, routable, of the other IP family",
        [FL_GID_LINK_LOCAL] = "RoCE v2, but link-local: within one Ethernet only",
        [FL_GID_V1] = "RoCE v1: no router passes it, and both ends must choose it",
        [FL_GID_NATIVE] = "InfiniBand",
        [FL_GID_LOOPBACK] = "an address of the loopback, which no other machine reaches",
        [FL_GID_DOWN] = "its interface is down",
        [FL_GID_NO_TYPE] = "its type cannot be read: its interface may be in another network namespace",
        [FL_GID_EMPTY] = "empty",
    };

    return why[rank];
}

enum fl_gid_type fl_gid_type_parse(const char *text, bool ib)
{
    if (!strncmp(text, "RoCE v2", 7))
        return FL_GID_ROCE_V2;
    if (!strncmp(text, "IB/RoCE v1", 10))
        return ib ? FL_GID_IB : FL_GID_ROCE_V1;
    return FL_GID_UNKNOWN;
}
