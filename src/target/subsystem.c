/* SPDX-License-Identifier: Apache-2.0 */
/* Subsystems and who may use them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "target/core.h"

/* FNV-1a, so that a subsystem keeps its serial number over restarts without anybody storing it. */
static uint64_t hash_text(const char *text)
{
    uint64_t h = UINT64_C(0xcbf29ce484222325);

    for (; *text; text++)
        h = (h ^ (uint8_t)*text) * UINT64_C(0x100000001b3);
    return h;
}

bool fl_subsystem_text_ok(const char *text, size_t max)
{
    const size_t len = strnlen(text, max + 1);

    for (size_t i = 0; i < len; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    return len <= max;
}

static int check_options(struct fl_target *target, const struct fl_subsystem_options *o, struct fl_error *err)
{
    int r = fl_nqn_check(o->nqn, FL_NQN_FIELD_LEN, err);

    if (r < 0)
        return r;
    if (fl_subsystem_find(target, o->nqn))
        return fl_error_set(err, -EEXIST, "subsystem %s is there already", o->nqn);
    if (target->discovery && fl_nqn_is_discovery(o->nqn))
        return fl_error_set(err, -EEXIST, "the discovery subsystem is always there");
    if (o->serial && !fl_subsystem_text_ok(o->serial, 20))
        return fl_error_set(err, -EINVAL, "serial number '%s': at most 20 printable ASCII characters",
                            o->serial);
    if (o->model && !fl_subsystem_text_ok(o->model, 40))
        return fl_error_set(err, -EINVAL, "model '%s': at most 40 printable ASCII characters", o->model);
    return 0;
}

void fl_subsystem_free(struct fl_subsystem *ss)
{
    struct fl_host_entry *host, *next;

    fl_list_for_each_safe (host, next, &ss->hosts, link) {
        fl_list_del(&host->link);
        free(host);
    }
    if (ss->tables)
        for (uint32_t i = 0; i < ss->target->nr_workers; i++)
            free(ss->tables[i]);
    free(ss->tables);
    fl_list_del(&ss->link);
    free(ss);
}

int fl_subsystem_add(struct fl_target *target, const struct fl_subsystem_options *o,
                     struct fl_subsystem **out, struct fl_error *err)
{
    struct fl_subsystem *ss;
    int r = check_options(target, o, err);

    if (r < 0)
        return r;
    ss = calloc(1, sizeof(*ss));
    if (!ss)
        return fl_error_set(err, -ENOMEM, "no memory for subsystem %s", o->nqn);
    ss->target = target;
    fl_list_init(&ss->hosts);
    fl_list_init(&ss->link);
    snprintf(ss->nqn, sizeof(ss->nqn), "%s", o->nqn);
    if (o->serial)
        snprintf(ss->serial, sizeof(ss->serial), "%s", o->serial);
    else
        snprintf(ss->serial, sizeof(ss->serial), "%016llX", (unsigned long long)hash_text(o->nqn));
    snprintf(ss->model, sizeof(ss->model), "%s", o->model ? o->model : "farlane");
    ss->allow_any_host = o->allow_any_host;
    ss->discovery = fl_nqn_is_discovery(o->nqn);
    ss->tables = calloc(target->nr_workers, sizeof(*ss->tables));
    for (uint32_t i = 0; ss->tables && i < target->nr_workers; i++) {
        ss->tables[i] = calloc(ss->discovery ? 1 : FL_NSID_MAX + 1, sizeof(**ss->tables));
        if (!ss->tables[i]) {
            fl_subsystem_free(ss);
            return fl_error_set(err, -ENOMEM, "no memory for subsystem %s", o->nqn);
        }
    }
    fl_list_add_tail(&target->subsystems, &ss->link);
    fl_aer_discovery_changed(target);
    if (out)
        *out = ss;
    return 0;
}

struct fl_subsystem *fl_subsystem_find(struct fl_target *target, const char *nqn)
{
    struct fl_subsystem *ss;

    fl_list_for_each (ss, &target->subsystems, link)
        if (!ss->removing && !strcmp(ss->nqn, nqn))
            return ss;
    return NULL;
}

void fl_subsystem_check_removed(struct fl_subsystem *ss)
{
    struct fl_change *change = ss->remove_change;

    if (!ss->removing || ss->nr_controllers || ss->nr_ns || ss->nr_ns_closing)
        return;
    fl_subsystem_free(ss);
    if (change)
        change->done(change, 0, NULL);
}

/* The last step comes by message, so that done() never runs inside the call. */
static void removed(struct fl_round *round)
{
    struct fl_subsystem *ss = round->arg[0];

    ss->nr_ns_closing--;
    fl_subsystem_check_removed(ss);
}

static void ack_only(struct fl_round_leg *leg)
{
    fl_round_ack(leg);
}

void fl_subsystem_remove(struct fl_subsystem *ss, struct fl_change *change)
{
    struct fl_target *target = ss->target;
    struct fl_round *round = fl_round_new(target, ack_only, removed);
    struct fl_tctrl *ctrl, *next;
    struct fl_error err = {0};

    if (ss->discovery || ss->removing || !round) {
        free(round);
        if (change)
            change->done(change,
                         fl_error_set(&err,
                                      ss->discovery ? -EPERM
                                      : round       ? -EALREADY
                                                    : -ENOMEM,
                                      "subsystem %s %s", ss->nqn,
                                      ss->discovery ? "is always there"
                                                    : "is being removed already, or memory is short"),
                         &err);
        return;
    }
    ss->removing = true;
    ss->remove_change = change;
    ss->nr_ns_closing++;
    round->arg[0] = ss;
    fl_list_for_each_safe (ctrl, next, &target->controllers, link)
        if (ctrl->ss == ss)
            fl_tctrl_kill(ctrl, "the subsystem was removed");
    for (uint32_t nsid = 1; nsid <= FL_NSID_MAX; nsid++)
        if (ss->ns[nsid])
            fl_namespace_remove(ss, nsid, UINT32_MAX, NULL);
    fl_aer_discovery_changed(target);
    fl_round_start(round);
}

int fl_subsystem_set_allow_any(struct fl_subsystem *ss, bool allow)
{
    if (ss->allow_any_host != allow) {
        ss->allow_any_host = allow;
        fl_aer_discovery_changed(ss->target);
    }
    return 0;
}

static struct fl_host_entry *find_host(const struct fl_subsystem *ss, const char *nqn)
{
    struct fl_host_entry *host;

    fl_list_for_each (host, &ss->hosts, link)
        if (!strcmp(host->nqn, nqn))
            return host;
    return NULL;
}

bool fl_subsystem_allows(const struct fl_subsystem *ss, const char *hostnqn)
{
    return ss->allow_any_host || find_host(ss, hostnqn);
}

int fl_subsystem_host_add(struct fl_subsystem *ss, const char *hostnqn, struct fl_error *err)
{
    struct fl_host_entry *host;
    int r = fl_nqn_check(hostnqn, FL_NQN_FIELD_LEN, err);

    if (r < 0)
        return r;
    if (find_host(ss, hostnqn))
        return fl_error_set(err, -EEXIST, "host %s is allowed in %s already", hostnqn, ss->nqn);
    host = calloc(1, sizeof(*host));
    if (!host)
        return fl_error_set(err, -ENOMEM, "no memory for host %s", hostnqn);
    snprintf(host->nqn, sizeof(host->nqn), "%s", hostnqn);
    fl_list_init(&host->link);
    fl_list_add_tail(&ss->hosts, &host->link);
    fl_aer_discovery_changed(ss->target);
    return 0;
}

int fl_subsystem_host_remove(struct fl_subsystem *ss, const char *hostnqn, bool keep, struct fl_error *err)
{
    struct fl_host_entry *host = find_host(ss, hostnqn);
    struct fl_tctrl *ctrl, *next;
    uint32_t nr = 0;

    if (!host)
        return fl_error_set(err, -ENOENT, "host %s is not on the list of %s", hostnqn, ss->nqn);
    fl_list_del(&host->link);
    free(host);
    fl_aer_discovery_changed(ss->target);
    if (ss->allow_any_host) /* the list says nothing then, and nobody lost a right */
        return 0;
    fl_list_for_each_safe (ctrl, next, &ss->target->controllers, link) {
        if (ctrl->ss != ss || strcmp(ctrl->hostnqn, hostnqn) || ctrl->dying)
            continue;
        nr++;
        if (!keep)
            fl_tctrl_kill(ctrl, "the host is not allowed any more");
    }
    if (keep && nr)
        FL_WARN("host %s was removed from %s and keeps its %u connected controllers until it disconnects",
                hostnqn, ss->nqn, nr);
    return 0;
}
