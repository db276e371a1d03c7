/* SPDX-License-Identifier: Apache-2.0 */
/* Asymmetric namespace access (base specification 2.0, 8.1): each port has a state for each group. */
#include <errno.h>

#include "target/core.h"

static const struct {
    const char *name;
    enum fl_nvme_ana_state state;
} states[] = {
    {"optimized", FL_NVME_ANA_OPTIMIZED},
    {"non-optimized", FL_NVME_ANA_NON_OPTIMIZED},
    {"inaccessible", FL_NVME_ANA_INACCESSIBLE},
    {"persistent-loss", FL_NVME_ANA_PERSISTENT_LOSS},
    {"change", FL_NVME_ANA_CHANGE},
};

static void set_here(struct fl_round_leg *leg)
{
    struct fl_tport *port = leg->round->arg[0];
    uint32_t group = (uint32_t)(uintptr_t)leg->round->arg[1];

    port->worker_ana[leg->worker->index * (FL_ANA_GROUPS + 1) + group] = (uint8_t)(uintptr_t)
                                                                             leg->round->arg[2];
    fl_round_ack(leg);
}

/* Hosts are told when no loop serves the old state any more. */
static void set_everywhere(struct fl_round *round)
{
    struct fl_tport *port = round->arg[0];

    fl_aer_ana_changed(round->target, port);
    port->nr_queues--;
    fl_tport_put(port);
}

int fl_target_set_ana(struct fl_target *target, uint32_t listener_id, uint32_t group, const char *state,
                      struct fl_error *err)
{
    struct fl_tport *port;
    struct fl_round *round;
    int value = 0;

    if (!group || group > FL_ANA_GROUPS)
        return fl_error_set(err, -EINVAL, "ANA group %u: groups go from 1 to %u", group, FL_ANA_GROUPS);
    for (size_t i = 0; i < FL_ARRAY_LEN(states); i++)
        if (!strcmp(states[i].name, state))
            value = (int)states[i].state;
    if (!value)
        return fl_error_set(
            err, -EINVAL,
            "ANA state '%s': one of optimized, non-optimized, inaccessible, persistent-loss, change", state);
    fl_list_for_each (port, &target->ports, link) {
        if (port->id != listener_id || port->state == FL_PORT_CLOSED)
            continue;
        round = fl_round_new(target, set_here, set_everywhere);
        if (!round)
            return fl_error_set(err, -ENOMEM, "no memory for the change");
        port->ana[group] = (uint8_t)value;
        port->ana_count++;
        port->nr_queues++; /* holds the port until the round is over */
        round->arg[0] = port;
        round->arg[1] = (void *)(uintptr_t)group;
        round->arg[2] = (void *)(uintptr_t)value;
        fl_round_start(round);
        return 0;
    }
    return fl_error_set(err, -ENOENT, "there is no listener %u", listener_id);
}

const char *fl_target_ana(const struct fl_target *target, uint32_t listener_id, uint32_t group)
{
    const struct fl_tport *port;

    fl_list_for_each (port, &target->ports, link)
        for (size_t i = 0; i < FL_ARRAY_LEN(states) && group && group <= FL_ANA_GROUPS; i++)
            if (port->id == listener_id && port->state != FL_PORT_CLOSED &&
                port->ana[group] == states[i].state)
                return states[i].name;
    return NULL;
}

/*
 * The log page (0Ch): each group that has a namespace of the subsystem, with its namespaces unless RGO is
 * set. The change count is the port's, since that is what hosts of one controller compare.
 */
void fl_log_ana(struct fl_tctrl *ctrl, struct fl_log_page *page, bool groups_only)
{
    struct fl_subsystem *ss = ctrl->ss;
    uint32_t nr[FL_ANA_GROUPS + 1] = {0}, nr_groups = 0;
    struct fl_nvme_ana_header header = {.chgcnt = le64_of(ctrl->port->ana_count + ss->ana_count)};

    for (uint32_t nsid = 1; nsid <= FL_NSID_MAX; nsid++) {
        struct fl_tns *ns = fl_tns_find(ss, nsid);

        if (ns && !nr[ns->ana_group]++)
            nr_groups++;
    }
    header.ngrps = le16_of((uint16_t)nr_groups);
    fl_log_add(page, &header, sizeof(header));
    for (uint32_t g = 1; g <= FL_ANA_GROUPS; g++) {
        struct fl_nvme_ana_group group = {
            .grpid = le32_of(g),
            .nnsids = le32_of(groups_only ? 0 : nr[g]),
            .chgcnt = le64_of(ctrl->port->ana_count + ss->ana_count),
            .state = ctrl->port->ana[g],
        };

        if (!nr[g])
            continue;
        fl_log_add(page, &group, sizeof(group));
        for (uint32_t nsid = 1; !groups_only && nsid <= FL_NSID_MAX; nsid++) {
            struct fl_tns *ns = fl_tns_find(ss, nsid);
            le32 id = le32_of(nsid);

            if (ns && ns->ana_group == g)
                fl_log_add(page, &id, sizeof(id));
        }
    }
}
