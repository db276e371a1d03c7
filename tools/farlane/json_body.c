/* SPDX-License-Identifier: Apache-2.0 */
#include "json_body.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/util.h"
#include "cmd.h"

struct take {
    char *field;
    size_t field_len;
    struct fl_error *err;
};

static int take_value(struct take *t, const json_t *json, const cyaml_schema_value_t *schema, void *at);

static int refuse(struct take *t, const char *what)
{
    return fl_error_set(t->err, -EINVAL, "%s %s", t->field[0] ? t->field : "the body", what);
}

/* ---- values: `at` is where the value, or the pointer to it, lies ---- */

static int take_string(struct take *t, const json_t *json, const cyaml_schema_value_t *schema, char **at)
{
    char number[32];
    const char *text;
    size_t len;

    if (json_is_string(json)) {
        text = json_string_value(json);
        len = json_string_length(json);
    } else if (json_is_integer(json) &&
               schema->string.max <= 32) { /* a size may be a plain number of bytes */
        len = (size_t)snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(json));
        text = number;
    } else {
        return refuse(t, "needs to be a text");
    }
    if (len < schema->string.min || len > schema->string.max)
        return fl_error_set(t->err, -EINVAL, "%s has %zu characters; allowed are %u to %u", t->field, len,
                            schema->string.min, schema->string.max);
    *at = strdup(text);
    return *at ? 0 : -ENOMEM;
}

static int take_uint(struct take *t, const json_t *json, uint32_t **at)
{
    json_int_t v = json_integer_value(json);

    if (!json_is_integer(json) || v < 0 || v > (json_int_t)UINT32_MAX)
        return refuse(t, "needs to be a whole number from 0 to 4294967295");
    *at = malloc(sizeof(**at));
    if (!*at)
        return -ENOMEM;
    **at = (uint32_t)v;
    return 0;
}

static int take_bool(struct take *t, const json_t *json, bool **at)
{
    if (!json_is_boolean(json))
        return refuse(t, "needs to be true or false");
    *at = malloc(sizeof(**at));
    if (!*at)
        return -ENOMEM;
    **at = json_is_true(json);
    return 0;
}

static int take_sequence(struct take *t, const json_t *json, const cyaml_schema_value_t *schema, void **at,
                         uint32_t *count)
{
    const cyaml_schema_value_t *entry = schema->sequence.entry;
    size_t size = entry->flags & CYAML_FLAG_POINTER ? sizeof(void *) : entry->data_size;
    size_t base = strlen(t->field), nr = json_array_size(json), i;

    if (!json_is_array(json))
        return refuse(t, "needs to be a list");
    if (nr > schema->sequence.max)
        return refuse(t, "has too many entries");
    if (nr == 0)
        return 0;
    *at = calloc(nr, size);
    if (!*at)
        return -ENOMEM;
    for (i = 0; i < nr; i++) {
        int rc;

        snprintf(t->field + base, t->field_len - base, "[%zu]", i);
        *count = (uint32_t)i + 1; /* what is half taken is freed, too */
        rc = take_value(t, json_array_get(json, i), entry, (char *)*at + i * size);
        if (rc < 0)
            return rc;
        t->field[base] = 0;
    }
    return 0;
}

/* ---- objects ---- */

static const cyaml_schema_field_t *find_field(const cyaml_schema_field_t *fields, const char *key)
{
    for (; fields->key; fields++)
        if (!strcmp(fields->key, key))
            return fields;
    return NULL;
}

static int refuse_key(struct take *t, const cyaml_schema_field_t *fields)
{
    char allowed[240] = "";
    size_t at = 0;

    for (; fields->key; fields++) {
        at += (size_t)snprintf(allowed + at, sizeof(allowed) - at, "%s%s", at ? ", " : "", fields->key);
        at = FL_MIN(at, sizeof(allowed) - 1);
    }
    return fl_error_set(t->err, -EINVAL, "%s is not known here; allowed: %s", t->field, allowed);
}

static int take_mapping(struct take *t, const json_t *json, const cyaml_schema_value_t *schema, char *data)
{
    const cyaml_schema_field_t *fields = schema->mapping.fields, *f;
    size_t base = strlen(t->field);
    const char *key;
    json_t *value;
    int rc;

    if (!json_is_object(json))
        return refuse(t, "needs to be an object, { }");
    json_object_foreach((json_t *)json, key, value)
    {
        snprintf(t->field + base, t->field_len - base, "%s%.60s", base ? "." : "", key);
        f = find_field(fields, key);
        if (!f)
            return refuse_key(t, fields);
        if (json_is_null(value) && f->value.flags & CYAML_FLAG_OPTIONAL) {
            t->field[base] = 0;
            continue;
        }
        if (f->value.type == CYAML_SEQUENCE)
            rc = take_sequence(t, value, &f->value, (void **)(data + f->data_offset),
                               (uint32_t *)(data + f->count_offset));
        else
            rc = take_value(t, value, &f->value, data + f->data_offset);
        if (rc < 0)
            return rc;
        t->field[base] = 0;
    }
    for (f = fields; f->key; f++) {
        if (f->value.flags & CYAML_FLAG_OPTIONAL || json_object_get(json, f->key))
            continue;
        snprintf(t->field + base, t->field_len - base, "%s%s", base ? "." : "", f->key);
        return refuse(t, "is missing");
    }
    return 0;
}

static int take_value(struct take *t, const json_t *json, const cyaml_schema_value_t *schema, void *at)
{
    switch (schema->type) {
    case CYAML_STRING:
        return take_string(t, json, schema, at);
    case CYAML_UINT:
        return take_uint(t, json, at);
    case CYAML_BOOL:
        return take_bool(t, json, at);
    case CYAML_MAPPING:
        return take_mapping(t, json, schema, at);
    default:
        return refuse(t, "cannot be set here");
    }
}

int json_body_take(const json_t *json, const cyaml_schema_value_t *schema, void **data, char *field,
                   size_t field_len, struct fl_error *err)
{
    struct take t = {.field = field, .field_len = field_len, .err = err};
    int rc;

    field[0] = 0;
    *data = calloc(1, schema->data_size);
    rc = *data ? take_mapping(&t, json, schema, *data) : -ENOMEM;
    return rc < 0 ? fl_error_set(err, rc, "out of memory") : 0;
}

void json_body_free(const cyaml_schema_value_t *schema, void *data)
{
    const cyaml_config_t cyaml = {.mem_fn = cyaml_mem};

    cyaml_free(&cyaml, schema, data, 0);
}
