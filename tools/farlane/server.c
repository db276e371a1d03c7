/* SPDX-License-Identifier: Apache-2.0 */
#include "server.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpulist.h"
#include "base/log.h"
#include "base/nqn.h"
#include "base/size.h"
#include "base/util.h"
#include "base/uuid.h"
#include "mem/pool.h"

#define SETTLE_NS (10 * FL_NS_PER_S)

/* ---- loops ---- */

static int parse_poll(const char *text, enum fl_poll_mode *mode, struct fl_error *err)
{
    *mode = FL_POLL_ADAPTIVE;
    if (!text || !strcmp(text, "adaptive"))
        return 0;
    *mode = FL_POLL_BUSY;
    if (!strcmp(text, "busy"))
        return 0;
    *mode = FL_POLL_SLEEP;
    if (!strcmp(text, "sleep"))
        return 0;
    return fl_error_set(err, -EINVAL, "poll '%.20s': allowed are adaptive, busy, sleep", text);
}

/* Without a list of cores: half of the CPUs that this process may use, at most 4 loops, not bound to any. */
static uint32_t default_nr_loops(void)
{
    cpu_set_t set;
    int n = sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 2;

    return (uint32_t)FL_MAX(1, FL_MIN(4, n / 2));
}

static int check_cores(const struct fl_cpulist *cores, struct fl_error *err)
{
    cpu_set_t set;
    uint32_t i;

    if (sched_getaffinity(0, sizeof(set), &set) < 0)
        return 0;
    for (i = 0; i < cores->nr; i++)
        if (cores->cpu[i] >= CPU_SETSIZE || !CPU_ISSET(cores->cpu[i], &set))
            return fl_error_set(err, -EINVAL, "CPU %u is not there, or not allowed for this process",
                                cores->cpu[i]);
    return 0;
}

static int create_loops(struct server *s, struct fl_error *err)
{
    struct fl_loop_options options = {.cpu = -1};
    struct fl_cpulist cores = {0};
    uint32_t i;
    int rc;

    rc = parse_poll(s->config->poll, &options.poll, err);
    if (rc < 0)
        return config_error_at(&s->marks, rc, err, "poll");
    if (s->config->cores) {
        rc = fl_cpulist_parse(s->config->cores, &cores, err);
        if (rc == 0)
            rc = check_cores(&cores, err);
        if (rc < 0)
            return config_error_at(&s->marks, rc, err, "cores");
    }
    s->nr_loops = s->config->cores ? cores.nr : default_nr_loops();
    s->loops = calloc(s->nr_loops, sizeof(*s->loops));
    s->threads = calloc(s->nr_loops, sizeof(*s->threads));
    if (!s->loops || !s->threads)
        return fl_error_set(err, -ENOMEM, "out of memory");
    for (i = 0; i < s->nr_loops; i++) {
        options.cpu = s->config->cores ? cores.cpu[i] : -1;
        rc = fl_loop_create(&options, &s->loops[i]);
        if (rc < 0)
            return fl_error_set(err, rc, "cannot create event loop %u: %s", i, strerror(-rc));
    }
    return 0;
}

static void *run_loop(void *arg)
{
    int rc = fl_loop_run(arg);

    if (rc < 0)
        FL_ERR("an event loop broke: %s", strerror(-rc));
    return NULL;
}

static int start_threads(struct server *s, struct fl_error *err)
{
    sigset_t all, old;
    int rc = 0;

    /* Signals are the control loop's. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    for (s->nr_threads = 0; s->nr_threads + 1 < s->nr_loops; s->nr_threads++) {
        rc = pthread_create(&s->threads[s->nr_threads + 1], NULL, run_loop, s->loops[s->nr_threads + 1]);
        if (rc)
            break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return rc ? fl_error_set(err, -rc, "cannot start a thread: %s", strerror(rc)) : 0;
}

/* ---- the target ---- */

static int size_setting(const struct server *s, const char *text, const char *key, uint64_t min, uint64_t max,
                        uint64_t *value, struct fl_error *err)
{
    char limit[FL_SIZE_TEXT_LEN];
    int rc;

    if (!text)
        return 0;
    rc = fl_size_parse(text, value, err);
    if (rc == 0 && *value > max)
        rc = fl_error_set(err, -EINVAL, "%s %s is too large: at most %s", key, text,
                          fl_size_format_exact(max, limit));
    if (rc == 0 && *value < min)
        rc = fl_error_set(err, -EINVAL, "%s %s is too small: at least %s", key, text,
                          fl_size_format_exact(min, limit));
    return rc < 0 ? config_error_at(&s->marks, rc, err, "%s", key) : 0;
}

/* The limits of a target's options, where 0 stands for the default; who writes 0 wants something else. */
static int count_settings(const struct server *s, struct fl_target_options *options, struct fl_error *err)
{
    const struct config *c = s->config;
    const struct {
        const char *key;
        const uint32_t *count;
        uint32_t min, max;
        bool or_none;
        uint32_t *value;
    } settings[] = {
        {"max_queues", c->max_queues, 1, 1024, false, &options->max_queues},
        {"max_depth", c->max_depth, 2, 1024, false, &options->max_depth},
        {"shared_receives", c->shared_receives, 8, 16384, true, &options->shared_recv},
    };

    for (size_t i = 0; i < FL_ARRAY_LEN(settings); i++) {
        const uint32_t *count = settings[i].count;

        if (!count)
            continue;
        if ((*count < settings[i].min && (*count || !settings[i].or_none)) || *count > settings[i].max) {
            fl_error_set(err, -EINVAL, "%s %u is out of range: %u to %u%s", settings[i].key, *count,
                         settings[i].min, settings[i].max, settings[i].or_none ? ", or 0 for none" : "");
            return config_error_at(&s->marks, -EINVAL, err, "%s", settings[i].key);
        }
        *settings[i].value = *count;
    }
    return 0;
}

static int create_target(struct server *s, struct fl_error *err)
{
    struct fl_target_options options = {.loops = s->loops, .nr_loops = s->nr_loops, .capsule_len = -1};
    const struct config *c = s->config;
    uint64_t mdts = 0, capsule = UINT64_MAX, buffers = 0;
    int rc;

    rc = size_setting(s, c->mdts, "mdts", 0, 1u << 20, &mdts, err);
    if (rc == 0 && c->mdts && (!fl_is_pow2(mdts) || mdts < FL_TARGET_MDTS_MIN)) {
        fl_error_set(err, -EINVAL, "mdts %s: a power of two from 8K to 1M", c->mdts);
        rc = config_error_at(&s->marks, -EINVAL, err, "mdts");
    }
    if (rc == 0)
        rc = size_setting(s, c->capsule, "capsule", 0, FL_TARGET_CAPSULE_MAX, &capsule, err);
    if (rc == 0 && c->capsule && capsule % 16) {
        fl_error_set(err, -EINVAL, "capsule %s: a multiple of 16 bytes", c->capsule);
        rc = config_error_at(&s->marks, -EINVAL, err, "capsule");
    }
    if (rc == 0)
        rc = size_setting(s, c->buffers, "buffers", FL_POOL_MAX_LEN, UINT64_C(1) << 40, &buffers, err);
    if (rc == 0)
        rc = count_settings(s, &options, err);
    if (rc < 0)
        return rc;
    options.mdts_len = (uint32_t)mdts;
    options.capsule_len = c->capsule ? (int64_t)capsule : -1;
    options.pool_len = (size_t)(buffers / s->nr_loops);
    return fl_target_create(&options, &s->target, err);
}

/* ---- what is served ---- */

static void set_field(char field[SERVER_FIELD_LEN], const char *name)
{
    snprintf(field, SERVER_FIELD_LEN, "%s", name);
}

int server_add_namespace(struct fl_subsystem *ss, const struct config_namespace *cfg, uint32_t *nsid,
                         char field[SERVER_FIELD_LEN], struct fl_error *err)
{
    struct fl_namespace_options options = {.spec = cfg->spec};
    struct fl_uuid uuid;
    int rc;

    if (cfg->nsid)
        options.nsid = *cfg->nsid;
    if (cfg->nsid && (*cfg->nsid == 0 || *cfg->nsid > FL_TARGET_NSID_MAX)) {
        set_field(field, "nsid");
        return fl_error_set(err, -EINVAL, "nsid %u is not possible: allowed are 1 to %u", *cfg->nsid,
                            FL_TARGET_NSID_MAX);
    }
    if (cfg->ana_group && (*cfg->ana_group == 0 || *cfg->ana_group > FL_TARGET_ANA_GROUPS)) {
        set_field(field, "ana_group");
        return fl_error_set(err, -EINVAL, "ANA group %u: groups go from 1 to %u", *cfg->ana_group,
                            FL_TARGET_ANA_GROUPS);
    }
    if (cfg->ana_group)
        options.ana_group = *cfg->ana_group;
    if (cfg->uuid) {
        set_field(field, "uuid");
        if (fl_uuid_parse(cfg->uuid, &uuid, err) < 0)
            return -EINVAL;
        options.uuid = uuid.b;
    }
    rc = fl_namespace_add(ss, &options, nsid, err);
    set_field(field, rc == -EEXIST && cfg->nsid ? "nsid" : rc == -ENOTUNIQ && cfg->uuid ? "uuid" : "spec");
    if (rc == -ENOTUNIQ && err)
        err->code = -EEXIST;
    return rc == -ENOTUNIQ ? -EEXIST : rc;
}

/* What a subsystem's -EINVAL is about. */
static const char *wrong_part(const struct config_subsystem *cfg)
{
    if (fl_nqn_check(cfg->nqn, FL_NQN_FIELD_LEN, NULL) < 0)
        return "nqn";
    return cfg->serial && !fl_subsystem_text_ok(cfg->serial, 20) ? "serial" : "model";
}

int server_add_subsystem(struct server *s, const struct config_subsystem *cfg, char field[SERVER_FIELD_LEN],
                         struct fl_error *err)
{
    struct fl_subsystem_options options = {
        .nqn = cfg->nqn,
        .serial = cfg->serial,
        .model = cfg->model,
        .allow_any_host = cfg->allow_any_host ? *cfg->allow_any_host : cfg->nr_hosts == 0,
    };
    struct fl_subsystem *ss;
    uint32_t i, nsid;
    int rc;

    set_field(field, "nqn");
    rc = fl_subsystem_add(s->target, &options, &ss, err);
    if (rc == -EINVAL)
        set_field(field, wrong_part(cfg));
    for (i = 0; rc == 0 && i < cfg->nr_hosts; i++) {
        snprintf(field, SERVER_FIELD_LEN, "hosts[%u]", i);
        rc = fl_subsystem_host_add(ss, cfg->hosts[i], err);
    }
    for (i = 0; rc == 0 && i < cfg->nr_namespaces; i++) {
        char part[SERVER_FIELD_LEN];

        rc = server_add_namespace(ss, &cfg->namespaces[i], &nsid, part, err);
        snprintf(field, SERVER_FIELD_LEN, "namespaces[%u].%.20s", i, part);
    }
    return rc;
}

int server_add_listener(struct server *s, const struct config_listener *cfg, uint32_t *id,
                        char field[SERVER_FIELD_LEN], struct fl_error *err)
{
    struct fl_listener_spec spec = {0};
    struct server_listener *grown;
    uint32_t i;
    int rc;

    set_field(field, "address");
    rc = fl_listener_spec_parse(cfg->address, &spec, err);
    if (rc < 0)
        return rc;
    spec.strict = cfg->strict && *cfg->strict;
    /* An address that isn't there yet is waited for. A port that another program has is not: somebody would
     * believe to serve, and hosts would talk to that program. */
    spec.exclusive = true;
    spec.hdgst = !cfg->hdgst || *cfg->hdgst;
    spec.ddgst = !cfg->ddgst || *cfg->ddgst;
    grown = realloc(s->listeners, (s->nr_listeners + 1) * sizeof(*grown));
    if (!grown)
        return fl_error_set(err, -ENOMEM, "out of memory");
    s->listeners = grown;
    rc = fl_target_listen(s->target, &spec, id, err);
    if (rc < 0)
        return rc;
    for (i = 0; rc == 0 && i < cfg->nr_ana; i++) { /* before the first host is let in */
        const uint32_t group = *cfg->ana[i].group;

        rc = fl_target_set_ana(s->target, *id, group, cfg->ana[i].state, err);
        snprintf(field, SERVER_FIELD_LEN, "ana[%u].%s", i,
                 group && group <= FL_TARGET_ANA_GROUPS ? "state" : "group");
    }
    if (rc < 0) {
        fl_target_unlisten(s->target, *id, NULL);
        return rc;
    }
    s->listeners[s->nr_listeners++] = (struct server_listener){.id = *id, .spec = spec};
    return 0;
}

int server_remove_listener(struct server *s, uint32_t id, struct fl_error *err)
{
    uint32_t i;
    int rc = fl_target_unlisten(s->target, id, err);

    if (rc < 0)
        return rc;
    for (i = 0; i < s->nr_listeners; i++)
        if (s->listeners[i].id == id)
            break;
    if (i < s->nr_listeners)
        s->listeners[i] = s->listeners[--s->nr_listeners];
    return 0;
}

static int add_all(struct server *s, struct fl_error *err)
{
    const struct config *c = s->config;
    char field[SERVER_FIELD_LEN];
    uint32_t i, id;
    int rc;

    for (i = 0; i < c->nr_subsystems; i++) {
        rc = server_add_subsystem(s, &c->subsystems[i], field, err);
        if (rc < 0)
            return config_error_at(&s->marks, rc, err, "subsystems[%u].%s", i, field);
    }
    for (i = 0; i < c->nr_listeners; i++) {
        rc = server_add_listener(s, &c->listeners[i], &id, field, err);
        if (rc < 0)
            return config_error_at(&s->marks, rc, err, "listeners[%u].%s", i, field);
    }
    return 0;
}

int server_start(struct server *s, struct fl_error *err)
{
    int rc;

    s->start_ns = fl_now_ns();
    rc = create_loops(s, err);
    if (rc == 0)
        rc = create_target(s, err);
    if (rc == 0)
        rc = add_all(s, err);
    if (rc == 0)
        rc = start_threads(s, err);
    return rc;
}

static void note_opening(void *arg, const struct fl_namespace_info *info)
{
    *(bool *)arg |= !strcmp(info->state, "opening");
}

void server_settle(struct server *s)
{
    static const struct fl_target_visitor visitor = {.ns = note_opening};
    const uint64_t end_ns = fl_now_ns() + SETTLE_NS;
    bool opening = true;

    while (opening && fl_now_ns() < end_ns) {
        opening = false;
        fl_target_visit(s->target, &visitor, &opening);
        if (opening)
            fl_loop_turn(s->loops[0], FL_NS_PER_MS);
    }
    if (opening)
        FL_WARN("not every loop has every namespace yet: hosts may be told for a while that there is none");
}

int server_run(struct server *s)
{
    return fl_loop_run(s->loops[0]);
}

/* ---- the end ---- */

static void note_done(void *arg)
{
    *(bool *)arg = true;
}

static void stop_threads(struct server *s)
{
    uint32_t i;

    for (i = 1; i <= s->nr_threads; i++)
        fl_loop_stop(s->loops[i]);
    for (i = 1; i <= s->nr_threads; i++)
        pthread_join(s->threads[i], NULL);
    s->nr_threads = 0;
}

/* Before threads run, their loops are turned from here. */
static void turn_all(struct server *s)
{
    uint32_t i;

    for (i = s->nr_threads + 1; i < s->nr_loops; i++)
        fl_loop_turn(s->loops[i], 0);
    fl_loop_turn(s->loops[0], s->nr_threads + 1 < s->nr_loops ? FL_NS_PER_MS : 20 * FL_NS_PER_MS);
}

int server_drain(struct server *s, uint32_t deadline_ms)
{
    const uint64_t deadline = fl_now_ns() + deadline_ms * FL_NS_PER_MS;
    bool done = false;

    s->stopping = true;
    if (!s->target)
        return 0;
    fl_target_shutdown(s->target, note_done, &done);
    while (!done && fl_now_ns() < deadline)
        turn_all(s);
    return done ? 0 : -ETIMEDOUT;
}

void server_free(struct server *s)
{
    uint32_t i;

    stop_threads(s);
    if (s->target)
        fl_target_destroy(s->target);
    for (i = 0; s->loops && i < s->nr_loops; i++)
        if (s->loops[i])
            fl_loop_destroy(s->loops[i]);
    free(s->loops);
    free(s->threads);
    free(s->listeners);
    s->loops = NULL;
    s->threads = NULL;
    s->listeners = NULL;
    s->target = NULL;
}
