/* SPDX-License-Identifier: Apache-2.0 */
/* Data centre bridging, asked of the driver by rtnetlink. No privileges. */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/dcbnl.h>
#include <linux/rtnetlink.h>
#include <string.h>

#include "live.h"

void dcb_parse(const struct nlmsghdr *message, struct sys_dcb *dcb)
{
    struct netlink_view ieee, pfc, table, app;
    uint16_t type;

    memset(dcb, 0, sizeof(*dcb));
    if (!netlink_find(netlink_body(message, sizeof(struct dcbmsg)), DCB_ATTR_IEEE, &ieee))
        return;
    if (netlink_find(ieee, DCB_ATTR_IEEE_PFC, &pfc) && pfc.len >= 2)
        dcb->pfc = pfc.at[offsetof(struct ieee_pfc, pfc_en)];
    if (!netlink_find(ieee, DCB_ATTR_IEEE_APP_TABLE, &table))
        return;
    while (netlink_next(&table, &type, &app)) {
        struct dcb_app entry;

        if (app.len < sizeof(entry))
            continue;
        memcpy(&entry, app.at, sizeof(entry));
        if (entry.selector != IEEE_8021QAZ_APP_SEL_DSCP || entry.protocol > 63 || entry.priority > 7)
            continue;
        dcb->has_dscp = true;
        dcb->dscp_prio[entry.protocol] = entry.priority;
    }
}

static void take(void *arg, const struct nlmsghdr *message)
{
    dcb_parse(message, arg);
}

int live_dcb(const struct sys *sys, const char *ifname, struct sys_dcb *dcb)
{
    const struct dcbmsg head = {.dcb_family = AF_UNSPEC, .cmd = DCB_CMD_IEEE_GET};
    struct netlink_ask ask;

    memset(dcb, 0, sizeof(*dcb));
    netlink_begin(&ask, RTM_GETDCB, 0, &head, sizeof(head));
    netlink_attr(&ask, DCB_ATTR_IFNAME, ifname, strlen(ifname) + 1);
    return netlink_run(NETLINK_ROUTE, &ask, false, take, dcb);
}
