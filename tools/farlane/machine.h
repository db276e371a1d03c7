/* SPDX-License-Identifier: Apache-2.0 */
/* What a result that is kept should say of where and when it came about. */
#ifndef FARLANE_MACHINE_H
#define FARLANE_MACHINE_H

#include <stddef.h>

#include <jansson.h>

json_t *machine_json(void); /* host, kernel, cpu, cpus */
json_t *date_json(void);    /* now, as "2026-01-31T12:00:00Z" */

/* A sentence about `who` of some runs or measurements, in which threads of either end waited for a CPU for so
 * much of it. */
void machine_tell_waiting(double share, const char *of, const char *who, char *text, size_t len);

#endif
