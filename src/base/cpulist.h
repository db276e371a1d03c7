/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of CPUs as Linux writes them: "0-3,8". */
#ifndef FL_BASE_CPULIST_H
#define FL_BASE_CPULIST_H

#include <stddef.h>
#include <stdint.h>

#include <farlane/error.h>

#define FL_CPULIST_MAX 1024 /* as in cpu_set_t */

struct fl_cpulist {
    uint32_t nr;
    uint16_t cpu[FL_CPULIST_MAX]; /* in the order written, each once */
};

/* Fails for an empty list, a CPU named twice, a range that runs backwards. */
int fl_cpulist_parse(const char *text, struct fl_cpulist *list, struct fl_error *err);

/* Returns the length that the whole text needs, like snprintf. */
int fl_cpulist_format(const struct fl_cpulist *list, char *buf, size_t len);

#endif
