/* SPDX-License-Identifier: Apache-2.0 */
/* What the network lost, and what the CPUs had to do, between two looks. */
#include <math.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "advise.h"
#include "base/clock.h"
#include "base/util.h"
#include "doctor/check.h"
#include "doctor/snapshot.h"

/* Fewer segments or packets than this tell nothing of a share of a thousandth, unless so many were sent
 * again. */
#define ENOUGH       20000
#define ENOUGH_AGAIN 20

struct advise_look {
    struct snapshot counters;
    int64_t tcp_sent, tcp_again, tcp_out_of_order, udp_full; /* negative: not known */
    double cpu_s;                                            /* of all CPUs, not idle; negative: not known */
    uint64_t at_ns;
};

static const struct sys live = {.root = "", .ops = &sys_live_ops};

/* CPU time of everything that ran, from the first line of /proc/stat: user nice system idle iowait irq
 * softirq steal. */
static double busy_s(void)
{
    unsigned long long t[8];
    char text[SYS_TEXT_LEN];

    if (sys_read(&live, text, sizeof(text), "/proc/stat") <= 0 ||
        sscanf(text, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &t[0], &t[1], &t[2], &t[3], &t[4], &t[5],
               &t[6], &t[7]) != 8)
        return -1;
    return (double)(t[0] + t[1] + t[2] + t[5] + t[6] + t[7]) / (double)sysconf(_SC_CLK_TCK);
}

struct advise_look *advise_look_take(void)
{
    struct advise_look *look = calloc(1, sizeof(*look));
    char *snmp, *netstat;

    if (!look || snapshot_take(&live, &look->counters) < 0) {
        free(look);
        return NULL;
    }
    snmp = sys_read_all(&live, "/proc/net/snmp");
    netstat = sys_read_all(&live, "/proc/net/netstat");
    look->tcp_sent = sys_pair(snmp, "Tcp", "OutSegs");
    look->tcp_again = sys_pair(snmp, "Tcp", "RetransSegs");
    look->udp_full = sys_pair(snmp, "Udp", "RcvbufErrors");
    look->tcp_out_of_order = sys_pair(netstat, "TcpExt", "TCPOFOQueue");
    free(snmp);
    free(netstat);
    look->cpu_s = busy_s();
    look->at_ns = fl_now_ns();
    return look;
}

void advise_look_free(struct advise_look *look)
{
    if (!look)
        return;
    snapshot_free(&look->counters);
    free(look);
}

/* A container's share: "max 100000" or "150000 100000". */
static double quota(void)
{
    double most, period;
    char text[64];

    if (sys_read(&live, text, sizeof(text), "/sys/fs/cgroup/cpu.max") <= 0 ||
        sscanf(text, "%lf %lf", &most, &period) != 2 || period <= 0)
        return INFINITY;
    return most / period;
}

double advise_cores_free(const struct advise_look *before, const struct advise_look *after)
{
    const double seconds = (double)(after->at_ns - before->at_ns) / 1e9;
    const double all = (double)sysconf(_SC_NPROCESSORS_ONLN);
    double left;
    cpu_set_t mine;

    if (before->cpu_s < 0 || after->cpu_s < 0 || seconds <= 0)
        return -1;
    left = fmax(all - (after->cpu_s - before->cpu_s) / seconds, 0);
    if (sched_getaffinity(0, sizeof(mine), &mine) == 0)
        left = fmin(left, CPU_COUNT(&mine));
    return fmin(left, quota());
}

static uint64_t grown(int64_t before, int64_t after)
{
    return before >= 0 && after > before ? (uint64_t)(after - before) : 0;
}

/* Sums a counter over all processes that wrote: lines of "   123  name   what it is". */
static uint64_t sum_of(const char *text, const char *name)
{
    const size_t len = strlen(name);
    uint64_t sum = 0;
    const char *p, *line_end;

    for (p = text; *p; p = *line_end ? line_end + 1 : line_end) {
        char *end;
        const unsigned long long v = strtoull(p, &end, 10);

        line_end = p + strcspn(p, "\n");
        end += strspn(end, " ");
        if (end != p && !strncmp(end, name, len) && end[len] == ' ')
            sum += v;
    }
    return sum;
}

/* Doctor knows which counters tell of what. */
static void see_counters(const struct advise_look *before, const struct advise_look *after, double seconds,
                         struct advise_seen *seen)
{
    struct snapshot a = before->counters, b = after->counters;
    struct doctor d = {.sys = &live, .before = &a, .after = &b, .load_s = seconds};
    enum level worst = NR_LEVELS;
    size_t i;

    doctor_run(&d, "congestion-counters");
    for (i = 0; i < d.nr_findings; i++) {
        const struct finding *f = &d.findings[i];

        if (f->level > LEVEL_HINT)
            continue;
        seen->nr_counters++;
        seen->counter_is_loss |= f->level <= LEVEL_SLOW;
        if (f->level < worst)
            snprintf(seen->counter, sizeof(seen->counter), "%s: %.150s", f->subject, f->evidence);
        worst = FL_MIN(worst, f->level);
    }
    doctor_free(&d);
}

void advise_see(const struct advise_look *before, const struct advise_look *after, double seconds,
                const char *rnic, struct advise_seen *seen)
{
    *seen = (struct advise_seen){
        .tcp_known = after->tcp_sent >= 0 && after->tcp_again >= 0,
        .tcp_sent = grown(before->tcp_sent, after->tcp_sent),
        .tcp_again = grown(before->tcp_again, after->tcp_again),
        .tcp_out_of_order = grown(before->tcp_out_of_order, after->tcp_out_of_order),
        .boot_sent = grown(0, before->tcp_sent),
        .boot_again = grown(0, before->tcp_again),
        .udp_full = grown(before->udp_full, after->udp_full),
        .rnic_known = rnic[0] != '\0',
        /* What goes by a ring in shared memory is no packet that could be lost. */
        .rnic_sent = sum_of(rnic, "tx_packets") - sum_of(rnic, "ring_tx_packets"),
        .rnic_again = sum_of(rnic, "resent_packets"),
        .rnic_marked = sum_of(rnic, "cnp_rx"),
    };
    see_counters(before, after, seconds, seen);
}

static double share(uint64_t again, uint64_t sent)
{
    return sent >= ENOUGH || (sent && again >= ENOUGH_AGAIN) ? (double)again / (double)sent : -1;
}

double advise_loss(const struct advise_seen *seen, bool since_start)
{
    const double now = fmax(share(seen->tcp_again, seen->tcp_sent), share(seen->rnic_again, seen->rnic_sent));

    return since_start ? fmax(now, share(seen->boot_again, seen->boot_sent)) : now;
}
