/* SPDX-License-Identifier: Apache-2.0 */
/* What a process counted, as text: for people, at its end or when it wants to say. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/size.h"
#include "rnic/stats.h"

static void print_counters(FILE *f, const struct fl_counter_info *infos, const uint64_t *counters, int nr)
{
    for (int i = 0; i < nr; i++) {
        if (counters[i])
            fprintf(f, "    %14" PRIu64 "  %-26s %s\n", counters[i], infos[i].name, infos[i].help);
    }
}

static bool any(const uint64_t *counters, int nr)
{
    for (int i = 0; i < nr; i++) {
        if (counters[i])
            return true;
    }
    return false;
}

static void each_qp(struct fl_rnic *rnic, void (*see)(const struct fl_stats_qp *qp, void *arg), void *arg)
{
    struct fl_stats_qp copy;
    for (size_t row = 0; row < FL_ARRAY_LEN(rnic->qps.at); row++) {
        for (uint32_t i = 0; rnic->qps.at[row] && i < 1 << 12; i++) {
            if (rnic->qps.at[row][i]) {
                fl_stats_qp(rnic->qps.at[row][i], &copy);
                see(&copy, arg);
            }
        }
    }
}

static void print_qp(const struct fl_stats_qp *qp, void *f)
{
    fprintf(f, "  queue pair 0x%06x of %s: %s%s%s: %s\n", qp->qpn, qp->device, qp->path,
            qp->how[0] ? ", " : "", qp->how, qp->reason);
}

static void print_gone(const struct fl_stats_gone *sum, void *f)
{
    const struct fl_stats_qp *qp = &sum->qp;
    const uint64_t *c = qp->counters;
    char text[FL_SIZE_TEXT_LEN];
    fprintf(f, "  %u queue pair%s of %s, destroyed: %s%s%s: %s (%s sent", sum->nr_qps,
            sum->nr_qps == 1 ? "" : "s", qp->device, qp->path, qp->how[0] ? ", " : "", qp->how, qp->reason,
            fl_size_format(c[FL_QP_COUNTER_tx_bytes] + c[FL_QP_COUNTER_message_tx_bytes], text));
    if (c[FL_QP_COUNTER_direct_bytes])
        fprintf(f, ", %s in the peer's memory", fl_size_format(c[FL_QP_COUNTER_direct_bytes], text));
    fputs(")\n", f);
}

struct sum {
    const char *device;
    uint64_t counters[FL_NR_QP_COUNTERS];
};

static void add_qp(const struct fl_stats_qp *qp, void *arg)
{
    struct sum *sum = arg;
    for (int i = 0; i < FL_NR_QP_COUNTERS && !strcmp(sum->device, qp->device); i++)
        sum->counters[i] += qp->counters[i];
}

static void print_devices(struct fl_rnic *rnic, FILE *f)
{
    const struct fl_device *device;
    pthread_mutex_lock(&fl_devices_lock);
    fl_list_for_each (device, fl_devices(), link) {
        struct sum sum = {.device = device->device.name};
        memcpy(sum.counters, device->gone, sizeof(device->gone));
        if (rnic)
            each_qp(rnic, add_qp, &sum);
        if (!any(sum.counters, FL_NR_QP_COUNTERS))
            continue;
        fprintf(f, "  %s (%s):\n", device->device.name, device->ifname);
        print_counters(f, fl_qp_counters, sum.counters, FL_NR_QP_COUNTERS);
    }
    pthread_mutex_unlock(&fl_devices_lock);
}

static void print_all(struct fl_rnic *rnic, void *arg)
{
    uint64_t counters[FL_NR_PROCESS_COUNTERS], now[FL_NR_PROCESS_COUNTERS] = {0};
    FILE *f = arg;
    if (!fl_stats_past(counters) && !rnic)
        return;
    if (rnic)
        fl_stats_process(rnic, now);
    for (int i = 0; i < FL_NR_PROCESS_COUNTERS; i++)
        counters[i] += now[i];
    fprintf(f, "farlane: software RNIC of process %d (%s)\n", (int)getpid(), program_invocation_short_name);
    if (rnic)
        each_qp(rnic, print_qp, f);
    fl_stats_gone_each(print_gone, f);
    print_devices(rnic, f);
    fprintf(f, "  port:\n");
    print_counters(f, fl_process_counters, counters, FL_NR_PROCESS_COUNTERS);
}

void fl_rnic_stats_print(FILE *f)
{
    fl_rnic_look(print_all, f);
}

/* In one piece, so that processes that end together do not mix their lines. */
static void print_at_exit(void)
{
    const char *to = secure_getenv("FARLANE_RNIC_STATS");
    char *text = NULL;
    size_t len = 0;
    FILE *memory = open_memstream(&text, &len), *f;
    if (memory) {
        fl_rnic_stats_print(memory);
        fclose(memory);
    }
    if (!len || !to)
        goto free_text;
    f = strcmp(to, "stderr") ? fopen(to, "ae") : stderr;
    if (!f || fwrite(text, 1, len, f) != len || fflush(f))
        FL_WARN("FARLANE_RNIC_STATS: %s cannot be written: %s", to, strerror(errno));
    if (f && f != stderr)
        fclose(f);
free_text:
    free(text);
}

void fl_stats_at_exit(void)
{
    const char *to = secure_getenv("FARLANE_RNIC_STATS");
    if (to && *to)
        atexit(print_at_exit);
}
