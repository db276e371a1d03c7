/* SPDX-License-Identifier: Apache-2.0 */
/* Members of sys_live_ops by file, and their parts that tests give bytes to. */
#ifndef FARLANE_DOCTOR_LIVE_H
#define FARLANE_DOCTOR_LIVE_H

#include "netlink.h"
#include "sys.h"

int live_dcb(const struct sys *sys, const char *ifname, struct sys_dcb *dcb);
int live_pause(const struct sys *sys, const char *ifname, bool *rx, bool *tx);
int live_counters(const struct sys *sys, const char *ifname, struct sys_counter *counters, int max);
int live_firewall(const struct sys *sys, struct sys_chain *chains, int max);
int live_iptables(const struct sys *sys, bool ip6, struct sys_chain *chain);
int live_gpu_register(const struct sys *sys, int gpu, const char *dev, enum sys_register how, char *why,
                      size_t len);

/* An answer to DCB_CMD_IEEE_GET */
void dcb_parse(const struct nlmsghdr *message, struct sys_dcb *dcb);

struct firewall_parse {
    struct sys_chain *chains;
    int nr, max;
};
/* Messages of the dumps of chains, then of rules */
void firewall_take_chain(struct firewall_parse *p, const struct nlmsghdr *message);
void firewall_take_rule(struct firewall_parse *p, const struct nlmsghdr *message);

#endif
