/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "port.h"
#include "snapshot.h"

#define COUNTERS_MAX 4096

static int put(struct snapshot *s, const char *label, const char *name, uint64_t value)
{
    struct snapshot_value *v;

    if (s->nr == s->cap) {
        size_t cap = s->cap ? 2 * s->cap : 256;

        v = realloc(s->at, cap * sizeof(*v));
        if (!v)
            return -ENOMEM;
        s->at = v;
        s->cap = cap;
    }
    v = &s->at[s->nr++];
    *v = (struct snapshot_value){.value = value};
    strncpy(v->label, label, sizeof(v->label) - 1);
    strncpy(v->name, name, sizeof(v->name) - 1);
    return 0;
}

static int take_folder(const struct sys *sys, struct snapshot *s, const struct port *p, const char *folder)
{
    struct sys_names *names = malloc(sizeof(*names));
    int64_t value;
    int r = names ? 0 : -ENOMEM;

    if (names)
        sys_list(sys, names, "/sys/class/infiniband/%s/ports/%d/%s", p->dev, p->port, folder);
    for (int i = 0; names && i < names->nr && !r; i++)
        if (!sys_number(sys, &value, "/sys/class/infiniband/%s/ports/%d/%s/%s", p->dev, p->port, folder,
                        names->name[i]))
            r = put(s, p->label, names->name[i], (uint64_t)value);
    free(names);
    return r;
}

static int take_interface(const struct sys *sys, struct snapshot *s, const char *ifname,
                          struct sys_counter *counters)
{
    static const char *const names[] = {"rx_dropped", "tx_dropped", "rx_missed_errors", "rx_errors",
                                        "tx_errors"};
    int64_t value;
    int r = 0, nr = SYS_ASK(sys, counters, ifname, counters, COUNTERS_MAX);

    for (int i = 0; i < nr && !r; i++)
        r = put(s, ifname, counters[i].name, counters[i].value);
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]) && !r; i++)
        if (!sys_number(sys, &value, "/sys/class/net/%s/statistics/%s", ifname, names[i]))
            r = put(s, ifname, names[i], (uint64_t)value);
    return r;
}

int snapshot_take(const struct sys *sys, struct snapshot *snapshot)
{
    struct ports *ports = calloc(1, sizeof(*ports));
    struct nics *nics = calloc(1, sizeof(*nics));
    struct sys_counter *counters = calloc(COUNTERS_MAX, sizeof(*counters));
    int r = ports && nics && counters ? 0 : -ENOMEM;

    *snapshot = (struct snapshot){0};
    if (!r) {
        ports_read(sys, ports);
        nics_read(sys, nics);
    }
    for (int i = 0; !r && i < ports->nr; i++) {
        r = take_folder(sys, snapshot, &ports->at[i], "hw_counters");
        if (!r)
            r = take_folder(sys, snapshot, &ports->at[i], "counters");
    }
    for (int i = 0; !r && i < nics->nr; i++)
        if (nic_counts(&nics->at[i]))
            r = take_interface(sys, snapshot, nics->at[i].name, counters);
    free(ports);
    free(nics);
    free(counters);
    if (r < 0)
        snapshot_free(snapshot);
    return r;
}

void snapshot_free(struct snapshot *snapshot)
{
    free(snapshot->at);
    *snapshot = (struct snapshot){0};
}
