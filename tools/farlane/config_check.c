/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a YAML text against the schema before libcyaml loads it, by libyaml's events. libcyaml alone would
 * give the position of the value before an unknown key, take any word for `true`, and forget where values
 * stood once they are loaded.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <yaml.h>

#include "base/size.h"
#include "base/util.h"
#include "cmd.h"
#include "config_schema.h"

struct check {
    const char *name;
    yaml_parser_t parser;
    yaml_event_t event;
    bool have_event;
    struct config_marks *marks;
    struct fl_error *err;
    char path[256];
};

static int next_event(struct check *c)
{
    if (c->have_event)
        yaml_event_delete(&c->event);
    c->have_event = false;
    if (!yaml_parser_parse(&c->parser, &c->event)) {
        const yaml_mark_t *at = &c->parser.problem_mark;

        return fl_error_set(c->err, -EINVAL, "%s:%zu:%zu: not valid YAML: %s", c->name, at->line + 1,
                            at->column + 1, c->parser.problem ? c->parser.problem : "out of memory");
    }
    c->have_event = true;
    return 0;
}

static int refuse(struct check *c, const char *fmt, ...) FL_PRINTF(2, 3);
static int refuse(struct check *c, const char *fmt, ...)
{
    const yaml_mark_t *at = &c->event.start_mark;
    char text[360];
    va_list args;

    va_start(args, fmt);
    vsnprintf(text, sizeof(text), fmt, args);
    va_end(args);
    return fl_error_set(c->err, -EINVAL, "%s:%zu:%zu: %s", c->name, at->line + 1, at->column + 1, text);
}

static int note_mark(struct check *c)
{
    struct config_marks *m = c->marks;

    if (m->nr == m->cap) {
        uint32_t cap = m->cap ? m->cap * 2 : 64;
        struct config_mark *grown = realloc(m->mark, cap * sizeof(*grown));

        if (!grown)
            return fl_error_set(c->err, -ENOMEM, "out of memory");
        m->mark = grown;
        m->cap = cap;
    }
    m->mark[m->nr++] = (struct config_mark){
        .path = strdup(c->path),
        .line = (uint32_t)c->event.start_mark.line + 1,
        .column = (uint32_t)c->event.start_mark.column + 1,
    };
    return 0;
}

/* ---- values ---- */

static const char *kind_of(const cyaml_schema_value_t *schema)
{
    switch (schema->type) {
    case CYAML_MAPPING:
        return "a block of keys";
    case CYAML_SEQUENCE:
        return "a list (lines that start with '- ')";
    case CYAML_BOOL:
        return "true or false";
    case CYAML_UINT:
        return "a number";
    default:
        return "a text";
    }
}

static int refuse_kind(struct check *c, const cyaml_schema_value_t *schema)
{
    if (c->event.type == YAML_ALIAS_EVENT)
        return refuse(c, "aliases (*%s) are not used in this file", (const char *)c->event.data.alias.anchor);
    return refuse(c, "%s%sneeds %s", c->path, c->path[0] ? " " : "the file ", kind_of(schema));
}

static bool is_bool(const char *text)
{
    static const char *const words[] = {"true", "false", "yes", "no", "on", "off"};
    size_t i;

    for (i = 0; i < FL_ARRAY_LEN(words); i++)
        if (!strcasecmp(text, words[i]))
            return true;
    return false;
}

static int check_scalar(struct check *c, const cyaml_schema_value_t *schema)
{
    struct fl_error err = {0};
    const char *text;
    uint64_t number;
    size_t len;

    if (c->event.type != YAML_SCALAR_EVENT)
        return refuse_kind(c, schema);
    text = (const char *)c->event.data.scalar.value;
    len = c->event.data.scalar.length;
    if (strlen(text) != len)
        return refuse(c, "%s has a zero byte in it", c->path);
    switch (schema->type) {
    case CYAML_BOOL:
        if (!is_bool(text))
            return refuse(c, "%s is true or false, not '%.40s'", c->path, text);
        return 0;
    case CYAML_UINT:
        if (fl_number_parse(text, 0, UINT32_MAX, c->path, &number, &err) < 0)
            return refuse(c, "%s", err.text);
        /* A number with leading zeroes would be octal to libcyaml. */
        if (text[0] == '0' && len > 1)
            return refuse(c, "%s starts with 0: write it without", c->path);
        return 0;
    case CYAML_STRING:
        if (len < schema->string.min || len > schema->string.max) {
            if (schema->string.min == schema->string.max)
                return refuse(c, "%s has %zu characters and needs %u", c->path, len, schema->string.min);
            return refuse(c, "%s has %zu characters; allowed are %u to %u", c->path, len, schema->string.min,
                          schema->string.max);
        }
        return 0;
    default:
        return refuse(c, "%s cannot be set here", c->path);
    }
}

static int check_value(struct check *c, const cyaml_schema_value_t *schema);

static int check_sequence(struct check *c, const cyaml_schema_value_t *schema)
{
    size_t base = strlen(c->path);
    uint32_t i;
    int rc;

    if (c->event.type != YAML_SEQUENCE_START_EVENT)
        return refuse_kind(c, schema);
    for (i = 0;; i++) {
        rc = next_event(c);
        if (rc < 0)
            return rc;
        if (c->event.type == YAML_SEQUENCE_END_EVENT)
            return 0;
        if (i >= schema->sequence.max)
            return refuse(c, "%s has more than %u entries", c->path, schema->sequence.max);
        snprintf(c->path + base, sizeof(c->path) - base, "[%u]", i);
        rc = check_value(c, schema->sequence.entry);
        if (rc < 0)
            return rc;
        c->path[base] = 0;
    }
}

/* ---- keys ---- */

#define MAX_FIELDS 32

static int refuse_key(struct check *c, const cyaml_schema_field_t *fields, const char *typed)
{
    const char *names[MAX_FIELDS + 1], *near;
    char allowed[240] = "";
    size_t i, at = 0;

    for (i = 0; fields[i].key && i < MAX_FIELDS; i++) {
        names[i] = fields[i].key;
        at += (size_t)snprintf(allowed + at, sizeof(allowed) - at, "%s%s", i ? ", " : "", fields[i].key);
        at = FL_MIN(at, sizeof(allowed) - 1);
    }
    names[i] = NULL;
    near = cmd_nearest(typed, names);
    if (near)
        return refuse(c, "unknown key '%.40s': did you mean '%s'? Allowed here: %s", typed, near, allowed);
    return refuse(c, "unknown key '%.40s'; allowed here: %s", typed, allowed);
}

static int check_entry(struct check *c, const cyaml_schema_field_t *fields, uint32_t *seen)
{
    size_t base = strlen(c->path), i;
    const char *key;
    int rc;

    if (c->event.type != YAML_SCALAR_EVENT)
        return refuse(c, "a key is a plain word");
    key = (const char *)c->event.data.scalar.value;
    for (i = 0; fields[i].key; i++)
        if (!strcmp(fields[i].key, key))
            break;
    if (!fields[i].key)
        return refuse_key(c, fields, key);
    if (*seen & 1u << i)
        return refuse(c, "'%s' stands here twice", key);
    *seen |= 1u << i;
    rc = next_event(c);
    if (rc < 0)
        return rc;
    snprintf(c->path + base, sizeof(c->path) - base, "%s%s", base ? "." : "", fields[i].key);
    rc = check_value(c, &fields[i].value);
    if (rc == 0)
        c->path[base] = 0;
    return rc;
}

static int check_mapping(struct check *c, const cyaml_schema_value_t *schema)
{
    const cyaml_schema_field_t *fields = schema->mapping.fields;
    yaml_mark_t start = c->event.start_mark;
    uint32_t seen = 0, i;
    int rc;

    if (c->event.type != YAML_MAPPING_START_EVENT)
        return refuse_kind(c, schema);
    for (;;) {
        rc = next_event(c);
        if (rc < 0)
            return rc;
        if (c->event.type == YAML_MAPPING_END_EVENT)
            break;
        rc = check_entry(c, fields, &seen);
        if (rc < 0)
            return rc;
    }
    for (i = 0; fields[i].key; i++)
        if (!(fields[i].value.flags & CYAML_FLAG_OPTIONAL) && !(seen & 1u << i))
            return fl_error_set(c->err, -EINVAL, "%s:%zu:%zu: %s has no '%s', which it needs", c->name,
                                start.line + 1, start.column + 1, c->path[0] ? c->path : "the file",
                                fields[i].key);
    return 0;
}

static int check_value(struct check *c, const cyaml_schema_value_t *schema)
{
    int rc = note_mark(c);

    if (rc < 0)
        return rc;
    switch (schema->type) {
    case CYAML_MAPPING:
        return check_mapping(c, schema);
    case CYAML_SEQUENCE:
        return check_sequence(c, schema);
    default:
        return check_scalar(c, schema);
    }
}

/* ---- the document ---- */

static int check_stream(struct check *c, const cyaml_schema_value_t *schema)
{
    int rc;

    do {
        rc = next_event(c);
        if (rc < 0 || c->event.type == YAML_STREAM_END_EVENT)
            return rc; /* an empty file is a configuration of defaults */
    } while (c->event.type == YAML_STREAM_START_EVENT || c->event.type == YAML_DOCUMENT_START_EVENT);
    if (c->event.type == YAML_SCALAR_EVENT && c->event.data.scalar.length == 0)
        return refuse(c, "the document is empty: leave out the '---', or write something");
    rc = check_value(c, schema);
    while (rc == 0 && c->event.type != YAML_STREAM_END_EVENT) {
        rc = next_event(c);
        if (rc == 0 && c->event.type == YAML_DOCUMENT_START_EVENT)
            return refuse(c, "a second document starts here; one is allowed");
    }
    return rc;
}

int config_check(const char *name, const char *text, size_t len, const cyaml_schema_value_t *schema,
                 struct config_marks *marks, struct fl_error *err)
{
    struct check c = {.name = name, .marks = marks, .err = err};
    int rc;

    if (len > CONFIG_MAX_LEN)
        return fl_error_set(err, -EFBIG, "%s is larger than 1 MiB", name);
    if (!yaml_parser_initialize(&c.parser))
        return fl_error_set(err, -ENOMEM, "out of memory");
    yaml_parser_set_input_string(&c.parser, (const unsigned char *)text, len);
    rc = check_stream(&c, schema);
    if (c.have_event)
        yaml_event_delete(&c.event);
    yaml_parser_delete(&c.parser);
    return rc;
}
