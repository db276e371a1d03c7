/* SPDX-License-Identifier: Apache-2.0 */
/* JSON objects into structs, by the same schemas as the YAML file. */
#ifndef FARLANE_JSON_BODY_H
#define FARLANE_JSON_BODY_H

#include <cyaml/cyaml.h>
#include <jansson.h>

#include <farlane/error.h>

/* `schema` is of a mapping by pointer. On failure `field` is where ("namespaces[0].spec"). *data is to be
 * freed in both cases. */
int json_body_take(const json_t *json, const cyaml_schema_value_t *schema, void **data, char *field,
                   size_t field_len, struct fl_error *err);
void json_body_free(const cyaml_schema_value_t *schema, void *data);

#endif
