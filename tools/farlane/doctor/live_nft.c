/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Base chains of nftables for packets that arrive, and which ports their tables' rules compare with. It reads
 * no more into rules than that: what a rule does is proved by packets (--peer).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nf_tables_compat.h>
#include <linux/netfilter/nfnetlink.h>
#include <string.h>

#include "live.h"
#include "xt.h"

static void text_of(struct netlink_view body, uint16_t type, char text[SYS_NAME_LEN])
{
    struct netlink_view v;

    text[0] = 0;
    if (netlink_find(body, type, &v) && v.len) {
        size_t len = v.len < SYS_NAME_LEN ? v.len : SYS_NAME_LEN - 1;

        memcpy(text, v.at, len);
        text[len] = 0;
    }
}

static bool number_of(struct netlink_view body, uint16_t type, uint32_t *value)
{
    struct netlink_view v;

    if (!netlink_find(body, type, &v) || v.len < 4)
        return false;
    memcpy(value, v.at, 4);
    *value = ntohl(*value);
    return true;
}

void firewall_take_chain(struct firewall_parse *p, const struct nlmsghdr *message)
{
    struct netlink_view body = netlink_body(message, sizeof(struct nfgenmsg)), hook;
    struct sys_chain chain = {0};
    uint32_t number, policy = NF_ACCEPT;

    if (!netlink_find(body, NFTA_CHAIN_HOOK, &hook) || !number_of(hook, NFTA_HOOK_HOOKNUM, &number) ||
        number != NF_INET_LOCAL_IN || p->nr == p->max)
        return; /* no base chain, or one for other packets */
    number_of(body, NFTA_CHAIN_POLICY, &policy);
    text_of(body, NFTA_CHAIN_TABLE, chain.table);
    text_of(body, NFTA_CHAIN_NAME, chain.name);
    chain.drops = policy == NF_DROP;
    p->chains[p->nr++] = chain;
}

static bool compares_with(struct netlink_view data, uint16_t port)
{
    struct netlink_view value, bytes;

    return netlink_find(data, NFTA_CMP_DATA, &value) && netlink_find(value, NFTA_DATA_VALUE, &bytes) &&
           bytes.len == 2 && (bytes.at[0] << 8 | bytes.at[1]) == port;
}

/* A rule that iptables-nft made may have matches in the old form. */
static void take_match(struct netlink_view data, struct sys_chain *seen)
{
    struct netlink_view info = {0};
    char name[SYS_NAME_LEN];

    text_of(data, NFTA_MATCH_NAME, name);
    netlink_find(data, NFTA_MATCH_INFO, &info);
    xt_take_match(name, info.at, info.len, seen);
}

void firewall_take_rule(struct firewall_parse *p, const struct nlmsghdr *message)
{
    struct netlink_view body = netlink_body(message, sizeof(struct nfgenmsg)), list, expr, data;
    char table[SYS_NAME_LEN], name[SYS_NAME_LEN];
    bool roce = false, nvme = false, unclear = false;
    struct sys_chain seen = {0};
    uint16_t type;

    text_of(body, NFTA_RULE_TABLE, table);
    if (!netlink_find(body, NFTA_RULE_EXPRESSIONS, &list))
        return;
    while (netlink_next(&list, &type, &expr)) {
        text_of(expr, NFTA_EXPR_NAME, name);
        unclear |= !strcmp(name, "lookup") || !strcmp(name, "range");
        if (!netlink_find(expr, NFTA_EXPR_DATA, &data))
            continue;
        if (!strcmp(name, "match"))
            take_match(data, &seen);
        if (strcmp(name, "cmp"))
            continue;
        roce |= compares_with(data, 4791);
        nvme |= compares_with(data, 4420);
    }
    for (int i = 0; i < p->nr; i++) {
        if (strcmp(p->chains[i].table, table))
            continue;
        p->chains[i].names_4791 |= roce || seen.names_4791;
        p->chains[i].names_4420 |= nvme || seen.names_4420;
        p->chains[i].unclear |= unclear || seen.unclear;
    }
}

static void take_chain(void *arg, const struct nlmsghdr *message)
{
    firewall_take_chain(arg, message);
}

static void take_rule(void *arg, const struct nlmsghdr *message)
{
    firewall_take_rule(arg, message);
}

int live_firewall(const struct sys *sys, struct sys_chain *chains, int max)
{
    const struct nfgenmsg head = {.nfgen_family = AF_UNSPEC, .version = NFNETLINK_V0};
    struct firewall_parse parse = {.chains = chains, .max = max};
    struct netlink_ask ask;
    int r;

    netlink_begin(&ask, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETCHAIN, NLM_F_DUMP, &head, sizeof(head));
    r = netlink_run(NETLINK_NETFILTER, &ask, true, take_chain, &parse);
    if (r == -EINVAL) /* nfnetlink has no such part: the module is not loaded, so there are no rules */
        return 0;
    if (r < 0)
        return r;
    netlink_begin(&ask, NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETRULE, NLM_F_DUMP, &head, sizeof(head));
    r = netlink_run(NETLINK_NETFILTER, &ask, true, take_rule, &parse);
    return r < 0 ? r : parse.nr;
}
