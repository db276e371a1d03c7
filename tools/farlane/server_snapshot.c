/* SPDX-License-Identifier: Apache-2.0 */
/* What runs now, as a configuration: for `farlane ctl save`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/url.h"
#include "base/util.h"
#include "base/uuid.h"
#include "server.h"

static void copy_settings(const struct config *from, struct config *to)
{
    config_set_text(&to->cores, from->cores);
    config_set_text(&to->poll, from->poll);
    config_set_text(&to->mdts, from->mdts);
    config_set_text(&to->capsule, from->capsule);
    config_set_text(&to->buffers, from->buffers);
    config_set_text(&to->control, from->control);
    config_set_text(&to->metrics, from->metrics);
    if (from->max_queues)
        config_set_number(&to->max_queues, *from->max_queues);
    if (from->shared_receives)
        config_set_number(&to->shared_receives, *from->shared_receives);
    if (from->max_depth)
        config_set_number(&to->max_depth, *from->max_depth);
}

static void note_subsystem(void *arg, const struct fl_subsystem_info *info)
{
    struct config_subsystem *ss;

    if (info->discovery)
        return;
    ss = config_add_subsystem(arg, info->nqn);
    config_set_text(&ss->serial, info->serial);
    config_set_text(&ss->model, info->model);
    config_set_bool(&ss->allow_any_host, info->allow_any_host);
}

static struct config_subsystem *find(struct config *config, const char *nqn)
{
    uint32_t i;

    for (i = 0; i < config->nr_subsystems; i++)
        if (!strcmp(config->subsystems[i].nqn, nqn))
            return &config->subsystems[i];
    return NULL;
}

/* A namespace that was resized is as large after a restart; a file says its own size. Paths mean the same
 * from any folder. */
static void save_spec(struct config_namespace *ns, const struct fl_namespace_info *info)
{
    struct fl_url *url = malloc(sizeof(*url));
    char *text = config_absolute_spec(info->spec);

    if (url && fl_url_parse(text, url, NULL) == 0 && url->size && url->size != info->len) {
        url->size = info->len;
        fl_url_format(url, text, FL_URL_TEXT_LEN);
    }
    config_set_text(&ns->spec, text);
    free(url);
    free(text);
}

static void note_namespace(void *arg, const struct fl_namespace_info *info)
{
    struct config_subsystem *ss = find(arg, info->ss_nqn);
    char text[FL_UUID_TEXT_LEN];
    struct config_namespace *ns;
    struct fl_uuid uuid;

    if (!ss || strcmp(info->state, "active"))
        return;
    ns = config_add_namespace(ss, info->spec);
    save_spec(ns, info);
    config_set_number(&ns->nsid, info->nsid);
    config_set_number(&ns->ana_group, info->ana_group);
    memcpy(uuid.b, info->uuid, sizeof(uuid.b));
    if (!fl_uuid_is_zero(&uuid))
        config_set_text(&ns->uuid, fl_uuid_format(&uuid, text));
}

static void note_host(void *arg, const char *ss_nqn, const char *hostnqn)
{
    struct config_subsystem *ss = find(arg, ss_nqn);

    if (ss)
        config_add_host(ss, hostnqn);
}

static int by_id(const void *a, const void *b)
{
    const struct server_listener *x = a, *y = b;

    return x->id < y->id ? -1 : x->id > y->id;
}

static void add_listeners(struct server *s, struct config *config)
{
    uint32_t i, group;

    qsort(s->listeners, s->nr_listeners, sizeof(*s->listeners), by_id);
    for (i = 0; i < s->nr_listeners; i++) {
        const struct fl_listener_spec *spec = &s->listeners[i].spec;
        struct config_listener *l;
        char address[500];

        snprintf(address, sizeof(address), strchr(spec->host, ':') ? "%s://[%s]:%s%s%s" : "%s://%s:%s%s%s",
                 spec->transport, spec->host, spec->port, *spec->dev ? "?dev=" : "", spec->dev);
        l = config_add_listener(config, address);
        config_set_bool(&l->strict, spec->strict);
        config_set_bool(&l->hdgst, spec->hdgst);
        config_set_bool(&l->ddgst, spec->ddgst);
        for (group = 1; group <= FL_TARGET_ANA_GROUPS; group++) {
            const char *state = fl_target_ana(s->target, s->listeners[i].id, group);

            if (state && strcmp(state, "optimized"))
                config_add_ana(l, group, state);
        }
    }
}

struct config *server_snapshot(struct server *s)
{
    const struct fl_target_visitor subsystems = {.subsystem = note_subsystem};
    const struct fl_target_visitor parts = {.ns = note_namespace, .host = note_host};
    struct config *config = config_create();

    copy_settings(s->config, config);
    fl_target_visit(s->target, &subsystems, config);
    fl_target_visit(s->target, &parts, config);
    if (s->nr_listeners)
        add_listeners(s, config);
    return config;
}
