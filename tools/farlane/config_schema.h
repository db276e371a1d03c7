/* SPDX-License-Identifier: Apache-2.0 */
/* Between config_yaml.c, which has the schema, and config_check.c, which checks a text against it. */
#ifndef FARLANE_CONFIG_SCHEMA_H
#define FARLANE_CONFIG_SCHEMA_H

#include <cyaml/cyaml.h>

#include "config.h"

extern const cyaml_schema_value_t config_schema;
/* Parts of it, for the bodies of requests. */
extern const cyaml_schema_value_t config_subsystem_schema, config_namespace_schema, config_listener_schema;

/* Goes over the text once, checks it against the schema, notes where each value stands. Errors have file,
 * line, column. */
int config_check(const char *name, const char *text, size_t len, const cyaml_schema_value_t *schema,
                 struct config_marks *marks, struct fl_error *err);

#endif
