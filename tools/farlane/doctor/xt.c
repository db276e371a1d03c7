/* SPDX-License-Identifier: Apache-2.0 */
#include <netinet/in.h> /* before those of the kernel, which then leave its part out */

#include <linux/netfilter.h>
#include <linux/netfilter/x_tables.h>
#include <linux/netfilter/xt_multiport.h>
#include <linux/netfilter/xt_tcpudp.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <string.h>

#include "xt.h"

static void note_range(struct sys_chain *chain, bool udp, uint16_t first, uint16_t last)
{
    if (first == 0 && last == UINT16_MAX)
        return; /* any port: the rule is about something else */
    if (udp)
        chain->names_4791 |= first <= 4791 && last >= 4791;
    else
        chain->names_4420 |= first <= 4420 && last >= 4420;
}

/* Of both protocols: which one a rule means stands outside of the match. */
static void note_ports(struct sys_chain *chain, uint16_t first, uint16_t last)
{
    note_range(chain, true, first, last);
    note_range(chain, false, first, last);
}

static void take_tcp(const void *info, size_t len, struct sys_chain *chain)
{
    struct xt_tcp tcp;

    if (len < sizeof(tcp)) {
        chain->unclear = true;
        return;
    }
    memcpy(&tcp, info, sizeof(tcp));
    if (tcp.invflags & XT_TCP_INV_DSTPT)
        chain->unclear = true;
    else
        note_range(chain, false, tcp.dpts[0], tcp.dpts[1]);
}

static void take_udp(const void *info, size_t len, struct sys_chain *chain)
{
    struct xt_udp udp;

    if (len < sizeof(udp)) {
        chain->unclear = true;
        return;
    }
    memcpy(&udp, info, sizeof(udp));
    if (udp.invflags & XT_UDP_INV_DSTPT)
        chain->unclear = true;
    else
        note_range(chain, true, udp.dpts[0], udp.dpts[1]);
}

static void take_multiport(const void *info, size_t len, struct sys_chain *chain)
{
    struct xt_multiport_v1 m;

    if (len < sizeof(m)) {
        chain->unclear = true;
        return;
    }
    memcpy(&m, info, sizeof(m));
    if (m.invert || m.count > XT_MULTI_PORTS) {
        chain->unclear = true;
        return;
    }
    if (m.flags == XT_MULTIPORT_SOURCE)
        return;
    for (int i = 0; i < m.count; i++) {
        const bool range = m.pflags[i] && i + 1 < m.count;

        note_ports(chain, m.ports[i], m.ports[i + range]);
        i += range;
    }
}

void xt_take_match(const char *name, const void *info, size_t len, struct sys_chain *chain)
{
    /* They make a rule narrower, and do not say which port. */
    static const char *const plain[] = {"conntrack", "state", "comment", "limit",
                                        "addrtype",  "icmp",  "icmp6"};

    if (!strcmp(name, "tcp")) {
        take_tcp(info, len, chain);
    } else if (!strcmp(name, "udp")) {
        take_udp(info, len, chain);
    } else if (!strcmp(name, "multiport")) {
        take_multiport(info, len, chain);
    } else {
        for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++)
            if (!strcmp(name, plain[i]))
                return;
        chain->unclear = true;
    }
}

/* What both kinds of entries have behind their addresses */
struct entry {
    size_t matches, target, next; /* offsets from the entry's begin */
};

static bool entry_read(const uint8_t *at, size_t left, bool ip6, struct entry *e)
{
    const size_t matches = ip6 ? sizeof(struct ip6t_entry) : sizeof(struct ipt_entry);
    const size_t offsets = ip6 ? offsetof(struct ip6t_entry, target_offset)
                               : offsetof(struct ipt_entry, target_offset);
    uint16_t pair[2];

    if (left < matches)
        return false;
    memcpy(pair, at + offsets, sizeof(pair));
    *e = (struct entry){matches, pair[0], pair[1]};
    return e->target >= matches && e->next >= e->target + sizeof(struct xt_entry_target) && e->next <= left;
}

/* A match or a target: its length, and its name, which may lack its end. */
static size_t part_read(const uint8_t *at, size_t left, char name[XT_EXTENSION_MAXNAMELEN + 1])
{
    uint16_t len;

    if (left < sizeof(struct xt_entry_match))
        return 0;
    memcpy(&len, at, sizeof(len));
    memcpy(name, at + offsetof(struct xt_entry_match, u.user.name), XT_EXTENSION_MAXNAMELEN);
    name[XT_EXTENSION_MAXNAMELEN] = 0;
    return len >= sizeof(struct xt_entry_match) && len <= left ? len : 0;
}

static bool take_matches(const uint8_t *at, const struct entry *e, struct sys_chain *chain)
{
    char name[XT_EXTENSION_MAXNAMELEN + 1];
    size_t len;

    for (size_t i = e->matches; i < e->target; i += len) {
        len = part_read(at + i, e->target - i, name);
        if (!len)
            return false;
        xt_take_match(name, at + i + sizeof(struct xt_entry_match), len - sizeof(struct xt_entry_match),
                      chain);
    }
    return true;
}

/* The standard target has no name, and a verdict: -1 less than that of netfilter. */
static bool is_drop(const uint8_t *at, const struct entry *e)
{
    char name[XT_EXTENSION_MAXNAMELEN + 1];
    int32_t verdict;

    if (part_read(at + e->target, e->next - e->target, name) < sizeof(struct xt_standard_target) || name[0])
        return false;
    memcpy(&verdict, at + e->target + offsetof(struct xt_standard_target, verdict), sizeof(verdict));
    return verdict == -NF_DROP - 1;
}

bool xt_take_table(const void *entries, size_t len, bool ip6, size_t policy, struct sys_chain *chain)
{
    const uint8_t *at = entries;
    struct entry e;

    for (size_t i = 0; i < len; i += e.next) {
        if (!entry_read(at + i, len - i, ip6, &e) || !take_matches(at + i, &e, chain))
            return false;
        if (i == policy)
            chain->drops = is_drop(at + i, &e);
    }
    return true;
}
