/* SPDX-License-Identifier: Apache-2.0 */
/* `farlane rnic` for programs: JSON, and what Prometheus reads. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "rnic.h"

/* ---- JSON ---- */

/* What another process says may be no UTF-8. */
static json_t *text(const char *from)
{
    char copy[256];

    snprintf(copy, sizeof(copy), "%s", from);
    return json_string(fl_utf8_make_harmless(copy));
}

static json_t *counters_json(const struct fl_counter_info *infos, const uint64_t *counters, int nr)
{
    json_t *json = json_object();

    for (int i = 0; i < nr; i++)
        json_object_set_new(json, infos[i].name, json_integer((json_int_t)counters[i]));
    return json;
}

static void add_device(const struct fl_device *d, void *list)
{
    char gid[INET6_ADDRSTRLEN];
    json_t *gids = json_array();

    for (int i = 0; i < d->nr_gids; i++) {
        if (!IN6_IS_ADDR_UNSPECIFIED(&d->gids[i].addr))
            json_array_append_new(gids, json_pack("{s:i, s:s, s:b}", "index", i, "gid",
                                                  rnic_gid(&d->gids[i].addr, gid), "assigned",
                                                  d->gids[i].assigned));
    }
    json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:i, s:i, s:I, s:o}", "name", d->device.name,
                                          "interface", d->ifname, "state", d->up ? "active" : "down", "mtu",
                                          128 << fl_device_mtu(d), "interface_mtu", (int)d->if_mtu,
                                          "speed_mbps", (json_int_t)d->speed_mbps, "gids", gids));
}

json_t *rnic_json_devices(void)
{
    json_t *list = json_array();

    rnic_each_device(add_device, list);
    return list;
}

static json_t *qp_json(const struct fl_stats_qp *qp)
{
    char gid[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
    json_t *json = json_pack("{s:I, s:s, s:s, s:o, s:I, s:I, s:I}", "number", (json_int_t)qp->qpn, "type",
                             rnic_qp_type(qp->type), "state", rnic_qp_state(qp->state), "device",
                             text(qp->device), "mtu", (json_int_t)qp->mtu, "sends_posted",
                             (json_int_t)qp->nr_sends, "receives_posted", (json_int_t)qp->nr_recvs);

    json_object_set_new(json, "gid", qp->peer_qpn ? json_string(rnic_gid(&qp->gid, gid)) : json_null());
    json_object_set_new(json, "peer_gid",
                        qp->peer_qpn ? json_string(rnic_gid(&qp->peer_gid, peer)) : json_null());
    json_object_set_new(json, "peer_number", qp->peer_qpn ? json_integer(qp->peer_qpn) : json_null());
    json_object_set_new(json, "path", text(qp->path));
    json_object_set_new(json, "how", text(qp->how));
    json_object_set_new(json, "source_ports", json_integer(qp->nr_ports));
    json_object_set_new(json, "reason", text(qp->reason));
    json_object_set_new(json, "limited_to_bytes_per_s",
                        qp->rate ? json_integer((json_int_t)qp->rate) : json_null());
    json_object_set_new(json, "counters", counters_json(fl_qp_counters, qp->counters, FL_NR_QP_COUNTERS));
    return json;
}

static void add_details(json_t *json, const struct fl_stats_view *view)
{
    json_t *devices = json_array(), *qps = json_array();
    uint64_t counters[FL_NR_QP_COUNTERS];

    for (uint32_t i = 0; i < view->nr_devices; i++) {
        const struct fl_stats_device *d = &view->devices[i];

        fl_stats_sum(view, d, counters);
        json_array_append_new(devices, json_pack("{s:o, s:o, s:o}", "name", text(d->name), "interface",
                                                 text(d->ifname), "counters",
                                                 counters_json(fl_qp_counters, counters, FL_NR_QP_COUNTERS)));
    }
    for (uint32_t i = 0; i < view->nr_qps; i++)
        json_array_append_new(qps, qp_json(&view->qps[i]));
    json_object_set_new(json, "counters",
                        counters_json(fl_process_counters, view->process.counters, FL_NR_PROCESS_COUNTERS));
    json_object_set_new(json, "devices", devices);
    json_object_set_new(json, "queue_pairs", qps);
}

json_t *rnic_json_processes(const struct rnic_look *look)
{
    json_t *list = json_array();

    for (int i = 0; i < look->nr_processes; i++) {
        const struct rnic_process *p = &look->processes[i];
        json_t *json = json_pack("{s:i, s:o, s:I, s:o, s:I, s:s, s:b}", "pid", p->pid, "command",
                                 text(p->command), "uid", (json_int_t)p->uid, "user", text(p->user), "slot",
                                 (json_int_t)p->slot, "role", p->is_hub ? "hub" : "member", "details",
                                 p->status == 0);

        if (p->status)
            json_object_set_new(json, "why", json_string(rnic_why(p->status)));
        else
            add_details(json, &p->view);
        json_array_append_new(list, json);
    }
    return list;
}

/* ---- Prometheus ---- */

static void label(const char *name, const char *value)
{
    printf("%s=\"", name);
    for (; *value; value++) {
        if (*value == '"' || *value == '\\')
            putchar('\\');
        putchar(*value);
    }
    putchar('"');
}

static void process_labels(const struct rnic_process *p)
{
    char command[sizeof(p->command)];

    strcpy(command, p->command);
    printf("{pid=\"%d\",", p->pid);
    label("command", fl_utf8_make_harmless(command));
}

static void family(const char *name, const char *suffix, const char *help, const char *type)
{
    printf("# HELP farlane_rnic_%s%s %s\n# TYPE farlane_rnic_%s%s %s\n", name, suffix, help, name, suffix,
           type);
}

static void device_family(const struct rnic_look *look, int counter)
{
    uint64_t counters[FL_NR_QP_COUNTERS];

    family(fl_qp_counters[counter].name, "_total", fl_qp_counters[counter].help, "counter");
    for (int i = 0; i < look->nr_processes; i++) {
        const struct rnic_process *p = &look->processes[i];

        for (uint32_t k = 0; k < p->view.nr_devices; k++) {
            char name[sizeof(p->view.devices[k].name)];

            strcpy(name, p->view.devices[k].name);
            fl_stats_sum(&p->view, &p->view.devices[k], counters);
            printf("farlane_rnic_%s_total", fl_qp_counters[counter].name);
            process_labels(p);
            putchar(',');
            label("device", fl_utf8_make_harmless(name));
            printf("} %" PRIu64 "\n", counters[counter]);
        }
    }
}

void rnic_prometheus(const struct rnic_look *look)
{
    family("queue_pairs", "", "queue pairs of a process", "gauge");
    for (int i = 0; i < look->nr_processes; i++) {
        if (look->processes[i].status)
            continue;
        printf("farlane_rnic_queue_pairs");
        process_labels(&look->processes[i]);
        printf("} %u\n", look->processes[i].view.process.nr_qps);
    }
    for (int c = 0; c < FL_NR_PROCESS_COUNTERS; c++) {
        family(fl_process_counters[c].name, "_total", fl_process_counters[c].help, "counter");
        for (int i = 0; i < look->nr_processes; i++) {
            if (look->processes[i].status)
                continue;
            printf("farlane_rnic_%s_total", fl_process_counters[c].name);
            process_labels(&look->processes[i]);
            printf("} %" PRIu64 "\n", look->processes[i].view.process.counters[c]);
        }
    }
    for (int c = 0; c < FL_NR_QP_COUNTERS; c++)
        device_family(look, c);
}
