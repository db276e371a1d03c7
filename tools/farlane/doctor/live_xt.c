/* SPDX-License-Identifier: Apache-2.0 */
/* The old iptables' table of filters. Asked only where the kernel has it already: the question would load the
 * module. */
#include <assert.h>
#include <errno.h>
#include <netinet/in.h> /* before those of the kernel, which then leave its part out */

#include <linux/netfilter.h>
#include <linux/netfilter_ipv4/ip_tables.h>
#include <linux/netfilter_ipv6/ip6_tables.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "live.h"
#include "xt.h"

#define TABLE "filter"
#define ROOM  (64u << 20)

/* Numbers and layouts of IPv6's questions are those of IPv4's. */
static_assert(IPT_SO_GET_INFO == IP6T_SO_GET_INFO && IPT_SO_GET_ENTRIES == IP6T_SO_GET_ENTRIES, "questions");
static_assert(sizeof(struct ipt_getinfo) == sizeof(struct ip6t_getinfo), "answers");
static_assert(offsetof(struct ipt_get_entries, entrytable) == offsetof(struct ip6t_get_entries, entrytable),
              "answers");

static int read_entries(int fd, int level, bool ip6, const struct ipt_getinfo *info, struct sys_chain *chain)
{
    const size_t head = offsetof(struct ipt_get_entries, entrytable);
    socklen_t len = (socklen_t)(head + info->size);
    struct ipt_get_entries *all = info->size <= ROOM ? calloc(1, len) : NULL;
    int r = all ? 0 : -ENOMEM;

    if (!r) {
        strcpy(all->name, TABLE);
        all->size = info->size;
        if (getsockopt(fd, level, IPT_SO_GET_ENTRIES, all, &len) < 0)
            r = -errno;
        else if (len < head + info->size || !xt_take_table((uint8_t *)all + head, info->size, ip6,
                                                           info->underflow[NF_INET_LOCAL_IN], chain))
            r = -EPROTO;
    }
    free(all);
    return r;
}

int live_iptables(const struct sys *sys, bool ip6, struct sys_chain *chain)
{
    const int level = ip6 ? SOL_IPV6 : SOL_IP;
    int fd = socket(ip6 ? AF_INET6 : AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_RAW), r;
    struct ipt_getinfo info = {.name = TABLE};
    socklen_t len = sizeof(info);

    *chain = (struct sys_chain){.name = "INPUT"};
    strcpy(chain->table, ip6 ? "ip6tables" : "iptables");
    if (fd < 0)
        return -errno;
    r = getsockopt(fd, level, IPT_SO_GET_INFO, &info, &len) < 0 ? -errno : 0;
    if (!r && !(info.valid_hooks >> NF_INET_LOCAL_IN & 1))
        r = -EPROTO;
    if (!r)
        r = read_entries(fd, level, ip6, &info, chain);
    close(fd);
    return r;
}
