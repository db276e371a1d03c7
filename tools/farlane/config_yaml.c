/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "config_schema.h"

/* ---- the schema: farlane.yaml(5) describes it ---- */

#define OPTIONAL CYAML_FLAG_OPTIONAL

static const cyaml_schema_field_t namespace_fields[] = {
    CYAML_FIELD_UINT_PTR("nsid", OPTIONAL, struct config_namespace, nsid),
    CYAML_FIELD_STRING_PTR("spec", 0, struct config_namespace, spec, 1, 4600),
    CYAML_FIELD_STRING_PTR("uuid", OPTIONAL, struct config_namespace, uuid, 36, 36),
    CYAML_FIELD_UINT_PTR("ana_group", OPTIONAL, struct config_namespace, ana_group),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t namespace_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct config_namespace, namespace_fields),
};

static const cyaml_schema_value_t host_entry = {
    CYAML_VALUE_STRING(CYAML_FLAG_POINTER, char *, 1, 223),
};

static const cyaml_schema_field_t subsystem_fields[] = {
    CYAML_FIELD_STRING_PTR("nqn", 0, struct config_subsystem, nqn, 1, 223),
    CYAML_FIELD_STRING_PTR("serial", OPTIONAL, struct config_subsystem, serial, 1, 20),
    CYAML_FIELD_STRING_PTR("model", OPTIONAL, struct config_subsystem, model, 1, 40),
    CYAML_FIELD_BOOL_PTR("allow_any_host", OPTIONAL, struct config_subsystem, allow_any_host),
    CYAML_FIELD_SEQUENCE_COUNT("hosts", OPTIONAL | CYAML_FLAG_POINTER, struct config_subsystem, hosts,
                               nr_hosts, &host_entry, 0, 4096),
    CYAML_FIELD_SEQUENCE_COUNT("namespaces", OPTIONAL | CYAML_FLAG_POINTER, struct config_subsystem,
                               namespaces, nr_namespaces, &namespace_entry, 0, 4096),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t subsystem_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct config_subsystem, subsystem_fields),
};

static const cyaml_schema_field_t ana_fields[] = {
    CYAML_FIELD_UINT_PTR("group", 0, struct config_ana, group),
    CYAML_FIELD_STRING_PTR("state", 0, struct config_ana, state, 1, 32),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t ana_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct config_ana, ana_fields),
};

static const cyaml_schema_field_t listener_fields[] = {
    CYAML_FIELD_STRING_PTR("address", 0, struct config_listener, address, 1, 400),
    CYAML_FIELD_BOOL_PTR("strict", OPTIONAL, struct config_listener, strict),
    CYAML_FIELD_BOOL_PTR("hdgst", OPTIONAL, struct config_listener, hdgst),
    CYAML_FIELD_BOOL_PTR("ddgst", OPTIONAL, struct config_listener, ddgst),
    CYAML_FIELD_SEQUENCE_COUNT("ana", OPTIONAL | CYAML_FLAG_POINTER, struct config_listener, ana, nr_ana,
                               &ana_entry, 0, 32),
    CYAML_FIELD_END,
};

static const cyaml_schema_value_t listener_entry = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_DEFAULT, struct config_listener, listener_fields),
};

static const cyaml_schema_field_t top_fields[] = {
    CYAML_FIELD_STRING_PTR("cores", OPTIONAL, struct config, cores, 1, 1000),
    CYAML_FIELD_STRING_PTR("poll", OPTIONAL, struct config, poll, 1, 16),
    CYAML_FIELD_UINT_PTR("max_queues", OPTIONAL, struct config, max_queues),
    CYAML_FIELD_UINT_PTR("max_depth", OPTIONAL, struct config, max_depth),
    CYAML_FIELD_UINT_PTR("shared_receives", OPTIONAL, struct config, shared_receives),
    CYAML_FIELD_STRING_PTR("mdts", OPTIONAL, struct config, mdts, 1, 32),
    CYAML_FIELD_STRING_PTR("capsule", OPTIONAL, struct config, capsule, 1, 32),
    CYAML_FIELD_STRING_PTR("buffers", OPTIONAL, struct config, buffers, 1, 32),
    CYAML_FIELD_STRING_PTR("control", OPTIONAL, struct config, control, 1, 107),
    CYAML_FIELD_STRING_PTR("metrics", OPTIONAL, struct config, metrics, 1, 400),
    CYAML_FIELD_SEQUENCE_COUNT("listeners", OPTIONAL | CYAML_FLAG_POINTER, struct config, listeners,
                               nr_listeners, &listener_entry, 0, 256),
    CYAML_FIELD_SEQUENCE_COUNT("subsystems", OPTIONAL | CYAML_FLAG_POINTER, struct config, subsystems,
                               nr_subsystems, &subsystem_entry, 0, 4096),
    CYAML_FIELD_END,
};

const cyaml_schema_value_t config_subsystem_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct config_subsystem, subsystem_fields),
};

const cyaml_schema_value_t config_namespace_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct config_namespace, namespace_fields),
};

const cyaml_schema_value_t config_listener_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct config_listener, listener_fields),
};

const cyaml_schema_value_t config_schema = {
    CYAML_VALUE_MAPPING(CYAML_FLAG_POINTER, struct config, top_fields),
};

/* ---- libcyaml ---- */

/* Its messages, made one line: the first that says what is wrong, with the innermost position of the
 * backtrace. */
struct complaint {
    char what[200];
    unsigned line, column;
};

static void note_complaint(cyaml_log_t level, void *ctx, const char *fmt, va_list args)
{
    struct complaint *c = ctx;
    char text[300], *at;

    if (level < CYAML_LOG_ERROR)
        return;
    vsnprintf(text, sizeof(text), fmt, args);
    text[strcspn(text, "\n")] = 0;
    at = strstr(text, "(line: ");
    if (at && !c->line && sscanf(at, "(line: %u, column: %u)", &c->line, &c->column) == 2)
        return;
    if (!c->what[0] && !strstr(text, "Backtrace"))
        snprintf(c->what, sizeof(c->what), "%.190s", text + (strncmp(text, "Load: ", 6) ? 0 : 6));
}

static cyaml_config_t settings(struct complaint *complaint)
{
    return (cyaml_config_t){
        .log_fn = note_complaint,
        .log_ctx = complaint,
        .log_level = CYAML_LOG_ERROR,
        .mem_fn = cyaml_mem,
        .flags = CYAML_CFG_NO_ALIAS | CYAML_CFG_STYLE_BLOCK,
    };
}

int config_load_text(const char *name, const char *text, size_t len, struct config **config,
                     struct config_marks *marks, struct fl_error *err)
{
    struct complaint complaint = {0};
    const cyaml_config_t cyaml = settings(&complaint);
    struct config *loaded = NULL;
    cyaml_err_t e;
    int rc;

    marks->file = strdup(name);
    rc = config_check(name, text, len, &config_schema, marks, err);
    if (rc < 0)
        return rc;
    e = cyaml_load_data((const uint8_t *)text, len, &cyaml, &config_schema, (cyaml_data_t **)&loaded, NULL);
    if (e != CYAML_OK)
        return fl_error_set(err, e == CYAML_ERR_OOM ? -ENOMEM : -EINVAL, "%s:%u:%u: %s", name, complaint.line,
                            complaint.column, complaint.what[0] ? complaint.what : cyaml_strerror(e));
    *config = loaded ? loaded : config_create();
    return 0;
}

int config_save_text(const struct config *config, char **text, size_t *len, struct fl_error *err)
{
    struct complaint complaint = {0};
    const cyaml_config_t cyaml = settings(&complaint);
    cyaml_err_t e = cyaml_save_data(text, len, &cyaml, &config_schema, config, 0);

    if (e != CYAML_OK)
        return fl_error_set(err, -EINVAL, "the configuration cannot be written as YAML: %s",
                            complaint.what[0] ? complaint.what : cyaml_strerror(e));
    return 0;
}

void config_free(struct config *config)
{
    struct complaint complaint = {0};
    const cyaml_config_t cyaml = settings(&complaint);

    cyaml_free(&cyaml, &config_schema, config, 0);
}
