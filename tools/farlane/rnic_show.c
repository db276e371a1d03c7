/* SPDX-License-Identifier: Apache-2.0 */
/* `farlane rnic` for people: tables. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "base/util.h"
#include "rnic.h"
#include "term.h"

static void heading(const char *title)
{
    printf("%s%s%s\n", term_on(stdout, TERM_BOLD), title, term_off(stdout));
}

/* Column heads without a row tell nothing. nothing: what to say then; NULL: no word. */
static void print_or_say(struct table *t, const char *nothing)
{
    const bool empty = t->nr_cells == t->nr_columns;

    table_hide_empty(t);
    if (!empty) {
        table_print(t, stdout, 0);
        return;
    }
    table_free(t);
    if (nothing)
        puts(nothing);
}

/* ---- devices ---- */

static void add_device(const struct fl_device *d, void *arg)
{
    struct table *t = arg;
    char text[INET6_ADDRSTRLEN], rate[FL_SIZE_TEXT_LEN], mtu[16];
    bool first = true;

    snprintf(mtu, sizeof(mtu), "%u", 128u << fl_device_mtu(d));
    for (int i = 0; i < d->nr_gids; i++) {
        if (IN6_IS_ADDR_UNSPECIFIED(&d->gids[i].addr))
            continue;
        table_cell(t, "%s", first ? d->device.name : "");
        table_cell(t, "%s", first ? d->ifname : "");
        table_cell(t, "%s", first ? d->up ? "active" : "down" : "");
        table_cell(t, "%s", first ? mtu : "");
        table_cell(t, "%s", first && d->speed_mbps ? fl_rate_format(d->speed_mbps * 125e3, rate) : "");
        table_cell(t, "%d", i);
        table_cell(t, "%s", rnic_gid(&d->gids[i].addr, text));
        table_cell(t, "%s", d->gids[i].assigned ? "" : "made of the MAC: the interface has no such address");
        first = false;
    }
}

void rnic_show_devices(void)
{
    struct table t;

    table_init(&t, "DEVICE", "INTERFACE", "STATE", ">MTU", ">SPEED", ">INDEX", "GID", "", NULL);
    rnic_each_device(add_device, &t);
    print_or_say(&t, "no device: no interface that is up has an IP address");
}

/* ---- processes ---- */

static void rate_cell(struct table *t, const struct rnic_look *look, const struct rnic_process *p)
{
    char text[FL_SIZE_TEXT_LEN];
    double seconds = (double)(look->at_ns - look->before_ns) / 1e9;
    uint64_t moved = rnic_moved(p);

    if (!look->before_ns || p->status || moved < p->moved_before)
        table_cell(t, "-");
    else
        table_cell(t, "%s", fl_rate_format((double)(moved - p->moved_before) / seconds, text));
}

void rnic_show_processes(const struct rnic_look *look)
{
    char text[FL_SIZE_TEXT_LEN];
    struct table t;

    table_init(&t, ">PID", "COMMAND", "USER", ">SLOT", "ROLE", ">QPS", ">MOVED", ">RATE", "", NULL);
    for (int i = 0; i < look->nr_processes; i++) {
        const struct rnic_process *p = &look->processes[i];

        table_cell(&t, p->pid ? "%d" : "?", p->pid);
        table_cell(&t, "%s", p->command);
        table_cell(&t, "%s", p->user);
        table_cell(&t, "%u", p->slot);
        table_cell(&t, "%s", p->is_hub ? "hub" : "member");
        table_cell(&t, p->status ? "-" : "%u", p->view.process.nr_qps);
        table_cell(&t, "%s", p->status ? "-" : fl_size_format(rnic_moved(p), text));
        rate_cell(&t, look, p);
        table_cell(&t, "%s", p->status ? rnic_why(p->status) : "");
    }
    table_hide_empty(&t);
    table_print(&t, stdout, 0);
}

/* ---- queue pairs ---- */

static const char *peer_address(const struct fl_stats_qp *qp, char text[INET6_ADDRSTRLEN])
{
    if (!qp->peer_qpn)
        return "-";
    rnic_gid(&qp->peer_gid, text);
    return strncmp(text, "::ffff:", 7) ? text : text + 7;
}

static void add_qp(struct table *t, const struct rnic_process *p, const struct fl_stats_qp *qp)
{
    char text[INET6_ADDRSTRLEN], size[FL_SIZE_TEXT_LEN];
    const uint64_t *c = qp->counters;

    table_cell(t, "%d", p->pid);
    table_cell(t, "0x%06x", qp->qpn);
    table_cell(t, "%s", rnic_qp_type(qp->type));
    table_cell(t, "%s", rnic_qp_state(qp->state));
    table_cell(t, "%s", qp->device);
    table_cell(t, "%s", peer_address(qp, text));
    table_cell(t, qp->peer_qpn ? "0x%06x" : "-", qp->peer_qpn);
    table_cell(t, "%s", qp->path);
    table_cell(t, qp->nr_ports > 1 ? "%s over %u ports" : "%s", qp->how[0] ? qp->how : "-", qp->nr_ports);
    table_cell(t, "%s", fl_size_format(c[FL_QP_COUNTER_tx_bytes] + c[FL_QP_COUNTER_message_tx_bytes], size));
    table_cell(t, "%s", fl_size_format(c[FL_QP_COUNTER_rx_bytes] + c[FL_QP_COUNTER_message_rx_bytes], size));
    table_cell(t, "%s",
               c[FL_QP_COUNTER_direct_bytes] ? fl_size_format(c[FL_QP_COUNTER_direct_bytes], size) : "-");
    table_cell(t, c[FL_QP_COUNTER_resent_packets] ? "%" PRIu64 : "-", c[FL_QP_COUNTER_resent_packets]);
    table_cell(t, "%s", qp->rate ? fl_rate_format((double)qp->rate, size) : "-");
    table_cell(t, "%s", qp->reason);
}

void rnic_show_qps(const struct rnic_look *look)
{
    bool seen = false; /* one that may be looked at */
    struct table t;

    table_init(&t, ">PID", ">QP", "TYPE", "STATE", "DEVICE", "PEER", ">PEER QP", "PATH", "HOW", ">SENT",
               ">RECEIVED", ">DIRECT", ">RESENT", ">LIMITED TO", "WHY", NULL);
    for (int i = 0; i < look->nr_processes; i++) {
        const struct rnic_process *p = &look->processes[i];

        seen = seen || !p->status;
        for (uint32_t k = 0; k < p->view.nr_qps; k++)
            add_qp(&t, p, &p->view.qps[k]);
    }
    print_or_say(&t, seen ? "no queue pair now" : NULL);
}

/* ---- counters ---- */

static void show_counters(const struct fl_counter_info *infos, const uint64_t *counters, int nr)
{
    struct table t;

    table_init(&t, ">COUNT", "COUNTER", "", NULL);
    for (int i = 0; i < nr; i++) {
        if (!counters[i])
            continue;
        table_cell(&t, "%" PRIu64, counters[i]);
        table_cell(&t, "%s", infos[i].name);
        table_cell(&t, "%s", infos[i].help);
    }
    if (t.nr_cells == t.nr_columns)
        table_cell(&t, "0"), table_cell(&t, "all"), table_cell(&t, "nothing yet");
    table_print(&t, stdout, 2);
}

static void show_process(const struct rnic_process *p)
{
    uint64_t counters[FL_NR_QP_COUNTERS];
    char title[256];

    snprintf(title, sizeof(title), "process %d (%s) of %s, slot %u, %s", p->pid, p->command, p->user, p->slot,
             p->is_hub ? "hub" : "member");
    heading(title);
    if (p->status) {
        printf("  %s\n", rnic_why(p->status));
        return;
    }
    show_counters(fl_process_counters, p->view.process.counters, FL_NR_PROCESS_COUNTERS);
    for (uint32_t i = 0; i < p->view.nr_devices; i++) {
        const struct fl_stats_device *d = &p->view.devices[i];
        bool any = false;

        fl_stats_sum(&p->view, d, counters);
        for (int c = 0; c < FL_NR_QP_COUNTERS; c++)
            any = any || counters[c];
        if (!any)
            continue;
        printf("  device %s (%s), all its queue pairs:\n", d->name, d->ifname);
        show_counters(fl_qp_counters, counters, FL_NR_QP_COUNTERS);
    }
}

static void show_qp(const struct rnic_process *p, const struct fl_stats_qp *qp)
{
    char text[INET6_ADDRSTRLEN];

    printf("%squeue pair 0x%06x (%u)%s of process %d (%s): %s, %s, %s, peer %s queue pair 0x%06x\n",
           term_on(stdout, TERM_BOLD), qp->qpn, qp->qpn, term_off(stdout), p->pid, p->command, qp->device,
           rnic_qp_type(qp->type), rnic_qp_state(qp->state), peer_address(qp, text), qp->peer_qpn);
    printf("  path %s%s%s, %u bytes of payload a packet, %u sends and %u receives posted\n  why: %s\n",
           qp->path, qp->how[0] ? ", " : "", qp->how, qp->mtu, qp->nr_sends, qp->nr_recvs, qp->reason);
    show_counters(fl_qp_counters, qp->counters, FL_NR_QP_COUNTERS);
}

int rnic_show_counters(const struct rnic_look *look, uint32_t qpn)
{
    int nr = 0;

    for (int i = 0; i < look->nr_processes; i++) {
        const struct rnic_process *p = &look->processes[i];

        if (!qpn) {
            show_process(p);
            nr++;
        }
        for (uint32_t k = 0; qpn && k < p->view.nr_qps; k++) {
            if (p->view.qps[k].qpn != qpn)
                continue;
            show_qp(p, &p->view.qps[k]);
            nr++;
        }
    }
    return nr;
}
