/* SPDX-License-Identifier: Apache-2.0 */
/* Pause and counters of an interface, by ethtool's ioctl. No privileges. */
#include <errno.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "live.h"

#define STATS_MAX 16384

static int ask(const char *ifname, void *data)
{
    struct ifreq req = {.ifr_data = data};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), r = 0;

    if (fd < 0)
        return -errno;
    snprintf(req.ifr_name, sizeof(req.ifr_name), "%s", ifname);
    if (ioctl(fd, SIOCETHTOOL, &req) < 0)
        r = -errno;
    close(fd);
    return r;
}

int live_pause(const struct sys *sys, const char *ifname, bool *rx, bool *tx)
{
    struct ethtool_pauseparam pause = {.cmd = ETHTOOL_GPAUSEPARAM};
    int r = ask(ifname, &pause);

    *rx = pause.rx_pause;
    *tx = pause.tx_pause;
    return r;
}

int live_counters(const struct sys *sys, const char *ifname, struct sys_counter *counters, int max)
{
    struct ethtool_drvinfo info = {.cmd = ETHTOOL_GDRVINFO};
    struct ethtool_gstrings *names;
    struct ethtool_stats *stats;
    uint32_t nr;
    int r = ask(ifname, &info);

    if (r < 0)
        return r;
    nr = info.n_stats < STATS_MAX ? info.n_stats : 0;
    if (!nr)
        return 0;
    /* A driver may have got more of them since: both answers are looked at again */
    names = calloc(1, sizeof(*names) + 2 * (size_t)nr * ETH_GSTRING_LEN);
    stats = calloc(1, sizeof(*stats) + 2 * (size_t)nr * sizeof(uint64_t));
    if (!names || !stats) {
        free(names);
        free(stats);
        return -ENOMEM;
    }
    *names = (struct ethtool_gstrings){.cmd = ETHTOOL_GSTRINGS, .string_set = ETH_SS_STATS, .len = nr};
    *stats = (struct ethtool_stats){.cmd = ETHTOOL_GSTATS, .n_stats = nr};
    r = ask(ifname, names);
    if (!r)
        r = ask(ifname, stats);
    if (!r && (names->len != nr || stats->n_stats != nr))
        r = -EAGAIN;
    for (uint32_t i = 0; !r && i < nr && (int)i < max; i++) {
        snprintf(counters[i].name, sizeof(counters[i].name), "%.*s", ETH_GSTRING_LEN,
                 (const char *)names->data + (size_t)i * ETH_GSTRING_LEN);
        counters[i].value = stats->data[i];
    }
    free(names);
    free(stats);
    return r < 0 ? r : (int)nr < max ? (int)nr : max;
}
