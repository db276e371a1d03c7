/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Namespaces: opening (each worker opens its channel) -> active -> removing (out of sight at once; each
 * worker closes its channel when its last command has ended) -> freed. Every step that workers take part in
 * is a round.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/url.h"
#include "target/core.h"

#define REMOVE_DEADLINE_MS 30000u

struct fl_tns *fl_tns_find(struct fl_subsystem *ss, uint32_t nsid)
{
    struct fl_tns *ns = nsid && nsid <= FL_NSID_MAX ? ss->ns[nsid] : NULL;

    return ns && ns->state == FL_NS_ACTIVE ? ns : NULL;
}

void fl_tns_counters(const struct fl_tns *ns, struct fl_io_counters *sum)
{
    memset(sum, 0, sizeof(*sum));
    for (uint32_t i = 0; i < ns->ss->target->nr_workers; i++)
        fl_io_counters_add(sum, &ns->views[i].io);
}

/* ---- removing ---- */

static void free_ns(struct fl_tns *ns)
{
    struct fl_subsystem *ss = ns->ss;
    struct fl_target *target = ss->target;
    struct fl_change *change = ns->change;

    fl_timer_cancel(&ns->deadline);
    fl_backend_close(ns->be);
    for (uint32_t i = 0; i < target->nr_workers; i++)
        free((void *)(uintptr_t)ns->views[i].resv);
    free(ns->views);
    free(ns);
    ss->nr_ns_closing--;
    target->nr_closing_ns--;
    if (change)
        change->done(change, 0, NULL);
    fl_subsystem_check_removed(ss);
    fl_target_check_stopped(target);
}

void fl_tns_hold(struct fl_tns *ns)
{
    ns->nr_holds++;
}

void fl_tns_put(struct fl_tns *ns)
{
    if (!--ns->nr_holds && ns->unused)
        free_ns(ns);
}

static void all_closed(struct fl_round *round)
{
    struct fl_tns *ns = round->arg[0];

    ns->unused = true;
    if (!ns->nr_holds)
        free_ns(ns);
}

static void close_view(struct fl_msg *msg)
{
    struct fl_round_leg *leg = FL_CONTAINER_OF(msg, struct fl_round_leg, msg);
    struct fl_tns *ns = leg->round->arg[0];
    struct fl_ns_view *view = &ns->views[leg->worker->index];

    if (view->chan)
        fl_chan_close(view->chan);
    view->chan = NULL;
    fl_round_ack(leg);
}

void fl_view_idle(struct fl_ns_view *view)
{
    struct fl_round_leg *leg = view->close;

    if (!leg)
        return;
    view->close = NULL;
    leg->msg.run = close_view; /* by message: this may be inside the channel's own completion */
    fl_loop_post(view->worker->loop, &leg->msg);
}

static void detach(struct fl_round_leg *leg)
{
    struct fl_tns *ns = leg->round->arg[0];
    struct fl_ns_view *view = &ns->views[leg->worker->index];
    struct fl_ns_view **table = ns->ss->tables[leg->worker->index];

    view->removing = true;
    if (table[ns->nsid] == view)
        table[ns->nsid] = NULL;
    view->close = leg;
    if (!view->nr_in_flight)
        fl_view_idle(view);
}

static void remove_late(struct fl_timer *timer)
{
    struct fl_tns *ns = FL_CONTAINER_OF(timer, struct fl_tns, deadline);
    struct fl_change *change = ns->change;
    struct fl_error err = {0};

    ns->change = NULL;
    FL_WARN("namespace %u of %s (%s) is gone for hosts, its I/O has not ended yet", ns->nsid, ns->ss->nqn,
            ns->spec);
    if (change)
        change->done(change,
                     fl_error_set(&err, -ETIMEDOUT,
                                  "namespace %u of %s is gone for hosts, but its I/O has not ended in time; "
                                  "%s is closed when it does",
                                  ns->nsid, ns->ss->nqn, ns->spec),
                     &err);
}

static void start_removal(struct fl_tns *ns)
{
    struct fl_subsystem *ss = ns->ss;
    struct fl_round *round = fl_round_new(ss->target, detach, all_closed);

    if (!round) { /* tried again by the next removal; nothing is lost but time */
        FL_ERR("no memory to remove namespace %u of %s", ns->nsid, ss->nqn);
        return;
    }
    ns->state = FL_NS_REMOVING;
    ss->ns[ns->nsid] = NULL;
    ss->nr_ns--;
    ss->nr_ns_closing++;
    ss->target->nr_closing_ns++;
    round->arg[0] = ns;
    fl_aer_ns_changed(ss, ns->nsid);
    fl_round_start(round);
}

void fl_namespace_remove(struct fl_subsystem *ss, uint32_t nsid, uint32_t deadline_ms,
                         struct fl_change *change)
{
    struct fl_tns *ns = nsid && nsid <= FL_NSID_MAX ? ss->ns[nsid] : NULL;
    struct fl_error err = {0};

    if (!ns || ns->remove_asked) {
        int r = fl_error_set(&err, ns ? -EALREADY : -ENOENT, "namespace %u of %s %s", nsid, ss->nqn,
                             ns ? "is being removed already" : "does not exist");

        if (change)
            change->done(change, r, &err);
        return;
    }
    ns->remove_asked = true;
    ns->change = change;
    if (change) {
        ns->deadline.expired = remove_late;
        fl_timer_set(ss->target->loop, &ns->deadline,
                     fl_loop_now(ss->target->loop) +
                         (deadline_ms ? deadline_ms : REMOVE_DEADLINE_MS) * FL_NS_PER_MS);
    }
    if (ns->state == FL_NS_ACTIVE)
        start_removal(ns); /* opening: it follows when all channels are open */
}

/* ---- adding ---- */

static void attach(struct fl_round_leg *leg)
{
    struct fl_tns *ns = leg->round->arg[0];
    struct fl_ns_view *view = &ns->views[leg->worker->index];
    int r = fl_chan_open(ns->be, leg->worker->loop, &view->chan);

    if (r < 0)
        __atomic_store_n(&leg->round->result, r, __ATOMIC_RELAXED);
    else
        ns->ss->tables[leg->worker->index][ns->nsid] = view;
    fl_round_ack(leg);
}

static void attached(struct fl_round *round)
{
    struct fl_tns *ns = round->arg[0];

    ns->state = FL_NS_ACTIVE;
    if (round->result < 0 && !ns->remove_asked) {
        FL_ERR("namespace %u of %s (%s) cannot be used: %s", ns->nsid, ns->ss->nqn, ns->spec,
               strerror(-round->result));
        ns->remove_asked = true;
    }
    if (ns->remove_asked) {
        start_removal(ns);
        return;
    }
    if (ns->resv.type)
        fl_resv_publish(ns, NULL, NULL);
    fl_aer_ns_changed(ns->ss, ns->nsid);
}

static int choose_nsid(struct fl_subsystem *ss, uint32_t *nsid, struct fl_error *err)
{
    if (ss->discovery || ss->removing)
        return fl_error_set(err, -EPERM, "subsystem %s takes no namespaces", ss->nqn);
    if (*nsid > FL_NSID_MAX)
        return fl_error_set(err, -EINVAL, "namespace %u: identifiers go from 1 to %u", *nsid, FL_NSID_MAX);
    if (*nsid && ss->ns[*nsid])
        return fl_error_set(err, -EEXIST, "namespace %u is there already in %s", *nsid, ss->nqn);
    if (*nsid)
        return 0;
    for (uint32_t i = 1; i <= FL_NSID_MAX; i++) {
        if (!ss->ns[i]) {
            *nsid = i;
            return 0;
        }
    }
    return fl_error_set(err, -ENOSPC, "%s has %u namespaces, the most that there can be", ss->nqn,
                        FL_NSID_MAX);
}

/* Hosts refuse two namespaces with the same identity (Linux: "duplicate IDs"), and so do we, with a better
 * word. */
static int check_uuid(struct fl_target *target, const uint8_t *uuid, const char *spec, struct fl_error *err)
{
    struct fl_subsystem *ss;

    fl_list_for_each (ss, &target->subsystems, link)
        for (uint32_t i = 1; ss->nr_ns && i <= FL_NSID_MAX; i++)
            if (ss->ns[i] && !memcmp(ss->ns[i]->uuid, uuid, 16))
                return fl_error_set(err, -ENOTUNIQ,
                                    "%s has the same UUID as namespace %u of %s (%s): is it the same data?",
                                    spec, i, ss->nqn, ss->ns[i]->spec);
    return 0;
}

static void fill_view(struct fl_tns *ns, struct fl_worker *w, struct fl_ns_view *view)
{
    const struct fl_backend *be = ns->be;

    view->ns = ns;
    view->worker = w;
    view->nsid = ns->nsid;
    view->ana_group = ns->ana_group;
    view->block_len = be->block_len;
    view->block_shift = (uint32_t)__builtin_ctz(be->block_len);
    view->nr_blocks = ns->len >> view->block_shift;
    view->mem = be->mem;
    view->marks = be->marks;
    view->mem_mask = be->mem_repeats ? 0 : UINT64_MAX;
    view->sync = be->sync;
    view->read_only = be->read_only;
    fl_list_init(&view->held);
    fl_list_init(&view->reading);
    fl_list_init(&view->aside.list);
}

static struct fl_tns *make_ns(struct fl_subsystem *ss, const struct fl_namespace_options *o, uint32_t nsid,
                              struct fl_backend *be)
{
    uint32_t nr = ss->target->nr_workers;
    struct fl_tns *ns = calloc(1, sizeof(*ns));
    struct fl_ns_view *views = aligned_alloc(FL_CACHE_LINE, nr * sizeof(*views));

    if (!ns || !views) {
        free(ns);
        free(views);
        return NULL;
    }
    memset(views, 0, nr * sizeof(*views));
    ns->ss = ss;
    ns->nsid = nsid;
    ns->ana_group = o->ana_group ? o->ana_group : 1;
    ns->be = be;
    ns->len = fl_backend_len(be);
    memcpy(ns->uuid, o->uuid ? o->uuid : be->uuid, sizeof(ns->uuid));
    snprintf(ns->spec, sizeof(ns->spec), "%s", o->spec);
    ns->resv.holder = -1;
    fl_list_init(&ns->resv_queue);
    fl_list_init(&ns->excl_queue);
    ns->views = views;
    if (be->marks)
        be->marks->alone = nr == 1;
    for (uint32_t i = 0; i < nr; i++)
        fill_view(ns, &ss->target->workers[i], &views[i]);
    return ns;
}

int fl_namespace_add(struct fl_subsystem *ss, const struct fl_namespace_options *o, uint32_t *nsid_out,
                     struct fl_error *err)
{
    uint32_t nsid = o->nsid;
    struct fl_backend *be;
    struct fl_round *round;
    struct fl_url *url;
    struct fl_tns *ns;
    int r = choose_nsid(ss, &nsid, err);

    if (r < 0)
        return r;
    if (o->ana_group > FL_ANA_GROUPS)
        return fl_error_set(err, -EINVAL, "ANA group %u: groups go from 1 to %u", o->ana_group,
                            FL_ANA_GROUPS);
    if (!strchr(o->spec, ':'))
        return fl_error_set(err, -EINVAL, "\"%.160s\" is no namespace: a file is file:%.160s", o->spec,
                            o->spec);
    url = calloc(1, sizeof(*url));
    if (!url)
        return fl_error_set(err, -ENOMEM, "no memory for %s", o->spec);
    r = fl_url_parse(o->spec, url, err);
    if (r >= 0)
        r = fl_backend_open(url, &be, err);
    free(url);
    if (r < 0)
        return r;
    r = check_uuid(ss->target, o->uuid ? o->uuid : be->uuid, o->spec, err);
    if (r < 0)
        goto close;
    r = -ENOMEM;
    ns = make_ns(ss, o, nsid, be);
    round = ns ? fl_round_new(ss->target, attach, attached) : NULL;
    if (!round) {
        if (ns)
            free(ns->views);
        free(ns);
        fl_error_set(err, r, "no memory for %s", o->spec);
        goto close;
    }
    fl_resv_load(ns);
    ss->ns[nsid] = ns;
    ss->nr_ns++;
    if (be->ops->look)
        fl_look_after(ss->target);
    round->arg[0] = ns;
    fl_round_start(round);
    if (nsid_out)
        *nsid_out = nsid;
    return 0;

close:
    fl_backend_close(be);
    return r;
}

/* ---- another size ---- */

static int would_shrink(const struct fl_tns *ns, uint64_t len, struct fl_error *err)
{
    return fl_error_set(err, -EINVAL,
                        "namespace %u has %llu bytes and would shrink to %llu: what lies behind would be "
                        "lost (--force does it)",
                        ns->nsid, (unsigned long long)ns->len, (unsigned long long)len);
}

static void resize_view(struct fl_round_leg *leg)
{
    struct fl_subsystem *ss = leg->round->arg[0];
    struct fl_ns_view *view = ss->tables[leg->worker->index][(uintptr_t)leg->round->arg[1]];

    if (view)
        view->nr_blocks = (uint64_t)(uintptr_t)leg->round->arg[2] >> view->block_shift;
    fl_round_ack(leg);
}

static void resized(struct fl_round *round)
{
    struct fl_subsystem *ss = round->arg[0];
    uint32_t nsid = (uint32_t)(uintptr_t)round->arg[1];
    struct fl_tns *ns = fl_tns_find(ss, nsid);

    ss->nr_ns_closing--;
    if (ns) {
        ns->len = (uint64_t)(uintptr_t)round->arg[2];
        fl_aer_ns_changed(ss, nsid);
    }
    fl_subsystem_check_removed(ss);
}

int fl_namespace_resize(struct fl_subsystem *ss, uint32_t nsid, uint64_t len, bool force,
                        struct fl_error *err)
{
    struct fl_tns *ns = nsid && nsid <= FL_NSID_MAX ? ss->ns[nsid] : NULL;
    struct fl_round *round;
    uint64_t had, found;
    int r;

    if (!ns || ns->remove_asked)
        return fl_error_set(err, -ENOENT, "namespace %u of %s does not exist", nsid, ss->nqn);
    had = ns->len;
    if (len % ns->be->block_len)
        return fl_error_set(err, -EINVAL, "namespace %u cannot become %llu bytes: its blocks have %u", nsid,
                            (unsigned long long)len, ns->be->block_len);
    found = len ? len : ns->be->ops->found_len ? ns->be->ops->found_len(ns->be) : had;
    if (found && found < had && !force)
        return would_shrink(ns, found, err);
    if (!ns->be->ops->resize)
        return fl_error_set(err, -EOPNOTSUPP, "a %s namespace keeps its size of %llu bytes",
                            ns->be->ops->kind, (unsigned long long)had);
    round = fl_round_new(ss->target, resize_view, resized);
    if (!round)
        return fl_error_set(err, -ENOMEM, "no memory to resize namespace %u", nsid);
    r = ns->be->ops->resize(ns->be, len, err);
    if (r < 0) {
        free(round);
        return fl_error_wrap(err, r, "namespace %u stays at %llu bytes", nsid, (unsigned long long)had);
    }
    ss->nr_ns_closing++; /* holds the subsystem until the round is over */
    round->arg[0] = ss;
    round->arg[1] = (void *)(uintptr_t)nsid;
    round->arg[2] = (void *)(uintptr_t)fl_backend_len(ns->be);
    fl_round_start(round);
    return 0;
}
