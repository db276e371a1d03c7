/* SPDX-License-Identifier: Apache-2.0 */
/* Buffers and settings of UDP (the software RNIC) and TCP (NVMe/TCP), and what they have lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* What the software RNIC asks for (src/rnic/port/socket.c) */
#define UDP_BUFFER (8 << 20)
/* 100 Gb/s over 1 ms hold 12 MB; less bounds one connection's rate between halls */
#define TCP_BUFFER (16 << 20)

void check_net_udp_buffers(struct doctor *d)
{
    static const char *const names[] = {"rmem_max", "wmem_max"};

    for (int i = 0; i < 2; i++) {
        int64_t value;
        char want[32];
        int r = sys_number(d->sys, &value, "/proc/sys/net/core/%s", names[i]);

        snprintf(want, sizeof(want), "%d", UDP_BUFFER);
        if (r == -ENOENT)
            report_unseen(d, names[i], -EOPNOTSUPP, "net.core.%s (another network namespace than the first)",
                          names[i]);
        else if (r < 0)
            report_unseen(d, names[i], r, "net.core.%s", names[i]);
        else if (value < UDP_BUFFER && sys_capable(d->sys, SYS_NET_ADMIN))
            report(d, LEVEL_OK, names[i], NULL,
                   "net.core.%s is %lld; this user may exceed it (CAP_NET_ADMIN)", names[i],
                   (long long)value);
        else
            report(d, value < UDP_BUFFER ? LEVEL_SLOW : LEVEL_OK, names[i], want,
                   "net.core.%s is %lld, the software RNIC asks for %d", names[i], (long long)value,
                   UDP_BUFFER);
    }
}

void check_net_udp_drops(struct doctor *d)
{
    char *text = sys_read_all(d->sys, "/proc/net/snmp"), *text6 = sys_read_all(d->sys, "/proc/net/snmp6");
    int64_t drops, drops6 = 0, taken;

    if (!text) {
        report_unseen(d, "UDP", -errno, "/proc/net/snmp");
    } else {
        drops = sys_pair(text, "Udp", "RcvbufErrors");
        taken = sys_pair(text, "Udp", "InDatagrams");
        if (text6 && sys_field(text6, "Udp6RcvbufErrors", &drops6) < 0)
            drops6 = 0;
        if (drops >= 0)
            report(d, drops + drops6 ? LEVEL_SLOW : LEVEL_OK, "UDP", NULL,
                   "%lld datagrams found a full buffer since the start, %lld were delivered (IPv4)",
                   (long long)(drops + drops6), (long long)taken);
    }
    free(text);
    free(text6);
}

void check_net_udp_checksum(struct doctor *d)
{
    char *text = sys_read_all(d->sys, "/proc/net/snmp");
    int64_t bad = sys_pair(text, "Udp", "InCsumErrors");

    if (bad >= 0)
        report(d, bad ? LEVEL_SLOW : LEVEL_OK, "UDP", NULL,
               "%lld datagrams had a wrong checksum since the start", (long long)bad);
    free(text);
}

void check_net_tcp_buffers(struct doctor *d)
{
    static const char *const names[] = {"tcp_rmem", "tcp_wmem"};

    for (int i = 0; i < 2; i++) {
        char text[SYS_TEXT_LEN], want[64];
        long long min, start, max;
        ssize_t n = sys_read(d->sys, text, sizeof(text), "/proc/sys/net/ipv4/%s", names[i]);

        if (n < 0 || sscanf(text, "%lld %lld %lld", &min, &start, &max) != 3) {
            report_unseen(d, names[i], n < 0 ? (int)n : -EINVAL, "net.ipv4.%s", names[i]);
            continue;
        }
        snprintf(want, sizeof(want), "%lld %lld %d", min, start, TCP_BUFFER);
        report(d, max < TCP_BUFFER ? LEVEL_HINT : LEVEL_OK, names[i], want,
               "net.ipv4.%s grows to %lld bytes; one connection at 100 Gb/s over 1 ms needs 12 MB", names[i],
               max);
    }
}

/* Settings that cost throughput when somebody switched them off; all are 1 by default */
void check_net_tcp_options(struct doctor *d)
{
    static const char *const names[] = {"tcp_sack", "tcp_window_scaling", "tcp_moderate_rcvbuf",
                                        "tcp_timestamps"};

    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        int64_t value;

        if (!sys_number(d->sys, &value, "/proc/sys/net/ipv4/%s", names[i]))
            report(d, value ? LEVEL_OK : LEVEL_SLOW, names[i], NULL, "net.ipv4.%s is %lld", names[i],
                   (long long)value);
    }
}

void check_net_tcp_loss(struct doctor *d)
{
    char *text = sys_read_all(d->sys, "/proc/net/snmp");
    int64_t out = sys_pair(text, "Tcp", "OutSegs");
    int64_t again = sys_pair(text, "Tcp", "RetransSegs");

    if (out > 0 && again >= 0) {
        double share = 100.0 * (double)again / (double)out;

        /* Between two machines of one hall a thousandth is much already */
        report(d, again > 1000 && share > 0.1 ? LEVEL_SLOW : LEVEL_OK, "TCP", NULL,
               "%lld of %lld segments were sent again since the start (%.3f %%)", (long long)again,
               (long long)out, share);
    }
    free(text);
}
