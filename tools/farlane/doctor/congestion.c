/* SPDX-License-Identifier: Apache-2.0 */
/* What keeps a RoCE fabric from losing packets, and the counters that tell whether it does. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"
#include "snapshot.h"

static void each_roce(struct doctor *d, void (*see)(struct doctor *d, const struct port *p))
{
    struct ports *ports = calloc(1, sizeof(*ports));

    if (!ports)
        return;
    ports_read(d->sys, ports);
    for (int i = 0; i < ports->nr; i++)
        if (ports->at[i].roce && ports->at[i].ifname[0] && ports->at[i].state == PORT_ACTIVE)
            see(d, &ports->at[i]);
    free(ports);
}

/* Priorities whose congestion control is on, as the vendor's driver tells it; -1: it does not */
static int ecn_mask(const struct sys *sys, const char *ifname, const char *side)
{
    int mask = 0;
    bool told = false;

    for (int prio = 0; prio < 8; prio++) {
        int64_t on;

        if (!sys_number(sys, &on, "/sys/class/net/%s/ecn/%s/enable/%d", ifname, side, prio)) {
            told = true;
            mask |= on ? 1 << prio : 0;
        }
    }
    return told ? mask : -1;
}

static void see_control(struct doctor *d, const struct port *p)
{
    struct sys_dcb dcb = {0};
    int r = SYS_ASK(d->sys, dcb, p->ifname, &dcb);
    int point = ecn_mask(d->sys, p->ifname, "roce_np"), rate = ecn_mask(d->sys, p->ifname, "roce_rp");
    char ecn[64] = "not told by this driver";

    if (point >= 0 && rate >= 0)
        snprintf(ecn, sizeof(ecn), "notification 0x%02x, reaction 0x%02x", point, rate);
    if (r < 0 && point < 0) {
        report_unseen(d, p->label, r, "priority flow control and ECN of %s", p->ifname);
        return;
    }
    if ((r >= 0 && dcb.pfc) || (point > 0 && rate > 0))
        report(d, LEVEL_OK, p->label, NULL, "%s: PFC mask 0x%02x%s; ECN: %s", p->ifname, dcb.pfc,
               r < 0 ? " (not told)" : "", ecn);
    else
        report(d, LEVEL_SLOW, p->label, p->ifname, "%s: PFC %s; ECN: %s", p->ifname,
               r < 0 ? "is not told" : "is off for every priority", ecn);
    if (point < 0)
        report_doubt(d, SURE_MAYBE);
}

void check_congestion_control(struct doctor *d)
{
    each_roce(d, see_control);
}

/* The DSCP that connections get: of the connection manager's default, or of the vendor's file; -1: not told
 */
static int roce_dscp(const struct sys *sys, const struct port *p)
{
    int64_t tos;

    if (!sys_number(sys, &tos, "/sys/kernel/config/rdma_cm/%s/ports/%d/default_roce_tos", p->dev, p->port) &&
        tos)
        return (int)(tos >> 2 & 63);
    if (!sys_number(sys, &tos, "/sys/class/infiniband/%s/tc/%d/traffic_class", p->dev, p->port))
        return (int)(tos >> 2 & 63);
    return -1;
}

static void see_dscp(struct doctor *d, const struct port *p)
{
    struct sys_dcb dcb = {0};
    int r = SYS_ASK(d->sys, dcb, p->ifname, &dcb), dscp = roce_dscp(d->sys, p), prio;
    char arg[32];

    if (r < 0 || !dcb.pfc)
        return;
    for (prio = 7; prio > 0 && !(dcb.pfc >> prio & 1); prio--)
        ;
    snprintf(arg, sizeof(arg), "%d", prio);
    if (!dcb.has_dscp) {
        report(d, LEVEL_SLOW, p->label, p->ifname,
               "%s: PFC mask 0x%02x, and no map from DSCP to priority: only VLAN tags would choose a "
               "lossless one",
               p->ifname, dcb.pfc);
        return;
    }
    if (dscp < 0) {
        report(d, LEVEL_UNSEEN, p->label, NULL,
               "%s: PFC mask 0x%02x; which DSCP RoCE sends could not be seen: no file of the connection "
               "manager or driver",
               p->ifname, dcb.pfc);
        return;
    }
    report(d, dcb.pfc >> dcb.dscp_prio[dscp] & 1 ? LEVEL_OK : LEVEL_BAD, p->label, p->ifname,
           "%s: RoCE sends DSCP %d, which has priority %d; PFC mask 0x%02x", p->ifname, dscp,
           dcb.dscp_prio[dscp], dcb.pfc);
}

void check_congestion_dscp(struct doctor *d)
{
    each_roce(d, see_dscp);
}

static void see_pause(struct doctor *d, const struct port *p)
{
    struct sys_dcb dcb = {0};
    bool rx = false, tx = false;
    int r = SYS_ASK(d->sys, pause, p->ifname, &rx, &tx);

    if (r < 0)
        return;
    SYS_ASK(d->sys, dcb, p->ifname, &dcb);
    report(d,
           (rx || tx) && dcb.pfc ? LEVEL_SLOW
           : rx || tx            ? LEVEL_HINT
                                 : LEVEL_OK,
           p->label, p->ifname, "%s: pause of the whole link: receive %s, send %s; PFC mask 0x%02x",
           p->ifname, rx ? "on" : "off", tx ? "on" : "off", dcb.pfc);
}

void check_congestion_pause(struct doctor *d)
{
    each_roce(d, see_pause);
}

/* Which counter belongs to which row; a star stands for any characters */
static const struct rule {
    const char *name, *id;
    enum level level;
} rules[] = {
    {"np_cnp_sent", "congestion-cnp", LEVEL_HINT},
    {"rp_cnp_handled", "congestion-cnp", LEVEL_HINT},
    {"np_ecn_marked_roce_packets", "congestion-cnp", LEVEL_HINT},
    {"rx_discards_phy", "congestion-discards", LEVEL_SLOW},
    {"tx_discards_phy", "congestion-discards", LEVEL_SLOW},
    {"rx_prio*_discards", "congestion-discards", LEVEL_SLOW},
    {"rx_missed_errors", "congestion-discards", LEVEL_SLOW},
    {"out_of_buffer", "congestion-discards", LEVEL_SLOW},
    {"port_xmit_wait", "congestion-pauses", LEVEL_HINT},
    {"rx_prio*_pause", "congestion-pauses", LEVEL_HINT},
    {"tx_prio*_pause", "congestion-pauses", LEVEL_HINT},
    {"rx_pause_ctrl_phy", "congestion-pauses", LEVEL_HINT},
    {"tx_pause_ctrl_phy", "congestion-pauses", LEVEL_HINT},
    {"tx_pause_storm_error_events", "congestion-pauses", LEVEL_BAD},
    {"out_of_sequence", "congestion-retries", LEVEL_SLOW},
    {"packet_seq_err", "congestion-retries", LEVEL_SLOW},
    {"local_ack_timeout_err", "congestion-retries", LEVEL_SLOW},
    {"roce_slow_restart", "congestion-retries", LEVEL_SLOW},
    {"rx_icrc_encapsulated", "congestion-retries", LEVEL_SLOW},
    {"rcvd_seq_err", "congestion-retries", LEVEL_SLOW},
    {"completer_retry_err", "congestion-retries", LEVEL_SLOW},
    {"rnr_nak_retry_err", "congestion-rnr", LEVEL_SLOW},
    {"send_rnr_err", "congestion-rnr", LEVEL_SLOW},
    {"rcvd_rnr_err", "congestion-rnr", LEVEL_SLOW},
};

static bool matches(const char *pattern, const char *name)
{
    const char *star = strchr(pattern, '*');
    size_t before, after, len = strlen(name);

    if (!star)
        return !strcmp(pattern, name);
    before = (size_t)(star - pattern);
    after = strlen(star + 1);
    return len >= before + after && !strncmp(pattern, name, before) && !strcmp(name + len - after, star + 1);
}

static uint64_t value_before(const struct snapshot *s, const struct snapshot_value *v)
{
    for (size_t i = 0; s && i < s->nr; i++)
        if (!strcmp(s->at[i].label, v->label) && !strcmp(s->at[i].name, v->name))
            return s->at[i].value;
    return 0;
}

/* Since the start, or between two looks with a load between them. */
void check_congestion_counters(struct doctor *d)
{
    struct snapshot own = {0};
    const struct snapshot *after = d->after;
    size_t nr_seen = 0, nr_found = 0;

    if (!after) {
        if (snapshot_take(d->sys, &own) < 0)
            return;
        after = &own;
    }
    for (size_t i = 0; i < after->nr; i++) {
        const struct snapshot_value *v = &after->at[i];

        for (size_t n = 0; n < sizeof(rules) / sizeof(rules[0]); n++) {
            uint64_t before = value_before(d->before, v), by;

            if (!matches(rules[n].name, v->name))
                continue;
            nr_seen++;
            by = v->value >= before ? v->value - before : v->value; /* the driver was loaded anew */
            if (!by)
                break;
            nr_found++;
            if (d->before)
                report_as(d, rules[n].id, rules[n].level, v->label, v->name,
                          "%s grew by %llu in %.1f s of load", v->name, (unsigned long long)by, d->load_s);
            else /* nobody knows when: a switch may have been started */
                report_as(d, rules[n].id, rules[n].level == LEVEL_BAD ? LEVEL_BAD : LEVEL_HINT, v->label,
                          v->name,
                          "%s is %llu since the driver's start; --during or --peer tells whether it grows",
                          v->name, (unsigned long long)by);
            break;
        }
    }
    if (nr_seen)
        report(d, LEVEL_OK, "counters", NULL, "%zu counters of congestion looked at, %zu of them %s", nr_seen,
               nr_found, d->before ? "grew" : "are not zero");
    snapshot_free(&own);
}
